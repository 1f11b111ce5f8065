//! The audit of ClusterIPs that are IPAddress objects (KEP-1880, default since Kubernetes 1.33).
//!
//! ServiceCIDR objects are the ranges; an IPAddress object records the allocation of an address to a Service. The API
//! server repairs these objects itself when it runs; the result has its writes, for data at rest.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::address::{parse_address, parse_canonical};
use crate::any::AnyValue;
use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::ipaddress::{
    ALLOCATOR, AddressObject, ClusterIpVerdict, IpAddressObject, IpAddressVerdict, Parent, judge_cluster_ip,
    judge_object,
};

use crate::range::Band;
use crate::service::Service;
use crate::service_cidr::ServiceCidr;

use super::names::{Index, Name, Names};
use super::occupancy::{Cell, cells};
use super::offsets::Values;
use super::range_pass::Findings;
use super::ranges::is_nearly_all;
use super::{Leak, OffsetState};

/// The API server's default time limit for a request (`--request-timeout`), which an audit cannot read.
const GRACE: Duration = Duration::from_secs(60);
/// How many objects without their Services are not what a few lost Services have left.
const MANY: u64 = 10;

/// One CIDR of a ServiceCIDR object.
#[derive(Debug)]
struct ObservedCidr {
    /// Its place among the ranges of the audit.
    index: usize,
    cidr: ServiceCidr,
    is_ready: bool,
}

/// The IPAddress objects and the addresses of Services that were observed.
#[derive(Debug)]
pub(super) struct Objects {
    now: Option<i64>,
    cidrs: Vec<ObservedCidr>,
    objects: Vec<Object>,
    /// The names of objects that are not canonical texts of addresses, by their places, ascending.
    other_names: Vec<(usize, String)>,
    by_address: Index,
    /// The addresses that objects record which could not be read.
    unreadable: HashSet<IpAddr>,
    services: Vec<Claims>,
    names: Names,
    /// The addresses of all Services; `None` for a text that is none.
    claims: Vec<Option<IpAddr>>,
    /// The texts of claims that are not the canonical ones of addresses, by their places, ascending.
    other_texts: Vec<(usize, String)>,
    /// A ServiceCIDR object could not be read.
    lacks_cidr: bool,
    /// What Services use is not known, so that the objects cannot be judged.
    unjudged: bool,
    /// What objects record is not known, so that an address without one may have one.
    lacks_objects: bool,
}

#[derive(Debug)]
struct Object {
    /// `None` if the name is not the canonical text of an address, so that the object records none.
    address: Option<IpAddr>,
    managed: bool,
    created: i64,
    revision: u64,
    has_parent: bool,
    /// The Service that it refers to; `None` if it refers to no Service.
    service: Option<Name>,
}

/// The addresses that one Service claims.
#[derive(Debug)]
struct Claims {
    /// The place of the first one among the claims of the audit.
    order: u64,
    name: Name,
    /// The place of the first one among those of [`Objects`].
    first: usize,
}

/// A write of the API server's repair of IPAddress objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRepair {
    /// The address. The name of an object that is removed may be another text of it.
    pub address: IpAddr,
    /// The object that is removed or replaced, by its place among those that were observed: 0 is the first.
    pub removed: Option<u64>,
    /// The Service for which an object is created, by its place among those that were observed.
    pub service: Option<u64>,
}

/// The result for one CIDR of a ServiceCIDR object.
#[derive(Clone, Debug)]
pub struct ServiceCidrReport {
    cidr: ServiceCidr,
    is_ready: bool,
    /// Offsets, ascending, like those below. Lists, since a compressed bitmap of 1,000,000 offsets of a /64 takes 30
    /// times the memory and 100 times as long to build (bench/benches/objects.rs).
    stored: Vec<u64>,
    in_use: Vec<u64>,
    /// Allocated after the API server's own repair: the addresses in use, and those of objects that it keeps.
    next: Vec<u64>,
    /// The objects that it removes without replacement.
    leaked: Vec<u64>,
    lost: Vec<u64>,
    duplicates: Vec<u64>,
}

