//! What a committer does while some faults are on: the simulation has to find it. Nothing of it is compiled without the
//! feature `faults`.

use std::mem;
use std::time::Duration;

use rand_core::Rng;

use crate::allocator::Request as Wanted;
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::base::{Content, RangeState};
use super::batch::{Batch, Entry, Memory};
use super::committer::Committer;
use super::faults::Fault;
use super::operation::{Failure, Operation, Outcome, Repaired};
use super::pending::Pending;
use super::plan::{Plan, Planned};
use super::queue::Queue;
use super::request::Step;

impl<R: Range, G: Rng> Committer<R, G> {
    /// Faults 3 to 5: ends operations by what is known, without asking the store. `None` if nothing is left to be sent.
    pub(super) fn end_from_cache(&mut self, now: Duration, mut batch: Batch<R>) -> Option<Batch<R>> {
        let answered_at = now.saturating_sub(self.history.connection.answer_age(now)?);
        let revision = self.history.connection.answered_revision()?;
        if batch.next.is_none() && Fault::NetZeroFromCache.is_on() {
            self.confirmed(answered_at, revision, batch);
            return None;
        }
        for entry in mem::take(&mut batch.entries) {
            match entry.planned {
                Planned::End(outcome @ Outcome::Failed(Failure::Allocate(_))) if Fault::RefusedFromCache.is_on() => {
                    self.queue.end(entry.pending.owner, outcome);
                }
                Planned::End(outcome @ Outcome::Released { freed: false }) if Fault::FreeFromCache.is_on() => {
                    self.queue.end(entry.pending.owner, outcome);
                }
                planned => batch.entries.push(Entry { planned, ..entry }),
            }
        }
        (!batch.entries.is_empty()).then_some(batch)
    }

    /// Fault 15: takes allocations for ours because their values are in use.
    pub(super) fn take_for_ours(&mut self) {
        let Some(base) = self.history.base().filter(|_| Fault::SetBitTakenForOurs.is_on()) else { return };
        let (range, state) = (self.range(), base.state);
        let mut ours = Vec::new();
        for pending in self.queue.iter().filter(|one| one.unknown_on.is_some_and(|unknown_on| unknown_on != state)) {
            let Operation::Allocate(wanted) = &pending.operation else { continue };
            let used: Option<Vec<R::Value>> = all_in_use(range, wanted, base.used());
            ours.extend(used.map(|values| (pending.owner, values)));
        }
        let store = self.history.store();
        for (owner, values) in ours {
            self.queue.remove(owner);
            self.queue.end(
                owner,
                Outcome::Allocated { values, revision: state.mod_revision, store, use_until: Duration::MAX },
            );
        }
    }

    /// Faults 16 and 17: keeps a compare-and-swap whose outcome is not known.
    pub(super) fn keep_unknown(&mut self, swap: Option<&Batch<R>>) {
        if Fault::EqualBytesTakenForOurs.is_on() || Fault::RepeatedWithOldRights.is_on() {
            self.repeat = swap.cloned();
        }
    }

    /// Fault 26: keeps a batch that has lost the race.
    pub(super) fn keep_conflicted(&mut self, batch: &Batch<R>) {
        if Fault::SnapshotRewritten.is_on() {
            self.repeat = Some(batch.clone());
        }
    }

    /// Fault 16: takes a compare-and-swap for ours because its bytes are stored.
    pub(super) fn claim_equal_bytes(&mut self, now: Duration) {
        let (true, Some(base)) = (Fault::EqualBytesTakenForOurs.is_on(), self.history.base()) else { return };
        let equal = |batch: &Batch<R>| batch.next.as_ref().is_some_and(|next| next.used.bitmap() == base.used());
        let revision = base.state.mod_revision;
        let Some(mut batch) = self.repeat.take().filter(|batch| batch.state != base.state && equal(batch)) else {
            return;
        };
        reclaim(&mut batch, &mut self.queue);
        let (range, store) = (self.range(), self.history.store());
        for Entry { pending, planned } in batch.entries {
            match planned {
                Planned::Take(offsets) => {
                    let values = offsets.iter().filter_map(|offset| range.value_at(*offset)).collect();
                    let use_until = now + self.config.grace / 2;
                    self.queue.end(pending.owner, Outcome::Allocated { values, revision, store, use_until });
                }
                _ => self.queue.push(pending),
            }
        }
    }

