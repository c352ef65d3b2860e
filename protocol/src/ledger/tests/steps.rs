//! Random sequences of operations.

use alloy_primitives::{Address, U256};
use proptest::prelude::*;

use super::RecoveredSigner;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::ledger::MemoryRegistry;
use crate::registry::{
    Account, CreateAccount, ExecuteRecoveryAgentUpdate, InsertAuthenticator, Operation, RecoverAccount,
    RemoveAuthenticator, UpdateAuthenticator, UpdateRecoveryAgent,
};
use crate::signature::Signature;

/// A random step. The current state of the registry turns it into an operation, so that most
/// operations succeed.
#[derive(Clone, Debug)]
pub(super) struct RandomStep {
    kind: u8,
    account: u64,
    address: u8,
    pubkey_id: PubkeyId,
    nonce_is_right: bool,
}

pub(super) fn any_step() -> impl Strategy<Value = RandomStep> {
    (0..10u8, 0..5u64, 1..12u8, (0..4u32).prop_map(PubkeyId), prop::bool::weighted(0.9)).prop_map(
        |(kind, account, address, pubkey_id, nonce_is_right)| RandomStep {
            kind,
            account,
            address,
            pubkey_id,
            nonce_is_right,
        },
    )
}

impl RandomStep {
    pub(super) fn operation(&self, number: u64, registry: &MemoryRegistry) -> (Operation, RecoveredSigner) {
        let leaf_index = LeafIndex(1 + self.account % registry.next_leaf_index.0);
        let empty_account = Account {
            commitment: Commitment(U256::from(1)),
            slots: Vec::new(),
            recovery_agent: Address::ZERO,
            pending_recovery_agent: None,
            nonce: 0,
            recovery_counter: 0,
        };
        let account = registry.accounts.get(&leaf_index).unwrap_or(&empty_account);
        let (in_use, authenticator) = (0..)
            .map(PubkeyId)
            .zip(&account.slots)
            .find_map(|(pubkey_id, slot)| slot.as_ref().map(|authenticator| (pubkey_id, authenticator.address)))
            .unwrap_or((PubkeyId(0), Address::repeat_byte(0xee)));
        let address = Address::repeat_byte(self.address);
        let signature = Signature([0; 65]);
        let nonce = Nonce::from(account.nonce + u64::from(!self.nonce_is_right));
        let (old_offchain_signer_commitment, new_offchain_signer_commitment) =
            (account.commitment, Commitment(U256::from(1000 + number)));
        let public_key = CompressedKey(U256::from(number));
        let signer = Some(Ok(authenticator));
        match self.kind {
            0..=2 => {
                let operation = CreateAccount {
                    recovery_address: Address::repeat_byte(0xaa),
                    authenticator_addresses: vec![address],
                    authenticator_pubkeys: vec![public_key],
                    offchain_signer_commitment: new_offchain_signer_commitment,
                };
                (operation.into(), None)
            }
            3 => {
                let operation = UpdateAuthenticator {
                    leaf_index,
                    old_authenticator_address: authenticator,
                    new_authenticator_address: address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id: in_use,
                    new_authenticator_pubkey: public_key,
                };
                (operation.into(), signer)
            }
            4 | 5 => {
                let operation = InsertAuthenticator {
                    leaf_index,
                    new_authenticator_address: address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id: self.pubkey_id,
                    new_authenticator_pubkey: public_key,
                };
                (operation.into(), signer)
            }
            6 => {
                let operation = RemoveAuthenticator {
                    leaf_index,
                    authenticator_address: authenticator,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id: in_use,
                    authenticator_pubkey: public_key,
                };
                (operation.into(), signer)
            }
            7 => {
                let operation = RecoverAccount {
                    leaf_index,
                    new_authenticator_address: address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    new_authenticator_pubkey: public_key,
                };
                (operation.into(), Some(Ok(account.recovery_agent)))
            }
            8 => (UpdateRecoveryAgent { leaf_index, new_recovery_agent: address, signature, nonce }.into(), signer),
            _ => (ExecuteRecoveryAgentUpdate { leaf_index }.into(), None),
        }
    }
}
