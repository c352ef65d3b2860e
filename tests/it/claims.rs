//! What answers and tokens say about persons: which credential a proof shows, how often a person
//! counts, and which roots and keys are trusted.

use std::time::{Duration, UNIX_EPOCH};

use selfsame::config::{Config, ProductionKey, RelyingParty, StagingKey};
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind};
use selfsame_wallet::operator::{Operator, OperatorError};
use selfsame_wallet::prove::{self, LegacyRequest, ProofParameters};
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{START, TestDaemon, folder, write_secret};
use crate::sign_in_client::{SignInTestClient, fragment_or_query, random, wanted};
use crate::test_accounts::person_of;
use crate::verification_client::{
    DEV_APP, LEGACY_APP, SESSION_PARTY, VerificationClient, legacy, legacy_vector, recorded_configuration, session,
    uniqueness, with,
};

const VERIFIED: &str = "Proof verified successfully";
const VERIFIED_AGAIN: &str = "Proof verified successfully (nullifier reuse)";

#[tokio::test]
async fn a_legacy_proof_is_for_the_credential_of_its_root_only() {
    let client = VerificationClient::start().await;
    for identifier in LegacyIdentifier::ALL {
        let request = with(legacy(), "/responses/0/identifier", json!(identifier.name()));
        let answer = client.ask(LEGACY_APP, &request).await;
        if identifier == LegacyIdentifier::Orb {
            assert_eq!(answer.body["message"], VERIFIED, "{answer:?}");
            continue;
        }
        assert_eq!(answer.item_code(), "invalid_merkle_root");
        let detail = answer.body["results"][0]["detail"].as_str().expect("text");
        assert!(
            detail.starts_with(&format!("merkle_root is a root of orb, not of {}; ", identifier.name())),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn the_verification_level_of_a_token_is_that_of_the_root() {
    let client = SignInTestClient::start_with_keys(|_| {}).await;
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let proof = prove::legacy(&person_of("alice"), &wanted(&session), &mut random()).expect("a proof");
    let LegacyRequest { root, mut body } = proof;
    assert_eq!(body["responses"][0]["identifier"], "orb");
    let operator = Operator::new(&client.daemon.operator("")).expect("an address");
    let trusting =
        operator.trust_simulated_root(root, Environment::Staging, LegacyIdentifier::Device, client.folder.path());
    trusting.await.expect("trusted");
    let refused = session
        .answer_from(session.request(), &body, Place::Unsaid)
        .await
        .expect_err("the root is not one of orb credentials");
    assert!(refused.to_string().contains("merkle_root is a root of device, not of orb"), "{refused}");
    body["responses"][0]["identifier"] = json!("device");
    session.answer_from(session.request(), &body, Place::Unsaid).await.expect("accepted");
    let target = session.complete().await.expect("completed").expect("a target");
    let tokens = client.exchange(&fragment_or_query(&target)["code"]).await;
    let claims = client.claims(tokens.body["id_token"].as_str().expect("a token")).await;
    assert_eq!(claims[format!("{}/v1", client.issuer())], json!({"verification_level": "device"}));
    client.stop().await;
}

#[tokio::test]
async fn an_application_accepts_the_credentials_that_it_names_also_at_sign_in() {
    let only = |identifier: &str| Some(vec![identifier.to_owned()]);
    let client = VerificationClient::start_with(|config| {
        let app = config.apps.iter_mut().find(|app| app.id == LEGACY_APP).expect("the application");
        app.accepted_identifiers = only("device");
        config.actions.push(action(DEV_APP, "vote", 0));
        config.actions.last_mut().expect("an action").accepted_identifiers = only("passport");
    })
    .await;
    let answer = client.ask(LEGACY_APP, &legacy()).await;
    assert_eq!(answer.item_code(), "identifier_not_accepted");
    let party = client.simulated().await;
    let answer = client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await;
    assert_eq!(answer.item_code(), "identifier_not_accepted");
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "another", &party)).await.status, 200);

    let client = SignInTestClient::start_with_keys(|config| {
        crate::sign_in_client::accept_current_proofs(config);
        config.apps[0].accepted_identifiers = only("device");
    })
    .await;
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let refused = client.answer(&session, "alice").await.expect_err("an orb credential is not accepted");
    assert!(refused.to_string().contains("accepts device, not 'proof_of_human'"), "{refused}");
    client.stop().await;
}

fn action(app_id: &str, text: &str, max_verifications: u64) -> selfsame::config::Action {
    selfsame::config::Action {
        app_id: app_id.to_owned(),
        action: text.to_owned(),
        environment: Environment::Staging,
        description: String::new(),
        max_verifications,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        min_sybil_score: None,
        max_sybil_score: None,
        counts_kinds_separately: false,
        roll: None,
        counts_new_seeds: false,
        counts_sources_separately: false,
    }
}

