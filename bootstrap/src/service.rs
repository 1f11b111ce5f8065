//! The plan for the Service `default/kubernetes`.
//!
//! ```
//! use rangekeeper_bootstrap::object::Change;
//! use rangekeeper_bootstrap::service::{Wanted, plan};
//!
//! let wanted = Wanted::kubernetes("10.96.0.1".parse()?, 6443);
//! let Change::Create(service) = plan(None, &wanted, false) else { panic!("there is none yet") };
//! assert_eq!(plan(Some(&service), &wanted, true), Change::Leave);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use crate::object::{Change, NAME, metadata};
use crate::request::{Failure, Reason};

/// The port of the Service `kubernetes`.
pub const PORT: u16 = 443;
/// The name of the port, in the Service and in its endpoints.
pub const PORT_NAME: &str = "https";

/// What an API server says of an address that counts as allocated (`ErrAllocated` in
/// `pkg/registry/core/service/ipallocator/interfaces.go`).
const TAKEN: &str = "provided IP is already allocated";

/// The desired Service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wanted {
    /// Its name.
    #[serde(default = "crate::object::name")]
    pub name: String,
    /// The first address of the (primary) range of ClusterIPs.
    pub cluster_ip: IpAddr,
    /// Its port; not 0.
    #[serde(default = "port")]
    pub port: u16,
    /// The name of this port.
    #[serde(default = "port_name")]
    pub port_name: String,
    /// The port on which the API servers listen; not 0.
    pub secure_port: u16,
    /// The NodePort; 0 for a Service of type ClusterIP.
    #[serde(default)]
    pub node_port: u16,
    /// Ports in addition to the one of the API server. If one has no NodePort, any is right.
    #[serde(default)]
    pub extra_ports: Vec<ServicePort>,
}

fn port() -> u16 {
    PORT
}

fn port_name() -> String {
    PORT_NAME.into()
}

impl Wanted {
    /// The Service `kubernetes` of servers that listen on this port.
    pub fn kubernetes(cluster_ip: IpAddr, secure_port: u16) -> Self {
        Self {
            name: NAME.into(),
            cluster_ip,
            port: PORT,
            port_name: PORT_NAME.into(),
            secure_port,
            node_port: 0,
            extra_ports: Vec::new(),
        }
    }

    fn ports(&self) -> Vec<ServicePort> {
        let secure_port = ServicePort {
            name: Some(self.port_name.clone()),
            protocol: Some("TCP".into()),
            port: self.port.into(),
            target_port: Some(IntOrString::Int(self.secure_port.into())),
            node_port: (self.node_port != 0).then_some(self.node_port.into()),
            ..ServicePort::default()
        };
        let mut ports = vec![secure_port];
        ports.extend_from_slice(&self.extra_ports);
        ports
    }

    fn service_type(&self) -> &'static str {
        if self.node_port == 0 { "ClusterIP" } else { "NodePort" }
    }

    /// The new Service. It has no selector, since the API servers keep its endpoints. In a dual-stack cluster it has an
    /// address of the primary family only.
    pub fn service(&self) -> Service {
        let spec = ServiceSpec {
            cluster_ip: Some(self.cluster_ip.to_string()),
            ip_family_policy: Some("SingleStack".into()),
            ports: Some(self.ports()),
            session_affinity: Some("None".into()),
            type_: Some(self.service_type().into()),
            ..ServiceSpec::default()
        };
        Service {
            metadata: metadata(&self.name, &[("provider", "kubernetes"), ("component", "apiserver")]),
            spec: Some(spec),
            ..Service::default()
        }
    }
}

/// Plans the change of the Service. An existing one is left as it is; with `reconcile`, its ports and its type are
/// reset, and nothing else.
pub fn plan(existing: Option<&Service>, wanted: &Wanted, reconcile: bool) -> Change<Service> {
    let Some(existing) = existing else { return Change::Create(wanted.service()) };
    if !reconcile {
        return Change::Leave;
    }
    let spec = existing.spec.as_ref();
    let found = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let type_ = spec.and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP");
    let ports = wanted.ports();
    let same_ports = ports.len() == found.len() && ports.iter().zip(found).all(|(port, found)| fits(port, found));
    if same_ports && type_ == wanted.service_type() {
        return Change::Leave;
    }
    let ports = ports
        .into_iter()
        .map(|port| match found.iter().find(|found| wanted.node_port != 0 && fits(&port, found)) {
            // Without it the API server would choose another NodePort.
            Some(found) => ServicePort { node_port: found.node_port, ..port },
            None => port,
        })
        .collect();
    let mut service = existing.clone();
    let spec = service.spec.get_or_insert_default();
    spec.ports = Some(ports);
    spec.type_ = Some(wanted.service_type().into());
    Change::Update(service)
}

/// Whether the creation of the Service was refused because its address counts as allocated.
pub(crate) fn is_address_taken(failure: &Failure) -> bool {
    failure.reason == Reason::Refused && failure.message.contains(TAKEN)
}

/// Whether an existing port is the wanted one, with the defaults of the API server for fields that are not set.
fn fits(wanted: &ServicePort, found: &ServicePort) -> bool {
    let protocol = |port: &ServicePort| port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let target = |port: &ServicePort| port.target_port.clone().unwrap_or(IntOrString::Int(port.port));
    let name = |port: &ServicePort| port.name.clone().unwrap_or_default();
    wanted.port == found.port
        && name(wanted) == name(found)
        && protocol(wanted) == protocol(found)
        && target(wanted) == target(found)
        && wanted.app_protocol == found.app_protocol
        && wanted.node_port.filter(|port| *port != 0).is_none_or(|port| found.node_port == Some(port))
}
