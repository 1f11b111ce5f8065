//! Committers: operations in, requests for the store out, its answers in, outcomes out.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::c_char;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::allocator::{AllocateError, BatchError};
use rangekeeper_core::commit::{
    Answer, Change, Committer, Config, Deferral, Failure, Finished, Guard, Header, KeyValue, Known, Listed, Operation,
    Outcome, Request, Step, Ticket,
};

use crate::allocator::{requests, strategy};
use crate::error::{self, rk_error};
use crate::guard::{Array, Buffer, Out, borrow, guard, guard_error, guard_or, reclaim, slice, text};
use crate::handle::Handle;
use crate::range::{ValueRange, rk_range};
use crate::repair_pass::rk_repair_pass;
use crate::result::rk_result;
use crate::value::{Value, rk_value};

/// Serve all requests, or none.
pub const RK_OPERATION_ALLOCATE: u32 = 1;
/// Give a value back.
pub const RK_OPERATION_RELEASE: u32 = 2;
/// Tell what is stored.
pub const RK_OPERATION_READ: u32 = 3;
/// Make the object if it is missing or was never initialised.
pub const RK_OPERATION_CREATE: u32 = 4;

/// Nothing to do until something happens.
pub const RK_STEP_IDLE: u32 = 0;
/// Nothing to send before wait_until, unless something happens.
pub const RK_STEP_WAIT: u32 = 1;
/// Read the key, linearizably.
pub const RK_STEP_READ: u32 = 2;
/// A transaction: if the key is as in guard, put the value that rk_committer_value gives, else read the key.
pub const RK_STEP_SWAP: u32 = 3;
/// A transaction: if the key is as in guard, nothing, else read the key.
pub const RK_STEP_CONFIRM: u32 = 4;

/// The values are the caller's.
pub const RK_OUTCOME_ALLOCATED: u32 = 1;
/// The value is free.
pub const RK_OUTCOME_RELEASED: u32 = 2;
/// The value was not freed; a repair pass has to look at it.
pub const RK_OUTCOME_DEFERRED: u32 = 3;
/// What is stored.
pub const RK_OUTCOME_READ: u32 = 4;
/// The object is there.
pub const RK_OUTCOME_CREATED: u32 = 5;
/// As much of a diff as was still right was applied.
pub const RK_OUTCOME_REPAIRED: u32 = 6;
/// Nothing was changed.
pub const RK_OUTCOME_FAILED: u32 = 7;
/// It may have happened or may yet happen. What it allocated must not be used.
pub const RK_OUTCOME_UNKNOWN: u32 = 8;

/// A committer of any range.
pub(crate) type RangeCommitter = Committer<ValueRange, Xoshiro256PlusPlus>;

/// One stored object and the operations on it: a state machine that does no I/O. May be used from several threads at
/// once.
pub struct rk_committer(Handle<State>);

impl rk_committer {
    /// Works on the committer itself.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut RangeCommitter) -> Result<R, error::Failure>,
    ) -> Result<R, error::Failure> {
        self.0.with(|state| work(&mut state.committer))
    }
}

struct State {
    committer: RangeCommitter,
    /// The value of the swap that is under way.
    value: Vec<u8>,
    /// What has ended and was not fetched yet.
    finished: VecDeque<Finished<ValueRange>>,
}

/// The state of a key in etcd; all 0 if there is no key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_key_state {
    /// The revision of its last change.
    pub mod_revision: u64,
    /// How many changes it has had since it was created, the creation included.
    pub version: u64,
    /// The revision at which it was created.
    pub create_revision: u64,
}

