#![forbid(unsafe_code)]
//! Stores for a [`SharedLedger`](rangekeeper::ledger::SharedLedger), each a feature of its name. A store of your own
//! has the same two methods; any of these files shows them.

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "sqlite")]
pub mod sqlite;
