//! Proof verification over HTTP: recorded proofs, the simulator's proofs, and everything that can
//! be wrong with them.

use std::collections::BTreeSet;

use ark_bn254::{Fq, Fq2, G2Affine};
use futures_util::future::join_all;
use reqwest::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use selfsame::config::{Config, ProductionKey, RateLimit, StagingKey, Status};
use selfsame_protocol::groth16::point::{compress_g2, coordinate_number};
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{U256, number};
use selfsame_wallet::prove::{self, ProofParameters};
use serde_json::{Value, json};

use crate::harness::{START, folder, operator_token};
use crate::sign_in_client::random;
use crate::test_accounts::{key, person_of};
use crate::verification_client::{
    DEV_APP, LEGACY_APP, MODULUS, SESSION_PARTY, VerificationClient, bound_uniqueness, legacy, legacy_vector, session,
    uniqueness, vector, with,
};

#[tokio::test]
async fn a_recorded_legacy_proof_verifies() {
    let client = VerificationClient::start().await;
    let first = client.ask(LEGACY_APP, &legacy()).await;
    insta::assert_json_snapshot!("legacy_success", first.body);
    // With the relying party's id instead of the application's, at a later time, and with another
    // spelling of the nullifier, it is the same person.
    client.daemon.clock.advance(std::time::Duration::from_secs(60));
    let again = client.ask("rp_EF0E09D685261981", &legacy()).await;
    insta::assert_json_snapshot!("legacy_reuse", again.body);
    let padded = legacy_vector()["nullifier_hash"].as_str().expect("text").replace("0x0", "");
    let respelled = client.ask(LEGACY_APP, &with(legacy(), "/responses/0/nullifier", json!(padded))).await;
    assert_eq!(respelled.body["created_at"], first.body["created_at"]);
    assert_eq!(respelled.body["results"][0]["nullifier"], legacy_vector()["nullifier_hash"]);
    let metrics = client.http.get(client.daemon.operator("/metrics")).send().await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("selfsame_verifier_checked_proofs_total{result=\"good\"} 3\n"), "{metrics}");
    // The same holds after a restart.
    let client = client.restart_with_defaults().await;
    let later = client.ask(LEGACY_APP, &legacy()).await;
    assert_eq!(later.body["message"], "Proof verified successfully (nullifier reuse)");
    assert_eq!(later.body["created_at"], first.body["created_at"]);
}

