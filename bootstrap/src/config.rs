//! What has to be known of a server before anything can be decided.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{EndpointPort, ServicePort};
use rangekeeper::cidr::{CidrRange, ParseCidrError};
use rangekeeper::range::Range;
use serde::{Deserialize, Serialize};

use crate::address::usable;
use crate::modes::Mode;
use crate::namespaces::{SYSTEM, is_name};
use crate::{endpoints, service};

/// How a server is configured. The defaults are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The address under which the others reach this server: its endpoint. There is no default.
    pub advertise_address: String,
    /// The port on which it listens.
    pub secure_port: u16,
    /// The (primary) range of ClusterIPs.
    pub service_cluster_ip_range: String,
    /// The NodePort of the Service `kubernetes`; 0 for none.
    pub kubernetes_service_node_port: u16,
    /// Ports of the Service beside the server's own.
    pub extra_service_ports: Vec<ServicePort>,
    /// Ports of the endpoints beside the server's own.
    pub extra_endpoint_ports: Vec<EndpointPort>,
    /// Whether ports and type of a Service that exists, and ports of its endpoints, are reset. kube-apiserver does not
    /// since 1.17.
    pub reconcile: bool,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// Namespaces beside the four that every cluster has.
    pub extra_namespaces: Vec<String>,
    /// Before which keys of etcd the cluster's begin.
    pub etcd_prefix: String,
    /// Which kube-apiserver's order of start is followed.
    pub form: Form,
    /// Where the shell runs.
    pub placement: Placement,
    /// How often what is done.
    pub periods: Periods,
}

/// Which kube-apiserver's order of start is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// To about 1.26.
    SingleController,
    /// Since then.
    #[default]
    Hooks,
}

/// Where the shell runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Inside the API server. It becomes ready only when its hooks have ended, so nothing of the start waits for that.
    Inside,
    /// In a process of its own. Nothing can be done before the server is ready; while the server does not answer, its
    /// lease is not refreshed.
    #[default]
    Beside,
}

/// How often what is done. In JSON: milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Periods {
    /// The Service `kubernetes`, its endpoints, and the own lease.
    #[serde(rename = "endpointsMs", with = "crate::millis")]
    pub endpoints: Duration,
    /// For how long a lease holds that is not refreshed: whole seconds, longer than `endpoints`.
    #[serde(rename = "leaseTtlMs", with = "crate::millis")]
    pub lease_ttl: Duration,
    /// The namespaces.
    #[serde(rename = "namespacesMs", with = "crate::millis")]
    pub namespaces: Duration,
    /// Each of the two repairs.
    #[serde(rename = "repairsMs", with = "crate::millis")]
    pub repairs: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            endpoints: Duration::from_secs(10),
            lease_ttl: Duration::from_secs(15),
            namespaces: Duration::from_secs(60),
            repairs: Duration::from_secs(180),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            advertise_address: String::new(),
            secure_port: 6443,
            service_cluster_ip_range: "10.0.0.0/24".into(),
            kubernetes_service_node_port: 0,
            extra_service_ports: Vec::new(),
            extra_endpoint_ports: Vec::new(),
            reconcile: false,
            mode: Mode::Lease,
            extra_namespaces: Vec::new(),
            etcd_prefix: "/registry".into(),
            form: Form::Hooks,
            placement: Placement::Beside,
            periods: Periods::default(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is no address, or one that cannot be an endpoint's.
    #[error(
        "advertiseAddress {text:?} is not an address that can be an endpoint (loopback, link-local and unspecified ones cannot)"
    )]
    AdvertiseAddress {
        /// The input.
        text: String,
    },
    /// The port is 0.
    #[error("securePort must not be 0")]
    SecurePort,
    /// The range is no CIDR.
    #[error("serviceClusterIpRange: {0}")]
    ServiceRange(#[from] ParseCidrError),
    /// The range has no address for the Service.
    #[error("serviceClusterIpRange {range:?} has no allocatable address")]
    EmptyServiceRange {
        /// The range.
        range: String,
    },
    /// The number of servers is 0.
    #[error("mode master-count needs a count of at least 1")]
    MasterCount,
    /// It is no name for a namespace.
    #[error("{field}: {name:?} is not a namespace's name (an RFC 1123 label)")]
    Namespace {
        /// The list in which it is.
        field: &'static str,
        /// The input.
        name: String,
    },
    /// A period is too short or too long.
    #[error("{name} must be {least} to {MOST} ms")]
    Period {
        /// Which one.
        name: &'static str,
        /// The shortest possible, in milliseconds.
        least: u64,
    },
    /// etcd counts leases in whole seconds.
    #[error("{name} must be whole seconds")]
    WholeSeconds {
        /// Which period.
        name: &'static str,
    },
}

