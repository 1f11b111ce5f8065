//! docs/bootstrap-json.md is true: the types read and write its examples, its tables name their fields, variants and
//! defaults, and the plans return the answers in it.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use rangekeeper_bootstrap::audit::{
    EtcdLease, KubernetesObjects, Observed, ObservedLease, Reason as AuditReason, Unseen, Verdict,
};
use rangekeeper_bootstrap::config::{Config, Periods};
use rangekeeper_bootstrap::controller::{Controller, Order, Step};
use rangekeeper_bootstrap::journal::Report;
use rangekeeper_bootstrap::leases::{DecodeError, Fault, StoredLease, Survey};
use rangekeeper_bootstrap::lifecycle::{Phase, Work};
use rangekeeper_bootstrap::modes::{Refusal, Stage};
use rangekeeper_bootstrap::object::Change;
use rangekeeper_bootstrap::plan::{
    Answer as Plan, EndpointsAnswer, EndpointsQuestion, LeaseAnswer, LeaseQuestion, NamespacesQuestion, Question,
    ServiceQuestion, SliceQuestion, plan,
};
use rangekeeper_bootstrap::request::{Answer, Event, Reason, Request};
use rangekeeper_bootstrap::service::Wanted;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../../docs/bootstrap-json.md");

/// The examples: the type and the text of each.
fn examples() -> Vec<(&'static str, &'static str)> {
    let parts = DOCUMENT.split("```json ").skip(1);
    parts.map(|part| part.split_once("\n```").unwrap().0.split_once('\n').unwrap()).collect()
}

fn examples_of(type_: &str) -> Vec<&'static str> {
    let of_type: Vec<_> = examples().into_iter().filter(|(found, _)| *found == type_).map(|(_, text)| text).collect();
    assert!(!of_type.is_empty(), "there is no example of {type_}");
    of_type
}

/// The rows of the table under a heading whose first column has this title, each as its cells.
fn table(heading: &str, first: &str) -> Vec<Vec<&'static str>> {
    let sections = DOCUMENT.split("\n#").skip(1).map(|section| section.trim_start_matches('#').trim_start());
    let mut sections = sections.filter(|section| section.lines().next() == Some(heading));
    let section = sections.next().unwrap_or_else(|| panic!("there is no heading {heading}"));
    assert_eq!(sections.next(), None, "there are two headings {heading}");
    let cells =
        |line: &'static str| -> Vec<&'static str> { line.trim_matches('|').split('|').map(str::trim).collect() };
    let lines = section.lines().skip_while(|line| !line.starts_with(&format!("| {first} |")));
    let rows: Vec<_> = lines.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect();
    assert!(!rows.is_empty(), "there is no table of each {first} under {heading}");
    rows
}

fn name(cell: &'static str) -> &'static str {
    cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or_else(|| panic!("{cell} is no name"))
}

fn names(rows: &[Vec<&'static str>]) -> BTreeSet<String> {
    let all: BTreeSet<String> = rows.iter().map(|row| name(row[0]).to_owned()).collect();
    assert_eq!(all.len(), rows.len(), "a row is there twice");
    all
}

/// What serde says it would have taken: all fields of a struct or variants of an enum.
fn expected<T: DeserializeOwned>(wrong: Value) -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(wrong).err().unwrap().to_string();
    let (_, list) = error.split_once(", expected ").unwrap_or_else(|| panic!("{error}"));
    list.split('`').skip(1).step_by(2).map(String::from).collect()
}

fn variants<T: DeserializeOwned>() -> BTreeSet<String> {
    expected::<T>(json!("?"))
}

fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
    expected::<T>(json!({"?": 0}))
}

/// The name of a variant as it is written.
fn variant(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        value => value.as_object().unwrap().keys().next().unwrap().clone(),
    }
}

