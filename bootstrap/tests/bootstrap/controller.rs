//! Whole controllers on a model of API server and etcd: faults of leases, outages, what is said of them, and stops.

use rangekeeper_bootstrap::config::{Config, Form, Placement};
use rangekeeper_bootstrap::controller::Controller;
use rangekeeper_bootstrap::journal::Report;
use rangekeeper_bootstrap::leases::{Fault, Lease};
use rangekeeper_bootstrap::lifecycle::{Phase, Work};
use rangekeeper_bootstrap::modes::Mode;
use rangekeeper_bootstrap::object::{Kind, Object, ObjectKey};
use rangekeeper_bootstrap::reconcile::Found;
use rangekeeper_bootstrap::request::{Answer, Failure, Reason, Repair, Request};

use crate::common::cluster::{Cluster, failure};
use crate::common::store::DIRECTORY;
use crate::common::{ready, slice_ready};

fn config(address: &str) -> Config {
    Config { advertise_address: address.into(), ..Config::default() }
}

fn cluster(addresses: &[&str]) -> Cluster {
    Cluster::new(addresses.iter().map(|address| config(address)).collect())
}

fn lease_key(address: &str) -> String {
    format!("{DIRECTORY}{address}")
}

fn is_etcd(request: &Request) -> bool {
    use Request::{DeleteLease, GetLease, ListLeases, PutLease};
    matches!(request, GetLease { .. } | ListLeases { .. } | PutLease { .. } | DeleteLease { .. })
}

fn is_api(request: &Request) -> bool {
    use Request::{Create, Delete, Get, Update};
    matches!(request, Get { .. } | Create(_) | Update(_) | Delete { .. })
}

fn is_put(request: &Request) -> bool {
    matches!(request, Request::PutLease { .. })
}

/// All that was said of one work, and of faults.
fn said(cluster: &Cluster) -> Vec<String> {
    let reports = cluster.reports.iter().filter_map(|(_, _, report)| match report {
        Report::Failing { work, failure } => Some(format!("{work:?} failing: {:?}", failure.reason)),
        Report::Recovered { work, .. } => Some(format!("{work:?} recovered")),
        Report::FaultFound(_) => Some("fault found".into()),
        Report::FaultGone(_) => Some("fault gone".into()),
        Report::Restored(restored) => Some(format!("restored: {} after {}", restored.revision, restored.before)),
        Report::Endpoints(_) => None,
        Report::Started => Some("started".into()),
        Report::Fatal { work, .. } => Some(format!("fatal: {work:?}")),
        Report::Stopped { removed } => Some(format!("stopped: {removed}")),
    });
    reports.collect()
}

/// What the turns of the first server have found, each that was reported.
fn counted(cluster: &Cluster) -> Vec<Found> {
    let of_first = cluster.reports.iter().filter(|(_, server, _)| *server == 0);
    let found = of_first.filter_map(|(_, _, report)| match report {
        Report::Endpoints(found) => Some(*found),
        _ => None,
    });
    found.collect()
}

#[test]
fn addresses_are_counted_when_their_number_changes() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
    cluster.run_until(120_000);
    let right = Found { leases: 2, endpoints: 2, slice: 2, agree: true };
    let first = counted(&cluster);
    assert!((2..6).contains(&first.len()) && !first[0].agree, "{first:?}");
    assert_eq!(first.last(), Some(&right));
    cluster.store.delete(&ObjectKey::kubernetes(Kind::EndpointSlice));
    cluster.run_until(180_000);
    let without = Found { slice: 0, agree: false, ..right };
    let then = &counted(&cluster)[first.len()..];
    // The other server may have been first.
    assert!(then == [without, right] || then.is_empty(), "{then:?}");
    assert_eq!(slice_ready(cluster.store.slice()), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn an_empty_cluster_gets_everything() {
    for form in [Form::Hooks, Form::SingleController] {
        let config = Config { form, extra_namespaces: vec!["extra".into()], ..config("10.0.0.1") };
        let mut cluster = Cluster::new(vec![config]);
        cluster.run_until(5000);
        for name in ["default", "kube-system", "kube-public", "kube-node-lease", "extra"] {
            assert!(cluster.store.objects.contains_key(&ObjectKey::namespace(name)), "{name}");
        }
        assert!(cluster.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)));
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1"]);
        assert_eq!(slice_ready(cluster.store.slice()), ["10.0.0.1"]);
        assert_eq!(said(&cluster), ["started"]);
        // From then on nothing is written but the lease.
        let writes = cluster.store.writes;
        cluster.run_until(300_000);
        assert_eq!(cluster.store.writes, writes);
        let lease = Lease::decode(&cluster.store.leases[&lease_key("10.0.0.1")].lease.value).unwrap();
        assert_eq!(lease.generation, 30);
        assert_eq!(said(&cluster), ["started"]);
    }
}

