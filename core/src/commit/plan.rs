//! How the operations of a batch are evaluated on one state of the key.

use std::num::NonZeroU64;
use std::ops;

use rand_core::Rng;

use crate::allocator::{AllocateError, Allocator, BatchError, Full, Request};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::base::{RangeState, Readable};
use super::changes::Changes;
use super::config::Replace;
use super::edit::Edited;
use super::failure::Failure;
use super::operation::{Deferral, Diff, Operation, Outcome, Repaired};
use super::pending::{Pending, Submitter};
use super::protection::Protection;
use super::quarantine::Quarantine;

mod edit;

/// What an operation ends with if the store confirms the batch.
#[derive(Clone, Debug)]
pub(super) enum Planned<R: Range> {
    /// It takes these offsets.
    Take(Vec<u32>),
    /// It returns what is stored.
    View,
    /// It changes this by hand.
    Edit(Edited<R>),
    End(Outcome<R>),
}

/// What a batch is evaluated with besides the base.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) changes: &'a Changes,
    pub(super) protection: &'a Protection,
    pub(super) replace: Replace,
}

/// What a batch changes, and on what it depends besides the key.
#[derive(Clone, Debug, Default)]
pub(super) struct Effect {
    pub(super) set: Vec<u32>,
    pub(super) cleared: Vec<u32>,
    /// Whether an edit clears some of `cleared`.
    pub(super) by_hand: bool,
    /// It is right only if no Service has been written after this revision.
    pub(super) services_unchanged_since: Option<u64>,
    /// It is right only if this look is there.
    pub(super) look: Option<NonZeroU64>,
}

impl Effect {
    /// It is right only if no Service has been written after this revision.
    pub(super) fn depend_on_services(&mut self, listed: u64) {
        self.services_unchanged_since = self.services_unchanged_since.into_iter().chain([listed]).min();
    }
}

/// A batch that is being evaluated.
pub(super) struct Plan<'a, R: Range> {
    readable: &'a Readable<R>,
    context: Context<'a>,
    pub(super) next: Allocator<R>,
    /// The band that values are picked from.
    band: ops::Range<u32>,
    /// How often the quarantine has yielded in it.
    level: usize,
    /// As `next`, with what the quarantine spares at this level in use, too. Made when it is needed first.
    outside_quarantine: Option<Allocator<R>>,
    pub(super) effect: Effect,
    /// Whether the object has to be written even if no offset changes.
    initialises: bool,
}

impl<'a, R: Range> Plan<'a, R> {
    /// Begins with the base: the object, and a copy of what is in use in it.
    pub(super) fn new(readable: &'a Readable<R>, context: Context<'a>, used: Allocator<R>) -> Self {
        Self {
            readable,
            context,
            next: used,
            band: 0..0,
            level: 0,
            outside_quarantine: None,
            effect: Effect::default(),
            initialises: false,
        }
    }

    /// Evaluates operations.
    pub(super) fn evaluate(&mut self, operations: &[Pending<R>], rng: &mut impl Rng) -> Vec<Planned<R>> {
        let repaired: Vec<Repaired<R>> = operations.iter().map(|pending| self.set(pending)).collect();
        let taken: Vec<Option<Planned<R>>> = operations.iter().map(|pending| self.take(pending, rng)).collect();
        let all = operations.iter().zip(repaired).zip(taken);
        all.map(|((pending, repaired), taken)| match taken {
            Some(planned) => {
                self.clear_edited(&pending.operation, &planned);
                planned
            }
            None => self.clear(pending, repaired),
        })
        .collect()
    }

    /// What is stored afterwards, the unused copy of what is in use if nothing changes; and the effect of the
    /// operations.
    pub(super) fn finish(self) -> (Result<Readable<R>, Allocator<R>>, Effect) {
        let changes = self.initialises || !self.effect.set.is_empty() || !self.effect.cleared.is_empty();
        let next = if changes {
            let object = self.readable.object.clone();
            Ok(Readable { object, used: self.next, range_state: RangeState::Initialised })
        } else {
            Err(self.next)
        };
        (next, self.effect)
    }

