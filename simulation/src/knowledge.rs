//! What a server could know of the key's past: which states it was told of, by answers and by a watch.
//!
//! The oracle keeps this beside the committer, from the answers alone. So it can say of a release that went wrong whether the
//! server could have known better.

use rangekeeper::commit::limits::Limits;

use crate::store::{Store, Version};

/// The states of the key that a server was told of since it started, or since the store was restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// By place in the log.
    told: Vec<bool>,
    /// Before this revision nothing is known: a watch had failed, or a change was left out.
    floor: u64,
}

impl Knowledge {
    /// The server was told of the state at this place in the log.
    pub(crate) fn tell(&mut self, at: usize) {
        if self.told.len() <= at {
            self.told.resize(at + 1, false);
        }
        self.told[at] = true;
    }

    /// Whether it was.
    pub(crate) fn is_told(&self, at: usize) -> bool {
        self.told.get(at).is_some_and(|told| *told)
    }

    /// Nothing before this revision is known any more.
    pub(crate) fn forget_before(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
    }

    /// The revision after which a server knows all changes up to the state of revision `base`, and whether it was told of
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
            let is_told = self.is_told(at - 1);
            if is_first || !is_told || !is_remembered || version.revision <= self.floor || !holds_range(version) {
                break;
            }
            at -= 1;
        }
        let mut older = self.told.iter().take(at).zip(&store.log);
        let is_whole = !older.any(|(told, version)| *told && version.revision > self.floor);
        (store.log[at].revision.max(self.floor), is_whole)
    }
}
