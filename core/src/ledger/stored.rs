//! The stored form of a ledger: a RangeAllocation in protobuf's form, as kube-apiserver stores ranges.
//!
//! `data` is the bitmap, as in kube-apiserver, if the range has at most 2^24 values. Else it is a Roaring bitmap of 64
//! bits in the portable format (RoaringFormatSpec, "Extension for 64-bit Implementations"). Offsets that cool down are
//! set. What kube-apiserver does not know is in field 15 of the RangeAllocation message, which is missing as long as it
//! is empty:
//!
//! ```text
//! Ledger  { 1 next (number), 2 repeated Owned, 3 repeated Cooling }
//! Owned   { 1 first (number), 2 len (number; 1 if missing), 3 owner (text) }
//! Cooling { 1 first (number), 2 len (number; 1 if missing), 3 until (number; milliseconds since 1970) }
//! ```

use std::io::Cursor;
use std::ops::Range;

use roaring::RoaringBitmap;

use super::runs::offsets;
use super::{Ledger, Pool, WIDE_USED_MAX, is_owner};
use crate::offsets::Offsets;
use crate::range_allocation::{DecodeError, RangeAllocation, Reader, write_bytes, write_number};
use crate::snapshot::BitsPastRange;

/// Why a stored ledger was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The bytes are not a RangeAllocation, or what it has in field 15 is not of a ledger.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object is JSON or YAML.
    #[error("the stored object is JSON or YAML; a ledger is stored in protobuf's form")]
    NotProtobuf,
    /// The object is of another range.
    #[error("the stored ledger is of range {found:?}, expected {expected:?}")]
    OtherRange {
        /// The range of the pool.
        expected: String,
        /// The stored range.
        found: String,
    },
    /// The bitmap has values that the range does not have.
    #[error(transparent)]
    BitsPastRange(#[from] BitsPastRange),
    /// The data of a range of more than 2^24 values is not a Roaring bitmap.
    #[error("data is not a Roaring bitmap of 64 bits: at byte {offset} of the data {reason}")]
    Roaring {
        /// A byte of the data.
        offset: usize,
        /// What does not fit.
        reason: String,
    },
    /// A [`SharedLedger`](super::SharedLedger) had a value in its store, which is missing or empty now.
    #[error("the stored ledger is gone: the store had one, and is empty now")]
    Gone,
    /// The store of a [`SharedLedger::run`](super::SharedLedger::run) has a value, which is empty.
    #[error("the stored ledger is empty: put it back, or delete what is stored to begin with a new one")]
    Empty,
    /// An entry of the ledger does not fit the range or another one.
    #[error("the entry at byte {offset} {reason}")]
    Entry {
        /// Where the entry begins in the stored value.
        offset: usize,
        /// What does not fit.
        reason: &'static str,
    },
}

impl Ledger {
    /// Opens a stored ledger of this pool: what [`encode`](Self::encode) returned, or a range that kube-apiserver
    /// stores. No bytes are a ledger in which nothing is in use, as a Kubernetes object has them whose field is not set
    /// yet. See [`new`](Self::new) for the seed.
    ///
    /// A value that has an owner is in use whatever `data` says. Values that the pool excludes by now stay in use until
    /// they are released.
    ///
    /// Cost: a copy of the bitmap, or about 0.1 µs for each value in use of a range of more than 2^24 values; and
    /// about 1 µs for each owner.
    ///
    /// # Errors
    /// [`OpenError`], which names the byte.
    pub fn open(pool: Pool, stored: &[u8], seed: u64) -> Result<Self, OpenError> {
        if stored.is_empty() {
            return Ok(Self::new(pool, seed));
        }
        let (mut object, place) = RangeAllocation::decode_ledger(stored)?.ok_or(OpenError::NotProtobuf)?;
        let mut ledger = Self::new(pool, seed);
        let data = std::mem::take(&mut object.data);
        let found = std::mem::take(&mut object.range);
        // A fresh object has no range.
        if !found.is_empty() && found.parse().ok() != Some(ledger.pool.range) {
            return Err(OpenError::OtherRange { expected: ledger.pool.range.to_string(), found });
        }
        ledger.object = object;
        match &mut ledger.taken {
            Offsets::Dense(bitmap) => bitmap.restore(&data)?,
            Offsets::Sparse(offsets) => read_roaring(&data, ledger.pool.range.last(), |offset| offsets.insert(offset))?,
        }
        ledger.read(stored, place)?;
        Ok(ledger)
    }

