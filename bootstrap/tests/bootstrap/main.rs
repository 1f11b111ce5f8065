//! The tests of the crate: one program, as most of its compilation is the JSON of Kubernetes' objects.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod audit;
mod common;
mod controller;
mod document;
mod json;
mod leases;
mod lifecycle;
mod plan;
mod plans;
mod simulation;