/// The offsets of the `addresses` that `cidr` can allocate, ascending, each once.
fn offsets(cidr: &ServiceCidr, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<u64> {
    let mut offsets: Vec<u64> = addresses.into_iter().filter_map(|address| cidr.offset_of(address)).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// The offsets that are in one of two ascending lists.
fn union(one: &[u64], other: &[u64]) -> Vec<u64> {
    let mut all = Vec::with_capacity(one.len().max(other.len()));
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    while let Some(next) = [one.peek(), other.peek()].into_iter().flatten().min().copied() {
        one.next_if_eq(&next);
        other.next_if_eq(&next);
        all.push(next);
    }
    all
}

/// The text with this place in a list that ascends.
fn text_at(texts: &[(usize, String)], place: usize) -> Option<&String> {
    texts.binary_search_by_key(&place, |(at, _)| *at).ok().map(|at| &texts[at].1)
}

impl Objects {
    /// With `now`, in seconds since 1970, an unused object may still wait for its Service.
    pub(super) fn new(now: Option<i64>) -> Self {
        Self {
            now,
            cidrs: Vec::new(),
            objects: Vec::new(),
            other_names: Vec::new(),
            by_address: Index::default(),
            unreadable: HashSet::new(),
            services: Vec::new(),
            names: Names::default(),
            claims: Vec::new(),
            other_texts: Vec::new(),
            lacks_cidr: false,
            unjudged: false,
            lacks_objects: false,
        }
    }

    pub(super) fn add_cidr(&mut self, index: usize, cidr: ServiceCidr, is_ready: bool) {
        self.cidrs.push(ObservedCidr { index, cidr, is_ready });
    }

    /// Says that there is another CIDR, which is not known.
    pub(super) fn lack_cidr(&mut self) {
        self.lacks_cidr = true;
    }

    /// Whether there is a CIDR that is not known.
    pub(super) fn lacks_cidr(&self) -> bool {
        self.lacks_cidr
    }

    /// Whether Services are stored elsewhere: objects refer to them, and none of them is stored, or nearly none of
    /// many.
    pub(super) fn lack_services(&self, stored: u64) -> bool {
        let referred: Vec<_> = self.objects.iter().filter_map(|object| object.service).collect();
        let missing = referred.iter().filter(|name| self.names.service(**name).is_none()).count() as u64;
        missing > 0 && (stored == 0 || missing >= MANY && is_nearly_all(missing, referred.len() as u64))
    }

    /// Says that the Services are not among those that were observed: all objects stay, and none is found.
    pub(super) fn leave_unjudged(&mut self) {
        self.unjudged = true;
    }

    /// Says that the objects are not among those that were observed: no address is found to be without one.
    pub(super) fn lack_objects(&mut self) {
        self.lacks_objects = true;
    }

    pub(super) fn is_unjudged(&self) -> bool {
        self.unjudged
    }

    pub(super) fn has_cidrs(&self) -> bool {
        !self.cidrs.is_empty()
    }

    /// Whether no Service can be under way any more.
    pub(super) fn is_at_rest(&self) -> bool {
        self.now.is_none()
    }

    /// How many IPAddress objects were observed.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn observe_ip_address(&mut self, object: &IpAddressObject<'_>) {
        let (address, place) = (parse_canonical(object.name), self.objects.len());
        match address {
            Some(address) => self.by_address.set(address, place, |at| self.objects[at].address == Some(address)),
            None => self.other_names.push((place, object.name.into())),
        }
        self.objects.push(Object {
            address,
            managed: object.managed_by == ALLOCATOR,
            created: object.created,
            revision: object.revision,
            has_parent: !object.without_parent,
            service: object.service().map(|(namespace, name)| self.names.add(namespace, name)),
        });
    }

    /// Records the address of an object that could not be read, which its name says.
    pub(super) fn observe_unreadable(&mut self, name: &str) {
        self.unreadable.extend(parse_canonical(name));
    }

    /// Records the addresses of a Service, the first of which has the place `order` among the claims. Returns their
    /// number.
    pub(super) fn observe_service(&mut self, service: &Service<'_>, order: u64) -> u64 {
        let (name, first) = (self.names.add(service.namespace, service.name), self.claims.len());
        self.names.set_service(name, self.services.len());
        self.services.push(Claims { order, name, first });
        for text in service.cluster_ip_texts() {
            let canonical = parse_canonical(text);
            if canonical.is_none() {
                self.other_texts.push((self.claims.len(), (*text).into()));
            }
            self.claims.push(canonical.or_else(|| parse_address(text)));
        }
        (self.claims.len() - first) as u64
    }

    /// The addresses of the allocator's objects that were written after a revision.
    pub(super) fn allocated_after(&self, revision: u64) -> impl Iterator<Item = IpAddr> + '_ {
        let after = move |object: &&Object| object.managed && object.revision > revision;
        self.objects.iter().filter(after).filter_map(|object| object.address)
    }

    /// The addresses that stay allocated: those of the allocator's objects that the API server keeps, then those that
    /// Services use.
    pub(super) fn holders(&self) -> impl Iterator<Item = (Subject, IpAddr)> + '_ {
        let objects = self.objects.iter().enumerate().filter_map(|(ordinal, object)| {
            let address = object.address?;
            let verdict = self.judge_object(object, self.parent_of(object, address));
            let stays = matches!(verdict, IpAddressVerdict::Keep | IpAddressVerdict::Wait(_));
            (object.managed && stays).then_some((Subject::IpAddress(ordinal as u64), address))
        });
        let services = (0..self.services.len()).flat_map(move |ordinal| {
            let subject = Subject::Service(ordinal as u64);
            self.claims_of(ordinal).filter_map(move |place| Some((subject, self.claims[place]?)))
        });
        objects.chain(services)
    }

    /// The addresses of other controllers' objects, and of those that could not be read, which may be such ones.
    pub(super) fn of_others(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let others = self.objects.iter().filter(|object| !object.managed).filter_map(|object| object.address);
        others.chain(self.unreadable.iter().copied())
    }

    /// The number of claims of addresses that a CIDR has.
    pub(super) fn count_claims(&self) -> u64 {
        let addresses = self.claims.iter().flatten();
        addresses.filter(|address| self.cidrs.iter().any(|one| one.cidr.offset_of(**address).is_some())).count() as u64
    }

    /// Whether there is an object of the address.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.object_of(address).is_some()
    }

    /// The place of the object of an address.
    fn object_of(&self, address: IpAddr) -> Option<usize> {
        self.by_address.get(address, |at| self.objects[at].address == Some(address))
    }

    /// The places of the claims of a Service.
    fn claims_of(&self, ordinal: usize) -> std::ops::Range<usize> {
        let end = self.services.get(ordinal + 1).map_or(self.claims.len(), |next| next.first);
        self.services[ordinal].first..end
    }

    /// Ends the audit of the addresses. Cost: linear in the number of objects times the number of CIDRs.
    ///
    /// Findings about Services go into `findings`, those about objects after them, from `order` on. `referred` gets,
    /// for each address that several Services claim, the one of them that the object refers to. With `keeps_all` no
    /// object changes.
    pub(super) fn finish(
        self,
        findings: &mut Findings,
        referred: &mut HashMap<IpAddr, u64>,
        mut order: u64,
        keeps_all: bool,
    ) -> (impl Iterator<Item = (usize, ServiceCidrReport)>, Vec<Leak>, Vec<ObjectRepair>) {
        // Each is needed for the object and for the Service that uses its address.
        let parents: Vec<_> = self
            .objects
            .iter()
            .map(|object| object.address.map_or(Parent::NoService, |address| self.parent_of(object, address)))
            .collect();
        let mut repairs = Vec::new();
        let mut lost = HashSet::new();
        let mut duplicates = HashSet::new();
        for (ordinal, claims) in self.services.iter().enumerate() {
            for place in self.claims_of(ordinal) {
                let other = text_at(&self.other_texts, place);
                let text = || FoundValue::Text(other.cloned().unwrap_or_default());
                let (reason, value) = match self.claims[place] {
                    None => (Some(Reason::ClusterIpNotValid), text()),
                    Some(address) => {
                        let (reason, creates) =
                            self.judge_claim(ordinal, address, &parents, &mut lost, &mut duplicates);
                        if creates {
                            let removed = self.object_of(address).map(|at| at as u64);
                            repairs.push(ObjectRepair { address, removed, service: Some(ordinal as u64) });
                        }
                        (reason, FoundValue::Address(address))
                    }
                };
                let mut find = |reason, value| {
                    let range = match self.claims[place] {
                        Some(address) => self.range_of(address),
                        None => self.first_range(),
                    };
                    let (order, subject) =
                        (claims.order + (place - claims.first) as u64, Subject::Service(ordinal as u64));
                    findings.push((order, Finding { reason, range, subject, value, valid: None, outside: None }));
                };
                if let Some(reason) = reason {
                    find(reason, value);
                }
                let is_address = self.claims[place].is_some();
                if other.is_some() && is_address && reason != Some(Reason::ClusterIpOutOfRange) {
                    find(Reason::ClusterIpNotCanonical, text());
                }
            }
        }
        // They have objects: of these only further claims are faults.
        lost.retain(|address| !self.unreadable.contains(address));
        referred.extend(duplicates.iter().filter_map(|address| Some((*address, self.referred_by(*address)?))));
        let mut leaks = Vec::new();
        let mut leaked = HashSet::new();
        let judged = if self.unjudged { &[] } else { &*self.objects };
        for (ordinal, object) in judged.iter().enumerate() {
            let subject = Subject::IpAddress(ordinal as u64);
            let mut find = |reason, range, value| {
                findings.push((order, Finding { reason, range, subject, value, valid: None, outside: None }));
                order += 1;
            };
            // The repair of the reference reads the references of the allocator's objects, and of those of addresses in
            // use.
            let lacks_parent =
                !object.has_parent && (object.managed || object.address.is_some_and(|address| lost.contains(&address)));
            let Some(address) = object.address else {
                let reason = if lacks_parent { Reason::IpAddressWithoutParent } else { Reason::IpAddressNotCanonical };
                let name = text_at(&self.other_names, ordinal).cloned().unwrap_or_default();
                let address = parse_address(&name);
                let range = address.map_or_else(|| self.first_range(), |address| self.range_of(address));
                find(reason, range, FoundValue::Text(name));
                if let (Some(address), true) = (address, object.managed) {
                    repairs.push(ObjectRepair { address, removed: Some(ordinal as u64), service: None });
                }
                continue;
            };
            if lacks_parent {
                find(Reason::IpAddressWithoutParent, self.range_of(address), FoundValue::Address(address));
            }
            let replaced = lost.contains(&address);
            match self.judge_object(object, parents[ordinal]) {
                IpAddressVerdict::Keep | IpAddressVerdict::Wait(_) => continue,
                // The Service that uses the address has a finding, and its repair comes first.
                IpAddressVerdict::NoService | IpAddressVerdict::Leaked if replaced || lacks_parent => {}
                IpAddressVerdict::NoService => {
                    find(Reason::IpAddressNotAllocated, self.range_of(address), FoundValue::Address(address));
                }
                IpAddressVerdict::WrongReference => {
                    find(Reason::IpAddressWrongReference, self.range_of(address), FoundValue::Address(address));
                }
                IpAddressVerdict::Leaked => {
                    let (range, value) = (self.range_of(address), AnyValue::Address(address));
                    leaks.push(Leak { range, value, object: Some(ordinal as u64), stays: keeps_all });
                }
            }
            // The API server removes the object, and creates another one for a Service that uses the address.
            if !replaced {
                leaked.insert(address);
                repairs.push(ObjectRepair { address, removed: Some(ordinal as u64), service: None });
            }
        }
        if keeps_all {
            repairs.clear();
        }
        let reports = self.cidrs.into_iter().map(move |ObservedCidr { index, cidr, is_ready }| {
            let recorded = self.objects.iter().filter_map(|object| object.address);
            let stored = offsets(&cidr, recorded.chain(self.unreadable.iter().copied()));
            let in_use = offsets(&cidr, self.claims.iter().flatten().copied());
            let leaked = offsets(&cidr, leaked.iter().copied());
            let next = if keeps_all || leaked.is_empty() {
                union(&stored, &in_use)
            } else {
                let stays = |offset: &u64| leaked.binary_search(offset).is_err();
                union(&stored.iter().copied().filter(stays).collect::<Vec<_>>(), &in_use)
            };
            let (lost, duplicates) = (offsets(&cidr, lost.iter().copied()), offsets(&cidr, duplicates.iter().copied()));
            (index, ServiceCidrReport { cidr, is_ready, stored, in_use, next, leaked, lost, duplicates })
        });
        (reports, leaks, repairs)
    }

    /// The finding about a claim, and whether the API server creates an object for it.
    fn judge_claim(
        &self,
        service: usize,
        address: IpAddr,
        parents: &[Parent],
        lost: &mut HashSet<IpAddr>,
        duplicates: &mut HashSet<IpAddr>,
    ) -> (Option<Reason>, bool) {
        let has_range = self.cidrs.iter().any(|one| one.cidr.offset_of(address).is_some());
        if !has_range && !self.lacks_cidr && !self.cidrs.is_empty() {
            return (Some(Reason::ClusterIpOutOfRange), false);
        }
        let object = self.object_of(address).map(|at| (&self.objects[at], parents[at]));
        let verdict = judge_cluster_ip(object.map(|(object, parent)| {
            let refers_here = object.service == Some(self.services[service].name);
            AddressObject { managed: object.managed, labelled: true, refers_here, parent }
        }));
        // The same repair that removes the object creates another one for the Service.
        let removed = |(object, parent)| self.judge_object(object, parent) == IpAddressVerdict::WrongReference;
        let verdict = match verdict {
            ClusterIpVerdict::Wait if object.is_some_and(removed) => ClusterIpVerdict::Create,
            verdict => verdict,
        };
        let records = matches!(verdict, ClusterIpVerdict::Create | ClusterIpVerdict::Replace);
        // The repair creates an object for the first of the Services that claim the address, and none for the others.
        let verdict = if records && !lost.insert(address) { ClusterIpVerdict::Taken } else { verdict };
        if verdict == ClusterIpVerdict::Taken {
            duplicates.insert(address);
        }
        if !has_range || self.lacks_objects || self.unjudged || self.unreadable.contains(&address) {
            // Of an address whose range or object is not known only a second claim is certain.
            return ((verdict == ClusterIpVerdict::Taken).then_some(Reason::ClusterIpAlreadyAllocated), false);
        }
        let creates =
            matches!(verdict, ClusterIpVerdict::Create | ClusterIpVerdict::Replace | ClusterIpVerdict::Reshape);
        (verdict.reason(), creates)
    }

    fn judge_object(&self, object: &Object, parent: Parent) -> IpAddressVerdict {
        if self.unjudged {
            return IpAddressVerdict::Keep;
        }
        // Both times are truncated to seconds, so the object may be a second younger than their difference.
        let age = |now: i64| Duration::from_secs(now.saturating_sub(object.created).saturating_sub(1).max(0) as u64);
        let unused_for = self.now.map_or(GRACE, age);
        judge_object(object.managed, parent, unused_for, GRACE)
    }

    /// The Service that the object of an address refers to.
    fn referred_by(&self, address: IpAddr) -> Option<u64> {
        let object = &self.objects[self.object_of(address)?];
        self.names.service(object.service?).map(|service| service as u64)
    }

    fn parent_of(&self, object: &Object, address: IpAddr) -> Parent {
        let Some(name) = object.service else { return Parent::NoService };
        match self.names.service(name) {
            None => Parent::Missing,
            Some(service) if self.claims[self.claims_of(service)].contains(&Some(address)) => Parent::Uses,
            Some(_) => Parent::Other,
        }
    }

    /// The first CIDR that can allocate `address`; if none can, the first of its family, or the first of all.
    pub(super) fn range_of(&self, address: IpAddr) -> Option<usize> {
        let place =
            |holds: &dyn Fn(&ServiceCidr) -> bool| self.cidrs.iter().find(|one| holds(&one.cidr)).map(|one| one.index);
        place(&|cidr| cidr.offset_of(address).is_some())
            .or_else(|| place(&|cidr| cidr.network().is_ipv4() == address.is_ipv4()))
            .or_else(|| self.first_range())
    }

    fn first_range(&self) -> Option<usize> {
        self.cidrs.first().map(|one| one.index)
    }
}

