//! The reference's double allocation by a leak counter that is spent and never removed: shown on a model of the
//! reference, absent here.
//!
//! A port is leaked and cleaned after three repairs. A caller allocates it again, and the next repair comes before the
//! Service is written. The reference still has the port's counter, at its end, and cleans it at once; the next caller
//! gets the same port.

mod common;

use std::num::NonZeroU8;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::audit::Audit;
use rangekeeper::commit::{Committer, Config, LeakTracker, Operation, Outcome, Replace, ServiceList};
use rangekeeper::ports::PortRange;
use rangekeeper_simulation::reference::ReferenceRepair;
use rangekeeper_simulation::store::Store;

use common::run;

const PORT: u16 = 30_005;
const BIT: u64 = 1 << 5;
const INTERVAL: Duration = Duration::from_secs(180);

#[test]
fn the_reference_hands_a_port_out_twice() {
    let mut repair = ReferenceRepair::new();
    let mut stored = BIT;
    for pass in 1..=3 {
        assert_eq!(stored, BIT, "leaked before pass {pass}");
        stored = repair.rebuild(stored, 0);
    }
    assert_eq!(stored, 0, "cleaned in the third pass");
    // The first caller; its Service is not written yet when the next repair comes.
    stored |= BIT;
    stored = repair.rebuild(stored, 0);
    assert_eq!(stored & BIT, 0, "the first caller's port is free for a second one");
}

type Ports = Committer<PortRange, Xoshiro256PlusPlus>;

/// A repair pass that finds no Services.
fn repair(store: &mut Store, committer: &mut Ports, passes: &mut LeakTracker, now: Duration) {
    let mut pass = passes.start();
    pass.begin(passes, committer).expect("the only range");
    let Outcome::Read(view) = run(store, committer, now, Operation::Read) else { panic!("a view") };
    pass.read(passes, committer, &view, now).expect("begun");
    let mut audit = Audit::new();
    let listing = pass.audit(passes, &mut audit).expect("all is read");
    let (found, _) = listing.finish(passes, audit).expect("its own audit");
    let diff = found.diff(passes, committer, ServiceList::Elsewhere).expect("its own range");
    run(store, committer, now, Operation::Repair(Box::new(diff)));
}

#[test]
fn here_the_port_stays_with_the_first_caller() {
    let range: PortRange = "30000-30009".parse().expect("a range");
    let config = Config { strategy: Strategy::RandomScan, grace: 2 * INTERVAL, replace: Replace::Always };
    let committer = |seed| Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(seed));
    let (mut repairer, mut other) = (committer(1), committer(2));
    let mut passes = LeakTracker::new(NonZeroU8::new(3).expect("not zero"), INTERVAL);
    let mut store = Store::new();
    let mut now = Duration::from_secs(1);
    run(&mut store, &mut other, now, Operation::Create);
    let take = || Operation::Allocate(vec![Request::Named(PORT)]);
    assert!(matches!(run(&mut store, &mut other, now, take()), Outcome::Allocated { .. }));
    for pass in 1..=3 {
        assert_eq!(store.mask(), BIT, "leaked before pass {pass}");
        repair(&mut store, &mut repairer, &mut passes, now);
        now += INTERVAL;
    }
    assert_eq!(store.mask(), 0, "cleaned in the third pass");
    // The first caller; its Service is not written yet when the next repairs come.
    assert!(matches!(run(&mut store, &mut other, now, take()), Outcome::Allocated { .. }));
    for _ in 0..2 {
        repair(&mut store, &mut repairer, &mut passes, now);
        assert_eq!(store.mask(), BIT, "the port stays with the first caller");
        assert!(matches!(run(&mut store, &mut repairer, now, take()), Outcome::Failed(_)));
        now += INTERVAL;
    }
}
