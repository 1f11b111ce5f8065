//! The audit of IPAddress objects, and its outcome.

use std::ffi::c_char;
use std::net::IpAddr;

use rangekeeper_core::any::AnyValue;
use rangekeeper_core::ipaddress::{IpAddressAudit, IpAddressOutcome};
use rangekeeper_core::service_cidr::ServiceCidr;

use crate::error::{Failure, rk_error};
use crate::finding::{at, findings_page, messages, rk_cell, rk_finding, rk_offset_state};
use crate::guard::{Array, Buffer, Out, borrow, guard, guard_error, guard_or, reclaim, text};
use crate::handle::Handle;
use crate::result::rk_result;
use crate::services::{Services, ip_addresses, rk_ip_addresses, rk_service_names, rk_services, service_names};
use crate::value::rk_value;

/// An audit of ServiceCIDR and IPAddress objects, under way. May be used from several threads at once.
pub struct rk_ip_audit(Handle<IpAddressAudit>);

/// What an audit found out. Never changes. May be used from several threads at once.
pub struct rk_ip_outcome(Handle<IpAddressOutcome>);

/// An IPAddress object of the allocator whose Service does not exist.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_leak {
    /// The address.
    pub value: rk_value,
    /// The first CIDR that holds it: its place in the order in which they were added.
    pub range: u32,
    /// Which IPAddress object, by its place among those that were observed: 0 is the first.
    pub object: u64,
}

/// Numbers about one CIDR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_cidr_counts {
    /// How many addresses can be allocated; at most UINT64_MAX.
    pub size: u64,
    /// How many of them have an IPAddress object.
    pub used: u64,
    /// How many have none.
    pub free: u64,
    /// How many of the lowest ones form the static band.
    pub static_band: u32,
}

/// Begins an audit without objects.
///
/// With has_now, now is the time in seconds since 1970, and an IPAddress object that is at most 60 s old may still
/// wait for its Service. Without, now has no meaning and nothing may wait: for data that nobody works on any more.
/// The caller owns *audit and frees it with rk_ip_audit_free. RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_new(has_now: bool, now: i64, audit: *mut *mut rk_ip_audit) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(audit)? };
        out.give(rk_ip_audit(Handle::new(IpAddressAudit::new(has_now.then_some(now)))));
        Ok(())
    })
}

/// Frees an audit. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_free(audit: *mut rk_ip_audit) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(audit) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED. The handle must still be freed. To close twice
/// is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_close(audit: *const rk_ip_audit) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let audit = unsafe { borrow(audit)? };
        audit.0.close();
        Ok(())
    })
}

/// Adds one CIDR of a ServiceCIDR object. CIDRs count from 0 in the order in which they are added.
///
/// RK_RESULT_INVALID_RANGE with a message in error, RK_RESULT_INVALID_UTF8, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED,
/// RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_add_cidr(
    audit: *const rk_ip_audit,
    cidr: *const c_char,
    cidr_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, || {
            let (audit, cidr) = (borrow(audit)?, text(cidr, cidr_len)?);
            let cidr = ServiceCidr::parse(cidr).map_err(|error| Failure::new(rk_result::InvalidRange, error))?;
            audit.0.with(|audit| {
                audit.add_cidr(cidr);
                Ok(())
            })
        })
    }
}

/// Takes note of a batch of IPAddress objects.
///
/// RK_RESULT_INVALID_BATCH, RK_RESULT_INVALID_UTF8 (nothing of the batch counts then), RK_RESULT_NULL_POINTER,
/// RK_RESULT_INVALID_ARGUMENT, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_observe_ip_addresses(
    audit: *const rk_ip_audit,
    batch: *const rk_ip_addresses,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (audit, objects) = unsafe { (borrow(audit)?, ip_addresses(batch)?) };
        audit.0.with(|audit| {
            for object in &objects {
                audit.observe_ip_address(object);
            }
            Ok(())
        })
    })
}

/// Takes note of a batch of Services, with their names.
///
/// RK_RESULT_INVALID_BATCH (also if there are not as many names as Services), RK_RESULT_INVALID_UTF8 (nothing of the
/// batch counts then), RK_RESULT_NULL_POINTER, RK_RESULT_INVALID_ARGUMENT, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_observe_services(
    audit: *const rk_ip_audit,
    names: *const rk_service_names,
    batch: *const rk_services,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (audit, names, services) = unsafe { (borrow(audit)?, service_names(names)?, Services::new(batch)?) };
        if names.len() != services.count {
            return Err(rk_result::InvalidBatch);
        }
        audit.0.with(|audit| {
            let mut names = names.into_iter();
            services.for_each(|service| {
                if let Some((namespace, name)) = names.next() {
                    audit.observe_service(namespace, name, service);
                }
            })
        })
    })
}

/// Ends the audit.
///
/// The caller owns *outcome and frees it with rk_ip_outcome_free; the audit is closed, and must still be freed.
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_audit_finish(audit: *const rk_ip_audit, outcome: *mut *mut rk_ip_outcome) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (audit, out) = unsafe { (borrow(audit)?, Out::new(outcome)?) };
        let outcome = audit.0.finish(|audit| Ok(audit.finish()))?;
        out.give(rk_ip_outcome(Handle::new(outcome)));
        Ok(())
    })
}

