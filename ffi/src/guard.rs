//! The border: panics stop here, and pointers are borrowed for one call only.
//!
//! Each entry point consists of one call of [`guard`], [`guard_error`] or [`guard_or`] (`tests/surface.rs` checks
//! that). Inside, one `unsafe` block turns its pointers into references, slices and out-parameters of the call's
//! [`Scope`]. It rests on the caller's promise in the preamble of the header: a pointer is valid until the call
//! returns.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, rk_error};
use crate::result::rk_result;
use crate::scope::{Out, Scope, enter};

/// Runs the body of an entry point.
#[inline]
pub(crate) fn guard(body: impl FnOnce(&Scope) -> Result<(), rk_result>) -> rk_result {
    // Nobody sees a state that a panic left half-written: the handle poisons itself.
    match catch_unwind(AssertUnwindSafe(|| enter(body))) {
        Ok(Ok(())) => rk_result::Ok,
        Ok(Err(result)) => result,
        Err(_) => rk_result::Panic,
    }
}

/// Runs the body of an entry point that writes details of its failure to `error`, which may be NULL.
///
/// # Safety
/// `error` is NULL or valid for a write.
pub(crate) unsafe fn guard_error(error: *mut rk_error, body: impl FnOnce(&Scope) -> Result<(), Failure>) -> rk_result {
    let fail = |scope: &Scope, failure: Failure| {
        // SAFETY: as promised to this function.
        if let Some(error) = unsafe { Out::optional(scope, error) }? {
            error.write(*failure.error);
        }
        Err(failure.result)
    };
    let result = guard(|scope| {
        // A pointer that cannot be written is refused before anything happens.
        // SAFETY: as promised to this function.
        unsafe { Out::optional(scope, error) }?;
        body(scope).or_else(|failure| fail(scope, failure))
    });
    match result {
        rk_result::Panic => guard(|scope| {
            fail(scope, Failure::new(rk_result::Panic, "a fault in Rangekeeper was caught, please report it"))
        }),
        result => result,
    }
}

/// Runs the body of an entry point that returns something other than a result; `fallback` is returned after a panic.
#[inline]
pub(crate) fn guard_or<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}
