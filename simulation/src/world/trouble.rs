//! What happens to the store, the writer that behaves like the reference, and the end of all that.

use std::fmt::Write;

use rangekeeper::range::Range;

use crate::store::{Version, Writer};

use super::{Claim, Content, Damage, Event, LOW, MS, SPOILT, State, World, encode, mask};

impl World {
    pub(super) fn delete(&mut self) {
        if self.store.key().is_none() {
            return;
        }
        note!(self, "the key is deleted");
        self.damage = Damage::Deleted;
        self.store.delete();
        self.wrote(Writer::Stranger);
        if self.random.percent(60) {
            // Somebody makes it anew, from what Services use.
            let in_use = mask(self.store.list());
            self.store.put(self.encode(in_use), Writer::Stranger);
            note!(self, "the key is made anew: {in_use:b}");
            for _ in 0..self.random.below(3) {
                let offset = self.random.below(u64::from(self.range.size()));
                let value = self.encode(self.store.mask() | 1 << offset);
                self.store.put(value, Writer::Stranger);
            }
            self.wrote(Writer::Stranger);
        }
    }

    /// Somebody writes what is no RangeAllocation, or none of this range, and in most cases puts it right later.
    pub(super) fn spoil(&mut self) {
        self.damage = Damage::Deleted;
        let before = self.store.mask();
        let is_right = |version: &Version| matches!(self.content(version), Content::Range | Content::Missing);
        let spoilt = !self.store.log.last().is_none_or(is_right);
        let value = if spoilt {
            self.encode(mask(self.store.list()))
        } else {
            match self.random.below(4) {
                0 => [SPOILT, &[before as u8]].concat(),
                1 => encode("", 0),
                2 => encode("", before),
                _ => {
                    let half = self.range.size() / 2;
                    encode(&format!("{LOW}-{}", u32::from(LOW) + half - 1), before & ((1 << half) - 1))
                }
            }
        };
        note!(self, "somebody writes {:?}", value.escape_ascii().to_string());
        self.store.put(value, Writer::Stranger);
        self.wrote(Writer::Stranger);
        if !spoilt && !self.calm && self.random.percent(70) {
            let delay = self.random.below(self.interval);
            self.after(delay, Event::Spoil);
        }
    }

    pub(super) fn restore(&mut self) {
        let Some(backup) = self.backup.take() else { return };
        self.damage = Damage::Restored;
        let other_cluster = self.random.percent(50);
        self.store.restore(&backup, other_cluster);
        note!(self, "the store is restored from a backup: {:b}", self.store.mask());
        for server in 0..self.servers.len() {
            if self.servers[server].up {
                self.disconnect(server);
            }
        }
    }

    /// Somebody deletes a sidecar.
    pub(super) fn delete_sidecar(&mut self, name: usize) {
        if self.store.sidecars[name].take().is_none() {
            return;
        }
        self.store.header.revision += 1;
        note!(self, "the sidecar {name} is deleted");
        for server in &mut self.servers {
            server.decides &= server.name != name;
        }
    }

    /// A step of the writer that behaves like the reference.
    pub(super) fn reference(&mut self, event: Event) {
        self.damage = Damage::Reference;
        if self.store.key().is_none() || self.now > self.horizon {
            return;
        }
        let (version, mask_now) = (self.store.state().mod_revision, self.store.mask());
        match event {
            Event::ReferenceRepair { tries } => {
                let revision = self.store.revision();
                let list = mask(self.store.list_at(revision - self.random.below(4).min(revision)));
                let rebuilt = self.reference.rebuild(mask_now, list);
                let delay = self.latency();
                self.after(delay, Event::ReferenceWrite { version, mask: rebuilt, tries });
                if tries == 0 {
                    let delay = self.interval;
                    self.after(delay, Event::ReferenceRepair { tries: 0 });
                }
            }
            Event::ReferenceWrite { version: read, mask, tries } => {
                if read == version {
                    note!(self, "the reference writes {mask:b}");
                    self.store.put(self.encode(mask), Writer::Reference);
                    self.wrote(Writer::Reference);
                } else if tries < 4 {
                    let delay = (10 * MS) << (2 * tries);
                    self.after(delay, Event::ReferenceRepair { tries: tries + 1 });
                }
            }
            Event::ReferencePick { tries } => {
                let free: Vec<u32> = (0..self.range.size()).filter(|offset| mask_now >> offset & 1 == 0).collect();
                if !free.is_empty() {
                    let offset = self.random.pick(&free);
                    let delay = self.latency();
                    self.after(delay, Event::ReferenceTake { version, mask: mask_now | 1 << offset, offset, tries });
                }
            }
            Event::ReferenceTake { version: read, mask, offset, tries } => {
                if read == version {
                    note!(self, "the reference takes offset {offset}: {mask:b}");
                    self.store.put(self.encode(mask), Writer::Reference);
                    self.wrote(Writer::Reference);
                    let claim = self.claims.len();
                    let (revision, use_until) = (self.store.revision(), self.now + self.grace);
                    self.claims.push(Claim {
                        offset,
                        revision,
                        use_until,
                        server: usize::MAX,
                        state: State::Pending,
                        is_slow: false,
                    });
                    let delay = self.random.below(self.grace);
                    self.after(delay, Event::CreateService(claim));
                } else if tries < 4 {
                    let delay = self.latency();
                    self.after(delay, Event::ReferencePick { tries: tries + 1 });
                }
            }
            _ => {}
        }
    }

    pub(super) fn become_calm(&mut self) {
        note!(self, "no more faults");
        self.calm = true;
        for server in 0..self.servers.len() {
            self.start(server);
            // What a watch left out, it is told of now.
            if self.servers[server].watch.take().is_some() {
                self.servers[server].committer.watch_failed();
                self.drive(server);
            }
        }
        let server = self.random.below(self.servers.len() as u64) as usize;
        self.finalist = Some(server);
        // All that is on its way arrives, and every Service is written or given up.
        self.after(2 * self.grace, Event::Finale(0));
    }

    pub(super) fn finale(&mut self, passes: u8) {
        let Some(server) = self.finalist else { return };
        if passes == 4 {
            return self.after(self.interval, Event::Check);
        }
        self.pass(server);
        self.after(self.interval * 105 / 100, Event::Finale(passes + 1));
    }
}
