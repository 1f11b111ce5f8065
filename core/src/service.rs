//! The fields of a Service that an audit reads, and the addresses and ports that the Service claims by them.
//!
//! ```
//! use rangekeeper::service::{Service, ServicePort};
//!
//! let ports = [("TCP", 30_053), ("UDP", 30_053)].map(|(protocol, node_port)| ServicePort { protocol, node_port });
//! let dns = Service { cluster_ip: "10.96.0.10", ports: &ports, ..Service::default() };
//! assert_eq!(dns.cluster_ip_texts(), ["10.96.0.10"]);
//! assert_eq!(dns.node_ports().collect::<Vec<_>>(), [30_053]);
//! ```

use std::net::IpAddr;

use crate::address::parse_address;
use crate::any::AnyValue;

/// The fields of a Service that concern ranges, borrowed from the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service<'a> {
    /// `metadata.namespace`; read only if ClusterIPs are IPAddress objects, or of Services that claim one value
    /// together.
    pub namespace: &'a str,
    /// `metadata.name`; read as the namespace.
    pub name: &'a str,
    /// `metadata.creationTimestamp` in seconds since 1970, 0 if unknown; read only of Services that claim one value
    /// together.
    pub created: i64,
    /// etcd's create revision of the object, 0 if unknown; read as the time. It orders Services of one second.
    pub create_revision: u64,
    /// `spec.clusterIP`: an address, empty, or `None`.
    pub cluster_ip: &'a str,
    /// `spec.clusterIPs`; if empty, `cluster_ip` is the only one.
    pub cluster_ips: &'a [&'a str],
    /// `spec.ports`; those without a node port may be left out.
    pub ports: &'a [ServicePort<'a>],
    /// `spec.healthCheckNodePort`; 0 for none.
    pub health_check_node_port: i32,
}

/// The fields of a Service that say which values it should have, and whether it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceForm {
    /// `spec.type`.
    pub kind: ServiceType,
    /// Whether `spec.clusterIP` is `None`.
    pub is_headless: bool,
    /// The number of ClusterIPs.
    pub addresses: u8,
    /// Whether `spec.ipFamilyPolicy` is `RequireDualStack`.
    pub requires_dual_stack: bool,
    /// Whether `spec.allocateLoadBalancerNodePorts` is false.
    pub without_node_ports: bool,
    /// Whether one of `spec.ports` has no node port.
    pub lacks_node_port: bool,
    /// Whether `spec.externalTrafficPolicy` is `Local`.
    pub is_local: bool,
    /// Whether there is a `spec.healthCheckNodePort`.
    pub has_health_check_node_port: bool,
}

/// The type of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServiceType {
    /// `ClusterIP`, which is the default.
    #[default]
    ClusterIp,
    /// `NodePort`.
    NodePort,
    /// `LoadBalancer`.
    LoadBalancer,
    /// `ExternalName`.
    ExternalName,
}

/// One of a Service's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort<'a> {
    /// `protocol`: `TCP`, `UDP` or `SCTP`.
    pub protocol: &'a str,
    /// `nodePort`; 0 for none.
    pub node_port: i32,
}

/// What a Service claims by one of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim<'a> {
    /// An address.
    Address {
        /// As the Service has it.
        text: &'a str,
        /// `None` if the text is none, which is a fault of the Service.
        address: Option<IpAddr>,
    },
    /// A node port.
    Port(u16),
}

impl Claim<'_> {
    /// The value; `None` if the text is no address.
    pub fn value(&self) -> Option<AnyValue> {
        match *self {
            Self::Address { address, .. } => address.map(AnyValue::Address),
            Self::Port(port) => Some(AnyValue::Port(port)),
        }
    }
}

impl<'a> Service<'a> {
    /// The addresses that this Service claims, as text; none if it is headless or has no ClusterIP.
    pub fn cluster_ip_texts(&self) -> &[&'a str] {
        match self.cluster_ip {
            "" | "None" => &[],
            _ if self.cluster_ips.is_empty() => std::slice::from_ref(&self.cluster_ip),
            _ => self.cluster_ips,
        }
    }

