//! The committer: it joins its parts into the protocol.

use std::mem;
use std::time::Duration;

use rand_core::Rng;

use crate::range::Range;

use super::batch::{Batch, Memory};
use super::config::{Config, Replace};
use super::failure::Failure;
use super::flight::Flight;
use super::history::History;
use super::limits::Limits;
use super::operation::{Known, Operation, Outcome, Ticket};
use super::pacing::Pacing;
use super::pending::{Pending, Submitter};
use super::plan::Context;
use super::protection::Protection;
use super::queue::Queue;
use super::request::{Step, StoreRequest};
use super::timers::{Timer, Timers};

/// One stored object and the operations on it.
///
/// Memory: up to 1 MiB for a /12 beside the object, mostly the history of the last grace.
#[derive(Clone, Debug)]
pub struct Committer<R: Range, G> {
    pub(super) config: Config,
    pub(super) rng: G,
    pub(super) queue: Queue<R>,
    pub(super) flight: Option<Flight<R>>,
    pub(super) history: History<R>,
    pub(super) protection: Protection,
    pub(super) pacing: Pacing,
    pub(super) timers: Timers,
    pub(super) memory: Memory<R>,
    /// Whether the shell watches the key.
    pub(super) is_watching: bool,
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// A committer that knows nothing of the store yet. Each one needs a generator with another seed: the numbers of
    /// its stores ([`Known::store`]) come from it.
    pub fn new(range: R, config: Config, rng: G) -> Self {
        Self::with_limits(range, config, Limits::default(), rng)
    }

    /// A committer that remembers more or less. A simulation has short schedules reach the limits.
    pub fn with_limits(range: R, config: Config, limits: Limits, mut rng: G) -> Self {
        let number = rng.next_u32();
        Self {
            config,
            rng,
            queue: Queue::new(limits),
            flight: None,
            history: History::new(range, config.strategy, limits, number),
            protection: Protection::new(range.size(), config.grace, limits),
            pacing: Pacing::default(),
            timers: Timers::default(),
            memory: Memory::new(),
            is_watching: false,
        }
    }

    /// The configured range.
    pub fn range(&self) -> R {
        self.history.range()
    }

    /// How many operations have not ended.
    pub fn pending(&self) -> usize {
        let submitters = self.queue.submitters().chain(self.flight.iter().flat_map(Flight::submitters));
        submitters.filter(|submitter| matches!(submitter, Submitter::Caller(_))).count()
    }

    /// Queues an operation; it ends by `deadline` (`Duration::MAX` for none).
    pub fn submit(&mut self, mut operation: Operation<R>, deadline: Duration) -> Ticket {
        let ticket = self.queue.next_ticket();
        let submitter = Submitter::Caller(ticket);
        if let Err(failure) = operation.check(self.range()) {
            self.queue.end(submitter, Outcome::Failed(failure));
            return ticket;
        }
        if let Operation::Repair(diff) = &mut operation {
            self.protection.duplicated(&diff.duplicates);
            diff.read = self.history.accept_pass(diff.read);
        }
        self.timers.set_earlier(Timer::Deadline, deadline);
        self.queue.push(Pending::new(submitter, operation, deadline));
        ticket
    }

    /// Ends an operation that its caller no longer waits for. What it allocates all the same is released again. Cost:
    /// O(operations that wait).
    pub fn cancel(&mut self, ticket: Ticket) {
        let submitter = Submitter::Caller(ticket);
        let queued = self.queue.remove(submitter).map(|pending| pending.given_up(false, Failure::Cancelled));
        if let Some(outcome) = queued.or_else(|| self.flight.as_mut()?.cancel(submitter)) {
            self.queue.end(submitter, outcome);
        }
    }

    /// Takes back the outcome of an operation whose caller no longer waits for it: releases what was allocated.
    pub fn abandon(&mut self, outcome: Outcome<R>) {
        if let Outcome::Allocated { values, revision, store, .. } = outcome {
            self.queue.undo(values, revision, store);
        }
    }

    /// The Service for which this committer allocated a value is stored. Until then the value is set again in a store
    /// that is restored from a backup.
    pub fn written(&mut self, value: R::Value) {
        if let Some(offset) = self.range().offset_of(value) {
            self.protection.written(offset);
        }
    }

    /// Returns what to do next. To be called again after it is done, until it says to wait; and after each
    /// [`submit`](Self::submit), [`cancel`](Self::cancel), [`abandon`](Self::abandon) and [`handle`](Self::handle).
    ///
    /// Cost: that of the operations that it carries out, O(size / 64) for each request; once a deadline is over
    /// O(operations that wait).
    pub fn poll(&mut self, now: Duration) -> Step<R> {
        self.advance(now);
        let finished = self.queue.take_finished();
        if !finished.is_empty() {
            return Step::Finished(finished);
        }
        let needs_watch = self.waits_for_history() || self.timers.is_set(Timer::Watch);
        let from = self.history.watch_from(needs_watch).filter(|_| !self.asks_for_past());
        if from.is_some() != mem::replace(&mut self.is_watching, from.is_some()) {
            return from.map_or(Step::StopWatch, |from| Step::Watch { from });
        }
        self.next_request(now)
    }

