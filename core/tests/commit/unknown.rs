//! Compare-and-swaps without an answer, late answers, and operations whose caller has gone.

use std::time::Duration;

use rangekeeper::commit::{Operation, Outcome, Step, StoreRequest};

use crate::store::{NEVER, NOW, Ports, Store, committer, next, send, this};

#[test]
fn a_named_value_that_an_unknown_swap_took_is_not_reported_as_taken_by_others() {
    for told_by_watch in [false, true] {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        ours.keep_history(true);
        let ticket = ours.submit(this(30_003), NEVER);
        let StoreRequest::Swap { value, .. } = send(&mut ours, NOW) else { panic!("a compare-and-swap") };
        ours.unknown(NOW);
        if told_by_watch {
            // The read finds the key unchanged; only then does the compare-and-swap take effect, and the watch reports
            // it first.
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

/// A restored store, though its key looks the same, does not show whether the store before wrote a compare-and-swap.
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

/// Submits an operation that has no answer, and returns how long the committer waits after that.
fn wait_after_failure(store: &mut Store, ours: &mut Ports, now: Duration) -> Duration {
    ours.submit(this(30_003), now + Duration::from_secs(1));
    loop {
        match ours.poll(now) {
            Step::Send(StoreRequest::Read) => store.perform(StoreRequest::Read, now, ours),
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
