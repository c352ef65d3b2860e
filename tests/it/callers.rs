//! Who is counted: the application that has shown its secret or signed its request, otherwise the
//! address; and how the headers are read that say who calls.

use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, COOKIE, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder};
use selfsame::config::{Config, RateLimit, SecretHash, TimeSpan};
use selfsame_actors::Clock;
use selfsame_protocol::verification::RelyingPartyId;
use serde_json::{Value, json};

use crate::harness::operator_token;
use crate::registry_client::RegistryClient;
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, SECRET, SignInAnswer, SignInTestClient, VERIFIER, accept_current_proofs, pair,
};
use crate::signed_requests::{SIGNER, signature};
use crate::test_accounts::key;
use crate::verification_client::{DEV_APP, LEGACY_APP, VerificationClient, legacy, uniqueness, with};

fn limit(requests: u32) -> Option<RateLimit> {
    Some(RateLimit { requests, window: TimeSpan::from_secs(60) })
}

async fn limited_sign_in(requests: u32) -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.limits.sign_ins_per_source = limit(requests);
    })
    .await
}

/// The server of an application relays the codes and tokens that strangers send to it.
#[tokio::test]
async fn after_a_right_secret_no_code_or_token_counts_as_guessing() {
    let client = limited_sign_in(10).await;
    // The sign-in itself counts: beginning it, and the proof.
    let code = client.code("alice", &[]).await;
    for number in 0..20 {
        let garbage = format!("garbage {number}");
        client.exchange(&garbage).await.expect_error(400, "invalid_grant", "invalid_grant");
        let answer = client.post("/introspect", &[("token", &garbage)]).await;
        assert_eq!((answer.status, &answer.body["active"]), (401, &json!(false)), "{answer:?}");
        assert_eq!(client.post("/revoke", &[("token", &garbage)]).await.status, 200);
    }
    let granted = client.exchange(&code).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    let answer = client.post("/introspect", &[("token", granted.text("access_token"))]).await;
    assert_eq!(answer.body["active"], true, "{answer:?}");
    client.stop().await;
}

#[tokio::test]
async fn a_source_at_its_limit_is_refused_failures_and_never_good_credentials() {
    let client = limited_sign_in(10).await;
    let granted = client.exchange(&client.code("alice", &[]).await).await;
    let token = granted.text("access_token").to_owned();
    let code = client.code("alice", &[]).await;
    let wrong = async || client.post_as(APP, "wrong", "/introspect", &[("token", &token)]).await;
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(wrong().await.status);
    }
    assert!(statuses.starts_with(&[401]) && statuses.ends_with(&[429]), "{statuses:?}");
    let userinfo = |token: &str| client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(token);
    let refused = [
        wrong().await,
        client.send(userinfo("wrong")).await,
        client.send(client.http.post(client.daemon.sign_in("/token")).body("not a form")).await,
    ];
    for refused in refused {
        refused.expect_error(429, "rate_limit", "temporarily_unavailable");
        assert!(refused.headers.contains_key(RETRY_AFTER), "{refused:?}");
    }
    assert_eq!(client.exchange(&code).await.status, 200);
    assert_eq!(client.post("/introspect", &[("token", &token)]).await.body["active"], true);
    assert_eq!(client.send(userinfo(&token)).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn the_codes_of_a_public_client_count_for_its_source() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].public = true;
        config.apps[0].client_secret_hash = None;
        config.limits.sign_ins_per_source = limit(4);
    })
    .await;
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let code = client.code("alice", &pkce).await;
    let exchange = |code: &str| {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
            ("client_id", APP),
        ];
        client.send(client.http.post(client.daemon.sign_in("/token")).form(&form))
    };
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(exchange("garbage").await.status);
    }
    assert!(statuses.starts_with(&[400]) && statuses.ends_with(&[429]), "{statuses:?}");
    assert_eq!(exchange(&code).await.status, 200, "a good code is never refused");
    client.stop().await;
}

const APP_SECRET: &str = "a+secret/of=an%20application";

/// A daemon whose application [`LEGACY_APP`] has a secret.
async fn limited_verification(change: impl FnOnce(&mut Config)) -> VerificationClient {
    VerificationClient::start_with(|config| {
        let app = config.apps.iter_mut().find(|app| app.id == LEGACY_APP).expect("the application");
        app.client_secret_hash = Some(SecretHash::of([3; 16], APP_SECRET));
        config.limits.verifications_per_source = limit(16);
        config.limits.verifications_per_application = limit(40);
        config.limits.sign_ins_per_source = limit(3);
        change(config);
    })
    .await
}

