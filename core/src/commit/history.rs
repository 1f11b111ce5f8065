//! What a committer knows of its key: the newest state, the changes that led to it, and whether that is still so.

use std::cmp::Ordering;
use std::time::Duration;

use crate::allocator::{Allocator, Strategy};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::base::{Base, Content, RangeState, Readable};
use super::changes::{Changes, differences};
use super::connection::Connection;
use super::limits::Limits;
use super::operation::{Known, UNKNOWN_REVISION, View};
use super::protection::Protection;
use super::request::{Answer, Change, Header, KeyState, KeyValue};

/// What is known of the key.
#[derive(Clone, Debug)]
pub(super) struct History<R: Range> {
    range: R,
    strategy: Strategy,
    /// How many states of the key a watch may have to replay for an operation that comes later.
    replayed: u64,
    /// How many states of the key a watch may have to replay for an edit.
    followed: u64,
    /// The newest state that an answer or a watch has reported.
    base: Option<Base<R>>,
    /// What has changed up to it, or up to another state that a watch has reported.
    changes: Changes,
    /// What is known of the store.
    pub(super) connection: Connection,
    /// The newest state of the key that was returned as a view.
    viewed: u64,
    /// Whether history is needed though no operation waits for it.
    is_kept: bool,
    /// How often another store has answered than before.
    restores: u32,
}

/// What an answer with the current key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// The key is as it was known.
    Unchanged,
    /// The key was not known before.
    First,
    /// Another server has written the key.
    Foreign,
}

impl<R: Range> History<R> {
    /// Nothing is known of the key yet.
    pub(super) fn new(range: R, strategy: Strategy, limits: Limits, number: u32) -> Self {
        Self {
            range,
            strategy,
            replayed: limits.replayed,
            followed: limits.revisions as u64,
            base: None,
            changes: Changes::new(limits, number),
            connection: Connection::default(),
            viewed: 0,
            is_kept: false,
            restores: 0,
        }
    }

    pub(super) fn range(&self) -> R {
        self.range
    }

    /// The newest state that is known.
    pub(super) fn base(&self) -> Option<&Base<R>> {
        self.base.as_ref()
    }

    /// The newest state of the key that is known.
    pub(super) fn state(&self) -> Option<KeyState> {
        self.base.as_ref().map(|base| base.state)
    }

    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What is known without asking the store. Cost: O(1); after a change by others O(size / 64).
    pub(super) fn known(&self) -> Known {
        let unread = Known { store: self.store(), restores: self.restores, ..Known::default() };
        self.base.as_ref().map_or(unread, |base| {
            let initialised = base.is_initialised();
            let used = if initialised { base.used().count() } else { 0 };
            Known { revision: base.state.mod_revision, used, initialised, ..unread }
        })
    }

    /// How often another store has answered than before.
    pub(super) fn restores(&self) -> u32 {
        self.restores
    }

    /// Whether all changes up to the base are known, and no later ones.
    pub(super) fn is_complete(&self) -> bool {
        self.changes.is_complete()
    }

