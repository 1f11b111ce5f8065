//! Changes by hand: what an operator allocates, releases, carries out as planned, or takes back.
//!
//! A repair pass counts leaks and takes its time. An edit is one look at the Services and one write, which depends on
//! it: it is written only if no Service has been written after the list, and a write of a Service that reaches the
//! store later cannot have a value that it frees ([`Witness::Delete`](super::Witness)).

use std::num::NonZeroU64;

use crate::allocator::{AllocateError, BatchError};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::failure::Failure;

/// A change by hand. Its write depends on the list of Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<R: Range> {
    /// What lets a value be changed.
    pub kind: EditKind,
    /// The values to record.
    pub set: Vec<R::Value>,
    /// How many more to record, chosen by the strategy. None of them is in use.
    pub pick: u32,
    /// The values to free.
    pub clear: Vec<R::Value>,
    /// The offsets that Services use ([`BitmapReport::in_use`](crate::audit::BitmapReport::in_use)).
    pub in_use: Bitmap,
    /// At which revision of the store of the range Services were listed: that of the look.
    pub listed: u64,
    /// For [`EditKind::Plan`] and [`EditKind::Undo`]: the revision from which on a value to free has to be recorded
    /// without a break. Otherwise its record may be of a Service that is being created.
    pub since: u64,
    /// The [look](super::RepairPass::fenced) at Services. Without one it is a dry run: nothing is picked or written,
    /// and the outcome says what would be done.
    pub look: Option<NonZeroU64>,
}

/// What an edit demands of a value before it changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EditKind {
    /// To record it: that it is free and that no Service uses it. To free it: that no Service uses it. All is written
    /// or nothing; what is free already stays so.
    Change,
    /// As [`Change`](Self::Change), also if a Service uses it.
    Force,
    /// To record it: that it is free and a Service uses it. To free it: that it is recorded, without a break since
    /// [`Edit::since`], and no Service uses it. All is written or nothing.
    Plan,
    /// To record it: nothing. To free it: as [`Plan`](Self::Plan). What can be changed is.
    Undo,
}

/// What became of the values of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited<R: Range> {
    /// The revision of the write; if nothing had to be or could be written, that at which it was so.
    pub revision: u64,
    /// Whether all was done that can be. Otherwise nothing was: one of the values could not be changed.
    pub is_done: bool,
    /// The values to set, in their order, then those that were picked, then those to clear.
    pub values: Vec<(R::Value, Fate)>,
}

/// What became of one value of an edit; if the edit [is not done](Edited::is_done), what stands against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is recorded now.
    Set,
    /// It is free now.
    Cleared,
    /// It was recorded already.
    AlreadySet,
    /// It was free already.
    AlreadyClear,
    /// A Service uses it.
    InUse,
    /// No Service uses it.
    Unused,
    /// It was free for a moment, or this committer has just handed it out: its record may be of a Service that is being
    /// created.
    Reallocated,
    /// Whether it was free for a moment is not known.
    Unsure,
}

impl EditKind {
    /// Whether this fate of one value leaves all values as they are.
    pub(super) fn is_refused_by(self, fate: Fate) -> bool {
        match (self, fate) {
            (_, Fate::Set | Fate::Cleared) | (Self::Undo, _) => false,
            (Self::Change | Self::Force, fate) => fate != Fate::AlreadyClear,
            (Self::Plan, _) => true,
        }
    }

    /// Whether an edit of this kind frees only what was recorded without a break.
    pub(super) fn needs_history(self) -> bool {
        matches!(self, Self::Plan | Self::Undo)
    }
}

impl<R: Range> Edit<R> {
    /// Fails if one of the values is not in the range.
    pub(super) fn check(&self, range: R) -> Result<(), Failure<R>> {
        for (index, value) in self.set.iter().chain(&self.clear).enumerate() {
            if range.offset_of(*value).is_none() {
                let source = AllocateError::NotInRange { value: *value, range };
                return Err(BatchError::Allocate { index, source }.into());
            }
        }
        let (listed, read) = (self.listed, self.since);
        if self.needs_history() && listed < read { Err(Failure::StaleList { listed, read }) } else { Ok(()) }
    }

    /// Whether the history of a value has to be known.
    pub(super) fn needs_history(&self) -> bool {
        self.kind.needs_history() && !self.clear.is_empty()
    }
}
