//! The value of a server's lease: an Endpoints object in protobuf, by the wire format's description, or in JSON.

use serde_json::Value;

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The address and the generation in a protobuf value; `None` if it is not a lease. Messages without a field that is
/// read may be anything.
pub fn decode(stored: &[u8]) -> Option<(String, i64)> {
    let unknown = fields(stored.strip_prefix(b"k8s\0")?)?;
    let kind = fields(bytes(&unknown, 1)?).and_then(|type_meta| bytes(&type_meta, 2).map(<[u8]>::to_vec))?;
    if kind != b"Endpoints" || !bytes(&unknown, 3)?.is_empty() {
        return None;
    }
    let object = fields(bytes(&unknown, 2)?)?;
    let generation = match last(&fields(bytes(&object, 1)?)?, 7) {
        Some(Content::Number(generation)) => *generation as i64,
        _ => 0,
    };
    let subset = fields(first(&object, 2)?)?;
    let address = fields(first(&subset, 1)?)?;
    let ip = str::from_utf8(bytes(&address, 1)?).ok()?;
    (!ip.is_empty()).then(|| (ip.to_owned(), generation))
}

/// The same of a value in JSON that is known to be a lease.
pub fn decode_json(object: &Value) -> Option<(String, i64)> {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    Some((object["subsets"][0]["addresses"][0]["ip"].as_str()?.to_owned(), generation))
}

fn last<'a>(fields: &'a [(u64, Content<'a>)], number: u64) -> Option<&'a Content<'a>> {
    fields.iter().rev().find(|(found, _)| *found == number).map(|(_, content)| content)
}

/// The content of the last field of this number, empty without one; `None` if it is of another type.
fn bytes<'a>(fields: &[(u64, Content<'a>)], number: u64) -> Option<&'a [u8]> {
    match fields.iter().rev().find(|(found, _)| *found == number) {
        None => Some(b""),
        Some((_, Content::Bytes(bytes))) => Some(bytes),
        Some(_) => None,
    }
}

fn first<'a>(fields: &[(u64, Content<'a>)], number: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(found, content)| match content {
        Content::Bytes(bytes) if *found == number => Some(*bytes),
        _ => None,
    })
}

fn fields(mut rest: &[u8]) -> Option<Vec<(u64, Content<'_>)>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        if !(1..1 << 29).contains(&(tag / 8)) {
            return None;
        }
        let content = match tag % 8 {
            0 => Content::Number(varint(&mut rest)?),
            1 => fixed(&mut rest, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (content, behind) = rest.split_at_checked(length)?;
                rest = behind;
                Content::Bytes(content)
            }
            5 => fixed(&mut rest, 4)?,
            _ => return None,
        };
        found.push((tag / 8, content));
    }
    Some(found)
}

fn fixed<'a>(rest: &mut &[u8], length: usize) -> Option<Content<'a>> {
    *rest = rest.get(length..)?;
    Some(Content::Fixed)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let length = rest.iter().take(10).position(|byte| *byte < 128)? + 1;
    let value = rest[..length].iter().rev().fold(0_u128, |value, byte| value << 7 | u128::from(byte & 127));
    *rest = &rest[length..];
    value.try_into().ok()
}
