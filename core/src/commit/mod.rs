//! The commit protocol: how allocations, releases and repairs of several servers become writes of one key of etcd,
//! without a value ever being handed out twice.
//!
//! A [`Committer`] keeps one stored object. Callers [`submit`](Committer::submit) operations; the shell asks by
//! [`poll`](Committer::poll) what to send, performs it, reports how it ended, and hands out what
//! [`take_finished`](Committer::take_finished) gives. Many operations share one compare-and-swap, there is no read
//! before a write, and a conflict brings the current value with it.
//!
//! - An operation ends only by an answer to a request that was sent after its submission: nothing is told from memory.
//! - A value is set freely on whatever is stored now, and cleared only if it was set without a break from the
//!   operation's anchor on. For that the committer remembers what changed when, and asks for a watch
//!   ([`watch_from`](Committer::watch_from)) where it has not seen every state.
//! - What may have happened is neither taken as done nor done again: rather a value leaks, and a repair pass frees it.
//!
//! Times are durations from a moment that the shell chooses, by a clock that never goes back. Randomness comes from
//! the caller's generator. Nothing else comes in but the store's answers, so that everything can be played again.

mod base;
mod history;
mod operation;
mod recent;
mod request;
mod round;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use rand_core::Rng;

use crate::allocator::{AllocateError, BatchError, Request as Wanted, Strategy};
use crate::bitmap::Bitmap;
use crate::range::Range;

use base::{Base, Content, Standing};
use history::{History, differences};
use recent::Recent;
use round::{Context, Entry, Planned, Round};

pub use operation::{Deferral, Diff, Failure, Finished, Operation, Outcome, Repaired, Ticket, View};
pub use request::{Answer, Change, Guard, Header, KeyValue, Request, Step};

/// How long a swap waits for more operations to come, at most.
const GATHER: Duration = Duration::from_millis(1);
/// After so long without an answer, a read comes before the next swap.
const STALE: Duration = Duration::from_secs(5);
/// The first wait after a failure, which doubles with each further one up to the longest.
const BACK_OFF: Duration = Duration::from_millis(1);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(256);
/// How long a watch may take to tell what happened between two answers.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many operations go into one swap.
const OPERATIONS_PER_SWAP: usize = 4096;

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
/// Memory: up to 1 MiB for a /12 beside the object, mostly what is remembered of the last grace.
#[derive(Clone, Debug)]
pub struct Committer<R: Range, G> {
    range: R,
    config: Config,
    rng: G,
    base: Option<Base<R>>,
    history: History,
    /// What this committer handed out within the last grace.
    handed_out: Recent<3>,
    /// What was cleared within the last grace, by whomever.
    cleared: Recent<2>,
    duplicates: Vec<u32>,
    /// Whether history is wanted though no operation waits for it.
    keeps_history: bool,
    queue: VecDeque<Pending<R>>,
    flight: Option<Flight<R>>,
    finished: Vec<Finished<R>>,
    submitted: u64,
    /// The head of the last answer, and when it came.
    last: Option<(Header, Duration)>,
    must_read: bool,
    /// How many requests have failed in a row, and when the next one may be sent.
    failures: u32,
    retry_at: Duration,
    /// How many operations the last answer ended, and until when their callers may come back.
    expected: usize,
    gather_until: Duration,
    /// Until when nothing is sent while operations wait for history: others who write all the time would put it off
    /// for ever.
    patient_until: Duration,
    /// No deadline is earlier.
    earliest_deadline: Duration,
}

/// For whom an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Caller(Ticket),
    /// The committer itself.
    Own,
    /// A caller who was told already that the outcome is not known.
    Nobody,
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
struct Pending<R: Range> {
    owner: Owner,
    operation: Operation<R>,
    deadline: Duration,
    /// A swap on this state may have carried it out.
    doubt: Option<Guard>,
}

/// The request that is under way.
#[derive(Clone, Debug)]
struct Flight<R: Range> {
    sent: Duration,
    round: Option<Round<R>>,
    /// Whether the round is written; else it is confirmed.
    is_swap: bool,
}

