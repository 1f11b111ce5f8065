//! The repair pass and its outcome.

use std::cell::OnceCell;
use std::ffi::c_char;

use rangekeeper_core::any::AnyRange;
use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::range::Range;
use rangekeeper_core::repair::{AddRangeError, Leaks, Outcome, RangeOutcome, RepairPass, Stored};

use crate::error::{Failure, rk_error};
use crate::finding::{at, findings_page, messages, rk_cell, rk_finding, rk_offset_state};
use crate::guard::{Array, Buffer, Out, borrow, borrow_optional, guard, guard_error, guard_or, reclaim, slice, text};
use crate::handle::Handle;
use crate::passes::rk_passes;
use crate::range::{rk_range, rk_run, runs_page, values_page};
use crate::result::rk_result;
use crate::services::{Services, rk_services};
use crate::value::rk_value;

/// Values that the repair allocates.
pub const RK_VALUES_SET: u32 = 1;
/// Values that the repair frees.
pub const RK_VALUES_CLEAR: u32 = 2;
/// Values recorded as allocated that no Service uses, freed by the repair or not yet.
pub const RK_VALUES_LEAKED: u32 = 3;
/// Values that more than one Service claims.
pub const RK_VALUES_DUPLICATES: u32 = 4;
/// Values that were recorded as allocated before the pass.
pub const RK_VALUES_STORED: u32 = 5;
/// Values that Services use.
pub const RK_VALUES_IN_USE: u32 = 6;
/// Values that are allocated after the repair.
pub const RK_VALUES_NEXT: u32 = 7;

/// A pass over all Services, under way. May be used from several threads at once.
pub struct rk_repair_pass(Handle<RepairPass>);

/// What a pass found out. Never changes. May be used from several threads at once.
pub struct rk_repair_outcome(Handle<Found>);

struct Found {
    found: Outcome,
    derived: Vec<Derived>,
}

/// The sets of a range that the core makes anew each time, made once and only if they are asked for.
#[derive(Default)]
struct Derived {
    set: OnceCell<Bitmap>,
    clear: OnceCell<Bitmap>,
    leaked: OnceCell<Bitmap>,
    duplicates: OnceCell<Bitmap>,
}

/// Numbers about one range.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_range_counts {
    /// Values that were recorded as allocated before the pass, without those in dropped.
    pub stored: u32,
    /// Values that Services use.
    pub in_use: u32,
    /// Values recorded as allocated that no Service uses.
    pub leaked: u32,
    /// Values that are allocated after the repair.
    pub next: u32,
    /// Values that the repair allocates.
    pub set: u32,
    /// Values that the repair frees.
    pub clear: u32,
    /// Values that more than one Service claims.
    pub duplicates: u32,
    /// Values recorded as allocated that the configured range does not have: not 0 only after a change of the range.
    pub dropped: u32,
}

impl rk_repair_outcome {
    /// Works on what the pass found out about the range at this place.
    pub(crate) fn with_range<R>(
        &self,
        index: usize,
        work: impl FnOnce(&RangeOutcome) -> Result<R, rk_result>,
    ) -> Result<R, rk_result> {
        self.0.with(|found| work(found.range(index)?))
    }
}

impl Found {
    fn range(&self, index: usize) -> Result<&RangeOutcome, rk_result> {
        at(&self.found.ranges, index)
    }

    fn bitmap(&self, index: usize, which: u32) -> Result<&Bitmap, rk_result> {
        let (range, derived) = (self.range(index)?, at(&self.derived, index)?);
        Ok(match which {
            RK_VALUES_SET => derived.set.get_or_init(|| range.set()),
            RK_VALUES_CLEAR => derived.clear.get_or_init(|| range.clear()),
            RK_VALUES_LEAKED => derived.leaked.get_or_init(|| range.leaked()),
            RK_VALUES_DUPLICATES => derived.duplicates.get_or_init(|| {
                let mut duplicates = Bitmap::new(range.range().size());
                for offset in range.duplicates() {
                    duplicates.insert(*offset);
                }
                duplicates
            }),
            RK_VALUES_STORED => range.stored(),
            RK_VALUES_IN_USE => range.in_use(),
            RK_VALUES_NEXT => range.next(),
            _ => return Err(rk_result::InvalidArgument),
        })
    }
}

