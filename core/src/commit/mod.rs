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
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(not(feature = "faults"))]
#[allow(unreachable_pub, reason = "public with the feature")]
mod faults;
mod history;
#[cfg(feature = "limits")]
pub mod limits;
#[cfg(not(feature = "limits"))]
#[allow(unreachable_pub, reason = "public with the feature")]
mod limits;
mod operation;
mod passes;
mod quarantine;
mod recent;
mod request;
mod round;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use rand_core::Rng;

use crate::allocator::{AllocateError, Allocator, BatchError, Request as Wanted, Strategy};
use crate::bitmap::Bitmap;
use crate::range::Range;

use base::{Base, Content, Standing};
use faults::Fault;
use history::{History, differences};
use limits::Limits;
use quarantine::Quarantine;
use recent::Recent;
use round::{Context, Entry, Planned, Round};

pub use operation::{Deferral, Diff, Failure, Finished, Known, Listed, Operation, Outcome, Repaired, Ticket, View};
pub use passes::Passes;
pub use request::{Answer, Change, Guard, Header, KeyValue, Request, Step};

/// How long a swap waits for more operations to come, at most.
const GATHER: Duration = Duration::from_millis(1);
/// Nothing is known of what happened since.
const UNKNOWN_REVISION: u64 = 0;
/// After so long without an answer, a read comes before the next swap.
const STALE: Duration = Duration::from_secs(5);
/// The first wait after a failure, which doubles with each further one up to the longest.
const BACK_OFF: Duration = Duration::from_millis(1);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(256);
/// How long a watch may take to tell what happened between two answers.
const PATIENCE: Duration = Duration::from_millis(100);
/// After so long in addition, what waits for the watch goes on without.
const WATCH_LOST: Duration = Duration::from_secs(5);
/// For how many swaps others count as writing the key, too, after one was seen.
const CONTENDED_SWAPS: u32 = 16;
/// How long a watch is kept after something waited for it: etcd lets a new one wait for up to 100 ms.
const WATCH_KEPT: Duration = Duration::from_secs(10);
/// For which part of the grace after an identified store anchors are compared with its revision before they are used: a
/// release may be about a Service that was deleted in the store that was there before. 11 seconds in Kubernetes.
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
/// Memory: up to 1 MiB for a /12 beside the object, mostly what is remembered of the last grace.
#[derive(Clone, Debug)]
pub struct Committer<R: Range, G> {
    range: R,
    config: Config,
    limits: Limits,
    rng: G,
    base: Option<Base<R>>,
    history: History,
    /// What this committer handed out within the last grace.
    handed_out: Recent<3>,
    /// Whether the range was made anew, or has to be: then what was handed out is to be set again.
    made_anew: bool,
    /// What was cleared within the last grace, by whomever.
    quarantine: Quarantine,
    /// What the last repair pass saw with more than one Service, ascending.
    duplicates: Vec<u32>,
    /// The newest state of the key that was handed out as a view.
    viewed: u64,
    /// Whether history is wanted though no operation waits for it.
    keeps_history: bool,
    queue: VecDeque<Pending<R>>,
    flight: Option<Flight<R>>,
    finished: Vec<Finished<R>>,
    /// Memory for the next round and its value.
    spare: Option<Allocator<R>>,
    buffer: Vec<u8>,
    submitted: u64,
    /// The head of the last answer, and when it came.
    last: Option<(Header, Duration)>,
    /// The newest revision that a watch has told.
    watched: u64,
    must_read: bool,
    /// No watch before the next answer: it has to tell whether the store is still the same, or what to watch from.
    unwatched: bool,
    /// No release that waits has a later anchor.
    newest_anchor: u64,
    /// Until when an anchor later than the last answer needs a read first: the store, or the connection to it, is new.
    wary_until: Duration,
    /// Whether such an anchor came before that.
    is_wary: bool,
    /// How many requests have failed in a row, and when the next one may be sent.
    failures: u32,
    retry_at: Duration,
    /// How long a swap takes, on average.
    swap_takes: Duration,
    /// Until when others count as writing the key, too.
    contended_until: Duration,
    /// How many swaps in a row were in vain.
    conflicts: u32,
    /// How many operations the last answer ended, and until when their callers may come back.
    expected: usize,
    gather_until: Duration,
    /// Until when nothing is sent while operations wait for history: others who write all the time would put it off
    /// for ever.
    patient_until: Option<Duration>,
    /// Until when the watch goes on though nothing waits for it; zero for not at all.
    watched_until: Duration,
    /// No deadline is earlier.
    earliest_deadline: Duration,
    /// A round that is to be repeated against the rules.
    #[cfg(feature = "faults")]
    repeat: Option<Round<R>>,
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
    /// A swap may have carried it out at some time: it cannot end as if nothing had been changed.
    was_in_doubt: bool,
    /// How many clears were dropped because Services had been written.
    dropped: u32,
    /// The store refused the swap that `doubt` is about: how it ends if that was not carried out.
    refusal: Option<Outcome<R>>,
    /// It was evaluated on another state before.
    #[cfg(feature = "faults")]
    rebased: bool,
}

