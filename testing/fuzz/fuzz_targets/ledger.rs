//! Stored bytes as a ledger, and operations on what was opened.

#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ledger::{Choice, CoolDown, Ledger, LedgerFinding, LedgerRange, LedgerValue, Pool, Want};
use rangekeeper::range_allocation::{Form, RangeAllocation};

/// Of each kind; the last ones have no bitmap.
const RANGES: [&str; 6] =
    ["100-199", "10.0.0.0/24", "10.0.0.0/24/28", "0-999/10", "0-16777300", "0-18446744073709551615"];

#[derive(Arbitrary, Debug)]
struct Input {
    range: u8,
    /// A whole stored value, or the data of one.
    is_whole: bool,
    bytes: Vec<u8>,
    seed: u64,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Any { owner: u8, now: u8 },
    Value { offset: u64, owner: u8, now: u8 },
    Run { len: u8, owner: u8, now: u8 },
    Block { bits: u8, owner: u8, now: u8 },
    Release { offset: u64, now: u8 },
    ReleaseOwner { owner: u8, now: u8 },
    Reopen,
    Parse(String),
}

/// All values by owner; those without one belong to nobody.
fn contents(ledger: &Ledger) -> BTreeMap<LedgerValue, Option<String>> {
    ledger.iter().map(|value| (value, ledger.owner_of(value).map(str::to_owned))).collect()
}

fuzz_target!(|input: Input| {
    let text = RANGES[usize::from(input.range) % RANGES.len()];
    let range: LedgerRange = text.parse().expect("a range");
    let cool_down = CoolDown::new(Duration::from_secs(20), 5).expect("above 0");
    let pool = Pool::new(range, [Choice::Lowest, Choice::Random, Choice::NextFit][input.steps.len() % 3]);
    let pool = pool.cool_down(cool_down);
    let mut object = RangeAllocation::new(Form::Protobuf);
    (object.range, object.data) = (text.to_owned(), input.bytes.clone());
    let stored = if input.is_whole { input.bytes } else { object.encode() };
    // Many values take their time; other targets play long sequences.
    let opened = Ledger::open(pool.clone(), &stored, 1).ok().filter(|ledger| ledger.used() < 5_000);
    let mut ledger = opened.unwrap_or_else(|| Ledger::new(pool.clone(), 1));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(input.seed);
    for step in input.steps.iter().take(32) {
        let name = |owner: u8| (!owner.is_multiple_of(4)).then(|| format!("owner {owner}"));
        let seconds = |now: u8| Duration::from_secs(now.into());
        let value = |offset: u64| range.value_at(offset % range.last().saturating_add(1).max(1)).expect("a value");
        let mut allocate = |ledger: &mut Ledger, want, owner, now| {
            let (before, name) = (contents(ledger), name(owner));
            let Ok(given) = ledger.allocate(want, name.as_deref(), seconds(now), &mut rng) else {
                return assert_eq!(contents(ledger), before);
            };
            let first = range.offset_of(given.first).expect("in range");
            let after = contents(ledger);
            for offset in 0..u64::from(given.len) {
                let value = range.value_at(first + offset).expect("in range");
                assert_eq!(after[&value], name);
                if let Some(owner) = before.get(&value) {
                    assert!(name.is_some() && *owner == name, "{value} was handed out twice");
                }
            }
        };
        match step {
            Step::Any { owner, now } => allocate(&mut ledger, Want::Any, *owner, *now),
            Step::Value { offset, owner, now } => allocate(&mut ledger, Want::Value(value(*offset)), *owner, *now),
            Step::Run { len, owner, now } => allocate(&mut ledger, Want::Run((*len).into()), *owner, *now),
            Step::Block { bits, owner, now } => allocate(&mut ledger, Want::Block(bits % 9), *owner, *now),
            Step::Release { offset, now } => {
                let (value, owner) = (value(*offset), ledger.owner_of(value(*offset)).map(str::to_owned));
                let was_used = ledger.has(value);
                match ledger.release(value, seconds(*now)) {
                    Ok(released) => assert!(released == was_used && owner.is_none() && !ledger.has(value)),
                    Err(error) => assert_eq!(Some(error.owner), owner),
                }
            }
            Step::ReleaseOwner { owner, now } => {
                let name = format!("owner {owner}");
                let has: Vec<_> = ledger.owned_by(&name).collect();
                assert_eq!(ledger.release_owner(&name, seconds(*now)), has);
                assert_eq!(ledger.owned_by(&name).count(), 0);
                assert!(has.iter().all(|has| !ledger.has(has.first)));
            }
            Step::Reopen => {
                let stored = ledger.encode();
                let again = Ledger::open(pool.clone(), &stored, 2).expect("what was encoded");
                assert_eq!(again.encode(), stored);
                assert_eq!(contents(&again), contents(&ledger));
                assert_eq!((again.used(), again.cooling()), (ledger.used(), ledger.cooling()));
                ledger = again;
            }
            Step::Parse(text) => {
                if let Ok(range) = text.parse::<LedgerRange>() {
                    assert_eq!(range.to_string().parse(), Ok(range));
                    for offset in [0, range.last() / 2, range.last()] {
                        let value = range.value_at(offset).expect("in range");
                        assert_eq!(range.offset_of(value), Some(offset), "{value} of {range}");
                        assert_eq!(range.parse_value(&value.to_string()), Ok(value));
                    }
                }
                if let Ok((first, last)) = range.parse_part(text) {
                    assert!(first <= last && last <= range.last(), "{text} of {range}");
                }
            }
        }
        let owners = ledger.audit([]);
        assert!(owners.iter().all(|finding| !matches!(finding, LedgerFinding::OwnerUnknown { .. })));
    }
});
