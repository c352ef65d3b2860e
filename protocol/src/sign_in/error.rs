//! Error codes of sign-in: the interface's own and those of the standards, and the body that
//! carries both.

use serde::Serialize;
use utoipa::ToSchema;

/// The body of every error of the sign-in interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SignInError)]
pub struct ErrorBody {
    /// The interface's code.
    #[schema(example = "not_found")]
    pub code: &'static str,
    /// What is wrong and what would be right.
    pub detail: String,
    /// The parameter that is wrong, or null.
    pub attribute: Option<&'static str>,
    /// The standards' code.
    pub error: &'static str,
    /// The same as `detail`, under the standards' name.
    pub error_description: String,
}

/// The rejection of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SignInRejection {
    /// The kind of error, which gives both codes of the answer.
    pub kind: ErrorKind,
    /// The parameter that is wrong; `None` when no single parameter is the cause.
    pub attribute: Option<&'static str>,
    /// What is wrong and what would be right, for the client.
    pub detail: String,
    /// The exact cause, for the log only: the client must not learn it.
    pub reason: Option<&'static str>,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The path does not support the method.
    MethodNotAllowed,
    /// A parameter is missing.
    Required,
    /// No client has this id.
    InvalidClientId,
    /// The redirect URI is not one of the client's.
    InvalidRedirectUri,
    /// The content type is not that of a form.
    InvalidContentType,
    /// Credentials are missing or wrong.
    Unauthenticated,
    /// The request has no access token, and needs one.
    TokenMissing,
    /// The grant type is not `authorization_code`.
    UnsupportedGrantType,
    /// The request has no grant type.
    MissingGrantType,
    /// The code is unknown, expired, used or another client's, or does not match the other
    /// parameters.
    InvalidGrant,
    /// The token is unknown or expired.
    InvalidToken,
    /// The token is of a kind that cannot be revoked.
    UnsupportedTokenType,
    /// A parameter is malformed, contradicts another or is given twice.
    InvalidRequest,
    /// The response type is not supported.
    UnsupportedResponseType,
    /// The client may not use the response type.
    UnauthorizedClient,
    /// The scopes do not include `openid`.
    InvalidScope,
    /// The person refused.
    AccessDenied,
    /// The proof came from another device than the browser, which the application forbids.
    CrossDeviceDenied,
    /// `prompt=none`, but the person would have to sign in.
    LoginRequired,
    /// `request` (a request object) is not supported.
    RequestNotSupported,
    /// `request_uri` (a reference to a request object) is not supported.
    RequestUriNotSupported,
    /// Too many requests.
    RateLimited,
    /// The path or the transaction does not exist.
    NotFound,
    /// The service cannot answer at the moment.
    TemporarilyUnavailable,
    /// The service failed.
    ServerError,
}

impl ErrorKind {
    /// The interface's code.
    pub fn code(self) -> &'static str {
        match self {
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Required => "required",
            Self::InvalidClientId => "invalid_client_id",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidContentType => "invalid_content_type",
            Self::Unauthenticated | Self::TokenMissing => "unauthenticated",
            Self::UnsupportedGrantType | Self::MissingGrantType => "invalid_grant_type",
            Self::RateLimited => "rate_limit",
            Self::NotFound => "not_found",
            Self::CrossDeviceDenied => "cross_device_denied",
            other => other.standard_code(),
        }
    }

    /// The code of RFC 6749, RFC 6750, RFC 7009 or OpenID Connect Core.
    pub fn standard_code(self) -> &'static str {
        match self {
            Self::MethodNotAllowed
            | Self::Required
            | Self::InvalidClientId
            | Self::InvalidRedirectUri
            | Self::InvalidContentType
            | Self::TokenMissing
            | Self::MissingGrantType
            | Self::InvalidRequest
            | Self::NotFound => "invalid_request",
            Self::Unauthenticated => "invalid_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidToken => "invalid_token",
            Self::UnsupportedTokenType => "unsupported_token_type",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::AccessDenied | Self::CrossDeviceDenied => "access_denied",
            Self::LoginRequired => "login_required",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::RateLimited | Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::ServerError => "server_error",
        }
    }
}

/// Replaces the characters that an `error_description` cannot have (RFC 6749, section 5.2): double
/// quotes, backslashes, and every character that is not printable ASCII.
fn description(detail: String) -> String {
    let is_allowed = |character: char| matches!(character, ' '..='~') && !matches!(character, '"' | '\\');
    if detail.chars().all(is_allowed) {
        return detail;
    }
    let replace = |character: char| match character {
        '"' => '\'',
        other if is_allowed(other) => other,
        _ => '?',
    };
    detail.chars().map(replace).collect()
}

impl SignInRejection {
    /// A rejection without a single parameter as its cause.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, attribute: None, detail: description(detail.into()), reason: None }
    }

    /// The same rejection with its exact cause, for the log.
    pub fn with_reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// A rejection with a parameter as its cause.
    pub fn of(attribute: &'static str, kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { attribute: Some(attribute), ..Self::new(kind, detail) }
    }

    /// The rejection of a request without a required parameter.
    pub fn required(attribute: &'static str) -> Self {
        Self::of(attribute, ErrorKind::Required, format!("required: {attribute}"))
    }

    /// The body of the answer.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            code: self.kind.code(),
            detail: self.detail.clone(),
            attribute: self.attribute,
            error: self.kind.standard_code(),
            error_description: self.detail.clone(),
        }
    }
}
