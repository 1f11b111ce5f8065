//! One repair pass over the ranges of some committers.

use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use rangekeeper_core::any::AnyRange;
use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::commit::{
    self, Found, LeakTracker, Listing, Operation, PassError, RepairPass, ServiceList, View,
};
use rangekeeper_core::range::Range;

use crate::audit::{self, rk_audit};
use crate::committer::rk_committer;
use crate::committer_input;
use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error, guard_or};
use crate::handle::Handle;
use crate::leak_tracker::rk_leak_tracker;
use crate::range::ValueRange;
use crate::report::rk_report;
use crate::result::rk_result;
use crate::scope::{Out, borrow, borrow_optional, reclaim, slice};

/// A repair pass over the objects of committers; rk_repair_pass_new has its steps.
pub struct rk_repair_pass {
    passes: Arc<Handle<LeakTracker>>,
    stage: Handle<Stage>,
}

enum Stage {
    Reading(RepairPass),
    Listing(Listing),
    Found(Found),
    /// A step has failed.
    Over,
}

impl Stage {
    /// Why a step is refused that belongs to another stage.
    fn refusal(&self) -> Failure {
        let message = match self {
            Self::Reading(_) => "the pass still reads its ranges: it has no audit yet",
            Self::Listing(_) => "the pass has read its ranges and waits for the end of its audit",
            Self::Found(_) => "the audit of the pass has ended: only repairs are left",
            Self::Over => "the pass is over: an earlier step has failed",
        };
        Failure::new(rk_result::InvalidArgument, message)
    }

    fn reading(&mut self) -> Result<&mut RepairPass, Failure> {
        if let Self::Reading(pass) = self { Ok(pass) } else { Err(self.refusal()) }
    }
}

impl From<PassError> for Failure {
    fn from(error: PassError) -> Self {
        match error {
            PassError::Range(error) => error.into(),
            error => Self::new(rk_result::InvalidArgument, error),
        }
    }
}

impl From<commit::Failure<ValueRange>> for Failure {
    /// Why a repair will be refused.
    fn from(refusal: commit::Failure<ValueRange>) -> Self {
        let result = match refusal {
            commit::Failure::RangeInUse { .. } => rk_result::RangeInUse,
            _ => rk_result::InvalidObject,
        };
        Self::new(result, refusal)
    }
}

impl rk_repair_pass {
    /// Works on the pass while it reads its ranges.
    pub(crate) fn reading<R>(
        &self,
        work: impl FnOnce(&mut LeakTracker, &mut RepairPass) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.passes.with(|passes| self.stage.with(|stage| work(passes, stage.reading()?)))
    }

    /// Works on what the pass has found.
    pub(crate) fn found<R>(
        &self,
        work: impl FnOnce(&mut LeakTracker, &Found) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.passes.with(|passes| {
            self.stage.with(|stage| match stage {
                Stage::Found(found) => work(passes, found),
                _ => Err(stage.refusal()),
            })
        })
    }
}

/// The view that a read has returned.
pub(crate) fn view(range: AnyRange, revision: u64, data: &[u8]) -> Result<View, Failure> {
    let mut used = Bitmap::new(range.size());
    used.restore(data).map_err(|past| Failure::bits_past_range(past, &past))?;
    Ok(View { revision, used, initialised: true })
}

/// The number of a look that is there.
pub(crate) fn look_of(number: u64) -> Result<NonZeroU64, Failure> {
    NonZeroU64::new(number).ok_or_else(|| Failure::new(rk_result::InvalidArgument, "no look has the number 0"))
}

/// When Services were listed, as rk_committer_submit_repair has it.
pub(crate) fn listed(revision: u64, is_guarded: bool) -> Result<ServiceList, Failure> {
    match revision {
        0 if is_guarded => {
            let message = "a list that guards has no revision: a store compares it with those of Services";
            Err(Failure::new(rk_result::InvalidArgument, message))
        }
        0 => Ok(ServiceList::Elsewhere),
        _ if is_guarded => Ok(ServiceList::Guarding(revision)),
        _ => Ok(ServiceList::At(revision)),
    }
}

