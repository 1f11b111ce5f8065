//! A linearizable store with one key and the Services beside it, as etcd would keep them, and the log of all that
//! happened to the key.

use std::num::NonZeroU64;
use std::rc::Rc;

use rangekeeper::commit::{Header, KeyState, StoreRequest, Ticket, Witness};

use crate::faults::ShellFault;
use crate::services::{Services, State};

pub use crate::layout::{Layout, Mask, bits};

/// The key's value in one state.
#[derive(Clone, Debug)]
pub struct Key {
    /// Revisions and version.
    pub state: KeyState,
    /// The stored object.
    pub value: Rc<[u8]>,
}

/// Who changed the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// One of our servers.
    Server(usize),
    /// The writer that behaves like the reference.
    Reference,
    /// Somebody who deletes keys and recreates them.
    Stranger,
}

/// One change of the key.
#[derive(Clone, Debug)]
pub struct Version {
    /// When.
    pub revision: u64,
    /// `None` for a deletion.
    pub key: Option<Key>,
    /// What is in use; nothing after a deletion.
    pub mask: Mask,
    /// Who did it.
    pub writer: Writer,
    /// Offsets that were acknowledged as allocated by this change.
    pub acknowledged: Mask,
    /// The ticket of the only operation that can have set anything, if there was only one.
    pub sole: Option<Ticket>,
    /// When its request was sent, if it was one of our servers', and what the server's clock showed then.
    pub sent: (u64, u64),
    /// Whether the writer took the store for the one before a restore: then it set and cleared offsets that it never
    /// decided on.
    pub is_misled: bool,
    /// What an edit may have cleared.
    pub by_hand: Mask,
}

/// How a request was answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The answer's header.
    pub header: Header,
    /// Whether the guard held.
    pub held: bool,
    /// The place in the log of the state of the key that this reports; `None` before the first change.
    pub at: Option<usize>,
    /// The key, if it did not.
    pub key: Option<Key>,
    /// Whether that is the key as it was once, or would be if that were not compacted.
    pub past: Option<Past>,
}

/// What a read of the past finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// What was there.
    Known,
    /// It is compacted.
    Compacted,
}

/// A key beside the range that tells one history from another.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// What stands for its name.
    pub number: NonZeroU64,
    /// When it was put.
    pub revision: u64,
}

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    /// The header of answers.
    pub header: Header,
    /// How often it was restored from a backup.
    pub epoch: u32,
    /// For each restore, the store whose backup it was restored from, and the backup's revision.
    forks: Vec<(u32, u64)>,
    /// Earlier revisions cannot be watched any more.
    pub compacted: u64,
    /// All changes of the key.
    pub log: Vec<Version>,
    /// The Services.
    pub services: Services,
    /// The create and mod revision of the witness beside the key, if it is there.
    pub witness: Option<(u64, u64)>,
    /// The looks that were put.
    looks: Vec<NonZeroU64>,
    /// Which offsets the bits of masks are.
    pub layout: Layout,
    /// The revision since which each offset has been in use; 0 for those that are free.
    pub set_since: [u64; 64],
}

impl Store {
    /// A store in which nothing has happened to the key.
    pub fn new() -> Self {
        Self {
            header: Header { cluster_id: 1, revision: 1, raft_term: 5 },
            epoch: 0,
            forks: Vec::new(),
            compacted: 0,
            log: Vec::with_capacity(64),
            services: Services::default(),
            witness: None,
            looks: Vec::new(),
            layout: Layout::default(),
            set_since: [0; 64],
        }
    }

    /// The revision of the last change of anything.
    pub fn revision(&self) -> u64 {
        self.header.revision
    }

    /// The key, if it is there.
    pub fn key(&self) -> Option<&Key> {
        self.log.last().and_then(|version| version.key.as_ref())
    }

    /// The state that a guard is compared with.
    pub fn state(&self) -> KeyState {
        self.key().map_or(KeyState::default(), |key| key.state)
    }

    /// What is in use.
    pub fn mask(&self) -> Mask {
        self.log.last().map_or(0, |version| version.mask)
    }

    /// The place in the log of what was current at `revision`; `None` before the first change.
    pub fn at(&self, revision: u64) -> Option<usize> {
        self.log.partition_point(|version| version.revision <= revision).checked_sub(1)
    }

    /// What was in use at `revision`.
    pub fn mask_at(&self, revision: u64) -> Mask {
        self.at(revision).map_or(0, |at| self.log[at].mask)
    }

    /// Whether an offset was in use in every revision of these.
    pub fn in_use_throughout(&self, offset: u32, first: u64, last: u64) -> bool {
        let Some(at) = self.at(first) else { return false };
        let mut throughout = self.log[at..].iter().take_while(|version| version.revision <= last);
        throughout.all(|version| version.mask >> offset & 1 == 1)
    }

    /// Writes the key.
    pub fn put(&mut self, value: Vec<u8>, writer: Writer) {
        self.header.revision += 1;
        let revision = self.header.revision;
        let before = self.state();
        let create_revision = if before.version == 0 { revision } else { before.create_revision };
        let state = KeyState { mod_revision: revision, version: before.version + 1, create_revision };
        let mask = self.layout.mask_of_value(&value);
        self.change(Version {
            revision,
            key: Some(Key { state, value: value.into() }),
            mask,
            writer,
            acknowledged: 0,
            sole: None,
            sent: (0, 0),
            is_misled: false,
            by_hand: 0,
        });
    }

