//! The audit: takes the recorded allocations of a cluster and all of its Services, and returns findings, leaks and
//! repaired bitmaps.
//!
//! Ranges are stored as bitmaps; since Kubernetes 1.33 each ClusterIP is an IPAddress object instead. Findings follow
//! the reference (kubernetes `pkg/registry/core/service/ipallocator/controller/repair.go`, `repairip.go` and
//! `portallocator/controller/repair.go`). The result is a diff per bitmap and not a blob, so that it can be applied
//! beside other writers; the API server repairs IPAddress objects. The caller must read the recorded allocations before
//! it lists the Services.
//!
//! ```
//! use rangekeeper::audit::{Audit, Leaks, Stored};
//! use rangekeeper::service::Service;
//!
//! let mut audit = Audit::new();
//! // Offsets 0 and 2 are stored: 10.0.0.1 and 10.0.0.3.
//! audit.add_cluster_ips("10.0.0.0/24".parse()?, Stored { range: "10.0.0.0/24", data: &[0b101] })?;
//! audit.observe(&Service { cluster_ip: "10.0.0.1", ..Service::default() });
//! audit.observe(&Service { cluster_ip: "10.0.0.2", ..Service::default() });
//! let report = audit.finish(Leaks::CleanAtOnce);
//!
//! assert_eq!(report.findings[0].reason.as_str(), "ClusterIPNotAllocated");
//! let range = report.bitmap(0).expect("a bitmap");
//! assert_eq!(range.set().iter().collect::<Vec<_>>(), [1]);
//! assert_eq!(range.clear().iter().collect::<Vec<_>>(), [2]);
//! assert_eq!(range.next().snapshot(), [0b011]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod beside;
mod claimants;
mod cluster;
mod form;
mod fullness;
mod names;
mod objects;
mod occupancy;
mod offsets;
mod range_pass;
mod ranges;
mod records;
mod report;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::address::{parse_address, parse_ipv4};
use crate::any::{AnyRange, ParseRangeError};
use crate::cidr::CidrRange;
use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::ipaddress::IpAddressObject;
use crate::leak::LeakCounters;
use crate::ports::PortRange;
use crate::range::Range;
use crate::service::Service;
use crate::service_cidr::ServiceCidr;
use crate::snapshot::BitsPastRange;

use beside::Beside;
use objects::Objects;
use range_pass::{Claim, Findings, RangePass};
use ranges::doubt_ranges;

pub use beside::BitmapRevisions;
pub use claimants::{AllObserved, Claimant};
pub use cluster::{Bitmaps, NotAuditable, Presence, StoredBitmap};
pub use objects::{ObjectRepair, ServiceCidrReport};
pub use occupancy::Cell;
pub use offsets::{OffsetRun, Offsets, Values};
pub use ranges::{Outcome, Testimony, Verdict, judge_ranges};
pub use records::{ClusterIpRecords, StoreContent};
pub use report::{
    BitmapReport, Counts, Leak, OffsetState, RangeReport, RecordRepairError, Remedy, RepairOutcome, Report,
};

/// The `range` and `data` of a stored range object.
///
/// An empty `range` means that the object is not initialised yet. The configured range counts then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored<'a> {
    /// The range as text.
    pub range: &'a str,
    /// The bitmap as bytes; see [`Bitmap::snapshot`](crate::bitmap::Bitmap::snapshot).
    pub data: &'a [u8],
}

/// Why a range could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddRangeError {
    /// The audit has a range for the same kind of value already (IPv4, IPv6, ports).
    #[error("range {added} is of the same kind as {present}, which the audit has already")]
    SameKind {
        /// The range to add.
        added: AnyRange,
        /// The range of the audit.
        present: AnyRange,
    },
    /// The audit has observed Services, whose values of this range it would take for leaks.
    #[error("range {0} comes after the first Service: all ranges are added before Services are observed")]
    AfterServices(AnyRange),
    /// No Service uses a value of the range.
    #[error("range {0} is of numbers, which no Service uses")]
    OfNumbers(AnyRange),
    /// The stored object's range is not a range.
    #[error("stored range: {0}")]
    StoredRange(#[from] ParseRangeError),
    /// The stored object is of another kind of range.
    #[error("stored range {stored} is of another kind than the configured range {configured}")]
    StoredKind {
        /// The configured range.
        configured: AnyRange,
        /// The stored range.
        stored: AnyRange,
    },
    /// The stored bitmap does not fit the stored range.
    #[error("stored range {range}: {source}")]
    BitsPastRange {
        /// The stored range.
        range: AnyRange,
        /// The highest such bit.
        source: BitsPastRange,
    },
}