impl From<AddRangeError> for Failure {
    fn from(error: AddRangeError) -> Self {
        match &error {
            AddRangeError::SameKind { .. } => Self::new(rk_result::SameKind, error),
            AddRangeError::StoredRange(_) => Self::new(rk_result::InvalidRange, error),
            AddRangeError::StoredKind { .. } => Self::new(rk_result::MismatchedRange, error),
            AddRangeError::BitsPastRange { source, .. } => {
                let (offset, byte) = (source.offset, source.byte);
                Self::new(rk_result::BitsPastRange, error).about(offset).at_offset(byte)
            }
        }
    }
}

/// Begins a pass without ranges. Read what is stored first, and list the Services after that.
///
/// The caller owns *pass and frees it with rk_repair_pass_free. RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_new(pass: *mut *mut rk_repair_pass) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let out = unsafe { Out::new(pass)? };
        out.give(rk_repair_pass(Handle::new(RepairPass::new())));
        Ok(())
    })
}

/// Frees a pass. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_free(pass: *mut rk_repair_pass) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(pass) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED. The handle must still be freed. To close twice
/// is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_close(pass: *const rk_repair_pass) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let pass = unsafe { borrow(pass)? };
        pass.0.close();
        Ok(())
    })
}

/// Adds a configured range of addresses or ports, with what is stored for it: the text of its range and its bitmap. An
/// empty text means that nothing was stored yet. Ranges count from 0 in the order in which they are added; the first
/// one of addresses is the primary range. Services are observed after all ranges were added.
///
/// The stored range may differ from the configured one: values that both have are taken over.
/// RK_RESULT_SAME_KIND if there is one for its IP family, or for ports, already; of what is stored:
/// RK_RESULT_INVALID_RANGE, RK_RESULT_MISMATCHED_RANGE if it is of another kind, RK_RESULT_BITS_PAST_RANGE with the
/// highest offset in error->value and the place in stored_data in error->offset, RK_RESULT_INVALID_UTF8;
/// RK_RESULT_INVALID_ARGUMENT for a range of UIDs, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_add_range(
    pass: *const rk_repair_pass,
    configured: *const rk_range,
    stored_range: *const c_char,
    stored_range_len: usize,
    stored_data: *const u8,
    stored_data_len: usize,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, || {
            let (pass, configured) = (borrow(pass)?, borrow(configured)?);
            let stored =
                Stored { range: text(stored_range, stored_range_len)?, data: slice(stored_data, stored_data_len)? };
            pass.0.with(|pass| match configured.0 {
                AnyRange::Cidr(range) => Ok(pass.add_cluster_ips(range, stored)?),
                AnyRange::Ports(range) => Ok(pass.add_node_ports(range, stored)?),
                AnyRange::Uids(range) => Err(Failure::new(
                    rk_result::InvalidArgument,
                    format_args!("{range} is a range of UIDs, which no Service uses"),
                )),
            })
        })
    }
}

/// Takes note of a batch of Services. Cost: some 30 ns per address or port.
///
/// RK_RESULT_INVALID_BATCH, RK_RESULT_INVALID_UTF8 (nothing of the batch counts then), RK_RESULT_NULL_POINTER,
/// RK_RESULT_INVALID_ARGUMENT, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_observe(pass: *const rk_repair_pass, batch: *const rk_services) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (pass, services) = unsafe { (borrow(pass)?, Services::new(batch)?) };
        pass.0.with(|pass| services.for_each(|service| pass.observe(service)))
    })
}

/// Ends the pass. With passes, leaks stay until they were seen in enough of them in a row; without (NULL), they are
/// cleaned at once: right only where nobody allocates meanwhile.
///
/// The caller owns *outcome and frees it with rk_repair_outcome_free; the pass is closed, and must still be freed.
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED (pass or passes), RK_RESULT_POISONED (pass or passes). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_pass_finish(
    pass: *const rk_repair_pass,
    passes: *const rk_passes,
    outcome: *mut *mut rk_repair_outcome,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (pass, passes, out) = unsafe { (borrow(pass)?, borrow_optional(passes)?, Out::new(outcome)?) };
        let outcome = match passes {
            None => pass.0.finish(|pass| Ok(pass.finish(Leaks::CleanAtOnce)))?,
            Some(passes) => {
                passes.0.with(|passes| pass.0.finish(|pass| Ok(pass.finish(Leaks::Keep(passes.counters())))))?
            }
        };
        let derived = outcome.ranges.iter().map(|_| Derived::default()).collect();
        out.give(rk_repair_outcome(Handle::new(Found { found: outcome, derived })));
        Ok(())
    })
}

