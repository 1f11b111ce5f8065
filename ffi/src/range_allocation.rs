//! The stored object.

use std::ffi::c_char;

use rangekeeper_core::range_allocation::{DecodeError, Form, RangeAllocation};

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::result::rk_result;
use crate::scope::{Buffer, Out, borrow, reclaim, slice, text};

/// The forms of a stored object.
pub type rk_form = u32;
/// Kubernetes' protobuf, as every current kube-apiserver stores it.
pub const RK_FORM_PROTOBUF: rk_form = 1;
/// A JSON object.
pub const RK_FORM_JSON: rk_form = 2;
/// A YAML mapping.
pub const RK_FORM_YAML: rk_form = 3;

/// A stored RangeAllocation: range, data, and everything else that a rewrite must preserve.
pub struct rk_range_allocation(Handle<RangeAllocation>);

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let result = match error {
            DecodeError::Encrypted { .. } => rk_result::Encrypted,
            _ => rk_result::InvalidObject,
        };
        let offset = error.offset();
        Self::new(result, error).at_byte(offset)
    }
}

/// Creates an object with empty range and data, as kube-apiserver creates one.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_new(form: rk_form, object: *mut *mut rk_range_allocation) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(scope, object)? };
        let form = match form {
            RK_FORM_PROTOBUF => Form::Protobuf,
            RK_FORM_JSON => Form::Json,
            RK_FORM_YAML => Form::Yaml,
            _ => return Err(rk_result::InvalidArgument),
        };
        out.give(rk_range_allocation(Handle::new(RangeAllocation::new(form))));
        Ok(())
    })
}

/// Decodes a stored value; its first bytes determine the form. Metadata and unknown fields are preserved.
///
/// RK_RESULT_INVALID_OBJECT and RK_RESULT_ENCRYPTED, with the byte in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_decode(
    stored: *const u8,
    stored_len: usize,
    object: *mut *mut rk_range_allocation,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (stored, out) =
                (slice(scope, stored, stored_len).named("stored")?, Out::new(scope, object).named("object")?);
            out.give(rk_range_allocation(Handle::new(RangeAllocation::decode(stored)?)));
            Ok(())
        })
    }
}

/// Destroys an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_free(object: *mut rk_range_allocation) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(object) }))
}

/// Writes the text of the object's range; empty if no range was ever written.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_range(
    object: *const rk_range_allocation,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(scope, object)?, Buffer::new(scope, buffer, capacity, len)?) };
        object.0.with(|object| buffer.write_text(&object.range))
    })
}

/// Writes the object's data, a bitmap in the form of rk_allocator_snapshot.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_data(
    object: *const rk_range_allocation,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(scope, object)?, Buffer::new(scope, buffer, capacity, len)?) };
        object.0.with(|object| buffer.write(&object.data))
    })
}

/// Replaces range and data, without a check of either.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_set(
    object: *mut rk_range_allocation,
    range: *const c_char,
    range_len: usize,
    data: *const u8,
    data_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let object = borrow(scope, object).named("object")?;
            let range = text(scope, range, range_len).named("range")?;
            let data = slice(scope, data, data_len).named("data")?;
            object.0.with(|object| {
                range.clone_into(&mut object.range);
                data.clone_into(&mut object.data);
                Ok(())
            })
        })
    }
}

/// Writes the object in its stored form. An object of kube-apiserver that nobody changed comes out byte for byte.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_encode(
    object: *const rk_range_allocation,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(scope, object)?, Buffer::new(scope, buffer, capacity, len)?) };
        object.0.with(|object| buffer.write(&object.encode()))
    })
}
