//! How a committer works.

use std::time::Duration;

use crate::allocator::Strategy;

/// How a committer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How values are chosen.
    pub strategy: Strategy,
    /// In which time a Service has to be written once its values are allocated: two intervals of repair, 6 minutes in
    /// Kubernetes. A creator that takes longer may lose them.
    pub grace: Duration,
}
