//! The round of the endpoints, in all modes and stages.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::own_lease::{Next, Refresh};
use super::write::{Write, Written};
use super::{Context, Progress, TRIES};
use crate::config::Placement;
use crate::leases::{StoredLease, Survey, key, survey};
use crate::modes::{Mode, Refusal, Stage};
use crate::object::{Change, Kind, NAME, Object, ObjectKey};
use crate::reconcile::{Changes, Situation, plan};
use crate::request::{Answer, Failure, Reason, Request};

/// Refreshes or removes the own lease, then changes Endpoints and EndpointSlice as the mode demands.
#[derive(Clone, Debug)]
pub(crate) struct EndpointsRound {
    stage: Stage,
    state: State,
    endpoints: Option<Endpoints>,
    slice: Option<EndpointSlice>,
    /// A process beside the server has caches that the server's feed. Those are wrong for good once the store was
    /// restored under it, so nothing is read from them.
    is_beside: bool,
    /// Both objects and the leases are read for a write, from the API server and not from a cache.
    is_fresh: bool,
    /// How often a conflict has led to another read.
    tries: u32,
    /// The own lease was missing after it was written, and has been written again.
    refreshed_again: bool,
    /// The own lease was not written, since this is a dry run.
    is_dry: bool,
}

#[derive(Clone, Debug)]
enum State {
    ReadOwn,
    PutOwn(Refresh),
    DeleteOwn,
    ReadEndpoints,
    ReadSlice,
    List,
    /// With the change of the slice that follows.
    WriteEndpoints(Box<Write>, Box<Change<EndpointSlice>>),
    WriteSlice(Box<Write>),
    Finished,
}

impl EndpointsRound {
    pub(crate) fn begin(stage: Stage, context: &mut Context<'_>) -> (Self, Progress) {
        let mut round = Self {
            stage,
            state: State::Finished,
            endpoints: None,
            slice: None,
            is_beside: context.settings.placement == Placement::Beside,
            is_fresh: stage != Stage::Run,
            tries: 0,
            refreshed_again: false,
            is_dry: false,
        };
        let progress = match context.settings.mode {
            Mode::None => Progress::Finished(Ok(())),
            Mode::MasterCount(_) => round.read_slice(),
            Mode::Lease => match context.own.refresh(&context.settings.own) {
                Some(refresh) if stage == Stage::Run => round.put_own(context, refresh),
                _ => round.read_own(context),
            },
        };
        (round, progress)
    }

    pub(crate) fn answered(&mut self, context: &mut Context<'_>, answer: Answer) -> Progress {
        match (std::mem::replace(&mut self.state, State::Finished), answer) {
            (State::ReadOwn, Answer::Leases(leases)) => self.has_read_own(context, leases.first()),
            (State::PutOwn(refresh), Answer::Written { mod_revision }) => {
                context.own.written(refresh, mod_revision);
                self.read_slice()
            }
            (State::PutOwn(_) | State::DeleteOwn, Answer::Skipped) => {
                self.is_dry = true;
                self.read_slice()
            }
            (State::PutOwn(_) | State::DeleteOwn, Answer::Conflict) => {
                context.own.out_of_date();
                if self.may_try() { self.read_own(context) } else { conflicts("the server's lease") }
            }
            (State::PutOwn(refresh), answer) => {
                context.own.unknown(refresh);
                Progress::unexpected(answer, "put of the server's lease")
            }
            (State::DeleteOwn, Answer::Done) => {
                context.own.deleted();
                self.read_slice()
            }
            (State::ReadSlice, Answer::Object(Object::EndpointSlice(slice))) => {
                self.slice = Some(*slice);
                self.read_endpoints()
            }
            (State::ReadSlice, Answer::NotFound) => {
                self.slice = None;
                self.read_endpoints()
            }
            (State::ReadEndpoints, Answer::Object(Object::Endpoints(endpoints))) => {
                self.endpoints = Some(*endpoints);
                self.list(context)
            }
            (State::ReadEndpoints, Answer::NotFound) => {
                self.endpoints = None;
                self.list(context)
            }
            (State::List, Answer::Leases(leases)) => self.has_listed(context, &leases),
            (State::WriteEndpoints(mut write, slice), answer) => match write.answered(answer) {
                Written::Send(request) => {
                    self.state = State::WriteEndpoints(write, slice);
                    Progress::Send(request)
                }
                Written::Done => self.write_slice(*slice),
                written => self.not_written(written, "the Endpoints"),
            },
            (State::WriteSlice(mut write), answer) => match write.answered(answer) {
                Written::Send(request) => {
                    self.state = State::WriteSlice(write);
                    Progress::Send(request)
                }
                Written::Done => Progress::Finished(Ok(())),
                written => self.not_written(written, "the EndpointSlice"),
            },
            (_, answer) => Progress::unexpected(answer, "a request about the endpoints"),
        }
    }

    fn may_try(&mut self) -> bool {
        self.tries += 1;
        self.tries < TRIES
    }

    fn not_written(&mut self, written: Written, what: &str) -> Progress {
        match written {
            Written::Failed(failure) => Progress::Finished(Err(failure)),
            _ if self.may_try() => self.read_again(),
            _ => conflicts(what),
        }
    }

