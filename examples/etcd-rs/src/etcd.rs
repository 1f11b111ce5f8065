//! etcd as a store: transactions, lists and watches.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Channel, Client, Compare, CompareOp, ConnectOptions, Error, EventType, GetOptions, KeyValue, PutOptions, TxnOp,
    TxnOpResponse, WatchOptions,
};
use hyper_util::rt::TokioIo;
use rangekeeper::commit::{Header, KeyState};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
use tonic::transport::{Endpoint, Uri};

use crate::kv::{Answer, Change, Condition, Field, Kv, LOOK_SECONDS, Op, Pending, Stored, Trouble, Txn, Write};

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

/// How many keys an answer has at most, so that it stays below gRPC's limit of 4 MiB.
const PAGE: i64 = 500;

/// An etcd.
#[derive(Clone)]
pub struct Etcd {
    endpoint: Endpoint,
    now: Arc<Mutex<Connection>>,
    connections: Arc<AtomicU64>,
}

/// A client that has one connection, and fails once that is lost. A client that connects again by itself would send a
/// request that waits for it to another etcd.
struct Connection {
    client: Client,
    number: u64,
}

/// A request was not sent, as the connection is lost.
#[derive(Debug, thiserror::Error)]
#[error("the connection is lost")]
struct Lost;

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

