//! What a shell is asked to do, and what it answers.

use serde::{Deserialize, Serialize};

use crate::leases::StoredLease;
use crate::object::{Object, ObjectKey};

/// A range whose repair passes the lifecycle starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Repair {
    /// The ranges of ClusterIPs.
    #[serde(rename = "clusterIPs")]
    ClusterIps,
    /// The range of NodePorts.
    #[serde(rename = "nodePorts")]
    NodePorts,
}

/// One thing to do. In JSON: an object with one field, named after the thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    /// Get this path from the API server. [`Answer::Done`] if the status is 200, else [`Answer::Failed`].
    Ready {
        /// `/healthz` or `/readyz`.
        path: String,
    },
    /// Run one repair pass. [`Answer::Done`] or [`Answer::Failed`].
    Repair(Repair),
    /// Read an object. [`Answer::Object`] or [`Answer::NotFound`].
    Get {
        /// Which one.
        object: ObjectKey,
        /// Whether it must come from the API server itself: what a cache had was out of date.
        fresh: bool,
    },
    /// Create an object. [`Answer::Done`], [`Answer::AlreadyExists`], or [`Answer::NotFound`] (its namespace).
    Create(Object),
    /// Write an object whole; it names the resourceVersion that it was read with. [`Answer::Done`],
    /// [`Answer::Conflict`] or [`Answer::NotFound`].
    Update(Object),
    /// Delete an object if it still has this UID and resourceVersion (preconditions). [`Answer::Done`],
    /// [`Answer::Conflict`] or [`Answer::NotFound`].
    Delete {
        /// Which one.
        object: ObjectKey,
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// Read a key of etcd, linearizably. [`Answer::Leases`] with one or none.
    GetLease {
        /// The key.
        key: String,
    },
    /// Read all keys of etcd with this prefix, linearizably. [`Answer::Leases`].
    ListLeases {
        /// The prefix.
        prefix: String,
    },
    /// Put a key with a new lease of etcd, in a transaction that checks the key's revision. [`Answer::Written`] or
    /// [`Answer::Conflict`].
    PutLease {
        /// The key.
        key: String,
        /// The value; base64 in JSON.
        #[serde(with = "crate::bytes")]
        value: Vec<u8>,
        /// For how long the lease is granted.
        ttl_seconds: u64,
        /// The modification revision that the key must have; 0 if there must be no key.
        mod_revision: u64,
    },
    /// Delete a key of etcd, in a transaction that checks its revision. [`Answer::Done`] or [`Answer::Conflict`].
    DeleteLease {
        /// The key.
        key: String,
        /// The modification revision that the key must have.
        mod_revision: u64,
    },
}

/// How a request ended. In JSON: the name, or an object with one field of that name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// It was done.
    Done,
    /// A write that was not performed, because this is a dry run. What follows is decided as if it had been.
    Skipped,
    /// The object that was asked for.
    Object(Object),
    /// There is no such object; for a create: no such namespace.
    NotFound,
    /// There is such an object already.
    AlreadyExists,
    /// The object or the key is not the one that was read any more.
    Conflict,
    /// The keys that were asked for.
    Leases(Vec<StoredLease>),
    /// The key was put.
    Written {
        /// At this revision.
        mod_revision: u64,
    },
    /// Anything else.
    Failed(Failure),
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error("{message}")]
pub struct Failure {
    /// The kind of reason: each one is reported once as long as it lasts.
    pub reason: Reason,
    /// What a person reads.
    pub message: String,
}

/// Kinds of reasons for which something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// Nobody answered, or not in time. A write may have taken place.
    Unanswered,
    /// The API server answers that it has too much to do or an error inside (429, 5xx), or etcd that it has no leader
    /// or no space. A write may have taken place.
    Unavailable,
    /// The request was understood and not granted (401, 403, 422 and such).
    Refused,
    /// Others changed the same thing again and again.
    Conflicts,
    /// The server is not ready.
    NotReady,
    /// A repair pass failed.
    Repair,
    /// The own lease was missing right after it was written.
    LeaseLost,
    /// The own lease was written by somebody else, and so it is not removed.
    LeaseShared,
    /// The answer does not belong to the request.
    BadAnswer,
}

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
