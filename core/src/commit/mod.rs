//! The commit protocol: how allocations, releases and repairs of several servers become writes of one key of etcd,
//! without a value ever being handed out twice.
//!
//! A [`Committer`] keeps one stored object. Callers [`submit`](Committer::submit) operations. The shell does what
//! [`poll`](Committer::poll) returns, a [`Step`] at a time, and reports what happens by [`handle`](Committer::handle),
//! as an [`Event`]. Many operations share one compare-and-swap, there is no read before a write, and a conflict brings
//! the current value with it.
//!
//! - An operation ends only by an answer to a request that was sent after its submission, never from memory.
//! - A value is set freely on the current state, and cleared only if it was set without a break since the operation's
//!   as-of revision. For that the committer remembers what changed when, and asks for a [watch](Step::Watch) where it
//!   has not seen every state.
//! - If a request's outcome is unknown, the committer neither assumes success nor retries. At worst a value leaks until
//!   a repair pass frees it.
//!
//! The rules, with their reasons and limits, are in `docs/commit-protocol.md` of the repository, and each has the parts
//! in which it is kept:
//!
//! | part | owns |
//! |---|---|
//! | `queue`, `pending` | the operations that wait, in their order, and the outcomes to hand out |
//! | `flight`, `batch`, `plan` | the request under way; its operations, evaluated on one state; their effect |
//! | `completion` | nothing: how the operations of an answered batch end |
//! | `history`, `changes`, `connection` | the newest state of the key; when each offset changed; which store it is |
//! | `protection`, `quarantine`, `recent` | what was handed out or cleared within the grace, and duplicates |
//! | `events` | nothing: it passes each event on to the other parts |
//! | `pacing`, `timers` | how long requests wait, for more operations and for other servers |
//! | `tokens` | the states of a key in a store that has tokens, and no revisions |
//! | `repair_pass`, `leak_tracker`, `exchange` | a pass; what is known from one to the next; what both sides say |
//!
//! [`poll`](Committer::poll) returns the first of these that there is to do: outcomes to hand out, a watch to start or
//! to stop, and the next request, which is a read if too little is known, a read of the past if an edit needs it, or
//! the batch of the operations that are ready. Else it returns until when to wait.
//!
//! Times are durations from a moment that the shell chooses, by a clock that never goes back. Randomness comes from
//! the caller's generator. Nothing else comes in but the store's answers, so that everything can be played again.
//!
//! # The loop of a shell
//!
//! A shell that is the only one to write its key, with a store in memory:
//!
//! ```
//! use std::time::Duration;
//!
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::allocator::{Request, Strategy};
//! use rangekeeper::commit::{
//!     Answer, Committer, Config, Event, KeyState, Header, KeyValue, Operation, Outcome, Replace, StoreRequest, Step,
//! };
//! use rangekeeper::ports::PortRange;
//!
//! /// A store with one key.
//! #[derive(Default)]
//! struct Store {
//!     revision: u64,
//!     state: KeyState,
//!     value: Vec<u8>,
//! }
//!
//! impl Store {
//!     /// A transaction: if the guard holds, puts the value, else reads the key.
//!     fn perform(&mut self, request: StoreRequest) -> (Header, Answer<'_>) {
//!         let held = match request {
//!             StoreRequest::Read => false,
//!             StoreRequest::Confirm { guard } => guard == self.state,
//!             StoreRequest::ReadAt { .. } => unreachable!("only an edit asks for it, beside other writers"),
//!             StoreRequest::Swap { guard, value, .. } => guard == self.state && self.put(value),
//!         };
//!         let current = KeyValue { state: self.state, value: &self.value };
//!         let answer =
//!             if held { Answer::Held } else { Answer::Current((self.state.version > 0).then_some(current)) };
//!         (Header { cluster_id: 1, revision: self.revision, raft_term: 1 }, answer)
//!     }
//!
//!     fn put(&mut self, value: Vec<u8>) -> bool {
//!         (self.revision, self.value) = (self.revision + 1, value);
//!         let KeyState { version, create_revision, .. } = self.state;
//!         let create_revision = if version == 0 { self.revision } else { create_revision };
//!         self.state = KeyState { mod_revision: self.revision, version: version + 1, create_revision };
//!         true
//!     }
//! }
//!
//! let range: PortRange = "30000-32767".parse()?;
//! let config = Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(360), replace: Replace::Always };
//! let mut committer = Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(42));
//! let (mut store, mut now) = (Store::default(), Duration::ZERO);
//! let mut run = |operation| {
//!     committer.submit(operation, now + Duration::from_secs(10));
//!     loop {
//!         match committer.poll(now) {
//!             // There is one caller, who has submitted one operation.
//!             Step::Finished(mut all) => return all.remove(0).outcome,
//!             Step::Send(request) => {
//!                 // Without an answer the event is `Event::Unknown`.
//!                 let (header, answer) = store.perform(request);
//!                 committer.handle(Event::Answered { header, answer }, now);
//!             }
//!             Step::Wait(until) => now = until,
//!             // Only if others write the key, too.
//!             Step::Watch { .. } | Step::StopWatch => {}
//!             Step::Idle => unreachable!("the operation has not ended"),
//!         }
//!     }
//! };
//!
//! assert_eq!(run(Operation::Create), Outcome::Created { created: true });
//! let allocated = run(Operation::Allocate(vec![Request::Named(30_080), Request::Any]));
//! let Outcome::Allocated { values, revision, store, .. } = allocated else { panic!("{allocated:?}") };
//! assert_eq!((values.len(), values[0]), (2, 30_080));
//!
//! // The Service could not be created: its values are released as of their allocation.
//! for value in values {
//!     let release = Operation::Release { value, as_of: revision, oldest: revision, store };
//!     assert_eq!(run(release), Outcome::Released { freed: true });
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod base;
mod batch;
mod changes;
mod committer;
mod completion;
mod config;
mod connection;
mod edit;
mod events;
pub mod exchange;
mod failure;
mod flight;
mod history;
mod leak_tracker;
mod limits;
mod operation;
mod pacing;
mod pending;
mod plan;
mod protection;
mod quarantine;
mod queue;
mod recent;
mod repair_pass;
mod request;
#[cfg(test)]
mod testing;
mod timers;
mod tokens;

pub use committer::Committer;
pub use config::{Config, Replace};
pub use edit::{Edit, EditKind, Edited, Fate};
pub use failure::Failure;
pub use leak_tracker::LeakTracker;
pub use limits::Limits;
pub use operation::{Deferral, Diff, Finished, Known, Operation, Outcome, Repaired, ServiceList, Ticket, View};
pub use repair_pass::{Found, Listing, PassError, RepairPass};
pub use request::{Answer, Change, Event, Header, KeyState, KeyValue, Step, StoreRequest, Witness};
pub use tokens::{TokenRequest, Tokens};
