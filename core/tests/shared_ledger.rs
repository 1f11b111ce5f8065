//! Several programs that change one ledger, in a store that knows nothing but tokens: answers get lost, writes arrive
//! late, and programs end.

#![cfg(feature = "ledger")]

mod common;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use common::{below, seeded};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ledger::{
    AllocateError, Allocation, Change, ChangeTicket, Choice, CoolDown, Ledger, LedgerValue, Memory, OpenError, Outcome,
    Pool, Put, Request, RunError, SharedLedger, Store as _, Token, Want,
};

/// A row, and the network before it.
#[derive(Default)]
struct Store {
    row: Memory,
    /// Writes that the network still has.
    late: Vec<(Vec<u8>, Option<Token>)>,
}

impl Store {
    fn ledger(&self, pool: &Pool) -> Ledger {
        let opened = self.row.value().map(|value| Ledger::open(pool.clone(), value, 1).expect("what a program wrote"));
        opened.unwrap_or_else(|| Ledger::new(pool.clone(), 1))
    }
}

struct Program {
    ledger: SharedLedger,
    /// With whether the range was full at any time since the submission.
    under_way: BTreeMap<ChangeTicket, (Change, bool)>,
    /// The owners of this program, and what it was told that they have; `None` while a change is under way.
    owners: BTreeMap<String, Option<Vec<Allocation>>>,
    /// Values without an owner that it was given.
    unowned: Vec<LedgerValue>,
    /// Whether it may have lost values without an owner.
    lost: bool,
}

#[derive(Default)]
struct Played {
    given: u64,
    released: u64,
    conflicts: u64,
    unanswered: u64,
    late: u64,
    full: u64,
    waits: u64,
    cancelled: u64,
    /// Schedules after which each value without an owner was known to a program.
    without_loss: u64,
}

/// The time of a schedule: each request and each answer takes a millisecond.
struct Clock(Duration);

impl Clock {
    fn tick(&mut self) -> Duration {
        self.0 += Duration::from_millis(1);
        self.0
    }
}

