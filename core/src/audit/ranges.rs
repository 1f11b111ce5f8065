//! Which of the ranges that a cluster names is the wrong one.
//!
//! A cluster says in four places which values it has: by the flag of its servers (`--service-cluster-ip-range`,
//! `--service-node-port-range`), the ServiceCIDR object `kubernetes`, the stored bitmap, and the values that its
//! Services use. Traffic depends on the last: a range that the Services are not in would renumber the cluster. So no
//! advice takes the flag or a stored range for the truth before the Services are counted.

use crate::any::{AnyRange, AnyValue, ParseRangeError};
use crate::finding::{Finding, Outside, Reason};
use crate::range::Range;

/// What a flag or a stored object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// How many of the values of Services lie in its ranges.
    pub inside: u64,
    /// Whether the Services show that it is wrong.
    pub is_wrong: bool,
}

/// What the flag, the stored ranges and the Services say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All ranges are the same, and not nearly all of the Services' values lie outside.
    Agree,
    /// The ranges differ, and nearly all values lie in those that are not wrong. A flag that has not the IP families of
    /// the stored ranges in their order is wrong, too.
    Decided,
    /// The ranges differ, and nearly all values lie in each of them, as after a range was widened.
    Harmless,
    /// Nearly all values lie outside of the only range, or no range has nearly all of them.
    Undecided,
}

/// The judgement. What says nothing is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What all say together.
    pub outcome: Outcome,
    /// How many values Services have.
    pub values: u64,
    /// The flag.
    pub flag: Option<Testimony>,
    /// The ServiceCIDR object.
    pub service_cidr: Option<Testimony>,
    /// The stored bitmaps.
    pub bitmap: Option<Testimony>,
}

/// Whether nearly all of some values are among `part` of them: nine of ten.
pub(super) fn is_nearly_all(part: u64, of: u64) -> bool {
    part.saturating_mul(10) >= of.saturating_mul(9)
}

fn has(range: &AnyRange, value: &AnyValue) -> bool {
    match (range, value) {
        (AnyRange::Cidr(range), AnyValue::Address(address)) => range.contains(*address),
        (AnyRange::Ports(range), AnyValue::Port(port)) => range.offset_of(*port).is_some(),
        _ => false,
    }
}

/// Judges the ranges that the flag, the ServiceCIDR object and the bitmaps have, each one range or two, separated by a
/// comma, or an empty text, by the values that Services use.
///
/// ```
/// use rangekeeper::audit::{Outcome, judge_ranges};
///
/// let values = ["172.30.0.1", "172.30.7.9"].map(|text| rangekeeper::any::AnyValue::Address(text.parse().unwrap()));
/// let verdict = judge_ranges("172.30.0.0/16", "10.0.0.0/24", "", &values)?;
/// assert_eq!(verdict.outcome, Outcome::Decided);
/// assert!(verdict.service_cidr.unwrap().is_wrong && !verdict.flag.unwrap().is_wrong);
/// # Ok::<(), rangekeeper::any::ParseRangeError>(())
/// ```
///
/// # Errors
/// If a text is none of ranges.
pub fn judge_ranges(
    flag: &str,
    service_cidr: &str,
    bitmap: &str,
    values: &[AnyValue],
) -> Result<Verdict, ParseRangeError> {
    let mut said: Vec<Vec<AnyRange>> = Vec::new();
    for text in [flag, service_cidr, bitmap] {
        said.push(text.split(',').filter(|one| !one.is_empty()).map(str::parse).collect::<Result<_, _>>()?);
    }
    let inside =
        |ranges: &[AnyRange]| values.iter().filter(|value| ranges.iter().any(|range| has(range, value))).count();
    let inside: Vec<u64> = said.iter().map(|ranges| inside(ranges) as u64).collect();
    let all = values.len() as u64;
    let holds = |place: usize| is_nearly_all(inside[place], all);
    let speaking: Vec<usize> = (0..said.len()).filter(|place| !said[*place].is_empty()).collect();
    let differ = speaking.windows(2).any(|pair| said[pair[0]] != said[pair[1]]);
    let has_families = |stored: &[AnyRange]| {
        stored.is_empty() || said[0].len() >= stored.len() && said[0].iter().zip(stored).all(|(a, b)| a.excludes(b))
    };
    let changes_families = !said[0].is_empty() && !said[1..].iter().all(|stored| has_families(stored));
    let outcome = match differ {
        false if speaking.iter().all(|place| !is_against(inside[*place], all)) => Outcome::Agree,
        true if speaking.iter().all(|place| holds(*place)) && !changes_families => Outcome::Harmless,
        true if speaking.iter().any(|place| holds(*place)) => Outcome::Decided,
        _ => Outcome::Undecided,
    };
    let testimony = |place: usize| {
        let is_other_family =
            place == 0 && changes_families && speaking.iter().any(|stored| *stored > 0 && holds(*stored));
        let is_wrong = outcome == Outcome::Decided && (!holds(place) || is_other_family);
        (!said[place].is_empty()).then_some(Testimony { inside: inside[place], is_wrong })
    };
    Ok(Verdict { outcome, values: all, flag: testimony(0), service_cidr: testimony(1), bitmap: testimony(2) })
}

