//! Callers: what they ask for, and what they do with what they get.

use std::fmt::Write;

use rangekeeper::allocator::Request as Wanted;
use rangekeeper::any::AnyRange;
use rangekeeper::commit::{Operation, Outcome, Ticket};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;

use crate::faults::ShellFault;
use crate::server::{Open, Pass, Right, Submitted};
use crate::store::{Writer, bits};
use crate::violation::Invariant;

use super::{Claim, Damage, Event, LOW, MS, State, World, duration, mask_of, microseconds};

impl World {
    pub(super) fn submit(
        &mut self,
        server: usize,
        operation: Operation<PortRange>,
        what: Submitted,
        deadline: u64,
    ) -> Ticket {
        let (revision, epoch) = (self.store.revision(), self.store.epoch);
        self.servers[server].creates |= matches!(what, Submitted::Create);
        let ticket = self.servers[server].committer.submit(operation, duration(deadline));
        note!(self, "server {server} takes on {ticket:?}: {what:?}");
        let submitted = self.now;
        self.servers[server].open.push(Open {
            ticket,
            what,
            deadline,
            submitted,
            is_cancelled: false,
            revision,
            epoch,
        });
        ticket
    }

    pub(super) fn deadline(&mut self) -> u64 {
        if self.calm {
            return self.now + self.grace;
        }
        match self.random.below(10) {
            0..2 => u64::MAX,
            2 => self.now + self.random.below(10 * MS),
            _ => self.now + self.random.between(self.interval / 10, self.interval),
        }
    }

    pub(super) fn submit_any(&mut self, server: usize) {
        let deadline = self.deadline();
        let range = self.range;
        let (operation, what) = match self.random.below(100) {
            0..6 => (Operation::Read, Submitted::Read { is_pass: false }),
            6..10 => (Operation::Create, Submitted::Create),
            10..50 => (Operation::Allocate(vec![Wanted::Next]), Submitted::Allocate { named: 0, count: 1 }),
            kind => {
                let count = if kind < 85 { 1 } else { self.random.between(2, 4) as usize };
                let mut named = 0;
                let mut wanted = Vec::with_capacity(count);
                for index in 0..count {
                    if index > 0 && self.random.percent(50) {
                        wanted.push(Wanted::Next);
                        continue;
                    }
                    // The lowest are asked for most.
                    let limit = if self.random.percent(60) { 3 } else { u64::from(range.size()) };
                    let offset = self.random.below(limit) as u32;
                    if named >> offset & 1 == 0 {
                        named |= 1 << offset;
                        wanted.push(Wanted::This(LOW + offset as u16));
                    }
                }
                let count = wanted.len();
                (Operation::Allocate(wanted), Submitted::Allocate { named, count })
            }
        };
        let ticket = self.submit(server, operation, what, deadline);
        if self.random.percent(8) {
            let incarnation = self.servers[server].incarnation;
            let delay = self.random.below(8 * MS);
            self.after(delay, Event::Cancel { server, incarnation, ticket });
        }
        self.drive(server);
    }

    pub(super) fn create_service(&mut self, claim: usize) {
        let Claim { offset, state, use_until, revision, is_slow, .. } = self.claims[claim];
        if state != State::Pending {
            return;
        }
        if is_slow && self.store.set_since[offset as usize] != revision {
            // Others may have it by now: what the grace is for.
            self.report.lost += 1;
            self.claims[claim].state = State::Ended;
            return;
        }
        if self.now >= use_until && !is_slow {
            self.claims[claim].state = State::Ended;
            return self.release(claim, revision);
        }
        if self.store.list().any(|other| other == offset) {
            if self.damage == Damage::None {
                return self.fail(Invariant::I3, format!("two Services have offset {offset}"));
            }
            self.report.damage += 1;
        }
        self.store.create_service(offset, claim);
        self.claims[claim].state = State::Live;
        note!(self, "a Service with offset {offset} is written");
        if self.random.percent(60) && !self.calm {
            let delay = self.random.below(2 * self.interval);
            self.after(delay, Event::DeleteService(claim));
        }
    }

    pub(super) fn delete_service(&mut self, claim: usize) {
        let Some(revision) = self.store.delete_service(claim) else { return };
        note!(self, "the Service with offset {} is deleted", self.claims[claim].offset);
        self.claims[claim].state = State::Ended;
        if self.random.percent(80) {
            let delay = if self.random.percent(70) { self.latency() } else { self.random.below(3 * self.interval) };
            self.after(delay, Event::Release { claim, anchor: revision });
        }
        if self.random.percent(8) {
            let delay = self.random.below(2 * self.interval);
            self.after(delay, Event::Release { claim, anchor: revision });
        }
    }

