//! A program: its share of the ledger, its clock, and its request under way.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ledger::{ChangeTicket, LedgerValue, Pool, SharedLedger};

use crate::random::Random;

use super::network::Flight;
use super::{Clocks, YEAR};

/// For what a change was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Values for the owner of this number, or the release of them.
    Allocate(usize),
    Release(usize),
    /// A value for nobody, or the release of one.
    AllocateForNobody,
    ReleaseValue(LedgerValue),
    /// A read that was submitted after so many writes.
    Read(usize),
}

pub(super) struct Program {
    pub(super) ledger: SharedLedger,
    /// How far its clock is ahead, in milliseconds.
    pub(super) clock: i64,
    pub(super) flight: Option<Flight>,
    pub(super) open: BTreeMap<ChangeTicket, Purpose>,
    /// How many values it may still have to give back, of callers that have gone.
    pub(super) returning: u64,
    pub(super) rng: Xoshiro256PlusPlus,
}

impl Program {
    pub(super) fn new(pool: Pool, clocks: Clocks, random: &mut Random) -> Self {
        let clock = match clocks {
            Clocks::Near(apart) => random.below(2 * apart + 1) as i64 - apart as i64,
            Clocks::Wild if random.percent(50) => 0,
            Clocks::Wild => wrong(random),
        };
        let seed = random.below(u64::MAX);
        Self {
            ledger: SharedLedger::new(pool, seed),
            clock,
            flight: None,
            open: BTreeMap::new(),
            returning: 0,
            rng: random.fork(),
        }
    }

    /// How many values without an owner may be lost if the write under way has no answer, or the program ends.
    pub(super) fn at_stake(&self) -> u64 {
        let is_nobodys = |purpose: &&Purpose| matches!(purpose, Purpose::AllocateForNobody | Purpose::ReleaseValue(_));
        self.returning + self.open.values().filter(is_nobodys).count() as u64
    }
}

/// How far a clock is ahead for some time.
pub(super) fn wrong(random: &mut Random) -> i64 {
    let far = random.pick(&[2000, YEAR]);
    match random.below(3) {
        0 => 0,
        1 => random.below(far) as i64,
        _ => -(random.below(far) as i64),
    }
}
