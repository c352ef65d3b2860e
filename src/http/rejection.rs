//! Why a request is rejected for reasons that all interfaces share.
//!
//! Each interface has an error type of its own that can hold a [`Rejection`] ([`InterfaceError`]),
//! and turns it into answers in one place. [`Rejection::respond`] sets the status and the headers
//! that HTTP requires, so that an interface only chooses the body; [`ErrorCodes`] does the rest for
//! interfaces whose errors are `{"code","message"}`.

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use selfsame_protocol::time::RetryAfter;
use serde::Serialize;

use super::response::{Response, json};

/// The answer to a request that is rejected for a reason that all interfaces share. Its text is for
/// the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// 400: the request breaks HTTP or its own framing.
    #[error("{0}")]
    BadRequest(String),
    /// 400: the header `Authorization` occurs more than once.
    #[error("the header authorization occurs more than once; send it once")]
    RepeatedAuthorization {
        /// How the client can authenticate, as the value of `WWW-Authenticate`.
        challenge: &'static str,
    },
    /// 404: no route for this path.
    #[error("nothing is served at {path}")]
    NotFound {
        /// The path of the request, cut to its first 200 characters.
        path: String,
    },
    /// 405: the path has routes, but not for this method.
    #[error("the method is {method}, this path takes {}", allow.to_str().unwrap_or_default())]
    MethodNotAllowed {
        /// The method of the request.
        method: String,
        /// The methods that the path takes, as the value of `Allow`.
        allow: HeaderValue,
    },
    /// 413: the body is longer than its limit in bytes.
    #[error("the body is longer than {limit} bytes")]
    PayloadTooLarge {
        /// The longest body that is read, in bytes (inclusive).
        limit: usize,
    },
    /// 415: the body's type or encoding is not one that the route reads.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 429: the source is past its rate limit.
    #[error("too many requests, try again in {retry_after}")]
    TooManyRequests {
        /// Time until the next request is within the limit: the value of `Retry-After`.
        retry_after: RetryAfter,
    },
    /// 500: the service failed. The reason is in the log and not in the answer.
    #[error("an internal error; the log has it under the X-Request-Id of this answer")]
    Internal,
    /// 503: the part of the service that is needed is overloaded, starting or stopping.
    #[error("not available at the moment, try again in {retry_after}")]
    Unavailable {
        /// Time until another attempt may succeed: the value of `Retry-After`.
        retry_after: RetryAfter,
    },
    /// 504: the answer took longer than the request timeout.
    #[error("the request was not answered in time")]
    Timeout,
}

/// The error type of an interface: a [`Rejection`] converts into it, and it converts into an
/// answer.
pub trait InterfaceError: From<Rejection> + Send + 'static {
    /// Why exactly the request was rejected, for the log. It contains no secret, and of what the
    /// client sent only names of fields.
    fn reason(&self) -> String;

    /// Status, headers and body of the answer.
    fn into_response(self) -> Response;
}

/// The answer to a request that an interface rejects, after its reason is logged.
pub fn reject<E: InterfaceError>(error: E) -> Response {
    tracing::debug!(reason = error.reason(), "rejected");
    error.into_response()
}

impl Rejection {
    /// Why exactly the request was rejected, for the log. It contains nothing that the client sent.
    pub fn reason(&self) -> String {
        match self {
            Self::NotFound { .. } => "no route has this path".to_owned(),
            Self::MethodNotAllowed { .. } => "the path does not take this method".to_owned(),
            Self::UnsupportedMediaType(_) => "the body has another type or encoding than the route reads".to_owned(),
            Self::Internal => "an internal error, which was logged before".to_owned(),
            other => other.to_string(),
        }
    }

    /// The status of this rejection; an interface may answer another one.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::RepeatedAuthorization { .. } => StatusCode::BAD_REQUEST,
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

    /// The answer with `body` as JSON, the rejection's status, and the `Allow`, `Retry-After` or
    /// `WWW-Authenticate` that belongs to it.
    pub fn respond<T: Serialize + ?Sized>(&self, body: &T) -> Response {
        let mut response = json(self.status(), body);
        match self {
            Self::MethodNotAllowed { allow, .. } => {
                response.headers_mut().insert(ALLOW, allow.clone());
            }
            Self::TooManyRequests { retry_after } | Self::Unavailable { retry_after } => {
                response.headers_mut().insert(RETRY_AFTER, retry_after.seconds().into());
            }
            Self::RepeatedAuthorization { challenge } => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            _ => {}
        }
        response
    }
}

