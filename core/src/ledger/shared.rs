//! A ledger in a store that several programs write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand_core::Rng;

use super::{AllocateError, Allocation, Ledger, LedgerValue, OpenError, Owned, Pool, Want};
use crate::offsets::fraction;

/// What a store says about the state of a value; see [`SharedLedger`].
pub type Token = Vec<u8>;

/// The number of a submitted change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeTicket(pub u64);

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
    /// Nothing. It ends once the ledger was read after its submission. Right after the call that ends it,
    /// [`SharedLedger::known`] is what was stored at some time since.
    Read,
}

/// How a change has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// These values are stored as in use.
    Allocated(Allocation),
    /// Nothing was allocated.
    NotAllocated(AllocateError),
    /// These values are stored as released; none if they were not in use, as after an earlier write of the same change
    /// that had no answer. Then, too, no write of any program that was on its way takes effect any more.
    Released(Vec<Allocation>),
    /// The value belongs to an owner, and was not released.
    NotReleased(Owned),
    /// The ledger was read.
    Read,
    /// A write of this change without an owner had no answer. Whether it took effect is unknown, and it is not
    /// repeated.
    Unanswered,
    /// The change was not made: with it the ledger is larger than the store allows.
    TooLarge,
}

/// What is to be asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Get the value. Then call [`SharedLedger::got`], or [`SharedLedger::unanswered`].
    Get,
    /// Put this value if the token of the stored one is this; without a token if there is none. Then call
    /// [`SharedLedger::put`], [`SharedLedger::conflicted`], [`SharedLedger::too_large`] or
    /// [`SharedLedger::unanswered`].
    Put {
        /// The value.
        value: Vec<u8>,
        /// The token of the value that it replaces.
        token: Option<Token>,
    },
    /// Nothing before this time, as others write, too. Then ask for the next request again.
    Wait {
        /// When to go on.
        until: Duration,
    },
}

/// A store of one value.
pub trait Store {
    /// Why there was no answer.
    type Error;

    /// The value and its token; `None` if there is none. One that is empty was emptied by somebody:
    /// [`SharedLedger::run`] refuses it, as a new ledger would give all its values again.
    ///
    /// # Errors
    /// If there was no answer.
    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Self::Error>;

    /// Puts a value if the token of the stored one is this; without a token if there is none. A client that repeats a
    /// request by itself, as many of HTTP do, is refused by its own write if that had no answer: that is an error, too.
    ///
    /// # Errors
    /// If there was no answer, or one that does not say whether the value was put.
    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Self::Error>;

    /// Waits before the next attempt, as others write, too. A store that nobody writes from afar need not wait.
    fn wait(&mut self, _time: Duration) {}
}

/// The answer to a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The value was put, and has this token.
    Stored(Token),
    /// The value was not put, as the stored one has another token, or is missing or not missing.
    Changed,
    /// The value was not put, and never will be, as it is larger than the store allows.
    TooLarge,
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
/// is bytes that the store chooses, such as a version or a resourceVersion; it must differ for each write, also of the
/// same value. A [`SharedLedger`] turns the changes of many callers into one write. It never has more than one request
/// under way.
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
/// ledger.run(&mut Row(None), || Duration::from_secs(1_800_000_000), &mut rng)?;
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
    waiting: BTreeMap<ChangeTicket, Change>,
    /// Offsets of callers that have gone, to be released by the next write: first and number.
    returned: Vec<(u64, u32)>,
    /// Those of the write under way.
    returning: Vec<(u64, u32)>,
    /// How many changes share a write at most: fewer after a write that was too large.
    most: usize,
    /// Changes of the write under way, by ticket, with their outcomes if it takes effect.
    written: Vec<(ChangeTicket, Change, Outcome)>,
    /// Those of them whose callers have gone.
    cancelled: BTreeSet<ChangeTicket>,
    ended: BTreeMap<ChangeTicket, (Change, Outcome)>,
    /// What is stored, as far as is known, with its token.
    known: Option<(Ledger, Option<Token>)>,
    /// Changes before this one were submitted before `known` was read.
    read_after: u64,
    late: Late,
    /// What is stored if the write under way takes effect, with the token that it replaces. Nothing is known then, as
    /// either this is or what another program has written: a copy of 2 MiB for each attempt would be for nothing.
    next: Option<(Ledger, Option<Token>)>,
    /// While a get is under way: changes before this one were submitted before it.
    getting: Option<u64>,
    /// Whether the store had a value.
    had_value: bool,
    back_off: BackOff,
}

