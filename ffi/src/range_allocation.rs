//! The stored object.

use std::ffi::c_char;

use rangekeeper_core::range_allocation::{DecodeError, Form, RangeAllocation};

use crate::error::{Failure, rk_error};
use crate::guard::{Buffer, Out, borrow, guard, guard_error, guard_or, reclaim, slice, text};
use crate::handle::Handle;
use crate::result::rk_result;

/// Kubernetes' protobuf, as every current kube-apiserver stores it.
pub const RK_FORM_PROTOBUF: u32 = 1;
/// A JSON object.
pub const RK_FORM_JSON: u32 = 2;

/// A stored RangeAllocation: range, data, and everything around them that must survive a rewrite. May be used from
/// several threads at once.
pub struct rk_range_allocation(Handle<RangeAllocation>);

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let result = match error {
            DecodeError::Encrypted { .. } => rk_result::Encrypted,
            _ => rk_result::InvalidObject,
        };
        let offset = error.offset();
        Self::new(result, error).at_offset(offset)
    }
}

/// Makes a fresh object with empty range and data, as kube-apiserver makes one. form is one of RK_FORM_*.
///
/// The caller owns *object and frees it with rk_range_allocation_free. RK_RESULT_INVALID_ARGUMENT for an unknown form,
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_new(form: u32, object: *mut *mut rk_range_allocation) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(object)? };
        let form = match form {
            RK_FORM_PROTOBUF => Form::Protobuf,
            RK_FORM_JSON => Form::Json,
            _ => return Err(rk_result::InvalidArgument),
        };
        out.give(rk_range_allocation(Handle::new(RangeAllocation::new(form))));
        Ok(())
    })
}

/// Decodes a stored value; its first bytes tell the form. Metadata and unknown fields are kept as they are.
///
/// The caller owns *object and frees it with rk_range_allocation_free; stored is copied. RK_RESULT_INVALID_OBJECT or
/// RK_RESULT_ENCRYPTED, with the place in error->offset; RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_decode(
    stored: *const u8,
    stored_len: usize,
    object: *mut *mut rk_range_allocation,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, || {
            let (stored, out) = (slice(stored, stored_len)?, Out::new(object)?);
            out.give(rk_range_allocation(Handle::new(RangeAllocation::decode(stored)?)));
            Ok(())
        })
    }
}

/// Frees an object. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_free(object: *mut rk_range_allocation) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(object) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED. The handle must still be freed. To close twice
/// is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_close(object: *const rk_range_allocation) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let object = unsafe { borrow(object)? };
        object.0.close();
        Ok(())
    })
}

/// Writes the text of the object's range; empty if no range was ever written. Without a NUL, buffer by the rule for
/// buffers.
///
/// RK_RESULT_BUFFER_TOO_SMALL, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_range(
    object: *const rk_range_allocation,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(object)?, Buffer::new(buffer, capacity, len)?) };
        object.0.with(|object| buffer.write_text(&object.range))
    })
}

/// Writes the object's data, the bitmap in the form of rk_allocator_snapshot; buffer by the rule for buffers.
///
/// RK_RESULT_BUFFER_TOO_SMALL, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_data(
    object: *const rk_range_allocation,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(object)?, Buffer::new(buffer, capacity, len)?) };
        object.0.with(|object| buffer.write(&object.data))
    })
}

/// Replaces range and data; both are copied and not looked into.
///
/// RK_RESULT_INVALID_UTF8, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_set(
    object: *const rk_range_allocation,
    range: *const c_char,
    range_len: usize,
    data: *const u8,
    data_len: usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (object, range, data) = unsafe { (borrow(object)?, text(range, range_len)?, slice(data, data_len)?) };
        object.0.with(|object| {
            range.clone_into(&mut object.range);
            data.clone_into(&mut object.data);
            Ok(())
        })
    })
}

/// Writes the object as it is to be stored; buffer by the rule for buffers. What kube-apiserver wrote and nobody
/// changed comes out byte for byte.
///
/// RK_RESULT_BUFFER_TOO_SMALL, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_allocation_encode(
    object: *const rk_range_allocation,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (object, buffer) = unsafe { (borrow(object)?, Buffer::new(buffer, capacity, len)?) };
        object.0.with(|object| buffer.write(&object.encode()))
    })
}
