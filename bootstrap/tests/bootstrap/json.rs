//! The JSON forms: each value is read back as it was written, and an error names its place.

use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use rangekeeper_bootstrap::config::{Config, Form, Periods, Placement};
use rangekeeper_bootstrap::controller::{Controller, Order, Step};
use rangekeeper_bootstrap::journal::{Report, Restored};
use rangekeeper_bootstrap::leases::{DecodeError, Fault, StoredLease, Survey};
use rangekeeper_bootstrap::lifecycle::{Phase, Work};
use rangekeeper_bootstrap::modes::{Mode, Stage};
use rangekeeper_bootstrap::object::{Change, Kind, Object, ObjectKey};
use rangekeeper_bootstrap::reconcile::Found;
use rangekeeper_bootstrap::request::{Answer, Failure, Reason, Repair, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::common::{Random, any_endpoints, any_service, any_slice};

fn crosses<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).as_ref().ok(), Some(value), "{text}");
}

fn written<T: Serialize>(value: T) -> serde_json::Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn objects_in_any_state_cross() {
    let mut random = Random::new(31);
    let mut cases = 0;
    for _ in 0..2000 {
        for object in [
            Object::from(any_endpoints(&mut random)),
            Object::from(any_slice(&mut random)),
            Object::from(any_service(&mut random)),
        ] {
            crosses(&Answer::Object(object.clone()));
            crosses(&Request::Update(object.clone()));
            crosses(&Request::Create(object));
            cases += 3;
        }
        crosses(&Change::Replace(any_endpoints(&mut random)));
    }
    println!("{cases} cases");
    assert!(cases >= 18_000);
}

#[test]
fn requests_and_answers_have_these_forms() {
    let key = ObjectKey::kubernetes(Kind::EndpointSlice);
    let requests = [
        (Request::Ready { path: "/readyz".into() }, json!({"ready": {"path": "/readyz"}})),
        (Request::Repair(Repair::ClusterIps), json!({"repair": "clusterIPs"})),
        (Request::Repair(Repair::NodePorts), json!({"repair": "nodePorts"})),
        (
            Request::Get { object: ObjectKey::namespace("default"), fresh: false },
            json!({"get": {"object": {"kind": "Namespace", "name": "default"}, "fresh": false}}),
        ),
        (
            Request::Delete { object: key, uid: "u".into(), resource_version: "7".into() },
            json!({"delete": {
                "object": {"kind": "EndpointSlice", "namespace": "default", "name": "kubernetes"},
                "uid": "u", "resourceVersion": "7",
            }}),
        ),
        (
            Request::FreeServiceIp { address: "10.96.0.1".parse().unwrap() },
            json!({"freeServiceIP": {"address": "10.96.0.1"}}),
        ),
        (Request::GetLease { key: "/k".into() }, json!({"getLease": {"key": "/k"}})),
        (Request::ListLeases { prefix: "/k/".into() }, json!({"listLeases": {"prefix": "/k/"}})),
        (
            Request::PutLease { key: "/k".into(), value: b"k8s\0".to_vec(), ttl_seconds: 15, mod_revision: 0 },
            json!({"putLease": {"key": "/k", "value": "azhzAA==", "ttlSeconds": 15, "modRevision": 0}}),
        ),
        (
            Request::DeleteLease { key: "/k".into(), mod_revision: 3, lease_id: -2 },
            json!({"deleteLease": {"key": "/k", "modRevision": 3, "leaseId": -2}}),
        ),
    ];
    for (request, form) in requests {
        crosses(&request);
        assert_eq!(written(&request), form);
    }
    let lease = StoredLease { key: "/k".into(), value: vec![0xff], mod_revision: 1, lease_id: -2 };
    let failed = Failure { reason: Reason::Unanswered, message: "timeout".into() };
    let answers = [
        (Answer::Done, json!("done")),
        (Answer::Skipped, json!("skipped")),
        (Answer::NotFound, json!("notFound")),
        (Answer::AlreadyExists, json!("alreadyExists")),
        (Answer::Conflict, json!("conflict")),
        (
            Answer::Leases(vec![lease]),
            json!({"leases": [{"key": "/k", "value": "/w==", "modRevision": 1, "leaseId": -2}]}),
        ),
        (Answer::Written { mod_revision: 9 }, json!({"written": {"modRevision": 9}})),
        (Answer::Failed(failed), json!({"failed": {"reason": "unanswered", "message": "timeout"}})),
    ];
    for (answer, form) in answers {
        crosses(&answer);
        assert_eq!(written(&answer), form);
    }
}

