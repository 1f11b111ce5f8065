//! The watch, which fills gaps in the history.

use std::time::Duration;

use rangekeeper::commit::{Deferral, Event, Operation, Outcome, Step, StoreRequest};

use crate::store::{NEVER, NOW, Store, allocated, committer, is_set, release, send, service_written, this};

#[test]
fn a_watch_that_cannot_begin_is_not_begun_over_and_over() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    ours.keep_history(true);
    // Other keys were written, and all earlier revisions are compacted.
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
    let as_of = allocated(store.one(&mut ours, this(30_003)));
    ours.keep_history(true);
    let from = ours.watch_from().expect("the history is kept");
    let known = store.key.as_ref().expect("stored").0;
    store.delete();
    store.one(&mut others, Operation::Create);
    // The value has another owner now.
    allocated(store.one(&mut others, this(30_003)));
    store.log.clear();
    allocated(store.one(&mut others, this(30_004)));
    let next = store.key.as_ref().expect("stored").0;
    assert_eq!((next.version, next.create_revision > known.create_revision), (known.version + 1, true));
    store.watch(from, &mut ours);
    store.log.clear();
    let outcome = store.one(&mut ours, release(30_003, as_of));
    assert_eq!(outcome, Outcome::Deferred(Deferral::HistoryMissing));
    assert!(is_set(&store, 3));
}

/// A watch reports all changes while a request has no answer for long: then a read is missing, not the history.
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
    assert_eq!(send(&mut ours, NOW + Duration::from_millis(5050)), StoreRequest::Read);
    allocated(store.one(&mut others, this(30_007)));
    store.watch(from, &mut ours);
    let later = NOW + Duration::from_secs(30);
    ours.unknown(later);
    let finished = store.run(&mut ours, later);
    assert!(finished.contains(&(ticket, Outcome::Released { freed: true })), "{finished:?}");
}

/// The time that a watch has to catch up is not that of the one before, which failed while a request had no answer.
#[test]
fn a_watch_after_one_that_failed_has_its_own_time() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    allocated(store.one(&mut ours, this(30_003)));
    ours.keep_history(true);
    assert!(ours.watch_from().is_some());
    let mut write_twice = |store: &mut Store, values: [u16; 2]| {
        for value in values {
            allocated(store.one(&mut others, this(value)));
        }
    };
    write_twice(&mut store, [30_004, 30_005]);
    let deleted = service_written(&mut store);
    let ticket = ours.submit(release(30_003, deleted), NEVER);
    let request = send(&mut ours, NOW);
    store.perform(request, NOW, &mut ours);
    assert!(matches!(ours.poll(NOW + Duration::from_millis(1)), Step::Wait(_)), "for the watch");
    ours.submit(Operation::Create, NEVER);
    let slow = send(&mut ours, NOW + Duration::from_millis(200));
    ours.watch_failed();
    let _ = ours.poll(NOW + Duration::from_secs(1));
    write_twice(&mut store, [30_006, 30_007]);
    let later = NOW + Duration::from_secs(10);
    store.perform(slow, later, &mut ours);
    let finished = store.run(&mut ours, later);
    assert!(finished.contains(&(ticket, Outcome::Released { freed: true })), "{finished:?}");
}
