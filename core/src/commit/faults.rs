//! Faults that the simulation puts into the protocol, to see that it would find them. Without the feature `faults`
//! none of them can be on, and nothing of them is compiled.

#[cfg(feature = "faults")]
pub(super) use switched::repeat;
#[cfg(feature = "faults")]
pub use switched::set;

/// A rule of the protocol that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "faults"), allow(dead_code))]
#[allow(missing_docs, reason = "docs/simulation.md says what each one is")]
pub enum Fault {
    AllocateWhatTheSwapClears = 1,
    ClearsBeforeAllocations = 2,
    NetZeroFromCache = 3,
    RefusedFromCache = 4,
    FreeFromCache = 5,
    ClearWithoutHistory = 6,
    FirstAndLastCompared = 7,
    CreateRevisionIgnored = 8,
    TwoVersionsTakenForOne = 9,
    WatchWithGap = 10,
    DeleteIgnored = 11,
    CompactedTakenAsEmpty = 12,
    ReleaseWithoutAnchor = 13,
    ReleaseRepeatedBlindly = 14,
    SetBitTakenForOurs = 15,
    EqualBytesTakenForOurs = 16,
    RepeatedWithOldRights = 17,
    CounterSurvivesGap = 18,
    CounterSurvivesCleaning = 19,
    PassesNotSpaced = 25,
    SnapshotRewritten = 26,
    RollbackClearsOthers = 27,
    BatchHalfApplied = 28,
    CacheSurvivesRestore = 29,
    LateAnswerAcknowledged = 30,
    CounterIgnoresChanges = 31,
    UnreadableTakenAsEmpty = 32,
    LeakCleanedYoung = 33,
    AnchorOfAnotherStore = 34,
    WatchAcrossStores = 35,
    DoubtOnlyOfAllocations = 36,
    DeletedRangeMadeAnewEmpty = 37,
    OldAnswerAfterReconnect = 38,
    OwnNotProtected = 39,
    LastForeignRevisionTrusted = 40,
    FlightForgotten = 41,
    MissingTakenForStillMissing = 42,
    FirstAnswerTrusted = 43,
    PassAcrossStores = 44,
    ServicesNotGuarded = 45,
    ClearsKeptUnguarded = 46,
    ClearsKept = 48,
    LossForgotten = 49,
    OtherRangeTakenForOwn = 50,
    OldestIgnored = 51,
    NewStoreNotWary = 57,
    HandedOutNotSetAgain = 61,
    RevisionBackIgnored = 62,
    CancelledNotReleased = 63,
    WatchOfAnotherKey = 64,
    HeldAcrossChange = 65,
    FollowedWithoutHistory = 66,
    OwnProtectedShortly = 67,
    LateAfterWholeGrace = 68,
    ForgottenTakenForKnown = 69,
    RepairSetsWithoutHistory = 70,
    QuarantineIgnored = 71,
    DuplicatesReleased = 72,
    FirstChangeOverlooked = 73,
    GraceFromAnswer = 74,
    OneSightingTooMany = 75,
    ForeignAnchorKept = 76,
    RefusalTakenForFailure = 77,
}

impl Fault {
    /// Whether it is on.
    #[cfg(not(feature = "faults"))]
    pub(super) const fn is_on(self) -> bool {
        false
    }
}

#[cfg(feature = "faults")]
mod switched {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::mem;
    use std::time::Duration;

    use rand_core::Rng;

    use super::Fault;
    use crate::allocator::Request as Wanted;
    use crate::commit::base::{Base, Content, Standing};
    use crate::commit::round::{Entry, Planned, Round};
    use crate::commit::{Committer, Failure, Flight, Operation, Outcome, Pending, Request};
    use crate::range::Range;

    thread_local! {
        /// Bit n is the fault of number n.
        static ON: Cell<u128> = const { Cell::new(0) };
    }

    /// Puts faults on, in this thread: bit n is the fault of number n.
    pub fn set(faults: u128) {
        ON.set(faults);
    }

    impl Fault {
        /// Whether it is on.
        pub fn is_on(self) -> bool {
            ON.get() >> self as u8 & 1 == 1
        }
    }

