//! The requests of programs, and what becomes of them on their way.

use std::fmt::Write as _;

use rangekeeper::ledger::{Put, Request, Token};

use crate::faults::ShellFault;

use super::World;

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Get,
    Put(Write),
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) value: Vec<u8>,
    pub(super) token: Option<Token>,
    /// When the program decided on it.
    pub(super) decided: u64,
}

/// A write that arrives later, of a program with this number.
pub(super) struct Late {
    pub(super) program: usize,
    pub(super) write: Write,
}

/// Where a request is.
#[derive(Clone, Debug)]
pub(super) enum Flight {
    There(Asked),
    /// The store has carried out a put, and the client sends it again; with the token that was stored, if it was.
    Again(Write, Option<Token>),
    Back(Answer),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Got(Option<(Vec<u8>, Token)>),
    Put(Put),
}

impl World {
    /// The next step of a program's request.
    pub(super) fn step(&mut self, number: usize) {
        let is_trouble = self.random.percent(self.trouble);
        match self.programs[number].flight.take() {
            None => self.begin(number),
            Some(Flight::There(Asked::Get)) if is_trouble => self.unanswered(number),
            Some(Flight::There(Asked::Get)) => {
                let got = self.row.get();
                self.programs[number].flight = Some(Flight::Back(Answer::Got(got)));
            }
            Some(Flight::There(Asked::Put(write))) if is_trouble => match self.random.below(4) {
                0 => self.unanswered(number),
                1 => {
                    self.put(number, write);
                    self.unanswered(number);
                }
                2 => {
                    self.late.push(Late { program: number, write });
                    self.unanswered(number);
                }
                _ => {
                    let stored = match self.put(number, write.clone()) {
                        Put::Stored(token) => Some(token),
                        Put::Changed | Put::TooLarge => None,
                    };
                    self.programs[number].flight = Some(Flight::Again(write, stored));
                }
            },
            Some(Flight::There(Asked::Put(write))) => {
                let put = self.put(number, write);
                self.programs[number].flight = Some(Flight::Back(Answer::Put(put)));
            }
            Some(Flight::Again(write, stored)) => {
                let put = self.put(number, write);
                match (put, stored) {
                    // It has met itself: the store finds its own write, or does not know.
                    (Put::Changed, Some(token)) if !ShellFault::ChangedByItself.is_on() => {
                        if self.row.token() != Some(&token) {
                            return self.unanswered(number);
                        }
                        self.answer(number, Answer::Put(Put::Stored(token)));
                    }
                    (put, _) => self.answer(number, Answer::Put(put)),
                }
            }
            Some(Flight::Back(_)) if is_trouble => self.unanswered(number),
            Some(Flight::Back(answer)) => self.answer(number, answer),
        }
        self.take_outcomes(number);
    }

    fn begin(&mut self, number: usize) {
        let (now, decided) = (self.clock(number), self.now);
        let program = &mut self.programs[number];
        let request = program.ledger.next_request(now, &mut program.rng);
        program.flight = match request {
            None | Some(Request::Wait { .. }) => None,
            Some(Request::Get) => Some(Flight::There(Asked::Get)),
            Some(Request::Put { value, token }) => Some(Flight::There(Asked::Put(Write { value, token, decided }))),
        };
    }

    fn put(&mut self, number: usize, write: Write) -> Put {
        let Write { value, token, decided } = write;
        let put = self.row.put(value, token);
        if let Put::Stored(_) = put {
            self.stored(number, decided);
        }
        put
    }

    fn answer(&mut self, number: usize, answer: Answer) {
        let now = self.clock(number);
        let program = &mut self.programs[number];
        match answer {
            Answer::Got(got) => program.ledger.got(got).expect("what a program wrote"),
            Answer::Put(Put::Stored(token)) => {
                program.ledger.put(token);
                note!(self, "program {number} is answered");
            }
            Answer::Put(Put::Changed) => program.ledger.conflicted(now),
            Answer::Put(Put::TooLarge) => {
                program.ledger.too_large();
                note!(self, "the write of program {number} is too large");
            }
        }
    }

    /// A program waits for its request no longer.
    pub(super) fn unanswered(&mut self, number: usize) {
        note!(self, "program {number} has no answer");
        self.lost += self.programs[number].at_stake();
        self.programs[number].ledger.unanswered();
    }

    /// A late write arrives.
    pub(super) fn arrive(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let at = self.random.below(self.late.len() as u64) as usize;
        let Late { program, write } = self.late.swap_remove(at);
        note!(self, "a write of program {program} arrives late");
        self.put(program, write);
    }
}
