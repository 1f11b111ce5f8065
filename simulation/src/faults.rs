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
    /// Swaps do not depend on the sidecar.
    SidecarNotGuarded = 48,
    /// Swaps do not write the sidecar.
    SidecarNotWritten = 49,
    /// Clears depend on Services since the last answer instead of since their list.
    ServicesGuardedLate = 58,
}

#[cfg(feature = "faults")]
thread_local! {
    static ON: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Puts faults on, in this thread: bit n is the fault of number n.
#[cfg(feature = "faults")]
pub fn set(faults: u64) {
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
pub(crate) fn with_more<T>(_more: u64, work: impl FnOnce() -> T) -> T {
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
