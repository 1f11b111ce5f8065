//! A ledger in a store that several programs write.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand_core::Rng;

use super::{AllocateError, Allocation, Ledger, LedgerValue, OpenError, Owned, Pool, Want};

/// What a store says about the state of a value; see [`SharedLedger`].
pub type Token = Vec<u8>;

/// The number of a submitted change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeTicket(u64);

/// What a caller wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// See [`Ledger::allocate`].
    Allocate {
        /// What is asked for.
        want: Want,
        /// For whom.
        owner: Option<String>,
    },
    /// See [`Ledger::release`].
    Release {
        /// The value.
        value: LedgerValue,
    },
    /// See [`Ledger::release_owner`].
    ReleaseOwner {
        /// The owner.
        owner: String,
    },
}

/// How a change has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// These values are stored as in use.
    Allocated(Allocation),
    /// Nothing was allocated.
    NotAllocated(AllocateError),
    /// These values are stored as released; none if they were not in use.
    Released(Vec<Allocation>),
    /// The value belongs to an owner, and was not released.
    NotReleased(Owned),
    /// A write of this change without an owner had no answer. Whether it took effect is unknown, and it is not
    /// repeated.
    Unanswered,
}

/// What is to be asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Get the value. Then call [`SharedLedger::got`], or [`SharedLedger::unanswered`].
    Get,
    /// Put this value if the token of the stored one is this; without a token if there is none. Then call
    /// [`SharedLedger::put`], [`SharedLedger::conflicted`] or [`SharedLedger::unanswered`].
    Put {
        /// The value.
        value: Vec<u8>,
        /// The token of the value that it replaces.
        token: Option<Token>,
    },
}

/// A store of one value.
pub trait Store {
    /// Why there was no answer.
    type Error;

    /// The value and its token; `None` if there is none.
    ///
    /// # Errors
    /// If there was no answer.
    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Self::Error>;

    /// Puts a value if the token of the stored one is this; without a token if there is none.
    ///
    /// # Errors
    /// If there was no answer, or one that does not say whether the value was put.
    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Self::Error>;
}

/// The answer to a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The value was put, and has this token.
    Stored(Token),
    /// The value was not put, as the stored one has another token, or is missing or not missing.
    Changed,
}

/// Why a run of requests has ended before all changes have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError<E> {
    /// A request had no answer.
    #[error("the store has not answered: {0}")]
    Unanswered(E),
    /// The stored value is no ledger of the pool.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Whether a write that had no answer may still take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Late {
    No,
    /// One of this program's last run, at the token that is read next.
    AtTheNextToken,
    /// As long as the stored value has this token.
    At(Option<Token>),
}

/// The changes of one program to a ledger that others change, too.
///
/// The store needs two operations: get the value with a token, and put a value if the token is still the same. A token
/// is bytes that the store chooses, such as a version or a resourceVersion; it must differ for each write of the value.
/// A [`SharedLedger`] turns the changes of many callers into one write. It never has more than one request under way.
///
/// Nothing else is needed for safety, since all that is known is in the value that a write replaces: a write that
/// arrives late has an old token. If a write gets no answer, the ledger is read again, and what an owner was given
/// shows whether the write took effect. An allocation for nobody leaves no such trace, so it ends as
/// [`Outcome::Unanswered`] then, and may have leaked a value.
///
/// A program with blocking calls implements [`Store`] and calls [`SharedLedger::run`]. One that waits for answers in
/// another way asks [`SharedLedger::next_request`] for each request, and says how it went.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use rand_core::SeedableRng;
/// use rand_xoshiro::Xoshiro256PlusPlus;
/// use rangekeeper::ledger::{Change, Choice, Outcome, Pool, Put, SharedLedger, Store, Token, Want};
///
/// /// A value with the number of its version, as a row of a database has it.
/// struct Row(Option<(Vec<u8>, u64)>);
///
/// impl Store for Row {
///     type Error = Infallible;
///
///     fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Infallible> {
///         Ok(self.0.clone().map(|(value, version)| (value, version.to_be_bytes().to_vec())))
///     }
///
///     fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Infallible> {
///         let version = self.0.as_ref().map(|(_, version)| *version);
///         if token != version.map(|version| version.to_be_bytes().to_vec()) {
///             return Ok(Put::Changed);
///         }
///         let version = version.unwrap_or(0) + 1;
///         self.0 = Some((value, version));
///         Ok(Put::Stored(version.to_be_bytes().to_vec()))
///     }
/// }
///
/// let pool = Pool::new("4096-16777215".parse()?, Choice::Lowest);
/// let mut ledger = SharedLedger::new(pool, 7);
/// let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
/// let red = ledger.submit(Change::Allocate { want: Want::Any, owner: Some("tenant/red".to_owned()) });
/// let blue = ledger.submit(Change::Allocate { want: Want::Run(2), owner: Some("tenant/blue".to_owned()) });
/// ledger.run(&mut Row(None), Duration::from_secs(1_800_000_000), &mut rng)?;
/// for (ticket, first) in [(red, "4096"), (blue, "4097")] {
///     let Some(Outcome::Allocated(allocation)) = ledger.take_outcome(ticket) else { return Err("refused".into()) };
///     assert_eq!(allocation.first.to_string(), first);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SharedLedger {
    pool: Pool,
    seed: u64,
    next_ticket: u64,
    waiting: VecDeque<(ChangeTicket, Change)>,
    /// Changes of the write under way, with their outcomes if it takes effect.
    written: Vec<(ChangeTicket, Change, Outcome)>,
    ended: BTreeMap<ChangeTicket, Outcome>,
    /// What is stored, as far as is known, with its token.
    known: Option<(Ledger, Option<Token>)>,
    /// Changes before this one were submitted before `known` was read.
    read_after: u64,
    late: Late,
    /// What is stored if the write under way takes effect.
    next: Option<Ledger>,
    /// While a get is under way: changes before this one were submitted before it.
    getting: Option<u64>,
}

