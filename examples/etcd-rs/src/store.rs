//! The functions for a control plane.

use std::fmt::{self, Debug};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::{Allocator, Request, Strategy};
use rangekeeper::commit::{Config, Deferral, Diff, Failure, Operation, Outcome, Repaired, View};
use rangekeeper::{Committer, Range};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::driver::{Call, Driver, Ended, Memory, Stats};
use crate::kv::{self, Condition, Field, Kv, Op};

/// Allocates from one stored object. Clones share it: their operations share requests to etcd.
///
/// An operation continues if its future is dropped; the values that it then allocates are released.
#[derive(Clone)]
pub struct Store<R: Range> {
    key: Arc<str>,
    range: R,
    strategy: Strategy,
    calls: mpsc::UnboundedSender<Call<R>>,
    started: Instant,
    timeout: Duration,
}

impl<R: Range> Debug for Store<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("key", &self.key).field("range", &self.range).finish_non_exhaustive()
    }
}

/// Values that were allocated together.
#[derive(Clone, Debug)]
pub struct Allocation<V> {
    /// The values in the order of the requests. The caller owns them until it releases them.
    pub values: Vec<V>,
    /// On whose behalf a rollback releases them.
    pub owner: Owner,
    /// The time by which a Service with the values must be written.
    pub use_until: Instant,
}

/// On whose behalf a value is released.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The revision at which its owner gave it up: that of the Service's deletion, or of the update that dropped it.
    pub as_of: u64,
    /// The revision at which the Service was stored before.
    pub oldest: u64,
    /// Which store that was: a release that names one of another committer is deferred. 0 names none.
    pub store: u32,
}

