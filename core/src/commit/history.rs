//! What is known about the changes of each offset.
//!
//! A clear is right only if its offset was set without a break from its anchor on. So the committer remembers when each
//! offset changed last, and from which revision on it has seen every change.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use crate::bitmap::Bitmap;

use super::faults::Fault;
use super::limits::Limits;
use super::request::Guard;

/// How many views are told apart from those of another store.
const VIEWS: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    limits: Limits,
    /// The state of the key up to which all is known. What it holds is the base's content, or `apart`.
    head: Guard,
    /// What the head holds, where that is not the base: it lags behind, or a watch has run ahead.
    apart: Option<Bitmap>,
    /// All changes of later revisions are known.
    since: u64,
    /// Which store this is the history of, counted from 0.
    store: u32,
    /// Earlier revisions may be those of another store.
    foreign: u64,
    /// The revisions of the last views of this store, and of those of other stores that a pass may still be about.
    views: VecDeque<u64>,
    foreign_views: Vec<u64>,
    /// The changes later than `since`: for each revision how many offsets changed, in order.
    revisions: VecDeque<(u64, u32)>,
    /// The offsets of all these revisions, one after the other.
    offsets: VecDeque<u32>,
    leaks: Option<Leaks>,
}

/// What a pass counts as leaked: on a busy key more changes between two passes than are remembered.
#[derive(Clone, Debug)]
struct Leaks {
    /// The revision of the pass's view.
    since: u64,
    /// Those that have not changed since, ascending.
    unchanged: Vec<u32>,
}

impl History {
    /// Nothing is known yet.
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Fault 12.
    #[cfg(feature = "faults")]
    pub(super) fn take_as_empty(&mut self, base: Guard) {
        (self.head, self.apart) = (base, None);
    }

    /// Begins anew at the base, whose key is in this state.
    pub(super) fn restart(&mut self, base: Guard) {
        (self.head, self.apart, self.since) = (base, None, base.mod_revision);
        self.revisions.clear();
        self.offsets.clear();
        self.leaks = None;
    }

    /// Nothing is known of revisions before this one.
    pub(super) fn forget_before(&mut self, revision: u64) {
        self.since = self.since.max(revision);
        self.leaks = self.leaks.take().filter(|leaks| leaks.since >= revision);
    }

    /// Follows these offsets, ascending, from a view of this revision on.
    pub(super) fn follow(&mut self, since: u64, offsets: impl Iterator<Item = u32>) {
        let changed = self.changed_since(since).map(|changed| changed.collect::<BTreeSet<u32>>());
        let changed = changed.or(Fault::FollowedWithoutHistory.is_on().then(BTreeSet::new));
        self.leaks = changed.map(|changed| {
            let unchanged = offsets.filter(|offset| !changed.contains(offset));
            let mut unchanged: Vec<u32> = unchanged.take(self.limits.leaks).collect();
            unchanged.shrink_to_fit();
            Leaks { since, unchanged }
        });
    }

