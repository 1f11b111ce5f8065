//! Committers: operations in, requests for the store out, its answers in, outcomes out.

use std::collections::VecDeque;
use std::mem;
use std::num::NonZeroU64;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::commit::{
    Committer, Config, Event, Finished, Known, Outcome, Replace, Step, StoreRequest, Ticket, Witness,
};

use crate::allocator::{self, rk_strategy};
use crate::committer_input::{events, operations, rk_event, rk_operation};
use crate::committer_output::{
    Outcomes, RK_STEP_CONFIRM, RK_STEP_FINISHED, RK_STEP_IDLE, RK_STEP_READ, RK_STEP_READ_AT, RK_STEP_STOP_WATCH,
    RK_STEP_SWAP, RK_STEP_WAIT, RK_STEP_WATCH, RK_WITNESS_DELETE, RK_WITNESS_KEEP, RK_WITNESS_PUT, nanoseconds,
    rk_finished, rk_step, rk_step_confirm, rk_step_data, rk_step_finished, rk_step_read_at, rk_step_swap, rk_step_wait,
    rk_step_watch,
};
use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::range::{self, ValueRange, rk_range};
use crate::result::rk_result;
use crate::scope::{Array, Buffer, Out, borrow, reclaim, slice};
use crate::value::{Value, rk_value};

/// Whether a repair may replace a stored range by another one.
pub type rk_replace = u32;
/// A repair replaces a stored object for another range of the same kind only if no value is recorded in the object and
/// no Service has one; nor does it create a missing object while a Service has a value outside of the configured
/// range. Else it ends with RK_RESULT_RANGE_IN_USE.
pub const RK_REPLACE_IF_UNUSED: rk_replace = 1101;
/// As RK_REPLACE_ALWAYS until the stored range was the configured one once, and then as RK_REPLACE_IF_UNUSED.
pub const RK_REPLACE_ONCE: rk_replace = 1102;
/// A repair always replaces it, as that of kube-apiserver does.
pub const RK_REPLACE_ALWAYS: rk_replace = 1103;

/// A committer of any range.
pub(crate) type RangeCommitter = Committer<ValueRange, Xoshiro256PlusPlus>;

/// One stored object and the operations on it: a state machine that does no I/O.
pub struct rk_committer(Handle<State>);

impl rk_committer {
    /// Works on the committer itself.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut RangeCommitter) -> Result<R, Failure>) -> Result<R, Failure> {
        self.0.with(|state| work(&mut state.committer))
    }
}

struct State {
    committer: RangeCommitter,
    /// The value of the compare-and-swap that is under way.
    swap: Option<Vec<u8>>,
    /// What has ended, and is in no step yet.
    ended: VecDeque<Finished<ValueRange>>,
    /// The outcomes of the step that was not fetched yet.
    finished: Outcomes,
}

impl State {
    fn poll(&mut self, now: Duration) -> rk_step {
        let none = rk_step_data { wait: rk_step_wait { until: 0 } };
        let is_fetched = self.finished.is_empty() && self.ended.is_empty();
        let step = if is_fetched { self.committer.poll(now) } else { Step::Finished(Vec::new()) };
        let (kind, data) = match step {
            Step::Finished(all) => {
                self.ended.extend(all);
                if self.finished.is_empty() {
                    self.finished = Outcomes::first(&mut self.ended);
                }
                let Outcomes { all, values, bytes } = &self.finished;
                let finished = rk_step_finished { outcomes: all.len(), values: values.len(), bytes: bytes.len() };
                (RK_STEP_FINISHED, rk_step_data { finished })
            }
            Step::Watch { from } => (RK_STEP_WATCH, rk_step_data { watch: rk_step_watch { from } }),
            Step::StopWatch => (RK_STEP_STOP_WATCH, none),
            Step::Send(StoreRequest::Read) => (RK_STEP_READ, none),
            Step::Send(StoreRequest::ReadAt { revision }) => {
                (RK_STEP_READ_AT, rk_step_data { read_at: rk_step_read_at { revision } })
            }
            Step::Send(StoreRequest::Confirm { guard }) => {
                (RK_STEP_CONFIRM, rk_step_data { confirm: rk_step_confirm { guard: guard.into() } })
            }
            Step::Send(StoreRequest::Swap { guard, value, witness, services_unchanged_since, look }) => {
                let services_unchanged_since = services_unchanged_since.unwrap_or(0);
                let witness = match witness {
                    Witness::Keep => RK_WITNESS_KEEP,
                    Witness::Put => RK_WITNESS_PUT,
                    Witness::Delete => RK_WITNESS_DELETE,
                };
                let (guard, value_len, look) = (guard.into(), value.len(), look.map_or(0, NonZeroU64::get));
                let swap = rk_step_swap { guard, services_unchanged_since, look, value_len, witness };
                self.swap = Some(value);
                (RK_STEP_SWAP, rk_step_data { swap })
            }
            Step::Wait(until) => (RK_STEP_WAIT, rk_step_data { wait: rk_step_wait { until: nanoseconds(until) } }),
            Step::Idle => (RK_STEP_IDLE, none),
        };
        rk_step { kind, data }
    }

