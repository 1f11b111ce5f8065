//! The schedule of the controller's work, from start to stop.
//!
//! There are two orders of start, those of kube-apiserver:
//!
//! - [`Form::SingleController`] (up to about 1.26): the server's stale endpoint is removed; both repairs run once, one
//!   after the other, and a failure of either is fatal; then the four loops run. Readiness is polled at `/healthz`.
//! - [`Form::Hooks`] (later): namespaces, the Service with its endpoints, and the repairs start independently. Failed
//!   repairs are tried again, and it is fatal if one has not succeeded within a minute. Readiness is polled at
//!   `/readyz`.
//!
//! In both, the Service and its endpoints wait until the server is ready, which is polled every 100 ms.
//! [`Placement::Beside`] waits for that before anything else, and then removes no endpoint, since it is not stale.
//!
//! A fatal failure ends everything at once and leaves lease and endpoint as they are.
//!
//! Failed work is tried again after 1 s, then 2 s and so on, up to its period. Times are durations since the creation
//! of the schedule by its own count: see [`Lifecycle::advance`].
//!
//! ```
//! use rangekeeper_bootstrap::config::{Form, Periods, Placement};
//! use rangekeeper_bootstrap::lifecycle::{Lifecycle, Work};
//!
//! let mut lifecycle = Lifecycle::new(Form::Hooks, Placement::Beside, Periods::default());
//! assert_eq!(lifecycle.start().0, [Work::Readiness]);
//! lifecycle.done(Work::Readiness, true);
//! let (due, _) = lifecycle.start();
//! assert!(due.contains(&Work::Namespaces) && due.contains(&Work::RepairClusterIps));
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{Form, Periods, Placement};

/// The period at which readiness is polled.
const READY_POLL: Duration = Duration::from_millis(100);
/// The first wait after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// The time limit for the success of the first repairs with hooks, and in both forms for one of the first passes.
pub(crate) const FIRST_REPAIRS: Duration = Duration::from_secs(60);
/// The shortest time from the begin of a turn of the Service's loop to that of one that a change causes. It doubles,
/// three times at most, with each such turn that follows one which wrote something, until the next regular one: two
/// controllers that undo each other's work do so four times in ten seconds.
const EVENT_GAP: Duration = Duration::from_millis(500);
const EVENT_DOUBLINGS: u32 = 3;
/// The delay of a step, after the wait that was asked for, that still counts in full.
const LATENESS: Duration = Duration::from_secs(1);

/// A piece of work of the bootstrap controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Work {
    /// Polling whether the server is ready.
    #[serde(rename = "readiness")]
    Readiness,
    /// The removal of the server's lease and endpoint of before. Only [`Placement::Inside`].
    #[serde(rename = "removeStaleEndpoint")]
    RemoveStaleEndpoint,
    /// The system namespaces.
    #[serde(rename = "namespaces")]
    Namespaces,
    /// The Service `kubernetes`, the server's own lease, and the endpoints.
    #[serde(rename = "kubernetesService")]
    KubernetesService,
    /// A repair pass over the ranges of ClusterIPs.
    #[serde(rename = "repairClusterIPs")]
    RepairClusterIps,
    /// A repair pass over the range of NodePorts.
    #[serde(rename = "repairNodePorts")]
    RepairNodePorts,
    /// The removal of the server's lease and endpoint at an orderly stop.
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

