//! What is wrong with the objects of the bootstrap controller, and what repairs it: the judgement of an audit, which is
//! none of the cluster's servers. It reads a cluster at rest (a snapshot of etcd, on which no server runs) or a running
//! one.
//!
//! A server writes its lease with a time to live, so that its address leaves the endpoints after it has ended. A lease
//! whose time to live is lost, as by a restore of etcd, keeps the address of a dead server there for ever, and each
//! connection that goes to it fails (kubernetes#86812). Only a write of the server itself gives it a time to live
//! again.
//!
//! ```
//! use rangekeeper_bootstrap::audit::{EtcdLease, Observed, ObservedLease, Reason, judge};
//! use rangekeeper_bootstrap::leases::{Lease, StoredLease, key};
//! use rangekeeper_bootstrap::request::Request;
//!
//! let lease = Lease { address: "192.0.2.10".into(), generation: 7 };
//! let key = key("/registry/masterleases/", &lease.address);
//! let stored = StoredLease { key: key.clone(), value: lease.encode(), mod_revision: 7, lease_id: 42 };
//! let (ttl, unchanged) = Default::default();
//! let lost = ObservedLease { stored, etcd_lease: EtcdLease::Missing, ttl, unchanged };
//! let verdict = judge(&Observed { leases: Some(vec![lost]), at_rest: true, ..Observed::default() });
//! assert_eq!(verdict.findings[0].reason, Reason::LeaseNeverExpires);
//! assert_eq!(verdict.repairs, [Request::DeleteLease { key, mod_revision: 7, lease_id: 42 }]);
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use rangekeeper::address::parse_address;
use rangekeeper::audit::Remedy;
use rangekeeper::finding::Severity;
use serde::{Deserialize, Serialize};

use crate::address::is_ipv6;
use crate::config::{Periods, etcd_prefix, first_address, lease_directory};
use crate::endpoints::{self, Wanted, has_right_form, has_valid_ports, listed, skips_mirror};
use crate::leases::{Fault, StoredLease, Survey, check, survey};
use crate::namespaces::SYSTEM;
use crate::object::{Change, Kind, NAME, NAMESPACE, Object, ObjectKey};
use crate::ports;
use crate::request::Request;
use crate::slice::{self, Writer, is_of_service};

/// What was read of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Observed {
    /// Whether no server runs: the data is a snapshot.
    pub at_rest: bool,
    /// The prefix of the cluster's keys in etcd.
    pub etcd_prefix: String,
    /// The time to live that servers give their leases: 15 s in kube-apiserver (`DefaultEndpointReconcilerTTL`). A
    /// longer one of a lease counts, up to a minute.
    #[serde(rename = "leaseTtlMs", with = "crate::millis")]
    pub lease_ttl: Duration,
    /// All keys below `masterleases/`, read after the objects; none if the source does not show them.
    pub leases: Option<Vec<ObservedLease>>,
    /// The leases as they were when the watch of the objects began; empty after one look. The server of one that
    /// expires was alive, and may only be slow.
    pub earlier: Vec<ObservedLease>,
    /// The leases that servers wrote while the objects were watched, also those that have expired since: such a server
    /// was alive, too.
    pub renewed: Vec<StoredLease>,
    /// The Service `kubernetes` and its endpoints; none if the source does not show them.
    pub objects: Option<Box<KubernetesObjects>>,
    /// The names of all namespaces; none if the source does not show them.
    pub namespaces: Option<Vec<String>>,
    /// The primary range of ClusterIPs; none if it is not known.
    pub service_range: Option<String>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            at_rest: false,
            etcd_prefix: etcd_prefix(),
            lease_ttl: Periods::default().lease_ttl,
            leases: None,
            earlier: Vec::new(),
            renewed: Vec::new(),
            objects: None,
            namespaces: None,
            service_range: None,
        }
    }
}

/// A lease, and what is known of its time to live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedLease {
    /// The key.
    pub stored: StoredLease,
    /// Whether etcd has the lease of the key.
    #[serde(default)]
    pub etcd_lease: EtcdLease,
    /// The time to live that etcd has granted; 0 if that is unknown.
    #[serde(rename = "ttlMs", with = "crate::millis", default)]
    pub ttl: Duration,
    /// How long it was watched without a write of the key; 0 after one look.
    #[serde(rename = "unchangedMs", with = "crate::millis", default)]
    pub unchanged: Duration,
}

