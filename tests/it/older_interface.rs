//! The verification interface beside `POST /api/v4/verify/{rp_id}`: version 2, and what
//! authenticators ask about applications.

use futures_util::future::join_all;
use selfsame::config::{App, Config, Status};
use selfsame_protocol::address;
use serde_json::{Value, json};

use crate::harness::folder;
use crate::signed_requests::{SIGNER, sign_requests};
use crate::test_accounts::key;
use crate::verification_client::{
    DEV_APP, LEGACY_APP, SESSION_PARTY, VerificationAnswer, VerificationClient, legacy, legacy_vector, with,
};

/// The recorded legacy proof as a request of version 2.
pub fn body() -> Value {
    let case = legacy_vector();
    json!({
        "action": "verify-user", "verification_level": "orb", "merkle_root": case["root"],
        "nullifier_hash": case["nullifier_hash"], "proof": case["proof"], "signal_hash": case["signal_hash"],
    })
}

impl VerificationClient {
    pub async fn ask_version_2(&self, app_id: &str, body: &Value) -> VerificationAnswer {
        let url = self.daemon.verify(&format!("/api/v2/verify/{app_id}"));
        let answer = self.http.post(url).json(body).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["success"], json!(status == 200), "{body}");
        VerificationAnswer { status, body }
    }

    async fn ask_context(&self, id: &str, body: &Value) -> (u16, Value) {
        let url = self.daemon.verify(&format!("/api/v4/proof-context/{id}"));
        let answer = self.http.post(url).json(body).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    async fn ask_status(&self, path: &str) -> (u16, Value) {
        let answer = self.http.get(self.daemon.verify(path)).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

/// The code and the attribute of an error.
fn error((status, body): (u16, Value)) -> (u16, String, Value) {
    (status, body["code"].as_str().unwrap_or_default().to_owned(), body["attribute"].clone())
}

/// An application that is not served any more.
fn retired() -> App {
    toml::from_str("id = 'app_retired'\nstatus = 'inactive'").expect("an application")
}

fn limit(config: &mut Config, max_verifications: u64) {
    let text = format!(
        "[[actions]]\napp_id = '{LEGACY_APP}'\naction = 'verify-user'\nenvironment = 'staging'\nmax_verifications = {max_verifications}\n"
    );
    let table: toml::Table = text.parse().expect("TOML");
    config.actions = table["actions"].clone().try_into().expect("actions");
}

#[tokio::test]
async fn a_legacy_proof_verifies_in_the_form_of_version_2() {
    let client = VerificationClient::start_with(|config| limit(config, 3)).await;
    let first = client.ask_version_2(LEGACY_APP, &body()).await;
    assert_eq!(first.status, 200, "{first:?}");
    insta::assert_json_snapshot!("version_2_success", first.body);
    // Both versions count the same person in the same action.
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.body["created_at"], first.body["created_at"]);
    let third = client.ask_version_2(LEGACY_APP, &body()).await;
    assert_eq!((third.status, &third.body["uses"], &third.body["max_uses"]), (200, &json!(3), &json!(3)), "{third:?}");
    assert_eq!(third.body["created_at"], first.body["created_at"]);
    let answer = client.ask_version_2(LEGACY_APP, &body()).await;
    assert_eq!((answer.status, answer.code()), (400, "max_verifications_reached"), "{answer:?}");
}

/// The recorded nullifier and action in other spellings of the same values.
fn respelled(number: usize) -> Value {
    let nullifier = legacy_vector()["nullifier_hash"].as_str().expect("text").to_owned();
    let digits = nullifier.trim_start_matches("0x").to_owned();
    let nullifiers = [nullifier, digits.clone(), format!("0x{}", digits.to_uppercase()), digits.replacen('0', "", 1)];
    let actions = ["verify-user", "0x7665726966792d75736572", "0x7665726966792D75736572"];
    let body = with(body(), "/nullifier_hash", json!(nullifiers[number % nullifiers.len()]));
    with(body, "/action", json!(actions[number % actions.len()]))
}

/// Servers of version 2 act on the status alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_counts_a_person_once_for_an_action_that_nobody_configured() {
    let client = VerificationClient::start().await;
    let requests: Vec<Value> = (0..24).map(respelled).collect();
    let answers = join_all(requests.iter().map(|request| client.ask_version_2(LEGACY_APP, request))).await;
    let verified: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
    let [first] = verified[..] else { panic!("one of {answers:?}") };
    assert_eq!((&first.body["uses"], &first.body["max_uses"]), (&json!(1), &json!(1)));
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        let found = (refused.status, refused.code(), &refused.body["attribute"]);
        assert_eq!(found, (400, "max_verifications_reached", &Value::Null), "{refused:?}");
    }
    // It stays so after a restart; servers of version 4 read the message.
    let client = client.restart_with_defaults().await;
    assert_eq!(client.ask_version_2(LEGACY_APP, &respelled(3)).await.code(), "max_verifications_reached");
    let present = client.ask(LEGACY_APP, &legacy()).await;
    assert_eq!(present.body["message"], "Proof verified successfully (nullifier reuse)", "{present:?}");
}

