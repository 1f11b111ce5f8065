//! The repair pass: the stored bitmaps and all Services in, findings and a diff per range out.
//!
//! What is found follows the reference (kubernetes `pkg/registry/core/service/ipallocator/controller/repair.go` and
//! `portallocator/controller/repair.go`); the result is a diff and not a blob, so that it can be applied beside other
//! writers. The caller must read the stored bitmaps first and list the Services after that.
//!
//! ```
//! use rangekeeper::repair::{Leaks, RepairPass, Stored};
//! use rangekeeper::service::Service;
//!
//! let mut pass = RepairPass::new();
//! // Offsets 0 and 2 are stored: 10.0.0.1 and 10.0.0.3.
//! pass.add_cluster_ips("10.0.0.0/24".parse()?, Stored { range: "10.0.0.0/24", data: &[0b101] })?;
//! pass.observe(&Service { cluster_ip: "10.0.0.1", ..Service::default() });
//! pass.observe(&Service { cluster_ip: "10.0.0.2", ..Service::default() });
//! let outcome = pass.finish(Leaks::CleanAtOnce);
//!
//! assert_eq!(outcome.findings[0].reason.as_str(), "ClusterIPNotAllocated");
//! let range = &outcome.ranges[0];
//! assert_eq!(range.set().iter().collect::<Vec<_>>(), [1]);
//! assert_eq!(range.clear().iter().collect::<Vec<_>>(), [2]);
//! assert_eq!(range.next().snapshot(), [0b011]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod outcome;
mod part;

use std::net::IpAddr;

use crate::address::{parse_address, parse_ipv4};
use crate::any::{AnyRange, ParseRangeError};
use crate::cidr::CidrRange;
use crate::finding::{Finding, FoundValue, Reason, Subject, ValidRange};
use crate::leak::LeakCounters;
use crate::ports::PortRange;
use crate::range::Range;
use crate::service::Service;
use crate::snapshot::BitsPastRange;

use part::{Claim, Findings, Part};

pub use outcome::{OffsetState, Outcome, RangeOutcome};

/// A stored range object: what stands in its `range` and `data`.
///
/// An empty `range` means that the object was not initialised yet; the configured range is then taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored<'a> {
    /// The range as text.
    pub range: &'a str,
    /// The bitmap as bytes; see [`Bitmap::snapshot`](crate::bitmap::Bitmap::snapshot).
    pub data: &'a [u8],
}

/// Why a range could not join the pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddRangeError {
    /// There is one for the same kind of value already (IPv4, IPv6, ports).
    #[error("range {added} is of the same kind as {present}, which is part of the pass already")]
    SameKind {
        /// The range to be added.
        added: AnyRange,
        /// The one that is there.
        present: AnyRange,
    },
    /// The stored object's range is no range.
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
        /// Where.
        source: BitsPastRange,
    },
}

/// What happens to offsets that are stored though no Service uses them.
#[derive(Debug)]
pub enum Leaks<'a> {
    /// They are cleaned in this pass: right only where nobody allocates meanwhile.
    CleanAtOnce,
    /// They stay until their counters are spent.
    Keep(&'a mut RepairCounters),
}

/// The leak counters of all ranges of a pass, to be kept from one pass to the next.
#[derive(Clone, Debug)]
pub struct RepairCounters {
    passes: std::num::NonZeroU8,
    ranges: Vec<(AnyRange, LeakCounters)>,
}

impl RepairCounters {
    /// Counters at 0; a leak is cleaned in the pass that sees it for the `passes`th time in a row.
    pub fn new(passes: std::num::NonZeroU8) -> Self {
        Self { passes, ranges: Vec::new() }
    }

    /// The counters of `range`; 0 for a range that no pass had yet.
    pub fn of(&mut self, range: AnyRange) -> &mut LeakCounters {
        let at = self.ranges.iter().position(|(known, _)| *known == range).unwrap_or_else(|| {
            self.ranges.push((range, LeakCounters::new(range.size(), self.passes)));
            self.ranges.len() - 1
        });
        &mut self.ranges[at].1
    }

    /// Forgets the counters of ranges that are not among `ranges`: a pass without a range breaks its counters.
    fn retain(&mut self, ranges: &[RangeOutcome]) {
        self.ranges.retain(|(known, _)| ranges.iter().any(|outcome| outcome.range() == *known));
    }
}

/// One pass over all Services, under way.
#[derive(Debug, Default)]
pub struct RepairPass {
    ipv4: Option<Part<CidrRange>>,
    ipv6: Option<Part<CidrRange>>,
    ports: Option<Part<PortRange>>,
    ranges: usize,
    /// The range that findings name for an address whose family has none: the first one for ClusterIPs.
    first_cidr: usize,
    services: u64,
    claims: u64,
    findings: Findings,
}

