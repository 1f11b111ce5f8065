//! Some controllers on one store, whose requests take 10 ms each, and a virtual clock.

use std::time::Duration;

use rangekeeper_bootstrap::config::Config;
use rangekeeper_bootstrap::controller::{Controller, Order};
use rangekeeper_bootstrap::journal::Report;
use rangekeeper_bootstrap::lifecycle::Phase;
use rangekeeper_bootstrap::request::{Answer, Failure, Reason, Request};

use super::store::Store;

/// What a test does with a request: an answer instead of the store's, or none.
pub(crate) type Hook = Box<dyn FnMut(u64, usize, &Request, &mut Store) -> Option<Answer>>;

pub(crate) struct Cluster {
    pub(crate) now: u64,
    pub(crate) store: Store,
    pub(crate) servers: Vec<Server>,
    /// Comes before the store.
    pub(crate) hook: Hook,
    /// All requests: when, by whom, what.
    pub(crate) log: Vec<(u64, usize, Request)>,
    pub(crate) reports: Vec<(u64, usize, Report)>,
}

pub(crate) struct Server {
    address: String,
    controller: Option<Controller>,
    on_the_way: Vec<(u64, Order)>,
    pub(crate) phase: Phase,
    wakes: u64,
    stops: bool,
    pub(crate) cancelled: Vec<u64>,
}

pub(crate) fn failure(reason: Reason) -> Answer {
    Answer::Failed(Failure { reason, message: format!("{reason:?} in a test") })
}

impl Cluster {
    pub(crate) fn new(configs: Vec<Config>) -> Self {
        let server = |config: Config| Server {
            address: config.advertise_address.clone(),
            controller: Some(Controller::new(config).unwrap()),
            on_the_way: Vec::new(),
            phase: Phase::Starting,
            wakes: 0,
            stops: false,
            cancelled: Vec::new(),
        };
        Self {
            now: 0,
            store: Store::default(),
            servers: configs.into_iter().map(server).collect(),
            hook: Box::new(|_, _, _, _| None),
            log: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Goes on until so many ms.
    pub(crate) fn run_until(&mut self, until: u64) {
        loop {
            let due = |server: &Server| {
                let answers = server.on_the_way.iter().map(|(at, _)| *at);
                answers.chain([server.wakes]).min().filter(|_| server.controller.is_some())
            };
            let next = self.servers.iter().enumerate().filter_map(|(index, server)| Some((due(server)?, index))).min();
            let Some((at, index)) = next.filter(|(at, _)| *at <= until) else { break };
            self.now = self.now.max(at);
            self.turn(index);
        }
        self.now = until;
        assert!(self.store.violations.is_empty(), "{:#?}", self.store.violations);
    }

    fn turn(&mut self, index: usize) {
        let clock = Duration::from_millis(self.now);
        let server = &mut self.servers[index];
        let Some(controller) = &mut server.controller else { return };
        if let Some(at) = server.on_the_way.iter().position(|(at, _)| *at <= self.now) {
            let (_, order) = server.on_the_way.remove(at);
            self.log.push((self.now, index, order.request.clone()));
            let answer = match (self.hook)(self.now, index, &order.request, &mut self.store) {
                Some(answer) => answer,
                None => self.store.apply(self.now, &server.address, server.stops, &order.request),
            };
            controller.answered(clock, order.id, answer);
        }
        let step = controller.poll(clock);
        server.on_the_way.extend(step.send.into_iter().map(|order| (self.now + 10, order)));
        server.cancelled.extend(step.cancel);
        self.reports.extend(step.reports.into_iter().map(|report| (self.now, index, report)));
        server.phase = step.phase;
        server.wakes = step.wait.map_or(u64::MAX, |wait| self.now + wait.as_millis() as u64 + 1);
        if let Phase::Stopped { .. } = step.phase {
            server.controller = None;
        }
    }

    pub(crate) fn stop(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.stops = true;
        server.controller.as_mut().unwrap().stop(Duration::from_millis(self.now));
        server.wakes = self.now;
    }

    pub(crate) fn kill(&mut self, index: usize) {
        self.servers[index].controller = None;
    }

    /// When a request like this was made.
    pub(crate) fn times(&self, server: usize, like: impl Fn(&Request) -> bool) -> Vec<u64> {
        let found = self.log.iter().filter(|(_, by, request)| *by == server && like(request));
        found.map(|(at, _, _)| *at).collect()
    }
}