/// Why a ServiceCIDR or an IPAddress object could not be added, or a bitmap not be compared with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddObjectError {
    /// The audit takes no such object.
    #[error("the audit is of ClusterIPs in bitmaps, not of IPAddress objects")]
    InBitmaps,
    /// A Service that was observed before may be older than the object.
    #[error(
        "a ServiceCIDR or IPAddress object comes after the first Service: all are added before Services are observed"
    )]
    AfterServices,
    /// Only a bitmap of ClusterIPs is compared with IPAddress objects.
    #[error("the audit has no bitmap of ClusterIPs at place {0} of its ranges")]
    NoBitmap(usize),
}

/// The kind of an object that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreadable<'a> {
    /// A Service.
    Service,
    /// The IPAddress object with this name. If that is the canonical text of an address, the address is recorded, and
    /// only for which Service is unknown.
    IpAddress(&'a str),
    /// A ServiceCIDR object. An address that no other one has may be in it, and is not reported.
    ServiceCidr,
}

/// What the audit does about leaks: offsets that are stored though no Service uses them.
#[derive(Debug)]
pub enum Leaks<'a> {
    /// It cleans them in this pass, which is right only if nothing allocates concurrently.
    CleanAtOnce,
    /// It keeps each one until its counter reaches the number of passes, or all of them, as the counters say.
    Keep(&'a mut RepairCounters),
}

/// The leak counters of all ranges, which the caller keeps from one pass to the next.
#[derive(Clone, Debug)]
pub struct RepairCounters {
    passes: std::num::NonZeroU8,
    keeps_leaks: bool,
    ranges: Vec<(AnyRange, LeakCounters)>,
}

impl RepairCounters {
    /// Counters at 0; a leak is cleaned in the pass that sees it for the `passes`th time in a row.
    pub fn new(passes: std::num::NonZeroU8) -> Self {
        Self { passes, keeps_leaks: false, ranges: Vec::new() }
    }

    /// Leaks are kept however often they are seen. Only a value that a bitmap beside IPAddress objects records alone
    /// ([`Reason::BitmapDisagrees`]) is counted and cleared: while a leak only takes room, the API server refuses such
    /// an address, and nothing but a repair of the bitmap changes that.
    pub fn keeping_leaks(self) -> Self {
        Self { keeps_leaks: true, ..self }
    }

    /// The counters of `range`; 0 if no pass had this range yet.
    pub fn of(&mut self, range: AnyRange) -> &mut LeakCounters {
        let at = self.ranges.iter().position(|(known, _)| *known == range).unwrap_or_else(|| {
            self.ranges.push((range, LeakCounters::new(range.size(), self.passes)));
            self.ranges.len() - 1
        });
        &mut self.ranges[at].1
    }

    /// Forgets the counters of ranges that are not among `ranges`, since a pass without a range interrupts its counts.
    fn retain(&mut self, ranges: &[RangeReport]) {
        let present = |known| ranges.iter().any(|range| matches!(range, RangeReport::Bitmap(b) if b.range() == known));
        self.ranges.retain(|(known, _)| present(*known));
    }
}

/// The identity of a repair pass: it equals only its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassId(Arc<()>);

