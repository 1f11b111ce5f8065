#![forbid(unsafe_code)]
//! The allocator at the heart of a Kubernetes control plane: it hands out Service ClusterIPs and NodePorts from
//! ranges, stores them exactly as kube-apiserver does, and finds and repairs drift between what is allocated and what
//! Services use.
//!
//! The crate decides and does no I/O: no clock, socket, file or global randomness. Bytes, seeds and times come in as
//! arguments, decisions go out as values.
//!
//! - A [`range`] maps values (addresses or ports) to offsets; [`cidr`] and [`ports`] are the kinds, and [`any`] stands for
//!   one of them.
//! - An [`allocator`] knows which offsets are in use, in a [`bitmap`] whose memory is the stored [`snapshot`].
//! - A [`range_allocation`] is the stored object around that snapshot, in etcd's protobuf form or as JSON.
//! - [`commit`] makes the operations of many callers into writes of one key of etcd that several servers share. Its
//!   documentation shows the whole loop.
//! - An [`audit`] compares what is recorded as allocated with what Services use, with [`leak`] counters from one audit to
//!   the next.
//! - Where ClusterIPs are IPAddress objects, a [`service_cidr`] says which address is tried next, and [`ipaddress`] which
//!   objects are right.
//!
//! ```
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//! use rangekeeper::allocator::{Allocator, Strategy};
//! use rangekeeper::cidr::CidrRange;
//!
//! let range: CidrRange = "10.96.0.0/12".parse()?;
//! let mut allocator = Allocator::new(range, Strategy::DynamicBandFirst);
//! allocator.allocate("10.96.0.1".parse()?)?;
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(42);
//! let address = allocator.allocate_next(&mut rng)?;
//! assert!(allocator.has(address));
//! assert_eq!(allocator.used(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod address;
pub mod allocator;
pub mod any;
pub mod audit;
pub mod bitmap;
pub mod cidr;
pub mod commit;

pub mod finding;
pub mod ipaddress;
pub mod leak;
pub mod ports;
pub mod range;
pub mod range_allocation;
pub mod service;
pub mod service_cidr;
pub mod snapshot;
