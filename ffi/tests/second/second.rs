//! Another static library in Rust, whose standard library the linker meets beside that of librangekeeper.a.

/// Catches a panic of its own: the unwinder and its personality function work. Returns 7.
#[unsafe(no_mangle)]
pub extern "C" fn second_catches() -> i32 {
    std::panic::set_hook(Box::new(|_| {}));
    match std::panic::catch_unwind(|| panic!("second")) {
        Ok(()) => 0,
        Err(_) => 7,
    }
}
