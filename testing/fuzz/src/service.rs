//! Services made of few different addresses, ports and names, so that they often meet.

use arbitrary::{Arbitrary, Unstructured};
use rangekeeper::service::{Service, ServicePort};

/// A Service that owns its texts.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct OwnedService {
    /// `spec.clusterIP`.
    pub cluster_ip: Address,
    /// `spec.clusterIPs`.
    pub cluster_ips: Vec<Address>,
    /// Node ports with their protocols.
    pub ports: Vec<(NodePort, Protocol)>,
    /// `spec.healthCheckNodePort`.
    pub health_check_node_port: NodePort,
}

/// The text of a ClusterIP, mostly an address in or near the ranges that targets use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub String);

/// A node port, mostly in or near the ranges that targets use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePort(pub i32);

/// The name of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub String);

impl<'a> Arbitrary<'a> for Address {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let host = input.arbitrary::<u8>()? % 40;
        Ok(Self(match input.arbitrary::<u8>()? % 16 {
            0 => String::new(),
            1 => "None".to_owned(),
            2 => input.arbitrary()?,
            3 => format!("::ffff:10.0.0.{host}"),
            4 => format!("010.0.00.{host:03}"),
            5 => format!("192.168.{host}.1"),
            6..10 => format!("fd00::{host:x}"),
            _ => format!("10.0.0.{host}"),
        }))
    }
}

impl<'a> Arbitrary<'a> for NodePort {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(match input.arbitrary::<u8>()? {
            port @ 0..128 => 30_000 + i32::from(port % 40) - 4,
            128..250 => 0,
            _ => input.arbitrary()?,
        }))
    }
}

impl<'a> Arbitrary<'a> for Protocol {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let known = ["TCP", "TCP", "UDP", "SCTP", "tcp", ""];
        match known.get(usize::from(input.arbitrary::<u8>()? % 7)) {
            Some(known) => Ok(Self((*known).to_owned())),
            None => Ok(Self(input.arbitrary()?)),
        }
    }
}

impl OwnedService {
    /// Hands over the Service in the core's form.
    pub fn with<R>(&self, work: impl FnOnce(&Service<'_>) -> R) -> R {
        let cluster_ips: Vec<&str> = self.cluster_ips.iter().map(|address| &*address.0).collect();
        let ports: Vec<ServicePort<'_>> = self
            .ports
            .iter()
            .map(|(port, protocol)| ServicePort { protocol: &protocol.0, node_port: port.0 })
            .collect();
        work(&Service {
            cluster_ip: &self.cluster_ip.0,
            cluster_ips: &cluster_ips,
            ports: &ports,
            health_check_node_port: self.health_check_node_port.0,
            ..Service::default()
        })
    }

    /// The texts of the ClusterIPs that the Service claims.
    pub fn claimed_addresses(&self) -> Vec<&str> {
        match &*self.cluster_ip.0 {
            "" | "None" => Vec::new(),
            own if self.cluster_ips.is_empty() => vec![own],
            _ => self.cluster_ips.iter().map(|address| &*address.0).collect(),
        }
    }

    /// The node ports that the Service claims: a number once for all its protocols, and once more for each repetition
    /// of a protocol. The health check's counts unless the number is listed without TCP.
    pub fn claimed_ports(&self) -> Vec<i32> {
        let mut seen: Vec<(i32, &str)> = Vec::new();
        let mut claimed = Vec::new();
        for (NodePort(port), Protocol(protocol)) in &self.ports {
            if *port != 0 && (!seen.iter().any(|(known, _)| known == port) || seen.contains(&(*port, protocol))) {
                claimed.push(*port);
            }
            seen.push((*port, protocol));
        }
        let health = self.health_check_node_port.0;
        if health != 0 && (!seen.iter().any(|(known, _)| *known == health) || seen.contains(&(health, "TCP"))) {
            claimed.push(health);
        }
        claimed
    }
}