/// Whether etcd has the lease that a key names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EtcdLease {
    /// The source does not say so.
    #[default]
    Unknown,
    /// It has none, so that the key stays.
    Missing,
    /// It has it.
    Granted,
}

/// The Service `kubernetes` and its endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubernetesObjects {
    /// The Service; none if it does not exist.
    pub service: Option<Service>,
    /// The Endpoints; none if they do not exist.
    pub endpoints: Option<Endpoints>,
    /// All slices of the namespace `default`. Those of other Services do not matter.
    pub slices: Vec<EndpointSlice>,
    /// How long they were watched without a write of Endpoints or slices; 0 after one look.
    #[serde(rename = "unchangedMs", with = "crate::millis")]
    pub unchanged: Duration,
}

impl KubernetesObjects {
    fn exist(&self) -> bool {
        self.service.is_some() || self.endpoints.is_some() || !self.slices.is_empty()
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub enum Reason {
    /// A lease has no time to live, so that its address stays in the endpoints after its server has ended.
    LeaseNeverExpires,
    /// The value of a lease cannot be read, or its address cannot be an endpoint: a kube-apiserver that cannot read one
    /// lease changes the endpoints no more (`pkg/controlplane/reconcilers/lease.go`, `ListLeases`).
    LeaseNotValid,
    /// The value of a lease has another address than its key.
    LeaseMismatch,
    /// The endpoints have an address for which no server holds a lease, while others do.
    EndpointWithoutLease,
    /// A server holds a lease, and its address is not in the endpoints.
    LeaseWithoutEndpoint,
    /// Servers hold leases, and there are no Endpoints.
    EndpointsMissing,
    /// The Endpoints have more than one subset, or ports that an API server refuses.
    EndpointsNotValid,
    /// The EndpointSlice is missing, or does not match the Endpoints. Proxies read the slice.
    EndpointSliceDiffers,
    /// A slice of the Service that no server writes. Proxies read it, too.
    EndpointSliceLeftOver,
    /// All addresses of the Endpoints are of another IP family than the Service.
    EndpointsOtherFamily,
    /// The Service does not exist.
    KubernetesServiceMissing,
    /// The Service has another address than the first one of the primary range, for which servers have certificates.
    KubernetesServiceNotFirst,
    /// A namespace of every cluster does not exist.
    NamespaceMissing,
}

impl Reason {
    /// All reasons of this release.
    pub const ALL: [Self; 13] = [
        Self::LeaseNeverExpires,
        Self::LeaseNotValid,
        Self::LeaseMismatch,
        Self::EndpointWithoutLease,
        Self::LeaseWithoutEndpoint,
        Self::EndpointsMissing,
        Self::EndpointsNotValid,
        Self::EndpointSliceDiffers,
        Self::EndpointSliceLeftOver,
        Self::EndpointsOtherFamily,
        Self::KubernetesServiceMissing,
        Self::KubernetesServiceNotFirst,
        Self::NamespaceMissing,
    ];

    /// The harm of it: a server that no client reaches is [`Severity::Wasted`], all else breaks traffic.
    pub fn severity(&self) -> Severity {
        match self {
            Self::LeaseWithoutEndpoint => Severity::Wasted,
            _ => Severity::BreaksTraffic,
        }
    }
}

/// The JSON of a severity, which is that of an audit's documents.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Severity", rename_all = "camelCase")]
enum SeverityName {
    BreaksTraffic,
    DuplicateRisk,
    Exhausted,
    Wasted,
}

/// The JSON of a remedy.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Remedy", rename_all = "camelCase")]
enum RemedyName {
    Repair,
    ApiServer,
    Owner,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finding {
    /// The kind.
    pub reason: Reason,
    /// The severity of the kind.
    #[serde(with = "SeverityName")]
    pub severity: Severity,
    /// The address, or else the name of what is wrong.
    pub value: String,
    /// The key of the lease; empty for a finding about an object.
    pub key: String,
    /// The object; `None` for a lease.
    pub object: Option<ObjectKey>,
    /// The message for people.
    pub message: String,
    /// Who repairs it: the repairs of the verdict or, if it stays, of a later one; or each API server that lives, as it
    /// does every ten seconds, and every minute for namespaces; or an administrator.
    #[serde(with = "RemedyName")]
    pub remedy: Remedy,
    /// Whether it is to be looked at again before it is repaired, as a server that lives may repair it.
    pub stays: bool,
}

/// What the source does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unseen {
    /// The leases or the values of some, which are encrypted at rest, and so which servers live.
    Leases,
    /// Which servers live, as none of them holds a lease that expires: none runs, or they keep the endpoints in another
    /// way (`--endpoint-reconciler-type`), or an administrator does.
    LiveServers,
    /// The Service `kubernetes` and its endpoints.
    Objects,
    /// Which port the servers have, as no two of the Service, the Endpoints and the slice have the same, so that
    /// nothing is written into these.
    Port,
    /// The namespaces.
    Namespaces,
    /// The primary range of ClusterIPs, which the Service has an address of.
    ServiceRange,
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verdict {
    /// What is wrong, by reason and value.
    pub findings: Vec<Finding>,
    /// What repairs it and is left to nobody else, in this order: servers that run, or start, do the rest.
    pub repairs: Vec<Request>,
    /// What the source does not show.
    pub unseen: Vec<Unseen>,
    /// After which time without a write of it what stays is repaired; 0 if nothing stays.
    #[serde(rename = "lookAgainMs", with = "crate::millis", default)]
    pub look_again: Duration,
}

/// Judges what was read.
///
/// In a cluster in which no server has ever run nothing is missing.
///
/// A lease that is encrypted at rest counts as one of the address in its key, which may live.
///
/// At rest no lease belongs to a server that runs, so all are deleted: each server writes its own when it starts, and
/// then the endpoints. In a running cluster a lease is deleted only if it never expires and was not written for two
/// times its time to live: a live server writes it each two thirds of that, and may be paused for two thirds more.
/// Endpoints and slices are written only if they were wrong for as long, and servers that hold leases left them so.
///
/// Cost: proportional to the sum of the sizes of all objects, with a logarithm for sets of addresses.
pub fn judge(observed: &Observed) -> Verdict {
    let directory = lease_directory(&observed.etcd_prefix);
    let leases = observed.leases.as_deref().map(|leases| Leases::read(leases, &directory, observed));
    let mut verdict = Verdict::default();
    match &leases {
        Some(leases) => leases.judge(&mut verdict),
        None => verdict.unseen.push(Unseen::Leases),
    }
    match &observed.objects {
        Some(objects) => judge_objects(objects, leases.as_ref(), observed, &mut verdict),
        None => verdict.unseen.push(Unseen::Objects),
    }
    match &observed.namespaces {
        Some(_) if is_new(observed) => {}
        Some(existing) => {
            for missing in SYSTEM.into_iter().filter(|name| !existing.iter().any(|existing| existing == name)) {
                let message =
                    format!("the namespace {missing} does not exist; an API server creates it within a minute");
                verdict.about(Reason::NamespaceMissing, missing, ObjectKey::namespace(missing), message);
            }
        }
        None => verdict.unseen.push(Unseen::Namespaces),
    }
    let has_service = observed.objects.as_ref().is_some_and(|objects| objects.service.is_some());
    if has_service && first_of(observed).is_none() {
        verdict.unseen.push(Unseen::ServiceRange);
    }
    if verdict.findings.iter().any(|finding| finding.stays) {
        verdict.look_again = patience(observed);
    }
    verdict
        .findings
        .sort_by(|a, b| (a.reason, &a.value, &a.key, &a.object).cmp(&(b.reason, &b.value, &b.key, &b.object)));
    verdict
}

/// Whether no server has ever run: each creates all that is missing when it starts.
fn is_new(observed: &Observed) -> bool {
    let has_objects =
        observed.objects.as_ref().is_some_and(|objects| objects.service.is_some() || objects.endpoints.is_some());
    let has_leases = observed.leases.as_ref().is_some_and(|leases| !leases.is_empty());
    observed.namespaces.as_ref().is_some_and(Vec::is_empty) && !has_objects && !has_leases
}

/// The address that the Service should have; none if the range is not known, or no range.
fn first_of(observed: &Observed) -> Option<IpAddr> {
    observed.service_range.as_deref().and_then(|range| first_address(range).ok())
}

impl Verdict {
    /// Adds a finding about an object, which an API server that lives repairs, unless it is said otherwise.
    fn about(&mut self, reason: Reason, value: &str, object: ObjectKey, message: String) -> &mut Finding {
        self.push(reason, value, String::new(), Some(object), message)
    }

    fn about_lease(&mut self, reason: Reason, value: &str, key: &str, message: String) -> &mut Finding {
        self.push(reason, value, key.into(), None, message)
    }

    fn push(
        &mut self,
        reason: Reason,
        value: &str,
        key: String,
        object: Option<ObjectKey>,
        message: String,
    ) -> &mut Finding {
        let (severity, value) = (reason.severity(), value.into());
        let (remedy, stays, added) = (Remedy::ApiServer, false, self.findings.len());
        self.findings.push(Finding { reason, severity, value, key, object, message, remedy, stays });
        &mut self.findings[added]
    }
}

/// The leases of a cluster.
struct Leases<'a> {
    all: &'a [ObservedLease],
    directory: &'a str,
    survey: Survey,
    /// Those that are to be deleted.
    dead: Vec<&'a StoredLease>,
    /// The addresses in the leases that are kept.
    kept: BTreeSet<String>,
    /// Those of them whose leases expire, and so are renewed by servers that live.
    live: BTreeSet<String>,
}

/// With this an API server begins a value that it encrypts at rest (apiserver, `pkg/server/options/encryptionconfig`).
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The longest time to live of a lease that a server may have written. One that lasts longer keeps the address of a
/// dead server in the endpoints for as long, so it counts as one that never expires.
const LONGEST_TTL: Duration = Duration::from_secs(60);

impl ObservedLease {
    fn is_encrypted(&self) -> bool {
        self.stored.value.starts_with(ENCRYPTED)
    }

    fn never_expires(&self) -> bool {
        self.stored.lease_id == 0 || self.etcd_lease == EtcdLease::Missing || self.ttl > LONGEST_TTL
    }
}

impl<'a> Leases<'a> {
    fn read(all: &'a [ObservedLease], directory: &'a str, observed: &Observed) -> Self {
        let stored: Vec<StoredLease> = all.iter().map(|lease| lease.stored.clone()).collect();
        let survey = survey(directory, &stored);
        let patience = patience(observed);
        let (mut dead, mut kept, mut live) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for lease in all {
            let (address, _) = check(&lease.stored, None);
            if observed.at_rest || (lease.never_expires() && lease.unchanged >= patience) {
                dead.push(&lease.stored);
            } else {
                kept.extend(address.clone());
            }
            if !lease.never_expires() {
                live.extend(address);
            }
        }
        Self { all, directory, survey, dead, kept, live }
    }

    fn judge(&self, verdict: &mut Verdict) {
        for lease in self.all.iter().filter(|lease| lease.never_expires()) {
            let key = &lease.stored.key;
            let why = match (lease.stored.lease_id, lease.etcd_lease) {
                (0, _) => "has no time to live".into(),
                (_, EtcdLease::Missing) => "has lost its time to live".into(),
                _ => format!("has a time to live of {} s, and servers take 15 s", lease.ttl.as_secs()),
            };
            let message = format!("lease {key} {why}: if its server has ended, its address stays in the endpoints");
            verdict.about_lease(Reason::LeaseNeverExpires, self.value(key), key, message);
        }
        let keys = |is: &dyn Fn(&&ObservedLease) -> bool| -> BTreeSet<&str> {
            self.all.iter().filter(is).map(|lease| lease.stored.key.as_str()).collect()
        };
        let encrypted = keys(&|lease| lease.is_encrypted());
        let is_encrypted = |key: &String| encrypted.contains(key.as_str());
        if !encrypted.is_empty() {
            verdict.unseen.push(Unseen::Leases);
        }
        for fault in &self.survey.faults {
            let (reason, key) = match fault {
                Fault::Unreadable { key, .. } if is_encrypted(key) => continue,
                Fault::Unreadable { key, .. } | Fault::Unusable { key, .. } => (Reason::LeaseNotValid, key),
                Fault::Mismatch { key, .. } => (Reason::LeaseMismatch, key),
                Fault::NeverExpires { .. } | Fault::Shared { .. } => continue, // the first is above, the second a server's
            };
            verdict.about_lease(reason, self.value(key), key, fault.to_string());
        }
        let dead: BTreeSet<&str> = self.dead.iter().map(|lease| lease.key.as_str()).collect();
        let endless = keys(&|lease| lease.never_expires());
        for finding in &mut verdict.findings {
            let is_dead = dead.contains(finding.key.as_str());
            let may_be = endless.contains(finding.key.as_str());
            if is_dead || may_be {
                (finding.remedy, finding.stays) = (Remedy::Repair, !is_dead);
            }
        }
        let deletion = |lease: &&StoredLease| Request::DeleteLease {
            key: lease.key.clone(),
            mod_revision: lease.mod_revision,
            lease_id: lease.lease_id,
        };
        verdict.repairs.extend(self.dead.iter().map(deletion));
    }

    /// The server's address in the key of a lease.
    fn value<'b>(&self, key: &'b str) -> &'b str {
        key.strip_prefix(self.directory).unwrap_or(key)
    }

