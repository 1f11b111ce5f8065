//! A ledger: which values of a range are in use, and by whom, for a control plane that hands out more than Services'
//! addresses and ports: VNIs, VLANs, AS numbers, tunnel keys, UIDs, subnets.
//!
//! Its [`Pool`] says which values there are, which are excluded, reserved or a last resort, and how the next one is
//! chosen. A value may have an owner: then a repeated allocation by the same owner returns the same value, and only a
//! release by this owner frees it. So a caller that got no answer repeats its request, and needs no other record.
//!
//! A ledger is one value of bytes in a store: [`open`](Ledger::open) what was read, change it, and write what
//! [`encode`](Ledger::encode) returns if the stored value is still the one that was read. If it is not, begin again. A
//! [`SharedLedger`] does so for the changes of many callers. Times come in as arguments, as durations since 1970.
//!
//! Do not use the name of an owner again: take a UID, for example. A release that is repeated after a lost answer would
//! otherwise release what the next owner of this name was given.
//!
//! ```
//! use std::time::Duration;
//!
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::ledger::{Choice, Ledger, Pool, Want};
//!
//! let pool = Pool::new("4096-16777215".parse()?, Choice::Lowest).exclude("4789")?;
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
//! let now = Duration::from_secs(1_800_000_000);
//!
//! let mut ledger = Ledger::new(pool.clone(), 7);
//! let red = ledger.allocate(Want::Any, Some("tenant/red"), now, &mut rng)?;
//! assert_eq!(red.first.to_string(), "4096");
//! assert_eq!(ledger.allocate(Want::Any, Some("tenant/red"), now, &mut rng), Ok(red), "the same again");
//! let four = ledger.allocate(Want::Block(2), Some("tenant/blue"), now, &mut rng)?;
//! assert_eq!((four.first.to_string(), four.len), ("4100".to_owned(), 4));
//!
//! let stored = ledger.encode();
//! let mut ledger = Ledger::open(pool, &stored, 7)?;
//! assert_eq!(ledger.owner_of(red.first), Some("tenant/red"));
//! assert_eq!(ledger.release_owner("tenant/red", now), [red]);
//! assert_eq!(ledger.used(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod cooling;
mod memory;
mod owners;
mod pool;
mod range;
mod runs;
mod shared;
mod stored;

use std::time::Duration;

use rand_core::Rng;

pub use audit::{LedgerFinding, OwnerLeaks};
pub use memory::Memory;
pub use pool::{Choice, CoolDown, Pool};
pub use range::{LedgerRange, LedgerValue, ParseLedgerError};
pub use shared::{Change, ChangeTicket, Outcome, Put, Request, RunError, SharedLedger, Store, Token};
pub use stored::OpenError;

use self::cooling::Cooling;
use self::owners::Owners;
use self::runs::{in_a_row, offsets};
use crate::bitmap::Wanted;
use crate::offsets::{Offsets, Region};
use crate::range_allocation::{Form, RangeAllocation};

/// Ranges up to this number of values are kept and stored as a bitmap, of 2 MiB at most.
const WIDEST_BITMAP: u32 = 1 << 24;

/// The longest owner, in bytes.
pub const OWNER_MAX: usize = 1024;

/// The longest run in a range of more than 2^24 values, each of which costs memory there. Larger parts of such a range
/// are values of a range of blocks.
pub const RUN_MAX: u32 = 1 << 16;

/// The most values in use of a range of more than 2^24, with those that cool down: they take up to 18 bytes of memory
/// each, and what is stored can be much smaller.
pub const WIDE_USED_MAX: u64 = 1 << 26;

