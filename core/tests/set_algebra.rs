//! The bitmap's set algebra, iteration and counting against one `bool` per offset.

mod common;

use common::{below, seeded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::bitmap::{Bitmap, Run};

/// Sizes with all kinds of last words and of summaries, from one word without a summary to three levels.
fn sizes() -> Vec<u32> {
    let around = |size: u32| size - 1..=size + 1;
    let edges = [128, 192, 4096, 65_536, 262_144].into_iter().flat_map(around);
    (0..=70).chain(edges).chain([1 << 20]).collect()
}

/// How many sets of each size meet each other: few where a set is large.
fn rounds(len: u32) -> u32 {
    if len < 1000 { 60 } else { (2_000_000 / len).clamp(2, 40) }
}

/// A random set of one of several shapes: empty, full, sparse, dense, nearly full, in runs, in whole words.
fn random_set(len: u32, rng: &mut Xoshiro256PlusPlus) -> Vec<bool> {
    let shape = below(9, rng);
    let mut set: Vec<bool> = match shape {
        0 => vec![false; len as usize],
        1 | 2 => vec![true; len as usize],
        3 => (0..len).map(|_| below(2, rng) == 0).collect(),
        4 => (0..len).map(|_| below(200, rng) == 0).collect(),
        5 => (0..len).map(|_| below(200, rng) != 0).collect(),
        6 => {
            let longest = 1 + below(300, rng);
            let mut set = Vec::new();
            while set.len() < len as usize {
                let next = set.last() == Some(&false);
                set.resize(set.len() + 1 + below(longest, rng) as usize, next);
            }
            set
        }
        // Whole words, and whole words of the summary above them.
        7 => in_blocks(len, 64, rng),
        _ => in_blocks(len, 64 * 64, rng),
    };
    set.truncate(len as usize);
    // A hole or two in what was full, at an edge more often than not.
    if shape == 2 && len > 0 {
        for _ in 0..1 + below(2, rng) {
            let hole = [0, len - 1, len / 64 * 64, below(len, rng)][below(4, rng) as usize];
            set[hole.min(len - 1) as usize] = false;
        }
    }
    set
}

fn in_blocks(len: u32, block: u32, rng: &mut Xoshiro256PlusPlus) -> Vec<bool> {
    (0..len.div_ceil(block)).flat_map(|_| std::iter::repeat_n(below(3, rng) != 0, block as usize)).collect()
}

fn bitmap(set: &[bool]) -> Bitmap {
    let mut bitmap = Bitmap::new(set.len() as u32);
    for (offset, _) in set.iter().enumerate().filter(|(_, is_set)| **is_set) {
        assert!(bitmap.insert(offset as u32));
    }
    bitmap
}

fn offsets(set: &[bool], from: u32, wanted: bool) -> Vec<u32> {
    (from..set.len() as u32).filter(|offset| set[*offset as usize] == wanted).collect()
}

fn runs(set: &[bool], from: u32, wanted: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for offset in offsets(set, from, wanted) {
        match runs.last_mut() {
            Some(run) if run.last + 1 == offset => run.last = offset,
            _ => runs.push(Run { first: offset, last: offset }),
        }
    }
    runs
}

/// Looks at a bitmap through everything that it has to show. Returns the number of comparisons.
fn check(real: &Bitmap, set: &[bool], rng: &mut Xoshiro256PlusPlus) -> u64 {
    let len = set.len() as u32;
    let count = set.iter().filter(|is_set| **is_set).count() as u32;
    assert_eq!((real.len(), real.count()), (len, count));
    assert_eq!(real.is_empty(), count == 0);
    for (offset, is_set) in set.iter().enumerate() {
        assert_eq!(real.contains(offset as u32), *is_set, "{offset} of {len}");
    }
    let mut compared = u64::from(len);
    // From the beginning, from the edges of words and from anywhere, past the end too.
    let edge = (below(len + 1, rng) / 64 * 64).saturating_sub(below(2, rng));
    for from in [0, below(len + 1, rng), edge, len.saturating_sub(1), len, len + 1, len + 64, u32::MAX] {
        let (set_offsets, clear_offsets) = (offsets(set, from, true), offsets(set, from, false));
        assert_eq!(real.next_set(from), set_offsets.first().copied(), "{from} of {len}");
        assert_eq!(real.next_clear(from), clear_offsets.first().copied(), "{from} of {len}");
        assert!(real.iter_from(from).eq(set_offsets), "from {from} of {len}");
        let (set_runs, clear_runs) = (runs(set, from, true), runs(set, from, false));
        assert_eq!(set_runs.iter().map(Run::len).sum::<u64>(), u64::from(real.count_range(from, len)));
        assert!(real.runs_set(from).eq(set_runs), "runs from {from} of {len}");
        assert!(real.runs_clear(from).eq(clear_runs), "clear runs from {from} of {len}");
        compared += 5;
    }
    assert!(real.iter().eq(offsets(set, 0, true)) && real.into_iter().eq(real.iter()));
    let mut before = vec![0];
    before.extend(set.iter().scan(0, |count, is_set| {
        *count += u32::from(*is_set);
        Some(*count)
    }));
    for _ in 0..32 {
        let (from, to) = (below(len + 2, rng), below(len + 2, rng));
        let expected = before[to.min(len) as usize].saturating_sub(before[from.min(len) as usize]);
        assert_eq!(real.count_range(from, to), expected, "{from}..{to} of {len}");
        compared += 1;
    }
    assert_eq!(real.count_range(0, u32::MAX), count);
    compared
}

#[test]
fn union_difference_and_intersection_agree_with_the_model() {
    let mut rng = seeded(1);
    let (mut pairs, mut compared) = (0, 0);
    for len in sizes() {
        for _ in 0..rounds(len) {
            // Now and then the other set ranges over more or less: what lies past either end counts as clear.
            let other_len = match below(4, &mut rng) {
                0 => len.saturating_sub(below(130, &mut rng)),
                1 => len + below(130, &mut rng),
                _ => len,
            };
            let (own, other) = (random_set(len, &mut rng), random_set(other_len, &mut rng));
            let at = |offset: usize| other.get(offset).copied().unwrap_or(false);
            let merged = |merge: fn(bool, bool) -> bool| -> Vec<bool> {
                own.iter().enumerate().map(|(offset, own)| merge(*own, at(offset))).collect()
            };
            let (left, right) = (bitmap(&own), bitmap(&other));
            compared += check(&left, &own, &mut rng);

            let mut union = left.clone();
            union.union_with(&right);
            compared += check(&union, &merged(|own, other| own || other), &mut rng);
            let mut intersection = left.clone();
            intersection.intersect_with(&right);
            compared += check(&intersection, &merged(|own, other| own && other), &mut rng);
            let mut difference = left.clone();
            difference.difference_with(&right);
            compared += check(&difference, &merged(|own, other| own && !other), &mut rng);
            assert_eq!(left.difference(&right), difference);
            assert_eq!(left.is_subset(&right), difference.is_empty());
            assert!(intersection.is_subset(&left) && intersection.is_subset(&right) && left.is_subset(&union));

            // The operands stay as they are, and equality sees every offset.
            assert_eq!((&left, &right), (&bitmap(&own), &bitmap(&other)));
            assert_eq!(left == right, own == other);
            if len > 0 {
                let mut changed = left.clone();
                let offset = below(len, &mut rng);
                assert!(if own[offset as usize] { changed.remove(offset) } else { changed.insert(offset) });
                assert_ne!(changed, left);
                assert_eq!(
                    (left.is_subset(&changed), changed.is_subset(&left)),
                    (!own[offset as usize], own[offset as usize])
                );
            }
            pairs += 1;
        }
    }
    println!("{pairs} pairs of sets, {compared} comparisons");
    assert!(pairs >= 4_500 && compared >= 50_000_000, "the mix has shifted");
}

#[test]
fn a_bitmap_can_be_changed_after_every_bulk_operation() {
    let mut rng = seeded(2);
    let mut steps = 0;
    for len in sizes().into_iter().filter(|len| *len > 0) {
        let mut set = random_set(len, &mut rng);
        let mut real = bitmap(&set);
        for _ in 0..rounds(len) {
            let other = random_set(len, &mut rng);
            let merge: fn(bool, bool) -> bool = match below(5, &mut rng) {
                0 => {
                    real.union_with(&bitmap(&other));
                    |own, other| own || other
                }
                1 => {
                    real.intersect_with(&bitmap(&other));
                    |own, other| own && other
                }
                2 => {
                    real.difference_with(&bitmap(&other));
                    |own, other| own && !other
                }
                3 => {
                    real.clear();
                    |_, _| false
                }
                _ => {
                    real.restore(bitmap(&other).snapshot()).expect("of the same size");
                    |_, other| other
                }
            };
            for (own, other) in set.iter_mut().zip(other) {
                *own = merge(*own, other);
            }
            // First-free allocation and removal must find their way at once.
            for _ in 0..20 {
                if let Some(offset) = real.next_clear(below(len, &mut rng)) {
                    assert!(!set[offset as usize] && real.insert(offset) && !real.insert(offset));
                    set[offset as usize] = true;
                }
                let offset = below(len + 1, &mut rng);
                let was_set = set.get_mut(offset as usize).is_some_and(std::mem::take);
                assert_eq!(real.remove(offset), was_set, "{offset} of {len}");
                steps += 2;
            }
            check(&real, &set, &mut rng);
        }
    }
    println!("{steps} changes");
    assert!(steps >= 90_000);
}

#[test]
fn a_snapshot_is_one_big_endian_integer() {
    let mut rng = seeded(3);
    let (mut snapshots, mut refused) = (0, 0);
    for len in sizes() {
        for _ in 0..rounds(len) {
            let set = random_set(len, &mut rng);
            let real = bitmap(&set);
            // Bit n of the integer is bit n % 8 of the byte that has n / 8 bytes behind it.
            let highest = set.iter().rposition(|is_set| *is_set);
            let mut expected = vec![0_u8; highest.map_or(0, |highest| highest / 8 + 1)];
            let bytes = expected.len();
            for (offset, _) in set.iter().enumerate().filter(|(_, is_set)| **is_set) {
                expected[bytes - 1 - offset / 8] |= 1 << (offset % 8);
            }
            assert_eq!(real.snapshot(), expected, "{len} offsets");

            let mut restored = bitmap(&random_set(len, &mut rng));
            restored.restore(&expected).expect("a snapshot of the same size");
            assert_eq!(restored, real);
            check(&restored, &set, &mut rng);

            // One that fits a smaller set is taken by it, one that does not is refused and changes nothing. Sets that
            // are a few offsets smaller have the same bytes in memory.
            let smaller =
                len - if below(2, &mut rng) == 0 { below(len + 1, &mut rng) } else { below(len.min(63) + 1, &mut rng) };
            let before = bitmap(&random_set(smaller, &mut rng));
            let mut other = before.clone();
            // Leading zero bytes say nothing, whether they fit or not.
            let padding = (below(3, &mut rng) * below(12, &mut rng)) as usize;
            let padded = [&vec![0; padding][..], &expected].concat();
            match highest {
                Some(highest) if highest as u32 >= smaller => {
                    let error = other.restore(&padded).expect_err("a bit past the end");
                    assert_eq!((error.offset, error.size, error.byte), (highest as u64, smaller, padding));
                    assert_eq!(other, before);
                    check(&other, &offsets_to_set(&before), &mut rng);
                    refused += 1;
                }
                _ => {
                    other.restore(&padded).expect("no bit past the end");
                    check(&other, &set[..smaller as usize], &mut rng);
                }
            }
            snapshots += 1;
        }
    }
    println!("{snapshots} snapshots, {refused} refused by a smaller set");
    assert!(snapshots >= 4_500 && refused >= 1_500);
}

fn offsets_to_set(bitmap: &Bitmap) -> Vec<bool> {
    (0..bitmap.len()).map(|offset| bitmap.contains(offset)).collect()
}
