//! What must hold of each change of the key.

use rangekeeper::allocator::Strategy;
use rangekeeper::commit::Limits;
use rangekeeper::range::Range;

use crate::server::{Notice, Owed, Right};
use crate::store::{Mask, Writer, bits};
use crate::violation::Invariant;

use super::event::Sent;
use super::{Claim, Content, LOW, MS, STOCK, State, World};

impl World {
    /// Whether the change at this place in the log cleared what this server had set for nobody.
    pub(super) fn was_own_release(&self, server: usize, offset: u32, at: usize) -> bool {
        let set = self.store.log[..at].windows(2).rev().find(|two| (two[1].mask & !two[0].mask) >> offset & 1 == 1);
        set.is_none_or(|two| two[1].writer == Writer::Server(server) && two[1].acknowledged >> offset & 1 == 0)
    }

    /// Checks that no pass has recreated the range without the values that Services use.
    ///
    /// A server to which the deletion was not reported cannot know: to every guard a key that was created and deleted
    /// meanwhile looks like one that never existed.
    pub(super) fn check_creation(&mut self, sent: &Sent) {
        let server = sent.server;
        let Some(deleted) = self.store.log.len().checked_sub(2).map(|at| &self.store.log[at]) else { return };
        let content = self.content(deleted);
        match content {
            Content::Range => return,
            Content::Unreadable => {
                return self.fail(Invariant::I8, format!("server {server} overwrites what it cannot read"));
            }
            Content::OtherRange if !sent.repairs => {
                return self.fail(Invariant::I8, format!("server {server} overwrites another range without a repair"));
            }
            Content::Missing | Content::Uninitialised | Content::OtherRange => {}
        }
        if sent.creates && content != Content::OtherRange {
            return self.left_out();
        }
        let is_known = sent.reported_key >= deleted.revision || content != Content::Missing;
        if !is_known {
            return;
        }
        let kept = self.store.services.live().map(|one| one.values_at(deleted.revision) & one.state().values);
        let kept = kept.fold(0, |used, kept| used | kept);
        // What is written while there is no range is listed as well: after the pass's fence the conditions refuse it. A
        // stock kube-apiserver has none.
        let has_conditions = self.conditional && !self.is_restored;
        let is_bound = |claim: &&Claim| has_conditions && claim.state == State::Live && claim.server != STOCK;
        let late = self.claims.iter().filter(is_bound).fold(0, |late, claim| late | 1 << claim.offset);
        let used = kept | late;
        if used & !self.store.mask() != 0 {
            let message = format!("server {server} recreates the range without what Services use: {used:b}");
            self.fail(Invariant::I5, message);
        }
    }

    /// Checks that no Service that a pass has listed, and that is there still, loses a value to it: also if its server
    /// could not notice that the store was restored.
    pub(super) fn check_cleaned(&mut self, sent: &Sent) {
        let Some(before) = self.store.log.len().checked_sub(2).map(|at| self.store.log[at].mask) else { return };
        let (leaks, looked) = sent.leaks;
        let kept = self.store.services.live().map(|one| one.values_at(looked) & one.state().values);
        let kept = before & !self.store.mask() & leaks & kept.fold(0, |all, one| all | one);
        if kept != 0 {
            let message =
                format!("server {} clears {kept:b}, which a Service has had since its look at r{looked}", sent.server);
            self.fail(Invariant::I20, message);
        }
    }

