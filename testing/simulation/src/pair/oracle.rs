//! What must hold of values of two ranges that one request holds.

use std::fmt::Write as _;

use crate::store::{Mask, Writer, bits};
use crate::violation::Invariant;

use super::side::Purpose;
use super::{Event, GRACE, INTERVAL, KINDS, Kind, World};

/// How long after a value was given up it is free at the latest, if its release has ended.
const FREED: u64 = INTERVAL / 2;

/// An acknowledged value.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) kind: Kind,
    pub(super) offset: u32,
    pub(super) revision: u64,
    pub(super) use_until: u64,
    /// Whether somebody has it: a request within its grace, or a Service.
    pub(super) is_owned: bool,
    /// Whether it is left to repair: a release was deferred, or its outcome is unknown.
    pub(super) is_left: bool,
}

impl World {
    pub(super) fn acknowledged(
        &mut self,
        kind: Kind,
        server: usize,
        request: usize,
        offset: u32,
        revision: u64,
        use_until: u64,
    ) {
        let bit = 1 << offset;
        let is_right = on!(self, kind, side => {
            let at = side.store.at(revision).filter(|at| side.store.log[*at].revision == revision);
            at.is_some_and(|at| {
                let before = at.checked_sub(1).map_or(0, |before| side.store.log[before].mask);
                let version = &mut side.store.log[at];
                let is_fresh = before & bit == 0 && version.mask & !version.acknowledged & bit != 0;
                version.acknowledged |= bit;
                is_fresh && version.writer == Writer::Server(server)
            })
        });
        if !is_right {
            let message = format!("{kind:?} {offset} is acknowledged at r{revision} without a change, or twice");
            return self.fail(Invariant::I1, message);
        }
        if use_until > self.now + GRACE {
            return self.fail(Invariant::I6, format!("{kind:?} {offset} may be used until {use_until}"));
        }
        self.requests[request].claims.push(self.claims.len());
        self.claims.push(Claim { kind, offset, revision, use_until, is_owned: true, is_left: false });
    }

    /// Values were cleared in a range.
    pub(super) fn check_cleared(&mut self, kind: Kind, cleared: Mask) {
        self.report.cleared += cleared.count_ones();
        for offset in bits(cleared) {
            let owns = |claim: &&Claim| claim.kind == kind && claim.offset == offset && claim.is_owned;
            if let Some(claim) = self.claims.iter().find(owns) {
                let message = format!("{claim:?} is cleared, and has an owner");
                return self.fail(Invariant::I2, message);
            }
        }
    }

    /// A claim is given up for certain: it is free a while later.
    pub(super) fn give_up(&mut self, claim: usize) {
        self.claims[claim].is_owned = false;
        self.after(FREED, Event::Freed(claim));
    }

    /// Whether what was given up is free, or left to repair for a reason.
    pub(super) fn check_freed(&mut self, number: usize) {
        let claim = self.claims[number].clone();
        let purpose = Purpose::Release(number);
        let (since, is_open) = on!(self, claim.kind, side => {
            (side.store.set_since[claim.offset as usize], side.is_open(purpose))
        });
        if since != claim.revision || claim.is_left {
            return;
        }
        if is_open {
            return self.after(FREED, Event::Freed(number));
        }
        self.fail(Invariant::I15, format!("{claim:?} was given up, and nothing has freed it"));
    }

    /// Whether two Services have a value.
    pub(super) fn check_owners(&mut self) {
        for kind in KINDS {
            let mut taken: Mask = 0;
            for service in self.services.iter().filter(|service| service.is_live) {
                for claim in service.claims.iter().map(|claim| &self.claims[*claim]).filter(|claim| claim.kind == kind)
                {
                    if taken >> claim.offset & 1 == 1 {
                        let message = format!("two Services have {kind:?} {}", claim.offset);
                        return self.fail(Invariant::I3, message);
                    }
                    taken |= 1 << claim.offset;
                }
            }
        }
    }

    /// Whether both ranges hold exactly what Services use.
    pub(super) fn check_leaks(&mut self) {
        for kind in KINDS {
            let (stored, in_use) = (self.stored(kind), self.in_use(kind));
            note!(self, "{kind:?}: in use are {in_use:b}, stored {stored:b}");
            if stored != in_use {
                return self.fail(Invariant::I5, format!("{kind:?}: in use are {in_use:b}, stored {stored:b}"));
            }
        }
    }

    /// What Services have of a range.
    fn in_use(&self, kind: Kind) -> Mask {
        let claims = self.services.iter().filter(|service| service.is_live).flat_map(|service| &service.claims);
        let claims = claims.map(|claim| &self.claims[*claim]).filter(|claim| claim.kind == kind);
        claims.fold(0, |mask, claim| mask | 1 << claim.offset)
    }
}
