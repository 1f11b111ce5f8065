//! What clients ask of an API server: to create, change and delete Services, and how that goes on once the values are
//! allocated.

use std::fmt::Write as _;

use rangekeeper::allocator;
use rangekeeper::commit::Operation;

use crate::faults::ShellFault;
use crate::server::{Origin, Release, Rule, Submitted};
use crate::store::{Mask, bits};

use super::event::{Event, Wish};
use super::{MS, STOCK, State, World};

/// A client's request at a server, from its allocations on.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) server: usize,
    pub(super) incarnation: u32,
    pub(super) uid: u32,
    /// Which store its server knew when it began.
    pub(super) store: u32,
    pub(super) what: What,
    /// The claims on what was allocated for it.
    pub(super) claims: Vec<usize>,
    /// Whether it writes the Service after the grace.
    pub(super) is_slow: bool,
    /// Whether it has ended.
    pub(super) is_over: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Create {
        name: u32,
        /// Whether two ports share the first value.
        shares: bool,
    },
    Update {
        based: Based,
        drops: Mask,
    },
    Delete {
        based: Based,
        /// Whether it goes on if the Service is not there any more: it removes the last finalizer.
        finalizes: bool,
    },
}

/// The state of the Service that a request was based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Based {
    pub(super) revision: u64,
    pub(super) values: Mask,
    /// Those of them that two ports share.
    pub(super) shared: Mask,
    /// The store that this was read from.
    pub(super) epoch: u32,
}

impl World {
    /// A client creates a Service.
    pub(super) fn create(&mut self, server: usize, name: Option<u32>) {
        self.uids += 1;
        let uid = self.uids;
        let (wanted, named) = self.choose_values(3);
        let shares = self.random.percent(25);
        self.request(server, uid, What::Create { name: name.unwrap_or(uid), shares }, wanted, named);
    }

    /// The values that a client wants: how many, up to `most`, and which of them by name.
    fn choose_values(&mut self, most: u64) -> (Vec<allocator::Request<u16>>, Mask) {
        let kind = self.random.below(90);
        if kind < 40 {
            return (vec![allocator::Request::Any], 0);
        }
        let count = if kind < 75 { 1 } else { self.random.between(2, most + 1) };
        let mut named = 0;
        let mut wanted = Vec::with_capacity(count as usize);
        for _ in 0..count {
            // Often a name comes after a value that the server picks.
            if count > 1 && self.random.percent(50) {
                wanted.push(allocator::Request::Any);
                continue;
            }
            // The lowest are asked for most.
            let limit = if self.random.percent(60) { 3 } else { u64::from(self.size) };
            let offset = self.random.below(limit) as u32;
            if named >> offset & 1 == 0 {
                named |= 1 << offset;
                wanted.push(allocator::Request::Named(self.value(offset)));
            }
        }
        (wanted, named)
    }

    /// A server takes a client's request on, and allocates what it needs.
    fn request(&mut self, server: usize, uid: u32, what: What, wanted: Vec<allocator::Request<u16>>, named: Mask) {
        let incarnation = self.servers[server].incarnation;
        let request = self.requests.len();
        self.requests.push(Request {
            server,
            incarnation,
            uid,
            store: self.servers[server].committer.known().store,
            what,
            claims: Vec::new(),
            is_slow: false,
            is_over: false,
        });
        if wanted.is_empty() {
            let delay = self.latency();
            return self.after(delay, Event::Write(request));
        }
        let (count, deadline) = (wanted.len(), self.deadline(server));
        let what = Submitted::Allocate { named, count, request };
        let ticket = self.submit(server, Operation::Allocate(wanted), what, deadline);
        if self.random.percent(8) {
            let delay = self.random.below(8 * MS);
            self.after(delay, Event::Cancel { server, incarnation, ticket });
        }
        self.drive(server);
    }

    /// A client wants something of a Service.
    pub(super) fn client(&mut self, uid: u32, wish: Wish) {
        let Some(based) = self.current(uid) else { return };
        let servers = self.servers.len() as u64;
        let server = self.random.below(servers) as usize;
        match wish {
            Wish::Touch => {
                if let Some(revision) = self.store.update_service(uid, based.revision, based.values) {
                    note!(self, "the status of Service {uid} is written at r{revision}");
                }
            }
            Wish::Update if self.servers[server].serves() => self.update(server, uid, based),
            Wish::Delete if self.servers[server].serves() => {
                self.request(server, uid, What::Delete { based, finalizes: false }, Vec::new(), 0);
            }
            Wish::RemoveFinalizers => {
                let second = if self.random.percent(50) { server } else { self.random.below(servers) as usize };
                for server in [server, second] {
                    if self.servers[server].serves() {
                        self.request(server, uid, What::Delete { based, finalizes: true }, Vec::new(), 0);
                    }
                }
            }
            Wish::Update | Wish::Delete => {}
        }
    }

