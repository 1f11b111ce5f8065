//! An in-memory store that behaves like etcd for one key, and helpers for the tests.

use std::mem;
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Diff, Event, Finished, Header, KeyState, KeyValue, Operation, Outcome, Replace,
    ServiceList, Step, StoreRequest, Ticket, Witness,
};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;
use rangekeeper::range_allocation::RangeAllocation;

/// A committer, and the steps that it has returned to its shell.
pub(crate) struct Shell<R: Range> {
    committer: Committer<R, Xoshiro256PlusPlus>,
    finished: Vec<Finished<R>>,
    watch: Option<u64>,
    /// A request that it has asked for already.
    asked: Option<StoreRequest>,
    now: Duration,
}

pub(crate) type Ports = Shell<PortRange>;

impl<R: Range> Shell<R> {
    pub(crate) fn new(range: R, config: Config, seed: u64) -> Self {
        let committer = Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(seed));
        Self { committer, finished: Vec::new(), watch: None, asked: None, now: Duration::ZERO }
    }

    /// What to do about requests.
    pub(crate) fn poll(&mut self, now: Duration) -> Step<R> {
        self.now = now;
        if let Some(request) = self.asked.take() {
            return Step::Send(request);
        }
        loop {
            match self.committer.poll(now) {
                Step::Finished(all) => self.finished.extend(all),
                Step::Watch { from } => self.watch = Some(from),
                Step::StopWatch => self.watch = None,
                step => return step,
            }
        }
    }

    fn look(&mut self) {
        if let Step::Send(request) = self.poll(self.now) {
            self.asked = Some(request);
        }
    }

    pub(crate) fn watch_from(&mut self) -> Option<u64> {
        self.look();
        self.watch
    }

    pub(crate) fn take_finished(&mut self) -> Vec<Finished<R>> {
        self.look();
        mem::take(&mut self.finished)
    }

    pub(crate) fn handle(&mut self, event: Event<'_>, now: Duration) {
        if matches!(event, Event::WatchEnded | Event::WatchFailed) {
            self.watch = None;
        }
        self.committer.handle(event, now);
    }

    pub(crate) fn unknown(&mut self, now: Duration) {
        self.handle(Event::Unknown, now);
    }

    pub(crate) fn reconnected(&mut self) {
        self.handle(Event::Reconnected, self.now);
    }

    pub(crate) fn watch_failed(&mut self) {
        self.handle(Event::WatchFailed, self.now);
    }
}

impl<R: Range> Deref for Shell<R> {
    type Target = Committer<R, Xoshiro256PlusPlus>;

    fn deref(&self) -> &Self::Target {
        &self.committer
    }
}

impl<R: Range> DerefMut for Shell<R> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.committer
    }
}

pub(crate) const NEVER: Duration = Duration::MAX;

/// A key and its value.
pub(crate) type Key = (KeyState, Vec<u8>);

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) cluster_id: u64,
    pub(crate) revision: u64,
    pub(crate) key: Option<Key>,
    pub(crate) writes: usize,
    /// The revision of the last Service.
    pub(crate) services_written: u64,
    /// Whether the last write deleted the witness.
    pub(crate) is_fenced: bool,
    /// Whether it was restored to a state from before [`LOOK`].
    pub(crate) lacks_look: bool,
    /// The store has no states before this revision any more.
    pub(crate) compacted: u64,
    /// Every change with its revision; `None` for a deletion.
    pub(crate) log: Vec<(u64, Option<Key>)>,
}

impl Store {
    pub(crate) fn header(&self) -> Header {
        Header { cluster_id: self.cluster_id, revision: self.revision, raft_term: 2 }
    }

    pub(crate) fn put(&mut self, value: Vec<u8>) {
        self.revision += 1;
        self.writes += 1;
        let before = self.key.as_ref().map_or(KeyState::default(), |(state, _)| *state);
        let create_revision = if before.version == 0 { self.revision } else { before.create_revision };
        let state = KeyState { mod_revision: self.revision, version: before.version + 1, create_revision };
        self.key = Some((state, value));
        self.log.push((self.revision, self.key.clone()));
    }

    pub(crate) fn delete(&mut self) {
        self.revision += 1;
        self.key = None;
        self.log.push((self.revision, None));
    }

    /// Reports the changes from this revision on, as a watch does.
    pub(crate) fn watch<R: Range>(&self, from: u64, committer: &mut Shell<R>) {
        for (revision, key) in self.log.iter().filter(|(revision, _)| *revision >= from) {
            let change = match key {
                Some((state, value)) => Change::Put(KeyValue { state: *state, value }),
                None => Change::Delete { revision: *revision },
            };
            committer.handle(Event::Watched(change), NOW);
        }
    }