impl<R: Range> Pending<R> {
    fn names_a_value(&self) -> bool {
        matches!(&self.operation, Operation::Allocate(wanted) if wanted.iter().any(|one| matches!(one, Wanted::This(_))))
    }

    /// Whether it clears offsets, for which their history has to be known.
    fn needs_history(&self) -> bool {
        matches!(self.operation, Operation::Release { .. } | Operation::Repair(_))
    }

    /// How it ends if it is given up. `sent` tells that a swap with it is under way.
    fn given_up(&self, sent: bool, failure: Failure<R>) -> Outcome<R> {
        let changes_nothing = matches!(self.operation, Operation::Read);
        if (sent && !changes_nothing) || self.doubt.is_some() { Outcome::Unknown } else { Outcome::Failed(failure) }
    }
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// A committer that knows nothing of the store yet.
    pub fn new(range: R, config: Config, rng: G) -> Self {
        Self {
            range,
            config,
            rng,
            base: None,
            history: History::default(),
            handed_out: Recent::new(range.size(), config.grace),
            cleared: Recent::new(range.size(), config.grace),
            duplicates: Vec::new(),
            keeps_history: false,
            queue: VecDeque::new(),
            flight: None,
            finished: Vec::new(),
            submitted: 0,
            last: None,
            must_read: false,
            failures: 0,
            retry_at: Duration::ZERO,
            expected: 0,
            gather_until: Duration::ZERO,
            patient_until: Duration::ZERO,
            earliest_deadline: Duration::MAX,
        }
    }

    /// The configured range.
    pub fn range(&self) -> R {
        self.range
    }

    /// How many operations have not ended.
    pub fn pending(&self) -> usize {
        let entries = self.flight.iter().filter_map(|flight| flight.round.as_ref()).flat_map(|round| &round.entries);
        let all = self.queue.iter().chain(entries.map(|entry| &entry.pending));
        all.filter(|pending| matches!(pending.owner, Owner::Caller(_))).count()
    }

    /// Takes an operation on; it ends by `deadline` (`Duration::MAX` for none).
    pub fn submit(&mut self, operation: Operation<R>, deadline: Duration) -> Ticket {
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        if let Some(error) = self.not_in_range(&operation) {
            self.end(Owner::Caller(ticket), Outcome::Failed(error.into()));
            return ticket;
        }
        if let Operation::Release { anchor, .. } = operation {
            // The store has gone on since the last answer.
            self.must_read |= self.last.is_some_and(|(header, _)| header.revision < anchor);
        }
        self.enqueue(Owner::Caller(ticket), operation, deadline);
        ticket
    }

    /// Ends an operation whose caller does not want it any more. What it allocates if it takes place nevertheless is
    /// released again.
    pub fn cancel(&mut self, ticket: Ticket) {
        let owner = Owner::Caller(ticket);
        if let Some(at) = self.queue.iter().position(|pending| pending.owner == owner)
            && let Some(pending) = self.queue.remove(at)
        {
            return self.end(owner, pending.given_up(false, Failure::Cancelled));
        }
        let Some(flight) = &mut self.flight else { return };
        let mut entries = flight.round.iter_mut().flat_map(|round| &mut round.entries);
        if let Some(entry) = entries.find(|entry| entry.pending.owner == owner) {
            entry.pending.owner = Owner::Nobody;
            let outcome = entry.pending.given_up(flight.is_swap, Failure::Cancelled);
            self.end(owner, outcome);
        }
    }

