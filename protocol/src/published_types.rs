//! The wire types of this crate against the published crate `world-id-primitives`: each crate reads
//! what the other writes, and both give it the same meaning.

use std::fmt::Debug;

use alloy_primitives::{Address, Signature, U256, address, uint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::IntoEnumIterator;
use world_id_primitives::merkle::AccountInclusionProof;
use world_id_primitives::{AuthenticatorPublicKeySet, FieldElement, api_types as theirs, decode_authenticator_pubkey};

use crate::commitment::{PublicKey, commitment, decompress_slots};
use crate::gateway::{self, GatewayErrorCode, GatewayRequestState, GatewayStatusResponse};
use crate::ids::{Commitment, CompressedKey, LeafIndex, Nonce, PubkeyId};
use crate::indexer::{self, CompatInclusionProofResponse, IndexerErrorCode};
use crate::json::from_object;
use crate::ledger::RequestId;
use crate::number;
use crate::registry::{self, Account, Authenticator, OperationKind};
use crate::time::UnixSeconds;
use crate::tree::{DEPTH, InclusionPath, TreeUpdate, inclusion_path, update};

const OLD: Address = address!("71a4fb49dcddadfed612b153b000fbab994ed6af");
const NEW: Address = address!("422dbd7628461cebdebd4e2e2676a2a86645f5ac");
const COMMITMENT: Commitment =
    Commitment(uint!(0x25621ac3b8119fa030714e263a607e3ce2c1a9c28e1fcd2109b976b64c4c5758_U256));
const NEW_COMMITMENT: Commitment =
    Commitment(uint!(0x14e70bb77e346fedbd4ab09b2dba10265794ed0e8b4cf1f378a3a8668489acf1_U256));
/// Compressed keys; the first two have the sign bit set.
const KEYS: [CompressedKey; 3] = [
    CompressedKey(uint!(0x800b41c1ebf9e053d97498a268e2697470098183f200cb42009e64678f96a703_U256)),
    CompressedKey(uint!(0x9ffe38af11bfff8fb9fa44121b6f2ed5572917df56634c785911dd8ac991f65e_U256)),
    CompressedKey(uint!(0x01355598fedb0f7f8a52e01a81c60b9fa5f2c6edf5e4a14afb530c8883fea2dc_U256)),
];

fn signature() -> Signature {
    Signature::new(U256::from(0xdead), U256::from(0xbeef), true)
}

/// Writes `ours`, lets the published type read and write it, and reads the result again. Returns
/// what the published type read.
fn round_trip<Ours, Theirs>(ours: &Ours) -> Theirs
where
    Ours: Serialize + DeserializeOwned + PartialEq + Debug,
    Theirs: Serialize + DeserializeOwned,
{
    let written = serde_json::to_vec(ours).expect("JSON");
    let theirs: Theirs = serde_json::from_slice(&written).expect("the published type reads it");
    let back = serde_json::to_vec(&theirs).expect("JSON");
    assert_eq!(&from_object::<Ours>(&back).expect("our type reads what the published type writes"), ours);
    theirs
}

#[test]
fn create_account_agrees_with_the_published_type() {
    for recovery_address in [Address::ZERO, NEW] {
        let ours = registry::CreateAccount {
            recovery_address,
            authenticator_addresses: vec![OLD, NEW],
            authenticator_pubkeys: vec![KEYS[0], CompressedKey(U256::MAX)],
            offchain_signer_commitment: COMMITMENT,
        };
        let theirs: theirs::CreateAccountRequest = round_trip(&ours);
        assert_eq!(theirs.recovery_address.unwrap_or_default(), recovery_address);
        assert_eq!(theirs.recovery_address.is_none(), recovery_address.is_zero());
        assert_eq!(theirs.authenticator_addresses, ours.authenticator_addresses);
        assert_eq!(theirs.authenticator_pubkeys, [KEYS[0].0, U256::MAX]);
        assert_eq!(theirs.offchain_signer_commitment, COMMITMENT.0);
    }
}

#[test]
fn update_authenticator_agrees_with_the_published_type() {
    let ours = registry::UpdateAuthenticator {
        leaf_index: LeafIndex(u64::MAX),
        old_authenticator_address: OLD,
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: COMMITMENT,
        new_offchain_signer_commitment: NEW_COMMITMENT,
        signature: signature().into(),
        nonce: Nonce(U256::MAX),
        pubkey_id: PubkeyId(u32::MAX),
        new_authenticator_pubkey: KEYS[0],
    };
    let theirs: theirs::UpdateAuthenticatorRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.pubkey_id, theirs.nonce), (u64::MAX, u32::MAX, U256::MAX));
    assert_eq!((theirs.old_authenticator_address, theirs.new_authenticator_address), (OLD, NEW));
    assert_eq!(theirs.old_offchain_signer_commitment, COMMITMENT.0);
    assert_eq!(theirs.new_offchain_signer_commitment, NEW_COMMITMENT.0);
    assert_eq!((theirs.new_authenticator_pubkey, theirs.signature), (KEYS[0].0, signature()));
}

