//! What the endpoints refuse that applications send codes and tokens to.

use super::*;

/// The test of `invalid_content_type` for a path.
async fn invalid_content_type(path: &str) {
    let client = provider().await;
    let post = || request(&client, Method::POST, path).basic_auth(APP, Some(SECRET));
    let form = "grant_type=authorization_code&code=x&token=x";
    for content_type in [
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded2",
        "x-application/x-www-form-urlencoded",
        "text/plain; application/x-www-form-urlencoded",
    ] {
        let answer = client.send(post().header(CONTENT_TYPE, content_type).body(form)).await;
        assert_error(&answer, 400, "invalid_content_type", "invalid_request", None);
    }
    assert_error(&client.send(post().body(form)).await, 400, "invalid_content_type", "invalid_request", None);
    assert_error(&client.send(post()).await, 400, "invalid_content_type", "invalid_request", None);
    // Upper and lower case and parameters are accepted.
    for content_type in [
        "application/x-www-form-urlencoded",
        "application/x-www-form-urlencoded;charset=UTF-8",
        "application/x-www-form-urlencoded; charset=\"utf-8\"",
        "Application/X-WWW-Form-URLEncoded ; x=y",
    ] {
        let answer = client.send(post().header(CONTENT_TYPE, content_type).body(form)).await;
        assert!(answer.body["code"] != "invalid_content_type", "{content_type}: {answer:?}");
    }
}

#[tokio::test]
async fn token_refuses_other_content_types() {
    invalid_content_type("/token").await;
}

#[tokio::test]
async fn introspect_refuses_other_content_types() {
    invalid_content_type("/introspect").await;
}