/// Starts a pass. An earlier pass of this tracker that has not ended is given up, and its steps are refused. The steps,
/// in this order; another order is refused:
///
/// 1. rk_repair_pass_new.
/// 2. For each committer rk_repair_pass_begin, then an RK_OPERATION_READ, and after its outcome rk_repair_pass_read.
///    Once all ranges are read, write the fence of each that needs one, and call rk_repair_pass_fenced.
/// 3. rk_repair_pass_audit begins an rk_audit with the ranges. After that, list the Services linearizably and observe
///    them.
/// 4. rk_repair_pass_finish ends the audit.
/// 5. For each committer rk_committer_submit_repair.
///
/// If a step fails, free the pass and start another.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_new(
    tracker: *mut rk_leak_tracker,
    pass: *mut *mut rk_repair_pass,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (tracker, out) = unsafe { (borrow(scope, tracker)?, Out::new(scope, pass)?) };
        let pass = tracker.0.with(|passes| Ok::<_, rk_result>(passes.start()))?;
        out.give(rk_repair_pass { passes: tracker.0.clone(), stage: Handle::new(Stage::Reading(pass)) });
        Ok(())
    })
}

/// Destroys a pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_free(pass: *mut rk_repair_pass) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(pass) }))
}

/// Makes the committer keep the history of its key. Call it before the read of the pass is submitted.
///
/// RK_RESULT_INVALID_ARGUMENT if the committer's range has begun already, all ranges are read, or a later pass has
/// started.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_begin(
    pass: *mut rk_repair_pass,
    committer: *mut rk_committer,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, committer) = (borrow(scope, pass).named("pass")?, borrow(scope, committer).named("committer")?);
            pass.reading(|passes, pass| committer.with(|committer| Ok(pass.begin(passes, committer)?)))
        })
    }
}

/// Records the read of a committer's object: `revision` and `data` are the revision and the bitmap of its outcome.
/// Services are listed after `now`, in nanoseconds of the caller's clock. A counter goes on only if the value has
/// been in use ever since the previous pass; if that is unknown, or that pass was too recent, all counters of the
/// range start again.
///
/// Writes to `needs_fence` whether the caller has to write the fence before it lists Services: the pass may clean leaks
/// of this range, or create the object, or others may have recreated that. See rk_repair_pass_fenced.
///
/// RK_RESULT_INVALID_ARGUMENT if the committer's range has not begun, or is read already, or a later pass has
/// started; RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_read(
    pass: *mut rk_repair_pass,
    committer: *const rk_committer,
    revision: u64,
    data: *const u8,
    data_len: usize,
    now: u64,
    needs_fence: *mut bool,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, committer, data, needs_fence) = (
                borrow(scope, pass).named("pass")?,
                borrow(scope, committer).named("committer")?,
                slice(scope, data, data_len).named("data")?,
                Out::new(scope, needs_fence).named("needs_fence")?,
            );
            pass.reading(|passes, pass| {
                committer.with(|committer| {
                    let view = view(committer.range().into(), revision, data)?;
                    needs_fence.write(pass.read(passes, committer, &view, Duration::from_nanos(now))?);
                    Ok(())
                })
            })
        })
    }
}

/// Records that the fence of a committer's object was written, with a look; `fence` is the revision of etcd after that,
/// and `look` the number of the look, not 0.
///
/// Beside the object is another key in its etcd, the witness, whose value has no meaning. An RK_STEP_SWAP that sets
/// values puts it in its transaction (RK_WITNESS_*), and the fence is its deletion. The transaction that writes a
/// Service with new values has the condition that the witness was created at the revision of their allocation or
/// before, and written at that or later. So after the fence a Service with a leaked value is in the list or is never
/// written, however late its write reaches etcd.
///
/// Revisions do not tell one history of etcd from another: if etcd is restored between the list and the swap, and
/// written to since, the range can be as the swap expects it, with other Services. So the transaction of the fence also
/// puts the look, a key with a random name, for which the number stands. While it is there, the history of etcd up to
/// the look is the same. Each fence of a pass but the first has the condition that the look before it is there.
/// Services are listed at the revision of the last fence: with a list of another revision, or without a fence, leaks
/// stay (rk_committer_submit_repair). A swap that depends on the look has its number.
///
/// RK_RESULT_INVALID_ARGUMENT if `look` is 0, the committer's range has not begun, a range of the pass is not read,
/// `fence` is before the read or the fence of one, all ranges are audited, or a later pass has started.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_fenced(
    pass: *mut rk_repair_pass,
    committer: *const rk_committer,
    fence: u64,
    look: u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, committer) = (borrow(scope, pass).named("pass")?, borrow(scope, committer).named("committer")?);
            let look = look_of(look)?;
            pass.reading(|passes, pass| committer.with(|committer| Ok(pass.fenced(passes, committer, fence, look)?)))
        })
    }
}

