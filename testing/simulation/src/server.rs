//! A server: a committer, the repair passes of its process, and what its callers know.

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::audit::Report;
use rangekeeper::commit::{self, Committer, EditKind, KeyState, LeakTracker, Ticket, View};
use rangekeeper::ports::PortRange;

use crate::cache::Cache;
use crate::knowledge::Knowledge;
use crate::store::{Look, Mask, Store};

/// A value that a caller wants to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// The Service that had it.
    pub(crate) uid: u32,
    pub(crate) offset: u32,
    /// When the Service stopped having it, and when it was stored with it.
    pub(crate) as_of: u64,
    pub(crate) oldest: u64,
    pub(crate) origin: Origin,
    pub(crate) rule: Rule,
}

/// The store that revisions are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// As the oracle counts stores.
    pub(crate) epoch: u32,
    /// As the server counted them when it began the request.
    pub(crate) store: u32,
}

/// Which revisions a caller names in a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Those of the Service.
    Service,
    /// A fault: the newest that the committer knows; if that frees nothing, those of a read.
    Known,
    /// A fault: those of a read.
    Read,
}

/// What was submitted.
#[derive(Clone, Debug)]
pub(crate) enum Submitted {
    /// `request` is the client's request that needs the values.
    Allocate {
        named: Mask,
        count: usize,
        request: usize,
    },
    Release(Release),
    Read {
        is_pass: bool,
    },
    /// A fault: the revision of the view is the as-of revision of a release.
    ReadForRelease(Release),
    Create,
    Repair,
    Edit(Box<Job>),
}

impl Submitted {
    /// Whether it may set values.
    pub(crate) fn sets(&self) -> bool {
        matches!(self, Self::Allocate { .. } | Self::Repair | Self::Edit(_))
    }
}

/// A change by hand.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: EditKind,
    pub(crate) set: Mask,
    pub(crate) clear: Mask,
    pub(crate) pick: u32,
    pub(crate) dry_run: bool,
    /// The look at Services, for dry runs too, and what they used then, once they are listed.
    pub(crate) look: Option<Look>,
    pub(crate) in_use: Option<Mask>,
    /// The store in which they were listed.
    pub(crate) epoch: u32,
    /// Since when what is cleared has to be recorded: the revision and the store.
    pub(crate) since: u64,
    pub(crate) since_epoch: u32,
}

impl Job {
    /// The store of the look.
    pub(crate) fn look_epoch(&self) -> u32 {
        self.look.map_or(0, |look| (look.number.get() >> 32) as u32)
    }

    /// The revision at which Services are listed.
    pub(crate) fn listed(&self) -> u64 {
        self.look.map_or(0, |look| look.revision)
    }

    /// Whether it clears only what was recorded without a break.
    pub(crate) fn needs_history(&self) -> bool {
        matches!(self.kind, EditKind::Plan | EditKind::Undo)
    }
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) ticket: Ticket,
    pub(crate) what: Submitted,
    /// By the server's clock.
    pub(crate) deadline: u64,
    /// The store at that time: its revision and epoch.
    pub(crate) revision: u64,
    pub(crate) epoch: u32,
}

/// The right to clear an offset if it was in use ever since `as_of`, and since `oldest` as far as is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right {
    pub(crate) offset: u32,
    pub(crate) as_of: u64,
    pub(crate) oldest: u64,
    pub(crate) epoch: u32,
    /// When the release was submitted, by the server's clock.
    pub(crate) submitted: u64,
}

/// A value that a server took for a caller who had gone when the answer came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) offset: u32,
    /// The revision of the compare-and-swap, and when its answer came, by the server's clock.
    pub(crate) revision: u64,
    pub(crate) since: u64,
    /// How many compare-and-swaps have not released it though it was due.
    pub(crate) missed: u8,
}

/// What a pass has read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) view: View,
    /// The Services of a list from before the read: a fault.
    pub(crate) listed: Option<Mask>,
    /// When it was read.
    pub(crate) time: u64,
    /// The look of the fence.
    pub(crate) look: Option<Look>,
    pub(crate) pass: commit::RepairPass,
}

/// A pass under way.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    None,
    Reading {
        ticket: Ticket,
        listed: Option<Mask>,
        pass: commit::RepairPass,
    },
    Fencing(Read),
    Listing(Read),
    Repairing {
        ticket: Ticket,
        report: Box<Report>,
        clears: Mask,
        look: Option<Look>,
        listed: Mask,
        read: u64,
        epoch: u32,
    },
}

/// What the oracle knows of one offset's sightings by one server's passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sightings {
    count: u8,
    first_read: u64,
    first_time: u64,
}

/// Whether a server could notice that the store was restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It has noticed, or there was nothing to notice.
    Noticed,
    /// It has had no answer since.
    Due,
    /// The first answer after it did not show it.
    Missed,
}

