//! Servers, and what lies between them and the store: requests, answers, watches, connections.

use std::fmt::Write;
use std::num::NonZeroU8;

use rangekeeper::commit::{Answer, Change, Committer, KeyValue, Passes, Request, Step};

use crate::faults::ShellFault;
use crate::server::{Kind, Pass, Sightings, Submitted};
use crate::store::{Reply, Writer};

use super::{Event, MS, Sent, State, World, duration, microseconds};

impl World {
    pub(super) fn latency(&mut self) -> u64 {
        self.random.between(MS / 4, 3 * MS)
    }

    /// Lets a server's committer work until it waits for something.
    pub(super) fn drive(&mut self, server: usize) {
        loop {
            for finished in self.servers[server].committer.take_finished() {
                self.finished(server, finished.ticket, finished.outcome);
            }
            self.keep_watch(server);
            match self.servers[server].committer.poll(duration(self.now)) {
                Step::Send(request) => self.send(server, request),
                Step::WaitUntil(until) => {
                    let until = microseconds(until).max(self.now + 1);
                    if self.servers[server].poll_at != until {
                        self.servers[server].poll_at = until;
                        self.at(until, Event::Poll(server));
                    }
                    break;
                }
                Step::Idle => break,
            }
        }
        // What a poll ended.
        let finished = self.servers[server].committer.take_finished();
        if !finished.is_empty() {
            for finished in finished {
                self.finished(server, finished.ticket, finished.outcome);
            }
            self.drive(server);
        }
    }

    pub(super) fn send(&mut self, server: usize, mut request: Request) {
        if let Request::Swap { services_unchanged_since: Some(revision), .. } = &mut request
            && ShellFault::ServicesGuardedLate.is_on()
        {
            *revision = self.servers[server].told.max(*revision);
        }
        self.requests += 1;
        let id = self.requests;
        let incarnation = self.servers[server].incarnation;
        self.servers[server].flight = Some(id);
        self.servers[server].kind = match &request {
            Request::Read | Request::Confirm { .. } => Kind::Look,
            Request::Swap { .. } => Kind::Swap,
            Request::Fence { sidecar } if sidecar.mod_revision == 0 => Kind::Creation,
            Request::Fence { sidecar } => Kind::Fence(sidecar.value),
        };
        match &request {
            Request::Read => note!(self, "server {server} reads ({id})"),
            Request::Fence { sidecar } => note!(self, "server {server} fences r{} ({id})", sidecar.mod_revision),
            Request::Confirm { guard } => note!(self, "server {server} confirms r{} ({id})", guard.mod_revision),
            Request::Swap { guard, value, services_unchanged_since, sidecar } => note!(
                self,
                "server {server} swaps r{} for {:b} ({id}), if no Service since {services_unchanged_since:?}, sidecar {:?}",
                guard.mod_revision,
                crate::store::mask_of(value),
                sidecar.map(|put| put.mod_revision),
            ),
        }
        let (there, back) = (self.latency(), self.latency());
        let patience = self.random.pick(&[30 * MS, 30 * MS, self.interval / 4, 2 * self.grace]);
        let trouble = !self.calm && self.random.percent(self.trouble);
        let (apply, then) = match self.random.below(if trouble { 6 } else { 1 }) {
            // The request is lost, or its answer.
            1 => (None, None),
            2 => (Some(there), None),
            // It comes late, maybe after it was given up; or its answer does.
            3 => (Some(there + self.random.below(self.interval)), Some(back)),
            4 => (Some(there), Some(back + self.random.below(self.grace + self.interval))),
            5 => (Some(there + self.random.below(60 * MS)), Some(back)),
            _ => (Some(there), Some(back)),
        };
        let epoch = self.store.epoch;
        if let Some(delay) = apply {
            let told = self.servers[server].told;
            let repairs = self.servers[server].open.iter().any(|open| matches!(open.what, Submitted::Repair));
            let mut setting = self.servers[server].open.iter().filter(|open| open.what.sets());
            let sole = setting.next().map(|open| open.ticket).filter(|_| setting.next().is_none());
            let sent = Sent { server, incarnation, id, epoch, request, sole, repairs, is_double: false, told, then };
            // Something on the way sends it twice, and passes on the second answer only. Without a sidecar that cannot be
            // told from a conflict.
            if trouble && self.servers[server].config.sidecar && self.random.percent(15) {
                let second = Sent { is_double: true, ..sent };
                let first = Sent { then: None, ..second.clone() };
                self.after(delay, Event::Apply(Box::new(first)));
                let more = self.random.below(2 * MS);
                self.after(delay + more, Event::Apply(Box::new(second)));
            } else {
                self.after(delay, Event::Apply(Box::new(sent)));
            }
        }
        if trouble || apply.is_none() || then.is_none() {
            self.after(patience, Event::GiveUp { server, incarnation, id });
        }
    }

