//! What other clients, other applications and the log must not get from sign-in; and key changes
//! under load.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use reqwest::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, LOCATION, SET_COOKIE,
};
use reqwest::{Method, RequestBuilder, Response, Url};
use selfsame::config::SecretHash;
use selfsame::interface::Interface;
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use crate::certification::browser::posted_form;
use crate::harness::{DaemonProcess, folder};
use crate::registry_client::RawHttpConnection;
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, OTHER_APP, OTHER_APP_SECRET, SECRET, SignInAnswer, SignInTestClient, VERIFIER,
    accept_current_proofs, browser, current_proof, fragment_or_query, pair, parameters, two_applications, verified,
};

// Keys.

/// A key set and the time at which it was fetched, in Unix seconds.
struct FetchedKeys {
    at: u64,
    keys: Value,
}

/// Signs in silently with a browser's session, with and without the front channel, until `is_over`;
/// returns the ID tokens that the application gets.
async fn sign_in_until(client: &SignInTestClient, session: &str, is_over: &AtomicBool) -> Vec<String> {
    let mut id_tokens = Vec::new();
    // The bound is for a machine on which making a key takes very long.
    for round in 0..200 {
        let is_last = is_over.load(Ordering::Relaxed) && round > 0;
        let response = client.browse_silently(&[("response_type", "code")], session).await;
        let tokens = client.exchange(&response["code"]).await;
        assert_eq!(tokens.status, 200, "{tokens:?}");
        id_tokens.push(tokens.text("id_token").to_owned());
        let response = client.browse_silently(&[("response_type", "code id_token token")], session).await;
        id_tokens.push(response["id_token"].clone());
        let tokens = client.exchange(&response["code"]).await;
        id_tokens.push(tokens.text("id_token").to_owned());
        if is_last {
            break;
        }
    }
    id_tokens
}

/// Fetches the keys until `is_over`; returns each different key set.
async fn fetch_until(client: &SignInTestClient, is_over: &AtomicBool) -> Vec<FetchedKeys> {
    let mut fetched: Vec<FetchedKeys> = Vec::new();
    for _ in 0..500 {
        let keys = client.published_keys().await;
        if fetched.last().is_none_or(|last| last.keys != keys) {
            fetched.push(FetchedKeys { at: client.now(), keys });
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        tokio::task::yield_now().await;
    }
    fetched
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_verify_with_keys_fetched_within_an_hour_under_rotation() {
    const ROTATIONS: usize = 10;
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.sign_in.session_lifetime = Duration::from_secs(30 * 24 * 3600);
    })
    .await;
    let token = client.operator_token();
    let mut sessions = Vec::new();
    for person in ["alice", "bob", "carol", "dave"] {
        let session = pair(client.sign_in_by_page(person, &[], "").await.1);
        let hybrid = [("response_type", "code id_token token")];
        sessions.push(pair(client.sign_in_by_page(person, &hybrid, &session).await.1));
    }
    let (mut issued, mut fetched) = (Vec::new(), Vec::new());
    // A round is a quarter of an hour. Every fourth round, a little longer, changes the key; one
    // round in the middle tries to and is refused.
    for quarter in 1..=4 * ROTATIONS {
        client.daemon.clock.advance(Duration::from_secs(if quarter % 4 == 0 { 901 } else { 900 }));
        let is_over = AtomicBool::new(false);
        let rotating = async {
            if quarter % 4 == 0 {
                let rotated = client.rotate_keys("{}", &token).await;
                assert_eq!(rotated.status, 200, "{rotated:?}");
            } else if quarter == 4 * (ROTATIONS / 2) + 2 {
                assert_eq!(client.rotate_keys("{}", &token).await.status, 400, "too early");
            }
            is_over.store(true, Ordering::Relaxed);
        };
        let signing_in = join_all(sessions.iter().map(|session| sign_in_until(&client, session, &is_over)));
        let (id_tokens, keys, ()) = tokio::join!(signing_in, fetch_until(&client, &is_over), rotating);
        issued.extend(id_tokens.into_iter().flatten());
        fetched.extend(keys);
    }
    assert!(issued.len() > 4 * 4 * ROTATIONS, "{} tokens", issued.len());
    // Old and new keys have signed, and the tests saw each of them appear and disappear.
    let mut signed: BTreeMap<String, usize> = BTreeMap::new();
    let mut checked = 0;
    for id_token in &issued {
        *signed.entry(jsonwebtoken::decode_header(id_token).expect("a header").kid.expect("a name")).or_default() += 1;
        let claims = unverified_claims(id_token);
        let issued_at = claims["iat"].as_u64().expect("a time");
        // A token also verifies with keys that are fetched later, until it expires.
        for FetchedKeys { keys, .. } in fetched.iter().filter(|fetched| fetched.at.abs_diff(issued_at) <= 3600) {
            assert_eq!(verified(id_token, keys, &client.issuer(), APP), claims);
            checked += 1;
        }
    }
    assert_eq!(signed.len(), ROTATIONS + 1, "{signed:?}");
    assert!(checked > issued.len(), "{checked}");
    assert!(fetched.iter().all(|fetched| (2..=4).contains(&fetched.keys["keys"].as_array().map_or(0, Vec::len))));
    client.stop().await;
}

