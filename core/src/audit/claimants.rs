//! The Services that claim one value together, and which of them keeps it.
//!
//! An audit keeps no owners of values. If it finds that a value is claimed more than once, all Services are observed a
//! second time, with their names and creation times.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::finding::{Finding, FoundValue, Reason, Subject};
use crate::service::Service;

use super::Report;

/// A Service that claims a value that is claimed more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The Service, by its place among those that were observed: 0 is the first.
    pub service: u64,
    /// Whether it keeps the value: the Service that the IPAddress object of an address refers to does, as the object
    /// says to whom the address was given last. The others that claim the address may have been deleted and have come
    /// back, and keep no port either that another Service claims. Else the oldest Service does, by
    /// `metadata.creationTimestamp`. Services without a time count as the youngest. Of several with one time, the one
    /// that an object refers to keeps the value; or else the one with the lowest create revision; or else the first by
    /// namespace and name.
    pub keeps: bool,
    /// Whether only the names decide that it keeps the value, or that another one does: it may as well be the other way
    /// round.
    pub tied: bool,
}

/// A claim. The claims of a value are sorted by these fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    age: Age,
    namespace: String,
    name: String,
    service: u64,
}

/// What decides which Service keeps a value: whether an IPAddress object says that an address of the Service is that of
/// another one, unknown time, time, whether an object refers to the Service, create revision.
type Age = (bool, bool, i64, Reverse<bool>, u64);

/// The second look at all Services, in the order of the first one.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    of: HashMap<FoundValue, Vec<Claim>>,
    services: u64,
}

fn is_duplicate(finding: &Finding) -> bool {
    matches!(finding.reason, Reason::ClusterIpAlreadyAllocated | Reason::PortAlreadyAllocated)
}

impl Claims {
    fn observe(&mut self, service: &Service<'_>, referred: &HashMap<IpAddr, u64>) {
        let addresses = service.addresses();
        // Of the addresses that several Services claim.
        let parents = || addresses.clone().filter_map(|address| referred.get(&address));
        let is_referred = parents().any(|parent| *parent == self.services);
        let is_refuted = parents().any(|parent| *parent != self.services);
        for value in addresses.clone().map(FoundValue::Address).chain(service.node_ports().map(FoundValue::Port)) {
            if let Some(claims) = self.of.get_mut(&value) {
                let (namespace, name) = (service.namespace.into(), service.name.into());
                let has_it =
                    matches!(value, FoundValue::Address(address) if referred.get(&address) == Some(&self.services));
                let age = (
                    is_refuted && !has_it,
                    service.created == 0,
                    service.created,
                    Reverse(is_referred),
                    service.create_revision,
                );
                claims.push(Claim { age, namespace, name, service: self.services });
            }
        }
        self.services += 1;
    }
}

/// Why a Service cannot be observed a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the audit has observed {0} Services, and all of them were observed a second time")]
pub struct AllObserved(pub u64);

impl Report {
    /// Observes one of the Services of the audit a second time, in the same order, with its name and creation time.
    /// After the last one, each finding about a value that is claimed more than once is about a Service that does not
    /// keep it, findings are sorted by subject, and [`claimants`](Self::claimants) returns all Services that claim it.
    ///
    /// # Errors
    /// If all of them were observed.
    pub fn observe_claimant(&mut self, service: &Service<'_>) -> Result<(), AllObserved> {
        let claims = self.claims.get_or_insert_with(|| {
            let values = self.findings.iter().filter(|finding| is_duplicate(finding));
            Claims { of: values.map(|finding| (finding.value.clone(), Vec::new())).collect(), services: 0 }
        });
        if claims.services == self.services {
            return Err(AllObserved(self.services));
        }
        claims.observe(service, &self.referred);
        if claims.services == self.services {
            let of = std::mem::take(&mut claims.of);
            self.name_claimants(of);
        }
        Ok(())
    }

