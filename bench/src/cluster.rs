//! The recorded allocations and the Services of a cluster, for audits.

use std::net::IpAddr;

use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::audit::Report;
use rangekeeper::ipaddress::{ALLOCATOR, IpAddressObject};
use rangekeeper::service::ServicePort;
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper::{Allocator, Audit, Leaks, Service, Stored, Strategy};

use crate::some_values;

/// One in so many Services, or values, is wrong in each way.
const DRIFT: usize = 100;

/// What Services claim.
#[derive(Clone, Debug, Default)]
struct Claims {
    addresses: Vec<String>,
    ports: Vec<ServicePort<'static>>,
}

impl Claims {
    fn new(values: impl Iterator<Item = AnyValue>) -> Self {
        let mut claims = Self::default();
        for value in values {
            match value {
                AnyValue::Address(address) => claims.addresses.push(address.to_string()),
                AnyValue::Number(_) => unreachable!("no Service has a number"),
                AnyValue::Port(port) => claims.ports.push(ServicePort { protocol: "TCP", node_port: port.into() }),
            }
        }
        claims
    }

    fn services<'a>(&'a self) -> impl Iterator<Item = Service<'a>> {
        let of_address = |address: &'a String| Service { cluster_ip: address, ..Service::default() };
        let of_port =
            |port: &'a ServicePort<'static>| Service { ports: std::slice::from_ref(port), ..Service::default() };
        self.addresses.iter().map(of_address).chain(self.ports.iter().map(of_port))
    }
}

/// A range that is stored as a bitmap, and the Services that have its values.
#[derive(Clone, Debug)]
pub struct Cluster {
    range: AnyRange,
    data: Vec<u8>,
    claims: Claims,
}

impl Cluster {
    /// A cluster in which all that Services use is stored, and nothing else.
    pub fn new(range: impl Into<AnyRange>, services: u32) -> Self {
        let range = range.into();
        let values = some_values(range, services, 2);
        Self::stored(range, values.iter().copied(), values.iter().copied())
    }

    /// A cluster with drift: for each hundred Services one value that is leaked, one that is not stored, and one that
    /// two have.
    pub fn with_drift(range: impl Into<AnyRange>, services: u32) -> Self {
        let range = range.into();
        let values = some_values(range, services, 2);
        let is = |at: usize, kind| at % DRIFT == kind;
        let stored = values.iter().enumerate().filter(|(at, _)| !is(*at, 1));
        let mut claimed = values.clone();
        (0..claimed.len()).filter(|at| is(*at, 2)).for_each(|at| claimed[at] = values[at - 2]);
        Self::stored(range, stored.map(|(_, value)| *value), claimed.into_iter())
    }

    /// A cluster in which two Services have each of these values.
    pub fn with_duplicates(range: impl Into<AnyRange>, services: u32) -> Self {
        let range = range.into();
        let values = some_values(range, services / 2, 2);
        Self::stored(range, values.iter().copied(), values.iter().chain(&values).copied())
    }

    fn stored(
        range: AnyRange,
        stored: impl Iterator<Item = AnyValue>,
        claimed: impl Iterator<Item = AnyValue>,
    ) -> Self {
        let mut allocator = Allocator::new(range, Strategy::Contiguous);
        stored.for_each(|value| allocator.allocate(value).expect("each value comes once"));
        Self { range, data: allocator.snapshot().to_vec(), claims: Claims::new(claimed) }
    }

    /// The Services.
    pub fn services(&self) -> impl Iterator<Item = Service<'_>> {
        self.claims.services()
    }

    /// An audit of the whole cluster.
    pub fn audit(&self, leaks: Leaks<'_>) -> Report {
        let mut audit = Audit::new();
        audit.add_bitmap(self.range, Stored { range: "", data: &self.data }).expect("the snapshot fits");
        self.services().for_each(|service| audit.observe(&service));
        audit.finish(leaks)
    }
}

/// A ServiceCIDR with IPAddress objects, and the Services that have its addresses.
#[derive(Clone, Debug)]
pub struct Objects {
    cidr: ServiceCidr,
    /// The name of an object, and that of its Service: its number.
    objects: Vec<(String, String)>,
    /// The name of a Service, and its address.
    services: Vec<(String, String)>,
}

impl Objects {
    /// A cluster in which each object has its Service.
    pub fn new(cidr: ServiceCidr, addresses: &[IpAddr]) -> Self {
        let named = |(number, address): (usize, &IpAddr)| (number.to_string(), address.to_string());
        let services: Vec<_> = addresses.iter().enumerate().map(named).collect();
        let objects = services.iter().map(|(name, address)| (address.clone(), name.clone())).collect();
        Self { cidr, objects, services }
    }

    /// A cluster in which a third of the objects has no Service, a third of the Services no object, and a third of the
    /// objects refers to another Service.
    pub fn with_drift(cidr: ServiceCidr, addresses: &[IpAddr]) -> Self {
        let Self { objects, services, .. } = Self::new(cidr, addresses);
        let without = |all: Vec<_>, missing| {
            let kept = all.into_iter().enumerate().filter(|(at, _)| at % 3 != missing);
            kept.map(|(_, one)| one).collect()
        };
        let mut cluster = Self { cidr, objects: without(objects, 0), services: without(services, 1) };
        (1..cluster.objects.len()).step_by(2).for_each(|at| cluster.objects[at].1.push('0'));
        cluster
    }

    /// An audit of the whole cluster.
    pub fn audit(&self) -> Report {
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_service_cidr(self.cidr, true).expect("an audit of IPAddress objects");
        for (name, service) in &self.objects {
            let object = IpAddressObject {
                name,
                managed_by: ALLOCATOR,
                parent_resource: "services",
                parent_namespace: "default",
                parent_name: service,
                ..IpAddressObject::default()
            };
            audit.observe_ip_address(&object).expect("an audit of IPAddress objects");
        }
        for (name, address) in &self.services {
            audit.observe(&Service { namespace: "default", name, cluster_ip: address, ..Service::default() });
        }
        audit.finish(Leaks::CleanAtOnce)
    }
}
