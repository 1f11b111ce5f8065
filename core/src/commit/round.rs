//! What one swap does: the operations that go into it, and what comes of each if it is written.

use std::ops;

use rand_core::Rng;

use crate::allocator::{AllocateError, Allocator, BatchError, Full, Request};
use crate::range::Range;

use super::base::{Base, Content, Readable, Standing};
use super::faults::Fault;
use super::history::History;
use super::operation::{Deferral, Failure, Operation, Outcome, Repaired};
use super::quarantine::Quarantine;
use super::recent::Recent;
use super::request::Guard;
use super::{Owner, Pending};

/// Operations evaluated on one state of the key.
#[derive(Clone, Debug)]
pub(super) struct Round<R: Range> {
    /// The state that they were evaluated on.
    pub(super) state: Guard,
    pub(super) entries: Vec<Entry<R>>,
    /// What is in use afterwards; `None` if it stays as it is, or cannot be read.
    pub(super) next: Option<Readable<R>>,
    pub(super) set: Vec<u32>,
    pub(super) cleared: Vec<u32>,
    /// The round is right only if no Service has been written after this revision.
    pub(super) services_unchanged_since: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Entry<R: Range> {
    pub(super) pending: Pending<R>,
    pub(super) planned: Planned<R>,
}

/// What an operation ends with if the store confirms the round.
#[derive(Clone, Debug)]
pub(super) enum Planned<R: Range> {
    /// It takes these offsets.
    Take(Vec<u32>),
    /// It tells what is stored.
    View,
    End(Outcome<R>),
}

/// What a round is evaluated with besides the base.
pub(super) struct Context<'a> {
    pub(super) history: &'a History,
    /// Offsets that this committer handed out.
    pub(super) handed_out: &'a Recent<3>,
    /// Offsets that were cleared.
    pub(super) quarantine: &'a Quarantine,
    /// Offsets that the last pass saw with more than one Service, ascending.
    pub(super) duplicates: &'a [u32],
}

impl<R: Range> Round<R> {
    /// Evaluates operations: the sets of repairs first, then allocations, then clears. So nothing is set that the same
    /// round clears, and whoever gets a value can tell a revision in which it was free.
    pub(super) fn plan(
        base: &Base<R>,
        operations: Vec<Pending<R>>,
        context: &Context<'_>,
        spare: &mut Option<Allocator<R>>,
        rng: &mut impl Rng,
    ) -> Self {
        let mut round = Self {
            state: base.state,
            entries: Vec::new(),
            next: None,
            set: Vec::new(),
            cleared: Vec::new(),
            services_unchanged_since: None,
        };
        let readable = match &base.content {
            Content::Readable(readable) => readable,
            Content::Unreadable { message, .. } => {
                let failed = || Planned::End(Outcome::Failed(Failure::Unreadable { message: message.clone() }));
                round.entries = operations.into_iter().map(|pending| Entry { pending, planned: failed() }).collect();
                return round;
            }
        };
        let mut plan = Plan {
            readable,
            context,
            next: copy(&readable.used, spare.take()),
            band: 0..0,
            level: 0,
            spare: None,
            set: Vec::new(),
            cleared: Vec::new(),
            services_unchanged_since: None,
            initialises: false,
        };
        let repaired: Vec<Repaired<R>> = operations.iter().map(|pending| plan.set(pending)).collect();
        let mut planned: Vec<Option<Planned<R>>> = if Fault::ClearsBeforeAllocations.is_on() {
            let clears = operations.iter().zip(&repaired);
            clears.map(|(pending, repaired)| plan.clear_first(pending, repaired.clone())).collect()
        } else {
            operations.iter().map(|pending| plan.allocate(pending, rng)).collect()
        };
        for ((pending, repaired), planned) in operations.iter().zip(repaired).zip(&mut planned) {
            if Fault::ClearsBeforeAllocations.is_on() && planned.is_none() {
                *planned = plan.allocate(pending, rng);
            }
            planned.get_or_insert_with(|| plan.clear(pending, repaired));
        }
        if Fault::AllocateWhatTheSwapClears.is_on() {
            for (pending, planned) in operations.iter().zip(&mut planned) {
                if let Some(Planned::End(Outcome::Failed(Failure::Allocate(_)))) = planned {
                    *planned = plan.allocate(pending, rng);
                }
            }
        }
        let entries = operations.into_iter().zip(planned);
        round.entries = entries.filter_map(|(pending, planned)| Some(Entry { pending, planned: planned? })).collect();
        if plan.initialises || !plan.set.is_empty() || !plan.cleared.is_empty() {
            let envelope = readable.envelope.clone();
            round.next = Some(Readable { envelope, used: plan.next, standing: Standing::Initialised });
        } else {
            *spare = Some(plan.next);
        }
        (round.set, round.cleared) = (plan.set, plan.cleared);
        round.services_unchanged_since = plan.services_unchanged_since;
        round
    }

