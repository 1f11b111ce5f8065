//! Findings: what an audit reports about a Service or an IPAddress object.
//!
//! ```
//! use rangekeeper::finding::{Reason, Severity};
//!
//! // A repair records the address; of two Services with one address, an owner has to recreate one.
//! assert!(Reason::ClusterIpNotAllocated.is_repairable());
//! assert!(!Reason::ClusterIpAlreadyAllocated.is_repairable());
//! assert_eq!(Reason::ClusterIpAlreadyAllocated.severity(), Severity::BreaksTraffic);
//! assert_eq!(Reason::PortOutOfRange.as_str(), "PortOutOfRange");
//! ```

use std::fmt::{self, Display};
use std::net::IpAddr;

use crate::address::family_name;
use crate::any::{AnyRange, AnyValue};
use crate::audit::StoredBitmap;

/// The kind of a finding. The names are the reasons of the reference's Events, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A ClusterIP that is not an address, or is of an IP family that has no range.
    ClusterIpNotValid,
    /// A Service uses an address that is not recorded as allocated.
    ClusterIpNotAllocated,
    /// Two Services use one address.
    ClusterIpAlreadyAllocated,
    /// A Service uses an address that no range can allocate.
    ClusterIpOutOfRange,
    /// A Service uses an address of a range without any allocatable address.
    ServiceCidrFull,
    /// An IPAddress object that the allocator created does not refer to a Service.
    IpAddressNotAllocated,
    /// An IPAddress object refers to a Service that does not use the address.
    IpAddressWrongReference,
    /// An IPAddress object that kube-apiserver's repair reads has no spec.parentRef. No server repairs it. Not a reason
    /// of the reference, whose API refuses such an object.
    IpAddressWithoutParent,
    /// The name of an IPAddress object is not the canonical text of an address, by which servers look for it. Not a
    /// reason of the reference, whose API refuses such an object.
    IpAddressNotCanonical,
    /// A Service has an address in another text than the canonical one, which is the name of its IPAddress object. Not
    /// a reason of the reference, which reports each removal and creation of that object.
    ClusterIpNotCanonical,
    /// A Service uses a port that is not recorded as allocated.
    PortNotAllocated,
    /// Two Services use one port, with the same protocol or not: the reference records a port once for all protocols.
    PortAlreadyAllocated,
    /// A Service uses a port outside the range.
    PortOutOfRange,
    /// An address is recorded in a bitmap that servers still write, and nowhere else; or an IPAddress object or a
    /// Service has it, and the bitmap does not. Not a reason of the reference, which never compares them.
    BitmapDisagrees,
    /// No value of a range is free. Not a reason of the reference.
    RangeFull,
    /// Few values of a range are free ([`Report::find_full_ranges`](crate::audit::Report::find_full_ranges)). Not a
    /// reason of the reference.
    RangeNearlyFull,
    /// The stored object of a range that servers read cannot be read. Not a reason of the reference.
    RangeNotReadable,
    /// The stored object of a range is missing or not initialised, though there are Services. Not a reason of the
    /// reference.
    RangeMissing,
    /// A Service that needs a ClusterIP, or one of each IP family, has none. Not a reason of the reference.
    ClusterIpMissing,
    /// A Service of type NodePort or LoadBalancer has a port without a node port. Not a reason of the reference.
    NodePortMissing,
    /// A Service of type LoadBalancer with externalTrafficPolicy Local has no healthCheckNodePort. Not a reason of the
    /// reference.
    HealthCheckNodePortMissing,
}

impl Reason {
    /// All reasons of this release.
    pub const ALL: [Self; 21] = [
        Self::ClusterIpNotValid,
        Self::ClusterIpNotAllocated,
        Self::ClusterIpAlreadyAllocated,
        Self::ClusterIpOutOfRange,
        Self::ServiceCidrFull,
        Self::IpAddressNotAllocated,
        Self::IpAddressWrongReference,
        Self::IpAddressWithoutParent,
        Self::IpAddressNotCanonical,
        Self::ClusterIpNotCanonical,
        Self::PortNotAllocated,
        Self::PortAlreadyAllocated,
        Self::PortOutOfRange,
        Self::BitmapDisagrees,
        Self::RangeFull,
        Self::RangeNearlyFull,
        Self::RangeNotReadable,
        Self::RangeMissing,
        Self::ClusterIpMissing,
        Self::NodePortMissing,
        Self::HealthCheckNodePortMissing,
    ];

