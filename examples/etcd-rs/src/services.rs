//! Services in the store of their ranges: the order of allocation, write and release, in which a crash at any point
//! leaves at worst a leak, and the conditions of each write (docs/commit-protocol.md, "The write of a Service").
//!
//! Rules for the fields of a Service, and its stored form, are those of the caller.

use std::sync::Arc;
use std::time::Duration;

use rangekeeper::address::family_name;
use rangekeeper::allocator::{AllocateError, BatchError, Request};
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::audit::Report;
use rangekeeper::commit::{self, Config, LeakTracker};
use rangekeeper::{CidrRange, PortRange, Range, Service};

use crate::kv::{Answer, Condition, Field, Kv, Op, Stored, Trouble, Txn, Write};
use crate::repair::{self, Outcome};
use crate::store::{self, Allocation, Owner, Store};

/// The time limit of an operation on a range.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Shows a stored Service to a function, or returns why it cannot be read.
pub type Show = fn(&Stored, &mut dyn FnMut(&Service<'_>)) -> Result<(), String>;

/// The Services of a cluster, under the keys of kube-apiserver.
pub struct Services {
    kv: Arc<dyn Kv>,
    prefix: String,
    ranges: Vec<Store<AnyRange>>,
    show: Show,
}

/// A value that a Service needs.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The place of the range: those of ClusterIPs come first, as they were named, and that of node ports last.
    pub range: usize,
    /// Which value.
    pub request: Request<AnyValue>,
}

/// Why a Service was not read, written or deleted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of this name.
    #[error("Service {0} is not there")]
    NotFound(String),
    /// There is one of this name.
    #[error("Service {0} is there already")]
    AlreadyExists(String),
    /// A named value cannot be allocated.
    #[error("{why}")]
    Value {
        /// The place of the [`Wanted`].
        wanted: usize,
        /// The value.
        value: AnyValue,
        /// Why.
        why: AllocateError<AnyRange>,
    },
    /// Nothing was written, and the caller tries again.
    #[error("nothing was written, try again: {0}")]
    Again(String),
    /// The write may have taken effect, or may yet. What it allocated is in use then; else the repair clears it.
    #[error("the write has an unknown outcome: {0}")]
    Unknown(Trouble),
    /// A range has failed, or is full. Nothing was written.
    #[error("{0}: {1}")]
    Range(String, store::Error<AnyRange>),
    /// Services were not read.
    #[error("{0}")]
    Unread(Trouble),
    /// A Service cannot be decoded, or encoded.
    #[error("{0}: {1}")]
    Coding(String, String),
}

/// The values that were allocated together, with the place of their range.
type Taken = (usize, Allocation<AnyValue>);

impl Services {
    /// The Services below a prefix such as `/registry`, with a range of ClusterIPs or one for each IP family; `None` if
    /// they are others.
    pub fn new(
        kv: Arc<dyn Kv>,
        prefix: &str,
        cluster_ips: &[CidrRange],
        node_ports: PortRange,
        config: Config,
        show: Show,
    ) -> Option<Self> {
        match cluster_ips {
            [_] => {}
            [first, second] if first.is_ipv4() != second.is_ipv4() => {}
            _ => return None,
        }
        let open = |name: &str, range: AnyRange| {
            Store::open(Arc::clone(&kv), &format!("{prefix}/ranges/{name}"), range, config, TIMEOUT).0
        };
        let names = ["serviceips", "secondaryserviceips"];
        let mut ranges: Vec<_> =
            names.iter().zip(cluster_ips).map(|(name, range)| open(name, (*range).into())).collect();
        ranges.push(open("servicenodeports", node_ports.into()));
        Some(Self { prefix: format!("{prefix}/services/specs/"), kv, ranges, show })
    }