impl RepairPass {
    /// A pass without ranges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the configured range of one IP family, with what is stored for it. The first one is the primary range.
    ///
    /// The stored range may differ from the configured one, after a change of the cluster's configuration: values
    /// that both have are taken over.
    ///
    /// # Errors
    /// If the family has a range already, or what is stored is no snapshot of a range of addresses.
    pub fn add_cluster_ips(&mut self, range: CidrRange, stored: Stored<'_>) -> Result<(), AddRangeError> {
        let added = AnyRange::Cidr(range);
        let slot = if range.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        if let Some(part) = slot {
            return Err(AddRangeError::SameKind { added, present: AnyRange::Cidr(part.range) });
        }
        *slot = Some(Part::new(self.ranges, range, stored)?);
        if self.ipv4.is_none() || self.ipv6.is_none() {
            self.first_cidr = self.ranges;
        }
        self.ranges += 1;
        Ok(())
    }

    /// Adds the configured range of node ports, with what is stored for it.
    ///
    /// # Errors
    /// If there is one already, or what is stored is no snapshot of a range of ports.
    pub fn add_node_ports(&mut self, range: PortRange, stored: Stored<'_>) -> Result<(), AddRangeError> {
        let added = AnyRange::Ports(range);
        if let Some(part) = &self.ports {
            return Err(AddRangeError::SameKind { added, present: AnyRange::Ports(part.range) });
        }
        self.ports = Some(Part::new(self.ranges, range, stored)?);
        self.ranges += 1;
        Ok(())
    }

    /// Takes note of one Service. Cost: some 30 ns per address or port, independent of the ranges' sizes.
    ///
    /// Addresses count only if a range for ClusterIPs was added, ports only if one for node ports was.
    #[inline]
    pub fn observe(&mut self, service: &Service<'_>) {
        if self.ipv4.is_some() || self.ipv6.is_some() {
            for text in service.cluster_ip_texts() {
                self.observe_cluster_ip(text);
            }
        }
        if self.ports.is_some() {
            self.observe_node_ports(service);
        }
        self.services += 1;
    }

    #[inline]
    fn observe_cluster_ip(&mut self, text: &str) {
        // Nearly every text is such an address. It stays a number all the way, where an IpAddr would be put together
        // and taken apart in memory.
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
            return self.find(Reason::ClusterIPNotValid, self.first_cidr, FoundValue::Text(text.into()), None);
        };
        let part = match address {
            IpAddr::V4(_) => &mut self.ipv4,
            IpAddr::V6(_) => &mut self.ipv6,
        };
        let Some(part) = part else {
            return self.find(Reason::ClusterIPNotValid, self.first_cidr, FoundValue::Address(address), None);
        };
        let Some(offset) = part.range.offset_of(address) else {
            let no_values = part.range.size() == 0 && part.range.contains(address);
            let reason = if no_values { Reason::ServiceCIDRFull } else { Reason::ClusterIPOutOfRange };
            let (index, valid) = (part.index, ValidRange::Cidr(part.range));
            return self.find(reason, index, FoundValue::Address(address), Some(valid));
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
            let (index, valid) = (part.index, ValidRange::Ports(part.range));
            return self.find(Reason::PortOutOfRange, index, FoundValue::Port(port), Some(valid));
        };
        part.claim(Claim { order: self.claims, service: self.services, offset }, &mut self.findings);
        self.claims += 1;
    }

    #[cold]
    fn find(&mut self, reason: Reason, range: usize, value: FoundValue, valid: Option<ValidRange>) {
        let subject = Subject::Service(self.services);
        self.findings.push((self.claims, Finding { reason, range, subject, value, valid }));
        self.claims += 1;
    }

    /// Ends the pass. Cost: O(size / 64) per range.
    pub fn finish(self, mut leaks: Leaks<'_>) -> Outcome {
        let mut findings = self.findings;
        let cidrs = [self.ipv4, self.ipv6].into_iter().flatten();
        let mut ranges: Vec<_> = cidrs.map(|part| part.finish(&mut leaks, &mut findings)).collect();
        ranges.extend(self.ports.map(|part| part.finish(&mut leaks, &mut findings)));
        ranges.sort_unstable_by_key(|(index, _)| *index);
        let ranges: Vec<_> = ranges.into_iter().map(|(_, range)| range).collect();
        if let Leaks::Keep(counters) = leaks {
            counters.retain(&ranges);
        }
        findings.sort_unstable_by_key(|(order, _)| *order);
        let findings = findings.into_iter().map(|(_, finding)| finding).collect();
        Outcome { ranges, findings, services: self.services }
    }
}
