//! An operation that has not ended.

use std::time::Duration;

use crate::range::Range;

use super::faults::Fault;
use super::operation::{Failure, Operation, Outcome, Ticket};
use super::request::Guard;

/// For whom an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Caller(Ticket),
    /// The committer itself.
    Own,
    /// A caller whose operation has ended already, with an unknown outcome.
    Nobody,
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Pending<R: Range> {
    pub(super) owner: Owner,
    pub(super) operation: Operation<R>,
    pub(super) deadline: Duration,
    /// A compare-and-swap on this state may have carried it out.
    pub(super) unknown_on: Option<Guard>,
    /// A compare-and-swap may have carried it out at some time: it cannot end as if nothing had been changed.
    pub(super) was_unknown: bool,
    /// How many clears were dropped because Services had been written.
    pub(super) dropped: u32,
    /// The store refused the compare-and-swap on `unknown_on`: how it ends if that was not carried out.
    pub(super) refusal: Option<Outcome<R>>,
    /// It was part of a batch before.
    pub(super) is_retry: bool,
}

impl<R: Range> Pending<R> {
    pub(super) fn new(owner: Owner, operation: Operation<R>, deadline: Duration) -> Self {
        Self {
            owner,
            operation,
            deadline,
            unknown_on: None,
            was_unknown: false,
            dropped: 0,
            refusal: None,
            is_retry: false,
        }
    }

    /// Whether the history has to be known: for clears, and for the view of a pass that counts leaks.
    pub(super) fn needs_history(&self, keeps_history: bool) -> bool {
        match self.operation {
            Operation::Release { .. } => true,
            Operation::Repair(_) => self.owner != Owner::Own,
            Operation::Read => keeps_history,
            Operation::Allocate(_) | Operation::Create => false,
        }
    }

    pub(super) fn is_allocation(&self) -> bool {
        matches!(self.operation, Operation::Allocate(_))
    }

    /// Its outcome if it is given up. `sent` says that a compare-and-swap with it is under way.
    pub(super) fn given_up(&self, sent: bool, failure: Failure<R>) -> Outcome<R> {
        let changes_nothing = matches!(self.operation, Operation::Read);
        let sent = sent && !Fault::FlightForgotten.is_on();
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
    pub(super) fn retry(&mut self, state: Option<Guard>) {
        let trusted =
            self.operation == Operation::Read || (!self.is_allocation() && Fault::UnknownOnlyForAllocations.is_on());
        if let Some(state) = state.filter(|_| !trusted) {
            (self.unknown_on, self.was_unknown) = (Some(state), true);
        }
        self.is_retry = true;
    }
}
