//! The endpoints that change accounts: one for each operation, all of the same form.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderName;
use selfsame_actors::Submission;
use selfsame_protocol::gateway::{GatewayErrorCode, GatewayStatusResponse, ServiceApiError};
use selfsame_protocol::ids::PubkeyId;
use selfsame_protocol::json::{BodyError, from_object};
use selfsame_protocol::number::{Number, NumberError};
use selfsame_protocol::registry::{
    CancelRecoveryAgentUpdate, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation,
    OperationKind, RecoverAccount, RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::{Gateway, GatewayError, SubmissionErrors};
use crate::http::{Request, Response, json};

/// The longest body of a request, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// The longest idempotency key, in bytes.
const IDEMPOTENCY_KEY_LIMIT: usize = 128;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Reads the body as an operation and submits it; answers 200 when the request is durable.
async fn submit<T>(gateway: Arc<Gateway>, mut request: Request) -> Result<Response, GatewayError>
where
    T: DeserializeOwned + Into<Operation>,
{
    let body = request.read_json(BODY_LIMIT).await?;
    let operation: Operation = from_object::<T>(&body).map_err(|error| to_slot_error(&gateway, error))?.into();
    let source = request.source();
    if operation.kind() == OperationKind::CreateAccount {
        gateway.creation.load().check(&request).or_else(|error| {
            // A request that is submitted is counted there. At the limit the answer does not tell
            // whether the token is right.
            gateway.registry.charge_source(source)?;
            Err(error)
        })?;
    }
    let IdempotencyKey { idempotency_key } = IdempotencyKey::of(&request)?;
    let submission = Submission { operation, source: Some(source), idempotency_key };
    let accepted = gateway.registry.submit(submission).await?;
    Ok(json(StatusCode::OK, &accepted))
}

/// The error of a body that cannot be read. A slot that does not fit its field is one that no
/// account has, like each of those from `max_authenticators` on.
fn to_slot_error(gateway: &Gateway, error: BodyError) -> GatewayError {
    let too_large = NumberError::TooLarge { bits: <PubkeyId as Number>::BITS }.to_string();
    match &error {
        BodyError::Field { path, message } if path == "pubkey_id" && message.ends_with(&too_large) => {
            GatewayError::Slot { max: gateway.registry.rules().max_authenticators }
        }
        _ => error.into(),
    }
}

/// The header with which a client can safely submit a request a second time.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
struct IdempotencyKey {
    /// 1 to 128 characters. A second request with the same key and the same body is answered with
    /// the first one for as long as idempotency keys are kept, 24 hours by default; another body is
    /// an error.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

impl IdempotencyKey {
    fn of(request: &Request) -> Result<Self, GatewayError> {
        let Some(key) = request.header(&IDEMPOTENCY_KEY)? else { return Ok(Self { idempotency_key: None }) };
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_LIMIT {
            let problem = format!("it has {} characters, it must have 1 to {IDEMPOTENCY_KEY_LIMIT}", key.len());
            return Err(GatewayError::Parameter { field: "Idempotency-Key", problem });
        }
        Ok(Self { idempotency_key: Some(key.to_owned()) })
    }
}

/// Create an account
///
/// The addresses become the account's authenticators, in slots 0, 1, … Its leaf index is assigned
/// when its block is applied; ask the indexer's `/packed-account` for it. Where `/config` has a
/// `create_account`, the request carries the operator's token (`Authorization: Bearer`).
#[utoipa::path(
    post, path = "/create-account", tag = "gateway", request_body = CreateAccount,
    security((), ("creationToken" = [])),
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"create_account","status":{"state":"queued"}})),
        (status = 401, description = "The operator's token is missing or wrong: `bad_request`"),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"authenticator_already_exists","message":"AuthenticatorAddressAlreadyInUse: address 0x71a4fb49dcddadfed612b153b000fbab994ed6af already belongs to an account"})),
        SubmissionErrors,
    ),
)]
pub async fn create_account(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<CreateAccount>(gateway, request).await
}

/// Replace an authenticator
///
/// The authenticator that is replaced signs the request; the new one takes its slot.
#[utoipa::path(
    post, path = "/update-authenticator", tag = "gateway", request_body = UpdateAuthenticator,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"update_authenticator","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"mismatched_signature_nonce","message":"MismatchedSignatureNonce: nonce is 4, the account's next nonce is 6"})),
        SubmissionErrors,
    ),
)]
pub async fn update_authenticator(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<UpdateAuthenticator>(gateway, request).await
}

/// Insert an authenticator
///
/// Any authenticator of the account signs the request; the new one takes a free slot.
#[utoipa::path(
    post, path = "/insert-authenticator", tag = "gateway", request_body = InsertAuthenticator,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"insert_authenticator","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"pubkey_id_in_use","message":"PubkeyIdInUse: slot 1 already holds an authenticator"})),
        SubmissionErrors,
    ),
)]
pub async fn insert_authenticator(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<InsertAuthenticator>(gateway, request).await
}

