//! Repair passes over both ranges.

use rangekeeper::audit::Audit;
use rangekeeper::commit::{Listed, Operation, View};
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
        self.pass = Some((pass, 2));
        self.ips.submit(SERVER, Operation::Read, Purpose::Look);
        self.ports.submit(SERVER, Operation::Read, Purpose::Look);
        self.drive(Kind::Ips, SERVER);
        self.drive(Kind::Ports, SERVER);
    }

    pub(super) fn seen(&mut self, kind: Kind, view: &View) {
        let now = duration(self.now);
        let Some((pass, left)) = &mut self.pass else { return };
        let read = on!(self, kind, side => pass.read(&mut self.passes, side.committer(SERVER), view, now));
        // Else it is the read of a pass that was given up.
        let Ok(needs_fence) = read else { return };
        if needs_fence {
            self.revision += 1;
            let fence = self.revision;
            on!(self, kind, side => pass.fenced(&self.passes, side.committer(SERVER), fence)).expect("after the read");
        }
        *left -= 1;
        if *left == 0 {
            let delay = self.latency();
            self.after(delay, Event::List);
        }
    }

    pub(super) fn list(&mut self) {
        let Some((pass, 0)) = self.pass.take() else { return };
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
        let listed = Listed::At(self.revision);
        let ips = found.diff(&mut self.passes, self.ips.committer(SERVER), listed).expect("its range");
        let ports = found.diff(&mut self.passes, self.ports.committer(SERVER), listed).expect("its range");
        self.ips.submit(SERVER, Operation::Repair(Box::new(ips)), Purpose::Repair);
        self.ports.submit(SERVER, Operation::Repair(Box::new(ports)), Purpose::Repair);
        self.drive(Kind::Ips, SERVER);
        self.drive(Kind::Ports, SERVER);
    }
}
