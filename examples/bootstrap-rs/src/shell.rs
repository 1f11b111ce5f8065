//! The loop around the controller.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rangekeeper_bootstrap::controller::{Controller, Order};
use rangekeeper_bootstrap::lifecycle::Phase;
use rangekeeper_bootstrap::request::{Answer, Failure, Reason, Request};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::leases::Leases;
use crate::ranges::Ranges;
use crate::report;

/// The clients that perform orders.
pub(crate) struct Shell {
    pub(crate) cluster: Cluster,
    pub(crate) leases: Leases,
    pub(crate) ranges: Ranges,
}

/// Runs until `stop` is ready, then makes an orderly stop. Returns false if a fatal failure ended it.
pub(crate) async fn run(mut controller: Controller, shell: Arc<Shell>, stop: impl Future<Output = ()>) -> bool {
    // The controller reads no clock; its times are durations since this moment.
    let started = Instant::now();
    let mut stop = pin!(stop);
    let mut stopping = false;
    // Orders under way; dropping the value cancels the order.
    let mut under_way = JoinSet::new();
    let mut cancel = HashMap::new();
    loop {
        let step = controller.poll(started.elapsed());
        step.reports.iter().for_each(report::log);
        for id in step.cancel {
            cancel.remove(&id);
        }
        if let Phase::Stopped { fatal, .. } = step.phase {
            return !fatal;
        }
        for order in step.send {
            let (keep, cancelled) = oneshot::channel();
            cancel.insert(order.id, keep);
            under_way.spawn(perform(Arc::clone(&shell), order, cancelled));
        }
        tokio::select! {
            // A task that panics sends no answer; the controller cancels it after its time limit.
            Some(Ok((id, answer))) = under_way.join_next() => {
                cancel.remove(&id);
                controller.answered(started.elapsed(), id, answer);
            }
            () = &mut stop, if !stopping => {
                stopping = true;
                controller.stop(started.elapsed());
            }
            () = wait(step.wait) => {}
        }
    }
}

/// Performs an order. Returns its id and its answer. `cancelled` ends when the order is cancelled.
async fn perform(shell: Arc<Shell>, order: Order, cancelled: oneshot::Receiver<()>) -> (u64, Answer) {
    let answer = tokio::select! {
        answer = shell.answer(order.request) => answer,
        _ = cancelled => failed(Reason::Unanswered, "it was given up"),
        () = sleep(order.timeout) => failed(Reason::Unanswered, format!("no answer within {:?}", order.timeout)),
    };
    (order.id, answer)
}

async fn wait(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => pending().await,
    }
}

impl Shell {
    async fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Ready { path } => self.cluster.ready(&path).await,
            Request::Repair(repair) => self.ranges.repair(repair).await,
            // There is no cache: all reads are fresh.
            Request::Get { object, fresh: _ } => self.cluster.get(&object).await,
            Request::Create(object) => self.cluster.create(&object).await,
            Request::Update(object) => self.cluster.update(&object).await,
            Request::Delete { object, uid, resource_version } => {
                self.cluster.delete(&object, uid, resource_version).await
            }
            Request::FreeServiceIp { address } => {
                failed(Reason::Refused, format!("{address} is allocated; a repair pass frees it if no Service has it"))
            }
            Request::GetLease { key } => self.leases.get(key).await,
            Request::ListLeases { prefix } => self.leases.list(prefix).await,
            Request::PutLease { key, value, ttl_seconds, mod_revision } => {
                self.leases.put(key, value, ttl_seconds, mod_revision).await
            }
            Request::DeleteLease { key, mod_revision, lease_id } => {
                self.leases.delete(key, mod_revision, lease_id).await
            }
        }
    }
}

pub(crate) fn failed(reason: Reason, message: impl Into<String>) -> Answer {
    Answer::Failed(Failure { reason, message: message.into() })
}

/// The message of an error and the messages of its causes.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |message, cause| format!("{message}: {cause}"))
}
