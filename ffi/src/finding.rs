//! The findings of audits, in the form that C gets.

use std::ffi::{CStr, c_char};

use rangekeeper_core::audit::{Cell, OffsetState, Remedy, Report, StoredBitmap};
use rangekeeper_core::finding::{Finding, FoundValue, Reason, Severity, Subject};
use rangekeeper_core::range::Band;

use crate::audit::{RK_BITMAP_SECONDARY_SERVICE_IPS, RK_BITMAP_SERVICE_IPS, RK_BITMAP_SERVICE_NODE_PORTS, rk_bitmap};
use crate::guard::guard_or;
use crate::result::rk_result;
use crate::scope::Array;
use crate::value::{RK_VALUE_KIND_PORT, RK_VALUE_KIND_TEXT, rk_value, rk_value_kind};

/// As the range of a finding or leak: the audit has no range of addresses.
pub const RK_NO_RANGE: u32 = 0xffff_ffff;

/// The kind of object that a finding is about.
pub type rk_subject_kind = u32;
/// A finding is about a Service.
pub const RK_SUBJECT_KIND_SERVICE: rk_subject_kind = 0;
/// A finding is about an IPAddress object.
pub const RK_SUBJECT_KIND_IP_ADDRESS: rk_subject_kind = 1;

/// A finding is about an address of a CIDR of a ServiceCIDR object that no other object has.
pub const RK_SUBJECT_KIND_SERVICE_CIDR: rk_subject_kind = 2;

/// A finding is about a range itself.
pub const RK_SUBJECT_KIND_RANGE: rk_subject_kind = 3;

/// A finding is about the stored object of a range that the audit does not have: one of RK_BITMAP_*.
pub const RK_SUBJECT_KIND_STORED: rk_subject_kind = 4;

/// Who remedies a finding.
pub type rk_remedy = u32;
/// A repair of the bitmap remedies it.
pub const RK_REMEDY_REPAIR: rk_remedy = 0;
/// The API server remedies it: it repairs IPAddress objects when it starts, and every few minutes after that.
pub const RK_REMEDY_API_SERVER: rk_remedy = 1;
/// People remedy it: the owner of a Service recreates it, or an administrator widens the range or deletes the
/// IPAddress object.
pub const RK_REMEDY_OWNER: rk_remedy = 2;

/// What a finding or leak means for users. Numbers never change.
pub type rk_severity = u32;
/// The number is that of no reason.
pub const RK_SEVERITY_NONE: rk_severity = 0;
/// Two Services answer on one value (on a port if their protocols are the same), or no range hands the value out, so
/// that nothing is bound to forward it; or an IPAddress object is one that no API server accepts; or the range itself
/// is missing or cannot be read, so that no Service with a value of it is created.
pub const RK_SEVERITY_BREAKS_TRAFFIC: rk_severity = 1;
/// The value is in use and not recorded, or not for good, so that a server may allocate it a second time.
pub const RK_SEVERITY_DUPLICATE_RISK: rk_severity = 2;
/// The value is recorded and not in use, so that no server allocates it.
pub const RK_SEVERITY_WASTED: rk_severity = 3;
/// No value or few values are free, so that new Services are refused, or soon will be. It is worse than
/// RK_SEVERITY_WASTED.
pub const RK_SEVERITY_EXHAUSTED: rk_severity = 4;

/// The bands of a range (KEP-3070).
pub type rk_band = u32;
/// The low offsets, which dynamic allocation uses last.
pub const RK_BAND_STATIC: rk_band = 0;
/// All other offsets.
pub const RK_BAND_DYNAMIC: rk_band = 1;