    pub(super) fn is_under_way(&self, server: usize, incarnation: u32, id: u32) -> bool {
        let server = &self.servers[server];
        server.up && server.incarnation == incarnation && server.flight == Some(id)
    }

    pub(super) fn apply(&mut self, sent: Sent) {
        let Sent { server, incarnation, id, epoch, request, sole, repairs, is_double, told, then } = sent;
        if epoch != self.store.epoch {
            // It went to a store that is gone.
            return self.after(30 * MS, Event::GiveUp { server, incarnation, id });
        }
        let is_swap = matches!(request, Request::Swap { .. });
        let is_fence = matches!(request, Request::Fence { .. });
        let refusals = if is_fence { 25 } else { 2 };
        let is_refused = self.trouble > 0
            && !self.calm
            && !is_double
            && self.random.percent(refusals)
            && self.is_under_way(server, incarnation, id);
        // etcd carries out a write that exceeds its quota, and then says that there is no space.
        let is_performed = !is_refused || ((is_swap || is_fence) && self.random.percent(50));
        if is_performed {
            let reply = self.store.perform(request, Writer::Server(server), self.servers[server].name);
            if is_swap && reply.held {
                note!(self, "swap {id} of server {server} is written: {:b}", self.store.mask());
                if let Some(version) = self.store.log.last_mut() {
                    // A server that starts anew begins anew with its tickets.
                    version.sole = sole.filter(|_| self.servers[server].incarnation == incarnation);
                    version.request = id;
                }
                self.check_creation(server, repairs, told);
                self.wrote(Writer::Server(server));
            }
            if let Some(delay) = then.filter(|_| !is_refused) {
                self.after(delay, Event::Reply { server, incarnation, id, epoch, reply });
            }
        }
        if is_refused {
            note!(self, "request {id} is refused");
            let one = &mut self.servers[server];
            one.flight = None;
            if one.kind == Kind::Swap {
                self.lose(server, id);
            } else {
                // Maybe that which was to tell.
                one.decides = false;
            }
            self.servers[server].committer.refused(duration(self.now), "no space");
            self.drive(server);
        }
    }

    pub(super) fn reply(&mut self, server: usize, incarnation: u32, id: u32, reply: &Reply) {
        if !self.is_under_way(server, incarnation, id) {
            return;
        }
        note!(self, "server {server} is answered ({id}), {}", if reply.held { "held" } else { "current" });
        let one = &mut self.servers[server];
        one.flight = None;
        one.told = reply.header.revision;
        if let (Kind::Fence(value), Some(sidecar)) = (one.kind, &reply.sidecar) {
            self.report.fenced += u32::from(*sidecar.value == value);
        }
        let key = reply.key.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
        let sidecar = reply.sidecar.as_ref().map(|key| KeyValue { state: key.state, value: &key.value });
        let answer = if reply.held { Answer::Held } else { Answer::Current { key, sidecar } };
        one.committer.answered(duration(self.now), reply.header, answer);
        if ShellFault::RetriesCount.is_on()
            && !reply.held
            && let Pass::Repairing { ticket, .. } = one.pass
        {
            one.committer.cancel(ticket);
            one.pass = Pass::None;
            one.repeats = true;
            self.after(0, Event::Pass(server));
        }
        self.drive(server);
    }

    /// Starts, moves on or ends the watch of a server's key.
    pub(super) fn keep_watch(&mut self, server: usize) {
        let from = self.servers[server].committer.watch_from();
        match (from, self.servers[server].watch) {
            (None, _) => self.servers[server].watch = None,
            (Some(_), Some(_)) => {}
            (Some(from), None) => {
                self.requests += 1;
                let stream = self.requests;
                self.servers[server].watch = Some((stream, from));
                self.servers[server].is_watch_due = true;
                let delay = self.watch_delay();
                self.after(delay, Event::Watch { server, stream });
            }
        }
    }

