//! Several servers on one API server and one etcd, with crashes, answers that come late or never, clocks that jump,
//! processes that sleep, outages, and hands that damage what is stored. At every write, and when all is quiet again, it
//! is checked what the controllers promise.

mod world;

use self::world::{Totals, World};
use crate::common::cases;

/// Plays schedules; the floors make sure that the checked situations occur. With SEED set, it plays that one and prints
/// its events.
#[test]
fn no_schedule_breaks_a_promise() {
    let mut totals = Totals::default();
    let (first, count) = match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed, 1),
        None => (1, cases(2_000)),
    };
    for seed in first..first + count {
        let mut world = World::new(seed, count == 1);
        world.play();
        assert!(world.violations().is_empty(), "SEED={seed}: {:#?}", world.violations());
        totals.add(world.totals());
    }
    println!("{count} schedules: {totals:#?}");
    if count > 1 {
        let often = cases(1000);
        assert!(totals.crashes > often && totals.ordered_stops > often && totals.erased_in_order > often / 5);
        assert!(totals.lost_answers > often && totals.clock_jumps > often && totals.naps > often);
        assert!(totals.damaged_objects > 2 * often && totals.damaged_leases > often && totals.outages > often);
        assert!(totals.writes > 20 * often && totals.converged > often);
        assert!(totals.watched > 20 * often && totals.restored > often);
        assert!(totals.freed > often / 25);
    }
}