impl PartialEq for PassId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An audit under way.
///
/// Memory: a few bits per value of the bitmaps; if ClusterIPs are IPAddress objects, some 100 bytes per Service and per
/// object.
#[derive(Debug, Default)]
pub struct Audit {
    ipv4: Option<RangePass<CidrRange>>,
    ipv6: Option<RangePass<CidrRange>>,
    ports: Option<RangePass<PortRange>>,
    /// `None` if ClusterIPs are in bitmaps.
    objects: Option<Objects>,
    /// Bitmaps of ClusterIPs, if those are IPAddress objects.
    beside: Vec<Beside>,
    ranges: usize,
    /// The range that findings name for an address of a family without one: the first one for ClusterIPs.
    first_cidr: Option<usize>,
    services: u64,
    /// Objects of the cluster that could not be read.
    unreadable: u64,
    /// Those of them that are Services, and those that are IPAddress objects.
    unreadable_services: u64,
    unreadable_addresses: u64,
    /// Most Services could not be read, so that no recorded value is known to be leaked.
    unjudged: bool,
    claims: u64,
    /// The addresses of Services that have no range, if not all ranges of ClusterIPs are known.
    without_range: Option<HashSet<IpAddr>>,
    /// Addresses while there is no range of them.
    without_addresses: u64,
    findings: Findings,
    /// Those about ranges that the audit lacks.
    lacking: Vec<Finding>,
    /// The pass that the audit belongs to.
    pass: Option<PassId>,
}

impl Audit {
    /// An audit without ranges, of a cluster whose ClusterIPs are in bitmaps.
    pub fn new() -> Self {
        Self::default()
    }

    /// An audit without ranges, of a cluster whose ClusterIPs are IPAddress objects (KEP-1880). A bitmap of ClusterIPs
    /// is stale there unless [`compare_bitmap`](Self::compare_bitmap) finds that servers still write it: it is counted,
    /// and not compared with the Services.
    ///
    /// With `now`, in seconds since 1970, an IPAddress object that is at most 60 s old may still wait for its Service.
    /// Without it none may, as in a snapshot file.
    pub fn of_ip_addresses(now: Option<i64>) -> Self {
        Self { objects: Some(Objects::new(now)), ..Self::default() }
    }

    /// Whether the audit belongs to a [`RepairPass`](crate::commit::RepairPass), which ends it by
    /// [`Listing::finish`](crate::commit::Listing::finish).
    pub fn is_of_pass(&self) -> bool {
        self.pass.is_some()
    }

    pub(crate) fn pass(&self) -> Option<&PassId> {
        self.pass.as_ref()
    }

    pub(crate) fn of_pass(&mut self, pass: PassId) {
        self.pass = Some(pass);
    }

    /// Whether nothing was added or observed, and the audit belongs to no pass.
    pub(crate) fn is_new(&self) -> bool {
        self.ranges == 0 && self.services == 0 && self.pass.is_none()
    }

    /// What is recorded is added before Services are observed: what is added later could be younger than they are, and
    /// its values would look leaked.
    fn takes_records(&self) -> bool {
        self.services == 0
    }

    fn check_takes(&self, added: AnyRange) -> Result<(), AddRangeError> {
        if self.takes_records() { Ok(()) } else { Err(AddRangeError::AfterServices(added)) }
    }

    /// Fails if no cluster has the range beside those that are there.
    fn check_beside(&self, added: AnyRange) -> Result<(), AddRangeError> {
        let cidrs = [&self.ipv4, &self.ipv6].into_iter().flatten().map(|pass| AnyRange::Cidr(pass.range));
        let ports = self.ports.iter().map(|pass| AnyRange::Ports(pass.range));
        match cidrs.chain(ports).find(|present| present.excludes(&added)) {
            Some(present) => Err(AddRangeError::SameKind { added, present }),
            None => Ok(()),
        }
    }

    fn objects(&mut self) -> Result<&mut Objects, AddObjectError> {
        if !self.takes_records() {
            return Err(AddObjectError::AfterServices);
        }
        self.objects.as_mut().ok_or(AddObjectError::InBitmaps)
    }

    /// Adds a configured range and its stored bitmap by [`add_cluster_ips`](Self::add_cluster_ips) or
    /// [`add_node_ports`](Self::add_node_ports).
    ///
    /// # Errors
    /// Those of the two, or that the range is of numbers.
    pub fn add_bitmap(&mut self, range: AnyRange, stored: Stored<'_>) -> Result<(), AddRangeError> {
        match range {
            AnyRange::Cidr(range) => self.add_cluster_ips(range, stored),
            AnyRange::Ports(range) => self.add_node_ports(range, stored),
            AnyRange::Numbers(_) => Err(AddRangeError::OfNumbers(range)),
        }
    }

