use std::collections::BTreeSet;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::base::{Base, Content};
use super::super::config::Replace;
use super::super::edit::{Edit, EditKind, Fate};
use super::super::limits::Limits;
use super::super::operation::ServiceList;
use super::super::testing::*;
use super::*;
use crate::ports::PortRange;

/// What is stored after a batch, and its effect.
struct Planning {
    next: Result<Readable<PortRange>, Allocator<PortRange>>,
    effect: Effect,
}

/// What a batch of these operations ends with and changes. `base` is in its third version.
fn evaluate(
    base: &Base<PortRange>,
    changes: &Changes,
    protection: &Protection,
    operations: impl IntoIterator<Item = Operation<PortRange>>,
) -> (Vec<Outcome<PortRange>>, Planning) {
    let Content::Readable(readable) = &base.content else { panic!("{base:?}") };
    let mut plan =
        Plan::new(readable, Context { changes, protection, replace: Replace::Always }, readable.used.clone());
    let operations: Vec<_> = operations.into_iter().zip(0..).map(|(one, ticket)| pending(ticket, one)).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let outcomes = plan.evaluate(&operations, &mut rng).into_iter().map(|planned| match planned {
        Planned::End(outcome) => outcome,
        Planned::Take(offsets) => {
            let values = offsets.into_iter().map(port).collect();
            Outcome::Allocated { values, revision: 0, store: 0, use_until: GRACE }
        }
        Planned::Edit(edited) => Outcome::Edited(edited),
        Planned::View => panic!("no read was planned"),
    });
    let outcomes = outcomes.collect();
    let (next, effect) = plan.finish();
    (outcomes, Planning { next, effect })
}

fn allocated(offsets: &[u32]) -> Outcome<PortRange> {
    let values = offsets.iter().copied().map(port).collect();
    Outcome::Allocated { values, revision: 0, store: 0, use_until: GRACE }
}

fn used(planning: &Planning) -> BTreeSet<u32> {
    planning
        .next
        .as_ref()
        .map_or_else(|used| used.bitmap().iter().collect(), |next| next.used.bitmap().iter().collect())
}

#[test]
fn picks_leave_the_values_that_the_same_allocation_names() {
    let (base, changes) = (base(state(3), &stored([1])), unchanged_since(state(1)));
    let wanted = [Request::Any, Request::Named(port(0)), Request::Any];
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), [Operation::Allocate(wanted.into())]);
    assert_eq!(outcomes, [allocated(&[2, 0, 3])], "in the order of the requests");
    assert_eq!(used(&planning), [0, 1, 2, 3].into());
}

#[test]
fn an_allocation_that_fails_takes_nothing() {
    let (base, changes) = (base(state(3), &stored([7])), unchanged_since(state(1)));
    let failing = [Request::Named(port(5)), Request::Any, Request::Named(port(7))];
    let operations = [Operation::Allocate(failing.into()), take(5), next()];
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), operations);
    let source = AllocateError::AlreadyAllocated { value: port(7) };
    let failure = Failure::Allocate(BatchError::Allocate { index: 2, source });
    assert_eq!(outcomes, [Outcome::Failed(failure), allocated(&[5]), allocated(&[0])]);
    assert_eq!((used(&planning), planning.effect.set), ([0, 5, 7].into(), vec![5, 0]));
}

#[test]
fn an_allocation_that_finds_too_few_values_returns_its_picks() {
    let (base, changes) = (base(state(3), &stored(1..SIZE)), unchanged_since(state(1)));
    let operations = [Operation::Allocate(vec![Request::Any; 2]), next()];
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), operations);
    let failure = Failure::Allocate(BatchError::Full { index: 1, source: Full { range: range() } });
    assert_eq!(outcomes, [Outcome::Failed(failure), allocated(&[0])]);
    assert_eq!(planning.effect.set, [0]);
}

#[test]
fn the_value_that_was_released_last_is_picked_last() {
    let (base, changes) = (base(state(3), &stored(3..SIZE)), unchanged_since(state(1)));
    let mut protection = Protection::new(SIZE, GRACE, Limits { quarantine: 1, ..Limits::default() });
    protection.cleared(&[1, 0], false);
    let (outcomes, _) = evaluate(&base, &changes, &protection, [next(), next(), next()]);
    assert_eq!(outcomes, [allocated(&[2]), allocated(&[1]), allocated(&[0])]);
}

#[test]
fn a_release_frees_only_what_is_known_to_be_the_owners() {
    let base = base(state(3), &stored([1, 2, 3]));
    let mut changes = unchanged_since(state(1));
    changes.advance(state(2), [2]);
    let mut protection = protection();
    protection.duplicated(&[3]);
    let deferred = Outcome::Deferred;
    for (offset, as_of, expected) in [
        (1, 10, Outcome::Released { freed: true }),
        (1, 9, deferred(Deferral::HistoryMissing)),
        (2, 19, Outcome::Released { freed: false }),
        (2, 20, Outcome::Released { freed: true }),
        (3, 20, deferred(Deferral::Duplicate)),
        (4, 9, Outcome::Released { freed: false }),
    ] {
        let freed = expected == Outcome::Released { freed: true };
        let (outcomes, planning) = evaluate(&base, &changes, &protection, [release(offset, as_of)]);
        assert_eq!(outcomes, [expected], "{offset} as of {as_of}");
        assert_eq!(planning.effect.cleared, if freed { vec![offset] } else { Vec::new() }, "{offset} as of {as_of}");
    }
}

