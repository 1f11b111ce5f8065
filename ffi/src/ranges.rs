//! Which of the ranges that a cluster names is the wrong one.

use std::ffi::c_char;

use rangekeeper_core::audit::{Outcome, judge_ranges};

use crate::error::{Failure, Named, rk_error};
use crate::guard::guard_error;
use crate::report::any_values;
use crate::result::rk_result;
use crate::scope::{Out, slice, text};
use crate::value::rk_value;

/// What the ranges that a cluster names, and the values that its Services use, say together.
pub type rk_ranges_outcome = u32;
/// All ranges are the same, and not nearly all of the values lie outside.
pub const RK_RANGES_OUTCOME_AGREE: rk_ranges_outcome = 0;
/// The ranges differ, and nearly all values lie in those that are not wrong.
pub const RK_RANGES_OUTCOME_DECIDED: rk_ranges_outcome = 1;
/// The ranges differ, and nearly all values lie in each of them, as after a range was widened.
pub const RK_RANGES_OUTCOME_HARMLESS: rk_ranges_outcome = 2;
/// Nearly all values lie outside of the only range, or no range has nearly all of them.
pub const RK_RANGES_OUTCOME_UNDECIDED: rk_ranges_outcome = 3;

/// The judgement on the ranges that a cluster names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rk_ranges_verdict {
    /// What they say together.
    pub outcome: rk_ranges_outcome,
    /// Whether the values show that the flag is wrong.
    pub flag_is_wrong: bool,
    /// Whether they show that the ServiceCIDR object is.
    pub service_cidr_is_wrong: bool,
    /// Whether they show that the bitmaps are.
    pub bitmap_is_wrong: bool,
    /// How many values there are.
    pub values: u64,
    /// How many of them lie in the ranges of the flag.
    pub in_flag: u64,
    /// How many lie in those of the ServiceCIDR object.
    pub in_service_cidr: u64,
    /// How many lie in those of the bitmaps.
    pub in_bitmap: u64,
    /// 0. Room for a field that comes later: the struct never becomes longer.
    pub reserved: [u64; 2],
}

/// Judges by the `values` that Services use which of the ranges that a cluster names is the wrong one: those of the
/// servers' `flag` (--service-cluster-ip-range or --service-node-port-range), of the ServiceCIDR object kubernetes, and
/// of the stored bitmaps. Each text has a range, or two that are separated by a comma, or is empty if nothing is known
/// or stored. Nearly all values are nine of ten.
///
/// RK_RESULT_INVALID_RANGE; RK_RESULT_NOT_IN_RANGE for a value that is none.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_ranges_judge(
    flag: *const c_char,
    flag_len: usize,
    service_cidr: *const c_char,
    service_cidr_len: usize,
    bitmap: *const c_char,
    bitmap_len: usize,
    values: *const rk_value,
    values_len: usize,
    verdict: *mut rk_ranges_verdict,
    error: *mut rk_error,
) -> rk_result {
    // SAFETY: the caller's promise; see guard.
    unsafe {
        guard_error(error, |scope| {
            let flag = text(scope, flag, flag_len).named("flag")?;
            let service_cidr = text(scope, service_cidr, service_cidr_len).named("service_cidr")?;
            let bitmap = text(scope, bitmap, bitmap_len).named("bitmap")?;
            let values = any_values("values", slice(scope, values, values_len).named("values")?)?;
            let out = Out::new(scope, verdict).named("verdict")?;
            let judged = judge_ranges(flag, service_cidr, bitmap, &values).map_err(Failure::from)?;
            let is_wrong =
                |testimony: Option<rangekeeper_core::audit::Testimony>| testimony.is_some_and(|it| it.is_wrong);
            let inside = |testimony: Option<rangekeeper_core::audit::Testimony>| testimony.map_or(0, |it| it.inside);
            out.write(rk_ranges_verdict {
                outcome: match judged.outcome {
                    Outcome::Agree => RK_RANGES_OUTCOME_AGREE,
                    Outcome::Decided => RK_RANGES_OUTCOME_DECIDED,
                    Outcome::Harmless => RK_RANGES_OUTCOME_HARMLESS,
                    Outcome::Undecided => RK_RANGES_OUTCOME_UNDECIDED,
                },
                flag_is_wrong: is_wrong(judged.flag),
                service_cidr_is_wrong: is_wrong(judged.service_cidr),
                bitmap_is_wrong: is_wrong(judged.bitmap),
                values: judged.values,
                in_flag: inside(judged.flag),
                in_service_cidr: inside(judged.service_cidr),
                in_bitmap: inside(judged.bitmap),
                reserved: [0; 2],
            });
            Ok(())
        })
    }
}
