//! Schedules in which a request holds values of two ranges: a ClusterIP and node ports, in two keys of one etcd.
//!
//! Each range has committers of its own, and servers, requests and repair passes join them. What goes wrong with the
//! store itself is left to the schedules with one range.

macro_rules! on {
    ($world:expr, $kind:expr, $side:ident => $work:expr) => {
        match $kind {
            Kind::Ips => {
                let $side = &mut $world.ips;
                $work
            }
            Kind::Ports => {
                let $side = &mut $world.ports;
                $work
            }
        }
    };
}

macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.traced {
            let now = $world.now;
            let _ = write!($world.report.trace, "{:>10.3} ms  r{:<3} ", now as f64 / 1000.0, $world.revision);
            let _ = writeln!($world.report.trace, $($text)*);
        }
    };
}

mod oracle;
mod repair;
mod requests;
mod side;

use std::fmt::Write as _;
use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper::cidr::CidrRange;
use rangekeeper::commit::{LeakTracker, RepairPass, StoreRequest};
use rangekeeper::ports::PortRange;

use crate::agenda::Agenda;
use crate::random::Random;
use crate::store::{Mask, Reply, Writer};
use crate::violation::{Invariant, Violation};
use crate::world::Report;

use oracle::Claim;
use requests::{Request, Service};
use side::{Ended, Purpose, Side, Wish};

/// Thousands of microseconds.
const MS: u64 = 1000;
const INTERVAL: u64 = 1000 * MS;
const GRACE: u64 = 2 * INTERVAL;

/// Which of the two ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ips,
    Ports,
}

const KINDS: [Kind; 2] = [Kind::Ips, Kind::Ports];

#[derive(Debug)]
enum Event {
    Poll(Kind, usize),
    Apply {
        kind: Kind,
        server: usize,
        id: u32,
        request: StoreRequest,
        /// How long the answer takes, if there will be one.
        then: Option<u64>,
    },
    Reply(Kind, usize, u32, Option<Reply>),
    Watch(Kind, usize),
    /// A client creates a Service.
    Create,
    /// A client changes or deletes the Service of this number.
    Change(usize),
    /// The request of this number writes its Service.
    Write(usize),
    /// The claim of this number was given up a while ago.
    Freed(usize),
    Pass,
    List,
    /// The end: nothing is left.
    Check,
}

struct World {
    random: Random,
    now: u64,
    /// That of the store, which both keys have in common.
    revision: u64,
    agenda: Agenda<Event>,
    ips: Side<CidrRange>,
    ports: Side<PortRange>,
    servers: usize,
    requests: Vec<Request>,
    services: Vec<Service>,
    claims: Vec<Claim>,
    passes: LeakTracker,
    /// A pass that reads, with the ranges that are not read yet.
    pass: Option<(RepairPass, u8, Vec<Kind>)>,
    horizon: u64,
    /// How many of a hundred requests go wrong.
    trouble: u64,
    traced: bool,
    report: Report,
}

/// Plays the schedule of a seed.
pub(crate) fn play(seed: u64, traced: bool) -> Report {
    let mut world = World::new(seed, traced);
    world.run();
    world.report
}

