//! The protobuf form: `k8s\0`, then
//!
//! ```text
//! Unknown         { 1 typeMeta, 2 raw (a RangeAllocation), 3 contentEncoding, 4 contentType }
//! TypeMeta        { 1 apiVersion, 2 kind }
//! RangeAllocation { 1 metadata, 2 range, 3 data }
//! ```
//!
//! All of these fields are length-delimited (wire type 2). Numbers and order are those of
//! Kubernetes' generated.proto files; kube-apiserver writes every field but a nil `data` even
//! when it is empty.

use std::ops::Range;

use super::error::excerpt;
use super::{DecodeError, Part, RangeAllocation};

/// The prefix of etcd values in Kubernetes' protobuf form.
pub(super) const PREFIX: &[u8] = b"k8s\0";

const FRESH_TYPE_META: &[u8] = b"\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation";
/// Empty contentEncoding and contentType.
const FRESH_CONTENT: &[u8] = b"\x1a\x00\x22\x00";
/// Empty ObjectMeta: name, generateName, namespace, selfLink, uid, resourceVersion, generation
/// (a number) and creationTimestamp.
const FRESH_METADATA: &[u8] = b"\x0a\x10\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00";

const RAW_TAG: u8 = 0x12;
const RANGE_TAG: u8 = 0x12;
const DATA_TAG: u8 = 0x1a;
/// Field 15, which no RangeAllocation of Kubernetes has.
const LEDGER_TAG: u8 = 0x7a;

/// All fields but `raw`, `range` and `data` as they were read, and the places of these three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// The prefix and the fields of the Unknown message.
    unknown: Vec<u8>,
    /// Where in `unknown` the `raw` field goes.
    raw_at: usize,
    /// The fields of the RangeAllocation message.
    object: Vec<u8>,
    /// Where in `object` range and data go, in the order of writing.
    slots: [Slot; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    part: Part,
    at: usize,
    /// The field is not there as long as it is empty.
    omit_empty: bool,
}

impl Surroundings {
    pub(super) fn fresh() -> Self {
        let at = FRESH_METADATA.len();
        let slot = |part| Slot { part, at, omit_empty: false };
        Surroundings {
            unknown: [PREFIX, FRESH_TYPE_META, FRESH_CONTENT].concat(),
            raw_at: PREFIX.len() + FRESH_TYPE_META.len(),
            object: FRESH_METADATA.to_vec(),
            slots: [slot(Part::Range), slot(Part::Data)],
        }
    }

    /// Appends the encoded object to `out`, with the state of a ledger unless that is empty.
    pub(super) fn encode(&self, range: &str, data: &[u8], ledger: &[u8], out: &mut Vec<u8>) {
        let fields = self.slots.map(|slot| {
            let (tag, content) = match slot.part {
                Part::Range => (RANGE_TAG, range.as_bytes()),
                Part::Data => (DATA_TAG, data),
            };
            let written = !(slot.omit_empty && content.is_empty());
            (slot.at, tag, written.then_some(content))
        });
        let raw_len = self.object.len()
            + fields
                .iter()
                .filter_map(|&(_, _, content)| content)
                .map(|content| field_len(content.len()))
                .sum::<usize>()
            + if ledger.is_empty() { 0 } else { field_len(ledger.len()) };
        out.reserve(self.unknown.len() + field_len(raw_len));

        out.extend_from_slice(&self.unknown[..self.raw_at]);
        write_header(RAW_TAG, raw_len, out);
        let mut done = 0;
        for (at, tag, content) in fields {
            out.extend_from_slice(&self.object[done..at]);
            done = at;
            if let Some(content) = content {
                write_header(tag, content.len(), out);
                out.extend_from_slice(content);
            }
        }
        out.extend_from_slice(&self.object[done..]);
        if !ledger.is_empty() {
            write_header(LEDGER_TAG, ledger.len(), out);
            out.extend_from_slice(ledger);
        }
        out.extend_from_slice(&self.unknown[self.raw_at..]);
    }
}

/// Decodes a value that begins with [`PREFIX`].
pub(super) fn decode(stored: &[u8]) -> Result<RangeAllocation, DecodeError> {
    decode_parts(stored, false).map(|(object, _)| object)
}

/// Decodes a value that begins with [`PREFIX`] as the one of a ledger. Returns the object without the ledger's state,
/// and the place of that in `stored`.
#[cfg(feature = "ledger")]
pub(super) fn decode_ledger(stored: &[u8]) -> Result<(RangeAllocation, Range<usize>), DecodeError> {
    decode_parts(stored, true)
}

