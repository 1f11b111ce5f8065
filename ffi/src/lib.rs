//! The C ABI of Rangekeeper: converts, calls the core, converts back, and decides nothing.
//!
//! `include/rangekeeper.h` is generated from this crate by `ffi/header.sh`; the comments of the entry points become
//! its documentation, its preamble (`ffi/cbindgen.toml`) states the conventions that hold for all of them, and
//! `ffi/header` has its sections.
//! [`guard`] stops panics, [`scope`] checks pointers, lengths and out-parameters, [`handle`] owns locks and states.

#![allow(non_camel_case_types, reason = "types have the names that C sees")]
#![allow(unreachable_pub, reason = "entry points are reached from C only")]

mod allocator;
mod audit;
mod bootstrap;
mod committer;
mod committer_input;
mod committer_output;
mod edit;
mod error;
#[cfg(target_arch = "wasm32")]
mod exchange;
mod finding;
mod guard;
mod handle;
mod index;
mod ip_address;
mod json;
mod leak;
mod leak_tracker;
mod ledger;
mod ledger_value;
#[cfg(target_arch = "wasm32")]
mod memory;
mod range;
mod range_allocation;
mod ranges;
mod repair_pass;
mod report;
mod result;
mod scope;
mod service_cidr;
mod services;
mod shared_ledger;
#[cfg(test)]
mod soundness;
mod value;
mod version;
