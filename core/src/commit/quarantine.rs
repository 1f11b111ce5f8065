//! Recently cleared offsets, which are allocated last.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bitmap::Bitmap;

use super::limits::Limits;
use super::recent::Recent;

/// The newest cleared offsets are at most one in so many of the range.
const SHARE: u32 = 4;

/// The offsets that were cleared within the last grace, and the newest of them.
///
/// A stock kube-apiserver releases a value before it writes the Service that drops it (`registry.Store.Update` calls
/// `FinishFunc` in the update function), so a new owner can be stored first.
#[derive(Clone, Debug)]
pub(super) struct Quarantine {
    recent: Recent<2>,
    /// The newest cleared offsets, the oldest of them first.
    last: VecDeque<u32>,
    capacity: usize,
}

impl Quarantine {
    /// How many levels there are: level 0 excludes all of its offsets from a pick, level 1 the newest only.
    pub(super) const LEVELS: usize = 2;

    pub(super) fn new(len: u32, grace: Duration, limits: Limits) -> Self {
        let capacity = (len / SHARE).clamp(1, limits.quarantine) as usize;
        Self { recent: Recent::new(len, grace), last: VecDeque::with_capacity(capacity), capacity }
    }

    /// Drops what was cleared before the grace.
    pub(super) fn advance(&mut self, now: Duration) {
        self.recent.advance(now);
    }

    pub(super) fn insert(&mut self, offset: u32) {
        self.recent.insert(offset);
        if self.last.len() == self.capacity {
            self.last.pop_front();
        }
        self.last.push_back(offset);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// Adds the offsets that this level excludes from a pick to `set`.
    pub(super) fn add_to(&self, level: usize, set: &mut Bitmap) {
        if level == 0 {
            return self.recent.add_to(set);
        }
        for offset in &self.last {
            set.insert(*offset);
        }
    }

    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{GRACE, SIZE, bitmap};
    use super::*;

    fn excluded(quarantine: &Quarantine, level: usize) -> Bitmap {
        let mut set = bitmap([]);
        quarantine.add_to(level, &mut set);
        set
    }

    #[test]
    fn the_last_level_excludes_the_newest_only() {
        let mut quarantine = Quarantine::new(SIZE, GRACE, Limits { quarantine: 2, ..Limits::default() });
        [1, 2, 3, 4].into_iter().for_each(|offset| quarantine.insert(offset));
        assert_eq!(excluded(&quarantine, 0), bitmap([1, 2, 3, 4]));
        assert_eq!(excluded(&quarantine, Quarantine::LEVELS - 1), bitmap([3, 4]));
        quarantine.clear();
        assert!(quarantine.is_empty() && excluded(&quarantine, 1) == bitmap([]));
    }

    #[test]
    fn the_last_level_excludes_a_quarter_of_a_small_range_at_most() {
        let mut quarantine = Quarantine::new(8, GRACE, Limits::default());
        (0..8).for_each(|offset| quarantine.insert(offset));
        assert_eq!(excluded(&quarantine, 1), bitmap([6, 7]));
    }

    #[test]
    fn the_quarantine_ends_with_the_grace() {
        let mut quarantine = Quarantine::new(SIZE, GRACE, Limits::default());
        quarantine.insert(1);
        quarantine.advance(GRACE);
        assert!(!quarantine.is_empty());
        quarantine.advance(GRACE * 2);
        assert!(quarantine.is_empty());
    }
}
