//! The judgement of an audit: against a naive model, on clusters in any state; what its repairs leave; and that no
//! lease of a live server is ever deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rangekeeper::audit::Remedy;
use rangekeeper_bootstrap::audit::{
    EtcdLease, KubernetesObjects, Observed, ObservedLease, Reason, Unseen, Verdict, judge,
};
use rangekeeper_bootstrap::endpoints::{self, Wanted};
use rangekeeper_bootstrap::leases::{Lease, StoredLease, key};
use rangekeeper_bootstrap::namespaces::SYSTEM;
use rangekeeper_bootstrap::object::{Change, Object};
use rangekeeper_bootstrap::request::Request;
use rangekeeper_bootstrap::{service, slice};

use crate::common::{IPS, Random, USABLE, any_endpoints, any_slice, check_endpoints, check_slice, https, ready};

const DIRECTORY: &str = "/registry/masterleases/";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const LONG: Duration = Duration::from_secs(30);

fn lease(random: &mut Random, address: &str) -> ObservedLease {
    let value = match random.below(20) {
        0 => b"damaged".to_vec(),
        2 => b"k8s:enc:aescbc:v1:key1:damaged".to_vec(),
        1 => Lease { address: random.pick(&IPS).into(), generation: 3 }.encode(),
        _ => Lease { address: address.into(), generation: 3 }.encode(),
    };
    ObservedLease {
        stored: StoredLease {
            key: key(DIRECTORY, address),
            value,
            mod_revision: random.below(1000) + 1,
            lease_id: if random.percent(15) { 0 } else { 7 },
        },
        etcd_lease: random.pick(&[EtcdLease::Unknown, EtcdLease::Granted, EtcdLease::Granted, EtcdLease::Missing]),
        ttl: Duration::from_secs(random.pick(&[0, 15, 15, 15, 15, 36_000])),
        unchanged: Duration::from_secs(random.pick(&[0, 15, 29, 30, 40])),
    }
}

fn any_lease(random: &mut Random) -> ObservedLease {
    let address = random.pick(&["10.9.9.9", IPS[0], IPS[1]]);
    lease(random, address)
}

fn renewal(address: &str) -> StoredLease {
    let value = Lease { address: address.into(), generation: 4 }.encode();
    StoredLease { key: key(DIRECTORY, address), value, mod_revision: 1001, lease_id: 8 }
}

/// Endpoints as servers with these addresses write them, or any others.
fn some_endpoints(random: &mut Random, addresses: &BTreeSet<String>) -> Option<Endpoints> {
    match random.below(10) {
        0 => None,
        1..=3 => Some(any_endpoints(random)),
        _ => {
            let mut addresses: Vec<String> = addresses.iter().cloned().collect();
            if random.percent(30) {
                addresses.push("10.9.9.9".into());
            }
            let wanted = Wanted { addresses, ports: vec![https(6443)], ..Wanted::default() };
            endpoints::plan(None, &wanted).object().cloned()
        }
    }
}

fn some_slices(random: &mut Random, endpoints: Option<&Endpoints>) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    match endpoints {
        Some(endpoints) if random.percent(60) => {
            let mut own = slice::plan(endpoints, None).object().unwrap().clone();
            if random.percent(20) {
                own.ports.iter_mut().flatten().for_each(|port| port.port = Some(random.pick(&[443, 6443])));
            }
            slices.push(own);
        }
        None if random.percent(40) => {
            let wanted = Wanted { addresses: vec!["10.9.9.9".into()], ports: vec![https(6443)], ..Wanted::default() };
            slices.extend(slice::plan(endpoints::plan(None, &wanted).object().unwrap(), None).object().cloned());
        }
        _ if random.percent(50) => slices.push(any_slice(random)),
        _ => {}
    }
    while random.percent(40) {
        let mut other = any_slice(random);
        other.metadata.name = Some(format!("kubernetes-{}", slices.len()));
        if random.percent(30) {
            let labels = other.metadata.labels.get_or_insert_default();
            labels.insert(MANAGED_BY.into(), random.pick(&[MIRRORING_CONTROLLER, "somebody"]).into());
        }
        slices.push(other);
    }
    slices
}

