//! The audit trail: every audited request has exactly one event, with its outcome and without
//! secrets.

use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::harness::{operator_token, until};
use crate::logs::{LoggingDaemon, lines};
use crate::sign_in_client::{CALLBACK, Form, fragment_or_query, wait_for_signing_keys};
use crate::verification_client::{DEV_APP, legacy};

const SECRET: &str = "a-secret-that-no-event-may-show";

/// The events of the audit trail among the lines of a log.
fn events(log: &[Value]) -> Vec<&Value> {
    log.iter().filter(|line| line["target"] == "audit").collect()
}

/// Sends requests, each with its name as request id, and expects of each exactly one event with the
/// event's name, its outcome and these fields.
async fn expect_events(daemon: LoggingDaemon, requests: Vec<(&str, RequestBuilder, &str, &str, Value)>) -> Vec<Value> {
    let mut expected = Vec::new();
    for (name, request, event, outcome, fields) in requests {
        let answer = request.header("x-request-id", name).send().await.expect("an answer");
        drop(answer.bytes().await);
        expected.push((name, event, outcome, fields));
    }
    let log = daemon.end();
    for (name, event, outcome, fields) in expected {
        let mut found = events(&log);
        found.retain(|line| line["span"]["request_id"] == name);
        let [line] = found[..] else { panic!("{name}: {found:#?}") };
        assert_eq!(
            (&line["fields"]["event"], &line["fields"]["outcome"]),
            (&json!(event), &json!(outcome)),
            "{line:#}"
        );
        assert_eq!(line["fields"]["source"], "127.0.0.0/24", "{line:#}");
        for (field, value) in fields.as_object().expect("an object") {
            assert_eq!(line["fields"][field], *value, "{name}: {field}: {line:#}");
        }
    }
    assert!(!log.iter().any(|line| line.to_string().contains(SECRET)), "{log:#?}");
    log
}

#[tokio::test]
async fn calls_of_the_operator_have_one_event_each() {
    let daemon = LoggingDaemon::start(&[]);
    wait_for_signing_keys(&daemon.process.sign_in).await;
    let token = operator_token(daemon.data.path());
    let http = reqwest::Client::new();
    let post = |path: &str, body: Value| http.post(format!("{}{path}", daemon.process.operator)).json(&body);
    let root = json!({"root": "0x2a", "kind": "legacy", "environment": "staging", "identifiers": ["orb", "face"]});
    let good = root.clone();
    let changed = |field: &str, value: &str| {
        let mut body = good.clone();
        body[field] = json!(value);
        body
    };
    let concerns = json!({"concerns": "legacy staging 0x2a orb, face", "status": 200});
    let removed = json!({"concerns": "legacy staging 0x2a"});
    let simulated = json!({"root": "0x2b", "environment": "staging", "identifier": "orb"});
    let why = json!({"reason": "the operator's token is missing or wrong", "status": 401});
    let requests = vec![
        ("add", post("/roots", root.clone()).bearer_auth(&token), "root_trusted", "success", concerns),
        ("forged", post("/roots", root.clone()).bearer_auth(SECRET), "root_trusted", "refused", why),
        ("remove", post("/roots/remove", root.clone()).bearer_auth(&token), "root_removed", "success", removed.clone()),
        ("again", post("/roots/remove", root).bearer_auth(&token), "root_removed", "refused", removed),
        ("wallet", post("/simulator/roots", simulated).bearer_auth(&token), "root_trusted", "success", json!({})),
        (
            "rotate",
            post("/keys/rotate", json!({"now": true})).bearer_auth(&token),
            "keys_rotated",
            "success",
            json!({}),
        ),
        (
            "backup",
            post("/backups", json!({"folder": "here"})).bearer_auth(&token),
            "backup_begun",
            "refused",
            json!({"concerns": "here", "reason": "the backup cannot be begun", "status": 400}),
        ),
        ("early", post("/keys/rotate", json!({})).bearer_auth(&token), "keys_rotated", "refused", json!({})),
        ("reload", post("/reload", json!({})).bearer_auth(&token), "configuration_reloaded", "success", json!({})),
        (
            "strange",
            post("/reload", json!({})).bearer_auth(SECRET),
            "configuration_reloaded",
            "refused",
            json!({"status": 401}),
        ),
        // What the operator pastes into the wrong place may be the token.
        (
            "time",
            post("/roots", changed("time", SECRET)).bearer_auth(&token),
            "root_trusted",
            "refused",
            json!({"reason": "time is not valid"}),
        ),
        (
            "kind",
            post("/roots", changed("kind", SECRET)).bearer_auth(&token),
            "root_trusted",
            "refused",
            json!({"reason": "kind is malformed"}),
        ),
        (
            "key",
            post("/keys/revoke", json!({"kid": SECRET})).bearer_auth(&token),
            "key_revoked",
            "refused",
            json!({"reason": "no signing key has this id"}),
        ),
        (
            "account",
            post("/accounts/show", json!({"app_id": SECRET, "sub": SECRET})).bearer_auth(&token),
            "account_shown",
            "refused",
            json!({"reason": "sub is not valid", "status": 400}),
        ),
        (
            "subjects",
            post("/accounts/subjects", json!({"app_id": SECRET, "subject": "nullifier"})).bearer_auth(&token),
            "subjects_changed",
            "refused",
            json!({"reason": "no person has signed in to the application", "status": 404}),
        ),
    ];
    let log = expect_events(daemon, requests).await;
    let without_request: Vec<_> =
        events(&log).into_iter().filter(|line| line["span"].is_null()).map(|line| &line["fields"]["event"]).collect();
    assert_eq!(without_request, ["started", "stopped"]);
    let rotated = events(&log).into_iter().find(|line| line["fields"]["event"] == "keys_rotated").expect("an event");
    assert_eq!(rotated["fields"]["concerns"].as_str().map(str::len), Some(22), "the new key's id: {rotated:#}");
}