    /// Whether an offset that is followed since a view of this revision has not changed; `None` if none is.
    pub(super) fn followed_since(&self, revision: u64) -> Option<impl Fn(u32) -> bool + '_> {
        let leaks = self.leaks.as_ref().filter(|leaks| leaks.since == revision)?;
        Some(|offset| leaks.unchanged.binary_search(&offset).is_ok())
    }

    /// The store is another one, or an older state of the same: revisions up to this one tell nothing, unless they are
    /// known to be of this store.
    pub(super) fn distrust(&mut self, revision: u64) {
        self.foreign = self.foreign.max(revision + u64::from(!Fault::LastForeignRevisionTrusted.is_on()));
        self.store += 1;
        self.foreign_views.extend(self.views.drain(..));
        self.restart(Guard::default());
    }

    /// Which store this is the history of.
    pub(super) fn store(&self) -> u32 {
        self.store
    }

    /// A view of this revision is handed out.
    pub(super) fn viewed(&mut self, revision: u64) {
        if self.views.back() != Some(&revision) {
            self.views.push_back(revision);
        }
        if self.views.len() > VIEWS {
            self.views.pop_front();
        }
    }

    /// Whether a view of this revision was handed out lately, and was one of this store.
    pub(super) fn is_own_view(&self, revision: u64) -> bool {
        self.views.contains(&revision) && !self.foreign_views.contains(&revision)
    }

    /// Whether a pass whose view had this revision has seen this store. There is one pass at a time: that which was
    /// under way when the store became another one comes before all others.
    pub(super) fn accepts_pass(&mut self, view: u64) -> bool {
        let foreign = mem::take(&mut self.foreign_views).contains(&view);
        !foreign && (view >= self.foreign || self.views.contains(&view))
    }

    /// The state of the key up to which all is known.
    pub(super) fn head(&self) -> Guard {
        self.head
    }

    /// What the head holds if that is not the base.
    pub(super) fn apart(&self) -> Option<&Bitmap> {
        self.apart.as_ref()
    }

    /// Whether all is known up to the base, and no further.
    pub(super) fn is_complete(&self) -> bool {
        self.apart.is_none()
    }

    /// The head, which holds `content`, is not the base any more.
    pub(super) fn part(&mut self, content: Bitmap) {
        self.apart = Some(content);
    }

    /// The head is the base.
    pub(super) fn join(&mut self) {
        self.apart = None;
    }

    /// The key has gone from the head's state to the next one, which differs from it in these offsets.
    pub(super) fn advance(&mut self, to: Guard, offsets: impl IntoIterator<Item = u32>) {
        self.head = to;
        let before = self.offsets.len();
        self.offsets.extend(offsets);
        if let Some(leaks) = &mut self.leaks {
            for offset in self.offsets.range(before..) {
                if let Ok(at) = leaks.unchanged.binary_search(offset) {
                    leaks.unchanged.remove(at);
                }
            }
        }
        self.revisions.push_back((to.mod_revision, (self.offsets.len() - before) as u32));
        while self.offsets.len() > self.limits.changes || self.revisions.len() > self.limits.revisions {
            let Some((revision, count)) = self.revisions.pop_front() else { break };
            self.offsets.drain(..count as usize);
            if !Fault::ForgottenTakenForKnown.is_on() {
                self.since = self.since.max(revision);
            }
        }
    }

    /// Whether all changes after this revision of this store are known, up to the head.
    pub(super) fn knows(&self, revision: u64) -> bool {
        revision >= self.since
    }

    /// Whether `offset` is the same in every state from this revision of this store on, up to the head; `None` if that
    /// is not known.
    pub(super) fn is_unchanged_since(&self, offset: u32, revision: u64) -> Option<bool> {
        if !self.knows(revision) {
            return Fault::ClearWithoutHistory.is_on().then_some(true);
        }
        let (older, newer) = self.offsets.as_slices();
        let start = self.offsets.len() - self.changes_after(revision);
        let (older, newer) = (&older[start.min(older.len())..], &newer[start.saturating_sub(older.len())..]);
        Some(!contains(older, offset) && !contains(newer, offset))
    }

    /// The same for the revisions that an owner names: since `anchor`, and since `oldest` as far back as is known. They
    /// may be another store's.
    pub(super) fn is_unchanged_for_owner(&self, offset: u32, anchor: u64, oldest: u64) -> Option<bool> {
        if anchor < self.foreign {
            return Fault::ClearWithoutHistory.is_on().then_some(true);
        }
        let oldest = if Fault::OldestIgnored.is_on() { anchor } else { oldest.max(self.since) };
        self.is_unchanged_since(offset, anchor.min(oldest))
    }

    /// The offsets that changed after this revision of this store, up to the head; `None` if that is not known.
    pub(super) fn changed_since(&self, revision: u64) -> Option<impl Iterator<Item = u32> + '_> {
        self.knows(revision).then(|| self.later(revision))
    }

    /// The offsets that changed after `revision`. Cost: linear in their number.
    fn later(&self, revision: u64) -> impl Iterator<Item = u32> + '_ {
        self.offsets.range(self.offsets.len() - self.changes_after(revision)..).copied()
    }

    /// How many changes came after `revision`. Cost: linear in the number of revisions after it.
    fn changes_after(&self, revision: u64) -> usize {
        if self.revisions.front().is_none_or(|(oldest, _)| *oldest > revision) {
            return self.offsets.len();
        }
        let newest = self.revisions.iter().rev().take_while(|(at, _)| *at > revision).map(|(_, count)| *count as usize);
        let (all, first) = newest.fold((0, 0), |(all, _), count| (all + count, count));
        if Fault::FirstChangeOverlooked.is_on() { all - first } else { all }
    }
}

/// Whether `offset` is among these. The owner of an old value has the whole history searched: so many are compared at a
/// time that the compiler uses vector instructions.
fn contains(offsets: &[u32], offset: u32) -> bool {
    offsets.chunks(64).any(|chunk| chunk.iter().fold(false, |found, one| found | (*one == offset)))
}

