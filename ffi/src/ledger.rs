//! Ledgers: a pool and stored bytes in, changes, stored bytes out.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::num::NonZeroU8;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::ledger::{
    AllocateError, Choice, CoolDown, Ledger, LedgerFinding, OpenError, Outcome, Owned, OwnerLeaks, ParseLedgerError,
    Pool,
};
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::json::{parse, write_json};
use crate::ledger_value::{rk_ledger_allocation, rk_ledger_change, rk_ledger_value};
use crate::result::rk_result;
use crate::scope::{Array, Buffer, Out, borrow, reclaim, slice, text};

/// Which values of a range are in use, and by whom.
pub struct rk_ledger(Handle<State>);

struct State {
    ledger: Ledger,
    generator: Xoshiro256PlusPlus,
}

impl rk_ledger {
    pub(crate) fn new(ledger: Ledger, seed: u64) -> Self {
        Self(Handle::new(State { ledger, generator: Xoshiro256PlusPlus::seed_from_u64(seed) }))
    }
}

/// How many values of a ledger are in use.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_ledger_usage {
    /// How many values are in use.
    pub used: u64,
    /// How many values are out of use for some time after their release.
    pub cooling: u64,
    /// How many values are handed out at all: those of the range that are not excluded; at most UINT64_MAX.
    pub size: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// A pool as JSON (docs/ledger-json.md).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PoolJson {
    range: String,
    choice: ChoiceJson,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    reserve: Vec<String>,
    #[serde(default)]
    static_bands: Vec<String>,
    cool_down: Option<CoolDownJson>,
}

#[derive(Deserialize)]
enum ChoiceJson {
    Lowest,
    Random,
    NextFit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CoolDownJson {
    time_ms: u64,
    at_most: u32,
}

impl From<ParseLedgerError> for Failure {
    fn from(error: ParseLedgerError) -> Self {
        let result = match error {
            ParseLedgerError::NotInRange { .. } => rk_result::NotInRange,
            ParseLedgerError::Value { .. } => rk_result::InvalidArgument,
            _ => rk_result::InvalidRange,
        };
        Self::new(result, error)
    }
}

/// Reads a pool.
pub(crate) fn pool(json: &str) -> Result<Pool, Failure> {
    let PoolJson { range, choice, exclude, reserve, static_bands, cool_down } = parse(json)?;
    let choice = match choice {
        ChoiceJson::Lowest => Choice::Lowest,
        ChoiceJson::Random => Choice::Random,
        ChoiceJson::NextFit => Choice::NextFit,
    };
    let mut pool = Pool::new(range.parse()?, choice);
    for part in exclude {
        pool = pool.exclude(&part)?;
    }
    for part in reserve {
        pool = pool.reserve(&part)?;
    }
    for part in static_bands {
        pool = pool.static_band(&part)?;
    }
    Ok(match cool_down {
        None => pool,
        Some(CoolDownJson { time_ms, at_most }) => {
            let none = || {
                let message =
                    format_args!("a cool-down of {time_ms} ms of at most {at_most} releases is none: both are above 0");
                Failure::new(rk_result::InvalidArgument, message)
            };
            pool.cool_down(CoolDown::new(Duration::from_millis(time_ms), at_most).ok_or_else(none)?)
        }
    })
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Decode(error) => error.into(),
            OpenError::OtherRange { .. } => Self::new(rk_result::MismatchedRange, error),
            OpenError::BitsPastRange(past) => Self::bits_past_range(&error, &past),
            OpenError::Entry { offset, .. } => Self::new(rk_result::InvalidObject, error).at_byte(offset),
            _ => Self::new(rk_result::InvalidObject, error),
        }
    }
}

impl From<AllocateError> for Failure {
    fn from(error: AllocateError) -> Self {
        let result = match error {
            AllocateError::AlreadyAllocated { .. } => rk_result::AlreadyAllocated,
            AllocateError::NotInRange { .. } | AllocateError::Excluded { .. } => rk_result::NotInRange,
            AllocateError::Full { .. } | AllocateError::TooMany { .. } => rk_result::Full,
            AllocateError::HasOther { .. } => rk_result::HasOther,
            _ => rk_result::InvalidArgument,
        };
        Self::new(result, error)
    }
}

impl From<Owned> for Failure {
    fn from(error: Owned) -> Self {
        Self::new(rk_result::Owned, error)
    }
}

/// What a change has allocated or released.
pub(crate) fn allocations(outcome: Outcome) -> Result<Vec<rk_ledger_allocation>, Failure> {
    match outcome {
        Outcome::Allocated(allocation) => Ok(vec![allocation.into()]),
        Outcome::Read => Ok(Vec::new()),
        Outcome::Released(released) => Ok(released.into_iter().map(rk_ledger_allocation::from).collect()),
        Outcome::NotAllocated(error) => Err(error.into()),
        Outcome::NotReleased(owned) => Err(owned.into()),
        Outcome::TooLarge => {
            let message = "the ledger with this change is larger than the store allows; nothing was changed";
            Err(Failure::new(rk_result::Refused, message))
        }
        _ => {
            let message = "the write of a change without an owner had no answer, and may have taken effect";
            Err(Failure::new(rk_result::Unanswered, message))
        }
    }
}

