//! URLs in the configuration: bases of the interfaces, origins of browsers, redirect URIs of
//! applications.

use http::{HeaderValue, Uri};
use selfsame_protocol::net::is_loopback_host;
use serde::de::{Deserialize, Deserializer, Error as _};

/// Reads the base URL of an interface. Paths are appended to it as text.
pub(super) fn base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_base_url(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// Reads a list of redirect URIs.
pub(super) fn redirect_uris<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct RedirectUri(String);
    impl<'de> Deserialize<'de> for RedirectUri {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            check_redirect_uri(&text).map_err(D::Error::custom)?;
            Ok(Self(text))
        }
    }
    Ok(Vec::<RedirectUri>::deserialize(deserializer)?.into_iter().map(|uri| uri.0).collect())
}

/// Reads the URL of a page for people.
pub(super) fn optional_page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_page(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

/// An origin exactly as a browser sends it, because origins are compared as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl Origin {
    /// The origin as browsers send it.
    pub fn as_str(&self) -> &str {
        // It was made from a text.
        self.0.to_str().unwrap_or_default()
    }

    /// The value of the header `Origin` that is allowed.
    pub fn into_header_value(self) -> HeaderValue {
        self.0
    }
}

impl std::str::FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Err("\"*\" is not an origin; name every origin, like https://wallet.example".to_owned());
        }
        let uri = web_url(text)?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let right = match uri.port_u16() {
            Some(port) if (scheme, port) != ("https", 443) && (scheme, port) != ("http", 80) => {
                format!("{scheme}://{host}:{port}")
            }
            _ => format!("{scheme}://{host}"),
        };
        let wrong = || format!("{text:?} is not an origin as browsers send it; write {right:?}");
        if text != right {
            return Err(wrong());
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Splits an absolute http or https URL of printable ASCII without user, password and fragment.
pub(super) fn web_url(text: &str) -> Result<Uri, String> {
    let wrong =
        |reason: &str| format!("{text:?} {reason}; write it like https://id.example or https://id.example/path");
    if !text.starts_with("https://") && !text.starts_with("http://") {
        return Err(wrong("does not begin with https:// or http://"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("has characters other than printable ASCII"));
    }
    if text.contains('#') {
        return Err(wrong("has a fragment"));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("has a user in it"));
    }
    if authority.host().is_empty() || (authority.as_str() != authority.host() && uri.port_u16().is_none()) {
        return Err(wrong("has no proper host and port"));
    }
    Ok(uri)
}

fn check_base_url(text: &str) -> Result<(), String> {
    let uri = web_url(text)?;
    if uri.query().is_some() || text.ends_with('?') {
        return Err(format!("{text:?} has a query; write it without"));
    }
    if text.ends_with('/') {
        return Err(format!("{text:?} ends with a slash; write {:?}", text.trim_end_matches('/')));
    }
    Ok(())
}

/// Accepts https, and http only to this machine. `*` is refused: redirect URIs are compared byte
/// for byte, so that it would stand for itself and not for a pattern.
///
/// # Errors
/// What is wrong with the URI and what would be right.
pub fn check_redirect_uri(text: &str) -> Result<(), String> {
    if text.contains('*') {
        return Err(format!("{text:?} has a *, and there are no patterns; write each redirect URI in full"));
    }
    check_page(text)
}

/// Accepts https, and http only to this machine.
fn check_page(text: &str) -> Result<(), String> {
    let uri = web_url(text)?;
    if uri.scheme_str() == Some("http") && !uri.host().is_some_and(is_loopback_host) {
        return Err(format!("{text:?} is http; write https, or http only to localhost or a loopback address"));
    }
    Ok(())
}