impl SharedLedger {
    /// Nothing is known of the store yet. See [`Ledger::new`] for the seed.
    pub fn new(pool: Pool, seed: u64) -> Self {
        Self {
            pool,
            seed,
            next_ticket: 0,
            waiting: VecDeque::new(),
            written: Vec::new(),
            ended: BTreeMap::new(),
            known: None,
            read_after: 0,
            late: Late::AtTheNextToken,
            next: None,
            getting: None,
        }
    }

    /// Adds a change to those of the next write.
    pub fn submit(&mut self, change: Change) -> ChangeTicket {
        let ticket = ChangeTicket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.push_back((ticket, change));
        ticket
    }

    /// How a change has ended; `None` as long as it has not, and after it was taken.
    pub fn take_outcome(&mut self, ticket: ChangeTicket) -> Option<Outcome> {
        self.ended.remove(&ticket)
    }

    /// The changes that have ended, in the order of their submission; each is returned once.
    pub fn take_outcomes(&mut self) -> impl Iterator<Item = (ChangeTicket, Outcome)> {
        std::mem::take(&mut self.ended).into_iter()
    }

    /// What is stored, as far as is known: as of the last get or put.
    pub fn known(&self) -> Option<&Ledger> {
        self.known.as_ref().map(|(ledger, _)| ledger)
    }

    /// The next request to the store; `None` if no change waits, or if a request is under way. All changes that wait
    /// become one write. If they change nothing, because they are refused or were made before, they end once the ledger
    /// was read after their submission, and without a write unless one had no answer or is the first.
    ///
    /// Cost: a copy of the ledger, the changes, and [`Ledger::encode`].
    pub fn next_request(&mut self, now: Duration, rng: &mut impl Rng) -> Option<Request> {
        if self.getting.is_some() || self.next.is_some() || self.waiting.is_empty() {
            return None;
        }
        let Some((ledger, token)) = &self.known else { return Some(self.get()) };
        let (mut next, before) = (ledger.clone(), ledger.changes);
        let changes = self.waiting.drain(..).map(|(ticket, change)| {
            let outcome = apply(&mut next, &change, now, rng);
            (ticket, change, outcome)
        });
        self.written = changes.collect();
        // A write that is late would still make what was found refused or released already, so its token must pass.
        if next.changes > before || self.late == Late::At(token.clone()) {
            let request = Request::Put { value: next.encode(), token: token.clone() };
            self.next = Some(next);
            return Some(request);
        }
        if self.written.iter().all(|(ticket, ..)| ticket.0 < self.read_after) {
            self.end_written();
            return None;
        }
        // What is known may be old by now.
        self.waiting = self.written.drain(..).map(|(ticket, change, _)| (ticket, change)).collect();
        Some(self.get())
    }

