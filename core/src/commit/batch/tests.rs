use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::config::Replace;
use super::super::operation::ServiceList;
use super::super::testing::*;
use super::*;
use crate::allocator::{AllocateError, BatchError, Strategy};
use crate::ports::PortRange;

fn plan(
    base: &Base<PortRange>,
    memory: &mut Memory<PortRange>,
    operations: impl IntoIterator<Item = Operation<PortRange>>,
) -> Batch<PortRange> {
    let (changes, protection) = (unchanged_since(state(1)), protection());
    let context = Context { changes: &changes, protection: &protection, replace: Replace::Always };
    let operations = operations.into_iter().zip(0..).map(|(one, ticket)| pending(ticket, one)).collect();
    Batch::plan(base, operations, context, memory, &mut Xoshiro256PlusPlus::seed_from_u64(1))
}

fn ends(batch: &Batch<PortRange>, at: usize, expected: &Outcome<PortRange>) -> bool {
    matches!(&batch.entries[at].planned, Planned::End(outcome) if outcome == expected)
}

#[test]
fn a_value_that_a_batch_clears_is_not_allocated_by_it() {
    let base = base(state(3), &stored([5]));
    let batch = plan(&base, &mut Memory::new(), [release(5, 10), take(5)]);
    let source = AllocateError::AlreadyAllocated { value: port(5) };
    assert!(ends(&batch, 0, &Outcome::Released { freed: true }), "{batch:?}");
    assert!(ends(&batch, 1, &Outcome::Failed(BatchError::Allocate { index: 0, source }.into())), "{batch:?}");
    assert_eq!((batch.effect.set, batch.effect.cleared), (vec![], vec![5]));
}

#[test]
fn a_batch_is_written_only_if_it_changes_something() {
    let base = base(state(3), &stored([5]));
    let mut memory = Memory::new();
    let batch = plan(&base, &mut memory, [take(5), release(6, 10), Operation::Read]);
    assert_eq!(batch.request(&mut memory), StoreRequest::Confirm { guard: state(3) });
    let batch = plan(&base, &mut memory, [take(5), take(6)]);
    let (value, guard) = (stored([5, 6]), state(3));
    let swap = StoreRequest::Swap { guard, value, witness: Witness::Put, services_unchanged_since: None, look: None };
    assert_eq!(batch.request(&mut memory), swap);
}

/// The write of a Service depends on it.
#[test]
fn the_witness_is_put_with_values_and_deleted_where_the_range_is_created() {
    let mut memory = Memory::new();
    let stored = base(state(3), &stored([5]));
    assert_eq!(plan(&stored, &mut memory, [take(6), release(5, 30)]).witness(), Witness::Put);
    assert_eq!(plan(&stored, &mut memory, [release(5, 30)]).witness(), Witness::Keep);
    let missing = Base::decode(None, range(), Strategy::Contiguous);
    assert_eq!(plan(&missing, &mut memory, [Operation::Create]).witness(), Witness::Delete);
}

#[test]
fn an_object_that_cannot_be_read_fails_all_and_is_not_written() {
    let base = base(state(3), b"something else");
    let mut memory = Memory::new();
    let repair = repair(30, &[1], &[], ServiceList::Elsewhere);
    let batch = plan(&base, &mut memory, [next(), Operation::Create, Operation::Read, repair]);
    assert_eq!(batch.entries.len(), 4);
    for Entry { planned, .. } in &batch.entries {
        assert!(matches!(planned, Planned::End(Outcome::Failed(Failure::Unreadable { .. }))), "{planned:?}");
    }
    assert_eq!(batch.request(&mut memory), StoreRequest::Confirm { guard: state(3) });
}

#[test]
fn reused_memory_holds_nothing_of_an_earlier_batch() {
    let base = base(state(3), &stored([0]));
    let mut memory = Memory::new();
    memory.keep(Some(Allocator::with_used(range(), Strategy::Contiguous, bitmap([1, 50]))));
    memory.keep_value(stored(0..SIZE));
    let batch = plan(&base, &mut memory, [next()]);
    assert_eq!(batch.value(&mut memory), Some(stored([0, 1])));
}

#[test]
fn a_write_of_a_service_drops_the_clears_that_its_list_guards_and_no_others() {
    let base = base(state(3), &stored([1, 2, 3]));
    let guarded = repair(10, &[7], &[1, 2], ServiceList::Guarding(40));
    let other = repair(10, &[], &[3], ServiceList::At(40));
    let mut batch = plan(&base, &mut Memory::new(), [guarded, other]);
    assert!(batch.lost_list(state(3)));
    assert!(!batch.lost_list(state(4)), "the key has changed");
    batch.drop_clears();
    let left = batch.entries.iter().map(|Entry { pending, .. }| match &pending.operation {
        Operation::Repair(diff) => (pending.dropped, diff.set.count(), diff.clear.count()),
        operation => panic!("{operation:?}"),
    });
    assert_eq!(left.collect::<Vec<_>>(), [(Some(2), 1, 0), (None, 0, 1)]);
    assert!(!plan(&base, &mut Memory::new(), [release(1, 10)]).lost_list(state(3)), "no list is its guard");
}
