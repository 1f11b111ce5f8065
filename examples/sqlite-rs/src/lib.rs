#![forbid(unsafe_code)]
//! A file of SQLite as the store of etcd-rs, for a control plane without an etcd: one process writes it, and
//! `rangekeeper audit --sqlite FILE` reads it, also meanwhile.
//!
//! Its table is that of kine (github.com/k3s-io/kine), in which each change of a key is a row and the row's id is the
//! revision. So a transaction changes one key at most. Marks, which are keys without a value for conditions, are kept
//! in memory: they guard writes that are under way, and there are none of an earlier process once this one has the
//! lock.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use etcd_rs::kv::{Answer, Change, Condition, Field, Kv, Op, Pending, Stored, Trouble, Txn, Write};
use rangekeeper::commit::{Header, KeyState};
use rusqlite::{Connection, Error, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, watch};

/// The statements with which kine makes its table.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS kine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER, create_revision INTEGER,
    prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB
);
CREATE INDEX IF NOT EXISTS kine_name_index ON kine (name);
CREATE INDEX IF NOT EXISTS kine_name_id_index ON kine (name, id);
CREATE INDEX IF NOT EXISTS kine_id_deleted_index ON kine (id, deleted);
CREATE INDEX IF NOT EXISTS kine_prev_revision_index ON kine (prev_revision);
CREATE UNIQUE INDEX IF NOT EXISTS kine_name_prev_revision_uindex ON kine (name, prev_revision);
INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value)
    SELECT 'compact_rev_key', 1, 0, 0, 0, 0, '' WHERE NOT EXISTS (SELECT 1 FROM kine);
";
/// A change, with the number of rows since the key was created, which kine does not keep.
const CHANGE: &str = "
SELECT id, name, deleted, CASE WHEN created THEN id ELSE create_revision END AS birth, value, (
    SELECT COUNT(*) FROM kine AS each WHERE each.name = kine.name AND each.id BETWEEN
        CASE WHEN kine.created THEN kine.id ELSE kine.create_revision END AND kine.id
) FROM kine";
const INSERT: &str = "
INSERT INTO kine (name, created, deleted, create_revision, prev_revision, lease, value, old_value)
    SELECT ?1, ?2, ?3, ?4, COALESCE(MAX(id), 0), 0, ?5,
        (SELECT value FROM kine WHERE name = ?1 ORDER BY id DESC LIMIT 1)
    FROM kine WHERE name = ?1";
/// The rows that no reader of a revision from ?1 on needs, as kine compacts.
const OLD: &str = "id <= ?1 AND name != 'compact_rev_key' AND (deleted OR EXISTS (
    SELECT 1 FROM kine AS later WHERE later.name = kine.name AND later.id > kine.id AND later.id <= ?1))";

/// How many revisions are kept for watches, and after how many the others are compacted.
const HISTORY: u64 = 1000;

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open, and would not notice what this one writes.
    #[error("another process has locked {0}")]
    Locked(String),
    /// The lock file cannot be created.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// SQLite refuses the file.
    #[error(transparent)]
    Sqlite(#[from] Error),
}

/// The store.
#[derive(Clone)]
pub struct Sqlite {
    inner: Arc<Mutex<Inner>>,
    revision: watch::Receiver<u64>,
}

struct Inner {
    connection: Connection,
    marks: HashMap<String, KeyState>,
    /// How many rows of each key were compacted since it was created, as far as this process knows.
    gone: HashMap<String, u64>,
    compacted: u64,
    revision: watch::Sender<u64>,
    /// Locked as long as the process lives.
    _lock: File,
}

