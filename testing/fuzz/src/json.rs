//! The JSON form of a stored RangeAllocation: its members in order, with their values as text.

use std::fmt;

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// A RangeAllocation as it was read.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    /// Its range.
    pub range: String,
    /// Its data.
    pub data: Vec<u8>,
    /// All members; of `range` and `data` only the last occurrence, without its value.
    pub members: Vec<(String, String)>,
    /// Whether `range` or `data` occurs more than once.
    pub repeated: bool,
    /// Whether range and data are written as an encoder writes them, and once at most.
    pub canonical: bool,
}

/// Decodes a stored value; `None` if it is not a RangeAllocation.
pub fn decode(stored: &[u8]) -> Option<Decoded> {
    let text = str::from_utf8(stored).ok()?;
    let mut parser = serde_json::Deserializer::from_str(text);
    let members = parser.deserialize_map(Members).ok()?;
    parser.end().ok()?;
    if string(&members, "kind")?? != "RangeAllocation" || string(&members, "apiVersion")??.is_empty() {
        return None;
    }
    let range = string(&members, "range")?.unwrap_or_default();
    let data = match members.iter().rev().find(|(name, _)| name == "data") {
        Some((_, value)) if value != "null" => base64(&serde_json::from_str::<String>(value).ok()?)?,
        _ => Vec::new(),
    };

    let mut rest = Vec::new();
    let (mut canonical, mut repeated) = (true, false);
    for (index, (name, value)) in members.iter().enumerate() {
        if name != "range" && name != "data" {
            rest.push((name.clone(), value.clone()));
            continue;
        }
        let plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"\"-+/=.: ".contains(&byte));
        let stray_bits = name == "data" && !data.is_empty() && *value != format!("\"{}\"", to_base64(&data));
        canonical &= plain && !stray_bits;
        if members[index + 1..].iter().any(|(later, _)| later == name) {
            repeated = true;
        } else {
            rest.push((name.clone(), String::new()));
        }
    }
    Some(Decoded { range, data, members: rest, repeated, canonical: canonical && !repeated })
}

/// The last value of a member that is not null; `None` if it is not a string, `Some(None)` if there is none.
fn string(members: &[(String, String)], name: &str) -> Option<Option<String>> {
    match members.iter().rev().find(|(found, value)| found == name && value != "null") {
        Some((_, value)) => serde_json::from_str(value).ok().map(Some),
        None => Some(None),
    }
}

const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding; line breaks are passed over, bits behind the last byte may be set.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.bytes().filter(|byte| !b"\r\n".contains(byte)).collect();
    let mut out = Vec::new();
    for (index, group) in text.chunks(4).enumerate() {
        let symbols = group.iter().position(|symbol| *symbol == b'=').unwrap_or(4);
        let is_last = (index + 1) * 4 >= text.len();
        if group.len() < 4 || symbols < 2 || symbols < 4 && !is_last || group[symbols..].iter().any(|pad| *pad != b'=')
        {
            return None;
        }
        let mut bits = 0_u32;
        for symbol in &group[..symbols] {
            bits = bits * 64 + SYMBOLS.iter().position(|known| known == symbol)? as u32;
        }
        bits <<= 6 * (4 - symbols);
        out.extend_from_slice(&bits.to_be_bytes()[1..symbols]);
    }
    Some(out)
}

fn to_base64(data: &[u8]) -> String {
    let mut text = String::new();
    for group in data.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for place in 0..4 {
            let symbol = SYMBOLS[(bits >> (18 - 6 * place)) as usize % 64] as char;
            text.push(if place <= group.len() { symbol } else { '=' });
        }
    }
    text
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, String)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            // A name that is not a text is not one of ours.
            members.push((serde_json::from_str(name.get()).unwrap_or_default(), value.get().to_owned()));
        }
        Ok(members)
    }
}
