//! The values that a ledger hands out: integers or addresses, or blocks of them.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnetwork::IpNetwork;

use crate::address::{IPV4_MAPPED, parse_address};
use crate::cidr::ParseCidrError;
use crate::service_cidr::ServiceCidr;

/// The values of a ledger, each with an offset in `0..=last`.
///
/// `Display` writes the canonical text, which is stored beside the offsets in use, and `FromStr` reads it:
///
/// | text | values | text of a value |
/// |---|---|---|
/// | `4096-16777215` | integers, both included, up to 2^64 - 1 | `4096` |
/// | `1000000000-1999999999/10000` | blocks of 10,000 integers; a rest at the end is in none | `1000010000/10000` |
/// | `10.96.0.0/12` | the addresses of a CIDR, without the network and the IPv4 broadcast address | `10.96.0.10` |
/// | `10.0.0.0/16/28` | the /28 of a /16, from the first to the last | `10.0.3.16/28` |
///
/// Of an IPv6 CIDR that is wider than a /64, the first 2^64 - 1 addresses. A port range or a CIDR of Services has the
/// same offsets as in kube-apiserver, but an IPv6 CIDR that is wider than a /112 has more of them here.
///
/// ```
/// use rangekeeper::ledger::{LedgerRange, LedgerValue};
///
/// let vnis: LedgerRange = "4096-16777215".parse()?;
/// assert_eq!(vnis.value_at(0), Some(LedgerValue::Integer(4096)));
///
/// let uids: LedgerRange = "1000000000-1999999999/10000".parse()?;
/// assert_eq!(uids.last(), 99_999);
/// assert_eq!(uids.value_at(1).map(|value| value.to_string()).as_deref(), Some("1000010000/10000"));
///
/// let subnets: LedgerRange = "10.0.0.0/16/28".parse()?;
/// assert_eq!(subnets.parse_value("10.0.3.16/28")?, LedgerValue::Network("10.0.3.16/28".parse()?));
/// assert_eq!(subnets.offset_of(subnets.parse_value("10.0.3.16/28")?), Some(49));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LedgerRange {
    kind: Kind,
    /// The number of the first value: its integer, or its address as an integer.
    first: u128,
    /// The highest offset.
    last: u64,
    /// How many integers or addresses one value has.
    block: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Integers { high: u64 },
    IntegerBlocks { high: u64 },
    Addresses(ServiceCidr),
    Networks { of: IpNetwork, prefix: u8 },
}

/// One value of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LedgerValue {
    /// An integer.
    Integer(u64),
    /// Integers in a row.
    IntegerBlock {
        /// The lowest one.
        first: u64,
        /// How many.
        size: u64,
    },
    /// An address.
    Address(IpAddr),
    /// A network.
    Network(IpNetwork),
}

impl LedgerValue {
    /// The nth value of this kind and size after it; `None` past the last one that there is.
    pub(super) fn plus(self, n: u64) -> Option<Self> {
        let number_of = |from: IpAddr, step: u32| {
            let (from, is_ipv4) = (number(from), from.is_ipv4());
            let number = u128::from(n).checked_mul(1_u128.checked_shl(step)?)?.checked_add(from)?;
            (!is_ipv4 || number <= u32::MAX.into()).then(|| address(number, is_ipv4))
        };
        Some(match self {
            Self::Integer(integer) => Self::Integer(integer.checked_add(n)?),
            Self::IntegerBlock { first, size } => {
                Self::IntegerBlock { first: n.checked_mul(size)?.checked_add(first)?, size }
            }
            Self::Address(address) => Self::Address(number_of(address, 0)?),
            Self::Network(network) => {
                let bits = if network.is_ipv4() { 32 } else { 128 };
                let next = number_of(network.ip(), bits - u32::from(network.prefix()))?;
                Self::Network(IpNetwork::new(next, network.prefix()).ok()?)
            }
        })
    }
}

impl Display for LedgerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => Display::fmt(integer, f),
            Self::IntegerBlock { first, size } => write!(f, "{first}/{size}"),
            Self::Address(address) => Display::fmt(address, f),
            Self::Network(network) => Display::fmt(network, f),
        }
    }
}

