//! What the program ledger-rs does not show of a ledger in etcd.
#![cfg(feature = "etcd")]

use rangekeeper::ledger::{Put, Store};
use rangekeeper_ledger_stores::etcd::EtcdKey;

type AnyError = Box<dyn std::error::Error>;

#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS, which ledger-rs/run.sh has"]
fn what_etcd_refuses_by_its_size_is_too_large() -> Result<(), AnyError> {
    let mut key = EtcdKey::connect(&std::env::var("ETCDCTL_ENDPOINTS")?, "/test/large")?;
    for size in [1_600_000, 3_000_000] {
        // etcd answers to one, and its gRPC server to the other
        let put = key.put(vec![0; size], None)?;
        assert_eq!(put, Put::TooLarge, "{size} bytes");
    }
    assert!(matches!(key.put(vec![0; 1_000_000], None)?, Put::Stored(_)));
    Ok(())
}