/// Frees an outcome. NULL is fine. To free it twice, or while another thread uses it, is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_free(outcome: *mut rk_repair_outcome) {
    // SAFETY: the caller's promise; see guard.
    guard_or((), || drop(unsafe { reclaim(outcome) }))
}

/// Drops the state now: from then on every call gives RK_RESULT_CLOSED. The handle must still be freed. To close twice
/// is fine.
///
/// RK_RESULT_NULL_POINTER. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_close(outcome: *const rk_repair_outcome) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let outcome = unsafe { borrow(outcome)? };
        outcome.0.close();
        Ok(())
    })
}

/// Writes findings, in the order of the Services, from place from on: as many as there are, at most capacity. *n tells
/// how many; fewer than capacity means the end.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_findings(
    outcome: *const rk_repair_outcome,
    from: usize,
    findings: *mut rk_finding,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, findings, n) = unsafe { (borrow(outcome)?, Array::new(findings, capacity)?, Out::new(n)?) };
        outcome.0.with(|outcome| {
            n.write(findings_page(&outcome.found.findings, from, findings));
            Ok(())
        })
    })
}

/// Writes the value that a finding is about as text, whatever it is; without a NUL, buffer by the rule for buffers.
///
/// RK_RESULT_INVALID_ARGUMENT if there is no finding at place index, RK_RESULT_BUFFER_TOO_SMALL,
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_finding_text(
    outcome: *const rk_repair_outcome,
    index: usize,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, buffer) = unsafe { (borrow(outcome)?, Buffer::new(buffer, capacity, len)?) };
        outcome.0.with(|outcome| buffer.write_text(&at(&outcome.found.findings, index)?.value.to_string()))
    })
}

/// Writes what findings say to people, from the one at place `from` on, back to back and without a NUL: at most n of
/// them, and as many as fit whole. The text of the i-th ends at byte ends[i] of buffer, where the next one begins;
/// *written tells how many there are, 0 past the end of the findings.
///
/// RK_RESULT_BUFFER_TOO_SMALL if not even one fits, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_finding_messages(
    outcome: *const rk_repair_outcome,
    from: usize,
    buffer: *mut c_char,
    capacity: usize,
    ends: *mut usize,
    n: usize,
    written: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, buffer, ends, out) =
            unsafe { (borrow(outcome)?, Array::new(buffer, capacity)?, Array::new(ends, n)?, Out::new(written)?) };
        outcome.0.with(|outcome| {
            out.write(messages(&outcome.found.findings, from, buffer, ends)?);
            Ok(())
        })
    })
}

/// Tells how many Services were observed.
///
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_services(
    outcome: *const rk_repair_outcome,
    services: *mut u64,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(services)?) };
        outcome.0.with(|outcome| {
            out.write(outcome.found.services);
            Ok(())
        })
    })
}

/// Tells numbers about the range at place range.
///
/// RK_RESULT_INVALID_ARGUMENT if there is none, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_counts(
    outcome: *const rk_repair_outcome,
    range: usize,
    counts: *mut rk_range_counts,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(counts)?) };
        outcome.0.with(|outcome| {
            let count = |which| outcome.bitmap(range, which).map(Bitmap::count);
            out.write(rk_range_counts {
                stored: count(RK_VALUES_STORED)?,
                in_use: count(RK_VALUES_IN_USE)?,
                leaked: count(RK_VALUES_LEAKED)?,
                next: count(RK_VALUES_NEXT)?,
                set: count(RK_VALUES_SET)?,
                clear: count(RK_VALUES_CLEAR)?,
                duplicates: count(RK_VALUES_DUPLICATES)?,
                dropped: outcome.range(range)?.dropped(),
            });
            Ok(())
        })
    })
}