    /// Sets what a repair sets.
    fn set(&mut self, pending: &Pending<R>) -> Repaired<R> {
        let mut repaired = Repaired { set: Vec::new(), cleared: Vec::new(), changed: pending.dropped.unwrap_or(0) };
        let Operation::Repair(diff) = &pending.operation else { return repaired };
        if self.refuses(diff).is_some() {
            return repaired;
        }
        let initialised = self.readable.range_state == RangeState::Initialised;
        // A range that was deleted meanwhile is not recreated without what the pass saw in use: values would be handed
        // out that Services have. Nor is it created by a list that may be of another store.
        let is_right =
            pending.submitter != Submitter::Own && self.context.changes.knows(diff.read) && pending.dropped.is_none();
        if is_right && !initialised {
            self.initialises = true;
            self.depend_on_look(diff);
        }
        for offset in &diff.set {
            // What this committer handed out is set whatever happened since.
            let right = match pending.submitter {
                Submitter::Own => initialised && self.context.protection.is_handed_out(offset),
                _ => {
                    let unchanged = self.context.changes.is_unchanged_since(offset, diff.read);
                    unchanged.unwrap_or(false)
                }
            };
            if right && self.next.bitmap_mut().insert(offset) {
                self.effect.set.push(offset);
                repaired.set.extend(self.next.range().value_at(offset));
            } else {
                repaired.changed += 1;
            }
        }
        repaired
    }

    /// Takes what an allocation or an edit takes; `None` for other operations.
    pub(super) fn take(&mut self, pending: &Pending<R>, rng: &mut impl Rng) -> Option<Planned<R>> {
        match &pending.operation {
            Operation::Allocate(requests) => Some(self.allocate(requests, rng)),
            Operation::Edit(edit) => Some(self.edit(pending, edit, rng)),
            _ => None,
        }
    }

    fn allocate(&mut self, requests: &[Request<R::Value>], rng: &mut impl Rng) -> Planned<R> {
        if let Some(failure) = self.refusal() {
            return Planned::End(Outcome::Failed(failure));
        }
        let mut taken = vec![None; requests.len()];
        let served = self.serve(requests, &mut taken, rng);
        let taken: Vec<u32> = taken.into_iter().flatten().collect();
        match served {
            Ok(()) => {
                self.effect.set.extend(&taken);
                Planned::Take(taken)
            }
            Err(error) => {
                if !taken.is_empty() {
                    self.forget_quarantine();
                }
                for offset in taken {
                    self.next.bitmap_mut().remove(offset);
                }
                Planned::End(Outcome::Failed(error.into()))
            }
        }
    }

    /// Takes named values first, so that no pick stands in the way of a later name.
    fn serve(
        &mut self,
        requests: &[Request<R::Value>],
        taken: &mut [Option<u32>],
        rng: &mut impl Rng,
    ) -> Result<(), BatchError<R>> {
        self.take_named(requests, taken)?;
        self.pick_all(requests, taken, rng)
    }

    fn take_named(&mut self, requests: &[Request<R::Value>], taken: &mut [Option<u32>]) -> Result<(), BatchError<R>> {
        let range = self.next.range();
        for (index, (request, taken)) in requests.iter().zip(&mut *taken).enumerate() {
            let Request::Named(value) = *request else { continue };
            let failed = |source| BatchError::Allocate { index, source };
            let offset = range.offset_of(value).ok_or(failed(AllocateError::NotInRange { value, range }))?;
            if !self.next.bitmap_mut().insert(offset) {
                return Err(failed(AllocateError::AlreadyAllocated { value }));
            }
            if let Some(outside_quarantine) = &mut self.outside_quarantine {
                outside_quarantine.bitmap_mut().insert(offset);
            }
            *taken = Some(offset);
        }
        Ok(())
    }

    fn pick_all(
        &mut self,
        requests: &[Request<R::Value>],
        taken: &mut [Option<u32>],
        rng: &mut impl Rng,
    ) -> Result<(), BatchError<R>> {
        let range = self.next.range();
        for (index, (request, taken)) in requests.iter().zip(taken).enumerate() {
            if *request == Request::Any {
                let offset = self.pick(rng).ok_or(BatchError::Full { index, source: Full { range } })?;
                *taken = Some(offset);
            }
        }
        Ok(())
    }

    /// What the quarantine spares is computed again when it is needed.
    pub(super) fn forget_quarantine(&mut self) {
        (self.level, self.outside_quarantine) = (0, None);
    }

    /// Picks a free offset in the strategy's band. Recently released offsets come last, the newest of them last of all.
    pub(super) fn pick(&mut self, rng: &mut impl Rng) -> Option<u32> {
        let band = self.next.band_to_choose_from()?;
        if band != self.band {
            (self.band, self.level, self.outside_quarantine) = (band, 0, None);
        }
        let Some(offset) = self.take_outside_quarantine(rng) else {
            return self.next.take_from(self.band.clone(), rng);
        };
        self.next.bitmap_mut().insert(offset);
        Some(offset)
    }

