//! The border: panics stop here, pointers are checked here, out-parameters are written here.
//!
//! Each entry point consists of one call of [`guard`], [`guard_error`] or [`guard_or`] (`tests/surface.rs` sees to
//! that). Inside, one `unsafe` block turns its pointers into what this module offers; it rests on the caller's
//! promise, given in the preamble of the header: a pointer that is not NULL is valid for what the function's
//! documentation says, until the call returns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::error::{Failure, rk_error};
use crate::result::rk_result;

/// Runs the body of an entry point.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<(), rk_result>) -> rk_result {
    // A state that a panic left half-written is not seen again: the handle's own guard poisons it.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => rk_result::Ok,
        Ok(Err(result)) => result,
        Err(_) => rk_result::Panic,
    }
}

/// Runs the body of an entry point that tells more about its failure in `error`, which may be NULL.
///
/// # Safety
/// `error` is NULL or valid for a write.
pub(crate) unsafe fn guard_error(error: *mut rk_error, body: impl FnOnce() -> Result<(), Failure>) -> rk_result {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as promised to this function.
        let error = unsafe { Out::optional(error) }?;
        match body() {
            Ok(()) => Ok(()),
            Err(failure) => {
                if let Some(error) = error {
                    error.write(*failure.error);
                }
                Err(failure.result)
            }
        }
    }));
    match outcome {
        Ok(Ok(())) => rk_result::Ok,
        Ok(Err(result)) => result,
        Err(_) => {
            guard(|| {
                // SAFETY: as promised to this function.
                if let Some(error) = unsafe { Out::optional(error) }? {
                    error.write(*Failure::from(rk_result::Panic).error);
                }
                Err(rk_result::Panic)
            })
        }
    }
}

/// Runs the body of an entry point that returns something other than a result; `fallback` is returned after a panic.
#[inline]
pub(crate) fn guard_or<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

fn check<T>(pointer: *const T) -> Result<NonNull<T>, rk_result> {
    let pointer = NonNull::new(pointer.cast_mut()).ok_or(rk_result::NullPointer)?;
    if pointer.is_aligned() { Ok(pointer) } else { Err(rk_result::InvalidArgument) }
}

/// As [`check`], for `len` items in a row; NULL is fine if there are none.
fn check_many<T>(first: *const T, len: usize) -> Result<NonNull<T>, rk_result> {
    if len == 0 {
        return Ok(NonNull::dangling());
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    if bytes.is_none() { Err(rk_result::InvalidArgument) } else { check(first) }
}

/// What a caller's pointer points to.
///
/// # Safety
/// `pointer` is NULL, or what it points to is valid for reads during `'a`.
#[inline]
pub(crate) unsafe fn borrow<'a, T>(pointer: *const T) -> Result<&'a T, rk_result> {
    let pointer = check(pointer)?;
    // SAFETY: not NULL and aligned, as checked; valid, as promised.
    Ok(unsafe { pointer.as_ref() })
}

/// As [`borrow`], where NULL stands for nothing.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn borrow_optional<'a, T>(pointer: *const T) -> Result<Option<&'a T>, rk_result> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised to this function.
    unsafe { borrow(pointer) }.map(Some)
}

/// `len` items of the caller's; NULL is fine if there are none.
///
/// # Safety
/// If `len` is not 0, `first` is NULL or valid for reads of `len` items during `'a`.
pub(crate) unsafe fn slice<'a, T>(first: *const T, len: usize) -> Result<&'a [T], rk_result> {
    let first = check_many(first, len)?;
    // SAFETY: not NULL, aligned and of a length that an object can have, as checked; valid, as promised.
    Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), len) })
}

/// A text of the caller's; NULL is fine if it is empty.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn text<'a, T: Byte>(first: *const T, len: usize) -> Result<&'a str, rk_result> {
    // SAFETY: as promised to this function; a Byte has the size and alignment of u8.
    let bytes = unsafe { slice(first.cast::<u8>(), len) }?;
    std::str::from_utf8(bytes).map_err(|_| rk_result::InvalidUtf8)
}

/// What C calls a byte of a text: c_char is the one or the other, by the platform.
pub(crate) trait Byte {}
impl Byte for u8 {}
impl Byte for i8 {}