#[tokio::test]
async fn other_encodings_of_the_legacy_proof_verify() {
    use selfsame_protocol::groth16::Proof;

    let client = VerificationClient::start().await;
    let text = legacy_vector()["proof"].as_str().expect("text").to_owned();
    let words: [U256; 8] =
        std::array::from_fn(|index| U256::from_str_radix(&text[2 + 64 * index..][..64], 16).expect("hex"));
    let hex = |words: &[U256]| words.iter().map(|word| format!("{word:064x}")).collect::<String>();
    let compressed = Proof::from_legacy(&words).expect("a proof").to_current();
    let compressed = format!("0x{}{}", hex(&compressed), "0".repeat(256));
    let [ax, ay, bx1, bx0, by1, by0, cx, cy] = words.map(|word| format!("{word:#x}"));
    let nested = json!([[ax, ay], [[bx1, bx0], [by1, by0]], [cx, cy]]).to_string();
    // Negating A and B gives another proof of the same statement.
    let p = U256::from_str_radix("30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47", 16).expect("hex");
    let [wax, way, wbx1, wbx0, wby1, wby0, wcx, wcy] = words;
    let malleated = format!("0x{}", hex(&[wax, p - way, wbx1, wbx0, p - wby1, p - wby0, wcx, wcy]));
    let mut messages = Vec::new();
    for proof in [compressed, nested, malleated] {
        let answer = client.ask(LEGACY_APP, &with(legacy(), "/responses/0/proof", json!(proof))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        messages.push(answer.body["message"].clone());
    }
    let reuse = "Proof verified successfully (nullifier reuse)";
    assert_eq!(messages, ["Proof verified successfully", reuse, reuse]);

    let coordinate_at_modulus = format!("0x{:064x}{}", p, hex(&words[1..]));
    let off_curve = format!("0x{}", hex(&[wax, way + U256::from(1), wbx1, wbx0, wby1, wby0, wcx, wcy]));
    let swapped = format!("0x{}", hex(&[wax, way, wbx0, wbx1, wby0, wby1, wcx, wcy]));
    let infinity = format!("0x{}{}", "0".repeat(128), hex(&words[2..]));
    let outside = outside_the_subgroup();
    let outside = [outside.x.c1, outside.x.c0, outside.y.c1, outside.y.c0].map(|value| coordinate_number(&value));
    let outside = format!("0x{}{}{}", hex(&words[..2]), hex(&outside), hex(&words[6..]));
    for (proof, what) in [
        (outside, "subgroup"),
        (coordinate_at_modulus, "modulus"),
        (off_curve, "curve"),
        (swapped, "swapped"),
        (infinity, "infinity"),
    ] {
        let answer = client.ask(LEGACY_APP, &with(legacy(), "/responses/0/proof", json!(proof))).await;
        assert_eq!(answer.item_code(), "invalid_proof", "{what}");
    }
}

/// A point of the second curve that is not in its subgroup.
fn outside_the_subgroup() -> G2Affine {
    let mut x = Fq2::default();
    loop {
        x.c0 += Fq::from(1u64);
        let point = G2Affine::get_point_from_x_unchecked(x, true);
        if let Some(point) = point.filter(|point| !point.is_in_correct_subgroup_assuming_on_curve()) {
            return point;
        }
    }
}

#[tokio::test]
async fn wrong_legacy_proofs_are_refused() {
    let client = VerificationClient::start().await;
    let item = |field: &str, value: Value| with(legacy(), &format!("/responses/0/{field}"), value);
    let unverified = vector(include_str!("../../protocol/vectors/v3_unverified_portal_proof_mock.json"));
    for (request, code) in [
        (item("merkle_root", json!("0x1")), "invalid_merkle_root"),
        (item("nullifier", json!("0x1")), "invalid_proof"),
        (item("signal_hash", json!("0x1")), "invalid_proof"),
        (with(legacy(), "/action", json!("other")), "invalid_proof"),
        (item("proof", unverified["proof"].clone()), "invalid_proof"),
        (item("nullifier", json!(MODULUS)), "invalid_format"),
        (item("merkle_root", json!(MODULUS)), "invalid_format"),
        (item("signal_hash", json!(MODULUS)), "invalid_format"),
    ] {
        assert_eq!(client.ask(LEGACY_APP, &request).await.item_code(), code, "{request}");
    }
    // The same proof for another application.
    assert_eq!(client.ask(DEV_APP, &legacy()).await.item_code(), "invalid_proof");
    // No failure is recorded.
    let first = client.ask(LEGACY_APP, &legacy()).await;
    assert_eq!(first.body["message"], "Proof verified successfully");
}

#[tokio::test]
async fn legacy_roots_expire_once_a_newer_one_is_trusted() {
    let client = VerificationClient::start().await;
    let hour = json!(3600);
    let request = with(legacy(), "/responses/0/max_age", hour);
    // The root is a day old, but the newest: it has no age.
    assert_eq!(client.ask(LEGACY_APP, &request).await.status, 200);
    let token = operator_token(client.folder.path());
    let url = client.daemon.operator("/roots");
    let root = json!({"root": "0x5", "kind": "legacy", "environment": "staging", "identifiers": ["orb"]}).to_string();
    let post = |token: &str| {
        let request = client.http.post(&url).header(CONTENT_TYPE, "application/json").body(root.clone());
        request.header("Authorization", format!("Bearer {token}")).send()
    };
    for wrong in ["", "wrong", &token[..63]] {
        let answer = post(wrong).await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["www-authenticate"]),
            (401, &"Bearer".parse().expect("a value"))
        );
    }
    assert_eq!(client.ask(LEGACY_APP, &request).await.status, 200, "nothing was trusted");
    let answer = post(&token).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let trusted: Value = answer.json().await.expect("JSON");
    assert_eq!(
        trusted,
        json!({
            "root": "0x5", "kind": "legacy", "environment": "staging", "identifiers": ["orb"],
            "time": "2026-07-01T00:00:00Z",
        })
    );
    assert_eq!(client.ask(LEGACY_APP, &request).await.status, 200, "its age begins when another one follows");
    client.daemon.clock.advance(std::time::Duration::from_secs(3601));
    assert_eq!(client.ask(LEGACY_APP, &request).await.item_code(), "root_too_old");
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200, "roots are valid for a week by default");
    // A trusted root is still trusted after a restart, which sets the clock of the tests back.
    let client = client.restart_with_defaults().await;
    client.daemon.clock.advance(std::time::Duration::from_secs(3601));
    assert_eq!(client.ask(LEGACY_APP, &request).await.item_code(), "root_too_old");
    client.daemon.clock.set(START);
    let listed = client.list_roots().await;
    assert!(listed.contains(&trusted), "{listed:?}");
    let current =
        |root: &str, time: Value| json!({"root": root, "kind": "current", "environment": "staging", "time": time});
    for (body, message) in [
        (current(MODULUS, Value::Null), "root: it is not below the modulus"),
        (json!({"root": "1", "kind": "ancient", "environment": "staging"}), "kind: "),
        (json!({"root": "1", "kind": "legacy"}), "missing field `environment`"),
        (json!({"root": "1", "kind": "legacy", "environment": "staging"}), "identifiers: is missing"),
        (
            json!({"root": "1", "kind": "current", "environment": "staging", "identifiers": ["orb"]}),
            "identifiers: is for legacy roots only",
        ),
        (json!({"root": "1", "kind": "legacy", "environment": "staging", "identifiers": ["iris"]}), "identifiers[0]: "),
        (current("1", json!("yesterday")), "time: \"yesterday\""),
        // A minute ahead of the service's clock is a difference of clocks; more is not.
        (current("1", json!("2026-07-01T00:01:01Z")), "time: \"2026-07-01T00:01:01Z\" is in the future"),
        (json!({"kind": "legacy", "environment": "staging"}), "missing field `root`"),
    ] {
        let (status, answer) = client.post_to_operator("/roots", &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["message"].as_str().is_some_and(|text| text.contains(message)), "{answer}");
    }
}