impl Owner {
    /// For a value that no Service has at a revision, of a [`View`] for example.
    pub fn at(revision: u64) -> Self {
        Self { as_of: revision, oldest: revision, store: 0 }
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error<R: Range> {
    /// Nothing was changed.
    #[error(transparent)]
    Failed(#[from] Failure<R>),
    /// The store did not answer in time, and nothing was changed.
    #[error("the store was not reached in time: {0}")]
    Unreachable(String),
    /// A value was not freed.
    #[error("not released, and left to a repair pass: {0}")]
    Deferred(#[from] Deferral),
    /// The operation may have taken effect, or may yet. A repair pass frees a value that it allocated.
    #[error("the operation has an unknown outcome{0}")]
    Unknown(String),
}

impl<R> Store<R>
where
    R: Range + Send + 'static,
    R::Value: Send,
{
    /// A store of the object. It reads and writes nothing before the first operation. Each operation ends after
    /// `timeout` at the latest.
    ///
    /// The task ends once all clones of the store are dropped and all operations have ended.
    pub fn open(kv: Arc<dyn Kv>, key: &str, range: R, config: Config, timeout: Duration) -> (Self, JoinHandle<Stats>) {
        let strategy = config.strategy;
        let (calls, received) = mpsc::unbounded_channel();
        let started = Instant::now();
        let driver = Driver::new(kv, key.to_owned(), Committer::new(range, config, generator()), started, received);
        (Self { key: key.into(), range, strategy, calls, started, timeout }, tokio::spawn(driver.run()))
    }

    /// The key of the stored object.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The configured range.
    pub fn range(&self) -> R {
        self.range
    }

    /// Creates the object if it is missing or not initialised. Returns whether it did.
    pub async fn create(&self) -> Result<bool, Error<R>> {
        match self.call(Operation::Create).await {
            Ended { outcome: Outcome::Created { created }, .. } => Ok(created),
            ended => Err(ended.into()),
        }
    }

    /// Serves all requests, or none. For each it allocates a free value, or the named one.
    pub async fn allocate(&self, requests: Vec<Request<R::Value>>) -> Result<Allocation<R::Value>, Error<R>> {
        match self.call(Operation::Allocate(requests)).await {
            Ended { outcome: Outcome::Allocated { values, revision, store, use_until }, .. } => {
                let owner = Owner { store, ..Owner::at(revision) };
                Ok(Allocation { values, owner, use_until: self.started + use_until })
            }
            ended => Err(ended.into()),
        }
    }

    /// The values that an allocation would have now; it allocates none.
    pub async fn dry_run(&self, requests: Vec<Request<R::Value>>) -> Result<Vec<R::Value>, Error<R>> {
        let view = self.read().await?;
        if !view.initialised {
            return Err(Failure::NotInitialised.into());
        }
        let mut used = Allocator::new(self.range, self.strategy);
        let restored = used.restore(&self.range.to_string(), view.used.snapshot());
        restored.map_err(|error| Failure::Unreadable { message: error.to_string() })?;
        Ok(used.allocate_batch(&requests, &mut generator()).map_err(Failure::from)?)
    }

    /// The conditions of the transaction that writes the Service of an allocation, in the same store: its values are
    /// certainly still allocated. If they do not hold, the caller releases the values and tries again.
    pub fn conditions(&self, allocation: &Allocation<R::Value>) -> [Condition; 2] {
        let (witness, revision) = (kv::witness(&self.key), allocation.owner.as_of);
        [
            // No pass that may clean one of the values has begun to list Services, nor was the range recreated.
            Condition::new(witness.clone(), Field::CreateRevision, Op::Less, revision + 1),
            // The store was not restored to a state before the allocation.
            Condition::new(witness, Field::ModRevision, Op::Greater, revision - 1),
        ]
    }

    /// Records that the Service of these values is stored. Until then they are set again in a store that is restored
    /// from a backup.
    pub fn written(&self, values: Vec<R::Value>) {
        let written = move |committer: &mut Memory<R>| values.into_iter().for_each(|value| committer.written(value));
        // If the task has ended, nothing is set again.
        let _ = self.calls.send(Call::Show(Box::new(written)));
    }

    /// Releases a value on behalf of its owner. Returns whether this call freed it; otherwise it was free already, or
    /// has another owner.
    pub async fn release(&self, value: R::Value, owner: Owner) -> Result<bool, Error<R>> {
        let Owner { as_of, oldest, store } = owner;
        match self.call(Operation::Release { value, as_of, oldest, store }).await {
            Ended { outcome: Outcome::Released { freed }, .. } => Ok(freed),
            ended => Err(ended.into()),
        }
    }

    /// The stored state, which etcd has confirmed after the call began.
    pub async fn read(&self) -> Result<View, Error<R>> {
        match self.call(Operation::Read).await {
            Ended { outcome: Outcome::Read(view), .. } => Ok(view),
            ended => Err(ended.into()),
        }
    }

    /// Applies what a pass has found out; see [`repair`](crate::repair).
    pub(crate) async fn repair(&self, diff: Diff) -> Result<Repaired<R>, Error<R>> {
        match self.call(Operation::Repair(Box::new(diff))).await {
            Ended { outcome: Outcome::Repaired(repaired), .. } => Ok(repaired),
            ended => Err(ended.into()),
        }
    }

    /// Shows the committer to a function and returns its result.
    pub(crate) async fn show<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Memory<R>) -> T + Send + 'static,
    ) -> Result<T, Error<R>> {
        let (done, result) = oneshot::channel();
        let show = move |committer: &mut Memory<R>| drop(done.send(function(committer)));
        let gone = || Error::Unreachable("the store's task has ended".to_owned());
        self.calls.send(Call::Show(Box::new(show))).map_err(|_| gone())?;
        result.await.map_err(|_| gone())
    }

    async fn call(&self, operation: Operation<R>) -> Ended<R> {
        let (done, ended) = oneshot::channel();
        let call = Call::Submit { operation, deadline: Instant::now() + self.timeout, done };
        let gone = || Ended { outcome: Outcome::Unknown, trouble: Some("the store's task has ended".to_owned()) };
        if self.calls.send(call).is_err() {
            return gone();
        }
        let mut waiting = Waiting { store: self, ended };
        (&mut waiting.ended).await.unwrap_or_else(|_| gone())
    }
}

fn generator() -> Xoshiro256PlusPlus {
    // The keys of a hasher are random, so they seed the generator.
    Xoshiro256PlusPlus::seed_from_u64(RandomState::new().hash_one(0))
}

/// A caller that waits for the outcome of an operation.
struct Waiting<'a, R: Range> {
    store: &'a Store<R>,
    ended: oneshot::Receiver<Ended<R>>,
}

/// Releases what was allocated for a caller who went away before taking it, though it was handed out already.
impl<R: Range> Drop for Waiting<'_, R> {
    fn drop(&mut self) {
        self.ended.close();
        let Ok(ended) = self.ended.try_recv() else { return };
        // If the task has ended, a repair pass finds the value.
        let _ = self.store.calls.send(Call::Abandon(ended.outcome));
    }
}

/// The error for an outcome that is not the expected one.
impl<R: Range> From<Ended<R>> for Error<R> {
    fn from(ended: Ended<R>) -> Self {
        match (ended.outcome, ended.trouble) {
            (Outcome::Failed(Failure::DeadlineExceeded), Some(trouble)) => Self::Unreachable(trouble),
            (Outcome::Failed(failure), _) => Self::Failed(failure),
            (Outcome::Deferred(deferral), _) => Self::Deferred(deferral),
            (_, trouble) => Self::Unknown(trouble.map_or(String::new(), |trouble| format!(": {trouble}"))),
        }
    }
}
