//! A store with one key, and the loop that drives a committer against it, as a C program would write it.

use std::mem::MaybeUninit;
use std::ptr;

use super::OK;
use crate::committer::*;
use crate::committer_input::*;
use crate::committer_output::*;
use crate::result::rk_result;
use crate::value::rk_value;

/// An operation that has ended, with what belongs to it.
pub(super) struct Ended {
    pub(super) finished: rk_finished,
    pub(super) values: Vec<rk_value>,
    pub(super) bytes: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Store {
    revision: u64,
    state: rk_key_state,
    value: Vec<u8>,
    now: u64,
}

impl Store {
    fn header(&self) -> rk_header {
        rk_header { cluster_id: 7, revision: self.revision, raft_term: 2 }
    }

    /// An answer in memory that is gone when the call has returned.
    fn answer(&self, committer: *mut rk_committer, held: bool) -> rk_result {
        let (header, value) = (self.header(), self.value.clone());
        let key = rk_key { state: self.state, value: value.as_ptr(), value_len: value.len() };
        let event = if held {
            Box::new(rk_event { kind: RK_EVENT_HELD, data: rk_event_data { held: header } })
        } else {
            Box::new(rk_event { kind: RK_EVENT_CURRENT, data: rk_event_data { current: rk_current { header, key } } })
        };
        // SAFETY: the caller keeps the handle, and the event is a live variable.
        unsafe { rk_committer_handle(committer, &*event, self.now) }
    }

    fn is(&self, guard: rk_key_state) -> bool {
        let of = |state: rk_key_state| (state.mod_revision, state.version, state.create_revision);
        of(guard) == of(self.state)
    }

    fn swap(&mut self, committer: *mut rk_committer, swap: rk_step_swap) -> rk_result {
        let held = self.is(swap.guard);
        if held {
            let (mut value, mut len) = (vec![0; swap.value_len], 0);
            // SAFETY: the buffer has this length, and the handle lives.
            let result = unsafe { rk_committer_value(committer, value.as_mut_ptr(), value.len(), &mut len) };
            if result != OK {
                return result;
            }
            self.revision += 1;
            self.value = value;
            self.state.mod_revision = self.revision;
            self.state.version += 1;
            if self.state.create_revision == 0 {
                self.state.create_revision = self.revision;
            }
        }
        self.answer(committer, held)
    }

    fn fetch(committer: *mut rk_committer, step: rk_step_finished, ended: &mut Vec<Ended>) -> rk_result {
        let mut finished = vec![MaybeUninit::<rk_finished>::uninit(); step.outcomes];
        let (mut values, mut bytes) = (vec![rk_value::default(); step.values], vec![0; step.bytes]);
        let mut n = 0;
        // SAFETY: the buffers have these lengths, and the handle lives.
        let result = unsafe {
            rk_committer_finished(
                committer,
                finished.as_mut_ptr().cast(),
                finished.len(),
                values.as_mut_ptr(),
                values.len(),
                bytes.as_mut_ptr(),
                bytes.len(),
                &mut n,
            )
        };
        if result != OK {
            return result;
        }
        for finished in &finished[..n] {
            // SAFETY: the first n were written, each with what belongs to its kind.
            let (finished, used) = unsafe {
                let finished = finished.assume_init();
                let used = match finished.outcome {
                    RK_OUTCOME_ALLOCATED => (finished.data.allocated.values, 0),
                    RK_OUTCOME_READ => (0, finished.data.read.bytes),
                    RK_OUTCOME_REPAIRED => (finished.data.repaired.set + finished.data.repaired.cleared, 0),
                    RK_OUTCOME_FAILED => {
                        (finished.data.failed.values, finished.data.failed.stored_range + finished.data.failed.reason)
                    }
                    _ => (0, 0),
                };
                (finished, used)
            };
            let (values, bytes) = (values.drain(..used.0).collect(), bytes.drain(..used.1).collect());
            ended.push(Ended { finished, values, bytes });
        }
        result
    }