/// The claims of an ID token, unverified.
fn unverified_claims(id_token: &str) -> Value {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1).expect("claims")).expect("base64url");
    serde_json::from_slice(&claims).expect("JSON")
}

// The log.

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
    let path = page.headers()[SET_COOKIE].to_str().expect("text").split("; Path=").nth(1).expect("a path").to_owned();
    let base = url(path.split(';').next().expect("a path"));
    let (name, secret) = cookie_of(&page);
    let secret = secrets.keep("a transaction's secret", &secret);
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
    let proof = current_proof(&daemon.operator, &daemon.client(), &opened, "alice").await;
    secrets.keep("a proof", proof["responses"][0]["proof"][0].as_str().expect("text"));
    opened.answer_from(opened.request(), &proof, false).await.expect("accepted");
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
    let return_url = opened.answer_from(opened.request(), &proof, true).await.expect("accepted").expect("a return URL");
    secrets.keep("the secret of a return URL", return_url.split_once("return=").expect("a secret").1);
    let done = send(http.get(&return_url).bearer_auth(&secret)).await;
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

// Other applications.

#[tokio::test]
async fn a_code_is_useless_to_another_client() {
    let client = two_applications().await;
    let redirect = [("client_id", OTHER_APP), ("scope", "openid")];
    let (ours, theirs) = (client.code("alice", &[]).await, client.code("alice", &redirect).await);
    for (client_id, secret, code) in [(APP, SECRET, &theirs), (OTHER_APP, OTHER_APP_SECRET, &ours)] {
        let form = [("grant_type", "authorization_code"), ("code", &**code), ("redirect_uri", CALLBACK)];
        let refused = client.post_as(client_id, secret, "/token", &form).await;
        refused.expect_error(400, "invalid_grant", "invalid_grant");
        assert_eq!(refused.body["attribute"], "code", "like an unknown code: {refused:?}");
        // The client id of another client does not help either.
        let other = if client_id == APP { OTHER_APP } else { APP };
        let form = [&form[..], &[("client_id", other)]].concat();
        client.post_as(client_id, secret, "/token", &form).await.expect_error(
            400,
            "invalid_request",
            "invalid_request",
        );
    }
    // None of these requests used the codes.
    for (client_id, secret, code) in [(APP, SECRET, &ours), (OTHER_APP, OTHER_APP_SECRET, &theirs)] {
        let form = [("grant_type", "authorization_code"), ("code", &**code), ("redirect_uri", CALLBACK)];
        let granted = client.post_as(client_id, secret, "/token", &form).await;
        assert_eq!(granted.status, 200, "{granted:?}");
        client.claims_for(client_id, granted.text("id_token")).await;
        // A used code is still useless to the other client, and its try does not revoke the token.
        let (other, others) = if client_id == APP { (OTHER_APP, OTHER_APP_SECRET) } else { (APP, SECRET) };
        client.post_as(other, others, "/token", &form).await.expect_error(400, "invalid_grant", "invalid_grant");
        let answer = client.post_as(client_id, secret, "/introspect", &[("token", granted.text("access_token"))]).await;
        assert_eq!(answer.body["active"], true, "{answer:?}");
    }
    client.stop().await;
}

