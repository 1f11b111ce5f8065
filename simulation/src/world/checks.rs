//! What must hold: of each answer, of each change of the key, and in the end.

use rangekeeper::commit::{Failure, Outcome};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;

use crate::server::{Open, Right, Submitted};
use crate::store::{Mask, Writer, bits};
use crate::violation::Invariant;

use super::{Claim, Content, Damage, State, World, mask, mask_of};

impl World {
    /// Whether a definite answer was true at some time since the submission.
    pub(super) fn check_answer(&mut self, server: usize, open: &Open, outcome: &Outcome<PortRange>) {
        if open.epoch != self.store.epoch {
            return;
        }
        let first = self.store.at(open.revision);
        let log = &self.store.log;
        // Before each change, after it, and in the middle: what is set comes before what is cleared.
        let before = |at: usize| at.checked_sub(1).map_or(0, |before| log[before].mask);
        let ever = |is_true: &dyn Fn(Mask) -> bool| {
            first.map_or(is_true(0), |first| is_true(log[first].mask))
                || (first.map_or(0, |first| first + 1)..log.len())
                    .any(|at| is_true(log[at].mask) || is_true(log[at].mask | before(at)))
        };
        let was = |contents: &[Content]| {
            let content = |at: usize| contents.contains(&self.content(&log[at]));
            first.map_or(contents.contains(&Content::Missing), content)
                || (first.map_or(0, |first| first + 1)..log.len()).any(content)
        };
        let all = u64::MAX >> (64 - self.range.size());
        let truth = match (&open.what, outcome) {
            (Submitted::Allocate { named, count: 1 }, Outcome::Failed(Failure::Allocate(_))) => {
                ever(&|mask| if *named == 0 { mask == all } else { mask & named != 0 })
            }
            (Submitted::Allocate { named, count }, Outcome::Failed(Failure::Allocate(_))) => {
                // Some value of the batch was in use, or there were too few.
                ever(&|mask| mask & named != 0 || ((all & !mask).count_ones() as usize) < *count)
            }
            (_, Outcome::Failed(Failure::NotInitialised)) => was(&[Content::Missing, Content::Uninitialised]),
            (_, Outcome::Failed(Failure::MismatchedRange { .. })) => was(&[Content::OtherRange]),
            (_, Outcome::Failed(Failure::Unreadable { .. })) => was(&[Content::Unreadable]),
            (Submitted::Release { offset, anchor, .. }, Outcome::Released { freed: false }) => {
                let free = |mask: Mask| mask >> offset & 1 == 0;
                let anchored = self.store.at((*anchor).min(open.revision)).unwrap_or(0);
                log.is_empty() || log[anchored..].iter().any(|version| free(version.mask))
            }
            (Submitted::Release { offset, .. }, Outcome::Released { freed: true }) => {
                ever(&|mask| mask >> offset & 1 == 0)
            }
            (_, Outcome::Read(view)) => {
                view.revision >= open.revision && mask_of(&view.used) == self.store.mask_at(view.revision)
            }
            (_, Outcome::Created { .. }) => was(&[Content::Range]),
            _ => true,
        };
        if !truth {
            return self.fail(Invariant::I7, format!("server {server} answers {open:?} with {outcome:?}"));
        }
        // Who is told that a value is taken must not have taken it himself.
        if let (Submitted::Allocate { named, count: 1 }, Outcome::Failed(Failure::Allocate(_))) = (&open.what, outcome)
            && *named != 0
            && first.is_none_or(|first| log[first].mask & named == 0)
            && self.damage == Damage::None
        {
            let from = first.map_or(0, |first| first + 1);
            let by_others = (from..log.len()).any(|at| {
                log[at].mask & !before(at) & named != 0
                    && !(log[at].writer == Writer::Server(server) && log[at].sole == Some(open.ticket))
            });
            if !by_others {
                return self
                    .fail(Invariant::I6, format!("server {server} has carried out {open:?}, and says {outcome:?}"));
            }
        }
        // A release that failed has not cleared anything, and will not.
        if let (Submitted::Release { offset, anchor, .. }, Outcome::Failed(_)) = (&open.what, outcome) {
            let rights = &mut self.servers[server].rights;
            if let Some(at) = rights.iter().position(|right| right.offset == *offset && right.anchor == *anchor) {
                rights.swap_remove(at);
            }
            let from = first.map_or(0, |first| first + 1);
            let done = (from..log.len()).find(|at| {
                let cleared = before(*at) & !log[*at].mask;
                log[*at].writer == Writer::Server(server) && cleared >> offset & 1 == 1
            });
            if let Some(at) = done
                && !self.servers[server].rights.iter().any(|right| right.offset == *offset)
                && !self.was_own_release(server, *offset, at)
            {
                let revision = self.store.log[at].revision;
                self.fail(Invariant::I6, format!("{open:?} failed, and was carried out at r{revision}"));
            }
        }
    }

