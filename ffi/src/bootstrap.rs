//! The bootstrap controller: orders out, answers in; and its plans one by one. All of them as JSON.

use std::ffi::c_char;
use std::time::Duration;

use rangekeeper_bootstrap::controller::Controller;
use rangekeeper_bootstrap::plan::{Question, plan};

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::json::{parse, to_json, write_json};
use crate::result::rk_result;
use crate::scope::{Array, Buffer, Out, borrow, reclaim, text};

/// The bootstrap controller of one server: a state machine that does no I/O.
pub struct rk_bootstrap(Handle<State>);

struct State {
    controller: Controller,
    /// A step that did not fit into the caller's buffer yet.
    step: Option<String>,
}

/// Creates a controller that has not begun. `config` is JSON (docs/bootstrap-json.md).
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`; RK_RESULT_INVALID_CONFIG.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_new(
    config: *const c_char,
    config_len: usize,
    bootstrap: *mut *mut rk_bootstrap,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (config, out) =
                (text(scope, config, config_len).named("config")?, Out::new(scope, bootstrap).named("bootstrap")?);
            let controller =
                Controller::new(parse(config)?).map_err(|error| Failure::new(rk_result::InvalidConfig, error))?;
            out.give(rk_bootstrap(Handle::new(State { controller, step: None })));
            Ok(())
        })
    }
}

/// Destroys a controller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_free(bootstrap: *mut rk_bootstrap) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(bootstrap) }))
}

/// Writes the step to take at the time `now`, in nanoseconds of a monotonic clock, as JSON
/// (docs/bootstrap-json.md). A step that does not fit is kept for the next call.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_poll(
    bootstrap: *mut rk_bootstrap,
    now: u64,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (bootstrap, buffer) = unsafe { (borrow(scope, bootstrap)?, Buffer::new(scope, buffer, capacity, len)?) };
        bootstrap.0.with(|State { controller, step }| {
            let json = step.take().map_or_else(|| to_json(&controller.poll(Duration::from_nanos(now))), Ok)?;
            buffer.write_text(step.insert(json))?;
            *step = None;
            Ok(())
        })
    })
}

/// Reports that the order `id` has ended. `answer` is JSON (docs/bootstrap-json.md). The answer to an order that
/// the controller has given up is ignored.
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`; the order stays open then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_answered(
    bootstrap: *mut rk_bootstrap,
    now: u64,
    id: u64,
    answer: *const c_char,
    answer_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (bootstrap, answer) =
                (borrow(scope, bootstrap).named("bootstrap")?, text(scope, answer, answer_len).named("answer")?);
            let answer = parse(answer)?;
            bootstrap.0.with(|state| {
                state.controller.answered(Duration::from_nanos(now), id, answer);
                Ok(())
            })
        })
    }
}

/// Takes what a watch has seen, as JSON (docs/bootstrap-json.md): a change of what the controller keeps makes its next
/// turn due. Poll after it.
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_watched(
    bootstrap: *mut rk_bootstrap,
    now: u64,
    event: *const c_char,
    event_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (bootstrap, event) =
                (borrow(scope, bootstrap).named("bootstrap")?, text(scope, event, event_len).named("event")?);
            let event = parse(event)?;
            bootstrap.0.with(|state| {
                state.controller.watched(Duration::from_nanos(now), &event);
                Ok(())
            })
        })
    }
}

/// Begins an orderly stop at the time `now`: the loops end, then the server's own lease and endpoint are removed.
/// Poll and answer until a step has the phase "stopped", at most two intervals of the endpoints later.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_stop(bootstrap: *mut rk_bootstrap, now: u64) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let bootstrap = unsafe { borrow(scope, bootstrap)? };
        bootstrap.0.with(|state| {
            state.controller.stop(Duration::from_nanos(now));
            Ok(())
        })
    })
}

/// Decides one thing without a controller: which namespaces are missing, or what to do about the Service
/// kubernetes, the server's own lease, or Endpoints and EndpointSlice. `question` and the answer are JSON
/// (docs/bootstrap-json.md). The same question has the same answer.
///
/// RK_RESULT_INVALID_JSON, with the byte in `error`, also for an object of another kind; RK_RESULT_INVALID_CONFIG
/// for a well-formed question that has no answer.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_bootstrap_plan(
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
            let (question, buffer) = (
                text(scope, question, question_len).named("question")?,
                Buffer::of(Array::new(scope, buffer, capacity).named("buffer")?, Out::new(scope, len).named("len")?),
            );
            let question: Question = parse(question)?;
            let answer = plan(&question).map_err(|error| Failure::new(rk_result::InvalidConfig, error))?;
            write_json(&answer, buffer, capacity)
        })
    }
}