impl ServiceCidrReport {
    /// The CIDR.
    pub fn cidr(&self) -> ServiceCidr {
        self.cidr
    }

    /// Whether servers allocate new addresses from it.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(super) fn offsets(&self, values: Values) -> Cow<'_, [u64]> {
        let without = |all: &[u64], others: &[u64]| {
            Cow::Owned(all.iter().filter(|at| others.binary_search(at).is_err()).copied().collect())
        };
        match values {
            Values::Set => without(&self.next, &self.stored),
            Values::Clear => without(&self.stored, &self.next),
            Values::Leaked => Cow::Borrowed(&self.leaked),
            Values::Duplicates => Cow::Borrowed(&self.duplicates),
            Values::Stored => Cow::Borrowed(&self.stored),
            Values::InUse => Cow::Borrowed(&self.in_use),
            Values::Next => Cow::Borrowed(&self.next),
        }
    }

    /// Everything about one address; `None` if the CIDR cannot allocate it. `next` is the state after the API server's
    /// own repair.
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
    /// An object that the API server removes counts as leaked if no Service uses its address. An unused address whose
    /// object is kept, since it is another controller's or still waits for its Service, counts as in use.
    pub fn occupancy(&self, count: u32) -> impl ExactSizeIterator<Item = Cell> + '_ {
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
pub(super) mod tests {
    use super::*;
    use crate::audit::{AddObjectError, Audit, Leaks, RangeReport, Remedy, Report, Stored, Unreadable};
    use crate::finding::Severity;
    use crate::service::ServicePort;

