//! The end of a schedule: faults stop, the passes of one server repair the range, and nothing is left.

use std::fmt::Write as _;

use rangekeeper::commit::Limits;

use crate::server::Notice;
use crate::violation::Invariant;

use super::event::Event;
use super::{Content, World};

impl World {
    pub(super) fn become_calm(&mut self) {
        note!(self, "no more faults");
        self.calm = true;
        for server in 0..self.servers.len() {
            self.start(server);
            // A watch reports now what it left out before.
            if self.servers[server].watch.take().is_some() {
                self.watch_fails(server);
                self.drive(server);
            }
        }
        let server = self.random.below(self.servers.len() as u64) as usize;
        self.finalist = Some(server);
        let one = &self.servers[server];
        // Its first answer may yet be one of the store before: then it notices the restore only after that.
        let is_restored = one.cache.is_some() || one.committer.known().restores > 0 || one.notice == Notice::Due;
        if one.lists_elsewhere && is_restored {
            // Its lists may be wrong until it starts again.
            self.crash(server);
            self.start(server);
        }
        // All requests arrive or are lost, which takes two graces, and every Service is written or abandoned, which
        // takes one and a half. A machine may pause for as long, too.
        self.after(5 * self.grace, Event::Finale(0));
    }

    pub(super) fn finale(&mut self, passes: u8) {
        let Some(server) = self.finalist else { return };
        if passes == 4 {
            return self.after(self.interval, Event::Check);
        }
        self.pass(server);
        self.after(self.interval * 105 / 100, Event::Finale(passes + 1));
    }

    /// Whether the range holds exactly what Services use.
    pub(super) fn check_leaks(&mut self) {
        let (stored, in_use) = (self.store.mask(), self.store.services.values());
        let is_unreadable = |version| self.content(version) == Content::Unreadable;
        let is_misled = self.finalist.is_some_and(|server| self.servers[server].notice == Notice::Missed);
        if is_misled || self.store.log.last().is_some_and(is_unreadable) {
            return;
        }
        // With little history leaks are kept.
        let all = Limits::default();
        let remembers =
            (self.limits.changes, self.limits.revisions, self.limits.leaks) == (all.changes, all.revisions, all.leaks);
        if (remembers && stored != in_use) || in_use & !stored != 0 {
            self.fail(Invariant::I5, format!("in use are {in_use:b}, stored {stored:b}"));
        }
    }

    /// Whether every operation has ended by its deadline.
    pub(super) fn check_all_ended(&mut self) {
        let late = (0..self.servers.len()).find_map(|server| {
            let now = self.local(server);
            let open = self.servers[server].open.iter().find(|open| open.deadline < now)?;
            Some(format!("{open:?} of server {server} has not ended by {now}"))
        });
        if let Some(message) = late {
            self.fail(Invariant::I6, message);
        }
    }
}