/// Whether so few of the values lie in a range that it may be wrong, and not they.
fn is_against(inside: u64, of: u64) -> bool {
    of > 0 && is_nearly_all(of - inside.min(of), of)
}

/// Says in the findings with this reason that nearly all values of the kind lie outside, if that is so. `inside` is the
/// number of those that lie in the ranges.
pub(super) fn doubt_ranges(findings: &mut [Finding], reason: Reason, inside: u64) {
    let count = findings.iter().filter(|finding| finding.reason == reason).count() as u64;
    let of = inside + count;
    if count == 0 || !is_against(inside, of) {
        return;
    }
    for finding in findings.iter_mut().filter(|finding| finding.reason == reason) {
        finding.outside = Some(Outside { count, of });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Agree, Decided, Harmless, Undecided};

    fn addresses(texts: &[&str]) -> Vec<AnyValue> {
        texts.iter().map(|text| AnyValue::Address(text.parse().expect("an address"))).collect()
    }

    /// Outcome, and which of flag, ServiceCIDR and bitmap are wrong.
    fn judged(said: [&str; 3], values: &[AnyValue]) -> (Outcome, [bool; 3]) {
        let verdict = judge_ranges(said[0], said[1], said[2], values).expect("ranges");
        let wrong = [verdict.flag, verdict.service_cidr, verdict.bitmap]
            .map(|testimony| testimony.is_some_and(|testimony| testimony.is_wrong));
        (verdict.outcome, wrong)
    }

    #[test]
    fn the_services_say_which_range_is_wrong() {
        let (here, there) = ("172.30.0.0/16", "10.0.0.0/24");
        let services = addresses(&["172.30.0.1", "172.30.5.5"]);
        for (said, expected) in [
            ([here, here, ""], (Agree, [false; 3])),
            ([here, there, ""], (Decided, [false, true, false])),
            ([there, here, ""], (Decided, [true, false, false])),
            ([here, "", there], (Decided, [false, false, true])),
            ([here, there, there], (Decided, [false, true, true])),
            ([here, here, there], (Decided, [false, false, true])),
            // The flag alone can say whether the range or the Services are of another time.
            (["", there, ""], (Undecided, [false; 3])),
            ([there, there, ""], (Undecided, [false; 3])),
            ([there, "10.1.0.0/24", ""], (Undecided, [false; 3])),
            (["172.16.0.0/12", here, ""], (Harmless, [false; 3])),
            (["", "", ""], (Agree, [false; 3])),
            // A second family is added, the primary one becomes another one, one is taken away.
            (["172.30.0.0/16,fd00::/108", here, ""], (Harmless, [false; 3])),
            (["fd00::/108,172.30.0.0/16", "172.30.0.0/16,fd00::/108", ""], (Decided, [true, false, false])),
            ([here, "172.30.0.0/16,fd00::/108", ""], (Decided, [true, false, false])),
        ] {
            assert_eq!(judged(said, &services), expected, "{said:?}");
        }
        let ports = [AnyValue::Port(30_001), AnyValue::Port(30_002)];
        assert_eq!(judged(["30000-32767", "", "20000-21000"], &ports), (Decided, [false, false, true]));
        assert_eq!(judged(["", "", "20000-21000"], &ports), (Undecided, [false; 3]));
        assert_eq!(judged([here, there, ""], &[]), (Harmless, [false; 3]), "no Service depends on it");
        assert!(judge_ranges("10.0.0.0", "", "", &[]).is_err());
    }

    #[test]
    fn nine_of_ten_are_nearly_all() {
        let services = |inside, outside| [["10.0.0.9"].repeat(inside), ["172.30.0.9"].repeat(outside)].concat();
        for (inside, outside, expected) in [(18, 2, Agree), (3, 17, Agree), (2, 18, Undecided), (0, 1, Undecided)] {
            assert_eq!(judged(["", "10.0.0.0/24", ""], &addresses(&services(inside, outside))).0, expected);
        }
        let dual = addresses(&["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2"]);
        let of_two = ["10.0.0.0/24,fd00::/108", "10.0.0.0/24,fd01::/108", ""];
        assert_eq!(judged(of_two, &dual), (Decided, [false, true, false]), "one of the two ranges differs");
    }
}
