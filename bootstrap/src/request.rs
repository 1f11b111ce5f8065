//! Requests of the controller, and their answers.
//!
//! ```
//! use rangekeeper_bootstrap::request::{Answer, Request};
//!
//! let request = Request::Ready { path: "/readyz".into() };
//! assert_eq!(serde_json::to_string(&request)?, r#"{"ready":{"path":"/readyz"}}"#);
//! assert_eq!(serde_json::from_str::<Answer>(r#""notFound""#)?, Answer::NotFound);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::leases::StoredLease;
use crate::object::{Object, ObjectKey};

/// The ranges of a repair pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Repair {
    /// The ranges of ClusterIPs.
    #[serde(rename = "clusterIPs")]
    ClusterIps,
    /// The range of NodePorts.
    #[serde(rename = "nodePorts")]
    NodePorts,
}

/// A request. Its JSON is an object with one field, named after the request.
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
        /// The object's name.
        object: ObjectKey,
        /// Whether the object must come from the API server itself, since a cache can be out of date.
        fresh: bool,
    },
    /// Create an object. [`Answer::Done`], [`Answer::AlreadyExists`], or [`Answer::NotFound`] (its namespace).
    Create(Object),
    /// Write a whole object, with the resourceVersion that was read. [`Answer::Done`],
    /// [`Answer::Conflict`] or [`Answer::NotFound`].
    Update(Object),
    /// Delete an object if it still has this UID and resourceVersion (preconditions). [`Answer::Done`],
    /// [`Answer::Conflict`] or [`Answer::NotFound`].
    Delete {
        /// The object's name.
        object: ObjectKey,
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// Free an address that is recorded as allocated, if no Service has it: a RangeAllocation or an IPAddress object is
    /// left of the Service `kubernetes`, which was lost. [`Answer::Done`], also if nothing was left, or
    /// [`Answer::Failed`]: a shell may refuse, and repair passes free the address later.
    #[serde(rename = "freeServiceIP")]
    FreeServiceIp {
        /// The address of the Service `kubernetes`.
        address: IpAddr,
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
        /// The time to live of the lease.
        ttl_seconds: u64,
        /// The modification revision that the key must have; 0 if there must be no key.
        mod_revision: u64,
    },
    /// Delete a key of etcd, in a transaction that checks its revision and lease. [`Answer::Done`] or
    /// [`Answer::Conflict`].
    DeleteLease {
        /// The key.
        key: String,
        /// The modification revision that the key must have.
        mod_revision: u64,
        /// The ID of etcd's lease that the key must have. An etcd that was restored meanwhile can have a key of another
        /// server with the same revision, but never grants the same ID.
        lease_id: i64,
    },
}

/// The answer to a request. Its JSON is the name, or an object with one field of that name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// The request was performed.
    Done,
    /// A write was not performed, because this is a dry run. The controller continues as if it had been.
    Skipped,
    /// The requested object.
    Object(Object),
    /// The object does not exist; for a create, its namespace does not.
    NotFound,
    /// The object exists already.
    AlreadyExists,
    /// The object or the key has changed since it was read.
    Conflict,
    /// The requested keys.
    Leases(Vec<StoredLease>),
    /// The key was put.
    Written {
        /// The revision of the write.
        mod_revision: u64,
    },
    /// Any other end.
    Failed(Failure),
}

/// What a watch of the API server or of etcd has seen. Its JSON is an object with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// An object was created, updated or deleted.
    Object(ObjectKey),
    /// A key of etcd was deleted, or its time to live is over.
    LeaseDeleted {
        /// The key.
        key: String,
    },
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error("{message}")]
pub struct Failure {
    /// The kind of failure, which is reported once as long as it lasts.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// There was no answer within the time limit. A write may have taken effect.
    Unanswered,
    /// The API server is overloaded or has an internal error (429, 5xx), or etcd has no leader or no space. A write may
    /// have taken effect.
    Unavailable,
    /// The server refuses the request (401, 403, 422 and such).
    Refused,
    /// Concurrent writers won too often.
    Conflicts,
    /// The server is not ready.
    NotReady,
    /// A repair pass failed.
    Repair,
    /// The server's lease was missing right after it was written.
    LeaseLost,
    /// Another server has written this server's lease, so it is not removed.
    LeaseShared,
    /// The answer does not belong to the request.
    BadAnswer,
}

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