    /// Adds the configured range of one IP family and its stored bitmap. The first one is the primary range.
    ///
    /// The stored range may differ from the configured one, after a change of the cluster's configuration. The audit
    /// takes the values that both have.
    ///
    /// # Errors
    /// If the family has a range already, a Service was observed, or the stored object is not a snapshot of a range of
    /// addresses.
    pub fn add_cluster_ips(&mut self, range: CidrRange, stored: Stored<'_>) -> Result<(), AddRangeError> {
        self.check_takes(AnyRange::Cidr(range))?;
        self.add_cidr_pass(RangePass::new(self.ranges, range, stored)?)
    }

    fn add_cidr_pass(&mut self, pass: RangePass<CidrRange>) -> Result<(), AddRangeError> {
        if self.objects.is_some() {
            self.beside.push(Beside { pass, revisions: None });
            self.ranges += 1;
            return Ok(());
        }
        self.check_beside(AnyRange::Cidr(pass.range))?;
        let slot = if pass.range.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        *slot = Some(pass);
        self.first_cidr.get_or_insert(self.ranges);
        self.ranges += 1;
        Ok(())
    }

    /// Compares the bitmap at this place with the IPAddress objects and the Services, if these revisions and the
    /// objects show that servers still write it.
    ///
    /// # Errors
    /// If ClusterIPs are in bitmaps, a Service was observed, or there is no bitmap of ClusterIPs at this place.
    pub fn compare_bitmap(&mut self, range: usize, revisions: BitmapRevisions) -> Result<(), AddObjectError> {
        self.objects()?;
        let beside = self.beside.iter_mut().find(|beside| beside.pass.index == range);
        beside.ok_or(AddObjectError::NoBitmap(range))?.revisions = Some(revisions);
        Ok(())
    }

    /// Adds the configured range of node ports and its stored bitmap.
    ///
    /// # Errors
    /// If there is one already, a Service was observed, or the stored object is not a snapshot of a range of ports.
    pub fn add_node_ports(&mut self, range: PortRange, stored: Stored<'_>) -> Result<(), AddRangeError> {
        self.check_takes(AnyRange::Ports(range))?;
        self.add_port_pass(RangePass::new(self.ranges, range, stored)?)
    }

    fn add_port_pass(&mut self, pass: RangePass<PortRange>) -> Result<(), AddRangeError> {
        self.check_beside(AnyRange::Ports(pass.range))?;
        self.ports = Some(pass);
        self.ranges += 1;
        Ok(())
    }

    /// Adds a range whose stored bitmap cannot be read, as over the Kubernetes API. Values outside it and values of two
    /// Services are findings. `known` has a bit for each value that is known to be stored, as a server refuses it: of
    /// these, those that no Service uses are leaks. Other leaks, and values that are not stored, are unknown.
    ///
    /// # Errors
    /// If there is a range for the same kind of value already, the range is of numbers, a Service was observed, or
    /// `known` has bits past the range.
    pub fn add_unseen(&mut self, range: AnyRange, known: &[u8]) -> Result<(), AddRangeError> {
        self.check_takes(range)?;
        match range {
            AnyRange::Cidr(range) => self.add_cidr_pass(RangePass::unseen(self.ranges, range, known)?),
            AnyRange::Ports(range) => self.add_port_pass(RangePass::unseen(self.ranges, range, known)?),
            AnyRange::Numbers(_) => Err(AddRangeError::OfNumbers(range)),
        }
    }

    /// Says that not all ranges of ClusterIPs are known: of addresses of an IP family without one, only those that are
    /// not valid and those of two Services are findings. Memory: some 40 bytes per such address.
    pub fn without_cluster_ip_ranges(&mut self) {
        self.without_range = Some(HashSet::new());
    }

    /// Says that the cluster has one more object, which could not be read. It may use or record any value: all leaks
    /// stay, with their counters at 0, no IPAddress object is repaired, and [`check_cluster`](Self::check_cluster)
    /// refuses repairs.
    pub fn observe_unreadable(&mut self, object: Unreadable<'_>) {
        self.unreadable = self.unreadable.saturating_add(1);
        match object {
            Unreadable::Service => self.unreadable_services += 1,
            Unreadable::IpAddress(name) => {
                self.unreadable_addresses += 1;
                self.objects.iter_mut().for_each(|objects| objects.observe_unreadable(name));
            }
            Unreadable::ServiceCidr => self.objects.iter_mut().for_each(Objects::lack_cidr),
        }
    }

