//! A store with one key that answers at once, and a server that allocates through it.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::commit::{
    Answer, Config, Event, Finished, Header, KeyState, KeyValue, Operation, Outcome, Replace, Step, StoreRequest,
};
use rangekeeper::range_allocation::Form;
use rangekeeper::{Allocator, Committer, Range};

use crate::{generator, stored};

/// The key of a range in etcd.
#[derive(Clone, Debug)]
pub struct Store {
    state: KeyState,
    value: Vec<u8>,
}

impl Store {
    /// A store that has the values of an allocator.
    pub fn new<R: Range>(allocator: &Allocator<R>) -> Self {
        Self {
            state: KeyState { mod_revision: 1, version: 1, create_revision: 1 },
            value: stored(allocator, Form::Protobuf),
        }
    }

    /// Performs a request. Returns whether its guard held, and the memory of the value that a swap has replaced.
    fn perform(&mut self, request: StoreRequest) -> (bool, Option<Vec<u8>>) {
        match request {
            StoreRequest::Read => (false, None),
            StoreRequest::ReadAt { .. } => unreachable!("nothing is edited by hand"),
            StoreRequest::Confirm { guard } => (guard == self.state, None),
            StoreRequest::Swap { guard, mut value, .. } => {
                let held = guard == self.state;
                if held {
                    self.state.mod_revision += 1;
                    self.state.version += 1;
                    std::mem::swap(&mut self.value, &mut value);
                }
                (held, Some(value))
            }
        }
    }
}

/// A server with a committer. Time passes only while it waits.
#[derive(Debug)]
pub struct Server<R: Range> {
    committer: Committer<R, Xoshiro256PlusPlus>,
    now: Duration,
    finished: Vec<Finished<R>>,
}

impl<R: Range> Server<R> {
    /// A server that knows what the store has.
    pub fn new(range: R, seed: u64, store: &mut Store) -> Self {
        let config =
            Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360), replace: Replace::Always };
        let committer = Committer::new(range, config, generator(seed));
        let mut server = Self { committer, now: Duration::ZERO, finished: Vec::new() };
        server.commit(store, [Operation::Read]);
        server
    }

    /// Submits operations together, and does what the committer says until they have ended. Returns how they ended.
    pub fn commit(&mut self, store: &mut Store, operations: impl IntoIterator<Item = Operation<R>>) -> &[Finished<R>] {
        let mut waiting = 0;
        for operation in operations {
            self.committer.submit(operation, Duration::MAX);
            waiting += 1;
        }
        self.finished.clear();
        while self.finished.len() < waiting {
            match self.committer.poll(self.now) {
                Step::Finished(finished) if self.finished.is_empty() => self.finished = finished,
                Step::Finished(finished) => self.finished.extend(finished),
                Step::Send(request) => {
                    let (held, value) = store.perform(request);
                    let current = KeyValue { state: store.state, value: &store.value };
                    let answer = if held { Answer::Held } else { Answer::Current(Some(current)) };
                    let header = Header { cluster_id: 1, revision: store.state.mod_revision, raft_term: 1 };
                    self.committer.handle(Event::Answered { header, answer }, self.now);
                    if let Some(value) = value {
                        self.committer.reuse(value);
                    }
                }
                Step::Wait(until) => self.now = until,
                Step::Watch { .. } | Step::StopWatch => {}
                Step::Idle => unreachable!("operations have not ended"),
            }
        }
        &self.finished
    }

    /// Allocates so many values by one operation each, all submitted together. Returns the operations that release
    /// them.
    pub fn allocate(&mut self, store: &mut Store, count: usize) -> Vec<Operation<R>> {
        let finished = self.commit(store, (0..count).map(|_| Operation::Allocate(vec![Request::Any])));
        let releases = finished.iter().map(|finished| match &finished.outcome {
            Outcome::Allocated { values, revision, store, .. } => {
                Operation::Release { value: values[0], as_of: *revision, oldest: *revision, store: *store }
            }
            outcome => panic!("{outcome:?}"),
        });
        releases.collect()
    }

    /// Submits these releases together. All of them free their value.
    pub fn release(&mut self, store: &mut Store, releases: Vec<Operation<R>>) {
        let finished = self.commit(store, releases);
        assert!(finished.iter().all(|finished| finished.outcome == Outcome::Released { freed: true }), "{finished:?}");
    }
}