    /// Whether a sidecar would have told what became of an operation.
    pub(super) fn check_unknown(&mut self, server: usize, open: &Open) {
        let is_given_up = open.is_cancelled || open.deadline <= self.now;
        let is_late = self.now - open.submitted > self.grace / 2;
        if self.servers[server].decides && self.damage != Damage::Restored && !is_given_up && !is_late {
            self.fail(Invariant::I9, format!("server {server} does not know what became of {open:?}"));
        }
    }

    /// Whether the change at this place in the log cleared what this server had set for nobody.
    pub(super) fn was_own_release(&self, server: usize, offset: u32, at: usize) -> bool {
        let set = self.store.log[..at].windows(2).rev().find(|two| (two[1].mask & !two[0].mask) >> offset & 1 == 1);
        set.is_none_or(|two| two[1].writer == Writer::Server(server) && two[1].acknowledged >> offset & 1 == 0)
    }

    /// Looks whether a pass has made the range anew without what Services use.
    ///
    /// A server that was not told of the deletion cannot know: no guard tells a key that was made and deleted meanwhile
    /// from one that never was.
    pub(super) fn check_creation(&mut self, server: usize, repairs: bool, told: u64) {
        let Some(deleted) = self.store.log.len().checked_sub(2).map(|at| &self.store.log[at]) else { return };
        let content = self.content(deleted);
        match content {
            Content::Range => return,
            Content::Unreadable => {
                return self.fail(Invariant::I8, format!("server {server} overwrites what it cannot read"));
            }
            Content::OtherRange if !repairs => {
                return self.fail(Invariant::I8, format!("server {server} overwrites another range without a repair"));
            }
            Content::Missing | Content::Uninitialised | Content::OtherRange => {}
        }
        let is_known = told >= deleted.revision || content != Content::Missing;
        if !is_known || (self.servers[server].creates && content != Content::OtherRange) {
            return;
        }
        let used = mask(self.store.list_at(deleted.revision)) & mask(self.store.list());
        if used & !self.store.mask() != 0 {
            let message = format!("server {server} makes the range anew without what Services use: {used:b}");
            self.fail(Invariant::I5, message);
        }
    }

    /// Looks at the last change of the key.
    pub(super) fn wrote(&mut self, writer: Writer) {
        let at = self.store.log.len() - 1;
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let before_since = self.store.log[..at].iter().rev();
        let cleared = before & !self.store.log[at].mask;
        for offset in bits(cleared) {
            // Since when it had been in use.
            let since = before_since
                .clone()
                .take_while(|version| version.mask >> offset & 1 == 1)
                .last()
                .map_or(0, |version| version.revision);
            if let Writer::Server(server) = writer {
                let store = &self.store;
                let valid = |right: &Right| {
                    right.offset == offset
                        && right.anchor >= since
                        && (right.epoch == store.epoch || right.anchor <= store.forked_at)
                };
                let set = &store.log[store.at(since).unwrap_or(0)];
                let own = set.writer == Writer::Server(server) && set.acknowledged >> offset & 1 == 0;
                if !self.servers[server].rights.iter().any(valid) && !own {
                    return self
                        .fail(Invariant::I4, format!("server {server} clears offset {offset} without a right to"));
                }
                self.report.cleared += 1;
            }
            let now = self.now;
            let is_over = |claim: &Claim| claim.is_slow && claim.state == State::Pending && now >= claim.use_until;
            let owns = |claim: &Claim| claim.offset == offset && claim.state != State::Ended && !is_over(claim);
            let owned = self.claims.iter().any(owns);
            if owned {
                if self.damage == Damage::None {
                    return self.fail(Invariant::I2, format!("{writer:?} clears offset {offset}, which has an owner"));
                }
                self.report.damage += 1;
            }
        }
        self.wake_watches();
    }

    pub(super) fn check_leaks(&mut self) {
        let (stored, in_use) = (self.store.mask(), mask(self.store.list()));
        if self.store.log.last().is_some_and(|version| self.content(version) == Content::Unreadable) {
            return;
        }
        if stored != in_use {
            self.fail(Invariant::I5, format!("in use are {in_use:b}, stored {stored:b}"));
        }
    }
}
