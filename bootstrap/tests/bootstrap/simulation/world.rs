//! Servers, time and chaos.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use rangekeeper_bootstrap::config::{Config, Form, Periods, Placement};
use rangekeeper_bootstrap::controller::Controller;
use rangekeeper_bootstrap::journal::Report;
use rangekeeper_bootstrap::leases::Lease;
use rangekeeper_bootstrap::lifecycle::Phase;
use rangekeeper_bootstrap::modes::Mode;
use rangekeeper_bootstrap::object::{Kind, Object, ObjectKey};
use rangekeeper_bootstrap::request::{Answer, Event as Watched, Failure, Reason, Request};

use crate::common::store::{DIRECTORY, Store};
use crate::common::{IPS, Random, USABLE, any_endpoints, any_slice, ready, slice_ready};

/// How long chaos goes on, in ms, and how long all is quiet after it.
const CHAOS: u64 = 150_000;
const QUIET: u64 = 90_000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Poll {
        server: usize,
        life: u64,
    },
    Apply {
        server: usize,
        life: u64,
        id: u64,
    },
    Answer {
        server: usize,
        life: u64,
        id: u64,
        lost: bool,
    },
    Watched {
        server: usize,
        life: u64,
        number: usize,
    },
    Chaos,
    /// In the quiet the Endpoints are deleted, and looked at a second later.
    Deletion,
    Deleted,
}

struct Server {
    address: &'static str,
    /// Counts up at each crash and start: events of another life do not arrive.
    life: u64,
    controller: Option<Controller>,
    /// Requests on the way, and answers on the way back.
    requests: Vec<(u64, Request)>,
    answers: Vec<(u64, Answer)>,
    /// Its clock is so many ms ahead.
    ahead: i64,
    /// Until when the process does not run.
    sleeps_until: u64,
    polled_next: u64,
    reports: u64,
    stops: bool,
    stopped_at: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) writes: u64,
    pub(crate) crashes: u64,
    pub(crate) ordered_stops: u64,
    pub(crate) erased_in_order: u64,
    pub(crate) lost_answers: u64,
    pub(crate) clock_jumps: u64,
    pub(crate) naps: u64,
    pub(crate) damaged_objects: u64,
    pub(crate) damaged_leases: u64,
    pub(crate) watched: u64,
    pub(crate) restored: u64,
    pub(crate) outages: u64,
    pub(crate) freed: u64,
    pub(crate) reports: u64,
    pub(crate) converged: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        for (total, part) in [
            (&mut self.writes, other.writes),
            (&mut self.crashes, other.crashes),
            (&mut self.ordered_stops, other.ordered_stops),
            (&mut self.erased_in_order, other.erased_in_order),
            (&mut self.lost_answers, other.lost_answers),
            (&mut self.clock_jumps, other.clock_jumps),
            (&mut self.naps, other.naps),
            (&mut self.damaged_objects, other.damaged_objects),
            (&mut self.damaged_leases, other.damaged_leases),
            (&mut self.watched, other.watched),
            (&mut self.restored, other.restored),
            (&mut self.outages, other.outages),
            (&mut self.freed, other.freed),
            (&mut self.reports, other.reports),
            (&mut self.converged, other.converged),
        ] {
            *total += part;
        }
    }
}

pub(crate) struct World {
    random: Random,
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    store: Store,
    servers: Vec<Server>,
    form: Form,
    placement: Placement,
    mode: Mode,
    /// What was watched so far.
    watched: Vec<Watched>,
    /// How many ms at most between two blows of chaos.
    pause: u64,
    /// Until when etcd or the API server does not answer, or answers with an error.
    etcd_away_until: u64,
    api_away_until: u64,
    api_answers_errors: bool,
    /// How many of a hundred answers are late, and how many are lost.
    late: u64,
    lost: u64,
    totals: Totals,
    violations: Vec<String>,
    /// Whether to print the events.
    prints: bool,
}

