//! The check that a cluster has the ranges that an audit of it needs.

use std::fmt::{self, Display};

use crate::finding::{Finding, FoundValue, Reason, Subject};

use super::Audit;
use super::objects::Objects;

/// A range that kube-apiserver stores as a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoredBitmap {
    /// The primary range of ClusterIPs.
    ServiceIps,
    /// The range of the other IP family in a dual-stack cluster.
    SecondaryServiceIps,
    /// The range of node ports.
    ServiceNodePorts,
}

impl StoredBitmap {
    /// The last segment of its key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceIps => "serviceips",
            Self::SecondaryServiceIps => "secondaryserviceips",
            Self::ServiceNodePorts => "servicenodeports",
        }
    }
}

impl Display for StoredBitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a bitmap's stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// There is no object.
    Missing,
    /// There is an object without a range, which no kube-apiserver has initialised yet.
    Uninitialised,
    /// There is an object with a range.
    Initialised,
    /// There is an object that cannot be read.
    Unreadable,
    /// The source does not show whether there is an object, as the Kubernetes API does not.
    Unseen,
}

/// The states of the stored bitmaps of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmaps {
    /// [`StoredBitmap::ServiceIps`].
    pub service_ips: Presence,
    /// [`StoredBitmap::SecondaryServiceIps`].
    pub secondary_service_ips: Presence,
    /// [`StoredBitmap::ServiceNodePorts`].
    pub service_node_ports: Presence,
    /// As that of [`BitmapRevisions`](super::BitmapRevisions): since then servers that record ClusterIPs in objects
    /// read no bitmap of them.
    pub upgraded: Option<u64>,
}

/// The name of the ServiceCIDR object that a kube-apiserver creates for its --service-cluster-ip-range.
const DEFAULT_SERVICE_CIDR: &str = "kubernetes";

/// Why a cluster cannot be repaired by an audit. `Display` writes a message for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuditable {
    /// Objects of the cluster could not be read. They may use or record any value, so a repair could free it.
    #[error("{objects} cannot be read, and may use or record any value", objects = count_of(.objects))]
    Unreadable {
        /// How many there are.
        objects: u64,
    },
    /// Values are recorded, and the Services that use them are not there: leaks and values in use cannot be
    /// distinguished. A cluster has the `kubernetes` Service at least, so its Services must be stored elsewhere
    /// (`--etcd-servers-overrides=/services#...`).
    #[error(
        "the Services are not stored here, and {recorded} recorded as allocated{NO_TELLING}",
        recorded = values_are(.recorded)
    )]
    NoServices {
        /// How many values are recorded, in bitmaps and IPAddress objects.
        recorded: u64,
    },
}

const NO_TELLING: &str = ", so leaks and values in use cannot be distinguished";

fn count_of(count: &u64) -> String {
    if *count == 1 { "1 object".into() } else { format!("{count} objects") }
}

fn values_are(count: &u64) -> String {
    if *count == 1 { "1 value is".into() } else { format!("{count} values are") }
}

impl Audit {
    /// Says, once all Services were observed, in which states the stored bitmaps of the whole cluster are. A range that
    /// is missing though there are Services is a finding, and so is one that servers read and cannot decode. A
    /// kube-apiserver sets its ranges up when it starts, whether or not a Service has a value of them. All else is
    /// judged without it. An audit of some of the ranges needs no such check. If leaks are cleaned after it, as
    /// `cleans_leaks` says, it needs Services, too. Then, and in a [`RepairPass`](crate::commit::RepairPass), all
    /// objects must have been readable. The last call counts.
    ///
    /// If IPAddress objects refer to Services, and none of these is stored beside them, or nearly none of many, the
    /// Services are stored elsewhere, whatever is cleaned. An audit that goes on after the error finds no leak and
    /// nothing about these objects, and changes none. Where bitmaps are [`Unseen`](Presence::Unseen) the source is an
    /// API, which shows all Services.
    ///
    /// If more Services could not be read than could, as where they are encrypted at rest, leaks and values in use
    /// cannot be distinguished either. Then an audit that goes on after the error counts all recorded values as in use.
    /// If it is so of IPAddress objects, it finds no address that is not recorded.
    ///
    /// # Errors
    /// If a repair would free values in use, for lack of Services or of objects that could not be read.
    pub fn check_cluster(&mut self, bitmaps: Bitmaps, cleans_leaks: bool) -> Result<(), NotAuditable> {
        self.lacking = self.lacking_ranges(bitmaps);
        let recorded = self.recorded();
        if let Some(objects) = &mut self.objects
            && self.unreadable_services == 0
            && bitmaps.service_node_ports != Presence::Unseen
            && objects.lack_services(self.services)
        {
            objects.leave_unjudged();
            return Err(NotAuditable::NoServices { recorded });
        }
        let is_most = |unreadable: u64, readable: u64| unreadable > readable;
        let lacks_services = is_most(self.unreadable_services, self.services);
        if lacks_services {
            self.unjudged = true;
            self.objects.iter_mut().for_each(Objects::leave_unjudged);
        }
        let lacks_objects =
            self.objects.as_ref().is_some_and(|objects| is_most(self.unreadable_addresses, objects.len() as u64));
        if lacks_objects {
            self.objects.iter_mut().for_each(Objects::lack_objects);
        }
        if self.unreadable > 0 && (cleans_leaks || self.is_of_pass() || lacks_services || lacks_objects) {
            return Err(NotAuditable::Unreadable { objects: self.unreadable });
        }
        if !cleans_leaks || self.services > 0 {
            return Ok(());
        }
        match recorded {
            0 => Ok(()),
            recorded => Err(NotAuditable::NoServices { recorded }),
        }
    }

