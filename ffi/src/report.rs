//! The result of an audit.

use std::cell::OnceCell;
use std::ffi::c_char;

use rangekeeper_core::any::AnyValue;
use rangekeeper_core::audit::{Leak, Offsets, RangeReport, RecordRepairError, RepairOutcome, Report, Values};
use rangekeeper_core::finding::Severity;
use rangekeeper_core::service::{ServiceForm, ServiceType};

use crate::error::{Failure, Named, rk_error};
use crate::finding::{
    RK_NO_RANGE, at, findings_page, remedy_number, rk_cell, rk_finding, rk_offset_state, rk_remedy, rk_severity,
    severity_number, texts,
};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::result::rk_result;
use crate::scope::{Array, Buffer, Out, borrow, reclaim, slice};
use crate::services::{Services, rk_service_names, rk_services, service_names};
use crate::value::{Value, rk_value, values_of};

/// The sets of values that a report has for each bitmap.
pub type rk_values = u32;
/// Values that the repair allocates.
pub const RK_VALUES_SET: rk_values = 1301;
/// Values that the repair releases.
pub const RK_VALUES_CLEAR: rk_values = 1302;
/// Values recorded as allocated that no Service uses, whether this repair releases them or not.
pub const RK_VALUES_LEAKED: rk_values = 1303;
/// Values that more than one Service claims.
pub const RK_VALUES_DUPLICATES: rk_values = 1304;
/// Values that were recorded as allocated before the audit.
pub const RK_VALUES_STORED: rk_values = 1305;
/// Values that Services use.
pub const RK_VALUES_IN_USE: rk_values = 1306;
/// Values that are allocated after the repair.
pub const RK_VALUES_NEXT: rk_values = 1307;

/// As the object of a leak: a bitmap records the value. As that of a repair: there is none.
pub const RK_NO_OBJECT: u64 = 0xffff_ffff_ffff_ffff;

/// How allocations from a range are recorded.
pub type rk_record = u32;
/// A range that is stored as a bitmap.
pub const RK_RECORD_BITMAP: rk_record = 0;
/// A bitmap of ClusterIPs that is left over, since ClusterIPs are IPAddress objects: it was only counted, and all of
/// it is taken as in use.
pub const RK_RECORD_STALE: rk_record = 1;
/// A CIDR of a ServiceCIDR object, whose values are IPAddress objects.
pub const RK_RECORD_IP_ADDRESSES: rk_record = 2;
/// A range whose bitmap could not be read: values that Services use count as recorded.
pub const RK_RECORD_UNSEEN: rk_record = 3;

/// How the repair of a range ended.
pub type rk_repair_outcome = u32;
/// All that was due was tried. The finding is dropped: its Service came after the range was read.
pub const RK_REPAIR_DONE: rk_repair_outcome = 0;
/// Somebody chose of what was due. The finding stays.
pub const RK_REPAIR_CHOSEN: rk_repair_outcome = 1;
/// The repair has failed, and nothing is known to have been set or cleared. The finding is left.
pub const RK_REPAIR_FAILED: rk_repair_outcome = 2;

/// The result of an audit. Only rk_report_record_repair, rk_report_observe_claimants and
/// rk_report_find_full_ranges change it.
pub struct rk_report(Handle<Found>);

