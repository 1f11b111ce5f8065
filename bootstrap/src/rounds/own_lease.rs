//! What a server knows of its own lease.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::Periods;
use crate::leases::{Fault, Lease, StoredLease, check};
use crate::modes::Stage;
use crate::request::Request;

/// The own lease, as far as its last write is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnLease {
    known: Option<Known>,
    /// The generations of the puts since the last known one whose end is not known.
    doubt: Option<RangeInclusive<i64>>,
    /// How many puts have followed each other since somebody else wrote the key in between; `None` if nobody has.
    undisturbed: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    generation: i64,
    /// The revision of the key; `None` if it has to be read first.
    mod_revision: Option<u64>,
}

/// A put of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refresh {
    pub(crate) generation: i64,
    value: Vec<u8>,
    mod_revision: u64,
    /// It goes on from the last put, without a read in between.
    is_next: bool,
}

impl Refresh {
    /// The request that puts it.
    pub(crate) fn request(&self, key: String, ttl: Duration) -> Request {
        let Self { value, mod_revision, .. } = self;
        Request::PutLease { key, value: value.clone(), ttl_seconds: ttl.as_secs(), mod_revision: *mod_revision }
    }
}

/// What comes after the key of the own lease was read.
pub(crate) enum Next {
    /// It is put, and then the endpoints are reconciled.
    Put(Refresh),
    /// It is deleted, and then the own address taken out of the endpoints.
    Delete {
        /// The revision that it must have.
        mod_revision: u64,
    },
    /// It is gone, and the own address is taken out of the endpoints.
    Endpoints,
    /// It was not left behind, so neither was the address.
    Nothing,
    /// Either another server has this address and lives, or it is left from before and runs out soon.
    LeftToOther,
}

impl OwnLease {
    /// As somebody knows it who knows the generation of the last put only; 0 if there was none.
    pub(crate) fn of_generation(generation: i64) -> Self {
        let known = (generation > 0).then_some(Known { generation, mod_revision: None });
        Self { known, ..Self::default() }
    }

    /// What comes after the key was read, and what is wrong with it.
    pub(crate) fn next(
        &mut self,
        stage: Stage,
        address: &str,
        read: Option<&StoredLease>,
        periods: &Periods,
    ) -> (Next, Option<Fault>) {
        let fault = read.and_then(|read| self.fault(address, read));
        let is_damaged = fault.as_ref().is_some_and(|fault| !matches!(fault, Fault::Shared { .. }));
        let next = match (stage, read) {
            (Stage::Run, read) => Next::Put(self.refresh_on(address, read)),
            (Stage::Start, None) => Next::Nothing,
            (Stage::Stop, None) => Next::Endpoints,
            (Stage::Stop, Some(read)) if !is_damaged && !self.is_own(read, periods) => Next::LeftToOther,
            (Stage::Start | Stage::Stop, Some(read)) => Next::Delete { mod_revision: read.mod_revision },
        };
        (next, fault)
    }

    /// The next put, if the key's revision is known.
    pub(super) fn refresh(&self, address: &str) -> Option<Refresh> {
        let known = self.known?;
        Some(Refresh { is_next: true, ..put(address, known.generation, known.mod_revision?) })
    }

    /// The next put on what was read.
    fn refresh_on(&self, address: &str, read: Option<&StoredLease>) -> Refresh {
        let decoded = read.and_then(|read| Lease::decode(&read.value).ok());
        let generation = decoded.map_or(0, |lease| lease.generation);
        let generation = generation.max(self.known.map_or(0, |known| known.generation));
        put(address, generation, read.map_or(0, |read| read.mod_revision))
    }

    /// The put took place.
    pub(super) fn written(&mut self, refresh: Refresh, mod_revision: u64) {
        self.known = Some(Known { generation: refresh.generation, mod_revision: Some(mod_revision) });
        self.doubt = None;
        if let (Some(puts), true) = (&mut self.undisturbed, refresh.is_next) {
            *puts = puts.saturating_add(1);
        }
    }

    /// The put may have taken place.
    pub(super) fn in_doubt(&mut self, refresh: Refresh) {
        let first = self.doubt.take().map_or(refresh.generation, |doubt| *doubt.start());
        self.doubt = Some(first..=refresh.generation);
        self.out_of_date();
    }

    /// The key has to be read before the next put.
    pub(super) fn out_of_date(&mut self) {
        if let Some(known) = &mut self.known {
            known.mod_revision = None;
        }
    }

    /// The key is deleted.
    pub(super) fn deleted(&mut self) {
        *self = Self::default();
    }

    /// Whether the key that was read is this server's alone, to be deleted. Another one that lives writes it before its
    /// lease runs out, but not between any two puts.
    fn is_own(&self, read: &StoredLease, periods: &Periods) -> bool {
        let has_outlived = |puts: u32| periods.endpoints.saturating_mul(puts) > periods.lease_ttl;
        self.undisturbed.is_none_or(has_outlived) && self.wrote(read)
    }

    /// Whether what was read is what this server wrote: by the last put that is known, or by one after it.
    fn wrote(&self, read: &StoredLease) -> bool {
        if self.known.and_then(|known| known.mod_revision) == Some(read.mod_revision) {
            return true;
        }
        let Ok(Lease { generation, .. }) = Lease::decode(&read.value) else { return false };
        self.known.is_some_and(|known| generation == known.generation)
            || self.doubt.as_ref().is_some_and(|doubt| doubt.contains(&generation))
    }

    /// What is wrong with the key as it was read. Whoever wrote it after this server went on from its generation: a
    /// lower one comes from before, out of a backup.
    fn fault(&mut self, address: &str, read: &StoredLease) -> Option<Fault> {
        let (_, fault) = check(read, Some(address));
        if fault.is_some() || self.wrote(read) {
            return fault;
        }
        let generation = Lease::decode(&read.value).map_or(0, |lease| lease.generation);
        let known = self.known?;
        if generation <= known.generation {
            return None;
        }
        self.undisturbed = Some(0);
        Some(Fault::Shared { key: read.key.clone() })
    }
}

fn put(address: &str, generation: i64, mod_revision: u64) -> Refresh {
    let generation = generation.max(0).checked_add(1).unwrap_or(1);
    let value = Lease { address: address.into(), generation }.encode();
    Refresh { generation, value, mod_revision, is_next: false }
}
