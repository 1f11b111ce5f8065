//! Which offsets are protected: from being cleared, from being handed out again soon, from being released.

use std::time::Duration;

use crate::bitmap::Bitmap;

use super::limits::Limits;
use super::quarantine::Quarantine;
use super::recent::Recent;

/// What happened to offsets within the last grace, and what the last repair pass found.
#[derive(Clone, Debug)]
pub(super) struct Protection {
    /// What this committer handed out within the last grace.
    handed_out: Recent<3>,
    /// Those of them whose Service is known to be written.
    written: Option<Bitmap>,
    /// What any server cleared within the last grace.
    quarantine: Quarantine,
    /// What the last repair pass saw with more than one Service, ascending.
    duplicates: Vec<u32>,
    /// Whether the range was recreated, or has to be: then what was handed out is to be set again.
    recreated: bool,
}

impl Protection {
    /// Nothing is protected yet, of `len` offsets.
    pub(super) fn new(len: u32, grace: Duration, limits: Limits) -> Self {
        Self {
            handed_out: Recent::new(len, grace),
            written: None,
            quarantine: Quarantine::new(len, grace, limits),
            duplicates: Vec::new(),
            recreated: false,
        }
    }

    /// Drops what happened before the grace.
    pub(super) fn advance(&mut self, now: Duration) {
        self.handed_out.advance(now);
        self.quarantine.advance(now);
    }

    /// This committer hands out an offset.
    pub(super) fn hand_out(&mut self, offset: u32) {
        self.handed_out.insert(offset);
        if let Some(written) = &mut self.written {
            written.remove(offset);
        }
    }

    /// The Service of an offset that this committer handed out is written.
    pub(super) fn written(&mut self, offset: u32) {
        if self.handed_out.contains(offset) {
            self.written.get_or_insert_with(|| Bitmap::new(self.handed_out.len())).insert(offset);
        }
    }

    /// This committer has cleared offsets. `is_known`: a watch has reported this already.
    pub(super) fn cleared(&mut self, offsets: &[u32], is_known: bool) {
        for offset in offsets {
            if !is_known {
                self.quarantine.insert(*offset);
            }
            self.handed_out.remove(*offset);
        }
    }

    /// These offsets have changed, and `used` is what is in use after that.
    pub(super) fn changed(&mut self, used: &Bitmap, changes: &[u32]) {
        for offset in changes.iter().filter(|offset| !used.contains(**offset)) {
            self.quarantine.insert(*offset);
        }
    }

    /// A repair pass saw more than one Service with each of these offsets.
    pub(super) fn duplicated(&mut self, offsets: &[u32]) {
        self.duplicates.clear();
        self.duplicates.extend_from_slice(offsets);
        self.duplicates.sort_unstable();
    }

    /// The store is another one. The offsets that this committer handed out stay protected if their Services may yet be
    /// written to it. A Service that was written is in this store with its offset, or is lost.
    pub(super) fn change_store(&mut self) {
        if let Some(written) = self.written.take() {
            self.handed_out.remove_all(&written);
        }
        self.quarantine.clear();
        self.duplicates.clear();
    }

    /// The range is missing or was recreated.
    pub(super) fn recreated(&mut self) {
        self.recreated = true;
    }

    /// The offsets to set again in the recreated range, in which `used` are in use.
    pub(super) fn take_lost(&mut self, used: &Bitmap) -> Option<Bitmap> {
        if !std::mem::take(&mut self.recreated) {
            return None;
        }
        let mut lost = Bitmap::new(used.len());
        self.handed_out.add_to(&mut lost);
        lost.difference_with(used);
        (!lost.is_empty()).then_some(lost)
    }

    /// Whether this committer handed out `offset` so recently that its Service may not be stored yet.
    pub(super) fn is_handed_out(&self, offset: u32) -> bool {
        self.handed_out.contains(offset)
    }

    /// Whether the last repair pass saw more than one Service with `offset`.
    pub(super) fn is_duplicate(&self, offset: u32) -> bool {
        self.duplicates.binary_search(&offset).is_ok()
    }

    /// The offsets that are allocated last.
    pub(super) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{GRACE, SIZE, bitmap, protection};
    use super::*;

    fn quarantined(protection: &Protection) -> Vec<u32> {
        let mut set = Bitmap::new(SIZE);
        protection.quarantine().add_to(0, &mut set);
        set.iter().collect()
    }

    #[test]
    fn what_is_handed_out_is_protected_for_a_grace() {
        let mut protection = protection();
        protection.hand_out(5);
        protection.advance(GRACE);
        assert!(protection.is_handed_out(5) && !protection.is_handed_out(6));
        protection.advance(GRACE * 2);
        assert!(!protection.is_handed_out(5));
    }

    #[test]
    fn what_is_cleared_is_quarantined_and_not_protected() {
        let mut protection = protection();
        protection.hand_out(5);
        protection.hand_out(6);
        protection.cleared(&[5], false);
        protection.cleared(&[6], true);
        protection.changed(&bitmap([7]), &[7, 8]);
        assert!(!protection.is_handed_out(5) && !protection.is_handed_out(6));
        assert_eq!(quarantined(&protection), [5, 8]);
        protection.change_store();
        assert!(quarantined(&protection).is_empty());
    }

    #[test]
    fn what_is_lost_is_set_again_once() {
        let mut protection = protection();
        protection.hand_out(5);
        protection.hand_out(6);
        assert_eq!(protection.take_lost(&bitmap([])), None, "nothing was recreated");
        protection.recreated();
        assert_eq!(protection.take_lost(&bitmap([5])), Some(bitmap([6])));
        assert_eq!(protection.take_lost(&bitmap([5])), None);
        protection.recreated();
        assert_eq!(protection.take_lost(&bitmap([5, 6])), None);
    }

    #[test]
    fn what_is_written_is_set_again_in_the_same_store_only() {
        let mut protection = protection();
        for offset in [5, 6, 7] {
            protection.hand_out(offset);
            protection.written(offset);
        }
        // It was released, and has another Service now.
        protection.hand_out(6);
        protection.written(8);
        protection.recreated();
        assert_eq!(protection.take_lost(&bitmap([])), Some(bitmap([5, 6, 7])), "the key was deleted");
        protection.change_store();
        protection.recreated();
        assert_eq!(protection.take_lost(&bitmap([])), Some(bitmap([6])));
        assert!(!protection.is_handed_out(5) && protection.is_handed_out(6));
    }

    #[test]
    fn each_pass_replaces_the_duplicates() {
        let mut protection = protection();
        protection.duplicated(&[9, 3]);
        assert!(protection.is_duplicate(3) && protection.is_duplicate(9) && !protection.is_duplicate(5));
        protection.change_store();
        assert!(!protection.is_duplicate(3));
        protection.duplicated(&[9, 3]);
        protection.duplicated(&[]);
        assert!(!protection.is_duplicate(9));
    }
}