    /// The IP families of the ranges of ClusterIPs, as Kubernetes names them.
    pub fn families(&self) -> Vec<&'static str> {
        let family = |store: &Store<AnyRange>| match store.range() {
            AnyRange::Cidr(range) => Some(family_name(range.network().ip())),
            AnyRange::Ports(_) | AnyRange::Numbers(_) => None,
        };
        self.ranges.iter().filter_map(family).collect()
    }

    /// A Service by its namespace and name, `NAMESPACE/NAME`.
    pub async fn get(&self, name: &str) -> Result<Stored, Error> {
        let (_, found) = self.kv.list(self.key(name), None).await.map_err(Error::Unread)?;
        found.into_iter().next().ok_or_else(|| Error::NotFound(name.to_owned()))
    }

    /// The Services of a namespace, `NAMESPACE/`, or of all with the empty text, and the revision of the list.
    pub async fn list(&self, namespace: &str) -> Result<(Vec<Stored>, u64), Error> {
        let (header, found) = self.kv.list(self.key(namespace), None).await.map_err(Error::Unread)?;
        Ok((found, header.revision))
    }

    /// Creates a Service. `make` returns its value with the values that were allocated, which are in the order of
    /// `wanted`. Returns its revision. A dry run allocates and writes nothing, and returns `None`.
    pub async fn create(
        &self,
        name: &str,
        wanted: &[Wanted],
        dry_run: bool,
        make: impl FnOnce(Vec<AnyValue>) -> Result<Vec<u8>, String>,
    ) -> Result<Option<u64>, Error> {
        let connections = self.kv.connections();
        let mut taken = Vec::new();
        let written = match self.allocate(wanted, dry_run, &mut taken).await.map(make) {
            Ok(Ok(_)) if dry_run => return Ok(None),
            Ok(Ok(value)) => self.write(name, value, &taken, connections).await,
            Ok(Err(error)) => Err(Error::Coding(name.to_owned(), error)),
            Err(error) => Err(error),
        };
        for (range, allocation) in taken {
            match &written {
                Ok(_) => self.ranges[range].written(allocation.values),
                // They may be in use.
                Err(Error::Unknown(_)) => {}
                Err(_) => self.release(allocation.values, allocation.owner, connections).await,
            }
        }
        written.map(Some)
    }

    /// Deletes a Service, releases its values, and returns it as it was.
    pub async fn delete(&self, name: &str) -> Result<Stored, Error> {
        loop {
            let connections = self.kv.connections();
            let stored = self.get(name).await?;
            let mut values = Vec::new();
            let mut claim = |service: &Service<'_>| {
                values.extend(service.claims().filter_map(|claim| claim.value()));
            };
            (self.show)(&stored, &mut claim).map_err(|error| Error::Coding(stored.key.clone(), error))?;
            values.dedup();
            let revision = stored.state.mod_revision;
            let when = vec![Condition::new(&*stored.key, Field::ModRevision, Op::Equal, revision)];
            let then = vec![Write::Delete(stored.key.clone())];
            let answer = self.txn(Txn { when, then, or_read: None, over: Some(connections) }).await?;
            // Else it was updated meanwhile.
            if answer.held {
                let owner = Owner { oldest: revision, ..Owner::at(answer.header.revision) };
                self.release(values, owner, connections).await;
                return Ok(stored);
            }
        }
    }

    /// Makes a repair pass. `now` is the time since a moment before the first one.
    pub async fn repair(
        &self,
        leaks: &mut LeakTracker,
        now: Duration,
    ) -> Result<(Report, Vec<Outcome>), repair::Error> {
        let observe = |audit: &mut rangekeeper::Audit, stored: &Stored| {
            (self.show)(stored, &mut |service| audit.observe(service))
        };
        repair::pass(&*self.kv, &self.ranges, &self.prefix, leaks, now, observe).await
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Allocates what is wanted, with one operation for each range.
    async fn allocate(&self, wanted: &[Wanted], dry_run: bool, taken: &mut Vec<Taken>) -> Result<Vec<AnyValue>, Error> {
        let mut values = vec![None; wanted.len()];
        for (range, store) in self.ranges.iter().enumerate() {
            let of_range = wanted.iter().enumerate().filter(|(_, wanted)| wanted.range == range);
            let (places, requests): (Vec<_>, Vec<_>) = of_range.map(|(place, wanted)| (place, wanted.request)).unzip();
            if places.is_empty() {
                continue;
            }
            let picked = if dry_run {
                store.dry_run(requests).await
            } else {
                let allocation = store.allocate(requests).await;
                allocation.map(|allocation| {
                    taken.push((range, allocation.clone()));
                    allocation.values
                })
            };
            let picked = picked.map_err(|error| failed(store, error, &places))?;
            places.into_iter().zip(picked).for_each(|(place, value)| values[place] = Some(value));
        }
        Ok(values.into_iter().flatten().collect())
    }

    /// Writes a new Service, if what was allocated for it is certainly still its own.
    async fn write(&self, name: &str, value: Vec<u8>, taken: &[Taken], connections: u64) -> Result<u64, Error> {
        let key = self.key(name);
        let mut when = vec![Condition::new(&*key, Field::Version, Op::Equal, 0)];
        when.extend(taken.iter().flat_map(|(range, allocation)| self.ranges[*range].conditions(allocation)));
        let txn = Txn { when, then: vec![Write::Put(key.clone(), value)], or_read: Some(key), over: Some(connections) };
        let Answer { header, held, found } = self.txn(txn).await?;
        match found {
            _ if held => Ok(header.revision),
            Some(_) => Err(Error::AlreadyExists(name.to_owned())),
            None => Err(Error::Again("a repair pass has begun meanwhile".to_owned())),
        }
    }

    /// Performs a transaction over the connection with which its request began: over another one, the store may be one
    /// with the same revisions and other Services.
    async fn txn(&self, txn: Txn) -> Result<Answer, Error> {
        // A transaction that etcd refuses may have taken effect: it performs one that exceeds its quota.
        self.kv.txn(txn).await.map_err(|trouble| match trouble {
            Trouble::Reconnected => Error::Again(trouble.to_string()),
            trouble => Error::Unknown(trouble),
        })
    }

    /// Releases values on behalf of their owner. A value that is not released is left to the repair.
    async fn release(&self, values: Vec<AnyValue>, owner: Owner, connections: u64) {
        for value in values {
            let range = self.ranges.iter().find(|store| store.range().offset_of(value).is_some());
            // The revisions of the owner may be those of another store by now.
            if let Some(store) = range.filter(|_| self.kv.connections() == connections) {
                let _ = store.release(value, owner).await;
            }
        }
    }
}

fn failed(store: &Store<AnyRange>, error: store::Error<AnyRange>, places: &[usize]) -> Error {
    if let store::Error::Failed(commit::Failure::Allocate(BatchError::Allocate { index, source: why })) = &error
        && let AllocateError::AlreadyAllocated { value } | AllocateError::NotInRange { value, .. } = *why
    {
        return Error::Value { wanted: places[*index], value, why: *why };
    }
    Error::Range(store.key().to_owned(), error)
}
