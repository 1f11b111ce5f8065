//! The leases of servers: keys of etcd with a time to live.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnResponse,
};
use rangekeeper_bootstrap::leases::StoredLease;
use rangekeeper_bootstrap::request::{Answer, Reason};
use tonic::Code;

use crate::shell::{failed, with_causes};

/// The period and the time limit of keep-alive probes. Without them a dead connection would be used for many minutes.
/// etcd closes connections that probe more often than every 5 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The etcd of an API server.
pub(crate) struct Leases {
    client: Client,
}

impl Leases {
    /// Connects when the first request needs it.
    pub(crate) async fn new(endpoints: &[String]) -> Result<Self, Error> {
        // A member without a leader then fails requests instead of keeping them.
        let options = ConnectOptions::new().with_keep_alive(KEEP_ALIVE, KEEP_ALIVE).with_require_leader(true);
        Ok(Self { client: Client::connect(endpoints, Some(options)).await? })
    }

    pub(crate) async fn get(&self, key: String) -> Answer {
        self.read(key, None).await
    }

    pub(crate) async fn list(&self, prefix: String) -> Answer {
        self.read(prefix, Some(GetOptions::new().with_prefix())).await
    }

    async fn read(&self, key: String, options: Option<GetOptions>) -> Answer {
        match self.client.kv_client().get(key, options).await {
            Ok(response) => Answer::Leases(response.kvs().iter().map(stored).collect()),
            Err(error) => answer(&error),
        }
    }

    pub(crate) async fn put(&self, key: String, value: Vec<u8>, ttl_seconds: u64, mod_revision: u64) -> Answer {
        // Each put has a lease of its own, as in kube-apiserver. The old lease then has no key.
        let lease = match self.client.lease_client().grant(ttl_seconds.cast_signed(), None).await {
            Ok(response) => response.id(),
            Err(error) => return answer(&error),
        };
        let put = TxnOp::put(&key[..], value, Some(PutOptions::new().with_lease(lease)));
        match self.swap(Self::unchanged(&key, mod_revision), put).await {
            Ok(response) if !response.succeeded() => {
                // If that fails, the lease expires.
                let _ = self.client.lease_client().revoke(lease).await;
                Answer::Conflict
            }
            Ok(response) => match response.header() {
                Some(header) => Answer::Written { mod_revision: header.revision().cast_unsigned() },
                None => failed(Reason::BadAnswer, "etcd's answer lacks its header"),
            },
            Err(error) => answer(&error),
        }
    }

    pub(crate) async fn delete(&self, key: String, mod_revision: u64, lease_id: i64) -> Answer {
        // No other etcd has granted this lease, whatever the revision is.
        let mut when = Self::unchanged(&key, mod_revision);
        when.push(Compare::lease(&key[..], CompareOp::Equal, lease_id));
        match self.swap(when, TxnOp::delete(&key[..], None)).await {
            Ok(response) if response.succeeded() => Answer::Done,
            Ok(_) => Answer::Conflict,
            Err(error) => answer(&error),
        }
    }

    /// The condition that a key is still at this revision.
    fn unchanged(key: &str, mod_revision: u64) -> Vec<Compare> {
        vec![Compare::mod_revision(key, CompareOp::Equal, mod_revision.cast_signed())]
    }

    /// Performs an operation if the conditions hold.
    async fn swap(&self, when: Vec<Compare>, operation: TxnOp) -> Result<TxnResponse, Error> {
        self.client.kv_client().txn(Txn::new().when(when).and_then([operation])).await
    }
}

fn stored(kv: &KeyValue) -> StoredLease {
    StoredLease {
        key: String::from_utf8_lossy(kv.key()).into_owned(),
        value: kv.value().to_vec(),
        mod_revision: kv.mod_revision().cast_unsigned(),
        lease_id: kv.lease(),
    }
}

/// The answer to a request that failed with this error.
fn answer(error: &Error) -> Answer {
    let reason = match error {
        // These are etcd's own messages; others are from the connection to it.
        Error::GRpcStatus(status) if status.message().starts_with("etcdserver: ") => match status.code() {
            Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument | Code::FailedPrecondition => {
                Reason::Refused
            }
            _ => Reason::Unavailable,
        },
        _ => Reason::Unanswered,
    };
    failed(reason, with_causes(error))
}