/// The test of `unauthenticated` for a path that clients call.
async fn unauthenticated(path: &str) {
    let client = provider().await;
    let code = client.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK), ("token", "x")];
    let with = |more: &[(&'static str, &'static str)]| {
        let pairs: Vec<(&str, &str)> = form.iter().copied().chain(more.iter().copied()).collect();
        request(&client, Method::POST, path).form(&pairs)
    };
    let basic = |id: &str, secret: Option<&str>| with(&[]).basic_auth(id, secret);
    let header = |value: &str| with(&[]).header("Authorization", value);
    for request in [
        with(&[]),
        with(&[("client_id", APP)]),
        with(&[("client_secret", SECRET)]),
        with(&[("client_id", APP), ("client_secret", "wrong")]),
        with(&[("client_id", APP), ("client_secret", OTHER_APP_SECRET)]),
        with(&[("client_id", "app_unknown"), ("client_secret", SECRET)]),
        basic(APP, None),
        basic(APP, Some("")),
        basic(APP, Some("wrong")),
        basic(APP, Some("sk_dev_onl")),
        basic(APP, Some("sk_dev_only ")),
        basic(APP, Some("SK_DEV_ONLY")),
        basic(APP, Some(OTHER_APP_SECRET)),
        basic(OTHER_APP, Some(SECRET)),
        basic("app_unknown", Some(SECRET)),
        basic("", Some(SECRET)),
        header("Basic"),
        header("Basic !!!"),
        header("Basic eA=="),
        header("Bearer x"),
        header("Digest x"),
        header("x"),
    ] {
        let answer = client.send(request).await;
        assert_error(&answer, 401, "unauthenticated", "invalid_client", None);
        assert_eq!(answer.header(WWW_AUTHENTICATE), BASIC_CHALLENGE);
    }
    // Two authentication methods at once are refused, and so are credentials in a query.
    let both = with(&[("client_id", APP), ("client_secret", SECRET)]).basic_auth(APP, Some(SECRET));
    assert_error(&client.send(both).await, 400, "invalid_request", "invalid_request", None);
    let query = format!("{path}?client_id={APP}&client_secret={SECRET}");
    let answer = client.send(request(&client, Method::POST, &query).form(&form)).await;
    assert_error(&answer, 401, "unauthenticated", "invalid_client", None);
    // None of these requests used the code.
    assert_eq!(client.exchange(&code).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn token_refuses_wrong_client_credentials() {
    unauthenticated("/token").await;
}

#[tokio::test]
async fn introspect_refuses_wrong_client_credentials() {
    unauthenticated("/introspect").await;
}

#[tokio::test]
async fn userinfo_refuses_requests_without_a_token() {
    let client = provider().await;
    let token = client.exchange(&client.code("alice", &[]).await).await.text("access_token").to_owned();
    let query = format!("/userinfo?access_token={token}");
    for request in [
        request(&client, Method::GET, "/userinfo"),
        request(&client, Method::POST, "/userinfo"),
        request(&client, Method::POST, "/userinfo").form(&[]),
        request(&client, Method::POST, "/userinfo").form(&[("token", &token)]),
        request(&client, Method::POST, "/userinfo").json(&json!({"access_token": token})),
        request(&client, Method::GET, "/userinfo").basic_auth(APP, Some(SECRET)),
        request(&client, Method::GET, "/userinfo").header("Authorization", &token),
        request(&client, Method::GET, "/userinfo").header("Authorization", "Bearer"),
        // RFC 9700, section 4.3.2: URLs are visible to others.
        request(&client, Method::GET, &query),
        request(&client, Method::POST, &query),
    ] {
        let answer = client.send(request).await;
        assert_error(&answer, 401, "unauthenticated", "invalid_request", None);
        assert_eq!(answer.header(WWW_AUTHENTICATE), BEARER_CHALLENGE);
    }
    let request = request(&client, Method::POST, "/userinfo").bearer_auth(&token).form(&[("access_token", &token)]);
    let both = client.send(request).await;
    assert_error(&both, 400, "invalid_request", "invalid_request", None);
    assert_eq!(both.header(WWW_AUTHENTICATE), format!("{BEARER_CHALLENGE}, error=\"invalid_request\""));
    client.stop().await;
}

#[tokio::test]
async fn token_refuses_other_grant_types() {
    let client = provider().await;
    let missing = client.post("/token", &[("code", "x")]).await;
    assert_error(&missing, 400, "invalid_grant_type", "invalid_request", Some("grant_type"));
    for grant_type in [
        "password",
        "client_credentials",
        "refresh_token",
        "implicit",
        "Authorization_Code",
        "authorization_code ",
        "x",
    ] {
        let answer = client.post("/token", &[("grant_type", grant_type), ("code", "x")]).await;
        assert_error(&answer, 400, "invalid_grant_type", "unsupported_grant_type", Some("grant_type"));
    }
}

#[tokio::test]
async fn token_requires_a_code() {
    let client = provider().await;
    for form in [vec![], vec![("code", "")], vec![("Code", "x")]] {
        let form: Vec<(&str, &str)> = [("grant_type", "authorization_code")].into_iter().chain(form).collect();
        let answer = client.post("/token", &form).await;
        assert_error(&answer, 400, "required", "invalid_request", Some("code"));
    }
}

#[tokio::test]
async fn introspect_requires_a_token() {
    let client = provider().await;
    for form in [vec![], vec![("token", "")], vec![("access_token", "x")]] {
        let answer = client.post("/introspect", &form).await;
        assert_error(&answer, 400, "required", "invalid_request", Some("token"));
    }
}

#[tokio::test]
async fn token_refuses_invalid_codes_and_wrong_parameters() {
    let client = provider().await;
    let refused = |answer: &SignInAnswer, attribute: &str| {
        assert_error(answer, 400, "invalid_grant", "invalid_grant", Some(attribute));
    };
    // A code that was never issued.
    refused(&client.exchange("unknown").await, "code");
    refused(&client.exchange(&"A".repeat(43)).await, "code");
    // A code that was used.
    let used = client.code("alice", &[]).await;
    assert_eq!(client.exchange(&used).await.status, 200);
    refused(&client.exchange(&used).await, "code");
    // A code that has just expired, at its expiry second.
    let late = client.code("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(60));
    refused(&client.exchange(&late).await, "code");
    let just = client.code("alice", &[]).await;
    client.daemon.clock.advance(Duration::from_secs(59));
    assert_eq!(client.exchange(&just).await.status, 200);
    // A code of another client.
    let code = client.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
    refused(&client.post_as(OTHER_APP, OTHER_APP_SECRET, "/token", &form).await, "code");
    // Another redirect URI, or no redirect URI.
    for uri in ["", "http://127.0.0.1:3000/callback", "http://localhost:3000/Callback"] {
        let code = client.code("alice", &[]).await;
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", uri)];
        refused(&client.post("/token", &form).await, "redirect_uri");
        refused(&client.exchange(&code).await, "code");
    }
    // A PKCE verifier that is missing, wrong, or sent without a challenge.
    let challenge = [("code_challenge", CHALLENGE), ("code_challenge_method", "S256")];
    for (asked, verifier) in [(&challenge[..], ""), (&challenge[..], CHALLENGE), (&[], VERIFIER)] {
        let code = client.code("alice", asked).await;
        let mut form = vec![("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        form.push(("code_verifier", verifier));
        refused(&client.post("/token", &form).await, "code_verifier");
    }
    client.stop().await;
}

#[tokio::test]
async fn token_and_introspect_refuse_repeated_parameters() {
    let client = provider().await;
    for name in ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret"] {
        let answer = client.post("/token", &[(name, "x"), (name, "x")]).await;
        assert_error(&answer, 400, "invalid_request", "invalid_request", Some(name));
    }
    for name in ["token", "token_type_hint", "client_id", "client_secret"] {
        let answer = client.post("/introspect", &[(name, "x"), (name, "x")]).await;
        assert_error(&answer, 400, "invalid_request", "invalid_request", Some(name));
    }
}

/// Tokens that are not active, as a client of [`APP`] could send them: a description, and the
/// token.
async fn dead_tokens(client: &SignInTestClient) -> Vec<(&'static str, String)> {
    let granted = async || {
        let code = client.code("alice", &[]).await;
        (client.exchange(&code).await, code)
    };
    let (revoked, code) = granted().await;
    client.exchange(&code).await.expect_error(400, "invalid_grant", "invalid_grant");
    let (expired, _) = granted().await;
    client.daemon.clock.advance(Duration::from_secs(3600));
    let (alive, used) = granted().await;
    let unused = client.code("alice", &[]).await;
    let text = |answer: &SignInAnswer, name: &str| answer.text(name).to_owned();
    vec![
        ("a token that was never issued", "never-issued".to_owned()),
        ("an unknown token of the right length", "A".repeat(43)),
        ("a revoked token", text(&revoked, "access_token")),
        ("an expired token", text(&expired, "access_token")),
        ("an ID token", text(&alive, "id_token")),
        ("a used code", used),
        ("a code", unused),
        ("a token in upper case", text(&alive, "access_token").to_uppercase()),
        ("a token with a character appended", text(&alive, "access_token") + "A"),
    ]
}

#[tokio::test]
async fn introspect_answers_every_inactive_token_alike() {
    let client = provider().await;
    let mut dead = dead_tokens(&client).await;
    let form_of_other_app = [("client_id", OTHER_APP)];
    let location =
        client.sign_in("alice", &[&form_of_other_app[..], &[("response_type", "id_token token")]].concat()).await;
    dead.push(("another client's", fragment_or_query(&location)["access_token"].clone()));
    let mut bodies = Vec::new();
    for (what, token) in dead {
        let answer = client.post("/introspect", &[("token", &*token)]).await;
        answer.expect_error(401, "invalid_token", "invalid_token");
        assert_headers(&answer, 401);
        let fields: BTreeSet<&str> = answer.body.as_object().expect("fields").keys().map(String::as_str).collect();
        let expected = ["code", "detail", "attribute", "error", "error_description", "active"];
        assert_eq!(fields, BTreeSet::from(expected), "{what}");
        assert_eq!((&answer.body["active"], &answer.body["attribute"]), (&json!(false), &json!("token")), "{what}");
        let challenge = answer.header(WWW_AUTHENTICATE);
        let expected = format!("{BEARER_CHALLENGE}, error=\"invalid_token\"");
        assert!(challenge.starts_with(&expected), "{what}: it is the token that is not good: {challenge}");
        bodies.push(answer.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the answer does not tell why the token is invalid");
    client.stop().await;
}

#[tokio::test]
async fn introspect_can_answer_inactive_tokens_as_rfc_7662_says() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.sign_in.introspection_inactive_status = InactiveStatus::Ok;
    })
    .await;
    for (what, token) in dead_tokens(&client).await {
        let answer = client.post("/introspect", &[("token", &*token)]).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({"active": false})), "{what}");
        assert_eq!(answer.header(CACHE_CONTROL), "no-store");
    }
    client.stop().await;
}

#[tokio::test]
async fn userinfo_refuses_inactive_tokens() {
    let client = provider().await;
    for (what, token) in dead_tokens(&client).await {
        for request in [
            request(&client, Method::GET, "/userinfo").bearer_auth(&token),
            request(&client, Method::POST, "/userinfo").bearer_auth(&token),
            request(&client, Method::POST, "/userinfo").form(&[("access_token", &token)]),
        ] {
            let answer = client.send(request).await;
            assert_error(&answer, 401, "invalid_token", "invalid_token", None);
            let challenge = answer.header(WWW_AUTHENTICATE);
            let expected = format!("{BEARER_CHALLENGE}, error=\"invalid_token\"");
            assert!(challenge.starts_with(&expected) && !challenge.contains(&token), "{what}: {challenge}");
        }
    }
    client.stop().await;
}
