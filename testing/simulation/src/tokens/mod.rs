//! Schedules of servers over a store that has tokens and no revisions: get a value, and put one if its token is
//! unchanged. Services are in another store.
//!
//! What the committer does with states, times and operations is played in the schedules over an etcd. Here the states
//! are those that [`Tokens`](rangekeeper::commit::Tokens) has numbered, there is no watch, and nothing ties the write
//! of a Service to the range: it comes before the `use_until`, or never.

macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.traced {
            let now = $world.now;
            let _ = write!($world.report.trace, "{:>10.3} ms  w{:<3} ", now as f64 / 1000.0, $world.row.writes);
            let _ = writeln!($world.report.trace, $($text)*);
        }
    };
}

mod network;
mod owners;
mod passes;
mod row;
mod server;

use std::fmt::Write as _;
use std::time::Duration;

use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::commit::{Config, Operation, Outcome, Replace};
use rangekeeper::ports::PortRange;
use rangekeeper::range_allocation::{Form, RangeAllocation};

use crate::agenda::Agenda;
use crate::faults::ShellFault;
use crate::layout::{Layout, Mask};
use crate::random::Random;
use crate::violation::{Invariant, Violation};
use crate::world::Report;

use owners::Owner;
use row::{Asked, Got, Row};
use server::{Purpose, Server};

/// Thousands of microseconds.
const MS: u64 = 1000;
const INTERVAL: u64 = 1000 * MS;
const GRACE: u64 = 2 * INTERVAL;
/// How long a server waits for an answer.
const PATIENCE: u64 = 30 * MS;
const LOW: u16 = 30_000;
/// How many passes in a row fail at most.
const MOST_FAILED: u32 = 2;

/// Which passes cannot list Services, to the end of a schedule.
#[derive(Clone, Copy)]
enum Failing {
    Never,
    /// Those of each server whose numbers are multiples of this.
    EachOf(u32),
    /// More than half of them.
    Often,
}

enum Event {
    Poll(usize),
    /// A request reaches the store. The answer takes so long, if there will be one.
    Apply {
        server: usize,
        id: u32,
        asked: Asked,
        then: Option<u64>,
    },
    /// An answer reaches the server; `None` if it has waited for long enough.
    Answer {
        server: usize,
        id: u32,
        got: Option<Got>,
    },
    /// A client asks a server for values.
    Create,
    /// The first server allocates between two passes, and gives back at once.
    OwnWrite,
    /// The owner of this number writes its Service, unless it is too late.
    Write(usize),
    /// A client deletes the Service of this owner, or drops some of its values.
    Drop(usize),
    Pass(usize),
    /// The Services of a pass are listed.
    List(usize, u32),
    Restart(usize),
    /// The end: nothing is left.
    Check,
}

