//! The errors of the verification interface and its answers to them.

use std::borrow::Cow;

use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use selfsame_actors::{TooManyRequests, VerificationError};
use selfsame_protocol::json::BodyError;
use selfsame_protocol::time::RetryAfter;
use selfsame_protocol::verification::answer::{ItemResult, VerificationErrorBody};
use selfsame_protocol::verification::directory::AdmissionError;
use selfsame_protocol::verification::identity::MaxVerificationsReached;
use selfsame_protocol::verification::request::{ValidationError, Version2Error};
use selfsame_storage::StoreError;

use crate::http::{InterfaceError, Rejection, Response, challenge, json};

/// A request that was not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, content
    /// type, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The source address is past its rate limit.
    #[error(transparent)]
    TooMany(#[from] TooManyRequests),
    /// The caller shows no right secret of an application.
    #[error("client credentials are wrong; send the application's id and secret by HTTP Basic, or no Authorization")]
    Unauthenticated,
    /// The caller is another application than the one that the path names.
    #[error("the caller is {app_id}, and {named:?} is another application's; ask with that application's secret")]
    OtherApplication {
        /// Id of the application that the caller is.
        app_id: String,
        /// The id in the request's path.
        named: String,
    },
    /// The body is not JSON.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body is not a verification request.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// The body is not a request of version 2.
    #[error(transparent)]
    Version2(#[from] Version2Error),
    /// A request of version 2 is for an application that does not exist.
    #[error("there is no application {app_id:?}; register it, or use the id that it was given")]
    NoSuchApplication {
        /// The id in the request's path.
        app_id: String,
    },
    /// The proof of a request of version 2 did not verify.
    #[error("{}", .results.iter().find_map(|result| result.detail.as_deref()).unwrap_or("the proof did not verify"))]
    ProofFailed {
        /// Id of the application.
        app_id: String,
        /// The result of its only proof.
        results: Vec<ItemResult>,
    },
    /// The person of a request of version 2 was counted as often as the action allows.
    #[error("{limit}")]
    CountedOut {
        /// Id of the application.
        app_id: String,
        /// The limit.
        limit: MaxVerificationsReached,
    },
    /// No relying party has the id that a question is about.
    #[error("{error}")]
    Lookup {
        /// The question.
        lookup: Lookup,
        /// What is wrong with the id.
        error: AdmissionError,
    },
    /// The relying party may not ask, no proof verified, or the verifier failed.
    #[error(transparent)]
    Verification(#[from] VerificationError),
}

/// The questions about relying parties. Each has codes of its own for an id that is no relying
/// party's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// `POST /api/v4/proof-context/{id}`.
    ProofContext,
    /// `GET /api/v4/rp-status/{rp_id}`.
    RpStatus,
    /// `GET /api/v4/app-status/{id}` and `GET /api/v4/attestation-audience/{id}`.
    AppStatus,
}

impl Lookup {
    /// The error of a question about an id that no relying party has.
    pub fn failed(self, error: AdmissionError) -> VerifyError {
        VerifyError::Lookup { lookup: self, error }
    }
}

impl InterfaceError for VerifyError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            // The detail may quote the value of the field, so only its name is logged.
            Self::Validation(ValidationError { attribute, .. }) => {
                format!("{} is missing or malformed", attribute.as_deref().unwrap_or("the body"))
            }
            Self::Verification(VerificationError::AllFailed { results, .. }) => {
                let codes: Vec<&str> = results.iter().filter_map(|result| result.code).collect();
                format!("no proof verified: {}", codes.join(", "))
            }
            Self::Version2(error) => {
                let (Version2Error::Validation(error)
                | Version2Error::Format(error)
                | Version2Error::SignInAction(error)) = error;
                format!("{} is missing or malformed", error.attribute.as_deref().unwrap_or("the body"))
            }
            Self::OtherApplication { .. } => "the path names another application than the caller".to_owned(),
            Self::TooMany(_)
            | Self::Unauthenticated
            | Self::Verification(_)
            | Self::NoSuchApplication { .. }
            | Self::ProofFailed { .. }
            | Self::CountedOut { .. }
            | Self::Lookup { .. } => self.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let detail = self.to_string();
        match self {
            Self::Http(rejection) => rejection_response(&rejection, detail),
            Self::TooMany(TooManyRequests { retry_after }) => {
                Rejection::TooManyRequests { retry_after }.respond(&body("rate_limit_exceeded", detail))
            }
            Self::Unauthenticated => {
                let mut response = json(StatusCode::UNAUTHORIZED, &body("unauthenticated", detail));
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge::CLIENT));
                response
            }
            Self::OtherApplication { app_id, .. } => {
                let body = VerificationErrorBody { app_id: Some(app_id), ..body("forbidden", detail) };
                json(StatusCode::FORBIDDEN, &body)
            }
            Self::Body(BodyError::NotAnObject) => bad_request(body("validation_error", detail)),
            Self::Body(_) => bad_request(body("invalid_request", detail)),
            Self::Validation(error) | Self::Version2(Version2Error::Validation(error)) => {
                bad_request(VerificationErrorBody { attribute: error.attribute, ..body(error.code, detail) })
            }
            Self::Version2(Version2Error::Format(error)) => {
                bad_request(VerificationErrorBody { attribute: error.attribute, ..body("invalid_format", detail) })
            }
            Self::Version2(Version2Error::SignInAction(error)) => {
                bad_request(VerificationErrorBody { attribute: error.attribute, ..body("invalid_action", detail) })
            }
            Self::NoSuchApplication { .. } => json(StatusCode::NOT_FOUND, &body("not_found", detail)),
            Self::ProofFailed { app_id, results } => {
                let code = results.into_iter().find_map(|result| result.code).unwrap_or("invalid_proof");
                bad_request(VerificationErrorBody { app_id: Some(app_id), ..body(code, detail) })
            }
            Self::CountedOut { app_id, .. } => {
                bad_request(VerificationErrorBody { app_id: Some(app_id), ..body("max_verifications_reached", detail) })
            }
            Self::Lookup { lookup, error } => lookup_response(lookup, error, detail),
            Self::Verification(error) => verification_response(error, detail),
        }
    }
}