/// The reason of a finding, as in kube-apiserver's Events if they have it. Numbers never change and are never reused.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rk_reason {
    /// A ClusterIP that is no address, or of a family that no range has.
    ClusterIpNotValid = 1,
    /// A Service uses an address that is not recorded as allocated.
    ClusterIpNotAllocated = 2,
    /// Two Services use one address.
    ClusterIpAlreadyAllocated = 3,
    /// A Service uses an address that no range hands out.
    ClusterIpOutOfRange = 4,
    /// A Service uses an address of a range that has no allocatable address at all.
    ServiceCidrFull = 5,
    /// An IPAddress object of the allocator refers to something other than a Service.
    IpAddressNotAllocated = 6,
    /// An IPAddress object refers to a Service that does not use the address.
    IpAddressWrongReference = 7,
    /// A Service uses a port that is not recorded as allocated.
    PortNotAllocated = 8,
    /// Two Services use one port, with the same protocol or not.
    PortAlreadyAllocated = 9,
    /// A Service uses a port outside the range.
    PortOutOfRange = 10,
    /// A bitmap of ClusterIPs that servers still write beside IPAddress objects records an address that no object and
    /// no Service has, or does not record one that they have. No Event has this reason.
    BitmapDisagrees = 11,
    /// An IPAddress object that kube-apiserver's repair reads has no spec.parentRef. No server repairs it. No Event has
    /// this reason.
    IpAddressWithoutParent = 12,
    /// The name of an IPAddress object is not the canonical text of an address, by which servers look for it. No Event
    /// has this reason.
    IpAddressNotCanonical = 13,
    /// A Service has an address in another text than the canonical one, which is the name of its IPAddress object. No
    /// Event has this reason.
    ClusterIpNotCanonical = 14,
    /// No value of a range is free. No Event has this reason.
    RangeFull = 15,
    /// Few values of a range are free. No Event has this reason.
    RangeNearlyFull = 16,
    /// The stored object of a range that servers read cannot be read. No Event has this reason.
    RangeNotReadable = 17,
    /// The stored object of a range is missing or not initialised, though there are Services. No Event
    /// has this reason.
    RangeMissing = 18,
    /// A Service that needs a ClusterIP, or one of each IP family, has none. No Event has this reason.
    ClusterIpMissing = 19,
    /// A Service of type NodePort or LoadBalancer has a port without a node port. No Event has this reason.
    NodePortMissing = 20,
    /// A Service of type LoadBalancer with externalTrafficPolicy Local has no healthCheckNodePort. No Event has this
    /// reason.
    HealthCheckNodePortMissing = 21,
}

/// All reasons of the core; place n is number n + 1.
const REASONS: [Reason; 21] = [
    Reason::ClusterIpNotValid,
    Reason::ClusterIpNotAllocated,
    Reason::ClusterIpAlreadyAllocated,
    Reason::ClusterIpOutOfRange,
    Reason::ServiceCidrFull,
    Reason::IpAddressNotAllocated,
    Reason::IpAddressWrongReference,
    Reason::PortNotAllocated,
    Reason::PortAlreadyAllocated,
    Reason::PortOutOfRange,
    Reason::BitmapDisagrees,
    Reason::IpAddressWithoutParent,
    Reason::IpAddressNotCanonical,
    Reason::ClusterIpNotCanonical,
    Reason::RangeFull,
    Reason::RangeNearlyFull,
    Reason::RangeNotReadable,
    Reason::RangeMissing,
    Reason::ClusterIpMissing,
    Reason::NodePortMissing,
    Reason::HealthCheckNodePortMissing,
];

impl From<Reason> for rk_reason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ClusterIpNotValid => Self::ClusterIpNotValid,
            Reason::ClusterIpNotAllocated => Self::ClusterIpNotAllocated,
            Reason::ClusterIpAlreadyAllocated => Self::ClusterIpAlreadyAllocated,
            Reason::ClusterIpOutOfRange => Self::ClusterIpOutOfRange,
            Reason::ServiceCidrFull => Self::ServiceCidrFull,
            Reason::IpAddressNotAllocated => Self::IpAddressNotAllocated,
            Reason::IpAddressWrongReference => Self::IpAddressWrongReference,
            Reason::PortNotAllocated => Self::PortNotAllocated,
            Reason::PortAlreadyAllocated => Self::PortAlreadyAllocated,
            Reason::PortOutOfRange => Self::PortOutOfRange,
            Reason::BitmapDisagrees => Self::BitmapDisagrees,
            Reason::IpAddressWithoutParent => Self::IpAddressWithoutParent,
            Reason::IpAddressNotCanonical => Self::IpAddressNotCanonical,
            Reason::ClusterIpNotCanonical => Self::ClusterIpNotCanonical,
            Reason::RangeFull => Self::RangeFull,
            Reason::RangeNearlyFull => Self::RangeNearlyFull,
            Reason::RangeNotReadable => Self::RangeNotReadable,
            Reason::RangeMissing => Self::RangeMissing,
            Reason::ClusterIpMissing => Self::ClusterIpMissing,
            Reason::NodePortMissing => Self::NodePortMissing,
            Reason::HealthCheckNodePortMissing => Self::HealthCheckNodePortMissing,
            // A test compares the reasons here with those of the core.
            reason => unreachable!("{reason:?} has no number"),
        }
    }
}

