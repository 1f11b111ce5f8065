//! The memory that something takes.

use std::hint::black_box;

/// The memory of the process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it names the memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Prints how much more memory the process has with what is made, in KiB.
pub fn print_memory<T>(name: &str, make: impl FnOnce() -> T) {
    let before = resident();
    let made = black_box(make());
    println!("{name}: {} KiB", resident().saturating_sub(before));
    drop(made);
}
