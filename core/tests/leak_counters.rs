//! Leak counters against one counter per offset in a map.

mod common;

use std::collections::HashMap;
use std::num::NonZeroU8;

use common::{below, seeded};
use rangekeeper::bitmap::Bitmap;
use rangekeeper::leak::{DEFAULT_PASSES, LeakCounters};

fn passes(number: u8) -> NonZeroU8 {
    NonZeroU8::new(number).expect("not zero")
}

fn bitmap(len: u32, offsets: impl IntoIterator<Item = u32>) -> Bitmap {
    let mut bitmap = Bitmap::new(len);
    for offset in offsets {
        assert!(bitmap.insert(offset));
    }
    bitmap
}

/// Counts a pass and returns the offsets that are due.
fn advance(counters: &mut LeakCounters, leaked: &Bitmap) -> Vec<u32> {
    let mut due = leaked.clone();
    counters.advance(&mut due);
    assert_eq!(due.count() as usize, due.iter().count(), "the bitmap that comes back has lost count");
    due.iter().collect()
}

/// One counter for each leaked offset, and nothing for any other.
struct Naive {
    passes: u8,
    counts: HashMap<u32, u8>,
}

impl Naive {
    fn advance(&mut self, leaked: &Bitmap) -> Vec<u32> {
        self.counts = leaked.iter().map(|offset| (offset, self.count(offset) + 1)).collect();
        let mut due: Vec<u32> = leaked.iter().filter(|offset| self.count(*offset) == self.passes).collect();
        due.sort_unstable();
        self.counts.retain(|_, count| *count < self.passes);
        due
    }

    fn count(&self, offset: u32) -> u8 {
        self.counts.get(&offset).copied().unwrap_or(0)
    }
}

#[test]
fn counters_advance_as_single_ones_do() {
    let mut rng = seeded(6);
    let (mut rounds, mut cleaned, mut broken, mut quiet) = (0, 0, 0, 0);
    for number in 1..=8 {
        for len in [0, 1, 63, 64, 65, 127, 128, 129, 320, 4097] {
            let mut counters = LeakCounters::new(len, passes(number));
            assert_eq!((counters.passes(), counters.len(), counters.is_empty()), (passes(number), len, true));
            let mut naive = Naive { passes: number, counts: HashMap::new() };
            let mut leaked = Bitmap::new(len);
            for _ in 0..if len > 1000 { 60 } else { 250 } {
                match below(60, &mut rng) {
                    // A restore from a backup.
                    0 => {
                        counters.reset();
                        naive.counts.clear();
                        assert!(counters.is_empty());
                    }
                    // A pass without any leak.
                    1 => leaked.clear(),
                    // All at once, so that whole words are full.
                    2 => leaked = bitmap(len, 0..len),
                    // Mostly few changes, so that counters get far; now and then many.
                    kind => {
                        for _ in 0..len / if kind < 10 { 2 } else { 30 } + below(2, &mut rng) {
                            let offset = below(len.max(1), &mut rng);
                            if !leaked.insert(offset) {
                                broken += u64::from(naive.count(offset) > 0);
                                leaked.remove(offset);
                            }
                        }
                    }
                }
                let due = advance(&mut counters, &leaked);
                assert_eq!(due, naive.advance(&leaked), "{number} passes, {len} offsets");
                for offset in (0..len).chain([len, len + 1, len + 63, len + 64, u32::MAX]) {
                    assert_eq!(counters.count(offset), naive.count(offset), "{offset} of {len}, {number} passes");
                }
                assert_eq!(counters.is_empty(), naive.counts.is_empty());
                // Cleaned offsets are no longer stored. Some of them are leaked again at once.
                for offset in &due {
                    if below(4, &mut rng) != 0 {
                        leaked.remove(*offset);
                    }
                }
                cleaned += due.len();
                quiet += u32::from(leaked.is_empty());
                rounds += 1;
            }
        }
    }
    println!("{rounds} passes, {cleaned} cleaned, {broken} broken off, {quiet} without a leak");
    assert!(rounds >= 18_000 && cleaned >= 100_000 && broken >= 50_000 && quiet >= 1_000, "the mix has shifted");
}

#[test]
fn a_leak_is_cleaned_in_the_last_pass_and_not_before() {
    assert_eq!(DEFAULT_PASSES, passes(3));
    let leaked = bitmap(200, [0, 63, 64, 130, 199]);
    for number in 1..=u8::MAX {
        let mut counters = LeakCounters::new(200, passes(number));
        for round in 0..3 {
            for pass in 1..number {
                assert_eq!(advance(&mut counters, &leaked), [0; 0], "pass {pass} of {number}, round {round}");
                assert!(leaked.iter().all(|offset| counters.count(offset) == pass));
                assert_eq!(counters.count(1), 0);
            }
            assert_eq!(advance(&mut counters, &leaked), [0, 63, 64, 130, 199], "{number} passes, round {round}");
            assert!(leaked.iter().all(|offset| counters.count(offset) == 0) && counters.is_empty());
        }
    }
}

#[test]
fn a_break_of_one_pass_starts_the_counter_again() {
    for number in 2..=8 {
        for broken_after in 1..number {
            let mut counters = LeakCounters::new(100, passes(number));
            let both = bitmap(100, [7, 70]);
            let other = bitmap(100, [70]);
            for _ in 0..broken_after {
                advance(&mut counters, &both);
            }
            // 7 is in use, or released, in this one pass.
            let due = advance(&mut counters, &other);
            assert_eq!(due.contains(&70), broken_after + 1 == number);
            assert_eq!(counters.count(7), 0);
            for pass in 1..number {
                assert!(!advance(&mut counters, &both).contains(&7), "{number} passes, pass {pass} after the break");
            }
            assert!(advance(&mut counters, &both).contains(&7));
        }
    }
}

#[test]
fn a_bitmap_of_another_length_counts_only_the_offsets_that_both_have() {
    let mut rng = seeded(7);
    let mut rounds = 0;
    for number in 1..=4 {
        for len in [1, 20, 64, 70, 130, 200] {
            let mut counters = LeakCounters::new(len, passes(number));
            let mut naive = Naive { passes: number, counts: HashMap::new() };
            for _ in 0..300 {
                // Full more often than not, so that offsets past the end of the counters would come to be due.
                let other_len = 1 + below(260, &mut rng);
                let leaked = bitmap(other_len, (0..other_len).filter(|_| below(8, &mut rng) != 0));
                let within = bitmap(len, leaked.iter().filter(|offset| *offset < len));
                assert_eq!(advance(&mut counters, &leaked), naive.advance(&within), "{other_len} for {len}");
                for offset in 0..len + 70 {
                    assert_eq!(counters.count(offset), naive.count(offset), "{offset} of {len}, {other_len} given");
                }
                rounds += 1;
            }
        }
    }
    println!("{rounds} passes");
    assert!(rounds >= 7_000);
}
