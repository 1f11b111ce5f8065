//! The plan for the EndpointSlice of the Service `kubernetes`, which mirrors its Endpoints.
//!
//! ```
//! use rangekeeper_bootstrap::endpoints::{self, Wanted, ports};
//! use rangekeeper_bootstrap::object::Change;
//! use rangekeeper_bootstrap::slice;
//!
//! let addresses = vec!["192.0.2.10".to_owned()];
//! let wanted = Wanted { addresses, ports: ports(6443, &[]), ..Wanted::default() };
//! let Change::Create(endpoints) = endpoints::plan(None, &wanted) else { panic!("there are none yet") };
//! let Change::Create(slice) = slice::plan(&endpoints, None) else { panic!("there is none yet") };
//! assert_eq!(slice.address_type, "IPv4");
//! assert_eq!(slice::plan(&endpoints, Some(&slice)), Change::Leave);
//! ```

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::address::{is_ipv6, usable};
use crate::object::{Change, NAME, NAMESPACE, metadata};

/// The label that says to which Service a slice belongs.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label that says who writes a slice.
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The controller of kube-controller-manager that writes slices of the Endpoints of Services without a selector
/// (`pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go`).
const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";

/// Plans the change of the slice so that it matches `endpoints`, whose name and namespace it has.
///
/// A slice has addresses of one family: IPv6 if all (ready) addresses are IPv6, else IPv4. The labels and annotations
/// of others are kept. The family of a slice is immutable, so a slice of another family is replaced.
pub fn plan(endpoints: &Endpoints, existing: Option<&EndpointSlice>) -> Change<EndpointSlice> {
    let wanted = slice_of(endpoints);
    let Some(existing) = existing else { return Change::Create(wanted) };
    let mut repaired = EndpointSlice {
        address_type: wanted.address_type,
        endpoints: wanted.endpoints,
        ports: wanted.ports,
        metadata: existing.metadata.clone(),
    };
    let label = wanted.metadata.labels.unwrap_or_default();
    repaired.metadata.labels.get_or_insert_default().extend(label);
    if repaired.address_type != existing.address_type {
        let ObjectMeta { labels, annotations, .. } = repaired.metadata;
        let ObjectMeta { name, namespace, .. } = wanted.metadata;
        repaired.metadata = ObjectMeta { name, namespace, labels, annotations, ..ObjectMeta::default() };
        return Change::Replace(repaired);
    }
    let same = repaired.endpoints.as_deref().unwrap_or_default() == existing.endpoints.as_deref().unwrap_or_default()
        && repaired.ports.as_deref().unwrap_or_default() == existing.ports.as_deref().unwrap_or_default()
        && repaired.metadata.labels == existing.metadata.labels;
    if same { Change::Leave } else { Change::Update(repaired) }
}

/// Whether proxies read the slice as one of the Service `kubernetes`.
pub(crate) fn is_of_service(slice: &EndpointSlice) -> bool {
    label(slice, SERVICE_LABEL) == Some(NAME)
}

/// Who writes a slice that servers do not write.
pub(crate) enum Writer {
    /// It does not say so.
    Unknown,
    /// The mirroring controller.
    Mirroring,
    /// Another controller.
    Other,
}

pub(crate) fn writer(slice: &EndpointSlice) -> Writer {
    match label(slice, MANAGED_BY_LABEL) {
        None => Writer::Unknown,
        Some(MIRRORING_CONTROLLER) => Writer::Mirroring,
        Some(_) => Writer::Other,
    }
}

fn label<'a>(slice: &'a EndpointSlice, name: &str) -> Option<&'a str> {
    slice.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// An address with the ports under which it answers, each as number, name and protocol: what a proxy takes from
/// Endpoints and slices.
pub(crate) type Way = (String, Vec<(i32, String, String)>);

/// The ways of the addresses that a slice lists as ready.
pub(crate) fn ways(slice: &EndpointSlice) -> BTreeSet<Way> {
    let text = |text: &Option<String>, default: &str| text.clone().unwrap_or_else(|| default.into());
    let port = |port: &SlicePort| Some((port.port?, text(&port.name, ""), text(&port.protocol, "TCP")));
    let mut ports: Vec<_> = slice.ports.iter().flatten().filter_map(port).collect();
    ports.sort_unstable();
    listed(Some(slice)).into_iter().map(|address| (address, ports.clone())).collect()
}

/// Whether proxies take the same from the slice as from one that a server writes for these `endpoints`. A condition
/// that is absent means what the API says (k8s.io/api/discovery/v1, `EndpointConditions`): an address without `ready`
/// is ready.
pub(crate) fn matches(endpoints: &Endpoints, slice: &EndpointSlice) -> bool {
    let wanted = slice_of(endpoints);
    is_of_service(slice) && slice.address_type == wanted.address_type && ways(slice) == ways(&wanted)
}

/// The usable addresses that a slice lists as ready, as proxies read it (kubernetes `pkg/proxy/endpointslicecache.go`).
pub(crate) fn listed(slice: Option<&EndpointSlice>) -> BTreeSet<String> {
    let endpoints = slice.and_then(|slice| slice.endpoints.as_deref()).unwrap_or_default();
    let ready = endpoints
        .iter()
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    ready.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| usable(address)).collect()
}

/// The slice that matches `endpoints`, which have one subset or none.
fn slice_of(endpoints: &Endpoints) -> EndpointSlice {
    let subset = endpoints.subsets.as_deref().and_then(<[_]>::first);
    let ready = subset.and_then(|subset| subset.addresses.as_deref()).unwrap_or_default();
    let not_ready = subset.and_then(|subset| subset.not_ready_addresses.as_deref()).unwrap_or_default();
    let ports = subset.and_then(|subset| subset.ports.as_deref()).unwrap_or_default();
    // Addresses that are not ready must not decide while others are ready, or the slice could have no ready one.
    let deciding = if ready.is_empty() { not_ready } else { ready };
    let ipv6 = !deciding.is_empty() && deciding.iter().all(|address| is_ipv6(&address.ip));
    let of_family = |addresses: &[EndpointAddress], ready| {
        let addresses = addresses.iter().filter(|address| is_ipv6(&address.ip) == ipv6);
        addresses.map(|address| endpoint(address, ready)).collect::<Vec<_>>()
    };
    let ObjectMeta { name, namespace, .. } = &endpoints.metadata;
    let name = name.as_deref().unwrap_or(NAME);
    EndpointSlice {
        address_type: if ipv6 { "IPv6" } else { "IPv4" }.into(),
        endpoints: Some([of_family(ready, true), of_family(not_ready, false)].concat()),
        metadata: ObjectMeta {
            namespace: Some(namespace.as_deref().unwrap_or(NAMESPACE).into()),
            ..metadata(name, &[(SERVICE_LABEL, name)])
        },
        ports: Some(ports.iter().map(port).collect()),
    }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn port(port: &EndpointPort) -> SlicePort {
    SlicePort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
        app_protocol: None,
    }
}