    /// The time is `now`.
    fn advance(&mut self, now: Duration) {
        self.expire(now);
        self.protection.advance(now);
        let may_be_new = self.timers.is_running(Timer::NewStore, now);
        self.history.connection.compare(self.queue.newest_as_of(), may_be_new);
        self.timers.expire(Timer::Watch, now);
        let waits = self.waits_for_history();
        // Once a watch has caught up or failed, the next gap has its own time, also if a request was under way all
        // along.
        if (!waits || self.may_send(now)) && self.timers.wait_for_watch(waits, now) && self.history.watch_lags() {
            self.history.watch_failed();
        }
    }

    /// Whether there is something to send, and no request under way or back-off in its way.
    fn may_send(&self, now: Duration) -> bool {
        self.flight.is_none() && !self.queue.is_empty() && !self.timers.is_running(Timer::Retry, now)
    }

    fn next_request(&mut self, now: Duration) -> Step<R> {
        if !self.may_send(now) {
            let backs_off = self.flight.is_none() && !self.queue.is_empty();
            return self.wait(backs_off.then_some(Timer::Retry));
        }
        let Some(base) = self.history.current(now).filter(|_| !self.would_lose(now)) else {
            self.history.connection.read_sent();
            return self.send(now, None, StoreRequest::Read);
        };
        if let Some(revision) = self.missing_past() {
            return self.send(now, None, StoreRequest::ReadAt { revision });
        }
        if self.pacing.lingers(self.queue.len(), now, &self.timers) {
            return self.wait(Some(Timer::Linger));
        }
        if self.waits_for_history() && self.timers.is_running(Timer::HistoryWait, now) {
            return self.wait(Some(Timer::HistoryWait));
        }
        let is_complete = self.history.is_complete();
        let operations = self.queue.take_ready(|pending| is_complete || !pending.needs_history(self.history.is_kept()));
        if operations.is_empty() {
            return self.wait(Some(Timer::WatchLost));
        }
        if self.config.replace == Replace::Once && base.is_initialised() {
            self.config.replace = Replace::IfUnused;
        }
        let context =
            Context { changes: self.history.changes(), protection: &self.protection, replace: self.config.replace };
        let batch = Batch::plan(base, operations, context, &mut self.memory, &mut self.rng);
        let request = batch.request(&mut self.memory);
        self.send(now, Some(batch), request)
    }

    pub(super) fn send(&mut self, now: Duration, batch: Option<Batch<R>>, request: StoreRequest) -> Step<R> {
        let (asked, reached) = (self.queue.submitted(), self.history.connection.reached());
        let is_swap = matches!(request, StoreRequest::Swap { .. });
        let past = if let StoreRequest::ReadAt { revision } = request { Some(revision) } else { None };
        self.flight = Some(Flight { sent: now, asked, reached, batch, is_swap, past });
        Step::Send(request)
    }

    /// Whether a compare-and-swap on what was known a while ago would probably lose the race.
    pub(super) fn would_lose(&self, now: Duration) -> bool {
        self.pacing.would_lose(self.history.connection.answer_age(now).unwrap_or_default(), now, &self.timers)
    }

    fn wait(&self, held_up_by: Option<Timer>) -> Step<R> {
        self.timers.next(held_up_by).map_or(Step::Idle, Step::Wait)
    }

    /// The revision whose state an edit needs, and that is not known.
    fn missing_past(&self) -> Option<u64> {
        self.queue.needs_past().filter(|revision| self.history.misses(*revision))
    }

    /// Whether a state of the past is read, or is to be read next: a watch begins after it.
    fn asks_for_past(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.past.is_some()) || self.missing_past().is_some()
    }

    fn waits_for_history(&self) -> bool {
        !self.history.is_complete() && self.queue.needs_history(self.history.is_kept())
    }

    /// Takes the value of an earlier compare-and-swap back, whose memory the next one uses again.
    pub fn reuse(&mut self, value: Vec<u8>) {
        self.memory.keep_value(value);
    }

    /// Whether this committer handed `offset` out so recently that its Service may not be stored yet.
    pub fn is_handed_out(&self, offset: u32) -> bool {
        self.protection.is_handed_out(offset)
    }

    /// What is known of the object without asking the store. Cost: O(1); after a change by others O(size / 64).
    pub fn known(&self) -> Known {
        self.history.known()
    }

    /// Ends what is over its deadline.
    fn expire(&mut self, now: Duration) {
        if !self.timers.is_over(Timer::Deadline, now) {
            return;
        }
        self.queue.expire(now);
        let under_way = self.flight.as_mut().map_or(Duration::MAX, |flight| flight.expire(now, &mut self.queue));
        self.timers.set_next_deadline(self.queue.earliest_deadline().min(under_way));
    }
}
