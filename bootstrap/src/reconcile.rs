//! The plan for the Endpoints and the EndpointSlice of the Service `kubernetes` together.
//!
//! ```
//! use rangekeeper_bootstrap::endpoints::ports;
//! use rangekeeper_bootstrap::leases::Survey;
//! use rangekeeper_bootstrap::modes::{Mode, Stage};
//! use rangekeeper_bootstrap::object::Change;
//! use rangekeeper_bootstrap::reconcile::{Situation, plan};
//!
//! let changes = plan(&Situation {
//!     name: "kubernetes",
//!     mode: Mode::Lease,
//!     stage: Stage::Run,
//!     own: "192.0.2.10",
//!     ports: &ports(6443, &[]),
//!     reconcile_ports: false,
//!     survey: &Survey { live: vec!["192.0.2.10".into()], ..Survey::default() },
//!     endpoints: None,
//!     slice: None,
//! })?;
//! assert!(matches!(changes.endpoints, Change::Create(_)) && matches!(changes.slice, Change::Create(_)));
//! # Ok::<(), rangekeeper_bootstrap::modes::Refusal>(())
//! ```

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::endpoints::Wanted;
use crate::leases::Survey;
use crate::modes::{Mode, Refusal, Stage, desired};
use crate::object::Change;
use crate::{endpoints, slice};

/// The input of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The name of the Service and of both objects.
    pub name: &'a str,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// The stage of the server's life.
    pub stage: Stage,
    /// The server's address in canonical text.
    pub own: &'a str,
    /// The ports of the server's endpoint.
    pub ports: &'a [EndpointPort],
    /// Whether other ports are reset while the server runs.
    pub reconcile_ports: bool,
    /// The leases, listed after both objects were read. They count in lease mode only.
    pub survey: &'a Survey,
    /// The existing Endpoints.
    pub endpoints: Option<&'a Endpoints>,
    /// The existing slice.
    pub slice: Option<&'a EndpointSlice>,
}

/// The changes of both objects: first the Endpoints, then the slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changes {
    /// The change of the Endpoints.
    pub endpoints: Change<Endpoints>,
    /// The change of the slice, so that it matches the changed Endpoints.
    pub slice: Change<EndpointSlice>,
}

/// How many addresses of servers a turn has found, before its changes: the values of gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Found {
    /// The addresses in leases; 0 in other modes than lease.
    pub leases: usize,
    /// The addresses that the Endpoints list as ready.
    pub endpoints: usize,
    /// The addresses that the slice lists as ready.
    pub slice: usize,
    /// Whether Endpoints and slice were as they should be.
    pub agree: bool,
}

impl Situation<'_> {
    /// Counts the addresses; `planned` is what [`plan`] has returned.
    pub fn found(&self, planned: &Result<Changes, Refusal>) -> Found {
        Found {
            leases: self.survey.live.len(),
            endpoints: endpoints::listed(self.endpoints).len(),
            slice: slice::listed(self.slice).len(),
            agree: matches!(planned, Ok(Changes { endpoints: Change::Leave, slice: Change::Leave })),
        }
    }
}

/// Plans the changes of Endpoints and EndpointSlice.
///
/// # Errors
/// See [`Refusal`]. Both are left as they are then.
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
        // All servers share the ports. A server that goes leaves them to those that stay, which may listen on others.
        reconcile_ports: !removes && situation.reconcile_ports,
        gone: removes.then(|| own.to_owned()),
    };
    let change = endpoints::plan(situation.endpoints, &wanted);
    let result = change.object().or(situation.endpoints);
    let slice = result.map_or(Change::Leave, |endpoints| slice::plan(endpoints, situation.slice));
    Ok(Changes { endpoints: change, slice })
}