/// Frees an outcome. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_free(outcome: *mut rk_ip_outcome) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(outcome) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED. The handle must still be freed. To close twice
/// is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_close(outcome: *const rk_ip_outcome) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let outcome = unsafe { borrow(outcome)? };
        outcome.0.close();
        Ok(())
    })
}

/// Writes findings, those about Services in their order and then those about IPAddress objects in theirs, from place
/// from on: as many as there are, at most capacity. *n tells how many; fewer than capacity means the end.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_findings(
    outcome: *const rk_ip_outcome,
    from: usize,
    findings: *mut rk_finding,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, findings, n) = unsafe { (borrow(outcome)?, Array::new(findings, capacity)?, Out::new(n)?) };
        outcome.0.with(|outcome| {
            n.write(findings_page(&outcome.findings, from, findings));
            Ok(())
        })
    })
}

/// Writes the value that a finding is about as text, whatever it is; without a NUL, buffer by the rule for buffers.
///
/// RK_RESULT_INVALID_ARGUMENT if there is no finding at place index, RK_RESULT_BUFFER_TOO_SMALL,
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_finding_text(
    outcome: *const rk_ip_outcome,
    index: usize,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, buffer) = unsafe { (borrow(outcome)?, Buffer::new(buffer, capacity, len)?) };
        outcome.0.with(|outcome| buffer.write_text(&at(&outcome.findings, index)?.value.to_string()))
    })
}

/// Writes what findings say to people, from the one at place `from` on, back to back and without a NUL: at most n of
/// them, and as many as fit whole. The text of the i-th ends at byte ends[i] of buffer, where the next one begins;
/// *written tells how many there are, 0 past the end of the findings.
///
/// RK_RESULT_BUFFER_TOO_SMALL if not even one fits, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_finding_messages(
    outcome: *const rk_ip_outcome,
    from: usize,
    buffer: *mut c_char,
    capacity: usize,
    ends: *mut usize,
    n: usize,
    written: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, buffer, ends, out) =
            unsafe { (borrow(outcome)?, Array::new(buffer, capacity)?, Array::new(ends, n)?, Out::new(written)?) };
        outcome.0.with(|outcome| {
            out.write(messages(&outcome.findings, from, buffer, ends)?);
            Ok(())
        })
    })
}

/// Tells how many Services were observed.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_services(outcome: *const rk_ip_outcome, services: *mut u64) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(services)?) };
        outcome.0.with(|outcome| {
            out.write(outcome.services);
            Ok(())
        })
    })
}

/// Writes the leaks, in the order of the IPAddress objects, from place from on: as many as there are, at most
/// capacity. *n tells how many; fewer than capacity means the end.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_leaks(
    outcome: *const rk_ip_outcome,
    from: usize,
    leaks: *mut rk_leak,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, leaks, n) = unsafe { (borrow(outcome)?, Array::new(leaks, capacity)?, Out::new(n)?) };
        outcome.0.with(|outcome| {
            let all = outcome.leaks.iter().skip(from);
            n.write(leaks.fill(all.map(|leak| rk_leak {
                value: leak.address.into(),
                range: leak.range as u32,
                object: leak.object,
            })));
            Ok(())
        })
    })
}

/// Tells numbers about the CIDR at place cidr.
///
/// RK_RESULT_INVALID_ARGUMENT if there is none, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_cidr(
    outcome: *const rk_ip_outcome,
    cidr: usize,
    counts: *mut rk_cidr_counts,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(counts)?) };
        outcome.0.with(|outcome| {
            let found = at(&outcome.cidrs, cidr)?;
            out.write(rk_cidr_counts {
                size: found.cidr().size(),
                used: found.used(),
                free: found.free(),
                static_band: found.cidr().static_band(),
            });
            Ok(())
        })
    })
}

/// Tells everything about one address of the CIDR at place cidr; next tells the state after the API server's own
/// repair.
///
/// RK_RESULT_NOT_IN_RANGE if the CIDR does not hand it out, RK_RESULT_INVALID_ARGUMENT for an unknown CIDR or if it is
/// no value, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_state(
    outcome: *const rk_ip_outcome,
    cidr: usize,
    value: rk_value,
    state: *mut rk_offset_state,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(state)?) };
        outcome.0.with(|outcome| {
            let found = at(&outcome.cidrs, cidr)?;
            let address: Option<IpAddr> = match value.try_into()? {
                AnyValue::Address(address) => Some(address),
                AnyValue::Port(_) | AnyValue::Uids(_) => None,
            };
            let state = address.and_then(|address| found.state_of(address)).ok_or(rk_result::NotInRange)?;
            out.write(state.into());
            Ok(())
        })
    })
}

/// Cuts the CIDR at place cidr into at most count cells of equal length (the last may be shorter) and writes what is
/// in each. *n tells how many there are; a CIDR of size 0 has none.
///
/// RK_RESULT_BUFFER_TOO_SMALL with the number needed in *n, RK_RESULT_INVALID_ARGUMENT for an unknown CIDR,
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ip_outcome_occupancy(
    outcome: *const rk_ip_outcome,
    cidr: usize,
    count: u32,
    cells: *mut rk_cell,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Buffer::new(cells, capacity, n)?) };
        outcome.0.with(|outcome| {
            let cells: Vec<rk_cell> = at(&outcome.cidrs, cidr)?.occupancy(count).iter().map(rk_cell::from).collect();
            out.write(&cells)
        })
    })
}
