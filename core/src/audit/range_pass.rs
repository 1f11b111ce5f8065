//! The audit of one stored bitmap: the values that Services claim, and the leaks.

use crate::any::AnyRange;
use crate::bitmap::Bitmap;
use crate::cidr::CidrRange;
use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::ports::PortRange;
use crate::range::Range;
use crate::snapshot::restore_for;

use super::{AddRangeError, BitmapReport, Leaks, Stored};

/// The number of claims that are settled together.
const WAITING: usize = 64;

/// A kind of range that is stored as a bitmap.
pub(super) trait Repaired: Range {
    /// The findings about a value that is not stored as allocated, and about one that another Service has.
    const NOT_ALLOCATED: Reason;
    const ALREADY_ALLOCATED: Reason;

    fn of(range: AnyRange) -> Option<Self>;
    fn any(self) -> AnyRange;
    fn found(value: Self::Value) -> FoundValue;
}

impl Repaired for CidrRange {
    const NOT_ALLOCATED: Reason = Reason::ClusterIpNotAllocated;
    const ALREADY_ALLOCATED: Reason = Reason::ClusterIpAlreadyAllocated;

    fn of(range: AnyRange) -> Option<Self> {
        if let AnyRange::Cidr(range) = range { Some(range) } else { None }
    }

    fn any(self) -> AnyRange {
        AnyRange::Cidr(self)
    }

    fn found(address: Self::Value) -> FoundValue {
        FoundValue::Address(address)
    }
}

impl Repaired for PortRange {
    const NOT_ALLOCATED: Reason = Reason::PortNotAllocated;
    const ALREADY_ALLOCATED: Reason = Reason::PortAlreadyAllocated;

    fn of(range: AnyRange) -> Option<Self> {
        if let AnyRange::Ports(range) = range { Some(range) } else { None }
    }

    fn any(self) -> AnyRange {
        AnyRange::Ports(self)
    }

    fn found(port: Self::Value) -> FoundValue {
        FoundValue::Port(port.into())
    }
}

/// A value of the range that a Service claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Its place among the claims of the pass.
    pub(super) order: u64,
    /// The place of its Service among the observed ones.
    pub(super) service: u64,
    pub(super) offset: u32,
}

/// Findings with the places of their claims, by which they are sorted at the end.
pub(super) type Findings = Vec<(u64, Finding)>;

/// The audit of one stored bitmap.
#[derive(Debug)]
pub(super) struct RangePass<R> {
    pub(super) index: usize,
    pub(super) range: R,
    stored: Bitmap,
    /// Stored values that the configured range does not have, after a change of the range.
    dropped: u32,
    /// The stored bitmap cannot be read: values that Services use count as stored.
    pub(super) unseen: bool,
    in_use: Bitmap,
    duplicates: Vec<u32>,
    /// Claims that are not settled yet. Each one accesses another place of the bitmaps, which misses the nearest cache;
    /// if many are settled in a row, the processor overlaps these accesses.
    waiting: Vec<Claim>,
}

impl<R: Repaired> RangePass<R> {
    pub(super) fn new(index: usize, range: R, stored: Stored<'_>) -> Result<Self, AddRangeError> {
        let stored_range = match stored.range {
            "" => range,
            text => {
                let stored: AnyRange = text.parse()?;
                R::of(stored).ok_or(AddRangeError::StoredKind { configured: range.any(), stored })?
            }
        };
        let (bitmap, dropped) = restore_for(range, stored_range, stored.data)
            .map_err(|source| AddRangeError::BitsPastRange { range: stored_range.any(), source })?;
        let (in_use, waiting) = (Bitmap::new(range.size()), Vec::with_capacity(WAITING));
        Ok(Self { index, range, stored: bitmap, dropped, unseen: false, in_use, duplicates: Vec::new(), waiting })
    }

    pub(super) fn unseen(index: usize, range: R, known: &[u8]) -> Result<Self, AddRangeError> {
        Ok(Self { unseen: true, ..Self::new(index, range, Stored { range: "", data: known })? })
    }

    /// The number of claims of values of the range.
    pub(super) fn count_claims(&self) -> u64 {
        (self.waiting.len() + self.duplicates.len()) as u64 + u64::from(self.in_use.count())
    }

    pub(super) fn stored(&self) -> &Bitmap {
        &self.stored
    }

    /// Records a claim.
    #[inline(always)]
    pub(super) fn claim(&mut self, claim: Claim, findings: &mut Findings) {
        self.waiting.push(claim);
        if self.waiting.len() == WAITING {
            self.evaluate(findings);
        }
    }

    /// Evaluates the recorded claims.
    fn evaluate(&mut self, findings: &mut Findings) {
        for claim in self.waiting.drain(..) {
            let reason = if !self.in_use.insert(claim.offset) {
                self.duplicates.push(claim.offset);
                R::ALREADY_ALLOCATED
            } else if self.unseen {
                self.stored.insert(claim.offset);
                continue;
            } else if !self.stored.contains(claim.offset) {
                R::NOT_ALLOCATED
            } else {
                continue;
            };
            if let Some(value) = self.range.value_at(claim.offset) {
                let (subject, value) = (Subject::Service(claim.service), R::found(value));
                let valid = Some(self.range.any());
                findings.push((
                    claim.order,
                    Finding { reason, range: Some(self.index), subject, value, valid, outside: None },
                ));
            }
        }
    }

    /// Marks an offset as in use without a claim; false if it was already.
    pub(super) fn hold(&mut self, offset: u32) -> bool {
        self.in_use.insert(offset)
    }

    /// Settles the claims, and marks all stored values as in use.
    pub(super) fn hold_all(&mut self, findings: &mut Findings) {
        self.evaluate(findings);
        self.in_use.union_with(&self.stored);
    }

    /// The stored values that are not in use so far.
    pub(super) fn unused(&self) -> Bitmap {
        self.stored.difference(&self.in_use)
    }

    /// The result for a stale bitmap: all stored values count as in use.
    pub(super) fn finish_unused(self) -> (usize, BitmapReport) {
        let in_use = self.stored.clone();
        (self.index, BitmapReport::new(self.range.any(), self.stored, self.dropped, in_use, Vec::new(), None))
    }

    /// `alone` are the leaks that only this bitmap records, of one beside IPAddress objects: they are cleared even
    /// where leaks are kept. With `keeps_all` everything stays.
    pub(super) fn finish(
        mut self,
        leaks: &mut Leaks<'_>,
        findings: &mut Findings,
        alone: Option<&Bitmap>,
        keeps_all: bool,
    ) -> (usize, BitmapReport) {
        self.evaluate(findings);
        let range = self.range.any();
        let next = match leaks {
            _ if keeps_all => {
                let mut next = self.stored.clone();
                next.union_with(&self.in_use);
                Some(next)
            }
            Leaks::CleanAtOnce => None,
            // In most passes nothing is leaked. Without bitmaps for leaks a pass takes half the memory.
            Leaks::Keep(counters) if self.stored.is_subset(&self.in_use) => {
                counters.of(range).reset();
                None
            }
            Leaks::Keep(counters) => {
                let mut due = if counters.keeps_leaks {
                    alone.cloned().unwrap_or_else(|| Bitmap::new(self.range.size()))
                } else {
                    self.stored.difference(&self.in_use)
                };
                counters.of(range).advance(&mut due);
                let mut next = self.stored.difference(&due);
                next.union_with(&self.in_use);
                Some(next)
            }
        };
        (self.index, BitmapReport::new(range, self.stored, self.dropped, self.in_use, self.duplicates, next))
    }
}
