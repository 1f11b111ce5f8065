//! The plans by questions and answers in JSON: each change applied and asked for again is left, nobody who lives is
//! taken away, and a server that decides by them one by one ends where a controller ends.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rangekeeper_bootstrap::config::Placement;
use rangekeeper_bootstrap::config::{Config, Periods};
use rangekeeper_bootstrap::leases::{Lease, StoredLease};
use rangekeeper_bootstrap::modes::Mode;
use rangekeeper_bootstrap::namespaces::{SYSTEM, namespace};
use rangekeeper_bootstrap::object::{Kind, Object, ObjectKey};
use rangekeeper_bootstrap::plan::{Question, plan};
use rangekeeper_bootstrap::request::{Answer, Request};
use serde_json::{Value, json};

use crate::common::cluster::Cluster;
use crate::common::store::{DIRECTORY, Store};
use crate::common::{IPS, Random, USABLE, any_endpoints, any_service, any_slice, cases, check_endpoints, check_slice};

/// Asks by text, as the C ABI does.
fn try_ask(question: &Value) -> Result<Value, String> {
    let question: Question = serde_json::from_str(&question.to_string()).map_err(|error| error.to_string())?;
    let answer = plan(&question).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(answer).unwrap())
}

fn ask(plan: &str, question: &Value) -> Value {
    let answer = try_ask(&json!({plan: question})).unwrap_or_else(|error| panic!("{error}: {question}"));
    answer[plan].clone()
}

/// What there is after a change.
fn after(change: &Value, before: &Value) -> Value {
    match change.as_object() {
        Some(change) => change.values().next().unwrap().clone(),
        None => {
            assert_eq!(*change, "leave");
            before.clone()
        }
    }
}

fn ready(endpoints: &Value) -> BTreeSet<String> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let addresses = subsets.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
    addresses.map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
}

fn slice_ready(slice: &Value) -> BTreeSet<String> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let endpoints = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != json!(false));
    endpoints.flat_map(|found| found["addresses"].as_array().unwrap()).map(|ip| ip.as_str().unwrap().into()).collect()
}

fn stored(address: &str, value: Vec<u8>) -> StoredLease {
    StoredLease { key: format!("{DIRECTORY}{address}"), value, mod_revision: 7, lease_id: 3 }
}

