//! The leases by which servers know each other: one key per server below `/registry/masterleases/`, with a time to
//! live, whose value has the address.
//!
//! The value is a `v1` Endpoints object with an empty name and one address. Each refresh increments its generation,
//! since the reference writes only changed objects, and only a write renews the time to live (kubernetes
//! `pkg/controlplane/reconcilers/lease.go`).
//!
//! ```
//! use rangekeeper_bootstrap::leases::{Lease, StoredLease, key, survey};
//!
//! let directory = "/registry/masterleases/";
//! let lease = Lease { address: "192.0.2.10".into(), generation: 1 };
//! let key = key(directory, &lease.address);
//! let stored = StoredLease { key, value: lease.encode(), mod_revision: 7, lease_id: 42 };
//! assert_eq!(survey(directory, &[stored]).live, ["192.0.2.10"]);
//! ```

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Endpoints;
use rangekeeper::range_allocation::{Lines, lines, write_bytes, write_number};
use serde::{Deserialize, Serialize};

use crate::address::usable;
use crate::protobuf::{first_message, last, last_bytes};

/// The prefix of etcd values in Kubernetes' protobuf form.
const PREFIX: &[u8] = b"k8s\0";

/// The content of a lease's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lease {
    /// The server's address as it was written.
    pub address: String,
    /// The number of refreshes.
    pub generation: i64,
}

/// Why a lease's value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum DecodeError {
    /// The value is neither Kubernetes' protobuf nor an object in JSON or YAML.
    #[error("neither protobuf nor JSON nor YAML")]
    Unknown,
    /// A message does not end where it should, or a field has a wrong type.
    #[error("malformed protobuf at byte {offset}")]
    Malformed {
        /// The byte that does not fit.
        offset: usize,
    },
    /// The value is not the JSON of an Endpoints object.
    #[error("malformed JSON: {message}")]
    Json {
        /// The parser's message with line and column, up to 200 characters of it.
        message: String,
    },
    /// The value is not the YAML of an Endpoints object, as a kube-apiserver writes it.
    #[error("unsupported YAML: {message}")]
    Yaml {
        /// What does not fit, and its byte; up to 200 characters of it.
        message: String,
    },
    /// The object is of another kind.
    #[error("the object is of kind {kind:?}, not Endpoints")]
    Kind {
        /// The kind, up to 64 characters of it.
        kind: String,
    },
    /// The object has a content encoding, such as a compression.
    #[error("the object has a content encoding")]
    Encoded,
    /// The object has no address.
    #[error("the object has no address")]
    NoAddress,
}

impl From<rangekeeper::range_allocation::DecodeError> for DecodeError {
    fn from(error: rangekeeper::range_allocation::DecodeError) -> Self {
        Self::Malformed { offset: error.offset() }
    }
}

fn yaml_error(error: rangekeeper::range_allocation::DecodeError) -> DecodeError {
    DecodeError::Yaml { message: excerpt(&error.to_string(), 200) }
}

