//! What is due when, from start to stop.
//!
//! Two orders of start, as kube-apiserver had them:
//!
//! - [`Form::SingleController`] (to about 1.26): the own stale endpoint is removed; both repairs run once, one after the
//!   other, and a failure of either is fatal; then the four loops run. Readiness is asked for at `/healthz`.
//! - [`Form::Hooks`] (since then): namespaces, Service with endpoints, and repairs start independently. Repairs that
//!   fail are tried again, and it is fatal if not both have succeeded within one minute. Readiness is asked for at
//!   `/readyz`.
//!
//! In both the Service and its endpoints wait until the server is ready, asked every 100 ms. [`Placement::Beside`] waits
//! for that before anything else, and then removes no endpoint: it is not stale.
//!
//! After a fatal failure everything ends at once, and lease and endpoint stay as they are.
//!
//! A loop whose work has failed does not wait for its next turn: it is tried again after 1 s, then 2 s and so on, up to
//! its period. Times are durations since the machine was made, as it counts them: see [`Lifecycle::advance`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Form, Periods, Placement};

/// Between two questions whether the server is ready.
const READY_POLL: Duration = Duration::from_millis(100);
/// The first wait after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Within what time the first repairs have to succeed in the form of hooks, and how long each may take in both.
pub(crate) const FIRST_REPAIRS: Duration = Duration::from_secs(60);
/// How much later than asked a step may come and still count in full.
const LATENESS: Duration = Duration::from_secs(1);

/// A work of the bootstrap controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Work {
    /// Ask whether the server is ready.
    #[serde(rename = "readiness")]
    Readiness,
    /// Remove the own lease and endpoint that were left behind. Only [`Placement::Inside`].
    #[serde(rename = "removeStaleEndpoint")]
    RemoveStaleEndpoint,
    /// Create missing system namespaces.
    #[serde(rename = "namespaces")]
    Namespaces,
    /// The Service `kubernetes`, the own lease, and the endpoints.
    #[serde(rename = "kubernetesService")]
    KubernetesService,
    /// A repair pass over the ranges of ClusterIPs.
    #[serde(rename = "repairClusterIPs")]
    RepairClusterIps,
    /// A repair pass over the range of NodePorts.
    #[serde(rename = "repairNodePorts")]
    RepairNodePorts,
    /// Remove the own lease and endpoint in order.
    #[serde(rename = "removeEndpoint")]
    RemoveEndpoint,
}

