//! Faults that allocators of other projects had, played on a ledger: each ends without a value that two have, and
//! without one that is lost.
#![cfg(feature = "ledger")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{below, seeded};
use rangekeeper::leak::DEFAULT_PASSES;
use rangekeeper::ledger;
use rangekeeper::ledger::{
    Allocation, Change, Choice, Ledger, LedgerFinding, LedgerValue, Memory, Outcome, OwnerLeaks, Pool, Put, RunError,
    SharedLedger, Token, Want,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const NOW: Duration = Duration::ZERO;

/// A store that can be away.
#[derive(Default)]
struct Store {
    row: Memory,
    is_away: bool,
}

impl Store {
    fn answer(&self) -> Result<(), &'static str> {
        if self.is_away { Err("connection refused") } else { Ok(()) }
    }
}

impl ledger::Store for Store {
    type Error = &'static str;

    fn get(&mut self) -> Result<Option<(Vec<u8>, Token)>, Self::Error> {
        self.answer().map(|()| self.row.get().unwrap_or_default())
    }

    fn put(&mut self, value: Vec<u8>, token: Option<Token>) -> Result<Put, Self::Error> {
        self.answer().map(|()| {
            let Ok(put) = self.row.put(value, token);
            put
        })
    }
}

fn allocate(want: Want, owner: &str) -> Change {
    Change::Allocate { want, owner: Some(owner.to_owned()) }
}

/// What the owners of these changes were given.
fn given(ledger: &mut SharedLedger) -> Vec<LedgerValue> {
    let given = |(_, outcome)| match outcome {
        Outcome::Allocated(Allocation { first, len: 1 }) => Some(first),
        _ => None,
    };
    ledger.take_outcomes().filter_map(given).collect()
}

/// kruise-game#359: the cache of a load balancer's ports still has 30 of deleted game servers. Of 50 new ones 20 get a
/// port. Here an audit names the 30, and three audits in a row release them.
#[test]
fn ports_of_deleted_game_servers_are_given_again() -> TestResult {
    let mut rng = seeded(359);
    let mut store = Store::default();
    let mut ledger = SharedLedger::new(Pool::new("1000-1049".parse()?, Choice::Lowest), 1);
    for server in 0..30 {
        ledger.submit(allocate(Want::Any, &format!("old-{server}")));
    }
    ledger.run(&mut store, || NOW, &mut rng)?;
    assert_eq!(given(&mut ledger).len(), 30);

    // They are deleted while the controller is away. 50 new ones come.
    let servers: Vec<String> = (0..50).map(|server| format!("new-{server}")).collect();
    let mut leaks = OwnerLeaks::new(DEFAULT_PASSES);
    let mut had = BTreeMap::new();
    for pass in 1..=4 {
        let missing = servers.iter().filter(|server| !had.contains_key(*server));
        let tickets: Vec<_> =
            missing.map(|server| (server.clone(), ledger.submit(allocate(Want::Any, server)))).collect();
        ledger.run(&mut store, || NOW, &mut rng)?;
        for (server, ticket) in tickets {
            if let Some(Outcome::Allocated(allocation)) = ledger.take_outcome(ticket) {
                had.insert(server, allocation.first);
            }
        }
        assert_eq!(had.len(), if pass <= 3 { 20 } else { 50 }, "pass {pass}");
        let findings = ledger.known().ok_or("unknown")?.audit(servers.iter().map(String::as_str));
        for owner in leaks.advance(&findings) {
            ledger.submit(Change::ReleaseOwner { owner });
        }
        ledger.run(&mut store, || NOW, &mut rng)?;
    }
    assert_eq!(had.values().collect::<BTreeSet<_>>().len(), 50, "a port has two servers");
    assert_eq!(ledger.known().ok_or("unknown")?.audit(servers.iter().map(String::as_str)), []);
    Ok(())
}

