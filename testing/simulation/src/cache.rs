//! The watch cache of an API server, which a restore of the store makes wrong.
//!
//! It goes on with its watch from the revision that it had reached. So it keeps Services of the lost history, and
//! misses what the restored store has written up to that revision; the revision of its lists is current all the same.

use crate::layout::Mask;
use crate::services::{Service, Services};

/// A Service in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceList {
    name: u32,
    /// The revision that has written it.
    revision: u64,
    pub(crate) values: Mask,
    /// Those of its values that two ports share.
    pub(crate) shared: Mask,
}

/// A watch cache that has outlived a restore.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// What it had at the restore.
    kept: Vec<ServiceList>,
    /// The watch goes on after this revision.
    reached: u64,
}

/// What the store has at a revision.
pub(crate) fn list(services: &Services, revision: u64) -> Vec<ServiceList> {
    let all = services.list_at(revision);
    let listed = |(one, values): (&Service, Mask)| ServiceList {
        name: one.name,
        revision: one.written_at(revision),
        values,
        shared: one.shared,
    };
    all.map(listed).collect()
}

impl Cache {
    /// The cache of a server whose store, with these Services and at this revision, becomes another one.
    pub(crate) fn outlive(before: Option<&Self>, services: &Services, revision: u64) -> Self {
        match before {
            Some(before) => Self { kept: before.list(services), reached: before.reached.max(revision) },
            None => Self { kept: list(services, revision), reached: revision },
        }
    }

    /// The list of an API server with this cache, whose store has these Services by now.
    pub(crate) fn list(&self, services: &Services) -> Vec<ServiceList> {
        let is_reported = |one: &&ServiceList| services.is_changed_after(one.name, self.reached);
        let kept = self.kept.iter().filter(|one| !is_reported(one)).copied();
        let reported = list(services, u64::MAX).into_iter().filter(|one| is_reported(&one));
        kept.chain(reported).collect()
    }

    /// Whether the list has the names and revisions of the Services in the store.
    pub(crate) fn agrees(&self, services: &Services) -> bool {
        let keys = |list: Vec<ServiceList>| {
            let mut keys: Vec<(u32, u64)> = list.iter().map(|one| (one.name, one.revision)).collect();
            keys.sort_unstable();
            keys
        };
        keys(self.list(services)) == keys(list(services, u64::MAX))
    }
}