    /// The value that the round writes, if it changes anything, in the memory of an earlier one.
    pub(super) fn value(&self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        let next = self.next.as_ref()?;
        let mut value = std::mem::take(buffer);
        next.envelope.encode_with(&next.used.range().to_string(), next.used.snapshot(), &mut value);
        Some(value)
    }
}

/// A copy, in the memory of a spare one if there is one: 128 KiB for each swap of a /12 would go back to the system and
/// come again page by page.
fn copy<R: Range>(used: &Allocator<R>, spare: Option<Allocator<R>>) -> Allocator<R> {
    match spare {
        Some(mut copy) => {
            copy.bitmap_mut().clone_from(used.bitmap());
            copy
        }
        None => used.clone(),
    }
}

/// A round in the making.
struct Plan<'a, R: Range> {
    readable: &'a Readable<R>,
    context: &'a Context<'a>,
    next: Allocator<R>,
    /// The band that values are picked from.
    band: ops::Range<u32>,
    /// How often the quarantine has yielded in it.
    level: usize,
    /// As `next`, with what the quarantine spares at this level in use, too. Made when it is needed first.
    spare: Option<Allocator<R>>,
    set: Vec<u32>,
    cleared: Vec<u32>,
    services_unchanged_since: Option<u64>,
    /// Whether the object has to be written even if no offset changes.
    initialises: bool,
}

