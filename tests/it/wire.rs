//! The published types of the registry's interfaces against the running service: they decode its
//! answers, and it accepts what they serialize.

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

use crate::registry_client::{RegistryClient, route};
use crate::test_accounts::key;

/// Sends what a published type serializes, and decodes the answer as another published type.
async fn call<Answer: DeserializeOwned>(client: &RegistryClient, url: String, request: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(request).expect("JSON");
    let answer =
        client.http.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await.expect("an answer");
    answer.json().await.expect("the published type decodes it")
}

async fn get<Answer: DeserializeOwned>(client: &RegistryClient, url: String) -> Answer {
    client.http.get(url).send().await.expect("an answer").json().await.expect("the published type decodes it")
}

fn signature(of: &selfsame_protocol::signature::Signature) -> alloy_primitives::Signature {
    alloy_primitives::Signature::from_raw_array(&of.0).expect("a signature")
}

/// Submits an operation as the published types write it and waits for its final state.
async fn carry_out(client: &RegistryClient, step: Result<Step, OperationError>) -> AccountState {
    let Step { operation, after } = step.expect("a valid operation");
    let url = client.daemon.gateway(route(operation.kind()));
    let accepted: theirs::GatewayStatusResponse = match &operation {
        Operation::CreateAccount(ours) => {
            let request = theirs::CreateAccountRequest {
                recovery_address: (!ours.recovery_address.is_zero()).then_some(ours.recovery_address),
                authenticator_addresses: ours.authenticator_addresses.clone(),
                authenticator_pubkeys: ours.authenticator_pubkeys.iter().map(|key| key.0).collect(),
                offchain_signer_commitment: ours.offchain_signer_commitment.0,
            };
            call(client, url, &request).await
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
            call(client, url, &request).await
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
            call(client, url, &request).await
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
            call(client, url, &request).await
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
            call(client, url, &request).await
        }
        Operation::UpdateRecoveryAgent(ours) => {
            let request = theirs::UpdateRecoveryAgentRequest {
                leaf_index: ours.leaf_index.0,
                new_recovery_agent: ours.new_recovery_agent,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
            };
            call(client, url, &request).await
        }
        Operation::CancelRecoveryAgentUpdate(ours) => {
            let request = theirs::CancelRecoveryAgentUpdateRequest {
                leaf_index: ours.leaf_index.0,
                signature: signature(&ours.signature),
                nonce: ours.nonce.0,
            };
            call(client, url, &request).await
        }
        Operation::ExecuteRecoveryAgentUpdate(ours) => {
            let request = theirs::ExecuteRecoveryAgentUpdateRequest { leaf_index: ours.leaf_index.0 };
            call(client, url, &request).await
        }
    };
    assert_eq!(json!(accepted.kind), json!(operation.kind()));
    assert!(matches!(accepted.status, theirs::GatewayRequestState::Queued), "{accepted:?}");
    let bare = accepted.request_id.as_str_without_prefix();
    let status = client.daemon.gateway(&format!("/status/{bare}?wait=60"));
    let done: theirs::GatewayStatusResponse = get(client, status).await;
    assert_eq!(done.request_id, accepted.request_id);
    assert!(matches!(done.status, theirs::GatewayRequestState::Finalized { .. }), "{done:?}");
    after
}

