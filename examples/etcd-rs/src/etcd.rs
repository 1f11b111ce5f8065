//! The key in etcd: a committer's requests as transactions and watches.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Channel, Client, Compare, CompareOp, ConnectOptions, Error, EventType, KeyValue, Txn, TxnOp, TxnOpResponse,
    WatchOptions,
};
use hyper_util::rt::TokioIo;
use rangekeeper::commit::{Header, KeyState, Request, Witness};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tonic::transport::{Endpoint, Uri};

/// The time after which the outcome of a request is unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The period and the time limit of keep-alive probes during requests. etcd closes connections that probe more often
/// than every 5 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The messages of requests that etcd refuses, which take no effect later. The texts are those of etcd's
/// api/v3rpc/rpctypes.
const REFUSALS: [&str; 7] = [
    "etcdserver: mvcc: database space exceeded",
    "etcdserver: request is too large",
    "etcdserver: corrupt cluster",
    "etcdserver: permission denied",
    "etcdserver: user name is empty",
    "etcdserver: authentication failed, invalid user ID or password",
    "etcdserver: authentication is not enabled",
];

/// One key of an etcd.
#[derive(Clone)]
pub struct EtcdKey {
    client: Client,
    key: String,
    connections: Arc<AtomicU64>,
}

/// A failed connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is not an endpoint.
    #[error("endpoint {0:?}: expected http://HOST:PORT")]
    Endpoint(String),
    /// etcd was not reached.
    #[error("endpoint {endpoint}: {message}")]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// The error.
        message: String,
    },
}

/// etcd's answer to a request.
pub(crate) struct Reply {
    pub(crate) header: Header,
    pub(crate) found: Found,
}

/// The state of the key when etcd answered.
pub(crate) enum Found {
    /// The state that the request expected.
    Expected,
    /// Another state; `None` without a key.
    Other(Option<Stored>),
    /// The answer to a read.
    Read(Option<Stored>),
}

/// The key and its value.
pub(crate) struct Stored {
    pub(crate) state: KeyState,
    pub(crate) value: Vec<u8>,
}

/// A request without an answer.
pub(crate) enum Trouble {
    /// etcd refused the request.
    Refused(String),
    /// The request may have taken effect, or may yet.
    Unknown(String),
}

/// A change of the key.
pub(crate) enum Change {
    Put(Stored),
    /// The deletion of the key, with its revision.
    Delete(u64),
}

