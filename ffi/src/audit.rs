//! An audit under way.

use std::ffi::c_char;
use std::sync::Arc;

use rangekeeper_core::audit::{
    AddObjectError, AddRangeError, Audit, BitmapRevisions, Bitmaps, ClusterIpRecords, Leaks, NotAuditable, Presence,
    StoreContent, Stored, Unreadable,
};
use rangekeeper_core::commit::LeakTracker;
use rangekeeper_core::service_cidr::ServiceCidr;

use crate::error::{Failure, Named, rk_error};
use crate::finding::{
    RK_SUBJECT_KIND_IP_ADDRESS, RK_SUBJECT_KIND_SERVICE, RK_SUBJECT_KIND_SERVICE_CIDR, rk_subject_kind,
};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::leak_tracker::rk_leak_tracker;
use crate::range::{self, range_optional, rk_range};
use crate::report::rk_report;
use crate::result::rk_result;
use crate::scope::{Out, Unusable, borrow, borrow_optional, reclaim, slice, text};
use crate::services::{Services, ip_addresses, rk_ip_addresses, rk_service_names, rk_services, service_names};

/// What is stored under the key of a bitmap.
pub type rk_presence = u32;
/// The object does not exist.
pub const RK_PRESENCE_MISSING: rk_presence = 0;
/// The object has no range: no kube-apiserver has initialised it yet.
pub const RK_PRESENCE_UNINITIALISED: rk_presence = 1;
/// The object has a range.
pub const RK_PRESENCE_INITIALISED: rk_presence = 2;

/// The source does not show whether there is an object, as the Kubernetes API does not.
pub const RK_PRESENCE_UNSEEN: rk_presence = 3;
/// There is an object that cannot be read.
pub const RK_PRESENCE_UNREADABLE: rk_presence = 4;

/// Where a cluster records its ClusterIPs (KEP-1880).
pub type rk_cluster_ip_records = u32;
/// Nothing that records ClusterIPs is stored: no kube-apiserver has started.
pub const RK_CLUSTER_IP_RECORDS_UNKNOWN: rk_cluster_ip_records = 0;
/// ClusterIPs are recorded in bitmaps.
pub const RK_CLUSTER_IP_RECORDS_BITMAPS: rk_cluster_ip_records = 1;
/// ClusterIPs are recorded in IPAddress objects. There is no bitmap, or the source does not show bitmaps.
pub const RK_CLUSTER_IP_RECORDS_OBJECTS: rk_cluster_ip_records = 2;
/// ClusterIPs are recorded in IPAddress objects, and there are bitmaps beside them, which servers may still write:
/// rk_audit_compare_bitmap finds that out.
pub const RK_CLUSTER_IP_RECORDS_BOTH: rk_cluster_ip_records = 3;

/// What a store has of a cluster.
pub type rk_store_content = u32;
/// All of it, or what a kube-apiserver keeps beside its Services in another store.
pub const RK_STORE_CONTENT_CLUSTER: rk_store_content = 0;
/// The Services, stored ranges, and nothing else: the other store of a kube-apiserver with
/// --etcd-servers-overrides=/services#....
pub const RK_STORE_CONTENT_SERVICES: rk_store_content = 1;

/// The bitmaps that a cluster can have.
pub type rk_bitmap = u32;
/// The primary range of ClusterIPs: serviceips.
pub const RK_BITMAP_SERVICE_IPS: rk_bitmap = 0;
/// The range of the other IP family: secondaryserviceips.
pub const RK_BITMAP_SECONDARY_SERVICE_IPS: rk_bitmap = 1;
/// The range of node ports: servicenodeports.
pub const RK_BITMAP_SERVICE_NODE_PORTS: rk_bitmap = 2;

/// An audit in progress: one pass over all Services.
pub struct rk_audit {
    audit: Handle<Audit>,
    /// The counters of its leaks.
    passes: Option<Arc<Handle<LeakTracker>>>,
}