    /// Checks the last change of the key; `sent` is the request that made it, if it was one of our servers'.
    pub(super) fn wrote(&mut self, writer: Writer, sent: Option<&Sent>) {
        let at = self.store.log.len() - 1;
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let cleared = before & !self.store.log[at].mask;
        let is_bound = sent.is_some_and(|sent| self.is_bound(sent));
        let created = |at: usize| self.store.log[at].key.as_ref().map_or(0, |key| key.state.create_revision);
        // Others write no fence: by the witness what they clear, or recreate, is as it was.
        let is_hidden = if sent.is_some() { !is_bound } else { self.store.key().is_some() };
        let by_others = |at: usize| !matches!(self.store.log[at].writer, Writer::Server(_));
        if is_hidden && self.store.at(created(at)).is_some_and(by_others) {
            self.recreated = created(at);
        }
        for offset in bits(cleared) {
            if let Some(sent) = sent {
                self.report.cleared += 1;
                if is_bound && sent.without_history >> offset & 1 == 0 {
                    self.check_right(at, offset, sent);
                }
            }
            let now = self.now;
            // A creator that is slower than the grace loses the value.
            let is_over = |claim: &Claim| claim.state == State::Pending && now >= claim.safe_until;
            let by_command =
                sent.is_some_and(|sent| self.servers[sent.server].is_command || sent.by_hand >> offset & 1 == 1);
            // A repair with a shorter grace, or an edit, has fenced the write of its Service off.
            let is_early = |claim: &Claim| claim.state == State::Pending && by_command;
            let is_lost = |claim: &Claim| is_over(claim) || is_early(claim);
            let owns = |claim: &Claim| claim.offset == offset && claim.state != State::Ended && !is_lost(claim);
            if self.claims.iter().any(owns) {
                if sent.is_some() && self.damaged >> offset & 1 == 0 {
                    return self.fail(Invariant::I2, format!("{writer:?} clears offset {offset}, which has an owner"));
                }
                self.damaged |= 1 << offset;
                self.report.damage += 1;
            }
            for claim in self.claims.iter_mut().filter(|claim| claim.offset == offset && is_early(claim)) {
                // The value has no owner from now on.
                claim.safe_until = claim.safe_until.min(now);
            }
        }
        // What is damaged may be released for a Service that never owned it.
        self.harmed |= cleared & if is_hidden { Mask::MAX } else { self.damaged };
        if let Some(sent) = sent.filter(|_| is_bound) {
            self.check_protected(at, sent);
            self.check_set_again(at, sent);
            self.check_owed(at, sent);
        }
        self.wake_watches();
    }

    /// Whether a server knew of which store it wrote: not until its first answer after a restore, nor with a request
    /// that it had sent to the store before.
    pub(super) fn is_bound(&self, sent: &Sent) -> bool {
        !self.is_misled(sent.server) && sent.is_aware && sent.epoch == self.store.epoch
    }

    /// Whether a server takes the store for the one before: the restore could not be noticed, or its connection has
    /// outlived that and no answer has come since.
    pub(super) fn is_misled(&self, server: usize) -> bool {
        match self.servers[server].notice {
            Notice::Noticed => false,
            Notice::Due => self.is_connection_kept,
            Notice::Missed => true,
        }
    }

    /// Whether a server that clears an offset has the right to.
    fn check_right(&mut self, at: usize, offset: u32, sent: &Sent) {
        let (server, store) = (sent.server, &self.store);
        // Since when it had been in use.
        let before = store.log[..at].iter().rev();
        let unbroken = before.take_while(|version| version.mask >> offset & 1 == 1);
        let since = unbroken.last().map_or(0, |version| version.revision);
        let one = &self.servers[server];
        // It cannot know that a revision is one of the store before if that had got further than the server knew, and
        // the store has reached it again, or the release comes later than they usually do.
        let is_foreign = |right: &Right| {
            let is_late = right.submitted > one.wary_until || sent.reported >= right.as_of;
            right.as_of > store.common_with(right.epoch) && (right.as_of <= one.foreign || !is_late)
        };
        let is_anchored = |right: &Right| right.offset == offset && right.as_of >= since && !is_foreign(right);
        let set = &store.log[store.at(since).unwrap_or(0)];
        if set.writer == Writer::Server(server) && set.acknowledged >> offset & 1 == 0 {
            // Nobody owns what it took.
            return;
        }
        let rights = &one.rights;
        if !rights.iter().any(is_anchored) {
            return self.fail(Invariant::I4, format!("server {server} clears offset {offset} without a right to"));
        }
        let could_know = since > sent.known_since;
        if could_know && !rights.iter().any(|right| is_anchored(right) && right.oldest >= since) {
            let message =
                format!("server {server} clears offset {offset}, which it could know was free before r{since}");
            return self.fail(Invariant::I9, message);
        }
        if sent.duplicates >> offset & 1 == 1 {
            let message = format!("server {server} clears offset {offset}, which two Services had in its last pass");
            self.fail(Invariant::I13, message);
        }
    }