/// Why a text is not a range, a value of it, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLedgerError {
    /// The text is not a range.
    #[error("range {text:?} is neither LOW-HIGH, LOW-HIGH/BLOCK, CIDR nor CIDR/PREFIX: {reason}")]
    Range {
        /// The input.
        text: String,
        /// What does not fit.
        reason: String,
    },
    /// The range has no value, or has IPv4-mapped addresses, which are IPv4 addresses.
    #[error("range {text:?} has no value that can be allocated, or is of IPv6 and has IPv4-mapped addresses")]
    Empty {
        /// The input.
        text: String,
    },
    /// The text is not a value of the range's kind.
    #[error("{text:?} is not a value of the range {range}, such as {example}")]
    Value {
        /// The input.
        text: String,
        /// The range.
        range: String,
        /// The first value of the range.
        example: String,
    },
    /// The value is not in the range.
    #[error("{}", .range.refusal(*.value))]
    NotInRange {
        /// The value.
        value: LedgerValue,
        /// The range.
        range: LedgerRange,
    },
    /// The text is not a part of the range.
    #[error("{text:?} is not a part of the range {range}: {reason}")]
    Part {
        /// The input.
        text: String,
        /// The range.
        range: String,
        /// What does not fit.
        reason: &'static str,
    },
}

impl LedgerRange {
    /// The integers from `low` to `high`, both included; `None` if `high` is below `low`.
    pub fn integers(low: u64, high: u64) -> Option<Self> {
        Some(Self { kind: Kind::Integers { high }, first: low.into(), last: high.checked_sub(low)?, block: 1 })
    }

    /// Blocks of `size` integers from `low` to `high`, both included. A rest at the end that is smaller than a block is
    /// in none. `None` if there is no block.
    pub fn integer_blocks(low: u64, high: u64, size: u64) -> Option<Self> {
        let integers = u128::from(high.checked_sub(low)?) + 1;
        let blocks = integers.checked_div(size.into())?;
        let last = u64::try_from(blocks.checked_sub(1)?).ok()?;
        Some(Self { kind: Kind::IntegerBlocks { high }, first: low.into(), last, block: size.into() })
    }

    /// The addresses of a CIDR that can be allocated; `None` if there is none, or if it is a CIDR of IPv6 with
    /// IPv4-mapped addresses.
    pub fn addresses(cidr: ServiceCidr) -> Option<Self> {
        let last = cidr.size().checked_sub(1)?;
        Self { kind: Kind::Addresses(cidr), first: number(cidr.value_at(0)?), last, block: 1 }.of_one_family()
    }

    /// The networks with a prefix of this length in `of`, whose host bits are cleared: at most the first 2^64. `None`
    /// if `prefix` is shorter than that of `of` or too long for the family, or if `of` has IPv4-mapped addresses.
    pub fn networks(of: IpNetwork, prefix: u8) -> Option<Self> {
        let of = IpNetwork::new(of.network(), of.prefix()).ok()?;
        let bits = if of.is_ipv4() { 32 } else { 128 };
        let more = prefix.checked_sub(of.prefix()).filter(|_| prefix <= bits)?;
        let last = u64::MAX >> (64_u32.saturating_sub(more.into())).min(63);
        let last = if more == 0 { 0 } else { last };
        // A network of all addresses of IPv6 is one value, whose size is of no matter.
        let block = 1_u128.checked_shl((bits - prefix).into()).unwrap_or(u128::MAX);
        Self { kind: Kind::Networks { of, prefix }, first: number(of.ip()), last, block }.of_one_family()
    }

    /// The range; `None` if it is of IPv6 and has IPv4-mapped addresses, which are IPv4 addresses.
    fn of_one_family(self) -> Option<Self> {
        let after = self.first.saturating_add((u128::from(self.last) + 1).saturating_mul(self.block));
        let is_mapped = !self.is_ipv4() && self.first < IPV4_MAPPED.end && after > IPV4_MAPPED.start;
        (!is_mapped).then_some(self)
    }

    /// The highest offset: the number of values, less one.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The offset of `value`, or `None` if it is not in the range.
    pub fn offset_of(&self, value: LedgerValue) -> Option<u64> {
        let number = match (self.kind, value) {
            (Kind::Integers { .. }, LedgerValue::Integer(integer)) => integer.into(),
            (Kind::IntegerBlocks { .. }, LedgerValue::IntegerBlock { first, size })
                if u128::from(size) == self.block =>
            {
                first.into()
            }
            (Kind::Addresses(cidr), LedgerValue::Address(address)) => return cidr.offset_of(address),
            (Kind::Networks { of, prefix }, LedgerValue::Network(network))
                if network.prefix() == prefix && network.is_ipv4() == of.is_ipv4() =>
            {
                number(network.ip())
            }
            _ => return None,
        };
        let distance = number.checked_sub(self.first)?;
        let offset = u64::try_from(distance / self.block).ok()?;
        (distance.is_multiple_of(self.block) && offset <= self.last).then_some(offset)
    }

