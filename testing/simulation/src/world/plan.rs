//! What will happen in a schedule, as far as that is known beforehand.

use std::fmt::Write;

use crate::server::Pace;
use crate::store::Writer;

use super::event::{Event, Stock};
use super::stock::Habits;
use super::{MS, World};

impl World {
    /// Plans what will happen.
    pub(super) fn prepare(&mut self) {
        note!(self, "{} servers, ports {}, a pass every {} ms", self.servers.len(), self.text, self.interval / MS);
        note!(self, "a leak is cleaned in pass {}; {:?}", self.passes, self.limits);
        let is_large = self.store.layout.is_window();
        if is_large || self.random.percent(80) {
            // Some values are leaked from the beginning, and often few are left.
            let fill = self.random.pick(&[0, 0, 1, 2, 4]);
            let mask = (0..self.size).filter(|_| self.random.below(5) < fill).fold(0, |mask, one| mask | 1 << one);
            self.store.put(self.encode(mask), Writer::Stranger);
            note!(self, "the key holds {mask:b}");
        } else {
            // Somebody creates it, and it is deleted again.
            for _ in 0..self.random.pick(&[0, 1, 2, 2]) {
                let at = self.random.below(self.horizon);
                self.at(at, Event::Delete);
            }
            self.is_made_in_pass = self.random.percent(20);
            if !self.is_made_in_pass && self.random.percent(50) {
                // So soon that a pass may not notice.
                let at = self.random.below(self.horizon);
                self.at(at, Event::Make);
                for _ in 0..2 {
                    let at = at + self.random.below(20 * MS);
                    let server = self.random.below(self.servers.len() as u64) as usize;
                    self.at(at, Event::Submit(server));
                }
                let at = at + self.random.below(self.interval / 4);
                self.at(at, Event::Delete);
            }
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
            _ if self.is_retraced => self.plan_retraced(),
            // All values outside of the window would be lost.
            0..15 if is_large => {}
            0..12 => {
                self.at(at, Event::Delete);
                if self.random.percent(30) {
                    let at = self.random.below(self.horizon);
                    self.at(at, Event::Delete);
                }
            }
            12..15 => self.at(at, Event::Spoil),
            15..32 => self.plan_restores(at, is_large),
            32..44 => self.plan_stock(at),
            _ => {}
        }
        if self.random.percent(6) {
            let server = self.random.below(self.servers.len() as u64) as usize;
            let time = self.random.pick(&[100 * MS, self.interval / 2, self.grace, self.grace * 3 / 2]);
            self.at(at / 2, Event::Pause(server, time));
        }
        if self.conditional {
            for _ in 0..self.random.pick(&[0, 0, 1, 2, 3]) {
                let at = self.random.below(self.horizon);
                let server = self.random.below(self.servers.len() as u64) as usize;
                self.at(at, Event::Operate(server));
            }
        }
        if self.random.percent(20) {
            self.at(self.horizon, Event::Calm);
        }
    }

    /// The store is restored from a backup, often more than once, and often more goes wrong.
    fn plan_restores(&mut self, at: u64, is_large: bool) {
        if self.random.percent(5) {
            self.is_restored_after_list = true;
            return;
        }
        if self.random.percent(20) {
            self.is_restored_in_pass = true;
            if !is_large && self.random.percent(40) {
                self.at(at, Event::Delete);
            }
            return;
        }
        let any = |world: &mut Self| world.random.below(world.servers.len() as u64) as usize;
        let mut at = at;
        let back = at - self.random.below(at.min(self.interval) + 1);
        self.at(back, Event::Backup);
        self.at(at, Event::Restore);
        if self.random.percent(30) {
            // Some server does not know the store yet when it becomes another one.
            let server = any(self);
            let before = at - self.random.below(at.min(self.interval) + 1);
            self.at(before, Event::Crash(server));
        }
        for _ in 0..self.random.pick(&[0, 0, 0, 2, 4]) {
            // A pass may be about the store before while others have read this one.
            let (server, delay) = (any(self), self.random.below(self.interval));
            self.at(at + delay, Event::Look(server));
        }
        for _ in 0..self.random.pick(&[0, 0, 0, 0, 1, 1, 2]) {
            // From the same backup, or from a newer one; often before all servers have noticed the last restore.
            let until = if self.random.percent(50) { 20 * MS } else { self.interval };
            let next = at + self.random.below(until);
            if self.random.percent(50) {
                let back = self.random.between(at, next);
                self.at(back, Event::Backup);
            }
            self.at(next, Event::Restore);
            at = next;
        }
        if !is_large && self.random.percent(25) {
            for _ in 0..self.random.pick(&[1, 1, 2]) {
                let at = if self.random.percent(50) {
                    at + self.random.below(30 * MS)
                } else {
                    self.random.below(self.horizon)
                };
                self.at(at, Event::Delete);
            }
        }
        if self.random.percent(25) {
            let at = self.random.below(self.horizon);
            self.plan_stock(at);
        }
    }

    /// A stock kube-apiserver serves clients, too. How it does harm is drawn for each schedule.
    fn plan_stock(&mut self, at: u64) {
        self.has_stock = true;
        // Its writes of Services have no conditions: no repair beside it has a shorter grace.
        for server in 0..self.servers.len() {
            if std::mem::take(&mut self.servers[server].is_command) {
                self.servers[server].pace = Pace { passes: self.passes, interval: self.interval, grace: self.grace };
                self.forget_all(server);
            }
        }
        self.habits = Habits {
            releases_early: self.random.percent(50),
            releases_twice: self.random.percent(40),
            loses_writes: self.random.percent(40),
        };
        if self.random.percent(40) {
            self.at(at / 2, Event::Stock(Stock::Repair { tries: 0 }));
        }
        for _ in 0..self.random.below(4) {
            let at = self.random.below(self.horizon);
            self.at(at, Event::Stock(Stock::Pick { tries: 0 }));
        }
        for _ in 0..self.random.below(5) {
            let at = self.random.below(self.horizon);
            self.at(at, Event::Stock(Stock::Serve));
        }
    }
}
