//! What goes into a committer: operations and events.

use std::ffi::c_char;
use std::time::Duration;

use rangekeeper_core::commit::{Answer, Change, Event, Header, KeyState, KeyValue, Operation};

use crate::allocator::requests;
use crate::error::Failure;
use crate::range::ValueRange;
use crate::result::rk_result;
use crate::scope::{Scope, slice, text};
use crate::value::{Value, rk_value};

/// What an operation does.
pub type rk_operation_kind = u32;
/// Serve all requests of data.allocate, or none.
pub const RK_OPERATION_ALLOCATE: rk_operation_kind = 1;
/// Release the value of data.release.
pub const RK_OPERATION_RELEASE: rk_operation_kind = 2;
/// Read what is stored.
pub const RK_OPERATION_READ: rk_operation_kind = 3;
/// Create the object if it is missing or was never initialised.
pub const RK_OPERATION_CREATE: rk_operation_kind = 4;

/// What the store says.
pub type rk_event_kind = u32;
/// The store has answered, and the guard of the request held: data.held.
pub const RK_EVENT_HELD: rk_event_kind = 1;
/// The store has answered a read, or a request whose guard did not hold, with the current key: data.current.
pub const RK_EVENT_CURRENT: rk_event_kind = 2;
/// It is unknown whether the request has taken or will take effect.
pub const RK_EVENT_UNKNOWN: rk_event_kind = 3;
/// The store refuses the request (no space, no permission), which will not take effect later: data.refused.
pub const RK_EVENT_REFUSED: rk_event_kind = 4;
/// The connection to the store is new. Report this before anything that came over it.
pub const RK_EVENT_RECONNECTED: rk_event_kind = 5;
/// The watch has seen changes of the key: data.watched.
pub const RK_EVENT_WATCHED: rk_event_kind = 6;
/// The watch has ended without an RK_STEP_STOP_WATCH, and can be started again.
pub const RK_EVENT_WATCH_ENDED: rk_event_kind = 7;
/// The watch has ended, and changes that it has not reported are compacted.
pub const RK_EVENT_WATCH_FAILED: rk_event_kind = 8;
/// The store has answered RK_STEP_READ_AT: data.current, with the key as it was.
pub const RK_EVENT_PAST: rk_event_kind = 9;
/// The store no longer has the state that RK_STEP_READ_AT asks for.
pub const RK_EVENT_COMPACTED: rk_event_kind = 10;

/// An operation to be submitted.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_operation {
    /// When it ends at the latest, in nanoseconds by the caller's clock; UINT64_MAX for never.
    pub deadline: u64,
    /// What it does.
    pub kind: rk_operation_kind,
    /// Data that the kind determines.
    pub data: rk_operation_data,
}

/// The data of an operation; the kind determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_operation_data {
    /// RK_OPERATION_ALLOCATE.
    pub allocate: rk_allocate,
    /// RK_OPERATION_RELEASE.
    pub release: rk_release,
}

/// The requests of an allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_allocate {
    /// How many of the requests belong to it.
    pub requests: usize,
}

/// A release on behalf of the owner of a value. Both revisions are those of the range's etcd.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_release {
    /// The value.
    pub value: rk_value,
    /// The revision at which the owner stopped having the value, that of the Service's deletion or update, or for a
    /// rollback that of the allocation. The value is freed only if it has been in use without a break since then.
    pub as_of: u64,
    /// The revision at which the owner was last stored with the value: the Service's before its deletion or update, or
    /// for a rollback that of the allocation. The value is freed only if it has been in use without a break since then,
    /// as far back as the history goes; 0 for all of that.
    pub oldest: u64,
    /// The store of rk_known as it was when the owner began the request by which it gave the value up, or of
    /// rk_allocated for a rollback. If that is not the present store of this committer, the release is deferred: the
    /// store before a restore, and those of other committers, may have had another history. 0 names none, as in a
    /// release as of a read: then revisions count, but after a restore of etcd that the committer has noticed those do
    /// not that etcd had reached before it.
    pub store: u32,
}

/// The state of a key in etcd; all 0 if there is no key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_key_state {
    /// The revision of its last change.
    pub mod_revision: u64,
    /// How many changes it has had since it was created, the creation included.
    pub version: u64,
    /// The revision at which it was created.
    pub create_revision: u64,
}

/// A key and its value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_key {
    /// Its revisions and version.
    pub state: rk_key_state,
    /// The value.
    pub value: *const u8,
    /// How many bytes.
    pub value_len: usize,
}

/// Something that happened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rk_event {
    /// What the store says.
    pub kind: rk_event_kind,
    /// Data that the kind determines.
    pub data: rk_event_data,
}

/// The data of an event; the kind determines which member is valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rk_event_data {
    /// RK_EVENT_HELD.
    pub held: rk_header,
    /// RK_EVENT_CURRENT and RK_EVENT_PAST.
    pub current: rk_current,
    /// RK_EVENT_REFUSED.
    pub refused: rk_refused,
    /// RK_EVENT_WATCHED.
    pub watched: rk_watched,
}

/// The header of an answer of etcd.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_header {
    /// The cluster that answered.
    pub cluster_id: u64,
    /// The store's revision after the request.
    pub revision: u64,
    /// The raft term.
    pub raft_term: u64,
}

/// An answer that brings the key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_current {
    /// The header of the answer.
    pub header: rk_header,
    /// The key; its state is all 0 if there is none.
    pub key: rk_key,
}

/// A refusal of the store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_refused {
    /// The store's error message.
    pub reason: *const c_char,
    /// How many bytes.
    pub reason_len: usize,
}

