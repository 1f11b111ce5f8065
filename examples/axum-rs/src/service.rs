//! The rules for the fields of a Service, and the values that it needs.

use etcd_rs::kv::Stored;
use etcd_rs::services::Wanted;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use rangekeeper::address::{family_name, parse_address};
use rangekeeper::allocator::Request;
use rangekeeper::any::AnyValue;

use crate::http::{Refusal, invalid};

/// A value that a Service needs, and the field that names it.
pub(crate) struct Want {
    pub(crate) field: String,
    pub(crate) wanted: Wanted,
    /// The ports, of different protocols, that share the value, if it is a node port.
    ports: Vec<usize>,
}

/// Checks a Service, adds defaults, and returns the values that it needs. `families` are those of the ranges, the
/// default first.
pub(crate) fn prepare(service: &mut Service, families: &[&str]) -> Result<Vec<Want>, Refusal> {
    for (field, name) in [("name", &service.metadata.name), ("namespace", &service.metadata.namespace)] {
        let name = name.as_deref().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
            return invalid(format!("metadata.{field}"), name, "must consist of lower-case letters, digits and dashes");
        }
    }
    let spec = service.spec.get_or_insert_default();
    let mut wants = cluster_ips(spec, families)?;
    let has_node_ports = match spec.type_.get_or_insert_with(|| "ClusterIP".to_owned()).as_str() {
        "ClusterIP" => false,
        "NodePort" if !wants.is_empty() => true,
        kind => return invalid("spec.type", kind, "must be ClusterIP, or NodePort for a Service with addresses"),
    };
    spec.health_check_node_port = None; // Only a LoadBalancer has one.
    let ports = spec.ports.get_or_insert_default();
    if ports.is_empty() && !wants.is_empty() {
        return invalid("spec.ports", "[]", "must have a port");
    }
    wants.extend(node_ports(ports, has_node_ports, families.len())?);
    Ok(wants)
}

/// The addresses of a Service, by its families (KEP-563).
fn cluster_ips(spec: &mut ServiceSpec, families: &[&str]) -> Result<Vec<Want>, Refusal> {
    let (mut ips, first) = (spec.cluster_ips.take().unwrap_or_default(), spec.cluster_ip.take());
    ips.extend(first.clone().filter(|ip| ips.is_empty() && !ip.is_empty()));
    if let Some(ip) = first.filter(|ip| !ip.is_empty() && *ip != ips[0]) {
        return invalid("spec.clusterIPs[0]", &ips[0], format!("is not spec.clusterIP, {ip}"));
    }
    let is_headless = ips == ["None"];
    let mut addresses = Vec::new();
    for (index, ip) in ips.iter().enumerate().filter(|_| !is_headless) {
        match parse_address(ip) {
            Some(address) => addresses.push(address),
            None => return invalid(format!("spec.clusterIPs[{index}]"), ip, "is not an IP address"),
        }
    }
    let mut chosen = spec.ip_families.take().unwrap_or_default();
    if chosen.is_empty() {
        let of_addresses = addresses.iter().map(|address| family_name(*address)).chain(families.first().copied());
        chosen.extend(of_addresses.take(addresses.len().max(1)).map(str::to_owned));
    }
    let policy = spec.ip_family_policy.get_or_insert_with(|| "SingleStack".to_owned());
    if policy == "PreferDualStack" || policy == "RequireDualStack" && families.len() == 2 {
        let all = families.iter().map(|family| (*family).to_owned());
        chosen.extend(all.filter(|family| !chosen.contains(family)).collect::<Vec<_>>());
    } else if policy != "SingleStack" || chosen.len() != 1 {
        return invalid(
            "spec.ipFamilyPolicy",
            policy,
            format!("does not fit {chosen:?} in a cluster with {families:?}"),
        );
    }
    for (index, family) in chosen.iter().enumerate() {
        if !families.contains(&family.as_str()) || chosen[..index].contains(family) {
            return invalid(format!("spec.ipFamilies[{index}]"), family, format!("must be one of {families:?}, once"));
        }
    }
    for (index, address) in addresses.iter().enumerate() {
        if chosen.get(index).map(String::as_str) != Some(family_name(*address)) {
            return invalid(format!("spec.clusterIPs[{index}]"), address, format!("spec.ipFamilies is {chosen:?}"));
        }
    }
    let want = |(index, family): (usize, &String)| {
        let request = addresses.get(index).map_or(Request::Any, |address| Request::Named(AnyValue::Address(*address)));
        let range = families.iter().position(|one| one == family)?;
        Some(Want { field: format!("spec.clusterIPs[{index}]"), wanted: Wanted { range, request }, ports: vec![] })
    };
    let wants = chosen.iter().enumerate().filter(|_| !is_headless).filter_map(want).collect();
    (spec.ip_families, spec.cluster_ips) = (Some(chosen), is_headless.then_some(ips));
    Ok(wants)
}

