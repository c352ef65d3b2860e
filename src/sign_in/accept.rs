//! Whether a client wants a page or JSON.

use hyper::header::ACCEPT;

use crate::http::Request;

/// Whether the client is a program that wants JSON.
pub fn accepts_json(request: &Request) -> bool {
    names(request, "application/json")
}

/// Whether the client is a browser that wants a page.
pub fn accepts_html(request: &Request) -> bool {
    names(request, "text/html") && !accepts_json(request)
}

/// Whether `Accept` names a type. A wildcard does not count.
fn names(request: &Request, content_type: &str) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|list| list.split(',')).map(|accepted| accepted.split(';').next().unwrap_or(""));
    types.any(|accepted| accepted.trim().eq_ignore_ascii_case(content_type))
}
