//! The invariants of each answer that a caller gets.

use rangekeeper::commit::{Failure, Outcome};
use rangekeeper::ports::PortRange;

use crate::server::{Open, Release, Rule, Submitted};
use crate::store::{Mask, Writer};
use crate::violation::Invariant;

use super::{Content, World};

impl World {
    /// Whether a definite answer was true at some time since the submission.
    pub(super) fn check_answer(&mut self, server: usize, open: &Open, outcome: &Outcome<PortRange>) {
        if open.epoch != self.store.epoch {
            return;
        }
        let first = self.store.at(open.revision);
        let log = &self.store.log;
        // Before each change, after it, and in the middle: what is set comes before what is cleared.
        let before = |at: usize| at.checked_sub(1).map_or(0, |before| log[before].mask);
        let ever = |is_true: &dyn Fn(Mask) -> bool| {
            first.map_or(is_true(0), |first| is_true(log[first].mask))
                || (first.map_or(0, |first| first + 1)..log.len())
                    .any(|at| is_true(log[at].mask) || is_true(log[at].mask | before(at)))
        };
        let was = |contents: &[Content]| {
            let content = |at: usize| contents.contains(&self.content(&log[at]));
            first.map_or(contents.contains(&Content::Missing), content)
                || (first.map_or(0, |first| first + 1)..log.len()).any(content)
        };
        let all = u64::MAX >> (64 - self.size);
        let truth = match (&open.what, outcome) {
            (Submitted::Allocate { named, count: 1, .. }, Outcome::Failed(Failure::Allocate(_))) => {
                ever(&|mask| if *named == 0 { mask == all } else { mask & named != 0 })
            }
            (Submitted::Allocate { named, count, .. }, Outcome::Failed(Failure::Allocate(_))) => {
                // Some value of the batch was in use, or there were too few.
                ever(&|mask| mask & named != 0 || ((all & !mask).count_ones() as usize) < *count)
            }
            (_, Outcome::Failed(Failure::NotInitialised)) => was(&[Content::Missing, Content::Uninitialised]),
            (_, Outcome::Failed(Failure::MismatchedRange { .. })) => was(&[Content::OtherRange]),
            (_, Outcome::Failed(Failure::Unreadable { .. })) => was(&[Content::Unreadable]),
            (Submitted::Release(release), Outcome::Released { freed: false }) if release.rule == Rule::Service => {
                let free = |mask: Mask| mask >> release.offset & 1 == 0;
                let oldest = release.oldest.min(release.as_of).min(open.revision);
                let since = self.store.at(oldest).unwrap_or(0);
                log.is_empty() || log[since..].iter().any(|version| free(version.mask))
            }
            (Submitted::Release(release), Outcome::Released { freed: true }) => {
                ever(&|mask| mask >> release.offset & 1 == 0)
            }
            (_, Outcome::Read(view)) => {
                view.revision >= open.revision
                    && self.store.layout.mask_of(&view.used) == self.store.mask_at(view.revision)
            }
            (_, Outcome::Created { .. }) => was(&[Content::Range]),
            (Submitted::Edit(job), Outcome::Failed(Failure::Allocate(_))) => {
                ever(&|mask| (all & !(mask | job.in_use.unwrap_or(0) | job.set)).count_ones() < job.pick)
            }
            (Submitted::Edit(job), Outcome::Failed(Failure::ServicesWritten { listed })) => {
                self.store.services.written > *listed || self.store.common_with(job.look_epoch()) < *listed
            }
            _ => true,
        };
        if !truth {
            return self.fail(Invariant::I7, format!("server {server} answers {open:?} with {outcome:?}"));
        }
        // A caller to whom a value is reported as taken must not have taken it itself.
        if let (Submitted::Allocate { named, count: 1, .. }, Outcome::Failed(Failure::Allocate(_))) =
            (&open.what, outcome)
            && *named != 0
            && first.is_none_or(|first| log[first].mask & named == 0)
            && !self.is_disturbed
        {
            let from = first.map_or(0, |first| first + 1);
            let by_others = (from..log.len()).any(|at| {
                log[at].mask & !before(at) & named != 0
                    && !(log[at].writer == Writer::Server(server) && log[at].sole == Some(open.ticket))
            });
            if !by_others {
                return self
                    .fail(Invariant::I6, format!("server {server} has carried out {open:?}, and says {outcome:?}"));
            }
        }
        // A release that failed has not cleared anything, and will not.
        if let (Submitted::Release(Release { offset, as_of, .. }), Outcome::Failed(_)) = (&open.what, outcome) {
            let rights = &mut self.servers[server].rights;
            if let Some(at) = rights.iter().position(|right| right.offset == *offset && right.as_of == *as_of) {
                rights.swap_remove(at);
            }
            let from = first.map_or(0, |first| first + 1);
            let done = (from..log.len()).find(|at| {
                let cleared = before(*at) & !log[*at].mask & !log[*at].by_hand;
                log[*at].writer == Writer::Server(server) && !log[*at].is_misled && cleared >> offset & 1 == 1
            });
            if let Some(at) = done
                && !self.servers[server].rights.iter().any(|right| right.offset == *offset)
                && !self.was_own_release(server, *offset, at)
            {
                let revision = self.store.log[at].revision;
                self.fail(Invariant::I6, format!("{open:?} failed, and was carried out at r{revision}"));
            }
        }
    }
}
