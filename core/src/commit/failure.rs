//! Why an operation failed.

use crate::allocator::BatchError;
use crate::range::Range;

/// Why an operation changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure<R: Range> {
    /// The values could not be allocated.
    #[error(transparent)]
    Allocate(#[from] BatchError<R>),
    /// There is no object, or it was never initialised: a repair pass or
    /// [`Operation::Create`](super::Operation::Create) comes first.
    #[error("the stored range was never initialised")]
    NotInitialised,
    /// The object is there for another range, which only a repair pass changes.
    #[error("the stored range is {found:?}, expected {expected}")]
    MismatchedRange {
        /// The configured range.
        expected: R,
        /// The range of the stored object.
        found: String,
    },
    /// A repair would replace or create a range that Services need as it is ([`Replace`](super::Replace)).
    #[error(
        "{}, the configured one is {expected} (Services outside of it: {outside})", stored(found, *recorded)
    )]
    RangeInUse {
        /// The configured range.
        expected: R,
        /// The range of the stored object; empty if there is none.
        found: String,
        /// How many values the stored object records.
        recorded: u32,
        /// How many Services have a value that the configured range does not have.
        outside: u32,
    },
    /// The stored object cannot be decoded, and so is not overwritten.
    #[error("what is stored cannot be read: {message}")]
    Unreadable {
        /// Why.
        message: String,
    },
    /// The store refused the request.
    #[error("the store refused: {message}")]
    Refused {
        /// The store's reason.
        message: String,
    },
    /// The Services of a repair were listed before the view that it is about ([`Diff::listed`](super::Diff::listed)):
    /// what was allocated meanwhile looks leaked.
    #[error("Services were listed at revision {listed}, before the range was read at revision {read}")]
    StaleList {
        /// When Services were listed.
        listed: u64,
        /// When the range was read.
        read: u64,
    },
    /// A Service was written after those of an edit were listed: it may have a value of the edit. Or the look at them
    /// is gone: the store may have been restored to a state from before.
    #[error("a Service was written, or the store restored, after revision {listed}, at which Services were listed")]
    ServicesWritten {
        /// When Services were listed.
        listed: u64,
    },
    /// Its time was over before it was sent.
    #[error("the deadline was exceeded before the operation was sent")]
    DeadlineExceeded,
    /// The caller no longer waited for it.
    #[error("the operation was cancelled")]
    Cancelled,
}

fn stored(range: &str, recorded: u32) -> String {
    match range {
        "" => "there is no stored range".to_owned(),
        range => format!("the stored range is {range} (values recorded: {recorded})"),
    }
}
