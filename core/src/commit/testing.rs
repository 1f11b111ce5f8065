//! States and operations for the tests of the committer's parts: a range of 100 ports, with the lowest free one next.

use std::num::NonZeroU64;
use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::allocator::{Request, Strategy};
use crate::bitmap::Bitmap;
use crate::ports::PortRange;
use crate::range_allocation::{Form, RangeAllocation};

use super::base::Base;
use super::changes::Changes;
use super::history::{Adopted, History};
use super::limits::Limits;
use super::operation::{Diff, Operation, ServiceList, Ticket};
use super::pending::{Pending, Submitter};
use super::protection::Protection;
use super::request::{Answer, Change, Header, KeyState, KeyValue};
use super::{Committer, Config, Replace};

pub(super) const GRACE: Duration = Duration::from_secs(10);
pub(super) const SIZE: u32 = 100;
const LOW: u16 = 30_000;

pub(super) fn range() -> PortRange {
    PortRange::new(LOW, LOW + SIZE as u16 - 1).expect("a range")
}

pub(super) fn port(offset: u32) -> u16 {
    LOW + offset as u16
}

pub(super) fn bitmap(offsets: impl IntoIterator<Item = u32>) -> Bitmap {
    let mut bitmap = Bitmap::new(SIZE);
    offsets.into_iter().for_each(|offset| _ = bitmap.insert(offset));
    bitmap
}

/// The bytes of a RangeAllocation with these offsets in use.
pub(super) fn stored(used: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut object = RangeAllocation::new(Form::Protobuf);
    (object.range, object.data) = (range().to_string(), bitmap(used).snapshot().to_vec());
    object.encode()
}

/// The key in its nth version, at ten times this revision. The first version is its creation.
pub(super) fn state(version: u64) -> KeyState {
    KeyState { mod_revision: version * 10, version, create_revision: 10 }
}

pub(super) fn base(state: KeyState, value: &[u8]) -> Base<PortRange> {
    Base::decode(Some(KeyValue { state, value }), range(), Strategy::Contiguous)
}

/// A history in which everything after `since` is known and nothing has changed.
pub(super) fn unchanged_since(since: KeyState) -> Changes {
    let mut changes = Changes::new(Limits::default(), 7);
    changes.restart(since);
    changes
}

pub(super) fn header(revision: u64) -> Header {
    Header { cluster_id: 1, revision, raft_term: 1 }
}

/// A read is answered at this revision. Returns whether the store is the same, and what the key means.
pub(super) fn read(
    history: &mut History<PortRange>,
    protection: &mut Protection,
    revision: u64,
    key: Option<(KeyState, &[u32])>,
) -> (bool, Adopted) {
    let value = key.map(|(_, used)| stored(used.iter().copied()));
    let key = key.zip(value.as_ref()).map(|((state, _), value)| KeyValue { state, value });
    history.connection.read_sent();
    let reached = history.connection.reached();
    let is_same = history.answered(Duration::from_secs(1), header(revision), reached, Answer::Current(key));
    (is_same, history.adopt(header(revision), key, protection))
}

/// A watch reports the key. Returns whether that is the new base.
pub(super) fn watch(
    history: &mut History<PortRange>,
    protection: &mut Protection,
    state: KeyState,
    used: &[u32],
    is_asking: bool,
) -> bool {
    let value = stored(used.iter().copied());
    history.watched(Change::Put(KeyValue { state, value: &value }), is_asking, protection)
}

pub(super) type Ports = Committer<PortRange, Xoshiro256PlusPlus>;

pub(super) fn committer(range: PortRange) -> Ports {
    let config = Config { strategy: Strategy::Contiguous, grace: GRACE, replace: Replace::Always };
    Committer::new(range, config, Xoshiro256PlusPlus::seed_from_u64(1))
}

pub(super) fn protection() -> Protection {
    Protection::new(SIZE, GRACE, Limits::default())
}

pub(super) fn caller(ticket: u64) -> Submitter {
    Submitter::Caller(Ticket(ticket))
}

pub(super) fn pending(ticket: u64, operation: Operation<PortRange>) -> Pending<PortRange> {
    Pending::new(caller(ticket), operation, Duration::MAX)
}

pub(super) fn take(offset: u32) -> Operation<PortRange> {
    Operation::Allocate(vec![Request::Named(port(offset))])
}

pub(super) fn next() -> Operation<PortRange> {
    Operation::Allocate(vec![Request::Any])
}

pub(super) fn release(offset: u32, as_of: u64) -> Operation<PortRange> {
    Operation::Release { value: port(offset), as_of, oldest: as_of, store: 0 }
}

/// The look of edits and passes.
pub(super) const LOOK: NonZeroU64 = NonZeroU64::MIN;

pub(super) fn repair(read: u64, set: &[u32], clear: &[u32], listed: ServiceList) -> Operation<PortRange> {
    let (set, clear) = (bitmap(set.iter().copied()), bitmap(clear.iter().copied()));
    Operation::Repair(Box::new(Diff { read, set, clear, duplicates: Vec::new(), outside: 0, listed, look: None }))
}
