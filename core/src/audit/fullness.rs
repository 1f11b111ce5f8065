//! Ranges with few free values.

use crate::address::family_name;
use crate::finding::{Finding, FoundValue, Reason, Subject};

use super::{RangeReport, Report};

impl Report {
    /// Adds a finding for each range without a free value, and for each of which less than `percent` of a hundred is
    /// free: free is what is neither recorded nor in use. The CIDRs of ServiceCIDR objects of one IP family count as
    /// one range, as servers allocate from all of them; the finding is about the first. One that is not ready does not
    /// count. Of a range whose bitmap could not be read, more may be in use. Stale bitmaps, and those beside IPAddress
    /// objects, have none. A second call replaces the findings of the first.
    ///
    /// Cost: that of [`RangeReport::counts`].
    pub fn find_full_ranges(&mut self, percent: u8) {
        self.findings.retain(|finding| !matches!(finding.subject, Subject::Range(_)));
        let mut pools: Vec<Pool> = Vec::new();
        for (place, range) in self.ranges.iter().enumerate() {
            let Some((family, text)) = pool_of(range) else { continue };
            let counts = range.counts();
            let free = counts.size.saturating_sub(counts.stored).saturating_sub(counts.set);
            let pool = family.and_then(|family| pools.iter_mut().find(|pool| pool.family == Some(family)));
            match pool {
                Some(pool) => pool.add(counts.size, free, &text),
                None => pools.push(Pool { place, family, size: counts.size.into(), free: free.into(), text }),
            }
        }
        self.findings.extend(pools.into_iter().filter_map(|pool| pool.finding(percent)));
    }
}

/// The range as text, and the IP family of a CIDR of a ServiceCIDR object; that of a bitmap is none.
fn pool_of(range: &RangeReport) -> Option<(Option<&'static str>, String)> {
    match range {
        RangeReport::Bitmap(bitmap) | RangeReport::Unseen(bitmap) if !bitmap.is_beside_objects() => {
            Some((None, bitmap.range().to_string()))
        }
        RangeReport::Bitmap(_) | RangeReport::Unseen(_) | RangeReport::Stale(_) => None,
        RangeReport::ServiceCidr(report) if !report.is_ready() => None,
        RangeReport::ServiceCidr(report) => {
            let network = report.cidr().network();
            Some((Some(family_name(network.ip())), network.to_string()))
        }
    }
}

/// What servers allocate from together.
struct Pool {
    /// The place of the first range.
    place: usize,
    /// As of [`pool_of`].
    family: Option<&'static str>,
    size: u128,
    free: u128,
    text: String,
}

impl Pool {
    fn add(&mut self, size: u64, free: u64, text: &str) {
        self.size += u128::from(size);
        self.free += u128::from(free);
        self.text = format!("{}, {text}", self.text);
    }

    fn finding(self, percent: u8) -> Option<Finding> {
        let reason = match self.free {
            0 => Reason::RangeFull,
            free if free * 100 < self.size * u128::from(percent) => Reason::RangeNearlyFull,
            _ => return None,
        };
        let (subject, value) = (Subject::Range(self.place as u64), FoundValue::Text(self.text));
        Some(Finding { reason, range: Some(self.place), subject, value, valid: None, outside: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Leaks, Stored};
    use crate::ipaddress::{ALLOCATOR, IpAddressObject};
    use crate::service::Service;

    fn warned(report: &mut Report, percent: u8) -> Vec<(Reason, Option<usize>, String)> {
        report.find_full_ranges(percent);
        report.find_full_ranges(percent); // changes nothing
        let of_ranges = report.findings.iter().filter(|finding| matches!(finding.subject, Subject::Range(_)));
        of_ranges.map(|finding| (finding.reason, finding.range, finding.value.to_string())).collect()
    }

    #[test]
    fn a_bitmap_is_full_when_all_is_recorded_or_in_use() {
        // Of 100 ports 95 are recorded, and `used` more are in use.
        let near = |percent, used| {
            let mut audit = Audit::new();
            let mut data = [0xff; 12];
            data[0] = 0x7f;
            let stored = Stored { range: "30000-30099", data: &data };
            audit.add_node_ports("30000-30099".parse().expect("ports"), stored).expect("bits in the range");
            for port in 0..used {
                let health_check_node_port = 30_095 + port;
                audit.observe(&Service { health_check_node_port, ..Service::default() });
            }
            warned(&mut audit.finish(Leaks::CleanAtOnce), percent)
        };
        let found = |reason| vec![(reason, Some(0), "30000-30099".to_owned())];
        assert_eq!(near(5, 0), []);
        assert_eq!(near(6, 0), found(Reason::RangeNearlyFull));
        assert_eq!(near(5, 1), found(Reason::RangeNearlyFull));
        assert_eq!(near(0, 4), []);
        assert_eq!(near(0, 5), found(Reason::RangeFull));
    }

    #[test]
    fn the_service_cidrs_of_one_family_are_full_together() {
        let near = |percent, cidrs: &[&str]| {
            let mut audit = Audit::of_ip_addresses(None);
            for cidr in cidrs {
                let is_ready = !cidr.ends_with('!');
                let cidr = cidr.trim_end_matches('!').parse().expect("a CIDR");
                audit.add_service_cidr(cidr, is_ready).expect("no Service");
            }
            for name in ["10.0.0.1", "10.0.0.2"] {
                let object = IpAddressObject {
                    name,
                    managed_by: ALLOCATOR,
                    parent_resource: "services",
                    parent_namespace: "ns",
                    parent_name: name,
                    ..IpAddressObject::default()
                };
                audit.observe_ip_address(&object).expect("no Service");
            }
            warned(&mut audit.finish(Leaks::CleanAtOnce), percent)
        };
        let full = |cidrs: &[&str]| near(5, cidrs);
        assert_eq!(full(&["10.0.0.0/30"]), [(Reason::RangeFull, Some(0), "10.0.0.0/30".to_owned())]);
        assert_eq!(full(&["fd00::/112", "10.0.0.0/30"]), [(Reason::RangeFull, Some(1), "10.0.0.0/30".to_owned())]);
        assert_eq!(full(&["10.0.0.0/30", "fd00::/64", "10.1.0.0/24"]), []);
        let both = "10.0.0.0/30, 10.1.0.0/31".to_owned();
        assert_eq!(full(&["10.1.0.0/24!", "10.0.0.0/30"]), [(Reason::RangeFull, Some(1), "10.0.0.0/30".to_owned())]);
        assert_eq!(full(&["10.0.0.0/30!"]), []);
        assert_eq!(full(&["10.0.0.0/30", "10.1.0.0/31"]), [(Reason::RangeFull, Some(0), both)]);
        // Of 4 addresses 2 are free.
        let both = "10.0.0.0/30, 10.1.0.0/30".to_owned();
        assert_eq!(near(50, &["10.0.0.0/30", "10.1.0.0/30"]), []);
        assert_eq!(near(51, &["10.0.0.0/30", "10.1.0.0/30"]), [(Reason::RangeNearlyFull, Some(0), both)]);
    }
}