#[tokio::test]
async fn a_recorded_session_proof_verifies() {
    let client = VerificationClient::start().await;
    for _ in 0..2 {
        // Sessions are not recorded: the second answer is like the first.
        insta::assert_json_snapshot!("session_success", client.ask(SESSION_PARTY, &session()).await.body);
    }
    let item = |field: &str, value: Value| with(session(), &format!("/responses/0/{field}"), value);
    let (real, imaginary) = compress_g2(&outside_the_subgroup());
    let outside = with(item("proof/1", json!(imaginary.to_string())), "/responses/0/proof/2", json!(real.to_string()));
    assert_eq!(client.ask(SESSION_PARTY, &outside).await.item_code(), "invalid_proof");
    let other_session = format!("session_{}01{}", "1".repeat(64), "0".repeat(62));
    let no_session = format!("session_{}01{}", "0".repeat(64), "0".repeat(62));
    for (request, code) in [
        (item("session_nullifier/0", json!("0x1")), "invalid_proof"),
        (item("session_nullifier/1", json!(format!("0x02{}", "1".repeat(62)))), "invalid_proof"),
        (item("session_nullifier/1", json!("0x1")), "invalid_action"),
        (item("signal_hash", json!("0x1")), "invalid_proof"),
        (item("expires_at_min", json!(1_783_943_529)), "invalid_proof"),
        (item("credential_genesis_issued_at_min", json!(1)), "invalid_proof"),
        (item("proof/4", json!("0x1")), "invalid_root"),
        (item("issuer_schema_id", json!(2)), "invalid_credential_issuer"),
        (item("identifier", json!("passport")), "invalid_credential_issuer"),
        (item("proof/0", json!("0x0")), "invalid_proof"),
        (item("proof/1", json!("0x1")), "invalid_proof"),
        (item("proof/3", json!(MODULUS)), "invalid_proof"),
        (item("session_nullifier/0", json!(MODULUS)), "invalid_public_input"),
        (with(session(), "/nonce", json!(MODULUS)), "invalid_public_input"),
        (with(session(), "/nonce", json!("1")), "invalid_proof"),
        (with(session(), "/session_id", json!(other_session)), "invalid_proof"),
        (with(session(), "/session_id", json!(no_session)), "invalid_public_input"),
    ] {
        assert_eq!(client.ask(SESSION_PARTY, &request).await.item_code(), code, "{request}");
    }
    let staging = client.ask(SESSION_PARTY, &with(session(), "/environment", json!("staging"))).await;
    assert_eq!((staging.code(), &staging.body["attribute"]), ("configuration_error", &json!("environment")));
    // Five hours after the proof has expired.
    let expires = session()["responses"][0]["expires_at_min"].as_u64().expect("a number");
    client.daemon.clock.set(std::time::Duration::from_secs(expires + 18_000));
    assert_eq!(client.ask(SESSION_PARTY, &session()).await.status, 200);
    client.daemon.clock.set(std::time::Duration::from_secs(expires + 18_001));
    assert_eq!(client.ask(SESSION_PARTY, &session()).await.item_code(), "outdated_nullifier");
}

