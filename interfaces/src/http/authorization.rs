//! The header `Authorization` (RFC 9110, section 11.6.2): the one reader of it.
//!
//! The name of the scheme is read in any case and ends with one or more spaces. What follows is not
//! checked here: a token that is not ASCII is read as a text that no token has, so that it fails as
//! every other unknown token does.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap};
use selfsame_protocol::operator_call::SCHEME;
use zeroize::Zeroizing;

use super::request::Request;
use super::response::Rejection;

/// Values of `WWW-Authenticate`: how a client can authenticate.
pub mod challenge {
    /// With a token.
    pub const BEARER: &str = "Bearer";
    /// With an access token or the secret of a sign-in.
    pub const ACCESS_TOKEN: &str = r#"Bearer realm="selfsame""#;
    /// The same after a request that is malformed (RFC 6750, section 3.1).
    pub const ACCESS_TOKEN_MALFORMED: &str = r#"Bearer realm="selfsame", error="invalid_request""#;
    /// The same after an access token that is not valid.
    pub const ACCESS_TOKEN_INVALID: &str = r#"Bearer realm="selfsame", error="invalid_token", error_description="the access token is unknown or has expired""#;
    /// With the id and the secret of an application.
    pub const CLIENT: &str = r#"Basic realm="selfsame", charset="UTF-8""#;
}

/// What the header of a request contains.
pub enum Authorization<'r> {
    /// A token (RFC 6750, section 2.1); empty when nothing follows the scheme. Bytes that are not
    /// UTF-8 are read as U+FFFD.
    Bearer(Cow<'r, str>),
    /// The id and secret of an application (RFC 7617); `None` when they cannot be decoded.
    Basic(Option<BasicCredentials>),
    /// A call that is signed with the operator's token ([`selfsame_protocol::operator_call`]): what
    /// follows the scheme.
    Signed(Cow<'r, str>),
    /// Another scheme.
    Other,
}

impl Authorization<'_> {
    /// The token; `None` with another scheme.
    pub fn bearer(&self) -> Option<&str> {
        if let Self::Bearer(token) = self { Some(token) } else { None }
    }
}

/// Id and secret of an application, from a Basic header.
///
/// RFC 6749, section 2.3.1, wants both form-encoded, and many clients send them as they are. A
/// secret in base64 has `+`, which form-decoding turns into a space. So a secret counts in both
/// readings.
pub struct BasicCredentials {
    /// The id, form-decoded where that is possible.
    pub id: String,
    /// The readings of the secret; none for an empty secret, which is no secret (RFC 6749, section
    /// 2.3.1).
    pub secrets: Vec<Zeroizing<String>>,
}

impl BasicCredentials {
    fn decode(encoded: &[u8]) -> Option<Self> {
        let text = Zeroizing::new(String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?);
        let (id, secret) = text.split_once(':')?;
        let mut secrets = Vec::new();
        if !secret.is_empty() {
            secrets.push(Zeroizing::new(secret.to_owned()));
            secrets.extend(form_decoded(secret).filter(|decoded| decoded != secret).map(Zeroizing::new));
        }
        Some(Self { id: form_decoded(id).unwrap_or_else(|| id.to_owned()), secrets })
    }
}

