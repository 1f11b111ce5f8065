#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! - Plans are pure functions from existing objects to a change: [`namespaces`], [`service`], [`endpoints`] and
//!   [`slice`](mod@slice), and [`reconcile`] for the last two together. [`plan`](mod@plan) has a question and an answer
//!   in JSON for each of them.
//! - [`modes`] decide which addresses belong in the endpoints; [`leases`] say which servers live.
//! - [`audit`] judges all of it for somebody who is none of the servers: findings, and what repairs them.
//! - A [`controller`] orders the requests, takes their answers, and says when to call it again. It consists of a
//!   [`lifecycle`] (what is due when), rounds (sequences of requests) and a [`journal`] (what was reported already).
//!   Its input and output are a [`config`], [`request`s](request) and [`object`]s.

mod address;
pub mod audit;
mod bytes;
pub mod config;
pub mod controller;
pub mod endpoints;
pub mod journal;
pub mod leases;
pub mod lifecycle;
mod millis;
pub mod modes;
pub mod namespaces;
pub mod object;
pub mod plan;
mod ports;
mod protobuf;
pub mod reconcile;
pub mod request;
mod rounds;
pub mod service;
pub mod slice;

pub use config::Config;
pub use controller::Controller;
pub use request::{Answer, Request};
