//! All plans as one function from a question to its answer, both with a JSON form: for callers in other languages that
//! order their requests themselves. The [controller](crate::controller) decides by the same functions.
//!
//! ```
//! use rangekeeper_bootstrap::plan::{Answer, Question, plan};
//!
//! let question: Question = serde_json::from_str(r#"{"namespaces": {"existing": ["default", "kube-public"]}}"#)?;
//! let answer = serde_json::to_string(&plan(&question)?)?;
//! assert!(answer.starts_with(r#"{"namespaces":{"create":[{"#) && answer.contains("kube-system"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::audit::{Observed, Verdict, judge};
use crate::config::{
    ConfigError, Periods, check_mode, check_namespaces, check_period, check_whole_seconds, etcd_prefix,
    lease_directory, own_address,
};
use crate::leases::{Fault, StoredLease, Survey, key, survey};
use crate::modes::{Mode, Refusal, Stage};
use crate::namespaces::SYSTEM;
use crate::object::Change;
use crate::reconcile::{Changes, Found, Situation};
use crate::request::Request;
use crate::rounds::{Next, OwnLease};
use crate::{namespaces, reconcile, service, slice};

/// A question. Its JSON is an object with one field, named after the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// Which namespaces to create?
    Namespaces(NamespacesQuestion),
    /// How to change the Service `kubernetes`?
    Service(Box<ServiceQuestion>),
    /// How to write the server's own lease, which was just read?
    Lease(LeaseQuestion),
    /// How to change the Endpoints and the EndpointSlice of the Service `kubernetes`?
    Endpoints(Box<EndpointsQuestion>),
    /// How to change the EndpointSlice so that it matches the Endpoints?
    Slice(Box<SliceQuestion>),
    /// What is wrong with all of these objects, and what repairs it?
    Audit(Box<Observed>),
}

/// The answer, under the name of the question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// See [`NamespacesAnswer`].
    Namespaces(NamespacesAnswer),
    /// The Service is never replaced.
    Service(Box<Change<Service>>),
    /// See [`LeaseAnswer`].
    Lease(LeaseAnswer),
    /// See [`EndpointsAnswer`].
    Endpoints(Box<EndpointsAnswer>),
    /// See [`slice::plan`].
    Slice(Box<Change<EndpointSlice>>),
    /// See [`audit::judge`](crate::audit::judge).
    Audit(Box<Verdict>),
}

/// Which namespaces to create?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesQuestion {
    /// The names of existing namespaces. Those that are not wanted do not matter.
    pub existing: Vec<String>,
    /// The names of the wanted namespaces; by default those of every cluster.
    #[serde(default = "system_namespaces")]
    pub wanted: Vec<String>,
}

fn system_namespaces() -> Vec<String> {
    SYSTEM.map(String::from).into()
}

/// The namespaces to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesAnswer {
    /// The namespaces, in the order of the question. "Already exists" is a success, and after a failure with one the
    /// caller must still create the others.
    pub create: Vec<Namespace>,
}

/// How to change the Service `kubernetes`?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceQuestion {
    /// The Service as it was read; none if it does not exist.
    #[serde(default)]
    pub existing: Option<Service>,
    /// The desired Service.
    pub wanted: service::Wanted,
    /// Whether the ports and the type of an existing Service are reset.
    #[serde(default)]
    pub reconcile: bool,
}

/// How to write the server's own lease, which was just read?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseQuestion {
    /// This server's address.
    pub advertise_address: String,
    /// The stage of the server's life.
    pub stage: Stage,
    /// The prefix of the cluster's keys in etcd.
    #[serde(default = "etcd_prefix")]
    pub etcd_prefix: String,
    /// The time to live of the lease: whole seconds.
    #[serde(rename = "leaseTtlMs", with = "crate::millis", default = "lease_ttl")]
    pub lease_ttl: Duration,
    /// The generation of this server's last put that took effect or may have; 0 if there was none.
    #[serde(default)]
    pub generation: i64,
    /// The key as it was read; none if it does not exist.
    #[serde(default)]
    pub read: Option<StoredLease>,
}

fn lease_ttl() -> Duration {
    Periods::default().lease_ttl
}

/// The write of the server's own lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseAnswer {
    /// The write, if one is needed: [`Request::PutLease`] or [`Request::DeleteLease`]. After a conflict the key has to
    /// be read again.
    pub request: Option<Request>,
    /// Whether the plan of the endpoints follows, once the request is done. Without that and without a request, there
    /// was nothing to remove at the start, or lease and address are another server's at the stop.
    pub endpoints: bool,
    /// The generation for the next question, unless the put met a conflict.
    pub generation: i64,
    /// The fault of the lease as it was read.
    pub fault: Option<Fault>,
}

/// How to change the Endpoints and the EndpointSlice of the Service `kubernetes`?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointsQuestion {
    /// The name of the Service and of both objects.
    #[serde(default = "crate::object::name")]
    pub name: String,
    /// This server's address.
    pub advertise_address: String,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// The stage of the server's life.
    pub stage: Stage,
    /// All ports of the server's endpoint.
    pub ports: Vec<EndpointPort>,
    /// Whether other ports are reset while the server runs.
    #[serde(default)]
    pub reconcile: bool,
    /// The prefix of the cluster's keys in etcd.
    #[serde(default = "etcd_prefix")]
    pub etcd_prefix: String,
    /// All keys below `masterleases/`, in mode lease and in no other. They must be listed after both objects were read,
    /// or the endpoint of a live server could be removed.
    #[serde(default)]
    pub leases: Option<Vec<StoredLease>>,
    /// The Endpoints as they were read; none if they do not exist.
    #[serde(default)]
    pub endpoints: Option<Endpoints>,
    /// The slice as it was read; none if it does not exist.
    #[serde(default)]
    pub slice: Option<EndpointSlice>,
}

