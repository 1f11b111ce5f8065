//! The committer against an in-memory store that behaves like etcd for one key.

mod allocation;
mod edit;
mod loss;
mod protection;
mod release;
mod repair;
mod replace;
mod restore;
mod scripts;
mod store;
mod unknown;
mod watch;
