//! What is to become of IPAddress objects, for those who repair them.

use std::time::Duration;

use rangekeeper_core::ipaddress::{
    AddressObject, ClusterIpVerdict, ObjectVerdict, Owner, judge_cluster_ip, judge_object,
};

use crate::guard::guard;
use crate::result::rk_result;
use crate::scope::{Out, borrow_optional};

/// An IPAddress object refers to something other than a Service, or to nothing.
pub const RK_OWNER_NO_SERVICE: u32 = 0;
/// An IPAddress object refers to a Service that does not exist.
pub const RK_OWNER_MISSING: u32 = 1;
/// An IPAddress object refers to a Service that does not use the address.
pub const RK_OWNER_OTHER: u32 = 2;
/// An IPAddress object refers to a Service that uses the address.
pub const RK_OWNER_USES: u32 = 3;

/// As the owner in an rk_address_object: the IPAddress object refers to the Service that is judged.
pub const RK_OWNER_SELF: u32 = 4;

/// Keep the IPAddress object.
pub const RK_IP_ADDRESS_KEEP: u32 = 0;
/// Nothing uses the address, but a pending request may still come to use it: judge the object again later.
pub const RK_IP_ADDRESS_WAIT: u32 = 1;
/// Remove the object: it does not refer to a Service.
pub const RK_IP_ADDRESS_NO_SERVICE: u32 = 2;
/// Remove the object: its Service does not use the address.
pub const RK_IP_ADDRESS_WRONG_REFERENCE: u32 = 3;
/// Remove the object: its Service does not exist.
pub const RK_IP_ADDRESS_LEAKED: u32 = 4;

/// The IPAddress object of the ClusterIP is right.
pub const RK_CLUSTER_IP_KEEP: u32 = 0;
/// Its object will be removed as wrong; create the right one after that.
pub const RK_CLUSTER_IP_WAIT: u32 = 1;
/// It has no object: create one.
pub const RK_CLUSTER_IP_CREATE: u32 = 2;
/// Its object differs in form from the allocator's: replace it, without an Event.
pub const RK_CLUSTER_IP_RESHAPE: u32 = 3;
/// Its object does not refer to its Service: replace it.
pub const RK_CLUSTER_IP_REPLACE: u32 = 4;
/// Another Service owns it: an owner has to recreate one of the two.
pub const RK_CLUSTER_IP_TAKEN: u32 = 5;

/// The IPAddress object of an address that a Service uses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_address_object {
    /// Whether its label says that the allocator manages it.
    pub managed: bool,
    /// Whether its labels are those that the allocator sets.
    pub labelled: bool,
    /// One of RK_OWNER_*: the object that it refers to.
    pub owner: u32,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

fn owner_of(owner: u32) -> Result<Owner, rk_result> {
    Ok(match owner {
        RK_OWNER_NO_SERVICE => Owner::NoService,
        RK_OWNER_MISSING => Owner::Missing,
        RK_OWNER_OTHER => Owner::Other,
        RK_OWNER_USES => Owner::Uses,
        _ => return Err(rk_result::InvalidArgument),
    })
}

/// Judges an IPAddress object: `*verdict` is one of RK_IP_ADDRESS_*. `managed` is whether its label says that the
/// allocator manages it; `owner` is one of RK_OWNER_* except RK_OWNER_SELF. `unused_for` is how long at least
/// nothing has used the address, `grace` the longest time that a request can take, both in nanoseconds. With
/// RK_IP_ADDRESS_WAIT, `*wait` is the number of nanoseconds after which to judge again; otherwise it is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_address_judge(
    managed: bool,
    owner: u32,
    unused_for: u64,
    grace: u64,
    verdict: *mut u32,
    wait: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (verdict_out, wait_out) = unsafe { (Out::new(scope, verdict)?, Out::new(scope, wait)?) };
        let [unused_for, grace] = [unused_for, grace].map(Duration::from_nanos);
        let (verdict, wait) = match judge_object(managed, owner_of(owner)?, unused_for, grace) {
            ObjectVerdict::Keep => (RK_IP_ADDRESS_KEEP, Duration::ZERO),
            ObjectVerdict::Wait(wait) => (RK_IP_ADDRESS_WAIT, wait),
            ObjectVerdict::NoService => (RK_IP_ADDRESS_NO_SERVICE, Duration::ZERO),
            ObjectVerdict::WrongReference => (RK_IP_ADDRESS_WRONG_REFERENCE, Duration::ZERO),
            ObjectVerdict::Leaked => (RK_IP_ADDRESS_LEAKED, Duration::ZERO),
        };
        verdict_out.write(verdict);
        // Not longer than the grace, which came as such a number.
        wait_out.write(wait.as_nanos() as u64);
        Ok(())
    })
}

/// Judges an address that a Service uses and a ServiceCIDR contains, by its IPAddress object `object`, NULL if
/// there is none: `*verdict` is one of RK_CLUSTER_IP_*.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_cluster_ip_judge(object: *const rk_address_object, verdict: *mut u32) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (object, out) = unsafe { (borrow_optional(scope, object)?, Out::new(scope, verdict)?) };
        let object = match object {
            None => None,
            Some(&rk_address_object { managed, labelled, owner, .. }) => {
                let refers_here = owner == RK_OWNER_SELF;
                let owner = if refers_here { Owner::Uses } else { owner_of(owner)? };
                Some(AddressObject { managed, labelled, refers_here, owner })
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
