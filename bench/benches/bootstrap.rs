//! The plans of the bootstrap controller, from the question's JSON to the answer's.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rangekeeper_bootstrap::leases::{Lease, StoredLease, key};
use rangekeeper_bootstrap::plan::{Answer, Question, plan};
use serde_json::{Value, json};

const DIRECTORY: &str = "/registry/masterleases/";

fn ask(question: &str) -> Answer {
    plan(&serde_json::from_str::<Question>(question).expect("a question")).expect("an answer")
}

/// The object that a plan wants to be created.
fn created(change: &Value) -> Value {
    change["create"].clone()
}

fn lease(server: usize) -> StoredLease {
    let address = format!("192.0.2.{server}");
    let (mod_revision, lease_id) = (100 + server as u64, 1000 + server as i64);
    StoredLease {
        key: key(DIRECTORY, &address),
        value: Lease { address, generation: 7 }.encode(),
        mod_revision,
        lease_id,
    }
}

/// A server's question about the endpoints of so many servers, of which the object has all but the last one.
fn endpoints(servers: usize) -> Value {
    let question = |leases: usize, endpoints: Value, slice: Value| {
        json!({"endpoints": {
            "advertiseAddress": "192.0.2.1",
            "mode": "lease",
            "stage": "run",
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            "leases": (1..=leases).map(lease).collect::<Vec<_>>(),
            "endpoints": endpoints,
            "slice": slice,
        }})
    };
    let answer = ask(&question(servers - 1, Value::Null, Value::Null).to_string());
    let answer = serde_json::to_value(answer).expect("an answer is JSON");
    let answer = &answer["endpoints"];
    question(servers, created(&answer["endpoints"]), created(&answer["slice"]))
}

fn bootstrap(c: &mut Criterion) {
    let wanted = json!({"clusterIp": "10.96.0.1", "securePort": 6443});
    let service = json!({"service": {"wanted": wanted}});
    let answer = serde_json::to_value(ask(&service.to_string())).expect("an answer is JSON");
    let existing = created(&answer["service"]);
    let questions = [
        ("namespaces", json!({"namespaces": {"existing": ["default", "kube-system", "team-a", "team-b"]}})),
        ("service", json!({"service": {"wanted": wanted, "existing": existing, "reconcile": true}})),
        (
            "lease",
            json!({"lease": {"advertiseAddress": "192.0.2.1", "stage": "run", "generation": 7, "read": lease(1)}}),
        ),
        ("endpoints/3_servers", endpoints(3)),
        ("endpoints/100_servers", endpoints(100)),
    ];
    for (name, question) in questions {
        let question = question.to_string();
        let parsed: Question = serde_json::from_str(&question).expect("a question");
        let mut group = c.benchmark_group(format!("bootstrap/{name}"));
        group.throughput(Throughput::Bytes(question.len() as u64));
        group.bench_function("plan", |b| b.iter(|| plan(black_box(&parsed))));
        group.bench_function("JSON, plan, JSON", |b| {
            b.iter(|| serde_json::to_string(&ask(black_box(&question))));
        });
        group.finish();
    }
}

criterion_group!(benches, bootstrap);
criterion_main!(benches);
