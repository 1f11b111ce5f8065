//! What becomes of operations once the store has answered their batch.

use std::time::Duration;

use crate::bitmap::Bitmap;
use crate::range::Range;

use super::batch::{Batch, Entry};
use super::edit::Edited;
use super::failure::Failure;
use super::history::History;
use super::operation::{Diff, Operation, Outcome, ServiceList};
use super::pending::{Pending, Submitter};
use super::plan::Planned;
use super::protection::Protection;
use super::queue::Queue;
use super::request::KeyState;

/// The answer to a compare-and-swap that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) revision: u64,
    /// Until when a Service with the allocated values must be written.
    use_until: Duration,
    /// Whether the answer came too late for the callers of allocations.
    is_late: bool,
}

impl Written {
    /// The answer came `now`, to a request of this time.
    pub(super) fn new(revision: u64, sent: Duration, now: Duration, grace: Duration) -> Self {
        // Half of the grace is left for the caller, or else it would begin with too little.
        let is_late = now.saturating_sub(sent) > grace / 2;
        Self { revision, use_until: sent + grace, is_late }
    }

    /// Ends the operations of the batch that was written.
    pub(super) fn end<R: Range>(
        self,
        batch: Batch<R>,
        queue: &mut Queue<R>,
        history: &mut History<R>,
        protection: &mut Protection,
    ) {
        for Entry { mut pending, planned } in batch.entries {
            pending.refusal = None;
            match planned {
                Planned::Take(offsets) => self.allocated(history, pending, &offsets, queue, protection),
                planned => end(&pending, planned, self.revision, queue, history),
            }
        }
    }

    /// Ends an allocation. If its caller has given up, the values are released again.
    fn allocated<R: Range>(
        self,
        history: &History<R>,
        mut pending: Pending<R>,
        offsets: &[u32],
        queue: &mut Queue<R>,
        protection: &mut Protection,
    ) {
        let Self { revision, use_until, is_late } = self;
        let (range, store) = (history.range(), history.store());
        let values: Vec<R::Value> = offsets.iter().filter_map(|offset| range.value_at(*offset)).collect();
        let is_wanted = pending.submitter != Submitter::Nobody;
        if is_late || !is_wanted {
            queue.undo(values.iter().copied(), revision, store);
        }
        if is_wanted && is_late {
            pending.was_unknown = true;
            queue.push_front(pending);
        } else if is_wanted {
            offsets.iter().for_each(|offset| protection.hand_out(*offset));
            queue.end(pending.submitter, Outcome::Allocated { values, revision, store, use_until });
        }
    }
}

/// Ends the operations of a batch that changes nothing, and whose state the store has confirmed at this revision.
pub(super) fn confirm<R: Range>(batch: Batch<R>, revision: u64, queue: &mut Queue<R>, history: &mut History<R>) {
    for Entry { pending, planned } in batch.entries {
        end(&pending, planned, revision, queue, history);
    }
}

/// Puts the operations of a batch back that has not ended them. If its outcome `is_unknown` it may have carried them
/// out.
pub(super) fn put_back<R: Range>(batch: Batch<R>, is_unknown: bool, queue: &mut Queue<R>) {
    for Entry { mut pending, .. } in batch.entries.into_iter().rev() {
        if pending.submitter != Submitter::Nobody {
            pending.retry(is_unknown.then_some(batch.state));
            queue.push_front(pending);
        }
    }
}

/// Puts the operations of a batch back whose conditions did not hold: the key, or the Services that it depends on, had
/// changed. Returns whether it was the key, which is in this state.
pub(super) fn conflict<R: Range>(mut batch: Batch<R>, key: KeyState, queue: &mut Queue<R>) -> bool {
    let lost_list = batch.lost_list(key);
    if lost_list {
        // One of them may have what was to be cleared.
        batch.drop_clears();
        end_edits(&mut batch, queue);
    }
    put_back(batch, false, queue);
    !lost_list
}

/// Ends the edits of a batch whose list of Services no longer counts: their callers list again. A dry run depends on
/// nothing.
fn end_edits<R: Range>(batch: &mut Batch<R>, queue: &mut Queue<R>) {
    batch.entries.retain(|Entry { pending, .. }| match &pending.operation {
        Operation::Edit(edit) if edit.look.is_some() => {
            queue.end(pending.submitter, pending.given_up(false, Failure::ServicesWritten { listed: edit.listed }));
            false
        }
        _ => true,
    });
}

/// Ends the operations of a batch that the store refuses, and says why. A compare-and-swap needs a read first: etcd
/// carries one out that exceeds its quota, and then says that there is no space.
pub(super) fn refuse<R: Range>(mut batch: Batch<R>, is_swap: bool, message: &str, queue: &mut Queue<R>) {
    if is_swap {
        for Entry { pending, .. } in &mut batch.entries {
            pending.refusal = Some(pending.refused(message));
        }
        return put_back(batch, true, queue);
    }
    for Entry { pending, .. } in batch.entries {
        queue.end(pending.submitter, pending.refused(message));
    }
}

/// Sets again what was handed out recently, once the range was recreated.
pub(super) fn restore_lost<R: Range>(history: &History<R>, protection: &mut Protection, queue: &mut Queue<R>) {
    let Some(base) = history.base().filter(|base| base.is_initialised()) else { return };
    let Some(set) = protection.take_lost(base.used()) else { return };
    let (read, clear) = (base.state.mod_revision, Bitmap::new(set.len()));
    let diff =
        Diff { read, set, clear, duplicates: Vec::new(), outside: 0, listed: ServiceList::Elsewhere, look: None };
    queue.push(Pending::new(Submitter::Own, Operation::Repair(Box::new(diff)), Duration::MAX));
}

/// Ends an operation as it was evaluated.
fn end<R: Range>(
    pending: &Pending<R>,
    planned: Planned<R>,
    revision: u64,
    queue: &mut Queue<R>,
    history: &mut History<R>,
) {
    let outcome = match planned {
        Planned::View => history.view(revision).map(Outcome::Read),
        Planned::Edit(edited) => Some(Outcome::Edited(Edited { revision, ..edited })),
        Planned::End(outcome) => Some(pending.ended(outcome)),
        // An allocation of nothing.
        Planned::Take(_) => {
            let store = history.store();
            Some(Outcome::Allocated { values: Vec::new(), revision, store, use_until: Duration::MAX })
        }
    };
    if let Some(outcome) = outcome {
        queue.end(pending.submitter, outcome);
    }
}

#[cfg(test)]
mod tests;