#[tokio::test]
async fn verifications_have_one_event_each_without_the_nullifier() {
    let daemon = LoggingDaemon::start(&[]);
    let http = reqwest::Client::new();
    let url = format!("{}/api/v4/verify/{DEV_APP}", daemon.process.verification);
    let good = prove(&daemon, "vote");
    let nullifier = good["responses"][0]["nullifier"].as_str().expect("text").to_owned();
    let mut bad = good.clone();
    bad["action"] = json!("another vote");
    let post = |body: &Value| http.post(&url).json(body);
    let requests = vec![
        ("first", post(&good), "proofs_verified", "success", json!({"client": DEV_APP, "status": 200})),
        ("again", post(&good), "proofs_verified", "success_again", json!({"client": DEV_APP})),
        ("bad", post(&bad), "proofs_verified", "refused", json!({"reason": "no proof verified: invalid_proof"})),
        (
            "foreign",
            post(&legacy()),
            "proofs_verified",
            "refused",
            json!({"concerns": DEV_APP, "reason": "no proof verified: invalid_merkle_root", "status": 400}),
        ),
        (
            "malformed",
            http.post(&url).header(CONTENT_TYPE, "application/json").body(format!("{{\"{SECRET}\"")),
            "proofs_verified",
            "refused",
            json!({"reason": "the body is not valid JSON"}),
        ),
    ];
    let log = expect_events(daemon, requests).await;
    let persons: Vec<_> =
        events(&log).into_iter().filter_map(|line| line["fields"]["person"].as_str().map(str::to_owned)).collect();
    assert_eq!(persons.len(), 2, "{log:#?}");
    assert!(persons[0] == persons[1] && persons[0].len() == 32, "{persons:?}");
    let digits = nullifier.trim_start_matches("0x").trim_start_matches('0');
    assert!(!log.iter().any(|line| line.to_string().contains(digits)), "a nullifier in clear: {log:#?}");
}

/// The file of a new wallet with an account, made by the program.
fn wallet(daemon: &LoggingDaemon) -> String {
    let wallet = daemon.data.path().join("wallet.json").to_str().expect("text").to_owned();
    let process = &daemon.process;
    let services = ["--gateway", &process.gateway, "--indexer", &process.indexer, "--wallet", &wallet];
    for command in ["new", "create-account"] {
        let (made, text) = crate::harness::run(&[&["wallet", command], &services[..]].concat());
        assert!(made, "{command}: {text}");
    }
    wallet
}