#[tokio::test]
async fn simulated_proofs_verify() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    let first = client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await;
    assert_eq!((first.status, &first.body["message"]), (200, &json!("Proof verified successfully")), "{first:?}");
    // Another proof of the same person; then another action and another person.
    for (person, action, message) in [
        ("alice", "vote", "Proof verified successfully (nullifier reuse)"),
        ("alice", "another vote", "Proof verified successfully"),
        ("bob", "vote", "Proof verified successfully"),
    ] {
        let answer = client.ask(DEV_APP, &uniqueness(person, action, &party)).await;
        assert_eq!((answer.status, &answer.body["message"]), (200, &json!(message)), "{answer:?}");
    }
    // The same nullifier in decimal digits.
    let mut decimal = uniqueness("alice", "vote", &party);
    let nullifier: U256 =
        number::parse(decimal["responses"][0]["nullifier"].as_str().expect("text")).expect("a number");
    decimal["responses"][0]["nullifier"] = json!(nullifier.to_string());
    let answer = client.ask(DEV_APP, &decimal).await;
    assert_eq!(answer.body["message"], "Proof verified successfully (nullifier reuse)", "{answer:?}");
    assert_eq!(answer.body["nullifier"], first.body["nullifier"]);

    let sandbox = with(uniqueness("alice", "vote", &party), "/environment", json!("sandbox"));
    let sandbox = client.ask(DEV_APP, &sandbox).await;
    assert_eq!(sandbox.body["environment"], "sandbox");
    assert_eq!(sandbox.body["message"], "Proof verified successfully (nullifier reuse)");

    let asked = ProofParameters {
        app_id: DEV_APP,
        action: "",
        signal: "hello",
        environment: Environment::Staging,
        nonce: None,
    };
    let session = prove::session(&person_of("alice"), &asked, &party, &mut random()).expect("a proof");
    let answer = client.ask(DEV_APP, &session).await;
    assert_eq!((answer.status, &answer.body["session_id"]), (200, &session["session_id"]), "{answer:?}");
    // The registry's next root makes the old one age.
    client.create_account().await;
    let window = client.daemon.registry.rules().root_validity_window;
    client.daemon.clock.advance(std::time::Duration::from_secs(window));
    assert_eq!(client.ask(DEV_APP, &uniqueness("carol", "vote", &party)).await.status, 200);
    client.daemon.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(client.ask(DEV_APP, &uniqueness("carol", "vote", &party)).await.item_code(), "invalid_root");
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &uniqueness("carol", "vote", &party)).await.status, 200);
}

