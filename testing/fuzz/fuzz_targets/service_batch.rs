//! Batches of Services through the C ABI, whole and damaged: the ABI accepts the batches that a plain decoder accepts,
//! with the same Services, and a refused batch has no effect.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rangekeeper::audit::{Audit, Leaks, Stored};
use rangekeeper_fuzz::abi::{self, Batch, Damage, INVALID_ARGUMENT, NULL_POINTER, OK, as_c};
use rangekeeper_fuzz::service::OwnedService;

#[derive(Arbitrary, Debug)]
struct Input {
    page: u8,
    batches: Vec<(Vec<OwnedService>, bool, Vec<Damage>)>,
}

fuzz_target!(|input: Input| {
    let through_c = abi::Audit::of_bitmaps(&["10.0.0.0/27", "fd00::/123", "30000-30031"]);
    let mut direct = Audit::new();
    direct.add_cluster_ips("10.0.0.0/27".parse().expect("a CIDR"), Stored::default()).expect("nothing is stored");
    direct.add_cluster_ips("fd00::/123".parse().expect("a CIDR"), Stored::default()).expect("nothing is stored");
    direct.add_node_ports("30000-30031".parse().expect("ports"), Stored::default()).expect("nothing is stored");

    for (services, short, damage) in &input.batches {
        let mut batch = Batch::of_services(services, *short);
        if damage.is_empty() {
            assert_eq!(batch.services().as_ref(), Ok(services), "the plain decoder reads what was put together");
        }
        damage.iter().for_each(|damage| damage.apply(&mut batch));
        match batch.services() {
            Ok(services) => {
                assert_eq!(through_c.observe(&batch), OK, "{batch:?}");
                services.iter().for_each(|service| service.with(|service| direct.observe(service)));
            }
            Err(result) => assert_eq!(through_c.observe(&batch), result, "{batch:?}"),
        }
        assert_eq!(through_c.observe_misplaced(&batch), [NULL_POINTER, NULL_POINTER, INVALID_ARGUMENT]);
    }

    let outcome = direct.finish(Leaks::CleanAtOnce);
    let (services, findings, _) = through_c.finish(usize::from(input.page) + 1);
    assert_eq!(services, outcome.services);
    assert_eq!(findings, outcome.findings.iter().map(|finding| as_c(&outcome, finding)).collect::<Vec<_>>());
});
