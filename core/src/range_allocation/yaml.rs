//! The YAML form, as a kube-apiserver with `--storage-media-type=application/yaml` writes it:
//!
//! ```yaml
//! apiVersion: v1
//! data: AQ==
//! kind: RangeAllocation
//! metadata: {}
//! range: 10.96.0.0/12
//! ```
//!
//! Only this form is read, line by line: a value in the line of its key, and below a key without one lines that are
//! indented or begin with a hyphen. A parser of all of YAML, saphyr-parser, made the library in WebAssembly a fifth
//! larger (158 KB), for text that no server writes; and it reads YAML 1.2, but the server YAML 1.1
//! (go.yaml.in/yaml/v2), so which words are strings would be decided here all the same.

use std::borrow::Cow;
use std::ops::Range;

use super::error::excerpt;
use super::text::{EMPTY_STRING, NULL, Slot, Surroundings, decode_base64};
use super::{DecodeError, Part, RangeAllocation};

/// A fresh object up to the value of `data`. The server sorts the keys.
const FRESH_HEAD: &str = "apiVersion: v1\ndata: ";
const FRESH_MIDDLE: &str = "\nkind: RangeAllocation\nmetadata: {}\nrange: ";
const FRESH_TAIL: &str = "\n";

/// A fresh object's text, and the places of its values.
pub(super) fn fresh() -> Surroundings {
    let slot = |part, at| Slot { part, at, empty: EMPTY_STRING, write_key: false };
    Surroundings {
        text: [FRESH_HEAD, FRESH_MIDDLE, FRESH_TAIL].concat(),
        slots: [slot(Part::Data, FRESH_HEAD.len()), slot(Part::Range, FRESH_HEAD.len() + FRESH_MIDDLE.len())],
    }
}

/// Decodes a value that is neither protobuf nor JSON; `None` if it does not look like YAML either.
pub(super) fn decode(stored: &[u8]) -> Result<Option<RangeAllocation>, DecodeError> {
    let Some(lines) = lines(stored)? else { return Ok(None) };
    let end = stored.len();
    let mut fields = ["kind", "apiVersion", "range", "data"].map(|name| (name, None));
    let mut last = None;
    for line in lines {
        let line = line?;
        if line.column > 0 {
            if let Some(field) = last {
                return Err(line.error(format!("{field} has several lines")));
            }
            // Metadata, which survives as it is.
            continue;
        }
        last = None;
        if let Some((name, place)) = fields.iter_mut().find(|(name, _)| *name == line.key) {
            last = Some(*name);
            if place.replace(line).is_some() {
                return Err(line.error(format!("{name} is there for the second time")));
            }
        }
    }
    let [kind, api_version, range, data] = fields.map(|(name, line)| {
        // A kube-apiserver writes all four, also when they are empty.
        line.ok_or_else(|| DecodeError::Yaml {
            offset: end,
            line: count(stored),
            reason: format!("there is no {name}"),
        })
    });
    let (kind, api_version, range, data) = (kind?, api_version?, range?, data?);
    let found = kind.string("kind")?;
    if found != "RangeAllocation" {
        return Err(DecodeError::WrongKind { offset: kind.value_at, found: excerpt(found.as_bytes()) });
    }
    if api_version.string("apiVersion")?.is_empty() {
        return Err(DecodeError::WrongApiVersion { offset: api_version.value_at, found: String::new() });
    }
    let quote = usize::from(data.value.starts_with('"'));
    let bytes = decode_base64(&data.string("data")?)
        .map_err(|index| DecodeError::Base64 { offset: (data.value_at + quote + index).min(end) })?;
    let range_text = range.string("range")?.into_owned();

    let mut values = [(Part::Range, range), (Part::Data, data)];
    values.sort_by_key(|(_, line)| line.value_at);
    let (mut rest, mut done) = (String::new(), 0);
    let slots = values.map(|(part, line)| {
        let place = line.place();
        rest.push_str(&line.text[done..place.start]);
        done = place.end;
        let empty = if content(line.value) == Content::Null { NULL } else { EMPTY_STRING };
        Slot { part, at: rest.len(), empty, write_key: false }
    });
    rest.push_str(&range.text[done..]);
    let surroundings = super::Surroundings::Yaml(Surroundings { text: rest, slots });
    Ok(Some(RangeAllocation { range: range_text, data: bytes, surroundings }))
}