/// A person who was counted by version 4 is counted.
#[tokio::test]
async fn version_2_counts_what_version_4_has_counted() {
    let client = VerificationClient::start().await;
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
    assert_eq!(client.ask_version_2(LEGACY_APP, &body()).await.code(), "max_verifications_reached");
}

#[tokio::test]
async fn an_application_can_close_the_set_of_its_actions() {
    let close = |config: &mut Config| {
        config.apps.iter_mut().for_each(|app| app.only_configured_actions = true);
    };
    let client = VerificationClient::start_with(|config| close(config)).await;
    for answer in [client.ask_version_2(LEGACY_APP, &body()).await, client.ask(LEGACY_APP, &legacy()).await] {
        let found = (answer.status, answer.code(), &answer.body["attribute"]);
        assert_eq!(found, (400, "invalid_action", &json!("action")), "{answer:?}");
    }
    let client = client
        .restart_with(|config| {
            close(config);
            limit(config, 0);
        })
        .await;
    let answer = client.ask_version_2(LEGACY_APP, &body()).await;
    assert_eq!((answer.status, &answer.body["max_uses"]), (200, &json!(0)), "{answer:?}");
    assert_eq!(client.ask(LEGACY_APP, &legacy()).await.status, 200);
}

#[tokio::test]
async fn errors_of_version_2_have_its_codes() {
    let client = VerificationClient::start_with(|config| {
        config.apps.push(retired());
    })
    .await;
    let nullifier = legacy_vector()["nullifier_hash"].as_str().expect("text").to_owned();
    let other = format!("{}{}", &nullifier[..65], if nullifier.ends_with('0') { '1' } else { '0' });
    #[rustfmt::skip]
    let table = [
        ("app_unknown", body(), 404, "not_found", Value::Null),
        ("app_retired", body(), 404, "not_found", Value::Null),
        (SESSION_PARTY, body(), 404, "not_found", Value::Null),
        (LEGACY_APP, json!({}), 400, "validation_error", json!("action")),
        (LEGACY_APP, json!([]), 400, "validation_error", Value::Null),
        (LEGACY_APP, with(body(), "/action", json!("")), 400, "invalid_action", json!("action")),
        (LEGACY_APP, with(body(), "/action", json!("sign-in")), 400, "invalid_action", json!("action")),
        (LEGACY_APP, with(body(), "/verification_level", json!("iris")), 400, "validation_error", json!("verification_level")),
        (LEGACY_APP, with(body(), "/proof", json!("0x00")), 400, "invalid_format", json!("proof")),
        (LEGACY_APP, with(body(), "/merkle_root", json!("x")), 400, "invalid_format", json!("merkle_root")),
        (LEGACY_APP, with(body(), "/merkle_root", json!("0x1")), 400, "invalid_merkle_root", Value::Null),
        (LEGACY_APP, with(body(), "/verification_level", json!("device")), 400, "invalid_merkle_root", Value::Null),
        (LEGACY_APP, with(body(), "/nullifier_hash", json!(other)), 400, "invalid_proof", Value::Null),
        (LEGACY_APP, with(body(), "/action", json!("another")), 400, "invalid_proof", Value::Null),
        ("app_session", body(), 400, "legacy_proofs_not_accepted", json!("protocol_version")),
    ];
    for (app, body, status, code, attribute) in table {
        let answer = client.ask_version_2(app, &body).await;
        let found = (answer.status, answer.code(), &answer.body["attribute"]);
        assert_eq!(found, (status, code, &attribute), "{app}: {body}\n{answer:?}");
        assert!(answer.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{answer:?}");
    }
    let url = client.daemon.verify(&format!("/api/v2/verify/{LEGACY_APP}"));
    let get = client.http.get(&url).send().await.expect("an answer");
    assert_eq!((get.status().as_u16(), get.headers()["allow"].to_str().expect("text")), (405, "POST"));
}

#[tokio::test]
async fn an_authenticator_learns_who_asks() {
    let files = folder();
    let logo = files.path().join("logo.svg");
    std::fs::write(&logo, "<svg xmlns=\"http://www.w3.org/2000/svg\"/>").expect("written");
    let client = VerificationClient::start_with(|config| {
        let app = config.apps.iter_mut().find(|app| app.id == LEGACY_APP).expect("an entry");
        app.rename("Votes & more");
        app.integration_url = Some("https://votes.example/start".parse().expect("a page"));
        app.logo_file = Some(logo.clone());
    })
    .await;
    let asked = json!({ "action": "verify-user", "environment": "staging", "unknown": 1 });
    let (status, context) = client.ask_context(LEGACY_APP, &asked).await;
    assert_eq!(status, 200, "{context}");
    let logo_url = client.daemon.sign_in(&format!("/sign-in-logo/{LEGACY_APP}"));
    assert_eq!((&context["verified_app_logo"], &context["unverified_app_logo"]), (&json!(logo_url), &json!(logo_url)));
    let image = client.http.get(&logo_url).send().await.expect("an answer");
    assert_eq!(
        (image.status().as_u16(), &image.headers()["content-type"]),
        (200, &"image/svg+xml".parse().expect("a value"))
    );
    let mut shown = context.clone();
    for name in ["verified_app_logo", "unverified_app_logo"] {
        shown[name] = json!("the address of its logo");
    }
    insta::assert_json_snapshot!("proof_context", shown);
    // By its own id, for a session. What a proof brings as a description is not shown.
    let rp_id = context["rp_id"].as_str().expect("text").to_owned();
    let (status, of_party) = client.ask_context(&rp_id.to_uppercase().replace("RP_", "rp_"), &json!({})).await;
    assert_eq!((status, &of_party["app_id"], of_party.get("action")), (200, &json!(LEGACY_APP), None), "{of_party}");
    let described = with(legacy(), "/action_description", json!("Vote once"));
    assert_eq!(client.ask(LEGACY_APP, &described).await.status, 200);
    let (_, context) = client.ask_context(LEGACY_APP, &asked).await;
    assert_eq!(context["action"], json!({ "action": "verify-user", "description": "", "environment": "staging" }));
    // What the operator wrote is shown.
    let client = client
        .restart_with(|config| {
            limit(config, 0);
            config.actions[0].description = "Vote for the board".to_owned();
        })
        .await;
    let (_, context) = client.ask_context(LEGACY_APP, &asked).await;
    assert_eq!(context["action"]["description"], "Vote for the board");
    let (_, production) = client.ask_context(LEGACY_APP, &json!({ "action": "verify-user" })).await;
    assert_eq!(
        production["action"],
        json!({ "action": "verify-user", "description": "", "environment": "production" })
    );
}

#[tokio::test]
async fn an_authenticator_learns_the_key_that_signs_an_applications_requests() {
    for is_required in [false, true] {
        let client = VerificationClient::start_with(|config| sign_requests(config, is_required)).await;
        let (status, context) = client.ask_context(DEV_APP, &json!({})).await;
        let expected = json!(address::text(&key(SIGNER).address()));
        assert_eq!((status, context.get("signing_key")), (200, Some(&expected)), "{context}");
        assert_eq!(context.get("require_signed_requests"), is_required.then_some(&json!(true)), "{context}");
        let (_, of_party) = client.ask_context(context["rp_id"].as_str().expect("text"), &json!({})).await;
        assert_eq!(of_party["signing_key"], expected, "{of_party}");
        let (_, keyless) = client.ask_context(LEGACY_APP, &json!({})).await;
        assert_eq!((&keyless["app_id"], keyless.get("signing_key")), (&json!(LEGACY_APP), None), "{keyless}");
        assert_eq!(keyless.get("require_signed_requests"), None, "{keyless}");
    }
}

#[tokio::test]
async fn relying_parties_and_applications_have_a_status() {
    let client = VerificationClient::start_with(|config| {
        config.apps.push(retired());
        let party = config.relying_parties.iter_mut().find(|party| party.app_id == DEV_APP).expect("an entry");
        party.status = Status::Inactive;
    })
    .await;
    let id = |app: &str| selfsame_protocol::verification::RelyingPartyId::derived_from(app).to_string();
    let unregistered = json!(null);
    #[rustfmt::skip]
    let table = [
        (SESSION_PARTY.to_owned(), json!("registered"), unregistered.clone()),
        (SESSION_PARTY.to_uppercase().replace("RP_", "rp_"), json!("registered"), unregistered.clone()),
        (id("app_both"), json!("registered"), json!("registered")),
        (id(LEGACY_APP), json!("pending"), json!("registered")),
        (id("app_retired"), json!("deactivated"), unregistered),
    ];
    for (rp_id, production, staging) in table {
        let answer = client.ask_status(&format!("/api/v4/rp-status/{rp_id}")).await;
        assert_eq!(answer, (200, json!({ "production_status": production, "staging_status": staging })), "{rp_id}");
    }
    for (id, verified) in [("app_session", true), (SESSION_PARTY, true), ("app_retired", false)] {
        let url = client.daemon.verify(&format!("/api/v4/app-status/{id}"));
        let answer = client.http.get(url).send().await.expect("an answer");
        assert_eq!(answer.headers()["cache-control"], "public, max-age=5, stale-if-error=300");
        assert_eq!(answer.json::<Value>().await.expect("JSON"), json!({ "verified": verified }), "{id}");
    }

    let unknown = "rp_00000000000000aa";
    #[rustfmt::skip]
    let errors = [
        (client.ask_status(&format!("/api/v4/rp-status/{unknown}")).await, 404, "not_found", json!("rp_id")),
        (client.ask_status("/api/v4/rp-status/rp_1").await, 400, "invalid_rp_id", json!("rp_id")),
        (client.ask_status(&format!("/api/v4/rp-status/{LEGACY_APP}")).await, 400, "invalid_rp_id", json!("rp_id")),
        (client.ask_status(&format!("/api/v4/app-status/{unknown}")).await, 404, "not_found", json!("id")),
        (client.ask_status("/api/v4/app-status/app_unknown").await, 404, "not_found", json!("id")),
        (client.ask_status("/api/v4/app-status/x").await, 400, "invalid_id", json!("id")),
        (client.ask_context("x", &json!({})).await, 400, "invalid_request", json!("id")),
        (client.ask_context("app_unknown", &json!({})).await, 400, "not_registered", Value::Null),
        (client.ask_context("app_retired", &json!({})).await, 404, "not_found", Value::Null),
        (client.ask_context(DEV_APP, &json!({})).await, 400, "rp_not_active", Value::Null),
        (client.ask_context(LEGACY_APP, &json!({ "action": 1 })).await, 400, "validation_error", json!("action")),
        (client.ask_context(LEGACY_APP, &json!({ "environment": "test" })).await, 400, "validation_error", json!("environment")),
        (client.ask_context(LEGACY_APP, &json!([])).await, 400, "validation_error", Value::Null),
    ];
    for (answer, status, code, attribute) in errors {
        assert_eq!(error(answer), (status, code.to_owned(), attribute));
    }
}
