//! Answers of the gateway that are not about a rule: locks of open requests, unknown ids, and the
//! order of the checks. The rules have a table of their own in `gateway_rules.rs`.

use alloy_primitives::{Address, U256};
use selfsame_protocol::ids::{LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::registry::{InsertAuthenticator, Operation};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, UNSIGNED, create_account, sign};
use serde_json::json;

use crate::harness::{TestDaemon, folder};
use crate::registry_client::{RegistryClient, hold};
use crate::test_accounts::key;

/// The operation that adds `new` in slot 1 of `account`.
fn insert(
    client: &RegistryClient,
    account: &AccountState,
    key: &AuthenticatorKey,
    new: &AuthenticatorKey,
) -> InsertAuthenticator {
    let step = account.insert(&client.domain(), key, new.authenticator(), PubkeyId(1));
    match step.expect("a valid operation").operation {
        Operation::InsertAuthenticator(operation) => operation,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn open_requests_hold_their_locks_until_they_are_final() {
    let client = RegistryClient::start_holding(2).await;
    let domain = client.domain();
    let [alice, bob, tablet, stranger] = ["alice", "bob", "tablet", "stranger"].map(key);
    let [alices, bobs] = client.create_pair([&alice, &bob]).await;
    let insert = insert(&client, &alices, &alice, &tablet).into();
    let first = client.submit(&insert).await;
    assert_eq!(first.status, 200, "{first:?}");
    let request_id = first.request_id();
    assert_eq!(
        client.submit(&insert).await.expect_error(400, "duplicate_request_in_flight"),
        format!("request {request_id} asks for the same and is still open; follow its status")
    );
    let agent = alices.update_recovery_agent(&domain, &alice, stranger.address()).expect("a valid operation").operation;
    assert_eq!(
        client.submit(&agent).await.expect_error(400, "duplicate_request_in_flight"),
        format!("another open request holds leaf index {:#x}; try again when it is final", alices.leaf_index)
    );
    let create = create_account(&[stranger.authenticator(), tablet.authenticator()], Address::ZERO).operation;
    assert_eq!(
        client.submit(&create).await.expect_error(400, "duplicate_request_in_flight"),
        format!("another open request holds address {:#x}; try again when it is final", tablet.address())
    );

    // A second request fills the block. With the final states the locks are free.
    let other = bobs.update_recovery_agent(&domain, &bob, stranger.address()).expect("a valid operation").operation;
    assert_eq!(client.submit(&other).await.status, 200);
    assert_eq!(client.final_state(request_id).await["state"], "finalized");
    let alices = AccountState { nonce: Nonce(U256::ONE), ..alices };
    let agent = alices.update_recovery_agent(&domain, &alice, stranger.address()).expect("a valid operation").operation;
    assert_eq!(client.submit(&agent).await.status, 200);
}

#[tokio::test]
async fn a_request_that_fails_later_says_why() {
    let folder = folder();
    let http = reqwest::Client::new();
    let two = ["alice", "tablet"].map(|name| key(name).authenticator());
    let operation = create_account(&two, Address::ZERO).operation;
    let daemon = TestDaemon::start_with(folder.path(), |config| hold(config, 2)).await;
    let accepted = http.post(daemon.gateway("/create-account")).json(&operation).send().await.expect("an answer");
    let accepted: serde_json::Value = accepted.json().await.expect("JSON");
    let request_id = accepted["request_id"].as_str().expect("accepted");
    daemon.stop().await;

    // The next start allows one authenticator only: the request was valid when it was admitted, and
    // breaks a rule now.
    let daemon = TestDaemon::start_with(folder.path(), |config| config.registry.max_authenticators = 1).await;
    let status = http.get(daemon.gateway(&format!("/status/{request_id}?wait=60"))).send().await.expect("an answer");
    let status: serde_json::Value = status.json().await.expect("JSON");
    let error = "PubkeyIdOutOfBounds: pubkey id 1 is out of bounds; an account has 1 slots, counted from 0";
    assert_eq!(
        status,
        json!({
            "request_id": request_id,
            "kind": "create_account",
            "status": {"state": "failed", "error": error, "error_code": "pubkey_id_out_of_bounds"},
        })
    );
    let receipt = http.get(daemon.gateway(&format!("/receipt/{request_id}"))).send().await.expect("an answer");
    let receipt: serde_json::Value = receipt.json().await.expect("JSON");
    let outcome = &receipt["outcome"];
    assert_eq!((&outcome["outcome"], &outcome["rule"]), (&json!("failed"), &json!("PubkeyIdOutOfBounds")));
    assert_eq!(outcome["code"], "pubkey_id_out_of_bounds");
}

#[tokio::test]
async fn missing_operations_are_refused_and_unknown_ids_are_not_found() {
    let client = RegistryClient::start().await;
    for body in ["{}", "", "not JSON", r#"{"leaf_index":"0x1","signature":"0x","nonce":"0x0"}"#] {
        for (path, instead) in [
            (
                "update-recovery-agent",
                "/initiate-recovery-agent-update, and /execute-recovery-agent-update after the cooldown",
            ),
            ("revert-recovery-agent-update", "/cancel-recovery-agent-update while the update is pending"),
        ] {
            let answer = client.post(client.daemon.gateway(&format!("/{path}")), body).await;
            let message = format!("the registry's rules (v1) have no {path}; use {instead}");
            assert_eq!(answer.expect_error(501, "method_not_available"), message);
        }
    }
    let unknown = "gw_00000000-0000-4000-8000-000000000000";
    let hash = format!("0x{}", "0".repeat(64));
    let table = [
        (format!("/status/{unknown}"), format!("no request {unknown} is known")),
        (format!("/status/{unknown}?wait=60"), format!("no request {unknown} is known")),
        ("/status/gw_1".to_owned(), "request_id: not a request id; write gw_ and a UUID".to_owned()),
        ("/status/%00".to_owned(), "request_id: not a request id; write gw_ and a UUID".to_owned()),
        (format!("/receipt/{unknown}"), format!("request {unknown} is unknown, or not in an applied block yet")),
        ("/receipt/x".to_owned(), "request_id: not a request id; write gw_ and a UUID".to_owned()),
        ("/block/0".to_owned(), "the ledger has no block 0".to_owned()),
        ("/block/1".to_owned(), "the ledger has no block 1".to_owned()),
        ("/block/18446744073709551615".to_owned(), "the ledger has no block 18446744073709551615".to_owned()),
        (format!("/block/{hash}"), format!("the ledger has no block {hash}")),
        ("/nowhere".to_owned(), "nothing is served at /nowhere".to_owned()),
        ("/".to_owned(), "nothing is served at /".to_owned()),
        ("/create-account/".to_owned(), "nothing is served at /create-account/".to_owned()),
    ];
    for (path, message) in table {
        assert_eq!(client.get(client.daemon.gateway(&path)).await.expect_error(404, "not_found"), message, "{path}");
    }
    for (path, field) in [
        ("/block/latest", "block: "),
        ("/block/-1", "block: "),
        ("/block/18446744073709551616", "block: "),
        ("/is-valid-root", "root: the query parameter is missing"),
        ("/is-valid-root?root=", "root: the numeric string is empty"),
        ("/is-valid-root?root=0xz", "root: `z` is not a hex digit"),
    ] {
        let answer = client.get(client.daemon.gateway(path)).await;
        assert!(answer.expect_error(400, "bad_request").starts_with(field), "{answer:?}");
    }
}

#[tokio::test]
async fn the_first_error_in_the_order_of_checks_is_answered() {
    let client = RegistryClient::start().await;
    let [alice, tablet] = ["alice", "tablet"].map(key);
    let alices = client.create(&[&alice], Address::ZERO).await;
    let url = || client.daemon.gateway("/insert-authenticator");

    // The order is size, content type, JSON, fields.
    let as_text = |body: String| client.http.post(url()).header("content-type", "text/plain").body(body);
    client.send(as_text("x".repeat(64 * 1024 + 1))).await.expect_error(413, "bad_request");
    client.send(as_text("{".to_owned())).await.expect_error(415, "bad_request");
    let answer = client.post(url(), r#"{"leaf_index":5"#).await;
    assert!(answer.expect_error(400, "bad_request").starts_with("the body is not valid JSON"), "{answer:?}");

    // The order is fields, rules that need no state, signature, rules on the state.
    let good = insert(&client, &alices, &alice, &tablet);
    let mut body = json!(InsertAuthenticator {
        leaf_index: LeafIndex(0),
        pubkey_id: PubkeyId(7),
        signature: UNSIGNED,
        ..good.clone()
    });
    body["nonce"] = json!(1);
    for (fault, mended, with) in [
        ("nonce: invalid type: integer `1`", "nonce", json!("0x9")),
        ("leaf_index: leaf 0 is reserved", "leaf_index", json!("0x1")),
        ("PubkeyIdOutOfBounds: pubkey id 7", "pubkey_id", json!("0x0")),
        ("ECDSAInvalidSignature: ", "signature", json!(good.signature)),
        ("PubkeyIdInUse: slot 0", "pubkey_id", json!("0x1")),
        ("AuthenticatorDoesNotExist: ", "nonce", json!("0x0")),
    ] {
        let answer = client.post(url(), body.to_string()).await;
        assert!(answer.text("message").starts_with(fault), "{fault}: {answer:?}");
        body[mended] = with;
    }
    assert_eq!(client.post(url(), body.to_string()).await.status, 200);
}

#[tokio::test]
async fn signatures_are_checked_before_locks_and_locks_before_the_state() {
    let client = RegistryClient::start_holding(2).await;
    let domain = client.domain();
    let [alice, bob, tablet] = ["alice", "bob", "tablet"].map(key);
    let [alices, _] = client.create_pair([&alice, &bob]).await;
    let good = insert(&client, &alices, &alice, &tablet);
    assert_eq!(client.submit(&good.clone().into()).await.status, 200);
    let both = InsertAuthenticator { nonce: Nonce(U256::from(9)), signature: UNSIGNED, ..good };
    let answer = client.submit(&both.clone().into()).await;
    assert!(answer.expect_error(400, "bad_request").starts_with("ECDSAInvalidSignature: "), "{answer:?}");
    let signed = sign(&domain, both.into(), &alice).expect("signed");
    client.submit(&signed).await.expect_error(400, "duplicate_request_in_flight");
}