/// The legacy and the current proof of one person have unrelated nullifiers.
#[tokio::test]
async fn a_person_who_can_send_current_proofs_does_not_count_again_with_a_legacy_proof() {
    let client = VerificationClient::start_with(|config| {
        config.apps[0].accept_legacy = None;
        config.actions.push(action(DEV_APP, "vote", 1));
    })
    .await;
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await.status, 200);
    let operator = Operator::new(&client.daemon.operator("")).expect("an address");
    let asked =
        ProofParameters { app_id: DEV_APP, action: "vote", signal: "", environment: Environment::Staging, nonce: None };
    let LegacyRequest { root, body } = prove::legacy(&person_of("alice"), &asked, &mut random()).expect("a proof");
    let data = client.folder.path();
    let trusting = operator.trust_simulated_root(root, Environment::Staging, LegacyIdentifier::Orb, data);
    trusting.await.expect("trusted");
    let again = client.ask(DEV_APP, &body).await;
    assert_eq!((again.status, again.code()), (400, "legacy_proofs_not_accepted"), "{again:?}");
    let again = client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await;
    assert_eq!((again.status, again.code()), (400, "max_verifications_reached"), "{again:?}");
}

#[tokio::test]
async fn an_application_with_a_new_relying_party_id_still_knows_its_nullifiers() {
    let limited = |config: &mut Config| config.actions.push(action(LEGACY_APP, "verify-user", 1));
    let client = VerificationClient::start_with(limited).await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.body["message"], VERIFIED);
    let client = client
        .restart_with(|config| {
            limited(config);
            let rp_id = "rp_00000000000000aa".parse().expect("an id");
            config.relying_parties.push(RelyingParty::new(LEGACY_APP, rp_id));
        })
        .await;
    for path in [LEGACY_APP, "rp_00000000000000aa"] {
        let again = client.ask(path, &legacy()).await;
        assert_eq!((again.status, again.code()), (400, "max_verifications_reached"), "{path} {again:?}");
    }
    let old = client.ask("rp_ef0e09d685261981", &legacy()).await;
    assert_eq!(old.code(), "app_not_migrated");
}

#[tokio::test]
async fn answers_name_the_protocol_version_and_requests_can_demand_one() {
    let client = VerificationClient::start().await;
    let version = |request: Value, minimum: &str| with(request, "/min_protocol_version", json!(minimum));
    let party = client.simulated().await;
    for (path, request, expected) in [
        (LEGACY_APP, version(legacy(), "3.0"), "3.0"),
        (SESSION_PARTY, version(session(), "4.0"), "4.0"),
        (DEV_APP, version(uniqueness("alice", "vote", &party), "4.0"), "4.0"),
    ] {
        let answer = client.ask(path, &request).await;
        assert_eq!((answer.status, &answer.body["protocol_version"]), (200, &json!(expected)), "{answer:?}");
    }
    let refused = client.ask(LEGACY_APP, &version(legacy(), "4.0")).await;
    assert_eq!((refused.status, refused.code()), (400, "protocol_version_not_allowed"));
    assert_eq!(refused.body["attribute"], "protocol_version");
}

#[tokio::test]
async fn the_action_of_sign_ins_is_refused() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    let answer = client.ask(DEV_APP, &uniqueness("alice", "sign-in", &party)).await;
    assert_eq!((answer.status, answer.code()), (400, "validation_error"), "{answer:?}");
    assert_eq!(answer.body["attribute"], "action");
}

#[tokio::test]
async fn a_root_that_was_taken_back_stays_so() {
    let client = VerificationClient::start().await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    let root = json!({"root": legacy_vector()["root"], "kind": "legacy", "environment": "staging"});
    let roots = client.list_roots().await.len();
    let (status, removed) = client.post_to_operator("/roots/remove", &root).await;
    assert_eq!((status, &removed["kind"], &removed["environment"]), (200, &json!("legacy"), &json!("staging")));
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.item_code(), "invalid_merkle_root");
    assert_eq!(client.list_roots().await.len(), roots - 1);
    let (status, again) = client.post_to_operator("/roots/remove", &root).await;
    assert_eq!((status, &again["code"]), (404, &json!("not_found")), "{again}");
    // The configuration still lists the root.
    let client = client.restart_with_defaults().await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.item_code(), "invalid_merkle_root");
    let (status, added) = client.post_to_operator("/roots", &with(root, "/identifiers", json!(["orb"]))).await;
    assert_eq!(status, 200, "{added}");
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.body["message"], VERIFIED_AGAIN);
    assert_eq!(client.restart_with_defaults().await.ask(LEGACY_APP, &legacy()).await.status, 200);
}

#[tokio::test]
async fn a_root_that_is_added_again_is_one_root_with_its_new_credentials() {
    let client = VerificationClient::start().await;
    let before = client.list_roots().await.len();
    for identifiers in [json!(["orb"]), json!(["face", "device", "face"])] {
        let root = json!({"root": "7", "kind": "legacy", "environment": "staging", "identifiers": identifiers});
        assert_eq!(client.post_to_operator("/roots", &root).await.0, 200);
    }
    let roots = client.list_roots().await;
    assert_eq!(roots.len(), before + 1);
    let root = roots.iter().find(|root| root["root"] == "0x7").expect("the root");
    assert_eq!(root["identifiers"], json!(["device", "face"]));
}

