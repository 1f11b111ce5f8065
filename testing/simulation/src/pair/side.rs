//! One of the two ranges: its key in the store, and the committers of all servers.

use std::collections::BTreeMap;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::commit::{
    self, Answer, Change, Committer, Config, Finished, KeyValue, Operation, Outcome, Replace, Step, StoreRequest,
    Ticket, View,
};
use rangekeeper::range::Range;
use rangekeeper::range_allocation::{Form, RangeAllocation};

use crate::random::Random;
use crate::store::{Mask, Reply, Store, Writer};

/// For what an operation was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request of this number needs values.
    Allocate(usize),
    /// The claim of this number is given up.
    Release(usize),
    /// A repair pass reads.
    Look,
    Repair,
}

/// How an operation has ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Allocated {
        offsets: Vec<u32>,
        revision: u64,
        use_until: Duration,
    },
    Released,
    Seen(View),
    /// It changed nothing, or that is not known.
    Other,
}

/// What a committer wants to be done.
#[derive(Debug)]
pub(super) enum Wish {
    Ended(Purpose, Ended),
    Send(u32, StoreRequest),
    Wake(Duration),
    Watch,
}

/// A server's committer of this range.
#[derive(Debug)]
struct Worker<R: Range> {
    committer: Committer<R, Xoshiro256PlusPlus>,
    /// The number of the request under way.
    flight: Option<u32>,
    /// The next revision that the watch reports.
    watch: Option<u64>,
    open: BTreeMap<Ticket, Purpose>,
}

#[derive(Debug)]
pub(super) struct Side<R: Range> {
    pub(super) range: R,
    pub(super) store: Store,
    workers: Vec<Worker<R>>,
    sent: u32,
}

impl<R: Range + Into<AnyRange>> Side<R> {
    pub(super) fn new(range: R, servers: usize, grace: Duration, used: Mask, random: &mut Random) -> Self {
        let strategy = random.pick(&[Strategy::Contiguous, Strategy::Contiguous, Strategy::RandomScan]);
        let mut worker = || Worker {
            committer: Committer::new(range, Config { strategy, grace, replace: Replace::Always }, random.fork()),
            flight: None,
            watch: None,
            open: BTreeMap::new(),
        };
        let workers = (0..servers).map(|_| worker()).collect();
        let mut store = Store::new();
        let mut stored = RangeAllocation::new(Form::Protobuf);
        (stored.range, stored.data) = (range.to_string(), store.layout.data_of(used));
        store.put(stored.encode(), Writer::Stranger);
        Self { range, store, workers, sent: 0 }
    }

    pub(super) fn committer(&mut self, server: usize) -> &mut Committer<R, Xoshiro256PlusPlus> {
        &mut self.workers[server].committer
    }

    /// Whether an operation of this purpose has not ended.
    pub(super) fn is_open(&self, purpose: Purpose) -> bool {
        self.workers.iter().any(|worker| worker.open.values().any(|open| *open == purpose))
    }

    pub(super) fn allocate(&mut self, server: usize, request: usize, wanted: &[Option<u32>]) {
        let name = |offset: u32| Request::Named(self.range.value_at(offset).expect("of this range"));
        let wanted = wanted.iter().map(|offset| offset.map_or(Request::Any, name)).collect();
        self.submit(server, Operation::Allocate(wanted), Purpose::Allocate(request));
    }

    pub(super) fn release(&mut self, server: usize, claim: usize, offset: u32, (as_of, oldest): (u64, u64)) {
        // There is one store.
        let store = self.workers[server].committer.known().store;
        let value = self.range.value_at(offset).expect("of this range");
        self.submit(server, Operation::Release { value, as_of, oldest, store }, Purpose::Release(claim));
    }

    pub(super) fn submit(&mut self, server: usize, operation: Operation<R>, purpose: Purpose) {
        let worker = &mut self.workers[server];
        let ticket = worker.committer.submit(operation, Duration::MAX);
        worker.open.insert(ticket, purpose);
    }

    /// The next wish of a server's committer; `None` if it has none.
    pub(super) fn poll(&mut self, server: usize, now: Duration) -> Vec<Wish> {
        let range = self.range;
        let worker = &mut self.workers[server];
        match worker.committer.poll(now) {
            Step::Finished(all) => {
                let mut end = |Finished { ticket, outcome }| {
                    let purpose = worker.open.remove(&ticket).expect("it was submitted");
                    Wish::Ended(purpose, ended(range, outcome))
                };
                all.into_iter().map(&mut end).collect()
            }
            Step::Send(request) => {
                self.sent += 1;
                worker.flight = Some(self.sent);
                vec![Wish::Send(self.sent, request)]
            }
            Step::Watch { from } => {
                worker.watch = Some(from);
                vec![Wish::Watch]
            }
            Step::StopWatch => {
                worker.watch = None;
                vec![Wish::Watch]
            }
            Step::Wait(until) => vec![Wish::Wake(until)],
            Step::Idle => Vec::new(),
        }
    }

    /// The request of this number is answered, or has no answer.
    pub(super) fn reply(&mut self, server: usize, id: u32, reply: Option<&Reply>, now: Duration) {
        let worker = &mut self.workers[server];
        if worker.flight.take_if(|flight| *flight == id).is_none() {
            return;
        }
        let Some(reply) = reply else { return worker.committer.handle(commit::Event::Unknown, now) };
        let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
        let answer = if reply.held { Answer::Held } else { Answer::Current(key) };
        worker.committer.handle(commit::Event::Answered { header: reply.header, answer }, now);
    }

    /// The watch of a server reports what has changed.
    pub(super) fn watch(&mut self, server: usize, now: Duration) {
        let worker = &mut self.workers[server];
        let Some(from) = worker.watch else { return };
        for version in self.store.log.iter().filter(|version| version.revision >= from) {
            let key = version.key.as_ref().expect("nobody deletes it");
            let change = Change::Put(KeyValue { state: key.state, value: &key.value });
            worker.committer.handle(commit::Event::Watched(change), now);
            worker.watch = Some(version.revision + 1);
        }
    }
}

fn ended<R: Range>(range: R, outcome: Outcome<R>) -> Ended {
    match outcome {
        Outcome::Allocated { values, revision, use_until, .. } => {
            let offsets = values.into_iter().map(|value| range.offset_of(value).expect("of this range")).collect();
            Ended::Allocated { offsets, revision, use_until }
        }
        Outcome::Released { .. } => Ended::Released,
        Outcome::Read(view) => Ended::Seen(view),
        _ => Ended::Other,
    }
}
