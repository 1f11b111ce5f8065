//! Ranges of NodePorts.
//!
//! ```
//! use rangekeeper::ports::PortRange;
//!
//! let range: PortRange = "30000-32767".parse()?;
//! assert_eq!((range.low(), range.high()), (30_000, 32_767));
//! assert_eq!("30000+2767".parse(), Ok(range));
//! # Ok::<(), rangekeeper::ports::ParsePortRangeError>(())
//! ```

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::range::{Range, static_band};

/// Ports `low..=high`; offset 0 is `low`.
///
/// `Display` writes `low-high`, also for a single port (k8s.io/apimachinery `pkg/util/net/port_range.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    low: u16,
    high: u16,
}

/// Why a text is not a port range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParsePortRangeError {
    /// The text has none of the three forms.
    #[error("port range {text:?} is neither LOW-HIGH nor LOW+OFFSET nor a single PORT")]
    Form {
        /// The input.
        text: String,
    },
    /// A part of the text is not a number.
    #[error("port range {text:?}: {part:?} is not a number")]
    Number {
        /// The input.
        text: String,
        /// The part.
        part: String,
    },
    /// The range ends above 65535.
    #[error("port range {text:?} ends above port 65535")]
    TooHigh {
        /// The input.
        text: String,
    },
    /// The last port is lower than the first one.
    #[error("port range {text:?} ends at {high}, below its first port {low}")]
    Reversed {
        /// The input.
        text: String,
        /// The first port.
        low: u16,
        /// The last port.
        high: u16,
    },
}

impl PortRange {
    /// The ports from `low` to `high`, both included; `None` if `high` is below `low`.
    pub fn new(low: u16, high: u16) -> Option<Self> {
        (low <= high).then_some(Self { low, high })
    }

    /// The first port.
    pub fn low(&self) -> u16 {
        self.low
    }

    /// The last port.
    pub fn high(&self) -> u16 {
        self.high
    }
}

impl Range for PortRange {
    type Value = u16;

    #[inline]
    fn size(&self) -> u32 {
        u32::from(self.high - self.low) + 1
    }

    #[inline]
    fn static_band(&self) -> u32 {
        static_band(u64::from(self.size()), 32, 128)
    }

    #[inline]
    fn offset_of(&self, port: u16) -> Option<u32> {
        (self.low..=self.high).contains(&port).then(|| u32::from(port - self.low))
    }

    #[inline]
    fn value_at(&self, offset: u32) -> Option<u16> {
        (offset < self.size()).then(|| self.low + offset as u16)
    }
}

impl Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// Reads `low-high`, `low+offset` (high = low + offset) or one port, with space around it.
impl FromStr for PortRange {
    type Err = ParsePortRangeError;

    fn from_str(text: &str) -> Result<Self, ParsePortRangeError> {
        use ParsePortRangeError as E;
        let number = |part: &str| -> Result<u64, E> {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(E::Number { text: text.into(), part: part.into() });
            }
            // Numbers above the highest port are refused below; saturated, the sum of two of them cannot overflow.
            Ok(part.bytes().fold(0, |number: u64, digit| (number * 10 + u64::from(digit - b'0')).min(1 << 32)))
        };
        let trimmed = text.trim();
        let (low, high) = match (trimmed.split_once('-'), trimmed.split_once('+')) {
            (Some((low, high)), None) => (number(low)?, number(high)?),
            (None, Some((low, offset))) => {
                let low = number(low)?;
                // The reference's number parser accepts a sign.
                (low, low + number(offset.strip_prefix('+').unwrap_or(offset))?)
            }
            (None, None) if !trimmed.is_empty() => {
                let port = number(trimmed)?;
                (port, port)
            }
            _ => return Err(E::Form { text: text.into() }),
        };
        let (Ok(low), Ok(high)) = (u16::try_from(low), u16::try_from(high)) else {
            return Err(E::TooHigh { text: text.into() });
        };
        Self::new(low, high).ok_or_else(|| E::Reversed { text: text.into(), low, high })
    }
}
