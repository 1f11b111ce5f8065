//! Values of a ledger, changes to it, and what they allocate, as C passes them.

use std::ffi::c_char;
use std::net::IpAddr;

use rangekeeper_core::ledger::{Allocation, Change, LedgerValue, Want};

use crate::error::Failure;
use crate::guard::guard;
use crate::range::network;
use crate::result::rk_result;
use crate::scope::{Buffer, borrow};
use crate::value::{RK_VALUE_KIND_IPV4, RK_VALUE_KIND_IPV6, address, rk_value};

/// The kinds of values of a ledger.
pub type rk_ledger_value_kind = u32;
/// An integer: low is the integer; high and size are 0.
pub const RK_LEDGER_VALUE_KIND_INTEGER: rk_ledger_value_kind = 1501;
/// Integers in a row: low is the lowest one, size their number; high is 0.
pub const RK_LEDGER_VALUE_KIND_BLOCK: rk_ledger_value_kind = 1502;
/// An IPv4 address: low is its 32-bit number; high and size are 0.
pub const RK_LEDGER_VALUE_KIND_IPV4: rk_ledger_value_kind = 1503;
/// An IPv6 address: high and low are the halves of its 128-bit number; size is 0.
pub const RK_LEDGER_VALUE_KIND_IPV6: rk_ledger_value_kind = 1504;
/// A network of IPv4: its address as RK_LEDGER_VALUE_KIND_IPV4, size is the length of the prefix.
pub const RK_LEDGER_VALUE_KIND_IPV4_NETWORK: rk_ledger_value_kind = 1505;
/// A network of IPv6: its address as RK_LEDGER_VALUE_KIND_IPV6, size is the length of the prefix.
pub const RK_LEDGER_VALUE_KIND_IPV6_NETWORK: rk_ledger_value_kind = 1506;

/// A value of a ledger: an integer or an address, or a block of them. Its kind determines the meaning of the numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct rk_ledger_value {
    /// High half; see the kinds.
    pub high: u64,
    /// Low half; see the kinds.
    pub low: u64,
    /// How large the value is; see the kinds.
    pub size: u64,
    /// The kind.
    pub kind: rk_ledger_value_kind,
}

impl rk_ledger_value {
    /// An address with its kind, which is another one for IPv4 and IPv6; `size` is the length of a network's prefix.
    fn of_address(address: IpAddr, [ipv4, ipv6]: [rk_ledger_value_kind; 2], size: u64) -> Self {
        let rk_value { high, low, .. } = address.into();
        Self { high, low, size, kind: if address.is_ipv4() { ipv4 } else { ipv6 } }
    }

    /// The value in the core's form; `None` if the numbers do not follow their kind.
    fn get(self) -> Option<LedgerValue> {
        let Self { high, low, size, kind } = self;
        let kind = match kind {
            RK_LEDGER_VALUE_KIND_INTEGER if high == 0 && size == 0 => return Some(LedgerValue::Integer(low)),
            RK_LEDGER_VALUE_KIND_BLOCK if high == 0 => return Some(LedgerValue::IntegerBlock { first: low, size }),
            RK_LEDGER_VALUE_KIND_IPV4 | RK_LEDGER_VALUE_KIND_IPV4_NETWORK => RK_VALUE_KIND_IPV4,
            RK_LEDGER_VALUE_KIND_IPV6 | RK_LEDGER_VALUE_KIND_IPV6_NETWORK => RK_VALUE_KIND_IPV6,
            _ => return None,
        };
        let address = address(&rk_value { high, low, kind }).ok()?;
        match self.kind {
            RK_LEDGER_VALUE_KIND_IPV4 | RK_LEDGER_VALUE_KIND_IPV6 => {
                (size == 0).then_some(LedgerValue::Address(address))
            }
            _ => network(address, size.try_into().ok()?).map(LedgerValue::Network),
        }
    }

    /// The value of this parameter.
    pub(crate) fn checked(self, parameter: &str) -> Result<LedgerValue, Failure> {
        self.get().ok_or_else(|| {
            let Self { high, low, size, kind } = self;
            let message = format_args!("{parameter} is malformed: kind {kind}, high {high}, low {low}, size {size}");
            Failure::new(rk_result::InvalidArgument, message)
        })
    }
}

