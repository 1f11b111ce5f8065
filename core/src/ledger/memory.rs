//! A store in memory.

use std::convert::Infallible;

use super::{Put, Store, Token};

/// A [`Store`] in memory: for one process, and for tests of a program that has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    value: Option<Vec<u8>>,
    /// How often it was written: the token.
    writes: u64,
}

impl Memory {
    /// The stored value.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn token(&self) -> Option<Token> {
        self.value.as_ref().map(|_| self.writes.to_be_bytes().to_vec())
    }
}

impl Store for Memory {
    type Error = Infallible;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Infallible> {
        Ok(self.value.clone().zip(self.token()))
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Infallible> {
        if token != self.token() {
            return Ok(Put::Changed);
        }
        self.writes += 1;
        self.value = Some(value);
        Ok(self.token().map_or(Put::Changed, Put::Stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_needs_the_token_of_the_last_one() {
        let mut memory = Memory::default();
        let Ok(Put::Stored(first)) = memory.put(vec![1], None) else { panic!("{memory:?}") };
        assert_eq!(memory.put(vec![2], None), Ok(Put::Changed));
        let Ok(Put::Stored(second)) = memory.put(vec![1], Some(first.clone())) else { panic!("{memory:?}") };
        assert_ne!(first, second, "also of the same value");
        assert_eq!(memory.put(vec![2], Some(first)), Ok(Put::Changed));
        assert_eq!(memory.get(), Ok(Some((vec![1], second))));
        assert_eq!(memory.value(), Some(&[1][..]));
    }
}
