//! A writer that behaves like the reference: kube-apiserver's allocator and repair loop (kubernetes
//! `pkg/registry/core/service/ipallocator/controller/repair.go`).

use crate::store::{Mask, bits};

/// For how many repairs a leak stays.
const REPAIRS_BEFORE_CLEANUP: u8 = 3;

/// The repair of the reference, with its counters.
///
/// They go down. One that is spent is never removed unless a Service uses the offset in the very moment of a repair, so
/// that an offset that was cleaned once is cleaned at once when it looks leaked again; and each repetition of a repair
/// after a conflict counts.
#[derive(Clone, Debug)]
pub struct ReferenceRepair {
    left: [Option<u8>; 64],
}

impl ReferenceRepair {
    /// Nothing is counted yet.
    pub fn new() -> Self {
        Self { left: [None; 64] }
    }

    /// What is to be stored, of what is stored and what Services use.
    pub fn rebuild(&mut self, stored: Mask, in_use: Mask) -> Mask {
        let mut rebuilt = in_use;
        for offset in bits(in_use) {
            self.left[offset as usize] = None;
        }
        for offset in bits(stored & !in_use) {
            let left = &mut self.left[offset as usize];
            let remaining = left.unwrap_or(REPAIRS_BEFORE_CLEANUP - 1);
            if remaining > 0 {
                *left = Some(remaining - 1);
                rebuilt |= 1 << offset;
            }
        }
        rebuilt
    }
}

impl Default for ReferenceRepair {
    fn default() -> Self {
        Self::new()
    }
}
