//! The ledger against a naive model, in ranges that have a bitmap and in wide ones; and what it stores, against the
//! crate `roaring` and the objects of kube-apiserver.

#![cfg(feature = "ledger")]

#[path = "common/cases.rs"]
mod cases;
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::time::Duration;

use cases::cases;
use common::{below, seeded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ledger::{
    AllocateError, Allocation, Choice, CoolDown, Ledger, LedgerFinding, LedgerRange, LedgerValue, OpenError,
    OwnerLeaks, ParseLedgerError, Pool, RUN_MAX, WIDE_USED_MAX, Want,
};
use rangekeeper::range_allocation::{Form, RangeAllocation};
use rangekeeper::roaring::RoaringTreemap;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A cool-down: milliseconds, and at most how many releases.
type Cools = Option<(u64, u32)>;

/// The part of a range that the model knows; a pool excludes everything else.
struct Window {
    range: LedgerRange,
    /// The offset of the model's value 0.
    first: u64,
    len: u64,
    excluded: Vec<(u64, u64)>,
    reserved: Vec<(u64, u64)>,
    band: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Used { first: u64, len: u64, owner: Option<u64> },
    Cooling { first: u64, len: u64, until: u64 },
}

/// A slot for each value, looked through one by one.
struct Model {
    slots: Vec<Option<Entry>>,
    next: u64,
}

impl Window {
    fn pool(&self, choice: Choice, cool_down: Cools) -> Result<Pool, ParseLedgerError> {
        // Of a block or network its first integer or address.
        let text = |offset| {
            let value = self.range.value_at(offset).map(|value| value.to_string()).unwrap_or_default();
            value.split('/').next().unwrap_or_default().to_owned()
        };
        let offsets = |first, last| format!("{}-{}", text(first), text(last));
        let part = |first: u64, last: u64| offsets(self.first + first, self.first + last);
        let mut pool = Pool::new(self.range, choice);
        if self.first > 0 {
            pool = pool.exclude(&offsets(0, self.first - 1))?;
        }
        let last = self.first + (self.len - 1);
        if last < self.range.last() {
            pool = pool.exclude(&offsets(last + 1, self.range.last()))?;
        }
        for (first, last) in &self.excluded {
            pool = pool.exclude(&part(*first, *last))?;
        }
        for (first, last) in &self.reserved {
            pool = pool.reserve(&part(*first, *last))?;
        }
        if let Some((first, last)) = self.band {
            pool = pool.static_band(&part(first, last))?;
        }
        Ok(match cool_down {
            None => pool,
            Some((time, at_most)) => pool.cool_down(CoolDown::new(milliseconds(time), at_most).expect("above 0")),
        })
    }

    fn value(&self, at: u64) -> LedgerValue {
        self.first
            .checked_add(at)
            .and_then(|at| self.range.value_at(at))
            .unwrap_or(LedgerValue::Address(Ipv4Addr::LOCALHOST.into()))
    }

    fn is_in(spans: &[(u64, u64)], at: u64) -> bool {
        spans.iter().any(|(first, last)| (*first..=*last).contains(&at))
    }

    /// Whether the value is handed out without its name, and whether only as a last resort.
    fn is_dynamic(&self, at: u64, last_resort: bool) -> bool {
        let in_band = self.band.is_some_and(|(first, last)| (first..=last).contains(&at));
        at < self.len && !Self::is_in(&self.excluded, at) && !Self::is_in(&self.reserved, at) && in_band == last_resort
    }
}

impl Model {
    fn is_free(&self, at: u64) -> bool {
        self.slots.get(at as usize).is_some_and(Option::is_none)
    }

    /// All first values of runs that may be given, in the order of their values, of the first kind that has any.
    fn candidates(&self, window: &Window, len: u64, aligned_from: Option<u64>) -> Vec<u64> {
        let of = |last_resort| -> Vec<u64> {
            (0..window.len)
                .filter(|first| {
                    aligned_from.is_none_or(|number| (u128::from(number) + u128::from(*first)) % u128::from(len) == 0)
                })
                .filter(|first| (*first..*first + len).all(|at| self.is_free(at) && window.is_dynamic(at, last_resort)))
                .collect()
        };
        let dynamic = of(false);
        if dynamic.is_empty() { of(true) } else { dynamic }
    }

    fn end(&mut self, first: u64) {
        for slot in &mut self.slots {
            if matches!(slot, Some(Entry::Cooling { first: begins, .. }) if *begins == first) {
                *slot = None;
            }
        }
    }

    fn cooling(&self) -> BTreeSet<(u64, u64)> {
        let ends = |slot: &Option<Entry>| match slot {
            Some(Entry::Cooling { first, until, .. }) => Some((*until, *first)),
            _ => None,
        };
        self.slots.iter().filter_map(ends).collect()
    }

    fn expire(&mut self, now: u64, cool_down: Cools) {
        for slot in &mut self.slots {
            if let (Some(Entry::Cooling { until, .. }), Some((time, _))) = (slot, cool_down) {
                *until = (*until).min(now + time);
            }
        }
        for (until, first) in self.cooling() {
            if until <= now {
                self.end(first);
            }
        }
    }

    fn give_back(&mut self, first: u64, len: u64, now: u64, cool_down: Cools) {
        let entry = cool_down.map(|(time, _)| Entry::Cooling { first, len, until: now + time });
        for at in first..first + len {
            self.slots[at as usize] = entry;
        }
        self.end_most(cool_down);
    }

    fn end_most(&mut self, cool_down: Cools) {
        let at_most = cool_down.map_or(0, |(_, at_most)| at_most as usize);
        let mut cooling = self.cooling();
        while cooling.len() > at_most {
            cooling.pop_first().into_iter().for_each(|(_, first)| self.end(first));
        }
    }

    fn of(&self, owner: u64) -> Option<(u64, u64)> {
        self.slots.iter().find_map(|slot| match slot {
            Some(Entry::Used { first, len, owner: Some(own) }) if *own == owner => Some((*first, *len)),
            _ => None,
        })
    }
}

fn milliseconds(now: u64) -> Duration {
    Duration::from_millis(now)
}

/// What happened in a game.
#[derive(Default)]
struct Played {
    operations: u64,
    allocated: u64,
    runs: u64,
    full: u64,
    again: u64,
    cooled: u64,
    /// Operations at which a cool-down ended later than that of a release would have.
    capped: u64,
    reopened: u64,
}

/// Plays random operations on a ledger and on the model.
fn play(window: &Window, rng: &mut Xoshiro256PlusPlus, played: &mut Played) -> TestResult {
    let choice = [Choice::Lowest, Choice::Random, Choice::NextFit][below(3, rng) as usize];
    let cool_down = (below(2, rng) == 0).then(|| (u64::from(1 + below(60, rng)), 1 + below(12, rng)));
    let pool = window.pool(choice, cool_down)?;
    let mut ledger = Ledger::new(pool.clone(), 3);
    let mut model = Model { slots: vec![None; window.len as usize], next: 0 };
    let number = match window.range.value_at(window.first) {
        Some(LedgerValue::Integer(number)) => number,
        Some(LedgerValue::Address(IpAddr::V4(address))) => address.to_bits().into(),
        Some(LedgerValue::Address(IpAddr::V6(address))) => address.to_bits() as u64,
        _ => window.first,
    };
    let mut right = 1_000;
    for _ in 0..300 {
        played.operations += 1;
        right += u64::from(below(10, rng));
        // Now and then the clock is wrong.
        let now = match below(20, rng) {
            0 => right + u64::from(below(200, rng)),
            1 => right - u64::from(below(200, rng)),
            _ => right,
        };
        let capped = model.cooling().last().zip(cool_down).is_some_and(|((until, _), (time, _))| *until > now + time);
        played.capped += u64::from(capped);
        let owner = (below(3, rng) > 0).then(|| u64::from(below(40, rng)));
        let name = owner.map(|owner| format!("owner-{owner}"));
        let at = u64::from(below(window.len as u32 + 4, rng));
        match below(10, rng) {
            kind @ 0..=5 => {
                let (want, len, aligned) = match kind {
                    0 | 1 => (Want::Any, 1, None),
                    2 => (Want::Value(window.value(at)), 1, None),
                    3 | 4 => {
                        let len = 1 + u64::from(below(9, rng));
                        (Want::Run(len as u32), len, None)
                    }
                    _ => {
                        let bits = below(5, rng) as u8;
                        (Want::Block(bits), 1 << bits, Some(number))
                    }
                };
                model.expire(now, cool_down);
                let result = ledger.allocate(want, name.as_deref(), milliseconds(now), rng);
                let has = owner.and_then(|owner| model.of(owner));
                if len > window.range.last() + u64::from(window.range.last() < u64::MAX) {
                    assert!(matches!(result, Err(AllocateError::RunLength { .. })), "{result:?}");
                } else if let Some((first, own)) = has {
                    let fits = own == len
                        && match want {
                            Want::Value(value) => window.value(first) == value,
                            Want::Block(_) => (number + first).is_multiple_of(len),
                            _ => true,
                        };
                    let has = Allocation { first: window.value(first), len: own as u32 };
                    if fits {
                        assert_eq!(result, Ok(has));
                        played.again += 1;
                    } else {
                        assert!(
                            matches!(&result, Err(AllocateError::HasOther { has: other, .. }) if *other == has),
                            "{result:?}"
                        );
                    }
                } else if let Want::Value(value) = want {
                    let is_excluded = at >= window.len || Window::is_in(&window.excluded, at);
                    let slot = model.slots.get(at as usize).copied().flatten();
                    match result {
                        Ok(allocation) => {
                            assert_eq!(allocation, Allocation { first: value, len: 1 });
                            assert!(!is_excluded);
                            assert!(!matches!(slot, Some(Entry::Used { .. })), "{value} was handed out twice");
                            if let Some(Entry::Cooling { first, len, until }) = slot {
                                for (first, last) in [(first, at), (at + 1, first + len)] {
                                    let own = Entry::Cooling { first, len: last - first, until };
                                    (first..last).for_each(|other| model.slots[other as usize] = Some(own));
                                }
                                model.end_most(cool_down);
                            }
                            model.slots[at as usize] = Some(Entry::Used { first: at, len: 1, owner });
                            played.allocated += 1;
                        }
                        Err(AllocateError::AlreadyAllocated { owner: found, .. }) => {
                            let Some(Entry::Used { owner, .. }) = slot else { panic!("{value} is not in use") };
                            assert_eq!(found, owner.map(|owner| format!("owner-{owner}")));
                        }
                        Err(AllocateError::Excluded { .. }) => assert!(is_excluded),
                        Err(AllocateError::NotInRange { .. }) => {
                            assert_eq!(window.range.offset_of(value), None);
                        }
                        Err(error) => panic!("{error}"),
                    }
                } else {
                    let candidates = model.candidates(window, len, aligned);
                    match result {
                        Ok(allocation) => {
                            let first = window.range.offset_of(allocation.first).ok_or("not in range")? - window.first;
                            assert_eq!(u64::from(allocation.len), len);
                            match choice {
                                Choice::Lowest => assert_eq!(Some(&first), candidates.first()),
                                Choice::Random => assert!(candidates.contains(&first), "{first} of {candidates:?}"),
                                Choice::NextFit => {
                                    let from = candidates.iter().find(|candidate| **candidate >= model.next);
                                    assert_eq!(Some(&first), from.or(candidates.first()));
                                }
                            }
                            for at in first..first + len {
                                model.slots[at as usize] = Some(Entry::Used { first, len, owner });
                            }
                            // Past the end of the range the next one is the first again.
                            let next = first + len;
                            model.next = if next > window.range.last() - window.first { 0 } else { next };
                            played.allocated += 1;
                            played.runs += u64::from(len > 1);
                        }
                        Err(AllocateError::Full { cooling, .. }) => {
                            assert!(candidates.is_empty(), "{choice:?} {want:?}: {candidates:?}");
                            let cold = model.slots.iter().filter(|slot| matches!(slot, Some(Entry::Cooling { .. })));
                            assert_eq!(cooling, cold.count() as u64);
                            played.full += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            6 | 7 => {
                model.expire(now, cool_down);
                let owner = owner.unwrap_or(0);
                let has = model.of(owner);
                let released = ledger.release_owner(&format!("owner-{owner}"), milliseconds(now));
                let expected = has.map(|(first, len)| Allocation { first: window.value(first), len: len as u32 });
                assert_eq!(released, expected.into_iter().collect::<Vec<_>>());
                if let Some((first, len)) = has {
                    model.give_back(first, len, now, cool_down);
                    played.cooled += u64::from(cool_down.is_some());
                }
            }
            8 => {
                model.expire(now, cool_down);
                let released = ledger.release(window.value(at), milliseconds(now));
                match model.slots.get(at as usize).copied().flatten() {
                    Some(Entry::Used { owner: Some(owner), .. }) => {
                        assert_eq!(released.map_err(|error| error.owner), Err(format!("owner-{owner}")));
                    }
                    Some(Entry::Used { owner: None, .. }) => {
                        assert_eq!(released, Ok(true));
                        model.give_back(at, 1, now, cool_down);
                    }
                    Some(Entry::Cooling { .. }) | None => assert_eq!(released, Ok(false)),
                }
            }
            _ => {
                let stored = ledger.encode();
                let opened = Ledger::open(pool.clone(), &stored, 5)?;
                assert_eq!(opened.encode(), stored);
                ledger = opened;
                played.reopened += 1;
            }
        }
        check(window, &ledger, &model);
    }
    Ok(())
}

/// Compares all that a ledger says with the model.
fn check(window: &Window, ledger: &Ledger, model: &Model) {
    let used: Vec<LedgerValue> = (0..window.len)
        .filter(|at| matches!(model.slots[*at as usize], Some(Entry::Used { .. })))
        .map(|at| window.value(at))
        .collect();
    assert_eq!(ledger.iter().collect::<Vec<_>>(), used);
    assert_eq!(ledger.used(), used.len() as u64);
    let mut owners: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for at in 0..window.len {
        let value = window.value(at);
        let slot = model.slots[at as usize];
        assert_eq!(ledger.has(value), matches!(slot, Some(Entry::Used { .. })), "{value}");
        let owner = match slot {
            Some(Entry::Used { first, len, owner: Some(owner) }) => {
                owners.insert(owner, (first, len));
                Some(format!("owner-{owner}"))
            }
            _ => None,
        };
        assert_eq!(ledger.owner_of(value).map(str::to_owned), owner, "{value}");
    }
    for (owner, (first, len)) in owners {
        let allocation = Allocation { first: window.value(first), len: len as u32 };
        assert_eq!(ledger.owned_by(&format!("owner-{owner}")).collect::<Vec<_>>(), [allocation]);
    }
    let cooling = model.slots.iter().filter(|slot| matches!(slot, Some(Entry::Cooling { .. }))).count();
    assert_eq!(ledger.cooling(), cooling as u64);
}

#[test]
fn a_ledger_is_its_model_in_ranges_of_all_kinds() -> TestResult {
    let mut rng = seeded(33);
    let mut played = Played::default();
    let window = |range: &str, first, len| -> Result<Window, ParseLedgerError> {
        Ok(Window { range: range.parse()?, first, len, excluded: vec![], reserved: vec![], band: None })
    };
    for round in 0..cases(96) {
        // The same games in a bitmap and in a hash set, at the beginning, inside and at the end of a range.
        let mut window = match round % 12 {
            0 => window("100-163", 0, 64)?,
            1 => window("0-0", 0, 1)?,
            2 => window("30000-32767", 10, 100)?,
            3 => window("10.0.0.0/25", 0, 126)?,
            4 => window("10.0.0.0/16/28", 60, 80)?,
            5 => window("1000000000-1999999999/10000", 99_900, 100)?,
            6 => window("0-18446744073709551615", 0, 70)?,
            7 => window("0-18446744073709551615", 1 << 40, 130)?,
            8 => window("0-18446744073709551615", u64::MAX - 99, 100)?,
            9 => window("fd00::/64", 4_000, 90)?,
            10 => window("2001:db8::/32/80", (1 << 48) - 100, 100)?,
            _ => window("7-20000000", 1_000_000, 100)?,
        };
        let span = |rng: &mut Xoshiro256PlusPlus| {
            let first = below(window.len as u32, rng);
            (u64::from(first), u64::from(first + below((window.len as u32 - first).min(12), rng)))
        };
        if window.len > 1 {
            window.excluded = (0..below(3, &mut rng)).map(|_| span(&mut rng)).collect();
            window.reserved = (0..below(3, &mut rng)).map(|_| span(&mut rng)).collect();
            window.band = (below(2, &mut rng) == 0).then(|| span(&mut rng));
        }
        play(&window, &mut rng, &mut played)?;
    }
    let Played { operations, allocated, runs, full, again, cooled, capped, reopened } = played;
    println!(
        "{operations} operations: {allocated} allocated, of these {runs} runs, {full} times full, {again} times the same \
         again, {cooled} releases with cool-down, {capped} times the clock went back, {reopened} times stored and opened"
    );
    assert!(operations >= cases(28_800) && runs > cases(1_200) && full > cases(100));
    assert!(again > cases(800) && cooled > cases(400) && capped > cases(100) && reopened > cases(1_800));
    Ok(())
}

#[test]
fn ranges_are_read_and_written() -> TestResult {
    let last = u64::MAX;
    for (text, highest, first, at_last) in [
        ("4096-16777215", 16_773_119, "4096", "16777215"),
        ("0-18446744073709551615", last, "0", "18446744073709551615"),
        ("5-5", 0, "5", "5"),
        ("1000000000-1999999999/10000", 99_999, "1000000000/10000", "1999990000/10000"),
        ("10-34/10", 1, "10/10", "20/10"),
        ("10.96.0.0/12", (1 << 20) - 3, "10.96.0.1", "10.111.255.254"),
        ("fd00::/64", last - 1, "fd00::1", "fd00::ffff:ffff:ffff:ffff"),
        ("10.0.0.0/16/28", 4095, "10.0.0.0/28", "10.0.255.240/28"),
        ("10.0.0.0/16/16", 0, "10.0.0.0/16", "10.0.0.0/16"),
        ("0.0.0.0/0/32", (1 << 32) - 1, "0.0.0.0/32", "255.255.255.255/32"),
        ("2001:db8::/32/128", last, "2001:db8::/128", "2001:db8::ffff:ffff:ffff:ffff/128"),
        ("2001:db8::/32/96", last, "2001:db8::/96", "2001:db8:ffff:ffff:ffff:ffff::/96"),
    ] {
        let range: LedgerRange = text.parse()?;
        assert_eq!((range.to_string().as_str(), range.last()), (text, highest));
        for (offset, value) in [(0, first), (range.last(), at_last)] {
            assert_eq!(range.value_at(offset).map(|value| value.to_string()).as_deref(), Some(value), "{text}");
            let parsed = range.parse_value(value)?;
            assert_eq!(range.offset_of(parsed), Some(offset), "{text}");
        }
        assert_eq!(range.value_at(range.last().wrapping_add(1)).is_none(), range.last() < last);
        for start in [0, range.last() / 2, range.last().saturating_sub(3)] {
            let in_a_row: Vec<_> = (start..=range.last()).take(4).filter_map(|offset| range.value_at(offset)).collect();
            let allocation = Allocation { first: in_a_row[0], len: in_a_row.len() as u32 };
            assert_eq!(allocation.values().collect::<Vec<_>>(), in_a_row, "{text}");
        }
    }
    for (text, value) in [("0-18446744073709551615", "18446744073709551615"), ("0.0.0.0/0/32", "255.255.255.255/32")] {
        let first = text.parse::<LedgerRange>()?.parse_value(value)?;
        assert_eq!(Allocation { first, len: 2 }.values().collect::<Vec<_>>(), [first], "there is none after {value}");
    }
    for text in [
        "",
        "-",
        "5",
        "5-",
        "-5",
        "7-5",
        "0-18446744073709551616",
        "1-2/0",
        "1-2/3",
        "1-2/x",
        "a-b",
        "+1-2",
        "10.0.0.0/31",
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0.0/16/15",
        "10.0.0.0/16/33",
        "10.0.0.0/16/x",
        "fd00::/64/129",
        "::/0",
        "::/64",
        "::/0/1",
        "::ffff:0:0/96/128",
    ] {
        let error = text.parse::<LedgerRange>().expect_err(text);
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
    let range: LedgerRange = "10.0.0.0/16/28".parse()?;
    for text in ["10.0.0.8/28", "10.0.0.0/27", "10.1.0.0/28", "10.0.0.0", "fd00::/28", "1"] {
        let error = range.parse_value(text).expect_err(text).to_string();
        assert!(
            error.contains(text.split('/').next().unwrap_or_default()) && error.contains("10.0.0.0/16/28"),
            "{error}"
        );
    }
    let range: LedgerRange = "1000000000-1999999999/10000".parse()?;
    for text in ["1000000005/10000", "1000000000/100", "2000000000/10000", "1000000000"] {
        let error = range.parse_value(text).expect_err(text).to_string();
        assert!(error.contains(text) && error.contains("1000000000-1999999999/10000"), "{error}");
    }
    for (range, block, expected) in [
        (
            "1000000000-1999999999/10000",
            "1000675000/10000",
            "1000675000/10000 is no block of the range 1000000000-1999999999/10000, which has 1000670000/10000 and 1000680000/10000 there",
        ),
        ("100-199/10", "195/10", "195/10 is not in the range 100-199/10"),
        ("100-199/10", "95/10", "95/10 is not in the range 100-199/10"),
        ("100-199/10", "120/20", "120/20 is not in the range 100-199/10"),
    ] {
        let range: LedgerRange = range.parse()?;
        assert_eq!(range.parse_value(block).map_err(|error| error.to_string()), Err(expected.into()));
    }
    for (range, part, expected) in [
        ("100-199", "150-160", Some((50, 60))),
        ("100-199", "0-100", Some((0, 0))),
        ("100-199", "199-400", Some((99, 99))),
        ("100-199", "7", None),
        ("100-199", "200", None),
        ("100-199", "160-150", None),
        ("100-199", "10.0.0.1", None),
        ("100-199/10", "105-119", Some((0, 1))),
        ("100-199/10", "120/10", Some((2, 2))),
        ("100-199/10", "115/10", Some((1, 2))),
        ("100-199/10", "120/0", None),
        ("100-199/10", "18446744073709551615/18446744073709551615", None),
        ("100-199", "120/10", None),
        ("0-4294967295/65536", "4294901760/65536", Some((65535, 65535))),
        ("10.0.0.0/24", "10.0.0.0/30", Some((0, 2))),
        ("10.0.0.0/24", "10.0.0.0", None),
        ("10.0.0.0/24", "10.0.0.255", None),
        ("10.0.0.0/24", "10.0.0.9-10.0.1.9", Some((8, 253))),
        ("10.0.0.0/24", "fd00::1", None),
        ("10.0.0.0/24", "10.0.0.1/24", None),
        ("10.0.0.0/16/28", "10.0.0.17", Some((1, 1))),
        ("10.0.0.0/16/28", "10.0.1.0/24", Some((16, 31))),
        ("fd00::/64", "fd00::1-fd00:0:0:1::", Some((0, last - 1))),
    ] {
        let range: LedgerRange = range.parse()?;
        match (range.parse_part(part), expected) {
            (Ok(found), Some(expected)) => assert_eq!(found, expected, "{part} of {range}"),
            (Err(error), None) => assert!(error.to_string().contains(part), "{error}"),
            (found, expected) => panic!("{part} of {range}: {found:?}, expected {expected:?}"),
        }
    }
    Ok(())
}

/// The bitmap of a range of at most 2^24 values is what kube-apiserver stores.
#[test]
fn a_range_of_services_is_stored_as_by_kube_apiserver() -> TestResult {
    let mut before = Vec::new();
    let file = std::fs::File::open("../testing/testdata/kube-1.32-dual-stack/clean-serviceips.bin.gz")?;
    flate2::read::GzDecoder::new(file).read_to_end(&mut before)?;
    let object = RangeAllocation::decode(&before)?;
    let pool = Pool::new(object.range.parse()?, Choice::Lowest);
    let mut ledger = Ledger::open(pool, &before, 1)?;
    assert!(ledger.used() > 0);
    assert!(ledger.has(ledger.pool().range().parse_value("10.96.0.1")?));
    assert_eq!(ledger.encode(), before);
    let mut rng = seeded(1);
    let allocation = ledger.allocate(Want::Any, Some("default/web"), Duration::ZERO, &mut rng)?;
    let after = RangeAllocation::decode(&ledger.encode())?;
    assert_eq!(after.range, object.range);
    let offset = ledger.pool().range().offset_of(allocation.first).ok_or("not in range")?;
    let mut bitmap = rangekeeper::bitmap::Bitmap::new((1 << 20) - 2);
    bitmap.restore(&object.data)?;
    assert!(bitmap.insert(offset as u32));
    assert_eq!(after.data, bitmap.snapshot());
    Ok(())
}

/// Data of a wide range is what `RoaringTreemap` reads and writes.
#[test]
fn a_wide_range_is_stored_as_a_roaring_bitmap() -> TestResult {
    let mut rng = seeded(2);
    let pool = Pool::new("0-18446744073709551615".parse()?, Choice::Random);
    let mut ledger = Ledger::new(pool.clone(), 1);
    let mut treemap = RoaringTreemap::new();
    for round in 0..3_000_u64 {
        let want = match round % 3 {
            0 => Want::Any,
            1 => Want::Run(1 + below(40, &mut rng)),
            _ => Want::Value(LedgerValue::Integer(u64::MAX - round * round)),
        };
        let Allocation { first, len } = ledger.allocate(want, None, Duration::ZERO, &mut rng)?;
        let LedgerValue::Integer(first) = first else { panic!("{first} is no integer") };
        treemap.insert_range(first..=first + u64::from(len - 1));
    }
    let stored = RangeAllocation::decode(&ledger.encode())?;
    assert_eq!(stored.range, "0-18446744073709551615");
    assert_eq!(RoaringTreemap::deserialize_from(&stored.data[..])?, treemap);
    // Other programs write runs, too.
    treemap.insert_range(1 << 50..(1 << 50) + 200_000);
    treemap.optimize();
    let mut other = RangeAllocation::new(Form::Protobuf);
    other.range = stored.range;
    treemap.serialize_into(&mut other.data)?;
    let opened = Ledger::open(pool, &other.encode(), 1)?;
    assert_eq!(opened.used(), treemap.len());
    let integers = opened.iter().map(|value| if let LedgerValue::Integer(integer) = value { integer } else { 0 });
    assert!(integers.eq(treemap.iter()));
    let allocated: Vec<LedgerValue> = opened.difference(&ledger).collect();
    assert_eq!(allocated.first(), Some(&LedgerValue::Integer(1 << 50)));
    assert_eq!((allocated.len(), ledger.difference(&opened).count()), (200_000, 0));
    Ok(())
}

/// A stored object with this range, data and content of field 15.
fn stored(range: &str, data: &[u8], field: &[u8]) -> Vec<u8> {
    let mut object = RangeAllocation::new(Form::Protobuf);
    object.range = range.to_owned();
    object.data = data.to_vec();
    let plain = object.encode();
    // The RangeAllocation is the only field that ends before contentEncoding and contentType, which are empty.
    let (inner, tail) = plain.split_at(plain.len() - 4);
    let raw = 4 + 2 + 0x15;
    let message = &inner[raw + 2..];
    let mut changed = message.to_vec();
    changed.push(0x7a);
    changed.push(field.len() as u8);
    changed.extend_from_slice(field);
    assert!(changed.len() < 128 && inner[raw] == 0x12);
    [&inner[..raw], &[0x12, changed.len() as u8], &changed, tail].concat()
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() -> TestResult {
    let pool = |range: &str| -> Result<Pool, ParseLedgerError> { Ok(Pool::new(range.parse()?, Choice::Lowest)) };
    let json = br#"{"kind":"RangeAllocation","apiVersion":"v1","metadata":{},"range":"0-9","data":""}"#;
    assert_eq!(Ledger::open(pool("0-9")?, json, 1).err(), Some(OpenError::NotProtobuf));
    assert!(matches!(Ledger::open(pool("0-9")?, b"k8s", 1), Err(OpenError::Decode(_))));
    assert_eq!(Ledger::open(pool("0-9")?, b"", 1).map(|ledger| ledger.used()), Ok(0));
    let other = stored("0-8", &[], &[]);
    assert!(matches!(Ledger::open(pool("0-9")?, &other, 1), Err(OpenError::OtherRange { .. })));
    assert!(matches!(Ledger::open(pool("0-9")?, &stored("0-9", &[4, 0], &[]), 1), Err(OpenError::BitsPastRange(_))));

    let owned = |first: u8, len: u8, owner: &str| {
        let entry = [&[8, first, 16, len, 0x1a, owner.len() as u8], owner.as_bytes()].concat();
        [&[0x12, entry.len() as u8], entry.as_slice()].concat()
    };
    let cooling = |first: u8, len: u8| vec![0x1a, 6, 8, first, 16, len, 24, 1];
    for (field, reason) in [
        (owned(8, 3, "a"), "are not in the range"),
        (owned(0, 0, "a"), "are not in the range"),
        (owned(0, 1, ""), "empty"),
        ([owned(0, 3, "a"), owned(2, 1, "b")].concat(), "another owner"),
        ([owned(2, 1, "b"), owned(0, 3, "a")].concat(), "another owner"),
        (vec![0x12, 5, 8, 1, 0x1a, 1, 0xff], "UTF-8"),
        (cooling(1, 1), "data does not have"),
        ([owned(1, 1, "a"), cooling(1, 1)].concat(), "have an owner"),
        ([cooling(5, 2), cooling(6, 1)].concat(), "another entry"),
    ] {
        let stored = stored("0-9", &[0b110_0000], &field);
        let error = Ledger::open(pool("0-9")?, &stored, 1).expect_err(reason);
        let OpenError::Entry { offset, .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains(reason), "{error}");
        // The entry is the last thing in the field, which ends four bytes before the value does.
        assert!(*offset < stored.len() - 4 && *offset > stored.len() - 4 - field.len(), "{error}");
    }
    // An owned value is in use, whatever the bitmap says; a place past the end is none.
    let field = [owned(1, 2, "a"), owned(4, 1, "a"), vec![8, 77]].concat();
    let mut ledger = Ledger::open(pool("0-9")?, &stored("0-9", &[], &field), 1)?;
    assert_eq!(ledger.used(), 3);
    assert_eq!(ledger.owned_by("a").count(), 2);
    let findings = ledger.audit(["a", "b"]);
    assert!(
        matches!(&findings[..], [
        LedgerFinding::SeveralAllocations { owner, has },
        LedgerFinding::OwnerUnknown { owner: unknown },
    ] if owner == "a" && has.len() == 2 && unknown == "b"),
        "{findings:?}"
    );
    assert_eq!(ledger.release_owner("a", Duration::ZERO).len(), 2);
    assert_eq!(ledger.used(), 0);

    for (data, reason) in [
        (&[1_u8, 0, 0][..], "cut off"),
        (&[1, 0, 0, 0, 0, 0, 0, 0], "a bitmap is missing"),
        (&[0, 0, 0, 0, 0, 0, 0, 0, 9], "something follows"),
        (&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3], "cannot be read"),
    ] {
        let error = Ledger::open(pool("0-99999999")?, &stored("0-99999999", data, &[]), 1).expect_err(reason);
        assert!(matches!(error, OpenError::Roaring { .. }) && error.to_string().contains(reason), "{error}");
    }
    // A few bytes cannot make a ledger large.
    let wide = |field: &[u8]| Ledger::open(pool("0-99999999").expect("a range"), &stored("0-99999999", &[], field), 1);
    let error = wide(&[0x12, 9, 8, 0, 16, 0x81, 0x80, 4, 0x1a, 1, b'a']).expect_err("a long run");
    assert!(error.to_string().contains("more values in a row"), "{error}");
    assert_eq!(wide(&[0x12, 9, 8, 0, 16, 0x80, 0x80, 4, 0x1a, 1, b'a'])?.used(), u64::from(RUN_MAX));
    let mut treemap = RoaringTreemap::new();
    treemap.insert_range(0..(1 << 26) + 1);
    treemap.optimize();
    let mut data = Vec::new();
    treemap.serialize_into(&mut data)?;
    let mut many = RangeAllocation::new(Form::Protobuf);
    (many.range, many.data) = ("0-99999999".to_owned(), data);
    let error = Ledger::open(pool("0-99999999")?, &many.encode(), 1).expect_err("too many");
    assert!(error.to_string().contains("more than 2^26"), "{error}");
    let mut treemap = RoaringTreemap::new();
    treemap.insert(100_000_000);
    let mut data = Vec::new();
    treemap.serialize_into(&mut data)?;
    let error = Ledger::open(pool("0-99999999")?, &stored("0-99999999", &data, &[]), 1).expect_err("past the end");
    assert!(error.to_string().contains("past the end"), "{error}");
    Ok(())
}

#[test]
fn owners_that_are_gone_are_due_after_several_audits() -> TestResult {
    let mut rng = seeded(4);
    let mut ledger = Ledger::new(Pool::new("100-199".parse()?, Choice::Lowest), 1);
    for owner in ["a", "b", "c"] {
        ledger.allocate(Want::Any, Some(owner), Duration::ZERO, &mut rng)?;
    }
    ledger.allocate(Want::Any, None, Duration::ZERO, &mut rng)?;
    let mut leaks = OwnerLeaks::new(NonZeroU8::new(3).ok_or("0")?);
    let mut due = Vec::new();
    // b comes back once, and its count begins at 0 again.
    for listed in [&["a"][..], &["a"], &["a", "b"], &["a"], &["a"], &["a"]] {
        let findings = ledger.audit(listed.iter().copied());
        assert_eq!(
            findings.last(),
            Some(&LedgerFinding::NoOwner { has: Allocation { first: LedgerValue::Integer(103), len: 1 } })
        );
        due.push(leaks.advance(&findings));
        for owner in due.last().into_iter().flatten() {
            assert_eq!(ledger.release_owner(owner, Duration::ZERO).len(), 1);
        }
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(due, [names(&[]), names(&[]), names(&["c"]), names(&[]), names(&[]), names(&["b"])]);
    assert_eq!(ledger.used(), 2);
    Ok(())
}

/// A program whose clock is a year ahead releases everything. One whose clock is right finds nothing free, and stores
/// the end that is right.
#[test]
fn a_clock_that_was_ahead_takes_no_value_out_of_use_for_longer() -> TestResult {
    let (year, minute) = (Duration::from_hours(365 * 24), Duration::from_mins(1));
    let cool_down = CoolDown::new(minute, 100).expect("above 0");
    let pool = Pool::new("0-7".parse()?, Choice::Lowest).cool_down(cool_down);
    let mut rng = seeded(44);
    let mut ledger = Ledger::new(pool.clone(), 1);
    ledger.allocate(Want::Run(5), Some("run"), Duration::ZERO, &mut rng)?;
    let singles: Result<Vec<_>, _> =
        (0..3).map(|_| ledger.allocate(Want::Any, None, Duration::ZERO, &mut rng)).collect();
    assert_eq!(ledger.release_owner("run", year).len(), 1);
    for single in singles? {
        assert_eq!(ledger.release(single.first, year), Ok(true));
    }
    let first_look = Duration::from_secs(5);
    for now in [first_look, first_look + minute - Duration::from_millis(1)] {
        let refused = ledger.allocate(Want::Any, None, now, &mut rng);
        assert!(matches!(refused, Err(AllocateError::Full { cooling: 8, .. })), "{refused:?}");
        ledger = Ledger::open(pool.clone(), &ledger.encode(), 1)?;
    }
    ledger.allocate(Want::Run(8), None, first_look + minute, &mut rng)?;
    Ok(())
}

#[test]
fn errors_say_what_stands_in_the_way() -> TestResult {
    let (mut rng, mut later) = (seeded(5), seeded(6));
    let mut allocate = |ledger: &mut Ledger, want, owner: Option<&str>| {
        ledger.allocate(want, owner, Duration::ZERO, &mut rng).map_err(|error| error.to_string())
    };
    let pool = Pool::new("10-13".parse()?, Choice::Lowest).exclude("12")?;
    assert_eq!((CoolDown::new(Duration::ZERO, 1), CoolDown::new(Duration::MAX, 0)), (None, None));
    let mut ledger = Ledger::new(pool.cool_down(CoolDown::new(Duration::from_secs(1), 10).expect("above 0")), 1);
    let value = LedgerValue::Integer;
    assert!(allocate(&mut ledger, Want::Value(value(10)), Some("a")).is_ok());
    let said = |result: Result<Allocation, String>| result.expect_err("refused");
    assert_eq!(said(allocate(&mut ledger, Want::Value(value(10)), Some("b"))), "10 is already allocated by a");
    assert_eq!(said(allocate(&mut ledger, Want::Value(value(10)), None)), "10 is already allocated by a");
    assert_eq!(said(allocate(&mut ledger, Want::Value(value(12)), None)), "12 is excluded from the range 10-13");
    assert_eq!(said(allocate(&mut ledger, Want::Value(value(14)), None)), "14 is not in the range 10-13");
    assert_eq!(said(allocate(&mut ledger, Want::Run(2), Some("a"))), "a has 10 already");
    assert_eq!(said(allocate(&mut ledger, Want::Run(2), None)), "range 10-13 has no 2 values in a row that are free");
    assert_eq!(
        said(allocate(&mut ledger, Want::Block(1), None)),
        "range 10-13 has no aligned block of 2 values that is free"
    );
    assert!(said(allocate(&mut ledger, Want::Run(0), None)).starts_with("0 values in a row were asked for"));
    assert!(said(allocate(&mut ledger, Want::Run(5), None)).ends_with("range 10-13 gives 1 to 4"));
    assert!(said(allocate(&mut ledger, Want::Block(64), None)).contains("18446744073709551615"));
    assert!(said(allocate(&mut ledger, Want::Any, Some(""))).contains("0 bytes"));
    assert!(said(allocate(&mut ledger, Want::Any, Some(&"x".repeat(1025)))).contains("1025 bytes"));
    ledger.release_owner("a", Duration::ZERO);
    assert!(allocate(&mut ledger, Want::Any, None).is_ok());
    assert!(allocate(&mut ledger, Want::Any, None).is_ok());
    let full = "range 10-13 has no value free; 1 value was released and is not given out yet";
    assert_eq!(said(allocate(&mut ledger, Want::Any, None)), full);
    assert_eq!(ledger.allocate(Want::Any, None, Duration::from_secs(1), &mut later)?.first, value(10));

    let mut wide = Ledger::new(Pool::new("0-99999999".parse()?, Choice::Lowest), 1);
    assert!(allocate(&mut wide, Want::Run(RUN_MAX), Some("first")).is_ok());
    assert!(allocate(&mut wide, Want::Run(RUN_MAX + 1), None).is_err());
    // Only runs of this length fill a range to its limit in a moment.
    for _ in 1..WIDE_USED_MAX / u64::from(RUN_MAX) {
        assert!(allocate(&mut wide, Want::Run(RUN_MAX), None).is_ok());
    }
    assert_eq!(wide.used(), WIDE_USED_MAX);
    let many = "67108864 values of range 0-99999999 are in use, and no more can be";
    assert_eq!(said(allocate(&mut wide, Want::Any, None)), many);
    assert_eq!(said(allocate(&mut wide, Want::Value(value(99_999_999)), Some("a"))), many);
    assert_eq!(Ledger::open(wide.pool().clone(), &wide.encode(), 1)?.used(), WIDE_USED_MAX);
    assert_eq!(wide.release(value(65536), Duration::ZERO), Ok(true));
    assert!(allocate(&mut wide, Want::Value(value(99_999_998)), Some("a")).is_ok());
    // The bitmap has that value. An owner of the next one has one more than can be in use.
    let (mut stored, entry) = (wide.encode(), [8, 0xfe, 0xc1, 0xd7, 0x2f, 0x1a, 1, b'a']);
    let at = stored.windows(entry.len()).position(|window| window == entry).ok_or("no entry")?;
    stored[at + 1] += 1;
    let error = Ledger::open(wide.pool().clone(), &stored, 1).expect_err("too many");
    assert_eq!(error, OpenError::Entry { offset: at, reason: "has more values than can be in use" });
    Ok(())
}
