//! Shared ledgers: changes of many callers in, requests for the store out, its answers in, outcomes out.

use std::ffi::c_char;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper_core::ledger::{ChangeTicket, Request, SharedLedger, Token};

use crate::committer_output::nanoseconds;
use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::ledger::{allocations, pool, rk_ledger, too_small};
use crate::ledger_value::{rk_ledger_allocation, rk_ledger_change};
use crate::result::rk_result;
use crate::scope::{Array, Out, borrow, reclaim, slice, text};

/// The changes of one program to a ledger that others change, too: a state machine that does no I/O.
pub struct rk_shared_ledger(Handle<State>);

struct State {
    ledger: SharedLedger,
    generator: Xoshiro256PlusPlus,
    seed: u64,
    /// What was asked, and has no answer yet.
    asked: rk_ledger_request_kind,
    /// The value and the token of the put under way.
    put: (Vec<u8>, Token),
}

/// What is to be asked of the store.
pub type rk_ledger_request_kind = u32;
/// Nothing: no change waits, or a request is under way.
pub const RK_LEDGER_REQUEST_NONE: rk_ledger_request_kind = 1701;
/// Get the value and its token. The answer is RK_LEDGER_ANSWER_GOT, RK_LEDGER_ANSWER_MISSING or RK_LEDGER_ANSWER_NONE.
pub const RK_LEDGER_REQUEST_GET: rk_ledger_request_kind = 1702;
/// Put the value, as there is none. The answer is RK_LEDGER_ANSWER_PUT, RK_LEDGER_ANSWER_CHANGED,
/// RK_LEDGER_ANSWER_TOO_LARGE or RK_LEDGER_ANSWER_NONE.
pub const RK_LEDGER_REQUEST_CREATE: rk_ledger_request_kind = 1703;
/// Put the value if that in the store still has this token. The answer is as to RK_LEDGER_REQUEST_CREATE.
pub const RK_LEDGER_REQUEST_REPLACE: rk_ledger_request_kind = 1704;
/// Nothing before the time `until`, as others write, too. Then poll again.
pub const RK_LEDGER_REQUEST_WAIT: rk_ledger_request_kind = 1705;

/// What is to be asked of the store.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_ledger_request {
    /// When to go on, in nanoseconds since 1970: of RK_LEDGER_REQUEST_WAIT, else 0.
    pub until: u64,
    /// The bytes of the value: of RK_LEDGER_REQUEST_CREATE and RK_LEDGER_REQUEST_REPLACE, else 0.
    pub value_len: usize,
    /// The bytes of the token: of RK_LEDGER_REQUEST_REPLACE, else 0.
    pub token_len: usize,
    /// What to ask.
    pub kind: rk_ledger_request_kind,
}

/// How a request has ended.
pub type rk_ledger_answer = u32;
/// There was no answer, or one that does not say whether the value was put.
pub const RK_LEDGER_ANSWER_NONE: rk_ledger_answer = 1801;
/// The store has this value with this token. It is empty only at a place that never had a ledger: if somebody has
/// emptied one, answer RK_LEDGER_ANSWER_NONE.
pub const RK_LEDGER_ANSWER_GOT: rk_ledger_answer = 1802;
/// The store has no value.
pub const RK_LEDGER_ANSWER_MISSING: rk_ledger_answer = 1803;
/// The value was put, and has this token.
pub const RK_LEDGER_ANSWER_PUT: rk_ledger_answer = 1804;
/// The value was not put, as the one in the store has another token, or is missing or not missing.
pub const RK_LEDGER_ANSWER_CHANGED: rk_ledger_answer = 1805;
/// The value was not put, and never will be, as it is larger than the store allows. The next writes have fewer
/// changes; one that is alone ends with RK_RESULT_REFUSED.
pub const RK_LEDGER_ANSWER_TOO_LARGE: rk_ledger_answer = 1806;

/// Creates a shared ledger that knows nothing of the store yet. The pool and the seed are as for rk_ledger_new.
///
/// The store gets a value with a token, and puts one if the token of the stored one is unchanged. A token is bytes that
/// the store chooses, such as a version or a resourceVersion; it must differ for each write, also of the same value.
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_new(
    pool: *const c_char,
    pool_len: usize,
    seed: u64,
    shared: *mut *mut rk_shared_ledger,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pool, out) = (text(scope, pool, pool_len).named("pool")?, Out::new(scope, shared).named("shared")?);
            out.give(rk_shared_ledger(Handle::new(State {
                ledger: SharedLedger::new(self::pool(pool)?, seed),
                generator: Xoshiro256PlusPlus::seed_from_u64(seed),
                seed,
                asked: RK_LEDGER_REQUEST_NONE,
                put: (Vec::new(), Token::new()),
            })));
            Ok(())
        })
    }
}

