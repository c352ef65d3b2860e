//! `GET /sign-in.css`, `/sign-in.js`, `/sign-in-address.js`, `/sign-in-logo` and
//! `/sign-in-logo/{app}`: the files of the pages.

use std::sync::Arc;

use super::error::SignInEndpointError;
use super::page;
use super::state::SignIn;
use crate::http::{Rejection, Request, Response};

/// The style sheet.
pub async fn style(sign_in: Arc<SignIn>, _: Request) -> Result<Response, SignInEndpointError> {
    Ok(page::style(&sign_in.appearance))
}

/// The script of the page of a sign-in.
pub async fn script() -> Result<Response, SignInEndpointError> {
    Ok(page::script())
}

/// The script of the page at the address for authenticators.
pub async fn address_script() -> Result<Response, SignInEndpointError> {
    Ok(page::address_script())
}

/// The logo of the service.
pub async fn logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.logo.clone();
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

/// The logo of an application.
pub async fn app_logo(sign_in: Arc<SignIn>, request: Request) -> Result<Response, SignInEndpointError> {
    let logo = sign_in.appearance.app_logo(&request.param("app")?);
    logo.map(page::logo).ok_or_else(|| not_found(&request))
}

fn not_found(request: &Request) -> SignInEndpointError {
    Rejection::NotFound { path: request.path().to_owned() }.into()
}
