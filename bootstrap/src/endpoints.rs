//! The plan for the Endpoints of the Service `kubernetes`, from the addresses that a [mode](crate::modes) returns.
//!
//! It changes as little as possible, and keeps the labels and annotations of others. It repairs any number of subsets
//! but one, ports that the API server would refuse, other addresses, and, if ports are reconciled, other ports.
//!
//! ```
//! use rangekeeper_bootstrap::endpoints::{Wanted, plan, ports};
//! use rangekeeper_bootstrap::object::Change;
//!
//! let addresses = vec!["192.0.2.10".to_owned()];
//! let wanted = Wanted { addresses, ports: ports(6443, &[]), ..Wanted::default() };
//! let Change::Create(endpoints) = plan(None, &wanted) else { panic!("there are none yet") };
//! assert_eq!(plan(Some(&endpoints), &wanted), Change::Leave);
//! ```

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use serde::{Deserialize, Serialize};

use crate::address::usable;
use crate::namespaces::is_name;
use crate::object::{Change, NAME, metadata};
use crate::service::PORT_NAME;
use crate::slice::Way;

/// Keeps the mirroring controller from creating slices for these Endpoints.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The desired Endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wanted {
    /// The name of Endpoints that are created, which is the Service's.
    #[serde(default = "crate::object::name")]
    pub name: String,
    /// The addresses, in canonical text, each once. They are written sorted as text.
    pub addresses: Vec<String>,
    /// The ports, for a subset without valid ones.
    pub ports: Vec<EndpointPort>,
    /// Whether other ports are reset.
    #[serde(default)]
    pub reconcile_ports: bool,
    /// An address to remove from those that are not ready as well.
    #[serde(default)]
    pub gone: Option<String>,
}

impl Default for Wanted {
    /// The Endpoints of the Service `kubernetes`, without an address.
    fn default() -> Self {
        Self { name: NAME.into(), addresses: Vec::new(), ports: Vec::new(), reconcile_ports: false, gone: None }
    }
}

/// The ports of the endpoints: the API server's, then `extra`.
pub fn ports(secure_port: u16, extra: &[EndpointPort]) -> Vec<EndpointPort> {
    let mut ports = vec![EndpointPort {
        name: Some(PORT_NAME.into()),
        port: secure_port.into(),
        protocol: Some("TCP".into()),
        ..EndpointPort::default()
    }];
    ports.extend_from_slice(extra);
    ports
}

/// Returns the change that brings the Endpoints to the desired state.
pub fn plan(existing: Option<&Endpoints>, wanted: &Wanted) -> Change<Endpoints> {
    let Some(existing) = existing else {
        if wanted.addresses.is_empty() {
            return Change::Leave;
        }
        let subsets = vec![subset(wanted, &EndpointSubset::default(), &BTreeMap::new())];
        return Change::Create(Endpoints {
            metadata: metadata(&wanted.name, &[(SKIP_MIRROR_LABEL, "true")]),
            subsets: Some(subsets),
        });
    };
    let found = existing.subsets.as_deref().unwrap_or_default();
    let details = details(found);
    let repaired = match found {
        [found] if is_valid(ports_of(found)) => repair(wanted, found, &details),
        // With any other form, nothing can be kept but the details of addresses.
        _ => subset(wanted, &EndpointSubset::default(), &details),
    };
    let is_empty = count(&repaired.addresses) + count(&repaired.not_ready_addresses) == 0;
    let subsets = if is_empty { Vec::new() } else { vec![repaired] };
    if skips_mirror(existing) && subsets == found {
        return Change::Leave;
    }
    let mut endpoints = existing.clone();
    endpoints.metadata.labels.get_or_insert_default().insert(SKIP_MIRROR_LABEL.into(), "true".into());
    endpoints.subsets = (!subsets.is_empty()).then_some(subsets);
    Change::Update(endpoints)
}

/// Whether the mirroring controller creates no slices for these Endpoints. Servers that keep Endpoints see to it.
pub(crate) fn skips_mirror(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(SKIP_MIRROR_LABEL)).is_some_and(|value| value == "true")
}

/// The usable addresses that any subset lists as ready.
pub(crate) fn listed(endpoints: Option<&Endpoints>) -> BTreeSet<String> {
    let subsets = endpoints.and_then(|endpoints| endpoints.subsets.as_deref()).unwrap_or_default();
    let addresses = subsets.iter().flat_map(|subset| subset.addresses.as_deref().unwrap_or_default());
    addresses.filter_map(|address| usable(&address.ip)).collect()
}

