//! An operation that has not ended.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::range::Range;

use super::failure::Failure;
use super::operation::{Operation, Outcome, Ticket};
use super::request::KeyState;

/// For whom an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitter {
    Caller(Ticket),
    /// The committer itself.
    Own,
    /// A caller whose operation has ended already, with an unknown outcome.
    Nobody,
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Pending<R: Range> {
    pub(super) submitter: Submitter,
    pub(super) operation: Operation<R>,
    pub(super) deadline: Duration,
    /// A compare-and-swap on this state may have carried it out.
    pub(super) unknown_on: Option<KeyState>,
    /// A compare-and-swap may have carried it out at some time: it cannot end as if nothing had been changed.
    pub(super) was_unknown: bool,
    /// How many clears were dropped, once the list of Services no longer counted.
    pub(super) dropped: Option<u32>,
    /// The store refused the compare-and-swap on `unknown_on`: how it ends if that was not carried out.
    pub(super) refusal: Option<Outcome<R>>,
    /// It was part of a batch before.
    pub(super) is_retry: bool,
    /// The store was asked for the state that the history of an edit begins with.
    pub(super) has_asked: bool,
}

impl<R: Range> Pending<R> {
    pub(super) fn new(submitter: Submitter, operation: Operation<R>, deadline: Duration) -> Self {
        Self {
            submitter,
            operation,
            deadline,
            unknown_on: None,
            was_unknown: false,
            dropped: None,
            refusal: None,
            is_retry: false,
            has_asked: false,
        }
    }

    /// Whether the history has to be known: for clears, and for the view of a pass that counts leaks.
    pub(super) fn needs_history(&self, keeps_history: bool) -> bool {
        match &self.operation {
            Operation::Release { .. } => true,
            Operation::Edit(edit) => edit.needs_history(),
            Operation::Repair(_) => self.submitter != Submitter::Own,
            Operation::Read => keeps_history,
            Operation::Allocate(_) | Operation::Create => false,
        }
    }

    /// The look on which it depends.
    pub(super) fn look(&self) -> Option<NonZeroU64> {
        match &self.operation {
            Operation::Edit(edit) => edit.look,
            Operation::Repair(diff) => diff.look,
            _ => None,
        }
    }

    /// Its outcome if it is given up. `sent` says that a compare-and-swap with it is under way.
    pub(super) fn given_up(&self, sent: bool, failure: Failure<R>) -> Outcome<R> {
        let changes_nothing = matches!(self.operation, Operation::Read);
        if (sent && !changes_nothing) || self.was_unknown { Outcome::Unknown } else { Outcome::Failed(failure) }
    }

    /// Its outcome if the store refuses it, and says why.
    pub(super) fn refused(&self, message: &str) -> Outcome<R> {
        self.given_up(false, Failure::Refused { message: message.to_owned() })
    }

    /// Its outcome if the store confirms the state on which it was evaluated to `outcome`.
    pub(super) fn ended(&self, outcome: Outcome<R>) -> Outcome<R> {
        match outcome {
            Outcome::Failed(failure) => self.given_up(false, failure),
            outcome => outcome,
        }
    }

    /// Records that it goes into another batch. After an unknown outcome the one on `state` may have carried it out.
    pub(super) fn retry(&mut self, state: Option<KeyState>) {
        if let Some(state) = state.filter(|_| self.operation != Operation::Read) {
            (self.unknown_on, self.was_unknown) = (Some(state), true);
        }
        self.is_retry = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::ServiceList;
    use super::super::testing::*;
    use super::*;
    use crate::ports::PortRange;

    fn changing() -> [Operation<PortRange>; 4] {
        [next(), release(1, 30), Operation::Create, repair(30, &[1], &[], ServiceList::Elsewhere)]
    }

    #[test]
    fn only_releases_repairs_and_reads_for_a_pass_need_history() {
        let needs = |operation, is_kept| pending(0, operation).needs_history(is_kept);
        let repair = || repair(30, &[1], &[], ServiceList::Elsewhere);
        for is_kept in [false, true] {
            assert!(needs(release(1, 30), is_kept) && needs(repair(), is_kept));
            assert!(!needs(next(), is_kept) && !needs(Operation::Create, is_kept));
            assert_eq!(needs(Operation::Read, is_kept), is_kept);
        }
        assert!(
            !Pending::new(Submitter::Own, repair(), Duration::MAX).needs_history(true),
            "it sets lost offsets again"
        );
    }

    #[test]
    fn an_operation_that_may_have_been_written_does_not_end_as_failed() {
        let failed = Outcome::Failed(Failure::Cancelled);
        for operation in changing() {
            let mut pending = pending(0, operation);
            assert_eq!(pending.given_up(false, Failure::Cancelled), failed);
            assert_eq!(pending.given_up(true, Failure::Cancelled), Outcome::Unknown);
            assert_eq!(pending.ended(failed.clone()), failed);
            pending.retry(Some(state(3)));
            assert_eq!(pending.given_up(false, Failure::Cancelled), Outcome::Unknown);
            assert_eq!(pending.refused("no space"), Outcome::Unknown);
            assert_eq!(pending.ended(failed.clone()), Outcome::Unknown);
            let released = Outcome::Released { freed: false };
            assert_eq!(pending.ended(released.clone()), released, "the new answer counts");
        }
        assert_eq!(pending(0, Operation::Read).given_up(true, Failure::Cancelled), failed);
    }

    #[test]
    fn a_retry_records_which_write_has_an_unknown_outcome() {
        for operation in changing() {
            let mut pending = pending(0, operation);
            pending.retry(None);
            assert_eq!((pending.is_retry, pending.unknown_on, pending.was_unknown), (true, None, false));
            pending.retry(Some(state(3)));
            assert_eq!((pending.unknown_on, pending.was_unknown), (Some(state(3)), true));
            pending.retry(None);
            assert_eq!((pending.unknown_on, pending.was_unknown), (Some(state(3)), true));
        }
        let mut read = pending(0, Operation::Read);
        read.retry(Some(state(3)));
        assert_eq!((read.is_retry, read.unknown_on, read.was_unknown), (true, None, false));
    }
}