#[test]
fn a_repair_leaves_what_changed_after_its_read_or_was_handed_out() {
    let base = base(state(3), &stored([1, 2, 3]));
    let mut changes = unchanged_since(state(1));
    changes.advance(state(2), [2, 5]);
    let mut protection = protection();
    protection.hand_out(3);
    let diff = |read| repair(read, &[4, 5], &[1, 2, 3], ServiceList::Elsewhere);
    let ports = |offsets: &[u32]| offsets.iter().copied().map(port).collect();
    let repaired = |set: &[u32], cleared: &[u32], changed| {
        [Outcome::Repaired(Repaired { set: ports(set), cleared: ports(cleared), changed })]
    };
    for (read, expected) in
        [(20, repaired(&[4, 5], &[1, 2], 1)), (10, repaired(&[4], &[1], 3)), (9, repaired(&[], &[], 5))]
    {
        assert_eq!(evaluate(&base, &changes, &protection, [diff(read)]).0, expected, "read at {read}");
    }
}

#[test]
fn the_oldest_list_of_services_guards_the_clears_of_a_batch() {
    let (base, changes) = (base(state(3), &stored([1, 2])), unchanged_since(state(1)));
    let clear = |offset, listed| repair(10, &[], &[offset], listed);
    let guard =
        |operations: Vec<_>| evaluate(&base, &changes, &protection(), operations).1.effect.services_unchanged_since;
    assert_eq!(guard(vec![clear(1, ServiceList::Guarding(41)), clear(2, ServiceList::Guarding(40))]), Some(40));
    assert_eq!(
        guard(vec![clear(1, ServiceList::Guarding(41)), clear(9, ServiceList::Guarding(40))]),
        Some(41),
        "9 is clear"
    );
    assert_eq!(guard(vec![clear(1, ServiceList::At(41))]), None);
}

#[test]
fn a_range_that_was_never_initialised_is_created_once_and_serves_nothing_before() {
    let base = Base::decode(None, range(), crate::allocator::Strategy::Contiguous);
    let changes = unchanged_since(state(1));
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), [next(), release(1, 10)]);
    assert_eq!(outcomes, [Outcome::Failed(Failure::NotInitialised), Outcome::Failed(Failure::NotInitialised)]);
    assert!(planning.next.is_err(), "nothing is written");
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), [Operation::Create, Operation::Create]);
    assert_eq!(outcomes, [Outcome::Created { created: true }, Outcome::Created { created: false }]);
    assert!(planning.next.is_ok_and(|next| next.range_state == RangeState::Initialised));
}

fn edit(set: &[u32], pick: u32, clear: &[u32]) -> Operation<PortRange> {
    let [set, clear] = [set, clear].map(|offsets| offsets.iter().copied().map(port).collect());
    Operation::Edit(Box::new(Edit {
        kind: EditKind::Change,
        set,
        pick,
        clear,
        in_use: bitmap([]),
        listed: 0,
        since: 0,
        look: Some(LOOK),
    }))
}

/// What an edit frees is allocated by no operation of its batch, and depends with its other changes on the list of
/// Services.
#[test]
fn what_an_edit_frees_is_free_after_the_batch() {
    let (base, changes) = (base(state(3), &stored([0, 1, 2])), unchanged_since(state(1)));
    let operations = [edit(&[5], 0, &[0]), next(), take(5), release(0, 30)];
    let (outcomes, planning) = evaluate(&base, &changes, &protection(), operations);
    let values = vec![(port(5), Fate::Set), (port(0), Fate::Cleared)];
    let taken = Failure::Allocate(BatchError::Allocate {
        index: 0,
        source: AllocateError::AlreadyAllocated { value: port(5) },
    });
    let edited = Outcome::Edited(Edited { revision: 0, is_done: true, values });
    let released = Outcome::Released { freed: false };
    assert_eq!(outcomes, [edited, allocated(&[3]), Outcome::Failed(taken), released]);
    assert_eq!(used(&planning), [1, 2, 3, 5].into());
    let depends = (planning.effect.services_unchanged_since, planning.effect.look, planning.effect.by_hand);
    assert_eq!(depends, (Some(0), Some(LOOK), true));
}

#[test]
fn an_edit_that_changes_nothing_depends_on_nothing() {
    let (base, changes) = (base(state(3), &stored([0])), unchanged_since(state(1)));
    for operation in [edit(&[], 0, &[7]), edit(&[0], 0, &[]), edit(&[5, 0], 0, &[])] {
        let (_, planning) = evaluate(&base, &changes, &protection(), [operation]);
        assert!(
            planning.next.is_err()
                && planning.effect.services_unchanged_since.is_none()
                && planning.effect.look.is_none()
        );
    }
}

/// What this committer has just handed out may be of a Service that is being created.
#[test]
fn an_edit_does_not_free_what_was_just_handed_out() {
    let (base, changes) = (base(state(3), &stored([0])), unchanged_since(state(1)));
    let mut protection = protection();
    protection.hand_out(0);
    let (outcomes, planning) = evaluate(&base, &changes, &protection, [edit(&[], 0, &[0])]);
    let edited = Edited { revision: 0, is_done: false, values: vec![(port(0), Fate::Reallocated)] };
    assert_eq!(outcomes, [Outcome::Edited(edited)]);
    assert!(planning.next.is_err());
}
