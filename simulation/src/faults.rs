//! Faults that the simulation has to find.

/// Those that lie in the shell, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ShellFault {
    /// A pass that is repeated after a conflict counts.
    RetriesCount = 20,
    /// The counters of leaks that were due stay where their clearing was dropped, or its outcome is not known.
    CountersSurviveUnknownClears = 21,
    /// Leaks are cleaned in the first pass that sees them.
    NoGrace = 22,
    /// Services are listed before the read.
    ListedBeforeRead = 23,
    /// Services come from a cache that lags behind.
    StaleList = 24,
    /// Clears depend on Services since the last answer instead of since their list.
    ServicesGuardedLate = 47,
    /// A release names the newest revision that the committer has seen; if that frees nothing, a release as of a read follows.
    ReleasedAsOfNow = 52,
    /// A rollback names the revision of a read instead of the allocation's.
    RolledBackAsOfNow = 53,
    /// The second of two ports that share a value releases it as of a read.
    SharedReleasedTwice = 54,
    /// An update that lost a conflict releases the values that it would have dropped.
    LosingUpdateReleases = 55,
    /// A write of a Service with an unknown outcome releases values as if it had been written.
    UnknownWriteReleases = 56,
    /// An update releases the values that it drops before it writes the Service.
    ReleasedBeforeWrite = 58,
    /// A deletion that finds the Service deleted already releases its values as of a read.
    NotFoundReleasesAsOfNow = 59,
    /// An update releases the values that it drops as of the state before it, and does so after a failed write, too.
    FailedUpdateReleases = 60,
    /// The second of two servers that release the values of one Service does so as of a read.
    SecondServerReleasesAsOfNow = 85,
    /// The write of a Service has no conditions.
    ConditionsIgnored = 90,
    /// That write does not depend on the witness being no older than the allocation.
    RollbackNoCondition = 92,
    /// That write does not depend on the create revision of the witness: no fence came between.
    FenceNoCondition = 93,
    /// The list of a watch cache is passed as one of the store.
    CachedListPassedAsAt = 94,
    /// The compare-and-swap that creates a range puts the witness instead of deleting it.
    CreationNoFence = 95,
    /// A request that holds values of two ranges rolls one of them back only.
    HalfRolledBack = 87,
    /// A request that holds values of two ranges rolls both back as of the allocation in the first.
    RolledBackAsOfTheFirst = 88,
    /// An update that gives the values of one range back releases those of the other, too.
    BothRangesReleased = 89,
}

#[cfg(feature = "faults")]
thread_local! {
    static ON: std::cell::Cell<u128> = const { std::cell::Cell::new(0) };
}

/// Puts faults on, in this thread: bit n is the fault of number n.
#[cfg(feature = "faults")]
pub fn set(faults: u128) {
    ON.set(faults);
    rangekeeper::commit::faults::set(faults);
}

/// Whether the fault of this number is on.
pub(crate) fn is_on(_number: u8) -> bool {
    #[cfg(feature = "faults")]
    return ON.get() >> _number & 1 == 1;
    #[cfg(not(feature = "faults"))]
    false
}

/// Plays something with other faults on than before.
pub(crate) fn with_more<T>(_more: u128, work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "faults")]
    let before = ON.get();
    #[cfg(feature = "faults")]
    set(before | _more);
    let result = work();
    #[cfg(feature = "faults")]
    set(before);
    result
}

impl ShellFault {
    /// Whether it is on.
    #[cfg(feature = "faults")]
    pub fn is_on(self) -> bool {
        ON.get() >> self as u8 & 1 == 1
    }

    /// Whether it is on.
    #[cfg(not(feature = "faults"))]
    pub const fn is_on(self) -> bool {
        false
    }
}