impl EtcdKey {
    /// Connects to the etcd at `endpoint`, `http://HOST:PORT`. A broken connection is recreated when it is needed.
    pub async fn connect(endpoint: &str, key: &str) -> Result<Self, ConnectError> {
        let invalid = || ConnectError::Endpoint(endpoint.to_owned());
        let uri: Uri = endpoint.parse().map_err(|_| invalid())?;
        if uri.scheme_str() != Some("http") || uri.port().is_none() {
            return Err(invalid());
        }
        let connections = Arc::new(AtomicU64::new(0));
        let made = Arc::clone(&connections);
        // The client reconnects silently, so the connections are counted here.
        let connector = tower::service_fn(move |uri: Uri| {
            let made = Arc::clone(&made);
            async move {
                let stream = TcpStream::connect(uri.authority().map_or("", |authority| authority.as_str())).await?;
                stream.set_nodelay(true)?;
                made.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        let unreachable = |message| ConnectError::Unreachable { endpoint: endpoint.to_owned(), message };
        let channel = Endpoint::from(uri)
            .connect_timeout(REQUEST_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .connect_with_connector(connector)
            .await
            .map_err(|error| unreachable(with_causes(&error)))?;
        // Without this, a watch at a member without a leader would be silent instead of failing.
        let options = ConnectOptions::new().with_require_leader(true);
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await;
        let client = client.map_err(|error| unreachable(error.to_string()))?;
        Ok(Self { client, key: key.to_owned(), connections })
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Performs a request.
    pub(crate) async fn perform(self, request: Request) -> Result<Reply, Trouble> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.send(request)).await {
            Ok(Ok(reply)) => reply.ok_or_else(|| Trouble::Unknown("etcd's answer lacks a part".to_owned())),
            Ok(Err(error)) => Err(trouble(&error)),
            Err(_) => Err(Trouble::Unknown(format!("etcd did not answer within {REQUEST_TIMEOUT:?}"))),
        }
    }

    async fn send(self, request: Request) -> Result<Option<Reply>, Error> {
        let Self { client, key, .. } = self;
        let mut kv = client.kv_client();
        let (guard, puts) = match request {
            Request::Read => {
                let response = kv.get(key, None).await?;
                let Some(header) = response.header().map(header) else { return Ok(None) };
                return Ok(Some(Reply { header, found: Found::Read(response.kvs().first().map(stored)) }));
            }
            // There are no repairs here, so no swap depends on a list of Services. The witness is for the writes of
            // Services.
            Request::Swap { guard, value, witness, services_unchanged_since: _, look: _ } => {
                let mut puts = vec![TxnOp::put(key.as_str(), value, None)];
                match witness {
                    Witness::Keep => {}
                    Witness::Put => puts.push(TxnOp::put(format!("{key}/witness"), "", None)),
                    Witness::Delete => puts.push(TxnOp::delete(format!("{key}/witness"), None)),
                }
                (guard, puts)
            }
            Request::Confirm { guard } => (guard, Vec::new()),
            // An edit by hand needs it; there are none here.
            Request::ReadAt { .. } => unreachable!("nothing is edited by hand"),
        };
        let expected = [
            Compare::mod_revision(key.as_str(), CompareOp::Equal, guard.mod_revision.cast_signed()),
            Compare::version(key.as_str(), CompareOp::Equal, guard.version.cast_signed()),
            Compare::create_revision(key.as_str(), CompareOp::Equal, guard.create_revision.cast_signed()),
        ];
        let response = kv.txn(Txn::new().when(expected).and_then(puts).or_else([TxnOp::get(key, None)])).await?;
        let Some(header) = response.header().map(header) else { return Ok(None) };
        if response.succeeded() {
            return Ok(Some(Reply { header, found: Found::Expected }));
        }
        Ok(match response.op_responses().first() {
            Some(TxnOpResponse::Get(get)) => Some(Reply { header, found: Found::Other(get.kvs().first().map(stored)) }),
            _ => None,
        })
    }

    /// All changes of the key from a revision on. The channel closes when the watch fails; the watch ends when the
    /// receiver is dropped.
    pub(crate) fn watch(&self, from: u64) -> mpsc::Receiver<Change> {
        let (changes, receiver) = mpsc::channel(16);
        let key = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = key.follow(from, &changes) => {}
                () = changes.closed() => {}
            }
        });
        receiver
    }

    async fn follow(self, from: u64, changes: &mpsc::Sender<Change>) {
        let mut client = self.client.watch_client();
        let options = WatchOptions::new().with_start_revision(from.cast_signed());
        let Ok(mut stream) = client.watch(self.key, Some(options)).await else { return };
        while let Ok(Some(response)) = stream.message().await {
            for event in response.events() {
                let Some(kv) = event.kv() else { return };
                let change = match event.event_type() {
                    EventType::Put => Change::Put(stored(kv)),
                    EventType::Delete => Change::Delete(kv.mod_revision().cast_unsigned()),
                };
                if changes.send(change).await.is_err() {
                    return;
                }
            }
            if response.canceled() {
                return;
            }
        }
    }
}

fn header(header: &etcd_client::ResponseHeader) -> Header {
    Header {
        cluster_id: header.cluster_id(),
        revision: header.revision().cast_unsigned(),
        raft_term: header.raft_term(),
    }
}

fn stored(kv: &KeyValue) -> Stored {
    let state = KeyState {
        mod_revision: kv.mod_revision().cast_unsigned(),
        version: kv.version().cast_unsigned(),
        create_revision: kv.create_revision().cast_unsigned(),
    };
    Stored { state, value: kv.value().to_vec() }
}

fn trouble(error: &Error) -> Trouble {
    match error {
        Error::GRpcStatus(status) if REFUSALS.contains(&status.message()) => {
            Trouble::Refused(status.message().to_owned())
        }
        Error::GRpcStatus(status) => {
            let cause = status.source().map_or(String::new(), |cause| format!(": {}", with_causes(cause)));
            Trouble::Unknown(format!("{}{cause}", status.message()))
        }
        error => Trouble::Unknown(error.to_string()),
    }
}

/// The message of an error and the messages of its causes.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |message, cause| format!("{message}: {cause}"))
}