/// The spelling of each reason; place n is number n + 1.
const REASON_NAMES: [&CStr; 21] = [
    c"ClusterIPNotValid",
    c"ClusterIPNotAllocated",
    c"ClusterIPAlreadyAllocated",
    c"ClusterIPOutOfRange",
    c"ServiceCIDRFull",
    c"IPAddressNotAllocated",
    c"IPAddressWrongReference",
    c"PortNotAllocated",
    c"PortAlreadyAllocated",
    c"PortOutOfRange",
    c"BitmapDisagrees",
    c"IPAddressWithoutParent",
    c"IPAddressNotCanonical",
    c"ClusterIPNotCanonical",
    c"RangeFull",
    c"RangeNearlyFull",
    c"RangeNotReadable",
    c"RangeMissing",
    c"ClusterIPMissing",
    c"NodePortMissing",
    c"HealthCheckNodePortMissing",
];

/// The value of a finding; the kind determines which member is valid, for a text none.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_found_value {
    /// An address.
    pub address: rk_value,
    /// A port as the Service has it, in range or not.
    pub port: i32,
}

/// Something that is wrong with a Service, an IPAddress object or an address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_finding {
    /// The reason.
    pub reason: rk_reason,
    /// The kind of object that it is about.
    pub subject_kind: rk_subject_kind,
    /// Which Service or IPAddress object, by its place among those that were observed: 0 is the first. For a CIDR of a
    /// ServiceCIDR object, and for a range, its place among the ranges; for a stored object its RK_BITMAP_*.
    pub subject: u64,
    /// The range it concerns: its place in the order in which they were added; RK_NO_RANGE if there is no range of
    /// addresses.
    pub range: u32,
    /// Who remedies it.
    pub remedy: rk_remedy,
    /// Whether the repair leaves it for now, since a Service that uses the value may still be under way.
    pub stays: bool,
    /// The kind of value that it is about: RK_VALUE_KIND_IPV4, _IPV6, _PORT or _TEXT. A range, or its name, is a text.
    pub value_kind: rk_value_kind,
    /// The value; for a text see rk_report_finding_texts.
    pub value: rk_found_value,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// The state of one value of a range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_offset_state {
    /// Its band.
    pub band: rk_band,
    /// Whether it was recorded as allocated.
    pub stored: bool,
    /// Whether a Service uses it.
    pub in_use: bool,
    /// Whether more than one Service claims it.
    pub duplicate: bool,
    /// Whether it is allocated after the repair.
    pub next: bool,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// Counts for one stretch of a range, for an occupancy map.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_cell {
    /// Offset of its first value.
    pub first: u64,
    /// How many values it has.
    pub len: u64,
    /// Values that Services use.
    pub in_use: u64,
    /// Values recorded as allocated that no Service uses.
    pub leaked: u64,
    /// Values that Services use though they are not recorded as allocated; part of in_use.
    pub lost: u64,
    /// Values that more than one Service claims; part of in_use.
    pub duplicate: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

impl rk_finding {
    fn new(report: &Report, finding: &Finding) -> Self {
        let (subject_kind, subject) = match finding.subject {
            Subject::Service(ordinal) => (RK_SUBJECT_KIND_SERVICE, ordinal),
            Subject::IpAddress(ordinal) => (RK_SUBJECT_KIND_IP_ADDRESS, ordinal),
            Subject::ServiceCidr(range) => (RK_SUBJECT_KIND_SERVICE_CIDR, range),
            Subject::Range(range) => (RK_SUBJECT_KIND_RANGE, range),
            Subject::Stored(bitmap) => (RK_SUBJECT_KIND_STORED, bitmap_number(bitmap).into()),
        };
        // All of the union is written, so that C copies no indeterminate bytes.
        let mut value = rk_found_value { address: rk_value::default() };
        let value_kind = match finding.value {
            FoundValue::Address(address) => {
                let address = rk_value::from(address);
                value.address = address;
                address.kind
            }
            FoundValue::Port(port) => {
                value.port = port;
                RK_VALUE_KIND_PORT
            }
            FoundValue::Text(_) => RK_VALUE_KIND_TEXT,
        };
        Self {
            reason: finding.reason.into(),
            subject_kind,
            subject,
            range: finding.range.map_or(RK_NO_RANGE, |range| range as u32),
            remedy: remedy_number(report.remedy(finding)),
            stays: report.stays(finding),
            value_kind,
            value,
            reserved: [0; 2],
        }
    }
}