/// The answer to a bound proof has the fields of a uniqueness proof and the session.
#[tokio::test]
async fn a_uniqueness_proof_that_is_bound_to_a_session_verifies_with_it_only() {
    let client = VerificationClient::start_with(|config| {
        config.actions.push(selfsame::config::Action {
            app_id: DEV_APP.to_owned(),
            action: "vote".to_owned(),
            environment: Environment::Staging,
            description: String::new(),
            max_verifications: 3,
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
        });
    })
    .await;
    let party = client.simulated().await;
    let bound = bound_uniqueness("alice", "vote", &party);
    // Nothing of these is recorded.
    let other = bound_uniqueness("alice", "vote", &party)["session_id"].clone();
    assert_ne!(other, bound["session_id"]);
    let no_session = json!(format!("session_{}01{}", "0".repeat(64), "0".repeat(62)));
    for (request, code) in [
        (with(bound.clone(), "/session_id", other.clone()), "invalid_proof"),
        (with(bound.clone(), "/session_id", no_session), "invalid_public_input"),
        // A client that drops the session, and one that adds it to an unbound proof.
        (with(bound.clone(), "/session_id", Value::Null), "invalid_proof"),
        (
            with(
                with(uniqueness("alice", "vote", &party), "/proof_type", json!("uniqueness")),
                "/session_id",
                other.clone(),
            ),
            "invalid_proof",
        ),
    ] {
        assert_eq!(client.ask(DEV_APP, &request).await.item_code(), code, "{request}");
    }
    for (request, attribute) in [
        (with(bound.clone(), "/proof_type", Value::Null), "action"),
        (with(bound.clone(), "/proof_type", json!("session")), "action"),
        (with(bound.clone(), "/proof_type", json!("age")), "proof_type"),
        (with(uniqueness("alice", "vote", &party), "/session_id", other), "action"),
        (with(bound.clone(), "/protocol_version", json!("3.0")), "protocol_version"),
    ] {
        let answer = client.ask(DEV_APP, &request).await;
        assert_eq!((answer.code(), &answer.body["attribute"]), ("validation_error", &json!(attribute)), "{answer:?}");
    }

    let first = client.ask(DEV_APP, &bound).await;
    assert_eq!(first.status, 200, "{first:?}");
    let nullifier = &bound["responses"][0]["nullifier"];
    assert_eq!(
        first.body,
        json!({
            "success": true, "protocol_version": "4.0", "session_id": bound["session_id"], "action": "vote",
            "nullifier": nullifier, "created_at": first.body["created_at"], "environment": "staging",
            "results": [{"identifier": "proof_of_human", "success": true, "nullifier": nullifier,
                "sessionId": bound["session_id"]}],
            "message": "Proof verified successfully",
        })
    );
    // Another session of the same person, and no session, are the same nullifier.
    let again = bound_uniqueness("alice", "vote", &party);
    let answer = client.ask(DEV_APP, &again).await;
    assert_eq!((answer.status, &answer.body["session_id"]), (200, &again["session_id"]), "{answer:?}");
    assert_eq!(answer.body["message"], "Proof verified successfully (nullifier reuse)");
    assert_eq!(answer.body["created_at"], first.body["created_at"]);
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await.status, 200);
    for request in [bound_uniqueness("alice", "vote", &party), uniqueness("alice", "vote", &party)] {
        let answer = client.ask(DEV_APP, &request).await;
        assert_eq!((answer.status, answer.code()), (400, "max_verifications_reached"), "{answer:?}");
    }

    // The session of a bound proof can be proved.
    let asked =
        ProofParameters { app_id: DEV_APP, action: "", signal: "", environment: Environment::Staging, nonce: None };
    let id = bound["session_id"].as_str().expect("text");
    let proved = prove::session_of_id(&person_of("alice"), id, &asked, &party, &mut random()).expect("a proof");
    let answer = client.ask(DEV_APP, &proved).await;
    assert_eq!(answer.body["message"], "Session proof verified successfully", "{answer:?}");
    assert!(prove::session_of_id(&person_of("bob"), id, &asked, &party, &mut random()).is_err());
}