    /// Adds one CIDR of a ServiceCIDR object; they may overlap. From one that is not ready, or is being deleted,
    /// servers allocate no new address, and it has no free ones; the addresses that Services have stay theirs.
    ///
    /// # Errors
    /// If the audit is of a cluster whose ClusterIPs are in bitmaps, or a Service was observed.
    pub fn add_service_cidr(&mut self, cidr: ServiceCidr, is_ready: bool) -> Result<(), AddObjectError> {
        let index = self.ranges;
        self.objects()?.add_cidr(index, cidr, is_ready);
        self.ranges += 1;
        Ok(())
    }

    /// Records an IPAddress object.
    ///
    /// # Errors
    /// If the audit is of a cluster whose ClusterIPs are in bitmaps, or a Service was observed.
    pub fn observe_ip_address(&mut self, object: &IpAddressObject<'_>) -> Result<(), AddObjectError> {
        self.objects()?.observe_ip_address(object);
        Ok(())
    }

    /// Whether ClusterIPs are IPAddress objects, so that the audit reads the names of Services.
    pub fn needs_names(&self) -> bool {
        self.objects.is_some()
    }

    /// Records one Service. Cost: some 30 ns per address or port, independent of the ranges' sizes; if ClusterIPs are
    /// IPAddress objects, some 300 ns more per Service.
    ///
    /// Addresses count only if a range for ClusterIPs was added, ports only if one for node ports was. All ranges must
    /// be added before the first Service is observed.
    // Callers loop over it, with and without names: the compiler must inline it into each loop.
    #[inline(always)]
    pub fn observe(&mut self, service: &Service<'_>) {
        if self.ipv4.is_some() || self.ipv6.is_some() {
            for text in service.cluster_ip_texts() {
                self.observe_cluster_ip(text);
            }
        } else {
            self.observe_without_bitmap(service);
        }
        if self.ports.is_some() {
            self.observe_node_ports(service);
        }
        self.services += 1;
    }

    #[inline(never)]
    fn observe_without_bitmap(&mut self, service: &Service<'_>) {
        if self.without_range.is_some() && self.objects.is_none() {
            for text in service.cluster_ip_texts() {
                self.observe_other_cluster_ip(text);
            }
            return;
        }
        if let Some(objects) = &mut self.objects {
            self.claims += objects.observe_service(service, self.claims);
        }
        let has_cidrs = self.objects.as_ref().is_some_and(Objects::has_cidrs);
        self.without_addresses += if has_cidrs { 0 } else { service.cluster_ip_texts().len() as u64 };
    }

    #[inline(always)]
    fn observe_cluster_ip(&mut self, text: &str) {
        // Nearly every text is such an address. It stays a number here, while an IpAddr would be built in memory.
        if let Some(part) = &mut self.ipv4
            && let Some(address) = parse_ipv4(text.as_bytes())
            && let Some(offset) = part.range.offset_of(IpAddr::V4(address))
        {
            part.claim(Claim { order: self.claims, service: self.services, offset }, &mut self.findings);
            self.claims += 1;
        } else {
            self.observe_other_cluster_ip(text);
        }
    }

    #[inline(never)]
    fn observe_other_cluster_ip(&mut self, text: &str) {
        let Some(address) = parse_address(text) else {
            return self.find(Reason::ClusterIpNotValid, self.first_cidr, FoundValue::Text(text.into()), None);
        };
        let part = match address {
            IpAddr::V4(_) => &mut self.ipv4,
            IpAddr::V6(_) => &mut self.ipv6,
        };
        let Some(part) = part else {
            if let Some(addresses) = &mut self.without_range {
                self.without_addresses += 1;
                if !addresses.insert(address) {
                    let value = FoundValue::Address(address);
                    self.find(Reason::ClusterIpAlreadyAllocated, self.first_cidr, value, None);
                }
                return;
            }
            return self.find(Reason::ClusterIpNotValid, self.first_cidr, FoundValue::Address(address), None);
        };
        let Some(offset) = part.range.offset_of(address) else {
            let no_values = part.range.size() == 0 && part.range.contains(address);
            let reason = if no_values { Reason::ServiceCidrFull } else { Reason::ClusterIpOutOfRange };
            let (index, valid) = (part.index, AnyRange::Cidr(part.range));
            return self.find(reason, Some(index), FoundValue::Address(address), Some(valid));
        };
        part.claim(Claim { order: self.claims, service: self.services, offset }, &mut self.findings);
        self.claims += 1;
    }

