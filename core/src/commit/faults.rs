//! Faults that the simulation puts into the protocol, to see that it would find them. Without the feature `faults`
//! none of them can be on, and nothing of them is compiled.

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
    ReleaseWithoutAsOf = 13,
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
    AsOfAnotherStore = 34,
    WatchAcrossStores = 35,
    UnknownOnlyForAllocations = 36,
    DeletedRangeRecreatedEmpty = 37,
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
    ForeignAsOfKept = 76,
    RefusalTakenForFailure = 77,
    StoreOfOwnerIgnored = 78,
    WrittenProtected = 79,
    ListTrustedAfterRestore = 80,
    FenceMissing = 81,
    ListBeforeFence = 82,
    ForeignViewAccepted = 83,
    PicksBeforeNames = 84,
    MissingKeyOfAnotherStoreTrusted = 86,
    RecreatedWithoutFence = 91,
    EditNotGuarded = 96,
    EditNotFenced = 97,
    EditPicksUsed = 98,
    EditWithoutHistory = 99,
    LookOfEditIgnored = 100,
    HalfEdit = 101,
    LookOfPassIgnored = 102,
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

    use super::Fault;

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
}