/// Writes the values of the range at place range that belong to which (one of RK_VALUES_*), ascending, from offset
/// from_offset on: as many as there are, at most capacity. *n tells how many; fewer than capacity means the end. Else
/// call again with *next_offset.
///
/// RK_RESULT_INVALID_ARGUMENT for an unknown range or which, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED,
/// RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_values(
    outcome: *const rk_repair_outcome,
    range: usize,
    which: u32,
    from_offset: u32,
    values: *mut rk_value,
    capacity: usize,
    n: *mut usize,
    next_offset: *mut u32,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, values, n, next) =
            unsafe { (borrow(outcome)?, Array::new(values, capacity)?, Out::new(n)?, Out::new(next_offset)?) };
        outcome.0.with(|outcome| {
            let bitmap = outcome.bitmap(range, which)?;
            let (written, after) = values_page(outcome.range(range)?.range(), bitmap, from_offset, values);
            n.write(written);
            next.write(after);
            Ok(())
        })
    })
}

/// Writes the maximal runs of values of the range at place range that belong to which (one of RK_VALUES_*), or do not
/// (members is false), ascending, from offset from_offset on, where a run that is under way is cut: as many as there
/// are, at most capacity. *n tells how many; fewer than capacity means the end. Else call again with *next_offset.
///
/// RK_RESULT_INVALID_ARGUMENT for an unknown range or which, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED,
/// RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_runs(
    outcome: *const rk_repair_outcome,
    range: usize,
    which: u32,
    members: bool,
    from_offset: u32,
    runs: *mut rk_run,
    capacity: usize,
    n: *mut usize,
    next_offset: *mut u32,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, runs, n, next) =
            unsafe { (borrow(outcome)?, Array::new(runs, capacity)?, Out::new(n)?, Out::new(next_offset)?) };
        outcome.0.with(|outcome| {
            let (bitmap, range) = (outcome.bitmap(range, which)?, outcome.range(range)?.range());
            let (written, after) = if members {
                runs_page(range, bitmap.runs_set(from_offset), from_offset, runs)
            } else {
                runs_page(range, bitmap.runs_clear(from_offset), from_offset, runs)
            };
            n.write(written);
            next.write(after);
            Ok(())
        })
    })
}

/// Writes what is to be stored for the range at place range, in the form of rk_allocator_snapshot; buffer by the rule
/// for buffers.
///
/// RK_RESULT_INVALID_ARGUMENT for an unknown range, RK_RESULT_BUFFER_TOO_SMALL, RK_RESULT_NULL_POINTER,
/// RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_snapshot(
    outcome: *const rk_repair_outcome,
    range: usize,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, buffer) = unsafe { (borrow(outcome)?, Buffer::new(buffer, capacity, len)?) };
        outcome.0.with(|outcome| buffer.write(outcome.range(range)?.next().snapshot()))
    })
}

/// Tells everything about one value of the range at place range.
///
/// RK_RESULT_NOT_IN_RANGE if the range does not hand it out, RK_RESULT_INVALID_ARGUMENT for an unknown range or if it
/// is no value, RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_state(
    outcome: *const rk_repair_outcome,
    range: usize,
    value: rk_value,
    state: *mut rk_offset_state,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Out::new(state)?) };
        outcome.0.with(|outcome| {
            let state = outcome.range(range)?.state_of(value.try_into()?).ok_or(rk_result::NotInRange)?;
            out.write(state.into());
            Ok(())
        })
    })
}

/// Cuts the range at place range into at most count cells of equal length (the last may be shorter) and writes what is
/// in each. *n tells how many there are; a range of size 0 has none.
///
/// RK_RESULT_BUFFER_TOO_SMALL with the number needed in *n, RK_RESULT_INVALID_ARGUMENT for an unknown range,
/// RK_RESULT_NULL_POINTER, RK_RESULT_CLOSED, RK_RESULT_POISONED. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_repair_outcome_occupancy(
    outcome: *const rk_repair_outcome,
    range: usize,
    count: u32,
    cells: *mut rk_cell,
    capacity: usize,
    n: *mut usize,
) -> rk_result {
    guard(|| {
        // SAFETY: the caller's promise; see guard.
        let (outcome, out) = unsafe { (borrow(outcome)?, Buffer::new(cells, capacity, n)?) };
        outcome.0.with(|outcome| {
            let cells: Vec<rk_cell> = outcome.range(range)?.occupancy(count).iter().map(rk_cell::from).collect();
            out.write(&cells)
        })
    })
}
