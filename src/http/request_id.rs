//! `X-Request-Id`: the name of one request in answers and logs.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the id in both directions.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that a client may choose, in bytes.
const MAX_LENGTH: usize = 128;

/// The client's own id when it is 1 to 128 characters of `[A-Za-z0-9._-]`, otherwise a random UUID
/// (version 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Reads the id from a request's headers. Calls `random` only when the client sent no valid id.
    pub fn of(headers: &HeaderMap, random: impl FnOnce() -> [u8; 16]) -> Self {
        match headers.get(X_REQUEST_ID) {
            Some(value) if is_acceptable(value.as_bytes()) => Self(value.clone()),
            _ => Self::from_random(random()),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id as the value of [`X_REQUEST_ID`].
    pub fn into_header_value(self) -> HeaderValue {
        self.0
    }

    fn from_random(bytes: [u8; 16]) -> Self {
        let uuid = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid.hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-")))
    }
}

fn is_acceptable(id: &[u8]) -> bool {
    (1..=MAX_LENGTH).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = "00000000-0000-4000-8000-000000000000";

    fn id_for(value: Option<&[u8]>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        RequestId::of(&headers, || [0; 16]).as_str().to_owned()
    }

    #[test]
    fn a_valid_request_id_is_kept_and_any_other_is_replaced() {
        let longest = "a".repeat(128);
        let too_long = "a".repeat(129);
        for kept in ["a", "A.b_c-9", longest.as_str()] {
            assert_eq!(id_for(Some(kept.as_bytes())), kept);
        }
        for replaced in [b"" as &[u8], b"a b", b"a/b", b"\xff", too_long.as_bytes()] {
            assert_eq!(id_for(Some(replaced)), GENERATED, "{replaced:?}");
        }
        assert_eq!(id_for(None), GENERATED);
    }
}