impl Work {
    const ALL: [Self; 7] = [
        Self::Readiness,
        Self::RemoveStaleEndpoint,
        Self::Namespaces,
        Self::KubernetesService,
        Self::RepairClusterIps,
        Self::RepairNodePorts,
        Self::RemoveEndpoint,
    ];
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The first repairs have not succeeded yet: the server must not serve.
    Starting,
    /// The loops run.
    Running,
    /// The loops have ended, own lease and endpoint are being removed.
    Stopping,
    /// There is nothing left to do.
    Stopped {
        /// Whether own lease and endpoint were removed.
        removed: bool,
        /// Whether it stopped because of a fatal failure: nothing was removed then.
        fatal: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Task {
    #[default]
    Off,
    Due(Duration),
    Running,
}

/// The schedule of all works. Every work that [`start`](Self::start) gives is ended by [`done`](Self::done).
#[derive(Clone, Debug)]
pub struct Lifecycle {
    form: Form,
    placement: Placement,
    periods: Periods,
    phase: Phase,
    /// By [`Work`].
    tasks: [Task; Work::ALL.len()],
    /// How often each has failed in a row.
    failures: [u32; Work::ALL.len()],
    repaired: [bool; 2],
    /// The server has been ready.
    ready: bool,
    /// Until when both repairs must have succeeded.
    repairs_until: Option<Duration>,
    /// From when the turns of the Service's loop count.
    turns_from: Duration,
    stop_until: Duration,
    /// Time as it counts, the caller's clock when it was last read, and how long was to be waited then.
    elapsed: Duration,
    clock: Option<Duration>,
    waited: Option<Duration>,
}

impl Lifecycle {
    /// A machine that has not begun.
    pub fn new(form: Form, placement: Placement, periods: Periods) -> Self {
        let mut lifecycle = Self {
            form,
            placement,
            periods,
            phase: Phase::Starting,
            tasks: Default::default(),
            failures: Default::default(),
            repaired: [false; 2],
            ready: false,
            repairs_until: None,
            turns_from: Duration::ZERO,
            stop_until: Duration::MAX,
            elapsed: Duration::ZERO,
            clock: None,
            waited: None,
        };
        match placement {
            Placement::Beside => lifecycle.due(Work::Readiness, Duration::ZERO),
            Placement::Inside => lifecycle.begin(),
        }
        lifecycle
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The path at which the server tells that it is ready.
    pub fn ready_path(&self) -> &'static str {
        match self.form {
            Form::SingleController => "/healthz",
            Form::Hooks => "/readyz",
        }
    }

    /// Reads the caller's clock, and gives the time as it counts here.
    ///
    /// A clock that goes back counts as one that stood still. One that jumps forward, or a process that slept, counts as
    /// the wait that was asked for and one second: what was due next is due, and no deadline passes unseen.
    pub fn advance(&mut self, now: Duration) -> Duration {
        let step = now.saturating_sub(self.clock.unwrap_or(now));
        let most = self.waited.map_or(Duration::MAX, |waited| waited.saturating_add(LATENESS));
        let step = step.min(most);
        // A wait is used up bit by bit if something happens before it is over.
        self.waited = self.waited.map(|waited| waited.saturating_sub(step));
        self.clock = Some(now);
        self.elapsed += step;
        self.elapsed
    }

    /// The time as it counts.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// How long the caller is about to wait, unless something happens.
    pub fn waits(&mut self, wait: Option<Duration>) {
        self.waited = wait;
    }

    /// The works that are due now; they count as running. The other work is the repair that has not succeeded within its
    /// minute: then everything has ended.
    pub fn start(&mut self) -> (Vec<Work>, Option<Work>) {
        let now = self.elapsed;
        let mut fatal = None;
        if self.repairs_until.is_some_and(|until| now >= until) && self.phase == Phase::Starting {
            fatal = Some(if self.repaired[0] { Work::RepairNodePorts } else { Work::RepairClusterIps });
            self.fail();
        }
        if self.phase == Phase::Stopping && now >= self.stop_until {
            self.tasks = Default::default();
            self.phase = Phase::Stopped { removed: false, fatal: false };
        }
        let is_due = |work: &Work| matches!(self.tasks[*work as usize], Task::Due(at) if at <= now);
        let due: Vec<Work> = Work::ALL.into_iter().filter(is_due).collect();
        for work in &due {
            self.tasks[*work as usize] = Task::Running;
        }
        (due, fatal)
    }

    /// When something is due next; `None` if nothing is before a running work has ended.
    pub fn next(&self) -> Option<Duration> {
        let due = self.tasks.iter().filter_map(|task| match task {
            Task::Due(at) => Some(*at),
            Task::Off | Task::Running => None,
        });
        let until = match self.phase {
            Phase::Starting => self.repairs_until,
            Phase::Stopping => Some(self.stop_until),
            Phase::Running | Phase::Stopped { .. } => None,
        };
        due.chain(until).min()
    }

    /// A work has ended. Gives true if its failure is fatal: then everything has ended.
    pub fn done(&mut self, work: Work, succeeded: bool) -> bool {
        if self.tasks[work as usize] != Task::Running {
            return false;
        }
        self.tasks[work as usize] = Task::Off;
        let failures = &mut self.failures[work as usize];
        *failures = if succeeded { 0 } else { failures.saturating_add(1) };
        match self.phase {
            Phase::Starting | Phase::Running => self.goes_on(work, succeeded),
            Phase::Stopping => {
                self.goes_off(work, succeeded);
                false
            }
            Phase::Stopped { .. } => false,
        }
    }

    /// Ends the loops for good and begins to remove the own lease and endpoint. Running works are to be cancelled, and
    /// ended by [`done`](Self::done) as always. At most two intervals of the endpoints later it has stopped.
    pub fn stop(&mut self) {
        if !matches!(self.phase, Phase::Starting | Phase::Running) {
            return;
        }
        self.phase = Phase::Stopping;
        self.stop_until = self.elapsed + self.periods.endpoints * 2;
        for task in &mut self.tasks {
            if *task != Task::Running {
                *task = Task::Off;
            }
        }
        self.remove();
    }

    /// Ends everything at once. It is no stop in order: the server may be well, and the last one to fail would take all
    /// endpoints away.
    fn fail(&mut self) {
        self.tasks = Default::default();
        self.phase = Phase::Stopped { removed: false, fatal: true };
    }

    fn due(&mut self, work: Work, after: Duration) {
        self.tasks[work as usize] = Task::Due(self.elapsed.saturating_add(after));
    }

    /// What does not wait for the server to be ready.
    fn begin(&mut self) {
        match self.placement {
            Placement::Inside => self.due(Work::RemoveStaleEndpoint, Duration::ZERO),
            // The server is ready: what is listed is right.
            Placement::Beside => self.begin_work(),
        }
        if self.form == Form::Hooks {
            self.due(Work::Namespaces, Duration::ZERO);
            self.due(Work::RepairClusterIps, Duration::ZERO);
            self.due(Work::RepairNodePorts, Duration::ZERO);
            self.repairs_until = Some(self.elapsed + FIRST_REPAIRS);
        }
    }

    /// What waits for the stale endpoint to be removed.
    fn begin_work(&mut self) {
        match self.form {
            Form::SingleController => self.due(Work::RepairClusterIps, Duration::ZERO),
            Form::Hooks => self.begin_service(),
        }
    }

    /// The loop of the Service may begin as soon as the server is ready.
    fn begin_service(&mut self) {
        if self.ready {
            self.turns_from = self.elapsed;
            self.due(Work::KubernetesService, Duration::ZERO);
        } else {
            self.due(Work::Readiness, Duration::ZERO);
        }
    }

    fn goes_on(&mut self, work: Work, succeeded: bool) -> bool {
        match work {
            Work::Readiness if !succeeded => self.due(work, READY_POLL),
            Work::Readiness => {
                self.ready = true;
                match self.placement {
                    Placement::Beside => self.begin(),
                    Placement::Inside => self.begin_service(),
                }
            }
            Work::RemoveStaleEndpoint => self.begin_work(),
            Work::RepairClusterIps | Work::RepairNodePorts => return self.repair_done(work, succeeded),
            Work::Namespaces => self.again(work, succeeded, self.periods.namespaces),
            Work::KubernetesService => {
                // The turns do not shift by the time that the work takes.
                let period = self.periods.endpoints;
                let into_turn = (self.elapsed - self.turns_from).as_nanos() % period.as_nanos();
                self.again(work, succeeded, period - Duration::from_nanos(into_turn as u64));
            }
            Work::RemoveEndpoint => {}
        }
        false
    }

    fn repair_done(&mut self, work: Work, succeeded: bool) -> bool {
        if succeeded {
            self.repaired[usize::from(work == Work::RepairNodePorts)] = true;
        } else if self.phase == Phase::Starting && self.form == Form::SingleController {
            self.fail();
            return true;
        }
        // Two passes at once would take one off the grace that leaks have: the next one comes after a period.
        self.again(work, succeeded, self.periods.repairs);
        if self.phase == Phase::Running {
            return false;
        }
        if self.repaired == [true; 2] {
            self.phase = Phase::Running;
            if self.form == Form::SingleController {
                self.due(Work::Namespaces, Duration::ZERO);
                self.begin_service();
            }
        } else if self.form == Form::SingleController {
            self.due(Work::RepairNodePorts, Duration::ZERO);
        }
        false
    }

    /// The next turn of a loop: after `regular`, or sooner after a failure.
    fn again(&mut self, work: Work, succeeded: bool, regular: Duration) {
        let doublings = self.failures[work as usize].saturating_sub(1).min(16);
        let wait = if succeeded { regular } else { regular.min(RETRY * (1 << doublings)) };
        self.due(work, wait);
    }

    /// The own endpoint is removed when nothing is under way any more that could put it back.
    fn remove(&mut self) {
        let running = |work: Work| self.tasks[work as usize] == Task::Running;
        if !running(Work::KubernetesService) && !running(Work::RemoveStaleEndpoint) {
            self.due(Work::RemoveEndpoint, Duration::ZERO);
        }
    }

    fn goes_off(&mut self, work: Work, succeeded: bool) {
        match work {
            Work::RemoveEndpoint if succeeded => {
                self.tasks = Default::default();
                self.phase = Phase::Stopped { removed: true, fatal: false };
            }
            Work::RemoveEndpoint => self.again(work, false, self.periods.endpoints),
            Work::KubernetesService | Work::RemoveStaleEndpoint => self.remove(),
            _ => {}
        }
    }
}
