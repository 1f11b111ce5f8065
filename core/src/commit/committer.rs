//! The committer: it joins its parts into the protocol.

use std::mem;
use std::time::Duration;

use rand_core::Rng;

use crate::allocator::{AllocateError, BatchError, Request as Wanted, Strategy};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::batch::{Batch, Entry, Memory};
use super::faults::Fault;
use super::flight::Flight;
use super::history::{Adopted, History};
use super::limits::Limits;
use super::operation::{Diff, Failure, Finished, Known, Listed, Operation, Outcome, Ticket};
use super::pacing::Pacing;
use super::pending::{Owner, Pending};
use super::plan::{Context, Planned};
use super::protection::Protection;
use super::queue::{Ended, Queue, UNKNOWN_REVISION};
use super::request::{Answer, Change, Guard, Header, KeyValue, Request, Step};
use super::timers::{Timer, Timers};

/// How long a watch may take to report what happened between two answers.
const PATIENCE: Duration = Duration::from_millis(100);
/// After so long in addition, operations that wait for the watch go on without it.
const WATCH_LOST: Duration = Duration::from_secs(5);
/// How long a watch is kept after something waited for it: etcd lets a new one wait for up to 100 ms.
const WATCH_KEPT: Duration = Duration::from_secs(10);
/// For which part of the grace after an identified store as-of revisions are compared with its revision before they are
/// used: a release may be about a Service that was deleted in the store that was there before. 11 seconds in Kubernetes.
const WARY_SHARE: u32 = 32;

/// How a committer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How values are chosen.
    pub strategy: Strategy,
    /// In which time a Service has to be written once its values are allocated: two intervals of repair, 6 minutes in
    /// Kubernetes. A creator that takes longer may lose them.
    pub grace: Duration,
}

/// One stored object and the operations on it.
///
/// Memory: up to 1 MiB for a /12 beside the object, mostly the history of the last grace.
#[derive(Clone, Debug)]
pub struct Committer<R: Range, G> {
    pub(super) config: Config,
    rng: G,
    pub(super) queue: Queue<R>,
    flight: Option<Flight<R>>,
    finished: Vec<Finished<R>>,
    pub(super) history: History<R>,
    protection: Protection,
    pacing: Pacing,
    timers: Timers,
    memory: Memory<R>,
    /// A batch that is to be repeated against the rules.
    #[cfg(feature = "faults")]
    pub(super) repeat: Option<Batch<R>>,
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// A committer that knows nothing of the store yet.
    pub fn new(range: R, config: Config, rng: G) -> Self {
        let limits = Limits::default();
        Self {
            config,
            rng,
            queue: Queue::new(limits),
            flight: None,
            finished: Vec::new(),
            history: History::new(range, config.strategy, limits),
            protection: Protection::new(range.size(), config.grace, limits),
            pacing: Pacing::default(),
            timers: Timers::default(),
            memory: Memory::new(),
            #[cfg(feature = "faults")]
            repeat: None,
        }
    }

    /// Bounds what is remembered. To be called before anything else.
    #[cfg(feature = "limits")]
    pub fn limit(&mut self, limits: Limits) {
        let range = self.range();
        self.queue = Queue::new(limits);
        self.history = History::new(range, self.config.strategy, limits);
        self.protection = Protection::new(range.size(), self.config.grace, limits);
    }

    /// The configured range.
    pub fn range(&self) -> R {
        self.history.range()
    }

    /// How many operations have not ended.
    pub fn pending(&self) -> usize {
        let owners = self.queue.owners().chain(self.flight.iter().flat_map(Flight::owners));
        owners.filter(|owner| matches!(owner, Owner::Caller(_))).count()
    }

    /// Queues an operation; it ends by `deadline` (`Duration::MAX` for none).
    pub fn submit(&mut self, mut operation: Operation<R>, deadline: Duration) -> Ticket {
        let ticket = self.queue.next_ticket();
        if let Err(failure) = self.check(&operation) {
            self.end(Owner::Caller(ticket), Outcome::Failed(failure));
            return ticket;
        }
        if let Operation::Repair(diff) = &mut operation {
            self.protection.duplicated(&diff.duplicates);
            if !self.history.accepts_pass(diff.read) {
                diff.read = UNKNOWN_REVISION;
            }
        }
        self.enqueue(Owner::Caller(ticket), operation, deadline);
        ticket
    }

