//! Schedules of programs that change one ledger, in a store with two operations: get the value with a token, and put
//! one if its token is unchanged.
//!
//! The programs are replicas, as of an operator without a leader: each owner is in the hands of one of them. If that
//! one ends, with a write under way that arrives later, another one takes its owners over. Their clocks differ.

macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.traced {
            let _ = write!($world.report.trace, "{:>8} ms  w{:<3} ", $world.now, $world.row.writes());
            let _ = writeln!($world.report.trace, $($text)*);
        }
    };
}

mod callers;
mod ending;
mod network;
mod program;
mod row;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use rangekeeper::ledger::{Choice, CoolDown, LedgerValue, Pool};

use crate::random::Random;
use crate::violation::{Invariant, Violation};
use crate::world::Report;

use callers::{Held, Owner};
use network::Late;
use program::Program;
use row::Row;

/// What clocks show at the beginning, in milliseconds.
const START: u64 = 1 << 40;
/// How far ahead or behind a wrong clock is at most.
const YEAR: u64 = 1 << 35;

/// How far the clocks of programs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    /// By so many milliseconds from the right time, at most.
    Near(u64),
    /// Each may be wrong for some time, by up to a year.
    Wild,
}

struct World {
    random: Random,
    /// The right time, in milliseconds.
    now: u64,
    pool: Pool,
    /// How long a value cools down; 0 for not at all.
    cool_down: u64,
    clocks: Clocks,
    row: Row,
    programs: Vec<Program>,
    owners: Vec<Owner>,
    /// What was given to nobody, and is known to a program.
    held: Vec<Held>,
    /// Writes that the network still has, of programs that do not wait for them any more.
    late: Vec<Late>,
    /// When the release of each value was decided on that is free now.
    released: BTreeMap<LedgerValue, u64>,
    /// How many values without an owner may be lost: their change or its answer was.
    lost: u64,
    /// How many of a hundred steps of a request go wrong.
    trouble: u64,
    /// Whether programs end.
    ends: bool,
    traced: bool,
    report: Report,
}

/// Plays the schedule of a seed.
pub(crate) fn play(seed: u64, traced: bool) -> Report {
    let mut world = World::new(seed, traced);
    world.run();
    world.report
}

impl World {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let text = random.pick(&["10-17", "0-99999999", "10.0.0.0/28"]);
        let choice = random.pick(&[Choice::Lowest, Choice::Random, Choice::NextFit]);
        let cool_down = if random.percent(60) { random.between(50, 1000) } else { 0 };
        let mut pool = Pool::new(text.parse().expect("a range"), choice);
        if let Some(cool_down) = CoolDown::new(Duration::from_millis(cool_down), u32::MAX) {
            pool = pool.cool_down(cool_down);
        }
        let clocks = match random.below(3) {
            0 => Clocks::Near(0),
            1 => Clocks::Near(cool_down / 4),
            _ => Clocks::Wild,
        };
        let is_calm = random.percent(30);
        let most = if random.percent(30) { callers::ROOM } else { usize::MAX };
        let mut world = Self {
            now: START,
            cool_down,
            clocks,
            row: Row::new(pool.clone(), most),
            programs: Vec::new(),
            owners: Vec::new(),
            held: Vec::new(),
            late: Vec::new(),
            released: BTreeMap::new(),
            lost: 0,
            trouble: if is_calm { 0 } else { random.pick(&[5, 15, 30]) },
            ends: !is_calm,
            traced,
            report: Report::default(),
            pool,
            random,
        };
        for _ in 0..world.random.between(2, 5) {
            let program = Program::new(world.pool.clone(), world.clocks, &mut world.random);
            world.programs.push(program);
        }
        note!(world, "{} programs, {text}, {choice:?}, {cool_down} ms to cool down, {clocks:?}", world.programs.len());
        world
    }

    fn any_program(&mut self) -> usize {
        self.random.below(self.programs.len() as u64) as usize
    }

    fn fail(&mut self, invariant: Invariant, message: String) {
        if self.report.violation.is_none() {
            note!(self, "VIOLATION of {invariant:?}: {message}");
            self.report.violation = Some(Violation { invariant, message });
        }
    }

    fn run(&mut self) {
        for _ in 0..self.random.between(60, 200) {
            self.now += self.random.below(4);
            self.report.steps += 1;
            match self.random.below(100) {
                0..8 => self.create_owner(),
                8..15 => self.delete_owner(),
                15..19 => self.allocate_for_nobody(),
                19..24 => self.release_value(),
                24..27 => self.cancel(),
                27..30 => self.read(),
                30..33 if self.ends => self.end_program(),
                33..37 => self.arrive(),
                37..39 if self.clocks == Clocks::Wild => {
                    let program = self.any_program();
                    self.programs[program].clock = program::wrong(&mut self.random);
                    note!(self, "the clock of program {program} is {} ms ahead", self.programs[program].clock);
                }
                39 => self.now += self.random.below(self.cool_down + 1),
                _ => {
                    let program = self.any_program();
                    self.step(program);
                }
            }
            if self.report.violation.is_some() {
                return;
            }
        }
        self.end();
    }

    /// What the clock of a program shows.
    fn clock(&self, program: usize) -> Duration {
        Duration::from_millis(self.now.saturating_add_signed(self.programs[program].clock))
    }

    /// The store has taken what a program asks to be put.
    fn stored(&mut self, program: usize, decided: u64) {
        let (before, now) = self.row.last_two();
        let mut early = None;
        for value in before.difference(now) {
            self.released.insert(value, decided);
            self.report.cleared += 1;
        }
        for value in now.difference(before) {
            if let Some(released) = self.released.remove(&value)
                && let Clocks::Near(apart) = self.clocks
                && decided + 2 * apart < released + self.cool_down
            {
                early = Some(format!("{value} was released at {released}, and is in use again at {decided}"));
            }
        }
        note!(self, "program {program} has written: {} in use, {} cool down", now.used(), now.cooling());
        if let Some(message) = early {
            return self.fail(Invariant::I11, message);
        }
        self.check_stored();
    }

    /// Each has in the store what it was told, and what is gone has nothing.
    fn check_stored(&mut self) {
        let ledger = self.row.ledger();
        let mut broken = None;
        for owner in &self.owners {
            let has: Vec<_> = ledger.owned_by(&owner.name).collect();
            if owner.is_gone() && !has.is_empty() {
                broken = Some((Invariant::I5, format!("{owner:?} is gone, and has {has:?}")));
            } else if let Some(told) = owner.told
                && has != [told]
            {
                broken = Some((Invariant::I2, format!("{owner:?} has {has:?}")));
            }
        }
        for held in &self.held {
            if !ledger.has(held.value) || ledger.owner_of(held.value).is_some() {
                broken = Some((Invariant::I2, format!("{held:?} is not stored")));
            }
        }
        if let Some((invariant, message)) = broken {
            self.fail(invariant, message);
        }
    }
}
