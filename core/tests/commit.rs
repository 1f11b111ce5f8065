//! The committer against a store in memory that does what etcd does with one key.

use std::num::NonZeroU8;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::{Request as Wanted, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Deferral, Diff, Failure, Guard, Header, KeyValue, Known, Listed, Operation,
    Outcome, Passes, Repaired, Request, SidecarPut, Step, Ticket, View,
};
use rangekeeper::envelope::{Form, RangeAllocation};
use rangekeeper::ports::PortRange;
use rangekeeper::repair::{Leaks, RepairPass, Stored};

type Ports = Committer<PortRange, Xoshiro256PlusPlus>;

const NEVER: Duration = Duration::MAX;

/// A key and its value.
type Key = (Guard, Vec<u8>);

#[derive(Default)]
struct Store {
    cluster_id: u64,
    revision: u64,
    key: Option<Key>,
    sidecar: Option<Key>,
    writes: usize,
    /// The revision of the last Service.
    services_written: u64,
    /// Every change with its revision; `None` for a deletion.
    log: Vec<(u64, Option<Key>)>,
}

impl Store {
    fn header(&self) -> Header {
        Header { cluster_id: self.cluster_id, revision: self.revision, raft_term: 2 }
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

    /// Performs a request.
    fn answer(&mut self, request: Request) -> (Header, Answer<'_>) {
        let state = self.key.as_ref().map_or(Guard::default(), |(state, _)| *state);
        let held = match request {
            Request::Read => false,
            Request::Confirm { guard } => guard == state,
            Request::Swap { guard, value, services_unchanged_since, sidecar } => {
                let unchanged = services_unchanged_since.is_none_or(|revision| self.services_written <= revision);
                let held = guard == state && unchanged && sidecar.is_none_or(|put| self.expects(&put));
                if held {
                    self.put(value);
                    sidecar.inspect(|put| self.put_sidecar(put));
                }
                held
            }
            Request::Fence { sidecar } => {
                if self.expects(&sidecar) {
                    self.revision += 1;
                    self.put_sidecar(&sidecar);
                }
                false
            }
        };
        (self.header(), if held { Answer::Held } else { self.current() })
    }

    fn current(&self) -> Answer<'_> {
        fn stored((state, value): &Key) -> KeyValue<'_> {
            KeyValue { state: *state, value }
        }
        Answer::Current { key: self.key.as_ref().map(stored), sidecar: self.sidecar.as_ref().map(stored) }
    }

    fn expects(&self, put: &SidecarPut) -> bool {
        self.sidecar.as_ref().map_or(0, |(state, _)| state.mod_revision) == put.mod_revision
    }

    /// Writes the sidecar, at the present revision.
    fn put_sidecar(&mut self, put: &SidecarPut) {
        let before = self.sidecar.as_ref().map_or(Guard::default(), |(state, _)| *state);
        let create_revision = if before.version == 0 { self.revision } else { before.create_revision };
        let state = Guard { mod_revision: self.revision, version: before.version + 1, create_revision };
        self.sidecar = Some((state, put.value.to_vec()));
    }

    /// Performs a request and tells the committer.
    fn perform(&mut self, request: Request, now: Duration, committer: &mut Ports) {
        let (header, answer) = self.answer(request);
        committer.answered(now, header, answer);
    }

    /// Lets the committer work until it has nothing to do; gives what it ended.
    fn run(&mut self, committer: &mut Ports, now: Duration) -> Vec<(Ticket, Outcome<PortRange>)> {
        let mut now = now;
        for _ in 0..1000 {
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
        panic!("it goes on for ever");
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
    let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360), sidecar: false };
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
    assert_eq!(committer.known(), Known::default());
    assert!(matches!(store.one(&mut committer, next()), Outcome::Failed(Failure::NotInitialised)));
    assert_eq!(committer.known(), Known::default());
    assert_eq!(store.one(&mut committer, Operation::Create), Outcome::Created { created: true });
    assert_eq!(committer.known(), Known { revision: store.revision, used: 0, initialised: true });
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
    assert_eq!(committer.known(), Known { revision: store.revision, used: 100, initialised: true });
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
    assert_eq!(store.one(&mut others, release(30_003, revision)), Outcome::Released { freed: true });
    let Outcome::Allocated { .. } = store.one(&mut others, this(30_003)) else { panic!("free again") };
    // The first owner's release comes late; the value is somebody else's by now.
    let late = store.one(&mut ours, release(30_003, revision));
    assert_eq!(late, Outcome::Released { freed: false });
    assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Failed(Failure::Allocate(_))));
    store.delete();
    assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Failed(Failure::NotInitialised)));
}

fn release(value: u16, anchor: u64) -> Operation<PortRange> {
    Operation::Release { value, anchor, oldest: anchor }
}

fn allocated(outcome: Outcome<PortRange>) -> u64 {
    let Outcome::Allocated { revision, .. } = outcome else { panic!("{outcome:?}") };
    revision
}

/// A Service is written or deleted: the store's revision grows, the key stays.
fn service_written(store: &mut Store) -> u64 {
    store.revision += 1;
    store.revision
}

