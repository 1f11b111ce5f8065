//! The committer: it joins its parts into the protocol.

use std::time::Duration;

use rand_core::Rng;

use crate::bitmap::Bitmap;
use crate::range::Range;

use super::batch::{Batch, Memory};
use super::config::Config;
use super::faults::Fault;
use super::flight::Flight;
use super::history::{Adopted, History};
use super::limits::Limits;
use super::operation::{Failure, Finished, Known, Operation, Outcome, Ticket};
use super::pacing::Pacing;
use super::pending::{Owner, Pending};
use super::plan::Context;
use super::protection::Protection;
use super::queue::Queue;
use super::request::{Answer, Change, Guard, Header, Request, Step};
use super::settlement::{self, Written};
use super::timers::{Timer, Timers};

/// One stored object and the operations on it.
///
/// Memory: up to 1 MiB for a /12 beside the object, mostly the history of the last grace.
#[derive(Clone, Debug)]
pub struct Committer<R: Range, G> {
    pub(super) config: Config,
    rng: G,
    pub(super) queue: Queue<R>,
    flight: Option<Flight<R>>,
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
        self.queue = Queue::new(limits);
        self.history = History::new(self.range(), self.config.strategy, limits);
        self.protection = Protection::new(self.range().size(), self.config.grace, limits);
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
        let owner = Owner::Caller(ticket);
        if let Err(failure) = operation.check(self.range()) {
            self.queue.end(owner, Outcome::Failed(failure));
            return ticket;
        }
        if let Operation::Repair(diff) = &mut operation {
            self.protection.duplicated(&diff.duplicates);
            diff.read = self.history.accept_pass(diff.read);
        }
        self.timers.set_earlier(Timer::Deadline, deadline);
        self.queue.push(Pending::new(owner, operation, deadline));
        ticket
    }

    /// Ends an operation whose caller does not want it any more. What it allocates all the same is released again.
    pub fn cancel(&mut self, ticket: Ticket) {
        let owner = Owner::Caller(ticket);
        let queued = self.queue.remove(owner).map(|pending| pending.given_up(false, Failure::Cancelled));
        if let Some(outcome) = queued.or_else(|| self.flight.as_mut()?.cancel(owner)) {
            self.queue.end(owner, outcome);
        }
    }

    /// What to do next. Finished operations should be handed out before, so that their callers join the next batch.
    pub fn poll(&mut self, now: Duration) -> Step {
        self.expire(now);
        self.protection.advance(now);
        let may_be_new = self.timers.is_running(Timer::Wary, now) && !Fault::NewStoreNotWary.is_on();
        self.history.connection.compare(self.queue.newest_as_of(), may_be_new);
        self.timers.expire(Timer::Watch, now);
        if self.flight.is_some() || self.queue.is_empty() {
            return self.wait(None);
        }
        if self.timers.is_running(Timer::Retry, now) {
            return self.wait(Some(Timer::Retry));
        }
        let waits = self.waits_for_history();
        if self.timers.wait_for_watch(waits, now) && self.history.watch_lags() {
            self.history.watch_failed();
        }
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
        self.pacing.would_lose(self.history.connection.answer_age(now).unwrap_or_default(), now, &self.timers)
    }

    fn wait(&self, held_up_by: Option<Timer>) -> Step {
        self.timers.next(held_up_by).map_or(Step::Idle, Step::WaitUntil)
    }

    fn waits_for_history(&self) -> bool {
        !self.history.is_complete() && self.queue.needs_history(self.history.is_kept())
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
                settlement::put_back(batch, flight.is_swap, &mut self.queue);
            }
            // Nobody asked for that.
            (None, Answer::Held) => self.history.connection.require_read(),
            (batch, Answer::Current(key)) => {
                if let Some(batch) = batch {
                    self.pacing.answered();
                    self.keep_conflicted(&batch);
                    if settlement::conflict(batch, key.map_or(Guard::default(), |key| key.state), &mut self.queue) {
                        self.pacing.lost(now, &mut self.timers, &mut self.rng);
                    }
                }
                let adopted = self.history.adopt(header, key, &mut self.protection);
                if adopted == Adopted::Foreign {
                    self.pacing.contended(now, &mut self.timers);
                }
                if adopted != Adopted::Unchanged {
                    settlement::restore_lost(&self.history, &mut self.protection, &mut self.queue);
                }
                self.claim_equal_bytes(now);
                self.settle();
            }
        }
        self.queue.end_foreign_releases(header.revision, flight.asked);
        if !is_same_store && !Fault::PassAcrossStores.is_on() {
            self.queue.disown_passes();
        }
    }

    /// It is not known whether the request took effect, or will.
    pub fn unknown(&mut self, now: Duration) {
        self.failed(now, None);
    }

    /// The store refuses the request and says why: no space, no permission. It will not take effect later.
    pub fn refused(&mut self, now: Duration, message: &str) {
        self.failed(now, Some(message));
    }

    fn failed(&mut self, now: Duration, refusal: Option<&str>) {
        let Some(flight) = self.flight.take() else { return };
        self.pacing.failed(now, &mut self.timers, &mut self.rng);
        self.history.connection.require_read();
        match (flight.batch, refusal) {
            (Some(batch), Some(message)) => settlement::refuse(batch, flight.is_swap, message, &mut self.queue),
            (None, Some(message)) => self.queue.refuse_all(message),
            (batch, None) => {
                self.keep_unknown(batch.as_ref().filter(|_| flight.is_swap));
                batch.into_iter().for_each(|batch| settlement::put_back(batch, flight.is_swap, &mut self.queue));
            }
        }
    }

    /// The connection is a new one: what was known may be out of date, or the store be another one. To be called before
    /// anything is reported that came over the new connection; a watch that runs has to end.
    pub fn reconnected(&mut self) {
        self.history.connection.reconnected();
    }

    /// Whether to record all changes of the key even if no operation waits for them: while a repair pass counts leaks.
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
            settlement::restore_lost(&self.history, &mut self.protection, &mut self.queue);
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
        self.queue.take_finished()
    }

    pub(super) fn changed_since(&self, revision: u64) -> Option<Bitmap> {
        self.history.changed_since(revision)
    }

    pub(super) fn changed_of(&self, leaks: impl Iterator<Item = u32>, revision: u64) -> Option<Bitmap> {
        self.history.changed_of(leaks, revision)
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

    /// Returns whether it is still the same store, as it was; else all that was known is forgotten.
    fn identify(&mut self, now: Duration, header: Header, reached: u64, answer: Answer<'_>) -> bool {
        let is_new = self.history.connection.is_new();
        let is_same = self.history.answered(now, header, reached, answer);
        if is_new || !is_same {
            self.timers.be_wary(now, self.config.grace);
        }
        if !is_same {
            self.protection.change_store();
            self.settle();
        }
        is_same
    }

    /// Decides what becomes of operations with an unknown outcome, as the key may have changed.
    fn settle(&mut self) {
        self.take_for_ours();
        self.queue.settle(self.history.state());
    }

    /// A compare-and-swap was written, at this revision.
    fn committed(&mut self, sent: Duration, now: Duration, revision: u64, mut batch: Batch<R>) {
        self.protection.advance(now);
        // A watch may have reported it before, or even what came after.
        let is_known = self.history.changes().head().mod_revision >= revision;
        self.protection.cleared(&batch.cleared, is_known);
        if let Some(next) = batch.next.take() {
            let changes = batch.set.iter().chain(&batch.cleared).copied();
            self.memory.keep(self.history.committed(revision, batch.state, next, changes));
            self.settle();
            settlement::restore_lost(&self.history, &mut self.protection, &mut self.queue);
        }
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        let written = Written::new(revision, sent, now, self.config.grace);
        written.end(batch, &mut self.queue, &mut self.history, &mut self.protection);
    }

    /// The state that a batch was evaluated on is confirmed, and the batch changes nothing.
    pub(super) fn confirmed(&mut self, now: Duration, revision: u64, batch: Batch<R>) {
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        settlement::confirm(batch, revision, &mut self.queue, &mut self.history);
    }
}
