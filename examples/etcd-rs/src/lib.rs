//! A store for control planes in Rust: allocates from a range that is stored under a key of etcd, as kube-apiserver
//! stores it, beside other writers of that key.
//!
//! A [`Committer`](rangekeeper::commit::Committer) makes all decisions. This crate performs its requests:
//!
//! - [`store`]: the functions for a control plane, which any number of tasks may call.
//! - [`driver`]: the one task that owns the committer.
//! - [`etcd`]: its requests as transactions of etcd.

pub mod driver;
pub mod etcd;
pub mod store;