    /// An IPAddress object of the allocator for the Service `ns/parent`.
    pub(in crate::audit) fn object<'a>(name: &'a str, parent: &'a str) -> IpAddressObject<'a> {
        IpAddressObject {
            name,
            managed_by: ALLOCATOR,
            parent_resource: "services",
            parent_namespace: "ns",
            parent_name: parent,
            ..IpAddressObject::default()
        }
    }

    fn audit(now: Option<i64>, cidr: &str, objects: &[IpAddressObject<'_>], services: &[(&str, &str)]) -> Report {
        let mut audit = Audit::of_ip_addresses(now);
        audit
            .add_service_cidr(cidr.parse::<ServiceCidr>().expect("a CIDR"), true)
            .expect("an audit of IPAddress objects");
        for object in objects {
            audit.observe_ip_address(object).expect("an audit of IPAddress objects");
        }
        for (name, cluster_ip) in services {
            audit.observe(&Service { namespace: "ns", name, cluster_ip, ..Service::default() });
        }
        audit.finish(Leaks::CleanAtOnce)
    }

    fn cidr(report: &Report) -> &ServiceCidrReport {
        let [RangeReport::ServiceCidr(cidr)] = &report.ranges[..] else { panic!("one ServiceCIDR") };
        cidr
    }

    fn found(report: &Report) -> Vec<(Reason, String)> {
        report.findings.iter().map(|finding| (finding.reason, finding.value.to_string())).collect()
    }

    /// Stored, in use, next.
    fn state(report: &Report, address: &str) -> (bool, bool, bool) {
        let state = cidr(report).state_of(address.parse().expect("an address")).expect("in the CIDR");
        (state.stored, state.in_use, state.next)
    }

    /// In use, leaked, lost for each address of a CIDR.
    fn cells(report: &Report) -> Vec<(u64, u64, u64)> {
        cidr(report).occupancy(u32::MAX).map(|cell| (cell.in_use, cell.leaked, cell.lost)).collect()
    }

    const FREE: (u64, u64, u64) = (0, 0, 0);
    const USED: (u64, u64, u64) = (1, 0, 0);
    const LEAKED: (u64, u64, u64) = (0, 1, 0);
    const LOST: (u64, u64, u64) = (1, 0, 1);

    #[test]
    fn an_object_that_the_server_removes_is_gone_after_its_repair() {
        let pod = IpAddressObject { parent_resource: "pods", ..object("10.0.0.3", "moved") };
        let report = audit(
            None,
            "10.0.0.0/29",
            &[object("10.0.0.1", "moved"), object("10.0.0.2", "gone"), pod, object("10.0.0.5", "moved")],
            &[("moved", "10.0.0.5")],
        );
        assert_eq!(
            found(&report),
            [(Reason::IpAddressWrongReference, "10.0.0.1".into()), (Reason::IpAddressNotAllocated, "10.0.0.3".into())]
        );
        assert_eq!(report.leaks().map(|leak| leak.object).collect::<Vec<_>>(), [Some(1)]);
        for removed in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            assert_eq!(state(&report, removed), (true, false, false), "{removed}");
        }
        assert_eq!(state(&report, "10.0.0.5"), (true, true, true));
        assert_eq!(cells(&report), [LEAKED, LEAKED, LEAKED, FREE, USED, FREE]);
        assert_eq!((report.ranges[0].counts().stored, report.ranges[0].counts().size), (4, 6));
    }

