//! Repair passes, and leak counters across passes.

use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::audit::{Audit, BitmapRevisions, Stored};
use rangekeeper::cidr::CidrRange;
use rangekeeper::commit::{
    Config, Diff, Event, Failure, LeakTracker, Operation, Outcome, RepairPass, Repaired, Replace, ServiceList, Step,
    StoreRequest, View,
};
use rangekeeper::ipaddress::{ALLOCATOR, IpAddressObject};
use rangekeeper::range_allocation::{Form, RangeAllocation};
use rangekeeper::service::Service;
use rangekeeper::service_cidr::ServiceCidr;

use crate::store::{LOOK, NEVER, NOW, Ports, Shell, Store, allocated, committer, diff, is_set, release, send, this};

const INTERVAL: Duration = Duration::from_secs(180);

/// A pass at this time that has read its range.
fn seen(store: &mut Store, ours: &mut Ports, passes: &mut LeakTracker, now: Duration) -> RepairPass {
    let mut pass = passes.start();
    pass.begin(passes, ours).expect("the only range");
    let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
    if pass.read(passes, ours, &view, now).expect("begun") {
        store.revision += 1;
        pass.fenced(passes, ours, store.revision, LOOK).expect("after the read");
    }
    pass
}

/// The diff of a pass that has read its range, if there are no Services.
fn concluded(ours: &mut Ports, passes: &mut LeakTracker, pass: RepairPass, listed: ServiceList) -> Diff {
    let mut audit = Audit::new();
    let listing = pass.audit(passes, &mut audit).expect("all is read");
    let (found, _) = listing.finish(passes, audit).expect("its own audit");
    found.diff(passes, ours, listed).expect("its own range")
}

/// The diff of a pass at this time that finds no Services. Its clears are guarded by the revision of the list, or not.
fn found(store: &mut Store, ours: &mut Ports, passes: &mut LeakTracker, now: Duration, guarded: bool) -> Diff {
    let pass = seen(store, ours, passes, now);
    let listed = if guarded { ServiceList::Guarding(store.revision) } else { ServiceList::At(store.revision) };
    concluded(ours, passes, pass, listed)
}

