//! The task that owns a committer: it carries operations to it, requests to etcd, and answers back.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{self, Answer, Finished, KeyValue, Operation, Outcome, Request, Step, Ticket};
use rangekeeper::{Committer, Range};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::etcd::{Change, EtcdKey, Found, Reply, Stored, Trouble};

/// How long the release of what nobody waited for may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

/// An operation of a caller.
pub(crate) struct Call<R: Range> {
    pub(crate) operation: Operation<R>,
    pub(crate) deadline: Instant,
    /// `None` if nobody wants to know how it ends.
    pub(crate) done: Option<oneshot::Sender<Ended<R>>>,
}

/// How it ended.
pub(crate) struct Ended<R: Range> {
    pub(crate) outcome: Outcome<R>,
    /// Why a request to etcd failed, if none has succeeded since.
    pub(crate) trouble: Option<String>,
}

impl<R: Range> Ended<R> {
    /// What releases the values that it allocated for somebody who did not wait.
    pub(crate) fn undo(self) -> Vec<Call<R>> {
        let Outcome::Allocated { values, revision, .. } = self.outcome else { return Vec::new() };
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        let release = |value| Call {
            operation: Operation::Release { value, anchor: revision, oldest: revision },
            deadline,
            done: None,
        };
        values.into_iter().map(release).collect()
    }
}

/// What a store has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// How many compare-and-swaps were sent.
    pub swaps: u64,
    /// How many of the requests found another state than was expected.
    pub conflicts: u64,
    /// How many of the requests were not answered.
    pub unknown: u64,
    /// How often the key was watched.
    pub watches: u64,
}

type Flight = Pin<Box<dyn Future<Output = Result<Reply, Trouble>> + Send>>;

pub(crate) struct Driver<R: Range> {
    key: EtcdKey,
    committer: Committer<R, Xoshiro256PlusPlus>,
    /// The committer's times count from here.
    started: Instant,
    calls: mpsc::UnboundedReceiver<Call<R>>,
    waiting: HashMap<Ticket, oneshot::Sender<Ended<R>>>,
    flight: Option<Flight>,
    watch: Option<mpsc::Receiver<Change>>,
    /// How many connections the committer knows of.
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
        key: EtcdKey,
        committer: Committer<R, Xoshiro256PlusPlus>,
        started: Instant,
        calls: mpsc::UnboundedReceiver<Call<R>>,
    ) -> Self {
        let connections = key.connections();
        Self {
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

    /// Runs until there are no callers any more and all that they wanted has ended.
    pub(crate) async fn run(mut self) -> Stats {
        let mut open = true;
        loop {
            while let Ok(call) = self.calls.try_recv() {
                self.submit(call);
            }
            let step = self.committer.poll(self.started.elapsed());
            self.deliver();
            if !open && self.committer.pending() == 0 {
                return self.stats;
            }
            self.follow_history();
            let until = match step {
                Step::Send(request) => {
                    self.stats.swaps += u64::from(matches!(request, Request::Swap { .. }));
                    self.flight = Some(Box::pin(self.key.clone().perform(request)));
                    continue; // the next poll tells whose deadline comes first
                }
                Step::WaitUntil(at) => self.started.checked_add(at),
                Step::Idle => None,
            };
            tokio::select! {
                reply = next_reply(&mut self.flight) => {
                    self.flight = None;
                    self.report(reply);
                    // Whoever gets an answer may join the next swap.
                    self.deliver();
                }
                call = self.calls.recv(), if open => match call {
                    Some(call) => self.submit(call),
                    None => open = false,
                },
                change = next_change(&mut self.watch) => self.tell(change),
                () = wait(until) => {}
            }
        }
    }

    fn submit(&mut self, call: Call<R>) {
        if call.done.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return; // the caller does not wait any more
        }
        let deadline = call.deadline.saturating_duration_since(self.started);
        let ticket = self.committer.submit(call.operation, deadline);
        if let Some(done) = call.done {
            self.waiting.insert(ticket, done);
        }
    }

    /// Hands out what has ended. What nobody waits for any more is released.
    fn deliver(&mut self) {
        for Finished { ticket, outcome } in self.committer.take_finished() {
            let Some(done) = self.waiting.remove(&ticket) else { continue };
            if let Err(unwanted) = done.send(Ended { outcome, trouble: self.trouble.clone() }) {
                unwanted.undo().into_iter().for_each(|release| self.submit(release));
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
                self.committer.answered(now, header, answer);
            }
            Err(Trouble::Refused(message)) => {
                self.committer.refused(now, &message);
                self.trouble = Some(message);
            }
            Err(Trouble::Unknown(message)) => {
                self.stats.unknown += 1;
                self.trouble = Some(message);
                self.committer.unknown(now);
            }
        }
    }

    /// Tells the committer of a new connection before anything that came over it. The client connects when a request
    /// needs it, so that this may be a swap: its guard and the answer's header protect it.
    fn notice_connection(&mut self) {
        let connections = self.key.connections();
        if connections != self.connections {
            self.connections = connections;
            self.committer.reconnected();
            self.watch = None;
        }
    }

    /// Starts or ends the watch of the key.
    fn follow_history(&mut self) {
        match self.committer.watch_from() {
            None => self.watch = None,
            Some(from) if self.watch.is_none() => {
                self.stats.watches += 1;
                self.watch = Some(self.key.watch(from));
            }
            Some(_) => {}
        }
    }

    fn tell(&mut self, change: Option<Change>) {
        self.notice_connection();
        match change {
            // Without a watch, it was one over an old connection.
            _ if self.watch.is_none() => {}
            Some(Change::Put(stored)) => self.committer.watched(commit::Change::Put(key_value(&stored))),
            Some(Change::Delete(revision)) => self.committer.watched(commit::Change::Delete { revision }),
            None => {
                self.watch = None;
                self.committer.watch_failed();
            }
        }
    }
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
