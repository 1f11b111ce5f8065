//! Ranges, as C passes them: plain values.

use std::ffi::c_char;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rangekeeper_core::any::{AnyRange, AnyValue, ParseRangeError};
use rangekeeper_core::bitmap::Bitmap;
use rangekeeper_core::ipnetwork::IpNetwork;
use rangekeeper_core::numbers::NumberRange;
use rangekeeper_core::range::Range;
use rangekeeper_core::snapshot::changes;
use rangekeeper_core::{CidrRange, PortRange};

use crate::error::{Failure, Named, rk_error};
use crate::guard::{guard, guard_error};
use crate::result::rk_result;
use crate::scope::{Array, Out, Scope, Unusable, borrow, borrow_optional, slice, text};
use crate::value::{RK_VALUE_KIND_IPV4, RK_VALUE_KIND_IPV6, RK_VALUE_KIND_NUMBER, RK_VALUE_KIND_PORT, Value, rk_value};

/// The kinds of ranges.
pub type rk_range_kind = u32;
/// Addresses of a CIDR.
pub const RK_RANGE_KIND_CIDR: rk_range_kind = 1201;
/// Ports.
pub const RK_RANGE_KIND_PORTS: rk_range_kind = 1202;
/// Plain numbers from 0 on, for callers that keep the offset of each of their values.
pub const RK_RANGE_KIND_NUMBERS: rk_range_kind = 1203;

/// Bytes in the text of an rk_range_description, the NUL at its end included: more than any range needs.
pub const RK_RANGE_TEXT_CAPACITY: usize = 48;

/// A range: which values it has, and the offset of each. rk_range_parse writes one. It may be copied, and nothing of it
/// is freed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rk_range {
    /// The network address, the lowest port, or of numbers the size of the static band.
    pub first: rk_value,
    /// The length of the prefix, the highest port, or how many numbers there are.
    pub extent: u32,
}

impl From<AnyRange> for rk_range {
    fn from(range: AnyRange) -> Self {
        match range {
            AnyRange::Cidr(range) => {
                let network = range.network();
                Self { first: network.ip().into(), extent: network.prefix().into() }
            }
            AnyRange::Ports(range) => Self { first: AnyValue::Port(range.low()).into(), extent: range.high().into() },
            AnyRange::Numbers(range) => {
                Self { first: AnyValue::Number(range.static_band()).into(), extent: range.size() }
            }
        }
    }
}

impl rk_range {
    /// The range in the core's form; `None` if the fields are not those of a range.
    fn get(self) -> Option<AnyRange> {
        match AnyValue::try_from(self.first).ok()? {
            AnyValue::Address(first) => network(first, self.extent).map(|network| CidrRange::new(network).into()),
            AnyValue::Port(low) => PortRange::new(low, self.extent.try_into().ok()?).map(AnyRange::from),
            AnyValue::Number(static_band) => NumberRange::new(self.extent, static_band).map(AnyRange::from),
        }
    }
}

/// The network with this address and length of the prefix; `None` if there is none, or the address has host bits.
pub(crate) fn network(address: IpAddr, prefix: u32) -> Option<IpNetwork> {
    let network = IpNetwork::new(address, prefix.try_into().ok()?).ok()?;
    (network.network() == address).then_some(network)
}

/// The range of the caller's.
///
/// # Safety
/// As [`borrow`].
pub(crate) unsafe fn range(scope: &Scope, range: *const rk_range) -> Result<AnyRange, Unusable> {
    // SAFETY: as promised to this function.
    unsafe { borrow(scope, range) }?.get().ok_or(Unusable::NotARange)
}

/// As [`range`], where NULL stands for nothing.
///
/// # Safety
/// As [`borrow_optional`].
pub(crate) unsafe fn range_optional(scope: &Scope, range: *const rk_range) -> Result<Option<AnyRange>, Unusable> {
    // SAFETY: as promised to this function.
    let given = unsafe { borrow_optional(scope, range) }?;
    given.map(|range| range.get().ok_or(Unusable::NotARange)).transpose()
}

/// The core's range over C's values; see [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueRange(pub(crate) AnyRange);

impl From<ValueRange> for AnyRange {
    fn from(range: ValueRange) -> Self {
        range.0
    }
}

