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

mod account;
mod answers;
mod callers;
mod changes;
mod clients;
mod ending;
mod event;
mod liveness;
mod machines;
mod network;
mod operator;
mod plan;
mod releases;
mod repair;
mod retrace;
mod setup;
mod stock;
mod trouble;
mod watches;
mod writes;

use std::fmt::Write;
use std::time::Duration;

use rangekeeper::commit::Config;
use rangekeeper::commit::Limits;
use rangekeeper::ports::PortRange;
use rangekeeper::range_allocation::{Form, RangeAllocation};

use crate::agenda::Agenda;
use crate::random::Random;
use crate::reference::ReferenceRepair;
use crate::server::{Origin, Server};
use crate::store::{Mask, Store, Version, Writer};
use crate::violation::{Invariant, Violation};

use clients::{Request, What};
use event::Event;

/// The first port of all ranges.
const LOW: u16 = 30_000;
/// What somebody writes in place of a stored range.
const SPOILT: &[u8] = b"not a range";
/// Thousands of microseconds.
const MS: u64 = 1000;
/// A schedule that goes on for longer than this does not end.
const LONGEST: u32 = 5000;
/// The number of the stock kube-apiserver.
const STOCK: usize = usize::MAX;

/// The result of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many events there were.
    pub steps: u32,
    /// Allocations that were acknowledged.
    pub allocations: u32,
    /// Offsets that our servers cleared.
    pub cleared: u32,
    /// Owners who lost a value, and Services that shared one, by the doing of others.
    pub damage: u32,
    /// Edits that were done.
    pub edits: u32,
    /// Edits that something stood against.
    pub refused_edits: u32,
    /// Creators that were slower than the grace.
    pub slow: u32,
    /// Those of them who no longer owned the value when they wrote the Service.
    pub lost: u32,
    /// Creators whose machine paused until their grace was over.
    pub overslept: u32,
    /// Writes of Services that did not meet their conditions.
    pub refused: u32,
    /// Restores that a server could not notice.
    pub missed: u32,
    /// What did not hold.
    pub violation: Option<Violation>,
    /// What happened, if that was asked for.
    pub trace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Acknowledged; the Service will be written.
    Pending,
    Live,
    Ended,
}

/// The content of the key.
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
    /// The Service that it is for.
    uid: u32,
    offset: u32,
    revision: u64,
    /// Until when the Service must be written, by the server's clock.
    use_until: u64,
    /// The same by the clock of all others.
    safe_until: u64,
    server: usize,
    incarnation: u32,
    /// When it was acknowledged, by the server's clock.
    acknowledged: u64,
    /// The store.
    origin: Origin,
    /// Since when its server knows that the Service is written.
    known_written: Option<(u64, u32)>,
    state: State,
}

