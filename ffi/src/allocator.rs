//! Allocators: one range, its bitmap, a strategy and a generator behind one lock.

use std::ffi::c_char;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::allocator::{AllocateError, Allocator, BatchError, Full, Request, RestoreError, Strategy};

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::range::{self, ValueRange, rk_range};
use crate::result::rk_result;
use crate::scope::{Array, Buffer, Out, borrow, reclaim, slice, text};
use crate::value::{RK_VALUE_KIND_ANY, Value, rk_value};

/// How an allocator picks free values.
pub type rk_strategy = u32;
/// Picks the lowest free value.
pub const RK_STRATEGY_CONTIGUOUS: rk_strategy = 1001;
/// Picks the first free value from a random offset on, with wrap.
pub const RK_STRATEGY_RANDOM_SCAN: rk_strategy = 1002;
/// Picks as RK_STRATEGY_RANDOM_SCAN in the dynamic band; in the static band only if the dynamic band is full.
pub const RK_STRATEGY_DYNAMIC_BAND_FIRST: rk_strategy = 1003;

/// Records which values of a range are in use, and picks free ones.
pub struct rk_allocator(Handle<AllocatorState>);

struct AllocatorState {
    allocator: Allocator<ValueRange>,
    generator: Xoshiro256PlusPlus,
}

impl From<AllocateError<ValueRange>> for rk_result {
    #[inline]
    fn from(error: AllocateError<ValueRange>) -> Self {
        match error {
            AllocateError::AlreadyAllocated { .. } => Self::AlreadyAllocated,
            AllocateError::NotInRange { .. } => Self::NotInRange,
            _ => Self::InvalidArgument,
        }
    }
}

impl From<Full<ValueRange>> for rk_result {
    #[inline]
    fn from(_: Full<ValueRange>) -> Self {
        Self::Full
    }
}

impl From<BatchError<ValueRange>> for Failure {
    fn from(error: BatchError<ValueRange>) -> Self {
        let (result, index) = match &error {
            BatchError::Allocate { index, source } => ((*source).into(), *index),
            BatchError::Full { index, source } => ((*source).into(), *index),
            _ => return Self::new(rk_result::InvalidArgument, error),
        };
        Self::new(result, error).of_request(index)
    }
}

impl From<RestoreError<ValueRange>> for Failure {
    fn from(error: RestoreError<ValueRange>) -> Self {
        match &error {
            RestoreError::MismatchedRange { .. } => Self::new(rk_result::MismatchedRange, error),
            RestoreError::BitsPastRange(past) => Self::bits_past_range(&error, past),
            _ => Self::new(rk_result::InvalidArgument, error),
        }
    }
}

/// The requests of a batch, as the core takes them.
pub(crate) fn requests(values: &[rk_value]) -> Result<Vec<Request<Value>>, Failure> {
    let request = |(index, value): (usize, &rk_value)| match *value {
        rk_value { high: 0, low: 0, kind: RK_VALUE_KIND_ANY } => Ok(Request::Any),
        value => {
            let value = Value::try_from(&value);
            value.map(Request::Named).map_err(|error| error.of(format_args!("request {index}")).of_request(index))
        }
    };
    values.iter().enumerate().map(request).collect()
}

/// The strategy that a number stands for.
pub(crate) fn strategy(number: rk_strategy) -> Result<Strategy, Failure> {
    match number {
        RK_STRATEGY_CONTIGUOUS => Ok(Strategy::Contiguous),
        RK_STRATEGY_RANDOM_SCAN => Ok(Strategy::RandomScan),
        RK_STRATEGY_DYNAMIC_BAND_FIRST => Ok(Strategy::DynamicBandFirst),
        _ => Err(Failure::new(
            rk_result::InvalidArgument,
            format_args!("strategy {number} is unknown: it is contiguous, random scan or dynamic band first"),
        )),
    }
}

/// Creates an allocator with nothing in use. Memory: one bit per value.
///
/// `strategy` determines the values that rk_allocator_allocate_next picks. `seed`
/// starts the generator of the random strategies (xoshiro256++): the same seed and the same calls return the same
/// values.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_new(
    range: *const rk_range,
    strategy: rk_strategy,
    seed: u64,
    allocator: *mut *mut rk_allocator,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (range, out) =
                (range::range(scope, range).named("range")?, Out::new(scope, allocator).named("allocator")?);
            let allocator = Allocator::new(ValueRange(range), self::strategy(strategy)?);
            let generator = Xoshiro256PlusPlus::seed_from_u64(seed);
            out.give(rk_allocator(Handle::new(AllocatorState { allocator, generator })));
            Ok(())
        })
    }
}

/// Destroys an allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_free(allocator: *mut rk_allocator) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(allocator) }))
}

