//! The leak counters that a server keeps from one repair pass to the next.

use std::sync::Arc;
use std::time::Duration;

use rangekeeper_core::commit::LeakTracker;

use crate::error::{Named, rk_error};
use crate::guard::{guard_error, guard_or};
use crate::handle::Handle;
use crate::leak;
use crate::result::rk_result;
use crate::scope::{Out, reclaim};

/// The leak counters of all ranges of a server's repair, kept from one pass to the next, and when they may advance.
pub struct rk_leak_tracker(pub(crate) Arc<Handle<LeakTracker>>);

/// Creates a tracker whose counters are 0. A leak is cleaned if this many `passes` in a row have seen it;
/// kube-apiserver waits for 3.
///
/// In an rk_repair_pass, counters advance only if passes are at least 0.9 of `interval` (in nanoseconds) apart and
/// the value was in use all the time between. In rk_audit_finish every pass counts, and `interval` has no meaning.
///
/// With `keeps_leaks`, leaks are never cleaned. Only an address that a bitmap beside IPAddress objects records alone
/// (RK_REASON_BITMAP_DISAGREES) is cleared, after so many passes: an API server refuses it.
///
/// RK_RESULT_INVALID_ARGUMENT if `passes` is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_tracker_new(
    passes: u8,
    interval: u64,
    keeps_leaks: bool,
    tracker: *mut *mut rk_leak_tracker,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let out = Out::new(scope, tracker).named("tracker")?;
            let passes = LeakTracker::new(leak::passes(passes)?, Duration::from_nanos(interval));
            let passes = if keeps_leaks { passes.keeping_leaks() } else { passes };
            out.give(rk_leak_tracker(Arc::new(Handle::new(passes))));
            Ok(())
        })
    }
}

/// Destroys a tracker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_tracker_free(tracker: *mut rk_leak_tracker) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(tracker) }))
}
