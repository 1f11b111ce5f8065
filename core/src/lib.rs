#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - Where ClusterIPs are IPAddress objects, as in current clusters, an [`index`] knows which addresses of the
//!   ServiceCIDRs are free, and [`ipaddress`] has the rules for the objects. [`service_cidr`] is one CIDR of such an
//!   object.
//! - A [`range`] maps values (addresses or ports) to offsets; [`cidr`] and [`ports`] are the kinds of range, and
//!   [`any`] is for a kind that is known only at run time. [`numbers`] are for callers with other values.
//! - An [`allocator`] knows which offsets are in use, in a [`bitmap`] whose memory is the stored [`snapshot`].
//! - A [`range_allocation`] is the stored object around that snapshot, in etcd's protobuf form or as JSON.
//! - [`commit`] turns the operations of many callers into writes of one etcd key that several servers share.
//! - An [`audit`] compares what is recorded as allocated with what [Services](service) use. It reports each
//!   [`finding`], with [`leak`] counters from one audit to the next.
//! - A [`ledger`] hands out integers, addresses and blocks of them to owners, for control planes of other kinds.
//!   Feature `ledger`.
//! - [`address`] reads addresses as kube-apiserver does.

pub mod address;
pub mod allocator;
pub mod any;
pub mod audit;
pub mod bitmap;
pub mod cidr;
pub mod commit;
pub mod finding;
pub mod index;
pub mod ipaddress;
pub mod leak;
#[cfg(feature = "ledger")]
pub mod ledger;
pub mod numbers;
mod offsets;
pub mod ports;
pub mod range;
pub mod range_allocation;
pub mod service;
pub mod service_cidr;
pub mod snapshot;

// The crates whose types are in signatures: networks, and generators of random numbers.
#[cfg(feature = "bitvec")]
pub use bitvec;
#[cfg(feature = "roaring")]
pub use roaring;
pub use {ipnetwork, rand_core};

pub use allocator::{Allocator, Strategy};
pub use audit::{Audit, Leaks, Stored};
pub use cidr::CidrRange;
pub use commit::Committer;
pub use ports::PortRange;
pub use range::Range;
pub use range_allocation::RangeAllocation;
pub use service::Service;
