//! The stored RangeAllocation: the object that a kube-apiserver keeps in etcd under `/registry/ranges/NAME`.
//!
//! Three forms exist. [`Form::Protobuf`] is what every current server writes by default: the four bytes
//! `k8s\0`, then a `runtime.Unknown` message that wraps the RangeAllocation. [`Form::Json`] is
//! found in old clusters and where the kind is a custom resource (OpenShift's `scc-uid`). A server with
//! `--storage-media-type` writes JSON, or [`Form::Yaml`].
//!
//! A [`RangeAllocation`] has `range` and `data` as values, and everything around them (metadata, unknown fields, the
//! spelling of JSON and YAML) as the bytes that were read, with two slots into which encoding writes the current
//! values. So a rewrite changes these two values and nothing else, and an object that kube-apiserver wrote encodes to
//! the bytes it was read from.
//!
//! ```
//! use rangekeeper::range_allocation::{Form, RangeAllocation};
//!
//! let mut stored = RangeAllocation::new(Form::Protobuf);
//! assert!(!stored.is_initialised());
//! stored.range = "30000-32767".to_owned();
//! stored.data = vec![0b101];
//!
//! let again = RangeAllocation::decode(&stored.encode())?;
//! assert_eq!(again, stored);
//! # Ok::<(), rangekeeper::range_allocation::DecodeError>(())
//! ```

mod error;
mod json;
mod protobuf;
mod text;
mod yaml;

#[cfg(feature = "ledger")]
use std::ops::Range;

use text::Syntax;

pub use error::DecodeError;
#[doc(hidden)]
pub use protobuf::{Field, Reader, write_bytes, write_number};
#[doc(hidden)]
pub use yaml::{Line, Lines, lines};

/// The encodings in which a RangeAllocation is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `k8s\0` and a protobuf `runtime.Unknown`.
    Protobuf,
    /// A JSON object, `data` in standard base64 with padding.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The stored object: `range`, `data`, and everything around them, which survives a rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeAllocation {
    /// The range that `data` belongs to, in its canonical text (`10.96.0.0/12`, `30000-32767`).
    /// Empty: the object is not initialised yet.
    pub range: String,
    /// The bitmap as one big-endian unsigned integer; see the snapshot module.
    pub data: Vec<u8>,
    surroundings: Surroundings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Surroundings {
    Protobuf(protobuf::Surroundings),
    Json(text::Surroundings),
    Yaml(text::Surroundings),
}

/// The two parts of the object that encoding rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Range,
    Data,
}

impl RangeAllocation {
    /// A fresh object with empty range and data, which encodes as kube-apiserver 1.36 encodes a
    /// fresh one: empty metadata, and `data` written although it is empty.
    pub fn new(form: Form) -> Self {
        let surroundings = match form {
            Form::Protobuf => Surroundings::Protobuf(protobuf::Surroundings::fresh()),
            Form::Json => Surroundings::Json(json::fresh()),
            Form::Yaml => Surroundings::Yaml(yaml::fresh()),
        };
        RangeAllocation { range: String::new(), data: Vec::new(), surroundings }
    }

    /// Decodes a stored value of any form.
    ///
    /// Costs one scan over the fields and one copy of `data` (JSON and YAML: a scan of the text). Memory
    /// is bounded by a small multiple of the length of `stored`, whatever lengths it claims.
    ///
    /// In protobuf, `v1` / `RangeAllocation` is accepted; in JSON and YAML, the kind `RangeAllocation` of
    /// any apiVersion. Of a repeated field the last one counts, as in Kubernetes' decoders, and encoding writes it
    /// once; YAML has no repeated fields. Metadata must be well-formed, but is not checked further.
    ///
    /// # Errors
    /// See [`DecodeError`]; each names the byte offset in `stored`.
    pub fn decode(stored: &[u8]) -> Result<Self, DecodeError> {
        if stored.starts_with(protobuf::PREFIX) {
            return protobuf::decode(stored);
        }
        if let Some(rest) = stored.strip_prefix(b"k8s:enc:") {
            let provider = rest.split(|&byte| byte == b':').next().unwrap_or(rest);
            return Err(DecodeError::Encrypted { offset: 0, provider: error::excerpt(provider) });
        }
        match stored.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => json::decode(stored),
            _ if stored.is_empty() => Err(DecodeError::Empty { offset: 0 }),
            _ => yaml::decode(stored)?.ok_or_else(|| DecodeError::NotARangeAllocation {
                offset: 0,
                found: stored[..stored.len().min(8)].escape_ascii().to_string(),
            }),
        }
    }

    /// Decodes the stored value of a ledger. Returns the object without the ledger's state, and the place of that in
    /// `stored`; `None` if the value is JSON or YAML.
    #[cfg(feature = "ledger")]
    pub(crate) fn decode_ledger(stored: &[u8]) -> Result<Option<(Self, Range<usize>)>, DecodeError> {
        if stored.starts_with(protobuf::PREFIX) {
            return protobuf::decode_ledger(stored).map(Some);
        }
        Self::decode(stored).map(|_| None)
    }

    /// The form of this object, in which it is encoded.
    pub fn form(&self) -> Form {
        match self.surroundings {
            Surroundings::Protobuf(_) => Form::Protobuf,
            Surroundings::Json(_) => Form::Json,
            Surroundings::Yaml(_) => Form::Yaml,
        }
    }

    /// Whether the object has a range. Without one, the configured range counts and nothing is allocated.
    pub fn is_initialised(&self) -> bool {
        !self.range.is_empty()
    }

    /// Encodes the object into a new buffer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Encodes the object into `out`. Replaces the content of `out` and reuses its capacity.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        self.encode_with(&self.range, &self.data, out);
    }

    /// Like [`encode_into`](Self::encode_into), with `range` and `data` instead of the object's own, for a writer that
    /// keeps its bitmap elsewhere. Costs one copy of `data` (JSON and YAML: its base64 form).
    pub fn encode_with(&self, range: &str, data: &[u8], out: &mut Vec<u8>) {
        self.encode_ledger(range, data, &[], out);
    }

    /// Like [`encode_with`](Self::encode_with), with the state of a ledger, which JSON and YAML have no place for.
    pub(crate) fn encode_ledger(&self, range: &str, data: &[u8], ledger: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match &self.surroundings {
            Surroundings::Protobuf(surroundings) => surroundings.encode(range, data, ledger, out),
            Surroundings::Json(surroundings) => surroundings.encode(Syntax::Json, range, data, out),
            Surroundings::Yaml(surroundings) => surroundings.encode(Syntax::Yaml, range, data, out),
        }
    }
}
