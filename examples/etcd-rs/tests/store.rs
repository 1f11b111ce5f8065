//! What the program etcd-rs does not show of a store.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use etcd_rs::etcd::Etcd;
use etcd_rs::store::{Error, Store};
use rangekeeper::allocator::{Request, Strategy};
use rangekeeper::cidr::CidrRange;
use rangekeeper::commit::{Config, Failure, Replace};
use tokio::net::{TcpListener, TcpSocket};

const CONFIG: Config =
    Config { strategy: Strategy::Contiguous, grace: Duration::from_secs(360), replace: Replace::IfUnused };

type AnyError = Box<dyn std::error::Error>;

#[tokio::test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS, which run.sh has"]
async fn what_nobody_waits_for_is_released() -> Result<(), AnyError> {
    for has_ended in [false, true] {
        let etcd = Arc::new(Etcd::connect(&std::env::var("ETCDCTL_ENDPOINTS")?).await?);
        let key = format!("/test/nobody/{has_ended}");
        let range: CidrRange = "10.0.0.0/24".parse()?;
        let (store, task) = Store::open(etcd, &key, range, CONFIG, Duration::from_secs(60));
        assert!(store.create().await?);
        let mut allocation = Box::pin(store.allocate(vec![Request::Any]));
        tokio::select! {
            biased;
            _ = &mut allocation => return Err("it ends before the task has run".into()),
            () = ready(()) => {}
        }
        if has_ended {
            // An operation that is submitted later ends later. What has become of this one is on its way to the caller.
            store.read().await?;
        } else {
            // The task sends the swap.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        drop(allocation);
        store.read().await?;
        let view = store.read().await?;
        drop(store);
        let stats = task.await?;
        assert_eq!((stats.swaps, view.used.count()), (3, 0), "created, allocated, released: {stats:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_operation_ends_by_its_deadline_though_a_request_is_under_way() -> Result<(), AnyError> {
    // Connections are accepted by the system, and nobody ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let etcd = Arc::new(Etcd::connect(&format!("http://{}", silent.local_addr()?)).await?);
    let range: CidrRange = "10.0.0.0/24".parse()?;
    let (store, task) = Store::open(etcd, "/test/silent", range, CONFIG, Duration::from_millis(100));
    let ended = store.allocate(vec![Request::Any]).await;
    // If the request had ended first, the error would tell of that.
    assert!(matches!(ended, Err(Error::Failed(Failure::DeadlineExceeded))), "{ended:?}");
    drop(store);
    task.await?;
    Ok(())
}

#[tokio::test]
async fn an_error_tells_why_etcd_is_not_reached() -> Result<(), AnyError> {
    // The port stays the test's own: nobody comes to listen there once this listener is gone.
    let (held, listens) = (TcpSocket::new_v4()?, TcpSocket::new_v4()?);
    held.set_reuseport(true)?;
    listens.set_reuseport(true)?;
    held.bind("127.0.0.1:0".parse()?)?;
    listens.bind(held.local_addr()?)?;
    let gone = listens.listen(1)?;
    let etcd = Arc::new(Etcd::connect(&format!("http://{}", gone.local_addr()?)).await?);
    drop(gone);
    let range: CidrRange = "10.0.0.0/24".parse()?;
    let (store, task) = Store::open(etcd, "/test/gone", range, CONFIG, Duration::from_secs(1));
    let ended = store.allocate(vec![Request::Any]).await;
    assert!(matches!(&ended, Err(Error::Unreachable(why)) if why.contains("Connection refused")), "{ended:?}");
    drop(store);
    let stats = task.await?;
    assert_eq!((stats.unknown > 0, stats.swaps), (true, 0), "{stats:?}");
    Ok(())
}
