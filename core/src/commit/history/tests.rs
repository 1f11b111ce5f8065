use super::super::testing::*;
use super::*;
use crate::ports::PortRange;

const NOW: Duration = Duration::from_secs(1);

struct Known {
    history: History<PortRange>,
    protection: Protection,
}

/// A read has found the key in its third version, with offset 1 in use.
fn known() -> Known {
    let history = History::new(range(), Strategy::Contiguous, Limits::default(), 7);
    let mut known = Known { history, protection: protection() };
    assert_eq!(known.read(30, Some((state(3), &[1]))), (true, Adopted::First));
    known
}

impl Known {
    fn read(&mut self, revision: u64, key: Option<(KeyState, &[u32])>) -> (bool, Adopted) {
        read(&mut self.history, &mut self.protection, revision, key)
    }

    fn watch(&mut self, state: KeyState, used: &[u32], is_asking: bool) -> bool {
        watch(&mut self.history, &mut self.protection, state, used, is_asking)
    }

    fn used(&self) -> Vec<u32> {
        self.history.base().map(|base| base.used().iter().collect()).unwrap_or_default()
    }

    fn changed_since(&self, revision: u64) -> Option<Vec<u32>> {
        self.history.changed_since(revision).map(|changed| changed.iter().collect())
    }
}

#[test]
fn what_others_write_is_known_whole_only_without_a_gap() {
    let mut known = known();
    assert_eq!(known.read(31, Some((state(3), &[1]))), (true, Adopted::Unchanged));
    assert_eq!(known.read(40, Some((state(4), &[1, 2]))), (true, Adopted::Foreign));
    assert!(known.history.is_complete() && !known.history.watch_lags());
    assert_eq!(known.changed_since(30), Some(vec![2]));
    // Offset 2 may have been cleared and set again in between.
    assert_eq!(known.read(60, Some((state(6), &[1, 2]))), (true, Adopted::Foreign));
    assert!(!known.history.is_complete() && known.history.watch_lags());
    assert_eq!(known.history.watch_from(true), Some(41), "the first revision that is missing");
    assert!(!known.watch(state(5), &[1], false) && !known.history.is_complete());
    assert!(!known.watch(state(6), &[1, 2], false) && known.history.is_complete(), "the base was known");
    assert_eq!(known.changed_since(40), Some(vec![2]));
}

#[test]
fn a_watch_moves_the_base_unless_a_request_was_evaluated_on_it() {
    let mut known = known();
    assert!(known.watch(state(4), &[2], false));
    assert_eq!((known.used(), known.changed_since(30)), (vec![2], Some(vec![1, 2])));
    assert!(!known.watch(state(4), &[2], false), "an old change");
    assert!(!known.watch(state(5), &[3], true), "a request is under way");
    assert_eq!(known.used(), [2]);
    assert!(known.history.current(NOW).is_none() && !known.history.watch_lags(), "a read is missing");
    assert_eq!(known.read(50, Some((state(5), &[3]))), (true, Adopted::Foreign));
    assert!(known.history.current(NOW).is_some() && known.history.is_complete());
    assert_eq!(known.changed_since(40), Some(vec![2, 3]));
}

#[test]
fn a_watch_with_a_gap_is_not_believed() {
    let mut known = known();
    assert!(!known.watch(state(5), &[2], false));
    assert_eq!((known.used(), known.history.watch_from(true)), (vec![1], None), "an answer comes first");
    assert!(!known.watch(state(4), &[2], false));
    assert_eq!(known.used(), [1]);
    known.read(50, Some((state(5), &[2])));
    assert_eq!(known.changed_since(29), None);
}

#[test]
fn a_watch_that_fails_ends_only_what_it_was_to_report() {
    let mut known = known();
    known.read(40, Some((state(4), &[1, 2])));
    known.history.watch_failed();
    assert_eq!(known.changed_since(30), Some(vec![2]), "all was known");
    known.read(60, Some((state(6), &[1])));
    assert_eq!((known.history.watch_lags(), known.changed_since(30)), (true, Some(vec![2])), "up to the last view");
    known.history.watch_failed();
    assert_eq!((known.history.watch_lags(), known.changed_since(59)), (false, None));
}

#[test]
fn a_deletion_ends_what_is_known_of_the_key() {
    let mut known = known();
    let deleted = Change::Delete { revision: 45 };
    assert!(!known.history.watched(deleted, false, &mut known.protection));
    assert!(known.history.current(NOW).is_none(), "a read comes first");
    assert_eq!(known.read(50, None), (true, Adopted::Foreign));
    assert_eq!((known.used(), known.changed_since(49)), (vec![], None));
    assert_eq!(known.changed_since(50), Some(vec![]));
    // It may have been there between two answers that found it missing.
    assert_eq!(known.read(60, None), (true, Adopted::Unchanged));
    assert_eq!(known.changed_since(59), None);
}

#[test]
fn a_recreated_key_gets_back_what_was_handed_out() {
    let mut known = known();
    known.protection.take_lost(&bitmap([1]));
    known.protection.hand_out(7);
    let recreated = KeyState { mod_revision: 50, version: 1, create_revision: 50 };
    assert_eq!(known.read(50, Some((recreated, &[2]))), (true, Adopted::Foreign));
    assert_eq!(known.changed_since(49), None, "the key may have held anything in between");
    assert_eq!(known.protection.take_lost(&bitmap([2])), Some(bitmap([7])));
}

#[test]
fn a_write_of_ours_is_the_new_base() {
    let mut known = known();
    let Content::Readable(next) = base(state(4), &stored([1, 2])).content else { panic!("a range") };
    let before = known.history.committed(40, state(3), next, [2].into_iter());
    assert_eq!(before.expect("memory").bitmap(), &bitmap([1]));
    assert_eq!((known.history.state(), known.used()), (Some(state(4)), vec![1, 2]));
    assert_eq!((known.history.is_complete(), known.changed_since(30)), (true, Some(vec![2])));
}

#[test]
fn a_key_that_contradicts_what_is_known_is_of_another_store() {
    let guard = |mod_revision, version| KeyState { mod_revision, version, create_revision: 10 };
    for (key, used, is_same) in [
        (state(3), [1], true),
        (state(3), [2], false),
        (guard(30, 4), [1], false),
        (guard(29, 3), [1], false),
        (guard(31, 4), [2], true),
        (guard(31, 5), [2], false),
        (guard(31, 3), [2], false),
    ] {
        let mut known = known();
        assert_eq!(known.read(40, Some((key, &used))).0, is_same, "{key:?} with {used:?}");
        assert_eq!(known.history.store(), 8 + u32::from(!is_same), "{key:?} with {used:?}");
        assert_eq!(known.used(), used, "the answer is believed");
    }
}

#[test]
fn passes_are_accepted_only_from_this_store() {
    let mut known = known();
    assert_eq!(known.history.view(30).map(|view| (view.used, view.initialised)), Some((bitmap([1]), true)));
    assert!(known.history.is_own_view(30) && !known.history.is_own_view(29));
    assert_eq!(known.history.accept_pass(30), 30);
    // The store is restored from a backup.
    assert!(!known.read(25, Some((state(2), &[3]))).0);
    assert_eq!((known.history.store(), known.history.is_own_view(30)), (9, false));
    assert_eq!(known.history.accept_pass(30), UNKNOWN_REVISION);
}
