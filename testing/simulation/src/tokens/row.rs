//! The store: one value, with a token that is another one after each write.

use rangekeeper::range_allocation::RangeAllocation;

use crate::faults::ShellFault;
use crate::layout::{Layout, Mask};

/// What stands for a write; the servers only compare it.
pub(super) type Token = u64;

#[derive(Debug, Default)]
pub(super) struct Row {
    stored: Option<(Token, Vec<u8>)>,
    pub(super) writes: u64,
}

/// A request as it reaches the store.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Get,
    Put(Vec<u8>, Option<Token>),
}

/// What the store has answered.
#[derive(Clone, Debug)]
pub(super) enum Got {
    /// What is stored.
    Value(Option<(Token, Vec<u8>)>),
    Stored(Token),
    /// Nothing was put: the token is another one.
    Changed,
}

impl Row {
    pub(super) fn put(&mut self, value: Vec<u8>, expected: Option<Token>) -> Option<Token> {
        if self.stored.as_ref().map(|(token, _)| *token) != expected {
            return None;
        }
        self.writes += 1;
        // A hash of the value is the same again once the value is.
        let token = if ShellFault::TokenIsAHash.is_on() { mask(&value) << 1 | 1 } else { self.writes };
        self.stored = Some((token, value));
        Some(token)
    }

    pub(super) fn perform(&mut self, asked: Asked) -> Got {
        match asked {
            Asked::Get => Got::Value(self.stored.clone()),
            Asked::Put(value, token) => self.put(value, token).map_or(Got::Changed, Got::Stored),
        }
    }

    /// What is in use.
    pub(super) fn mask(&self) -> Mask {
        self.stored.as_ref().map_or(0, |(_, value)| mask(value))
    }
}

fn mask(value: &[u8]) -> Mask {
    let data = RangeAllocation::decode(value).map(|stored| stored.data).unwrap_or_default();
    debug_assert!(data.len() <= 8, "a small range");
    Layout::default().mask_of_value(value)
}