/// A current proof of a new wallet, made by the program.
fn prove(daemon: &LoggingDaemon, action: &str) -> Value {
    use crate::harness::run;

    let (process, wallet) = (&daemon.process, wallet(daemon));
    let data = daemon.data.path().to_str().expect("text");
    let arguments = ["wallet", "prove", "--wallet", &wallet, "--app", DEV_APP, "--kind", "uniqueness"];
    let daemon = ["--action", action, "--operator", &process.operator, "--data", data];
    let (proved, text) = run(&[&arguments[..], &daemon].concat());
    assert!(proved, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn a_sign_in_leaves_one_event_for_each_step() {
    let daemon = LoggingDaemon::start(&[]);
    let base = daemon.process.sign_in.clone();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let query = [
        ("client_id", DEV_APP),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("response_type", "code"),
        ("scope", "openid"),
        ("state", SECRET),
        ("nonce", SECRET),
    ];
    let authorize = |name: &'static str, changed: &[(&'static str, &'static str)]| {
        let kept = query.iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        let parameters: Vec<_> = kept.chain(changed).copied().collect();
        let url = reqwest::Url::parse_with_params(&format!("{base}/authorize"), parameters).expect("a URL");
        http.get(url).header("x-request-id", name)
    };
    // A sign-in that its person refuses, as programs see it.
    let begun = authorize("begun", &[]).header("accept", "application/json").send().await.expect("an answer");
    let begun: Value = begun.json().await.expect("JSON");
    let transaction = begun["transaction"].as_str().expect("an id").to_owned();
    let secret = begun["secret"].as_str().expect("a secret").to_owned();
    let of = |path: &str| format!("{base}/authorize/{transaction}/{path}");
    // Another one that its person cancels on the page.
    let cancelled = authorize("begun-2", &[]).header("accept", "application/json").send().await.expect("an answer");
    let cancelled: Value = cancelled.json().await.expect("JSON");
    let cancel = |secret: &str| {
        let transaction = cancelled["transaction"].as_str().expect("an id");
        http.post(format!("{base}/authorize/{transaction}/cancel")).bearer_auth(secret)
    };
    let cancelled_secret = cancelled["secret"].as_str().expect("a secret");
    let about_cancelled = json!({"concerns": cancelled["transaction"]});
    let about = json!({"concerns": transaction});
    let form = |path: &str, pairs: &[(&str, &str)]| http.post(format!("{base}{path}")).form(pairs);
    let code =
        [("grant_type", "authorization_code"), ("code", SECRET), ("redirect_uri", "http://localhost:3000/callback")];
    let client = json!({"client": DEV_APP, "status": 401, "reason": "the client secret is wrong"});
    let requests = vec![
        ("malformed", http.post(of("proof")).json(&json!({"a": 1})), "sign_in_answered", "refused", about.clone()),
        ("early", http.get(of("complete")).bearer_auth(&secret), "sign_in_completed", "refused", about.clone()),
        (
            "refused",
            http.post(of("proof")).json(&json!({"error": "access_denied"})),
            "sign_in_answered",
            "refused_by_person",
            about.clone(),
        ),
        ("complete", http.get(of("complete")).bearer_auth(&secret), "sign_in_completed", "success", about.clone()),
        ("stranger", cancel("x"), "sign_in_answered", "refused", about_cancelled.clone()),
        ("cancel", cancel(cancelled_secret), "sign_in_answered", "cancelled_by_person", about_cancelled.clone()),
        ("cancel-2", cancel(cancelled_secret), "sign_in_answered", "cancelled_by_person", about_cancelled),
        ("page", authorize("page", &[]), "sign_in_begun", "success", json!({"client": DEV_APP})),
        (
            "unknown",
            authorize("unknown", &[("client_id", "app_none")]),
            "sign_in_begun",
            "refused",
            json!({"client": Value::Null}),
        ),
        (
            "silent",
            authorize("silent", &[("prompt", "none")]),
            "sign_in_begun",
            "refused",
            json!({"client": DEV_APP, "status": 303}),
        ),
        ("guess", form("/token", &code).basic_auth(DEV_APP, Some(SECRET)), "tokens_issued", "refused", client.clone()),
        (
            "code",
            form("/token", &code).basic_auth(DEV_APP, Some("sk_dev_only")),
            "tokens_issued",
            "refused",
            json!({"client": DEV_APP, "reason": "the code is unknown"}),
        ),
        (
            "introspect",
            form("/introspect", &[("token", SECRET)]).basic_auth(DEV_APP, Some(SECRET)),
            "token_introspected",
            "refused",
            client,
        ),
        (
            "userinfo",
            http.get(format!("{base}/userinfo")).bearer_auth(SECRET),
            "userinfo_read",
            "refused",
            json!({"status": 401}),
        ),
        (
            "revoke",
            form("/revoke", &[("token", SECRET)]).basic_auth(DEV_APP, Some("sk_dev_only")),
            "token_revoked",
            "success",
            json!({"client": DEV_APP}),
        ),
        ("logout", http.get(format!("{base}/logout")), "session_ended", "no_session", json!({})),
        (
            "forged-logout",
            form("/logout", &[("confirmation", SECRET)]).header("sec-fetch-site", "cross-site"),
            "session_ended",
            "asked",
            json!({}),
        ),
        ("session", form("/session", &[("confirmation", SECRET)]), "session_ended", "no_session", json!({})),
    ];
    let log = expect_events(daemon, requests).await;
    let begun = events(&log).into_iter().find(|line| line["span"]["request_id"] == "begun").expect("an event");
    assert_eq!((&begun["fields"]["concerns"], &begun["fields"]["client"]), (&json!(transaction), &json!(DEV_APP)));
    assert!(!log.iter().any(|line| line.to_string().contains(&secret)), "{log:#?}");
}

/// Signs a new wallet in; returns the code.
fn code(daemon: &LoggingDaemon, wallet: &str) -> String {
    let process = &daemon.process;
    let url = format!(
        "{}/authorize?client_id={DEV_APP}&redirect_uri={CALLBACK}&response_type=code&scope=openid&state=s",
        process.sign_in
    );
    let data = daemon.data.path().to_str().expect("text");
    let arguments = ["wallet", "sign-in", &url, "--yes", "--wallet", wallet, "--operator", &process.operator];
    let (signed_in, text) = crate::harness::run(&[&arguments[..], &["--data", data]].concat());
    assert!(signed_in, "{text}");
    fragment_or_query(text.lines().last().expect("a target"))["code"].clone()
}

/// The client that was given the token, or the one that uses the code again, is not to be trusted.
/// A code that a wrong request used up has given no token.
#[tokio::test]
async fn a_code_that_is_used_again_is_an_alarm() {
    let daemon = LoggingDaemon::start(&[]);
    wait_for_signing_keys(&daemon.process.sign_in).await;
    let wallet = wallet(&daemon);
    let (redeemed, spoiled) = (code(&daemon, &wallet), code(&daemon, &wallet));
    let http = reqwest::Client::new();
    let exchange = |code: &str, redirect_uri: &str| {
        let form = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect_uri)];
        http.post(format!("{}/token", daemon.process.sign_in)).form(&form).basic_auth(DEV_APP, Some("sk_dev_only"))
    };
    let client = json!({"client": DEV_APP});
    let used_up = json!({"client": DEV_APP, "reason": "the code was used up by a wrong request"});
    let requests = vec![
        ("first", exchange(&redeemed, CALLBACK), "tokens_issued", "success", client.clone()),
        ("second", exchange(&redeemed, CALLBACK), "tokens_issued", "code_reused", client.clone()),
        ("wrong", exchange(&spoiled, "https://evil.example/"), "tokens_issued", "refused", client),
        ("retry", exchange(&spoiled, CALLBACK), "tokens_issued", "refused", used_up),
    ];
    let log = expect_events(daemon, requests).await;
    for (name, level) in [("second", "WARN"), ("wrong", "INFO"), ("retry", "INFO")] {
        let event = events(&log).into_iter().find(|line| line["span"]["request_id"] == name).expect("an event");
        assert_eq!(event["level"], level, "{event:#}");
    }
    assert!(!log.iter().any(|line| line.to_string().contains(&redeemed)), "{log:#?}");
}

