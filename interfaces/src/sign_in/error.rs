//! The errors of sign-in and its answers to them, and the sources that are slowed down.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use selfsame_actors::{EventError, SignInError, TooManyRequests};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;
use serde_json::json;

use super::browser::accepts_html;
use super::page::{self, Frame};
use super::{RESERVED, SignIn};
use crate::event_streams::StreamError;
use crate::http::json as json_response;
use crate::http::{ErrorPage, InterfaceError, Rejection, Request, Response, challenge};

/// A request that was not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum SignInEndpointError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The token at the introspection endpoint is not active. The answer has `"active": false` too,
    /// as in RFC 7662.
    #[error(transparent)]
    Inactive(SignInRejection),
    /// The form or the credentials in it cannot be read, so the client is not known.
    #[error(transparent)]
    Unreadable(SignInRejection),
    /// The request is rejected, or the service failed.
    #[error(transparent)]
    Failed(#[from] SignInError),
}

impl From<SignInRejection> for SignInEndpointError {
    fn from(rejection: SignInRejection) -> Self {
        Self::Failed(rejection.into())
    }
}

impl From<TooManyRequests> for SignInEndpointError {
    fn from(too_many: TooManyRequests) -> Self {
        Self::Failed(too_many.into())
    }
}

impl From<StreamError> for SignInEndpointError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Http(rejection) => rejection.into(),
            StreamError::Off => SignInRejection::new(ErrorKind::NotFound, error.to_string()).into(),
            StreamError::Parameter { name, problem } => {
                SignInRejection::of(name, ErrorKind::InvalidRequest, format!("{name}: {problem}")).into()
            }
            StreamError::TooMany => TooManyRequests { retry_after: RetryAfter::SOON }.into(),
            StreamError::Events(EventError::Store(error)) => SignInError::Store(error).into(),
            StreamError::Events(error) => {
                SignInError::Unavailable { reason: error.to_string(), retry_after: RetryAfter::SOON }.into()
            }
        }
    }
}

impl SignInEndpointError {
    /// The rejection; `None` when the request itself is not the reason.
    pub fn rejection(&self) -> Option<&SignInRejection> {
        match self {
            Self::Inactive(rejection)
            | Self::Unreadable(rejection)
            | Self::Failed(SignInError::Rejected(rejection) | SignInError::CodeReused(rejection)) => Some(rejection),
            Self::Http(_) | Self::Failed(_) => None,
        }
    }

    /// Whether credentials, a code or a token were wrong: the errors of a client that guesses
    /// secrets.
    pub fn is_wrong_secret(&self) -> bool {
        let kinds = [ErrorKind::Unauthenticated, ErrorKind::InvalidGrant, ErrorKind::InvalidToken];
        self.rejection().is_some_and(|rejection| kinds.contains(&rejection.kind))
    }

    /// Whether the request is not one that the endpoint reads, so that it names no client that
    /// could be held to a limit.
    pub fn is_unreadable(&self) -> bool {
        use Rejection::{BadRequest, PayloadTooLarge, RepeatedAuthorization, UnsupportedMediaType};

        match self {
            Self::Unreadable(_) => true,
            Self::Http(rejection) => matches!(
                rejection,
                BadRequest(_) | RepeatedAuthorization { .. } | PayloadTooLarge { .. } | UnsupportedMediaType(_)
            ),
            Self::Inactive(_) | Self::Failed(_) => false,
        }
    }

    /// The error that the client sees. An internal failure is logged here, and the client does not
    /// see its details.
    pub fn to_client_error(&self) -> SignInRejection {
        match self {
            Self::Inactive(rejection) | Self::Unreadable(rejection) => rejection.clone(),
            Self::Http(rejection) => SignInRejection::new(kind_of(rejection), rejection.to_string()),
            Self::Failed(SignInError::Signing(error)) => {
                tracing::error!(%error, "tokens cannot be signed");
                SignInRejection::new(ErrorKind::ServerError, Rejection::Internal.to_string())
            }
            Self::Failed(error) => {
                if let SignInError::Store(failure) = error
                    && !matches!(failure, StoreError::Replica(refused) if refused.is_transient())
                {
                    tracing::error!(error = %failure, "the store failed");
                }
                error.to_rejection()
            }
        }
    }
}

impl InterfaceError for SignInEndpointError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Inactive(rejection)
            | Self::Unreadable(rejection)
            | Self::Failed(SignInError::Rejected(rejection) | SignInError::CodeReused(rejection)) => {
                rejection.reason.map_or_else(|| rejection.detail.clone(), str::to_owned)
            }
            Self::Failed(SignInError::Proof(failed)) => format!("the proof is not accepted ({})", failed.code().name()),
            Self::Failed(error) => error.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let shown = match &self {
            Self::Failed(SignInError::TooMany(TooManyRequests { retry_after })) => {
                let detail = Rejection::TooManyRequests { retry_after: *retry_after }.to_string();
                SignInRejection::new(ErrorKind::RateLimited, detail)
            }
            _ => self.to_client_error(),
        };
        let mut response = match &self {
            Self::Http(Rejection::Unavailable { .. } | Rejection::Timeout) => unavailable(&shown, RetryAfter::SOON),
            // The interface has its own code for a content type, with status 400 instead of 415.
            Self::Http(Rejection::UnsupportedMediaType(_)) => answer(&shown),
            Self::Http(rejection) => rejection.respond(&shown.body()),
            Self::Failed(SignInError::TooMany(TooManyRequests { retry_after })) => {
                Rejection::TooManyRequests { retry_after: *retry_after }.respond(&shown.body())
            }
            Self::Failed(SignInError::Unavailable { retry_after, .. }) => unavailable(&shown, *retry_after),
            Self::Inactive(rejection) => {
                let mut body = json!(rejection.body());
                body["active"] = false.into();
                challenged(json_response(StatusCode::UNAUTHORIZED, &body), challenge::ACCESS_TOKEN_INVALID)
            }
            Self::Unreadable(_) | Self::Failed(_) => answer(&shown),
        };
        // For the page that a browser gets in place of the answer.
        response.extensions_mut().insert(shown);
        response
    }
}