/// How to change the EndpointSlice so that it matches the Endpoints?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SliceQuestion {
    /// The Endpoints, whose name and namespace the slice gets.
    pub endpoints: Endpoints,
    /// The slice, read before the Endpoints; none if it does not exist.
    #[serde(default)]
    pub slice: Option<EndpointSlice>,
}

/// The changes of both objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointsAnswer {
    /// The first change.
    pub endpoints: Change<Endpoints>,
    /// The second change, after the Endpoints were written.
    pub slice: Change<EndpointSlice>,
    /// Why both are left as they are, though they look wrong.
    pub refused: Option<Refusal>,
    /// The addresses in the leases; empty in other modes than lease.
    pub survey: Survey,
    /// How many addresses there are.
    pub found: Found,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A setting that no configuration can have.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The Service's port is 0.
    #[error("port must not be 0")]
    Port,
    /// The leases are missing in mode lease, which is not the same as an empty list.
    #[error("leases: mode lease needs the list of all leases")]
    LeasesMissing,
    /// Leases in another mode.
    #[error("leases: only mode lease takes them")]
    LeasesUnneeded,
    /// The lease that was read is another server's.
    #[error("read: the key is {found:?}, but this server's lease is {own:?}")]
    OtherLease {
        /// The key that was read.
        found: String,
        /// The key of this server's lease.
        own: String,
    },
}

/// Answers a question.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(question: &Question) -> Result<Answer, PlanError> {
    match question {
        Question::Namespaces(question) => plan_namespaces(question).map(Answer::Namespaces),
        Question::Service(question) => plan_service(question).map(Box::new).map(Answer::Service),
        Question::Lease(question) => plan_lease(question).map(Answer::Lease),
        Question::Endpoints(question) => plan_endpoints(question).map(Box::new).map(Answer::Endpoints),
        Question::Slice(question) => {
            let SliceQuestion { endpoints, slice } = &**question;
            Ok(Answer::Slice(Box::new(slice::plan(endpoints, slice.as_ref()))))
        }
        Question::Audit(observed) => plan_audit(observed).map(Box::new).map(Answer::Audit),
    }
}

fn plan_namespaces(question: &NamespacesQuestion) -> Result<NamespacesAnswer, PlanError> {
    check_namespaces("wanted", &question.wanted)?;
    Ok(NamespacesAnswer { create: namespaces::plan(&question.existing, &question.wanted) })
}

fn plan_service(question: &ServiceQuestion) -> Result<Change<Service>, PlanError> {
    let ServiceQuestion { existing, wanted, reconcile } = question;
    if wanted.secure_port == 0 {
        return Err(ConfigError::SecurePort.into());
    }
    if wanted.port == 0 {
        return Err(PlanError::Port);
    }
    Ok(service::plan(existing.as_ref(), wanted, *reconcile))
}

fn plan_lease(question: &LeaseQuestion) -> Result<LeaseAnswer, PlanError> {
    let own = own_address(&question.advertise_address)?;
    check_period("leaseTtlMs", question.lease_ttl, 1000)?;
    check_whole_seconds("leaseTtlMs", question.lease_ttl)?;
    let key = key(&lease_directory(&question.etcd_prefix), &own);
    let read = question.read.as_ref();
    if let Some(read) = read.filter(|read| read.key != key) {
        return Err(PlanError::OtherLease { found: read.key.clone(), own: key });
    }
    let periods = Periods { lease_ttl: question.lease_ttl, ..Periods::default() };
    let (next, fault) = OwnLease::of_generation(question.generation).next(question.stage, &own, read, &periods);
    let generation = match &next {
        Next::Put(refresh) => refresh.generation,
        _ => question.generation,
    };
    let (request, endpoints) = match next {
        Next::Put(refresh) => (Some(refresh.request(key, question.lease_ttl)), true),
        Next::Delete { mod_revision, lease_id } => (Some(Request::DeleteLease { key, mod_revision, lease_id }), true),
        Next::Endpoints => (None, true),
        Next::Nothing | Next::LeftToOther => (None, false),
    };
    Ok(LeaseAnswer { request, endpoints, generation, fault })
}

fn plan_audit(observed: &Observed) -> Result<Verdict, PlanError> {
    check_period("leaseTtlMs", observed.lease_ttl, 1000)?;
    check_whole_seconds("leaseTtlMs", observed.lease_ttl)?;
    Ok(judge(observed))
}

fn plan_endpoints(question: &EndpointsQuestion) -> Result<EndpointsAnswer, PlanError> {
    let own = own_address(&question.advertise_address)?;
    check_mode(question.mode)?;
    let survey = match (&question.leases, question.mode == Mode::Lease) {
        (Some(leases), true) => survey(&lease_directory(&question.etcd_prefix), leases),
        (None, false) => Survey::default(),
        (None, true) => return Err(PlanError::LeasesMissing),
        (Some(_), false) => return Err(PlanError::LeasesUnneeded),
    };
    let situation = Situation {
        name: &question.name,
        mode: question.mode,
        stage: question.stage,
        own: &own,
        ports: &question.ports,
        reconcile_ports: question.reconcile,
        survey: &survey,
        endpoints: question.endpoints.as_ref(),
        slice: question.slice.as_ref(),
    };
    let planned = reconcile::plan(&situation);
    let found = situation.found(&planned);
    Ok(match planned {
        Ok(Changes { endpoints, slice }) => EndpointsAnswer { endpoints, slice, refused: None, survey, found },
        Err(refusal) => {
            EndpointsAnswer { endpoints: Change::Leave, slice: Change::Leave, refused: Some(refusal), survey, found }
        }
    })
}
