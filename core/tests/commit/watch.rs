//! The watch, which fills gaps in the history.

use rangekeeper::commit::Operation;

use crate::store::{Store, committer};

#[test]
fn a_watch_that_cannot_begin_is_not_begun_over_and_over() {
    let (mut store, mut ours) = (Store::default(), committer("30000-30009", 1));
    store.one(&mut ours, Operation::Create);
    ours.keep_history(true);
    // The store went on without the key being changed; what was before is compacted.
    store.revision += 100;
    store.one(&mut ours, Operation::Read);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
    ours.watch_failed();
    assert_eq!(ours.watch_from(), None);
    store.one(&mut ours, Operation::Read);
    assert_eq!(ours.watch_from(), Some(store.revision + 1));
}