/// An operation to be submitted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_operation {
    /// One of RK_OPERATION_*.
    pub kind: u32,
    /// How many of the values belong to it: for RK_OPERATION_ALLOCATE the requests of a batch, as
    /// rk_allocator_allocate_batch takes them; 1 for RK_OPERATION_RELEASE; else 0.
    pub values: u32,
    /// When it ends at the latest, in nanoseconds by the caller's clock; UINT64_MAX for never.
    pub deadline: u64,
    /// RK_OPERATION_RELEASE: the revision at which the owner stopped having the value, that of the Service's deletion or
    /// update, or for a rollback that of the allocation. The value is freed only if it has been in use without a break
    /// since then.
    pub anchor: u64,
    /// RK_OPERATION_RELEASE: the revision at which the owner was last stored with the value: the Service's before its
    /// deletion or update, or for a rollback that of the allocation. The value is freed only if it has been in use without
    /// a break since then, as far back as the history goes; 0 for all of that.
    pub oldest: u64,
}

/// What the shell is to do next.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_step {
    /// One of RK_STEP_*.
    pub kind: u32,
    /// RK_STEP_WAIT: until when, in nanoseconds by the caller's clock.
    pub wait_until: u64,
    /// RK_STEP_SWAP, RK_STEP_CONFIRM: what the key must be: its mod revision, version and create revision, all three.
    pub guard: rk_key_state,
    /// RK_STEP_SWAP: a further condition of the transaction, if not 0: no key of a Service has a later mod revision than
    /// this (in etcd a compare with a range_end). Only after an rk_committer_submit_repair that is guarded.
    pub services_unchanged_since: u64,
    /// RK_STEP_SWAP: how many bytes rk_committer_value gives.
    pub value_len: usize,
    /// From which revision on the key is to be watched; 0 for not at all. A watch that runs goes on until this is 0.
    pub watch_from: u64,
    /// How many outcomes rk_committer_finished has to give. They should be handed out before the next poll.
    pub finished: usize,
}

/// What is known of the object without asking the store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_known {
    /// The revision of the newest state of the key that was seen; 0 if none was, or there is no key. What is in use in it
    /// can be released from this anchor on.
    pub revision: u64,
    /// How many values were in use; 0 if the object was missing or never initialised.
    pub used: u32,
    /// Whether the object was there and initialised.
    pub initialised: bool,
}

/// How the store answered a request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_answer {
    /// Of the answer's header.
    pub cluster_id: u64,
    /// Of the answer's header.
    pub revision: u64,
    /// Of the answer's header.
    pub raft_term: u64,
    /// Whether the guard held; false for a read.
    pub held: bool,
    /// If the guard did not hold, or for a read: the key; all 0 if there is none.
    pub key: rk_key_state,
    /// What stands under the key.
    pub value: *const u8,
    /// How many bytes.
    pub value_len: usize,
}

/// One change of the key, as a watch tells it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_change {
    /// The key as it was written; for a deletion its revision in mod_revision, and version 0.
    pub key: rk_key_state,
    /// What was written.
    pub value: *const u8,
    /// How many bytes.
    pub value_len: usize,
}

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_finished {
    /// Which one.
    pub ticket: u64,
    /// One of RK_OUTCOME_*.
    pub outcome: u32,
    /// RK_OUTCOME_FAILED: why; else RK_RESULT_OK.
    pub result: rk_result,
    /// RK_OUTCOME_ALLOCATED: the revision of the allocation, the anchor of a rollback. RK_OUTCOME_READ: the revision
    /// that this is the state of.
    pub revision: u64,
    /// RK_OUTCOME_ALLOCATED: until when a Service with the values must be written, in nanoseconds.
    pub use_until: u64,
    /// RK_OUTCOME_RELEASED, _CREATED: whether this operation did it; else it was so already. RK_OUTCOME_READ: whether
    /// the object is there and was initialised. RK_OUTCOME_DEFERRED: whether because more than one Service had the
    /// value; else because what happened since the anchor is not known any more.
    pub yes: bool,
    /// RK_OUTCOME_FAILED of an allocation: which request of the batch. RK_OUTCOME_REPAIRED: how many values were left
    /// alone because they, or Services, had changed, or may have.
    pub number: u32,
    /// RK_OUTCOME_REPAIRED: how many of the values were set.
    pub set: u32,
    /// How many of the values belong to it: RK_OUTCOME_ALLOCATED those, in the order of the requests; RK_OUTCOME_REPAIRED
    /// what was set and then what was cleared, each ascending; RK_OUTCOME_FAILED of an allocation the value that could not
    /// be had, if one was named.
    pub values: usize,
    /// How many of the bytes belong to it: RK_OUTCOME_READ the bitmap in the form of rk_allocator_snapshot,
    /// RK_OUTCOME_FAILED with RK_RESULT_MISMATCHED_RANGE the stored range, with RK_RESULT_INVALID_OBJECT and
    /// RK_RESULT_REFUSED the reason.
    pub bytes: usize,
}

