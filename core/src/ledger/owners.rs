//! Who owns which offsets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::runs::Runs;

/// The owned offsets, by their first one and by owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    owned: Runs<Arc<str>>,
    by_owner: BTreeMap<Arc<str>, Firsts>,
}

/// The first offsets of what an owner has, ascending: the lowest one, and seldom others.
type Firsts = (u64, Vec<u64>);

impl Owners {
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// The owner of this offset.
    pub(super) fn at(&self, offset: u64) -> Option<&str> {
        self.owned.at(offset).map(|(_, _, owner)| &**owner)
    }

    /// What this owner has, ascending: first offsets and lengths.
    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = (u64, u32)> {
        self.by_owner.get(owner).into_iter().flat_map(|firsts| self.runs(firsts))
    }

    fn runs<'a>(&'a self, firsts: &'a Firsts) -> impl Iterator<Item = (u64, u32)> + 'a {
        self::firsts(firsts).filter_map(|first| self.owned.at(first)).map(|(first, len, _)| (first, len))
    }

    /// Adds offsets that nobody owns. False, and nothing is changed, if somebody does.
    pub(super) fn insert(&mut self, first: u64, len: u32, owner: &str) -> bool {
        let owner: Arc<str> = owner.into();
        if !self.owned.insert(first, len, owner.clone()) {
            return false;
        }
        self.by_owner
            .entry(owner)
            .and_modify(|(lowest, others)| {
                others.push(first.max(*lowest));
                others.sort_unstable();
                *lowest = first.min(*lowest);
            })
            .or_insert((first, Vec::new()));
        true
    }

    /// Takes out all that this owner has, and returns it, ascending.
    pub(super) fn remove(&mut self, owner: &str) -> Vec<(u64, u32)> {
        let Some(all) = self.by_owner.remove(owner) else { return Vec::new() };
        firsts(&all).filter_map(|first| Some((first, self.owned.remove(first)?.0))).collect()
    }

    /// All, by first offset: with length and owner.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32, &str)> {
        self.owned.iter().map(|(first, len, owner)| (first, len, &**owner))
    }

    /// All owners with what they have, ascending.
    pub(super) fn by_owner(&self) -> impl Iterator<Item = (&str, Vec<(u64, u32)>)> {
        self.by_owner.iter().map(|(owner, firsts)| (&**owner, self.runs(firsts).collect()))
    }
}

fn firsts((lowest, others): &Firsts) -> impl Iterator<Item = u64> {
    std::iter::once(*lowest).chain(others.iter().copied())
}
