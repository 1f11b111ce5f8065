//! The servers and the range of a schedule.

use std::num::NonZeroU8;

use rangekeeper::allocator::Strategy;
use rangekeeper::commit::Limits;
use rangekeeper::commit::{Committer, Config, LeakTracker, Replace};
use rangekeeper::ports::PortRange;

use crate::agenda::Agenda;
use crate::knowledge::Knowledge;
use crate::random::Random;
use crate::reference::ReferenceRepair;
use crate::server::{Notice, Pace, Pass, Server, Sightings};
use crate::store::{Layout, Store};

use super::stock::Habits;
use super::{LOW, MS, Report, World, duration};

impl World {
    pub(super) fn new(seed: u64, is_retraced: bool, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let (range, layout, size) = choose_range(&mut random);
        let interval = if random.percent(70) { 1000 * MS } else { 7000 * MS };
        let grace = 2 * interval;
        let strategy = random.pick(&[
            Strategy::RandomScan,
            Strategy::Contiguous,
            Strategy::Contiguous,
            Strategy::DynamicBandFirst,
        ]);
        let guarded = random.percent(40);
        let limits = choose_limits(&mut random);
        let passes = random.pick(&[3, 3, 3, 3, 3, 2, 1]);
        let horizon = interval * random.between(6, 12) / 2;
        let count = random.pick(&[2, 2, 2, 2, 3, 3, 3, 4, 5]);
        let mut servers = Vec::with_capacity(count);
        let config = Config { strategy, grace: duration(grace), replace: Replace::Always };
        let conditional = random.percent(50);
        let has_command = conditional && random.percent(50);
        let all_elsewhere = random.percent(30);
        for number in 0..count {
            let is_command = has_command && number + 1 == count;
            let pace = if is_command {
                Pace { passes: 2, interval: interval / 3, grace: interval / 3 }
            } else {
                Pace { passes, interval, grace }
            };
            let committer = Committer::with_limits(range, configured(config, pace), limits, random.fork());
            servers.push(Server {
                pace,
                is_command,
                // Without conditions, creators that are slower than the grace depend on the guard of all clears.
                lists_elsewhere: (all_elsewhere || random.percent(10)) && (conditional || !guarded),
                cache: None,
                unclaimed: 0,
                up: true,
                incarnation: 0,
                committer,
                poll_at: u64::MAX,
                flight: None,
                is_swap: false,
                open: Vec::new(),
                allocations: Vec::new(),
                watch: None,
                is_watch_due: false,
                has_skipped: false,
                has_gaps: false,
                is_cut: false,
                repairs: random.percent(42) || is_command,
                passes: counting(pace),
                pass: Pass::None,
                repeats: false,
                ahead: 0,
                rights: Vec::new(),
                sightings: [Sightings::default(); 64],
                last_pass: None,
                reported: 0,
                reported_key: 0,
                has_answer: false,
                epoch: 0,
                identity: (0, 0),
                reached: 0,
                key: None,
                answered: None,
                watched: 0,
                knowledge: Knowledge::default(),
                notice: Notice::Noticed,
                foreign: 0,
                wary_until: 0,
                duplicates: 0,
                freed: [None; 64],
                heard: 0,
                owed: Vec::new(),
                refused: 0,
                written: None,
                lag: 0,
                frozen: None,
                paused_until: 0,
            });
        }
        let trouble = random.pick(&[0, 5, 15, 30]);
        let mut store = Store::new();
        store.layout = layout;
        let mut world = Self {
            random,
            now: 0,
            agenda: Agenda::new(),
            store,
            backup: None,
            servers,
            claims: Vec::with_capacity(32),
            requests: Vec::with_capacity(32),
            uids: 0,
            range,
            config,
            text: range.to_string(),
            size,
            limits,
            passes,
            guarded,
            conditional,
            interval,
            grace,
            horizon,
            sent: 0,
            is_answer_old: false,
            trouble,
            damaged: 0,
            harmed: 0,
            recreated: 0,
            is_restored: false,
            is_connection_kept: false,
            connected_since: 0,
            is_restored_in_pass: false,
            is_retraced,
            is_restored_after_list: false,
            is_made_in_pass: false,
            loses_next: None,
            journals: Vec::new(),
            has_stock: false,
            is_disturbed: false,
            reference: ReferenceRepair::new(),
            habits: Habits::default(),
            finalist: None,
            calm: false,
            traced,
            report: Report::default(),
        };
        world.prepare();
        world
    }
}

fn configured(config: Config, pace: Pace) -> Config {
    Config { grace: duration(pace.grace), ..config }
}

fn counting(pace: Pace) -> LeakTracker {
    LeakTracker::new(NonZeroU8::new(pace.passes).expect("not zero"), duration(pace.interval))
}

/// A range of 8 to 40 ports; now and then one of more than 4,096, whose bitmaps have two levels of summaries, with a
/// window of up to 40 ports that are not in use from the beginning.
fn choose_range(random: &mut Random) -> (PortRange, Layout, u32) {
    let size = if random.percent(70) { random.between(8, 17) } else { random.between(17, 41) };
    if !random.percent(1) {
        let range = PortRange::new(LOW, LOW + size as u16 - 1).expect("not empty");
        return (range, Layout::default(), size as u32);
    }
    let total = if random.percent(80) { random.between(4097, 4300) } else { random.between(8100, 8500) };
    let mut offsets: Vec<u32> = (0..size)
        .map(|_| match random.below(4) {
            // In the first words, the last ones, at the ends of a summary's word, or anywhere.
            0 => random.below(130),
            1 => total - 1 - random.below(130),
            2 => (random.between(1, 3) * 4096 + random.below(4) - 2).min(total - 1),
            _ => random.below(total),
        })
        .map(|offset| offset as u32)
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    let range = PortRange::new(LOW, LOW + total as u16 - 1).expect("not empty");
    let size = offsets.len() as u32;
    (range, Layout::window(total as u32, &offsets), size)
}

/// Short schedules reach no bound of what is remembered, unless the bounds are close.
fn choose_limits(random: &mut Random) -> Limits {
    let all = Limits::default();
    if random.percent(60) {
        return all;
    }
    let few = |random: &mut Random, all: usize| if random.percent(50) { all } else { random.between(1, 9) as usize };
    Limits {
        changes: few(random, all.changes),
        revisions: few(random, all.revisions),
        leaks: few(random, all.leaks),
        replayed: if random.percent(60) { all.replayed } else { few(random, all.replayed as usize) as u64 },
        quarantine: few(random, all.quarantine as usize) as u32,
        operations: few(random, all.operations),
    }
}

impl World {
    /// A server's process starts, and knows nothing.
    pub(super) fn forget_all(&mut self, server: usize) {
        let (rng, epoch) = (self.random.fork(), self.store.epoch);
        let one = &mut self.servers[server];
        one.committer = Committer::with_limits(self.range, configured(self.config, one.pace), self.limits, rng);
        one.passes = counting(one.pace);
        (one.cache, one.unclaimed) = (None, 0);
        one.sightings = [Sightings::default(); 64];
        one.last_pass = None;
        one.reported_key = 0;
        (one.reported, one.has_answer, one.identity, one.reached) = (0, false, (0, 0), 0);
        (one.key, one.answered, one.watched) = (None, None, 0);
        one.knowledge = Knowledge::default();
        (one.notice, one.foreign, one.epoch) = (Notice::Noticed, 0, epoch);
        one.duplicates = 0;
        one.freed = [None; 64];
        one.heard = 0;
        one.owed.clear();
        (one.has_gaps, one.is_cut) = (false, false);
        one.allocations.clear();
        one.written = None;
    }
}