struct Found {
    report: Report,
    /// Made only if they are asked for.
    leaks: OnceCell<Vec<Leak>>,
    sets: Vec<[OnceCell<Offsets<'static>>; 7]>,
}

impl From<RecordRepairError> for Failure {
    fn from(error: RecordRepairError) -> Self {
        let result = match error {
            RecordRepairError::NotInRange { .. } => rk_result::NotInRange,
            _ => rk_result::InvalidArgument,
        };
        Self::new(result, error)
    }
}

/// A value that is recorded as allocated though no Service uses it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_leak {
    /// The value.
    pub value: rk_value,
    /// The first range that has it, by the order in which ranges were added. For an address that none has, the first
    /// range of its family; RK_NO_RANGE if there is no range of addresses.
    pub range: u32,
    /// The IPAddress object that records it, by the order in which objects were observed; RK_NO_OBJECT if a bitmap
    /// records it.
    pub object: u64,
    /// RK_REMEDY_REPAIR or RK_REMEDY_API_SERVER: who frees it, if it does not stay.
    pub remedy: rk_remedy,
    /// RK_SEVERITY_WASTED.
    pub severity: rk_severity,
    /// Whether the repair leaves it for now, since a Service that uses it may still be under way.
    pub stays: bool,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// A Service that claims a value that is claimed more than once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_claimant {
    /// Which Service, by its place among those that were observed: 0 is the first.
    pub service: u64,
    /// Whether it keeps the value, as rk_report_observe_claimants says.
    pub keeps: bool,
    /// Whether only the names decide that it keeps the value, or that another one does: it may as well be the other way
    /// round.
    pub tied: bool,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// A write of the API server's repair of IPAddress objects.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_object_repair {
    /// The address.
    pub address: rk_value,
    /// The IPAddress object that is removed or replaced, by the order in which objects were observed; RK_NO_OBJECT if
    /// there is none.
    pub removed: u64,
    /// The Service for which an object is created, by the order in which Services were observed; RK_NO_OBJECT if none
    /// is.
    pub service: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// A run of adjacent values, from first to last: kind and high are the same, and low grows by one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_run {
    /// First value.
    pub first: rk_value,
    /// Last value, included.
    pub last: rk_value,
    /// How many values: at least 1.
    pub len: u64,
}

/// Counts of one range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_range_report {
    /// How allocations from it are recorded.
    pub record: rk_record,
    /// How many of the lowest values form the static band.
    pub static_band: u32,
    /// How many values it has; at most UINT64_MAX.
    pub size: u64,
    /// Values that were recorded as allocated before the audit, without those in dropped.
    pub stored: u64,
    /// Values that Services use.
    pub in_use: u64,
    /// Values recorded as allocated that no Service uses.
    pub leaked: u64,
    /// Values that are allocated after the repair.
    pub next: u64,
    /// Values that the repair allocates.
    pub set: u64,
    /// Values that the repair frees.
    pub clear: u64,
    /// Values that more than one Service claims.
    pub duplicates: u64,
    /// Values recorded as allocated that the configured range does not have: not 0 only after a change of the range.
    pub dropped: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

impl rk_report {
    pub(crate) fn new(report: Report) -> Self {
        let sets = report.ranges.iter().map(|_| Default::default()).collect();
        Self(Handle::new(Found { report, leaks: OnceCell::new(), sets }))
    }
}

impl Found {
    fn range(&self, index: usize) -> Result<&RangeReport, rk_result> {
        at(&self.report.ranges, index)
    }

    fn offsets(&self, index: usize, values: rk_values) -> Result<&Offsets<'static>, rk_result> {
        let (place, values) = match values {
            RK_VALUES_SET => (0, Values::Set),
            RK_VALUES_CLEAR => (1, Values::Clear),
            RK_VALUES_LEAKED => (2, Values::Leaked),
            RK_VALUES_DUPLICATES => (3, Values::Duplicates),
            RK_VALUES_STORED => (4, Values::Stored),
            RK_VALUES_IN_USE => (5, Values::InUse),
            RK_VALUES_NEXT => (6, Values::Next),
            _ => return Err(rk_result::InvalidArgument),
        };
        let (range, sets) = (self.range(index)?, at(&self.sets, index)?);
        Ok(at(sets, place)?.get_or_init(|| range.offsets(values).into_owned()))
    }
}

pub(crate) fn any_values(parameter: &str, values: &[rk_value]) -> Result<Vec<AnyValue>, Failure> {
    let any = |(index, value): (usize, Value)| {
        let none = || format!("value {index} of {parameter} is none, which no range has");
        value.any().ok_or_else(|| Failure::new(rk_result::NotInRange, none()))
    };
    values_of(parameter, values)?.into_iter().enumerate().map(any).collect()
}

fn rk_leak_of(leak: &Leak) -> rk_leak {
    rk_leak {
        value: leak.value.into(),
        range: leak.range.map_or(RK_NO_RANGE, |range| range as u32),
        object: leak.object.unwrap_or(RK_NO_OBJECT),
        remedy: remedy_number(leak.remedy()),
        severity: severity_number(Severity::LEAK),
        stays: leak.stays,
        reserved: [0; 2],
    }
}