    /// Whether a server sets the values again that it handed out less than a grace ago, once the range was recreated.
    fn check_protected(&mut self, at: usize, sent: &Sent) {
        let log = &self.store.log;
        let is_small = self.limits.operations != Limits::default().operations;
        let Some(base) = at.checked_sub(1).filter(|base| self.content(&log[*base]) == Content::Range) else { return };
        if self.is_restored || is_small || !self.is_disturbed {
            return;
        }
        let created = |at: usize| log[at].key.as_ref().map_or(0, |key| key.state.create_revision);
        let recreated = created(base);
        let mut in_use = log[at].mask;
        for version in log[..at].iter().rev().take_while(|version| version.revision >= recreated) {
            in_use |= version.mask;
        }
        let is_forgotten = |claim: &&Claim| {
            let is_own = claim.server == sent.server && claim.incarnation == sent.incarnation;
            let from = self.store.at(claim.revision).unwrap_or(0);
            let is_released = log[from..].windows(2).any(|two| {
                let cleared = two[0].mask & !two[1].mask;
                two[1].writer == Writer::Server(sent.server) && cleared >> claim.offset & 1 == 1
            });
            let is_kept = claim.acknowledged >= self.servers[sent.server].refused;
            let is_fresh = is_kept && claim.acknowledged <= sent.at.1 && sent.at.1 - claim.acknowledged < self.grace;
            let is_older = self.store.at(claim.revision).is_some_and(|at| created(at) != recreated);
            is_own
                && !is_released
                && is_fresh
                && is_older
                && claim.state != State::Ended
                && claim.known_written.is_none()
                && in_use >> claim.offset & 1 == 0
        };
        if let Some(claim) = self.claims.iter().find(is_forgotten) {
            let message = format!("server {} does not set {claim:?} again in the range of r{recreated}", sent.server);
            self.fail(Invariant::I12, message);
        }
    }

    /// Whether a server releases the values that it took for a caller who had gone by the time of the answer.
    fn check_owed(&mut self, at: usize, sent: &Sent) {
        let is_small = self.limits.operations != Limits::default().operations;
        let store = &self.store;
        let owed = &mut self.servers[sent.server].owed;
        owed.retain(|owed| {
            let from = store.at(owed.revision).unwrap_or(0);
            store.log[from..=at].iter().all(|version| version.mask >> owed.offset & 1 == 1)
        });
        // A watch may have to report first what happened meanwhile; after 5 s without, the release is left to repair.
        let is_due = |owed: &&mut Owed| {
            let waited = sent.at.1.saturating_sub(owed.since);
            let has_waited = (500 * MS..5000 * MS).contains(&waited);
            has_waited && sent.known_since <= owed.revision && sent.duplicates >> owed.offset & 1 == 0
        };
        let due = owed.iter_mut().find(is_due).filter(|_| !is_small && sent.is_whole);
        // Several compare-and-swaps in a row: the oracle does not know what the history lacks for a moment.
        if let Some(Owed { offset, revision, .. }) = due.and_then(|owed| {
            owed.missed += 1;
            (owed.missed > 2).then_some(*owed)
        }) {
            let message = format!(
                "server {} keeps offset {offset}, which it took at r{revision} for a caller who had gone",
                sent.server
            );
            self.fail(Invariant::I14, message);
        }
    }

    /// Whether a value that a server picked at this place in the log was not freed a moment before by itself, while
    /// others were free that never had been in use.
    pub(super) fn is_pick_right(&self, server: usize, offset: u32, at: usize) -> bool {
        let log = &self.store.log;
        let sent = log[at].sent.1;
        let Some(freed) = self.servers[server].freed[offset as usize] else { return true };
        if freed > sent || sent - freed >= self.grace {
            return true;
        }
        let before = at.checked_sub(1).map_or(0, |before| log[before].mask);
        let all = u64::MAX >> (64 - self.size);
        let ever = log[..at].iter().fold(0, |ever, version| ever | version.mask);
        let band = if self.config.strategy == Strategy::DynamicBandFirst { self.range.static_band() } else { 0 };
        let is_static = |bit: u32| self.store.layout.offset(bit) < band;
        let never_used = all & !(ever | before | log[at].mask);
        !bits(never_used).any(|bit| is_static(bit) == is_static(offset))
    }

    /// Whether a pass set only what a listed Service has, and what was free in all revisions since its read.
    pub(super) fn check_repaired_sets(&mut self, server: usize, set: &[u16], listed: Mask, read: u64) {
        let Some(at) = self.servers[server].written.filter(|_| !self.is_misled(server)) else {
            return;
        };
        let log = &self.store.log;
        let first = self.store.at(read);
        for value in set {
            let Some(offset) = self.store.layout.bit(u32::from(value - LOW)) else { continue };
            let is_listed = listed >> offset & 1 == 1;
            let from = first.unwrap_or(0);
            // To every guard a key that was created and deleted meanwhile looks like one that was missing all the time.
            let is_missing = at.checked_sub(1).is_none_or(|before| log[before].key.is_none());
            let was_free =
                is_missing || from >= at || log[from..at].iter().all(|version| version.mask >> offset & 1 == 0);
            if !is_listed || !was_free {
                let why = if is_listed { "was in use after its read" } else { "no Service had" };
                let message = format!("a pass of server {server} sets offset {offset}, which {why}");
                return self.fail(Invariant::I10, message);
            }
        }
    }
}