fn bitmap_number(bitmap: StoredBitmap) -> rk_bitmap {
    match bitmap {
        StoredBitmap::ServiceIps => RK_BITMAP_SERVICE_IPS,
        StoredBitmap::SecondaryServiceIps => RK_BITMAP_SECONDARY_SERVICE_IPS,
        StoredBitmap::ServiceNodePorts => RK_BITMAP_SERVICE_NODE_PORTS,
    }
}

pub(crate) fn remedy_number(remedy: Remedy) -> rk_remedy {
    match remedy {
        Remedy::Repair => RK_REMEDY_REPAIR,
        Remedy::ApiServer => RK_REMEDY_API_SERVER,
        Remedy::Owner => RK_REMEDY_OWNER,
    }
}

pub(crate) fn severity_number(severity: Severity) -> rk_severity {
    match severity {
        Severity::BreaksTraffic => RK_SEVERITY_BREAKS_TRAFFIC,
        Severity::DuplicateRisk => RK_SEVERITY_DUPLICATE_RISK,
        Severity::Exhausted => RK_SEVERITY_EXHAUSTED,
        Severity::Wasted => RK_SEVERITY_WASTED,
    }
}

impl From<OffsetState> for rk_offset_state {
    fn from(state: OffsetState) -> Self {
        let OffsetState { band, stored, in_use, duplicate, next } = state;
        let band = match band {
            Band::Static => RK_BAND_STATIC,
            Band::Dynamic => RK_BAND_DYNAMIC,
        };
        Self { band, stored, in_use, duplicate, next, reserved: [0; 2] }
    }
}

impl From<Cell> for rk_cell {
    fn from(cell: Cell) -> Self {
        let Cell { first, len, in_use, leaked, lost, duplicate } = cell;
        Self { first, len, in_use, leaked, lost, duplicate, reserved: [0; 2] }
    }
}

/// The findings from place `from` on. Returns how many were written.
pub(crate) fn findings_page(report: &Report, from: usize, page: Array<rk_finding>) -> usize {
    page.fill(report.findings.iter().skip(from).map(|finding| rk_finding::new(report, finding)))
}

/// The item at a place that C names.
pub(crate) fn at<T>(items: &[T], index: usize) -> Result<&T, rk_result> {
    items.get(index).ok_or(rk_result::InvalidArgument)
}

/// Returns a reason as text, such as "ClusterIPNotAllocated" in kube-apiserver's Events; "Unknown" for any other
/// number. The text is static: never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn rk_reason_name(reason: u32) -> *const c_char {
    guard_or(c"Unknown".as_ptr(), || {
        let place = (reason as usize).checked_sub(1);
        place.and_then(|place| REASON_NAMES.get(place)).unwrap_or(&c"Unknown").as_ptr()
    })
}

/// Returns the severity of the findings with this reason; RK_SEVERITY_NONE for any other number.
#[unsafe(no_mangle)]
pub extern "C" fn rk_reason_severity(reason: u32) -> rk_severity {
    guard_or(RK_SEVERITY_NONE, || {
        let place = (reason as usize).checked_sub(1);
        place.and_then(|place| REASONS.get(place)).map_or(RK_SEVERITY_NONE, |reason| severity_number(reason.severity()))
    })
}

/// Writes the texts of findings, as [`rk_report_finding_texts`](crate::report::rk_report_finding_texts) promises, with
/// two ends for each. Returns how many were written.
pub(crate) fn texts(
    findings: &[Finding],
    from: usize,
    buffer: Array<c_char>,
    ends: Array<usize>,
) -> Result<usize, rk_result> {
    let findings = findings.get(from..).unwrap_or(&[]);
    let mut text = String::new();
    let mut at = Vec::new();
    for finding in findings.iter().take(ends.capacity() / 2) {
        let before = text.len();
        text.push_str(&finding.value.to_string());
        let value_end = text.len();
        text.push_str(&finding.to_string());
        if text.len() > buffer.capacity() {
            text.truncate(before);
            break;
        }
        at.extend([value_end, text.len()]);
    }
    if at.is_empty() && ends.capacity() > 0 && !findings.is_empty() {
        return Err(rk_result::BufferTooSmall);
    }
    buffer.fill(text.into_bytes().into_iter().map(|byte| byte as c_char));
    Ok(ends.fill(at) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_core() {
        assert!(Reason::ALL.iter().all(|reason| REASONS.contains(reason)), "one has no number");
        for (place, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(rk_reason::from(reason) as usize, place + 1);
            assert_eq!(REASON_NAMES[place].to_str(), Ok(reason.as_str()));
        }
    }
}
