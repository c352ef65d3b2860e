//! Operations for property tests.

use alloy_primitives::{Address, U256};
use proptest::prelude::*;

use super::cases::*;
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::registry::*;
use crate::signature::Signature;

/// Addresses, mostly the addresses in use in the registry.
pub(super) fn any_address() -> impl Strategy<Value = Address> {
    let known = [Address::ZERO, ALICE, ALICE_TABLET, ALICE_LOST, AGENT, BOB, NEW, NEW_TOO];
    prop_oneof![8 => prop::sample::select(known.to_vec()), 1 => any::<[u8; 20]>().prop_map(Address::from)]
}

/// Numbers, mostly numbers near the bounds.
fn any_number() -> impl Strategy<Value = U256> {
    let edges = [U256::ZERO, U256::from(1), U256::from(6), MODULUS - U256::from(1), MODULUS, U256::MAX];
    prop_oneof![4 => prop::sample::select(edges.to_vec()), 1 => any::<[u64; 4]>().prop_map(U256::from_limbs)]
}

fn any_signature() -> impl Strategy<Value = Signature> {
    prop::array::uniform32(any::<u8>()).prop_map(|half| {
        let mut bytes = [27; 65];
        bytes[..32].copy_from_slice(&half);
        bytes[32..64].copy_from_slice(&half);
        Signature(bytes)
    })
}

/// Any operation.
pub(crate) fn any_operation() -> impl Strategy<Value = Operation> {
    let numbers = prop::array::uniform4(any_number());
    let addresses = prop::array::uniform2(any_address());
    let lists =
        (prop::collection::vec(any_address(), 0..9), prop::collection::vec(any_number().prop_map(CompressedKey), 0..9));
    let leaf_index = prop_oneof![8 => 0u64..4, 1 => any::<u64>()].prop_map(LeafIndex);
    let pubkey_id = prop_oneof![8 => 0u32..8, 1 => any::<u32>()].prop_map(PubkeyId);
    (0..8, numbers, addresses, lists, (leaf_index, pubkey_id), any_signature()).prop_map(
        |(kind, numbers, addresses, lists, (leaf_index, pubkey_id), signature)| {
            let [old, new, nonce, public_key] = numbers;
            let (nonce, public_key) = (Nonce(nonce), CompressedKey(public_key));
            let [old_address, new_address] = addresses;
            let (old_offchain_signer_commitment, new_offchain_signer_commitment) = (Commitment(old), Commitment(new));
            match kind {
                0 => CreateAccount {
                    recovery_address: new_address,
                    authenticator_addresses: lists.0,
                    authenticator_pubkeys: lists.1,
                    offchain_signer_commitment: new_offchain_signer_commitment,
                }
                .into(),
                1 => UpdateAuthenticator {
                    leaf_index,
                    old_authenticator_address: old_address,
                    new_authenticator_address: new_address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id,
                    new_authenticator_pubkey: public_key,
                }
                .into(),
                2 => InsertAuthenticator {
                    leaf_index,
                    new_authenticator_address: new_address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id,
                    new_authenticator_pubkey: public_key,
                }
                .into(),
                3 => RemoveAuthenticator {
                    leaf_index,
                    authenticator_address: old_address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    pubkey_id,
                    authenticator_pubkey: public_key,
                }
                .into(),
                4 => RecoverAccount {
                    leaf_index,
                    new_authenticator_address: new_address,
                    old_offchain_signer_commitment,
                    new_offchain_signer_commitment,
                    signature,
                    nonce,
                    new_authenticator_pubkey: public_key,
                }
                .into(),
                5 => UpdateRecoveryAgent { leaf_index, new_recovery_agent: new_address, signature, nonce }.into(),
                6 => CancelRecoveryAgentUpdate { leaf_index, signature, nonce }.into(),
                _ => ExecuteRecoveryAgentUpdate { leaf_index }.into(),
            }
        },
    )
}
