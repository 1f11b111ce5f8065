//! Audit of ClusterIPs where each allocated address is an IPAddress object (KEP-1880, default since Kubernetes 1.33).
//!
//! ServiceCIDR objects say which addresses there are, IPAddress objects which of them are allocated and to which
//! Service. What is found follows the reference (kubernetes
//! `pkg/registry/core/service/ipallocator/controller/repairip.go`). The API server mends these objects itself when it
//! starts, so the result has no diff.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::address::parse_address;
use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::occupancy::{Cell, cells};
use crate::range::Band;
use crate::repair::OffsetState;
use crate::service::Service;
use crate::service_cidr::ServiceCidr;

/// The value of the label `ipaddress.kubernetes.io/managed-by` on the objects that the ClusterIP allocator makes.
pub const ALLOCATOR: &str = "ipallocator.k8s.io";

/// How long the reference waits for the Service of a new IPAddress object, in seconds: the API server's time limit
/// for a request.
const GRACE_SECONDS: i64 = 60;

/// The parts of an IPAddress object that an audit reads, borrowed from the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpAddressObject<'a> {
    /// `metadata.name`: the address.
    pub name: &'a str,
    /// The label `ipaddress.kubernetes.io/managed-by`; empty if there is none.
    pub managed_by: &'a str,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// `spec.parentRef.group`.
    pub parent_group: &'a str,
    /// `spec.parentRef.resource`; empty if there is no reference.
    pub parent_resource: &'a str,
    /// `spec.parentRef.namespace`.
    pub parent_namespace: &'a str,
    /// `spec.parentRef.name`.
    pub parent_name: &'a str,
}

/// An audit under way.
///
/// Memory: some 200 bytes per Service and per IPAddress object.
#[derive(Debug)]
pub struct IpAddressAudit {
    now: Option<i64>,
    cidrs: Vec<ServiceCidr>,
    objects: Vec<Object>,
    by_address: HashMap<IpAddr, usize>,
    claims: Vec<Claims>,
    by_name: HashMap<(String, String), usize>,
}

#[derive(Debug)]
struct Object {
    address: Option<IpAddr>,
    name: String,
    managed: bool,
    created: i64,
    /// Namespace and name of the Service that it refers to; `None` if it refers to something else.
    service: Option<(String, String)>,
}

/// The addresses that one Service claims.
#[derive(Debug)]
struct Claims {
    key: (String, String),
    addresses: Vec<Result<IpAddr, String>>,
}

/// The result of an audit.
#[derive(Clone, Debug)]
pub struct IpAddressOutcome {
    /// One for each CIDR, in the order in which they were added.
    pub cidrs: Vec<CidrOutcome>,
    /// What is wrong with Services, in their order, and then with IPAddress objects, in theirs.
    pub findings: Vec<Finding>,
    /// IPAddress objects of the allocator whose Service does not exist, as far as no other Service uses the address.
    pub leaks: Vec<AddressLeak>,
    /// How many Services were observed.
    pub services: u64,
}

/// An IPAddress object of the allocator whose Service does not exist, for an address that no Service uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLeak {
    /// The first CIDR that holds the address: its place in the order in which they were added.
    pub range: usize,
    /// Its place among the IPAddress objects that were observed: 0 is the first.
    pub object: u64,
    /// The address.
    pub address: IpAddr,
}

/// What an audit found out about one CIDR.
#[derive(Clone, Debug)]
pub struct CidrOutcome {
    cidr: ServiceCidr,
    /// Offsets, ascending; so are those below.
    stored: Vec<u64>,
    in_use: Vec<u64>,
    /// Allocated after the API server's own repair: what is in use, and the objects that it leaves alone.
    next: Vec<u64>,
    /// The objects that it removes without making new ones.
    leaked: Vec<u64>,
    lost: Vec<u64>,
    duplicates: Vec<u64>,
}

/// The offsets of those of `addresses` that `cidr` hands out, ascending.
fn offsets<'a>(cidr: &ServiceCidr, addresses: impl IntoIterator<Item = &'a IpAddr>) -> Vec<u64> {
    let mut offsets: Vec<u64> = addresses.into_iter().filter_map(|address| cidr.offset_of(*address)).collect();
    offsets.sort_unstable();
    offsets
}

impl IpAddressAudit {
    /// An audit without objects.
    ///
    /// With `now`, in seconds since 1970, an IPAddress object that is at most 60 s old may still wait for its Service.
    /// Without, nothing may: for data that nobody works on any more.
    pub fn new(now: Option<i64>) -> Self {
        Self {
            now,
            cidrs: Vec::new(),
            objects: Vec::new(),
            by_address: HashMap::new(),
            claims: Vec::new(),
            by_name: HashMap::new(),
        }
    }

