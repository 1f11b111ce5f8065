//! How much a committer remembers, and how much goes into one swap.

/// These bounds. Only a simulation has others than the default ones, so that its short schedules reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many changes of offsets are remembered. With more, the oldest are forgotten, and so are all as-of revisions
    /// before them.
    pub changes: usize,
    /// How many revisions are remembered at most.
    pub revisions: usize,
    /// How many leaks are followed from one pass to the next, however much else changes. Leaks beyond this number are
    /// followed only as long as the remembered changes reach back to the pass.
    pub leaks: usize,
    /// How many states of the key a watch may have to replay for the sake of an operation that comes later.
    pub replayed: u64,
    /// How many of the last cleared offsets are told apart, at most a quarter of the range.
    pub quarantine: u32,
    /// How many operations go into one swap.
    pub operations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let changes = 24 << 10;
        Self { changes, revisions: changes / 8, leaks: 8 << 10, replayed: 256, quarantine: 1024, operations: 4096 }
    }
}
