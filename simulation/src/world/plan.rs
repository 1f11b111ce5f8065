//! What will happen in a schedule, as far as that is known beforehand.

use std::fmt::Write;

use rangekeeper::range::Range;

use crate::store::Writer;

use super::{Event, MS, World};

impl World {
    /// Plans what will happen.
    pub(super) fn prepare(&mut self) {
        note!(self, "{} servers, ports {}, a pass every {} ms", self.servers.len(), self.text, self.interval / MS);
        if self.random.percent(85) {
            // Some values are leaked from the beginning, and often few are left.
            let fill = self.random.pick(&[0, 0, 1, 2, 4]);
            let mask =
                (0..self.range.size()).filter(|_| self.random.below(5) < fill).fold(0, |mask, one| mask | 1 << one);
            self.store.put(self.encode(mask), Writer::Stranger);
            note!(self, "the key holds {mask:b}");
        } else if self.random.percent(30) {
            // Somebody makes it, and it goes again.
            let at = self.random.below(self.horizon);
            self.at(at, Event::Delete);
        }
        let mut at = 0;
        for _ in 0..self.random.between(4, 15) {
            // Often several at a time.
            at = if self.random.percent(50) { at + self.random.below(3 * MS) } else { self.random.below(self.horizon) };
            let server = self.random.below(self.servers.len() as u64) as usize;
            self.at(at, Event::Submit(server));
        }
        for server in 0..self.servers.len() {
            if self.servers[server].repairs {
                let at = self.random.below(self.interval);
                self.at(at, Event::Pass(server));
            }
            for _ in 0..self.random.pick(&[0, 0, 0, 1]) {
                let at = self.random.below(self.horizon);
                let what = if self.random.percent(50) { Event::Crash(server) } else { Event::Disconnect(server) };
                self.at(at, what);
            }
        }
        if self.random.percent(25) {
            let at = self.random.below(self.horizon);
            self.at(at, Event::Compact);
        }
        let at = self.random.below(self.horizon);
        match self.random.below(100) {
            0..12 => {
                self.at(at, Event::Delete);
                if self.random.percent(30) {
                    let at = self.random.below(self.horizon);
                    self.at(at, Event::Delete);
                }
            }
            12..15 => self.at(at, Event::Spoil),
            15..24 => {
                self.at(at, Event::Restore);
                let back = at - self.random.below(at.min(self.interval) + 1);
                self.at(back, Event::Backup);
                if self.random.percent(30) {
                    // Some server does not know the store yet when it becomes another one.
                    let server = self.random.below(self.servers.len() as u64) as usize;
                    let before = at - self.random.below(at.min(self.interval) + 1);
                    self.at(before, Event::Crash(server));
                }
            }
            24..34 => {
                self.at(at / 2, Event::ReferenceRepair { tries: 0 });
                for _ in 0..self.random.below(4) {
                    let at = self.random.below(self.horizon);
                    self.at(at, Event::ReferencePick { tries: 0 });
                }
            }
            _ => {}
        }
        if self.random.percent(20) {
            self.at(self.horizon, Event::Calm);
        }
    }
}