    #[test]
    fn an_address_that_a_service_uses_stays_whatever_its_object_refers_to() {
        let pod = IpAddressObject { parent_resource: "pods", ..object("10.0.0.4", "four") };
        let report = audit(
            None,
            "10.0.0.0/29",
            &[object("10.0.0.1", "other"), object("10.0.0.2", "gone"), pod],
            &[("one", "10.0.0.1"), ("two", "10.0.0.2"), ("other", "10.0.0.3"), ("four", "10.0.0.4")],
        );
        assert_eq!(
            found(&report),
            [
                (Reason::ClusterIpNotAllocated, "10.0.0.1".into()),
                (Reason::ClusterIpNotAllocated, "10.0.0.2".into()),
                (Reason::ClusterIpNotAllocated, "10.0.0.3".into()),
                (Reason::ClusterIpNotAllocated, "10.0.0.4".into()),
                (Reason::IpAddressWrongReference, "10.0.0.1".into()),
            ],
            "as kube-1.37-dual-stack in testdata"
        );
        assert_eq!(report.leaks().next(), None, "a Service uses it");
        for replaced in ["10.0.0.1", "10.0.0.2", "10.0.0.4"] {
            assert_eq!(state(&report, replaced), (true, true, true), "{replaced}");
        }
        assert_eq!(state(&report, "10.0.0.3"), (false, true, true));
        assert_eq!(cells(&report), [LOST, LOST, LOST, LOST, FREE, FREE]);
    }

    #[test]
    fn an_object_that_the_server_leaves_alone_keeps_its_address() {
        let foreign = IpAddressObject { managed_by: "someone-else", ..object("10.0.0.1", "gone") };
        let young = IpAddressObject { created: 1000, ..object("10.0.0.2", "coming") };
        for (now, stays) in [(Some(1060), true), (Some(1061), false), (None, false)] {
            let report = audit(now, "10.0.0.0/30", &[foreign, young], &[]);
            assert_eq!(found(&report), []);
            assert_eq!(report.leaks().count(), usize::from(!stays));
            assert_eq!(state(&report, "10.0.0.1"), (true, false, true));
            assert_eq!(state(&report, "10.0.0.2"), (true, false, stays));
            assert_eq!(cells(&report), [USED, if stays { USED } else { LEAKED }]);
        }
    }