fn decode_parts(stored: &[u8], cut_ledger: bool) -> Result<(RangeAllocation, Range<usize>), DecodeError> {
    let (unknown, raw_at, raw) = decode_unknown(stored)?;
    let mut object = Remainder::new(stored, raw.clone());
    let mut reader = Reader::new(stored, raw, "RangeAllocation");
    let mut range: Option<(usize, Range<usize>)> = None;
    let mut data: Option<(usize, Range<usize>)> = None;
    let mut data_first = false;
    let mut ledger = 0..0;
    while let Some(field) = reader.next_field()? {
        match field.number {
            1 => {
                let mut metadata = Reader::new(stored, field.bytes()?, "ObjectMeta");
                while metadata.next_field()?.is_some() {}
            }
            2 => {
                range = Some((object.cut(&field), field.bytes()?));
                data_first = data.is_some();
            }
            3 => {
                data = Some((object.cut(&field), field.bytes()?));
                data_first = false;
            }
            15 if cut_ledger => {
                object.cut(&field);
                ledger = field.bytes()?;
            }
            _ => {}
        }
    }
    let object = object.finish();

    // A missing field that gets a value is written in kube-apiserver's order: data last, range before data.
    let data_at = data.as_ref().map_or(object.len(), |&(at, _)| at);
    let data_slot = Slot { part: Part::Data, at: data_at, omit_empty: data.is_none() };
    let range_slot =
        Slot { part: Part::Range, at: range.as_ref().map_or(data_at, |&(at, _)| at), omit_empty: range.is_none() };
    let range = range.map_or(0..0, |(_, bytes)| bytes);
    let data = data.map_or(0..0, |(_, bytes)| bytes);
    let text = str::from_utf8(&stored[range.clone()])
        .map_err(|error| DecodeError::InvalidUtf8 { offset: range.start + error.valid_up_to() })?;
    let object = RangeAllocation {
        range: text.to_owned(),
        data: stored[data].to_vec(),
        surroundings: super::Surroundings::Protobuf(Surroundings {
            unknown,
            raw_at,
            object,
            slots: if data_first { [data_slot, range_slot] } else { [range_slot, data_slot] },
        }),
    };
    Ok((object, ledger))
}

/// Reads the prefix and the Unknown message. Returns their bytes without `raw`, the place of `raw` in them, and the
/// place of its content in `stored`.
fn decode_unknown(stored: &[u8]) -> Result<(Vec<u8>, usize, Range<usize>), DecodeError> {
    let mut reader = Reader::new(stored, PREFIX.len()..stored.len(), "Unknown");
    let mut unknown = Remainder::new(stored, 0..stored.len());
    let mut type_meta = TypeMeta { api_version: PREFIX.len()..PREFIX.len(), kind: PREFIX.len()..PREFIX.len() };
    let mut raw = None;
    let mut content_encoding = 0..0;
    while let Some(field) = reader.next_field()? {
        match field.number {
            1 => type_meta.merge(stored, field.bytes()?)?,
            2 => raw = Some((unknown.cut(&field), field.bytes()?)),
            3 => content_encoding = field.bytes()?,
            4 => {
                field.bytes()?;
            }
            _ => {}
        }
    }
    if &stored[type_meta.kind.clone()] != b"RangeAllocation" {
        return Err(DecodeError::WrongKind { offset: type_meta.kind.start, found: excerpt(&stored[type_meta.kind]) });
    }
    if &stored[type_meta.api_version.clone()] != b"v1" {
        return Err(DecodeError::WrongApiVersion {
            offset: type_meta.api_version.start,
            found: excerpt(&stored[type_meta.api_version]),
        });
    }
    if !content_encoding.is_empty() {
        return Err(DecodeError::ContentEncoding {
            offset: content_encoding.start,
            found: excerpt(&stored[content_encoding]),
        });
    }
    // Without `raw` the object would count as never initialised and be overwritten. No server stores such a value: it
    // was cut off after its typeMeta.
    let (raw_at, raw) = raw.ok_or(DecodeError::Truncated { offset: stored.len() })?;
    Ok((unknown.finish(), raw_at, raw))
}

/// The places of apiVersion and kind in the stored value.
struct TypeMeta {
    api_version: Range<usize>,
    kind: Range<usize>,
}