/// The phases of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The first repairs have not succeeded yet: the server must not serve.
    Starting,
    /// The loops run.
    Running,
    /// The loops have ended; the server's lease and endpoint are being removed.
    Stopping,
    /// There is nothing left to do.
    Stopped {
        /// Whether the server's lease and endpoint were removed.
        removed: bool,
        /// Whether it stopped because of a fatal failure; nothing was removed then.
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

/// The turns of the Service's loop that changes cause.
#[derive(Clone, Copy, Debug, Default)]
struct ByEvent {
    /// When the last turn began.
    last: Duration,
    /// How many turns in a row a change has caused after a turn that wrote something.
    turns: u32,
    /// The last turn wrote something.
    wrote: bool,
    /// A change has caused the turn that is due.
    is_due: bool,
    /// Something has changed since the turn under way began.
    meanwhile: bool,
}

/// The schedule of all work. The caller ends all work that [`start`](Self::start) returns by [`done`](Self::done).
#[derive(Clone, Debug)]
pub struct Lifecycle {
    form: Form,
    placement: Placement,
    periods: Periods,
    phase: Phase,
    /// By [`Work`].
    tasks: [Task; Work::ALL.len()],
    /// The number of failures in a row, by [`Work`].
    failures: [u32; Work::ALL.len()],
    repaired: [bool; 2],
    /// The server has been ready.
    ready: bool,
    /// The time by which both repairs must have succeeded.
    repairs_until: Option<Duration>,
    /// The time from which the turns of the Service's loop count.
    turns_from: Duration,
    by_event: ByEvent,
    stop_until: Duration,
    /// The time by the schedule's own count, the caller's clock at the last call, and the wait that was asked for then.
    elapsed: Duration,
    clock: Option<Duration>,
    waited: Option<Duration>,
}

impl Lifecycle {
    /// A schedule that has not started yet.
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
            by_event: ByEvent::default(),
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

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The path at which the server reports whether it is ready.
    pub fn ready_path(&self) -> &'static str {
        match self.form {
            Form::SingleController => "/healthz",
            Form::Hooks => "/readyz",
        }
    }

    /// Takes the time of the caller's clock, and returns the time by its own count.
    ///
    /// A step back counts as no time. A jump forward, or a process that slept, counts as the wait that was asked for
    /// and one second, so that the next work is due and no deadline passes unnoticed.
    pub fn advance(&mut self, now: Duration) -> Duration {
        let step = now.saturating_sub(self.clock.unwrap_or(now));
        let most = self.waited.map_or(Duration::MAX, |waited| waited.saturating_add(LATENESS));
        let step = step.min(most);
        // Events before the end of the wait use it up in parts.
        self.waited = self.waited.map(|waited| waited.saturating_sub(step));
        self.clock = Some(now);
        self.elapsed += step;
        self.elapsed
    }

    /// The time by its own count.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Records how long the caller waits if no event comes first.
    pub fn waits(&mut self, wait: Option<Duration>) {
        self.waited = wait;
    }

    /// Returns the work that is due now, and marks it as running. The second value is the repair that has not succeeded
    /// within its minute, if there is one; it is fatal.
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
        if due.contains(&Work::KubernetesService) {
            let ByEvent { turns, is_due, wrote, .. } = self.by_event;
            let turns = if is_due && wrote { turns.saturating_add(1) } else { 0 };
            self.by_event = ByEvent { last: now, turns, ..ByEvent::default() };
        }
        (due, fatal)
    }

    /// The turn of the Service's loop under way writes something.
    pub fn writes(&mut self) {
        self.by_event.wrote = true;
    }

    /// Something has changed that the loop of the Service keeps: its next turn is due at once, or half a second after
    /// the last one began. Regular turns do not shift. It has no effect before the loop has begun.
    pub fn changed(&mut self) {
        match self.tasks[Work::KubernetesService as usize] {
            Task::Due(at) => {
                let gap = EVENT_GAP * (1 << self.by_event.turns.min(EVENT_DOUBLINGS));
                let sooner = self.elapsed.max(self.by_event.last.saturating_add(gap));
                // A turn that has failed waits for its time: the server is busy or away.
                if sooner < at && self.failures[Work::KubernetesService as usize] == 0 {
                    self.by_event.is_due = true;
                    self.tasks[Work::KubernetesService as usize] = Task::Due(sooner);
                }
            }
            Task::Running => self.by_event.meanwhile = true,
            Task::Off => {}
        }
    }

    /// The time at which work is due next; `None` if none is due before running work has ended.
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

    /// Records the end of running work. Returns whether its failure is fatal.
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

    /// Ends the loops and begins to remove the server's lease and endpoint. The caller cancels running work, and ends
    /// it by [`done`](Self::done) as always. It has stopped after at most twice the period of the endpoints.
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

    /// Ends everything at once, without the removals of an orderly stop: the server may still serve, and the last
    /// server to fail would erase all endpoints.
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
                // The time that the work takes does not shift its turns.
                let period = self.periods.endpoints;
                let into_turn = (self.elapsed - self.turns_from).as_nanos() % period.as_nanos();
                self.again(work, succeeded, period - Duration::from_nanos(into_turn as u64));
                if std::mem::take(&mut self.by_event.meanwhile) {
                    self.changed();
                }
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
        // A leak is cleaned after a number of passes, so a pass without a period before it would shorten the grace
        // period.
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

    /// Schedules the next turn of a loop: after `regular`, or sooner after a failure.
    fn again(&mut self, work: Work, succeeded: bool, regular: Duration) {
        let doublings = self.failures[work as usize].saturating_sub(1).min(16);
        let wait = if succeeded { regular } else { regular.min(RETRY * (1 << doublings)) };
        self.due(work, wait);
    }

    /// Removes the server's endpoint once no work is running that could put it back.
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
