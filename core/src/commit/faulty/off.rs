//! No faults: each of these does nothing, and vanishes when it is compiled.

use std::time::Duration;

use rand_core::Rng;

use crate::range::Range;

use super::batch::Batch;
use super::committer::Committer;
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
