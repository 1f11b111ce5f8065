//! The result of an audit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::any::{AnyRange, AnyValue};
use crate::bitmap::Bitmap;
use crate::finding::{Finding, FoundValue, Subject};
use crate::range::{Band, Range};

use super::claimants::{Claimant, Claims};
use super::occupancy::{Cell, cells};
use super::offsets::{Offsets, Values};
use super::{ObjectRepair, ServiceCidrReport};

/// The result of an audit.
#[derive(Clone, Debug)]
#[must_use = "an audit changes nothing: its report says what is to be done"]
pub struct Report {
    /// One for each range, in the order in which they were added.
    pub ranges: Vec<RangeReport>,
    /// The findings about Services, in the order of Services, then those about IPAddress objects, in the order of
    /// objects, then those about bitmaps beside IPAddress objects.
    pub findings: Vec<Finding>,
    /// The number of observed Services.
    pub services: u64,
    pub(super) object_leaks: Vec<Leak>,
    pub(super) object_repairs: Vec<ObjectRepair>,
    /// The objects that the repair of data at rest removes or replaces, ascending; none in data that others work on.
    pub(super) removed: Vec<u64>,
    /// The Service that the IPAddress object refers to, for each address that several Services claim, if it is one of
    /// them.
    pub(super) referred: HashMap<IpAddr, u64>,
    /// The second look at all Services, if it has begun.
    pub(super) claims: Option<Claims>,
    /// The Services that claim one value together, the one that keeps it first.
    pub(super) claimants: HashMap<FoundValue, Vec<Claimant>>,
}

/// The result for one range.
#[derive(Clone, Debug)]
pub enum RangeReport {
    /// A bitmap that was compared with the Services, and if ClusterIPs are IPAddress objects, with those.
    Bitmap(BitmapReport),
    /// A bitmap of ClusterIPs that is no longer used, since ClusterIPs are IPAddress objects. It is counted and not
    /// compared: all its values count as in use.
    Stale(BitmapReport),
    /// A range whose bitmap could not be read. The values that Services use, and those that are known to be stored,
    /// count as stored. The report has no repair of it.
    Unseen(BitmapReport),
    /// A CIDR of a ServiceCIDR object, compared with the IPAddress objects and the Services.
    ServiceCidr(ServiceCidrReport),
}

/// A value that is recorded as allocated though no Service uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The range that has the value; of several, the first that was added. For an address that no range has, the first
    /// range of its family; `None` if there is no range of addresses.
    pub range: Option<usize>,
    /// The value.
    pub value: AnyValue,
    /// The IPAddress object that records it, by its place among those that were observed: 0 is the first. `None` if a
    /// bitmap records it.
    pub object: Option<u64>,
    /// Whether the repair leaves it for now, since a Service that uses it may still be under way.
    pub stays: bool,
}

impl Leak {
    /// Who frees the value, if it is freed.
    pub fn remedy(&self) -> Remedy {
        if self.object.is_some() { Remedy::ApiServer } else { Remedy::Repair }
    }
}

/// The outcome of the repair of a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairOutcome<'a> {
    /// Just these values were set and cleared, of all that was due.
    Done {
        /// The values that were set.
        set: &'a [AnyValue],
        /// The values that were cleared.
        cleared: &'a [AnyValue],
    },
    /// Just these values were set and cleared, as somebody chose them of what was due.
    Chosen {
        /// The values that were set.
        set: &'a [AnyValue],
        /// The values that were cleared.
        cleared: &'a [AnyValue],
    },
    /// The repair has failed. Nothing is known to have been set or cleared.
    Failed,
}

/// Who repairs what a finding or a leak is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// The repair of the bitmap.
    Repair,
    /// The API server, which repairs IPAddress objects when it starts and every few minutes after that.
    ApiServer,
    /// Only the owner of the object: that of a Service, who recreates it or widens the range, or an administrator, who
    /// deletes an IPAddress object.
    Owner,
}

/// Why the outcome of a repair could not be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRepairError {
    /// There is no such range, or no bitmap of it that was compared with the Services.
    #[error("the report has no bitmap {0} that was compared with the Services")]
    NoBitmap(usize),
    /// The range cannot allocate the value.
    #[error("{value} is not in the range {range}")]
    NotInRange {
        /// The value.
        value: AnyValue,
        /// The range.
        range: AnyRange,
    },
}

