//! Several servers on one API server and one etcd, with crashes, answers that come late or never, clocks that jump,
//! processes that sleep, outages, and hands that damage what is stored. At every write, and when all is quiet again, it
//! is checked what the controllers promise.

mod world;

use self::world::{Totals, World};

/// Plays schedules; the floors make sure that the checked situations occur. With SEED set, it plays that one and prints
/// its events.
#[test]
fn no_schedule_breaks_a_promise() {
    let mut totals = Totals::default();
    let (first, count) = match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed, 1),
        None => (1, 10_000),
    };
    for seed in first..first + count {
        let mut world = World::new(seed, count == 1);
        world.play();
        assert!(world.violations().is_empty(), "SEED={seed}: {:#?}", world.violations());
        totals.add(world.totals());
    }
    println!("{count} schedules: {totals:#?}");
    if count > 1 {
        assert!(totals.crashes > 5000 && totals.ordered_stops > 5000 && totals.erased_in_order > 1000);
        assert!(totals.lost_answers > 5000 && totals.clock_jumps > 5000 && totals.naps > 5000);
        assert!(totals.damaged_objects > 10_000 && totals.damaged_leases > 5000 && totals.outages > 5000);
        assert!(totals.writes > 100_000 && totals.converged > 5000);
        assert!(totals.watched > 100_000 && totals.restored > 5000);
        assert!(totals.freed > 200);
    }
}