impl Sqlite {
    /// Opens a file, and creates it if it is missing.
    ///
    /// # Errors
    /// If another process has it, or SQLite refuses it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let lock_path = format!("{}.lock", path.display());
        let lock = File::options().create(true).append(true).open(&lock_path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::Locked(lock_path),
            TryLockError::Error(error) => error.into(),
        })?;
        let connection = Connection::open(path)?;
        // An answer is given once the disk has the write.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(SCHEMA)?;
        let number = |sql| connection.query_row(sql, [], |row| row.get(0)).map(i64::cast_unsigned);
        let newest = number("SELECT MAX(id) FROM kine")?;
        let compacted = number("SELECT COALESCE(MAX(prev_revision), 0) FROM kine WHERE name = 'compact_rev_key'")?;
        let (sender, revision) = watch::channel(newest);
        let (marks, gone) = Default::default();
        let inner = Inner { connection, marks, gone, compacted, revision: sender, _lock: lock };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), revision })
    }

    /// Runs a function on a thread that may wait for the disk.
    fn run<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Inner) -> Result<T, Trouble> + Send + 'static,
    ) -> Pending<T> {
        let inner = Arc::clone(&self.inner);
        // A panic leaves a transaction that is rolled back.
        let run = move || function(&mut inner.lock().unwrap_or_else(PoisonError::into_inner));
        let task = tokio::task::spawn_blocking(run);
        Box::pin(async move { task.await.unwrap_or_else(|error| Err(Trouble::Unknown(error.to_string()))) })
    }

    async fn follow(mut self, key: String, mut from: u64, changes: &mpsc::Sender<Change>) {
        loop {
            let key = key.clone();
            let Ok(rows) = self.run(move |inner| inner.changes(&key, from)).await else { return };
            for (revision, change) in rows {
                from = revision + 1;
                if changes.send(change).await.is_err() {
                    return;
                }
            }
            if self.revision.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Kv for Sqlite {
    fn txn(&self, txn: Txn) -> Pending<Answer> {
        self.run(move |inner| inner.txn(txn))
    }

    fn list(&self, key: String, at: Option<u64>) -> Pending<(Header, Vec<Stored>)> {
        self.run(move |inner| {
            let revision = at.unwrap_or_else(|| *inner.revision.borrow());
            inner.check_kept(revision)?;
            let stored = inner.list(&key, revision).map_err(refused)?;
            Ok((header(revision), stored))
        })
    }

    fn watch(&self, key: String, from: u64) -> mpsc::Receiver<Change> {
        let (changes, receiver) = mpsc::channel(16);
        let store = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = store.follow(key, from, &changes) => {}
                () = changes.closed() => {}
            }
        });
        receiver
    }

    /// The file is the same one all along.
    fn connections(&self) -> u64 {
        1
    }
}

impl Inner {
    fn txn(&mut self, Txn { when, then, or_read, over: _ }: Txn) -> Result<Answer, Trouble> {
        let Self { connection, marks, gone, compacted, revision, .. } = self;
        let before = *revision.borrow();
        let txn = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
        for condition in &when {
            let state = match marks.get(&condition.key) {
                Some(mark) => *mark,
                None => state(newest(&txn, gone, &condition.key)?.as_ref()),
            };
            if !holds(condition, state) {
                let found = or_read.map(|key| newest(&txn, gone, &key)).transpose()?.flatten();
                return Ok(Answer { header: header(before), held: false, found });
            }
        }

        let mut after = before;
        let mut marked = Vec::new();
        for write in then {
            let (key, value) = match write {
                Write::Mark { key, .. } => {
                    marked.push((key, true));
                    continue;
                }
                Write::Delete(key) if marks.contains_key(&key) => {
                    marked.push((key, false));
                    continue;
                }
                Write::Delete(key) => (key, None),
                Write::Put(key, value) => (key, Some(value)),
            };
            let KeyState { version, create_revision, .. } = state(newest(&txn, gone, &key)?.as_ref());
            if version == 0 && value.is_none() {
                continue;
            }
            if after != before {
                return Err(Trouble::Refused(format!("{key}: a transaction writes one key")));
            }
            let row = params![key, version == 0, value.is_none(), create_revision.cast_signed(), value];
            txn.execute(INSERT, row).map_err(refused)?;
            after = txn.last_insert_rowid().cast_unsigned();
        }
        let compacts = after >= *compacted + 2 * HISTORY;
        let compacted_now =
            if compacts { compact(&txn, (after - HISTORY).cast_signed()).map_err(refused)? } else { vec![] };
        // After an error it may have been committed.
        txn.commit().map_err(|error| Trouble::Unknown(error.to_string()))?;

        if compacts {
            *compacted = after - HISTORY;
        }
        for (key, count) in compacted_now {
            *gone.entry(key).or_default() += count;
        }
        for (key, is_put) in marked {
            if is_put {
                let mark = marks.entry(key).or_insert(KeyState { create_revision: after, ..KeyState::default() });
                *mark = KeyState { mod_revision: after, version: mark.version + 1, ..*mark };
            } else {
                marks.remove(&key);
            }
        }
        revision.send_replace(after);
        Ok(Answer { header: header(after), held: true, found: None })
    }