impl World {
    pub(crate) fn new(seed: u64, prints: bool) -> Self {
        let mut random = Random::new(seed);
        let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.10", "192.0.2.1"];
        let most = if random.percent(20) { 4 } else { 3 };
        let count = 1 + random.below(most) as usize;
        let servers = addresses[..count].iter().map(|address| Server {
            address,
            life: 0,
            controller: None,
            requests: Vec::new(),
            answers: Vec::new(),
            ahead: 0,
            sleeps_until: 0,
            polled_next: u64::MAX,
            reports: 0,
            stops: false,
            stopped_at: 0,
        });
        let mut world = Self {
            servers: servers.collect(),
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            store: Store::default(),
            form: random.pick(&[Form::Hooks, Form::SingleController]),
            placement: random.pick(&[Placement::Beside, Placement::Inside]),
            watched: Vec::new(),
            mode: if random.percent(85) { Mode::Lease } else { Mode::MasterCount(count as u32) },
            pause: random.pick(&[4000, 12_000, 40_000]),
            etcd_away_until: 0,
            api_away_until: 0,
            api_answers_errors: false,
            late: random.pick(&[0, 2, 10]),
            lost: random.pick(&[0, 1, 5]),
            totals: Totals::default(),
            violations: Vec::new(),
            prints,
            random,
        };
        for server in 0..count {
            if world.random.percent(80) {
                world.start(server);
            }
        }
        world.push(1000, Event::Chaos);
        world
    }

    pub(crate) fn violations(&self) -> Vec<&String> {
        self.violations.iter().chain(&self.store.violations).collect()
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    fn push(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((self.now + after, self.order, event)));
    }