/// Plays one schedule of three programs; each has owners of its own.
fn play(seed: u64, played: &mut Played) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let choice = [Choice::Lowest, Choice::Random, Choice::NextFit][below(3, &mut rng) as usize];
    let text = ["10-15", "0-99999999", "10.0.0.0/28"][below(3, &mut rng) as usize];
    let pool = Pool::new(text.parse().expect("a range"), choice);
    let mut store = Store::default();
    let fresh = || SharedLedger::new(pool.clone(), 1);
    let program = || Program {
        ledger: fresh(),
        under_way: BTreeMap::new(),
        owners: BTreeMap::new(),
        unowned: vec![],
        lost: false,
    };
    let mut clock = Clock(Duration::ZERO);
    // In a quarter of the schedules nothing gets lost.
    let is_calm = below(4, &mut rng) == 0;
    let mut programs = [program(), program(), program()];
    for _ in 0..60 {
        let number = below(3, &mut rng) as usize;
        let name = format!("{number}/{}", below(3, &mut rng));
        let program = &mut programs[number];
        match below(14, &mut rng) {
            0..=2 => {
                let is_idle = program.owners.get(&name).is_none_or(Option::is_some);
                let owner = (below(4, &mut rng) > 0).then_some(name);
                if is_idle || owner.is_none() {
                    let want = [Want::Any, Want::Run(2), Want::Block(1)][below(3, &mut rng) as usize];
                    let want = if owner.is_none() { Want::Any } else { want };
                    owner.iter().for_each(|name| drop(program.owners.insert(name.clone(), None)));
                    let change = Change::Allocate { want, owner };
                    program.under_way.insert(program.ledger.submit(change.clone()), (change, false));
                }
            }
            3 => {
                if let Some(value) = program.unowned.pop() {
                    let change = Change::Release { value };
                    program.under_way.insert(program.ledger.submit(change.clone()), (change, false));
                } else if program.owners.get(&name).is_none_or(Option::is_some) {
                    program.owners.insert(name.clone(), None);
                    let change = Change::ReleaseOwner { owner: name };
                    program.under_way.insert(program.ledger.submit(change.clone()), (change, false));
                }
            }
            4 if !is_calm && below(3, &mut rng) == 0 => {
                // It restarts. It knows what it was told; what it was not, it asks for again or gives up.
                program.ledger = fresh();
                program.lost = true;
                for (_, (change, _)) in std::mem::take(&mut program.under_way) {
                    match change {
                        Change::Release { .. } | Change::Allocate { owner: None, .. } => {}
                        change => {
                            let change = match change {
                                Change::Allocate { owner: Some(owner), .. } if below(2, &mut rng) == 0 => {
                                    Change::ReleaseOwner { owner }
                                }
                                change => change,
                            };
                            program.under_way.insert(program.ledger.submit(change.clone()), (change, false));
                        }
                    }
                }
            }
            5 => {
                // A late write arrives.
                if !store.late.is_empty() {
                    let at = below(store.late.len() as u32, &mut rng) as usize;
                    let (value, token) = store.late.swap_remove(at);
                    played.late += u64::from(store.row.put(value, token) != Ok(Put::Changed));
                }
            }
            7 => {
                program.under_way.insert(program.ledger.submit(Change::Read), (Change::Read, false));
            }
            6 => {
                // A caller gives up. What it wanted for an owner may have happened.
                let gives_up = |(change, _): &mut (Change, bool)| !is_calm || !matches!(change, Change::Release { .. });
                let first = program.under_way.extract_if(.., |_, submitted| gives_up(submitted)).next();
                if let Some((ticket, (change, _))) = first {
                    played.cancelled += 1;
                    program.ledger.cancel(ticket);
                    if let Change::Allocate { owner: Some(owner), .. } | Change::ReleaseOwner { owner } = change {
                        let change = Change::ReleaseOwner { owner };
                        program.under_way.insert(program.ledger.submit(change.clone()), (change, false));
                    } else if let Change::Release { .. } = change {
                        // The value may still be in use.
                        program.lost = true;
                    }
                }
            }
            _ if is_calm => answer(program, &mut store, &mut clock, &mut rng, played),
            _ => request(program, &mut store, &mut clock, &mut rng, played),
        }
        check(&mut programs, &store, &pool, played);
    }
    // In the end everybody gets answers.
    for (value, token) in std::mem::take(&mut store.late) {
        let Ok(_) = store.row.put(value, token);
    }
    for number in 0..3 {
        for _ in 0..20 {
            answer(&mut programs[number], &mut store, &mut clock, &mut rng, played);
            check(&mut programs, &store, &pool, played);
        }
        assert!(programs[number].under_way.is_empty(), "seed {seed}: {:?}", programs[number].under_way);
    }
    if programs.iter().all(|program| !program.lost) {
        played.without_loss += 1;
        let ledger = store.ledger(&pool);
        let without_owner: Vec<LedgerValue> = ledger.iter().filter(|value| ledger.owner_of(*value).is_none()).collect();
        let mut known: Vec<LedgerValue> = programs.iter().flat_map(|program| program.unowned.clone()).collect();
        known.sort_unstable();
        assert_eq!(without_owner, known, "seed {seed}: what a caller did not wait for was not released");
    }
}

/// Plays the next request of a program, which may get lost on its way or on the way back.
fn request(
    program: &mut Program,
    store: &mut Store,
    clock: &mut Clock,
    rng: &mut Xoshiro256PlusPlus,
    played: &mut Played,
) {
    let fate = below(8, rng);
    if fate > 2 {
        return answer(program, store, clock, rng, played);
    }
    let Some(request) = program.ledger.next_request(clock.tick(), rng) else { return };
    if let Request::Wait { .. } = request {
        return;
    }
    program.lost = true;
    if let Request::Put { value, token } = request {
        match fate {
            0 => drop(store.row.put(value, token)),
            1 => store.late.push((value, token)),
            _ => {}
        }
    }
    program.ledger.unanswered();
    played.unanswered += 1;
}

