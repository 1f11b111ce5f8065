//! What an error carries besides its code.

use std::ffi::c_char;
use std::fmt::{Display, Write};

use crate::result::rk_result;

/// Bytes in the message of an rk_error, the NUL at its end included.
pub const RK_ERROR_MESSAGE_CAPACITY: usize = 512;

/// More about a failure. Owned by the caller and written only if the function fails.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_error {
    /// Byte offset in the input at which the fault lies; UINT64_MAX if there is none.
    pub offset: u64,
    /// The number that the failure is about; UINT64_MAX if there is none. RK_RESULT_BITS_PAST_RANGE: the highest
    /// offset that is set. Batches: the index of the request that could not be served.
    pub value: u64,
    /// Bytes in message, without the NUL.
    pub message_len: usize,
    /// For people: UTF-8, cut at a character if it is too long, with a NUL behind it.
    pub message: [c_char; RK_ERROR_MESSAGE_CAPACITY],
}

/// A result that is not OK, with what there is to say about it.
pub(crate) struct Failure {
    pub(crate) result: rk_result,
    pub(crate) error: Box<rk_error>,
}

impl Failure {
    pub(crate) fn new(result: rk_result, message: impl Display) -> Self {
        let mut error =
            rk_error { offset: u64::MAX, value: u64::MAX, message_len: 0, message: [0; RK_ERROR_MESSAGE_CAPACITY] };
        // The only error is that the message is full: it then ends there.
        let _ = write!(MessageWriter(&mut error), "{message}");
        Self { result, error: Box::new(error) }
    }

    pub(crate) fn at_offset(mut self, offset: usize) -> Self {
        self.error.offset = offset as u64;
        self
    }

    pub(crate) fn about(mut self, value: u64) -> Self {
        self.error.value = value;
        self
    }
}

impl From<rk_result> for Failure {
    fn from(result: rk_result) -> Self {
        Self::new(result, result.name().to_string_lossy())
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
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        for shift in 0..4 {
            let text = "x".repeat(shift) + &"ä€".repeat(200);
            let error = Failure::new(rk_result::InvalidRange, &text).error;
            let bytes: Vec<u8> = error.message[..error.message_len].iter().map(|byte| *byte as u8).collect();
            let message = String::from_utf8(bytes).expect("cut at a character");
            assert!(text.starts_with(&message));
            assert!(message.len() > RK_ERROR_MESSAGE_CAPACITY - 5 && message.len() < RK_ERROR_MESSAGE_CAPACITY);
            assert_eq!(error.message[error.message_len], 0);
        }
    }
}
