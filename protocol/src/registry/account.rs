//! The registry's records of accounts and of authenticator addresses.

use alloy_primitives::{Address, U256};

use crate::commitment::{PublicKey, SlotError, decompress_slots};
use crate::encode_fields;
use crate::ids::{Commitment, CompressedKey, LeafIndex, PubkeyId};
use crate::time::UnixSeconds;

/// An account. Its leaf in the tree is [`Account::commitment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The leaf: the commitment to the account's public keys, as its operations stated it.
    pub commitment: Commitment,
    /// Authenticators by pubkey id. The list reaches to the highest slot that was used since the
    /// account was created or last recovered. The slot of a removed authenticator is `None`.
    pub slots: Vec<Option<Authenticator>>,
    /// The address that may recover the account; the zero address when the account has no recovery
    /// agent.
    pub recovery_agent: Address,
    /// The update of the recovery agent that waits for its cooldown.
    pub pending_recovery_agent: Option<PendingRecoveryAgent>,
    /// The nonce that the next signed operation must carry.
    pub nonce: u64,
    /// How often the account was recovered.
    pub recovery_counter: u32,
}

encode_fields!(Account { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter });

impl Account {
    /// The compressed public keys, slot by slot.
    pub fn public_keys(&self) -> Vec<Option<CompressedKey>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.public_key)).collect()
    }

    /// The addresses, slot by slot.
    pub fn addresses(&self) -> Vec<Option<Address>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.address)).collect()
    }

    /// The decoded public keys, slot by slot.
    ///
    /// # Errors
    /// The first slot whose key does not decode.
    pub fn decoded_keys(&self) -> Result<Vec<Option<PublicKey>>, SlotError> {
        decompress_slots(self.public_keys())
    }
}

/// An authenticator in its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticator {
    /// The address that its signatures recover to.
    pub address: Address,
    /// Its compressed public key, as sent; the registry does not decode it.
    pub public_key: CompressedKey,
}

encode_fields!(Authenticator { address, public_key });

/// A pending update of the recovery agent. It can be executed in a block whose time is at or after
/// `execute_after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRecoveryAgent {
    /// The new recovery agent; the zero address ends recovery.
    pub agent: Address,
    /// The earliest block time of the execution, inclusive.
    pub execute_after: UnixSeconds,
}

encode_fields!(PendingRecoveryAgent { agent, execute_after });

/// What an authenticator's address maps to (interface description, section 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAccount {
    /// The account's recovery counter when the address was added. When it is less than the
    /// account's, a recovery revoked the address.
    pub recovery_counter: u32,
    /// The authenticator's slot in the account.
    pub pubkey_id: PubkeyId,
    /// Leaf index of the account.
    pub leaf_index: LeafIndex,
}

encode_fields!(PackedAccount { recovery_counter, pubkey_id, leaf_index });

impl PackedAccount {
    /// The packed number: recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits).
    pub fn to_number(self) -> U256 {
        U256::from_limbs([
            self.leaf_index.0,
            0,
            0,
            u64::from(self.recovery_counter) << 32 | u64::from(self.pubkey_id.0),
        ])
    }

    /// Reads the packed number; `None` when its leaf index does not fit 64 bits.
    pub fn from_number(number: U256) -> Option<Self> {
        let [leaf_index, 0, 0, high] = *number.as_limbs() else { return None };
        let (recovery_counter, pubkey_id) = ((high >> 32) as u32, PubkeyId(high as u32));
        Some(Self { recovery_counter, pubkey_id, leaf_index: LeafIndex(leaf_index) })
    }
}