/// Creates an independent copy in the same state: a call on the copy ends as it would on the original, and changes
/// nothing there. Cost: a copy of the bitmap.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_dry_run(
    allocator: *const rk_allocator,
    dry_run: *mut *mut rk_allocator,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(scope, allocator)?, Out::new(scope, dry_run)?) };
        let copy = allocator.0.with(|state| {
            Ok::<_, rk_result>(AllocatorState {
                allocator: state.allocator.dry_run(),
                generator: state.generator.clone(),
            })
        })?;
        out.give(rk_allocator(Handle::new(copy)));
        Ok(())
    })
}

/// Allocates a value.
///
/// RK_RESULT_ALREADY_ALLOCATED; RK_RESULT_NOT_IN_RANGE, also for a value of another kind than the range's.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_allocate(allocator: *mut rk_allocator, value: *const rk_value) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, value) = unsafe { (borrow(scope, allocator)?, borrow(scope, value)?) };
        let value = value.try_into()?;
        allocator.0.with(|state| Ok(state.allocator.allocate(value)?))
    })
}

/// Allocates a free value that the strategy picks. Cost: some nanoseconds at any fill.
///
/// RK_RESULT_FULL if none is free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_allocate_next(allocator: *mut rk_allocator, value: *mut rk_value) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(scope, allocator)?, Out::new(scope, value)?) };
        let value =
            allocator.0.with(|state| Ok::<_, rk_result>(state.allocator.allocate_next(&mut state.generator)?))?;
        out.write(value.get());
        Ok(())
    })
}

/// Releases a value; one that is free or not in range is no error. Writes whether the value was in use to
/// `was_used`, which may be NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_release(
    allocator: *mut rk_allocator,
    value: *const rk_value,
    was_used: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, value, out) =
            unsafe { (borrow(scope, allocator)?, borrow(scope, value)?, Out::optional(scope, was_used)?) };
        let value = value.try_into()?;
        let was_used = allocator.0.with(|state| Ok::<_, rk_result>(state.allocator.release(value)))?;
        if let Some(out) = out {
            out.write(was_used);
        }
        Ok(())
    })
}

/// Writes whether a value is allocated: false for one that is not in range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_has(
    allocator: *const rk_allocator,
    value: *const rk_value,
    is_used: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, value, out) =
            unsafe { (borrow(scope, allocator)?, borrow(scope, value)?, Out::new(scope, is_used)?) };
        let value = value.try_into()?;
        out.write(allocator.0.with(|state| Ok::<_, rk_result>(state.allocator.has(value)))?);
        Ok(())
    })
}

/// Writes how many values are in use; all others of the range are free. Cost: O(1); O(size / 64) for the first call
/// after a restore.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_used(allocator: *const rk_allocator, used: *mut u32) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(scope, allocator)?, Out::new(scope, used)?) };
        out.write(allocator.0.with(|state| Ok::<_, rk_result>(state.allocator.used()))?);
        Ok(())
    })
}

/// Serves all `n` requests, or none. A request of kind RK_VALUE_KIND_ANY allocates any free value; requests for a
/// named value are served first, wherever they stand. `values` has room for `n` values, in the order of the
/// requests.
///
/// RK_RESULT_ALREADY_ALLOCATED, RK_RESULT_NOT_IN_RANGE, RK_RESULT_FULL and, for a request that does not follow its
/// kind, RK_RESULT_INVALID_ARGUMENT, each with the request that failed in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_allocate_batch(
    allocator: *mut rk_allocator,
    requests: *const rk_value,
    n: usize,
    values: *mut rk_value,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (allocator, out) =
                (borrow(scope, allocator).named("allocator")?, Array::new(scope, values, n).named("values")?);
            let requests = self::requests(slice(scope, requests, n).named("requests")?)?;
            let values = allocator
                .0
                .with(|state| state.allocator.allocate_batch(&requests, &mut state.generator).map_err(Failure::from))?;
            out.fill(values.into_iter().map(Value::get));
            Ok(())
        })
    }
}

/// Writes the stored form of the allocated values: one big-endian unsigned integer without leading zero bytes, in
/// which bit k stands for offset k; no bytes if nothing is allocated. (size + 7) / 8 bytes always suffice.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_snapshot(
    allocator: *const rk_allocator,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, buffer) = unsafe { (borrow(scope, allocator)?, Buffer::new(scope, buffer, capacity, len)?) };
        allocator.0.with(|state| buffer.write(state.allocator.snapshot()))
    })
}

/// Replaces the state by a stored snapshot: `range` is the text of its range, `data` has the form of
/// rk_allocator_snapshot, in which leading zero bytes are accepted.
///
/// RK_RESULT_MISMATCHED_RANGE; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`. The state stays as it was then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_restore(
    allocator: *mut rk_allocator,
    range: *const c_char,
    range_len: usize,
    data: *const u8,
    data_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (allocator, range, data) = (
                borrow(scope, allocator).named("allocator")?,
                text(scope, range, range_len).named("range")?,
                slice(scope, data, data_len).named("data")?,
            );
            allocator.0.with(|state| Ok(state.allocator.restore(range, data)?))
        })
    }
}
