//! Changes by hand: on what they depend, and how far back the history of a value is known.

use rangekeeper::allocator::{AllocateError, BatchError, Full};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{Edit, EditKind, Edited, Failure, Fate, Operation, Outcome, StoreRequest};
use rangekeeper::ports::PortRange;

use crate::store::{
    LOOK, NEVER, NOW, Ports, Store, allocated, committer, is_set, release, send, service_written, this,
};

const RANGE: &str = "30000-30009";

/// A store with an initialised range, in which these ports are recorded, and the committer that has recorded them.
fn with_recorded(ports: &[u16]) -> (Store, Ports) {
    let (mut store, mut ours) = (Store::default(), committer(RANGE, 1));
    store.one(&mut ours, Operation::Create);
    ports.iter().for_each(|port| _ = allocated(store.one(&mut ours, this(*port))));
    (store, ours)
}

/// An edit by somebody who has listed Services now; they use these ports.
fn edit(store: &Store, kind: EditKind, in_use: &[u16]) -> Edit<PortRange> {
    let mut used = Bitmap::new(10);
    in_use.iter().for_each(|port| _ = used.insert(u32::from(port - 30_000)));
    let (set, clear) = (Vec::new(), Vec::new());
    Edit { kind, set, pick: 0, clear, in_use: used, listed: store.revision, since: 0, look: Some(LOOK) }
}

fn done(outcome: Outcome<PortRange>) -> Edited<PortRange> {
    let Outcome::Edited(edited) = outcome else { panic!("{outcome:?}") };
    edited
}

fn run(store: &mut Store, ours: &mut Ports, edit: Edit<PortRange>) -> Edited<PortRange> {
    done(store.one(ours, Operation::Edit(Box::new(edit))))
}

#[test]
fn a_change_is_all_or_nothing_and_spares_what_services_use() {
    for (kind, set, clear, in_use, is_done, fates) in [
        (EditKind::Change, 30_001, 30_003, &[][..], true, [Fate::Set, Fate::Cleared]),
        (EditKind::Change, 30_001, 30_003, &[30_003], false, [Fate::Set, Fate::InUse]),
        (EditKind::Change, 30_001, 30_003, &[30_001], false, [Fate::InUse, Fate::Cleared]),
        (EditKind::Change, 30_004, 30_003, &[], false, [Fate::AlreadySet, Fate::Cleared]),
        (EditKind::Change, 30_001, 30_002, &[], true, [Fate::Set, Fate::AlreadyClear]),
        (EditKind::Force, 30_001, 30_003, &[30_001, 30_003], true, [Fate::Set, Fate::Cleared]),
        (EditKind::Force, 30_004, 30_003, &[], false, [Fate::AlreadySet, Fate::Cleared]),
    ] {
        let (mut store, _) = with_recorded(&[30_003, 30_004]);
        let mut ours = committer(RANGE, 2);
        let wanted = Edit { set: vec![set], clear: vec![clear], ..edit(&store, kind, in_use) };
        let found = run(&mut store, &mut ours, wanted);
        let values = vec![(set, fates[0]), (clear, fates[1])];
        assert_eq!(found, Edited { revision: store.revision, is_done, values }, "{kind:?} {set} {clear} {in_use:?}");
        let changes = |fate, offset: u16| {
            is_done && fates.contains(&fate) && is_set(&store, usize::from(offset)) == (fate == Fate::Set)
        };
        assert_eq!(changes(Fate::Set, set - 30_000), is_done && fates.contains(&Fate::Set));
        assert_eq!(is_set(&store, 3), !(is_done && clear == 30_003));
        assert_eq!(store.is_fenced, is_done && fates.contains(&Fate::Cleared), "what is freed is fenced off");
    }
}

#[test]
fn a_dry_run_says_what_an_edit_would_do() {
    let (mut store, _) = with_recorded(&[30_003]);
    let mut ours = committer(RANGE, 2);
    let writes = store.writes;
    let wanted = Edit { set: vec![30_001], clear: vec![30_003], ..edit(&store, EditKind::Change, &[]) };
    let dry = run(&mut store, &mut ours, Edit { look: None, pick: 2, ..wanted.clone() });
    assert_eq!((dry.is_done, store.writes), (true, writes));
    assert_eq!(dry.values, [(30_001, Fate::Set), (30_003, Fate::Cleared)]);
    let done = run(&mut store, &mut ours, wanted);
    assert_eq!((done.values, store.writes), (dry.values, writes + 1));
}

