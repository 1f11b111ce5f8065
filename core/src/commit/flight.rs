//! The request that is under way.

use std::time::Duration;

use crate::range::Range;

use super::batch::Batch;
use super::failure::Failure;
use super::operation::Outcome;
use super::pending::{Pending, Submitter};
use super::queue::Queue;

#[derive(Clone, Debug)]
pub(super) struct Flight<R: Range> {
    pub(super) sent: Duration,
    /// Operations with lower tickets were submitted before.
    pub(super) asked: u64,
    /// The store was known to have reached this revision.
    pub(super) reached: u64,
    /// The operations that it carries out; `None` for a read.
    pub(super) batch: Option<Batch<R>>,
    /// Whether the batch is written; else it is confirmed.
    pub(super) is_swap: bool,
    /// The revision whose state is read, if it is not the present one.
    pub(super) past: Option<u64>,
}

impl<R: Range> Flight<R> {
    /// For whom the operations are carried out.
    pub(super) fn submitters(&self) -> impl Iterator<Item = Submitter> + '_ {
        self.batch.iter().flat_map(|batch| &batch.entries).map(|entry| entry.pending.submitter)
    }

    fn pending(&mut self) -> impl Iterator<Item = &mut Pending<R>> {
        self.batch.iter_mut().flat_map(|batch| &mut batch.entries).map(|entry| &mut entry.pending)
    }

    /// Ends the operation of `submitter`, which does not want it any more.
    pub(super) fn cancel(&mut self, submitter: Submitter) -> Option<Outcome<R>> {
        let is_swap = self.is_swap;
        let pending = self.pending().find(|pending| pending.submitter == submitter)?;
        pending.submitter = Submitter::Nobody;
        Some(pending.given_up(is_swap, Failure::Cancelled))
    }

    /// Ends the operations that are over their deadline. Returns the earliest deadline that is yet to come.
    pub(super) fn expire(&mut self, now: Duration, queue: &mut Queue<R>) -> Duration {
        let (is_swap, mut earliest) = (self.is_swap, Duration::MAX);
        for pending in self.pending() {
            if now < pending.deadline {
                earliest = earliest.min(pending.deadline);
            } else {
                queue.end(pending.submitter, pending.given_up(is_swap, Failure::DeadlineExceeded));
                pending.submitter = Submitter::Nobody;
            }
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Entry;
    use super::super::limits::Limits;
    use super::super::operation::Operation;
    use super::super::plan::Effect;
    use super::super::plan::Planned;
    use super::super::testing::*;
    use super::*;
    use crate::ports::PortRange;

    fn flight(is_swap: bool, operations: Vec<Pending<PortRange>>) -> Flight<PortRange> {
        let entries = operations.into_iter().map(|pending| Entry { pending, planned: Planned::View }).collect();
        let batch = Batch { state: state(3), entries, next: None, effect: Effect::default() };
        Flight { sent: Duration::ZERO, asked: 0, reached: 0, batch: Some(batch), is_swap, past: None }
    }

    #[test]
    fn a_cancelled_operation_is_unknown_only_if_it_may_be_written() {
        for (is_swap, operation, is_unknown) in
            [(true, next(), true), (true, release(1, 30), true), (true, Operation::Read, false), (false, next(), false)]
        {
            let mut flight = flight(is_swap, vec![pending(0, Operation::Create), pending(1, operation)]);
            let expected = if is_unknown { Outcome::Unknown } else { Outcome::Failed(Failure::Cancelled) };
            assert_eq!(flight.cancel(caller(1)), Some(expected));
            assert_eq!(
                flight.submitters().collect::<Vec<_>>(),
                [caller(0), Submitter::Nobody],
                "it stays part of the batch"
            );
            assert_eq!(flight.cancel(caller(1)), None);
        }
    }

    #[test]
    fn only_overdue_operations_end_and_only_once() {
        let until = |ticket, seconds| Pending { deadline: Duration::from_secs(seconds), ..pending(ticket, next()) };
        let mut flight = flight(true, vec![until(0, 5), until(1, 7), until(2, 6)]);
        let mut queue = Queue::new(Limits::default());
        let mut expire = |seconds| {
            let earliest = flight.expire(Duration::from_secs(seconds), &mut queue);
            (earliest, queue.take_finished().into_iter().map(|one| (one.ticket.0, one.outcome)).collect::<Vec<_>>())
        };
        assert_eq!(expire(4), (Duration::from_secs(5), vec![]));
        assert_eq!(expire(5), (Duration::from_secs(6), vec![(0, Outcome::Unknown)]));
        assert_eq!(expire(6), (Duration::from_secs(7), vec![(2, Outcome::Unknown)]));
        assert_eq!(expire(7), (Duration::MAX, vec![(1, Outcome::Unknown)]));
        assert_eq!(expire(8), (Duration::MAX, vec![]));
    }
}
