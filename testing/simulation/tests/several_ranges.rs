//! A repair pass over several ranges finds for each of them what a pass over it alone does, whatever happens to the
//! others: changes, a key that is deleted, views that never come.

mod common;

use std::num::NonZeroU8;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::audit::Audit;
use rangekeeper::cidr::CidrRange;
use rangekeeper::commit::{
    Committer, Config, Event, Found, LeakTracker, Operation, Outcome, RepairPass, Replace, ServiceList,
};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;
use rangekeeper::service::{Service, ServicePort};
use rangekeeper_simulation::random::Random;
use rangekeeper_simulation::store::{Mask, Store, bits};

use common::run;

const INTERVAL: Duration = Duration::from_secs(180);
const SCHEDULES: u64 = 2000;
const PASSES: u32 = 12;

/// A range that Services use.
trait Kind: Range + Into<AnyRange> {
    /// Shows the pass a Service with this value.
    fn observe(pass: &mut Audit, value: Self::Value);
}

impl Kind for CidrRange {
    fn observe(pass: &mut Audit, value: Self::Value) {
        pass.observe(&Service { cluster_ip: &value.to_string(), ..Service::default() });
    }
}

impl Kind for PortRange {
    fn observe(pass: &mut Audit, value: Self::Value) {
        let port = ServicePort { protocol: "TCP", node_port: i32::from(value) };
        pass.observe(&Service { ports: &[port], ..Service::default() });
    }
}

struct Key<R: Kind> {
    range: R,
    store: Store,
    repairer: Committer<R, Xoshiro256PlusPlus>,
    other: Committer<R, Xoshiro256PlusPlus>,
    /// The passes over this range alone.
    alone: LeakTracker,
    /// What Services use.
    in_use: Mask,
    /// The pass under way over this range alone, once it has read it.
    reading: Option<RepairPass>,
}

fn passes() -> LeakTracker {
    LeakTracker::new(NonZeroU8::new(3).expect("not zero"), INTERVAL)
}

impl<R: Kind> Key<R> {
    fn new(range: &str, random: &mut Random) -> Self
    where
        R::Err: std::fmt::Debug,
    {
        let range: R = range.parse().expect("a range");
        let config = Config { strategy: Strategy::RandomScan, grace: 2 * INTERVAL, replace: Replace::Always };
        let mut committer = || Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(random.below(u64::MAX)));
        let (repairer, other) = (committer(), committer());
        Self { range, store: Store::new(), repairer, other, alone: passes(), in_use: 0, reading: None }
    }

    /// Something happens to the range, or nothing.
    fn happen(&mut self, random: &mut Random, now: Duration) {
        match random.below(20) {
            0..6 => {
                let take = Operation::Allocate(vec![Request::Any]);
                if let Outcome::Allocated { values, .. } = run(&mut self.store, &mut self.other, now, take)
                    && random.percent(40)
                {
                    self.in_use |= 1 << self.range.offset_of(values[0]).expect("of this range");
                }
            }
            6..9 => {
                let offset = random.below(u64::from(self.range.size())) as u32;
                let value = self.range.value_at(offset).expect("of this range");
                let as_of = self.store.revision();
                if self.in_use >> offset & 1 == 0 {
                    run(
                        &mut self.store,
                        &mut self.other,
                        now,
                        Operation::Release { value, as_of, oldest: as_of, store: 0 },
                    );
                }
            }
            9..11 => self.in_use &= !(1 << random.below(u64::from(self.range.size()))),
            11 => {
                // Some come by another way than an allocation.
                self.in_use |= 1 << random.below(u64::from(self.range.size()));
            }
            12 if random.percent(20) => {
                self.store.delete();
                self.repairer.handle(Event::Reconnected, now);
                self.other.handle(Event::Reconnected, now);
            }
            13 if random.percent(50) => self.repairer.handle(Event::WatchFailed, now),
            _ => {}
        }
    }

    /// The beginning of a pass, which may fail.
    fn look(&mut self, passes: &mut LeakTracker, together: &mut RepairPass, random: &mut Random, now: Duration) {
        let mut alone = self.alone.start();
        together.begin(passes, &mut self.repairer).expect("not begun yet");
        alone.begin(&self.alone, &mut self.repairer).expect("not begun yet");
        self.reading = None;
        if random.percent(4) {
            return;
        }
        let Outcome::Read(view) = run(&mut self.store, &mut self.repairer, now, Operation::Read) else { return };
        together.read(passes, &self.repairer, &view, now).expect("begun");
        alone.read(&mut self.alone, &self.repairer, &view, now).expect("begun");
        self.reading = Some(alone);
    }

    fn observe(&self, pass: &mut Audit) {
        for offset in bits(self.in_use) {
            R::observe(pass, self.range.value_at(offset).expect("of this range"));
        }
    }

    /// The end of a pass: what it clears.
    fn repair(&mut self, passes: &mut LeakTracker, together: &Found, seed: u64, now: Duration) -> usize {
        let mut audit = Audit::new();
        let listing =
            self.reading.take().expect("all have been read").audit(&self.alone, &mut audit).expect("it was read");
        self.observe(&mut audit);
        let (found, _) = listing.finish(&mut self.alone, audit).expect("its own audit");
        let alone = found.diff(&mut self.alone, &mut self.repairer, ServiceList::Elsewhere).expect("its own range");
        let diff = together.diff(passes, &mut self.repairer, ServiceList::Elsewhere).expect("one of its ranges");
        assert_eq!(diff, alone, "seed {seed}, {}", self.range);
        let repair = Operation::Repair(Box::new(diff));
        match run(&mut self.store, &mut self.repairer, now, repair) {
            Outcome::Repaired(repaired) => repaired.cleared.len(),
            _ => 0,
        }
    }
}