pub(crate) struct World {
    random: Random,
    now: u64,
    agenda: Agenda<Event>,
    store: Store,
    backup: Option<Box<Store>>,
    servers: Vec<Server>,
    claims: Vec<Claim>,
    requests: Vec<Request>,
    uids: u32,
    range: PortRange,
    config: Config,
    text: String,
    /// How many offsets the schedule is about.
    size: u32,
    limits: Limits,
    /// In how many passes a leak is seen before it is cleaned.
    passes: u8,
    /// Whether clears depend on Services.
    guarded: bool,
    /// Whether writes of Services depend on the range and its fence: then some reach the store late.
    conditional: bool,
    /// Between two passes, in microseconds.
    interval: u64,
    grace: u64,
    horizon: u64,
    /// How many requests were sent and watches started.
    sent: u32,
    /// Whether the answer that is reported comes from a store that was restored since.
    is_answer_old: bool,
    /// How many of a hundred requests go wrong.
    trouble: u64,
    /// Offsets whose owners have lost them, or may, by the doing of others: what owners are promised does not hold of
    /// them.
    damaged: Mask,
    /// Offsets that others have cleared in a way that the conditions of a Service's write do not show.
    harmed: Mask,
    /// The revision at which others recreated the key last, which the conditions do not show either.
    recreated: u64,
    /// Whether the store was restored from a backup, and whether connections outlived that.
    is_restored: bool,
    is_connection_kept: bool,
    /// The oldest store that connections of today may have begun with.
    connected_since: u32,
    /// Whether the store is restored in the middle of a pass that has leaks to clean.
    is_restored_in_pass: bool,
    /// Whether others repeat after a restore what was done in the lost history, with other values, so that keys have
    /// the same revisions again.
    is_retraced: bool,
    /// Whether it is restored once such a pass has listed Services, from a backup that has a Service that was deleted
    /// before the list.
    is_restored_after_list: bool,
    /// Whether the key is created and deleted while the repair of a pass that saw it missing has no answer.
    is_made_in_pass: bool,
    /// The server whose next request is lost, and how long it waits for the answer.
    loses_next: Option<(usize, u64)>,
    /// What operators have changed by plans.
    journals: Vec<operator::Journal>,
    /// Whether there is a stock kube-apiserver: its writes of Services have no conditions, and operators stay away.
    has_stock: bool,
    /// Whether the key was deleted or spoilt, or there is a stock kube-apiserver.
    is_disturbed: bool,
    reference: ReferenceRepair,
    habits: stock::Habits,
    /// The server that repairs the range in the end.
    finalist: Option<usize>,
    calm: bool,
    traced: bool,
    report: Report,
}

/// Plays the schedule of a seed.
pub(crate) fn play(seed: u64, is_retraced: bool, traced: bool) -> Report {
    let mut world = World::new(seed, is_retraced, traced);
    world.run();
    world.report
}

