//! Seeds whose schedules break an invariant, or do not.

use std::io::stdin;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rangekeeper_simulation::{faults, play};

/// How many seeds a thread takes at a time.
const CHUNK: u64 = 64;

/// Prints the lowest `count` seeds after `from` whose schedules break an invariant with these faults of shells, found
/// within `limit`.
pub(crate) fn violations(from: u64, count: u64, faults: u128, limit: Duration) -> ExitCode {
    let (next, found) = (AtomicU64::new(from + 1), Mutex::new(Vec::new()));
    let end = Instant::now() + limit;
    let work = || {
        faults::set(faults);
        while Instant::now() < end && found.lock().is_ok_and(|found| (found.len() as u64) < count) {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            let broken = (first..first + CHUNK).filter(|seed| play(*seed, false).violation.is_some());
            let broken: Vec<u64> = broken.collect();
            if let Ok(mut found) = found.lock() {
                found.extend(broken);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_unstable();
    found.truncate(count as usize);
    found.iter().for_each(|seed| println!("{seed}"));
    if found.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Reads seeds, and prints those whose schedules hold.
pub(crate) fn holding() -> ExitCode {
    for line in stdin().lines() {
        let Ok(seed) = line.unwrap_or_default().trim().parse() else {
            eprintln!("a line is no seed");
            return ExitCode::from(2);
        };
        if play(seed, false).violation.is_none() {
            println!("{seed}");
        }
    }
    ExitCode::SUCCESS
}