/// The drop-in's usual case: the Service is deleted after the last answer. If the swap holds, the key has not changed since.
#[test]
fn a_release_with_a_later_anchor_than_the_last_answer_needs_no_read() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    allocated(store.one(&mut ours, this(30_003)));
    let oldest = service_written(&mut store);
    // Long enough after the first answer, and not long after the last one.
    let now = Duration::from_secs(60);
    ours.submit(this(30_004), NEVER);
    store.run(&mut ours, now);
    let anchor = service_written(&mut store);
    let ticket = ours.submit(Operation::Release { value: 30_003, anchor, oldest }, NEVER);
    let request = send(&mut ours, now);
    assert!(matches!(request, Request::Swap { .. }), "{request:?}");
    store.perform(request, now, &mut ours);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Released { freed: true });
    // Right after a reconnection it may be about a Service of another store: a read comes first.
    ours.reconnected();
    ours.submit(Operation::Read, NEVER);
    store.run(&mut ours, now);
    let anchor = service_written(&mut store);
    ours.submit(Operation::Release { value: 30_004, anchor, oldest }, NEVER);
    assert_eq!(send(&mut ours, now), Request::Read);
}

/// Another server of the cluster let two Services have a value: X, and Y that got it later. X's deletion keeps Y's value.
#[test]
fn a_value_that_was_free_since_its_owner_was_stored_is_not_released() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let allocation = allocated(store.one(&mut ours, this(30_003)));
    let oldest = service_written(&mut store);
    assert_eq!(store.one(&mut others, release(30_003, allocation)), Outcome::Released { freed: true });
    allocated(store.one(&mut others, this(30_003)));
    let anchor = service_written(&mut store);
    // Its own history tells of the break, though the value was in use at the anchor and ever since.
    assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    let owned = Operation::Release { value: 30_003, anchor, oldest };
    assert_eq!(store.one(&mut ours, owned.clone()), Outcome::Released { freed: false });
    // A server whose history does not go back as far goes by the anchor.
    assert_eq!(store.one(&mut committer("30000-30009", 3), owned), Outcome::Released { freed: true });
}

/// Two clients remove the last finalizer at once: the second one names the revision before the deletion twice.
#[test]
fn a_second_release_keeps_the_value_of_the_next_owner() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    allocated(store.one(&mut ours, this(30_003)));
    let oldest = service_written(&mut store);
    let anchor = service_written(&mut store);
    let first = ours.submit(Operation::Release { value: 30_003, anchor, oldest }, NEVER);
    assert_eq!(store.run(&mut ours, NOW), [(first, Outcome::Released { freed: true })]);
    // The next owner's allocation and the second release share a swap.
    let next = ours.submit(this(30_003), NEVER);
    let second = ours.submit(release(30_003, oldest), NEVER);
    let ended = store.run(&mut ours, NOW);
    assert!(
        matches!(&ended[..], [(a, Outcome::Allocated { .. }), (b, Outcome::Released { freed: false })] if *a == next && *b == second),
        "{ended:?}"
    );
    assert!(is_set(&store, 3));
}

/// The lost swap cannot be written any more once the key has changed: a named value that is free now can be had.
#[test]
fn a_named_value_is_taken_after_a_lost_swap_if_it_is_free_and_the_key_has_changed() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let ticket = ours.submit(this(30_003), NEVER);
    let lost = send(&mut ours, NOW);
    ours.unknown(NOW);
    allocated(store.one(&mut others, this(30_004)));
    let ended = store.run(&mut ours, NOW);
    assert!(matches!(&ended[..], [(own, Outcome::Allocated { .. })] if *own == ticket), "{ended:?}");
    // It arrives now, and does nothing.
    let writes = store.writes;
    store.answer(lost);
    assert_eq!(store.writes, writes);
}

/// Takes as many ports as there are, one after the other.
fn take(store: &mut Store, committer: &mut Ports, count: usize) -> Vec<u16> {
    let mut ports: Vec<u16> = (0..count)
        .map(|_| match store.one(committer, next()) {
            Outcome::Allocated { values, .. } => values[0],
            other => panic!("{other:?}"),
        })
        .collect();
    ports.sort_unstable();
    ports
}

#[test]
fn what_was_cleared_last_is_handed_out_last() {
    for seed in 0..32 {
        let (mut store, mut ours) = (Store::default(), committer("30000-30019", seed));
        let mut others = committer("30000-30019", seed + 100);
        store.one(&mut ours, Operation::Create);
        for port in 30_000..30_015 {
            assert!(matches!(store.one(&mut others, this(port)), Outcome::Allocated { .. }));
        }
        assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
        // A swap for each, of which ours sees what came of them all.
        for port in (30_010..30_015).chain(30_000..30_005) {
            let anchor = store.revision;
            assert_eq!(store.one(&mut others, release(port, anchor)), Outcome::Released { freed: true });
        }
        assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
        // Of those it knows that they were cleared, and of its own also in which order.
        assert_eq!(take(&mut store, &mut ours, 5), [30_015, 30_016, 30_017, 30_018, 30_019]);
        for port in 30_005..30_010 {
            let anchor = store.revision;
            assert_eq!(store.one(&mut ours, release(port, anchor)), Outcome::Released { freed: true });
        }
        let cleared_before: Vec<u16> = (30_000..30_005).chain(30_010..30_015).collect();
        assert_eq!(take(&mut store, &mut ours, 10), cleared_before);
        assert_eq!(take(&mut store, &mut ours, 5), [30_005, 30_006, 30_007, 30_008, 30_009]);
    }
}

#[test]
fn the_static_band_is_spared_while_the_dynamic_one_has_values_that_were_cleared_last() {
    // 16 ports are the static band, 30016 to 30039 the dynamic one.
    for seed in 0..32 {
        let mut store = Store::default();
        let config =
            Config { strategy: Strategy::RandomScanSparingStaticBand, grace: Duration::from_secs(360), sidecar: false };
        let range = "30000-30039".parse().expect("a range");
        let mut ours: Ports = Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(seed));
        store.one(&mut ours, Operation::Create);
        assert_eq!(take(&mut store, &mut ours, 24), (30_016..30_040).collect::<Vec<u16>>());
        let free = |store: &mut Store, ours: &mut Ports, port| {
            let anchor = store.revision;
            assert_eq!(store.one(ours, release(port, anchor)), Outcome::Released { freed: true });
        };
        for port in 30_020..30_040 {
            free(&mut store, &mut ours, port);
        }
        assert_eq!(take(&mut store, &mut ours, 20), (30_020..30_040).collect::<Vec<u16>>());
        // The static band, too, hands out last what was cleared last.
        assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
        free(&mut store, &mut ours, 30_003);
        assert!(!take(&mut store, &mut ours, 15).contains(&30_003));
        assert_eq!(take(&mut store, &mut ours, 1), [30_003]);
    }
}

