//! One schedule: servers, a store, callers, and all that can go wrong between them, from one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper::allocator::{Request as Wanted, Strategy};
use rangekeeper::any::AnyRange;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{
    Answer, Change, Committer, Config, Diff, Failure, KeyValue, Operation, Outcome, Passes, Request, Step, Ticket,
};
use rangekeeper::envelope::{Form, RangeAllocation};
use rangekeeper::ports::PortRange;
use rangekeeper::range::Range;
use rangekeeper::repair::{Leaks, RepairPass, Stored};
use rangekeeper::service::{Service, ServicePort};

use crate::faults::{ShellFault, with_more};
use crate::random::Random;
use crate::reference::ReferenceRepair;
use crate::server::{Open, Pass, Right, Server, Sightings, Submitted};
use crate::store::{Mask, Reply, Store, Version, Writer, bits, data_of};
use crate::violation::{Invariant, Violation};

/// The first port of all ranges.
const LOW: u16 = 30_000;
/// What somebody writes in place of a stored range.
const SPOILT: &[u8] = b"not a range";
/// Thousands of microseconds.
const MS: u64 = 1000;
/// A schedule that goes on for longer than this does not end.
const LONGEST: u32 = 5000;

/// What came of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many events there were.
    pub steps: u32,
    /// Allocations that were acknowledged.
    pub allocations: u32,
    /// Offsets that our servers cleared.
    pub cleared: u32,
    /// Owners who lost a value, and Services that shared one, after a deletion or a restore, or beside the reference.
    pub damage: u32,
    /// What did not hold.
    pub violation: Option<Violation>,
    /// What happened, if that was asked for.
    pub trace: String,
}

/// After this, owners may lose their values: it is not the protocol's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    Deleted,
    Restored,
    Reference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Acknowledged; the Service will be written.
    Pending,
    Live,
    Ended,
}

/// An acknowledged value and its owner.
#[derive(Clone, Debug)]
struct Claim {
    offset: u32,
    revision: u64,
    use_until: u64,
    server: usize,
    state: State,
}

/// A request on its way.
#[derive(Debug)]
struct Sent {
    server: usize,
    incarnation: u32,
    id: u32,
    epoch: u32,
    request: Request,
    sole: Option<Ticket>,
    /// The revision of the last answer that the server had.
    told: u64,
    /// How long the answer takes, if there will be one.
    then: Option<u64>,
}

#[derive(Debug)]
enum Event {
    Poll(usize),
    Apply(Box<Sent>),
    Reply { server: usize, incarnation: u32, id: u32, epoch: u32, reply: Reply },
    GiveUp { server: usize, incarnation: u32, id: u32 },
    Submit(usize),
    Cancel { server: usize, incarnation: u32, ticket: Ticket },
    CreateService(usize),
    DeleteService(usize),
    Release { claim: usize, anchor: u64 },
    Pass(usize),
    List { server: usize, incarnation: u32 },
    Crash(usize),
    Start(usize),
    Disconnect(usize),
    Watch { server: usize, stream: u32 },
    Compact,
    Delete,
    Spoil,
    Backup,
    Restore,
    ReferenceRepair { tries: u8 },
    ReferenceWrite { version: u64, mask: Mask, tries: u8 },
    ReferencePick { tries: u8 },
    ReferenceTake { version: u64, mask: Mask, offset: u32, tries: u8 },
    Calm,
    Finale(u8),
    Check,
}

pub(crate) struct World {
    random: Random,
    now: u64,
    events: Vec<Option<Event>>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    store: Store,
    backup: Option<Box<Store>>,
    servers: Vec<Server>,
    claims: Vec<Claim>,
    range: PortRange,
    text: String,
    config: Config,
    /// Between two passes, in microseconds.
    interval: u64,
    grace: u64,
    horizon: u64,
    requests: u32,
    /// Whether the answer that is told comes from a store that was restored since.
    is_answer_old: bool,
    /// How many of a hundred requests go wrong.
    trouble: u64,
    damage: Damage,
    reference: ReferenceRepair,
    /// The server that tidies up in the end.
    finalist: Option<usize>,
    calm: bool,
    traced: bool,
    report: Report,
}

macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.traced {
            let now = $world.now;
            let _ = write!($world.report.trace, "{:>10.3} ms  r{:<3} ", now as f64 / 1000.0, $world.store.revision());
            let _ = writeln!($world.report.trace, $($text)*);
        }
    };
}

/// Plays the schedule of a seed.
pub fn play(seed: u64, traced: bool) -> Report {
    let mut world = World::new(seed, traced);
    world.run();
    world.report
}