#[test]
fn endpoints_and_slice_converge_and_nobody_who_lives_goes() {
    let mut random = Random::new(51);
    let (mut count, mut refused, mut left, mut erased, mut kept) = (0, 0, 0, 0, 0);
    for _ in 0..cases(6_000) {
        let own = random.pick(&IPS[..USABLE]);
        let stage = random.pick(&["start", "run", "run", "stop"]);
        let mode = random.pick(&[json!("lease"), json!("lease"), json!({"master-count": 2}), json!("none")]);
        let mut endpoints = if random.percent(90) { json!(any_endpoints(&mut random)) } else { Value::Null };
        let mut slice = if random.percent(90) { json!(any_slice(&mut random)) } else { Value::Null };
        let (mut leases, mut live, mut doubtful) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for address in &IPS[..USABLE] {
            match random.below(4) {
                0 => {
                    let generation = random.below(1000) as i64;
                    leases.push(stored(address, Lease { address: (*address).into(), generation }.encode()));
                    live.insert((*address).to_owned());
                }
                1 => {
                    leases.push(stored(address, b"nonsense".to_vec()));
                    doubtful.insert((*address).to_owned());
                }
                _ => {}
            }
        }
        let listed = &ready(&endpoints) | &slice_ready(&slice);
        let before = ready(&endpoints);
        let mut question = json!({
            "advertiseAddress": own, "mode": mode, "stage": stage, "reconcile": random.percent(50),
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            "endpoints": endpoints, "slice": slice,
        });
        if mode == "lease" {
            question["leases"] = json!(leases);
        }
        let answer = ask("endpoints", &question);
        count += 1;
        if answer["refused"] != Value::Null {
            assert_eq!([&answer["endpoints"], &answer["slice"]], ["leave", "leave"]);
            let own_is_missing = mode == "lease" && stage == "run" && !live.contains(own);
            assert_eq!(answer["refused"] == "own-lease-missing", own_is_missing, "{question}");
            refused += 1;
            continue;
        }
        endpoints = after(&answer["endpoints"], &endpoints);
        slice = after(&answer["slice"], &slice);
        (question["endpoints"], question["slice"]) = (endpoints.clone(), slice.clone());
        let again = ask("endpoints", &question);
        let makes_nothing = stage == "stop" && endpoints == Value::Null;
        assert_eq!([&again["endpoints"], &again["slice"]], ["leave", "leave"], "{question}");
        if mode == "none" || makes_nothing {
            left += 1;
            continue;
        }
        let read: Endpoints = serde_json::from_value(endpoints.clone()).unwrap();
        check_endpoints(&read).unwrap();
        check_slice(&serde_json::from_value::<EndpointSlice>(slice.clone()).unwrap()).unwrap();
        let found = ready(&endpoints);
        if mode == "lease" {
            // By the leases, as they were made here.
            let in_doubt = &doubtful & &listed;
            kept += in_doubt.len();
            let mut expected = &live | &in_doubt;
            if stage != "run" {
                expected.remove(own);
            }
            assert_eq!(found, expected, "{question}");
        }
        assert_eq!(found.contains(own), stage == "run", "{question}");
        let has_erased = found.is_empty() && !before.is_empty();
        assert!(!has_erased || stage == "stop", "{question}");
        erased += usize::from(has_erased);
        // The slice has one family of what the Endpoints have, and something if they have.
        assert!(slice_ready(&slice).is_subset(&found));
        assert_eq!(slice_ready(&slice).is_empty(), found.is_empty());
    }
    println!("{count} cases: {refused} refused, {left} left, {erased} erased, {kept} addresses in doubt kept");
    assert!(count >= cases(6_000) && refused > cases(400) && left > cases(400));
    assert!(erased > cases(60) && kept > cases(200));
}

#[test]
fn services_and_namespaces_converge() {
    let mut random = Random::new(52);
    let (mut left, mut changed, mut created) = (0, 0, 0);
    for _ in 0..20_000 {
        let existing = if random.percent(90) { json!(any_service(&mut random)) } else { Value::Null };
        let node_port = random.pick(&[0, 30_443]);
        let mut question = json!({
            "existing": existing, "reconcile": random.percent(70),
            "wanted": {"clusterIp": "10.0.0.1", "securePort": 6443, "nodePort": node_port},
        });
        let answer = ask("service", &question);
        if answer == "leave" {
            left += 1;
        } else {
            changed += 1;
        }
        question["existing"] = after(&answer, &existing);
        assert_eq!(ask("service", &question), "leave", "{question}");
        let spec = &question["existing"]["spec"];
        if question["reconcile"] == true || existing == Value::Null {
            assert_eq!(
                spec["type"].as_str().unwrap_or("ClusterIP"),
                ["ClusterIP", "NodePort"][usize::from(node_port != 0)]
            );
            assert_eq!([&spec["ports"][0]["port"], &spec["ports"][0]["targetPort"]], [443, 6443]);
        } else {
            assert_eq!(question["existing"], existing);
        }

        let names = ["default", "kube-system", "kube-public", "kube-node-lease", "shop", "bank"];
        let some =
            |random: &mut Random| -> BTreeSet<&str> { names.into_iter().filter(|_| random.percent(50)).collect() };
        let (mut exist, wanted) = (some(&mut random), some(&mut random));
        let answer = ask("namespaces", &json!({"existing": exist, "wanted": wanted}));
        let made = answer["create"].as_array().unwrap().iter().map(|made| made["metadata"]["name"].as_str().unwrap());
        let made: BTreeSet<&str> = made.collect();
        assert_eq!(made, &wanted - &exist);
        created += made.len();
        exist.extend(made);
        assert_eq!(ask("namespaces", &json!({"existing": exist, "wanted": wanted})), json!({"create": []}));
    }
    println!("20000 cases: {left} Services left, {changed} changed, {created} namespaces created");
    assert!(left > 2_000 && changed > 10_000 && created > 20_000);
}

