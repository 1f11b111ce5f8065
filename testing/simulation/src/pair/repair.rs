//! Repair passes over both ranges.

use std::num::NonZeroU64;

use rangekeeper::audit::Audit;
use rangekeeper::commit::{Operation, ServiceList, View};
use rangekeeper::range::Range;
use rangekeeper::service::{Service, ServicePort};

use super::side::Purpose;
use super::{Event, Kind, World, duration};

/// The server that repairs.
const SERVER: usize = 0;

impl World {
    pub(super) fn start_pass(&mut self) {
        let mut pass = self.passes.start();
        pass.begin(&self.passes, self.ips.committer(SERVER)).expect("not begun yet");
        pass.begin(&self.passes, self.ports.committer(SERVER)).expect("not begun yet");
        self.pass = Some((pass, 2, Vec::new()));
        self.ips.submit(SERVER, Operation::Read, Purpose::Look);
        self.ports.submit(SERVER, Operation::Read, Purpose::Look);
        self.drive(Kind::Ips, SERVER);
        self.drive(Kind::Ports, SERVER);
    }

    pub(super) fn seen(&mut self, kind: Kind, view: &View) {
        let now = duration(self.now);
        let Some((pass, left, fences)) = &mut self.pass else { return };
        let read = on!(self, kind, side => pass.read(&mut self.passes, side.committer(SERVER), view, now));
        // Else it is the read of a pass that was given up.
        let Ok(needs_fence) = read else { return };
        fences.extend(needs_fence.then_some(kind));
        *left -= 1;
        if *left == 0 {
            let delay = self.latency();
            self.after(delay, Event::List);
        }
    }

    pub(super) fn list(&mut self) {
        let Some((mut pass, 0, fences)) = self.pass.take() else { return };
        for kind in fences {
            self.revision += 1;
            let fence = self.revision;
            let look = NonZeroU64::new(fence).expect("a revision is not 0");
            on!(self, kind, side => pass.fenced(&self.passes, side.committer(SERVER), fence, look))
                .expect("all is read");
            self.ips.store.add_look(look);
            self.ports.store.add_look(look);
        }
        let mut audit = Audit::new();
        let listing = pass.audit(&self.passes, &mut audit).expect("both ranges were read");
        for service in self.services.iter().filter(|service| service.is_live) {
            let (mut cluster_ip, mut ports) = (String::new(), Vec::new());
            for claim in service.claims.iter().map(|claim| &self.claims[*claim]) {
                match claim.kind {
                    Kind::Ips => cluster_ip = self.ips.range.value_at(claim.offset).expect("an address").to_string(),
                    Kind::Ports => ports.push(self.ports.range.value_at(claim.offset).expect("a port")),
                }
            }
            let ports: Vec<_> =
                ports.iter().map(|port| ServicePort { protocol: "TCP", node_port: i32::from(*port) }).collect();
            audit.observe(&Service { cluster_ip: &cluster_ip, ports: &ports, ..Service::default() });
        }
        let (found, _) = listing.finish(&mut self.passes, audit).expect("its own audit");
        let listed = ServiceList::At(self.revision);
        let ips = found.diff(&mut self.passes, self.ips.committer(SERVER), listed).expect("its range");
        let ports = found.diff(&mut self.passes, self.ports.committer(SERVER), listed).expect("its range");
        self.ips.submit(SERVER, Operation::Repair(Box::new(ips)), Purpose::Repair);
        self.ports.submit(SERVER, Operation::Repair(Box::new(ports)), Purpose::Repair);
        self.drive(Kind::Ips, SERVER);
        self.drive(Kind::Ports, SERVER);
    }
}
