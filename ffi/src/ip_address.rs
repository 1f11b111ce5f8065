//! What is to become of IPAddress objects, for those who repair them.

use std::time::Duration;

use rangekeeper_core::ipaddress::{
    AddressObject, ClusterIpVerdict, IpAddressVerdict, Parent, judge_cluster_ip, judge_object,
};

use crate::guard::guard;
use crate::result::rk_result;
use crate::scope::{Out, borrow_optional};

/// The object that an IPAddress object refers to.
pub type rk_parent = u32;
/// An IPAddress object refers to something other than a Service, or to nothing.
pub const RK_PARENT_NO_SERVICE: rk_parent = 0;
/// An IPAddress object refers to a Service that does not exist.
pub const RK_PARENT_MISSING: rk_parent = 1;
/// An IPAddress object refers to a Service that does not use the address.
pub const RK_PARENT_OTHER: rk_parent = 2;
/// An IPAddress object refers to a Service that uses the address.
pub const RK_PARENT_USES: rk_parent = 3;

/// As the parent in an rk_address_object: the IPAddress object refers to the Service that is judged.
pub const RK_PARENT_SELF: rk_parent = 4;

/// What is to become of an IPAddress object.
pub type rk_ip_address_verdict = u32;
/// Keep the IPAddress object.
pub const RK_IP_ADDRESS_KEEP: rk_ip_address_verdict = 0;
/// Nothing uses the address, but a pending request may still come to use it: judge the object again later.
pub const RK_IP_ADDRESS_WAIT: rk_ip_address_verdict = 1;
/// Remove the object: it does not refer to a Service.
pub const RK_IP_ADDRESS_NO_SERVICE: rk_ip_address_verdict = 2;
/// Remove the object: its Service does not use the address.
pub const RK_IP_ADDRESS_WRONG_REFERENCE: rk_ip_address_verdict = 3;
/// Remove the object: its Service does not exist.
pub const RK_IP_ADDRESS_LEAKED: rk_ip_address_verdict = 4;

/// What is to become of the IPAddress object of a ClusterIP.
pub type rk_cluster_ip_verdict = u32;
/// The IPAddress object of the ClusterIP is right.
pub const RK_CLUSTER_IP_KEEP: rk_cluster_ip_verdict = 0;
/// Its object refers to another Service, which may need it: wait for the verdict on the object.
pub const RK_CLUSTER_IP_WAIT: rk_cluster_ip_verdict = 1;
/// It has no object: create one.
pub const RK_CLUSTER_IP_CREATE: rk_cluster_ip_verdict = 2;
/// Its object lacks labels of the allocator: set them in place, without an Event.
pub const RK_CLUSTER_IP_RESHAPE: rk_cluster_ip_verdict = 3;
/// Its object does not refer to its Service: make it do so, in place if the store allows that.
pub const RK_CLUSTER_IP_REPLACE: rk_cluster_ip_verdict = 4;
/// Another Service has the address: the owner of one of the two has to recreate it.
pub const RK_CLUSTER_IP_TAKEN: rk_cluster_ip_verdict = 5;

/// The IPAddress object of an address that a Service uses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_address_object {
    /// Whether its label says that the allocator manages it.
    pub managed: bool,
    /// Whether its labels are those that the allocator sets.
    pub labelled: bool,
    /// The object that it refers to.
    pub parent: rk_parent,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

fn parent_of(parent: rk_parent) -> Result<Parent, rk_result> {
    Ok(match parent {
        RK_PARENT_NO_SERVICE => Parent::NoService,
        RK_PARENT_MISSING => Parent::Missing,
        RK_PARENT_OTHER => Parent::Other,
        RK_PARENT_USES => Parent::Uses,
        _ => return Err(rk_result::InvalidArgument),
    })
}

/// Judges an IPAddress object. `managed` is whether its label says that the
/// allocator manages it; `parent` is the object that it refers to, and not RK_PARENT_SELF. `unused_for` is how long at
/// least nothing has used the address, `grace` the longest time that a request can take, both in nanoseconds. With
/// RK_IP_ADDRESS_WAIT, `*wait` is the number of nanoseconds after which to judge again; otherwise it is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_address_judge(
    managed: bool,
    parent: rk_parent,
    unused_for: u64,
    grace: u64,
    verdict: *mut rk_ip_address_verdict,
    wait: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (verdict_out, wait_out) = unsafe { (Out::new(scope, verdict)?, Out::new(scope, wait)?) };
        let [unused_for, grace] = [unused_for, grace].map(Duration::from_nanos);
        let (verdict, wait) = match judge_object(managed, parent_of(parent)?, unused_for, grace) {
            IpAddressVerdict::Keep => (RK_IP_ADDRESS_KEEP, Duration::ZERO),
            IpAddressVerdict::Wait(wait) => (RK_IP_ADDRESS_WAIT, wait),
            IpAddressVerdict::NoService => (RK_IP_ADDRESS_NO_SERVICE, Duration::ZERO),
            IpAddressVerdict::WrongReference => (RK_IP_ADDRESS_WRONG_REFERENCE, Duration::ZERO),
            IpAddressVerdict::Leaked => (RK_IP_ADDRESS_LEAKED, Duration::ZERO),
        };
        verdict_out.write(verdict);
        // Not longer than the grace, which came as such a number.
        wait_out.write(wait.as_nanos() as u64);
        Ok(())
    })
}

/// Judges an address that a Service uses and a ServiceCIDR contains, by its IPAddress object `object`, NULL if
/// there is none.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_cluster_ip_judge(
    object: *const rk_address_object,
    verdict: *mut rk_cluster_ip_verdict,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (object, out) = unsafe { (borrow_optional(scope, object)?, Out::new(scope, verdict)?) };
        let object = match object {
            None => None,
            Some(&rk_address_object { managed, labelled, parent, .. }) => {
                let refers_here = parent == RK_PARENT_SELF;
                let parent = if refers_here { Parent::Uses } else { parent_of(parent)? };
                Some(AddressObject { managed, labelled, refers_here, parent })
            }
        };
        out.write(match judge_cluster_ip(object) {
            ClusterIpVerdict::Keep => RK_CLUSTER_IP_KEEP,
            ClusterIpVerdict::Wait => RK_CLUSTER_IP_WAIT,
            ClusterIpVerdict::Create => RK_CLUSTER_IP_CREATE,
            ClusterIpVerdict::Reshape => RK_CLUSTER_IP_RESHAPE,
            ClusterIpVerdict::Replace => RK_CLUSTER_IP_REPLACE,
            ClusterIpVerdict::Taken => RK_CLUSTER_IP_TAKEN,
        });
        Ok(())
    })
}