    /// All claims of a value but that of the Service that keeps it have a finding.
    fn name_claimants(&mut self, of: HashMap<FoundValue, Vec<Claim>>) {
        let mut about: HashMap<FoundValue, Vec<usize>> = HashMap::with_capacity(of.len());
        for (place, finding) in self.findings.iter().enumerate().filter(|(_, finding)| is_duplicate(finding)) {
            about.entry(finding.value.clone()).or_default().push(place);
        }
        for (value, mut claims) in of {
            claims.sort_unstable();
            // A Service can have a port twice, for two protocols.
            let mut services: Vec<&Claim> = claims.iter().collect();
            services.dedup_by_key(|claim| claim.service);
            // They are sorted by age.
            let tied_age = match services.as_slice() {
                [first, second, ..] if first.age == second.age => Some(first.age),
                _ => None,
            };
            let claimants = services.iter().enumerate().map(|(place, claim)| Claimant {
                service: claim.service,
                keeps: place == 0,
                tied: tied_age == Some(claim.age),
            });
            let claimants: Vec<_> = claimants.collect();
            for (place, claim) in about.remove(&value).unwrap_or_default().into_iter().zip(claims.iter().skip(1)) {
                self.findings[place].subject = Subject::Service(claim.service);
            }
            self.claimants.insert(value, claimants);
        }
        self.findings.sort_by_key(|finding| finding.subject);
    }

    /// The Services that claim the value of a finding, the one that keeps it first, then by age; none unless the
    /// finding is that the value is claimed more than once and all Services were observed a second time.
    pub fn claimants(&self, finding: &Finding) -> &[Claimant] {
        if !is_duplicate(finding) {
            return &[];
        }
        self.claimants.get(&finding.value).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Leaks, Stored};
    use crate::ipaddress::{ALLOCATOR, IpAddressObject};
    use crate::service::ServicePort;
    use crate::service_cidr::ServiceCidr;

    /// Creation time, name, address, port.
    type Row = (i64, &'static str, &'static str, i32);