/// Creates a ledger of a pool, which is JSON (docs/ledger-json.md): one in which nothing is in use if `stored_len` is
/// 0, else the one that was stored, by rk_ledger_encode or by kube-apiserver. The seed decides the random choices; keep
/// it from those who may choose values of a range of more than 2^24.
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_RANGE; RK_RESULT_INVALID_OBJECT, with the byte
/// if it is known; RK_RESULT_ENCRYPTED; RK_RESULT_MISMATCHED_RANGE; RK_RESULT_BITS_PAST_RANGE, with the bits.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_new(
    pool: *const c_char,
    pool_len: usize,
    stored: *const u8,
    stored_len: usize,
    seed: u64,
    ledger: *mut *mut rk_ledger,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pool, stored, out) = (
                text(scope, pool, pool_len).named("pool")?,
                slice(scope, stored, stored_len).named("stored")?,
                Out::new(scope, ledger).named("ledger")?,
            );
            let pool = self::pool(pool)?;
            out.give(rk_ledger::new(Ledger::open(pool, stored, seed)?, seed));
            Ok(())
        })
    }
}

/// Destroys a ledger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_free(ledger: *mut rk_ledger) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(ledger) }))
}

/// Makes a change for an owner, or for nobody if `owner_len` is 0, at the time `now`, in nanoseconds since 1970. Writes
/// what was allocated or released to `allocations`: one for an allocation, and as many as the owner has for a release.
///
/// An owner that has what it wants gets it again, and nothing changes. Do not use the name of an owner again: take a
/// UID, for example.
///
/// RK_RESULT_BUFFER_TOO_SMALL: nothing has changed. RK_RESULT_FULL; RK_RESULT_ALREADY_ALLOCATED;
/// RK_RESULT_NOT_IN_RANGE, also for an excluded value; RK_RESULT_HAS_OTHER; RK_RESULT_OWNED; RK_RESULT_INVALID_ARGUMENT
/// also for a number of values that the range cannot have in a row, or an owner of more than 1,024 bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_apply(
    ledger: *mut rk_ledger,
    change: *const rk_ledger_change,
    owner: *const c_char,
    owner_len: usize,
    now: u64,
    allocations: *mut rk_ledger_allocation,
    capacity: usize,
    n: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (ledger, change) = (borrow(scope, ledger).named("ledger")?, borrow(scope, change).named("change")?);
            let owner = text(scope, owner, owner_len).named("owner")?;
            let out = Array::new(scope, allocations, capacity).named("allocations")?;
            let n = Out::new(scope, n).named("n")?;
            let change = change.get(owner)?;
            ledger.0.with(|State { ledger, generator }| {
                let needed = ledger.owned_by(owner).count().max(1);
                if needed > capacity {
                    n.write(needed);
                    return Err(too_small(needed, capacity));
                }
                let made = self::allocations(ledger.apply(&change, Duration::from_nanos(now), generator))?;
                n.write(out.fill(made));
                Ok(())
            })
        })
    }
}

/// There is no room for so many allocations.
pub(crate) fn too_small(needed: usize, capacity: usize) -> Failure {
    let message = format_args!("allocations has room for {capacity}, and {needed} may be needed");
    Failure::new(rk_result::BufferTooSmall, message)
}

/// Reads a text as a value of the ledger's range: "4096", "1000010000/10000", "10.96.0.10" or "10.0.3.16/28".
///
/// RK_RESULT_INVALID_ARGUMENT if it is no such text; RK_RESULT_NOT_IN_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_parse_value(
    ledger: *const rk_ledger,
    spec: *const c_char,
    spec_len: usize,
    value: *mut rk_ledger_value,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (ledger, spec, out) = (
                borrow(scope, ledger).named("ledger")?,
                text(scope, spec, spec_len).named("spec")?,
                Out::new(scope, value).named("value")?,
            );
            ledger.0.with(|state| {
                out.write(state.ledger.pool().range().parse_value(spec)?.into());
                Ok(())
            })
        })
    }
}

/// Writes whether a value is in use, and its owner, which is empty if it has none.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_owner_of(
    ledger: *const rk_ledger,
    value: *const rk_ledger_value,
    in_use: *mut bool,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (ledger, value, in_use) = (
                borrow(scope, ledger).named("ledger")?,
                borrow(scope, value).named("value")?.checked("value")?,
                Out::new(scope, in_use).named("in_use")?,
            );
            let buffer =
                Buffer::of(Array::new(scope, buffer, capacity).named("buffer")?, Out::new(scope, len).named("len")?);
            ledger.0.with(|state| {
                let owner = state.ledger.owner_of(value).unwrap_or("");
                buffer.write_text(owner).map_err(|result| Failure::of_buffer(result, capacity, owner.len()))?;
                in_use.write(state.ledger.has(value));
                Ok(())
            })
        })
    }
}