    // Kept out of the loop over Services, most of which have none.
    #[inline(never)]
    fn observe_node_ports(&mut self, service: &Service<'_>) {
        for port in service.node_ports() {
            self.observe_node_port(port);
        }
    }

    fn observe_node_port(&mut self, port: i32) {
        let Some(part) = &mut self.ports else { return };
        let Some(offset) = u16::try_from(port).ok().and_then(|port| part.range.offset_of(port)) else {
            let (index, valid) = (part.index, AnyRange::Ports(part.range));
            return self.find(Reason::PortOutOfRange, Some(index), FoundValue::Port(port), Some(valid));
        };
        part.claim(Claim { order: self.claims, service: self.services, offset }, &mut self.findings);
        self.claims += 1;
    }

    #[cold]
    fn find(&mut self, reason: Reason, range: Option<usize>, value: FoundValue, valid: Option<AnyRange>) {
        let subject = Subject::Service(self.services);
        self.findings.push((self.claims, Finding { reason, range, subject, value, valid, outside: None }));
        self.claims += 1;
    }

    /// The number of addresses of Services that lie in the ranges of ClusterIPs.
    fn count_addresses(&self) -> u64 {
        match &self.objects {
            Some(objects) => objects.count_claims(),
            None => [&self.ipv4, &self.ipv6].into_iter().flatten().map(RangePass::count_claims).sum(),
        }
    }

