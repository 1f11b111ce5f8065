//! The plans on objects in any state: they converge at once, change nothing that is right, and write only what an API
//! server takes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rangekeeper_bootstrap::endpoints::{self, Wanted};
use rangekeeper_bootstrap::leases::Survey;
use rangekeeper_bootstrap::modes::{Mode, Refusal, Stage, desired};
use rangekeeper_bootstrap::object::Change;
use rangekeeper_bootstrap::reconcile::{self, Situation};
use rangekeeper_bootstrap::{namespaces, service, slice};

use crate::common::{
    IPS, Random, USABLE, any_endpoints, any_service, any_slice, check_endpoints, check_slice, https, ready, slice_ready,
};

const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What stands there after a change was written.
fn after<T: Clone>(change: &Change<T>, before: Option<&T>) -> Option<T> {
    change.object().or(before).cloned()
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn some_addresses(random: &mut Random) -> Vec<String> {
    let count = random.below(5);
    let addresses: BTreeSet<String> = (0..count).map(|_| random.pick(&IPS[..USABLE]).to_owned()).collect();
    addresses.into_iter().collect()
}

#[test]
fn endpoints_and_slice_converge_from_any_state() {
    let mut random = Random::new(1);
    let (mut cases, mut left, mut updated, mut replaced) = (0, 0, 0, 0);
    for _ in 0..60_000 {
        let existing = random.percent(95).then(|| any_endpoints(&mut random));
        let existing_slice = random.percent(90).then(|| any_slice(&mut random));
        let wanted = Wanted {
            addresses: some_addresses(&mut random),
            ports: endpoints::ports(6443, &[]),
            reconcile_ports: random.percent(50),
            gone: random.percent(30).then(|| random.pick(&IPS[..USABLE]).to_owned()),
            ..Wanted::default()
        };
        let wanted = Wanted { gone: wanted.gone.filter(|gone| !wanted.addresses.contains(gone)), ..wanted };
        let change = endpoints::plan(existing.as_ref(), &wanted);
        let repaired = after(&change, existing.as_ref());
        assert_eq!(endpoints::plan(repaired.as_ref(), &wanted), Change::Leave, "{existing:?}\n{wanted:?}");

        let mut addresses = ready(repaired.as_ref());
        if change != Change::Leave && existing.is_none() {
            assert!(addresses.is_sorted());
        }
        addresses.sort();
        assert_eq!(addresses, wanted.addresses, "{existing:?}");
        let Some(repaired) = repaired else { continue };
        assert!(repaired.subsets.iter().flatten().count() <= 1);
        check_endpoints(&repaired).unwrap_or_else(|error| panic!("{error}: {existing:?} became {repaired:?}"));
        assert_eq!(repaired.metadata.labels.as_ref().unwrap()[SKIP_MIRROR], "true");
        let not_ready =
            repaired.subsets.iter().flatten().flat_map(|subset| subset.not_ready_addresses.iter().flatten());
        for address in not_ready {
            assert!(!wanted.addresses.contains(&address.ip) && wanted.gone.as_ref() != Some(&address.ip));
        }
        if wanted.reconcile_ports {
            let ports = repaired.subsets.iter().flatten().map(|subset| subset.ports.clone().unwrap());
            assert!(ports.into_iter().all(|ports| ports.len() == 1 && ports[0].port == 6443));
        }
        if let Some(existing) = &existing {
            foreign_is_kept(&existing.metadata, &repaired.metadata, SKIP_MIRROR);
            assert_eq!(existing.metadata.resource_version, repaired.metadata.resource_version);
        }

        let change_of_slice = slice::plan(&repaired, existing_slice.as_ref());
        let repaired_slice = after(&change_of_slice, existing_slice.as_ref()).unwrap();
        assert_eq!(slice::plan(&repaired, Some(&repaired_slice)), Change::Leave, "{existing_slice:?}");
        check_slice(&repaired_slice).unwrap_or_else(|error| panic!("{error}: {repaired:?} became {repaired_slice:?}"));
        slice_says_what_the_endpoints_say(&repaired, &repaired_slice);
        if let Some(existing) = &existing_slice {
            foreign_is_kept(&existing.metadata, &repaired_slice.metadata, SERVICE_NAME);
            let replaces = matches!(change_of_slice, Change::Replace(_));
            assert_eq!(replaces, existing.address_type != repaired_slice.address_type);
            assert_eq!(repaired_slice.metadata.resource_version.is_none(), replaces);
            replaced += usize::from(replaces);
        }
        cases += 1;
        left += usize::from(change == Change::Leave);
        updated += usize::from(matches!(change, Change::Update(_)));
    }
    println!("{cases} cases: {left} left, {updated} updated, {replaced} slices replaced");
    assert!(cases > 50_000 && left > 100 && updated > 40_000 && replaced > 10_000);
}

fn foreign_is_kept(
    before: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    after: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    own: &str,
) {
    assert_eq!(before.annotations, after.annotations);
    for (key, value) in before.labels.iter().flatten().filter(|(key, _)| *key != own) {
        assert_eq!(after.labels.as_ref().unwrap()[key], *value);
    }
}

fn slice_says_what_the_endpoints_say(endpoints: &Endpoints, slice: &EndpointSlice) {
    assert_eq!(slice.metadata.labels.as_ref().unwrap()[SERVICE_NAME], "kubernetes");
    let subset = endpoints.subsets.iter().flatten().next();
    let all = subset.map_or(Vec::new(), |subset| match &subset.addresses {
        Some(ready) if !ready.is_empty() => ready.clone(),
        _ => subset.not_ready_addresses.clone().unwrap_or_default(),
    });
    let ipv6 = !all.is_empty() && all.iter().all(|address| address.ip.contains(':'));
    assert_eq!(slice.address_type, if ipv6 { "IPv6" } else { "IPv4" });
    let mut expected = ready(Some(endpoints));
    expected.retain(|ip| ip.contains(':') == ipv6);
    assert_eq!(slice_ready(Some(slice)), expected);
    assert_eq!(expected.is_empty(), ready(Some(endpoints)).is_empty());
    let ports = subset.and_then(|subset| subset.ports.clone()).unwrap_or_default();
    let found: Vec<Option<i32>> = slice.ports.iter().flatten().map(|port| port.port).collect();
    assert_eq!(found, ports.iter().map(|port| Some(port.port)).collect::<Vec<_>>());
}

/// As `lease.go` does it: what is right in number and addresses is left, wherever the addresses stand.
#[test]
fn addresses_in_another_order_are_right() {
    let address = |ip: &str| EndpointAddress { ip: ip.into(), ..EndpointAddress::default() };
    let subset = EndpointSubset {
        addresses: Some(vec![address("10.0.0.2"), address("10.0.0.1")]),
        ports: Some(vec![https(443)]),
        ..EndpointSubset::default()
    };
    let mut existing = Endpoints { subsets: Some(vec![subset]), ..Endpoints::default() };
    existing.metadata.labels = Some([(SKIP_MIRROR.to_owned(), "true".to_owned())].into());
    let mut wanted = Wanted {
        addresses: strings(&["10.0.0.1", "10.0.0.2"]),
        ports: endpoints::ports(6443, &[]),
        ..Wanted::default()
    };
    assert_eq!(endpoints::plan(Some(&existing), &wanted), Change::Leave, "ports are left, too");
    wanted.reconcile_ports = true;
    let Change::Update(repaired) = endpoints::plan(Some(&existing), &wanted) else { panic!("the ports are wrong") };
    assert_eq!(repaired.subsets.as_ref().unwrap()[0].ports, Some(vec![https(6443)]));
    assert_eq!(ready(Some(&repaired)), ["10.0.0.2", "10.0.0.1"]);
}

#[test]
fn sorted_as_text() {
    let wanted = Wanted {
        addresses: strings(&["10.0.0.9", "fd00::1", "10.0.0.10", "10.0.0.2", "10.0.0.2"]),
        ports: endpoints::ports(6443, &[]),
        ..Wanted::default()
    };
    let Change::Create(created) = endpoints::plan(None, &wanted) else { panic!("there are none") };
    assert_eq!(ready(Some(&created)), ["10.0.0.10", "10.0.0.2", "10.0.0.9", "fd00::1"]);
    let Change::Create(slice) = slice::plan(&created, None) else { panic!("there is none") };
    assert_eq!((slice.address_type.as_str(), slice_ready(Some(&slice)).len()), ("IPv4", 3));
}

#[test]
fn lease_mode_by_a_plain_model() {
    let mut random = Random::new(2);
    let (mut refused, mut erased, mut kept) = (0, 0, 0);
    for _ in 0..40_000 {
        let existing = random.percent(90).then(|| any_endpoints(&mut random));
        let live = some_addresses(&mut random);
        let mut doubtful = some_addresses(&mut random);
        doubtful.retain(|address| !live.contains(address));
        let survey = Survey { live: live.clone(), doubtful: doubtful.clone(), faults: Vec::new() };
        let stage = random.pick(&[Stage::Start, Stage::Run, Stage::Stop]);
        let own = "10.0.0.1";

        let slice = random.percent(50).then(|| any_slice(&mut random));
        let listed = [ready(existing.as_ref()), slice_ready(slice.as_ref())].concat();
        let mut expected: Vec<String> = Vec::new();
        for address in IPS[..USABLE].iter().map(|ip| (*ip).to_owned()) {
            let may_live = doubtful.contains(&address) && listed.contains(&address);
            let removes = stage != Stage::Run && address == own;
            if (live.contains(&address) || may_live) && !removes {
                expected.push(address.clone());
            }
            kept += usize::from(may_live);
        }
        expected.sort();
        let expected = match stage {
            Stage::Run if expected.is_empty() => Err(Refusal::NoLeases),
            Stage::Start if expected.is_empty() => Err(Refusal::OnlyOwnAddress),
            Stage::Stop if existing.is_none() => Ok(None),
            _ => Ok(Some(expected)),
        };
        refused += usize::from(expected.is_err());
        erased += usize::from(expected == Ok(Some(Vec::new())));
        assert_eq!(desired(Mode::Lease, stage, own, &survey, existing.as_ref(), slice.as_ref()), expected);
    }
    println!("40000 cases: {refused} refused, {erased} erased, {kept} addresses in doubt kept");
    assert!(refused > 1000 && erased > 500 && kept > 1000);
}

/// Who has too many addresses drops the one that follows its own in text order, again and again, round the end.
#[test]
fn master_count_mode_by_a_plain_model() {
    let mut random = Random::new(3);
    let (mut dropped, mut wrapped) = (0, 0);
    for _ in 0..40_000 {
        let existing = random.percent(90).then(|| any_endpoints(&mut random));
        let own = random.pick(&IPS[..USABLE]).to_owned();
        let count = 1 + random.below(5) as u32;
        let found = desired(Mode::MasterCount(count), Stage::Run, &own, &Survey::default(), existing.as_ref(), None);

        let mut ring: Vec<String> = ready(existing.as_ref());
        ring.retain(|ip| IPS[..USABLE].contains(&ip.as_str()));
        ring.push(own.clone());
        ring.sort();
        ring.dedup();
        while ring.len() > count as usize {
            let at = ring.iter().position(|address| *address == own).unwrap();
            let next = (at + 1) % ring.len();
            wrapped += usize::from(next == 0);
            ring.remove(next);
            dropped += 1;
        }
        assert_eq!(found, Ok(Some(ring)));
    }
    println!("40000 cases: {dropped} addresses dropped, {wrapped} of them round the end");
    assert!(dropped > 10_000 && wrapped > 4_000);
}

#[test]
fn master_count_mode_erases_all_only_at_an_ordered_stop() {
    let address = EndpointAddress { ip: "10.0.0.1".into(), ..EndpointAddress::default() };
    let subset = EndpointSubset { addresses: Some(vec![address]), ..EndpointSubset::default() };
    let only_own = Endpoints { subsets: Some(vec![subset]), ..Endpoints::default() };
    let decide = |stage| desired(Mode::MasterCount(3), stage, "10.0.0.1", &Survey::default(), Some(&only_own), None);
    assert_eq!(decide(Stage::Start), Err(Refusal::OnlyOwnAddress));
    assert_eq!(decide(Stage::Run), Ok(Some(strings(&["10.0.0.1"]))));
    assert_eq!(decide(Stage::Stop), Ok(Some(Vec::new())));
    let decide = |mode| desired(mode, Stage::Stop, "10.0.0.1", &Survey::default(), Some(&only_own), None);
    assert_eq!(decide(Mode::None), Ok(None));
}

#[test]
fn only_a_running_server_changes_the_ports_of_the_others_and_only_if_it_is_told_to() {
    let of_others = vec![https(7443)];
    let subset = EndpointSubset {
        addresses: Some(
            ["10.0.0.1", "10.0.0.2"].map(|ip| EndpointAddress { ip: ip.into(), ..Default::default() }).into(),
        ),
        ports: Some(of_others.clone()),
        ..EndpointSubset::default()
    };
    let existing = Endpoints { subsets: Some(vec![subset]), ..Endpoints::default() };
    let own = endpoints::ports(6443, &[]);
    for (mode, stage, reconcile_ports) in [Mode::Lease, Mode::MasterCount(2)].into_iter().flat_map(|mode| {
        [Stage::Start, Stage::Run, Stage::Stop]
            .into_iter()
            .flat_map(move |stage| [false, true].map(|on| (mode, stage, on)))
    }) {
        let live = if stage == Stage::Run { strings(&["10.0.0.1", "10.0.0.2"]) } else { strings(&["10.0.0.2"]) };
        let changes = reconcile::plan(&Situation {
            name: "kubernetes",
            mode,
            stage,
            own: "10.0.0.1",
            ports: &own,
            reconcile_ports,
            survey: &Survey { live, ..Survey::default() },
            endpoints: Some(&existing),
            slice: None,
        });
        let repaired = after(&changes.unwrap().endpoints, Some(&existing)).unwrap();
        let ports = repaired.subsets.unwrap().remove(0).ports.unwrap();
        let expected = if stage == Stage::Run && reconcile_ports { &own } else { &of_others };
        assert_eq!(&ports, expected, "{mode:?}, {stage:?}, reconcile_ports: {reconcile_ports}");
    }
}

#[test]
fn services_in_any_state() {
    let mut random = Random::new(4);
    let (mut left, mut updated) = (0, 0);
    for _ in 0..60_000 {
        let existing = any_service(&mut random);
        let extra = ServicePort { name: Some("extra".into()), port: 8443, ..ServicePort::default() };
        let wanted = service::Wanted {
            node_port: random.pick(&[0, 30_443]),
            extra_ports: if random.percent(50) { vec![extra] } else { Vec::new() },
            ..service::Wanted::kubernetes("10.0.0.1".parse().unwrap(), 6443)
        };
        let existing = if random.percent(10) { wanted.service() } else { existing };
        assert_eq!(service::plan(Some(&existing), &wanted, false), Change::Leave);
        let change = service::plan(Some(&existing), &wanted, true);
        let Some(mut repaired) = after(&change, Some(&existing)) else { panic!("it exists") };
        // An API server gives a port a NodePort if the type asks for it and the client does not.
        let spec = repaired.spec.as_mut().unwrap();
        if spec.type_.as_deref() == Some("NodePort") {
            for (index, port) in spec.ports.iter_mut().flatten().enumerate() {
                if port.node_port.unwrap_or(0) == 0 {
                    port.node_port = Some(31_000 + index as i32);
                }
            }
        }
        assert_eq!(service::plan(Some(&repaired), &wanted, true), Change::Leave, "{existing:?} became {repaired:?}");
        let ports = repaired.spec.as_ref().unwrap().ports.as_ref().unwrap();
        assert_eq!(ports.len(), 1 + wanted.extra_ports.len());
        assert_eq!((ports[0].port, ports[0].target_port.clone().unwrap()), (443, 6443.into_int()));
        assert_eq!(ports[0].node_port.unwrap_or(0) != 0 && wanted.node_port != 0, wanted.node_port != 0);
        if let Change::Update(changed) = change {
            // Nothing but ports and type.
            let mut back = changed.clone();
            match (&mut back.spec, &existing.spec) {
                (Some(spec), Some(before)) => {
                    spec.ports.clone_from(&before.ports);
                    spec.type_.clone_from(&before.type_);
                    assert_eq!(back, existing);
                }
                (spec, None) => assert!(spec.is_some()),
                (None, Some(_)) => panic!("the spec is gone"),
            }
            updated += 1;
        } else {
            left += 1;
        }
    }
    println!("60000 cases: {left} left, {updated} updated");
    assert!(left > 5_000 && updated > 50_000);
}

trait IntoInt {
    fn into_int(self) -> k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
}

impl IntoInt for i32 {
    fn into_int(self) -> k8s_openapi::apimachinery::pkg::util::intstr::IntOrString {
        k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(self)
    }
}

/// The Service as kube-apiserver 1.37.2 creates it, before the API server fills in what is missing.
#[test]
fn the_service_that_is_created() {
    let mut wanted = service::Wanted::kubernetes("10.96.0.1".parse().unwrap(), 6443);
    let Change::Create(created) = service::plan(None, &wanted, false) else { panic!("there is none") };
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1", "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    });
    assert_eq!(serde_json::to_value(&created).unwrap(), expected);
    wanted.node_port = 30_443;
    let spec = wanted.service().spec.unwrap();
    assert_eq!((spec.type_.as_deref(), spec.ports.unwrap()[0].node_port), (Some("NodePort"), Some(30_443)));
}