/// The request that is under way.
#[derive(Clone, Debug)]
struct Flight<R: Range> {
    sent: Duration,
    /// Operations with lower tickets were submitted before.
    asked: u64,
    /// The store was known to have reached this revision.
    reached: u64,
    round: Option<Round<R>>,
    /// Whether the round is written; else it is confirmed.
    is_swap: bool,
}

impl<R: Range> Pending<R> {
    /// Whether the history has to be known: for clears, and for the view of a pass that counts leaks.
    fn needs_history(&self, keeps_history: bool) -> bool {
        match self.operation {
            Operation::Release { .. } => true,
            Operation::Repair(_) => self.owner != Owner::Own,
            Operation::Read => keeps_history,
            Operation::Allocate(_) | Operation::Create => false,
        }
    }

    /// How it ends if it is given up. `sent` tells that a swap with it is under way.
    fn given_up(&self, sent: bool, failure: Failure<R>) -> Outcome<R> {
        let changes_nothing = matches!(self.operation, Operation::Read);
        let sent = sent && !Fault::FlightForgotten.is_on();
        if (sent && !changes_nothing) || self.was_in_doubt { Outcome::Unknown } else { Outcome::Failed(failure) }
    }

    /// How it ends if the store confirms what it was evaluated to.
    fn ended(&self, outcome: Outcome<R>) -> Outcome<R> {
        match outcome {
            Outcome::Failed(failure) => self.given_up(false, failure),
            outcome => outcome,
        }
    }
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// A committer that knows nothing of the store yet.
    pub fn new(range: R, config: Config, rng: G) -> Self {
        Self {
            range,
            config,
            limits: Limits::default(),
            rng,
            base: None,
            history: History::new(Limits::default()),
            handed_out: Recent::new(
                range.size(),
                if Fault::OwnProtectedShortly.is_on() { config.grace * 2 / 3 } else { config.grace },
            ),
            made_anew: false,
            quarantine: Quarantine::new(range.size(), config.grace, Limits::default()),
            duplicates: Vec::new(),
            viewed: 0,
            keeps_history: false,
            queue: VecDeque::new(),
            flight: None,
            finished: Vec::new(),
            spare: None,
            buffer: Vec::new(),
            submitted: 0,
            last: None,
            watched: 0,
            must_read: false,
            unwatched: false,
            newest_anchor: 0,
            wary_until: Duration::ZERO,
            is_wary: false,
            failures: 0,
            retry_at: Duration::ZERO,
            swap_takes: Duration::ZERO,
            contended_until: Duration::ZERO,
            conflicts: 0,
            expected: 0,
            gather_until: Duration::ZERO,
            patient_until: None,
            watched_until: Duration::ZERO,
            earliest_deadline: Duration::MAX,
            #[cfg(feature = "faults")]
            repeat: None,
        }
    }

