//! The rules that an operation can break.

use alloy_primitives::Address;

use super::error_code::GatewayErrorCode;
use crate::commitment::PublicKeyError;
use crate::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use crate::signature::SignatureError;
use crate::time::UnixSeconds;

/// A broken rule. The variants have the names of the registry contract; the last four are this
/// service's own. The text contains the values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum RuleViolation {
    #[error("no account has leaf index {leaf_index:#x}")]
    AccountDoesNotExist { leaf_index: LeafIndex },
    #[error("address {address:#x} already belongs to an account")]
    AuthenticatorAddressAlreadyInUse { address: Address },
    #[error("address {address:#x} is not an authenticator of any account")]
    AuthenticatorDoesNotExist { address: Address },
    #[error("address {address:#x} belongs to the account with leaf index {actual:#x}, not {leaf_index:#x}")]
    AuthenticatorDoesNotBelongToAccount { address: Address, actual: LeafIndex, leaf_index: LeafIndex },
    #[error("an account needs at least one authenticator address")]
    EmptyAddressArray,
    #[error(
        "there are {addresses} authenticator_addresses and {pubkeys} authenticator_pubkeys; each address needs one key"
    )]
    MismatchingArrayLengths { addresses: usize, pubkeys: usize },
    #[error("the zero address cannot be an authenticator")]
    ZeroAddress,
    #[error("the new authenticator address is the old one, {address:#x}")]
    ReusedAuthenticatorAddress { address: Address },
    #[error("pubkey id {pubkey_id} is out of bounds; an account has {max} slots, counted from 0")]
    PubkeyIdOutOfBounds { pubkey_id: u64, max: u32 },
    #[error("slot {pubkey_id} already holds an authenticator")]
    PubkeyIdInUse { pubkey_id: PubkeyId },
    #[error("slot {pubkey_id} holds no authenticator")]
    PubkeyIdDoesNotExist { pubkey_id: PubkeyId },
    #[error("pubkey id is {stated}, the authenticator's slot is {actual}")]
    MismatchedPubkeyId { stated: PubkeyId, actual: PubkeyId },
    #[error(
        "the signature recovers to {signer:#x}, which is an authenticator of leaf index {actual:#x}, not {leaf_index:#x}"
    )]
    MismatchedLeafIndex { signer: Address, actual: LeafIndex, leaf_index: LeafIndex },
    #[error("the signature recovers to {signer:#x}, not to the old authenticator {expected:#x}")]
    MismatchedAuthenticatorSigner { signer: Address, expected: Address },
    #[error("nonce is {stated}, the account's next nonce is {expected}")]
    MismatchedSignatureNonce { stated: Nonce, expected: u64 },
    #[error("address {address:#x} was revoked when its account was recovered")]
    MismatchedRecoveryCounter { address: Address },
    #[error("the account has no recovery agent")]
    RecoveryNotEnabled,
    #[error("the signature is not the recovery agent's, {agent:#x}")]
    InvalidSignature { agent: Address },
    #[error("no recovery agent update is pending")]
    NoPendingRecoveryAgentUpdate,
    #[error("the recovery agent update can be executed from {execute_after} on, it is {now} (Unix seconds)")]
    RecoveryAgentUpdateStillInCooldown { execute_after: UnixSeconds, now: UnixSeconds },
    #[error("the new commitment equals the old one")]
    NewLeafCannotEqualOldLeaf,
    #[error("the commitment {commitment:#x} is not below the scalar field's modulus")]
    ValueGreaterThanSnarkScalarField { commitment: Commitment },
    #[error("the account's commitment is {actual:#x}, not {stated:#x}")]
    LeafDoesNotExist { stated: Commitment, actual: Commitment },
    #[error("{}", SignatureError::Invalid)]
    ECDSAInvalidSignature,
    #[error("{}", SignatureError::HighS)]
    ECDSAInvalidSignatureS,

    /// Only with [`super::CommitmentCheck::Enforce`].
    #[error("the commitment is {stated:#x}, that of the account's public keys would be {expected:#x}")]
    MismatchedCommitment { stated: Commitment, expected: Commitment },
    /// Only with [`super::CommitmentCheck::Enforce`].
    #[error("the public key of slot {pubkey_id} does not decode: {error}")]
    InvalidAuthenticatorPubkey { pubkey_id: PubkeyId, error: PublicKeyError },
    /// The tree has 2³⁰ leaves.
    #[error("the registry's tree is full")]
    TreeIsFull,
    /// A counter is at its greatest value and cannot grow.
    #[error("the account's {counter} cannot grow any further")]
    CounterExhausted { counter: &'static str },
}

impl From<SignatureError> for RuleViolation {
    fn from(error: SignatureError) -> Self {
        match error {
            SignatureError::Invalid => Self::ECDSAInvalidSignature,
            SignatureError::HighS => Self::ECDSAInvalidSignatureS,
        }
    }
}

impl RuleViolation {
    /// The rule's name: the contract's where it has one.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The error code that the gateway's answers carry for this violation (interface description,
    /// section 7.2).
    pub fn code(&self) -> GatewayErrorCode {
        match self {
            Self::AuthenticatorAddressAlreadyInUse { .. } => GatewayErrorCode::AuthenticatorAlreadyExists,
            Self::AuthenticatorDoesNotExist { .. } => GatewayErrorCode::AuthenticatorDoesNotExist,
            Self::MismatchedSignatureNonce { .. } => GatewayErrorCode::MismatchedSignatureNonce,
            Self::PubkeyIdInUse { .. } => GatewayErrorCode::PubkeyIdInUse,
            Self::PubkeyIdOutOfBounds { .. } => GatewayErrorCode::PubkeyIdOutOfBounds,
            Self::AuthenticatorDoesNotBelongToAccount { .. } => GatewayErrorCode::AuthenticatorDoesNotBelongToAccount,
            _ => GatewayErrorCode::BadRequest,
        }
    }

    /// The message of an error answer or of the state `failed`: the rule's name and the values.
    pub fn message(&self) -> String {
        format!("{}: {self}", self.name())
    }
}
