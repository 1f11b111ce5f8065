//! Repairs of an object that is for another range than the configured one.

use std::num::NonZeroU8;
use std::time::Duration;

use rangekeeper::allocator::Strategy;
use rangekeeper::audit::Audit;
use rangekeeper::commit::{Config, Failure, KeyState, LeakTracker, Operation, Outcome, Replace, ServiceList};
use rangekeeper::ports::PortRange;
use rangekeeper::range_allocation::RangeAllocation;
use rangekeeper::service::{Service, ServicePort};

use crate::store::{NOW, Ports, Store, committer, is_set, this};

const OTHER: &str = "30000-30004";
const OURS: &str = "30002-30009";

fn configured(range: &str, replace: Replace) -> Ports {
    let config = Config { strategy: Strategy::Contiguous, grace: Duration::from_secs(360), replace };
    Ports::new(range.parse().expect("a range"), config, 1)
}

/// A repair by Services with these ports. Returns its outcome, and what a dry run says before.
fn repair(store: &mut Store, ours: &mut Ports, ports: &[u16]) -> (Outcome<PortRange>, Option<Failure<PortRange>>) {
    let mut passes = LeakTracker::new(NonZeroU8::new(3).expect("not zero"), Duration::from_secs(180));
    let mut pass = passes.start();
    pass.begin(&passes, ours).expect("the only range");
    let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
    pass.read(&mut passes, ours, &view, NOW).expect("begun");
    let mut audit = Audit::new();
    let listing = pass.audit(&passes, &mut audit).expect("all is read");
    for port in ports {
        let ports = [ServicePort { protocol: "TCP", node_port: i32::from(*port) }];
        audit.observe(&Service { namespace: "default", name: "web", ports: &ports, ..Service::default() });
    }
    let (found, _) = listing.finish(&mut passes, audit).expect("its own audit");
    let dry_run = found.refusal(ours).expect("its own range");
    let diff = found.diff(&mut passes, ours, ServiceList::At(store.revision)).expect("its own range");
    (store.one(ours, Operation::Repair(Box::new(diff))), dry_run)
}

fn stored(store: &Store) -> Option<String> {
    store.key.as_ref().map(|(_, value)| RangeAllocation::decode(value).expect("ours").range)
}

/// What is stored, what Services use, and how many values and Services the refusal names, if the range is kept.
#[test]
fn a_range_that_services_need_is_replaced_only_on_request() {
    type Case<'a> = (&'a str, Option<&'a [u16]>, &'a [u16], Option<(u32, u32)>);
    let cases: [Case<'_>; 8] = [
        ("nothing is stored", None, &[30_002], None),
        ("nothing is stored, and Services are outside", None, &[30_000, 30_002, 30_001], Some((0, 2))),
        ("it holds nothing", Some(&[]), &[], None),
        ("it holds nothing, and a Service is outside", Some(&[]), &[40_000], Some((0, 1))),
        ("it holds nothing, and Services use values of both", Some(&[]), &[30_002], Some((0, 0))),
        ("it holds a value of both", Some(&[30_002]), &[30_002], Some((1, 0))),
        ("it holds a value of its own", Some(&[30_000, 30_002]), &[30_000, 30_002], Some((2, 1))),
        ("it holds a value that no Service has yet", Some(&[30_000]), &[], Some((1, 0))),
    ];
    for (case, recorded, services, kept) in cases {
        for replace in [Replace::Always, Replace::IfUnused, Replace::Once] {
            let mut store = Store::default();
            if let Some(recorded) = recorded {
                let mut others = committer(OTHER, 1);
                store.one(&mut others, Operation::Create);
                for port in recorded {
                    assert!(matches!(store.one(&mut others, this(*port)), Outcome::Allocated { .. }));
                }
            }
            let (before, mut ours) = (stored(&store), configured(OURS, replace));
            let (outcome, dry_run) = repair(&mut store, &mut ours, services);
            let in_use = kept.filter(|_| replace != Replace::Always).map(|(recorded, outside)| {
                let (expected, found) = (ours.range(), before.clone().unwrap_or_default());
                Failure::RangeInUse { expected, found, recorded, outside }
            });
            assert_eq!(dry_run, in_use, "{case}");
            match in_use {
                Some(refusal) if replace == Replace::IfUnused => {
                    assert_eq!((outcome, stored(&store)), (Outcome::Failed(refusal), before), "{case}");
                }
                _ => {
                    assert!(matches!(outcome, Outcome::Repaired(_)), "{case}: {outcome:?}");
                    assert_eq!(stored(&store).as_deref(), Some(OURS), "{case}");
                    assert_eq!(is_set(&store, 0), services.contains(&30_002), "{case}");
                }
            }
        }
    }
}

/// A controller with another range takes the key back: only the first replacement was asked for.
#[test]
fn once_is_over_when_the_range_was_the_configured_one() {
    let (mut store, mut ours) = (Store::default(), configured(OURS, Replace::Once));
    let mut others = configured(OTHER, Replace::Always);
    for replaces in [true, false] {
        assert!(matches!(repair(&mut store, &mut others, &[30_002]).0, Outcome::Repaired(_)));
        let (outcome, _) = repair(&mut store, &mut ours, &[30_002]);
        assert_eq!(matches!(outcome, Outcome::Repaired(_)), replaces, "{outcome:?}");
        assert!(matches!(store.one(&mut ours, Operation::Read), Outcome::Read(_)));
    }
}

/// A Service that is written late has a value that the new object does not record, unless it is in the list.
#[test]
fn a_pass_that_recreates_the_object_needs_a_fence() {
    let (mut store, mut ours) = (Store::default(), committer(OURS, 1));
    let mut passes = LeakTracker::new(NonZeroU8::new(3).expect("not zero"), Duration::from_secs(180));
    let mut needs_fence = |store: &mut Store, ours: &mut Ports| {
        let mut pass = passes.start();
        pass.begin(&passes, ours).expect("the only range");
        let Outcome::Read(view) = store.one(ours, Operation::Read) else { panic!("a view") };
        pass.read(&mut passes, ours, &view, NOW).expect("begun")
    };
    assert!(needs_fence(&mut store, &mut ours), "nothing is stored");
    store.one(&mut ours, Operation::Create);
    assert!(needs_fence(&mut store, &mut ours), "it was created since");
    assert!(!needs_fence(&mut store, &mut ours), "it is the same since");
    // Others delete it and create it again; no pass of ours has seen it missing.
    let value = store.key.take().expect("stored").1;
    store.revision += 2;
    let (mod_revision, version) = (store.revision, 1);
    store.key = Some((KeyState { mod_revision, version, create_revision: mod_revision }, value));
    assert!(needs_fence(&mut store, &mut ours), "it may be another object");
    assert!(!needs_fence(&mut store, &mut ours), "it is the same since");
}