    /// The findings about ranges that the audit lacks.
    fn lacking_ranges(&self, bitmaps: Bitmaps) -> Vec<Finding> {
        let Bitmaps { service_ips, secondary_service_ips, service_node_ports, upgraded } = bitmaps;
        let find = |reason, bitmap: StoredBitmap, name: &str| Finding {
            reason,
            range: None,
            subject: Subject::Stored(bitmap),
            value: FoundValue::Text(name.into()),
            valid: None,
            outside: None,
        };
        let not_readable = |bitmap: StoredBitmap| find(Reason::RangeNotReadable, bitmap, bitmap.as_str());
        let missing = |bitmap: StoredBitmap| find(Reason::RangeMissing, bitmap, bitmap.as_str());
        let has_services = self.services + self.unreadable_services > 0;
        let mut found = Vec::new();
        // Servers that record ClusterIPs in objects alone do not read the bitmaps that an upgrade has left over.
        if self.objects.is_none() || upgraded.is_none() {
            let of_addresses =
                [(StoredBitmap::ServiceIps, service_ips), (StoredBitmap::SecondaryServiceIps, secondary_service_ips)];
            let damaged = of_addresses.into_iter().filter(|(_, presence)| *presence == Presence::Unreadable);
            found.extend(damaged.map(|(bitmap, _)| not_readable(bitmap)));
        }
        match &self.objects {
            Some(objects) if has_services && !objects.has_cidrs() && !objects.lacks_cidr() => {
                found.push(find(Reason::RangeMissing, StoredBitmap::ServiceIps, DEFAULT_SERVICE_CIDR));
            }
            None if has_services => match service_ips {
                Presence::Missing | Presence::Uninitialised => found.push(missing(StoredBitmap::ServiceIps)),
                Presence::Initialised
                    if secondary_service_ips == Presence::Uninitialised && self.without_addresses > 0 =>
                {
                    found.push(missing(StoredBitmap::SecondaryServiceIps));
                }
                // The addresses are those of a damaged bitmap.
                Presence::Initialised | Presence::Unreadable | Presence::Unseen => {}
            },
            _ => {}
        }
        match service_node_ports {
            Presence::Unreadable => found.push(not_readable(StoredBitmap::ServiceNodePorts)),
            Presence::Missing | Presence::Uninitialised if has_services => {
                found.push(missing(StoredBitmap::ServiceNodePorts));
            }
            Presence::Missing | Presence::Uninitialised | Presence::Initialised | Presence::Unseen => {}
        }
        found
    }