    /// What to do next. Finished operations should be handed out before, so that their callers join the next swap.
    pub fn poll(&mut self, now: Duration) -> Step {
        self.expire(now);
        self.handed_out.advance(now);
        self.cleared.advance(now);
        if self.flight.is_some() || self.queue.is_empty() {
            return self.wait(Duration::MAX);
        }
        if now < self.retry_at {
            return self.wait(self.retry_at);
        }
        let stale = self.last.is_none_or(|(_, at)| now.saturating_sub(at) > STALE);
        let current = |base: &&Base<R>| base.state.mod_revision >= self.history.head().mod_revision;
        let Some(base) = self.base.as_ref().filter(current).filter(|_| !stale && !self.must_read) else {
            self.flight = Some(Flight { sent: now, round: None, is_swap: false });
            return Step::Send(Request::Read);
        };
        if self.queue.len() < self.expected && now < self.gather_until {
            return self.wait(self.gather_until);
        }
        if !self.history.is_complete() && self.wants_history() && now < self.patient_until {
            return self.wait(self.patient_until);
        }
        let operations: Vec<_> = self.queue.drain(..self.queue.len().min(OPERATIONS_PER_SWAP)).collect();
        let context = Context {
            history: &self.history,
            handed_out: &self.handed_out,
            cleared: &self.cleared,
            duplicates: &self.duplicates,
        };
        let (round, waiting) = Round::plan(base, operations, &context, &mut self.rng);
        for pending in waiting.into_iter().rev() {
            self.queue.push_front(pending);
        }
        if round.entries.is_empty() {
            return self.wait(Duration::MAX);
        }
        let guard = round.state;
        let value = round.value();
        self.flight = Some(Flight { sent: now, is_swap: value.is_some(), round: Some(round) });
        Step::Send(match value {
            Some(value) => Request::Swap { guard, value },
            None => Request::Confirm { guard },
        })
    }

    /// The store has answered the request.
    pub fn answered(&mut self, now: Duration, header: Header, answer: Answer<'_>) {
        let Some(flight) = self.flight.take() else { return };
        let same_store = self.identify(now, header);
        self.must_read = false;
        match (flight.round, answer) {
            (Some(round), Answer::Held) if same_store => {
                self.failures = 0;
                self.retry_at = now;
                if flight.is_swap {
                    self.committed(flight.sent, now, header, round);
                } else {
                    self.confirmed(header, round);
                }
            }
            (Some(round), Answer::Held) => {
                self.must_read = true;
                self.put_back(round, flight.is_swap);
            }
            (round, Answer::Current(key)) => {
                if let Some(round) = round {
                    self.put_back(round, false);
                    // The first conflict costs no time: the answer has the current value.
                    self.failures += 1;
                    if self.failures > 1 {
                        self.back_off(now);
                    }
                }
                self.adopt(now, header, key);
                self.settle_doubts();
            }
            // Nobody asked for that.
            (None, Answer::Held) => self.must_read = true,
        }
    }

    /// It is not known whether the request took place, or will.
    pub fn unknown(&mut self, now: Duration) {
        let Some(flight) = self.flight.take() else { return };
        self.must_read = true;
        if let Some(round) = flight.round {
            self.put_back(round, flight.is_swap);
        }
        self.failures += 1;
        self.back_off(now);
    }

    /// The request did certainly not take place, and the store says why: no space, no permission.
    pub fn refused(&mut self, now: Duration, message: &str) {
        let Some(flight) = self.flight.take() else { return };
        self.failures += 1;
        self.back_off(now);
        self.must_read = true;
        let refused: Vec<Pending<R>> = match flight.round {
            Some(round) => round.entries.into_iter().map(|entry| entry.pending).collect(),
            None => self.queue.drain(..).collect(),
        };
        for pending in refused {
            let outcome = pending.given_up(false, Failure::Refused { message: message.to_owned() });
            self.end(pending.owner, outcome);
        }
    }

    /// The connection was made anew: what was known may be out of date.
    pub fn reconnected(&mut self) {
        self.must_read = true;
    }

    /// Whether all changes of the key are to be known even if no operation waits for them: while a repair pass counts
    /// leaks.
    pub fn keep_history(&mut self, keep: bool) {
        self.keeps_history = keep;
    }

    /// From which revision on the shell is to watch the key, if at all. It starts when this gives a revision, goes on
    /// through all changes of it, and ends when this gives `None`.
    pub fn watch_from(&self) -> Option<u64> {
        let known = self.base.is_some() && self.history.head() != Guard::default();
        let wanted = self.keeps_history || (!self.history.is_complete() && self.wants_history());
        (known && wanted).then(|| self.history.head().mod_revision + 1)
    }

