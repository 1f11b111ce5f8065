//! The protobuf form of a stored RangeAllocation, by the wire format's description.

/// A RangeAllocation as it was read.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    /// Its range.
    pub range: String,
    /// Its data.
    pub data: Vec<u8>,
    /// What it encodes to: of `raw`, `range` and `data` only the last occurrence, all else as it was.
    pub encoded: Vec<u8>,
}

struct Field<'a> {
    number: u64,
    whole: &'a [u8],
    /// What a length-delimited field holds.
    content: Option<&'a [u8]>,
}

/// Decodes a stored value; `None` if it is not a RangeAllocation.
pub fn decode(stored: &[u8]) -> Option<Decoded> {
    let envelope = fields(stored.strip_prefix(b"k8s\0")?)?;
    let (mut api_version, mut kind) = (&b""[..], &b""[..]);
    for field in envelope.iter().filter(|field| field.number == 1) {
        for field in fields(field.content?)? {
            match field.number {
                1 => api_version = field.content?,
                2 => kind = field.content?,
                _ => {}
            }
        }
    }
    for field in &envelope {
        if let 2..=4 = field.number {
            field.content?;
        }
    }
    let encoding = last(&envelope, 3).unwrap_or_default();
    if api_version != b"v1" || kind != b"RangeAllocation" || !encoding.is_empty() {
        return None;
    }
    let raw = last(&envelope, 2)?;
    let object = fields(raw)?;
    for field in &object {
        match field.number {
            1 => drop(fields(field.content?)?),
            2 | 3 => drop(field.content?),
            _ => {}
        }
    }
    let encoded_object = rewrite(&object, &[2, 3], |field| field.content.unwrap_or_default().to_vec());
    let encoded = rewrite(&envelope, &[2], |_| encoded_object.clone());
    Some(Decoded {
        range: String::from_utf8(last(&object, 2).unwrap_or_default().to_vec()).ok()?,
        data: last(&object, 3).unwrap_or_default().to_vec(),
        encoded: [b"k8s\0", &encoded[..]].concat(),
    })
}

fn last<'a>(fields: &[Field<'a>], number: u64) -> Option<&'a [u8]> {
    fields.iter().rev().find(|field| field.number == number)?.content
}

fn rewrite(fields: &[Field<'_>], numbers: &[u64], content: impl Fn(&Field<'_>) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if !numbers.contains(&field.number) {
            out.extend_from_slice(field.whole);
        } else if !fields[index + 1..].iter().any(|later| later.number == field.number) {
            let content = content(field);
            out.push(field.number as u8 * 8 + 2);
            let mut length = content.len();
            while length > 127 {
                out.push((length % 128) as u8 + 128);
                length /= 128;
            }
            out.push(length as u8);
            out.extend(content);
        }
    }
    out
}

fn fields(mut message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let mut rest = message;
        let tag = varint(&mut rest)?;
        let number = tag / 8;
        if number == 0 || number >= 1 << 29 {
            return None;
        }
        let content = match tag % 8 {
            0 => {
                varint(&mut rest)?;
                None
            }
            1 => {
                rest = rest.get(8..)?;
                None
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let content = rest.get(..length)?;
                rest = &rest[length..];
                Some(content)
            }
            5 => {
                rest = rest.get(4..)?;
                None
            }
            _ => return None,
        };
        found.push(Field { number, whole: &message[..message.len() - rest.len()], content });
        message = rest;
    }
    Some(found)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let length = rest.iter().take(10).position(|byte| *byte < 128)? + 1;
    let value = rest[..length].iter().rev().fold(0_u128, |value, byte| value << 7 | u128::from(byte & 127));
    *rest = &rest[length..];
    value.try_into().ok()
}
