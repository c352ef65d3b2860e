//! What the sign-in service answers when something is wrong.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use selfsame_actors::{SignInFailure, TooManySignIns};
use selfsame_protocol::sign_in::error::{ErrorKind, SignInError};
use serde_json::json;

use crate::http::{InterfaceError, Refusal, Response, json as json_response};

/// How long a client should wait when there is too much to do at the moment.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request that was not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum SignInFault {
    /// HTTP itself: path, method, size, time.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The request is wrong.
    #[error(transparent)]
    Refused(#[from] SignInError),
    /// A token that is not alive, at the introspection endpoint: the answer says so in the words of RFC 7662 too.
    #[error(transparent)]
    Inactive(SignInError),
    /// It could not be done.
    #[error(transparent)]
    Failed(#[from] SignInFailure),
}

impl From<TooManySignIns> for SignInFault {
    fn from(TooManySignIns { retry_after }: TooManySignIns) -> Self {
        Refusal::TooManyRequests { retry_after }.into()
    }
}

impl SignInFault {
    /// Whether credentials, a code or a token were wrong: what somebody who guesses would get.
    pub fn is_wrong_secret(&self) -> bool {
        let kind = match self {
            Self::Refused(error) | Self::Inactive(error) | Self::Failed(SignInFailure::Refused(error)) => error.kind,
            _ => return false,
        };
        matches!(kind, ErrorKind::Unauthenticated | ErrorKind::InvalidGrant | ErrorKind::InvalidToken)
    }
}

impl InterfaceError for SignInFault {
    fn into_response(self) -> Response {
        match self {
            Self::Refusal(refusal) => refused(&refusal),
            Self::Refused(error) => answer(&error),
            Self::Inactive(error) => {
                let mut body = json!(error.body());
                body["active"] = false.into();
                json_response(StatusCode::UNAUTHORIZED, &body)
            }
            Self::Failed(failure) => match &failure {
                SignInFailure::Refused(error) => answer(error),
                SignInFailure::Proof(failure) => {
                    let detail = format!("the proof is not accepted ({}): {failure}", failure.code());
                    answer(&SignInError::of("responses[0]", ErrorKind::InvalidRequest, detail))
                }
                SignInFailure::TooMany(TooManySignIns { retry_after }) => {
                    refused(&Refusal::TooManyRequests { retry_after: *retry_after })
                }
                SignInFailure::Unavailable { retry_after, .. } => unavailable(failure.to_string(), *retry_after),
                SignInFailure::Signing(error) => {
                    tracing::error!(%error, "tokens cannot be signed");
                    refused(&Refusal::Internal)
                }
                SignInFailure::Store(error) => {
                    tracing::error!(%error, "the store failed");
                    unavailable("the state cannot be read or written at the moment; try again".to_owned(), RETRY_AFTER)
                }
            },
        }
    }
}

fn refused(refusal: &Refusal) -> Response {
    let kind = match refusal {
        Refusal::NotFound { .. } => ErrorKind::NotFound,
        Refusal::MethodNotAllowed { .. } => ErrorKind::MethodNotAllowed,
        Refusal::UnsupportedMediaType(detail) => {
            return answer(&SignInError::new(ErrorKind::InvalidContentType, detail));
        }
        Refusal::BadRequest(_) | Refusal::PayloadTooLarge { .. } => ErrorKind::InvalidRequest,
        Refusal::TooManyRequests { .. } => ErrorKind::RateLimited,
        Refusal::Internal => ErrorKind::ServerError,
        Refusal::Unavailable { .. } | Refusal::Timeout => return unavailable(refusal.to_string(), RETRY_AFTER),
    };
    refusal.respond(&SignInError::new(kind, refusal.to_string()).body())
}

fn unavailable(detail: String, retry_after: Duration) -> Response {
    let error = SignInError::new(ErrorKind::TemporarilyUnavailable, detail);
    Refusal::Unavailable { retry_after }.respond(&error.body())
}

/// The status and the headers that belong to an error.
fn answer(error: &SignInError) -> Response {
    let (status, challenge) = match error.kind {
        ErrorKind::Unauthenticated => (StatusCode::UNAUTHORIZED, Some(r#"Basic realm="selfsame", charset="UTF-8""#)),
        ErrorKind::TokenMissing => (StatusCode::UNAUTHORIZED, Some(r#"Bearer realm="selfsame""#)),
        ErrorKind::InvalidToken => (
            StatusCode::UNAUTHORIZED,
            Some(
                r#"Bearer realm="selfsame", error="invalid_token", error_description="the access token is unknown or has expired""#,
            ),
        ),
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, None),
        ErrorKind::TemporarilyUnavailable => return unavailable(error.detail.clone(), RETRY_AFTER),
        ErrorKind::ServerError => return refused(&Refusal::Internal),
        _ => (StatusCode::BAD_REQUEST, None),
    };
    let mut response = json_response(status, &error.body());
    if let Some(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}