    /// The watch tells a change.
    pub fn watched(&mut self, change: Change<'_>) {
        let Some(base) = &self.base else { return };
        let (head, base_revision) = (self.history.head(), base.state.mod_revision);
        let key = match change {
            Change::Put(key) if key.state.mod_revision > head.mod_revision => key,
            Change::Delete { revision } if revision > head.mod_revision => {
                // Everything was clear then. What came next is told by the next answer.
                self.must_read = true;
                self.history.restart(base.state);
                return self.history.forget_before(revision);
            }
            Change::Put(_) | Change::Delete { .. } => return,
        };
        let next = Guard { mod_revision: key.state.mod_revision, version: head.version + 1, ..head };
        if key.state != next {
            return self.watch_failed();
        }
        let seen = Base::decode(Some(key), self.range, self.config.strategy);
        let changes = differences(self.history.apart().unwrap_or(base.used()), seen.used());
        self.note_cleared(seen.used(), &changes);
        self.history.advance(key.state, changes);
        if key.state.mod_revision == base_revision {
            self.history.join();
        } else if key.state.mod_revision > base_revision && self.flight.is_none() {
            self.history.join();
            self.base = Some(seen);
        } else {
            self.history.part(seen.used().clone());
        }
    }

    /// The watch cannot tell all changes: the history is compacted. What waits for them goes on without.
    pub fn watch_failed(&mut self) {
        if let Some(base) = &self.base {
            self.history.restart(base.state);
        }
    }

    /// The offsets that changed after `revision`; `None` if that is not known. A leak counter lives only while its
    /// offset has not changed from one pass's read to the next.
    pub fn changed_since(&self, revision: u64) -> Option<Bitmap> {
        let mut changed = Bitmap::new(self.range.size());
        if !self.history.is_complete() {
            return None;
        }
        for offset in self.history.changed_since(revision)? {
            changed.insert(offset);
        }
        Some(changed)
    }

    /// Whether this committer handed `offset` out so lately that its Service may not be there yet.
    pub fn is_handed_out(&self, offset: u32) -> bool {
        self.handed_out.contains(offset)
    }