impl VerificationClient {
    fn verification(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http.post(self.daemon.verify(path)).json(body)
    }

    async fn status(&self, request: RequestBuilder) -> (u16, String) {
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.expect("JSON");
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    }
}

/// The recorded proof with another number in it, `count` times.
fn junk(count: usize) -> Value {
    let mut request = with(legacy(), "/responses/0/nullifier", json!("0x1"));
    let item = request["responses"][0].clone();
    request["responses"] = vec![item; count].into();
    request
}

#[tokio::test]
async fn an_application_with_its_secret_is_counted_apart_from_its_address() {
    let client = limited_verification(|_| {}).await;
    let (v4, v2) = (format!("/api/v4/verify/{LEGACY_APP}"), format!("/api/v2/verify/{LEGACY_APP}"));
    // Strangers use up the address.
    assert_eq!(client.status(client.verification(&v4, &junk(16))).await.0, 400);
    assert_eq!(client.status(client.verification(&v4, &legacy())).await.1, "rate_limit_exceeded");
    let own = |path: &str, body: &Value| client.verification(path, body).basic_auth(LEGACY_APP, Some(APP_SECRET));
    assert_eq!(client.status(own(&v4, &legacy())).await.0, 200);
    // Another scheme names no application.
    let bearer = client.verification(&v4, &legacy()).bearer_auth("x");
    assert_eq!(client.status(bearer).await.1, "rate_limit_exceeded");
    // The application has a limit of its own, and a refused request does not count.
    assert_eq!(client.status(own(&v4, &junk(16))).await.0, 400);
    assert_eq!(client.status(own(&v4, &junk(16))).await.0, 400);
    for _ in 0..3 {
        assert_eq!(client.status(own(&v4, &junk(8))).await.1, "rate_limit_exceeded");
    }
    assert_eq!(client.status(own(&v4, &json!({}))).await.1, "validation_error");
    let second = json!({"action": "verify-user", "proof": "x", "merkle_root": "0x1", "nullifier_hash": "0x1"});
    assert_eq!(client.status(own(&v2, &second)).await.0, 400, "also with version 2");
    for _ in 0..4 {
        assert_eq!(client.status(own(&v4, &junk(1))).await.0, 400);
    }
    assert_eq!(client.status(own(&v4, &junk(2))).await.1, "rate_limit_exceeded");
    client.daemon.clock.advance(Duration::from_secs(60));
    assert_eq!(client.status(own(&v4, &legacy())).await.0, 200);
}

#[tokio::test]
async fn wrong_secrets_at_verification_are_refused_and_count_as_guessing() {
    let client = limited_verification(|_| {}).await;
    let path = format!("/api/v4/verify/{LEGACY_APP}");
    let asked = |id: &str, secret: &str| client.verification(&path, &legacy()).basic_auth(id, Some(secret));
    for request in [asked(LEGACY_APP, "wrong"), asked("app_unknown", APP_SECRET), asked(LEGACY_APP, "")] {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 401);
        assert_eq!(answer.headers()[WWW_AUTHENTICATE], r#"Basic realm="selfsame", charset="UTF-8""#);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!((&body["success"], &body["code"]), (&json!(false), &json!("unauthenticated")));
    }
    assert_eq!(client.status(asked(LEGACY_APP, "wrong")).await.1, "rate_limit_exceeded");
    assert_eq!(client.status(asked(LEGACY_APP, APP_SECRET)).await.0, 200, "the right one is never refused");
    let twice = client.verification(&path, &legacy()).header(AUTHORIZATION, "Basic x").header(AUTHORIZATION, "Basic x");
    let twice = twice.send().await.expect("an answer");
    assert_eq!((twice.status().as_u16(), twice.headers().contains_key(WWW_AUTHENTICATE)), (400, true));
}

#[tokio::test]
async fn an_application_may_not_ask_for_another_one() {
    let client = limited_verification(|_| {}).await;
    let party = RelyingPartyId::derived_from(DEV_APP).to_string();
    for named in [DEV_APP, &party] {
        let request = client.verification(&format!("/api/v4/verify/{named}"), &legacy());
        let refused = client.status(request.basic_auth(LEGACY_APP, Some(APP_SECRET))).await;
        assert_eq!(refused, (403, "forbidden".to_owned()), "{named}");
    }
    let request = client.verification(&format!("/api/v2/verify/{DEV_APP}"), &legacy());
    let refused = client.status(request.basic_auth(LEGACY_APP, Some(APP_SECRET))).await;
    assert_eq!(refused, (403, "forbidden".to_owned()));
    let nowhere = client.verification("/api/v4/verify/app_unknown", &legacy());
    let unknown = client.status(nowhere.basic_auth(LEGACY_APP, Some(APP_SECRET))).await;
    assert_eq!(unknown, (400, "app_not_migrated".to_owned()));
}