impl<R: Range> Plan<'_, R> {
    /// Sets what a repair sets.
    fn set(&mut self, pending: &Pending<R>) -> Repaired<R> {
        let mut repaired = Repaired { set: Vec::new(), cleared: Vec::new(), changed: pending.dropped };
        let Operation::Repair(diff) = &pending.operation else { return repaired };
        let initialised = self.readable.standing == Standing::Initialised;
        // A range that was deleted meanwhile is not made anew without what the pass saw in use: values would be handed
        // out that Services have.
        let made = (pending.owner != Owner::Own && self.context.history.knows(diff.read))
            || Fault::DeletedRangeMadeAnewEmpty.is_on();
        self.initialises |= made && !initialised;
        for offset in &diff.set {
            // What this committer handed out is set whatever happened since.
            let right = match pending.owner {
                Owner::Own => initialised && self.context.handed_out.contains(offset),
                _ => {
                    let unchanged = self.context.history.is_unchanged_since(offset, diff.read);
                    unchanged.unwrap_or(Fault::RepairSetsWithoutHistory.is_on())
                }
            };
            if right && self.next.bitmap_mut().insert(offset) {
                self.set.push(offset);
                repaired.set.extend(self.next.range().value_at(offset));
            } else {
                repaired.changed += 1;
            }
        }
        repaired
    }

    /// Serves an allocation; `None` for other operations.
    fn allocate(&mut self, pending: &Pending<R>, rng: &mut impl Rng) -> Option<Planned<R>> {
        let Operation::Allocate(requests) = &pending.operation else { return None };
        if let Some(failure) = self.refusal() {
            return Some(Planned::End(Outcome::Failed(failure)));
        }
        let mut taken = vec![None; requests.len()];
        let served = self.serve(requests, &mut taken, rng);
        let taken: Vec<u32> = taken.into_iter().flatten().collect();
        Some(match served {
            Ok(()) => {
                self.set.extend(&taken);
                Planned::Take(taken)
            }
            #[cfg(feature = "faults")]
            Err(_) if Fault::BatchHalfApplied.is_on() && pending.rebased && !taken.is_empty() => {
                self.set.extend(&taken);
                let named = requests.iter().filter_map(|request| match *request {
                    Request::This(value) => self.next.range().offset_of(value),
                    Request::Next => None,
                });
                Planned::Take(named.collect())
            }
            Err(error) => {
                #[cfg(feature = "faults")]
                if Fault::RollbackClearsOthers.is_on() {
                    self.clear_all_named(requests);
                }
                if !taken.is_empty() {
                    // What is spared is found anew when it is needed.
                    (self.level, self.spare) = (0, None);
                }
                for offset in taken {
                    self.next.bitmap_mut().remove(offset);
                }
                Planned::End(Outcome::Failed(error.into()))
            }
        })
    }

    /// Takes named values first, so that no pick stands in the way of a later name.
    fn serve(
        &mut self,
        requests: &[Request<R::Value>],
        taken: &mut [Option<u32>],
        rng: &mut impl Rng,
    ) -> Result<(), BatchError<R>> {
        let range = self.next.range();
        for (index, (request, taken)) in requests.iter().zip(&mut *taken).enumerate() {
            let Request::This(value) = *request else { continue };
            let failed = |source| BatchError::Allocate { index, source };
            let offset = range.offset_of(value).ok_or(failed(AllocateError::NotInRange { value, range }))?;
            if !self.next.bitmap_mut().insert(offset) {
                return Err(failed(AllocateError::AlreadyAllocated { value }));
            }
            if let Some(spare) = &mut self.spare {
                spare.bitmap_mut().insert(offset);
            }
            *taken = Some(offset);
        }
        for (index, (request, taken)) in requests.iter().zip(taken).enumerate() {
            if *request == Request::Next {
                let offset = self.pick(rng).ok_or(BatchError::Full { index, source: Full { range } })?;
                *taken = Some(offset);
            }
        }
        Ok(())
    }

    /// Takes a free offset of the band that the strategy takes one of, one that was cleared a while ago only if there is
    /// no other, and one that was cleared just now only if there are none of those either.
    fn pick(&mut self, rng: &mut impl Rng) -> Option<u32> {
        let band = self.next.band_to_choose_from()?;
        if band != self.band {
            (self.band, self.level, self.spare) = (band, 0, None);
        }
        let offset = self.choose_spared(rng).or_else(|| self.next.choose_from(&self.band, rng))?;
        self.next.bitmap_mut().insert(offset);
        Some(offset)
    }

    /// A free offset that the quarantine does not spare.
    fn choose_spared(&mut self, rng: &mut impl Rng) -> Option<u32> {
        let quarantine = self.context.quarantine;
        while self.level < Quarantine::LEVELS && !quarantine.is_empty() && !Fault::QuarantineIgnored.is_on() {
            let spare = self.spare.get_or_insert_with(|| {
                let mut spare = self.next.clone();
                quarantine.add_to(self.level, spare.bitmap_mut());
                spare
            });
            if let Some(offset) = spare.choose_from(&self.band, rng) {
                spare.bitmap_mut().insert(offset);
                return Some(offset);
            }
            (self.level, self.spare) = (self.level + 1, None);
        }
        None
    }

    /// Clears what a release or a repair clears, and ends all that is not ended yet.
    fn clear(&mut self, pending: &Pending<R>, mut repaired: Repaired<R>) -> Planned<R> {
        Planned::End(match &pending.operation {
            Operation::Allocate(_) | Operation::Read => return Planned::View,
            Operation::Create => match &self.readable.standing {
                Standing::OtherRange(_) => self.refusal().map_or(Outcome::Created { created: false }, Outcome::Failed),
                Standing::Initialised => Outcome::Created { created: false },
                Standing::Uninitialised => {
                    let created = !self.initialises;
                    self.initialises = true;
                    Outcome::Created { created }
                }
            },
            Operation::Release { value, anchor, oldest } => match (self.refusal(), self.next.range().offset_of(*value))
            {
                (Some(failure), _) => Outcome::Failed(failure),
                (None, None) => Outcome::Released { freed: false },
                (None, Some(offset)) => self.release(offset, *anchor, *oldest, pending.was_in_doubt),
            },
            Operation::Repair(diff) => {
                for offset in &diff.clear {
                    let unchanged = self.context.history.is_unchanged_since(offset, diff.read) == Some(true);
                    let own = self.context.handed_out.contains(offset) && !Fault::OwnNotProtected.is_on();
                    if unchanged && !own && self.free(offset) {
                        repaired.cleared.extend(self.next.range().value_at(offset));
                    } else {
                        repaired.changed += 1;
                    }
                }
                if !repaired.cleared.is_empty() {
                    let both = self.services_unchanged_since.into_iter().chain(diff.listed.guard());
                    self.services_unchanged_since = both.min();
                }
                Outcome::Repaired(repaired)
            }
        })
    }

    fn release(&mut self, offset: u32, anchor: u64, oldest: u64, was_in_doubt: bool) -> Outcome<R> {
        if !self.readable.used.bitmap().contains(offset) {
            return Outcome::Released { freed: false };
        }
        if self.context.duplicates.binary_search(&offset).is_ok() && !Fault::DuplicatesReleased.is_on() {
            return Outcome::Deferred(Deferral::Duplicate);
        }
        let blind = Fault::ReleaseWithoutAnchor.is_on() || (was_in_doubt && Fault::ReleaseRepeatedBlindly.is_on());
        let unchanged = self.context.history.is_unchanged_for_owner(offset, anchor, oldest);
        match unchanged.or(blind.then_some(true)).map(|known| known || blind) {
            Some(unchanged) => Outcome::Released { freed: unchanged && self.free(offset) },
            None => Outcome::Deferred(Deferral::HistoryMissing),
        }
    }

    /// Clears an offset that was set before the round. Whether that changed anything.
    fn free(&mut self, offset: u32) -> bool {
        let freed = self.readable.used.bitmap().contains(offset) && self.next.bitmap_mut().remove(offset);
        if freed {
            self.cleared.push(offset);
        }
        freed
    }

    /// Fault 2.
    fn clear_first(&mut self, pending: &Pending<R>, repaired: Repaired<R>) -> Option<Planned<R>> {
        let is_allocation = matches!(pending.operation, Operation::Allocate(_));
        (!is_allocation).then(|| self.clear(pending, repaired))
    }

    /// Fault 27.
    #[cfg(feature = "faults")]
    fn clear_all_named(&mut self, requests: &[Request<R::Value>]) {
        for request in requests {
            let Request::This(value) = *request else { continue };
            let offset = self.next.range().offset_of(value);
            self.cleared.extend(offset.filter(|offset| self.next.bitmap_mut().remove(*offset)));
        }
    }

    /// Why nothing may be taken from the object as it stands.
    fn refusal(&self) -> Option<Failure<R>> {
        match &self.readable.standing {
            Standing::Initialised => None,
            Standing::OtherRange(_) if Fault::OtherRangeTakenForOwn.is_on() => None,
            Standing::Uninitialised => Some(Failure::NotInitialised),
            Standing::OtherRange(found) => {
                Some(Failure::MismatchedRange { expected: self.next.range(), found: found.clone() })
            }
        }
    }
}
