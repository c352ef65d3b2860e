//! Secrets of sign-in that the log must not contain.

use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, LOCATION, SET_COOKIE};
use reqwest::{RequestBuilder, Response, Url};
use selfsame::config::SecretHash;
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::json;

use crate::certification::browser::posted_form;
use crate::harness::{DaemonProcess, folder};
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, SignInAnswer, VERIFIER, browser, current_proof, fragment_or_query, parameters,
    unverified_claims, wait_for_signing_keys,
};

/// All secrets that must not be in the log, each with a description.
#[derive(Default)]
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn keep(&mut self, what: &'static str, secret: &str) -> String {
        assert!(secret.len() >= 8, "{what} is too short to be looked for: {secret}");
        self.0.push((what, secret.to_owned()));
        secret.to_owned()
    }
}

/// Everything that one person and the application do with a daemon, with right and wrong requests.
async fn make_all_requests(
    daemon: &DaemonProcess,
    http: &reqwest::Client,
    secrets: &mut Secrets,
    client_secret: &str,
    operator: &str,
) {
    let url = |path: &str| format!("{}{path}", daemon.sign_in);
    let send = async |request: RequestBuilder| request.send().await.expect("an answer");
    let cookie_of = |response: &Response| {
        let cookie = response.headers()[SET_COOKIE].to_str().expect("text").split(';').next().expect("a pair");
        cookie.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).expect("a pair")
    };
    let (state, nonce) = ("a-state-to-look-for", "a-nonce-to-look-for");
    secrets.keep("a state", state);
    secrets.keep("a nonce", nonce);
    secrets.keep("a PKCE verifier", VERIFIER);
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256"), ("state", state), ("nonce", nonce)];
    let authorize = |more: &[(&str, &str)]| {
        let changes = [&pkce[..], more].concat();
        Url::parse_with_params(&url("/authorize"), parameters(&changes)).expect("a URL")
    };

    // A sign-in through the page, with every token through the front channel.
    let hybrid = [("response_type", "code id_token token")];
    let page = send(http.get(authorize(&hybrid)).header(ACCEPT, "text/html")).await;
    let base = url(page.headers()[LOCATION].to_str().expect("text"));
    let (name, secret) = cookie_of(&page);
    let secret = secrets.keep("a transaction's secret", &secret);
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
    let proof = current_proof(&daemon.operator, &daemon.client(), &opened, "alice").await;
    secrets.keep("a proof", proof["responses"][0]["proof"][0].as_str().expect("text"));
    opened.answer_from(opened.request(), &proof, Place::Unsaid).await.expect("accepted");
    let done = send(http.get(format!("{base}/complete")).header("Cookie", format!("{name}={secret}"))).await;
    let (session_name, session) = cookie_of(&done);
    let session = format!("{session_name}={}", secrets.keep("a session's secret", &session));
    let code = &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"];
    let code = secrets.keep("a code", code);

    // The code is exchanged with wrong credentials, with the right ones, and a second time.
    let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
    let form = [&form[..], &[("code_verifier", VERIFIER)]].concat();
    let token = || http.post(url("/token")).basic_auth(APP, Some(client_secret));
    let wrong = secrets.keep("a wrong secret", "sk_of_a_guessing_client");
    secrets.keep("credentials", &STANDARD.encode(format!("{APP}:{client_secret}")));
    secrets.keep("wrong credentials", &STANDARD.encode(format!("{APP}:{wrong}")));
    for request in [
        http.post(url("/token")).basic_auth(APP, Some(&wrong)).form(&form),
        http.post(url("/token")).form(&[&form[..], &[("client_id", APP), ("client_secret", &wrong)]].concat()),
        http.post(url("/token")).form(&[&form[..], &[("client_secret", client_secret)]].concat()),
        token().json(&json!({"code": code, "client_secret": client_secret})),
        token().form(&[("code", &*code), ("code", &*code)]),
        token().form(&[("grant_type", &*code), ("code", &*code)]),
        http.get(url(&format!("/token?code={code}&client_secret={client_secret}"))),
    ] {
        assert!(send(request).await.status().is_client_error());
    }
    let tokens = SignInAnswer::of(send(token().form(&form)).await).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let access = secrets.keep("an access token", tokens.text("access_token"));
    let id_token = secrets.keep("an ID token", tokens.text("id_token"));
    for part in id_token.split('.') {
        secrets.keep("a part of an ID token", part);
    }
    secrets.keep("a subject", unverified_claims(&id_token)["sub"].as_str().expect("text"));

    // The token is used correctly and incorrectly.
    let introspect = || http.post(url("/introspect")).basic_auth(APP, Some(client_secret));
    let userinfo = url("/userinfo");
    for (request, status) in [
        (introspect().form(&[("token", &*access)]), 200),
        (introspect().form(&[("token", &*id_token)]), 401),
        (http.post(url("/introspect")).basic_auth(APP, Some(&wrong)).form(&[("token", &*access)]), 401),
        (http.get(&userinfo).bearer_auth(&access), 200),
        (http.post(&userinfo).form(&[("access_token", &*access)]), 200),
        (http.get(&userinfo).bearer_auth(&id_token), 401),
        (http.get(format!("{userinfo}?access_token={access}")), 401),
        (http.get(&userinfo).basic_auth(&access, Some(&access)), 401),
        (http.get(url(&format!("/nowhere/{access}"))), 404),
        (http.get(url(&format!("/authorize/{secret}/complete"))), 404),
        (http.get(format!("{base}/progress")).bearer_auth(&access), 404),
        (token().form(&form), 400),
        (http.get(&userinfo).bearer_auth(&access), 401),
    ] {
        assert_eq!(send(request).await.status(), status);
    }

    // Silent sign-ins with every token through the front channel, as a redirect and as a form; with
    // a hint; with a wrong verifier.
    for mode in ["fragment", "form_post"] {
        let more = [("response_type", "code id_token token"), ("response_mode", mode), ("id_token_hint", &*id_token)];
        let silent = http.get(authorize(&more)).header(ACCEPT, "text/html").header("Cookie", &session);
        let answer = send(silent).await;
        let fields = match answer.headers().get(LOCATION) {
            Some(location) => fragment_or_query(location.to_str().expect("text")),
            None => posted_form(&answer.text().await.expect("text")).1,
        };
        for (name, what) in [("code", "a code"), ("access_token", "an access token"), ("id_token", "an ID token")] {
            secrets.keep(what, &fields[name]);
        }
        let verifier = secrets.keep("a wrong verifier", &VERIFIER.replace('d', "e"));
        let form = [("grant_type", "authorization_code"), ("code", &fields["code"]), ("redirect_uri", CALLBACK)];
        let form = [&form[..], &[("code_verifier", &*verifier)]].concat();
        assert_eq!(send(token().form(&form)).await.status(), 400);
    }

    // A sign-in of the JSON form.
    let started = SignInAnswer::of(send(http.get(authorize(&[])).header(ACCEPT, "application/json")).await).await;
    let secret = secrets.keep("a program's secret", started.text("secret"));
    let opened = SignInSession::open(started.text("request_url")).await.expect("the sign-in starts");
    let proof = current_proof(&daemon.operator, &daemon.client(), &opened, "bob").await;
    let onward = opened.answer_from(opened.request(), &proof, Place::Here).await.expect("accepted");
    let return_url = onward.return_url().expect("a return URL");
    secrets.keep("the secret of a return URL", return_url.split_once("return=").expect("a secret").1);
    let done = send(http.get(return_url).bearer_auth(&secret)).await;
    secrets.keep("a code", &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"]);

    // The end of the session and of a token.
    let revoke = http.post(url("/revoke")).basic_auth(APP, Some(client_secret)).form(&[("token", &*access)]);
    assert_eq!(send(revoke).await.status(), 200);
    let asked = send(http.get(url("/session")).header("Cookie", &session)).await.text().await.expect("text");
    secrets.keep("the confirmation of a session", &posted_form(&asked).1["confirmation"]);
    let logout = http.get(url(&format!("/logout?id_token_hint={id_token}"))).header("Cookie", &session);
    assert!(send(logout).await.headers().contains_key(SET_COOKIE), "the session has ended");

    // Requests to the operator interface.
    let wrong = secrets.keep("a wrong operator's token", "operator-token-that-is-wrong");
    for (token, status) in [(&*wrong, 401), (operator, 200)] {
        let rotate = http.post(format!("{}/keys/rotate", daemon.operator)).bearer_auth(token);
        assert_eq!(send(rotate.json(&json!({"now": true}))).await.status(), status);
    }
}

