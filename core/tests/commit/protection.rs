//! The protection of what this committer handed out: for a grace, its own repair leaves it in use.

use std::time::Duration;

use rangekeeper::commit::{Operation, Outcome, Repaired};

use crate::store::{NEVER, NOW, Ports, Store, committer, diff, is_set, send, this};

const GRACE: Duration = Duration::from_secs(360);

/// Allocates a port at `now`.
fn hand_out(store: &mut Store, ours: &mut Ports, port: u16, now: Duration) {
    ours.submit(this(port), NEVER);
    let ended = store.run(ours, now);
    assert!(
        matches!(&ended[..], [(_, Outcome::Allocated { use_until, .. })] if *use_until == now + GRACE),
        "{ended:?}"
    );
}

/// A repair that clears a port at `now`: the ports that it cleared, and how many it left alone.
fn clear(store: &mut Store, ours: &mut Ports, port: u16, now: Duration) -> (Vec<u16>, u32) {
    ours.submit(Operation::Read, NEVER);
    let Some((_, Outcome::Read(view))) = store.run(ours, now).pop() else { panic!("a view") };
    let diff = diff(view.revision, &[], &[u32::from(port - 30_000)]);
    ours.submit(Operation::Repair(Box::new(diff)), NEVER);
    let Some((_, Outcome::Repaired(Repaired { cleared, changed, .. }))) = store.run(ours, now).pop() else {
        panic!("repaired")
    };
    (cleared, changed)
}

#[test]
fn a_handed_out_value_is_protected_for_a_whole_grace() {
    // The protection is counted in windows: the allocation falls into any part of one.
    for phase in 0..40 {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        let handed_out = NOW + GRACE * phase / 20;
        hand_out(&mut store, &mut ours, 30_003, handed_out);
        for step in 1..10 {
            let _ = ours.poll(handed_out + GRACE * step / 10);
        }
        let last = handed_out + GRACE - Duration::from_millis(1);
        assert_eq!(clear(&mut store, &mut ours, 30_003, last), (vec![], 1), "phase {phase}");
        assert!(ours.is_handed_out(3));
        // And not for ever: after another half, a repair cleans the leak.
        let over = handed_out + GRACE * 3 / 2;
        assert_eq!(clear(&mut store, &mut ours, 30_003, over), (vec![30_003], 0), "phase {phase}");
        assert!(!ours.is_handed_out(3));
    }
}

#[test]
fn a_value_that_was_handed_out_nearly_a_grace_ago_is_set_again_in_a_recreated_range() {
    let (mut store, mut ours, mut others) =
        (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
    store.one(&mut ours, Operation::Create);
    hand_out(&mut store, &mut ours, 30_003, NOW);
    let last = NOW + GRACE - Duration::from_millis(1);
    let _ = ours.poll(last);
    store.delete();
    store.one(&mut others, Operation::Create);
    ours.submit(Operation::Read, NEVER);
    let read = send(&mut ours, last);
    store.perform(read, last, &mut ours);
    store.run(&mut ours, last);
    assert!(is_set(&store, 3));
}
