//! The bitmap against the sets of two other crates, and the conversions from and to them. With the features `bitvec`
//! and `roaring`.
#![cfg(all(feature = "bitvec", feature = "roaring"))]

#[path = "common/cases.rs"]
mod cases;
mod common;

use cases::cases;
use common::{below, seeded};
use rangekeeper::bitmap::{Bitmap, PastEnd};
use rangekeeper::bitvec::prelude::{BitVec, Lsb0, Msb0};
use rangekeeper::roaring::RoaringBitmap;

/// One set in three forms.
struct Forms {
    bitmap: Bitmap,
    bits: BitVec<u64, Lsb0>,
    compressed: RoaringBitmap,
}

/// What two sets become, here and there.
type Operation = (&'static str, fn(&mut Bitmap, &Bitmap), fn(&RoaringBitmap, &RoaringBitmap) -> RoaringBitmap);

impl Forms {
    fn check(&self, name: &str) {
        let Self { bitmap, bits, compressed } = self;
        assert_eq!(BitVec::from(bitmap), *bits, "{name}");
        assert_eq!(RoaringBitmap::from(bitmap), *compressed, "{name}");
        assert_eq!(Bitmap::from_bits(bitmap.len(), bits).as_ref(), Ok(bitmap), "{name}");
        assert_eq!(Bitmap::from_roaring(bitmap.len(), compressed).as_ref(), Ok(bitmap), "{name}");
        assert_eq!(
            (bitmap.count() as usize, u64::from(bitmap.count())),
            (bits.count_ones(), compressed.len()),
            "{name}"
        );
    }
}

#[test]
fn sets_of_other_crates_agree() {
    let mut rng = seeded(29);
    let mut compared = 0;
    for round in 0..cases(120) {
        let len = [1, 63, 64, 65, 4096, 4097, 40_000, 300_001][below(8, &mut rng) as usize];
        let dense = [2, 3, 100][below(3, &mut rng) as usize];
        let mut set = || {
            let holes = below(2, &mut rng) == 0;
            let bits: BitVec<u64, Lsb0> = (0..len).map(|_| (below(dense, &mut rng) == 0) != holes).collect();
            let compressed = bits.iter_ones().map(|offset| offset as u32).collect();
            Forms { bitmap: Bitmap::from_bits(len, &bits).expect("no bit is past the end"), bits, compressed }
        };
        let (one, other) = (set(), set());
        one.check(&format!("round {round}"));
        let algebra: [Operation; 3] = [
            ("union", Bitmap::union_with, |a, b| a | b),
            ("difference", Bitmap::difference_with, |a, b| a - b),
            ("intersection", Bitmap::intersect_with, |a, b| a & b),
        ];
        for (name, ours, theirs) in algebra {
            let mut bitmap = one.bitmap.clone();
            ours(&mut bitmap, &other.bitmap);
            let compressed = theirs(&one.compressed, &other.compressed);
            let bits = (0..len).map(|offset| compressed.contains(offset)).collect();
            Forms { bitmap, bits, compressed }.check(&format!("round {round}, {name}"));
            compared += 1;
        }
        assert_eq!(one.bitmap.is_subset(&other.bitmap), one.compressed.is_subset(&other.compressed));
        let Forms { mut bitmap, mut bits, .. } = one;
        for _ in 0..20 {
            let from = below(len, &mut rng);
            let expected = bits[from as usize..].first_zero().map(|at| from + at as u32);
            assert_eq!(bitmap.next_clear(from), expected, "round {round}, from {from}");
            assert_eq!(bitmap.insert_next(from, len), expected, "round {round}, from {from}");
            if let Some(offset) = expected {
                bits.set(offset as usize, true);
            }
            let removed = below(len, &mut rng);
            assert_eq!(bitmap.remove(removed), bits.replace(removed as usize, false));
            compared += 1;
        }
    }
    println!("{compared} cases");
    assert!(compared >= cases(2_700));
}

#[test]
fn an_offset_past_the_end_is_an_error() {
    let past = PastEnd { offset: 8, len: 8 };
    assert_eq!(Bitmap::from_roaring(8, &RoaringBitmap::from_iter([1, 8])), Err(past));
    let mut bits = BitVec::<u8, Msb0>::repeat(false, 20);
    bits.set(8, true);
    assert_eq!(Bitmap::from_bits(8, &bits), Err(past));
    assert_eq!(past.to_string(), "offset 8 is not below the length of the bitmap, 8");
    // Bits that are clear do not matter, nor those that the slice does not have.
    assert_eq!(Bitmap::from_bits(9, &bits).map(|set| set.iter().collect()), Ok(vec![8]));
    assert_eq!(Bitmap::from_bits(30, &bits).map(|set| (set.len(), set.count())), Ok((30, 1)));
}
