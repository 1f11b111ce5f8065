//! Short uses of every handle, for Miri and ThreadSanitizer (`make miri`, `make tsan`): what they report is memory and
//! data races, so each test checks only that its calls did their work.

mod audit;
mod bootstrap;
mod commit;
mod store;

use std::ptr;
use std::sync::Barrier;
use std::thread;

use crate::allocator::*;
use crate::audit::*;
use crate::error::*;
use crate::finding::*;
use crate::guard::guard;
use crate::index::*;
use crate::leak::*;
use crate::leak_tracker::*;
use crate::range::*;
use crate::range_allocation::*;
use crate::report::*;
use crate::result::rk_result;
use crate::scope::{borrow, slice};
use crate::service_cidr::*;
use crate::services::*;
use crate::value::*;

const OK: rk_result = rk_result::Ok;
/// How often each thread calls; Miri runs 1,000 times slower.
const CALLS: u64 = if cfg!(miri) { 40 } else { 20_000 };

/// A handle that several threads use at a time.
struct Shared<T>(*mut T);

// SAFETY: any thread may call any function with a handle, except the one that frees it; every test frees its handle
// after its threads.
unsafe impl<T> Send for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

fn range(text: &str) -> rk_range {
    let mut range = rk_range::default();
    let kind = if text.contains('.') { RK_RANGE_KIND_CIDR } else { RK_RANGE_KIND_PORTS };
    // SAFETY: all pointers are to live variables.
    assert_eq!(unsafe { rk_range_parse(text.as_ptr().cast(), text.len(), kind, &mut range, ptr::null_mut()) }, OK);
    range
}

fn port(number: u16) -> rk_value {
    rk_value { high: 0, low: number.into(), kind: RK_VALUE_KIND_PORT }
}

/// A batch over these words and this text.
fn batch(words: &mut [u32], text: &mut str, count: usize) -> rk_batch {
    rk_batch {
        words: words.as_mut_ptr(),
        words_len: words.len(),
        words_capacity: 0,
        text: text.as_mut_ptr().cast(),
        text_len: text.len(),
        text_capacity: 0,
        count,
    }
}

/// Passes a batch with one Service, in memory that is gone afterwards.
fn services(cluster_ip: &str, observe: impl FnOnce(&rk_services) -> rk_result) -> rk_result {
    let (mut words, mut text) = (vec![2, 0, cluster_ip.len() as u32, RK_SAME_TEXT], cluster_ip.to_owned());
    observe(&rk_services { batch: batch(&mut words, &mut text, 1) })
}

#[test]
fn threads_share_an_allocator() {
    let (range, mut allocator) = (range("30000-30063"), ptr::null_mut());
    // SAFETY: all pointers are to live variables, and the handles are freed after the threads have ended.
    unsafe {
        assert_eq!(rk_allocator_new(&range, RK_STRATEGY_RANDOM_SCAN, 1, &mut allocator, ptr::null_mut()), OK);
        let (shared, start) = (Shared(allocator), &Barrier::new(3));
        thread::scope(|threads| {
            for n in 0..3 {
                threads.spawn(move || {
                    let allocator = shared.get();
                    start.wait();
                    for call in 0..CALLS {
                        let (mut value, mut used, mut count) = (rk_value::default(), false, 0);
                        let result = rk_allocator_allocate_next(allocator, &mut value);
                        assert!(matches!(result, OK | rk_result::Full), "{result:?}");
                        _ = rk_allocator_has(allocator, &port(30000 + n), &mut used);
                        _ = rk_allocator_used(allocator, &mut count);
                        _ = rk_allocator_release(allocator, &port(30000 + (call % 64) as u16), &mut used);
                    }
                });
            }
        });
        rk_allocator_free(allocator);
    }
}

