//! The leak counters that a server keeps from one repair pass to the next.
//!
//! A leak is cleaned when several passes in a row have seen it. That is safe only if it was one leak all the time: the
//! offset was in use in every revision between the passes, and the passes were far enough apart for any Service to be
//! written meanwhile. The committer reports the first, a clock that never goes back the second.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::{NonZeroU8, NonZeroU64};
use std::time::Duration;

use crate::any::AnyRange;
use crate::audit::{BitmapReport, PassId, RepairCounters, Report};
use crate::bitmap::Bitmap;
use crate::finding::Reason;

use super::exchange::{Follow, Followed, HandedOut, Needs, Since};
use super::operation::UNKNOWN_REVISION;
use super::{Diff, ServiceList};

/// The leak counters of one server's repair, and when they may advance. [`start`](Self::start) starts a
/// [`RepairPass`](super::RepairPass).
///
/// Memory: the counters, and a few words per range.
#[derive(Clone, Debug)]
pub struct LeakTracker {
    passes: NonZeroU8,
    spacing: Duration,
    counters: RepairCounters,
    ranges: Vec<(AnyRange, Seen)>,
    /// The pass that started last.
    latest: PassId,
}

/// What a pass has found out about one range.
#[derive(Clone, Debug)]
pub(super) struct FoundRange {
    pub(super) range: AnyRange,
    set: Bitmap,
    clear: Bitmap,
    duplicates: Vec<u32>,
    /// How many Services have a value that the range does not have.
    outside: u32,
}

impl FoundRange {
    /// The offsets whose leak is due.
    pub(super) fn due(&self) -> &Bitmap {
        &self.clear
    }

    pub(super) fn needs(&self) -> Needs {
        Needs { sets: !self.set.is_empty(), outside: self.outside }
    }

    /// What the pass has found out about the range of the report with this index.
    pub(super) fn of(report: &Report, index: usize, bitmap: &BitmapReport) -> Self {
        let outside = report.findings.iter().filter(|finding| {
            finding.range == Some(index)
                && matches!(finding.reason, Reason::ClusterIpOutOfRange | Reason::PortOutOfRange)
        });
        let services: HashSet<_> = outside.map(|finding| finding.subject).collect();
        Self {
            range: bitmap.range(),
            set: bitmap.set(),
            clear: bitmap.clear(),
            duplicates: bitmap.duplicates().to_vec(),
            outside: services.len() as u32,
        }
    }
}

/// The passes over one range.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The revision of the last view, and of which of the stores that the committer has seen.
    read: Option<(u64, u32)>,
    /// When the last views came, the latest first.
    times: VecDeque<Duration>,
    /// Offsets that were due in the last pass and not to be cleaned yet, and when they were seen leaked first.
    held: HashMap<u32, Duration>,
}

impl LeakTracker {
    /// Nothing is counted yet. A leak is cleaned in the pass that sees it for the `passes`th time, if passes come every
    /// `interval`, give or take a tenth.
    pub fn new(passes: NonZeroU8, interval: Duration) -> Self {
        Self {
            passes,
            spacing: interval / 10 * 9,
            counters: RepairCounters::new(passes),
            ranges: Vec::new(),
            latest: PassId::default(),
        }
    }

    /// As [`RepairCounters::keeping_leaks`].
    #[must_use]
    pub fn keeping_leaks(self) -> Self {
        Self { counters: self.counters.keeping_leaks(), ..self }
    }

    /// The identity of a pass that starts.
    pub(super) fn next_pass(&mut self) -> PassId {
        self.latest = PassId::default();
        self.latest.clone()
    }

    /// Whether the pass is the one that started last.
    pub(super) fn is_latest(&self, pass: &PassId) -> bool {
        self.latest == *pass
    }

    /// What the committer has to answer about the time since the pass before.
    pub(super) fn since(&mut self, range: AnyRange, view: u64) -> Since {
        let counters = self.counters.of(range);
        let seen = seen(&mut self.ranges, range);
        // With a single pass there are no counters, only what is held.
        let held = seen.held.keys().copied();
        Since { view, before: seen.read, leaks: counters.iter().chain(held).collect() }
    }