/// A pass at this time that finds no Services; returns the offsets that it clears.
fn pass(store: &mut Store, ours: &mut Ports, passes: &mut LeakTracker, now: Duration) -> Vec<u32> {
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
        let mut passes = LeakTracker::new(three, INTERVAL);
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
        let mut passes = LeakTracker::new(three, INTERVAL);
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

/// However often others write the key between two passes, a leak that nobody touches keeps its counter.
#[test]
fn a_leak_is_cleaned_on_a_busy_key() {
    for writes in [200, 3_200] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        store.one(&mut others, this(30_003));
        store.one(&mut others, this(30_004));
        let mut passes = LeakTracker::new(NonZeroU8::new(3).expect("not zero"), INTERVAL);
        let mut cleared = Vec::new();
        for number in 0..3 {
            cleared = pass(&mut store, &mut ours, &mut passes, NOW + INTERVAL * number);
            if number == 1 {
                // It gets another owner, and then more changes come than are remembered.
                let as_of = store.revision;
                assert_eq!(store.one(&mut others, release(30_004, as_of)), Outcome::Released { freed: true });
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
    let mut passes = LeakTracker::new(three, INTERVAL);
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
    let StoreRequest::Swap { services_unchanged_since, .. } = send(&mut ours, now) else {
        panic!("a compare-and-swap")
    };
    assert_eq!(services_unchanged_since, Some(store.revision - 1));
    ours.handle(Event::Answered { header: store.header(), answer: store.current() }, now);
    // All else goes on at once.
    let Step::Send(request) = ours.poll(now) else { panic!("a compare-and-swap without a wait") };
    assert!(matches!(request, StoreRequest::Swap { services_unchanged_since: None, .. }));
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

/// Nothing tells that the store was restored but the look, which is not there.
#[test]
fn a_pass_clears_and_creates_nothing_by_a_list_of_another_history() {
    let three = NonZeroU8::new(3).expect("not zero");
    let (mut store, mut others, mut ours) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut others, Operation::Create);
    store.one(&mut others, this(30_003));
    let mut passes = LeakTracker::new(three, INTERVAL);
    let mut now = NOW;
    for _ in 0..2 {
        pass(&mut store, &mut ours, &mut passes, now);
        now += INTERVAL;
    }
    let diff = found(&mut store, &mut ours, &mut passes, now, false);
    assert_eq!((diff.clear.iter().collect::<Vec<_>>(), diff.look), (vec![3], Some(LOOK)));
    store.lacks_look = true;
    let outcome = store.one(&mut ours, Operation::Repair(Box::new(diff)));
    assert_eq!(outcome, Outcome::Repaired(Repaired { set: vec![], cleared: vec![], changed: 1 }));
    assert!(is_set(&store, 3));

    let (mut store, mut ours) = (Store { lacks_look: true, ..Store::default() }, committer("30000-30009", 1));
    for is_created in [false, true] {
        let diff = found(&mut store, &mut ours, &mut passes, now, false);
        store.one(&mut ours, Operation::Repair(Box::new(diff)));
        assert_eq!(store.key.is_some(), is_created);
        store.lacks_look = false;
    }
}

#[test]
fn a_pass_with_a_list_from_before_its_read_changes_nothing() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
    let Outcome::Read(View { revision: read, .. }) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    for (listed, stale) in [(read - 1, true), (read, false)] {
        let diff = Diff { listed: ServiceList::At(listed), ..diff(read, &[5], &[]) };
        let outcome = store.one(&mut ours, Operation::Repair(Box::new(diff)));
        assert_eq!(outcome == Outcome::Failed(Failure::StaleList { listed, read }), stale, "{outcome:?}");
    }
}

#[test]
fn a_round_that_clears_no_leak_does_not_depend_on_services() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    // The offset to be cleared is free already.
    let diff = Diff { listed: ServiceList::Guarding(view.revision), ..diff(view.revision, &[3], &[4]) };
    store.revision += 1;
    store.services_written = store.revision;
    ours.submit(Operation::Repair(Box::new(diff)), NEVER);
    assert!(matches!(send(&mut ours, NOW), StoreRequest::Swap { services_unchanged_since: None, .. }));
}

/// The value is released, and somebody else gets it.
fn change_hands(store: &mut Store, others: &mut Ports, port: u16) {
    let as_of = store.revision;
    assert_eq!(store.one(others, release(port, as_of)), Outcome::Released { freed: true });
    allocated(store.one(others, this(port)));
}

/// Adopts the present state without a history of what came before.
fn lose_history(store: &mut Store, ours: &mut Ports, now: Duration) {
    ours.submit(Operation::Read, NEVER);
    let read = send(ours, now);
    store.perform(read, now, ours);
    ours.watch_failed();
    store.run(ours, now);
}

/// Where one pass is enough, only the grace keeps a leak: it runs from the first sighting of this leak, not of an
/// earlier one of the same value.
#[test]
fn the_grace_of_a_leak_starts_again_when_its_value_changes_hands() {
    for (changes, known) in [(false, true), (true, true), (true, false)] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        allocated(store.one(&mut others, this(30_003)));
        let mut passes = LeakTracker::new(NonZeroU8::new(1).expect("not zero"), INTERVAL);
        assert!(pass(&mut store, &mut ours, &mut passes, NOW).is_empty());
        assert!(pass(&mut store, &mut ours, &mut passes, NOW + INTERVAL).is_empty());
        if changes {
            change_hands(&mut store, &mut others, 30_003);
        }
        if !known {
            lose_history(&mut store, &mut ours, NOW + INTERVAL);
        }
        let cleared: Vec<_> =
            (2..=4).map(|number| pass(&mut store, &mut ours, &mut passes, NOW + INTERVAL * number)).collect();
        let expected = if changes { [vec![], vec![], vec![3]] } else { [vec![3], vec![], vec![]] };
        assert_eq!(cleared, expected, "changes hands: {changes}, history known: {known}");
    }
}

/// What changed between the view of a pass and its end, and is not remembered, is not followed from that view on.
#[test]
fn a_leak_is_not_followed_across_a_gap_between_view_and_end_of_a_pass() {
    for gap in [true, false] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        allocated(store.one(&mut others, this(30_003)));
        allocated(store.one(&mut others, this(30_004)));
        let mut passes = LeakTracker::new(NonZeroU8::new(3).expect("not zero"), INTERVAL);
        assert!(pass(&mut store, &mut ours, &mut passes, NOW).is_empty());
        let now = NOW + INTERVAL;
        let second = seen(&mut store, &mut ours, &mut passes, now);
        change_hands(&mut store, &mut others, 30_003);
        if gap {
            lose_history(&mut store, &mut ours, now);
        }
        let diff = concluded(&mut ours, &mut passes, second, ServiceList::At(store.revision));
        store.one(&mut ours, Operation::Repair(Box::new(diff)));
        let cleared = pass(&mut store, &mut ours, &mut passes, NOW + INTERVAL * 2);
        assert_eq!(cleared, if gap { vec![] } else { vec![4] }, "gap: {gap}");
    }
}

