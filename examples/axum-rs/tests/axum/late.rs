//! The write of a Service that reaches the store late (docs/commit-protocol.md, rule 14).

use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_rs::etcd::Etcd;
use etcd_rs::kv::{Answer, Change, Condition, Kv, Pending, Stored, Txn, Write};
use etcd_rs::repair;
use etcd_rs::services::{Error, Services, Wanted};
use etcd_rs::store::Store;
use rangekeeper::allocator::Request;
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::commit::{Config, Header, LeakTracker, Replace};
use rangekeeper::service::ServicePort;
use rangekeeper::{Audit, Service, Strategy};
use tokio::sync::mpsc;

use crate::replica::{Place, block_on};
use crate::replicas::{Connections, cut, proxy};

#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS, which run.sh has"]
fn a_service_whose_value_was_cleaned_is_not_written_to_etcd() {
    block_on(late(&Place::etcd("late", "", "30000-30099")));
}

#[test]
fn a_service_whose_value_was_cleaned_is_not_written_to_sqlite() {
    block_on(late(&Place::sqlite("late", "", "30000-30099")));
}

async fn late(place: &Place) {
    let kv = place.kv().await;
    let range: AnyRange = place.ports.parse().expect("a range");
    let key = format!("{}/ranges/servicenodeports", place.prefix);
    let services = format!("{}/services/specs/", place.prefix);
    let open = |grace| {
        let config = Config { strategy: Strategy::RandomScan, grace, replace: Replace::IfUnused };
        Store::open(kv.clone(), &key, range, config, Duration::from_secs(10)).0
    };
    // The creator believes that it has time.
    let (creator, repairer, next) =
        (open(Duration::from_secs(60)), open(Duration::ZERO), open(Duration::from_secs(60)));
    assert!(creator.create().await.expect("the store answers"));

    let in_time = creator.allocate(vec![Request::Any]).await.expect("one is free");
    let write = |name: &str, value: AnyValue, when: [Condition; 2]| {
        let then = vec![Write::Put(format!("{services}default/{name}"), value.to_string().into_bytes())];
        kv.txn(Txn { when: when.to_vec(), then, ..Txn::default() })
    };
    let written = write("in-time", in_time.values[0], creator.conditions(&in_time)).await.expect("the store answers");
    assert!(written.held, "no pass came between");

    let late = creator.allocate(vec![Request::Any]).await.expect("one is free");
    // One pass is enough for it.
    let mut leaks = LeakTracker::new(NonZeroU8::MIN, Duration::ZERO);
    let ranges = [repairer];
    let observe = |audit: &mut Audit, stored: &Stored| show(stored, &mut |service| audit.observe(service));
    let pass = repair::pass(&*kv, &ranges, &services, &mut leaks, Duration::ZERO, observe).await;
    let (report, mut outcomes) = pass.expect("the pass ends");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let repaired = outcomes.remove(0).expect("the range is repaired");
    assert_eq!((repaired.set, repaired.cleared), (vec![], late.values.clone()));

    let written = write("late", late.values[0], creator.conditions(&late)).await.expect("the store answers");
    assert!(!written.held, "its value may be another Service's soon");
    let taken = next.allocate(vec![Request::Named(late.values[0])]).await.expect("it is free");
    let written = write("late", late.values[0], creator.conditions(&late)).await.expect("the store answers");
    assert!(!written.held, "its value is another Service's");
    let written = write("next", taken.values[0], next.conditions(&taken)).await.expect("the store answers");
    assert!(written.held, "the witness was put again");
}

#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS, which run.sh has"]
fn a_service_is_not_written_or_deleted_over_another_connection() {
    let place = Place::etcd("connection", "10.96.0.0/24", "30000-30099");
    let (proxy, connections) = proxy().expect("loopback has a port");
    block_on(async {
        let etcd = Etcd::connect(&proxy).await.expect("etcd runs");
        let breaks = Arc::new(AtomicBool::new(false));
        let kv = Arc::new(Breaking { etcd, connections, breaks: Arc::clone(&breaks) });
        let ips = [place.ips.parse().expect("a range")];
        let ports = place.ports.parse().expect("a range");
        let config =
            Config { strategy: Strategy::RandomScan, grace: Duration::from_secs(60), replace: Replace::IfUnused };
        let services = Services::new(kv, &place.prefix, &ips, ports, config, show).expect("a range of each family");
        let mut leaks = LeakTracker::new(NonZeroU8::MIN, Duration::from_secs(60));
        let _ = services.repair(&mut leaks, Duration::ZERO).await.expect("the pass ends");
        let wanted = [Wanted { range: 1, request: Request::Any }];
        let create = || services.create("default/one", &wanted, false, |values| Ok(values[0].to_string().into_bytes()));
        let count = async || services.list("").await.expect("the store answers").0.len();

        breaks.store(true, Ordering::SeqCst);
        let broken = create().await;
        assert!(matches!(broken, Err(Error::Again(_))), "{broken:?}");
        assert_eq!(count().await, 0);
        create().await.expect("it is written over the next connection");
        breaks.store(true, Ordering::SeqCst);
        let broken = services.delete("default/one").await;
        assert!(matches!(broken, Err(Error::Again(_))), "{broken:?}");
        assert_eq!(count().await, 1);
        services.delete("default/one").await.expect("it is deleted over the next connection");
    });
}

/// An etcd whose connection breaks, and is made again by another request, before the write of a Service is sent.
struct Breaking {
    etcd: Etcd,
    connections: Connections,
    /// Whether the next one breaks it.
    breaks: Arc<AtomicBool>,
}

impl Kv for Breaking {
    fn txn(&self, txn: Txn) -> Pending<Answer> {
        let of_service =
            |write: &Write| matches!(write, Write::Put(key, _) | Write::Delete(key) if key.contains("/services/"));
        let breaks = txn.then.iter().any(of_service) && self.breaks.swap(false, Ordering::SeqCst);
        let (etcd, connections) = (self.etcd.clone(), Arc::clone(&self.connections));
        Box::pin(async move {
            let before = etcd.connections();
            if breaks {
                assert_eq!(cut(&connections), 1);
            }
            while breaks && (etcd.list("/".to_owned(), None).await.is_err() || etcd.connections() == before) {}
            etcd.txn(txn).await
        })
    }

    fn list(&self, key: String, at: Option<u64>) -> Pending<(Header, Vec<Stored>)> {
        self.etcd.list(key, at)
    }

    fn watch(&self, key: String, from: u64) -> mpsc::Receiver<Change> {
        self.etcd.watch(key, from)
    }

    fn connections(&self) -> u64 {
        self.etcd.connections()
    }
}

/// A stored Service is its node port here.
fn show(stored: &Stored, function: &mut dyn FnMut(&Service<'_>)) -> Result<(), String> {
    let text = String::from_utf8_lossy(&stored.value);
    let node_port = text.parse().map_err(|_| format!("{text:?} is no port"))?;
    function(&Service { ports: &[ServicePort { protocol: "TCP", node_port }], ..Service::default() });
    Ok(())
}
