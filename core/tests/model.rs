//! The allocator against a naive model: one bit per value in a `BitVec`, every search a linear walk.

#[path = "common/cases.rs"]
mod cases;

use std::rc::Rc;

use bitvec::prelude::{BitVec, Lsb0};
use cases::cases;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{AllocateError, Allocator, BatchError, Full, Request, RestoreError, Strategy};
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::range::Range;

const SEQUENCES: u32 = 200_000;

/// What the allocator must do, written as plainly as possible.
#[derive(Clone)]
struct Naive {
    range: AnyRange,
    strategy: Strategy,
    values: Rc<[AnyValue]>,
    used: BitVec<u8, Lsb0>,
}

impl Naive {
    fn new(range: AnyRange, values: &Rc<[AnyValue]>, strategy: Strategy) -> Self {
        Self { values: values.clone(), range, strategy, used: BitVec::repeat(false, range.size() as usize) }
    }

    /// The offset of a value, found in the list of all of them.
    fn offset_of(&self, value: AnyValue) -> Option<usize> {
        self.values.iter().position(|known| *known == value)
    }

    fn allocate(&mut self, value: AnyValue) -> Result<(), AllocateError<AnyRange>> {
        let Some(offset) = self.offset_of(value) else {
            return Err(AllocateError::NotInRange { value, range: self.range });
        };
        if self.used[offset] {
            return Err(AllocateError::AlreadyAllocated { value });
        }
        self.used.set(offset, true);
        Ok(())
    }

    fn scan(&self, low: usize, high: usize, rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
        if low == high {
            return None;
        }
        let len = high - low;
        let start = ((u128::from(rng.next_u64()) * len as u128) >> 64) as usize;
        (0..len).map(|step| low + (start + step) % len).find(|offset| !self.used[*offset])
    }

