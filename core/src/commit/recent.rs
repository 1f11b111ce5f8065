//! Sets that forget their members after a while.

use std::time::Duration;

use crate::bitmap::Bitmap;

/// A set of offsets, each of which leaves it `span` after its insertion at the earliest, and `span * N / (N - 1)` after
/// it at the latest.
///
/// Memory: up to `N` bitmaps, none while nothing happens.
#[derive(Clone, Debug)]
pub(super) struct Recent<const N: usize> {
    len: u32,
    /// How long a window is open.
    step: Duration,
    /// The newest first.
    windows: [Option<Bitmap>; N],
    /// When the newest was opened.
    opened: Duration,
}

impl<const N: usize> Recent<N> {
    pub(super) fn new(len: u32, span: Duration) -> Self {
        Self { len, step: span / (N as u32 - 1), windows: [const { None }; N], opened: Duration::ZERO }
    }

    /// Drops the members whose time is over.
    pub(super) fn advance(&mut self, now: Duration) {
        for _ in 0..N {
            if now.saturating_sub(self.opened) < self.step {
                return;
            }
            self.windows.rotate_right(1);
            self.windows[0] = None;
            self.opened += self.step;
        }
        // All windows are over.
        self.opened = now;
    }

    pub(super) fn insert(&mut self, offset: u32) {
        self.windows[0].get_or_insert_with(|| Bitmap::new(self.len)).insert(offset);
    }

    pub(super) fn remove(&mut self, offset: u32) {
        for window in self.windows.iter_mut().flatten() {
            window.remove(offset);
        }
    }

    /// Removes all members of `set`.
    pub(super) fn remove_all(&mut self, set: &Bitmap) {
        for window in self.windows.iter_mut().flatten() {
            window.difference_with(set);
        }
    }

    /// How many offsets there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn contains(&self, offset: u32) -> bool {
        self.windows.iter().flatten().any(|window| window.contains(offset))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.iter().flatten().next().is_none()
    }

    /// Adds all members to `set`.
    pub(super) fn add_to(&self, set: &mut Bitmap) {
        for window in self.windows.iter().flatten() {
            set.union_with(window);
        }
    }

    pub(super) fn clear(&mut self) {
        self.windows = [const { None }; N];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(10);

    #[test]
    fn members_leave_after_the_span_and_at_most_a_window_later() {
        for entered in 0..15 {
            let mut recent = Recent::<3>::new(100, SPAN);
            let mut left = None;
            for second in 0..40 {
                recent.advance(Duration::from_secs(second));
                if second == entered {
                    recent.insert(5);
                } else if second > entered && left.is_none() && !recent.contains(5) {
                    left = Some(second - entered);
                }
            }
            assert!(left.is_some_and(|after| (10..=15).contains(&after)), "entered {entered}, left after {left:?}");
            assert!(recent.is_empty(), "its memory is returned");
        }
    }

    #[test]
    fn a_member_that_enters_again_stays_and_one_that_is_removed_is_gone() {
        let mut recent = Recent::<3>::new(100, SPAN);
        for second in [0, 6] {
            recent.advance(Duration::from_secs(second));
            recent.insert(5);
            recent.insert(6);
        }
        recent.remove(6);
        assert!(!recent.contains(6), "it is gone from both windows");
        recent.advance(Duration::from_secs(15));
        assert!(recent.contains(5));
        recent.advance(Duration::from_secs(1000));
        assert!(!recent.contains(5));
    }
}
