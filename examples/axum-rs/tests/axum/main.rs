//! Runs axum-rs over a real etcd and over SQLite.

mod histories;
mod late;
mod replica;
mod replicas;
