//! Counting the set bits of many words without a popcount instruction, which the baseline of x86-64 lacks.

/// Words that are counted together: one word of the lowest summary level stands for so many.
pub(super) const CHUNK: usize = 64;

/// Words that one step adds; the compiler puts them into vector registers.
const LANES: usize = 4;

type Vector = [u64; LANES];

/// The number of set bits of the chunks added so far.
///
/// Harley's and Seal's method (H. S. Warren, Hacker's Delight, 5-1): a tree of carry-save adders counts in 4 planes
/// of weight 1, 2, 4, 8 per bit position, so that only one vector in sixteen has its bits added up.
#[derive(Default)]
pub(super) struct Tally {
    ones: Vector,
    twos: Vector,
    fours: Vector,
    eights: Vector,
    sixteens: u32,
}

impl Tally {
    /// Adds the words of a chunk, in any byte order.
    #[inline(always)]
    pub(super) fn add(&mut self, chunk: &[[u8; 8]; CHUNK]) {
        let Self { mut ones, mut twos, mut fours, mut eights, sixteens } = *self;
        let mut four = |at: usize| {
            let low = carry(&mut ones, vector(chunk, at), vector(chunk, at + 1));
            let high = carry(&mut ones, vector(chunk, at + 2), vector(chunk, at + 3));
            carry(&mut twos, low, high)
        };
        let (low, high) = (four(0), four(4));
        let eight = carry(&mut fours, low, high);
        let (low, high) = (four(8), four(12));
        let sixteen = carry(&mut eights, eight, carry(&mut fours, low, high));
        *self = Self { ones, twos, fours, eights, sixteens: sixteens + count(sixteen) };
    }

    /// The number of set bits.
    pub(super) fn total(&self) -> u32 {
        16 * self.sixteens + 8 * count(self.eights) + 4 * count(self.fours) + 2 * count(self.twos) + count(self.ones)
    }
}

#[inline(always)]
fn vector(chunk: &[[u8; 8]; CHUNK], at: usize) -> Vector {
    std::array::from_fn(|lane| u64::from_ne_bytes(chunk[at * LANES + lane]))
}

/// A full adder per bit position: leaves the sum in `plane` and gives the carry.
#[inline(always)]
fn carry(plane: &mut Vector, b: Vector, c: Vector) -> Vector {
    let a = *plane;
    let half: Vector = std::array::from_fn(|lane| a[lane] ^ b[lane]);
    *plane = std::array::from_fn(|lane| half[lane] ^ c[lane]);
    std::array::from_fn(|lane| a[lane] & b[lane] | half[lane] & c[lane])
}

#[inline(always)]
fn count(vector: Vector) -> u32 {
    vector.iter().map(|word| word.count_ones()).sum()
}

/// Whether a word of the chunk has all its bits set.
#[inline(always)]
pub(super) fn any_full(chunk: &[[u8; 8]; CHUNK]) -> bool {
    // The highest bit of (x - 1) & !x tells whether x is 0. Unlike a comparison, this needs only what every vector
    // unit has.
    let zero = |full: u64, word: &[u8; 8]| {
        let missing = !u64::from_ne_bytes(*word);
        full | missing.wrapping_sub(1) & !missing
    };
    chunk.iter().fold(0, zero) >> 63 != 0
}
