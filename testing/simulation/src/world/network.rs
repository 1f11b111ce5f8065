//! The requests of servers to the store, and its answers.

use std::fmt::Write;

use rangekeeper::commit::{self, Answer, Finished, KeyValue, Step, StoreRequest};

use crate::faults::ShellFault;
use crate::server::{Job, Open, Pass, Submitted};
use crate::store::{Mask, Past, Reply, Version, Writer};

use super::event::{Event, Sent};
use super::{MS, World, content, duration, microseconds};

/// What the edits among these operations may clear.
fn by_hand(open: &[Open], which: impl Fn(&Job) -> bool) -> Mask {
    let clears = open.iter().filter_map(|open| match &open.what {
        Submitted::Edit(job) if !job.dry_run && which(job) => Some(job.clear),
        _ => None,
    });
    clears.fold(0, |all, one| all | one)
}

impl World {
    pub(super) fn latency(&mut self) -> u64 {
        self.random.between(MS / 4, 3 * MS)
    }

    /// Lets a server's committer work until it waits for something.
    pub(super) fn drive(&mut self, server: usize) {
        let now = self.local(server);
        loop {
            match self.servers[server].committer.poll(duration(now)) {
                Step::Finished(all) => {
                    for Finished { ticket, outcome } in all {
                        self.finished(server, ticket, outcome);
                    }
                }
                Step::Watch { from } => self.start_watch(server, from),
                Step::StopWatch => self.servers[server].watch = None,
                Step::Send(request) => self.send(server, request),
                Step::Wait(until) => {
                    let until = microseconds(until).max(now + 1) + self.servers[server].lag;
                    if self.servers[server].poll_at != until {
                        self.servers[server].poll_at = until;
                        self.at(until, Event::Poll(server));
                    }
                    break;
                }
                Step::Idle => break,
            }
        }
    }

    /// Reports an event to a server's committer.
    pub(super) fn report(&mut self, server: usize, event: commit::Event<'_>) {
        let now = duration(self.local(server));
        self.servers[server].committer.handle(event, now);
    }

    fn send(&mut self, server: usize, mut request: StoreRequest) {
        if let StoreRequest::Swap { services_unchanged_since: Some(revision), .. } = &mut request
            && ShellFault::ServicesGuardedLate.is_on()
        {
            *revision = self.servers[server].reported.max(*revision);
        }
        self.sent += 1;
        let id = self.sent;
        let one = &mut self.servers[server];
        one.flight = Some(id);
        one.is_swap = matches!(request, StoreRequest::Swap { .. });
        match &request {
            StoreRequest::Read => note!(self, "server {server} reads ({id})"),
            StoreRequest::ReadAt { revision } => note!(self, "server {server} reads what was at r{revision} ({id})"),
            StoreRequest::Confirm { guard } => note!(self, "server {server} confirms r{} ({id})", guard.mod_revision),
            StoreRequest::Swap { guard, value, services_unchanged_since, .. } => note!(
                self,
                "server {server} replaces r{} by {:b} ({id}), if no Service since {services_unchanged_since:?}",
                guard.mod_revision,
                self.store.layout.mask_of_value(value),
            ),
        }
        let sent = self.sent(server, id, request);
        let (there, back) = (self.latency(), self.latency());
        let patience = self.random.pick(&[30 * MS, 30 * MS, self.interval / 4, 2 * self.grace]);
        let trouble = !self.calm && self.random.percent(self.trouble);
        let lost = self.loses_next.take_if(|(next, _)| *next == server);
        let patience = lost.map_or(patience, |(_, patience)| patience);
        let (apply, then) = match self.random.below(if trouble { 6 } else { 1 }) {
            _ if lost.is_some() => (None, None),
            // The request is lost, or its answer.
            1 => (None, None),
            2 => (Some(there), None),
            // It comes late, maybe after the server stopped waiting for it; or its answer does.
            3 => (Some(there + self.random.below(self.interval)), Some(back)),
            4 => (Some(there), Some(back + self.random.below(self.grace + self.interval))),
            5 => (Some(there + self.random.below(60 * MS)), Some(back)),
            _ => (Some(there), Some(back)),
        };
        let incarnation = sent.incarnation;
        if let Some(delay) = apply {
            self.after(delay, Event::Apply(Box::new(Sent { then, ..sent })));
        }
        if trouble || apply.is_none() || then.is_none() {
            self.after(patience, Event::GiveUp { server, incarnation, id });
        }
    }