    impl<R: Range, G: Rng> Committer<R, G> {
        /// Faults 3 to 5: ends operations by what is known, without asking the store. `None` if nothing is left to be sent.
        pub(in crate::commit) fn end_from_cache(&mut self, mut round: Round<R>) -> Option<Round<R>> {
            let (header, _) = self.last?;
            if round.next.is_none() && Fault::NetZeroFromCache.is_on() {
                self.confirmed(header, round);
                return None;
            }
            for entry in mem::take(&mut round.entries) {
                match entry.planned {
                    Planned::End(outcome @ Outcome::Failed(Failure::Allocate(_)))
                        if Fault::RefusedFromCache.is_on() =>
                    {
                        self.end(entry.pending.owner, outcome);
                    }
                    Planned::End(outcome @ Outcome::Released { freed: false }) if Fault::FreeFromCache.is_on() => {
                        self.end(entry.pending.owner, outcome);
                    }
                    planned => round.entries.push(Entry { planned, ..entry }),
                }
            }
            (!round.entries.is_empty()).then_some(round)
        }

        /// Fault 15: takes an allocation for ours because its values are in use.
        pub(in crate::commit) fn taken_for_ours(&self, pending: &Pending<R>) -> Option<Outcome<R>> {
            let (Operation::Allocate(wanted), Some(base)) = (&pending.operation, &self.base) else { return None };
            let mut values = Vec::new();
            for wanted in wanted.iter().filter(|_| Fault::SetBitTakenForOurs.is_on()) {
                let Wanted::This(value) = *wanted else { return None };
                values
                    .extend(self.range.offset_of(value).filter(|offset| base.used().contains(*offset)).map(|_| value));
            }
            let revision = base.state.mod_revision;
            let is_whole = !values.is_empty() && values.len() == wanted.len();
            is_whole.then_some(Outcome::Allocated { values, revision, use_until: Duration::MAX })
        }

        /// Fault 16: takes a swap for ours because its bytes are stored.
        pub(in crate::commit) fn claim_equal_bytes(&mut self, now: Duration) {
            let (true, Some(base)) = (Fault::EqualBytesTakenForOurs.is_on(), &self.base) else { return };
            let equal = |round: &Round<R>| round.next.as_ref().is_some_and(|next| next.used.bitmap() == base.used());
            let revision = base.state.mod_revision;
            let Some(mut round) = self.repeat.take().filter(|round| round.state != base.state && equal(round)) else {
                return;
            };
            reclaim(&mut round, &mut self.queue);
            for Entry { pending, planned } in round.entries {
                match planned {
                    Planned::Take(offsets) => {
                        let values = offsets.iter().filter_map(|offset| self.range.value_at(*offset)).collect();
                        let use_until = now + self.config.grace / 2;
                        self.end(pending.owner, Outcome::Allocated { values, revision, use_until });
                    }
                    _ => self.queue.push_back(pending),
                }
            }
        }
    }

    /// Takes those of the round's operations out of the queue that are still in it.
    fn reclaim<R: Range>(round: &mut Round<R>, queue: &mut VecDeque<Pending<R>>) {
        round.entries.retain(|entry| {
            let at = queue.iter().position(|pending| pending.owner == entry.pending.owner);
            at.and_then(|at| queue.remove(at)).is_some()
        });
    }

    /// Faults 17 and 26: writes on the new base what was decided on the old one.
    pub(in crate::commit) fn repeat<R: Range>(
        last: &mut Option<Round<R>>,
        base: &Base<R>,
        queue: &mut VecDeque<Pending<R>>,
        asked: u64,
        now: Duration,
        flight: &mut Option<Flight<R>>,
    ) -> Option<Request> {
        let mut round = last.take_if(|_| !Fault::EqualBytesTakenForOurs.is_on())?;
        let Content::Readable(readable) = &base.content else { return None };
        let initialised = readable.standing == Standing::Initialised;
        let next = round.next.as_mut().filter(|_| base.state != round.state && initialised)?;
        if Fault::RepeatedWithOldRights.is_on() {
            *next = readable.clone();
            round.set.iter().for_each(|offset| _ = next.used.bitmap_mut().insert(*offset));
            round.cleared.iter().for_each(|offset| _ = next.used.bitmap_mut().remove(*offset));
        }
        reclaim(&mut round, queue);
        round.state = base.state;
        let (guard, services_unchanged_since) = (base.state, round.services_unchanged_since);
        let value = round.value(&mut Vec::new()).filter(|_| !round.entries.is_empty())?;
        let reached = base.state.mod_revision;
        *flight = Some(Flight { sent: now, asked, reached, is_swap: true, round: Some(round) });
        Some(Request::Swap { guard, value, services_unchanged_since })
    }
}
