//! The operations that servers take on, and how they end.

use std::fmt::Write as _;

use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::audit::{Remedy, RepairOutcome, Report};
use rangekeeper::commit::{Deferral, Operation, Outcome, Ticket};
use rangekeeper::finding::Finding;
use rangekeeper::ports::PortRange;

use crate::faults::ShellFault;
use crate::server::{Open, Origin, Pass, Submitted};
use crate::store::{Writer, bits};
use crate::violation::Invariant;

use super::event::Event;
use super::{Claim, LOW, MS, State, World, duration, microseconds};

impl World {
    pub(super) fn submit(
        &mut self,
        server: usize,
        operation: Operation<PortRange>,
        what: Submitted,
        deadline: u64,
    ) -> Ticket {
        let (revision, epoch) = (self.store.revision(), self.store.epoch);
        let ticket = self.servers[server].committer.submit(operation, duration(deadline));
        note!(self, "server {server} takes on {ticket:?}: {what:?}");
        if matches!(what, Submitted::Allocate { .. }) {
            self.servers[server].allocations.push(ticket);
        }
        self.servers[server].open.push(Open { ticket, what, deadline, revision, epoch });
        ticket
    }

    /// By when an operation has to end, by the server's clock.
    pub(super) fn deadline(&mut self, server: usize) -> u64 {
        let now = self.local(server);
        if self.calm {
            return now + self.grace;
        }
        match self.random.below(10) {
            0..2 => u64::MAX,
            2 => now + self.random.below(10 * MS),
            _ => now + self.random.between(self.interval / 10, self.interval),
        }
    }

    pub(super) fn submit_any(&mut self, server: usize) {
        let deadline = self.deadline(server);
        let (operation, what) = match self.random.below(100) {
            0..6 => (Operation::Read, Submitted::Read { is_pass: false }),
            6..10 => (Operation::Create, Submitted::Create),
            _ if self.servers[server].is_command => return,
            _ => return self.create(server, None),
        };
        let ticket = self.submit(server, operation, what, deadline);
        if self.random.percent(8) {
            let incarnation = self.servers[server].incarnation;
            let delay = self.random.below(8 * MS);
            self.after(delay, Event::Cancel { server, incarnation, ticket });
        }
        self.drive(server);
    }

    /// A server reads what is stored, and nobody needs it.
    pub(super) fn look(&mut self, server: usize) {
        if self.servers[server].is_at_work() {
            let deadline = self.deadline(server);
            self.submit(server, Operation::Read, Submitted::Read { is_pass: false }, deadline);
            self.drive(server);
        }
    }

    pub(super) fn finished(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
        let open = &mut self.servers[server].open;
        let Some(at) = open.iter().position(|open| open.ticket == ticket) else {
            return self.fail(Invariant::I6, format!("{ticket:?} of server {server} ended twice"));
        };
        let open = open.swap_remove(at);
        match &outcome {
            Outcome::Read(view) => {
                let mask = self.store.layout.mask_of(&view.used);
                note!(self, "server {server}: {ticket:?} ends: r{} holds {mask:b}", view.revision);
            }
            outcome => note!(self, "server {server}: {ticket:?} ends: {outcome:?}"),
        }
        if open.deadline < self.local(server) {
            self.fail(Invariant::I6, format!("{open:?} ended at {}", self.local(server)));
        }
        if !self.is_answer_old && !self.is_misled(server) {
            self.check_answer(server, &open, &outcome);
        }
        match (&open.what, outcome) {
            (
                Submitted::Allocate { named, count, request },
                Outcome::Allocated { values, revision, store, use_until },
            ) => {
                if values.len() != *count {
                    return self.fail(Invariant::I1, format!("{} values for {count} requests", values.len()));
                }
                let (mut are_claimed, mut missing) = (true, *named);
                for value in values {
                    let Some(offset) = self.store.layout.bit(u32::from(value - LOW)) else {
                        return self.fail(Invariant::I1, format!("{value} was in use from the beginning"));
                    };
                    let is_named = named >> offset & 1 == 1;
                    missing &= !(1 << offset);
                    are_claimed &= self.acknowledged(
                        server,
                        *request,
                        offset,
                        (revision, store),
                        microseconds(use_until),
                        is_named,
                    );
                }
                if missing != 0 {
                    return self.fail(Invariant::I1, format!("of the named values {missing:b} are not allocated"));
                }
                if are_claimed {
                    self.has_values(*request);
                }
            }
            (Submitted::Read { is_pass: true }, outcome) => self.seen(server, ticket, outcome),
            (Submitted::Repair, outcome) => self.repaired(server, ticket, &outcome),
            (Submitted::Edit(job), outcome) => self.edited(server, job, outcome),
            (what, outcome) => {
                if outcome == Outcome::Deferred(Deferral::HistoryMissing) {
                    self.check_deferred(server, &open);
                }
                self.released(server, what, &outcome);
            }
        }
    }

    /// A repair has ended.
    fn repaired(&mut self, server: usize, ticket: Ticket, outcome: &Outcome<PortRange>) {
        let one = &mut self.servers[server];
        if !matches!(one.pass, Pass::Repairing { ticket: own, .. } if own == ticket) {
            return;
        }
        let Pass::Repairing { report, clears, listed, read, epoch, .. } = std::mem::replace(&mut one.pass, Pass::None)
        else {
            return;
        };
        let done = matches!(outcome, Outcome::Repaired(repaired) if repaired.changed == 0);
        if !done && ShellFault::CountersSurviveUnknownClears.is_on() {
            let layout = self.store.layout.clone();
            let counters = one.passes.counters().of(AnyRange::Ports(self.range));
            bits(clears).for_each(|bit| counters.hold(layout.offset(bit)));
        }
        if let Outcome::Repaired(repaired) = outcome {
            if epoch == self.store.epoch {
                self.check_repaired_sets(server, &repaired.set, listed, read);
            } else if !self.is_answer_old && !self.is_misled(server) && !repaired.set.is_empty() {
                let message = format!("a pass of server {server} over another store sets {:?}", repaired.set);
                self.fail(Invariant::I10, message);
            }
        }
        self.check_report(server, *report, outcome);
    }

