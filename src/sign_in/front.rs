//! `GET /`: the root of the service.

use std::sync::Arc;

use super::accept::accepts_html;
use super::error::SignInEndpointError;
use super::page;
use super::state::SignIn;
use crate::http::{Rejection, Request, Response};

/// A page for a browser that says what the service is. A program gets the error of an unknown path.
pub async fn front(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    match accepts_html(&request) {
        true => Ok(page::front(&sign_in.frame(&request))),
        false => Err(Rejection::NotFound { path: request.path().to_owned() }.into()),
    }
}
