//! Which values of a range a ledger hands out, and how it chooses one.

use std::time::Duration;

use rand_core::Rng;

use super::range::{LedgerRange, ParseLedgerError};
use crate::offsets::fraction;

/// How the next free value is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The lowest free value.
    Lowest,
    /// The first free value from a random one on; past the end the search goes on at the beginning. In a range of more
    /// than 2^24 values, 1,024 in a row come from a random part of 4,096, if that has so many free.
    Random,
    /// The first free value after the one that was handed out last; past the end the search goes on at the beginning.
    /// So a value comes back late. The place is stored with the ledger.
    NextFit,
}

/// How long a value stays out of use after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoolDown {
    pub(super) time: Duration,
    pub(super) at_most: u32,
}

impl CoolDown {
    /// For `time`, of `at_most` releases: with one more, the oldest is free at once. Each takes some 20 bytes of the
    /// stored ledger. `None` if either is 0, with which nothing would cool down.
    ///
    /// Programs that share a ledger end cool-downs by their own clocks and pools. A clock that is ahead of the one that
    /// began a cool-down ends it as much earlier. One that is behind lets it last no longer than a release now would:
    /// so a clock that was far ahead takes no value out of use for longer than `time`, and a clock that is far behind
    /// ends the cool-downs of others early. Of pools with different times the shortest one counts.
    pub fn new(time: Duration, at_most: u32) -> Option<Self> {
        (time > Duration::ZERO && at_most > 0).then_some(Self { time, at_most })
    }
}

/// A range, and which of its values are handed out, in which order.
///
/// Parts of the range are texts, as [`LedgerRange::parse_part`] reads them. They may overlap: what is excluded is never
/// reserved or in a band, and what is reserved is in no band.
///
/// ```
/// use rangekeeper::ledger::{Choice, Pool};
///
/// // Node addresses of a subnet: never the gateway, some by name only, and the DHCP server's part only if nothing else
/// // is free.
/// let pool = Pool::new("192.0.2.0/24".parse()?, Choice::Lowest)
///     .exclude("192.0.2.1")?
///     .reserve("192.0.2.2-192.0.2.9")?
///     .static_band("192.0.2.128/26")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub(super) range: LedgerRange,
    pub(super) choice: Choice,
    pub(super) cool_down: Option<CoolDown>,
    excluded: Spans,
    reserved: Spans,
    bands: Spans,
    /// What is handed out: first of these, then of the static bands.
    pub(super) dynamic: Spans,
    pub(super) last_resort: Spans,
}

impl Pool {
    /// All values of `range`.
    pub fn new(range: LedgerRange, choice: Choice) -> Self {
        let none = Spans::default;
        let all = Spans(vec![(0, range.last())]);
        Self {
            range,
            choice,
            cool_down: None,
            excluded: none(),
            reserved: none(),
            bands: none(),
            dynamic: all,
            last_resort: none(),
        }
    }

    /// Never hands out the values of this part, not even by name.
    ///
    /// # Errors
    /// [`ParseLedgerError::Part`].
    pub fn exclude(mut self, part: &str) -> Result<Self, ParseLedgerError> {
        self.excluded.add(self.range.parse_part(part)?);
        Ok(self.divided())
    }

    /// Hands out the values of this part only by name.
    ///
    /// # Errors
    /// [`ParseLedgerError::Part`].
    pub fn reserve(mut self, part: &str) -> Result<Self, ParseLedgerError> {
        self.reserved.add(self.range.parse_part(part)?);
        Ok(self.divided())
    }

    /// Hands out the values of this part only by name, or if no others are free (KEP-3070 has one such band).
    ///
    /// # Errors
    /// [`ParseLedgerError::Part`].
    pub fn static_band(mut self, part: &str) -> Result<Self, ParseLedgerError> {
        self.bands.add(self.range.parse_part(part)?);
        Ok(self.divided())
    }

    /// Keeps each value out of use for some time after its release.
    #[must_use]
    pub fn cool_down(self, cool_down: CoolDown) -> Self {
        Self { cool_down: Some(cool_down), ..self }
    }

    /// The range.
    pub fn range(&self) -> LedgerRange {
        self.range
    }

    /// How many values are handed out at all: those of the range that are not excluded; at most `u64::MAX`.
    pub fn size(&self) -> u64 {
        let mut spans = Spans(vec![(0, self.range.last())]);
        spans.subtract(&self.excluded);
        u64::try_from(spans.total()).unwrap_or(u64::MAX)
    }

    /// Whether the offset is never handed out.
    pub(super) fn is_excluded(&self, offset: u64) -> bool {
        self.excluded.contains(offset)
    }