fn any_cluster(random: &mut Random) -> Observed {
    let addresses: BTreeSet<String> = (0..random.below(4)).map(|_| random.pick(&IPS[..USABLE]).to_owned()).collect();
    let endpoints = some_endpoints(random, &addresses);
    let service = random.percent(90).then(|| {
        let address: IpAddr = random.pick(&["10.96.0.1", "10.96.0.1", "10.96.0.2", "fd00:96::1"]).parse().unwrap();
        let port = random.pick(&[6443, 6443, 6443, 443]);
        service::plan(None, &service::Wanted::kubernetes(address, port), false).object().unwrap().clone()
    });
    let mut namespaces: Vec<String> =
        SYSTEM.iter().filter(|_| random.percent(95)).map(|name| (*name).to_owned()).collect();
    let (mut service, mut endpoints, mut addresses) = (service, endpoints, addresses);
    if random.percent(10) {
        namespaces.clear();
        // Nearly a cluster without a server yet.
        service = service.filter(|_| random.percent(20));
        endpoints = endpoints.filter(|_| random.percent(20));
        addresses.retain(|_| random.percent(20));
    }
    Observed {
        at_rest: random.percent(30),
        leases: random.percent(90).then(|| addresses.iter().map(|address| lease(random, address)).collect()),
        objects: random.percent(95).then(|| {
            Box::new(KubernetesObjects {
                slices: some_slices(random, endpoints.as_ref()),
                service,
                endpoints,
                unchanged: Duration::from_secs(random.pick(&[0, 29, 30, 60])),
            })
        }),
        earlier: (0..random.below(3)).map(|_| any_lease(random)).collect(),
        renewed: (0..random.below(3)).map(|_| random.pick(&["10.9.9.9", IPS[0], IPS[1]])).map(renewal).collect(),
        namespaces: random.percent(90).then_some(namespaces),
        service_range: random.pick(&[None, Some("10.96.0.0/12"), Some("fd00:96::/112")]).map(String::from),
        ..Observed::default()
    }
}

/// What a reader of etcd would say, without the crate's parts: of leases whose values can be read.
struct Model {
    /// The addresses in values, and those in keys whose values are unreadable or differ.
    live: BTreeSet<String>,
    doubtful: BTreeSet<String>,
    /// The addresses in the values of leases that expire.
    expiring: BTreeSet<String>,
}

fn canonical(text: &str) -> Option<String> {
    IPS[..USABLE].contains(&text).then(|| text.to_owned()).or_else(|| (text == "10.9.9.9").then(|| text.to_owned()))
}

fn never_expires(lease: &ObservedLease) -> bool {
    lease.stored.lease_id == 0 || lease.etcd_lease == EtcdLease::Missing || lease.ttl.as_secs() > 60
}

fn is_encrypted(lease: &ObservedLease) -> bool {
    lease.stored.value.starts_with(b"k8s:enc:")
}

impl Model {
    fn of(leases: &[ObservedLease]) -> Self {
        let mut model = Self { live: BTreeSet::new(), doubtful: BTreeSet::new(), expiring: BTreeSet::new() };
        for lease in leases {
            let by_key = lease.stored.key[DIRECTORY.len()..].to_owned();
            let by_value = Lease::decode(&lease.stored.value).ok().and_then(|lease| canonical(&lease.address));
            if by_value.as_ref() != Some(&by_key) {
                model.doubtful.insert(by_key);
            }
            if let Some(address) = by_value {
                if !never_expires(lease) {
                    model.expiring.insert(address.clone());
                }
                model.live.insert(address);
            }
        }
        model
    }

    fn has(&self, address: &str) -> bool {
        self.live.contains(address) || self.doubtful.contains(address)
    }
}

fn listed(endpoints: Option<&Endpoints>) -> BTreeSet<String> {
    ready(endpoints).iter().filter_map(|text| canonical(text)).collect()
}

/// Whether the value of a label is this one.
fn is_labelled(labels: Option<&BTreeMap<String, String>>, label: &str, expected: &str) -> bool {
    labels.into_iter().flatten().any(|(key, value)| key == label && value == expected)
}

/// The addresses that a proxy takes from a slice: an absent condition means ready.
fn ready_in(slice: &EndpointSlice) -> BTreeSet<String> {
    let endpoints = slice.endpoints.iter().flatten();
    let ready =
        endpoints.filter(|one| one.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false)));
    ready.flat_map(|one| &one.addresses).filter_map(|text| canonical(text)).collect()
}

type Way = (String, BTreeSet<(i32, String, String)>);

fn ways_of_slice(slice: &EndpointSlice) -> BTreeSet<Way> {
    let ports = slice.ports.iter().flatten().filter_map(|port| {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
        Some((port.port?, port.name.clone().unwrap_or_default(), protocol))
    });
    let ports: BTreeSet<_> = ports.collect();
    ready_in(slice).into_iter().map(|address| (address, ports.clone())).collect()
}

fn ways_of_endpoints(endpoints: Option<&Endpoints>) -> BTreeSet<Way> {
    let mut ways = BTreeSet::new();
    for subset in endpoints.into_iter().flat_map(|endpoints| endpoints.subsets.iter().flatten()) {
        let ports: BTreeSet<_> = subset
            .ports
            .iter()
            .flatten()
            .map(|port| {
                let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
                (port.port, port.name.clone().unwrap_or_default(), protocol)
            })
            .collect();
        let addresses = subset.addresses.iter().flatten().filter_map(|address| canonical(&address.ip));
        ways.extend(addresses.map(|address| (address, ports.clone())));
    }
    ways
}

