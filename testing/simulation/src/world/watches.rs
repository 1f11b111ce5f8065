//! Watches of the key, which lag, fail and leave changes out.

use std::fmt::Write;

use rangekeeper::commit::{self, Change, KeyValue};

use super::event::Event;
use super::{MS, World, duration};

impl World {
    /// Starts the watch of a server's key.
    pub(super) fn start_watch(&mut self, server: usize, from: u64) {
        self.sent += 1;
        let stream = self.sent;
        let one = &mut self.servers[server];
        one.watch = Some((stream, from));
        (one.is_watch_due, one.has_skipped) = (true, false);
        let delay = self.watch_delay();
        self.after(delay, Event::Watch { server, stream });
    }

    fn watch_delay(&mut self) -> u64 {
        let slow = !self.calm && self.random.percent(20);
        if slow { self.random.below(300 * MS) } else { self.latency() }
    }

    /// A watch reports what it has.
    pub(super) fn watch(&mut self, server: usize, stream: u32) {
        let Some((_, from)) = self.servers[server].watch.filter(|(number, _)| *number == stream) else { return };
        self.servers[server].is_watch_due = false;
        if from <= self.store.compacted {
            note!(self, "the watch of server {server} from r{from} is compacted");
            self.servers[server].watch = None;
            self.watch_fails(server);
            return self.drive(server);
        }
        let now = duration(self.local(server));
        let first = self.store.log.partition_point(|version| version.revision < from);
        let mut next = from;
        let mut skips = false;
        for at in first..self.store.log.len() {
            let version = &self.store.log[at];
            next = version.revision + 1;
            // Often several in a row, and from a deletion on.
            let share = match (skips, &version.key) {
                (true, _) => 60,
                (false, None) => 12,
                (false, Some(_)) => 3,
            };
            skips = !self.calm && self.trouble > 0 && self.random.percent(share);
            if skips {
                note!(self, "the watch of server {server} skips r{}", next - 1);
                let one = &mut self.servers[server];
                (one.has_skipped, one.has_gaps) = (true, true);
                one.knowledge.forget_before(next - 1);
                continue;
            }
            note!(self, "the watch of server {server} reports r{}", next - 1);
            let version = &self.store.log[at];
            let change = match &version.key {
                Some(key) => Change::Put(KeyValue { state: key.state, value: &key.value }),
                None => Change::Delete { revision: version.revision },
            };
            let one = &mut self.servers[server];
            one.committer.handle(commit::Event::Watched(change), now);
            one.heard = version.revision;
            // A watch that has outlived a restore begins too late.
            let is_late = at.checked_sub(1).is_some_and(|before| !one.knowledge.has_seen(before));
            one.has_skipped |= version.key.is_none() || is_late;
            if one.has_skipped {
                // It cannot continue from what it knew before an answer reports the state of the key.
                let known = one.committer.known().revision;
                one.knowledge.forget_before(known.max(version.revision));
                // It may take this for what comes after the change that was left out.
                one.answered = None;
            } else {
                one.knowledge.see(at);
                one.reached = one.reached.max(version.revision);
                one.watched = one.watched.max(version.revision);
                one.key = version.key.as_ref().map(|key| (key.state, version.mask));
            }
        }
        self.servers[server].watch = Some((stream, next));
        if next > from {
            self.drive(server);
        }
    }

    /// Reports to a server that its watch cannot go on.
    pub(super) fn watch_fails(&mut self, server: usize) {
        let one = &mut self.servers[server];
        one.knowledge.forget_before(one.committer.known().revision);
        self.report(server, commit::Event::WatchFailed);
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
}
