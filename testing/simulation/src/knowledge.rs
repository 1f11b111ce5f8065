//! What a server could know of the key's past: the states that answers and a watch have reported to it.
//!
//! The oracle derives this from the answers alone, beside the committer. So it can say whether a server could have
//! known that a release is wrong.

use rangekeeper::commit::Limits;

use crate::store::{Store, Version};

/// The states of the key that a server has seen since it started, or since the store was restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// By place in the log.
    seen: Vec<bool>,
    /// Before this revision nothing is known: a watch had failed, or a change was left out.
    floor: u64,
}

impl Knowledge {
    /// An answer or a watch has reported the state at this place in the log to the server.
    pub(crate) fn see(&mut self, at: usize) {
        if self.seen.len() <= at {
            self.seen.resize(at + 1, false);
        }
        self.seen[at] = true;
    }

    /// Whether it was.
    pub(crate) fn has_seen(&self, at: usize) -> bool {
        self.seen.get(at).is_some_and(|seen| *seen)
    }

    /// Nothing before this revision is known any more.
    pub(crate) fn forget_before(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
    }

    /// The revision after which a server knows all changes up to the state of revision `base`, and whether it has seen
    /// nothing older, with a gap in between.
    ///
    /// A server cannot know what was before the key was created or held no range, nor more changes than it remembers.
    pub(crate) fn since(
        &self,
        store: &Store,
        base: u64,
        limits: Limits,
        holds_range: impl Fn(&Version) -> bool,
    ) -> (u64, bool) {
        let Some(mut at) = store.at(base) else { return (self.floor, true) };
        let (mut revisions, mut changes) = (0, 0);
        while at > 0 {
            let version = &store.log[at];
            let is_first = version.key.as_ref().is_none_or(|key| key.state.version == 1);
            revisions += 1;
            changes += (version.mask ^ store.log[at - 1].mask).count_ones() as usize;
            let is_remembered = revisions <= limits.revisions && changes <= limits.changes;
            let is_seen = self.has_seen(at - 1);
            if is_first || !is_seen || !is_remembered || version.revision <= self.floor || !holds_range(version) {
                break;
            }
            at -= 1;
        }
        let mut older = self.seen.iter().take(at).zip(&store.log);
        let is_whole = !older.any(|(seen, version)| *seen && version.revision > self.floor);
        (store.log[at].revision.max(self.floor), is_whole)
    }
}