fn duration(microseconds: u64) -> Duration {
    if microseconds == u64::MAX { Duration::MAX } else { Duration::from_micros(microseconds) }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

fn mask_of(bitmap: &Bitmap) -> Mask {
    bitmap.iter().fold(0, |mask, offset| mask | 1 << offset)
}

impl World {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::new(seed);
        let size = if random.percent(70) { random.between(8, 17) } else { random.between(17, 41) };
        let range = PortRange::new(LOW, LOW + size as u16 - 1).expect("not empty");
        let interval = if random.percent(70) { 1000 * MS } else { 7000 * MS };
        let grace = 2 * interval;
        let strategy = random.pick(&[
            Strategy::RandomScan,
            Strategy::Contiguous,
            Strategy::Contiguous,
            Strategy::RandomScanSparingStaticBand,
        ]);
        let config = Config { strategy, grace: duration(grace) };
        let horizon = interval * random.between(6, 12) / 2;
        let count = random.pick(&[2, 2, 2, 2, 3, 3, 3, 4, 5]);
        let mut servers = Vec::with_capacity(count);
        for _ in 0..count {
            servers.push(Server {
                up: true,
                incarnation: 0,
                committer: Committer::new(range, config, random.fork()),
                poll_at: u64::MAX,
                flight: None,
                open: Vec::new(),
                watch: None,
                is_watch_due: false,
                repairs: random.percent(50),
                passes: Passes::new(NonZeroU8::new(3).expect("not zero"), duration(interval)),
                pass: Pass::None,
                repeats: false,
                wall: 0,
                rights: Vec::new(),
                sightings: [Sightings::default(); 64],
                last_pass: None,
                creates: false,
                told: 0,
            });
        }
        let trouble = random.pick(&[0, 5, 15, 30]);
        let mut world = Self {
            random,
            now: 0,
            events: Vec::with_capacity(256),
            queue: BinaryHeap::with_capacity(64),
            store: Store::new(),
            backup: None,
            servers,
            claims: Vec::with_capacity(32),
            range,
            text: range.to_string(),
            config,
            interval,
            grace,
            horizon,
            requests: 0,
            is_answer_old: false,
            trouble,
            damage: Damage::None,
            reference: ReferenceRepair::new(),
            finalist: None,
            calm: false,
            traced,
            report: Report::default(),
        };
        world.prepare();
        world
    }

    /// Plans what will happen.
    fn prepare(&mut self) {
        note!(self, "{} servers, ports {}, a pass every {} ms", self.servers.len(), self.text, self.interval / MS);
        if self.random.percent(85) {
            // Some values are leaked from the beginning, and often few are left.
            let fill = self.random.pick(&[0, 0, 1, 2, 4]);
            let mask =
                (0..self.range.size()).filter(|_| self.random.below(5) < fill).fold(0, |mask, one| mask | 1 << one);
            self.store.put(self.encode(mask), Writer::Stranger);
            note!(self, "the key holds {mask:b}");
        } else if self.random.percent(30) {
            // Somebody makes it, and it goes again.
            let at = self.random.below(self.horizon);
            self.at(at, Event::Delete);
        }
        let mut at = 0;
        for _ in 0..self.random.between(4, 15) {
            // Often several at a time.
            at = if self.random.percent(50) { at + self.random.below(3 * MS) } else { self.random.below(self.horizon) };
            let server = self.random.below(self.servers.len() as u64) as usize;
            self.at(at, Event::Submit(server));
        }
        for server in 0..self.servers.len() {
            if self.servers[server].repairs {
                let at = self.random.below(self.interval);
                self.at(at, Event::Pass(server));
            }
            for _ in 0..self.random.pick(&[0, 0, 0, 1]) {
                let at = self.random.below(self.horizon);
                let what = if self.random.percent(50) { Event::Crash(server) } else { Event::Disconnect(server) };
                self.at(at, what);
            }
        }
        if self.random.percent(25) {
            let at = self.random.below(self.horizon);
            self.at(at, Event::Compact);
        }
        let at = self.random.below(self.horizon);
        match self.random.below(100) {
            0..12 => {
                self.at(at, Event::Delete);
                if self.random.percent(30) {
                    let at = self.random.below(self.horizon);
                    self.at(at, Event::Delete);
                }
            }
            12..15 => self.at(at, Event::Spoil),
            15..24 => {
                self.at(at, Event::Restore);
                let back = at - self.random.below(at.min(self.interval) + 1);
                self.at(back, Event::Backup);
            }
            24..34 => {
                self.at(at / 2, Event::ReferenceRepair { tries: 0 });
                for _ in 0..self.random.below(4) {
                    let at = self.random.below(self.horizon);
                    self.at(at, Event::ReferencePick { tries: 0 });
                }
            }
            _ => {}
        }
        if self.random.percent(20) {
            self.at(self.horizon, Event::Calm);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        let id = self.events.len() as u32;
        self.events.push(Some(event));
        self.queue.push(Reverse((at.max(self.now), id)));
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now.saturating_add(delay), event);
    }

    fn fail(&mut self, invariant: Invariant, message: String) {
        if self.report.violation.is_none() {
            note!(self, "VIOLATION of {invariant:?}: {message}");
            self.report.violation = Some(Violation { invariant, message });
        }
    }

    fn run(&mut self) {
        let end = self.horizon + self.grace * 8;
        while let Some(Reverse((at, id))) = self.queue.pop() {
            if at > end || self.report.violation.is_some() {
                break;
            }
            self.now = at;
            let Some(event) = self.events[id as usize].take() else { continue };
            if matches!(event, Event::Poll(server) if self.servers[server].poll_at != at) {
                continue;
            }
            self.report.steps += 1;
            if self.report.steps > LONGEST {
                self.fail(Invariant::I6, "the schedule does not come to an end".into());
                break;
            }
            self.step(event);
        }
        if self.report.violation.is_none() {
            let late = self.servers.iter().flat_map(|server| &server.open).find(|open| open.deadline < self.now);
            if let Some(message) = late.map(|open| format!("{open:?} has not ended by {}", self.now)) {
                self.fail(Invariant::I6, message);
            }
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Poll(server) => {
                self.servers[server].poll_at = u64::MAX;
                self.drive(server);
            }
            Event::Apply(sent) => self.apply(*sent),
            Event::Reply { server, incarnation, id, epoch, reply } => {
                self.is_answer_old = epoch != self.store.epoch;
                self.reply(server, incarnation, id, &reply);
                self.is_answer_old = false;
            }
            Event::GiveUp { server, incarnation, id } => {
                if self.is_under_way(server, incarnation, id) {
                    note!(self, "server {server} gives request {id} up");
                    self.servers[server].flight = None;
                    self.servers[server].committer.unknown(duration(self.now));
                    self.drive(server);
                }
            }
            Event::Submit(server) if self.servers[server].up => self.submit_any(server),
            Event::Cancel { server, incarnation, ticket } => {
                if self.servers[server].up && self.servers[server].incarnation == incarnation {
                    note!(self, "server {server}: {ticket:?} is cancelled");
                    self.servers[server].committer.cancel(ticket);
                    self.drive(server);
                }
            }
            Event::CreateService(claim) => self.create_service(claim),
            Event::DeleteService(claim) => self.delete_service(claim),
            Event::Release { claim, anchor } => self.release(claim, anchor),
            Event::Pass(server) => self.pass(server),
            Event::List { server, incarnation } => {
                if self.servers[server].up && self.servers[server].incarnation == incarnation {
                    self.list(server);
                }
            }
            Event::Crash(server) => self.crash(server),
            Event::Start(server) => self.start(server),
            Event::Disconnect(server) => {
                if self.servers[server].up {
                    self.disconnect(server);
                }
            }
            Event::Watch { server, stream } => self.watch(server, stream),
            Event::Compact => {
                note!(self, "compacted");
                self.store.compacted = self.store.revision();
            }
            Event::Delete => self.delete(),
            Event::Spoil => self.spoil(),
            Event::Backup => self.backup = Some(Box::new(self.store.clone())),
            Event::Restore => self.restore(),
            Event::ReferenceRepair { .. }
            | Event::ReferenceWrite { .. }
            | Event::ReferencePick { .. }
            | Event::ReferenceTake { .. } => self.reference(event),
            Event::Calm => self.become_calm(),
            Event::Finale(passes) => self.finale(passes),
            Event::Check => self.check_leaks(),
            Event::Submit(_) => {}
        }
    }

    fn encode(&self, mask: Mask) -> Vec<u8> {
        let mut stored = RangeAllocation::new(Form::Protobuf);
        stored.range.clone_from(&self.text);
        stored.data = data_of(mask);
        stored.encode()
    }

    fn latency(&mut self) -> u64 {
        self.random.between(MS / 4, 3 * MS)
    }

    // What a server does.

    /// Lets a server's committer work until it waits for something.
    fn drive(&mut self, server: usize) {
        loop {
            for finished in self.servers[server].committer.take_finished() {
                self.finished(server, finished.ticket, finished.outcome);
            }
            self.keep_watch(server);
            match self.servers[server].committer.poll(duration(self.now)) {
                Step::Send(request) => self.send(server, request),
                Step::WaitUntil(until) => {
                    let until = microseconds(until).max(self.now + 1);
                    if self.servers[server].poll_at != until {
                        self.servers[server].poll_at = until;
                        self.at(until, Event::Poll(server));
                    }
                    break;
                }
                Step::Idle => break,
            }
        }
        // What a poll ended.
        let finished = self.servers[server].committer.take_finished();
        if !finished.is_empty() {
            for finished in finished {
                self.finished(server, finished.ticket, finished.outcome);
            }
            self.drive(server);
        }
    }

    fn send(&mut self, server: usize, request: Request) {
        self.requests += 1;
        let id = self.requests;
        let incarnation = self.servers[server].incarnation;
        self.servers[server].flight = Some(id);
        match &request {
            Request::Read => note!(self, "server {server} reads ({id})"),
            Request::Confirm { guard } => note!(self, "server {server} confirms r{} ({id})", guard.mod_revision),
            Request::Swap { guard, value } => note!(
                self,
                "server {server} swaps r{} for {:b} ({id})",
                guard.mod_revision,
                crate::store::mask_of(value)
            ),
        }
        let (there, back) = (self.latency(), self.latency());
        let patience = self.random.pick(&[30 * MS, 30 * MS, self.interval / 4, 2 * self.grace]);
        let trouble = !self.calm && self.random.percent(self.trouble);
        let (apply, then) = match self.random.below(if trouble { 6 } else { 1 }) {
            // The request is lost, or its answer.
            1 => (None, None),
            2 => (Some(there), None),
            // It comes late, maybe after it was given up; or its answer does.
            3 => (Some(there + self.random.below(self.interval)), Some(back)),
            4 => (Some(there), Some(back + self.random.below(self.grace + self.interval))),
            5 => (Some(there + self.random.below(60 * MS)), Some(back)),
            _ => (Some(there), Some(back)),
        };
        let epoch = self.store.epoch;
        if let Some(delay) = apply {
            let told = self.servers[server].told;
            let mut setting = self.servers[server].open.iter().filter(|open| open.what.sets());
            let sole = setting.next().map(|open| open.ticket).filter(|_| setting.next().is_none());
            self.after(
                delay,
                Event::Apply(Box::new(Sent { server, incarnation, id, epoch, request, sole, told, then })),
            );
        }
        if trouble || apply.is_none() || then.is_none() {
            self.after(patience, Event::GiveUp { server, incarnation, id });
        }
    }

    fn is_under_way(&self, server: usize, incarnation: u32, id: u32) -> bool {
        let server = &self.servers[server];
        server.up && server.incarnation == incarnation && server.flight == Some(id)
    }

    fn apply(&mut self, sent: Sent) {
        let Sent { server, incarnation, id, epoch, request, sole, told, then } = sent;
        if epoch != self.store.epoch {
            // It went to a store that is gone.
            return self.after(30 * MS, Event::GiveUp { server, incarnation, id });
        }
        if self.trouble > 0 && !self.calm && self.random.percent(1) && self.is_under_way(server, incarnation, id) {
            note!(self, "request {id} is refused");
            self.servers[server].flight = None;
            self.servers[server].committer.refused(duration(self.now), "no space");
            return self.drive(server);
        }
        let is_swap = matches!(request, Request::Swap { .. });
        let reply = self.store.perform(request, Writer::Server(server));
        if is_swap && reply.held {
            note!(self, "swap {id} of server {server} is written: {:b}", self.store.mask());
            if let Some(version) = self.store.log.last_mut() {
                version.sole = sole;
            }
            self.check_creation(server, told);
            self.wrote(Writer::Server(server));
        }
        if let Some(delay) = then {
            self.after(delay, Event::Reply { server, incarnation, id, epoch, reply });
        }
    }

    fn reply(&mut self, server: usize, incarnation: u32, id: u32, reply: &Reply) {
        if !self.is_under_way(server, incarnation, id) {
            return;
        }
        note!(self, "server {server} is answered ({id}), {}", if reply.held { "held" } else { "current" });
        let one = &mut self.servers[server];
        one.flight = None;
        one.told = reply.header.revision;
        let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
        let answer = if reply.held { Answer::Held } else { Answer::Current(key) };
        one.committer.answered(duration(self.now), reply.header, answer);
        if ShellFault::RetriesCount.is_on()
            && !reply.held
            && let Pass::Repairing { ticket } = one.pass
        {
            one.committer.cancel(ticket);
            one.pass = Pass::None;
            one.repeats = true;
            self.after(0, Event::Pass(server));
        }
        self.drive(server);
    }

    /// Starts, moves on or ends the watch of a server's key.
    fn keep_watch(&mut self, server: usize) {
        let from = self.servers[server].committer.watch_from();
        match (from, self.servers[server].watch) {
            (None, _) => self.servers[server].watch = None,
            (Some(_), Some(_)) => {}
            (Some(from), None) => {
                self.requests += 1;
                let stream = self.requests;
                self.servers[server].watch = Some((stream, from));
                self.servers[server].is_watch_due = true;
                let delay = self.watch_delay();
                self.after(delay, Event::Watch { server, stream });
            }
        }
    }

    fn watch_delay(&mut self) -> u64 {
        let slow = !self.calm && self.random.percent(20);
        if slow { self.random.below(300 * MS) } else { self.latency() }
    }

    /// A watch tells what it has.
    fn watch(&mut self, server: usize, stream: u32) {
        let Some((_, from)) = self.servers[server].watch.filter(|(number, _)| *number == stream) else { return };
        self.servers[server].is_watch_due = false;
        if from <= self.store.compacted {
            note!(self, "the watch of server {server} from r{from} is compacted");
            self.servers[server].watch = None;
            self.servers[server].committer.watch_failed();
            return self.drive(server);
        }
        let first = self.store.log.partition_point(|version| version.revision < from);
        let mut next = from;
        for at in first..self.store.log.len() {
            let version = &self.store.log[at];
            next = version.revision + 1;
            if !self.calm && self.trouble > 0 && self.random.percent(3) {
                note!(self, "the watch of server {server} skips r{}", next - 1);
                continue;
            }
            note!(self, "the watch of server {server} tells r{}", next - 1);
            let version = &self.store.log[at];
            let change = match &version.key {
                Some(key) => Change::Put(KeyValue { state: key.state, value: &key.value }),
                None => Change::Delete { revision: version.revision },
            };
            self.servers[server].committer.watched(change);
        }
        self.servers[server].watch = Some((stream, next));
        if next > from {
            self.drive(server);
        }
    }

    /// Wakes the watches after a change of the key.
    fn wake_watches(&mut self) {
        for server in 0..self.servers.len() {
            let one = &mut self.servers[server];
            if let Some((stream, _)) = one.watch
                && !std::mem::replace(&mut one.is_watch_due, true)
            {
                let delay = self.watch_delay();
                self.after(delay, Event::Watch { server, stream });
            }
        }
    }

    fn disconnect(&mut self, server: usize) {
        note!(self, "the connection of server {server} is made anew");
        // An answer may be on its way already.
        if self.random.percent(60) && self.servers[server].flight.take().is_some() {
            self.servers[server].committer.unknown(duration(self.now));
        }
        self.servers[server].committer.reconnected();
        self.drive(server);
    }

    fn crash(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        note!(self, "server {server} crashes");
        let one = &mut self.servers[server];
        one.up = false;
        one.incarnation += 1;
        (one.flight, one.watch, one.pass, one.poll_at) = (None, None, Pass::None, u64::MAX);
        one.open.clear();
        for claim in &mut self.claims {
            // Some were about to write the Service, which happens all the same.
            if claim.server == server && claim.state == State::Pending && self.random.percent(50) {
                claim.state = State::Ended;
            }
        }
        let delay = self.random.below(self.interval);
        self.after(delay, Event::Start(server));
    }

    fn start(&mut self, server: usize) {
        if self.servers[server].up {
            return;
        }
        note!(self, "server {server} starts");
        let committer = Committer::new(self.range, self.config, self.random.fork());
        let one = &mut self.servers[server];
        one.up = true;
        one.committer = committer;
        one.passes = Passes::new(NonZeroU8::new(3).expect("not zero"), duration(self.interval));
        one.sightings = [Sightings::default(); 64];
        one.last_pass = None;
    }

    // What callers do.

    fn submit(&mut self, server: usize, operation: Operation<PortRange>, what: Submitted, deadline: u64) -> Ticket {
        let (revision, epoch) = (self.store.revision(), self.store.epoch);
        self.servers[server].creates |= matches!(what, Submitted::Create);
        let ticket = self.servers[server].committer.submit(operation, duration(deadline));
        note!(self, "server {server} takes on {ticket:?}: {what:?}");
        self.servers[server].open.push(Open { ticket, what, deadline, revision, epoch });
        ticket
    }

    fn deadline(&mut self) -> u64 {
        if self.calm {
            return self.now + self.grace;
        }
        match self.random.below(10) {
            0..2 => u64::MAX,
            2 => self.now + self.random.below(10 * MS),
            _ => self.now + self.random.between(self.interval / 10, self.interval),
        }
    }

    fn submit_any(&mut self, server: usize) {
        let deadline = self.deadline();
        let range = self.range;
        let (operation, what) = match self.random.below(100) {
            0..6 => (Operation::Read, Submitted::Read { is_pass: false }),
            6..10 => (Operation::Create, Submitted::Create),
            10..50 => (Operation::Allocate(vec![Wanted::Next]), Submitted::Allocate { named: 0, count: 1 }),
            kind => {
                let count = if kind < 85 { 1 } else { self.random.between(2, 4) as usize };
                let mut named = 0;
                let mut wanted = Vec::with_capacity(count);
                for index in 0..count {
                    if index > 0 && self.random.percent(50) {
                        wanted.push(Wanted::Next);
                        continue;
                    }
                    // The lowest are asked for most.
                    let limit = if self.random.percent(60) { 3 } else { u64::from(range.size()) };
                    let offset = self.random.below(limit) as u32;
                    if named >> offset & 1 == 0 {
                        named |= 1 << offset;
                        wanted.push(Wanted::This(LOW + offset as u16));
                    }
                }
                let count = wanted.len();
                (Operation::Allocate(wanted), Submitted::Allocate { named, count })
            }
        };
        let ticket = self.submit(server, operation, what, deadline);
        if self.random.percent(8) {
            let incarnation = self.servers[server].incarnation;
            let delay = self.random.below(8 * MS);
            self.after(delay, Event::Cancel { server, incarnation, ticket });
        }
        self.drive(server);
    }

    fn create_service(&mut self, claim: usize) {
        let Claim { offset, state, use_until, revision, .. } = self.claims[claim];
        if state != State::Pending {
            return;
        }
        if self.now >= use_until {
            self.claims[claim].state = State::Ended;
            return self.release(claim, revision);
        }
        if self.store.list().any(|other| other == offset) {
            if self.damage == Damage::None {
                return self.fail(Invariant::I3, format!("two Services have offset {offset}"));
            }
            self.report.damage += 1;
        }
        self.store.create_service(offset, claim);
        self.claims[claim].state = State::Live;
        note!(self, "a Service with offset {offset} is written");
        if self.random.percent(60) && !self.calm {
            let delay = self.random.below(2 * self.interval);
            self.after(delay, Event::DeleteService(claim));
        }
    }

    fn delete_service(&mut self, claim: usize) {
        let Some(revision) = self.store.delete_service(claim) else { return };
        note!(self, "the Service with offset {} is deleted", self.claims[claim].offset);
        self.claims[claim].state = State::Ended;
        if self.random.percent(80) {
            let delay = if self.random.percent(70) { self.latency() } else { self.random.below(3 * self.interval) };
            self.after(delay, Event::Release { claim, anchor: revision });
        }
        if self.random.percent(8) {
            let delay = self.random.below(2 * self.interval);
            self.after(delay, Event::Release { claim, anchor: revision });
        }
    }

    fn release(&mut self, claim: usize, anchor: u64) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        if !self.servers[server].up {
            return;
        }
        let offset = self.claims[claim].offset;
        let epoch = self.store.epoch;
        self.servers[server].rights.push(Right { offset, anchor, epoch });
        let deadline = self.deadline();
        let operation = Operation::Release { value: LOW + offset as u16, anchor };
        self.submit(server, operation, Submitted::Release { claim, offset, anchor }, deadline);
        self.drive(server);
    }

    // What comes of operations.

    fn finished(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
        let open = &mut self.servers[server].open;
        let Some(at) = open.iter().position(|open| open.ticket == ticket) else {
            return self.fail(Invariant::I6, format!("{ticket:?} of server {server} ended twice"));
        };
        let open = open.swap_remove(at);
        note!(self, "server {server}: {ticket:?} ends: {outcome:?}");
        if open.deadline < self.now {
            self.fail(Invariant::I6, format!("{open:?} ended at {}", self.now));
        }
        if !self.is_answer_old {
            self.check_answer(server, &open, &outcome);
        }
        match (&open.what, outcome) {
            (Submitted::Allocate { count, .. }, Outcome::Allocated { values, revision, use_until }) => {
                if values.len() != *count {
                    return self.fail(Invariant::I1, format!("{} values for {count} requests", values.len()));
                }
                for value in values {
                    self.acknowledged(server, u32::from(value - LOW), revision, microseconds(use_until));
                }
            }
            (Submitted::Release { claim, anchor, .. }, Outcome::Unknown | Outcome::Failed(_))
                if self.random.percent(50) && !self.calm =>
            {
                let delay = self.latency();
                self.after(delay, Event::Release { claim: *claim, anchor: *anchor });
            }
            (Submitted::Read { is_pass: true }, outcome) => self.seen(server, ticket, outcome),
            (Submitted::Repair, _) => {
                if matches!(&self.servers[server].pass, Pass::Repairing { ticket: own } if *own == ticket) {
                    self.servers[server].pass = Pass::None;
                }
            }
            _ => {}
        }
    }

    fn acknowledged(&mut self, server: usize, offset: u32, revision: u64, use_until: u64) {
        self.report.allocations += 1;
        let bit = 1 << offset;
        if self.is_answer_old {
            // True in the history of that store.
            return;
        }
        let Some(at) = self.store.at(revision).filter(|at| self.store.log[*at].revision == revision) else {
            return self
                .fail(Invariant::I1, format!("offset {offset} is acknowledged at r{revision}, which changed nothing"));
        };
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let version = &mut self.store.log[at];
        let fresh = before & bit == 0 && version.mask & bit != 0;
        if !fresh || version.acknowledged & bit != 0 || version.writer != Writer::Server(server) {
            let (mask, how) = (version.mask, if fresh { "already, or by another" } else { "without a change" });
            return self.fail(
                Invariant::I1,
                format!("offset {offset} is acknowledged at r{revision} {how}: {before:b}, {mask:b}"),
            );
        }
        version.acknowledged |= bit;
        if self.store.set_since[offset as usize] != revision {
            if self.damage == Damage::None {
                return self
                    .fail(Invariant::I2, format!("offset {offset}, acknowledged at r{revision}, is free by now"));
            }
            self.report.damage += 1;
        }
        let claim = self.claims.len();
        self.claims.push(Claim { offset, revision, use_until, server, state: State::Pending });
        let left = use_until.saturating_sub(self.now);
        match self.random.below(20) {
            0..10 => {
                let delay = self.random.below(20 * MS).min(left);
                self.after(delay, Event::CreateService(claim));
            }
            10..15 => {
                let delay = self.random.below(left.max(1));
                self.after(delay, Event::CreateService(claim));
            }
            // In the last moment.
            15 | 16 => self.after(left.saturating_sub(1), Event::CreateService(claim)),
            17 | 18 => {
                self.claims[claim].state = State::Ended;
                let delay = self.random.below(self.interval);
                self.after(delay, Event::Release { claim, anchor: revision });
            }
            _ => self.claims[claim].state = State::Ended,
        }
    }

    /// Whether a definite answer was true at some time since the submission.
    fn check_answer(&mut self, server: usize, open: &Open, outcome: &Outcome<PortRange>) {
        if open.epoch != self.store.epoch {
            return;
        }
        let first = self.store.at(open.revision);
        let log = &self.store.log;
        // Before each change, after it, and in the middle: what is set comes before what is cleared.
        let before = |at: usize| at.checked_sub(1).map_or(0, |before| log[before].mask);
        let ever = |is_true: &dyn Fn(Mask) -> bool| {
            first.map_or(is_true(0), |first| is_true(log[first].mask))
                || (first.map_or(0, |first| first + 1)..log.len())
                    .any(|at| is_true(log[at].mask) || is_true(log[at].mask | before(at)))
        };
        let all = u64::MAX >> (64 - self.range.size());
        let truth = match (&open.what, outcome) {
            (Submitted::Allocate { named, count: 1 }, Outcome::Failed(Failure::Allocate(_))) => {
                ever(&|mask| if *named == 0 { mask == all } else { mask & named != 0 })
            }
            (Submitted::Allocate { named, .. }, Outcome::Failed(Failure::Allocate(_))) => {
                // Some value of the batch was in use, or there were too few.
                ever(&|mask| mask & named != 0 || (all & !mask).count_ones() < 3)
            }
            (_, Outcome::Failed(Failure::NotInitialised)) => {
                let missing = |at: usize| log[at].key.is_none();
                first.is_none_or(missing) || (first.map_or(0, |first| first + 1)..log.len()).any(missing)
            }
            (Submitted::Release { offset, anchor, .. }, Outcome::Released { freed: false }) => {
                let free = |mask: Mask| mask >> offset & 1 == 0;
                let anchored = self.store.at((*anchor).min(open.revision)).map_or(0, |at| at);
                log.is_empty() || log[anchored..].iter().any(|version| free(version.mask))
            }
            (Submitted::Release { offset, .. }, Outcome::Released { freed: true }) => {
                ever(&|mask| mask >> offset & 1 == 0)
            }
            (_, Outcome::Read(view)) => {
                view.revision >= open.revision && mask_of(&view.used) == self.store.mask_at(view.revision)
            }
            (_, Outcome::Created { .. }) => {
                let there = |at: usize| log[at].key.is_some();
                first.is_some_and(there) || (first.map_or(0, |first| first + 1)..log.len()).any(there)
            }
            _ => true,
        };
        if !truth {
            return self.fail(Invariant::I7, format!("server {server} answers {open:?} with {outcome:?}"));
        }
        // Who is told that a value is taken must not have taken it himself.
        if let (Submitted::Allocate { named, count: 1 }, Outcome::Failed(Failure::Allocate(_))) = (&open.what, outcome)
            && *named != 0
            && first.is_none_or(|first| log[first].mask & named == 0)
            && self.damage == Damage::None
        {
            let from = first.map_or(0, |first| first + 1);
            let by_others = (from..log.len()).any(|at| {
                log[at].mask & !before(at) & named != 0
                    && !(log[at].writer == Writer::Server(server) && log[at].sole == Some(open.ticket))
            });
            if !by_others {
                return self
                    .fail(Invariant::I6, format!("server {server} has carried out {open:?}, and says {outcome:?}"));
            }
        }
        // A release that failed has not cleared anything, and will not.
        if let (Submitted::Release { offset, anchor, .. }, Outcome::Failed(_)) = (&open.what, outcome) {
            let rights = &mut self.servers[server].rights;
            if let Some(at) = rights.iter().position(|right| right.offset == *offset && right.anchor == *anchor) {
                rights.swap_remove(at);
            }
            let from = first.map_or(0, |first| first + 1);
            let done = (from..log.len()).find(|at| {
                let cleared = before(*at) & !log[*at].mask;
                log[*at].writer == Writer::Server(server) && cleared >> offset & 1 == 1
            });
            if let Some(at) = done
                && !self.servers[server].rights.iter().any(|right| right.offset == *offset)
                && !self.was_own_release(server, *offset, at)
            {
                let revision = self.store.log[at].revision;
                self.fail(Invariant::I6, format!("{open:?} failed, and was carried out at r{revision}"));
            }
        }
    }

    /// Whether the change at this place in the log cleared what this server had set for nobody.
    fn was_own_release(&self, server: usize, offset: u32, at: usize) -> bool {
        let set = self.store.log[..at].windows(2).rev().find(|two| (two[1].mask & !two[0].mask) >> offset & 1 == 1);
        set.is_none_or(|two| two[1].writer == Writer::Server(server) && two[1].acknowledged >> offset & 1 == 0)
    }

    /// Looks whether a pass has made the range anew without what Services use.
    ///
    /// A server that was not told of the deletion cannot know: no guard tells a key that was made and deleted meanwhile
    /// from one that never was.
    fn check_creation(&mut self, server: usize, told: u64) {
        let Some(deleted) = self.store.log.len().checked_sub(2).map(|at| &self.store.log[at]) else { return };
        if deleted.key.is_some() || told < deleted.revision || self.servers[server].creates {
            return;
        }
        let used = mask(self.store.list_at(deleted.revision)) & mask(self.store.list());
        if used & !self.store.mask() != 0 {
            let message = format!("server {server} makes the range anew without what Services use: {used:b}");
            self.fail(Invariant::I5, message);
        }
    }

    /// Looks at the last change of the key.
    fn wrote(&mut self, writer: Writer) {
        let at = self.store.log.len() - 1;
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        let before_since = self.store.log[..at].iter().rev();
        let spoilt = |version: &Version| version.key.as_ref().is_some_and(|key| key.value.starts_with(SPOILT));
        if let Writer::Server(server) = writer
            && at.checked_sub(1).is_some_and(|before| spoilt(&self.store.log[before]))
        {
            return self.fail(Invariant::I8, format!("server {server} overwrites what it cannot read"));
        }
        let cleared = before & !self.store.log[at].mask;
        for offset in bits(cleared) {
            // Since when it had been in use.
            let since = before_since
                .clone()
                .take_while(|version| version.mask >> offset & 1 == 1)
                .last()
                .map_or(0, |version| version.revision);
            if let Writer::Server(server) = writer {
                let store = &self.store;
                let valid = |right: &Right| {
                    right.offset == offset
                        && right.anchor >= since
                        && (right.epoch == store.epoch || right.anchor <= store.forked_at)
                };
                let set = &store.log[store.at(since).unwrap_or(0)];
                let own = set.writer == Writer::Server(server) && set.acknowledged >> offset & 1 == 0;
                if !self.servers[server].rights.iter().any(valid) && !own {
                    return self
                        .fail(Invariant::I4, format!("server {server} clears offset {offset} without a right to"));
                }
                self.report.cleared += 1;
            }
            let owned = self.claims.iter().any(|claim| claim.offset == offset && claim.state != State::Ended);
            if owned {
                if self.damage == Damage::None {
                    return self.fail(Invariant::I2, format!("{writer:?} clears offset {offset}, which has an owner"));
                }
                self.report.damage += 1;
            }
        }
        self.wake_watches();
    }

    // Repair.

    fn pass(&mut self, server: usize) {
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

    fn seen(&mut self, server: usize, ticket: Ticket, outcome: Outcome<PortRange>) {
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

    fn list(&mut self, server: usize) {
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
            Diff { read, set: range.set(), clear: range.clear(), duplicates: range.duplicates().to_vec() }
        } else {
            let outcome = pass.finish(Leaks::Keep(one.passes.counters()));
            let more = if one.repeats { 1 << 33 } else { 0 };
            with_more(more, || one.passes.diff(&outcome.ranges[0], &mut one.committer))
        };
        one.repeats = false;
        note!(self, "server {server} has passed: sets {:b}, clears {:b}", mask_of(&diff.set), mask_of(&diff.clear));
        let deadline = self.deadline();
        let ticket = self.submit(server, Operation::Repair(Box::new(diff)), Submitted::Repair, deadline);
        self.servers[server].pass = Pass::Repairing { ticket };
        self.drive(server);
    }

    // What happens to the store.

    fn delete(&mut self) {
        if self.store.key().is_none() {
            return;
        }
        note!(self, "the key is deleted");
        self.damage = Damage::Deleted;
        self.store.delete();
        self.wrote(Writer::Stranger);
        if self.random.percent(60) {
            // Somebody makes it anew, from what Services use.
            let in_use = mask(self.store.list());
            self.store.put(self.encode(in_use), Writer::Stranger);
            note!(self, "the key is made anew: {in_use:b}");
            for _ in 0..self.random.below(3) {
                let offset = self.random.below(u64::from(self.range.size()));
                let value = self.encode(self.store.mask() | 1 << offset);
                self.store.put(value, Writer::Stranger);
            }
            self.wrote(Writer::Stranger);
        }
    }

    /// Somebody writes what is no RangeAllocation, and in most cases puts it right later.
    fn spoil(&mut self) {
        self.damage = Damage::Deleted;
        let before = self.store.mask();
        let spoilt = self.store.key().is_some_and(|key| key.value.starts_with(SPOILT));
        let value = if spoilt { self.encode(mask(self.store.list())) } else { [SPOILT, &[before as u8]].concat() };
        note!(self, "somebody writes {:?}", value.escape_ascii().to_string());
        self.store.put(value, Writer::Stranger);
        self.wrote(Writer::Stranger);
        if !spoilt && !self.calm && self.random.percent(70) {
            let delay = self.random.below(self.interval);
            self.after(delay, Event::Spoil);
        }
    }

    fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.damage = Damage::Restored;
        let other_cluster = self.random.percent(50);
        self.store.restore(&backup, other_cluster);
        note!(self, "the store is restored from a backup: {:b}", self.store.mask());
        for server in 0..self.servers.len() {
            if self.servers[server].up {
                self.disconnect(server);
            }
        }
    }

    /// A step of the writer that behaves like the reference.
    fn reference(&mut self, event: Event) {
        self.damage = Damage::Reference;
        if self.store.key().is_none() || self.now > self.horizon {
            return;
        }
        let (version, mask_now) = (self.store.state().mod_revision, self.store.mask());
        match event {
            Event::ReferenceRepair { tries } => {
                let revision = self.store.revision();
                let list = mask(self.store.list_at(revision - self.random.below(4).min(revision)));
                let rebuilt = self.reference.rebuild(mask_now, list);
                let delay = self.latency();
                self.after(delay, Event::ReferenceWrite { version, mask: rebuilt, tries });
                if tries == 0 {
                    let delay = self.interval;
                    self.after(delay, Event::ReferenceRepair { tries: 0 });
                }
            }
            Event::ReferenceWrite { version: read, mask, tries } => {
                if read == version {
                    note!(self, "the reference writes {mask:b}");
                    self.store.put(self.encode(mask), Writer::Reference);
                    self.wrote(Writer::Reference);
                } else if tries < 4 {
                    let delay = (10 * MS) << (2 * tries);
                    self.after(delay, Event::ReferenceRepair { tries: tries + 1 });
                }
            }
            Event::ReferencePick { tries } => {
                let free: Vec<u32> = (0..self.range.size()).filter(|offset| mask_now >> offset & 1 == 0).collect();
                if !free.is_empty() {
                    let offset = self.random.pick(&free);
                    let delay = self.latency();
                    self.after(delay, Event::ReferenceTake { version, mask: mask_now | 1 << offset, offset, tries });
                }
            }
            Event::ReferenceTake { version: read, mask, offset, tries } => {
                if read == version {
                    note!(self, "the reference takes offset {offset}: {mask:b}");
                    self.store.put(self.encode(mask), Writer::Reference);
                    self.wrote(Writer::Reference);
                    let claim = self.claims.len();
                    let (revision, use_until) = (self.store.revision(), self.now + self.grace);
                    self.claims.push(Claim { offset, revision, use_until, server: usize::MAX, state: State::Pending });
                    let delay = self.random.below(self.grace);
                    self.after(delay, Event::CreateService(claim));
                } else if tries < 4 {
                    let delay = self.latency();
                    self.after(delay, Event::ReferencePick { tries: tries + 1 });
                }
            }
            _ => {}
        }
    }

    // The end of some schedules: no more faults, and one server tidies up.

    fn become_calm(&mut self) {
        note!(self, "no more faults");
        self.calm = true;
        for server in 0..self.servers.len() {
            self.start(server);
            // What a watch left out, it is told of now.
            if self.servers[server].watch.take().is_some() {
                self.servers[server].committer.watch_failed();
                self.drive(server);
            }
        }
        let server = self.random.below(self.servers.len() as u64) as usize;
        self.finalist = Some(server);
        // All that is on its way arrives, and every Service is written or given up.
        self.after(2 * self.grace, Event::Finale(0));
    }

    fn finale(&mut self, passes: u8) {
        let Some(server) = self.finalist else { return };
        if passes == 4 {
            return self.after(self.interval, Event::Check);
        }
        self.pass(server);
        self.after(self.interval * 105 / 100, Event::Finale(passes + 1));
    }

    fn check_leaks(&mut self) {
        let (stored, in_use) = (self.store.mask(), mask(self.store.list()));
        if self.store.key().is_some_and(|key| key.value.starts_with(SPOILT)) {
            return;
        }
        if stored != in_use {
            self.fail(Invariant::I5, format!("in use are {in_use:b}, stored {stored:b}"));
        }
    }
}

fn mask(offsets: impl Iterator<Item = u32>) -> Mask {
    offsets.fold(0, |mask, offset| mask | 1 << offset)
}