    /// Whether a server holds a lease with this address, or may hold one.
    fn may_have(&self, address: &String) -> bool {
        self.survey.live.contains(address) || self.survey.doubtful.contains(address)
    }
}

/// How long something must have been as it is before a running cluster is repaired.
fn patience(observed: &Observed) -> Duration {
    let granted = observed.leases.iter().flatten().map(|lease| lease.ttl).filter(|ttl| *ttl <= LONGEST_TTL).max();
    observed.lease_ttl.max(granted.unwrap_or_default()).saturating_mul(2)
}

fn judge_objects(objects: &KubernetesObjects, leases: Option<&Leases<'_>>, observed: &Observed, verdict: &mut Verdict) {
    let key = ObjectKey::kubernetes;
    let found = listed(objects.endpoints.as_ref());
    let before = verdict.findings.len();
    // Without any lease, servers keep the endpoints in another way, or none of them runs.
    let keepers = leases.filter(|leases| !leases.live.is_empty());
    // A server that renews its lease creates Endpoints that it does not find (lease.go, ReconcileEndpoints).
    let are_elsewhere =
        objects.endpoints.is_none() && observed.renewed.iter().any(|lease| check(lease, None).0.is_some());
    if leases.is_some() && keepers.is_none() && objects.exist() && !observed.at_rest {
        verdict.unseen.push(Unseen::LiveServers);
    }
    if let Some(leases) = keepers {
        if objects.endpoints.is_none() {
            let why = if are_elsewhere {
                "; a server has renewed its lease meanwhile and not created them here: it keeps them in another etcd \
                 (--etcd-servers-overrides), or may not write them"
            } else {
                ""
            };
            let message = format!("servers hold leases, and the Endpoints of the Service kubernetes do not exist{why}");
            verdict.about(Reason::EndpointsMissing, NAME, key(Kind::Endpoints), message);
        }
        for address in found.iter().filter(|address| !leases.may_have(address)) {
            let message = format!(
                "no server holds a lease for {address}, which is in the endpoints of the Service kubernetes: connections to it fail unless a server keeps it there without a lease"
            );
            verdict.about(Reason::EndpointWithoutLease, address, key(Kind::Endpoints), message);
        }
        let missing = leases.live.iter().filter(|address| objects.endpoints.is_some() && !found.contains(*address));
        for address in missing {
            let message = format!(
                "a server with the address {address} holds a lease, and is not in the endpoints of the Service kubernetes"
            );
            verdict.about(Reason::LeaseWithoutEndpoint, address, key(Kind::Endpoints), message);
        }
    }
    // An administrator keeps Endpoints of which the mirroring controller writes slices, if no server does
    // (`--endpoint-reconciler-type=none`).
    let is_mirrored = keepers.is_none() && objects.endpoints.as_ref().is_some_and(|endpoints| !skips_mirror(endpoints));
    let own = objects.slices.iter().find(|slice| slice.metadata.name.as_deref() == Some(NAME));
    if let Some(endpoints) = &objects.endpoints {
        // Others than servers keep Endpoints and slices in any form that the API allows.
        let has_form = if keepers.is_some() { has_right_form(endpoints) } else { has_valid_ports(endpoints) };
        let is_same = match keepers {
            Some(_) => own.is_some_and(|own| slice::matches(endpoints, own)),
            None => are_in_slices(endpoints, own, &objects.slices),
        };
        let form = match keepers {
            Some(_) => "more than one subset, or ports that an API server refuses",
            None => "ports that an API server refuses",
        };
        if !has_form {
            let message = format!("the Endpoints of the Service kubernetes have {form}");
            verdict.about(Reason::EndpointsNotValid, NAME, key(Kind::Endpoints), message);
        } else if !is_same {
            let message = match keepers {
                Some(_) if own.is_some() => {
                    "the EndpointSlice of the Service kubernetes does not match its Endpoints; proxies read the slice"
                }
                Some(_) => "the EndpointSlice of the Service kubernetes does not exist; proxies read the slice",
                None => {
                    "the EndpointSlices of the Service kubernetes do not have the addresses and ports of its Endpoints; \
                     proxies read the slices"
                }
            };
            let message = message.to_owned();
            verdict.about(Reason::EndpointSliceDiffers, NAME, key(Kind::EndpointSlice), message);
        }
    }
    if let Some(leases) = leases.filter(|_| verdict.findings.len() > before && !observed.at_rest) {
        let earlier = observed.earlier.iter().filter(|lease| !lease.never_expires()).map(|lease| &lease.stored);
        let held = earlier.chain(&observed.renewed).filter_map(|lease| check(lease, None).0);
        let alive: BTreeSet<String> = held.filter(|address| found.contains(address)).collect();
        let ports = ports::agreed(objects.service.as_ref(), objects.endpoints.as_ref(), own);
        if ports.is_none() && keepers.is_some() {
            verdict.unseen.push(Unseen::Port);
        }
        let repairs = ports.filter(|_| !are_elsewhere);
        let repairs = repairs.map(|ports| repair_endpoints(objects, own, ports, leases, &alive)).unwrap_or_default();
        let (is_possible, is_due) = (!repairs.is_empty(), may_repair(objects, observed));
        for finding in &mut verdict.findings[before..] {
            let is_left = finding.reason == Reason::EndpointWithoutLease && alive.contains(&finding.value);
            finding.stays = is_possible && !is_due && !is_left;
            finding.remedy = if is_possible && is_due && !is_left { Remedy::Repair } else { Remedy::ApiServer };
        }
        verdict.repairs.extend(repairs.into_iter().filter(|_| is_due));
    }
    // No server writes what none keeps.
    if leases.is_some() && keepers.is_none() && !observed.at_rest {
        verdict.findings[before..].iter_mut().for_each(|finding| finding.remedy = Remedy::Owner);
    }
    let has_leases = leases.is_some_and(|leases| !leases.all.is_empty());
    judge_left_over(objects, own, has_leases, is_mirrored, verdict);
    judge_service(objects, &found, observed, verdict);
}

