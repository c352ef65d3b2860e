//! Cross-origin access for browsers (the Fetch standard's CORS protocol). Without a [`Cors`] an interface grants none.

use hyper::StatusCode;
use hyper::Uri;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderMap, HeaderValue, VARY,
};

use super::response::{Response, empty};

/// Which origins may read an interface's answers. Credentials (cookies) are never allowed across origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    /// Every origin.
    Any,
    /// Exactly these, compared byte for byte.
    Origins(Vec<HeaderValue>),
}

/// An allowed origin that no browser would ever send.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin: it must be \"*\", or scheme://host with an optional port, in lower case, and end there"
)]
pub struct InvalidOrigin(pub String);

impl Cors {
    /// Reads a list of allowed origins: none of them means no cross-origin access, `*` among them means every origin.
    pub fn from_origins<T: AsRef<str>>(origins: &[T]) -> Result<Option<Self>, InvalidOrigin> {
        let origins = origins.iter().map(AsRef::as_ref);
        let listed =
            origins.clone().filter(|origin| *origin != "*").map(parse_origin).collect::<Result<Vec<_>, _>>()?;
        if origins.clone().any(|origin| origin == "*") {
            return Ok(Some(Self::Any));
        }
        Ok((!listed.is_empty()).then_some(Self::Origins(listed)))
    }

    /// The answer to `OPTIONS` on a path that takes the methods in `allow`; [`Cors::grant`] completes it.
    pub(super) fn preflight(allow: &HeaderValue) -> Response {
        let mut response = empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        headers.insert(ALLOW, allow.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow.clone());
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, X-Request-Id"),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        response
    }

    /// Marks an answer as readable for the request's origin, if that is allowed.
    pub(super) fn grant(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        let granted = match self {
            // The same for everybody, so that a shared cache may hand it to everybody.
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Origins(origins) => {
                headers.append(VARY, HeaderValue::from_static("Origin"));
                origin.filter(|origin| origins.contains(origin)).cloned()
            }
        };
        if let Some(granted) = granted {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, granted);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Retry-After, X-Request-Id"));
        }
    }
}

fn parse_origin(origin: &str) -> Result<HeaderValue, InvalidOrigin> {
    let invalid = || InvalidOrigin(origin.to_owned());
    let uri: Uri = origin.parse().map_err(|_| invalid())?;
    let serialized =
        format!("{}://{}", uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |a| a.as_str()));
    let is_origin = uri.host().is_some_and(|host| !host.is_empty()) && !origin.contains('@');
    if !is_origin || origin != serialized.to_ascii_lowercase() {
        return Err(invalid());
    }
    HeaderValue::from_str(origin).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_strictly() {
        let origin = |text| HeaderValue::from_static(text);
        assert_eq!(Cors::from_origins::<&str>(&[]), Ok(None));
        assert_eq!(Cors::from_origins(&["https://a.example", "*"]), Ok(Some(Cors::Any)));
        assert_eq!(
            Cors::from_origins(&["https://a.example", "http://localhost:3000"]),
            Ok(Some(Cors::Origins(vec![origin("https://a.example"), origin("http://localhost:3000")])))
        );
        for wrong in [
            "",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://A.example",
            "https://u@a.example",
            "https://a.example/x?y",
        ] {
            assert_eq!(Cors::from_origins(&[wrong]), Err(InvalidOrigin(wrong.to_owned())));
        }
    }
}
