//! Sign-in over HTTP: complete flows with a wallet that answers, and everything that must be
//! refused.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, SET_COOKIE,
    WWW_AUTHENTICATE,
};
use selfsame::config::SignInProof;
use selfsame_interfaces::interface::Interface;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{START, TestDaemon};
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, PRODUCTION_APP, SECRET, SignInAnswer, SignInTestClient, VERIFIER,
    accept_current_proofs, fragment_or_query, parameters, random,
};
use crate::test_accounts::person_of;

#[tokio::test]
async fn a_genuine_proof_gives_a_code_and_its_tokens() {
    let client = SignInTestClient::start_with_keys(|_| {}).await;
    let location = client.sign_in("alice", &[]).await;
    assert!(location.starts_with("http://localhost:3000/callback?code="), "{location}");
    let response = fragment_or_query(&location);
    assert_eq!((&*response["state"], &*response["iss"], response.len()), ("the state", &*client.issuer(), 3));
    let tokens = client.exchange(&response["code"]).await;
    assert_eq!((tokens.status, tokens.header(CACHE_CONTROL)), (200, "no-store"), "{tokens:?}");
    let shape = ["token_type", "expires_in", "scope"].map(|name| tokens.body[name].clone());
    assert_eq!(shape, [json!("Bearer"), json!(3600), json!("openid email profile")]);

    let claims = client.claims(tokens.body["id_token"].as_str().expect("a token")).await;
    let now = START.as_secs();
    let (subject, issuer) = (claims["sub"].as_str().expect("text"), client.issuer());
    assert!(subject.starts_with("0x") && subject.len() == 66 && *subject == subject.to_lowercase(), "{subject}");
    for (name, expected) in [
        ("nonce", json!("the nonce")),
        ("aud", json!(APP)),
        ("iat", json!(now)),
        ("exp", json!(now + 3600)),
        ("auth_time", json!(now)),
        ("email", json!(format!("{subject}@{}", client.daemon.addresses[Interface::SignIn].ip()))),
        ("name", json!("World ID User")),
        (&format!("{issuer}/v1"), json!({"verification_level": "orb"})),
        (&format!("{issuer}/beta"), json!({"likely_human": "strong", "credential_type": "orb"})),
    ] {
        assert_eq!(claims[name], expected, "{name}");
    }
    assert!(claims["at_hash"].is_string() && claims["c_hash"].is_null() && claims["jti"].is_string(), "{claims}");

    let token = tokens.body["access_token"].as_str().expect("a token");
    let url = client.daemon.sign_in("/userinfo");
    let mut answers = Vec::new();
    for request in [
        client.http.get(&url).bearer_auth(token),
        client.http.post(&url).bearer_auth(token),
        client.http.post(&url).form(&[("access_token", token)]),
    ] {
        let answer = SignInAnswer::of(request.send().await.expect("an answer")).await;
        assert_eq!((answer.status, answer.header(ACCESS_CONTROL_ALLOW_ORIGIN)), (200, "*"), "{answer:?}");
        answers.push(answer.body);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    for (name, value) in answers[0].as_object().expect("claims") {
        assert_eq!(claims[name], *value, "user-info and ID token say the same of {name}");
    }
    let introspected = client.post("/introspect", &[("token", token)]).await;
    let expected = json!({
        "active": true, "client_id": APP, "exp": now + 3600, "iat": now, "iss": issuer, "scope": "openid email profile",
        "sub": subject, "token_type": "Bearer",
    });
    assert_eq!((introspected.status, introspected.body), (200, expected));
    // The same person has the same subject; an hour later the token has expired.
    let again = client.exchange(&client.code("alice", &[]).await).await;
    assert_eq!(client.claims(again.body["id_token"].as_str().expect("a token")).await["sub"], *subject);
    client.daemon.clock.advance(Duration::from_secs(3600));
    client.post("/introspect", &[("token", token)]).await.expect_error(401, "invalid_token", "invalid_token");
}

#[tokio::test]
async fn every_response_type_and_mode_delivers_its_parts() {
    let client = SignInTestClient::start().await;
    for (response_type, parts) in [
        ("id_token", vec!["id_token"]),
        ("id_token token", vec!["access_token", "id_token"]),
        ("token id_token", vec!["access_token", "id_token"]),
        ("code id_token", vec!["code", "id_token"]),
        ("code token", vec!["access_token", "code"]),
        ("code id_token token", vec!["access_token", "code", "id_token"]),
    ] {
        let location = client.sign_in("alice", &[("response_type", response_type)]).await;
        assert!(location.starts_with("http://localhost:3000/callback#"), "{location}");
        let response = fragment_or_query(&location);
        let found: Vec<&str> =
            ["access_token", "code", "id_token"].into_iter().filter(|part| response.contains_key(*part)).collect();
        assert_eq!(found, parts, "{response_type}");
        assert_eq!((&*response["state"], &*response["iss"]), ("the state", &*client.issuer()));
        if let Some(token) = response.get("id_token") {
            let claims = client.claims(token).await;
            assert_eq!(claims["nonce"], "the nonce");
            assert_eq!(claims["at_hash"].is_string(), parts.contains(&"access_token"), "{response_type}");
            assert_eq!(claims["c_hash"].is_string(), parts.contains(&"code"), "{response_type}");
        }
        if let Some(token) = response.get("access_token") {
            assert_eq!((&*response["token_type"], &*response["expires_in"]), ("Bearer", "3600"));
            assert_eq!(client.post("/introspect", &[("token", token)]).await.body["active"], true);
        }
        if let Some(code) = response.get("code") {
            assert_eq!(client.exchange(code).await.status, 200, "{response_type}");
        }
    }
    for response_type in ["code", "id_token", "code id_token token"] {
        let changes = [("response_type", response_type), ("response_mode", "form_post"), ("state", "\"><b>")];
        let posted: Value = serde_json::from_str(&client.sign_in("alice", &changes).await).expect("JSON");
        assert_eq!((&posted["action"], &posted["fields"]["state"]), (&json!(CALLBACK), &json!("\"><b>")), "{posted}");
    }
    let fragment = client.sign_in("alice", &[("response_mode", "fragment")]).await;
    assert!(fragment.starts_with("http://localhost:3000/callback#code="), "{fragment}");
}

#[tokio::test]
async fn codes_work_once_for_their_client_and_their_request() {
    let client = SignInTestClient::start().await;
    let used = client.code("alice", &[]).await;
    let first = client.exchange(&used).await;
    let token = first.body["access_token"].as_str().expect("a token");
    let again = client.exchange(&used).await;
    again.expect_error(400, "invalid_grant", "invalid_grant");
    assert!(again.text("detail").contains("redeemed before"), "{again:?}");
    // The second use revokes the token of the first.
    client.post("/introspect", &[("token", token)]).await.expect_error(401, "invalid_token", "invalid_token");

    // A request of another client fails and does not use the code.
    let code = client.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
    let other = client.http.post(client.daemon.sign_in("/token")).basic_auth(PRODUCTION_APP, Some(SECRET)).form(&form);
    SignInAnswer::of(other.send().await.expect("an answer")).await.expect_error(400, "invalid_grant", "invalid_grant");
    assert_eq!(client.exchange(&code).await.status, 200);

    // A request with any other error uses the code.
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let another = "without the redirect_uri of the authorization request";
    let wrong = "whose code_verifier does not go with the code_challenge";
    for (asked, changes, attribute, why) in [
        (vec![], vec![("redirect_uri", "http://127.0.0.1:3000/callback")], "redirect_uri", another),
        (vec![], vec![("redirect_uri", "")], "redirect_uri", another),
        (vec![], vec![("code_verifier", VERIFIER)], "code_verifier", "the authorization request had no code_challenge"),
        (pkce.to_vec(), vec![], "code_verifier", "without code_verifier"),
        (pkce.to_vec(), vec![("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXx")], "code_verifier", wrong),
        (pkce.to_vec(), vec![("code_verifier", "short")], "code_verifier", wrong),
    ] {
        let code = client.code("alice", &asked).await;
        let mut form = vec![("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        form.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        form.extend(changes);
        let answer = client.post("/token", &form).await;
        answer.expect_error(400, "invalid_grant", "invalid_grant");
        assert_eq!(answer.body["attribute"], attribute, "{answer:?}");
        form.retain(|(name, _)| !["redirect_uri", "code_verifier"].contains(name));
        form.extend([("redirect_uri", CALLBACK), ("code_verifier", VERIFIER)]);
        // Libraries repeat a refused request, and report the second answer. It says why.
        let again = client.post("/token", &form).await;
        again.expect_error(400, "invalid_grant", "invalid_grant");
        let detail = again.text("detail");
        assert!(detail.starts_with("the code was used up by a request ") && detail.contains(why), "{again:?}");
        // Another client learns nothing of it.
        let other = client.http.post(client.daemon.sign_in("/token")).basic_auth(PRODUCTION_APP, Some(SECRET));
        let other = client.send(other.form(&form)).await;
        assert!(other.text("detail").contains("is unknown, has expired, was used"), "{other:?}");
    }
    let code = client.code("alice", &pkce).await;
    let form = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    assert_eq!(client.post("/token", &form).await.status, 200);

    let late = client.code("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(60));
    client.exchange(&late).await.expect_error(400, "invalid_grant", "invalid_grant");
}

/// As at a replica whose clock is wrong.
#[tokio::test]
async fn a_second_use_ends_the_token_whatever_the_clock_shows() {
    let client = SignInTestClient::start().await;
    let right = START;
    for ahead in [Duration::from_secs(600), Duration::from_secs(4000)] {
        let code = client.code("alice", &[]).await;
        let first = client.exchange(&code).await;
        let token = first.body["access_token"].as_str().expect("a token");
        client.daemon.clock.set(right + ahead);
        client.exchange(&code).await.expect_error(400, "invalid_grant", "invalid_grant");
        client.daemon.clock.set(right);
        client.post("/introspect", &[("token", token)]).await.expect_error(401, "invalid_token", "invalid_token");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_token_requests_redeem_a_code_once() {
    let mut client = SignInTestClient::start().await;
    let code = client.code("alice", &[]).await;
    let answers = join_all((0..8).map(|_| client.exchange(&code))).await;
    let granted: Vec<&SignInAnswer> = answers.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(granted.len(), 1, "{answers:?}");
    // The other requests were second uses, which revoke the token.
    let token = granted[0].body["access_token"].as_str().expect("a token").to_owned();
    client.post("/introspect", &[("token", &token)]).await.expect_error(401, "invalid_token", "invalid_token");

    let (before, after) = (client.code("alice", &[]).await, client.code("bob", &[]).await);
    let granted = client.exchange(&before).await;
    let token = granted.body["access_token"].as_str().expect("a token").to_owned();
    let id_token = granted.body["id_token"].as_str().expect("a token").to_owned();
    let address = client.daemon.addresses[Interface::SignIn];
    let SignInTestClient { daemon, http, folder } = client;
    daemon.stop().await;
    let daemon = TestDaemon::start_with(folder.path(), |config| {
        accept_current_proofs(config);
        config.listen[Interface::SignIn] = address;
    })
    .await;
    client = SignInTestClient { daemon, http, folder };
    assert_eq!(client.post("/introspect", &[("token", &token)]).await.body["active"], true);
    client.claims(&id_token).await;
    assert_eq!(client.exchange(&after).await.status, 200);
    client.exchange(&before).await.expect_error(400, "invalid_grant", "invalid_grant");
    client.post("/introspect", &[("token", &token)]).await.expect_error(401, "invalid_token", "invalid_token");
}

#[tokio::test]
async fn a_transaction_belongs_to_its_browser_and_is_answered_once() {
    let client = SignInTestClient::start().await;
    let started = SignInAnswer::of(client.get(&client.authorization_url(&[]), "application/json").await).await;
    assert_eq!(started.status, 200, "{started:?}");
    let transaction = started.body["transaction"].as_str().expect("an id");
    let secret = started.body["secret"].as_str().expect("a secret");
    assert_eq!((transaction.len(), &started.body["expires_at"]), (32, &json!(START.as_secs() + 300)));
    let url = |path: &str| client.daemon.sign_in(&format!("/authorize/{transaction}/{path}"));
    // A request without the secret gets nothing.
    for stranger in ["", "wrong", transaction] {
        for path in ["progress", "complete"] {
            let answer = client.http.get(url(path)).bearer_auth(stranger).send().await.expect("an answer");
            SignInAnswer::of(answer).await.expect_error(404, "not_found", "invalid_request");
        }
    }
    let early = client.http.get(url("complete")).bearer_auth(secret).send().await.expect("an answer");
    SignInAnswer::of(early).await.expect_error(400, "invalid_request", "invalid_request");
    let asked = SignInAnswer::of(client.get(&url("request"), "*/*").await).await;
    let shown = ["app_id", "action", "environment", "scopes", "answered"].map(|name| asked.body[name].clone());
    assert_eq!(shown, [json!(APP), json!("sign-in"), json!("staging"), json!("openid email profile"), json!(false)]);
    assert!(asked.body["signal"].as_str().is_some_and(|signal| signal.starts_with("0x") && signal.len() == 66));

    let session = SignInSession::open(&url("request")).await.expect("the sign-in starts");
    let following = client.http.get(url("progress")).bearer_auth(secret).send();
    let (progress, answered) = tokio::join!(following, client.answer(&session, "alice"));
    answered.expect("accepted");
    assert_eq!(SignInAnswer::of(progress.expect("an answer")).await.body, json!({"state": "answered"}));
    let again = client.answer(&session, "bob").await.expect_err("answered already");
    assert!(again.to_string().contains("has been answered"), "{again}");
    assert!(session.refuse_unverified().await.is_err());
    // A cookie is as good as the header.
    let cookie = format!("other=1; selfsame_transaction_{}={secret}", started.text("transaction"));
    let done = client.http.get(url("complete")).header("Cookie", &cookie).send().await.expect("an answer");
    assert_eq!((done.status().as_u16(), &done.headers()[CACHE_CONTROL]), (303, &"no-store".parse().expect("a value")));
    let second = client.http.get(url("complete")).bearer_auth(secret).send().await.expect("an answer");
    assert_eq!(second.headers()[LOCATION], done.headers()[LOCATION], "the same response again");
    let over = client.http.get(url("progress")).bearer_auth(secret).send().await.expect("an answer");
    assert_eq!(SignInAnswer::of(over).await.body, json!({"state": "over", "done": true}));

    let refused = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    refused.refuse(refused.request()).await.expect("accepted");
    let target = refused.complete().await.expect("completed").expect("a target");
    let response = fragment_or_query(&target);
    assert_eq!((&*response["error"], &*response["state"]), ("access_denied", "the state"), "{target}");

    let late = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    client.daemon.clock.advance(Duration::from_secs(300));
    let error = client.answer(&late, "alice").await.expect_err("too late");
    assert_eq!(error.code(), Some("not_found"), "{error}");
}

#[tokio::test]
async fn proofs_for_another_request_are_refused() {
    let client = SignInTestClient::start().await;
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let asked = session.request().clone();
    let operator = Operator::new(&client.daemon.operator("")).expect("an address");
    let root = client.daemon.client().root().await.expect("an answer").root;
    let simulation = operator.simulation().await.expect("an answer");
    let simulated = SimulatedParty::of(simulation, APP, root).expect("a known application");
    let wanted = ProofParameters {
        app_id: APP,
        action: &asked.action,
        signal: &asked.signal,
        environment: asked.environment,
        nonce: Some(asked.nonce),
    };
    let good = prove::uniqueness(&person_of("alice"), &wanted, &simulated, &mut random()).expect("a proof");
    let other = |change: ProofParameters<'_>| {
        prove::uniqueness(&person_of("alice"), &change, &simulated, &mut random()).expect("a proof")
    };
    let mut two = good.clone();
    two["responses"] = json!([good["responses"][0], good["responses"][0]]);
    let mut legacy = good.clone();
    legacy["protocol_version"] = json!("3.0");
    let mut in_session = good.clone();
    in_session["session_id"] = json!("session_1");
    for (body, what) in [
        (other(ProofParameters { signal: "0x00", ..wanted.clone() }), "another signal"),
        (other(ProofParameters { action: "vote", ..wanted.clone() }), "another action"),
        (other(ProofParameters { nonce: None, ..wanted.clone() }), "another nonce"),
        (two, "two proofs"),
        (legacy, "another kind"),
        (in_session, "a session"),
        (json!({"error": "other"}), "another error"),
        (json!({}), "nothing"),
    ] {
        let error = session.answer_from(session.request(), &body, Place::Unsaid).await.expect_err(what);
        assert_eq!(error.code(), Some("invalid_request"), "{what}: {error}");
    }
    // The action, nonce and environment in the body are ignored.
    let mut claimed = good;
    claimed["action"] = json!("vote");
    claimed["nonce"] = json!("0x1");
    claimed["environment"] = json!("production");
    session.answer_from(session.request(), &claimed, Place::Unsaid).await.expect("accepted");
}

#[tokio::test]
async fn authorization_errors_go_to_the_page_or_the_redirect_uri() {
    let client = SignInTestClient::start().await;
    for (changes, code, error) in [
        (vec![("client_id", "")], "required", "invalid_request"),
        (vec![("client_id", "app_unknown")], "invalid_client_id", "invalid_request"),
        (vec![("redirect_uri", "")], "required", "invalid_request"),
        (vec![("redirect_uri", "http://localhost:3000/callback/")], "invalid_redirect_uri", "invalid_request"),
        (
            vec![("redirect_uri", "https://evil.example/<script>alert(1)</script>")],
            "invalid_redirect_uri",
            "invalid_request",
        ),
    ] {
        let url = client.authorization_url(&changes);
        SignInAnswer::of(client.get(&url, "application/json").await).await.expect_error(400, code, error);
        let page = client.get(&url, "text/html").await;
        assert_eq!((page.status().as_u16(), page.headers().get(LOCATION)), (400, None));
        assert!(page.headers()[CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
        let text = page.text().await.expect("text");
        assert!(text.contains(code) && !text.contains("<script>"), "{text}");
    }
    for (changes, code, error, in_fragment) in [
        (vec![("response_type", "")], "required", "invalid_request", false),
        (vec![("response_type", "token")], "unsupported_response_type", "unsupported_response_type", true),
        (vec![("scope", "")], "required", "invalid_request", false),
        (vec![("scope", "email")], "invalid_scope", "invalid_scope", false),
        (vec![("response_type", "id_token"), ("nonce", "")], "required", "invalid_request", true),
        (vec![("response_type", "id_token"), ("response_mode", "query")], "invalid_request", "invalid_request", true),
        (vec![("prompt", "none")], "login_required", "login_required", false),
        (vec![("request", "x")], "request_not_supported", "request_not_supported", false),
        (vec![("request_uri", "x")], "request_uri_not_supported", "request_uri_not_supported", false),
        (vec![("code_challenge", CHALLENGE)], "invalid_request", "invalid_request", false),
    ] {
        let url = client.authorization_url(&changes);
        SignInAnswer::of(client.get(&url, "application/json").await).await.expect_error(400, code, error);
        let redirect = client.get(&url, "text/html").await;
        let location = redirect.headers()[LOCATION].to_str().expect("text").to_owned();
        assert_eq!((redirect.status().as_u16(), location.contains("callback#")), (303, in_fragment), "{location}");
        let response = fragment_or_query(&location);
        assert_eq!(
            (&*response["error"], &*response["state"], &*response["iss"]),
            (error, "the state", &*client.issuer())
        );
        assert_eq!(response["error_description"].starts_with("required: "), code == "required", "{location}");
    }
    // `POST` gives the same answers.
    let posted = client.http.post(client.daemon.sign_in("/authorize")).form(&parameters(&[("scope", "email")]));
    assert_eq!(posted.send().await.expect("an answer").status(), 303);
    let put = client.http.put(client.daemon.sign_in("/authorize")).send().await.expect("an answer");
    SignInAnswer::of(put).await.expect_error(405, "method_not_allowed", "invalid_request");
}

#[tokio::test]
async fn the_sign_in_page_is_escaped_and_has_a_strict_policy() {
    let client = SignInTestClient::start_with_keys(|config| config.apps[0].rename("<b>Bold & \"Co\"</b>")).await;
    let page = client.browse(&[], "").await;
    assert_eq!(page.status(), 200);
    let cookie = page.headers()[SET_COOKIE].to_str().expect("text").to_owned();
    for part in ["selfsame_transaction_", "; Path=/;", "; Max-Age=4500", "; HttpOnly", "; SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "the issuer is http: {cookie}");
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    let text = page.text().await.expect("text");
    assert!(text.contains("&lt;b&gt;Bold &amp; &quot;Co&quot;&lt;/b&gt;") && !text.contains("<b>"), "{text}");
    assert!(text.contains("<svg") && text.contains("/s/") && text.contains("email address"), "{text}");
    assert!(!text.contains("style=") && !text.contains("<style"), "{text}");
    for (path, content_type) in [("/sign-in.css", "text/css"), ("/sign-in.js", "text/javascript")] {
        assert!(text.contains(path), "{text}");
        let file = client.get(&client.daemon.sign_in(path), "*/*").await;
        assert!(file.headers()[CONTENT_TYPE].to_str().expect("text").starts_with(content_type));
    }
    // The response mode `form_post`, as a browser gets it.
    let changes = [("response_mode", "form_post"), ("state", "\"><script>alert(1)</script>"), ("prompt", "none")];
    let form = client.get(&client.authorization_url(&changes), "text/html").await;
    let policy = form.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
    assert!(!policy.contains("unsafe") && policy.contains("script-src 'sha256-"), "{policy}");
    let text = form.text().await.expect("text");
    assert!(text.contains("action=\"http://localhost:3000/callback\"") && text.contains("login_required"), "{text}");
    assert!(text.contains("&lt;script&gt;") && text.matches("<script>").count() == 1, "{text}");
}

#[tokio::test]
async fn token_userinfo_and_introspect_refuse_wrong_requests() {
    let client = SignInTestClient::start().await;
    let code = client.code("alice", &[]).await;
    let granted = client.exchange(&code).await;
    let token = granted.body["access_token"].as_str().expect("a token");
    let url = |path: &str| client.daemon.sign_in(path);
    let answer =
        |request: reqwest::RequestBuilder| async { SignInAnswer::of(request.send().await.expect("an answer")).await };
    let good = [("grant_type", "authorization_code"), ("code", "x"), ("redirect_uri", CALLBACK)];

    for path in ["/token", "/introspect"] {
        let methods = answer(client.http.put(url(path))).await;
        methods.expect_error(405, "method_not_allowed", "invalid_request");
        assert!(methods.header(ALLOW).contains("POST"), "{methods:?}");
        let content = client.http.post(url(path)).basic_auth(APP, Some(SECRET)).json(&json!({}));
        answer(content).await.expect_error(400, "invalid_content_type", "invalid_request");
        for request in [
            client.http.post(url(path)).form(&good),
            client.http.post(url(path)).basic_auth(APP, Some("wrong")).form(&good),
            client.http.post(url(path)).basic_auth("app_unknown", Some(SECRET)).form(&good),
            client.http.post(url(path)).header("Authorization", "Basic !!!").form(&good),
            client.http.post(url(path)).form(&[("client_id", APP)]),
            client.http.post(url(path)).form(&[("client_id", APP), ("client_secret", "wrong")]),
        ] {
            let refused = answer(request).await;
            refused.expect_error(401, "unauthenticated", "invalid_client");
            assert!(refused.header(WWW_AUTHENTICATE).starts_with("Basic "), "{refused:?}");
            assert_eq!(refused.header(CACHE_CONTROL), "no-store");
        }
        let both = client
            .http
            .post(url(path))
            .basic_auth(APP, Some(SECRET))
            .form(&[("client_id", APP), ("client_secret", SECRET)]);
        answer(both).await.expect_error(400, "invalid_request", "invalid_request");
    }
    for (form, code, error, attribute) in [
        (vec![("code", "x")], "invalid_grant_type", "invalid_request", "grant_type"),
        (vec![("grant_type", "password")], "invalid_grant_type", "unsupported_grant_type", "grant_type"),
        (vec![("grant_type", "authorization_code")], "required", "invalid_request", "code"),
        (vec![("grant_type", "authorization_code"), ("code", "")], "required", "invalid_request", "code"),
        (vec![("grant_type", "authorization_code"), ("code", "unknown")], "invalid_grant", "invalid_grant", "code"),
        (vec![("code", "x"), ("code", "y")], "invalid_request", "invalid_request", "code"),
    ] {
        let refused = client.post("/token", &form).await;
        refused.expect_error(400, code, error);
        assert_eq!(refused.body["attribute"], attribute, "{refused:?}");
        assert_eq!((refused.header(CACHE_CONTROL), refused.header(ACCESS_CONTROL_ALLOW_ORIGIN)), ("no-store", "*"));
    }
    // Credentials in the form are accepted, and the content type may have parameters.
    let form = [("client_id", APP), ("client_secret", SECRET), ("token", token)];
    assert_eq!(answer(client.http.post(url("/introspect")).form(&form)).await.body["active"], true);
    let body = format!("token={token}");
    let charset = "application/x-www-form-urlencoded; charset=UTF-8";
    let request =
        client.http.post(url("/introspect")).basic_auth(APP, Some(SECRET)).header(CONTENT_TYPE, charset).body(body);
    assert_eq!(answer(request).await.body["active"], true);

    client.post("/introspect", &[]).await.expect_error(400, "required", "invalid_request");
    let unknown = client.post("/introspect", &[("token", "unknown")]).await;
    unknown.expect_error(401, "invalid_token", "invalid_token");
    assert_eq!(unknown.body["active"], false);
    assert!(unknown.header(WWW_AUTHENTICATE).contains("error=\"invalid_token\""), "{unknown:?}");
    // Another client's token is answered like an unknown one.
    let stranger =
        client.http.post(url("/introspect")).basic_auth(PRODUCTION_APP, Some(SECRET)).form(&[("token", token)]);
    assert_eq!(answer(stranger).await.body, unknown.body);

    let missing = answer(client.http.get(url("/userinfo"))).await;
    missing.expect_error(401, "unauthenticated", "invalid_request");
    assert_eq!(missing.header(WWW_AUTHENTICATE), "Bearer realm=\"selfsame\"");
    let bad = answer(client.http.get(url("/userinfo")).bearer_auth("unknown")).await;
    bad.expect_error(401, "invalid_token", "invalid_token");
    assert!(bad.header(WWW_AUTHENTICATE).contains("error=\"invalid_token\""), "{bad:?}");
    let twice = client.http.post(url("/userinfo")).bearer_auth(token).form(&[("access_token", token)]);
    answer(twice).await.expect_error(400, "invalid_request", "invalid_request");
    answer(client.http.get(url("/nowhere"))).await.expect_error(404, "not_found", "invalid_request");
}

#[tokio::test]
async fn discovery_and_keys_are_readable_from_every_origin() {
    let client = SignInTestClient::start().await;
    let document =
        SignInAnswer::of(client.get(&client.daemon.sign_in("/.well-known/openid-configuration"), "*/*").await).await;
    assert_eq!((document.status, document.header(ACCESS_CONTROL_ALLOW_ORIGIN)), (200, "*"));
    let issuer = client.issuer();
    let mut body = document.body;
    for name in ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "introspection_endpoint"]
    {
        let url = body[name].as_str().expect("a URL").to_owned();
        assert!(url.starts_with(&format!("{issuer}/")), "{url}");
    }
    assert_eq!(body["issuer"], *issuer);
    // The port differs from run to run.
    body = serde_json::from_str(&body.to_string().replace(&issuer, "https://id.example")).expect("JSON");
    insta::assert_json_snapshot!("discovery", body);
    let keys = SignInAnswer::of(client.get(&client.daemon.sign_in("/jwks"), "*/*").await).await;
    let published = keys.body["keys"].as_array().expect("keys");
    assert_eq!(published.len(), 2, "the next key is published too");
    for key in published {
        let names: Vec<&str> = key.as_object().expect("a key").keys().map(String::as_str).collect();
        assert_eq!(names, ["alg", "e", "kid", "kty", "n", "use"], "public parts only");
        assert_eq!((&key["kty"], &key["use"], &key["alg"]), (&json!("RSA"), &json!("sig"), &json!("RS256")));
    }
    assert_ne!(published[0]["kid"], published[1]["kid"]);
    let alias = SignInAnswer::of(client.get(&client.daemon.sign_in("/jwks.json"), "*/*").await).await;
    assert_eq!(alias.body, keys.body);
    for path in ["/.well-known/openid-configuration", "/jwks", "/token", "/userinfo"] {
        let url = client.daemon.sign_in(path);
        let options = client.http.request(reqwest::Method::OPTIONS, &url).header("Origin", "https://app.example");
        let options = options.header("Access-Control-Request-Method", "POST").send().await.expect("an answer");
        assert_eq!(
            (options.status().as_u16(), &options.headers()[ACCESS_CONTROL_ALLOW_ORIGIN]),
            (204, &"*".parse().expect("a value")),
            "{path}"
        );
        let delete = SignInAnswer::of(client.http.delete(&url).send().await.expect("an answer")).await;
        delete.expect_error(405, "method_not_allowed", "invalid_request");
        assert!(delete.header(ALLOW).contains("OPTIONS"), "{delete:?}");
    }
}

#[tokio::test]
async fn public_clients_authenticate_by_pkce() {
    let client = SignInTestClient::start_with_keys(|config| {
        config.apps[0].proof = SignInProof::Current;
        config.apps[0].public = true;
        config.apps[0].client_secret_hash = None;
    })
    .await;
    let refused = SignInAnswer::of(client.get(&client.authorization_url(&[]), "application/json").await).await;
    refused.expect_error(400, "invalid_request", "invalid_request");
    assert_eq!(refused.body["attribute"], "code_challenge");
    let code = client.code("alice", &[("code_challenge", CHALLENGE), ("code_challenge_method", "S256")]).await;
    let mut form =
        vec![("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK), ("client_id", APP)];
    form.push(("code_verifier", VERIFIER));
    let answer = client.http.post(client.daemon.sign_in("/token")).form(&form).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let token = SignInAnswer::of(answer).await.body["access_token"].as_str().expect("a token").to_owned();
    // A public client has no secret to introspect with.
    let form = [("client_id", APP), ("token", &token)];
    let introspected =
        client.http.post(client.daemon.sign_in("/introspect")).form(&form).send().await.expect("an answer");
    SignInAnswer::of(introspected).await.expect_error(401, "unauthenticated", "invalid_client");
}

#[tokio::test]
async fn a_session_answers_later_requests_of_its_browser() {
    let client = SignInTestClient::start().await;
    let (location, given) = client.sign_in_by_page("alice", &[("scope", "openid email")], "").await;
    let given = given.expect("a session");
    for part in ["selfsame_session=", "; Path=/;", "; Max-Age=86400;", "; HttpOnly", "; SameSite=Lax"] {
        assert!(given.contains(part), "{given}");
    }
    let session = given.split(';').next().expect("a pair");
    let first = client.exchange(&fragment_or_query(&location)["code"]).await;
    let id_token = first.body["id_token"].as_str().expect("a token").to_owned();
    let alice = client.claims(&id_token).await;

    client.daemon.clock.advance(Duration::from_secs(100));
    for changes in [
        vec![("scope", "openid")],
        vec![("scope", "openid email"), ("prompt", "none")],
        vec![("scope", "openid"), ("max_age", "100")],
        vec![("scope", "openid"), ("prompt", "none"), ("id_token_hint", &*id_token)],
    ] {
        let response = client.browse_silently(&changes, session).await;
        let tokens = client.exchange(&response["code"]).await;
        let claims = client.claims(tokens.body["id_token"].as_str().expect("a token")).await;
        assert_eq!((&claims["sub"], &claims["auth_time"]), (&alice["sub"], &alice["auth_time"]), "{changes:?}");
    }
    // A request for more scopes than were approved, for a fresh sign-in, or for a more recent one:
    // the page, or an error when no page may be shown.
    for changes in [
        vec![("scope", "openid profile")],
        vec![("scope", "openid"), ("max_age", "99")],
        vec![("scope", "openid"), ("max_age", "0")],
        vec![("scope", "openid"), ("prompt", "login")],
        vec![("client_id", PRODUCTION_APP), ("scope", "openid")],
    ] {
        assert_eq!(client.browse(&changes, session).await.status(), 200, "{changes:?}");
        if changes.iter().all(|(name, _)| *name != "prompt") {
            let silent = [&changes[..], &[("prompt", "none")]].concat();
            assert_eq!(client.browse_silently(&silent, session).await["error"], "login_required", "{changes:?}");
        }
    }
    // A cookie that the daemon did not set is ignored and not taken over.
    let forged = "selfsame_session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(client.browse_silently(&[("prompt", "none")], forged).await["error"], "login_required");
    let (_, other) = client.sign_in_by_page("bob", &[("scope", "openid")], forged).await;
    assert!(!other.expect("a session of its own").contains("AAAAAAAA"));

    // Bob signs in with alice's browser: the session is his now, and her token no longer names the
    // person who is signed in.
    let (location, given) = client.sign_in_by_page("bob", &[("scope", "openid"), ("prompt", "login")], session).await;
    // Every sign-in changes the cookie: the old cookie is worth nothing.
    let given = given.expect("a new cookie");
    assert_eq!(
        client.browse_silently(&[("scope", "openid"), ("prompt", "none")], session).await["error"],
        "login_required"
    );
    let session = given.split(';').next().expect("a pair");
    assert!(client.browse_silently(&[("scope", "openid"), ("prompt", "none")], session).await.contains_key("code"));
    let bob = client.exchange(&fragment_or_query(&location)["code"]).await;
    assert_ne!(client.claims(bob.body["id_token"].as_str().expect("a token")).await["sub"], alice["sub"]);
    let hint = [("scope", "openid"), ("prompt", "none"), ("id_token_hint", &*id_token)];
    assert_eq!(client.browse_silently(&hint, session).await["error"], "login_required");
    let hint = [("scope", "openid"), ("prompt", "login"), ("id_token_hint", &*id_token)];
    let (location, _) = client.sign_in_by_page("bob", &hint, session).await;
    assert_eq!(fragment_or_query(&location)["error"], "login_required", "a person other than the hint names");
    let forged = format!("{}x", id_token);
    let forged = [("scope", "openid"), ("prompt", "none"), ("id_token_hint", &*forged)];
    assert!(client.browse_silently(&forged, session).await.contains_key("code"), "it names no person");

    client.daemon.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(client.browse_silently(&[("prompt", "none")], session).await["error"], "login_required");
}

#[tokio::test]
async fn keys_are_published_before_they_sign_and_until_their_last_token_expires() {
    let client = SignInTestClient::start().await;
    let token = client.operator_token();
    let published = async || {
        let keys = client.published_keys().await;
        keys["keys"].as_array().expect("keys").iter().map(|key| key["kid"].clone()).collect::<Vec<_>>()
    };
    let fetched_before = published().await;
    assert_eq!(client.rotate_keys("{}", "wrong").await.status, 401);
    let early = client.rotate_keys("{}", &token).await;
    assert_eq!(early.status, 400, "{early:?}");
    let location = client.sign_in("alice", &[("response_type", "id_token")]).await;
    let old = fragment_or_query(&location)["id_token"].clone();

    client.daemon.clock.advance(Duration::from_secs(3600));
    let rotated = client.rotate_keys("{}", &token).await;
    let states: Vec<&str> =
        rotated.body.as_array().expect("keys").iter().filter_map(|key| key["state"].as_str()).collect();
    assert_eq!(states, ["retired", "current", "next"]);
    let location = client.sign_in("alice", &[("response_type", "id_token")]).await;
    let new = fragment_or_query(&location)["id_token"].clone();
    // A client that fetched the keys an hour ago has the key that signs now, and old tokens still
    // verify.
    let signed_with = jsonwebtoken::decode_header(&new).expect("a header").kid;
    assert!(fetched_before.contains(&json!(signed_with)));
    client.claims(&old).await;
    client.claims(&new).await;
    client.daemon.clock.advance(Duration::from_secs(3661));
    let later = published().await;
    assert_eq!(later.len(), 2);
    assert!(!later.contains(&fetched_before[0]), "its last token has expired");
    assert_eq!(client.rotate_keys("{\"now\":true}", &token).await.status, 200);
}