/// The lines of a value that is neither protobuf nor JSON; `None` if it does not begin with a key of YAML.
///
/// Public for `rangekeeper-bootstrap`, which reads leases with it.
///
/// # Errors
/// If the value is not UTF-8, or does not end with a line feed.
pub fn lines(stored: &[u8]) -> Result<Option<Lines<'_>>, DecodeError> {
    let key = stored.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    if key == 0 || stored.get(key) != Some(&b':') {
        return Ok(None);
    }
    let text = str::from_utf8(stored).map_err(|error| DecodeError::InvalidUtf8 { offset: error.valid_up_to() })?;
    // A kube-apiserver ends the text with a line feed. Without it the range may be cut off, and still be one.
    if !text.ends_with('\n') {
        return Err(DecodeError::Truncated { offset: text.len() });
    }
    Ok(Some(Lines { text, at: 0, number: 0 }))
}

/// The number of lines.
fn count(stored: &[u8]) -> usize {
    stored.iter().filter(|byte| **byte == b'\n').count()
}

/// Reads the lines of an object.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

/// A line of an object, with a key in column 0, or of what is below such a key.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    text: &'a str,
    /// Where the line begins.
    offset: usize,
    number: usize,
    /// The column of its first character that is neither a space nor the hyphen of an item.
    pub column: usize,
    /// The column of the last hyphen.
    pub item: Option<usize>,
    /// The key; empty if there is none.
    pub key: &'a str,
    /// What follows: the value as it is written.
    pub value: &'a str,
    value_at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (line, _) = self.text[self.at..].split_once('\n')?;
        let offset = self.at;
        self.at += line.len() + 1;
        self.number += 1;
        let mut found = Line {
            text: self.text,
            offset,
            number: self.number,
            column: 0,
            item: None,
            key: "",
            value: line,
            value_at: offset,
        };
        let mut rest = line.trim_start_matches(' ');
        while let Some(item) = rest.strip_prefix("- ") {
            found.item = Some(line.len() - rest.len());
            rest = item.trim_start_matches(' ');
        }
        found.column = line.len() - rest.len();
        let key = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let value = match rest[key..].strip_prefix(':') {
            Some("") => Some(""),
            Some(value) => value.strip_prefix(' '),
            None => None,
        };
        if let Some(value) = value.filter(|_| key > 0) {
            found.key = &rest[..key];
            found.value = value;
            found.value_at = offset + line.len() - value.len();
        } else if found.column == 0 {
            return Some(Err(found.error("this is not a key with a value, as kube-apiserver writes it".to_owned())));
        }
        Some(Ok(found))
    }
}

impl<'a> Line<'a> {
    /// The value as a string; empty if it is null.
    ///
    /// # Errors
    /// If it is no string in one line, without quotes or between double quotes, as kube-apiserver writes it.
    pub fn string(&self, field: &'static str) -> Result<Cow<'a, str>, DecodeError> {
        let found = match content(self.value) {
            Content::Null if !self.value.is_empty() => return Ok(Cow::Borrowed("")),
            Content::Null => "nothing in its line",
            Content::Boolean => "a boolean",
            Content::Number => "a number",
            Content::Text if is_bare(self.value) => return Ok(Cow::Borrowed(self.value)),
            // What the server writes between double quotes has no escapes that JSON does not have.
            Content::Text => match serde_json::from_str(self.value) {
                Ok(text) => return Ok(Cow::Owned(text)),
                Err(_) => "YAML in another form than kube-apiserver writes",
            },
        };
        Err(DecodeError::NotAString { offset: self.value_at, field, found })
    }

    /// The place of the value in the text.
    fn place(&self) -> Range<usize> {
        self.value_at..self.value_at + self.value.len()
    }

    /// An error about this line.
    fn error(&self, reason: String) -> DecodeError {
        DecodeError::Yaml { offset: self.offset, line: self.number, reason }
    }
}

/// What kube-apiserver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Null,
    Boolean,
    Number,
    Text,
}

/// What kube-apiserver reads where this stands without quotes (go.yaml.in/yaml/v2 v2.4.4, resolve.go).
fn content(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Content::Boolean,
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Content::Boolean,
        _ if is_number(text) => Content::Number,
        _ => Content::Text,
    }
}