/// Lets the committer send its next request.
fn send(committer: &mut Ports, now: Duration) -> Request {
    let mut now = now;
    loop {
        match committer.poll(now) {
            Step::Send(request) => return request,
            Step::WaitUntil(until) => now = until,
            Step::Idle => panic!("nothing to send"),
        }
    }
}

fn outcome(committer: &mut Ports, ticket: Ticket) -> Outcome<PortRange> {
    let finished = committer.take_finished();
    assert_eq!(finished.iter().map(|one| one.ticket).collect::<Vec<_>>(), [ticket]);
    finished.into_iter().next().expect("one").outcome
}

const NOW: Duration = Duration::from_secs(1);

#[test]
fn an_operation_that_may_have_happened_ends_as_unknown_and_never_as_a_failure() {
    for operation in [this(30_004), next(), release(30_003, 2)] {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        let taken = store.one(&mut ours, this(30_003));
        assert!(matches!(taken, Outcome::Allocated { revision: 2, .. }));
        let deadline = NOW + Duration::from_secs(10);
        let ticket = ours.submit(operation, deadline);
        assert!(matches!(send(&mut ours, NOW), Request::Swap { .. }));
        ours.unknown(NOW);
        // The request was lost or comes late: nobody knows. The time is over before the store can be asked.
        ours.poll(deadline);
        assert_eq!(outcome(&mut ours, ticket), Outcome::Unknown);
    }
}

#[test]
fn a_named_value_that_an_unknown_swap_took_is_not_reported_as_taken_by_others() {
    for told_by_watch in [false, true] {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        ours.keep_history(true);
        let ticket = ours.submit(this(30_003), NEVER);
        let Request::Swap { value, .. } = send(&mut ours, NOW) else { panic!("a swap") };
        ours.unknown(NOW);
        if told_by_watch {
            // The read finds nothing changed; only then does the swap take place, and the watch is first to tell.
            let read = send(&mut ours, NOW);
            store.perform(read, NOW, &mut ours);
            let from = ours.watch_from().expect("history is kept");
            store.put(value);
            store.watch(from, &mut ours);
        } else {
            store.put(value);
        }
        let finished = store.run(&mut ours, NOW);
        assert_eq!(finished, [(ticket, Outcome::Unknown)]);
    }
}

/// etcd carries a swap out that exceeds its quota, and refuses it and what follows: with no room made meanwhile there is
/// nothing to wait for.
#[test]
fn an_operation_in_doubt_ends_with_the_next_refusal() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let ticket = ours.submit(next(), NEVER);
    let swap = send(&mut ours, NOW);
    store.answer(swap);
    ours.refused(NOW, "no space");
    let read = send(&mut ours, NOW);
    store.perform(read, NOW, &mut ours);
    send(&mut ours, NOW); // picked afresh
    ours.refused(NOW, "no space");
    let read = send(&mut ours, NOW);
    store.perform(read, NOW, &mut ours);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Unknown);
}

#[test]
fn what_an_allocation_took_for_nobody_is_given_back() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let cancelled = ours.submit(this(30_003), NEVER);
    let request = send(&mut ours, NOW);
    ours.cancel(cancelled);
    assert_eq!(outcome(&mut ours, cancelled), Outcome::Unknown);
    store.perform(request, NOW, &mut ours);
    assert_eq!(store.run(&mut ours, NOW), []);
    // The answer comes after more than half of the grace: too late to use the value.
    let late = ours.submit(this(30_004), NEVER);
    let request = send(&mut ours, NOW);
    store.perform(request, NOW + Duration::from_secs(181), &mut ours);
    assert_eq!(store.run(&mut ours, NOW + Duration::from_secs(181)), [(late, Outcome::Unknown)]);
    let (_, value) = store.key.as_ref().expect("stored");
    assert!(RangeAllocation::decode(value).expect("ours").data.is_empty());
}

#[test]
fn after_a_restore_old_anchors_tell_nothing_and_new_views_do() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { revision, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    // The cluster starts anew from a backup, in which the value is taken by somebody else.
    let old = store.revision;
    store.revision -= 1;
    let before = store.key.as_ref().map(|(_, value)| value.clone()).expect("stored");
    store.put(before);
    store.cluster_id = 8;
    ours.reconnected();
    assert!(matches!(store.one(&mut ours, release(30_003, revision)), Outcome::Deferred(_)));
    // An anchor that this store has not reached is one of the other store, too.
    assert!(matches!(store.one(&mut ours, release(30_003, old + 5)), Outcome::Deferred(_)));
    // A repair pass of this store may set and clear at once, whatever revision the other one had.
    let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    assert!(view.revision <= old);
    let bitmap = |offset| {
        let mut bitmap = Bitmap::new(10);
        bitmap.insert(offset);
        bitmap
    };
    let diff = Diff {
        read: view.revision,
        set: bitmap(7),
        clear: bitmap(9),
        duplicates: Vec::new(),
        listed: Listed::Elsewhere,
    };
    let repaired = store.one(&mut ours, Operation::Repair(Box::new(diff)));
    assert_eq!(repaired, Outcome::Repaired(Repaired { set: vec![30_007], cleared: vec![], changed: 1 }));
}

