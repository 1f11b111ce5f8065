//! JSON texts in and out; an error names the byte.

use serde::Deserialize;

use crate::error::Failure;
use crate::result::rk_result;

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
