//! The functions for a control plane.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rangekeeper::allocator::Request;
use rangekeeper::commit::{Config, Deferral, Failure, Operation, Outcome, View};
use rangekeeper::{Committer, Range};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::driver::{Call, Driver, Ended, Stats};
use crate::etcd::EtcdKey;

/// Allocates from one stored object. Clones share it: their operations share requests to etcd.
///
/// An operation continues if its future is dropped; the values that it then allocates are released.
#[derive(Clone, Debug)]
pub struct Store<R: Range> {
    calls: mpsc::UnboundedSender<Call<R>>,
    started: Instant,
    timeout: Duration,
}

/// A value that was allocated.
#[derive(Clone, Copy, Debug)]
pub struct Allocation<V> {
    /// The value, which the caller owns until it releases it.
    pub value: V,
    /// The revision of the allocation, which is the as-of revision of a rollback.
    pub revision: u64,
    /// The time by which a Service with the value must be written.
    pub use_until: Instant,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error<R: Range> {
    /// Nothing was changed.
    #[error(transparent)]
    Failed(#[from] Failure<R>),
    /// etcd did not answer in time, and nothing was changed.
    #[error("etcd was not reached in time: {0}")]
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
    pub fn open(key: EtcdKey, range: R, config: Config, timeout: Duration) -> (Self, JoinHandle<Stats>) {
        // The keys of a hasher are random, so they seed the generator.
        let rng = Xoshiro256PlusPlus::seed_from_u64(RandomState::new().hash_one(0));
        let (calls, received) = mpsc::unbounded_channel();
        let started = Instant::now();
        let driver = Driver::new(key, Committer::new(range, config, rng), started, received);
        (Self { calls, started, timeout }, tokio::spawn(driver.run()))
    }

    /// Creates the object if it is missing or not initialised. Returns whether it did.
    pub async fn create(&self) -> Result<bool, Error<R>> {
        match self.call(Operation::Create).await {
            Ended { outcome: Outcome::Created { created }, .. } => Ok(created),
            ended => Err(ended.into()),
        }
    }

    /// Allocates a free value, or the named one.
    pub async fn allocate(&self, request: Request<R::Value>) -> Result<Allocation<R::Value>, Error<R>> {
        let ended = self.call(Operation::Allocate(vec![request])).await;
        let Outcome::Allocated { values, revision, use_until, .. } = &ended.outcome else { return Err(ended.into()) };
        let [value] = values[..] else { return Err(ended.into()) };
        Ok(Allocation { value, revision: *revision, use_until: self.started + *use_until })
    }

    /// Releases a value. Returns whether this call freed it; otherwise it was free already, or has another owner.
    /// `as_of` is the revision at which its owner gave it up: that of the Service's deletion, of a [`View`] at which
    /// no Service has it, or for a rollback [`Allocation::revision`]. A control plane that knows the revision at which
    /// the Service was stored before names that as `oldest` of the operation.
    pub async fn release(&self, value: R::Value, as_of: u64) -> Result<bool, Error<R>> {
        match self.call(Operation::Release { value, as_of, oldest: as_of, store: 0 }).await {
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