#[tokio::test]
async fn no_secret_is_in_the_log() {
    let folder = folder();
    let log = folder.path().join("log");
    let data = folder.path().join("data");
    let mut secrets = Secrets::default();
    let client_secret = secrets.keep("the client's secret", "sk_that_must_not_be_in_the_log");
    let hash = SecretHash::of([9; 16], &client_secret).to_text();
    secrets.keep("the hash of the client's secret", hash.rsplit(':').next().expect("a digest"));
    let apps = format!(
        r#"[{{ id = "{APP}", proof = "current", client_secret_hash = "{hash}", redirect_uris = ["{CALLBACK}"], response_types = ["code", "code id_token token"] }}]"#
    );
    let variables = [("SELFSAME_APPS", &*apps), ("RUST_LOG", "trace")];
    let file = std::fs::File::create(&log).expect("a file for the log");
    let daemon = DaemonProcess::start_with_log(&data, &[], &variables, Stdio::from(file));
    wait_for_signing_keys(&daemon.sign_in).await;
    let operator = std::fs::read_to_string(data.join("operator.token")).expect("the token");
    let operator = secrets.keep("the operator's token", operator.trim());
    // HTTP/2 takes another path, and its library writes log lines of its own.
    let second = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let second = second.http2_prior_knowledge().build().expect("a client");
    for http in [browser(), second] {
        make_all_requests(&daemon, &http, &mut secrets, &client_secret, &operator).await;
    }
    assert!(daemon.terminate().success());

    let log = std::fs::read_to_string(&log).expect("the log");
    // The log contains everything that happened.
    for part in ["/token", "/userinfo", "/introspect", "/authorize/{transaction}/complete", "\"TRACE\"", "h2::"] {
        assert!(log.contains(part), "no {part} in the log of {} bytes", log.len());
    }
    let mut found = Vec::new();
    for (what, secret) in &secrets.0 {
        let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        let written = serde_json::to_string(secret).expect("JSON");
        let forms = [secret.as_str(), &encoded, written.trim_matches('"')];
        if let Some(line) = log.lines().find(|line| forms.iter().any(|form| line.contains(form))) {
            found.push((what, line));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