#[test]
fn steps_and_reports_have_these_forms() {
    let failure = Failure { reason: Reason::Unavailable, message: "429".into() };
    let step = Step {
        send: vec![Order {
            id: 7,
            request: Request::Ready { path: "/healthz".into() },
            timeout: Duration::from_micros(1_999_001),
        }],
        cancel: vec![3],
        reports: vec![
            Report::Failing { work: Work::RepairClusterIps, failure: failure.clone() },
            Report::Recovered { work: Work::KubernetesService, failures: 2, lasted: Duration::from_secs(3) },
            Report::FaultFound(Fault::Shared { key: "/k".into() }),
            Report::Restored(Restored { before: 9, revision: 5 }),
            Report::Endpoints(Found { leases: 3, endpoints: 2, slice: 1, agree: false }),
            Report::Started,
            Report::Stopped { removed: true },
        ],
        wait: Some(Duration::from_secs(1)),
        phase: Phase::Stopped { removed: true, fatal: false },
    };
    let form = json!({
        "send": [{"id": 7, "request": {"ready": {"path": "/healthz"}}, "timeoutMs": 2000}],
        "cancel": [3],
        "reports": [
            {"failing": {"work": "repairClusterIPs", "failure": {"reason": "unavailable", "message": "429"}}},
            {"recovered": {"work": "kubernetesService", "failures": 2, "lastedMs": 3000}},
            {"faultFound": {
                "shared": {"key": "/k"},
                "message": "another server writes lease /k of this server; check that no two servers have the same address",
            }},
            {"restored": {"before": 9, "revision": 5}},
            {"endpoints": {"leases": 3, "endpoints": 2, "slice": 1, "agree": false}},
            "started",
            {"stopped": {"removed": true}},
        ],
        "waitMs": 1000,
        "phase": {"stopped": {"removed": true, "fatal": false}},
    });
    assert_eq!(written(&step), form);
    crosses(&Step { send: Vec::new(), wait: None, phase: Phase::Running, ..step });
    crosses(&Report::Fatal { work: Work::RepairNodePorts, failure });
    let error = DecodeError::Malformed { offset: 4 };
    let faults = vec![Fault::Unreadable { key: "/k".into(), error }, Fault::NeverExpires { key: "/k".into() }];
    crosses(&Survey { live: vec!["10.0.0.1".into()], doubtful: Vec::new(), faults });
    assert_eq!(written([Stage::Start, Stage::Run, Stage::Stop]), json!(["start", "run", "stop"]));
}

