//! The C ABI of Rangekeeper: converts, calls the core, converts back, and decides nothing.
//!
//! `include/rangekeeper.h` is generated from this crate by `ffi/header.sh`; the comments of the entry points become
//! its documentation, and its preamble (`ffi/cbindgen.toml`) states the conventions that hold for all of them.
//! Everything that can go wrong at the border (panics, NULL, lengths, out-parameters) is dealt with in [`guard`],
//! ownership, locks and states in [`handle`].

#![allow(non_camel_case_types, reason = "types have the names that C sees")]
#![allow(unreachable_pub, reason = "entry points are reached from C only")]

mod allocator;
mod audit;
mod bootstrap;
mod committer;
mod committer_input;
mod committer_output;
mod error;
mod finding;
mod guard;
mod handle;
mod ip_address;
mod leak;
mod leak_tracker;
mod range;
mod range_allocation;
mod repair_pass;
mod report;
mod result;
mod service_cidr;
mod services;
mod value;
mod version;
