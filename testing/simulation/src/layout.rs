//! Which offsets of a range a schedule is about.

use std::rc::Rc;

use rangekeeper::bitmap::Bitmap;
use rangekeeper::range_allocation::RangeAllocation;

/// A set of offsets, as bits; a schedule is about at most 64.
pub type Mask = u64;

/// The offsets that a schedule is about: the first 64 of a small range, or a window of up to 64 offsets anywhere in a
/// large one, all other offsets of which are always in use.
///
/// Bit n of a [`Mask`] is the nth offset of the window.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Ascending; empty in a small range.
    window: Rc<[u32]>,
    /// The stored data while no offset of the window is in use.
    filler: Rc<[u8]>,
}

impl Layout {
    /// A window of these offsets, ascending, in a range of this size.
    pub fn window(size: u32, offsets: &[u32]) -> Self {
        let mut filler = vec![0; size.div_ceil(8) as usize];
        for offset in (0..size).filter(|offset| offsets.binary_search(offset).is_err()) {
            set_bit(&mut filler, offset);
        }
        Self { window: offsets.into(), filler: filler.into() }
    }

    /// Whether there is a window, in a large range.
    pub fn is_window(&self) -> bool {
        !self.window.is_empty()
    }

    /// The offset of a bit.
    pub fn offset(&self, bit: u32) -> u32 {
        self.window.get(bit as usize).copied().unwrap_or(bit)
    }

    /// The bit of an offset; `None` if it is outside of the window.
    pub fn bit(&self, offset: u32) -> Option<u32> {
        if !self.is_window() {
            return Some(offset);
        }
        self.window.binary_search(&offset).ok().map(|bit| bit as u32)
    }

    /// The offsets outside of the window.
    pub fn others(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = self.filler.len() as u32 * 8;
        (0..bits).filter(|offset| has_bit(&self.filler, *offset))
    }

    /// The bits of a stored object that are in use; none if it cannot be decoded.
    pub fn mask_of_value(&self, value: &[u8]) -> Mask {
        let data = RangeAllocation::decode(value).map(|stored| stored.data).unwrap_or_default();
        if !self.is_window() {
            return data.iter().fold(0, |mask, byte| mask << 8 | Mask::from(*byte));
        }
        self.collect(|offset| has_bit(&data, offset))
    }

    /// The bits of a bitmap that are set.
    pub fn mask_of(&self, bitmap: &Bitmap) -> Mask {
        if !self.is_window() {
            return bitmap.iter().fold(0, |mask, offset| mask | 1 << offset);
        }
        self.collect(|offset| bitmap.contains(offset))
    }

    fn collect(&self, is_set: impl Fn(u32) -> bool) -> Mask {
        self.window.iter().enumerate().fold(0, |mask, (bit, offset)| mask | Mask::from(is_set(*offset)) << bit)
    }

    /// The data of a stored object in which these bits are in use.
    pub fn data_of(&self, mask: Mask) -> Vec<u8> {
        if !self.is_window() {
            return mask.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        }
        let mut data = self.filler.to_vec();
        for bit in bits(mask) {
            set_bit(&mut data, self.offset(bit));
        }
        let zeros = data.iter().take_while(|byte| **byte == 0).count();
        data.split_off(zeros)
    }
}

/// The bits that are set.
pub fn bits(mask: Mask) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let bit = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

/// Sets an offset in stored data, whose last byte has the lowest offsets.
fn set_bit(data: &mut [u8], offset: u32) {
    let at = data.len() - 1 - offset as usize / 8;
    data[at] |= 1 << (offset % 8);
}

fn has_bit(data: &[u8], offset: u32) -> bool {
    let at = data.len().checked_sub(1 + offset as usize / 8);
    at.is_some_and(|at| data[at] >> (offset % 8) & 1 == 1)
}