#[tokio::test]
async fn introspect_describes_a_token_only_to_its_client() {
    let client = two_applications().await;
    let token = |location: String| fragment_or_query(&location)["access_token"].clone();
    let types = [("response_type", "id_token token")];
    let ours = token(client.sign_in("alice", &types).await);
    let theirs = token(client.sign_in("alice", &[&types[..], &[("client_id", OTHER_APP)]].concat()).await);
    let unknown = client.post("/introspect", &[("token", "unknown")]).await;
    for (client_id, secret, own, other) in
        [(APP, SECRET, &ours, &theirs), (OTHER_APP, OTHER_APP_SECRET, &theirs, &ours)]
    {
        let answer = client.post_as(client_id, secret, "/introspect", &[("token", own)]).await;
        assert_eq!((&answer.body["active"], &answer.body["client_id"]), (&json!(true), &json!(client_id)));
        let answer = client.post_as(client_id, secret, "/introspect", &[("token", other)]).await;
        assert_eq!((answer.status, &answer.body), (unknown.status, &unknown.body));
        let names = |headers: &HeaderMap| {
            headers.keys().map(|name| name.as_str().to_owned()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names(&answer.headers), names(&unknown.headers));
    }
    // The same person has another subject at the other application.
    let subject = async |token: &str| {
        let request = client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(token);
        client.send(request).await.text("sub").to_owned()
    };
    assert_ne!(subject(&ours).await, subject(&theirs).await);
    client.stop().await;
}

#[tokio::test]
async fn a_proof_and_a_secret_belong_to_one_transaction() {
    let client = two_applications().await;
    let begin = async |client_id: &str| {
        let url = client.authorization_url(&[("client_id", client_id)]);
        let started = SignInAnswer::of(client.get(&url, "application/json").await).await;
        let session = SignInSession::open(started.text("request_url")).await.expect("the sign-in starts");
        (started, session)
    };
    let (ours, our_session) = begin(APP).await;
    let (again, again_session) = begin(APP).await;
    let (theirs, their_session) = begin(OTHER_APP).await;
    // A proof for one transaction does not answer another, of the same application or of another
    // one.
    let (operator, registry) = (client.daemon.operator(""), client.daemon.client());
    let proof = current_proof(&operator, &registry, &our_session, "alice").await;
    for session in [&again_session, &their_session] {
        let error = session.answer_from(session.request(), &proof, false).await.expect_err("another transaction");
        assert_eq!(error.code(), Some("invalid_request"), "{error}");
    }
    our_session.answer_from(our_session.request(), &proof, false).await.expect("accepted");
    // The secret of one transaction does not work for another.
    let base = |started: &SignInAnswer| started.text("request_url").trim_end_matches("/request").to_owned();
    for other in [&again, &theirs] {
        for path in ["progress", "complete", "events"] {
            let url = format!("{}/{path}", base(&ours));
            let bearer = client.http.get(&url).bearer_auth(other.text("secret"));
            client.send(bearer).await.expect_error(404, "not_found", "invalid_request");
            let cookie = format!("selfsame_transaction={}", other.text("secret"));
            let cookie = client.http.get(&url).header("Cookie", cookie);
            client.send(cookie).await.expect_error(404, "not_found", "invalid_request");
        }
    }
    let done = client.http.get(format!("{}/complete", base(&ours))).bearer_auth(ours.text("secret"));
    let done = done.send().await.expect("an answer");
    let code = &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"];
    assert_eq!(client.exchange(code).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn a_session_reveals_nothing_about_other_clients() {
    let client = two_applications().await;
    let other_app = [("client_id", OTHER_APP), ("response_type", "id_token")];
    let own = [("response_type", "id_token")];
    let (little, silent) = ([("scope", "openid")], [("prompt", "none")]);
    let (location, session) = client.sign_in_by_page("alice", &own, "").await;
    let session = pair(session);
    let ours = fragment_or_query(&location)["id_token"].clone();
    // The other application gets no answer, not even with an ID token of alice that it obtained.
    for more in [vec![], vec![("id_token_hint", &*ours)], vec![("max_age", "10000")], vec![("login_hint", "alice")]] {
        let changes = [&other_app[..], &little, &more].concat();
        let response = client.browse_silently(&[&changes[..], &silent].concat(), &session).await;
        assert_eq!(response["error"], "login_required", "{changes:?}");
        assert_eq!(client.browse(&changes, &session).await.status(), 200, "the person is asked");
    }
    // At the other application alice has another subject, and it gets that one.
    let (location, session) = client.sign_in_by_page("alice", &[&other_app[..], &little].concat(), &session).await;
    let session = pair(session);
    let theirs = client.claims_for(OTHER_APP, &fragment_or_query(&location)["id_token"]).await;
    let ours = client.claims(&ours).await;
    assert_ne!(ours["sub"], theirs["sub"]);
    let response = client.browse_silently(&[&other_app[..], &little, &silent].concat(), &session).await;
    let claims = client.claims_for(OTHER_APP, &response["id_token"]).await;
    assert_eq!(claims["sub"], theirs["sub"]);
    // Scopes that she approved for one application do not count for the other.
    let response = client.browse_silently(&[&other_app[..], &silent].concat(), &session).await;
    assert_eq!(response["error"], "login_required", "it asks for more than she has approved there");
    client.stop().await;
}

#[tokio::test]
async fn a_secret_of_one_kind_does_not_work_as_another() {
    let client = two_applications().await;
    let page = client.browse(&[], "").await;
    let (transaction, base) = client.transaction_of_page(&page);
    let transaction = transaction.split_once('=').expect("a pair").1;
    let (location, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let session = session.split_once('=').expect("a pair").1;
    let code = fragment_or_query(&location)["code"].clone();
    let granted = client.exchange(&client.code("alice", &[]).await).await;
    let (access, id_token) = (granted.text("access_token"), granted.text("id_token"));
    let operator = client.operator_token();
    let secrets =
        [transaction, session, &code, access, id_token, SECRET, &operator, base.rsplit('/').next().expect("an id")];
    for secret in secrets {
        if secret != code {
            client.exchange(secret).await.expect_error(400, "invalid_grant", "invalid_grant");
        }
        if secret != access {
            client.post("/introspect", &[("token", secret)]).await.expect_error(401, "invalid_token", "invalid_token");
            let userinfo = client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(secret);
            client.send(userinfo).await.expect_error(401, "invalid_token", "invalid_token");
        }
        if secret != session {
            let cookie = format!("selfsame_session={secret}");
            assert_eq!(client.browse_silently(&[("prompt", "none")], &cookie).await["error"], "login_required");
        }
        if secret != transaction {
            let complete = client.http.get(format!("{base}/complete")).bearer_auth(secret);
            client.send(complete).await.expect_error(404, "not_found", "invalid_request");
        }
        if secret != SECRET {
            client.post_as(APP, secret, "/introspect", &[("token", access)]).await.expect_error(
                401,
                "unauthenticated",
                "invalid_client",
            );
        }
        if secret != operator {
            assert_eq!(client.rotate_keys("{\"now\":true}", secret).await.status, 401);
        }
    }
    assert_eq!(client.exchange(&code).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn scripts_of_other_origins_read_nothing_with_cookies() {
    let client = two_applications().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let (transaction, base) = client.transaction_of_page(&client.browse(&[("prompt", "login")], &session).await);
    let cookies = format!("{session}; {transaction}");
    let authorize = client.authorization_url(&[]);
    for (method, url) in [
        (Method::GET, authorize.clone()),
        (Method::POST, client.daemon.sign_in("/authorize")),
        (Method::OPTIONS, client.daemon.sign_in("/authorize")),
        (Method::GET, format!("{base}/request")),
        (Method::OPTIONS, format!("{base}/proof")),
        (Method::GET, format!("{base}/complete")),
        (Method::OPTIONS, format!("{base}/complete")),
        (Method::OPTIONS, format!("{base}/progress")),
        (Method::POST, client.daemon.sign_in("/introspect")),
        (Method::OPTIONS, client.daemon.sign_in("/introspect")),
    ] {
        for accept in ["text/html", "application/json"] {
            let request = client.http.request(method.clone(), &url).header("Origin", "https://evil.example");
            let request = request.header("Access-Control-Request-Method", "GET").header(ACCEPT, accept);
            let answer = request.header("Cookie", &cookies).send().await.expect("an answer");
            assert_eq!(answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN), None, "{method} {url}");
        }
    }
    // Endpoints that scripts of any origin may read ignore cookies and ask for none.
    let request = client.http.get(client.daemon.sign_in("/userinfo")).header("Origin", "https://evil.example");
    let answer = request.header("Cookie", &cookies).send().await.expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN]),
        (401, &"*".parse().expect("a value"))
    );
    assert_eq!(answer.headers().get("access-control-allow-credentials"), None);
    client.stop().await;
}

// Markup.

/// Text that a browser would run if an answer repeated it unchanged.
const MARKUP: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

/// Asserts that an answer has no part of [`MARKUP`] where a browser would read it as markup or as a
/// header; returns its text.
async fn assert_no_markup(answer: Response, what: &str) -> String {
    let (status, headers) = (answer.status(), answer.headers().clone());
    for (name, value) in &headers {
        let value = value.to_str().expect("text");
        let is_plain = !value.contains(['<', '>']) && (name != LOCATION || !value.contains(['"', '\'', ' ', '\\']));
        assert!(is_plain, "{what}: {name}: {value}");
    }
    let text = answer.text().await.expect("text");
    match headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("text")) {
        Some("text/html; charset=utf-8") => {
            for part in ["<script>alert", "<img", "\"'", "alert(1)<", "alert(1)>"] {
                assert!(!text.contains(part), "{what}: {text}");
            }
            let policy = headers[CONTENT_SECURITY_POLICY].to_str().expect("text");
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{what}: {policy}");
            assert_eq!(headers["x-content-type-options"], "nosniff", "{what}");
        }
        Some("application/json") => {
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
        }
        other => assert!(other.is_none() && text.is_empty(), "{what}: {status} {other:?}: {text}"),
    }
    text
}

#[tokio::test]
async fn parameters_of_authorize_are_escaped_in_pages() {
    let client = two_applications().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let names = [
        "client_id",
        "redirect_uri",
        "state",
        "response_type",
        "response_mode",
        "scope",
        "nonce",
        "code_challenge",
        "code_challenge_method",
        "prompt",
        "max_age",
        "id_token_hint",
        "login_hint",
        "display",
        "ui_locales",
        "claims_locales",
        "acr_values",
        "request",
        "request_uri",
        "claims",
        "registration",
        "iss",
        "error",
        MARKUP,
    ];
    for name in names {
        for others in [
            vec![],
            vec![("prompt", "none")],
            vec![("response_mode", "form_post")],
            vec![("response_mode", "form_post"), ("prompt", "none")],
            vec![("response_mode", "form_post"), ("response_type", "id_token"), ("scope", "email")],
            vec![("response_mode", "fragment"), ("request_uri", "x")],
            vec![("client_id", "app_unknown")],
        ] {
            let others: Vec<_> = others.into_iter().filter(|(other, _)| *other != name).collect();
            let changes = [&others[..], &[(name, MARKUP)]].concat();
            let url = client.authorization_url(&changes);
            for cookie in ["", &session, &format!("selfsame_session={MARKUP}; selfsame_transaction={MARKUP}")] {
                for accept in ["text/html", "*/*", "application/json"] {
                    let get = client.http.get(&url);
                    let post = client.http.post(client.daemon.sign_in("/authorize")).form(&parameters(&changes));
                    for request in [get, post] {
                        let answer = request.header(ACCEPT, accept).header("Cookie", cookie).send().await;
                        assert_no_markup(answer.expect("an answer"), &format!("{name} with {others:?}")).await;
                    }
                }
            }
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn posted_responses_repeat_the_parameters_exactly() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].rename(MARKUP);
        config.apps[0].redirect_uris = vec!["https://app.example/callback?a=1&b='2'&c=%22".to_owned()];
    })
    .await;
    let uri = "https://app.example/callback?a=1&b='2'&c=%22";
    let changes = [("redirect_uri", uri), ("state", MARKUP), ("response_mode", "form_post")];
    let shown = assert_no_markup(client.browse(&changes, "").await, "the page of an application").await;
    assert!(shown.contains("&lt;script&gt;alert(1)"), "{shown}");
    for more in [("prompt", "none"), ("scope", "x")] {
        let changes = [&changes[..], &[more]].concat();
        let page = assert_no_markup(client.browse(&changes, "").await, "a form").await;
        let (action, fields) = posted_form(&page);
        assert_eq!((&*action, &*fields["state"]), (uri, MARKUP));
    }
    let page = client.browse(&changes, "").await;
    let done = client.answer_page(page, "alice", "").await;
    let (action, fields) = posted_form(&assert_no_markup(done, "a response").await);
    assert_eq!((&*action, &*fields["state"], fields.contains_key("code")), (uri, MARKUP, true));
    client.stop().await;
}

