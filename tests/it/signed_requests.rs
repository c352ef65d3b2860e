//! Verification of requests that a relying party signs: each signed nonce is accepted once,
//! durably.

use alloy_primitives::U256;
use futures_util::future::join_all;
use selfsame::config::{Config, RelyingParty};
use selfsame_actors::Clock;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::verification::rp_signature::{SignedRequest, signed_action};
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::{Value, json};

use crate::sign_in_client::random;
use crate::test_accounts::{key, person_of};
use crate::verification_client::{DEV_APP, LEGACY_APP, VerificationClient, legacy, with};

/// The name of the key that the relying party of the example application signs with.
pub const SIGNER: &str = "a server of the application";

/// Gives the example application's relying party that key.
pub fn sign_requests(config: &mut Config, is_required: bool) {
    let party = config.relying_parties.iter_mut().find(|party| party.app_id == DEV_APP).expect("an entry");
    party.signing_key = Some(key(SIGNER).address().into());
    party.require_signed_requests = is_required;
}

fn require(config: &mut Config) {
    sign_requests(config, true);
}

/// The field `rp_signature` for a nonce, signed by the application's server.
pub fn signature(nonce: u64, created_at: u64, expires_at: u64, action: Option<&str>) -> Value {
    signature_of(SIGNER, nonce, created_at, expires_at, action)
}

/// The same with the key of this name.
pub fn signature_of(signer: &str, nonce: u64, created_at: u64, expires_at: u64, action: Option<&str>) -> Value {
    let request = SignedRequest {
        nonce: U256::from(nonce),
        created_at: UnixSeconds(created_at),
        expires_at: UnixSeconds(expires_at),
        action: action.map(signed_action),
    };
    let signature = key(signer).sign(&request.digest()).expect("a signature").to_string();
    json!({ "signature": signature, "created_at": created_at, "expires_at": expires_at })
}

impl VerificationClient {
    fn now(&self) -> u64 {
        self.daemon.clock.unix_seconds().0
    }

    /// The signature of a nonce for an action that is good for five minutes from now on.
    fn signed(&self, nonce: u64, action: &str) -> Value {
        signature(nonce, self.now(), self.now() + 300, Some(action))
    }
}

/// A proof of a person for a nonce.
fn proof(person: &str, nonce: u64, party: &SimulatedParty) -> Value {
    let nonce = Some(U256::from(nonce));
    let asked =
        ProofParameters { app_id: DEV_APP, action: "vote", signal: "", environment: Environment::Staging, nonce };
    prove::uniqueness(&person_of(person), &asked, party, &mut random()).expect("a proof")
}

fn with_signature(request: Value, signature: Value) -> Value {
    with(request, "/rp_signature", signature)
}

