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

/// The fields of a Service that concern ranges, borrowed from the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Service<'a> {
    /// `metadata.namespace`; read only if ClusterIPs are IPAddress objects, or of Services that claim one value together.
    pub namespace: &'a str,
    /// `metadata.name`; read as the namespace.
    pub name: &'a str,
    /// `metadata.creationTimestamp` in seconds since 1970, 0 if unknown; read only of Services that claim one value together.
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

/// One of a Service's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort<'a> {
    /// `protocol`: `TCP`, `UDP` or `SCTP`.
    pub protocol: &'a str,
    /// `nodePort`; 0 for none.
    pub node_port: i32,
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
