//! The allocator: which values of one range are in use, and which free one is next.
//!
//! ```
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::allocator::{Allocator, Request, Strategy};
//! use rangekeeper::ports::PortRange;
//!
//! let range: PortRange = "30000-32767".parse()?;
//! let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
//! let ports = allocator.allocate_batch(&[Request::Named(30_080), Request::Any], &mut rng)?;
//! assert_eq!(ports[0], 30_080);
//! assert!(ports[1] >= 30_086, "the static band is for ports that people choose");
//! // All requests of a batch are served, or none.
//! assert!(allocator.allocate_batch(&[Request::Any, Request::Named(30_080)], &mut rng).is_err());
//! assert_eq!(allocator.used(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops;

use rand_core::Rng;

use crate::bitmap::Bitmap;
use crate::range::Range;
use crate::snapshot::BitsPastRange;

/// How the next free value is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The lowest free value.
    Contiguous,
    /// The first free value from a random start on; past the end the scan goes on at the beginning.
    RandomScan,
    /// A random scan of the dynamic band and, if that is full, of the static band.
    DynamicBandFirst,
}

/// The values of a range that are in use.
///
/// Memory: one bit per value and 1/63 of that. [`allocate`](Self::allocate), [`allocate_next`](Self::allocate_next),
/// [`release`](Self::release) and [`has`](Self::has) cost a few nanoseconds at any fill and do not allocate memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator<R> {
    range: R,
    strategy: Strategy,
    used: Bitmap,
}

/// Why a value was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError<R: Range> {
    /// The value is in use.
    #[error("{value} is already allocated")]
    AlreadyAllocated {
        /// The requested value.
        value: R::Value,
    },
    /// The value is not in the range, or is never allocated (network and broadcast addresses).
    #[error("{value} is not an allocatable value of range {range}")]
    NotInRange {
        /// The requested value.
        value: R::Value,
        /// The range.
        range: R,
    },
}

/// Every value of the range is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("range {range} is full")]
pub struct Full<R: Range> {
    /// The range.
    pub range: R,
}

/// One request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<V> {
    /// This value.
    Named(V),
    /// Any free value, chosen by the allocator's strategy.
    Any,
}

/// Why a batch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError<R: Range> {
    /// A named value could not be allocated.
    #[error("request {index}: {source}")]
    Allocate {
        /// Which request of the batch.
        index: usize,
        /// Why.
        source: AllocateError<R>,
    },
    /// Too few values are free.
    #[error("request {index}: {source}")]
    Full {
        /// Which request of the batch.
        index: usize,
        /// Why.
        source: Full<R>,
    },
}

/// Why a stored snapshot was not restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError<R: Range> {
    /// The snapshot is of another range.
    #[error("the snapshot is of range {found:?}, expected {expected}")]
    MismatchedRange {
        /// The allocator's range.
        expected: R,
        /// The snapshot's range.
        found: String,
    },
    /// The snapshot has values in use that the range does not have.
    #[error(transparent)]
    BitsPastRange(#[from] BitsPastRange),
}

impl<R: Range> Allocator<R> {
    /// An allocator with nothing in use.
    pub fn new(range: R, strategy: Strategy) -> Self {
        Self::with_used(range, strategy, Bitmap::new(range.size()))
    }

    /// An allocator with these offsets in use. `used` is as long as the range.
    pub(crate) fn with_used(range: R, strategy: Strategy, used: Bitmap) -> Self {
        Self { range, strategy, used }
    }

    /// The range.
    pub fn range(&self) -> R {
        self.range
    }

    /// How [`allocate_next`](Self::allocate_next) chooses a value.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Allocates `value`.
    ///
    /// # Errors
    /// If the value is in use or not in range.
    #[inline(always)]
    pub fn allocate(&mut self, value: R::Value) -> Result<(), AllocateError<R>> {
        let offset = self.range.offset_of(value).ok_or(AllocateError::NotInRange { value, range: self.range })?;
        if self.used.insert(offset) { Ok(()) } else { Err(AllocateError::AlreadyAllocated { value }) }
    }

    /// Allocates a free value, which the strategy chooses with randomness from `rng`.
    ///
    /// # Errors
    /// If no value is free.
    #[inline(always)]
    pub fn allocate_next(&mut self, rng: &mut impl Rng) -> Result<R::Value, Full<R>> {
        let full = Full { range: self.range };
        let offset = self.take(rng).ok_or(full)?;
        self.range.value_at(offset).ok_or(full)
    }

    /// Releases `value`. Returns whether it was in use; a value that is free or not in range is no error.
    #[inline(always)]
    pub fn release(&mut self, value: R::Value) -> bool {
        self.range.offset_of(value).is_some_and(|offset| self.used.remove(offset))
    }

    /// Whether `value` is in use; false if it is not in range.
    #[inline(always)]
    pub fn has(&self, value: R::Value) -> bool {
        self.range.offset_of(value).is_some_and(|offset| self.used.contains(offset))
    }

