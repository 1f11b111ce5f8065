//! What comes out of a committer: steps and outcomes.

use std::collections::VecDeque;
use std::time::Duration;

use rangekeeper_core::allocator::{AllocateError, BatchError};
use rangekeeper_core::commit::{Deferral, Edited, Failure, Finished, Outcome};

use crate::committer_input::rk_key_state;
use crate::edit::fate_number;
use crate::range::ValueRange;
use crate::result::rk_result;
use crate::value::{Value, rk_value};

/// What the caller of a committer does next.
pub type rk_step_kind = u32;
/// Nothing to do until something happens.
pub const RK_STEP_IDLE: rk_step_kind = 0;
/// Nothing to do before the time of data.wait, unless something happens.
pub const RK_STEP_WAIT: rk_step_kind = 1;
/// Read the key, linearizably.
pub const RK_STEP_READ: rk_step_kind = 2;
/// Perform a transaction: if the key is as in data.swap, put the value of rk_committer_value, else read the key.
pub const RK_STEP_SWAP: rk_step_kind = 3;
/// Perform a transaction: if the key is as in data.confirm, do nothing, else read the key.
pub const RK_STEP_CONFIRM: rk_step_kind = 4;
/// Fetch outcomes with rk_committer_finished, and pass them to their callers: data.finished. Operations that these
/// submit before the next poll join the next compare-and-swap.
pub const RK_STEP_FINISHED: rk_step_kind = 5;
/// Watch the key from the revision of data.watch on.
pub const RK_STEP_WATCH: rk_step_kind = 6;
/// End the watch. Report none of its events after that.
pub const RK_STEP_STOP_WATCH: rk_step_kind = 7;
/// Read the key as it was at the revision of data.read_at.
pub const RK_STEP_READ_AT: rk_step_kind = 8;

/// How an operation ended.
pub type rk_outcome = u32;
/// The caller owns the values of data.allocated.
pub const RK_OUTCOME_ALLOCATED: rk_outcome = 1;
/// The value is free: data.released.
pub const RK_OUTCOME_RELEASED: rk_outcome = 2;
/// The value was not freed, and is left to a repair pass: data.deferred.
pub const RK_OUTCOME_DEFERRED: rk_outcome = 3;
/// The object was read: data.read.
pub const RK_OUTCOME_READ: rk_outcome = 4;
/// The object exists: data.created.
pub const RK_OUTCOME_CREATED: rk_outcome = 5;
/// The diff was applied as far as it was still right: data.repaired.
pub const RK_OUTCOME_REPAIRED: rk_outcome = 6;
/// Nothing was changed: data.failed.
pub const RK_OUTCOME_FAILED: rk_outcome = 7;
/// The outcome is unknown: the operation may have taken effect, or may do so later. Values that it may have allocated
/// must not be used.
pub const RK_OUTCOME_UNKNOWN: rk_outcome = 8;
/// The change by hand was made as far as its kind lets it, or not at all: data.edited.
pub const RK_OUTCOME_EDITED: rk_outcome = 9;

/// Why a value was left to a repair pass.
pub type rk_deferral = u32;
/// The history of the value since the as-of revision is unknown.
pub const RK_DEFERRAL_HISTORY_MISSING: rk_deferral = 1;
/// More than one Service had the value in the last repair pass.
pub const RK_DEFERRAL_DUPLICATE: rk_deferral = 2;

/// A step to take.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_step {
    /// What to do.
    pub kind: rk_step_kind,
    /// Data that the kind determines.
    pub data: rk_step_data,
}

/// The data of a step; the kind determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_step_data {
    /// RK_STEP_WAIT.
    pub wait: rk_step_wait,
    /// RK_STEP_SWAP.
    pub swap: rk_step_swap,
    /// RK_STEP_CONFIRM.
    pub confirm: rk_step_confirm,
    /// RK_STEP_FINISHED.
    pub finished: rk_step_finished,
    /// RK_STEP_WATCH.
    pub watch: rk_step_watch,
    /// RK_STEP_READ_AT.
    pub read_at: rk_step_read_at,
    /// Room for a kind that comes later.
    pub reserved: [u64; 8],
}

/// A wait.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_wait {
    /// When it ends, in nanoseconds by the caller's clock.
    pub until: u64,
}

/// What a swap does with the witness.
pub type rk_witness = u32;
/// The transaction leaves the witness (rk_repair_pass_fenced) as it is.
pub const RK_WITNESS_KEEP: rk_witness = 0;
/// It puts the witness, with any value.
pub const RK_WITNESS_PUT: rk_witness = 1;
/// It deletes the witness: it creates the object, in which no value that was allocated before is recorded.
pub const RK_WITNESS_DELETE: rk_witness = 2;