#[test]
fn insert_authenticator_agrees_with_the_published_type() {
    let ours = registry::InsertAuthenticator {
        leaf_index: LeafIndex(1),
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: COMMITMENT,
        new_offchain_signer_commitment: NEW_COMMITMENT,
        signature: signature().into(),
        nonce: Nonce::from(5),
        pubkey_id: PubkeyId(2),
        new_authenticator_pubkey: KEYS[1],
    };
    let theirs: theirs::InsertAuthenticatorRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.pubkey_id, theirs.nonce), (1, 2, U256::from(5)));
    assert_eq!((theirs.new_authenticator_address, theirs.new_authenticator_pubkey), (NEW, KEYS[1].0));
    assert_eq!(theirs.old_offchain_signer_commitment, COMMITMENT.0);
    assert_eq!(theirs.new_offchain_signer_commitment, NEW_COMMITMENT.0);
    assert_eq!(theirs.signature, signature());
}

#[test]
fn remove_authenticator_agrees_with_the_published_type() {
    let ours = registry::RemoveAuthenticator {
        leaf_index: LeafIndex(1),
        authenticator_address: OLD,
        old_offchain_signer_commitment: COMMITMENT,
        new_offchain_signer_commitment: NEW_COMMITMENT,
        signature: signature().into(),
        nonce: Nonce::from(5),
        pubkey_id: PubkeyId(2),
        authenticator_pubkey: KEYS[1],
    };
    let theirs: theirs::RemoveAuthenticatorRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.pubkey_id, theirs.nonce), (1, Some(2), U256::from(5)));
    assert_eq!((theirs.authenticator_address, theirs.authenticator_pubkey), (OLD, Some(KEYS[1].0)));
    assert_eq!(theirs.old_offchain_signer_commitment, COMMITMENT.0);
    assert_eq!(theirs.new_offchain_signer_commitment, NEW_COMMITMENT.0);
    assert_eq!(theirs.signature, signature());

    let without = theirs::RemoveAuthenticatorRequest { pubkey_id: None, authenticator_pubkey: None, ..theirs };
    let body = serde_json::to_vec(&without).expect("JSON");
    let read: registry::RemoveAuthenticator = from_object(&body).expect("null is read as zero");
    assert_eq!(
        read,
        registry::RemoveAuthenticator {
            pubkey_id: PubkeyId(0),
            authenticator_pubkey: CompressedKey(U256::ZERO),
            ..ours
        }
    );
}

