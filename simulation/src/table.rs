//! The faults that the simulation has to find.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rangekeeper_simulation::{Report, play};

/// A rule that is not kept.
struct Row {
    number: u8,
    name: &'static str,
    /// The fault without which other rules hide this one; 0 for none.
    with: u8,
}

const fn row(number: u8, name: &'static str) -> Row {
    Row { number, name, with: 0 }
}

const fn masked(number: u8, with: u8, name: &'static str) -> Row {
    Row { number, name, with }
}

const ROWS: &[Row] = &[
    row(1, "allocate what the same batch clears"),
    row(2, "clears before allocations"),
    row(3, "net-zero batch acknowledged from cache"),
    row(4, "\"full\" or \"already allocated\" from a stale cache"),
    row(5, "release no-op from a stale cache"),
    row(6, "clear on rebase without history"),
    row(7, "only first and last revision checked"),
    row(8, "short cut ignores create revision"),
    row(9, "short cut accepts base + 2"),
    row(10, "watch history with a gap"),
    row(11, "DELETE ignored in history"),
    row(12, "compacted history taken as empty"),
    row(13, "release without as-of revision"),
    row(14, "blind repeat of a release after unknown"),
    row(15, "unknown allocation acknowledged because its bit is set"),
    row(16, "authorship by equal bytes"),
    row(17, "repeat after unknown at a new base with old rights"),
    row(18, "counter survives an unseen break"),
    masked(19, 31, "counter survives cleaning"),
    row(20, "counter advances on each conflict retry"),
    masked(21, 31, "counter survives a dropped or unknown clear"),
    row(22, "no grace"),
    masked(23, 22, "Services listed before the read"),
    row(24, "stale cached list"),
    row(25, "passes not spaced after a clock jump"),
    row(26, "whole snapshot written on conflict instead of the diff"),
    row(27, "rollback clears another operation's bit"),
    row(28, "batch half applied after rebase"),
    row(29, "cache kept across a restore"),
    row(30, "late answer acknowledged after the grace"),
    row(31, "counter ignores changes between passes"),
    row(32, "what cannot be read taken as empty"),
    row(33, "leak cleaned after three passes, but before the grace"),
    row(34, "as-of revision that the store has not reached is trusted"),
    row(35, "watch goes on across a restore"),
    row(36, "unknown release ends as a failure"),
    row(37, "deleted range recreated by a repair that had seen it"),
    row(38, "answer of the old connection taken for one of the new"),
    masked(39, 22, "own allocations not protected from own repair"),
    row(40, "the last revision of a store that was restored trusted as an as-of revision"),
    row(41, "operation of a compare-and-swap under way ends as a failure"),
    row(42, "missing key taken for one that was missing all the time"),
    row(43, "as-of revision trusted after a connection of which nothing is known"),
    row(44, "pass goes on across a restore"),
    row(45, "clears do not depend on Services"),
    row(46, "clears repeated without their condition after it did not hold"),
    row(47, "clears depend on Services since the last answer instead of the list"),
    row(48, "clears repeated with their condition after it did not hold"),
    row(49, "emptied range recreated by a repair that had seen it"),
    row(50, "range of others overwritten without a repair"),
    row(51, "release ignores when its Service was stored before"),
    row(52, "release as of what is known, and then as of a read"),
    row(53, "rollback without the allocation's revision"),
    row(54, "port shared by TCP and UDP released a second time, as of a read"),
    row(55, "update that lost a conflict releases what it would have dropped"),
    row(56, "release after a write with an unknown outcome"),
    row(57, "as-of revision trusted right after a reconnection"),
    row(58, "update releases before it writes the Service"),
    row(59, "release of a Service that was deleted already, as of a read"),
    row(60, "update that was rejected releases what it would have dropped"),
    row(61, "handed-out values not set again in a recreated range"),
    row(62, "header revision that goes back ignored"),
    row(63, "what a cancelled operation took not released"),
    row(64, "watch: create revision ignored"),
    row(65, "leak keeps its first sighting across a change"),
    row(66, "leaks followed though the history since the view is unknown"),
    row(67, "own protection for two thirds of the grace only"),
    row(68, "answer late after a whole grace instead of half"),
    row(69, "forgotten changes still count as known"),
    row(70, "repair sets though the history is unknown"),
    row(71, "quarantine ignored"),
    row(72, "duplicates released"),
    row(73, "first change after an as-of revision overlooked"),
    row(74, "grace from the answer instead of from the send"),
    row(75, "one sighting too many kept"),
    row(76, "as-of revision of another store kept for one more read"),
    row(77, "refused compare-and-swap ends without a read"),
    row(78, "store of a release ignored"),
    row(79, "values set again though their Service is written"),
    row(80, "list over an API server trusted after a restore"),
    row(81, "no fence written"),
    row(82, "Services listed before the fence"),
    row(83, "pass of another store accepted if this one has used its revision"),
    row(84, "values picked before those that are named"),
    row(85, "release by a second server, as of a read"),
    row(86, "key that is missing in a restored store taken for one that was missing all the time"),
    row(87, "request that holds values of two ranges rolls one of them back only"),
    row(88, "values of two ranges rolled back as of the allocation in the first"),
    row(89, "update that gives the values of one range back releases those of the other, too"),
    row(90, "write of a Service without conditions"),
    row(91, "range recreated without a fence"),
    row(92, "write of a Service does not depend on the revision of the witness"),
    row(93, "write of a Service does not depend on the create revision of the witness"),
    row(94, "list of a watch cache passed as one of the store"),
    row(95, "compare-and-swap that creates a range is no fence"),
    row(96, "edit does not depend on Services"),
    row(97, "edit frees a value without a fence"),
    row(98, "edit picks values that Services use"),
    row(99, "edit frees a value without regard to its history"),
    row(100, "edit does not depend on its look"),
    row(101, "edit carried out in part"),
    row(102, "pass does not depend on its look"),
];