/// Destroys a shared ledger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_free(shared: *mut rk_shared_ledger) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(shared) }))
}

/// Adds a change to those of the next write, as rk_ledger_apply takes it, and writes its ticket.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_submit(
    shared: *mut rk_shared_ledger,
    change: *const rk_ledger_change,
    owner: *const c_char,
    owner_len: usize,
    ticket: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (shared, change) = (borrow(scope, shared).named("shared")?, borrow(scope, change).named("change")?);
            let owner = text(scope, owner, owner_len).named("owner")?;
            let out = Out::new(scope, ticket).named("ticket")?;
            let change = change.get(owner)?;
            shared.0.with(|state| {
                out.write(state.ledger.submit(change).0);
                Ok(())
            })
        })
    }
}

/// Ends the wait for a change whose caller has gone. One that is not under way is not made. What it allocated for
/// nobody is released again, unless its write or that of the release has no answer; what it allocated for an owner is
/// not, as the owner finds it and can release it. A ticket whose outcome was told is ignored.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_cancel(shared: *mut rk_shared_ledger, ticket: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let shared = unsafe { borrow(scope, shared)? };
        shared.0.with(|state| {
            state.ledger.cancel(ChangeTicket(ticket));
            Ok(())
        })
    })
}

/// Writes what to ask of the store at the time `now`, in nanoseconds since 1970. All changes that wait become one
/// write. Ask, report the answer, and poll again, until it is RK_LEDGER_REQUEST_NONE; then look at the outcomes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_poll(
    shared: *mut rk_shared_ledger,
    now: u64,
    request: *mut rk_ledger_request,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (shared, out) = unsafe { (borrow(scope, shared)?, Out::new(scope, request)?) };
        shared.0.with(|State { ledger, generator, asked, put, .. }| {
            let none = rk_ledger_request { kind: RK_LEDGER_REQUEST_NONE, ..rk_ledger_request::default() };
            let request = match ledger.next_request(Duration::from_nanos(now), generator) {
                None => none,
                Some(Request::Get) => rk_ledger_request { kind: RK_LEDGER_REQUEST_GET, ..none },
                Some(Request::Wait { until }) => {
                    rk_ledger_request { kind: RK_LEDGER_REQUEST_WAIT, until: nanoseconds(until), ..none }
                }
                Some(Request::Put { value, token }) => {
                    let kind = if token.is_some() { RK_LEDGER_REQUEST_REPLACE } else { RK_LEDGER_REQUEST_CREATE };
                    *put = (value, token.unwrap_or_default());
                    rk_ledger_request { kind, value_len: put.0.len(), token_len: put.1.len(), until: 0 }
                }
            };
            if request.kind != RK_LEDGER_REQUEST_NONE {
                *asked = request.kind;
            }
            out.write(request);
            Ok(())
        })
    })
}

/// Writes the value and the token of the put under way, whose lengths the request says; no bytes if there is none.
///
/// RK_RESULT_BUFFER_TOO_SMALL if one of the capacities is less: nothing is written.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_put(
    shared: *const rk_shared_ledger,
    value: *mut u8,
    value_capacity: usize,
    token: *mut u8,
    token_capacity: usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (shared, value, token) = unsafe {
            let value = Array::new(scope, value, value_capacity)?;
            (borrow(scope, shared)?, value, Array::new(scope, token, token_capacity)?)
        };
        shared.0.with(|state| {
            let (own_value, own_token) = &state.put;
            if own_value.len() > value.capacity() || own_token.len() > token.capacity() {
                return Err(rk_result::BufferTooSmall);
            }
            value.fill(own_value.iter().copied());
            token.fill(own_token.iter().copied());
            Ok(())
        })
    })
}