impl From<Guard> for rk_key_state {
    fn from(state: Guard) -> Self {
        let Guard { mod_revision, version, create_revision } = state;
        Self { mod_revision, version, create_revision }
    }
}

impl From<rk_key_state> for Guard {
    fn from(state: rk_key_state) -> Self {
        let rk_key_state { mod_revision, version, create_revision } = state;
        Self { mod_revision, version, create_revision }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn deadline(nanoseconds: u64) -> Duration {
    if nanoseconds == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanoseconds) }
}

/// An outcome in the form that C gets, with its values and bytes.
fn flatten(finished: &Finished<ValueRange>) -> (rk_finished, Cow<'_, [Value]>, Vec<u8>) {
    let mut flat = rk_finished {
        ticket: finished.ticket.0,
        outcome: RK_OUTCOME_UNKNOWN,
        result: rk_result::Ok,
        revision: 0,
        use_until: 0,
        yes: false,
        number: 0,
        set: 0,
        values: 0,
        bytes: 0,
    };
    let (mut own_values, mut bytes) = (Cow::Borrowed(&[][..]), Vec::new());
    match &finished.outcome {
        Outcome::Allocated { values, revision, use_until } => {
            (flat.outcome, flat.revision) = (RK_OUTCOME_ALLOCATED, *revision);
            flat.use_until = nanoseconds(*use_until);
            own_values = Cow::Borrowed(values);
        }
        Outcome::Released { freed } => (flat.outcome, flat.yes) = (RK_OUTCOME_RELEASED, *freed),
        Outcome::Deferred(reason) => {
            (flat.outcome, flat.yes) = (RK_OUTCOME_DEFERRED, *reason == Deferral::Duplicate);
        }
        Outcome::Read(view) => {
            (flat.outcome, flat.revision, flat.yes) = (RK_OUTCOME_READ, view.revision, view.initialised);
            bytes = view.used.snapshot().to_vec();
        }
        Outcome::Created { created } => (flat.outcome, flat.yes) = (RK_OUTCOME_CREATED, *created),
        Outcome::Repaired(repaired) => {
            (flat.outcome, flat.number) = (RK_OUTCOME_REPAIRED, repaired.changed);
            flat.set = repaired.set.len() as u32;
            own_values = Cow::Owned([&repaired.set[..], &repaired.cleared].concat());
        }
        Outcome::Failed(failure) => {
            flat.outcome = RK_OUTCOME_FAILED;
            flat.result = match failure {
                Failure::Allocate(BatchError::Allocate { index, source }) => {
                    flat.number = *index as u32;
                    let (AllocateError::NotInRange { value, .. } | AllocateError::AlreadyAllocated { value }) = source;
                    own_values = Cow::Owned(vec![*value]);
                    (*source).into()
                }
                Failure::Allocate(BatchError::Full { index, source }) => {
                    flat.number = *index as u32;
                    (*source).into()
                }
                Failure::NotInitialised => rk_result::NotInitialised,
                Failure::MismatchedRange { found, .. } => {
                    bytes = found.clone().into_bytes();
                    rk_result::MismatchedRange
                }
                Failure::Unreadable { message } => {
                    bytes = message.clone().into_bytes();
                    rk_result::InvalidObject
                }
                Failure::Refused { message } => {
                    bytes = message.clone().into_bytes();
                    rk_result::Refused
                }
                Failure::StaleList { .. } => rk_result::StaleList,
                Failure::DeadlineExceeded => rk_result::DeadlineExceeded,
                Failure::Cancelled => rk_result::Cancelled,
            };
        }
        Outcome::Unknown => {}
    }
    (flat.values, flat.bytes) = (own_values.len(), bytes.len());
    (flat, own_values, bytes)
}