    /// Adds one CIDR of a ServiceCIDR object.
    pub fn add_cidr(&mut self, cidr: ServiceCidr) {
        self.cidrs.push(cidr);
    }

    /// Takes note of an IPAddress object.
    pub fn observe_ip_address(&mut self, object: &IpAddressObject<'_>) {
        let address = parse_address(object.name);
        if let Some(address) = address {
            self.by_address.insert(address, self.objects.len());
        }
        let refers_to_service = object.parent_group.is_empty() && object.parent_resource == "services";
        self.objects.push(Object {
            address,
            name: object.name.into(),
            managed: object.managed_by == ALLOCATOR,
            created: object.created,
            service: refers_to_service.then(|| (object.parent_namespace.into(), object.parent_name.into())),
        });
    }

    /// Takes note of a Service.
    pub fn observe_service(&mut self, namespace: &str, name: &str, service: &Service<'_>) {
        let key = (namespace.to_owned(), name.to_owned());
        let texts = service.cluster_ip_texts().iter();
        let addresses = texts.map(|text| parse_address(text).ok_or_else(|| (*text).into())).collect();
        self.by_name.insert(key.clone(), self.claims.len());
        self.claims.push(Claims { key, addresses });
    }

    /// Ends the audit. Cost: linear in the number of objects times the number of CIDRs.
    pub fn finish(self) -> IpAddressOutcome {
        let mut findings = Vec::new();
        let mut lost = HashSet::new();
        let mut duplicates = HashSet::new();
        for (ordinal, claims) in self.claims.iter().enumerate() {
            for claim in &claims.addresses {
                let reason = match claim {
                    Err(_) => Some(Reason::ClusterIPNotValid),
                    Ok(address) => self.judge_claim(&claims.key, *address, &mut lost, &mut duplicates),
                };
                let Some(reason) = reason else { continue };
                let (range, value) = match claim {
                    Ok(address) => (self.range_of(*address), FoundValue::Address(*address)),
                    Err(text) => (0, FoundValue::Text(text.clone())),
                };
                let subject = Subject::Service(ordinal as u64);
                findings.push(Finding { reason, range, subject, value, valid: None });
            }
        }
        let in_use: HashSet<IpAddr> = self
            .claims
            .iter()
            .flat_map(|claims| &claims.addresses)
            .filter_map(|claim| claim.as_ref().ok().copied())
            .collect();
        let mut leaks = Vec::new();
        let mut leaked = HashSet::new();
        for (ordinal, object) in self.objects.iter().enumerate() {
            let subject = Subject::IPAddress(ordinal as u64);
            let Some(address) = object.address else {
                let (reason, value) = (Reason::IPAddressNotAllocated, FoundValue::Text(object.name.clone()));
                findings.push(Finding { reason, range: 0, subject, value, valid: None });
                continue;
            };
            let used = in_use.contains(&address);
            match self.judge_object(object, address) {
                ObjectVerdict::Fine => continue,
                ObjectVerdict::Wrong(reason) => {
                    let (range, value) = (self.range_of(address), FoundValue::Address(address));
                    findings.push(Finding { reason, range, subject, value, valid: None });
                }
                // The Service that uses the address has a finding of its own.
                ObjectVerdict::Leaked if used => {}
                ObjectVerdict::Leaked => {
                    leaks.push(AddressLeak { range: self.range_of(address), object: ordinal as u64, address });
                }
            }
            // The API server removes the object; for a Service that uses the address it makes a new one.
            if !used {
                leaked.insert(address);
            }
        }
        let next: HashSet<IpAddr> =
            self.by_address.keys().filter(|address| !leaked.contains(address)).chain(&in_use).copied().collect();
        let cidrs = self.cidrs.iter().map(|cidr| CidrOutcome {
            cidr: *cidr,
            stored: offsets(cidr, self.by_address.keys()),
            in_use: offsets(cidr, &in_use),
            next: offsets(cidr, &next),
            leaked: offsets(cidr, &leaked),
            lost: offsets(cidr, &lost),
            duplicates: offsets(cidr, &duplicates),
        });
        IpAddressOutcome { cidrs: cidrs.collect(), findings, leaks, services: self.claims.len() as u64 }
    }