impl Etcd {
    /// Connects to the etcd at `endpoint`, `http://HOST:PORT`. If the connection is lost, the next request that may go
    /// over another one makes it.
    pub async fn connect(endpoint: &str) -> Result<Self, ConnectError> {
        let invalid = || ConnectError::Endpoint(endpoint.to_owned());
        let uri: Uri = endpoint.parse().map_err(|_| invalid())?;
        if uri.scheme_str() != Some("http") || uri.port().is_none() {
            return Err(invalid());
        }
        let unreachable = |message| ConnectError::Unreachable { endpoint: endpoint.to_owned(), message };
        let endpoint = Endpoint::from(uri)
            .connect_timeout(REQUEST_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let connections = Arc::new(AtomicU64::new(1));
        let now = Connection::open(&endpoint, &connections).await.map_err(unreachable)?;
        Ok(Self { endpoint, now: Arc::new(Mutex::new(now)), connections })
    }

    /// The client of the connection, if that is the one that a request has to go over. A lost one is made again.
    async fn client(&self, over: Option<u64>) -> Result<Client, Trouble> {
        let mut now = self.now.lock().await;
        if over.is_some_and(|over| over != self.connections()) {
            return Err(Trouble::Reconnected);
        }
        if now.number != self.connections() {
            *now = Connection::open(&self.endpoint, &self.connections).await.map_err(Trouble::Unknown)?;
        }
        Ok(now.client.clone())
    }

    /// Makes a request over the connection, again if it was not sent and may go over the next one.
    async fn request<T, F>(self, over: Option<u64>, request: impl Fn(Client) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = Result<Option<T>, Error>>,
    {
        loop {
            match request(self.client(over).await?).await {
                Ok(answer) => {
                    return answer.ok_or_else(|| Trouble::Unknown("etcd's answer lacks a part".to_owned()));
                }
                Err(error) if is_unsent(&error) => {}
                Err(error) => return Err(trouble(&error)),
            }
        }
    }
}

impl Connection {
    /// Makes the connection with the next number, which is counted once the one before is lost.
    async fn open(endpoint: &Endpoint, connections: &Arc<AtomicU64>) -> Result<Self, String> {
        let number = connections.load(Ordering::SeqCst);
        let (is_made, connections) = (AtomicBool::new(false), Arc::clone(connections));
        let connector = tower::service_fn(move |uri: Uri| {
            let is_again = is_made.swap(true, Ordering::SeqCst);
            if is_again {
                connections.fetch_max(number + 1, Ordering::SeqCst);
            }
            async move {
                if is_again {
                    return Err(io::Error::other(Lost));
                }
                let stream = TcpStream::connect(uri.authority().map_or("", |authority| authority.as_str())).await?;
                stream.set_nodelay(true)?;
                Ok(TokioIo::new(stream))
            }
        });
        let channel = endpoint.connect_with_connector(connector).await.map_err(|error| with_causes(&error))?;
        // Without this, a watch at a member without a leader would be silent instead of failing.
        let options = ConnectOptions::new().with_require_leader(true);
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await;
        Ok(Self { client: client.map_err(|error| error.to_string())?, number })
    }
}

async fn send(client: Client, txn: Txn) -> Result<Option<Answer>, Error> {
    let mut writes = Vec::with_capacity(txn.then.len());
    for write in txn.then {
        writes.push(match write {
            Write::Put(key, value) => TxnOp::put(key, value, None),
            Write::Mark { key, temporary: false } => TxnOp::put(key, "", None),
            Write::Mark { key, temporary: true } => {
                let lease = client.lease_client().grant(LOOK_SECONDS, None).await?.id();
                TxnOp::put(key, "", Some(PutOptions::new().with_lease(lease)))
            }
            Write::Delete(key) => TxnOp::delete(key, None),
        });
    }
    let when: Vec<_> = txn.when.into_iter().map(compare).collect();
    let read = txn.or_read.map(|key| TxnOp::get(key, None));
    let is_read = read.is_some();
    let txn = etcd_client::Txn::new().when(when).and_then(writes).or_else(read.into_iter().collect::<Vec<_>>());
    let response = client.kv_client().txn(txn).await?;
    let Some(header) = response.header().map(header) else { return Ok(None) };
    let held = response.succeeded();
    let found = match response.op_responses().first() {
        Some(TxnOpResponse::Get(get)) => get.kvs().first().map(stored),
        _ if is_read && !held => return Ok(None),
        _ => None,
    };
    Ok(Some(Answer { header, held, found }))
}

async fn read(client: Client, key: String, at: Option<u64>) -> Result<Option<(Header, Vec<Stored>)>, Error> {
    let mut all = Vec::new();
    let mut first: Option<Header> = None;
    let end = key.ends_with('/').then(|| format!("{}0", &key[..key.len() - 1])); // 0 comes after the slash
    let mut from = key;
    loop {
        let mut options = GetOptions::new().with_limit(PAGE);
        if let Some(end) = &end {
            options = options.with_range(end.as_str());
        }
        // The pages after the first are of its revision.
        if let Some(revision) = at.or(first.map(|header| header.revision)) {
            options = options.with_revision(revision.cast_signed());
        }
        let response = client.kv_client().get(from, Some(options)).await?;
        let Some(header) = response.header().map(header) else { return Ok(None) };
        let header = *first.get_or_insert(Header { revision: at.unwrap_or(header.revision), ..header });
        all.extend(response.kvs().iter().map(stored));
        match all.last() {
            Some(last) if response.more() => from = format!("{}\0", last.key),
            _ => return Ok(Some((header, all))),
        }
    }
}

async fn follow(client: Client, key: String, from: u64, changes: &mpsc::Sender<Change>) {
    let options = WatchOptions::new().with_start_revision(from.cast_signed());
    let Ok(mut stream) = client.watch_client().watch(key, Some(options)).await else { return };
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

impl Kv for Etcd {
    fn txn(&self, txn: Txn) -> Pending<Answer> {
        let (etcd, over) = (self.clone(), txn.over);
        Box::pin(in_time(etcd.request(over, move |client| send(client, txn.clone()))))
    }

    fn list(&self, key: String, at: Option<u64>) -> Pending<(Header, Vec<Stored>)> {
        let etcd = self.clone();
        Box::pin(in_time(etcd.request(None, move |client| read(client, key.clone(), at))))
    }

    fn watch(&self, key: String, from: u64) -> mpsc::Receiver<Change> {
        let (changes, receiver) = mpsc::channel(16);
        let etcd = self.clone();
        tokio::spawn(async move {
            let Ok(client) = etcd.client(None).await else { return };
            tokio::select! {
                () = follow(client, key, from, &changes) => {}
                () = changes.closed() => {}
            }
        });
        receiver
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| Err(Trouble::Unknown(format!("etcd did not answer within {REQUEST_TIMEOUT:?}"))))
}

/// Whether the last request of those that failed with this error was not sent, as the connection is lost.
fn is_unsent(error: &Error) -> bool {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref());
    causes.any(|cause| cause.is::<Lost>())
}

fn compare(Condition { key, field, op, number }: Condition) -> Compare {
    let op = match op {
        Op::Less => CompareOp::Less,
        Op::Equal => CompareOp::Equal,
        Op::Greater => CompareOp::Greater,
    };
    let number = number.cast_signed();
    match field {
        Field::ModRevision => Compare::mod_revision(key, op, number),
        Field::CreateRevision => Compare::create_revision(key, op, number),
        Field::Version => Compare::version(key, op, number),
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
    Stored { key: String::from_utf8_lossy(kv.key()).into_owned(), state, value: kv.value().to_vec() }
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
