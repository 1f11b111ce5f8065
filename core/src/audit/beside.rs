//! Bitmaps of ClusterIPs beside IPAddress objects.
//!
//! Kubernetes 1.33, and 1.32 with the feature gate MultiCIDRServiceAllocator, record each ClusterIP in both, and refuse
//! an address that either has. Their repair changes the objects only. A server of 1.34 or later neither reads nor
//! writes the bitmap, which stays in etcd after an upgrade (kubernetes
//! `pkg/registry/core/service/ipallocator/cidrallocator.go`, feature gate DisableAllocatorDualWrite).

use std::net::IpAddr;

use crate::bitmap::Bitmap;
use crate::cidr::CidrRange;
use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::range::Range;

use super::objects::Objects;
use super::range_pass::{Findings, RangePass};
use super::{Leaks, RangeReport};

/// The revisions of the store that tell a bitmap in use from one that is left over from before an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapRevisions {
    /// The last write of the bitmap.
    pub written: u64,
    /// The first trace of a server that writes no bitmap of ClusterIPs, which is one of Kubernetes 1.34 or later: an
    /// object that no older server stores. `None` if there is no trace.
    pub upgraded: Option<u64>,
}

/// A bitmap of a cluster whose ClusterIPs are IPAddress objects.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) pass: RangePass<CidrRange>,
    /// `None` if nothing is known of its writers, so that it counts as left over.
    pub(super) revisions: Option<BitmapRevisions>,
}

impl Beside {
    /// Whether servers still write the bitmap.
    ///
    /// A server that writes both sets the bit before it creates the object. So an object from after the upgrade that
    /// has no bit shows that a server has allocated without the bitmap. In a cluster that was never upgraded it shows
    /// nothing, since the repair of 1.33 recreates a missing object and sets no bit.
    fn is_written(&self, objects: &Objects) -> bool {
        let Some(BitmapRevisions { written, upgraded }) = self.revisions else { return false };
        let without_bit = |address| self.offset_of(address).is_some_and(|at| !self.pass.stored().contains(at));
        upgraded.is_none_or(|upgraded| written > upgraded && !objects.allocated_after(upgraded).any(without_bit))
    }

    fn offset_of(&self, address: IpAddr) -> Option<u32> {
        self.pass.range.offset_of(address)
    }

