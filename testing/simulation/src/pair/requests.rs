//! Requests that hold values of two ranges: what they allocate, write and give back.

use std::fmt::Write as _;

use crate::faults::ShellFault;

use super::{Event, INTERVAL, Kind, MS, World};

/// A client's request at a server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    server: usize,
    /// The claims on what was allocated for it.
    pub(super) claims: Vec<usize>,
    /// How many node ports it needs.
    ports: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Create,
    /// The Service of this number, as it was at this revision, and whether it drops its ports.
    Update {
        service: usize,
        based: u64,
        drops: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) claims: Vec<usize>,
    /// The revision of its last write.
    revision: u64,
    pub(super) is_live: bool,
}

impl World {
    /// A client creates a Service with a ClusterIP, and mostly with node ports.
    pub(super) fn create(&mut self) {
        let ports = self.random.pick(&[0, 1, 1, 1, 2, 3]);
        let request = self.request(ports, What::Create);
        let wanted = vec![self.random.percent(20).then(|| self.random.below(4) as u32)];
        let server = self.requests[request].server;
        self.ips.allocate(server, request, &wanted);
        self.drive(Kind::Ips, server);
    }

    fn request(&mut self, ports: usize, what: What) -> usize {
        let server = self.random.below(self.servers as u64) as usize;
        self.requests.push(Request { server, claims: Vec::new(), ports, what });
        self.requests.len() - 1
    }

    /// A request has the values of one range: those of the other come next, if it needs any, and then the Service.
    pub(super) fn allocated(&mut self, kind: Kind, request: usize) {
        let Request { server, ports, .. } = self.requests[request];
        if kind == Kind::Ports || ports == 0 {
            return self.has_values(request);
        }
        self.allocate_ports(server, request, ports);
    }

    fn allocate_ports(&mut self, server: usize, request: usize, ports: usize) {
        let mut wanted = vec![None; ports];
        // Often one that another Service has: then the address is given back.
        wanted[ports - 1] = self.random.percent(40).then(|| self.random.below(4) as u32);
        self.ports.allocate(server, request, &wanted);
        self.drive(Kind::Ports, server);
    }

    /// A range has not the values that a request needs, or it is not known whether they are taken.
    pub(super) fn not_allocated(&mut self, request: usize) {
        note!(self, "request {request} does not get its values");
        self.roll_back(request);
    }

    fn has_values(&mut self, request: usize) {
        let until = self.requests[request].claims.iter().map(|claim| self.claims[*claim].use_until).min();
        let left = until.unwrap_or(u64::MAX).saturating_sub(self.now).saturating_sub(1);
        let delay = if self.random.percent(70) { self.random.below(20 * MS) } else { self.random.below(INTERVAL) };
        if self.random.percent(10) {
            return self.roll_back(request);
        }
        self.after(delay.min(left), Event::Write(request));
    }

    /// The Service of a request is certainly not written: both ranges get back what was allocated for it.
    fn roll_back(&mut self, request: usize) {
        let Request { server, claims, .. } = self.requests[request].clone();
        note!(self, "server {server} rolls request {request} back: {claims:?}");
        let first = claims.first().map_or(0, |claim| self.claims[*claim].revision);
        for number in claims {
            let (kind, own) = (self.claims[number].kind, self.claims[number].revision);
            self.give_up(number);
            if kind == Kind::Ips && self.requests[request].claims.len() > 1 && ShellFault::HalfRolledBack.is_on() {
                continue;
            }
            let revision = if ShellFault::RolledBackAsOfTheFirst.is_on() { first } else { own };
            self.release(server, number, (revision, revision));
        }
    }

    fn release(&mut self, server: usize, number: usize, revisions: (u64, u64)) {
        let (kind, offset) = (self.claims[number].kind, self.claims[number].offset);
        on!(self, kind, side => side.release(server, number, offset, revisions));
        self.after(0, Event::Poll(kind, server));
    }

    /// A request writes its Service.
    pub(super) fn write(&mut self, request: usize) {
        let fate = if self.is_calm() { 99 } else { self.random.below(100) };
        let is_based = match self.requests[request].what {
            What::Create => true,
            What::Update { service, based, .. } => {
                let service = &self.services[service];
                service.is_live && service.revision == based
            }
        };
        match fate {
            // A webhook rejects it.
            0..8 => return self.roll_back(request),
            // Nobody knows that it is not written.
            8..12 => {
                note!(self, "the write of request {request} is lost");
                for claim in self.requests[request].claims.clone() {
                    self.claims[claim].is_owned = false;
                }
                return;
            }
            _ if !is_based => return self.roll_back(request),
            _ => {}
        }
        self.revision += 1;
        let Request { server, claims, what, .. } = self.requests[request].clone();
        note!(self, "request {request} writes its Service with {claims:?}: {what:?}");
        let number = match what {
            What::Create => {
                self.services.push(Service { claims, revision: self.revision, is_live: true });
                self.services.len() - 1
            }
            What::Update { service, based, drops } => {
                let is_dropped = |world: &Self, claim: usize| drops && world.claims[claim].kind == Kind::Ports;
                let (dropped, kept): (Vec<_>, Vec<_>) =
                    self.services[service].claims.iter().copied().partition(|claim| is_dropped(self, *claim));
                self.services[service].claims = [kept.clone(), claims].concat();
                self.services[service].revision = self.revision;
                for claim in &dropped {
                    self.give_up(*claim);
                }
                // Nothing is released if the server does not know that the Service was written.
                if fate < 16 {
                    dropped.iter().for_each(|claim| self.claims[*claim].is_left = true);
                } else {
                    let others = kept.iter().filter(|_| !dropped.is_empty() && ShellFault::BothRangesReleased.is_on());
                    for claim in dropped.iter().chain(others) {
                        self.release(server, *claim, (self.revision, based));
                    }
                }
                service
            }
        };
        self.check_owners();
        if self.random.percent(70) && !self.is_calm() {
            let delay = self.random.below(2 * INTERVAL);
            self.after(delay, Event::Change(number));
        }
    }

    /// A client deletes a Service, lets it give its ports back and keep its address, or lets it take other ports.
    pub(super) fn change(&mut self, number: usize) {
        let Service { claims, revision, is_live } = self.services[number].clone();
        if !is_live {
            return;
        }
        if self.random.percent(40) {
            self.revision += 1;
            self.services[number].is_live = false;
            note!(self, "Service {number} is deleted");
            let server = self.random.below(self.servers as u64) as usize;
            for claim in claims {
                self.give_up(claim);
                self.release(server, claim, (self.revision, revision));
            }
            return;
        }
        let takes = self.random.below(3) as usize;
        let what = What::Update { service: number, based: revision, drops: self.random.percent(80) };
        let request = self.request(takes, what);
        if takes == 0 {
            return self.after(MS, Event::Write(request));
        }
        let server = self.requests[request].server;
        self.allocate_ports(server, request, takes);
    }
}