    /// Whether history is needed though no operation waits for it.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    pub(super) fn keep(&mut self, keep: bool) {
        self.is_kept = keep;
    }

    /// The state that a batch can be evaluated on; `None` if a read comes first.
    pub(super) fn current(&self, now: Duration) -> Option<&Base<R>> {
        let is_current = |base: &&Base<R>| base.state.mod_revision >= self.changes.head().mod_revision;
        self.base.as_ref().filter(is_current).filter(|_| !self.connection.needs_read(now))
    }

    /// Whether a watch has to catch up with the base. If it has run ahead, a read is missing instead.
    pub(super) fn watch_lags(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.state.mod_revision > self.changes.head().mod_revision)
    }

    /// From which revision on to watch the key. `is_needed` says that something waits for it, or did lately.
    pub(super) fn watch_from(&self, is_needed: bool) -> Option<u64> {
        let known = self.base.is_some() && self.changes.head() != KeyState::default();
        // The key was still as it is known when the last answer came. What lies before may be compacted.
        let answered = self.connection.answered_revision().filter(|_| self.is_complete()).unwrap_or(0);
        let watches = known && (self.is_kept || is_needed) && self.connection.may_watch();
        watches.then(|| self.changes.head().mod_revision.max(answered) + 1)
    }

    /// The watch reports a change. Returns whether that is the new base; no request may be evaluated on the old one
    /// then.
    pub(super) fn watched(&mut self, change: Change<'_>, is_asking: bool, protection: &mut Protection) -> bool {
        let Some(base) = self.base.as_ref().filter(|_| self.connection.may_watch()) else { return false };
        // Also if it cannot be used for the history.
        self.connection.watched(match change {
            Change::Put(key) => key.state.mod_revision,
            Change::Delete { revision } => revision,
        });
        let (head, base_revision) = (self.changes.head(), base.state.mod_revision);
        let key = match change {
            Change::Put(key) if key.state.mod_revision > head.mod_revision => key,
            Change::Delete { revision } if revision > head.mod_revision => {
                // Everything was clear then. The next answer reports what came next.
                self.connection.require_read();
                self.changes.restart(base.state);
                self.changes.forget_before(revision);
                return false;
            }
            Change::Put(_) | Change::Delete { .. } => return false,
        };
        if !key.state.follows_watched(head) {
            self.watch_failed();
            return false;
        }
        let seen = Base::decode(Some(key), self.range, self.strategy);
        let changes = differences(self.changes.head_content().unwrap_or(base.used()), seen.used());
        protection.changed(seen.used(), &changes);
        self.changes.advance(key.state, changes);
        self.note_loss(&seen, protection);
        if key.state.mod_revision == base_revision {
            self.changes.join();
        } else if key.state.mod_revision > base_revision && !is_asking {
            self.changes.join();
            self.base = Some(seen);
            return true;
        } else {
            self.changes.set_head_content(seen.used().clone());
        }
        false
    }

    /// The watch cannot report all changes: the store has compacted them, or has no watch. What is known up to the base
    /// stays known: the next answer shows whether the key has changed since.
    pub(super) fn watch_failed(&mut self) {
        if let Some(base) = &self.base {
            self.connection.watch_failed();
            if !self.is_complete() {
                self.changes.skip_to(base.state);
            }
        }
    }

    /// An answer has come, to a request that was sent when the store had reached a revision. Returns whether it is
    /// still the same store, as it was; else all that was known is forgotten.
    pub(super) fn answered(&mut self, now: Duration, header: Header, reached: u64, answer: Answer<'_>) -> bool {
        let is_same = self.connection.continues(header, reached) && !self.contradicts(header, answer);
        if !is_same {
            (self.base, self.viewed) = (None, 0);
            self.restores += 1;
        }
        let is_first = self.connection.answered_revision().is_none();
        match self.connection.answered(now, header, reached, is_same) {
            Some(distrusted) => self.changes.distrust(distrusted),
            // Between a request that began before and this answer, nobody would have noticed a restore.
            None if is_first => self.changes.begin_store(),
            None => {}
        }
        is_same
    }

    /// Whether the key is what it cannot be any more, or never was, in the store that is known. After a restore this
    /// can say what the header does not: etcd lets an operator raise the revision.
    fn contradicts(&self, header: Header, answer: Answer<'_>) -> bool {
        let (Some(base), Answer::Current(Some(key))) = (&self.base, answer) else { return false };
        if self.connection.has_watched_past(key.state.mod_revision, header.revision) {
            return true;
        }
        let contradicts = |known: KeyState, used: &Bitmap| match key.state.mod_revision.cmp(&known.mod_revision) {
            // A watch may have reported it already.
            _ if known.mod_revision > header.revision => false,
            Ordering::Less => true,
            Ordering::Equal => key.state != known || Base::decode(Some(key), self.range, self.strategy).used() != used,
            // A key that was recreated is not taken for the known one anyhow.
            Ordering::Greater if key.state.create_revision != known.create_revision => false,
            Ordering::Greater => {
                let changes = key.state.version.saturating_sub(known.version);
                !(1..=key.state.mod_revision - known.mod_revision).contains(&changes)
            }
        };
        contradicts(base.state, base.used())
            || self.changes.head_content().is_some_and(|used| contradicts(self.changes.head(), used))
    }

    /// An answer has reported what the key is.
    pub(super) fn adopt(&mut self, header: Header, key: Option<KeyValue<'_>>, protection: &mut Protection) -> Adopted {
        let state = key.map_or(KeyState::default(), |key| key.state);
        if self.state() == Some(state) {
            if state == KeyState::default() {
                // Missing again, maybe: it may have been there meanwhile.
                self.changes.forget_before(header.revision);
            }
            return Adopted::Unchanged;
        }
        let before = self.base.take();
        let adopted = if before.is_some() { Adopted::Foreign } else { Adopted::First };
        let base = Base::decode(key, self.range, self.strategy);
        match before.filter(|before| state.create_revision != 0 && state.is_same_key(before.state)) {
            Some(_) if self.changes.head() == state => self.changes.join(),
            Some(before) => {
                // What was cleared and set again in between is in use: only a watch reports that.
                let changes = differences(before.used(), base.used());
                protection.changed(base.used(), &changes);
                let complete = self.is_complete();
                if complete && state.is_next_version(before.state) {
                    self.changes.advance(state, changes);
                } else if !self.is_kept && state.version > self.changes.head().version + self.replayed {
                    self.changes.restart(state);
                } else if complete {
                    // A watch can report what came between, if a release needs it.
                    self.changes.set_head_content(before.used().clone());
                }
            }
            None => {
                // Deleted, recreated, or never seen.
                self.changes.restart(state);
                if state.create_revision == 0 {
                    self.changes.forget_before(header.revision);
                }
                protection.recreated();
            }
        }
        self.note_loss(&base, protection);
        self.base = Some(base);
        adopted
    }

    /// Notes that the key no longer has our range. Only a pass that lists Services after this may recreate it.
    fn note_loss(&mut self, seen: &Base<R>, protection: &mut Protection) {
        if seen.is_initialised() {
            return;
        }
        protection.recreated();
        self.changes.forget_before(seen.state.mod_revision);
    }

    /// Whether what is known does not reach back to this revision of the present store, but its state then may be asked
    /// for.
    pub(super) fn misses(&self, revision: u64) -> bool {
        let is_older = |base: &Base<R>| base.is_initialised() && base.state.create_revision <= revision;
        !self.changes.knows(revision) && self.changes.is_own(revision) && self.base.as_ref().is_some_and(is_older)
    }

    /// The store has reported an earlier state of the key: the history begins with it, and a watch reports what came
    /// after.
    pub(super) fn adopt_past(&mut self, key: KeyValue<'_>) {
        let Some(base) = &self.base else { return };
        let versions = base.state.version.checked_sub(key.state.version);
        let past = Base::decode(Some(key), self.range, self.strategy);
        if !past.is_initialised() || versions.is_none_or(|versions| versions > self.followed) {
            return;
        }
        if key.state == base.state {
            self.changes.restart(key.state);
        } else if key.state.mod_revision < base.state.mod_revision {
            self.changes.restart(key.state);
            self.changes.set_head_content(past.used().clone());
        }
    }

    /// A compare-and-swap on the base was written, at this revision: it changed these offsets, and `next` is stored.
    /// Returns what was in use before, for its memory.
    pub(super) fn committed(
        &mut self,
        revision: u64,
        before: KeyState,
        mut next: Readable<R>,
        changes: impl Iterator<Item = u32>,
    ) -> Option<Allocator<R>> {
        let state = before.written(revision);
        if self.changes.head() == state {
            self.changes.join();
        } else if before == KeyState::default() {
            self.changes.restart(state);
        } else if self.is_complete() {
            self.changes.advance(state, changes);
        }
        next.object.range = self.range.to_string();
        match self.base.replace(Base { state, content: Content::Readable(next) })?.content {
            Content::Readable(before) => Some(before.used),
            Content::Unreadable { .. } => None,
        }
    }

    /// Returns what is stored as a view of this revision.
    pub(super) fn view(&mut self, revision: u64) -> Option<View> {
        // What cannot be read has no view: its operations failed when the batch was planned.
        let Some(Base { state, content: Content::Readable(readable) }) = &self.base else { return None };
        self.viewed = self.viewed.max(state.mod_revision);
        self.changes.viewed(revision);
        let initialised = readable.range_state != RangeState::Uninitialised;
        Some(View { revision, used: readable.used.bitmap().clone(), initialised })
    }

    /// The read of a repair pass whose view had this revision, if it has seen this store.
    pub(super) fn accept_pass(&mut self, read: u64) -> u64 {
        if self.changes.accepts_pass(read) { read } else { UNKNOWN_REVISION }
    }

    /// Which store this is the history of.
    pub(super) fn store(&self) -> u32 {
        self.changes.store()
    }

    /// Whether a view of this revision was returned lately, and was one of this store.
    pub(super) fn is_own_view(&self, revision: u64) -> bool {
        self.changes.is_own_view(revision)
    }

    /// Follows these leaked offsets, ascending, from a view of this revision on.
    pub(super) fn follow(&mut self, since: u64, offsets: impl Iterator<Item = u32>) {
        self.changes.follow(since, offsets);
    }

    /// The offsets that changed after this revision of the present store, at least up to the last [`View`]; `None` if
    /// that is not known.
    pub(super) fn changed_since(&self, revision: u64) -> Option<Bitmap> {
        self.up_to_view(self.changes.changed_since(revision)?)
    }

    /// Those of these offsets, which the last pass counted as leaked, that changed after its view of this revision, or
    /// may have; `None` if that is not known of any.
    pub(super) fn changed_of(&self, leaks: impl Iterator<Item = u32>, revision: u64) -> Option<Bitmap> {
        let is_unchanged = self.changes.followed_since(revision)?;
        self.up_to_view(leaks.filter(|offset| !is_unchanged(*offset)))
    }

    /// These changed offsets, if all changes up to the last view are known.
    fn up_to_view(&self, offsets: impl Iterator<Item = u32>) -> Option<Bitmap> {
        let mut changed = Bitmap::new(self.range.size());
        (self.changes.head().mod_revision >= self.viewed).then(|| {
            offsets.for_each(|offset| _ = changed.insert(offset));
            changed
        })
    }
}

#[cfg(test)]
mod tests;