    /// Whether an operation can be carried out in any state of the store.
    fn check(&self, operation: &Operation<R>) -> Result<(), Failure<R>> {
        let range = self.range();
        match operation {
            Operation::Allocate(wanted) => {
                for (index, wanted) in wanted.iter().enumerate() {
                    if let Wanted::This(value) = *wanted
                        && range.offset_of(value).is_none()
                    {
                        let source = AllocateError::NotInRange { value, range };
                        return Err(BatchError::Allocate { index, source }.into());
                    }
                }
                Ok(())
            }
            Operation::Repair(diff) => match diff.listed.revision() {
                Some(listed) if listed < diff.read => Err(Failure::StaleList { listed, read: diff.read }),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Ends an operation whose caller does not want it any more. What it allocates all the same is released again.
    pub fn cancel(&mut self, ticket: Ticket) {
        let owner = Owner::Caller(ticket);
        let queued = self.queue.remove(owner).map(|pending| pending.given_up(false, Failure::Cancelled));
        if let Some(outcome) = queued.or_else(|| self.flight.as_mut()?.cancel(owner)) {
            self.end(owner, outcome);
        }
    }

    /// What to do next. Finished operations should be handed out before, so that their callers join the next batch.
    pub fn poll(&mut self, now: Duration) -> Step {
        self.expire(now);
        self.protection.advance(now);
        let answered = self.history.connection.answered_revision();
        let is_ahead = answered.is_some_and(|revision| self.queue.is_ahead_of(revision));
        let may_be_new = self.timers.is_running(Timer::Wary, now) && !Fault::NewStoreNotWary.is_on();
        self.history.connection.compare(is_ahead, may_be_new);
        self.timers.expire(Timer::Watch, now);
        if self.flight.is_some() || self.queue.is_empty() {
            return self.wait(None);
        }
        if self.timers.is_running(Timer::Retry, now) {
            return self.wait(Some(Timer::Retry));
        }
        let waits = self.waits_for_history();
        self.wait_for_watch(waits, now);
        if let Some(step) = self.repeat(now) {
            return step;
        }
        let Some(base) = self.history.current(now).filter(|_| !self.would_lose(now)) else {
            self.history.connection.read_sent();
            return self.send(now, None, Request::Read);
        };
        if self.pacing.lingers(self.queue.len(), now, &self.timers) {
            return self.wait(Some(Timer::Linger));
        }
        if waits && self.timers.is_running(Timer::Patience, now) {
            return self.wait(Some(Timer::Patience));
        }
        let is_complete = self.history.is_complete() || Fault::ClearWithoutHistory.is_on();
        let operations = self.queue.take_ready(|pending| is_complete || !pending.needs_history(self.history.is_kept()));
        if operations.is_empty() {
            return self.wait(Some(Timer::WatchLost));
        }
        let context = Context { changes: self.history.changes(), protection: &self.protection };
        let batch = Batch::plan(base, operations, context, &mut self.memory, &mut self.rng);
        let Some(batch) = self.end_from_cache(now, batch) else { return self.poll(now) };
        let request = batch.request(&mut self.memory);
        self.send(now, Some(batch), request)
    }

    pub(super) fn send(&mut self, now: Duration, batch: Option<Batch<R>>, request: Request) -> Step {
        let (asked, reached) = (self.queue.submitted(), self.history.connection.reached());
        let is_swap = matches!(request, Request::Swap { .. });
        self.flight = Some(Flight { sent: now, asked, reached, batch, is_swap });
        Step::Send(request)
    }

    /// Whether a compare-and-swap on what was known a while ago would probably lose the race.
    pub(super) fn would_lose(&self, now: Duration) -> bool {
        let answer_age = self.history.connection.answer_age(now).unwrap_or_default();
        self.pacing.would_lose(answer_age, now, &self.timers)
    }

    fn wait(&self, held_up_by: Option<Timer>) -> Step {
        self.timers.next(held_up_by).map_or(Step::Idle, Step::WaitUntil)
    }

    fn waits_for_history(&self) -> bool {
        !self.history.is_complete() && self.queue.needs_history(self.history.is_kept())
    }

    /// Starts or stops to wait for the watch.
    fn wait_for_watch(&mut self, waits: bool, now: Duration) {
        if !waits {
            self.timers.stop(Timer::Patience);
            return self.timers.stop(Timer::WatchLost);
        }
        if !self.timers.is_set(Timer::Patience) {
            self.timers.set(Timer::Patience, now + PATIENCE);
            self.timers.set(Timer::WatchLost, now + PATIENCE + WATCH_LOST);
        }
        self.timers.set(Timer::Watch, now + WATCH_KEPT);
        if self.timers.is_over(Timer::WatchLost, now) && self.history.watch_lags() {
            self.history.watch_failed();
        }
    }

    /// Takes the value of an earlier compare-and-swap back, whose memory the next one uses again.
    pub fn reuse(&mut self, value: Vec<u8>) {
        self.memory.keep_value(value);
    }

    /// The store has answered the request.
    pub fn answered(&mut self, now: Duration, header: Header, answer: Answer<'_>) {
        let Some(flight) = self.flight.take() else { return };
        let is_same_store = self.identify(now, header, flight.reached, answer);
        match (flight.batch, answer) {
            (Some(batch), Answer::Held) if is_same_store => {
                self.pacing.answered();
                if !flight.is_swap {
                    return self.confirmed(now, header.revision, batch);
                }
                self.pacing.won(now.saturating_sub(flight.sent), now, &mut self.timers);
                self.committed(flight.sent, now, header.revision, batch);
            }
            (Some(batch), Answer::Held) => {
                self.history.connection.require_read();
                self.put_back(batch, flight.is_swap);
            }
            // Nobody asked for that.
            (None, Answer::Held) => self.history.connection.require_read(),
            (batch, Answer::Current(key)) => {
                if let Some(batch) = batch {
                    self.pacing.answered();
                    self.conflicted(now, batch, key);
                }
                self.adopt(now, header, key);
                self.claim_equal_bytes(now);
                self.settle();
            }
        }
        let foreign = self.queue.end_foreign_releases(header.revision, flight.asked);
        self.end_all(foreign);
        if !is_same_store && !Fault::PassAcrossStores.is_on() {
            self.queue.disown_passes();
        }
    }

    /// It is not known whether the request took effect, or will.
    pub fn unknown(&mut self, now: Duration) {
        let Some(flight) = self.flight.take() else { return };
        self.failed(now);
        self.keep_unknown(&flight);
        if let Some(batch) = flight.batch {
            self.put_back(batch, flight.is_swap);
        }
    }

    /// The store refuses the request and says why: no space, no permission. It will not take effect later.
    pub fn refused(&mut self, now: Duration, message: &str) {
        let Some(mut flight) = self.flight.take() else { return };
        self.failed(now);
        let refused = |pending: &Pending<R>| pending.given_up(false, Failure::Refused { message: message.to_owned() });
        if let Some(mut batch) = flight.batch.take_if(|_| flight.is_swap && !Fault::RefusalTakenForFailure.is_on()) {
            // etcd carries a transaction out and then says that there is no space any more. A read shows it.
            for Entry { pending, .. } in &mut batch.entries {
                pending.refusal = Some(refused(pending));
            }
            return self.put_back(batch, true);
        }
        let all: Vec<Pending<R>> = match flight.batch {
            Some(batch) => batch.entries.into_iter().map(|entry| entry.pending).collect(),
            None => self.queue.take_all().into(),
        };
        self.end_all(all.iter().map(|pending| (pending.owner, refused(pending))).collect());
    }

    fn failed(&mut self, now: Duration) {
        self.pacing.failed(now, &mut self.timers, &mut self.rng);
        self.history.connection.require_read();
    }

    /// The connection is a new one: what was known may be out of date, or the store be another one. To be called before
    /// anything is reported that came over the new connection; a watch that runs has to end.
    pub fn reconnected(&mut self) {
        self.history.connection.reconnected();
    }

    /// Whether all changes of the key are to be known even if no operation waits for them: while a repair pass counts
    /// leaks.
    pub fn keep_history(&mut self, keep: bool) {
        self.history.keep(keep);
    }

    /// From which revision on the shell is to watch the key, if at all. It starts when this returns a revision, goes on
    /// through all changes of it, and ends when this returns `None`: nothing of that watch is reported after that.
    pub fn watch_from(&self) -> Option<u64> {
        self.history.watch_from(self.waits_for_history() || self.timers.is_set(Timer::Watch))
    }

    /// The watch reports a change.
    pub fn watched(&mut self, change: Change<'_>) {
        if self.history.watched(change, self.flight.is_some(), &mut self.protection) {
            self.settle();
            self.restore_lost();
        }
    }

    /// The watch cannot report all changes: the history is compacted. Operations that wait for them go on without.
    pub fn watch_failed(&mut self) {
        self.history.watch_failed();
    }

    /// Whether this committer handed `offset` out so recently that its Service may not be stored yet.
    pub fn is_handed_out(&self, offset: u32) -> bool {
        self.protection.is_handed_out(offset)
    }

    /// What is known of the object without asking the store. Cost: O(1); after a change by others O(size / 64).
    pub fn known(&self) -> Known {
        self.history.known()
    }

    /// The operations that have ended since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished<R>> {
        mem::take(&mut self.finished)
    }

    /// See [`History::changed_since`].
    pub(super) fn changed_since(&self, revision: u64) -> Option<Bitmap> {
        self.history.changed_since(revision)
    }

    /// See [`History::changed_of`].
    pub(super) fn changed_of(&self, leaks: impl Iterator<Item = u32>, revision: u64) -> Option<Bitmap> {
        self.history.changed_of(leaks, revision)
    }

    fn enqueue(&mut self, owner: Owner, operation: Operation<R>, deadline: Duration) {
        self.timers.set_earlier(Timer::Deadline, deadline);
        self.queue.push(Pending::new(owner, operation, deadline));
    }

    pub(super) fn end(&mut self, owner: Owner, outcome: Outcome<R>) {
        if let Owner::Caller(ticket) = owner {
            self.finished.push(Finished { ticket, outcome });
        }
    }

    fn end_all(&mut self, ended: Ended<R>) {
        for (owner, outcome) in ended {
            self.end(owner, outcome);
        }
    }

    /// Ends what is over its deadline.
    fn expire(&mut self, now: Duration) {
        if !self.timers.is_over(Timer::Deadline, now) {
            return;
        }
        let overdue = self.queue.take_overdue(now);
        let given_up = |pending: &Pending<R>| (pending.owner, pending.given_up(false, Failure::DeadlineExceeded));
        self.end_all(overdue.iter().map(given_up).collect());
        let mut earliest = self.queue.earliest_deadline();
        if let Some(flight) = &mut self.flight {
            earliest = earliest.min(flight.next_deadline(now));
            let overdue = flight.expire(now);
            self.end_all(overdue);
        }
        self.timers.stop(Timer::Deadline);
        self.timers.set_earlier(Timer::Deadline, earliest);
    }

    /// Returns whether it is still the same store, as it was; else all that was known is forgotten.
    fn identify(&mut self, now: Duration, header: Header, reached: u64, answer: Answer<'_>) -> bool {
        let is_new = self.history.connection.is_new();
        let is_same = self.history.answered(now, header, reached, answer);
        if is_new || !is_same {
            self.timers.set(Timer::Wary, now + self.config.grace / WARY_SHARE);
        }
        if !is_same {
            self.protection.change_store();
            self.settle();
        }
        is_same
    }

    /// Puts operations back whose request did not end them. If its outcome `is_unknown` it may have carried them out.
    fn put_back(&mut self, batch: Batch<R>, is_unknown: bool) {
        for Entry { mut pending, .. } in batch.entries.into_iter().rev() {
            if pending.owner != Owner::Nobody {
                pending.retry(is_unknown.then_some(batch.state));
                self.timers.set_earlier(Timer::Deadline, pending.deadline);
                self.queue.push_front(pending);
            }
        }
    }

    /// Decides what becomes of operations with an unknown outcome, as the key may have changed.
    fn settle(&mut self) {
        self.take_for_ours();
        let ended = self.queue.settle(self.history.state());
        self.end_all(ended);
    }

    /// A compare-and-swap was written, at this revision.
    fn committed(&mut self, sent: Duration, now: Duration, revision: u64, mut batch: Batch<R>) {
        self.protection.advance(now);
        // A watch may have reported it before, or even what came after.
        let is_known = self.history.changes().head().mod_revision >= revision;
        for offset in &batch.cleared {
            self.protection.clear(*offset, is_known);
        }
        if let Some(next) = batch.next.take() {
            let changes = batch.set.iter().chain(&batch.cleared).copied();
            if let Some(used) = self.history.committed(revision, batch.state, next, changes) {
                self.memory.keep(used);
            }
            self.settle();
            self.restore_lost();
        }
        // Half of the grace is left for the caller, or else it would begin with too little.
        let patience = self.config.grace / if Fault::LateAfterWholeGrace.is_on() { 1 } else { 2 };
        let is_late = now.saturating_sub(sent) > patience && !Fault::LateAnswerAcknowledged.is_on();
        let from_answer = Fault::LateAnswerAcknowledged.is_on() || Fault::GraceFromAnswer.is_on();
        let use_until = if from_answer { now } else { sent } + self.config.grace;
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        for Entry { mut pending, planned } in batch.entries {
            pending.refusal = None;
            match planned {
                Planned::Take(offsets) => self.allocated(pending, &offsets, revision, use_until, is_late),
                planned => self.end_planned(&pending, planned, revision),
            }
        }
    }

    /// The offsets of an allocation are written.
    fn allocated(
        &mut self,
        mut pending: Pending<R>,
        offsets: &[u32],
        revision: u64,
        use_until: Duration,
        is_late: bool,
    ) {
        let range = self.range();
        let values: Vec<R::Value> = offsets.iter().filter_map(|offset| range.value_at(*offset)).collect();
        let is_wanted = pending.owner != Owner::Nobody;
        if is_late || (!is_wanted && !Fault::CancelledNotReleased.is_on()) {
            for value in &values {
                let release = Operation::Release { value: *value, anchor: revision, oldest: revision };
                self.enqueue(Owner::Own, release, Duration::MAX);
            }
        }
        if is_wanted && is_late {
            pending.was_unknown = true;
            self.queue.push_front(pending);
        } else if is_wanted {
            offsets.iter().for_each(|offset| self.protection.hand_out(*offset));
            self.end(pending.owner, Outcome::Allocated { values, revision, use_until });
        }
    }

    /// The guard of a batch did not hold: the key, or the Services that its clears depend on, had changed.
    fn conflicted(&mut self, now: Duration, mut batch: Batch<R>, key: Option<KeyValue<'_>>) {
        self.keep_conflicted(&batch);
        if batch.lost_to_services(key.map_or(Guard::default(), |key| key.state)) {
            // One of them may have what was to be cleared.
            batch.drop_clears();
        } else {
            self.pacing.lost(now, &mut self.timers, &mut self.rng);
        }
        self.put_back(batch, false);
    }

    /// The state that a batch was evaluated on is confirmed, and the batch changes nothing.
    pub(super) fn confirmed(&mut self, now: Duration, revision: u64, batch: Batch<R>) {
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        for Entry { pending, planned } in batch.entries {
            self.end_planned(&pending, planned, revision);
        }
    }

    /// Ends an operation as it was evaluated.
    fn end_planned(&mut self, pending: &Pending<R>, planned: Planned<R>, revision: u64) {
        let outcome = match planned {
            Planned::View => self.history.view(revision).map(Outcome::Read),
            Planned::End(outcome) => Some(pending.ended(outcome)),
            // An allocation of nothing.
            Planned::Take(_) => Some(Outcome::Allocated { values: Vec::new(), revision, use_until: Duration::MAX }),
        };
        if let Some(outcome) = outcome {
            self.end(pending.owner, outcome);
        }
    }

    /// The store has reported what the key is.
    fn adopt(&mut self, now: Duration, header: Header, key: Option<KeyValue<'_>>) {
        match self.history.adopt(header, key, &mut self.protection) {
            Adopted::Unchanged => return,
            Adopted::First => {}
            Adopted::Foreign => self.pacing.contended(now, &mut self.timers),
        }
        self.restore_lost();
    }

    /// Sets again what was handed out recently, once the range was recreated.
    fn restore_lost(&mut self) {
        let Some(base) = self.history.base().filter(|base| base.is_initialised()) else { return };
        let Some(set) = self.protection.take_lost(base.used()) else { return };
        let (read, clear) = (base.state.mod_revision, Bitmap::new(set.len()));
        let diff = Diff { read, set, clear, duplicates: Vec::new(), listed: Listed::Elsewhere };
        self.enqueue(Owner::Own, Operation::Repair(Box::new(diff)), Duration::MAX);
    }
}
