//! What has gone wrong in other control planes, played here. Each history ends without a double and without a leak, as
//! `rangekeeper audit` finds.

use std::thread;

use crate::replica::{Place, SERVICES, dual_stack, request, values};
use etcd_rs::kv::Write;
use serde_json::{Value, json};

/// Checks that a request was refused for a value of a field.
fn assert_refused((code, answer): &(u16, Value), field: &str, value: &str) {
    assert_eq!((*code, answer["reason"].as_str()), (422, Some("Invalid")), "{answer}");
    assert_eq!(answer["details"]["causes"][0]["field"].as_str(), Some(field), "{answer}");
    assert!(answer["message"].as_str().is_some_and(|message| message.contains(value)), "{answer}");
}

/// kruise-game#359 (its review, "cache-leak"): a controller keeps the ports of load balancers in a cache. 30 game
/// servers are created, scaled to 0 and deleted. The deletion does not reach the cache, so of 50 that are created next
/// only 20 come up: "the cache still believes 30 ports are taken".
///
/// Here one replica creates and creates again, and another one deletes.
#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn kruise_game_359_ports_of_deleted_owners_are_free_for_the_next() {
    let place = Place::etcd("kruise-game-359", "10.96.0.0/24", "30000-30049");
    let (creates, deletes) = (place.start(), place.start());
    let spec = json!({ "type": "NodePort", "ports": [{ "port": 80 }] });
    for (count, round) in [(30, "first"), (50, "second")] {
        for number in 0..count {
            let (code, answer) = creates.create(&format!("{round}-{number}"), &spec);
            assert_eq!(code, 201, "{round}, {number}: {answer}");
        }
        assert_eq!(creates.values().len(), 2 * count, "each has an address and a port");
        if round == "first" {
            place.is_clean();
            thread::scope(|scope| {
                for number in 0..count {
                    let deletes = &deletes;
                    scope.spawn(move || assert_eq!(deletes.delete(&format!("{round}-{number}")), 200));
                }
            });
            assert_eq!(deletes.delete("first-0"), 404);
        }
    }
    let (code, answer) = creates.create("one-too-many", &spec);
    assert!(code == 500 && answer["message"].as_str().is_some_and(|why| why.contains("is full")), "{code} {answer}");
    // Its address was released again. A full range is a finding of the audit, too.
    assert_eq!(deletes.delete("second-0"), 200);
    place.is_clean();
}

/// rk8s#549 (its review): the allocator has a store of its own for ClusterIPs, which is empty at the first start on a
/// cluster that has Services. It then hands out addresses that they have.
#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn rk8s_549_a_start_with_services_and_without_ranges() {
    for place in [
        Place::etcd("rk8s-549", "10.96.0.0/28", "30000-30031"),
        Place::sqlite("rk8s-549", "10.96.0.0/28", "30000-30031"),
    ] {
        const SIZE: usize = 14; // of a /28
        let spec = json!({ "type": "NodePort", "ports": [{ "port": 80 }] });
        let first = place.start();
        for number in 0..SIZE - 4 {
            assert_eq!(first.create(&format!("old-{number}"), &spec).0, 201);
        }
        let old = first.values();
        assert_eq!(old.len(), 2 * (SIZE - 4));
        drop(first);
        for range in ["serviceips", "servicenodeports"] {
            place.write(Write::Delete(format!("{}/ranges/{range}", place.prefix)));
        }

        let second = place.start();
        // All is recorded before anything is served.
        place.is_clean();
        for number in 0..4 {
            let (code, service) = second.create(&format!("new-{number}"), &spec);
            assert_eq!(code, 201, "{service}");
            assert!(values(&service).iter().all(|value| !old.contains(value)), "{service} has a value of {old:?}");
        }
        let (code, answer) = second.create("one-too-many", &spec);
        assert_eq!(code, 500, "{answer}");
        assert_eq!(second.values().len(), 2 * SIZE);
        assert_eq!(second.delete("new-0"), 200);
        place.is_clean();
    }
}

