//! The wire types of the registry gateway (seed sections 2.2–2.4, 4.3, 7.2). The request bodies are the operations themselves
//! ([`crate::registry::Operation`]).

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ledger::{RequestId, SealedHeader, SealedResult};
pub use crate::registry::GatewayErrorCode;
use crate::registry::{Operation, OperationKind, RuleParameters, RuleViolation, check_stateless};

/// Every error body of gateway and indexer (seed section 2.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceApiError<Code> {
    /// What kind of error it is.
    pub code: Code,
    /// What was wrong, with which value, and what would be right.
    #[schema(example = "leaf_index: the numeric string is empty; write decimal digits, or 0x and hex digits")]
    pub message: String,
}

/// Where a request stands. States only move forward (seed section 2.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum GatewayRequestState {
    /// Durable, not yet taken into a batch.
    Queued,
    /// Taken into a batch that is being sealed.
    Batching,
    /// In a sealed block.
    Submitted {
        /// The block's hash.
        #[schema(example = "0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7")]
        tx_hash: String,
    },
    /// Applied; readers see its effects.
    Finalized {
        /// The block's hash.
        #[schema(example = "0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7")]
        tx_hash: String,
    },
    /// A rule was broken; nothing changed.
    Failed {
        /// Rule and values.
        #[schema(example = "MismatchedSignatureNonce: nonce is 4, the account's next nonce is 6")]
        error: String,
        /// The specific code, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_code: Option<GatewayErrorCode>,
    },
}

impl GatewayRequestState {
    /// Whether the state is an end: finalized or failed.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Finalized { .. } | Self::Failed { .. })
    }
}

/// The answer to an accepted request and to a status query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GatewayStatusResponse {
    /// Identifies the request; `/status/{request_id}` tells its state.
    #[schema(value_type = String, example = "gw_0189b2f4-6c0e-4c62-9d0a-0242ac120002")]
    pub request_id: RequestId,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The request's state.
    pub status: GatewayRequestState,
}

/// What a client needs to sign for this registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigResponse {
    /// EIP-712 chain id.
    #[schema(example = 480)]
    pub chain_id: u64,
    /// EIP-712 verifying contract.
    #[serde(with = "crate::address")]
    #[schema(value_type = String, example = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9")]
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
    /// Seconds for which a replaced root stays valid.
    #[schema(example = 3600)]
    pub root_validity_window: u64,
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
    #[schema(value_type = Vec<String>)]
    pub request_ids: Vec<RequestId>,
}

/// The `tx_hash` of a block's requests: the block's hash, `0x` and 64 hex digits.
pub fn transaction_hash(block_hash: &B256) -> String {
    crate::number::padded(block_hash)
}

/// Why the gateway refuses a request before it reads the registry's state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("leaf_index: leaf 0 is reserved and belongs to no account")]
    LeafIndexZero,
    /// Names the field.
    #[error("{0}: a commitment is never zero")]
    ZeroCommitment(&'static str),
    /// A rule that needs no state is broken.
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

/// Checks what can be checked without the registry's state: leaf index 0, zero commitments, then the rules of [`check_stateless`].
pub fn check_request(operation: &Operation, parameters: &RuleParameters) -> Result<(), RequestError> {
    check_fields(operation)?;
    Ok(check_stateless(operation, parameters)?)
}

fn check_fields(operation: &Operation) -> Result<(), RequestError> {
    if operation.leaf_index() == Some(0) {
        return Err(RequestError::LeafIndexZero);
    }
    let (old, new) = match operation {
        Operation::CreateAccount(operation) => {
            let zero = operation.offchain_signer_commitment.is_zero();
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
    if old.is_zero() {
        return Err(RequestError::ZeroCommitment("old_offchain_signer_commitment"));
    }
    if new.is_zero() {
        return Err(RequestError::ZeroCommitment("new_offchain_signer_commitment"));
    }
    Ok(())
}
