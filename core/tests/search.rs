//! The search for clear offsets, which a summary tree answers, against the ordered set of all clear offsets.
//!
//! The bitmaps are nearly full, so that most answers lie far away and come from the summary's upper levels.

mod common;

use std::collections::BTreeSet;

use common::{below, seeded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::bitmap::{Bitmap, Run};

/// One level of summary, two, three and four; ends in the middle of a word and at the edges of all levels.
const SIZES: [u32; 14] =
    [64, 65, 128, 4095, 4096, 4097, 65_535, 262_143, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 1 << 24, (1 << 24) + 77];

/// Every offset of `0..len` set, as a snapshot.
fn full_snapshot(len: u32) -> Vec<u8> {
    let mut bytes = vec![0xff; len.div_ceil(8) as usize];
    if !len.is_multiple_of(8) {
        bytes[0] = (1 << (len % 8)) - 1;
    }
    bytes
}

struct Case {
    real: Bitmap,
    clear: BTreeSet<u32>,
}

impl Case {
    fn full(len: u32) -> Self {
        let mut real = Bitmap::new(len);
        real.restore(&full_snapshot(len)).expect("every offset is in range");
        Self { real, clear: BTreeSet::new() }
    }

    fn check_search(&self, from: u32) {
        let expected = self.clear.range(from..).next().copied();
        assert_eq!(self.real.next_clear(from), expected, "from {from} of {}", self.real.len());
    }

    fn check_all(&self) {
        let len = self.real.len();
        assert_eq!(self.real.count(), len - self.clear.len() as u32);
        let mut runs: Vec<Run> = Vec::new();
        for &offset in &self.clear {
            match runs.last_mut() {
                Some(run) if run.last + 1 == offset => run.last = offset,
                _ => runs.push(Run { first: offset, last: offset }),
            }
        }
        assert!(self.real.runs_clear(0).eq(runs));
    }
}

/// An offset where something may go wrong: beside the edge of a word, of a summary word, of the whole.
fn telling_offset(case: &Case, rng: &mut Xoshiro256PlusPlus) -> u32 {
    let len = case.real.len();
    let anywhere = below(len, rng);
    let offset = match below(8, rng) {
        0 => anywhere / 64 * 64,
        1 => anywhere | 63,
        2 => anywhere / 4096 * 4096,
        3 => anywhere | 4095,
        4 => anywhere | 262_143,
        5 => len - 1 - below(len.min(130), rng),
        6 => below(len.min(130), rng),
        _ => anywhere,
    };
    offset.min(len - 1)
}

#[test]
fn the_next_clear_offset_is_found_at_every_fill() {
    let mut rng = seeded(4);
    let (mut changes, mut taken_next, mut searches, mut rebuilt, mut full) = (0_u64, 0_u64, 0_u64, 0, 0_u64);
    for len in SIZES {
        let mut case = Case::full(len);
        case.check_all();
        for step in 0..12_000 {
            let offset = telling_offset(&case, &mut rng);
            // Few clear offsets for a while, then more, then few again.
            let aim = if step % 1000 < 800 { 3 } else { 400 };
            if case.clear.len() < aim {
                assert_eq!(case.real.remove(offset), case.clear.insert(offset));
                changes += 1;
            } else if below(2, &mut rng) == 0 {
                let end = telling_offset(&case, &mut rng) + below(3, &mut rng);
                let expected = case.clear.range(offset..end.max(offset)).next().copied();
                assert_eq!(case.real.insert_next(offset, end), expected, "{offset}..{end} of {len}");
                if let Some(taken) = expected {
                    case.clear.remove(&taken);
                    taken_next += 1;
                }
            } else {
                let near = case.clear.range(offset..).next().or(case.clear.first()).copied().expect("some are clear");
                assert!(case.real.insert(near) && case.clear.remove(&near));
                changes += 1;
            }
            // Now and then to the very end, where every search fails.
            if below(40, &mut rng) == 0 {
                for offset in std::mem::take(&mut case.clear) {
                    assert!(case.real.insert(offset));
                }
            }
            full += u64::from(case.clear.is_empty());
            for from in [0, offset, offset + 1, telling_offset(&case, &mut rng), len - 1, len] {
                case.check_search(from);
                searches += 1;
            }
            // The summary of a restored bitmap is built in one go; it must say the same.
            if below(if len > 1 << 20 { 2000 } else { 200 }, &mut rng) == 0 {
                let mut restored = Bitmap::new(len);
                restored.restore(case.real.snapshot()).expect("its own snapshot");
                assert_eq!(restored, case.real);
                case.real = restored;
                case.check_all();
                rebuilt += 1;
            }
        }
        case.check_all();
    }
    println!("{changes} changes, {taken_next} by a search, {searches} searches, {rebuilt} rebuilt, {full} times full");
    assert!(changes >= 120_000 && taken_next >= 10_000 && searches >= 1_000_000 && rebuilt >= 200 && full >= 3_000);
}

#[test]
fn a_single_clear_offset_is_found_from_everywhere_before_it() {
    let mut searches = 0_u64;
    for len in [1, 63, 64, 65, 127, 4096, 4097, 9000, 262_144, 300_001] {
        let mut case = Case::full(len);
        let stride = (len / 701).max(1) as usize;
        for hole in (0..len).step_by(stride).chain([len - 1]) {
            assert!(case.real.remove(hole) && case.clear.insert(hole));
            for from in (0..=len).step_by(stride).chain([hole.saturating_sub(1), hole, hole + 1]) {
                case.check_search(from);
                searches += 1;
            }
            assert!(case.real.insert(hole) && case.clear.remove(&hole));
            case.check_search(0);
        }
    }
    println!("{searches} searches");
    assert!(searches >= 2_500_000);
}

#[test]
fn set_offsets_are_found_over_empty_words() {
    let mut rng = seeded(5);
    let mut searches = 0_u64;
    for len in SIZES.into_iter().filter(|len| *len <= 1 << 20) {
        let mut real = Bitmap::new(len);
        let mut set = BTreeSet::new();
        for _ in 0..300 {
            let offset = below(len, &mut rng);
            if set.len() < 5 {
                assert_eq!(real.insert(offset), set.insert(offset));
            } else {
                let near = *set.range(offset..).next().or(set.first()).expect("some are set");
                assert!(real.remove(near) && set.remove(&near));
            }
            for from in [0, offset, offset + 1, len - 1, len] {
                assert_eq!(real.next_set(from), set.range(from..).next().copied(), "from {from} of {len}");
                searches += 1;
            }
            assert!(real.iter().eq(set.iter().copied()));
        }
    }
    println!("{searches} searches");
    assert!(searches >= 15_000);
}
