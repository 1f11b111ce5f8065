//! Questions to the plans of the bootstrap controller through the C ABI: malformed JSON is refused with a place in it,
//! and an answer fits its question. After its changes, made in plain JSON, there is nothing left to change, and every
//! live server is in the endpoints.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rangekeeper_fuzz::abi::{self, INVALID_CONFIG, INVALID_JSON, INVALID_UTF8, OK};
use rangekeeper_fuzz::json::base64;
use rangekeeper_fuzz::lease;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fuzz_target!(|text: &[u8]| {
    let (result, offset, answer) = abi::bootstrap_plan(text);
    let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
    match result {
        OK => assert!(is_json),
        INVALID_UTF8 => return assert!(str::from_utf8(text).is_err()),
        INVALID_JSON => return assert!(offset <= text.len() as u64),
        INVALID_CONFIG => return assert!(is_json),
        other => panic!("result {other}"),
    }
    // Fields that are ignored may have numbers and texts that a JSON value cannot hold.
    let Ok(mut question) = serde_json::from_slice::<Value>(text) else { return };
    let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
    let name = answer.as_object().and_then(|answer| answer.keys().next()).expect("an answer has a name").clone();
    let (asked, answer) = (&mut question[&name], &answer[&name]);
    match name.as_str() {
        "namespaces" => {
            let created = answer["create"].as_array().expect("a list");
            let made: Vec<Value> = created.iter().map(|made| made["metadata"]["name"].clone()).collect();
            let existing = asked["existing"].as_array_mut().expect("a list");
            assert!(made.iter().all(|made| !existing.contains(made)));
            existing.extend(made);
            assert_eq!(again(&question)["namespaces"], json!({"create": []}));
        }
        "service" => {
            asked["existing"] = after(answer, &asked["existing"]);
            assert_eq!(again(&question)["service"], "leave");
        }
        "lease" => {
            let put = &answer["request"]["putLease"];
            if put.is_object() {
                let value = base64(put["value"].as_str().expect("text")).expect("base64");
                let (address, generation) = lease::decode(&value).expect("a lease");
                assert_eq!(generation, answer["generation"]);
                assert!(put["key"].as_str().is_some_and(|key| key.ends_with(&format!("/masterleases/{address}"))));
                assert_eq!((&asked["stage"], &answer["endpoints"]), (&json!("run"), &json!(true)));
            }
        }
        "slice" => {
            asked["slice"] = after(answer, &asked["slice"]);
            assert_eq!(again(&question)["slice"], "leave");
        }
        "endpoints" => endpoints(question, answer),
        "audit" => audit(asked, answer),
        other => panic!("{other}"),
    }
});

fn endpoints(mut question: Value, answer: &Value) {
    let asked = &mut question["endpoints"];
    let before = ready(&asked["endpoints"]);
    let stage = asked["stage"].clone();
    asked["endpoints"] = after(&answer["endpoints"], &asked["endpoints"]);
    asked["slice"] = after(&answer["slice"], &asked["slice"]);
    let found = ready(&asked["endpoints"]);
    if answer["refused"] != Value::Null {
        assert_eq!([&answer["endpoints"], &answer["slice"]], ["leave", "leave"]);
        return;
    }
    assert!(!found.is_empty() || before.is_empty() || stage == "stop", "{question}");
    let live: Vec<&str> =
        answer["survey"]["live"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    // At the start and at a stop the server's own address may be removed.
    let gone = before.iter().filter(|address| live.contains(&address.as_str()) && !found.contains(address)).count();
    assert!(gone <= usize::from(stage != "run"), "{question}");
    let again = &again(&question)["endpoints"];
    assert_eq!(
        [&again["endpoints"], &again["slice"], &again["refused"]],
        [&json!("leave"), &json!("leave"), &Value::Null]
    );
}

/// Of a running cluster only leases are deleted that never expire, and that nobody has written for two times their time
/// to live.
fn audit(asked: &Value, answer: &Value) {
    let ttl = asked["leaseTtlMs"].as_u64().unwrap_or(15_000);
    for repair in answer["repairs"].as_array().expect("a list") {
        let deleted = &repair["deleteLease"];
        let is_dead = |lease: &Value| {
            let stored = &lease["stored"];
            let never_expires = stored["leaseId"] == 0 || lease["etcdLease"] == "missing";
            let unchanged = lease["unchangedMs"].as_u64().unwrap_or_default();
            stored["key"] == deleted["key"]
                && stored["modRevision"] == deleted["modRevision"]
                && (asked["atRest"] == true || (never_expires && unchanged >= 2 * ttl))
        };
        assert!(
            deleted.is_null() || asked["leases"].as_array().expect("a list").iter().any(is_dead),
            "{asked}\n{repair}"
        );
    }
}

fn again(question: &Value) -> Value {
    let (result, _, answer) = abi::bootstrap_plan(question.to_string().as_bytes());
    assert_eq!(result, OK, "{question}");
    serde_json::from_slice(&answer).expect("an answer is JSON")
}

fn after(change: &Value, before: &Value) -> Value {
    match change.as_object().and_then(|change| change.values().next()) {
        Some(object) => object.clone(),
        None => before.clone(),
    }
}

/// The texts of the ready addresses, each once.
fn ready(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let addresses = subsets.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
    let mut found: Vec<String> = addresses.filter_map(|address| Some(address["ip"].as_str()?.to_owned())).collect();
    found.sort();
    found.dedup();
    found
}