    /// The value at `offset`, or `None` past the end.
    pub fn value_at(&self, offset: u64) -> Option<LedgerValue> {
        if offset > self.last {
            return None;
        }
        // Within the range, so neither the product nor the sum overflows; a range of one value has offset 0 only.
        let number = self.first + u128::from(offset) * self.block;
        Some(match self.kind {
            Kind::Integers { .. } => LedgerValue::Integer(number as u64),
            Kind::IntegerBlocks { .. } => LedgerValue::IntegerBlock { first: number as u64, size: self.block as u64 },
            Kind::Addresses(cidr) => LedgerValue::Address(cidr.value_at(offset)?),
            Kind::Networks { of, prefix } => {
                LedgerValue::Network(IpNetwork::new(address(number, of.is_ipv4()), prefix).ok()?)
            }
        })
    }

    /// Reads a value of the range.
    ///
    /// # Errors
    /// [`ParseLedgerError::Value`] or [`ParseLedgerError::NotInRange`].
    pub fn parse_value(&self, text: &str) -> Result<LedgerValue, ParseLedgerError> {
        let value = match self.kind {
            Kind::Integers { .. } => integer(text).map(LedgerValue::Integer),
            Kind::IntegerBlocks { .. } => text.split_once('/').and_then(|(first, size)| {
                Some(LedgerValue::IntegerBlock { first: integer(first)?, size: integer(size)? })
            }),
            Kind::Addresses(_) => parse_address(text).map(LedgerValue::Address),
            Kind::Networks { .. } => parse_network(text).map(LedgerValue::Network),
        };
        let value = value.ok_or_else(|| {
            let example = self.value_at(0).map(|value| value.to_string()).unwrap_or_default();
            ParseLedgerError::Value { text: text.into(), range: self.to_string(), example }
        })?;
        self.offset_of(value).map(|_| value).ok_or(ParseLedgerError::NotInRange { value, range: *self })
    }

    /// Says why `value` is not one of the range.
    pub(super) fn refusal(&self, value: LedgerValue) -> String {
        let between = match value {
            LedgerValue::IntegerBlock { first, size } if u128::from(size) == self.block => {
                u128::from(first).checked_sub(self.first).map(|distance| distance / self.block)
            }
            _ => None,
        };
        let block = |offset: u128| u64::try_from(offset).ok().and_then(|offset| self.value_at(offset));
        match between.and_then(|offset| block(offset).zip(block(offset + 1))) {
            Some((before, after)) => {
                format!("{value} is no block of the range {self}, which has {before} and {after} there")
            }
            None => format!("{value} is not in the range {self}"),
        }
    }

    /// Reads a part of the range: `LOW-HIGH`, one integer, or of blocks `FIRST/SIZE`; of addresses and networks
    /// `FIRST-LAST`, one address, or a CIDR. Returns the first and the last offset; a block or network that is in it
    /// only partly counts.
    ///
    /// # Errors
    /// [`ParseLedgerError::Part`], also if the part and the range have no value in common.
    pub fn parse_part(&self, text: &str) -> Result<(u64, u64), ParseLedgerError> {
        let error = |reason| ParseLedgerError::Part { text: text.into(), range: self.to_string(), reason };
        let (low, high) = match self.kind {
            Kind::Integers { .. } | Kind::IntegerBlocks { .. } => {
                let bound = |text| integer(text).map(u128::from);
                let bounds = match text.split_once('/') {
                    Some((first, size)) if matches!(self.kind, Kind::IntegerBlocks { .. }) => bound(first)
                        .zip(bound(size).filter(|size| *size > 0))
                        .map(|(first, size)| (first, first + size - 1)),
                    _ => {
                        let (low, high) = text.split_once('-').unwrap_or((text, text));
                        bound(low).zip(bound(high))
                    }
                };
                bounds.ok_or_else(|| {
                    error(match self.kind {
                        Kind::Integers { .. } => "it is neither LOW-HIGH nor one integer",
                        _ => "it is neither LOW-HIGH, FIRST/SIZE nor one integer",
                    })
                })?
            }
            Kind::Addresses(ServiceCidr { .. }) | Kind::Networks { .. } => {
                let is_ipv4 = self.is_ipv4();
                let (first, last) = match text.split_once('-') {
                    None if text.contains('/') => {
                        parse_network(text).map(|network| (network.network(), network.broadcast()))
                    }
                    None => parse_address(text).map(|address| (address, address)),
                    Some((first, last)) => parse_address(first).zip(parse_address(last)),
                }
                .ok_or_else(|| error("it is neither FIRST-LAST, one address nor a CIDR"))?;
                if first.is_ipv4() != is_ipv4 || last.is_ipv4() != is_ipv4 {
                    return Err(error("it is of the other IP family"));
                }
                (number(first), number(last))
            }
        };
        if high < low {
            return Err(error("it ends before it begins"));
        }
        let outside = || error("they have no value in common");
        let last = u64::try_from(high.checked_sub(self.first).ok_or_else(outside)? / self.block).unwrap_or(u64::MAX);
        let first = u64::try_from(low.saturating_sub(self.first) / self.block).ok();
        let first = first.filter(|first| *first <= self.last).ok_or_else(outside)?;
        Ok((first, last.min(self.last)))
    }

