//! The bitmap as stored bytes: one big-endian unsigned integer without leading zero bytes, bit n being offset n.
//!
//! Go's `big.Int.Bytes` returns the same for the reference's bitmap (kubernetes
//! `pkg/registry/core/service/allocator/bitmap.go`): an empty set is zero bytes, and with highest set offset k there
//! are k / 8 + 1 bytes.
//!
//! ```
//! use rangekeeper::bitmap::Bitmap;
//!
//! let mut bitmap = Bitmap::new(2768);
//! bitmap.insert(0);
//! bitmap.insert(9);
//! assert_eq!(bitmap.snapshot(), [0b10, 0b1]);
//!
//! let mut small = Bitmap::new(8);
//! let error = small.restore(bitmap.snapshot()).expect_err("offset 9 is past the end");
//! assert_eq!((error.offset, error.byte), (9, 0));
//! ```

use crate::bitmap::Bitmap;
use crate::range::Range;

/// A snapshot has bits past the end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("snapshot has offset {offset} set (byte {byte} of its data), but the range has only {size} offsets")]
pub struct BitsPastRange {
    /// The highest offset that is set; saturated at `u64::MAX`.
    pub offset: u64,
    /// The number of offsets of the range.
    pub size: u32,
    /// The index of the data's byte that has the bit.
    pub byte: usize,
}

/// Restores a snapshot of the range `stored` in the offsets of `range`. Returns the number of values that `range` does
/// not have, too.
///
/// # Errors
/// If the snapshot does not fit `stored`.
pub(crate) fn restore_for<R: Range>(range: R, stored: R, data: &[u8]) -> Result<(Bitmap, u32), BitsPastRange> {
    let mut bitmap = Bitmap::new(stored.size());
    bitmap.restore(data)?;
    if stored == range {
        return Ok((bitmap, 0));
    }
    let mut moved = Bitmap::new(range.size());
    let mut dropped = 0;
    for value in bitmap.iter().filter_map(|offset| stored.value_at(offset)) {
        match range.offset_of(value) {
            Some(offset) => drop(moved.insert(offset)),
            None => dropped += 1,
        }
    }
    Ok((moved, dropped))
}

/// Compares two snapshots of one range. Returns the offsets that were allocated and those that were released.
///
/// ```
/// use rangekeeper::ports::PortRange;
/// use rangekeeper::snapshot::changes;
///
/// let range: PortRange = "30000-30007".parse()?;
/// let (allocated, released) = changes(range, &[0b011], &[0b110])?;
/// assert_eq!(allocated.iter().collect::<Vec<_>>(), [2]);
/// assert_eq!(released.iter().collect::<Vec<_>>(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If one of them has bits past the range.
pub fn changes<R: Range>(range: R, before: &[u8], after: &[u8]) -> Result<(Bitmap, Bitmap), BitsPastRange> {
    let (mut old, mut new) = (Bitmap::new(range.size()), Bitmap::new(range.size()));
    old.restore(before)?;
    new.restore(after)?;
    Ok((new.difference(&old), old.difference(&new)))
}

impl Bitmap {
    /// The stored form of the set, as a view of its memory. Cost: a scan for the first byte that is not zero.
    pub fn snapshot(&self) -> &[u8] {
        let bytes = self.as_bytes();
        let (words, _) = bytes.as_chunks::<8>();
        let zero_words = words.iter().take_while(|word| **word == [0; 8]).count();
        let bytes = &bytes[zero_words * 8..];
        let zero_bytes = bytes.iter().take_while(|byte| **byte == 0).count();
        &bytes[zero_bytes..]
    }

    /// Replaces the set by the one with this stored form. Leading zero bytes are accepted.
    ///
    /// Cost: one copy of `len / 8` bytes.
    ///
    /// # Errors
    /// [`BitsPastRange`] if an offset is set that is not below `len`; the set is unchanged then.
    pub fn restore(&mut self, data: &[u8]) -> Result<(), BitsPastRange> {
        let capacity = self.as_bytes().len();
        let surplus = data.len().saturating_sub(capacity);
        let (padding, digits) = data.split_at(surplus);
        let (byte, top) = match padding.iter().position(|byte| *byte != 0) {
            Some(at) => (at, padding[at]),
            None => (surplus, digits.first().copied().unwrap_or(0)),
        };
        if top != 0 {
            let below = (data.len() - 1 - byte) as u64;
            let offset = below.saturating_mul(8).saturating_add(u64::from(top.ilog2()));
            if offset >= u64::from(self.len()) {
                return Err(BitsPastRange { offset, size: self.len(), byte });
            }
        }
        self.check_tail(digits, surplus)?;
        self.load(digits);
        Ok(())
    }

    /// Looks for set bits past the end in those of `digits` that lie in the bitmap's last, partly used word.
    fn check_tail(&self, digits: &[u8], skipped: usize) -> Result<(), BitsPastRange> {
        let first_unused = self.len() as usize;
        // Only the bytes of the last word, eight at most, can have offsets >= len.
        let offending = digits.len().saturating_sub(first_unused / 8);
        for (at, byte) in digits[..offending].iter().enumerate() {
            if *byte != 0 {
                let offset = (digits.len() - 1 - at) * 8 + byte.ilog2() as usize;
                if offset >= first_unused {
                    return Err(BitsPastRange { offset: offset as u64, size: self.len(), byte: skipped + at });
                }
                return Ok(());
            }
        }
        Ok(())
    }
}
