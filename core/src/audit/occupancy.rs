//! Counts per stretch of a range, for an occupancy map.

/// One stretch of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Offset of its first value.
    pub first: u64,
    /// How many values it has.
    pub len: u64,
    /// Values that Services use.
    pub in_use: u64,
    /// Values recorded as allocated that no Service uses.
    pub leaked: u64,
    /// Values that Services use though they are not recorded as allocated; part of `in_use`.
    pub lost: u64,
    /// Values that more than one Service claims; part of `in_use`.
    pub duplicate: u64,
}

/// The most stretches: one for each value of a /12.
const MOST: u32 = 1 << 20;

/// Cuts `0..size` into at most `count` stretches of equal length, and at most [`MOST`], except that the last one may be
/// shorter; into none if `count` is 0. A stretch is counted when the iterator reaches it; the iterator's length costs
/// nothing.
pub(super) fn cells(
    size: u64,
    count: u32,
    mut cell: impl FnMut(u64, u64) -> Cell,
) -> impl ExactSizeIterator<Item = Cell> {
    let length = size.div_ceil(u64::from(count.clamp(1, MOST))).max(1);
    // At most count, so it fits.
    let stretches = if count == 0 { 0 } else { size.div_ceil(length) as u32 };
    (0..stretches).map(move |index| {
        let first = u64::from(index) * length;
        cell(first, first.saturating_add(length).min(size))
    })
}
