//! The addresses that belong in the endpoints, by the servers' leases or by their number.
//!
//! ```
//! use rangekeeper_bootstrap::leases::Survey;
//! use rangekeeper_bootstrap::modes::{Mode, Refusal, Stage, desired};
//!
//! let [own, other] = ["192.0.2.10", "192.0.2.11"];
//! let survey = Survey { live: vec![own.into(), other.into()], ..Survey::default() };
//! let desired = |stage, survey: &Survey| desired(Mode::Lease, stage, own, survey, None, None);
//! assert_eq!(desired(Stage::Run, &survey), Ok(Some(vec![own.into(), other.into()])));
//! assert_eq!(desired(Stage::Start, &survey), Ok(Some(vec![other.into()])));
//! assert_eq!(desired(Stage::Run, &Survey::default()), Err(Refusal::NoLeases));
//! ```

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::leases::Survey;
use crate::{endpoints, slice};

/// How the endpoints are kept (the reference's endpoint-reconciler-type).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The addresses of all servers that hold a lease.
    #[default]
    Lease,
    /// Up to so many addresses, at least 1 (the reference's apiserver-count), whether their servers live or not.
    MasterCount(u32),
    /// Not at all: something else keeps the endpoints.
    None,
}

/// The stage of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The server starts, is not ready yet, and removes its endpoint of before.
    Start,
    /// The server runs.
    Run,
    /// An orderly stop.
    Stop,
}

/// Why the endpoints are not changed, though they look wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// No server holds a lease, not even this one, so the list of leases must be wrong.
    #[error("no server has a lease; refusing to erase all endpoints of the Service kubernetes")]
    NoLeases,
    /// A server that starts would remove the only address.
    #[error("this server's own address is the only one; refusing to erase all endpoints of the Service kubernetes")]
    OnlyOwnAddress,
    /// This server's lease is not listed though it was just put: it expired or was deleted, and has to be put again.
    #[error("this server's lease is missing right after it was written")]
    OwnLeaseMissing,
}

/// The addresses that belong in the endpoints, sorted as text; `None` if the endpoints are left as they are.
///
/// `own` is this server's address in canonical text. The leases of `survey` must be read after Endpoints and slice, so
/// that they include the lease of each server that has written its address there. Survey and slice count in lease mode
/// only.
///
/// An address whose lease cannot be read is kept if Endpoints or slice list it, and else not added.
///
/// # Errors
/// See [`Refusal`]. Only the orderly stop of the last server erases all addresses.
pub fn desired(
    mode: Mode,
    stage: Stage,
    own: &str,
    survey: &Survey,
    existing: Option<&Endpoints>,
    existing_slice: Option<&EndpointSlice>,
) -> Result<Option<Vec<String>>, Refusal> {
    let listed = endpoints::listed(existing);
    let mut addresses: BTreeSet<String> = match mode {
        Mode::None => return Ok(None),
        Mode::Lease => {
            let in_slice = slice::listed(existing_slice);
            let is_kept = |address: &&String| listed.contains(*address) || in_slice.contains(*address);
            let doubtful = survey.doubtful.iter().filter(is_kept);
            survey.live.iter().chain(doubtful).cloned().collect()
        }
        Mode::MasterCount(count) if stage == Stage::Run => return Ok(Some(counted(listed, own, count))),
        Mode::MasterCount(_) => listed,
    };
    if stage == Stage::Run {
        return if addresses.is_empty() { Err(Refusal::NoLeases) } else { Ok(Some(addresses.into_iter().collect())) };
    }
    addresses.remove(own);
    if addresses.is_empty() && stage == Stage::Start {
        return Err(Refusal::OnlyOwnAddress);
    }
    // A server that stops does not recreate deleted Endpoints.
    let writes = stage == Stage::Start || existing.is_some();
    Ok(writes.then(|| addresses.into_iter().collect()))
}

/// Our address and the listed ones. If these are more than `count`, drops those that follow ours in cyclic text order.
fn counted(mut addresses: BTreeSet<String>, own: &str, count: u32) -> Vec<String> {
    addresses.insert(own.to_owned());
    let surplus = addresses.len().saturating_sub(count.max(1) as usize);
    let following = addresses.iter().filter(|address| address.as_str() > own);
    let before = addresses.iter().filter(|address| address.as_str() < own);
    let dropped: BTreeSet<&String> = following.chain(before).take(surplus).collect();
    addresses.iter().filter(|address| !dropped.contains(address)).cloned().collect()
}
