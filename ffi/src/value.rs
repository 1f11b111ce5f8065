//! Values of any kind, as C passes them.

use std::ffi::c_char;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rangekeeper_core::address::parse_address;
use rangekeeper_core::any::AnyValue;

use crate::error::Failure;
use crate::guard::guard;
use crate::result::rk_result;
use crate::scope::{Buffer, Out, borrow, text};

/// The kinds of values.
pub type rk_value_kind = u32;
/// Any free value: only as a request of a batch. low and high are 0.
pub const RK_VALUE_KIND_ANY: rk_value_kind = 0;
/// A port: low is its number, high is 0.
pub const RK_VALUE_KIND_PORT: rk_value_kind = 1;
/// An IPv4 address: low is its 32-bit number (10.0.0.1 is 0x0a000001), high is 0.
pub const RK_VALUE_KIND_IPV4: rk_value_kind = 4;
/// An IPv6 address: high and low are the halves of its 128-bit number. An IPv4-mapped address is the IPv4 address.
pub const RK_VALUE_KIND_IPV6: rk_value_kind = 6;
/// A text that should be an address and is not: only in findings.
pub const RK_VALUE_KIND_TEXT: rk_value_kind = 7;

/// No value: that of a claim whose text is no address, and a missing one in bindings. No range has it, and low and
/// high are 0.
pub const RK_VALUE_KIND_NONE: rk_value_kind = 8;
/// A number of a range of numbers: low is below 2^32, high is 0.
pub const RK_VALUE_KIND_NUMBER: rk_value_kind = 9;

/// An address, a port or a number; its kind determines the meaning of high and low. rk_value_port, rk_value_number,
/// rk_value_ipv4, rk_value_ipv6 and rk_value_any, at the end of this header, build one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rk_value {
    /// High half; see the kinds.
    pub high: u64,
    /// Low half; see the kinds.
    pub low: u64,
    /// The kind.
    pub kind: rk_value_kind,
}

/// The numbers do not follow their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAValue(rk_value);

impl From<NotAValue> for rk_result {
    #[inline(always)]
    fn from(_: NotAValue) -> Self {
        Self::InvalidArgument
    }
}

impl NotAValue {
    /// The failure of a call with this argument.
    pub(crate) fn of(self, argument: impl Display) -> Failure {
        let rk_value { high, low, kind } = self.0;
        Failure::new(self.into(), format_args!("{argument} is malformed: kind {kind}, high {high}, low {low}"))
    }
}

impl TryFrom<rk_value> for AnyValue {
    type Error = NotAValue;

    #[inline(always)]
    fn try_from(value: rk_value) -> Result<Self, NotAValue> {
        let rk_value { high, low, kind } = value;
        let valid = match kind {
            RK_VALUE_KIND_IPV4 if high == 0 => {
                u32::try_from(low).ok().map(|low| Self::Address(Ipv4Addr::from_bits(low).into()))
            }
            RK_VALUE_KIND_IPV6 => {
                Some(Self::Address(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()))
            }
            RK_VALUE_KIND_PORT if high == 0 => u16::try_from(low).ok().map(Self::Port),
            RK_VALUE_KIND_NUMBER if high == 0 => u32::try_from(low).ok().map(Self::Number),
            _ => None,
        };
        valid.ok_or(NotAValue(value))
    }
}

/// A value that follows its kind, in the form that C has: what allocators work on.
///
/// Going through [`AnyValue`] would take an address apart into bytes and put it together again: some 10 ns per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value(rk_value);

impl Value {
    #[inline]
    pub(crate) fn get(self) -> rk_value {
        self.0
    }

    /// The value in the core's form; `None` for [`RK_VALUE_KIND_NONE`].
    pub(crate) fn any(self) -> Option<AnyValue> {
        AnyValue::try_from(self.0).ok()
    }
}

impl TryFrom<&rk_value> for Value {
    type Error = NotAValue;

    #[inline(always)]
    fn try_from(value: &rk_value) -> Result<Self, NotAValue> {
        let valid = match value.kind {
            // The kinds of the hot path, recognised without a jump.
            RK_VALUE_KIND_IPV4 => value.high | value.low >> 32 == 0,
            RK_VALUE_KIND_PORT => value.high | value.low >> 16 == 0,
            RK_VALUE_KIND_NONE => value.high | value.low == 0,
            _ => AnyValue::try_from(*value).is_ok(),
        };
        if valid { Ok(Self(*value)) } else { Err(NotAValue(*value)) }
    }
}

/// The values of this parameter. The error names the first one that does not follow its kind.
pub(crate) fn values_of(parameter: &str, values: &[rk_value]) -> Result<Vec<Value>, Failure> {
    let value = |(index, value): (usize, &rk_value)| {
        Value::try_from(value).map_err(|error| error.of(format_args!("value {index} of {parameter}")))
    };
    values.iter().enumerate().map(value).collect()
}

impl From<AnyValue> for Value {
    #[inline(always)]
    fn from(value: AnyValue) -> Self {
        Self(value.into())
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.any() {
            Some(value) => Display::fmt(&value, f),
            None => f.write_str("no value"),
        }
    }
}

impl From<AnyValue> for rk_value {
    #[inline]
    fn from(value: AnyValue) -> Self {
        match value {
            AnyValue::Address(address) => address.into(),
            AnyValue::Port(port) => Self { high: 0, low: port.into(), kind: RK_VALUE_KIND_PORT },
            AnyValue::Number(number) => Self { high: 0, low: number.into(), kind: RK_VALUE_KIND_NUMBER },
        }
    }
}

impl From<IpAddr> for rk_value {
    #[inline]
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { high: 0, low: address.to_bits().into(), kind: RK_VALUE_KIND_IPV4 },
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                Self { high: (bits >> 64) as u64, low: bits as u64, kind: RK_VALUE_KIND_IPV6 }
            }
        }
    }
}

/// A value that must be an address.
pub(crate) fn address(value: &rk_value) -> Result<IpAddr, rk_result> {
    match (*value).try_into()? {
        AnyValue::Address(address) => Ok(address),
        AnyValue::Port(_) | AnyValue::Number(_) => Err(rk_result::InvalidArgument),
    }
}

/// Parses an address as Kubernetes does, leniently: leading zeros are decimal, and an IPv4-mapped IPv6 address is the
/// IPv4 address. No zones, no surrounding space.
///
/// RK_RESULT_INVALID_ARGUMENT if the text is not an address.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_address_parse(
    address: *const c_char,
    address_len: usize,
    value: *mut rk_value,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (address, value) = unsafe { (text(scope, address, address_len)?, Out::new(scope, value)?) };
        value.write(parse_address(address).ok_or(rk_result::InvalidArgument)?.into());
        Ok(())
    })
}

/// Writes a value as text, at most 45 bytes without a terminating NUL: an address in its canonical form, a port or a
/// number in decimal.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_value_text(
    value: *const rk_value,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (value, buffer) = unsafe { (borrow(scope, value)?, Buffer::new(scope, buffer, capacity, len)?) };
        buffer.write_text(&AnyValue::try_from(*value)?.to_string())
    })
}
