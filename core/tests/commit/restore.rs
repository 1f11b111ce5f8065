//! Restores of the store from a backup.

use std::time::Duration;

use rangekeeper::commit::{Deferral, Failure, Operation, Outcome, Repaired, StoreRequest};

use crate::store::{
    NEVER, NOW, Store, allocated, committer, diff, is_set, outcome, release, send, service_written, this,
};

#[test]
fn after_a_restore_old_anchors_tell_nothing_and_new_views_do() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { revision, .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    // The cluster is restored from a backup, in which the value has another owner.
    let old = store.revision;
    store.revision -= 1;
    let before = store.key.as_ref().map(|(_, value)| value.clone()).expect("stored");
    store.put(before);
    store.cluster_id = 8;
    ours.reconnected();
    assert!(matches!(store.one(&mut ours, release(30_003, revision)), Outcome::Deferred(_)));
    // An as-of revision that this store has not reached is one of the other store, too.
    assert!(matches!(store.one(&mut ours, release(30_003, old + 5)), Outcome::Deferred(_)));
    // A repair pass of this store may set and clear at once, whatever revision the other one had.
    let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
    assert!(view.revision <= old);
    let diff = diff(view.revision, &[7], &[9]);
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
            // Others have already written it as often as was lost.
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
            // No answer has reported the last revision that was lost.
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
        // The values that were handed out before are set again, and the values that others have allocated since stay.
        let mut new = committer("30000-30009", 3);
        let own_and_others = if matches!(case, "same revisions" | "more changes than revisions") { 2 } else { 1 };
        for taken in [30_003, 30_007].into_iter().take(own_and_others) {
            let outcome = restored.one(&mut new, this(taken));
            assert!(matches!(outcome, Outcome::Failed(Failure::Allocate(_))), "{case}, {taken}: {outcome:?}");
        }
        assert!(matches!(restored.one(&mut ours, this(30_004)), Outcome::Allocated { .. }), "{case}");
    }
}

/// A restore that cannot be noticed, as docs/commit-protocol.md says: the cluster id and the raft term stay, others
/// have brought the store's revision up to what it was, and nobody had written the key since the backup. A release for
/// a Service that was deleted in the lost time then frees the value, and the Service is back.
#[test]
fn a_restore_that_nothing_tells_of_is_not_noticed() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    let Outcome::Allocated { .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    store.revision += 1; // its Service is written
    let backup = store.revision;
    store.revision += 1; // and deleted
    let as_of = store.revision;
    assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    // The key is as in the backup; other keys were written, were it only leases of nodes.
    store.revision = backup + 20;
    ours.reconnected();
    assert_eq!(store.one(&mut ours, release(30_003, as_of)), Outcome::Released { freed: true });
    // With a new cluster id, as the document advises, it is noticed.
    let Outcome::Allocated { .. } = store.one(&mut ours, this(30_003)) else { panic!("free") };
    let as_of = store.revision;
    store.cluster_id += 1;
    store.revision += 20;
    ours.reconnected();
    assert!(matches!(store.one(&mut ours, release(30_003, as_of)), Outcome::Deferred(_)));
}

/// The restored store is older than the view of a repair that has not been written yet.
#[test]
fn a_repair_of_another_store_changes_nothing() {
    for queued in [true, false] {
        let (mut store, mut ours, mut others) =
            (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
        store.one(&mut ours, Operation::Create);
        let mut restored =
            Store { cluster_id: 8, revision: store.revision, key: store.key.clone(), ..Store::default() };
        // A leak in the one store, and a Service's in the other.
        allocated(store.one(&mut others, this(30_003)));
        allocated(store.one(&mut others, this(30_004)));
        allocated(restored.one(&mut committer("30000-30009", 3), this(30_003)));
        ours.keep_history(true);
        let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
        let diff = diff(view.revision, &[7], &[3]);
        if queued {
            ours.reconnected();
        }
        let ticket = ours.submit(Operation::Repair(Box::new(diff)), NEVER);
        let request = send(&mut ours, NOW);
        assert_eq!(request == StoreRequest::Read, queued);
        restored.perform(request, NOW, &mut ours);
        let nothing = Repaired { set: vec![], cleared: vec![], changed: 2 };
        assert_eq!(restored.run(&mut ours, NOW), [(ticket, Outcome::Repaired(nothing))], "queued: {queued}");
        assert!(is_set(&restored, 3) && !is_set(&restored, 7));
    }
}

/// A release that is submitted while a request is under way waits for a read of its own, though the answer to that
/// request has settled all earlier ones.
#[test]
fn an_anchor_that_comes_while_a_request_is_under_way_is_compared_with_a_later_answer() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    allocated(store.one(&mut ours, this(30_003)));
    ours.reconnected();
    ours.submit(Operation::Read, NEVER);
    let read = send(&mut ours, NOW);
    assert_eq!(read, StoreRequest::Read);
    // The Service of another store, which was further.
    let ticket = ours.submit(release(30_003, store.revision + 5), NEVER);
    store.perform(read, NOW, &mut ours);
    let read = send(&mut ours, NOW);
    assert_eq!(read, StoreRequest::Read);
    store.perform(read, NOW, &mut ours);
    let ended = store.run(&mut ours, NOW);
    assert!(ended.contains(&(ticket, Outcome::Deferred(Deferral::HistoryMissing))), "{ended:?}");
    assert!(is_set(&store, 3));
}

