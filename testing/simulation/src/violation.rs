//! The invariants, and their violations.

use std::fmt::{Display, Formatter, Result};

/// The invariants of every schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// Each acknowledged allocation is exactly one change from free to in use, and none is acknowledged twice.
    I1,
    /// What was acknowledged stays in use until its owner releases it.
    I2,
    /// No two live Services own one value.
    I3,
    /// Only what was in use without a break from the as-of revision on is cleared; the as-of revision of a leak is the
    /// first of three spaced sightings, a grace ago.
    I4,
    /// After faults stop, every leak is gone after four passes, and all that Services use is stored.
    I5,
    /// Every operation ends by its deadline, and what ends as a failure has changed nothing.
    I6,
    /// Whatever is answered was true at some time between submission and end.
    I7,
    /// What cannot be read is not overwritten, and the range of others only by a repair pass.
    I8,
    /// A release frees only what was in use without a break since its Service was stored with it, as far back as the
    /// server could know.
    I9,
    /// A repair pass sets only what a listed Service has, and what was free in every revision since its read.
    I10,
    /// Allocate next takes what its server freed less than a grace ago only if there is nothing else.
    I11,
    /// What a server handed out less than a grace ago is set again in a range that was recreated.
    I12,
    /// What the last pass of a server saw with two Services is not released by it.
    I13,
    /// A server releases the values that it took for a caller who had gone.
    I14,
    /// What is given up for certain is free a while later, unless its release was deferred or has an unknown outcome.
    I15,
    /// A Service is written only with values that are still those that were allocated for it, however late its write
    /// is.
    I16,
    /// After a restore a server sets nothing again whose Service it knows to be written.
    I17,
    /// After a restore a release of a request that began later is not left to repair if the server could know the
    /// history.
    I18,
    /// An edit is written as a whole, depends on the Services that its operator listed, and frees with history only
    /// what was in use without a break.
    I19,
    /// What a pass clears that lists Services in the store, no Service has had since its look, though the store was
    /// restored and nobody could notice.
    I20,
}

/// An invariant that a schedule has broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// How.
    pub message: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{:?}: {}", self.invariant, self.message)
    }
}
