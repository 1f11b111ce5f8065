//! A server of a store with tokens.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{Committer, Config, LeakTracker, RepairPass, StoreRequest, Ticket, Tokens};
use rangekeeper::ports::PortRange;

use crate::layout::Mask;
use crate::random::Random;

use super::duration;
use super::row::Token;

/// For what an operation was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Allocate,
    /// For nobody: the values are given back at once.
    Brief,
    /// Before an owner gives values up: it has them at the revision of the view, as it had them when the read began.
    Look {
        owner: usize,
        values: Mask,
        began: u64,
    },
    Release,
    /// A fault: the read whose revision a release names, after the values were given up.
    Late(Mask),
    /// A pass reads.
    Pass(u32),
    Repair,
}

pub(super) struct Server {
    pub(super) committer: Committer<PortRange, Xoshiro256PlusPlus>,
    pub(super) tokens: Tokens<Token>,
    /// The request under way, and the number of the message that is to be answered.
    pub(super) flight: Option<(u32, StoreRequest)>,
    /// With their deadlines.
    pub(super) open: BTreeMap<Ticket, (Purpose, u64)>,
    /// When it is polled next; `u64::MAX` for never.
    pub(super) poll_at: u64,
    pub(super) config: Config,
    pub(super) repairs: bool,
    /// Between two passes.
    pub(super) interval: u64,
    pub(super) passes: LeakTracker,
    /// The pass under way, its number, and whether it has read.
    pub(super) pass: Option<(u32, RepairPass)>,
    pub(super) begun: u32,
    /// How many of them have failed in a row by their lists.
    pub(super) failed: u32,
}

impl Server {
    pub(super) fn new(range: PortRange, config: Config, interval: u64, repairs: bool, random: &mut Random) -> Self {
        Self {
            committer: Committer::new(range, config, random.fork()),
            tokens: Tokens::new(),
            flight: None,
            open: BTreeMap::new(),
            poll_at: u64::MAX,
            config,
            repairs,
            interval,
            passes: counting(interval),
            pass: None,
            begun: 0,
            failed: 0,
        }
    }
}

/// What counts the leaks of passes.
pub(super) fn counting(interval: u64) -> LeakTracker {
    LeakTracker::new(NonZeroU8::new(3).expect("not zero"), duration(interval))
}
