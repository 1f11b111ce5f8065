//! A repair pass over the stored ranges of a cluster: it creates ranges that are missing, sets values that Services
//! use, and clears leaks.
//!
//! A [`RepairPass`](rangekeeper::commit::RepairPass) makes all decisions. What it and the committers tell each other is
//! plain data, see [`rangekeeper::commit::exchange`], as each committer belongs to another task.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::time::Duration;

use rangekeeper::Audit;
use rangekeeper::any::AnyRange;
use rangekeeper::audit::Report;
use rangekeeper::commit::{LeakTracker, PassError, Repaired, ServiceList};

use crate::kv::{self, Kv, Stored, Trouble, Txn, Write};
use crate::store::{self, Store};

/// Why a pass failed. The next one starts from the beginning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A range was not read, or not repaired.
    #[error("{0}: {1}")]
    Range(String, store::Error<AnyRange>),
    /// The fence was not written, or Services not listed.
    #[error("{0}: {1}")]
    Store(&'static str, Trouble),
    /// A Service cannot be read. What it has must not be taken for a leak.
    #[error("{0}: {1}")]
    Service(String, String),
    /// The steps of the pass are wrong.
    #[error(transparent)]
    Pass(#[from] PassError),
}

/// What a pass did to one range.
pub type Outcome = Result<Repaired<AnyRange>, store::Error<AnyRange>>;

/// Makes one pass over the ranges of a store. `services` is the prefix of the keys of Services, which ends in a slash,
/// `leaks` is what is known from the passes before, and `now` is the time since a moment before the first one.
///
/// `observe` shows a stored Service to the audit, or returns why it cannot be read, which ends the pass. Returns what
/// was found, and for each range what was done: if one is not repaired, the others are.
pub async fn pass(
    kv: &dyn Kv,
    ranges: &[Store<AnyRange>],
    services: &str,
    leaks: &mut LeakTracker,
    now: Duration,
    observe: impl FnMut(&mut Audit, &Stored) -> Result<(), String>,
) -> Result<(Report, Vec<Outcome>), Error> {
    let mut looks = Vec::new();
    let result = steps(kv, ranges, services, leaks, now, observe, &mut looks).await;
    if !looks.is_empty() {
        // Without an answer they go by themselves.
        let _ = kv.txn(Txn { then: looks, ..Txn::default() }).await;
    }
    result
}

async fn steps(
    kv: &dyn Kv,
    ranges: &[Store<AnyRange>],
    services: &str,
    leaks: &mut LeakTracker,
    now: Duration,
    mut observe: impl FnMut(&mut Audit, &Stored) -> Result<(), String>,
    looks: &mut Vec<Write>,
) -> Result<(Report, Vec<Outcome>), Error> {
    let mut pass = leaks.start();
    let mut fenced = Vec::new();
    for store in ranges {
        let (range, failed) = (store.range(), |error| Error::Range(store.key().to_owned(), error));
        pass.begin_range(leaks, range)?;
        store.show(|committer| committer.keep_history(true)).await.map_err(failed)?;
        let view = store.read().await.map_err(failed)?;
        let since = pass.since(leaks, range, view.revision)?;
        let followed = store.show(move |committer| committer.followed(&since)).await.map_err(failed)?;
        if pass.read_range(leaks, range, &followed, &view, now)? {
            fenced.push(store);
        }
    }

    // One transaction has the fences of all ranges, and a look below each of them.
    let mut at = None;
    if !fenced.is_empty() {
        let look = NonZeroU64::MIN | RandomState::new().hash_one(0);
        let keys = || ranges.iter().map(|store| kv::look(store.key(), look));
        let mut then: Vec<_> = fenced.iter().map(|store| Write::Delete(kv::witness(store.key()))).collect();
        then.extend(keys().map(|key| Write::Mark { key, temporary: true }));
        looks.extend(keys().map(Write::Delete));
        let written = kv.txn(Txn { then, ..Txn::default() }).await;
        let revision = written.map_err(|error| Error::Store("write the fence", error))?.header.revision;
        for store in fenced {
            pass.fenced_range(leaks, store.range(), revision, look)?;
        }
        at = Some(revision);
    }

    let mut audit = Audit::new();
    let listing = pass.audit(leaks, &mut audit)?;
    let listed = kv.list(services.to_owned(), at).await;
    let (header, services) = listed.map_err(|error| Error::Store("list Services", error))?;
    for service in &services {
        observe(&mut audit, service).map_err(|error| Error::Service(service.key.clone(), error))?;
    }
    let (found, report) = listing.finish(leaks, audit)?;

    let mut repaired = Vec::new();
    for store in ranges {
        let (range, failed) = (store.range(), |error| Error::Range(store.key().to_owned(), error));
        let due = found.due(leaks, range)?.clone();
        let handed_out = store.show(move |committer| committer.handed_out(&due)).await.map_err(failed)?;
        let (diff, follow) = found.diff_of(leaks, range, &handed_out, ServiceList::At(header.revision))?;
        store.show(move |committer| committer.follow(&follow)).await.map_err(failed)?;
        repaired.push(store.repair(diff).await);
    }
    Ok((report, repaired))
}