/// Begins the audit of the pass, with the ranges that were read, in the order of rk_repair_pass_begin. The caller may
/// add more, and observes Services that it lists from now on. `ip_addresses` and `unix_seconds` are as in
/// rk_audit_new. A failure ends the pass.
///
/// RK_RESULT_INVALID_ARGUMENT if a range has begun and is not read, or a later pass has started; RK_RESULT_SAME_KIND.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_audit(
    pass: *mut rk_repair_pass,
    ip_addresses: bool,
    unix_seconds: *const i64,
    audit: *mut *mut rk_audit,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, now) =
                (borrow(scope, pass).named("pass")?, borrow_optional(scope, unix_seconds).named("unix_seconds")?);
            let out = Out::new(scope, audit).named("audit")?;
            pass.passes.with(|passes| {
                pass.stage.with(|stage| {
                    stage.reading()?;
                    let Stage::Reading(pass) = mem::replace(stage, Stage::Over) else { return Err(stage.refusal()) };
                    let mut audit = audit::begin(ip_addresses, now);
                    *stage = Stage::Listing(pass.audit(passes, &mut audit)?);
                    out.give(rk_audit::new(audit, None));
                    Ok(())
                })
            })
        })
    }
}

/// Ends and closes the audit of the pass. Leaks stay until enough passes in a row have seen them. A failure ends the
/// pass.
///
/// RK_RESULT_INVALID_ARGUMENT if the pass has no audit yet or another one, or a later pass has started.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_finish(
    pass: *mut rk_repair_pass,
    audit: *mut rk_audit,
    report: *mut *mut rk_report,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, audit, out) = (
                borrow(scope, pass).named("pass")?,
                borrow(scope, audit).named("audit")?,
                Out::new(scope, report).named("report")?,
            );
            pass.passes.with(|passes| {
                pass.stage.with(|stage| {
                    if !matches!(stage, Stage::Listing(_)) {
                        return Err(stage.refusal());
                    }
                    let Stage::Listing(listing) = mem::replace(stage, Stage::Over) else { return Err(stage.refusal()) };
                    let (found, report) = audit.finish(|audit| Ok::<_, Failure>(listing.finish(passes, audit)?))?;
                    *stage = Stage::Found(found);
                    out.give(rk_report::new(report));
                    Ok(())
                })
            })
        })
    }
}

/// Looks, after rk_repair_pass_finish, whether the committer will refuse to repair its range, as far as it knows the
/// stored object: for a dry run, which submits no repair. With RK_REPLACE_ONCE it does not refuse, and
/// RK_RESULT_RANGE_IN_USE is what it overrides.
///
/// RK_RESULT_RANGE_IN_USE, RK_RESULT_INVALID_OBJECT. RK_RESULT_INVALID_ARGUMENT if the pass has not finished its audit,
/// or does not have the committer's range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_check(
    pass: *const rk_repair_pass,
    committer: *const rk_committer,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (pass, committer) = (borrow(scope, pass).named("pass")?, borrow(scope, committer).named("committer")?);
            pass.found(|_, found| {
                committer.with(|committer| found.refusal(committer)?.map_or(Ok(()), |refusal| Err(refusal.into())))
            })
        })
    }
}

/// Submits the operation that repairs the committer's range, after rk_repair_pass_finish. Submit it even if the
/// pass found nothing: from it the committer learns which values more than one Service claims. It may be submitted
/// again if it has failed. `deadline` is as in rk_operation.
///
/// `listed` is the revision of the list of Services if it was read from the object's etcd itself, else 0. A list from
/// before the pass's read ends the operation with RK_RESULT_STALE_LIST. With 0, as for a list over an API server, whose
/// watch cache may have missed what a restored etcd has, nothing is changed once the committer has noticed a restore.
/// With `is_guarded`, nothing is cleared once a Service was written after the list, so that a creator that takes longer
/// than the grace period keeps its value. Where Services are written all the time, leaks then stay.
///
/// A leak stays, and is due again in the next pass, if it was first seen less than the grace period ago, if this
/// committer allocated it within the grace period, if the list is from before the fence, or if a Service was written
/// after a list that guards.
///
/// RK_RESULT_INVALID_ARGUMENT if the pass has not finished its audit, does not have the committer's range, or a
/// later one has started, and for a guarded list without a revision.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_submit_repair(
    committer: *mut rk_committer,
    pass: *mut rk_repair_pass,
    listed: u64,
    is_guarded: bool,
    deadline: u64,
    ticket: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (committer, pass, ticket) = (
                borrow(scope, committer).named("committer")?,
                borrow(scope, pass).named("pass")?,
                Out::new(scope, ticket).named("ticket")?,
            );
            let listed = self::listed(listed, is_guarded)?;
            pass.found(|passes, found| {
                committer.with(|committer| {
                    let repair = Operation::Repair(Box::new(found.diff(passes, committer, listed)?));
                    ticket.write(committer.submit(repair, committer_input::deadline(deadline)).0);
                    Ok(())
                })
            })
        })
    }
}
