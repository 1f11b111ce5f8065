//! Sidecars, which decide the outcome of a swap without an answer.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::Strategy;
use rangekeeper::commit::{Answer, Committer, Config, Failure, Operation, Outcome, Request, SidecarPut, Ticket};
use rangekeeper::ports::PortRange;

use crate::store::{NEVER, NOW, Ports, Store, is_set, next, outcome, release, send, this};

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
