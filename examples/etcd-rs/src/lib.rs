//! A store for control planes in Rust: allocates from a range that is kept under a key of etcd, as kube-apiserver keeps
//! it and beside others who write it.
//!
//! All decisions are made by a [`Committer`](rangekeeper::commit::Committer). What is here does what it asks for:
//!
//! - [`store`]: what a control plane calls, from as many tasks as it likes.
//! - [`driver`]: the one task that owns the committer.
//! - [`etcd`]: its requests as transactions of etcd.

pub mod driver;
pub mod etcd;
pub mod store;