#[test]
fn recover_account_agrees_with_the_published_type() {
    let ours = registry::RecoverAccount {
        leaf_index: LeafIndex(1),
        new_authenticator_address: NEW,
        old_offchain_signer_commitment: COMMITMENT,
        new_offchain_signer_commitment: NEW_COMMITMENT,
        signature: signature().into(),
        nonce: Nonce::from(5),
        new_authenticator_pubkey: KEYS[1],
    };
    let theirs: theirs::RecoverAccountRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.nonce), (1, U256::from(5)));
    assert_eq!((theirs.new_authenticator_address, theirs.new_authenticator_pubkey), (NEW, Some(KEYS[1].0)));
    assert_eq!(theirs.old_offchain_signer_commitment, COMMITMENT.0);
    assert_eq!(theirs.new_offchain_signer_commitment, NEW_COMMITMENT.0);
    assert_eq!(theirs.signature, signature());

    let without = theirs::RecoverAccountRequest { new_authenticator_pubkey: None, ..theirs };
    let body = serde_json::to_vec(&without).expect("JSON");
    let read: registry::RecoverAccount = from_object(&body).expect("null is read as zero");
    assert_eq!(read, registry::RecoverAccount { new_authenticator_pubkey: CompressedKey(U256::ZERO), ..ours });
}

#[test]
fn recovery_agent_updates_agree_with_the_published_types() {
    let ours = registry::UpdateRecoveryAgent {
        leaf_index: LeafIndex(1),
        new_recovery_agent: NEW,
        signature: signature().into(),
        nonce: Nonce::from(5),
    };
    let theirs: theirs::UpdateRecoveryAgentRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.new_recovery_agent, theirs.nonce), (1, NEW, U256::from(5)));
    assert_eq!(theirs.signature, signature());

    let ours = registry::CancelRecoveryAgentUpdate {
        leaf_index: LeafIndex(1),
        signature: signature().into(),
        nonce: Nonce::from(5),
    };
    let theirs: theirs::CancelRecoveryAgentUpdateRequest = round_trip(&ours);
    assert_eq!((theirs.leaf_index, theirs.nonce, theirs.signature), (1, U256::from(5), signature()));

    let ours = registry::ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) };
    let theirs: theirs::ExecuteRecoveryAgentUpdateRequest = round_trip(&ours);
    assert_eq!(theirs.leaf_index, 1);
}

/// The kind of this crate for a published kind. The match is exhaustive, so a new published kind
/// does not compile.
fn kind(theirs: &theirs::GatewayRequestKind) -> OperationKind {
    use theirs::GatewayRequestKind as Kind;
    match theirs {
        Kind::CreateAccount => OperationKind::CreateAccount,
        Kind::UpdateAuthenticator => OperationKind::UpdateAuthenticator,
        Kind::InsertAuthenticator => OperationKind::InsertAuthenticator,
        Kind::RemoveAuthenticator => OperationKind::RemoveAuthenticator,
        Kind::UpdateRecoveryAgent => OperationKind::UpdateRecoveryAgent,
        Kind::CancelRecoveryAgentUpdate => OperationKind::CancelRecoveryAgentUpdate,
        Kind::ExecuteRecoveryAgentUpdate => OperationKind::ExecuteRecoveryAgentUpdate,
        Kind::RecoverAccount => OperationKind::RecoverAccount,
    }
}

/// The error code of this crate for a published error code; exhaustive as well.
fn code(theirs: &theirs::GatewayErrorCode) -> GatewayErrorCode {
    use theirs::GatewayErrorCode as Code;
    match theirs {
        Code::InternalServerError => GatewayErrorCode::InternalServerError,
        Code::NotFound => GatewayErrorCode::NotFound,
        Code::BadRequest => GatewayErrorCode::BadRequest,
        Code::BatcherUnavailable => GatewayErrorCode::BatcherUnavailable,
        Code::AuthenticatorAlreadyExists => GatewayErrorCode::AuthenticatorAlreadyExists,
        Code::AuthenticatorDoesNotExist => GatewayErrorCode::AuthenticatorDoesNotExist,
        Code::MismatchedSignatureNonce => GatewayErrorCode::MismatchedSignatureNonce,
        Code::PubkeyIdInUse => GatewayErrorCode::PubkeyIdInUse,
        Code::PubkeyIdOutOfBounds => GatewayErrorCode::PubkeyIdOutOfBounds,
        Code::AuthenticatorDoesNotBelongToAccount => GatewayErrorCode::AuthenticatorDoesNotBelongToAccount,
        Code::TransactionReverted => GatewayErrorCode::TransactionReverted,
        Code::ConfirmationError => GatewayErrorCode::ConfirmationError,
        Code::DuplicateRequestInFlight => GatewayErrorCode::DuplicateRequestInFlight,
        Code::RateLimitExceeded => GatewayErrorCode::RateLimitExceeded,
        Code::RequestTimeout => GatewayErrorCode::RequestTimeout,
        Code::MethodNotAvailable => GatewayErrorCode::MethodNotAvailable,
    }
}

