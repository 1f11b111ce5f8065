//! A stock kube-apiserver beside ours, on the same key: read-modify-write, releases without an as-of revision, and a
//! repair that rewrites the whole value.
//!
//! It serves clients' requests about any Service. What it frees although somebody owns it, it damages; what others are
//! promised does not hold of those values any more.

use std::fmt::Write as _;

use crate::server::Origin;
use crate::store::{Mask, Writer, bits};

use super::clients::{Based, Request};
use super::event::{Event, Stock};
use super::{Claim, MS, STOCK, State, What, World};

/// Retries after a conflict.
const TRIES: u8 = 4;

/// What the stock kube-apiserver of a schedule does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// Updates release what they drop before they write the Service.
    pub(super) releases_early: bool,
    /// Values are released twice.
    pub(super) releases_twice: bool,
    /// Some of its writes of Services fail because the Service has changed.
    pub(super) loses_writes: bool,
}

impl World {
    /// A step of the stock kube-apiserver.
    pub(super) fn stock(&mut self, step: Stock) {
        if let Stock::Write(request) = step {
            return self.stock_write(request);
        }
        if self.store.key().is_none() || self.now > self.horizon {
            return;
        }
        self.is_disturbed = true;
        let (version, stored) = (self.store.state().mod_revision, self.store.mask());
        match step {
            Stock::Repair { tries } => {
                let revision = self.store.revision();
                let list = self.store.services.values_at(revision - self.random.below(4).min(revision));
                let rebuilt = self.reference.rebuild(stored, list);
                self.stock_later(Stock::WriteRepaired { version, mask: rebuilt, tries });
                if tries == 0 {
                    let delay = self.interval;
                    self.after(delay, Event::Stock(Stock::Repair { tries: 0 }));
                }
            }
            Stock::WriteRepaired { version: read, mask, tries } => {
                if !self.stock_put(read == version, mask, "repairs") && tries < TRIES {
                    let delay = (10 * MS) << (2 * tries);
                    self.after(delay, Event::Stock(Stock::Repair { tries: tries + 1 }));
                }
            }
            Stock::Pick { tries } => {
                let free: Vec<u32> = (0..self.size).filter(|offset| stored >> offset & 1 == 0).collect();
                if !free.is_empty() {
                    let offset = self.random.pick(&free);
                    self.stock_later(Stock::Take { version, offset, tries });
                }
            }
            Stock::Take { version: read, offset, tries } => {
                if self.stock_put(read == version, stored | 1 << offset, "allocates") {
                    self.stock_create(offset);
                } else if tries < TRIES {
                    self.stock_later(Stock::Pick { tries: tries + 1 });
                }
            }
            Stock::Free { offset, tries } if stored >> offset & 1 == 1 => {
                self.stock_later(Stock::WriteFreed { version, offset, tries });
            }
            Stock::WriteFreed { version: read, offset, tries } => {
                if !self.stock_put(read == version, stored & !(1 << offset), "releases") && tries < TRIES {
                    self.stock_later(Stock::Free { offset, tries: tries + 1 });
                }
            }
            Stock::Serve => self.stock_serve(),
            Stock::Free { .. } | Stock::Write(_) => {}
        }
    }

    fn stock_later(&mut self, step: Stock) {
        let delay = self.latency();
        self.after(delay, Event::Stock(step));
    }

    /// Writes the key if it has not changed.
    fn stock_put(&mut self, is_unchanged: bool, mask: Mask, what: &str) -> bool {
        if is_unchanged {
            note!(self, "the stock kube-apiserver {what}: {mask:b}");
            self.store.put(self.encode(mask), Writer::Reference);
            self.wrote(Writer::Reference, None);
        }
        is_unchanged
    }

    /// It has allocated a value, and writes the Service within the grace.
    fn stock_create(&mut self, offset: u32) {
        self.uids += 1;
        let (uid, claim) = (self.uids, self.claims.len());
        let until = self.now + self.grace;
        self.claims.push(Claim {
            uid,
            offset,
            revision: self.store.revision(),
            use_until: until,
            safe_until: until,
            server: STOCK,
            incarnation: 0,
            acknowledged: self.now,
            origin: Origin { epoch: self.store.epoch, store: 0 },
            known_written: None,
            state: State::Pending,
        });
        let request = self.stock_request(uid, What::Create { name: uid, shares: false });
        self.requests[request].claims.push(claim);
        let delay = self.random.below(self.grace);
        self.after(delay, Event::Stock(Stock::Write(request)));
    }

    fn stock_request(&mut self, uid: u32, what: What) -> usize {
        let claims = Vec::new();
        let request =
            Request { server: STOCK, incarnation: 0, uid, store: 0, what, claims, is_slow: false, is_over: false };
        self.requests.push(request);
        self.requests.len() - 1
    }

    /// A client asks it to change or delete some Service.
    fn stock_serve(&mut self) {
        let live: Vec<u32> = self.store.services.live().map(|service| service.uid).collect();
        if live.is_empty() {
            return;
        }
        let uid = self.random.pick(&live);
        let Some(based) = self.current(uid) else { return };
        let what = if self.random.percent(50) {
            let drops = bits(based.values).filter(|_| self.random.percent(60)).fold(0, |drops, bit| drops | 1 << bit);
            if self.habits.releases_early {
                note!(self, "the stock kube-apiserver will write Service {uid} without {drops:b}");
                self.stock_release(drops);
            }
            What::Update { based, drops }
        } else {
            What::Delete { based, finalizes: true }
        };
        let request = self.stock_request(uid, what);
        let delay = self.random.below(12 * MS);
        self.after(delay, Event::Stock(Stock::Write(request)));
    }

    fn stock_write(&mut self, index: usize) {
        let Request { uid, what, .. } = self.requests[index];
        match what {
            What::Create { name, .. } => {
                let offset = self.claims[self.requests[index].claims[0]].offset;
                if self.store.create_service(uid, name, 1 << offset, 0).is_some() {
                    note!(self, "the stock kube-apiserver writes Service {uid} with offset {offset}");
                    self.now_has(index, uid);
                    self.plan_service(uid);
                }
            }
            What::Update { based, drops } => self.stock_update(uid, based, drops),
            What::Delete { based, .. } => {
                let last = self.store.delete_service(uid).map(|(last, _)| last.values);
                note!(self, "the stock kube-apiserver deletes Service {uid}: {last:?}");
                // It releases what it had read, also if the Service is not there any more.
                self.no_longer_has(uid, last.unwrap_or(0));
                if last.is_some() || self.habits.releases_twice {
                    self.stock_release(last.unwrap_or(based.values));
                }
            }
        }
    }

    fn stock_update(&mut self, uid: u32, based: Based, drops: Mask) {
        let fails = self.habits.loses_writes && self.random.percent(50);
        let written = if fails { None } else { self.store.update_service(uid, based.revision, based.values & !drops) };
        note!(self, "the stock kube-apiserver writes Service {uid} without {drops:b}: {written:?}");
        if written.is_none() {
            return;
        }
        self.no_longer_has(uid, drops);
        if !self.habits.releases_early || self.habits.releases_twice {
            self.stock_release(drops);
        }
    }

    fn stock_release(&mut self, values: Mask) {
        for offset in bits(values) {
            self.stock_later(Stock::Free { offset, tries: 0 });
        }
        if self.habits.releases_twice {
            for offset in bits(values) {
                let delay = self.random.below(self.interval / 2);
                self.after(delay, Event::Stock(Stock::Free { offset, tries: 0 }));
            }
        }
    }
}