/// Makes a committer that knows nothing of the store yet.
///
/// strategy is one of RK_STRATEGY_*. grace is the time in nanoseconds in which a Service has to be written once its
/// values are allocated: two intervals of repair, 6 minutes in Kubernetes; a creator that takes longer may lose them.
/// seed starts the generator for choices and back-off. Memory: up to 1 MiB for a /12 beside the object.
///
/// The caller owns *committer and frees it with rk_committer_free; range is not needed any more.
/// RK_RESULT_INVALID_ARGUMENT for an unknown strategy, RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_new(
    range: *const rk_range,
    strategy_number: u32,
    grace: u64,
    seed: u64,
    committer: *mut *mut rk_committer,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (range, out) = unsafe { (borrow(range)?, Out::new(committer)?) };
        let config = Config { strategy: strategy(strategy_number)?, grace: Duration::from_nanos(grace) };
        let generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        let committer = Committer::new(ValueRange(range.0), config, generator);
        let state = State { committer, value: Vec::new(), finished: VecDeque::new() };
        out.give(rk_committer(Handle::new(state)));
        Ok(())
    })
}

/// Frees a committer. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_free(committer: *mut rk_committer) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(committer) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED, and what has not ended never will. The handle
/// must still be freed. To close twice is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_close(committer: *const rk_committer) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(committer)? };
        committer.0.close();
        Ok(())
    })
}

/// Takes n operations on and writes the ticket of each. values are those of all operations, back to back.
///
/// RK_RESULT_INVALID_ARGUMENT for an unknown kind, a value that is none, or a wrong number of values: nothing is taken
/// on then. RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_submit(
    committer: *const rk_committer,
    operations: *const rk_operation,
    n: usize,
    values: *const rk_value,
    values_len: usize,
    tickets: *mut u64,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, operations, mut values, tickets) =
            unsafe { (borrow(committer)?, slice(operations, n)?, slice(values, values_len)?, Array::new(tickets, n)?) };
        let mut all = Vec::with_capacity(n);
        for operation in operations {
            let (own, rest) = values.split_at_checked(operation.values as usize).ok_or(rk_result::InvalidArgument)?;
            values = rest;
            all.push((
                match (operation.kind, own) {
                    (RK_OPERATION_ALLOCATE, own) => {
                        Operation::Allocate(requests(own).map_err(|failure| failure.result)?)
                    }
                    (RK_OPERATION_RELEASE, [value]) => {
                        let (anchor, oldest) = (operation.anchor, operation.oldest);
                        Operation::Release { value: value.try_into()?, anchor, oldest }
                    }
                    (RK_OPERATION_READ, []) => Operation::Read,
                    (RK_OPERATION_CREATE, []) => Operation::Create,
                    _ => return Err(rk_result::InvalidArgument),
                },
                deadline(operation.deadline),
            ));
        }
        if !values.is_empty() {
            return Err(rk_result::InvalidArgument);
        }
        committer.0.with(|state| {
            let submitted = all.into_iter().map(|(operation, deadline)| state.committer.submit(operation, deadline).0);
            tickets.fill(submitted);
            Ok(())
        })
    })
}

