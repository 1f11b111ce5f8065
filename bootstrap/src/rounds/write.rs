//! The requests that write one change of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::unexpected;
use crate::namespaces::namespace;
use crate::object::{Change, NAMESPACE, Object, ObjectKey};
use crate::request::{Answer, Failure, Request};

/// The write of a change under way.
#[derive(Clone, Debug)]
pub(super) struct Write {
    object: Object,
    step: Step,
    /// The namespace was missing, and a request has created it.
    has_namespace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    CreateNamespace,
    Update,
    Delete,
}

/// The next step of a write.
pub(super) enum Written {
    Send(Request),
    Done,
    /// The object has changed since it was read.
    OutOfDate,
    Failed(Failure),
}

impl Write {
    /// Begins to write a change. `read` is the metadata of the object as it was read. `None` without a change.
    pub(super) fn begin<T: Into<Object>>(change: Change<T>, read: Option<&ObjectMeta>) -> Option<(Self, Request)> {
        let (object, step) = match change {
            Change::Leave => return None,
            Change::Create(object) => (object.into(), Step::Create),
            Change::Update(object) => (object.into(), Step::Update),
            Change::Replace(object) => (object.into(), Step::Delete),
        };
        let request = match step {
            Step::Update => Request::Update(object.clone()),
            Step::Delete => Request::Delete {
                object: object.key(),
                uid: read.and_then(|read| read.uid.clone()).unwrap_or_default(),
                resource_version: read.and_then(|read| read.resource_version.clone()).unwrap_or_default(),
            },
            Step::Create | Step::CreateNamespace => Request::Create(object.clone()),
        };
        Some((Self { object, step, has_namespace: false }, request))
    }

    pub(super) fn answered(&mut self, answer: Answer) -> Written {
        match (self.step, answer) {
            (Step::Create | Step::Update, Answer::Done | Answer::Skipped) => Written::Done,
            (Step::Create, Answer::NotFound) if !self.has_namespace => {
                self.has_namespace = true;
                self.step = Step::CreateNamespace;
                Written::Send(Request::Create(namespace(NAMESPACE).into()))
            }
            (Step::CreateNamespace, Answer::Done | Answer::Skipped | Answer::AlreadyExists)
            | (Step::Delete, Answer::Done | Answer::Skipped | Answer::NotFound) => {
                self.step = Step::Create;
                Written::Send(Request::Create(self.object.clone()))
            }
            (Step::Create, Answer::AlreadyExists)
            | (Step::Update, Answer::NotFound)
            | (Step::Update | Step::Delete, Answer::Conflict) => Written::OutOfDate,
            (step, answer) => {
                let ObjectKey { kind, name, .. } = self.object.key();
                let what = match step {
                    Step::Create => format!("create of {kind:?} {name}"),
                    Step::Update => format!("update of {kind:?} {name}"),
                    Step::Delete => format!("delete of {kind:?} {name}"),
                    Step::CreateNamespace => format!("create of Namespace {NAMESPACE}"),
                };
                Written::Failed(unexpected(answer, &what))
            }
        }
    }
}
