//! A ledger in redb, which one process has open.

use std::path::Path;

use rangekeeper::ledger::{Put, Store, Token};
use redb::{Database, Error, ReadableDatabase, ReadableTable, TableDefinition};

/// The value and its version, which is the token.
const LEDGERS: TableDefinition<'_, &str, (&[u8], u64)> = TableDefinition::new("ledgers");

/// A key of the table `ledgers`.
#[derive(Debug)]
pub struct RedbKey {
    database: Database,
    key: String,
}

impl RedbKey {
    /// Opens the database, and creates the file if it is missing.
    ///
    /// # Errors
    /// Those of redb; one if another process has the file open.
    pub fn open(path: &Path, key: &str) -> Result<Self, Error> {
        let database = Database::create(path)?;
        let transaction = database.begin_write()?;
        transaction.open_table(LEDGERS)?;
        transaction.commit()?;
        Ok(Self { database, key: key.to_owned() })
    }
}

impl Store for RedbKey {
    type Error = Error;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Error> {
        let table = self.database.begin_read()?.open_table(LEDGERS)?;
        let row = table.get(self.key.as_str())?;
        Ok(row.map(|row| {
            let (value, version) = row.value();
            (value.to_vec(), version.to_be_bytes().to_vec())
        }))
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Error> {
        let transaction = self.database.begin_write()?;
        let mut table = transaction.open_table(LEDGERS)?;
        let version = table.get(self.key.as_str())?.map(|row| row.value().1);
        if token != version.map(|version| version.to_be_bytes().to_vec()) {
            return Ok(Put::Changed);
        }
        let version = version.unwrap_or(0) + 1;
        table.insert(self.key.as_str(), (value.as_slice(), version))?;
        drop(table);
        transaction.commit()?;
        Ok(Put::Stored(version.to_be_bytes().to_vec()))
    }
}
