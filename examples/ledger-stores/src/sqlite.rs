//! A ledger in a row of SQLite, which several processes of one machine may write.

use std::path::Path;
use std::time::Duration;

use rangekeeper::ledger::{Put, Store, Token};
use rusqlite::{Connection, Error, OptionalExtension, Row, params};

/// How long a write waits for another process.
const BUSY: Duration = Duration::from_secs(30);

/// A row of the table `ledgers`. Its version is the token.
#[derive(Debug)]
pub struct SqliteRow {
    connection: Connection,
    key: String,
}

impl SqliteRow {
    /// Opens the database, and creates the file and the table if they are missing.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn open(path: &Path, key: &str) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.execute(
            "CREATE TABLE IF NOT EXISTS ledgers (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL)",
            [],
        )?;
        Ok(Self { connection, key: key.to_owned() })
    }
}

impl Store for SqliteRow {
    type Error = Error;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Error> {
        let select = "SELECT value, version FROM ledgers WHERE key = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.to_be_bytes().to_vec()));
        self.connection.query_row(select, [&self.key], read).optional()
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Error> {
        let version = token.map(|token| i64::from_be_bytes(token.try_into().unwrap_or_default()));
        // Both are carried out to their end, so that an error of the commit is an error here.
        let written = match version {
            None => self.connection.execute(
                "INSERT INTO ledgers (key, value, version) VALUES (?1, ?2, 1) ON CONFLICT DO NOTHING",
                params![self.key, value],
            )?,
            Some(version) => self.connection.execute(
                "UPDATE ledgers SET value = ?2, version = version + 1 WHERE key = ?1 AND version = ?3",
                params![self.key, value, version],
            )?,
        };
        let next = version.unwrap_or(0) + 1;
        Ok(if written == 0 { Put::Changed } else { Put::Stored(next.to_be_bytes().to_vec()) })
    }
}