    fn divided(mut self) -> Self {
        self.last_resort = self.bands.clone();
        self.last_resort.subtract(&self.reserved);
        self.last_resort.subtract(&self.excluded);
        self.dynamic = Spans(vec![(0, self.range.last())]);
        for spans in [&self.excluded, &self.reserved, &self.bands] {
            self.dynamic.subtract(spans);
        }
        self
    }
}

/// Offsets as spans: ascending, apart from one another, first and last included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn add(&mut self, span: (u64, u64)) {
        self.0.push(span);
        self.0.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (first, last) in self.0.drain(..) {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }

    fn subtract(&mut self, others: &Self) {
        for &(from, to) in &others.0 {
            let parts = |&(first, last): &(u64, u64)| {
                let below = (first < from).then(|| (first, last.min(from - 1)));
                let above = (last > to).then(|| (first.max(to + 1), last));
                below.into_iter().chain(above)
            };
            self.0 = self.0.iter().flat_map(parts).collect();
        }
    }

    fn contains(&self, offset: u64) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= offset);
        after.checked_sub(1).is_some_and(|before| offset <= self.0[before].1)
    }

    fn total(&self) -> u128 {
        self.0.iter().map(|(first, last)| u128::from(last - first) + 1).sum()
    }

    /// An offset of a span, each equally likely to within 2^-64; 0 if there is none.
    pub(super) fn random(&self, rng: &mut impl Rng) -> u64 {
        let mut distance = fraction(self.total(), rng);
        for &(first, last) in &self.0 {
            let len = u128::from(last - first) + 1;
            if distance < len {
                return first + distance as u64;
            }
            distance -= len;
        }
        0
    }

    /// What `find` finds in a span: from `start` on, then from the first span on. It is asked for the first and the
    /// last offset between which to look.
    pub(super) fn find(&self, start: u64, find: impl Fn(u64, u64) -> Option<u64>) -> Option<u64> {
        let after = self.0.partition_point(|(_, last)| *last < start);
        let (before, from) = self.0.split_at(after);
        let first = from.first().map(|&(first, last)| (first.max(start), last));
        let rest = from.get(1..).unwrap_or_default();
        let cut = from.first().copied().filter(|(first, _)| *first < start);
        first
            .into_iter()
            .chain(rest.iter().copied())
            .chain(before.iter().copied())
            .chain(cut)
            .find_map(|(first, last)| find(first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_merged_and_subtracted() {
        let mut spans = Spans::default();
        for span in [(10, 19), (30, 39), (20, 24), (0, 0), (5, 12), (u64::MAX, u64::MAX)] {
            spans.add(span);
        }
        assert_eq!(spans.0, [(0, 0), (5, 24), (30, 39), (u64::MAX, u64::MAX)]);
        let contained: Vec<u64> = (0..50).filter(|offset| spans.contains(*offset)).collect();
        assert_eq!(contained, [0].into_iter().chain(5..25).chain(30..40).collect::<Vec<_>>());
        assert!(spans.contains(u64::MAX) && !spans.contains(u64::MAX - 1));
        let mut all = Spans(vec![(0, u64::MAX)]);
        assert_eq!(all.total(), 1 << 64);
        all.subtract(&spans);
        assert_eq!(all.0, [(1, 4), (25, 29), (40, u64::MAX - 1)]);
        all.subtract(&Spans(vec![(3, 26), (50, u64::MAX)]));
        assert_eq!(all.0, [(1, 2), (27, 29), (40, 49)]);
        all.subtract(&Spans(vec![(0, u64::MAX)]));
        assert_eq!((all.0.len(), all.total()), (0, 0));
    }

    #[test]
    fn a_search_visits_all_spans_from_its_start_on() {
        let spans = Spans(vec![(2, 4), (6, 6), (8, 9)]);
        let visited = |start| {
            let mut visited = Vec::new();
            let cell = std::cell::RefCell::new(&mut visited);
            assert_eq!(
                spans.find(start, |first, last| {
                    cell.borrow_mut().push((first, last));
                    None
                }),
                None
            );
            visited
        };
        assert_eq!(visited(0), [(2, 4), (6, 6), (8, 9)]);
        assert_eq!(visited(3), [(3, 4), (6, 6), (8, 9), (2, 4)]);
        assert_eq!(visited(5), [(6, 6), (8, 9), (2, 4)]);
        assert_eq!(visited(9), [(9, 9), (2, 4), (6, 6), (8, 9)]);
        assert_eq!(visited(10), [(2, 4), (6, 6), (8, 9)]);
    }
}
