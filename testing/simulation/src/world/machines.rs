//! What happens to the machines and processes of servers: they crash, start, lose their connections and pause.

use std::fmt::Write as _;

use rangekeeper::commit;

use crate::server::{Notice, Pass};

use super::World;
use super::event::Event;

impl World {
    pub(super) fn crash(&mut self, server: usize) {
        if !self.servers[server].up {
            return;
        }
        note!(self, "server {server} crashes");
        let one = &mut self.servers[server];
        let incarnation = one.incarnation;
        one.up = false;
        one.incarnation += 1;
        (one.flight, one.watch, one.pass, one.poll_at) = (None, None, Pass::None, u64::MAX);
        one.open.clear();
        one.notice = Notice::Noticed;
        let own: Vec<usize> = (0..self.requests.len())
            .filter(|request| self.requests[*request].server == server && !self.requests[*request].is_over)
            .filter(|request| self.requests[*request].incarnation == incarnation)
            .collect();
        for request in own {
            // Some were about to write the Service, which happens all the same.
            if self.random.percent(50) {
                self.abandon(request);
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
        self.forget_all(server);
        self.servers[server].up = true;
    }

    /// A server's connection is recreated; in so many of a hundred cases the request under way has no answer.
    pub(super) fn disconnect(&mut self, server: usize, gives_up: u64) {
        note!(self, "the connection of server {server} is recreated");
        // An answer may be on its way already.
        if self.random.percent(gives_up) && self.servers[server].flight.is_some() {
            self.give_up(server);
        }
        let one = &mut self.servers[server];
        if !one.has_answer {
            // It cannot know to which store the connection before was.
            one.knowledge.forget_before(self.store.revision() + 1);
        }
        self.report(server, commit::Event::Reconnected);
        self.drive(server);
    }

    /// The machine of a server pauses, and its clock with it.
    pub(super) fn pause(&mut self, server: usize, time: u64) {
        if self.calm || self.servers[server].frozen.is_some() {
            return;
        }
        note!(self, "the machine of server {server} pauses for {time} us");
        self.servers[server].frozen = Some(self.local(server));
        self.servers[server].paused_until = self.now + time;
        self.after(time, Event::Resume(server, time));
    }

    pub(super) fn resume(&mut self, server: usize, time: u64) {
        note!(self, "the machine of server {server} goes on");
        self.servers[server].lag += time;
        self.servers[server].frozen = None;
        if self.servers[server].up {
            self.drive(server);
        }
    }
}
