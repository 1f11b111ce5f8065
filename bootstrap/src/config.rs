//! The configuration of one server.
//!
//! ```
//! use rangekeeper_bootstrap::config::{Config, first_address};
//!
//! let json = r#"{"advertiseAddress": "192.0.2.10", "serviceClusterIpRange": "10.96.0.0/12"}"#;
//! let config: Config = serde_json::from_str(json)?;
//! assert_eq!(config.secure_port, 6443, "the defaults are kube-apiserver's");
//! assert_eq!(first_address(&config.service_cluster_ip_range)?.to_string(), "10.96.0.1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

/// The configuration of a server. The defaults are kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The address under which others reach this server, which is its endpoint. There is no default.
    pub advertise_address: String,
    /// The port on which the server listens.
    pub secure_port: u16,
    /// The (primary) range of ClusterIPs.
    pub service_cluster_ip_range: String,
    /// The NodePort of the Service `kubernetes`; 0 for none.
    pub kubernetes_service_node_port: u16,
    /// Ports of the Service in addition to the server's own.
    pub extra_service_ports: Vec<ServicePort>,
    /// Ports of the endpoints in addition to the server's own.
    pub extra_endpoint_ports: Vec<EndpointPort>,
    /// Whether the ports and the type of an existing Service, and the ports of its endpoints, are reset. kube-apiserver
    /// has not done so since 1.17.
    pub reconcile: bool,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// Namespaces in addition to the four of every cluster.
    pub extra_namespaces: Vec<String>,
    /// The prefix of the cluster's keys in etcd.
    pub etcd_prefix: String,
    /// The kube-apiserver release whose order of start is followed.
    pub form: Form,
    /// Where the controller runs.
    pub placement: Placement,
    /// The periods of the loops.
    pub periods: Periods,
}

/// The kube-apiserver release whose order of start is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Up to about 1.26.
    SingleController,
    /// Later releases.
    #[default]
    Hooks,
}

/// Where the controller runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Inside the API server, which is ready only once its hooks have ended, so that the start cannot wait for it.
    Inside,
    /// In a process of its own, which waits until the server is ready, and does not refresh its lease while it does not
    /// answer.
    #[default]
    Beside,
}

/// The periods of the loops, in JSON in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Periods {
    /// The period of the Service `kubernetes`, its endpoints, and the server's own lease.
    #[serde(rename = "endpointsMs", with = "crate::millis")]
    pub endpoints: Duration,
    /// The time to live of a lease: whole seconds, longer than `endpoints`.
    #[serde(rename = "leaseTtlMs", with = "crate::millis")]
    pub lease_ttl: Duration,
    /// The period of the namespaces.
    #[serde(rename = "namespacesMs", with = "crate::millis")]
    pub namespaces: Duration,
    /// The period of each of the two repairs.
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
            etcd_prefix: etcd_prefix(),
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
    /// The text is not an address, or the address cannot be an endpoint.
    #[error(
        "advertiseAddress {text:?} cannot be an endpoint: it must be an address that is not loopback, link-local or unspecified"
    )]
    AdvertiseAddress {
        /// The input.
        text: String,
    },
    /// The port is 0.
    #[error("securePort must not be 0")]
    SecurePort,
    /// The range is not a CIDR.
    #[error("serviceClusterIpRange: {0}")]
    ServiceRange(#[from] ParseCidrError),
    /// The range has no address for the Service.
    #[error("serviceClusterIpRange {range:?} has no allocatable address")]
    EmptyServiceRange {
        /// The range.
        range: String,
    },
    /// The range has fewer addresses than kube-apiserver takes (`pkg/controlplane/services.go`).
    #[error(
        "serviceClusterIpRange {range:?} has {size} addresses, and kube-apiserver needs at least {LEAST_ADDRESSES}"
    )]
    SmallServiceRange {
        /// The range.
        range: String,
        /// How many addresses it has, those that cannot be allocated among them.
        size: u64,
    },
    /// The endpoints of the Service would have another IP family than the Service (kubernetes
    /// `pkg/controlplane/apiserver/options/validation.go`).
    #[error("advertiseAddress {address} and serviceClusterIpRange {range:?} are of different IP families")]
    Family {
        /// The address.
        address: String,
        /// The range.
        range: String,
    },
    /// The number of servers is 0.
    #[error("mode master-count needs a count of at least 1")]
    MasterCount,
    /// The text cannot be the name of a namespace.
    #[error("{field}: {name:?} cannot be the name of a namespace: it must be an RFC 1123 label")]
    Namespace {
        /// The field of the configuration.
        field: &'static str,
        /// The input.
        name: String,
    },
    /// A period is too short or too long.
    #[error("{name} must be {least} to {MOST} ms")]
    Period {
        /// The field of the configuration.
        name: &'static str,
        /// The shortest possible period, in milliseconds.
        least: u64,
    },
    /// The period is not whole seconds, in which etcd counts leases.
    #[error("{name} must be whole seconds")]
    WholeSeconds {
        /// The field of the configuration.
        name: &'static str,
    },
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// This server's address in canonical text.
    pub(crate) own: String,
    pub(crate) service: service::Wanted,
    pub(crate) endpoint_ports: Vec<EndpointPort>,
    pub(crate) reconcile: bool,
    pub(crate) mode: Mode,
    pub(crate) namespaces: Vec<String>,
    /// The prefix of the leases' keys; ends with `/`.
    pub(crate) lease_directory: String,
    pub(crate) placement: Placement,
    pub(crate) periods: Periods,
}

