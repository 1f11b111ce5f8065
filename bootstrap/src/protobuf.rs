//! Reading the protobuf of a lease with the core's reader.

use std::ops::Range;

use rangekeeper::range_allocation::{DecodeError, Field, Reader};

/// The fields `number` of the message.
fn fields(value: &[u8], message: Range<usize>, number: u32) -> Result<Vec<Field>, DecodeError> {
    let mut reader = Reader::new(value, message, "lease");
    let mut fields = Vec::new();
    while let Some(field) = reader.next_field()? {
        if field.number == number {
            fields.push(field);
        }
    }
    Ok(fields)
}

/// The last field `number` of the message.
pub(crate) fn last(value: &[u8], message: Range<usize>, number: u32) -> Result<Option<Field>, DecodeError> {
    Ok(fields(value, message, number)?.pop())
}

/// The first of the repeated messages `number` in the message.
pub(crate) fn first_message(
    value: &[u8],
    message: Range<usize>,
    number: u32,
) -> Result<Option<Range<usize>>, DecodeError> {
    Ok(fields(value, message, number)?.iter().find_map(|field| field.bytes().ok()))
}

/// The bytes of the last field `number`; empty if there is none.
pub(crate) fn last_bytes(value: &[u8], message: Range<usize>, number: u32) -> Result<Range<usize>, DecodeError> {
    let start = message.start;
    last(value, message, number)?.map_or(Ok(start..start), |field| field.bytes())
}
