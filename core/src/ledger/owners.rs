//! Who owns which offsets.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Offsets in a row, and their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) len: u32,
    pub(super) owner: Arc<str>,
}

/// The owned offsets, by their first one and by owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    by_first: BTreeMap<u64, Owned>,
    by_owner: BTreeMap<Arc<str>, Firsts>,
}

/// The first offsets of what an owner has, ascending: the lowest one, and seldom others.
type Firsts = (u64, Vec<u64>);

impl Owners {
    pub(super) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// What has this offset.
    pub(super) fn at(&self, offset: u64) -> Option<(u64, &Owned)> {
        let (first, owned) = self.by_first.range(..=offset).next_back()?;
        (offset - first < owned.len.into()).then_some((*first, owned))
    }

    /// What this owner has, ascending.
    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = (u64, u32)> {
        let firsts = self.by_owner.get(owner).into_iter().flat_map(firsts);
        firsts.map(|first| (first, self.by_first.get(&first).map_or(0, |owned| owned.len)))
    }

    /// Adds offsets that nobody owns. False, and nothing is changed, if somebody does.
    pub(super) fn insert(&mut self, first: u64, len: u32, owner: &str) -> bool {
        let Some(last) = first.checked_add(u64::from(len).saturating_sub(1)) else { return false };
        if self.at(first).is_some() || self.by_first.range(first..=last).next().is_some() {
            return false;
        }
        let owner: Arc<str> = owner.into();
        self.by_owner
            .entry(owner.clone())
            .and_modify(|(lowest, others)| {
                others.push(first.max(*lowest));
                others.sort_unstable();
                *lowest = first.min(*lowest);
            })
            .or_insert((first, Vec::new()));
        self.by_first.insert(first, Owned { len, owner });
        true
    }

    /// Takes out what begins at this offset.
    pub(super) fn remove(&mut self, first: u64) {
        let Some(Owned { owner, .. }) = self.by_first.remove(&first) else { return };
        let mut left =
            self.by_owner.remove(&owner).iter().flat_map(firsts).filter(|other| *other != first).collect::<Vec<_>>();
        if !left.is_empty() {
            self.by_owner.insert(owner, (left.remove(0), left));
        }
    }

    /// All, by first offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Owned)> {
        self.by_first.iter().map(|(first, owned)| (*first, owned))
    }

    /// All, by owner and first offset.
    pub(super) fn by_owner(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_owner.iter().flat_map(|(owner, all)| firsts(all).map(|first| (&**owner, first)))
    }
}

fn firsts((lowest, others): &Firsts) -> impl Iterator<Item = u64> {
    std::iter::once(*lowest).chain(others.iter().copied())
}