    /// The reason as text, which is that of the reference's Events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::ClusterIpNotValid => "ClusterIPNotValid",
            Self::ClusterIpNotAllocated => "ClusterIPNotAllocated",
            Self::ClusterIpAlreadyAllocated => "ClusterIPAlreadyAllocated",
            Self::ClusterIpOutOfRange => "ClusterIPOutOfRange",
            Self::ServiceCidrFull => "ServiceCIDRFull",
            Self::IpAddressNotAllocated => "IPAddressNotAllocated",
            Self::IpAddressWrongReference => "IPAddressWrongReference",
            Self::IpAddressWithoutParent => "IPAddressWithoutParent",
            Self::IpAddressNotCanonical => "IPAddressNotCanonical",
            Self::ClusterIpNotCanonical => "ClusterIPNotCanonical",
            Self::PortNotAllocated => "PortNotAllocated",
            Self::PortAlreadyAllocated => "PortAlreadyAllocated",
            Self::PortOutOfRange => "PortOutOfRange",
            Self::BitmapDisagrees => "BitmapDisagrees",
            Self::RangeFull => "RangeFull",
            Self::RangeNearlyFull => "RangeNearlyFull",
            Self::RangeNotReadable => "RangeNotReadable",
            Self::RangeMissing => "RangeMissing",
            Self::ClusterIpMissing => "ClusterIPMissing",
            Self::NodePortMissing => "NodePortMissing",
            Self::HealthCheckNodePortMissing => "HealthCheckNodePortMissing",
        }
    }

    /// Whether a repair of the ranges, or the API server when it starts, repairs this without the object's owner.
    pub fn is_repairable(&self) -> bool {
        match self {
            Self::ClusterIpNotAllocated
            | Self::IpAddressNotAllocated
            | Self::IpAddressWrongReference
            | Self::PortNotAllocated
            | Self::BitmapDisagrees
            | Self::RangeMissing => true,
            Self::ClusterIpNotValid
            | Self::ClusterIpAlreadyAllocated
            | Self::ClusterIpOutOfRange
            | Self::ServiceCidrFull
            | Self::IpAddressWithoutParent
            | Self::IpAddressNotCanonical
            | Self::ClusterIpNotCanonical
            | Self::PortAlreadyAllocated
            | Self::PortOutOfRange
            | Self::RangeFull
            | Self::RangeNearlyFull
            | Self::RangeNotReadable
            | Self::ClusterIpMissing
            | Self::NodePortMissing
            | Self::HealthCheckNodePortMissing => false,
        }
    }
}

impl Reason {
    /// Whether it is about a field of a Service that has no value.
    pub(crate) fn is_of_field(&self) -> bool {
        matches!(self, Self::ClusterIpMissing | Self::NodePortMissing | Self::HealthCheckNodePortMissing)
    }

    /// The harm that a finding with this reason does or may do.
    pub fn severity(&self) -> Severity {
        match self {
            Self::ClusterIpNotValid
            | Self::ClusterIpAlreadyAllocated
            | Self::ClusterIpOutOfRange
            | Self::ServiceCidrFull
            | Self::IpAddressWithoutParent
            | Self::PortAlreadyAllocated
            | Self::PortOutOfRange
            | Self::RangeNotReadable
            | Self::RangeMissing
            | Self::ClusterIpMissing
            | Self::NodePortMissing
            | Self::HealthCheckNodePortMissing => Severity::BreaksTraffic,
            Self::ClusterIpNotAllocated
            | Self::PortNotAllocated
            | Self::IpAddressNotCanonical
            | Self::ClusterIpNotCanonical => Severity::DuplicateRisk,
            Self::RangeFull | Self::RangeNearlyFull => Severity::Exhausted,
            Self::IpAddressNotAllocated | Self::IpAddressWrongReference | Self::BitmapDisagrees => Severity::Wasted,
        }
    }
}

