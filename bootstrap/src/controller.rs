//! The bootstrap controller as a state machine without I/O.
//!
//! The caller calls [`poll`](Controller::poll), performs the requests of [`Step::send`] (several may be under way),
//! answers each by [`answered`](Controller::answered), logs the reports, and polls again after each answer and when
//! [`Step::wait`] is over. A caller that watches what the controller keeps tells it of changes by
//! [`watched`](Controller::watched), so that it need not wait for its next turn. To end, it calls
//! [`stop`](Controller::stop) and continues until the phase is [`Phase::Stopped`].
//!
//! ```
//! use std::time::Duration;
//! use rangekeeper_bootstrap::lifecycle::Phase;
//! use rangekeeper_bootstrap::{Answer, Config, Controller, Request};
//!
//! let config = Config { advertise_address: "192.0.2.10".into(), ..Config::default() };
//! let mut controller = Controller::new(config)?;
//! let mut now = Duration::ZERO;
//! controller.stop(now);
//! let removed = loop {
//!     let step = controller.poll(now);
//!     if let Phase::Stopped { removed, .. } = step.phase {
//!         break removed;
//!     }
//!     for order in step.send {
//!         // In this cluster there is neither a lease nor an object.
//!         let answer = match order.request {
//!             Request::GetLease { .. } | Request::ListLeases { .. } => Answer::Leases(Vec::new()),
//!             _ => Answer::NotFound,
//!         };
//!         controller.answered(now, order.id, answer);
//!     }
//! };
//! assert!(removed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigError, Settings};
use crate::journal::{Journal, Report};
use crate::leases::Fault;
use crate::lifecycle::{FIRST_REPAIRS, Lifecycle, Phase, Work};
use crate::modes::{Mode, Stage};
use crate::object::{Kind, ObjectKey};
use crate::reconcile::Found;
use crate::request::{Answer, Event, Failure, Reason, Repair, Request};
use crate::rounds::{Context, EndpointsRound, KubernetesRound, NamespacesRound, OwnLease, Progress, Round};

/// The time limit for a request whether the server is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest wait. A clock that goes back hides no more time than one wait.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A request to perform and answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Order {
    /// The ID to answer with.
    pub id: u64,
    /// The request.
    pub request: Request,
    /// The time limit, after which the caller cancels the request and answers with [`Reason::Unanswered`].
    #[serde(rename = "timeoutMs", with = "crate::millis")]
    pub timeout: Duration,
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Requests to perform.
    pub send: Vec<Order>,
    /// Requests under way to cancel. They are answered when they end.
    pub cancel: Vec<u64>,
    /// Reports to log.
    pub reports: Vec<Report>,
    /// The time after which to poll again at the latest; `None` if nothing is due before an answer.
    #[serde(rename = "waitMs", with = "optional_millis")]
    pub wait: Option<Duration>,
    /// The controller's phase.
    pub phase: Phase,
}

mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(wait: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match wait {
            Some(wait) => crate::millis::serialize(wait, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

/// The bootstrap controller of one server.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    lifecycle: Lifecycle,
    journal: Journal,
    own: OwnLease,
    address_taken: u32,
    /// The last failure of each of the first repairs.
    failed_repairs: BTreeMap<Work, Failure>,
    running: Vec<Running>,
    next_id: u64,
    send: Vec<Order>,
    cancel: Vec<u64>,
    reports: Vec<Report>,
    stop_reported: bool,
}

/// A piece of work whose request is under way.
#[derive(Clone, Debug)]
struct Running {
    work: Work,
    round: Round,
    faults: Vec<Fault>,
    found: Option<Found>,
    /// The ID of the request, and the time by which it must be answered.
    id: u64,
    deadline: Duration,
    cancelled: bool,
}

impl Controller {
    /// A controller that has not started yet.
    ///
    /// # Errors
    /// If the configuration cannot be used; see [`ConfigError`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let settings = config.settings()?;
        Ok(Self {
            lifecycle: Lifecycle::new(config.form, config.placement, settings.periods),
            settings,
            journal: Journal::default(),
            own: OwnLease::default(),
            address_taken: 0,
            failed_repairs: BTreeMap::new(),
            running: Vec::new(),
            next_id: 0,
            send: Vec::new(),
            cancel: Vec::new(),
            reports: Vec::new(),
            stop_reported: false,
        })
    }

    /// The controller's phase.
    pub fn phase(&self) -> Phase {
        self.lifecycle.phase()
    }

    /// Returns what to do now. `now` is the time since any fixed moment, by a clock that should not jump; if it does,
    /// see [`Lifecycle::advance`].
    pub fn poll(&mut self, now: Duration) -> Step {
        let now = self.lifecycle.advance(now);
        self.give_up_late(now);
        loop {
            let (due, fatal) = self.lifecycle.start();
            if let Some(work) = fatal {
                let why = match self.failed_repairs.remove(&work) {
                    Some(failure) => {
                        format!("did not succeed within {} s: {}", FIRST_REPAIRS.as_secs(), failure.message)
                    }
                    None => format!("did not end within {} s", FIRST_REPAIRS.as_secs()),
                };
                self.reports.push(Report::Fatal { work, failure: Failure::new(Reason::Repair, why) });
                self.cancel_all();
            }
            if due.is_empty() {
                break;
            }
            for work in due {
                self.begin(work);
            }
        }
        let deadlines = self.running.iter().map(|running| running.deadline);
        let next = self.lifecycle.next().into_iter().chain(deadlines).min();
        let wait = next.map(|at| at.saturating_sub(now).min(LONGEST_WAIT));
        self.lifecycle.waits(wait);
        let phase = self.note_stop();
        Step {
            send: std::mem::take(&mut self.send),
            cancel: std::mem::take(&mut self.cancel),
            reports: std::mem::take(&mut self.reports),
            wait,
            phase,
        }
    }

    /// Takes the answer to a request. The answer to a cancelled request is ignored.
    pub fn answered(&mut self, now: Duration, id: u64, answer: Answer) {
        self.lifecycle.advance(now);
        self.take_answer(id, answer);
    }

    /// Takes what a watch has seen. If it is about what this controller keeps, the turn that looks at all of that is
    /// due at once, or a little after the last one ([`Lifecycle::changed`]). Events that never come do no harm, nor do
    /// those of the controller's own writes.
    pub fn watched(&mut self, now: Duration, event: &Event) {
        self.lifecycle.advance(now);
        let Settings { mode, lease_directory, .. } = &self.settings;
        let concerns = match event {
            Event::Object(key) if *key == ObjectKey::kubernetes(Kind::Service) => true,
            Event::Object(key) => {
                *mode != Mode::None && [Kind::Endpoints, Kind::EndpointSlice].map(ObjectKey::kubernetes).contains(key)
            }
            Event::LeaseDeleted { key } => *mode == Mode::Lease && key.starts_with(lease_directory.as_str()),
        };
        if concerns {
            self.lifecycle.changed();
        }
    }

    /// Begins an orderly stop: ends the loops and removes the server's lease and endpoint. It has stopped after at most
    /// twice the period of the endpoints.
    pub fn stop(&mut self, now: Duration) {
        self.lifecycle.advance(now);
        self.lifecycle.stop();
        self.cancel_all();
    }

    fn begin(&mut self, work: Work) {
        let (mut faults, mut found) = (Vec::new(), None);
        let Self { settings, own, address_taken, .. } = self;
        let mut context = Context { settings, own, address_taken, faults: &mut faults, found: &mut found };
        let (round, progress) = match work {
            Work::Readiness => {
                let path = self.lifecycle.ready_path().into();
                (Round::Single, Progress::Send(Request::Ready { path }))
            }
            Work::RepairClusterIps => (Round::Single, Progress::Send(Request::Repair(Repair::ClusterIps))),
            Work::RepairNodePorts => (Round::Single, Progress::Send(Request::Repair(Repair::NodePorts))),
            Work::Namespaces => {
                let (round, progress) = NamespacesRound::begin(&self.settings.namespaces);
                (Round::Namespaces(round), progress)
            }
            Work::KubernetesService => {
                let (round, progress) = KubernetesRound::begin(&context);
                (Round::Kubernetes(Box::new(round)), progress)
            }
            Work::RemoveStaleEndpoint | Work::RemoveEndpoint => {
                let stage = if work == Work::RemoveEndpoint { Stage::Stop } else { Stage::Start };
                let (round, progress) = EndpointsRound::begin(stage, &mut context);
                (Round::Endpoints(Box::new(round)), progress)
            }
        };
        let running = Running { work, round, faults, found, id: 0, deadline: Duration::ZERO, cancelled: false };
        self.proceed(running, progress);
    }

    fn take_answer(&mut self, id: u64, answer: Answer) {
        let Some(at) = self.running.iter().position(|running| running.id == id) else { return };
        let mut running = self.running.swap_remove(at);
        let Self { settings, own, address_taken, .. } = self;
        let Running { round, faults, found, .. } = &mut running;
        let mut context = Context { settings, own, address_taken, faults, found };
        // Cancelled work takes the answer as well, which may say whether the server's lease was written.
        let progress = round.answered(&mut context, answer);
        if running.cancelled {
            self.lifecycle.done(running.work, false);
        } else {
            self.proceed(running, progress);
        }
    }

    fn proceed(&mut self, mut running: Running, progress: Progress) {
        match progress {
            Progress::Send(request) => {
                let writes = matches!(request, Request::Create(_) | Request::Update(_) | Request::Delete { .. });
                if writes && running.work == Work::KubernetesService {
                    self.lifecycle.writes();
                }
                let timeout = self.timeout(&request);
                running.id = self.next_id;
                running.deadline = self.lifecycle.elapsed().saturating_add(timeout);
                self.next_id += 1;
                self.send.push(Order { id: running.id, request, timeout });
                self.running.push(running);
            }
            Progress::Finished(result) => self.finish(&running, result),
        }
    }

    fn finish(&mut self, running: &Running, result: Result<(), Failure>) {
        let now = self.lifecycle.elapsed();
        let work = running.work;
        if let Work::KubernetesService | Work::RemoveStaleEndpoint | Work::RemoveEndpoint = work {
            let all = result.is_ok() && work == Work::KubernetesService;
            self.reports.extend(self.journal.found(now, &running.faults, all));
        }
        self.reports.extend(self.own.take_restored().map(Report::Restored));
        self.reports.extend(running.found.and_then(|found| self.journal.counted(found)));
        let was_starting = self.lifecycle.phase() == Phase::Starting;
        let is_fatal = self.lifecycle.done(work, result.is_ok());
        match result {
            Ok(()) => self.reports.extend(self.journal.succeeded(now, work)),
            Err(failure) if is_fatal => {
                self.reports.push(Report::Fatal { work, failure });
                self.cancel_all();
            }
            Err(failure) => {
                self.reports.extend(self.journal.failed(now, work, &failure));
                if was_starting && matches!(work, Work::RepairClusterIps | Work::RepairNodePorts) {
                    self.failed_repairs.insert(work, failure);
                }
            }
        }
        if was_starting && self.lifecycle.phase() == Phase::Running {
            self.reports.push(Report::Started);
        }
    }

    /// The time limit of a request. Requests about leases, and the read of the Service before them, leave time for
    /// another try before the lease expires.
    fn timeout(&self, request: &Request) -> Duration {
        let periods = &self.settings.periods;
        match request {
            Request::Ready { .. } => READY_TIMEOUT,
            Request::Repair(_) if self.phase() == Phase::Starting => periods.repairs.min(FIRST_REPAIRS),
            Request::Repair(_) => periods.repairs,
            // Services are listed for it. It comes after the lease was refreshed, and the next refresh waits for it.
            Request::FreeServiceIp { .. } => periods.endpoints / 2,
            _ => ((periods.lease_ttl - periods.endpoints) / 2).min(periods.endpoints),
        }
    }

    fn give_up_late(&mut self, now: Duration) {
        let late = self.running.iter().filter(|running| running.deadline <= now);
        let late: Vec<u64> = late.map(|running| running.id).collect();
        for id in late {
            self.cancel.push(id);
            self.take_answer(id, Answer::Failed(Failure::new(Reason::Unanswered, "no answer within the time limit")));
        }
    }

    fn cancel_all(&mut self) {
        for running in &mut self.running {
            if running.work != Work::RemoveEndpoint && !running.cancelled {
                running.cancelled = true;
                self.cancel.push(running.id);
            }
        }
    }

    /// Reports the stop, once.
    fn note_stop(&mut self) -> Phase {
        let phase = self.lifecycle.phase();
        if let Phase::Stopped { removed, .. } = phase {
            self.running.clear();
            if !self.stop_reported {
                self.stop_reported = true;
                self.reports.push(Report::Stopped { removed });
            }
        }
        phase
    }
}