/// The Service does not wait for the loop that makes its namespace.
#[test]
fn the_namespace_default_is_made_when_the_service_needs_it() {
    let mut cluster = cluster(&["10.0.0.1"]);
    cluster.run_until(30_000);
    let objects = std::mem::take(&mut cluster.store.objects);
    assert!(objects.len() >= 7);
    cluster.run_until(45_000);
    assert!(cluster.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)));
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1"]);
    assert_eq!(said(&cluster), ["started"]);
}

/// Nobody else can have its address, which counts as allocated until it is freed.
#[test]
fn a_lost_service_is_back_within_a_round() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
    cluster.run_until(33_000);
    assert!(cluster.store.freed.is_empty());
    cluster.store.taken = true;
    cluster.store.delete(&ObjectKey::kubernetes(Kind::Service));
    let refusals = cluster.log.len();
    // The next turn, and a moment.
    cluster.run_until(47_000);
    assert!(cluster.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)));
    let (at, address) = cluster.store.freed[0];
    assert_eq!(address.to_string(), "10.0.0.1");
    // Not at once: another server may be creating the Service.
    let creates = cluster.log[refusals..].iter().filter(|(_, _, request)| matches!(request, Request::Create(_)));
    let first = creates.map(|(at, _, _)| *at).min().unwrap();
    assert!((3000..5000).contains(&(at - first)), "refused at {first}, freed at {at}");
    let freed = cluster.store.freed.len();
    cluster.run_until(120_000);
    assert_eq!(cluster.store.freed.len(), freed);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
}

/// A shell that cannot free the address says so, and the endpoints go on.
#[test]
fn a_lost_service_that_stays_away_keeps_nobody_from_the_endpoints() {
    let mut cluster = cluster(&["10.0.0.1"]);
    cluster.run_until(33_000);
    cluster.store.taken = true;
    cluster.store.delete(&ObjectKey::kubernetes(Kind::Service));
    cluster.hook =
        Box::new(|_, _, request, _| matches!(request, Request::FreeServiceIp { .. }).then(|| failure(Reason::Refused)));
    cluster.run_until(120_000);
    assert!(!cluster.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)));
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1"]);
    let lease = Lease::decode(&cluster.store.leases[&lease_key("10.0.0.1")].lease.value).unwrap();
    assert!(lease.generation >= 12, "{}", lease.generation);
    assert_eq!(said(&cluster), ["started", "KubernetesService failing: Refused"]);
}

