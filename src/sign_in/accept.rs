//! Whether a client wants a page or JSON, and whether a person wants it at all.

use hyper::header::ACCEPT;
use selfsame_protocol::time::RetryAfter;

use crate::http::{Rejection, Request};

/// Whether the client is a program that wants JSON.
pub fn accepts_json(request: &Request) -> bool {
    names(request, "application/json")
}

/// Whether the client is a browser that wants a page.
pub fn accepts_html(request: &Request) -> bool {
    names(request, "text/html") && !accepts_json(request)
}

/// Refuses what a browser fetches before anybody asks for it: a page that begins a sign-in, ends
/// one or uses something up is made for a person. The browser asks again when the person goes
/// there.
///
/// # Errors
/// The headers say that it is such a fetch: `Sec-Purpose` of the Fetch standard, and what browsers
/// sent before it.
pub fn refuse_fetch_ahead(request: &Request) -> Result<(), Rejection> {
    let is_ahead = ["sec-purpose", "purpose", "x-purpose", "x-moz"].iter().any(|name| {
        let values = request.headers().get_all(*name).iter().filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split([',', ';', ' ']));
        words.any(|word| ["prefetch", "preview", "prerender"].iter().any(|ahead| word.eq_ignore_ascii_case(ahead)))
    });
    if is_ahead { Err(Rejection::Unavailable { retry_after: RetryAfter::SOON }) } else { Ok(()) }
}

/// Whether `Accept` names a type. A wildcard does not count.
fn names(request: &Request, content_type: &str) -> bool {
    request.list(&ACCEPT).any(|range| is_accepted(range, content_type))
}

/// Whether an element of `Accept` names a type, with another weight than 0, which refuses it.
fn is_accepted(range: &str, content_type: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(content_type));
    let is_refused = |parameter: &str| match parameter.split_once('=') {
        Some((name, weight)) if name.trim().eq_ignore_ascii_case("q") => weight.trim().parse() == Ok(0.0),
        _ => false,
    };
    is_named && !parts.any(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_a_type_in_any_case_unless_its_weight_is_0() {
        #[rustfmt::skip]
        let table = [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/json;q=0.1", true),
            ("application/json; q=0", false),
            ("application/json;Q=0.000", false),
            ("application/json;q=x", true),
            ("application/*", false),
            ("*/*", false),
            ("", false),
        ];
        for (range, expected) in table {
            assert_eq!(is_accepted(range, "application/json"), expected, "{range:?}");
        }
    }
}