/// A Service that the pass listed may be deleted and its value released before the repair is written.
#[test]
fn a_repair_sets_a_value_only_if_it_is_known_to_have_been_free_since_the_read() {
    for known in [true, false] {
        let (mut store, mut others, mut ours) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut others, Operation::Create);
        ours.keep_history(true);
        let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
        let as_of = allocated(store.one(&mut others, this(30_003)));
        assert_eq!(store.one(&mut others, release(30_003, as_of)), Outcome::Released { freed: true });
        if !known {
            lose_history(&mut store, &mut ours, NOW);
        }
        // The second was free all the time.
        let diff = diff(view.revision, &[3, 5], &[]);
        let (set, changed) = if known { (vec![30_005], 1) } else { (vec![], 2) };
        let expected = Outcome::Repaired(Repaired { set, cleared: vec![], changed });
        assert_eq!(store.one(&mut ours, Operation::Repair(Box::new(diff))), expected, "history known: {known}");
        assert!(!is_set(&store, 3));
    }
}

/// A view says whether the range was ever initialised: otherwise a pass has nothing to compare with.
#[test]
fn a_view_says_whether_the_range_was_initialised() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    let mut initialised = |store: &mut Store| {
        let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
        assert_eq!(view.revision, store.revision);
        view.initialised
    };
    assert!(!initialised(&mut store), "there is no key");
    store.put(RangeAllocation::new(Form::Protobuf).encode());
    assert!(!initialised(&mut store), "no range is stored");
    store.delete();
    store.one(&mut committer("30000-30009", 2), Operation::Create);
    assert!(initialised(&mut store));
    store.delete();
    store.one(&mut committer("30000-30019", 3), Operation::Create);
    assert!(initialised(&mut store), "another range is stored");
}

/// With a single pass there are no counters. A leak that is held starts again when its value was free meanwhile, or
/// nobody knows.
#[test]
fn a_leak_that_is_held_starts_again_with_a_single_pass_too() {
    let one = NonZeroU8::new(1).expect("not zero");
    let (mut store, mut others, mut ours) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut others, Operation::Create);
    let revision = allocated(store.one(&mut others, this(30_003)));
    let mut passes = LeakTracker::new(one, INTERVAL);
    assert!(pass(&mut store, &mut ours, &mut passes, NOW).is_empty(), "it is young");
    // Somebody else gets the value, and then more happens than is remembered.
    store.one(&mut others, release(30_003, revision));
    allocated(store.one(&mut others, this(30_003)));
    let from = ours.watch_from().expect("a leak is held");
    for _ in 0..1600 {
        let revision = allocated(store.one(&mut others, this(30_004)));
        store.one(&mut others, release(30_004, revision));
    }
    store.watch(from, &mut ours);
    assert!(pass(&mut store, &mut ours, &mut passes, NOW + 3 * INTERVAL).is_empty(), "it is another leak");
    assert_eq!(pass(&mut store, &mut ours, &mut passes, NOW + 6 * INTERVAL), [3]);
}

/// 10.96.0.0/29 as Kubernetes 1.33 records it, in a bitmap and in IPAddress objects; 10.96.0.1 is in use. Each Service
/// has the name of its address.
struct DualWrite {
    store: Store,
    others: Shell<CidrRange>,
    ours: Shell<CidrRange>,
    objects: Vec<&'static str>,
    services: Vec<&'static str>,
}

const LOOKS: Duration = Duration::from_secs(60);

impl DualWrite {
    fn new() -> Self {
        let config = Config { strategy: Strategy::RandomScan, grace: LOOKS, replace: Replace::Always };
        let shell = |seed| Shell::new("10.96.0.0/29".parse().expect("a CIDR"), config, seed);
        let (objects, services) = (vec!["10.96.0.1"], vec!["10.96.0.1"]);
        let mut cluster = Self { store: Store::default(), others: shell(1), ours: shell(2), objects, services };
        cluster.store.one(&mut cluster.others, Operation::Create);
        cluster.record("10.96.0.1");
        cluster
    }

    /// Sets the bit of an address.
    fn record(&mut self, address: &str) {
        let wanted = Request::Named(address.parse().expect("an address"));
        let outcome = self.store.one(&mut self.others, Operation::Allocate(vec![wanted]));
        assert!(matches!(outcome, Outcome::Allocated { .. }), "{outcome:?}");
    }

