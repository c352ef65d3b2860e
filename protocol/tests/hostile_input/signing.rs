//! Signatures, the typed data that they sign, and the public keys of authenticators.

use std::sync::OnceLock;

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::PrimeField;
use proptest::prelude::*;
use proptest::sample::Index;
use selfsame_protocol::commitment::{MAX_AUTHENTICATORS, PublicKey, PublicKeyError, commitment, decompress_slots};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::indexer::CompatInclusionProofResponse;
use selfsame_protocol::ledger::recover_signer;
use selfsame_protocol::number::Number;
use selfsame_protocol::registry::Operation;
use selfsame_protocol::signature::{Signature, SignatureError};
use selfsame_protocol::trace::Trace;
use selfsame_protocol::tree::{InclusionPath, Root};
use selfsame_protocol::{Address, B256, U256, keccak256};

use crate::cases;
use crate::damage::{any_byte_damage, apply_damage};
use crate::samples::{Sample, any_element, any_number, modulus};

/// The order of secp256k1.
fn order() -> U256 {
    U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).expect("hex")
}

/// Parts of a signature: in range, at the bounds, and far out of range.
fn any_signature() -> BoxedStrategy<Signature> {
    let part =
        || prop_oneof![3 => any_number().prop_map(|number| number % order()), 1 => any_number(), 1 => Just(order())];
    let low = any_number().prop_map(|number| number % (order() >> 1));
    let v = prop_oneof![6 => prop::sample::select(vec![0u8, 1, 27, 28]), 1 => 0..32u8, 1 => any::<u8>()];
    (part(), prop_oneof![3 => low.boxed(), 1 => part().boxed()], v).prop_map(|(r, s, v)| parts(r, s, v)).boxed()
}

fn parts(r: U256, s: U256, v: u8) -> Signature {
    let mut bytes = [v; 65];
    bytes[..32].copy_from_slice(&r.to_be_bytes::<32>());
    bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    Signature(bytes)
}

fn trace() -> &'static Trace {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    TRACE.get_or_init(|| Trace::parse(include_bytes!("../../vectors/registry_trace_1.json")).expect("a trace"))
}

/// A recorded operation with a signature that recovers to an address.
fn any_signed() -> BoxedStrategy<(Operation, Address)> {
    let signed = |operation: &Operation| Some((operation.clone(), recover_signer(operation, &trace().domain)?.ok()?));
    let all: Vec<_> = trace().rows.iter().filter_map(|row| signed(&row.operation)).collect();
    prop::sample::select(all).boxed()
}

/// The digest by the definition: type and fields as words of 32 bytes, hashed, after the domain
/// separator.
fn digest(domain: &RegistryDomain, operation: &Operation) -> Option<B256> {
    let address = |address: Address| U256::from_be_slice(address.as_slice());
    let (fields, values) = match operation {
        Operation::CreateAccount(_) | Operation::ExecuteRecoveryAgentUpdate(_) => return None,
        Operation::UpdateAuthenticator(operation) => (
            "UpdateAuthenticator(uint64 leafIndex,address oldAuthenticatorAddress,address newAuthenticatorAddress,uint32 pubkeyId,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            vec![
                operation.leaf_index.widen(),
                address(operation.old_authenticator_address),
                address(operation.new_authenticator_address),
                operation.pubkey_id.widen(),
                operation.new_authenticator_pubkey.widen(),
                operation.new_offchain_signer_commitment.widen(),
                operation.nonce.widen(),
            ],
        ),
        Operation::InsertAuthenticator(operation) => (
            "InsertAuthenticator(uint64 leafIndex,address newAuthenticatorAddress,uint32 pubkeyId,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            vec![
                operation.leaf_index.widen(),
                address(operation.new_authenticator_address),
                operation.pubkey_id.widen(),
                operation.new_authenticator_pubkey.widen(),
                operation.new_offchain_signer_commitment.widen(),
                operation.nonce.widen(),
            ],
        ),
        Operation::RemoveAuthenticator(operation) => (
            "RemoveAuthenticator(uint64 leafIndex,address authenticatorAddress,uint32 pubkeyId,uint256 authenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            vec![
                operation.leaf_index.widen(),
                address(operation.authenticator_address),
                operation.pubkey_id.widen(),
                operation.authenticator_pubkey.widen(),
                operation.new_offchain_signer_commitment.widen(),
                operation.nonce.widen(),
            ],
        ),
        Operation::RecoverAccount(operation) => (
            "RecoverAccount(uint64 leafIndex,address newAuthenticatorAddress,uint256 newAuthenticatorPubkey,uint256 newOffchainSignerCommitment,uint256 nonce)",
            vec![
                operation.leaf_index.widen(),
                address(operation.new_authenticator_address),
                operation.new_authenticator_pubkey.widen(),
                operation.new_offchain_signer_commitment.widen(),
                operation.nonce.widen(),
            ],
        ),
        Operation::UpdateRecoveryAgent(operation) => (
            "InitiateRecoveryAgentUpdate(uint64 leafIndex,address newRecoveryAgent,uint256 nonce)",
            vec![operation.leaf_index.widen(), address(operation.new_recovery_agent), operation.nonce.widen()],
        ),
        Operation::CancelRecoveryAgentUpdate(operation) => (
            "CancelRecoveryAgentUpdate(uint64 leafIndex,uint256 nonce)",
            vec![operation.leaf_index.widen(), operation.nonce.widen()],
        ),
    };
    let hash = |words: &[U256]| keccak256(words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect::<Vec<u8>>());
    let of = |text: &str| U256::from_be_bytes(keccak256(text).0);
    let structure = hash(&[&[of(fields)], &values[..]].concat());
    let separator = hash(&[
        of("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
        of("WorldIDRegistry"),
        of("1.0"),
        U256::from(domain.chain_id),
        address(domain.verifying_contract),
    ]);
    Some(keccak256([&[0x19, 0x01], &separator[..], &structure[..]].concat()))
}

