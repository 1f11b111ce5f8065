//! Changes by hand: what an operator allocates, releases, carries out as planned, or takes back.
//!
//! A repair pass counts leaks and takes its time. An edit is one look at the Services and one write, which depends on
//! it: it is written only if no Service has been written after the list, and a write of a Service that reaches the
//! store later cannot have a value that it frees ([`Witness::Delete`](super::Witness)).

use std::num::NonZeroU64;

use rand_core::Rng;

use crate::allocator::{AllocateError, BatchError, Full};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::operation::{Failure, Operation, Outcome};
use super::pending::Pending;
use super::plan::{Plan, Planned};

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
    fn is_refused_by(self, fate: Fate) -> bool {
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

impl<R: Range> Plan<'_, R> {
    /// Decides what becomes of each value, and sets what is to be set. [`clear_edited`](Self::clear_edited) comes last.
    pub(super) fn edit(&mut self, pending: &Pending<R>, edit: &Edit<R>, rng: &mut impl Rng) -> Planned<R> {
        if let Some(failure) = self.refusal() {
            return Planned::End(Outcome::Failed(failure));
        }
        let range = self.next.range();
        let fates = |values: &[R::Value], fate: &dyn Fn(u32) -> Fate| {
            let fate_of = |value: &R::Value| Some((*value, fate(range.offset_of(*value)?)));
            values.iter().filter_map(fate_of).collect::<Vec<_>>()
        };
        let mut values = fates(&edit.set, &|offset| self.fate_of_set(edit, offset));
        let clears = fates(&edit.clear, &|offset| self.fate_of_clear(edit, offset));
        let is_refused = |(_, fate): &(R::Value, Fate)| edit.kind.is_refused_by(*fate);
        let is_done = !values.iter().chain(&clears).any(is_refused);
        if !is_done && pending.was_unknown {
            // What stands against it may be its own work.
            return Planned::End(Outcome::Unknown);
        }
        if is_done && let Some(look) = edit.look {
            match self.set_by_hand(&values, edit, rng) {
                Ok(picked) => values.extend(picked.into_iter().map(|value| (value, Fate::Set))),
                Err(index) => {
                    let failure = BatchError::Full { index, source: Full { range } };
                    return Planned::End(Outcome::Failed(failure.into()));
                }
            }
            let is_change = |(_, fate): &(R::Value, Fate)| matches!(fate, Fate::Set | Fate::Cleared);
            if values.iter().chain(&clears).any(is_change) {
                self.effect.look = Some(look);
                self.effect.depend_on_services(edit.listed);
            }
        }
        values.extend(clears);
        Planned::Edit(Edited { revision: 0, is_done, values })
    }

    /// Sets the values that are to be set, and picks others. Fails with the number of values that there are, and sets
    /// nothing then.
    fn set_by_hand(
        &mut self,
        values: &[(R::Value, Fate)],
        edit: &Edit<R>,
        rng: &mut impl Rng,
    ) -> Result<Vec<R::Value>, usize> {
        let range = self.next.range();
        let offsets =
            values.iter().filter(|(_, fate)| *fate == Fate::Set).filter_map(|(value, _)| range.offset_of(*value));
        let set: Vec<u32> = offsets.filter(|offset| self.next.bitmap_mut().insert(*offset)).collect();
        let picked = self.pick_unused(edit, rng);
        self.forget_quarantine();
        match picked {
            Ok(picked) => {
                self.effect.set.extend(set.iter().chain(&picked));
                Ok(picked.into_iter().filter_map(|offset| range.value_at(offset)).collect())
            }
            Err(count) => {
                set.into_iter().for_each(|offset| _ = self.next.bitmap_mut().remove(offset));
                Err(count + edit.set.len())
            }
        }
    }

    fn fate_of_set(&self, edit: &Edit<R>, offset: u32) -> Fate {
        let is_used = edit.in_use.contains(offset);
        match edit.kind {
            _ if self.next.bitmap().contains(offset) => Fate::AlreadySet,
            EditKind::Change if is_used => Fate::InUse,
            EditKind::Plan if !is_used => Fate::Unused,
            _ => Fate::Set,
        }
    }

    fn fate_of_clear(&self, edit: &Edit<R>, offset: u32) -> Fate {
        if !self.used().contains(offset) {
            return Fate::AlreadyClear;
        }
        match edit.kind {
            EditKind::Force => Fate::Cleared,
            _ if edit.in_use.contains(offset) => Fate::InUse,
            _ if self.is_handed_out(offset) => Fate::Reallocated,
            EditKind::Change => Fate::Cleared,
            EditKind::Plan | EditKind::Undo => match self.is_unchanged(offset, edit.since) {
                Some(true) => Fate::Cleared,
                Some(false) => Fate::Reallocated,
                None => Fate::Unsure,
            },
        }
    }

    /// Picks what no Service uses, whether it is recorded or not. Fails with the number of values that there are.
    fn pick_unused(&mut self, edit: &Edit<R>, rng: &mut impl Rng) -> Result<Vec<u32>, usize> {
        if edit.pick == 0 {
            return Ok(Vec::new());
        }
        let mut with_used = self.next.clone();
        edit.in_use.iter().for_each(|offset| _ = with_used.bitmap_mut().insert(offset));
        let next = std::mem::replace(&mut self.next, with_used);
        self.forget_quarantine();
        let mut picked = Vec::new();
        for _ in 0..edit.pick {
            let Some(offset) = self.pick(rng) else { break };
            picked.push(offset);
        }
        self.next = next;
        if picked.len() < edit.pick as usize {
            return Err(picked.len());
        }
        picked.iter().for_each(|offset| _ = self.next.bitmap_mut().insert(*offset));
        Ok(picked)
    }

    /// Clears what an edit clears.
    pub(super) fn clear_edited(&mut self, operation: &Operation<R>, planned: &Planned<R>) {
        let (Operation::Edit(edit), Planned::Edit(edited)) = (operation, planned) else { return };
        if !edited.is_done || edit.look.is_none() {
            return;
        }
        for (value, _) in edited.values.iter().filter(|(_, fate)| *fate == Fate::Cleared) {
            if let Some(offset) = self.next.range().offset_of(*value) {
                self.effect.by_hand = true;
                self.free(offset);
            }
        }
    }
}
