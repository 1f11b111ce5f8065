//! The task that owns a committer: it carries operations to it, requests to etcd, and answers back.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{
    self, Answer, Event, Finished, Header, KeyState, KeyValue, Operation, Outcome, Step, StoreRequest, Ticket, Witness,
};
use rangekeeper::{Committer, Range};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::kv::{self, Change, Condition, Field, Kv, Op, Pending, Stored, Trouble, Txn, Write};

/// A message of a caller.
pub(crate) enum Call<R: Range> {
    /// Perform an operation.
    Submit { operation: Operation<R>, deadline: Instant, done: oneshot::Sender<Ended<R>> },
    /// Abandon an operation and the values that it allocated.
    Abandon(Outcome<R>),
    /// Show the committer to a function.
    Show(Shown<R>),
}

/// A function that is shown the committer.
pub(crate) type Shown<R> = Box<dyn FnOnce(&mut Memory<R>) + Send>;

/// The committer of a store.
pub type Memory<R> = Committer<R, Xoshiro256PlusPlus>;

/// The end of an operation.
pub(crate) struct Ended<R: Range> {
    pub(crate) outcome: Outcome<R>,
    /// The failure of the last request to etcd, if it failed.
    pub(crate) trouble: Option<String>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Compare-and-swaps that were sent.
    pub swaps: u64,
    /// Requests that met a conflict.
    pub conflicts: u64,
    /// Requests with an unknown outcome.
    pub unknown: u64,
    /// Watches of the key.
    pub watches: u64,
}

type Flight = Pending<Reply>;

/// The answer to a request.
struct Reply {
    header: Header,
    found: Found,
}

/// The state of the key when the store answered.
enum Found {
    /// The state that the request expected.
    Expected,
    /// Another state; `None` without a key.
    Other(Option<Stored>),
    /// The answer to a read.
    Read(Option<Stored>),
}

pub(crate) struct Driver<R: Range> {
    kv: Arc<dyn Kv>,
    key: String,
    committer: Memory<R>,
    /// The moment from which the committer's times count.
    started: Instant,
    calls: mpsc::UnboundedReceiver<Call<R>>,
    waiting: HashMap<Ticket, oneshot::Sender<Ended<R>>>,
    flight: Option<Flight>,
    watch: Option<mpsc::Receiver<Change>>,
    /// The number of connections that were reported to the committer.
    connections: u64,
    /// As in [`Ended`].
    trouble: Option<String>,
    stats: Stats,
}