/// Takes a handle back that [`Out::give`] gave away, to drop it; `None` for NULL.
///
/// # Safety
/// `handle` is NULL, or came from [`Out::give`] and was not taken back before.
pub(crate) unsafe fn reclaim<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: give made it from a Box, as promised, and nobody has it any more.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// An out-parameter: checked now, written when the call has succeeded.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// `pointer` is NULL, or valid for a write as long as the result lives.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Self, rk_result> {
        check(pointer).map(Self)
    }

    /// An out-parameter that the caller may leave out by NULL.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline]
    pub(crate) unsafe fn optional(pointer: *mut T) -> Result<Option<Self>, rk_result> {
        if pointer.is_null() { Ok(None) } else { check(pointer).map(|pointer| Some(Self(pointer))) }
    }

    #[inline]
    pub(crate) fn write(self, value: T) {
        // SAFETY: valid for a write, by the contract of new.
        unsafe { self.0.write(value) }
    }
}

impl<T> Out<*mut T> {
    /// Makes the caller the owner of a handle.
    pub(crate) fn give(self, handle: T) {
        self.write(Box::into_raw(Box::new(handle)));
    }
}

/// An array of the caller's to write into.
pub(crate) struct Array<T> {
    first: NonNull<T>,
    capacity: usize,
}

impl<T> Array<T> {
    /// # Safety
    /// If `capacity` is not 0, `first` is NULL, or valid for writes of `capacity` items as long as the result lives.
    #[inline]
    pub(crate) unsafe fn new(first: *mut T, capacity: usize) -> Result<Self, rk_result> {
        Ok(Self { first: check_many(first, capacity)?, capacity })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes items until they or the places run out. Returns how many were written.
    #[inline]
    pub(crate) fn fill(self, items: impl IntoIterator<Item = T>) -> usize {
        let mut written = 0;
        // The place comes first in the pair, so that no item is drawn for which there is none.
        for (at, item) in (0..self.capacity).zip(items) {
            // SAFETY: at is below capacity, and so many places are valid for writes, by the contract of new.
            unsafe { self.first.add(at).write(item) };
            written = at + 1;
        }
        written
    }
}

/// A caller's buffer and the out-parameter for the length: holds all of what is written, or nothing.
pub(crate) struct Buffer<T> {
    array: Array<T>,
    len: Out<usize>,
}

impl<T: Copy> Buffer<T> {
    /// # Safety
    /// As [`Array::new`] and [`Out::new`].
    #[inline]
    pub(crate) unsafe fn new(first: *mut T, capacity: usize, len: *mut usize) -> Result<Self, rk_result> {
        // SAFETY: as promised to this function.
        unsafe { Ok(Self { array: Array::new(first, capacity)?, len: Out::new(len)? }) }
    }

    /// Writes `items` and their number; if there is no room, only the number that is needed.
    pub(crate) fn write(self, items: &[T]) -> Result<(), rk_result> {
        self.len.write(items.len());
        if items.len() > self.array.capacity {
            return Err(rk_result::BufferTooSmall);
        }
        // SAFETY: there are at least items.len() places, valid for writes by the contract of new. The preamble
        // forbids that a buffer overlaps with anything else, and the handle's own memory is not the caller's.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), self.array.first.as_ptr(), items.len()) };
        Ok(())
    }
}

impl<T> Buffer<T> {
    /// As [`write`](Self::write), with items that are made only if there is room for all of them.
    pub(crate) fn fill(self, items: impl ExactSizeIterator<Item = T>) -> Result<(), rk_result> {
        let len = items.len();
        self.len.write(len);
        if len > self.array.capacity {
            return Err(rk_result::BufferTooSmall);
        }
        self.array.fill(items);
        Ok(())
    }
}

impl Buffer<std::ffi::c_char> {
    /// Writes a text, without a NUL.
    pub(crate) fn write_text(self, text: &str) -> Result<(), rk_result> {
        let bytes = Buffer {
            array: Array { first: self.array.first.cast::<u8>(), capacity: self.array.capacity },
            len: self.len,
        };
        bytes.write(text.as_bytes())
    }
}