#[tokio::test]
async fn published_types_exchange_all_kinds_of_requests() {
    let client =
        RegistryClient::start_with(|config| config.registry.recovery_agent_update_cooldown = Default::default()).await;
    let domain = client.domain();
    let [alice, tablet, phone, agent, other] = ["alice", "tablet", "phone", "agent", "other"].map(key);
    let account = carry_out(&client, Ok(create_account(&[alice.authenticator()], agent.address()))).await;
    let account = AccountState { leaf_index: LeafIndex(1), ..account };
    let account = carry_out(&client, account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(1))).await;
    let account = carry_out(&client, account.update(&domain, &alice, phone.authenticator())).await;
    let account = carry_out(&client, account.update_recovery_agent(&domain, &phone, other.address())).await;

    let query = theirs::IndexerQueryRequest { leaf_index: 1 };
    let indexer = |path: &str| client.daemon.indexer(path);
    let pending: theirs::IndexerPendingRecoveryAgentResponse =
        call(&client, indexer("/pending-recovery-agent"), &query).await;
    assert_eq!(pending.pending_recovery_agent, other.address());
    assert_eq!(pending.execute_after, U256::from(crate::harness::START.as_secs()));

    let account = carry_out(&client, account.cancel_recovery_agent_update(&domain, &phone)).await;
    let account = carry_out(&client, account.update_recovery_agent(&domain, &phone, other.address())).await;
    let account = carry_out(&client, Ok(account.execute_recovery_agent_update())).await;
    let account = carry_out(&client, account.remove(&domain, &phone, tablet.address())).await;

    let nonce: theirs::IndexerSignatureNonceResponse = call(&client, indexer("/signature-nonce"), &query).await;
    assert_eq!(nonce.signature_nonce, account.nonce.0);
    let keys: theirs::IndexerAuthenticatorPubkeysResponse =
        call(&client, indexer("/authenticator-pubkeys"), &query).await;
    assert_eq!(keys.authenticator_pubkeys, [Some(phone.authenticator().compressed_key().0), None]);
    assert_eq!(keys.offchain_signer_commitment, account.commitment.0);
    let authenticators: theirs::IndexerAuthenticatorsResponse = call(&client, indexer("/authenticators"), &query).await;
    assert_eq!(authenticators.authenticator_addresses, [Some(phone.address()), None]);
    assert_eq!(authenticators.recovery_counter, 0);
    let recovery: theirs::IndexerRecoveryAgentResponse = call(&client, indexer("/recovery-agent"), &query).await;
    assert_eq!(recovery.recovery_agent, other.address());

    let account = carry_out(&client, account.recover(&domain, &other, alice.authenticator())).await;
    let request = theirs::IndexerPackedAccountRequest { authenticator_address: alice.address() };
    let packed: theirs::IndexerPackedAccountResponse = call(&client, indexer("/packed-account"), &request).await;
    assert_eq!(packed.packed_account_data, (U256::ONE << 224) | U256::ONE);
    let proof: AccountInclusionProof<30> = call(&client, indexer("/compat/inclusion-proof"), &query).await;
    let leaf = FieldElement::try_from(account.commitment.0).expect("below the modulus");
    assert!(proof.inclusion_proof.is_valid(leaf));
    assert_eq!(proof.authenticator_pubkeys.len(), 1);

    let root = proof.inclusion_proof.root.to_string();
    let valid: theirs::IsValidRootResponse =
        get(&client, client.daemon.gateway(&format!("/is-valid-root?root={root}"))).await;
    assert!(valid.valid);
    for url in [client.daemon.gateway("/health"), indexer("/health"), indexer("/compat/health")] {
        let health: theirs::HealthResponse = get(&client, url).await;
        assert!(health.success);
    }
}

#[tokio::test]
async fn published_types_decode_the_errors() {
    type GatewayError = theirs::ServiceApiError<theirs::GatewayErrorCode>;
    type IndexerError = theirs::ServiceApiError<theirs::IndexerErrorCode>;
    let client = RegistryClient::start().await;
    let no_keys = theirs::CreateAccountRequest {
        recovery_address: None,
        authenticator_addresses: (1..9).map(Address::repeat_byte).collect(),
        authenticator_pubkeys: vec![U256::ONE; 8],
        offchain_signer_commitment: U256::ONE,
    };
    let error: GatewayError = call(&client, client.daemon.gateway("/create-account"), &no_keys).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::PubkeyIdOutOfBounds), "{error:?}");
    let error: GatewayError = call(&client, client.daemon.gateway("/create-account"), &json!([])).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::BadRequest), "{error:?}");
    let error: GatewayError = get(&client, client.daemon.gateway("/status/gw_x")).await;
    assert!(matches!(error.code, theirs::GatewayErrorCode::NotFound), "{error:?}");

    let indexer = |path: &str| client.daemon.indexer(path);
    let zero = theirs::IndexerQueryRequest { leaf_index: 0 };
    let one = theirs::IndexerQueryRequest { leaf_index: 1 };
    let error: IndexerError = call(&client, indexer("/signature-nonce"), &zero).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::InvalidLeafIndex), "{error:?}");
    let error: IndexerError = call(&client, indexer("/signature-nonce"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::AccountDoesNotExist), "{error:?}");
    let error: IndexerError = call(&client, indexer("/authenticators"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::NotFound), "{error:?}");

    // A key that is not a point: the published indexer's code for it, under the published client's
    // prefix.
    let odd = Authenticator { address: Address::repeat_byte(1), ..key("alice").authenticator() };
    let Operation::CreateAccount(create) = create_account(&[odd], Address::ZERO).operation else { unreachable!() };
    let create =
        selfsame_protocol::registry::CreateAccount { authenticator_pubkeys: vec![CompressedKey(U256::MAX)], ..create };
    let accepted = client.submit(&create.into()).await;
    client.final_state(accepted.request_id()).await;
    let error: IndexerError = call(&client, indexer("/compat/inclusion-proof"), &one).await;
    assert!(matches!(error.code, theirs::IndexerErrorCode::InvalidAuthenticatorPubkey), "{error:?}");
}
