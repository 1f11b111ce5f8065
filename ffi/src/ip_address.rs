//! What is to become of IPAddress objects, for those who repair them.

use std::time::Duration;

use rangekeeper_core::ipaddress::{
    AddressObject, ClusterIpVerdict, ObjectVerdict, Owner, judge_cluster_ip, judge_object,
};

use crate::guard::{Out, borrow_optional, guard};
use crate::result::rk_result;

/// An IPAddress object refers to something other than a Service, or to nothing.
pub const RK_OWNER_NO_SERVICE: u32 = 0;
/// An IPAddress object refers to a Service that does not exist.
pub const RK_OWNER_MISSING: u32 = 1;
/// An IPAddress object refers to a Service that does not use the address.
pub const RK_OWNER_OTHER: u32 = 2;
/// An IPAddress object refers to a Service that uses the address.
pub const RK_OWNER_USES: u32 = 3;

/// An IPAddress object stays.
pub const RK_IP_ADDRESS_KEEP: u32 = 0;
/// Nothing uses it, but a request may still be about to: it is to be judged again later.
pub const RK_IP_ADDRESS_WAIT: u32 = 1;
/// It is to be removed, since it does not refer to a Service.
pub const RK_IP_ADDRESS_NO_SERVICE: u32 = 2;
/// It is to be removed, since its Service does not use the address.
pub const RK_IP_ADDRESS_WRONG_REFERENCE: u32 = 3;
/// It is to be removed, since its Service does not exist.
pub const RK_IP_ADDRESS_LEAKED: u32 = 4;

/// The IPAddress object of a ClusterIP is right.
pub const RK_CLUSTER_IP_KEEP: u32 = 0;
/// Its object will be removed on its own; the Service gets another one then.
pub const RK_CLUSTER_IP_WAIT: u32 = 1;
/// It has no object, and is to get one.
pub const RK_CLUSTER_IP_CREATE: u32 = 2;
/// Its object has another shape than those of the allocator, and is to be replaced; no Event tells of it.
pub const RK_CLUSTER_IP_RESHAPE: u32 = 3;
/// Its object does not refer to its Service, and is to be replaced.
pub const RK_CLUSTER_IP_REPLACE: u32 = 4;
/// Another Service has it: an owner has to recreate one of the two.
pub const RK_CLUSTER_IP_TAKEN: u32 = 5;

/// The IPAddress object of an address that a Service uses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_address_object {
    /// Whether the allocator made it, by its label.
    pub managed: bool,
    /// Whether its labels are those that the allocator gives.
    pub labelled: bool,
    /// Whether it refers to the Service that is looked at.
    pub refers_here: bool,
    /// If not, one of RK_OWNER_*: the Service that it refers to.
    pub owner: u32,
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

/// Judges an IPAddress object: *verdict is one of RK_IP_ADDRESS_*. managed says whether the allocator made it, by its
/// label, owner is one of RK_OWNER_*. unused_for is for how long at least nothing has used it, grace the longest time that
/// a request can take, both in nanoseconds. With RK_IP_ADDRESS_WAIT, *wait tells after how many nanoseconds it is to be
/// judged again; else it is 0.
///
/// RK_RESULT_INVALID_ARGUMENT, RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_address_judge(
    managed: bool,
    owner: u32,
    unused_for: u64,
    grace: u64,
    verdict: *mut u32,
    wait: *mut u64,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (verdict_out, wait_out) = unsafe { (Out::new(verdict)?, Out::new(wait)?) };
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

/// Judges an address that a Service uses and a ServiceCIDR hands out, by its IPAddress object, NULL if there is none:
/// *verdict is one of RK_CLUSTER_IP_*.
///
/// RK_RESULT_INVALID_ARGUMENT, RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_cluster_ip_judge(object: *const rk_address_object, verdict: *mut u32) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (object, out) = unsafe { (borrow_optional(object)?, Out::new(verdict)?) };
        let object = match object {
            None => None,
            Some(&rk_address_object { managed, labelled, refers_here, owner }) => {
                Some(AddressObject { managed, labelled, refers_here, owner: owner_of(owner)? })
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
