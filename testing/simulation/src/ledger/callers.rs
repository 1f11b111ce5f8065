//! Who asks programs for values, and what they are told.

use std::fmt::Write as _;

use rangekeeper::ledger::{AllocateError, Allocation, Change, ChangeTicket, LedgerValue, Outcome, Want};

use crate::violation::Invariant;

use super::World;
use super::network::{Asked, Flight, Late};
use super::program::{Program, Purpose};

/// How long a value a small store takes: all owners of a schedule but those with long names fit into it.
pub(super) const ROOM: usize = 1000;
/// The most owners of a schedule.
const OWNERS: usize = 14;
/// How long a long name is.
const LONG: usize = ROOM;

/// An object that has values, in the hands of one program.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) name: String,
    want: Want,
    pub(super) program: usize,
    pub(super) state: State,
    /// What it was told that it has.
    pub(super) told: Option<Allocation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for values.
    Asking(ChangeTicket),
    Idle,
    /// It is deleted once its values are released.
    Releasing(ChangeTicket),
    /// It was told that nothing of it is in use.
    Gone,
}

impl Owner {
    pub(super) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    fn is_large(&self) -> bool {
        self.name.len() >= LONG
    }
}

/// A value of nobody, that a program knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) value: LedgerValue,
    pub(super) program: usize,
}

impl World {
    fn submit(&mut self, program: usize, change: Change, purpose: Purpose) -> ChangeTicket {
        let program = &mut self.programs[program];
        let ticket = program.ledger.submit(change);
        program.open.insert(ticket, purpose);
        ticket
    }

    pub(super) fn create_owner(&mut self) {
        if self.owners.len() == OWNERS {
            return;
        }
        let number = self.owners.len();
        let is_large = self.random.percent(15);
        let name = if is_large { format!("{number:x>LONG$}") } else { number.to_string() };
        let want = self.random.pick(&[Want::Any, Want::Any, Want::Run(2), Want::Block(1)]);
        let program = self.any_program();
        self.owners.push(Owner { name, want, program, state: State::Idle, told: None });
        self.ask(number);
    }

    /// An owner asks its program for what it wants.
    pub(super) fn ask(&mut self, owner: usize) {
        let Owner { name, want, program, .. } = self.owners[owner].clone();
        note!(self, "owner {owner} asks program {program}");
        let change = Change::Allocate { want, owner: Some(name) };
        self.owners[owner].state = State::Asking(self.submit(program, change, Purpose::Allocate(owner)));
    }

    pub(super) fn delete_owner(&mut self) {
        if self.owners.is_empty() {
            return;
        }
        let number = self.random.below(self.owners.len() as u64) as usize;
        let any = self.any_program();
        let owner = &mut self.owners[number];
        match owner.state {
            // Nothing is under way: any program may release.
            State::Idle => owner.program = any,
            State::Asking(ticket) => {
                let program = &mut self.programs[owner.program];
                program.ledger.cancel(ticket);
                program.open.remove(&ticket);
            }
            State::Releasing(_) | State::Gone => return,
        }
        self.release(number);
    }

    /// A program releases what an owner has.
    pub(super) fn release(&mut self, number: usize) {
        let owner = &mut self.owners[number];
        owner.told = None;
        let (program, change) = (owner.program, Change::ReleaseOwner { owner: owner.name.clone() });
        note!(self, "program {program} releases for owner {number}");
        self.owners[number].state = State::Releasing(self.submit(program, change, Purpose::Release(number)));
    }

    pub(super) fn allocate_for_nobody(&mut self) {
        let program = self.any_program();
        self.submit(program, Change::Allocate { want: Want::Any, owner: None }, Purpose::AllocateForNobody);
    }