/// Destroys a report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_free(report: *mut rk_report) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(report) }))
}

/// Records the outcome of the repair of the bitmap at place `range`: `set` and `cleared` are the values that were set
/// and cleared, as in rk_repaired. From then on RK_VALUES_SET and _CLEAR are these values, RK_VALUES_NEXT those that
/// were read and not cleared, or were set; the other leaks stay. `outcome` determines what becomes of a
/// finding whose remedy is to set the value, and whose value was not set.
///
/// RK_RESULT_INVALID_ARGUMENT if the range is not a bitmap that was compared with the Services, or RK_REPAIR_FAILED has
/// values; RK_RESULT_NOT_IN_RANGE. The report stays as it was then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_record_repair(
    report: *mut rk_report,
    range: usize,
    outcome: rk_repair_outcome,
    set: *const rk_value,
    set_len: usize,
    cleared: *const rk_value,
    cleared_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let report = borrow(scope, report).named("report")?;
            let set = any_values("set", slice(scope, set, set_len).named("set")?)?;
            let cleared = any_values("cleared", slice(scope, cleared, cleared_len).named("cleared")?)?;
            let (set, cleared) = (&set[..], &cleared[..]);
            let outcome = match outcome {
                RK_REPAIR_DONE => RepairOutcome::Done { set, cleared },
                RK_REPAIR_CHOSEN => RepairOutcome::Chosen { set, cleared },
                RK_REPAIR_FAILED if set.len() + cleared.len() == 0 => RepairOutcome::Failed,
                RK_REPAIR_FAILED => {
                    let message = "outcome is RK_REPAIR_FAILED, and set or cleared is not empty";
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
                _ => {
                    let message = format_args!("outcome {outcome} is none of RK_REPAIR_*");
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
            };
            report.0.with(|found| {
                found.report.record_repair(range, outcome)?;
                found.leaks.take();
                found.sets[range] = Default::default();
                Ok(())
            })
        })
    }
}

/// Writes how many Services were observed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_services(report: *const rk_report, services: *mut u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, out) = unsafe { (borrow(scope, report)?, Out::new(scope, services)?) };
        report.0.with(|found| {
            out.write(found.report.services);
            Ok(())
        })
    })
}

/// Writes a page of findings, those about Services first, each kind in the order of observation.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_findings(
    report: *const rk_report,
    from: usize,
    findings: *mut rk_finding,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, findings, n) =
            unsafe { (borrow(scope, report)?, Array::new(scope, findings, capacity)?, Out::new(scope, n)?) };
        report.0.with(|found| {
            n.write(findings_page(&found.report, from, findings));
            Ok(())
        })
    })
}

/// Writes the texts of findings from the one at place `from` on, back to back: for each the value that it is about,
/// and its message. Writes at most `n` findings, and only whole ones. The value of the i-th finding ends at byte
/// ends[2 * i] of `buffer`, where its message begins; the message ends at byte ends[2 * i + 1]. So `ends` has room
/// for 2 * n. `*written` is the number of findings, 0 past their end.
///
/// RK_RESULT_BUFFER_TOO_SMALL if not even one fits; no length is written then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_finding_texts(
    report: *const rk_report,
    from: usize,
    buffer: *mut c_char,
    capacity: usize,
    ends: *mut usize,
    n: usize,
    written: *mut usize,
) -> rk_result {
    guard(|scope| {
        let ends_len = n.checked_mul(2).ok_or(rk_result::InvalidArgument)?;
        // SAFETY: the caller's promise; see guard.
        let (report, buffer, ends, out) = unsafe {
            (
                borrow(scope, report)?,
                Array::new(scope, buffer, capacity)?,
                Array::new(scope, ends, ends_len)?,
                Out::new(scope, written)?,
            )
        };
        report.0.with(|found| {
            out.write(texts(&found.report.findings, from, buffer, ends)?);
            Ok(())
        })
    })
}

