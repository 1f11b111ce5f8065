//! Audits of bitmaps and of IPAddress objects.

use std::ptr;
use std::sync::Barrier;
use std::thread;

use super::{CALLS, OK, Shared, batch, range, services};
use crate::audit::*;
use crate::report::*;
use crate::result::rk_result;
use crate::services::*;

/// An audit of one bitmap in which the first address is allocated, or of one CIDR and the IPAddress object of that
/// address. All that it was created from is gone.
fn audit(of_objects: bool) -> *mut rk_audit {
    let mut audit = ptr::null_mut();
    let (cidr, data) = (String::from("10.0.0.0/24"), vec![1_u8]);
    let (text, len) = (cidr.as_ptr().cast(), cidr.len());
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and the range is freed once.
    unsafe {
        assert_eq!(rk_audit_new(ptr::null_mut(), of_objects, &0, &mut audit), OK);
        if of_objects {
            assert_eq!(rk_audit_add_service_cidr(audit, text, len, true, ptr::null_mut()), OK);
            let (mut words, mut text) = (vec![0, 0, 0, 0, 0, 8, 0, 0, 8, 1, 1], String::from("10.0.0.1servicesna"));
            let objects = rk_ip_addresses { batch: batch(&mut words, &mut text, 1) };
            assert_eq!(rk_audit_observe_ip_addresses(audit, &objects, ptr::null_mut()), OK);
        } else {
            let range = range(&cidr);
            let result = rk_audit_add_bitmap(audit, &range, text, len, data.as_ptr(), data.len(), ptr::null_mut());
            assert_eq!(result, OK);
        }
    }
    audit
}

/// Observes one Service, with its name if the audit is of IPAddress objects.
fn observe(audit: *mut rk_audit, of_objects: bool) -> rk_result {
    services("10.0.0.1", |services| {
        // SAFETY: all pointers are to live variables of the lengths that they are passed with.
        unsafe {
            if !of_objects {
                return rk_audit_observe_services(audit, ptr::null(), services, ptr::null_mut());
            }
            let (mut words, mut text) = (vec![0, 0, 0, 0, 1, 1], String::from("na"));
            let names = rk_service_names { batch: batch(&mut words, &mut text, 1) };
            rk_audit_observe_services(audit, &names, services, ptr::null_mut())
        }
    })
}

#[test]
fn an_audit_is_observed_by_threads_until_one_finishes_it() {
    for of_objects in [false, true] {
        for _ in 0..CALLS.div_ceil(100) {
            let (audit, mut report) = (audit(of_objects), ptr::null_mut());
            // SAFETY: all pointers are to live variables, and each handle is freed once, after the threads have ended.
            unsafe {
                let (shared, start) = (Shared(audit), &Barrier::new(3));
                let observed: usize = thread::scope(|threads| {
                    let observers = [0, 1].map(|_| {
                        threads.spawn(move || {
                            start.wait();
                            let results: Vec<_> = (0..4).map(|_| observe(shared.get(), of_objects)).collect();
                            assert!(
                                results.iter().all(|result| matches!(*result, OK | rk_result::Ended)),
                                "{results:?}"
                            );
                            results.into_iter().filter(|result| *result == OK).count()
                        })
                    });
                    start.wait();
                    thread::yield_now();
                    assert_eq!(rk_audit_finish(shared.get(), &mut report, ptr::null_mut()), OK);
                    observers.into_iter().map(|observer| observer.join().expect("it checks results only")).sum()
                });
                rk_audit_free(audit);
                let mut services = 0;
                assert_eq!(rk_report_services(report, &mut services), OK);
                assert_eq!(services, observed as u64);
                rk_report_free(report);
            }
        }
    }
}
