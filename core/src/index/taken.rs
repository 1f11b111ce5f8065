//! The offsets of a CIDR that are taken.

use super::sparse::Sparse;
use crate::bitmap::Bitmap;

/// CIDRs up to this size have a bitmap, of 8 MiB at most. The system gives memory to the parts that are in use.
const WIDEST_BITMAP: u64 = 1 << 26;

/// A set of offsets below a size.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    Dense(Bitmap),
    Sparse(Sparse),
}

impl Taken {
    /// An empty set. A user who knows the seed can force slow look-ups in a wide CIDR: keep it secret.
    pub(super) fn new(size: u64, seed: u64) -> Self {
        match u32::try_from(size) {
            Ok(len) if size <= WIDEST_BITMAP => Self::Dense(Bitmap::new(len)),
            _ => Self::Sparse(Sparse::new(seed)),
        }
    }

    /// Whether the set has no bitmap.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self, Self::Sparse(_))
    }

    /// How many offsets there are. Cost: O(1).
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Dense(bitmap) => bitmap.count().into(),
            Self::Sparse(sparse) => sparse.len(),
        }
    }

    pub(super) fn contains(&self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.contains(offset as u32),
            Self::Sparse(sparse) => sparse.contains(offset),
        }
    }

    /// Adds an offset below the size; false if it is there already.
    pub(super) fn insert(&mut self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.insert(offset as u32),
            Self::Sparse(sparse) => sparse.insert(offset),
        }
    }

    /// Takes an offset below the size out; false if it is not there.
    pub(super) fn remove(&mut self, offset: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.remove(offset as u32),
            Self::Sparse(sparse) => sparse.remove(offset),
        }
    }

    /// The first offset of `from..to` that is not in the set; `to` is at most the size.
    pub(super) fn next_clear(&self, from: u64, to: u64) -> Option<u64> {
        let next = match self {
            Self::Dense(bitmap) => bitmap.next_clear(from as u32).map(u64::from),
            Self::Sparse(sparse) => Some(sparse.next_clear(from)),
        };
        next.filter(|offset| *offset < to)
    }

    /// All offsets, ascending.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Dense(bitmap) => Box::new(bitmap.iter().map(u64::from)),
            Self::Sparse(sparse) => Box::new(sparse.sorted().into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Plays changes of both kinds of set beside an ordered set of the offsets: dense ones, so that blocks of 64, of
    /// 4,096 and of 262,144 offsets fill up and get gaps again.
    #[test]
    fn both_kinds_are_sets() {
        const SIZE: u64 = 2 * 64 * 64 * 64 + 77;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut below = |limit: u64| rng.next_u64() % limit;
        let mut sets = [Taken::new(SIZE, 1), Taken::Sparse(Sparse::new(1))];
        let mut offsets = BTreeSet::new();
        let (mut changes, mut searches, mut far) = (0, 0, 0);
        for round in 0..200 {
            // A stretch is filled or emptied, in any direction, but for one offset in 4,096.
            let (first, bits) = (below(SIZE), 6 + below(13));
            let len = below(1 << bits);
            let fill = below(4) > 0;
            let mut stretch: Vec<u64> = (first..(first + len).min(SIZE)).filter(|_| below(4096) > 0).collect();
            if round % 2 == 0 {
                stretch.reverse();
            }
            for offset in stretch {
                let changed = if fill { offsets.insert(offset) } else { offsets.remove(&offset) };
                for set in &mut sets {
                    assert_eq!(if fill { set.insert(offset) } else { set.remove(offset) }, changed);
                }
                changes += 1;
            }
            for _ in 0..100 {
                let from = below(SIZE);
                let mut expected = from;
                for taken in offsets.range(from..) {
                    if *taken != expected {
                        break;
                    }
                    expected += 1;
                }
                let expected = Some(expected).filter(|offset| *offset < SIZE);
                searches += 1;
                far += u64::from(expected.is_none_or(|offset| offset - from > 4096));
                for set in &sets {
                    assert_eq!(set.next_clear(from, SIZE), expected, "from {from}");
                    assert_eq!(set.contains(from), offsets.contains(&from));
                    assert_eq!(set.len(), offsets.len() as u64);
                }
            }
        }
        for set in &sets {
            assert!(set.iter().eq(offsets.iter().copied()), "not ascending, or others");
        }
        println!("{changes} changes, {searches} searches, {far} further than 4,096");
        assert!(changes > 1_000_000 && far > 1_000, "played too little");
    }
}