#[test]
fn the_status_agrees_in_every_state_and_kind() {
    let tx_hash = || "0x9f2c1a0f5b8e4d7c6a3b2e1d0c9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7".to_owned();
    let failed = |error_code| GatewayRequestState::Failed { error: "ZeroAddress: why".to_owned(), error_code };
    let mut states = vec![
        GatewayRequestState::Queued,
        GatewayRequestState::Batching,
        GatewayRequestState::Submitted { tx_hash: tx_hash() },
        GatewayRequestState::Finalized { tx_hash: tx_hash() },
        failed(None),
    ];
    states.extend(GatewayErrorCode::iter().map(|code| failed(Some(code))));
    for status in states {
        let request_id = RequestId::from_random([7; 16]);
        let ours = GatewayStatusResponse { request_id, kind: OperationKind::CreateAccount, status };
        let theirs: theirs::GatewayStatusResponse = round_trip(&ours);
        assert_eq!(theirs.request_id.as_str(), request_id.to_string());
        let status = match theirs.status {
            theirs::GatewayRequestState::Queued => GatewayRequestState::Queued,
            theirs::GatewayRequestState::Batching => GatewayRequestState::Batching,
            theirs::GatewayRequestState::Submitted { tx_hash } => GatewayRequestState::Submitted { tx_hash },
            theirs::GatewayRequestState::Finalized { tx_hash } => GatewayRequestState::Finalized { tx_hash },
            theirs::GatewayRequestState::Failed { error, error_code } => {
                GatewayRequestState::Failed { error, error_code: error_code.as_ref().map(code) }
            }
        };
        assert_eq!(status, ours.status);
    }
    for ours in OperationKind::iter() {
        let theirs: theirs::GatewayRequestKind =
            serde_json::from_value(json!(ours)).expect("the published kind reads it");
        assert_eq!(kind(&theirs), ours);
    }
}

#[test]
fn gateway_errors_agree_with_the_published_type() {
    assert_eq!(GatewayErrorCode::iter().count(), 16);
    for ours in GatewayErrorCode::iter() {
        let error = gateway::ServiceApiError { code: ours, message: "nonce is 4".to_owned() };
        let theirs: theirs::ServiceApiError<theirs::GatewayErrorCode> = round_trip(&error);
        assert_eq!((code(&theirs.code), &theirs.message), (ours, &error.message));
        assert_eq!(theirs.code.to_string(), ours.to_string());
    }
}

#[test]
fn indexer_errors_agree_with_the_published_type() {
    for ours in IndexerErrorCode::iter() {
        let error = json!(gateway::ServiceApiError { code: ours, message: "no account".to_owned() });
        let theirs = serde_json::from_value::<theirs::ServiceApiError<theirs::IndexerErrorCode>>(error);
        match ours {
            // The code is not in the published list; the published client treats the whole answer
            // as a plain error.
            IndexerErrorCode::BadRequest => assert!(theirs.is_err()),
            _ => assert_eq!(theirs.expect("the code is published").code.to_string(), ours.to_string()),
        }
    }
}