/// How long to wait after writes of others. A longer wait than the attempts take wastes time, a shorter one attempts.
#[derive(Clone, Copy, Debug, Default)]
struct BackOff {
    /// When the attempt under way began: what was got is written next.
    began: Option<Duration>,
    /// How many attempts in a row have failed.
    failed: u32,
    /// The next attempt begins at a random time within this one.
    within: Option<Duration>,
    /// When the next attempt begins.
    until: Duration,
}

impl BackOff {
    fn failed(&mut self, now: Duration) {
        let took = now.saturating_sub(self.began.take().unwrap_or(now)).min(LONGEST_ATTEMPT);
        self.failed = self.failed.saturating_add(1);
        self.within = Some(took * (1 << self.failed.saturating_add(1).min(MOST_DOUBLINGS)));
    }

    /// When the next attempt may begin, if that is later than now.
    fn wait(&mut self, now: Duration, rng: &mut impl Rng) -> Option<Duration> {
        if let Some(within) = self.within.take() {
            self.until = now.saturating_add(Duration::from_nanos(fraction(within.as_nanos() + 1, rng) as u64));
        }
        // A clock that has gone back would make the wait as much longer.
        let is_soon = self.until.saturating_sub(now) <= LONGEST_ATTEMPT * (1 << MOST_DOUBLINGS);
        (now < self.until && is_soon).then_some(self.until)
    }
}

/// An attempt that took longer counts as this: its store had a fault, and no more load than others.
const LONGEST_ATTEMPT: Duration = Duration::from_millis(500);

/// The wait is up to 4 times as long as the attempt took, up to 8 times after a second one, then up to 16 times: 2 to
/// the power of this. Of 128 programs that write at once, each needs three attempts with that, without it 50.
const MOST_DOUBLINGS: u32 = 4;

impl SharedLedger {
    /// Nothing is known of the store yet. See [`Ledger::new`] for the seed.
    pub fn new(pool: Pool, seed: u64) -> Self {
        Self {
            pool,
            seed,
            next_ticket: 0,
            waiting: BTreeMap::new(),
            returned: Vec::new(),
            returning: Vec::new(),
            most: usize::MAX,
            written: Vec::new(),
            cancelled: BTreeSet::new(),
            ended: BTreeMap::new(),
            known: None,
            read_after: 0,
            late: Late::AtTheNextToken,
            next: None,
            getting: None,
            had_value: false,
            back_off: BackOff::default(),
        }
    }