    #[test]
    fn one_audit_has_bitmaps_of_ports_stale_ones_of_addresses_and_service_cidrs() {
        let mut audit = Audit::of_ip_addresses(None);
        let stored = |range, data| Stored { range, data };
        let cidr = "10.0.0.0/29".parse().expect("a CIDR");
        audit.add_cluster_ips(cidr, stored("10.0.0.0/29", &[0b101])).expect("a snapshot");
        audit
            .add_node_ports("30000-30007".parse().expect("ports"), stored("30000-30007", &[0b11]))
            .expect("a snapshot");
        for cidr in ["10.0.0.0/29", "10.0.0.0/28"] {
            audit
                .add_service_cidr(cidr.parse::<ServiceCidr>().expect("a CIDR"), true)
                .expect("an audit of IPAddress objects");
        }
        for object in [object("10.0.0.1", "one"), object("10.0.0.9", "gone"), object("10.0.0.1x", "one")] {
            audit.observe_ip_address(&object).expect("an audit of IPAddress objects");
        }
        let port = |node_port| ServicePort { protocol: "TCP", node_port };
        let one = Service { namespace: "ns", name: "one", cluster_ip: "10.0.0.1", ..Service::default() };
        audit.observe(&Service { ports: &[port(30_000), port(99)], ..one });
        audit.observe(&Service { name: "two", ports: &[port(30_002)], ..one });
        audit.observe(&Service { name: "three", cluster_ip: "bad", ..one });
        let report = audit.finish(Leaks::CleanAtOnce);

        let found: Vec<_> = report
            .findings
            .iter()
            .map(|found| (found.reason, found.range, found.subject, found.value.to_string()))
            .collect();
        let expected = [
            (Reason::PortOutOfRange, 1, Subject::Service(0), "99"),
            (Reason::ClusterIpAlreadyAllocated, 2, Subject::Service(1), "10.0.0.1"),
            (Reason::PortNotAllocated, 1, Subject::Service(1), "30002"),
            (Reason::ClusterIpNotValid, 2, Subject::Service(2), "bad"),
            (Reason::IpAddressNotCanonical, 2, Subject::IpAddress(2), "10.0.0.1x"),
        ];
        assert_eq!(
            found,
            expected.map(|(reason, range, subject, value)| (reason, Some(range), subject, value.to_owned()))
        );
        let leaks: Vec<_> = report.leaks().map(|leak| (leak.range, leak.value.to_string(), leak.object)).collect();
        assert_eq!(leaks, [(Some(1), "30001".into(), None), (Some(3), "10.0.0.9".into(), Some(1))]);
        let counts: Vec<_> = report.ranges.iter().map(RangeReport::counts).collect();
        let of = |at: usize| (counts[at].size, counts[at].stored, counts[at].in_use, counts[at].set, counts[at].clear);
        assert!(matches!(report.ranges[0], RangeReport::Stale(_)) && report.bitmap(0).is_none());
        assert_eq!(of(0), (6, 2, 2, 0, 0), "a stale bitmap is as it is");
        assert_eq!(of(1), (8, 2, 2, 1, 1));
        assert_eq!(of(2), (6, 1, 1, 0, 0));
        assert_eq!(of(3), (14, 2, 1, 0, 1));
        let runs: Vec<_> = report.ranges[3].offsets(Values::Stored).runs(false, 14, 0).collect();
        assert_eq!(runs.iter().map(|run| (run.first, run.last)).collect::<Vec<_>>(), [(1, 7), (9, 13)]);
        assert_eq!(report.ranges[3].value_at(8).map(|value| value.to_string()), Some("10.0.0.9".into()));
    }

    #[test]
    fn an_address_that_the_object_of_another_controller_records_is_not_allocated() {
        // Nobody else would replace the object: its own Service, which has another address, does not need it.
        let foreign = IpAddressObject { managed_by: "someone-else", ..object("10.0.0.1", "other") };
        let report = audit(
            None,
            "10.0.0.0/29",
            &[foreign, object("10.0.0.2", "other")],
            &[("one", "10.0.0.1"), ("other", "10.0.0.2")],
        );
        assert_eq!(found(&report), [(Reason::ClusterIpNotAllocated, "10.0.0.1".into())]);
    }

    #[test]
    fn the_repair_of_objects_leaves_one_for_each_address_in_use() {
        let pod = IpAddressObject { parent_resource: "pods", ..object("10.0.0.4", "four") };
        let foreign = IpAddressObject { managed_by: "other", ..object("10.0.0.5", "five") };
        let unused = IpAddressObject { managed_by: "other", ..object("10.0.0.6", "gone") };
        let objects = [object("10.0.0.1", "one"), object("10.0.0.3", "gone"), pod, foreign, unused];
        let services = [("one", "10.0.0.1"), ("two", "10.0.0.2"), ("four", "10.0.0.4"), ("five", "10.0.0.5")];
        let report = audit(None, "10.0.0.0/29", &objects, &services);
        let repairs: Vec<_> = report.object_repairs().map(|r| (r.address.to_string(), r.removed, r.service)).collect();
        assert_eq!(
            repairs,
            [
                ("10.0.0.2".into(), None, Some(1)),
                ("10.0.0.4".into(), Some(2), Some(2)),
                ("10.0.0.5".into(), Some(3), Some(3)),
                ("10.0.0.3".into(), Some(1), None),
            ]
        );
        let taken = [("aa", "10.0.0.1"), ("one", "10.0.0.1"), ("two", "10.0.0.2"), ("bb", "10.0.0.2")];
        let mut report = audit(None, "10.0.0.0/29", &[object("10.0.0.1", "one")], &taken);
        assert_eq!(report.object_repairs().map(|repair| repair.service).collect::<Vec<_>>(), [Some(2)]);
        for (name, cluster_ip) in taken {
            let service = Service { namespace: "ns", name, cluster_ip, created: 1, ..Service::default() };
            report.observe_claimant(&service).expect("a Service of the audit");
        }
        let kept: Vec<_> = report.object_repairs().map(|repair| repair.service).collect();
        assert_eq!(kept, [Some(3)], "one that refers to a Service that uses it stays with that one");
    }

