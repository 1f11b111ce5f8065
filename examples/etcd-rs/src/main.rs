#![forbid(unsafe_code)]
//! Allocates and releases ClusterIPs of a range in etcd.

use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_rs::etcd::Etcd;
use etcd_rs::store::{Owner, Store};
use rangekeeper::allocator::Request;
use rangekeeper::commit::{Config, Replace};
use rangekeeper::{CidrRange, Strategy};
use tokio::task::JoinSet;

const USAGE: &str = "\
usage: etcd-rs ENDPOINT KEY CIDR init
       etcd-rs ENDPOINT KEY CIDR allocate COUNT
       etcd-rs ENDPOINT KEY CIDR release ADDRESS...

for example: etcd-rs http://127.0.0.1:2379 /registry/ranges/serviceips 10.96.0.0/12 allocate 100";

/// The number of callers that allocate at once, like the requests to an API server.
const CALLERS: usize = 64;
/// The time limit of each operation.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The strategy of kube-apiserver.
const CONFIG: Config =
    Config { strategy: Strategy::DynamicBandFirst, grace: Duration::from_secs(6 * 60), replace: Replace::IfUnused };

type AnyError = Box<dyn std::error::Error + Send + Sync>;

enum Command {
    Init,
    Allocate(usize),
    Release(Vec<IpAddr>),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, key, cidr, command @ ..] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(endpoint, key, cidr, command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("etcd-rs: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(endpoint: &str, key: &str, cidr: &str, command: &[String]) -> Result<ExitCode, AnyError> {
    let range: CidrRange = cidr.parse()?;
    let command = parse(command)?;
    let (store, task) = Store::open(Arc::new(Etcd::connect(endpoint).await?), key, range, CONFIG, TIMEOUT);
    let (done, failed) = match command {
        Command::Init => init(&store).await,
        Command::Allocate(count) => Ok(allocate(&store, count).await),
        Command::Release(addresses) => release(&store, addresses).await,
    }
    .map_err(|error| format!("{key}: {error}"))?;
    // The task ends when the last clone of the store is dropped.
    drop(store);
    let stats = task.await?;
    eprintln!(
        "{done} done, {} failed: {} swaps, {} conflicts, {} requests without an answer, {} watches",
        failed.len(),
        stats.swaps,
        stats.conflicts,
        stats.unknown,
        stats.watches
    );
    for failure in &failed {
        eprintln!("etcd-rs: {key}: {failure}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(command: &[String]) -> Result<Command, AnyError> {
    let (name, arguments) = command.split_first().ok_or(USAGE)?;
    match (name.as_str(), arguments) {
        ("init", []) => Ok(Command::Init),
        ("allocate", [count]) => {
            Ok(Command::Allocate(count.parse().map_err(|error| format!("COUNT {count:?}: {error}"))?))
        }
        ("release", [_, ..]) => {
            let address = |text: &String| text.parse().map_err(|error| format!("ADDRESS {text:?}: {error}").into());
            Ok(Command::Release(arguments.iter().map(address).collect::<Result<_, AnyError>>()?))
        }
        _ => Err(USAGE.into()),
    }
}

/// The number of successful operations, and the failures of the others.
type Ended = (usize, Vec<String>);

async fn init(store: &Store<CidrRange>) -> Result<Ended, AnyError> {
    let created = store.create().await?;
    writeln!(stdout(), "{}", if created { "created" } else { "was there" })?;
    Ok((1, Vec::new()))
}

/// Prints each address as soon as it may be used.
async fn allocate(store: &Store<CidrRange>, count: usize) -> Ended {
    let left = Arc::new(AtomicUsize::new(count));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS.min(count) {
        let (store, left) = (store.clone(), Arc::clone(&left));
        callers.spawn(async move {
            let mut done = 0;
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                if let Err(error) = allocate_one(&store).await {
                    return (done, Some(error.to_string()));
                }
                done += 1;
            }
            (done, None)
        });
    }
    let (done, failed): (Vec<_>, Vec<_>) = callers.join_all().await.into_iter().unzip();
    (done.iter().sum(), failed.into_iter().flatten().collect())
}

async fn allocate_one(store: &Store<CidrRange>) -> Result<(), AnyError> {
    let allocation = store.allocate(vec![Request::Any]).await?;
    for address in allocation.values {
        let told = writeln!(stdout(), "{address}");
        if told.is_err() {
            // Nothing has printed the address, so it is released.
            store.release(address, allocation.owner).await?;
        }
        told?;
    }
    Ok(())
}

/// Prints each address that was freed. The caller knows that no Service has them now, so the as-of revision is the
/// present one.
async fn release(store: &Store<CidrRange>, addresses: Vec<IpAddr>) -> Result<Ended, AnyError> {
    let as_of = store.read().await?.revision;
    let mut callers = JoinSet::new();
    for address in addresses {
        let store = store.clone();
        callers.spawn(async move {
            match store.release(address, Owner::at(as_of)).await {
                Ok(true) => writeln!(stdout(), "{address}").err().map(|error| error.to_string()),
                Ok(false) => Some(format!("{address}: free already, or allocated to another caller")),
                Err(error) => Some(format!("{address}: {error}")),
            }
        });
    }
    let ended = callers.join_all().await;
    let all = ended.len();
    let failed: Vec<String> = ended.into_iter().flatten().collect();
    Ok((all - failed.len(), failed))
}