    /// Faults 17 and 26: writes on the new base what was decided on the old one.
    pub(super) fn repeat(&mut self, now: Duration) -> Option<Step<R>> {
        let base = self.history.current(now).filter(|_| !self.would_lose(now))?;
        let mut batch = self.repeat.take_if(|_| !Fault::EqualBytesTakenForOurs.is_on())?;
        let Content::Readable(readable) = &base.content else { return None };
        let initialised = readable.range_state == RangeState::Initialised;
        let next = batch.next.as_mut().filter(|_| base.state != batch.state && initialised)?;
        if Fault::RepeatedWithOldRights.is_on() {
            *next = readable.clone();
            batch.effect.set.iter().for_each(|offset| _ = next.used.bitmap_mut().insert(*offset));
            batch.effect.cleared.iter().for_each(|offset| _ = next.used.bitmap_mut().remove(*offset));
        }
        reclaim(&mut batch, &mut self.queue);
        batch.state = base.state;
        let value = batch.value(&mut Memory::new()).filter(|_| !batch.entries.is_empty())?;
        let request = batch.swap(value);
        Some(self.send(now, Some(batch), request))
    }
}

/// Takes those of the batch's operations out of the queue that are still in it.
fn reclaim<R: Range>(batch: &mut Batch<R>, queue: &mut Queue<R>) {
    batch.entries.retain(|entry| queue.remove(entry.pending.owner).is_some());
}

impl<R: Range> Plan<'_, R> {
    /// Fault 2: evaluates clears before allocations.
    pub(super) fn clear_first(
        &mut self,
        operations: &[Pending<R>],
        repaired: &[Repaired<R>],
    ) -> Vec<Option<Planned<R>>> {
        let is_first = |pending: &Pending<R>| Fault::ClearsBeforeAllocations.is_on() && !pending.is_allocation();
        let all = operations.iter().zip(repaired);
        all.map(|(pending, repaired)| is_first(pending).then(|| self.clear(pending, repaired.clone()))).collect()
    }

    /// Fault 1: allocates what the same batch clears.
    pub(super) fn allocate_cleared(
        &mut self,
        operations: &[Pending<R>],
        planned: &mut [Option<Planned<R>>],
        rng: &mut impl Rng,
    ) {
        for (pending, planned) in operations.iter().zip(planned).filter(|_| Fault::AllocateWhatTheSwapClears.is_on()) {
            if let Some(Planned::End(Outcome::Failed(Failure::Allocate(_)))) = planned {
                *planned = self.take(pending, rng);
            }
        }
    }

    /// Fault 28: carries out a part of an allocation.
    pub(super) fn apply_half(
        &mut self,
        pending: &Pending<R>,
        requests: &[Wanted<R::Value>],
        taken: &[u32],
    ) -> Option<Planned<R>> {
        let applies = Fault::BatchHalfApplied.is_on() && pending.is_retry && !taken.is_empty();
        applies.then(|| {
            self.effect.set.extend(taken);
            Planned::Take(named(self.next.range(), requests).collect())
        })
    }

    /// Fault 27: clears all values of an allocation that fails.
    pub(super) fn clear_named(&mut self, requests: &[Wanted<R::Value>]) {
        let named = named(self.next.range(), requests).filter(|_| Fault::RollbackClearsOthers.is_on());
        self.effect.cleared.extend(named.filter(|offset| self.next.bitmap_mut().remove(*offset)));
    }
}

/// Fault 15: the values of requests, if all of them name one and all are in use.
fn all_in_use<R: Range>(range: R, requests: &[Wanted<R::Value>], used: &Bitmap) -> Option<Vec<R::Value>> {
    let values: Option<Vec<R::Value>> = requests
        .iter()
        .map(|request| match *request {
            Wanted::This(value) => range.offset_of(value).filter(|offset| used.contains(*offset)).map(|_| value),
            Wanted::Next => None,
        })
        .collect();
    values.filter(|values| !values.is_empty())
}

/// The offsets that requests name.
fn named<R: Range>(range: R, requests: &[Wanted<R::Value>]) -> impl Iterator<Item = u32> {
    requests.iter().filter_map(move |request| match *request {
        Wanted::This(value) => range.offset_of(value),
        Wanted::Next => None,
    })
}