fn answer(
    program: &mut Program,
    store: &mut Store,
    clock: &mut Clock,
    rng: &mut Xoshiro256PlusPlus,
    played: &mut Played,
) {
    match program.ledger.next_request(clock.tick(), rng) {
        None => {}
        Some(Request::Wait { until }) => {
            assert!(until > clock.0 && until <= clock.0 + Duration::from_secs(8), "{until:?} at {:?}", clock.0);
            played.waits += 1;
            clock.0 = until;
        }
        Some(Request::Get) => {
            program.ledger.got(store.row.get().unwrap_or_default()).expect("what a program wrote");
        }
        Some(Request::Put { value, token }) => match store.row.put(value, token) {
            Ok(Put::Stored(token)) => program.ledger.put(token),
            Ok(Put::Changed) => {
                played.conflicts += 1;
                program.ledger.conflicted(clock.tick());
            }
            Ok(Put::TooLarge) => panic!("a row takes any value"),
        },
    }
}

/// Notes what has ended, and compares what each program was told with what is stored.
fn check(programs: &mut [Program], store: &Store, pool: &Pool, played: &mut Played) {
    let ledger = store.ledger(pool);
    for program in programs.iter_mut() {
        program.under_way.values_mut().for_each(|(_, was_full)| *was_full |= ledger.used() == pool.size());
        let ended: Vec<(ChangeTicket, Outcome)> = program.ledger.take_outcomes().collect();
        // Of several changes in one write, one can fill the range and another one free values.
        let is_alone = ended.len() == 1;
        for (ticket, outcome) in ended {
            let (change, was_full) = program.under_way.remove(&ticket).expect("it was submitted");
            if let Outcome::NotAllocated(AllocateError::Full { len: 1, .. }) = outcome {
                assert!(was_full || !is_alone, "it was not full since {ticket:?} was submitted");
            }
            match (change, outcome) {
                (Change::Allocate { owner: Some(owner), .. }, Outcome::Allocated(allocation)) => {
                    played.given += 1;
                    program.owners.insert(owner, Some(vec![allocation]));
                }
                (Change::Allocate { owner: Some(owner), .. }, Outcome::NotAllocated(error)) => {
                    let has = match error {
                        AllocateError::HasOther { has, .. } => vec![has],
                        AllocateError::Full { .. } => {
                            played.full += 1;
                            vec![]
                        }
                        error => panic!("{error}"),
                    };
                    program.owners.insert(owner, Some(has));
                }
                (Change::Allocate { owner: None, .. }, Outcome::Allocated(allocation)) => {
                    program.unowned.push(allocation.first);
                }
                (Change::Allocate { owner: None, .. }, Outcome::NotAllocated(_) | Outcome::Unanswered) => {}
                (Change::Release { .. }, Outcome::Unanswered) | (Change::Read, Outcome::Read) => {}
                (Change::Release { value }, Outcome::Released(released)) => {
                    assert_eq!(released, [Allocation { first: value, len: 1 }]);
                }
                (Change::ReleaseOwner { owner }, Outcome::Released(released)) => {
                    played.released += u64::from(!released.is_empty());
                    program.owners.insert(owner, Some(vec![]));
                }
                (change, outcome) => panic!("{change:?}: {outcome:?}"),
            }
        }
    }
    // Nobody was given what somebody else has: each has in the store what it was told.
    for program in programs.iter() {
        for (owner, told) in &program.owners {
            if let Some(told) = told {
                assert_eq!(ledger.owned_by(owner).collect::<Vec<_>>(), *told, "{owner}");
            }
        }
        for value in &program.unowned {
            assert!(ledger.has(*value) && ledger.owner_of(*value).is_none(), "{value}");
        }
    }
    let mut unowned: Vec<LedgerValue> = programs.iter().flat_map(|program| program.unowned.clone()).collect();
    unowned.sort_unstable();
    assert!(unowned.is_sorted_by(|one, other| one < other), "handed out twice: {unowned:?}");
}

