//! Randomness from a seed, damaged objects, and what an API server accepts.

#[path = "../../../../core/tests/common/cases.rs"]
mod cases;
pub(crate) mod cluster;
pub(crate) mod store;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) use self::cases::cases;

#[derive(Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number in `0..limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// Up to `limit` of what `one` makes; `None` now and then instead of none.
    pub(crate) fn some<T>(&mut self, limit: u64, mut one: impl FnMut(&mut Self) -> T) -> Option<Vec<T>> {
        let count = self.below(limit + 1);
        (count > 0 || self.percent(50)).then(|| (0..count).map(|_| one(self)).collect())
    }
}

/// Addresses of servers and of nobody, of both families, usable and not, and texts that are none.
pub(crate) const IPS: [&str; 16] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.10",
    "10.0.0.9",
    "192.0.2.7",
    "fd00::1",
    "fd00::2",
    "2001:db8::10",
    "127.0.0.1",
    "0.0.0.0",
    "169.254.1.1",
    "fe80::1",
    "::",
    "300.0.0.1",
    "nonsense",
    "",
];
/// How many of them can be endpoints.
pub(crate) const USABLE: usize = 8;

fn labels(random: &mut Random) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for (key, value) in [
        ("endpointslice.kubernetes.io/skip-mirror", "true"),
        ("endpointslice.kubernetes.io/skip-mirror", "false"),
        ("kubernetes.io/service-name", "kubernetes"),
        ("kubernetes.io/service-name", "other"),
        ("example.com/team", "network"),
    ] {
        if random.percent(30) {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    (!labels.is_empty() || random.percent(50)).then_some(labels)
}

fn metadata(random: &mut Random) -> ObjectMeta {
    let annotations = random.percent(30).then(|| BTreeMap::from([("example.com/note".into(), "keep".into())]));
    ObjectMeta {
        name: Some("kubernetes".into()),
        namespace: Some("default".into()),
        resource_version: Some(random.below(1000).to_string()),
        uid: Some("0b8f3a1e".into()),
        labels: labels(random),
        annotations,
        ..ObjectMeta::default()
    }
}

fn address(random: &mut Random) -> EndpointAddress {
    EndpointAddress {
        ip: random.pick(&IPS).to_owned(),
        node_name: random.percent(10).then(|| "node-1".into()),
        target_ref: random.percent(10).then(|| ObjectReference { uid: Some("1".into()), ..Default::default() }),
        ..EndpointAddress::default()
    }
}

fn port(random: &mut Random) -> EndpointPort {
    EndpointPort {
        name: random.pick(&[None, Some("https"), Some("https"), Some("extra"), Some("Not A Name")]).map(String::from),
        port: random.pick(&[6443, 6443, 443, 0, 70_000, -1]),
        protocol: random.pick(&[None, Some("TCP"), Some("TCP"), Some("UDP"), Some("ICMP")]).map(String::from),
        ..EndpointPort::default()
    }
}

/// Endpoints in any state, from right to hopeless.
pub(crate) fn any_endpoints(random: &mut Random) -> Endpoints {
    let subset = |random: &mut Random| EndpointSubset {
        addresses: random.some(4, address),
        not_ready_addresses: if random.percent(30) { random.some(3, address) } else { None },
        ports: if random.percent(60) { Some(vec![https(6443)]) } else { random.some(3, port) },
    };
    let subsets = if random.percent(60) { Some(vec![subset(random)]) } else { random.some(3, subset) };
    Endpoints { metadata: metadata(random), subsets }
}

pub(crate) fn https(port: i32) -> EndpointPort {
    EndpointPort { name: Some("https".into()), port, protocol: Some("TCP".into()), ..EndpointPort::default() }
}

/// A slice in any state.
pub(crate) fn any_slice(random: &mut Random) -> EndpointSlice {
    let endpoint = |random: &mut Random| Endpoint {
        addresses: random.some(2, |random| random.pick(&IPS).to_owned()).unwrap_or_default(),
        conditions: random.percent(80).then(|| EndpointConditions {
            ready: random.pick(&[None, Some(true), Some(true), Some(false)]),
            ..EndpointConditions::default()
        }),
        zone: random.percent(10).then(|| "zone-a".into()),
        ..Endpoint::default()
    };
    let port = |random: &mut Random| SlicePort {
        name: random.pick(&[None, Some("https"), Some("other")]).map(String::from),
        port: random.pick(&[None, Some(6443), Some(6443), Some(443)]),
        protocol: random.pick(&[None, Some("TCP"), Some("UDP")]).map(String::from),
        ..SlicePort::default()
    };
    EndpointSlice {
        address_type: random.pick(&["IPv4", "IPv4", "IPv6", "FQDN", ""]).into(),
        endpoints: random.some(4, endpoint),
        metadata: metadata(random),
        ports: random.some(2, port),
    }
}

/// A Service in any state.
pub(crate) fn any_service(random: &mut Random) -> Service {
    let port = |random: &mut Random| ServicePort {
        name: random.pick(&[None, Some("https"), Some("https"), Some("extra")]).map(String::from),
        port: random.pick(&[443, 443, 80, 8443]),
        protocol: random.pick(&[None, Some("TCP"), Some("UDP")]).map(String::from),
        target_port: random.pick(&[
            None,
            Some(IntOrString::Int(6443)),
            Some(IntOrString::Int(443)),
            Some(IntOrString::String("https".into())),
        ]),
        node_port: random.pick(&[None, None, Some(30_000), Some(30_443), Some(0)]),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some("10.0.0.1".into()),
        type_: random.pick(&[None, Some("ClusterIP"), Some("NodePort"), Some("LoadBalancer")]).map(String::from),
        ports: random.some(3, port),
        ip_family_policy: random.pick(&[None, Some("SingleStack"), Some("PreferDualStack")]).map(String::from),
        selector: random.percent(10).then(|| BTreeMap::from([("app".into(), "x".into())])),
        ..ServiceSpec::default()
    };
    Service { metadata: metadata(random), spec: random.percent(95).then_some(spec), ..Service::default() }
}

fn usable(ip: &str) -> bool {
    IPS[..USABLE].contains(&ip) || (ip.parse::<std::net::IpAddr>().is_ok() && !IPS.contains(&ip))
}

fn is_label(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Whether an API server takes these Endpoints in a write (kubernetes `pkg/apis/core/validation`).
pub(crate) fn check_endpoints(endpoints: &Endpoints) -> Result<(), String> {
    for subset in endpoints.subsets.iter().flatten() {
        let addresses = subset.addresses.iter().flatten().chain(subset.not_ready_addresses.iter().flatten());
        let ips: Vec<&str> = addresses.map(|address| address.ip.as_str()).collect();
        if ips.is_empty() {
            return Err("a subset without an address".into());
        }
        if let Some(ip) = ips.iter().find(|ip| !usable(ip)) {
            return Err(format!("address {ip:?}"));
        }
        let ports = subset.ports.as_deref().unwrap_or_default();
        for port in ports {
            let name = port.name.as_deref().unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let named = is_label(name) || (name.is_empty() && ports.len() == 1);
            if !named || !(1..=65_535).contains(&port.port) || !["TCP", "UDP", "SCTP"].contains(&protocol) {
                return Err(format!("port {port:?}"));
            }
        }
    }
    Ok(())
}

/// Whether an API server takes this slice in a write (kubernetes `pkg/apis/discovery/validation`).
pub(crate) fn check_slice(slice: &EndpointSlice) -> Result<(), String> {
    for endpoint in slice.endpoints.iter().flatten() {
        let ips = &endpoint.addresses;
        let of_type = |ip: &String| usable(ip) && ip.contains(':') == (slice.address_type == "IPv6");
        if ips.is_empty() || !ips.iter().all(of_type) || !["IPv4", "IPv6"].contains(&slice.address_type.as_str()) {
            return Err(format!("{} endpoint {ips:?}", slice.address_type));
        }
    }
    let mut names = BTreeSet::new();
    for port in slice.ports.iter().flatten() {
        if !names.insert(port.name.clone()) {
            return Err(format!("port {port:?} twice"));
        }
    }
    Ok(())
}

/// The ready addresses of Endpoints, in their order.
pub(crate) fn ready(endpoints: Option<&Endpoints>) -> Vec<String> {
    let subsets = endpoints.into_iter().flat_map(|endpoints| endpoints.subsets.iter().flatten());
    subsets.flat_map(|subset| subset.addresses.iter().flatten()).map(|address| address.ip.clone()).collect()
}

/// The ready addresses of a slice, in their order.
pub(crate) fn slice_ready(slice: Option<&EndpointSlice>) -> Vec<String> {
    let endpoints = slice.into_iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true));
    ready.flat_map(|endpoint| endpoint.addresses.clone()).collect()
}