/// rk8s#549: after a restart the allocator begins empty and hands out the ClusterIPs of existing Services. Here the
/// state is stored; and where there is none yet, existing Services are recorded by name first.
#[test]
fn addresses_of_existing_services_are_not_given_after_a_restart() -> TestResult {
    let mut rng = seeded(549);
    let pool = Pool::new("10.96.0.0/28".parse()?, Choice::Lowest);
    let services: Vec<(String, LedgerValue)> =
        [1, 2, 5, 6, 9].map(|last| (format!("uid-{last}"), LedgerValue::Address([10, 96, 0, last].into()))).to_vec();
    let mut store = Store::default();
    for restart in 0..3 {
        let mut ledger = SharedLedger::new(pool.clone(), restart);
        for (owner, address) in &services {
            ledger.submit(allocate(Want::Value(*address), owner));
        }
        ledger.run(&mut store, || NOW, &mut rng)?;
        assert_eq!(given(&mut ledger).len(), services.len());
        for number in 0..3 {
            ledger.submit(allocate(Want::Any, &format!("restart-{restart}-{number}")));
        }
        ledger.run(&mut store, || NOW, &mut rng)?;
        let new = given(&mut ledger);
        assert_eq!(new.len(), 3);
        assert!(new.iter().all(|address| services.iter().all(|(_, other)| other != address)), "{new:?}");
    }
    let ledger = Ledger::open(pool, store.row.value().ok_or("nothing stored")?, 1)?;
    assert_eq!(ledger.used(), 5 + 9);
    Ok(())
}

/// klights: a server that becomes the leader lists the Services; if that fails, it is ready all the same, with nothing
/// in use. Here a read that fails hands out nothing, and the changes wait.
#[test]
fn a_leader_whose_read_fails_hands_out_nothing() -> TestResult {
    let mut rng = seeded(17);
    let pool = Pool::new("30000-30009".parse()?, Choice::Lowest);
    let mut store = Store::default();
    let mut first = SharedLedger::new(pool.clone(), 1);
    for service in 0..4 {
        first.submit(allocate(Want::Any, &format!("service-{service}")));
    }
    first.run(&mut store, || NOW, &mut rng)?;
    let before = given(&mut first);

    let mut second = SharedLedger::new(pool, 2);
    second.submit(allocate(Want::Any, "another"));
    store.is_away = true;
    for _ in 0..3 {
        assert_eq!(second.run(&mut store, || NOW, &mut rng), Err(RunError::Unanswered("connection refused")));
        assert_eq!(second.take_outcomes().count(), 0);
    }
    store.is_away = false;
    second.run(&mut store, || NOW, &mut rng)?;
    let after = given(&mut second);
    assert_eq!((before.len(), after.len()), (4, 1));
    assert!(!before.contains(&after[0]));
    // The first one does not know yet that it is no leader any more.
    first.submit(allocate(Want::Any, "late"));
    first.run(&mut store, || NOW, &mut rng)?;
    let late = given(&mut first);
    assert!(late.len() == 1 && !before.contains(&late[0]) && late != after);
    Ok(())
}

/// Antrea#7944: an allocation of several addresses in a row marked others than it returned, which were handed out
/// again.
#[test]
fn all_values_of_a_run_are_in_use() -> TestResult {
    let mut rng = seeded(7944);
    let mut runs = 0;
    for _ in 0..200 {
        let mut ledger = Ledger::new(Pool::new("192.0.2.0/25".parse()?, Choice::Random).exclude("192.0.2.1")?, 1);
        let range = ledger.pool().range();
        let mut used = BTreeSet::new();
        let mut owners = 0;
        loop {
            let want = if below(2, &mut rng) == 0 { Want::Any } else { Want::Run(1 + below(9, &mut rng)) };
            let Ok(allocation) = ledger.allocate(want, Some(&format!("pod-{owners}")), NOW, &mut rng) else { break };
            owners += 1;
            runs += u32::from(allocation.len > 1);
            let first = range.offset_of(allocation.first).ok_or("not in range")?;
            for offset in first..first + u64::from(allocation.len) {
                assert!(used.insert(offset), "offset {offset} was given twice");
            }
            assert_eq!(ledger.used(), used.len() as u64);
        }
        let pods: Vec<String> = (0..owners).map(|pod| format!("pod-{pod}")).collect();
        let audited = ledger.audit(pods.iter().map(String::as_str));
        assert!(!audited.iter().any(|finding| !matches!(finding, LedgerFinding::OwnerUnknown { .. })), "{audited:?}");
        pods.iter().for_each(|pod| drop(ledger.release_owner(pod, NOW)));
        assert_eq!((ledger.used(), ledger.iter().count()), (0, 0));
    }
    println!("{runs} runs");
    assert!(runs > 2_000, "played too little");
    Ok(())
}
