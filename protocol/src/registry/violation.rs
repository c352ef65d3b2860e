//! Rules of the registry that an operation breaks, and the error codes that clients read.

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commitment::PublicKeyError;
use crate::encoding::{DecodeError, Encoding};
use crate::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use crate::signature::SignatureError;
use crate::time::UnixSeconds;

/// A broken rule. The variants have the names of the registry contract; the last four are this
/// service's own. The text contains the values.
#[derive(
    Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames, Serialize, Deserialize,
)]
pub enum RuleViolation {
    /// No account has the leaf index that the operation names.
    #[error("no account has leaf index {leaf_index:#x}")]
    AccountDoesNotExist {
        /// The leaf index that the operation names.
        leaf_index: LeafIndex,
    },
    /// The new address is an authenticator of an account, or occurs twice in a creation. An address
    /// that a recovery revoked is not in use.
    #[error("address {address:#x} already belongs to an account")]
    AuthenticatorAddressAlreadyInUse {
        /// The new address.
        address: Address,
    },
    /// The signer, or the address to remove, is not an authenticator of any account.
    #[error("address {address:#x} is not an authenticator of any account")]
    AuthenticatorDoesNotExist {
        /// The address of the signer, or the address to remove.
        address: Address,
    },
    /// The address to remove is an authenticator of another account.
    #[error("address {address:#x} belongs to the account with leaf index {actual:#x}, not {leaf_index:#x}")]
    AuthenticatorDoesNotBelongToAccount {
        /// The address to remove.
        address: Address,
        /// Leaf index of the account that the address belongs to.
        actual: LeafIndex,
        /// The leaf index that the operation names.
        leaf_index: LeafIndex,
    },
    /// A creation has no authenticator address.
    #[error("an account needs at least one authenticator address")]
    EmptyAddressArray,
    /// A creation does not have one public key for each address.
    #[error(
        "there are {addresses} authenticator_addresses and {pubkeys} authenticator_pubkeys; each address needs one key"
    )]
    MismatchingArrayLengths {
        /// Number of addresses in the request.
        addresses: usize,
        /// Number of public keys in the request.
        pubkeys: usize,
    },
    /// A new authenticator address is the zero address.
    #[error("the zero address cannot be an authenticator")]
    ZeroAddress,
    /// An update replaces an address by the same address.
    #[error("the new authenticator address is the old one, {address:#x}")]
    ReusedAuthenticatorAddress {
        /// The old and new address.
        address: Address,
    },
    /// The slot of an insertion does not exist, or a creation has more addresses than an account
    /// has slots.
    #[error("pubkey id {pubkey_id} is out of bounds; an account has {max} slots, counted from 0")]
    PubkeyIdOutOfBounds {
        /// The slot of the insertion, or the slot that the last address of the creation would take.
        pubkey_id: u64,
        /// Number of slots of an account; the greatest slot is `max` − 1.
        max: u32,
    },
    /// The slot of an insertion holds an authenticator.
    #[error("slot {pubkey_id} already holds an authenticator")]
    PubkeyIdInUse {
        /// The slot that the operation names.
        pubkey_id: PubkeyId,
    },
    /// The address to replace maps to an empty slot, or the address to remove to a slot beyond the
    /// account's list.
    #[error("slot {pubkey_id} holds no authenticator")]
    PubkeyIdDoesNotExist {
        /// The slot that the address maps to.
        pubkey_id: PubkeyId,
    },
    /// The slot that an update or a removal names is not that of the authenticator.
    #[error("pubkey id is {stated}, the authenticator's slot is {actual}")]
    MismatchedPubkeyId {
        /// The slot that the operation names.
        stated: PubkeyId,
        /// The slot of the authenticator.
        actual: PubkeyId,
    },
    /// The signer is an authenticator of another account.
    #[error(
        "the signature recovers to {signer:#x}, which is an authenticator of leaf index {actual:#x}, not {leaf_index:#x}"
    )]
    MismatchedLeafIndex {
        /// The address that the signature recovers to.
        signer: Address,
        /// Leaf index of the signer's account.
        actual: LeafIndex,
        /// The leaf index that the operation names.
        leaf_index: LeafIndex,
    },
    /// An update is not signed by the authenticator that it replaces.
    #[error("the signature recovers to {signer:#x}, not to the old authenticator {expected:#x}")]
    MismatchedAuthenticatorSigner {
        /// The address that the signature recovers to.
        signer: Address,
        /// The old address that the operation names.
        expected: Address,
    },
    /// The operation does not carry the account's next nonce.
    #[error("nonce is {stated}, the account's next nonce is {expected}")]
    MismatchedSignatureNonce {
        /// The nonce that the operation carries.
        stated: Nonce,
        /// The account's next nonce.
        expected: u64,
    },
    /// A recovery of the account revoked the signer or the address to remove.
    #[error("address {address:#x} was revoked when its account was recovered")]
    MismatchedRecoveryCounter {
        /// The revoked address.
        address: Address,
    },
    /// The account to recover has no recovery agent.
    #[error("the account has no recovery agent")]
    RecoveryNotEnabled,
    /// A recovery is not signed by the recovery agent.
    #[error("the signature is not the recovery agent's, {agent:#x}")]
    InvalidSignature {
        /// The account's recovery agent.
        agent: Address,
    },
    /// The operation cancels or executes an update of the recovery agent, and none is pending.
    #[error("no recovery agent update is pending")]
    NoPendingRecoveryAgentUpdate,
    /// The time is before the end of the cooldown.
    #[error("the recovery agent update can be executed from {execute_after} on; the time is {now} (Unix seconds)")]
    RecoveryAgentUpdateStillInCooldown {
        /// The earliest block time of the execution, inclusive.
        execute_after: UnixSeconds,
        /// The time of the block.
        now: UnixSeconds,
    },
    /// The old and the new commitment of the operation are equal.
    #[error("the new commitment equals the old one")]
    NewLeafCannotEqualOldLeaf,
    /// The new commitment is not below the modulus of BN254's scalar field.
    #[error("the commitment {commitment:#x} is not below the scalar field's modulus")]
    ValueGreaterThanSnarkScalarField {
        /// The new commitment that the operation states.
        commitment: Commitment,
    },
    /// The old commitment of the operation is not the account's.
    #[error("the account's commitment is {actual:#x}, not {stated:#x}")]
    LeafDoesNotExist {
        /// The old commitment that the operation states.
        stated: Commitment,
        /// The account's commitment.
        actual: Commitment,
    },
    /// The signature does not recover to an address ([`SignatureError::Invalid`]).
    #[error("{}", SignatureError::Invalid)]
    ECDSAInvalidSignature,
    /// The signature's s is in the upper half of the group order ([`SignatureError::HighS`]).
    #[error("{}", SignatureError::HighS)]
    ECDSAInvalidSignatureS,

    /// The stated commitment is not the commitment to the account's public keys. Checked only with
    /// [`super::CommitmentCheck::Enforce`].
    #[error("the commitment is {stated:#x}, that of the account's public keys would be {expected:#x}")]
    MismatchedCommitment {
        /// The commitment that the operation states.
        stated: Commitment,
        /// The commitment to the account's public keys after the operation.
        expected: Commitment,
    },
    /// A public key of the account does not decode. Checked only with
    /// [`super::CommitmentCheck::Enforce`].
    #[error("the public key of slot {pubkey_id} does not decode: {error}")]
    InvalidAuthenticatorPubkey {
        /// The first slot whose key does not decode.
        pubkey_id: PubkeyId,
        /// Why the key does not decode.
        error: PublicKeyError,
    },
    /// The tree has 2³⁰ leaves.
    #[error("the registry's tree is full")]
    TreeIsFull,
    /// A counter is at its greatest value and cannot grow.
    #[error("the account's {counter} cannot grow any further")]
    CounterExhausted {
        /// The counter.
        counter: Counter,
    },
}

