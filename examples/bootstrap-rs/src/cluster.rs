//! Requests to the API server: its readiness, and its objects.

use std::error::Error as _;
use std::path::Path;

use k8s_openapi::api::core::v1::{Endpoints, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::dynamic::ParseDynamicObjectError;
use kube::{Api, Client, Error};
use rangekeeper_bootstrap::object::{Kind, Object, ObjectKey};
use rangekeeper_bootstrap::request::{Answer, Reason};

use crate::AnyError;
use crate::shell::{failed, with_causes};

/// An API server.
pub(crate) struct Cluster {
    client: Client,
}

impl Cluster {
    /// Reads the kubeconfig. Connects when the first request needs it.
    pub(crate) async fn new(kubeconfig: &Path) -> Result<Self, AnyError> {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
        Ok(Self { client: Client::try_from(config)? })
    }

    pub(crate) async fn ready(&self, path: &str) -> Answer {
        let asked = async {
            let request = http::Request::get(path).body(Vec::new()).map_err(Error::HttpError)?;
            self.client.request_text(request).await
        };
        match asked.await {
            Ok(_) => Answer::Done,
            // The server answers, though with an error.
            Err(Error::Api(status)) => failed(Reason::NotReady, format!("{path}: {}", status.message)),
            Err(error) => answer(&error),
        }
    }

    /// Without a resourceVersion the server reads the object from etcd, so that it is not older than the call.
    pub(crate) async fn get(&self, key: &ObjectKey) -> Answer {
        match self.api(key).get(&key.name).await {
            Ok(object) => match typed(key.kind, object) {
                Ok(object) => Answer::Object(object),
                Err(error) => failed(Reason::BadAnswer, format!("{:?} {}: {error}", key.kind, key.name)),
            },
            Err(error) => answer(&error),
        }
    }

    pub(crate) async fn create(&self, object: &Object) -> Answer {
        let created = async { self.api(&object.key()).create(&PostParams::default(), &untyped(object)?).await };
        created.await.map_or_else(|error| answer(&error), |_| Answer::Done)
    }

    pub(crate) async fn update(&self, object: &Object) -> Answer {
        let key = object.key();
        let updated = async { self.api(&key).replace(&key.name, &PostParams::default(), &untyped(object)?).await };
        updated.await.map_or_else(|error| answer(&error), |_| Answer::Done)
    }

    pub(crate) async fn delete(&self, key: &ObjectKey, uid: String, resource_version: String) -> Answer {
        let preconditions = Preconditions { uid: Some(uid), resource_version: Some(resource_version) };
        let options = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api(key).delete(&key.name, &options).await {
            Ok(_) => Answer::Done,
            Err(error) => answer(&error),
        }
    }

    /// The API of an object. All kinds share this code, since they differ only at run time.
    fn api(&self, key: &ObjectKey) -> Api<DynamicObject> {
        let resource = match key.kind {
            Kind::Namespace => ApiResource::erase::<Namespace>(&()),
            Kind::Service => ApiResource::erase::<Service>(&()),
            Kind::Endpoints => ApiResource::erase::<Endpoints>(&()),
            Kind::EndpointSlice => ApiResource::erase::<EndpointSlice>(&()),
        };
        let client = self.client.clone();
        match &key.namespace[..] {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        }
    }
}

/// An object in the form of the controller.
fn typed(kind: Kind, object: DynamicObject) -> Result<Object, ParseDynamicObjectError> {
    Ok(match kind {
        Kind::Namespace => object.try_parse::<Namespace>()?.into(),
        Kind::Service => object.try_parse::<Service>()?.into(),
        Kind::Endpoints => object.try_parse::<Endpoints>()?.into(),
        Kind::EndpointSlice => object.try_parse::<EndpointSlice>()?.into(),
    })
}

/// An object of the controller in the form of the client.
fn untyped(object: &Object) -> Result<DynamicObject, Error> {
    let value = match object {
        Object::Namespace(object) => serde_json::to_value(object),
        Object::Service(object) => serde_json::to_value(object),
        Object::Endpoints(object) => serde_json::to_value(object),
        Object::EndpointSlice(object) => serde_json::to_value(object),
    };
    value.and_then(serde_json::from_value).map_err(Error::SerdeError)
}

/// The answer to a request that failed with this error.
fn answer(error: &Error) -> Answer {
    let Error::Api(status) = error else {
        // The message repeats the message of its cause.
        return failed(Reason::Unanswered, with_causes(error.source().unwrap_or(error)));
    };
    match status.code {
        _ if status.is_not_found() => Answer::NotFound,
        _ if status.is_already_exists() => Answer::AlreadyExists,
        _ if status.is_conflict() => Answer::Conflict,
        429 | 500.. => failed(Reason::Unavailable, &status.message),
        _ => failed(Reason::Refused, &status.message),
    }
}
