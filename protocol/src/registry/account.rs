//! What the registry knows about an account.

use alloy_primitives::{Address, U256};

use crate::commitment::{PublicKey, SlotError, decompress_slots};
use crate::encode_fields;

/// An account. Its leaf in the tree is [`Account::commitment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The leaf: the commitment to the account's public keys, as its operations stated it.
    pub commitment: U256,
    /// Authenticators by pubkey id. Reaches to the highest slot used since the account was made or recovered; a removed
    /// authenticator leaves `None`.
    pub slots: Vec<Option<Authenticator>>,
    /// Who may recover the account; the zero address is nobody.
    pub recovery_agent: Address,
    /// A recovery agent waiting for its cooldown to pass.
    pub pending_recovery_agent: Option<PendingRecoveryAgent>,
    /// The nonce that the next signed operation must carry.
    pub nonce: u64,
    /// How often the account was recovered.
    pub recovery_counter: u32,
}

encode_fields!(Account { commitment, slots, recovery_agent, pending_recovery_agent, nonce, recovery_counter });

impl Account {
    /// The compressed public keys, slot by slot.
    pub fn public_keys(&self) -> Vec<Option<U256>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.public_key)).collect()
    }

    /// The addresses, slot by slot.
    pub fn addresses(&self) -> Vec<Option<Address>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|authenticator| authenticator.address)).collect()
    }

    /// The decoded public keys, slot by slot; the first that does not decode is the error.
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
    pub public_key: U256,
}

encode_fields!(Authenticator { address, public_key });

/// A recovery agent that takes office when somebody executes the update at or after `execute_after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRecoveryAgent {
    pub agent: Address,
    /// Unix seconds.
    pub execute_after: u64,
}

encode_fields!(PendingRecoveryAgent { agent, execute_after });

/// What an authenticator's address maps to (seed section 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedAccount {
    /// The account's recovery counter when the address was added; an older one means the address was revoked by a recovery.
    pub recovery_counter: u32,
    pub pubkey_id: u32,
    pub leaf_index: u64,
}

encode_fields!(PackedAccount { recovery_counter, pubkey_id, leaf_index });

impl PackedAccount {
    /// The packed number: recovery counter (32 bits) ‖ pubkey id (32 bits) ‖ leaf index (192 bits).
    pub fn to_number(self) -> U256 {
        U256::from_limbs([self.leaf_index, 0, 0, u64::from(self.recovery_counter) << 32 | u64::from(self.pubkey_id)])
    }
}
