//! Repair passes.

use std::fmt::Write;

use rangekeeper::any::AnyRange;
use rangekeeper::commit::{Diff, Listed, Operation, Outcome, Ticket};
use rangekeeper::ports::PortRange;
use rangekeeper::repair::{Leaks, RepairPass, Stored};
use rangekeeper::service::{Service, ServicePort};

use crate::faults::{ShellFault, with_more};
use crate::server::{Pass, Right, Submitted};
use crate::store::bits;

use super::{Event, LOW, World, duration, mask, mask_of};

impl World {
    pub(super) fn pass(&mut self, server: usize) {
        let (now, interval) = (self.now, self.interval);
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
        let listed = ShellFault::ListedBeforeRead.is_on().then(|| mask(self.store.list()));
        let one = &mut self.servers[server];
        one.passes.begin(&mut one.committer);
        let deadline = now + interval / 2;
        let ticket = self.submit(server, Operation::Read, Submitted::Read { is_pass: true }, deadline);
        self.servers[server].pass = Pass::Reading { ticket, listed };
        self.drive(server);
    }

    pub(super) fn seen(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
        let one = &mut self.servers[server];
        let listed = match one.pass {
            Pass::Reading { ticket: own, listed } if own == ticket => listed,
            _ => return,
        };
        let Outcome::Read(view) = outcome else {
            one.pass = Pass::None;
            return;
        };
        let range = AnyRange::Ports(self.range);
        let now = duration(self.now + if crate::faults::is_on(25) { one.wall } else { 0 });
        let more = if one.repeats { 1 << 25 | 1 << 33 } else { 0 };
        with_more(more, || one.passes.seen(range, &one.committer, view.revision, now));
        one.pass = Pass::Listing { used: view.used, read: view.revision, listed, time: self.now };
        let incarnation = one.incarnation;
        let delay = if listed.is_some() { 0 } else { self.latency() };
        self.after(delay, Event::List { server, incarnation });
    }

    pub(super) fn list(&mut self, server: usize) {
        let Pass::Listing { used, read, listed, time } = std::mem::replace(&mut self.servers[server].pass, Pass::None)
        else {
            return;
        };
        let truth = mask(self.store.list());
        let services = if ShellFault::StaleList.is_on() {
            let revision = self.store.revision();
            mask(self.store.list_at(revision - self.random.below(6).min(revision)))
        } else {
            listed.unwrap_or(truth)
        };
        let revision = self.store.revision();
        let guard = if self.guarded { Listed::Guarding(revision) } else { Listed::At(revision) };
        let one = &mut self.servers[server];
        let leaked = mask_of(&used) & !truth;
        for (offset, anchor) in one.sight(&self.store, leaked, read, time, self.interval, self.grace) {
            one.rights.push(Right { offset, anchor, epoch: self.store.epoch });
        }
        let mut pass = RepairPass::new();
        pass.add_node_ports(self.range, Stored { range: &self.text, data: used.snapshot() }).expect("our own snapshot");
        for offset in bits(services) {
            let port = ServicePort { protocol: "TCP", node_port: i32::from(LOW) + offset as i32 };
            pass.observe(&Service { ports: &[port], ..Service::default() });
        }
        let diff = if ShellFault::NoGrace.is_on() {
            let outcome = pass.finish(Leaks::CleanAtOnce);
            let range = &outcome.ranges[0];
            Diff {
                read,
                set: range.set(),
                clear: range.clear(),
                duplicates: range.duplicates().to_vec(),
                listed: guard,
            }
        } else {
            let outcome = pass.finish(Leaks::Keep(one.passes.counters()));
            let more = if one.repeats { 1 << 33 } else { 0 };
            with_more(more, || one.passes.diff(&outcome.ranges[0], &mut one.committer, guard))
        };
        one.repeats = false;
        note!(self, "server {server} has passed: sets {:b}, clears {:b}", mask_of(&diff.set), mask_of(&diff.clear));
        let clears = mask_of(&diff.clear);
        let deadline = self.deadline();
        let ticket = self.submit(server, Operation::Repair(Box::new(diff)), Submitted::Repair, deadline);
        self.servers[server].pass = Pass::Repairing { ticket, clears };
        self.drive(server);
    }
}