#[test]
fn threads_share_an_index() {
    let (mut cidr, mut index, text) = (rk_service_cidr::default(), ptr::null_mut(), "fd00::/64");
    // SAFETY: all pointers are to live variables, and the handles are freed after the threads have ended.
    unsafe {
        assert_eq!(rk_service_cidr_parse(text.as_ptr().cast(), text.len(), &mut cidr, ptr::null_mut()), OK);
        assert_eq!(rk_index_new(1, &mut index), OK);
        assert_eq!(rk_index_insert_cidr(index, &cidr, &mut false), OK);
        let (shared, cidr, start) = (Shared(index), &cidr, &Barrier::new(3));
        thread::scope(|threads| {
            for n in 0..3_u64 {
                threads.spawn(move || {
                    let index = shared.get();
                    let order = [*cidr, *cidr];
                    start.wait();
                    for call in 0..CALLS {
                        let (mut reservation, mut flag) = (rk_reservation::default(), false);
                        let (mut used, mut free, mut expired) = (0, 0, 0);
                        let result = rk_index_reserve(index, order.as_ptr(), 2, call, &mut reservation);
                        assert!(matches!(result, OK | rk_result::Full), "{result:?}");
                        if result == OK {
                            let address = reservation.address;
                            _ = rk_index_is_taken(index, &address, &mut flag);
                            _ = rk_index_reserve_address(index, &address, call, &mut rk_reservation::default());
                            match n {
                                0 => rk_index_abort(index, &reservation),
                                1 => rk_index_already_exists(index, &reservation),
                                _ => rk_index_confirm(index, &reservation, call),
                            };
                            _ = rk_index_added(index, &address, call);
                            _ = rk_index_removed(index, &address, call);
                            if call % 8 == 0 {
                                _ = rk_index_replace(
                                    index,
                                    [address; 2].as_ptr(),
                                    2,
                                    u64::MAX / 2,
                                    &mut rk_index_changes::default(),
                                );
                            }
                        }
                        _ = rk_index_usage(index, cidr, &mut used, &mut free);
                        _ = rk_index_expire(index, call, &mut expired);
                        if n == 2 && call % 16 == 0 {
                            _ = rk_index_remove_cidr(index, cidr, &mut flag);
                            _ = rk_index_insert_cidr(index, cidr, &mut flag);
                        }
                    }
                });
            }
        });
        rk_index_free(index);
    }
}

#[test]
fn snapshots_changes_and_failed_batches_stay_inside_their_buffers() {
    let (range, mut allocator) = (range("10.0.0.0/26"), ptr::null_mut());
    let any = rk_value { high: 0, low: 0, kind: RK_VALUE_KIND_ANY };
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and handles are freed once.
    unsafe {
        assert_eq!(rk_allocator_new(&range, RK_STRATEGY_DYNAMIC_BAND_FIRST, 1, &mut allocator, ptr::null_mut()), OK);
        let mut values = [rk_value::default(); 3];
        let mut error = *Failure::new(rk_result::Full, "").error;
        assert_eq!(rk_allocator_allocate_batch(allocator, [any; 3].as_ptr(), 3, values.as_mut_ptr(), &mut error), OK);
        let asked = [any, values[0]];
        let result = rk_allocator_allocate_batch(allocator, asked.as_ptr(), 2, values.as_mut_ptr(), &mut error);
        assert_eq!(result, rk_result::AlreadyAllocated);
        assert_eq!((error.detail_kind, error.detail.request), (RK_DETAIL_REQUEST, 1));

        let (mut data, mut len) = (vec![0; 8], 0);
        assert_eq!(rk_allocator_snapshot(allocator, ptr::null_mut(), 0, &mut len), rk_result::BufferTooSmall);
        data.resize(len, 0);
        assert_eq!(rk_allocator_snapshot(allocator, data.as_mut_ptr(), len, &mut len), OK);
        let text = "10.0.0.0/26";
        let restore = |data: &[u8], error: &mut rk_error| {
            rk_allocator_restore(allocator, text.as_ptr().cast(), text.len(), data.as_ptr(), data.len(), error)
        };
        assert_eq!(restore(&data, &mut error), OK);
        assert_eq!(restore(&[0xff; 9], &mut error), rk_result::BitsPastRange);
        assert_eq!(
            (error.detail_kind, error.detail.bits.highest_offset, error.detail.bits.byte),
            (RK_DETAIL_BITS, 71, 0)
        );

        let (mut changed, mut flags, mut n, mut next) = (vec![rk_value::default(); 2], vec![false; 2], 0, 0);
        let result = rk_range_changes(
            &range,
            ptr::null(),
            0,
            data.as_ptr(),
            data.len(),
            0,
            changed.as_mut_ptr(),
            flags.as_mut_ptr(),
            2,
            &mut n,
            &mut next,
            &mut error,
        );
        assert_eq!((result, n), (OK, 2));
        rk_allocator_free(allocator);
    }
}

