#![forbid(unsafe_code)]
//! What a Kubernetes control plane has to do around its ranges: the system namespaces, the Service `kubernetes`, the
//! endpoints behind it, and when all of that and the repair of the ranges is due, from start to stop.
//!
//! The crate decides and does no I/O: no clock, socket, file or global randomness. Times and answers come in as
//! arguments, requests and reports go out as values, and all of them have a JSON form.
//!
//! - Plans are pure functions from what exists to what has to be changed: [`namespaces`], [`service`], [`endpoints`]
//!   and [`slice`](mod@slice), and [`reconcile`] for both of the last two. [`plan`](mod@plan) puts each of them behind
//!   one question with a JSON form.
//! - [`modes`] say which addresses belong into the endpoints, [`leases`] which servers live.
//! - A [`controller`] puts them in order: it gives requests, takes answers, and says when to ask again. It is made of
//!   a [`lifecycle`] (what is due when), rounds (which requests a work consists of) and a [`journal`] (what is
//!   reported, once).
//!
//! ```
//! use std::time::Duration;
//! use rangekeeper_bootstrap::config::Config;
//! use rangekeeper_bootstrap::controller::Controller;
//! use rangekeeper_bootstrap::request::{Answer, Request};
//!
//! let config = Config { advertise_address: "192.0.2.10".into(), ..Config::default() };
//! let mut controller = Controller::new(config)?;
//! let step = controller.poll(Duration::ZERO);
//! for order in step.send {
//!     // A shell performs the request, and answers within order.timeout.
//!     let answer = match order.request {
//!         Request::Ready { .. } => Answer::Done,
//!         _ => Answer::NotFound,
//!     };
//!     controller.answered(Duration::ZERO, order.id, answer);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
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
mod protobuf;
pub mod reconcile;
pub mod request;
mod rounds;
pub mod service;
pub mod slice;
