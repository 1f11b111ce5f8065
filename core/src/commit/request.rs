//! What a committer asks of the store, and what the store answers.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::range::Range;

use super::operation::Finished;

/// The state of a key: what a transaction expects, and what an answer brings; all 0 if there is no key.
///
/// The numbers are etcd's (`mvccpb.KeyValue`). Revision, version and create revision together tell apart what a
/// restore from a backup could make look alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyState {
    /// The revision of the key's last change.
    pub mod_revision: u64,
    /// How many changes the key has had since it was created, the creation included.
    pub version: u64,
    /// The revision at which the key was created.
    pub create_revision: u64,
}

impl KeyState {
    /// Whether a watch that has reported the key in state `head` reports this one next.
    pub(super) fn follows_watched(self, head: Self) -> bool {
        self == Self { mod_revision: self.mod_revision, version: head.version + 1, ..head }
    }

    /// Whether the key has not been deleted since it was in state `before`.
    pub(super) fn is_same_key(self, before: Self) -> bool {
        before.create_revision == self.create_revision
    }

    /// Whether this is the next state of the same key.
    pub(super) fn is_next_version(self, before: Self) -> bool {
        self.version == before.version + 1
    }

    /// The state after a write at this revision.
    pub(super) fn written(self, revision: u64) -> Self {
        let create_revision = if self.version == 0 { revision } else { self.create_revision };
        Self { mod_revision: revision, version: self.version + 1, create_revision }
    }
}

/// A request to the store. There is one at a time; it ends by [`Event::Answered`], [`Event::Unknown`],
/// [`Event::Refused`] or [`Event::Compacted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// A linearizable read of the key.
    Read,
    /// A read of the key as it was at this revision, which may be compacted.
    ReadAt {
        /// The revision.
        revision: u64,
    },
    /// A transaction: if the guard holds, put the value and write the witness, else read the key.
    Swap {
        /// What the key must be.
        guard: KeyState,
        /// What is put.
        value: Vec<u8>,
        /// What becomes of the witness.
        witness: Witness,
        /// A further condition, if the swap clears leaks: no key of a Service has a later mod revision than this. (In
        /// etcd a compare with a `range_end`; it holds if there are no keys, and does not report deletions.)
        services_unchanged_since: Option<u64>,
        /// A further condition, if the swap depends on a list of Services: the [look](super::RepairPass::fenced) of
        /// this number is there.
        look: Option<NonZeroU64>,
    },
    /// A transaction: if the guard holds, nothing, else read the key.
    Confirm {
        /// What the key must be.
        guard: KeyState,
    },
}

/// What a swap does with the [witness](super::RepairPass::fenced), a key beside the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Nothing: the swap allocates nothing.
    Keep,
    /// It is put, with any value.
    Put,
    /// It is deleted: the swap creates the range, in which no value that was allocated before is recorded.
    Delete,
}

/// What stands at the head of every answer of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The cluster that answered.
    pub cluster_id: u64,
    /// The store's revision after the request.
    pub revision: u64,
    /// The raft term.
    pub raft_term: u64,
}

/// A key as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValue<'a> {
    /// Its revisions and version.
    pub state: KeyState,
    /// What stands under it.
    pub value: &'a [u8],
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The guard held: a swap was written, at the header's revision; a confirm confirmed.
    Held,
    /// The answer to a read, or what stood against the guard: the key, if it is there.
    Current(Option<KeyValue<'a>>),
    /// The answer to a read of the past: the key, if it was there.
    Past(Option<KeyValue<'a>>),
}

/// One change of the key, as a watch reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key was written.
    Put(KeyValue<'a>),
    /// The key was deleted, at this revision.
    Delete {
        /// The revision of the deletion.
        revision: u64,
    },
}

/// What the shell reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The store has answered the request.
    Answered {
        /// The head of the answer.
        header: Header,
        /// The answer.
        answer: Answer<'a>,
    },
    /// It is unknown whether the request took effect, or will.
    Unknown,
    /// The store refuses the request for this reason: no space, no permission. The request will not take effect later.
    Refused(&'a str),
    /// The store no longer has the past that was to be read.
    Compacted,
    /// The connection is a new one: what was known may be out of date, or the store be another one. It is reported
    /// before anything that came over the new connection.
    Reconnected,
    /// The watch has seen a change of the key.
    Watched(Change<'a>),
    /// The watch has ended unexpectedly, and can be started again.
    WatchEnded,
    /// The watch has ended and cannot see all changes: they are compacted. Operations that wait for them go on without.
    WatchFailed,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "each step is to be done before the next poll"]
pub enum Step<R: Range> {
    /// Hand out the outcomes of these operations, in the order in which they ended. What their callers submit next
    /// joins the next batch.
    Finished(Vec<Finished<R>>),
    /// Watch the key: report all changes from this revision on, in their order.
    Watch {
        /// The revision.
        from: u64,
    },
    /// End the watch: report nothing of it any more.
    StopWatch,
    /// Perform this request.
    Send(StoreRequest),
    /// Wait until this time, or until something happens.
    Wait(Duration),
    /// Wait until something happens.
    Idle,
}

#[cfg(test)]
mod tests {
    use super::super::testing::state;
    use super::*;

    #[test]
    fn only_the_next_version_of_the_same_key_follows() {
        let recreated = KeyState { mod_revision: 40, version: 1, create_revision: 40 };
        let other = KeyState { create_revision: 11, ..state(4) };
        for (after, follows, is_same_key, is_next_version) in [
            (state(4), true, true, true),
            (state(5), false, true, false),
            (state(3), false, true, false),
            (other, false, false, true),
            (recreated, false, false, false),
        ] {
            let found = (after.follows_watched(state(3)), after.is_same_key(state(3)), after.is_next_version(state(3)));
            assert_eq!(found, (follows, is_same_key, is_next_version), "{after:?}");
        }
    }
}
