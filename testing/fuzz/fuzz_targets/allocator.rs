//! Sequences of operations on an allocator against a list of flags.

#![no_main]

use std::convert::Infallible;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rand_core::TryRng;
use rangekeeper::allocator::{AllocateError, Allocator, BatchError, Full, Request, Strategy};
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::range::Range;
use rangekeeper_fuzz::bits;

/// Ranges with and without a static band, at the ends of their families, and of no size.
const RANGES: [&str; 13] = [
    "10.0.0.0/28",
    "10.0.0.0/26",
    "10.0.0.0/24",
    "255.255.255.0/24",
    "10.0.0.0/31",
    "fd00::/120",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120",
    "30000-30099",
    "65500-65535",
    "0-0",
    "10.0.0.0/19",
    "100 numbers, 70 static",
    "0 numbers, 0 static",
];

#[derive(Arbitrary, Debug)]
struct Input {
    range: u8,
    strategy: u8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Allocate(u8),
    AllocateNext(u64),
    AllocateNextTimes(u8, u64),
    Release(u8),
    Batch(Vec<Option<u8>>, u64),
    DryRun(u8),
    Restore(Vec<u8>),
    Reload,
}

/// Randomness that the input chooses: always the same number.
struct Fixed(u64);

impl TryRng for Fixed {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0 >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.iter_mut().zip(self.0.to_le_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
        Ok(())
    }
}

/// What an allocator must do.
#[derive(Clone)]
struct Model {
    range: AnyRange,
    strategy: Strategy,
    values: Vec<AnyValue>,
    used: Vec<bool>,
}

impl Model {
    fn offset_of(&self, value: AnyValue) -> Option<usize> {
        self.values.iter().position(|known| *known == value)
    }

    fn allocate(&mut self, value: AnyValue) -> Result<usize, AllocateError<AnyRange>> {
        match self.offset_of(value) {
            None => Err(AllocateError::NotInRange { value, range: self.range }),
            Some(offset) if self.used[offset] => Err(AllocateError::AlreadyAllocated { value }),
            Some(offset) => {
                self.used[offset] = true;
                Ok(offset)
            }
        }
    }

    /// The first free one of `low..high` from a start that `random` picks, going round.
    fn scan(&self, low: usize, high: usize, random: u64) -> Option<usize> {
        let len = high - low;
        let start = (u128::from(random) * len as u128 / (1 << 64)) as usize;
        (0..len).map(|step| low + (start + step) % len).find(|offset| !self.used[*offset])
    }

    fn allocate_next(&mut self, random: u64) -> Result<usize, Full<AnyRange>> {
        let (size, band) = (self.used.len(), self.range.static_band() as usize);
        let offset = match self.strategy {
            Strategy::Contiguous => self.used.iter().position(|used| !used),
            Strategy::RandomScan => self.scan(0, size, random),
            Strategy::DynamicBandFirst => self.scan(band, size, random).or_else(|| self.scan(0, band, random)),
        };
        let offset = offset.ok_or(Full { range: self.range })?;
        self.used[offset] = true;
        Ok(offset)
    }

    /// Named values first, in their order, then the others; all or nothing.
    fn batch(&mut self, requests: &[Request<AnyValue>], random: u64) -> Result<Vec<usize>, BatchError<AnyRange>> {
        let before = self.used.clone();
        let mut offsets = vec![None; requests.len()];
        let mut serve = || {
            for (index, request) in requests.iter().enumerate() {
                if let Request::Named(value) = request {
                    let served = self.allocate(*value);
                    offsets[index] = Some(served.map_err(|source| BatchError::Allocate { index, source })?);
                }
            }
            for (index, request) in requests.iter().enumerate() {
                if *request == Request::Any {
                    let served = self.allocate_next(random);
                    offsets[index] = Some(served.map_err(|source| BatchError::Full { index, source })?);
                }
            }
            Ok(())
        };
        match serve() {
            Ok(()) => Ok(offsets.into_iter().flatten().collect()),
            Err(error) => {
                self.used = before;
                Err(error)
            }
        }
    }

    /// A value that `pick` names: mostly one of the range, else a neighbour or a stranger.
    fn value(&self, pick: u8) -> AnyValue {
        if let Some(value) = self.values.get(usize::from(pick) % (self.values.len() + 4)) {
            return *value;
        }
        match (self.range, pick % 3) {
            (AnyRange::Cidr(range), 0) => AnyValue::Address(range.network().network()),
            (AnyRange::Cidr(range), 1) => AnyValue::Address(range.network().broadcast()),
            (AnyRange::Cidr(_), _) => AnyValue::Address([9, 0, 0, pick].into()),
            (AnyRange::Ports(range), 0) => AnyValue::Port(range.low().wrapping_sub(1)),
            (AnyRange::Ports(range), _) => AnyValue::Port(range.high().wrapping_add(1)),
            (AnyRange::Numbers(range), _) => AnyValue::Number(range.size() + u32::from(pick)),
        }
    }