    pub(super) fn release(&mut self, claim: usize, anchor: u64) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        if !self.servers[server].up {
            return;
        }
        let offset = self.claims[claim].offset;
        let epoch = self.store.epoch;
        self.servers[server].rights.push(Right { offset, anchor, epoch });
        let deadline = self.deadline();
        let operation = Operation::Release { value: LOW + offset as u16, anchor, oldest: anchor };
        self.submit(server, operation, Submitted::Release { claim, offset, anchor }, deadline);
        self.drive(server);
    }

    pub(super) fn finished(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
        let open = &mut self.servers[server].open;
        let Some(at) = open.iter().position(|open| open.ticket == ticket) else {
            return self.fail(Invariant::I6, format!("{ticket:?} of server {server} ended twice"));
        };
        let open = open.swap_remove(at);
        match &outcome {
            Outcome::Read(view) => {
                note!(self, "server {server}: {ticket:?} ends: r{} holds {:b}", view.revision, mask_of(&view.used));
            }
            outcome => note!(self, "server {server}: {ticket:?} ends: {outcome:?}"),
        }
        if open.deadline < self.now {
            self.fail(Invariant::I6, format!("{open:?} ended at {}", self.now));
        }
        if outcome == Outcome::Unknown {
            self.check_unknown(server, &open);
        }
        if !self.is_answer_old {
            self.check_answer(server, &open, &outcome);
        }
        match (&open.what, outcome) {
            (Submitted::Allocate { count, .. }, Outcome::Allocated { values, revision, use_until }) => {
                if values.len() != *count {
                    return self.fail(Invariant::I1, format!("{} values for {count} requests", values.len()));
                }
                for value in values {
                    self.acknowledged(server, u32::from(value - LOW), revision, microseconds(use_until));
                }
            }
            (Submitted::Release { claim, anchor, .. }, Outcome::Unknown | Outcome::Failed(_))
                if self.random.percent(50) && !self.calm =>
            {
                let delay = self.latency();
                self.after(delay, Event::Release { claim: *claim, anchor: *anchor });
            }
            (Submitted::Read { is_pass: true }, outcome) => self.seen(server, ticket, outcome),
            (Submitted::Repair, outcome) => {
                let one = &mut self.servers[server];
                if let Pass::Repairing { ticket: own, clears } = one.pass
                    && own == ticket
                {
                    one.pass = Pass::None;
                    let done = matches!(outcome, Outcome::Repaired(repaired) if repaired.changed == 0);
                    if !done && ShellFault::CountersSurviveUnknownClears.is_on() {
                        let counters = one.passes.counters().of(AnyRange::Ports(self.range));
                        bits(clears).for_each(|offset| counters.hold(offset));
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn acknowledged(&mut self, server: usize, offset: u32, revision: u64, use_until: u64) {
        self.report.allocations += 1;
        let bit = 1 << offset;
        if self.is_answer_old {
            // True in the history of that store.
            return;
        }
        let Some(at) = self.store.at(revision).filter(|at| self.store.log[*at].revision == revision) else {
            return self
                .fail(Invariant::I1, format!("offset {offset} is acknowledged at r{revision}, which changed nothing"));
        };
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let version = &mut self.store.log[at];
        let fresh = before & bit == 0 && version.mask & bit != 0;
        if !fresh || version.acknowledged & bit != 0 || version.writer != Writer::Server(server) {
            let (mask, how) = (version.mask, if fresh { "already, or by another" } else { "without a change" });
            return self.fail(
                Invariant::I1,
                format!("offset {offset} is acknowledged at r{revision} {how}: {before:b}, {mask:b}"),
            );
        }
        version.acknowledged |= bit;
        if self.store.set_since[offset as usize] != revision {
            if self.damage == Damage::None {
                return self
                    .fail(Invariant::I2, format!("offset {offset}, acknowledged at r{revision}, is free by now"));
            }
            self.report.damage += 1;
        }
        self.report.proven += u32::from(self.unanswered.contains(&self.store.log[at].request));
        let claim = self.claims.len();
        self.claims.push(Claim { offset, revision, use_until, server, state: State::Pending, is_slow: false });
        let left = use_until.saturating_sub(self.now);
        if self.guarded && !self.calm && self.random.percent(15) {
            self.report.slow += 1;
            self.claims[claim].is_slow = true;
            let delay = left + self.random.below(self.interval);
            return self.after(delay, Event::CreateService(claim));
        }
        match self.random.below(20) {
            0..10 => {
                let delay = self.random.below(20 * MS).min(left);
                self.after(delay, Event::CreateService(claim));
            }
            10..15 => {
                let delay = self.random.below(left.max(1));
                self.after(delay, Event::CreateService(claim));
            }
            // In the last moment.
            15 | 16 => self.after(left.saturating_sub(1), Event::CreateService(claim)),
            17 | 18 => {
                self.claims[claim].state = State::Ended;
                let delay = self.random.below(self.interval);
                self.after(delay, Event::Release { claim, anchor: revision });
            }
            _ => self.claims[claim].state = State::Ended,
        }
    }
}
