//! What is known about the changes of each offset.
//!
//! A clear is right only if its offset was set without a break from its anchor on. So the committer remembers when each
//! offset changed last, and from which revision on it has seen every change.

use std::collections::{HashMap, VecDeque};

use crate::bitmap::Bitmap;

use super::request::Guard;

/// How many changes are remembered. With more, the oldest are forgotten, and so are all anchors before them.
const CAPACITY: usize = 2048;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The state of the key up to which all is known. What it holds is the base's content, or `apart`.
    head: Guard,
    /// What the head holds, where that is not the base: it lags behind, or a watch has run ahead.
    apart: Option<Bitmap>,
    /// All changes of later revisions are known.
    since: u64,
    /// Revisions up to this one are those of another store.
    foreign: u64,
    /// The revision of the last change of each offset, if that is later than `since`.
    changed: HashMap<u32, u64>,
    /// The same in order.
    order: VecDeque<(u64, u32)>,
}

impl History {
    /// Begins anew at the base, whose key is in this state.
    pub(super) fn restart(&mut self, base: Guard) {
        let (since, foreign) = (base.mod_revision.max(self.foreign), self.foreign);
        *self = Self { head: base, since, foreign, ..Self::default() };
    }

    /// Nothing is known of revisions before this one.
    pub(super) fn forget_before(&mut self, revision: u64) {
        self.since = self.since.max(revision);
    }

    /// The store is another one, or an older state of the same: revisions up to this one tell nothing.
    pub(super) fn distrust(&mut self, revision: u64) {
        self.foreign = self.foreign.max(revision);
        self.restart(Guard::default());
    }

    /// The state of the key up to which all is known.
    pub(super) fn head(&self) -> Guard {
        self.head
    }

    /// What the head holds if that is not the base.
    pub(super) fn apart(&self) -> Option<&Bitmap> {
        self.apart.as_ref()
    }

    /// Whether all is known up to the base, and no further.
    pub(super) fn is_complete(&self) -> bool {
        self.apart.is_none()
    }

    /// The head, which holds `content`, is not the base any more.
    pub(super) fn part(&mut self, content: Bitmap) {
        self.apart = Some(content);
    }

    /// The head is the base.
    pub(super) fn join(&mut self) {
        self.apart = None;
    }

    /// The key has gone from the head's state to the next one, which differs from it in these offsets.
    pub(super) fn advance(&mut self, to: Guard, offsets: impl IntoIterator<Item = u32>) {
        self.head = to;
        for offset in offsets {
            self.changed.insert(offset, to.mod_revision);
            self.order.push_back((to.mod_revision, offset));
        }
        while self.order.len() > CAPACITY {
            let Some((revision, _)) = self.order.front().copied() else { break };
            self.since = self.since.max(revision);
            while self.order.front().is_some_and(|(at, _)| *at == revision) {
                if let Some((_, offset)) = self.order.pop_front()
                    && self.changed.get(&offset) == Some(&revision)
                {
                    self.changed.remove(&offset);
                }
            }
        }
    }

    /// Whether `offset` is the same in every state from `anchor` on up to the head; `None` if that is not known.
    pub(super) fn is_unchanged(&self, offset: u32, anchor: u64) -> Option<bool> {
        if anchor < self.since {
            return None;
        }
        Some(self.changed.get(&offset).is_none_or(|revision| *revision <= anchor))
    }

    /// The offsets that changed after `revision`, up to the head; `None` if that is not known.
    pub(super) fn changed_since(&self, revision: u64) -> Option<impl Iterator<Item = u32> + '_> {
        let later = move |(offset, at): (&u32, &u64)| (*at > revision).then_some(*offset);
        (revision >= self.since).then(|| self.changed.iter().filter_map(later))
    }
}

/// The offsets in which two bitmaps of one length differ.
pub(super) fn differences(before: &Bitmap, after: &Bitmap) -> Vec<u32> {
    let (gone, new) = (before.difference(after), after.difference(before));
    gone.iter().chain(new.iter()).collect()
}
