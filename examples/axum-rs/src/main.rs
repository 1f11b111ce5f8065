#![forbid(unsafe_code)]
//! A control plane for Services: `http` serves a part of the Kubernetes API, and `service` has the rules for fields.
//! Several replicas share an etcd without a leader, or one has a file of SQLite. The crate `rangekeeper` decides about
//! ranges, and `etcd_rs::services` allocates, writes and releases in the right order.

mod http;
mod service;

use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use etcd_rs::etcd::Etcd;
use etcd_rs::kv::Kv;
use etcd_rs::services::Services;
use rangekeeper::commit::{Config, LeakTracker, Repaired, Replace};
use rangekeeper::{CidrRange, PortRange, Strategy};
use sqlite_rs::Sqlite;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

/// Serves Services over HTTP, without TLS and users: an example, for loopback. `rangekeeper audit` reads its store.
#[derive(Parser)]
struct Flags {
    /// Where to listen; it prints the address, as port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The etcd that all replicas share: http://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "sqlite")]
    etcd_servers: Option<String>,
    /// Without an etcd the file of SQLite, for a single replica
    #[arg(long, value_name = "FILE", default_value = "services.db")]
    sqlite: PathBuf,
    /// The prefix of all keys
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    etcd_prefix: String,
    /// The range of ClusterIPs, or one of each IP family with a comma, the default first
    #[arg(long, value_name = "CIDRS", default_value = "10.0.0.0/24", value_delimiter = ',')]
    service_cluster_ip_range: Vec<CidrRange>,
    /// The range of node ports
    #[arg(long, value_name = "RANGE", default_value = "30000-32767")]
    service_node_port_range: PortRange,
    /// The seconds between two repair passes; the third one that sees a leak cleans it
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..))]
    repair_interval: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = run(Flags::parse()).await else { return ExitCode::SUCCESS };
    eprintln!("axum-rs: {error}");
    ExitCode::from(2)
}

async fn run(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let kv: Arc<dyn Kv> = match &flags.etcd_servers {
        Some(endpoint) => Arc::new(Etcd::connect(endpoint).await?),
        None => Arc::new(Sqlite::open(&flags.sqlite).map_err(|error| format!("{}: {error}", flags.sqlite.display()))?),
    };
    let interval = Duration::from_secs(flags.repair_interval);
    // A Service has two intervals to be written after its values are allocated.
    let config = Config { strategy: Strategy::DynamicBandFirst, grace: 2 * interval, replace: Replace::IfUnused };
    let (ips, ports) = (&flags.service_cluster_ip_range, flags.service_node_port_range);
    let services = Services::new(kv, flags.etcd_prefix.trim_end_matches('/'), ips, ports, config, service::show);
    let services = Arc::new(services.ok_or("--service-cluster-ip-range: expected a CIDR, or one of each IP family")?);

    // Nothing is served before the ranges are there and have all that Services use.
    let (mut leaks, started) = (LeakTracker::new(NonZeroU8::MIN.saturating_add(2), interval), Instant::now());
    repair(&services, &mut leaks, started).await.map_err(|error| format!("the first repair pass: {error}"))?;
    let listener = TcpListener::bind(flags.listen).await.map_err(|error| format!("{}: {error}", flags.listen))?;
    println!("http://{}", listener.local_addr()?);
    let repairs = async {
        loop {
            sleep(interval).await;
            repair(&services, &mut leaks, started).await.unwrap_or_else(|error| eprintln!("axum-rs: repair: {error}"));
        }
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move { _ = terminate.recv().await };
    tokio::select! {
        served = axum::serve(listener, http::router(Arc::clone(&services))).with_graceful_shutdown(stop) => Ok(served?),
        () = repairs => Ok(()),
    }
}

/// Makes a repair pass, which also creates ranges that are missing, and reports what it finds and does.
async fn repair(
    services: &Services,
    leaks: &mut LeakTracker,
    started: Instant,
) -> Result<(), Box<dyn std::error::Error>> {
    let (report, outcomes) = services.repair(leaks, started.elapsed()).await?;
    // What a Service was given after the range was read looks as if it were not recorded; that is no fault.
    let faults = report.findings.iter().filter(|finding| !finding.reason.is_repairable());
    faults.for_each(|finding| eprintln!("axum-rs: {}: {finding}", finding.reason));
    for Repaired { cleared, .. } in outcomes.into_iter().collect::<Result<Vec<_>, _>>()? {
        cleared.iter().for_each(|value| eprintln!("axum-rs: {value} was allocated to no Service, and is free now"));
    }
    Ok(())
}
