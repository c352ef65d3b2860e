//! `GET /sign-in.css`, `/sign-in.js`, `/sign-in-address.js`, `/sign-in-logo` and
//! `/sign-in-logo/{app}`: the files of the pages.

use std::sync::Arc;

use selfsame_protocol::sign_in::response::ErrorBody;

use super::error::SignInEndpointError;
use super::page;
use super::state::SignIn;
use crate::http::{Rejection, Request, Response};

/// The style sheet of the pages
#[utoipa::path(
    get, path = "/sign-in.css", tag = "sign-in", operation_id = "sign_in_style",
    responses((status = 200, description = "The style sheet", content_type = "text/css", body = String)),
)]
pub async fn style(sign_in: Arc<SignIn>, _: Request) -> Result<Response, SignInEndpointError> {
    Ok(page::style(&sign_in.appearance))
}

/// The script that keeps the page of a sign-in up to date
#[utoipa::path(
    get, path = "/sign-in.js", tag = "sign-in", operation_id = "sign_in_script",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String)),
)]
pub async fn script() -> Result<Response, SignInEndpointError> {
    Ok(page::script())
}

/// The script of the page at the address for authenticators
#[utoipa::path(
    get, path = "/sign-in-address.js", tag = "sign-in", operation_id = "sign_in_address_script",
    responses((status = 200, description = "The script", content_type = "text/javascript", body = String)),
)]
pub async fn address_script() -> Result<Response, SignInEndpointError> {
    Ok(page::address_script())
}

/// The logo of the service
#[utoipa::path(
    get, path = "/sign-in-logo", tag = "sign-in", operation_id = "sign_in_logo",
    responses(
        (status = 200, description = "The image", content((Vec<u8> = "image/png"), (Vec<u8> = "image/webp"), (String = "image/svg+xml"))),
        (status = 404, description = "The service has no logo: `not_found`", body = ErrorBody),
    ),
)]
pub async fn logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.logo.clone();
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

/// The logo of an application
#[utoipa::path(
    get, path = "/sign-in-logo/{app}", tag = "sign-in", operation_id = "sign_in_app_logo",
    params(("app" = String, Path, description = "The application's id", example = "app_staging_5e1f5a3e000000000000000000000001")),
    responses(
        (status = 200, description = "The image", content((Vec<u8> = "image/png"), (Vec<u8> = "image/webp"), (String = "image/svg+xml"))),
        (status = 404, description = "There is no such application, or it has no logo: `not_found`", body = ErrorBody),
    ),
)]
pub async fn app_logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.app_logo(&request.param("app")?);
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

fn not_found(request: &Request) -> SignInEndpointError {
    Rejection::NotFound { path: request.path().to_owned() }.into()
}