/// Counts of the values of a range, by the sets of [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How many values the range has; at most `u64::MAX`.
    pub size: u64,
    /// How many of the lowest values form the static band (KEP-3070, KEP-3668).
    pub static_band: u32,
    /// Values that were recorded as allocated, without the dropped ones.
    pub stored: u64,
    /// Values that Services use.
    pub in_use: u64,
    /// Values that are recorded as allocated though no Service uses them.
    pub leaked: u64,
    /// Values that are allocated after the repair.
    pub next: u64,
    /// Values that the repair allocates.
    pub set: u64,
    /// Values that the repair frees.
    pub clear: u64,
    /// Values that more than one Service claims.
    pub duplicates: u64,
    /// Stored values that the configured range does not have: above 0 only after a change of the range.
    pub dropped: u32,
}

/// Everything that an audit knows about one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetState {
    /// The band it lies in.
    pub band: Band,
    /// Whether it was recorded as allocated.
    pub stored: bool,
    /// Whether a Service uses it.
    pub in_use: bool,
    /// Whether more than one Service claims it.
    pub duplicate: bool,
    /// Whether it is allocated after the repair, which is the API server's own if ClusterIPs are IPAddress objects.
    pub next: bool,
}

impl Report {
    /// The bitmaps that were compared with the Services, with their places among the ranges.
    pub fn bitmaps(&self) -> impl Iterator<Item = (usize, &BitmapReport)> {
        self.ranges.iter().enumerate().filter_map(|(index, range)| match range {
            RangeReport::Bitmap(bitmap) => Some((index, bitmap)),
            RangeReport::Stale(_) | RangeReport::Unseen(_) | RangeReport::ServiceCidr(_) => None,
        })
    }

    /// The result for the bitmap at this place; `None` if the range there is not a bitmap that was compared with the
    /// Services.
    pub fn bitmap(&self, range: usize) -> Option<&BitmapReport> {
        self.bitmaps().find(|(index, _)| *index == range).map(|(_, bitmap)| bitmap)
    }

