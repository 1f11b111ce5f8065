//! The check that a cluster has the ranges that an audit of it needs.

use std::fmt::{self, Display};

use super::Audit;
use super::objects::Objects;

/// A range that kube-apiserver stores as a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
}

/// Why a cluster cannot be audited. `Display` writes a message for people, about [`bitmap`](Self::bitmap) if it has
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuditable {
    /// One range of ClusterIPs is not initialised, though the other is: all addresses of its family would look as if
    /// they were out of range.
    #[error("the range is not initialised, though {other} is; {ADVICE}")]
    Uninitialised {
        /// The range that is not initialised.
        bitmap: StoredBitmap,
        /// The one that is.
        other: StoredBitmap,
    },
    /// The secondary range of ClusterIPs exists, and the primary one is missing.
    #[error("there is no {} beside it; {ADVICE}", StoredBitmap::ServiceIps)]
    NoPrimary,
    /// Services have values of a kind without a range: the audit would find nothing.
    #[error("{}, but {} {}; {ADVICE}", state(.is_there), services_have(.services), values(.bitmap))]
    NoRange {
        /// The missing range.
        bitmap: StoredBitmap,
        /// Whether the object exists, without being initialised.
        is_there: bool,
        /// How many Services have such values.
        services: u64,
    },
    /// Objects of the cluster could not be read. They may use or record any value, so a repair could free it.
    #[error("{objects} cannot be read, and may use or record any value", objects = count_of(.objects))]
    Unreadable {
        /// How many there are.
        objects: u64,
    },
    /// Values are recorded and there is no Service: leaks and values in use cannot be distinguished. A cluster has the
    /// `kubernetes` Service at least, so its Services must be stored elsewhere.
    #[error("there are no Services, but {recorded} recorded as allocated{NO_TELLING}", recorded = values_are(.recorded))]
    NoServices {
        /// How many values are recorded, in bitmaps and IPAddress objects.
        recorded: u64,
    },
}

const ADVICE: &str = "a kube-apiserver of this cluster sets it up when it starts";
const NO_TELLING: &str = ", so leaks and values in use cannot be distinguished";

fn count_of(count: &u64) -> String {
    if *count == 1 { "1 object".into() } else { format!("{count} objects") }
}

fn values_are(count: &u64) -> String {
    if *count == 1 { "1 value is".into() } else { format!("{count} values are") }
}

fn services_have(count: &u64) -> String {
    if *count == 1 { "1 Service has".into() } else { format!("{count} Services have") }
}

fn state(is_there: &bool) -> &'static str {
    if *is_there { "is not initialised" } else { "is missing" }
}

fn values(bitmap: &StoredBitmap) -> &'static str {
    match bitmap {
        StoredBitmap::ServiceIps | StoredBitmap::SecondaryServiceIps => "ClusterIPs",
        StoredBitmap::ServiceNodePorts => "node ports",
    }
}

impl NotAuditable {
    /// The bitmap that the message is about, if it is about one.
    pub fn bitmap(&self) -> Option<StoredBitmap> {
        match self {
            Self::Uninitialised { bitmap, .. } | Self::NoRange { bitmap, .. } => Some(*bitmap),
            Self::NoPrimary => Some(StoredBitmap::SecondaryServiceIps),
            Self::Unreadable { .. } | Self::NoServices { .. } => None,
        }
    }
}