/// Adds a finding for each range without a free value, and for each of which less than `percent` of a hundred is free:
/// free is what is neither recorded nor in use. The CIDRs of ServiceCIDR objects of one IP family count as one range,
/// as servers allocate from all of them; the finding is about the first, and its value names all. Of a range whose
/// bitmap could not be read, more may be in use. Stale bitmaps, and those beside IPAddress objects, have none. A second
/// call replaces the findings of the first.
///
/// RK_RESULT_INVALID_ARGUMENT if percent is above 100.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_find_full_ranges(report: *mut rk_report, percent: u8) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let report = unsafe { borrow(scope, report)? };
        if percent > 100 {
            return Err(rk_result::InvalidArgument);
        }
        report.0.with(|found| {
            found.report.find_full_ranges(percent);
            Ok(())
        })
    })
}

/// The form of a Service: which values it should have, and whether it has them, as a sum of RK_SERVICE_FORM_*. One of
/// type ClusterIP with an address in spec.clusterIP is RK_SERVICE_FORM_ONE_ADDRESS alone.
pub type rk_service_form = u32;
/// spec.type is NodePort.
pub const RK_SERVICE_FORM_NODE_PORT: rk_service_form = 1;
/// spec.type is LoadBalancer.
pub const RK_SERVICE_FORM_LOAD_BALANCER: rk_service_form = 2;
/// spec.type is ExternalName.
pub const RK_SERVICE_FORM_EXTERNAL_NAME: rk_service_form = 4;
/// spec.clusterIP is None.
pub const RK_SERVICE_FORM_HEADLESS: rk_service_form = 8;
/// It has one ClusterIP.
pub const RK_SERVICE_FORM_ONE_ADDRESS: rk_service_form = 16;
/// It has two ClusterIPs, or more.
pub const RK_SERVICE_FORM_TWO_ADDRESSES: rk_service_form = 32;
/// spec.ipFamilyPolicy is RequireDualStack.
pub const RK_SERVICE_FORM_REQUIRES_DUAL_STACK: rk_service_form = 64;
/// spec.allocateLoadBalancerNodePorts is false.
pub const RK_SERVICE_FORM_WITHOUT_NODE_PORTS: rk_service_form = 128;
/// One of spec.ports has no node port.
pub const RK_SERVICE_FORM_LACKS_NODE_PORT: rk_service_form = 256;
/// spec.externalTrafficPolicy is Local.
pub const RK_SERVICE_FORM_LOCAL: rk_service_form = 512;
/// There is a spec.healthCheckNodePort.
pub const RK_SERVICE_FORM_HEALTH_CHECK_NODE_PORT: rk_service_form = 1024;

/// Adds findings about values that Services should have and have not. `forms` are those of all Services of the audit,
/// in the order in which they were observed.
///
/// RK_RESULT_INVALID_ARGUMENT if there are not as many as Services.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_observe_forms(
    report: *mut rk_report,
    forms: *const rk_service_form,
    forms_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (report, forms) =
                (borrow(scope, report).named("report")?, slice(scope, forms, forms_len).named("forms")?);
            report.0.with(|found| {
                let services = found.report.services;
                if services != forms.len() as u64 {
                    let message = format_args!("forms has {} Services, and the audit {services}", forms.len());
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
                for (service, form) in forms.iter().enumerate() {
                    found.report.observe_form(service as u64, &form_of(*form));
                }
                Ok(())
            })
        })
    }
}

fn form_of(bits: rk_service_form) -> ServiceForm {
    let has = |bit| bits & bit != 0;
    ServiceForm {
        kind: match () {
            () if has(RK_SERVICE_FORM_NODE_PORT) => ServiceType::NodePort,
            () if has(RK_SERVICE_FORM_LOAD_BALANCER) => ServiceType::LoadBalancer,
            () if has(RK_SERVICE_FORM_EXTERNAL_NAME) => ServiceType::ExternalName,
            () => ServiceType::ClusterIp,
        },
        is_headless: has(RK_SERVICE_FORM_HEADLESS),
        addresses: if has(RK_SERVICE_FORM_TWO_ADDRESSES) { 2 } else { has(RK_SERVICE_FORM_ONE_ADDRESS).into() },
        requires_dual_stack: has(RK_SERVICE_FORM_REQUIRES_DUAL_STACK),
        without_node_ports: has(RK_SERVICE_FORM_WITHOUT_NODE_PORTS),
        lacks_node_port: has(RK_SERVICE_FORM_LACKS_NODE_PORT),
        is_local: has(RK_SERVICE_FORM_LOCAL),
        has_health_check_node_port: has(RK_SERVICE_FORM_HEALTH_CHECK_NODE_PORT),
    }
}

