//! What people are told: each trouble once when it begins and once when it is over, however often it shows.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::leases::Fault;
use crate::lifecycle::Work;
use crate::request::{Failure, Reason};

/// After a trouble was reported, the same one is not reported again for so long: what comes and goes must not flood.
const QUIET: Duration = Duration::from_secs(60);

/// Something to be logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Report {
    /// A work fails, for this reason the first time since it last succeeded. It is tried again.
    Failing {
        /// Which one.
        work: Work,
        /// Why.
        failure: Failure,
    },
    /// A work succeeds again.
    Recovered {
        /// Which one.
        work: Work,
        /// How often it had failed.
        failures: u32,
        /// How long it had.
        #[serde(rename = "lastedMs", with = "crate::millis")]
        lasted: Duration,
    },
    /// A lease is wrong.
    FaultFound(Fault),
    /// It is not any more.
    FaultGone(Fault),
    /// Both repairs have succeeded: the server may serve.
    Started,
    /// The server cannot run, and stops.
    Fatal {
        /// What failed.
        work: Work,
        /// Why.
        failure: Failure,
    },
    /// Everything has ended.
    Stopped {
        /// Whether own lease and endpoint are removed; else there was no time, and the lease runs out.
        removed: bool,
    },
}

/// Remembers what was reported.
///
/// Memory: an entry per work and reason, and per fault that is there or was within the last minute.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    outages: HashMap<Work, Outage>,
    reported: HashMap<(Work, Reason), Duration>,
    faults: HashMap<Fault, Seen>,
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
    /// When it was last reported, and whether that was since it is there.
    reported_at: Option<Duration>,
    reported: bool,
}

impl Journal {
    /// A work has failed.
    pub fn failed(&mut self, now: Duration, work: Work, failure: &Failure) -> Option<Report> {
        let outage = self.outages.entry(work).or_insert(Outage { since: now, failures: 0, reported: false });
        outage.failures = outage.failures.saturating_add(1);
        let last = self.reported.get(&(work, failure.reason));
        // Within one outage each reason comes once, in a later one after a while.
        let is_new = last.is_none_or(|last| *last < outage.since && now.saturating_sub(*last) >= QUIET);
        if !is_new {
            return None;
        }
        outage.reported = true;
        self.reported.insert((work, failure.reason), now);
        Some(Report::Failing { work, failure: failure.clone() })
    }

    /// A work has succeeded.
    pub fn succeeded(&mut self, now: Duration, work: Work) -> Option<Report> {
        let outage = self.outages.remove(&work)?;
        let lasted = now.saturating_sub(outage.since);
        outage.reported.then_some(Report::Recovered { work, failures: outage.failures, lasted })
    }

    /// These faults were found. `all` tells that there are no others.
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