/// Which values are in use, and by whom.
///
/// Memory: a bit for each value of the range if there are at most 2^24; else at most 18 bytes for each value in use. An
/// owner takes about 150 bytes and its text.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: Pool,
    /// The offsets in use, and those that cool down.
    taken: Offsets,
    owners: Owners,
    cooling: Cooling,
    /// Where a next fit begins.
    next: u64,
    /// What is stored around range and data.
    object: RangeAllocation,
    /// How often the ledger has changed, in a way that must be stored.
    changes: u64,
    /// The part of a range of more than 2^24 values from which random ones are chosen.
    region: Region,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Any free value, as the pool's [`Choice`] says.
    Any,
    /// This value, if it is free or cools down.
    Value(LedgerValue),
    /// As many values in a row; at least 1.
    Run(u32),
    /// 2^n values in a row, of which the first one is a multiple of 2^n; n is at most 31. For an address that is its
    /// number, so that the block is a network; in a range of blocks its place in the range.
    Block(u8),
}

/// Values in a row that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The first value.
    pub first: LedgerValue,
    /// How many values.
    pub len: u32,
}

impl Allocation {
    /// The values, ascending.
    pub fn values(&self) -> impl Iterator<Item = LedgerValue> + use<> {
        let first = self.first;
        (0..self.len).map_while(move |n| first.plus(n.into()))
    }
}

/// Why nothing was allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// The value is in use.
    #[error("{value} is already allocated{}", by(.owner))]
    AlreadyAllocated {
        /// The value.
        value: LedgerValue,
        /// Its owner, if it has one.
        owner: Option<String>,
    },
    /// The value is not in the range.
    #[error("{}", .range.refusal(*.value))]
    NotInRange {
        /// The value.
        value: LedgerValue,
        /// The range.
        range: LedgerRange,
    },
    /// The pool excludes the value.
    #[error("{value} is excluded from the range {range}")]
    Excluded {
        /// The value.
        value: LedgerValue,
        /// The range.
        range: LedgerRange,
    },
    /// There are not so many values in a row that are free.
    #[error("range {range} has no {} free{}", values(*.len, *.aligned), cooling_down(*.cooling))]
    Full {
        /// The range.
        range: LedgerRange,
        /// How many values were to be found.
        len: u32,
        /// Whether the first one had to be a multiple of their number.
        aligned: bool,
        /// How many values are out of use for some time after their release.
        cooling: u64,
    },
    /// The owner has something else.
    #[error("{owner} has {} already", values_from(.has))]
    HasOther {
        /// The owner.
        owner: String,
        /// What it has.
        has: Allocation,
    },
    /// The owner is empty or too long.
    #[error("the owner has {len} bytes, not 1 to {OWNER_MAX}")]
    OwnerLength {
        /// How many bytes it has.
        len: usize,
    },
    /// No or too many values were asked for.
    #[error("{len} values in a row were asked for; range {range} gives 1 to {at_most}")]
    RunLength {
        /// How many values were asked for.
        len: u64,
        /// How many can be given.
        at_most: u64,
        /// The range.
        range: LedgerRange,
    },
    /// So many values of a range of more than 2^24 are in use that no more are given.
    #[error("{WIDE_USED_MAX} values of range {range} are in use, and no more can be")]
    TooMany {
        /// The range.
        range: LedgerRange,
    },
}

/// The value has an owner, which alone can release it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} is allocated by {owner}, which alone can release it")]
pub struct Owned {
    /// The value.
    pub value: LedgerValue,
    /// Its owner.
    pub owner: String,
}

