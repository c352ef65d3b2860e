//! The eight operations. The gateway receives them as request bodies, and blocks carry them.
//!
//! Names and forms of the fields are those of the gateway's endpoints
//! (`docs/interfaces/gateway.md`, "Operations"). Numbers are numeric strings ([`crate::number`]).

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encoding::{DecodeError, Encoding};
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::number::{self, AddressText};
use crate::signature::Signature;
use crate::{address, encode_fields};

/// Creates an account. The operation is not signed; its addresses become the authenticators of the
/// account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateAccount {
    /// The recovery agent: the address that may recover the account. Absent, null and the zero
    /// address mean that the account has no recovery agent.
    #[serde(default, with = "address::or_none")]
    #[schema(value_type = Option<String>, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x3ca415a58925e09eb0a4c53fef9ed0311f13a514")]
    pub recovery_address: Address,
    /// One address for each authenticator; 1 to `max_authenticators` addresses (at most 7).
    #[serde(with = "address::list")]
    #[schema(value_type = Vec<AddressText>, min_items = 1, max_items = 7, example = json!(["0x71a4fb49dcddadfed612b153b000fbab994ed6af"]))]
    pub authenticator_addresses: Vec<Address>,
    /// The compressed public key of each authenticator, in the order of the addresses.
    #[schema(min_items = 1, max_items = 7)]
    pub authenticator_pubkeys: Vec<CompressedKey>,
    /// The commitment to the public keys: the account's leaf.
    pub offchain_signer_commitment: Commitment,
}

/// Replaces the authenticator that signs the operation. The new authenticator takes its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpdateAuthenticator {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The signer's address.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x71a4fb49dcddadfed612b153b000fbab994ed6af")]
    pub old_authenticator_address: Address,
    /// The address that replaces it.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before the operation.
    pub old_offchain_signer_commitment: Commitment,
    /// The account's commitment after the operation.
    #[schema(value_type = String, pattern = "^(0x0*([1-9a-fA-F][0-9a-fA-F]{0,62}|[12][0-9a-fA-F]{63}|30[0-6][0-9a-fA-F]{61})|0*[1-9][0-9]{0,75})$", example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: Commitment,
    /// EIP-712 signature of the old authenticator.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
    /// The signer's slot.
    pub pubkey_id: PubkeyId,
    /// The compressed public key that replaces the old one.
    pub new_authenticator_pubkey: CompressedKey,
}

/// Adds an authenticator in a free slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InsertAuthenticator {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The address to add.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before the operation.
    pub old_offchain_signer_commitment: Commitment,
    /// The account's commitment after the operation.
    #[schema(value_type = String, pattern = "^(0x0*([1-9a-fA-F][0-9a-fA-F]{0,62}|[12][0-9a-fA-F]{63}|30[0-6][0-9a-fA-F]{61})|0*[1-9][0-9]{0,75})$", example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: Commitment,
    /// EIP-712 signature of any authenticator of the account.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
    /// The free slot.
    pub pubkey_id: PubkeyId,
    /// The new authenticator's compressed public key.
    pub new_authenticator_pubkey: CompressedKey,
}

/// Removes an authenticator of the account. The signer may remove itself, and the last
/// authenticator can be removed too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoveAuthenticator {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The address to remove.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub authenticator_address: Address,
    /// The account's commitment before the operation.
    pub old_offchain_signer_commitment: Commitment,
    /// The account's commitment after the operation.
    #[schema(value_type = String, pattern = "^(0x0*([1-9a-fA-F][0-9a-fA-F]{0,62}|[12][0-9a-fA-F]{63}|30[0-6][0-9a-fA-F]{61})|0*[1-9][0-9]{0,75})$", example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: Commitment,
    /// EIP-712 signature of any authenticator of the account.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
    /// The slot to empty; absent means 0.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<PubkeyId>)]
    pub pubkey_id: PubkeyId,
    /// The compressed public key in that slot; absent means 0. It is part of the signed data only:
    /// the rules do not compare it with the stored key.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<CompressedKey>)]
    pub authenticator_pubkey: CompressedKey,
}

/// Replaces all authenticators of an account by a new one. The recovery agent signs the operation,
/// and the old authenticators are revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoverAccount {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The address that becomes the only authenticator, in slot 0.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before the operation.
    pub old_offchain_signer_commitment: Commitment,
    /// The account's commitment after the operation.
    #[schema(value_type = String, pattern = "^(0x0*([1-9a-fA-F][0-9a-fA-F]{0,62}|[12][0-9a-fA-F]{63}|30[0-6][0-9a-fA-F]{61})|0*[1-9][0-9]{0,75})$", example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: Commitment,
    /// EIP-712 signature of the recovery agent.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
    /// The new authenticator's compressed public key; absent means 0, which does not decode to a
    /// public key.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<CompressedKey>)]
    pub new_authenticator_pubkey: CompressedKey,
}