/// The person's page has the signature too, so it counts once for the application.
#[tokio::test]
async fn a_signed_request_counts_for_its_application_once() {
    let client = limited_verification(|config| {
        let party = config.relying_parties.iter_mut().find(|party| party.app_id == DEV_APP).expect("an entry");
        party.signing_key = Some(key(SIGNER).address().into());
    })
    .await;
    let path = format!("/api/v4/verify/{DEV_APP}");
    let party = client.simulated().await;
    let proof = uniqueness("alice", "vote", &party);
    let now = client.daemon.clock.unix_seconds().0;
    let signed = |nonce: u64, signer_action: &str| {
        let signature = signature(nonce, now, now + 300, Some(signer_action));
        with(with(proof.clone(), "/nonce", json!(format!("{nonce:#x}"))), "/rp_signature", signature)
    };
    // The proof is of another nonce, so it does not verify: what counts is that it is checked.
    let checked = (400, "all_verifications_failed".to_owned());
    let refused = (429, "rate_limit_exceeded".to_owned());
    assert_eq!(client.status(client.verification(&path, &signed(7, "vote"))).await, checked);
    for _ in 0..16 {
        assert_eq!(client.status(client.verification(&path, &signed(7, "vote"))).await, checked);
    }
    assert_eq!(client.status(client.verification(&path, &signed(7, "vote"))).await, refused);
    assert_eq!(client.status(client.verification(&path, &proof)).await, refused, "the address is at its limit");
    assert_eq!(client.status(client.verification(&path, &signed(8, "vote"))).await, checked);
    assert_eq!(client.status(client.verification(&path, &signed(9, "another"))).await, refused);
    assert_eq!(client.status(client.verification(&path, &json!({}))).await, refused);
}

