//! Repair passes.

use std::fmt::Write;

use rangekeeper::audit::{Audit, Leaks};
use rangekeeper::commit::{Diff, Listed, Operation, Outcome, Ticket};
use rangekeeper::ports::PortRange;
use rangekeeper::service::{Service, ServicePort};

use crate::faults::{ShellFault, with_more};
use crate::server::{Pass, Right, Submitted};
use crate::store::{Mask, Store};

use super::event::Event;
use super::{LOW, MS, World, duration};

impl World {
    pub(super) fn pass(&mut self, server: usize) {
        let (now, interval) = (self.now, self.interval);
        let local = self.local(server);
        if self.finalist.is_none() && now < self.horizon && !self.servers[server].repeats {
            let next = match self.random.below(20) {
                // The wall clock jumps, and the timer with it.
                0 => interval * 3 / 10,
                1..5 => interval * 92 / 100,
                5 => interval * 13 / 10,
                _ => interval + self.random.below(interval / 50),
            };
            if next < interval / 2 {
                self.servers[server].wall += interval;
            }
            self.at(now + next, Event::Pass(server));
        }
        if !self.servers[server].up || !matches!(self.servers[server].pass, Pass::None) {
            return;
        }
        let listed = ShellFault::ListedBeforeRead.is_on().then(|| self.store.services.values());
        let is_keyless = |backup: &Store| backup.key().is_none();
        let is_keyless = self.backup.as_deref().is_some_and(is_keyless);
        if self.is_restored_in_pass && !is_keyless {
            self.after(0, Event::Backup);
            for _ in 0..self.random.below(3) {
                let delay = self.random.below(MS);
                self.after(delay, Event::Other);
            }
        }
        let one = &mut self.servers[server];
        let mut pass = one.passes.start();
        pass.begin(&one.passes, &mut one.committer).expect("the only range");
        let deadline = local + interval / 2;
        let ticket = self.submit(server, Operation::Read, Submitted::Read { is_pass: true }, deadline);
        self.servers[server].pass = Pass::Reading { ticket, listed, pass };
        self.drive(server);
    }

    pub(super) fn seen(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
        let local = self.local(server);
        let one = &mut self.servers[server];
        if !matches!(one.pass, Pass::Reading { ticket: own, .. } if own == ticket) {
            return;
        }
        let Pass::Reading { listed, mut pass, .. } = std::mem::replace(&mut one.pass, Pass::None) else { return };
        let Outcome::Read(view) = outcome else { return };
        let now = duration(local + if crate::faults::is_on(25) { one.wall } else { 0 });
        let more = if one.repeats { 1 << 25 | 1 << 33 } else { 0 };
        let needs_fence = with_more(more, || pass.read(&mut one.passes, &one.committer, &view, now)).expect("begun");
        if needs_fence {
            let fence = self.store.write_fence();
            if pass.fenced(&one.passes, &one.committer, fence).is_err() {
                return;
            }
        }
        let is_keyless = |backup: &Store| backup.key().is_none() && view.initialised;
        let is_due = one.has_due(self.passes, self.now, self.grace) || self.backup.as_deref().is_some_and(is_keyless);
        let is_due = is_due && self.is_restored_in_pass && !self.calm;
        one.pass = Pass::Listing { view, listed, time: self.now, pass };
        let incarnation = one.incarnation;
        if is_due {
            self.restore_in_pass(server);
        }
        let delay = match self.random.below(20) {
            _ if listed.is_some() => 0,
            _ if is_due => 40 * MS,
            // There are many Services.
            0 | 1 if !self.calm => self.random.below(self.interval / 3),
            _ => self.latency(),
        };
        self.after(delay, Event::List { server, incarnation });
    }

    pub(super) fn list(&mut self, server: usize) {
        let Pass::Listing { view, listed, time, pass } = std::mem::replace(&mut self.servers[server].pass, Pass::None)
        else {
            return;
        };
        let read = view.revision;
        let truth = self.store.services.values();
        let lag = if ShellFault::StaleList.is_on() { self.random.below(6) } else { 0 };
        let at = self.store.revision().saturating_sub(lag);
        let (services, duplicates) = self.observed(at);
        let services = listed.unwrap_or(services);
        let revision = self.store.revision();
        let guard = if self.guarded { Listed::Guarding(revision) } else { Listed::At(revision) };
        let local = self.local(server);
        let one = &mut self.servers[server];
        let leaked = self.store.layout.mask_of(&view.used) & !truth;
        let epoch = self.store.epoch;
        for (offset, as_of) in one.sight(&self.store, leaked, read, time, (self.passes, self.interval, self.grace)) {
            one.rights.push(Right { offset, as_of, oldest: as_of, epoch, submitted: local });
        }
        let mut audit = Audit::new();
        let listing = pass.audit(&one.passes, &mut audit).expect("its range was read");
        let port = |(offset, protocol)| ServicePort { protocol, node_port: i32::from(LOW) + offset as i32 };
        for offset in self.store.layout.others() {
            audit.observe(&Service { ports: &[port((offset, "TCP"))], ..Service::default() });
        }
        for (service, values) in self.store.services.list_at(at) {
            let ports = service.ports(values & services);
            let ports: Vec<_> = ports.map(|(bit, protocol)| port((self.store.layout.offset(bit), protocol))).collect();
            audit.observe(&Service { ports: &ports, ..Service::default() });
        }
        let (diff, report) = if ShellFault::NoGrace.is_on() {
            let report = audit.finish(Leaks::CleanAtOnce);
            let range = report.bitmap(0).expect("a bitmap");
            let duplicates = range.duplicates().to_vec();
            (Diff { read, set: range.set(), clear: range.clear(), duplicates, listed: guard }, report)
        } else {
            let (found, report) = listing.finish(&mut one.passes, audit).expect("its own audit");
            let more = if one.repeats { 1 << 33 } else { 0 };
            let diff =
                with_more(more, || found.diff(&mut one.passes, &mut one.committer, guard)).expect("its own range");
            (diff, report)
        };
        one.repeats = false;
        one.duplicates = duplicates;
        let (sets, clears) = (self.store.layout.mask_of(&diff.set), self.store.layout.mask_of(&diff.clear));
        note!(self, "server {server} has passed: sets {sets:b}, clears {clears:b}, duplicates {duplicates:b}");
        let deadline = self.deadline(server);
        let ticket = self.submit(server, Operation::Repair(Box::new(diff)), Submitted::Repair, deadline);
        self.servers[server].pass =
            Pass::Repairing { ticket, report: Box::new(report), clears, listed: services, read, epoch };
        self.drive(server);
    }

    /// The values of all Services at a revision, and those that more than one has.
    fn observed(&self, revision: u64) -> (Mask, Mask) {
        let services = self.store.services.list_at(revision);
        services.fold((0, 0), |(all, twice), (_, values)| (all | values, twice | (all & values)))
    }
}
