//! What a handle is: a value behind a lock that is open, has ended or is poisoned.

use std::mem;

use parking_lot::Mutex;

use crate::result::rk_result;

/// Why a handle has no value any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Ended,
    Poisoned,
}

impl From<Gone> for rk_result {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Ended => Self::Ended,
            Gone::Poisoned => Self::Poisoned,
        }
    }
}

/// The inside of a handle that may be used from several threads at once.
pub(crate) struct Handle<T>(Mutex<State<T>>);

enum State<T> {
    Open(T),
    Ended,
    /// A panic left the value in an unknown state; it is gone.
    Poisoned,
}

impl<T> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(State::Open(value)))
    }

    /// Works on the value. A panic in `work` poisons the handle and goes on to the guard.
    #[inline]
    pub(crate) fn with<R, E: From<Gone>>(&self, work: impl FnOnce(&mut T) -> Result<R, E>) -> Result<R, E> {
        let mut state = self.0.lock();
        let poison = PoisonOnDrop(&mut state);
        let result = match &mut *poison.0 {
            State::Open(value) => {
                #[cfg(test)]
                hook::run();
                work(value)
            }
            State::Ended => Err(Gone::Ended.into()),
            State::Poisoned => Err(Gone::Poisoned.into()),
        };
        mem::forget(poison);
        result
    }

    /// Works on the value for the last time, unless `check` refuses that: the handle has ended afterwards, or is
    /// poisoned by a panic.
    pub(crate) fn finish<R, E: From<Gone>>(
        &self,
        check: impl FnOnce(&T) -> Result<(), E>,
        work: impl FnOnce(T) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut state = self.0.lock();
        match mem::replace(&mut *state, State::Poisoned) {
            State::Open(value) => {
                #[cfg(test)]
                hook::run();
                if let Err(refusal) = check(&value) {
                    *state = State::Open(value);
                    return Err(refusal);
                }
                let result = work(value);
                *state = State::Ended;
                result
            }
            State::Ended => {
                *state = State::Ended;
                Err(Gone::Ended.into())
            }
            State::Poisoned => Err(Gone::Poisoned.into()),
        }
    }
}

/// Poisons the state unless it is forgotten: it is dropped only while a panic unwinds.
struct PoisonOnDrop<'a, T>(&'a mut State<T>);

impl<T> Drop for PoisonOnDrop<'_, T> {
    fn drop(&mut self) {
        *self.0 = State::Poisoned;
    }
}

/// Lets a test force a panic where an entry point works on its state.
#[cfg(test)]
pub(crate) mod hook {
    use std::cell::Cell;

    thread_local!(static PANIC: Cell<bool> = const { Cell::new(false) });

    pub(crate) fn panic_next() {
        PANIC.set(true);
    }

    pub(super) fn run() {
        if PANIC.take() {
            panic!("forced by a test");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::hook;
    use crate::allocator::*;
    use crate::audit::*;
    use crate::error::{Failure, RK_DETAIL_NONE};
    use crate::range::*;
    use crate::result::rk_result;
    use crate::value::{RK_VALUE_KIND_IPV4, rk_value};

    const VALUE: rk_value = rk_value { high: 0, low: 0x0a00_0001, kind: RK_VALUE_KIND_IPV4 };

    fn allocator() -> *mut rk_allocator {
        let (mut range, mut allocator) = (rk_range::default(), ptr::null_mut());
        let text = "10.0.0.0/24";
        // SAFETY: all pointers are to live variables.
        unsafe {
            assert_eq!(
                rk_range_parse(text.as_ptr().cast(), text.len(), RK_RANGE_KIND_CIDR, &mut range, ptr::null_mut()),
                rk_result::Ok
            );
            assert_eq!(
                rk_allocator_new(&range, RK_STRATEGY_CONTIGUOUS, 1, &mut allocator, ptr::null_mut()),
                rk_result::Ok
            );
        }
        allocator
    }

    #[test]
    fn a_panic_is_told_once_and_poisons_the_handle() {
        let allocator = allocator();
        let mut used = 77;
        // SAFETY: all pointers are to live variables, and the handle is freed once.
        unsafe {
            assert_eq!(rk_allocator_allocate(allocator, &VALUE), rk_result::Ok);
            hook::panic_next();
            assert_eq!(rk_allocator_used(allocator, &mut used), rk_result::Panic);
            assert_eq!(rk_allocator_used(allocator, &mut used), rk_result::Poisoned);
            assert_eq!(rk_allocator_allocate(allocator, &VALUE), rk_result::Poisoned);
            assert_eq!(used, 77, "out-parameters are written on success only");
            rk_allocator_free(allocator);
        }
    }

    #[test]
    fn a_panic_is_told_in_the_error() {
        let allocator = allocator();
        let mut value = rk_value::default();
        let mut error = *Failure::new(rk_result::Full, "").of_request(7).error;
        hook::panic_next();
        // SAFETY: all pointers are to live variables, and the handle is freed once.
        unsafe {
            let result = rk_allocator_allocate_batch(allocator, &VALUE, 1, &mut value, &mut error);
            assert_eq!(result, rk_result::Panic);
            assert_eq!(error.detail_kind, RK_DETAIL_NONE);
            assert_eq!(error.message(), "a fault in Rangekeeper was caught, please report it");
            rk_allocator_free(allocator);
        }
    }

    #[test]
    fn a_panic_while_an_audit_is_finished_gives_no_report() {
        let (mut audit, mut report) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all pointers are to live variables, and each handle is freed once.
        unsafe {
            assert_eq!(rk_audit_new(ptr::null_mut(), false, ptr::null(), &mut audit), rk_result::Ok);
            hook::panic_next();
            assert_eq!(rk_audit_finish(audit, &mut report, ptr::null_mut()), rk_result::Panic);
            assert!(report.is_null());
            assert_eq!(rk_audit_finish(audit, &mut report, ptr::null_mut()), rk_result::Poisoned);
            rk_audit_free(audit);
        }
    }
}
