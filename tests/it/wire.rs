//! The published types of the registry's interfaces against the running service: what it answers they decode, what they
//! serialize it accepts.

use alloy_primitives::{Address, U256};
use reqwest::header::CONTENT_TYPE;
use selfsame_protocol::ids::{CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::registry::Operation;
use selfsame_wallet::keys::Authenticator;
use selfsame_wallet::operations::{AccountState, OperationError, Step, create_account};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use world_id_primitives::merkle::AccountInclusionProof;
use world_id_primitives::{FieldElement, api_types as theirs};

use crate::calls::{Caller, route};
use crate::people::key;

/// Sends what a published type serializes, decodes the answer as another.
async fn call<Answer: DeserializeOwned>(caller: &Caller, url: String, request: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(request).expect("JSON");
    let answer =
        caller.http.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await.expect("an answer");
    answer.json().await.expect("the published type reads it")
}

async fn get<Answer: DeserializeOwned>(caller: &Caller, url: String) -> Answer {
    caller.http.get(url).send().await.expect("an answer").json().await.expect("the published type reads it")
}

fn signature(of: &selfsame_protocol::signature::Signature) -> alloy_primitives::Signature {
    alloy_primitives::Signature::from_raw_array(&of.0).expect("a signature")
}

/// Submits an operation as the published types write it and follows it to its end.
async fn carry_out(caller: &Caller, step: Result<Step, OperationError>) -> AccountState {
    let Step { operation, after } = step.expect("built");
    let url = caller.daemon.gateway(route(operation.kind()));
    let accepted: theirs::GatewayStatusResponse = match &operation {
        Operation::CreateAccount(ours) => {
            let request = theirs::CreateAccountRequest {
                recovery_address: (!ours.recovery_address.is_zero()).then_some(ours.recovery_address),
                authenticator_addresses: ours.authenticator_addresses.clone(),
                authenticator_pubkeys: ours.authenticator_pubkeys.iter().map(|key| key.0).collect(),
                offchain_signer_commitment: ours.offchain_signer_commitment.0,
            };
            call(caller, url, &request).await
        }
        Operation::UpdateAuthenticator(ours) => {
            let request = theirs::UpdateAuthenticatorRequest {
                leaf_index: ours.leaf_index.0,
                old_authenticator_address: ours.old_authenticator_address,
                new_authenticator_address: ours.new_authenticator_address,
                old_offchain_signer_commitment: ours.old_offchain_signer_commitment.0,
                new_offchain_signer_commitment: ours.new_offchain_signer_commitment.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
                pubkey_id: ours.pubkey_id.0,
                new_authenticator_pubkey: ours.new_authenticator_pubkey.0,
            };
            call(caller, url, &request).await
        }
        Operation::InsertAuthenticator(ours) => {
            let request = theirs::InsertAuthenticatorRequest {
                leaf_index: ours.leaf_index.0,
                new_authenticator_address: ours.new_authenticator_address,
                old_offchain_signer_commitment: ours.old_offchain_signer_commitment.0,
                new_offchain_signer_commitment: ours.new_offchain_signer_commitment.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
                pubkey_id: ours.pubkey_id.0,
                new_authenticator_pubkey: ours.new_authenticator_pubkey.0,
            };
            call(caller, url, &request).await
        }
        Operation::RemoveAuthenticator(ours) => {
            let request = theirs::RemoveAuthenticatorRequest {
                leaf_index: ours.leaf_index.0,
                authenticator_address: ours.authenticator_address,
                old_offchain_signer_commitment: ours.old_offchain_signer_commitment.0,
                new_offchain_signer_commitment: ours.new_offchain_signer_commitment.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
                pubkey_id: Some(ours.pubkey_id.0),
                authenticator_pubkey: Some(ours.authenticator_pubkey.0),
            };
            call(caller, url, &request).await
        }
        Operation::RecoverAccount(ours) => {
            let request = theirs::RecoverAccountRequest {
                leaf_index: ours.leaf_index.0,
                new_authenticator_address: ours.new_authenticator_address,
                old_offchain_signer_commitment: ours.old_offchain_signer_commitment.0,
                new_offchain_signer_commitment: ours.new_offchain_signer_commitment.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
                new_authenticator_pubkey: Some(ours.new_authenticator_pubkey.0),
            };
            call(caller, url, &request).await
        }
        Operation::UpdateRecoveryAgent(ours) => {
            let request = theirs::UpdateRecoveryAgentRequest {
                leaf_index: ours.leaf_index.0,
                new_recovery_agent: ours.new_recovery_agent,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
            };
            call(caller, url, &request).await
        }
        Operation::CancelRecoveryAgentUpdate(ours) => {
            let request = theirs::CancelRecoveryAgentUpdateRequest {
                leaf_index: ours.leaf_index.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
            };
            call(caller, url, &request).await
        }
        Operation::ExecuteRecoveryAgentUpdate(ours) => {
            let request = theirs::ExecuteRecoveryAgentUpdateRequest { leaf_index: ours.leaf_index.0 };
            call(caller, url, &request).await
        }
    };
    assert_eq!(json!(accepted.kind), json!(operation.kind()));
    assert!(matches!(accepted.status, theirs::GatewayRequestState::Queued), "{accepted:?}");
    let bare = accepted.request_id.as_str_without_prefix();
    let status = caller.daemon.gateway(&format!("/status/{bare}?wait=60"));
    let done: theirs::GatewayStatusResponse = get(caller, status).await;
    assert_eq!(done.request_id, accepted.request_id);
    assert!(matches!(done.status, theirs::GatewayRequestState::Finalized { .. }), "{done:?}");
    after
}

#[tokio::test]
async fn all_kinds_of_requests_and_answers() {
    let caller = Caller::start_with(|config| config.registry.recovery_agent_update_cooldown = Default::default()).await;
    let domain = caller.domain();
    let [alice, tablet, phone, agent, other] = ["alice", "tablet", "phone", "agent", "other"].map(key);
    let account = carry_out(&caller, Ok(create_account(&[alice.authenticator()], agent.address()))).await;
    let account = AccountState { leaf_index: LeafIndex(1), ..account };
    let account = carry_out(&caller, account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1))).await;
    let account = carry_out(&caller, account.update(&domain, &alice, phone.authenticator())).await;
    let account = carry_out(&caller, account.update_recovery_agent(&domain, &phone, other.address())).await;

    let query = theirs::IndexerQueryRequest { leaf_index: 1 };
    let indexer = |path: &str| caller.daemon.indexer(path);
    let pending: theirs::IndexerPendingRecoveryAgentResponse =
        call(&caller, indexer("/pending-recovery-agent"), &query).await;
    assert_eq!(pending.pending_recovery_agent, other.address());
    assert_eq!(pending.execute_after, U256::from(crate::harness::START.as_secs()));

    let account = carry_out(&caller, account.cancel_recovery_agent_update(&domain, &phone)).await;
    let account = carry_out(&caller, account.update_recovery_agent(&domain, &phone, other.address())).await;
    let account = carry_out(&caller, Ok(account.execute_recovery_agent_update())).await;
    let account = carry_out(&caller, account.remove(&domain, &phone, tablet.address())).await;

    let nonce: theirs::IndexerSignatureNonceResponse = call(&caller, indexer("/signature-nonce"), &query).await;
    assert_eq!(nonce.signature_nonce, account.nonce.0);
    let keys: theirs::IndexerAuthenticatorPubkeysResponse =
        call(&caller, indexer("/authenticator-pubkeys"), &query).await;
    assert_eq!(keys.authenticator_pubkeys, [Some(phone.authenticator().compressed_key().0), None]);
    assert_eq!(keys.offchain_signer_commitment, account.commitment.0);
    let authenticators: theirs::IndexerAuthenticatorsResponse = call(&caller, indexer("/authenticators"), &query).await;
    assert_eq!(authenticators.authenticator_addresses, [Some(phone.address()), None]);
    assert_eq!(authenticators.recovery_counter, 0);
    let recovery: theirs::IndexerRecoveryAgentResponse = call(&caller, indexer("/recovery-agent"), &query).await;
    assert_eq!(recovery.recovery_agent, other.address());

    let account = carry_out(&caller, account.recover(&domain, &other, alice.authenticator())).await;
    let request = theirs::IndexerPackedAccountRequest { authenticator_address: alice.address() };
    let packed: theirs::IndexerPackedAccountResponse = call(&caller, indexer("/packed-account"), &request).await;
    assert_eq!(packed.packed_account_data, (U256::ONE << 224) | U256::ONE);
    let proof: AccountInclusionProof<30> = call(&caller, indexer("/compat/inclusion-proof"), &query).await;
    let leaf = FieldElement::try_from(account.commitment.0).expect("below the modulus");
    assert!(proof.inclusion_proof.is_valid(leaf));
    assert_eq!(proof.authenticator_pubkeys.len(), 1);

    let root = proof.inclusion_proof.root.to_string();
    let valid: theirs::IsValidRootResponse =
        get(&caller, caller.daemon.gateway(&format!("/is-valid-root?root={root}"))).await;
    assert!(valid.valid);
    for url in [caller.daemon.gateway("/health"), indexer("/health"), indexer("/compat/health")] {
        let health: theirs::HealthResponse = get(&caller, url).await;
        assert!(health.success);
    }
}

