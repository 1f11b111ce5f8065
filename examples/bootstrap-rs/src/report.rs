//! Log lines. The controller reports each problem once when it begins and once when it is over.

use rangekeeper_bootstrap::journal::Report;
use tracing::{error, info, warn};

pub(crate) fn log(report: &Report) {
    match report {
        Report::Failing { work, failure } => {
            warn!(?work, reason = ?failure.reason, error = %failure, "failed; retrying");
        }
        Report::Recovered { work, failures, lasted } => info!(?work, failures, after = ?lasted, "works again"),
        Report::FaultFound(fault) => warn!(%fault, "a lease is wrong"),
        Report::FaultGone(fault) => info!(%fault, "a lease is right again"),
        Report::Restored(store) => error!(store.before, store.revision, "the store has gone back to an older revision"),
        Report::Endpoints(found) => {
            info!(found.leases, found.endpoints, found.slice, found.agree, "another number of API servers")
        }
        Report::Started => info!("the first repairs have succeeded"),
        Report::Fatal { work, failure } => {
            error!(?work, reason = ?failure.reason, error = %failure, "cannot continue");
        }
        Report::Stopped { removed } => info!(endpoint_removed = removed, "stopped"),
    }
}