    /// How many values are in use. Cost: O(1); O(size / 64) for the first time after a restore.
    pub fn used(&self) -> u32 {
        self.used.count()
    }

    /// How many values are free. Cost: O(1); O(size / 64) for the first time after a restore.
    pub fn free(&self) -> u32 {
        self.used.len() - self.used.count()
    }

    /// The values in use, ascending.
    pub fn iter(&self) -> impl Iterator<Item = R::Value> + '_ {
        self.iter_from(0)
    }

    /// The values in use at `offset` and above, ascending, to continue an iteration.
    pub fn iter_from(&self, offset: u32) -> impl Iterator<Item = R::Value> + '_ {
        self.used.iter_from(offset).filter_map(|offset| self.range.value_at(offset))
    }

    /// Serves all requests, or none. Returns the values in the order of the requests.
    ///
    /// Named values are allocated first, so that a random pick never takes a value that a later request names.
    ///
    /// # Errors
    /// Names the first request that cannot be served; nothing is allocated then.
    pub fn allocate_batch(
        &mut self,
        requests: &[Request<R::Value>],
        rng: &mut impl Rng,
    ) -> Result<Vec<R::Value>, BatchError<R>> {
        let mut taken = Vec::with_capacity(requests.len());
        let served = self.serve(requests, rng, &mut taken);
        if served.is_err() {
            for value in taken {
                self.release(value);
            }
        }
        served
    }

    fn serve(
        &mut self,
        requests: &[Request<R::Value>],
        rng: &mut impl Rng,
        taken: &mut Vec<R::Value>,
    ) -> Result<Vec<R::Value>, BatchError<R>> {
        for (index, request) in requests.iter().enumerate() {
            if let Request::Named(value) = *request {
                self.allocate(value).map_err(|source| BatchError::Allocate { index, source })?;
                taken.push(value);
            }
        }
        let serve = |(index, request): (usize, &Request<R::Value>)| match *request {
            Request::Named(value) => Ok(value),
            Request::Any => {
                let value = self.allocate_next(rng).map_err(|source| BatchError::Full { index, source })?;
                taken.push(value);
                Ok(value)
            }
        };
        requests.iter().enumerate().map(serve).collect()
    }

    /// A copy, on which operations can be tried without a change here. Cost: a copy of the bitmap.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.clone()
    }

    /// The bitmap of the values in use.
    pub fn bitmap(&self) -> &Bitmap {
        &self.used
    }

    /// The stored form of the values in use; see [`Bitmap::snapshot`].
    pub fn snapshot(&self) -> &[u8] {
        self.used.snapshot()
    }

    /// Replaces the values in use by those of a stored snapshot.
    ///
    /// # Errors
    /// If the snapshot is of another range or has bits past the range; nothing is changed then.
    pub fn restore(&mut self, range: &str, data: &[u8]) -> Result<(), RestoreError<R>> {
        if range.parse().ok() != Some(self.range) {
            return Err(RestoreError::MismatchedRange { expected: self.range, found: range.into() });
        }
        Ok(self.used.restore(data)?)
    }

    pub(crate) fn bitmap_mut(&mut self) -> &mut Bitmap {
        &mut self.used
    }

    /// Allocates a free offset, chosen by the strategy.
    #[inline(always)]
    fn take(&mut self, rng: &mut impl Rng) -> Option<u32> {
        let size = self.range.size();
        if self.strategy != Strategy::DynamicBandFirst {
            return self.take_from(0..size, rng);
        }
        let band = self.range.static_band();
        self.take_from(band..size, rng).or_else(|| self.take_from(0..band, rng))
    }

    /// The band of which an allocation takes an offset; `None` if all are in use.
    pub(crate) fn band_to_choose_from(&self) -> Option<ops::Range<u32>> {
        let size = self.range.size();
        let second = if self.strategy == Strategy::DynamicBandFirst { self.range.static_band() } else { 0 };
        let has_free = |band: &ops::Range<u32>| self.used.next_clear(band.start).is_some_and(|free| free < band.end);
        [second..size, 0..second].into_iter().find(has_free)
    }

    /// Allocates a free offset of a band: the first one, or with a random strategy the first one from a random start
    /// on, and from the band's first on if there is none.
    #[inline(always)]
    pub(crate) fn take_from(&mut self, band: ops::Range<u32>, rng: &mut impl Rng) -> Option<u32> {
        if self.strategy == Strategy::Contiguous {
            return self.used.insert_next(band.start, band.end);
        }
        if band.is_empty() {
            return None;
        }
        let start = band.start + below(band.end - band.start, rng);
        self.used.insert_next(start, band.end).or_else(|| self.used.insert_next(band.start, start))
    }
}

/// A number in `0..limit`, uniform to within 2^-32 (multiply and shift, without rejection).
#[inline(always)]
fn below(limit: u32, rng: &mut impl Rng) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u32
}
