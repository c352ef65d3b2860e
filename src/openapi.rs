//! `GET /openapi.json`: the descriptions of the interfaces at an address.

use bytes::Bytes;
use hyper::StatusCode;
use utoipa::openapi::OpenApi;

use crate::http::{Response, content};

/// An OpenAPI document as JSON text.
pub type Document = Bytes;

/// Joins the descriptions of interfaces that share an address. The title names all of them; the
/// version and the introduction are those of the first.
pub fn document(descriptions: impl IntoIterator<Item = OpenApi>) -> Document {
    let joined = descriptions.into_iter().reduce(|mut joined, next| {
        joined.info.title = format!("{}, {}", joined.info.title, next.info.title);
        joined.merge(next);
        joined
    });
    joined.and_then(|joined| joined.to_json().ok()).unwrap_or_default().into()
}

/// Describes the route of `path` also under the path `again`.
pub fn describe_alias(description: &mut OpenApi, path: &str, again: String) {
    let Some(mut item) = description.paths.paths.get(path).cloned() else { return };
    // Operation ids must be unique in a document.
    let id = again.trim_start_matches('/').replace(['/', '-', '.'], "_");
    for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
        operation.operation_id = Some(id.clone());
    }
    description.paths.paths.insert(again, item);
}

/// What is served at this address
///
/// The interfaces that share an address are described together.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service", operation_id = "openapi",
    responses((status = 200, description = "This document", body = serde_json::Value, example = json!({"openapi":"3.1.0"}))),
)]
pub async fn answer<E>(document: Document) -> Result<Response, E> {
    Ok(content(StatusCode::OK, "application/json", document))
}
