//! What is known about the changes of each offset.
//!
//! A clear is right only if its offset was set without a break from its as-of revision on. So the committer remembers
//! when each offset changed last, and from which revision on it has seen every change.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use crate::bitmap::Bitmap;

use super::limits::Limits;
use super::request::KeyState;

/// How many views are told apart from those of another store.
const VIEWS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    limits: Limits,
    /// The newest state of the key with a complete history. Its content is the base's, or `head_content`.
    head: KeyState,
    /// What the head holds, where that is not the base: it lags behind, or a watch has run ahead.
    head_content: Option<Bitmap>,
    /// All changes of later revisions are known.
    since: u64,
    /// Which store this is the history of, by a number that no other committer has, and that is never 0.
    store: u32,
    /// Earlier revisions may be those of another store.
    trusted_from: u64,
    /// The revisions of the last views of this store, and of those of other stores that a pass may still be about.
    views: VecDeque<u64>,
    distrusted_views: Vec<u64>,
    /// The changes later than `since`: for each revision how many offsets changed, in order.
    revisions: VecDeque<(u64, u32)>,
    /// The offsets of all these revisions, one after the other.
    offsets: VecDeque<u32>,
    leaks: Option<Leaks>,
}

/// What a pass counts as leaked: on a busy key more changes between two passes than are remembered.
#[derive(Clone, Debug)]
struct Leaks {
    /// The revision of the pass's view.
    since: u64,
    /// Those that have not changed since, ascending.
    unchanged: Vec<u32>,
}

impl Changes {
    /// Nothing is known yet, and no store has this number.
    pub(super) fn new(limits: Limits, number: u32) -> Self {
        Self { limits, store: number.max(1), ..Self::default() }
    }

    /// Starts again at the base, whose key is in this state.
    pub(super) fn restart(&mut self, base: KeyState) {
        (self.head, self.head_content, self.since) = (base, None, base.mod_revision);
        self.revisions.clear();
        self.offsets.clear();
        self.leaks = None;
    }

    /// Goes on at the base, which the store has reached by changes that are not known.
    pub(super) fn skip_to(&mut self, base: KeyState) {
        self.restart(base);
    }

    /// Nothing is known of revisions before this one.
    pub(super) fn forget_before(&mut self, revision: u64) {
        self.since = self.since.max(revision);
        self.leaks = self.leaks.take().filter(|leaks| leaks.since >= revision);
    }

    /// Follows these offsets, ascending, from a view of this revision on.
    pub(super) fn follow(&mut self, since: u64, offsets: impl Iterator<Item = u32>) {
        let changed = self.changed_since(since).map(|changed| changed.collect::<BTreeSet<u32>>());
        self.leaks = changed.map(|changed| {
            let unchanged = offsets.filter(|offset| !changed.contains(offset));
            let mut unchanged: Vec<u32> = unchanged.take(self.limits.leaks).collect();
            unchanged.shrink_to_fit();
            Leaks { since, unchanged }
        });
    }

