//! What callers submit, and how it ends.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::allocator::{AllocateError, BatchError, Request};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::edit::{Edit, Edited};
use super::failure::Failure;

/// The read of a pass that may be about another store.
pub(super) const UNKNOWN_REVISION: u64 = 0;

/// The number of a submitted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What is to be done with the stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<R: Range> {
    /// Serve all of these requests, or none.
    Allocate(Vec<Request<R::Value>>),
    /// Release a value on behalf of its owner. The value is freed only if it has been in use without a break since
    /// `as_of`, and since `oldest` as far back as the history goes: otherwise somebody else may own it by now.
    ///
    /// Both are revisions of the range's etcd. Where Services are kept in another etcd, leave their values to repair. A
    /// caller that knows no owner submits a [`Read`](Self::Read) first and names the view's revision twice: that is a
    /// release as of the read, whoever owns the value.
    Release {
        /// The value.
        value: R::Value,
        /// The revision at which the owner stopped having the value: that of the Service's deletion or of the update
        /// that dropped the value; for a rollback that of the allocation.
        as_of: u64,
        /// The revision at which the owner was last stored with the value: the Service's before its deletion or update;
        /// for a rollback that of the allocation. A later one than `as_of` counts as `as_of`.
        oldest: u64,
        /// [`Known::store`] as it was when the owner began the request by which it gave the value up; for a rollback
        /// that of [`Outcome::Allocated`]. If that is not the present store of this committer, the release is deferred:
        /// the store before a restore, and those of other committers, may have had another history. 0 names none, as
        /// in a release as of a read: then revisions count, but for those that a store before had reached, too, if the
        /// committer has noticed that this is another one.
        store: u32,
    },
    /// Read what is stored.
    Read,
    /// Create the object if it is missing or was never initialised.
    Create,
    /// Apply the diff of a repair pass. There is one pass at a time.
    Repair(Box<Diff>),
    /// Change values by hand.
    Edit(Box<Edit<R>>),
}

impl<R: Range> Operation<R> {
    /// Fails if no state of the store lets it be carried out.
    pub(super) fn check(&self, range: R) -> Result<(), Failure<R>> {
        match self {
            Self::Allocate(wanted) => {
                for (index, wanted) in wanted.iter().enumerate() {
                    if let Request::Named(value) = *wanted
                        && range.offset_of(value).is_none()
                    {
                        let source = AllocateError::NotInRange { value, range };
                        return Err(BatchError::Allocate { index, source }.into());
                    }
                }
                Ok(())
            }
            Self::Repair(diff) => match diff.listed.revision() {
                Some(listed) if listed < diff.read => Err(Failure::StaleList { listed, read: diff.read }),
                _ => Ok(()),
            },
            Self::Edit(edit) => edit.check(range),
            Self::Release { .. } | Self::Read | Self::Create => Ok(()),
        }
    }
}

/// What a repair pass changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// The revision of the [`View`] that the pass was about.
    pub read: u64,
    /// Offsets that Services use and that are not stored. One is set only if it was clear ever since.
    pub set: Bitmap,
    /// Offsets whose leak is to be cleaned. One is cleared only if it was set ever since.
    pub clear: Bitmap,
    /// Offsets that more than one Service claims: to release one of them waits for another pass.
    pub duplicates: Vec<u32>,
    /// How many Services have a value of this kind that the configured range does not have.
    pub outside: u32,
    /// When the Services of the pass were listed.
    pub listed: ServiceList,
    /// The [look](super::RepairPass::fenced) that was put before that: nothing is cleared, and no object created, once
    /// it is gone.
    pub look: Option<NonZeroU64>,
}

/// When the Services of a pass were listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceList {
    /// In another store than that of the range, or over an API server, whose watch cache may have missed what a
    /// restored store wrote though the revision of its list is current. Revisions cannot be compared. Once the
    /// committer has noticed another store, a pass with such a list changes nothing.
    #[default]
    Elsewhere,
    /// Read from the range's store itself, at this revision. If that is before the pass's read, the repair fails; if it
    /// is not that of the pass's last [fence](super::RepairPass::fenced), or there is none, nothing is cleared.
    At(u64),
    /// As [`At`](Self::At), and clears depend on it ([`StoreRequest::Swap`](super::StoreRequest::Swap)): nothing is
    /// cleared once a Service has been written after the list. Where Services never rest, leaks stay.
    Guarding(u64),
}

impl ServiceList {
    /// The revision of the list, if it can be compared.
    pub(super) fn revision(self) -> Option<u64> {
        match self {
            Self::Elsewhere => None,
            Self::At(revision) | Self::Guarding(revision) => Some(revision),
        }
    }

