//! Several allocations and releases that come to pass together or not at all.
//!
//! As in the reference's port operation (kubernetes `pkg/registry/core/service/portallocator/operation.go`):
//! allocations happen at once, so that nobody else gets the value meanwhile; releases wait for the commit; a rollback
//! gives back what this transaction allocated. When in doubt a value stays in use rather than being handed out twice.

use rand_core::Rng;

use crate::allocator::{AllocateError, Allocator, BatchError, Full, Request};
use crate::range::Range;

/// The record of one transaction on one [`Allocator`].
///
/// It borrows nothing, so that several may be under way on one allocator; each call names the allocator, which must be
/// the same every time. End it with [`commit`](Self::commit) or [`rollback`](Self::rollback): one that is dropped
/// leaves its allocations in use.
#[derive(Debug, Default)]
#[must_use = "allocations stay in use unless the transaction is rolled back"]
pub struct Transaction {
    allocated: Vec<u32>,
    deferred: Vec<u32>,
}

impl Transaction {
    /// A transaction in which nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes `value` at once.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; the transaction may go on.
    pub fn allocate<R: Range>(
        &mut self,
        allocator: &mut Allocator<R>,
        value: R::Value,
    ) -> Result<(), AllocateError<R>> {
        allocator.allocate(value)?;
        self.allocated.extend(allocator.range().offset_of(value));
        Ok(())
    }

    /// Takes a free value at once.
    ///
    /// # Errors
    /// As [`Allocator::allocate_next`]; the transaction may go on.
    pub fn allocate_next<R: Range>(
        &mut self,
        allocator: &mut Allocator<R>,
        rng: &mut impl Rng,
    ) -> Result<R::Value, Full<R>> {
        let value = allocator.allocate_next(rng)?;
        self.allocated.extend(allocator.range().offset_of(value));
        Ok(value)
    }

    /// Serves all requests or none of them, named values first; what the transaction did before stays as it is.
    ///
    /// # Errors
    /// As [`Allocator::allocate_batch`]; the transaction may go on.
    pub fn allocate_batch<R: Range>(
        &mut self,
        allocator: &mut Allocator<R>,
        requests: &[Request<R::Value>],
        rng: &mut impl Rng,
    ) -> Result<Vec<R::Value>, BatchError<R>> {
        let values = allocator.allocate_batch(requests, rng)?;
        self.allocated.extend(values.iter().filter_map(|value| allocator.range().offset_of(*value)));
        Ok(values)
    }

    /// Releases `value` when the transaction is committed; what is not in range is ignored.
    pub fn release<R: Range>(&mut self, allocator: &Allocator<R>, value: R::Value) {
        self.deferred.extend(allocator.range().offset_of(value));
    }

    /// Keeps the allocations and carries out the releases.
    pub fn commit<R: Range>(self, allocator: &mut Allocator<R>) {
        give_back(allocator, self.deferred);
    }

    /// Gives back what this transaction allocated and forgets its releases.
    pub fn rollback<R: Range>(self, allocator: &mut Allocator<R>) {
        give_back(allocator, self.allocated);
    }
}

fn give_back<R: Range>(allocator: &mut Allocator<R>, offsets: impl IntoIterator<Item = u32>) {
    for offset in offsets {
        allocator.release_offset(offset);
    }
}