/// How a server repairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// In how many passes a leak is seen before it is cleaned, and how far apart they are.
    pub(crate) passes: u8,
    pub(crate) interval: u64,
    pub(crate) grace: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) up: bool,
    pub(crate) incarnation: u32,
    pub(crate) committer: Committer<PortRange, Xoshiro256PlusPlus>,
    pub(crate) poll_at: u64,
    /// The number of the request under way.
    pub(crate) flight: Option<u32>,
    /// Whether that is a compare-and-swap.
    pub(crate) is_swap: bool,
    pub(crate) open: Vec<Open>,
    /// The tickets of all allocations.
    pub(crate) allocations: Vec<Ticket>,
    /// The watch that runs: its number and the next revision that it reports.
    pub(crate) watch: Option<(u32, u64)>,
    /// Whether it will report something soon.
    pub(crate) is_watch_due: bool,
    /// Whether it has left a change out.
    pub(crate) has_skipped: bool,
    /// Whether any watch has: then history may be missing that the oracle takes for known.
    pub(crate) has_gaps: bool,
    /// Whether changes are missing that a watch does not replay.
    pub(crate) is_cut: bool,
    pub(crate) repairs: bool,
    pub(crate) pace: Pace,
    /// What it handed out though that is not promised, so that the oracle has no claim.
    pub(crate) unclaimed: Mask,
    /// Whether it only repairs, like the command.
    pub(crate) is_command: bool,
    /// Whether it lists Services over an API server instead of reading the store.
    pub(crate) lists_elsewhere: bool,
    /// The watch cache, if it has outlived a restore.
    pub(crate) cache: Option<Cache>,
    pub(crate) passes: LeakTracker,
    pub(crate) pass: Pass,
    /// Whether the next pass repeats one that met a conflict.
    pub(crate) repeats: bool,
    /// How far the clock of its passes is ahead: by a fault.
    pub(crate) ahead: u64,
    pub(crate) rights: Vec<Right>,
    pub(crate) sightings: [Sightings; 64],
    /// The revision of the last answer, and whether there was one.
    pub(crate) reported: u64,
    pub(crate) reported_key: u64,
    pub(crate) has_answer: bool,
    /// The store of the last answer, as the oracle counts them.
    pub(crate) epoch: u32,
    /// The raft term and cluster of the last answer.
    pub(crate) identity: (u64, u64),
    /// The newest revision that an answer or a watch has reported.
    pub(crate) reached: u64,
    /// The key as it was reported last, and as the last answer reported it.
    pub(crate) key: Option<(KeyState, Mask)>,
    pub(crate) answered: Option<(KeyState, Mask)>,
    /// The newest change of it that a watch has reported.
    pub(crate) watched: u64,
    pub(crate) knowledge: Knowledge,
    pub(crate) notice: Notice,
    /// Revisions up to this one may be those of the store before, and until when it asks the store whether it has
    /// reached an as-of revision.
    pub(crate) foreign: u64,
    pub(crate) wary_until: u64,
    pub(crate) last_pass: Option<(u64, u64, u32)>,
    /// What the last pass saw with more than one Service.
    pub(crate) duplicates: Mask,
    /// When it freed each offset, by its clock.
    pub(crate) freed: [Option<u64>; 64],
    /// The newest revision that a watch has reported, even if it left changes out before.
    pub(crate) heard: u64,
    pub(crate) owed: Vec<Owed>,
    /// What was handed out before is not set again any more: the store refused it.
    pub(crate) refused: u64,
    /// The place in the log of the compare-and-swap whose success is being reported to it.
    pub(crate) written: Option<usize>,
    /// How far its clock is behind after pauses.
    pub(crate) lag: u64,
    /// What its clock shows during a pause, and until when.
    pub(crate) frozen: Option<u64>,
    pub(crate) paused_until: u64,
}

impl Server {
    /// Whether it can take requests on.
    pub(crate) fn is_at_work(&self) -> bool {
        self.up && self.frozen.is_none()
    }

    /// Whether clients can reach it.
    pub(crate) fn serves(&self) -> bool {
        self.is_at_work() && !self.is_command
    }

    /// The leaks that its next pass may find due.
    pub(crate) fn due(&self, now: u64) -> Mask {
        let Pace { passes, grace, .. } = self.pace;
        let is_due = |one: &Sightings| one.count + 1 >= passes && one.count > 0 && now - one.first_time >= grace;
        let due = self.sightings.iter().enumerate().filter(|(_, one)| is_due(one));
        due.fold(0, |due, (offset, _)| due | 1 << offset)
    }

    /// Whether its next pass may find a leak due.
    pub(crate) fn has_due(&self, now: u64) -> bool {
        self.due(now) != 0
    }

    /// Counts a pass by the rule for leaks (I4), from what the store knows. Returns the offsets that may be cleaned,
    /// with the revisions of their first sightings.
    pub(crate) fn sight(&mut self, store: &Store, leaked: Mask, read: u64, now: u64) -> Vec<(u32, u64)> {
        let Pace { passes, interval, grace } = self.pace;
        let spaced =
            self.last_pass.is_some_and(|(_, time, epoch)| (now - time) * 10 >= interval * 9 && epoch == store.epoch);
        let before = self.last_pass.map_or(0, |(read, ..)| read);
        self.last_pass = Some((read, now, store.epoch));
        let mut due = Vec::new();
        for (offset, sightings) in self.sightings.iter_mut().enumerate() {
            if leaked >> offset & 1 == 0 {
                sightings.count = 0;
                continue;
            }
            // In use in every revision between the two reads: since before the earlier one, up to the later one.
            let unbroken = store.in_use_throughout(offset as u32, before, read);
            if !spaced || !unbroken || sightings.count == 0 {
                *sightings = Sightings { count: 0, first_read: read, first_time: now };
            }
            sightings.count = sightings.count.saturating_add(1);
            if sightings.count >= passes && now - sightings.first_time >= grace {
                due.push((offset as u32, sightings.first_read));
            }
        }
        due
    }
}
