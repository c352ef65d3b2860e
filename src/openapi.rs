//! `GET /openapi.json`: the descriptions of the interfaces at an address.

use bytes::Bytes;
use hyper::StatusCode;
use utoipa::openapi::OpenApi;

use crate::http::{Response, content};

/// A description, written out.
pub type Document = Bytes;

/// Joins the descriptions of interfaces that share an address. The first gives title and version.
pub fn document(descriptions: impl IntoIterator<Item = OpenApi>) -> Document {
    let joined = descriptions.into_iter().reduce(|mut joined, next| {
        joined.info.title = format!("{}, {}", joined.info.title, next.info.title);
        joined.merge(next);
        joined
    });
    joined.and_then(|joined| joined.to_json().ok()).unwrap_or_default().into()
}

/// The answer.
pub async fn answer<E>(document: Document) -> Result<Response, E> {
    Ok(content(StatusCode::OK, "application/json", document))
}
