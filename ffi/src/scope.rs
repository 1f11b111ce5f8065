//! What an entry point may do with the caller's pointers, for as long as its call lasts.
//!
//! Everything here carries the lifetime of a [`Scope`], which only [`enter`] makes and which ends with the call. So the
//! borrow checker upholds that nothing keeps a pointer (`tests/scope.rs` tries to).

use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::result::rk_result;

/// The duration of one call.
pub(crate) struct Scope(());

/// Runs `body` with a scope that ends with it.
#[inline]
pub(crate) fn enter<R>(body: impl FnOnce(&Scope) -> R) -> R {
    body(&Scope(()))
}

/// What is wrong with an argument in the caller's memory. As text it follows the name of the parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Null,
    Unaligned,
    TooLong,
    NotUtf8 {
        at: usize,
    },
    /// The fields of a range do not make one.
    NotARange,
}

impl Display for Unusable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("is NULL"),
            Self::Unaligned => f.write_str("is not aligned"),
            Self::TooLong => f.write_str("is longer than the address space"),
            Self::NotUtf8 { at } => write!(f, "is not UTF-8 at byte {at}"),
            Self::NotARange => f.write_str("is not a range that rk_range_parse or rk_service_cidr_parse has written"),
        }
    }
}

impl From<Unusable> for rk_result {
    #[inline]
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Null => Self::NullPointer,
            Unusable::Unaligned | Unusable::TooLong | Unusable::NotARange => Self::InvalidArgument,
            Unusable::NotUtf8 { .. } => Self::InvalidUtf8,
        }
    }
}

fn check<T>(pointer: *const T) -> Result<NonNull<T>, Unusable> {
    let pointer = NonNull::new(pointer.cast_mut()).ok_or(Unusable::Null)?;
    if pointer.is_aligned() { Ok(pointer) } else { Err(Unusable::Unaligned) }
}

/// As [`check`], for `len` items in a row; NULL is allowed if there are none.
fn check_many<T>(first: *const T, len: usize) -> Result<NonNull<T>, Unusable> {
    if len == 0 {
        return Ok(NonNull::dangling());
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    if bytes.is_none() { Err(Unusable::TooLong) } else { check(first) }
}

/// The object of a caller's pointer.
///
/// # Safety
/// `pointer` is NULL, or valid for reads during the scope.
#[inline]
pub(crate) unsafe fn borrow<T>(_: &Scope, pointer: *const T) -> Result<&T, Unusable> {
    let pointer = check(pointer)?;
    // SAFETY: not NULL and aligned, as checked; valid, as promised.
    Ok(unsafe { pointer.as_ref() })
}

/// As [`borrow`], where NULL stands for nothing.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn borrow_optional<T>(scope: &Scope, pointer: *const T) -> Result<Option<&T>, Unusable> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised to this function.
    unsafe { borrow(scope, pointer) }.map(Some)
}

/// `len` items of the caller's; NULL is allowed if there are none.
///
/// # Safety
/// If `len` is not 0, `first` is NULL or valid for reads of `len` items during the scope.
pub(crate) unsafe fn slice<T>(_: &Scope, first: *const T, len: usize) -> Result<&[T], Unusable> {
    let first = check_many(first, len)?;
    // SAFETY: not NULL, aligned and of a length that an object can have, as checked; valid, as promised.
    Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), len) })
}

/// A text of the caller's; NULL is allowed if it is empty.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn text<T: Byte>(scope: &Scope, first: *const T, len: usize) -> Result<&str, Unusable> {
    // SAFETY: as promised to this function; a Byte has the size and alignment of u8.
    let bytes = unsafe { slice(scope, first.cast::<u8>(), len) }?;
    std::str::from_utf8(bytes).map_err(|error| Unusable::NotUtf8 { at: error.valid_up_to() })
}

/// A byte of a text in C: c_char is one of these, by the platform.
pub(crate) trait Byte {}
impl Byte for u8 {}
impl Byte for i8 {}

/// The handle that [`Out::give`] made the caller's, to be dropped; `None` for NULL.
///
/// # Safety
/// `handle` is NULL, or came from [`Out::give`] and was not reclaimed before.
pub(crate) unsafe fn reclaim<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: give made it from a Box, as promised, and this is the last call with it.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// An out-parameter: checked now, written when the call has succeeded.
pub(crate) struct Out<'s, T>(NonNull<T>, PhantomData<&'s Scope>);

impl<'s, T> Out<'s, T> {
    /// # Safety
    /// `pointer` is NULL, or valid for a write during `'s`.
    #[inline]
    pub(crate) unsafe fn new(_: &'s Scope, pointer: *mut T) -> Result<Self, Unusable> {
        check(pointer).map(|pointer| Self(pointer, PhantomData))
    }

    /// An out-parameter that the caller may leave out by NULL.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    #[inline]
    pub(crate) unsafe fn optional(scope: &'s Scope, pointer: *mut T) -> Result<Option<Self>, Unusable> {
        // SAFETY: as promised to this function.
        if pointer.is_null() { Ok(None) } else { unsafe { Self::new(scope, pointer) }.map(Some) }
    }

    #[inline]
    pub(crate) fn write(self, value: T) {
        // SAFETY: valid for a write, by the contract of new.
        unsafe { self.0.write(value) }
    }
}

impl<T: Send + Sync> Out<'_, *mut T> {
    /// Makes the caller the owner of a handle. Any thread may use it, so it must be of a type that can be shared: raw
    /// pointers hide from the compiler that C does.
    pub(crate) fn give(self, handle: T) {
        self.write(Box::into_raw(Box::new(handle)));
    }
}

/// An array of the caller's to write into.
pub(crate) struct Array<'s, T> {
    first: NonNull<T>,
    capacity: usize,
    scope: PhantomData<&'s Scope>,
}

impl<'s, T> Array<'s, T> {
    /// # Safety
    /// If `capacity` is not 0, `first` is NULL, or valid for writes of `capacity` items during `'s`.
    #[inline]
    pub(crate) unsafe fn new(_: &'s Scope, first: *mut T, capacity: usize) -> Result<Self, Unusable> {
        Ok(Self { first: check_many(first, capacity)?, capacity, scope: PhantomData })
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

/// A caller's buffer and the out-parameter for its length: it holds all items or none.
pub(crate) struct Buffer<'s, T> {
    array: Array<'s, T>,
    len: Out<'s, usize>,
}

impl<'s, T: Copy> Buffer<'s, T> {
    /// # Safety
    /// As [`Array::new`] and [`Out::new`].
    #[inline]
    pub(crate) unsafe fn new(
        scope: &'s Scope,
        first: *mut T,
        capacity: usize,
        len: *mut usize,
    ) -> Result<Self, Unusable> {
        // SAFETY: as promised to this function.
        unsafe { Ok(Self::of(Array::new(scope, first, capacity)?, Out::new(scope, len)?)) }
    }

    #[inline]
    pub(crate) fn of(array: Array<'s, T>, len: Out<'s, usize>) -> Self {
        Self { array, len }
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

impl<T> Buffer<'_, T> {
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

impl Buffer<'_, std::ffi::c_char> {
    /// Writes a text, without a NUL.
    pub(crate) fn write_text(self, text: &str) -> Result<(), rk_result> {
        let bytes = Buffer {
            array: Array { first: self.array.first.cast::<u8>(), capacity: self.array.capacity, scope: PhantomData },
            len: self.len,
        };
        bytes.write(text.as_bytes())
    }
}
