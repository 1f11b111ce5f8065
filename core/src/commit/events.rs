//! What the committer makes of the events that the shell reports.

use std::time::Duration;

use rand_core::Rng;

use crate::range::Range;

use super::batch::Batch;
use super::committer::Committer;
use super::completion::{self, Written};
use super::flight::Flight;
use super::history::Adopted;
use super::request::{Answer, Change, Event, Header, KeyState};

impl<R: Range, G: Rng> Committer<R, G> {
    /// Takes in an event.
    pub fn handle(&mut self, event: Event<'_>, now: Duration) {
        match event {
            Event::Answered { header, answer } => self.answered(now, header, answer),
            Event::Unknown => self.failed(now, None),
            Event::Refused(reason) => self.failed(now, Some(reason)),
            Event::Compacted => {
                if let Some(Flight { past: Some(revision), .. }) = self.flight.take() {
                    self.queue.has_asked(revision);
                }
            }
            Event::Reconnected => self.history.connection.reconnected(),
            Event::Watched(change) => self.watched(change),
            Event::WatchEnded => self.is_watching = false,
            Event::WatchFailed => {
                self.is_watching = false;
                self.history.watch_failed();
            }
        }
    }

    fn answered(&mut self, now: Duration, header: Header, answer: Answer<'_>) {
        let Some(flight) = self.flight.take() else { return };
        let is_same_store = self.identify(now, header, flight.reached, answer);
        match (flight.batch, answer) {
            (Some(batch), Answer::Held) if is_same_store => {
                self.pacing.answered();
                if !flight.is_swap {
                    return self.confirmed(now, header.revision, batch);
                }
                self.pacing.won(now.saturating_sub(flight.sent), now, &mut self.timers);
                self.committed(flight.sent, now, header.revision, batch);
            }
            (Some(batch), Answer::Held) => {
                self.history.connection.require_read();
                completion::put_back(batch, flight.is_swap, &mut self.queue);
            }
            (None, Answer::Past(key)) => {
                if let Some(revision) = flight.past {
                    self.queue.has_asked(revision);
                }
                if let Some(key) = key.filter(|_| is_same_store) {
                    self.history.adopt_past(key);
                }
            }
            // Nobody asked for that.
            (None, Answer::Held) => self.history.connection.require_read(),
            (Some(batch), Answer::Past(_)) => {
                self.history.connection.require_read();
                completion::put_back(batch, flight.is_swap, &mut self.queue);
            }
            (batch, Answer::Current(key)) => {
                if let Some(batch) = batch {
                    self.pacing.answered();
                    if completion::conflict(batch, key.map_or(KeyState::default(), |key| key.state), &mut self.queue) {
                        self.pacing.lost(now, &mut self.timers, &mut self.rng);
                    }
                }
                let adopted = self.history.adopt(header, key, &mut self.protection);
                if adopted == Adopted::Foreign {
                    self.pacing.contended(now, &mut self.timers);
                }
                if adopted != Adopted::Unchanged {
                    completion::restore_lost(&self.history, &mut self.protection, &mut self.queue);
                }
                self.resolve_unknown();
            }
        }
        self.queue.end_releases_of_another_store(header.revision, flight.asked);
        if !is_same_store {
            self.queue.disown_passes();
        }
    }

    /// The request has no answer, or the store refuses it for this reason.
    fn failed(&mut self, now: Duration, refusal: Option<&str>) {
        let Some(flight) = self.flight.take() else { return };
        self.pacing.failed(now, &mut self.timers, &mut self.rng);
        self.history.connection.require_read();
        match (flight.batch, refusal) {
            (Some(batch), Some(message)) => completion::refuse(batch, flight.is_swap, message, &mut self.queue),
            (None, Some(message)) => self.queue.refuse_all(message),
            (batch, None) => {
                batch.into_iter().for_each(|batch| completion::put_back(batch, flight.is_swap, &mut self.queue));
            }
        }
    }

    fn watched(&mut self, change: Change<'_>) {
        if self.history.watched(change, self.flight.is_some(), &mut self.protection) {
            self.resolve_unknown();
            completion::restore_lost(&self.history, &mut self.protection, &mut self.queue);
        }
    }

    /// Returns whether it is still the same store, as it was; else all that was known is forgotten.
    fn identify(&mut self, now: Duration, header: Header, reached: u64, answer: Answer<'_>) -> bool {
        let is_new = self.history.connection.is_new();
        let is_same = self.history.answered(now, header, reached, answer);
        if is_new || !is_same {
            self.timers.begin_new_store(now, self.config.grace);
        }
        if !is_same {
            self.protection.change_store();
            self.resolve_unknown();
        }
        is_same
    }

    /// Decides what becomes of operations with an unknown outcome, as the key may have changed.
    fn resolve_unknown(&mut self) {
        self.queue.resolve_unknown(self.history.state());
    }

    /// A compare-and-swap was written, at this revision.
    fn committed(&mut self, sent: Duration, now: Duration, revision: u64, mut batch: Batch<R>) {
        self.protection.advance(now);
        // A watch may have reported it before, or even what came after.
        let is_known = self.history.changes().head().mod_revision >= revision;
        self.protection.cleared(&batch.effect.cleared, is_known);
        if let Some(next) = batch.next.take() {
            let changes = batch.effect.set.iter().chain(&batch.effect.cleared).copied();
            self.memory.keep(self.history.committed(revision, batch.state, next, changes));
            self.resolve_unknown();
            completion::restore_lost(&self.history, &mut self.protection, &mut self.queue);
        }
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        let written = Written::new(revision, sent, now, self.config.grace);
        written.end(batch, &mut self.queue, &mut self.history, &mut self.protection);
    }

    /// The state that a batch was evaluated on is confirmed, and the batch changes nothing.
    pub(super) fn confirmed(&mut self, now: Duration, revision: u64, batch: Batch<R>) {
        self.pacing.ended(batch.entries.len(), now, &mut self.timers);
        completion::confirm(batch, revision, &mut self.queue, &mut self.history);
    }
}