impl VerificationClient {
    async fn create_account(&self) {
        let registry = crate::test_accounts::registry(self.daemon.client()).await;
        crate::test_accounts::create(&registry, &key("dave"), key("agent").address()).await;
    }
}

#[tokio::test]
async fn a_request_succeeds_when_one_of_its_proofs_verifies() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    let mut request = uniqueness("alice", "vote", &party);
    let good = request["responses"][0].clone();
    let mut expired = good.clone();
    expired["expires_at_min"] = json!(1);
    let mut wrong = good.clone();
    wrong["nullifier"] = json!("0x5");
    let mut unknown = good.clone();
    unknown["issuer_schema_id"] = json!(77);
    request["responses"] = json!([wrong, good, expired, unknown]);
    let answer = client.ask(DEV_APP, &request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    insta::assert_json_snapshot!("partial_success", answer.body);
    request["responses"] = json!([wrong, expired, unknown]);
    let answer = client.ask(DEV_APP, &request).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    insta::assert_json_snapshot!("all_failed", answer.body);
}

#[tokio::test]
async fn every_verified_nullifier_is_recorded() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    let (alice, bob) = (uniqueness("alice", "vote", &party), uniqueness("bob", "vote", &party));
    let mut both = alice.clone();
    // The nonce belongs to the request, so all proofs of one request share it.
    both["responses"] = json!([alice["responses"][0], bob["responses"][0]]);
    let answer = client.ask(DEV_APP, &both).await;
    assert_eq!(answer.body["results"][1]["code"], "invalid_proof", "bob's proof is for another nonce: {answer:?}");
    let asked =
        ProofParameters { app_id: DEV_APP, action: "vote", signal: "", environment: Environment::Staging, nonce: None };
    let fixed = |bytes: &mut [u8; 32]| bytes.fill(7);
    let of = |person: &str| prove::uniqueness(&person_of(person), &asked, &party, &mut { fixed }).expect("a proof");
    let (carol, dave) = (of("carol"), of("dave"));
    let mut both = carol.clone();
    both["responses"] = json!([carol["responses"][0], dave["responses"][0]]);
    let answer = client.ask(DEV_APP, &both).await;
    assert_eq!(answer.body["message"], "Proof verified successfully", "{answer:?}");
    // In another order the second nullifier is still known.
    both["responses"] = json!([of("erin")["responses"][0], dave["responses"][0]]);
    let answer = client.ask(DEV_APP, &both).await;
    assert_eq!(answer.body["message"], "Proof verified successfully (nullifier reuse)", "{answer:?}");
}