/// Each example is what the type writes when it has read it.
fn crosses<T: Serialize + DeserializeOwned>(type_: &str) -> Vec<Value> {
    let each = |text: &'static str| {
        let read: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{type_}: {error}: {text}"));
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), value, "{type_}");
        value
    };
    examples_of(type_).into_iter().map(each).collect()
}

/// As [`crosses`], and there is an example and a row for each variant.
fn crosses_whole<T: Serialize + DeserializeOwned>(type_: &str, heading: &str) {
    let shown: BTreeSet<String> = crosses::<T>(type_).iter().map(variant).collect();
    let all = variants::<T>();
    assert_eq!(shown, all, "the examples of {type_}");
    assert_eq!(names(&table(heading, "name")), all, "the table under {heading}");
}

#[test]
fn examples_are_read_and_written_by_their_types() {
    crosses_whole::<Request>("Request", "Requests");
    crosses_whole::<Answer>("Answer", "Answers");
    crosses_whole::<Event>("Event", "Events");
    crosses_whole::<Report>("Report", "Reports");
    crosses_whole::<Fault>("Fault", "Faults");
    crosses_whole::<DecodeError>("DecodeError", "Errors of a value");
    crosses::<Order>("Order");
    crosses::<Phase>("Phase");
    crosses::<StoredLease>("StoredLease");
    let types: BTreeSet<&str> = examples().into_iter().map(|(type_, _)| type_).collect();
    let known = ["Answer", "Config", "DecodeError", "Event", "Fault", "Order", "Phase", "Plan", "Question", "Report"];
    assert_eq!(types, known.into_iter().chain(["Request", "Step", "StoredLease"]).collect());
    println!("{} examples", examples().len());
    assert!(examples().len() >= 61);
}

#[test]
fn tables_name_all_variants() {
    assert_eq!(names(&table("Phase", "name")), variants::<Phase>());
    assert_eq!(names(&table("Reasons", "name")), variants::<Reason>());
    assert_eq!(names(&table("Works", "name")), variants::<Work>());
    assert_eq!(names(&table("Change", "name")), variants::<Change<Endpoints>>());
    assert_eq!(names(&table("Stage", "name")), variants::<Stage>());
    assert_eq!(names(&table("Plans", "name")), variants::<Question>());
    assert_eq!(names(&table("Refused", "name")), variants::<Refusal>());
    assert_eq!(names(&table("Observed lease", "name")), variants::<EtcdLease>());
    assert_eq!(names(&table("Findings", "name")), variants::<AuditReason>());
    assert_eq!(names(&table("Findings", "name")).len(), AuditReason::ALL.len());
    assert_eq!(names(&table("Unseen", "name")), variants::<Unseen>());
}

#[test]
fn tables_name_all_fields() {
    assert_eq!(names(&table("Step", "field")), fields::<Step>());
    assert_eq!(names(&table("Order", "field")), fields::<Order>());
    assert_eq!(names(&table("Survey", "field")), fields::<Survey>());
    assert_eq!(names(&table("Lease", "field of the answer")), fields::<LeaseAnswer>());
    assert_eq!(names(&table("Endpoints", "field of the answer")), fields::<EndpointsAnswer>());
    assert_eq!(names(&table("Audit", "field of the answer")), fields::<Verdict>());
}

/// The table names the fields, which of them must be there, and what the others are by default.
fn has_defaults<T: Serialize + DeserializeOwned>(heading: &str, example: &Value) {
    let rows = table(heading, "field");
    assert_eq!(names(&rows), fields::<T>(), "{heading}");
    let mut least = json!({});
    for row in rows.iter().filter(|row| row[1] == "required") {
        least[name(row[0])] = example[name(row[0])].clone();
    }
    let read: T = serde_json::from_value(least.clone()).unwrap_or_else(|error| panic!("{heading}: {least}: {error}"));
    let written = serde_json::to_value(read).unwrap();
    for row in &rows {
        let field = name(row[0]);
        if row[1] == "required" {
            let mut without = least.clone();
            without.as_object_mut().unwrap().remove(field);
            let error = serde_json::from_value::<T>(without).err();
            assert!(error.is_some_and(|error| error.to_string().contains(field)), "{heading}: {field} is not required");
        } else {
            let default: Value = serde_json::from_str(name(row[1])).unwrap_or_else(|error| panic!("{row:?}: {error}"));
            assert_eq!(written[field], default, "{heading}: {field}");
        }
    }
}