/// The text that a form-encoded value stands for; `None` when that is not UTF-8.
fn form_decoded(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

impl Request {
    /// The credentials in the header `Authorization`; `None` without the header.
    ///
    /// # Errors
    /// [`Rejection::RepeatedAuthorization`] with `challenge` when the header occurs twice: the two
    /// could name different callers.
    pub fn authorization(&self, challenge: &'static str) -> Result<Option<Authorization<'_>>, Rejection> {
        read(self.headers()).map_err(|Repeated| Rejection::RepeatedAuthorization { challenge })
    }
}

/// The header occurs more than once.
#[derive(Debug)]
struct Repeated;

fn read(headers: &HeaderMap) -> Result<Option<Authorization<'_>>, Repeated> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Repeated);
    }
    let value = value.as_bytes().trim_ascii();
    let (scheme, credentials) = match value.iter().position(|byte| *byte == b' ') {
        Some(end) => (&value[..end], value[end..].trim_ascii_start()),
        None => (value, b"" as &[u8]),
    };
    Ok(Some(if scheme.eq_ignore_ascii_case(b"bearer") {
        Authorization::Bearer(String::from_utf8_lossy(credentials))
    } else if scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) {
        Authorization::Signed(String::from_utf8_lossy(credentials))
    } else if scheme.eq_ignore_ascii_case(b"basic") {
        Authorization::Basic(BasicCredentials::decode(credentials))
    } else {
        Authorization::Other
    }))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let value = |value: &&[u8]| (AUTHORIZATION, HeaderValue::from_bytes(value).expect("a header value"));
        values.iter().map(value).collect()
    }

    #[test]
    fn schemes_are_read_in_any_case_and_with_any_number_of_spaces() {
        #[rustfmt::skip]
        let table: [(&[u8], &str); 13] = [
            (b"Bearer abc", "bearer abc"),
            (b"bearer abc", "bearer abc"),
            (b"BEARER   abc ", "bearer abc"),
            (b"Bearer a b", "bearer a b"),
            (b"Bearer", "bearer "),
            (b"Bearer \xc3\xa9", "bearer \u{e9}"),
            (b"Bearer \xff", "bearer \u{fffd}"),
            (b"Bearer\tabc", "other"),
            (b"Bearerabc", "other"),
            (b"Digest username=x", "other"),
            (b"Selfsame 1.2", "signed 1.2"),
            (b"", "other"),
            (b"bAsIc  YTpi", "basic"),
        ];
        for (value, expected) in table {
            let found = match read(&headers(&[value])).expect("one header").expect("a header") {
                Authorization::Bearer(token) => format!("bearer {token}"),
                Authorization::Basic(credentials) => {
                    assert!(credentials.is_some(), "{value:?}");
                    "basic".to_owned()
                }
                Authorization::Signed(call) => format!("signed {call}"),
                Authorization::Other => "other".to_owned(),
            };
            assert_eq!(found, expected, "{value:?}");
        }
        assert!(read(&headers(&[])).expect("no header").is_none());
        assert!(read(&headers(&[b"Bearer a", b"Bearer a"])).is_err(), "also two equal ones");
    }

    #[test]
    fn basic_secrets_count_as_they_are_and_form_decoded_and_an_empty_one_is_none() {
        let decoded = |text: &str| {
            let BasicCredentials { id, secrets } = BasicCredentials::decode(STANDARD.encode(text).as_bytes())?;
            Some((id, secrets.iter().map(|secret| secret.to_string()).collect::<Vec<_>>()))
        };
        #[rustfmt::skip]
        let table: [(&str, &str, &[&str]); 8] = [
            ("app_a:sk_b", "app_a", &["sk_b"]),
            ("a%3Ab:c+d%2B:e", "a:b", &["c+d%2B:e", "c d+:e"]),
            ("app_a:q+w/e==", "app_a", &["q+w/e==", "q w/e=="]),
            ("app_a:%zz", "app_a", &["%zz"]),
            ("app_a:%ff", "app_a", &["%ff"]),
            ("%ff:x", "%ff", &["x"]),
            ("app_a:", "app_a", &[]),
            (":", "", &[]),
        ];
        for (text, id, secrets) in table {
            let secrets = secrets.iter().map(|secret| (*secret).to_owned()).collect();
            assert_eq!(decoded(text), Some((id.to_owned(), secrets)), "{text:?}");
        }
        assert_eq!(decoded("no colon"), None);
        for encoded in ["", "!", "YTpi=", "/w=="] {
            assert!(BasicCredentials::decode(encoded.as_bytes()).is_none(), "{encoded:?}");
        }
    }
}