    pub(super) fn release_value(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len() as u64) as usize;
        let Held { value, program } = self.held.swap_remove(at);
        note!(self, "program {program} releases {value}");
        self.submit(program, Change::Release { value }, Purpose::ReleaseValue(value));
    }

    /// A caller who wanted a value for nobody waits no longer.
    pub(super) fn cancel(&mut self) {
        let number = self.any_program();
        let program = &mut self.programs[number];
        let mut all = program.open.iter();
        let Some(ticket) = all.find(|(_, purpose)| **purpose == Purpose::AllocateForNobody).map(|(ticket, _)| *ticket)
        else {
            return;
        };
        program.ledger.cancel(ticket);
        program.open.remove(&ticket);
        program.returning += 1;
        note!(self, "{ticket:?} of program {number} is cancelled");
    }

    pub(super) fn read(&mut self) {
        let program = self.any_program();
        let writes = self.row.writes();
        self.submit(program, Change::Read, Purpose::Read(writes));
    }

    /// A program ends, and its next run begins. Any program takes its owners over.
    pub(super) fn end_program(&mut self) {
        let number = self.any_program();
        note!(self, "program {number} ends");
        self.lost += self.programs[number].at_stake();
        if let Some(Flight::There(Asked::Put(write)) | Flight::Again(write, _)) = self.programs[number].flight.take()
            && self.random.percent(70)
        {
            self.late.push(Late { program: number, write });
        }
        let clock = self.programs[number].clock;
        self.programs[number] = Program { clock, ..Program::new(self.pool.clone(), self.clocks, &mut self.random) };
        // What it knew of values without an owner is lost.
        let known = self.held.len();
        self.held.retain(|held| held.program != number);
        self.lost += (known - self.held.len()) as u64;
        for owner in 0..self.owners.len() {
            if self.owners[owner].program != number {
                continue;
            }
            self.owners[owner].program = self.any_program();
            match self.owners[owner].state {
                State::Asking(_) if self.random.percent(50) => self.ask(owner),
                State::Asking(_) | State::Releasing(_) => self.release(owner),
                State::Idle | State::Gone => {}
            }
        }
    }

    /// Notes what has ended.
    pub(super) fn take_outcomes(&mut self, number: usize) {
        let ended: Vec<_> = self.programs[number].ledger.take_outcomes().collect();
        for (ticket, outcome) in ended {
            let Some(purpose) = self.programs[number].open.remove(&ticket) else { continue };
            note!(self, "program {number}: {purpose:?} ends: {outcome:?}");
            match (purpose, outcome) {
                (Purpose::Allocate(owner), Outcome::Allocated(allocation)) => {
                    self.report.allocations += allocation.len;
                    self.owners[owner].state = State::Idle;
                    self.owners[owner].told = Some(allocation);
                }
                (Purpose::Allocate(owner), Outcome::NotAllocated(AllocateError::Full { .. })) => {
                    self.owners[owner].state = State::Idle;
                }
                (Purpose::Allocate(owner), Outcome::TooLarge) if self.owners[owner].is_large() => {
                    self.owners[owner].state = State::Idle;
                }
                (Purpose::Release(owner), Outcome::Released(_)) => self.owners[owner].state = State::Gone,
                (Purpose::AllocateForNobody, Outcome::Allocated(allocation)) => {
                    self.report.allocations += 1;
                    self.held.push(Held { value: allocation.first, program: number });
                }
                (Purpose::AllocateForNobody, Outcome::NotAllocated(AllocateError::Full { .. })) => {}
                // What is at stake then counts as lost.
                (Purpose::AllocateForNobody | Purpose::ReleaseValue(_), Outcome::Unanswered) => {}
                (Purpose::ReleaseValue(value), Outcome::Released(released)) if released.len() == 1 => {
                    let values: Vec<_> = released[0].values().collect();
                    if values != [value] {
                        self.fail(Invariant::I7, format!("{released:?} were released instead of {value}"));
                    }
                }
                (Purpose::Read(writes), Outcome::Read) => self.check_read(number, writes),
                (purpose, outcome) => {
                    self.fail(Invariant::I7, format!("program {number}: {purpose:?} has ended as {outcome:?}"));
                }
            }
        }
        self.check_stored();
    }

    /// What is known right after a read was stored at some time since its submission.
    fn check_read(&mut self, number: usize, writes: usize) {
        let Some(known) = self.programs[number].ledger.known() else { return };
        let states = self.row.states_since(writes);
        if !states.iter().any(|state| state.iter().eq(known.iter())) {
            let message = format!("program {number} has read what was not stored since {writes} writes");
            self.fail(Invariant::I7, message);
        }
    }
}