impl Display for ValueRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl FromStr for ValueRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        text.parse().map(Self)
    }
}

impl Range for ValueRange {
    type Value = Value;

    #[inline]
    fn size(&self) -> u32 {
        self.0.size()
    }

    #[inline]
    fn static_band(&self) -> u32 {
        self.0.static_band()
    }

    #[inline(always)]
    fn offset_of(&self, value: Value) -> Option<u32> {
        // A Value follows its kind, so that nothing is cut off here.
        let rk_value { high, low, kind } = value.get();
        match (&self.0, kind) {
            (AnyRange::Cidr(range), RK_VALUE_KIND_IPV4) => range.offset_of(Ipv4Addr::from_bits(low as u32).into()),
            (AnyRange::Cidr(range), RK_VALUE_KIND_IPV6) => {
                range.offset_of(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into())
            }
            (AnyRange::Ports(range), RK_VALUE_KIND_PORT) => range.offset_of(low as u16),
            (AnyRange::Numbers(range), RK_VALUE_KIND_NUMBER) => range.offset_of(low as u32),
            _ => None,
        }
    }

    #[inline(always)]
    fn value_at(&self, offset: u32) -> Option<Value> {
        match &self.0 {
            AnyRange::Cidr(range) => range.value_at(offset).map(|address| AnyValue::Address(address).into()),
            AnyRange::Ports(range) => range.value_at(offset).map(|port| AnyValue::Port(port).into()),
            AnyRange::Numbers(range) => range.value_at(offset).map(|number| AnyValue::Number(number).into()),
        }
    }

    fn is_same_kind(&self, other: &Self) -> bool {
        self.0.is_same_kind(&other.0)
    }
}

/// A range in numbers, and its text.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_range_description {
    /// How many values can be allocated; offsets are below that. In IPv6 they are at most 65,535, as in a bitmap of
    /// kube-apiserver's; 0 is possible ("10.0.0.1/32").
    pub size: u32,
    /// How many of the lowest offsets form the static band, which dynamic allocation uses last (KEP-3070, KEP-3668).
    pub static_band: u32,
    /// Bytes in text, without the NUL at its end.
    pub text_len: usize,
    /// The canonical text, as it is stored beside the bitmap, with a terminating NUL.
    pub text: [c_char; RK_RANGE_TEXT_CAPACITY],
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

impl From<ParseRangeError> for Failure {
    fn from(error: ParseRangeError) -> Self {
        Self::new(rk_result::InvalidRange, error)
    }
}

/// The values of `bitmap` from offset `from` on, and the offset to go on from.
pub(crate) fn values_page(range: AnyRange, bitmap: &Bitmap, from: u32, values: Array<rk_value>) -> (usize, u32) {
    match range {
        AnyRange::Cidr(range) => typed_page(range, AnyValue::Address, bitmap, from, values),
        AnyRange::Ports(range) => typed_page(range, AnyValue::Port, bitmap, from, values),
        AnyRange::Numbers(range) => typed_page(range, AnyValue::Number, bitmap, from, values),
    }
}

fn typed_page<R: Range>(
    range: R,
    any: impl Fn(R::Value) -> AnyValue,
    bitmap: &Bitmap,
    from: u32,
    values: Array<rk_value>,
) -> (usize, u32) {
    let mut next = from;
    let written = values.fill(bitmap.iter_from(from).filter_map(|offset| {
        next = offset + 1;
        range.value_at(offset).map(|value| any(value).into())
    }));
    (written, next)
}

/// Parses a range. `kind` is RK_RANGE_KIND_CIDR for "10.96.0.0/12" and the like (IPv4 or IPv6; host bits are cleared),
/// RK_RANGE_KIND_PORTS for "30000-32767", "30000+2767" or one port, or RK_RANGE_KIND_NUMBERS for "100000 numbers, 16
/// static".
///
/// RK_RESULT_INVALID_RANGE.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_parse(
    spec: *const c_char,
    spec_len: usize,
    kind: rk_range_kind,
    range: *mut rk_range,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (spec, out) = (text(scope, spec, spec_len).named("spec")?, Out::new(scope, range).named("range")?);
            let range = match kind {
                RK_RANGE_KIND_CIDR => AnyRange::Cidr(spec.parse().map_err(ParseRangeError::from)?),
                RK_RANGE_KIND_PORTS => AnyRange::Ports(spec.parse().map_err(ParseRangeError::from)?),
                RK_RANGE_KIND_NUMBERS => AnyRange::Numbers(spec.parse().map_err(ParseRangeError::from)?),
                _ => {
                    let message = format_args!("kind {kind} is unknown: it is CIDR, ports or numbers");
                    return Err(Failure::new(rk_result::InvalidArgument, message));
                }
            };
            out.write(range.into());
            Ok(())
        })
    }
}

