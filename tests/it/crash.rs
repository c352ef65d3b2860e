//! Daemons that end and start again on the same data, in single cases; [`crate::torture`] kills
//! them under load.

use std::path::Path;

use alloy_primitives::Address;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_wallet::operations::create_account;

use crate::harness::{DaemonProcess, folder, refused_start, run, until, until_true};
use crate::sign_in_client::wait_for_signing_keys;
use crate::test_accounts::{final_state, key, seed};

fn assert_sound(data: &Path) {
    let (success, text) = run(&["registry", "fsck", "--data", &data.display().to_string()]);
    assert!(success && text.contains(", 0 findings"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_daemon_sends_the_answers_in_flight() {
    let folder = folder();
    let process = DaemonProcess::start(
        folder.path(),
        &[],
        &[("SELFSAME_BATCHER__MIN_WAIT", "10s"), ("SELFSAME_BATCHER__MAX_WAIT", "10s")],
    );
    let client = process.client();
    let step = create_account(&[key("waiting").authenticator()], Address::ZERO);
    let request_id = client.submit(&step.operation, &seed("key")).await.expect("accepted").request_id;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.status(request_id, 60).await }
    });
    let metrics = format!("{}/metrics", process.operator);
    until_true("a client that waits", async || {
        let text = reqwest::get(&metrics).await.expect("an answer").text().await.expect("text");
        text.lines().any(|line| line.ends_with("registry_status_waiters 1"))
    })
    .await;
    assert!(process.terminate().success());
    let answer = waiting.await.expect("the task does not panic").expect("the answer arrives");
    assert!(!answer.status.is_final(), "{answer:?}");
    assert_sound(folder.path());

    // The daemon does not wait for the block; the next process seals it.
    let process = DaemonProcess::start(folder.path(), &[], &[]);
    let state = final_state(&process.client(), request_id).await;
    assert!(matches!(state, GatewayRequestState::Finalized { .. }), "{state:?}");
}

/// Load balancers hear of the stop before it happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_says_that_it_is_about_to_stop_and_serves_on() {
    let folder = folder();
    let process = DaemonProcess::start(folder.path(), &[], &[("SELFSAME_OPERATOR__DRAIN_DELAY", "5m")]);
    let get = async |url: String| {
        let answer = reqwest::get(url).await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    assert_eq!(get(format!("{}/ready", process.operator)).await.0, 200);
    process.ask_to_stop();
    let text = until("a daemon that is not ready", async || {
        let (status, text) = get(format!("{}/ready", process.operator)).await;
        if status == 503 { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(text.contains("the daemon is about to stop; until then it serves"), "{text}");
    let step = create_account(&[key("late").authenticator()], Address::ZERO);
    process.client().submit(&step.operation, &seed("late")).await.expect("it serves");
    process.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_serves_one_registry_and_one_process() {
    let folder = folder();
    let process = DaemonProcess::start(folder.path(), &[], &[]);
    let message = refused_start(folder.path(), &[]).await;
    assert!(message.contains("is in use by another process; stop the daemon first"), "{message}");
    let (success, message) = run(&["registry", "fsck", "--data", &folder.path().display().to_string()]);
    assert!(!success && message.contains("is in use by another process"), "{message}");
    assert!(process.client().root().await.is_ok(), "the first process still answers");
    assert!(process.terminate().success());

    let contract = format!("0x{}", "12".repeat(20));
    for (variable, value, shown) in [
        ("SELFSAME_REGISTRY__CHAIN_ID", "480", "on chain 480"),
        ("SELFSAME_REGISTRY__VERIFYING_CONTRACT", contract.as_str(), contract.as_str()),
    ] {
        let message = refused_start(folder.path(), &[(variable, value)]).await;
        for part in
            ["on chain 31337", "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9", shown, "are fixed at the first start"]
        {
            assert!(message.contains(part), "{message:?} should contain {part:?}");
        }
    }
    DaemonProcess::start(folder.path(), &[], &[]).kill();
}

/// What verification, sign-in and the operator acknowledged is still true when the daemon is killed
/// right after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_codes_and_roots_survive_a_kill() {
    const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
    const CALLBACK: &str = "http://localhost:3000/callback";
    let folder = folder();
    let data = folder.path().join("data");
    let (data_text, wallet) = (data.display().to_string(), folder.path().join("wallet.json").display().to_string());
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let verify = async |process: &DaemonProcess, body: &str| -> serde_json::Value {
        let url = format!("{}/api/v4/verify/{APP}", process.verification);
        let request = http.post(url).header("content-type", "application/json").body(body.to_owned());
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    let exchange = async |process: &DaemonProcess, code: &str| {
        let body = format!("grant_type=authorization_code&code={code}&redirect_uri={CALLBACK}");
        let request = http.post(format!("{}/token", process.sign_in)).basic_auth(APP, Some("sk_dev_only")).body(body);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.expect("JSON"))
    };

    let process = DaemonProcess::start(&data, &[], &[]);
    run(&["wallet", "new", "--wallet", &wallet, "--gateway", &process.gateway, "--indexer", &process.indexer]);
    let (created, text) = run(&["wallet", "create-account", "--wallet", &wallet]);
    assert!(created, "{text}");
    let daemon = ["--wallet", &wallet, "--operator", &process.operator, "--data", &data_text];
    // The wallet makes the operator trust its root.
    let (proved, body) = run(&[&["wallet", "prove", "--app", APP, "--action", "vote"][..], &daemon].concat());
    assert!(proved, "{body}");
    let first = verify(&process, &body).await;
    assert_eq!(first["message"], "Proof verified successfully", "{first}");
    process.kill();

    let process = DaemonProcess::start(&data, &[], &[]);
    let again = verify(&process, &body).await;
    assert_eq!(again["message"], "Proof verified successfully (nullifier reuse)", "{again}");
    assert_eq!(again["created_at"], first["created_at"]);
    let url = format!(
        "{}/authorize?client_id={APP}&redirect_uri={CALLBACK}&response_type=code&scope=openid",
        process.sign_in
    );
    let daemon =
        ["--wallet", &wallet, "--indexer", &process.indexer, "--operator", &process.operator, "--data", &data_text];
    let code = || {
        let (signed_in, text) = run(&[&["wallet", "sign-in", "--yes", &url][..], &daemon].concat());
        assert!(signed_in, "{text}");
        let (_, code) = text.split_once("code=").expect("a code");
        code.split('&').next().expect("a code").to_owned()
    };
    wait_for_signing_keys(&process.sign_in).await;
    let (used, unused) = (code(), code());
    let (status, tokens) = exchange(&process, &used).await;
    assert_eq!(status, 200, "{tokens}");
    process.kill();

    let process = DaemonProcess::start(&data, &[], &[]);
    let token = tokens["access_token"].as_str().expect("a token");
    let info = async |process: &DaemonProcess| {
        let request = http.get(format!("{}/userinfo", process.sign_in)).bearer_auth(token);
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(info(&process).await, 200, "an issued token is valid");
    assert_eq!(exchange(&process, &unused).await.0, 200, "an unused code works");
    assert_eq!(exchange(&process, &used).await.1["error"], "invalid_grant", "a used code stays used");
    assert_eq!(info(&process).await, 401, "the second use of the code revokes the token");
}