    /// Makes the requests to a store that it takes to end all changes that wait.
    ///
    /// # Errors
    /// If the store does not answer, or has something else. Changes that have not ended wait for the next run.
    pub fn run<S: Store>(
        &mut self,
        store: &mut S,
        now: Duration,
        rng: &mut impl Rng,
    ) -> Result<(), RunError<S::Error>> {
        while let Some(request) = self.next_request(now, rng) {
            let answered = match request {
                Request::Get => store.get().map(|stored| self.got(stored)),
                Request::Put { value, token } => store.put(value, token).map(|put| {
                    match put {
                        Put::Stored(token) => self.put(token),
                        Put::Changed => self.conflicted(),
                    }
                    Ok(())
                }),
            };
            match answered {
                Ok(opened) => opened?,
                Err(error) => {
                    self.unanswered();
                    return Err(RunError::Unanswered(error));
                }
            }
        }
        Ok(())
    }

    fn get(&mut self) -> Request {
        self.getting = Some(self.next_ticket);
        Request::Get
    }

    /// The value was got; `None` if there is none.
    ///
    /// # Errors
    /// If the value is no ledger of the pool. Changes go on waiting, and the value is got again.
    pub fn got(&mut self, stored: Option<(Vec<u8>, Token)>) -> Result<(), OpenError> {
        let getting = self.getting.take();
        let (ledger, token) = match stored {
            None => (Ledger::new(self.pool.clone(), self.seed), None),
            Some((value, token)) => (Ledger::open(self.pool.clone(), &value, self.seed)?, Some(token)),
        };
        self.late = match std::mem::replace(&mut self.late, Late::No) {
            Late::AtTheNextToken => Late::At(token.clone()),
            Late::At(late) if late == token => Late::At(late),
            Late::At(_) | Late::No => Late::No,
        };
        self.known = Some((ledger, token));
        self.read_after = getting.unwrap_or(0);
        Ok(())
    }

    /// The value was put, and has this token.
    pub fn put(&mut self, token: Token) {
        if let Some(next) = self.next.take() {
            self.known = Some((next, Some(token)));
            self.late = Late::No;
            self.end_written();
        }
    }

    /// The value was not put, as the stored one has another token. The ledger is read, and the changes are made again.
    pub fn conflicted(&mut self) {
        self.again(false);
    }

    /// A get or put had no answer, or one that does not say whether it took effect.
    pub fn unanswered(&mut self) {
        self.getting = None;
        self.again(true);
    }

    /// Lets the changes of the write under way wait again, in their order. Those that may have taken effect and leave
    /// no trace end.
    fn again(&mut self, may_have_taken_effect: bool) {
        if self.next.take().is_none() {
            return;
        }
        let token = self.known.take().and_then(|(_, token)| token);
        self.late = if may_have_taken_effect { Late::At(token) } else { Late::No };
        for (ticket, change, outcome) in std::mem::take(&mut self.written).into_iter().rev() {
            let leaves_no_trace = match (&change, &outcome) {
                (Change::Allocate { owner: None, .. }, Outcome::Allocated(_)) => true,
                // Somebody else may have been given the value since.
                (Change::Release { .. }, Outcome::Released(released)) => !released.is_empty(),
                _ => false,
            };
            if may_have_taken_effect && leaves_no_trace {
                self.ended.insert(ticket, Outcome::Unanswered);
            } else {
                self.waiting.push_front((ticket, change));
            }
        }
    }

    fn end_written(&mut self) {
        let written = std::mem::take(&mut self.written);
        self.ended.extend(written.into_iter().map(|(ticket, _, outcome)| (ticket, outcome)));
    }
}

fn apply(ledger: &mut Ledger, change: &Change, now: Duration, rng: &mut impl Rng) -> Outcome {
    match change {
        Change::Allocate { want, owner } => match ledger.allocate(*want, owner.as_deref(), now, rng) {
            Ok(allocation) => Outcome::Allocated(allocation),
            Err(error) => Outcome::NotAllocated(error),
        },
        Change::Release { value } => match ledger.release(*value, now) {
            Ok(true) => Outcome::Released(vec![Allocation { first: *value, len: 1 }]),
            Ok(false) => Outcome::Released(Vec::new()),
            Err(owned) => Outcome::NotReleased(owned),
        },
        Change::ReleaseOwner { owner } => Outcome::Released(ledger.release_owner(owner, now)),
    }
}
