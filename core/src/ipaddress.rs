//! IPAddress objects, each of which records one allocated ClusterIP (KEP-1880, default since Kubernetes 1.33), and the
//! rules by which they are repaired.
//!
//! An [audit](crate::audit) reports the verdicts of [`judge_object`] and [`judge_cluster_ip`], and a repair carries
//! them out. They follow the reference (kubernetes `pkg/registry/core/service/ipallocator/controller/repairip.go`)
//! except for its grace periods: a request creates the object before it writes the Service, so an unused object is kept
//! for as long as a request can take, whatever the state of its Service. And an object of an address that a Service
//! uses is changed in place: between its deletion and the creation of another one the address would be free.
//!
//! ```
//! use std::time::Duration;
//!
//! use rangekeeper::ipaddress::{IpAddressVerdict, Parent, judge_object};
//!
//! let grace = Duration::from_secs(60);
//! let verdict = |unused_for| judge_object(true, Parent::Missing, unused_for, grace);
//! assert_eq!(verdict(Duration::from_secs(59)), IpAddressVerdict::Wait(Duration::from_secs(1)));
//! assert_eq!(verdict(grace), IpAddressVerdict::Leaked);
//! assert_eq!(judge_object(true, Parent::Uses, grace, grace), IpAddressVerdict::Keep);
//! ```

use std::time::Duration;

use crate::finding::Reason;

/// The value of the label `ipaddress.kubernetes.io/managed-by` on objects that the ClusterIP allocator creates.
pub const ALLOCATOR: &str = "ipallocator.k8s.io";

/// The fields of an IPAddress object that an audit reads, borrowed from the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpAddressObject<'a> {
    /// `metadata.name`: the address.
    pub name: &'a str,
    /// The label `ipaddress.kubernetes.io/managed-by`; empty if there is none.
    pub managed_by: &'a str,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// `metadata.resourceVersion`: the revision of its last write; 0 if unknown.
    pub revision: u64,
    /// Whether there is no `spec.parentRef`. An empty one is a reference to nothing, which servers remove.
    pub without_parent: bool,
    /// `spec.parentRef.group`.
    pub parent_group: &'a str,
    /// `spec.parentRef.resource`.
    pub parent_resource: &'a str,
    /// `spec.parentRef.namespace`.
    pub parent_namespace: &'a str,
    /// `spec.parentRef.name`.
    pub parent_name: &'a str,
}

impl<'a> IpAddressObject<'a> {
    /// Namespace and name of the Service that the object refers to; `None` if it refers to something else, or nothing.
    pub fn service(&self) -> Option<(&'a str, &'a str)> {
        let refers_to_service = self.parent_group.is_empty() && self.parent_resource == "services";
        refers_to_service.then_some((self.parent_namespace, self.parent_name))
    }
}

/// The Service that an IPAddress object refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// The object refers to something other than a Service, or to nothing.
    NoService,
    /// The Service does not exist.
    Missing,
    /// The Service exists and does not use the address.
    Other,
    /// The Service exists and uses the address.
    Uses,
}

/// What a repair does with an IPAddress object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpAddressVerdict {
    /// Keeps it.
    Keep,
    /// Keeps an unused object, for which a request may still write a Service, and judges it again after this time.
    Wait(Duration),
    /// Removes it, since it does not refer to a Service.
    ///
    /// If a Service uses the address, this and each other removal makes the object refer to that Service instead.
    NoService,
    /// Removes it, since its Service does not use the address.
    WrongReference,
    /// Removes it, since its Service does not exist.
    Leaked,
}

/// What a repair does about a Service's ClusterIP that lies in a ServiceCIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterIpVerdict {
    /// Nothing, since its object is right.
    Keep,
    /// Nothing yet: the Service gets its object once [`judge_object`] finds that no other Service can need it.
    Wait,
    /// Creates the missing object.
    Create,
    /// Corrects the labels of its object in place, without an Event.
    Reshape,
    /// Makes an object that does not refer to the Service its own, in place if the store allows that.
    Replace,
    /// Nothing, since another Service has the address: the owner of one of the two has to recreate it.
    Taken,
}