fn is_number(text: &str) -> bool {
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return false;
    }
    let digits = text.replace('_', "");
    is_integer(&digits) || is_float(&digits) || matches!(&*unsigned(text).1.to_ascii_lowercase(), ".inf" | ".nan")
}

/// The sign, and what follows it.
fn unsigned(text: &str) -> (Option<char>, &str) {
    match text.chars().next() {
        Some(sign @ ('+' | '-')) => (Some(sign), &text[1..]),
        _ => (None, text),
    }
}

/// Whether Go's strconv.ParseInt or ParseUint takes it, of any base.
fn is_integer(text: &str) -> bool {
    let (sign, digits) = unsigned(text);
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Rust takes a sign, too.
    let value = if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() };
    value.is_some_and(|value| match sign {
        None => true,
        Some('-') => value <= 1 << 63,
        Some(_) => value < 1 << 63,
    })
}

/// Whether it has the form `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, and is not too large for 64 bits.
/// The standard library's parser would bring tables of 10 KB into each instance of the library in WebAssembly.
fn is_float(text: &str) -> bool {
    let text = unsigned(text).1;
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (sign, exponent) = unsigned(exponent);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_empty = whole.len() + fraction.len() == 0 || exponent.is_empty();
    if is_empty || !is_digits(whole) || !is_digits(fraction) || !is_digits(exponent) {
        return false;
    }
    let digits = || whole.bytes().chain(fraction.bytes());
    let zeros = digits().take_while(|digit| *digit == b'0').count();
    if zeros == whole.len() + fraction.len() {
        return true;
    }
    let exponent = exponent.parse().unwrap_or(i64::from(i32::MAX)).min(i32::MAX.into());
    let exponent = if sign == Some('-') { -exponent } else { exponent };
    // The power of ten of the first digit.
    let power = whole.len() as i64 - zeros as i64 - 1 + exponent;
    power < 308 || power == 308 && digits().skip(zeros).lt(TOO_LARGE.bytes())
}

/// The first digits of the smallest number that is rounded to infinity, about 1.8e308.
const TOO_LARGE: &str = "179769313486231580793728971405303415079934";

/// Whether the text means itself without quotes, unless it is a number or a word.
fn is_bare(text: &str) -> bool {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"/:.+=-<>&_".contains(&byte);
    text.bytes().all(is_bare) && !text.starts_with(['-', '>', '&']) && !text.ends_with(':') && text != "<<"
}

/// Whether kube-apiserver writes this text of a range, or base64, without quotes. Of other texts it may do so, too.
pub(super) fn is_plain(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else { return false };
    let is_date = || text.starts_with(|first: char| first.is_ascii_digit()) && text.matches('-').count() > 1;
    // Minutes and seconds to the base of 60, in YAML 1.1.
    let is_time = || text.contains(':') && text.bytes().all(|byte| byte.is_ascii_digit() || b":._+-".contains(&byte));
    is_bare(text) && content(text) == Content::Text && !is_date() && !is_time()
}

#[cfg(test)]
mod tests {
    use super::is_float;

    #[test]
    fn floats_are_those_of_the_standard_library() {
        let edges = [
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.797693134862315808e308",
            "17976931348623159e292",
            "0.00017e312",
            "0.00018e312",
            "1e308",
            "1e309",
            "9e307",
            "0e999",
            "1e-999",
            "00e5",
            ".",
            "",
            "-",
            "1e",
            "1e+",
            ".5",
            "5.",
            "-.5e-3",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "1.2.3",
            "1e5e5",
            "+1",
            "12345678901234567890",
        ];
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut any = Vec::new();
        for _ in 0..200_000 {
            let length = random(9);
            any.push((0..length).map(|_| b"0179.eE+-"[random(9) as usize] as char).collect::<String>());
        }
        let mut cases = [0, 0];
        for text in edges.into_iter().map(str::to_owned).chain(any) {
            let expected = text.parse::<f64>().is_ok_and(f64::is_finite);
            assert_eq!(is_float(&text), expected, "{text:?}");
            cases[usize::from(expected)] += 1;
        }
        println!("{} floats, {} other texts", cases[1], cases[0]);
        assert!(cases.iter().all(|count| *count > 10_000));
    }
}
