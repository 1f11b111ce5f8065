//! The number of set offsets, counted on demand.
//!
//! Most restored bitmaps are changed a little and stored again, and their bits are never counted; counting takes longer
//! than copying.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while the number is unknown. A bitmap has fewer than 2^32 offsets, so additions and subtractions never reach
/// this bit and need no test for it.
const UNKNOWN: u64 = 1 << 63;

/// The number of set offsets, if it is known.
#[derive(Debug)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn zero() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Makes the number unknown.
    pub(super) fn forget(&mut self) {
        // In the middle, with the same room for subtractions as for additions.
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

    /// The number. Calls `count` if it is unknown; several threads may do so at once, with the same result.
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