const POOL: &str = "0-16777215";
const MS: Duration = Duration::from_millis(1);

fn program() -> (SharedLedger, Xoshiro256PlusPlus) {
    let pool = Pool::new(POOL.parse().expect("a range"), Choice::Lowest);
    (SharedLedger::new(pool, 1), Xoshiro256PlusPlus::seed_from_u64(1))
}

fn allocate(want: Want, owner: Option<&str>) -> Change {
    Change::Allocate { want, owner: owner.map(str::to_owned) }
}

/// Answers requests until there is none. Returns how many writes there were.
fn finish(ledger: &mut SharedLedger, row: &mut Memory, rng: &mut Xoshiro256PlusPlus) -> u32 {
    let mut writes = 0;
    while let Some(request) = ledger.next_request(Duration::ZERO, rng) {
        match request {
            Request::Get => ledger.got(row.get().unwrap_or_default()).expect("what a program wrote"),
            Request::Wait { until } => panic!("it waits until {until:?}"),
            Request::Put { value, token } => {
                writes += 1;
                match row.put(value, token) {
                    Ok(Put::Stored(token)) => ledger.put(token),
                    Ok(Put::Changed) => ledger.conflicted(Duration::ZERO),
                    Ok(Put::TooLarge) => ledger.too_large(),
                }
            }
        }
    }
    writes
}

#[test]
fn a_store_that_is_emptied_is_no_new_ledger() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    ledger.submit(allocate(Want::Any, Some("a")));
    finish(&mut ledger, &mut row, &mut rng);
    for empty in [None, Some((Vec::new(), vec![9]))] {
        // Another program has written, so that the next write is refused.
        ledger.submit(allocate(Want::Any, Some("b")));
        while let Some(Request::Put { .. } | Request::Wait { .. }) = ledger.next_request(Duration::MAX / 2, &mut rng) {
            ledger.conflicted(Duration::MAX / 2);
        }
        assert_eq!(ledger.got(empty), Err(OpenError::Gone));
    }
    // Once it is there again, all goes on.
    finish(&mut ledger, &mut row, &mut rng);
    assert_eq!(ledger.known().map(Ledger::used), Some(2));
}

#[test]
fn a_program_that_begins_refuses_an_emptied_store() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    let Ok(Put::Stored(token)) = row.put(Vec::new(), None) else { panic!("{row:?}") };
    let ticket = ledger.submit(allocate(Want::Any, Some("a")));
    for _ in 0..2 {
        let run = ledger.run(&mut row, || Duration::ZERO, &mut rng);
        assert_eq!(run, Err(RunError::Open(OpenError::Empty)));
        assert_eq!(row.get(), Ok(Some((Vec::new(), token.clone()))), "nothing is written");
        assert_eq!(ledger.outcome(ticket), None);
    }
    // Once it is deleted, a new ledger begins.
    assert_eq!(ledger.run(&mut Memory::default(), || Duration::ZERO, &mut rng), Ok(()));
    assert!(matches!(ledger.take_outcome(ticket), Some(Outcome::Allocated(_))));
}

#[test]
fn a_run_of_a_caller_that_has_gone_is_released_at_once() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    let gone = ledger.submit(allocate(Want::Run(1 << 23), None));
    finish(&mut ledger, &mut row, &mut rng);
    assert_eq!(ledger.known().map(Ledger::used), Some(1 << 23));
    ledger.cancel(gone);
    assert_eq!(finish(&mut ledger, &mut row, &mut rng), 1);
    assert_eq!(ledger.known().map(Ledger::used), Some(0));
}

