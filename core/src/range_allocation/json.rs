//! The JSON form: `{"kind":...,"apiVersion":...,"metadata":{...},"range":"...","data":"BASE64"}`.
//!
//! Keys are case-sensitive, as in Kubernetes' decoder. Strings are written as Go's encoder writes them.
//!
//! serde_json parses; the places of the values in the text are ours. A `serde_json::Map` of `RawValue`s in their order
//! would be shorter, but a rewrite would change white space and the spelling of keys, and an error about a value could
//! not name its byte (docs/stored-format.md, "What survives a rewrite").

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::excerpt;
use super::text::{EMPTY_STRING, NULL, Slot, Surroundings, decode_base64};
use super::{DecodeError, Part, RangeAllocation};

/// A fresh object up to the value of `range`. 1.36 writes empty metadata like this; older servers write a null
/// `creationTimestamp` into it.
const FRESH_HEAD: &str = r#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"#;
const FRESH_MIDDLE: &str = r#","data":"#;
/// Go's encoder ends each value with a line feed.
const FRESH_TAIL: &str = "}\n";

/// A fresh object's text, and the places of its values.
pub(super) fn fresh() -> Surroundings {
    let slot = |part, at| Slot { part, at, empty: EMPTY_STRING, write_key: false };
    Surroundings {
        text: [FRESH_HEAD, FRESH_MIDDLE, FRESH_TAIL].concat(),
        slots: [slot(Part::Range, FRESH_HEAD.len()), slot(Part::Data, FRESH_HEAD.len() + FRESH_MIDDLE.len())],
    }
}

/// Decodes a value whose first byte that is not white space is `{`.
pub(super) fn decode(stored: &[u8]) -> Result<RangeAllocation, DecodeError> {
    let text = str::from_utf8(stored).map_err(|error| DecodeError::InvalidUtf8 { offset: error.valid_up_to() })?;
    let mut members = Members::new(text);
    let mut parser = serde_json::Deserializer::from_str(text);
    parser.deserialize_map(&mut members).and_then(|()| parser.end()).map_err(|error| syntax_error(&error, text, 0))?;

    let start = text.len() - text.trim_start().len();
    let kind = members.kind.string(text)?;
    if kind != "RangeAllocation" {
        return Err(DecodeError::WrongKind {
            offset: members.kind.value.map_or(start, |value| value.start),
            found: excerpt(kind.as_bytes()),
        });
    }
    if members.api_version.string(text)?.is_empty() {
        return Err(DecodeError::WrongApiVersion {
            offset: members.api_version.value.map_or(start, |value| value.start),
            found: String::new(),
        });
    }
    Ok(RangeAllocation {
        range: members.range.string(text)?.into_owned(),
        data: members.data.base64(text)?,
        surroundings: super::Surroundings::Json(members.surroundings()),
    })
}

/// The members of the object that are read, and the ones to remove from the text.
struct Members<'a> {
    text: &'a str,
    kind: Member,
    api_version: Member,
    range: Member,
    data: Member,
    /// Earlier occurrences of range and data: from their keys up to the keys that follow.
    superseded: Vec<Range<usize>>,
    /// The part (range or data) whose member was read last, if no other member followed yet.
    last: Option<Part>,
    /// End of the last member's value.
    end: usize,
}

/// One member. Positions are offsets in the text.
struct Member {
    name: &'static str,
    /// The last value. A null that does not replace an earlier value does not count.
    value: Option<Range<usize>>,
    /// The last occurrence, whatever its value.
    place: Option<Place>,
}

struct Place {
    /// From the key up to the next key, once that is known.
    member: Range<usize>,
    value: Range<usize>,
    is_null: bool,
}

impl<'a> Members<'a> {
    fn new(text: &'a str) -> Self {
        Members {
            text,
            kind: Member::new("kind"),
            api_version: Member::new("apiVersion"),
            range: Member::new("range"),
            data: Member::new("data"),
            superseded: Vec::new(),
            last: None,
            end: 0,
        }
    }

    fn part(&mut self, part: Part) -> &mut Member {
        match part {
            Part::Range => &mut self.range,
            Part::Data => &mut self.data,
        }
    }

