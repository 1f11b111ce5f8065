//! What becomes of each value of an edit, and why.

use rand_core::Rng;

use crate::allocator::{BatchError, Full};
use crate::range::Range;

use super::super::edit::{Edit, EditKind, Edited, Fate};
use super::super::operation::{Operation, Outcome};
use super::super::pending::Pending;
use super::{Plan, Planned};

impl<R: Range> Plan<'_, R> {
    /// Decides what becomes of each value, and sets what is to be set. [`clear_edited`](Self::clear_edited) comes last.
    pub(in super::super) fn edit(&mut self, pending: &Pending<R>, edit: &Edit<R>, rng: &mut impl Rng) -> Planned<R> {
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
    pub(in super::super) fn clear_edited(&mut self, operation: &Operation<R>, planned: &Planned<R>) {
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
