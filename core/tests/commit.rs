//! The committer against a store in memory that does what etcd does with one key.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::{Request as Wanted, Strategy};
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Failure, Guard, Header, KeyValue, Operation, Outcome, Request, Step, Ticket,
};
use rangekeeper::envelope::RangeAllocation;
use rangekeeper::ports::PortRange;

type Ports = Committer<PortRange, Xoshiro256PlusPlus>;

const NEVER: Duration = Duration::MAX;

/// A key and its value.
type Key = (Guard, Vec<u8>);

#[derive(Default)]
struct Store {
    revision: u64,
    key: Option<Key>,
    writes: usize,
    /// Every change with its revision; `None` for a deletion.
    log: Vec<(u64, Option<Key>)>,
}

impl Store {
    fn header(&self) -> Header {
        Header { cluster_id: 7, revision: self.revision, raft_term: 2 }
    }

    fn put(&mut self, value: Vec<u8>) {
        self.revision += 1;
        self.writes += 1;
        let before = self.key.as_ref().map_or(Guard::default(), |(state, _)| *state);
        let create_revision = if before.version == 0 { self.revision } else { before.create_revision };
        let state = Guard { mod_revision: self.revision, version: before.version + 1, create_revision };
        self.key = Some((state, value));
        self.log.push((self.revision, self.key.clone()));
    }

    fn delete(&mut self) {
        self.revision += 1;
        self.key = None;
        self.log.push((self.revision, None));
    }

    /// What a watch from this revision on tells.
    fn watch(&self, from: u64, committer: &mut Ports) {
        for (revision, key) in self.log.iter().filter(|(revision, _)| *revision >= from) {
            committer.watched(match key {
                Some((state, value)) => Change::Put(KeyValue { state: *state, value }),
                None => Change::Delete { revision: *revision },
            });
        }
    }

    /// Performs a request and tells the committer.
    fn perform(&mut self, request: Request, now: Duration, committer: &mut Ports) {
        let state = self.key.as_ref().map_or(Guard::default(), |(state, _)| *state);
        let held = match request {
            Request::Read => false,
            Request::Confirm { guard } => guard == state,
            Request::Swap { guard, value } => {
                let held = guard == state;
                if held {
                    self.put(value);
                }
                held
            }
        };
        let current = self.key.as_ref().map(|(state, value)| KeyValue { state: *state, value });
        committer.answered(now, self.header(), if held { Answer::Held } else { Answer::Current(current) });
    }

    /// Lets the committer work until it has nothing to do; gives what it ended.
    fn run(&mut self, committer: &mut Ports, now: Duration) -> Vec<(Ticket, Outcome<PortRange>)> {
        let mut now = now;
        loop {
            if let Some(from) = committer.watch_from() {
                self.watch(from, committer);
            }
            match committer.poll(now) {
                Step::Send(request) => self.perform(request, now, committer),
                Step::WaitUntil(until) => now = until,
                Step::Idle => {
                    return committer.take_finished().into_iter().map(|one| (one.ticket, one.outcome)).collect();
                }
            }
        }
    }

    fn one(&mut self, committer: &mut Ports, operation: Operation<PortRange>) -> Outcome<PortRange> {
        let ticket = committer.submit(operation, NEVER);
        let finished = self.run(committer, Duration::from_secs(1));
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0].0, ticket);
        finished.into_iter().next().expect("one").1
    }
}

fn committer(range: &str, seed: u64) -> Ports {
    let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360) };
    Committer::new(range.parse().expect("a range"), config, Xoshiro256PlusPlus::seed_from_u64(seed))
}

fn this(port: u16) -> Operation<PortRange> {
    Operation::Allocate(vec![Wanted::This(port)])
}

fn next() -> Operation<PortRange> {
    Operation::Allocate(vec![Wanted::Next])
}

#[test]
fn many_allocations_share_one_swap() {
    let (mut store, mut committer) = (Store::default(), committer("30000-30099", 1));
    assert!(matches!(store.one(&mut committer, next()), Outcome::Failed(Failure::NotInitialised)));
    assert_eq!(store.one(&mut committer, Operation::Create), Outcome::Created { created: true });
    assert_eq!(store.one(&mut committer, Operation::Create), Outcome::Created { created: false });
    for _ in 0..100 {
        committer.submit(next(), NEVER);
    }
    let tickets = store.run(&mut committer, Duration::from_secs(2));
    let mut ports: Vec<u16> = tickets
        .iter()
        .flat_map(|(_, outcome)| match outcome {
            Outcome::Allocated { values, .. } => values.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, (30_000..30_100).collect::<Vec<u16>>());
    assert_eq!(store.writes, 2);
    assert!(matches!(store.one(&mut committer, next()), Outcome::Failed(Failure::Allocate(_))));
    let (_, value) = store.key.as_ref().expect("stored");
    let stored = RangeAllocation::decode(value).expect("ours");
    assert_eq!((stored.range.as_str(), stored.data.len()), ("30000-30099", 13));
}

#[test]
fn a_value_is_freed_once_and_only_by_its_owner() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { revision, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    assert_eq!(
        store.one(&mut others, Operation::Release { value: 30_003, anchor: revision }),
        Outcome::Released { freed: true }
    );
    let Outcome::Allocated { .. } = store.one(&mut others, this(30_003)) else { panic!("free again") };
    // The first owner's release comes late; the value is somebody else's by now.
    let late = store.one(&mut ours, Operation::Release { value: 30_003, anchor: revision });
    assert_eq!(late, Outcome::Released { freed: false });
    assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Failed(Failure::Allocate(_))));
    store.delete();
    assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Failed(Failure::NotInitialised)));
}