#[tokio::test]
async fn input_of_other_endpoints_is_never_markup_in_an_answer() {
    let client = two_applications().await;
    let code = client.code("alice", &[]).await;
    let post = |path: &str| client.http.post(client.daemon.sign_in(path)).header(ACCEPT, "text/html");
    let mut requests: Vec<(String, RequestBuilder)> = Vec::new();
    for path in ["/token", "/introspect", "/userinfo"] {
        let fields = [
            "grant_type",
            "code",
            "redirect_uri",
            "code_verifier",
            "client_id",
            "client_secret",
            "token",
            "token_type_hint",
            "access_token",
            MARKUP,
        ];
        let usual = [("grant_type", "authorization_code"), ("code", &*code), ("token", "x")];
        for field in fields {
            let kept = usual.iter().copied().filter(|(name, _)| *name != field);
            let form: Vec<(&str, &str)> = kept.chain([(field, MARKUP)]).collect();
            let twice = [&form[..], &[(field, MARKUP)]].concat();
            for form in [&form, &twice] {
                requests.push((format!("{field} at {path}"), post(path).form(form)));
                requests.push((format!("{field} at {path}"), post(path).basic_auth(APP, Some(SECRET)).form(form)));
                requests.push((format!("{field} at {path}"), post(path).bearer_auth("x").form(form)));
            }
        }
        for name in
            ["Authorization", "Content-Type", "Cookie", "X-Request-Id", "Origin", "Forwarded", "Content-Encoding"]
        {
            let values =
                [MARKUP.to_owned(), format!("Basic {MARKUP}"), format!("Bearer {MARKUP}"), format!("text/{MARKUP}")];
            for value in values {
                let request = post(path).header(CONTENT_TYPE, "application/x-www-form-urlencoded").header(name, value);
                requests.push((format!("{name} at {path}"), request.body("token=x")));
            }
        }
        requests.push((format!("credentials at {path}"), post(path).basic_auth(MARKUP, Some(MARKUP)).form(&usual)));
    }
    let (_, base) = client.transaction_of_page(&client.browse(&[], "").await);
    let encoded: String = MARKUP.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let issuer = client.issuer();
    for url in [
        format!("{issuer}/{encoded}"),
        format!("{issuer}/authorize/{encoded}/request"),
        format!("{issuer}/authorize/{encoded}/complete"),
        format!("{issuer}/authorize/{encoded}/{encoded}"),
        format!("{issuer}/.well-known/{encoded}"),
        format!("{issuer}/token/{encoded}?{encoded}={encoded}"),
        format!("{issuer}/userinfo?access_token={encoded}"),
        format!("{base}/{encoded}"),
        format!("{base}/complete?{encoded}"),
    ] {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let request = client.http.request(method.clone(), &url).header(ACCEPT, "text/html");
            requests
                .push((format!("{method} {url}"), request.header("Cookie", format!("selfsame_transaction={MARKUP}"))));
        }
    }
    for body in [json!({"error": MARKUP}), json!({MARKUP: MARKUP}), json!({"protocol_version": MARKUP}), json!(MARKUP)]
    {
        let request = client.http.post(format!("{base}/proof")).header(ACCEPT, "text/html");
        requests.push((format!("{body} as an answer"), request.json(&body)));
    }
    for (what, request) in requests {
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_client_error(), "{what}: {answer:?}");
        // These errors may be pages for people; all others are for programs.
        let is_json = answer.headers()[CONTENT_TYPE] == "application/json";
        assert!(is_json || what.contains("/authorize/"), "{what}: {answer:?}");
        assert_no_markup(answer, &what).await;
    }
    let shown = client.get(&format!("{base}/request?{encoded}={encoded}"), "text/html").await;
    assert_no_markup(shown, "the address of a proof request").await;
    client.stop().await;
}

/// A client other than a browser can send any path.
#[tokio::test]
async fn malformed_paths_are_never_markup_in_an_answer() {
    let client = two_applications().await;
    for path in [
        "/\"onload=alert(1)//{}",
        "/<script>alert(1)</script>",
        "/authorize/<script>alert(1)</script>/complete",
        "/authorize?state=<script>alert(1)</script>&client_id=\"'><img src=x>",
        "//evil.example/%2e%2e",
        "http://evil.example/<script>",
    ] {
        let mut connection = RawHttpConnection::open(client.daemon.addresses[Interface::SignIn]).await;
        connection.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\naccept: text/html\r\n\r\n")).await;
        let (status, headers, body) = connection.reply().await.expect("an answer");
        let text = String::from_utf8_lossy(&body).into_owned();
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().expect("text").to_owned());
        assert!((400..500).contains(&status), "{path}: {status} {text}");
        match content_type.as_deref() {
            Some("application/json") => {}
            Some("text/html; charset=utf-8") => assert!(!text.contains("<script") && !text.contains("<img"), "{text}"),
            other => assert!(other.is_none() && text.is_empty(), "{path}: {other:?} {text}"),
        }
    }
    client.stop().await;
}
