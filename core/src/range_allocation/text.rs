//! What JSON and YAML have in common: an object as text, in which encoding changes the values of `range` and `data`.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::{Part, yaml};

/// Standard base64 with padding. Like Go's decoder it ignores set bits after the last byte.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub(super) const NULL: &str = "null";
pub(super) const EMPTY_STRING: &str = "\"\"";

/// How strings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Json,
    Yaml,
}

/// The text without the values of `range` and `data`, and their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    pub(super) text: String,
    /// The places of range and data in `text`, in their order.
    pub(super) slots: [Slot; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) part: Part,
    pub(super) at: usize,
    /// The text for an empty value: an empty string, null, or nothing.
    pub(super) empty: &'static str,
    /// The key is not in `text`, so it is written with the value. Never in YAML.
    pub(super) write_key: bool,
}

impl Surroundings {
    /// Appends the encoded object to `out`.
    pub(super) fn encode(&self, syntax: Syntax, range: &str, data: &[u8], out: &mut Vec<u8>) {
        // Room for both values with quotes, and for both keys.
        out.reserve(self.text.len() + range.len() + data.len().div_ceil(3) * 4 + 32);
        let text = self.text.as_bytes();
        let mut done = 0;
        for slot in self.slots {
            out.extend_from_slice(&text[done..slot.at]);
            done = slot.at;
            let (key, is_empty) = match slot.part {
                Part::Range => ("range", range.is_empty()),
                Part::Data => ("data", data.is_empty()),
            };
            if is_empty {
                out.extend_from_slice(slot.empty.as_bytes());
                continue;
            }
            if slot.write_key {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"\":");
            }
            match slot.part {
                Part::Range if syntax == Syntax::Yaml && yaml::is_plain(range.as_bytes()) => {
                    out.extend_from_slice(range.as_bytes());
                }
                Part::Range => {
                    out.push(b'"');
                    write_escaped(range, out);
                    out.push(b'"');
                }
                Part::Data => {
                    let quote = out.len();
                    out.push(b'"');
                    write_base64(data, out);
                    if syntax == Syntax::Yaml && yaml::is_plain(&out[quote + 1..]) {
                        out.remove(quote);
                    } else {
                        out.push(b'"');
                    }
                }
            }
        }
        out.extend_from_slice(&text[done..]);
    }
}

/// The bytes of standard base64. An error is the index of the symbol that does not fit.
pub(super) fn decode_base64(symbols: &str) -> Result<Vec<u8>, usize> {
    BASE64.decode(symbols.as_bytes()).map_err(|error| match error {
        base64::DecodeError::InvalidByte(index, _) => index,
        base64::DecodeError::InvalidLastSymbol { offset, .. } => offset,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => symbols.len(),
    })
}

/// Escapes as Go's encoder does, which keeps JSON safe inside HTML and JavaScript.
fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for character in text.chars() {
        let escape = match character {
            '"' => b'"',
            '\\' => b'\\',
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\u{8}' => b'b',
            '\u{c}' => b'f',
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                continue;
            }
            _ => {
                out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
}

fn write_base64(data: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, b'=');
    BASE64.encode_slice(data, &mut out[start..]).expect("three bytes give four symbols");
}