/// Starts an update of the recovery agent. The update can be executed after the cooldown; it
/// replaces a pending update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpdateRecoveryAgent {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// The new recovery agent; with the zero address the account has no recovery agent.
    #[serde(with = "address")]
    #[schema(value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0xebeef42dd191f869c6fd80ceba222a8e4126f00f")]
    pub new_recovery_agent: Address,
    /// EIP-712 signature of any authenticator of the account.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
}

/// Cancels the pending update of the recovery agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelRecoveryAgentUpdate {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
    /// EIP-712 signature of any authenticator of the account.
    pub signature: Signature,
    /// The account's next signature nonce.
    pub nonce: Nonce,
}

/// Makes the pending recovery agent the recovery agent, after the cooldown. The operation is not
/// signed: any client may send it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRecoveryAgentUpdate {
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
}

encode_fields!(CreateAccount {
    recovery_address,
    authenticator_addresses,
    authenticator_pubkeys,
    offchain_signer_commitment
});
encode_fields!(UpdateAuthenticator {
    leaf_index,
    old_authenticator_address,
    new_authenticator_address,
    old_offchain_signer_commitment,
    new_offchain_signer_commitment,
    signature,
    nonce,
    pubkey_id,
    new_authenticator_pubkey
});
encode_fields!(InsertAuthenticator {
    leaf_index,
    new_authenticator_address,
    old_offchain_signer_commitment,
    new_offchain_signer_commitment,
    signature,
    nonce,
    pubkey_id,
    new_authenticator_pubkey
});
encode_fields!(RemoveAuthenticator {
    leaf_index,
    authenticator_address,
    old_offchain_signer_commitment,
    new_offchain_signer_commitment,
    signature,
    nonce,
    pubkey_id,
    authenticator_pubkey
});
encode_fields!(RecoverAccount {
    leaf_index,
    new_authenticator_address,
    old_offchain_signer_commitment,
    new_offchain_signer_commitment,
    signature,
    nonce,
    new_authenticator_pubkey
});
encode_fields!(UpdateRecoveryAgent { leaf_index, new_recovery_agent, signature, nonce });
encode_fields!(CancelRecoveryAgentUpdate { leaf_index, signature, nonce });
encode_fields!(ExecuteRecoveryAgentUpdate { leaf_index });

/// Kind of an operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumIter, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OperationKind {
    /// Creates an account; not signed.
    CreateAccount,
    /// Replaces the authenticator that signs.
    UpdateAuthenticator,
    /// Adds an authenticator in a free slot; any authenticator of the account signs.
    InsertAuthenticator,
    /// Empties a slot; any authenticator of the account signs.
    RemoveAuthenticator,
    /// Starts an update of the recovery agent; any authenticator of the account signs.
    UpdateRecoveryAgent,
    /// Drops the pending update of the recovery agent; any authenticator of the account signs.
    CancelRecoveryAgentUpdate,
    /// Makes the pending recovery agent the recovery agent after the cooldown; not signed.
    ExecuteRecoveryAgentUpdate,
    /// Replaces all authenticators by a new one; the recovery agent signs.
    RecoverAccount,
}

/// An operation. Its JSON form is the body of the gateway request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Operation {
    /// The body of `POST /create-account`.
    CreateAccount(CreateAccount),
    /// The body of `POST /update-authenticator`.
    UpdateAuthenticator(UpdateAuthenticator),
    /// The body of `POST /insert-authenticator`.
    InsertAuthenticator(InsertAuthenticator),
    /// The body of `POST /remove-authenticator`.
    RemoveAuthenticator(RemoveAuthenticator),
    /// The body of `POST /initiate-recovery-agent-update`.
    UpdateRecoveryAgent(UpdateRecoveryAgent),
    /// The body of `POST /cancel-recovery-agent-update`.
    CancelRecoveryAgentUpdate(CancelRecoveryAgentUpdate),
    /// The body of `POST /execute-recovery-agent-update`.
    ExecuteRecoveryAgentUpdate(ExecuteRecoveryAgentUpdate),
    /// The body of `POST /recover-account`.
    RecoverAccount(RecoverAccount),
}

/// A lock of an open request. The gateway refuses a second request that needs the same lock
/// (`docs/interfaces/gateway.md`, "Locks and idempotency keys").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display, Serialize, Deserialize)]
pub enum Lock {
    /// The account that the operation changes.
    #[strum(to_string = "leaf index {0:#x}")]
    LeafIndex(LeafIndex),
    /// An authenticator address that the operation names or adds.
    #[strum(to_string = "address {0:#x}")]
    Address(Address),
}