impl rk_audit {
    pub(crate) fn new(audit: Audit, passes: Option<Arc<Handle<LeakTracker>>>) -> Self {
        Self { audit: Handle::new(audit), passes }
    }

    pub(crate) fn finish<R>(&self, work: impl FnOnce(Audit) -> Result<R, Failure>) -> Result<R, Failure> {
        self.audit.finish(|_| Ok(()), work)
    }
}

/// An audit without ranges; `now` is the time in seconds since 1970.
pub(crate) fn begin(ip_addresses: bool, now: Option<&i64>) -> Audit {
    if ip_addresses { Audit::of_ip_addresses(now.copied()) } else { Audit::new() }
}

impl From<AddRangeError> for Failure {
    fn from(error: AddRangeError) -> Self {
        match &error {
            AddRangeError::SameKind { .. } => Self::new(rk_result::SameKind, error),
            AddRangeError::StoredRange(_) => Self::new(rk_result::InvalidRange, error),
            AddRangeError::StoredKind { .. } => Self::new(rk_result::MismatchedRange, error),
            AddRangeError::BitsPastRange { source, .. } => Self::bits_past_range(&error, source),
            _ => Self::new(rk_result::InvalidArgument, error),
        }
    }
}

impl From<NotAuditable> for Failure {
    fn from(error: NotAuditable) -> Self {
        let unreadable = matches!(error, NotAuditable::Unreadable { .. });
        Self::new(if unreadable { rk_result::Unreadable } else { rk_result::NoServices }, error)
    }
}

fn presence(parameter: &str, presence: rk_presence) -> Result<Presence, Failure> {
    Ok(match presence {
        RK_PRESENCE_MISSING => Presence::Missing,
        RK_PRESENCE_UNINITIALISED => Presence::Uninitialised,
        RK_PRESENCE_INITIALISED => Presence::Initialised,
        RK_PRESENCE_UNSEEN => Presence::Unseen,
        RK_PRESENCE_UNREADABLE => Presence::Unreadable,
        _ => {
            return Err(Failure::new(
                rk_result::InvalidArgument,
                format_args!("{parameter} {presence} is none of RK_PRESENCE_*"),
            ));
        }
    })
}

/// Returns where a cluster records its ClusterIPs. `objects` is how many ServiceCIDR and
/// IPAddress objects are stored, those among them that cannot be read; `bitmap` is the presence of the primary range
/// or if that is missing of the secondary one; another number counts as RK_PRESENCE_UNSEEN.
#[unsafe(no_mangle)]
pub extern "C" fn rk_cluster_ip_records_of(objects: u64, bitmap: rk_presence) -> rk_cluster_ip_records {
    guard_or(RK_CLUSTER_IP_RECORDS_UNKNOWN, || {
        let bitmap = presence("bitmap", bitmap).unwrap_or(Presence::Unseen);
        match ClusterIpRecords::of(objects, bitmap) {
            ClusterIpRecords::Unknown => RK_CLUSTER_IP_RECORDS_UNKNOWN,
            ClusterIpRecords::Bitmaps => RK_CLUSTER_IP_RECORDS_BITMAPS,
            ClusterIpRecords::Objects => RK_CLUSTER_IP_RECORDS_OBJECTS,
            ClusterIpRecords::Both => RK_CLUSTER_IP_RECORDS_BOTH,
        }
    })
}

/// Returns what a store has of a cluster. `services` is the number of Services, `objects` as of
/// rk_cluster_ip_records_of, `others` the number of other objects, such as the Namespace kube-system, which each
/// cluster has.
#[unsafe(no_mangle)]
pub extern "C" fn rk_store_content_of(services: u64, objects: u64, others: u64) -> rk_store_content {
    guard_or(RK_STORE_CONTENT_CLUSTER, || match StoreContent::of(services, objects, others) {
        StoreContent::Cluster => RK_STORE_CONTENT_CLUSTER,
        StoreContent::Services => RK_STORE_CONTENT_SERVICES,
    })
}

impl From<AddObjectError> for Failure {
    fn from(error: AddObjectError) -> Self {
        Self::new(rk_result::InvalidArgument, error)
    }
}

