//! Which reports are logged: a problem is reported once when it begins and once when it is over, however often it
//! recurs.
//!
//! ```
//! use std::time::Duration;
//! use rangekeeper_bootstrap::journal::{Journal, Report};
//! use rangekeeper_bootstrap::lifecycle::Work;
//! use rangekeeper_bootstrap::request::{Failure, Reason};
//!
//! let mut journal = Journal::default();
//! let failure = Failure { reason: Reason::NotReady, message: "status 503".into() };
//! assert!(journal.failed(Duration::from_secs(0), Work::Readiness, &failure).is_some());
//! assert_eq!(journal.failed(Duration::from_secs(1), Work::Readiness, &failure), None);
//! let report = journal.succeeded(Duration::from_secs(2), Work::Readiness);
//! assert!(matches!(report, Some(Report::Recovered { failures: 2, .. })));
//! ```

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::leases::Fault;
use crate::lifecycle::Work;
use crate::reconcile::Found;
use crate::request::{Failure, Reason};

/// The time after a report within which the same problem is not reported again, so that one that comes and goes does
/// not flood the log.
const QUIET: Duration = Duration::from_secs(60);

/// A report to log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Report {
    /// A piece of work fails, for the first time for this reason since it last succeeded. It is tried again.
    Failing {
        /// The work.
        work: Work,
        /// The failure.
        failure: Failure,
    },
    /// A piece of work succeeds again.
    Recovered {
        /// The work.
        work: Work,
        /// How often it failed.
        failures: u32,
        /// How long it failed.
        #[serde(rename = "lastedMs", with = "crate::millis")]
        lasted: Duration,
    },
    /// A lease is wrong. In JSON it has its text, too.
    FaultFound(#[serde(with = "described")] Fault),
    /// A lease is no longer wrong.
    FaultGone(Fault),
    /// The store has gone back to an older revision, as after a restore from a backup.
    Restored(Restored),
    /// The turn of the endpoints has found other numbers of addresses than the one before.
    Endpoints(Found),
    /// Both repairs have succeeded: the server may serve.
    Started,
    /// A failure stops the server.
    Fatal {
        /// The work that failed.
        work: Work,
        /// The failure.
        failure: Failure,
    },
    /// The controller has stopped.
    Stopped {
        /// Whether the server's lease and endpoint were removed. If there was no time for it, the lease expires.
        removed: bool,
    },
}

/// How far a store has gone back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restored {
    /// The revision that it had reached.
    pub before: u64,
    /// The older one with which it answers.
    pub revision: u64,
}

/// A fault with its text in `message`, for shells that log it.
mod described {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::leases::Fault;

    #[derive(Serialize, Deserialize)]
    struct Described<F> {
        #[serde(flatten)]
        fault: F,
        message: String,
    }

    pub(super) fn serialize<S: Serializer>(fault: &Fault, serializer: S) -> Result<S::Ok, S::Error> {
        Described { fault, message: fault.to_string() }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fault, D::Error> {
        Ok(Described::deserialize(deserializer)?.fault)
    }
}

/// Remembers what was reported.
///
/// Memory: an entry per work and reason, and per fault of the present and the last minute.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    outages: HashMap<Work, Outage>,
    reported: HashMap<(Work, Reason), Duration>,
    faults: HashMap<Fault, Seen>,
    counted: Option<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Duration,
    failures: u32,
    reported: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    is_there: bool,
    /// When it was last reported, and whether its present occurrence was.
    reported_at: Option<Duration>,
    reported: bool,
}

impl Journal {
    /// Records a failure. Returns the report, if one is due.
    pub fn failed(&mut self, now: Duration, work: Work, failure: &Failure) -> Option<Report> {
        let outage = self.outages.entry(work).or_insert(Outage { since: now, failures: 0, reported: false });
        outage.failures = outage.failures.saturating_add(1);
        let last = self.reported.get(&(work, failure.reason));
        // Each reason is reported once per outage, and in a later outage only after a while.
        let is_new = last.is_none_or(|last| *last < outage.since && now.saturating_sub(*last) >= QUIET);
        if !is_new {
            return None;
        }
        outage.reported = true;
        self.reported.insert((work, failure.reason), now);
        Some(Report::Failing { work, failure: failure.clone() })
    }

    /// Records a success. Returns the report, if one is due.
    pub fn succeeded(&mut self, now: Duration, work: Work) -> Option<Report> {
        let outage = self.outages.remove(&work)?;
        let lasted = now.saturating_sub(outage.since);
        outage.reported.then_some(Report::Recovered { work, failures: outage.failures, lasted })
    }

    /// Records what a turn has found in leases and endpoints. Returns the report, if it is not what the last one had.
    pub fn counted(&mut self, found: Found) -> Option<Report> {
        (self.counted.replace(found) != Some(found)).then_some(Report::Endpoints(found))
    }

    /// Records faults that were found. With `all` there are no others.
    pub fn found(&mut self, now: Duration, faults: &[Fault], all: bool) -> Vec<Report> {
        let mut reports = Vec::new();
        for fault in faults {
            let new = Seen { is_there: false, reported_at: None, reported: false };
            let seen = self.faults.entry(fault.clone()).or_insert(new);
            seen.is_there = true;
            if !seen.reported && seen.reported_at.is_none_or(|last| now.saturating_sub(last) >= QUIET) {
                seen.reported = true;
                seen.reported_at = Some(now);
                reports.push(Report::FaultFound(fault.clone()));
            }
        }
        if !all {
            return reports;
        }
        let mut gone = Vec::new();
        self.faults.retain(|fault, seen| {
            if seen.is_there && !faults.contains(fault) {
                seen.is_there = false;
                if std::mem::take(&mut seen.reported) {
                    gone.push(fault.clone());
                }
            }
            seen.is_there || seen.reported_at.is_some_and(|last| now.saturating_sub(last) < QUIET)
        });
        gone.sort_unstable();
        reports.extend(gone.into_iter().map(Report::FaultGone));
        reports
    }
}
