//! Whether a page of this service sent a form.

use hyper::header::{HeaderName, ORIGIN};

use super::state::SignIn;
use crate::http::Request;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a page of this service sent the request, as far as the browser says. A client that says
/// nothing counts as the same origin: only browsers carry the requests of other sites.
pub fn is_same_origin(sign_in: &SignIn, request: &Request) -> bool {
    let text = |name: &HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    match (text(&SEC_FETCH_SITE), text(&ORIGIN)) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin == sign_in.origin(),
        (None, None) => true,
    }
}
