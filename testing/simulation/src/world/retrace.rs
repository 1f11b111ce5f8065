//! Two histories with the same revisions: after a restore others do what was done in the lost history, in the same
//! order, as a script that is run again. So the range and Services of the same names have the revisions again that they
//! had, with other values.

use std::fmt::Write;

use crate::store::{Writer, bits};

use super::World;
use super::event::Event;

/// What was done to the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    WriteKey,
    WriteService(u32),
    DeleteService(u32),
    /// Anything else.
    Other,
}

impl World {
    /// Plans a restore, with some writes in the history that gets lost.
    pub(super) fn plan_retraced(&mut self) {
        let back = self.random.between(self.interval / 8, self.interval);
        let at = back + self.random.below(self.interval);
        self.at(back, Event::Backup);
        for _ in 0..self.random.between(1, 6) {
            let server = self.random.below(self.servers.len() as u64) as usize;
            let (lost, later) = (self.random.between(back, at), at + self.random.below(self.interval / 4));
            self.at(lost, Event::Submit(server));
            self.at(later, Event::Submit(server));
        }
        self.at(at, Event::Restore);
    }

    /// What was done after a revision.
    pub(super) fn steps_after(&self, revision: u64) -> Vec<Step> {
        let step = |at: u64| {
            let mut written = self.store.log.iter().filter(|version| version.key.is_some());
            if written.any(|version| version.revision == at) {
                return Step::WriteKey;
            }
            match self.store.services.changes_after(revision).find(|(changed, ..)| *changed == at) {
                Some((_, name, false)) => Step::WriteService(name),
                Some((_, name, true)) => Step::DeleteService(name),
                None => Step::Other,
            }
        };
        (revision + 1..=self.store.revision()).map(step).collect()
    }

    /// Others do the same in the restored store.
    pub(super) fn retrace(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::WriteKey => {
                    let kept = self.store.mask() & self.random.below(1 << self.size);
                    let taken = 1 << self.random.below(u64::from(self.size));
                    self.store.put(self.encode(self.store.services.values() | kept | taken), Writer::Stranger);
                    self.wrote(Writer::Stranger, None);
                }
                Step::WriteService(name) => self.write_again(name),
                Step::DeleteService(name) => {
                    let service = self.store.services.live().find(|service| service.name == name);
                    match service.map(|service| service.uid) {
                        Some(uid) => _ = self.store.delete_service(uid),
                        None => self.store.write_other(),
                    }
                }
                Step::Other => self.store.write_other(),
            }
        }
        note!(self, "others repeat what was lost: {:b}", self.store.mask());
    }

    /// A Service of this name is written, with what no other one has.
    fn write_again(&mut self, name: u32) {
        let free = self.store.mask() & !self.store.services.values();
        let service = self.store.services.live().find(|service| service.name == name);
        if let Some((uid, state)) = service.map(|service| (service.uid, service.state())) {
            self.store.update_service(uid, state.revision, state.values);
        } else if let Some(offset) = bits(free).last() {
            self.uids += 1;
            self.store.create_service(self.uids, name, 1 << offset, 0);
        } else {
            self.store.write_other();
        }
    }
}
