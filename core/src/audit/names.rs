//! Names of Services in one text, and an index of places that keeps no keys: 1,000,000 objects of a cluster are a few
//! allocations.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// The place of a namespace and a name in [`Names`]. Equal names have one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(usize);

/// Namespaces and names, and the Services that have them.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Texts,
    /// The place of the Service of each name, if there is one.
    services: Vec<Option<usize>>,
    places: Index,
}

impl Names {
    pub(super) fn add(&mut self, namespace: &str, name: &str) -> Name {
        let (key, place) = ((namespace, name), self.services.len());
        let texts = &self.texts;
        if let Some(place) = self.places.get(key, |at| texts.get(at) == key) {
            return Name(place);
        }
        self.places.set(key, place, |at| texts.get(at) == key);
        self.texts.push(namespace, name);
        self.services.push(None);
        Name(place)
    }

    /// The place of the Service with a name.
    pub(super) fn service(&self, name: Name) -> Option<usize> {
        self.services[name.0]
    }

    pub(super) fn set_service(&mut self, name: Name, service: usize) {
        self.services[name.0] = Some(service);
    }
}

/// Namespaces and names, one behind the other.
#[derive(Debug, Default)]
struct Texts {
    text: String,
    /// Where each namespace and each name ends.
    ends: Vec<(usize, usize)>,
}

impl Texts {
    fn push(&mut self, namespace: &str, name: &str) {
        self.text.push_str(namespace);
        let middle = self.text.len();
        self.text.push_str(name);
        self.ends.push((middle, self.text.len()));
    }

    fn get(&self, place: usize) -> (&str, &str) {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (middle, end) = self.ends[place];
        (&self.text[begin..middle], &self.text[middle..end])
    }
}

/// The places of keys in a list, by their hashes. Who asks compares the key at a place with its own.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: HashMap<u64, usize, BuildHasherDefault<IsHash>>,
}

impl Index {
    /// The place that was set last for a key; `is` says whether the key at a place is it.
    pub(super) fn get(&self, key: impl Hash, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mut hash = hash_of(key);
        loop {
            let place = *self.places.get(&hash)?;
            if is(place) {
                return Some(place);
            }
            hash = hash.wrapping_add(1);
        }
    }

    /// Sets the place of a key; `is` as for [`get`](Self::get).
    pub(super) fn set(&mut self, key: impl Hash, place: usize, is: impl Fn(usize) -> bool) {
        let mut hash = hash_of(key);
        while self.places.get(&hash).is_some_and(|other| !is(*other)) {
            hash = hash.wrapping_add(1);
        }
        self.places.insert(hash, place);
    }
}

/// Nobody can name Services so that many have one hash: to find two takes four thousand million attempts.
fn hash_of(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The hash of a hash is itself.
#[derive(Debug, Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are of the type u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key whose hash is that of all others.
    struct Same;

    impl Hash for Same {
        fn hash<H: Hasher>(&self, _: &mut H) {}
    }

    #[test]
    fn keys_with_one_hash_have_places_of_their_own() {
        let keys = ["a", "b", "c"];
        let mut index = Index::default();
        for (place, key) in keys.iter().enumerate() {
            index.set(Same, place, |other| keys[other] == *key);
        }
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(index.get(Same, |other| keys[other] == *key), Some(place));
        }
        assert_eq!(index.get(Same, |_| false), None);
        index.set(Same, 7, |other| other == 1);
        let places = [0, 7, 2].map(|place| index.get(Same, |other| other == place));
        assert_eq!(places, [Some(0), Some(7), Some(2)], "the key of place 1 has another one");
        assert_eq!(index.get(Same, |other| other == 1), None);
    }

    #[test]
    fn equal_names_have_one_place() {
        let mut names = Names::default();
        let all = [("default", "kubernetes"), ("", ""), ("ä", ""), ("", "ä"), ("a", "bc"), ("ab", "c")];
        let added = all.map(|(namespace, name)| names.add(namespace, name));
        assert_eq!(added, [0, 1, 2, 3, 4, 5].map(Name));
        assert_eq!(all.map(|(namespace, name)| names.add(namespace, name)), added);
        names.set_service(added[4], 7);
        assert_eq!(added.map(|name| names.service(name)), [None, None, None, None, Some(7), None]);
    }
}
