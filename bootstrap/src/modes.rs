//! Which addresses belong into the endpoints: by the leases of the servers, by their number, or whatever stands there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::endpoints::listed;
use crate::leases::Survey;
use crate::slice::is_listed;

/// How the endpoints are kept; the reference's endpoint-reconciler-type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The addresses of all servers that hold a lease.
    #[default]
    Lease,
    /// Up to so many addresses, at least 1 (the reference's apiserver-count). Nobody looks who lives.
    MasterCount(u32),
    /// The endpoints are somebody else's.
    None,
}

/// What a server is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It starts, is not ready yet, and takes away what it left behind when it ended.
    Start,
    /// It runs.
    Run,
    /// It stops in order.
    Stop,
}

/// Why the endpoints are left as they are, though they do not look right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// No server holds a lease, not even this one: that is a fault of what was read.
    #[error("no server has a lease: refusing to erase all endpoints of the Service kubernetes")]
    NoLeases,
    /// A server that starts would take away the only address.
    #[error("the only address is the own one of before: refusing to erase all endpoints of the Service kubernetes")]
    OnlyOwnAddress,
    /// The own lease is not among those listed, though it was put before: it has run out or somebody took it, and is to
    /// be put once more.
    #[error("the own lease is not there right after it was written")]
    OwnLeaseMissing,
}

/// The addresses that belong into the endpoints, sorted as text; `None` if they are to be left as they are.
///
/// `own` is this server's address in canonical text. `survey` is read after Endpoints and slice: then an address that
/// another server has written there is known from its lease. It counts in lease mode only, as does the slice.
///
/// An address whose lease cannot be read stays if one of the two lists it, and is not added if none does.
///
/// # Errors
/// See [`Refusal`]. All addresses are erased only by the last server that stops in order.
pub fn desired(
    mode: Mode,
    stage: Stage,
    own: &str,
    survey: &Survey,
    existing: Option<&Endpoints>,
    slice: Option<&EndpointSlice>,
) -> Result<Option<Vec<String>>, Refusal> {
    let listed = listed(existing);
    let in_slice = |address: &String| slice.is_some_and(|slice| is_listed(slice, address));
    let mut addresses: BTreeSet<String> = match mode {
        Mode::None => return Ok(None),
        Mode::Lease => {
            let doubtful = survey.doubtful.iter().filter(|address| listed.contains(*address) || in_slice(address));
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
    // Who goes makes nothing anew.
    let makes = stage == Stage::Start || existing.is_some();
    Ok(makes.then(|| addresses.into_iter().collect()))
}

/// The own address and those listed; if they are too many, without the ones that follow the own one in text order,
/// the first following the last.
fn counted(mut addresses: BTreeSet<String>, own: &str, count: u32) -> Vec<String> {
    addresses.insert(own.to_owned());
    let surplus = addresses.len().saturating_sub(count.max(1) as usize);
    let following = addresses.iter().filter(|address| address.as_str() > own);
    let before = addresses.iter().filter(|address| address.as_str() < own);
    let dropped: BTreeSet<&String> = following.chain(before).take(surplus).collect();
    addresses.iter().filter(|address| !dropped.contains(address)).cloned().collect()
}