#[test]
fn indexer_queries_and_answers_agree_with_the_published_types() {
    let theirs: theirs::IndexerQueryRequest = round_trip(&indexer::LeafIndexQuery { leaf_index: LeafIndex(26) });
    assert_eq!(theirs.leaf_index, 26);

    let theirs: theirs::IndexerPackedAccountRequest = round_trip(&indexer::AddressQuery { authenticator_address: OLD });
    assert_eq!(theirs.authenticator_address, OLD);

    let packed =
        registry::PackedAccount { recovery_counter: 3, pubkey_id: PubkeyId(2), leaf_index: LeafIndex(1) }.to_number();
    let theirs: theirs::IndexerPackedAccountResponse =
        round_trip(&indexer::PackedAccountResponse { packed_account_data: packed });
    assert_eq!(theirs.packed_account_data, (U256::from(3) << 224) | (U256::from(2) << 192) | U256::from(1));

    let theirs: theirs::IndexerSignatureNonceResponse =
        round_trip(&indexer::SignatureNonceResponse { signature_nonce: Nonce::from(6) });
    assert_eq!(theirs.signature_nonce, U256::from(6));

    let theirs: theirs::IndexerRecoveryAgentResponse =
        round_trip(&indexer::RecoveryAgentResponse { recovery_agent: NEW });
    assert_eq!(theirs.recovery_agent, NEW);

    let pending = indexer::PendingRecoveryAgentResponse {
        pending_recovery_agent: NEW,
        execute_after: UnixSeconds(1_800_000_000),
    };
    let theirs: theirs::IndexerPendingRecoveryAgentResponse = round_trip(&pending);
    assert_eq!((theirs.pending_recovery_agent, theirs.execute_after), (NEW, U256::from(1_800_000_000)));

    let authenticator_pubkeys = vec![Some(KEYS[0]), None, Some(CompressedKey(U256::ZERO)), None];
    let numbers = [Some(KEYS[0].0), None, Some(U256::ZERO), None];
    let keys = indexer::AuthenticatorPubkeysResponse {
        authenticator_pubkeys: authenticator_pubkeys.clone(),
        offchain_signer_commitment: COMMITMENT,
    };
    let theirs: theirs::IndexerAuthenticatorPubkeysResponse = round_trip(&keys);
    assert_eq!(theirs.authenticator_pubkeys, numbers);
    assert_eq!(theirs.offchain_signer_commitment, COMMITMENT.0);

    let authenticators = indexer::AuthenticatorsResponse {
        authenticator_pubkeys,
        authenticator_addresses: vec![Some(OLD), None, Some(NEW), None],
        offchain_signer_commitment: COMMITMENT,
        recovery_counter: u32::MAX,
    };
    let theirs: theirs::IndexerAuthenticatorsResponse = round_trip(&authenticators);
    assert_eq!(theirs.authenticator_pubkeys, numbers);
    assert_eq!(theirs.authenticator_addresses, authenticators.authenticator_addresses);
    assert_eq!((theirs.offchain_signer_commitment, theirs.recovery_counter), (COMMITMENT.0, u64::from(u32::MAX)));
}

#[test]
fn health_and_valid_roots_agree_with_the_published_types() {
    let theirs: theirs::HealthResponse = round_trip(&gateway::HealthResponse { success: true });
    assert!(theirs.success);
    for valid in [true, false] {
        let theirs: theirs::IsValidRootResponse = round_trip(&gateway::ValidRootResponse { valid });
        assert_eq!(theirs.valid, valid);
    }
}

/// An account at leaf 26 whose last slot was removed, and its path in a tree with a neighbour.
fn account_and_path() -> (Account, InclusionPath) {
    let slot = |key: usize| Some(Authenticator { address: OLD, public_key: KEYS[key] });
    let slots = vec![slot(0), None, slot(2), slot(1), None];
    let keys = decompress_slots(slots.iter().map(|slot| slot.as_ref().map(|slot| slot.public_key)))
        .expect("the numbers are keys");
    let account = Account {
        commitment: commitment(&keys),
        slots,
        recovery_agent: Address::ZERO,
        pending_recovery_agent: None,
        nonce: 0,
        recovery_counter: 0,
    };
    let mut registry = crate::ledger::MemoryRegistry::default();
    let leaves = [(LeafIndex(26), account.commitment.leaf()), (LeafIndex(27), COMMITMENT.leaf())].into();
    let Ok(TreeUpdate { pages, .. }) = update(&registry, &leaves);
    registry.pages.extend(pages);
    let Ok(path) = inclusion_path(&registry, LeafIndex(26));
    (account, path)
}