/// After a restore the owner's older revision counts as far back as the restored store is known, not only from the
/// newest revision of the store before on.
#[test]
fn after_a_restore_a_value_that_was_free_meanwhile_is_not_released() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut others, Operation::Create);
    allocated(store.one(&mut others, this(30_003)));
    let oldest = service_written(&mut store);
    // This server knows the store before up to a later revision, and notices that it is another one.
    let before = store.revision;
    store.revision += 100;
    store.one(&mut ours, Operation::Read);
    (store.revision, store.cluster_id) = (before, 8);
    ours.reconnected();
    store.one(&mut ours, Operation::Read);
    // The value is released and allocated again, and a watch reports both to this server. The store reaches the old
    // revision.
    ours.keep_history(true);
    let from = ours.watch_from().expect("wanted");
    let mut new = committer("30000-30009", 3);
    let Outcome::Read(view) = store.one(&mut new, Operation::Read) else { panic!("a view") };
    assert_eq!(store.one(&mut new, release(30_003, view.revision)), Outcome::Released { freed: true });
    allocated(store.one(&mut new, this(30_003)));
    store.watch(from, &mut ours);
    store.revision += 100;
    let as_of = service_written(&mut store);
    let release = Operation::Release { value: 30_003, as_of, oldest, store: 0 };
    assert_eq!(store.one(&mut ours, release), Outcome::Released { freed: false });
}

/// The release comes shortly after the first answer of a restored store, and waits for a request that takes long.
#[test]
fn an_anchor_that_came_right_after_a_restore_is_compared_with_the_store_also_later() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    allocated(store.one(&mut ours, this(30_003)));
    let undone = store.revision + 5;
    store.cluster_id = 8;
    ours.reconnected();
    store.one(&mut ours, Operation::Read);
    ours.submit(Operation::Read, NEVER);
    let confirm = send(&mut ours, NOW);
    let ticket = ours.submit(release(30_003, undone), NEVER);
    let _ = ours.poll(NOW);
    let later = NOW + Duration::from_secs(60);
    store.perform(confirm, later, &mut ours);
    assert_eq!(ours.take_finished().len(), 1);
    assert_eq!(send(&mut ours, later), StoreRequest::Read);
    store.perform(StoreRequest::Read, later, &mut ours);
    assert_eq!(outcome(&mut ours, ticket), Outcome::Deferred(Deferral::HistoryMissing));
}

/// A restored store has a lower revision than a watch had reported before it failed.
#[test]
fn a_restore_is_noticed_by_what_a_watch_had_told() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    let revision = allocated(store.one(&mut ours, this(30_003)));
    let mut restored = Store { revision: store.revision, key: store.key.clone(), ..Store::default() };
    ours.keep_history(true);
    let from = ours.watch_from().expect("wanted");
    ours.submit(Operation::Read, NEVER);
    send(&mut ours, NOW);
    allocated(store.one(&mut others, this(30_007)));
    store.watch(from, &mut ours);
    ours.watch_failed();
    ours.unknown(NOW);
    ours.reconnected();
    let ticket = ours.submit(release(30_003, revision), NEVER);
    let finished = restored.run(&mut ours, NOW);
    assert!(finished.contains(&(ticket, Outcome::Deferred(Deferral::HistoryMissing))), "{finished:?}");
}

/// A committer is closed or its process ends, etcd is put back from a backup, in which the Service of a value is there
/// again, and reaches the old revision. The owner of before has its release carried out by another committer.
#[test]
fn a_release_that_names_a_store_of_another_committer_is_deferred() {
    for case in ["restored", "as it was"] {
        let (mut store, mut before) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut before, Operation::Create);
        let Outcome::Allocated { revision, store: allocated_in, .. } = store.one(&mut before, this(30_003)) else {
            panic!("free")
        };
        let oldest = service_written(&mut store);
        let as_of = service_written(&mut store); // deleted
        let known = before.known().store;
        assert_eq!(known, allocated_in);
        drop(before);
        if case == "restored" {
            store.revision = oldest + 20;
        }
        let mut ours = committer("30000-30009", 2);
        store.one(&mut ours, Operation::Read);
        for (as_of, oldest) in [(revision, revision), (as_of, oldest)] {
            let release = Operation::Release { value: 30_003, as_of, oldest, store: known };
            let deferred = Outcome::Deferred(Deferral::HistoryMissing);
            assert_eq!(store.one(&mut ours, release), deferred, "{case}, as of {as_of}");
        }
        assert!(is_set(&store, 3), "{case}");
        // As of a read there is no store to be mistaken about.
        let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
        assert_eq!(store.one(&mut ours, release(30_003, view.revision)), Outcome::Released { freed: true }, "{case}");
    }
}

/// A request that begins before the first answer may have deleted its Service in a store that nobody has seen.
#[test]
fn a_release_that_names_the_store_before_the_first_answer_is_deferred() {
    let (mut store, mut others) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut others, Operation::Create);
    allocated(store.one(&mut others, this(30_003)));
    let mut ours = committer("30000-30009", 2);
    let release = |as_of, store| Operation::Release { value: 30_003, as_of, oldest: as_of, store };
    let unread = ours.known().store;
    assert_ne!(unread, 0, "that names none");
    let as_of = service_written(&mut store);
    store.revision += 20;
    assert_eq!(store.one(&mut ours, release(as_of, unread)), Outcome::Deferred(Deferral::HistoryMissing));
    let read = ours.known().store;
    let as_of = service_written(&mut store);
    assert_eq!(store.one(&mut ours, release(as_of, read)), Outcome::Released { freed: true });
}