/// The body `{"code","message"}` of gateway, indexer, bridge and operator errors.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody<'a> {
    /// The error code, for programs.
    pub code: &'a str,
    /// The error text, for developers of clients.
    pub message: &'a str,
}

/// The codes of an interface for rejections, for interfaces that answer with [`ErrorBody`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorCodes {
    /// The code of [`Rejection::Unavailable`]. The interfaces have all other codes in common.
    pub unavailable: &'static str,
}

impl ErrorCodes {
    /// The registry gateway's codes.
    pub const GATEWAY: Self = Self { unavailable: "batcher_unavailable" };
    /// The registry indexer's codes.
    pub const INDEXER: Self = Self { unavailable: "internal_server_error" };
    /// The message bridge's codes.
    pub const BRIDGE: Self = Self { unavailable: "bridge_unavailable" };
    /// The operator interface's codes.
    pub const OPERATOR: Self = Self { unavailable: "unavailable" };

    /// The code for a rejection.
    pub fn code(&self, rejection: &Rejection) -> &'static str {
        match rejection {
            Rejection::BadRequest(_)
            | Rejection::RepeatedAuthorization { .. }
            | Rejection::MethodNotAllowed { .. }
            | Rejection::PayloadTooLarge { .. }
            | Rejection::UnsupportedMediaType(_) => "bad_request",
            Rejection::NotFound { .. } => "not_found",
            Rejection::TooManyRequests { .. } => "rate_limit_exceeded",
            Rejection::Internal => "internal_server_error",
            Rejection::Unavailable { .. } => self.unavailable,
            Rejection::Timeout => "request_timeout",
        }
    }

    /// The whole answer to a rejection.
    pub fn respond(&self, rejection: &Rejection) -> Response {
        rejection.respond(&ErrorBody { code: self.code(rejection), message: &rejection.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rejections_have_the_status_and_code_of_gateway_and_indexer() {
        let retry_after = RetryAfter(Duration::from_millis(1500));
        let allow = HeaderValue::from_static("GET, HEAD");
        #[rustfmt::skip]
        let table = [
            (Rejection::BadRequest("x".into()), 400, "bad_request", "bad_request"),
            (Rejection::RepeatedAuthorization { challenge: "Bearer" }, 400, "bad_request", "bad_request"),
            (Rejection::NotFound { path: "/x".into() }, 404, "not_found", "not_found"),
            (Rejection::MethodNotAllowed { method: "PUT".into(), allow }, 405, "bad_request", "bad_request"),
            (Rejection::PayloadTooLarge { limit: 1 }, 413, "bad_request", "bad_request"),
            (Rejection::UnsupportedMediaType("x".into()), 415, "bad_request", "bad_request"),
            (Rejection::TooManyRequests { retry_after }, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
            (Rejection::Internal, 500, "internal_server_error", "internal_server_error"),
            (Rejection::Unavailable { retry_after }, 503, "batcher_unavailable", "internal_server_error"),
            (Rejection::Timeout, 504, "request_timeout", "request_timeout"),
        ];
        for (rejection, status, gateway, indexer) in table {
            let response = ErrorCodes::GATEWAY.respond(&rejection);
            assert_eq!(response.status(), status, "{rejection}");
            assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{rejection}");
            let is_challenged = matches!(rejection, Rejection::RepeatedAuthorization { .. });
            assert_eq!(response.headers().contains_key(WWW_AUTHENTICATE), is_challenged, "{rejection}");
            let wait = response.headers().get(RETRY_AFTER).map(HeaderValue::as_bytes);
            assert_eq!(wait, [429, 503].contains(&status).then_some(b"2" as &[u8]), "{rejection}");
            assert_eq!(ErrorCodes::GATEWAY.code(&rejection), gateway);
            assert_eq!(ErrorCodes::INDEXER.code(&rejection), indexer);
        }
    }
}
