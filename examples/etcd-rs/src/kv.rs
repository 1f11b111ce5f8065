//! What is asked of a store: transactions, lists and watches, with etcd's revisions. [`etcd`](crate::etcd) is one such
//! store.

use std::pin::Pin;

use rangekeeper::commit::{Header, KeyState};
use tokio::sync::mpsc;

/// A store with etcd's revisions.
pub trait Kv: Send + Sync + 'static {
    /// Performs a transaction.
    fn txn(&self, txn: Txn) -> Pending<Answer>;

    /// A linearizable read of a key, or of all keys with a prefix, which ends in a slash: their newest state, or with
    /// `at` that at a revision. The keys come in order.
    fn list(&self, key: String, at: Option<u64>) -> Pending<(Header, Vec<Stored>)>;

    /// All changes of a key from a revision on. The channel closes when the watch fails; the watch ends when the
    /// receiver is dropped.
    fn watch(&self, key: String, from: u64) -> mpsc::Receiver<Change>;

    /// The number of the connection, another one once that is lost. Another store may answer over the next one, such as
    /// one from a backup.
    fn connections(&self) -> u64;
}

/// An answer of a store that is awaited.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

/// A transaction: if all conditions hold, the writes, else a read of a key, if one is named.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// The conditions.
    pub when: Vec<Condition>,
    /// The writes.
    pub then: Vec<Write>,
    /// The key that is read instead.
    pub or_read: Option<String>,
    /// The connection, by its number ([`Kv::connections`]), if it must not be sent over another one.
    pub over: Option<u64>,
}

/// A comparison with the state of a key, whose numbers are all 0 if it is not there.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The key.
    pub key: String,
    /// What is compared.
    pub field: Field,
    /// How it compares with `number`.
    pub op: Op,
    /// The number.
    pub number: u64,
}

/// A number of a [`KeyState`].
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// The revision of the key's last change.
    ModRevision,
    /// The revision of its creation.
    CreateRevision,
    /// How many changes it has had since then.
    Version,
}

/// How a number compares with another one.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// It is less.
    Less,
    /// It is equal.
    Equal,
    /// It is greater.
    Greater,
}

impl Condition {
    /// A condition on a key.
    pub fn new(key: impl Into<String>, field: Field, op: Op, number: u64) -> Self {
        Self { key: key.into(), field, op, number }
    }
}

/// A write of a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    /// Puts a value.
    Put(String, Vec<u8>),
    /// Puts a key without a value that is only there for conditions: a witness, or a look, which is `temporary`. The
    /// store may lose it when its last client ends, as no write of that can come later.
    Mark {
        /// The key.
        key: String,
        /// Whether it goes by itself after [`LOOK_SECONDS`].
        temporary: bool,
    },
    /// Deletes a key, if it is there.
    Delete(String),
}

/// How long a look stays if nobody deletes it.
pub const LOOK_SECONDS: i64 = 5 * 60;

/// The answer to a transaction.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The revision after it, and which store has answered.
    pub header: Header,
    /// Whether the conditions held.
    pub held: bool,
    /// If not, the key that was read.
    pub found: Option<Stored>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The key.
    pub key: String,
    /// Its revisions.
    pub state: KeyState,
    /// The value.
    pub value: Vec<u8>,
}

/// A change of a key.
#[derive(Clone, Debug)]
pub enum Change {
    /// It was put.
    Put(Stored),
    /// It was deleted, at this revision.
    Delete(u64),
}

/// A request without an answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// The store refused the request, which takes no effect later.
    #[error("{0}")]
    Refused(String),
    /// The request was not sent, as the connection that it had to go over is lost.
    #[error("the connection to the store was made again meanwhile")]
    Reconnected,
    /// The request may have taken effect, or may yet.
    #[error("{0}")]
    Unknown(String),
}

/// The key of the witness beside a range.
pub fn witness(range: &str) -> String {
    format!("{range}/witness")
}

/// The key of a look below a range.
pub fn look(range: &str, number: std::num::NonZeroU64) -> String {
    format!("{range}/look/{number:x}")
}