#[tokio::test]
async fn a_signed_nonce_is_accepted_once_also_after_a_restart() {
    let client = VerificationClient::start_with(require).await;
    let party = client.simulated().await;
    let request = with_signature(proof("alice", 7, &party), client.signed(7, "vote"));
    let answer = client.ask(DEV_APP, &request).await;
    assert_eq!((answer.status, &answer.body["message"]), (200, &json!("Proof verified successfully")), "{answer:?}");

    let used = |answer: &crate::verification_client::VerificationAnswer| {
        assert_eq!(
            (answer.status, answer.code(), &answer.body["attribute"]),
            (400, "duplicate_nonce", &json!("nonce"))
        );
    };
    used(&client.ask(DEV_APP, &request).await);
    // Another person's proof and a newer signature do not make the nonce new.
    client.daemon.clock.advance(std::time::Duration::from_secs(1));
    used(&client.ask(DEV_APP, &with_signature(proof("bob", 7, &party), client.signed(7, "vote"))).await);
    let client = client.restart_with(require).await;
    used(&client.ask(DEV_APP, &request).await);

    let next = with_signature(proof("alice", 8, &party), client.signed(8, "vote"));
    let answer = client.ask(DEV_APP, &next).await;
    assert_eq!(answer.body["message"], "Proof verified successfully (nullifier reuse)", "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_requests_with_the_same_nonce_succeeds() {
    let client = VerificationClient::start_with(require).await;
    let party = client.simulated().await;
    let signature = client.signed(9, "vote");
    let people: Vec<String> = (0..16).map(|number| format!("person {number}")).collect();
    let requests: Vec<Value> =
        people.iter().map(|person| with_signature(proof(person, 9, &party), signature.clone())).collect();
    let answers = join_all(requests.iter().map(|request| client.ask(DEV_APP, request))).await;
    let succeeded: Vec<_> = (0..16).filter(|index| answers[*index].status == 200).collect();
    assert_eq!(succeeded.len(), 1, "{answers:?}");
    assert!(answers.iter().filter(|answer| answer.status != 200).all(|answer| answer.code() == "duplicate_nonce"));
    // What was refused has left no record: each of the others is a new person.
    for person in people.iter().enumerate().filter(|(index, _)| *index != succeeded[0]).map(|(_, person)| person) {
        let nonce = 100 + person.len() as u64 * 100 + person[7..].parse::<u64>().expect("a number");
        let request = with_signature(proof(person, nonce, &party), client.signed(nonce, "vote"));
        let answer = client.ask(DEV_APP, &request).await;
        assert_eq!(answer.body["message"], "Proof verified successfully", "{person}: {answer:?}");
    }
}

#[tokio::test]
async fn signatures_are_required_and_checked_by_the_settings() {
    let client = VerificationClient::start_with(require).await;
    let party = client.simulated().await;
    let now = client.now();
    let request = || proof("alice", 7, &party);
    let of = |created_at, expires_at| signature(7, created_at, expires_at, Some("vote"));
    #[rustfmt::skip]
    let table = [
        (request(), "rp_signature_required"),
        (with_signature(request(), signature_of("a stranger", 7, now, now + 300, Some("vote"))), "invalid_rp_signature"),
        (with_signature(request(), signature(8, now, now + 300, Some("vote"))), "invalid_rp_signature"),
        (with_signature(request(), signature(7, now, now + 300, Some("another"))), "invalid_rp_signature"),
        (with_signature(request(), signature(7, now, now + 300, None)), "invalid_rp_signature"),
        (with_signature(request(), of(now - 301, now - 1)), "rp_signature_expired"),
        (with_signature(request(), of(now + 301, now + 600)), "timestamp_too_far_in_future"),
        (with_signature(request(), of(now, now)), "invalid_timestamp"),
        (with_signature(request(), of(now, now + 86_401)), "invalid_timestamp"),
    ];
    for (request, code) in table {
        let answer = client.ask(DEV_APP, &request).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{answer:?}");
        assert_eq!(answer.body["attribute"], "rp_signature");
        assert_eq!(answer.body["app_id"], DEV_APP);
    }
    let malformed = with_signature(request(), json!({ "signature": "0x12", "created_at": now, "expires_at": now + 1 }));
    let answer = client.ask(DEV_APP, &malformed).await;
    assert_eq!((answer.code(), &answer.body["attribute"]), ("validation_error", &json!("rp_signature.signature")));

    // None of these has used the nonce up, and a proof that fails does not either.
    let other = with(with_signature(request(), client.signed(7, "vote")), "/responses/0/nullifier", json!("0x1"));
    assert_eq!(client.ask(DEV_APP, &other).await.item_code(), "invalid_proof");
    let good = with_signature(request(), client.signed(7, "vote"));
    assert_eq!(client.ask(DEV_APP, &good).await.status, 200);
}

#[tokio::test]
async fn a_key_without_the_requirement_checks_the_signatures_that_come() {
    let client = VerificationClient::start_with(|config| sign_requests(config, false)).await;
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &proof("alice", 7, &party)).await.status, 200);
    let stranger = signature_of("a stranger", 7, client.now(), client.now() + 300, Some("vote"));
    assert_eq!(
        client.ask(DEV_APP, &with_signature(proof("alice", 7, &party), stranger)).await.code(),
        "invalid_rp_signature"
    );
    let signed = with_signature(proof("alice", 7, &party), client.signed(7, "vote"));
    assert_eq!(client.ask(DEV_APP, &signed).await.status, 200);
    assert_eq!(client.ask(DEV_APP, &signed).await.code(), "duplicate_nonce");
    // Without a key nothing can be checked, and nothing passes as checked.
    let answer =
        client.ask(LEGACY_APP, &with_signature(with(legacy(), "/nonce", json!("0x7")), client.signed(7, "vote"))).await;
    assert_eq!(
        (answer.code(), &answer.body["attribute"]),
        ("configuration_error", &json!("rp_signature")),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_legacy_proof_and_a_session_cannot_be_shown_again_with_a_signed_nonce() {
    let client = VerificationClient::start_with(|config| {
        require(config);
        let mut party = RelyingParty::new(LEGACY_APP, "rp_00000000000000aa".parse().expect("an id"));
        party.signing_key = Some(key(SIGNER).address().into());
        party.require_signed_requests = true;
        config.relying_parties.push(party);
    })
    .await;
    let signed = |nonce, action| signature(nonce, client.now(), client.now() + 300, action);
    let with_nonce = |nonce: &str| with(legacy(), "/nonce", json!(nonce));

    let request = with_signature(with_nonce("0x7"), signed(7, Some("verify-user")));
    assert_eq!(client.ask(LEGACY_APP, &request).await.status, 200);
    assert_eq!(client.ask(LEGACY_APP, &request).await.code(), "duplicate_nonce");
    // The proof binds no nonce, so somebody who saw it can write another into the request: without
    // the relying party's signature that is nothing.
    let replayed = with(request, "/nonce", json!("0x8"));
    assert_eq!(client.ask(LEGACY_APP, &replayed).await.code(), "invalid_rp_signature");
    // A nonce is another one for another application.
    let party = client.simulated().await;
    let other = with_signature(proof("alice", 7, &party), signed(7, Some("vote")));
    assert_eq!(client.ask(DEV_APP, &other).await.status, 200);

    let nonce = Some(U256::from(10));
    let asked = ProofParameters { app_id: DEV_APP, action: "", signal: "", environment: Environment::Staging, nonce };
    let session = prove::session(&person_of("alice"), &asked, &party, &mut random()).expect("a proof");
    let session = with_signature(session, signed(10, None));
    assert_eq!(client.ask(DEV_APP, &session).await.status, 200);
    assert_eq!(client.ask(DEV_APP, &session).await.code(), "duplicate_nonce");

    // A bound proof of uniqueness is signed with its action, as an unbound one.
    let asked = ProofParameters { action: "vote", nonce: Some(U256::from(11)), ..asked };
    let bound = prove::bound_uniqueness(&person_of("bob"), &asked, &party, &mut random()).expect("a proof");
    let of_session = with_signature(bound.clone(), signed(11, None));
    assert_eq!(client.ask(DEV_APP, &of_session).await.code(), "invalid_rp_signature");
    let of_action = with_signature(bound, signed(11, Some("vote")));
    assert_eq!(client.ask(DEV_APP, &of_action).await.status, 200);

    // Version 2 has no place for a signature.
    let answer = client.ask_version_2(LEGACY_APP, &crate::older_interface::body()).await;
    assert_eq!((answer.status, answer.code()), (400, "rp_signature_required"), "{answer:?}");
}

/// A legacy proof binds its signal, so the signal is where the nonce has to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_proof_with_another_signal_than_the_signed_nonce_is_refused_where_that_is_required() {
    let client = VerificationClient::start_with(|config| {
        let mut party = RelyingParty::new(LEGACY_APP, "rp_00000000000000aa".parse().expect("an id"));
        party.signing_key = Some(key(SIGNER).address().into());
        (party.require_signed_requests, party.require_signal_nonce) = (true, true);
        config.relying_parties.push(party);
    })
    .await;
    let signed = |request: Value, nonce: u64| {
        let request = with(request, "/nonce", json!(format!("{nonce:#066x}")));
        with_signature(request, client.signed(nonce, "vote"))
    };
    let proof = |nonce: u64| {
        let (signal, nonce) = (format!("{nonce:#066x}"), Some(U256::from(nonce)));
        let environment = Environment::Staging;
        let asked = ProofParameters { app_id: LEGACY_APP, action: "vote", signal: &signal, environment, nonce };
        prove::legacy(&person_of("alice"), &asked, &mut random()).expect("a proof")
    };
    let proved = proof(7);
    let root = json!({
        "root": proved.body["responses"][0]["merkle_root"], "kind": "legacy", "environment": "staging",
        "identifiers": ["orb"],
    });
    assert_eq!(client.post_to_operator("/roots", &root).await.0, 200);
    let answer = client.ask(LEGACY_APP, &signed(proved.body.clone(), 7)).await;
    assert_eq!((answer.status, &answer.body["message"]), (200, &json!("Proof verified successfully")), "{answer:?}");
    // The proof that somebody has seen, beside a nonce that was signed for somebody else.
    let answer = client.ask(LEGACY_APP, &signed(proved.body.clone(), 8)).await;
    let found = (answer.status, answer.code(), &answer.body["attribute"]);
    assert_eq!(found, (400, "invalid_signal", &json!("responses[0].signal_hash")), "{answer:?}");
    // The sender's word for the signal does not make it the proof's.
    let hash = proof(8).body["responses"][0]["signal_hash"].clone();
    let pretended = with(proved.body, "/responses/0/signal_hash", hash);
    assert_eq!(client.ask(LEGACY_APP, &signed(pretended, 8)).await.item_code(), "invalid_proof");
}