proptest! {
    #![proptest_config(cases())]

    /// Any 65 bytes recover to an address or do not. A signature that recovers has a low s and one
    /// of the four spellings of v; its other parity recovers to another address, and its high-s
    /// twin to none.
    #[test]
    fn only_signatures_with_low_s_and_an_accepted_v_recover(
        signature in prop_oneof![3 => any_signature().boxed(), 1 => Signature::any()],
        digest in B256::any(),
    ) {
        let recovered = signature.recover(&digest);
        let (r, s) = (U256::from_be_slice(&signature.0[..32]), U256::from_be_slice(&signature.0[32..64]));
        let v = signature.0[64];
        if s > order() >> 1 {
            prop_assert_eq!(recovered, Err(SignatureError::HighS));
        }
        if let Ok(address) = recovered {
            prop_assert!(
                !r.is_zero() && r < order() && !s.is_zero() && s <= order() >> 1 && [0, 1, 27, 28].contains(&v)
            );
            let same = if v < 27 { v + 27 } else { v - 27 };
            prop_assert_eq!(parts(r, s, same).recover(&digest), Ok(address));
            prop_assert_ne!(parts(r, s, v ^ if v < 27 { 1 } else { 7 }).recover(&digest), Ok(address));
            for v in [0, 1, 27, 28] {
                prop_assert_eq!(parts(r, order() - s, v).recover(&digest), Err(SignatureError::HighS));
            }
        }
    }

    /// A recorded signature recovers to no address or to another address for any other operation,
    /// and after any change of it.
    #[test]
    fn a_signature_recovers_to_its_signer_only_for_its_operation(signed in any_signed(), damages in any_byte_damage(), other: Index) {
        let (operation, signer) = signed;
        let domain = trace().domain;
        let bytes = encode(&operation);
        // The change of one byte always changes a field; the other changes can also damage the
        // frame of the encoding.
        let mut one_byte = bytes.clone();
        one_byte[other.index(bytes.len())] ^= 1 << (other.index(8));
        for bytes in [one_byte, apply_damage(&bytes, &damages)] {
            let Ok(changed) = decode::<Operation>(&bytes) else { continue };
            let canonical = |operation: &Operation| {
                operation.signature().map(|signature| {
                    let mut bytes = signature.0;
                    bytes[64] = if [27, 28].contains(&bytes[64]) { bytes[64] - 27 } else { bytes[64] };
                    bytes
                })
            };
            let says_the_same = domain.signing_digest(&changed) == domain.signing_digest(&operation)
                && canonical(&changed) == canonical(&operation);
            let recovered = recover_signer(&changed, &domain);
            prop_assert_eq!(recovered == Some(Ok(signer)), says_the_same, "{:?}", changed);
        }
    }

    /// The signed digest is that of the contract's typed data, for any field values.
    #[test]
    fn digests_follow_the_definition(domain in RegistryDomain::any(), operation in Operation::any()) {
        prop_assert_eq!(domain.signing_digest(&operation), digest(&domain, &operation));
        prop_assert_eq!(recover_signer(&operation, &domain).is_some(), operation.signature().is_some());
    }

    /// Any number is rejected, or it is the only compressed form of a key, whose coordinates are
    /// accepted as well.
    #[test]
    fn a_public_key_has_one_number(number in any_number(), scalar in any_number()) {
        let generated = taceo_ark_babyjubjub::EdwardsAffine::generator()
            * taceo_ark_babyjubjub::Fr::from_le_bytes_mod_order(&scalar.to_le_bytes::<32>());
        let generated = PublicKey::from_point(generated.into_affine()).map(|key| key.compress());
        for number in [number, number >> 1, number >> 3].map(CompressedKey).into_iter().chain(generated.ok()) {
            let Ok(key) = PublicKey::decompress(number) else {
                prop_assert_ne!(Ok(number), generated);
                continue;
            };
            prop_assert_eq!(key.compress(), number);
            let (x, y) = key.coordinates();
            prop_assert_eq!(PublicKey::from_coordinates(&x, &y), Ok(key));
            prop_assert!(PublicKey::from_coordinates(&(x + modulus()), &y).is_err());
            // The point plus the point of order two: it is on the curve, but outside the subgroup.
            let moved = (modulus() - x, modulus() - y);
            prop_assert_eq!(PublicKey::from_coordinates(&moved.0, &moved.1), Err(PublicKeyError::NotInSubgroup));
            for sign in [U256::ZERO, U256::from(1) << 255] {
                prop_assert_eq!(PublicKey::decompress(CompressedKey(moved.1 | sign)), Err(PublicKeyError::NotInSubgroup));
            }
        }
        prop_assert!(PublicKey::from_coordinates(&number, &scalar).is_err());
    }

    /// Slots of any numbers decode, or the error names the first slot that does not. A commitment
    /// is an element of the field, and other slots have another commitment.
    #[test]
    fn slots_of_any_numbers_decode_or_name_the_first_invalid_slot(
        scalars in prop::collection::vec(prop::option::of(any_number()), 0..10),
        strange in any_number(),
        root in any_element(),
    ) {
        let key = |scalar: U256| {
            let scalar = taceo_ark_babyjubjub::Fr::from_le_bytes_mod_order(&scalar.to_le_bytes::<32>());
            PublicKey::from_point((taceo_ark_babyjubjub::EdwardsAffine::generator() * scalar).into_affine()).ok()
        };
        let keys: Vec<Option<PublicKey>> = scalars.iter().map(|scalar| scalar.and_then(key)).collect();
        let mut numbers: Vec<Option<CompressedKey>> = keys.iter().map(|key| key.map(|key| key.compress())).collect();
        let decoded = decompress_slots(numbers.iter().copied());
        prop_assert_eq!(decoded.as_ref(), Ok(&keys));
        let of_keys = commitment(&keys);
        prop_assert!(of_keys < Commitment(modulus()));
        for place in 0..keys.len().min(MAX_AUTHENTICATORS) {
            let mut fewer = keys.clone();
            if fewer[place].take().is_some() {
                prop_assert_ne!(commitment(&fewer), of_keys);
            }
        }
        let path = InclusionPath { leaf_index: LeafIndex(1), root: Root(B256::from(root)), siblings: [B256::ZERO; 30] };
        let pubkeys = CompatInclusionProofResponse::new(&path, &keys).authenticator_pubkeys;
        prop_assert!(pubkeys.len() <= keys.len() && pubkeys.last().is_none_or(Option::is_some));
        if PublicKey::decompress(CompressedKey(strange)).is_err() {
            let place = PubkeyId(numbers.len() as u32);
            numbers.push(Some(CompressedKey(strange)));
            prop_assert_eq!(decompress_slots(numbers).expect_err("a number is not a key").pubkey_id, place);
        }
    }
}
