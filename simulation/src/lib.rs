//! The commit protocol in millions of schedules.
//!
//! A schedule is a few servers with committers and repairers, a store with one key, callers, and whatever can go wrong
//! between them, all from one seed. [`play`] plays one and reports the invariant that did not hold, if any.

pub mod faults;
mod knowledge;
pub mod layout;
pub mod random;
pub mod reference;
mod server;
pub mod services;
pub mod store;
pub mod violation;
mod world;

pub use world::{Report, play};
