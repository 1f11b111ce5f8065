//! The short functions of an allocator for callers that must not wait for its lock, such as the thread of a scheduler.

use crate::allocator::rk_allocator;
use crate::guard::{Out, borrow, guard};
use crate::result::rk_result;
use crate::value::{Value, rk_value};

/// As rk_allocator_allocate, without waiting: RK_RESULT_BUSY if another thread works on the allocator. Nothing is changed
/// then. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_try_allocate(allocator: *const rk_allocator, value: rk_value) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let allocator = unsafe { borrow(allocator)? };
        let value = value.try_into()?;
        allocator.handle().try_with(|state| Ok(state.allocator.allocate(value)?))
    })
}

/// As rk_allocator_allocate_next, without waiting: RK_RESULT_BUSY if another thread works on the allocator. Nothing is
/// changed then. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_try_allocate_next(
    allocator: *const rk_allocator,
    value: *mut rk_value,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(allocator)?, Out::new(value)?) };
        let value = allocator
            .handle()
            .try_with(|state| Ok::<_, rk_result>(state.allocator.allocate_next(&mut state.generator)?))?;
        out.write(Value::get(value));
        Ok(())
    })
}

/// As rk_allocator_release, without waiting: RK_RESULT_BUSY if another thread works on the allocator. Nothing is changed
/// then. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_try_release(
    allocator: *const rk_allocator,
    value: rk_value,
    was_used: *mut bool,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(allocator)?, Out::optional(was_used)?) };
        let value = value.try_into()?;
        let was_used = allocator.handle().try_with(|state| Ok::<_, rk_result>(state.allocator.release(value)))?;
        if let Some(out) = out {
            out.write(was_used);
        }
        Ok(())
    })
}

/// As rk_allocator_has, without waiting: RK_RESULT_BUSY if another thread works on the allocator. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_allocator_try_has(
    allocator: *const rk_allocator,
    value: rk_value,
    is_used: *mut bool,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (allocator, out) = unsafe { (borrow(allocator)?, Out::new(is_used)?) };
        let value = value.try_into()?;
        out.write(allocator.handle().try_with(|state| Ok::<_, rk_result>(state.allocator.has(value)))?);
        Ok(())
    })
}