/// Whether proxies find each address of the Endpoints in a slice, and in the slice `kubernetes` no other one of an IP
/// family of theirs: who keeps both without a lease may write a slice for each family, load balancer or port.
fn are_in_slices(endpoints: &Endpoints, own: Option<&EndpointSlice>, slices: &[EndpointSlice]) -> bool {
    let wanted = endpoints::ways(endpoints);
    let there: BTreeSet<_> = slices.iter().filter(|slice| is_of_service(slice)).flat_map(slice::ways).collect();
    let has_family = |ipv6| wanted.iter().any(|(address, _)| is_ipv6(address) == ipv6);
    let own = own.filter(|own| is_of_service(own)).map(slice::ways).unwrap_or_default();
    let other = own.difference(&wanted).any(|(address, _)| has_family(is_ipv6(address)));
    wanted.is_subset(&there) && !other
}

/// Whether Endpoints and slices of a running cluster have been as they are for so long that no server repairs them.
fn may_repair(objects: &KubernetesObjects, observed: &Observed) -> bool {
    !observed.at_rest && objects.unchanged >= patience(observed)
}

/// The writes after which Endpoints and slice have the addresses of all servers that hold leases, and keep those of
/// servers that are alive, as they held or wrote one while the objects were watched. None without a server that lives,
/// and while it is unknown whether one lives.
fn repair_endpoints(
    objects: &KubernetesObjects,
    own: Option<&EndpointSlice>,
    ports: Vec<EndpointPort>,
    leases: &Leases<'_>,
    alive: &BTreeSet<String>,
) -> Vec<Request> {
    if leases.live.is_empty() || !leases.survey.doubtful.is_empty() {
        return Vec::new();
    }
    let existing = objects.endpoints.as_ref();
    let addresses = leases.kept.union(alive).cloned().collect();
    let change = endpoints::plan(existing, &Wanted { addresses, ports, reconcile_ports: true, ..Wanted::default() });
    let Some(endpoints) = change.object().or(existing) else { return Vec::new() };
    let of_slice = slice::plan(endpoints, own);
    let replaced = own.filter(|_| matches!(of_slice, Change::Replace(_))).map(deletion);
    [write(change), replaced, write(of_slice)].into_iter().flatten().collect()
}

