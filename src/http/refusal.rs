//! Why a request is refused before, beside or instead of an interface's own rules.
//!
//! Each interface has an error type of its own that can hold a [`Refusal`] ([`InterfaceError`]), and turns all of it
//! into answers in one place. [`Refusal::respond`] sees to the status and the headers that HTTP asks for, so that an
//! interface only chooses the body; [`ErrorCodes`] does the rest for interfaces whose errors are
//! `{"code","message"}`.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER};
use serde::Serialize;

use super::response::{Response, json};

/// A request that could not be served, for reasons every interface shares. Its text is fit for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// 400: the request breaks HTTP or its own framing.
    #[error("{0}")]
    BadRequest(String),
    /// 404: no route for this path.
    #[error("nothing is served at {path}")]
    NotFound { path: String },
    /// 405: the path is known, the method is not.
    #[error("the method is {method}, this path takes {}", allow.to_str().unwrap_or_default())]
    MethodNotAllowed { method: String, allow: HeaderValue },
    /// 413: the body is longer than its limit in bytes.
    #[error("the body is longer than {limit} bytes")]
    PayloadTooLarge { limit: usize },
    /// 415: the body's type or encoding is not one that the route reads.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 429: the source asked too often.
    #[error("too many requests, try again in {} s", seconds(*retry_after))]
    TooManyRequests { retry_after: Duration },
    /// 500: a fault of ours, told in the log and not here.
    #[error("an internal error; the log has it under the X-Request-Id of this answer")]
    Internal,
    /// 503: the part of the service that is needed is overloaded, starting or stopping.
    #[error("not available at the moment, try again in {} s", seconds(*retry_after))]
    Unavailable { retry_after: Duration },
    /// 504: the answer took longer than the request timeout.
    #[error("the request was not answered in time")]
    Timeout,
}

/// An interface's errors: they take in transport errors and become answers.
pub trait InterfaceError: From<Refusal> + Send + 'static {
    /// Status, headers and body of the answer.
    fn into_response(self) -> Response;
}

impl Refusal {
    /// The status this refusal has unless an interface says otherwise.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The answer with `body` as JSON, the refusal's status, and the `Allow` or `Retry-After` that belongs to it.
    pub fn respond<T: Serialize + ?Sized>(&self, body: &T) -> Response {
        let mut response = json(self.status(), body);
        match self {
            Self::MethodNotAllowed { allow, .. } => {
                response.headers_mut().insert(ALLOW, allow.clone());
            }
            Self::TooManyRequests { retry_after } | Self::Unavailable { retry_after } => {
                response.headers_mut().insert(RETRY_AFTER, seconds(*retry_after).into());
            }
            _ => {}
        }
        response
    }
}

/// Whole seconds as `Retry-After` has them: rounded up, never 0.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// The body `{"code","message"}` of gateway, indexer and operator errors.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody<'a> {
    pub code: &'a str,
    pub message: &'a str,
}

/// Which code of an interface stands for which refusal, for interfaces that answer with [`ErrorBody`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorCodes {
    /// For [`Refusal::Unavailable`], the one that the interfaces disagree on.
    pub unavailable: &'static str,
}

impl ErrorCodes {
    /// The registry gateway's codes.
    pub const GATEWAY: Self = Self { unavailable: "batcher_unavailable" };
    /// The registry indexer's codes.
    pub const INDEXER: Self = Self { unavailable: "internal_server_error" };
    /// The operator interface's codes.
    pub const OPERATOR: Self = Self { unavailable: "unavailable" };

    /// The code for a refusal.
    pub fn code(&self, refusal: &Refusal) -> &'static str {
        match refusal {
            Refusal::BadRequest(_)
            | Refusal::MethodNotAllowed { .. }
            | Refusal::PayloadTooLarge { .. }
            | Refusal::UnsupportedMediaType(_) => "bad_request",
            Refusal::NotFound { .. } => "not_found",
            Refusal::TooManyRequests { .. } => "rate_limit_exceeded",
            Refusal::Internal => "internal_server_error",
            Refusal::Unavailable { .. } => self.unavailable,
            Refusal::Timeout => "request_timeout",
        }
    }

    /// The whole answer to a refusal.
    pub fn respond(&self, refusal: &Refusal) -> Response {
        refusal.respond(&ErrorBody { code: self.code(refusal), message: &refusal.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_gateways_and_the_indexers_status_and_code() {
        let retry_after = Duration::from_millis(1500);
        let allow = HeaderValue::from_static("GET, HEAD");
        #[rustfmt::skip]
        let table = [
            (Refusal::BadRequest("x".into()), 400, "bad_request", "bad_request"),
            (Refusal::NotFound { path: "/x".into() }, 404, "not_found", "not_found"),
            (Refusal::MethodNotAllowed { method: "PUT".into(), allow }, 405, "bad_request", "bad_request"),
            (Refusal::PayloadTooLarge { limit: 1 }, 413, "bad_request", "bad_request"),
            (Refusal::UnsupportedMediaType("x".into()), 415, "bad_request", "bad_request"),
            (Refusal::TooManyRequests { retry_after }, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
            (Refusal::Internal, 500, "internal_server_error", "internal_server_error"),
            (Refusal::Unavailable { retry_after }, 503, "batcher_unavailable", "internal_server_error"),
            (Refusal::Timeout, 504, "request_timeout", "request_timeout"),
        ];
        for (refusal, status, gateway, indexer) in table {
            let response = ErrorCodes::GATEWAY.respond(&refusal);
            assert_eq!(response.status(), status, "{refusal}");
            assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{refusal}");
            let wait = response.headers().get(RETRY_AFTER).map(HeaderValue::as_bytes);
            assert_eq!(wait, [429, 503].contains(&status).then_some(b"2" as &[u8]), "{refusal}");
            assert_eq!(ErrorCodes::GATEWAY.code(&refusal), gateway);
            assert_eq!(ErrorCodes::INDEXER.code(&refusal), indexer);
        }
    }

    #[test]
    fn waits_are_rounded_up_to_whole_seconds() {
        for (milliseconds, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(seconds(Duration::from_millis(milliseconds)), expected);
        }
        assert_eq!(seconds(Duration::MAX), u64::MAX);
    }
}
