//! Operators, who change values by hand: at once, by a plan that is carried out late, or to take a plan back.

use rangekeeper::bitmap::Bitmap;
use rangekeeper::commit::{Edit, EditKind, Edited, Failure, Fate, Operation, Outcome};
use rangekeeper::ports::PortRange;

use crate::server::{Job, Right, Submitted};
use crate::store::{Mask, bits};
use crate::violation::Invariant;

use super::event::Event;
use super::{LOW, World};

/// What a plan has changed, for somebody who takes it back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journal {
    set: Mask,
    cleared: Mask,
    revision: u64,
    epoch: u32,
}

impl World {
    /// An operator looks at the range and at Services, and wants to change something.
    pub(super) fn operate(&mut self, server: usize) {
        if self.has_stock || self.calm {
            return;
        }
        let (in_use, stored) = (self.store.services.values(), self.store.mask());
        let all = u64::MAX >> (64 - self.size);
        let since_epoch = self.store.epoch;
        let job = |kind, set, clear, pick| Job {
            kind,
            set,
            clear,
            pick,
            dry_run: false,
            look: None,
            in_use: None,
            epoch: 0,
            since: 0,
            since_epoch,
        };
        let journal =
            (!self.journals.is_empty()).then(|| self.journals[self.random.below(self.journals.len() as u64) as usize]);
        let mut job = match (self.random.below(10), journal) {
            (0..4, Some(Journal { set, cleared, revision, epoch })) => {
                let job = job(EditKind::Undo, cleared, set, 0);
                Job { since: revision, since_epoch: epoch, dry_run: true, ..job }
            }
            (0..7, _) => {
                // What is due, and now and then what is not.
                let set = self.some(in_use & !stored, 80) | self.some(all, 3);
                let clear = self.some(stored & !in_use, 70) | self.some(all, 3);
                Job { dry_run: true, ..job(EditKind::Plan, set, clear & !set, 0) }
            }
            _ => {
                let (set, clear) = (self.some(all & !stored, 10), self.some(stored, 20));
                job(EditKind::Change, set, clear, self.random.below(3) as u32)
            }
        };
        if job.set | job.clear == 0 && job.pick == 0 {
            job.pick = 1;
            job.kind = EditKind::Change;
            job.dry_run = false;
        }
        self.list_for(server, job);
    }

    /// Each of these offsets with so much probability.
    fn some(&mut self, of: Mask, percent: u64) -> Mask {
        bits(of).filter(|_| self.random.percent(percent)).fold(0, |all, bit| all | 1 << bit)
    }

    /// A look is put, Services are listed, and the edit is submitted a while later.
    pub(super) fn list_for(&mut self, server: usize, mut job: Job) {
        (job.look, job.in_use) = (Some(self.store.put_look()), None);
        if job.kind == EditKind::Plan && job.dry_run {
            job.since = job.listed();
        }
        if self.random.percent(50) {
            self.list_services(&mut job);
        }
        // There are many Services.
        let delay = if self.random.percent(20) { self.random.below(self.interval / 2) } else { self.latency() };
        let incarnation = self.servers[server].incarnation;
        self.after(delay, Event::Edit { server, incarnation, job: Box::new(job) });
    }

    /// Services are listed at the revision of the look, if the store has that.
    fn list_services(&self, job: &mut Job) {
        job.epoch = self.store.epoch;
        job.in_use = (job.listed() <= self.store.revision()).then(|| self.store.services.values_at(job.listed()));
    }

    /// An operator submits an edit.
    pub(super) fn edit(&mut self, server: usize, mut job: Job) {
        let submitted = self.local(server);
        if job.in_use.is_none() {
            self.list_services(&mut job);
        }
        let Some(used) = job.in_use else { return };
        if job.needs_history() {
            let (as_of, epoch) = (job.since, job.since_epoch);
            let right = |offset| Right { offset, as_of, oldest: as_of, epoch, submitted };
            self.servers[server].rights.extend(bits(job.clear).filter(|_| !job.dry_run).map(right));
        }
        let values = |world: &Self, mask| bits(mask).map(|bit| world.value(bit)).collect::<Vec<_>>();
        let mut in_use = Bitmap::new(u32::from(self.range.high() - self.range.low()) + 1);
        for offset in bits(used).map(|bit| self.store.layout.offset(bit)).chain(self.store.layout.others()) {
            in_use.insert(offset);
        }
        let edit = Edit {
            kind: job.kind,
            set: values(self, job.set),
            pick: job.pick,
            clear: values(self, job.clear),
            in_use,
            listed: job.listed(),
            since: job.since,
            look: job.look.filter(|_| !job.dry_run).map(|look| look.number),
        };
        let deadline = self.deadline(server);
        self.submit(server, Operation::Edit(Box::new(edit)), Submitted::Edit(Box::new(job)), deadline);
        self.drive(server);
    }

