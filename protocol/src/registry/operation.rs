//! The eight operations: the bodies that the gateway receives, and what a block carries.
//!
//! Field names and shapes are the gateway's (seed section 4.3). Numbers are numeric strings ([`crate::number`]).

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding};
use crate::signature::Signature;
use crate::{address, number};

/// Creates an account. Not signed: the addresses it names become its authenticators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateAccount {
    /// Who may recover the account; absent, null or the zero address for nobody.
    #[serde(default, with = "address::or_none")]
    #[schema(value_type = Option<String>, example = "0x3ca415a58925e09eb0a4c53fef9ed0311f13a514")]
    pub recovery_address: Address,
    /// One address for each authenticator, at most seven.
    #[serde(with = "address::list")]
    #[schema(value_type = Vec<String>, example = json!(["0x71a4fb49dcddadfed612b153b000fbab994ed6af"]))]
    pub authenticator_addresses: Vec<Address>,
    /// The compressed public key of each authenticator, in the order of the addresses.
    #[serde(with = "number::list")]
    #[schema(value_type = Vec<String>, example = json!(["0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703"]))]
    pub authenticator_pubkeys: Vec<U256>,
    /// The commitment to the public keys: the account's leaf.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758")]
    pub offchain_signer_commitment: U256,
}

/// Replaces the authenticator that signs, in its own slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpdateAuthenticator {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// The signer's address.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0x71a4fb49dcddadfed612b153b000fbab994ed6af")]
    pub old_authenticator_address: Address,
    /// The address that replaces it.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758")]
    pub old_offchain_signer_commitment: U256,
    /// The account's commitment after.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: U256,
    /// EIP-712 signature of the old authenticator.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
    /// The signer's slot.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub pubkey_id: u32,
    /// The compressed public key that replaces the old one.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x9ffe38af11bfff8fb9fa44121b6f2ed5572917df56634c785911dd8ac991f65e")]
    pub new_authenticator_pubkey: U256,
}

/// Adds an authenticator in a free slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InsertAuthenticator {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// The address to add.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758")]
    pub old_offchain_signer_commitment: U256,
    /// The account's commitment after.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub new_offchain_signer_commitment: U256,
    /// EIP-712 signature of any authenticator of the account.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
    /// The free slot.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub pubkey_id: u32,
    /// The new authenticator's compressed public key.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x9ffe38af11bfff8fb9fa44121b6f2ed5572917df56634c785911dd8ac991f65e")]
    pub new_authenticator_pubkey: U256,
}

/// Removes an authenticator of the account, the signer's own if it likes. The last one may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoveAuthenticator {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// The address to remove.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub authenticator_address: Address,
    /// The account's commitment before.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub old_offchain_signer_commitment: U256,
    /// The account's commitment after.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758")]
    pub new_offchain_signer_commitment: U256,
    /// EIP-712 signature of any authenticator of the account.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
    /// The slot to empty; absent means 0.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<String>, example = "0x1")]
    pub pubkey_id: u32,
    /// The public key in that slot, part of what is signed; absent means 0.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<String>, example = "0x9ffe38af11bfff8fb9fa44121b6f2ed5572917df56634c785911dd8ac991f65e")]
    pub authenticator_pubkey: U256,
}

/// Gives an account to a new authenticator, signed by the recovery agent; all old ones are revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoverAccount {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// The address that becomes the only authenticator, in slot 0.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0x422dbd7628461cebdebd4e2e2676a2a86645f5ac")]
    pub new_authenticator_address: Address,
    /// The account's commitment before.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1")]
    pub old_offchain_signer_commitment: U256,
    /// The account's commitment after.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758")]
    pub new_offchain_signer_commitment: U256,
    /// EIP-712 signature of the recovery agent.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
    /// The new authenticator's compressed public key; absent means 0, which nobody can prove with.
    #[serde(default, with = "number::or_zero")]
    #[schema(value_type = Option<String>, example = "0x9ffe38af11bfff8fb9fa44121b6f2ed5572917df56634c785911dd8ac991f65e")]
    pub new_authenticator_pubkey: U256,
}

/// Asks for a new recovery agent; it can be executed once the cooldown has passed. Replaces an update that is pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpdateRecoveryAgent {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// The agent to be; the zero address ends recovery.
    #[serde(with = "address")]
    #[schema(value_type = String, example = "0xebeef42dd191f869c6fd80ceba222a8e4126f00f")]
    pub new_recovery_agent: Address,
    /// EIP-712 signature of any authenticator of the account.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
}

/// Drops the pending recovery agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelRecoveryAgentUpdate {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
    /// EIP-712 signature of any authenticator of the account.
    #[schema(value_type = String, example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c")]
    pub signature: Signature,
    /// The account's next signature nonce.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x0")]
    pub nonce: U256,
}

/// Puts the pending recovery agent in office after the cooldown. Anybody may ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecuteRecoveryAgentUpdate {
    /// The account.
    #[serde(with = "number")]
    #[schema(value_type = String, example = "0x1")]
    pub leaf_index: u64,
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

/// Kind of operation; the names are the gateway's (seed section 2.2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumIter, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OperationKind {
    CreateAccount,
    UpdateAuthenticator,
    InsertAuthenticator,
    RemoveAuthenticator,
    UpdateRecoveryAgent,
    CancelRecoveryAgentUpdate,
    ExecuteRecoveryAgentUpdate,
    RecoverAccount,
}

/// An operation. Written as JSON it is the gateway's request body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Operation {
    CreateAccount(CreateAccount),
    UpdateAuthenticator(UpdateAuthenticator),
    InsertAuthenticator(InsertAuthenticator),
    RemoveAuthenticator(RemoveAuthenticator),
    UpdateRecoveryAgent(UpdateRecoveryAgent),
    CancelRecoveryAgentUpdate(CancelRecoveryAgentUpdate),
    ExecuteRecoveryAgentUpdate(ExecuteRecoveryAgentUpdate),
    RecoverAccount(RecoverAccount),
}

/// What an open request holds so that no second one can contradict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display)]
pub enum Lock {
    /// The account that the operation changes.
    #[strum(to_string = "leaf index {0:#x}")]
    LeafIndex(u64),
    /// An authenticator address that the operation names or adds.
    #[strum(to_string = "address {0:#x}")]
    Address(Address),
}

impl Operation {
    /// Its kind.
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

    /// The account it changes; `None` for an account that is yet to be made.
    pub fn leaf_index(&self) -> Option<u64> {
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

    /// Its signature, where the kind is signed.
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

    /// The locks its request holds while it is open, sorted, each once.
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

/// Derives [`Encoding`] for [`Operation`] and [`OperationKind`] from one table of tags.
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