    /// The revision on which clears depend.
    pub(super) fn guard(self) -> Option<u64> {
        match self {
            Self::Elsewhere | Self::At(_) => None,
            Self::Guarding(revision) => Some(revision),
        }
    }
}

/// What is stored, confirmed by the store after the operation was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The store's revision that this is the state of.
    pub revision: u64,
    /// What is in use; nothing if the object is missing or was never initialised.
    pub used: Bitmap,
    /// Whether the object is there and was initialised.
    pub initialised: bool,
}

/// What a committer knows of the stored object without asking the store: it may be out of date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The revision of the newest state of the key that was seen; 0 if none was, or there is no key. What is in use in
    /// it can be released from this as-of revision on.
    pub revision: u64,
    /// How many values were in use; 0 if the object was missing or never initialised.
    pub used: u32,
    /// Whether the object was there and initialised.
    pub initialised: bool,
    /// Which store the committer talks to: a release names it. No other committer has this number, and it is never 0.
    /// It changes with the first answer, too, as a restore before that goes unnoticed: who gives up a value before it,
    /// has its release deferred. So submit a [`Read`](Operation::Read) first.
    pub store: u32,
    /// How often another store has answered than before, or an older state of it, as after a restore from a backup.
    /// What others remember of the store, such as the watch cache of an API server, is wrong from then on.
    pub restores: u32,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R: Range> {
    /// The caller owns the values.
    Allocated {
        /// In the order of the requests.
        values: Vec<R::Value>,
        /// The revision at which they were taken: the as-of revision of a rollback.
        revision: u64,
        /// Which store that was ([`Known::store`]).
        store: u32,
        /// Until when a Service with them must be written.
        use_until: Duration,
    },
    /// The value is free.
    Released {
        /// Whether this operation freed it; else it was free already.
        freed: bool,
    },
    /// The value was not freed; a repair pass has to look at it.
    Deferred(Deferral),
    /// What is stored.
    Read(View),
    /// The object is there.
    Created {
        /// Whether this operation created it; else it was there already, for the same range.
        created: bool,
    },
    /// As much of the diff as was still right was applied.
    Repaired(Repaired<R>),
    /// All of the edit was done, or nothing.
    Edited(Edited<R>),
    /// Nothing was changed.
    Failed(Failure<R>),
    /// The operation may have taken effect or may do so yet. What it allocated must not be used.
    Unknown,
}

/// What became of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired<R: Range> {
    /// The values that were set, ascending.
    pub set: Vec<R::Value>,
    /// The values that were cleared, ascending.
    pub cleared: Vec<R::Value>,
    /// How many had changed since the pass, or may have, or were not to be cleared because Services had been written:
    /// they were left alone.
    pub changed: u32,
}

/// Why a release was left to a repair pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Deferral {
    /// The history of the value since the as-of revision is unknown.
    #[error("the history since the as-of revision is unknown")]
    HistoryMissing,
    /// The last pass saw more than one Service with the value.
    #[error("more than one Service had the value in the last repair pass")]
    Duplicate,
}

/// An operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<R: Range> {
    /// Which one.
    pub ticket: Ticket,
    /// How.
    pub outcome: Outcome<R>,
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_value_outside_the_range_fails_its_allocation() {
        let value = port(SIZE);
        let wanted = |value| Operation::Allocate(vec![Request::Any, Request::Named(value)]);
        let source = AllocateError::NotInRange { value, range: range() };
        assert_eq!(wanted(value).check(range()), Err(BatchError::Allocate { index: 1, source }.into()));
        assert_eq!(wanted(port(SIZE - 1)).check(range()), Ok(()));
        assert_eq!(release(SIZE, 30).check(range()), Ok(()), "it is free");
    }

    #[test]
    fn a_list_from_before_the_read_fails_the_repair() {
        for (listed, is_stale) in [
            (ServiceList::At(29), true),
            (ServiceList::Guarding(29), true),
            (ServiceList::At(30), false),
            (ServiceList::Guarding(30), false),
            (ServiceList::Elsewhere, false),
        ] {
            let stale = Err(Failure::StaleList { listed: 29, read: 30 });
            let checked = repair(30, &[1], &[], listed).check(range());
            assert_eq!(checked, if is_stale { stale } else { Ok(()) }, "{listed:?}");
        }
    }

    #[test]
    fn clears_depend_only_on_a_list_that_guards() {
        let revisions = [ServiceList::Elsewhere, ServiceList::At(30), ServiceList::Guarding(30)]
            .map(|one| (one.revision(), one.guard()));
        assert_eq!(revisions, [(None, None), (Some(30), None), (Some(30), Some(30))]);
    }
}
