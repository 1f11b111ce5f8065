//! A store of one value, as a row of a database.

use rangekeeper::ledger::{Put, Token};

/// A value and the number of its last write, which is its token.
#[derive(Default)]
pub(crate) struct Row {
    value: Option<Vec<u8>>,
    writes: u64,
}

impl Row {
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn token(&self) -> Option<Token> {
        self.value.as_ref().map(|_| self.writes.to_be_bytes().to_vec())
    }

    pub(crate) fn get(&self) -> Option<(Vec<u8>, Token)> {
        self.value.clone().zip(self.token())
    }

    pub(crate) fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Put {
        if token != self.token() {
            return Put::Changed;
        }
        self.value = Some(value);
        self.writes += 1;
        self.token().map_or(Put::Changed, Put::Stored)
    }
}