    /// See [`RepairPass::read`](super::RepairPass::read). Returns whether all changes are known since the pass before,
    /// if there was one.
    pub(super) fn seen(&mut self, range: AnyRange, followed: &Followed, read: u64, now: Duration) -> bool {
        let counters = self.counters.of(range);
        let seen = seen(&mut self.ranges, range);
        let spaced = seen.times.front().is_some_and(|last| now.saturating_sub(*last) >= self.spacing);
        let changed = followed.changed.as_ref();
        let is_followed = seen.read.is_none() || changed.is_some();
        match changed.filter(|_| spaced) {
            Some(changed) => {
                counters.restart(changed);
                seen.held.retain(|offset, _| !changed.contains(*offset));
            }
            None => {
                counters.reset();
                seen.held.clear();
            }
        }
        seen.read = followed.is_own.then_some((read, followed.store));
        seen.times.push_front(now);
        seen.times.truncate(usize::from(self.passes.get()));
        is_followed
    }

    /// The counters, for an audit of ranges that have no committers: every pass counts for them.
    pub fn counters(&mut self) -> &mut RepairCounters {
        &mut self.counters
    }

    /// See [`Found::diff`](super::Found::diff).
    pub(super) fn diff(
        &mut self,
        changes: &FoundRange,
        handed_out: &HandedOut,
        fence: Option<u64>,
        look: Option<(NonZeroU64, u64)>,
        listed: ServiceList,
    ) -> (Diff, Follow) {
        let FoundRange { range, set, clear: due, duplicates, outside } = changes.clone();
        let may_be_wrong = listed.revision().is_none() && handed_out.is_restored;
        let may_clear = match listed.revision() {
            None => !may_be_wrong,
            Some(listed) => {
                fence.is_some_and(|fence| fence <= listed) && look.is_some_and(|(_, looked)| looked == listed)
            }
        };
        let seen = seen(&mut self.ranges, range);
        let counters = self.counters.of(range);
        let now = seen.times.front().copied().unwrap_or_default();
        // Whatever is due was seen leaked in that pass, or before.
        let first_seen = seen.times.back().copied().unwrap_or_default();
        let mut clear = due.clone();
        let before = std::mem::take(&mut seen.held);
        for offset in &due {
            let first = before.get(&offset).copied().unwrap_or(first_seen);
            let young = now.saturating_sub(first) < handed_out.grace;
            let stays = young || !may_clear || handed_out.offsets.binary_search(&offset).is_ok();
            if stays {
                clear.remove(offset);
            }
            if stays || listed.guard().is_some() {
                // What is cleared indeed has changed by the next pass, and is counted from the start.
                seen.held.insert(offset, first);
                counters.hold(offset);
            }
        }
        let read = seen.read.map_or(0, |(read, _)| read);
        let mut leaks: Vec<u32> = if self.passes.get() > 1 {
            // What is held has a counter.
            counters.iter().collect()
        } else {
            seen.held.keys().copied().collect()
        };
        leaks.sort_unstable();
        let follow = Follow { since: read, leaks };
        // By a list that may miss Services a missing range must not be created either, and by one that may have
        // Services of the lost history nothing be set that no pass would clear again.
        let read = if may_be_wrong { UNKNOWN_REVISION } else { read };
        let look = look.map(|(look, _)| look);
        (Diff { read, set, clear, duplicates, outside, listed, look }, follow)
    }
}

fn seen(ranges: &mut Vec<(AnyRange, Seen)>, range: AnyRange) -> &mut Seen {
    let at = ranges.iter().position(|(known, _)| *known == range).unwrap_or_else(|| {
        ranges.push((range, Seen::default()));
        ranges.len() - 1
    });
    &mut ranges[at].1
}

#[cfg(test)]
mod tests;