/// Every interface that takes a token reads the header in the same way.
#[tokio::test]
async fn the_scheme_of_a_token_is_read_in_any_case_everywhere() {
    let client = SignInTestClient::start().await;
    let token = client.exchange(&client.code("alice", &[]).await).await.text("access_token").to_owned();
    let operator = operator_token(client.folder.path());
    let begun = client.send(client.http.get(client.authorization_url(&[])).header(ACCEPT, "application/json")).await;
    let progress = format!("/authorize/{}/cancel", begun.text("transaction"));
    let urls = [
        (Method::GET, client.daemon.sign_in("/userinfo"), token.as_str()),
        (Method::GET, client.daemon.operator("/roots"), operator.as_str()),
        (Method::POST, client.daemon.sign_in(&progress), begun.text("secret")),
    ];
    for (method, url, token) in urls {
        let send = async |values: &[HeaderValue]| {
            let mut request = client.http.request(method.clone(), &url);
            for value in values {
                request = request.header(AUTHORIZATION, value.clone());
            }
            let answer = request.send().await.expect("an answer");
            let is_challenged = answer.headers().contains_key(WWW_AUTHENTICATE);
            (answer.status().as_u16(), is_challenged)
        };
        let value = |text: &str| HeaderValue::from_str(text).expect("a value");
        let bytes = |bytes: &[u8]| HeaderValue::from_bytes(bytes).expect("a value");
        let is_sign_in = method == Method::POST;
        let wrong = if is_sign_in { (404, false) } else { (401, true) };
        let good = value(&format!("Bearer {token}"));
        assert_eq!(send(&[good.clone(), good.clone()]).await, (400, true), "{url}");
        assert_eq!(send(&[bytes(b"Bearer cl\xe9")]).await, wrong, "{url}");
        assert_eq!(send(&[value(&format!("Bearer{token}"))]).await, wrong, "{url}");
        let expected = if is_sign_in { 303 } else { 200 };
        let spelled: &[&str] = if is_sign_in { &["bEARER  "] } else { &["bearer ", "BEARER   ", "Bearer "] };
        for scheme in spelled {
            assert_eq!(send(&[value(&format!("{scheme}{token}"))]).await, (expected, false), "{url} {scheme:?}");
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn the_token_of_a_creation_is_read_in_any_case() {
    use alloy_primitives::Address;
    use selfsame::config::CreateAccount;
    use selfsame_wallet::operations::create_account;

    let client = RegistryClient::start_with(|config| {
        config.registry.create_account = CreateAccount::Token;
        config.registry.create_account_token_hash = Some(SecretHash::of([1; 16], "the token"));
    })
    .await;
    for (number, (header, status)) in
        [("bearer the token", 200), ("BEARER   the token", 200), ("Bearer another", 401), ("Basic x", 401)]
            .into_iter()
            .enumerate()
    {
        let operation = create_account(&[key(&format!("created {number}")).authenticator()], Address::ZERO).operation;
        let request = client.http.post(client.daemon.gateway("/create-account")).json(&operation);
        let answer = request.header(AUTHORIZATION, header).send().await.expect("an answer");
        assert_eq!(answer.status(), status, "{header}");
        assert_eq!(answer.headers().contains_key(WWW_AUTHENTICATE), status == 401);
    }
}

/// Browsers send the cookies of a parent domain, as they are.
#[tokio::test]
async fn a_cookie_that_is_not_the_services_hides_no_other_cookie() {
    let client = SignInTestClient::start().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    let page = client.browse(&[("prompt", "login")], "").await;
    let (transaction, base) = client.transaction_of_page(&page);
    let planted = session.split_once('=').expect("a pair").0;
    let own_transaction = transaction.split_once('=').expect("a pair").0;
    let lines: [&[u8]; 5] = [b"", b"user=Jos\xc3\xa9; ", b"user=Jos\xe9; ", b"no pair; ;=; ", b"a=\"x\"; "];
    let mut prefixes: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).into();
    prefixes.push(format!("{planted}=planted; {own_transaction}=planted; ").into_bytes());
    let silent = client.authorization_url(&[("prompt", "none")]);
    for before in prefixes {
        let cookies = |own: &str| {
            let mut line = before.clone();
            line.extend_from_slice(own.as_bytes());
            HeaderValue::from_bytes(&line).expect("a value")
        };
        let shown = String::from_utf8_lossy(&before).into_owned();
        let request = client.http.get(&silent).header(ACCEPT, "text/html").header(COOKIE, cookies(&session));
        let answer = client.send(request).await;
        assert!(answer.header(LOCATION).contains("?code="), "{shown:?}: {answer:?}");
        let session_page = client.http.get(client.daemon.sign_in("/session")).header(COOKIE, cookies(&session));
        let text = session_page.send().await.expect("an answer").text().await.expect("a page");
        assert!(text.contains("confirmation"), "{shown:?}: {text}");
        let complete = client.http.get(format!("{base}/complete")).header(COOKIE, cookies(&transaction));
        let answer = client.send(complete).await;
        answer.expect_error(400, "invalid_request", "invalid_request");
        // A proxy may add credentials of its own.
        let complete = client.http.get(format!("{base}/complete")).header(COOKIE, cookies(&transaction));
        let answer = client.send(complete.bearer_auth("of a proxy")).await;
        answer.expect_error(400, "invalid_request", "invalid_request");
    }
    // Signing out ends the session whose cookie comes second, too.
    let url = client.daemon.sign_in("/session");
    let cookies = format!("{planted}=planted; {session}");
    let text = client.http.get(&url).header(COOKIE, &cookies).send().await.expect("an answer").text().await;
    let text = text.expect("a page");
    let confirmation = text.split("name=\"confirmation\" value=\"").nth(1).expect("a field").split('"').next();
    let form = [("confirmation", confirmation.expect("a value"))];
    let ended = client.http.post(&url).header(COOKIE, &cookies).header("Origin", client.issuer()).form(&form);
    assert_eq!(ended.send().await.expect("an answer").status(), 200);
    let request = client.http.get(&silent).header(ACCEPT, "text/html").header(COOKIE, &session);
    assert!(client.send(request).await.header(LOCATION).contains("error=login_required"));
    client.stop().await;
}

/// RFC 6749, section 2.3.1: an empty secret may be left out, and libraries send it all the same.
#[tokio::test]
async fn an_empty_secret_is_no_secret() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].public = true;
        config.apps[0].client_secret_hash = None;
    })
    .await;
    let pkce = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    let code = client.code("alice", &pkce).await;
    let form = vec![
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ];
    let url = client.daemon.sign_in("/token");
    let granted = client.send(client.http.post(&url).basic_auth(APP, Some("")).form(&form)).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    assert_eq!(granted.header(reqwest::header::PRAGMA), "no-cache");
    let code = client.code("alice", &pkce).await;
    let mut form = form.clone();
    form[1].1 = &code;
    form.extend([("client_id", APP), ("client_secret", "")]);
    let granted = client.send(client.http.post(&url).form(&form)).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    let form = [("token", granted.text("access_token"))];
    let revoke = client.http.post(client.daemon.sign_in("/revoke")).basic_auth(APP, Some("")).form(&form);
    assert_eq!(client.send(revoke).await.status, 200);
    // Without a secret it is a public client, which may not introspect.
    let introspect = client.http.post(client.daemon.sign_in("/introspect")).basic_auth(APP, Some("")).form(&form);
    client.send(introspect).await.expect_error(401, "unauthenticated", "invalid_client");
    client.stop().await;
}

