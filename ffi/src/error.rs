//! The names of codes, and what an error carries besides its code.

use std::ffi::c_char;
use std::fmt::{Display, Write};

use rangekeeper_core::snapshot::BitsPastRange;

use crate::guard::guard_or;
use crate::handle::Gone;
use crate::result::rk_result;
use crate::scope::Unusable;

/// Returns the name of a result without its prefix, such as "ALREADY_ALLOCATED"; "UNKNOWN" for any other number.
/// The text is static: never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn rk_result_name(result: u32) -> *const c_char {
    guard_or(c"UNKNOWN".as_ptr(), || {
        let known = rk_result::ALL.into_iter().find(|known| *known as u32 == result);
        known.map_or(c"UNKNOWN", rk_result::name).as_ptr()
    })
}

/// Bytes in the message of an rk_error, the NUL at its end included.
pub const RK_ERROR_MESSAGE_CAPACITY: usize = 512;

/// The member of an rk_detail that is valid.
pub type rk_detail_kind = u32;
/// There is no detail.
pub const RK_DETAIL_NONE: rk_detail_kind = 0;
/// detail.byte is valid.
pub const RK_DETAIL_BYTE: rk_detail_kind = 1;
/// detail.bits is valid.
pub const RK_DETAIL_BITS: rk_detail_kind = 2;
/// detail.request is valid.
pub const RK_DETAIL_REQUEST: rk_detail_kind = 3;

/// The bits past the end of a range in a stored bitmap.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_bits_past_range {
    /// The highest offset that is set.
    pub highest_offset: u64,
    /// The position of the byte of the input that holds it, from 0.
    pub byte: u64,
}

/// Where a failure lies; the kind determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_detail {
    /// The position of the wrong byte in the input, from 0.
    pub byte: u64,
    /// The bits that are wrong.
    pub bits: rk_bits_past_range,
    /// The position of the request of a batch that could not be served, from 0.
    pub request: u64,
    /// Room for a kind that comes later.
    pub reserved: [u64; 4],
}

/// Details of a failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_error {
    /// The member of the detail that is valid.
    pub detail_kind: rk_detail_kind,
    /// Where the failure lies.
    pub detail: rk_detail,
    /// Bytes in message, without the NUL at its end.
    pub message_len: usize,
    /// For people: UTF-8 with a terminating NUL, cut at a character if it is too long.
    pub message: [c_char; RK_ERROR_MESSAGE_CAPACITY],
}

/// A result that is not OK, with its details.
pub(crate) struct Failure {
    pub(crate) result: rk_result,
    pub(crate) error: Box<rk_error>,
}

impl Failure {
    pub(crate) fn new(result: rk_result, message: impl Display) -> Self {
        let mut error = rk_error {
            detail_kind: RK_DETAIL_NONE,
            detail: rk_detail { bits: rk_bits_past_range { highest_offset: 0, byte: 0 } },
            message_len: 0,
            message: [0; RK_ERROR_MESSAGE_CAPACITY],
        };
        // The only error is that the message is full: it then ends there.
        let _ = write!(MessageWriter(&mut error), "{message}");
        Self { result, error: Box::new(error) }
    }

    /// `buffer` is too small, or could not be written for another reason.
    pub(crate) fn of_buffer(result: rk_result, capacity: usize, needed: usize) -> Self {
        Self::new(result, format_args!("buffer has room for {capacity} bytes, and {needed} are needed"))
    }

    /// Names the byte of the input that is wrong.
    pub(crate) fn at_byte(self, byte: usize) -> Self {
        self.with_detail(RK_DETAIL_BYTE, |detail| detail.byte = byte as u64)
    }

    /// Names the request of a batch that could not be served.
    pub(crate) fn of_request(self, index: usize) -> Self {
        self.with_detail(RK_DETAIL_REQUEST, |detail| detail.request = index as u64)
    }

    fn with_detail(mut self, kind: rk_detail_kind, set: impl FnOnce(&mut rk_detail)) -> Self {
        self.error.detail_kind = kind;
        set(&mut self.error.detail);
        self
    }

    /// A stored bitmap has bits past the end of its range; `error` says so, perhaps among other things.
    pub(crate) fn bits_past_range(error: impl Display, past: &BitsPastRange) -> Self {
        let bits = rk_bits_past_range { highest_offset: past.offset, byte: past.byte as u64 };
        Self::new(rk_result::BitsPastRange, error).with_detail(RK_DETAIL_BITS, |detail| detail.bits = bits)
    }
}

// There is no conversion from rk_result: each failure has a sentence.

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Self {
        let message = match gone {
            Gone::Ended => "the pass or audit has ended",
            Gone::Poisoned => "an earlier call caught a fault in Rangekeeper: the handle can only be freed",
        };
        Self::new(gone.into(), message)
    }
}

/// Turns an argument that cannot be used into a failure that names its parameter, as the header spells it.
pub(crate) trait Named<T> {
    fn named(self, parameter: &str) -> Result<T, Failure>;
}

impl<T> Named<T> for Result<T, Unusable> {
    fn named(self, parameter: &str) -> Result<T, Failure> {
        self.map_err(|unusable| {
            let failure = Failure::new(unusable.into(), format_args!("{parameter} {unusable}"));
            if let Unusable::NotUtf8 { at } = unusable { failure.at_byte(at) } else { failure }
        })
    }
}

struct MessageWriter<'a>(&'a mut rk_error);

impl Write for MessageWriter<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = RK_ERROR_MESSAGE_CAPACITY - 1 - self.0.message_len;
        let fits = text.floor_char_boundary(room);
        for byte in &text.as_bytes()[..fits] {
            self.0.message[self.0.message_len] = *byte as c_char;
            self.0.message_len += 1;
        }
        if fits < text.len() { Err(std::fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
impl rk_error {
    pub(crate) fn message(&self) -> String {
        let bytes = self.message[..self.message_len].iter().map(|byte| *byte as u8).collect();
        String::from_utf8(bytes).expect("cut at a character")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        for shift in 0..4 {
            let text = "x".repeat(shift) + &"ä€".repeat(200);
            let error = Failure::new(rk_result::InvalidRange, &text).error;
            let message = error.message();
            assert!(text.starts_with(&message));
            assert!(message.len() > RK_ERROR_MESSAGE_CAPACITY - 5 && message.len() < RK_ERROR_MESSAGE_CAPACITY);
            assert_eq!(error.message[error.message_len], 0);
        }
    }
}
