//! Kubernetes objects of the kinds that are read and written, and their names.
//!
//! ```
//! use rangekeeper_bootstrap::namespaces::namespace;
//! use rangekeeper_bootstrap::object::{Object, ObjectKey};
//!
//! let object = Object::from(namespace("kube-system"));
//! assert_eq!(object.key(), ObjectKey::namespace("kube-system"));
//! ```

use k8s_openapi::api::core::v1::{Endpoints, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The namespace of the Service `kubernetes` and its endpoints.
pub const NAMESPACE: &str = "default";
/// The name of the Service `kubernetes` and its endpoints.
pub const NAME: &str = "kubernetes";

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// `v1`.
    Namespace,
    /// `v1`.
    Service,
    /// `v1`.
    Endpoints,
    /// `discovery.k8s.io/v1`.
    EndpointSlice,
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The Namespace `name`.
    pub fn namespace(name: &str) -> Self {
        Self { kind: Kind::Namespace, namespace: String::new(), name: name.into() }
    }

    /// The object of this kind that belongs to the Service `kubernetes`.
    pub fn kubernetes(kind: Kind) -> Self {
        Self { kind, namespace: NAMESPACE.into(), name: NAME.into() }
    }
}

/// An object. Its JSON is an object with one field, named after the kind: `{"Service": {...}}`. Inside, `apiVersion`
/// and `kind` may be missing, but not differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the kinds have their documentation")]
pub enum Object {
    Namespace(Box<Namespace>),
    Service(Box<Service>),
    Endpoints(Box<Endpoints>),
    EndpointSlice(Box<EndpointSlice>),
}

impl Object {
    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespace(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Endpoints(object) => &object.metadata,
            Self::EndpointSlice(object) => &object.metadata,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespace,
            Self::Service(_) => Kind::Service,
            Self::Endpoints(_) => Kind::Endpoints,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
        }
    }

    /// Its name.
    pub fn key(&self) -> ObjectKey {
        let ObjectMeta { namespace, name, .. } = self.metadata();
        ObjectKey {
            kind: self.kind(),
            namespace: namespace.clone().unwrap_or_default(),
            name: name.clone().unwrap_or_default(),
        }
    }
}

macro_rules! conversions {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(Box::new(object))
            }
        }

        impl TryFrom<Object> for $kind {
            type Error = Kind;

            /// Fails with the kind of the object if it is another one.
            fn try_from(object: Object) -> Result<Self, Kind> {
                match object {
                    Object::$kind(object) => Ok(*object),
                    other => Err(other.kind()),
                }
            }
        }
    )*};
}

conversions!(Namespace, Service, Endpoints, EndpointSlice);

/// The default name.
pub(crate) fn name() -> String {
    NAME.into()
}

/// The metadata of a new Service, and of the endpoints of that Service.
pub(crate) fn metadata(name: &str, labels: &[(&str, &str)]) -> ObjectMeta {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(NAMESPACE.into()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change<T> {
    /// No change.
    Leave,
    /// Create the object. "Already exists" means that the read is out of date.
    Create(T),
    /// Write the whole object, with the resourceVersion that was read. A conflict means that the read is out of date.
    Update(T),
    /// Delete the object, if it is still the one that was read, and recreate it, since a field of it cannot be changed.
    Replace(T),
}

impl<T> Change<T> {
    /// The object after the change; `None` without a change.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Leave => None,
            Self::Create(object) | Self::Update(object) | Self::Replace(object) => Some(object),
        }
    }
}