/// A server that decides by the plans, one by one, on the model of API server and etcd.
struct OneByOne<'a> {
    store: &'a mut Store,
    config: &'a Value,
    generation: i64,
    faults: Vec<Value>,
}

impl OneByOne<'_> {
    fn own(&self) -> &str {
        self.config["advertiseAddress"].as_str().unwrap()
    }

    fn apply(&mut self, request: Value, stops: bool) -> Answer {
        let request: Request = serde_json::from_value(request).unwrap();
        let own = self.own().to_owned();
        self.store.apply(0, &own, stops, &request)
    }

    fn read(&self, key: &ObjectKey) -> Value {
        match self.store.objects.get(key) {
            Some(Object::Service(object)) => json!(object),
            Some(Object::Endpoints(object)) => json!(object),
            Some(Object::EndpointSlice(object)) => json!(object),
            Some(Object::Namespace(object)) => json!(object),
            None => Value::Null,
        }
    }

    fn write(&mut self, kind: Kind, change: &Value, stops: bool) {
        let Some(change) = change.as_object() else { return };
        let (verb, object) = change.iter().next().unwrap();
        let name = format!("{kind:?}");
        if verb == "replace" {
            self.store.delete(&ObjectKey::kubernetes(kind));
        }
        let verb = if verb == "update" { "update" } else { "create" };
        assert_eq!(self.apply(json!({verb: {name: object}}), stops), Answer::Done, "{verb} {object}");
    }

    fn namespaces(&mut self) {
        let existing = self.store.objects.keys().filter(|key| key.kind == Kind::Namespace).map(|key| key.name.clone());
        let answer = ask("namespaces", &json!({"existing": existing.collect::<Vec<_>>()}));
        for namespace in answer["create"].as_array().unwrap() {
            assert_eq!(self.apply(json!({"create": {"Namespace": namespace}}), false), Answer::Done);
        }
    }

    fn service(&mut self) {
        let question = json!({
            "existing": self.read(&ObjectKey::kubernetes(Kind::Service)), "reconcile": self.config["reconcile"],
            "wanted": {"clusterIp": "10.0.0.1", "securePort": 6443},
        });
        let change = ask("service", &question);
        self.write(Kind::Service, &change, false);
    }

    /// Whether the endpoints were reconciled.
    fn endpoints(&mut self, stage: &str) -> bool {
        let stops = stage == "stop";
        let mut question = json!({
            "advertiseAddress": self.own(), "mode": self.config["mode"], "stage": stage,
            "reconcile": self.config["reconcile"],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        });
        if self.config["mode"] == "lease" {
            let key = format!("{DIRECTORY}{}", self.own());
            let answer = ask(
                "lease",
                &json!({
                    "advertiseAddress": self.own(), "stage": stage, "generation": self.generation,
                    "read": self.store.leases.get(&key).map(|entry| &entry.lease),
                }),
            );
            self.generation = answer["generation"].as_i64().unwrap();
            self.faults.extend((answer["fault"] != Value::Null).then(|| answer["fault"].clone()));
            if answer["request"] != Value::Null {
                let ended = self.apply(answer["request"].clone(), stops);
                assert!(matches!(ended, Answer::Done | Answer::Written { .. }), "{ended:?}");
            }
            if answer["endpoints"] != true {
                return false;
            }
            let leases: Vec<_> = self.store.leases.values().map(|entry| &entry.lease).collect();
            question["leases"] = json!(leases);
        }
        question["endpoints"] = self.read(&ObjectKey::kubernetes(Kind::Endpoints));
        question["slice"] = self.read(&ObjectKey::kubernetes(Kind::EndpointSlice));
        let answer = ask("endpoints", &question);
        self.write(Kind::Endpoints, &answer["endpoints"], stops);
        self.write(Kind::EndpointSlice, &answer["slice"], stops);
        true
    }
}