/// The cluster id and the raft term stay, and the revision does not go back.
#[test]
fn a_restore_is_noticed_by_the_key_alone() {
    for case in ["revision raised", "same revisions", "more changes than revisions", "watched further"] {
        let (mut store, mut ours, mut others) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut ours, Operation::Create);
        let mut restored = Store { revision: store.revision, key: store.key.clone(), ..Store::default() };
        // Something else was written, too.
        store.revision += if case == "more changes than revisions" { 3 } else { 0 };
        let Outcome::Allocated { revision: lost, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
        match case {
            // As `etcdutl snapshot restore --bump-revision` does it.
            "revision raised" => restored.revision += 100,
            // Somebody else has already done as much to it as was lost.
            "same revisions" => {
                assert!(matches!(restored.one(&mut others, this(30_007)), Outcome::Allocated { .. }));
                assert_eq!(restored.key.as_ref().map(|key| key.0), store.key.as_ref().map(|key| key.0));
            }
            "more changes than revisions" => {
                for value in 30_005..30_010 {
                    assert!(matches!(restored.one(&mut others, this(value)), Outcome::Allocated { .. }));
                }
                assert!(restored.revision > lost);
            }
            // No answer has told of the last revision that was lost.
            _ => {
                ours.keep_history(true);
                let from = ours.watch_from().expect("wanted");
                assert!(matches!(store.one(&mut others, this(30_007)), Outcome::Allocated { .. }));
                store.watch(from, &mut ours);
                ours.keep_history(false);
                restored.revision = lost;
            }
        }
        ours.reconnected();
        let outcome = restored.one(&mut ours, release(30_003, lost));
        assert!(matches!(outcome, Outcome::Deferred(_) | Outcome::Released { freed: false }), "{case}: {outcome:?}");
        // What was handed out before is set again, and nothing is gone of what others have allocated since.
        let mut new = committer("30000-30009", 3);
        let own_and_others = if matches!(case, "same revisions" | "more changes than revisions") { 2 } else { 1 };
        for taken in [30_003, 30_007].into_iter().take(own_and_others) {
            let outcome = restored.one(&mut new, this(taken));
            assert!(matches!(outcome, Outcome::Failed(Failure::Allocate(_))), "{case}, {taken}: {outcome:?}");
        }
        assert!(matches!(restored.one(&mut ours, this(30_004)), Outcome::Allocated { .. }), "{case}");
    }
}