/// Takes on the operation that applies what a pass found out about the committer's range, after rk_repair_pass_finish. It is to be
/// submitted even if the pass found nothing: the committer learns from it which values more than one Service claims.
/// It may be submitted again if it has failed. deadline as in rk_operation.
///
/// listed is the revision of the list of Services if they are in the same etcd as the object, else 0. A list from before
/// the pass's read ends the operation with RK_RESULT_STALE_LIST. With is_guarded, nothing is cleared once a Service was
/// written after the list, so that a creator keeps its value even if it took longer than the grace; where Services never
/// rest, leaks stay then.
///
/// A leak that is due, but was first seen less than the grace ago or was handed out by this committer within it, stays
/// and is due again in the next pass; so does one that Services were in the way of. RK_RESULT_INVALID_ARGUMENT with a
/// message in error if the pass has not finished its audit, does not have the committer's range, or a later one has
/// started; RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED (pass, its passes, or committer). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_submit_repair(
    committer: *const rk_committer,
    pass: *const rk_repair_pass,
    listed: u64,
    is_guarded: bool,
    deadline_at: u64,
    ticket: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, || {
            let (committer, pass, ticket) = (borrow(committer)?, borrow(pass)?, Out::new(ticket)?);
            let listed = match listed {
                0 => Listed::Elsewhere,
                _ if is_guarded => Listed::Guarding(listed),
                _ => Listed::At(listed),
            };
            pass.repair(committer, listed, |committer, diff| {
                ticket.write(committer.submit(Operation::Repair(Box::new(diff)), deadline(deadline_at)).0);
            })
        })
    }
}

/// Ends an operation that nobody wants any more; one that has ended is left alone. What it allocates if it takes place
/// nevertheless is released again.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_cancel(committer: *const rk_committer, ticket: u64) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(committer)? };
        committer.0.with(|state| {
            state.committer.cancel(Ticket(ticket));
            Ok(())
        })
    })
}

/// Tells what to do next, at the time now (nanoseconds by a clock that never goes back). A request that it gives must be
/// ended by rk_committer_answered, rk_committer_unknown or rk_committer_refused; until then it gives no other.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_poll(committer: *const rk_committer, now: u64, step: *mut rk_step) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, out) = unsafe { (borrow(committer)?, Out::new(step)?) };
        committer.0.with(|state| {
            let mut step = rk_step {
                kind: RK_STEP_IDLE,
                wait_until: 0,
                guard: rk_key_state::default(),
                services_unchanged_since: 0,
                value_len: 0,
                watch_from: 0,
                finished: 0,
            };
            match state.committer.poll(Duration::from_nanos(now)) {
                Step::Idle => {}
                Step::WaitUntil(until) => (step.kind, step.wait_until) = (RK_STEP_WAIT, nanoseconds(until)),
                Step::Send(Request::Read) => step.kind = RK_STEP_READ,
                Step::Send(Request::Swap { guard, value, services_unchanged_since }) => {
                    (step.kind, step.guard, step.value_len) = (RK_STEP_SWAP, guard.into(), value.len());
                    step.services_unchanged_since = services_unchanged_since.unwrap_or(0);
                    state.committer.reuse(std::mem::replace(&mut state.value, value));
                }
                Step::Send(Request::Confirm { guard }) => (step.kind, step.guard) = (RK_STEP_CONFIRM, guard.into()),
            }
            state.finished.extend(state.committer.take_finished());
            step.watch_from = state.committer.watch_from().unwrap_or(0);
            step.finished = state.finished.len();
            out.write(step);
            Ok(())
        })
    })
}

/// Writes what is known of the object without asking the store: it may be out of date.
///
/// Cost: O(1); after a change by others O(size / 64), some 10 us for a million values. RK_RESULT_NULL_POINTER,
/// RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_known(committer: *const rk_committer, known: *mut rk_known) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, out) = unsafe { (borrow(committer)?, Out::new(known)?) };
        committer.0.with(|state| {
            let Known { revision, used, initialised } = state.committer.known();
            out.write(rk_known { revision, used, initialised });
            Ok(())
        })
    })
}

/// Writes the value that the swap under way puts; buffer by the rule for buffers.
///
/// RK_RESULT_BUFFER_TOO_SMALL, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_value(
    committer: *const rk_committer,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, buffer) = unsafe { (borrow(committer)?, Buffer::new(buffer, capacity, len)?) };
        committer.0.with(|state| buffer.write(&state.value))
    })
}

