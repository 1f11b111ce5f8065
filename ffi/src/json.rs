//! JSON texts in and out; an error names the byte.

use std::ffi::c_char;

use serde::Deserialize;

use crate::error::Failure;
use crate::result::rk_result;
use crate::scope::Buffer;

/// Reads a JSON text of the form that T has; an error names the byte.
pub(crate) fn parse<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| {
        let lines = json.split_inclusive('\n').take(error.line().saturating_sub(1));
        // The column counts bytes from 1; it is 0 behind the end of a line.
        let offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        Failure::new(rk_result::InvalidJson, error).at_byte(offset.min(json.len()))
    })
}

/// Everything that is written has a JSON form.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, rk_result> {
    serde_json::to_string(value).map_err(|_| rk_result::Panic)
}

/// Writes an answer of a call with details into a buffer of this capacity.
pub(crate) fn write_json(
    answer: &impl serde::Serialize,
    buffer: Buffer<'_, c_char>,
    capacity: usize,
) -> Result<(), Failure> {
    let answer = to_json(answer).map_err(|result| Failure::new(result, "the answer has no JSON form"))?;
    buffer.write_text(&answer).map_err(|result| Failure::of_buffer(result, capacity, answer.len()))
}