/// What happened to a value is forgotten after so many changes, or revisions: then an old anchor tells nothing any more.
#[test]
fn an_anchor_older_than_what_is_remembered_frees_nothing() {
    // One change in each revision, and many in each.
    for (range, together) in [("30000-30009", 1), ("30000-34999", 4_000)] {
        let (mut store, mut ours) = (Store::default(), committer(range, 1));
        store.one(&mut ours, Operation::Create);
        let Outcome::Allocated { revision: anchor, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
        // Its owner gives it back, and somebody else gets it.
        assert_eq!(store.one(&mut ours, release(30_003, anchor)), Outcome::Released { freed: true });
        let Outcome::Allocated { revision: newer, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
        assert_eq!(store.one(&mut ours, release(30_003, anchor)), Outcome::Released { freed: false });
        let mut changes = 0;
        while changes <= 30_000 {
            let taken = store.one(&mut ours, Operation::Allocate(vec![Wanted::Next; together]));
            let Outcome::Allocated { values, revision, .. } = taken else { panic!("{taken:?}") };
            changes += 2 * values.len();
            for value in values {
                ours.submit(release(value, revision), NEVER);
            }
            let ended = store.run(&mut ours, NOW);
            assert!(ended.iter().all(|(_, outcome)| *outcome == Outcome::Released { freed: true }));
        }
        for anchor in [anchor, newer] {
            let outcome = store.one(&mut ours, release(30_003, anchor));
            assert!(matches!(outcome, Outcome::Deferred(_)), "{range}: {outcome:?}");
        }
        assert!(is_set(&store, 3), "{range}");
    }
}

/// While two Services have a value, to delete one of them must not free what the other one uses.
#[test]
fn what_two_services_have_is_not_released() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { revision, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    let learn = |store: &mut Store, ours: &mut Ports, duplicates: Vec<u32>| {
        let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
        let (set, clear) = (Bitmap::new(10), Bitmap::new(10));
        let diff = Diff { read: view.revision, set, clear, duplicates, listed: Listed::Elsewhere };
        let nothing = Repaired { set: vec![], cleared: vec![], changed: 0 };
        assert_eq!(store.one(ours, Operation::Repair(Box::new(diff))), Outcome::Repaired(nothing));
    };
    learn(&mut store, &mut ours, vec![7, 3]);
    let outcome = store.one(&mut ours, release(30_003, revision));
    assert_eq!(outcome, Outcome::Deferred(Deferral::Duplicate));
    assert!(is_set(&store, 3));
    // The next pass sees one Service.
    learn(&mut store, &mut ours, vec![]);
    assert_eq!(store.one(&mut ours, release(30_003, revision)), Outcome::Released { freed: true });
}

/// A restore that cannot be noticed, as docs/commit-protocol.md says: the cluster id and the raft term stay, others have
/// brought the store's revision up to what it was, and nobody had written the key since the backup. A release for a Service
/// that was deleted in the lost time then frees the value, and the Service is back.
#[test]
fn a_restore_that_nothing_tells_of_is_not_noticed() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    store.revision += 1; // its Service is written
    let backup = store.revision;
    store.revision += 1; // and deleted
    let anchor = store.revision;
    assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    // The key is as in the backup; other keys were written, were it only leases of nodes.
    store.revision = backup + 20;
    ours.reconnected();
    assert_eq!(store.one(&mut ours, release(30_003, anchor)), Outcome::Released { freed: true });
    // With a new cluster id, as the document advises, it is noticed.
    let Outcome::Allocated { .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    let anchor = store.revision;
    store.cluster_id += 1;
    store.revision += 20;
    ours.reconnected();
    assert!(matches!(store.one(&mut ours, release(30_003, anchor)), Outcome::Deferred(_)));
}

#[test]
fn a_range_that_is_gone_is_not_made_anew_by_a_pass_that_had_seen_it() {
    let ways: [fn(&mut Store); 2] =
        [|store| store.delete(), |store| store.put(RangeAllocation::new(Form::Protobuf).encode())];
    for (way, lose) in ways.into_iter().enumerate() {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
        let pass = |store: &mut Store, ours: &mut Ports| {
            let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
            let mut set = Bitmap::new(10);
            set.insert(3);
            set.difference_with(&view.used);
            let clear = Bitmap::new(10);
            let diff = Diff { read: view.revision, set, clear, duplicates: Vec::new(), listed: Listed::Elsewhere };
            Operation::Repair(Box::new(diff))
        };
        let seen = pass(&mut store, &mut ours);
        lose(&mut store);
        let lost = store.key.clone();
        ours.reconnected();
        store.one(&mut ours, seen);
        assert_eq!(store.key, lost, "{way}: values in use would be handed out");
        // A pass that has seen that it is gone sets all that Services use.
        let seen = pass(&mut store, &mut ours);
        assert_eq!(
            store.one(&mut ours, seen),
            Outcome::Repaired(Repaired { set: vec![30_003], cleared: vec![], changed: 0 })
        );
        assert!(is_set(&store, 3));
    }
}

#[test]
fn what_was_handed_out_lately_is_set_again_when_the_range_is_made_anew() {
    let empty = RangeAllocation::new(Form::Protobuf).encode();
    let ways: [fn(&mut Store, Vec<u8>); 3] = [
        |store, _| store.delete(),
        // The key stays, and says that it was never initialised.
        |store, empty| store.put(empty),
        |store, _| store.put(b"not a range".to_vec()),
    ];
    for (way, spoil) in ways.into_iter().enumerate() {
        for told in ["in the end", "by an answer", "by a watch"] {
            let (mut store, mut ours, mut others) =
                (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
            store.one(&mut ours, Operation::Create);
            assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
            ours.keep_history(told != "by an answer");
            let from = ours.watch_from();
            spoil(&mut store, empty.clone());
            match told {
                "by an answer" => drop(store.one(&mut ours, Operation::Read)),
                "by a watch" => store.watch(from.expect("history is kept"), &mut ours),
                _ => {}
            }
            if way == 2 {
                // Nobody overwrites what cannot be read, but a person.
                store.put(empty.clone());
            }
            assert_eq!(store.one(&mut others, Operation::Create), Outcome::Created { created: true });
            if told == "by a watch" {
                store.watch(from.expect("history is kept"), &mut ours);
            }
            let again = store.one(&mut ours, this(30_003));
            assert!(matches!(again, Outcome::Failed(Failure::Allocate(_))), "{way}, told {told}: {again:?}");
            assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Failed(Failure::Allocate(_))));
        }
    }
}

#[test]
fn a_watch_that_cannot_begin_is_not_begun_over_and_over() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    ours.keep_history(true);
    // The store went on without the key being changed; what was before is compacted.
    store.revision += 100;
    store.one(&mut ours, Operation::Read);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
    ours.watch_failed();
    assert_eq!(ours.watch_from(), None);
    store.one(&mut ours, Operation::Read);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
}

const INTERVAL: Duration = Duration::from_secs(180);

/// What a pass at this time finds out that sees no Services; its clears are guarded with the revision of their list, or
/// not.
fn found(store: &mut Store, ours: &mut Ports, passes: &mut Passes, now: Duration, guarded: bool) -> Diff {
    passes.begin(ours);
    let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
    let range = AnyRange::Ports(ours.range());
    passes.seen(range, ours, view.revision, now);
    let mut pass = RepairPass::new();
    let text = ours.range().to_string();
    pass.add_node_ports(ours.range(), Stored { range: &text, data: view.used.snapshot() }).expect("a snapshot");
    let outcome = pass.finish(Leaks::Keep(passes.counters()));
    let listed = if guarded { Listed::Guarding(store.revision) } else { Listed::At(store.revision) };
    passes.diff(&outcome.ranges[0], ours, listed)
}

/// A pass at this time that finds no Services; gives what it clears.
fn pass(store: &mut Store, ours: &mut Ports, passes: &mut Passes, now: Duration) -> Vec<u32> {
    let diff = found(store, ours, passes, now, false);
    let cleared = diff.clear.iter().collect();
    store.one(ours, Operation::Repair(Box::new(diff)));
    cleared
}

#[test]
fn a_leak_is_cleaned_after_three_spaced_passes_and_a_grace() {
    let three = NonZeroU8::new(3).expect("not zero");
    // Intervals between passes, in hundredths, and the pass that cleans.
    for (intervals, last) in [
        (&[100, 100][..], 3),
        // Spaced, but the third comes before the grace is over.
        (&[95, 95, 95], 4),
        // The second comes too early, and counting begins again.
        (&[80, 100, 100], 4),
        (&[100, 80, 80, 100, 100], 6),
    ] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        store.one(&mut others, this(30_003));
        let mut passes = Passes::new(three, INTERVAL);
        let mut now = NOW;
        for number in 1..=last {
            let cleared = pass(&mut store, &mut ours, &mut passes, now);
            assert_eq!(cleared, if number == last { vec![3] } else { Vec::new() }, "pass {number} of {intervals:?}");
            now += INTERVAL * intervals.get(number - 1).copied().unwrap_or(0) / 100;
        }
        assert!(ours.watch_from().is_none(), "nothing is counted any more");
    }
}