/// What was there before a server comes.
fn damage(random: &mut Random, mode: Mode, store: &mut Store) {
    for name in SYSTEM.into_iter().filter(|name| *name == "default" || random.percent(50)) {
        store.put(0, namespace(name).into());
    }
    let objects = [any_endpoints(random).into(), any_slice(random).into(), any_service(random).into()];
    for object in objects {
        if random.percent(85) {
            store.put(0, object);
        }
    }
    for address in &IPS[..USABLE] {
        let lease = Lease { address: (*address).into(), generation: 1 + random.below(9) as i64 };
        let value = if random.percent(80) { lease.encode() } else { b"nonsense".to_vec() };
        if mode == Mode::Lease && random.percent(30) {
            store.put_lease(0, &format!("{DIRECTORY}{address}"), value, Some(10_000_000));
        }
    }
}

/// The objects without what the store writes into them.
fn objects(store: &Store) -> Vec<Value> {
    let objects = store.objects.values().map(|object| {
        let mut object = serde_json::to_value(object).unwrap();
        let metadata =
            object.as_object_mut().unwrap().values_mut().next().unwrap()["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.remove("uid");
        object
    });
    objects.collect()
}

#[test]
fn one_by_one_ends_where_a_controller_ends() {
    let mut cases = 0;
    for seed in 0..600 {
        let mut random = Random::new(1000 + seed);
        let mode = random.pick(&[Mode::Lease, Mode::Lease, Mode::MasterCount(3), Mode::None]);
        let config = Config {
            advertise_address: "10.0.0.1".into(),
            mode,
            reconcile: random.percent(50),
            placement: Placement::Inside,
            // No lease runs out meanwhile.
            periods: Periods { lease_ttl: std::time::Duration::from_secs(10_000), ..Periods::default() },
            ..Config::default()
        };
        let mut cluster = Cluster::new(vec![config.clone()]);
        damage(&mut random.clone(), mode, &mut cluster.store);
        cluster.run_until(15_000);
        let running = (objects(&cluster.store), cluster.store.leases.keys().cloned().collect::<Vec<_>>());
        cluster.stop(0);
        cluster.run_until(30_000);
        let stopped = (objects(&cluster.store), cluster.store.leases.keys().cloned().collect::<Vec<_>>());

        let mut store = Store::default();
        damage(&mut random, mode, &mut store);
        let config = serde_json::to_value(&config).unwrap();
        let mut server = OneByOne { store: &mut store, config: &config, generation: 0, faults: Vec::new() };
        server.namespaces();
        server.endpoints("start");
        server.service();
        for _ in 0..2 {
            assert!(server.endpoints("run"));
        }
        let leases = |store: &Store| store.leases.keys().cloned().collect::<Vec<_>>();
        assert_eq!((objects(server.store), leases(server.store)), running, "seed {seed}, running");
        assert!(server.endpoints("stop"), "seed {seed}: the lease is not left to another");
        assert_eq!((objects(server.store), leases(server.store)), stopped, "seed {seed}, stopped");
        assert!(store.violations.is_empty(), "{:?}", store.violations);
        cases += 1;
    }
    println!("{cases} servers");
    assert_eq!(cases, 600);
}

#[test]
fn the_own_lease_from_start_to_stop() {
    let lease = |stage: &str, generation: i64, read: Option<&StoredLease>| {
        ask("lease", &json!({"advertiseAddress": "10.0.0.1", "stage": stage, "generation": generation, "read": read}))
    };
    let put = |answer: &Value, revision: u64| {
        let Request::PutLease { key, value, ttl_seconds, .. } =
            serde_json::from_value(answer["request"].clone()).unwrap()
        else {
            panic!("{answer}")
        };
        assert_eq!((key.as_str(), ttl_seconds), ("/registry/masterleases/10.0.0.1", 15));
        StoredLease { key, value, mod_revision: revision, lease_id: 1 }
    };
    let nothing =
        |generation: i64| json!({"request": null, "endpoints": false, "generation": generation, "fault": null});
    let delete = |revision: u64| json!({"deleteLease": {"key": "/registry/masterleases/10.0.0.1", "modRevision": revision, "leaseId": 1}});

    assert_eq!(lease("start", 0, None), nothing(0));
    let first = lease("run", 0, None);
    assert_eq!((&first["request"]["putLease"]["modRevision"], &first["generation"]), (&json!(0), &json!(1)));
    let stored = put(&first, 5);
    let second = lease("run", 1, Some(&stored));
    assert_eq!((&second["request"]["putLease"]["modRevision"], &second["generation"]), (&json!(5), &json!(2)));
    assert_eq!((&second["endpoints"], &second["fault"]), (&json!(true), &Value::Null));
    // It did not take place, or it did: both are the own one.
    let stored_again = put(&second, 6);
    for (read, generation) in [(&stored, 1), (&stored_again, 2)] {
        let stop = lease("stop", generation, Some(read));
        assert_eq!((&stop["request"], &stop["endpoints"]), (&delete(read.mod_revision), &json!(true)));
    }
    assert_eq!(lease("run", 2, Some(&stored))["fault"], Value::Null);
    // Gone: it is put with a generation that no earlier one had, and at a stop the endpoint is removed.
    assert_eq!(lease("run", 2, None)["generation"], 3);
    assert_eq!(lease("stop", 2, None)["endpoints"], true);
    // Another one goes on from it.
    let other = StoredLease { value: Lease { address: "10.0.0.1".into(), generation: 9 }.encode(), ..stored };
    let shared = lease("run", 2, Some(&other));
    assert_eq!(shared["fault"], json!({"shared": {"key": "/registry/masterleases/10.0.0.1"}}));
    assert_eq!(shared["generation"], 10);
    let stop = lease("stop", 2, Some(&other));
    assert_eq!((&stop["request"], &stop["endpoints"]), (&Value::Null, &json!(false)));
    // Left behind, or damaged: it is removed.
    let start = lease("start", 0, Some(&other));
    assert_eq!((&start["request"], &start["endpoints"]), (&delete(5), &json!(true)));
    let damaged = StoredLease { value: b"nonsense".to_vec(), ..other };
    let stop = lease("stop", 2, Some(&damaged));
    assert_eq!((&stop["request"], &stop["fault"]["unreadable"]["error"]), (&delete(5), &json!("unknown")));
}

#[test]
fn wrong_questions_are_refused_by_name() {
    let lease = json!({"advertiseAddress": "10.0.0.1", "stage": "run"});
    let endpoints = json!({"advertiseAddress": "10.0.0.1", "mode": "lease", "stage": "run", "ports": [], "leases": []});
    let service = json!({"wanted": {"clusterIp": "10.0.0.1", "securePort": 6443}});
    let refused = |plan: &str, good: &Value, field: &str, value: Value| {
        assert!(try_ask(&json!({plan: good})).is_ok());
        let mut question = good.clone();
        question[field] = value;
        try_ask(&json!({plan: question})).unwrap_err()
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let other = json!({"key": "/registry/masterleases/10.0.0.2", "value": "", "modRevision": 1, "leaseId": 1});
    for (plan, good, field, value, words) in [
        ("namespaces", &json!({"existing": []}), "wanted", json!(["Not_A_Name"]), &["wanted", "Not_A_Name"][..]),
        ("service", &service, "wanted", json!({"clusterIp": "10.0.0.1", "securePort": 0}), &["securePort"]),
        ("service", &service, "wanted", json!({"clusterIp": "10.0.0", "securePort": 1}), &["IP address"]),
        ("service", &service, "existing", pod.clone(), &["Pod", "Service", "line 1 column"]),
        ("service", &service, "wanted", json!({"clusterIp": "::1", "securePort": 1, "port": 0}), &["port", "0"]),
        ("slice", &json!({"endpoints": {}}), "endpoints", pod.clone(), &["Pod", "Endpoints", "line 1 column"]),
        ("lease", &lease, "advertiseAddress", json!("127.0.0.1"), &["advertiseAddress", "127.0.0.1"]),
        ("lease", &lease, "stage", json!("begin"), &["begin", "line 1 column"]),
        ("lease", &lease, "leaseTtlMs", json!(999), &["leaseTtlMs", "1000"]),
        ("lease", &lease, "read", other, &["read", "10.0.0.2", "10.0.0.1"]),
        ("endpoints", &endpoints, "advertiseAddress", json!("x"), &["advertiseAddress", "x"]),
        ("endpoints", &endpoints, "leases", Value::Null, &["leases", "needs"]),
        ("endpoints", &endpoints, "mode", json!("none"), &["leases", "only mode lease"]),
        ("endpoints", &endpoints, "mode", json!({"master-count": 0}), &["master-count"]),
        ("endpoints", &endpoints, "endpoints", pod.clone(), &["Pod", "Endpoints", "line 1 column"]),
        ("endpoints", &endpoints, "slice", pod, &["\"v1\"", "discovery.k8s.io/v1", "line 1 column"]),
        ("endpoints", &endpoints, "lease", json!([]), &["unknown field", "lease"]),
    ] {
        let error = refused(plan, good, field, value);
        assert!(words.iter().all(|word| error.contains(word)), "{plan}, {field}: {error}");
    }
    for (text, words) in [
        ("\n{\"pods\": {}}", "unknown variant `pods`"),
        ("\n{}", "line 2"),
        ("\n{\"namespaces\": {\"existing\": []}} x", "trailing characters at line 2"),
    ] {
        let error = serde_json::from_str::<Question>(text).unwrap_err();
        assert!(error.line() == 2 && error.to_string().contains(words), "{error}");
    }
}

/// A control plane can have several such Services, each with its own name, port and endpoints.
#[test]
fn names_and_port_are_those_asked_for() {
    let wanted = json!({"name": "inner", "clusterIp": "10.0.0.9", "port": 8443, "portName": "api", "securePort": 6443});
    let service = &ask("service", &json!({"wanted": wanted}))["create"];
    assert_eq!([&service["metadata"]["name"], &service["spec"]["ports"][0]["name"]], ["inner", "api"]);
    assert_eq!([&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]], [8443, 6443]);

    let mut question = json!({
        "name": "inner", "advertiseAddress": "10.0.0.1", "mode": {"master-count": 1}, "stage": "run",
        "ports": [{"name": "api", "port": 6443, "protocol": "TCP"}],
    });
    let answer = ask("endpoints", &question);
    let (endpoints, slice) = (&answer["endpoints"]["create"], &answer["slice"]["create"]);
    assert_eq!([&endpoints["metadata"]["name"], &slice["metadata"]["name"]], ["inner", "inner"]);
    assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "inner");
    assert_eq!(ask("slice", &json!({"endpoints": endpoints}))["create"], *slice);
    (question["endpoints"], question["slice"]) = (endpoints.clone(), slice.clone());
    let answer = ask("endpoints", &question);
    assert_eq!([&answer["endpoints"], &answer["slice"]], ["leave", "leave"]);

    // The label is repaired, and a slice of the other family replaced by one of the same name in the same namespace.
    let mut elsewhere = endpoints.clone();
    elsewhere["metadata"]["namespace"] = json!("tenant");
    let mut damaged = slice.clone();
    damaged["metadata"] =
        json!({"name": "inner", "namespace": "tenant", "labels": {"kubernetes.io/service-name": "x"}});
    let repaired = &ask("slice", &json!({"endpoints": elsewhere, "slice": damaged}))["update"];
    assert_eq!(repaired["metadata"]["labels"]["kubernetes.io/service-name"], "inner");
    damaged["addressType"] = json!("IPv6");
    let replaced = &ask("slice", &json!({"endpoints": elsewhere, "slice": damaged}))["replace"];
    assert_eq!(replaced["metadata"], repaired["metadata"]);
}