    fn read_own(&mut self, context: &Context<'_>) -> Progress {
        self.state = State::ReadOwn;
        Progress::Send(Request::GetLease { key: own_key(context) })
    }

    fn has_read_own(&mut self, context: &mut Context<'_>, read: Option<&StoredLease>) -> Progress {
        let settings = context.settings;
        let (next, fault) = context.own.next(self.stage, &settings.own, read, &settings.periods);
        context.faults.extend(fault);
        match next {
            Next::Put(refresh) => self.put_own(context, refresh),
            Next::Delete { mod_revision, lease_id } => {
                self.state = State::DeleteOwn;
                Progress::Send(Request::DeleteLease { key: own_key(context), mod_revision, lease_id })
            }
            Next::Endpoints => self.read_slice(),
            Next::Nothing => Progress::Finished(Ok(())),
            Next::LeftToOther => {
                Progress::failed(Reason::LeaseShared, "another server has written this server's lease; not removing it")
            }
        }
    }

    fn put_own(&mut self, context: &Context<'_>, refresh: Refresh) -> Progress {
        let request = refresh.request(own_key(context), context.settings.periods.lease_ttl);
        self.state = State::PutOwn(refresh);
        Progress::Send(request)
    }

    /// Reads the slice before the Endpoints. If both change in between, the slice's resourceVersion changes and our
    /// write conflicts.
    fn read_slice(&mut self) -> Progress {
        self.state = State::ReadSlice;
        self.get(Kind::EndpointSlice)
    }

    fn read_endpoints(&mut self) -> Progress {
        self.state = State::ReadEndpoints;
        self.get(Kind::Endpoints)
    }

    fn read_again(&mut self) -> Progress {
        self.is_fresh = true;
        self.read_slice()
    }

    fn get(&self, kind: Kind) -> Progress {
        Progress::Send(Request::Get { object: ObjectKey::kubernetes(kind), fresh: self.is_fresh || self.is_beside })
    }

    fn list(&mut self, context: &mut Context<'_>) -> Progress {
        if context.settings.mode != Mode::Lease {
            return self.write(context, &Survey::default());
        }
        self.state = State::List;
        Progress::Send(Request::ListLeases { prefix: context.settings.lease_directory.clone() })
    }

    fn has_listed(&mut self, context: &mut Context<'_>, leases: &[StoredLease]) -> Progress {
        let mut survey = survey(&context.settings.lease_directory, leases);
        context.faults.extend(survey.faults.iter().cloned());
        if self.is_dry && !survey.live.contains(&context.settings.own) {
            survey.live.push(context.settings.own.clone());
        }
        self.write(context, &survey)
    }

    fn write(&mut self, context: &mut Context<'_>, survey: &Survey) -> Progress {
        let settings = context.settings;
        let situation = Situation {
            name: NAME,
            mode: settings.mode,
            stage: self.stage,
            own: &settings.own,
            ports: &settings.endpoint_ports,
            reconcile_ports: settings.reconcile,
            survey,
            endpoints: self.endpoints.as_ref(),
            slice: self.slice.as_ref(),
        };
        let planned = plan(&situation);
        if self.stage == Stage::Run {
            *context.found = Some(situation.found(&planned));
        }
        let Changes { endpoints, slice } = match planned {
            Ok(changes) => changes,
            // The only server restarts: its address stays until it is ready.
            Err(Refusal::OnlyOwnAddress) => return Progress::Finished(Ok(())),
            // The lease expired while an answer was late, or was deleted. Others may have removed this server already.
            Err(refusal @ (Refusal::OwnLeaseMissing | Refusal::NoLeases)) => {
                context.own.out_of_date();
                if self.refreshed_again {
                    return Progress::failed(Reason::LeaseLost, refusal.to_string());
                }
                self.refreshed_again = true;
                return self.read_own(context);
            }
        };
        if !self.is_fresh && !matches!((&endpoints, &slice), (Change::Leave, Change::Leave)) {
            // The two caches can be of different age. And servers that find etcd again at one time put their leases
            // one after the other.
            return self.read_again();
        }
        let metadata = self.endpoints.as_ref().map(|endpoints| &endpoints.metadata);
        match Write::begin(endpoints, metadata) {
            Some((write, request)) => {
                self.state = State::WriteEndpoints(Box::new(write), Box::new(slice));
                Progress::Send(request)
            }
            None => self.write_slice(slice),
        }
    }

    fn write_slice(&mut self, change: Change<EndpointSlice>) -> Progress {
        match Write::begin(change, self.slice.as_ref().map(|slice| &slice.metadata)) {
            Some((write, request)) => {
                self.state = State::WriteSlice(Box::new(write));
                Progress::Send(request)
            }
            None => Progress::Finished(Ok(())),
        }
    }
}

fn own_key(context: &Context<'_>) -> String {
    key(&context.settings.lease_directory, &context.settings.own)
}

fn conflicts(what: &str) -> Progress {
    Progress::Finished(Err(Failure::new(Reason::Conflicts, format!("{what}: {TRIES} writes met a conflict"))))
}
