//! The oracles of the fuzz targets: decoders and models, written as plainly as possible from the descriptions of the
//! formats, without a line of the core.

pub mod abi;
pub mod address;
pub mod bits;
pub mod json;
pub mod lease;
pub mod protobuf;
pub mod range;
pub mod service;