    /// The operations that have ended since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished<R>> {
        mem::take(&mut self.finished)
    }

    fn not_in_range(&self, operation: &Operation<R>) -> Option<BatchError<R>> {
        let Operation::Allocate(wanted) = operation else { return None };
        wanted.iter().enumerate().find_map(|(index, wanted)| match *wanted {
            Wanted::This(value) if self.range.offset_of(value).is_none() => {
                Some(BatchError::Allocate { index, source: AllocateError::NotInRange { value, range: self.range } })
            }
            _ => None,
        })
    }

    fn enqueue(&mut self, owner: Owner, operation: Operation<R>, deadline: Duration) {
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        self.queue.push_back(Pending { owner, operation, deadline, doubt: None });
    }

    fn end(&mut self, owner: Owner, outcome: Outcome<R>) {
        if let Owner::Caller(ticket) = owner {
            self.finished.push(Finished { ticket, outcome });
        }
    }

    fn wait(&self, until: Duration) -> Step {
        match until.min(self.earliest_deadline) {
            Duration::MAX => Step::Idle,
            until => Step::WaitUntil(until),
        }
    }

    fn wants_history(&self) -> bool {
        self.queue.iter().any(Pending::needs_history)
    }

    /// Ends what is over its deadline.
    fn expire(&mut self, now: Duration) {
        if now < self.earliest_deadline {
            return;
        }
        let mut over = Vec::new();
        let mut earliest = Duration::MAX;
        for pending in mem::take(&mut self.queue) {
            if now < pending.deadline {
                earliest = earliest.min(pending.deadline);
                self.queue.push_back(pending);
            } else {
                over.push((pending.owner, pending.given_up(false, Failure::DeadlineExceeded)));
            }
        }
        if let Some(flight) = &mut self.flight {
            for Entry { pending, .. } in flight.round.iter_mut().flat_map(|round| &mut round.entries) {
                if now < pending.deadline {
                    earliest = earliest.min(pending.deadline);
                } else if matches!(pending.owner, Owner::Caller(_)) {
                    over.push((pending.owner, pending.given_up(flight.is_swap, Failure::DeadlineExceeded)));
                    pending.owner = Owner::Nobody;
                }
            }
        }
        for (owner, outcome) in over {
            self.end(owner, outcome);
        }
        self.earliest_deadline = earliest;
    }

    fn back_off(&mut self, now: Duration) {
        let longest = BACK_OFF.saturating_mul(1 << self.failures.min(16)).min(LONGEST_BACK_OFF);
        let share = self.rng.next_u64() >> 32;
        self.retry_at = now + longest.mul_f64(share as f64 / f64::from(u32::MAX));
    }

    /// Whether it is still the same store, as it was; else all that was known is forgotten.
    fn identify(&mut self, now: Duration, header: Header) -> bool {
        let before = self.last.replace((header, now));
        let Some((before, _)) = before else { return true };
        let same = header.cluster_id == before.cluster_id
            && header.revision >= before.revision
            && header.raft_term >= before.raft_term;
        if !same {
            self.base = None;
            self.history.distrust(before.revision.max(header.revision));
            self.handed_out.clear();
            self.cleared.clear();
            self.duplicates.clear();
            self.settle_doubts();
        }
        same
    }

    /// Puts operations back whose request did not end them; with `doubt` it may have carried them out.
    fn put_back(&mut self, round: Round<R>, doubt: bool) {
        for Entry { mut pending, .. } in round.entries.into_iter().rev() {
            if pending.owner == Owner::Nobody {
                continue;
            }
            if doubt && matches!(pending.operation, Operation::Allocate(_)) {
                pending.doubt = Some(round.state);
            }
            self.earliest_deadline = self.earliest_deadline.min(pending.deadline);
            self.queue.push_front(pending);
        }
    }

    /// A swap may have happened if the key is not what it was. Then what it picked is leaked and picked afresh, and
    /// what it was to take by name cannot be told from what others took.
    fn settle_doubts(&mut self) {
        let state = self.base.as_ref().map(|base| base.state);
        for mut pending in mem::take(&mut self.queue) {
            if pending.doubt.is_some_and(|doubt| Some(doubt) != state) {
                if pending.names_a_value() {
                    self.end(pending.owner, Outcome::Unknown);
                    continue;
                }
                pending.doubt = None;
            }
            self.queue.push_back(pending);
        }
    }

    /// A swap was written.
    fn committed(&mut self, sent: Duration, now: Duration, header: Header, mut round: Round<R>) {
        let revision = header.revision;
        let create_revision = if round.state.create_revision == 0 { revision } else { round.state.create_revision };
        let state = Guard { mod_revision: revision, version: round.state.version + 1, create_revision };
        self.handed_out.advance(now);
        self.cleared.advance(now);
        for offset in &round.cleared {
            self.cleared.insert(*offset);
        }
        // A watch may have told of it before, or even of what came after.
        let seen = self.base.as_ref().is_some_and(|base| base.state.mod_revision >= revision);
        if let Some(mut next) = round.next.take().filter(|_| !seen) {
            if self.history.head() == state {
                self.history.join();
            } else if round.state == Guard::default() {
                self.history.restart(state);
            } else if self.history.is_complete() {
                self.history.advance(state, round.set.iter().chain(&round.cleared).copied());
            }
            next.envelope.range = self.range.to_string();
            self.base = Some(Base { state, content: Content::Readable(next) });
        }
        // Half of the grace is left for the caller, or else it would begin with too little.
        let late = now.saturating_sub(sent) > self.config.grace / 2;
        let use_until = sent + self.config.grace;
        self.expected = round.entries.len();
        self.gather_until = now + GATHER;
        for Entry { pending, planned } in round.entries {
            match planned {
                Planned::Take(offsets) => {
                    let values: Vec<R::Value> =
                        offsets.iter().filter_map(|offset| self.range.value_at(*offset)).collect();
                    if pending.owner == Owner::Nobody {
                        for value in values {
                            self.enqueue(Owner::Own, Operation::Release { value, anchor: revision }, Duration::MAX);
                        }
                    } else if !late {
                        for offset in offsets {
                            self.handed_out.insert(offset);
                        }
                        self.end(pending.owner, Outcome::Allocated { values, revision, use_until });
                    } else if pending.names_a_value() {
                        self.end(pending.owner, Outcome::Unknown);
                    } else {
                        self.queue.push_front(pending);
                    }
                }
                Planned::View => self.end_view(pending.owner, header),
                Planned::End(outcome) => self.end_repair(pending, outcome),
            }
        }
    }

    /// The state that a round was evaluated on is confirmed, and the round changes nothing.
    fn confirmed(&mut self, header: Header, round: Round<R>) {
        self.expected = round.entries.len();
        if let Some((_, now)) = self.last {
            self.gather_until = now + GATHER;
        }
        for Entry { pending, planned } in round.entries {
            match planned {
                Planned::View => self.end_view(pending.owner, header),
                Planned::End(outcome) => self.end_repair(pending, outcome),
                // An allocation of nothing.
                Planned::Take(_) => {
                    let outcome =
                        Outcome::Allocated { values: Vec::new(), revision: header.revision, use_until: Duration::MAX };
                    self.end(pending.owner, outcome);
                }
            }
        }
    }

    fn end_view(&mut self, owner: Owner, header: Header) {
        let Some(base) = &self.base else { return };
        let initialised = match &base.content {
            Content::Readable(readable) => readable.standing != Standing::Uninitialised,
            Content::Unreadable { .. } => false,
        };
        let view = View { revision: header.revision, used: base.used().clone(), initialised };
        self.end(owner, Outcome::Read(view));
    }

    fn end_repair(&mut self, pending: Pending<R>, outcome: Outcome<R>) {
        if let (Operation::Repair(diff), Owner::Caller(_)) = (pending.operation, pending.owner) {
            self.duplicates = diff.duplicates;
            self.duplicates.sort_unstable();
        }
        self.end(pending.owner, outcome);
    }

    /// The store has told what the key is.
    fn adopt(&mut self, now: Duration, header: Header, key: Option<KeyValue<'_>>) {
        let state = key.map_or(Guard::default(), |key| key.state);
        if self.base.as_ref().is_some_and(|base| base.state == state) {
            return;
        }
        let before = self.base.take();
        let base = Base::decode(key, self.range, self.config.strategy);
        let same_key = |before: &Base<R>| before.state.create_revision == state.create_revision;
        match before.filter(|before| state.create_revision != 0 && same_key(before)) {
            Some(_) if self.history.head() == state => self.history.join(),
            Some(before) if self.history.is_complete() && state.version == before.state.version + 1 => {
                let changes = differences(before.used(), base.used());
                self.note_cleared(base.used(), &changes);
                self.history.advance(state, changes);
            }
            Some(before) if self.keeps_history || self.wants_history() => {
                if self.history.is_complete() {
                    self.history.part(before.used().clone());
                    self.patient_until = now + PATIENCE;
                }
            }
            Some(_) => self.history.restart(state),
            None => {
                // Deleted, made anew, or never seen.
                self.history.restart(state);
                if state.create_revision == 0 {
                    self.history.forget_before(header.revision);
                }
                self.protect(&base);
            }
        }
        self.base = Some(base);
    }

    /// Sets again what was handed out a short while ago, after the key was made anew.
    fn protect(&mut self, base: &Base<R>) {
        let usable = matches!(&base.content, Content::Readable(readable) if readable.standing == Standing::Initialised);
        if self.handed_out.is_empty() || !usable {
            return;
        }
        let mut set = Bitmap::new(self.range.size());
        self.handed_out.add_to(&mut set);
        set.difference_with(base.used());
        let clear = Bitmap::new(self.range.size());
        let diff = Diff { read: base.state.mod_revision, set, clear, duplicates: Vec::new() };
        self.enqueue(Owner::Own, Operation::Repair(Box::new(diff)), Duration::MAX);
    }

    fn note_cleared(&mut self, after: &Bitmap, changes: &[u32]) {
        for offset in changes.iter().filter(|offset| !after.contains(**offset)) {
            self.cleared.insert(*offset);
        }
    }
}