    fn judge_claim(
        &self,
        key: &(String, String),
        address: IpAddr,
        lost: &mut HashSet<IpAddr>,
        duplicates: &mut HashSet<IpAddr>,
    ) -> Option<Reason> {
        if !self.cidrs.iter().any(|cidr| cidr.offset_of(address).is_some()) {
            return Some(Reason::ClusterIPOutOfRange);
        }
        let owner = self.by_address.get(&address).and_then(|object| self.objects[*object].service.as_ref());
        match owner.map(|owner| (owner == key, self.by_name.get(owner))) {
            Some((true, _)) => None,
            Some((false, Some(owner))) if self.claims[*owner].addresses.contains(&Ok(address)) => {
                duplicates.insert(address);
                Some(Reason::ClusterIPAlreadyAllocated)
            }
            // The object's own finding tells of the wrong reference; once it is gone the address is allocated anew.
            Some((false, Some(_))) => None,
            Some((false, None)) | None if lost.insert(address) => Some(Reason::ClusterIPNotAllocated),
            Some((false, None)) | None => {
                duplicates.insert(address);
                Some(Reason::ClusterIPAlreadyAllocated)
            }
        }
    }

    fn judge_object(&self, object: &Object, address: IpAddr) -> ObjectVerdict {
        if !object.managed {
            return ObjectVerdict::Fine;
        }
        let Some(key) = &object.service else { return ObjectVerdict::Wrong(Reason::IPAddressNotAllocated) };
        let service = self.by_name.get(key);
        let claimed = service.is_some_and(|service| self.claims[*service].addresses.contains(&Ok(address)));
        let waiting = self.now.is_some_and(|now| now.saturating_sub(object.created) <= GRACE_SECONDS);
        match service {
            _ if claimed || waiting => ObjectVerdict::Fine,
            Some(_) => ObjectVerdict::Wrong(Reason::IPAddressWrongReference),
            None => ObjectVerdict::Leaked,
        }
    }

    /// The first CIDR that hands out `address`; for one that none does the first of its family, or 0.
    fn range_of(&self, address: IpAddr) -> usize {
        let holds = |cidr: &ServiceCidr| cidr.offset_of(address).is_some();
        let same_family = |cidr: &ServiceCidr| cidr.network().is_ipv4() == address.is_ipv4();
        self.cidrs.iter().position(holds).or_else(|| self.cidrs.iter().position(same_family)).unwrap_or(0)
    }
}

enum ObjectVerdict {
    Fine,
    Leaked,
    Wrong(Reason),
}

impl CidrOutcome {
    /// The CIDR.
    pub fn cidr(&self) -> ServiceCidr {
        self.cidr
    }

    /// How many of its addresses have an IPAddress object.
    pub fn used(&self) -> u64 {
        self.stored.len() as u64
    }

    /// How many of its addresses have none.
    pub fn free(&self) -> u64 {
        self.cidr.size().saturating_sub(self.used())
    }

    /// Everything about one address; `None` if the CIDR does not hand it out. `next` tells the state after the API
    /// server's own repair.
    pub fn state_of(&self, address: IpAddr) -> Option<OffsetState> {
        let offset = self.cidr.offset_of(address)?;
        let has = |offsets: &[u64]| offsets.binary_search(&offset).is_ok();
        Some(OffsetState {
            band: if offset < u64::from(self.cidr.static_band()) { Band::Static } else { Band::Dynamic },
            stored: has(&self.stored),
            in_use: has(&self.in_use),
            duplicate: has(&self.duplicates),
            next: has(&self.next),
        })
    }

