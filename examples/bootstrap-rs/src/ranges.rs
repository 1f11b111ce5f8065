//! What the order to repair means here: the ranges that a cluster lacks at its first start are made, as an API server
//! allocates nothing before.
//!
//! Nothing is repaired in ranges that are there. A pass that does so lists Services after it has read the range, tells
//! leaks from what is being allocated, and reports Events: that is the Go package `repair`, and would be more than all
//! of this example. A control plane that has one calls it in the place of [`Ranges::repair`].

use std::time::Duration;

use etcd_rs::etcd::EtcdKey;
use etcd_rs::store::Store;
use rangekeeper::commit::Config;
use rangekeeper::{CidrRange, PortRange, Range, Strategy};
use rangekeeper_bootstrap::request::{Answer, Reason, Repair};
use tracing::info;

use crate::AnyError;
use crate::shell::failed;

/// Where the ranges of ClusterIPs are, the primary one first. Since 1.33 an API server keeps a ClusterIP as an object
/// of its own by default, and does not look at these.
const CLUSTER_IPS: [&str; 2] = ["/registry/ranges/serviceips", "/registry/ranges/secondaryserviceips"];
const NODE_PORTS: &str = "/registry/ranges/servicenodeports";

/// As kube-apiserver does, though nothing is allocated here.
const CONFIG: Config = Config { strategy: Strategy::DynamicBandFirst, grace: Duration::from_secs(6 * 60) };
/// By when a range is made. The first repairs have a minute in all.
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

    /// The range that the Service `kubernetes` has its address of.
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

    /// Makes a range if it is missing. One that is there for other values is an error.
    async fn make<R>(&self, key: &str, range: R) -> Result<(), AnyError>
    where
        R: Range + Send + 'static,
        R::Value: Send,
    {
        let (store, _) = Store::open(self.connect(key).await?, range, CONFIG, TIMEOUT);
        if store.create().await.map_err(|error| format!("{key}: {error}"))? {
            info!(key, %range, "made a range");
        }
        Ok(())
    }

    /// By the first endpoint that answers.
    async fn connect(&self, key: &str) -> Result<EtcdKey, AnyError> {
        let mut failure = None;
        for endpoint in &self.endpoints {
            match EtcdKey::connect(endpoint, key).await {
                Ok(key) => return Ok(key),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or_else(|| "there is no endpoint".into(), Into::into))
    }
}