#[tokio::test]
async fn errors() {
    type GatewayError = theirs::ServiceApiError<theirs::GatewayErrorCode>;
    type IndexerError = theirs::ServiceApiError<theirs::IndexerErrorCode>;
    let caller = Caller::start().await;
    let nobody = theirs::CreateAccountRequest {
        recovery_address: None,
        authenticator_addresses: (1..9).map(Address::repeat_byte).collect(),
        authenticator_pubkeys: vec![U256::ONE; 8],
        offchain_signer_commitment: U256::ONE,
    };
    let error: GatewayError = call(&caller, caller.daemon.gateway("/create-account"), &nobody).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::PubkeyIdOutOfBounds), "{error:?}");
    let error: GatewayError = call(&caller, caller.daemon.gateway("/create-account"), &json!([])).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::BadRequest), "{error:?}");
    let error: GatewayError = get(&caller, caller.daemon.gateway("/status/gw_x")).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::NotFound), "{error:?}");

    let indexer = |path: &str| caller.daemon.indexer(path);
    let zero = theirs::IndexerQueryRequest { leaf_index: 0 };
    let one = theirs::IndexerQueryRequest { leaf_index: 1 };
    let error: IndexerError = call(&caller, indexer("/signature-nonce"), &zero).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::InvalidLeafIndex), "{error:?}");
    let error: IndexerError = call(&caller, indexer("/signature-nonce"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::AccountDoesNotExist), "{error:?}");
    let error: IndexerError = call(&caller, indexer("/authenticators"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::NotFound), "{error:?}");

    // A key that is no point: the published indexer's code for it, under the published client's prefix.
    let odd = Authenticator { address: Address::repeat_byte(1), ..key("alice").authenticator() };
    let Operation::CreateAccount(create) = create_account(&[odd], Address::ZERO).operation else { unreachable!() };
    let create =
        selfsame_protocol::registry::CreateAccount { authenticator_pubkeys: vec![CompressedKey(U256::MAX)], ..create };
    let accepted = caller.submit(&create.into()).await;
    caller.final_state(accepted.request_id()).await;
    let error: IndexerError = call(&caller, indexer("/compat/inclusion-proof"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::InvalidAuthenticatorPubkey), "{error:?}");
}