    /// Compares the bitmap with the objects and the Services, unless it is left over.
    pub(super) fn finish(
        mut self,
        objects: &Objects,
        leaks: &mut Leaks<'_>,
        found: &mut Vec<Finding>,
        keeps_all: bool,
    ) -> (usize, RangeReport) {
        if !self.is_written(objects) {
            let (index, report) = self.pass.finish_unused();
            return (index, RangeReport::Stale(report));
        }
        let range = Some(self.pass.index);
        let mut find = |subject, address| {
            let value = FoundValue::Address(address);
            found.push(Finding { reason: Reason::BitmapDisagrees, range, subject, value, valid: None, outside: None });
        };
        for (subject, address) in objects.holders() {
            let Some(offset) = self.offset_of(address) else { continue };
            // The object of a Service that is not known may be one that the server removes.
            let is_certain = !objects.is_unjudged() || matches!(subject, Subject::Service(_));
            if self.pass.hold(offset) && !self.pass.stored().contains(offset) && is_certain {
                find(subject, address);
            }
        }
        // A stock server sets no bit for an object of another controller, but leaves one that was set.
        for offset in objects.of_others().filter_map(|address| self.offset_of(address)).collect::<Vec<_>>() {
            if self.pass.stored().contains(offset) {
                self.pass.hold(offset);
            }
        }
        let mut alone = Bitmap::new(self.pass.range.size());
        for offset in self.pass.unused().iter() {
            // The bit of an object that the API server removes is a leak with it, of which the object has the report.
            if let Some(address) = self.pass.range.value_at(offset)
                && !objects.has(address)
                && let Some(cidr) = objects.range_of(address)
            {
                find(Subject::ServiceCidr(cidr as u64), address);
                alone.insert(offset);
            }
        }
        // There are no claims to settle.
        let (index, report) = self.pass.finish(leaks, &mut Findings::new(), Some(&alone), keeps_all);
        (index, RangeReport::Bitmap(report.beside_objects()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AddObjectError, Audit, RepairCounters, RepairOutcome, Report, Stored};
    use crate::finding::Reason::BitmapDisagrees;
    use crate::ipaddress::{ALLOCATOR, IpAddressObject};
    use crate::service::Service;
    use crate::service_cidr::ServiceCidr;

    const WRITTEN: u64 = 100;
    const STILL: Option<BitmapRevisions> = Some(BitmapRevisions { written: WRITTEN, upgraded: None });

    fn object(name: &'static str, revision: u64) -> IpAddressObject<'static> {
        IpAddressObject {
            name,
            managed_by: ALLOCATOR,
            revision,
            parent_resource: "services",
            parent_namespace: "ns",
            parent_name: name,
            ..IpAddressObject::default()
        }
    }

    /// An audit of 10.0.0.0/29 with a bitmap; each Service has the name of its address.
    fn audit(
        bits: u8,
        revisions: Option<BitmapRevisions>,
        objects: &[IpAddressObject<'_>],
        services: &[&str],
        leaks: Leaks<'_>,
    ) -> Report {
        let mut audit = Audit::of_ip_addresses(None);
        let cidr = "10.0.0.0/29";
        audit.add_cluster_ips(cidr.parse().expect("a CIDR"), Stored { range: cidr, data: &[bits] }).expect("in range");
        audit
            .add_service_cidr(cidr.parse::<ServiceCidr>().expect("a CIDR"), true)
            .expect("an audit of IPAddress objects");
        if let Some(revisions) = revisions {
            audit.compare_bitmap(0, revisions).expect("a bitmap of ClusterIPs");
        }
        for object in objects {
            audit.observe_ip_address(object).expect("an audit of IPAddress objects");
        }
        for address in services {
            let service = Service { namespace: "ns", name: address, cluster_ip: address, ..Service::default() };
            audit.observe(&service);
        }
        audit.finish(leaks)
    }

    fn disagreements(report: &Report) -> Vec<(Subject, String)> {
        let found = report.findings.iter().filter(|finding| finding.reason == BitmapDisagrees);
        found.map(|finding| (finding.subject, finding.value.to_string())).collect()
    }

    #[test]
    fn a_bitmap_that_is_written_agrees_with_objects_and_services() {
        let foreign = IpAddressObject { managed_by: "another", ..object("10.0.0.5", 1) };
        let other = IpAddressObject { managed_by: "another", ..object("10.0.0.6", 1) };
        let gone = object("10.0.0.3", 1);
        let objects = [object("10.0.0.1", 1), object("10.0.0.2", 1), gone, foreign, other];
        // Bits 0 (used), 2 (a leaked object), 3 (nothing has it), 4 (another controller's object).
        let report = audit(0b01_1101, STILL, &objects, &["10.0.0.1", "10.0.0.2"], Leaks::CleanAtOnce);
        assert_eq!(
            disagreements(&report),
            [(Subject::IpAddress(1), "10.0.0.2".into()), (Subject::ServiceCidr(1), "10.0.0.4".into())]
        );
        let bitmap = report.bitmap(0).expect("it is written");
        assert_eq!(bitmap.next().snapshot(), [0b01_0011], "the leaked object's bit goes with it");
        assert_eq!(report.leaks().map(|leak| leak.value.to_string()).collect::<Vec<_>>(), ["10.0.0.3"]);
        let remedies: Vec<_> = report.findings.iter().map(|finding| report.remedy(finding)).collect();
        assert_eq!(remedies, [crate::audit::Remedy::Repair; 2]);
        assert!(!report.findings.iter().any(|finding| report.stays(finding)), "all is repaired at once");
    }

    #[test]
    fn a_service_without_object_and_bit_lacks_both() {
        let report = audit(0b10, STILL, &[object("10.0.0.2", 1)], &["10.0.0.1", "10.0.0.2"], Leaks::CleanAtOnce);
        let found: Vec<_> = report.findings.iter().map(|finding| (finding.reason, finding.subject)).collect();
        let service = Subject::Service(0);
        assert_eq!(found, [(Reason::ClusterIpNotAllocated, service), (BitmapDisagrees, service)]);
    }

    #[test]
    fn a_bitmap_that_is_left_over_is_only_counted() {
        let old = BitmapRevisions { written: WRITTEN, upgraded: Some(WRITTEN + 1) };
        let both = BitmapRevisions { written: WRITTEN, upgraded: Some(WRITTEN - 1) };
        let late = object("10.0.0.2", WRITTEN + 1);
        for (revisions, object, bits, written) in [
            (None, object("10.0.0.2", 1), 0b1000, false),
            (STILL, object("10.0.0.2", 1), 0b1000, true),
            // The repair of 1.33 recreates an object without a bit.
            (STILL, late, 0b1000, true),
            (Some(old), object("10.0.0.2", 1), 0b1000, false),
            // Servers of both kinds run, or did while the bitmap was written for the last time.
            (Some(both), object("10.0.0.2", WRITTEN - 1), 0b1000, true),
            (Some(both), late, 0b1010, true),
            (Some(both), late, 0b1000, false),
            (Some(both), IpAddressObject { managed_by: "another", ..late }, 0b1000, true),
        ] {
            let report = audit(bits, revisions, &[object], &["10.0.0.2"], Leaks::CleanAtOnce);
            let about = format!("{revisions:?} {object:?} {bits:b}");
            assert_eq!(matches!(report.ranges[0], RangeReport::Bitmap(_)), written, "{about}");
            assert_eq!(!disagreements(&report).is_empty(), written, "{about}");
        }
    }

    #[test]
    fn a_stale_bit_stays_until_its_counter_is_spent() {
        let mut counters = RepairCounters::new(std::num::NonZeroU8::new(2).expect("not 0"));
        let mut pass = || audit(0b1000, STILL, &[], &["10.0.0.1"], Leaks::Keep(&mut counters));
        let mut report = pass();
        let stays = |report: &Report| -> Vec<_> { report.findings.iter().map(|found| report.stays(found)).collect() };
        assert_eq!(stays(&report), [false, false, true]);
        let bitmap = report.bitmap(0).expect("it is written");
        assert_eq!((bitmap.set().count(), bitmap.clear().count()), (1, 0));
        // The Service was written after the bitmap was read, whose bit is set by now.
        report.record_repair(0, RepairOutcome::Done { set: &[], cleared: &[] }).expect("a bitmap");
        assert_eq!(disagreements(&report), [(Subject::ServiceCidr(1), "10.0.0.4".into())]);
        let mut report = pass();
        let cleared = "10.0.0.4".parse().map(crate::any::AnyValue::Address).expect("an address");
        report.record_repair(0, RepairOutcome::Done { set: &[], cleared: &[cleared] }).expect("a bitmap");
        assert_eq!(disagreements(&report).len(), 1, "it was found and repaired");
        assert_eq!(stays(&report), [false, false]);
    }

    #[test]
    fn where_leaks_are_kept_only_what_the_bitmap_records_alone_is_cleared() {
        let two = std::num::NonZeroU8::new(2).expect("not 0");
        let (foreign, leaked) =
            (IpAddressObject { managed_by: "another", ..object("10.0.0.6", 1) }, object("10.0.0.3", 1));
        // Bits 0 (used), 2 (a leaked object), 3 and 4 (nothing has them), 5 (another controller's object).
        let first =
            || audit(0b11_1101, STILL, &[object("10.0.0.1", 1), leaked, foreign], &["10.0.0.1"], Leaks::CleanAtOnce);
        assert_eq!(first().bitmap(0).expect("it is written").next().snapshot(), [0b10_0001]);
        for (object_of, service, next) in
            [(None, None, 0b10_0101), (Some("10.0.0.5"), None, 0b11_0101), (None, Some("10.0.0.5"), 0b11_0101)]
        {
            let mut counters = RepairCounters::new(two).keeping_leaks();
            let mut pass = |object_of: Option<&'static str>, service: Option<&'static str>| {
                let created = object_of.map(|name| object(name, WRITTEN));
                let objects: Vec<_> = [object("10.0.0.1", 1), leaked, foreign].into_iter().chain(created).collect();
                let services: Vec<_> = std::iter::once("10.0.0.1").chain(service).collect();
                let report = audit(0b11_1101, STILL, &objects, &services, Leaks::Keep(&mut counters));
                report.bitmap(0).expect("it is written").next().snapshot().to_vec()
            };
            assert_eq!(pass(None, None), [0b11_1101], "one look is not enough");
            assert_eq!(pass(object_of, service), [next], "object {object_of:?}, Service {service:?}");
        }
    }

    #[test]
    fn only_bitmaps_of_cluster_ips_are_compared() {
        let revisions = BitmapRevisions { written: 1, upgraded: None };
        let mut of_bitmaps = Audit::new();
        assert_eq!(of_bitmaps.compare_bitmap(0, revisions), Err(AddObjectError::InBitmaps));
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_node_ports("30000-30001".parse().expect("ports"), Stored::default()).expect("nothing is stored");
        assert_eq!(audit.compare_bitmap(0, revisions), Err(AddObjectError::NoBitmap(0)));
        audit.observe(&Service::default());
        assert_eq!(audit.compare_bitmap(0, revisions), Err(AddObjectError::AfterServices));
    }
}