/// Changes of the key, in their order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_watched {
    /// The key after each change, as etcd reports it: after a deletion version is 0, and mod_revision that of the
    /// deletion.
    pub changes: *const rk_key,
    /// How many.
    pub n: usize,
}

impl From<KeyState> for rk_key_state {
    fn from(state: KeyState) -> Self {
        let KeyState { mod_revision, version, create_revision } = state;
        Self { mod_revision, version, create_revision }
    }
}

impl From<rk_key_state> for KeyState {
    fn from(state: rk_key_state) -> Self {
        let rk_key_state { mod_revision, version, create_revision } = state;
        Self { mod_revision, version, create_revision }
    }
}

impl From<rk_header> for Header {
    fn from(header: rk_header) -> Self {
        let rk_header { cluster_id, revision, raft_term } = header;
        Self { cluster_id, revision, raft_term }
    }
}

pub(crate) fn deadline(nanoseconds: u64) -> Duration {
    if nanoseconds == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanoseconds) }
}

/// Operations with their deadlines. `values` are the requests of all of them, back to back.
///
/// # Safety
/// Of the data of each operation, what belongs to its kind is written.
pub(crate) unsafe fn operations(
    operations: &[rk_operation],
    values: &[rk_value],
) -> Result<Vec<(Operation<ValueRange>, Duration)>, Failure> {
    let invalid = |message: std::fmt::Arguments<'_>| Failure::new(rk_result::InvalidArgument, message);
    let mut rest = values;
    let mut all = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        let submitted = match operation.kind {
            RK_OPERATION_ALLOCATE => {
                // SAFETY: written, as promised; any numbers are a valid member.
                let n = unsafe { operation.data.allocate }.requests;
                let (own, others) = rest.split_at_checked(n).ok_or_else(|| {
                    let len = values.len();
                    invalid(format_args!("values_len {len} is too small: operation {index} has {n} requests more"))
                })?;
                rest = others;
                Operation::Allocate(requests(own)?)
            }
            RK_OPERATION_RELEASE => {
                // SAFETY: as above.
                let rk_release { value, as_of, oldest, store } = unsafe { operation.data.release };
                let value = Value::try_from(&value)
                    .map_err(|error| error.of(format_args!("the value of operation {index}")))?;
                Operation::Release { value, as_of, oldest, store }
            }
            RK_OPERATION_READ => Operation::Read,
            RK_OPERATION_CREATE => Operation::Create,
            kind => return Err(invalid(format_args!("operation {index} is of an unknown kind: {kind}"))),
        };
        all.push((submitted, deadline(operation.deadline)));
    }
    if !rest.is_empty() {
        let (len, more) = (values.len(), rest.len());
        return Err(invalid(format_args!("values_len {len} is too large: no operation requests the last {more}")));
    }
    Ok(all)
}

/// The events that one event of C stands for.
///
/// # Safety
/// Of the data of the event, what belongs to its kind is written, and its pointers are NULL or valid during `'a`.
pub(crate) unsafe fn events<'a>(scope: &'a Scope, event: &rk_event) -> Result<Vec<Event<'a>>, rk_result> {
    let event = match event.kind {
        RK_EVENT_HELD => {
            // SAFETY: written, as promised; any numbers are a valid member.
            Event::Answered { header: unsafe { event.data.held }.into(), answer: Answer::Held }
        }
        kind @ (RK_EVENT_CURRENT | RK_EVENT_PAST) => {
            // SAFETY: as above.
            let rk_current { header, key } = unsafe { event.data.current };
            // SAFETY: as promised to this function.
            let value = unsafe { slice(scope, key.value, key.value_len)? };
            let key = (key.state.version != 0).then_some(KeyValue { state: key.state.into(), value });
            let answer = if kind == RK_EVENT_PAST { Answer::Past(key) } else { Answer::Current(key) };
            Event::Answered { header: header.into(), answer }
        }
        RK_EVENT_UNKNOWN => Event::Unknown,
        RK_EVENT_REFUSED => {
            // SAFETY: as above.
            let rk_refused { reason, reason_len } = unsafe { event.data.refused };
            // SAFETY: as promised to this function.
            Event::Refused(shortened(unsafe { text(scope, reason, reason_len)? }))
        }
        RK_EVENT_COMPACTED => Event::Compacted,
        RK_EVENT_RECONNECTED => Event::Reconnected,
        RK_EVENT_WATCHED => {
            // SAFETY: as above.
            let rk_watched { changes, n } = unsafe { event.data.watched };
            // SAFETY: as promised to this function.
            let changes = unsafe { slice(scope, changes, n)? };
            // SAFETY: as promised to this function.
            return changes.iter().map(|key| unsafe { change(scope, key) }).collect();
        }
        RK_EVENT_WATCH_ENDED => Event::WatchEnded,
        RK_EVENT_WATCH_FAILED => Event::WatchFailed,
        _ => return Err(rk_result::InvalidArgument),
    };
    Ok(vec![event])
}

/// # Safety
/// The value is NULL or valid during `'a`.
unsafe fn change<'a>(scope: &'a Scope, key: &rk_key) -> Result<Event<'a>, rk_result> {
    if key.state.version == 0 {
        return Ok(Event::Watched(Change::Delete { revision: key.state.mod_revision }));
    }
    // SAFETY: as promised to this function.
    let value = unsafe { slice(scope, key.value, key.value_len)? };
    Ok(Event::Watched(Change::Put(KeyValue { state: key.state.into(), value })))
}

/// The most bytes of a reason that are kept: each operation that was refused has a copy.
const MOST_REASON: usize = 4096;

/// A text up to this length, without a part of a character.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_REASON)]
}