#[test]
fn a_read_writes_nothing_and_is_as_new_as_its_submission() {
    let ((mut reader, mut rng), (mut writer, _), mut row) = (program(), program(), Memory::default());
    for used in 1..=3 {
        writer.submit(allocate(Want::Any, None));
        finish(&mut writer, &mut row, &mut rng);
        let read = reader.submit(Change::Read);
        assert_eq!(finish(&mut reader, &mut row, &mut rng), 0);
        assert_eq!(reader.take_outcome(read), Some(Outcome::Read));
        assert_eq!(reader.known().map(Ledger::used), Some(used));
    }
}

/// Of changes that need no write, those end that were submitted before the last get, however many come meanwhile.
#[test]
fn changes_that_need_no_write_end_while_others_come() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    ledger.submit(allocate(Want::Any, Some("a")));
    finish(&mut ledger, &mut row, &mut rng);
    ledger.take_outcomes().for_each(drop);
    ledger.submit(allocate(Want::Any, Some("a")));
    for _ in 0..9 {
        assert_eq!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
        ledger.submit(Change::Read);
        assert_eq!(ledger.got(row.get().unwrap_or_default()), Ok(()));
        ledger.submit(allocate(Want::Any, Some("a")));
    }
    let ended = ledger.take_outcomes().count();
    assert!(ended >= 15, "only {ended} of 19 have ended");
}

#[test]
fn a_clock_that_goes_back_makes_nobody_wait_longer() {
    let (mut ledger, mut rng) = program();
    let day = Duration::from_hours(24);
    for (then, now) in [(day, Duration::ZERO), (Duration::MAX, day)] {
        ledger.submit(allocate(Want::Any, Some("a")));
        assert_eq!(ledger.next_request(then.saturating_sub(MS), &mut rng), Some(Request::Get));
        assert_eq!(ledger.got(None), Ok(()));
        assert!(matches!(ledger.next_request(then, &mut rng), Some(Request::Put { .. })));
        ledger.conflicted(then);
        ledger.next_request(then, &mut rng);
        ledger.unanswered();
        assert_eq!(ledger.next_request(now, &mut rng), Some(Request::Get));
        ledger.unanswered();
    }
}

#[test]
fn an_attempt_begins_with_its_first_request() {
    let (mut ledger, mut rng) = program();
    let given_up = ledger.submit(allocate(Want::Any, Some("a")));
    assert_eq!(ledger.next_request(MS, &mut rng), Some(Request::Get));
    ledger.cancel(given_up);
    assert_eq!(ledger.got(None), Ok(()));
    assert_eq!(ledger.next_request(2 * MS, &mut rng), None);
    let later = 100_000 * MS;
    ledger.submit(allocate(Want::Any, Some("b")));
    assert!(matches!(ledger.next_request(later, &mut rng), Some(Request::Put { .. })));
    ledger.conflicted(later + MS);
    match ledger.next_request(later + MS, &mut rng) {
        Some(Request::Wait { until }) => assert!(until <= later + 5 * MS, "{until:?}"),
        request => assert_eq!(request, Some(Request::Get)),
    }
}

/// A put may be refused for another reason than its token. A write that is late can still arrive then.
#[test]
fn a_refused_write_with_the_same_token_prevents_no_late_one() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    ledger.submit(allocate(Want::Any, Some("a")));
    finish(&mut ledger, &mut row, &mut rng);
    ledger.submit(allocate(Want::Any, Some("late")));
    let Some(Request::Put { value, token }) = ledger.next_request(Duration::ZERO, &mut rng) else { panic!("no put") };
    ledger.unanswered();
    assert_eq!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
    assert_eq!(ledger.got(row.get().unwrap_or_default()), Ok(()));
    assert!(matches!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Put { .. })));
    ledger.conflicted(Duration::ZERO);
    let cancelled: Vec<_> = (0..9).map(ChangeTicket).collect();
    cancelled.into_iter().for_each(|ticket| ledger.cancel(ticket));
    let release = ledger.submit(Change::ReleaseOwner { owner: "late".to_owned() });
    let writes = finish(&mut ledger, &mut row, &mut rng);
    assert_eq!((writes, ledger.take_outcome(release)), (1, Some(Outcome::Released(Vec::new()))));
    assert_eq!(row.put(value, token), Ok(Put::Changed), "the late write must not arrive after that");
}

