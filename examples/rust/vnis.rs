//! Hands out VNIs and subnets of a /16 to owners, over any store that writes a value only if nobody else has meanwhile.
//! The store here is a value in memory; a row of a database, a key of etcd or a Kubernetes object does as well.

use std::time::Duration;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::ledger::{Change, Choice, Memory, Outcome, Pool, SharedLedger, Want};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program takes these from its system.
    let (seed, now) = (7, Duration::from_secs(1_800_000_000));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
    let allocate = |want, owner: &str| Change::Allocate { want, owner: Some(owner.to_owned()) };

    // 4096 and above, without the number of the UDP port of VXLAN, which people mix up with it.
    let vnis = Pool::new("4096-16777215".parse()?, Choice::NextFit).exclude("4789")?;
    let mut store = Memory::default();
    let mut ledger = SharedLedger::new(vnis, seed);
    // A tenant that asks again, as after a lost answer, gets the same. All changes that wait are one write.
    for tenant in ["red", "blue", "red"] {
        ledger.submit(allocate(Want::Any, tenant));
    }
    ledger.submit(Change::ReleaseOwner { owner: "red".to_owned() });
    ledger.run(&mut store, || now, &mut rng)?;
    for (_, outcome) in ledger.take_outcomes() {
        match outcome {
            Outcome::Allocated(allocation) => println!("VNI {}", allocation.first),
            Outcome::Released(released) => println!("{} released", released.len()),
            refused => println!("{refused:?}"),
        }
    }

    // Each /28 is one value, so four of them in an aligned block are a /26.
    let subnets = Pool::new("10.0.0.0/16/28".parse()?, Choice::Lowest).exclude("10.0.0.0/28")?;
    let mut store = Memory::default();
    let mut ledger = SharedLedger::new(subnets, seed);
    let tickets = [("small", Want::Any), ("large", Want::Block(2))]
        .map(|(cluster, want)| (cluster, ledger.submit(allocate(want, cluster))));
    ledger.run(&mut store, || now, &mut rng)?;
    for (cluster, ticket) in tickets {
        if let Some(Outcome::Allocated(allocation)) = ledger.take_outcome(ticket) {
            println!("{cluster}: {} from {}", allocation.len, allocation.first);
        }
    }
    // The clusters that exist: one is gone, whose subnet has leaked.
    for finding in ledger.known().into_iter().flat_map(|known| known.audit(["large"])) {
        println!("{finding}");
    }
    Ok(())
}