/// The request that makes a change. That of a replaced object creates it, once the old one is deleted.
fn write<T: Into<Object>>(change: Change<T>) -> Option<Request> {
    match change {
        Change::Leave => None,
        Change::Update(object) => Some(Request::Update(object.into())),
        Change::Create(object) | Change::Replace(object) => Some(Request::Create(object.into())),
    }
}

fn deletion(slice: &EndpointSlice) -> Request {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Request::Delete {
        object: slice_key(slice),
        uid: text(&slice.metadata.uid),
        resource_version: text(&slice.metadata.resource_version),
    }
}

fn slice_key(slice: &EndpointSlice) -> ObjectKey {
    let name = slice.metadata.name.clone().unwrap_or_default();
    ObjectKey { kind: Kind::EndpointSlice, namespace: NAMESPACE.into(), name }
}

/// Slices of the Service beside the one that servers write: those that the mirroring controller has left behind
/// (kubernetes#101070), and those that nobody says to keep. Without a lease of a server an address of the Endpoints, or
/// of the other IP family, may be in any slice. Slices of other controllers are right, and so are all as long as the
/// slice `kubernetes` is no way to an API server. None is deleted.
fn judge_left_over(
    objects: &KubernetesObjects,
    own: Option<&EndpointSlice>,
    has_leases: bool,
    is_mirrored: bool,
    verdict: &mut Verdict,
) {
    let Some(own) = own.filter(|own| is_of_service(own) && !slice::ways(own).is_empty()) else { return };
    let kept = objects.endpoints.as_ref().map(endpoints::ways).unwrap_or_default();
    for slice in &objects.slices {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let is_left = match slice::writer(slice) {
            Writer::Mirroring => !is_mirrored,
            Writer::Other => false,
            Writer::Unknown => {
                has_leases || slice.address_type == own.address_type && !slice::ways(slice).is_subset(&kept)
            }
        };
        if !is_left || !is_of_service(slice) || name == NAME {
            continue;
        }
        let addresses: Vec<&str> =
            slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses).map(String::as_str).collect();
        let message = format!(
            "the EndpointSlice {name} belongs to the Service kubernetes, and no server writes it; proxies send connections to its addresses: {}",
            if addresses.is_empty() { "none".into() } else { addresses.join(", ") }
        );
        verdict.about(Reason::EndpointSliceLeftOver, name, slice_key(slice), message).remedy = Remedy::Owner;
    }
}