    /// The bytes to store.
    ///
    /// Cost: a copy of the bitmap; in a range of more than 2^24 values they are sorted; and about 0.1 µs for each
    /// owner.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut wide = Vec::new();
        let data = match &self.taken {
            Offsets::Dense(bitmap) => bitmap.snapshot(),
            Offsets::Sparse(_) => {
                write_roaring(self.taken.iter(), &mut wide);
                &wide
            }
        };
        self.object.encode_ledger(&self.pool.range.to_string(), data, &self.written(), &mut out);
        out
    }

    /// The content of field 15.
    fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.next > 0 {
            write_number(1, self.next, &mut out);
        }
        let mut entry = Vec::new();
        let begin = |entry: &mut Vec<u8>, first: u64, len: u32| {
            entry.clear();
            write_number(1, first, entry);
            if len != 1 {
                write_number(2, len.into(), entry);
            }
        };
        for (first, len, owner) in self.owners.iter() {
            begin(&mut entry, first, len);
            write_bytes(3, owner.as_bytes(), &mut entry);
            write_bytes(2, &entry, &mut out);
        }
        for (first, len, until) in self.cooling.iter() {
            begin(&mut entry, first, len);
            write_number(3, until, &mut entry);
            write_bytes(3, &entry, &mut out);
        }
        out
    }

    /// Reads the content of field 15.
    fn read(&mut self, stored: &[u8], content: Range<usize>) -> Result<(), OpenError> {
        let mut fields = Reader::new(stored, content, "Ledger");
        while let Some(field) = fields.next_field()? {
            match field.number {
                1 => self.next = field.varint().filter(|next| *next <= self.pool.range.last()).unwrap_or(0),
                2 | 3 => {
                    let bytes = field.bytes()?;
                    let offset = bytes.start;
                    let entry = Entry::read(stored, bytes)?;
                    let checked = entry.check(self.pool.range.last(), self.longest_run());
                    let add = if field.number == 2 { Self::add_owned } else { Self::add_cooling };
                    checked.and_then(|()| add(self, &entry)).map_err(|reason| OpenError::Entry { offset, reason })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_owned(&mut self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let owner = str::from_utf8(entry.owner).map_err(|_| "has an owner that is not UTF-8")?;
        if !is_owner(owner) {
            return Err("has an owner that is empty or longer than 1024 bytes");
        }
        if !self.owners.insert(entry.first, entry.len, owner) {
            return Err("has values that another owner has");
        }
        let more = offsets(entry.first, entry.len).filter(|offset| !self.taken.contains(*offset));
        if !self.has_room(more.count() as u64) {
            return Err("has more values than can be in use");
        }
        self.take(entry.first, entry.len);
        Ok(())
    }

    /// Owners come first in a stored ledger.
    fn add_cooling(&mut self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let mut offsets = offsets(entry.first, entry.len);
        if offsets.clone().any(|offset| self.owners.at(offset).is_some()) {
            return Err("lets values cool down that have an owner");
        }
        if !offsets.all(|offset| self.taken.contains(offset)) {
            return Err("lets values cool down that data does not have");
        }
        if !self.cooling.insert(entry.first, entry.len, entry.until) {
            return Err("lets values cool down that another entry has");
        }
        Ok(())
    }
}

/// An entry of either kind.
struct Entry<'a> {
    first: u64,
    len: u32,
    until: u64,
    owner: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(stored: &'a [u8], bytes: Range<usize>) -> Result<Self, DecodeError> {
        let mut fields = Reader::new(stored, bytes, "Owned or Cooling");
        let mut entry = Self { first: 0, len: 1, until: 0, owner: &[] };
        while let Some(field) = fields.next_field()? {
            match (field.number, field.varint()) {
                (1, Some(first)) => entry.first = first,
                // No range has so many in a row, so this is refused.
                (2, Some(len)) => entry.len = u32::try_from(len).unwrap_or(u32::MAX),
                (3, Some(until)) => entry.until = until,
                (3, None) => entry.owner = &stored[field.bytes()?],
                _ => {}
            }
        }
        Ok(entry)
    }

    fn check(&self, last: u64, longest: u32) -> Result<(), &'static str> {
        let end = self.first.checked_add(u64::from(self.len).saturating_sub(1));
        if self.len > longest {
            return Err("has more values in a row than are given");
        }
        if self.len == 0 || end.is_none_or(|end| end > last) {
            return Err("has values that are not in the range");
        }
        Ok(())
    }
}

/// Writes ascending offsets as a Roaring bitmap of 64 bits in the portable format: the number of bitmaps, and before
/// each one its upper 32 bits, all little-endian.
///
/// A `RoaringTreemap` of all offsets would take ten times the memory of the ledger where they lie at random places.
fn write_roaring(offsets: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let mut offsets = offsets.peekable();
    let mut bitmaps: u64 = 0;
    out.extend_from_slice(&bitmaps.to_le_bytes());
    while let Some(first) = offsets.peek() {
        let upper = (first >> 32) as u32;
        let mut bitmap = RoaringBitmap::new();
        while let Some(offset) = offsets.next_if(|offset| (offset >> 32) as u32 == upper) {
            bitmap.insert(offset as u32);
        }
        out.extend_from_slice(&upper.to_le_bytes());
        #[expect(clippy::expect_used, reason = "a vector takes all that is written to it")]
        bitmap.serialize_into(&mut *out).expect("written");
        bitmaps += 1;
    }
    out[..8].copy_from_slice(&bitmaps.to_le_bytes());
}

fn read_roaring(data: &[u8], last: u64, mut insert: impl FnMut(u64) -> bool) -> Result<(), OpenError> {
    // A fresh object has no data.
    if data.is_empty() {
        return Ok(());
    }
    let mut input = Cursor::new(data);
    let error = |offset: u64, reason: &str| OpenError::Roaring { offset: offset as usize, reason: reason.into() };
    let (Some(count), mut used) = (data.first_chunk().map(|count| u64::from_le_bytes(*count)), 0_u64) else {
        return Err(error(data.len() as u64, "the number of its bitmaps is cut off"));
    };
    input.set_position(8);
    let mut before = None;
    for _ in 0..count {
        let start = input.position();
        let Some(upper) = data[start as usize..].first_chunk().map(|upper| u32::from_le_bytes(*upper)) else {
            return Err(error(data.len() as u64, "a bitmap is missing"));
        };
        if before.is_some_and(|before| before >= upper) {
            return Err(error(start, "the bitmaps are not ascending"));
        }
        before = Some(upper);
        input.set_position(start + 4);
        let bitmap = RoaringBitmap::deserialize_from(&mut input)
            .map_err(|reason| error(start + 4, &format!("a bitmap begins that cannot be read: {reason}")))?;
        let highest = bitmap.max().map(|lower| u64::from(upper) << 32 | u64::from(lower));
        if highest.is_some_and(|highest| highest > last) {
            return Err(error(start, "a bitmap begins with offsets past the end of the range"));
        }
        used += bitmap.len();
        if used > WIDE_USED_MAX {
            return Err(error(start, "a bitmap begins with which more than 2^26 values are in use"));
        }
        for lower in &bitmap {
            insert(u64::from(upper) << 32 | u64::from(lower));
        }
    }
    if input.position() < data.len() as u64 {
        return Err(error(input.position(), "something follows the last bitmap"));
    }
    Ok(())
}