impl ClusterIpVerdict {
    /// The finding about the Service, if there is one.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Keep | Self::Wait | Self::Reshape => None,
            Self::Create | Self::Replace => Some(Reason::ClusterIpNotAllocated),
            Self::Taken => Some(Reason::ClusterIpAlreadyAllocated),
        }
    }
}

/// Judges an IPAddress object.
///
/// `managed`: whether the allocator created it, by its label. `unused_for`: the time, at least, for which no Service
/// has used it. `grace`: the longest time that a request can take.
pub fn judge_object(managed: bool, parent: Parent, unused_for: Duration, grace: Duration) -> IpAddressVerdict {
    match parent {
        // judge_cluster_ip judges the objects of other controllers, if a Service uses their address.
        _ if !managed => IpAddressVerdict::Keep,
        // The allocator never creates such an object.
        Parent::NoService => IpAddressVerdict::NoService,
        Parent::Uses => IpAddressVerdict::Keep,
        // A Service of that name with another address does not end the grace period: it can be deleted before the
        // request that created the object writes its own Service of that name.
        Parent::Other | Parent::Missing if unused_for < grace => IpAddressVerdict::Wait(grace - unused_for),
        Parent::Other => IpAddressVerdict::WrongReference,
        Parent::Missing => IpAddressVerdict::Leaked,
    }
}

/// The IPAddress object of an address that a Service uses, as [`judge_cluster_ip`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressObject {
    /// Whether the allocator created it, by its label.
    pub managed: bool,
    /// Whether its labels are those that the allocator sets.
    pub labelled: bool,
    /// Whether it refers to the Service.
    pub refers_here: bool,
    /// The Service that it refers to.
    pub parent: Parent,
}

/// Judges an address that a Service uses and that lies in a ServiceCIDR, by its IPAddress object, if there is one.
pub fn judge_cluster_ip(object: Option<AddressObject>) -> ClusterIpVerdict {
    let Some(object) = object else { return ClusterIpVerdict::Create };
    match object.parent {
        _ if object.refers_here && object.managed && object.labelled => ClusterIpVerdict::Keep,
        _ if object.refers_here => ClusterIpVerdict::Reshape,
        // If two Services have one address, the object stays with the one that it refers to. Else each repair would
        // move it.
        Parent::Uses => ClusterIpVerdict::Taken,
        Parent::Other if object.managed => ClusterIpVerdict::Wait,
        Parent::Other | Parent::Missing | Parent::NoService => ClusterIpVerdict::Replace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    #[test]
    fn only_unused_objects_of_the_allocator_go() {
        use IpAddressVerdict::{Keep, Leaked, NoService, Wait, WrongReference};
        for (parent, young, old) in [
            (Parent::NoService, NoService, NoService),
            (Parent::Missing, Wait(GRACE), Leaked),
            (Parent::Other, Wait(GRACE), WrongReference),
            (Parent::Uses, Keep, Keep),
        ] {
            assert_eq!(judge_object(true, parent, Duration::ZERO, GRACE), young, "{parent:?}");
            assert_eq!(judge_object(true, parent, GRACE, GRACE), old, "{parent:?}");
            assert_eq!(judge_object(false, parent, GRACE, GRACE), Keep, "{parent:?} of another controller");
        }
        assert_eq!(judge_object(true, Parent::Other, GRACE * 2 / 3, GRACE), Wait(GRACE / 3));
    }

    #[test]
    fn a_cluster_ip_has_an_object_that_refers_to_its_service() {
        use ClusterIpVerdict::{Create, Keep, Replace, Reshape, Taken, Wait};
        assert_eq!(judge_cluster_ip(None), Create);
        for (managed, labelled, refers_here, parent, verdict) in [
            (true, true, true, Parent::Uses, Keep),
            (true, false, true, Parent::Uses, Reshape),
            (false, true, true, Parent::Uses, Reshape),
            (true, true, false, Parent::Uses, Taken),
            (false, true, false, Parent::Uses, Taken),
            (true, true, false, Parent::Other, Wait),
            // judge_object keeps such an object, so nothing else replaces it.
            (false, true, false, Parent::Other, Replace),
            (true, true, false, Parent::Missing, Replace),
            (true, true, false, Parent::NoService, Replace),
        ] {
            let object = AddressObject { managed, labelled, refers_here, parent };
            assert_eq!(judge_cluster_ip(Some(object)), verdict, "{object:?}");
        }
    }
}
