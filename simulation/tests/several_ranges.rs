//! A repair pass over several ranges finds for each of them what a pass over it alone does, whatever happens to the
//! others: changes, a key that is deleted, views that never come.

mod common;

use std::num::NonZeroU8;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::audit::{Audit, BitmapReport, Leaks, Stored};
use rangekeeper::cidr::CidrRange;
use rangekeeper::commit::{Committer, Config, Diff, Listed, Operation, Outcome, Passes, View};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;
use rangekeeper::service::{Service, ServicePort};
use rangekeeper_simulation::random::Random;
use rangekeeper_simulation::store::{Mask, Store, bits};

use common::run;

const INTERVAL: Duration = Duration::from_secs(180);
const SCHEDULES: u64 = 2000;
const PASSES: u32 = 12;

/// A range with what stands in the store.
trait Kind: Range {
    fn any(self) -> AnyRange;
    fn add(self, pass: &mut Audit, stored: Stored<'_>);
    /// Shows the pass a Service with this value.
    fn observe(pass: &mut Audit, value: Self::Value);
}

impl Kind for CidrRange {
    fn any(self) -> AnyRange {
        AnyRange::Cidr(self)
    }

    fn add(self, pass: &mut Audit, stored: Stored<'_>) {
        pass.add_cluster_ips(self, stored).expect("a snapshot of this range");
    }

    fn observe(pass: &mut Audit, value: Self::Value) {
        pass.observe(&Service { cluster_ip: &value.to_string(), ..Service::default() });
    }
}

impl Kind for PortRange {
    fn any(self) -> AnyRange {
        AnyRange::Ports(self)
    }

    fn add(self, pass: &mut Audit, stored: Stored<'_>) {
        pass.add_node_ports(self, stored).expect("a snapshot of this range");
    }

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
    alone: Passes,
    /// What Services use.
    in_use: Mask,
    view: Option<View>,
}

fn passes() -> Passes {
    Passes::new(NonZeroU8::new(3).expect("not zero"), INTERVAL)
}

impl<R: Kind> Key<R> {
    fn new(range: &str, random: &mut Random) -> Self
    where
        R::Err: std::fmt::Debug,
    {
        let range: R = range.parse().expect("a range");
        let config = Config { strategy: Strategy::RandomScan, grace: 2 * INTERVAL };
        let mut committer = || Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(random.below(u64::MAX)));
        let (repairer, other) = (committer(), committer());
        Self { range, store: Store::new(), repairer, other, alone: passes(), in_use: 0, view: None }
    }

    /// Something happens to the range, or nothing.
    fn happen(&mut self, random: &mut Random, now: Duration) {
        match random.below(20) {
            0..6 => {
                let take = Operation::Allocate(vec![Request::Next]);
                if let Outcome::Allocated { values, .. } = run(&mut self.store, &mut self.other, now, take)
                    && random.percent(40)
                {
                    self.in_use |= 1 << self.range.offset_of(values[0]).expect("of this range");
                }
            }
            6..9 => {
                let offset = random.below(u64::from(self.range.size())) as u32;
                let value = self.range.value_at(offset).expect("of this range");
                let anchor = self.store.revision();
                if self.in_use >> offset & 1 == 0 {
                    run(&mut self.store, &mut self.other, now, Operation::Release { value, anchor, oldest: anchor });
                }
            }
            9..11 => self.in_use &= !(1 << random.below(u64::from(self.range.size()))),
            11 => {
                // Some come by another way than an allocation.
                self.in_use |= 1 << random.below(u64::from(self.range.size()));
            }
            12 if random.percent(20) => {
                self.store.delete();
                self.repairer.reconnected();
                self.other.reconnected();
            }
            13 if random.percent(50) => self.repairer.watch_failed(),
            _ => {}
        }
    }

    /// The beginning of a pass, which may fail.
    fn look(&mut self, together: &mut Passes, random: &mut Random, now: Duration) {
        together.begin(&mut self.repairer);
        self.alone.begin(&mut self.repairer);
        self.view = None;
        if random.percent(4) {
            return;
        }
        let Outcome::Read(view) = run(&mut self.store, &mut self.repairer, now, Operation::Read) else { return };
        together.seen(self.range.any(), &self.repairer, view.revision, now);
        self.alone.seen(self.range.any(), &self.repairer, view.revision, now);
        self.view = Some(view);
    }

    fn add(&self, pass: &mut Audit) {
        let view = self.view.as_ref().expect("all have been seen");
        self.range.add(pass, Stored { range: &self.range.to_string(), data: view.used.snapshot() });
        for offset in bits(self.in_use) {
            R::observe(pass, self.range.value_at(offset).expect("of this range"));
        }
    }

    /// The end of a pass: what it clears.
    fn repair(&mut self, together: &mut Passes, found: &BitmapReport, seed: u64, now: Duration) -> usize {
        let mut pass = Audit::new();
        self.add(&mut pass);
        let report = pass.finish(Leaks::Keep(self.alone.counters()));
        let alone: Diff = self.alone.diff(report.bitmap(0).expect("a bitmap"), &mut self.repairer, Listed::Elsewhere);
        let diff = together.diff(found, &mut self.repairer, Listed::Elsewhere);
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
            ipv4.look(&mut together, random, now);
            ipv6.look(&mut together, random, now);
            ports.look(&mut together, random, now);
            if ipv4.view.is_none() || ipv6.view.is_none() || ports.view.is_none() {
                continue;
            }
            let mut pass = Audit::new();
            ipv4.add(&mut pass);
            ipv6.add(&mut pass);
            ports.add(&mut pass);
            let report = pass.finish(Leaks::Keep(together.counters()));
            cleared += ipv4.repair(&mut together, report.bitmap(0).expect("a bitmap"), seed, now);
            cleared += ipv6.repair(&mut together, report.bitmap(1).expect("a bitmap"), seed, now);
            cleared += ports.repair(&mut together, report.bitmap(2).expect("a bitmap"), seed, now);
            whole += 1;
        }
    }
    println!("{whole} passes over three ranges, {cleared} leaks cleaned");
    assert!(whole > 10_000 && cleared > 5000, "the test bites too little");
}