impl Audit {
    /// Checks, once all Services were observed, that the audit of a whole cluster with these stored bitmaps has all
    /// ranges that it needs. An audit of some of the ranges needs no such check. If leaks are cleaned after it, as
    /// `cleans_leaks` says, it needs Services, too. Then, and in a [`RepairPass`](crate::commit::RepairPass), all
    /// objects must have been readable.
    ///
    /// # Errors
    /// If the audit would find nothing, or report something wrong, for lack of a range or of Services.
    pub fn check_cluster(&self, bitmaps: Bitmaps, cleans_leaks: bool) -> Result<(), NotAuditable> {
        let Bitmaps { service_ips, secondary_service_ips, service_node_ports } = bitmaps;
        if self.objects.is_none() {
            use StoredBitmap::{SecondaryServiceIps, ServiceIps};
            match (service_ips, secondary_service_ips) {
                (Presence::Initialised, Presence::Uninitialised) => {
                    return Err(NotAuditable::Uninitialised { bitmap: SecondaryServiceIps, other: ServiceIps });
                }
                (Presence::Uninitialised, Presence::Initialised) => {
                    return Err(NotAuditable::Uninitialised { bitmap: ServiceIps, other: SecondaryServiceIps });
                }
                (Presence::Missing, Presence::Initialised) => return Err(NotAuditable::NoPrimary),
                _ => {}
            }
        }
        let missing = |bitmap, presence, services| {
            if services == 0 {
                return Ok(());
            }
            Err(NotAuditable::NoRange { bitmap, is_there: presence != Presence::Missing, services })
        };
        if !self.objects.as_ref().is_some_and(Objects::lacks_cidr) {
            missing(StoredBitmap::ServiceIps, service_ips, self.without_addresses)?;
        }
        missing(StoredBitmap::ServiceNodePorts, service_node_ports, self.without_ports)?;
        if self.unreadable > 0 && (cleans_leaks || self.is_of_pass()) {
            return Err(NotAuditable::Unreadable { objects: self.unreadable });
        }
        if !cleans_leaks || self.services > 0 {
            return Ok(());
        }
        match self.recorded() {
            0 => Ok(()),
            recorded => Err(NotAuditable::NoServices { recorded }),
        }
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
    use crate::audit::{Stored, Unreadable};
    use crate::service::{Service, ServicePort};

    use Presence::{Initialised, Missing, Uninitialised};

    fn bitmaps(service_ips: Presence, secondary_service_ips: Presence, service_node_ports: Presence) -> Bitmaps {
        Bitmaps { service_ips, secondary_service_ips, service_node_ports }
    }

    fn refused(audit: &Audit, bitmaps: Bitmaps) -> String {
        let about = |error: NotAuditable| match error.bitmap() {
            Some(bitmap) => format!("{bitmap}: {error}"),
            None => error.to_string(),
        };
        audit.check_cluster(bitmaps, true).map_or_else(about, |()| "fine".into())
    }

    #[test]
    fn both_ranges_of_cluster_ips_are_set_up_or_the_primary_alone() {
        let (of_bitmaps, of_objects) = (Audit::new(), Audit::of_ip_addresses(None));
        for (primary, secondary, expected) in [
            (Missing, Missing, "fine"),
            (Missing, Uninitialised, "fine"),
            (Uninitialised, Missing, "fine"),
            (Uninitialised, Uninitialised, "fine"),
            (Initialised, Missing, "fine"),
            (Initialised, Initialised, "fine"),
            (Initialised, Uninitialised, "secondaryserviceips: the range is not initialised, though serviceips is"),
            (Uninitialised, Initialised, "serviceips: the range is not initialised, though secondaryserviceips is"),
            (Missing, Initialised, "secondaryserviceips: there is no serviceips beside it"),
        ] {
            let stored = bitmaps(primary, secondary, Missing);
            let found = refused(&of_bitmaps, stored);
            assert_eq!(found.split_once("; ").map_or(&found[..], |(text, _)| text), expected, "{stored:?}");
            assert_eq!(refused(&of_objects, stored), "fine", "bitmaps of addresses are stale");
        }
    }

    #[test]
    fn services_need_a_range_of_their_values() {
        let port = |node_port| [ServicePort { protocol: "TCP", node_port }];
        let services = [
            Service { cluster_ip: "10.0.0.1", ports: &port(30_000), ..Service::default() },
            Service { cluster_ip: "None", ports: &port(0), ..Service::default() },
            Service { cluster_ip: "", health_check_node_port: 30_001, ..Service::default() },
            Service { cluster_ip: "bad", ..Service::default() },
        ];
        let observe = |mut audit: Audit| {
            services.iter().for_each(|service| audit.observe(service));
            audit
        };
        let advice = "a kube-apiserver of this cluster sets it up when it starts";
        let none = observe(Audit::new());
        assert_eq!(
            refused(&none, bitmaps(Missing, Missing, Missing)),
            format!("serviceips: is missing, but 2 Services have ClusterIPs; {advice}")
        );
        assert_eq!(
            refused(&none, bitmaps(Uninitialised, Missing, Missing)),
            format!("serviceips: is not initialised, but 2 Services have ClusterIPs; {advice}")
        );
        let mut one = Audit::new();
        one.observe(&services[2]);
        assert_eq!(
            refused(&one, bitmaps(Missing, Missing, Missing)),
            format!("servicenodeports: is missing, but 1 Service has node ports; {advice}")
        );
        let mut addresses = Audit::new();
        addresses
            .add_cluster_ips("10.0.0.0/24".parse().expect("a CIDR"), Stored::default())
            .expect("nothing is stored");
        assert_eq!(
            refused(&observe(addresses), bitmaps(Initialised, Missing, Missing)),
            format!("servicenodeports: is missing, but 2 Services have node ports; {advice}")
        );
        let mut objects = Audit::of_ip_addresses(None);
        objects.add_node_ports("30000-30001".parse().expect("ports"), Stored::default()).expect("nothing is stored");
        assert_eq!(
            refused(&observe(objects), bitmaps(Missing, Missing, Initialised)),
            format!("serviceips: is missing, but 2 Services have ClusterIPs; {advice}")
        );
        let mut objects = Audit::of_ip_addresses(None);
        objects.add_node_ports("30000-30001".parse().expect("ports"), Stored::default()).expect("nothing is stored");
        let cidr = "10.0.0.0/24".parse().expect("a CIDR");
        objects.add_service_cidr(cidr, true).expect("an audit of IPAddress objects");
        assert_eq!(refused(&observe(objects), bitmaps(Missing, Missing, Initialised)), "fine");
    }

    #[test]
    fn unreadable_objects_keep_a_repair_from_writing() {
        let all = bitmaps(Missing, Missing, Missing);
        let mut objects = Audit::of_ip_addresses(None);
        objects.observe(&Service { cluster_ip: "10.0.0.1", ..Service::default() });
        assert!(objects.check_cluster(all, false).is_err(), "there is no range");
        objects.observe_unreadable(Unreadable::ServiceCidr);
        assert_eq!(objects.check_cluster(all, false), Ok(()), "the address may be in the CIDR that cannot be read");
        assert_eq!(refused(&objects, all), "1 object cannot be read, and may use or record any value");
        objects.of_pass(Default::default());
        assert_eq!(objects.check_cluster(all, false), Err(NotAuditable::Unreadable { objects: 1 }));
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
        assert_eq!(refused(&of_bitmaps(&[]), all), "fine", "nothing is recorded");
        let mut recorded = of_bitmaps(&[0b11]);
        assert_eq!(
            refused(&recorded, all),
            format!("there are no Services, but 4 values are recorded as allocated{NO_TELLING}")
        );
        assert_eq!(recorded.check_cluster(all, false), Ok(()), "leaks are only reported");
        recorded.observe(&Service::default());
        assert_eq!(refused(&recorded, all), "fine");
        let mut objects = Audit::of_ip_addresses(None);
        let object = crate::ipaddress::IpAddressObject { name: "10.0.0.1", ..Default::default() };
        objects.observe_ip_address(&object).expect("an audit of IPAddress objects");
        assert_eq!(
            refused(&objects, bitmaps(Missing, Missing, Missing)),
            format!("there are no Services, but 1 value is recorded as allocated{NO_TELLING}")
        );
    }
}
