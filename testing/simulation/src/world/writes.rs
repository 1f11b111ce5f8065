//! How a request writes its Service, and what happens to its values then.

use std::fmt::Write as _;

use crate::faults::ShellFault;
use crate::server::{Origin, Rule};
use crate::store::Mask;
use crate::violation::Invariant;

use super::clients::{Based, Request, What};
use super::event::{Event, Fate, Wish};
use super::{STOCK, State, World};

impl World {
    /// A request writes its Service.
    pub(super) fn write(&mut self, index: usize) {
        let Request { server, incarnation, is_slow, is_over, .. } = self.requests[index];
        if is_over {
            return;
        }
        let is_alive = self.is_alive(server, incarnation);
        let claims = self.requests[index].claims.clone();
        let is_lost = |world: &Self, claim: usize| {
            let claim = &world.claims[claim];
            world.store.set_since[claim.offset as usize] != claim.revision
        };
        if is_slow && !self.conditional && claims.iter().any(|claim| is_lost(self, *claim)) {
            // Others may have it by now: what the grace is for.
            self.report.lost += 1;
            return self.abandon(index);
        }
        let local = self.local(server);
        if !is_slow && is_alive && claims.iter().any(|claim| local >= self.claims[*claim].use_until) {
            return self.roll_back(index, 0);
        }
        for claim in claims {
            // The server's clock paused: its grace was over before it knew.
            if !is_slow && self.now >= self.claims[claim].safe_until {
                self.report.overslept += 1;
                // It may be lost already, or be cleaned as a leak by a pass that has not seen the Service.
                if !self.conditional && (!self.guarded || is_lost(self, claim)) {
                    self.damaged |= 1 << self.claims[claim].offset;
                }
            }
        }
        let fate = match self.random.below(100) {
            _ if self.calm => Fate::Answered,
            _ if !is_alive => Fate::Unknown { is_written: true },
            0..4 => Fate::Rejected,
            4..7 => Fate::Unknown { is_written: true },
            7..10 => Fate::Unknown { is_written: false },
            _ => Fate::Answered,
        };
        self.requests[index].is_over = true;
        let reaches = !matches!(fate, Fate::Rejected | Fate::Unknown { is_written: false });
        let (delay, fate) = match self.random.below(100) {
            _ if self.calm || !self.conditional || !reaches => (0, fate),
            0..10 => (self.random.below(self.interval / 2), fate),
            // The server stops waiting for it long before.
            10..22 => (self.random.below(3 * self.grace / 2), Fate::Unknown { is_written: true }),
            _ => (0, fate),
        };
        if delay == 0 {
            return self.arrive(index, self.store.epoch, fate);
        }
        note!(self, "the write of Service {} will be {delay} us late", self.requests[index].uid);
        self.after(delay, Event::Arrive { request: index, epoch: self.store.epoch, fate });
    }

    /// The write of a Service reaches the store, or does not.
    pub(super) fn arrive(&mut self, index: usize, epoch: u32, fate: Fate) {
        let Request { server, incarnation, .. } = self.requests[index];
        let fate = match fate {
            // The connection was to a store that is gone.
            Fate::Answered | Fate::Unknown { .. } if epoch < self.connected_since => {
                Fate::Unknown { is_written: false }
            }
            Fate::Answered if !self.is_alive(server, incarnation) => Fate::Unknown { is_written: true },
            fate => fate,
        };
        let is_refused = fate != Fate::Rejected && !self.do_conditions_hold(index);
        if is_refused {
            note!(self, "the write of Service {} does not meet its conditions", self.requests[index].uid);
            self.report.refused += 1;
            return if fate == Fate::Answered { self.roll_back(index, 0) } else { self.abandon(index) };
        }
        match self.requests[index].what {
            What::Create { name, shares } => self.write_created(index, name, shares, fate),
            What::Update { based, drops } => self.write_updated(index, based, drops, fate),
            What::Delete { based, finalizes } => self.write_deleted(index, based, finalizes, fate),
        }
    }

