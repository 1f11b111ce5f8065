//! Stores for a [`SharedLedger`](rangekeeper::ledger::SharedLedger): each is a file to copy.

pub mod etcd;
pub mod redb;
pub mod sqlite;