fn judge_service(objects: &KubernetesObjects, found: &BTreeSet<String>, observed: &Observed, verdict: &mut Verdict) {
    let key = ObjectKey::kubernetes(Kind::Service);
    let first = first_of(observed);
    let Some(service) = &objects.service else {
        if is_new(observed) {
            return;
        }
        let message = "the Service kubernetes does not exist; an API server creates it within 10 seconds".into();
        verdict.about(Reason::KubernetesServiceMissing, NAME, key, message);
        return;
    };
    let text = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    let address: Option<IpAddr> = parse_address(text);
    if let Some(first) = first.filter(|first| address != Some(*first)) {
        let message = format!(
            "the Service kubernetes has the ClusterIP {text:?}, and the first address of the primary range is {first}, for which API servers have certificates"
        );
        verdict.about(Reason::KubernetesServiceNotFirst, text, key.clone(), message).remedy = Remedy::Owner;
    }
    let in_slices =
        objects.slices.iter().filter(|slice| is_of_service(slice)).flat_map(|slice| slice::listed(Some(slice)));
    if let Some(address) = address
        && !found.is_empty()
        && found.iter().cloned().chain(in_slices).all(|endpoint| is_ipv6(&endpoint) != address.is_ipv6())
    {
        let message = format!("no endpoint of the Service kubernetes has the IP family of its ClusterIP {address}");
        verdict.about(Reason::EndpointsOtherFamily, &address.to_string(), key, message).remedy = Remedy::Owner;
    }
}