fn duration(microseconds: u64) -> Duration {
    if microseconds == u64::MAX { Duration::MAX } else { Duration::from_micros(microseconds) }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

impl World {
    fn at(&mut self, at: u64, event: Event) {
        self.agenda.add(at.max(self.now), event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// What a server's clock shows.
    fn local(&self, server: usize) -> u64 {
        let server = &self.servers[server];
        server.frozen.unwrap_or(self.now - server.lag)
    }

    fn fail(&mut self, invariant: Invariant, message: String) {
        if self.report.violation.is_none() {
            note!(self, "VIOLATION of {invariant:?}: {message}");
            self.report.violation = Some(Violation { invariant, message });
        }
    }

    fn run(&mut self) {
        let end = self.horizon + self.grace * 8;
        while let Some((at, event)) = self.agenda.take() {
            if at > end || self.report.violation.is_some() {
                break;
            }
            self.now = at;
            if matches!(event, Event::Poll(server) if self.servers[server].poll_at != at) {
                continue;
            }
            if let Some(server) = self.server_of(&event)
                && server != STOCK
                && self.servers[server].frozen.is_some()
            {
                // It happens once the machine goes on.
                let until = self.servers[server].paused_until;
                if matches!(event, Event::Poll(_)) {
                    self.servers[server].poll_at = until;
                }
                self.at(until, event);
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
            self.check_all_ended();
        }
    }

    /// The server in whose process something happens.
    fn server_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Poll(server)
            | Event::Submit(server)
            | Event::Pass(server)
            | Event::Operate(server)
            | Event::ListAgain { server, .. }
            | Event::Edit { server, .. }
            | Event::Reply { server, .. }
            | Event::GiveUp { server, .. }
            | Event::Cancel { server, .. }
            | Event::Release { server, .. }
            | Event::List { server, .. }
            | Event::Fenced { server, .. }
            | Event::Watch { server, .. } => Some(*server),
            Event::Write(request) => Some(self.requests[*request].server),
            _ => None,
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Poll(server) => {
                self.servers[server].poll_at = u64::MAX;
                self.drive(server);
            }
            Event::Apply(sent) => self.apply(*sent),
            Event::Reply { server, incarnation, id, epoch, reached, reply } => {
                self.is_answer_old = epoch != self.store.epoch;
                self.reply(server, incarnation, id, (reached, epoch), &reply);
                self.is_answer_old = false;
            }
            Event::GiveUp { server, incarnation, id } => {
                if self.is_under_way(server, incarnation, id) {
                    note!(self, "server {server} stops waiting for request {id}");
                    self.give_up(server);
                    self.drive(server);
                }
            }
            Event::Submit(server) if self.servers[server].up => self.submit_any(server),
            Event::Cancel { server, incarnation, ticket } if self.is_alive(server, incarnation) => {
                note!(self, "server {server}: {ticket:?} is cancelled");
                self.servers[server].committer.cancel(ticket);
                self.drive(server);
            }
            Event::Client(uid, wish) => self.client(uid, wish),
            Event::Write(request) => self.write(request),
            Event::Arrive { request, epoch, fate } => self.arrive(request, epoch, fate),
            Event::Release { server, incarnation, release } if self.is_alive(server, incarnation) => {
                self.release(server, release);
            }
            Event::Release { server, release, .. } if !self.calm => self.release_after_start(server, release),
            Event::Pass(server) => self.pass(server),
            Event::Fence { server, incarnation, epoch, is_answered } => {
                self.write_fence(server, incarnation, epoch, is_answered);
            }
            Event::Fenced { server, incarnation, look } if self.is_alive(server, incarnation) => {
                self.fenced(server, look);
            }
            Event::List { server, incarnation } if self.is_alive(server, incarnation) => self.list(server),
            Event::Operate(server) if self.servers[server].up => self.operate(server),
            Event::ListAgain { server, incarnation, job } if self.is_alive(server, incarnation) => {
                self.list_for(server, *job);
            }
            Event::Edit { server, incarnation, job } if self.is_alive(server, incarnation) => self.edit(server, *job),
            Event::Crash(server) => self.crash(server),
            Event::Start(server) => self.start(server),
            Event::Disconnect(server) if self.servers[server].up => self.disconnect(server, 60),
            Event::Pause(server, time) => self.pause(server, time),
            Event::Resume(server, time) => self.resume(server, time),
            Event::Watch { server, stream } => self.watch(server, stream),
            Event::Compact => {
                note!(self, "compacted");
                self.store.compacted = self.store.revision();
            }
            Event::Make => self.make(),
            Event::Delete => self.delete(),
            Event::Recreate => self.recreate(),
            Event::Spoil => self.spoil(),
            Event::Backup => self.backup = Some(Box::new(self.store.clone())),
            Event::Other => self.store.write_other(),
            Event::Look(server) => self.look(server),
            Event::Restore => self.restore(),
            Event::Stock(step) => self.stock(step),
            Event::Calm => self.become_calm(),
            Event::Finale(passes) => self.finale(passes),
            Event::Check => self.check_leaks(),
            Event::Submit(_)
            | Event::Cancel { .. }
            | Event::Release { .. }
            | Event::Fenced { .. }
            | Event::List { .. }
            | Event::Operate(_)
            | Event::ListAgain { .. }
            | Event::Edit { .. }
            | Event::Disconnect(_) => {}
        }
    }

    /// The port of an offset.
    fn value(&self, offset: u32) -> u16 {
        LOW + self.store.layout.offset(offset) as u16
    }

    fn encode(&self, mask: Mask) -> Vec<u8> {
        self.encode_as(&self.text, mask)
    }

    fn encode_as(&self, range: &str, mask: Mask) -> Vec<u8> {
        let mut stored = RangeAllocation::new(Form::Protobuf);
        stored.range = range.to_owned();
        stored.data = self.store.layout.data_of(mask);
        stored.encode()
    }

    /// The content of the key.
    fn content(&self, version: &Version) -> Content {
        content(&self.text, version)
    }
}

/// The content of the key of the range `text`.
fn content(text: &str, version: &Version) -> Content {
    let Some(key) = &version.key else { return Content::Missing };
    if version.writer != Writer::Stranger {
        return Content::Range;
    }
    match RangeAllocation::decode(&key.value) {
        Err(_) => Content::Unreadable,
        Ok(stored) if stored.range.is_empty() => Content::Uninitialised,
        Ok(stored) if stored.range != text => Content::OtherRange,
        Ok(_) => Content::Range,
    }
}
