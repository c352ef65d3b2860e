//! What an application may do by default, and what its settings allow.

use std::process::Stdio;
use std::time::Duration;

use reqwest::header::LOCATION;
use selfsame::config::SecretHash;
use selfsame_protocol::sign_in::ResponseType;

use crate::harness::{DaemonProcess, folder};
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, PRODUCTION_APP, SECRET, SignInAnswer, SignInTestClient, accept_current_proofs,
    fragment_or_query,
};

#[tokio::test]
async fn an_application_gets_only_the_response_types_of_its_settings() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].response_types = vec![ResponseType::CODE];
    })
    .await;
    for response_type in ["id_token", "id_token token", "code id_token", "token code", "code id_token token"] {
        let url = client.authorization_url(&[("response_type", response_type)]);
        let answer = SignInAnswer::of(client.get(&url, "application/json").await).await;
        let detail = answer.expect_error(400, "unauthorized_client", "unauthorized_client");
        assert!(detail.ends_with("its settings list: code"), "{detail}");
        assert_eq!(answer.body["attribute"], "response_type");
        let redirect = client.get(&url, "text/html").await;
        let location = redirect.headers()[LOCATION].to_str().expect("text").to_owned();
        assert!(location.starts_with(&format!("{CALLBACK}#")), "{location}");
        assert_eq!(fragment_or_query(&location)["error"], "unauthorized_client");
    }
    // A type that no application may use has another error.
    let url = client.authorization_url(&[("response_type", "token")]);
    let answer = SignInAnswer::of(client.get(&url, "application/json").await).await;
    answer.expect_error(400, "unsupported_response_type", "unsupported_response_type");
    assert_eq!(client.exchange(&client.code("alice", &[]).await).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn both_secrets_of_an_application_are_accepted() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        let app = &mut config.apps[0];
        app.client_secret_hashes = app.client_secret_hash.take().into_iter().collect();
        app.client_secret_hashes.push(SecretHash::of([8; 16], "sk_the_new_one"));
    })
    .await;
    for secret in [SECRET, "sk_the_new_one"] {
        let answer = client.post_as(APP, secret, "/revoke", &[("token", "x")]).await;
        assert_eq!(answer.status, 200, "{secret}: {answer:?}");
    }
    let answer = client.post_as(APP, "sk_another", "/revoke", &[("token", "x")]).await;
    answer.expect_error(401, "unauthenticated", "invalid_client");
    client.stop().await;
}

#[tokio::test]
async fn a_code_lives_for_a_minute_and_a_request_for_five() {
    let client = SignInTestClient::start_with_keys(accept_current_proofs).await;
    for (seconds, is_alive) in [(59, true), (60, false)] {
        let code = client.code("alice", &[]).await;
        client.daemon.clock.advance(Duration::from_secs(seconds));
        assert_eq!(client.exchange(&code).await.status == 200, is_alive, "after {seconds} s");
    }
    let started = SignInAnswer::of(client.get(&client.authorization_url(&[]), "application/json").await).await;
    assert_eq!(started.body["expires_at"], client.now() + 300);
    for (seconds, status) in [(299, 200), (1, 404)] {
        client.daemon.clock.advance(Duration::from_secs(seconds));
        assert_eq!(client.get(started.text("request_url"), "*/*").await.status(), status);
    }
    client.stop().await;
}

#[tokio::test]
async fn requests_for_unprotected_codes_are_counted() {
    let client = SignInTestClient::start_with_keys(accept_current_proofs).await;
    let counted = async || {
        let text = client.get(&client.daemon.operator("/metrics"), "*/*").await.text().await.expect("text");
        let line = text.lines().find(|line| line.starts_with("selfsame_sign_in_unprotected_code_requests_total "));
        line.expect("the metric").split(' ').next_back().expect("a number").parse::<u64>().expect("a number")
    };
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    for (changes, count) in [
        (vec![], 0),
        ([&challenge[..], &[("nonce", "")]].concat(), 0),
        (vec![("nonce", "")], 1),
        (vec![("nonce", ""), ("response_type", "code token")], 2),
        // A request that is refused begins nothing.
        (vec![("nonce", ""), ("scope", "email")], 2),
    ] {
        client.get(&client.authorization_url(&changes), "application/json").await;
        assert_eq!(counted().await, count, "{changes:?}");
    }
    client.stop().await;
}

#[tokio::test]
async fn the_start_names_applications_whose_codes_may_be_unprotected() {
    let folder = folder();
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).expect("a file for the log");
    let daemon = DaemonProcess::start_with_log(&folder.path().join("data"), &[], &[], Stdio::from(file));
    // The warning follows the table that the daemon prints, so it is in the log when the daemon has
    // ended.
    assert!(daemon.terminate().success());
    let log = std::fs::read_to_string(&log).expect("the log");
    let line = log.lines().find(|line| line.contains("require_pkce = true")).expect("the warning");
    assert!(line.contains(APP) && line.contains(PRODUCTION_APP), "{line}");
}
