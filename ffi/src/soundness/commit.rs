//! Committers and repair passes.

use std::collections::HashSet;
use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::store::{NO_DATA, Store, allocate, created, submit};
use super::{CALLS, OK, Shared, services};
use crate::allocator::*;
use crate::audit::*;
use crate::committer::*;
use crate::committer_input::*;
use crate::committer_output::*;
use crate::leak_tracker::*;
use crate::repair_pass::*;
use crate::report::*;
use crate::result::rk_result;
use crate::value::{RK_VALUE_KIND_ANY, RK_VALUE_KIND_IPV4, rk_value};

const ANY: rk_value = rk_value { high: 0, low: 0, kind: RK_VALUE_KIND_ANY };

fn address(number: u64) -> rk_value {
    rk_value { high: 0, low: number, kind: RK_VALUE_KIND_IPV4 }
}

#[test]
fn threads_submit_to_a_committer_that_one_drives_and_one_closes() {
    let (committer, mut store) = created("10.0.0.0/16", RK_STRATEGY_DYNAMIC_BAND_FIRST);
    // SAFETY: created wrote it, and it is freed after the threads have ended.
    let (shared, start) = (Shared(committer), &Barrier::new(3));
    let mut ended = Vec::new();
    thread::scope(|threads| {
        let submitters = [0, 1].map(|_| {
            threads.spawn(move || {
                let committer = shared.get();
                start.wait();
                for call in 0..CALLS / 20 {
                    let (result, ticket) = allocate(committer, &[ANY, ANY]);
                    assert_eq!(result, OK);
                    // SAFETY: the handle is not freed yet.
                    unsafe {
                        if call % 3 == 0 {
                            _ = rk_committer_cancel(committer, ticket);
                        }
                        let mut known = rk_known {
                            revision: 0,
                            used: 0,
                            initialised: false,
                            store: 0,
                            restores: 0,
                            reserved: [0; 2],
                        };
                        let result = rk_committer_known(committer, &mut known);
                        assert!(result == OK && known.used <= 65_534, "{result:?}");
                    }
                }
            })
        });
        start.wait();
        loop {
            match store.step(shared.get(), &mut ended) {
                (OK, false) => {}
                // Without this a panic of a submitter would never be reported.
                (OK, true) if submitters.iter().all(|submitter| submitter.is_finished()) => break,
                (OK, true) => thread::yield_now(),
                (result, _) => panic!("{result:?}"),
            }
        }
    });
    let mut owned = HashSet::new();
    for one in ended.iter().filter(|one| one.finished.outcome == RK_OUTCOME_ALLOCATED) {
        assert_eq!(one.values.len(), 2);
        // A cancelled operation that has taken effect has another outcome, so nothing is allocated twice.
        assert!(one.values.iter().all(|value| owned.insert(value.low)));
    }
    // SAFETY: it is freed once, after the last call.
    unsafe { rk_committer_free(committer) };
}

#[test]
fn a_committer_keeps_nothing_that_it_was_passed() {
    let (committer, mut store) = created("10.0.0.0/29", RK_STRATEGY_CONTIGUOUS);
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and the handle is freed
    // once.
    unsafe {
        assert_eq!(allocate(committer, &[ANY, address(0x0a00_0004)]).0, OK);
        let ended = store.run(committer);
        assert_eq!(ended[0].values, [address(0x0a00_0001), address(0x0a00_0004)]);

        // The store refuses a request, with a reason that is gone when the outcome is read.
        assert_eq!(allocate(committer, &[ANY]).0, OK);
        let mut step = rk_step { kind: RK_STEP_IDLE, data: rk_step_data { wait: rk_step_wait { until: 0 } } };
        assert_eq!(rk_committer_poll(committer, store.now(), &mut step), OK);
        assert_eq!(step.kind, RK_STEP_SWAP);
        let reason = String::from("no space");
        let refused = rk_refused { reason: reason.as_ptr().cast(), reason_len: reason.len() };
        let event = Box::new(rk_event { kind: RK_EVENT_REFUSED, data: rk_event_data { refused } });
        assert_eq!(rk_committer_handle(committer, &*event, store.now()), OK);
        drop((event, reason));
        let ended = store.run(committer);
        assert_eq!(
            (ended[0].finished.data.failed.result, ended[0].bytes.as_slice()),
            (rk_result::Refused, &b"no space"[..])
        );

        // Changes that a watch has seen, one of them unreadable; what is known is what the last one says.
        let values = [b"nonsense".to_vec(), store.stored()];
        let changes: Vec<_> = values.iter().enumerate().map(|(n, value)| store.change(n as u64 + 1, value)).collect();
        let watched = rk_watched { changes: changes.as_ptr(), n: changes.len() };
        let event = Box::new(rk_event { kind: RK_EVENT_WATCHED, data: rk_event_data { watched } });
        assert_eq!(rk_committer_handle(committer, &*event, store.now()), OK);
        drop((event, changes, values));
        let mut known = rk_known { revision: 0, used: 0, initialised: false, store: 0, restores: 0, reserved: [0; 2] };
        assert_eq!(rk_committer_known(committer, &mut known), OK);
        assert_eq!((known.revision, known.used, known.initialised), (4, 2, true));

        let release = rk_release { value: address(0x0a00_0001), as_of: 2, oldest: 2, store: 0 };
        let data = rk_operation_data { release };
        let (_, ticket) = submit(committer, RK_OPERATION_RELEASE, data, &[]);
        rk_committer_free(committer);
        assert!(ticket > 0);
    }
}

