//! The plan for the system namespaces, which are created if they are missing and never changed.
//!
//! ```
//! use rangekeeper_bootstrap::namespaces::{SYSTEM, plan};
//!
//! let missing = plan(&["default", "kube-system"], &SYSTEM);
//! let names: Vec<_> = missing.iter().filter_map(|namespace| namespace.metadata.name.as_deref()).collect();
//! assert_eq!(names, ["kube-public", "kube-node-lease"]);
//! ```

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The namespaces of every cluster (kubernetes `pkg/controlplane`).
pub const SYSTEM: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The namespaces to create: those of `wanted` that do not exist, each once. For the caller, "already exists" is a
/// success.
pub fn plan<E: AsRef<str>, W: AsRef<str>>(existing: &[E], wanted: &[W]) -> Vec<Namespace> {
    let mut missing: Vec<&str> = Vec::new();
    for name in wanted.iter().map(AsRef::as_ref) {
        if !existing.iter().any(|existing| existing.as_ref() == name) && !missing.contains(&name) {
            missing.push(name);
        }
    }
    missing.into_iter().map(namespace).collect()
}

/// A new namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Namespace::default() }
}

/// Whether the text can be the name of a namespace: an RFC 1123 label.
pub(crate) fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        && inner(bytes[0])
        && inner(bytes[bytes.len() - 1])
}