    /// Bounds what is remembered. To be called before anything else.
    #[cfg(feature = "limits")]
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.history = History::new(limits);
        self.quarantine = Quarantine::new(self.range.size(), self.config.grace, limits);
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
    pub fn submit(&mut self, mut operation: Operation<R>, deadline: Duration) -> Ticket {
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        if let Some(error) = self.not_in_range(&operation) {
            self.end(Owner::Caller(ticket), Outcome::Failed(error.into()));
            return ticket;
        }
        match &mut operation {
            Operation::Release { anchor, .. } => self.newest_anchor = self.newest_anchor.max(*anchor),
            Operation::Repair(diff) => {
                let read = diff.read;
                if let Some(listed) = diff.listed.revision().filter(|listed| *listed < read) {
                    self.end(Owner::Caller(ticket), Outcome::Failed(Failure::StaleList { listed, read }));
                    return ticket;
                }
                self.duplicates.clone_from(&diff.duplicates);
                self.duplicates.sort_unstable();
                if !self.history.accepts_pass(diff.read) && !Fault::PassAcrossStores.is_on() {
                    diff.read = UNKNOWN_REVISION;
                }
            }
            _ => {}
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
        self.quarantine.advance(now);
        // A later anchor says that the store has gone on since the last answer, which needs no read: if the swap holds, the
        // key has not changed since then. Or else that it was another store's.
        let newer = self.last.is_some_and(|(header, _)| header.revision < self.newest_anchor);
        let wary = now < self.wary_until && !Fault::NewStoreNotWary.is_on();
        self.is_wary = newer && (self.is_wary || wary);
        if now >= self.watched_until {
            self.watched_until = Duration::ZERO;
        }
        if self.flight.is_some() || self.queue.is_empty() {
            return self.wait(Duration::MAX);
        }
        if now < self.retry_at {
            return self.wait(self.retry_at);
        }
        let waits = self.waits_for_history();
        self.patient_until = self.patient_until.filter(|_| waits).or(waits.then_some(now + PATIENCE));
        let patient_until = self.patient_until.unwrap_or(now);
        if waits {
            self.watched_until = now + WATCH_KEPT;
        }
        // If the watch has run ahead, a read is what is missing.
        let lags = |base: &Base<R>| base.state.mod_revision > self.history.head().mod_revision;
        if waits && now >= patient_until + WATCH_LOST && self.base.as_ref().is_some_and(lags) {
            self.watch_failed();
        }
        let stale = self.last.is_none_or(|(_, at)| now.saturating_sub(at) > STALE);
        let current = |base: &&Base<R>| base.state.mod_revision >= self.history.head().mod_revision;
        let behind = self.is_wary && !Fault::AnchorOfAnotherStore.is_on();
        let Some(base) = self.base.as_ref().filter(current).filter(|_| !stale && !behind && !self.must_read) else {
            return self.send_read(now);
        };
        // Where others write, a swap on what was known a while ago would be in vain.
        let known_for = self.last.map_or(Duration::ZERO, |(_, at)| now.saturating_sub(at));
        if now < self.contended_until && known_for > self.swap_takes / 2 {
            return self.send_read(now);
        }
        #[cfg(feature = "faults")]
        if let Some(request) =
            faults::repeat(&mut self.repeat, base, &mut self.queue, self.submitted, now, &mut self.flight)
        {
            return Step::Send(request);
        }
        if self.queue.len() < self.expected && now < self.gather_until {
            return self.wait(self.gather_until);
        }
        if waits && now < patient_until {
            return self.wait(patient_until);
        }
        let complete = self.history.is_complete() || Fault::ClearWithoutHistory.is_on();
        let is_ready = |pending: &Pending<R>| complete || !pending.needs_history(self.keeps_history);
        let operations = take_ready(&mut self.queue, self.limits.operations, is_ready);
        if operations.is_empty() {
            return self.wait(patient_until + WATCH_LOST);
        }
        let context = Context {
            history: &self.history,
            handed_out: &self.handed_out,
            quarantine: &self.quarantine,
            duplicates: &self.duplicates,
        };
        let round = Round::plan(base, operations, &context, &mut self.spare, &mut self.rng);
        #[cfg(feature = "faults")]
        let Some(round) = self.end_from_cache(round) else { return self.poll(now) };
        let (guard, services_unchanged_since) = (round.state, round.services_unchanged_since);
        let services_unchanged_since = services_unchanged_since.filter(|_| !Fault::ServicesNotGuarded.is_on());
        let value = round.value(&mut self.buffer);
        self.take_off(now, Some(round), value.is_some());
        Step::Send(match value {
            Some(value) => Request::Swap { guard, value, services_unchanged_since },
            None => Request::Confirm { guard },
        })
    }

    fn send_read(&mut self, now: Duration) -> Step {
        self.must_read = false;
        self.take_off(now, None, false);
        Step::Send(Request::Read)
    }

    fn take_off(&mut self, now: Duration, round: Option<Round<R>>, is_swap: bool) {
        self.flight = Some(Flight { sent: now, asked: self.submitted, reached: self.reached(), round, is_swap });
    }

    /// Which revision the store has reached, as far as answers and a watch have told.
    fn reached(&self) -> u64 {
        self.last.map_or(0, |(header, _)| header.revision).max(self.watched)
    }

    /// Takes the value of an earlier swap back, whose memory the next one uses again.
    pub fn reuse(&mut self, value: Vec<u8>) {
        self.buffer = value;
    }

    /// The store has answered the request.
    pub fn answered(&mut self, now: Duration, header: Header, answer: Answer<'_>) {
        let Some(flight) = self.flight.take() else { return };
        let same_store = self.identify(now, header, flight.reached, answer);
        // Else the connection was made anew after the request was sent, and the answer may be the old store's.
        self.unwatched &= self.must_read;
        if Fault::OldAnswerAfterReconnect.is_on() {
            (self.must_read, self.unwatched) = (false, false);
        }
        let asked = flight.asked;
        match (flight.round, answer) {
            (Some(round), Answer::Held) if same_store => {
                self.failures = 0;
                if !flight.is_swap {
                    return self.confirmed(header, round);
                }
                self.take_turns(flight.sent, now);
                self.committed(flight.sent, now, header.revision, round);
            }
            (Some(round), Answer::Held) => {
                self.must_read = true;
                self.put_back(round, flight.is_swap);
            }
            // Nobody asked for that.
            (None, Answer::Held) => self.must_read = true,
            (round, Answer::Current(key)) => {
                if let Some(round) = round {
                    self.failures = 0;
                    self.conflicted(now, round, key);
                }
                self.adopt(now, header, key);
                #[cfg(feature = "faults")]
                self.claim_equal_bytes(now);
                self.settle_doubts();
            }
        }
        self.drop_foreign_anchors(header, asked);
        if !same_store && !Fault::PassAcrossStores.is_on() {
            self.disown_passes();
        }
    }

    /// It is not known whether the request took place, or will.
    pub fn unknown(&mut self, now: Duration) {
        let Some(flight) = self.flight.take() else { return };
        self.failures += 1;
        self.back_off(now);
        self.must_read = true;
        #[cfg(feature = "faults")]
        if Fault::EqualBytesTakenForOurs.is_on() || Fault::RepeatedWithOldRights.is_on() {
            self.repeat = flight.round.clone().filter(|_| flight.is_swap);
        }
        if let Some(round) = flight.round {
            self.put_back(round, flight.is_swap);
        }
    }

    /// The store refuses the request and says why: no space, no permission. It will not take place later.
    pub fn refused(&mut self, now: Duration, message: &str) {
        let Some(mut flight) = self.flight.take() else { return };
        self.failures += 1;
        self.back_off(now);
        self.must_read = true;
        if let Some(mut round) = flight.round.take_if(|_| flight.is_swap && !Fault::RefusalTakenForFailure.is_on()) {
            // etcd carries a swap out and then says that there is no space any more. A read tells.
            for Entry { pending, .. } in &mut round.entries {
                pending.refusal = Some(pending.given_up(false, Failure::Refused { message: message.to_owned() }));
            }
            return self.put_back(round, true);
        }
        let refused: Vec<Pending<R>> = match flight.round {
            Some(round) => round.entries.into_iter().map(|entry| entry.pending).collect(),
            None => self.queue.drain(..).collect(),
        };
        for pending in refused {
            let outcome = pending.given_up(false, Failure::Refused { message: message.to_owned() });
            self.end(pending.owner, outcome);
        }
    }

    /// The connection was made anew: what was known may be out of date, or the store be another one. To be called
    /// before anything is reported that came over the new connection; a watch that runs has to end.
    pub fn reconnected(&mut self) {
        self.must_read = true;
        self.unwatched = true;
    }

    /// Whether all changes of the key are to be known even if no operation waits for them: while a repair pass counts
    /// leaks.
    pub fn keep_history(&mut self, keep: bool) {
        self.keeps_history = keep;
    }

    /// From which revision on the shell is to watch the key, if at all. It starts when this gives a revision, goes on
    /// through all changes of it, and ends when this gives `None`: nothing of that watch is reported after that.
    pub fn watch_from(&self) -> Option<u64> {
        let known = self.base.is_some() && self.history.head() != Guard::default();
        let wanted = self.keeps_history || self.waits_for_history() || self.watched_until > Duration::ZERO;
        // The key was still as it is known when the last answer came. What lies before may be compacted.
        let told = self.last.filter(|_| self.history.is_complete()).map_or(0, |(header, _)| header.revision);
        (known && wanted && self.may_watch()).then(|| self.history.head().mod_revision.max(told) + 1)
    }

    fn may_watch(&self) -> bool {
        !self.unwatched || Fault::WatchAcrossStores.is_on()
    }

    /// The watch tells a change.
    pub fn watched(&mut self, change: Change<'_>) {
        let Some(base) = self.base.as_ref().filter(|_| self.may_watch()) else { return };
        // Also if it cannot be used for the history.
        self.watched = self.watched.max(match change {
            Change::Put(key) => key.state.mod_revision,
            Change::Delete { revision } => revision,
        });
        let (head, base_revision) = (self.history.head(), base.state.mod_revision);
        let key = match change {
            Change::Put(key) if key.state.mod_revision > head.mod_revision => key,
            Change::Delete { .. } if Fault::DeleteIgnored.is_on() => return,
            Change::Delete { revision } if revision > head.mod_revision => {
                // Everything was clear then. What came next is told by the next answer.
                self.must_read = true;
                self.history.restart(base.state);
                return self.history.forget_before(revision);
            }
            Change::Put(_) | Change::Delete { .. } => return,
        };
        let mut next = Guard { mod_revision: key.state.mod_revision, version: head.version + 1, ..head };
        if Fault::WatchOfAnotherKey.is_on() {
            next.create_revision = key.state.create_revision;
        }
        let accepted = (Fault::WatchWithGap.is_on() && key.state.create_revision == head.create_revision)
            || (Fault::DeleteIgnored.is_on() && key.state.version == 1);
        if key.state != next && !accepted {
            return self.watch_failed();
        }
        let seen = Base::decode(Some(key), self.range, self.config.strategy);
        let changes = differences(self.history.apart().unwrap_or(base.used()), seen.used());
        self.note_cleared(seen.used(), &changes);
        self.history.advance(key.state, changes);
        self.note_loss(&seen);
        if key.state.mod_revision == base_revision {
            self.history.join();
        } else if key.state.mod_revision > base_revision && self.flight.is_none() {
            self.history.join();
            self.base = Some(seen);
            self.settle_doubts();
            self.protect();
        } else {
            self.history.part(seen.used().clone());
        }
    }

    /// The watch cannot tell all changes: the history is compacted. What waits for them goes on without.
    pub fn watch_failed(&mut self) {
        if let Some(base) = &self.base {
            self.unwatched = true;
            #[cfg(feature = "faults")]
            if Fault::CompactedTakenAsEmpty.is_on() {
                return self.history.take_as_empty(base.state);
            }
            self.history.restart(base.state);
        }
    }

    /// The offsets that changed after this revision of the present store, at least up to the last [`View`]; `None` if
    /// that is not known.
    fn changed_since(&self, revision: u64) -> Option<Bitmap> {
        let mut changed = Bitmap::new(self.range.size());
        if self.history.head().mod_revision < self.viewed {
            return None;
        }
        for offset in self.history.changed_since(revision)? {
            changed.insert(offset);
        }
        Some(changed)
    }

    /// Those of these offsets, which the last pass counted as leaked, that changed after its view of this revision, or
    /// may have; `None` if that is not known of any.
    fn changed_of(&self, leaks: impl Iterator<Item = u32>, revision: u64) -> Option<Bitmap> {
        let is_unchanged = self.history.followed_since(revision)?;
        if self.history.head().mod_revision < self.viewed {
            return None;
        }
        let mut changed = Bitmap::new(self.range.size());
        for offset in leaks.filter(|offset| !is_unchanged(*offset)) {
            changed.insert(offset);
        }
        Some(changed)
    }

    /// Whether this committer handed `offset` out so lately that its Service may not be there yet.
    pub fn is_handed_out(&self, offset: u32) -> bool {
        self.handed_out.contains(offset)
    }

    /// What is known of the object without asking the store. Cost: O(1); after a change by others O(size / 64).
    pub fn known(&self) -> Known {
        self.base.as_ref().map_or_else(Known::default, |base| {
            let initialised = base.is_initialised();
            let used = if initialised { base.used().count() } else { 0 };
            Known { revision: base.state.mod_revision, used, initialised }
        })
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
        self.queue.push_back(Pending {
            owner,
            operation,
            deadline,
            doubt: None,
            was_in_doubt: false,
            dropped: 0,
            refusal: None,
            #[cfg(feature = "faults")]
            rebased: false,
        });
    }

    fn end(&mut self, owner: Owner, outcome: Outcome<R>) {
        if let Owner::Caller(ticket) = owner {
            self.finished.push(Finished { ticket, outcome });
        }
    }

    fn wait(&self, until: Duration) -> Step {
        let watched_until = if self.watched_until > Duration::ZERO { self.watched_until } else { Duration::MAX };
        match until.min(self.earliest_deadline).min(watched_until) {
            Duration::MAX => Step::Idle,
            until => Step::WaitUntil(until),
        }
    }

    fn waits_for_history(&self) -> bool {
        let needs_history = |pending: &Pending<R>| pending.needs_history(self.keeps_history);
        !self.history.is_complete() && self.queue.iter().any(needs_history)
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
        self.retry_at = now + self.jitter(longest);
    }

    /// Some time up to `longest`.
    fn jitter(&mut self, longest: Duration) -> Duration {
        let share = self.rng.next_u64() >> 32;
        longest.mul_f64(share as f64 / f64::from(u32::MAX))
    }

    /// Whether it is still the same store, as it was; else all that was known is forgotten.
    fn identify(&mut self, now: Duration, header: Header, reached: u64, answer: Answer<'_>) -> bool {
        if self.unwatched || self.last.is_none() {
            self.wary_until = now + self.config.grace / WARY_SHARE;
        }
        let before = self.last.replace((header, now));
        let Some((before, _)) = before else {
            if self.unwatched && !Fault::FirstAnswerTrusted.is_on() {
                // There was another connection before, and nobody knows to which store.
                self.history.distrust(header.revision);
            }
            return true;
        };
        let same = header.cluster_id == before.cluster_id
            && (header.revision >= before.revision.max(reached) || Fault::RevisionBackIgnored.is_on())
            && header.raft_term >= before.raft_term
            && !self.contradicts(header, answer)
            || Fault::CacheSurvivesRestore.is_on();
        if !same {
            self.wary_until = now + self.config.grace / WARY_SHARE;
            self.base = None;
            (self.viewed, self.watched) = (0, 0);
            // What this committer handed out stays protected: the Services of that may be written to this store.
            self.history.distrust(before.revision.max(reached).max(header.revision));
            self.quarantine.clear();
            self.duplicates.clear();
            self.settle_doubts();
        }
        same
    }

    /// Whether the key is what it cannot be any more, or never was, in the store that is known. After a restore this can
    /// tell what the header does not: etcd lets an operator raise the revision.
    fn contradicts(&self, header: Header, answer: Answer<'_>) -> bool {
        let (Some(base), Answer::Current(Some(key))) = (&self.base, answer) else { return false };
        if key.state.mod_revision < self.watched && self.watched <= header.revision {
            // A watch has told of a later change of it.
            return true;
        }
        let contradicts = |known: Guard, used: &Bitmap| match key.state.mod_revision.cmp(&known.mod_revision) {
            // A watch may have told of it already.
            _ if known.mod_revision > header.revision => false,
            Ordering::Less => true,
            Ordering::Equal => {
                key.state != known || Base::decode(Some(key), self.range, self.config.strategy).used() != used
            }
            // A key that was made anew is not taken for the known one anyhow.
            Ordering::Greater if key.state.create_revision != known.create_revision => false,
            Ordering::Greater => {
                let changes = key.state.version.saturating_sub(known.version);
                !(1..=key.state.mod_revision - known.mod_revision).contains(&changes)
            }
        };
        contradicts(base.state, base.used())
            || self.history.apart().is_some_and(|used| contradicts(self.history.head(), used))
    }

    /// What passes found out was about another store.
    fn disown_passes(&mut self) {
        for pending in &mut self.queue {
            if let Operation::Repair(diff) = &mut pending.operation {
                diff.read = UNKNOWN_REVISION;
            }
        }
    }

    /// Leaves releases to repair whose anchors the store has not reached though it was asked after their submission:
    /// they are revisions of another store, or of a time that a restore from a backup undid.
    fn drop_foreign_anchors(&mut self, header: Header, asked: u64) {
        if self.newest_anchor <= header.revision {
            return;
        }
        if Fault::AnchorOfAnotherStore.is_on() {
            return self.newest_anchor = 0;
        }
        self.newest_anchor = 0;
        for pending in mem::take(&mut self.queue) {
            match (&pending.operation, pending.owner) {
                (Operation::Release { anchor, .. }, owner) if *anchor > header.revision => {
                    if matches!(owner, Owner::Caller(ticket) if ticket.0 + u64::from(Fault::ForeignAnchorKept.is_on()) >= asked)
                    {
                        self.newest_anchor = self.newest_anchor.max(*anchor);
                        self.queue.push_back(pending);
                    } else if pending.was_in_doubt {
                        self.end(owner, Outcome::Unknown);
                    } else {
                        self.end(owner, Outcome::Deferred(Deferral::HistoryMissing));
                    }
                }
                _ => self.queue.push_back(pending),
            }
        }
    }

    /// Puts operations back whose request did not end them; with `doubt` it may have carried them out.
    fn put_back(&mut self, round: Round<R>, doubt: bool) {
        for Entry { mut pending, .. } in round.entries.into_iter().rev() {
            if pending.owner == Owner::Nobody {
                continue;
            }
            let is_allocation = matches!(pending.operation, Operation::Allocate(_));
            let trusted =
                pending.operation == Operation::Read || (!is_allocation && Fault::DoubtOnlyOfAllocations.is_on());
            if doubt && !trusted {
                pending.doubt = Some(round.state);
                pending.was_in_doubt = true;
            }
            #[cfg(feature = "faults")]
            {
                pending.rebased = true;
            }
            self.earliest_deadline = self.earliest_deadline.min(pending.deadline);
            self.queue.push_front(pending);
        }
    }

    /// If the key has changed, a swap without an answer cannot be written any more; it may have been. Its operations are
    /// evaluated again. Offsets that it may have picked are leaked. A named value that is free now can be taken; one that is
    /// in use ends the operation as unknown (see [`Pending::given_up`]), as it may be the caller's own.
    fn settle_doubts(&mut self) {
        let state = self.base.as_ref().map(|base| base.state);
        for mut pending in mem::take(&mut self.queue) {
            if pending.doubt.is_some_and(|doubt| Some(doubt) != state) {
                #[cfg(feature = "faults")]
                if let Some(outcome) = self.taken_for_ours(&pending) {
                    self.end(pending.owner, outcome);
                    continue;
                }
                pending.doubt = None;
                pending.refusal = None;
            } else if let Some(outcome) = pending.refusal.take() {
                self.end(pending.owner, outcome);
                continue;
            }
            self.queue.push_back(pending);
        }
    }

    /// A swap was written, at this revision.
    fn committed(&mut self, sent: Duration, now: Duration, revision: u64, mut round: Round<R>) {
        let create_revision = if round.state.create_revision == 0 { revision } else { round.state.create_revision };
        let state = Guard { mod_revision: revision, version: round.state.version + 1, create_revision };
        self.conflicts = 0;
        self.handed_out.advance(now);
        self.quarantine.advance(now);
        // A watch may have told of it before, or even of what came after.
        let told = self.history.head().mod_revision >= revision;
        for offset in &round.cleared {
            if !told {
                self.quarantine.insert(*offset);
            }
            self.handed_out.remove(*offset);
        }
        if let Some(mut next) = round.next.take() {
            if self.history.head() == state {
                self.history.join();
            } else if round.state == Guard::default() {
                self.history.restart(state);
            } else if self.history.is_complete() {
                self.history.advance(state, round.set.iter().chain(&round.cleared).copied());
            }
            next.envelope.range = self.range.to_string();
            let base = Base { state, content: Content::Readable(next) };
            if let Some(Base { content: Content::Readable(before), .. }) = self.base.replace(base) {
                self.spare = Some(before.used);
            }
            self.settle_doubts();
            self.protect();
        }
        // Half of the grace is left for the caller, or else it would begin with too little.
        let patience = self.config.grace / if Fault::LateAfterWholeGrace.is_on() { 1 } else { 2 };
        let late = now.saturating_sub(sent) > patience && !Fault::LateAnswerAcknowledged.is_on();
        let from_answer = Fault::LateAnswerAcknowledged.is_on() || Fault::GraceFromAnswer.is_on();
        let use_until = if from_answer { now } else { sent } + self.config.grace;
        self.gather(now, &round);
        for Entry { mut pending, planned } in round.entries {
            pending.refusal = None;
            match planned {
                Planned::Take(offsets) => {
                    let values: Vec<R::Value> =
                        offsets.iter().filter_map(|offset| self.range.value_at(*offset)).collect();
                    if late || (pending.owner == Owner::Nobody && !Fault::CancelledNotReleased.is_on()) {
                        for value in &values {
                            let release = Operation::Release { value: *value, anchor: revision, oldest: revision };
                            self.enqueue(Owner::Own, release, Duration::MAX);
                        }
                    }
                    if pending.owner == Owner::Nobody {
                        continue;
                    }
                    pending.was_in_doubt |= late;
                    if !late {
                        for offset in offsets {
                            self.handed_out.insert(offset);
                        }
                        self.end(pending.owner, Outcome::Allocated { values, revision, use_until });
                    } else {
                        self.queue.push_front(pending);
                    }
                }
                Planned::View => self.end_view(pending.owner, revision),
                Planned::End(outcome) => self.end_planned(pending, outcome),
            }
        }
    }

    /// The callers of the round may come back, and then share the next one.
    fn gather(&mut self, now: Duration, round: &Round<R>) {
        self.expected = round.entries.len();
        self.gather_until = now + GATHER;
    }

    /// After a swap, lets somebody else go first if others write, too.
    fn take_turns(&mut self, sent: Duration, now: Duration) {
        self.swap_takes = (self.swap_takes * 3 + now.saturating_sub(sent)) / 4;
        if now < self.contended_until {
            self.retry_at = now + self.swap_takes.min(LONGEST_BACK_OFF);
        }
    }

    /// The guard of a round did not hold: the key, or the Services that its clears depend on, had changed.
    fn conflicted(&mut self, now: Duration, mut round: Round<R>, key: Option<KeyValue<'_>>) {
        #[cfg(feature = "faults")]
        if Fault::SnapshotRewritten.is_on() {
            self.repeat = Some(round.clone());
        }
        let state = key.map_or(Guard::default(), |key| key.state);
        let services_changed = round.services_unchanged_since.is_some() && round.state == state;
        if services_changed && !Fault::ClearsKept.is_on() {
            // One of them may have what was to be cleared.
            drop_clears(&mut round);
        } else {
            self.give_way(now);
        }
        self.put_back(round, false);
    }

    /// After a conflict, waits a while: whoever was in vain before goes first.
    fn give_way(&mut self, now: Duration) {
        self.conflicts += 1;
        let wait = if self.conflicts == 1 { self.swap_takes / 2 } else { Duration::ZERO };
        self.retry_at = now + self.jitter(wait);
    }

    /// The state that a round was evaluated on is confirmed, and the round changes nothing.
    fn confirmed(&mut self, header: Header, round: Round<R>) {
        if let Some((_, now)) = self.last {
            self.gather(now, &round);
        }
        for Entry { pending, planned } in round.entries {
            match planned {
                Planned::View => self.end_view(pending.owner, header.revision),
                Planned::End(outcome) => self.end_planned(pending, outcome),
                // An allocation of nothing.
                Planned::Take(_) => {
                    let outcome =
                        Outcome::Allocated { values: Vec::new(), revision: header.revision, use_until: Duration::MAX };
                    self.end(pending.owner, outcome);
                }
            }
        }
    }

    fn end_view(&mut self, owner: Owner, revision: u64) {
        // What cannot be read has no view: its operations failed when the round was planned.
        let Some(Base { state, content: Content::Readable(readable) }) = &self.base else { return };
        self.viewed = self.viewed.max(state.mod_revision);
        self.history.viewed(revision);
        let initialised = readable.standing != Standing::Uninitialised;
        let view = View { revision, used: readable.used.bitmap().clone(), initialised };
        self.end(owner, Outcome::Read(view));
    }

    fn end_planned(&mut self, pending: Pending<R>, outcome: Outcome<R>) {
        let outcome = pending.ended(outcome);
        self.end(pending.owner, outcome);
    }

    /// The store has told what the key is.
    fn adopt(&mut self, now: Duration, header: Header, key: Option<KeyValue<'_>>) {
        let state = key.map_or(Guard::default(), |key| key.state);
        if self.base.as_ref().is_some_and(|base| base.state == state) {
            if state == Guard::default() && !Fault::MissingTakenForStillMissing.is_on() {
                // Missing again, maybe: it may have been there meanwhile.
                self.history.forget_before(header.revision);
            }
            return;
        }
        let before = self.base.take();
        if before.is_some() {
            self.contended_until = now + self.swap_takes * CONTENDED_SWAPS;
        }
        let base = Base::decode(key, self.range, self.config.strategy);
        let same_key = |before: &Base<R>| {
            before.state.create_revision == state.create_revision || Fault::CreateRevisionIgnored.is_on()
        };
        let next = |before: &Base<R>| {
            state.version == before.state.version + 1
                || (Fault::TwoVersionsTakenForOne.is_on() && state.version == before.state.version + 2)
                || Fault::FirstAndLastCompared.is_on()
        };
        match before.filter(|before| state.create_revision != 0 && same_key(before)) {
            Some(_) if self.history.head() == state => self.history.join(),
            Some(before) => {
                // What was cleared and set again in between is in use: only a watch tells of that.
                let changes = differences(before.used(), base.used());
                self.note_cleared(base.used(), &changes);
                let complete = self.history.is_complete();
                if complete && next(&before) {
                    self.history.advance(state, changes);
                } else if !self.keeps_history && state.version > self.history.head().version + self.limits.replayed {
                    self.history.restart(state);
                } else if complete {
                    // A watch can tell what came between, if a release needs it.
                    self.history.part(before.used().clone());
                }
            }
            None => {
                // Deleted, made anew, or never seen.
                self.history.restart(state);
                if state.create_revision == 0 {
                    self.history.forget_before(header.revision);
                }
                self.made_anew = true;
            }
        }
        self.note_loss(&base);
        self.base = Some(base);
        self.protect();
    }

    /// Notes if the key has no range of ours any more: who makes it anew has to know what Services used, and a pass that
    /// looked before does not.
    fn note_loss(&mut self, seen: &Base<R>) {
        if seen.is_initialised() {
            return;
        }
        self.made_anew = true;
        if !Fault::LossForgotten.is_on() {
            self.history.forget_before(seen.state.mod_revision);
        }
    }

    /// Sets again what was handed out a short while ago, once the range was made anew.
    fn protect(&mut self) {
        let Some(base) = self.base.as_ref().filter(|base| self.made_anew && base.is_initialised()) else { return };
        self.made_anew = false;
        let mut set = Bitmap::new(self.range.size());
        self.handed_out.add_to(&mut set);
        set.difference_with(base.used());
        if set.is_empty() || Fault::HandedOutNotSetAgain.is_on() {
            return;
        }
        let clear = Bitmap::new(self.range.size());
        let diff =
            Diff { read: base.state.mod_revision, set, clear, duplicates: Vec::new(), listed: Listed::Elsewhere };
        self.enqueue(Owner::Own, Operation::Repair(Box::new(diff)), Duration::MAX);
    }

    fn note_cleared(&mut self, after: &Bitmap, changes: &[u32]) {
        for offset in changes.iter().filter(|offset| !after.contains(**offset)) {
            self.quarantine.insert(*offset);
        }
    }
}

/// Takes the clears out of the round that are right only if no Service has been written.
fn drop_clears<R: Range>(round: &mut Round<R>) {
    for Pending { operation, dropped, .. } in round.entries.iter_mut().map(|entry| &mut entry.pending) {
        if let Operation::Repair(diff) = operation
            && diff.listed.guard().is_some()
        {
            if Fault::ClearsKeptUnguarded.is_on() {
                diff.listed = Listed::Elsewhere;
                continue;
            }
            *dropped += diff.clear.count();
            diff.clear.clear();
        }
    }
}

/// Takes the operations that need not wait out of the queue, as many as may go into one swap.
fn take_ready<R: Range>(
    queue: &mut VecDeque<Pending<R>>,
    limit: usize,
    is_ready: impl Fn(&Pending<R>) -> bool,
) -> Vec<Pending<R>> {
    if queue.iter().all(&is_ready) {
        return queue.drain(..queue.len().min(limit)).collect();
    }
    let mut ready = Vec::new();
    for pending in mem::take(queue) {
        if ready.len() < limit && is_ready(&pending) {
            ready.push(pending);
        } else {
            queue.push_back(pending);
        }
    }
    ready
}
