//! The round of the system namespaces. After a failure with one it still creates the others.

use super::{Progress, unexpected};
use crate::namespaces::namespace;
use crate::object::{Object, ObjectKey};
use crate::request::{Answer, Failure, Request};

/// Gets one namespace after another, and creates it if it does not exist.
#[derive(Clone, Debug)]
pub(crate) struct NamespacesRound {
    /// The remaining namespaces, the next one last.
    left: Vec<String>,
    creates: bool,
    failure: Option<Failure>,
}

impl NamespacesRound {
    pub(crate) fn begin(names: &[String]) -> (Self, Progress) {
        let mut round = Self { left: names.iter().rev().cloned().collect(), creates: false, failure: None };
        let progress = round.look();
        (round, progress)
    }

    fn look(&mut self) -> Progress {
        self.creates = false;
        match self.left.last() {
            Some(name) => Progress::Send(Request::Get { object: ObjectKey::namespace(name), fresh: false }),
            None => Progress::Finished(self.failure.take().map_or(Ok(()), Err)),
        }
    }

    pub(crate) fn answered(&mut self, answer: Answer) -> Progress {
        match answer {
            Answer::NotFound if !self.creates => {
                self.creates = true;
                let name = self.left.last().map_or("", String::as_str);
                return Progress::Send(Request::Create(namespace(name).into()));
            }
            Answer::Object(Object::Namespace(_)) if !self.creates => {}
            Answer::Done | Answer::Skipped | Answer::AlreadyExists if self.creates => {}
            answer => {
                let name = self.left.last().map_or("", String::as_str);
                let mut failure = unexpected(answer, "a request");
                failure.message = format!("namespace {name}: {}", failure.message);
                self.failure.get_or_insert(failure);
            }
        }
        self.left.pop();
        self.look()
    }
}