/// Observes the Services of the audit a second time, in the same order, with names and creation times. This is needed
/// if a value is claimed more than once. After the last one, each finding about such a value is about a Service that
/// does not keep it, findings are sorted by subject_kind and subject, and rk_report_claimants writes all Services that
/// claim it.
///
/// The Service that the IPAddress object refers to keeps an address; the others that claim it keep no port either that
/// another Service claims. Else the oldest Service keeps the value. One without a time counts as the youngest; of
/// several with one time, the one that an object refers to keeps it, or else the one with the lowest create revision,
/// or else the first by namespace and name.
///
/// RK_RESULT_INVALID_BATCH, and nothing of the batch is observed; RK_RESULT_INVALID_ARGUMENT if there are more Services
/// than in the audit.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_observe_claimants(
    report: *mut rk_report,
    names: *const rk_service_names,
    batch: *const rk_services,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (report, names) = (borrow(scope, report).named("report")?, borrow(scope, names).named("names")?);
            let services = Services::new(scope, batch)?;
            let names = service_names(scope, names, services.count)?;
            report.0.with(|found| {
                let (mut names, mut observed) = (names.into_iter(), Ok(()));
                services.for_each(|service| {
                    let service = names.next().unwrap_or_default().of(service);
                    observed = observed.and_then(|()| found.report.observe_claimant(&service));
                })?;
                observed.map_err(|error| Failure::new(rk_result::InvalidArgument, error))
            })
        })
    }
}

/// Writes the Services that claim the value of the finding at this place, the one that keeps it first, then by age.
/// There are none unless the value is claimed more than once, and all Services were observed a second time. `claimants`
/// is a buffer, and `*n` its length.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_claimants(
    report: *const rk_report,
    finding: usize,
    claimants: *mut rk_claimant,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, out) = unsafe { (borrow(scope, report)?, Buffer::new(scope, claimants, capacity, n)?) };
        report.0.with(|found| {
            let all = found.report.claimants(at(&found.report.findings, finding)?).iter();
            out.fill(all.map(|claimant| rk_claimant {
                service: claimant.service,
                keeps: claimant.keeps,
                tied: claimant.tied,
                reserved: [0; 2],
            }))
        })
    })
}

/// Writes a page of the writes of the API server's repair of IPAddress objects, which a shell does in data at rest:
/// first those for Services, then the removals, both in the order of observation. After rk_report_observe_claimants the
/// object of an address that is claimed more than once is that of the Service that keeps it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_object_repairs(
    report: *const rk_report,
    from: usize,
    repairs: *mut rk_object_repair,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, repairs, n) =
            unsafe { (borrow(scope, report)?, Array::new(scope, repairs, capacity)?, Out::new(scope, n)?) };
        report.0.with(|found| {
            n.write(repairs.fill(found.report.object_repairs().skip(from).map(|repair| rk_object_repair {
                address: repair.address.into(),
                removed: repair.removed.unwrap_or(RK_NO_OBJECT),
                service: repair.service.unwrap_or(RK_NO_OBJECT),
                reserved: [0; 2],
            })));
            Ok(())
        })
    })
}

/// Writes a page of leaks: those of bitmaps by range and value, due to be cleaned or not; then the IPAddress
/// objects of the allocator whose Service does not exist and whose address no other Service uses, in the order of
/// observation.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_leaks(
    report: *const rk_report,
    from: usize,
    leaks: *mut rk_leak,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, leaks, n) =
            unsafe { (borrow(scope, report)?, Array::new(scope, leaks, capacity)?, Out::new(scope, n)?) };
        report.0.with(|found| {
            let all = found.leaks.get_or_init(|| found.report.leaks().collect());
            n.write(leaks.fill(all.iter().skip(from).map(rk_leak_of)));
            Ok(())
        })
    })
}

