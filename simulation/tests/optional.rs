//! The optional parts of the protocol do what they are for: sidecars decide swaps without an answer, guarded clears spare
//! creators that are slower than the grace. That they never do wrong, the invariants say; here it is counted that they
//! do something.

use rangekeeper_simulation::{Report, play};

const SCHEDULES: u64 = 20_000;

#[test]
fn sidecars_decide_and_guards_spare() {
    let mut all = Report::default();
    for seed in 1..=SCHEDULES {
        let report = play(seed, false);
        if let Some(violation) = report.violation {
            panic!("seed {seed}: {violation}");
        }
        all.unanswered += report.unanswered;
        all.fenced += report.fenced;
        all.proven += report.proven;
        all.slow += report.slow;
        all.lost += report.lost;
    }
    let Report { unanswered, fenced, proven, slow, lost, .. } = all;
    println!("{unanswered} swaps had no answer: {fenced} ended by a fence, {proven} allocations of others proven");
    println!("{slow} creators were slower than the grace, {lost} of them lost the value before the Service");
    assert!(unanswered > 1000 && slow > 1000, "too few to tell anything");
    assert!(fenced > unanswered / 4, "a lost request is as frequent as a lost answer");
    assert!(proven > unanswered / 10, "of the swaps that were written most allocate");
    assert!(lost < slow, "all who come before the clear keep the value");
}