    fn member(&mut self, key: &'a RawValue, value: &'a RawValue) {
        let start = self.offset(key);
        if let Some(part) = self.last.take()
            && let Some(place) = &mut self.part(part).place
        {
            place.member.end = start;
        }
        let is_null = value.get() == NULL;
        let value = self.offset(value)..self.offset(value) + value.get().len();
        self.end = value.end;
        let name = unescape(key.get()).unwrap_or_default();
        let part = match &*name {
            "kind" if !is_null => {
                self.kind.value = Some(value);
                return;
            }
            "apiVersion" if !is_null => {
                self.api_version.value = Some(value);
                return;
            }
            "range" => Part::Range,
            "data" => Part::Data,
            _ => return,
        };
        let member = self.part(part);
        // When Go reads null it keeps a string, but sets a byte slice to nil.
        match part {
            Part::Range if is_null => {}
            Part::Data if is_null => member.value = None,
            _ => member.value = Some(value.clone()),
        }
        let place = Place { member: start..value.end, value, is_null };
        if let Some(earlier) = member.place.replace(place) {
            self.superseded.push(earlier.member);
        }
        self.last = Some(part);
    }

    /// The offset of a part of the text.
    fn offset(&self, part: &RawValue) -> usize {
        part.get().as_ptr().addr() - self.text.as_ptr().addr()
    }

    /// Removes superseded members and the values of range and data from the text.
    fn surroundings(mut self) -> Surroundings {
        self.superseded.sort_by_key(|member| member.start);
        let mut superseded = self.superseded.into_iter().peekable();
        let mut values = [self.range.slot(Part::Range, self.end), self.data.slot(Part::Data, self.end)];
        // Stable: range goes before data where both are missing.
        values.sort_by_key(|(span, _)| span.start);

        let mut text = String::new();
        let mut done = 0;
        let slots = values.map(|(span, slot)| {
            while let Some(member) = superseded.next_if(|member| member.start < span.start) {
                text.push_str(&self.text[done..member.start]);
                done = member.end;
            }
            text.push_str(&self.text[done..span.start]);
            done = span.end;
            Slot { at: text.len(), ..slot }
        });
        text.push_str(&self.text[done..]);
        Surroundings { text, slots }
    }
}

impl<'de> Visitor<'de> for &mut Members<'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a RangeAllocation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry()? {
            self.member(key, value);
        }
        Ok(())
    }
}

impl Member {
    fn new(name: &'static str) -> Self {
        Member { name, value: None, place: None }
    }

    /// The value as a string; empty if there is none.
    fn string<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, DecodeError> {
        let Some(span) = self.value.clone() else {
            return Ok(Cow::Borrowed(""));
        };
        let start = span.start;
        let value = &text[span];
        let found = match value.as_bytes().first() {
            Some(b'"') => return unescape(value).map_err(|error| syntax_error(&error, value, start)),
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b't' | b'f') => "a boolean",
            _ => "a number",
        };
        Err(DecodeError::NotAString { offset: start, field: self.name, found })
    }

    /// The bytes that the value encodes; empty if there is none.
    fn base64(&self, text: &str) -> Result<Vec<u8>, DecodeError> {
        let start = self.value.as_ref().map_or(0, |value| value.start);
        let symbols = self.string(text)?;
        // Go's decoder skips line breaks, which JSON can only have as escapes.
        let is_escaped = matches!(symbols, Cow::Owned(_));
        let symbols = if is_escaped && symbols.contains(['\r', '\n']) {
            Cow::Owned(symbols.replace(['\r', '\n'], ""))
        } else {
            symbols
        };
        decode_base64(&symbols)
            .map_err(|index| DecodeError::Base64 { offset: if is_escaped { start } else { start + 1 + index } })
    }

    /// The place of this member's value in the text, and the slot for it (whose place in the remaining text is not
    /// known yet). A missing member has its place at `end`.
    fn slot(&self, part: Part, end: usize) -> (Range<usize>, Slot) {
        let (span, empty) = match &self.place {
            None => (end..end, ""),
            Some(place) if place.is_null => (place.value.clone(), NULL),
            Some(place) => (place.value.clone(), EMPTY_STRING),
        };
        let slot = Slot { part, at: span.start, empty, write_key: self.place.is_none() };
        (span, slot)
    }
}

/// The text of a JSON string. `string` includes the quotes.
fn unescape(string: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    if string.contains('\\') {
        serde_json::from_str(string).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(&string[1..string.len() - 1]))
    }
}

/// `text` is the parsed text, which begins at offset `start` of the stored value.
fn syntax_error(error: &serde_json::Error, text: &str, start: usize) -> DecodeError {
    let (line, column) = (error.line(), error.column());
    let offset = if error.is_eof() {
        text.len()
    } else {
        let lines_before = text.split_inclusive('\n').take(line.saturating_sub(1));
        lines_before.map(str::len).sum::<usize>() + column.saturating_sub(1)
    };
    let reason = error.to_string();
    let position = format!(" at line {line} column {column}");
    DecodeError::JsonSyntax {
        offset: start + offset.min(text.len()),
        reason: reason.strip_suffix(&position).unwrap_or(&reason).to_owned(),
    }
}
