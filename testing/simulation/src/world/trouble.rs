//! What happens to the store: the key is deleted or spoilt, a backup is restored.

use std::fmt::Write;

use crate::cache::Cache;
use crate::server::Notice;
use crate::store::{Version, Writer};

use super::clients::{Request, What};
use super::event::{Event, Fate};
use super::{Content, LOW, MS, SPOILT, State, World};

impl World {
    pub(super) fn make(&mut self) {
        if self.store.key().is_none() {
            self.store.put(self.encode(0), Writer::Stranger);
            note!(self, "somebody creates the key");
            self.left_out();
            self.wrote(Writer::Stranger, None);
        }
    }

    /// The range was created by somebody who knows no Services. One that was written while there was none loses its
    /// values: that is damage by the deletion.
    pub(super) fn left_out(&mut self) {
        self.damaged |= self.store.services.values() & !self.store.mask();
    }

    pub(super) fn delete(&mut self) {
        if self.store.key().is_none() || self.calm {
            return;
        }
        note!(self, "the key is deleted");
        self.is_disturbed = true;
        self.store.delete();
        self.wrote(Writer::Stranger, None);
        if self.is_restored_in_pass {
            // The backup is of a store without the key.
            self.backup = Some(Box::new(self.store.clone()));
            let delay = self.random.below(self.interval / 4);
            self.after(delay, Event::Recreate);
        } else if self.random.percent(60) {
            self.recreate();
        }
    }

    /// Somebody recreates the key, from what Services use.
    pub(super) fn recreate(&mut self) {
        if self.store.key().is_none() {
            let in_use = self.store.services.values();
            self.store.put(self.encode(in_use), Writer::Stranger);
            note!(self, "the key is recreated: {in_use:b}");
            for _ in 0..self.random.below(4) {
                let offset = self.random.below(u64::from(self.size));
                let value = self.encode(self.store.mask() | 1 << offset);
                self.store.put(value, Writer::Stranger);
            }
            self.wrote(Writer::Stranger, None);
        }
    }

    /// Somebody writes what is no RangeAllocation, or none of this range, and in most cases puts it right later.
    pub(super) fn spoil(&mut self) {
        self.is_disturbed = true;
        let before = self.store.mask();
        let is_right = |version: &Version| matches!(self.content(version), Content::Range | Content::Missing);
        let spoilt = !self.store.log.last().is_none_or(is_right);
        let value = if spoilt {
            self.encode(self.store.services.values())
        } else {
            match self.random.below(4) {
                0 => [SPOILT, &[before as u8]].concat(),
                1 => self.encode_as("", 0),
                2 => self.encode_as("", before),
                _ => {
                    let half = self.size / 2;
                    let range = format!("{LOW}-{}", u32::from(LOW) + half - 1);
                    self.encode_as(&range, before & ((1 << half) - 1))
                }
            }
        };
        note!(self, "somebody writes {:?}", value.escape_ascii().to_string());
        self.store.put(value, Writer::Stranger);
        self.wrote(Writer::Stranger, None);
        if !spoilt && !self.calm && self.random.percent(70) {
            let delay = self.random.below(self.interval);
            self.after(delay, Event::Spoil);
        }
    }

    /// The key is created, used and deleted while the repair of a server that saw it missing is lost.
    pub(super) fn make_in_pass(&mut self, server: usize) {
        (self.is_made_in_pass, self.loses_next) = (false, Some((server, 30 * MS)));
        self.after(0, Event::Make);
        for _ in 0..3 {
            let other = self.random.below(self.servers.len() as u64) as usize;
            if other != server {
                let delay = self.random.below(4 * MS);
                self.after(delay, Event::Submit(other));
            }
        }
        self.after(26 * MS, Event::Delete);
    }