fn duration(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

impl World {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let servers = random.between(2, 4) as usize;
        let leaks = |random: &mut Random| random.below(64) & random.below(64);
        let (ip_leaks, port_leaks) = (leaks(&mut random), leaks(&mut random));
        let last = random.between(30_007, 30_016) as u16;
        let (cidr, ports) = ("10.96.0.0/28".parse().expect("a CIDR"), PortRange::new(30_000, last).expect("ports"));
        let ips = Side::new(cidr, servers, duration(GRACE), ip_leaks, &mut random);
        let ports = Side::new(ports, servers, duration(GRACE), port_leaks, &mut random);
        let trouble = random.pick(&[0, 5, 15, 30]);
        let mut world = Self {
            random,
            now: 0,
            revision: 3,
            agenda: Agenda::new(),
            ips,
            ports,
            servers,
            requests: Vec::new(),
            services: Vec::new(),
            claims: Vec::new(),
            passes: LeakTracker::new(NonZeroU8::new(3).expect("not zero"), duration(INTERVAL)),
            pass: None,
            horizon: 4 * INTERVAL,
            trouble,
            traced,
            report: Report::default(),
        };
        note!(
            world,
            "{servers} servers, {} and {}, in use {ip_leaks:b} and {port_leaks:b}",
            world.ips.range,
            world.ports.range
        );
        let mut at = 0;
        for _ in 0..world.random.between(6, 16) {
            // Often several at a time.
            let more = world.random.below(3 * MS);
            at = if world.random.percent(50) { at + more } else { world.random.below(world.horizon) };
            world.at(at, Event::Create);
        }
        let first = world.random.below(INTERVAL);
        // All Services are written after the grace, and four passes repair the rest.
        for pass in 0..12 {
            world.at(first + pass * INTERVAL * 102 / 100, Event::Pass);
        }
        world.at(first + 13 * INTERVAL, Event::Check);
        world
    }

    fn at(&mut self, at: u64, event: Event) {
        self.agenda.add(at.max(self.now), event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    fn latency(&mut self) -> u64 {
        self.random.between(MS / 4, 3 * MS)
    }

    fn is_calm(&self) -> bool {
        self.now >= self.horizon
    }

    fn fail(&mut self, invariant: Invariant, message: String) {
        if self.report.violation.is_none() {
            note!(self, "VIOLATION of {invariant:?}: {message}");
            self.report.violation = Some(Violation { invariant, message });
        }
    }

    fn run(&mut self) {
        while let Some((at, event)) = self.agenda.take() {
            if self.report.violation.is_some() {
                break;
            }
            self.now = at;
            self.report.steps += 1;
            self.step(event);
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Poll(kind, server) => self.drive(kind, server),
            Event::Apply { kind, server, id, request, then } => self.apply(kind, server, id, request, then),
            Event::Reply(kind, server, id, reply) => {
                let now = duration(self.now);
                on!(self, kind, side => side.reply(server, id, reply.as_ref(), now));
                self.drive(kind, server);
            }
            Event::Watch(kind, server) => {
                let now = duration(self.now);
                on!(self, kind, side => side.watch(server, now));
                self.drive(kind, server);
            }
            Event::Create => self.create(),
            Event::Change(service) => self.change(service),
            Event::Write(request) => self.write(request),
            Event::Freed(claim) => self.check_freed(claim),
            Event::Pass => self.start_pass(),
            Event::List => self.list(),
            Event::Check => self.check_leaks(),
        }
    }

    /// Lets a server's committer work until it waits for something.
    fn drive(&mut self, kind: Kind, server: usize) {
        let now = duration(self.now);
        loop {
            let wishes = on!(self, kind, side => side.poll(server, now));
            if wishes.is_empty() {
                return;
            }
            for wish in wishes {
                match wish {
                    Wish::Ended(purpose, ended) => self.ended(kind, server, purpose, ended),
                    Wish::Send(id, request) => self.send(kind, server, id, request),
                    Wish::Watch => {
                        let delay = self.latency();
                        self.after(delay, Event::Watch(kind, server));
                    }
                    Wish::Wake(until) => {
                        let until = until.as_nanos().div_ceil(1000) as u64;
                        return self.at(until.max(self.now + 1), Event::Poll(kind, server));
                    }
                }
            }
        }
    }

    fn send(&mut self, kind: Kind, server: usize, id: u32, request: StoreRequest) {
        let (there, back) = (self.latency(), self.latency());
        let trouble = !self.is_calm() && self.random.percent(self.trouble);
        // The request is lost, or its answer, or it comes late.
        let (apply, then) = match self.random.below(if trouble { 4 } else { 1 }) {
            1 => (None, None),
            2 => (Some(there), None),
            3 => (Some(there + self.random.below(60 * MS)), Some(back)),
            _ => (Some(there), Some(back)),
        };
        if let Some(delay) = apply {
            self.after(delay, Event::Apply { kind, server, id, request, then });
        }
        if trouble {
            self.after(30 * MS, Event::Reply(kind, server, id, None));
        }
    }

    /// The store carries a request out.
    fn apply(&mut self, kind: Kind, server: usize, id: u32, request: StoreRequest, then: Option<u64>) {
        let revision = self.revision;
        let (before, reply) = on!(self, kind, side => {
            side.store.header.revision = revision;
            let before = side.store.mask();
            (before, side.store.perform(request, Writer::Server(server)))
        });
        self.revision = reply.header.revision;
        if self.revision > revision {
            let after = self.stored(kind);
            note!(self, "server {server} writes {kind:?}: {after:b} ({id})");
            self.check_cleared(kind, before & !after);
            for other in 0..self.servers {
                let delay = self.latency();
                self.after(delay, Event::Watch(kind, other));
            }
        }
        if let Some(delay) = then {
            self.after(delay, Event::Reply(kind, server, id, Some(reply)));
        }
    }

    /// What the key of a range holds.
    fn stored(&mut self, kind: Kind) -> Mask {
        on!(self, kind, side => side.store.mask())
    }

    fn ended(&mut self, kind: Kind, server: usize, purpose: Purpose, ended: Ended) {
        match (purpose, ended) {
            (Purpose::Allocate(request), Ended::Allocated { offsets, revision, use_until }) => {
                self.report.allocations += offsets.len() as u32;
                let use_until = use_until.as_micros() as u64;
                for offset in offsets {
                    self.acknowledged(kind, server, request, offset, revision, use_until);
                }
                self.allocated(kind, request);
            }
            (Purpose::Allocate(request), _) => self.not_allocated(request),
            (Purpose::Release(claim), ended) => {
                let claim = &mut self.claims[claim];
                claim.is_left |= !matches!(ended, Ended::Released);
            }
            (Purpose::Look, Ended::Seen(view)) => self.seen(kind, &view),
            (Purpose::Look, _) => self.pass = None,
            (Purpose::Repair, _) => {}
        }
    }
}