/// Whether an administrator keeps the Endpoints, and the mirroring controller the slices.
fn is_mirrored(objects: &KubernetesObjects, model: Option<&Model>) -> bool {
    model.is_none_or(|model| model.expiring.is_empty())
        && objects
            .endpoints
            .as_ref()
            .is_some_and(|endpoints| !is_labelled(endpoints.metadata.labels.as_ref(), SKIP_MIRROR, "true"))
}

/// The reasons with their values that a naive reader finds, but for the form of Endpoints and the slice, which the
/// plans' own tests compare.
fn naive(observed: &Observed) -> BTreeSet<(Reason, String)> {
    let mut found = BTreeSet::new();
    let model = observed.leases.as_deref().map(Model::of);
    for lease in observed.leases.iter().flatten() {
        let by_key = lease.stored.key[DIRECTORY.len()..].to_owned();
        if never_expires(lease) {
            found.insert((Reason::LeaseNeverExpires, by_key.clone()));
        }
        match Lease::decode(&lease.stored.value).ok().and_then(|lease| canonical(&lease.address)) {
            None if is_encrypted(lease) => {}
            None => drop(found.insert((Reason::LeaseNotValid, by_key))),
            Some(address) if address != by_key => drop(found.insert((Reason::LeaseMismatch, by_key))),
            Some(_) => {}
        }
    }
    let Some(objects) = &observed.objects else { return with_namespaces(observed, found) };
    let in_endpoints = listed(objects.endpoints.as_ref());
    let is_mirrored = is_mirrored(objects, model.as_ref());
    let has_leases = observed.leases.as_ref().is_some_and(|leases| !leases.is_empty());
    if let Some(model) = model.filter(|model| !model.expiring.is_empty()) {
        if objects.endpoints.is_none() {
            found.insert((Reason::EndpointsMissing, "kubernetes".into()));
        } else {
            let missing = model.expiring.iter().filter(|address| !in_endpoints.contains(*address));
            found.extend(missing.map(|address| (Reason::LeaseWithoutEndpoint, address.clone())));
        }
        let stale = in_endpoints.iter().filter(|address| !model.has(address));
        found.extend(stale.map(|address| (Reason::EndpointWithoutLease, address.clone())));
    }
    let of_service = |slice: &&EndpointSlice| is_labelled(slice.metadata.labels.as_ref(), SERVICE_NAME, "kubernetes");
    let of_service: Vec<&EndpointSlice> = objects.slices.iter().filter(of_service).collect();
    let is_own = |slice: &&&EndpointSlice| slice.metadata.name.as_deref() == Some("kubernetes");
    let own = of_service.iter().find(is_own).filter(|own| !ready_in(own).is_empty());
    for slice in own.iter().flat_map(|_| of_service.iter().filter(|slice| !is_own(slice))) {
        let labels = slice.metadata.labels.as_ref();
        let is_mirror = is_labelled(labels, MANAGED_BY, MIRRORING_CONTROLLER);
        let is_managed = labels.is_some_and(|labels| labels.contains_key(MANAGED_BY));
        let of_family = own.is_some_and(|own| own.address_type == slice.address_type);
        let is_kept = ways_of_slice(slice).is_subset(&ways_of_endpoints(objects.endpoints.as_ref()));
        if if is_managed { is_mirror && !is_mirrored } else { has_leases || of_family && !is_kept } {
            found.insert((Reason::EndpointSliceLeftOver, slice.metadata.name.clone().unwrap()));
        }
    }
    let first = observed
        .service_range
        .as_deref()
        .map(|range| if range.starts_with("10.") { "10.96.0.1" } else { "fd00:96::1" });
    match &objects.service {
        None => drop(found.insert((Reason::KubernetesServiceMissing, "kubernetes".into()))),
        Some(service) => {
            let address = service.spec.clone().unwrap().cluster_ip.unwrap();
            if first.is_some_and(|first| first != address) {
                found.insert((Reason::KubernetesServiceNotFirst, address.clone()));
            }
            let six = |text: &String| text.contains(':');
            let mut all = in_endpoints.iter().cloned().chain(of_service.iter().flat_map(|slice| ready_in(slice)));
            if !in_endpoints.is_empty() && all.all(|endpoint| six(&endpoint) != six(&address)) {
                found.insert((Reason::EndpointsOtherFamily, address));
            }
        }
    }
    with_namespaces(observed, found)
}

fn with_namespaces(observed: &Observed, mut found: BTreeSet<(Reason, String)>) -> BTreeSet<(Reason, String)> {
    let nothing_else = observed.leases.iter().flatten().next().is_none()
        && observed.objects.iter().all(|objects| objects.service.is_none() && objects.endpoints.is_none());
    if observed.namespaces == Some(Vec::new()) && nothing_else {
        found.remove(&(Reason::KubernetesServiceMissing, "kubernetes".into()));
        return found;
    }
    if let Some(existing) = &observed.namespaces {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            if !existing.iter().any(|existing| existing == name) {
                found.insert((Reason::NamespaceMissing, name.into()));
            }
        }
    }
    found
}