    /// The store is restored while Services are listed for a pass of this server. The restored store soon has the
    /// revision of the pass's view, and the server reads it then, too.
    pub(super) fn restore_in_pass(&mut self, server: usize) {
        self.is_restored_in_pass = false;
        let delay = self.random.below(3 * MS);
        self.after(delay, Event::Restore);
        for _ in 0..8 {
            let delay = self.random.below(30 * MS);
            self.after(delay, Event::Look(server));
        }
        for _ in 0..4 {
            let delay = self.random.below(30 * MS);
            self.after(delay, Event::Other);
        }
    }

    /// The creator of a value that the next pass of this server may clean writes its Service after all. A backup is
    /// taken, and the server that then deletes the Service does not get to release the value.
    pub(super) fn write_late(&mut self, server: usize) {
        let due = self.servers[server].due(self.now);
        let has_due = |request: &Request| {
            let mut offsets = request.claims.iter().map(|claim| self.claims[*claim].offset);
            let is_late = request.is_slow && !request.is_over && matches!(request.what, What::Create { .. });
            is_late && offsets.any(|offset| due >> offset & 1 == 1)
        };
        let Some(late) = self.requests.iter().position(has_due) else { return };
        self.requests[late].is_over = true;
        self.arrive(late, self.store.epoch, Fate::Unknown { is_written: true });
        self.backup = Some(Box::new(self.store.clone()));
        let Request { uid, claims, .. } = self.requests[late].clone();
        if let Some((_, revision)) = self.store.delete_service(uid) {
            note!(self, "Service {uid} is deleted at r{revision}, and its values are not released");
            claims.into_iter().for_each(|claim| self.claims[claim].state = State::Ended);
        }
    }

    /// The store is restored from a backup. Servers can notice it by another cluster id, a lower raft term, a revision
    /// that goes back, or the content of the key; and connections may outlive it.
    pub(super) fn restore(&mut self) {
        // The next restore may be from the same backup.
        let Some(backup) = self.backup.clone().filter(|_| !self.calm) else { return };
        (self.is_disturbed, self.is_restored, self.damaged) = (true, true, u64::MAX);
        let header = self.store.header;
        let cluster = header.cluster_id + u64::from(!self.is_retraced && self.random.percent(30));
        let term = match self.random.below(3) {
            0 if self.is_retraced => header.raft_term,
            0 => 2,
            1 => header.raft_term,
            _ => header.raft_term + 1,
        };
        let skipped = if !self.is_retraced && self.random.percent(15) { self.random.below(60) } else { 0 };
        self.is_connection_kept = self.random.percent(30);
        for one in self.servers.iter_mut().filter(|one| one.up && one.has_answer) {
            one.cache = Some(Cache::outlive(one.cache.as_ref(), &self.store.services, self.store.revision()));
        }
        let lost = self.is_retraced.then(|| self.steps_after(backup.revision()));
        self.store.restore(&backup, cluster, term, skipped);
        if !self.is_connection_kept {
            self.connected_since = self.store.epoch;
        }
        note!(
            self,
            "the store is restored from a backup of r{}: cluster {cluster}, term {term}, connections kept: {}, {:b}",
            backup.revision(),
            self.is_connection_kept,
            self.store.mask()
        );
        for claim in &mut self.claims {
            let service = self.store.services.get(claim.uid).filter(|service| service.is_live());
            let has = service.is_some_and(|service| service.state().values >> claim.offset & 1 == 1);
            if has {
                claim.state = State::Live;
            } else if claim.state == State::Live {
                claim.state = State::Ended;
            }
        }
        if let Some(lost) = lost {
            self.retrace(lost);
        }
        for server in 0..self.servers.len() {
            let one = &mut self.servers[server];
            one.knowledge = Default::default();
            one.knowledge.forget_before(backup.revision() + skipped);
            (one.duplicates, one.freed) = (0, [None; 64]);
            one.owed.clear();
            if one.up {
                one.notice = Notice::Due;
                if !self.is_connection_kept {
                    self.disconnect(server, 25);
                }
            }
        }
    }
}