/// The harm of a finding or a leak, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Two Services answer on one value (on a port if their protocols are the same), or no range hands the value out,
    /// so that nothing is bound to forward it; or an IPAddress object is one that no API server accepts; or the range
    /// itself cannot be read or is missing, so that no Service with a value of it is created.
    BreaksTraffic,
    /// The value is in use and not recorded, or not for good, so that a server may allocate it a second time.
    DuplicateRisk,
    /// No value or few values are free, so that new Services are refused, or soon will be.
    Exhausted,
    /// The value is recorded and not in use, so that no server allocates it.
    Wasted,
}

impl Severity {
    /// The severity of a leak.
    pub const LEAK: Self = Self::Wasted;
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The object that a finding is about, by its place among those that were added or observed: 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A Service.
    Service(u64),
    /// An IPAddress object.
    IpAddress(u64),
    /// A CIDR of a ServiceCIDR object, by its place among the ranges of the audit. No other object has the value.
    ServiceCidr(u64),
    /// A range itself, by its place among the ranges of the audit.
    Range(u64),
    /// The stored object of a range that the audit does not have.
    Stored(StoredBitmap),
}

/// The value that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FoundValue {
    /// An address, canonical.
    Address(IpAddr),
    /// A port as the Service has it, in range or not.
    Port(i32),
    /// A text that should be an address, or the canonical text of one; or a range, or the name of one; or the field of
    /// a Service that has no value.
    Text(String),
}

impl FoundValue {
    /// The value, if it is an address or a port that a range could have.
    pub(crate) fn any(&self) -> Option<AnyValue> {
        match self {
            Self::Address(address) => Some(AnyValue::Address(*address)),
            Self::Port(port) => u16::try_from(*port).ok().map(AnyValue::Port),
            Self::Text(_) => None,
        }
    }
}

impl Display for FoundValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => Display::fmt(address, f),
            Self::Port(port) => Display::fmt(port, f),
            Self::Text(text) => Display::fmt(text, f),
        }
    }
}

/// One finding. `Display` writes a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the finding.
    pub reason: Reason,
    /// The range, by its place in the order in which the ranges were added. `None` if the audit has no range of
    /// addresses to name.
    pub range: Option<usize>,
    /// The object.
    pub subject: Subject,
    /// The value.
    pub value: FoundValue,
    /// The range that the value should be in, if there is only one.
    pub valid: Option<AnyRange>,
    /// How many values of this kind lie outside, if it is nearly all of them: the range may be wrong, and not they.
    pub outside: Option<Outside>,
}

/// How many of the values of Services lie outside of all ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Those outside.
    pub count: u64,
    /// All of them.
    pub of: u64,
}