/// Begins an audit without ranges. Read the stored ranges first, and list the Services after that.
///
/// With a `tracker`, a leak in a bitmap stays until enough audits in a row have seen it: rk_audit_finish counts this
/// one. The tracker may be freed before that. With NULL, leaks are cleaned at once, which is right only where nobody
/// else allocates.
///
/// Without `ip_addresses`, ClusterIPs are recorded in bitmaps. With it, they are recorded in IPAddress objects, and
/// bitmaps of addresses are stale unless rk_audit_compare_bitmap finds that servers still write them: they are counted,
/// and not compared with the Services. An IPAddress object that is at most 60 s old at `unix_seconds` may still wait
/// for its Service, and is no leak; with NULL every object counts, which is right for data at rest.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_new(
    tracker: *mut rk_leak_tracker,
    ip_addresses: bool,
    unix_seconds: *const i64,
    audit: *mut *mut rk_audit,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (tracker, now, out) = unsafe {
            (borrow_optional(scope, tracker)?, borrow_optional(scope, unix_seconds)?, Out::new(scope, audit)?)
        };
        let passes = tracker.map(|tracker| tracker.0.clone());
        if let Some(passes) = &passes {
            passes.with(|_| Ok::<_, rk_result>(()))?;
        }
        out.give(rk_audit::new(begin(ip_addresses, now), passes));
        Ok(())
    })
}

/// Destroys an audit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_free(audit: *mut rk_audit) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(audit) }))
}

/// Adds a configured range of addresses or ports that is stored as a bitmap, with the stored text of its range and
/// the stored bitmap; an empty text means that nothing is stored yet. Ranges and CIDRs count from 0 in the order in
/// which they are added; the first range of addresses is the primary one. Add all of them before the first Service
/// is observed: RK_RESULT_INVALID_ARGUMENT after that, since the values of those Services would look leaked.
///
/// The stored range may differ from the configured one: values that both have are kept. RK_RESULT_SAME_KIND if the
/// audit already has a range of ports, or of this IP family. For the stored data: RK_RESULT_INVALID_RANGE;
/// RK_RESULT_MISMATCHED_RANGE if it is of another kind; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_add_bitmap(
    audit: *mut rk_audit,
    configured: *const rk_range,
    stored_range: *const c_char,
    stored_range_len: usize,
    stored_data: *const u8,
    stored_data_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, configured) =
                (borrow(scope, audit).named("audit")?, range::range(scope, configured).named("configured")?);
            let stored = Stored {
                range: text(scope, stored_range, stored_range_len).named("stored_range")?,
                data: slice(scope, stored_data, stored_data_len).named("stored_data")?,
            };
            audit.audit.with(|audit| Ok(audit.add_bitmap(configured, stored)?))
        })
    }
}

/// Adds a range whose stored bitmap the caller cannot read, as over the Kubernetes API; otherwise as
/// rk_audit_add_bitmap. The report then has findings about values outside the range and about values of two Services,
/// and none about a value that is not recorded. `known` has a bit for each value that is known to be recorded, as an
/// API server refuses it: those that no Service uses are leaks. Other leaks of the range are unknown.
///
/// If `range` is NULL, not all ranges of ClusterIPs are known, and no range is added: of addresses of an IP family
/// without one, only those that are not valid and those of two Services are findings. RK_RESULT_BITS_PAST_RANGE as of
/// rk_audit_add_bitmap.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_add_unseen(
    audit: *mut rk_audit,
    range: *const rk_range,
    known: *const u8,
    known_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, range) = (borrow(scope, audit).named("audit")?, range_optional(scope, range).named("range")?);
            let known = slice(scope, known, known_len).named("known")?;
            audit.audit.with(|audit| match range {
                Some(range) => Ok(audit.add_unseen(range, known)?),
                None => {
                    audit.without_cluster_ip_ranges();
                    Ok(())
                }
            })
        })
    }
}

