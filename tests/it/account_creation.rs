//! Who may create accounts, against clients that try to create more than they may.

use std::time::Duration;

use alloy_primitives::Address;
use selfsame::config::{CreateAccount, RateLimit, SecretHash};
use selfsame_protocol::proof_of_work::ProofOfWork;
use selfsame_protocol::registry::Operation;
use selfsame_protocol::time::UnixSeconds;
use selfsame_wallet::operations::{AccountState, create_account};

use crate::harness::START;
use crate::registry_client::{RegistryAnswer, RegistryClient};
use crate::test_accounts::key;

const DIFFICULTY: u32 = 10;

/// Posts a creation with these headers.
async fn create(client: &RegistryClient, operation: &Operation, headers: &[(&str, &str)]) -> RegistryAnswer {
    let mut request = client.http.post(client.daemon.gateway("/create-account")).json(operation);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request).await
}

/// The address of an account is free again when its owner replaces the authenticator, so the same
/// creation can be submitted again.
#[tokio::test]
async fn a_proof_of_work_creates_one_account() {
    let client = RegistryClient::start_with(|config| {
        config.registry.create_account = CreateAccount::ProofOfWork;
        config.registry.create_account_difficulty = DIFFICULTY;
    })
    .await;
    let [alice, bob] = ["alice", "bob"].map(key);
    let creation = create_account(&[alice.authenticator()], Address::ZERO);
    let body = serde_json::to_string(&creation.operation).expect("JSON");
    let solve = |seconds: u64| {
        let time = UnixSeconds(START.as_secs() + seconds);
        ProofOfWork::solve(&client.domain(), body.as_bytes(), DIFFICULTY, time).to_string()
    };
    let (first, second) = (solve(0), solve(1));
    let with_key = [("proof-of-work", first.as_str()), ("idempotency-key", "1")];
    let accepted = create(&client, &creation.operation, &with_key).await;
    assert_eq!(accepted.status, 200, "{accepted:?}");
    client.final_state(accepted.request_id()).await;
    let account = AccountState { leaf_index: client.leaf_index(alice.address()).await, ..creation.after };
    client.carry_out(account.update(&client.domain(), &alice, bob.authenticator())).await;

    for headers in [&[("proof-of-work", first.as_str())][..], &[with_key[0], ("idempotency-key", "2")]] {
        let again = create(&client, &creation.operation, headers).await;
        let message = again.expect_error(400, "bad_request");
        assert!(message.starts_with("ProofOfWorkRequired: this proof of work was used"), "{message}");
    }
    let repeated = create(&client, &creation.operation, &with_key).await;
    assert_eq!((repeated.status, repeated.request_id()), (200, accepted.request_id()), "the same request");
    let other = create(&client, &creation.operation, &[("proof-of-work", &second)]).await;
    assert_eq!(other.status, 200, "{other:?}");
}

#[tokio::test]
async fn the_description_names_the_headers_of_a_creation() {
    let client = RegistryClient::start().await;
    let description = client.get(client.daemon.gateway("/openapi.json")).await.body;
    let parameters = &description["paths"]["/create-account"]["post"]["parameters"];
    let names: Vec<_> = parameters.as_array().expect("a list").iter().map(|parameter| &parameter["name"]).collect();
    for name in ["Idempotency-Key", "Proof-Of-Work"] {
        assert!(names.iter().any(|named| *named == name), "{name} is not among {names:?}");
    }
}

#[tokio::test]
async fn a_creation_token_cannot_be_guessed_without_end() {
    let client = RegistryClient::start_with(|config| {
        config.registry.create_account = CreateAccount::Token;
        config.registry.create_account_token_hash = Some(SecretHash::of([3; 16], "the token"));
        config.limits.per_source = Some(RateLimit { requests: 3, window: Duration::from_secs(60) });
    })
    .await;
    let operation = create_account(&[key("alice").authenticator()], Address::ZERO).operation;
    for guess in ["Bearer a", "Bearer b", "Basic the token"] {
        assert_eq!(create(&client, &operation, &[("authorization", guess)]).await.status, 401);
    }
    for guess in ["Bearer c", "Bearer the token"] {
        let refused = create(&client, &operation, &[("authorization", guess)]).await;
        refused.expect_error(429, "rate_limit_exceeded");
    }
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(create(&client, &operation, &[("authorization", "Bearer the token")]).await.status, 200);
}