struct World {
    random: Random,
    now: u64,
    agenda: Agenda<Event>,
    row: Row,
    range: PortRange,
    size: u64,
    servers: Vec<Server>,
    owners: Vec<Owner>,
    sent: u32,
    horizon: u64,
    /// How many of a hundred requests go wrong.
    trouble: u64,
    failing: Failing,
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
        let size = random.between(6, 16);
        let range = PortRange::new(LOW, LOW + size as u16 - 1).expect("not empty");
        let strategy = random.pick(&[
            Strategy::Contiguous,
            Strategy::Contiguous,
            Strategy::RandomScan,
            Strategy::DynamicBandFirst,
        ]);
        let config = Config { strategy, grace: duration(GRACE), replace: Replace::Always };
        // One server can know what happened to a value, several leave that to passes.
        let count = random.pick(&[1, 2, 2, 2, 3, 3, 4]);
        let mut row = Row::default();
        if random.percent(80) {
            let mut stored = RangeAllocation::new(Form::Protobuf);
            let leaked = random.below(1 << size) & random.below(1 << size);
            (stored.range, stored.data) = (range.to_string(), Layout::default().data_of(leaked));
            row.put(stored.encode(), None);
        }
        let servers = (0..count).map(|number| {
            let repairs = number == 0 || random.percent(40);
            let share = if ShellFault::ShorterGrace.is_on() && number % 2 == 1 { 4 } else { 1 };
            let config = Config { grace: config.grace / share, ..config };
            Server::new(range, config, INTERVAL / u64::from(share), repairs, &mut random)
        });
        let servers = servers.collect();
        let mut world = Self {
            now: 0,
            agenda: Agenda::new(),
            row,
            range,
            size,
            servers,
            owners: Vec::new(),
            sent: 0,
            horizon: random.between(2, 5) * INTERVAL,
            trouble: random.pick(&[0, 5, 15, 30]),
            failing: random.pick(&[
                Failing::Never,
                Failing::Never,
                Failing::Never,
                Failing::EachOf(2),
                Failing::EachOf(3),
                Failing::Often,
            ]),
            traced,
            report: Report::default(),
            random,
        };
        note!(world, "{count} servers, {range}, in use {:b}", world.row.mask());
        world.plan();
        world
    }

    /// What will happen, apart from what follows from it.
    fn plan(&mut self) {
        let mut at = 0;
        for _ in 0..self.random.between(6, 18) {
            let soon = at + self.random.below(3 * MS);
            // Often several at a time.
            at = if self.random.percent(50) { soon } else { self.random.below(self.horizon) };
            self.at(at, Event::Create);
        }
        for _ in 0..self.random.below(3) {
            let (at, server) = (self.random.below(self.horizon), self.random.below(self.servers.len() as u64));
            self.at(at, Event::Restart(server as usize));
        }
        // In the end the passes of one server that do not fail suffice, though it writes the range between them.
        let passes = match self.failing {
            Failing::Never => 6,
            Failing::EachOf(_) => 11,
            Failing::Often => 6 * (1 + u64::from(MOST_FAILED)),
        };
        let end = self.horizon + GRACE + passes * INTERVAL;
        for server in 0..self.servers.len() {
            let interval = self.servers[server].interval;
            let last = if server == 0 { end } else { self.horizon };
            let mut at = self.random.below(interval);
            while at < last && self.servers[server].repairs {
                self.at(at, Event::Pass(server));
                at += interval + self.random.below(interval / 50);
            }
        }
        if self.random.percent(50) {
            let mut at = 0;
            while at < end - INTERVAL {
                self.at(at, Event::OwnWrite);
                at += INTERVAL / 4 + self.random.below(INTERVAL);
            }
        }
        self.at(end + INTERVAL, Event::Check);
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
            match event {
                Event::Poll(server) if self.servers[server].poll_at != at => {} // it was polled before
                Event::Poll(server) => {
                    self.servers[server].poll_at = u64::MAX;
                    self.drive(server);
                }
                Event::Apply { server, id, asked, then } => self.apply(server, id, asked, then),
                Event::Answer { server, id, got } => self.answer(server, id, got),
                Event::Create => self.create(),
                Event::OwnWrite => self.submit(0, Operation::Allocate(vec![Request::Any]), Purpose::Brief),
                Event::Write(owner) => self.write(owner),
                Event::Drop(owner) => self.drop_values(owner),
                Event::Pass(server) => self.pass(server),
                Event::List(server, number) => self.list(server, number),
                Event::Restart(server) => self.restart(server),
                Event::Check => self.check_leaks(),
            }
        }
    }

    fn restart(&mut self, server: usize) {
        note!(self, "server {server} restarts");
        let Server { config, interval, repairs, .. } = self.servers[server];
        self.servers[server] = Server::new(self.range, config, interval, repairs, &mut self.random);
        self.poll_at(self.now, server);
    }

    /// A client asks a server for values of a Service.
    fn create(&mut self) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        let count = self.random.pick(&[1, 1, 1, 2, 3]);
        let mut wanted: Vec<Request<u16>> = vec![Request::Any; count];
        if self.random.percent(30) {
            wanted[0] = Request::Named(LOW + self.random.below(self.size) as u16);
        }
        self.submit(server, Operation::Allocate(wanted), Purpose::Allocate);
    }

    fn submit(&mut self, server: usize, operation: Operation<PortRange>, purpose: Purpose) {
        let is_short = !self.is_calm() && self.random.percent(10);
        let deadline = self.now + if is_short { self.random.below(40 * MS) } else { INTERVAL / 2 };
        let one = &mut self.servers[server];
        let ticket = one.committer.submit(operation, duration(deadline));
        one.open.insert(ticket, (purpose, deadline));
        self.poll_at(self.now, server);
    }

    /// Polls a server at that time, unless it is polled before.
    fn poll_at(&mut self, at: u64, server: usize) {
        let next = &mut self.servers[server].poll_at;
        if at < *next {
            *next = at;
            self.at(at, Event::Poll(server));
        }
    }

    /// What became of an operation.
    fn ended(&mut self, server: usize, purpose: Purpose, outcome: Outcome<PortRange>) {
        match (purpose, outcome) {
            (Purpose::Allocate | Purpose::Brief, Outcome::Allocated { values, revision, store, use_until }) => {
                self.report.allocations += values.len() as u32;
                let values = values.iter().fold(0, |mask: Mask, port| mask | 1 << (port - LOW));
                let use_until = use_until.as_micros() as u64;
                self.acknowledged(server, values, (revision, store), use_until, purpose == Purpose::Brief);
            }
            (Purpose::Look { owner, values, began }, Outcome::Read(view)) => {
                let store = self.servers[server].committer.known().store;
                self.looked(server, owner, values, began, (view.revision, store));
            }
            (Purpose::Late(values), Outcome::Read(view)) => {
                let store = self.servers[server].committer.known().store;
                self.release(server, values, (view.revision, store));
            }
            (Purpose::Pass(number), Outcome::Read(view)) => self.seen(server, number, &view),
            (Purpose::Pass(_), _) => self.servers[server].pass = None,
            _ => {}
        }
    }
}
