#![forbid(unsafe_code)]
//! A store for control planes in Rust: allocates from a range that is stored under a key of etcd, as kube-apiserver
//! stores it, beside other writers of that key.
//!
//! A [`Committer`](rangekeeper::commit::Committer) makes all decisions. This crate performs its requests:
//!
//! - [`store`]: the functions for a control plane, which any number of tasks may call.
//! - [`services`]: Services with values of several ranges.
//! - [`repair`]: repair passes over the ranges of a cluster.
//! - [`driver`]: the one task that owns the committer, and its requests as transactions.
//! - [`kv`]: what it asks of a store, and [`etcd`], which does it.

pub mod driver;
pub mod etcd;
pub mod kv;
pub mod repair;
pub mod services;
pub mod store;
