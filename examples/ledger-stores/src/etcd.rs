//! A ledger in a key of etcd, which programs of several machines may write.

use std::thread;
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, ConnectOptions, Error, Txn, TxnOp};
use rangekeeper::ledger::{Put, Store, Token};
use tokio::runtime::{Builder, Runtime};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What etcd answers to a request that is too large for it, depending on how much: etcd itself, its gRPC server, which
/// does not read the request, or a proxy, which does not send it.
const TOO_LARGE: [&str; 3] =
    ["etcdserver: request is too large", "received message larger than max", "trying to send message larger than max"];

/// A key of etcd. The revision of its last write is the token.
pub struct EtcdKey {
    client: Client,
    runtime: Runtime,
    key: String,
}

impl EtcdKey {
    /// Connects to an etcd without TLS.
    ///
    /// # Errors
    /// Those of etcd's client.
    pub fn connect(endpoint: &str, key: &str) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let options = ConnectOptions::new().with_timeout(TIMEOUT).with_connect_timeout(TIMEOUT);
        let client = runtime.block_on(Client::connect([endpoint], Some(options)))?;
        Ok(Self { client, runtime, key: key.to_owned() })
    }
}

impl Store for EtcdKey {
    type Error = Error;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Error> {
        let answer = self.runtime.block_on(self.client.get(self.key.as_str(), None))?;
        let read = |kv: &etcd_client::KeyValue| (kv.value().to_vec(), kv.mod_revision().to_be_bytes().to_vec());
        Ok(answer.kvs().first().map(read))
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Error> {
        // A key that is missing has revision 0.
        let revision = token.map_or(0, |token| i64::from_be_bytes(token.try_into().unwrap_or_default()));
        let unchanged = Compare::mod_revision(self.key.as_str(), CompareOp::Equal, revision);
        let put = Txn::new().when([unchanged]).and_then([TxnOp::put(self.key.as_str(), value, None)]);
        let answer = match self.runtime.block_on(self.client.txn(put)) {
            Err(Error::GRpcStatus(status)) if TOO_LARGE.iter().any(|text| status.message().contains(text)) => {
                return Ok(Put::TooLarge);
            }
            answer => answer?,
        };
        // A transaction that puts something has the revision of what it put.
        let revision = answer.header().filter(|_| answer.succeeded()).map(|header| header.revision());
        Ok(revision.map_or(Put::Changed, |revision| Put::Stored(revision.to_be_bytes().to_vec())))
    }

    fn wait(&mut self, time: Duration) {
        thread::sleep(time);
    }
}