impl Config {
    /// Checks and parses all fields.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let own = own_address(&self.advertise_address)?;
        if self.secure_port == 0 {
            return Err(ConfigError::SecurePort);
        }
        check_mode(self.mode)?;
        check_namespaces("extraNamespaces", &self.extra_namespaces)?;
        let Periods { endpoints, lease_ttl, namespaces, repairs } = self.periods;
        check_period("periods.endpointsMs", endpoints, 100)?;
        // A refresh has to fit in before the lease expires.
        check_period("periods.leaseTtlMs", lease_ttl, (endpoints.as_millis() as u64 + 1000).next_multiple_of(1000))?;
        check_whole_seconds("periods.leaseTtlMs", lease_ttl)?;
        check_period("periods.namespacesMs", namespaces, 100)?;
        check_period("periods.repairsMs", repairs, 100)?;
        let service_address = self.service_address(&own)?;
        Ok(Settings {
            own,
            service: service::Wanted {
                node_port: self.kubernetes_service_node_port,
                extra_ports: self.extra_service_ports.clone(),
                ..service::Wanted::kubernetes(service_address, self.secure_port)
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

/// The default prefix of the cluster's keys in etcd.
pub(crate) fn etcd_prefix() -> String {
    "/registry".into()
}

/// The least size of a range of ClusterIPs, those addresses included that cannot be allocated.
const LEAST_ADDRESSES: u64 = 8;

impl Config {
    /// The address of the Service `kubernetes`, beside which this server's address can be an endpoint.
    fn service_address(&self, own: &str) -> Result<IpAddr, ConfigError> {
        let range = &self.service_cluster_ip_range;
        let cidr: CidrRange = range.parse()?;
        let address = first_of(cidr, range)?;
        let host_bits = if address.is_ipv4() { 32 } else { 128 } - u32::from(cidr.network().prefix());
        let size = 1u64.checked_shl(host_bits).unwrap_or(u64::MAX);
        if size < LEAST_ADDRESSES {
            return Err(ConfigError::SmallServiceRange { range: range.clone(), size });
        }
        let is_other = own.parse().is_ok_and(|own: IpAddr| own.is_ipv4() != address.is_ipv4());
        if self.mode != Mode::None && is_other {
            return Err(ConfigError::Family { address: own.into(), range: range.clone() });
        }
        Ok(address)
    }
}

/// This server's address in canonical text.
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

/// The longest possible period: a day, in milliseconds.
const MOST: u64 = 86_400_000;

pub(crate) fn check_period(name: &'static str, period: Duration, least: u64) -> Result<(), ConfigError> {
    let possible = Duration::from_millis(least)..=Duration::from_millis(MOST);
    if possible.contains(&period) { Ok(()) } else { Err(ConfigError::Period { name, least }) }
}

pub(crate) fn check_whole_seconds(name: &'static str, period: Duration) -> Result<(), ConfigError> {
    if period.subsec_nanos() == 0 { Ok(()) } else { Err(ConfigError::WholeSeconds { name }) }
}

/// The prefix of the leases' keys; ends with `/`. Like kube-apiserver (apiserver, `pkg/storage/etcd3/store.go`), it
/// reads `etcd_prefix` as a path from `/`.
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
/// If the text is not a CIDR, or the range has no allocatable address.
pub fn first_address(range: &str) -> Result<IpAddr, ConfigError> {
    first_of(range.parse()?, range)
}

fn first_of(cidr: CidrRange, range: &str) -> Result<IpAddr, ConfigError> {
    cidr.value_at(0).ok_or_else(|| ConfigError::EmptyServiceRange { range: range.into() })
}