/// Remove an authenticator
///
/// Any authenticator of the account signs the request. The slot of the removed one stays empty
/// (null), so that the others keep their numbers.
#[utoipa::path(
    post, path = "/remove-authenticator", tag = "gateway", request_body = RemoveAuthenticator,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"remove_authenticator","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"authenticator_does_not_belong_to_account","message":"AuthenticatorDoesNotBelongToAccount: address 0x422dbd7628461cebdebd4e2e2676a2a86645f5ac belongs to the account with leaf index 0x2, not 0x1"})),
        SubmissionErrors,
    ),
)]
pub async fn remove_authenticator(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<RemoveAuthenticator>(gateway, request).await
}

/// Recover an account
///
/// The recovery agent signs the request. The new authenticator becomes the only one; all others are
/// revoked.
#[utoipa::path(
    post, path = "/recover-account", tag = "gateway", request_body = RecoverAccount,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"recover_account","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"bad_request","message":"RecoveryNotEnabled: the account has no recovery agent"})),
        SubmissionErrors,
    ),
)]
pub async fn recover_account(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<RecoverAccount>(gateway, request).await
}

/// Ask for a new recovery agent
///
/// Any authenticator of the account signs the request. The update can be executed once the cooldown
/// has passed.
#[utoipa::path(
    post, path = "/initiate-recovery-agent-update", tag = "gateway",
    request_body = UpdateRecoveryAgent,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"update_recovery_agent","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"mismatched_signature_nonce","message":"MismatchedSignatureNonce: nonce is 4, the account's next nonce is 6"})),
        SubmissionErrors,
    ),
)]
pub async fn initiate_recovery_agent_update(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<UpdateRecoveryAgent>(gateway, request).await
}

/// Replace the recovery agent at once
///
/// The operation belongs to a later version of the registry's rules, where the new agent takes
/// office at once. Version v1 does not have it: the same signed request at
/// `/initiate-recovery-agent-update` would leave the old agent in office until a client executes
/// the update.
#[utoipa::path(
    post, path = "/update-recovery-agent", tag = "gateway",
    responses((status = 501, description = "Not in this version of the rules: `method_not_available`", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"method_not_available","message":"the registry's rules (v1) have no update-recovery-agent; use /initiate-recovery-agent-update, and /execute-recovery-agent-update after the cooldown"}))),
)]
pub async fn update_recovery_agent(_: Arc<Gateway>, _: Request) -> Result<Response, GatewayError> {
    Err(GatewayError::MethodNotAvailable {
        operation: "update-recovery-agent",
        instead: "use /initiate-recovery-agent-update, and /execute-recovery-agent-update after the cooldown",
    })
}

/// Cancel a pending recovery-agent update
///
/// Any authenticator of the account signs the request.
#[utoipa::path(
    post, path = "/cancel-recovery-agent-update", tag = "gateway", request_body = CancelRecoveryAgentUpdate,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"cancel_recovery_agent_update","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"bad_request","message":"NoPendingRecoveryAgentUpdate: no recovery agent update is pending"})),
        SubmissionErrors,
    ),
)]
pub async fn cancel_recovery_agent_update(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<CancelRecoveryAgentUpdate>(gateway, request).await
}

/// Execute a pending recovery-agent update
///
/// The request has no signature: any client may send it once the cooldown has passed.
#[utoipa::path(
    post, path = "/execute-recovery-agent-update", tag = "gateway", request_body = ExecuteRecoveryAgentUpdate,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Accepted and durable", body = GatewayStatusResponse, example = json!({"request_id":"gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002","kind":"execute_recovery_agent_update","status":{"state":"queued"}})),
        (status = 400, description = "Malformed (`bad_request`), or a rule is broken (the code of the rule)", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"bad_request","message":"RecoveryAgentUpdateStillInCooldown: the recovery agent update can be executed from 1798761600 on; the time is 1798700000 (Unix seconds)"})),
        SubmissionErrors,
    ),
)]
pub async fn execute_recovery_agent_update(gateway: Arc<Gateway>, request: Request) -> Result<Response, GatewayError> {
    submit::<ExecuteRecoveryAgentUpdate>(gateway, request).await
}

/// Revert a recovery-agent update
///
/// The operation belongs to a later version of the registry's rules; version v1 does not have it.
#[utoipa::path(
    post, path = "/revert-recovery-agent-update", tag = "gateway",
    responses((status = 501, description = "Not in this version of the rules: `method_not_available`", body = ServiceApiError<GatewayErrorCode>, example = json!({"code":"method_not_available","message":"the registry's rules (v1) have no revert-recovery-agent-update; use /cancel-recovery-agent-update while the update is pending"}))),
)]
pub async fn revert_recovery_agent_update(_: Arc<Gateway>, _: Request) -> Result<Response, GatewayError> {
    Err(GatewayError::MethodNotAvailable {
        operation: "revert-recovery-agent-update",
        instead: "use /cancel-recovery-agent-update while the update is pending",
    })
}
