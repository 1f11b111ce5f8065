//! Plays schedules of the commit protocol until one breaks an invariant.

mod search;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rangekeeper_simulation::faults::{ROWS, set};
use rangekeeper_simulation::{LEDGERS, RETRACED, TOKENS, play};

const USAGE: &str = "\
simulate [--retraced | --tokens | --ledgers] [--schedules N] [--minutes N] [--at-least N] [--from SEED]
    plays schedules with one seed after the other, and fails if an invariant is broken or there were too few;
    with --retraced a restored store reaches the revisions of the lost history again; with --tokens they are over a
    store that has tokens and no revisions, with --ledgers of programs that share a ledger
simulate --seed SEED [--fault N]...
    plays one schedule, with these faults of shells, and prints what happens
simulate [--retraced | --tokens | --ledgers] --violations N [--fault N]... [--seconds N]
    prints the lowest seeds whose schedules break an invariant, as many as that, found within 60 seconds; ends when
    nobody reads them any more
simulate --holding [--fault N]...
    reads seeds, one in a line, and prints those whose schedules hold
simulate --shell-faults
    prints the faults of shells: number, the fault without which others hide it, and what it is";

/// How many schedules a thread takes at a time.
const CHUNK: u64 = 512;

#[derive(Default)]
struct Options {
    schedules: u64,
    minutes: u64,
    at_least: u64,
    from: Option<u64>,
    seed: Option<u64>,
    violations: Option<u64>,
    holding: bool,
    /// The seed 0 of the kind of schedules.
    first: u64,
    shell_faults: bool,
    /// Bit n is the fault of number n.
    faults: u128,
    seconds: u64,
}

fn options() -> Result<Options, String> {
    let mut options = Options { schedules: 10_000_000, minutes: 15, seconds: 60, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or_else(|| format!("{name} needs a number\n{USAGE}"))?;
            text.parse::<u64>().map_err(|error| format!("{name} {text}: {error}\n{USAGE}"))
        };
        match name.as_str() {
            "--schedules" => options.schedules = number()?,
            "--minutes" => options.minutes = number()?,
            "--at-least" => options.at_least = number()?,
            "--from" => options.from = Some(number()?),
            "--seed" => options.seed = Some(number()?),
            "--seconds" => options.seconds = number()?,
            "--violations" => options.violations = Some(number()?),
            "--fault" => {
                let fault = number()?;
                if !ROWS.iter().any(|row| u64::from(row.number) == fault) {
                    return Err(format!("--fault {fault}: is no fault of a shell; see --shell-faults"));
                }
                options.faults |= 1 << fault;
            }
            "--holding" => options.holding = true,
            "--retraced" => options.first = RETRACED,
            "--tokens" => options.first = TOKENS,
            "--ledgers" => options.first = LEDGERS,
            "--shell-faults" => options.shell_faults = true,
            _ => return Err(format!("unknown argument {name}\n{USAGE}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    set(options.faults);
    match options {
        Options { shell_faults: true, .. } => {
            ROWS.iter().for_each(|row| println!("{} {} {}", row.number, row.with, row.name));
            ExitCode::SUCCESS
        }
        Options { holding: true, .. } => search::holding(),
        Options { violations: Some(count), .. } => {
            search::violations(options.first, count, options.faults, Duration::from_secs(options.seconds))
        }
        Options { seed: Some(seed), .. } => replay(seed),
        _ => campaign(&options),
    }
}

/// Plays one schedule with its trace.
fn replay(seed: u64) -> ExitCode {
    let report = play(seed, true);
    print!("{}", report.trace);
    match report.violation {
        Some(violation) => {
            println!("seed {seed}, {} steps: {violation}", report.steps);
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed}, {} steps: all invariants hold", report.steps);
            ExitCode::SUCCESS
        }
    }
}

/// Counts of all schedules together.
#[derive(Default)]
struct Totals {
    schedules: AtomicU64,
    steps: AtomicU64,
    allocations: AtomicU64,
    cleared: AtomicU64,
    damaged: AtomicU64,
    slow: AtomicU64,
    lost: AtomicU64,
    edits: AtomicU64,
    refused_edits: AtomicU64,
}

fn campaign(options: &Options) -> ExitCode {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let from = options.from.unwrap_or(now.as_secs() * 1_000_000_000) | options.first;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("seeds from {from} on, {threads} threads");
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (totals, worst) = (Totals::default(), Mutex::new(None::<u64>));
    let start = Instant::now();
    let end = start + Duration::from_secs(options.minutes * 60);
    let work = || {
        while !stop.load(Ordering::Relaxed) && Instant::now() < end {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= options.schedules {
                break;
            }
            for index in first..(first + CHUNK).min(options.schedules) {
                let seed = from.wrapping_add(index);
                let report = play(seed, false);
                for (total, count) in [
                    (&totals.schedules, 1),
                    (&totals.steps, report.steps),
                    (&totals.allocations, report.allocations),
                    (&totals.cleared, report.cleared),
                    (&totals.damaged, u32::from(report.damage > 0)),
                    (&totals.slow, report.slow),
                    (&totals.lost, report.lost),
                    (&totals.edits, report.edits),
                    (&totals.refused_edits, report.refused_edits),
                ] {
                    total.fetch_add(u64::from(count), Ordering::Relaxed);
                }
                if report.violation.is_some() {
                    stop.store(true, Ordering::Relaxed);
                    if let Ok(mut worst) = worst.lock() {
                        *worst = Some(worst.map_or(seed, |known| known.min(seed)));
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let count = |total: &AtomicU64| total.load(Ordering::Relaxed);
    let schedules = count(&totals.schedules);
    println!(
        "{schedules} schedules, {} steps, {:.0} s; {} allocations acknowledged, {} values freed by us; \
         in {} schedules damage by the reference's writer, a deletion or a restore",
        count(&totals.steps),
        start.elapsed().as_secs_f64(),
        count(&totals.allocations),
        count(&totals.cleared),
        count(&totals.damaged),
    );
    println!(
        "with guarded clears {} creators were slower than the grace; {} of them lost the value before the Service",
        count(&totals.slow),
        count(&totals.lost),
    );
    println!(
        "operators: {} edits were done, {} were refused as something stood against them",
        count(&totals.edits),
        count(&totals.refused_edits),
    );
    if let Some(seed) = worst.into_inner().ok().flatten() {
        println!("a schedule breaks an invariant; again: make simulate SEED={seed}");
        return replay(seed);
    }
    if schedules < options.at_least {
        println!("that is less than {}", options.at_least);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