/// Bit n is the fault of number n.
fn set(_faults: u128) {
    #[cfg(feature = "faults")]
    rangekeeper_simulation::faults::set(_faults);
}

fn play_with(faults: u128, seed: u64) -> Report {
    set(faults);
    play(seed, false)
}

/// The lowest seed whose schedule shows the fault and, if others hide it, none of them alone.
fn find(row: &Row, limit: Duration) -> Option<(u64, Report)> {
    let base: u128 = if row.with == 0 { 0 } else { 1 << row.with };
    let own: u128 = 1 << row.number;
    let (next, lowest) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let end = Instant::now() + limit;
    let is_clean = |faults, seed| play_with(faults, seed).violation.is_none();
    let shows = |seed| !is_clean(base | own, seed) && (base == 0 || (is_clean(base, seed) && is_clean(own, seed)));
    let work = || {
        while Instant::now() < end {
            let first = next.fetch_add(64, Ordering::Relaxed);
            if first > lowest.load(Ordering::Relaxed) {
                break;
            }
            if let Some(seed) = (first..first + 64).find(|seed| shows(*seed)) {
                lowest.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let seed = lowest.into_inner();
    (seed != u64::MAX).then(|| (seed, play_with(base | own, seed)))
}

/// The place of the table in the document.
const BEGIN: &str = "<!-- table of faults: written by simulate --faults --write -->\n";
const END: &str = "<!-- end of the table -->\n";

/// What to do with the table.
pub(crate) enum Table {
    /// Print it.
    Print,
    /// Put it into this document.
    Write(String),
    /// Compare it with that of this document.
    Check(String),
}

/// Finds all faults, each within `limit`.
pub(crate) fn run(limit: Duration, only: Option<u64>, table: &Table) -> ExitCode {
    if cfg!(not(feature = "faults")) {
        eprintln!("the feature faults is off");
        return ExitCode::from(2);
    }
    let mut missed = 0;
    let mut text = String::from("| fault | | seed | found by | after steps |\n|---|---|---|---|---|\n");
    for row in ROWS.iter().filter(|row| only.is_none_or(|only| u64::from(row.number) == only)) {
        let Row { number, name, with } = *row;
        let with = if with == 0 { String::new() } else { format!(", together with {with}") };
        let start = Instant::now();
        let Some((seed, report)) = find(row, limit) else {
            missed += 1;
            println!("{number} {name}{with}: not found in {} s", limit.as_secs());
            continue;
        };
        let violation = report.violation.map(|violation| violation.to_string()).unwrap_or_default();
        println!("{number} {name}{with}: {:.1} s, seed {seed}: {violation}", start.elapsed().as_secs_f64());
        let invariant = violation.split(':').next().unwrap_or_default();
        text += &format!("| {number} | {name}{with} | {seed} | {invariant} | {} |\n", report.steps);
    }
    if missed > 0 {
        println!("{missed} of {} faults were not found", ROWS.len());
        return ExitCode::FAILURE;
    }
    println!("{} faults, all found", ROWS.len());
    match in_document(table, &text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn in_document(table: &Table, text: &str) -> Result<(), String> {
    let (Table::Write(path) | Table::Check(path)) = table else { return Ok(()) };
    let document = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let parts = document.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let (before, (present, after)) = parts.ok_or_else(|| format!("{path} has no place for the table"))?;
    match table {
        Table::Write(_) => {
            let document = [before, BEGIN, text, END, after].concat();
            std::fs::write(path, document).map_err(|error| format!("{path}: {error}"))
        }
        _ if present == text => Ok(()),
        _ => Err(format!("the table in {path} is out of date; rewrite it by --faults --write {path}")),
    }
}