/// Reports how the request under way has ended, at the time `now`. `value` is that of RK_LEDGER_ANSWER_GOT, `token`
/// that of RK_LEDGER_ANSWER_GOT and RK_LEDGER_ANSWER_PUT; else both are ignored.
///
/// RK_RESULT_INVALID_ARGUMENT if no request is under way that this answers. The results of rk_ledger_new for a stored
/// ledger, and RK_RESULT_INVALID_OBJECT if the store had a value and has none now: the value is got again then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_answered(
    shared: *mut rk_shared_ledger,
    answer: rk_ledger_answer,
    now: u64,
    value: *const u8,
    value_len: usize,
    token: *const u8,
    token_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (shared, value, token) = (
                borrow(scope, shared).named("shared")?,
                slice(scope, value, value_len).named("value")?,
                slice(scope, token, token_len).named("token")?,
            );
            shared.0.with(|State { ledger, asked, put, .. }| {
                let is_get = *asked == RK_LEDGER_REQUEST_GET;
                let is_put = [RK_LEDGER_REQUEST_CREATE, RK_LEDGER_REQUEST_REPLACE].contains(asked);
                let is_answer = match answer {
                    RK_LEDGER_ANSWER_GOT | RK_LEDGER_ANSWER_MISSING => is_get,
                    RK_LEDGER_ANSWER_PUT | RK_LEDGER_ANSWER_CHANGED | RK_LEDGER_ANSWER_TOO_LARGE => is_put,
                    RK_LEDGER_ANSWER_NONE => true,
                    _ => false,
                };
                if !is_answer {
                    let message = format_args!("answer {answer} is none to the request under way");
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
                *asked = RK_LEDGER_REQUEST_NONE;
                let (value, token) = (value.to_vec(), token.to_vec());
                match answer {
                    RK_LEDGER_ANSWER_GOT => ledger.got(Some((value, token)))?,
                    RK_LEDGER_ANSWER_MISSING => ledger.got(None)?,
                    RK_LEDGER_ANSWER_PUT => ledger.put(token),
                    RK_LEDGER_ANSWER_CHANGED => ledger.conflicted(Duration::from_nanos(now)),
                    RK_LEDGER_ANSWER_TOO_LARGE => ledger.too_large(),
                    _ => ledger.unanswered(),
                }
                *put = (Vec::new(), Token::new());
                Ok(())
            })
        })
    }
}

/// Ends as the change with this ticket has, and writes what it has allocated or released, as rk_ledger_apply does. The
/// outcome of a change is told once.
///
/// The results of rk_ledger_apply; RK_RESULT_NOT_ENDED as long as the change waits, or if its outcome was told before;
/// RK_RESULT_UNANSWERED; RK_RESULT_REFUSED if the ledger with this change is too large for the store.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_outcome(
    shared: *mut rk_shared_ledger,
    ticket: u64,
    allocations: *mut rk_ledger_allocation,
    capacity: usize,
    n: *mut usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let shared = borrow(scope, shared).named("shared")?;
            let out = Array::new(scope, allocations, capacity).named("allocations")?;
            let n = Out::new(scope, n).named("n")?;
            shared.0.with(|State { ledger, .. }| {
                let Some(outcome) = ledger.outcome(ChangeTicket(ticket)) else {
                    let message = format_args!("change {ticket} has not ended, or its outcome was told before");
                    return Err(Failure::new(rk_result::NotEnded, message));
                };
                let made = self::allocations(outcome.clone());
                if let Ok(made) = &made
                    && made.len() > capacity
                {
                    n.write(made.len());
                    return Err(too_small(made.len(), capacity));
                }
                ledger.take_outcome(ChangeTicket(ticket));
                n.write(out.fill(made?));
                Ok(())
            })
        })
    }
}

/// Writes a copy of what is stored, as far as is known: as of the last answer.
///
/// RK_RESULT_NOT_INITIALISED if nothing is known: before the first answer, while a put is under way, and after one that
/// did not take effect or had no answer. Right after the call that has ended a RK_LEDGER_CHANGE_READ something is.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_shared_ledger_known(
    shared: *const rk_shared_ledger,
    ledger: *mut *mut rk_ledger,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (shared, out) = unsafe { (borrow(scope, shared)?, Out::new(scope, ledger)?) };
        shared.0.with(|state| {
            let known = state.ledger.known().ok_or(rk_result::NotInitialised)?;
            out.give(rk_ledger::new(known.clone(), state.seed));
            Ok(())
        })
    })
}
