//! What is known of an address between its reservation and the moment when the watch has reported its object.

use std::time::Duration;

/// An address that is taken though its object may not have been observed.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    /// The reservation that has not ended.
    reservation: Option<u64>,
    /// When the reservation ends.
    until: Duration,
    /// The revision of the latest creation that was confirmed and has not been observed.
    created: Option<u64>,
    /// Whether the last observation of the address was an object.
    is_there: bool,
    /// The revision up to which the address was observed.
    observed: u64,
    /// Whether another client has created the object, as the API server has said.
    already_exists: bool,
}

impl InFlight {
    /// The flight of a reservation of a free address, while everything up to a revision was observed.
    pub(super) fn reserved(id: u64, until: Duration, observed: u64) -> Self {
        Self { reservation: Some(id), until, created: None, is_there: false, observed, already_exists: false }
    }

    /// The flight of an object whose creation is confirmed without a reservation.
    pub(super) fn created(revision: u64, is_there: bool, observed: u64) -> Self {
        Self {
            reservation: None,
            until: Duration::ZERO,
            created: Some(revision),
            is_there,
            observed,
            already_exists: false,
        }
    }

    /// Records that an object was created.
    pub(super) fn created_at(&mut self, revision: u64) {
        if revision > self.observed {
            self.created = self.created.max(Some(revision));
        }
    }

    /// Ends this reservation.
    pub(super) fn end(&mut self, id: u64) {
        self.reservation = self.reservation.filter(|reservation| *reservation != id);
    }

    /// Records that another client has created the object. The reservation then ends when an object is observed: a
    /// removal may be that of an earlier object.
    pub(super) fn already_exists(&mut self, id: u64) {
        self.already_exists |= self.reservation == Some(id);
    }

    /// Records an observation. What is older than a confirmed creation does not end the flight.
    pub(super) fn observe(&mut self, is_there: bool, revision: u64) {
        self.is_there = is_there;
        self.observed = self.observed.max(revision);
        self.created = self.created.filter(|created| *created > revision);
    }

    /// Ends the reservation if its time is over at `now`, and returns whether it did.
    ///
    /// So does the wait for a creation, if later revisions were observed: an informer that lists after a watch gap does
    /// not report an object that was created and removed in the gap.
    pub(super) fn expire(&mut self, now: Duration, observed: u64) -> bool {
        if self.until > now {
            return false;
        }
        self.created = self.created.filter(|created| *created > observed);
        self.reservation.take().is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        let has_reservation = self.reservation.is_some() && !(self.already_exists && self.is_there);
        !has_reservation && self.created.is_none()
    }

    /// Whether the address stays taken when the flight is over.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }
}
