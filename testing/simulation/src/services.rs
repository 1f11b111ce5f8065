//! The Services beside the range, in the same etcd.

use crate::layout::{Mask, bits};

/// A Service in one of its states.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The revision that wrote it.
    pub revision: u64,
    /// Its values.
    pub values: Mask,
}

/// A Service with all its states.
#[derive(Clone, Debug)]
pub struct Service {
    /// Unique among all that ever were.
    pub uid: u32,
    /// No two live Services have the same.
    pub name: u32,
    /// The values that two of its ports share, TCP and UDP.
    pub shared: Mask,
    /// The oldest state first.
    states: Vec<State>,
    /// The revision of the deletion.
    pub deleted: Option<u64>,
}

impl Service {
    /// The last state.
    pub fn state(&self) -> State {
        self.states.last().copied().expect("a Service has a state")
    }

    /// The values at `revision`.
    pub fn values_at(&self, revision: u64) -> Mask {
        if self.deleted.is_some_and(|deleted| deleted <= revision) {
            return 0;
        }
        self.states.iter().rev().find(|state| state.revision <= revision).map_or(0, |state| state.values)
    }

    /// The revision that wrote the state at `revision`; 0 if there was none.
    pub fn written_at(&self, revision: u64) -> u64 {
        self.states.iter().rev().find(|state| state.revision <= revision).map_or(0, |state| state.revision)
    }

    /// The revision of the last change, which may be its deletion.
    pub fn changed(&self) -> u64 {
        self.deleted.unwrap_or(self.state().revision)
    }

    /// Whether it is stored.
    pub fn is_live(&self) -> bool {
        self.deleted.is_none()
    }
}

/// The values of a Service's ports, a shared one twice.
pub fn ports(values: Mask, shared: Mask) -> impl Iterator<Item = (u32, &'static str)> {
    bits(values).map(|bit| (bit, "TCP")).chain(bits(values & shared).map(|bit| (bit, "UDP")))
}

/// All Services that ever were.
#[derive(Clone, Debug, Default)]
pub struct Services {
    all: Vec<Service>,
    /// The revision of the last write; deletions do not count.
    pub written: u64,
}

impl Services {
    /// A Service, also if it is deleted.
    pub fn get(&self, uid: u32) -> Option<&Service> {
        self.all.iter().find(|service| service.uid == uid)
    }

    /// Whether a Service of this name was written or deleted after `revision`.
    pub fn is_changed_after(&self, name: u32, revision: u64) -> bool {
        self.all.iter().any(|service| service.name == name && service.changed() > revision)
    }

    /// What was done to Services after `revision`: the revision, the name, and whether it was a deletion.
    pub fn changes_after(&self, revision: u64) -> impl Iterator<Item = (u64, u32, bool)> {
        let all = self.all.iter().flat_map(|service| {
            let written = service.states.iter().map(|state| (state.revision, service.name, false));
            written.chain(service.deleted.map(|deleted| (deleted, service.name, true)))
        });
        all.filter(move |(changed, ..)| *changed > revision)
    }

    /// All Services that are stored.
    pub fn live(&self) -> impl Iterator<Item = &Service> {
        self.all.iter().filter(|service| service.is_live())
    }

    /// The values of all Services at `revision`.
    pub fn values_at(&self, revision: u64) -> Mask {
        self.all.iter().fold(0, |values, service| values | service.values_at(revision))
    }

    /// The values of all Services.
    pub fn values(&self) -> Mask {
        self.live().fold(0, |values, service| values | service.state().values)
    }

    /// Each Service with its values at `revision`.
    pub fn list_at(&self, revision: u64) -> impl Iterator<Item = (&Service, Mask)> {
        self.all.iter().map(move |service| (service, service.values_at(revision))).filter(|(_, values)| *values != 0)
    }

    /// Writes a new Service. Fails if there is one of the same name.
    pub fn create(&mut self, revision: u64, uid: u32, name: u32, values: Mask, shared: Mask) -> bool {
        if self.live().any(|service| service.name == name) {
            return false;
        }
        let states = vec![State { revision, values }];
        self.all.push(Service { uid, name, shared, states, deleted: None });
        self.written = revision;
        true
    }

    /// Writes a Service in a new state. Fails if its state is not that of revision `based` any more.
    pub fn update(&mut self, revision: u64, uid: u32, based: u64, values: Mask) -> bool {
        let mut live = self.all.iter_mut().filter(|service| service.is_live());
        let Some(service) = live.find(|service| service.uid == uid && service.state().revision == based) else {
            return false;
        };
        service.states.push(State { revision, values });
        self.written = revision;
        true
    }

    /// Deletes a Service; returns its last state. Fails if it is not there.
    pub fn delete(&mut self, revision: u64, uid: u32) -> Option<State> {
        let mut live = self.all.iter_mut().filter(|service| service.is_live());
        let service = live.find(|service| service.uid == uid)?;
        service.deleted = Some(revision);
        Some(service.state())
    }
}
