//! When a committer sends its next request: how it waits for more operations, and for other servers.

use std::time::Duration;

use rand_core::Rng;

use super::timers::{Timer, Timers};

/// How long a compare-and-swap waits for more operations at most.
const LINGER: Duration = Duration::from_millis(1);
/// The first wait after a failure. It doubles with each further one, up to the longest.
const BACK_OFF: Duration = Duration::from_millis(1);
const LONGEST_BACK_OFF: Duration = Duration::from_millis(256);
/// For how many compare-and-swaps other servers count as writing the key, after one has.
const CONTENDED_SWAPS: u32 = 16;

/// What the last requests tell about the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// How long a compare-and-swap takes, on average.
    swap_takes: Duration,
    /// How many compare-and-swaps in a row have lost the race.
    conflicts: u32,
    /// How many requests in a row have failed.
    failures: u32,
    /// How many operations the last answer ended: as many may come back.
    ended: usize,
}

impl Pacing {
    /// The store has answered a request with operations.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
    }

    /// A compare-and-swap was written, which took so long. If others write, too, one of them goes first.
    pub(super) fn won(&mut self, took: Duration, now: Duration, timers: &mut Timers) {
        self.conflicts = 0;
        self.swap_takes = (self.swap_takes * 3 + took) / 4;
        if timers.is_running(Timer::Contended, now) {
            timers.set(Timer::Retry, now + self.swap_takes.min(LONGEST_BACK_OFF));
        }
    }

    /// A compare-and-swap has lost the race. The first retry waits, as servers that lost before go first.
    pub(super) fn lost(&mut self, now: Duration, timers: &mut Timers, rng: &mut impl Rng) {
        self.conflicts += 1;
        let longest = if self.conflicts == 1 { self.swap_takes / 2 } else { Duration::ZERO };
        timers.set(Timer::Retry, now + jitter(longest, rng));
    }

    /// A request has failed or has an unknown outcome.
    pub(super) fn failed(&mut self, now: Duration, timers: &mut Timers, rng: &mut impl Rng) {
        self.failures += 1;
        let longest = BACK_OFF.saturating_mul(1 << self.failures.min(16)).min(LONGEST_BACK_OFF);
        timers.set(Timer::Retry, now + jitter(longest, rng));
    }

    /// Another server has written the key.
    pub(super) fn contended(&self, now: Duration, timers: &mut Timers) {
        timers.set(Timer::Contended, now + self.swap_takes * CONTENDED_SWAPS);
    }

    /// Whether a compare-and-swap would probably lose the race, as others write and the last answer is so old.
    pub(super) fn would_lose(&self, answer_age: Duration, now: Duration, timers: &Timers) -> bool {
        timers.is_running(Timer::Contended, now) && answer_age > self.swap_takes / 2
    }

    /// An answer ended so many operations. Their callers may come back and share the next batch.
    pub(super) fn ended(&mut self, operations: usize, now: Duration, timers: &mut Timers) {
        self.ended = operations;
        timers.set(Timer::Linger, now + LINGER);
    }

    /// Whether a batch of the `waiting` operations waits for more.
    pub(super) fn lingers(&self, waiting: usize, now: Duration, timers: &Timers) -> bool {
        waiting < self.ended && timers.is_running(Timer::Linger, now)
    }
}

/// Some time up to `longest`.
fn jitter(longest: Duration, rng: &mut impl Rng) -> Duration {
    let share = rng.next_u64() >> 32;
    longest.mul_f64(share as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Duration {
        NOW + Duration::from_millis(millis)
    }

    fn retry_at(timers: &Timers) -> Duration {
        timers.next(Some(Timer::Retry)).expect("a retry")
    }

    #[test]
    fn failures_wait_longer_each_time_up_to_a_bound() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut longest = [Duration::ZERO; 20];
        for _ in 0..200 {
            let (mut pacing, mut timers) = (Pacing::default(), Timers::default());
            for (failure, longest) in longest.iter_mut().enumerate() {
                pacing.failed(NOW, &mut timers, &mut rng);
                let wait = retry_at(&timers) - NOW;
                assert!(
                    wait <= BACK_OFF * 2 * (1 << failure.min(10)) && wait <= LONGEST_BACK_OFF,
                    "{failure}: {wait:?}"
                );
                *longest = wait.max(*longest);
            }
            pacing.answered();
            pacing.failed(NOW, &mut timers, &mut rng);
            assert!(retry_at(&timers) - NOW <= BACK_OFF * 2);
        }
        assert!(longest.is_sorted_by(|shorter, longer| *longer > LONGEST_BACK_OFF / 2 || shorter < longer));
    }

    #[test]
    fn the_first_loser_waits_and_later_retries_do_not() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let (mut pacing, mut timers) = (Pacing::default(), Timers::default());
        pacing.won(Duration::from_millis(40), NOW, &mut timers);
        assert_eq!(pacing.swap_takes, Duration::from_millis(10));
        pacing.lost(NOW, &mut timers, &mut rng);
        assert!(retry_at(&timers) > NOW && retry_at(&timers) <= at(5));
        pacing.lost(NOW, &mut timers, &mut rng);
        assert_eq!(retry_at(&timers), NOW);
    }

    #[test]
    fn the_winner_waits_only_under_contention() {
        let (mut pacing, mut timers) = (Pacing::default(), Timers::default());
        pacing.won(Duration::from_millis(40), NOW, &mut timers);
        assert!(!timers.is_set(Timer::Retry));
        assert!(!pacing.would_lose(Duration::from_secs(1), NOW, &timers));
        pacing.contended(NOW, &mut timers);
        assert!(pacing.would_lose(Duration::from_millis(6), NOW, &timers));
        assert!(!pacing.would_lose(Duration::from_millis(5), NOW, &timers));
        assert!(!pacing.would_lose(Duration::from_millis(6), at(160), &timers), "16 compare-and-swaps later");
        pacing.won(Duration::from_millis(10), NOW, &mut timers);
        assert_eq!(retry_at(&timers), at(10));
    }

    #[test]
    fn a_batch_lingers_for_as_many_operations_as_the_last_one_ended() {
        let (mut pacing, mut timers) = (Pacing::default(), Timers::default());
        assert!(!pacing.lingers(0, NOW, &timers));
        pacing.ended(3, NOW, &mut timers);
        assert!(pacing.lingers(2, NOW, &timers) && !pacing.lingers(3, NOW, &timers));
        assert!(!pacing.lingers(2, at(1), &timers));
    }
}