    /// Records the outcome of a repair in the report of its pass.
    fn check_report(&mut self, server: usize, mut report: Report, outcome: &Outcome<PortRange>) {
        let ports = |values: &[u16]| values.iter().map(|port| AnyValue::Port(*port)).collect::<Vec<_>>();
        let before = report.findings.len();
        let (set, cleared) = match outcome {
            Outcome::Repaired(repaired) => (ports(&repaired.set), ports(&repaired.cleared)),
            _ => Default::default(),
        };
        let done = RepairOutcome::Done { set: &set, cleared: &cleared };
        let failed = !matches!(outcome, Outcome::Repaired(_));
        report.record_repair(0, if failed { RepairOutcome::Failed } else { done }).expect("values of the range");
        let was_set = |found: &Finding| set.iter().any(|value| value.to_string() == found.value.to_string());
        let repaired = report.findings.iter().filter(|found| report.remedy(found) == Remedy::Repair);
        let all_set = repaired.clone().all(was_set) && repaired.count() <= set.len();
        let counts = report.ranges[0].counts();
        let mut leaks = report.leaks();
        let holds = if failed {
            report.findings.len() == before && counts.set + counts.clear == 0 && leaks.all(|leak| leak.stays)
        } else {
            all_set
                && (counts.set, counts.clear) == (set.len() as u64, cleared.len() as u64)
                && leaks.all(|leak| leak.stays != cleared.contains(&leak.value))
        };
        if !holds {
            drop(leaks);
            let message =
                format!("after {outcome:?} the report of server {server} has {counts:?}, {:?}", report.findings);
            self.fail(Invariant::I7, message);
        }
    }

    /// A value is acknowledged as a request's. Whether anybody owns it now.
    fn acknowledged(
        &mut self,
        server: usize,
        request: usize,
        offset: u32,
        (revision, store): (u64, u32),
        use_until: u64,
        is_named: bool,
    ) -> bool {
        self.report.allocations += 1;
        let bit = 1 << offset;
        if self.is_answer_old || self.is_misled(server) {
            // True in the history of another store, or nothing is promised.
            self.servers[server].unclaimed |= bit;
            return false;
        }
        let fail = |world: &mut Self, invariant, message| {
            world.fail(invariant, message);
            false
        };
        let Some(at) = self.store.at(revision).filter(|at| self.store.log[*at].revision == revision) else {
            let message = format!("offset {offset} is acknowledged at r{revision}, which changed nothing");
            return fail(self, Invariant::I1, message);
        };
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let version = &mut self.store.log[at];
        let fresh = before & bit == 0 && version.mask & bit != 0;
        if !fresh || version.acknowledged & bit != 0 || version.writer != Writer::Server(server) {
            let (mask, how) = (version.mask, if fresh { "already, or by another" } else { "without a change" });
            let message = format!("offset {offset} is acknowledged at r{revision} {how}: {before:b}, {mask:b}");
            return fail(self, Invariant::I1, message);
        }
        version.acknowledged |= bit;
        let (sent, sent_local) = version.sent;
        let mut safe_until = sent + self.grace;
        if self.store.set_since[offset as usize] != revision {
            let lost = self.store.log[at..].iter().find(|version| version.mask & bit == 0);
            let is_ours = lost.is_some_and(|version| matches!(version.writer, Writer::Server(_)));
            // A repair with a shorter grace, or an edit, has fenced the write of its Service off.
            let is_command = |writer| matches!(writer, Writer::Server(server) if self.servers[server].is_command);
            let is_early = lost.is_some_and(|version| is_command(version.writer) || version.by_hand & bit != 0);
            if is_ours && !is_early && self.damaged & bit == 0 && self.now < sent + self.grace {
                let message = format!("offset {offset}, acknowledged at r{revision}, is free by now");
                return fail(self, Invariant::I2, message);
            }
            if is_early {
                safe_until = self.now;
            } else {
                self.damaged |= bit;
                self.report.damage += 1;
            }
        }
        let acknowledged = self.local(server);
        if use_until > sent_local + self.grace {
            let message =
                format!("offset {offset} may be used until {use_until}, after the grace of its compare-and-swap");
            return fail(self, Invariant::I6, message);
        }
        if acknowledged - sent_local > self.grace / 2 {
            let message = format!("offset {offset} is acknowledged when more than half of the grace is over");
            return fail(self, Invariant::I6, message);
        }
        if !is_named && !self.is_pick_right(server, offset, at) {
            let message = format!("server {server} picks offset {offset}, which was freed a moment ago");
            return fail(self, Invariant::I11, message);
        }
        let claim = self.claims.len();
        let one = &self.requests[request];
        self.claims.push(Claim {
            uid: one.uid,
            offset,
            revision,
            use_until,
            safe_until,
            server,
            incarnation: one.incarnation,
            acknowledged,
            origin: Origin { epoch: self.store.epoch, store },
            known_written: None,
            state: State::Pending,
        });
        self.requests[request].claims.push(claim);
        true
    }
}