fn kind_of(rejection: &Rejection) -> ErrorKind {
    match rejection {
        Rejection::NotFound { .. } => ErrorKind::NotFound,
        Rejection::MethodNotAllowed { .. } => ErrorKind::MethodNotAllowed,
        Rejection::UnsupportedMediaType(_) => ErrorKind::InvalidContentType,
        Rejection::BadRequest(_) | Rejection::RepeatedAuthorization { .. } | Rejection::PayloadTooLarge { .. } => {
            ErrorKind::InvalidRequest
        }
        Rejection::TooManyRequests { .. } => ErrorKind::RateLimited,
        Rejection::Internal => ErrorKind::ServerError,
        Rejection::Unavailable { .. } | Rejection::Timeout => ErrorKind::TemporarilyUnavailable,
    }
}

fn unavailable(rejection: &SignInRejection, retry_after: RetryAfter) -> Response {
    Rejection::Unavailable { retry_after }.respond(&rejection.body())
}

/// The answer with the status and the headers that belong to an error.
fn answer(rejection: &SignInRejection) -> Response {
    let (status, challenge) = match rejection.kind {
        ErrorKind::Unauthenticated => (StatusCode::UNAUTHORIZED, Some(challenge::CLIENT)),
        ErrorKind::TokenMissing => (StatusCode::UNAUTHORIZED, Some(challenge::ACCESS_TOKEN)),
        ErrorKind::InvalidToken => (StatusCode::UNAUTHORIZED, Some(challenge::ACCESS_TOKEN_INVALID)),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, None),
        ErrorKind::TemporarilyUnavailable => return unavailable(rejection, RetryAfter::SOON),
        ErrorKind::ServerError => return Rejection::Internal.respond(&rejection.body()),
        _ => (StatusCode::BAD_REQUEST, None),
    };
    let response = json_response(status, &rejection.body());
    match challenge {
        Some(challenge) => challenged(response, challenge),
        None => response,
    }
}

/// The answer with how to authenticate.
fn challenged(mut response: Response, challenge: &'static str) -> Response {
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// The paths where a client that accepts pages is a browser only when it says that it navigates:
/// the servers of applications call them, some by libraries that accept `text/html` before all else
/// and read errors as JSON.
fn is_for_servers(path: &str) -> bool {
    RESERVED.contains(&path) || path == "/application/events"
}

/// What a browser gets in place of an error: a page with the same status and headers, in the
/// language of the request. A program gets the error.
pub fn error_page(sign_in: &Arc<SignIn>, request: &Request) -> Option<ErrorPage> {
    let navigates = || request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    if !accepts_html(request) || (is_for_servers(request.path()) && !navigates()) {
        return None;
    }
    let Frame { words, wished, .. } = sign_in.frame(request);
    let sign_in = Arc::clone(sign_in);
    Some(Box::new(move |mut response| {
        let Some(shown) = response.extensions_mut().remove::<SignInRejection>() else { return response };
        let frame = sign_in.frame_of(words, wished);
        let mut page = match response.status() {
            StatusCode::NOT_FOUND => page::not_found(&frame),
            // What was wrong with the request, for the people who run the application.
            status => page::failed(&frame, status, status.is_client_error().then_some(&shown)),
        };
        for (name, value) in response.headers() {
            page.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        page
    }))
}

// Counts what sources guess: credentials, and codes and tokens without credentials; failures past
// the limit are answered 429. A source that floods the same endpoints with requests that cannot be
// read counts as one. This stops floods, not guesses: those are stopped by the length of secrets.
//
// The secret is checked first. So a request with good credentials is never refused here, also
// while its source is at the limit: the server of an application has one address for all its end
// users, and strangers among them choose what it sends. After a right client secret nothing counts
// at all: codes and tokens have 256 random bits, and the application that relays them has shown
// who it is.

/// Counts a failure that can be a guess, or a request that cannot be read, against its source. The
/// error for the client: the failure, or `429` from a source at its limit. Other failures are not
/// counted.
pub fn count_failure(sign_in: &SignIn, source: IpAddr, error: SignInEndpointError) -> SignInEndpointError {
    if !error.is_wrong_secret() && !error.is_unreadable() {
        return error;
    }
    match sign_in.handle.charge_source(source) {
        Ok(()) => error,
        Err(too_many) => too_many.into(),
    }
}