    /// Whether what was allocated for a request is certainly still its own, as far as the store shows.
    fn do_conditions_hold(&self, request: usize) -> bool {
        if !self.conditional || ShellFault::ConditionsIgnored.is_on() {
            return true;
        }
        self.requests[request].claims.iter().map(|claim| self.claims[*claim].revision).all(|allocated| {
            let (created, written) = self.store.witness.unwrap_or_default();
            (written >= allocated || ShellFault::RollbackNoCondition.is_on())
                && (created <= allocated || ShellFault::FenceNoCondition.is_on())
        })
    }

    /// A server learns that the Service of a request is written.
    fn knows_written(&mut self, request: usize) {
        let Request { server, incarnation, claims, .. } = self.requests[request].clone();
        for claim in claims {
            let offset = self.claims[claim].offset;
            let known = (self.now, self.servers[server].committer.known().store);
            // Also if the value was lost and the same server has it out again: a committer goes by values.
            for claim in &mut self.claims {
                if (claim.server, claim.incarnation, claim.offset) == (server, incarnation, offset) {
                    claim.known_written = Some(known);
                }
            }
            let value = self.value(offset);
            self.servers[server].committer.written(value);
        }
    }

    fn offsets(&self, request: usize) -> Mask {
        self.requests[request].claims.iter().fold(0, |mask, claim| mask | 1 << self.claims[*claim].offset)
    }

    fn write_created(&mut self, index: usize, name: u32, shares: bool, fate: Fate) {
        let Request { server, uid, .. } = self.requests[index];
        if fate == Fate::Rejected {
            return self.roll_back(index, 0);
        }
        let values = self.offsets(index);
        let shared = if shares { values & values.wrapping_neg() } else { 0 };
        let is_written = fate != Fate::Unknown { is_written: false };
        let revision = is_written.then(|| self.store.create_service(uid, name, values, shared)).flatten();
        match revision {
            Some(revision) => {
                note!(self, "Service {uid} is written with {values:b} at r{revision}");
                self.now_has(index, uid);
                self.plan_service(uid);
                if fate == Fate::Answered {
                    self.knows_written(index);
                }
            }
            None if fate == Fate::Answered => {
                note!(self, "another Service has the name of {uid}");
                return self.roll_back(index, 0);
            }
            None => self.abandon(index),
        }
        if fate != Fate::Answered {
            note!(self, "server {server} does not know whether Service {uid} was written");
            if self.random.percent(50) && self.servers[server].serves() {
                // The client tries again.
                self.create(server, Some(name));
            }
        }
    }

    fn write_updated(&mut self, index: usize, based: Based, drops: Mask, fate: Fate) {
        let Request { server, uid, store, .. } = self.requests[index];
        if fate == Fate::Rejected {
            if ShellFault::FailedUpdateReleases.is_on() {
                self.release_all(
                    server,
                    uid,
                    drops,
                    based.shared,
                    (based.revision, based.revision),
                    Origin { epoch: based.epoch, store },
                );
            }
            return self.roll_back(index, 0);
        }
        let takes = self.offsets(index);
        let values = based.values & !drops | takes;
        let is_written = fate != Fate::Unknown { is_written: false };
        let revision = is_written.then(|| self.store.update_service(uid, based.revision, values)).flatten();
        match revision {
            Some(revision) => {
                note!(self, "Service {uid} is written with {values:b} instead of {:b} at r{revision}", based.values);
                self.no_longer_has(uid, drops);
                self.now_has(index, uid);
                if fate == Fate::Answered {
                    self.knows_written(index);
                }
                if fate == Fate::Answered && !ShellFault::ReleasedBeforeWrite.is_on() {
                    // A dropped value that the range had lost may be the one that was free.
                    self.release_all(
                        server,
                        uid,
                        drops & !takes,
                        based.shared,
                        (revision, based.revision),
                        Origin { epoch: self.store.epoch, store },
                    );
                }
            }
            None if fate == Fate::Answered => {
                note!(self, "Service {uid} has changed: the update of server {server} fails");
                self.roll_back(index, 0);
                if ShellFault::LosingUpdateReleases.is_on() {
                    self.release_all(
                        server,
                        uid,
                        drops,
                        based.shared,
                        (based.revision, based.revision),
                        Origin { epoch: based.epoch, store },
                    );
                }
                if self.random.percent(50) {
                    let delay = self.latency();
                    self.after(delay, Event::Client(uid, Wish::Update));
                }
                return;
            }
            None => self.abandon(index),
        }
        if fate != Fate::Answered {
            note!(self, "server {server} does not know whether Service {uid} was written");
            if ShellFault::UnknownWriteReleases.is_on() {
                self.release_all(
                    server,
                    uid,
                    drops,
                    based.shared,
                    (based.revision, based.revision),
                    Origin { epoch: based.epoch, store },
                );
            }
        }
    }