/// A source past its limit writes at most one line a second.
#[tokio::test]
async fn requests_that_end_nothing_are_limited_by_source() {
    let daemon = LoggingDaemon::start(&[
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__REQUESTS", "16"),
        ("SELFSAME_LIMITS__SIGN_INS_PER_SOURCE__WINDOW", "1h"),
    ]);
    let base = daemon.process.sign_in.clone();
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let unknown = format!("{base}/authorize/{}/complete", "0".repeat(32));
    let requests = || {
        [
            http.get(format!("{base}/logout")),
            http.post(format!("{base}/session")).form(&[("confirmation", SECRET)]),
            http.get(&unknown).bearer_auth(SECRET),
        ]
    };
    for _ in 0..6 {
        for request in requests() {
            request.send().await.expect("an answer");
        }
    }
    for request in requests() {
        for accept in ["text/html", "application/json"] {
            let answer = request.try_clone().expect("no stream").header("accept", accept).send().await;
            let answer = answer.expect("an answer");
            assert_eq!(answer.status(), 429, "{answer:?}");
            let is_page = answer.headers()["content-type"].to_str().expect("text").starts_with("text/html");
            assert_eq!(is_page, accept == "text/html", "{answer:?}");
        }
    }
    daemon.end();
}

#[tokio::test]
async fn a_reload_has_an_event() {
    let daemon = LoggingDaemon::start(&[]);
    let log = daemon.data.path().join("log");
    daemon.process.hang_up();
    // The log is the only place that shows when the daemon has done it.
    until("the event of the reload", async || {
        let log = lines(&log);
        let reloads: Vec<_> =
            events(&log).into_iter().filter(|line| line["fields"]["event"] == "configuration_reloaded").collect();
        let [reload] = reloads[..] else { return Err(log) };
        assert_eq!(reload["fields"]["outcome"], "success", "{reload:#}");
        Ok(())
    })
    .await;
    daemon.end();
}
