//! Rounds: work as a sequence of requests. A round begins with a request and continues with each answer until it ends.
//!
//! Each write checks the read before it: objects by their resourceVersion, leases by their revision. After a conflict
//! the round reads again. It reads objects before leases, so that it knows the lease of each server whose address it
//! finds.

mod endpoints;
mod kubernetes;
mod namespaces;
mod own_lease;
mod write;

use crate::config::Settings;
use crate::leases::Fault;
use crate::reconcile::Found;
use crate::request::{Answer, Failure, Reason, Request};

pub(crate) use endpoints::EndpointsRound;
pub(crate) use kubernetes::KubernetesRound;
pub(crate) use namespaces::NamespacesRound;
pub(crate) use own_lease::{Next, OwnLease};

/// How often a round tries before it gives up because of conflicts.
const TRIES: u32 = 5;

/// What comes next in a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Progress {
    /// Perform this request and answer it.
    Send(Request),
    /// The round is over.
    Finished(Result<(), Failure>),
}

impl Progress {
    fn failed(reason: Reason, message: impl Into<String>) -> Self {
        Self::Finished(Err(Failure::new(reason, message)))
    }

    /// Ends with the failure in the answer, or with one that says that the answer does not fit the request.
    fn unexpected(answer: Answer, request: &str) -> Self {
        Self::Finished(Err(unexpected(answer, request)))
    }
}

/// The state that rounds share.
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) own: &'a mut OwnLease,
    /// How many turns in a row have found the Service missing and its address taken.
    pub(crate) address_taken: &'a mut u32,
    /// The faults that the round has found in leases.
    pub(crate) faults: &'a mut Vec<Fault>,
    /// What the turn of a running server has found in leases and endpoints.
    pub(crate) found: &'a mut Option<Found>,
}

/// The round of a piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Round {
    Namespaces(NamespacesRound),
    Kubernetes(Box<KubernetesRound>),
    Endpoints(Box<EndpointsRound>),
    /// One request, whose answer is the outcome.
    Single,
}

impl Round {
    pub(crate) fn answered(&mut self, context: &mut Context<'_>, answer: Answer) -> Progress {
        match self {
            Self::Namespaces(round) => round.answered(answer),
            Self::Kubernetes(round) => round.answered(context, answer),
            Self::Endpoints(round) => round.answered(context, answer),
            Self::Single if answer == Answer::Done => Progress::Finished(Ok(())),
            Self::Single => Progress::unexpected(answer, "a check or a pass"),
        }
    }
}

fn unexpected(answer: Answer, request: &str) -> Failure {
    match answer {
        Answer::Failed(failure) => failure,
        answer => {
            let name = match answer {
                Answer::Done => "done",
                Answer::Skipped => "skipped",
                Answer::Object(_) => "an object of another kind",
                Answer::NotFound => "not found",
                Answer::AlreadyExists => "already exists",
                Answer::Conflict => "conflict",
                Answer::Leases(_) => "leases",
                Answer::Written { .. } => "written",
                Answer::Failed(_) => "failed",
            };
            Failure::new(Reason::BadAnswer, format!("unexpected answer to {request}: {name}"))
        }
    }
}
