//! How values are released once their Service is deleted, changed, or certainly not written.

use std::fmt::Write as _;

use rangekeeper::commit::{Operation, Outcome};
use rangekeeper::ports::PortRange;

use crate::faults::ShellFault;
use crate::server::{Origin, Release, Right, Rule, Submitted};
use crate::store::{Mask, bits};

use super::event::Event;
use super::{MS, World};

impl World {
    /// Releases values of a Service: `(as-of revision, oldest)` are the revisions at which it stopped having them, and
    /// was stored before.
    pub(super) fn release_all(
        &mut self,
        server: usize,
        uid: u32,
        values: Mask,
        shared: Mask,
        revisions: (u64, u64),
        origin: Origin,
    ) {
        self.release_by(Rule::Service, server, uid, values, shared, revisions, origin);
    }

    #[allow(clippy::too_many_arguments, reason = "all of them are parts of one release")]
    pub(super) fn release_by(
        &mut self,
        rule: Rule,
        server: usize,
        uid: u32,
        values: Mask,
        shared: Mask,
        (as_of, oldest): (u64, u64),
        origin: Origin,
    ) {
        // Within milliseconds, mostly.
        let delay =
            if self.random.percent(92) { self.random.below(4 * MS) } else { self.random.below(2 * self.interval) };
        let rule = if ShellFault::ReleasedAsOfNow.is_on() { Rule::Known } else { rule };
        for offset in bits(values) {
            let release = Release { uid, offset, as_of, oldest, origin, rule };
            self.release_later(server, release, delay);
            if shared >> offset & 1 == 0 {
                continue;
            }
            // Both ports have it, and it is released once.
            let more = self.random.below(4 * MS);
            if ShellFault::ReleasedAsOfNow.is_on() {
                self.release_later(server, release, delay + more);
            } else if ShellFault::SharedReleasedTwice.is_on() {
                self.release_later(server, Release { rule: Rule::Read, ..release }, delay + more);
            }
        }
    }

    pub(super) fn release_later(&mut self, server: usize, release: Release, delay: u64) {
        let incarnation = self.servers[server].incarnation;
        self.after(delay, Event::Release { server, incarnation, release });
        if self.random.percent(8) {
            // Another server, or the same one later on: the protocol allows it to every server that knows the
            // revisions.
            let other = self.random.below(self.servers.len() as u64) as usize;
            let incarnation = self.servers[other].incarnation;
            // At the same time, or long after.
            let until = if self.random.percent(50) { 8 * MS } else { 2 * self.interval };
            let delay = delay + self.random.below(until);
            // Each server counts stores for itself.
            let origin = if other == server { release.origin } else { Origin { store: 0, ..release.origin } };
            let rule = if ShellFault::SecondServerReleasesAsOfNow.is_on() { Rule::Read } else { release.rule };
            self.after(
                delay,
                Event::Release { server: other, incarnation, release: Release { origin, rule, ..release } },
            );
        }
    }

    /// The process of a release has ended. The server had kept the release, and carries it out once it has started.
    pub(super) fn release_after_start(&mut self, server: usize, release: Release) {
        if release.rule == Rule::Service {
            let incarnation = self.servers[server].incarnation;
            self.after(2 * self.interval, Event::Release { server, incarnation, release });
        }
    }

    /// A server submits a release.
    pub(super) fn release(&mut self, server: usize, release: Release) {
        let Release { offset, as_of, oldest, origin: Origin { epoch, store }, rule, .. } = release;
        let submitted = self.local(server);
        let one = &mut self.servers[server];
        // A release that names another store has no right: it was another committer's, or the one before a restore, or
        // nobody knew which one it was.
        if store == 0 || store == one.committer.known().store && one.has_answer {
            one.rights.push(Right { offset, as_of, oldest, epoch, submitted });
        }
        match rule {
            Rule::Service => self.submit_release(server, release, (as_of, oldest)),
            Rule::Known => {
                let known = self.servers[server].committer.known();
                if known.initialised {
                    self.submit_release(server, release, (known.revision, known.revision));
                } else {
                    self.read_for_release(server, release);
                }
            }
            Rule::Read => self.read_for_release(server, release),
        }
        self.drive(server);
    }

    fn submit_release(&mut self, server: usize, release: Release, (as_of, oldest): (u64, u64)) {
        let deadline = self.deadline(server);
        let operation =
            Operation::Release { value: self.value(release.offset), as_of, oldest, store: release.origin.store };
        self.submit(server, operation, Submitted::Release(release), deadline);
    }

    fn read_for_release(&mut self, server: usize, release: Release) {
        let deadline = self.deadline(server);
        self.submit(server, Operation::Read, Submitted::ReadForRelease(release), deadline);
    }

    /// A release, or a read for one, has ended. Whatever is not released then is left to repair.
    pub(super) fn released(&mut self, server: usize, what: &Submitted, outcome: &Outcome<PortRange>) {
        match (what, outcome) {
            (Submitted::Release(_), Outcome::Released { freed: true } | Outcome::Unknown) => {}
            (Submitted::Release(release), _) if release.rule == Rule::Known => {
                note!(self, "server {server} reads before it releases offset {}", release.offset);
                self.read_for_release(server, Release { rule: Rule::Read, ..*release });
            }
            (Submitted::ReadForRelease(release), Outcome::Read(view)) => {
                self.submit_release(server, *release, (view.revision, view.revision));
            }
            _ => {}
        }
    }
}
