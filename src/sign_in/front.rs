//! `GET /`: the root of the service.

use std::sync::Arc;

use selfsame_protocol::sign_in::response::ErrorBody;

use super::accept::accepts_html;
use super::error::SignInEndpointError;
use super::page;
use super::state::SignIn;
use crate::http::{Rejection, Request, Response};

/// What the service is
///
/// A page for browsers. A program gets the error of an unknown path.
#[utoipa::path(
    get, path = "/", tag = "sign-in", operation_id = "front_page",
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "The request accepts no page: `not_found`", body = ErrorBody),
    ),
)]
pub async fn front(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    match accepts_html(&request) {
        true => Ok(page::front(&sign_in.frame(&request))),
        false => Err(Rejection::NotFound { path: request.path().to_owned() }.into()),
    }
}
