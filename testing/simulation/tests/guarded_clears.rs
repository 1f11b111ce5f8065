//! Creators that are slower than the grace keep their values if clears are guarded. The invariants check that guarded
//! clears are right; this test counts that they make a difference.

#[path = "../../../core/tests/common/cases.rs"]
mod cases;

use cases::cases;
use rangekeeper_simulation::play;

#[test]
fn slow_creators_keep_their_values() {
    let (mut slow, mut lost) = (0, 0);
    for seed in 1..=cases(4_000) {
        let report = play(seed, false);
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}");
        }
        slow += report.slow;
        lost += report.lost;
    }
    println!("{slow} creators were slower than the grace, {lost} of them lost the value before the Service");
    assert!(slow > cases(200), "too few slow creators");
    assert!(lost < slow, "all who come before the clear keep the value");
}