    /// Ends the audit. Cost: O(size / 64) per bitmap; the number of IPAddress objects and Services times that of CIDRs.
    pub fn finish(mut self, mut leaks: Leaks<'_>) -> Report {
        let (addresses, ports) = (self.count_addresses(), self.ports.as_ref().map_or(0, RangePass::count_claims));
        let mut findings = self.findings;
        if self.unjudged {
            let beside = self.beside.iter_mut().map(|beside| &mut beside.pass);
            [&mut self.ipv4, &mut self.ipv6]
                .into_iter()
                .flatten()
                .chain(beside)
                .for_each(|pass| pass.hold_all(&mut findings));
            self.ports.iter_mut().for_each(|pass| pass.hold_all(&mut findings));
        }
        let keeps_all = self.unreadable > 0;
        let mut ranges: Vec<(usize, RangeReport)> = Vec::new();
        let of_bitmap = |unseen: bool, (index, report)| {
            (index, if unseen { RangeReport::Unseen(report) } else { RangeReport::Bitmap(report) })
        };
        let cidrs = [self.ipv4, self.ipv6].into_iter().flatten();
        ranges.extend(
            cidrs.map(|range| of_bitmap(range.unseen, range.finish(&mut leaks, &mut findings, None, keeps_all))),
        );
        ranges.extend(
            self.ports.map(|range| of_bitmap(range.unseen, range.finish(&mut leaks, &mut findings, None, keeps_all))),
        );
        let (mut object_leaks, mut object_repairs, mut disagreements) = (Vec::new(), Vec::new(), Vec::new());
        let mut referred = HashMap::new();
        let mut removed = Vec::new();
        if let Some(objects) = self.objects {
            let beside = self.beside.into_iter();
            ranges.extend(beside.map(|beside| beside.finish(&objects, &mut leaks, &mut disagreements, keeps_all)));
            let at_rest = objects.is_at_rest();
            let (cidrs, leaks, repairs) = objects.finish(&mut findings, &mut referred, self.claims, keeps_all);
            ranges.extend(cidrs.map(|(index, report)| (index, RangeReport::ServiceCidr(report))));
            if at_rest {
                removed.extend(repairs.iter().filter_map(|repair| repair.removed));
                removed.sort_unstable();
            }
            (object_leaks, object_repairs) = (leaks, repairs);
        }
        ranges.sort_unstable_by_key(|(index, _)| *index);
        let ranges: Vec<_> = ranges.into_iter().map(|(_, range)| range).collect();
        if let Leaks::Keep(counters) = leaks {
            counters.retain(if keeps_all { &[] } else { &ranges });
        }
        findings.sort_by_key(|(order, _)| *order);
        let findings = findings.into_iter().map(|(_, finding)| finding).chain(disagreements).chain(self.lacking);
        let mut findings: Vec<_> = findings.collect();
        doubt_ranges(&mut findings, Reason::ClusterIpOutOfRange, addresses);
        doubt_ranges(&mut findings, Reason::PortOutOfRange, ports);
        Report {
            ranges,
            findings,
            services: self.services,
            object_leaks,
            object_repairs,
            removed,
            referred,
            claims: None,
            claimants: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::ServicePort;

    fn found(report: &Report) -> Vec<(&'static str, String)> {
        report.findings.iter().map(|finding| (finding.reason.as_str(), finding.value.to_string())).collect()
    }

    fn service<'a>(cluster_ip: &'a str, ports: &'a [ServicePort<'a>]) -> Service<'a> {
        Service { cluster_ip, ports, ..Service::default() }
    }

    const fn port(node_port: i32) -> [ServicePort<'static>; 1] {
        [ServicePort { protocol: "TCP", node_port }]
    }

    #[test]
    fn an_unseen_range_has_duplicates_values_outside_and_known_leaks() {
        let mut audit = Audit::new();
        audit.add_unseen("10.0.0.0/24".parse().expect("a CIDR"), &[]).expect("the first range");
        audit.add_unseen("30000-30009".parse().expect("ports"), &[0b10_1010]).expect("the first range");
        let again = audit.add_unseen("30000-30001".parse().expect("ports"), &[]);
        assert!(matches!(again, Err(AddRangeError::SameKind { .. })), "{again:?}");
        let numbers: AnyRange = "9 numbers, 0 static".parse().expect("numbers");
        let nobody = Err(AddRangeError::OfNumbers(numbers));
        assert_eq!(audit.add_unseen(numbers, &[]), nobody);
        assert_eq!(audit.add_bitmap(numbers, Stored { range: "9 numbers, 0 static", data: &[] }), nobody);
        for (address, node_port) in
            [("10.0.0.1", 30_001), ("10.0.0.2", 30_001), ("10.0.0.1", 30_002), ("10.1.0.0", 31_000)]
        {
            audit.observe(&service(address, &port(node_port)));
        }
        let report = audit.finish(Leaks::CleanAtOnce);
        assert_eq!(
            found(&report),
            [
                ("PortAlreadyAllocated", "30001".to_owned()),
                ("ClusterIPAlreadyAllocated", "10.0.0.1".into()),
                ("ClusterIPOutOfRange", "10.1.0.0".into()),
                ("PortOutOfRange", "31000".into()),
            ]
        );
        // 30001 is known to be stored, too, and in use.
        let leaks: Vec<_> = report.leaks().map(|leak| (leak.range, leak.value.to_string(), leak.stays)).collect();
        assert_eq!(leaks, [(Some(1), "30003".to_owned(), false), (Some(1), "30005".into(), false)]);
        for (range, (size, stored)) in report.ranges.iter().zip([(254, 2), (10, 4)]) {
            let counts = range.counts();
            assert!(matches!(range, RangeReport::Unseen(_)), "{range:?}");
            assert_eq!((counts.size, counts.stored, counts.in_use, counts.set), (size, stored, 2, 0));
        }
    }

    #[test]
    fn without_known_ranges_only_invalid_and_duplicate_addresses_are_found() {
        let mut audit = Audit::new();
        audit.without_cluster_ip_ranges();
        for address in ["10.0.0.1", "fd00::1", "None", "", "10.0.0.1", "fd00:0::1", "10.0.0", "192.0.2.7"] {
            audit.observe(&service(address, &[]));
        }
        assert_eq!(
            found(&audit.finish(Leaks::CleanAtOnce)),
            [
                ("ClusterIPAlreadyAllocated", "10.0.0.1".to_owned()),
                ("ClusterIPAlreadyAllocated", "fd00::1".into()),
                ("ClusterIPNotValid", "10.0.0".into()),
            ]
        );
    }
}