#[test]
fn threads_read_a_report() {
    let (range, mut tracker, mut audit, mut report) =
        (range("10.0.0.0/24"), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let (mut words, mut text) = ([2, 0, 8, RK_SAME_TEXT, 2, 0, 3, RK_SAME_TEXT], String::from("10.0.0.1bad"));
    let services = rk_services { batch: batch(&mut words, &mut text, 2) };
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and handles are freed once.
    unsafe {
        assert_eq!(rk_leak_tracker_new(3, 0, false, &mut tracker, ptr::null_mut()), OK);
        assert_eq!(rk_audit_new(tracker, false, ptr::null(), &mut audit), OK);
        assert_eq!(rk_audit_add_bitmap(audit, &range, ptr::null(), 0, ptr::null(), 0, ptr::null_mut()), OK);
        assert_eq!(rk_audit_observe_services(audit, ptr::null(), &services, ptr::null_mut()), OK);
        assert_eq!(rk_audit_finish(audit, &mut report, ptr::null_mut()), OK);
        let (shared, start) = (Shared(report), &Barrier::new(2));
        thread::scope(|threads| {
            for n in 0..2 {
                threads.spawn(move || {
                    let report = shared.get();
                    start.wait();
                    for call in 0..CALLS / 10 {
                        let empty = rk_run { first: port(0), last: port(0), len: 0 };
                        let (mut runs, mut count, mut next) = ([empty; 2], 0, 0);
                        let set = RK_VALUES_SET + (call % 7) as u32;
                        let result =
                            rk_report_runs(report, 0, set, n == 0, 0, runs.as_mut_ptr(), 2, &mut count, &mut next);
                        assert_eq!(result, OK);
                        let (mut texts, mut ends) = ([0; 256], [0; 4]);
                        let result = rk_report_finding_texts(
                            report,
                            0,
                            texts.as_mut_ptr(),
                            256,
                            ends.as_mut_ptr(),
                            2,
                            &mut count,
                        );
                        assert_eq!(result, OK);
                        let mut findings = [const { std::mem::MaybeUninit::<rk_finding>::uninit() }; 2];
                        if rk_report_findings(report, 0, findings.as_mut_ptr().cast(), 2, &mut count) == OK {
                            assert_eq!((count, findings[0].assume_init_ref().value.address.low), (2, 0x0a00_0001));
                        }
                    }
                });
            }
        });
        rk_report_free(report);
        rk_audit_free(audit);
        rk_leak_tracker_free(tracker);
    }
}

#[test]
fn other_handles_keep_nothing_of_what_they_were_created_from() {
    let mut stored = br#"{"kind":"RangeAllocation","apiVersion":"v1","range":"1-9","data":"AQ=="}"#.to_vec();
    let (mut object, mut counters, mut cidr) = (ptr::null_mut(), ptr::null_mut(), rk_service_cidr::default());
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and handles are freed once.
    unsafe {
        assert_eq!(rk_range_allocation_decode(stored.as_ptr(), stored.len(), &mut object, ptr::null_mut()), OK);
        stored.fill(0);
        drop(stored);
        let (mut data, mut len) = ([0; 4], 0);
        assert_eq!(rk_range_allocation_data(object, data.as_mut_ptr(), 4, &mut len), OK);
        assert_eq!((len, data[0]), (1, 1));
        rk_range_allocation_free(object);

        let range = range("1-9");
        assert_eq!(rk_leak_counters_new(&range, 1, &mut counters, ptr::null_mut()), OK);
        let (mut due, mut due_len) = ([rk_value::default(); 1], 0);
        assert_eq!(rk_leak_counters_advance(counters, &port(3), 1, due.as_mut_ptr(), 1, &mut due_len), OK);
        assert_eq!((due_len, due[0]), (1, port(3)));
        rk_leak_counters_free(counters);

        let text = String::from("fd00::/64");
        assert_eq!(rk_service_cidr_parse(text.as_ptr().cast(), text.len(), &mut cidr, ptr::null_mut()), OK);
        drop(text);
        let (mut index, mut added, mut reservation) = (ptr::null_mut(), false, rk_reservation::default());
        assert_eq!(rk_index_new(1, &mut index), OK);
        assert_eq!(rk_index_insert_cidr(index, &cidr, &mut added), OK);
        let order = vec![cidr];
        assert_eq!(rk_index_reserve(index, order.as_ptr(), 1, 9, &mut reservation), OK);
        drop(order);
        assert_eq!(rk_index_confirm(index, &reservation, 1), OK);
        rk_index_free(index);
    }
}

#[test]
fn pointers_that_cannot_be_read_are_refused_without_reading() {
    let words = [0_u32; 2];
    let odd = words.as_ptr().wrapping_byte_add(1);
    // SAFETY: all that is not refused is a live variable.
    unsafe {
        assert_eq!(guard(|scope| Ok(borrow(scope, odd).map(|_| ())?)), rk_result::InvalidArgument);
        assert_eq!(guard(|scope| Ok(slice(scope, odd, 1).map(|_| ())?)), rk_result::InvalidArgument);
        assert_eq!(
            guard(|scope| Ok(slice(scope, words.as_ptr(), usize::MAX).map(|_| ())?)),
            rk_result::InvalidArgument
        );
        assert_eq!(guard(|scope| Ok(slice(scope, ptr::null::<u32>(), 0).map(|_| ())?)), OK);
    }
}
