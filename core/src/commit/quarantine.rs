//! Offsets that were cleared and are better not handed out again so soon.

use std::collections::VecDeque;
use std::time::Duration;

use crate::bitmap::Bitmap;

use super::limits::Limits;
use super::recent::Recent;

/// Which share of the range the last cleared offsets are at most that are told apart.
const SHARE: u32 = 4;

/// What was cleared within the last grace, and which of that last.
///
/// An unchanged kube-apiserver gives back what an update of a Service drops before it writes the Service without it
/// (`registry.Store.Update` calls `FinishFunc` in the update function): who gets it at once may be written first.
#[derive(Clone, Debug)]
pub(super) struct Quarantine {
    recent: Recent<2>,
    /// The oldest first.
    last: VecDeque<u32>,
    capacity: usize,
}

impl Quarantine {
    /// How often it yields: first all are spared, then the last ones only.
    pub(super) const LEVELS: usize = 2;

    pub(super) fn new(len: u32, grace: Duration, limits: Limits) -> Self {
        let capacity = (len / SHARE).clamp(1, limits.quarantine) as usize;
        Self { recent: Recent::new(len, grace), last: VecDeque::with_capacity(capacity), capacity }
    }

    /// Lets go what was cleared before the grace.
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

    /// Adds to `set` what is spared after it has yielded so often.
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

    fn held_back(quarantine: &Quarantine, level: usize) -> Bitmap {
        let mut set = bitmap([]);
        quarantine.add_to(level, &mut set);
        set
    }

    #[test]
    fn the_last_level_holds_back_the_newest_only() {
        let mut quarantine = Quarantine::new(SIZE, GRACE, Limits { quarantine: 2, ..Limits::default() });
        [1, 2, 3, 4].into_iter().for_each(|offset| quarantine.insert(offset));
        assert_eq!(held_back(&quarantine, 0), bitmap([1, 2, 3, 4]));
        assert_eq!(held_back(&quarantine, Quarantine::LEVELS - 1), bitmap([3, 4]));
        quarantine.clear();
        assert!(quarantine.is_empty() && held_back(&quarantine, 1) == bitmap([]));
    }

    #[test]
    fn the_last_level_holds_back_a_quarter_of_a_small_range_at_most() {
        let mut quarantine = Quarantine::new(8, GRACE, Limits::default());
        (0..8).for_each(|offset| quarantine.insert(offset));
        assert_eq!(held_back(&quarantine, 1), bitmap([6, 7]));
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
