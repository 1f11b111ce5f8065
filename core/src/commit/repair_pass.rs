//! One repair pass over the ranges of some committers, step by step.

use std::num::NonZeroU64;
use std::time::Duration;

use rand_core::Rng;

use crate::any::AnyRange;
use crate::audit::{AddRangeError, Audit, Leaks, PassId, Report, Stored};
use crate::bitmap::Bitmap;
use crate::range::Range;

use super::exchange::{Follow, Followed, HandedOut, Needs, Since};
use super::leak_tracker::{FoundRange, LeakTracker};
use super::{Committer, Diff, Failure, ServiceList, View};

/// A repair pass that reads its ranges. Each step leads to the next one:
///
/// 1. [`begin`](Self::begin) for each committer, then an [`Operation::Read`](super::Operation::Read) to it, and
///    [`read`](Self::read) with its [`View`] at once. If that says so, the fence is written once
///    all ranges were read, and [`fenced`](Self::fenced) reports it.
/// 2. [`audit`](Self::audit) adds what was read to an [`Audit`], which is refused until all ranges were read. After
///    that, Services are listed linearizably, at the revision of the last fence if there is one, and the audit observes
///    them.
/// 3. [`Listing::finish`] ends the audit.
/// 4. [`Found::diff`] returns for each range what goes into an [`Operation::Repair`](super::Operation::Repair), also if
///    it changes nothing: the committer learns from it which values more than one Service claims.
///
/// A pass that fails on its way is dropped, and the next one starts. Memory: a copy of each bitmap.
#[derive(Clone, Debug)]
pub struct RepairPass {
    id: PassId,
    ranges: Vec<Begun>,
    /// The look and its revision.
    look: Option<(NonZeroU64, u64)>,
}

/// A range of a pass.
#[derive(Clone, Debug)]
struct Begun {
    range: AnyRange,
    /// What was read.
    view: Option<View>,
    /// The revision of the fence.
    fence: Option<u64>,
}

/// A pass whose ranges are all read, while Services are listed and observed.
#[derive(Clone, Debug)]
#[must_use = "a pass that is dropped repairs nothing"]
pub struct Listing {
    id: PassId,
    /// The ranges with the revisions of their fences.
    fences: Vec<(AnyRange, Option<u64>)>,
    look: Option<(NonZeroU64, u64)>,
}

/// A pass that has seen all Services: what is to be repaired.
#[derive(Clone, Debug)]
#[must_use = "a pass that is dropped repairs nothing"]
pub struct Found {
    id: PassId,
    fences: Vec<(AnyRange, Option<u64>)>,
    look: Option<(NonZeroU64, u64)>,
    changes: Vec<FoundRange>,
}

/// Why a step of a pass is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// Services that were written between the two would be neither in the list nor refused.
    #[error("a fence has revision {fence}, which is before the read or the fence of range {range} at revision {read}")]
    EarlyFence {
        /// The range.
        range: AnyRange,
        /// The revision of the fence.
        fence: u64,
        /// That of the read, or of the fence before.
        read: u64,
    },
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

impl LeakTracker {
    /// Starts a pass; one that is under way is given up.
    pub fn start(&mut self) -> RepairPass {
        RepairPass { id: self.next_pass(), ranges: Vec::new(), look: None }
    }

    fn check(&self, pass: &PassId) -> Result<(), PassError> {
        if self.is_latest(pass) { Ok(()) } else { Err(PassError::GivenUp) }
    }
}

