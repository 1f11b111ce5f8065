//! One schedule: servers, a store, callers, and all that can go wrong between them, from one seed.

macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.traced {
            let now = $world.now;
            let _ = write!($world.report.trace, "{:>10.3} ms  r{:<3} ", now as f64 / 1000.0, $world.store.revision());
            let _ = writeln!($world.report.trace, $($text)*);
        }
    };
}

mod callers;
mod checks;
mod network;
mod plan;
mod repair;
mod trouble;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper::allocator::Strategy;
use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{Committer, Config, Passes, Request, Ticket};
use rangekeeper::envelope::{Form, RangeAllocation};
use rangekeeper::ports::PortRange;

use crate::random::Random;
use crate::reference::ReferenceRepair;
use crate::server::{Kind, Pass, Server, Sightings};
use crate::store::{Mask, Reply, Store, Version, Writer, data_of};
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
    /// Swaps without an answer of servers that have a sidecar.
    pub unanswered: u32,
    /// Those of them that were found never to be written.
    pub fenced: u32,
    /// Allocations that were acknowledged though their swap had no answer.
    pub proven: u32,
    /// Creators that were slower than the grace.
    pub slow: u32,
    /// Those of them whose value was not theirs any more when they wrote the Service.
    pub lost: u32,
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

/// What stands under the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Missing,
    Unreadable,
    /// An object without a range.
    Uninitialised,
    OtherRange,
    Range,
}

/// An acknowledged value and its owner.
#[derive(Clone, Debug)]
struct Claim {
    offset: u32,
    revision: u64,
    use_until: u64,
    server: usize,
    state: State,
    /// Whether the Service will be written after the grace.
    is_slow: bool,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Sent {
    server: usize,
    incarnation: u32,
    id: u32,
    epoch: u32,
    request: Request,
    sole: Option<Ticket>,
    /// Whether it may be that of a repair pass.
    repairs: bool,
    /// Whether it comes twice. None of the two is refused then, which would say that it will not be carried out.
    is_double: bool,
    /// The revision of the last answer that the server had.
    told: u64,
    /// How long the answer takes, if there will be one.
    then: Option<u64>,
}

#[derive(Debug)]
enum Event {
    Poll(usize),
    Apply(Box<Sent>),
    Reply {
        server: usize,
        incarnation: u32,
        id: u32,
        epoch: u32,
        reply: Reply,
    },
    GiveUp {
        server: usize,
        incarnation: u32,
        id: u32,
    },
    Submit(usize),
    Cancel {
        server: usize,
        incarnation: u32,
        ticket: Ticket,
    },
    CreateService(usize),
    DeleteService(usize),
    Release {
        claim: usize,
        anchor: u64,
    },
    Pass(usize),
    List {
        server: usize,
        incarnation: u32,
    },
    Crash(usize),
    Start(usize),
    Disconnect(usize),
    Watch {
        server: usize,
        stream: u32,
    },
    Compact,
    Delete,
    Spoil,
    Backup,
    Restore,
    /// Somebody deletes the sidecar of this number.
    DeleteSidecar(usize),
    ReferenceRepair {
        tries: u8,
    },
    ReferenceWrite {
        version: u64,
        mask: Mask,
        tries: u8,
    },
    ReferencePick {
        tries: u8,
    },
    ReferenceTake {
        version: u64,
        mask: Mask,
        offset: u32,
        tries: u8,
    },
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
    /// Whether clears depend on Services.
    guarded: bool,
    /// The sidecar that somebody will delete, as soon as it matters.
    doomed: Option<usize>,
    /// The swaps that had no answer, by their numbers.
    unanswered: Vec<u32>,
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
        // Choices of their own: schedules without sidecars and guards are the same as ever.
        let mut optional = Random::new(!seed);
        let with_sidecars = optional.percent(40);
        let guarded = optional.percent(40);
        let horizon = interval * random.between(6, 12) / 2;
        let count = random.pick(&[2, 2, 2, 2, 3, 3, 3, 4, 5]);
        let mut servers = Vec::with_capacity(count);
        for name in 0..count {
            let sidecar = with_sidecars && optional.percent(85);
            let config = Config { strategy, grace: duration(grace), sidecar };
            // A few have the name of another.
            let is_double = with_sidecars && name > 0 && optional.percent(6);
            servers.push(Server {
                up: true,
                incarnation: 0,
                config,
                committer: Committer::new(range, config, random.fork()),
                name: if is_double { name - 1 } else { name },
                decides: sidecar,
                kind: Kind::Look,
                poll_at: u64::MAX,
                flight: None,
                open: Vec::new(),
                watch: None,
                is_watch_due: false,
                repairs: random.percent(42),
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
            guarded,
            doomed: None,
            unanswered: Vec::new(),
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
        for server in 1..count {
            if world.servers[server].name != server {
                (world.servers[server].decides, world.servers[server - 1].decides) = (false, false);
            }
        }
        if with_sidecars && optional.percent(10) {
            world.doomed = Some(optional.below(count as u64) as usize);
        }
        world.prepare();
        world
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
                    self.give_up(server);
                    self.drive(server);
                }
            }
            Event::Submit(server) if self.servers[server].up => self.submit_any(server),
            Event::Cancel { server, incarnation, ticket } => {
                if self.servers[server].up && self.servers[server].incarnation == incarnation {
                    note!(self, "server {server}: {ticket:?} is cancelled");
                    let mut open = self.servers[server].open.iter_mut();
                    if let Some(open) = open.find(|open| open.ticket == ticket) {
                        open.is_cancelled = true;
                    }
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
            Event::DeleteSidecar(name) => self.delete_sidecar(name),
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
        encode(&self.text, mask)
    }

    /// What stood under the key.
    fn content(&self, version: &Version) -> Content {
        let Some(key) = &version.key else { return Content::Missing };
        if version.writer != Writer::Stranger {
            return Content::Range;
        }
        match RangeAllocation::decode(&key.value) {
            Err(_) => Content::Unreadable,
            Ok(stored) if stored.range.is_empty() => Content::Uninitialised,
            Ok(stored) if stored.range != self.text => Content::OtherRange,
            Ok(_) => Content::Range,
        }
    }
}

fn encode(range: &str, mask: Mask) -> Vec<u8> {
    let mut stored = RangeAllocation::new(Form::Protobuf);
    stored.range = range.to_owned();
    stored.data = data_of(mask);
    stored.encode()
}

fn mask(offsets: impl Iterator<Item = u32>) -> Mask {
    offsets.fold(0, |mask, offset| mask | 1 << offset)
}