/// The ways of the addresses that any subset lists as ready.
pub(crate) fn ways(endpoints: &Endpoints) -> BTreeSet<Way> {
    let subsets = endpoints.subsets.iter().flatten();
    let of_subset = subsets.flat_map(|subset| {
        let key = |(port, name, protocol, _): (i32, &str, &str, _)| (port, name.to_owned(), protocol.to_owned());
        let mut ports: Vec<_> = ports_of(subset).iter().map(|port| key(port_key(port))).collect();
        ports.sort_unstable();
        let addresses = subset.addresses.iter().flatten().filter_map(|address| usable(&address.ip));
        addresses.map(move |address| (address, ports.clone()))
    });
    of_subset.collect()
}

/// Whether an API server takes the ports of all subsets.
pub(crate) fn has_valid_ports(endpoints: &Endpoints) -> bool {
    endpoints.subsets.iter().flatten().all(|subset| is_valid(ports_of(subset)))
}

/// Whether the Endpoints have at most one subset, with ports that an API server takes.
pub(crate) fn has_right_form(endpoints: &Endpoints) -> bool {
    match endpoints.subsets.as_deref().unwrap_or_default() {
        [] => true,
        [subset] => is_valid(ports_of(subset)),
        _ => false,
    }
}

/// Repairs a subset of the right form, with as few changes as possible.
fn repair(wanted: &Wanted, found: &EndpointSubset, details: &BTreeMap<String, &EndpointAddress>) -> EndpointSubset {
    let mut repaired = subset(wanted, found, details);
    let mut addresses: Vec<&str> = found.addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    addresses.sort_unstable();
    if addresses == wanted.sorted() {
        repaired.addresses.clone_from(&found.addresses);
    }
    // An empty list and a missing one mean the same.
    if count(&repaired.not_ready_addresses) == count(&found.not_ready_addresses) {
        repaired.not_ready_addresses.clone_from(&found.not_ready_addresses);
    }
    let same_ports = found.ports.iter().flatten().map(port_key).eq(wanted.ports.iter().map(port_key));
    if !wanted.reconcile_ports || same_ports {
        repaired.ports.clone_from(&found.ports);
    }
    repaired
}

/// A new subset. It keeps the addresses of `found` that are not ready, unless they are wanted or gone.
fn subset(wanted: &Wanted, found: &EndpointSubset, details: &BTreeMap<String, &EndpointAddress>) -> EndpointSubset {
    let address = |ip: &str| match details.get(ip) {
        Some(known) => EndpointAddress { ip: ip.into(), ..(*known).clone() },
        None => EndpointAddress { ip: ip.into(), ..EndpointAddress::default() },
    };
    let not_ready = found.not_ready_addresses.iter().flatten().filter(|address| {
        usable(&address.ip).is_some_and(|ip| !wanted.addresses.contains(&ip) && wanted.gone != Some(ip))
    });
    let not_ready: Vec<EndpointAddress> = not_ready.cloned().collect();
    let addresses: Vec<EndpointAddress> = wanted.sorted().into_iter().map(address).collect();
    EndpointSubset {
        addresses: (!addresses.is_empty()).then_some(addresses),
        not_ready_addresses: (!not_ready.is_empty()).then_some(not_ready),
        ports: Some(wanted.ports.clone()),
    }
}

impl Wanted {
    fn sorted(&self) -> Vec<&str> {
        let addresses: BTreeSet<&str> = self.addresses.iter().map(String::as_str).collect();
        addresses.into_iter().collect()
    }
}

/// The details of each address, from the first subset that lists it.
fn details(subsets: &[EndpointSubset]) -> BTreeMap<String, &EndpointAddress> {
    let mut details = BTreeMap::new();
    for address in subsets.iter().flat_map(|subset| subset.addresses.iter().flatten()) {
        if let Some(ip) = usable(&address.ip) {
            details.entry(ip).or_insert(address);
        }
    }
    details
}

fn count(addresses: &Option<Vec<EndpointAddress>>) -> usize {
    addresses.as_ref().map_or(0, Vec::len)
}

fn ports_of(subset: &EndpointSubset) -> &[EndpointPort] {
    subset.ports.as_deref().unwrap_or_default()
}

/// The fields of a port that count, with the defaults of the API server.
pub(crate) fn port_key(port: &EndpointPort) -> (i32, &str, &str, Option<&str>) {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    (port.port, port.name.as_deref().unwrap_or_default(), protocol, port.app_protocol.as_deref())
}

/// Whether the API server accepts ports in Endpoints and in a slice (kubernetes `pkg/apis/core/validation` and
/// `pkg/apis/discovery/validation`). If it does not, damage in etcd can only be repaired with other ports.
pub(crate) fn is_valid(ports: &[EndpointPort]) -> bool {
    let mut names = BTreeSet::new();
    ports.iter().map(port_key).all(|(port, name, protocol, _)| {
        let named = is_name(name) || (name.is_empty() && ports.len() == 1);
        (1..=65_535).contains(&port) && named && names.insert(name) && matches!(protocol, "TCP" | "UDP" | "SCTP")
    })
}
