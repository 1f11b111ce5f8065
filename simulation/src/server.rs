//! A server: a committer, the repair passes of its process, and what a caller of it knows.

use rand_xoshiro::Xoshiro256PlusPlus;
use rangekeeper::commit::{Committer, Config, Passes, SIDECAR_LEN, Ticket};
use rangekeeper::ports::PortRange;

use crate::store::{Mask, Store};

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A read or a confirm.
    Look,
    Swap,
    /// A fence that makes the sidecar.
    Creation,
    /// Another one, and what it puts.
    Fence([u8; SIDECAR_LEN]),
}

/// What was submitted.
#[derive(Clone, Debug)]
pub(crate) enum Submitted {
    Allocate { named: Mask, count: usize },
    Release { claim: usize, offset: u32, anchor: u64 },
    Read { is_pass: bool },
    Create,
    Repair,
}

impl Submitted {
    /// Whether it may set values.
    pub(crate) fn sets(&self) -> bool {
        matches!(self, Self::Allocate { .. } | Self::Repair)
    }
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) ticket: Ticket,
    pub(crate) what: Submitted,
    pub(crate) deadline: u64,
    /// When it was submitted.
    pub(crate) submitted: u64,
    pub(crate) is_cancelled: bool,
    /// The store at that time: its revision and epoch.
    pub(crate) revision: u64,
    pub(crate) epoch: u32,
}

/// The right to clear an offset if it was in use ever since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Right {
    pub(crate) offset: u32,
    pub(crate) anchor: u64,
    pub(crate) epoch: u32,
}

/// A pass under way.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    None,
    Reading { ticket: Ticket, listed: Option<Mask> },
    Listing { used: rangekeeper::bitmap::Bitmap, read: u64, listed: Option<Mask>, time: u64 },
    Repairing { ticket: Ticket, clears: Mask },
}

/// What the oracle knows of one offset's sightings by one server's passes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sightings {
    count: u8,
    first_read: u64,
    first_time: u64,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) up: bool,
    pub(crate) incarnation: u32,
    pub(crate) config: Config,
    pub(crate) committer: Committer<PortRange, Xoshiro256PlusPlus>,
    /// Which sidecar it writes.
    pub(crate) name: usize,
    /// Whether nothing has happened yet that makes a sidecar tell less.
    pub(crate) decides: bool,
    pub(crate) poll_at: u64,
    /// The number of the request under way.
    pub(crate) flight: Option<u32>,
    /// What that is.
    pub(crate) kind: Kind,
    pub(crate) open: Vec<Open>,
    /// The watch that runs: its number and the next revision that it tells.
    pub(crate) watch: Option<(u32, u64)>,
    /// Whether it will tell something soon.
    pub(crate) is_watch_due: bool,
    pub(crate) repairs: bool,
    pub(crate) passes: Passes,
    pub(crate) pass: Pass,
    /// Whether the next pass repeats one that met a conflict.
    pub(crate) repeats: bool,
    /// How far its wall clock was put forward.
    pub(crate) wall: u64,
    pub(crate) rights: Vec<Right>,
    pub(crate) sightings: [Sightings; 64],
    /// Whether anybody asked it to make the range.
    pub(crate) creates: bool,
    /// The revision of the last answer.
    pub(crate) told: u64,
    pub(crate) last_pass: Option<(u64, u64, u32)>,
}

impl Server {
    /// Counts a pass as rule 6 wants it, from what the store knows; gives the offsets that may be cleaned, with the
    /// revisions of their first sightings.
    pub(crate) fn sight(
        &mut self,
        store: &Store,
        leaked: Mask,
        read: u64,
        now: u64,
        interval: u64,
        grace: u64,
    ) -> Vec<(u32, u64)> {
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
            if sightings.count >= 3 && now - sightings.first_time >= grace {
                due.push((offset as u32, sightings.first_read));
            }
        }
        due
    }
}