impl<R> Driver<R>
where
    R: Range + Send + 'static,
    R::Value: Send,
{
    pub(crate) fn new(
        kv: Arc<dyn Kv>,
        key: String,
        committer: Memory<R>,
        started: Instant,
        calls: mpsc::UnboundedReceiver<Call<R>>,
    ) -> Self {
        let connections = kv.connections();
        Self {
            kv,
            key,
            committer,
            started,
            calls,
            waiting: HashMap::new(),
            flight: None,
            watch: None,
            connections,
            trouble: None,
            stats: Stats::default(),
        }
    }

    /// Runs until all callers are gone and all their operations have ended.
    pub(crate) async fn run(mut self) -> Stats {
        let mut open = true;
        loop {
            while let Ok(call) = self.calls.try_recv() {
                self.take(call);
            }
            self.notice_connection();
            let until = match self.committer.poll(self.started.elapsed()) {
                Step::Finished(all) => {
                    self.deliver(all);
                    continue;
                }
                Step::Watch { from } => {
                    self.stats.watches += 1;
                    self.watch = Some(self.kv.watch(self.key.clone(), from));
                    continue;
                }
                Step::StopWatch => {
                    self.watch = None;
                    continue;
                }
                Step::Send(request) => {
                    self.stats.swaps += u64::from(matches!(request, StoreRequest::Swap { .. }));
                    let (kv, key) = (Arc::clone(&self.kv), self.key.clone());
                    self.flight = Some(Box::pin(perform(kv, key, request, self.connections)));
                    continue;
                }
                Step::Wait(at) => self.started.checked_add(at),
                Step::Idle => None,
            };
            if !open && self.committer.pending() == 0 {
                return self.stats;
            }
            tokio::select! {
                reply = next_reply(&mut self.flight) => {
                    self.flight = None;
                    self.report(reply);
                }
                call = self.calls.recv(), if open => match call {
                    Some(call) => self.take(call),
                    None => open = false,
                },
                change = next_change(&mut self.watch) => self.tell(change),
                () = wait(until) => {}
            }
        }
    }

    fn take(&mut self, call: Call<R>) {
        match call {
            Call::Submit { operation, deadline, done } if !done.is_closed() => {
                let deadline = deadline.saturating_duration_since(self.started);
                self.waiting.insert(self.committer.submit(operation, deadline), done);
            }
            // The caller no longer waits.
            Call::Submit { .. } => {}
            Call::Abandon(outcome) => self.committer.abandon(outcome),
            Call::Show(function) => function(&mut self.committer),
        }
    }

    /// Hands out the outcomes of ended operations.
    fn deliver(&mut self, finished: Vec<Finished<R>>) {
        for Finished { ticket, outcome } in finished {
            let Some(done) = self.waiting.remove(&ticket) else { continue };
            if let Err(unwanted) = done.send(Ended { outcome, trouble: self.trouble.clone() }) {
                self.committer.abandon(unwanted.outcome);
            }
        }
    }

    fn report(&mut self, reply: Result<Reply, Trouble>) {
        self.notice_connection();
        let now = self.started.elapsed();
        match reply {
            Ok(Reply { header, found }) => {
                self.stats.conflicts += u64::from(matches!(found, Found::Other(_)));
                let answer = match &found {
                    Found::Expected => {
                        self.trouble = None;
                        Answer::Held
                    }
                    Found::Other(current) | Found::Read(current) => Answer::Current(current.as_ref().map(key_value)),
                };
                self.committer.handle(Event::Answered { header, answer }, now);
            }
            Err(Trouble::Refused(message)) => {
                self.committer.handle(Event::Refused(&message), now);
                self.trouble = Some(message);
            }
            Err(trouble @ (Trouble::Unknown(_) | Trouble::Reconnected)) => {
                self.stats.unknown += 1;
                self.trouble = Some(trouble.to_string());
                self.committer.handle(Event::Unknown, now);
            }
        }
    }

    /// Reports a new connection to the committer before any answer from it. A swap is not sent over a connection that
    /// was not reported.
    fn notice_connection(&mut self) {
        let connections = self.kv.connections();
        if connections != self.connections {
            self.connections = connections;
            self.committer.handle(Event::Reconnected, self.started.elapsed());
            self.watch = None;
        }
    }

    fn tell(&mut self, change: Option<Change>) {
        self.notice_connection();
        let now = self.started.elapsed();
        let event = match &change {
            // Without a watch, the message is from one over an old connection.
            _ if self.watch.is_none() => return,
            Some(Change::Put(stored)) => Event::Watched(commit::Change::Put(key_value(stored))),
            Some(Change::Delete(revision)) => Event::Watched(commit::Change::Delete { revision: *revision }),
            None => {
                self.watch = None;
                Event::WatchFailed
            }
        };
        self.committer.handle(event, now);
    }
}

/// Performs a request of the committer as a transaction or a read.
async fn perform(kv: Arc<dyn Kv>, key: String, request: StoreRequest, over: u64) -> Result<Reply, Trouble> {
    let (mut when, mut then) = (Vec::new(), Vec::new());
    let over = matches!(request, StoreRequest::Swap { .. }).then_some(over);
    match request {
        StoreRequest::Read => {
            let (header, found) = kv.list(key, None).await?;
            return Ok(Reply { header, found: Found::Read(found.into_iter().next()) });
        }
        StoreRequest::Swap { guard: state, value, witness, services_unchanged_since: _, look } => {
            when.extend(guard(&key, state));
            when.extend(look.map(|look| Condition::new(kv::look(&key, look), Field::Version, Op::Greater, 0)));
            then.push(Write::Put(key.clone(), value));
            match witness {
                Witness::Keep => {}
                Witness::Put => then.push(Write::Mark { key: kv::witness(&key), temporary: false }),
                Witness::Delete => then.push(Write::Delete(kv::witness(&key))),
            }
        }
        StoreRequest::Confirm { guard: state } => when.extend(guard(&key, state)),
        // An edit by hand needs it; there are none here.
        StoreRequest::ReadAt { .. } => unreachable!("nothing is edited by hand"),
    }
    let answer = kv.txn(Txn { when, then, or_read: Some(key), over }).await?;
    let found = if answer.held { Found::Expected } else { Found::Other(answer.found) };
    Ok(Reply { header: answer.header, found })
}

fn guard(key: &str, state: KeyState) -> [Condition; 3] {
    [
        Condition::new(key, Field::ModRevision, Op::Equal, state.mod_revision),
        Condition::new(key, Field::Version, Op::Equal, state.version),
        Condition::new(key, Field::CreateRevision, Op::Equal, state.create_revision),
    ]
}

fn key_value(stored: &Stored) -> KeyValue<'_> {
    KeyValue { state: stored.state, value: &stored.value }
}

async fn next_reply(flight: &mut Option<Flight>) -> Result<Reply, Trouble> {
    match flight {
        Some(flight) => flight.await,
        None => pending().await,
    }
}

async fn next_change(watch: &mut Option<mpsc::Receiver<Change>>) -> Option<Change> {
    match watch {
        Some(watch) => watch.recv().await,
        None => pending().await,
    }
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}
