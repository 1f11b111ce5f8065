//! What a server knows about its own lease.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::Periods;
use crate::journal::Restored;
use crate::leases::{Fault, Lease, StoredLease, check};
use crate::modes::Stage;
use crate::request::Request;

/// The state of the own lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnLease {
    known: Option<Known>,
    /// The generations of puts with an unknown outcome since the last known one.
    unknown: Option<RangeInclusive<i64>>,
    /// The number of puts without a foreign write in between since the last foreign write; `None` if there was none.
    undisturbed: Option<u32>,
    /// The newest revision of the store at which the key was put or read.
    reached: u64,
    /// The store has answered with an older one since: it was restored. Not reported yet.
    restored: Option<Restored>,
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
    /// It follows the last put without a read in between.
    is_next: bool,
}

impl Refresh {
    /// The request that puts it.
    pub(crate) fn request(&self, key: String, ttl: Duration) -> Request {
        let Self { value, mod_revision, .. } = self;
        Request::PutLease { key, value: value.clone(), ttl_seconds: ttl.as_secs(), mod_revision: *mod_revision }
    }
}

/// The next step after the key of the own lease was read.
pub(crate) enum Next {
    /// Put it, then reconcile the endpoints.
    Put(Refresh),
    /// Delete it, then remove the own address from the endpoints.
    Delete {
        /// The revision that it must have.
        mod_revision: u64,
        /// The lease that it must have.
        lease_id: i64,
    },
    /// It is gone; remove the own address from the endpoints.
    Endpoints,
    /// There is no lease of before, so there is no address either.
    Nothing,
    /// Leave it: either it is a live server's with the same address, or it is of before and expires soon.
    LeftToOther,
}

impl OwnLease {
    /// The state of a server that knows only the generation of its last put; 0 if there was none.
    pub(crate) fn of_generation(generation: i64) -> Self {
        let known = (generation > 0).then_some(Known { generation, mod_revision: None });
        Self { known, ..Self::default() }
    }

    /// The next step after the key was read, and the key's fault.
    pub(crate) fn next(
        &mut self,
        stage: Stage,
        address: &str,
        read: Option<&StoredLease>,
        periods: &Periods,
    ) -> (Next, Option<Fault>) {
        self.reach(read.map_or(self.reached, |read| read.mod_revision));
        let fault = read.and_then(|read| self.fault(address, read));
        let is_damaged = fault.as_ref().is_some_and(|fault| !matches!(fault, Fault::Shared { .. }));
        let next = match (stage, read) {
            (Stage::Run, read) => Next::Put(self.refresh_on(address, read)),
            (Stage::Start, None) => Next::Nothing,
            (Stage::Stop, None) => Next::Endpoints,
            (Stage::Stop, Some(read)) if !is_damaged && !self.is_own(read, periods) => Next::LeftToOther,
            (Stage::Start | Stage::Stop, Some(read)) => {
                Next::Delete { mod_revision: read.mod_revision, lease_id: read.lease_id }
            }
        };
        (next, fault)
    }

    /// The next put, if the key's revision is known.
    pub(super) fn refresh(&self, address: &str) -> Option<Refresh> {
        let known = self.known?;
        Some(Refresh { is_next: true, ..put(address, known.generation, known.mod_revision?) })
    }

    /// The next put after a read.
    fn refresh_on(&self, address: &str, read: Option<&StoredLease>) -> Refresh {
        let decoded = read.and_then(|read| Lease::decode(&read.value).ok());
        let generation = decoded.map_or(0, |lease| lease.generation);
        let generation = generation.max(self.known.map_or(0, |known| known.generation));
        put(address, generation, read.map_or(0, |read| read.mod_revision))
    }

    /// Records that the put took effect.
    pub(super) fn written(&mut self, refresh: Refresh, mod_revision: u64) {
        self.reach(mod_revision);
        self.known = Some(Known { generation: refresh.generation, mod_revision: Some(mod_revision) });
        self.unknown = None;
        if let (Some(puts), true) = (&mut self.undisturbed, refresh.is_next) {
            *puts = puts.saturating_add(1);
        }
    }

    /// Records a revision that the key has now. It grows with each write, in every history of a store.
    fn reach(&mut self, revision: u64) {
        if revision < self.reached {
            self.restored = Some(Restored { before: self.reached, revision });
        }
        self.reached = revision;
    }

    /// The restore of the store that was noticed since the last call.
    pub(crate) fn take_restored(&mut self) -> Option<Restored> {
        self.restored.take()
    }

    /// Records that the put may have taken effect.
    pub(super) fn unknown(&mut self, refresh: Refresh) {
        let first = self.unknown.take().map_or(refresh.generation, |unknown| *unknown.start());
        self.unknown = Some(first..=refresh.generation);
        self.out_of_date();
    }

    /// Records that the key has to be read before the next put.
    pub(super) fn out_of_date(&mut self) {
        if let Some(known) = &mut self.known {
            known.mod_revision = None;
        }
    }

    /// Records that the key is deleted.
    pub(super) fn deleted(&mut self) {
        *self = Self::default();
    }

    /// Whether the key is this server's alone and can be deleted. Another live server with this address writes it
    /// before the lease expires, though not between any two puts of ours.
    fn is_own(&self, read: &StoredLease, periods: &Periods) -> bool {
        let has_outlived = |puts: u32| periods.endpoints.saturating_mul(puts) > periods.lease_ttl;
        self.undisturbed.is_none_or(has_outlived) && self.wrote(read)
    }

    /// Whether this server wrote the key that was read, by its last known put or one after it.
    fn wrote(&self, read: &StoredLease) -> bool {
        let Ok(Lease { generation, .. }) = Lease::decode(&read.value) else { return false };
        self.known.is_some_and(|known| generation == known.generation)
            || self.unknown.as_ref().is_some_and(|unknown| unknown.contains(&generation))
    }

    /// The fault of the key that was read. A foreign write after ours has a higher generation; a lower one is from
    /// before, out of a backup.
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