/// The cluster after its repairs.
fn repaired(observed: &Observed, verdict: &Verdict) -> Observed {
    let mut after = observed.clone();
    for repair in &verdict.repairs {
        match repair {
            Request::DeleteLease { key, mod_revision, lease_id } => {
                let leases = after.leases.as_mut().unwrap();
                let before = leases.len();
                leases.retain(|ObservedLease { stored, .. }| {
                    (&stored.key, stored.mod_revision, stored.lease_id) != (key, *mod_revision, *lease_id)
                });
                assert_eq!(leases.len(), before - 1, "{key}");
            }
            Request::Delete { object, .. } => {
                let slices = &mut after.objects.as_mut().unwrap().slices;
                let before = slices.len();
                slices.retain(|slice| slice.metadata.name.as_deref() != Some(&object.name));
                assert_eq!(slices.len(), before - 1, "{object:?}");
            }
            Request::Create(object) | Request::Update(object) => {
                let objects = after.objects.as_mut().unwrap();
                match object.clone() {
                    Object::Endpoints(endpoints) => objects.endpoints = Some(*endpoints),
                    Object::EndpointSlice(slice) => {
                        objects.slices.retain(|other| other.metadata.name != slice.metadata.name);
                        objects.slices.push(*slice);
                    }
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?}"),
        }
    }
    after
}

#[test]
fn clusters_in_any_state_are_judged_like_a_naive_model() {
    let mut random = Random::new(32);
    let mut seen: BTreeMap<Reason, u64> = BTreeMap::new();
    let (mut cases, mut with_repairs, mut written, mut created, mut right, mut mirrored) = (0, 0, 0, 0, 0, 0);
    for _ in 0..15_000 {
        let observed = any_cluster(&mut random);
        let verdict = judge(&observed);
        let of_form = |reason: &Reason| matches!(reason, Reason::EndpointsNotValid | Reason::EndpointSliceDiffers);
        let objects = observed.objects.as_deref();
        if objects.is_some_and(|objects| is_mirrored(objects, observed.leases.as_deref().map(Model::of).as_ref())) {
            mirrored += 1;
        }
        let found: BTreeSet<(Reason, String)> = verdict
            .findings
            .iter()
            .filter(|finding| !of_form(&finding.reason))
            .map(|finding| (finding.reason, finding.value.clone()))
            .collect();
        assert_eq!(found, naive(&observed), "{observed:?}");
        assert!(verdict.findings.is_sorted_by_key(|finding| (finding.reason, finding.value.clone())));
        check_remedies(&observed, &verdict);
        let of_endpoints = |reason| Reason::EndpointWithoutLease <= reason && reason <= Reason::EndpointSliceDiffers;
        let is_wrong = verdict.findings.iter().any(|finding| of_endpoints(finding.reason));
        let some_lives = observed.leases.as_deref().is_some_and(|leases| !Model::of(leases).expiring.is_empty());
        let undecided = is_wrong && some_lives && !observed.at_rest && objects.and_then(right_ports).is_none();
        assert_eq!(verdict.unseen.contains(&Unseen::Port), undecided, "{observed:?}");
        let stays = verdict.findings.iter().any(|finding| finding.stays);
        assert_eq!(verdict.look_again, if stays { LONG } else { Duration::ZERO });
        for finding in &verdict.findings {
            *seen.entry(finding.reason).or_default() += 1;
            assert_eq!(finding.object.is_none(), !finding.key.is_empty(), "{finding:?}");
        }
        let unseen = observed.leases.as_ref().is_none_or(|leases| leases.iter().any(is_encrypted));
        assert_eq!(verdict.unseen.contains(&Unseen::Leases), unseen);
        let announced = objects.is_some_and(|objects| {
            objects.service.is_some() || objects.endpoints.is_some() || !objects.slices.is_empty()
        });
        let none_lives = observed.leases.as_deref().is_some_and(|leases| Model::of(leases).expiring.is_empty());
        assert_eq!(verdict.unseen.contains(&Unseen::LiveServers), none_lives && announced && !observed.at_rest);
        check_repairs(&observed, &verdict);
        let after = repaired(&observed, &verdict);
        // Once a lease is deleted, servers put the endpoints right. Else nothing may be left to do.
        if !verdict.repairs.iter().any(|repair| matches!(repair, Request::DeleteLease { .. })) {
            assert_eq!(judge(&after).repairs, [], "{observed:?}\n{verdict:?}");
        }
        with_repairs += u64::from(!verdict.repairs.is_empty());
        written += u64::from(verdict.repairs.iter().any(|repair| matches!(repair, Request::Update(_))));
        let creates = |repair: &Request| matches!(repair, Request::Create(Object::Endpoints(_)));
        created += u64::from(verdict.repairs.iter().any(creates));
        right += u64::from(verdict.findings.is_empty());
        cases += 1;
    }
    println!(
        "{cases} clusters: {with_repairs} with repairs, {written} with Endpoints or slices written, {created} with Endpoints created, {mirrored} mirrored, {right} right; {seen:?}"
    );
    assert!(cases >= 15_000 && with_repairs > 3_000 && written > 200 && created > 15 && right > 200 && mirrored > 200);
    assert_eq!(seen.len(), Reason::ALL.len(), "{seen:?}");
    assert!(seen.values().all(|count| *count > 200), "{seen:?}");
}

/// Whether each finding names who repairs it, by what the repairs of the verdict do.
fn check_remedies(observed: &Observed, verdict: &Verdict) {
    let is_written = verdict.repairs.iter().any(|repair| matches!(repair, Request::Update(_) | Request::Create(_)));
    for finding in &verdict.findings {
        let is_repaired = verdict.repairs.iter().any(|repair| match repair {
            Request::DeleteLease { key, .. } => *key == finding.key,
            Request::Delete { object, .. } => Some(object) == finding.object.as_ref(),
            _ => false,
        });
        let by_repair = finding.remedy == Remedy::Repair;
        match finding.reason {
            Reason::LeaseNeverExpires | Reason::LeaseNotValid | Reason::LeaseMismatch => {
                assert_eq!(is_repaired, by_repair && !finding.stays, "{finding:?}");
            }
            Reason::KubernetesServiceNotFirst | Reason::EndpointsOtherFamily | Reason::EndpointSliceLeftOver => {
                assert_eq!((finding.remedy, finding.stays), (Remedy::Owner, false));
            }
            Reason::KubernetesServiceMissing | Reason::NamespaceMissing => {
                assert_eq!((finding.remedy, finding.stays), (Remedy::ApiServer, false));
            }
            Reason::EndpointWithoutLease if wrote(observed, &finding.value) => {
                assert_eq!((finding.remedy, finding.stays), (Remedy::ApiServer, false), "{finding:?}");
            }
            _ if finding.remedy == Remedy::Owner => {
                let leases = observed.leases.as_deref().map(Model::of);
                assert!(leases.is_some_and(|model| model.expiring.is_empty()) && !observed.at_rest, "{finding:?}");
            }
            // Endpoints and their slice are repaired together.
            _ => assert_eq!(is_written, by_repair, "{finding:?}"),
        }
        assert!(!finding.stays || !observed.at_rest, "{finding:?}");
    }
    // What stays is repaired once it has stayed for long enough.
    let mut later = observed.clone();
    later.leases.iter_mut().flatten().for_each(|lease| lease.unchanged = LONG);
    if let Some(objects) = &mut later.objects {
        objects.unchanged = LONG;
    }
    let of_leases =
        |verdict: &Verdict| verdict.repairs.iter().any(|repair| matches!(repair, Request::DeleteLease { .. }));
    if !of_leases(&judge(&later)) {
        assert_eq!(
            judge(&later).repairs.len() > verdict.repairs.len(),
            verdict.findings.iter().any(|finding| finding.stays)
        );
    }
}

type Port = (i32, String, String);

/// The ports that one of the three objects has, if an API server takes them.
fn taken(ports: impl Iterator<Item = (Option<i32>, Option<String>, Option<String>)>) -> Option<Vec<Port>> {
    let ports: Vec<_> = ports.map(|(port, name, protocol)| (port, name.unwrap_or_default(), protocol)).collect();
    let mut all = Vec::new();
    for (port, name, protocol) in &ports {
        let protocol = protocol.as_deref().unwrap_or("TCP");
        let is_named = matches!(name.as_str(), "https" | "extra" | "other") || (name.is_empty() && ports.len() == 1);
        let port = port.filter(|port| (1..=65_535).contains(port) && is_named && protocol != "ICMP")?;
        all.push((port, name.clone(), protocol.to_owned()));
    }
    let names: BTreeSet<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
    (!all.is_empty() && names.len() == all.len()).then_some(all)
}

fn ports_of(slice: &EndpointSlice) -> Option<Vec<Port>> {
    let ports = slice.ports.clone().unwrap_or_default();
    taken(ports.into_iter().map(|port| (port.port, port.name, port.protocol)))
}

/// The ports that two of Endpoints, slice and Service have, or the Endpoints if no other object has any.
fn right_ports(objects: &KubernetesObjects) -> Option<Vec<Port>> {
    let subsets = objects.endpoints.clone().and_then(|endpoints| endpoints.subsets).unwrap_or_default();
    let of_endpoints = match subsets.as_slice() {
        [one] => taken(one.ports.clone().into_iter().flatten().map(|port| (Some(port.port), port.name, port.protocol))),
        _ => None,
    };
    let own = objects.slices.iter().find(|slice| slice.metadata.name.as_deref() == Some("kubernetes"));
    let of_service = objects.service.as_ref().map(|service| {
        let port = service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].clone();
        let Some(IntOrString::Int(target)) = port.target_port else { panic!("{port:?}") };
        vec![(target, "https".to_owned(), "TCP".to_owned())]
    });
    let known: Vec<_> = [of_endpoints.clone(), own.and_then(ports_of), of_service].into_iter().flatten().collect();
    let twice = known.iter().find(|ports| known.iter().filter(|other| other == ports).count() > 1);
    twice.cloned().or(of_endpoints.filter(|_| known.len() == 1))
}

