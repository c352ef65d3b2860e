//! The header `X-Selfsame-Height`: a block that an answer depends on, or that a read has to show.
//!
//! The replicas of a cluster show the same blocks, not at the same moment. A client that has a
//! final state from one of them and reads from another one sends the height along. A daemon that
//! is alone shows every block that it has named, so there the header changes nothing.

use std::sync::Arc;

use futures_util::FutureExt;
use hyper::header::{HeaderName, HeaderValue};
use selfsame_actors::{HeightError, RegistryHandle, TooManyRequests};
use selfsame_protocol::time::RetryAfter;
use utoipa::openapi::OpenApi;

use crate::http::{Before, Rejection, Request, Response};
use crate::openapi::describe_header;

/// The header: a height, in decimal digits.
pub const X_SELFSAME_HEIGHT: HeaderName = HeaderName::from_static("x-selfsame-height");

/// What has a registry whose blocks are awaited.
pub trait HasRegistry: Send + Sync + 'static {
    /// The registry.
    fn registry(&self) -> &RegistryHandle;
}

/// Waits until the registry shows the block that a request names, if it names one.
///
/// # Errors
/// [`Rejection::BadRequest`] for a value that is no height, and at a replica for a height that no
/// block has yet; [`Rejection::TooManyRequests`] for a source that sends many such heights;
/// [`Rejection::Unavailable`] when the block does not come in time.
pub fn await_height<S: HasRegistry>(state: &Arc<S>, request: &Request) -> Before {
    let text = request.header(&X_SELFSAME_HEIGHT)?;
    let Some(text) = text else { return Ok(None) };
    let height = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let height = height.ok_or_else(|| {
        Rejection::BadRequest(format!("the header {X_SELFSAME_HEIGHT} is not the height of a block in decimal digits"))
    })?;
    let registry = state.registry().clone();
    if registry.height() >= height {
        return Ok(None);
    }
    let source = request.source();
    let waiting = async move {
        registry.await_height(height, Some(source)).await.map_err(|error| match error {
            HeightError::NoSuchBlock { .. } => {
                Rejection::BadRequest(format!("the header {X_SELFSAME_HEIGHT}: {error}"))
            }
            HeightError::TooMany(TooManyRequests { retry_after }) => Rejection::TooManyRequests { retry_after },
            HeightError::Late => Rejection::Unavailable { retry_after: RetryAfter::SOON },
        })
    };
    Ok(Some(waiting.boxed()))
}

/// Describes the header, which every endpoint of an interface takes.
pub fn describe_height(description: &mut OpenApi) {
    let about =
        "The height of a block that the answer has to show, from an earlier answer of another replica of a cluster";
    describe_header(description, X_SELFSAME_HEIGHT.as_str(), "^[0-9]{1,19}$", about);
}

/// Adds the height of a block to an answer.
pub fn with_height(mut response: Response, height: Option<u64>) -> Response {
    if let Some(height) = height {
        response.headers_mut().insert(X_SELFSAME_HEIGHT, HeaderValue::from(height));
    }
    response
}