impl From<LedgerValue> for rk_ledger_value {
    fn from(value: LedgerValue) -> Self {
        match value {
            LedgerValue::Integer(low) => Self { low, kind: RK_LEDGER_VALUE_KIND_INTEGER, ..Self::default() },
            LedgerValue::IntegerBlock { first: low, size } => {
                Self { high: 0, low, size, kind: RK_LEDGER_VALUE_KIND_BLOCK }
            }
            LedgerValue::Address(address) => {
                Self::of_address(address, [RK_LEDGER_VALUE_KIND_IPV4, RK_LEDGER_VALUE_KIND_IPV6], 0)
            }
            LedgerValue::Network(network) => Self::of_address(
                network.ip(),
                [RK_LEDGER_VALUE_KIND_IPV4_NETWORK, RK_LEDGER_VALUE_KIND_IPV6_NETWORK],
                network.prefix().into(),
            ),
            // The core's enum may get kinds that this ABI does not have yet: bindings show that as a malformed value.
            _ => Self::default(),
        }
    }
}

/// Writes a value as text: "4096", "1000010000/10000", "10.96.0.10" or "10.0.3.16/28".
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ledger_value_text(
    value: *const rk_ledger_value,
    buffer: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> rk_result {
    guard(|scope| {
        // SAFETY: the caller's promise; see guard.
        let (value, buffer) = unsafe { (borrow(scope, value)?, Buffer::new(scope, buffer, capacity, len)?) };
        buffer.write_text(&value.get().ok_or(rk_result::InvalidArgument)?.to_string())
    })
}

/// Values in a row that are in use.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_ledger_allocation {
    /// The first value.
    pub first: rk_ledger_value,
    /// How many values; 1 at least.
    pub len: u32,
}

impl From<Allocation> for rk_ledger_allocation {
    fn from(allocation: Allocation) -> Self {
        Self { first: allocation.first.into(), len: allocation.len }
    }
}

/// What a change does.
pub type rk_ledger_change_kind = u32;
/// Allocates any free value, as the pool chooses.
pub const RK_LEDGER_CHANGE_ALLOCATE: rk_ledger_change_kind = 1601;
/// Allocates value, if it is free or cools down.
pub const RK_LEDGER_CHANGE_ALLOCATE_VALUE: rk_ledger_change_kind = 1602;
/// Allocates n values in a row; n is at least 1.
pub const RK_LEDGER_CHANGE_ALLOCATE_RUN: rk_ledger_change_kind = 1603;
/// Allocates 2^n values in a row, of which the first one is a multiple of 2^n; n is at most 31. For an address that is
/// its number, so that the block is a network; in a range of blocks its place in the range.
pub const RK_LEDGER_CHANGE_ALLOCATE_BLOCK: rk_ledger_change_kind = 1604;
/// Releases value, which must have no owner; one that is not in use is no error.
pub const RK_LEDGER_CHANGE_RELEASE_VALUE: rk_ledger_change_kind = 1605;
/// Releases all that the owner has.
pub const RK_LEDGER_CHANGE_RELEASE_OWNER: rk_ledger_change_kind = 1606;
/// Changes nothing: in a shared ledger it ends once the store was read after its submission. Then call
/// rk_shared_ledger_known, before the next poll.
pub const RK_LEDGER_CHANGE_READ: rk_ledger_change_kind = 1607;

/// A change to a ledger; its kind determines what the fields mean.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rk_ledger_change {
    /// The value; see the kinds. Ignored otherwise.
    pub value: rk_ledger_value,
    /// What to do.
    pub kind: rk_ledger_change_kind,
    /// A number; see the kinds. Ignored otherwise.
    pub n: u32,
}

impl rk_ledger_change {
    /// The change in the core's form. An empty owner is none.
    pub(crate) fn get(self, owner: &str) -> Result<Change, Failure> {
        let Self { value, kind, n } = self;
        let value = || value.checked("the value of change");
        let want = match kind {
            RK_LEDGER_CHANGE_ALLOCATE => Want::Any,
            RK_LEDGER_CHANGE_ALLOCATE_VALUE => Want::Value(value()?),
            RK_LEDGER_CHANGE_ALLOCATE_RUN => Want::Run(n),
            RK_LEDGER_CHANGE_ALLOCATE_BLOCK => Want::Block(n.try_into().unwrap_or(u8::MAX)),
            RK_LEDGER_CHANGE_RELEASE_VALUE => return Ok(Change::Release { value: value()? }),
            RK_LEDGER_CHANGE_READ => return Ok(Change::Read),
            RK_LEDGER_CHANGE_RELEASE_OWNER if owner.is_empty() => {
                return Err(Failure::new(rk_result::InvalidArgument, "a release by owner needs an owner"));
            }
            RK_LEDGER_CHANGE_RELEASE_OWNER => return Ok(Change::ReleaseOwner { owner: owner.to_owned() }),
            _ => {
                let message = format_args!("the kind of change, {kind}, is unknown");
                return Err(Failure::new(rk_result::InvalidArgument, message));
            }
        };
        Ok(Change::Allocate { want, owner: (!owner.is_empty()).then(|| owner.to_owned()) })
    }
}
