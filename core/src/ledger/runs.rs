//! Offsets in rows of which none has an offset of another one, each with something that is said about it.

use std::collections::BTreeMap;

/// The rows by their first offset, with their length.
#[derive(Clone, Debug)]
pub(super) struct Runs<T>(BTreeMap<u64, (u32, T)>);

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Runs<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The one that has this offset: its first offset, length, and what is said about it.
    pub(super) fn at(&self, offset: u64) -> Option<(u64, u32, &T)> {
        let (first, (len, about)) = self.0.range(..=offset).next_back()?;
        (offset - first < u64::from(*len)).then_some((*first, *len, about))
    }

    /// Adds one; its length is at least 1. False, and nothing is changed, if another one has one of its offsets.
    pub(super) fn insert(&mut self, first: u64, len: u32, about: T) -> bool {
        let Some(last) = first.checked_add(u64::from(len).saturating_sub(1)) else { return false };
        if self.at(first).is_some() || self.0.range(first..=last).next().is_some() {
            return false;
        }
        self.0.insert(first, (len, about));
        true
    }

    /// Takes the one out that begins at this offset.
    pub(super) fn remove(&mut self, first: u64) -> Option<(u32, T)> {
        self.0.remove(&first)
    }

    /// All, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u32, &T)> {
        self.0.iter().map(|(first, (len, about))| (*first, *len, about))
    }
}

/// The offsets of a row.
pub(super) fn offsets(first: u64, len: u32) -> impl Iterator<Item = u64> + Clone {
    (0..u64::from(len)).map(move |distance| first + distance)
}

/// Ascending offsets as rows: first offset and length.
pub(super) fn in_a_row(offsets: impl IntoIterator<Item = u64>) -> Vec<(u64, u32)> {
    let mut rows: Vec<(u64, u32)> = Vec::new();
    for offset in offsets {
        match rows.last_mut() {
            Some((first, len)) if first.checked_add(u64::from(*len)) == Some(offset) && *len < u32::MAX => *len += 1,
            _ => rows.push((offset, 1)),
        }
    }
    rows
}
