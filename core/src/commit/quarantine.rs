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
