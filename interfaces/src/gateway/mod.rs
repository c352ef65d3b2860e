//! The registry gateway: requests that change accounts, their states, blocks and receipts.
//!
//! | module | what it has |
//! |---|---|
//! | this one | the routes and their description, who may create accounts, the errors as status and body |
//! | [`operations`] | the eight operations, and the two that registry version v1 does not have |
//! | [`queries`] | the states and receipts of requests; blocks, the head, roots, and the parameters to sign for |

mod operations;
mod queries;

use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use selfsame_actors::{
    AwaitError, HeadSigningError, ReceiptError, RegistryHandle, SubmitError, TooManyRequests, WaitError,
};
use selfsame_protocol::client_secret::ClientSecret;
use selfsame_protocol::gateway::{AccountCreation, GatewayErrorCode, ServiceApiError, meanings};
use selfsame_protocol::json::BodyError;
use selfsame_protocol::time::RetryAfter;
use selfsame_storage::StoreError;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::http::{
    Cors, ErrorCodes, InterfaceError, Rejection, Request, Response, Router, Routes, WAITING_LIMIT, challenge, json,
};
use crate::interface::Interface;
use crate::openapi::{self, HasRegistry, await_height, describe_height};

/// The gateway's routes.
pub fn routes(gateway: Gateway, openapi: openapi::Document, cors: Option<Cors>) -> Routes {
    let get = Method::GET;
    let post = Method::POST;
    Router::<Gateway, GatewayError>::new(Interface::Gateway.name(), Arc::new(gateway))
        .cors(cors)
        .reserve(&["/health"])
        .before(await_height)
        .route(post.clone(), "/create-account", operations::create_account)
        .route(post.clone(), "/update-authenticator", operations::update_authenticator)
        .route(post.clone(), "/insert-authenticator", operations::insert_authenticator)
        .route(post.clone(), "/remove-authenticator", operations::remove_authenticator)
        .route(post.clone(), "/recover-account", operations::recover_account)
        .route(post.clone(), "/initiate-recovery-agent-update", operations::initiate_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/cancel-recovery-agent-update", operations::cancel_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/execute-recovery-agent-update", operations::execute_recovery_agent_update)
        .deprecated()
        .route(post.clone(), "/update-recovery-agent", operations::update_recovery_agent)
        .route(post, "/revert-recovery-agent-update", operations::revert_recovery_agent_update)
        .route_within(WAITING_LIMIT, get.clone(), "/status/{request_id}", queries::status)
        .route(get.clone(), "/receipt/{request_id}", queries::receipt)
        .route(get.clone(), "/block/{id}", queries::block)
        .route(get.clone(), "/head", queries::head)
        .route(get.clone(), "/is-valid-root", queries::is_valid_root)
        .route(get.clone(), "/config", queries::config)
        .route(get.clone(), "/health", |_, _| openapi::health())
        .route(get, "/openapi.json", move |_, _| openapi::answer(openapi.clone()))
        .into()
}

/// The gateway's description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Registry gateway",
        version = "0.1.4",
        description = "Accepts requests that change accounts. An accepted request is durable before it is answered; it is \
            put into a block, and its state becomes `finalized` or `failed`. Numbers are numeric strings: decimal digits, \
            or `0x` and hex digits."
    ),
    paths(
        operations::create_account,
        operations::update_authenticator,
        operations::insert_authenticator,
        operations::remove_authenticator,
        operations::recover_account,
        operations::initiate_recovery_agent_update,
        operations::update_recovery_agent,
        operations::cancel_recovery_agent_update,
        operations::execute_recovery_agent_update,
        operations::revert_recovery_agent_update,
        queries::status,
        queries::receipt,
        queries::block,
        queries::head,
        queries::is_valid_root,
        queries::config,
        openapi::health,
        openapi::answer,
    ),
    modifiers(&CreationToken, &Shared, &Links, &Deprecated)
)]
pub struct Description;

/// Says which endpoints the registry's next rules do not have.
struct Deprecated;

impl Modify for Deprecated {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        for path in
            ["/initiate-recovery-agent-update", "/cancel-recovery-agent-update", "/execute-recovery-agent-update"]
        {
            openapi::describe_deprecation(description, path);
        }
    }
}

/// Describes what may be needed to create an account.
struct CreationToken;

impl Modify for CreationToken {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let mut token = Http::new(HttpAuthScheme::Bearer);
        token.description =
            Some("The operator's token, where `/config` says that `create_account` needs one".to_owned());
        description
            .components
            .get_or_insert_default()
            .add_security_scheme("creationToken", SecurityScheme::Http(token));
    }
}

/// Describes what all endpoints have in common.
struct Shared;

