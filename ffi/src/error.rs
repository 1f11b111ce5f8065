//! What an error carries besides its code.

use std::ffi::c_char;
use std::fmt::{Display, Write};

use rangekeeper_core::snapshot::BitsPastRange;

use crate::handle::Gone;
use crate::result::rk_result;
use crate::scope::Unusable;

/// Bytes in the message of an rk_error, the NUL at its end included.
pub const RK_ERROR_MESSAGE_CAPACITY: usize = 512;

/// As the detail_kind of an rk_error: it has no detail.
pub const RK_DETAIL_NONE: u32 = 0;
/// As the detail_kind of an rk_error: detail.byte is valid.
pub const RK_DETAIL_BYTE: u32 = 1;
/// As the detail_kind of an rk_error: detail.bits is valid.
pub const RK_DETAIL_BITS: u32 = 2;
/// As the detail_kind of an rk_error: detail.request is valid.
pub const RK_DETAIL_REQUEST: u32 = 3;
/// As the detail_kind of an rk_error: detail.bitmap is valid.
pub const RK_DETAIL_BITMAP: u32 = 4;

/// The bits past the end of a range in a stored bitmap.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_bits_past_range {
    /// The highest offset that is set.
    pub highest_offset: u64,
    /// The byte of the input that holds it.
    pub byte: u64,
}

/// Where a failure lies; the kind determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_detail {
    /// The byte of the input that is wrong.
    pub byte: u64,
    /// The bits that are wrong.
    pub bits: rk_bits_past_range,
    /// The request of a batch that could not be served, counted from 0.
    pub request: u64,
    /// The bitmap that is missing, one of RK_BITMAP_*.
    pub bitmap: u32,
    /// Room for a kind that comes later.
    pub reserved: [u64; 4],
}

/// Details of a failure.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_error {
    /// One of RK_DETAIL_*.
    pub detail_kind: u32,
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

    /// Names the byte of the input that is wrong.
    pub(crate) fn at_byte(self, byte: usize) -> Self {
        self.with_detail(RK_DETAIL_BYTE, |detail| detail.byte = byte as u64)
    }

    /// Names the request of a batch that could not be served.
    pub(crate) fn of_request(self, index: usize) -> Self {
        self.with_detail(RK_DETAIL_REQUEST, |detail| detail.request = index as u64)
    }

    /// Names the bitmap that is missing.
    pub(crate) fn of_bitmap(self, bitmap: u32) -> Self {
        self.with_detail(RK_DETAIL_BITMAP, |detail| detail.bitmap = bitmap)
    }

    fn with_detail(mut self, kind: u32, set: impl FnOnce(&mut rk_detail)) -> Self {
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
            Gone::Closed => "a handle was closed, or its pass or audit has ended",
            Gone::Poisoned => "an earlier call caught a fault in Rangekeeper: the handle can only be closed and freed",
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
