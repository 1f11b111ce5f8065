//! The plans as one function from a question to its answer, both with a JSON form: for a shell in another language that
//! has its own order of requests and wants each decision alone. The [controller](crate::controller) decides by the same
//! functions.

use std::time::Duration;

use k8s_openapi::api::core::v1::{EndpointPort, Endpoints, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::{Deserialize, Serialize};

use crate::config::{
    ConfigError, Periods, check_mode, check_namespaces, check_period, check_whole_seconds, lease_directory, own_address,
};
use crate::leases::{Fault, StoredLease, Survey, key, survey};
use crate::modes::{Mode, Refusal, Stage};
use crate::namespaces::SYSTEM;
use crate::object::Change;
use crate::reconcile::{Changes, Situation};
use crate::request::Request;
use crate::rounds::{Next, OwnLease};
use crate::{namespaces, reconcile, service, slice};

/// What is to be decided. In JSON: an object with one field, named after the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// Which namespaces are to be created?
    Namespaces(NamespacesQuestion),
    /// What is to be done about the Service `kubernetes`?
    Service(Box<ServiceQuestion>),
    /// The own lease was read: what is to be done about it?
    Lease(LeaseQuestion),
    /// What is to be done about the Endpoints and the EndpointSlice of the Service `kubernetes`?
    Endpoints(Box<EndpointsQuestion>),
    /// The Endpoints stand there: what is to be done about the EndpointSlice, so that it says what they say?
    Slice(Box<SliceQuestion>),
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
}

/// Which namespaces are to be created?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesQuestion {
    /// The names of those that exist; others than those wanted do not matter.
    pub existing: Vec<String>,
    /// The names of those that are to exist; by default those that every cluster has.
    #[serde(default = "system_namespaces")]
    pub wanted: Vec<String>,
}

fn system_namespaces() -> Vec<String> {
    SYSTEM.map(String::from).into()
}

/// What has to be created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespacesAnswer {
    /// The namespaces, in the order in which they are wanted. "Already exists" counts as success, and a failure with one
    /// must not keep the others from being created.
    pub create: Vec<Namespace>,
}

/// What is to be done about the Service `kubernetes`?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceQuestion {
    /// The Service as it was read; none if it does not exist.
    #[serde(default)]
    pub existing: Option<Service>,
    /// What it should be.
    pub wanted: service::Wanted,
    /// Whether ports and type of one that exists are reset.
    #[serde(default)]
    pub reconcile: bool,
}

/// The own lease was read: what is to be done about it?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseQuestion {
    /// This server's address.
    pub advertise_address: String,
    /// What the server is about to do.
    pub stage: Stage,
    /// Before which keys of etcd the cluster's begin.
    #[serde(default = "etcd_prefix")]
    pub etcd_prefix: String,
    /// For how long the lease is to hold; counted in whole seconds.
    #[serde(rename = "leaseTtlMs", with = "crate::millis", default = "lease_ttl")]
    pub lease_ttl: Duration,
    /// The generation of the last put of this server that took place or may have; 0 if there was none.
    #[serde(default)]
    pub generation: i64,
    /// The key as it was read; none if it is not there.
    #[serde(default)]
    pub read: Option<StoredLease>,
}

fn etcd_prefix() -> String {
    "/registry".into()
}

fn lease_ttl() -> Duration {
    Periods::default().lease_ttl
}

/// What has to be done about the own lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseAnswer {
    /// What is to be written, if anything: [`Request::PutLease`] or [`Request::DeleteLease`]. A conflict means that the
    /// key has to be read again.
    pub request: Option<Request>,
    /// Whether the plan of the endpoints follows, when the request is done. If not, and there is no request either: at
    /// the start nothing was left behind, at a stop lease and address are another server's.
    pub endpoints: bool,
    /// The generation for the next question, unless the put has met a conflict.
    pub generation: i64,
    /// What is wrong with the lease as it was read.
    pub fault: Option<Fault>,
}

/// What is to be done about the Endpoints and the EndpointSlice of the Service `kubernetes`?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointsQuestion {
    /// The Service's name, which both objects have.
    #[serde(default = "crate::object::name")]
    pub name: String,
    /// This server's address.
    pub advertise_address: String,
    /// How the endpoints are kept.
    pub mode: Mode,
    /// What the server is about to do.
    pub stage: Stage,
    /// All ports that its endpoint has.
    pub ports: Vec<EndpointPort>,
    /// Whether other ports are reset while it runs.
    #[serde(default)]
    pub reconcile: bool,
    /// Before which keys of etcd the cluster's begin.
    #[serde(default = "etcd_prefix")]
    pub etcd_prefix: String,
    /// All keys below `masterleases/`, in mode lease and in no other. They are listed after both objects were read, or
    /// else a server that lives could be taken away.
    #[serde(default)]
    pub leases: Option<Vec<StoredLease>>,
    /// The Endpoints as they were read; none if they do not exist.
    #[serde(default)]
    pub endpoints: Option<Endpoints>,
    /// The slice as it was read; none if it does not exist.
    #[serde(default)]
    pub slice: Option<EndpointSlice>,
}

/// The Endpoints stand there: what is to be done about the EndpointSlice?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SliceQuestion {
    /// The Endpoints as they are; the slice gets their name and namespace.
    pub endpoints: Endpoints,
    /// The slice as it was read, before the Endpoints were; none if it does not exist.
    #[serde(default)]
    pub slice: Option<EndpointSlice>,
}

/// What has to be done about both objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointsAnswer {
    /// Comes first.
    pub endpoints: Change<Endpoints>,
    /// Comes second, when the Endpoints are written.
    pub slice: Change<EndpointSlice>,
    /// Why both are left, though they do not look right.
    pub refused: Option<Refusal>,
    /// What the leases tell; empty but in mode lease.
    pub survey: Survey,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It holds a setting that no configuration can have.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The Service's port is 0.
    #[error("port must not be 0")]
    Port,
    /// No leases in mode lease. To have listed none is something else.
    #[error("leases: mode lease needs all leases")]
    LeasesMissing,
    /// Leases in another mode.
    #[error("leases: only mode lease has them")]
    LeasesUnneeded,
    /// What was read is another server's lease.
    #[error("read: the key is {found:?}, and not that of the own lease, {own:?}")]
    OtherLease {
        /// The key that was read.
        found: String,
        /// The key of the own lease.
        own: String,
    },
}

/// Decides.
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
        Next::Delete { mod_revision } => (Some(Request::DeleteLease { key, mod_revision }), true),
        Next::Endpoints => (None, true),
        Next::Nothing | Next::LeftToOther => (None, false),
    };
    Ok(LeaseAnswer { request, endpoints, generation, fault })
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
    let changes = reconcile::plan(&Situation {
        name: &question.name,
        mode: question.mode,
        stage: question.stage,
        own: &own,
        ports: &question.ports,
        reconcile_ports: question.reconcile,
        survey: &survey,
        endpoints: question.endpoints.as_ref(),
        slice: question.slice.as_ref(),
    });
    Ok(match changes {
        Ok(Changes { endpoints, slice }) => EndpointsAnswer { endpoints, slice, refused: None, survey },
        Err(refusal) => {
            EndpointsAnswer { endpoints: Change::Leave, slice: Change::Leave, refused: Some(refusal), survey }
        }
    })
}