/// klights: at its start, and when it becomes the leader, it rebuilds the set of used values from the list of Services.
/// If the list fails, it is ready with an empty set, and hands out everything again.
///
/// Here a Service cannot be read, and then the store.
#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn klights_a_restart_that_cannot_list_services() {
    let place = Place::etcd("klights", "10.96.0.0/28", "30000-30031");
    let first = place.start();
    let (code, service) = first.create("web", &json!({ "ports": [{ "port": 80 }] }));
    assert_eq!(code, 201, "{service}");
    let taken = values(&service).remove(0);
    let bad = format!("{}/services/specs/default/bad", place.prefix);
    // Encrypted at rest by a kube-apiserver.
    place.write(Write::Put(bad.clone(), b"k8s:enc:aescbc:v1:key1:0123".to_vec()));
    let (code, list) = request(&first.address, "GET", SERVICES, &Value::Null).expect("an answer");
    assert!(code == 500 && list["message"].as_str().is_some_and(|why| why.contains(&bad)), "{code} {list}");
    drop(first);

    let refused = place.refused();
    assert!(refused.contains(&bad), "{refused}");
    place.write(Write::Delete(bad));
    let second = place.start();
    assert_refused(
        &second.create("other", &json!({ "clusterIP": taken, "ports": [{ "port": 80 }] })),
        "spec.clusterIPs[0]",
        &taken,
    );
    for number in 1..14 {
        assert_eq!(second.create(&format!("next-{number}"), &json!({ "ports": [{ "port": 80 }] })).0, 201);
    }
    assert_eq!(second.values().len(), 14);
    assert_eq!(second.delete("next-1"), 200);
    place.is_clean();
}

/// Antrea#7944: an allocation of several addresses marks those at the beginning of the range in place of those that it
/// returns, if another one was allocated before. So the returned ones can be allocated again, and others never.
#[test]
#[ignore = "needs an etcd at ETCDCTL_ENDPOINTS and the program RANGEKEEPER, which run.sh has"]
fn antrea_7944_values_of_one_request_are_marked_themselves() {
    for place in
        [Place::etcd("antrea-7944", Place::IPS, "30000-30063"), Place::sqlite("antrea-7944", Place::IPS, "30000-30063")]
    {
        let replica = place.start();
        // These shift what comes next.
        let shift =
            json!({ "type": "NodePort", "clusterIP": "10.96.0.1", "ports": [{ "port": 80, "nodePort": 30000 }] });
        assert_eq!(replica.create("shift", &shift).0, 201);
        let mut spec = dual_stack();
        // Five ports, of which two share a node port: DNS over TCP and UDP.
        spec["ports"] = json!([
            { "name": "a", "port": 53 }, { "name": "b", "port": 53, "protocol": "UDP" }, { "name": "c", "port": 80 },
            { "name": "d", "port": 81 }, { "name": "e", "port": 82, "nodePort": 30010 },
        ]);
        let (code, service) = replica.create("several", &spec);
        assert_eq!(code, 201, "{service}");
        let ports = &service["spec"]["ports"];
        assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"], "{service}");
        let several = values(&service);
        assert_eq!(several.len(), 2 + 4, "{service}");
        place.is_clean();

        for value in &several {
            let refused = |spec: Value, field| assert_refused(&replica.create("again", &spec), field, value);
            if value.parse::<u16>().is_ok() {
                let port = json!({ "port": 80, "nodePort": value.parse::<u16>().expect("it is one") });
                refused(json!({ "type": "NodePort", "ports": [port] }), "spec.ports[0].nodePort");
            } else {
                refused(json!({ "clusterIP": value, "ports": [{ "port": 80 }] }), "spec.clusterIPs[0]");
            }
        }
        // Refused or not, each gave back what it had been given besides.
        assert_eq!(replica.values().len(), 2 + several.len());
        place.is_clean();
        assert_eq!(replica.delete("several"), 200);
        assert_eq!(replica.create("several", &spec).0, 201);
    }
}
