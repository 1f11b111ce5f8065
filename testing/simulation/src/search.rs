//! Seeds whose schedules break an invariant, or do not.

use std::collections::BTreeMap;
use std::io::{Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rangekeeper_simulation::{faults, play};

/// How many seeds a thread takes at a time.
const CHUNK: u64 = 64;

/// Prints the lowest `count` seeds after `from` whose schedules break an invariant with these faults of shells, found
/// within `limit`, each once all lower ones are known; ends when nobody reads them any more.
pub(crate) fn violations(from: u64, count: u64, faults: u128, limit: Duration) -> ExitCode {
    let next = AtomicU64::new(from + 1);
    let printer = Mutex::new(Printer { next: from + 1, chunks: BTreeMap::new(), left: count });
    let end = Instant::now() + limit;
    let work = || {
        faults::set(faults);
        while Instant::now() < end && printer.lock().is_ok_and(|printer| printer.left > 0) {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            let broken = (first..first + CHUNK).filter(|seed| play(*seed, false).violation.is_some()).collect();
            if let Ok(mut printer) = printer.lock() {
                printer.add(first, broken);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let found = printer.into_inner().is_ok_and(|printer| printer.left < count);
    if found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Printer {
    /// The first seed of the chunk to print next.
    next: u64,
    /// The chunks after it that are there already.
    chunks: BTreeMap<u64, Vec<u64>>,
    left: u64,
}

impl Printer {
    fn add(&mut self, first: u64, broken: Vec<u64>) {
        self.chunks.insert(first, broken);
        while let Some(broken) = self.chunks.remove(&self.next) {
            self.next += CHUNK;
            for seed in broken.into_iter().take(usize::try_from(self.left).unwrap_or(usize::MAX)) {
                self.left = if print(seed) { self.left - 1 } else { 0 };
            }
        }
    }
}

/// Whether somebody reads it.
fn print(seed: u64) -> bool {
    writeln!(stdout(), "{seed}").is_ok()
}

/// Reads seeds, and prints those whose schedules hold.
pub(crate) fn holding() -> ExitCode {
    for line in stdin().lines() {
        let Ok(seed) = line.unwrap_or_default().trim().parse() else {
            eprintln!("a line is no seed");
            return ExitCode::from(2);
        };
        if play(seed, false).violation.is_none() && !print(seed) {
            break;
        }
    }
    ExitCode::SUCCESS
}