impl RepairPass {
    /// Has the committer keep the history of its key: before the pass's read is submitted.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::BegunTwice`].
    pub fn begin<R, G>(&mut self, passes: &LeakTracker, committer: &mut Committer<R, G>) -> Result<(), PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        self.begin_range(passes, committer.range().into())?;
        committer.keep_history(true);
        Ok(())
    }

    /// A part of [`begin`](Self::begin); see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `begin`.
    pub fn begin_range(&mut self, passes: &LeakTracker, range: AnyRange) -> Result<(), PassError> {
        passes.check(&self.id)?;
        if self.ranges.iter().any(|begun| begun.range == range) {
            return Err(PassError::BegunTwice(range));
        }
        self.ranges.push(Begun { range, view: None, fence: None });
        Ok(())
    }

    fn begun(&mut self, range: AnyRange) -> Result<&mut Begun, PassError> {
        self.ranges.iter_mut().find(|begun| begun.range == range).ok_or(PassError::NotBegun(range))
    }

    /// A range of the latest pass that has begun and was not read.
    fn unread(&mut self, passes: &LeakTracker, range: AnyRange) -> Result<&mut Begun, PassError> {
        passes.check(&self.id)?;
        let begun = self.begun(range)?;
        if begun.view.is_some() { Err(PassError::ReadTwice(range)) } else { Ok(begun) }
    }

    /// Records that the pass's read has ended with this view; Services are listed after `now`. Returns whether the pass
    /// has to write the [fence](Self::fenced) first: it may clean leaks of this range, or create the object, or others
    /// may have deleted and recreated that.
    ///
    /// The counters of this range go on only where the offset was in use ever since the pass before; where that is not
    /// known, or that pass was too short a while ago, all of them start again.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotBegun`], [`PassError::ReadTwice`].
    pub fn read<R, G>(
        &mut self,
        passes: &mut LeakTracker,
        committer: &Committer<R, G>,
        view: &View,
        now: Duration,
    ) -> Result<bool, PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        let range = committer.range().into();
        let since = self.since(passes, range, view.revision)?;
        self.read_range(passes, range, &committer.followed(&since), view, now)
    }

    /// A part of [`read`](Self::read): what the committer is asked; see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `read`.
    pub fn since(&mut self, passes: &mut LeakTracker, range: AnyRange, view: u64) -> Result<Since, PassError> {
        self.unread(passes, range)?;
        Ok(passes.since(range, view))
    }

    /// A part of [`read`](Self::read), with the committer's answer; see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_range(
        &mut self,
        passes: &mut LeakTracker,
        range: AnyRange,
        followed: &Followed,
        view: &View,
        now: Duration,
    ) -> Result<bool, PassError> {
        let begun = self.unread(passes, range)?;
        let is_followed = passes.seen(range, followed, view.revision, now);
        begun.view = Some(view.clone());
        let is_missing = !view.initialised || !followed.initialised;
        Ok(passes.counters().of(range).may_be_due() || is_missing || !is_followed)
    }

    /// Records that the fence was written, with a look, and the store's revision after that.
    ///
    /// Beside the range is another key in its store, the witness, whose value does not matter. A
    /// [`Swap`](super::StoreRequest::Swap) that sets values puts it in its transaction ([`Witness`](super::Witness)),
    /// and the fence is its deletion. So it was created by the first allocation after the last fence, and written by
    /// the last one. The writer of a Service with new values makes it a condition of that transaction that the witness
    /// was created at their revision or before, and written at that or later: no fence came between, nor was the store
    /// restored to a state from before the allocation. So after the fence a Service with a leaked value is in the list,
    /// or is never written, however late its write reaches the store. A leak is cleaned only by a pass that has listed
    /// Services after its fence.
    ///
    /// Revisions do not tell one history of a store from another: a store that was restored between the list and the
    /// swap, and written to since, can have the range in the state that the swap expects, with other Services. So the
    /// transaction of a fence also puts the look, a key with a random name, for which a number stands here. While it is
    /// there, the history of the store up to the look is the same. What a pass clears or creates depends on its last
    /// look; Services are listed at the revision of that. Each fence of a pass but the first is written only if the
    /// look before it is there.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotBegun`], [`PassError::NotRead`], [`PassError::EarlyFence`].
    pub fn fenced<R, G>(
        &mut self,
        passes: &LeakTracker,
        committer: &Committer<R, G>,
        fence: u64,
        look: NonZeroU64,
    ) -> Result<(), PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        self.fenced_range(passes, committer.range().into(), fence, look)
    }

    /// A part of [`fenced`](Self::fenced); see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `fenced`.
    pub fn fenced_range(
        &mut self,
        passes: &LeakTracker,
        range: AnyRange,
        fence: u64,
        look: NonZeroU64,
    ) -> Result<(), PassError> {
        passes.check(&self.id)?;
        self.begun(range)?;
        for Begun { range, view, fence: before } in &self.ranges {
            let read = view.as_ref().ok_or(PassError::NotRead(*range))?.revision;
            let read = before.unwrap_or(0).max(read);
            if fence < read {
                return Err(PassError::EarlyFence { range: *range, fence, read });
            }
        }
        self.begun(range)?.fence = Some(fence);
        self.look = Some((look, fence));
        Ok(())
    }

    /// Adds what was read to an audit, in the order of [`begin`](Self::begin). More may be added to it, and Services
    /// that are listed from now on.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotRead`], [`PassError::AuditInUse`], or [`PassError::Range`] for two
    /// ranges of one kind or a range that no Service uses.
    pub fn audit(self, passes: &LeakTracker, audit: &mut Audit) -> Result<Listing, PassError> {
        passes.check(&self.id)?;
        if !audit.is_new() {
            return Err(PassError::AuditInUse);
        }
        if let Some(begun) = self.ranges.iter().find(|begun| begun.view.is_none()) {
            return Err(PassError::NotRead(begun.range));
        }
        audit.of_pass(self.id.clone());
        for Begun { range, view, .. } in &self.ranges {
            let data = view.as_ref().map_or(&[][..], |view| view.used.snapshot());
            audit.add_bitmap(*range, Stored { range: "", data })?;
        }
        let fences = self.ranges.iter().map(|begun| (begun.range, begun.fence)).collect();
        Ok(Listing { id: self.id, fences, look: self.look })
    }
}

