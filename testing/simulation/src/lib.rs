//! The commit protocol in millions of schedules.
//!
//! A schedule is a few servers with committers and repairers, a store with one key, callers, and whatever can go wrong
//! between them, all from one seed. [`play`] plays one and reports the invariant that did not hold, if any.

mod agenda;
mod cache;
pub mod faults;
mod knowledge;
pub mod layout;
mod ledger;
mod pair;
pub mod random;
pub mod reference;
mod server;
pub mod services;
pub mod store;
mod tokens;
pub mod violation;
mod world;

pub use world::Report;

/// Seeds from this one on are those of schedules in which a restored store reaches the revisions of the lost history
/// again, with other objects.
pub const RETRACED: u64 = 1 << 62;
/// Seeds from this one on are those of schedules over a store that has tokens and no revisions.
pub const TOKENS: u64 = 1 << 63;
/// Seeds from this one on are those of schedules of programs that share a ledger.
pub const LEDGERS: u64 = 3 << 62;

/// Plays the schedule of a seed. Of those below [`RETRACED`] one in 16 is about two ranges.
pub fn play(seed: u64, traced: bool) -> Report {
    if seed >= LEDGERS {
        ledger::play(seed, traced)
    } else if seed >= TOKENS {
        tokens::play(seed, traced)
    } else if seed >= RETRACED {
        world::play(seed, true, traced)
    } else if seed % 16 == 5 {
        pair::play(seed, traced)
    } else {
        world::play(seed, false, traced)
    }
}