/// Writes the counts of the range at place `range`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_range(
    report: *const rk_report,
    range: usize,
    numbers: *mut rk_range_report,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, out) = unsafe { (borrow(scope, report)?, Out::new(scope, numbers)?) };
        report.0.with(|found| {
            let range = found.range(range)?;
            let record = match range {
                RangeReport::Bitmap(_) => RK_RECORD_BITMAP,
                RangeReport::Stale(_) => RK_RECORD_STALE,
                RangeReport::ServiceCidr(_) => RK_RECORD_IP_ADDRESSES,
                RangeReport::Unseen(_) => RK_RECORD_UNSEEN,
            };
            let counts = range.counts();
            out.write(rk_range_report {
                record,
                static_band: counts.static_band,
                size: counts.size,
                stored: counts.stored,
                in_use: counts.in_use,
                leaked: counts.leaked,
                next: counts.next,
                set: counts.set,
                clear: counts.clear,
                duplicates: counts.duplicates,
                dropped: counts.dropped.into(),
                reserved: [0; 2],
            });
            Ok(())
        })
    })
}

/// Writes a page of the maximal runs of values of the range at place `range` that belong to `set` (one of
/// RK_VALUES_*), or if `members` is false do not, ascending. A run that contains `from_offset` begins there.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_runs(
    report: *const rk_report,
    range: usize,
    set: rk_values,
    members: bool,
    from_offset: u64,
    runs: *mut rk_run,
    capacity: usize,
    n: *mut usize,
    next_offset: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, runs, n, next) = unsafe {
            (
                borrow(scope, report)?,
                Array::new(scope, runs, capacity)?,
                Out::new(scope, n)?,
                Out::new(scope, next_offset)?,
            )
        };
        report.0.with(|found| {
            let (offsets, range) = (found.offsets(range, set)?, found.range(range)?);
            let mut after = from_offset;
            n.write(runs.fill(offsets.runs(members, range.size(), from_offset).filter_map(|run| {
                after = run.last + 1;
                let (first, last) = (range.value_at(run.first)?, range.value_at(run.last)?);
                Some(rk_run { first: first.into(), last: last.into(), len: run.len() })
            })));
            next.write(after);
            Ok(())
        })
    })
}

/// Writes a set of values, RK_VALUES_*, of the bitmap at place `range`, in the form of rk_allocator_snapshot.
/// RK_VALUES_NEXT is what a repair stores.
///
/// RK_RESULT_INVALID_ARGUMENT if there is no bitmap at that place.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_snapshot(
    report: *const rk_report,
    range: usize,
    values: rk_values,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, buffer) = unsafe { (borrow(scope, report)?, Buffer::new(scope, buffer, capacity, len)?) };
        report.0.with(|found| match found.offsets(range, values)? {
            Offsets::Bitmap(bitmap) => buffer.write(bitmap.snapshot()),
            Offsets::List(_) => Err(rk_result::InvalidArgument),
        })
    })
}

/// Writes the state of one value of the range at place `range`. For a value that IPAddress objects record,
/// rk_offset_state.next is the state after the API server's own repair.
///
/// RK_RESULT_NOT_IN_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_state(
    report: *const rk_report,
    range: usize,
    value: *const rk_value,
    state: *mut rk_offset_state,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, value, out) = unsafe { (borrow(scope, report)?, borrow(scope, value)?, Out::new(scope, state)?) };
        report.0.with(|found| {
            let (range, value) = (found.range(range)?, Value::try_from(value)?);
            let state = value.any().and_then(|value| range.state_of(value)).ok_or(rk_result::NotInRange)?;
            out.write(state.into());
            Ok(())
        })
    })
}

/// Divides the range at place `range` into at most `count` cells, and at most 1,048,576, of equal length (the last may
/// be shorter) and writes the counts of each; a range of size 0 has no cells, and count 0 is for none. `cells` is a
/// buffer, and `*n` its length.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_report_occupancy(
    report: *const rk_report,
    range: usize,
    count: u32,
    cells: *mut rk_cell,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (report, out) = unsafe { (borrow(scope, report)?, Buffer::new(scope, cells, capacity, n)?) };
        report.0.with(|found| out.fill(found.range(range)?.occupancy(count).map(rk_cell::from)))
    })
}