    fn is_ipv4(&self) -> bool {
        match self.kind {
            Kind::Addresses(cidr) => cidr.network().is_ipv4(),
            Kind::Networks { of, .. } => of.is_ipv4(),
            Kind::Integers { .. } | Kind::IntegerBlocks { .. } => false,
        }
    }

    /// The number of the first value, of which blocks of values are aligned to multiples; of a range of blocks 0, as
    /// these are counted.
    pub(super) fn origin(&self) -> u64 {
        if self.block == 1 { self.first as u64 } else { 0 }
    }
}

impl Display for LedgerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Integers { high } => write!(f, "{}-{high}", self.first),
            Kind::IntegerBlocks { high } => write!(f, "{}-{high}/{}", self.first, self.block),
            Kind::Addresses(cidr) => Display::fmt(&cidr, f),
            Kind::Networks { of, prefix } => write!(f, "{of}/{prefix}"),
        }
    }
}

impl FromStr for LedgerRange {
    type Err = ParseLedgerError;

    fn from_str(text: &str) -> Result<Self, ParseLedgerError> {
        let error = |reason: String| ParseLedgerError::Range { text: text.into(), reason };
        let empty = || ParseLedgerError::Empty { text: text.into() };
        if text.contains(['.', ':']) {
            let cidr =
                |text: &str| text.parse::<ServiceCidr>().map_err(|reason: ParseCidrError| error(reason.to_string()));
            let Some((of, prefix)) = text.rsplit_once('/').filter(|(of, _)| of.contains('/')) else {
                return Self::addresses(cidr(text)?).ok_or_else(empty);
            };
            let of = cidr(of)?;
            let longer = || error(format!("{prefix:?} is not a prefix length of a part of {of}"));
            let prefix = integer(prefix).and_then(|prefix| u8::try_from(prefix).ok()).ok_or_else(longer)?;
            return Self::networks(of.network(), prefix).ok_or_else(longer);
        }
        let (span, block) = text.split_once('/').map_or((text, None), |(span, block)| (span, Some(block)));
        let (low, high) = span.split_once('-').ok_or_else(|| error("there is no '-'".into()))?;
        let bound =
            |text: &str| integer(text).ok_or_else(|| error(format!("{text:?} is not an integer from 0 to 2^64 - 1")));
        let (low, high) = (bound(low)?, bound(high)?);
        if high < low {
            return Err(error(format!("{high} is below {low}")));
        }
        match block {
            None => Self::integers(low, high).ok_or_else(empty),
            Some(block) => Self::integer_blocks(low, high, bound(block)?).ok_or_else(empty),
        }
    }
}

/// An integer without a sign.
fn integer(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A network without host bits.
fn parse_network(text: &str) -> Option<IpNetwork> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix) = (parse_address(address)?, u8::try_from(integer(prefix)?).ok()?);
    IpNetwork::new(address, prefix).ok().filter(|network| network.network() == address)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(number: u128, is_ipv4: bool) -> IpAddr {
    if is_ipv4 { Ipv4Addr::from_bits(number as u32).into() } else { Ipv6Addr::from_bits(number).into() }
}