impl TypeMeta {
    fn merge(&mut self, stored: &[u8], message: Range<usize>) -> Result<(), DecodeError> {
        let mut reader = Reader::new(stored, message, "TypeMeta");
        while let Some(field) = reader.next_field()? {
            match field.number {
                1 => self.api_version = field.bytes()?,
                2 => self.kind = field.bytes()?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Collects the bytes of the stored value without the fields that are cut out of it. A repeated field is cut out each
/// time; only its last place counts.
struct Remainder<'a> {
    stored: &'a [u8],
    kept: Vec<u8>,
    /// The start of the bytes that are neither kept nor cut out yet.
    from: usize,
    end: usize,
}

impl<'a> Remainder<'a> {
    fn new(stored: &'a [u8], bytes: Range<usize>) -> Self {
        Remainder { stored, kept: Vec::new(), from: bytes.start, end: bytes.end }
    }

    /// Cuts out `field` and returns its place among the kept bytes.
    fn cut(&mut self, field: &Field) -> usize {
        self.kept.extend_from_slice(&self.stored[self.from..field.start]);
        self.from = field.end;
        self.kept.len()
    }

    fn finish(mut self) -> Vec<u8> {
        self.kept.extend_from_slice(&self.stored[self.from..self.end]);
        self.kept
    }
}

/// Reads the fields of one message inside a value, in their order. All positions are offsets in the value.
///
/// Public for `rangekeeper-bootstrap`, which reads leases with it.
#[derive(Debug)]
pub struct Reader<'a> {
    stored: &'a [u8],
    position: usize,
    end: usize,
    message: &'static str,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    message: &'static str,
    /// The field's number.
    pub number: u32,
    wire_type: u8,
    start: usize,
    /// Where the content begins: after the tag, and the length if there is one.
    content: usize,
    end: usize,
    /// The content of a field of wire type 0.
    varint: u64,
}

impl Field {
    /// The place of a length-delimited field's content.
    ///
    /// # Errors
    /// If the field has another wire type.
    pub fn bytes(&self) -> Result<Range<usize>, DecodeError> {
        if self.wire_type == 2 { Ok(self.content..self.end) } else { Err(self.wrong_wire_type()) }
    }

    /// The content of a field of wire type 0; `None` for another wire type.
    pub fn varint(&self) -> Option<u64> {
        (self.wire_type == 0).then_some(self.varint)
    }

    fn wrong_wire_type(&self) -> DecodeError {
        DecodeError::WireType {
            offset: self.start,
            message: self.message,
            field: self.number,
            wire_type: self.wire_type,
        }
    }
}

impl<'a> Reader<'a> {
    /// A reader of the message at `bytes` of `stored`, which errors call `message`.
    pub fn new(stored: &'a [u8], bytes: Range<usize>, message: &'static str) -> Self {
        Reader { stored, position: bytes.start, end: bytes.end, message }
    }

    /// The next field; `None` at the end of the message.
    ///
    /// # Errors
    /// If the bytes at the position are not a field.
    pub fn next_field(&mut self) -> Result<Option<Field>, DecodeError> {
        if self.position == self.end {
            return Ok(None);
        }
        let start = self.position;
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number @ 1..0x2000_0000) => number,
            _ => {
                return Err(DecodeError::FieldNumber { offset: start, message: self.message, field: tag >> 3 });
            }
        };
        let mut field = Field {
            message: self.message,
            number,
            wire_type: (tag & 7) as u8,
            start,
            content: self.position,
            end: self.position,
            varint: 0,
        };
        match field.wire_type {
            0 => field.varint = self.varint()?,
            1 => self.skip_fixed(8)?,
            2 => {
                let length = self.varint()?;
                let available = self.end - self.position;
                let length = usize::try_from(length)
                    .ok()
                    .filter(|&length| length <= available)
                    .ok_or(DecodeError::LengthPastEnd { offset: field.content, length, available })?;
                field.content = self.position;
                self.position += length;
            }
            5 => self.skip_fixed(4)?,
            _ => return Err(field.wrong_wire_type()),
        }
        field.end = self.position;
        Ok(Some(field))
    }

    fn skip_fixed(&mut self, length: usize) -> Result<(), DecodeError> {
        if self.end - self.position < length {
            return Err(DecodeError::Truncated { offset: self.end });
        }
        self.position += length;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let bytes = &self.stored[self.position..self.end];
        let mut value = 0;
        for (index, &byte) in bytes.iter().enumerate() {
            // Nine bytes hold 63 bits; the tenth has room for one more.
            if index == 9 && byte > 1 {
                return Err(DecodeError::VarintTooLong { offset: self.position });
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.position += index + 1;
                return Ok(value);
            }
        }
        Err(DecodeError::Truncated { offset: self.end })
    }
}

/// Length of a length-delimited field with a one-byte tag.
fn field_len(content_len: usize) -> usize {
    1 + varint_len(content_len) + content_len
}

fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn write_header(tag: u8, length: usize, out: &mut Vec<u8>) {
    out.push(tag);
    write_varint(length as u64, out);
}

/// Appends a field of bytes; its number is below 16.
///
/// Public for `rangekeeper-bootstrap`, which writes leases with it.
pub fn write_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    write_header(number << 3 | 2, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a field with a number; the field's number is below 16.
///
/// Public for `rangekeeper-bootstrap`, which writes leases with it.
pub fn write_number(number: u8, value: u64, out: &mut Vec<u8>) {
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