/// Begins the range of a committer and reads it, with the bitmap in memory that is gone afterwards.
fn read(pass: *mut rk_repair_pass, committer: *mut rk_committer, store: &mut Store) {
    // SAFETY: the handles live, and all other pointers are to live variables.
    unsafe {
        assert_eq!(rk_repair_pass_begin(pass, committer, ptr::null_mut()), OK);
        assert_eq!(submit(committer, RK_OPERATION_READ, NO_DATA, &[]).0, OK);
        let ended = store.run(committer);
        let (view, bytes) = (ended[0].finished.data.read, ended[0].bytes.clone());
        let (data, len) = (bytes.as_ptr(), bytes.len());
        let (now, mut needs_fence) = (store.now(), true);
        let result =
            rk_repair_pass_read(pass, committer, view.revision, data, len, now, &mut needs_fence, ptr::null_mut());
        assert_eq!((result, needs_fence), (OK, false));
    }
}

#[test]
fn passes_audits_and_reports_need_nothing_that_they_were_made_of() {
    let (committer, mut store) = created("10.0.0.0/29", RK_STRATEGY_CONTIGUOUS);
    let (mut tracker, mut pass, mut audit, mut report) =
        (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    assert_eq!(allocate(committer, &[ANY, ANY]).0, OK);
    store.run(committer);
    // SAFETY: all pointers are to live variables, and each handle is freed once, after its last call.
    unsafe {
        assert_eq!(rk_leak_tracker_new(3, 0, false, &mut tracker, ptr::null_mut()), OK);

        // A pass is freed while its audit lives.
        assert_eq!(rk_repair_pass_new(tracker, &mut pass), OK);
        read(pass, committer, &mut store);
        assert_eq!(rk_repair_pass_audit(pass, false, ptr::null(), &mut audit, ptr::null_mut()), OK);
        rk_repair_pass_free(pass);
        assert_eq!(
            services("10.0.0.1", |batch| rk_audit_observe_services(audit, ptr::null(), batch, ptr::null_mut())),
            OK
        );
        assert_eq!(rk_audit_finish(audit, &mut report, ptr::null_mut()), rk_result::InvalidArgument);
        rk_audit_free(audit);

        // An audit is freed before its pass has finished it.
        assert_eq!(rk_repair_pass_new(tracker, &mut pass), OK);
        read(pass, committer, &mut store);
        assert_eq!(rk_repair_pass_audit(pass, false, ptr::null(), &mut audit, ptr::null_mut()), OK);
        rk_audit_free(audit);
        rk_repair_pass_free(pass);
        assert!(report.is_null());

        // The tracker is freed before its pass repairs, the audit and the pass before the report is read.
        assert_eq!(rk_repair_pass_new(tracker, &mut pass), OK);
        read(pass, committer, &mut store);
        assert_eq!(rk_repair_pass_audit(pass, false, ptr::null(), &mut audit, ptr::null_mut()), OK);
        assert_eq!(
            services("10.0.0.3", |batch| rk_audit_observe_services(audit, ptr::null(), batch, ptr::null_mut())),
            OK
        );
        assert_eq!(rk_repair_pass_finish(pass, audit, &mut report, ptr::null_mut()), OK);
        rk_audit_free(audit);
        rk_leak_tracker_free(tracker);
        let mut ticket = 0;
        let result = rk_committer_submit_repair(committer, pass, 0, false, u64::MAX, &mut ticket, ptr::null_mut());
        assert_eq!(result, OK);
        rk_repair_pass_free(pass);
        let ended = store.run(committer);
        assert_eq!((ended[0].finished.ticket, ended[0].finished.outcome), (ticket, RK_OUTCOME_REPAIRED));
        // .3 is used and was not recorded; .1 and .2 have leaked in one pass only.
        assert_eq!(ended[0].values, [address(0x0a00_0003)]);
        rk_committer_free(committer);
        let (mut data, mut len) = ([0; 1], 0);
        assert_eq!(rk_report_snapshot(report, 0, RK_VALUES_NEXT, data.as_mut_ptr(), 1, &mut len), OK);
        assert_eq!((len, data), (1, [7]));
        rk_report_free(report);
    }
}

#[test]
fn threads_take_passes_of_one_tracker_over_one_committer() {
    let (committer, mut store) = created("10.0.0.0/24", RK_STRATEGY_CONTIGUOUS);
    let mut tracker = ptr::null_mut();
    // SAFETY: all pointers are to live variables, and handles that threads share are freed after these have ended.
    unsafe {
        assert_eq!(rk_leak_tracker_new(2, 0, false, &mut tracker, ptr::null_mut()), OK);
        one_pass(tracker, committer);
        let ended = store.run(committer);
        assert_eq!((ended.len(), ended[0].finished.outcome), (1, RK_OUTCOME_REPAIRED));
        let (shared, passes_of, store, done) =
            (Shared(committer), Shared(tracker), &mut store, &AtomicBool::new(false));
        thread::scope(|threads| {
            let passes = [1, 2].map(|_| {
                threads.spawn(move || {
                    for _ in 0..CALLS / 10 {
                        one_pass(passes_of.get(), shared.get());
                    }
                })
            });
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    store.run(shared.get());
                    thread::yield_now();
                }
            });
            let results = passes.map(|pass| pass.join());
            // First of all, since the scope waits for the driver even if a pass panics.
            done.store(true, Ordering::Relaxed);
            results.into_iter().for_each(|result| result.expect("a step had another result"));
        });
    }
    // SAFETY: each is freed once, after the last call.
    unsafe {
        rk_leak_tracker_free(tracker);
        rk_committer_free(committer);
    }
}