    /// A request with what the oracle has to know of its server later.
    fn sent(&mut self, server: usize, id: u32, request: StoreRequest) -> Sent {
        let (at, is_aware) = ((self.now, self.local(server)), !self.is_misled(server));
        let one = &mut self.servers[server];
        let mut setting = one.open.iter().filter(|open| open.what.sets());
        let sole = setting.next().map(|open| open.ticket).filter(|_| setting.next().is_none());
        let (known_since, is_whole) = match &request {
            StoreRequest::Swap { guard, .. } => {
                let holds_range = |version: &Version| content(&self.text, version) == super::Content::Range;
                one.knowledge.since(&self.store, guard.mod_revision, self.limits, holds_range)
            }
            _ => (0, false),
        };
        Sent {
            server,
            incarnation: one.incarnation,
            id,
            epoch: self.store.epoch,
            request,
            sole,
            is_idle: one.open.iter().all(|open| !open.what.sets()),
            repairs: one.open.iter().any(|open| matches!(open.what, Submitted::Repair)),
            creates: one.open.iter().any(|open| matches!(open.what, Submitted::Create)),
            leaks: match one.pass {
                Pass::Repairing { clears, look: Some(look), .. } if !one.lists_elsewhere => (clears, look.revision),
                _ => (0, 0),
            },
            by_hand: by_hand(&one.open, |_| true),
            without_history: by_hand(&one.open, |job| !job.needs_history()),
            reported: one.reported,
            reported_key: one.reported_key,
            reached: one.reached,
            at,
            known_since,
            is_whole: is_whole && !one.has_gaps,
            duplicates: one.duplicates,
            is_aware,
            then: None,
        }
    }

    pub(super) fn is_under_way(&self, server: usize, incarnation: u32, id: u32) -> bool {
        self.is_alive(server, incarnation) && self.servers[server].flight == Some(id)
    }

    pub(super) fn apply(&mut self, mut sent: Sent) {
        let Sent { server, incarnation, id, epoch, .. } = sent;
        if epoch < self.connected_since {
            // It went to a store that is gone.
            return self.after(30 * MS, Event::GiveUp { server, incarnation, id });
        }
        let request = std::mem::replace(&mut sent.request, StoreRequest::Read);
        let is_swap = matches!(request, StoreRequest::Swap { .. });
        let is_refused =
            self.trouble > 0 && !self.calm && self.random.percent(2) && self.is_under_way(server, incarnation, id);
        // etcd performs a write that exceeds its quota, and then reports that there is no space.
        let is_performed = !is_refused || (is_swap && self.random.percent(50));
        if is_performed {
            let reply = self.store.perform(request, Writer::Server(server));
            if is_swap && reply.held {
                note!(self, "compare-and-swap {id} of server {server} is written: {:b}", self.store.mask());
                let is_bound = self.is_bound(&sent);
                self.check_cleaned(&sent);
                if let Some(version) = self.store.log.last_mut() {
                    // A server that starts again begins its tickets again.
                    version.sole = sent.sole.filter(|_| self.servers[server].incarnation == incarnation);
                    version.sent = sent.at;
                    version.is_misled = !is_bound;
                    version.by_hand = sent.by_hand;
                }
                if is_bound {
                    self.check_creation(&sent);
                }
                self.wrote(Writer::Server(server), Some(&sent));
            }
            if let Some(delay) = sent.then.filter(|_| !is_refused) {
                let (epoch, reached) = (self.store.epoch, sent.reached);
                self.after(delay, Event::Reply { server, incarnation, id, epoch, reached, reply });
            }
        }
        if is_refused {
            note!(self, "request {id} is refused");
            let local = self.local(server);
            let one = &mut self.servers[server];
            one.flight = None;
            // Its own releases may have been among what was refused.
            one.owed.clear();
            one.refused = local;
            self.report(server, commit::Event::Refused("no space"));
            self.drive(server);
        }
    }

    pub(super) fn reply(
        &mut self,
        server: usize,
        incarnation: u32,
        id: u32,
        (reached, epoch): (u64, u32),
        reply: &Reply,
    ) {
        if !self.is_under_way(server, incarnation, id) {
            return;
        }
        note!(self, "server {server} is answered ({id}), {}", if reply.held { "held" } else { "current" });
        self.learn(server, reached, epoch, reply);
        let one = &mut self.servers[server];
        one.flight = None;
        let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
        let answer = match reply.past {
            Some(Past::Compacted) => {
                self.report(server, commit::Event::Compacted);
                return self.drive(server);
            }
            Some(Past::Known) => Answer::Past(key),
            None if reply.held => Answer::Held,
            None => Answer::Current(key),
        };
        self.report(server, commit::Event::Answered { header: reply.header, answer });
        let one = &mut self.servers[server];
        if ShellFault::RetriesCount.is_on()
            && !reply.held
            && let &Pass::Repairing { ticket, .. } = &one.pass
        {
            one.committer.cancel(ticket);
            one.pass = Pass::None;
            // It counts as a pass that comes in time.
            (one.repeats, one.ahead) = (true, one.ahead + one.pace.grace.max(one.pace.interval));
            self.after(0, Event::Pass(server));
        }
        self.drive(server);
        self.servers[server].written = None;
    }

    /// The request under way has no answer.
    pub(super) fn give_up(&mut self, server: usize) {
        if self.servers[server].flight.take().is_some() {
            self.report(server, commit::Event::Unknown);
        }
    }
}