#[test]
fn a_configuration_has_the_defaults_of_kube_apiserver() {
    let config: Config = serde_json::from_str(r#"{"advertiseAddress": "192.0.2.1"}"#).unwrap();
    assert_eq!(config, Config { advertise_address: "192.0.2.1".into(), ..Config::default() });
    assert_eq!((config.secure_port, config.service_cluster_ip_range.as_str()), (6443, "10.0.0.0/24"));
    let Periods { endpoints, lease_ttl, namespaces, repairs } = config.periods;
    assert_eq!([endpoints, lease_ttl, namespaces, repairs].map(|period| period.as_secs()), [10, 15, 60, 180]);
    let all = json!({
        "advertiseAddress": "2001:db8::1", "securePort": 443, "serviceClusterIpRange": "fd00::/108",
        "kubernetesServiceNodePort": 30443, "mode": {"master-count": 3}, "extraNamespaces": ["a"],
        "extraServicePorts": [{"name": "x", "port": 8443}], "extraEndpointPorts": [{"name": "x", "port": 8443}],
        "reconcile": true, "etcdPrefix": "/r", "form": "single-controller", "placement": "inside",
        "periods": {"endpointsMs": 1000, "leaseTtlMs": 2000},
    });
    let config: Config = serde_json::from_value(all).unwrap();
    assert_eq!((config.mode, config.form), (Mode::MasterCount(3), Form::SingleController));
    assert_eq!((config.placement, config.periods.lease_ttl), (Placement::Inside, Duration::from_secs(2)));
    crosses(&config);
    assert!(Controller::new(config).is_ok());
    let leaves_endpoints =
        json!({"advertiseAddress": "192.0.2.1", "serviceClusterIpRange": "fd00::/108", "mode": "none"});
    assert!(Controller::new(serde_json::from_value(leaves_endpoints).unwrap()).is_ok(), "of two IP families");
}

#[test]
fn wrong_configurations_are_refused_by_name() {
    let wrong = |change: serde_json::Value| {
        let mut form = json!({"advertiseAddress": "192.0.2.1"});
        for (name, value) in change.as_object().unwrap() {
            form[name] = value.clone();
        }
        let config: Config = serde_json::from_value(form).map_err(|error| error.to_string())?;
        Controller::new(config).map(|_| ()).map_err(|error| error.to_string())
    };
    let cases = [
        (json!({"advertiseAddress": "127.0.0.1"}), "127.0.0.1"),
        (json!({"advertiseAddress": ""}), "advertiseAddress"),
        (json!({"advertiseAddress": "fe80::1"}), "fe80::1"),
        (json!({"securePort": 0}), "securePort"),
        (json!({"securePort": 70000}), "70000"),
        (json!({"serviceClusterIpRange": "10.0.0.0"}), "10.0.0.0"),
        (json!({"serviceClusterIpRange": "10.0.0.0/31"}), "10.0.0.0/31"),
        (json!({"serviceClusterIpRange": "10.0.0.0/30"}), "has 4 addresses"),
        (json!({"serviceClusterIpRange": "fd00::/126", "advertiseAddress": "fd01::1"}), "has 4 addresses"),
        (json!({"serviceClusterIpRange": "fd00::/108"}), "different IP families"),
        (json!({"mode": {"master-count": 0}}), "master-count"),
        (json!({"mode": "leases"}), "leases"),
        (json!({"extraNamespaces": ["Not_A_Name"]}), "Not_A_Name"),
        (json!({"periods": {"leaseTtlMs": 10000}}), "leaseTtlMs"),
        (json!({"periods": {"endpointsMs": 0}}), "endpointsMs"),
        (json!({"advertise": "x"}), "advertise"),
    ];
    for (change, named) in cases {
        let error = wrong(change.clone()).unwrap_err();
        assert!(error.contains(named), "{change}: {error}");
    }
    assert_eq!(wrong(json!({})), Ok(()));
}

#[test]
fn wrong_objects_are_refused_with_line_and_column() {
    let refused = |text: &str| serde_json::from_str::<Answer>(text).unwrap_err();
    let cases = [
        // Cut off; a wrong kind; a wrong type deep inside; an unknown answer; no base64.
        (r#"{"object": {"Endpoints": {"#, 1, "EOF"),
        ("{\"object\":\n {\"Endpoints\": {\"kind\": \"Service\"}}}", 2, "Endpoints"),
        ("{\"object\":\n {\"Endpoints\":\n {\"subsets\": [{\"ports\": [{\"port\": \"x\"}]}]}}}", 3, "i32"),
        ("{\"object\":\n {\"Pod\": {}}}", 2, "Pod"),
        ("\n\"gone\"", 2, "gone"),
        ("{\"leases\": [{\"key\": \"k\", \"value\": \"?\", \"modRevision\": 1, \"leaseId\": 1}]}", 1, "symbol"),
    ];
    for (text, line, word) in cases {
        let error = refused(text);
        assert_eq!(error.line(), line, "{text}: {error}");
        assert!(error.column() > 0 && error.to_string().contains(word), "{text}: {error}");
    }
    // A client that leaves apiVersion and kind out, as Go's typed one does.
    let answer: Answer = serde_json::from_str(r#"{"object": {"Endpoints": {"metadata": {}}}}"#).unwrap();
    assert_eq!(answer, Answer::Object(Endpoints::default().into()));
}
