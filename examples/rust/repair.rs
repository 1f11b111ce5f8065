//! One repair pass over three Services: what is wrong with them, and which addresses to set and to clear in etcd.

use rangekeeper::finding::Subject;
use rangekeeper::{Audit, Leaks, Range, Service, Stored};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stored as allocated: 10.96.0.1 (offset 0) and 10.96.0.7 (offset 6).
    let stored = Stored { range: "10.96.0.0/12", data: &[0b0100_0001] };
    let services = [("kubernetes", "10.96.0.1"), ("dns", "10.96.0.10"), ("copy-of-dns", "10.96.0.10")];

    let mut pass = Audit::new();
    pass.add_cluster_ips("10.96.0.0/12".parse()?, stored)?;
    for (_, cluster_ip) in services {
        pass.observe(&Service { cluster_ip, ..Service::default() });
    }
    let outcome = pass.finish(Leaks::CleanAtOnce);

    for finding in &outcome.findings {
        if let Subject::Service(index) = finding.subject {
            println!("{} {}: {finding}", finding.reason, services[index as usize].0);
        }
    }
    let range = outcome.bitmap(0).expect("a bitmap");
    for (what, bits) in [("set", range.set()), ("clear", range.clear())] {
        for address in bits.iter().filter_map(|offset| range.range().value_at(offset)) {
            println!("{what} {address}");
        }
    }
    println!("data to store: {:02x?}", range.next().snapshot());
    Ok(())
}
