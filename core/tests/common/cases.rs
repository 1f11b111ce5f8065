//! How many cases random tests play.

/// `count`, or five times as many with RANGEKEEPER_NIGHTLY set, as `make nightly` does. Floors count with it.
pub(crate) fn cases<Number: TryFrom<u32>>(count: u32) -> Number {
    let times = if std::env::var_os("RANGEKEEPER_NIGHTLY").is_some() { 5 } else { 1 };
    Number::try_from(count * times).ok().expect("a number of cases")
}
