//! How a committer works.

use std::time::Duration;

use crate::allocator::Strategy;

/// How a committer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How values are chosen.
    pub strategy: Strategy,
    /// How long a creator has to write the Service after the allocation of its values: two intervals of repair,
    /// 6 minutes in Kubernetes. One that takes longer may lose them.
    ///
    /// A committer cleans leaks by its own grace, and knows of no other. Where the write of a Service has no conditions
    /// on the [witness](super::Witness) of the range, as over [`Tokens`](super::Tokens), all programs that share the
    /// range must have the same grace: a shorter one takes values from owners who still have time.
    pub grace: Duration,
    /// Which stored range a repair may replace by the configured one.
    pub replace: Replace,
}

/// Whether a repair replaces an object for another range of the same kind by one for the configured range. An API
/// server whose range is the stored one can allocate nothing from then on, and Services whose values the configured
/// range does not have get them back from nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replace {
    /// Only if no value is recorded in it, and no Service has a value; nor is a missing object created while a Service
    /// has a value outside of the configured range.
    #[default]
    IfUnused,
    /// As [`Always`](Self::Always) until the stored range was the configured one once, and then as
    /// [`IfUnused`](Self::IfUnused).
    Once,
    /// Always, as kube-apiserver does, whose flag is the operator's word
    /// (`pkg/registry/core/service/ipallocator/controller/repair.go`).
    Always,
}
