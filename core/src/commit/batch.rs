//! What one compare-and-swap does: the operations that go into it, and what becomes of each once it is written.

use rand_core::Rng;

use crate::allocator::Allocator;
use crate::range::Range;

use super::base::{Base, Content, Readable};
use super::failure::Failure;
use super::operation::{Operation, Outcome};
use super::pending::Pending;
use super::plan::{Context, Effect, Plan, Planned};
use super::request::{KeyState, StoreRequest, Witness};

/// Operations evaluated on one state of the key.
#[derive(Clone, Debug)]
pub(super) struct Batch<R: Range> {
    /// The state that they were evaluated on.
    pub(super) state: KeyState,
    pub(super) entries: Vec<Entry<R>>,
    /// What is in use afterwards; `None` if it stays as it is, or cannot be read.
    pub(super) next: Option<Readable<R>>,
    pub(super) effect: Effect,
}

#[derive(Clone, Debug)]
pub(super) struct Entry<R: Range> {
    pub(super) pending: Pending<R>,
    pub(super) planned: Planned<R>,
}

impl<R: Range> Batch<R> {
    /// Evaluates operations on the base: the sets of repairs first, then allocations, then clears. So nothing is set
    /// that the same batch clears, and the revision before a batch shows each of its allocated values as free.
    pub(super) fn plan(
        base: &Base<R>,
        operations: Vec<Pending<R>>,
        context: Context<'_>,
        memory: &mut Memory<R>,
        rng: &mut impl Rng,
    ) -> Self {
        let readable = match &base.content {
            Content::Readable(readable) => readable,
            Content::Unreadable { message, .. } => {
                let failed = || Planned::End(Outcome::Failed(Failure::Unreadable { message: message.clone() }));
                let entries = operations.into_iter().map(|pending| Entry { pending, planned: failed() }).collect();
                return Self { state: base.state, entries, next: None, effect: Effect::default() };
            }
        };
        let mut plan = Plan::new(readable, context, memory.copy(&readable.used));
        let planned = plan.evaluate(&operations, rng);
        let entries = operations.into_iter().zip(planned);
        let entries = entries.map(|(pending, planned)| Entry { pending, planned }).collect();
        let (next, effect) = plan.finish();
        let next = match next {
            Ok(next) => Some(next),
            Err(unchanged) => {
                memory.keep(Some(unchanged));
                None
            }
        };
        Self { state: base.state, entries, next, effect }
    }

    /// The value that the batch writes, if it changes anything.
    pub(super) fn value(&self, memory: &mut Memory<R>) -> Option<Vec<u8>> {
        let next = self.next.as_ref()?;
        let mut value = std::mem::take(&mut memory.value);
        next.object.encode_with(&next.used.range().to_string(), next.used.snapshot(), &mut value);
        Some(value)
    }

    /// The request that writes the batch, or confirms the state that it was evaluated on.
    pub(super) fn request(&self, memory: &mut Memory<R>) -> StoreRequest {
        self.value(memory).map_or(StoreRequest::Confirm { guard: self.state }, |value| self.swap(value))
    }

    /// The compare-and-swap that puts this value.
    pub(super) fn swap(&self, value: Vec<u8>) -> StoreRequest {
        let Effect { services_unchanged_since, look, .. } = self.effect;
        StoreRequest::Swap { guard: self.state, value, witness: self.witness(), services_unchanged_since, look }
    }

    /// What its compare-and-swap does with the witness. What the same batch allocates cannot be proven then, and its
    /// Services are not written.
    fn witness(&self) -> Witness {
        match (self.state == KeyState::default() || self.effect.by_hand, self.effect.set.is_empty()) {
            (true, _) => Witness::Delete,
            (false, true) => Witness::Keep,
            (false, false) => Witness::Put,
        }
    }

    /// Whether the list of Services no longer counts, as a Service has been written or the look is gone: the conditions
    /// did not hold, though the key is in the state that was expected.
    pub(super) fn lost_list(&self, key: KeyState) -> bool {
        let depends = self.effect.services_unchanged_since.is_some() || self.effect.look.is_some();
        depends && self.state == key
    }

    /// Drops what is right only if the list of Services still counts.
    pub(super) fn drop_clears(&mut self) {
        for Pending { operation, dropped, .. } in self.entries.iter_mut().map(|entry| &mut entry.pending) {
            if let Operation::Repair(diff) = operation
                && (diff.listed.guard().is_some() || diff.look.is_some())
            {
                *dropped = Some(dropped.unwrap_or(0) + diff.clear.count());
                diff.clear.clear();
            }
        }
    }
}

/// The memory of earlier batches for the next one: otherwise each compare-and-swap of a /12 would return 128 KiB to the
/// system and get it back page by page.
#[derive(Clone, Debug)]
pub(super) struct Memory<R: Range> {
    used: Option<Allocator<R>>,
    value: Vec<u8>,
}

impl<R: Range> Memory<R> {
    pub(super) fn new() -> Self {
        Self { used: None, value: Vec::new() }
    }

    /// Keeps the memory of what was in use.
    pub(super) fn keep(&mut self, used: Option<Allocator<R>>) {
        self.used = used.or(self.used.take());
    }

    /// Keeps the memory of a value.
    pub(super) fn keep_value(&mut self, value: Vec<u8>) {
        self.value = value;
    }

    fn copy(&mut self, used: &Allocator<R>) -> Allocator<R> {
        match self.used.take() {
            Some(mut copy) => {
                copy.bitmap_mut().clone_from(used.bitmap());
                copy
            }
            None => used.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