/// A configuration as it is read by `Controller::new`, where the address is checked.
#[derive(serde::Deserialize)]
#[serde(try_from = "Config")]
struct Checked(Config);

impl TryFrom<Config> for Checked {
    type Error = String;

    fn try_from(config: Config) -> Result<Self, String> {
        Controller::new(config.clone()).map(|_| Self(config)).map_err(|error| error.to_string())
    }
}

impl Serialize for Checked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[test]
fn defaults_are_those_that_are_documented() {
    let config: Value = serde_json::from_str(examples_of("Config")[0]).unwrap();
    has_defaults::<Checked>("Configuration", &config);
    has_defaults::<Periods>("Periods", &json!({}));
    let stored: Value = serde_json::from_str(examples_of("StoredLease")[0]).unwrap();
    has_defaults::<StoredLease>("Stored lease", &stored);
    let question = |name: &str| {
        let all = examples_of("Question").into_iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
        all.into_iter().find(|question| question.get(name).is_some()).unwrap()[name].clone()
    };
    has_defaults::<NamespacesQuestion>("Namespaces", &question("namespaces"));
    has_defaults::<ServiceQuestion>("Service", &question("service"));
    has_defaults::<Wanted>("What the Service should be", &question("service")["wanted"]);
    has_defaults::<LeaseQuestion>("Lease", &question("lease"));
    has_defaults::<EndpointsQuestion>("Endpoints", &question("endpoints"));
    has_defaults::<SliceQuestion>("Slice", &question("slice"));
    has_defaults::<Observed>("Audit", &question("audit"));
    has_defaults::<ObservedLease>("Observed lease", &question("audit")["leases"][0]);
    has_defaults::<KubernetesObjects>("Kubernetes objects", &json!({}));
}

#[test]
fn the_example_of_a_configuration_is_good_and_gives_the_first_step() {
    for text in examples_of("Config") {
        let value: Value = serde_json::from_str(text).unwrap();
        let config: Config = serde_json::from_str(text).unwrap();
        let written = serde_json::to_value(&config).unwrap();
        for (field, value) in value.as_object().unwrap().iter().filter(|(field, _)| *field != "periods") {
            assert_eq!(written[field], *value);
        }
        let step = Controller::new(config).unwrap().poll(Duration::ZERO);
        assert_eq!(crosses::<Step>("Step"), [serde_json::to_value(step).unwrap()]);
    }
}

#[test]
fn plans_give_the_answers_that_stand_there() {
    let examples = examples();
    let mut shown = BTreeSet::new();
    for pair in examples.windows(2).filter(|pair| pair[0].0 == "Question") {
        let question: Question =
            serde_json::from_str(pair[0].1).unwrap_or_else(|error| panic!("{error}: {}", pair[0].1));
        let answer = serde_json::to_value(plan(&question).unwrap()).unwrap();
        assert_eq!(pair[1].0, "Plan", "a question without an answer: {}", pair[0].1);
        assert_eq!(
            serde_json::from_str::<Value>(pair[1].1).unwrap(),
            answer,
            "the answer is\n{}",
            serde_json::to_string_pretty(&answer).unwrap()
        );
        shown.insert(variant(&answer));
    }
    assert_eq!(examples_of("Question").len(), examples_of("Plan").len());
    crosses::<Plan>("Plan");
    assert_eq!(shown, variants::<Question>());
    assert_eq!(shown, variants::<Plan>());
}