    fn with_service(row: &Row, mut each: impl FnMut(&Service<'_>)) {
        let (created, name, cluster_ip, node_port) = *row;
        let ports = [ServicePort { protocol: "TCP", node_port }];
        each(&Service { namespace: "ns", name, created, cluster_ip, ports: &ports, ..Service::default() });
    }

    fn settled(mut audit: Audit, rows: &[Row]) -> Report {
        rows.iter().for_each(|row| with_service(row, |service| audit.observe(service)));
        let mut report = audit.finish(Leaks::CleanAtOnce);
        let once: Vec<_> = report.findings.iter().map(|finding| report.claimants(finding).len()).collect();
        assert!(once.iter().all(|count| *count == 0), "{once:?} before the second look");
        for row in rows {
            with_service(row, |service| assert_eq!(report.observe_claimant(service), Ok(())));
        }
        let all = AllObserved(rows.len() as u64);
        assert_eq!(report.observe_claimant(&Service::default()), Err(all));
        report
    }

    /// Value, name of the subject, and of the claimants, for each value that is claimed more than once.
    fn found(report: &Report, rows: &[Row]) -> Vec<(String, &'static str, Vec<&'static str>)> {
        let name = |service: u64| rows[service as usize].1;
        let duplicates = report.findings.iter().filter(|finding| is_duplicate(finding));
        let about = duplicates.map(|finding| {
            let Subject::Service(subject) = finding.subject else { panic!("{finding:?}") };
            let claimants = report.claimants(finding);
            assert!(claimants.iter().enumerate().all(|(place, claimant)| claimant.keeps == (place == 0)));
            let names = claimants.iter().map(|claimant| name(claimant.service)).collect();
            (finding.value.to_string(), name(subject), names)
        });
        about.collect()
    }

    fn of_bitmaps() -> Audit {
        let mut audit = Audit::new();
        let range = "10.0.0.0/24";
        audit.add_cluster_ips(range.parse().expect("a CIDR"), Stored { range, data: &[] }).expect("no bits");
        audit.add_node_ports("30000-30009".parse().expect("ports"), Stored::default()).expect("no bits");
        audit
    }

    #[test]
    fn the_oldest_service_keeps_a_value() {
        let rows = [
            (7, "aa-new", "10.0.0.1", 30_001),
            (0, "unknown", "10.0.0.1", 0),
            (4, "zz-payments", "10.0.0.1", 30_001),
            (1, "other", "10.0.0.2", 0),
            (5, "b", "10.0.0.3", 0),
            (5, "a", "10.0.0.3", 0),
        ];
        let of_three = vec!["zz-payments", "aa-new", "unknown"];
        let expected = [
            ("10.0.0.1".into(), "aa-new", of_three.clone()),
            ("30001".into(), "aa-new", vec!["zz-payments", "aa-new"]),
            ("10.0.0.1".into(), "unknown", of_three),
            ("10.0.0.3".into(), "b", vec!["a", "b"]),
        ];
        assert_eq!(found(&settled(of_bitmaps(), &rows), &rows), expected);
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_service_cidr("10.0.0.0/24".parse::<ServiceCidr>().expect("a CIDR"), true).expect("no Service");
        let expected: Vec<_> = expected.into_iter().filter(|(value, ..)| value != "30001").collect();
        assert_eq!(found(&settled(audit, &rows), &rows), expected);
    }

    #[test]
    fn the_service_that_the_object_refers_to_keeps_an_address() {
        let rows = [(5, "a", "10.0.0.3", 0), (5, "b", "10.0.0.3", 0), (4, "d", "10.0.0.4", 0), (5, "c", "10.0.0.4", 0)];
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_service_cidr("10.0.0.0/24".parse::<ServiceCidr>().expect("a CIDR"), true).expect("no Service");
        for (name, parent_name) in [("10.0.0.3", "b"), ("10.0.0.4", "c")] {
            let object = IpAddressObject {
                name,
                managed_by: ALLOCATOR,
                parent_resource: "services",
                parent_namespace: "ns",
                parent_name,
                ..IpAddressObject::default()
            };
            audit.observe_ip_address(&object).expect("no Service");
        }
        // d is the older one, and the object is younger than both.
        let expected = [("10.0.0.3".into(), "a", vec!["b", "a"]), ("10.0.0.4".into(), "d", vec!["c", "d"])];
        assert_eq!(found(&settled(audit, &rows), &rows), expected);
    }

    /// Or else the advice for two copies of a Service would be to keep one for its address, and the other one for its
    /// port.
    #[test]
    fn the_other_services_lose_the_ports_as_well() {
        let rows = [(4, "a", "10.0.0.3", 30_001), (6, "b", "10.0.0.3", 30_001), (5, "c", "10.0.0.4", 30_001)];
        let mut audit = Audit::of_ip_addresses(None);
        audit.add_service_cidr("10.0.0.0/24".parse::<ServiceCidr>().expect("a CIDR"), true).expect("no Service");
        audit.add_node_ports("30000-30009".parse().expect("ports"), Stored::default()).expect("no bits");
        let object = IpAddressObject {
            name: "10.0.0.3",
            managed_by: ALLOCATOR,
            parent_resource: "services",
            parent_namespace: "ns",
            parent_name: "b",
            ..IpAddressObject::default()
        };
        audit.observe_ip_address(&object).expect("no Service");
        let expected = [
            ("10.0.0.3".into(), "a", vec!["b", "a"]),
            // The object says nothing about c, which is older than b.
            ("30001".into(), "a", vec!["c", "b", "a"]),
            ("30001".into(), "b", vec!["c", "b", "a"]),
        ];
        assert_eq!(found(&settled(audit, &rows), &rows), expected);
    }

    #[test]
    fn of_services_of_one_second_the_first_revision_keeps_a_value() {
        for (revisions, kept, tied) in [
            ([9, 7, 8], 1, vec![false; 3]),
            ([0, 0, 0], 0, vec![true, true, true]),
            ([7, 7, 8], 0, vec![true, true, false]),
        ] {
            let ports = [ServicePort { protocol: "TCP", node_port: 30_001 }];
            let services = ["a", "b", "c"].into_iter().zip(revisions).map(|(name, create_revision)| Service {
                name,
                created: 5,
                create_revision,
                ports: &ports,
                ..Service::default()
            });
            let mut audit = of_bitmaps();
            services.clone().for_each(|service| audit.observe(&service));
            let mut report = audit.finish(Leaks::CleanAtOnce);
            services.for_each(|service| report.observe_claimant(&service).expect("one of the three"));
            let finding = report.findings.iter().find(|finding| is_duplicate(finding)).expect("a duplicate").clone();
            let claimants = report.claimants(&finding);
            assert_eq!(claimants[0].service, kept);
            assert_eq!(claimants.iter().map(|claimant| claimant.tied).collect::<Vec<_>>(), tied, "{revisions:?}");
        }
    }

    #[test]
    fn a_service_can_claim_a_port_twice() {
        let mut audit = of_bitmaps();
        let ports = [30_002; 2].map(|node_port| ServicePort { protocol: "TCP", node_port });
        let service = Service { name: "twice", ports: &ports, ..Service::default() };
        audit.observe(&service);
        let mut report = audit.finish(Leaks::CleanAtOnce);
        report.observe_claimant(&service).expect("the first one");
        let duplicates: Vec<_> = report.findings.iter().filter(|finding| is_duplicate(finding)).collect();
        assert_eq!(duplicates.len(), 1);
        assert_eq!(report.claimants(duplicates[0]), [Claimant { service: 0, keeps: true, tied: false }]);
    }
}