    /// The state of a Service, if it is there.
    pub(super) fn current(&self, uid: u32) -> Option<Based> {
        let service = self.store.services.get(uid).filter(|service| service.is_live())?;
        let state = service.state();
        let (values, epoch) = (state.values, self.store.epoch);
        Some(Based { revision: state.revision, values, shared: service.shared & values, epoch })
    }

    fn update(&mut self, server: usize, uid: u32, based: Based) {
        let drops = match self.random.below(10) {
            0..2 => 0,
            2..5 => based.values,
            _ => bits(based.values).filter(|_| self.random.percent(50)).fold(0, |drops, bit| drops | 1 << bit),
        };
        let (mut wanted, mut named) = (Vec::new(), 0);
        if self.random.percent(50) {
            (wanted, named) = self.choose_values(2);
        }
        if named & based.values != 0 {
            // It has them already.
            (wanted, named) = (vec![allocator::Request::Any], 0);
        }
        let what = What::Update { based, drops };
        if ShellFault::ReleasedBeforeWrite.is_on() {
            let store = self.servers[server].committer.known().store;
            let origin = Origin { epoch: based.epoch, store };
            self.release_all(server, uid, drops, based.shared, (based.revision, based.revision), origin);
        }
        self.request(server, uid, what, wanted, named);
    }

    /// All values of a request are allocated: it goes on some time later, or not at all.
    pub(super) fn has_values(&mut self, request: usize) {
        let server = self.requests[request].server;
        let until = self.requests[request].claims.iter().map(|claim| self.claims[*claim].use_until).min();
        let left = until.unwrap_or(0).saturating_sub(self.local(server));
        if self.guarded && !self.calm && self.random.percent(15) {
            self.report.slow += 1;
            self.requests[request].is_slow = true;
            let delay = left + self.random.below(self.interval);
            return self.after(delay, Event::Write(request));
        }
        match self.random.below(20) {
            0..11 => {
                let delay = self.random.below(20 * MS).min(left);
                self.after(delay, Event::Write(request));
            }
            11..15 => {
                let delay = self.random.below(left.max(1));
                self.after(delay, Event::Write(request));
            }
            // In the last moment.
            15 | 16 => self.after(left.saturating_sub(1), Event::Write(request)),
            17 | 18 => {
                let delay = self.random.below(self.interval);
                self.roll_back(request, delay);
            }
            _ => self.abandon(request),
        }
    }

    /// Nobody writes the Service of a request any more, and nobody releases its values.
    pub(super) fn abandon(&mut self, request: usize) {
        self.requests[request].is_over = true;
        for claim in self.requests[request].claims.clone() {
            self.claims[claim].state = State::Ended;
        }
    }

    /// The Service of a request is certainly not written: its values are released, at the revision of the allocation.
    pub(super) fn roll_back(&mut self, request: usize, delay: u64) {
        self.abandon(request);
        let Request { server, uid, .. } = self.requests[request];
        for claim in self.requests[request].claims.clone() {
            let claim = &self.claims[claim];
            let rule = match () {
                () if ShellFault::RolledBackAsOfNow.is_on() => Rule::Read,
                () if ShellFault::ReleasedAsOfNow.is_on() => Rule::Known,
                () => Rule::Service,
            };
            let (revision, origin) = (claim.revision, claim.origin);
            let release = Release { uid, offset: claim.offset, as_of: revision, oldest: revision, origin, rule };
            self.release_later(server, release, delay);
        }
    }

    /// What will happen to a Service that was written just now.
    pub(super) fn plan_service(&mut self, uid: u32) {
        if self.calm {
            return;
        }
        let later = |world: &mut Self, wish| {
            let delay = world.random.below(2 * world.interval);
            world.after(delay, Event::Client(uid, wish));
        };
        match self.random.below(100) {
            0..42 => later(self, Wish::Delete),
            42..60 => later(self, Wish::RemoveFinalizers),
            _ => {}
        }
        for _ in 0..self.random.pick(&[0, 0, 0, 1, 1, 2]) {
            let delay = self.random.below(2 * self.interval);
            self.after(delay, Event::Client(uid, Wish::Update));
            if self.random.percent(30) {
                // Two at once.
                let delay = delay + self.random.below(3 * MS);
                self.after(delay, Event::Client(uid, Wish::Update));
            }
        }
        if self.random.percent(25) {
            later(self, Wish::Touch);
        }
    }

    /// Whether a server is still the process that it was.
    pub(super) fn is_alive(&self, server: usize, incarnation: u32) -> bool {
        server == STOCK || (self.servers[server].up && self.servers[server].incarnation == incarnation)
    }
}
