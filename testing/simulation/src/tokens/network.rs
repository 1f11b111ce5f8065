//! The requests of servers, and what becomes of them on their way.

use std::fmt::Write as _;

use rangekeeper::commit::{self, Finished, Outcome, Step, StoreRequest, TokenRequest};

use super::row::{Asked, Got};
use super::{Event, MS, PATIENCE, World, duration};
use crate::faults::ShellFault;
use crate::violation::Invariant;

impl World {
    /// Lets a server work until it waits for something.
    pub(super) fn drive(&mut self, server: usize) {
        loop {
            let now = duration(self.now);
            match self.servers[server].committer.poll(now) {
                Step::Finished(all) => {
                    for Finished { ticket, outcome } in all {
                        // Those that the committer has submitted itself have no caller.
                        let Some((purpose, deadline)) = self.servers[server].open.remove(&ticket) else { continue };
                        match &outcome {
                            Outcome::Read(view) => note!(self, "server {server}: {purpose:?} at {}", view.revision),
                            outcome => note!(self, "server {server}: {purpose:?} ends: {outcome:?}"),
                        }
                        if self.now > deadline + 1 {
                            self.fail(Invariant::I6, format!("{purpose:?} has ended after {deadline}"));
                        }
                        self.ended(server, purpose, outcome);
                    }
                }
                Step::Send(request) => self.begin(server, request),
                Step::Watch { .. } => self.servers[server].committer.handle(commit::Event::WatchFailed, now),
                Step::StopWatch => {}
                Step::Wait(until) => {
                    let until = until.as_nanos().div_ceil(1000) as u64;
                    return self.poll_at(until.max(self.now + 1), server);
                }
                Step::Idle => return,
            }
        }
    }

    fn begin(&mut self, server: usize, request: StoreRequest) {
        let asked = match self.servers[server].tokens.begin(&request) {
            TokenRequest::Get => Asked::Get,
            TokenRequest::Put { value, token } => Asked::Put(value.to_vec(), token),
            TokenRequest::None(event) => {
                return self.servers[server].committer.handle(event, duration(self.now));
            }
        };
        self.send(server, request, asked);
    }

    /// Sends a message of a request.
    fn send(&mut self, server: usize, request: StoreRequest, asked: Asked) {
        self.sent += 1;
        let id = self.sent;
        self.servers[server].flight = Some((id, request));
        let (there, back) = (self.latency(), self.latency());
        let trouble = !self.is_calm() && self.random.percent(self.trouble);
        // The message is lost, or its answer, or it comes late, or the client sends it again after it was carried out.
        let (apply, then) = match self.random.below(if trouble { 5 } else { 1 }) {
            1 => (None, None),
            2 => (Some(there), None),
            3 => (Some(there + self.random.below(3000 * MS)), Some(back)),
            4 => {
                self.after(there, Event::Apply { server, id, asked: asked.clone(), then: None });
                (Some(there + back), Some(back))
            }
            _ => (Some(there), Some(back)),
        };
        if let Some(delay) = apply {
            self.after(delay, Event::Apply { server, id, asked, then });
        }
        if trouble {
            self.after(PATIENCE, Event::Answer { server, id, got: None });
        }
    }

    /// The store carries out what it was asked.
    pub(super) fn apply(&mut self, server: usize, id: u32, asked: Asked, then: Option<u64>) {
        let before = self.row.mask();
        let got = self.row.perform(asked);
        let after = self.row.mask();
        if let Got::Stored(_) = got {
            note!(self, "server {server} has written {after:b} ({id})");
            self.report.cleared += (before & !after).count_ones();
            self.check_stored();
        }
        if let Some(delay) = then {
            self.after(delay, Event::Answer { server, id, got: Some(got) });
        }
    }

    pub(super) fn answer(&mut self, server: usize, id: u32, got: Option<Got>) {
        let now = duration(self.now);
        let one = &mut self.servers[server];
        // Else the server has given it up, or has started again.
        let Some((_, request)) = one.flight.take_if(|(flight, _)| *flight == id) else { return };
        match &got {
            None => one.committer.handle(commit::Event::Unknown, now),
            Some(Got::Stored(token)) => {
                let event = one.tokens.stored(*token);
                one.committer.handle(event, now);
            }
            Some(Got::Value(Some((token, _))))
                if ShellFault::PutAgain.is_on() && matches!(request, StoreRequest::Swap { .. }) =>
            {
                let StoreRequest::Swap { value, .. } = &request else { return };
                let again = Asked::Put(value.clone(), Some(*token));
                return self.send(server, request, again);
            }
            Some(Got::Value(found)) => {
                let found = found.as_ref().map(|(token, value)| (*token, value.as_slice()));
                let event = one.tokens.got(&request, found);
                one.committer.handle(event, now);
            }
            Some(Got::Changed) => return self.send(server, request, Asked::Get),
        }
        self.drive(server);
    }
}