/// The node ports of a Service. One port number with several protocols shares a node port.
fn node_ports(ports: &mut [ServicePort], has_node_ports: bool, range: usize) -> Result<Vec<Want>, Refusal> {
    ports.iter_mut().for_each(|port| _ = port.protocol.get_or_insert_with(|| "TCP".to_owned()));
    let mut wants: Vec<Want> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = |name| format!("spec.ports[{index}].{name}");
        let is_same = |other: &ServicePort| other.port == port.port && other.protocol == port.protocol;
        let is_protocol = port.protocol.as_deref().is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol));
        if !is_protocol || !(1..=65_535).contains(&port.port) || ports[..index].iter().any(is_same) {
            return invalid(field("port"), port.port, "must be in 1-65535, once for each of TCP, UDP and SCTP");
        }
        let number = port.node_port.filter(|number| *number != 0);
        let request = match number.map(u16::try_from) {
            None if !has_node_ports => continue,
            None => Request::Any,
            Some(Ok(number)) if has_node_ports => Request::Named(AnyValue::Port(number)),
            _ => return invalid(field("nodePort"), number.unwrap_or(0), "must be a port, and spec.type NodePort"),
        };
        let shares = |want: &&mut Want| match number {
            None => ports[want.ports[0]].port == port.port,
            Some(_) => want.wanted.request == request,
        };
        match wants.iter_mut().find(shares) {
            Some(want) if want.ports.iter().any(|other| ports[*other].protocol == port.protocol) => {
                return invalid(field("nodePort"), number.unwrap_or(0), "is listed twice with this protocol");
            }
            Some(want) => want.ports.push(index),
            None => {
                wants.push(Want { field: field("nodePort"), wanted: Wanted { range, request }, ports: vec![index] })
            }
        }
    }
    Ok(wants)
}

/// Puts the values that were allocated into a Service.
pub(crate) fn fill(service: &mut Service, wants: &[Want], values: &[AnyValue]) {
    let spec = service.spec.get_or_insert_default();
    let (ips, ports) = (spec.cluster_ips.get_or_insert_default(), spec.ports.get_or_insert_default());
    for (want, value) in wants.iter().zip(values) {
        match value {
            AnyValue::Address(address) => ips.push(address.to_string()),
            AnyValue::Number(_) => {} // no range is of numbers
            AnyValue::Port(port) => want.ports.iter().for_each(|index| ports[*index].node_port = Some((*port).into())),
        }
    }
    spec.cluster_ip = ips.first().cloned();
}

/// Decodes a stored Service.
pub(crate) fn decode(stored: &Stored) -> Result<Service, String> {
    let mut service: Service = serde_json::from_slice(&stored.value).map_err(|error| error.to_string())?;
    service.metadata.resource_version = Some(stored.state.mod_revision.to_string());
    Ok(service)
}

/// Shows a stored Service to the core.
pub(crate) fn show(stored: &Stored, function: &mut dyn FnMut(&rangekeeper::Service<'_>)) -> Result<(), String> {
    let spec = decode(stored)?.spec.unwrap_or_default();
    let cluster_ips: Vec<_> = spec.cluster_ips.iter().flatten().map(String::as_str).collect();
    let ports = spec.ports.iter().flatten().map(|port| rangekeeper::service::ServicePort {
        protocol: port.protocol.as_deref().unwrap_or("TCP"),
        node_port: port.node_port.unwrap_or(0),
    });
    let ports: Vec<_> = ports.collect();
    let cluster_ip = spec.cluster_ip.as_deref().unwrap_or_default();
    let service = rangekeeper::Service { cluster_ip, cluster_ips: &cluster_ips, ports: &ports, ..Default::default() };
    function(&service);
    Ok(())
}