/// A configuration that was found good.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The own address in canonical text.
    pub(crate) own: String,
    pub(crate) service: service::Wanted,
    pub(crate) endpoint_ports: Vec<EndpointPort>,
    pub(crate) reconcile: bool,
    pub(crate) mode: Mode,
    pub(crate) namespaces: Vec<String>,
    /// Where the leases are; ends with `/`.
    pub(crate) lease_directory: String,
    pub(crate) placement: Placement,
    pub(crate) periods: Periods,
}

impl Config {
    /// Checks and reads everything.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let own = own_address(&self.advertise_address)?;
        if self.secure_port == 0 {
            return Err(ConfigError::SecurePort);
        }
        check_mode(self.mode)?;
        check_namespaces("extraNamespaces", &self.extra_namespaces)?;
        let Periods { endpoints, lease_ttl, namespaces, repairs } = self.periods;
        check_period("periods.endpointsMs", endpoints, 100)?;
        // One round has to fit in between.
        check_period("periods.leaseTtlMs", lease_ttl, (endpoints.as_millis() as u64 + 1000).next_multiple_of(1000))?;
        check_whole_seconds("periods.leaseTtlMs", lease_ttl)?;
        check_period("periods.namespacesMs", namespaces, 100)?;
        check_period("periods.repairsMs", repairs, 100)?;
        Ok(Settings {
            own,
            service: service::Wanted {
                node_port: self.kubernetes_service_node_port,
                extra_ports: self.extra_service_ports.clone(),
                ..service::Wanted::kubernetes(first_address(&self.service_cluster_ip_range)?, self.secure_port)
            },
            endpoint_ports: endpoints::ports(self.secure_port, &self.extra_endpoint_ports),
            reconcile: self.reconcile,
            mode: self.mode,
            namespaces: SYSTEM.into_iter().map(String::from).chain(self.extra_namespaces.iter().cloned()).collect(),
            lease_directory: lease_directory(&self.etcd_prefix),
            placement: self.placement,
            periods: self.periods,
        })
    }
}

/// The own address in canonical text.
pub(crate) fn own_address(text: &str) -> Result<String, ConfigError> {
    usable(text).ok_or_else(|| ConfigError::AdvertiseAddress { text: text.into() })
}

pub(crate) fn check_mode(mode: Mode) -> Result<(), ConfigError> {
    if mode == Mode::MasterCount(0) { Err(ConfigError::MasterCount) } else { Ok(()) }
}

pub(crate) fn check_namespaces(field: &'static str, names: &[String]) -> Result<(), ConfigError> {
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(ConfigError::Namespace { field, name: name.clone() }),
        None => Ok(()),
    }
}

/// No period is longer: a day, in milliseconds.
const MOST: u64 = 86_400_000;

pub(crate) fn check_period(name: &'static str, period: Duration, least: u64) -> Result<(), ConfigError> {
    let possible = Duration::from_millis(least)..=Duration::from_millis(MOST);
    if possible.contains(&period) { Ok(()) } else { Err(ConfigError::Period { name, least }) }
}

pub(crate) fn check_whole_seconds(name: &'static str, period: Duration) -> Result<(), ConfigError> {
    if period.subsec_nanos() == 0 { Ok(()) } else { Err(ConfigError::WholeSeconds { name }) }
}

/// Where the leases are; ends with `/`. The prefix is read as kube-apiserver does (apiserver,
/// `pkg/storage/etcd3/store.go`): as a path from `/` on.
pub(crate) fn lease_directory(etcd_prefix: &str) -> String {
    let mut parts = Vec::new();
    for part in etcd_prefix.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.push("masterleases");
    format!("/{}/", parts.join("/"))
}

/// The address of the Service `kubernetes` in a range: the first one that can be allocated.
///
/// # Errors
/// The text is no CIDR, or the range has no address.
pub fn first_address(range: &str) -> Result<IpAddr, ConfigError> {
    let cidr: CidrRange = range.parse()?;
    cidr.value_at(0).ok_or_else(|| ConfigError::EmptyServiceRange { range: range.into() })
}
