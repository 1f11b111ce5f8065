//! Bootstrap controllers and their plans.

use std::ptr;
use std::sync::Barrier;
use std::thread;

use super::{OK, Shared};
use crate::bootstrap::*;
use crate::result::rk_result;

/// How often each thread calls: JSON is slow to read under Miri.
const CALLS: u64 = if cfg!(miri) { 4 } else { 400 };

/// Polls first without room, so that a step is kept, which another thread may fetch.
fn poll(bootstrap: *mut rk_bootstrap, now: u64) -> String {
    let (mut buffer, mut len) = (vec![0_u8; 1 << 14], 0);
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and the handle lives.
    unsafe {
        let small = rk_bootstrap_poll(bootstrap, now, buffer.as_mut_ptr().cast(), 1, &mut len);
        assert_eq!(small, rk_result::BufferTooSmall);
        assert_eq!(rk_bootstrap_poll(bootstrap, now, buffer.as_mut_ptr().cast(), buffer.len(), &mut len), OK);
    }
    String::from_utf8(buffer[..len].to_vec()).expect("JSON is UTF-8")
}

#[test]
fn threads_drive_a_bootstrap_controller_that_one_stops() {
    let mut bootstrap = ptr::null_mut();
    let config = String::from(r#"{"advertiseAddress":"192.0.2.10"}"#);
    // SAFETY: all pointers are to live variables of the lengths that they are passed with, and the handle is freed
    // once, after the threads have ended.
    unsafe {
        let result = rk_bootstrap_new(config.as_ptr().cast(), config.len(), &mut bootstrap, ptr::null_mut());
        assert_eq!(result, OK);
        drop(config);
        let (shared, start) = (Shared(bootstrap), &Barrier::new(2));
        thread::scope(|threads| {
            for n in 0..2 {
                threads.spawn(move || {
                    start.wait();
                    for call in 0..CALLS {
                        let now = call * 1_000_000_000;
                        let step = poll(shared.get(), now);
                        assert!(step.contains("\"phase\""), "{step}");
                        for id in 0..3 {
                            let answer = String::from(r#"{"failed":{"reason":"unavailable","message":"429"}}"#);
                            let (text, len) = (answer.as_ptr().cast(), answer.len());
                            let result =
                                rk_bootstrap_answered(shared.get(), now, call + id, text, len, ptr::null_mut());
                            assert_eq!(result, OK);
                        }
                        let event = String::from(r#"{"object":{"kind":"Endpoints","name":"kubernetes"}}"#);
                        let (text, len) = (event.as_ptr().cast(), event.len());
                        let result = rk_bootstrap_watched(shared.get(), now, text, len, ptr::null_mut());
                        assert_eq!(result, OK);
                        if n == 0 && call == CALLS / 2 {
                            assert_eq!(rk_bootstrap_stop(shared.get(), now), OK);
                        }
                    }
                });
            }
        });
        rk_bootstrap_free(bootstrap);
    }
}