/// The store has answered the request.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_answered(
    committer: *const rk_committer,
    now: u64,
    answer: *const rk_answer,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, answer, value) = unsafe {
            let answer = borrow(answer)?;
            (borrow(committer)?, answer, slice(answer.value, answer.value_len)?)
        };
        let rk_answer { cluster_id, revision, raft_term, held, key, .. } = *answer;
        committer.0.with(|state| {
            let key = (key.version != 0).then_some(KeyValue { state: key.into(), value });
            let answer = if held { Answer::Held } else { Answer::Current(key) };
            let header = Header { cluster_id, revision, raft_term };
            state.committer.answered(Duration::from_nanos(now), header, answer);
            Ok(())
        })
    })
}

/// It is not known whether the request took place, or will.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_unknown(committer: *const rk_committer, now: u64) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(committer)? };
        committer.0.with(|state| {
            state.committer.unknown(Duration::from_nanos(now));
            Ok(())
        })
    })
}

/// The store refuses the request, and will not carry it out later; reason is its account of it (no space, no permission).
///
/// RK_RESULT_INVALID_UTF8, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_refused(
    committer: *const rk_committer,
    now: u64,
    reason: *const c_char,
    reason_len: usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, reason) = unsafe { (borrow(committer)?, text(reason, reason_len)?) };
        committer.0.with(|state| {
            state.committer.refused(Duration::from_nanos(now), reason);
            Ok(())
        })
    })
}

/// The connection to the store was recreated.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_reconnected(committer: *const rk_committer) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(committer)? };
        committer.0.with(|state| {
            state.committer.reconnected();
            Ok(())
        })
    })
}

/// Tells changes of the key, in their order, as a watch gives them.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_watched(
    committer: *const rk_committer,
    changes: *const rk_change,
    n: usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, changes) = unsafe { (borrow(committer)?, slice(changes, n)?) };
        committer.0.with(|state| {
            for change in changes {
                if change.key.version == 0 {
                    state.committer.watched(Change::Delete { revision: change.key.mod_revision });
                    continue;
                }
                // SAFETY: the caller's promise; see guard.
                let value = unsafe { slice(change.value, change.value_len)? };
                state.committer.watched(Change::Put(KeyValue { state: change.key.into(), value }));
            }
            Ok(())
        })
    })
}

/// The watch cannot tell all changes from watch_from on: they are compacted.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_watch_failed(committer: *const rk_committer) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(committer)? };
        committer.0.with(|state| {
            state.committer.watch_failed();
            Ok(())
        })
    })
}

/// Writes outcomes in the order in which operations ended: as many as there are, and as fit with their values and bytes,
/// which are written back to back. *n tells how many; call again until it is 0.
///
/// RK_RESULT_BUFFER_TOO_SMALL if not even one fits, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_finished(
    committer: *const rk_committer,
    finished: *mut rk_finished,
    capacity: usize,
    values: *mut rk_value,
    values_capacity: usize,
    bytes: *mut u8,
    bytes_capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (committer, finished, values, bytes, n) = unsafe {
            (
                borrow(committer)?,
                Array::new(finished, capacity)?,
                Array::new(values, values_capacity)?,
                Array::new(bytes, bytes_capacity)?,
                Out::new(n)?,
            )
        };
        committer.0.with(|state| {
            state.finished.extend(state.committer.take_finished());
            let (mut all, mut all_values, mut all_bytes) = (Vec::new(), Vec::new(), Vec::new());
            for one in state.finished.iter().take(finished.capacity()) {
                let (flat, own_values, own_bytes) = flatten(one);
                let fits = all_values.len() + own_values.len() <= values.capacity()
                    && all_bytes.len() + own_bytes.len() <= bytes.capacity();
                if !fits {
                    break;
                }
                all.push(flat);
                all_values.extend(own_values.iter().map(|value| value.get()));
                all_bytes.extend(own_bytes);
            }
            if all.is_empty() && !state.finished.is_empty() {
                return Err(rk_result::BufferTooSmall);
            }
            state.finished.drain(..all.len());
            values.fill(all_values);
            bytes.fill(all_bytes);
            n.write(finished.fill(all));
            Ok(())
        })
    })
}