#[test]
fn the_first_address_of_a_range() {
    use rangekeeper_bootstrap::config::first_address;
    let first = |range| first_address(range).map(|address| address.to_string()).map_err(|error| error.to_string());
    assert_eq!(first("10.96.0.0/12").as_deref(), Ok("10.96.0.1"));
    assert_eq!(first("fd00:10:96::/108").as_deref(), Ok("fd00:10:96::1"));
    assert!(first("10.0.0.0/32").unwrap_err().contains("10.0.0.0/32"));
    assert!(first("10.0.0.0").unwrap_err().contains("10.0.0.0"));
}

#[test]
fn namespaces_are_created_where_missing() {
    let wanted: Vec<&str> = namespaces::SYSTEM.into_iter().chain(["extra", "extra"]).collect();
    let created = |existing: &[&str]| {
        let created = namespaces::plan(existing, &wanted).into_iter();
        created.map(|namespace| namespace.metadata.name.unwrap()).collect::<BTreeSet<_>>()
    };
    let all: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(all.len(), 5);
    let mut cases = 0;
    for bits in 0_u32..32 {
        let existing: Vec<&str> =
            all.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1).map(|(_, name)| name.as_str()).collect();
        let made = created(&existing);
        assert!(made.iter().all(|name| !existing.contains(&name.as_str())));
        assert_eq!(made.len() + existing.len(), 5);
        cases += 1;
    }
    assert_eq!(cases, 32);
}