#[test]
fn who_is_killed_disappears_with_its_lease_and_who_stops_at_once() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    cluster.run_until(21_000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    cluster.kill(1);
    // Within the time to live and one round.
    cluster.run_until(21_000 + 15_000 + 10_000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.3"]);
    assert_eq!(slice_ready(cluster.store.slice()), ["10.0.0.1", "10.0.0.3"]);
    cluster.stop(2);
    cluster.run_until(cluster.now + 1000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1"]);
    assert_eq!(slice_ready(cluster.store.slice()), ["10.0.0.1"]);
    assert_eq!(cluster.servers[2].phase, Phase::Stopped { removed: true, fatal: false });
    assert_eq!(cluster.store.erased, 0);
    // The last one erases all.
    cluster.stop(0);
    cluster.run_until(cluster.now + 1000);
    assert!(ready(cluster.store.endpoints()).is_empty() && slice_ready(cluster.store.slice()).is_empty());
    assert!(cluster.store.endpoints().unwrap().subsets.is_none());
    assert!(cluster.store.leases.is_empty());
}

#[test]
fn a_single_server_that_comes_back_keeps_its_address_until_it_is_ready() {
    let mut cluster = cluster(&["10.0.0.1"]);
    cluster.run_until(21_000);
    let mut again = Cluster::new(vec![config("10.0.0.1")]);
    again.store = std::mem::take(&mut cluster.store);
    again.now = 21_000;
    again.run_until(21_015);
    let erased = again.store.erased;
    again.run_until(60_000);
    assert_eq!((erased, again.store.erased), (0, 0));
    assert_eq!(ready(again.store.endpoints()), ["10.0.0.1"]);
    assert_eq!(said(&again), ["started"]);
}

#[test]
fn outages_are_reported_once_and_so_is_their_end() {
    type Case = (&'static str, fn(&Request) -> bool, Reason, Work);
    let cases: [Case; 4] = [
        ("etcd stopped", is_etcd, Reason::Unanswered, Work::KubernetesService),
        ("API server restarted", is_api, Reason::Unanswered, Work::KubernetesService),
        ("429", is_api, Reason::Unavailable, Work::KubernetesService),
        (
            "500 for one object",
            |request| matches!(request, Request::Get { object, .. } if object.kind == Kind::Endpoints),
            Reason::Unavailable,
            Work::KubernetesService,
        ),
    ];
    for (name, concerned, reason, work) in cases {
        let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
        cluster.run_until(25_000);
        cluster.reports.clear();
        cluster.hook = Box::new(move |now, _, request, store| {
            let away = (25_000..55_000).contains(&now);
            if away && name == "etcd stopped" {
                store.extend_all(55_000);
            }
            (away && concerned(request)).then(|| failure(reason))
        });
        cluster.run_until(120_000);
        for server in 0..2 {
            let found = cluster.reports.iter().filter(|(_, by, _)| *by == server).map(|(at, _, report)| (*at, report));
            let found: Vec<(u64, &Report)> = found.collect();
            let of_work = |report: &Report| match report {
                Report::Failing { work, .. } | Report::Recovered { work, .. } => *work,
                _ => panic!("{name}: {report:?}"),
            };
            let found: Vec<_> = found.into_iter().filter(|(_, report)| of_work(report) == work).collect();
            let [(_, Report::Failing { failure, .. }), (end, Report::Recovered { failures, .. })] = found[..] else {
                panic!("{name}: {found:?}")
            };
            assert_eq!(failure.reason, reason);
            assert!(*failures >= 4, "{name}");
            assert!((55_000..66_000).contains(&end), "{name}: {end}");
        }
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"], "{name}");
        let other = said(&cluster).iter().filter(|text| text.contains("Namespaces")).count();
        assert!(other <= 4, "{name}: {:?}", said(&cluster));
    }
}

#[test]
fn what_comes_and_goes_does_not_flood() {
    let mut cluster = cluster(&["10.0.0.1"]);
    let mut random = crate::common::Random::new(22);
    cluster.hook = Box::new(move |now, _, request, _| {
        (now > 20_000 && is_api(request) && random.percent(15)).then(|| failure(Reason::Unavailable))
    });
    cluster.run_until(620_000);
    let found = said(&cluster);
    // Ten minutes: per work and minute one report, and one that it is over.
    println!("{} reports", found.len());
    assert!((4..=44).contains(&found.len()), "{found:?}");
}

#[test]
fn a_server_that_does_not_answer_is_not_kept_alive_by_the_process_beside_it() {
    for (placement, refreshed) in [(Placement::Beside, false), (Placement::Inside, true)] {
        let mut cluster = Cluster::new(vec![Config { placement, ..config("10.0.0.1") }]);
        cluster.run_until(25_000);
        let before = cluster.times(0, is_put).len();
        cluster.hook = Box::new(|_, _, request, _| is_api(request).then(|| failure(Reason::Unanswered)));
        cluster.run_until(55_000);
        assert_eq!(cluster.times(0, is_put).len() > before + 2, refreshed, "{placement:?}");
    }
    // One that answers with errors lives.
    let mut cluster = cluster(&["10.0.0.1"]);
    cluster.run_until(25_000);
    let before = cluster.times(0, is_put).len();
    cluster.hook = Box::new(|_, _, request, _| is_api(request).then(|| failure(Reason::Unavailable)));
    cluster.run_until(55_000);
    assert!(cluster.times(0, is_put).len() > before + 2);
    assert!(cluster.store.leases.contains_key(&lease_key("10.0.0.1")));
}

#[test]
fn a_damaged_lease_drops_nobody_is_mended_and_reported_once() {
    let wrong = |address: &str| Lease { address: address.into(), generation: 9 }.encode();
    for value in [b"garbage".to_vec(), Vec::new(), wrong("127.0.0.1"), wrong("10.0.0.77"), b"{}".to_vec()] {
        let mut cluster = cluster(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        cluster.run_until(24_000);
        cluster.reports.clear();
        cluster.store.put_lease(24_000, &lease_key("10.0.0.2"), value.clone(), Some(15_000));
        // It is seen before its server repairs it.
        let mut missing = 0;
        for at in 0..2000 {
            cluster.run_until(24_000 + at * 10);
            missing += u64::from(!ready(cluster.store.endpoints()).contains(&"10.0.0.2".into()));
        }
        assert_eq!(missing, 0, "{value:?}");
        cluster.run_until(120_000);
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        let found = said(&cluster);
        let count = |text: &str| found.iter().filter(|said| *said == text).count();
        assert!((1..=3).contains(&count("fault found")), "{found:?}");
        assert_eq!(count("fault found"), count("fault gone"));
        assert_eq!(found.len(), 2 * count("fault found"), "{found:?}");
        assert!(Lease::decode(&cluster.store.leases[&lease_key("10.0.0.2")].lease.value).is_ok());
    }
}

/// Two servers with one address: when one stops, the other is still there.
#[test]
fn a_lease_that_another_writer_owns_is_left_to_it_and_reported() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2", "10.0.0.2"]);
    cluster.run_until(65_000);
    let shared =
        cluster.reports.iter().filter(|(_, _, report)| matches!(report, Report::FaultFound(Fault::Shared { .. })));
    assert_eq!(shared.count(), 2, "each says it once: {:?}", said(&cluster));
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
    cluster.stop(2);
    for at in 0..400 {
        cluster.run_until(65_000 + at * 100);
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
        assert!(cluster.store.leases.contains_key(&lease_key("10.0.0.2")));
    }
    assert_eq!(cluster.servers[2].phase, Phase::Stopped { removed: false, fatal: false });
}

/// Another writer that was late once lives; one that has been away for longer than a lease holds does not.
#[test]
fn a_lease_is_left_to_another_writer_as_long_as_that_may_live() {
    for (stop, removed) in [(45_000, false), (55_000, true)] {
        let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
        cluster.run_until(25_000);
        let key = lease_key("10.0.0.2");
        let found = Lease::decode(&cluster.store.leases[&key].lease.value).unwrap();
        let value = Lease { generation: found.generation + 1, ..found }.encode();
        cluster.store.put_lease(25_000, &key, value, Some(15_000));
        cluster.run_until(stop);
        cluster.stop(1);
        cluster.run_until(stop + 1000);
        assert_eq!(!cluster.store.leases.contains_key(&key), removed, "stopped at {stop}");
        assert_eq!(!ready(cluster.store.endpoints()).contains(&"10.0.0.2".into()), removed, "stopped at {stop}");
    }
}

#[test]
fn a_lease_without_time_to_live_is_reported_and_counts() {
    let mut cluster = cluster(&["10.0.0.1"]);
    let value = Lease { address: "10.0.0.9".into(), generation: 1 }.encode();
    cluster.store.put_lease(0, &lease_key("10.0.0.9"), value, None);
    cluster.run_until(120_000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.9"]);
    assert_eq!(said(&cluster).iter().filter(|said| *said == "fault found").count(), 1);
}

#[test]
fn a_lease_that_is_lost_right_after_the_refresh_is_put_again() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
    cluster.run_until(25_000);
    cluster.reports.clear();
    let mut lost = false;
    cluster.hook = Box::new(move |now, server, request, store| {
        if server == 0 && now > 30_000 && !lost && matches!(request, Request::ListLeases { .. }) {
            lost = true;
            store.leases.remove(&lease_key("10.0.0.1"));
        }
        None
    });
    cluster.run_until(39_000);
    assert!(cluster.store.leases.contains_key(&lease_key("10.0.0.1")));
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
    assert!(said(&cluster).is_empty());
}

/// A store that is restored from a backup answers with older revisions, whether or not the backup has the lease. What a
/// cache of the API server still has is not believed.
#[test]
fn a_store_that_goes_back_is_reported_once_and_gets_everything_again() {
    for has_lease in [false, true] {
        let mut cluster = cluster(&["10.0.0.1"]);
        cluster.run_until(if has_lease { 25_000 } else { 100 });
        let objects = cluster.store.objects.clone();
        let (backup, leases) = (cluster.store.revision, cluster.store.leases.clone());
        cluster.run_until(85_000);
        let before = cluster.store.leases[&lease_key("10.0.0.1")].lease.mod_revision;
        cluster.reports.clear();
        cluster.store.objects.clone_from(&objects);
        let endpoints = ObjectKey::kubernetes(Kind::Endpoints);
        let lost = cluster.store.objects.remove(&endpoints);
        (cluster.store.revision, cluster.store.leases) = (backup, leases);
        if !has_lease {
            cluster.store.leases.clear();
        }
        cluster.store.extend_all(85_000);
        let revision =
            cluster.store.leases.get(&lease_key("10.0.0.1")).map_or(backup + 1, |found| found.lease.mod_revision);
        cluster.hook = Box::new(move |_, _, request, _| match request {
            Request::Get { object, fresh: false } if *object == endpoints => lost.clone().map(Answer::Object),
            _ => None,
        });
        cluster.run_until(125_000);
        assert_eq!(said(&cluster), [format!("restored: {revision} after {before}")]);
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1"]);
    }
}

/// If all leases vanish again and again, nothing is erased, and it is said why.
#[test]
fn no_lease_at_all_erases_nothing() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
    cluster.run_until(25_000);
    cluster.reports.clear();
    cluster.hook = Box::new(|now, _, request, _| {
        (now < 50_000 && matches!(request, Request::ListLeases { .. })).then(|| Answer::Leases(Vec::new()))
    });
    cluster.run_until(100_000);
    assert_eq!(cluster.store.erased, 0);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
    let mut found = said(&cluster);
    found.sort();
    let failing = "KubernetesService failing: LeaseLost";
    assert_eq!(found, [failing, failing, "KubernetesService recovered", "KubernetesService recovered"]);
}

#[test]
fn a_put_whose_end_is_unknown_is_recognised_as_own() {
    let mut cluster = cluster(&["10.0.0.1"]);
    let mut puts = 0;
    cluster.hook = Box::new(move |now, _, request, store| {
        puts += u64::from(is_put(request));
        if is_put(request) && puts % 2 == 0 {
            // It takes place, and nobody says so.
            store.apply(now, "10.0.0.1", false, request);
            return Some(failure(Reason::Unanswered));
        }
        None
    });
    cluster.run_until(100_000);
    assert!(!said(&cluster).iter().any(|said| said.starts_with("fault")), "{:?}", said(&cluster));
    // The last put before the stop is one of those.
    while cluster.times(0, is_put).len() % 2 == 1 {
        cluster.run_until(cluster.now + 10);
    }
    cluster.stop(0);
    cluster.run_until(cluster.now + 1000);
    assert!(cluster.store.leases.is_empty());
    assert_eq!(cluster.servers[0].phase, Phase::Stopped { removed: true, fatal: false });
}

/// The first of two puts takes place, the second does not, and neither is answered.
#[test]
fn of_several_puts_whose_end_is_unknown_each_is_recognised_as_own() {
    let mut cluster = cluster(&["10.0.0.1"]);
    let mut puts = 0;
    cluster.hook = Box::new(move |now, _, request, store| {
        puts += u64::from(is_put(request));
        if is_put(request) && puts == 2 {
            store.apply(now, "10.0.0.1", false, request);
        }
        (is_put(request) && matches!(puts, 2 | 3)).then(|| failure(Reason::Unanswered))
    });
    cluster.run_until(100_000);
    assert!(cluster.times(0, is_put).len() > 4);
    assert!(!said(&cluster).iter().any(|said| said.starts_with("fault")), "{:?}", said(&cluster));
}

#[test]
fn a_stop_cancels_what_is_under_way_and_begins_nothing() {
    let mut cancelled = 0;
    for after in 0..40 {
        let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
        cluster.run_until(40_000 + after * 5);
        cluster.stop(0);
        let stopped = cluster.log.len();
        cluster.run_until(43_000);
        assert_eq!(cluster.servers[0].phase, Phase::Stopped { removed: true, fatal: false });
        let late: Vec<&Request> =
            cluster.log[stopped..].iter().filter(|(_, by, _)| *by == 0).map(|(_, _, request)| request).collect();
        // What was on its way, and then the removal: lease read and deleted, two objects read, leases listed, both
        // written; and the last five again if the other one was faster.
        assert!(late.len() <= 4 + 3 * 5, "{late:?}");
        assert!(late.iter().filter(|request| is_put(request)).count() <= 1);
        // The round under way does not go on: one request of it at most comes before the removal's.
        let deleted = late.iter().position(|request| matches!(request, Request::DeleteLease { .. }));
        assert!(deleted.is_some_and(|at| at <= 2), "{late:?}");
        assert!(cluster.servers[0].cancelled.len() <= 1);
        cancelled += cluster.servers[0].cancelled.len();
        assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.2"]);
        assert!(!cluster.store.leases.contains_key(&lease_key("10.0.0.1")));
    }
    println!("{cancelled} of 40 had a round under way");
    assert!(cancelled >= 10);
}

#[test]
fn in_mode_none_endpoints_and_leases_are_not_touched() {
    let mut cluster = Cluster::new(vec![Config { mode: Mode::None, ..config("10.0.0.1") }]);
    cluster.run_until(50_000);
    cluster.stop(0);
    cluster.run_until(51_000);
    assert_eq!(cluster.servers[0].phase, Phase::Stopped { removed: true, fatal: false });
    assert!(cluster.times(0, is_etcd).is_empty());
    assert!(cluster.store.endpoints().is_none() && cluster.store.slice().is_none());
    assert!(cluster.store.objects.contains_key(&ObjectKey::kubernetes(Kind::Service)));
}

#[test]
fn in_master_count_mode_the_killed_stay_until_there_are_too_many() {
    let config = |address: &str| Config { mode: Mode::MasterCount(2), ..config(address) };
    let mut cluster = Cluster::new(vec![config("10.0.0.1"), config("10.0.0.2"), config("10.0.0.3")]);
    cluster.kill(2);
    cluster.run_until(30_000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"]);
    cluster.kill(1);
    cluster.run_until(100_000);
    assert_eq!(ready(cluster.store.endpoints()), ["10.0.0.1", "10.0.0.2"], "nobody looks who lives");
    let mut third = Cluster::new(vec![config("10.0.0.3")]);
    third.store = std::mem::take(&mut cluster.store);
    third.now = 100_000;
    third.run_until(130_000);
    // After the own address comes, round the end, the first.
    assert_eq!(ready(third.store.endpoints()), ["10.0.0.2", "10.0.0.3"]);
    third.stop(0);
    third.run_until(131_000);
    assert_eq!(ready(third.store.endpoints()), ["10.0.0.2"]);
    assert!(third.times(0, is_etcd).is_empty());
}

/// Another server adds its address between two reads, or one of two caches is older than the other: the slice that says
/// it already is not set back to what the Endpoints said before.
#[test]
fn a_slice_is_not_made_from_endpoints_that_are_older() {
    for reads in 1..=4 {
        for stale in [false, true] {
            let count = |address: &str| Config { mode: Mode::MasterCount(3), ..config(address) };
            let mut cluster = Cluster::new(vec![count("10.0.0.1"), count("10.0.0.2")]);
            cluster.run_until(15_000);
            let mut other = Cluster::new(vec![count("10.0.0.3")]);
            let (endpoints, slice) =
                (ObjectKey::kubernetes(Kind::Endpoints), ObjectKey::kubernetes(Kind::EndpointSlice));
            let old = cluster.store.objects[&endpoints].clone();
            // Something to be repaired, so that everything is read once more.
            let mut damaged = cluster.store.slice().cloned().unwrap();
            damaged.metadata.labels = None;
            cluster.store.put(cluster.now, damaged.into());
            cluster.servers.truncate(1);
            let mut seen = 0;
            cluster.hook = Box::new(move |now, _, request, store| {
                let Request::Get { object, fresh } = request else { return None };
                if *object != endpoints && *object != slice {
                    return None;
                }
                seen += 1;
                if seen == reads {
                    std::mem::swap(&mut other.store, store);
                    other.now = now;
                    other.run_until(now + 1000);
                    std::mem::swap(&mut other.store, store);
                    other.kill(0);
                }
                (stale && !fresh && *object == endpoints).then(|| Answer::Object(old.clone()))
            });
            cluster.run_until(29_000); // one round
            for (what, listed) in
                [("Endpoints", ready(cluster.store.endpoints())), ("slice", slice_ready(cluster.store.slice()))]
            {
                assert_eq!(listed, ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "{what}, read {reads}, stale: {stale}");
            }
        }
    }
}

#[test]
fn damage_is_mended_in_the_next_round() {
    let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
    let mut random = crate::common::Random::new(21);
    let mut repaired = 0;
    for round in 1..200 {
        cluster.run_until(round * 20_000);
        let endpoints = crate::common::any_endpoints(&mut random);
        let slice = crate::common::any_slice(&mut random);
        cluster.store.put(cluster.now, Object::from(endpoints));
        cluster.store.put(cluster.now, Object::from(slice));
        // A stray address is no live server's: there is nothing to be kept.
        cluster.run_until(round * 20_000 + 11_000);
        assert_eq!(slice_ready(cluster.store.slice()), ready(cluster.store.endpoints()));
        let mut listed = ready(cluster.store.endpoints());
        listed.sort();
        assert_eq!(listed, ["10.0.0.1", "10.0.0.2"]);
        repaired += 1;
    }
    println!("{repaired} times repaired");
    assert!(repaired > 190);
}

#[test]
fn a_dry_run_asks_for_everything_and_changes_nothing() {
    let mut cluster = cluster(&["10.0.0.1"]);
    let is_write = |request: &Request| {
        use Request::{Create, Delete, DeleteLease, PutLease, Update};
        matches!(request, Create(_) | Update(_) | Delete { .. } | PutLease { .. } | DeleteLease { .. })
    };
    cluster.hook = Box::new(move |_, _, request, _| is_write(request).then_some(Answer::Skipped));
    cluster.run_until(5000);
    assert!(cluster.store.objects.is_empty() && cluster.store.leases.is_empty());
    let asked = cluster.times(0, is_write).len();
    // Four namespaces, the Service, the lease, Endpoints and slice.
    assert_eq!(asked, 8, "{:?}", cluster.log);
    // Where others live, they stay in what would be written.
    let value = Lease { address: "10.0.0.2".into(), generation: 1 }.encode();
    cluster.store.put_lease(5000, &lease_key("10.0.0.2"), value, None);
    cluster.run_until(15_000);
    let mut written = cluster.log.iter().filter_map(|(_, _, request)| match request {
        Request::Create(Object::Endpoints(endpoints)) => Some(ready(Some(endpoints))),
        _ => None,
    });
    assert_eq!(written.next_back().unwrap_or_default(), ["10.0.0.1", "10.0.0.2"]);
    cluster.stop(0);
    cluster.run_until(16_000);
    assert_eq!(cluster.servers[0].phase, Phase::Stopped { removed: true, fatal: false });
    assert_eq!(said(&cluster), ["started", "fault found", "stopped: true"]);
}

/// The API servers are well: a range that cannot be repaired must not take their endpoints away.
#[test]
fn a_fatal_failure_says_why_and_erases_nothing() {
    for form in [Form::Hooks, Form::SingleController] {
        let servers = ["10.0.0.1", "10.0.0.2"];
        let mut cluster = Cluster::new(servers.map(|address| Config { form, ..config(address) }).into());
        cluster.run_until(20_000);
        let mut again = Cluster::new(servers.map(|address| Config { form, ..config(address) }).into());
        (again.store, again.now) = (cluster.store, 21_000);
        again.hook = Box::new(|_, _, request, _| {
            let full = Failure { reason: Reason::Repair, message: "etcd has no space".into() };
            (*request == Request::Repair(Repair::NodePorts)).then_some(Answer::Failed(full))
        });
        again.run_until(100_000);
        let fatal = again.reports.iter().filter_map(|(_, _, report)| match report {
            Report::Fatal { work, failure } => Some((*work, failure.message.contains("etcd has no space"))),
            _ => None,
        });
        assert_eq!(fatal.collect::<Vec<_>>(), [(Work::RepairNodePorts, true); 2]);
        for server in &again.servers {
            assert_eq!(server.phase, Phase::Stopped { removed: false, fatal: true });
        }
        assert_eq!(ready(again.store.endpoints()), servers, "{form:?}");
    }
}

#[test]
fn a_process_that_starts_again_beside_its_server_does_not_drop_it() {
    for form in [Form::Hooks, Form::SingleController] {
        let mut cluster = cluster(&["10.0.0.1", "10.0.0.2"]);
        cluster.run_until(21_000);
        let mut again = Cluster::new(vec![Config { form, ..config("10.0.0.1") }]);
        (again.store, again.now) = (cluster.store, 22_000);
        while again.now < 30_000 {
            again.run_until(again.now + 10);
            assert_eq!(ready(again.store.endpoints()), ["10.0.0.1", "10.0.0.2"], "{form:?} at {}", again.now);
        }
    }
}

/// As kube-apiserver reads --etcd-prefix.
#[test]
fn leases_are_below_the_prefix_as_a_path() {
    for (prefix, directory) in [
        ("/registry", "/registry/masterleases/"),
        ("registry/", "/registry/masterleases/"),
        ("//a/./b/../c//", "/a/c/masterleases/"),
        ("", "/masterleases/"),
    ] {
        let mut cluster = Cluster::new(vec![Config { etcd_prefix: prefix.into(), ..config("10.0.0.1") }]);
        cluster.run_until(5000);
        let key = cluster.log.iter().find_map(|(_, _, request)| match request {
            Request::PutLease { key, .. } => Some(key.clone()),
            _ => None,
        });
        assert_eq!(key, Some(format!("{directory}10.0.0.1")), "{prefix:?}");
    }
}

#[test]
fn periods_that_cannot_be_are_refused() {
    for (name, value) in [
        ("endpointsMs", u64::MAX),
        ("endpointsMs", 99),
        ("leaseTtlMs", 10_000),
        ("leaseTtlMs", 15_500),
        ("leaseTtlMs", 86_401_000),
        ("namespacesMs", u64::MAX),
        ("repairsMs", 0),
    ] {
        let text = format!(r#"{{"advertiseAddress":"10.0.0.1","periods":{{"{name}":{value}}}}}"#);
        let config: Config = serde_json::from_str(&text).unwrap();
        let error = Controller::new(config).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("periods.{name} must be")), "{error}");
    }
}