impl Listing {
    /// Ends the audit, which has observed all Services. Leaks stay until their counters are spent.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::OtherAudit`].
    pub fn finish(self, passes: &mut LeakTracker, audit: Audit) -> Result<(Found, Report), PassError> {
        passes.check(&self.id)?;
        if audit.pass() != Some(&self.id) {
            return Err(PassError::OtherAudit);
        }
        let report = audit.finish(Leaks::Keep(passes.counters()));
        let is_of_pass = |range| self.fences.iter().any(|(own, _)| *own == range);
        let of_pass = report.bitmaps().filter(|(_, bitmap)| is_of_pass(bitmap.range()));
        let changes = of_pass.map(|(index, bitmap)| FoundRange::of(&report, index, bitmap)).collect();
        Ok((Found { id: self.id, fences: self.fences, look: self.look, changes }, report))
    }
}

impl Found {
    /// Why the committer will refuse to repair its range, as far as it knows the stored object: the read of this pass
    /// has just shown it. With [`Replace::Once`](super::Replace::Once) it does not refuse, and this is what it
    /// overrides. For a dry run, which submits no repair, and to tell what is overridden before the repair.
    ///
    /// # Errors
    /// [`PassError::NotAudited`].
    pub fn refusal<R, G>(&self, committer: &Committer<R, G>) -> Result<Option<Failure<R>>, PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        Ok(committer.refusal(self.needs(committer.range().into())?))
    }

    fn changes(&self, range: AnyRange) -> Result<&FoundRange, PassError> {
        self.changes.iter().find(|changes| changes.range == range).ok_or(PassError::NotAudited(range))
    }

    /// A part of [`refusal`](Self::refusal): what the committer is asked; see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// [`PassError::NotAudited`].
    pub fn needs(&self, range: AnyRange) -> Result<Needs, PassError> {
        Ok(self.changes(range)?.needs())
    }

    /// What the committer is to do about its range. A leak that is due, but younger than the grace or handed out by
    /// this committer within it, stays and is due again in the next pass. So do all of them if Services were not listed
    /// after the fence, or were listed elsewhere and the committer has noticed another store.
    ///
    /// Where clears are guarded with the list of Services, what was due and could not be cleared is due again in the
    /// next pass. It may be called again, if the repair has failed.
    ///
    /// # Errors
    /// [`PassError::GivenUp`], [`PassError::NotAudited`].
    pub fn diff<R, G>(
        &self,
        passes: &mut LeakTracker,
        committer: &mut Committer<R, G>,
        listed: ServiceList,
    ) -> Result<Diff, PassError>
    where
        R: Range + Into<AnyRange>,
        G: Rng,
    {
        let range = committer.range().into();
        let handed_out = committer.handed_out(self.due(passes, range)?);
        let (diff, follow) = self.diff_of(passes, range, &handed_out, listed)?;
        committer.follow(&follow);
        Ok(diff)
    }

    /// A part of [`diff`](Self::diff): the offsets that the committer is asked about; see
    /// [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `diff`.
    pub fn due(&self, passes: &LeakTracker, range: AnyRange) -> Result<&Bitmap, PassError> {
        passes.check(&self.id)?;
        Ok(self.changes(range)?.due())
    }

    /// A part of [`diff`](Self::diff), with the committer's answer; see [`exchange`](super::exchange).
    ///
    /// # Errors
    /// Those of `diff`.
    pub fn diff_of(
        &self,
        passes: &mut LeakTracker,
        range: AnyRange,
        handed_out: &HandedOut,
        listed: ServiceList,
    ) -> Result<(Diff, Follow), PassError> {
        passes.check(&self.id)?;
        let fence = self.fences.iter().find_map(|(fenced, fence)| fence.filter(|_| *fenced == range));
        Ok(passes.diff(self.changes(range)?, handed_out, fence, self.look, listed))
    }
}

#[cfg(test)]
mod tests;