    /// The leaks: first those of bitmaps, by range and value, due to be cleaned or not. Then, in the order of objects,
    /// the IPAddress objects of the allocator whose Service does not exist, unless another Service uses the address. A
    /// bitmap beside IPAddress objects has findings instead of leaks.
    ///
    /// Cost: a copy of each bitmap.
    pub fn leaks(&self) -> impl Iterator<Item = Leak> + '_ {
        let compared = self.ranges.iter().enumerate().filter_map(|(index, range)| match range {
            RangeReport::Bitmap(bitmap) | RangeReport::Unseen(bitmap) if !bitmap.beside_objects => {
                Some((index, bitmap))
            }
            _ => None,
        });
        let in_bitmaps = compared.flat_map(|(index, bitmap)| {
            let leak = |offset| {
                let (value, stays) = (bitmap.range().value_at(offset)?, bitmap.next().contains(offset));
                Some(Leak { range: Some(index), value, object: None, stays })
            };
            bitmap.leaked().iter().filter_map(leak).collect::<Vec<_>>()
        });
        in_bitmaps.chain(self.object_leaks.iter().copied())
    }

    /// The writes of the API server's repair of IPAddress objects: first those for Services, then the removals, both in
    /// the order of observation. If the Services that claim an address together are known, the object is that of the
    /// one that keeps it.
    pub fn object_repairs(&self) -> impl Iterator<Item = ObjectRepair> + '_ {
        self.object_repairs.iter().map(|repair| {
            let keeper =
                self.claimants.get(&FoundValue::Address(repair.address)).and_then(|claimants| claimants.first());
            let service = repair.service.map(|service| keeper.map_or(service, |claimant| claimant.service));
            ObjectRepair { service, ..*repair }
        })
    }

    /// Who repairs what the finding of this report is about.
    pub fn remedy(&self, finding: &Finding) -> Remedy {
        if !finding.reason.is_repairable() {
            return if self.removes(finding.subject) { Remedy::ApiServer } else { Remedy::Owner };
        }
        match finding.range.and_then(|range| self.bitmap(range)) {
            Some(_) => Remedy::Repair,
            None => Remedy::ApiServer,
        }
    }

    /// Whether the repair of data at rest removes or replaces the object.
    fn removes(&self, subject: Subject) -> bool {
        matches!(subject, Subject::IpAddress(ordinal) if self.removed.binary_search(&ordinal).is_ok())
    }

    /// Whether the repair of the bitmap leaves the finding of this report for now: one that [nobody
    /// chose](RepairOutcome::Chosen), or a value that is recorded in a bitmap beside IPAddress objects and in nothing
    /// else, so a request may be creating its object.
    pub fn stays(&self, finding: &Finding) -> bool {
        let is_recorded_alone = matches!(finding.subject, Subject::ServiceCidr(_));
        let bitmap = finding.range.filter(|_| finding.reason.is_repairable()).and_then(|range| self.bitmap(range));
        bitmap.zip(finding.value.any()).is_some_and(|(bitmap, value)| {
            let is_next = bitmap.range.offset_of(value).is_some_and(|offset| bitmap.next().contains(offset));
            if is_recorded_alone { is_next } else { bitmap.is_chosen && !is_next }
        })
    }

    /// Records the outcome of the repair of the bitmap at this place. From then on the report is about what was done:
    /// [`Values::Set`] and [`Values::Clear`] are the values that were set and cleared, [`Values::Next`] those that were
    /// read and not cleared, or were set. The other leaks stay.
    ///
    /// After [`RepairOutcome::Done`] a finding whose remedy is to set the value is dropped if it was not set: its
    /// Service came after the ranges were read. After [`RepairOutcome::Chosen`] it [stays](Self::stays), and after
    /// [`RepairOutcome::Failed`] it is left.
    ///
    /// # Errors
    /// [`RecordRepairError`]; the report stays as it was.
    pub fn record_repair(&mut self, range: usize, outcome: RepairOutcome<'_>) -> Result<(), RecordRepairError> {
        let Some(RangeReport::Bitmap(bitmap)) = self.ranges.get_mut(range) else {
            return Err(RecordRepairError::NoBitmap(range));
        };
        let mut next = bitmap.stored.clone();
        let (set, cleared) = match outcome {
            RepairOutcome::Done { set, cleared } | RepairOutcome::Chosen { set, cleared } => (set, cleared),
            RepairOutcome::Failed => (&[][..], &[][..]),
        };
        let offset_of = |value| {
            let range = bitmap.range;
            range.offset_of(value).ok_or(RecordRepairError::NotInRange { value, range })
        };
        for value in set {
            next.insert(offset_of(*value)?);
        }
        for value in cleared {
            next.remove(offset_of(*value)?);
        }
        let was_set = |value: &FoundValue| {
            let offset = value.any().and_then(|value| bitmap.range.offset_of(value));
            offset.is_some_and(|offset| next.contains(offset) && !bitmap.stored.contains(offset))
        };
        bitmap.is_chosen = matches!(outcome, RepairOutcome::Chosen { .. });
        let is_done = matches!(outcome, RepairOutcome::Done { .. });
        self.findings.retain(|finding| {
            !is_done
                || finding.range != Some(range)
                || !finding.reason.is_repairable()
                || matches!(finding.subject, Subject::ServiceCidr(_))
                || was_set(&finding.value)
        });
        bitmap.next = Some(next);
        Ok(())
    }
}

impl RangeReport {
    /// The offsets of one set of values. Cost: up to a copy of the bitmap.
    pub fn offsets(&self, values: Values) -> Offsets<'_> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap) => {
                Offsets::Bitmap(bitmap.offsets(values))
            }
            Self::ServiceCidr(cidr) => Offsets::List(cidr.offsets(values)),
        }
    }

    /// The value at an offset; `None` past the end.
    pub fn value_at(&self, offset: u64) -> Option<AnyValue> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap) => {
                bitmap.range().value_at(u32::try_from(offset).ok()?)
            }
            Self::ServiceCidr(cidr) => cidr.cidr().value_at(offset).map(AnyValue::Address),
        }
    }

    /// How many values the range has.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap) => bitmap.range().size().into(),
            Self::ServiceCidr(cidr) => cidr.cidr().size(),
        }
    }

    /// Counts all sets of values. Cost: O(size / 64) for a bitmap.
    pub fn counts(&self) -> Counts {
        let count = |values| self.offsets(values).count();
        let (static_band, dropped) = match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap) => {
                (bitmap.range().static_band(), bitmap.dropped())
            }
            Self::ServiceCidr(cidr) => (cidr.cidr().static_band(), 0),
        };
        Counts {
            size: self.size(),
            static_band,
            stored: count(Values::Stored),
            in_use: count(Values::InUse),
            leaked: count(Values::Leaked),
            next: count(Values::Next),
            set: count(Values::Set),
            clear: count(Values::Clear),
            duplicates: count(Values::Duplicates),
            dropped,
        }
    }

    /// Everything about one value; `None` if the range cannot allocate it.
    pub fn state_of(&self, value: AnyValue) -> Option<OffsetState> {
        match (self, value) {
            (Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap), value) => bitmap.state_of(value),
            (Self::ServiceCidr(cidr), AnyValue::Address(address)) => cidr.state_of(address),
            (Self::ServiceCidr(_), AnyValue::Port(_) | AnyValue::Number(_)) => None,
        }
    }

    /// The range cut into at most `count` cells, and at most 1,048,576, of equal length (the last may be shorter), with
    /// counts for a picture.
    pub fn occupancy(&self, count: u32) -> Box<dyn ExactSizeIterator<Item = Cell> + '_> {
        match self {
            Self::Bitmap(bitmap) | Self::Stale(bitmap) | Self::Unseen(bitmap) => Box::new(bitmap.occupancy(count)),
            Self::ServiceCidr(cidr) => Box::new(cidr.occupancy(count)),
        }
    }
}