#[tokio::test]
async fn verifications_of_a_nullifier_are_limited_by_its_action() {
    let client = VerificationClient::start_with(|config| {
        let folder = folder();
        let file = folder.path().join("selfsame.toml");
        let app = format!("[[apps]]\nid = \"{DEV_APP}\"\n");
        let action = format!(
            "[[actions]]\napp_id = \"{DEV_APP}\"\naction = \"0xab\"\nenvironment = \"staging\"\nmax_verifications = 2\n"
        );
        std::fs::write(&file, app + &action).expect("written");
        let limited = Config::load(Some(&file), std::iter::empty(), false, None).expect("a good configuration");
        config.actions = limited.actions;
    })
    .await;
    let party = client.simulated().await;
    for (action, status) in [("0xab", 200), ("0xAB", 200), ("0xab", 400), ("0xAb", 400), ("other", 200)] {
        let answer = client.ask(DEV_APP, &uniqueness("alice", action, &party)).await;
        assert_eq!(answer.status, status, "{action}: {answer:?}");
        if status == 400 {
            insta::assert_json_snapshot!("max_verifications_reached", answer.body);
        }
    }
    assert_eq!(client.ask(DEV_APP, &uniqueness("bob", "0xab", &party)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_nullifiers_that_race_are_recorded_once() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    let requests: Vec<Value> = (0..24).map(|_| uniqueness("alice", "race", &party)).collect();
    let answers = join_all(requests.iter().map(|request| client.ask(DEV_APP, request))).await;
    let first = answers.iter().filter(|answer| answer.body["message"] == "Proof verified successfully").count();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(first, 1);
    let times: BTreeSet<String> = answers.iter().map(|answer| answer.body["created_at"].to_string()).collect();
    assert_eq!(times.len(), 1, "{times:?}");
}

#[tokio::test]
async fn malformed_requests_are_refused_before_verification() {
    let client = VerificationClient::start_with(|config| {
        for (id, status, accept_legacy) in
            [("app_staging_inactive", Status::Inactive, true), ("app_staging_current", Status::Active, false)]
        {
            let mut app = config.apps[0].clone();
            (app.id, app.status, app.accept_legacy) = (id.to_owned(), status, Some(accept_legacy));
            config.apps.push(app);
        }
        let mut app = config.apps[0].clone();
        app.id = "app_staging_stopped".to_owned();
        config.apps.push(app);
        let mut party = config.relying_parties[0].clone();
        (party.app_id, party.status) = ("app_staging_stopped".to_owned(), Status::Inactive);
        config.relying_parties.push(party);
        config.actions.push(selfsame::config::Action {
            app_id: LEGACY_APP.to_owned(),
            action: "current only".to_owned(),
            environment: Environment::Staging,
            description: String::new(),
            max_verifications: 0,
            accept_legacy: false,
            accepted_identifiers: None,
            genesis_issued_at_min: None,
            require_integrity: false,
            min_sybil_score: None,
            max_sybil_score: None,
            counts_kinds_separately: false,
            roll: None,
            counts_new_seeds: false,
            counts_sources_separately: false,
        });
    })
    .await;
    let mut bodies = Vec::new();
    let bundle = json!({
        "version": 1, "signature_format": "android_keystore", "timestamp": START.as_secs(), "signature": "00", "jwt": "a.b.c",
    });
    let bundle = with(legacy(), "/integrity_bundle", bundle);
    let production = with(legacy(), "/environment", Value::Null);
    let both = with(session(), "/environment", json!("production"));
    for (path, request, status) in [
        (LEGACY_APP, json!([]), 400),
        (LEGACY_APP, json!({}), 400),
        (LEGACY_APP, with(legacy(), "/responses/0/proof", json!("0x12")), 400),
        ("169e21f6afc84b30", legacy(), 400),
        ("app_unknown", legacy(), 400),
        ("rp_0000000000000000", legacy(), 400),
        ("app_staging_stopped", legacy(), 400),
        ("app_staging_inactive", legacy(), 404),
        (LEGACY_APP, production, 400),
        ("app_both", both, 400),
        (LEGACY_APP, bundle, 403),
        ("app_staging_current", legacy(), 400),
        (LEGACY_APP, with(legacy(), "/action", json!("current only")), 400),
        ("%ff", legacy(), 400),
    ] {
        let answer = client.ask(path, &request).await;
        assert_eq!(answer.status, status, "{path} {answer:?}");
        bodies.push(json!({"path": path, "status": status, "body": answer.body}));
    }
    for (body, status) in [("", 400), ("{", 400), ("{\"a\":1,\"a\":2}", 400), ("\u{0}", 400)] {
        let answer = client.send(LEGACY_APP, body).await;
        assert_eq!((answer.status, answer.code()), (status, "invalid_request"), "{body:?} {answer:?}");
    }
    let long = client.send(LEGACY_APP, format!("{{\"a\":\"{}\"}}", "x".repeat(256 * 1024))).await;
    assert_eq!((long.status, long.code()), (413, "request_too_large"));
    bodies.push(json!({"path": "too long", "status": 413, "body": long.body}));
    let url = client.daemon.verify("/api/v4/verify/app_both");
    let plain = client.http.post(&url).header(CONTENT_TYPE, "text/plain").body("{}").send().await.expect("an answer");
    assert_eq!(plain.status(), 415);
    bodies.push(json!({"path": "text/plain", "status": 415, "body": plain.json::<Value>().await.expect("JSON")}));
    let get = client.http.get(&url).send().await.expect("an answer");
    assert_eq!((get.status().as_u16(), &get.headers()[ALLOW]), (405, &"POST".parse().expect("a value")));
    bodies.push(json!({"path": "GET", "status": 405, "body": get.json::<Value>().await.expect("JSON")}));
    let nowhere = client.http.post(client.daemon.verify("/api/v3/verify/x")).send().await.expect("an answer");
    assert_eq!(nowhere.status(), 404);
    bodies
        .push(json!({"path": "/api/v3/verify/x", "status": 404, "body": nowhere.json::<Value>().await.expect("JSON")}));
    insta::assert_json_snapshot!("early_errors", bodies);
}

#[tokio::test]
async fn the_source_limit_applies_when_it_is_configured() {
    let client = VerificationClient::start_with(|config| {
        let window = std::time::Duration::from_secs(60);
        config.limits.verifications_per_source = Some(RateLimit { requests: 2, window: window.into() });
    })
    .await;
    for _ in 0..2 {
        assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    }
    let url = client.daemon.verify(&format!("/api/v4/verify/{LEGACY_APP}"));
    let refused = client.http.post(&url).json(&legacy()).send().await.expect("an answer");
    assert_eq!((refused.status().as_u16(), &refused.headers()[RETRY_AFTER]), (429, &"60".parse().expect("a value")));
    assert_eq!(refused.json::<Value>().await.expect("JSON")["code"], "rate_limit_exceeded");
    client.daemon.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
}

#[tokio::test]
async fn a_verification_key_is_loaded_from_a_file() {
    let folder = folder();
    let path = folder.path().join("key.json");
    std::fs::write(&path, include_str!("../../protocol/keys/legacy.json")).expect("written");
    let key = StagingKey::Real(ProductionKey::File(path));
    let client = VerificationClient::start_with(|config| config.verifier.keys.staging.legacy = key).await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
}

#[tokio::test]
async fn the_interface_describes_itself_and_its_health() {
    let client = VerificationClient::start().await;
    let url = client.daemon.verify("/openapi.json");
    let document: Value = client.http.get(url).send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(document["info"]["title"], "Proof verification");
    let operation = &document["paths"]["/api/v4/verify/{rp_id}"]["post"];
    assert!(operation["description"].as_str().is_some_and(|text| text.len() > 100), "{operation}");
    let statuses: BTreeSet<&str> =
        operation["responses"].as_object().expect("responses").keys().map(String::as_str).collect();
    assert_eq!(statuses, BTreeSet::from(["200", "400", "401", "403", "404", "405", "413", "415", "429", "500", "503"]));
    let health = client.http.get(client.daemon.verify("/health")).send().await.expect("an answer");
    assert_eq!(health.json::<Value>().await.expect("JSON"), json!({"success": true}));
}

#[test]
fn the_clock_of_the_tests_is_before_the_recorded_proofs_expire() {
    let expires = session()["responses"][0]["expires_at_min"].as_u64().expect("a number");
    assert!(START.as_secs() < expires);
}