    /// Deletes the key.
    pub fn delete(&mut self) {
        self.header.revision += 1;
        let revision = self.header.revision;
        self.change(Version {
            revision,
            key: None,
            mask: 0,
            writer: Writer::Stranger,
            acknowledged: 0,
            sole: None,
            sent: (0, 0),
            is_misled: false,
            by_hand: 0,
        });
    }

    fn change(&mut self, version: Version) {
        let before = self.mask();
        for offset in bits(before & !version.mask) {
            self.set_since[offset as usize] = 0;
        }
        for offset in bits(version.mask & !before) {
            self.set_since[offset as usize] = version.revision;
        }
        self.log.push(version);
    }

    /// Performs a request of one of our servers.
    pub fn perform(&mut self, request: StoreRequest, writer: Writer) -> Reply {
        let held = match request {
            StoreRequest::Read => false,
            StoreRequest::ReadAt { revision } => return self.past(revision),
            StoreRequest::Confirm { guard } => guard == self.state(),
            StoreRequest::Swap { guard, value, witness, services_unchanged_since, look } => {
                let unchanged = services_unchanged_since.is_none_or(|revision| self.services.written <= revision);
                let held = guard == self.state() && unchanged && look.is_none_or(|look| self.looks.contains(&look));
                if held {
                    self.put(value, writer);
                    let revision = self.header.revision;
                    match witness {
                        Witness::Keep => {}
                        Witness::Delete if !ShellFault::CreationNoFence.is_on() => self.witness = None,
                        Witness::Put | Witness::Delete => {
                            self.witness.get_or_insert((revision, revision)).1 = revision;
                        }
                    }
                }
                held
            }
        };
        let key = if held { None } else { self.key().cloned() };
        Reply { header: self.header, held, at: self.log.len().checked_sub(1), key, past: None }
    }

    /// Reads the key as it was at `revision`.
    fn past(&self, revision: u64) -> Reply {
        let is_compacted = revision < self.compacted;
        let key = self.at(revision).filter(|_| !is_compacted).and_then(|at| self.log[at].key.clone());
        let past = Some(if is_compacted { Past::Compacted } else { Past::Known });
        // What the server learns of the present is in the header.
        Reply { header: self.header, held: true, at: None, key, past }
    }

    /// Writes a new Service; `None` if there is one of this name.
    pub fn create_service(&mut self, uid: u32, name: u32, values: Mask, shared: Mask) -> Option<u64> {
        let revision = self.header.revision + 1;
        self.services.create(revision, uid, name, values, shared).then(|| self.advance())
    }

    /// Writes a Service if its revision is `based`; returns the new one.
    pub fn update_service(&mut self, uid: u32, based: u64, values: Mask) -> Option<u64> {
        let revision = self.header.revision + 1;
        self.services.update(revision, uid, based, values).then(|| self.advance())
    }

    /// Deletes a Service, if it is there; returns its last state and the revision of the deletion.
    pub fn delete_service(&mut self, uid: u32) -> Option<(State, u64)> {
        let revision = self.header.revision + 1;
        let last = self.services.delete(revision, uid)?;
        Some((last, self.advance()))
    }

    /// Writes some other key.
    pub fn write_other(&mut self) {
        self.advance();
    }

    /// Deletes the witness, and puts a look.
    pub fn write_fence(&mut self) -> Look {
        self.witness = None;
        self.put_look()
    }

    /// Puts a look.
    pub fn put_look(&mut self) -> Look {
        let revision = self.advance();
        // No other history has it.
        let number = NonZeroU64::new(u64::from(self.epoch) << 32 | revision).expect("a revision is not 0");
        self.add_look(number);
        Look { number, revision }
    }

    /// Puts the look of this number, without a revision.
    pub fn add_look(&mut self, number: NonZeroU64) {
        self.looks.push(number);
    }

    fn advance(&mut self) -> u64 {
        self.header.revision += 1;
        self.header.revision
    }

    /// The last revision that this store has in common with the store of an epoch.
    pub fn common_with(&self, epoch: u32) -> u64 {
        let (mut one, mut other, mut revision) = (self.epoch, epoch, u64::MAX);
        while one != other {
            // The later one is restored from a backup of an earlier one.
            let later = if one > other { &mut one } else { &mut other };
            let (before, at) = self.forks[*later as usize - 1];
            (*later, revision) = (before, revision.min(at));
        }
        revision
    }

    /// Becomes what the backup holds, with this cluster id and raft term, and so many revisions skipped.
    pub fn restore(&mut self, backup: &Self, cluster_id: u64, raft_term: u64, skipped: u64) {
        let (epoch, mut forks) = (self.epoch, std::mem::take(&mut self.forks));
        forks.push((backup.epoch, backup.revision()));
        self.clone_from(backup);
        (self.epoch, self.forks) = (epoch + 1, forks);
        self.header = Header { cluster_id, revision: backup.revision() + skipped, raft_term };
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}