    /// An edit has ended. A dry run is followed by the change, a while later; after a Service was written the operator
    /// lists again.
    pub(super) fn edited(&mut self, server: usize, job: &Job, outcome: Outcome<PortRange>) {
        match outcome {
            Outcome::Edited(edited) => {
                if edited.is_done {
                    self.report.edits += 1;
                } else {
                    self.report.refused_edits += 1;
                }
                if !self.is_answer_old && !self.is_misled(server) {
                    self.check_edit(server, job, &edited);
                }
                let [set, picked, cleared] = self.changed(job, &edited);
                if job.dry_run && edited.is_done && !self.calm {
                    let mut next = Job { dry_run: false, ..job.clone() };
                    if job.kind == EditKind::Plan {
                        next.since = edited.revision;
                        next.since_epoch = self.store.epoch;
                    } else {
                        next.clear = cleared;
                    }
                    let delay = self.random.between(self.grace / 8, self.grace);
                    let incarnation = self.servers[server].incarnation;
                    self.after(delay, Event::ListAgain { server, incarnation, job: Box::new(next) });
                } else if job.kind == EditKind::Plan && edited.is_done && !job.dry_run {
                    let (revision, epoch) = (edited.revision, self.store.epoch);
                    self.journals.push(Journal { set: set | picked, cleared, revision, epoch });
                    let other = self.random.below(self.servers.len() as u64) as usize;
                    let delay = self.random.below(self.interval);
                    self.after(delay, Event::Operate(other));
                }
            }
            Outcome::Failed(Failure::ServicesWritten { .. }) if !self.calm => self.list_for(server, job.clone()),
            _ => {}
        }
    }

    /// What an edit has set by name, picked, and cleared.
    fn changed(&self, job: &Job, edited: &Edited<PortRange>) -> [Mask; 3] {
        let bit = |value: u16| self.store.layout.bit(u32::from(value - LOW)).map_or(0, |bit| 1 << bit);
        let of = |wanted: Fate| {
            let all = edited.values.iter().filter(|(_, fate)| *fate == wanted);
            all.fold(0, |all, (value, _)| all | bit(*value))
        };
        let set: Mask = of(Fate::Set);
        [set & job.set, set & !job.set, of(Fate::Cleared)]
    }

    fn check_edit(&mut self, server: usize, job: &Job, edited: &Edited<PortRange>) {
        let [set, picked, cleared] = self.changed(job, edited);
        let fail = |world: &mut Self, why: &str| {
            world.fail(Invariant::I19, format!("{job:?} of server {server} ends as {edited:?}, and {why}"));
        };
        let is_exact = job.kind != EditKind::Undo;
        if is_exact && edited.is_done {
            let free = |fate: &Fate| job.kind == EditKind::Change && *fate == Fate::AlreadyClear;
            if edited.values.iter().any(|(_, fate)| !matches!(fate, Fate::Set | Fate::Cleared) && !free(fate)) {
                return fail(self, "not all of it is done");
            }
        }
        if job.dry_run || !edited.is_done || set | picked | cleared == 0 {
            return;
        }
        if self.store.common_with(job.epoch) < job.listed() {
            return fail(self, "Services were listed in another store");
        }
        let Some(at) = self.servers[server].written else { return fail(self, "nothing was written") };
        let log = &self.store.log;
        let (mask, before) = (log[at].mask, at.checked_sub(1).map_or(0, |before| log[before].mask));
        let revision = log[at].revision;
        if mask & (set | picked) != set | picked
            || before & (set | picked) != 0
            || mask & cleared != 0
            || before & cleared != cleared
        {
            return fail(self, "that was not written");
        }
        let used = self.store.services.values_at(revision);
        if used & (picked | cleared) != 0 {
            return fail(self, "a Service uses what it picks or frees");
        }
        if job.kind == EditKind::Change && self.store.services.values_at(job.listed()) & set != 0 {
            return fail(self, "a Service used what it sets");
        }
        if job.kind == EditKind::Plan && set & !self.store.services.values_at(job.listed()) != 0 {
            return fail(self, "no Service used what it sets");
        }
        let is_own = job.since_epoch == self.store.epoch;
        let is_broken = |offset| !self.store.in_use_throughout(offset, job.since, revision - 1);
        if job.needs_history() && is_own && bits(cleared).any(is_broken) {
            return fail(self, "what it frees was free for a moment");
        }
        if self.store.witness.is_some_and(|(created, _)| created <= revision) && cleared != 0 {
            fail(self, "what it frees is not fenced off");
        }
    }
}