/// Writes what an owner has, ascending: one allocation, unless another program stored more.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_owned_by(
    ledger: *const rk_ledger,
    owner: *const c_char,
    owner_len: usize,
    allocations: *mut rk_ledger_allocation,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (ledger, owner, buffer) = unsafe {
            let buffer = Buffer::new(scope, allocations, capacity, len)?;
            (borrow(scope, ledger)?, text(scope, owner, owner_len)?, buffer)
        };
        ledger.0.with(|state| {
            let all: Vec<_> = state.ledger.owned_by(owner).map(rk_ledger_allocation::from).collect();
            buffer.fill(all.into_iter())
        })
    })
}

/// Writes a page of the values in use, ascending, from an offset of the range on. After a value at offset UINT64_MAX,
/// *next_offset is that again. Cost: in a range of more than 2^24
/// values they are sorted first.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_values(
    ledger: *const rk_ledger,
    from_offset: u64,
    values: *mut rk_ledger_value,
    capacity: usize,
    n: *mut usize,
    next_offset: *mut u64,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (ledger, values, n, next) = unsafe {
            let values = Array::new(scope, values, capacity)?;
            (borrow(scope, ledger)?, values, Out::new(scope, n)?, Out::new(scope, next_offset)?)
        };
        ledger.0.with(|state| {
            let range = state.ledger.pool().range();
            let mut after = from_offset;
            let page = state.ledger.iter().filter(|value| range.offset_of(*value) >= Some(from_offset));
            n.write(values.fill(page.map(|value| {
                after = range.offset_of(value).unwrap_or(after).saturating_add(1);
                value.into()
            })));
            next.write(after);
            Ok(())
        })
    })
}

/// Writes how many values are in use.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_count(ledger: *const rk_ledger, usage: *mut rk_ledger_usage) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (ledger, out) = unsafe { (borrow(scope, ledger)?, Out::new(scope, usage)?) };
        ledger.0.with(|State { ledger, .. }| {
            let (used, cooling, size) = (ledger.used(), ledger.cooling(), ledger.pool().size());
            out.write(rk_ledger_usage { used, cooling, size, reserved: [0; 2] });
            Ok(())
        })
    })
}

/// Writes the bytes to store: a RangeAllocation, as docs/stored-format.md says.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_encode(
    ledger: *const rk_ledger,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (ledger, buffer) = unsafe { (borrow(scope, ledger)?, Buffer::new(scope, buffer, capacity, len)?) };
        ledger.0.with(|state| buffer.write(&state.ledger.encode()))
    })
}

/// What a ledger is compared with, as JSON (docs/ledger-json.md).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuditQuestion {
    owners: Vec<String>,
    passes: NonZeroU8,
    #[serde(default)]
    counts: BTreeMap<String, u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditAnswer<'a> {
    findings: Vec<Finding>,
    due: Vec<String>,
    counts: &'a BTreeMap<String, u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    message: String,
}

impl From<LedgerFinding> for Finding {
    fn from(finding: LedgerFinding) -> Self {
        let message = finding.to_string();
        let (reason, owner, value) = match finding {
            LedgerFinding::OwnerGone { owner, has } => ("OwnerGone", Some(owner), Some(has.first.to_string())),
            LedgerFinding::OwnerUnknown { owner } => ("OwnerUnknown", Some(owner), None),
            LedgerFinding::SeveralAllocations { owner, has } => {
                ("SeveralAllocations", Some(owner), has.first().map(|has| has.first.to_string()))
            }
            LedgerFinding::NoOwner { has } => ("NoOwner", None, Some(has.first.to_string())),
            // The core's enum may get findings that this ABI does not have yet: the message tells them.
            _ => ("Unknown", None, None),
        };
        Self { reason, owner, value, message }
    }
}

/// Compares the owners with those that exist, and counts how often each was gone. `question` and the answer are JSON
/// (docs/ledger-json.md).
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_audit(
    ledger: *const rk_ledger,
    question: *const c_char,
    question_len: usize,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (ledger, question) =
                (borrow(scope, ledger).named("ledger")?, text(scope, question, question_len).named("question")?);
            let buffer =
                Buffer::of(Array::new(scope, buffer, capacity).named("buffer")?, Out::new(scope, len).named("len")?);
            let AuditQuestion { owners, passes, counts } = parse(question)?;
            let mut leaks = OwnerLeaks::counted(passes, counts);
            ledger.0.with(|state| {
                let findings = state.ledger.audit(owners.iter().map(String::as_str));
                let due = leaks.advance(&findings);
                let findings = findings.into_iter().map(Finding::from).collect();
                write_json(&AuditAnswer { findings, due, counts: leaks.counts() }, buffer, capacity)
            })
        })
    }
}