    /// Adds a change to those of the next write.
    pub fn submit(&mut self, change: Change) -> ChangeTicket {
        let ticket = ChangeTicket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, change);
        ticket
    }

    /// How a change has ended; `None` as long as it has not, and after it was taken.
    pub fn outcome(&self, ticket: ChangeTicket) -> Option<&Outcome> {
        self.ended.get(&ticket).map(|(_, outcome)| outcome)
    }

    /// As [`outcome`](Self::outcome), which forgets it.
    pub fn take_outcome(&mut self, ticket: ChangeTicket) -> Option<Outcome> {
        self.ended.remove(&ticket).map(|(_, outcome)| outcome)
    }

    /// The changes that have ended, in the order of their submission; each is returned once.
    pub fn take_outcomes(&mut self) -> impl Iterator<Item = (ChangeTicket, Outcome)> {
        std::mem::take(&mut self.ended).into_iter().map(|(ticket, (_, outcome))| (ticket, outcome))
    }

    /// The caller of a change no longer waits for its outcome. A change that is not under way is not made. If it was
    /// made, or will be by the write under way, then what it allocated for nobody is released again, unless that write
    /// or the one that releases it has no answer, or the latter is too large for the store; what it allocated for an
    /// owner is not, as the owner finds it and can release it.
    pub fn cancel(&mut self, ticket: ChangeTicket) {
        if let Some((change, outcome)) = self.ended.remove(&ticket) {
            self.give_back(&change, &outcome);
        } else if self.written.binary_search_by_key(&ticket, |(written, ..)| *written).is_ok() {
            self.cancelled.insert(ticket);
        } else {
            self.waiting.remove(&ticket);
        }
    }

    /// Releases what was allocated for nobody, as its caller will not release it.
    fn give_back(&mut self, change: &Change, outcome: &Outcome) {
        let (Change::Allocate { owner: None, .. }, Outcome::Allocated(allocation)) = (change, outcome) else { return };
        self.returned.extend(self.pool.range().offset_of(allocation.first).map(|first| (first, allocation.len)));
    }

    /// What is stored, as far as is known: as of the last get or put. `None` before the first one, while a put is under
    /// way, and after one that did not take effect or had no answer.
    pub fn known(&self) -> Option<&Ledger> {
        self.known.as_ref().map(|(ledger, _)| ledger)
    }

    /// The next request to the store; `None` if no change waits, or if a request is under way. All changes that wait
    /// become one write, unless one was [too large](Self::too_large). Changes that are refused or were made before need
    /// no write: they end once the ledger was read after their submission. But as long as an earlier write may still
    /// arrive, also one of this program's last run, a write comes first that prevents it. A release that finds nothing
    /// always writes, to prevent those of other programs: the values that one of them gives would never be released.
    ///
    /// Cost: the changes, and [`Ledger::encode`].
    pub fn next_request(&mut self, now: Duration, rng: &mut impl Rng) -> Option<Request> {
        if self.getting.is_some() || self.next.is_some() {
            return None;
        }
        if self.waiting.is_empty() && self.returned.is_empty() {
            self.back_off.began = None;
            return None;
        }
        if let Some(until) = self.back_off.wait(now, rng) {
            return Some(Request::Wait { until });
        }
        self.back_off.began.get_or_insert(now);
        let Some((mut next, token)) = self.known.take() else { return Some(self.get()) };
        let before = next.changes;
        self.returning = std::mem::take(&mut self.returned);
        for (first, len) in &self.returning {
            next.release_unowned(*first, *len, now);
        }
        let mut changes = std::mem::take(&mut self.waiting);
        if let Some(first) = changes.keys().nth(self.most).copied() {
            self.waiting = changes.split_off(&first);
        }
        let changes = changes.into_iter().map(|(ticket, change)| {
            let outcome = next.apply(&change, now, rng);
            (ticket, change, outcome)
        });
        self.written = changes.collect();
        // A write that is late would still make what was found refused or released already, so its token must pass. Of
        // other programs' late writes nothing is known, and nobody repeats a release that has ended.
        let may_be_late = self.late == Late::At(token.clone());
        let is_undecided = self.written.iter().any(|(_, change, outcome)| match outcome {
            Outcome::Released(released) => released.is_empty(),
            _ => may_be_late && *change != Change::Read,
        });
        if next.changes > before || is_undecided {
            let request = Request::Put { value: next.encode(), token: token.clone() };
            self.next = Some((next, token));
            return Some(request);
        }
        self.known = Some((next, token));
        // Nothing has changed, so that the outcomes of older changes do not depend on later ones. For those, what is
        // known may be old by now.
        let later = self.written.partition_point(|(ticket, ..)| ticket.0 < self.read_after);
        self.waiting.extend(self.written.drain(later..).map(|(ticket, change, _)| (ticket, change)));
        self.end_written();
        if self.waiting.is_empty() {
            self.back_off = BackOff::default();
            return None;
        }
        Some(self.get())
    }

    /// Makes the requests to a store that it takes to end all changes that wait. `clock` tells the time since 1970.
    ///
    /// # Errors
    /// If the store does not answer, or has something else, or an empty value. Changes that have not ended wait for the
    /// next run.
    pub fn run<S: Store>(
        &mut self,
        store: &mut S,
        clock: impl Fn() -> Duration,
        rng: &mut impl Rng,
    ) -> Result<(), RunError<S::Error>> {
        while let Some(request) = self.next_request(clock(), rng) {
            let answered = match request {
                Request::Get => store.get().map(|stored| match stored {
                    Some((value, _)) if value.is_empty() => {
                        self.unanswered();
                        Err(OpenError::Empty)
                    }
                    stored => self.got(stored),
                }),
                Request::Put { value, token } => store.put(value, token).map(|put| {
                    match put {
                        Put::Stored(token) => self.put(token),
                        Put::Changed => self.conflicted(clock()),
                        Put::TooLarge => self.too_large(),
                    }
                    Ok(())
                }),
                Request::Wait { until } => {
                    store.wait(until.saturating_sub(clock()));
                    self.back_off.until = Duration::ZERO;
                    continue;
                }
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

    /// The value was got; `None` if there is none. It is empty only at a place that never had a ledger, such as a field
    /// of an object: if somebody has emptied one, call [`unanswered`](Self::unanswered).
    ///
    /// # Errors
    /// If the value is no ledger of the pool, or is missing or empty and was not before: a new one would give all
    /// values again. Changes go on waiting, and the value is got again.
    pub fn got(&mut self, stored: Option<(Vec<u8>, Token)>) -> Result<(), OpenError> {
        let getting = self.getting.take();
        self.known = None;
        let (value, token) = stored.map_or((Vec::new(), None), |(value, token)| (value, Some(token)));
        let opened = if value.is_empty() && self.had_value {
            Err(OpenError::Gone)
        } else {
            Ledger::open(self.pool.clone(), &value, self.seed)
        };
        let ledger = opened.inspect_err(|_| self.back_off.began = None)?;
        self.had_value |= !value.is_empty();
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
        if let Some((next, _)) = self.next.take() {
            self.known = Some((next, Some(token)));
            self.late = Late::No;
            self.had_value = true;
            self.back_off = BackOff::default();
            self.end_written();
        }
    }

    /// The value was not put, as the stored one has another token. The ledger is read, and the changes are made again,
    /// after a random time of up to 16 times as long as this attempt took, as others write, too.
    pub fn conflicted(&mut self, now: Duration) {
        if self.next.is_some() {
            self.back_off.failed(now);
        }
        self.again(false);
    }

    /// The value was not put, and never will be, as it is larger than the store allows. So that one change refuses no
    /// others, the next writes have half as many, then twice as many after each that is stored. A change that is alone
    /// ends as [`Outcome::TooLarge`].
    pub fn too_large(&mut self) {
        if self.next.take().is_none() {
            return;
        }
        self.back_off.began = None;
        let (written, returning) = (std::mem::take(&mut self.written), std::mem::take(&mut self.returning));
        self.most = (written.len() / 2).max(1);
        // A write of releases for callers that have gone, and nothing else, would be refused again and again.
        if !written.is_empty() {
            self.returned.extend(returning);
        }
        let is_alone = written.len() == 1;
        for (ticket, change, _) in written {
            if self.cancelled.remove(&ticket) {
                continue;
            }
            if is_alone {
                self.ended.insert(ticket, (change, Outcome::TooLarge));
            } else {
                self.waiting.insert(ticket, change);
            }
        }
    }

    /// A get or put had no answer, or one that does not say whether it took effect. The caller chooses when it makes
    /// the next request.
    pub fn unanswered(&mut self) {
        self.getting = None;
        self.back_off.began = None;
        self.again(true);
    }

    /// Lets the changes of the write under way wait again, in their order. Those that may have taken effect and leave
    /// no trace end.
    fn again(&mut self, may_have_taken_effect: bool) {
        let Some((_, token)) = self.next.take() else { return };
        let returning = std::mem::take(&mut self.returning);
        if may_have_taken_effect {
            self.late = Late::At(token);
        } else {
            self.returned.extend(returning);
        }
        for (ticket, change, outcome) in std::mem::take(&mut self.written) {
            let leaves_no_trace = match (&change, &outcome) {
                (Change::Allocate { owner: None, .. }, Outcome::Allocated(_)) => true,
                // Somebody else may have been given the value since.
                (Change::Release { .. }, Outcome::Released(released)) => !released.is_empty(),
                _ => false,
            };
            if self.cancelled.remove(&ticket) {
                continue;
            }
            if may_have_taken_effect && leaves_no_trace {
                self.ended.insert(ticket, (change, Outcome::Unanswered));
            } else {
                self.waiting.insert(ticket, change);
            }
        }
    }

    fn end_written(&mut self) {
        self.most = self.most.saturating_mul(2);
        self.returning.clear();
        for (ticket, change, outcome) in std::mem::take(&mut self.written) {
            if self.cancelled.remove(&ticket) {
                self.give_back(&change, &outcome);
            } else {
                self.ended.insert(ticket, (change, outcome));
            }
        }
    }
}

impl Ledger {
    /// Makes a change.
    pub fn apply(&mut self, change: &Change, now: Duration, rng: &mut impl Rng) -> Outcome {
        match change {
            Change::Allocate { want, owner } => match self.allocate(*want, owner.as_deref(), now, rng) {
                Ok(allocation) => Outcome::Allocated(allocation),
                Err(error) => Outcome::NotAllocated(error),
            },
            Change::Release { value } => match self.release(*value, now) {
                Ok(true) => Outcome::Released(vec![Allocation { first: *value, len: 1 }]),
                Ok(false) => Outcome::Released(Vec::new()),
                Err(owned) => Outcome::NotReleased(owned),
            },
            Change::ReleaseOwner { owner } => Outcome::Released(self.release_owner(owner, now)),
            Change::Read => Outcome::Read,
        }
    }
}
