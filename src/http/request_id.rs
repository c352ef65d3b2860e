//! `X-Request-Id`: the name of one request in answers and logs.

use std::sync::{Mutex, PoisonError};

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

/// Fills bytes with random ones.
pub type FillRandom = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// Finds or makes the id of each request.
pub(super) struct RequestIds {
    random: FillRandom,
    /// Random bytes that no id has used yet.
    unused: Mutex<Vec<[u8; 16]>>,
}

impl RequestIds {
    /// How many ids one call of the random source is for. A call for each would be a system call
    /// for each request, which is a fortieth of the cost of a small read.
    const AT_ONCE: usize = 64;

    pub(super) fn new(random: FillRandom) -> Self {
        Self { random, unused: Mutex::default() }
    }

    /// The id in a request's headers; a random one when the client sent no valid id.
    pub(super) fn of(&self, headers: &HeaderMap) -> RequestId {
        match headers.get(X_REQUEST_ID) {
            Some(value) if is_acceptable(value.as_bytes()) => RequestId(value.clone()),
            _ => RequestId::from_random(self.next()),
        }
    }

    fn next(&self) -> [u8; 16] {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.is_empty() {
            unused.resize(Self::AT_ONCE, [0; 16]);
            (self.random)(unused.as_flattened_mut());
        }
        unused.pop().unwrap_or_default()
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

    #[test]
    fn every_generated_id_has_random_bytes_of_its_own() {
        let calls = std::sync::Arc::new(Mutex::new(0_u8));
        let ids = RequestIds::new({
            let calls = std::sync::Arc::clone(&calls);
            Box::new(move |bytes| {
                let mut calls = calls.lock().unwrap();
                *calls += 1;
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = if index % 16 == 0 { *calls } else { (index / 16) as u8 };
                }
            })
        });
        let count = 3 * RequestIds::AT_ONCE;
        let distinct: std::collections::HashSet<_> =
            (0..count).map(|_| ids.of(&HeaderMap::new()).as_str().to_owned()).collect();
        assert_eq!(distinct.len(), count);
        assert_eq!(*calls.lock().unwrap(), 3);
    }

    fn id_for(value: Option<&[u8]>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        RequestIds::new(Box::new(|bytes| bytes.fill(0))).of(&headers).as_str().to_owned()
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