    pub(super) fn watch_delay(&mut self) -> u64 {
        let slow = !self.calm && self.random.percent(20);
        if slow { self.random.below(300 * MS) } else { self.latency() }
    }

    /// A watch tells what it has.
    pub(super) fn watch(&mut self, server: usize, stream: u32) {
        let Some((_, from)) = self.servers[server].watch.filter(|(number, _)| *number == stream) else { return };
        self.servers[server].is_watch_due = false;
        if from <= self.store.compacted {
            note!(self, "the watch of server {server} from r{from} is compacted");
            self.servers[server].watch = None;
            self.servers[server].committer.watch_failed();
            return self.drive(server);
        }
        let first = self.store.log.partition_point(|version| version.revision < from);
        let mut next = from;
        for at in first..self.store.log.len() {
            let version = &self.store.log[at];
            next = version.revision + 1;
            if !self.calm && self.trouble > 0 && self.random.percent(3) {
                note!(self, "the watch of server {server} skips r{}", next - 1);
                continue;
            }
            note!(self, "the watch of server {server} tells r{}", next - 1);
            let version = &self.store.log[at];
            let change = match &version.key {
                Some(key) => Change::Put(KeyValue { state: key.state, value: &key.value }),
                None => Change::Delete { revision: version.revision },
            };
            self.servers[server].committer.watched(change);
        }
        self.servers[server].watch = Some((stream, next));
        if next > from {
            self.drive(server);
        }
    }

    /// Wakes the watches after a change of the key.
    pub(super) fn wake_watches(&mut self) {
        for server in 0..self.servers.len() {
            let one = &mut self.servers[server];
            if let Some((stream, _)) = one.watch
                && !std::mem::replace(&mut one.is_watch_due, true)
            {
                let delay = self.watch_delay();
                self.after(delay, Event::Watch { server, stream });
            }
        }
    }

    pub(super) fn disconnect(&mut self, server: usize) {
        note!(self, "the connection of server {server} is made anew");
        // An answer may be on its way already.
        if self.random.percent(60) && self.servers[server].flight.is_some() {
            self.give_up(server);
        }
        self.servers[server].committer.reconnected();
        self.drive(server);
    }

    /// The request under way has no answer.
    pub(super) fn give_up(&mut self, server: usize) {
        let one = &mut self.servers[server];
        let Some(id) = one.flight.take() else { return };
        let is_swap = one.kind == Kind::Swap;
        one.committer.unknown(duration(self.now));
        if is_swap {
            self.lose(server, id);
        }
    }

    /// Nobody has told what became of a swap.
    fn lose(&mut self, server: usize, swap: u32) {
        if self.servers[server].config.sidecar {
            self.unanswered.push(swap);
            self.report.unanswered += 1;
            if let Some(name) = self.doomed.take_if(|name| self.servers[server].name == *name) {
                let delay = self.latency();
                self.after(delay, Event::DeleteSidecar(name));
            }
        }
    }

    pub(super) fn crash(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        note!(self, "server {server} crashes");
        let one = &mut self.servers[server];
        one.up = false;
        one.incarnation += 1;
        (one.flight, one.watch, one.pass, one.poll_at) = (None, None, Pass::None, u64::MAX);
        one.open.clear();
        for claim in &mut self.claims {
            // Some were about to write the Service, which happens all the same.
            if claim.server == server && claim.state == State::Pending && self.random.percent(50) {
                claim.state = State::Ended;
            }
        }
        let delay = self.random.below(self.interval);
        self.after(delay, Event::Start(server));
    }

    pub(super) fn start(&mut self, server: usize) {
        if self.servers[server].up {
            return;
        }
        note!(self, "server {server} starts");
        let rng = self.random.fork();
        let one = &mut self.servers[server];
        let committer = Committer::new(self.range, one.config, rng);
        one.up = true;
        // A swap of the server that crashed may come yet.
        one.decides = false;
        one.committer = committer;
        one.passes = Passes::new(NonZeroU8::new(3).expect("not zero"), duration(self.interval));
        one.sightings = [Sightings::default(); 64];
        one.last_pass = None;
    }
}
