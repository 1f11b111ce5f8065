//! The end of a schedule: late writes arrive, clocks are right, all requests are answered, and nothing is left.

use std::fmt::Write as _;

use rangekeeper::ledger::{LedgerValue, Request};

use crate::violation::Invariant;

use super::World;
use super::callers::State;
use super::network::{Asked, Flight, Write};

/// How many rounds it takes at most until everybody has an answer.
const ROUNDS: u32 = 2000;

impl World {
    pub(super) fn end(&mut self) {
        note!(self, "no more faults");
        self.trouble = 0;
        while !self.late.is_empty() && self.report.violation.is_none() {
            self.arrive();
        }
        if !self.finish() {
            return;
        }
        self.check_unowned();
        for owner in 0..self.owners.len() {
            if self.owners[owner].state == State::Idle {
                self.release(owner);
            }
        }
        if !self.finish() {
            return;
        }
        self.check_cool_downs();
    }

    /// Answers everybody. Returns whether no invariant was broken.
    fn finish(&mut self) -> bool {
        for _ in 0..ROUNDS {
            let is_done = |program: &super::Program| program.flight.is_none() && program.open.is_empty();
            if self.report.violation.is_some() || self.programs.iter().all(is_done) && self.is_quiet() {
                return self.report.violation.is_none();
            }
            self.now += 1 + self.random.below(50);
            for program in 0..self.programs.len() {
                self.step(program);
            }
        }
        let open: Vec<_> = self.programs.iter().map(|program| program.open.clone()).collect();
        self.fail(Invariant::I6, format!("these do not end: {open:?}"));
        false
    }

    /// Whether no program has a request left, such as to give back what gone callers had.
    fn is_quiet(&mut self) -> bool {
        for number in 0..self.programs.len() {
            let (now, decided) = (self.clock(number), self.now);
            let program = &mut self.programs[number];
            let asked = match program.ledger.next_request(now, &mut program.rng) {
                None => continue,
                Some(Request::Wait { .. }) => return false,
                Some(Request::Get) => Asked::Get,
                Some(Request::Put { value, token }) => Asked::Put(Write { value, token, decided }),
            };
            program.flight = Some(Flight::There(asked));
            return false;
        }
        true
    }

    /// What is in use without an owner is known to a program, or was lost.
    fn check_unowned(&mut self) {
        let ledger = self.row.ledger();
        let in_use: Vec<LedgerValue> = ledger.iter().filter(|value| ledger.owner_of(*value).is_none()).collect();
        let mut known: Vec<LedgerValue> = self.held.iter().map(|held| held.value).collect();
        known.sort_unstable();
        if !known.is_sorted_by(|one, other| one < other) {
            self.fail(Invariant::I1, format!("handed out twice: {known:?}"));
        } else if in_use.len() as u64 > known.len() as u64 + self.lost {
            let message =
                format!("{in_use:?} are in use without an owner, {known:?} are known, {} are lost", self.lost);
            self.fail(Invariant::I5, message);
        }
    }

    /// After a change by a right clock, nothing cools down for longer than the pool's time.
    fn check_cool_downs(&mut self) {
        self.programs.iter_mut().for_each(|program| program.clock = 0);
        for _ in 0..2 {
            self.now += self.cool_down;
            self.allocate_for_nobody();
            if !self.finish() {
                return;
            }
        }
        let cooling = self.row.ledger().cooling();
        if cooling > 0 {
            self.fail(Invariant::I5, format!("{cooling} values still cool down"));
        }
    }
}