/// A program ends while its write is on its way, and another one is asked to release for the same owner.
#[test]
fn no_late_write_of_another_program_comes_after_a_release() {
    let by_value = Change::Release { value: LedgerValue::Integer(7) };
    for release in [Change::ReleaseOwner { owner: "deleted".to_owned() }, by_value] {
        let ((mut ended, mut rng), (mut other, _), mut row) = (program(), program(), Memory::default());
        other.submit(allocate(Want::Any, Some("a")));
        finish(&mut other, &mut row, &mut rng);
        ended.submit(allocate(Want::Any, Some("deleted")));
        ended.submit(allocate(Want::Value(LedgerValue::Integer(7)), None));
        assert_eq!(ended.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
        assert_eq!(ended.got(row.get().unwrap_or_default()), Ok(()));
        let Some(Request::Put { value, token }) = ended.next_request(Duration::ZERO, &mut rng) else {
            panic!("no put")
        };
        let release = other.submit(release);
        assert_eq!(finish(&mut other, &mut row, &mut rng), 1);
        assert_eq!(other.take_outcome(release), Some(Outcome::Released(Vec::new())));
        assert_eq!(row.put(value, token), Ok(Put::Changed), "the late write must not arrive after that");
    }
}

/// Another program writes, and a second read is asked for, while the get of the first one is under way.
#[test]
fn a_read_that_comes_during_a_get_needs_another_one() {
    let ((mut reader, mut rng), (mut writer, _), mut row) = (program(), program(), Memory::default());
    let first = reader.submit(Change::Read);
    assert_eq!(reader.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
    let got = row.get().unwrap_or_default();
    writer.submit(allocate(Want::Any, None));
    finish(&mut writer, &mut row, &mut rng);
    let second = reader.submit(Change::Read);
    assert_eq!(reader.got(got), Ok(()));
    assert_eq!(reader.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
    assert_eq!((reader.take_outcome(first), reader.outcome(second)), (Some(Outcome::Read), None));
    assert_eq!(reader.got(row.get().unwrap_or_default()), Ok(()));
    assert_eq!(reader.next_request(Duration::ZERO, &mut rng), None);
    assert_eq!(reader.take_outcome(second), Some(Outcome::Read));
    assert_eq!(reader.known().map(Ledger::used), Some(1));
}

#[test]
fn what_callers_that_have_gone_had_is_released_after_a_conflict() {
    let ((mut ledger, mut rng), (mut other, _), mut row) = (program(), program(), Memory::default());
    let gone = ledger.submit(allocate(Want::Run(8), None));
    finish(&mut ledger, &mut row, &mut rng);
    ledger.cancel(gone);
    other.submit(allocate(Want::Any, Some("a")));
    finish(&mut other, &mut row, &mut rng);
    assert_eq!(finish(&mut ledger, &mut row, &mut rng), 2, "one of them is refused");
    assert_eq!(ledger.known().map(Ledger::used), Some(1));
}

/// Programs whose pools differ in the time of cool-downs do not rewrite their ends again and again.
#[test]
fn the_shorter_cool_down_is_written_once() {
    let mut row = Memory::default();
    let [mut long, mut short] = [120, 60].map(|seconds| {
        let cool_down = CoolDown::new(Duration::from_secs(seconds), 9).expect("above 0");
        SharedLedger::new(Pool::new("0-9".parse().expect("a range"), Choice::Lowest).cool_down(cool_down), 1)
    });
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for (ledger, owner) in [(&mut short, "kept"), (&mut long, "released")] {
        ledger.submit(allocate(Want::Any, Some(owner)));
        finish(ledger, &mut row, &mut rng);
    }
    long.submit(Change::ReleaseOwner { owner: "released".to_owned() });
    finish(&mut long, &mut row, &mut rng);
    let mut writes = Vec::new();
    for is_long in [true, false, true, false] {
        let ledger = if is_long { &mut long } else { &mut short };
        let kept = ledger.submit(allocate(Want::Any, Some("kept")));
        writes.push(finish(ledger, &mut row, &mut rng));
        assert!(matches!(ledger.take_outcome(kept), Some(Outcome::Allocated(_))));
    }
    assert_eq!(writes, [0, 1, 0, 0]);
}

/// A change that needs no write needs none because cool-downs have ended, either: each program sees that by the time.
#[test]
fn the_end_of_a_cool_down_needs_no_write() {
    let (mut row, mut rng) = (Memory::default(), Xoshiro256PlusPlus::seed_from_u64(1));
    let cool_down = CoolDown::new(Duration::from_secs(60), 9).expect("above 0");
    let mut ledger =
        SharedLedger::new(Pool::new("0-1".parse().expect("a range"), Choice::Lowest).cool_down(cool_down), 1);
    for owner in ["released", "kept"] {
        ledger.submit(allocate(Want::Any, Some(owner)));
    }
    ledger.submit(Change::ReleaseOwner { owner: "released".to_owned() });
    finish(&mut ledger, &mut row, &mut rng);
    ledger.take_outcomes().for_each(drop);
    let (stored, later) = (row.clone(), || Duration::from_secs(60));
    ledger.submit(allocate(Want::Any, Some("kept")));
    assert_eq!(ledger.run(&mut row, later, &mut rng), Ok(()));
    assert_eq!(row, stored);
    let new = ledger.submit(allocate(Want::Any, Some("new")));
    assert_eq!(ledger.run(&mut row, later, &mut rng), Ok(()));
    let first = Allocation { first: LedgerValue::Integer(0), len: 1 };
    assert!(matches!(ledger.take_outcome(new), Some(Outcome::Allocated(allocation)) if allocation == first));
}

/// A row that takes values of so many bytes at most.
struct Limited {
    row: Memory,
    most: usize,
    refused: u32,
}

impl rangekeeper::ledger::Store for Limited {
    type Error = Infallible;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Infallible> {
        self.row.get()
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Infallible> {
        if value.len() > self.most {
            self.refused += 1;
            return Ok(Put::TooLarge);
        }
        self.row.put(value, token)
    }
}

/// Of 32 changes in one write some are too large, whatever their order; the others are made.
#[test]
fn a_change_that_is_too_large_refuses_no_others() {
    let mut seeds = seeded(15);
    let (mut played, mut too_large, mut refused) = (0, 0, 0);
    for _ in 0..200 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64());
        let pool = Pool::new("0-99999999".parse().expect("a range"), Choice::Lowest);
        let mut ledger = SharedLedger::new(pool.clone(), 1);
        let mut store = Limited { row: Memory::default(), most: 10_000, refused: 0 };
        let clock = || Duration::ZERO;
        for n in 0..16 {
            ledger.submit(allocate(Want::Any, Some(&format!("old-{n}"))));
        }
        assert_eq!(ledger.run(&mut store, clock, &mut rng), Ok(()));
        ledger.take_outcomes().for_each(drop);
        // All that is small has room, and nothing that is large.
        store.most = store.row.value().expect("stored").len() + 500;
        let gone = ledger.submit(allocate(Want::Any, None));
        assert_eq!(ledger.run(&mut store, clock, &mut rng), Ok(()));
        ledger.cancel(gone);
        let mut changes = BTreeMap::new();
        for n in 0..32 {
            let (change, is_large) = match below(8, &mut rng) {
                0 => (allocate(Want::Any, Some(&format!("{n:x>1024}"))), true),
                1..=3 => (Change::ReleaseOwner { owner: format!("old-{}", below(20, &mut rng)) }, false),
                4 => (Change::Read, false),
                _ => (allocate(Want::Any, Some(&n.to_string())), false),
            };
            changes.insert(ledger.submit(change.clone()), (change, is_large));
        }
        assert_eq!(ledger.run(&mut store, clock, &mut rng), Ok(()));
        let mut large = 0;
        for (ticket, (change, is_large)) in changes {
            let outcome = ledger.take_outcome(ticket).expect("it has ended");
            assert_eq!(outcome == Outcome::TooLarge, is_large, "{change:?}: {outcome:?}");
            played += 1;
            large += u32::from(is_large);
        }
        too_large += large;
        refused += store.refused;
        let stored = Ledger::open(pool, store.row.value().expect("stored"), 1).expect("what a program wrote");
        assert!(stored.iter().all(|value| stored.owner_of(value).is_some()), "what was given to nobody is released");
    }
    println!("{played} changes, of which {too_large} were too large, and {refused} refused writes");
    assert!(too_large > 500);
}

/// A caller gives up while the write of its change is under way, and that is too large: the change is not made.
#[test]
fn a_change_that_is_given_up_and_too_large_is_not_made() {
    for others in 0..3 {
        let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
        let given_up = ledger.submit(allocate(Want::Any, Some("gone")));
        let kept: Vec<_> =
            (0..others).map(|n| ledger.submit(allocate(Want::Any, Some(&format!("other-{n}"))))).collect();
        assert_eq!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
        assert_eq!(ledger.got(None), Ok(()));
        assert!(matches!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Put { .. })));
        ledger.cancel(given_up);
        ledger.too_large();
        finish(&mut ledger, &mut row, &mut rng);
        assert_eq!(ledger.take_outcomes().map(|(ticket, _)| ticket).collect::<Vec<_>>(), kept);
        assert_eq!(ledger.known().map_or(0, Ledger::used), others);
    }
}

