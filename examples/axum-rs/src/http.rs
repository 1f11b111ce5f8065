//! The part of the Kubernetes API that is served, and its errors.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use etcd_rs::kv::Stored;
use etcd_rs::services::{Error, Services};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Time};
use k8s_openapi::{List, jiff::Timestamp};
use serde_json::json;

use crate::service::{decode, fill, prepare};

pub(crate) fn router(services: Arc<Services>) -> Router {
    Router::new()
        .route("/api/v1/services", get(async |services| list(services, Path(String::new())).await))
        .route("/api/v1/namespaces/{namespace}/services", get(list).post(create))
        .route("/api/v1/namespaces/{namespace}/services/{name}", get(read).delete(delete))
        .fallback(async || Refusal(404, "NotFound", "this path is not served".to_owned(), None))
        .with_state(services)
}

async fn list(State(services): State<Arc<Services>>, Path(namespace): Path<String>) -> Response {
    let prefix = if namespace.is_empty() { namespace } else { format!("{namespace}/") };
    answer(StatusCode::OK, async move {
        let (stored, revision) = services.list(&prefix).await?;
        let metadata = ListMeta { resource_version: Some(revision.to_string()), ..ListMeta::default() };
        Ok(List { items: stored.iter().map(readable).collect::<Result<_, _>>()?, metadata })
    })
    .await
}

async fn read(State(services): State<Arc<Services>>, Path((namespace, name)): Path<(String, String)>) -> Response {
    answer(StatusCode::OK, async move { readable(&services.get(&format!("{namespace}/{name}")).await?) }).await
}

async fn delete(State(services): State<Arc<Services>>, Path((namespace, name)): Path<(String, String)>) -> Response {
    answer(StatusCode::OK, async move { readable(&services.delete(&format!("{namespace}/{name}")).await?) }).await
}

async fn create(
    State(services): State<Arc<Services>>,
    Path(namespace): Path<String>,
    Query(parameters): Query<HashMap<String, String>>,
    body: Bytes,
) -> Response {
    answer(StatusCode::CREATED, async move {
        let bad = |error| Refusal(400, "BadRequest", format!("the body is not a Service: {error}"), None);
        let mut service: Service = serde_json::from_slice(&body).map_err(bad)?;
        let found = service.metadata.namespace.get_or_insert_with(|| namespace.clone());
        if *found != namespace {
            return invalid("metadata.namespace", found, "is not that of the path");
        }
        let wants = prepare(&mut service, &services.families())?;
        let name = format!("{namespace}/{}", service.metadata.name.clone().unwrap_or_default());
        let random = || RandomState::new().hash_one(0);
        service.metadata.uid = Some(format!("{:016x}{:016x}", random(), random()));
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        service.metadata.creation_timestamp = Timestamp::from_second(now.cast_signed()).ok().map(Time);
        let wanted: Vec<_> = wants.iter().map(|want| want.wanted.clone()).collect();
        let make = |values: Vec<_>| {
            fill(&mut service, &wants, &values);
            serde_json::to_vec(&service).map_err(|error| error.to_string())
        };
        match services.create(&name, &wanted, parameters.contains_key("dryRun"), make).await {
            Ok(revision) => service.metadata.resource_version = revision.map(|revision| revision.to_string()),
            Err(Error::Value { wanted, value, why }) => return invalid(&wants[wanted].field, value, why),
            Err(error) => return Err(error.into()),
        }
        Ok(service)
    })
    .await
}

fn readable(stored: &Stored) -> Result<Service, Refusal> {
    decode(stored).map_err(|error| Error::Coding(stored.key.clone(), error).into())
}

/// Carries a request out, also if its client goes away meanwhile: so nothing leaks.
async fn answer<T: serde::Serialize + Send + 'static>(
    code: StatusCode,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Response {
    match tokio::spawn(work).await {
        Ok(Ok(object)) => (code, Json(object)).into_response(),
        Ok(Err(refusal)) => refusal.into_response(),
        Err(error) => Refusal(500, "InternalError", error.to_string(), None).into_response(),
    }
}

/// The code, reason and message of a Status, and the field that it is about.
pub(crate) struct Refusal(u16, &'static str, String, Option<String>);

pub(crate) fn invalid<T>(field: impl Into<String>, value: impl ToString, why: impl ToString) -> Result<T, Refusal> {
    let (field, value, why) = (field.into(), value.to_string(), why.to_string());
    Err(Refusal(422, "Invalid", format!("{field}: Invalid value: {value:?}: {why}"), Some(field)))
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let (code, reason) = match error {
            Error::NotFound(_) => (404, "NotFound"),
            Error::AlreadyExists(_) => (409, "AlreadyExists"),
            Error::Again(_) => (503, "ServiceUnavailable"),
            Error::Unknown(_) => (504, "Timeout"),
            _ => (500, "InternalError"),
        };
        Self(code, reason, error.to_string(), None)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(code, reason, message, field) = self;
        let causes: Vec<_> = field.iter().map(|field| json!({ "field": field, "message": &message })).collect();
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
            "message": &message, "details": { "kind": "services", "causes": causes },
        });
        (StatusCode::from_u16(code).unwrap_or_default(), Json(status)).into_response()
    }
}
