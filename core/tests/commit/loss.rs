//! Deleted, emptied and corrupted keys, and recreated ranges.

use rangekeeper::commit::{Failure, Operation, Outcome, Repaired};
use rangekeeper::range_allocation::{Form, RangeAllocation};

use crate::store::{Ports, Store, committer, diff, is_set, this};

#[test]
fn a_range_that_is_gone_is_not_made_anew_by_a_pass_that_had_seen_it() {
    let ways: [fn(&mut Store); 2] =
        [|store| store.delete(), |store| store.put(RangeAllocation::new(Form::Protobuf).encode())];
    for (way, lose) in ways.into_iter().enumerate() {
        let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
        store.one(&mut ours, Operation::Create);
        assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
        let pass = |store: &mut Store, ours: &mut Ports| {
            let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
            let set = [3].iter().filter(|offset| !view.used.contains(**offset)).copied().collect::<Vec<_>>();
            let diff = diff(view.revision, &set, &[]);
            Operation::Repair(Box::new(diff))
        };
        let seen = pass(&mut store, &mut ours);
        lose(&mut store);
        let lost = store.key.clone();
        ours.reconnected();
        store.one(&mut ours, seen);
        assert_eq!(store.key, lost, "{way}: values in use would be handed out");
        // A pass that has seen that it is gone sets all that Services use.
        let seen = pass(&mut store, &mut ours);
        assert_eq!(
            store.one(&mut ours, seen),
            Outcome::Repaired(Repaired { set: vec![30_003], cleared: vec![], changed: 0 })
        );
        assert!(is_set(&store, 3));
    }
}

#[test]
fn what_was_handed_out_lately_is_set_again_when_the_range_is_made_anew() {
    let empty = RangeAllocation::new(Form::Protobuf).encode();
    let ways: [fn(&mut Store, Vec<u8>); 3] = [
        |store, _| store.delete(),
        // The key stays, and says that it was never initialised.
        |store, empty| store.put(empty),
        |store, _| store.put(b"not a range".to_vec()),
    ];
    for (way, spoil) in ways.into_iter().enumerate() {
        for reported in ["in the end", "by an answer", "by a watch"] {
            let (mut store, mut ours, mut others) =
                (Store::default(), committer("30000-30009", 1), committer("30000-30009", 2));
            store.one(&mut ours, Operation::Create);
            assert!(matches!(store.one(&mut ours, this(30_003)), Outcome::Allocated { .. }));
            ours.keep_history(reported != "by an answer");
            let from = ours.watch_from();
            spoil(&mut store, empty.clone());
            match reported {
                "by an answer" => drop(store.one(&mut ours, Operation::Read)),
                "by a watch" => store.watch(from.expect("history is kept"), &mut ours),
                _ => {}
            }
            if way == 2 {
                // Nobody overwrites what cannot be read, but a person.
                store.put(empty.clone());
            }
            assert_eq!(store.one(&mut others, Operation::Create), Outcome::Created { created: true });
            if reported == "by a watch" {
                store.watch(from.expect("history is kept"), &mut ours);
            }
            let again = store.one(&mut ours, this(30_003));
            assert!(matches!(again, Outcome::Failed(Failure::Allocate(_))), "{way}, reported {reported}: {again:?}");
            assert!(matches!(store.one(&mut others, this(30_003)), Outcome::Failed(Failure::Allocate(_))));
        }
    }
}