/// A compare-and-swap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_swap {
    /// The state that the key must have, in all three fields.
    pub guard: rk_key_state,
    /// A further condition of the transaction, if not 0: no key of a Service has a later mod revision than this (in
    /// etcd a compare with a range_end).
    pub services_unchanged_since: u64,
    /// A further condition of the transaction, if not 0: the look of this number is there. See rk_repair_pass_fenced.
    pub look: u64,
    /// How many bytes rk_committer_value writes.
    pub value_len: usize,
    /// What becomes of the witness.
    pub witness: rk_witness,
}

/// A confirmation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_confirm {
    /// The state that the key must have, in all three fields.
    pub guard: rk_key_state,
}

/// The sizes of the arrays that rk_committer_finished fills.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_finished {
    /// How many outcomes.
    pub outcomes: usize,
    /// How many values belong to them.
    pub values: usize,
    /// How many bytes belong to them.
    pub bytes: usize,
}

/// A watch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_watch {
    /// The revision of the first change to report.
    pub from: u64,
}

/// A read of the past.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step_read_at {
    /// The revision.
    pub revision: u64,
}

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_finished {
    /// The ticket of the operation.
    pub ticket: u64,
    /// How it ended.
    pub outcome: rk_outcome,
    /// Data that the outcome determines.
    pub data: rk_outcome_data,
}

/// The data of an outcome; rk_finished.outcome determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_outcome_data {
    /// RK_OUTCOME_ALLOCATED.
    pub allocated: rk_allocated,
    /// RK_OUTCOME_RELEASED.
    pub released: rk_released,
    /// RK_OUTCOME_DEFERRED.
    pub deferred: rk_deferred,
    /// RK_OUTCOME_READ.
    pub read: rk_view,
    /// RK_OUTCOME_CREATED.
    pub created: rk_created,
    /// RK_OUTCOME_REPAIRED.
    pub repaired: rk_repaired,
    /// RK_OUTCOME_FAILED.
    pub failed: rk_failed,
    /// RK_OUTCOME_EDITED.
    pub edited: rk_edited,
    /// Room for a kind that comes later.
    pub reserved: [u64; 8],
}

/// An allocation that has taken effect.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_allocated {
    /// How many of the values belong to it, in the order of the requests.
    pub values: usize,
    /// The revision of the allocation: the as-of revision of a rollback.
    pub revision: u64,
    /// Which store that was: that of rk_known then.
    pub store: u32,
    /// The time until which a Service with the values must be written, in nanoseconds by the caller's clock.
    pub use_until: u64,
}

/// A release that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_released {
    /// Whether this operation freed the value. Otherwise it was free already, or has another owner.
    pub freed: bool,
}

/// A release that is left to a repair pass.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_deferred {
    /// Why.
    pub reason: rk_deferral,
}

/// The stored object, as the store confirmed it after the operation was submitted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_view {
    /// The store's revision at which this is the state.
    pub revision: u64,
    /// How many of the bytes belong to it: the values in use, in the form of rk_allocator_snapshot.
    pub bytes: usize,
    /// Whether the object exists and is initialised.
    pub initialised: bool,
}

/// An object that exists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_created {
    /// Whether this operation created it. Otherwise it existed already, for the same range.
    pub created: bool,
}

/// A diff that was applied as far as it was still right.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_repaired {
    /// How many of the values were set, ascending.
    pub set: usize,
    /// How many of the values after these were cleared, ascending.
    pub cleared: usize,
    /// How many values of the diff stay as they are, because they or Services have or may have changed.
    pub changed: u32,
}

/// A change by hand that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_edited {
    /// The revision of the write; if nothing had to be or could be written, that at which it was so.
    pub revision: u64,
    /// How many of the values belong to it, and as many of the bytes, an rk_fate for each: the values to record, in
    /// their order, then those that were picked, then those to free.
    pub values: usize,
    /// Whether all was done that can be. Otherwise nothing was, as one of the values could not be changed; the fates of
    /// the others say what they would have been.
    pub is_done: bool,
}

/// An operation that has failed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_failed {
    /// The reason.
    pub result: rk_result,
    /// Which request of an allocation, or value of an edit, failed; else 0.
    pub request: u32,
    /// How many of the values belong to it: 1, the value that could not be allocated, if the request named one; else 0.
    pub values: usize,
    /// How many of the bytes are the stored range: with RK_RESULT_MISMATCHED_RANGE; else 0.
    pub stored_range: usize,
    /// How many of the bytes after these are the reason: with RK_RESULT_INVALID_OBJECT, RK_RESULT_REFUSED and
    /// RK_RESULT_RANGE_IN_USE; else 0.
    pub reason: usize,
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Outcomes in the form that C gets.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(crate) all: Vec<rk_finished>,
    pub(crate) values: Vec<rk_value>,
    pub(crate) bytes: Vec<u8>,
}

/// A step has no more outcomes once their values and bytes take so much: each read of a /12 has 128 KiB.
const MOST_BYTES: usize = 16 << 20;

