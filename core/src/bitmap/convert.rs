//! Bitmaps as the sets of other crates, and back: for control planes that keep such sets.
//!
//! The sets of a [`BitmapReport`](crate::audit::BitmapReport), such as what to set, what to clear and what has leaked,
//! are bitmaps, too.

#[cfg(feature = "bitvec")]
use bitvec::{order::BitOrder, order::Lsb0, slice::BitSlice, store::BitStore, vec::BitVec};
#[cfg(feature = "roaring")]
use roaring::RoaringBitmap;

use super::Bitmap;

/// A set has an offset that a bitmap of this length does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset} is not below the length of the bitmap, {len}")]
pub struct PastEnd {
    /// The highest offset of the set.
    pub offset: u64,
    /// The length of the bitmap.
    pub len: u32,
}

impl Bitmap {
    /// The set over `0..len` with these offsets, of which `highest` is the highest.
    fn from_offsets(len: u32, highest: Option<u64>, offsets: impl Iterator<Item = u32>) -> Result<Self, PastEnd> {
        if let Some(offset) = highest.filter(|highest| *highest >= len.into()) {
            return Err(PastEnd { offset, len });
        }
        let mut bitmap = Self::new(len);
        for offset in offsets {
            bitmap.insert(offset);
        }
        Ok(bitmap)
    }
}

/// Cost: O(len / 64), and the set offsets.
#[cfg(feature = "roaring")]
impl From<&Bitmap> for RoaringBitmap {
    fn from(bitmap: &Bitmap) -> Self {
        bitmap.iter().collect()
    }
}

#[cfg(feature = "roaring")]
impl Bitmap {
    /// The set over `0..len` with the offsets of `set`. Cost: zeroed memory, and the set offsets.
    ///
    /// # Errors
    /// [`PastEnd`].
    pub fn from_roaring(len: u32, set: &RoaringBitmap) -> Result<Self, PastEnd> {
        Self::from_offsets(len, set.max().map(u64::from), set.iter())
    }
}

/// Cost: O(len / 64).
#[cfg(feature = "bitvec")]
impl From<&Bitmap> for BitVec<u64, Lsb0> {
    fn from(bitmap: &Bitmap) -> Self {
        let words = bitmap.words.iter().rev().map(|word| u64::from_be_bytes(*word));
        let mut bits = Self::from_vec(words.collect());
        bits.truncate(bitmap.len as usize);
        bits
    }
}

#[cfg(feature = "bitvec")]
impl Bitmap {
    /// The set over `0..len` with the offsets whose bit is set. Bits past the end of the slice are clear. Cost: zeroed
    /// memory, and the set offsets.
    ///
    /// # Errors
    /// [`PastEnd`] if a bit is set that is not below `len`.
    pub fn from_bits<T: BitStore, O: BitOrder>(len: u32, bits: &BitSlice<T, O>) -> Result<Self, PastEnd> {
        let offsets = bits.iter_ones().map(|offset| offset as u32);
        Self::from_offsets(len, bits.last_one().map(|offset| offset as u64), offsets)
    }
}
