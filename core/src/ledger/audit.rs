//! What is wrong with the owners of a ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::num::NonZeroU8;

use super::runs::in_a_row;
use super::{Allocation, Ledger, values_from};

/// What is wrong with an owner or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerFinding {
    /// A value has an owner that is not in the list: a leak.
    OwnerGone {
        /// The owner.
        owner: String,
        /// What it has.
        has: Allocation,
    },
    /// An owner of the list has no value: it was never given one, or lost it.
    OwnerUnknown {
        /// The owner.
        owner: String,
    },
    /// An owner has several allocations. Another program stored them: a ledger gives each owner one.
    SeveralAllocations {
        /// The owner.
        owner: String,
        /// What it has, ascending.
        has: Vec<Allocation>,
    },
    /// Values in a row are in use and have no owner, while others have one.
    NoOwner {
        /// The values.
        has: Allocation,
    },
}

impl Display for LedgerFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnerGone { owner, has } => write!(f, "{owner} is gone and has {}", values_from(has)),
            Self::OwnerUnknown { owner } => write!(f, "{owner} has no value"),
            Self::SeveralAllocations { owner, has } => {
                let has: Vec<String> = has.iter().map(values_from).collect();
                write!(f, "{owner} has several allocations: {}", has.join(", "))
            }
            Self::NoOwner { has } => match has.len {
                1 => write!(f, "{} is in use and has no owner", has.first),
                len => write!(f, "{len} values from {} are in use and have no owner", has.first),
            },
        }
    }
}

impl Ledger {
    /// Compares the owners with the list of those that exist, in any order. The list must not be older than the ledger:
    /// read it afterwards. Findings about owners come first, by owner, then values without one, ascending.
    ///
    /// Cost: O(n log n) for n owners; the values in use are looked at if any of them has an owner.
    pub fn audit<'a>(&self, owners: impl IntoIterator<Item = &'a str>) -> Vec<LedgerFinding> {
        let listed: BTreeSet<&str> = owners.into_iter().collect();
        let allocations =
            |runs: Vec<(u64, u32)>| runs.into_iter().map(|(first, len)| self.allocation(first, len)).collect();
        let known: BTreeMap<&str, Vec<Allocation>> =
            self.owners.by_owner().map(|(owner, runs)| (owner, allocations(runs))).collect();
        let mut findings = Vec::new();
        for owner in known.keys().copied().chain(listed.iter().copied()).collect::<BTreeSet<_>>() {
            let Some(has) = known.get(owner) else {
                findings.push(LedgerFinding::OwnerUnknown { owner: owner.into() });
                continue;
            };
            if !listed.contains(owner) {
                findings.extend(has.iter().map(|has| LedgerFinding::OwnerGone { owner: owner.into(), has: *has }));
            } else if has.len() > 1 {
                findings.push(LedgerFinding::SeveralAllocations { owner: owner.into(), has: has.clone() });
            }
        }
        if !self.owners.is_empty() {
            let unowned = self.offsets().filter(|offset| self.owners.at(*offset).is_none());
            let runs = in_a_row(unowned).into_iter().map(|(first, len)| self.allocation(first, len));
            findings.extend(runs.map(|has| LedgerFinding::NoOwner { has }));
        }
        findings
    }
}

/// How many audits in a row have found an owner gone. An allocation is often stored before its owner is, so one audit
/// proves little.
#[derive(Clone, Debug)]
pub struct OwnerLeaks {
    passes: NonZeroU8,
    counts: BTreeMap<String, u8>,
}

impl OwnerLeaks {
    /// An owner is due once as many audits in a row have found it gone; [`leak::DEFAULT_PASSES`](crate::leak) is the
    /// reference's number.
    pub fn new(passes: NonZeroU8) -> Self {
        Self::counted(passes, BTreeMap::new())
    }

    /// Goes on with the [`counts`](Self::counts) of an earlier program.
    pub fn counted(passes: NonZeroU8, counts: BTreeMap<String, u8>) -> Self {
        Self { passes, counts }
    }

    /// How many audits in a row have found each owner gone that is not due yet.
    pub fn counts(&self) -> &BTreeMap<String, u8> {
        &self.counts
    }

    /// Counts an audit. Returns the owners that are due to be [released](Ledger::release_owner), whose counts begin
    /// at 0 again.
    pub fn advance(&mut self, findings: &[LedgerFinding]) -> Vec<String> {
        let gone: BTreeSet<&str> = findings
            .iter()
            .filter_map(|finding| match finding {
                LedgerFinding::OwnerGone { owner, .. } => Some(owner.as_str()),
                _ => None,
            })
            .collect();
        let mut due = Vec::new();
        let mut counts = BTreeMap::new();
        for owner in gone {
            let count = self.counts.get(owner).copied().unwrap_or(0).saturating_add(1);
            if count >= self.passes.get() {
                due.push(owner.to_owned());
            } else {
                counts.insert(owner.to_owned(), count);
            }
        }
        self.counts = counts;
        due
    }
}