    /// The state of a key, or of all keys with a prefix, at a revision.
    fn list(&self, key: &str, at: u64) -> Result<Vec<Stored>, Error> {
        // 0 comes after the slash at the end of a prefix; after a key comes the one with a zero byte.
        let end = key.strip_suffix('/').map_or_else(|| format!("{key}\0"), |prefix| format!("{prefix}0"));
        let sql = format!(
            "{CHANGE} JOIN (SELECT MAX(id) AS id FROM kine WHERE name >= ?1 AND name < ?2 AND id <= ?3 GROUP BY name)
            USING (id) WHERE deleted = 0 ORDER BY name"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map(params![key, end, at.cast_signed()], |row| stored(row, &self.gone))?;
        rows.filter_map(Result::transpose).collect()
    }

    /// Refuses a revision whose rows may have gone.
    fn check_kept(&self, revision: u64) -> Result<(), Trouble> {
        if revision > self.compacted {
            return Ok(());
        }
        Err(Trouble::Refused(format!("revision {revision} is compacted")))
    }

    /// The changes of a key from a revision on, with their revisions.
    fn changes(&self, key: &str, from: u64) -> Result<Vec<(u64, Change)>, Trouble> {
        self.check_kept(from)?;
        let read = || {
            let sql = format!("{CHANGE} WHERE name = ?1 AND id >= ?2 ORDER BY id");
            let mut statement = self.connection.prepare(&sql)?;
            let rows = statement.query_map(params![key, from.cast_signed()], |row| {
                let revision = number(row, 0)?;
                Ok((revision, stored(row, &self.gone)?.map_or(Change::Delete(revision), Change::Put)))
            })?;
            rows.collect::<Result<Vec<_>, Error>>()
        };
        read().map_err(refused)
    }
}

/// What fails before the commit is rolled back, and takes no effect later.
fn refused(error: Error) -> Trouble {
    Trouble::Refused(error.to_string())
}

/// There is one writer, so no other history of the store can answer.
fn header(revision: u64) -> Header {
    Header { cluster_id: 1, revision, raft_term: 1 }
}

fn newest(txn: &Transaction<'_>, gone: &HashMap<String, u64>, key: &str) -> Result<Option<Stored>, Trouble> {
    let read = || {
        let mut statement = txn.prepare(&format!("{CHANGE} WHERE name = ?1 ORDER BY id DESC LIMIT 1"))?;
        Ok(statement.query_row([key], |row| stored(row, gone)).optional()?.flatten())
    };
    read().map_err(refused)
}

fn state(stored: Option<&Stored>) -> KeyState {
    stored.map_or_else(KeyState::default, |stored| stored.state)
}

/// The key after a change; `None` if that is its deletion.
fn stored(row: &Row<'_>, gone: &HashMap<String, u64>) -> Result<Option<Stored>, Error> {
    if row.get(2)? {
        return Ok(None);
    }
    let key: String = row.get(1)?;
    let version = number(row, 5)? + gone.get(&key).copied().unwrap_or(0);
    let state = KeyState { mod_revision: number(row, 0)?, create_revision: number(row, 3)?, version };
    Ok(Some(Stored { key, state, value: row.get(4)? }))
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    row.get(column).map(i64::cast_unsigned)
}

fn holds(condition: &Condition, state: KeyState) -> bool {
    let found = match condition.field {
        Field::ModRevision => state.mod_revision,
        Field::CreateRevision => state.create_revision,
        Field::Version => state.version,
    };
    found.cmp(&condition.number)
        == match condition.op {
            Op::Less => Ordering::Less,
            Op::Equal => Ordering::Equal,
            Op::Greater => Ordering::Greater,
        }
}

/// Deletes the rows that are not needed from a revision on. Returns how many that are of each key that is there.
fn compact(txn: &Transaction<'_>, revision: i64) -> Result<Vec<(String, u64)>, Error> {
    let counts = format!(
        "SELECT name, COUNT(*) FROM kine WHERE {OLD} AND id >= (
            SELECT CASE WHEN created THEN id ELSE create_revision END FROM kine AS newest
            WHERE newest.name = kine.name ORDER BY id DESC LIMIT 1
        ) GROUP BY name"
    );
    let gone = txn.prepare(&counts)?.query_map([revision], |row| Ok((row.get(0)?, number(row, 1)?)))?.collect();
    txn.execute(&format!("DELETE FROM kine WHERE {OLD}"), [revision])?;
    txn.execute("UPDATE kine SET prev_revision = ?1 WHERE name = 'compact_rev_key'", [revision])?;
    gone
}
