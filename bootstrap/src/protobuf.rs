//! As much of protobuf as a lease's value needs.

use std::ops::Range;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The byte that does not fit.
    pub(crate) offset: usize,
}

/// A field of a message, and where it lies in the value.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Number(u64),
    Bytes(Range<usize>),
    /// Of a fixed width, which none of the fields asked for has.
    Fixed,
}

/// The last field `number` of the message.
pub(crate) fn last(value: &[u8], message: Range<usize>, number: u64) -> Result<Option<Content>, Malformed> {
    let mut found = None;
    let mut reader = Reader { value, position: message.start, end: message.end };
    while let Some(field) = reader.field()? {
        if field.number == number {
            found = Some(field.content);
        }
    }
    Ok(found)
}

/// The first of the repeated messages `number` in the message.
pub(crate) fn first_message(
    value: &[u8],
    message: Range<usize>,
    number: u64,
) -> Result<Option<Range<usize>>, Malformed> {
    let mut reader = Reader { value, position: message.start, end: message.end };
    let mut first = None;
    while let Some(field) = reader.field()? {
        if let Content::Bytes(bytes) = field.content
            && field.number == number
        {
            first.get_or_insert(bytes);
        }
    }
    Ok(first)
}

/// The bytes of the last field `number`; empty if there is none.
pub(crate) fn last_bytes(value: &[u8], message: Range<usize>, number: u64) -> Result<Range<usize>, Malformed> {
    let start = message.start;
    match last(value, message, number)? {
        None => Ok(start..start),
        Some(Content::Bytes(bytes)) => Ok(bytes),
        Some(_) => Err(Malformed { offset: start }),
    }
}

struct Reader<'a> {
    value: &'a [u8],
    position: usize,
    end: usize,
}

impl Reader<'_> {
    fn field(&mut self) -> Result<Option<Field>, Malformed> {
        if self.position == self.end {
            return Ok(None);
        }
        let offset = self.position;
        let tag = self.varint()?;
        let number = tag >> 3;
        if !(1..1 << 29).contains(&number) {
            return Err(Malformed { offset });
        }
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => self.fixed(8)?,
            2 => {
                let offset = self.position;
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed { offset })?;
                if length > self.end - self.position {
                    return Err(Malformed { offset });
                }
                let start = self.position;
                self.position += length;
                Content::Bytes(start..self.position)
            }
            5 => self.fixed(4)?,
            _ => return Err(Malformed { offset }),
        };
        Ok(Some(Field { number, content }))
    }

    fn fixed(&mut self, length: usize) -> Result<Content, Malformed> {
        if self.end - self.position < length {
            return Err(Malformed { offset: self.end });
        }
        self.position += length;
        Ok(Content::Fixed)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, byte) in self.value[self.position..self.end].iter().enumerate() {
            // The tenth byte has room for one bit.
            if index == 9 && *byte > 1 {
                return Err(Malformed { offset: self.position });
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.position += index + 1;
                return Ok(number);
            }
        }
        Err(Malformed { offset: self.end })
    }
}

/// Appends a field of bytes.
pub(crate) fn write_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field with a number.
pub(crate) fn write_number(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3);
    write_varint(value, out);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