    fn handle(&mut self, event: Event<'_>, now: Duration) {
        let ends_request =
            matches!(event, Event::Answered { .. } | Event::Unknown | Event::Refused(_) | Event::Compacted);
        self.committer.handle(event, now);
        if ends_request && let Some(value) = self.swap.take() {
            self.committer.reuse(value);
        }
    }
}

/// The newest state of the object that the committer has seen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_known {
    /// The revision of that state; 0 if none was seen, or there is no key. A value that is in use in it can be released
    /// as of this revision.
    pub revision: u64,
    /// How many values were in use; 0 if the object was missing or never initialised.
    pub used: u32,
    /// Whether the object existed and was initialised.
    pub initialised: bool,
    /// Which store the committer talks to: a release names it. No other committer has this number, and it is never 0.
    /// It changes with the first answer, too, as a restore before that goes unnoticed: who gives up a value before it,
    /// has its release deferred. So submit an RK_OPERATION_READ first.
    pub store: u32,
    /// How often another store has answered than before, or an older state of it, as after a restore from a backup.
    /// What others remember of the store, such as the watch cache of an API server, is wrong from then on.
    pub restores: u32,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// Creates a committer that knows nothing of the store yet.
///
/// `grace` is the time in nanoseconds in which a Service has to be written once
/// its values are allocated: two intervals of repair, 6 minutes in Kubernetes; a creator that takes longer may lose
/// them. Where the write of a Service has no conditions on the witness (rk_repair_pass_fenced), all programs that share
/// the range must have the same grace: a shorter one takes values from owners who still have time. `seed` starts the
/// generator for choices, back-off and the numbers of stores (rk_known): a random one for each committer. Memory: up to
/// 1 MiB for a /12 beside the object.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_new(
    range: *const rk_range,
    strategy: rk_strategy,
    grace: u64,
    replace: rk_replace,
    seed: u64,
    committer: *mut *mut rk_committer,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (range, out) =
                (range::range(scope, range).named("range")?, Out::new(scope, committer).named("committer")?);
            let config = Config {
                strategy: allocator::strategy(strategy)?,
                grace: Duration::from_nanos(grace),
                replace: self::replace(replace)?,
            };
            let generator = Xoshiro256PlusPlus::seed_from_u64(seed);
            let committer = Committer::new(ValueRange(range), config, generator);
            let state = State { committer, swap: None, ended: VecDeque::new(), finished: Outcomes::default() };
            out.give(rk_committer(Handle::new(state)));
            Ok(())
        })
    }
}

/// What a number stands for.
fn replace(number: rk_replace) -> Result<Replace, Failure> {
    match number {
        RK_REPLACE_IF_UNUSED => Ok(Replace::IfUnused),
        RK_REPLACE_ONCE => Ok(Replace::Once),
        RK_REPLACE_ALWAYS => Ok(Replace::Always),
        _ => Err(Failure::new(
            rk_result::InvalidArgument,
            format_args!("replace {number} is unknown: it is if unused, once or always"),
        )),
    }
}

/// Destroys a committer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_free(committer: *mut rk_committer) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(committer) }))
}

/// Submits `n` operations and writes the ticket of each. `values` are the requests of all allocations, back to
/// back, as rk_allocator_allocate_batch takes them.
///
/// RK_RESULT_INVALID_ARGUMENT also if `values_len` differs from the number of requests. On failure nothing is
/// submitted.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_submit(
    committer: *mut rk_committer,
    submitted: *const rk_operation,
    n: usize,
    values: *const rk_value,
    values_len: usize,
    tickets: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, submitted) =
                (borrow(scope, committer).named("committer")?, slice(scope, submitted, n).named("submitted")?);
            let (values, tickets) =
                (slice(scope, values, values_len).named("values")?, Array::new(scope, tickets, n).named("tickets")?);
            let all = operations(submitted, values)?;
            committer.0.with(|state| {
                let submit = |(operation, deadline)| state.committer.submit(operation, deadline).0;
                tickets.fill(all.into_iter().map(submit));
                Ok(())
            })
        })
    }
}

/// Ends an operation that its caller no longer waits for; one that has ended is left alone. If the operation takes
/// effect nevertheless, the values that it allocates are released again.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_cancel(committer: *mut rk_committer, ticket: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let committer = unsafe { borrow(scope, committer)? };
        committer.0.with(|state| {
            state.committer.cancel(Ticket(ticket));
            Ok(())
        })
    })
}

