//! Who owns which values, and what must hold for them.

use std::fmt::Write as _;

use rangekeeper::commit::Operation;

use crate::faults::ShellFault;
use crate::layout::{Mask, bits};
use crate::violation::Invariant;

use super::server::Purpose;
use super::{Event, INTERVAL, LOW, MS, World};

/// The owner of acknowledged values: a Service, or who is about to write one.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    server: usize,
    values: Mask,
    /// That of the allocation, by the count of its server.
    revision: (u64, u32),
    use_until: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The Service is not written yet.
    Pending,
    Live,
    Ended,
}

impl World {
    /// What Services use.
    pub(super) fn in_use(&self) -> Mask {
        let live = self.owners.iter().filter(|owner| owner.state == State::Live);
        live.fold(0, |mask, owner| mask | owner.values)
    }

    /// What has an owner.
    fn owned(&self) -> impl Iterator<Item = &Owner> {
        self.owners.iter().filter(|owner| match owner.state {
            State::Pending => self.now <= owner.use_until,
            State::Live => true,
            State::Ended => false,
        })
    }

    /// Values were handed out; briefly: to be given back at once.
    pub(super) fn acknowledged(
        &mut self,
        server: usize,
        values: Mask,
        revision: (u64, u32),
        use_until: u64,
        is_brief: bool,
    ) {
        let has = |owner: &Owner| format!("server {server} has handed out {values:b}, of which {owner:?} has some");
        let twice = self.owned().find(|owner| owner.values & values != 0).map(has);
        if let Some(message) = twice {
            return self.fail(Invariant::I1, message);
        }
        let owner = self.owners.len();
        self.owners.push(Owner { server, values, revision, use_until, state: State::Pending });
        self.check_stored();
        if is_brief {
            return self.roll_back(owner);
        }
        let left = use_until.saturating_sub(self.now);
        let late = if ShellFault::WrittenAfterUseUntil.is_on() { 3 * INTERVAL } else { 0 };
        match self.random.below(100) {
            // The Service is refused: its values are given back.
            0..10 => self.roll_back(owner),
            // Nobody writes it.
            10..18 => {}
            18..60 => {
                let delay = self.random.below(20 * MS).min(left);
                self.after(delay, Event::Write(owner));
            }
            _ => {
                let delay = self.random.below(left + 1 + late);
                self.after(delay, Event::Write(owner));
            }
        }
    }

    fn roll_back(&mut self, owner: usize) {
        let Owner { server, values, revision, .. } = self.owners[owner];
        note!(self, "owner {owner} gives {values:b} back");
        self.owners[owner].state = State::Ended;
        self.release(server, values, revision);
    }

    pub(super) fn release(&mut self, server: usize, values: Mask, (revision, store): (u64, u32)) {
        for offset in bits(values) {
            let value = LOW + offset as u16;
            let release = Operation::Release { value, as_of: revision, oldest: revision, store };
            self.submit(server, release, Purpose::Release);
        }
    }

    /// The Service of an owner is written.
    pub(super) fn write(&mut self, owner: usize) {
        if self.owners[owner].state != State::Pending {
            return;
        }
        let values = self.owners[owner].values;
        note!(self, "owner {owner} writes its Service with {values:b}");
        let is_live = |one: &&Owner| one.state == State::Live && one.values & values != 0;
        let other = self.owners.iter().find(is_live).map(|other| format!("{other:?} has some of {values:b}, too"));
        if let Some(message) = other {
            return self.fail(Invariant::I3, message);
        }
        self.owners[owner].state = State::Live;
        self.check_stored();
        if !self.is_calm() && self.random.percent(70) {
            let delay = self.random.below(2 * INTERVAL);
            self.after(delay, Event::Drop(owner));
        }
    }

    /// A client deletes a Service, or drops some of its values, at any server. That reads the range first: at the
    /// view's revision the Service has the values.
    pub(super) fn drop_values(&mut self, owner: usize) {
        let server = self.random.below(self.servers.len() as u64) as usize;
        let all = self.owners[owner].values;
        let values = if self.random.percent(30) { all & (all - 1) } else { all };
        let look = Purpose::Look { owner, values, began: self.now };
        self.submit(server, Operation::Read, look);
    }

    /// The read before it has ended.
    pub(super) fn looked(&mut self, server: usize, number: usize, values: Mask, began: u64, revision: (u64, u32)) {
        let owner = &mut self.owners[number];
        let had = owner.state == State::Live && owner.values & values == values;
        if values == 0 || !had {
            return;
        }
        note!(self, "owner {number} gives {values:b} up, which it has since {began}");
        owner.values &= !values;
        if owner.values == 0 {
            owner.state = State::Ended;
        }
        match self.random.below(20) {
            // The server does not know that the Service was written.
            0 => {}
            _ => {
                self.release(server, values, revision);
                if ShellFault::ReleasedAsOfALaterRead.is_on() {
                    let other = (server + 1) % self.servers.len();
                    self.submit(other, Operation::Read, Purpose::Late(values));
                }
            }
        }
    }

    /// What has an owner is stored as in use.
    pub(super) fn check_stored(&mut self) {
        let stored = self.row.mask();
        let lost = |owner: &Owner| format!("{owner:?} has values that are free: {stored:b}");
        let lost = self.owned().find(|owner| owner.values & !stored != 0).map(lost);
        if let Some(message) = lost {
            self.fail(Invariant::I2, message);
        }
    }

    /// In the end the range holds exactly what Services use.
    pub(super) fn check_leaks(&mut self) {
        let (stored, in_use) = (self.row.mask(), self.in_use());
        note!(self, "in use are {in_use:b}, stored {stored:b}");
        if stored != in_use {
            self.fail(Invariant::I5, format!("in use are {in_use:b}, stored {stored:b}"));
        }
    }
}