/// Compares the bitmap of ClusterIPs at place `range` with the IPAddress objects and the Services, if servers still
/// write it: those of Kubernetes 1.33 do, those of 1.34 or later do not, and leave it in etcd. `written` is the
/// revision of its last write, `upgraded` the create revision of an object that only servers of 1.34 or later write, 0
/// if there is none. Without this call the bitmap is RK_RECORD_STALE.
///
/// RK_RESULT_INVALID_ARGUMENT if there is no such bitmap beside IPAddress objects, or a Service was observed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_compare_bitmap(
    audit: *mut rk_audit,
    range: usize,
    written: u64,
    upgraded: u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let audit = borrow(scope, audit).named("audit")?;
            let revisions = BitmapRevisions { written, upgraded: (upgraded > 0).then_some(upgraded) };
            audit.audit.with(|audit| Ok(audit.compare_bitmap(range, revisions)?))
        })
    }
}

/// Adds one CIDR of a ServiceCIDR object; CIDRs may overlap. It counts as one of the ranges. From one that is not
/// ready, or is being deleted, servers allocate no new address, and it has no free ones; the addresses that Services
/// have stay theirs.
///
/// RK_RESULT_INVALID_RANGE; RK_RESULT_INVALID_ARGUMENT if ClusterIPs are recorded in bitmaps, or a Service was
/// observed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_add_service_cidr(
    audit: *mut rk_audit,
    cidr: *const c_char,
    cidr_len: usize,
    is_ready: bool,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, cidr) = (borrow(scope, audit).named("audit")?, text(scope, cidr, cidr_len).named("cidr")?);
            let cidr = cidr.parse::<ServiceCidr>().map_err(|error| Failure::new(rk_result::InvalidRange, error))?;
            audit.audit.with(|audit| Ok(audit.add_service_cidr(cidr, is_ready)?))
        })
    }
}

/// Records a batch of IPAddress objects; see rk_ip_addresses_add.
///
/// RK_RESULT_INVALID_BATCH, and nothing of the batch is recorded; RK_RESULT_INVALID_ARGUMENT if ClusterIPs are recorded
/// in bitmaps, or a Service was observed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_observe_ip_addresses(
    audit: *mut rk_audit,
    batch: *const rk_ip_addresses,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, objects) = (borrow(scope, audit).named("audit")?, ip_addresses(scope, batch)?);
            audit.audit.with(|audit| {
                for object in &objects {
                    audit.observe_ip_address(object)?;
                }
                Ok(())
            })
        })
    }
}

/// Records a batch of Services; see rk_services_add. `names` are needed only where ClusterIPs are recorded in
/// IPAddress objects, and may be NULL otherwise. Cost: some 30 ns per address or port in bitmaps.
///
/// RK_RESULT_INVALID_BATCH, also if there are not as many names as Services, and nothing of the batch is recorded;
/// RK_RESULT_INVALID_ARGUMENT if names are needed and NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_observe_services(
    audit: *mut rk_audit,
    names: *const rk_service_names,
    batch: *const rk_services,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, names) = (borrow(scope, audit).named("audit")?, borrow_optional(scope, names).named("names")?);
            let services = Services::new(scope, batch)?;
            let Some(names) = names else {
                return audit.audit.with(|audit| {
                    if audit.needs_names() && services.count > 0 {
                        let message = "names are missing: where ClusterIPs are IPAddress objects, Services need them";
                        return Err(Failure::new(rk_result::InvalidArgument, message));
                    }
                    services.for_each(|service| audit.observe(service))
                });
            };
            let names = service_names(scope, names, services.count)?;
            audit.audit.with(|audit| {
                let mut names = names.into_iter();
                services.for_each(|service| {
                    audit.observe(&names.next().unwrap_or_default().of(service));
                })
            })
        })
    }
}