/// The result for one stored bitmap.
#[derive(Clone, Debug)]
pub struct BitmapReport {
    range: AnyRange,
    stored: Bitmap,
    dropped: u32,
    in_use: Bitmap,
    duplicates: Vec<u32>,
    /// The bitmap to store, if it has more than the values in use.
    next: Option<Bitmap>,
    beside_objects: bool,
    /// Whether somebody chose of what was due.
    is_chosen: bool,
}

impl BitmapReport {
    pub(super) fn new(
        range: AnyRange,
        stored: Bitmap,
        dropped: u32,
        in_use: Bitmap,
        mut duplicates: Vec<u32>,
        next: Option<Bitmap>,
    ) -> Self {
        duplicates.sort_unstable();
        duplicates.dedup();
        Self { range, stored, dropped, in_use, duplicates, next, beside_objects: false, is_chosen: false }
    }

    pub(super) fn beside_objects(self) -> Self {
        Self { beside_objects: true, ..self }
    }

    pub(super) fn is_beside_objects(&self) -> bool {
        self.beside_objects
    }

    /// The configured range, of which the offsets are.
    pub fn range(&self) -> AnyRange {
        self.range
    }

    /// The stored values before the audit.
    pub fn stored(&self) -> &Bitmap {
        &self.stored
    }

    /// How many stored values the configured range does not have: above 0 only after a change of the range.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// The values that Services use, and of a bitmap beside IPAddress objects those of the objects that stay.
    pub fn in_use(&self) -> &Bitmap {
        &self.in_use
    }

    /// The stored values that are not in use, due to be cleaned or not. Cost: a copy of the bitmap.
    pub fn leaked(&self) -> Bitmap {
        self.stored.difference(&self.in_use)
    }

    /// The offsets that more than one Service claims, ascending.
    pub fn duplicates(&self) -> &[u32] {
        &self.duplicates
    }

    /// The bitmap to store: the values that Services use, and the leaks that are kept.
    pub fn next(&self) -> &Bitmap {
        self.next.as_ref().unwrap_or(&self.in_use)
    }

    /// The values to set. Cost: a copy of the bitmap.
    pub fn set(&self) -> Bitmap {
        self.next().difference(&self.stored)
    }

    /// The values to clear. Cost: a copy of the bitmap.
    pub fn clear(&self) -> Bitmap {
        self.stored.difference(self.next())
    }