    /// Takes one step. Returns its result, and whether there is nothing to do now.
    pub(super) fn step(&mut self, committer: *mut rk_committer, ended: &mut Vec<Ended>) -> (rk_result, bool) {
        let mut step = MaybeUninit::uninit();
        // SAFETY: the handle lives, and a step that was written has what belongs to its kind.
        unsafe {
            let result = rk_committer_poll(committer, self.now, step.as_mut_ptr());
            if result != OK {
                return (result, false);
            }
            let rk_step { kind, data } = step.assume_init();
            let result = match kind {
                RK_STEP_IDLE => return (OK, true),
                RK_STEP_WAIT => {
                    self.now = data.wait.until;
                    OK
                }
                RK_STEP_READ => self.answer(committer, false),
                RK_STEP_CONFIRM => self.answer(committer, self.is(data.confirm.guard)),
                RK_STEP_SWAP => self.swap(committer, data.swap),
                RK_STEP_FINISHED => Self::fetch(committer, data.finished, ended),
                // No change that a watch would see is missed.
                _ => OK,
            };
            (result, false)
        }
    }

    /// Steps until there is nothing to do. Returns what has ended.
    pub(super) fn run(&mut self, committer: *mut rk_committer) -> Vec<Ended> {
        let mut ended = Vec::new();
        loop {
            let (result, is_idle) = self.step(committer, &mut ended);
            assert_eq!(result, OK);
            if is_idle {
                return ended;
            }
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The stored object.
    pub(super) fn stored(&self) -> Vec<u8> {
        self.value.clone()
    }

    /// The key after the n-th change from here on.
    pub(super) fn change(&self, n: u64, value: &[u8]) -> rk_key {
        let mut state = self.state;
        state.mod_revision += n;
        state.version += n;
        rk_key { state, value: value.as_ptr(), value_len: value.len() }
    }
}

/// Submits one operation from memory that is gone when the call has returned.
pub(super) fn submit(
    committer: *mut rk_committer,
    kind: u32,
    data: rk_operation_data,
    requests: &[rk_value],
) -> (rk_result, u64) {
    let operation = Box::new(rk_operation { deadline: u64::MAX, kind, data });
    let (requests, mut ticket) = (requests.to_vec(), 0);
    // SAFETY: the handle lives, and all other pointers are to live variables of these lengths.
    let result = unsafe {
        rk_committer_submit(committer, &*operation, 1, requests.as_ptr(), requests.len(), &mut ticket, ptr::null_mut())
    };
    (result, ticket)
}

/// The data of an operation that needs none.
pub(super) const NO_DATA: rk_operation_data = rk_operation_data { allocate: rk_allocate { requests: 0 } };

pub(super) fn allocate(committer: *mut rk_committer, requests: &[rk_value]) -> (rk_result, u64) {
    let data = rk_operation_data { allocate: rk_allocate { requests: requests.len() } };
    submit(committer, RK_OPERATION_ALLOCATE, data, requests)
}

/// A committer of a range that is freed at once, and a store in which its object was created.
pub(super) fn created(range: &str, strategy: u32) -> (*mut rk_committer, Store) {
    let (range, mut committer, mut store) = (super::range(range), ptr::null_mut(), Store::default());
    // SAFETY: all pointers are to live variables, and the handle is freed once.
    unsafe {
        assert_eq!(
            rk_committer_new(&range, strategy, 1_000, RK_REPLACE_ALWAYS, 1, &mut committer, ptr::null_mut()),
            OK
        );
    }
    assert_eq!(submit(committer, RK_OPERATION_CREATE, NO_DATA, &[]).0, OK);
    let ended = store.run(committer);
    assert_eq!((ended.len(), ended[0].finished.outcome), (1, RK_OUTCOME_CREATED));
    (committer, store)
}
