//! Endpoints and EndpointSlice of the Service `kubernetes` together: what a server writes to both at once.

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::endpoints::Wanted;
use crate::leases::Survey;
use crate::modes::{Mode, Refusal, Stage, desired};
use crate::object::Change;
use crate::{endpoints, slice};

/// What is known when a server reconciles the endpoints, or removes its own.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The Service's name, which both objects have.
    pub name: &'a str,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// What the server is about to do.
    pub stage: Stage,
    /// Its address in canonical text.
    pub own: &'a str,
    /// The ports that its endpoint has.
    pub ports: &'a [EndpointPort],
    /// Whether other ports are reset while it runs.
    pub reconcile_ports: bool,
    /// What the leases tell, listed after both objects were read. Counts in lease mode only.
    pub survey: &'a Survey,
    /// What exists.
    pub endpoints: Option<&'a Endpoints>,
    /// What exists.
    pub slice: Option<&'a EndpointSlice>,
}

/// What has to be done about both objects: first the Endpoints, then the slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changes {
    /// About the Endpoints.
    pub endpoints: Change<Endpoints>,
    /// About the slice, so that it says what the Endpoints say then.
    pub slice: Change<EndpointSlice>,
}

/// What has to be done about Endpoints and EndpointSlice.
///
/// # Errors
/// See [`Refusal`]: both are left as they are.
pub fn plan(situation: &Situation<'_>) -> Result<Changes, Refusal> {
    let Situation { mode, stage, own, survey, .. } = *situation;
    if mode == Mode::Lease && stage == Stage::Run && !survey.live.iter().any(|address| address == own) {
        return Err(Refusal::OwnLeaseMissing);
    }
    let Some(addresses) = desired(mode, stage, own, survey, situation.endpoints, situation.slice)? else {
        return Ok(Changes { endpoints: Change::Leave, slice: Change::Leave });
    };
    let removes = stage != Stage::Run;
    let wanted = Wanted {
        name: situation.name.into(),
        addresses,
        ports: situation.ports.to_vec(),
        reconcile_ports: if removes { mode == Mode::Lease } else { situation.reconcile_ports },
        gone: removes.then(|| own.to_owned()),
    };
    let change = endpoints::plan(situation.endpoints, &wanted);
    let result = change.object().or(situation.endpoints);
    let slice = result.map_or(Change::Leave, |endpoints| slice::plan(endpoints, situation.slice));
    Ok(Changes { endpoints: change, slice })
}
