//! The points in time that a committer waits for or remembers.

use std::time::Duration;

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
    Patience,
    /// The watch has not caught up: operations go on without history.
    WatchLost,
    /// Other servers count as writing the key, too.
    Contended,
    /// An as-of revision later than the last answer needs a read first: the store, or the connection to it, is new.
    Wary,
}

/// How many timers there are.
const COUNT: usize = Timer::Wary as usize + 1;

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