/// The offsets in which two bitmaps of one length differ.
pub(super) fn differences(before: &Bitmap, after: &Bitmap) -> Vec<u32> {
    let (gone, new) = (before.difference(after), after.difference(before));
    gone.iter().chain(new.iter()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const HISTORIES: u64 = 24;
    /// How many changes each history has: twice as many as are remembered.
    const CHANGES: usize = 2 * (24 << 10);

    /// Every state of the key in the present store: its revision, and the offsets that changed.
    #[derive(Default)]
    struct Log {
        states: Vec<(u64, Vec<u32>)>,
        /// The revision at which it begins.
        begin: u64,
        foreign: u64,
    }

    impl Log {
        /// The revision after which all changes are remembered: the longest end of the log that is within the limits.
        fn since(&self) -> u64 {
            let (mut changes, mut revisions, mut since) = (0, 0, self.begin);
            for (revision, offsets) in self.states.iter().rev() {
                (changes, revisions) = (changes + offsets.len(), revisions + 1);
                if changes > Limits::default().changes || revisions > Limits::default().revisions {
                    since = since.max(*revision);
                    break;
                }
            }
            since
        }

        /// Whether the value was in use since both revisions, the older one as far back as `since`.
        fn is_unchanged(&self, offset: u32, anchor: u64, oldest: u64, since: u64) -> Option<bool> {
            if anchor < since || anchor < self.foreign {
                return None;
            }
            let broken = |(at, offsets): &(u64, Vec<u32>)| {
                *at > since && (*at > anchor || *at > oldest) && offsets.contains(&offset)
            };
            Some(!self.states.iter().any(broken))
        }

        /// The offsets that changed after a revision.
        fn after(&self, revision: u64) -> Vec<u32> {
            self.states.iter().filter(|(at, _)| *at > revision).flat_map(|(_, offsets)| offsets).copied().collect()
        }
    }

    struct Random(Xoshiro256PlusPlus);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0.next_u64() % limit
        }

        /// A revision that tells faults apart: next to a change of `offset` or of any other, next to where memory begins, or
        /// any other.
        fn revision(&mut self, log: &Log, offset: u32, since: u64, head: u64) -> u64 {
            let near = match self.below(4) {
                0 => since,
                1 => log.states.iter().rev().find(|(_, one)| one.contains(&offset)).map_or(head, |(at, _)| *at),
                2 if !log.states.is_empty() => log.states[self.below(log.states.len() as u64) as usize].0,
                _ => self.below(head + 3),
            };
            (near + self.below(3)).saturating_sub(1)
        }
    }

    #[test]
    fn lookups_agree_with_a_full_log() {
        let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(1));
        let (mut cases, mut wrapped, mut forgotten, mut foreign) = (0, 0, 0, 0);
        let (mut unchanged, mut changed, mut unknown) = (0, 0, 0);
        for number in 0..HISTORIES {
            // Some forget by the number of revisions, others by the number of changes.
            let most = [4, 30, 300, 4000][number as usize % 4];
            let (mut history, mut log, mut head) = (History::default(), Log::default(), 1 + random.below(1000));
            let restart = |history: &mut History, log: &mut Log, head: u64| {
                history.restart(Guard { mod_revision: head, version: 1, create_revision: head });
                (log.states, log.begin) = (Vec::new(), head);
            };
            restart(&mut history, &mut log, head);
            let mut done = 0;
            while done < CHANGES {
                match random.below(8_000) {
                    0 => {
                        history.distrust(head);
                        log.foreign = log.foreign.max(head + 1);
                        // The other store is behind, or ahead.
                        head = head.saturating_sub(200).max(1) + random.below(300);
                        restart(&mut history, &mut log, head);
                        foreign += 1;
                    }
                    1 => restart(&mut history, &mut log, head),
                    2 => {
                        history.forget_before(head);
                        log.begin = head;
                    }
                    _ => {}
                }
                head += 1 + random.below(3);
                let many = random.below(8) == 0;
                let count = random.below(if many { most } else { 4 });
                let offsets: BTreeSet<u32> = (0..count).map(|_| random.below(4000) as u32).collect();
                done += offsets.len().max(1);
                log.states.push((head, offsets.iter().copied().collect()));
                history.advance(Guard { mod_revision: head, ..history.head() }, offsets);
                if random.below(20) != 0 {
                    continue;
                }
                let since = log.since();
                wrapped += u32::from(!history.offsets.as_slices().1.is_empty());
                forgotten += u32::from(since > log.begin);
                for _ in 0..4 {
                    let offset = match history.offsets.len() as u64 {
                        remembered if remembered > 0 && random.below(2) == 0 => {
                            history.offsets[random.below(remembered) as usize]
                        }
                        _ => random.below(4010) as u32,
                    };
                    let anchor = random.revision(&log, offset, since, head);
                    let oldest = random.revision(&log, offset, since, head);
                    let expected = log.is_unchanged(offset, anchor, oldest, since);
                    let context = format!("history {number} at {head}: {offset} since {anchor} and {oldest}");
                    assert_eq!(history.is_unchanged_for_owner(offset, anchor, oldest), expected, "{context}");
                    let changed_since: Option<Vec<u32>> = history.changed_since(anchor).map(Iterator::collect);
                    assert!(changed_since == (anchor >= since).then(|| log.after(anchor)), "{context}");
                    cases += 1;
                    *match expected {
                        Some(true) => &mut unchanged,
                        Some(false) => &mut changed,
                        None => &mut unknown,
                    } += 1;
                }
            }
        }
        println!("{cases} cases: {unchanged} unchanged, {changed} changed, {unknown} unknown");
        println!(
            "{forgotten} times changes were forgotten, {wrapped} times the memory wrapped, {foreign} other stores"
        );
        assert!(unchanged > 5000 && changed > 5000 && unknown > 5000, "the mix has shifted");
        assert!(forgotten > 2000 && wrapped > 1000 && foreign > 5, "the test bites too little");
    }
}
