//! The points in time that a committer waits for or remembers.

use std::time::Duration;

/// How long a watch may take to report what happened between two answers.
const HISTORY_WAIT: Duration = Duration::from_millis(100);
/// After so long in addition, operations that wait for the watch go on without it.
const WATCH_LOST: Duration = Duration::from_secs(5);
/// How long a watch is kept after something waited for it: etcd lets a new one wait for up to 100 ms.
const WATCH_KEPT: Duration = Duration::from_secs(10);

/// For which part of the grace after an identified store as-of revisions are compared with its revision before they are
/// used: a release may be about a Service that was deleted in the store that was there before. 11 seconds in
/// Kubernetes.
const NEW_STORE_SHARE: u32 = 32;

/// What a point in time is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Timer {
    /// The earliest deadline of an operation.
    Deadline,
    /// The watch ends, as nothing has waited for it any more.
    Watch,
    /// The next request may be sent, after a failure or a conflict.
    Retry,
    /// A compare-and-swap waits for more operations.
    Linger,
    /// Nothing is sent while operations wait for history: otherwise steady writes by others put them off for ever.
    HistoryWait,
    /// The watch has not caught up: operations go on without history.
    WatchLost,
    /// Other servers count as writing the key, too.
    Contended,
    /// An as-of revision later than the last answer needs a read first: the store, or the connection to it, is new.
    NewStore,
}

/// How many timers there are.
const COUNT: usize = Timer::NewStore as usize + 1;

/// One table of all of them. A timer stays set when its time is over, until it is stopped or set again.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers([Option<Duration>; COUNT]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Duration) {
        self.0[timer as usize] = Some(at);
    }

    /// Sets a timer unless it is set for an earlier time. `Duration::MAX` is never.
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Duration) {
        let slot = &mut self.0[timer as usize];
        *slot = (*slot).into_iter().chain((at < Duration::MAX).then_some(at)).min();
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    /// Stops a timer if its time is over.
    pub(super) fn expire(&mut self, timer: Timer, now: Duration) {
        if self.is_over(timer, now) {
            self.stop(timer);
        }
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Whether the time of a timer is yet to come.
    pub(super) fn is_running(&self, timer: Timer, now: Duration) -> bool {
        self.0[timer as usize].is_some_and(|at| now < at)
    }

    /// Whether the time of a timer is over.
    pub(super) fn is_over(&self, timer: Timer, now: Duration) -> bool {
        self.0[timer as usize].is_some_and(|at| now >= at)
    }

    /// No operation has an earlier deadline than this.
    pub(super) fn set_next_deadline(&mut self, deadline: Duration) {
        self.stop(Timer::Deadline);
        self.set_earlier(Timer::Deadline, deadline);
    }

    /// The store, or the connection to it, is new.
    pub(super) fn begin_new_store(&mut self, now: Duration, grace: Duration) {
        self.set(Timer::NewStore, now + grace / NEW_STORE_SHARE);
    }

    /// Operations wait for a watch, or none does. Returns whether they have waited for too long.
    pub(super) fn wait_for_watch(&mut self, waits: bool, now: Duration) -> bool {
        if !waits {
            self.stop(Timer::HistoryWait);
            self.stop(Timer::WatchLost);
            return false;
        }
        if !self.is_set(Timer::HistoryWait) {
            self.set(Timer::HistoryWait, now + HISTORY_WAIT);
            self.set(Timer::WatchLost, now + HISTORY_WAIT + WATCH_LOST);
        }
        self.set(Timer::Watch, now + WATCH_KEPT);
        self.is_over(Timer::WatchLost, now)
    }

    /// When the committer has something to do next, while this timer holds it up.
    pub(super) fn next(&self, held_up_by: Option<Timer>) -> Option<Duration> {
        let wakes = [Some(Timer::Deadline), Some(Timer::Watch), held_up_by];
        wakes.into_iter().flatten().filter_map(|timer| self.0[timer as usize]).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_timer_runs_until_its_time() {
        let mut timers = Timers::default();
        assert!(!timers.is_running(Timer::Retry, at(0)) && !timers.is_over(Timer::Retry, at(0)));
        timers.set(Timer::Retry, at(5));
        assert!(timers.is_running(Timer::Retry, at(4)) && !timers.is_over(Timer::Retry, at(4)));
        assert!(!timers.is_running(Timer::Retry, at(5)) && timers.is_over(Timer::Retry, at(5)));
        timers.expire(Timer::Retry, at(4));
        assert!(timers.is_set(Timer::Retry));
        timers.expire(Timer::Retry, at(5));
        assert!(!timers.is_set(Timer::Retry));
    }

    #[test]
    fn the_earliest_deadline_stays() {
        let mut timers = Timers::default();
        timers.set_earlier(Timer::Deadline, Duration::MAX);
        assert!(!timers.is_set(Timer::Deadline), "never");
        for (deadline, earliest) in [(9, 9), (12, 9), (3, 3), (4, 3)] {
            timers.set_earlier(Timer::Deadline, at(deadline));
            assert_eq!(timers.next(None), Some(at(earliest)));
        }
    }

    #[test]
    fn who_waits_for_a_watch_waits_from_the_first_time_on() {
        let mut timers = Timers::default();
        assert!(!timers.wait_for_watch(false, at(0)) && timers.next(None).is_none());
        assert!(!timers.wait_for_watch(true, at(0)) && !timers.wait_for_watch(true, at(50)));
        assert!(timers.is_running(Timer::HistoryWait, at(99)) && timers.is_over(Timer::HistoryWait, at(100)));
        assert_eq!(timers.next(None), Some(at(10_050)), "the watch is kept from the last time on");
        assert!(!timers.wait_for_watch(true, at(5_099)) && timers.wait_for_watch(true, at(5_100)));
        assert!(!timers.wait_for_watch(false, at(5_100)) && !timers.wait_for_watch(true, at(5_100)));
        assert!(timers.is_running(Timer::HistoryWait, at(5_199)), "it begins again");
    }

    #[test]
    fn only_what_holds_up_wakes_beside_deadline_and_watch() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(None), None);
        timers.set(Timer::Linger, at(1));
        timers.set(Timer::Contended, at(2));
        assert_eq!(timers.next(None), None);
        assert_eq!(timers.next(Some(Timer::Linger)), Some(at(1)));
        timers.set(Timer::Watch, at(8));
        timers.set(Timer::Retry, at(9));
        assert_eq!(timers.next(Some(Timer::Retry)), Some(at(8)));
        timers.set(Timer::Deadline, at(7));
        assert_eq!(timers.next(Some(Timer::Retry)), Some(at(7)));
    }
}