    pub(crate) fn play(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > CHAOS + QUIET {
                break;
            }
            self.now = at;
            match event {
                Event::Chaos => self.chaos(),
                Event::Poll { server, life } => {
                    if self.servers[server].life == life && self.servers[server].polled_next == at {
                        self.poll(server);
                    }
                }
                Event::Apply { server, life, id } => self.apply(server, life, id),
                Event::Answer { server, life, id, lost } => self.answer(server, life, id, lost),
                Event::Watched { server, life, number } => self.sees(server, life, number),
                Event::Deletion => self.store.delete(&ObjectKey::kubernetes(Kind::Endpoints)),
                Event::Deleted => self.check_deleted(),
            }
            self.deliver();
        }
        self.now = CHAOS + QUIET;
        self.check_quiet();
        self.totals.writes = self.store.writes;
        self.totals.freed = self.store.freed.len() as u64;
        self.totals.erased_in_order = self.store.erased;
    }

    /// Sends what was written to the watches, some of which miss it until all is quiet.
    fn deliver(&mut self) {
        for event in std::mem::take(&mut self.store.events) {
            self.watched.push(event);
            for server in 0..self.servers.len() {
                if self.now >= CHAOS || self.random.percent(80) {
                    let (life, after) = (self.servers[server].life, 1 + self.random.below(50));
                    self.push(after, Event::Watched { server, life, number: self.watched.len() - 1 });
                }
            }
        }
    }

    fn sees(&mut self, server: usize, life: u64, number: usize) {
        let clock = self.clock(server);
        let found = &mut self.servers[server];
        if found.life == life
            && self.now >= found.sleeps_until
            && let Some(controller) = &mut found.controller
        {
            self.totals.watched += 1;
            controller.watched(clock, &self.watched[number]);
            self.poll(server);
        }
    }

    fn clock(&self, server: usize) -> Duration {
        let shown = 1_000_000_000_i64 + self.now as i64 + self.servers[server].ahead;
        Duration::from_millis(shown.max(0) as u64)
    }

    fn start(&mut self, server: usize) {
        let config = Config {
            advertise_address: self.servers[server].address.into(),
            form: self.form,
            placement: self.placement,
            mode: self.mode,
            periods: Periods::default(),
            ..Config::default()
        };
        let found = &mut self.servers[server];
        found.life += 1;
        found.controller = Some(Controller::new(config).unwrap());
        found.requests.clear();
        found.answers.clear();
        found.stops = false;
        found.sleeps_until = 0;
        self.poll(server);
    }

    fn poll(&mut self, server: usize) {
        let clock = self.clock(server);
        let (now, life) = (self.now, self.servers[server].life);
        let found = &mut self.servers[server];
        if now < found.sleeps_until {
            let wakes = found.sleeps_until;
            found.polled_next = wakes;
            return self.push(wakes - now, Event::Poll { server, life });
        }
        let Some(controller) = &mut found.controller else { return };
        let step = controller.poll(clock);
        let logged = step.reports.iter().filter(|report| !matches!(report, Report::Endpoints(_))).count() as u64;
        found.reports += logged;
        self.totals.reports += logged;
        for report in &step.reports {
            if self.prints {
                println!("{now} {} reports {report:?}", found.address);
            }
            if let Report::Fatal { .. } = report {
                found.stops = true;
                found.stopped_at = now;
            }
        }
        for order in step.send {
            self.servers[server].requests.push((order.id, order.request));
            let takes =
                1 + self.random.below(20) + if self.random.percent(self.late) { self.random.below(9000) } else { 0 };
            self.push(takes, Event::Apply { server, life, id: order.id });
        }
        if let Phase::Stopped { removed, .. } = step.phase {
            self.stopped(server, removed);
            return;
        }
        let wait = step.wait.map_or(5000, |wait| wait.as_millis() as u64 + 1);
        self.servers[server].polled_next = now + wait;
        self.push(wait, Event::Poll { server, life });
    }

    fn stopped(&mut self, server: usize, removed: bool) {
        let found = &mut self.servers[server];
        found.controller = None;
        found.life += 1;
        let address = found.address;
        self.totals.ordered_stops += u64::from(removed);
        if removed {
            // Its address is in nobody's list any more, unless another hand has put it there.
            let listed = ready(self.store.endpoints()).contains(&address.to_owned());
            // A put that was under way when it stopped may come to pass later; that lease runs out.
            let stopped_at = found.stopped_at;
            let lease = self.store.leases.get(&format!("{DIRECTORY}{address}"));
            if (listed && lease.is_none() || lease.is_some_and(|entry| entry.since < stopped_at)) && self.now > CHAOS {
                self.violations.push(format!("{}: {address} stopped in order and is still listed", self.now));
            }
        }
    }

    fn apply(&mut self, server: usize, life: u64, id: u64) {
        let Some(at) = self.servers[server].requests.iter().position(|(request, _)| *request == id) else { return };
        if self.servers[server].life != life {
            return;
        }
        let request = self.servers[server].requests.swap_remove(at).1;
        let is_etcd = matches!(
            request,
            Request::GetLease { .. }
                | Request::ListLeases { .. }
                | Request::PutLease { .. }
                | Request::DeleteLease { .. }
        );
        let unanswered = || Answer::Failed(Failure { reason: Reason::Unanswered, message: "no answer".into() });
        let away = if is_etcd { self.now < self.etcd_away_until } else { self.now < self.api_away_until };
        let answer = if away && !is_etcd && self.api_answers_errors {
            Answer::Failed(Failure { reason: Reason::Unavailable, message: "429".into() })
        } else if away {
            unanswered()
        } else {
            let (address, stops) = (self.servers[server].address, self.servers[server].stops);
            self.store.apply(self.now, address, stops, &request)
        };
        if self.prints {
            println!("{} {} asks {request:?}: {answer:?}", self.now, self.servers[server].address);
        }
        let lost = self.random.percent(self.lost);
        self.totals.lost_answers += u64::from(lost);
        self.servers[server].answers.push((id, if lost { unanswered() } else { answer }));
        let takes =
            1 + self.random.below(20) + if self.random.percent(self.late) { self.random.below(9000) } else { 0 };
        self.push(takes, Event::Answer { server, life, id, lost });
    }

    fn answer(&mut self, server: usize, life: u64, id: u64, lost: bool) {
        if self.servers[server].life != life {
            return;
        }
        if self.now < self.servers[server].sleeps_until {
            let wakes = self.servers[server].sleeps_until - self.now;
            return self.push(wakes, Event::Answer { server, life, id, lost });
        }
        let Some(at) = self.servers[server].answers.iter().position(|(answer, _)| *answer == id) else { return };
        let answer = self.servers[server].answers.swap_remove(at).1;
        let clock = self.clock(server);
        if lost && self.random.percent(50) {
            // The shell never says anything.
            return;
        }
        if let Some(controller) = &mut self.servers[server].controller {
            controller.answered(clock, id, answer);
            self.poll(server);
        }
    }

    fn chaos(&mut self) {
        if self.now >= CHAOS {
            return self.end_chaos();
        }
        let server = self.random.below(self.servers.len() as u64) as usize;
        let is_up = self.servers[server].controller.is_some();
        let what = self.random.below(12);
        if self.prints {
            println!("{} chaos {what} for {}", self.now, self.servers[server].address);
        }
        match what {
            0 if is_up => {
                self.totals.crashes += 1;
                self.servers[server].controller = None;
                self.servers[server].life += 1;
            }
            1 if is_up => self.stop(server),
            2..=4 if !is_up => self.start(server),
            5 => {
                self.totals.clock_jumps += 1;
                let jump = self.random.below(1_200_000) as i64 - 600_000;
                self.servers[server].ahead += jump;
            }
            6 if is_up => {
                self.totals.naps += 1;
                self.servers[server].sleeps_until = self.now + self.random.below(40_000);
            }
            7 => {
                self.totals.outages += 1;
                let until = self.now + self.random.below(35_000);
                if self.random.percent(50) {
                    self.etcd_away_until = until;
                    // Leases that would have expired in the meantime begin again.
                    self.store.extend_all(until);
                } else {
                    self.api_away_until = until;
                    self.api_answers_errors = self.random.percent(50);
                }
            }
            8 | 9 => self.damage_object(),
            10 => self.damage_lease(),
            _ => {}
        }
        let next = 200 + self.random.below(self.pause);
        self.push(next, Event::Chaos);
    }

    fn stop(&mut self, server: usize) {
        let clock = self.clock(server);
        let found = &mut self.servers[server];
        if !found.stops {
            found.stopped_at = self.now;
        }
        found.stops = true;
        if let Some(controller) = &mut found.controller {
            controller.stop(clock);
            self.poll(server);
        }
    }

    fn damage_object(&mut self) {
        self.totals.damaged_objects += 1;
        let key = |kind| ObjectKey::kubernetes(kind);
        match self.random.below(8) {
            0 => self.store.delete(&key(Kind::Endpoints)),
            1 => self.store.delete(&key(Kind::EndpointSlice)),
            2 => {
                self.store.delete(&key(Kind::Service));
                // Lost in etcd, its address still counts as allocated.
                self.store.taken = self.random.percent(50);
            }
            3 => self.store.delete(&ObjectKey::namespace("default")),
            4 | 5 => {
                let endpoints = any_endpoints(&mut self.random);
                self.store.put(self.now, Object::from(endpoints));
            }
            _ => {
                let slice = any_slice(&mut self.random);
                self.store.put(self.now, Object::from(slice));
            }
        }
    }

    fn damage_lease(&mut self) {
        self.totals.damaged_leases += 1;
        let address = self.servers[self.random.below(self.servers.len() as u64) as usize].address;
        let key = format!("{DIRECTORY}{address}");
        let Some(entry) = self.store.leases.get(&key) else { return };
        let (remaining, ttl) = (entry.expires.map(|expires| expires.saturating_sub(self.now).max(1)), entry.ttl);
        let generation = self.random.below(100) as i64;
        match self.random.below(6) {
            0 => self.store.remove_lease(&key),
            1 => self.store.put_lease(self.now, &key, b"garbage".to_vec(), remaining),
            2 => {
                let address = self.random.pick(&IPS[..USABLE]).to_owned();
                self.store.put_lease(self.now, &key, Lease { address, generation }.encode(), remaining);
            }
            3 => {
                let lease = Lease { address: "127.0.0.1".into(), generation };
                self.store.put_lease(self.now, &key, lease.encode(), remaining);
            }
            4 => {
                let lease = Lease { address: address.into(), generation };
                self.store.put_lease(self.now, &key, lease.encode(), remaining);
            }
            _ => self.store.put_lease(self.now, &key, Vec::new(), remaining),
        }
        if let Some(damaged) = self.store.leases.get_mut(&key) {
            damaged.ttl = ttl; // etcd's lease is the same
        }
    }

    /// From now on nothing happens but what the servers do; some stop in order first.
    fn end_chaos(&mut self) {
        (self.late, self.lost) = (0, 0);
        (self.etcd_away_until, self.api_away_until) = (0, 0);
        let all_stop = self.random.percent(20);
        for server in 0..self.servers.len() {
            if all_stop || self.random.percent(20) {
                self.stop(server);
            } else if self.servers[server].controller.is_none() && self.random.percent(50) {
                self.start(server);
            }
        }
        for server in &mut self.servers {
            server.sleeps_until = server.sleeps_until.min(CHAOS + 1000);
            server.reports = 0;
        }
        let deletion = CHAOS + QUIET - 10_000 - self.now;
        self.push(deletion, Event::Deletion);
        self.push(deletion + 1000, Event::Deleted);
    }

    fn live(&self) -> BTreeSet<String> {
        let live = self.servers.iter().filter(|server| server.controller.is_some() && !server.stops);
        live.map(|server| server.address.to_owned()).collect()
    }

    /// A second after the Endpoints were deleted they are back.
    fn check_deleted(&mut self) {
        let live = self.live();
        let listed: BTreeSet<String> = ready(self.store.endpoints()).into_iter().collect();
        if !listed.is_superset(&live) {
            self.violations.push(format!("{}: {live:?} live, {listed:?} are listed after a deletion", self.now));
        }
        self.totals.restored += u64::from(!live.is_empty());
    }

    /// After a time without disturbance all is as it should be.
    fn check_quiet(&mut self) {
        self.store.expire(self.now);
        let live = self.live();
        for server in &self.servers {
            if server.reports > 12 {
                self.violations.push(format!("{} reports {} times in the quiet", server.address, server.reports));
            }
            if server.stops && server.controller.is_some() {
                self.violations.push(format!("{} has not stopped", server.address));
            }
        }
        if live.is_empty() {
            return;
        }
        self.totals.converged += 1;
        let listed: BTreeSet<String> = ready(self.store.endpoints()).into_iter().collect();
        if let Mode::MasterCount(count) = self.mode {
            // Nobody looks who lives.
            if !listed.is_superset(&live) || listed.len() > count as usize {
                self.violations.push(format!("{live:?} live, {listed:?} are listed, {count} may"));
            }
            return;
        }
        if listed != live {
            self.violations.push(format!("{live:?} live, {listed:?} are listed"));
        }
        let ipv6 = live.iter().all(|address| address.contains(':'));
        let expected: BTreeSet<&String> = live.iter().filter(|address| address.contains(':') == ipv6).collect();
        let slice = slice_ready(self.store.slice());
        if slice.iter().collect::<BTreeSet<_>>() != expected {
            self.violations.push(format!("{live:?} live, the slice says {slice:?}"));
        }
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            if !self.store.objects.contains_key(&ObjectKey::namespace(name)) {
                self.violations.push(format!("namespace {name} is missing"));
            }
        }
        if !self.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)) {
            self.violations.push("the Service is missing".into());
        }
        for entry in self.store.leases.values() {
            if entry.expires.is_none() || Lease::decode(&entry.lease.value).is_err() {
                self.violations.push(format!("{} is still damaged", entry.lease.key));
            }
        }
    }
}
