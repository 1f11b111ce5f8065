//! What repair passes know from one to the next.

use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper_core::commit::Passes;

use crate::committer::rk_committer;
use crate::guard::{Out, borrow, guard, guard_or, reclaim};
use crate::handle::Handle;
use crate::result::rk_result;

/// The leak counters of all ranges of a server's repair, kept from one pass to the next, and when they may advance. May
/// be used from several threads at once.
pub struct rk_passes(pub(crate) Handle<Passes>);

/// Makes counters at 0. A leak is cleaned in the pass that sees it for the passes-th time in a row; kube-apiserver waits
/// for 3.
///
/// A pass over the objects of committers goes like this: rk_passes_begin for each; an RK_OPERATION_READ to each, and when
/// that has ended rk_passes_seen; after that, Services are listed linearizably and observed by an rk_audit that has
/// what was read; rk_audit_finish with these passes; and for each range rk_committer_submit_repair. Counters advance
/// only if passes are at least 0.9 of interval (in nanoseconds) apart and the value was in use all the time between.
/// Without committers every pass counts, and nothing but rk_audit_finish is needed; interval is of no use then.
///
/// The caller owns *out and frees it with rk_passes_free. RK_RESULT_INVALID_ARGUMENT if passes is 0,
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_passes_new(passes: u8, interval: u64, out: *mut *mut rk_passes) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(out)? };
        let passes = NonZeroU8::new(passes).ok_or(rk_result::InvalidArgument)?;
        out.give(rk_passes(Handle::new(Passes::new(passes, Duration::from_nanos(interval)))));
        Ok(())
    })
}

/// Frees passes. NULL is fine. To free them twice, or while another thread uses them, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_passes_free(passes: *mut rk_passes) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(passes) }))
}

/// Drops the state now: from then on every call with these passes gives RK_RESULT_CLOSED. The handle must still be freed.
/// To close twice is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_passes_close(passes: *const rk_passes) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let passes = unsafe { borrow(passes)? };
        passes.0.close();
        Ok(())
    })
}

/// Before the read of a pass is submitted: the committer is to keep the history of its key from now on.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED (passes or committer). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_passes_begin(passes: *const rk_passes, committer: *const rk_committer) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (passes, committer) = unsafe { (borrow(passes)?, borrow(committer)?) };
        passes.0.with(|passes| {
            committer.with(|committer| {
                passes.begin(committer);
                Ok(())
            })
        })
    })
}

/// The read of a pass has ended by an RK_OUTCOME_READ of this revision; Services are listed after now, in nanoseconds by
/// the caller's clock. The counters of the committer's range go on only where the value was in use ever since the pass
/// before; where that is not known, or that pass was too short a while ago, all of them start again.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED (passes or committer). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_passes_seen(
    passes: *const rk_passes,
    committer: *const rk_committer,
    revision: u64,
    now: u64,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (passes, committer) = unsafe { (borrow(passes)?, borrow(committer)?) };
        passes.0.with(|passes| {
            committer.with(|committer| {
                passes.seen(committer.range().0, committer, revision, Duration::from_nanos(now));
                Ok(())
            })
        })
    })
}
