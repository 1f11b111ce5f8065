//! Repair passes.

use std::fmt::Write;

use rangekeeper::audit::{Audit, Leaks};
use rangekeeper::commit::{Diff, Operation, Outcome, ServiceList, Ticket};
use rangekeeper::ports::PortRange;
use rangekeeper::service::{Service, ServicePort};

use crate::cache;
use crate::faults::ShellFault;
use crate::server::{Pass, Read, Right, Submitted};
use crate::services::ports;
use crate::store::{Look, Store};

use super::event::Event;
use super::{LOW, MS, World, duration};

impl World {
    pub(super) fn pass(&mut self, server: usize) {
        let (now, interval) = (self.now, self.servers[server].pace.interval);
        let local = self.local(server);
        if self.finalist.is_none() && now < self.horizon && !self.servers[server].repeats {
            let next = match self.random.below(20) {
                // The wall clock jumps, and the timer with it.
                0 => interval * 3 / 10,
                1..5 => interval * 92 / 100,
                5 => interval * 13 / 10,
                _ => interval + self.random.below(interval / 50),
            };
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
        if self.is_restored_after_list && self.servers[server].has_due(self.now) {
            self.write_late(server);
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
        let now = duration(local + one.ahead);
        let needs_fence = pass.read(&mut one.passes, &one.committer, &view, now).expect("begun");
        let is_keyless = |backup: &Store| backup.key().is_none() && view.initialised;
        let is_due = one.has_due(self.now) || self.backup.as_deref().is_some_and(is_keyless);
        let is_due = is_due && self.is_restored_in_pass && !self.calm;
        let (incarnation, is_early) = (one.incarnation, listed.is_some());
        let read = Read { view, listed, time: self.now, look: None, pass };
        if is_due {
            self.restore_in_pass(server);
        }
        if !needs_fence {
            return self.list_later(server, read, is_early, is_due);
        }
        self.servers[server].pass = Pass::Fencing(read);
        let delay = match self.random.below(20) {
            _ if is_due => 40 * MS,
            0 if !self.calm => self.random.below(self.interval / 3),
            _ => self.latency(),
        };
        // Without an answer the pass is given up; the fence may be written all the same.
        let is_answered = self.calm || !self.random.percent(self.trouble / 3);
        self.after(delay, Event::Fence { server, incarnation, epoch: self.store.epoch, is_answered });
    }

    fn list_later(&mut self, server: usize, read: Read, is_early: bool, is_due: bool) {
        let delay = match self.random.below(20) {
            _ if is_early => 0,
            _ if is_due => 40 * MS,
            // There are many Services.
            0 | 1 if !self.calm => self.random.below(self.interval / 3),
            _ => self.latency(),
        };
        self.servers[server].pass = Pass::Listing(read);
        let incarnation = self.servers[server].incarnation;
        self.after(delay, Event::List { server, incarnation });
    }

    /// The write of a fence reaches the store.
    pub(super) fn write_fence(&mut self, server: usize, incarnation: u32, epoch: u32, is_answered: bool) {
        let is_written = epoch >= self.connected_since;
        if is_written {
            let look = self.store.write_fence();
            note!(self, "server {server} has written the fence at r{}", look.revision);
            if is_answered {
                let delay = self.latency();
                return self.after(delay, Event::Fenced { server, incarnation, look });
            }
        }
        if self.is_alive(server, incarnation) && matches!(self.servers[server].pass, Pass::Fencing(_)) {
            // The pass is given up.
            self.servers[server].pass = Pass::None;
        }
    }

    /// A server learns the revision of the fence.
    pub(super) fn fenced(&mut self, server: usize, look: Look) {
        let one = &mut self.servers[server];
        let Pass::Fencing(mut read) = std::mem::replace(&mut one.pass, Pass::None) else { return };
        read.look = Some(look);
        if read.pass.fenced(&one.passes, &one.committer, look.revision, look.number).is_err() {
            note!(self, "the fence of server {server} is not later than its read");
            return;
        }
        let is_early = read.listed.is_some();
        self.list_later(server, read, is_early, false);
    }

    pub(super) fn list(&mut self, server: usize) {
        let Pass::Listing(Read { view, listed, time, look, pass }) =
            std::mem::replace(&mut self.servers[server].pass, Pass::None)
        else {
            return;
        };
        let read = view.revision;
        let at = look.map_or(self.store.revision(), |look| look.revision);
        if at > self.store.revision() {
            note!(self, "server {server} cannot list Services at r{at}");
            return;
        }
        let (truth, revision) = (self.store.services.values_at(at), at);
        let lag = if ShellFault::StaleList.is_on() { self.random.below(6) } else { 0 };
        let at = at.saturating_sub(lag);
        let one = &self.servers[server];
        let cache = one.cache.as_ref().filter(|_| one.lists_elsewhere);
        let list =
            cache.map_or_else(|| cache::list(&self.store.services, at), |cache| cache.list(&self.store.services));
        let (services, duplicates) =
            list.iter().fold((0, 0), |(all, twice), one| (all | one.values, twice | (all & one.values)));
        let services = listed.unwrap_or(services);
        let is_proven = ShellFault::ListProvenByRevisions.is_on()
            && cache.is_some_and(|cache| cache.agrees(&self.store.services))
            || ShellFault::CachedListPassedAsAt.is_on();
        let guard = match () {
            () if one.lists_elsewhere && !is_proven => ServiceList::Elsewhere,
            () if self.guarded => ServiceList::Guarding(revision),
            () => ServiceList::At(revision),
        };
        let local = self.local(server);
        let one = &mut self.servers[server];
        let leaked = self.store.layout.mask_of(&view.used) & !truth;
        let epoch = self.store.epoch;
        for (offset, as_of) in one.sight(&self.store, leaked, read, time) {
            one.rights.push(Right { offset, as_of, oldest: as_of, epoch, submitted: local });
        }
        let mut audit = Audit::new();
        let listing = pass.audit(&one.passes, &mut audit).expect("its range was read");
        let port = |(offset, protocol)| ServicePort { protocol, node_port: i32::from(LOW) + offset as i32 };
        for offset in self.store.layout.others() {
            audit.observe(&Service { ports: &[port((offset, "TCP"))], ..Service::default() });
        }
        for one in list {
            let ports = ports(one.values & services, one.shared);
            let ports: Vec<_> = ports.map(|(bit, protocol)| port((self.store.layout.offset(bit), protocol))).collect();
            audit.observe(&Service { ports: &ports, ..Service::default() });
        }
        let (diff, report) = if ShellFault::NoGrace.is_on() {
            let report = audit.finish(Leaks::CleanAtOnce);
            let range = report.bitmap(0).expect("a bitmap");
            let duplicates = range.duplicates().to_vec();
            (
                Diff {
                    read,
                    set: range.set(),
                    clear: range.clear(),
                    duplicates,
                    outside: 0,
                    listed: guard,
                    look: None,
                },
                report,
            )
        } else {
            let (found, report) = listing.finish(&mut one.passes, audit).expect("its own audit");
            (found.diff(&mut one.passes, &mut one.committer, guard).expect("its own range"), report)
        };
        one.repeats = false;
        one.duplicates = duplicates;
        let (sets, clears) = (self.store.layout.mask_of(&diff.set), self.store.layout.mask_of(&diff.clear));
        note!(self, "server {server} has passed: sets {sets:b}, clears {clears:b}, duplicates {duplicates:b}");
        if self.is_restored_after_list && self.backup.is_some() && clears != 0 {
            self.is_restored_after_list = false;
            self.after(0, Event::Restore);
        }
        if self.is_made_in_pass && !self.calm && !view.initialised && self.store.key().is_none() {
            self.make_in_pass(server);
        } else if self.guarded && !self.conditional && clears != 0 && !self.calm && self.random.percent(30) {
            // The clears are tried again, and Services may be written meanwhile.
            self.loses_next = Some((server, self.interval / 4));
        }
        let deadline = self.deadline(server);
        let ticket = self.submit(server, Operation::Repair(Box::new(diff)), Submitted::Repair, deadline);
        self.servers[server].pass =
            Pass::Repairing { ticket, report: Box::new(report), clears, look, listed: services, read, epoch };
        self.drive(server);
    }
}
