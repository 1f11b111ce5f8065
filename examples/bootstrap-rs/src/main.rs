#![forbid(unsafe_code)]
//! The bootstrap controller of a control plane in Rust, as a process beside its API server: it keeps the system
//! namespaces, the Service `kubernetes` and, by leases in etcd, its endpoints.
//!
//! A [`Controller`] makes all decisions. This program performs its orders:
//!
//! - `shell`: the loop that polls it, performs its orders, and answers.
//! - `cluster`: objects of the API server.
//! - `leases`: the keys of etcd by which servers know each other.
//! - `ranges`: the repair of ranges.
//! - `report`: log lines.

mod cluster;
mod leases;
mod ranges;
mod report;
mod shell;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use rangekeeper::{CidrRange, PortRange};
use rangekeeper_bootstrap::config::Config;
use rangekeeper_bootstrap::controller::Controller;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cluster::Cluster;
use crate::leases::Leases;
use crate::ranges::Ranges;
use crate::shell::Shell;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Keeps the system namespaces, the Service kubernetes and its endpoints, beside an API server that does not do so
/// itself. SIGTERM or SIGINT begin an orderly stop, which removes its own address and lease.
///
/// The flags have the names and defaults of kube-apiserver's.
#[derive(Parser)]
struct Flags {
    /// The kubeconfig of the API server that this process belongs to.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The endpoints of the API server's etcd: http://HOST:PORT, separated by commas.
    #[arg(long, value_name = "URLS", required = true, value_delimiter = ',', value_parser = endpoint)]
    endpoints: Vec<String>,
    /// The address under which the cluster reaches the API server.
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: String,
    /// The port on which the API server listens.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,
    /// The range of ClusterIPs, or one of each IP family with a comma. The first address of the first one is that of
    /// the Service kubernetes.
    #[arg(long, value_name = "CIDRS", default_value = "10.0.0.0/24", value_delimiter = ',')]
    service_cluster_ip_range: Vec<CidrRange>,
    /// The range of NodePorts.
    #[arg(long, value_name = "RANGE", default_value = "30000-32767")]
    service_node_port_range: PortRange,
}

// One thread is enough for a request every few seconds.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The libraries log each failure; the controller reports each problem once.
    let own = Targets::new().with_target(env!("CARGO_CRATE_NAME"), Level::INFO);
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    tracing_subscriber::registry().with(format).with(own).init();
    match run(Flags::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bootstrap-rs: {error}");
            ExitCode::from(2)
        }
    }
}

/// Checks an endpoint of etcd. The example has no TLS, since etcd runs on the API server's machine.
fn endpoint(text: &str) -> Result<String, &'static str> {
    let uri: Option<http::Uri> = text.parse().ok();
    let known = uri.filter(|uri| uri.scheme_str() == Some("http") && uri.port().is_some());
    known.map(|_| text.to_owned()).ok_or("expected http://HOST:PORT")
}

/// Returns whether a signal ended it, and not a fatal failure.
async fn run(flags: Flags) -> Result<bool, AnyError> {
    let Flags { kubeconfig, endpoints, advertise_address, secure_port, .. } = flags;
    let ranges = Ranges::new(&endpoints, flags.service_cluster_ip_range, flags.service_node_port_range)?;
    let service_cluster_ip_range = ranges.primary().to_string();
    let controller =
        Controller::new(Config { advertise_address, secure_port, service_cluster_ip_range, ..Config::default() })?;
    let cluster = Cluster::new(&kubeconfig).await?;
    let leases = Leases::new(&endpoints).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(shell::run(controller, Arc::new(Shell { cluster, leases, ranges }), stop).await)
}
