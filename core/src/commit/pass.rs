//! One repair pass over the ranges of some committers, step by step.

use std::time::Duration;

use rand_core::Rng;

use crate::any::AnyRange;
use crate::audit::{AddRangeError, Audit, Leaks, PassId, Report, Stored};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::passes::{Changes, Passes};
use super::{Committer, Diff, Listed, View};

/// A repair pass that reads its ranges. Each step leads to the next one:
///
/// 1. [`begin`](Self::begin) for each committer, then an [`Operation::Read`](super::Operation::Read) to it, and
///    [`read`](Self::read) with its [`View`] at once.
/// 2. [`audit`](Self::audit) adds what was read to an [`Audit`], which is refused until all ranges were read. After
///    that, Services are listed linearizably, and the audit observes them.
/// 3. [`Listing::finish`] ends the audit.
/// 4. [`Found::diff`] returns for each range what goes into an [`Operation::Repair`](super::Operation::Repair), also if
///    it changes nothing: the committer learns from it which values more than one Service claims.
///
/// A pass that fails on its way is dropped, and the next one starts. Memory: a copy of each bitmap.
#[derive(Clone, Debug)]
pub struct Pass {
    id: PassId,
    /// The ranges that were begun, with their bitmaps once they are read.
    ranges: Vec<(AnyRange, Option<Bitmap>)>,
}

/// A pass whose ranges are all read, while Services are listed and observed.
#[derive(Clone, Debug)]
pub struct Listing {
    id: PassId,
    ranges: Vec<AnyRange>,
}

/// A pass that has seen all Services: what is to be repaired.
#[derive(Clone, Debug)]
pub struct Found {
    id: PassId,
    changes: Vec<Changes>,
}

/// Why a step of a pass is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Passes go one after another, each with the leak tracker that started it.
    #[error("the pass was given up: a later one has started, or it belongs to another leak tracker")]
    GivenUp,
    /// The range has a committer in this pass already.
    #[error("range {0} was begun twice in one pass")]
    BegunTwice(AnyRange),
    /// Its history was not kept while it was read.
    #[error("range {0} was read before the pass began with it")]
    NotBegun(AnyRange),
    /// A pass has one view of each range.
    #[error("range {0} was read twice in one pass")]
    ReadTwice(AnyRange),
    /// Services must not be listed yet.
    #[error("range {0} was begun and not read: all ranges are read before Services are listed")]
    NotRead(AnyRange),
    /// The audit may have observed Services that were listed before the ranges were read.
    #[error("the audit has ranges or Services from before the pass")]
    AuditInUse,
    /// It does not have what this pass has read.
    #[error("the audit is not the one of this pass")]
    OtherAudit,
    /// It is not part of the pass, or nothing uses its bitmap any more.
    #[error("the pass has not audited range {0}")]
    NotAudited(AnyRange),
    /// What was read cannot be audited.
    #[error(transparent)]
    Range(#[from] AddRangeError),
}

impl Passes {
    /// Starts a pass; one that is under way is given up.
    pub fn start(&mut self) -> Pass {
        Pass { id: self.next_pass(), ranges: Vec::new() }
    }

    fn check(&self, pass: &PassId) -> Result<(), PassError> {
        if self.is_latest(pass) { Ok(()) } else { Err(PassError::GivenUp) }
    }
}

impl Pass {
    /// Has the committer keep the history of its key: before the pass's read is submitted.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::BegunTwice`].
    pub fn begin<R, G>(&mut self, passes: &Passes, committer: &mut Committer<R, G>) -> Result<(), PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        passes.check(&self.id)?;
        let range = committer.range().into();
        if self.ranges.iter().any(|(begun, _)| *begun == range) {
            return Err(PassError::BegunTwice(range));
        }
        committer.keep_history(true);
        self.ranges.push((range, None));
        Ok(())
    }

    /// Records that the pass's read has ended with this view; Services are listed after `now`.
    ///
    /// The counters of this range go on only where the offset was in use ever since the pass before; where that is not
    /// known, or that pass was too short a while ago, all of them start again.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotBegun`], [`PassError::ReadTwice`].
    pub fn read<R, G>(
        &mut self,
        passes: &mut Passes,
        committer: &Committer<R, G>,
        view: &View,
        now: Duration,
    ) -> Result<(), PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        passes.check(&self.id)?;
        let range = committer.range().into();
        let begun = self.ranges.iter_mut().find(|(begun, _)| *begun == range);
        let (_, read) = begun.ok_or(PassError::NotBegun(range))?;
        if read.is_some() {
            return Err(PassError::ReadTwice(range));
        }
        passes.seen(range, committer, view.revision, now);
        *read = Some(view.used.clone());
        Ok(())
    }

    /// Adds what was read to an audit, in the order of [`begin`](Self::begin). More may be added to it, and Services that
    /// are listed from now on.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotRead`], [`PassError::AuditInUse`], or [`PassError::Range`] for two ranges of
    /// one kind or a range that no Service uses.
    pub fn audit(self, passes: &Passes, audit: &mut Audit) -> Result<Listing, PassError> {
        passes.check(&self.id)?;
        if !audit.is_new() {
            return Err(PassError::AuditInUse);
        }
        if let Some((range, _)) = self.ranges.iter().find(|(_, read)| read.is_none()) {
            return Err(PassError::NotRead(*range));
        }
        audit.of_pass(self.id.clone());
        for (range, used) in &self.ranges {
            let data = used.as_ref().map_or(&[][..], Bitmap::snapshot);
            audit.add_bitmap(*range, Stored { range: "", data })?;
        }
        Ok(Listing { id: self.id, ranges: self.ranges.into_iter().map(|(range, _)| range).collect() })
    }
}

impl Listing {
    /// Ends the audit, which has observed all Services. Leaks stay until their counters are spent.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::OtherAudit`].
    pub fn finish(self, passes: &mut Passes, audit: Audit) -> Result<(Found, Report), PassError> {
        passes.check(&self.id)?;
        if audit.pass() != Some(&self.id) {
            return Err(PassError::OtherAudit);
        }
        let report = audit.finish(Leaks::Keep(passes.counters()));
        let of_pass = report.bitmaps().filter(|(_, bitmap)| self.ranges.contains(&bitmap.range()));
        let changes = of_pass.map(|(_, bitmap)| Changes::of(bitmap)).collect();
        Ok((Found { id: self.id, changes }, report))
    }
}

impl Found {
    /// What the committer is to do about its range. A leak that is due, but younger than the grace or handed out by this
    /// committer within it, stays and is due again in the next pass.
    ///
    /// Where clears are guarded with the list of Services, what was due and could not be cleared is due again in the next
    /// pass. It may be called again, if the repair has failed.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotAudited`].
    pub fn diff<R, G>(
        &self,
        passes: &mut Passes,
        committer: &mut Committer<R, G>,
        listed: Listed,
    ) -> Result<Diff, PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        passes.check(&self.id)?;
        let range = committer.range().into();
        let changes = self.changes.iter().find(|changes| changes.range == range);
        Ok(passes.diff(changes.ok_or(PassError::NotAudited(range))?, committer, listed))
    }
}

#[cfg(test)]
mod tests;