    #[test]
    fn an_object_without_parent_whose_reference_the_server_reads_breaks_traffic() {
        let bare =
            |name, managed_by| IpAddressObject { name, managed_by, without_parent: true, ..IpAddressObject::default() };
        let objects = [
            bare("10.0.0.1", ALLOCATOR),
            bare("10.0.0.2", ALLOCATOR),
            bare("10.0.0.3", "other"),
            bare("10.0.0.4", "other"),
            bare("010.0.0.5", ALLOCATOR),
            bare("10.9.0.1", "other"),
        ];
        // The server does not look for an object of 10.9.0.1, which no ServiceCIDR has.
        let services = [("two", "10.0.0.2"), ("four", "10.0.0.4"), ("far", "10.9.0.1")];
        for (now, remedy) in [(Some(1000), Remedy::Owner), (None, Remedy::ApiServer)] {
            let report = audit(now, "10.0.0.0/29", &objects, &services);
            let orphans: Vec<_> =
                report.findings.iter().filter(|f| f.reason == Reason::IpAddressWithoutParent).collect();
            let about: Vec<_> = orphans.iter().map(|finding| (finding.subject, finding.value.to_string())).collect();
            let expected = [(0, "10.0.0.1"), (1, "10.0.0.2"), (3, "10.0.0.4"), (4, "010.0.0.5")];
            assert_eq!(about, expected.map(|(at, value)| (Subject::IpAddress(at), value.to_owned())), "{now:?}");
            assert!(orphans.iter().all(|finding| report.remedy(finding) == remedy), "{now:?}");
            assert!(orphans.iter().all(|finding| finding.reason.severity() == Severity::BreaksTraffic));
            let others = report.findings.iter().filter(|finding| finding.reason != Reason::IpAddressWithoutParent);
            let expected = [
                (Reason::ClusterIpNotAllocated, "10.0.0.2".to_owned()),
                (Reason::ClusterIpNotAllocated, "10.0.0.4".into()),
                (Reason::ClusterIpOutOfRange, "10.9.0.1".into()),
            ];
            assert_eq!(others.map(|f| (f.reason, f.value.to_string())).collect::<Vec<_>>(), expected, "{now:?}");
            let removed: Vec<_> = report.object_repairs().filter_map(|repair| repair.removed).collect();
            assert_eq!(removed, [1, 3, 0, 4], "of Services, then the others");
        }
    }

    #[test]
    fn an_empty_reference_is_one_to_no_service() {
        let empty = |name| IpAddressObject { name, managed_by: ALLOCATOR, ..IpAddressObject::default() };
        let report = audit(None, "10.0.0.0/29", &[empty("10.0.0.1")], &[]);
        assert_eq!(found(&report), [(Reason::IpAddressNotAllocated, "10.0.0.1".into())]);
    }