    fn allocate_next(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<AnyValue, Full<AnyRange>> {
        let size = self.used.len();
        let band = self.range.static_band() as usize;
        let offset = match self.strategy {
            Strategy::Contiguous => (0..size).find(|offset| !self.used[*offset]),
            Strategy::RandomScan => self.scan(0, size, rng),
            Strategy::DynamicBandFirst => self.scan(band, size, rng).or_else(|| self.scan(0, band, rng)),
        };
        let offset = offset.ok_or(Full { range: self.range })?;
        self.used.set(offset, true);
        Ok(self.range.value_at(offset as u32).expect("the offset is below the size"))
    }

    fn release(&mut self, value: AnyValue) -> bool {
        self.offset_of(value).is_some_and(|offset| self.used.replace(offset, false))
    }

    fn values(&self) -> Vec<AnyValue> {
        self.used.iter_ones().filter_map(|offset| self.range.value_at(offset as u32)).collect()
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.used.chunks(8).map(|bits| bits.iter_ones().map(|bit| 1 << bit).sum()).collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        bytes
    }
}

fn ranges() -> Vec<AnyRange> {
    [
        "10.0.0.0/30",
        "10.0.0.0/29",
        "10.0.0.0/28",
        "10.0.0.0/27",
        "10.0.0.0/26",
        "10.0.0.0/25",
        "10.0.0.0/31",
        "10.0.0.0/32",
        "255.255.255.128/25",
        "0.0.0.0/26",
        "fd00::/123",
        "fd00::/127",
        "fd00::/128",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff80/121",
        "30000-30000",
        "30000-30063",
        "0-64",
        "65435-65535",
        "0 numbers, 0 static",
        "1 numbers, 0 static",
        "65 numbers, 64 static",
        "130 numbers, 20 static",
    ]
    .map(|text| text.parse().expect("each is a range"))
    .to_vec()
}

/// A value near the range, mostly in it.
fn some_value(range: AnyRange, rng: &mut Xoshiro256PlusPlus) -> AnyValue {
    let offset = (rng.next_u64() % (u64::from(range.size()) + 4)) as u32;
    let outside: [&str; 4] = ["9.255.255.255", "10.0.0.0", "fd00::", "::"];
    range.value_at(offset).unwrap_or_else(|| match range {
        AnyRange::Cidr(_) => AnyValue::Address(outside[(rng.next_u64() % 4) as usize].parse().expect("an address")),
        AnyRange::Ports(ports) => AnyValue::Port(ports.low().wrapping_sub(1)),
        AnyRange::Numbers(_) => AnyValue::Number(range.size() + (rng.next_u64() % 3) as u32),
    })
}

#[test]
fn random_sequences_agree_with_the_model() {
    let ranges: Vec<(AnyRange, Rc<[AnyValue]>)> = ranges()
        .into_iter()
        .map(|range| (range, (0..range.size()).filter_map(|offset| range.value_at(offset)).collect()))
        .collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(20_261_121);
    let strategies = [Strategy::Contiguous, Strategy::RandomScan, Strategy::DynamicBandFirst];
    let (mut operations, mut full, mut taken, mut foreign) = (0_u64, 0_u64, 0_u64, 0_u64);
    let sequences = cases(SEQUENCES);
    for sequence in 0..sequences {
        let (range, values) = &ranges[rng.next_u64() as usize % ranges.len()];
        let range = *range;
        let strategy = strategies[rng.next_u64() as usize % 3];
        let mut real = Allocator::new(range, strategy);
        let mut naive = Naive::new(range, values, strategy);
        // Some sequences begin nearly full, so that the end of a range is met.
        if rng.next_u64() % 8 == 0 {
            let free = rng.next_u64() % 4;
            while naive.used.count_zeros() as u64 > free {
                let mut seed = rng.clone();
                assert_eq!(real.allocate_next(&mut rng), naive.allocate_next(&mut seed));
            }
        }
        for _ in 0..1 + rng.next_u64() % 24 {
            operations += 1;
            match rng.next_u64() % 16 {
                0..=3 => {
                    let mut seed = rng.clone();
                    let result = real.allocate_next(&mut rng);
                    assert_eq!(result, naive.allocate_next(&mut seed), "sequence {sequence}");
                    full += u64::from(result.is_err());
                }
                4..=6 => {
                    let value = some_value(range, &mut rng);
                    let result = real.allocate(value);
                    assert_eq!(result, naive.allocate(value), "sequence {sequence}");
                    match result {
                        Ok(()) => {}
                        Err(AllocateError::AlreadyAllocated { .. }) => taken += 1,
                        Err(AllocateError::NotInRange { .. }) => foreign += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                7..=9 => {
                    let value = some_value(range, &mut rng);
                    assert_eq!(real.release(value), naive.release(value), "sequence {sequence}");
                }
                10 => {
                    let value = some_value(range, &mut rng);
                    let used = naive.offset_of(value).is_some_and(|offset| naive.used[offset]);
                    assert_eq!(real.has(value), used, "sequence {sequence}");
                }
                11 => batch(&mut real, &mut naive, &mut rng, true),
                12 => batch(&mut real, &mut naive, &mut rng, false),
                13..=14 => {
                    let before = real.clone();
                    let mut dry = real.dry_run();
                    let mut pretended = naive.clone();
                    let value = some_value(range, &mut rng);
                    assert_eq!(dry.allocate(value), pretended.allocate(value));
                    let mut seed = rng.clone();
                    assert_eq!(dry.allocate_next(&mut rng), pretended.allocate_next(&mut seed));
                    assert_eq!(real, before, "a dry run changed the allocator");
                }
                _ => {
                    let snapshot = naive.snapshot();
                    assert_eq!(real.snapshot(), snapshot, "sequence {sequence}");
                    real = Allocator::new(range, strategy);
                    real.restore(&range.to_string(), &snapshot).expect("its own snapshot");
                }
            }
        }
        assert_eq!(real.iter().collect::<Vec<_>>(), naive.values(), "sequence {sequence}");
        assert_eq!(real.used() as usize, naive.used.count_ones(), "sequence {sequence}");
        assert_eq!(real.free() as usize, naive.used.count_zeros(), "sequence {sequence}");
        assert_eq!(real.snapshot(), naive.snapshot(), "sequence {sequence}");
    }
    println!(
        "{sequences} sequences, {operations} operations; {full} full, {taken} already allocated, {foreign} not in range"
    );
    assert!(operations > cases(2_000_000) && full > cases(20_000), "the mix has shifted");
    assert!(taken > cases(20_000) && foreign > cases(2_000), "the mix has shifted");
}

/// A batch of named and unnamed requests, served wholly or not at all.
fn batch(real: &mut Allocator<AnyRange>, naive: &mut Naive, rng: &mut Xoshiro256PlusPlus, next: bool) {
    let requests: Vec<_> = (0..rng.next_u64() % 5)
        .map(|_| match next && rng.next_u64().is_multiple_of(2) {
            true => Request::Any,
            false => Request::Named(some_value(naive.range, rng)),
        })
        .collect();
    let before = real.clone();
    let mut attempt = naive.clone();
    let mut seed = rng.clone();
    let mut expected = vec![None; requests.len()];
    let mut error = None;
    for (index, request) in requests.iter().enumerate() {
        if let (Request::Named(value), None) = (request, &error) {
            match attempt.allocate(*value) {
                Ok(()) => expected[index] = Some(*value),
                Err(source) => error = Some(BatchError::Allocate { index, source }),
            }
        }
    }
    for (index, request) in requests.iter().enumerate() {
        if let (Request::Any, None) = (request, &error) {
            match attempt.allocate_next(&mut seed) {
                Ok(value) => expected[index] = Some(value),
                Err(source) => error = Some(BatchError::Full { index, source }),
            }
        }
    }
    let result = real.allocate_batch(&requests, rng);
    match error {
        Some(error) => {
            assert_eq!(result, Err(error));
            assert_eq!(*real, before, "a failed batch left a trace");
        }
        None => {
            assert_eq!(result, Ok(expected.into_iter().flatten().collect()));
            *naive = attempt;
        }
    }
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused_and_changes_nothing() {
    for range in ranges() {
        let mut allocator = Allocator::new(range, Strategy::Contiguous);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let _ = allocator.allocate_next(&mut rng);
        let before = allocator.clone();
        let size = range.size();
        for past in [0, 1, 7, 8, 63, 64, 65, 1000] {
            let bit = size + past;
            let mut data = vec![0_u8; bit as usize / 8 + 1];
            data[0] = 1 << (bit % 8);
            for padding in [0, 1, 9, 100] {
                let mut padded = vec![0; padding];
                padded.extend_from_slice(&data);
                let RestoreError::BitsPastRange(error) =
                    allocator.restore(&range.to_string(), &padded).expect_err("a bit past the range")
                else {
                    panic!("another error");
                };
                assert_eq!((error.offset, error.size, error.byte), (u64::from(bit), size, padding), "{range}");
                assert_eq!(allocator, before);
            }
        }
        let mut padded = vec![0; 1000];
        padded.extend_from_slice(before.snapshot());
        allocator.restore(&range.to_string(), &padded).expect("leading zero bytes say nothing");
        assert_eq!(allocator, before);
        for other in ["", "10.0.0.0/12", "1-2", "x", "10.0.0.0"] {
            let error = allocator.restore(other, &[]).expect_err("another range");
            assert_eq!(error, RestoreError::MismatchedRange { expected: range, found: other.into() });
            assert_eq!(allocator, before);
        }
    }
}