    /// The addresses among [`cluster_ip_texts`](Self::cluster_ip_texts); the other texts are faults of the Service.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + Clone + '_ {
        self.cluster_ip_texts().iter().filter_map(|text| parse_address(text))
    }

    /// What this Service claims: its addresses, then its node ports; a number that is no port claims nothing. A value
    /// may come twice.
    ///
    /// Cost: that of [`node_ports`](Self::node_ports).
    pub fn claims(&self) -> impl Iterator<Item = Claim<'a>> + '_ {
        let addresses =
            self.cluster_ip_texts().iter().map(|text| Claim::Address { text, address: parse_address(text) });
        let ports = self.node_ports().filter_map(|port| u16::try_from(port).ok());
        addresses.chain(ports.map(Claim::Port))
    }

    /// The node ports that this Service claims, in order; a port that it claims twice is returned twice.
    ///
    /// A port that is listed with several protocols is claimed once; each repetition of a protocol claims it again. The
    /// health check's port is claimed too, unless the same number is listed without TCP (kubernetes
    /// `pkg/registry/core/service/portallocator/controller/repair.go`).
    ///
    /// Cost: quadratic in the Service's own node ports.
    pub fn node_ports(&self) -> impl Iterator<Item = i32> + '_ {
        let listed = self.ports.iter().enumerate().filter(|(index, port)| {
            let earlier = || self.ports[..*index].iter().filter(|earlier| earlier.node_port == port.node_port);
            port.node_port != 0
                && (earlier().next().is_none() || earlier().any(|earlier| earlier.protocol == port.protocol))
        });
        let health = self.health_check_node_port;
        let mut same = self.ports.iter().filter(|port| port.node_port == health).peekable();
        let health_claimed = health != 0 && (same.peek().is_none() || same.any(|port| port.protocol == "TCP"));
        listed.map(|(_, port)| port.node_port).chain(health_claimed.then_some(health))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `spec.clusterIP`, `spec.clusterIPs`, node ports, and the claims.
    type Row = (&'static str, &'static [&'static str], &'static [i32], &'static [&'static str]);

    #[test]
    fn damaged_services_claim_what_a_repair_takes_for_theirs() {
        let rows: &[Row] = &[
            ("10.0.0.7", &["10.0.0.7", "fd00::7"], &[30_001], &["10.0.0.7", "fd00::7", "30001"]),
            ("10.0.0.7", &[], &[], &["10.0.0.7"]),
            // Without the first field the second one does not count.
            ("", &["10.0.0.7"], &[30_001], &["30001"]),
            ("None", &["None"], &[], &[]),
            ("10.0.0.7", &["10.0.0.8"], &[], &["10.0.0.8"]),
            (
                "10.0.0",
                &["10.0.0", "::ffff:10.0.0.9", "010.0.0.1", ""],
                &[],
                &["no value", "10.0.0.9", "10.0.0.1", "no value"],
            ),
            ("", &[], &[0, -1, 65_536, 65_535], &["65535"]),
        ];
        for (cluster_ip, cluster_ips, ports, expected) in rows {
            let ports: Vec<_> = ports.iter().map(|port| ServicePort { protocol: "TCP", node_port: *port }).collect();
            let service = Service { cluster_ip, cluster_ips, ports: &ports, ..Service::default() };
            let texts = service.claims().filter_map(|claim| match claim {
                Claim::Address { text, .. } => Some(text),
                Claim::Port(_) => None,
            });
            assert_eq!(texts.collect::<Vec<_>>(), service.cluster_ip_texts());
            let value = |claim: Claim<'_>| claim.value().map_or("no value".into(), |value| value.to_string());
            let claims: Vec<_> = service.claims().map(value).collect();
            assert_eq!(claims, *expected, "{service:?}");
        }
    }
}