impl Outcomes {
    /// Takes the outcomes of one step, at least one if there is any.
    pub(crate) fn first(ended: &mut VecDeque<Finished<ValueRange>>) -> Self {
        let mut outcomes = Self::default();
        while outcomes.bytes.len() + size_of_val(&outcomes.values[..]) < MOST_BYTES
            && let Some(Finished { ticket, outcome }) = ended.pop_front()
        {
            let (outcome, data) = outcomes.add(outcome);
            outcomes.all.push(rk_finished { ticket: ticket.0, outcome, data });
        }
        outcomes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds the values and bytes of an outcome.
    fn add(&mut self, outcome: Outcome<ValueRange>) -> (rk_outcome, rk_outcome_data) {
        match outcome {
            Outcome::Allocated { values, revision, store, use_until } => {
                let use_until = nanoseconds(use_until);
                let allocated = rk_allocated { values: self.add_values(&values), revision, store, use_until };
                (RK_OUTCOME_ALLOCATED, rk_outcome_data { allocated })
            }
            Outcome::Released { freed } => (RK_OUTCOME_RELEASED, rk_outcome_data { released: rk_released { freed } }),
            Outcome::Deferred(deferral) => {
                let reason = match deferral {
                    Deferral::Duplicate => RK_DEFERRAL_DUPLICATE,
                    _ => RK_DEFERRAL_HISTORY_MISSING,
                };
                (RK_OUTCOME_DEFERRED, rk_outcome_data { deferred: rk_deferred { reason } })
            }
            Outcome::Read(view) => {
                let bytes = self.add_bytes(view.used.snapshot());
                let read = rk_view { revision: view.revision, bytes, initialised: view.initialised };
                (RK_OUTCOME_READ, rk_outcome_data { read })
            }
            Outcome::Created { created } => (RK_OUTCOME_CREATED, rk_outcome_data { created: rk_created { created } }),
            Outcome::Repaired(repaired) => {
                let (set, cleared) = (self.add_values(&repaired.set), self.add_values(&repaired.cleared));
                let repaired = rk_repaired { set, cleared, changed: repaired.changed };
                (RK_OUTCOME_REPAIRED, rk_outcome_data { repaired })
            }
            Outcome::Edited(Edited { revision, is_done, values }) => {
                let (values, fates): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                let fates: Vec<u8> = fates.into_iter().map(fate_number).collect();
                self.add_bytes(&fates);
                let edited = rk_edited { revision, values: self.add_values(&values), is_done };
                (RK_OUTCOME_EDITED, rk_outcome_data { edited })
            }
            Outcome::Failed(failure) => (RK_OUTCOME_FAILED, rk_outcome_data { failed: self.add_failure(failure) }),
            // Nothing belongs to it; the bytes are written nevertheless.
            Outcome::Unknown => (RK_OUTCOME_UNKNOWN, rk_outcome_data { allocated: rk_allocated::default() }),
        }
    }

    fn add_values(&mut self, values: &[Value]) -> usize {
        self.values.extend(values.iter().map(|value| value.get()));
        values.len()
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> usize {
        self.bytes.extend_from_slice(bytes);
        bytes.len()
    }

    fn add_failure(&mut self, failure: Failure<ValueRange>) -> rk_failed {
        let mut failed = rk_failed { result: rk_result::Ok, request: 0, values: 0, stored_range: 0, reason: 0 };
        failed.result = match failure {
            Failure::Allocate(BatchError::Allocate { index, source }) => {
                failed.request = index as u32;
                if let AllocateError::NotInRange { value, .. } | AllocateError::AlreadyAllocated { value } = source {
                    failed.values = self.add_values(&[value]);
                }
                source.into()
            }
            Failure::Allocate(BatchError::Full { index, source }) => {
                failed.request = index as u32;
                source.into()
            }
            Failure::NotInitialised => rk_result::NotInitialised,
            Failure::MismatchedRange { found, .. } => {
                failed.stored_range = self.add_bytes(found.as_bytes());
                rk_result::MismatchedRange
            }
            Failure::Unreadable { message } => {
                failed.reason = self.add_bytes(message.as_bytes());
                rk_result::InvalidObject
            }
            Failure::Refused { message } => {
                failed.reason = self.add_bytes(message.as_bytes());
                rk_result::Refused
            }
            failure @ Failure::RangeInUse { .. } => {
                failed.reason = self.add_bytes(failure.to_string().as_bytes());
                rk_result::RangeInUse
            }
            Failure::StaleList { .. } => rk_result::StaleList,
            Failure::ServicesWritten { .. } => rk_result::ServicesWritten,
            Failure::DeadlineExceeded => rk_result::DeadlineExceeded,
            Failure::Cancelled => rk_result::Cancelled,
            _ => rk_result::InvalidArgument,
        };
        failed
    }
}
