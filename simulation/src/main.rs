//! Plays schedules of the commit protocol until one breaks an invariant.

mod table;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rangekeeper_simulation::play;
use table::Table;

const USAGE: &str = "\
simulate [--schedules N] [--minutes N] [--at-least N] [--from SEED]
    plays schedules with one seed after the other, and fails if an invariant is broken or there were too few
simulate --seed SEED
    plays one schedule and prints what happens
simulate --faults [--seconds N] [--write DOCUMENT | --check DOCUMENT]
    breaks the rules of the protocol one by one, and fails if one is not noticed within 60 seconds; writes the table of
    seeds into a document, or compares it with the table there (needs the feature faults)
simulate --fault N [--seconds N]
    breaks one of them";

/// How many schedules a thread takes at a time.
const CHUNK: u64 = 512;

struct Options {
    schedules: u64,
    minutes: u64,
    at_least: u64,
    from: Option<u64>,
    seed: Option<u64>,
    faults: bool,
    fault: Option<u64>,
    seconds: u64,
    table: Table,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        schedules: 10_000_000,
        minutes: 15,
        at_least: 0,
        from: None,
        seed: None,
        faults: false,
        fault: None,
        seconds: 60,
        table: Table::Print,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--faults" {
            options.faults = true;
            continue;
        }
        if let "--write" | "--check" = name.as_str() {
            let path = arguments.next().ok_or_else(|| format!("{name} needs a path\n{USAGE}"))?;
            options.table = if name == "--write" { Table::Write(path) } else { Table::Check(path) };
            continue;
        }
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
            "--fault" => (options.faults, options.fault) = (true, Some(number()?)),
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
    if options.faults {
        return table::run(Duration::from_secs(options.seconds), options.fault, &options.table);
    }
    match options.seed {
        Some(seed) => replay(seed),
        None => campaign(&options),
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
    let from = options.from.unwrap_or(now.as_secs() * 1_000_000_000);
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
