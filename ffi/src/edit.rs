//! Changes by hand, which a committer writes.

use std::num::NonZeroU64;

use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::commit::{Edit, EditKind, Fate, Operation};
use rangekeeper_core::range::Range;

use crate::committer::rk_committer;
use crate::committer_input::deadline as deadline_of;
use crate::error::{Failure, Named, rk_error};
use crate::guard::guard_error;
use crate::range::ValueRange;
use crate::result::rk_result;
use crate::scope::{Out, Scope, borrow, slice};
use crate::value::{rk_value, values_of};

/// What an edit is for.
pub type rk_edit_kind = u32;
/// A value to record has to be free, and no Service may use it. A value to free may not be used by a Service. All is
/// written or nothing; what is free already stays so.
pub const RK_EDIT_CHANGE: rk_edit_kind = 1401;
/// As RK_EDIT_CHANGE, also if a Service uses the value.
pub const RK_EDIT_FORCE: rk_edit_kind = 1402;
/// A value to record has to be free, and a Service has to use it. A value to free has to be recorded without a break
/// since rk_edit.since, and no Service may use it. All is written or nothing.
pub const RK_EDIT_PLAN: rk_edit_kind = 1403;
/// A value to record may be recorded already. A value to free is freed as with RK_EDIT_PLAN. What can be changed is.
pub const RK_EDIT_UNDO: rk_edit_kind = 1404;

/// What became of a value of an edit, or what stands against its change.
pub type rk_fate = u8;
/// The value is recorded now.
pub const RK_FATE_SET: rk_fate = 0;
/// The value is free now.
pub const RK_FATE_CLEARED: rk_fate = 1;
/// The value was recorded already.
pub const RK_FATE_ALREADY_SET: rk_fate = 2;
/// The value was free already.
pub const RK_FATE_ALREADY_CLEAR: rk_fate = 3;
/// A Service uses the value.
pub const RK_FATE_IN_USE: rk_fate = 4;
/// No Service uses the value.
pub const RK_FATE_UNUSED: rk_fate = 5;
/// The value was free for a moment, or this committer has just handed it out: its record may be of a Service that is
/// being created.
pub const RK_FATE_REALLOCATED: rk_fate = 6;
/// Whether the value was free for a moment is not known.
pub const RK_FATE_UNSURE: rk_fate = 7;

/// A change by hand: what an operator allocates, releases, carries out as planned, or takes back. It is written only if
/// no Service has been written after the list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_edit {
    /// What it is for.
    pub kind: rk_edit_kind,
    /// How many values to record beside those of set, chosen by the strategy. No Service has one of them.
    pub pick: u32,
    /// The values to record.
    pub set: *const rk_value,
    /// How many.
    pub set_len: usize,
    /// The values to free.
    pub clear: *const rk_value,
    /// How many.
    pub clear_len: usize,
    /// The values that Services use, in the form of rk_allocator_snapshot: RK_VALUES_IN_USE of a report.
    pub in_use: *const u8,
    /// How many bytes.
    pub in_use_len: usize,
    /// The revision of the etcd of the range at which Services were listed: that of the look.
    pub listed: u64,
    /// With RK_EDIT_PLAN and RK_EDIT_UNDO the revision from which on a value to free has to be recorded without a
    /// break.
    pub since: u64,
    /// The number of the look (rk_repair_pass_fenced) at the Services. With 0 it is a dry run: nothing is picked or
    /// written, and the outcome says what would be done.
    pub look: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 4],
}

pub(crate) fn fate_number(fate: Fate) -> rk_fate {
    match fate {
        Fate::Set => RK_FATE_SET,
        Fate::Cleared => RK_FATE_CLEARED,
        Fate::AlreadySet => RK_FATE_ALREADY_SET,
        Fate::AlreadyClear => RK_FATE_ALREADY_CLEAR,
        Fate::InUse => RK_FATE_IN_USE,
        Fate::Unused => RK_FATE_UNUSED,
        Fate::Reallocated => RK_FATE_REALLOCATED,
        Fate::Unsure => RK_FATE_UNSURE,
    }
}

fn kind_of(number: rk_edit_kind) -> Result<EditKind, Failure> {
    match number {
        RK_EDIT_CHANGE => Ok(EditKind::Change),
        RK_EDIT_FORCE => Ok(EditKind::Force),
        RK_EDIT_PLAN => Ok(EditKind::Plan),
        RK_EDIT_UNDO => Ok(EditKind::Undo),
        _ => Err(Failure::new(rk_result::InvalidArgument, format_args!("the kind {number} of edit is unknown"))),
    }
}

/// # Safety
/// The pointers of the edit are NULL or valid for reads during the scope.
unsafe fn edit_of(scope: &Scope, range: ValueRange, edit: &rk_edit) -> Result<Edit<ValueRange>, Failure> {
    let rk_edit { kind, pick, listed, since, look, .. } = *edit;
    // SAFETY: as promised to this function.
    let (set, clear, data) = unsafe {
        (
            values_of("edit.set", slice(scope, edit.set, edit.set_len).named("edit.set")?)?,
            values_of("edit.clear", slice(scope, edit.clear, edit.clear_len).named("edit.clear")?)?,
            slice(scope, edit.in_use, edit.in_use_len).named("edit.in_use")?,
        )
    };
    let mut in_use = Bitmap::new(range.size());
    in_use
        .restore(data)
        .map_err(|error| Failure::new(rk_result::BitsPastRange, format_args!("edit.in_use: {error}")))?;
    Ok(Edit { kind: kind_of(kind)?, set, pick, clear, in_use, listed, since, look: NonZeroU64::new(look) })
}

/// Submits a change by hand and writes its ticket. It ends by RK_OUTCOME_EDITED, or fails with RK_RESULT_NOT_IN_RANGE,
/// RK_RESULT_FULL, RK_RESULT_STALE_LIST, RK_RESULT_SERVICES_WRITTEN and as any operation.
///
/// On failure nothing is submitted.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_committer_submit_edit(
    committer: *mut rk_committer,
    edit: *const rk_edit,
    deadline: u64,
    ticket: *mut u64,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let committer = borrow(scope, committer).named("committer")?;
            let (edit, ticket) = (borrow(scope, edit).named("edit")?, Out::new(scope, ticket).named("ticket")?);
            committer.with(|committer| {
                let edit = Operation::Edit(Box::new(edit_of(scope, committer.range(), edit)?));
                ticket.write(committer.submit(edit, deadline_of(deadline)).0);
                Ok(())
            })
        })
    }
}