impl Ledger {
    /// A ledger in which nothing is in use. A user who knows the seed can choose values that are slow to look up in a
    /// range of more than 2^24: keep it secret.
    pub fn new(pool: Pool, seed: u64) -> Self {
        let taken = Offsets::new(pool.range.last().saturating_add(1), WIDEST_BITMAP, seed);
        let object = RangeAllocation::new(Form::Protobuf);
        Self {
            pool,
            taken,
            owners: Owners::default(),
            cooling: Cooling::default(),
            next: 0,
            object,
            changes: 0,
            region: Region::default(),
        }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Allocates what is wanted, for an owner or for nobody. `now` ends cool-downs.
    ///
    /// An owner that has what it wants gets it again, and nothing changes.
    ///
    /// Cost: for one value a few nanoseconds in a range of at most 2^24 values, about 0.1 µs in a larger one, and with
    /// an owner two searches in sorted trees; for a run in addition a search through what is in use.
    ///
    /// # Errors
    /// [`AllocateError`]; nothing is changed then but cool-downs that have ended.
    pub fn allocate(
        &mut self,
        want: Want,
        owner: Option<&str>,
        now: Duration,
        rng: &mut impl Rng,
    ) -> Result<Allocation, AllocateError> {
        self.expire(now);
        let wanted = self.wanted(want)?;
        if let Some(owner) = owner {
            if !is_owner(owner) {
                return Err(AllocateError::OwnerLength { len: owner.len() });
            }
            if let Some(has) = self.owners.of(owner).next() {
                return self.again(want, wanted, owner, has);
            }
        }
        if !self.has_room(wanted.len) {
            return Err(AllocateError::TooMany { range: self.pool.range });
        }
        let first = match want {
            Want::Value(value) => self.named(value)?,
            Want::Any | Want::Run(_) | Want::Block(_) => self.choose(wanted, rng).ok_or(AllocateError::Full {
                range: self.pool.range,
                len: wanted.len as u32,
                aligned: wanted.align > 1,
                cooling: self.cooling.offsets(),
            })?,
        };
        let len = wanted.len as u32;
        self.take(first, len);
        self.changes += 1;
        if let Some(owner) = owner {
            self.owners.insert(first, len, owner);
        }
        if !matches!(want, Want::Value(_)) {
            self.next = first.checked_add(len.into()).filter(|next| *next <= self.pool.range.last()).unwrap_or(0);
        }
        Ok(self.allocation(first, len))
    }

    /// Releases a value that has no owner. Returns whether it was in use; one that is free, cools down or is not in the
    /// range is no error.
    ///
    /// # Errors
    /// If the value has an owner; nothing is changed then.
    pub fn release(&mut self, value: LedgerValue, now: Duration) -> Result<bool, Owned> {
        self.expire(now);
        let Some(offset) = self.pool.range.offset_of(value) else { return Ok(false) };
        if let Some(owner) = self.owners.at(offset) {
            return Err(Owned { value, owner: owner.to_owned() });
        }
        if !self.is_in_use(offset) {
            return Ok(false);
        }
        self.give_back(offset, 1, now);
        Ok(true)
    }

    /// Releases those of `len` offsets in a row that are in use and have no owner.
    fn release_unowned(&mut self, first: u64, len: u32, now: Duration) {
        self.expire(now);
        let is_unowned = |offset: &u64| self.is_in_use(*offset) && self.owners.at(*offset).is_none();
        for (first, len) in in_a_row(offsets(first, len).filter(is_unowned)) {
            self.give_back(first, len, now);
        }
    }

    /// Releases all that an owner has, and returns it; nothing if it has nothing, as after an earlier release.
    pub fn release_owner(&mut self, owner: &str, now: Duration) -> Vec<Allocation> {
        self.expire(now);
        let has = self.owners.remove(owner);
        for (first, len) in &has {
            self.give_back(*first, *len, now);
        }
        has.into_iter().map(|(first, len)| self.allocation(first, len)).collect()
    }

    /// Whether the value is in use; false if it cools down or is not in the range.
    pub fn has(&self, value: LedgerValue) -> bool {
        self.pool.range.offset_of(value).is_some_and(|offset| self.is_in_use(offset))
    }

    fn is_in_use(&self, offset: u64) -> bool {
        self.taken.contains(offset) && self.cooling.at(offset).is_none()
    }

    /// Who owns the value; `None` also if it is not in use.
    pub fn owner_of(&self, value: LedgerValue) -> Option<&str> {
        self.owners.at(self.pool.range.offset_of(value)?)
    }

    /// What an owner has, ascending: one allocation, unless another program stored more.
    pub fn owned_by(&self, owner: &str) -> impl Iterator<Item = Allocation> {
        self.owners.of(owner).map(|(first, len)| self.allocation(first, len))
    }

    /// How many values are in use. Cost: O(1); in a range of n values up to 2^24 O(n / 64) for the first time after
    /// [`open`](Self::open).
    pub fn used(&self) -> u64 {
        self.taken.len() - self.cooling.offsets()
    }

    /// How many values are out of use for some time after their release.
    pub fn cooling(&self) -> u64 {
        self.cooling.offsets()
    }

    /// The values in use, ascending. Cost: in a range of more than 2^24 values they are sorted first.
    pub fn iter(&self) -> impl Iterator<Item = LedgerValue> {
        self.offsets().filter_map(|offset| self.pool.range.value_at(offset))
    }

    /// The values that are in use here and not in `other`, ascending: what was allocated since then, or with the roles
    /// exchanged what was released.
    pub fn difference(&self, other: &Self) -> impl Iterator<Item = LedgerValue> {
        self.iter().filter(|value| !other.has(*value))
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        self.taken.iter().filter(|offset| self.cooling.at(*offset).is_none())
    }

    fn allocation(&self, first: u64, len: u32) -> Allocation {
        // The offsets of a ledger are those of its range.
        let first = self.pool.range.value_at(first).unwrap_or(LedgerValue::Integer(first));
        Allocation { first, len }
    }

    /// The run that is to be found.
    fn wanted(&self, want: Want) -> Result<Wanted, AllocateError> {
        let range = self.pool.range;
        let most = range.last().saturating_add(1).min(self.longest_run().into());
        let wanted = match want {
            Want::Any | Want::Value(_) => Wanted::anywhere(1),
            Want::Run(len) => Wanted::anywhere(len.into()),
            Want::Block(bits) => {
                let len = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
                Wanted { len, align: len, phase: range.origin() & (len - 1) }
            }
        };
        if wanted.len == 0 || wanted.len > most {
            return Err(AllocateError::RunLength { len: wanted.len, at_most: most, range });
        }
        Ok(wanted)
    }

    /// How many values in a row are given at most, if the range has so many.
    fn longest_run(&self) -> u32 {
        if self.taken.is_wide() { RUN_MAX } else { WIDEST_BITMAP }
    }

    /// Whether so many values more can be in use.
    fn has_room(&self, len: u64) -> bool {
        !self.taken.is_wide() || self.taken.len() + len <= WIDE_USED_MAX
    }

    /// The answer to an owner that has something.
    fn again(&self, want: Want, wanted: Wanted, owner: &str, has: (u64, u32)) -> Result<Allocation, AllocateError> {
        let (first, len) = has;
        let has = self.allocation(first, len);
        let is_wanted = match want {
            Want::Value(value) => has.first == value,
            Want::Any | Want::Run(_) | Want::Block(_) => wanted.first_from(first) == Some(first),
        };
        if is_wanted && wanted.len == u64::from(len) {
            return Ok(has);
        }
        Err(AllocateError::HasOther { owner: owner.into(), has })
    }

    /// The offset of a value that is asked for by name.
    fn named(&mut self, value: LedgerValue) -> Result<u64, AllocateError> {
        let range = self.pool.range;
        let offset = range.offset_of(value).ok_or(AllocateError::NotInRange { value, range })?;
        if self.pool.is_excluded(offset) {
            return Err(AllocateError::Excluded { value, range });
        }
        if let Some((first, len, until)) = self.cooling.at(offset) {
            // The others of its run cool on: those before it, and those after it.
            self.cooling.remove(first);
            let before = (offset - first) as u32;
            for (first, len) in [(first, before), (offset.saturating_add(1), len - before - 1)] {
                if len > 0 {
                    self.cooling.insert(first, len, until);
                }
            }
            self.end_most();
        } else if self.taken.contains(offset) {
            let owner = self.owner_of(value).map(str::to_owned);
            return Err(AllocateError::AlreadyAllocated { value, owner });
        }
        Ok(offset)
    }

    /// The first offset of free ones: dynamic ones, or if there are none those of the static bands.
    fn choose(&mut self, wanted: Wanted, rng: &mut impl Rng) -> Option<u64> {
        let is_near = self.pool.choice == Choice::Random && self.taken.is_wide();
        let region = if is_near { self.region.next(|| self.pool.dynamic.random(rng)) } else { 0 };
        let find = |first: u64, last: u64| self.taken.next_clear_run(first..=last, wanted);
        [&self.pool.dynamic, &self.pool.last_resort].into_iter().find_map(|spans| {
            let start = match self.pool.choice {
                Choice::Lowest => 0,
                Choice::Random if is_near => region.saturating_add(rng.next_u64() % Region::SIZE),
                Choice::Random => spans.random(rng),
                Choice::NextFit => self.next,
            };
            spans.find(start, find)
        })
    }

    fn take(&mut self, first: u64, len: u32) {
        for offset in offsets(first, len) {
            self.taken.insert(offset);
        }
    }

    /// Frees offsets, or lets them cool down.
    fn give_back(&mut self, first: u64, len: u32, now: Duration) {
        self.changes += 1;
        let Some(CoolDown { time, .. }) = self.pool.cool_down else { return self.free(first, len) };
        self.cooling.insert(first, len, milliseconds(now.saturating_add(time)));
        self.end_most();
    }

    /// Ends the oldest cool-downs if there are more than the pool keeps.
    fn end_most(&mut self) {
        let at_most = self.pool.cool_down.map_or(usize::MAX, |cool_down| cool_down.at_most as usize);
        while self.cooling.len() > at_most {
            self.end_next();
        }
    }

    /// Ends the cool-downs that are over. One that would end later than that of a release now was begun by a clock that
    /// was ahead, or in a pool with a longer time: it gets that end.
    fn expire(&mut self, now: Duration) {
        if let Some(CoolDown { time, .. }) = self.pool.cool_down
            && self.cooling.end_by(milliseconds(now.saturating_add(time)))
        {
            // It must be stored, or each look would move the end on.
            self.changes += 1;
        }
        let now = milliseconds(now);
        while self.cooling.next().is_some_and(|(until, _)| until <= now) {
            self.end_next();
        }
    }

    /// Ends the cool-down that is over next. Alone, that need not be stored: each look sees it by the time.
    fn end_next(&mut self) {
        if let Some((_, first)) = self.cooling.next() {
            let len = self.cooling.remove(first).unwrap_or(0);
            self.free(first, len);
        }
    }

    fn free(&mut self, first: u64, len: u32) {
        for offset in offsets(first, len) {
            self.taken.remove(offset);
        }
    }
}

fn is_owner(text: &str) -> bool {
    (1..=OWNER_MAX).contains(&text.len())
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn by(owner: &Option<String>) -> String {
    owner.as_ref().map_or_else(String::new, |owner| format!(" by {owner}"))
}

fn values(len: u32, aligned: bool) -> String {
    match (len, aligned) {
        (1, _) => "value".into(),
        (_, false) => format!("{len} values in a row that are"),
        (_, true) => format!("aligned block of {len} values that is"),
    }
}

fn values_from(has: &Allocation) -> String {
    if has.len == 1 { has.first.to_string() } else { format!("{} values from {}", has.len, has.first) }
}

fn cooling_down(cooling: u64) -> String {
    match cooling {
        0 => String::new(),
        1 => "; 1 value was released and is not given out yet".into(),
        _ => format!("; {cooling} values were released and are not given out yet"),
    }
}