#[test]
fn a_counter_starts_again_when_its_value_was_free_meanwhile_or_nobody_knows() {
    let three = NonZeroU8::new(3).expect("not zero");
    for known in [true, false] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        let Outcome::Allocated { revision, .. } = store.one(&mut others, this(30_003)) else { panic!("free") };
        store.one(&mut others, this(30_004));
        let mut passes = Passes::new(three, INTERVAL);
        let mut now = NOW;
        for _ in 0..2 {
            assert!(pass(&mut store, &mut ours, &mut passes, now).is_empty());
            now += INTERVAL;
        }
        // Somebody else gets the value between two passes. It looks as before.
        store.one(&mut others, release(30_003, revision));
        assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Allocated { .. }));
        if !known {
            ours.submit(Operation::Read, NEVER);
            let confirm = send(&mut ours, now);
            store.perform(confirm, now, &mut ours);
            ours.watch_failed();
            store.run(&mut ours, now);
        }
        let cleared = pass(&mut store, &mut ours, &mut passes, now);
        assert_eq!(cleared, if known { vec![4] } else { vec![] });
    }
}

/// However often others write the key between two passes, what nobody touches is counted on.
#[test]
fn a_leak_is_cleaned_on_a_busy_key() {
    for writes in [200, 3_200] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        store.one(&mut others, this(30_003));
        store.one(&mut others, this(30_004));
        let mut passes = Passes::new(NonZeroU8::new(3).expect("not zero"), INTERVAL);
        let mut cleared = Vec::new();
        for number in 0..3 {
            cleared = pass(&mut store, &mut ours, &mut passes, NOW + INTERVAL * number);
            if number == 1 {
                // Changes hands, and so much comes after that that nobody remembers it.
                let anchor = store.revision;
                assert_eq!(store.one(&mut others, release(30_004, anchor)), Outcome::Released { freed: true });
                assert!(matches!(store.one(&mut others, this(30_004)), Outcome::Allocated { .. }));
            }
            for _ in 0..writes / 2 {
                let Outcome::Allocated { revision, .. } = store.one(&mut others, this(30_007)) else { panic!("free") };
                store.one(&mut others, release(30_007, revision));
                if let Some(from) = ours.watch_from() {
                    store.watch(from, &mut ours);
                }
                store.log.clear();
            }
        }
        assert_eq!(cleared, [3], "{writes} writes between two passes");
    }
}

#[test]
fn a_leak_stays_if_a_service_was_written_after_the_list() {
    let three = NonZeroU8::new(3).expect("not zero");
    let (mut store, mut others, mut ours) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut others, Operation::Create);
    store.one(&mut others, this(30_003));
    let mut passes = Passes::new(three, INTERVAL);
    let mut now = NOW;
    for _ in 0..2 {
        let diff = found(&mut store, &mut ours, &mut passes, now, true);
        assert!(diff.clear.is_empty());
        store.one(&mut ours, Operation::Repair(Box::new(diff)));
        now += INTERVAL;
    }
    let diff = found(&mut store, &mut ours, &mut passes, now, true);
    assert_eq!(diff.clear.iter().collect::<Vec<_>>(), [3]);
    // The creator was slower than the grace: its Service comes after the list.
    store.revision += 1;
    store.services_written = store.revision;
    let repair = ours.submit(Operation::Repair(Box::new(diff)), NEVER);
    let other = ours.submit(this(30_004), NEVER);
    // A read after a long silence.
    let read = send(&mut ours, now);
    store.perform(read, now, &mut ours);
    let Request::Swap { services_unchanged_since, .. } = send(&mut ours, now) else { panic!("a swap") };
    assert_eq!(services_unchanged_since, Some(store.revision - 1));
    ours.answered(now, store.header(), store.current());
    // All else goes on at once.
    let Step::Send(request) = ours.poll(now) else { panic!("a swap without a wait") };
    assert!(matches!(request, Request::Swap { services_unchanged_since: None, .. }));
    store.perform(request, now, &mut ours);
    let ended: Vec<_> = ours.take_finished().into_iter().map(|one| (one.ticket, one.outcome)).collect();
    assert_eq!(ended[0], (repair, Outcome::Repaired(Repaired { set: vec![], cleared: vec![], changed: 1 })));
    assert!(matches!(ended[1], (ticket, Outcome::Allocated { .. }) if ticket == other));
    // The Service is gone again. The leak is still due, and a later pass has a later list.
    now += INTERVAL;
    let diff = found(&mut store, &mut ours, &mut passes, now, true);
    assert_eq!(diff.clear.iter().collect::<Vec<_>>(), [3]);
    let cleaned = store.one(&mut ours, Operation::Repair(Box::new(diff)));
    assert_eq!(cleaned, Outcome::Repaired(Repaired { set: vec![], cleared: vec![30_003], changed: 0 }));
    // What was cleared is not due any more if somebody takes it.
    assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Allocated { .. }));
    now += INTERVAL;
    assert!(found(&mut store, &mut ours, &mut passes, now, true).clear.is_empty());
}

