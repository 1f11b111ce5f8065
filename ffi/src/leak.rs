//! Leak counters of one range.

use std::num::NonZeroU8;

use rangekeeper_core::any::AnyRange;
use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::leak::LeakCounters;
use rangekeeper_core::range::Range;

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::range::{self, ValueRange, rk_range, values_page};
use crate::result::rk_result;
use crate::scope::{Array, Out, borrow, reclaim, slice};
use crate::value::{Value, rk_value};

/// A counter for each value of a range: how many passes in a row it was leaked.
pub struct rk_leak_counters {
    range: AnyRange,
    counters: Handle<LeakCounters>,
}

impl rk_leak_counters {
    fn offset_of(&self, value: rk_value) -> Result<u32, rk_result> {
        ValueRange(self.range).offset_of(Value::try_from(&value)?).ok_or(rk_result::NotInRange)
    }
}

/// After how many passes in a row a leak is cleaned.
pub(crate) fn passes(number: u8) -> Result<NonZeroU8, Failure> {
    let message = "passes 0 is less than 1: a leak is cleaned in the first pass that sees it, or later";
    NonZeroU8::new(number).ok_or_else(|| Failure::new(rk_result::InvalidArgument, message))
}

/// Creates counters at 0. A leak is due to be cleaned if this many `passes` in a row have seen it; kube-apiserver
/// waits for 3.
///
/// RK_RESULT_INVALID_ARGUMENT if `passes` is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_counters_new(
    range: *const rk_range,
    passes: u8,
    counters: *mut *mut rk_leak_counters,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (range, out) =
                (range::range(scope, range).named("range")?, Out::new(scope, counters).named("counters")?);
            let counters = Handle::new(LeakCounters::new(range.size(), self::passes(passes)?));
            out.give(rk_leak_counters { range, counters });
            Ok(())
        })
    }
}

/// Destroys counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_counters_free(counters: *mut rk_leak_counters) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(counters) }))
}

/// Counts a pass that saw exactly the `n` values of `leaked`, and writes those that are due to be cleaned,
/// ascending. Their counters, and the counter of every value that is not in `leaked`, return to 0. `due` needs room
/// for `n` values: with less, RK_RESULT_BUFFER_TOO_SMALL, and `*due_len` is `n`.
///
/// RK_RESULT_NOT_IN_RANGE. On failure nothing is counted.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_counters_advance(
    counters: *mut rk_leak_counters,
    leaked: *const rk_value,
    n: usize,
    due: *mut rk_value,
    due_capacity: usize,
    due_len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (counters, values, due, due_len) = unsafe {
            (
                borrow(scope, counters)?,
                slice(scope, leaked, n)?,
                Array::new(scope, due, due_capacity)?,
                Out::new(scope, due_len)?,
            )
        };
        if due.capacity() < n {
            due_len.write(n);
            return Err(rk_result::BufferTooSmall);
        }
        let mut leaked = Bitmap::new(counters.range.size());
        for value in values {
            leaked.insert(counters.offset_of(*value)?);
        }
        counters.counters.with(|state| {
            state.advance(&mut leaked);
            let (written, _) = values_page(counters.range, &leaked, 0, due);
            due_len.write(written);
            Ok(())
        })
    })
}

/// Writes how many passes in a row have seen a value leaked, the last one included.
///
/// RK_RESULT_NOT_IN_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_counters_count(
    counters: *const rk_leak_counters,
    value: *const rk_value,
    count: *mut u8,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (counters, value, out) =
            unsafe { (borrow(scope, counters)?, borrow(scope, value)?, Out::new(scope, count)?) };
        let offset = counters.offset_of(*value)?;
        out.write(counters.counters.with(|state| Ok::<_, rk_result>(state.count(offset)))?);
        Ok(())
    })
}
