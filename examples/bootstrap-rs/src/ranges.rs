//! The repair of ranges: creates the ranges that a cluster lacks at its first start, since an API server allocates
//! nothing before.
//!
//! It repairs nothing in existing ranges. Such a pass lists Services after it has read the range, distinguishes leaks
//! from allocations under way, and reports Events, as the Go package `repair` does; it would be larger than the whole
//! example. A control plane with a repair of its own calls that in the place of [`Ranges::repair`].

use std::sync::Arc;
use std::time::Duration;

use etcd_rs::etcd::Etcd;
use etcd_rs::store::Store;
use rangekeeper::commit::{Config, Replace};
use rangekeeper::{CidrRange, PortRange, Range, Strategy};
use rangekeeper_bootstrap::request::{Answer, Reason, Repair};
use tracing::info;

use crate::AnyError;
use crate::shell::failed;

/// The keys of the ranges of ClusterIPs, the primary one first. Since 1.33 an API server keeps ClusterIPs as IPAddress
/// objects by default, and ignores these keys.
const CLUSTER_IPS: [&str; 2] = ["/registry/ranges/serviceips", "/registry/ranges/secondaryserviceips"];
const NODE_PORTS: &str = "/registry/ranges/servicenodeports";

/// The strategy of kube-apiserver. Nothing is allocated here.
const CONFIG: Config =
    Config { strategy: Strategy::DynamicBandFirst, grace: Duration::from_secs(6 * 60), replace: Replace::IfUnused };
/// The time limit for the creation of a range. All first repairs together have a minute.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The configured ranges.
pub(crate) struct Ranges {
    endpoints: Vec<String>,
    cluster_ips: Vec<CidrRange>,
    node_ports: PortRange,
}

impl Ranges {
    pub(crate) fn new(
        endpoints: &[String],
        cluster_ips: Vec<CidrRange>,
        node_ports: PortRange,
    ) -> Result<Self, AnyError> {
        match cluster_ips[..] {
            [_] => {}
            [primary, secondary] if primary.is_ipv4() != secondary.is_ipv4() => {}
            _ => return Err("--service-cluster-ip-range: expected one CIDR, or two of different IP families".into()),
        }
        Ok(Self { endpoints: endpoints.to_vec(), cluster_ips, node_ports })
    }

    /// The range of the address of the Service `kubernetes`.
    pub(crate) fn primary(&self) -> CidrRange {
        self.cluster_ips[0]
    }

    pub(crate) async fn repair(&self, repair: Repair) -> Answer {
        let made = async {
            match repair {
                Repair::ClusterIps => {
                    for (key, range) in CLUSTER_IPS.into_iter().zip(&self.cluster_ips) {
                        self.make(key, *range).await?;
                    }
                    Ok(())
                }
                Repair::NodePorts => self.make(NODE_PORTS, self.node_ports).await,
            }
        };
        let made: Result<(), AnyError> = made.await;
        made.map_or_else(|error| failed(Reason::Repair, error.to_string()), |()| Answer::Done)
    }

    /// Creates a range if it is missing. An existing range of other values is an error.
    async fn make<R>(&self, key: &str, range: R) -> Result<(), AnyError>
    where
        R: Range + Send + 'static,
        R::Value: Send,
    {
        let (store, _) = Store::open(Arc::new(self.connect().await?), key, range, CONFIG, TIMEOUT);
        if store.create().await.map_err(|error| format!("{key}: {error}"))? {
            info!(key, %range, "made a range");
        }
        Ok(())
    }

    /// Connects to the first endpoint that answers.
    async fn connect(&self) -> Result<Etcd, AnyError> {
        let mut failure = None;
        for endpoint in &self.endpoints {
            match Etcd::connect(endpoint).await {
                Ok(etcd) => return Ok(etcd),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or_else(|| "there is no endpoint".into(), Into::into))
    }
}