    fn requests(&self, picks: &[Option<u8>]) -> Vec<Request<AnyValue>> {
        let request = |pick: &Option<u8>| pick.map_or(Request::Any, |pick| Request::Named(self.value(pick)));
        picks.iter().take(40).map(request).collect()
    }
}

fuzz_target!(|input: Input| {
    let text = RANGES[usize::from(input.range) % RANGES.len()];
    let range: AnyRange = text.parse().expect("a range");
    let strategies = [Strategy::Contiguous, Strategy::RandomScan, Strategy::DynamicBandFirst];
    let strategy = strategies[usize::from(input.strategy) % 3];
    let values: Vec<AnyValue> = (0..range.size()).map(|at| range.value_at(at).expect("in range")).collect();
    let mut real = Allocator::new(range, strategy);
    let mut model = Model { range, strategy, used: vec![false; values.len()], values };
    for step in input.steps.iter().take(100) {
        apply(step, &mut real, &mut model);
        let used = model.used.iter().filter(|used| **used).count();
        assert_eq!((real.used() as usize, real.free() as usize), (used, model.used.len() - used), "{step:?}");
    }
    let in_use: Vec<AnyValue> = (0..model.used.len()).filter(|at| model.used[*at]).map(|at| model.values[at]).collect();
    assert_eq!(real.iter().collect::<Vec<_>>(), in_use);
    assert_eq!(real.snapshot(), bits::stored(&model.used));
    let free: Vec<_> = real.bitmap().runs_clear(0).map(|run| (run.first, run.last)).collect();
    assert_eq!(free, bits::runs(&model.used, 0, false));
    for (at, value) in model.values.iter().enumerate() {
        assert_eq!(real.has(*value), model.used[at], "{value}");
    }
});

fn apply(step: &Step, real: &mut Allocator<AnyRange>, model: &mut Model) {
    match step {
        Step::Allocate(pick) => {
            let value = model.value(*pick);
            assert_eq!(real.allocate(value), model.allocate(value).map(drop));
            assert_eq!(real.has(value), model.offset_of(value).is_some());
        }
        Step::AllocateNext(random) => next(real, model, *random),
        Step::AllocateNextTimes(times, random) => (0..*times).for_each(|_| next(real, model, *random)),
        Step::Release(pick) => {
            let value = model.value(*pick);
            let was_used = model.offset_of(value).is_some_and(|offset| std::mem::take(&mut model.used[offset]));
            assert_eq!(real.release(value), was_used);
            assert!(!real.has(value));
        }
        Step::Batch(picks, random) => {
            let requests = model.requests(picks);
            let served = real.allocate_batch(&requests, &mut Fixed(*random));
            let expected = model.batch(&requests, *random);
            assert_eq!(served, expected.map(|offsets| offsets.iter().map(|at| model.values[*at]).collect()));
        }
        Step::DryRun(pick) => {
            let before = real.clone();
            let (mut dry, mut pretended) = (real.dry_run(), model.clone());
            let value = model.value(*pick);
            assert_eq!(dry.allocate(value), pretended.allocate(value).map(drop));
            next(&mut dry, &mut pretended, (*pick).into());
            assert_eq!(dry.snapshot(), bits::stored(&pretended.used));
            assert_eq!(*real, before);
        }
        Step::Restore(data) => {
            let offsets = bits::offsets(data);
            let fits = offsets.last().is_none_or(|highest| *highest < model.used.len() as u64);
            assert_eq!(real.restore(&model.range.to_string(), data).is_ok(), fits);
            if fits {
                model.used.fill(false);
                offsets.iter().for_each(|offset| model.used[*offset as usize] = true);
            }
        }
        Step::Reload => {
            let mut fresh = Allocator::new(model.range, model.strategy);
            fresh.restore(&model.range.to_string(), real.snapshot()).expect("its own snapshot");
            assert_eq!(fresh, *real);
            *real = fresh;
        }
    }
}

fn next(real: &mut Allocator<AnyRange>, model: &mut Model, random: u64) {
    let expected = model.allocate_next(random).map(|offset| model.values[offset]);
    assert_eq!(real.allocate_next(&mut Fixed(random)), expected);
}