#[test]
fn a_pass_with_a_list_from_before_its_read_changes_nothing() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
    let Outcome::Read(View { revision: read, .. }) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    let mut set = Bitmap::new(10);
    set.insert(5);
    for (listed, stale) in [(read - 1, true), (read, false)] {
        let clear = Bitmap::new(10);
        let diff = Diff { read, set: set.clone(), clear, duplicates: Vec::new(), listed: Listed::At(listed) };
        let outcome = store.one(&mut ours, Operation::Repair(Box::new(diff)));
        assert_eq!(outcome == Outcome::Failed(Failure::StaleList { listed, read }), stale, "{outcome:?}");
    }
}

#[test]
fn a_round_that_clears_no_leak_does_not_depend_on_services() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    let mut set = Bitmap::new(10);
    set.insert(3);
    // The offset to be cleared is free already.
    let mut clear = Bitmap::new(10);
    clear.insert(4);
    let diff =
        Diff { read: view.revision, set, clear, duplicates: Vec::new(), listed: Listed::Guarding(view.revision) };
    store.revision += 1;
    store.services_written = store.revision;
    ours.submit(Operation::Repair(Box::new(diff)), NEVER);
    assert!(matches!(send(&mut ours, NOW), Request::Swap { services_unchanged_since: None, .. }));
}

/// A committer with a sidecar.
fn writer(seed: u64) -> Ports {
    let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360), sidecar: true };
    let range = "30000-30009".parse().expect("a range");
    Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(seed))
}

/// A range that was made by a writer.
fn made() -> (Store, Ports) {
    let (mut store, mut ours) = (Store::default(), writer(1));
    assert_eq!(store.one(&mut ours, Operation::Create), Outcome::Created { created: true });
    (store, ours)
}

/// Submits an operation whose swap has no answer.
fn unanswered(ours: &mut Ports, operation: Operation<PortRange>) -> (Ticket, Request) {
    let ticket = ours.submit(operation, NEVER);
    let swap = send(ours, NOW);
    assert!(matches!(swap, Request::Swap { sidecar: Some(_), .. }));
    ours.unknown(NOW);
    (ticket, swap)
}

fn fence(ours: &mut Ports) -> Request {
    let request = send(ours, NOW);
    assert!(matches!(request, Request::Fence { .. }), "{request:?}");
    request
}

fn is_set(store: &Store, offset: usize) -> bool {
    let (_, value) = store.key.as_ref().expect("stored");
    let data = RangeAllocation::decode(value).expect("ours").data;
    data.iter().rev().nth(offset / 8).is_some_and(|byte| byte >> (offset % 8) & 1 == 1)
}

#[test]
fn no_swap_goes_out_while_there_is_no_sidecar() {
    let (mut store, mut ours) = (Store::default(), writer(1));
    ours.submit(Operation::Create, NEVER);
    let read = send(&mut ours, NOW);
    assert_eq!(read, Request::Read);
    store.perform(read, NOW, &mut ours);
    let first = fence(&mut ours);
    assert!(matches!(first, Request::Fence { sidecar: SidecarPut { mod_revision: 0, .. } }));
    store.perform(first, NOW, &mut ours);
    let made = store.revision;
    let swap = send(&mut ours, NOW);
    assert!(
        matches!(swap, Request::Swap { sidecar: Some(SidecarPut { mod_revision, .. }), .. } if mod_revision == made)
    );
    store.perform(swap, NOW, &mut ours);
    assert!(matches!(ours.take_finished()[..], [_]));
    assert_eq!(store.sidecar.as_ref().map(|(state, _)| state.mod_revision), Some(store.revision), "in one transaction");
}

#[test]
fn a_fence_ends_a_swap_that_was_not_written() {
    let (mut store, mut ours) = made();
    let (ticket, swap) = unanswered(&mut ours, this(30_003));
    let fence = fence(&mut ours);
    store.perform(fence, NOW, &mut ours);
    // It comes after all, to the very state that it was for.
    let (_, answer) = store.answer(swap);
    assert_ne!(answer, Answer::Held);
    assert_eq!(ours.take_finished(), []);
    let Request::Swap { .. } = send(&mut ours, NOW) else { panic!("tried again") };
    // By now it is known that nothing has happened: the deadline may say so.
    ours.cancel(ticket);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Unknown, "the second swap is under way");

    let (mut store, mut ours) = made();
    let ticket = ours.submit(this(30_003), NOW + Duration::from_secs(1));
    send(&mut ours, NOW);
    ours.unknown(NOW);
    let request = send(&mut ours, NOW);
    store.perform(request, NOW, &mut ours);
    ours.poll(NOW + Duration::from_secs(1));
    assert_eq!(outcome(&mut ours, ticket), Outcome::Failed(Failure::DeadlineExceeded));
}

#[test]
fn a_fence_proves_a_swap_that_was_written() {
    for named in [true, false] {
        let (mut store, mut ours) = made();
        let mut others = writer(2);
        let (ticket, swap) = unanswered(&mut ours, if named { this(30_003) } else { next() });
        store.answer(swap);
        let written = store.revision;
        // Others go on, with a sidecar of their own.
        let own = store.sidecar.take();
        assert!(matches!(store.one(&mut others, next()), Outcome::Allocated { .. }));
        store.sidecar = own;
        let request = fence(&mut ours);
        store.perform(request, NOW, &mut ours);
        let Outcome::Allocated { values, revision, use_until } = outcome(&mut ours, ticket) else { panic!("proven") };
        assert_eq!((revision, use_until), (written, NOW + Duration::from_secs(360)));
        // The history is whole: our swap and that of others.
        let freed = store.one(&mut ours, release(values[0], revision));
        assert_eq!(freed, Outcome::Released { freed: true });
    }
}

