//! What a committer knows of the store behind the key: whether it is the same as before, and how fresh that is.

use std::time::Duration;

use super::request::Header;

/// After so long without an answer, a read comes before the next compare-and-swap.
const STALE: Duration = Duration::from_secs(5);

/// The last answer, and what has happened since.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    /// The header of the last answer, and when it came.
    last: Option<(Header, Duration)>,
    /// The newest revision that a watch has reported.
    watched: u64,
    /// Whether a read comes before the next compare-and-swap.
    must_read: bool,
    /// No watch before the next answer, which says whether the store is still the same, or what to watch from.
    is_unwatched: bool,
    /// Whether a release may be about a Service of the store that was there before.
    is_wary: bool,
}

impl Connection {
    /// The revision of the last answer.
    pub(super) fn answered_revision(&self) -> Option<u64> {
        self.last.map(|(header, _)| header.revision)
    }

    /// Which revision the store has reached, as far as answers and a watch have reported.
    pub(super) fn reached(&self) -> u64 {
        self.answered_revision().unwrap_or(0).max(self.watched)
    }

    /// How long ago the last answer came.
    pub(super) fn answer_age(&self, now: Duration) -> Option<Duration> {
        self.last.map(|(_, at)| now.saturating_sub(at))
    }

    /// Whether no answer of this store, or over this connection, has come yet.
    pub(super) fn is_new(&self) -> bool {
        self.is_unwatched || self.last.is_none()
    }

    /// A read has to come before the next compare-and-swap.
    pub(super) fn require_read(&mut self) {
        self.must_read = true;
    }

    /// The read is sent.
    pub(super) fn read_sent(&mut self) {
        self.must_read = false;
    }

    /// The connection is a new one.
    pub(super) fn reconnected(&mut self) {
        (self.must_read, self.is_unwatched) = (true, true);
    }

    /// The watch has failed: the next one begins after an answer.
    pub(super) fn watch_failed(&mut self) {
        self.is_unwatched = true;
    }

    /// Whether a watch may report changes.
    pub(super) fn may_watch(&self) -> bool {
        !self.is_unwatched
    }

    /// A watch has reported a change at this revision.
    pub(super) fn watched(&mut self, revision: u64) {
        self.watched = self.watched.max(revision);
    }

    /// Whether a watch has reported a later change of the key than this, up to the `answered` revision.
    pub(super) fn has_watched_past(&self, revision: u64, answered: u64) -> bool {
        revision < self.watched && self.watched <= answered
    }

    /// Decides whether a release needs a read first, as its as-of revision is later than the last answer. That says
    /// that the store has gone on since, which needs no read: if the compare-and-swap holds, the key has not changed.
    /// Or it says that the revision was another store's; `may_be_new` is set while that is likely.
    pub(super) fn compare(&mut self, newest_as_of: u64, may_be_new: bool) {
        let is_ahead = self.answered_revision().is_some_and(|revision| revision < newest_as_of);
        self.is_wary = is_ahead && (self.is_wary || may_be_new);
    }

    /// Whether a read has to come before the next compare-and-swap.
    pub(super) fn needs_read(&self, now: Duration) -> bool {
        let is_stale = self.answer_age(now).is_none_or(|age| age > STALE);
        is_stale || self.is_wary || self.must_read
    }

    /// Whether an answer with this header may be of the same store as the one before. The request was sent when the
    /// store had reached a revision.
    pub(super) fn continues(&self, header: Header, reached: u64) -> bool {
        self.last.is_none_or(|(before, _)| {
            header.cluster_id == before.cluster_id
                && header.revision >= before.revision.max(reached)
                && header.raft_term >= before.raft_term
        })
    }

    /// An answer has come. Returns up to which revision the store before may have come, if this is another one.
    pub(super) fn answered(&mut self, now: Duration, header: Header, reached: u64, is_same: bool) -> Option<u64> {
        let before = self.last.replace((header, now));
        let distrusted = match before {
            // There was another connection before, and nobody knows to which store.
            None => self.is_unwatched.then_some(header.revision),
            Some((before, _)) => (!is_same).then_some(before.revision.max(reached).max(header.revision)),
        };
        if !is_same {
            self.watched = 0;
        }
        // Else the connection was lost after the request was sent, and the answer may be the old store's.
        self.is_unwatched &= self.must_read;
        distrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    fn header(revision: u64) -> Header {
        Header { cluster_id: 1, revision, raft_term: 2 }
    }

    fn answered(revision: u64) -> Connection {
        let mut connection = Connection::default();
        assert_eq!(connection.answered(NOW, header(revision), 0, true), None);
        connection
    }

    #[test]
    fn a_store_that_goes_back_is_another_one() {
        let connection = answered(20);
        assert!(connection.continues(header(20), 20) && connection.continues(header(21), 0));
        assert!(!connection.continues(header(19), 0));
        assert!(!connection.continues(header(21), 22), "a watch had reported more");
        assert!(!connection.continues(Header { cluster_id: 2, ..header(21) }, 0));
        assert!(!connection.continues(Header { raft_term: 1, ..header(21) }, 0));
        assert!(Connection::default().continues(header(1), 0));
    }

    #[test]
    fn revisions_of_another_store_end_at_the_highest_that_is_known() {
        for (reached, revision, distrusted) in [(0, 5, 20), (25, 5, 25), (25, 30, 30)] {
            let mut connection = answered(20);
            connection.watched(23);
            assert_eq!(connection.reached(), 23);
            assert_eq!(connection.answered(NOW, header(revision), reached, false), Some(distrusted));
            assert_eq!(connection.reached(), revision);
        }
        let mut connection = Connection::default();
        connection.reconnected();
        assert_eq!(connection.answered(NOW, header(7), 0, true), Some(7), "the connection before is unknown");
    }

    #[test]
    fn a_read_comes_first_where_the_store_may_be_another() {
        let mut connection = Connection::default();
        assert!(connection.is_new() && connection.needs_read(NOW));
        connection = answered(20);
        assert!(!connection.is_new() && !connection.needs_read(NOW + STALE));
        assert!(connection.needs_read(NOW + STALE + Duration::from_nanos(1)));
        connection.compare(21, false);
        assert!(!connection.needs_read(NOW));
        connection.compare(21, true);
        connection.compare(21, false);
        assert!(connection.needs_read(NOW), "until the store has reached the release");
        connection.compare(20, true);
        assert!(!connection.needs_read(NOW));
    }

    #[test]
    fn an_answer_to_a_request_from_before_a_reconnection_starts_no_watch() {
        let mut connection = answered(20);
        connection.read_sent();
        connection.reconnected();
        connection.answered(NOW, header(20), 0, true);
        assert!(!connection.may_watch() && connection.needs_read(NOW));
        connection.read_sent();
        connection.answered(NOW, header(20), 0, true);
        assert!(connection.may_watch() && !connection.needs_read(NOW));
    }
}
