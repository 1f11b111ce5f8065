//! How many offsets are set, found out when somebody asks.
//!
//! A restored bitmap is mostly changed a little and stored again, and nobody asks; to count its bits would take longer
//! than to copy them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while the number is not known. Additions and subtractions leave this bit alone, as a bitmap has fewer than 2^32
/// offsets; so they need not ask.
const UNKNOWN: u64 = 1 << 63;

/// The number of set offsets, or that it has to be counted.
#[derive(Debug)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn zero() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Makes the number unknown.
    pub(super) fn forget(&mut self) {
        // In the middle, so that as many may be taken off as be added.
        *self.0.get_mut() = UNKNOWN | UNKNOWN >> 1;
    }

    #[inline(always)]
    pub(super) fn add_one(&mut self) {
        let count = self.0.get_mut();
        *count = count.wrapping_add(1);
    }

    #[inline(always)]
    pub(super) fn take_one(&mut self) {
        let count = self.0.get_mut();
        *count = count.wrapping_sub(1);
    }

    /// The number; `count` finds it out if need be. Several threads may do so at once and come to the same.
    #[inline]
    pub(super) fn get(&self, count: impl FnOnce() -> u32) -> u32 {
        let known = self.0.load(Ordering::Relaxed);
        if known & UNKNOWN == 0 {
            return known as u32;
        }
        let counted = count();
        self.0.store(u64::from(counted), Ordering::Relaxed);
        counted
    }
}

impl Clone for Count {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}