#[test]
fn the_compatible_inclusion_proof_agrees_with_the_published_type() {
    let (account, path) = account_and_path();
    let ours = CompatInclusionProofResponse::new(&path, &account.decoded_keys().expect("the numbers are keys"));
    let theirs: AccountInclusionProof<DEPTH> = round_trip(&ours);

    let leaf = FieldElement::try_from(account.commitment.0).expect("below the modulus");
    assert!(theirs.inclusion_proof.is_valid(leaf));
    assert!(!theirs.inclusion_proof.is_valid(FieldElement::from(1u64)));
    assert_eq!(theirs.inclusion_proof.leaf_index, 26);
    assert_eq!(theirs.inclusion_proof.root.to_string(), number::padded(&path.root.0));

    // The client recomputes the commitment from the keys. The set equals the set that it makes from
    // the compressed keys of the default answer.
    assert_eq!(FieldElement::from(theirs.authenticator_pubkeys.leaf_hash()), leaf);
    let numbers = account.public_keys().iter().map(|key| key.map(|key| key.0)).collect();
    let sparse = AuthenticatorPublicKeySet::from_sparse_encoded_pubkeys(numbers).expect("the numbers are keys");
    assert_eq!(theirs.authenticator_pubkeys.len(), 4, "trailing nulls are left out");
    assert_eq!(json!(theirs.authenticator_pubkeys), json!(sparse));
    assert_eq!(theirs.authenticator_pubkeys.as_affine_array(), sparse.as_affine_array());

    let without_keys = CompatInclusionProofResponse::new(&path, &[None, None]);
    let theirs: AccountInclusionProof<DEPTH> = round_trip(&without_keys);
    assert!(theirs.authenticator_pubkeys.is_empty());
}

#[test]
fn the_two_inclusion_proofs_differ_only_in_the_keys() {
    let (account, path) = account_and_path();
    let mut default_answer = json!(indexer::InclusionProofResponse::new(&path, &account));
    let mut compat =
        json!(CompatInclusionProofResponse::new(&path, &account.decoded_keys().expect("the numbers are keys")));
    assert!(serde_json::from_value::<AccountInclusionProof<DEPTH>>(default_answer.clone()).is_err());
    assert_eq!(default_answer["authenticator_pubkeys"][1], Value::Null);
    assert_eq!(default_answer["authenticator_pubkeys"].as_array().map(Vec::len), Some(5));
    for answer in [&mut default_answer, &mut compat] {
        answer["authenticator_pubkeys"] = Value::Null;
    }
    assert_eq!(default_answer, compat);
    let read: indexer::InclusionProofResponse =
        serde_json::from_value(json!(indexer::InclusionProofResponse::new(&path, &account)))
            .expect("the published type reads the answer");
    assert_eq!(read.path(), Some(path));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn both_crates_accept_the_same_numbers_as_keys(limbs: [u64; 4], masked: bool) {
        // Most numbers of 254 bits are below the modulus. About half of these have a point, and an
        // eighth of the points are keys.
        let mut number = U256::from_limbs(limbs);
        number.set_bit(254, number.bit(254) && !masked);
        number.set_bit(253, number.bit(253) && !masked);
        let (ours, theirs) = (PublicKey::decompress(CompressedKey(number)), decode_authenticator_pubkey(number));
        proptest::prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            proptest::prop_assert_eq!(ours.compress().0, number);
            proptest::prop_assert_eq!(json!(indexer::AffineKey::from(&ours)), json!(theirs));
        }
    }
}
