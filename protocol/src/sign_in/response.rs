//! Response types and modes, and the delivery of a response to the redirect URI.

use std::fmt;

use form_urlencoded::Serializer;
use serde::Serialize;
use utoipa::ToSchema;

use crate::encode_enum;
use crate::encoding::{DecodeError, Encoding};

/// What an authorization response carries: a combination that the provider supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseType {
    /// An authorization code.
    pub code: bool,
    /// An ID token, through the browser.
    pub id_token: bool,
    /// An access token, through the browser.
    pub token: bool,
}

impl ResponseType {
    /// All supported types, in the order of the discovery document.
    pub const SUPPORTED: [&'static str; 6] =
        ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"];

    /// The type `code`, which a client may use without a setting (the default of OpenID Connect
    /// Dynamic Client Registration 1.0).
    pub const CODE: Self = Self { code: true, id_token: false, token: false };

    /// The words in the order of [`ResponseType::SUPPORTED`].
    pub fn text(self) -> String {
        let words = [(self.code, "code"), (self.id_token, "id_token"), (self.token, "token")];
        let words: Vec<&str> = words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect();
        words.join(" ")
    }

    /// Reads words in any order; `None` when the combination is not supported.
    pub fn parse(text: &str) -> Option<Self> {
        let mut response_type = Self { code: false, id_token: false, token: false };
        for word in text.split(' ') {
            let part = match word {
                "code" => &mut response_type.code,
                "id_token" => &mut response_type.id_token,
                "token" => &mut response_type.token,
                _ => return None,
            };
            // A type with a word twice is not supported.
            if std::mem::replace(part, true) {
                return None;
            }
        }
        // `token` alone belongs to plain OAuth, which this provider does not support.
        (response_type.code || response_type.id_token).then_some(response_type)
    }

    /// Whether the response carries a token through the browser.
    pub fn has_front_channel_token(self) -> bool {
        self.id_token || self.token
    }

    /// The mode of a request without `response_mode`.
    pub fn default_mode(self) -> ResponseMode {
        if self.has_front_channel_token() { ResponseMode::Fragment } else { ResponseMode::Query }
    }
}

/// How a response reaches the redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseMode {
    /// Parameters of the redirect URI's query.
    Query,
    /// Parameters of the redirect URI's fragment, which a browser does not send to servers.
    Fragment,
    /// A form that the browser posts.
    FormPost,
}

impl ResponseMode {
    /// All modes, in the order of the discovery document.
    pub const SUPPORTED: [&'static str; 3] = ["query", "fragment", "form_post"];

    /// Reads the parameter `response_mode`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "query" => Some(Self::Query),
            "fragment" => Some(Self::Fragment),
            "form_post" => Some(Self::FormPost),
            _ => None,
        }
    }
}

encode_enum!(ResponseMode { Query = 0, Fragment = 1, FormPost = 2 } of "a response mode");

impl Encoding for ResponseType {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.code) | u8::from(self.id_token) << 1 | u8::from(self.token) << 2);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let bits = u8::decode(input)?;
        let response_type = Self { code: bits & 1 != 0, id_token: bits & 2 != 0, token: bits & 4 != 0 };
        let is_known = bits < 8 && (response_type.code || response_type.id_token);
        if is_known { Ok(response_type) } else { Err(DecodeError::UnknownTag { kind: "a response type", tag: bits }) }
    }
}

/// The destination of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// One of the client's registered URIs, byte for byte.
    pub redirect_uri: String,
    /// How the response reaches the redirect URI.
    pub mode: ResponseMode,
    /// The request's `state`, which the response repeats unchanged.
    pub state: Option<String>,
}

crate::encode_fields!(Target { redirect_uri, mode, state });

/// A response, as the browser carries it to the redirect URI.
#[derive(Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The browser is redirected to `location`.
    Redirect {
        /// The redirect URI with the response in its query or fragment.
        location: String,
    },
    /// The browser posts `fields` to `action`.
    Post {
        /// The redirect URI.
        action: String,
        /// Names and values of the form's fields, in order and not escaped.
        fields: Vec<(&'static str, String)>,
    },
}

impl fmt::Debug for Delivery {
    /// The redirect URI and the names of the fields: a response contains codes and tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redirect { location } => {
                let uri = location.split(['?', '#']).next().unwrap_or_default();
                f.debug_struct("Redirect").field("uri", &uri).finish_non_exhaustive()
            }
            Self::Post { action, fields } => {
                let names: Vec<_> = fields.iter().map(|(name, _)| name).collect();
                f.debug_struct("Post").field("action", action).field("fields", &names).finish()
            }
        }
    }
}

impl Target {
    /// The delivery of a response with these fields, followed by the state and the issuer (RFC
    /// 9207).
    pub fn deliver(&self, mut fields: Vec<(&'static str, String)>, issuer: &str) -> Delivery {
        fields.extend(self.state.clone().map(|state| ("state", state)));
        fields.push(("iss", issuer.to_owned()));
        let uri = &self.redirect_uri;
        let separator = match self.mode {
            ResponseMode::FormPost => return Delivery::Post { action: uri.clone(), fields },
            ResponseMode::Fragment => "#",
            ResponseMode::Query => query_separator(uri),
        };
        let parameters = Serializer::new(String::new()).extend_pairs(fields).finish();
        Delivery::Redirect { location: format!("{uri}{separator}{parameters}") }
    }

    /// The delivery of an error (RFC 6749, section 4.1.2.1), followed by the state and the issuer.
    pub fn deliver_error(&self, rejection: &SignInRejection, issuer: &str) -> Delivery {
        let SignInRejection { kind, detail, .. } = rejection;
        self.deliver(vec![("error", kind.standard_code().to_owned()), ("error_description", detail.clone())], issuer)
    }
}

/// What comes between a registered URI and further parameters of its query. A query that the URI
/// has is kept.
pub(super) fn query_separator(uri: &str) -> &'static str {
    match uri.split_once('?') {
        None => "?",
        Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    }
}

// Error codes of sign-in: the interface's own and those of the standards, and the body that
// carries both.

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
