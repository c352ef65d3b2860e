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