/// A counter of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, Serialize, Deserialize)]
pub enum Counter {
    /// Grows with each recovery.
    #[strum(to_string = "recovery counter")]
    Recovery,
    /// Grows with each operation that an authenticator signs.
    #[strum(to_string = "signature nonce")]
    Nonce,
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

    /// The error code that the gateway's answers carry for this violation
    /// (`docs/interfaces/gateway.md`, "Error codes").
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

// The gateway's error codes.

/// The gateway's error codes. The published client decodes
/// these codes only. `transaction_reverted` and `confirmation_error` belong to the published list
/// and are never answered here.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::FromRepr,
    strum::EnumIter,
    strum::EnumMessage,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum GatewayErrorCode {
    /// 500: a fault of the daemon, or the store cannot be read.
    InternalServerError = 1,
    /// 404: the path, request id, receipt or block is unknown.
    NotFound = 2,
    /// 400: malformed, leaf index 0, a commitment of zero, a used `Idempotency-Key`, or a broken
    /// rule without a code of its own. 401: no token of the operator. 405, 413, 415: method, size,
    /// type.
    BadRequest = 3,
    /// 503: the gateway cannot take, follow or record more requests at the moment. Repeat the
    /// request after the seconds in `Retry-After`.
    BatcherUnavailable = 4,
    /// 400: rule `AuthenticatorAddressAlreadyInUse`: the address already belongs to an account.
    AuthenticatorAlreadyExists = 5,
    /// 400: rule `AuthenticatorDoesNotExist`: the signer, or the address to remove, is not an
    /// authenticator of any account.
    AuthenticatorDoesNotExist = 6,
    /// 400: rule `MismatchedSignatureNonce`: the nonce is not the account's next nonce.
    MismatchedSignatureNonce = 7,
    /// 400: rule `PubkeyIdInUse`: the slot of an insertion already holds an authenticator.
    PubkeyIdInUse = 8,
    /// 400: rule `PubkeyIdOutOfBounds`: the slot is not below the number of slots of an account, or
    /// a creation has too many addresses.
    PubkeyIdOutOfBounds = 9,
    /// 400: rule `AuthenticatorDoesNotBelongToAccount`: the address to remove is an authenticator
    /// of another account.
    AuthenticatorDoesNotBelongToAccount = 10,
    /// Part of the closed list of codes; never answered here.
    TransactionReverted = 11,
    /// Part of the closed list of codes; never answered here.
    ConfirmationError = 12,
    /// 400: an open request holds the account or an address that the request needs.
    DuplicateRequestInFlight = 13,
    /// 429: the rate limit of the source or of the account is reached. Repeat the request after the
    /// seconds in `Retry-After`.
    RateLimitExceeded = 14,
    /// 504: no answer within `limits.request_timeout`. The request may have been accepted.
    RequestTimeout = 15,
    /// 501: the rules in force have no such operation.
    MethodNotAvailable = 16,
}

impl Encoding for GatewayErrorCode {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let tag = u8::decode(input)?;
        Self::from_repr(tag).ok_or(DecodeError::UnknownTag { kind: "gateway error code", tag })
    }
}
