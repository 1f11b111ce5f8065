use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::batch::Memory;
use super::super::config::Replace;
use super::super::failure::Failure;
use super::super::limits::Limits;
use super::super::operation::Finished;
use super::super::plan::Context;
use super::super::request::KeyValue;
use super::super::testing::*;
use super::*;
use crate::allocator::Strategy;
use crate::ports::PortRange;

const SENT: Duration = Duration::from_secs(100);

/// The parts that an answer changes. The key is in its third version, with offset 1 in use.
struct Parts {
    queue: Queue<PortRange>,
    history: History<PortRange>,
    protection: Protection,
}

fn parts() -> Parts {
    let limits = Limits::default();
    let (mut history, mut protection) = (History::new(range(), Strategy::Contiguous, limits, 7), protection());
    let header = super::super::request::Header { cluster_id: 1, revision: 30, raft_term: 1 };
    history.adopt(header, Some(KeyValue { state: state(3), value: &stored([1]) }), &mut protection);
    protection.take_lost(&bitmap([1]));
    Parts { queue: Queue::new(limits), history, protection }
}

/// A release that names the store of [`parts`].
fn own_release(offset: u32, as_of: u64) -> Operation<PortRange> {
    Operation::Release { value: port(offset), as_of, oldest: as_of, store: 7 }
}

impl Parts {
    fn batch(&self, operations: Vec<Pending<PortRange>>) -> Batch<PortRange> {
        let changes = unchanged_since(state(1));
        let context = Context { changes: &changes, protection: &self.protection, replace: Replace::Always };
        let base = self.history.base().expect("the key is known");
        Batch::plan(base, operations, context, &mut Memory::new(), &mut Xoshiro256PlusPlus::seed_from_u64(1))
    }

    fn ended(&mut self) -> Vec<(Submitter, Outcome<PortRange>)> {
        let finished = self.queue.take_finished().into_iter();
        finished.map(|Finished { ticket, outcome }| (Submitter::Caller(ticket), outcome)).collect()
    }

    fn waiting(&mut self) -> Vec<Pending<PortRange>> {
        self.queue.take_ready(|_| true)
    }

    /// The store has answered a write of this batch so long after it was sent.
    fn written(&mut self, batch: Batch<PortRange>, took: Duration) {
        let written = Written::new(31, SENT, SENT + took, GRACE);
        written.end(batch, &mut self.queue, &mut self.history, &mut self.protection);
    }
}

#[test]
fn the_grace_of_an_allocation_begins_with_its_request() {
    let mut parts = parts();
    parts.written(parts.batch(vec![pending(0, take(5))]), GRACE / 2);
    let use_until = SENT + GRACE;
    assert_eq!(
        parts.ended(),
        [(caller(0), Outcome::Allocated { values: vec![port(5)], revision: 31, store: 7, use_until })]
    );
    assert!(parts.protection.is_handed_out(5) && parts.queue.is_empty());
}

#[test]
fn an_allocation_whose_answer_comes_late_is_released_and_tried_again() {
    let mut parts = parts();
    parts.written(
        parts.batch(vec![pending(0, take(5)), pending(1, release(1, 30))]),
        GRACE / 2 + Duration::from_nanos(1),
    );
    assert_eq!(parts.ended(), [(caller(1), Outcome::Released { freed: true })], "a release is never late");
    assert!(!parts.protection.is_handed_out(5));
    let waiting = parts.waiting();
    let operations: Vec<_> = waiting.iter().map(|one| (one.submitter, one.operation.clone())).collect();
    assert_eq!(operations, [(caller(0), take(5)), (Submitter::Own, own_release(5, 31))]);
    assert!(waiting[0].was_unknown, "it may find its own value in use");
}

