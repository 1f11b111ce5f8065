//! The round of the Service `kubernetes` and, after it, its endpoints.

use k8s_openapi::api::core::v1::Service;

use super::write::{Write, Written};
use super::{Context, EndpointsRound, Progress, TRIES, unexpected};
use crate::config::Placement;
use crate::modes::Stage;
use crate::object::{Kind, Object, ObjectKey};
use crate::request::{Answer, Failure, Reason, Request};
use crate::service;

/// Creates or resets the Service, then continues with the endpoints even after a failure, which must not make the own lease
/// expire.
#[derive(Clone, Debug)]
pub(crate) struct KubernetesRound {
    state: State,
    tries: u32,
    failure: Option<Failure>,
}

#[derive(Clone, Debug)]
enum State {
    ReadService,
    WriteService(Write),
    Endpoints(Box<EndpointsRound>),
}

impl KubernetesRound {
    pub(crate) fn begin(context: &Context<'_>) -> (Self, Progress) {
        let round = Self { state: State::ReadService, tries: 0, failure: None };
        let progress = round.read(context);
        (round, progress)
    }

    fn read(&self, context: &Context<'_>) -> Progress {
        // In a process beside the server, this read also notices the death of the server.
        let fresh = self.tries > 0 || context.settings.placement == Placement::Beside;
        Progress::Send(Request::Get { object: ObjectKey::kubernetes(Kind::Service), fresh })
    }

    pub(crate) fn answered(&mut self, context: &mut Context<'_>, answer: Answer) -> Progress {
        match (&mut self.state, answer) {
            (State::ReadService, Answer::Object(Object::Service(service))) => self.has_read(context, Some(&service)),
            (State::ReadService, Answer::NotFound) => self.has_read(context, None),
            (State::ReadService, answer) => self.service_failed(context, unexpected(answer, "read of the Service")),
            (State::WriteService(write), answer) => match write.answered(answer) {
                Written::Send(request) => Progress::Send(request),
                Written::Done => self.endpoints(context),
                Written::Failed(failure) => self.service_failed(context, failure),
                Written::OutOfDate => {
                    self.tries += 1;
                    if self.tries == TRIES {
                        let message = format!("the Service: {TRIES} writes met a conflict");
                        return self.service_failed(context, Failure::new(Reason::Conflicts, message));
                    }
                    self.state = State::ReadService;
                    self.read(context)
                }
            },
            (State::Endpoints(round), answer) => {
                let progress = round.answered(context, answer);
                self.with_failure(progress)
            }
        }
    }

    fn has_read(&mut self, context: &mut Context<'_>, existing: Option<&Service>) -> Progress {
        let settings = context.settings;
        let change = service::plan(existing, &settings.service, settings.reconcile);
        match Write::begin(change, existing.map(|service| &service.metadata)) {
            Some((write, request)) => {
                self.state = State::WriteService(write);
                Progress::Send(request)
            }
            None => self.endpoints(context),
        }
    }

    fn service_failed(&mut self, context: &mut Context<'_>, failure: Failure) -> Progress {
        if failure.reason == Reason::Unanswered && context.settings.placement == Placement::Beside {
            // A process beside the server must not refresh the lease of a server that does not answer.
            return Progress::Finished(Err(failure));
        }
        self.failure = Some(failure);
        self.endpoints(context)
    }

    fn endpoints(&mut self, context: &mut Context<'_>) -> Progress {
        let (round, progress) = EndpointsRound::begin(Stage::Run, context);
        self.state = State::Endpoints(Box::new(round));
        self.with_failure(progress)
    }

    fn with_failure(&mut self, progress: Progress) -> Progress {
        match (progress, self.failure.take()) {
            (Progress::Finished(_), Some(failure)) => Progress::Finished(Err(failure)),
            (progress, failure) => {
                self.failure = failure;
                progress
            }
        }
    }
}