    /// A test whether a followed offset is unchanged since the view of this revision; `None` if none is followed from
    /// there.
    pub(super) fn followed_since(&self, revision: u64) -> Option<impl Fn(u32) -> bool + '_> {
        let leaks = self.leaks.as_ref().filter(|leaks| leaks.since == revision)?;
        Some(|offset| leaks.unchanged.binary_search(&offset).is_ok())
    }

    /// The store is another one, or an older state of the same: revisions up to this one tell nothing, unless they are
    /// known to be of this store.
    pub(super) fn distrust(&mut self, revision: u64) {
        self.trusted_from = self.trusted_from.max(revision + 1);
        self.begin_store();
        self.distrusted_views.extend(self.views.drain(..));
        self.restart(KeyState::default());
    }

    /// A store has answered that is not certainly the one before, were it the first of all: its number is another one.
    pub(super) fn begin_store(&mut self) {
        self.store = self.store.checked_add(1).unwrap_or(1);
    }

    /// Which store this is the history of.
    pub(super) fn store(&self) -> u32 {
        self.store
    }

    /// Whether this revision is certainly one of this store.
    pub(super) fn is_own(&self, revision: u64) -> bool {
        revision >= self.trusted_from
    }

    /// A view of this revision is handed out.
    pub(super) fn viewed(&mut self, revision: u64) {
        if self.views.back() != Some(&revision) {
            self.views.push_back(revision);
        }
        if self.views.len() > VIEWS {
            self.views.pop_front();
        }
    }

    /// Whether a view of this revision was handed out lately, and was one of this store.
    pub(super) fn is_own_view(&self, revision: u64) -> bool {
        self.views.contains(&revision) && !self.distrusted_views.contains(&revision)
    }

    /// Whether a pass whose view had this revision has seen this store. There is one pass at a time: that which was
    /// under way when the store became another one comes before all others.
    pub(super) fn accepts_pass(&mut self, view: u64) -> bool {
        let is_distrusted = mem::take(&mut self.distrusted_views).contains(&view);
        !is_distrusted && (self.is_own(view) || self.views.contains(&view))
    }

    /// The newest state of the key with a complete history.
    pub(super) fn head(&self) -> KeyState {
        self.head
    }

    /// What the head holds if that is not the base.
    pub(super) fn head_content(&self) -> Option<&Bitmap> {
        self.head_content.as_ref()
    }

    /// Whether all is known up to the base, and no further.
    pub(super) fn is_complete(&self) -> bool {
        self.head_content.is_none()
    }

    /// The head, which holds `content`, is not the base any more.
    pub(super) fn set_head_content(&mut self, content: Bitmap) {
        self.head_content = Some(content);
    }

    /// The head is the base.
    pub(super) fn join(&mut self) {
        self.head_content = None;
    }

    /// The key has gone from the head's state to the next one, which differs from it in these offsets.
    pub(super) fn advance(&mut self, to: KeyState, offsets: impl IntoIterator<Item = u32>) {
        self.head = to;
        let before = self.offsets.len();
        self.offsets.extend(offsets);
        if let Some(leaks) = &mut self.leaks {
            for offset in self.offsets.range(before..) {
                if let Ok(at) = leaks.unchanged.binary_search(offset) {
                    leaks.unchanged.remove(at);
                }
            }
        }
        self.revisions.push_back((to.mod_revision, (self.offsets.len() - before) as u32));
        while self.offsets.len() > self.limits.changes || self.revisions.len() > self.limits.revisions {
            let Some((revision, count)) = self.revisions.pop_front() else { break };
            self.offsets.drain(..count as usize);
            self.since = self.since.max(revision);
        }
    }

    /// Whether all changes after this revision of this store are known, up to the head.
    pub(super) fn knows(&self, revision: u64) -> bool {
        revision >= self.since
    }

    /// Whether `offset` is the same in every state from this revision of this store on, up to the head; `None` if that
    /// is not known.
    pub(super) fn is_unchanged_since(&self, offset: u32, revision: u64) -> Option<bool> {
        if !self.knows(revision) {
            return None;
        }
        let (older, newer) = self.offsets.as_slices();
        let start = self.offsets.len() - self.changes_after(revision);
        let (older, newer) = (&older[start.min(older.len())..], &newer[start.saturating_sub(older.len())..]);
        Some(!contains(older, offset) && !contains(newer, offset))
    }

    /// The same for the revisions that an owner names: since `as_of`, and since `oldest` as far back as is known. They
    /// are those of another store if the owner began its request when that one was known, and may be so if it names
    /// none, with 0.
    pub(super) fn is_unchanged_for_owner(&self, offset: u32, as_of: u64, oldest: u64, store: u32) -> Option<bool> {
        let is_own = if store == 0 { self.is_own(as_of) } else { store == self.store };
        if !is_own {
            return None;
        }
        self.is_unchanged_since(offset, as_of.min(oldest.max(self.since)))
    }

    /// The offsets that changed after this revision of this store, up to the head; `None` if that is not known.
    pub(super) fn changed_since(&self, revision: u64) -> Option<impl Iterator<Item = u32> + '_> {
        self.knows(revision).then(|| self.later(revision))
    }

    /// The offsets that changed after `revision`. Cost: linear in their number.
    fn later(&self, revision: u64) -> impl Iterator<Item = u32> + '_ {
        self.offsets.range(self.offsets.len() - self.changes_after(revision)..).copied()
    }

    /// How many changes came after `revision`. Cost: linear in the number of revisions after it.
    fn changes_after(&self, revision: u64) -> usize {
        if self.revisions.front().is_none_or(|(oldest, _)| *oldest > revision) {
            return self.offsets.len();
        }
        let newest = self.revisions.iter().rev().take_while(|(at, _)| *at > revision);
        newest.map(|(_, count)| *count as usize).sum()
    }
}

/// Whether `offset` is among these. The owner of an old value has the whole history searched: so many are compared at a
/// time that the compiler uses vector instructions.
fn contains(offsets: &[u32], offset: u32) -> bool {
    offsets.chunks(64).any(|chunk| chunk.iter().fold(false, |found, one| found | (*one == offset)))
}

/// The offsets in which two bitmaps of one length differ.
pub(super) fn differences(before: &Bitmap, after: &Bitmap) -> Vec<u32> {
    let (gone, new) = (before.difference(after), after.difference(before));
    gone.iter().chain(new.iter()).collect()
}

#[cfg(test)]
mod tests;