/// Whether a server held a lease that expires when the watch of the objects began, or wrote one since.
fn wrote(observed: &Observed, address: &str) -> bool {
    let held = observed.earlier.iter().filter(|lease| !never_expires(lease)).map(|lease| &lease.stored);
    let mut all = held.chain(&observed.renewed);
    all.any(|lease| Lease::decode(&lease.value).is_ok_and(|lease| lease.address == address))
}

/// What no repair may do.
fn check_repairs(observed: &Observed, verdict: &Verdict) {
    let model = Model::of(observed.leases.as_deref().unwrap_or_default());
    let long = observed.objects.as_ref().is_some_and(|objects| objects.unchanged >= LONG);
    for repair in &verdict.repairs {
        match repair {
            Request::DeleteLease { key, .. } => {
                let lease = observed.leases.iter().flatten().find(|lease| lease.stored.key == *key).unwrap();
                assert!(observed.at_rest || (never_expires(lease) && lease.unchanged >= LONG), "{lease:?}");
            }
            Request::Update(object) | Request::Create(object) => {
                assert!(!observed.at_rest && long && !model.expiring.is_empty() && model.doubtful.is_empty());
                // A server that writes its lease writes Endpoints, too, wherever it keeps them.
                let are_missing = observed.objects.as_ref().is_some_and(|objects| objects.endpoints.is_none());
                let renews = observed.renewed.iter().any(|lease| Lease::decode(&lease.value).is_ok());
                assert!(!are_missing || !renews, "{:?}", observed.renewed);
                match object {
                    Object::Endpoints(endpoints) => {
                        check_endpoints(endpoints).unwrap();
                        let now = listed(Some(endpoints));
                        assert!(model.expiring.is_subset(&now), "{endpoints:?}");
                        let before = listed(observed.objects.as_ref().unwrap().endpoints.as_ref());
                        let slow: BTreeSet<String> =
                            before.into_iter().filter(|address| wrote(observed, address)).collect();
                        assert!(slow.is_subset(&now), "{endpoints:?} lack a server that was alive");
                        assert!(now.is_subset(&(&model.live | &slow)), "{endpoints:?}");
                    }
                    Object::EndpointSlice(slice) => {
                        check_slice(slice).unwrap();
                        assert_eq!(ports_of(slice), right_ports(observed.objects.as_ref().unwrap()), "{observed:?}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            // A slice that servers do not write is somebody's.
            Request::Delete { object, .. } => {
                assert!(!observed.at_rest && long && object.name == "kubernetes", "{object:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    if let Some(leases) = observed.leases.as_ref().filter(|_| observed.at_rest) {
        let deleted = verdict.repairs.iter().filter(|repair| matches!(repair, Request::DeleteLease { .. })).count();
        assert_eq!(deleted, leases.len());
    }
}

/// Servers write their leases every 10 s, may be paused for up to 14 s, and end; etcd loses times to live. An operator
/// looks on, and deletes what is judged dead.
#[test]
fn no_lease_of_a_live_server_is_deleted() {
    let mut random = Random::new(15);
    let (mut runs, mut deleted, mut kept) = (0, 0, 0);
    for _ in 0..10_000 {
        let ends = if random.percent(50) { random.below(200) } else { u64::MAX };
        let mut next_write = random.below(10);
        let (mut revision, mut lease_id) = (1, 0);
        let (mut watched_since, mut watched) = (0, 0);
        let mut exists = true;
        let start = random.below(120);
        let step = 1 + random.below(15);
        for now in 0..400 {
            if now == next_write && now < ends {
                (revision, lease_id, exists) = (revision + 1, 7, true);
                next_write = now + 10 + if random.percent(40) { random.below(15) } else { 0 };
            }
            if exists && random.percent(3) {
                lease_id = 0; // as by a restore of etcd
            }
            if !exists || now < start || !(now - start).is_multiple_of(step) {
                continue;
            }
            if watched != revision {
                (watched, watched_since) = (revision, now);
            }
            let stored = StoredLease {
                key: key(DIRECTORY, "10.0.0.1"),
                value: Lease { address: "10.0.0.1".into(), generation: 1 }.encode(),
                mod_revision: revision,
                lease_id,
            };
            let unchanged = Duration::from_secs(now - watched_since);
            let leases =
                Some(vec![ObservedLease { stored, etcd_lease: EtcdLease::Granted, ttl: Duration::ZERO, unchanged }]);
            if judge(&Observed { leases, ..Observed::default() }).repairs.is_empty() {
                continue;
            }
            assert!(now >= ends, "the lease of a live server is deleted at {now} s");
            exists = false;
            deleted += 1;
        }
        kept += u64::from(exists);
        runs += 1;
    }
    println!("{runs} runs: {deleted} leases of dead servers deleted, {kept} leases kept");
    assert!(runs >= 10_000 && deleted > 3_000 && kept > 3_000);
}

#[test]
fn what_a_server_writes_is_right() {
    let addresses = vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
    let wanted = Wanted { addresses: addresses.clone(), ports: vec![https(6443)], ..Wanted::default() };
    let Change::Create(endpoints) = endpoints::plan(None, &wanted) else { panic!("there are none yet") };
    let slices = slice::plan(&endpoints, None).object().cloned().into_iter().collect();
    let service = service::Wanted::kubernetes("10.96.0.1".parse().unwrap(), 6443).service();
    let leases = addresses.iter().map(|address| ObservedLease {
        stored: StoredLease {
            key: key(DIRECTORY, address),
            value: Lease { address: address.clone(), generation: 1 }.encode(),
            mod_revision: 5,
            lease_id: 7,
        },
        etcd_lease: EtcdLease::Granted,
        ttl: Duration::ZERO,
        unchanged: Duration::ZERO,
    });
    let observed = Observed {
        leases: Some(leases.collect()),
        objects: Some(Box::new(KubernetesObjects {
            service: Some(service),
            endpoints: Some(endpoints),
            slices,
            ..KubernetesObjects::default()
        })),
        namespaces: Some(SYSTEM.map(String::from).into()),
        service_range: Some("10.96.0.0/12".into()),
        ..Observed::default()
    };
    assert_eq!(judge(&observed), Verdict::default());
    assert_eq!(judge(&Observed { service_range: None, ..observed }).unseen, [Unseen::ServiceRange]);
    assert_eq!(judge(&Observed::default()).unseen, [Unseen::Leases, Unseen::Objects, Unseen::Namespaces]);
}

/// With `--endpoint-reconciler-type=none` an administrator writes the Endpoints, with as many subsets as they like, and
/// kube-controller-manager the slices.
#[test]
fn endpoints_of_an_administrator_are_right() {
    let wanted = Wanted { addresses: vec!["10.0.0.1".into()], ports: vec![https(6443)], ..Wanted::default() };
    let Change::Create(mut endpoints) = endpoints::plan(None, &wanted) else { panic!("there are none yet") };
    let mut mirror = slice::plan(&endpoints, None).object().unwrap().clone();
    mirror.metadata.name = Some("kubernetes-x7kq2".into());
    mirror.metadata.labels.get_or_insert_default().insert(MANAGED_BY.into(), MIRRORING_CONTROLLER.into());
    let subset = endpoints.subsets.as_ref().unwrap()[0].clone();
    endpoints.subsets.as_mut().unwrap().push(subset);
    endpoints.metadata.labels = None;
    let judged = |endpoints: &Endpoints, leases| {
        let objects = KubernetesObjects {
            service: Some(service::Wanted::kubernetes("10.96.0.1".parse().unwrap(), 6443).service()),
            endpoints: Some(endpoints.clone()),
            slices: vec![mirror.clone()],
            ..KubernetesObjects::default()
        };
        let verdict = judge(&Observed { leases, objects: Some(Box::new(objects)), ..Observed::default() });
        verdict.findings.iter().map(|finding| finding.reason).collect::<Vec<_>>()
    };
    for leases in [None, Some(Vec::new())] {
        assert_eq!(judged(&endpoints, leases), []);
    }
    // A server keeps them, by its lease. The mirror is the last way to it.
    let stored = StoredLease {
        key: key(DIRECTORY, "10.0.0.1"),
        value: Lease { address: "10.0.0.1".into(), generation: 1 }.encode(),
        mod_revision: 5,
        lease_id: 7,
    };
    let lease =
        ObservedLease { stored, etcd_lease: EtcdLease::Granted, ttl: Duration::ZERO, unchanged: Duration::ZERO };
    assert_eq!(judged(&endpoints, Some(vec![lease])), [Reason::EndpointsNotValid]);
    // An administrator who writes the slices, too, says so by the label.
    endpoints.metadata.labels = Some(BTreeMap::from([(SKIP_MIRROR.into(), "true".into())]));
    assert_eq!(judged(&endpoints, Some(Vec::new())), []);
}

/// Hosted control planes, load balancers and other controllers keep Endpoints and slices in the forms that the API
/// allows, while no server does.
#[test]
fn endpoints_that_others_keep_are_right() {
    use k8s_openapi::api::discovery::v1::EndpointConditions;
    let skip = || Some(BTreeMap::from([(SKIP_MIRROR.to_owned(), "true".to_owned())]));
    let of = |address: &str, port: i32| {
        let wanted = Wanted { addresses: vec![address.into()], ports: vec![https(port)], ..Wanted::default() };
        let mut endpoints = endpoints::plan(None, &wanted).object().unwrap().clone();
        endpoints.metadata.labels = skip();
        let slice = slice::plan(&endpoints, None).object().unwrap().clone();
        (endpoints, slice)
    };
    let named = |slice: &EndpointSlice, name: &str, writer: Option<&str>| {
        let mut slice = slice.clone();
        slice.metadata.name = Some(name.into());
        let labels = slice.metadata.labels.get_or_insert_default();
        labels.extend(writer.map(|writer| (MANAGED_BY.to_owned(), writer.to_owned())));
        slice
    };
    let judged = |endpoints: Option<&Endpoints>, slices: &[&EndpointSlice]| {
        let objects = KubernetesObjects {
            service: Some(service::Wanted::kubernetes("10.96.0.1".parse().unwrap(), 6443).service()),
            endpoints: endpoints.cloned(),
            slices: slices.iter().map(|slice| (*slice).clone()).collect(),
            ..KubernetesObjects::default()
        };
        let of_leases = |leases| {
            let verdict = judge(&Observed { leases, objects: Some(Box::new(objects.clone())), ..Observed::default() });
            verdict.findings.iter().map(|finding| finding.reason).collect::<Vec<_>>()
        };
        let (unseen, none) = (of_leases(None), of_leases(Some(Vec::new())));
        assert_eq!(unseen, none, "leases that are not shown, and none");
        none
    };
    let (one, first) = of("10.0.0.1", 31443);
    let (other, second) = of("10.0.0.2", 32443);
    // Conditions that are absent, or those of a server that does not end (k8s.io/api/discovery/v1).
    for conditions in [
        None,
        Some(EndpointConditions::default()),
        Some(EndpointConditions { serving: Some(true), terminating: Some(false), ready: None }),
    ] {
        let mut slice = first.clone();
        slice.endpoints.as_mut().unwrap()[0].conditions = conditions;
        assert_eq!(judged(Some(&one), &[&slice]), []);
    }
    let mut unready = first.clone();
    unready.endpoints.as_mut().unwrap()[0].conditions =
        Some(EndpointConditions { ready: Some(false), ..EndpointConditions::default() });
    assert_eq!(judged(Some(&one), &[&unready]), [Reason::EndpointSliceDiffers]);
    assert_eq!(judged(Some(&one), &[&second]), [Reason::EndpointSliceDiffers]);
    // The only way to the API server, without Endpoints.
    assert_eq!(judged(None, &[&named(&first, "tenant", Some("tenants.example.com"))]), []);
    assert_eq!(judged(None, &[&named(&first, "tenant", None)]), []);
    // Two load balancers with different ports.
    let mut both = one.clone();
    both.subsets.as_mut().unwrap().extend(other.subsets.clone().unwrap());
    let (left, right) = (named(&first, "left", None), named(&second, "right", None));
    assert_eq!(judged(Some(&both), &[&left, &right]), []);
    assert_eq!(judged(Some(&both), &[&first, &right]), []);
    assert_eq!(judged(Some(&both), &[&left]), [Reason::EndpointSliceDiffers]);
    // A slice of the other family, and one of another writer, beside the slice kubernetes.
    let six = named(&of("fd00::1", 31443).1, "kubernetes-6", None);
    assert_eq!(judged(Some(&one), &[&first, &six]), []);
    assert_eq!(judged(Some(&one), &[&first, &named(&second, "tenant", Some("tenants.example.com"))]), []);
    // The mirroring controller writes the slices of Endpoints without the label, and has not, or others write, too.
    let mirrored = Endpoints { metadata: Default::default(), ..one.clone() };
    let mirror = named(&first, "kubernetes-x7kq2", Some(MIRRORING_CONTROLLER));
    assert_eq!(judged(Some(&mirrored), &[&mirror]), []);
    for slices in [&[][..], &[&second], &[&unready], &[&mirror, &second]] {
        assert_eq!(judged(Some(&mirrored), slices), [Reason::EndpointSliceDiffers], "{slices:?}");
    }
    // What the mirroring controller has left behind, and an address that nothing else has.
    let mirror = named(&second, "mirror", Some(MIRRORING_CONTROLLER));
    assert_eq!(judged(Some(&one), &[&first, &mirror]), [Reason::EndpointSliceLeftOver]);
    assert_eq!(judged(Some(&one), &[&first, &named(&second, "old", None)]), [Reason::EndpointSliceLeftOver]);
    // The Service is IPv4, and so is a slice: the Endpoints have the other family.
    assert_eq!(judged(Some(&of("fd00::1", 31443).0), &[&six, &named(&first, "four", None)]), []);
}