/// A pass that another thread's pass may overtake, and so end, at any step.
fn one_pass(tracker: *mut rk_leak_tracker, committer: *mut rk_committer) {
    let (mut pass, mut audit, mut report, mut ticket) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0);
    let mut needs_fence = false;
    // SAFETY: all pointers are to live variables, and each handle is freed once.
    unsafe {
        let mut results = vec![rk_repair_pass_new(tracker, &mut pass)];
        if results[0] == OK {
            results.extend([
                rk_repair_pass_begin(pass, committer, ptr::null_mut()),
                rk_repair_pass_read(pass, committer, 1, ptr::null(), 0, 1, &mut needs_fence, ptr::null_mut()),
                rk_repair_pass_fenced(pass, committer, 2, 1, ptr::null_mut()),
                rk_repair_pass_audit(pass, false, ptr::null(), &mut audit, ptr::null_mut()),
            ]);
            if !audit.is_null() {
                results.extend([
                    services("10.0.0.9", |batch| rk_audit_observe_services(audit, ptr::null(), batch, ptr::null_mut())),
                    rk_repair_pass_finish(pass, audit, &mut report, ptr::null_mut()),
                ]);
            }
            results.extend([rk_committer_submit_repair(
                committer,
                pass,
                0,
                false,
                u64::MAX,
                &mut ticket,
                ptr::null_mut(),
            )]);
            rk_repair_pass_free(pass);
            rk_audit_free(audit);
            rk_report_free(report);
        }
        let expected = |result: &rk_result| matches!(*result, OK | rk_result::InvalidArgument);
        assert!(results.iter().all(expected), "{results:?}");
    }
}
