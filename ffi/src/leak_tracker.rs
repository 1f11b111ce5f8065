//! What repair passes know from one to the next.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use rangekeeper_core::commit::Passes;

use crate::guard::{Out, borrow, guard, guard_or, reclaim};
use crate::handle::Handle;
use crate::result::rk_result;

/// The leak counters of all ranges of a server's repair, kept from one pass to the next, and when they may advance. May
/// be used from several threads at once.
pub struct rk_leak_tracker(pub(crate) Arc<Handle<Passes>>);

/// Makes counters at 0. A leak is cleaned in the pass that sees it for the passes-th time in a row; kube-apiserver waits
/// for 3.
///
/// A pass over the objects of committers is an rk_repair_pass. Counters advance only if passes are at least 0.9 of interval (in
/// nanoseconds) apart and the value was in use all the time between. Without committers every pass counts, and
/// nothing but rk_audit_finish is needed; interval is of no use then.
///
/// The caller owns *out and frees it with rk_leak_tracker_free. RK_RESULT_INVALID_ARGUMENT if passes is 0,
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_tracker_new(passes: u8, interval: u64, out: *mut *mut rk_leak_tracker) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(out)? };
        let passes = NonZeroU8::new(passes).ok_or(rk_result::InvalidArgument)?;
        out.give(rk_leak_tracker(Arc::new(Handle::new(Passes::new(passes, Duration::from_nanos(interval))))));
        Ok(())
    })
}

/// Frees passes. NULL is fine. To free them twice, or while another thread uses them, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_tracker_free(passes: *mut rk_leak_tracker) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(passes) }))
}

/// Drops the state now: from then on every call with these passes gives RK_RESULT_CLOSED. The handle must still be freed.
/// To close twice is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_leak_tracker_close(passes: *const rk_leak_tracker) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let passes = unsafe { borrow(passes)? };
        passes.0.close();
        Ok(())
    })
}