#[test]
fn picks_leave_what_services_use_though_it_is_not_recorded() {
    let (mut store, mut ours) = with_recorded(&[30_000]);
    let in_use = [30_000, 30_001, 30_002, 30_003, 30_004, 30_005];
    let wanted = Edit { pick: 4, ..edit(&store, EditKind::Change, &in_use) };
    let mut ports: Vec<u16> = run(&mut store, &mut ours, wanted).values.into_iter().map(|(port, _)| port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [30_006, 30_007, 30_008, 30_009]);
    let wanted = Edit { pick: 1, ..edit(&store, EditKind::Change, &in_use) };
    let full = Failure::Allocate(BatchError::Full { index: 0, source: Full { range: ours.range() } });
    assert_eq!(store.one(&mut ours, Operation::Edit(Box::new(wanted))), Outcome::Failed(full));
    // A named value that was set with picks that are missing is not set either.
    let wanted = Edit { set: vec![30_001], pick: 1, ..edit(&store, EditKind::Change, &in_use[2..]) };
    let full = Failure::Allocate(BatchError::Full { index: 1, source: Full { range: ours.range() } });
    assert_eq!(store.one(&mut ours, Operation::Edit(Box::new(wanted))), Outcome::Failed(full));
    assert!(!is_set(&store, 1));
}

#[test]
fn a_value_outside_the_range_fails_the_edit() {
    let (mut store, mut ours) = with_recorded(&[]);
    let wanted = Edit { set: vec![30_001], clear: vec![30_010], ..edit(&store, EditKind::Change, &[]) };
    let source = AllocateError::NotInRange { value: 30_010, range: ours.range() };
    let failed = Outcome::Failed(Failure::Allocate(BatchError::Allocate { index: 1, source }));
    assert_eq!(store.one(&mut ours, Operation::Edit(Box::new(wanted))), failed);
}

#[test]
fn an_edit_depends_on_the_list_of_services() {
    let (mut store, mut ours) = with_recorded(&[30_003]);
    for wanted in [
        Edit { clear: vec![30_003], ..edit(&store, EditKind::Force, &[]) },
        Edit { set: vec![30_001], ..edit(&store, EditKind::Change, &[]) },
        Edit { pick: 1, ..edit(&store, EditKind::Change, &[]) },
    ] {
        let listed = wanted.listed;
        store.services_written = service_written(&mut store);
        let writes = store.writes;
        let failed = Outcome::Failed(Failure::ServicesWritten { listed });
        let dry = Edit { look: None, ..wanted.clone() };
        let [dry, late] = [dry, wanted.clone()].map(|edit| ours.submit(Operation::Edit(Box::new(edit)), NEVER));
        let mut ended = store.run(&mut ours, NOW);
        ended.sort_by_key(|(ticket, _)| *ticket);
        let [(one, outcome), other] = ended.as_slice() else { panic!("{ended:?}") };
        assert!(*one == dry && done(outcome.clone()).is_done, "a dry run depends on nothing");
        assert_eq!((other, store.writes), (&(late, failed), writes));
        let again = Edit { listed: store.revision, ..wanted };
        assert!(run(&mut store, &mut ours, again).is_done);
    }
}

#[test]
fn a_list_of_another_history_changes_nothing() {
    let (mut store, mut ours) = with_recorded(&[30_003]);
    let wanted = Edit { clear: vec![30_003], ..edit(&store, EditKind::Force, &[]) };
    store.lacks_look = true;
    let failed = Outcome::Failed(Failure::ServicesWritten { listed: wanted.listed });
    assert_eq!(store.one(&mut ours, Operation::Edit(Box::new(wanted))), failed);
    assert!(is_set(&store, 3));
}

/// A swap depends on one look.
#[test]
fn a_second_look_has_a_swap_of_its_own() {
    let (mut store, mut ours) = with_recorded(&[30_003]);
    let first = Edit { clear: vec![30_003], ..edit(&store, EditKind::Force, &[]) };
    let second = Edit { look: LOOK.checked_add(1), set: vec![30_004], ..edit(&store, EditKind::Force, &[]) };
    let [first, second] = [first, second].map(|edit| ours.submit(Operation::Edit(Box::new(edit)), NEVER));
    let ended = store.run(&mut ours, NOW);
    let [(one, outcome), (other, later)] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!([*one, *other], [first, second]);
    let (one, other) = (done(outcome.clone()), done(later.clone()));
    assert!(one.is_done && other.is_done && one.revision < other.revision);
}

/// The values of a plan: those to set are in use and free, those to clear are recorded and not in use.
#[test]
fn a_plan_is_written_only_if_all_of_it_is_due() {
    for (in_use, is_done, fates) in [
        (&[30_001][..], true, [Fate::Set, Fate::Cleared]),
        (&[], false, [Fate::Unused, Fate::Cleared]),
        (&[30_001, 30_003], false, [Fate::Set, Fate::InUse]),
    ] {
        let (mut store, _) = with_recorded(&[30_003]);
        let mut ours = committer(RANGE, 2);
        let Outcome::Read(view) = store.one(&mut ours, Operation::Read) else { panic!("a view") };
        let wanted = Edit {
            set: vec![30_001],
            clear: vec![30_003],
            since: view.revision,
            ..edit(&store, EditKind::Plan, in_use)
        };
        let found = run(&mut store, &mut ours, wanted);
        assert_eq!(found.values, [(30_001, fates[0]), (30_003, fates[1])]);
        assert_eq!((found.is_done, is_set(&store, 1), is_set(&store, 3)), (is_done, is_done, !is_done));
    }
}