    /// Performs a request.
    pub(crate) fn answer(&mut self, request: StoreRequest) -> (Header, Answer<'_>) {
        let state = self.key.as_ref().map_or(KeyState::default(), |(state, _)| *state);
        let held = match request {
            StoreRequest::Read => false,
            StoreRequest::ReadAt { revision } => return (self.header(), self.past(revision)),
            StoreRequest::Confirm { guard } => guard == state,
            StoreRequest::Swap { guard, value, services_unchanged_since, witness, look } => {
                let unchanged = services_unchanged_since.is_none_or(|revision| self.services_written <= revision);
                let held = guard == state && unchanged && !(look.is_some() && self.lacks_look);
                if held {
                    self.put(value);
                    self.is_fenced = witness == Witness::Delete;
                }
                held
            }
        };
        (self.header(), if held { Answer::Held } else { self.current() })
    }

    fn past(&self, revision: u64) -> Answer<'_> {
        let then = self.log.iter().rev().find(|(at, _)| *at <= revision).and_then(|(_, key)| key.as_ref());
        Answer::Past(then.map(|(state, value)| KeyValue { state: *state, value }))
    }

    pub(crate) fn current(&self) -> Answer<'_> {
        Answer::Current(self.key.as_ref().map(|(state, value)| KeyValue { state: *state, value }))
    }

    /// Performs a request and reports the answer to the committer.
    pub(crate) fn perform<R: Range>(&mut self, request: StoreRequest, now: Duration, committer: &mut Shell<R>) {
        if matches!(request, StoreRequest::ReadAt { revision } if revision < self.compacted) {
            return committer.handle(Event::Compacted, now);
        }
        let (header, answer) = self.answer(request);
        committer.handle(Event::Answered { header, answer }, now);
    }

    /// Lets the committer work until it has nothing to do; returns the operations that it ended.
    pub(crate) fn run<R: Range>(&mut self, committer: &mut Shell<R>, now: Duration) -> Vec<(Ticket, Outcome<R>)> {
        let mut now = now;
        for _ in 0..1000 {
            committer.now = now;
            if let Some(from) = committer.watch_from() {
                self.watch(from, committer);
            }
            match committer.poll(now) {
                Step::Send(request) => self.perform(request, now, committer),
                Step::Wait(until) => now = until,
                _ => {
                    return committer.take_finished().into_iter().map(|one| (one.ticket, one.outcome)).collect();
                }
            }
        }
        panic!("it goes on for ever");
    }

    pub(crate) fn one<R: Range>(&mut self, committer: &mut Shell<R>, operation: Operation<R>) -> Outcome<R> {
        let ticket = committer.submit(operation, NEVER);
        let finished = self.run(committer, Duration::from_secs(1));
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0].0, ticket);
        finished.into_iter().next().expect("one").1
    }
}

pub(crate) fn committer(range: &str, seed: u64) -> Ports {
    let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360), replace: Replace::Always };
    Ports::new(range.parse().expect("a range"), config, seed)
}

pub(crate) fn this(port: u16) -> Operation<PortRange> {
    Operation::Allocate(vec![Request::Named(port)])
}

pub(crate) fn next() -> Operation<PortRange> {
    Operation::Allocate(vec![Request::Any])
}

pub(crate) fn release(value: u16, as_of: u64) -> Operation<PortRange> {
    Operation::Release { value, as_of, oldest: as_of, store: 0 }
}

/// The diff of a pass over 10 values that has read them at this revision, and whose Services are elsewhere.
pub(crate) fn diff(read: u64, set: &[u32], clear: &[u32]) -> Diff {
    let [set, clear] = [set, clear].map(|offsets| {
        let mut bitmap = Bitmap::new(10);
        offsets.iter().for_each(|offset| _ = bitmap.insert(*offset));
        bitmap
    });
    Diff { read, set, clear, duplicates: Vec::new(), outside: 0, listed: ServiceList::Elsewhere, look: None }
}

pub(crate) fn allocated(outcome: Outcome<PortRange>) -> u64 {
    let Outcome::Allocated { revision, .. } = outcome else { panic!("{outcome:?}") };
    revision
}

/// Lets the committer send its next request.
pub(crate) fn send(committer: &mut Ports, now: Duration) -> StoreRequest {
    let mut now = now;
    loop {
        match committer.poll(now) {
            Step::Send(request) => return request,
            Step::Wait(until) => now = until,
            step => panic!("nothing to send: {step:?}"),
        }
    }
}

pub(crate) fn outcome(committer: &mut Ports, ticket: Ticket) -> Outcome<PortRange> {
    let finished = committer.take_finished();
    assert_eq!(finished.iter().map(|one| one.ticket).collect::<Vec<_>>(), [ticket]);
    finished.into_iter().next().expect("one").outcome
}

/// The look of edits and passes.
pub(crate) const LOOK: NonZeroU64 = NonZeroU64::MIN;

pub(crate) const NOW: Duration = Duration::from_secs(1);

pub(crate) fn is_set(store: &Store, offset: usize) -> bool {
    let (_, value) = store.key.as_ref().expect("stored");
    let data = RangeAllocation::decode(value).expect("ours").data;
    data.iter().rev().nth(offset / 8).is_some_and(|byte| byte >> (offset % 8) & 1 == 1)
}

/// A Service is written or deleted: the store's revision grows, the key stays.
pub(crate) fn service_written(store: &mut Store) -> u64 {
    store.revision += 1;
    store.revision
}
