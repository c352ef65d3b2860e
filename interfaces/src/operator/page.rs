//! `GET /`: a page that shows the daemon's status and keeps itself up to date.
//!
//! The page is four files, so that its Content-Security-Policy can be strict: the browser may load
//! scripts and styles, and may connect, only at this address.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};

use super::OperatorError;
use crate::http::{Response, content};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The operator's page
///
/// The page.
#[utoipa::path(
    get, path = "/", tag = "operator", operation_id = "operator_page",
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
    ),
)]
pub async fn page() -> Result<Response, OperatorError> {
    Ok(file("text/html; charset=utf-8", include_str!("page/page.html")))
}

/// The script of the page
///
/// The script that reads the status and draws it.
#[utoipa::path(
    get, path = "/page.js", tag = "operator", operation_id = "operator_page_script",
    responses(
        (status = 200, description = "The script", content_type = "text/javascript", body = String),
    ),
)]
pub async fn script() -> Result<Response, OperatorError> {
    Ok(file("text/javascript; charset=utf-8", include_str!("page/page.js")))
}

/// The script of the curves
///
/// The script that draws the curves.
#[utoipa::path(
    get, path = "/curves.js", tag = "operator", operation_id = "operator_page_curves",
    responses(
        (status = 200, description = "The script", content_type = "text/javascript", body = String),
    ),
)]
pub async fn curves() -> Result<Response, OperatorError> {
    Ok(file("text/javascript; charset=utf-8", include_str!("page/curves.js")))
}

/// The style sheet of the page
///
/// The style sheet of the page.
#[utoipa::path(
    get, path = "/page.css", tag = "operator", operation_id = "operator_page_style",
    responses(
        (status = 200, description = "The style sheet", content_type = "text/css", body = String),
    ),
)]
pub async fn style() -> Result<Response, OperatorError> {
    Ok(file("text/css; charset=utf-8", include_str!("page/page.css")))
}

fn file(content_type: &'static str, text: &'static str) -> Response {
    let mut response = content(StatusCode::OK, content_type, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A browser must not run an old script on the page of a new daemon.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
