//! What a wallet that gives no proof is told to mean: to the person on a page, to the application
//! as the response, and to the operator in the audit trail.

use reqwest::StatusCode;
use reqwest::header::ACCEPT;
use selfsame::config::SignInProof;
use serde_json::json;

use super::BridgedClient;
use crate::harness::until;
use crate::sign_in_client::random;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_wallet_is_told_as_what_it_is() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let bare = |code: &str| json!({"id": "x", "version": 1, "error": code, "responses": []});
    #[rustfmt::skip]
    let table = [
        (json!({"error_code": "user_rejected"}), "access_denied", None),
        (bare("user_rejected"), "access_denied", None),
        (json!({"error_code": "verification_rejected"}), "access_denied", None),
        (bare("nullifier_replay"), "interaction_required", Some("It has given this proof before")),
        (json!({"error_code": "nullifier_replayed"}), "interaction_required", Some("It has given this proof before")),
        (json!({"proof_response": bare("nullifier_replayed")}), "interaction_required", Some("It has given this proof before")),
        (json!({"error_code": "world_id_4_not_available"}), "interaction_required", Some("It cannot make the kind of proof")),
        (bare("world_id_3_not_available"), "interaction_required", Some("It cannot make the kind of proof")),
        (json!({"error_code": "credential_unavailable"}), "interaction_required", Some("It has no credential that counts here")),
        (bare("invalid_rp_signature"), "temporarily_unavailable", Some("Something broke")),
        (json!({"error_code": "something <new>"}), "temporarily_unavailable", Some("Something broke")),
    ];
    for (answer, error, shown) in table {
        let page = client.page().await;
        let wallet = client.wallet(&page);
        wallet.answer(&answer, &mut random()).await.expect("handed over");
        let state = client.state_after(&page, &json!({"state": "waiting"})).await;
        assert_eq!(state, json!({"state": "answered"}), "{answer}");
        let url = format!("{}/complete", page.base);
        let request = client.client.http.get(&url).header("Cookie", &page.cookie).header(ACCEPT, "text/html");
        if let Some(shown) = shown {
            let told = request.send().await.expect("an answer");
            assert_eq!(told.status(), StatusCode::OK, "{answer}");
            let text = told.text().await.expect("text");
            assert!(text.contains("Your authenticator gave no proof") && text.contains(shown), "{answer}: {text}");
            assert!(!text.contains("<new>") && text.contains("/new-code"), "{text}");
            let onward = text.split("href=\"").find_map(|rest| rest.split_once("/complete?")).expect("a way on").1;
            let onward = onward.split('"').next().expect("an end");
            let request = client.client.http.get(format!("{url}?{onward}")).header("Cookie", &page.cookie);
            let done = request.header(ACCEPT, "text/html").send().await.expect("an answer");
            assert_eq!(done.status(), StatusCode::SEE_OTHER, "{answer}");
            let target = done.headers()["location"].to_str().expect("text");
            assert!(target.contains(&format!("error={error}")), "{answer}: {target}");
        } else {
            // The person knows why, and goes back at once.
            let done = request.send().await.expect("an answer");
            assert_eq!(done.status(), StatusCode::SEE_OTHER, "{answer}");
        }
    }
    client.await_refusals((3, 8)).await;

    // A program gets the response at once.
    let page = client.page().await;
    client.wallet(&page).answer(&bare("nullifier_replay"), &mut random()).await.expect("handed over");
    client.state_after(&page, &json!({"state": "waiting"})).await;
    let fields = client.complete(&page).await;
    assert_eq!(fields["error"], "interaction_required");
    assert!(fields["error_description"].contains("nullifier_replay"), "{fields:?}");
    client.client.stop().await;
}

/// The same at the address that authenticators of the service's own requests answer at.
#[tokio::test]
async fn an_authenticator_says_at_the_request_why_it_gives_no_proof() {
    let client = BridgedClient::start(SignInProof::Current).await;
    let post = async |base: &str, body: &serde_json::Value| {
        client.client.send(client.client.http.post(format!("{base}/proof")).json(body)).await
    };
    for (answer, error) in [
        (json!({"error": "access_denied"}), "access_denied"),
        (json!({"error_code": "user_rejected", "error": null}), "access_denied"),
        (json!({"error": "nullifier_replay"}), "interaction_required"),
        (json!({"error_code": "nullifier_replayed"}), "interaction_required"),
        (json!({"error_code": "world_id_4_not_available"}), "interaction_required"),
        (json!({"error": "credential_unavailable"}), "interaction_required"),
        (json!({"error": "invalid_rp_signature"}), "temporarily_unavailable"),
        (json!({"error_code": "generic_error"}), "temporarily_unavailable"),
    ] {
        let page = client.page().await;
        let accepted = post(&page.base, &answer).await;
        assert_eq!((accepted.status, &accepted.body), (200, &json!({"success": true})), "{answer}");
        assert_eq!(client.complete(&page).await["error"], error, "{answer}");
        post(&page.base, &answer).await.expect_error(400, "invalid_request", "invalid_request");
    }
    let page = client.page().await;
    for code in [json!(7), json!(""), json!("odd"), json!("Access_Denied"), json!({}), json!(["access_denied"])] {
        for name in ["error", "error_code"] {
            let refused = post(&page.base, &json!({name: code})).await;
            let detail = refused.expect_error(400, "invalid_request", "invalid_request");
            assert!(detail.starts_with(&format!("{name} must be access_denied")), "{detail}");
        }
    }
    client.client.stop().await;
}

/// The audit trail names each failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_trail_names_the_failure_of_a_wallet() {
    let (folder, log) = (crate::harness::folder(), crate::harness::folder());
    let log = log.path().join("log");
    let output = std::fs::File::create(&log).expect("a file");
    let variables = [("SELFSAME_SIGN_IN__WALLET_LINK", "bridge")];
    let process = crate::harness::DaemonProcess::start_with_log(folder.path(), &[], &variables, output.into());
    let http = crate::sign_in_client::browser();
    for (code, reason) in [
        ("nullifier_replay", "nullifier_replayed"),
        ("world_id_3_not_available", "legacy_proof_not_available"),
        ("world_id_4_not_available", "current_proof_not_available"),
        ("credential_unavailable", "credential_unavailable"),
        ("odd", "something_broke (odd)"),
    ] {
        let parameters = [
            ("client_id", crate::sign_in_client::APP),
            ("redirect_uri", crate::sign_in_client::CALLBACK),
            ("response_type", "code"),
            ("scope", "openid"),
        ];
        let url = format!("{}/authorize", process.sign_in);
        let url = reqwest::Url::parse_with_params(&url, parameters).expect("a URL");
        let (_, _, link) = super::offered(&http, &process.sign_in, url).await;
        let connector = selfsame_wallet::bridge::parse(&link).expect("a connector URI");
        let wallet = selfsame_wallet::bridge::BridgeClient::new(connector).expect("a client");
        wallet.answer(&json!({"error": code}), &mut random()).await.expect("handed over");
        until(format!("{reason} in the audit trail"), async || {
            let log = std::fs::read_to_string(&log).expect("a log");
            let noted = |line: &&str| line.contains("refused_by_wallet") && line.contains(reason);
            if log.lines().any(|line| noted(&line)) { Ok(()) } else { Err(log.lines().last().map(str::to_owned)) }
        })
        .await;
    }
}
