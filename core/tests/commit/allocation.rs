//! Allocations: which operations share a compare-and-swap, and which values are picked.

use std::time::Duration;

use rangekeeper::allocator::Strategy;
use rangekeeper::commit::{Config, Failure, Known, Operation, Outcome, Replace, StoreRequest};
use rangekeeper::range_allocation::RangeAllocation;

use crate::store::{NEVER, NOW, Ports, Store, committer, next, release, send, this};

#[test]
fn many_allocations_share_one_swap() {
    let (mut store, mut committer) = (Store::default(), committer("30000-30099", 1));
    assert_eq!(committer.known(), Known { store: committer.known().store, ..Known::default() });
    assert!(matches!(store.one(&mut committer, next()), Outcome::Failed(Failure::NotInitialised)));
    let unread = Known { store: committer.known().store, ..Known::default() };
    assert_eq!(committer.known(), unread);
    assert_eq!(store.one(&mut committer, Operation::Create), Outcome::Created { created: true });
    assert_eq!(committer.known(), Known { revision: store.revision, used: 0, initialised: true, ..unread });
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
    assert_eq!(committer.known(), Known { revision: store.revision, used: 100, initialised: true, ..unread });
    assert!(matches!(store.one(&mut committer, next()), Outcome::Failed(Failure::Allocate(_))));
    let (_, value) = store.key.as_ref().expect("stored");
    let stored = RangeAllocation::decode(value).expect("ours");
    assert_eq!((stored.range.as_str(), stored.data.len()), ("30000-30099", 13));
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
        // A compare-and-swap for each, of which this committer sees the sum.
        for port in (30_010..30_015).chain(30_000..30_005) {
            let as_of = store.revision;
            assert_eq!(store.one(&mut others, release(port, as_of)), Outcome::Released { freed: true });
        }
        assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
        // It knows that the others' were cleared, and of its own also in which order.
        assert_eq!(take(&mut store, &mut ours, 5), [30_015, 30_016, 30_017, 30_018, 30_019]);
        for port in 30_005..30_010 {
            let as_of = store.revision;
            assert_eq!(store.one(&mut ours, release(port, as_of)), Outcome::Released { freed: true });
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
            Config { strategy: Strategy::DynamicBandFirst, grace: Duration::from_secs(360), replace: Replace::Always };
        let range = "30000-30039".parse().expect("a range");
        let mut ours = Ports::new(range, config, seed);
        store.one(&mut ours, Operation::Create);
        assert_eq!(take(&mut store, &mut ours, 24), (30_016..30_040).collect::<Vec<u16>>());
        let free = |store: &mut Store, ours: &mut Ports, port| {
            let as_of = store.revision;
            assert_eq!(store.one(ours, release(port, as_of)), Outcome::Released { freed: true });
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

/// A batch is limited, also if it leaves out what waits for history.
#[test]
fn at_most_4096_operations_share_a_swap() {
    for waits in [false, true] {
        let (mut store, mut ours, mut others) =
            (Store::default(), committer("30000-35999", 1), committer("30000-35999", 2));
        store.one(&mut ours, Operation::Create);
        let as_of = store.revision;
        for port in [30_000, 30_001] {
            assert!(matches!(store.one(&mut others, this(port)), Outcome::Allocated { .. }));
        }
        assert!(matches!(store.one(&mut others, Operation::Read), Outcome::Read(_)));
        if waits {
            ours.submit(release(30_000, as_of), NEVER);
        }
        // The first compare-and-swap is lost to the others.
        ours.submit(next(), NEVER);
        let swap = send(&mut ours, NOW);
        store.perform(swap, NOW, &mut ours);
        for _ in 1..5000 {
            ours.submit(next(), NEVER);
        }
        let mut ended = Vec::new();
        while ended.iter().sum::<usize>() < 5000 {
            let swap = send(&mut ours, NOW);
            assert!(matches!(swap, StoreRequest::Swap { .. }), "{swap:?}");
            store.perform(swap, NOW, &mut ours);
            ended.push(ours.take_finished().len());
        }
        assert_eq!(ended, [4096, 904], "beside a release that waits: {waits}");
        assert_eq!(ours.pending(), usize::from(waits));
    }
}