/// After a write that was too large the next ones have fewer changes, but not for ever.
#[test]
fn writes_grow_again_after_one_that_was_too_large() {
    let ((mut ledger, mut rng), mut row) = (program(), Memory::default());
    ledger.submit(allocate(Want::Any, None));
    assert_eq!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Get));
    assert_eq!(ledger.got(None), Ok(()));
    assert!(matches!(ledger.next_request(Duration::ZERO, &mut rng), Some(Request::Put { .. })));
    ledger.too_large();
    for _ in 0..1 + 2 + 4 + 8 {
        ledger.submit(allocate(Want::Any, None));
    }
    assert_eq!(finish(&mut ledger, &mut row, &mut rng), 4);
}

fn play_all(schedules: u64) {
    let mut played = Played::default();
    let mut seeds = seeded(33);
    for _ in 0..schedules {
        play(seeds.next_u64(), &mut played);
    }
    let Played { given, released, conflicts, unanswered, late, full, waits, cancelled, without_loss } = played;
    println!(
        "{schedules} schedules: {given} times given, {released} released, {conflicts} conflicts, {unanswered} requests \
         without an answer, {late} writes that came late and took effect, {full} times full, {waits} waits, {cancelled} \
         callers that gave up, {without_loss} schedules without a loss"
    );
    // Of each there is at least one in ten schedules.
    assert!(
        [given, released, conflicts, unanswered, late, full, waits, cancelled, without_loss]
            .iter()
            .all(|n| *n > schedules / 10)
    );
}

#[test]
fn programs_that_know_only_tokens_never_have_one_value_twice() {
    play_all(6_000);
}

/// For `make simulate`.
#[test]
#[ignore = "it takes minutes"]
fn programs_that_know_only_tokens_never_have_one_value_twice_in_3_000_000_schedules() {
    play_all(3_000_000);
}