    #[test]
    fn a_message_has_no_command_and_promises_no_repair_of_an_object_that_stays() {
        let foreign = IpAddressObject { managed_by: "other", ..object("010.0.0.2", "gone") };
        let objects = [object("$(touch x)", "gone"), object("--all", "gone"), foreign];
        let report = audit(None, "10.0.0.0/29", &objects, &[]);
        assert_eq!(report.object_repairs().count(), 0);
        let messages: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), objects.len());
        for message in messages {
            assert!(!message.contains("kubectl") && !message.contains("etcdctl"), "{message}");
            assert!(!message.contains("a repair removes"), "{message}");
        }
    }

    #[test]
    fn an_object_records_an_address_by_its_canonical_name_only() {
        let foreign = IpAddressObject { managed_by: "other", ..object("FD00::2", "gone") };
        let objects =
            [object("FD00::1", "one"), foreign, object("fd00:0::3", "gone"), object("::ffff:10.0.0.1", "one")];
        let report = audit(None, "fd00::/125", &objects, &[("one", "fd00::1")]);
        assert_eq!(
            found(&report),
            [
                (Reason::ClusterIpNotAllocated, "fd00::1".into()),
                (Reason::IpAddressNotCanonical, "FD00::1".into()),
                (Reason::IpAddressNotCanonical, "FD00::2".into()),
                (Reason::IpAddressNotCanonical, "fd00:0::3".into()),
                (Reason::IpAddressNotCanonical, "::ffff:10.0.0.1".into()),
            ]
        );
        assert_eq!(state(&report, "fd00::1"), (false, true, true));
        assert_eq!(state(&report, "fd00::2"), (false, false, false), "the allocator does not see the object");
        assert_eq!(report.leaks().next(), None);
        let repairs: Vec<_> = report.object_repairs().map(|repair| (repair.removed, repair.service)).collect();
        assert_eq!(repairs, [(None, Some(0)), (Some(0), None), (Some(2), None), (Some(3), None)]);
        let remedies: Vec<_> = report.findings.iter().map(|finding| report.remedy(finding)).collect();
        use Remedy::{ApiServer, Owner};
        assert_eq!(remedies, [ApiServer, ApiServer, Owner, ApiServer, ApiServer]);
        let running = audit(Some(1000), "fd00::/125", &objects, &[]);
        assert!(running.findings.iter().all(|finding| running.remedy(finding) == Owner));
    }

    #[test]
    fn a_service_has_the_canonical_text_of_its_address() {
        let objects = [object("10.0.0.1", "one"), object("10.0.0.2", "two")];
        let services = [("one", "010.0.0.1"), ("two", "10.0.0.2"), ("three", "::ffff:10.0.0.3"), ("far", "010.9.0.1")];
        let report = audit(Some(1000), "10.0.0.0/29", &objects, &services);
        assert_eq!(
            found(&report),
            [
                (Reason::ClusterIpNotCanonical, "010.0.0.1".into()),
                (Reason::ClusterIpNotAllocated, "10.0.0.3".into()),
                (Reason::ClusterIpNotCanonical, "::ffff:10.0.0.3".into()),
                (Reason::ClusterIpOutOfRange, "10.9.0.1".into()),
            ]
        );
        assert_eq!(report.remedy(&report.findings[0]), Remedy::Owner);
        assert_eq!(report.findings[0].reason.severity(), Severity::DuplicateRisk);
    }

    #[test]
    fn with_an_unreadable_object_nothing_is_removed() {
        let address = Unreadable::IpAddress("10.0.0.5");
        for (kind, out_of_range) in [(Unreadable::Service, 1), (address, 1), (Unreadable::ServiceCidr, 0)] {
            let mut audit = Audit::of_ip_addresses(None);
            audit
                .add_service_cidr("10.0.0.0/29".parse::<ServiceCidr>().expect("a CIDR"), true)
                .expect("an audit of objects");
            for object in [object("10.0.0.1", "gone"), object("10.0.0.2", "one")] {
                audit.observe_ip_address(&object).expect("an audit of objects");
            }
            for (name, cluster_ip) in [("one", "10.0.0.3"), ("far", "10.9.0.1")] {
                audit.observe(&Service { namespace: "ns", name, cluster_ip, ..Service::default() });
            }
            audit.observe_unreadable(kind);
            let report = audit.finish(Leaks::CleanAtOnce);
            assert_eq!(report.object_repairs().next(), None, "{kind:?}");
            assert_eq!(report.leaks().map(|leak| leak.stays).collect::<Vec<_>>(), [true], "{kind:?}");
            assert_eq!(state(&report, "10.0.0.1"), (true, false, true), "{kind:?}");
            let far = report.findings.iter().filter(|finding| finding.reason == Reason::ClusterIpOutOfRange);
            assert_eq!(far.count(), out_of_range, "{kind:?}: it may be in the CIDR that cannot be read");
        }
    }

    #[test]
    fn an_unreadable_object_records_the_address_of_its_name() {
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_service_cidr("10.0.0.0/29".parse().expect("a CIDR"), true).expect("an audit of objects");
        audit.observe_ip_address(&object("10.0.0.6", "six")).expect("an audit of objects");
        // An API server finds no object of 10.0.0.4 by a name that is another text of it.
        for name in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "010.0.0.4", "192.0.2.1"] {
            audit.observe_unreadable(Unreadable::IpAddress(name));
        }
        let services =
            [("one", "10.0.0.1"), ("two", "10.0.0.2"), ("too", "10.0.0.2"), ("four", "10.0.0.4"), ("six", "10.0.0.6")];
        for (name, cluster_ip) in services {
            audit.observe(&Service { namespace: "ns", name, cluster_ip, ..Service::default() });
        }
        let report = audit.finish(Leaks::CleanAtOnce);
        assert_eq!(
            found(&report),
            [
                (Reason::ClusterIpAlreadyAllocated, "10.0.0.2".into()),
                (Reason::ClusterIpNotAllocated, "10.0.0.4".into())
            ]
        );
        assert_eq!(state(&report, "10.0.0.1"), (true, true, true));
        assert_eq!(state(&report, "10.0.0.3"), (true, false, true), "for whom is unknown");
        assert_eq!(state(&report, "10.0.0.4"), (false, true, true));
        assert_eq!(cells(&report), [USED, USED, USED, LOST, FREE, USED]);
        assert_eq!((report.leaks().next(), report.object_repairs().next()), (None, None));
        let counts = report.ranges[0].counts();
        assert_eq!((counts.stored, counts.in_use, counts.set, counts.clear), (4, 4, 1, 0));
    }

    #[test]
    fn an_audit_of_bitmaps_takes_no_objects() {
        let mut audit = Audit::new();
        assert_eq!(
            audit.add_service_cidr("10.0.0.0/29".parse::<ServiceCidr>().expect("a CIDR"), true),
            Err(AddObjectError::InBitmaps)
        );
        assert_eq!(audit.observe_ip_address(&object("10.0.0.1", "one")), Err(AddObjectError::InBitmaps));
        let report = audit.finish(Leaks::CleanAtOnce);
        assert!(report.ranges.is_empty() && report.findings.is_empty() && report.leaks().next().is_none());
    }

    #[test]
    fn objects_come_before_the_first_service() {
        let mut audit = Audit::of_ip_addresses(None);
        let cidr = "10.0.0.0/29".parse::<ServiceCidr>().expect("a CIDR");
        audit.add_service_cidr(cidr, true).expect("no Service was observed");
        audit.observe(&Service { namespace: "ns", name: "one", cluster_ip: "10.0.0.1", ..Service::default() });
        assert_eq!(audit.add_service_cidr(cidr, true), Err(AddObjectError::AfterServices));
        assert_eq!(audit.observe_ip_address(&object("10.0.0.1", "one")), Err(AddObjectError::AfterServices));
        assert_eq!(audit.finish(Leaks::CleanAtOnce).ranges.len(), 1, "nothing was added");
    }

    #[test]
    fn without_a_range_no_address_is_outside() {
        let mut audit = Audit::of_ip_addresses(None);
        for name in ["one", "two"] {
            audit.observe(&Service { namespace: "ns", name, cluster_ip: "10.0.0.1", ..Service::default() });
        }
        let report = audit.finish(Leaks::CleanAtOnce);
        let found: Vec<_> = report.findings.iter().map(|found| (found.reason, found.range)).collect();
        assert_eq!(found, [(Reason::ClusterIpAlreadyAllocated, None)]);
    }
}