#[test]
fn a_pass_over_several_ranges_is_one_over_each() {
    let (mut whole, mut cleared) = (0, 0);
    for seed in 0..SCHEDULES {
        let random = &mut Random::new(seed);
        let mut ipv4 = Key::<CidrRange>::new("10.0.0.0/28", random);
        let mut ipv6 = Key::<CidrRange>::new("fd00::/123", random);
        let mut ports = Key::<PortRange>::new("30000-30011", random);
        let mut together = passes();
        let mut now = Duration::from_secs(1);
        for _ in 0..PASSES {
            for _ in 0..random.below(4) {
                ipv4.happen(random, now);
                ipv6.happen(random, now);
                ports.happen(random, now);
            }
            // Most are spaced.
            let shortest = if random.percent(90) { 90 } else { 60 };
            now += INTERVAL * random.between(shortest, 120) as u32 / 100;
            let mut pass = together.start();
            ipv4.look(&mut together, &mut pass, random, now);
            ipv6.look(&mut together, &mut pass, random, now);
            ports.look(&mut together, &mut pass, random, now);
            let mut audit = Audit::new();
            let is_read = ipv4.reading.is_some() && ipv6.reading.is_some() && ports.reading.is_some();
            let listing = pass.audit(&together, &mut audit);
            assert_eq!(listing.is_ok(), is_read, "seed {seed}");
            let Ok(listing) = listing else { continue };
            ipv4.observe(&mut audit);
            ipv6.observe(&mut audit);
            ports.observe(&mut audit);
            let (found, _) = listing.finish(&mut together, audit).expect("its own audit");
            cleared += ipv4.repair(&mut together, &found, seed, now);
            cleared += ipv6.repair(&mut together, &found, seed, now);
            cleared += ports.repair(&mut together, &found, seed, now);
            whole += 1;
        }
    }
    println!("{whole} passes over three ranges, {cleared} leaks cleaned");
    assert!(whole > 10_000 && cleared > 5000, "the test bites too little");
}