/// A wallet's own tree has one member, so its root must not count outside of tests.
#[tokio::test]
async fn a_daemon_without_dev_does_not_trust_the_root_of_a_development_wallet() {
    let client = VerificationClient::start_with(|config| config.dev = false).await;
    let before = client.list_roots().await;
    let root = json!({"root": "7", "environment": "production", "identifier": "orb"});
    let (status, refused) = client.post_to_operator("/simulator/roots", &root).await;
    assert_eq!((status, &refused["code"]), (403, &json!("forbidden")), "{refused}");
    assert_eq!(client.list_roots().await, before);
    let operator = Operator::new(&client.daemon.operator("")).expect("an address");
    let asked =
        ProofParameters { app_id: DEV_APP, action: "", signal: "", environment: Environment::Staging, nonce: None };
    let proof = prove::legacy(&person_of("alice"), &asked, &mut random()).expect("a proof");
    let data = client.folder.path();
    let trusting = operator.trust_simulated_root(proof.root, Environment::Staging, LegacyIdentifier::Orb, data);
    let error = trusting.await.expect_err("refused");
    assert!(matches!(&error, OperatorError::Client(_)) && error.to_string().contains("selfsame roots add"), "{error}");
}

#[tokio::test]
async fn roots_that_no_proof_can_use_are_forgotten() {
    let client = VerificationClient::start().await;
    let before = client.list_roots().await.len();
    let root = |number: u64| json!({"root": number.to_string(), "kind": "legacy", "environment": "production", "identifiers": ["face"]});
    let week = std::time::Duration::from_secs(604_800);
    for number in 1..=4 {
        assert_eq!(client.post_to_operator("/roots", &root(number)).await.0, 200);
        client.daemon.clock.advance(week + std::time::Duration::from_secs(1));
    }
    // When the fourth came, the second was not the newest any more and older than any request
    // allows. The third was the newest until then.
    let kept: Vec<String> = client.list_roots().await.iter().map(|root| root["root"].to_string()).collect();
    assert_eq!(kept.len(), before + 2, "{kept:?}");
    assert!(!kept.contains(&"\"0x2\"".to_owned()), "{kept:?}");
    let client = client.restart_with_defaults().await;
    assert_eq!(client.list_roots().await.len(), kept.len());
}

/// Makes a file with a simulator's key the key of production; no key of staging is a simulator's.
fn production_key_of_simulator(config: &mut Config, kind: ProofKind, seed: &str) {
    let inputs = match kind {
        ProofKind::Legacy => LEGACY_INPUTS,
        ProofKind::Current => CURRENT_INPUTS,
    };
    let path = config.data_dir.join("key.json");
    std::fs::write(&path, Simulator::from_seed(seed.as_bytes(), inputs).verification_key().to_json()).expect("written");
    config.verifier.keys.staging.current = StagingKey::default();
    let keys = &mut config.verifier.keys.production;
    match kind {
        ProofKind::Legacy => keys.legacy = ProductionKey::File(path),
        ProofKind::Current => keys.current = ProductionKey::File(path),
    }
}

/// Every client that fetched the seed while staging had the simulator's key still knows it.
#[tokio::test]
async fn the_key_of_a_simulator_is_refused_for_production_also_when_staging_has_another() {
    let folder = folder();
    let data = folder.path();
    TestDaemon::start(data).await.stop().await;
    let seed = std::fs::read_to_string(data.join("simulator.seed")).expect("the seed");
    for kind in [ProofKind::Legacy, ProofKind::Current] {
        let stored = |config: &mut Config| production_key_of_simulator(config, kind, seed.trim());
        let configured = |config: &mut Config| {
            config.verifier.simulator_seed = Some("configured".to_owned());
            production_key_of_simulator(config, kind, "configured");
        };
        for error in [TestDaemon::start_error(data, stored).await, TestDaemon::start_error(data, configured).await] {
            assert!(error.starts_with(&format!("verifier.keys.production.{}: ", kind.name())), "{error}");
            assert!(error.contains("it is the simulator's key"), "{error}");
        }
    }
    let other = |config: &mut Config| production_key_of_simulator(config, ProofKind::Current, "of another deployment");
    TestDaemon::start_with(data, other).await.stop().await;
    // A seed that cannot be read is not taken as one that was never made.
    write_secret(&data.join("simulator.seed"), "");
    let error = TestDaemon::start_error(data, other).await;
    assert!(error.contains("simulator.seed") && error.contains("the file is empty"), "{error}");
}

#[tokio::test]
async fn a_root_of_the_configuration_is_refused_when_its_time_is_in_the_future() {
    let folder = folder();
    let ahead = |seconds: u64| {
        move |config: &mut Config| {
            config.trusted_roots.extend(recorded_configuration().trusted_roots);
            let root = config.trusted_roots.last_mut().expect("a root");
            root.time = (UNIX_EPOCH + START + Duration::from_secs(seconds)).into();
        }
    };
    let error = TestDaemon::start_error(folder.path(), ahead(120)).await;
    assert!(error.starts_with("trusted_roots[1].time: is in the future"), "{error}");
    TestDaemon::start_with(folder.path(), ahead(60)).await.stop().await;
}
