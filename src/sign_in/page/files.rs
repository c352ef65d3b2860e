//! The files of the pages: the style sheet, the scripts and the logos.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::colours;
use crate::http::{Response, content};
use crate::sign_in::appearance::{Appearance, Logo};

/// The style sheet without the colours of the configuration.
pub(super) const STYLE: &str = include_str!("sign-in.css");

/// What a browser may do with a logo that it opens as a page of its own: an SVG file can contain
/// scripts.
const LOGO_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// The style sheet of the pages, with the colours of the configuration.
pub fn style(appearance: &Appearance) -> Response {
    let colours = appearance.page.accent_colour.map(colours::rules).unwrap_or_default();
    file("text/css; charset=utf-8", format!("{STYLE}{colours}"))
}

/// The script that keeps the page of a sign-in up to date.
pub fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("sign-in.js"))
}

/// The script that copies the address for authenticators.
pub fn address_script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("sign-in-address.js"))
}

/// A logo.
pub fn logo(logo: Logo) -> Response {
    let mut response = file(logo.format.content_type(), logo.content);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, LOGO_POLICY);
    response
}

fn file(content_type: &'static str, bytes: impl Into<bytes::Bytes>) -> Response {
    let mut response = content(StatusCode::OK, content_type, bytes);
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