    /// How many values are recorded in bitmaps that are compared with the Services, and in IPAddress objects.
    fn recorded(&self) -> u64 {
        let cidrs = [&self.ipv4, &self.ipv6].into_iter().flatten().map(|pass| pass.stored().count());
        let bits: u64 = cidrs.chain(self.ports.iter().map(|pass| pass.stored().count())).map(u64::from).sum();
        bits + self.objects.as_ref().map_or(0, |objects| objects.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Stored;
    use crate::audit::objects::tests::object;
    use crate::service::{Service, ServicePort};

    use Presence::{Initialised, Missing, Uninitialised, Unreadable, Unseen};

    fn bitmaps(service_ips: Presence, secondary_service_ips: Presence, service_node_ports: Presence) -> Bitmaps {
        Bitmaps { service_ips, secondary_service_ips, service_node_ports, upgraded: None }
    }

    fn refused(audit: &mut Audit, bitmaps: Bitmaps) -> String {
        audit.check_cluster(bitmaps, true).map_or_else(|error| error.to_string(), |()| "fine".into())
    }

    /// The findings about ranges that are not there, as their reason and name.
    fn lacking(mut audit: Audit, bitmaps: Bitmaps) -> Vec<String> {
        audit.check_cluster(bitmaps, false).expect("leaks are only reported");
        let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
        let of_ranges = report.findings.iter().filter(|finding| matches!(finding.subject, Subject::Stored(_)));
        of_ranges.map(|finding| format!("{} {}", finding.reason, finding.value)).collect()
    }

    fn lacking_of(audit: &Audit, bitmaps: Bitmaps) -> Vec<String> {
        audit.lacking_ranges(bitmaps).iter().map(|finding| finding.value.to_string()).collect()
    }

    const PORT: [ServicePort<'static>; 1] = [ServicePort { protocol: "TCP", node_port: 30_000 }];

    fn of(mut audit: Audit, addresses: &[&str]) -> Audit {
        for cluster_ip in addresses {
            audit.observe(&Service { cluster_ip, ports: &PORT, ..Service::default() });
        }
        audit
    }

    /// With a Service that has no value of any range.
    fn without_values(mut audit: Audit) -> Audit {
        audit.observe(&Service { cluster_ip: "None", ..Service::default() });
        audit
    }

    fn with_range(range: &str) -> Audit {
        let mut audit = Audit::new();
        audit.without_cluster_ip_ranges();
        audit.add_cluster_ips(range.parse().expect("a CIDR"), Stored::default()).expect("nothing is stored");
        audit
    }

    #[test]
    fn a_range_that_services_need_is_missing() {
        let none = || {
            let mut audit = Audit::new();
            audit.without_cluster_ip_ranges();
            audit
        };
        let (v4, v6) = ("10.0.0.1", "fd00::1");
        for (audit, stored, expected) in [
            (none(), bitmaps(Missing, Missing, Missing), vec![]),
            (
                of(none(), &["None"]),
                bitmaps(Missing, Missing, Missing),
                vec!["RangeMissing serviceips", "RangeMissing servicenodeports"],
            ),
            (without_values(none()), bitmaps(Unseen, Unseen, Missing), vec!["RangeMissing servicenodeports"]),
            (without_values(none()), bitmaps(Unseen, Unseen, Uninitialised), vec!["RangeMissing servicenodeports"]),
            (without_values(none()), bitmaps(Uninitialised, Missing, Initialised), vec!["RangeMissing serviceips"]),
            (without_values(none()), bitmaps(Unseen, Unseen, Unseen), vec![]),
            (
                without_values(Audit::of_ip_addresses(None)),
                bitmaps(Missing, Missing, Initialised),
                vec!["RangeMissing kubernetes"],
            ),
            (of(none(), &[v4]), bitmaps(Missing, Missing, Initialised), vec!["RangeMissing serviceips"]),
            (of(none(), &[v4]), bitmaps(Uninitialised, Missing, Initialised), vec!["RangeMissing serviceips"]),
            (of(with_range("10.0.0.0/24"), &[v4]), bitmaps(Initialised, Uninitialised, Initialised), vec![]),
            (
                of(with_range("10.0.0.0/24"), &[v4, v6]),
                bitmaps(Initialised, Uninitialised, Initialised),
                vec!["RangeMissing secondaryserviceips"],
            ),
            (
                of(with_range("fd00::/120"), &[v4, v6]),
                bitmaps(Missing, Initialised, Initialised),
                vec!["RangeMissing serviceips"],
            ),
            (
                of(with_range("10.0.0.0/24"), &[v4, v6]),
                bitmaps(Initialised, Unreadable, Unreadable),
                vec!["RangeNotReadable secondaryserviceips", "RangeNotReadable servicenodeports"],
            ),
            (of(none(), &[v4]), bitmaps(Unreadable, Missing, Initialised), vec!["RangeNotReadable serviceips"]),
            (of(none(), &[v4]), bitmaps(Unseen, Unseen, Unseen), vec![]),
        ] {
            assert_eq!(lacking(audit, stored), expected, "{stored:?}");
        }
    }

    #[test]
    fn a_bitmap_that_no_server_reads_is_no_fault() {
        let with_cidr = || {
            let mut audit = Audit::of_ip_addresses(None);
            audit.add_service_cidr("10.0.0.0/24".parse().expect("a CIDR"), true).expect("no Service");
            of(audit, &["10.0.0.1"])
        };
        let damaged = bitmaps(Unreadable, Missing, Initialised);
        assert_eq!(lacking(with_cidr(), damaged), ["RangeNotReadable serviceips"], "1.33 writes both");
        assert_eq!(lacking(with_cidr(), Bitmaps { upgraded: Some(7), ..damaged }), [""; 0]);
        let without = of(Audit::of_ip_addresses(None), &["10.0.0.1"]);
        let upgraded = Bitmaps { upgraded: Some(7), ..bitmaps(Missing, Missing, Initialised) };
        assert_eq!(lacking(without, upgraded), ["RangeMissing kubernetes"], "the ServiceCIDR");
    }

    /// What a lost range does not decide is judged without it.
    #[test]
    fn without_a_range_duplicates_and_the_other_ranges_are_found() {
        let mut audit = with_range("10.0.0.0/24");
        audit.add_unseen("30000-30009".parse().expect("ports"), &[]).expect("the first range of ports");
        let mut audit = of(audit, &["10.0.0.1", "10.0.1.1", "fd00::1", "fd00::1", "10.0.0.x"]);
        audit.check_cluster(bitmaps(Initialised, Unreadable, Missing), false).expect("leaks are only reported");
        let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
        let found: Vec<_> =
            report.findings.iter().map(|finding| format!("{} {}", finding.reason, finding.value)).collect();
        assert_eq!(
            found,
            [
                "ClusterIPNotAllocated 10.0.0.1",
                "ClusterIPOutOfRange 10.0.1.1",
                "PortAlreadyAllocated 30000",
                "PortAlreadyAllocated 30000",
                "ClusterIPAlreadyAllocated fd00::1",
                "PortAlreadyAllocated 30000",
                "ClusterIPNotValid 10.0.0.x",
                "PortAlreadyAllocated 30000",
                "RangeNotReadable secondaryserviceips",
                "RangeMissing servicenodeports",
            ]
        );
    }

    #[test]
    fn without_a_service_cidr_a_second_claim_of_an_address_is_found() {
        let mut audit = of(Audit::of_ip_addresses(None), &["10.0.0.1", "10.0.0.2", "10.0.0.1"]);
        let found = audit.check_cluster(bitmaps(Missing, Missing, Initialised), false);
        assert_eq!(found, Ok(()));
        let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
        let found: Vec<_> =
            report.findings.iter().map(|finding| format!("{} {}", finding.reason, finding.value)).collect();
        assert_eq!(found, ["ClusterIPAlreadyAllocated 10.0.0.1", "RangeMissing kubernetes"]);
    }

    #[test]
    fn unreadable_objects_keep_a_repair_from_writing() {
        let all = bitmaps(Missing, Missing, Missing);
        let mut objects = Audit::of_ip_addresses(None);
        objects.observe(&Service { cluster_ip: "10.0.0.1", ..Service::default() });
        objects.observe_unreadable(crate::audit::Unreadable::ServiceCidr);
        assert_eq!(refused(&mut objects, all), "1 object cannot be read, and may use or record any value");
        objects.of_pass(Default::default());
        assert_eq!(objects.check_cluster(all, false), Err(NotAuditable::Unreadable { objects: 1 }));
        assert_eq!(
            lacking_of(&objects, all),
            ["servicenodeports"],
            "the address may be in the CIDR that cannot be read"
        );
    }

    /// An etcd from which the Services have moved away, but for one that was left behind.
    #[test]
    fn objects_of_which_nearly_all_services_are_stored_elsewhere_are_not_judged() {
        let audit = |missing: usize, there: usize| {
            let mut audit = Audit::of_ip_addresses(None);
            audit.add_service_cidr("10.0.0.0/24".parse().expect("a CIDR"), true).expect("no Service yet");
            let places =
                || (0..missing + there).map(|place| (place, format!("10.0.0.{}", place + 1), format!("web{place}")));
            for (_, address, service) in places() {
                audit.observe_ip_address(&object(&address, &service)).expect("an audit of IPAddress objects");
            }
            for (_, address, name) in places().filter(|(place, ..)| *place >= missing) {
                audit.observe(&Service { namespace: "ns", name: &name, cluster_ip: &address, ..Service::default() });
            }
            audit
        };
        for (missing, there, elsewhere) in [(9, 1, false), (10, 1, true), (10, 2, false), (18, 2, true), (17, 2, false)]
        {
            let mut audit = audit(missing, there);
            let verdict = audit.check_cluster(bitmaps(Missing, Missing, Initialised), false);
            assert_eq!(verdict.is_err(), elsewhere, "{missing} of {}", missing + there);
            let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
            let leaks = if elsewhere { 0 } else { missing };
            assert_eq!((report.leaks().count(), report.object_repairs.len()), (leaks, leaks));
        }
    }

    #[test]
    fn objects_whose_services_are_stored_elsewhere_are_not_judged() {
        let objects = || {
            let mut audit = Audit::of_ip_addresses(None);
            audit.add_service_cidr("10.0.0.0/24".parse().expect("a CIDR"), true).expect("no Service yet");
            for (name, service) in [("10.0.0.1", "kubernetes"), ("10.0.0.2", "web"), ("10.0.0.03", "")] {
                audit.observe_ip_address(&object(name, service)).expect("an audit of IPAddress objects");
            }
            audit
        };
        let none = bitmaps(Missing, Missing, Missing);
        for cleans_leaks in [false, true] {
            let mut audit = objects();
            let refused = audit.check_cluster(none, cleans_leaks);
            assert_eq!(refused, Err(NotAuditable::NoServices { recorded: 3 }));
            let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
            assert_eq!((report.findings.len(), report.leaks().count(), report.object_repairs.len()), (0, 0, 0));
            let counts = report.ranges[0].counts();
            assert_eq!((counts.stored, counts.next, counts.clear), (2, 2, 0), "{counts:?}");
        }
        // An API shows all Services, one of these is not readable, and one is there.
        let mut lost = objects();
        assert_eq!(lost.check_cluster(bitmaps(Unseen, Unseen, Unseen), false), Ok(()));
        assert_eq!(lost.finish(crate::audit::Leaks::CleanAtOnce).leaks().count(), 2);
        let mut unreadable = objects();
        unreadable.observe_unreadable(crate::audit::Unreadable::Service);
        assert_eq!(unreadable.check_cluster(none, false), Err(NotAuditable::Unreadable { objects: 1 }));
        let mut with_service = objects();
        with_service.observe(&Service { namespace: "ns", name: "web", cluster_ip: "10.0.0.2", ..Service::default() });
        assert_eq!(with_service.check_cluster(none, true), Ok(()));
        assert_eq!(with_service.finish(crate::audit::Leaks::CleanAtOnce).leaks().count(), 1);
    }

    #[test]
    fn without_most_services_no_value_is_leaked() {
        let cidr = "10.0.0.0/29";
        for (readable, unreadable, leaked) in [(3, 1, true), (1, 1, true), (0, 1, false), (1, 2, false), (2, 3, false)]
        {
            for by_objects in [false, true] {
                let mut audit = if by_objects { Audit::of_ip_addresses(None) } else { Audit::new() };
                let bits = Stored { range: cidr, data: &[0b11_1111] };
                audit.add_cluster_ips(cidr.parse().expect("a CIDR"), bits).expect("in range");
                let ports = Stored { range: "30000-30009", data: &[0b11] };
                audit.add_node_ports("30000-30009".parse().expect("ports"), ports).expect("in range");
                if by_objects {
                    audit.add_service_cidr(cidr.parse().expect("a CIDR"), true).expect("no Service yet");
                    let written = super::super::BitmapRevisions { written: 7, upgraded: None };
                    audit.compare_bitmap(0, written).expect("a bitmap of ClusterIPs");
                    for name in ["10.0.0.1", "10.0.0.6"] {
                        audit.observe_ip_address(&object(name, name)).expect("an audit of IPAddress objects");
                    }
                }
                // The same port twice is found whatever cannot be read.
                for name in ["10.0.0.1", "", "a"].into_iter().take(readable) {
                    let cluster_ip = if name == "10.0.0.1" { name } else { "None" };
                    audit.observe(&Service { namespace: "ns", name, cluster_ip, ports: &PORT, ..Service::default() });
                }
                for _ in 0..unreadable {
                    audit.observe_unreadable(crate::audit::Unreadable::Service);
                }
                let all = bitmaps(Initialised, Missing, Initialised);
                let expected = if leaked { Ok(()) } else { Err(NotAuditable::Unreadable { objects: unreadable }) };
                assert_eq!(audit.check_cluster(all, false), expected);
                let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
                let case = format!("{readable} and {unreadable}, {by_objects}");
                assert_eq!(report.leaks().count() > 0, leaked, "{case}");
                let alone = report.findings.iter().any(|finding| finding.reason == Reason::BitmapDisagrees);
                assert_eq!(alone, leaked && by_objects, "{case}: {:?}", report.findings);
                let twice = report.findings.iter().filter(|found| found.reason == Reason::PortAlreadyAllocated).count();
                assert_eq!(twice, readable.saturating_sub(1), "{case}");
                for range in &report.ranges {
                    let counts = range.counts();
                    assert_eq!(counts.clear, 0, "{case}: {counts:?}");
                    assert_eq!(counts.leaked > 0, leaked, "{case}: {counts:?}");
                    assert!(range.occupancy(1).all(|cell| (cell.leaked > 0) == leaked), "{case}");
                }
                assert_eq!(report.object_repairs().count(), 0, "{case}");
            }
        }
    }

    #[test]
    fn without_most_objects_no_address_lacks_one() {
        for (readable, unreadable, expected) in [(2, 1, true), (1, 1, true), (1, 2, false), (0, 1, false)] {
            let mut audit = Audit::of_ip_addresses(None);
            audit.add_service_cidr("10.0.0.0/24".parse().expect("a CIDR"), true).expect("no Service yet");
            for name in ["10.0.0.8", "10.0.0.9"].into_iter().take(readable) {
                let object = crate::ipaddress::IpAddressObject { name, ..Default::default() };
                audit.observe_ip_address(&object).expect("an audit of IPAddress objects");
            }
            for name in ["one", "two", "three"] {
                let cluster_ip = if name == "three" { "10.0.0.2" } else { "10.0.0.1" };
                audit.observe(&Service { namespace: "default", name, cluster_ip, ..Service::default() });
            }
            for _ in 0..unreadable {
                audit.observe_unreadable(crate::audit::Unreadable::IpAddress(""));
            }
            let answer = audit.check_cluster(bitmaps(Missing, Missing, Initialised), false);
            assert_eq!(answer.is_ok(), expected);
            let report = audit.finish(crate::audit::Leaks::CleanAtOnce);
            let found = |reason| report.findings.iter().filter(|finding| finding.reason == reason).count();
            assert_eq!(found(Reason::ClusterIpNotAllocated), if expected { 2 } else { 0 });
            assert_eq!(found(Reason::ClusterIpAlreadyAllocated), 1);
        }
    }

    #[test]
    fn recorded_values_need_services() {
        let port_range = "30000-30001".parse().expect("ports");
        let of_bitmaps = |data: &[u8]| {
            let mut audit = Audit::new();
            let cidr = "10.0.0.0/24".parse().expect("a CIDR");
            audit.add_cluster_ips(cidr, Stored { range: "10.0.0.0/24", data }).expect("bits in the range");
            audit.add_node_ports(port_range, Stored { range: "30000-30001", data }).expect("bits in the range");
            audit
        };
        let all = bitmaps(Initialised, Missing, Initialised);
        assert_eq!(refused(&mut of_bitmaps(&[]), all), "fine", "nothing is recorded");
        let mut recorded = of_bitmaps(&[0b11]);
        assert_eq!(
            refused(&mut recorded, all),
            format!("the Services are not stored here, and 4 values are recorded as allocated{NO_TELLING}")
        );
        assert_eq!(recorded.check_cluster(all, false), Ok(()), "leaks are only reported");
        recorded.observe(&Service::default());
        assert_eq!(refused(&mut recorded, all), "fine");
        let mut objects = Audit::of_ip_addresses(None);
        let object = crate::ipaddress::IpAddressObject { name: "10.0.0.1", ..Default::default() };
        objects.observe_ip_address(&object).expect("an audit of IPAddress objects");
        let none = bitmaps(Missing, Missing, Missing);
        let one = format!("the Services are not stored here, and 1 value is recorded as allocated{NO_TELLING}");
        assert_eq!(refused(&mut objects, none), one);
        assert_eq!(objects.check_cluster(none, false), Ok(()), "leaks are only reported");
    }
}
