//! The operations from their submission on: those that wait for a request, and those that have ended.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use crate::range::Range;

use super::failure::Failure;
use super::limits::Limits;
use super::operation::{Deferral, Finished, Operation, Outcome, Ticket, UNKNOWN_REVISION};
use super::pending::{Pending, Submitter};
use super::request::KeyState;

/// The operations that no request carries out at the moment.
#[derive(Clone, Debug)]
pub(super) struct Queue<R: Range> {
    /// Those that wait, the oldest first.
    waiting: VecDeque<Pending<R>>,
    /// Those that have ended and whose callers do not know yet.
    finished: Vec<Finished<R>>,
    /// How many operations go into a batch.
    batch: usize,
    /// How many operations callers have submitted.
    submitted: u64,
    /// No release that waits has a later as-of revision.
    newest_as_of: u64,
}

impl<R: Range> Queue<R> {
    pub(super) fn new(limits: Limits) -> Self {
        Self { waiting: VecDeque::new(), finished: Vec::new(), batch: limits.operations, submitted: 0, newest_as_of: 0 }
    }

    /// The ticket of the next operation that a caller submits.
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.submitted += 1;
        Ticket(self.submitted - 1)
    }

    /// How many operations callers have submitted: their tickets are lower.
    pub(super) fn submitted(&self) -> u64 {
        self.submitted
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// For whom operations wait.
    pub(super) fn submitters(&self) -> impl Iterator<Item = Submitter> + '_ {
        self.waiting.iter().map(|pending| pending.submitter)
    }

    /// Adds an operation that a caller has submitted or the committer needs.
    pub(super) fn push(&mut self, pending: Pending<R>) {
        if let (Operation::Release { as_of, .. }, Submitter::Caller(_)) = (&pending.operation, pending.submitter) {
            self.newest_as_of = self.newest_as_of.max(*as_of);
        }
        self.waiting.push_back(pending);
    }

    /// Ends an operation.
    pub(super) fn end(&mut self, submitter: Submitter, outcome: Outcome<R>) {
        if let Submitter::Caller(ticket) = submitter {
            self.finished.push(Finished { ticket, outcome });
        }
    }

    /// Adds the releases of values that were allocated at this revision of this store, and that nobody waits for.
    pub(super) fn undo(&mut self, values: impl IntoIterator<Item = R::Value>, revision: u64, store: u32) {
        for value in values {
            let release = Operation::Release { value, as_of: revision, oldest: revision, store };
            self.push(Pending::new(Submitter::Own, release, Duration::MAX));
        }
    }

    /// Takes the operations that have ended.
    pub(super) fn take_finished(&mut self) -> Vec<Finished<R>> {
        mem::take(&mut self.finished)
    }

    /// Puts an operation back whose request has not ended it. It comes first again.
    pub(super) fn push_front(&mut self, pending: Pending<R>) {
        self.waiting.push_front(pending);
    }

    /// Takes out the operation of `submitter`. Cost: O(operations that wait).
    pub(super) fn remove(&mut self, submitter: Submitter) -> Option<Pending<R>> {
        let at = self.submitters().position(|one| one == submitter)?;
        self.waiting.remove(at)
    }

    /// The store refuses the operations, and says why.
    pub(super) fn refuse_all(&mut self, message: &str) {
        for pending in mem::take(&mut self.waiting) {
            let outcome = pending.refused(message);
            self.end(pending.submitter, outcome);
        }
    }

    /// Ends the operations that are over their deadline.
    pub(super) fn expire(&mut self, now: Duration) {
        for pending in mem::take(&mut self.waiting) {
            if now < pending.deadline {
                self.waiting.push_back(pending);
            } else {
                let outcome = pending.given_up(false, Failure::DeadlineExceeded);
                self.end(pending.submitter, outcome);
            }
        }
    }

    pub(super) fn earliest_deadline(&self) -> Duration {
        self.waiting.iter().map(|pending| pending.deadline).min().unwrap_or(Duration::MAX)
    }

    /// Takes out the operations of the next batch, which depends on one look.
    pub(super) fn take_ready(&mut self, is_ready: impl Fn(&Pending<R>) -> bool) -> Vec<Pending<R>> {
        let look = self.waiting.iter().filter(|pending| is_ready(pending)).find_map(Pending::look);
        let is_ready = |pending: &Pending<R>| is_ready(pending) && pending.look().is_none_or(|one| Some(one) == look);
        if self.waiting.iter().all(&is_ready) {
            return self.waiting.drain(..self.waiting.len().min(self.batch)).collect();
        }
        let mut ready = Vec::new();
        for pending in mem::take(&mut self.waiting) {
            if ready.len() < self.batch && is_ready(&pending) {
                ready.push(pending);
            } else {
                self.waiting.push_back(pending);
            }
        }
        ready
    }

    /// Whether an operation needs history.
    pub(super) fn needs_history(&self, keeps_history: bool) -> bool {
        self.waiting.iter().any(|pending| pending.needs_history(keeps_history))
    }

    /// No release that waits has a later as-of revision.
    pub(super) fn newest_as_of(&self) -> u64 {
        self.newest_as_of
    }

    /// The key is in this state. If it has changed, a compare-and-swap without an answer cannot be written any more; it
    /// may have been. Its operations are evaluated again. Offsets that it may have picked are leaked. A named value
    /// that is free now can be taken; one that is in use ends the operation as unknown (see [`Pending::given_up`]), as
    /// it may be the caller's own.
    pub(super) fn resolve_unknown(&mut self, state: Option<KeyState>) {
        for mut pending in mem::take(&mut self.waiting) {
            if pending.unknown_on.is_some_and(|unknown_on| Some(unknown_on) != state) {
                (pending.unknown_on, pending.refusal) = (None, None);
            } else if let Some(outcome) = pending.refusal.take() {
                self.end(pending.submitter, outcome);
                continue;
            }
            self.waiting.push_back(pending);
        }
    }

    /// Ends releases whose as-of revision is later than this one, which the store had reached after the request: it is
    /// another store's. Releases that were submitted after the request, with tickets from `asked` on, wait.
    pub(super) fn end_releases_of_another_store(&mut self, reached: u64, asked: u64) {
        if self.newest_as_of <= reached {
            return;
        }
        self.newest_as_of = 0;
        let is_later = |submitter| matches!(submitter, Submitter::Caller(ticket) if ticket.0 >= asked);
        for pending in mem::take(&mut self.waiting) {
            match pending.operation {
                Operation::Release { as_of, .. } if as_of > reached && !is_later(pending.submitter) => {
                    let deferred = Outcome::Deferred(Deferral::HistoryMissing);
                    self.end(pending.submitter, if pending.was_unknown { Outcome::Unknown } else { deferred });
                }
                Operation::Release { as_of, .. } if as_of > reached => self.push(pending),
                _ => self.waiting.push_back(pending),
            }
        }
    }

    /// The revision from which on the history of an edit that waits has to be known, if the store was not asked yet.
    pub(super) fn needs_past(&self) -> Option<u64> {
        let edits =
            self.waiting.iter().filter(|pending| !pending.has_asked).filter_map(|pending| match &pending.operation {
                Operation::Edit(edit) if edit.needs_history() => Some(edit.since),
                _ => None,
            });
        edits.min()
    }

    /// The store was asked for its state at this revision.
    pub(super) fn has_asked(&mut self, revision: u64) {
        for pending in &mut self.waiting {
            if let Operation::Edit(edit) = &pending.operation {
                pending.has_asked |= edit.since >= revision;
            }
        }
    }

    /// The repair passes whose diffs wait were about another store.
    pub(super) fn disown_passes(&mut self) {
        for pending in &mut self.waiting {
            if let Operation::Repair(diff) = &mut pending.operation {
                diff.read = UNKNOWN_REVISION;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ports::PortRange;

    use super::*;

    const NEVER: Duration = Duration::MAX;

    fn release(as_of: u64) -> Operation<PortRange> {
        Operation::Release { value: 30_000, as_of, oldest: as_of, store: 0 }
    }

    fn submit(queue: &mut Queue<PortRange>, operation: Operation<PortRange>, deadline: Duration) -> Submitter {
        let submitter = Submitter::Caller(queue.next_ticket());
        queue.push(Pending::new(submitter, operation, deadline));
        submitter
    }

    fn ended(queue: &mut Queue<PortRange>) -> Vec<(Submitter, Outcome<PortRange>)> {
        queue.take_finished().into_iter().map(|one| (Submitter::Caller(one.ticket), one.outcome)).collect()
    }

    fn guard(mod_revision: u64) -> KeyState {
        KeyState { mod_revision, version: 1, create_revision: 1 }
    }

    #[test]
    fn ready_operations_leave_in_order_and_others_stay() {
        let mut queue = Queue::new(Limits { operations: 2, ..Limits::default() });
        let submitters: Vec<Submitter> = [release(1), Operation::Read, Operation::Create, Operation::Read, release(2)]
            .map(|one| submit(&mut queue, one, NEVER))
            .into();
        assert!(queue.needs_history(false));
        let ready = queue.take_ready(|pending| !pending.needs_history(false));
        assert_eq!(ready.iter().map(|one| one.submitter).collect::<Vec<_>>(), submitters[1..3]);
        let ready = queue.take_ready(|pending| !pending.needs_history(false));
        assert_eq!(ready.iter().map(|one| one.submitter).collect::<Vec<_>>(), submitters[3..4]);
        let ready = queue.take_ready(|_| true);
        assert_eq!(ready.iter().map(|one| one.submitter).collect::<Vec<_>>(), [submitters[0], submitters[4]]);
        assert!(queue.is_empty() && queue.submitted() == 5);
    }

    #[test]
    fn overdue_operations_end() {
        let mut queue = Queue::new(Limits::default());
        let first = submit(&mut queue, Operation::Read, Duration::from_secs(2));
        let second = submit(&mut queue, Operation::Read, Duration::from_secs(1));
        assert_eq!(queue.earliest_deadline(), Duration::from_secs(1));
        queue.expire(Duration::from_secs(1));
        assert_eq!(ended(&mut queue), [(second, Outcome::Failed(Failure::DeadlineExceeded))]);
        assert_eq!(queue.earliest_deadline(), Duration::from_secs(2));
        assert!(queue.remove(first).is_some() && queue.remove(first).is_none());
        assert_eq!(queue.earliest_deadline(), NEVER);
    }

    #[test]
    fn a_refused_operation_ends_only_if_the_key_is_unchanged() {
        for (state, ends) in [(Some(guard(5)), true), (Some(guard(6)), false), (None, false)] {
            let mut queue = Queue::new(Limits::default());
            let submitter = submit(&mut queue, Operation::Create, NEVER);
            let mut pending = queue.remove(submitter).expect("it waits");
            pending.refusal = Some(pending.given_up(false, Failure::Cancelled));
            pending.retry(Some(guard(5)));
            queue.push_front(pending);
            queue.resolve_unknown(state);
            assert_eq!(ended(&mut queue) == [(submitter, Outcome::Failed(Failure::Cancelled))], ends, "{state:?}");
            assert_eq!(queue.is_empty(), ends);
        }
    }

    #[test]
    fn releases_that_the_store_cannot_know_end_if_they_came_before_the_request() {
        let mut queue = Queue::new(Limits::default());
        let known = submit(&mut queue, release(7), NEVER);
        let foreign = submit(&mut queue, release(8), NEVER);
        let asked = queue.submitted();
        let later = submit(&mut queue, release(8), NEVER);
        assert_eq!(queue.newest_as_of(), 8);
        queue.end_releases_of_another_store(8, asked);
        assert!(ended(&mut queue).is_empty());
        queue.end_releases_of_another_store(7, asked);
        assert_eq!(ended(&mut queue), [(foreign, Outcome::Deferred(Deferral::HistoryMissing))]);
        assert_eq!(queue.submitters().collect::<Vec<_>>(), [known, later]);
        assert_eq!(queue.newest_as_of(), 8, "the later one");
        queue.end_releases_of_another_store(7, queue.submitted());
        assert_eq!(ended(&mut queue).len(), 1);
        assert_eq!(queue.newest_as_of(), 0);
    }
}