    /// A free offset that the quarantine does not spare.
    fn take_outside_quarantine(&mut self, rng: &mut impl Rng) -> Option<u32> {
        let quarantine = self.context.protection.quarantine();
        while self.level < Quarantine::LEVELS && !quarantine.is_empty() {
            let outside_quarantine = self.outside_quarantine.get_or_insert_with(|| {
                let mut outside_quarantine = self.next.clone();
                quarantine.add_to(self.level, outside_quarantine.bitmap_mut());
                outside_quarantine
            });
            if let Some(offset) = outside_quarantine.take_from(self.band.clone(), rng) {
                return Some(offset);
            }
            (self.level, self.outside_quarantine) = (self.level + 1, None);
        }
        None
    }

    /// Clears what a release or a repair clears, and ends all that is not ended yet.
    pub(super) fn clear(&mut self, pending: &Pending<R>, mut repaired: Repaired<R>) -> Planned<R> {
        Planned::End(match &pending.operation {
            Operation::Allocate(_) | Operation::Edit(_) | Operation::Read => return Planned::View,
            Operation::Create => match &self.readable.range_state {
                RangeState::OtherRange { .. } => {
                    self.refusal().map_or(Outcome::Created { created: false }, Outcome::Failed)
                }
                RangeState::Initialised => Outcome::Created { created: false },
                RangeState::Uninitialised => {
                    let created = !self.initialises;
                    self.initialises = true;
                    Outcome::Created { created }
                }
            },
            Operation::Release { value, as_of, oldest, store } => {
                match (self.refusal(), self.next.range().offset_of(*value)) {
                    (Some(failure), _) => Outcome::Failed(failure),
                    (None, None) => Outcome::Released { freed: false },
                    (None, Some(offset)) => self.release(offset, (*as_of, *oldest, *store)),
                }
            }
            Operation::Repair(diff) => {
                if let Some(failure) = self.refuses(diff) {
                    return Planned::End(Outcome::Failed(failure));
                }
                for offset in &diff.clear {
                    let unchanged = self.context.changes.is_unchanged_since(offset, diff.read) == Some(true);
                    let own = self.context.protection.is_handed_out(offset);
                    if unchanged && !own && self.free(offset) {
                        repaired.cleared.extend(self.next.range().value_at(offset));
                    } else {
                        repaired.changed += 1;
                    }
                }
                if !repaired.cleared.is_empty() {
                    self.depend_on_look(diff);
                    diff.listed.guard().into_iter().for_each(|listed| self.effect.depend_on_services(listed));
                }
                Outcome::Repaired(repaired)
            }
        })
    }

    /// The batch is right only if the look of this repair is there.
    fn depend_on_look(&mut self, diff: &Diff) {
        self.effect.look = diff.look;
    }

    /// What was in use before the batch.
    pub(super) fn used(&self) -> &Bitmap {
        self.readable.used.bitmap()
    }

    /// Whether this committer handed the offset out within the grace.
    pub(super) fn is_handed_out(&self, offset: u32) -> bool {
        self.context.protection.is_handed_out(offset)
    }

    /// Whether the offset has not changed since this revision, if that is certainly one of this store; `None` if it is
    /// not known.
    pub(super) fn is_unchanged(&self, offset: u32, since: u64) -> Option<bool> {
        let changes = self.context.changes;
        changes.is_unchanged_since(offset, since).filter(|_| changes.is_own(since))
    }

    /// Why a repair must not write the configured range.
    fn refuses(&self, diff: &Diff) -> Option<Failure<R>> {
        self.readable.refuses(self.context.replace, !diff.set.is_empty(), diff.outside)
    }

    fn release(&mut self, offset: u32, (as_of, oldest, store): (u64, u64, u32)) -> Outcome<R> {
        if !self.readable.used.bitmap().contains(offset) {
            return Outcome::Released { freed: false };
        }
        if self.context.protection.is_duplicate(offset) {
            return Outcome::Deferred(Deferral::Duplicate);
        }
        match self.context.changes.is_unchanged_for_owner(offset, as_of, oldest, store) {
            Some(unchanged) => Outcome::Released { freed: unchanged && self.free(offset) },
            None => Outcome::Deferred(Deferral::HistoryMissing),
        }
    }

    /// Clears an offset that was set before the batch. Returns whether that changed anything.
    pub(super) fn free(&mut self, offset: u32) -> bool {
        let freed = self.readable.used.bitmap().contains(offset) && self.next.bitmap_mut().remove(offset);
        if freed {
            self.effect.cleared.push(offset);
        }
        freed
    }

    /// Why nothing may be taken from the object as it stands.
    pub(super) fn refusal(&self) -> Option<Failure<R>> {
        match &self.readable.range_state {
            RangeState::Initialised => None,
            RangeState::Uninitialised => Some(Failure::NotInitialised),
            RangeState::OtherRange { range, .. } => {
                Some(Failure::MismatchedRange { expected: self.next.range(), found: range.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests;
