//! The codes that entry points return.

use std::ffi::CStr;

/// How a call ended. Numbers never change and are never reused.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum rk_result {
    /// Success.
    Ok = 0,
    /// A pointer is NULL that must not be.
    NullPointer = 1,
    /// The caller's buffer is too small. The required length was written, and nothing else.
    BufferTooSmall = 2,
    /// An argument has no meaning: an unknown number, a malformed value, an index past the end, a length beyond the
    /// address space, a pointer that is not aligned.
    InvalidArgument = 3,
    /// A text is not UTF-8.
    InvalidUtf8 = 4,
    /// A fault in Rangekeeper was caught, and the handle is poisoned.
    Panic = 5,
    /// An earlier call with this handle returned RK_RESULT_PANIC. The handle can only be freed.
    Poisoned = 6,
    /// The pass or audit has ended.
    Ended = 7,
    /// Every value of the range is allocated.
    Full = 16,
    /// The value is allocated.
    AlreadyAllocated = 17,
    /// The value cannot be allocated from the range.
    NotInRange = 18,
    /// The stored data belongs to another range.
    MismatchedRange = 19,
    /// The stored bitmap has bits past the end of its range.
    BitsPastRange = 20,
    /// A text is not a range.
    InvalidRange = 21,
    /// There already is a range for values of that kind.
    SameKind = 22,
    /// The value has an owner, which alone can release it.
    Owned = 23,
    /// The owner has something else already.
    HasOther = 24,
    /// A stored object is not a RangeAllocation.
    InvalidObject = 32,
    /// A stored object is encrypted at rest.
    Encrypted = 33,
    /// A batch is malformed; nothing of it was recorded.
    InvalidBatch = 34,
    /// A stored object is missing or was never initialised.
    NotInitialised = 48,
    /// The store refused a request.
    Refused = 49,
    /// An operation's deadline passed before it was sent.
    DeadlineExceeded = 50,
    /// An operation was cancelled.
    Cancelled = 51,
    /// A list is too old: of Services before the range of a repair was read, of IPAddress objects before what the index
    /// has observed.
    StaleList = 52,
    /// Values are recorded as allocated, and no Service was observed.
    NoServices = 53,
    /// No compare-and-swap is under way.
    NoSwap = 54,
    /// Objects of the cluster could not be read.
    Unreadable = 55,
    /// A repair would replace a stored range, or create one, that Services need otherwise.
    RangeInUse = 56,
    /// A Service was written after those of an edit were listed, or the look that proves the list is gone
    /// (rk_repair_pass_fenced).
    ServicesWritten = 57,
    /// A write had no answer: whether the change took effect is unknown, and it is not repeated.
    Unanswered = 58,
    /// A change has not ended, or its outcome was told before.
    NotEnded = 59,
    /// A text is not JSON, or not of the documented form.
    InvalidJson = 64,
    /// A configuration cannot be used, or a question about a plan has no answer.
    InvalidConfig = 65,
}

impl rk_result {
    /// Every code.
    pub(crate) const ALL: [Self; 34] = [
        Self::Ok,
        Self::NullPointer,
        Self::BufferTooSmall,
        Self::InvalidArgument,
        Self::InvalidUtf8,
        Self::Panic,
        Self::Poisoned,
        Self::Ended,
        Self::Full,
        Self::AlreadyAllocated,
        Self::NotInRange,
        Self::MismatchedRange,
        Self::BitsPastRange,
        Self::InvalidRange,
        Self::SameKind,
        Self::Owned,
        Self::HasOther,
        Self::InvalidObject,
        Self::Encrypted,
        Self::InvalidBatch,
        Self::NotInitialised,
        Self::Refused,
        Self::DeadlineExceeded,
        Self::Cancelled,
        Self::StaleList,
        Self::NoServices,
        Self::NoSwap,
        Self::Unreadable,
        Self::RangeInUse,
        Self::ServicesWritten,
        Self::Unanswered,
        Self::NotEnded,
        Self::InvalidJson,
        Self::InvalidConfig,
    ];

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Ok => c"OK",
            Self::NullPointer => c"NULL_POINTER",
            Self::BufferTooSmall => c"BUFFER_TOO_SMALL",
            Self::InvalidArgument => c"INVALID_ARGUMENT",
            Self::InvalidUtf8 => c"INVALID_UTF8",
            Self::Panic => c"PANIC",
            Self::Poisoned => c"POISONED",
            Self::Ended => c"ENDED",
            Self::Full => c"FULL",
            Self::AlreadyAllocated => c"ALREADY_ALLOCATED",
            Self::NotInRange => c"NOT_IN_RANGE",
            Self::MismatchedRange => c"MISMATCHED_RANGE",
            Self::BitsPastRange => c"BITS_PAST_RANGE",
            Self::InvalidRange => c"INVALID_RANGE",
            Self::SameKind => c"SAME_KIND",
            Self::Owned => c"OWNED",
            Self::HasOther => c"HAS_OTHER",
            Self::InvalidObject => c"INVALID_OBJECT",
            Self::Encrypted => c"ENCRYPTED",
            Self::InvalidBatch => c"INVALID_BATCH",
            Self::NotInitialised => c"NOT_INITIALISED",
            Self::Refused => c"REFUSED",
            Self::DeadlineExceeded => c"DEADLINE_EXCEEDED",
            Self::Cancelled => c"CANCELLED",
            Self::StaleList => c"STALE_LIST",
            Self::NoServices => c"NO_SERVICES",
            Self::NoSwap => c"NO_SWAP",
            Self::Unreadable => c"UNREADABLE",
            Self::RangeInUse => c"RANGE_IN_USE",
            Self::ServicesWritten => c"SERVICES_WRITTEN",
            Self::Unanswered => c"UNANSWERED",
            Self::NotEnded => c"NOT_ENDED",
            Self::InvalidJson => c"INVALID_JSON",
            Self::InvalidConfig => c"INVALID_CONFIG",
        }
    }
}