impl Lease {
    /// Reads a value in protobuf, JSON or YAML: the first address of the first subset, and the generation.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        if value.starts_with(PREFIX) {
            return Self::decode_protobuf(value);
        }
        if let Some(lines) = lines(value).map_err(yaml_error)? {
            return Self::decode_yaml(lines);
        }
        if value.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(DecodeError::Unknown);
        }
        let endpoints: Endpoints = serde_json::from_slice(value)
            .map_err(|error| DecodeError::Json { message: excerpt(&error.to_string(), 200) })?;
        let generation = endpoints.metadata.generation.unwrap_or_default();
        let subset = endpoints.subsets.into_iter().flatten().next();
        let address = subset.and_then(|subset| subset.addresses.into_iter().flatten().next());
        let address = address.map(|address| address.ip).filter(|ip| !ip.is_empty());
        Ok(Self { address: address.ok_or(DecodeError::NoAddress)?, generation })
    }

    /// A kube-apiserver indents by two columns, and not the hyphens of a list:
    ///
    /// ```yaml
    /// metadata:
    ///   generation: 7
    /// subsets:
    /// - addresses:
    ///   - ip: 192.0.2.10
    /// ```
    fn decode_yaml(lines: Lines<'_>) -> Result<Self, DecodeError> {
        let (mut kind, mut address, mut generation) = (String::new(), String::new(), 0);
        let (mut object, mut subset) = ("", "");
        let (mut subsets, mut addresses) = (0, 0);
        for line in lines {
            let line = line.map_err(yaml_error)?;
            match line.column {
                0 => object = line.key,
                2 => subset = line.key,
                _ => {}
            }
            if object == "subsets" {
                subsets += usize::from(line.item == Some(0));
                addresses += usize::from(subset == "addresses" && line.item == Some(2));
            }
            match (object, line.column, line.key) {
                ("kind", 0, _) => kind = line.string("kind").map_err(yaml_error)?.into_owned(),
                ("metadata", 2, "generation") => {
                    let malformed = |error| DecodeError::Yaml { message: format!("generation: {error}") };
                    generation = line.value.parse().map_err(malformed)?;
                }
                ("subsets", 4, "ip") if subsets == 1 && subset == "addresses" && addresses == 1 => {
                    address = line.string("ip").map_err(yaml_error)?.into_owned();
                }
                _ => {}
            }
        }
        if kind != "Endpoints" {
            return Err(DecodeError::Kind { kind: excerpt(&kind, 64) });
        }
        if address.is_empty() {
            return Err(DecodeError::NoAddress);
        }
        Ok(Self { address, generation })
    }

    fn decode_protobuf(value: &[u8]) -> Result<Self, DecodeError> {
        let unknown = PREFIX.len()..value.len();
        let type_meta = last_bytes(value, unknown.clone(), 1)?;
        let kind = &value[last_bytes(value, type_meta, 2)?];
        if kind != b"Endpoints" {
            return Err(DecodeError::Kind { kind: excerpt(&String::from_utf8_lossy(kind), 64) });
        }
        if !last_bytes(value, unknown.clone(), 3)?.is_empty() {
            return Err(DecodeError::Encoded);
        }
        let object = last_bytes(value, unknown, 2)?;
        let metadata = last_bytes(value, object.clone(), 1)?;
        let generation = last(value, metadata, 7)?.and_then(|field| field.varint()).unwrap_or_default() as i64;
        let Some(subset) = first_message(value, object, 2)? else { return Err(DecodeError::NoAddress) };
        let Some(address) = first_message(value, subset, 1)? else { return Err(DecodeError::NoAddress) };
        let ip = last_bytes(value, address, 1)?;
        let offset = ip.start;
        let address = str::from_utf8(&value[ip]).map_err(|_| DecodeError::Malformed { offset })?;
        if address.is_empty() {
            return Err(DecodeError::NoAddress);
        }
        Ok(Self { address: address.into(), generation })
    }

    /// The value in protobuf, byte for byte as a kube-apiserver writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut metadata = Vec::new();
        // name, generateName, namespace, selfLink, uid, resourceVersion, generation, creationTimestamp
        for number in 1..=6 {
            write_bytes(number, b"", &mut metadata);
        }
        write_number(7, self.generation as u64, &mut metadata);
        write_bytes(8, b"", &mut metadata);

        let mut address = Vec::new();
        write_bytes(1, self.address.as_bytes(), &mut address);
        // hostname
        write_bytes(3, b"", &mut address);
        let mut subset = Vec::new();
        write_bytes(1, &address, &mut subset);
        let mut object = Vec::new();
        write_bytes(1, &metadata, &mut object);
        write_bytes(2, &subset, &mut object);

        let mut type_meta = Vec::new();
        write_bytes(1, b"v1", &mut type_meta);
        write_bytes(2, b"Endpoints", &mut type_meta);
        let mut value = PREFIX.to_vec();
        write_bytes(1, &type_meta, &mut value);
        write_bytes(2, &object, &mut value);
        // contentEncoding, contentType
        write_bytes(3, b"", &mut value);
        write_bytes(4, b"", &mut value);
        value
    }
}