/// How an IPAddress object goes away that no API server accepts. A shell may run the name of such an object as a
/// command, so the text has neither.
const DELETION: &str = "; an administrator deletes the object, or its key in etcd while no API server runs";

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = &self.value;
        match value {
            FoundValue::Address(address) => write!(f, "ClusterIP {value} ({})", family_name(*address))?,
            FoundValue::Port(_) => write!(f, "node port {value}")?,
            FoundValue::Text(text) if matches!(self.subject, Subject::Range(_)) => f.write_str(text)?,
            FoundValue::Text(text) if matches!(self.subject, Subject::Stored(_)) => write!(f, "the range {text}")?,
            FoundValue::Text(text) if self.reason.is_of_field() => {
                write!(f, "the Service needs a value in {text} and has none")?
            }
            FoundValue::Text(text) => write!(f, "ClusterIP {text:?}")?,
        }
        match self.reason {
            Reason::ClusterIpNotValid if matches!(value, FoundValue::Text(_)) => {
                f.write_str(" is not an IP address; recreate the Service")
            }
            Reason::ClusterIpNotValid => {
                f.write_str(" is of an IP family without a range in this cluster; recreate the Service")
            }
            Reason::ClusterIpNotAllocated => f.write_str(
                " is in use but not recorded as allocated; repair records it in a bitmap, and creates an IPAddress object in a \
                 snapshot; in a running cluster kube-apiserver creates the object",
            ),
            Reason::PortNotAllocated => f.write_str(" is in use but not recorded as allocated; repair records it"),
            Reason::ClusterIpAlreadyAllocated => {
                f.write_str(" is claimed more than once; one Service keeps it, recreate the others")
            }
            Reason::PortAlreadyAllocated => f.write_str(
                " is claimed more than once; one Service keeps it, change it in the others or recreate them",
            ),
            Reason::ClusterIpOutOfRange | Reason::PortOutOfRange => {
                f.write_str(" is not one that ")?;
                match &self.valid {
                    Some(valid) => write!(f, "{valid} hands out")?,
                    None => f.write_str("any ServiceCIDR hands out")?,
                }
                let is_port = self.reason == Reason::PortOutOfRange;
                if let Some(Outside { count, of }) = self.outside {
                    let flag = if is_port { "--service-node-port-range" } else { "--service-cluster-ip-range" };
                    return write!(
                        f,
                        ", and neither are {count} of all {of} in the cluster: the range may be wrong, and not the Services; \
                         compare it with {flag} of the servers first"
                    );
                }
                f.write_str(match is_port {
                    true => "; change it in the Service (a healthCheckNodePort needs a new Service)",
                    false => "; recreate the Service",
                })
            }
            Reason::ServiceCidrFull => {
                f.write_str(" lies in a range that has no allocatable address")?;
                match &self.valid {
                    Some(valid) => write!(f, ": {valid}; widen it"),
                    None => f.write_str("; widen it"),
                }
            }
            Reason::IpAddressNotAllocated => f.write_str(
                " has an IPAddress object of the allocator that does not refer to a Service; the API server removes it",
            ),
            Reason::IpAddressWithoutParent => {
                f.write_str(" has an IPAddress object without spec.parentRef, which no API server accepts or repairs")?;
                f.write_str(DELETION)
            }
            Reason::IpAddressNotCanonical => {
                f.write_str(
                    " is the name of an IPAddress object and not the canonical text of an address: kube-apiserver does not \
                     find the object, and may hand the address out",
                )?;
                f.write_str(DELETION)
            }
            Reason::ClusterIpNotCanonical => f.write_str(
                " is not the canonical text of the address: the repair of kube-apiserver removes its IPAddress object as that of \
                 another Service and recreates it later, and the address may be handed out between; recreate the Service",
            ),
            Reason::BitmapDisagrees if matches!(self.subject, Subject::ServiceCidr(_)) => f.write_str(
                " is recorded in the bitmap alone: no IPAddress object and no Service has it, and a server that writes the \
                 bitmap refuses it as already allocated; repair clears it",
            ),
            Reason::BitmapDisagrees => f.write_str(
                " is in use but not recorded in the bitmap: a server that writes the bitmap may choose it for a Service, \
                 whose creation then fails; repair records it",
            ),
            Reason::RangeFull => f.write_str(" has no free value: a new Service that needs one is refused; widen the range or add one"),
            Reason::RangeNearlyFull => f.write_str(" has few free values; widen the range or add one before it is full"),
            Reason::ClusterIpMissing => f.write_str(
                ": proxies skip it; no update gives it an address but one that names a free one in spec.clusterIP and \
                 spec.clusterIPs; recreate the Service, or name one",
            ),
            Reason::NodePortMissing => f.write_str(": it is not reached from outside; any update of the Service, such as of a label, gives it one"),
            Reason::HealthCheckNodePortMissing => f.write_str(
                ": load balancers cannot see which nodes have Pods, and each update is refused; set \
                 spec.externalTrafficPolicy to Cluster, and back to Local",
            ),
            Reason::RangeNotReadable => f.write_str(
                " is stored in a form that no server can read: a Service that needs a value of it is refused, and a \
                 server that starts may end; delete the key, and the servers set the range up again from the Services",
            ),
            Reason::RangeMissing => f.write_str(
                " is not stored: a Service that needs a value of it is refused until an API server sets it up, which it does \
                 when it starts and every few minutes",
            ),
            Reason::IpAddressWrongReference => {
                f.write_str(" has an IPAddress object whose Service does not use it; the API server repairs it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reasons_are_listed_in_their_order() {
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
        // The last one: a later one belongs before it.
        assert_eq!(Reason::ALL.len(), Reason::HealthCheckNodePortMissing as usize + 1);
    }
}
