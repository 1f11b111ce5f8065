//! What is to happen in a schedule, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in the order of their times, and those of one time in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    /// By number.
    events: Vec<Option<E>>,
    next: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { events: Vec::with_capacity(256), next: BinaryHeap::with_capacity(64) }
    }

    pub(crate) fn add(&mut self, at: u64, event: E) {
        self.next.push(Reverse((at, self.events.len() as u32)));
        self.events.push(Some(event));
    }

    /// The next event, and its time.
    pub(crate) fn take(&mut self) -> Option<(u64, E)> {
        let Reverse((at, number)) = self.next.pop()?;
        self.events[number as usize].take().map(|event| (at, event))
    }
}
