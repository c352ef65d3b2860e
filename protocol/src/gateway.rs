//! The wire types of the registry gateway (`docs/interfaces/gateway.md`). The request
//! bodies are the operations themselves ([`crate::registry::Operation`]).

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoEnumIterator};
use utoipa::ToSchema;

use crate::ids::LeafIndex;
use crate::ledger::{RequestId, SealedHeader, SealedResult};
pub use crate::registry::GatewayErrorCode;
use crate::registry::{Operation, OperationKind, RuleParameters, RuleViolation, check_stateless};

/// The body of every error of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceApiError<Code> {
    /// The error code.
    pub code: Code,
    /// What is wrong, with the field and the values, and what would be right.
    #[schema(example = "leaf_index: the numeric string is empty; write decimal digits, or 0x and hex digits")]
    pub message: String,
}

/// When each code of an enumeration is answered, in the order of the codes: the documentation of
/// its variants.
pub fn meanings<C: IntoEnumIterator + EnumMessage>() -> Vec<String> {
    let meaning =
        |code: C| code.get_documentation().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    C::iter().map(meaning).collect()
}

/// State of a request. It only moves forward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum GatewayRequestState {
    /// The request is durable and waits for a block.
    Queued,
    /// The batcher is sealing the request into a block.
    Batching,
    /// The request is in a sealed block whose effects are not readable yet.
    Submitted {
        /// The block's hash.
        #[schema(
            pattern = "^0x[0-9a-f]{64}$",
            example = "0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7"
        )]
        tx_hash: String,
    },
    /// The operation was applied; every answer of the indexer shows its effects.
    Finalized {
        /// The block's hash.
        #[schema(
            pattern = "^0x[0-9a-f]{64}$",
            example = "0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7"
        )]
        tx_hash: String,
    },
    /// The operation broke a rule and changed nothing.
    Failed {
        /// Name of the broken rule, and the values.
        #[schema(example = "MismatchedSignatureNonce: nonce is 4, the account's next nonce is 6")]
        error: String,
        /// The error code of the broken rule. The daemon always sends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_code: Option<GatewayErrorCode>,
    },
}

impl GatewayRequestState {
    /// Whether the state is final: finalized or failed.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Finalized { .. } | Self::Failed { .. })
    }
}

/// The answer to an accepted request and to a status query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GatewayStatusResponse {
    /// Id of the request; `/status/{request_id}` answers with its state.
    pub request_id: RequestId,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The request's state.
    pub status: GatewayRequestState,
}

/// The parameters that a client needs to sign operations for this registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigResponse {
    /// EIP-712 chain id.
    #[schema(example = 480)]
    pub chain_id: u64,
    /// EIP-712 verifying contract.
    #[serde(with = "crate::address")]
    #[schema(value_type = String, pattern = "^0x[0-9a-f]{40}$", example = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9")]
    pub registry_address: Address,
    /// The version of the registry's rules.
    #[schema(example = "v1")]
    pub registry_version: String,
    /// Authenticator slots of an account.
    #[schema(example = 7)]
    pub max_authenticators: u32,
    /// Levels of the tree.
    #[schema(example = 30)]
    pub tree_depth: u32,
    /// Seconds for which a replaced root stays valid, the last second included.
    #[schema(example = 3600)]
    pub root_validity_window: u64,
    /// What a request for a new account needs; absent when every client may create accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_account: Option<AccountCreation>,
}

/// What a request for a new account needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "needs", rename_all = "snake_case")]
pub enum AccountCreation {
    /// The operator's token, as `Authorization: Bearer`.
    Token,
}

/// The answer of `/is-valid-root`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidRootResponse {
    /// Whether the root is the newest, or was replaced within the validity window.
    pub valid: bool,
}

/// The answer of `/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthResponse {
    /// Always true: the process answers.
    pub success: bool,
}

/// The answer of `/block/{height or hash}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlockResponse {
    /// The header and its hash.
    pub block: SealedHeader,
    /// The result and its hash; null while the block is sealed but not applied.
    pub result: Option<SealedResult>,
    /// The block's requests, in order.
    pub request_ids: Vec<RequestId>,
}

/// The `tx_hash` of a block's requests: the block's hash, `0x` and 64 hex digits.
pub fn transaction_hash(block_hash: &B256) -> String {
    crate::number::padded(block_hash)
}

/// Why the gateway refuses a request before it reads the registry's state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request names leaf index 0, which is reserved.
    #[error("leaf_index: leaf 0 is reserved and belongs to no account")]
    LeafIndexZero,
    /// The commitment in this field is zero.
    #[error("{0}: the commitment is zero; send the commitment to the public keys")]
    ZeroCommitment(&'static str),
    /// The operation breaks a rule that needs no state.
    #[error("{}", .0.message())]
    Rule(#[from] RuleViolation),
}

impl RequestError {
    /// The error code of the answer.
    pub fn code(&self) -> GatewayErrorCode {
        match self {
            Self::LeafIndexZero | Self::ZeroCommitment(_) => GatewayErrorCode::BadRequest,
            Self::Rule(violation) => violation.code(),
        }
    }
}

/// Checks what can be checked without the registry's state: leaf index 0, zero commitments, then
/// the rules of [`check_stateless`].
///
/// # Errors
/// The first of these checks that fails.
pub fn check_request(operation: &Operation, parameters: &RuleParameters) -> Result<(), RequestError> {
    check_fields(operation)?;
    Ok(check_stateless(operation, parameters)?)
}

fn check_fields(operation: &Operation) -> Result<(), RequestError> {
    if operation.leaf_index() == Some(LeafIndex(0)) {
        return Err(RequestError::LeafIndexZero);
    }
    let (old, new) = match operation {
        Operation::CreateAccount(operation) => {
            let zero = operation.offchain_signer_commitment.0.is_zero();
            return if zero { Err(RequestError::ZeroCommitment("offchain_signer_commitment")) } else { Ok(()) };
        }
        Operation::UpdateAuthenticator(operation) => {
            (operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::InsertAuthenticator(operation) => {
            (operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::RemoveAuthenticator(operation) => {
            (operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::RecoverAccount(operation) => {
            (operation.old_offchain_signer_commitment, operation.new_offchain_signer_commitment)
        }
        Operation::UpdateRecoveryAgent(_)
        | Operation::CancelRecoveryAgentUpdate(_)
        | Operation::ExecuteRecoveryAgentUpdate(_) => return Ok(()),
    };
    if old.0.is_zero() {
        return Err(RequestError::ZeroCommitment("old_offchain_signer_commitment"));
    }
    if new.0.is_zero() {
        return Err(RequestError::ZeroCommitment("new_offchain_signer_commitment"));
    }
    Ok(())
}