#[test]
fn a_fence_without_answer_is_sent_again() {
    for arrives in [true, false] {
        for written in [true, false] {
            let (mut store, mut ours) = made();
            let (ticket, swap) = unanswered(&mut ours, this(30_003));
            if written {
                store.answer(swap);
            }
            let first = fence(&mut ours);
            ours.unknown(NOW);
            if arrives {
                store.answer(first.clone());
            }
            assert_eq!(fence(&mut ours), first, "of one state of the sidecar one fence at most is written");
            store.perform(first, NOW, &mut ours);
            let finished = store.run(&mut ours, NOW);
            assert!(matches!(&finished[..], [(own, Outcome::Allocated { .. })] if *own == ticket), "{finished:?}");
            assert!(is_set(&store, 3));
        }
    }
}

#[test]
fn a_sidecar_that_somebody_else_wrote_or_deleted_proves_nothing() {
    for deleted in [true, false] {
        for written in [true, false] {
            let (mut store, mut ours) = made();
            let (ticket, swap) = unanswered(&mut ours, this(30_003));
            if written {
                store.answer(swap);
            }
            if deleted {
                store.revision += 1;
                store.sidecar = None;
            } else {
                // Another process with the name of this one. The number of its last swap may be the same.
                let mut double = writer(7);
                assert!(matches!(store.one(&mut double, this(30_005)), Outcome::Allocated { .. }));
                if !written {
                    assert!(matches!(store.one(&mut double, this(30_006)), Outcome::Allocated { .. }));
                }
            }
            let request = fence(&mut ours);
            store.perform(request, NOW, &mut ours);
            let finished = store.run(&mut ours, NOW);
            if !written {
                // The key is as it was, so the same may be tried again; or it has changed, so the swap cannot be written any
                // more, and the value is free.
                assert!(matches!(&finished[..], [(own, Outcome::Allocated { .. })] if *own == ticket));
            } else {
                assert_eq!(finished, [(ticket, Outcome::Unknown)]);
            }
            // It goes on from what the sidecar is now.
            assert!(matches!(store.one(&mut ours, this(30_008)), Outcome::Allocated { .. }));
        }
    }
}

#[test]
fn a_swap_that_was_sent_twice_is_not_taken_for_a_conflict() {
    let (mut store, mut ours) = made();
    let ticket = ours.submit(this(30_003), NEVER);
    let swap = send(&mut ours, NOW);
    // Something on the way repeats it; of the two answers the second arrives.
    let (header, answer) = store.answer(swap.clone());
    assert_eq!(answer, Answer::Held);
    store.perform(swap, NOW, &mut ours);
    assert!(matches!(outcome(&mut ours, ticket), Outcome::Allocated { revision, .. } if revision == header.revision));
}

#[test]
fn what_is_proven_too_late_is_given_back() {
    let (mut store, mut ours) = made();
    let (ticket, swap) = unanswered(&mut ours, this(30_003));
    store.answer(swap);
    let request = fence(&mut ours);
    let late = NOW + Duration::from_secs(181);
    store.perform(request, late, &mut ours);
    assert_eq!(store.run(&mut ours, late), [(ticket, Outcome::Unknown)]);
    assert!(!is_set(&store, 3));
}

#[test]
fn what_is_proven_for_nobody_is_given_back() {
    let (mut store, mut ours) = made();
    let (ticket, swap) = unanswered(&mut ours, this(30_003));
    store.answer(swap);
    ours.cancel(ticket);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Unknown);
    assert_eq!(ours.pending(), 0);
    assert_eq!(store.run(&mut ours, NOW), []);
    assert!(!is_set(&store, 3));
}

#[test]
fn a_fence_in_another_store_proves_nothing() {
    for written in [true, false] {
        let (mut store, mut ours) = made();
        let (ticket, swap) = unanswered(&mut ours, this(30_003));
        if written {
            store.answer(swap);
        }
        store.cluster_id = 8;
        let request = fence(&mut ours);
        store.perform(request, NOW, &mut ours);
        let finished = store.run(&mut ours, NOW);
        if written {
            assert_eq!(finished, [(ticket, Outcome::Unknown)]);
        } else {
            assert!(matches!(&finished[..], [(own, Outcome::Allocated { .. })] if *own == ticket), "at the same state");
        }
    }
}

#[test]
fn what_became_of_a_refused_swap_is_read() {
    for written in [true, false] {
        let (mut store, mut ours) = made();
        let mut others = writer(2);
        let ticket = ours.submit(next(), NEVER);
        let swap = send(&mut ours, NOW);
        if written {
            store.answer(swap);
        }
        ours.refused(NOW, "no space");
        // The key is changed, so that it does not tell.
        let own = store.sidecar.take();
        assert!(matches!(store.one(&mut others, next()), Outcome::Allocated { .. }));
        store.sidecar = own;
        // A fence would be refused, too.
        let read = send(&mut ours, NOW);
        assert_eq!(read, Request::Read);
        ours.unknown(NOW);
        let read = send(&mut ours, NOW);
        assert_eq!(read, Request::Read);
        store.perform(read, NOW, &mut ours);
        let outcome = outcome(&mut ours, ticket);
        if written {
            assert!(matches!(outcome, Outcome::Allocated { .. }));
        } else {
            assert_eq!(outcome, Outcome::Failed(Failure::Refused { message: "no space".into() }));
        }
    }
}

#[test]
fn a_refused_fence_leaves_a_swap_undecided() {
    let (mut store, mut ours) = made();
    let (ticket, swap) = unanswered(&mut ours, this(30_003));
    fence(&mut ours);
    ours.refused(NOW, "no space");
    let read = send(&mut ours, NOW);
    assert_eq!(read, Request::Read);
    store.answer(swap);
    store.perform(read, NOW, &mut ours);
    assert_eq!(store.run(&mut ours, NOW), [(ticket, Outcome::Unknown)]);
}