fn body(code: &'static str, detail: String) -> VerificationErrorBody {
    VerificationErrorBody { success: false, code, detail, attribute: None, app_id: None, results: None }
}

fn bad_request(body: VerificationErrorBody) -> Response {
    json(StatusCode::BAD_REQUEST, &body)
}

fn rejection_response(rejection: &Rejection, detail: String) -> Response {
    let code = match rejection {
        Rejection::NotFound { .. } => "not_found",
        Rejection::MethodNotAllowed { .. } => "method_not_allowed",
        Rejection::TooManyRequests { .. } => "rate_limit_exceeded",
        Rejection::PayloadTooLarge { .. } => "request_too_large",
        Rejection::BadRequest(_) | Rejection::RepeatedAuthorization { .. } | Rejection::UnsupportedMediaType(_) => {
            "invalid_request"
        }
        Rejection::Internal => "internal_error",
        // The public interface has no code for a timeout, so it is answered as overload.
        Rejection::Unavailable { .. } | Rejection::Timeout => return unavailable(detail),
    };
    rejection.respond(&body(code, detail))
}

fn unavailable(detail: String) -> Response {
    Rejection::Unavailable { retry_after: RetryAfter::SOON }.respond(&body("verifier_unavailable", detail))
}

fn verification_response(error: VerificationError, detail: String) -> Response {
    let status = match &error {
        VerificationError::Unavailable { .. } => return unavailable(detail),
        VerificationError::Store(error) => return store_error_response(error),
        VerificationError::Admission(AdmissionError::InactiveApplication { .. }) => StatusCode::NOT_FOUND,
        VerificationError::Integrity { .. } => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_REQUEST,
    };
    let attribute = error.attribute().map(Cow::into_owned);
    let app_id = error.app_id().map(str::to_owned);
    let results = error.results().map(<[ItemResult]>::to_vec);
    json(status, &VerificationErrorBody { attribute, app_id, results, ..body(error.code(), detail) })
}

fn lookup_response(lookup: Lookup, error: AdmissionError, detail: String) -> Response {
    let is_malformed = matches!(error, AdmissionError::InvalidRelyingPartyId { .. });
    let (status, code, attribute) = match (lookup, is_malformed) {
        (Lookup::ProofContext, true) => (StatusCode::BAD_REQUEST, "invalid_request", Some("id")),
        (Lookup::ProofContext, false) => (StatusCode::BAD_REQUEST, "not_registered", None),
        (Lookup::RpStatus, true) => (StatusCode::BAD_REQUEST, "invalid_rp_id", Some("rp_id")),
        (Lookup::RpStatus, false) => (StatusCode::NOT_FOUND, "not_found", Some("rp_id")),
        (Lookup::AppStatus, true) => (StatusCode::BAD_REQUEST, "invalid_id", Some("id")),
        (Lookup::AppStatus, false) => (StatusCode::NOT_FOUND, "not_found", Some("id")),
    };
    let attribute = attribute.map(str::to_owned);
    json(status, &VerificationErrorBody { attribute, ..body(code, detail) })
}

/// The log has the details for the operator; the client is asked to try again.
fn store_error_response(error: &StoreError) -> Response {
    if let StoreError::Replica(error) = error
        && error.is_transient()
    {
        // Without the leader every request is answered so; the status says it once.
        return unavailable(format!("{}; try again", error.for_clients()));
    }
    tracing::error!(%error, "the store failed");
    unavailable("the state cannot be read at the moment; try again".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use hyper::header::RETRY_AFTER;

    use super::*;

    async fn answer(error: VerifyError) -> (u16, String, Option<String>) {
        let response = error.into_response();
        let status = response.status().as_u16();
        let wait = response.headers().get(RETRY_AFTER).map(|value| value.to_str().expect("text").to_owned());
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["success"], false);
        (status, body["code"].as_str().expect("a code").to_owned(), wait)
    }

    #[tokio::test]
    async fn overload_and_internal_errors_have_their_status_and_code() {
        let retry_after = RetryAfter(Duration::from_millis(1500));
        let reason = "too many proofs are waiting".to_owned();
        let table: [(VerifyError, u16, &str, Option<&str>); 7] = [
            (VerificationError::Unavailable { reason }.into(), 503, "verifier_unavailable", Some("1")),
            (VerificationError::Store(StoreError::Closing).into(), 503, "verifier_unavailable", Some("1")),
            (Rejection::Timeout.into(), 503, "verifier_unavailable", Some("1")),
            (Rejection::Unavailable { retry_after }.into(), 503, "verifier_unavailable", Some("1")),
            (Rejection::Internal.into(), 500, "internal_error", None),
            (TooManyRequests { retry_after }.into(), 429, "rate_limit_exceeded", Some("2")),
            (Rejection::TooManyRequests { retry_after }.into(), 429, "rate_limit_exceeded", Some("2")),
        ];
        for (error, status, code, wait) in table {
            let text = error.to_string();
            assert_eq!(answer(error).await, (status, code.to_owned(), wait.map(str::to_owned)), "{text}");
        }
    }
}
