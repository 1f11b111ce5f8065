//! What a restore must not cost: values that are free in the restored store are handed out again.

use rangekeeper::commit::Limits;

use crate::server::{Notice, Open, Release, Rule, Submitted};
use crate::store::{Version, bits};
use crate::violation::Invariant;

use super::event::Sent;
use super::{Content, World, content};

impl World {
    /// Whether a server that sets values again, at this place in the log, knows of none that its Service is written.
    pub(super) fn check_set_again(&mut self, at: usize, sent: &Sent) {
        if !sent.is_idle {
            return;
        }
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        for offset in bits(self.store.log[at].mask & !before & !self.servers[sent.server].unclaimed) {
            let mut own = self.claims.iter().filter(|claim| {
                claim.server == sent.server && claim.incarnation == sent.incarnation && claim.offset == offset
            });
            // In the store in which it was written it is set again: the key was deleted, and with it the value of a
            // Service.
            let store = self.servers[sent.server].committer.known().store;
            let is_written = |(at, known): (u64, u32)| at < sent.at.0 && known != store;
            if let Some(claim) = own.next_back().filter(|claim| claim.known_written.is_some_and(is_written)) {
                let message = format!("server {} sets {claim:?} again, whose Service is written", sent.server);
                return self.fail(Invariant::I17, message);
            }
        }
    }

    /// A release is left to repair, as history is missing. Whether the server could not know it: the request began when
    /// the server knew this store, and all changes since then were reported.
    pub(super) fn check_deferred(&mut self, server: usize, open: &Open) {
        let Submitted::Release(Release { as_of, origin, rule: Rule::Service, .. }) = open.what else { return };
        let one = &self.servers[server];
        let known = one.committer.known();
        let is_whole = self.limits == Limits::default() && !one.has_gaps && !one.is_cut;
        let is_own = origin.epoch == self.store.epoch && origin.store == known.store && one.notice == Notice::Noticed;
        // A watch that has outlived the restore reports what comes after the revision that it had reached: too late.
        let is_watch_late = self.is_connection_kept;
        if known.restores == 0 || !is_whole || !is_own || is_watch_late || self.is_answer_old {
            return;
        }
        let holds_range = |version: &Version| content(&self.text, version) == Content::Range;
        let (since, _) = one.knowledge.since(&self.store, known.revision, self.limits, holds_range);
        if as_of >= since {
            let message = format!("server {server} knows all since r{since}, and leaves {open:?} to repair");
            self.fail(Invariant::I18, message);
        }
    }
}