    fn offsets(&self, values: Values) -> Cow<'_, Bitmap> {
        match values {
            Values::Set => Cow::Owned(self.set()),
            Values::Clear => Cow::Owned(self.clear()),
            Values::Leaked => Cow::Owned(self.leaked()),
            Values::Duplicates => {
                let mut duplicates = Bitmap::new(self.range.size());
                for offset in &self.duplicates {
                    duplicates.insert(*offset);
                }
                Cow::Owned(duplicates)
            }
            Values::Stored => Cow::Borrowed(&self.stored),
            Values::InUse => Cow::Borrowed(&self.in_use),
            Values::Next => Cow::Borrowed(self.next()),
        }
    }

    /// Everything about one value; `None` if the range cannot allocate it.
    pub fn state_of(&self, value: AnyValue) -> Option<OffsetState> {
        let offset = self.range.offset_of(value)?;
        Some(OffsetState {
            band: self.range.band_of(offset),
            stored: self.stored.contains(offset),
            in_use: self.in_use.contains(offset),
            duplicate: self.duplicates.binary_search(&offset).is_ok(),
            next: self.next().contains(offset),
        })
    }

    /// The range cut into at most `count` cells, and at most 1,048,576, of equal length (the last may be shorter), with
    /// counts for a picture.
    pub fn occupancy(&self, count: u32) -> impl ExactSizeIterator<Item = Cell> + '_ {
        let (size, leaked) = (self.range.size(), self.leaked());
        cells(u64::from(size), count, move |from, to| {
            let (from, to) = (from as u32, to as u32);
            let in_use = self.in_use.count_range(from, to);
            let leaked = leaked.count_range(from, to);
            let lost = in_use + leaked - self.stored.count_range(from, to);
            let duplicate =
                self.duplicates.partition_point(|at| *at < to) - self.duplicates.partition_point(|at| *at < from);
            Cell {
                first: u64::from(from),
                len: u64::from(to - from),
                in_use: u64::from(in_use),
                leaked: u64::from(leaked),
                lost: u64::from(lost),
                duplicate: duplicate as u64,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Leaks, RepairCounters, Stored};
    use crate::finding::Reason;
    use crate::service::Service;
    use crate::service_cidr::ServiceCidr;

    const NOTHING: RepairOutcome<'_> = RepairOutcome::Done { set: &[], cleared: &[] };

    fn address(text: &str) -> AnyValue {
        AnyValue::Address(text.parse().expect("an address"))
    }

    /// 10.0.0.3 and 10.0.0.4 are leaked; 10.0.0.1 and 10.0.0.2 are in use and not recorded, and claimed by two Services
    /// and by one.
    fn report(leaks: Leaks<'_>) -> Report {
        let mut audit = Audit::new();
        let stored = Stored { range: "10.0.0.0/24", data: &[0b1100] };
        audit.add_cluster_ips("10.0.0.0/24".parse().expect("a CIDR"), stored).expect("bits in the range");
        for cluster_ip in ["10.0.0.1", "10.0.0.2", "10.0.0.1"] {
            audit.observe(&Service { cluster_ip, ..Service::default() });
        }
        audit.finish(leaks)
    }

    fn found(report: &Report) -> Vec<(Reason, String, Remedy)> {
        report.findings.iter().map(|found| (found.reason, found.value.to_string(), report.remedy(found))).collect()
    }

    fn leaked(report: &Report) -> Vec<(String, bool)> {
        report.leaks().map(|leak| (leak.value.to_string(), leak.stays)).collect()
    }

    #[test]
    fn a_recorded_repair_leaves_what_was_done() {
        let mut report = report(Leaks::CleanAtOnce);
        let lost = |value: &str| (Reason::ClusterIpNotAllocated, value.to_owned(), Remedy::Repair);
        let taken = (Reason::ClusterIpAlreadyAllocated, "10.0.0.1".to_owned(), Remedy::Owner);
        assert_eq!(found(&report), [lost("10.0.0.1"), lost("10.0.0.2"), taken.clone()]);
        assert_eq!(leaked(&report), [("10.0.0.3".into(), false), ("10.0.0.4".into(), false)]);

        let outcome = RepairOutcome::Done { set: &[address("10.0.0.2")], cleared: &[address("10.0.0.4")] };
        report.record_repair(0, outcome).expect("values of the range");
        assert_eq!(found(&report), [lost("10.0.0.2"), taken]);
        assert_eq!(leaked(&report), [("10.0.0.3".into(), true), ("10.0.0.4".into(), false)]);
        let counts = report.ranges[0].counts();
        assert_eq!((counts.set, counts.clear, counts.next, counts.leaked), (1, 1, 2, 2));
        let next: Vec<_> = report.bitmap(0).expect("a bitmap").next().iter().collect();
        assert_eq!(next, [1, 2]);
    }

    #[test]
    fn what_nobody_chose_stays() {
        let mut report = report(Leaks::CleanAtOnce);
        let before = found(&report);
        let stays = |report: &Report| report.findings.iter().map(|finding| report.stays(finding)).collect::<Vec<_>>();
        assert_eq!(stays(&report), [false, false, false]);
        let outcome = RepairOutcome::Chosen { set: &[address("10.0.0.2")], cleared: &[address("10.0.0.4")] };
        report.record_repair(0, outcome).expect("values of the range");
        assert_eq!(found(&report), before);
        assert_eq!(stays(&report), [true, false, false], "what its owner has to repair is no matter of the repair");
        assert_eq!(leaked(&report), [("10.0.0.3".into(), true), ("10.0.0.4".into(), false)]);
        report.record_repair(0, RepairOutcome::Failed).expect("a bitmap");
        assert_eq!(stays(&report), [false, false, false], "they are left, but not on purpose");
    }

    #[test]
    fn a_repair_that_did_nothing_leaves_what_owners_must_do() {
        let mut report = report(Leaks::CleanAtOnce);
        report.record_repair(0, NOTHING).expect("a bitmap");
        let taken = (Reason::ClusterIpAlreadyAllocated, "10.0.0.1".to_owned(), Remedy::Owner);
        assert_eq!(found(&report), [taken]);
        assert!(leaked(&report).iter().all(|(_, stays)| *stays));
        let range = report.bitmap(0).expect("a bitmap");
        assert!(range.set().is_empty() && range.clear().is_empty());
    }

    #[test]
    fn a_failed_repair_leaves_all_findings() {
        let mut report = report(Leaks::CleanAtOnce);
        let before = found(&report);
        report.record_repair(0, RepairOutcome::Failed).expect("a bitmap");
        assert_eq!(found(&report), before);
        assert!(leaked(&report).iter().all(|(_, stays)| *stays));
        let range = report.bitmap(0).expect("a bitmap");
        assert!(range.set().is_empty() && range.clear().is_empty());
    }

    #[test]
    fn a_leak_stays_until_its_counter_is_spent() {
        let mut counters = RepairCounters::new(std::num::NonZeroU8::new(2).expect("not 0"));
        for stays in [true, false] {
            let leaks = leaked(&report(Leaks::Keep(&mut counters)));
            assert_eq!(leaks, [("10.0.0.3".to_owned(), stays), ("10.0.0.4".to_owned(), stays)]);
        }
    }

    #[test]
    fn with_an_unreadable_service_all_leaks_stay_and_are_counted_again() {
        let mut counters = RepairCounters::new(std::num::NonZeroU8::new(2).expect("not 0"));
        let mut pass = |unreadable: bool| {
            let mut audit = Audit::new();
            let stored = Stored { range: "10.0.0.0/24", data: &[0b1101] };
            audit.add_cluster_ips("10.0.0.0/24".parse().expect("a CIDR"), stored).expect("bits in the range");
            audit.observe(&Service { cluster_ip: "10.0.0.2", ..Service::default() });
            if unreadable {
                audit.observe_unreadable(crate::audit::Unreadable::Service);
            }
            let report = audit.finish(Leaks::Keep(&mut counters));
            let range = report.bitmap(0).expect("a bitmap");
            (leaked(&report).into_iter().map(|(_, stays)| stays).collect::<Vec<_>>(), range.next().snapshot().to_vec())
        };
        let (kept, cleaned) = ((vec![true; 3], vec![0b1111]), (vec![false; 3], vec![0b10]));
        for (unreadable, expected) in [(false, &kept), (true, &kept), (false, &kept), (false, &cleaned)] {
            assert_eq!(pass(unreadable), *expected);
        }
    }

    #[test]
    fn a_repair_is_recorded_for_the_values_of_a_compared_bitmap() {
        let mut report = report(Leaks::CleanAtOnce);
        let before = format!("{report:?}");
        let outside = address("10.0.1.1");
        let set = [address("10.0.0.1"), outside];
        let refused = report.record_repair(0, RepairOutcome::Done { set: &set, cleared: &[] });
        let range = report.bitmap(0).expect("a bitmap").range();
        assert_eq!(refused, Err(RecordRepairError::NotInRange { value: outside, range }));
        assert_eq!(report.record_repair(1, NOTHING), Err(RecordRepairError::NoBitmap(1)));
        assert_eq!(format!("{report:?}"), before);

        let mut audit = Audit::of_ip_addresses(None);
        audit.add_cluster_ips("10.0.0.0/24".parse().expect("a CIDR"), Stored::default()).expect("nothing is stored");
        audit.add_service_cidr("10.0.0.0/24".parse::<ServiceCidr>().expect("a CIDR"), true).expect("IPAddress objects");
        audit.observe(&Service { namespace: "ns", name: "one", cluster_ip: "10.0.0.1", ..Service::default() });
        let mut report = audit.finish(Leaks::CleanAtOnce);
        assert_eq!(report.record_repair(0, RepairOutcome::Failed), Err(RecordRepairError::NoBitmap(0)), "it is stale");
        assert_eq!(report.record_repair(1, NOTHING), Err(RecordRepairError::NoBitmap(1)), "it has objects");
        let by_server = (Reason::ClusterIpNotAllocated, "10.0.0.1".to_owned(), Remedy::ApiServer);
        assert_eq!(found(&report), [by_server]);
    }
}
