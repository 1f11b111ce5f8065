//! What repair passes know from one to the next.
//!
//! A leak is cleaned when several passes in a row have seen it. That is safe only if it was one leak all the time: the
//! offset was in use in every revision between the passes, and the passes were far enough apart for any Service to be
//! written meanwhile. The first the committer tells, the second a clock that never goes back.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::num::NonZeroU8;
use std::time::Duration;

use rand_core::Rng;

use crate::any::AnyRange;
use crate::audit::{BitmapReport, RepairCounters};
use crate::range::Range;

use super::faults::Fault;
use super::{Committer, Diff, Listed};

/// The leak counters of one server's repair, and when they may advance.
///
/// A pass over the ranges of some committers goes like this:
///
/// 1. [`begin`](Self::begin) for each committer asks it to keep its history.
/// 2. An [`Operation::Read`](super::Operation::Read) to each gives a [`View`](super::View), and that goes to
///    [`seen`](Self::seen) at once.
/// 3. After that, Services are listed linearizably and observed by a [`Audit`](crate::audit::Audit) that has
///    the views' bitmaps and, as [`Leaks::Keep`](crate::audit::Leaks::Keep), the [`counters`](Self::counters).
/// 4. [`diff`](Self::diff) gives for each range what goes into an [`Operation::Repair`](super::Operation::Repair), also
///    if it changes nothing: the committer learns from it which values more than one Service claims.
///
/// A pass that fails on its way is left as it is. Memory: the counters, and a few words per range.
#[derive(Clone, Debug)]
pub struct Passes {
    passes: NonZeroU8,
    spacing: Duration,
    counters: RepairCounters,
    ranges: Vec<(AnyRange, Seen)>,
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

impl Passes {
    /// Nothing is counted yet. A leak is cleaned in the pass that sees it for the `passes`th time, if passes come every
    /// `interval`, give or take a tenth.
    pub fn new(passes: NonZeroU8, interval: Duration) -> Self {
        Self { passes, spacing: interval / 10 * 9, counters: RepairCounters::new(passes), ranges: Vec::new() }
    }

    /// Before a pass's read of the committer's key.
    pub fn begin<R: Range, G: Rng>(&mut self, committer: &mut Committer<R, G>) {
        committer.keep_history(true);
    }

    /// The read has ended by a view of revision `read`; Services are listed after `now`.
    ///
    /// The counters of this range go on only where the offset was in use ever since the pass before; where that is not
    /// known, or that pass was too short a while ago, all of them start again.
    pub fn seen<R: Range, G: Rng>(&mut self, range: AnyRange, committer: &Committer<R, G>, read: u64, now: Duration) {
        let counters = self.counters.of(range);
        let seen = seen(&mut self.ranges, range);
        let spaced = seen.times.front().is_some_and(|last| now.saturating_sub(*last) >= self.spacing);
        let store = committer.history.store();
        let own = committer.history.is_own_view(read);
        let same = seen.read.filter(|(_, before)| own && *before == store);
        let changed = same.and_then(|(before, _)| {
            committer.changed_since(before).or_else(|| {
                // With a single pass there are no counters, only what is held.
                let held = seen.held.keys().copied();
                committer.changed_of(counters.iter().chain(held), before)
            })
        });
        let ignored = (spaced || Fault::PassesNotSpaced.is_on())
            && (Fault::CounterIgnoresChanges.is_on() || (changed.is_none() && Fault::CounterSurvivesGap.is_on()));
        match changed.filter(|_| spaced || Fault::PassesNotSpaced.is_on()) {
            _ if ignored => {}
            Some(changed) => {
                counters.restart(&changed);
                if !Fault::HeldAcrossChange.is_on() {
                    seen.held.retain(|offset, _| !changed.contains(*offset));
                }
            }
            None => {
                counters.reset();
                seen.held.clear();
            }
        }
        seen.read = own.then_some((read, store));
        seen.times.push_front(now);
        let more = usize::from(Fault::OneSightingTooMany.is_on());
        seen.times.truncate(usize::from(self.passes.get()) + more);
    }

    /// The counters, for the pass over the Services.
    pub fn counters(&mut self) -> &mut RepairCounters {
        &mut self.counters
    }

    /// What the committer is to do about what the pass found out. A leak that is due, but younger than the grace or
    /// handed out by this committer within it, stays and is due again in the next pass.
    ///
    /// Where clears are guarded with the list of Services, what was due and could not be cleared is due again in the next
    /// pass.
    pub fn diff<R: Range, G: Rng>(
        &mut self,
        outcome: &BitmapReport,
        committer: &mut Committer<R, G>,
        listed: Listed,
    ) -> Diff {
        let seen = seen(&mut self.ranges, outcome.range());
        let counters = self.counters.of(outcome.range());
        let grace = committer.config.grace;
        let now = seen.times.front().copied().unwrap_or_default();
        // Whatever is due was seen leaked in that pass, or before.
        let first_seen = seen.times.back().copied().unwrap_or_default();
        let mut clear = outcome.clear();
        let before = std::mem::take(&mut seen.held);
        for offset in &outcome.clear() {
            let first = before.get(&offset).copied().unwrap_or(first_seen);
            let young = now.saturating_sub(first) < grace && !Fault::LeakCleanedYoung.is_on();
            let stays = young || committer.is_handed_out(offset);
            if stays {
                clear.remove(offset);
            }
            if stays || listed.guard().is_some() {
                // What is cleared indeed has changed by the next pass, and is counted anew.
                seen.held.insert(offset, first);
                counters.hold(offset);
            } else if Fault::CounterSurvivesCleaning.is_on() {
                counters.hold(offset);
            }
        }
        committer.keep_history(!counters.is_empty() || !seen.held.is_empty());
        let read = seen.read.map_or(0, |(read, _)| read);
        if self.passes.get() > 1 {
            // What is held has a counter.
            committer.history.follow(read, counters.iter());
        } else {
            let mut held: Vec<u32> = seen.held.keys().copied().collect();
            held.sort_unstable();
            committer.history.follow(read, held.into_iter());
        }
        Diff { read, set: outcome.set(), clear, duplicates: outcome.duplicates().to_vec(), listed }
    }
}

fn seen(ranges: &mut Vec<(AnyRange, Seen)>, range: AnyRange) -> &mut Seen {
    let at = ranges.iter().position(|(known, _)| *known == range).unwrap_or_else(|| {
        ranges.push((range, Seen::default()));
        ranges.len() - 1
    });
    &mut ranges[at].1
}
