//! Swaps without an answer, late answers, and operations whose caller has given up.

use std::time::Duration;

use rangekeeper::commit::{Failure, Operation, Outcome, Request, Step};
use rangekeeper::range_allocation::RangeAllocation;

use crate::store::{NEVER, NOW, Ports, Store, allocated, committer, next, outcome, release, send, this};

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

/// Another store says nothing of a swap that went to the one before, though its key looks the same.
#[test]
fn a_swap_without_an_answer_stays_unknown_in_another_store() {
    for written in [true, false] {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        let ticket = ours.submit(this(30_003), NEVER);
        let swap = send(&mut ours, NOW);
        ours.unknown(NOW);
        if written {
            store.answer(swap);
        }
        store.cluster_id = 8;
        let finished = store.run(&mut ours, NOW);
        if written {
            assert_eq!(finished, [(ticket, Outcome::Unknown)]);
        } else {
            assert!(matches!(&finished[..], [(own, Outcome::Allocated { .. })] if *own == ticket), "{finished:?}");
        }
    }
}

/// etcd may have carried out a swap that it refuses.
#[test]
fn what_became_of_a_refused_swap_is_read() {
    for written in [true, false] {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        let ticket = ours.submit(next(), NEVER);
        let swap = send(&mut ours, NOW);
        if written {
            store.answer(swap);
        }
        ours.refused(NOW, "no space");
        assert_eq!(send(&mut ours, NOW), Request::Read);
        ours.unknown(NOW);
        let read = send(&mut ours, NOW);
        assert_eq!(read, Request::Read);
        store.perform(read, NOW, &mut ours);
        if written {
            // What it took is leaked.
            let finished = store.run(&mut ours, NOW);
            assert!(matches!(&finished[..], [(own, Outcome::Allocated { .. })] if *own == ticket), "{finished:?}");
        } else {
            let refused = Outcome::Failed(Failure::Refused { message: "no space".into() });
            assert_eq!(outcome(&mut ours, ticket), refused);
        }
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

/// Submits an operation that has no answer, and returns how long the committer waits after that.
fn wait_after_failure(store: &mut Store, ours: &mut Ports, now: Duration) -> Duration {
    ours.submit(this(30_003), now + Duration::from_secs(1));
    loop {
        match ours.poll(now) {
            Step::Send(Request::Read) => store.perform(Request::Read, now, ours),
            Step::Send(_) => ours.unknown(now),
            Step::Wait(until) => return until - now,
            step => panic!("{step:?}"),
        }
    }
}

/// The longest wait after a failure doubles with each further one in a row; an answer to a batch ends the row.
#[test]
fn the_wait_after_a_failure_is_short_again_after_a_success() {
    let mut longest = Duration::ZERO;
    for seed in 0..32 {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", seed));
        store.one(&mut ours, Operation::Create);
        for minute in 1..12 {
            longest = longest.max(wait_after_failure(&mut store, &mut ours, NOW + Duration::from_mins(minute)));
        }
        ours.submit(next(), NEVER);
        store.run(&mut ours, NOW + Duration::from_mins(12));
        let wait = wait_after_failure(&mut store, &mut ours, NOW + Duration::from_mins(13));
        assert!(wait <= Duration::from_millis(2), "{wait:?}");
    }
    assert!(longest > Duration::from_millis(100), "{longest:?}");
}
