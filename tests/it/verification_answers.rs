//! The answers of the verification interface as a client compares them: one spelling for each
//! number, the codes of the public endpoint, the ages of roots, and who is told how often.

use std::time::Duration;

use selfsame_protocol::U256;
use selfsame_protocol::number;
use serde_json::{Value, json};

use crate::harness::folder;
use crate::verification_client::{
    DEV_APP, LEGACY_APP, SESSION_PARTY, VerificationClient, legacy, legacy_vector, session, uniqueness, with,
};
use crate::webhook_receiver::WebhookReceiver;

const NULLIFIER: &str = "/responses/0/nullifier";

fn number_of(value: &Value) -> U256 {
    number::parse(value.as_str().expect("text")).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nullifier_has_one_spelling() {
    let receiver = WebhookReceiver::start().await;
    let secrets = folder();
    let webhook = receiver.webhook(secrets.path(), "own", &["verification.succeeded"], "");
    let client = VerificationClient::start_with(|config| config.webhooks = vec![webhook]).await;

    let expected = legacy_vector()["nullifier_hash"].clone();
    let digits = expected.as_str().expect("text").trim_start_matches("0x").to_owned();
    assert!(digits.starts_with('0'), "a third of all nullifiers begin with a zero");
    let upper = format!("0x{}", digits.to_uppercase());
    for text in [format!("0x{digits}"), digits.clone(), upper, digits.trim_start_matches('0').to_owned()] {
        let answer = client.ask(LEGACY_APP, &with(legacy(), NULLIFIER, json!(text))).await;
        let found = [&answer.body["nullifier"], &answer.body["results"][0]["nullifier"]];
        assert_eq!(found, [&expected; 2], "{text}: {answer:?}");
    }

    let party = client.simulated().await;
    let request = uniqueness("alice", "vote", &party);
    let value = number_of(&request["responses"][0]["nullifier"]);
    let expected = json!(format!("{value:#066x}"));
    for text in [value.to_string(), format!("{value:#x}"), format!("0x{value:064X}")] {
        let answer = client.ask(DEV_APP, &with(request.clone(), NULLIFIER, json!(text))).await;
        let found = [&answer.body["nullifier"], &answer.body["results"][0]["nullifier"]];
        assert_eq!(found, [&expected; 2], "{text}: {answer:?}");
    }
    let given = session()["responses"][0]["session_nullifier"][0].clone();
    let text = json!(number_of(&given).to_string());
    let answer = client.ask(SESSION_PARTY, &with(session(), "/responses/0/session_nullifier/0", text)).await;
    assert_eq!(answer.body["results"][0]["nullifier"], format!("{:#066x}", number_of(&given)), "{answer:?}");

    // In decimal digits and hex digits alike, a nullifier has at most 256 bits.
    for text in [format!("0x{}", "0".repeat(65)), "9".repeat(79), format!("{value:#066x}00")] {
        let answer = client.ask(DEV_APP, &with(request.clone(), NULLIFIER, json!(text))).await;
        assert_eq!((answer.code(), &answer.body["attribute"]), ("validation_error", &json!("responses[0].nullifier")));
    }
    let told = receiver.until(3).await;
    let of = |app_id: &str| told.iter().find(|webhook| webhook.body["data"]["app_id"] == app_id).expect("one");
    assert_eq!(of(DEV_APP).body["data"]["nullifier"], expected);
    assert_eq!(of(LEGACY_APP).body["data"]["nullifier"], legacy_vector()["nullifier_hash"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_sent_again_is_told_once_in_a_while() {
    let receiver = WebhookReceiver::start().await;
    let secrets = folder();
    let webhook = receiver.webhook(secrets.path(), "own", &["verification.succeeded"], "");
    let client = VerificationClient::start_with(|config| config.webhooks = vec![webhook]).await;
    let party = client.simulated().await;
    let request = uniqueness("alice", "vote", &party);
    for _ in 0..5 {
        assert_eq!(client.ask(DEV_APP, &request).await.status, 200);
        assert_eq!(client.ask(SESSION_PARTY, &session()).await.status, 200);
    }
    // Another action and another person are told.
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "another", &party)).await.status, 200);
    assert_eq!(client.ask(DEV_APP, &uniqueness("bob", "vote", &party)).await.status, 200);
    client.daemon.clock.advance(Duration::from_secs(6 * 3600));
    assert_eq!(client.ask(DEV_APP, &request).await.status, 200);
    let told = receiver.until(5).await;
    let mut told: Vec<(String, String, String)> = told
        .iter()
        .map(|webhook| {
            let data = &webhook.body["data"];
            (data["app_id"].to_string(), data["action"].to_string(), data["uses"].to_string())
        })
        .collect();
    told.sort();
    let expected = [
        ("app_session", "null", "null"),
        (DEV_APP, "\"another\"", "1"),
        (DEV_APP, "\"vote\"", "1"),
        (DEV_APP, "\"vote\"", "1"),
        (DEV_APP, "\"vote\"", "6"),
    ];
    let expected = expected.map(|(app, action, uses)| (format!("\"{app}\""), action.to_owned(), uses.to_owned()));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn requests_fail_with_the_codes_of_the_public_endpoint() {
    let client = VerificationClient::start().await;
    let item = |field: &str, value: Value| with(legacy(), &format!("/responses/0/{field}"), value);
    let floor = with(legacy(), "/min_protocol_version", json!("4.0"));
    for path in [LEGACY_APP, "rp_00000000000000ff", "nonsense"] {
        let answer = client.ask(path, &floor).await;
        let found = (answer.status, answer.code(), &answer.body["attribute"]);
        assert_eq!(found, (400, "protocol_version_not_allowed", &json!("protocol_version")), "{path}");
    }
    // What is malformed is said first.
    let malformed = with(floor, "/responses/0/identifier", json!("iris"));
    assert_eq!(client.ask(LEGACY_APP, &malformed).await.code(), "validation_error");

    let zeros = item("proof", json!(format!("0x{}", "0".repeat(512))));
    assert_eq!(client.ask(LEGACY_APP, &zeros).await.item_code(), "invalid_proof");
    let answer = client.ask(SESSION_PARTY, &session()).await;
    assert_eq!(answer.body["results"][0]["sessionId"], session()["session_id"], "{answer:?}");
    let expires = session()["responses"][0]["expires_at_min"].as_u64().expect("a number");
    client.daemon.clock.set(Duration::from_secs(expires + 18_001));
    assert_eq!(client.ask(SESSION_PARTY, &session()).await.item_code(), "outdated_nullifier");
}

#[tokio::test]
async fn numbers_that_the_client_kit_casts_may_be_texts() {
    let client = VerificationClient::start().await;
    let mut request = session();
    for name in ["expires_at_min", "issuer_schema_id"] {
        let text = request["responses"][0][name].to_string();
        request["responses"][0][name] = json!(text);
    }
    request["responses"][0]["credential_genesis_issued_at_min"] = json!("0");
    assert_eq!(client.ask(SESSION_PARTY, &request).await.status, 200);
    for text in ["", "-1", "1.5", "soon", "18446744073709551616"] {
        let request = with(session(), "/responses/0/expires_at_min", json!(text));
        let answer = client.ask(SESSION_PARTY, &request).await;
        let attribute = json!("responses[0].expires_at_min");
        assert_eq!((answer.code(), &answer.body["attribute"]), ("validation_error", &attribute), "{text}");
    }
}

#[tokio::test]
async fn a_legacy_proof_of_the_other_environment_is_named() {
    let client = VerificationClient::start_with(|config| {
        let app = config.apps.iter_mut().find(|app| app.id == LEGACY_APP).expect("an entry");
        let both: toml::Table = "environments = ['staging', 'production']".parse().expect("TOML");
        let mut table = toml::Table::try_from(&*app).expect("TOML");
        table.extend(both);
        *app = table.try_into().expect("an application");
    })
    .await;
    let production = with(legacy(), "/environment", json!("production"));
    let answer = client.ask(LEGACY_APP, &production).await;
    assert_eq!((answer.status, answer.code()), (400, "environment_mismatch"), "{answer:?}");
    assert_eq!(answer.body["attribute"], "environment");
    let result = &answer.body["results"][0];
    assert_eq!((&result["code"], &result["attribute"]), (&json!("environment_mismatch"), &json!("environment")));
    // A proof that holds in neither environment is of none.
    let other = with(production.clone(), "/action", json!("other"));
    assert_eq!(client.ask(LEGACY_APP, &other).await.item_code(), "invalid_merkle_root");
    // Nothing was counted.
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.body["message"], "Proof verified successfully");
}

#[tokio::test]
async fn the_age_of_a_root_begins_when_another_one_follows() {
    let client = VerificationClient::start().await;
    let request = with(legacy(), "/responses/0/max_age", json!(3600));
    client.daemon.clock.advance(Duration::from_secs(30 * 24 * 3600));
    let status = async |client: &VerificationClient| client.ask(LEGACY_APP, &request).await.status;
    assert_eq!(status(&client).await, 200, "the newest root is never too old");
    let root = json!({"root": "0x5", "kind": "legacy", "environment": "staging", "identifiers": ["orb"]});
    assert_eq!(client.post_to_operator("/roots", &root).await.0, 200);
    client.daemon.clock.advance(Duration::from_secs(3600));
    assert_eq!(status(&client).await, 200, "an hour after it was replaced");
    client.daemon.clock.advance(Duration::from_secs(1));
    assert_eq!(client.ask(LEGACY_APP, &request).await.item_code(), "root_too_old");
    // Taking back the root that followed makes it the newest again.
    let removed = json!({"root": "0x5", "kind": "legacy", "environment": "staging"});
    assert_eq!(client.post_to_operator("/roots/remove", &removed).await.0, 200);
    assert_eq!(status(&client).await, 200);
    // A removed root ends at once.
    let own = json!({"root": legacy_vector()["root"], "kind": "legacy", "environment": "staging"});
    assert_eq!(client.post_to_operator("/roots/remove", &own).await.0, 200);
    assert_eq!(client.ask(LEGACY_APP, &request).await.item_code(), "invalid_merkle_root");
}

#[tokio::test]
async fn a_root_of_the_registry_that_is_taken_back_ends_at_once() {
    let client = VerificationClient::start().await;
    let party = client.simulated().await;
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await.status, 200);
    let root = client.daemon.client().root().await.expect("an answer").root;
    let named =
        |environment: &str| json!({"root": number::canonical(root), "kind": "current", "environment": environment});
    assert_eq!(client.post_to_operator("/roots/remove", &named("staging")).await.0, 200);
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await.item_code(), "invalid_root");
    // The operator can trust it again.
    assert_eq!(client.post_to_operator("/roots", &named("staging")).await.0, 200);
    assert_eq!(client.ask(DEV_APP, &uniqueness("alice", "vote", &party)).await.status, 200);
}
