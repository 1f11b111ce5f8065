//! The request that is under way.

use std::time::Duration;

use crate::range::Range;

use super::batch::Batch;
use super::operation::{Failure, Outcome};
use super::pending::{Owner, Pending};
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
}

impl<R: Range> Flight<R> {
    /// For whom the operations are carried out.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> + '_ {
        self.batch.iter().flat_map(|batch| &batch.entries).map(|entry| entry.pending.owner)
    }

    fn pending(&mut self) -> impl Iterator<Item = &mut Pending<R>> {
        self.batch.iter_mut().flat_map(|batch| &mut batch.entries).map(|entry| &mut entry.pending)
    }

    /// Ends the operation of `owner`, who does not want it any more.
    pub(super) fn cancel(&mut self, owner: Owner) -> Option<Outcome<R>> {
        let is_swap = self.is_swap;
        let pending = self.pending().find(|pending| pending.owner == owner)?;
        pending.owner = Owner::Nobody;
        Some(pending.given_up(is_swap, Failure::Cancelled))
    }

    /// Ends the operations that are over their deadline. Returns the earliest deadline that is yet to come.
    pub(super) fn expire(&mut self, now: Duration, queue: &mut Queue<R>) -> Duration {
        let (is_swap, mut earliest) = (self.is_swap, Duration::MAX);
        for pending in self.pending() {
            if now < pending.deadline {
                earliest = earliest.min(pending.deadline);
            } else {
                queue.end(pending.owner, pending.given_up(is_swap, Failure::DeadlineExceeded));
                pending.owner = Owner::Nobody;
            }
        }
        earliest
    }
}