impl Modify for Shared {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        describe_height(description);
        openapi::describe_errors::<GatewayError>(
            description,
            "ServiceApiError_GatewayErrorCode",
            openapi::NO_ERROR_PAGES,
        );
        openapi::describe_codes(description, "GatewayErrorCode", meanings::<GatewayErrorCode>());
    }
}

/// Describes how a client goes on from an accepted request.
struct Links;

impl Modify for Links {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let accepted: Vec<String> =
            ACCEPTING.iter().map(|path| path.trim_start_matches('/').replace('-', "_")).collect();
        let request_id = ("request_id", "$response.body#/request_id");
        for operation in &accepted {
            openapi::describe_link(description, operation, ("state", "status"), request_id);
            openapi::describe_link(description, operation, ("receipt", "receipt"), request_id);
        }
    }
}

/// The paths whose answer has the id of an accepted request.
const ACCEPTING: [&str; 8] = [
    "/create-account",
    "/update-authenticator",
    "/insert-authenticator",
    "/remove-authenticator",
    "/recover-account",
    "/initiate-recovery-agent-update",
    "/cancel-recovery-agent-update",
    "/execute-recovery-agent-update",
];

// What the gateway's handlers share.

/// The registry, as the gateway calls it.
pub struct Gateway {
    /// Submits requests; reads states, blocks, receipts and roots.
    pub registry: RegistryHandle,
    /// Who may create accounts. Reloading the configuration replaces it.
    pub creation: Arc<ArcSwap<CreationPolicy>>,
}

impl HasRegistry for Gateway {
    fn registry(&self) -> &RegistryHandle {
        &self.registry
    }
}

// Who may create accounts: `registry.create_account`.

/// Who may create accounts.
#[derive(Clone, Debug)]
pub enum CreationPolicy {
    /// Every client.
    Open,
    /// Clients that send the operator's token.
    Token(ClientSecret),
}

impl CreationPolicy {
    /// What `/config` tells clients; nothing when every client may create accounts.
    pub fn describe(&self) -> Option<AccountCreation> {
        match self {
            Self::Open => None,
            Self::Token(_) => Some(AccountCreation::Token),
        }
    }

    /// Checks that a request may create an account.
    fn check(&self, request: &Request) -> Result<(), GatewayError> {
        let Self::Token(expected) = self else { return Ok(()) };
        let authorization = request.authorization(challenge::BEARER)?;
        let token = authorization.as_ref().and_then(|authorization| authorization.bearer());
        let is_right = token.is_some_and(|token| expected.is(token));
        if is_right { Ok(()) } else { Err(GatewayError::CreationToken) }
    }
}

// The errors of the gateway and its answers to them.