/// A secret of `openssl rand -base64 32` has `+`, `/` and `=`.
#[tokio::test]
async fn a_basic_secret_counts_form_encoded_and_as_it_is() {
    let secret = "q+w/e%20r==";
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].client_secret_hash = Some(SecretHash::of([9; 16], secret));
    })
    .await;
    for (given, status) in
        [(secret, 200), ("q%2Bw%2Fe%2520r%3D%3D", 200), ("q w/e r==", 401), ("q%2Bw/e%20r==", 401), (SECRET, 401)]
    {
        let answer = client.post_as(APP, given, "/revoke", &[("token", "unknown")]).await;
        assert_eq!(answer.status, status, "{given:?}: {answer:?}");
    }
    // An `Authorization` of another scheme is a proxy's, and hides no credentials of the form.
    let form = [("token", "unknown"), ("client_id", APP), ("client_secret", secret)];
    let request = client.http.post(client.daemon.sign_in("/revoke")).bearer_auth("of a proxy").form(&form);
    assert_eq!(client.send(request).await.status, 200);
    client.stop().await;
}

/// The challenge of each refusal (RFC 9110, section 15.5.2; RFC 6750, section 3).
#[tokio::test]
async fn every_refusal_of_a_token_says_how_to_authenticate() {
    let client = SignInTestClient::start().await;
    let challenge = async |request: RequestBuilder| -> (u16, String) {
        let answer: SignInAnswer = client.send(request).await;
        (answer.status, answer.header(WWW_AUTHENTICATE).to_owned())
    };
    let userinfo = || client.http.get(client.daemon.sign_in("/userinfo"));
    let (status, bearer) = challenge(userinfo().header(AUTHORIZATION, b"Bearer cl\xe9".as_slice())).await;
    assert_eq!((status, bearer.contains("error=\"invalid_token\"")), (401, true), "{bearer}");
    let twice = userinfo().header(AUTHORIZATION, "Bearer x").header(AUTHORIZATION, "Bearer x");
    let (status, bearer) = challenge(twice).await;
    assert_eq!((status, bearer.contains("error=\"invalid_request\"")), (400, true), "{bearer}");
    let form = [("token", "unknown")];
    let introspect = client.http.post(client.daemon.sign_in("/introspect")).basic_auth(APP, Some(SECRET)).form(&form);
    let (status, bearer) = challenge(introspect).await;
    assert_eq!((status, bearer.contains("error=\"invalid_token\"")), (401, true), "{bearer}");
    for path in ["/token", "/introspect", "/revoke"] {
        let request = client.http.post(client.daemon.sign_in(path)).form(&form);
        let twice = request.header(AUTHORIZATION, "Basic x").header(AUTHORIZATION, "Basic x");
        let (status, basic) = challenge(twice).await;
        assert_eq!((status, basic.starts_with("Basic ")), (400, true), "{path}: {basic}");
    }
    client.stop().await;
}

/// An ID token of a key that is gone identifies no person, so it is no hint.
#[tokio::test]
async fn a_hint_that_cannot_be_checked_is_no_hint() {
    let client = SignInTestClient::start().await;
    let (_, session) = client.sign_in_by_page("alice", &[], "").await;
    let session = pair(session);
    for hint in ["x", "a.b.c", "eyJhbGciOiJub25lIn0.e30."] {
        let location = client.browse_silently(&[("prompt", "none"), ("id_token_hint", hint)], &session).await;
        assert!(location.contains_key("code"), "{hint}: {location:?}");
        let location = client.browse_silently(&[("prompt", "none"), ("id_token_hint", hint)], "").await;
        assert_eq!(location.get("error").map(String::as_str), Some("login_required"), "{hint}: {location:?}");
        let page = client.browse(&[("id_token_hint", hint)], "").await;
        assert_eq!(page.status(), 200, "{hint}");
    }
    client.stop().await;
}
