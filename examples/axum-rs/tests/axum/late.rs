//! The write of a Service that reaches the store late (docs/commit-protocol.md, rule 14).

use std::num::NonZeroU8;
use std::time::Duration;

use etcd_rs::kv::{Condition, Stored, Txn, Write};
use etcd_rs::repair;
use etcd_rs::store::Store;
use rangekeeper::allocator::Request;
use rangekeeper::any::{AnyRange, AnyValue};
use rangekeeper::commit::{Config, LeakTracker, Replace};
use rangekeeper::service::ServicePort;
use rangekeeper::{Audit, Service, Strategy};

use crate::replica::{Place, block_on};

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
        kv.txn(Txn { when: when.to_vec(), then, or_read: None })
    };
    let written = write("in-time", in_time.values[0], creator.conditions(&in_time)).await.expect("the store answers");
    assert!(written.held, "no pass came between");

    let late = creator.allocate(vec![Request::Any]).await.expect("one is free");
    // One pass is enough for it.
    let mut leaks = LeakTracker::new(NonZeroU8::MIN, Duration::ZERO);
    let ranges = [repairer];
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

/// A stored Service is its node port here.
fn observe(audit: &mut Audit, stored: &Stored) -> Result<(), String> {
    let text = String::from_utf8_lossy(&stored.value);
    let node_port = text.parse().map_err(|_| format!("{text:?} is no port"))?;
    audit.observe(&Service { ports: &[ServicePort { protocol: "TCP", node_port }], ..Service::default() });
    Ok(())
}
