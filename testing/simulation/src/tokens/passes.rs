//! Repair passes, whose Services are listed in another store.

use std::fmt::Write as _;

use rangekeeper::audit::Audit;
use rangekeeper::commit::{Operation, ServiceList, View};
use rangekeeper::service::{Service, ServicePort};

use crate::faults::ShellFault;
use crate::layout::{Layout, bits};

use super::server::{Purpose, counting};
use super::{Event, Failing, INTERVAL, LOW, MOST_FAILED, World, duration};

impl World {
    pub(super) fn pass(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let mut pass = one.passes.start();
        pass.begin(&one.passes, &mut one.committer).expect("the only range");
        one.begun += 1;
        one.pass = Some((one.begun, pass));
        let number = one.begun;
        self.submit(server, Operation::Read, Purpose::Pass(number));
    }

    pub(super) fn seen(&mut self, server: usize, number: u32, view: &View) {
        let now = duration(self.now);
        let one = &mut self.servers[server];
        let Some((_, pass)) = one.pass.as_mut().filter(|(own, _)| *own == number) else { return };
        // There is no fence: no Service is written after its `use_until`.
        let _needs_fence = pass.read(&mut one.passes, &one.committer, view, now).expect("begun");
        // There may be many Services.
        let delay = if self.random.percent(10) { self.random.below(INTERVAL / 3) } else { self.latency() };
        self.after(delay, Event::List(server, number));
    }

    /// Whether the list of a pass of this number fails, after so many in a row that have.
    fn fails(&mut self, number: u32, failed: u32) -> bool {
        match self.failing {
            Failing::Never => false,
            Failing::EachOf(passes) => number.is_multiple_of(passes),
            Failing::Often => failed < MOST_FAILED && self.random.percent(60),
        }
    }

    pub(super) fn list(&mut self, server: usize, number: u32) {
        let in_use = self.in_use();
        let one = &mut self.servers[server];
        let Some((_, pass)) = one.pass.take_if(|(own, _)| *own == number) else { return };
        let (begun, failed) = (one.begun, one.failed);
        if self.fails(begun, failed) {
            note!(self, "server {server} cannot list Services");
            let one = &mut self.servers[server];
            one.failed += 1;
            if ShellFault::FailedPassForgets.is_on() {
                one.passes = counting(one.interval);
            }
            return;
        }
        let one = &mut self.servers[server];
        one.failed = 0;
        let mut audit = Audit::new();
        let listing = pass.audit(&one.passes, &mut audit).expect("its range was read");
        for offset in bits(in_use) {
            let port = ServicePort { protocol: "TCP", node_port: i32::from(LOW) + offset as i32 };
            audit.observe(&Service { ports: &[port], ..Service::default() });
        }
        let (found, _) = listing.finish(&mut one.passes, audit).expect("its own audit");
        let diff = found.diff(&mut one.passes, &mut one.committer, ServiceList::Elsewhere).expect("its own range");
        let (set, clear) = (Layout::default().mask_of(&diff.set), Layout::default().mask_of(&diff.clear));
        note!(self, "server {server} has passed: sets {set:b}, clears {clear:b}");
        self.submit(server, Operation::Repair(Box::new(diff)), Purpose::Repair);
    }
}