/// A lease as it is stored in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredLease {
    /// The key.
    pub key: String,
    /// The value; base64 in JSON.
    #[serde(with = "crate::bytes")]
    pub value: Vec<u8>,
    /// The revision of the last write.
    pub mod_revision: u64,
    /// The ID of etcd's lease; 0 if the key has none and never expires.
    pub lease_id: i64,
}

/// A fault of a lease. None of them removes a server from the endpoints that may live.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The value cannot be read.
    #[error("the value of lease {key} cannot be read: {error}")]
    Unreadable {
        /// The lease's key.
        key: String,
        /// The error.
        error: DecodeError,
    },
    /// The value has an address that cannot be an endpoint.
    #[error("lease {key} has the address {address:?}, which the API server refuses in endpoints")]
    Unusable {
        /// The lease's key.
        key: String,
        /// The address in the value, up to 64 characters of it.
        address: String,
    },
    /// The key and the value have different addresses. The value's counts; the key's is kept if it is in the endpoints.
    #[error("the value of lease {key} has another address than the key: {address}")]
    Mismatch {
        /// The lease's key.
        key: String,
        /// The address in the value.
        address: String,
    },
    /// The key has no time to live, so its server's address stays in the endpoints after the server has ended.
    #[error("lease {key} has no time to live")]
    NeverExpires {
        /// The lease's key.
        key: String,
    },
    /// Another server writes this server's lease, which means that both have the same address.
    #[error("another server writes lease {key} of this server; check that no two servers have the same address")]
    Shared {
        /// The lease's key.
        key: String,
    },
}

/// The addresses in the leases of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Survey {
    /// The addresses in the leases' values, whose servers live, in canonical text, sorted.
    pub live: Vec<String>,
    /// Addresses of keys whose values cannot be read or have another address, so that it is unknown whether a server
    /// with that address lives. Sorted; none of them is in `live`.
    pub doubtful: Vec<String>,
    /// The faults of the leases.
    pub faults: Vec<Fault>,
}

/// The key of the lease of `address`; `directory` ends with `/`.
pub fn key(directory: &str, address: &str) -> String {
    format!("{directory}{address}")
}

/// Reads all leases below `directory`, whatever is wrong with some of them.
pub fn survey(directory: &str, leases: &[StoredLease]) -> Survey {
    let mut live = BTreeSet::new();
    let mut doubtful = BTreeSet::new();
    let mut faults = Vec::new();
    for lease in leases {
        let by_key = lease.key.strip_prefix(directory).and_then(usable);
        let (by_value, fault) = check(lease, by_key.as_deref());
        if lease.lease_id == 0 {
            faults.push(Fault::NeverExpires { key: lease.key.clone() });
        }
        if fault.is_some() {
            doubtful.extend(by_key);
        }
        faults.extend(fault);
        live.extend(by_value);
    }
    faults.sort_unstable();
    doubtful.retain(|address| !live.contains(address));
    Survey { live: live.into_iter().collect(), doubtful: doubtful.into_iter().collect(), faults }
}

/// The address in the value of a lease, and its fault.
pub(crate) fn check(lease: &StoredLease, by_key: Option<&str>) -> (Option<String>, Option<Fault>) {
    let key = lease.key.clone();
    let written = match Lease::decode(&lease.value) {
        Ok(lease) => lease.address,
        Err(error) => return (None, Some(Fault::Unreadable { key, error })),
    };
    let Some(address) = usable(&written) else {
        return (None, Some(Fault::Unusable { key, address: excerpt(&written, 64) }));
    };
    let fault = (by_key != Some(address.as_str())).then(|| Fault::Mismatch { key, address: address.clone() });
    (Some(address), fault)
}

/// The beginning of a text, so that a report stays short whatever the value's size.
fn excerpt(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}