/// Writes the size, static band and text of a range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_describe(
    range: *const rk_range,
    description: *mut rk_range_description,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (range, out) = unsafe { (self::range(scope, range)?, Out::new(scope, description)?) };
        let mut text = [0; RK_RANGE_TEXT_CAPACITY];
        let canonical = range.to_string();
        // The NUL at the end stays.
        for (place, byte) in text[..RK_RANGE_TEXT_CAPACITY - 1].iter_mut().zip(canonical.bytes()) {
            *place = byte as c_char;
        }
        out.write(rk_range_description {
            size: range.size(),
            static_band: range.static_band(),
            text_len: canonical.len(),
            text,
            reserved: [0; 2],
        });
        Ok(())
    })
}

/// Writes the offset of a value.
///
/// RK_RESULT_NOT_IN_RANGE if it cannot be allocated from the range: network and broadcast addresses, values of another
/// kind.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_offset_of(
    range: *const rk_range,
    value: *const rk_value,
    offset: *mut u32,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (range, value, offset) =
            unsafe { (self::range(scope, range)?, borrow(scope, value)?, Out::new(scope, offset)?) };
        offset.write(ValueRange(range).offset_of(value.try_into()?).ok_or(rk_result::NotInRange)?);
        Ok(())
    })
}

/// Writes the value at an offset.
///
/// RK_RESULT_NOT_IN_RANGE if the offset is not below the size.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_value_at(range: *const rk_range, offset: u32, value: *mut rk_value) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (range, value) = unsafe { (self::range(scope, range)?, Out::new(scope, value)?) };
        value.write(range.value_at(offset).ok_or(rk_result::NotInRange)?.into());
        Ok(())
    })
}

/// Writes to `excludes` whether one cluster cannot have both ranges: two of one IP family (KEP-563), or two of node
/// ports.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_excludes(
    range: *const rk_range,
    other: *const rk_range,
    excludes: *mut bool,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (range, other, excludes) =
            unsafe { (self::range(scope, range)?, self::range(scope, other)?, Out::new(scope, excludes)?) };
        excludes.write(range.excludes(&other));
        Ok(())
    })
}

/// Compares two snapshots of a range (see rk_allocator_snapshot): writes a page of the values that only one of them
/// contains, ascending, and for each to `allocated` whether `after` contains it.
///
/// RK_RESULT_BITS_PAST_RANGE, with the bits in `error`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_range_changes(
    range: *const rk_range,
    before: *const u8,
    before_len: usize,
    after: *const u8,
    after_len: usize,
    from_offset: u32,
    values: *mut rk_value,
    allocated: *mut bool,
    capacity: usize,
    n: *mut usize,
    next_offset: *mut u32,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let (range, before, after) = (
                self::range(scope, range).named("range")?,
                slice(scope, before, before_len).named("before")?,
                slice(scope, after, after_len).named("after")?,
            );
            let (values, flags) = (
                Array::new(scope, values, capacity).named("values")?,
                Array::new(scope, allocated, capacity).named("allocated")?,
            );
            let (n, next) = (Out::new(scope, n).named("n")?, Out::new(scope, next_offset).named("next_offset")?);
            let (allocated, mut changed) =
                changes(range, before, after).map_err(|past| Failure::bits_past_range(past, &past))?;
            changed.union_with(&allocated);
            flags.fill(changed.iter_from(from_offset).map(|offset| allocated.contains(offset)));
            let (written, after) = values_page(range, &changed, from_offset, values);
            n.write(written);
            next.write(after);
            Ok(())
        })
    }
}
