//! What a repair pass and a committer tell each other, as plain data: they may be in different memories.
//!
//! The methods of [`RepairPass`] and [`Found`] that take a [`Committer`] do all of it in one step. Those here are its
//! parts, in this order:
//!
//! | step | pass | committer | pass | committer |
//! |---|---|---|---|---|
//! | [`RepairPass::begin`] | [`RepairPass::begin_range`] | [`Committer::keep_history`] | | |
//! | [`RepairPass::read`] | [`RepairPass::since`] | [`Committer::followed`] | [`RepairPass::read_range`] | |
//! | [`RepairPass::fenced`] | [`RepairPass::fenced_range`] | | | |
//! | [`Found::refusal`] | [`Found::needs`] | [`Committer::refusal`] | | |
//! | [`Found::diff`] | [`Found::due`] | [`Committer::handed_out`] | [`Found::diff_of`] | [`Committer::follow`] |

use std::time::Duration;

use rand_core::Rng;

use crate::bitmap::Bitmap;
use crate::range::Range;

use super::{Committer, Failure, Replace};
#[cfg(doc)]
use super::{Found, RepairPass};

/// What a pass asks about the time since the pass before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The revision of the view that the pass has read.
    pub view: u64,
    /// The revision of the view before, and [`Known::store`](super::Known::store) then.
    pub before: Option<(u64, u32)>,
    /// The offsets that are counted as leaked.
    pub leaks: Vec<u32>,
}

/// What the committer knows about that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// [`Known::store`](super::Known::store).
    pub store: u32,
    /// Whether the view is one of this store.
    pub is_own: bool,
    /// Whether the object was there and initialised.
    pub initialised: bool,
    /// The offsets that changed since the view before, or those of the leaks that may have; `None` if that is not
    /// known.
    pub changed: Option<Bitmap>,
}

/// For what a repair has to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Whether it sets offsets.
    pub sets: bool,
    /// How many Services have a value that the configured range does not have.
    pub outside: u32,
}

/// What protects leaks from being cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// The offsets that the committer has handed out within the grace, ascending.
    pub offsets: Vec<u32>,
    /// [`Config::grace`](super::Config::grace).
    pub grace: Duration,
    /// Whether the committer has noticed another store than before.
    pub is_restored: bool,
}

/// What the committer has to record until the next pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// The revision from which on changes of the leaks count.
    pub since: u64,
    /// The offsets that are counted as leaked, ascending. If there are any, all changes of the key are recorded.
    pub leaks: Vec<u32>,
}

impl<R: Range, G: Rng> Committer<R, G> {
    /// Whether to record all changes of the key even if no operation waits for them: while a repair pass counts leaks.
    pub fn keep_history(&mut self, keep: bool) {
        self.history.keep(keep);
    }

    /// Answers what a pass asks. Cost: O(size / 64), and the changes.
    pub fn followed(&self, since: &Since) -> Followed {
        let store = self.history.store();
        let is_own = self.history.is_own_view(since.view);
        let before = since.before.filter(|(_, before)| is_own && *before == store);
        let changed = before.and_then(|(before, _)| {
            let leaks = || self.history.changed_of(since.leaks.iter().copied(), before);
            self.history.changed_since(before).or_else(leaks)
        });
        Followed { store, is_own, initialised: self.known().initialised, changed }
    }

    /// Why a repair that needs this will be refused, or would be without [`Replace::Once`], as far as the stored object
    /// is known.
    pub fn refusal(&self, needs: Needs) -> Option<Failure<R>> {
        let replace = match self.config.replace {
            Replace::Once => Replace::IfUnused,
            other => other,
        };
        self.history.base()?.refuses(replace, needs.sets, needs.outside)
    }

    /// What protects these offsets, which are due.
    pub fn handed_out(&self, due: &Bitmap) -> HandedOut {
        HandedOut {
            offsets: due.iter().filter(|offset| self.is_handed_out(*offset)).collect(),
            grace: self.config.grace,
            is_restored: self.history.restores() > 0,
        }
    }

    /// Records what happens to leaks until the next pass.
    pub fn follow(&mut self, follow: &Follow) {
        self.history.keep(!follow.leaks.is_empty());
        self.history.follow(follow.since, follow.leaks.iter().copied());
    }
}
