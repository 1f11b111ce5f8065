//! What answers report to servers. The oracle records it, to know what a server could know.

use std::cmp::Ordering;
use std::fmt::Write;

use rangekeeper::commit::KeyState;
use rangekeeper::commit::Limits;

use crate::knowledge::Knowledge;
use crate::server::{Notice, Owed};
use crate::store::{Mask, Reply, bits};

use super::World;

impl World {
    /// Records what an answer reports to a server.
    pub(super) fn learn(&mut self, server: usize, reached: u64, epoch: u32, reply: &Reply) {
        let local = self.local(server);
        let is_first = self.servers[server].notice == Notice::Due;
        let is_due = is_first && !self.is_answer_old;
        if is_due || self.servers[server].epoch != epoch {
            let is_noticed = self.is_restore_noticed(server, reached, reply);
            let one = &mut self.servers[server];
            one.foreign = one.foreign.max(one.reported).max(reached).max(reply.header.revision);
            one.wary_until = local + one.pace.grace / 32;
            if is_noticed {
                // None of these revisions is one of this store.
                (one.reached, one.watched, one.reported_key) = (0, 0, 0);
            }
            if is_due {
                one.notice = if is_noticed { Notice::Noticed } else { Notice::Missed };
                one.knowledge = Knowledge::default();
                // A pass that ended before that may have read the store before.
                one.duplicates = 0;
            }
            if !is_noticed {
                note!(self, "server {server} cannot notice that the store was restored");
                self.report.missed += 1;
            }
        }
        let one = &mut self.servers[server];
        one.epoch = epoch;
        one.reported = reply.header.revision;
        if !reply.held || reply.at.is_some_and(|at| self.store.log.get(at).is_some_and(|version| version.key.is_some()))
        {
            // A key that is missing still may have been there meanwhile.
            one.reported_key = one.reported;
        }
        one.reached = one.reached.max(reply.header.revision);
        one.identity = (reply.header.cluster_id, reply.header.raft_term);
        one.has_answer = true;
        if reply.past.is_some() {
            return;
        }
        if self.is_answer_old {
            let key = reply.key.as_ref();
            one.key = key.map(|key| (key.state, self.store.layout.mask_of_value(&key.value)));
            one.answered = one.key;
            return;
        }
        // To confirm what it knew of another store reports nothing of this one.
        let Some(at) = reply.at.filter(|_| !(is_first && reply.held)) else { return };
        one.knowledge.see(at);
        let version = &self.store.log[at];
        // Where a watch may replay little, history begins again some time after a gap.
        let is_short = self.limits.replayed != Limits::default().replayed;
        one.is_cut |= is_short && !one.knowledge.has_seen(at.wrapping_sub(1));
        if one.has_skipped || one.is_cut {
            // The watch cannot close the gap, and history begins again sooner or later.
            one.knowledge.forget_before(version.revision);
        }
        one.key = version.key.as_ref().map(|key| (key.state, version.mask));
        one.answered = one.key;
        if version.key.is_none() {
            one.knowledge.forget_before(reply.header.revision);
        }
        if !reply.held || !one.is_swap {
            return;
        }
        one.written = Some(at);
        let before = at.checked_sub(1).map_or(0, |before| self.store.log[before].mask);
        // A watch may have reported it before.
        let freed = Some(version.sent.1);
        bits(before & !version.mask).for_each(|offset| one.freed[offset as usize] = freed);
        // If the only operation that can have set anything has ended already, nobody wants the values that it took.
        if let Some(sole) = version.sole
            && one.allocations.contains(&sole)
            && !one.open.iter().any(|open| open.ticket == sole)
            && !self.is_disturbed
        {
            let taken = bits(version.mask & !before);
            one.owed.extend(taken.map(|offset| Owed { offset, revision: version.revision, since: local, missed: 0 }));
        }
    }

    /// Whether the first answer after a restore shows a server that the store was restored.
    fn is_restore_noticed(&self, server: usize, reached: u64, reply: &Reply) -> bool {
        let one = &self.servers[server];
        if !one.has_answer {
            // It knows nothing of any store. Only a new connection warns it of revisions that callers name.
            return !self.is_connection_kept;
        }
        let (cluster, term) = one.identity;
        let header = reply.header;
        let is_in_header =
            header.cluster_id != cluster || header.raft_term < term || header.revision < one.reported.max(reached);
        let contradicts = |known: Option<(KeyState, Mask)>| {
            let (Some((known, mask)), Some(key), None) = (known, &reply.key, reply.past) else { return false };
            let (state, revisions) = (key.state, key.state.mod_revision.wrapping_sub(known.mod_revision));
            match state.mod_revision.cmp(&known.mod_revision) {
                // A watch may have reported later changes.
                _ if known.mod_revision > header.revision => false,
                Ordering::Less => true,
                Ordering::Equal => state != known || self.store.layout.mask_of_value(&key.value) != mask,
                Ordering::Greater => {
                    let changes = state.version.saturating_sub(known.version);
                    state.create_revision == known.create_revision && !(1..=revisions).contains(&changes)
                }
            }
        };
        let is_older =
            reply.past.is_none() && reply.key.as_ref().is_some_and(|key| key.state.mod_revision < one.watched);
        let is_overtaken = is_older && one.watched <= header.revision;
        is_in_header || is_overtaken || (contradicts(one.key) && contradicts(one.answered))
    }
}
