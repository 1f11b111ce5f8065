//! Batches of IPAddress objects and of Services with names through the C ABI, whole and damaged, in the same way as
//! `service_batch`; and what must hold of every audit.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rangekeeper::audit::{Audit, Leaks, Report, Values};
use rangekeeper::ipaddress::{ALLOCATOR, IpAddressObject};
use rangekeeper::service::Service;
use rangekeeper::service_cidr::ServiceCidr;
use rangekeeper_fuzz::abi::{
    self, Batch, Damage, INVALID_ARGUMENT, INVALID_BATCH, OK, OwnedIpAddress, as_c, leak_as_c,
};
use rangekeeper_fuzz::service::OwnedService;

const CIDRS: [&str; 5] = ["10.0.0.0/27", "fd00::/123", "10.0.0.0/24", "fd00::/64", "192.168.0.0/31"];

#[derive(Arbitrary, Debug)]
struct Input {
    page: u8,
    now: Option<i64>,
    cidrs: u8,
    batches: Vec<Observed>,
}

#[derive(Arbitrary, Debug)]
enum Observed {
    IpAddresses(Vec<Object>, Vec<Damage>),
    Services(Vec<(u8, OwnedService)>, Vec<Damage>, Vec<Damage>),
}

/// An IPAddress object that mostly belongs to the allocator and refers to a Service.
#[derive(Arbitrary, Debug)]
struct Object {
    object: OwnedIpAddress,
    usual: bool,
    service: u8,
}

fn name(service: u8) -> (String, String) {
    (format!("ns{}", service % 2), format!("svc{}", service % 8))
}

fuzz_target!(|input: Input| {
    let cidrs: Vec<&str> = (0..CIDRS.len()).filter(|at| input.cidrs >> at & 1 == 1).map(|at| CIDRS[at]).collect();
    let through_c = abi::Audit::of_ip_addresses(input.now, &cidrs);
    let mut direct = Audit::of_ip_addresses(input.now);
    cidrs.iter().for_each(|cidr| {
        direct
            .add_service_cidr(cidr.parse::<ServiceCidr>().expect("a CIDR"), true)
            .expect("an audit of IPAddress objects")
    });

    for observed in &input.batches {
        match observed {
            Observed::IpAddresses(objects, damage) => observe_ip_addresses(&through_c, &mut direct, objects, damage),
            Observed::Services(services, names_damage, damage) => {
                observe_services(&through_c, &mut direct, services, names_damage, damage);
            }
        }
    }

    let report = direct.finish(Leaks::CleanAtOnce);
    let (services, findings, leaks) = through_c.finish(usize::from(input.page) + 1);
    assert_eq!(services, report.services);
    assert_eq!(findings, report.findings.iter().map(|finding| as_c(&report, finding)).collect::<Vec<_>>());
    assert_eq!(leaks, report.leaks().map(|leak| leak_as_c(&leak)).collect::<Vec<_>>());
    laws(&report);
});

fn observe_ip_addresses(through_c: &abi::Audit, direct: &mut Audit, objects: &[Object], damage: &[Damage]) {
    let objects: Vec<OwnedIpAddress> = objects
        .iter()
        .map(|object| {
            let (namespace, name) = name(object.service);
            let usual = [ALLOCATOR.to_owned(), String::new(), "services".to_owned(), namespace, name];
            let rest = if object.usual { usual } else { object.object.rest.clone() };
            OwnedIpAddress { rest, ..object.object.clone() }
        })
        .collect();
    let mut batch = Batch::of_ip_addresses(&objects);
    if damage.is_empty() {
        assert_eq!(batch.ip_addresses(), Ok(objects), "the plain decoder reads what was put together");
    }
    damage.iter().for_each(|damage| damage.apply(&mut batch));
    match batch.ip_addresses() {
        Ok(objects) => {
            let mut observed = Ok(());
            for object in &objects {
                let [managed_by, parent_group, parent_resource, parent_namespace, parent_name] = &object.rest;
                observed = direct.observe_ip_address(&IpAddressObject {
                    name: &object.name.0,
                    managed_by,
                    created: object.created,
                    revision: object.revision,
                    without_parent: object.without_parent,
                    parent_group,
                    parent_resource,
                    parent_namespace,
                    parent_name,
                });
            }
            // They are refused after the first Service.
            let expected = if observed.is_ok() { OK } else { INVALID_ARGUMENT };
            assert_eq!(through_c.observe_ip_addresses(&batch), expected, "{batch:?}");
        }
        Err(result) => assert_eq!(through_c.observe_ip_addresses(&batch), result, "{batch:?}"),
    }
}

fn observe_services(
    through_c: &abi::Audit,
    direct: &mut Audit,
    services: &[(u8, OwnedService)],
    names_damage: &[Damage],
    damage: &[Damage],
) {
    let names: Vec<(String, String)> = services.iter().map(|(service, _)| name(*service)).collect();
    let services: Vec<OwnedService> = services.iter().map(|(_, service)| service.clone()).collect();
    let (mut names, mut batch) = (Batch::of_names(&names), Batch::of_services(&services, true));
    names_damage.iter().for_each(|damage| damage.apply(&mut names));
    damage.iter().for_each(|damage| damage.apply(&mut batch));
    let result = through_c.observe_services(&names, &batch);
    match (names.names(), batch.services()) {
        (Ok(names), Ok(services)) if names.len() == services.len() => {
            assert_eq!(result, OK);
            for ((namespace, name), service) in names.iter().zip(&services) {
                service.with(|service| direct.observe(&Service { namespace, name, ..*service }));
            }
        }
        // Which of two damaged batches is reported is open, and so is whether their lengths are compared first.
        (names, services) => {
            let errors = [names.err(), services.err(), Some(INVALID_BATCH)];
            assert!(errors.contains(&Some(result)), "{result:?} for {errors:?}");
        }
    }
}

fn laws(report: &Report) {
    for range in &report.ranges {
        let (counts, size) = (range.counts(), range.size());
        assert!(counts.stored <= size);
        assert_eq!(counts.stored + counts.set, counts.next + counts.clear);
        for members in [true, false] {
            let runs = range.offsets(Values::Stored).runs(members, size, 0).map(|run| run.len()).sum::<u64>();
            assert_eq!(runs, if members { counts.stored } else { size - counts.stored });
        }
        for count in [0, 1, 7] {
            let cells: Vec<_> = range.occupancy(count).collect();
            assert!(cells.len() as u64 <= u64::from(count));
            let mut next = 0_u64;
            for cell in &cells {
                assert_eq!(cell.first, next);
                next += cell.len;
                assert!(cell.lost <= cell.in_use && cell.duplicate <= cell.in_use && cell.in_use <= cell.len);
            }
            assert_eq!(next, if count == 0 { 0 } else { size });
        }
    }
    for finding in &report.findings {
        assert!(!finding.to_string().is_empty());
        assert_eq!(finding.range.is_none(), report.ranges.is_empty());
        assert!(finding.range.is_none_or(|range| range < report.ranges.len()));
    }
    for leak in report.leaks() {
        assert_eq!(leak.range.is_none(), report.ranges.is_empty());
        let state = leak.range.and_then(|range| report.ranges[range].state_of(leak.value));
        assert!(state.is_none_or(|state| state.stored && !state.next || state.in_use), "{leak:?}: {state:?}");
    }
}