/// What a new committer is asked to free was recorded before it began. It reads the state of that time, and a watch
/// reports what came after.
#[test]
fn the_history_of_an_edit_reaches_back_before_the_committer_began() {
    for (others, expected) in [
        // Nobody has written.
        (&[][..], Fate::Cleared),
        // Others have written other values.
        (&[30_005, 30_006], Fate::Cleared),
        // It was free for a moment.
        (&[30_005, 30_003], Fate::Reallocated),
    ] {
        let (mut store, mut theirs) = with_recorded(&[30_003]);
        let since = store.revision;
        for port in others {
            if *port == 30_003 {
                let freed = Outcome::Released { freed: true };
                assert_eq!(store.one(&mut theirs, release(30_003, since)), freed);
            }
            allocated(store.one(&mut theirs, this(*port)));
        }
        let mut ours = committer(RANGE, 2);
        let clear = vec![30_003, 30_002];
        let wanted = Edit { clear, since, ..edit(&store, EditKind::Undo, &[]) };
        let found = run(&mut store, &mut ours, wanted);
        assert_eq!(found.values, [(30_003, expected), (30_002, Fate::AlreadyClear)], "{others:?}");
        assert_eq!(is_set(&store, 3), expected != Fate::Cleared);
    }
}

#[test]
fn what_is_compacted_or_was_recreated_is_not_known() {
    for recreates in [false, true] {
        let (mut store, mut theirs) = with_recorded(&[30_003]);
        let since = store.revision;
        if recreates {
            store.delete();
            let mut another = committer(RANGE, 3);
            store.one(&mut another, Operation::Create);
            allocated(store.one(&mut another, this(30_003)));
        } else {
            allocated(store.one(&mut theirs, this(30_005)));
            store.compacted = store.revision;
        }
        let mut ours = committer(RANGE, 2);
        let wanted = Edit { clear: vec![30_003], since, ..edit(&store, EditKind::Undo, &[]) };
        let found = run(&mut store, &mut ours, wanted);
        assert_eq!((found.is_done, &found.values[..]), (true, &[(30_003, Fate::Unsure)][..]), "{recreates}");
        assert!(is_set(&store, 3));
    }
}

/// A watch runs already: it ends before the past is read, and another one begins there.
#[test]
fn a_watch_begins_again_at_the_past() {
    let (mut store, mut theirs) = with_recorded(&[30_003]);
    let since = store.revision;
    allocated(store.one(&mut theirs, this(30_005)));
    let mut ours = committer(RANGE, 2);
    ours.keep_history(true);
    assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
    let wanted = Edit { clear: vec![30_003], since, ..edit(&store, EditKind::Undo, &[]) };
    ours.submit(Operation::Edit(Box::new(wanted)), NEVER);
    let request = send(&mut ours, NOW);
    assert_eq!((request.clone(), ours.watch_from()), (StoreRequest::ReadAt { revision: since }, None));
    store.perform(request, NOW, &mut ours);
    assert_eq!(ours.watch_from(), Some(since + 1));
    let ended = store.run(&mut ours, NOW);
    let [(_, outcome)] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!(done(outcome.clone()).values, [(30_003, Fate::Cleared)]);
}

/// A write without an answer may have been carried out: what stands against the edit then may be its own work.
#[test]
fn an_edit_without_an_answer_is_unknown() {
    for is_written in [false, true] {
        let (mut store, _) = with_recorded(&[30_003]);
        let mut ours = committer(RANGE, 2);
        let wanted = Edit { set: vec![30_001], ..edit(&store, EditKind::Change, &[]) };
        let ticket = ours.submit(Operation::Edit(Box::new(wanted)), NEVER);
        for _ in 0..2 {
            let request = send(&mut ours, NOW);
            if matches!(request, StoreRequest::Swap { .. }) {
                if is_written {
                    store.answer(request);
                }
                ours.unknown(NOW);
            } else {
                store.perform(request, NOW, &mut ours);
            }
        }
        let ended = store.run(&mut ours, NOW);
        let [(ended, outcome)] = ended.as_slice() else { panic!("{ended:?}") };
        assert_eq!(*ended, ticket);
        if is_written {
            assert_eq!(*outcome, Outcome::Unknown);
        } else {
            assert!(done(outcome.clone()).is_done);
        }
        assert!(is_set(&store, 1));
    }
}
