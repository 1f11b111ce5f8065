//! The store: one value, with a token that is another one after each write.

use rangekeeper::ledger::{Ledger, Memory, Pool, Put, Store as _, Token};

pub(super) struct Row {
    memory: Memory,
    pool: Pool,
    /// The longest value that it takes.
    most: usize,
    /// All states, the first one is that of no value.
    states: Vec<Ledger>,
    /// The token of the last write.
    token: Option<Token>,
}

impl Row {
    pub(super) fn new(pool: Pool, most: usize) -> Self {
        Self { memory: Memory::default(), states: vec![Ledger::new(pool.clone(), 1)], pool, most, token: None }
    }

    /// How often it was written.
    pub(super) fn writes(&self) -> usize {
        self.states.len() - 1
    }

    pub(super) fn get(&mut self) -> Option<(Vec<u8>, Token)> {
        self.memory.get().unwrap_or_default()
    }

    pub(super) fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Put {
        if value.len() > self.most {
            return Put::TooLarge;
        }
        let ledger = Ledger::open(self.pool.clone(), &value, 1).expect("what a program puts");
        let Ok(put) = self.memory.put(value, token);
        if let Put::Stored(token) = &put {
            self.token = Some(token.clone());
            self.states.push(ledger);
        }
        put
    }

    /// The token of the stored value.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// What is stored.
    pub(super) fn ledger(&self) -> &Ledger {
        self.states.last().expect("the first one is there")
    }

    /// What was stored before the last write, and what is since.
    pub(super) fn last_two(&self) -> (&Ledger, &Ledger) {
        (&self.states[self.states.len() - 2], self.ledger())
    }

    /// What was stored since so many writes.
    pub(super) fn states_since(&self, writes: usize) -> &[Ledger] {
        &self.states[writes..]
    }
}
