use std::collections::BTreeSet;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::commit::testing::{state, unchanged_since};

const HISTORIES: u64 = 24;
/// How many changes each history has: twice as many as are remembered.
const CHANGES: usize = 2 * (24 << 10);

/// Every state of the key in the present store: its revision, and the offsets that changed.
#[derive(Default)]
struct Log {
    states: Vec<(u64, Vec<u32>)>,
    /// The revision at which it begins.
    begin: u64,
    trusted_from: u64,
    /// The numbers of other stores.
    stores: Vec<u32>,
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

    /// Whether the value was in use since both revisions, the older one as far back as `since`. The owner names the
    /// present store, another one or none.
    fn is_unchanged(&self, offset: u32, as_of: u64, oldest: u64, since: u64, is_own: Option<bool>) -> Option<bool> {
        if as_of < since || !is_own.unwrap_or(as_of >= self.trusted_from) {
            return None;
        }
        let broken =
            |(at, offsets): &(u64, Vec<u32>)| *at > since && (*at > as_of || *at > oldest) && offsets.contains(&offset);
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

    /// A revision that tells faults apart: next to a change of `offset` or of any other, next to where memory begins,
    /// or any other.
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
        let mut history = Changes::new(Limits::default(), u32::MAX - number as u32 % 4);
        let (mut log, mut head) = (Log::default(), 1 + random.below(1000));
        let restart = |history: &mut Changes, log: &mut Log, head: u64| {
            history.restart(KeyState { mod_revision: head, version: 1, create_revision: head });
            (log.states, log.begin) = (Vec::new(), head);
        };
        restart(&mut history, &mut log, head);
        log.stores.push(1 << 31);
        let mut done = 0;
        while done < CHANGES {
            match random.below(8_000) {
                0 => {
                    log.stores.push(history.store());
                    history.distrust(head);
                    log.trusted_from = log.trusted_from.max(head + 1);
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
            history.advance(KeyState { mod_revision: head, ..history.head() }, offsets);
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
                let as_of = random.revision(&log, offset, since, head);
                let oldest = random.revision(&log, offset, since, head);
                let (store, is_own) = match random.below(4) {
                    0 => (history.store(), Some(true)),
                    1 => (log.stores[random.below(log.stores.len() as u64) as usize], Some(false)),
                    _ => (0, None),
                };
                let expected = log.is_unchanged(offset, as_of, oldest, since, is_own);
                let context = format!("history {number} at {head}: {offset} since {as_of} and {oldest} of {is_own:?}");
                assert_eq!(history.is_unchanged_for_owner(offset, as_of, oldest, store), expected, "{context}");
                let changed_since: Option<Vec<u32>> = history.changed_since(as_of).map(Iterator::collect);
                assert!(changed_since == (as_of >= since).then(|| log.after(as_of)), "{context}");
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
    println!("{forgotten} times changes were forgotten, {wrapped} times the memory wrapped, {foreign} other stores");
    assert!(unchanged > 5000 && changed > 5000 && unknown > 5000, "the mix has shifted");
    assert!(forgotten > 2000 && wrapped > 1000 && foreign > 5, "the test bites too little");
}

/// A pass has read the store before, and lists Services of the restored one, which has reached the revision of that
/// read and returned a view of it.
#[test]
fn a_pass_of_the_store_before_is_not_accepted_though_this_store_has_a_view_of_its_revision() {
    let mut changes = unchanged_since(state(1));
    changes.viewed(20);
    changes.distrust(30);
    changes.viewed(20);
    assert!(!changes.accepts_pass(20));
    assert!(changes.accepts_pass(20), "the next pass comes after the restore");
}
