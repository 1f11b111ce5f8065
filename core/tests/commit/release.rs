//! Releases: which values are freed, and since which revision they have to be in use.

use std::time::Duration;

use rangekeeper::allocator::Request;
use rangekeeper::commit::{Deferral, Diff, Failure, Operation, Outcome, Repaired, StoreRequest};

use crate::store::{
    NEVER, NOW, Ports, Store, allocated, committer, diff, is_set, outcome, release, send, service_written, this,
};

#[test]
fn a_value_is_freed_once_and_only_by_its_owner() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { revision, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    assert_eq!(store.one(&mut others, release(30_003, revision)), Outcome::Released { freed: true });
    let Outcome::Allocated { .. } = store.one(&mut others, this(30_003)) else { panic!("free again") };
    // The first owner's release comes late: the value has another owner by now.
    let late = store.one(&mut ours, release(30_003, revision));
    assert_eq!(late, Outcome::Released { freed: false });
    assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Failed(Failure::Allocate(_))));
    store.delete();
    assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Failed(Failure::NotInitialised)));
}

/// The drop-in's usual case: the Service is deleted after the last answer. If the compare-and-swap holds, the key has
/// not changed since.
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
    let as_of = service_written(&mut store);
    let ticket = ours.submit(Operation::Release { value: 30_003, as_of, oldest, store: 0 }, NEVER);
    let request = send(&mut ours, now);
    assert!(matches!(request, StoreRequest::Swap { .. }), "{request:?}");
    store.perform(request, now, &mut ours);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Released { freed: true });
    // Right after a reconnection it may be about a Service of another store: a read comes first.
    ours.reconnected();
    ours.submit(Operation::Read, NEVER);
    store.run(&mut ours, now);
    let as_of = service_written(&mut store);
    ours.submit(Operation::Release { value: 30_004, as_of, oldest, store: 0 }, NEVER);
    assert_eq!(send(&mut ours, now), StoreRequest::Read);
}

/// Another server of the cluster let two Services have a value: X, and Y that got it later. X's deletion keeps Y's
/// value.
#[test]
fn a_value_that_was_free_since_its_owner_was_stored_is_not_released() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let allocation = allocated(store.one(&mut ours, this(30_003)));
    let oldest = service_written(&mut store);
    assert_eq!(store.one(&mut others, release(30_003, allocation)), Outcome::Released { freed: true });
    allocated(store.one(&mut others, this(30_003)));
    let as_of = service_written(&mut store);
    // Its own history has the break, though the value has been in use since the as-of revision.
    assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    let owned = Operation::Release { value: 30_003, as_of, oldest, store: 0 };
    assert_eq!(store.one(&mut ours, owned.clone()), Outcome::Released { freed: false });
    // A server whose history does not go back as far goes by the as-of revision.
    assert_eq!(store.one(&mut committer("30000-30009", 3), owned), Outcome::Released { freed: true });
}

/// The history of a value is forgotten after so many changes, or revisions: then a release as of an older revision is
/// deferred.
#[test]
fn an_anchor_older_than_what_is_remembered_frees_nothing() {
    // One change in each revision, and many in each.
    for (range, together) in [("30000-30009", 1), ("30000-34999", 4_000)] {
        let (mut store, mut ours) = (Store::default(), committer(range, 1));
        store.one(&mut ours, Operation::Create);
        let Outcome::Allocated { revision: as_of, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
        // Its owner releases it, and another one gets it.
        assert_eq!(store.one(&mut ours, release(30_003, as_of)), Outcome::Released { freed: true });
        let Outcome::Allocated { revision: newer, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
        assert_eq!(store.one(&mut ours, release(30_003, as_of)), Outcome::Released { freed: false });
        let mut changes = 0;
        while changes <= 30_000 {
            let taken = store.one(&mut ours, Operation::Allocate(vec![Request::Any; together]));
            let Outcome::Allocated { values, revision, .. } = taken else { panic!("{taken:?}") };
            changes += 2 * values.len();
            for value in values {
                ours.submit(release(value, revision), NEVER);
            }
            let ended = store.run(&mut ours, NOW);
            assert!(ended.iter().all(|(_, outcome)| *outcome == Outcome::Released { freed: true }));
        }
        for as_of in [as_of, newer] {
            let outcome = store.one(&mut ours, release(30_003, as_of));
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
        let diff = Diff { duplicates, ..diff(view.revision, &[], &[]) };
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
