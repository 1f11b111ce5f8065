//! No faults: each of these does nothing, and vanishes when it is compiled.

use std::time::Duration;

use rand_core::Rng;

use crate::allocator::Request as Wanted;
use crate::range::Range;

use super::batch::Batch;
use super::committer::Committer;
use super::operation::Repaired;
use super::pending::Pending;
use super::plan::{Plan, Planned};
use super::request::Step;

impl<R: Range, G: Rng> Committer<R, G> {
    pub(super) fn end_from_cache(&mut self, _now: Duration, batch: Batch<R>) -> Option<Batch<R>> {
        Some(batch)
    }

    pub(super) fn take_for_ours(&mut self) {}

    pub(super) fn keep_unknown(&mut self, _swap: Option<&Batch<R>>) {}

    pub(super) fn keep_conflicted(&mut self, _batch: &Batch<R>) {}

    pub(super) fn claim_equal_bytes(&mut self, _now: Duration) {}

    pub(super) fn repeat(&mut self, _now: Duration) -> Option<Step<R>> {
        None
    }
}

impl<R: Range> Plan<'_, R> {
    pub(super) fn clear_first(
        &mut self,
        operations: &[Pending<R>],
        _repaired: &[Repaired<R>],
    ) -> Vec<Option<Planned<R>>> {
        operations.iter().map(|_| None).collect()
    }

    pub(super) fn allocate_cleared(
        &mut self,
        _operations: &[Pending<R>],
        _planned: &mut [Option<Planned<R>>],
        _rng: &mut impl Rng,
    ) {
    }

    pub(super) fn apply_half(
        &mut self,
        _pending: &Pending<R>,
        _requests: &[Wanted<R::Value>],
        _taken: &[u32],
    ) -> Option<Planned<R>> {
        None
    }

    pub(super) fn clear_named(&mut self, _requests: &[Wanted<R::Value>]) {}
}
