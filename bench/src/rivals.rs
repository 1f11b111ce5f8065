//! The crates that a set of used offsets could be built of instead, behind one interface.

use bitvec::prelude::{BitVec, Lsb0};
use rangekeeper::bitmap::Bitmap;
use roaring::RoaringBitmap;

/// A set of used offsets.
pub trait Rival: Clone {
    /// The name in benches.
    const NAME: &'static str;
    /// The stored form.
    type Stored: Default;

    /// The set with these offsets in use.
    fn new(used: &Bitmap) -> Self;
    /// Takes the first free offset from `start` on, or from 0 on.
    fn allocate_next(&mut self, start: u32) -> u32;
    /// Takes this offset and returns whether it was free.
    fn allocate(&mut self, offset: u32) -> bool;
    /// Releases this offset and returns whether it was in use.
    fn release(&mut self, offset: u32) -> bool;
    /// Whether the offset is in use.
    fn has(&self, offset: u32) -> bool;
    /// Visits each offset.
    fn for_each(&self, visit: impl FnMut(u32));
    /// Writes the stored form.
    fn snapshot(&self, stored: &mut Self::Stored);
    /// Reads the stored form.
    fn restore(stored: &Self::Stored) -> Self;
    /// The offsets that only the other set has in use, and those that only this one has.
    fn changes(&self, after: &Self) -> (Self, Self);
}

/// Words without a summary. Stored as they are.
#[derive(Clone, Debug)]
pub struct BitVector(BitVec<u64, Lsb0>);

impl Rival for BitVector {
    const NAME: &'static str = "bitvec";
    type Stored = Vec<u64>;

    fn new(used: &Bitmap) -> Self {
        Self(used.into())
    }

    fn allocate_next(&mut self, start: u32) -> u32 {
        let start = start as usize;
        let found = self.0[start..].first_zero().map(|at| start + at).or_else(|| self.0.first_zero());
        let found = found.expect("one is free");
        self.0.set(found, true);
        found as u32
    }

    fn allocate(&mut self, offset: u32) -> bool {
        !self.0.replace(offset as usize, true)
    }

    fn release(&mut self, offset: u32) -> bool {
        self.0.replace(offset as usize, false)
    }

    fn has(&self, offset: u32) -> bool {
        self.0[offset as usize]
    }

    fn for_each(&self, mut visit: impl FnMut(u32)) {
        self.0.iter_ones().for_each(|offset| visit(offset as u32));
    }

    fn snapshot(&self, stored: &mut Self::Stored) {
        stored.clear();
        stored.extend_from_slice(self.0.as_raw_slice());
    }

    fn restore(stored: &Self::Stored) -> Self {
        Self(BitVec::from_slice(stored))
    }

    fn changes(&self, after: &Self) -> (Self, Self) {
        (Self(after.0.clone() & !self.0.clone()), Self(self.0.clone() & !after.0.clone()))
    }
}

/// A compressed bitmap of the free offsets, as it finds a member at once and a gap only step by step. Stored in
/// Roaring's portable format.
#[derive(Clone, Debug)]
pub struct Roaring {
    free: RoaringBitmap,
}

impl Rival for Roaring {
    const NAME: &'static str = "roaring";
    type Stored = Vec<u8>;

    fn new(used: &Bitmap) -> Self {
        Self { free: (0..used.len()).filter(|offset| !used.contains(*offset)).collect() }
    }

    fn allocate_next(&mut self, start: u32) -> u32 {
        let found = self.free.range(start..).next().or_else(|| self.free.min()).expect("one is free");
        self.free.remove(found);
        found
    }

    fn allocate(&mut self, offset: u32) -> bool {
        self.free.remove(offset)
    }

    fn release(&mut self, offset: u32) -> bool {
        self.free.insert(offset)
    }

    fn has(&self, offset: u32) -> bool {
        !self.free.contains(offset)
    }

    /// Visits the free offsets: as many as those in use, if half are.
    fn for_each(&self, visit: impl FnMut(u32)) {
        self.free.iter().for_each(visit);
    }

    fn snapshot(&self, stored: &mut Self::Stored) {
        stored.clear();
        self.free.serialize_into(stored).expect("a vector takes all");
    }

    fn restore(stored: &Self::Stored) -> Self {
        Self { free: RoaringBitmap::deserialize_from(&**stored).expect("it was just stored") }
    }

    fn changes(&self, after: &Self) -> (Self, Self) {
        (Self { free: &self.free - &after.free }, Self { free: &after.free - &self.free })
    }
}