    fn write_deleted(&mut self, index: usize, based: Based, finalizes: bool, fate: Fate) {
        let Request { server, uid, store, .. } = self.requests[index];
        if fate == Fate::Rejected {
            return;
        }
        let is_written = fate != Fate::Unknown { is_written: false };
        let deleted = is_written.then(|| self.store.delete_service(uid)).flatten();
        if let Some((last, revision)) = deleted {
            note!(self, "Service {uid} with {:b} is deleted at r{revision}", last.values);
            self.no_longer_has(uid, last.values);
            if fate == Fate::Answered {
                let shared = self.store.services.get(uid).map_or(0, |service| service.shared);
                self.release_all(
                    server,
                    uid,
                    last.values,
                    shared,
                    (revision, last.revision),
                    Origin { epoch: self.store.epoch, store },
                );
            }
        } else if fate == Fate::Answered && finalizes {
            note!(self, "server {server} finds Service {uid} deleted already");
            let rule = if ShellFault::NotFoundReleasesAsOfNow.is_on() { Rule::Read } else { Rule::Service };
            let revisions = (based.revision, based.revision);
            self.release_by(
                rule,
                server,
                uid,
                based.values,
                based.shared,
                revisions,
                Origin { epoch: based.epoch, store },
            );
        }
        if fate != Fate::Answered {
            note!(self, "server {server} does not know whether Service {uid} was deleted");
            if ShellFault::UnknownWriteReleases.is_on() {
                let revisions = (based.revision, based.revision);
                self.release_all(
                    server,
                    uid,
                    based.values,
                    based.shared,
                    revisions,
                    Origin { epoch: based.epoch, store },
                );
            } else if self.random.percent(50) {
                let delay = self.latency();
                self.after(delay, Event::Client(uid, Wish::Delete));
            }
        }
    }

    /// Whether a value with which a Service is written is still the one that was allocated for it. The conditions do
    /// not show a stock kube-apiserver's or somebody's clears, nor a restored store that has got as far as the one
    /// before.
    fn check_own(&mut self, claim: usize) {
        let claim = &self.claims[claim];
        let is_lost = self.store.set_since[claim.offset as usize] != claim.revision;
        // Nobody is given a value while there is no range; the pass that recreates it finds the Service.
        let is_nobodys = self.store.key().is_none();
        if !self.conditional || !is_lost || is_nobodys || claim.server == STOCK {
            return;
        }
        let is_other = claim.origin.epoch != self.store.epoch;
        let is_hidden = is_other && self.store.witness.is_some_and(|(_, written)| written >= claim.revision);
        let is_hidden = is_hidden || claim.revision < self.recreated;
        if is_hidden || self.harmed >> claim.offset & 1 == 1 {
            self.damaged |= 1 << claim.offset;
            return;
        }
        let message = format!("a Service is written with {claim:?}, which is not its own any more");
        self.fail(Invariant::I16, message);
    }

    /// A Service was written with what was allocated for a request.
    pub(super) fn now_has(&mut self, request: usize, uid: u32) {
        for claim in self.requests[request].claims.clone() {
            let offset = self.claims[claim].offset;
            self.check_own(claim);
            self.claims[claim].state = State::Live;
            let has = |values: Mask| values >> offset & 1 == 1;
            let others = self.store.services.live().any(|other| other.uid != uid && has(other.state().values));
            if others {
                if self.damaged >> offset & 1 == 0 {
                    return self.fail(Invariant::I3, format!("two Services have offset {offset}"));
                }
                self.report.damage += 1;
            }
        }
    }

    /// A Service was written without these values, or deleted.
    pub(super) fn no_longer_has(&mut self, uid: u32, values: Mask) {
        for claim in &mut self.claims {
            if claim.uid == uid && claim.state == State::Live && values >> claim.offset & 1 == 1 {
                claim.state = State::Ended;
            }
        }
    }
}