#[test]
fn a_value_that_nobody_waits_for_any_more_is_released() {
    let mut parts = parts();
    let batch = parts.batch(vec![Pending { submitter: Submitter::Nobody, ..pending(0, take(5)) }]);
    parts.written(batch, Duration::ZERO);
    assert!(parts.ended().is_empty() && !parts.protection.is_handed_out(5));
    let waiting = parts.waiting();
    assert_eq!((waiting.len(), waiting[0].submitter, &waiting[0].operation), (1, Submitter::Own, &own_release(5, 31)));
}

#[test]
fn operations_come_back_in_their_order_and_an_unknown_outcome_stays_with_them() {
    for is_unknown in [false, true] {
        let mut parts = parts();
        let nobody = Pending { submitter: Submitter::Nobody, ..pending(1, take(6)) };
        let batch = parts.batch(vec![pending(0, take(5)), nobody, pending(2, Operation::Read)]);
        parts.queue.push(pending(3, Operation::Create));
        put_back(batch, is_unknown, &mut parts.queue);
        let waiting = parts.waiting();
        assert_eq!(waiting.iter().map(|one| one.submitter).collect::<Vec<_>>(), [0, 2, 3].map(caller));
        let unknown_on = waiting.iter().map(|one| one.unknown_on).collect::<Vec<_>>();
        assert_eq!(unknown_on, [is_unknown.then_some(state(3)), None, None], "a read changes nothing");
        assert_eq!(waiting.iter().map(|one| one.is_retry).collect::<Vec<_>>(), [true, true, false]);
    }
}

#[test]
fn a_conflict_drops_clears_only_if_it_was_over_services() {
    for (key, is_over_key, cleared) in [(state(4), true, 1), (state(3), false, 0)] {
        let mut parts = parts();
        let batch = parts.batch(vec![pending(0, repair(30, &[], &[1], ServiceList::Guarding(40)))]);
        assert_eq!(conflict(batch, key, &mut parts.queue), is_over_key);
        let waiting = parts.waiting();
        let Operation::Repair(diff) = &waiting[0].operation else { panic!("{waiting:?}") };
        assert_eq!((diff.clear.count(), waiting[0].dropped), (cleared, (cleared == 0).then_some(1)));
        assert_eq!(waiting[0].unknown_on, None, "the guard did not hold");
    }
}

#[test]
fn a_refused_write_ends_only_after_a_read_of_the_same_state() {
    let refused = || Outcome::Failed(Failure::Refused { message: "no space".to_owned() });
    let mut parts = parts();
    refuse(parts.batch(vec![pending(0, take(5))]), false, "no space", &mut parts.queue);
    assert_eq!(parts.ended(), [(caller(0), refused())], "a confirmation changes nothing");
    for (read, ends) in [(state(3), true), (state(4), false)] {
        refuse(parts.batch(vec![pending(1, take(5))]), true, "no space", &mut parts.queue);
        assert!(parts.ended().is_empty());
        parts.queue.resolve_unknown(Some(read));
        assert_eq!(parts.ended() == [(caller(1), refused())], ends, "{read:?}");
        assert_eq!(parts.waiting().is_empty(), ends, "it may have been written, and is evaluated again");
    }
}

#[test]
fn a_recreated_range_gets_back_what_was_handed_out() {
    let mut parts = parts();
    parts.protection.hand_out(1);
    parts.protection.hand_out(5);
    restore_lost(&parts.history, &mut parts.protection, &mut parts.queue);
    assert!(parts.queue.is_empty(), "nothing is lost");
    for _ in 0..2 {
        parts.protection.recreated();
        restore_lost(&parts.history, &mut parts.protection, &mut parts.queue);
        let waiting = parts.waiting();
        assert_eq!((waiting.len(), waiting[0].submitter), (1, Submitter::Own));
        assert_eq!(waiting[0].operation, repair(30, &[5], &[], ServiceList::Elsewhere));
    }
    let unknown = History::new(range(), Strategy::Contiguous, Limits::default(), 7);
    parts.protection.recreated();
    restore_lost(&unknown, &mut parts.protection, &mut parts.queue);
    assert!(parts.queue.is_empty(), "the range has to be there first");
}