/// A rejected request to the gateway.
#[derive(Debug, thiserror::Error)]
enum GatewayError {
    /// The request was rejected for a reason that all interfaces share: path, method, size, content
    /// type, time.
    #[error(transparent)]
    Http(#[from] Rejection),
    /// The body is not a JSON object with the fields of the operation.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The slot that the body names does not fit 32 bits.
    #[error("PubkeyIdOutOfBounds: pubkey_id is 2^32 or greater; an account has {max} slots, counted from 0")]
    Slot { max: u32 },
    /// A query parameter, header or path segment is malformed.
    #[error("{field}: {problem}")]
    Parameter { field: &'static str, problem: String },
    /// The token that a new account needs is missing or wrong.
    #[error(
        "CreationTokenRequired: accounts are created with a token of this service's operator; send it as \
         Authorization: Bearer"
    )]
    CreationToken,
    /// The registry does not accept the request.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// No such request, receipt or block.
    #[error("{0}")]
    NotFound(String),
    /// A receipt is refused, or could not be read.
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    /// The head cannot be signed.
    #[error(transparent)]
    Head(#[from] HeadSigningError),
    /// It is not known whether another replica has the request.
    #[error(transparent)]
    Await(#[from] AwaitError),
    /// Waiting for a final state was refused or failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The registry's rules have no such operation.
    #[error("the registry's rules (v1) have no {operation}; {instead}")]
    MethodNotAvailable { operation: &'static str, instead: &'static str },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InterfaceError for GatewayError {
    fn reason(&self) -> String {
        match self {
            Self::Http(rejection) => rejection.reason(),
            Self::Body(error) => error.reason(),
            Self::Parameter { field, .. } => format!("{field} is malformed"),
            other => other.to_string(),
        }
    }

    fn into_response(self) -> Response {
        let message = self.to_string();
        let bad_request = |code| answer(StatusCode::BAD_REQUEST, code, &message);
        match self {
            Self::Http(rejection) => ErrorCodes::GATEWAY.respond(&rejection),
            Self::Body(_) | Self::Parameter { .. } => bad_request(GatewayErrorCode::BadRequest),
            Self::Slot { .. } => bad_request(GatewayErrorCode::PubkeyIdOutOfBounds),
            Self::CreationToken => {
                let mut response = answer(StatusCode::UNAUTHORIZED, GatewayErrorCode::BadRequest, &message);
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge::BEARER));
                response
            }
            Self::NotFound(_) => answer(StatusCode::NOT_FOUND, GatewayErrorCode::NotFound, &message),
            Self::MethodNotAvailable { .. } => {
                answer(StatusCode::NOT_IMPLEMENTED, GatewayErrorCode::MethodNotAvailable, &message)
            }
            Self::Submit(error) => match error {
                SubmitError::Request(error) => bad_request(error.code()),
                SubmitError::IdempotencyKeyReused => bad_request(GatewayErrorCode::BadRequest),
                SubmitError::Rule(violation) => bad_request(violation.code()),
                SubmitError::Duplicate { .. } => bad_request(GatewayErrorCode::DuplicateRequestInFlight),
                SubmitError::RateLimited { retry_after, .. } => {
                    let code = GatewayErrorCode::RateLimitExceeded;
                    Rejection::TooManyRequests { retry_after }.respond(&body(code, &message))
                }
                SubmitError::QueueFull { .. } | SubmitError::Unavailable { .. } | SubmitError::Unknown { .. } => {
                    unavailable(&message)
                }
                // The daemon logs once that commits fail, and not again for each request.
                SubmitError::Store(error) if error.is_transient() => {
                    unavailable("requests cannot be recorded at the moment; try again")
                }
                SubmitError::Store(error) => store_error_response(&error),
            },
            Self::Receipt(ReceiptError::RateLimited(TooManyRequests { retry_after }))
            | Self::Await(AwaitError::TooMany(TooManyRequests { retry_after })) => {
                let code = GatewayErrorCode::RateLimitExceeded;
                Rejection::TooManyRequests { retry_after }.respond(&body(code, &message))
            }
            // A new store, which cannot be written at the moment, has no key yet.
            Self::Head(HeadSigningError::Store(error)) if error.is_transient() => {
                unavailable("the head cannot be signed at the moment; try again")
            }
            Self::Head(error) => {
                tracing::error!(%error, "the head cannot be signed");
                ErrorCodes::GATEWAY.respond(&Rejection::Internal)
            }
            Self::Wait(WaitError::TooMany) => unavailable(&message),
            // Another replica may know the request.
            Self::Await(AwaitError::Store(StoreError::Replica(error))) | Self::Store(StoreError::Replica(error))
                if error.is_transient() =>
            {
                unavailable(&format!("{}; try again", error.for_clients()))
            }
            // A ledger of an embedder, which may come back.
            Self::Wait(WaitError::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })))
            | Self::Await(AwaitError::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })))
            | Self::Store(error @ (StoreError::Ledger { .. } | StoreError::LedgerDiverged { .. })) => {
                tracing::error!(%error, "the ledger gives no answer");
                unavailable("the registry's blocks cannot be read at the moment; try again")
            }
            Self::Wait(WaitError::Store(error))
            | Self::Receipt(ReceiptError::Store(error))
            | Self::Await(AwaitError::Store(error))
            | Self::Store(error) => store_error_response(&error),
        }
    }
}

/// The errors that all submitting endpoints share, as `/openapi.json` describes them, beside those
/// of every endpoint.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes the answers that GatewayError makes")]
enum SubmissionErrors {
    /// The rate limit of the source or of the account is exceeded, see Retry-After:
    /// `rate_limit_exceeded`
    #[response(status = 429)]
    RateLimited,
    /// No request is accepted at the moment, see Retry-After: `batcher_unavailable`
    #[response(status = 503)]
    Unavailable,
    /// The answer took longer than the request timeout. The request may have been accepted; submit
    /// it again with its Idempotency-Key: `request_timeout`
    #[response(status = 504)]
    TimedOut,
}

fn body(code: GatewayErrorCode, message: &str) -> ServiceApiError<GatewayErrorCode> {
    ServiceApiError { code, message: message.to_owned() }
}

fn answer(status: StatusCode, code: GatewayErrorCode, message: &str) -> Response {
    json(status, &body(code, message))
}

fn unavailable(message: &str) -> Response {
    Rejection::Unavailable { retry_after: RetryAfter::SOON }
        .respond(&body(GatewayErrorCode::BatcherUnavailable, message))
}

/// The log has the details for the operator; the client gets an internal error.
fn store_error_response(error: &StoreError) -> Response {
    tracing::error!(%error, "the store failed");
    ErrorCodes::GATEWAY.respond(&Rejection::Internal)
}
