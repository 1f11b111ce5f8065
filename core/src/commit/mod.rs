//! The commit protocol: how allocations, releases and repairs of several servers become writes of one key of etcd,
//! without a value ever being handed out twice.
//!
//! A [`Committer`] keeps one stored object. Callers [`submit`](Committer::submit) operations; the shell asks by
//! [`poll`](Committer::poll) what to send, performs it, reports how it ended, and hands out what
//! [`take_finished`](Committer::take_finished) gives. Many operations share one compare-and-swap, there is no read
//! before a write, and a conflict brings the current value with it.
//!
//! - An operation ends only by an answer to a request that was sent after its submission: nothing is told from memory.
//! - A value is set freely on whatever is stored now, and cleared only if it was set without a break from the
//!   operation's anchor on. For that the committer remembers what changed when, and asks for a watch
//!   ([`watch_from`](Committer::watch_from)) where it has not seen every state.
//! - What may have happened is neither taken as done nor done again: rather a value leaks, and a repair pass frees it.
//!
//! Times are durations from a moment that the shell chooses, by a clock that never goes back. Randomness comes from
//! the caller's generator. Nothing else comes in but the store's answers, so that everything can be played again.

mod base;
mod batch;
mod changes;
mod committer;
mod config;
mod connection;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(not(feature = "faults"))]
#[allow(unreachable_pub, reason = "public with the feature")]
mod faults;
#[cfg_attr(not(feature = "faults"), path = "faulty/off.rs")]
mod faulty;
mod flight;
mod history;
#[cfg(feature = "limits")]
pub mod limits;
#[cfg(not(feature = "limits"))]
#[allow(unreachable_pub, reason = "public with the feature")]
mod limits;
mod operation;
mod pacing;
mod passes;
mod pending;
mod plan;
mod protection;
mod quarantine;
mod queue;
mod recent;
mod request;
mod settlement;
mod timers;

pub use committer::Committer;
pub use config::Config;
pub use operation::{Deferral, Diff, Failure, Finished, Known, Listed, Operation, Outcome, Repaired, Ticket, View};
pub use passes::Passes;
pub use request::{Answer, Change, Guard, Header, KeyValue, Request, Step};