    /// A pass at this time, which also audits a leaked node port; returns the addresses and the ports that are cleared.
    fn pass(&mut self, passes: &mut LeakTracker, now: Duration) -> (Vec<String>, u32) {
        let mut pass = passes.start();
        pass.begin(passes, &mut self.ours).expect("the only range");
        let Outcome::Read(view) = self.store.one(&mut self.ours, Operation::Read) else { panic!("a view") };
        if pass.read(passes, &self.ours, &view, now).expect("begun") {
            self.store.revision += 1;
            pass.fenced(passes, &self.ours, self.store.revision, LOOK).expect("after the read");
        }
        let mut audit = Audit::of_ip_addresses(None);
        let listing = pass.audit(passes, &mut audit).expect("all is read");
        let leak = Stored { range: "30000-30007", data: &[0b10] };
        audit.add_node_ports("30000-30007".parse().expect("ports"), leak).expect("the only ports");
        audit.add_service_cidr("10.96.0.0/29".parse::<ServiceCidr>().expect("a CIDR"), true).expect("objects");
        audit.compare_bitmap(0, BitmapRevisions { written: 1, upgraded: None }).expect("a bitmap of ClusterIPs");
        for name in &self.objects {
            let (parent_resource, parent_namespace, parent_name) = ("services", "ns", *name);
            let object = IpAddressObject {
                name,
                managed_by: ALLOCATOR,
                parent_resource,
                parent_namespace,
                parent_name,
                ..IpAddressObject::default()
            };
            audit.observe_ip_address(&object).expect("objects");
        }
        for name in &self.services {
            audit.observe(&Service { namespace: "ns", name, cluster_ip: name, ..Service::default() });
        }
        let (found, report) = listing.finish(passes, audit).expect("its own audit");
        let diff =
            found.diff(passes, &mut self.ours, ServiceList::Guarding(self.store.revision)).expect("its own range");
        let outcome = self.store.one(&mut self.ours, Operation::Repair(Box::new(diff)));
        let Outcome::Repaired(Repaired { cleared, .. }) = outcome else { panic!("{outcome:?}") };
        let ports = report.bitmap(1).expect("a bitmap").clear().count();
        (cleared.iter().map(ToString::to_string).collect(), ports)
    }
}

/// kubernetes#136475: a stale bit makes the server refuse an address that nothing has. But a server sets the bit before
/// it creates the object.
#[test]
fn a_stale_bit_is_cleared_in_a_second_look_after_a_minute_and_a_leak_is_not() {
    type Event = fn(&mut DualWrite);
    let events: [(&str, Event, Duration, &[&str]); 7] = [
        ("nothing", |_| {}, LOOKS, &["10.96.0.5", "10.96.0.6"]),
        ("nothing", |_| {}, LOOKS - Duration::from_nanos(1), &[]),
        ("nothing", |_| {}, LOOKS / 2, &[]),
        ("its object", |cluster| cluster.objects.push("10.96.0.5"), LOOKS, &["10.96.0.6"]),
        ("its Service", |cluster| cluster.services.push("10.96.0.5"), LOOKS, &["10.96.0.6"]),
        (
            "another request",
            |cluster| {
                let (value, as_of) = ("10.96.0.5".parse().expect("an address"), cluster.store.revision);
                let outcome = cluster
                    .store
                    .one(&mut cluster.others, Operation::Release { value, as_of, oldest: as_of, store: 0 });
                assert_eq!(outcome, Outcome::Released { freed: true });
                cluster.record("10.96.0.5");
            },
            LOOKS,
            &["10.96.0.6"],
        ),
        ("a bit", |cluster| cluster.record("10.96.0.4"), LOOKS, &["10.96.0.5", "10.96.0.6"]),
    ];
    for (about, event, after, cleared) in events {
        let mut cluster = DualWrite::new();
        cluster.record("10.96.0.5");
        cluster.record("10.96.0.6");
        let mut passes = LeakTracker::new(NonZeroU8::new(2).expect("not zero"), LOOKS).keeping_leaks();
        assert_eq!(cluster.pass(&mut passes, NOW), (vec![], 0));
        event(&mut cluster);
        let (addresses, ports) = cluster.pass(&mut passes, NOW + after);
        assert_eq!(addresses, cleared, "{about} in {after:?}");
        assert_eq!(ports, 0, "a leak stays");
    }
}
