//! The watch, which fills gaps in the history.

use std::time::Duration;

use rangekeeper::commit::{Deferral, Event, Operation, Outcome, Request, Step, Ticket};

use crate::store::{NEVER, NOW, Ports, Store, allocated, committer, is_set, outcome, release, send, this};

#[test]
fn a_watch_that_cannot_begin_is_not_begun_over_and_over() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    ours.keep_history(true);
    // The store went on without the key being changed; what was before is compacted.
    store.revision += 100;
    store.one(&mut ours, Operation::Read);
    ours.handle(Event::WatchEnded, NOW);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
    ours.watch_failed();
    assert_eq!(ours.watch_from(), None);
    store.one(&mut ours, Operation::Read);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
}

/// A key that was deleted and recreated may have the version that comes next. A watch that leaves out the deletion then
/// has a gap.
#[test]
fn a_watch_that_leaves_out_a_recreation_has_a_gap() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let anchor = allocated(store.one(&mut ours, this(30_003)));
    ours.keep_history(true);
    let from = ours.watch_from().expect("the history is kept");
    let known = store.key.as_ref().expect("stored").0;
    store.delete();
    store.one(&mut others, Operation::Create);
    // Somebody else has the value now.
    allocated(store.one(&mut others, this(30_003)));
    store.log.clear();
    allocated(store.one(&mut others, this(30_004)));
    let next = store.key.as_ref().expect("stored").0;
    assert_eq!((next.version, next.create_revision > known.create_revision), (known.version + 1, true));
    store.watch(from, &mut ours);
    store.log.clear();
    let outcome = store.one(&mut ours, release(30_003, anchor));
    assert_eq!(outcome, Outcome::Deferred(Deferral::HistoryMissing));
    assert!(is_set(&store, 3));
}

/// A release whose history others' writes have left a gap in, and a watch that tells nothing yet.
fn release_with_a_gap() -> (Store, Ports, Ticket) {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let anchor = allocated(store.one(&mut ours, this(30_003)));
    for port in [30_004, 30_005] {
        allocated(store.one(&mut others, this(port)));
    }
    let ticket = ours.submit(release(30_003, anchor), NEVER);
    let swap = send(&mut ours, NOW);
    store.perform(swap, NOW, &mut ours);
    assert!(ours.watch_from().is_some());
    (store, ours, ticket)
}

#[test]
fn a_release_waits_for_the_watch_and_an_allocation_only_for_a_moment() {
    let (mut store, mut ours, waiting) = release_with_a_gap();
    let first = ours.submit(this(30_006), NEVER);
    let Step::Wait(patient) = ours.poll(NOW) else { panic!("the watch may tell the gap at once") };
    assert!(patient > NOW, "{patient:?}");
    let swap = send(&mut ours, patient);
    assert!(matches!(swap, Request::Swap { .. }), "{swap:?}");
    store.perform(swap, patient, &mut ours);
    assert!(matches!(outcome(&mut ours, first), Outcome::Allocated { .. }));
    assert!(matches!(ours.poll(patient), Step::Wait(_)), "the release waits on");
    // The watch tells at last.
    let ended = store.run(&mut ours, patient);
    assert_eq!(ended, [(waiting, Outcome::Released { freed: true })]);
}

#[test]
fn a_release_is_deferred_if_the_watch_tells_nothing_for_long() {
    let (mut store, mut ours, waiting) = release_with_a_gap();
    let mut now = NOW;
    let mut requests = 0;
    while ours.pending() > 0 && requests < 10 {
        match ours.poll(now) {
            Step::Send(request) => {
                requests += 1;
                store.perform(request, now, &mut ours);
            }
            Step::Wait(until) if until > now => now = until,
            step => panic!("{step:?} at {now:?}, and the release has not ended"),
        }
        assert!(now < NOW + Duration::from_secs(10), "nothing waits for the watch any longer");
    }
    assert_eq!(outcome(&mut ours, waiting), Outcome::Deferred(Deferral::HistoryMissing));
    assert!(now > NOW + Duration::from_secs(1), "the watch had time");
    assert!(is_set(&store, 3));
}

#[test]
fn a_gap_in_the_watch_ends_the_wait_for_it() {
    let (mut store, mut ours, waiting) = release_with_a_gap();
    let from = ours.watch_from().expect("the release waits for it");
    store.log.retain(|(revision, _)| *revision > from);
    store.watch(from, &mut ours);
    let Step::Send(confirm) = ours.poll(NOW) else { panic!("there is nothing to wait for") };
    store.perform(confirm, NOW, &mut ours);
    assert_eq!(outcome(&mut ours, waiting), Outcome::Deferred(Deferral::HistoryMissing));
}

/// A watch tells all while a request has no answer for long: what is missing then is a read, not the history.
#[test]
fn a_request_that_takes_long_does_not_cost_the_history() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let revision = allocated(store.one(&mut ours, this(30_003)));
    ours.keep_history(true);
    let from = ours.watch_from().expect("wanted");
    for value in [30_004, 30_005] {
        allocated(store.one(&mut others, this(value)));
    }
    ours.submit(this(30_006), NEVER);
    let swap = send(&mut ours, NOW);
    store.perform(swap, NOW, &mut ours);
    let ticket = ours.submit(release(30_003, revision), NEVER);
    let waits = NOW + Duration::from_millis(1);
    assert!(matches!(ours.poll(waits), Step::Wait(_)), "for the watch");
    assert_eq!(send(&mut ours, NOW + Duration::from_millis(5050)), Request::Read);
    allocated(store.one(&mut others, this(30_007)));
    store.watch(from, &mut ours);
    let later = NOW + Duration::from_secs(30);
    ours.unknown(later);
    let finished = store.run(&mut ours, later);
    assert!(finished.contains(&(ticket, Outcome::Released { freed: true })), "{finished:?}");
}
