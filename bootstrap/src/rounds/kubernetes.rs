//! The round of the Service `kubernetes` and, after it, its endpoints.

use k8s_openapi::api::core::v1::Service;

use super::write::{Write, Written};
use super::{Context, EndpointsRound, Progress, TRIES, unexpected};
use crate::config::Placement;
use crate::modes::Stage;
use crate::object::{Kind, Object, ObjectKey};
use crate::request::{Answer, Failure, Reason, Request};
use crate::service;

/// How many turns in a row find the Service missing and its address taken before the address is freed. Another server
/// that creates the Service has allocated the address before it writes the Service, which takes a moment. Three turns
/// take three seconds.
const ADDRESS_TAKEN: u32 = 3;

/// Creates or resets the Service, then continues with the endpoints even after a failure, which must not make the own
/// lease expire. At last it frees the address of a Service that was lost, and creates that.
#[derive(Clone, Debug)]
pub(crate) struct KubernetesRound {
    state: State,
    tries: u32,
    failure: Option<Failure>,
    /// The endpoints are done, and only the Service is left.
    has_endpoints: bool,
}

#[derive(Clone, Debug)]
enum State {
    ReadService,
    WriteService(Write),
    FreeAddress,
    Endpoints(Box<EndpointsRound>),
}

impl KubernetesRound {
    pub(crate) fn begin(context: &Context<'_>) -> (Self, Progress) {
        let round = Self { state: State::ReadService, tries: 0, failure: None, has_endpoints: false };
        let progress = round.read(context);
        (round, progress)
    }

    fn read(&self, context: &Context<'_>) -> Progress {
        // In a process beside the server, this read also notices the death of the server.
        let fresh = self.tries > 0 || self.has_endpoints || context.settings.placement == Placement::Beside;
        Progress::Send(Request::Get { object: ObjectKey::kubernetes(Kind::Service), fresh })
    }

    pub(crate) fn answered(&mut self, context: &mut Context<'_>, answer: Answer) -> Progress {
        match (&mut self.state, answer) {
            (State::ReadService, Answer::Object(Object::Service(service))) => self.has_read(context, Some(&service)),
            (State::ReadService, Answer::NotFound) => self.has_read(context, None),
            (State::ReadService, answer) => self.service_failed(context, unexpected(answer, "read of the Service")),
            (State::WriteService(write), answer) => match write.answered(answer) {
                Written::Send(request) => Progress::Send(request),
                Written::Done => self.service_is_right(context),
                Written::Failed(failure) => {
                    if service::is_address_taken(&failure) {
                        *context.address_taken = context.address_taken.saturating_add(1);
                    }
                    self.service_failed(context, failure)
                }
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
            (State::Endpoints(round), answer) => match round.answered(context, answer) {
                Progress::Finished(result) => self.has_endpoints(context, result),
                progress => progress,
            },
            (State::FreeAddress, Answer::Done | Answer::Skipped) => {
                self.state = State::ReadService;
                self.read(context)
            }
            (State::FreeAddress, answer) => {
                self.service_failed(context, unexpected(answer, "the release of the Service's address"))
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
            None => self.service_is_right(context),
        }
    }

    fn service_is_right(&mut self, context: &mut Context<'_>) -> Progress {
        *context.address_taken = 0;
        self.endpoints(context)
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
        if self.has_endpoints {
            return Progress::Finished(self.failure.take().map_or(Ok(()), Err));
        }
        let (round, progress) = EndpointsRound::begin(Stage::Run, context);
        self.state = State::Endpoints(Box::new(round));
        match progress {
            Progress::Finished(result) => self.has_endpoints(context, result),
            progress => progress,
        }
    }

    fn has_endpoints(&mut self, context: &Context<'_>, result: Result<(), Failure>) -> Progress {
        self.has_endpoints = true;
        match self.failure.take() {
            Some(failure) if service::is_address_taken(&failure) && *context.address_taken >= ADDRESS_TAKEN => {
                self.failure = result.err();
                self.state = State::FreeAddress;
                Progress::Send(Request::FreeServiceIp { address: context.settings.service.cluster_ip })
            }
            failure => Progress::Finished(failure.map_or(result, Err)),
        }
    }
}