    /// The CIDR cut into at most `count` cells of equal length (the last may be shorter), with counts for a picture.
    ///
    /// An object that the API server removes counts as leaked, if no Service uses its address. An address that stays
    /// allocated though no Service uses it, as its object is another controller's or still waits for its Service,
    /// counts as in use.
    pub fn occupancy(&self, count: u32) -> Vec<Cell> {
        cells(self.cidr.size(), count, |from, to| {
            let within = |offsets: &[u64]| {
                (offsets.partition_point(|at| *at < to) - offsets.partition_point(|at| *at < from)) as u64
            };
            Cell {
                first: from,
                len: to - from,
                in_use: within(&self.next),
                leaked: within(&self.leaked),
                lost: within(&self.lost),
                duplicate: within(&self.duplicates),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPAddress object of the allocator for the Service `ns/parent`.
    fn object<'a>(name: &'a str, parent: &'a str) -> IpAddressObject<'a> {
        IpAddressObject {
            name,
            managed_by: ALLOCATOR,
            parent_resource: "services",
            parent_namespace: "ns",
            parent_name: parent,
            ..IpAddressObject::default()
        }
    }

    fn audit(
        now: Option<i64>,
        cidr: &str,
        objects: &[IpAddressObject<'_>],
        services: &[(&str, &str)],
    ) -> IpAddressOutcome {
        let mut audit = IpAddressAudit::new(now);
        audit.add_cidr(ServiceCidr::parse(cidr).expect("a CIDR"));
        for object in objects {
            audit.observe_ip_address(object);
        }
        for (name, cluster_ip) in services {
            audit.observe_service("ns", name, &Service { cluster_ip, ..Service::default() });
        }
        audit.finish()
    }

    fn found(outcome: &IpAddressOutcome) -> Vec<(Reason, String)> {
        outcome.findings.iter().map(|finding| (finding.reason, finding.value.to_string())).collect()
    }

    /// Stored, in use, next.
    fn state(outcome: &IpAddressOutcome, address: &str) -> (bool, bool, bool) {
        let state = outcome.cidrs[0].state_of(address.parse().expect("an address")).expect("in the CIDR");
        (state.stored, state.in_use, state.next)
    }

    /// In use, leaked, lost for each address of a CIDR.
    fn cells(outcome: &IpAddressOutcome) -> Vec<(u64, u64, u64)> {
        outcome.cidrs[0].occupancy(u32::MAX).iter().map(|cell| (cell.in_use, cell.leaked, cell.lost)).collect()
    }

    const FREE: (u64, u64, u64) = (0, 0, 0);
    const USED: (u64, u64, u64) = (1, 0, 0);
    const LEAKED: (u64, u64, u64) = (0, 1, 0);
    const LOST: (u64, u64, u64) = (1, 0, 1);

    #[test]
    fn an_object_that_the_server_removes_is_gone_after_its_repair() {
        let pod = IpAddressObject { parent_resource: "pods", ..object("10.0.0.3", "moved") };
        let outcome = audit(
            None,
            "10.0.0.0/29",
            &[object("10.0.0.1", "moved"), object("10.0.0.2", "gone"), pod, object("10.0.0.5", "moved")],
            &[("moved", "10.0.0.5")],
        );
        assert_eq!(
            found(&outcome),
            [(Reason::IPAddressWrongReference, "10.0.0.1".into()), (Reason::IPAddressNotAllocated, "10.0.0.3".into())]
        );
        assert_eq!(outcome.leaks.iter().map(|leak| leak.object).collect::<Vec<_>>(), [1]);
        for removed in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            assert_eq!(state(&outcome, removed), (true, false, false), "{removed}");
        }
        assert_eq!(state(&outcome, "10.0.0.5"), (true, true, true));
        assert_eq!(cells(&outcome), [LEAKED, LEAKED, LEAKED, FREE, USED, FREE]);
        assert_eq!((outcome.cidrs[0].used(), outcome.cidrs[0].free()), (4, 2));
    }

    #[test]
    fn an_address_that_a_service_uses_stays_whatever_its_object_refers_to() {
        let outcome = audit(
            None,
            "10.0.0.0/29",
            &[object("10.0.0.1", "other"), object("10.0.0.2", "gone")],
            &[("one", "10.0.0.1"), ("two", "10.0.0.2"), ("other", "10.0.0.3")],
        );
        assert_eq!(
            found(&outcome),
            [
                (Reason::ClusterIPNotAllocated, "10.0.0.2".into()),
                (Reason::ClusterIPNotAllocated, "10.0.0.3".into()),
                (Reason::IPAddressWrongReference, "10.0.0.1".into()),
            ]
        );
        assert_eq!(outcome.leaks, [], "a Service uses it");
        assert_eq!(state(&outcome, "10.0.0.1"), (true, true, true));
        assert_eq!(state(&outcome, "10.0.0.2"), (true, true, true));
        assert_eq!(state(&outcome, "10.0.0.3"), (false, true, true));
        assert_eq!(cells(&outcome), [USED, LOST, LOST, FREE, FREE, FREE]);
    }

    #[test]
    fn an_object_that_the_server_leaves_alone_keeps_its_address() {
        let foreign = IpAddressObject { managed_by: "someone-else", ..object("10.0.0.1", "gone") };
        let young = IpAddressObject { created: 1000, ..object("10.0.0.2", "coming") };
        for (now, stays) in [(Some(1060), true), (Some(1061), false), (None, false)] {
            let outcome = audit(now, "10.0.0.0/30", &[foreign, young], &[]);
            assert_eq!(found(&outcome), []);
            assert_eq!(outcome.leaks.len(), usize::from(!stays));
            assert_eq!(state(&outcome, "10.0.0.1"), (true, false, true));
            assert_eq!(state(&outcome, "10.0.0.2"), (true, false, stays));
            assert_eq!(cells(&outcome), [USED, if stays { USED } else { LEAKED }]);
        }
    }
}