/// Says that the cluster has one more object, which could not be read; `kind` is its kind. It may use
/// or record any value: all leaks stay, no IPAddress object is repaired, and rk_audit_check_cluster refuses repairs. If
/// a ServiceCIDR could not be read, an address that no other one has is not reported. The `name` of an IPAddress object
/// is that of its key, whatever bytes these are; if it is the canonical text of an address, the address counts as
/// recorded. Of other kinds it is not read, and may be NULL.
///
/// RK_RESULT_INVALID_ARGUMENT for an unknown kind.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_observe_unreadable(
    audit: *mut rk_audit,
    kind: rk_subject_kind,
    name: *const c_char,
    name_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let audit = borrow(scope, audit).named("audit")?;
            let object = match kind {
                RK_SUBJECT_KIND_SERVICE => Unreadable::Service,
                RK_SUBJECT_KIND_IP_ADDRESS => match text(scope, name, name_len) {
                    // A damaged key must not end the audit.
                    Err(Unusable::NotUtf8 { .. }) => Unreadable::IpAddress(""),
                    name => Unreadable::IpAddress(name.named("name")?),
                },
                RK_SUBJECT_KIND_SERVICE_CIDR => Unreadable::ServiceCidr,
                _ => {
                    let message = format_args!("kind {kind} is not one of RK_SUBJECT_KIND_*");
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
            };
            audit.audit.with(|audit| {
                audit.observe_unreadable(object);
                Ok(())
            })
        })
    }
}

/// Says, once all Services are observed, that this audit covers a whole cluster, whose bitmaps are in the given states
/// (RK_PRESENCE_*). A range that is missing though there are Services, and one that servers read and cannot decode, are
/// findings; all else is judged without it. `upgraded` is as of rk_audit_compare_bitmap: since then servers that record
/// ClusterIPs in IPAddress objects read no bitmap of them.
///
/// RK_RESULT_NO_SERVICES if `cleans_leaks` says that leaks are cleaned after the audit, values are recorded as
/// allocated, and no Service was observed: a cluster has the kubernetes Service at least, so its Services are stored
/// elsewhere. It is so whatever is cleaned if IPAddress objects refer to Services of which none, or nearly none of
/// many, was observed, and the node ports are not RK_PRESENCE_UNSEEN; an audit that goes on finds nothing about these
/// objects. RK_RESULT_UNREADABLE if objects could not be read, and leaks are cleaned after the audit, or the audit is
/// that of an rk_repair_pass, or more Services or IPAddress objects could not be read than could; an audit that goes on
/// does not judge then what they use or record.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_check_cluster(
    audit: *mut rk_audit,
    service_ips: rk_presence,
    secondary_service_ips: rk_presence,
    service_node_ports: rk_presence,
    upgraded: u64,
    cleans_leaks: bool,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let audit = borrow(scope, audit).named("audit")?;
            let bitmaps = Bitmaps {
                service_ips: presence("service_ips", service_ips)?,
                secondary_service_ips: presence("secondary_service_ips", secondary_service_ips)?,
                service_node_ports: presence("service_node_ports", service_node_ports)?,
                upgraded: (upgraded > 0).then_some(upgraded),
            };
            audit.audit.with(|audit| Ok(audit.check_cluster(bitmaps, cleans_leaks)?))
        })
    }
}

/// Ends and closes the audit.
///
/// RK_RESULT_INVALID_ARGUMENT if the audit belongs to an rk_repair_pass: rk_repair_pass_finish ends it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_audit_finish(
    audit: *mut rk_audit,
    report: *mut *mut rk_report,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (audit, out) = (borrow(scope, audit).named("audit")?, Out::new(scope, report).named("report")?);
            let check = |audit: &Audit| {
                let message = "the audit is that of a repair pass, which finishes it";
                if audit.is_of_pass() { Err(Failure::new(rk_result::InvalidArgument, message)) } else { Ok(()) }
            };
            let finish = |leaks: Leaks<'_>| audit.audit.finish(check, |audit| Ok::<_, Failure>(audit.finish(leaks)));
            let report = match &audit.passes {
                None => finish(Leaks::CleanAtOnce)?,
                Some(passes) => passes.with(|passes| finish(Leaks::Keep(passes.counters())))?,
            };
            out.give(rk_report::new(report));
            Ok(())
        })
    }
}