impl Operation {
    /// The kind of the operation.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::CreateAccount(_) => OperationKind::CreateAccount,
            Self::UpdateAuthenticator(_) => OperationKind::UpdateAuthenticator,
            Self::InsertAuthenticator(_) => OperationKind::InsertAuthenticator,
            Self::RemoveAuthenticator(_) => OperationKind::RemoveAuthenticator,
            Self::UpdateRecoveryAgent(_) => OperationKind::UpdateRecoveryAgent,
            Self::CancelRecoveryAgentUpdate(_) => OperationKind::CancelRecoveryAgentUpdate,
            Self::ExecuteRecoveryAgentUpdate(_) => OperationKind::ExecuteRecoveryAgentUpdate,
            Self::RecoverAccount(_) => OperationKind::RecoverAccount,
        }
    }

    /// The leaf index of the account that the operation changes; `None` for [`CreateAccount`],
    /// because the block assigns the leaf index of a new account.
    pub fn leaf_index(&self) -> Option<LeafIndex> {
        match self {
            Self::CreateAccount(_) => None,
            Self::UpdateAuthenticator(operation) => Some(operation.leaf_index),
            Self::InsertAuthenticator(operation) => Some(operation.leaf_index),
            Self::RemoveAuthenticator(operation) => Some(operation.leaf_index),
            Self::UpdateRecoveryAgent(operation) => Some(operation.leaf_index),
            Self::CancelRecoveryAgentUpdate(operation) => Some(operation.leaf_index),
            Self::ExecuteRecoveryAgentUpdate(operation) => Some(operation.leaf_index),
            Self::RecoverAccount(operation) => Some(operation.leaf_index),
        }
    }

    /// The signature; `None` for the kinds that are not signed.
    pub fn signature(&self) -> Option<&Signature> {
        match self {
            Self::CreateAccount(_) | Self::ExecuteRecoveryAgentUpdate(_) => None,
            Self::UpdateAuthenticator(operation) => Some(&operation.signature),
            Self::InsertAuthenticator(operation) => Some(&operation.signature),
            Self::RemoveAuthenticator(operation) => Some(&operation.signature),
            Self::UpdateRecoveryAgent(operation) => Some(&operation.signature),
            Self::CancelRecoveryAgentUpdate(operation) => Some(&operation.signature),
            Self::RecoverAccount(operation) => Some(&operation.signature),
        }
    }

    /// The locks that the request holds while it is open, sorted and without duplicates.
    pub fn locks(&self) -> Vec<Lock> {
        let addresses = match self {
            Self::CreateAccount(operation) => operation.authenticator_addresses.as_slice(),
            Self::UpdateAuthenticator(operation) => {
                &[operation.old_authenticator_address, operation.new_authenticator_address]
            }
            Self::InsertAuthenticator(operation) => &[operation.new_authenticator_address],
            Self::RemoveAuthenticator(operation) => &[operation.authenticator_address],
            Self::RecoverAccount(operation) => &[operation.new_authenticator_address],
            Self::UpdateRecoveryAgent(_) | Self::CancelRecoveryAgentUpdate(_) | Self::ExecuteRecoveryAgentUpdate(_) => {
                &[]
            }
        };
        let mut locks: Vec<Lock> = addresses.iter().copied().map(Lock::Address).collect();
        locks.extend(self.leaf_index().map(Lock::LeafIndex));
        locks.sort_unstable();
        locks.dedup();
        locks
    }
}

impl Encoding for Signature {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

impl Encoding for Lock {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::LeafIndex(leaf_index) => {
                out.push(0);
                leaf_index.encode(out);
            }
            Self::Address(address) => {
                out.push(1);
                address.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Encoding::decode(input).map(Self::LeafIndex),
            1 => Encoding::decode(input).map(Self::Address),
            tag => Err(DecodeError::UnknownTag { kind: "lock", tag }),
        }
    }
}

/// Implements [`Encoding`] for [`Operation`] and [`OperationKind`] from one table of tags.
macro_rules! operation_tags {
    ($($tag:literal => $variant:ident),* $(,)?) => {
        impl Encoding for OperationKind {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $tag),* });
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                match u8::decode(input)? {
                    $($tag => Ok(Self::$variant),)*
                    tag => Err(DecodeError::UnknownTag { kind: "operation kind", tag }),
                }
            }
        }

        impl Encoding for Operation {
            fn encode(&self, out: &mut Vec<u8>) {
                self.kind().encode(out);
                match self { $(Self::$variant(operation) => operation.encode(out)),* }
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                match OperationKind::decode(input)? {
                    $(OperationKind::$variant => Encoding::decode(input).map(Self::$variant),)*
                }
            }
        }

        $(impl From<$variant> for Operation {
            fn from(operation: $variant) -> Self {
                Self::$variant(operation)
            }
        })*
    };
}

operation_tags! {
    1 => CreateAccount,
    2 => UpdateAuthenticator,
    3 => InsertAuthenticator,
    4 => RemoveAuthenticator,
    5 => UpdateRecoveryAgent,
    6 => CancelRecoveryAgentUpdate,
    7 => ExecuteRecoveryAgentUpdate,
    8 => RecoverAccount,
}