/// Releases the `n` values of an RK_OUTCOME_ALLOCATED with this `revision` and `store`, whose caller no longer waits
/// for it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_abandon(
    committer: *mut rk_committer,
    revision: u64,
    store: u32,
    values: *const rk_value,
    n: usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, values) = unsafe { (borrow(scope, committer)?, slice(scope, values, n)?) };
        let values = values.iter().map(Value::try_from).collect::<Result<_, _>>()?;
        committer.0.with(|state| {
            state.committer.abandon(Outcome::Allocated { values, revision, store, use_until: Duration::ZERO });
            Ok(())
        })
    })
}

/// Records that the Services for which this committer allocated these `n` values are stored. Until then a value is set
/// again in a store that is restored from a backup. A value of another range or kind is ignored.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_written(
    committer: *mut rk_committer,
    values: *const rk_value,
    n: usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, values) = unsafe { (borrow(scope, committer)?, slice(scope, values, n)?) };
        let values = values.iter().map(Value::try_from).collect::<Result<Vec<_>, _>>()?;
        committer.0.with(|state| {
            values.into_iter().for_each(|value| state.committer.written(value));
            Ok(())
        })
    })
}

/// Writes the step to take at the time `now`, in nanoseconds by a clock that never goes back. Take it and poll
/// again, until the step is to wait or to do nothing; poll also after each call that submits, cancels, abandons or
/// handles something.
///
/// RK_STEP_FINISHED is repeated until the outcomes are fetched. A request (RK_STEP_READ, RK_STEP_READ_AT, RK_STEP_SWAP,
/// RK_STEP_CONFIRM) ends by an event, RK_EVENT_HELD to RK_EVENT_REFUSED, RK_EVENT_PAST or RK_EVENT_COMPACTED; until
/// then there is no other.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_poll(committer: *mut rk_committer, now: u64, step: *mut rk_step) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, out) = unsafe { (borrow(scope, committer)?, Out::new(scope, step)?) };
        committer.0.with(|state| {
            out.write(state.poll(Duration::from_nanos(now)));
            Ok(())
        })
    })
}

/// Reports an event at the time `now`. On failure nothing of it is handled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_handle(
    committer: *mut rk_committer,
    event: *const rk_event,
    now: u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, events) = unsafe { (borrow(scope, committer)?, events(scope, borrow(scope, event)?)?) };
        committer.0.with(|state| {
            events.into_iter().for_each(|event| state.handle(event, Duration::from_nanos(now)));
            Ok(())
        })
    })
}

/// Writes the newest state of the object that the committer has seen. It may be out of date.
///
/// Cost: O(1); after a change by others O(size / 64), some 10 us for a million values.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_known(committer: *const rk_committer, known: *mut rk_known) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, out) = unsafe { (borrow(scope, committer)?, Out::new(scope, known)?) };
        committer.0.with(|state| {
            let Known { revision, used, initialised, store, restores } = state.committer.known();
            out.write(rk_known { revision, used, initialised, store, restores, reserved: [0; 2] });
            Ok(())
        })
    })
}

/// Writes the value that the RK_STEP_SWAP under way stores.
///
/// RK_RESULT_NO_SWAP before such a step, and after the event that ends it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_value(
    committer: *const rk_committer,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, buffer) = unsafe { (borrow(scope, committer)?, Buffer::new(scope, buffer, capacity, len)?) };
        committer.0.with(|state| buffer.write(state.swap.as_ref().ok_or(rk_result::NoSwap)?))
    })
}

/// Writes the outcomes of an RK_STEP_FINISHED, in the order in which the operations ended, and their values and
/// bytes, each back to back; and to `*n` the number of outcomes, 0 if all were fetched before.
///
/// RK_RESULT_BUFFER_TOO_SMALL if one of the capacities is less than the step says: nothing is fetched, and no
/// length is written.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_finished(
    committer: *mut rk_committer,
    finished: *mut rk_finished,
    capacity: usize,
    values: *mut rk_value,
    values_capacity: usize,
    bytes: *mut u8,
    bytes_capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (committer, finished, values, bytes, n) = unsafe {
            (
                borrow(scope, committer)?,
                Array::new(scope, finished, capacity)?,
                Array::new(scope, values, values_capacity)?,
                Array::new(scope, bytes, bytes_capacity)?,
                Out::new(scope, n)?,
            )
        };
        committer.0.with(|state| {
            let outcomes = &state.finished;
            let fits = outcomes.all.len() <= finished.capacity()
                && outcomes.values.len() <= values.capacity()
                && outcomes.bytes.len() <= bytes.capacity();
            if !fits {
                return Err(rk_result::BufferTooSmall);
            }
            let Outcomes { all, values: own_values, bytes: own_bytes } = mem::take(&mut state.finished);
            values.fill(own_values);
            bytes.fill(own_bytes);
            n.write(finished.fill(all));
            Ok(())
        })
    })
}
