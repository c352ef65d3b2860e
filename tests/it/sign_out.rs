//! The end of sign-ins: logout, the page of a browser's session, and the revocation of tokens.

use std::time::Duration;

use reqwest::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, SET_COOKIE,
};
use reqwest::{Method, Response, Url};
use selfsame_interfaces::interface::Interface;
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use crate::certification::browser::posted_form;
use crate::sign_in_client::{
    APP, Form, OTHER_APP, OTHER_APP_SECRET, SECRET, SignInAnswer, SignInTestClient, accept_current_proofs,
    add_other_app, fragment_or_query, pair,
};

const BYE: &str = "https://app.example/bye?from=selfsame";

async fn start() -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        add_other_app(config);
        config.apps[0].post_logout_redirect_uris = vec![BYE.parse().expect("a redirect URI")];
    })
    .await
}

/// Signs `person` in through the page; returns the session cookie and the ID token.
async fn sign_in(client: &SignInTestClient, person: &str) -> (String, String) {
    let (location, session) = client.sign_in_by_page(person, &[("response_type", "id_token")], "").await;
    (pair(session), fragment_or_query(&location)["id_token"].clone())
}

async fn is_signed_in(client: &SignInTestClient, session: &str) -> bool {
    let silent = [("response_type", "id_token"), ("prompt", "none")];
    client.browse_silently(&silent, session).await.contains_key("id_token")
}

async fn get_logout(client: &SignInTestClient, parameters: &[(&str, &str)], cookie: &str) -> Response {
    let url = Url::parse_with_params(&client.daemon.sign_in("/logout"), parameters).expect("a URL");
    client.http.get(url).header(ACCEPT, "text/html").header("Cookie", cookie).send().await.expect("an answer")
}

async fn post_form(client: &SignInTestClient, path: &str, form: &[(&str, &str)], cookie: &str) -> Response {
    let request = client.http.post(client.daemon.sign_in(path)).header(ACCEPT, "text/html").header("Cookie", cookie);
    request.form(form).send().await.expect("an answer")
}

#[tokio::test]
async fn an_id_token_of_the_person_ends_the_session_and_leads_back() {
    let client = start().await;
    let location = "https://app.example/bye?from=selfsame&state=a+state%26more";
    for by_post in [false, true] {
        let (session, id_token) = sign_in(&client, "alice").await;
        // An expired ID token is a valid hint.
        client.daemon.clock.advance(Duration::from_secs(3601));
        let form = [("id_token_hint", &*id_token), ("post_logout_redirect_uri", BYE), ("state", "a state&more")];
        let done = match by_post {
            true => post_form(&client, "/logout", &form, &session).await,
            false => get_logout(&client, &form, &session).await,
        };
        assert_eq!((done.status().as_u16(), done.headers()[LOCATION].to_str().expect("text")), (303, location));
        assert_eq!(done.headers()[CACHE_CONTROL], "no-store");
        let removed = done.headers()[SET_COOKIE].to_str().expect("text").to_owned();
        assert!(removed.starts_with("selfsame_session=; Path=/; Max-Age=0;"), "{removed}");
        assert!(!is_signed_in(&client, &session).await);
        // Again, in a browser that is signed in nowhere.
        assert_eq!(get_logout(&client, &form, &session).await.headers()[LOCATION], location);
        assert_eq!(get_logout(&client, &form[..1], "").await.status(), 200);
    }
    client.stop().await;
}

#[tokio::test]
async fn without_a_hint_of_the_person_the_page_asks_and_only_its_own_form_counts() {
    let client = start().await;
    let (session, id_token) = sign_in(&client, "alice").await;
    let (other_session, bobs) = sign_in(&client, "bob").await;
    let forged = format!("{}AAAA", &id_token[..id_token.len() - 4]);
    let back = [("client_id", APP), ("post_logout_redirect_uri", BYE), ("state", "s")];
    let mut form = Vec::new();
    for hint in [None, Some(&bobs), Some(&forged)] {
        let hint: Vec<(&str, &str)> = hint.map(|hint| ("id_token_hint", hint.as_str())).into_iter().collect();
        let asked = get_logout(&client, &[&back[..], &hint].concat(), &session).await;
        assert_eq!((asked.status().as_u16(), asked.headers().get(LOCATION)), (200, None), "{hint:?}");
        // Without a referrer a browser would not say where the form comes from.
        assert_eq!(asked.headers()[REFERRER_POLICY], "same-origin");
        let (action, fields) = posted_form(&asked.text().await.expect("text"));
        assert_eq!((&*action, &*fields["post_logout_redirect_uri"]), ("/logout", BYE));
        form = fields.into_iter().collect();
        assert!(is_signed_in(&client, &session).await, "{hint:?}");
    }
    form.retain(|(name, _)| name != "id_token_hint");
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wrong: Vec<(&str, &str)> =
        form.iter().map(|(name, value)| (*name, if *name == "confirmation" { "x" } else { value })).collect();
    // The form of another session, a wrong confirmation, and forms that other sites sent.
    for (form, session, header) in [
        (&form, &other_session, None),
        (&wrong, &session, None),
        (&form, &session, Some(("Sec-Fetch-Site", "cross-site"))),
        (&form, &session, Some(("Sec-Fetch-Site", "same-site"))),
        (&form, &session, Some(("Origin", "https://evil.example"))),
        (&form, &session, Some(("Origin", "null"))),
    ] {
        let request = client.http.post(client.daemon.sign_in("/logout")).header("Cookie", session);
        let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = request.form(form).send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.headers().get(SET_COOKIE)), (200, None), "{header:?}");
        assert!(is_signed_in(&client, session).await, "{header:?}");
    }
    // A link with the confirmation, which another site could only guess.
    assert_eq!(get_logout(&client, &form, &session).await.status(), 200);
    assert!(is_signed_in(&client, &session).await);

    let done = post_form(&client, "/logout", &form, &session).await;
    assert_eq!(done.headers()[LOCATION], "https://app.example/bye?from=selfsame&state=s");
    assert!(!is_signed_in(&client, &session).await && is_signed_in(&client, &other_session).await);
    client.stop().await;
}

/// A browser sends no session cookie with a form of another site (`SameSite=Lax`), but it takes the
/// cookies of the answer.
#[tokio::test]
async fn a_form_of_another_site_without_the_cookie_signs_no_browser_out() {
    let client = start().await;
    let (session, id_token) = sign_in(&client, "alice").await;
    let hint = ("id_token_hint", &*id_token);
    let mut form = Vec::new();
    for forged in [vec![hint], vec![hint, ("confirmation", "x")], vec![hint, ("confirmation", "")]] {
        let request = client.http.post(client.daemon.sign_in("/logout")).header("Sec-Fetch-Site", "cross-site");
        let page = request.form(&forged).send().await.expect("an answer");
        assert_eq!((page.status().as_u16(), page.headers().get(SET_COOKIE)), (200, None), "{forged:?}");
        let text = page.text().await.expect("text");
        assert!(!text.contains("You are signed out"), "{text}");
        let (action, fields) = posted_form(&text);
        assert_eq!((&*action, &*fields["id_token_hint"]), ("/logout", &*id_token));
        form = fields.into_iter().collect();
    }
    // The page's own form brings the cookie. It gives the answer that the application asked for, at
    // once.
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert!(is_signed_in(&client, &session).await);
    let done = post_form(&client, "/logout", &form, &session).await;
    assert!(done.headers()[SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
    assert!(!is_signed_in(&client, &session).await);
    // A browser without a cookie gets none, not even a removal.
    let done = post_form(&client, "/logout", &form, "").await;
    assert_eq!((done.status().as_u16(), done.headers().get(SET_COOKIE)), (200, None));
    client.stop().await;
}

#[tokio::test]
async fn what_a_logout_request_repeats_is_never_markup() {
    const MARKUP: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let client = start().await;
    let (session, _) = sign_in(&client, "alice").await;
    let known = [("client_id", APP), ("post_logout_redirect_uri", BYE)];
    for field in ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", "confirmation", MARKUP] {
        let kept = known.into_iter().filter(|(name, _)| *name != field);
        let form: Vec<(&str, &str)> = kept.chain([(field, MARKUP)]).collect();
        for (path, cookie) in [("/logout", &*session), ("/logout", ""), ("/session", &*session), ("/revoke", "")] {
            let posted = client.http.post(client.daemon.sign_in(path)).header("Cookie", cookie);
            let url = Url::parse_with_params(&client.daemon.sign_in(path), &form).expect("a URL");
            for request in [posted.header("Sec-Fetch-Site", "cross-site").form(&form), client.http.get(url)] {
                let answer = request.header(ACCEPT, "text/html").send().await.expect("an answer");
                assert!(!format!("{:?}", answer.headers()).contains('<'), "{field} at {path}: {answer:?}");
                let text = answer.text().await.expect("text");
                assert!(!text.contains("<script>") && !text.contains("<img"), "{field} at {path}: {text}");
            }
        }
    }
    assert!(is_signed_in(&client, &session).await);
    client.stop().await;
}

#[tokio::test]
async fn scripts_of_other_origins_read_no_page_of_a_session() {
    let client = start().await;
    let (session, _) = sign_in(&client, "alice").await;
    for (method, path) in [
        (Method::GET, "/logout"),
        (Method::POST, "/logout"),
        (Method::OPTIONS, "/logout"),
        (Method::GET, "/session"),
        (Method::POST, "/session"),
        (Method::OPTIONS, "/session"),
    ] {
        let request = client.http.request(method.clone(), client.daemon.sign_in(path)).header("Cookie", &session);
        let request = request.header("Origin", "https://evil.example").form(&[("confirmation", "x")]);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN), None, "{method} {path}");
    }
    assert!(is_signed_in(&client, &session).await);
    client.stop().await;
}

#[tokio::test]
async fn a_logout_request_with_an_error_ends_nothing_and_leads_nowhere() {
    let client = start().await;
    let (session, id_token) = sign_in(&client, "alice").await;
    let hint = ("id_token_hint", &*id_token);
    let evil = ("post_logout_redirect_uri", "https://evil.example/");
    for (parameters, code, attribute) in [
        (vec![hint, evil], "invalid_redirect_uri", "post_logout_redirect_uri"),
        (
            vec![hint, ("post_logout_redirect_uri", "https://app.example/bye")],
            "invalid_redirect_uri",
            "post_logout_redirect_uri",
        ),
        (vec![hint, ("client_id", OTHER_APP)], "invalid_request", "client_id"),
        (
            vec![("client_id", OTHER_APP), ("post_logout_redirect_uri", BYE)],
            "invalid_redirect_uri",
            "post_logout_redirect_uri",
        ),
        (vec![("client_id", "app_unknown")], "invalid_client_id", "client_id"),
        (vec![("post_logout_redirect_uri", BYE)], "required", "client_id"),
        (vec![hint, ("state", "1"), ("state", "2")], "invalid_request", "state"),
    ] {
        let page = get_logout(&client, &parameters, &session).await;
        assert_eq!((page.status().as_u16(), page.headers().get(LOCATION)), (400, None), "{parameters:?}");
        assert!(page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text").starts_with("default-src 'none';"));
        assert!(page.text().await.expect("text").contains(code), "{parameters:?}");
        let url = Url::parse_with_params(&client.daemon.sign_in("/logout"), &parameters).expect("a URL");
        let answer = client.send(client.http.get(url).header(ACCEPT, "application/json")).await;
        answer.expect_error(400, code, "invalid_request");
        assert_eq!(answer.body["attribute"], attribute);
        assert!(is_signed_in(&client, &session).await, "{parameters:?}");
    }
    let put = client.http.put(client.daemon.sign_in("/logout"));
    client.send(put).await.expect_error(405, "method_not_allowed", "invalid_request");
    client.stop().await;
}

#[tokio::test]
async fn the_page_of_a_session_shows_its_sign_ins_and_ends_them() {
    let client = start().await;
    let page = async |cookie: &str| {
        let request = client.http.get(client.daemon.sign_in("/session")).header("Cookie", cookie);
        let page = request.send().await.expect("an answer");
        assert_eq!(
            (page.status().as_u16(), &page.headers()[CACHE_CONTROL]),
            (200, &"no-store".parse().expect("a value"))
        );
        page.text().await.expect("text")
    };
    assert!(!page("").await.contains("<form"));
    let (session, _) = sign_in(&client, "alice").await;
    let shown = page(&session).await;
    assert!(shown.contains("Example application") && shown.contains("2026-07-01T00:00:00Z"), "{shown}");
    assert!(!shown.contains(session.split_once('=').expect("a pair").1), "the secret is not on the page");
    let (action, fields) = posted_form(&shown);
    let form: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(action, "/session");
    for (form, site) in [(&form[..], "cross-site"), (&[], "same-origin"), (&[("confirmation", "x")], "same-origin")] {
        let request = client.http.post(client.daemon.sign_in("/session")).header("Cookie", &session);
        let answer = request.header("Sec-Fetch-Site", site).form(form).send().await.expect("an answer");
        assert!(answer.text().await.expect("text").contains("<form"), "{form:?} {site}");
        assert!(is_signed_in(&client, &session).await, "{form:?} {site}");
    }
    let done = post_form(&client, "/session", &form, &session).await;
    assert!(done.headers()[SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
    assert!(!is_signed_in(&client, &session).await);
    client.stop().await;
}

#[tokio::test]
async fn a_client_revokes_its_own_access_tokens() {
    let client = start().await;
    let tokens = client.exchange(&client.code("alice", &[]).await).await;
    let token = tokens.text("access_token");
    let is_active = async || client.post("/introspect", &[("token", token)]).await.status == 200;
    // Other texts, and the same token from another client, get the answer of a revocation.
    let revoked = async |client_id: &str, secret: &str, form: &[(&str, &str)]| {
        let answer = client.post_as(client_id, secret, "/revoke", form).await;
        assert_eq!(
            (answer.status, &answer.body, answer.header(CACHE_CONTROL)),
            (200, &json!(""), "no-store"),
            "{form:?}"
        );
        assert_eq!(answer.header(ACCESS_CONTROL_ALLOW_ORIGIN), "*");
    };
    revoked(APP, SECRET, &[("token", "unknown")]).await;
    revoked(OTHER_APP, OTHER_APP_SECRET, &[("token", token)]).await;
    assert!(is_active().await, "another client cannot revoke it");
    let id_token = [("token", tokens.text("id_token")), ("token_type_hint", "access_token")];
    let refused = client.post("/revoke", &id_token).await;
    refused.expect_error(400, "unsupported_token_type", "unsupported_token_type");
    for (form, code, error) in [
        (&[][..], "required", "invalid_request"),
        (&[("token", token), ("token", token)], "invalid_request", "invalid_request"),
    ] {
        client.post("/revoke", form).await.expect_error(400, code, error);
    }
    let wrong = client.post_as(APP, "wrong", "/revoke", &[("token", token)]).await;
    wrong.expect_error(401, "unauthenticated", "invalid_client");
    let json = client.http.post(client.daemon.sign_in("/revoke")).basic_auth(APP, Some(SECRET)).json(&json!({}));
    client.send(json).await.expect_error(400, "invalid_content_type", "invalid_request");
    assert!(is_active().await);

    revoked(APP, SECRET, &[("token", token), ("token_type_hint", "refresh_token")]).await;
    assert!(!is_active().await);
    let userinfo = client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(token);
    client.send(userinfo).await.expect_error(401, "invalid_token", "invalid_token");
    revoked(APP, SECRET, &[("token", token)]).await;
    client.stop().await;
}

#[tokio::test]
async fn a_revoked_key_is_gone_at_once_and_sign_ins_end_with_it_on_demand() {
    let client = start().await;
    let (session, id_token) = sign_in(&client, "alice").await;
    let tokens = client.exchange(&client.code("alice", &[]).await).await;
    let token = tokens.text("access_token").to_owned();
    let unused = client.code("alice", &[]).await;
    let is_active = async |token: &str| client.post("/introspect", &[("token", token)]).await.status == 200;
    let operator = client.operator_token();
    let revoke = async |body: Value, operator: &str| {
        let request = client.http.post(client.daemon.operator("/keys/revoke")).bearer_auth(operator);
        client.send(request.json(&body)).await
    };
    let kids = async || {
        let keys = client.published_keys().await;
        keys["keys"].as_array().expect("keys").iter().map(|key| key["kid"].clone()).collect::<Vec<_>>()
    };
    let stolen = kids().await;
    let signed_with = jsonwebtoken::decode_header(&id_token).expect("a header").kid.expect("a key");
    assert_eq!(stolen[0], signed_with);
    assert_eq!(revoke(json!({"kid": signed_with}), "wrong").await.status, 401);
    assert_eq!(revoke(json!({"kid": "unknown"}), &operator).await.status, 400);

    let revoked = revoke(json!({"kid": signed_with}), &operator).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let left = kids().await;
    assert!(!left.contains(&stolen[0]) && left[0] == stolen[1] && left.len() == 2, "the next key signs: {left:?}");
    // What the key signed is no hint any more; the sign-ins themselves go on.
    let hinted = [("response_type", "id_token"), ("prompt", "none"), ("id_token_hint", &*id_token)];
    assert!(client.browse_silently(&hinted, &session).await.contains_key("id_token"), "as without a hint");
    assert!(is_signed_in(&client, &session).await && is_active(&token).await);
    let (_, new) = sign_in(&client, "alice").await;
    assert_eq!(jsonwebtoken::decode_header(&new).expect("a header").kid, stolen[1].as_str().map(str::to_owned));

    let answered = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    client.answer(&answered, "alice").await.expect("accepted");
    assert_eq!(revoke(json!({"kid": stolen[1], "end_sessions": true}), &operator).await.status, 200);
    assert!(!is_signed_in(&client, &session).await && !is_active(&token).await);
    client.exchange(&unused).await.expect_error(400, "invalid_grant", "invalid_grant");
    assert!(answered.complete().await.is_err(), "a proof from before the end");
    // Sign-ins after it count.
    client.daemon.clock.advance(Duration::from_secs(1));
    let (session, _) = sign_in(&client, "alice").await;
    let tokens = client.exchange(&client.code("alice", &[]).await).await;
    assert!(is_signed_in(&client, &session).await && is_active(tokens.text("access_token")).await);
    client.stop().await;
}

#[tokio::test]
async fn a_file_that_is_not_an_encryption_key_is_refused() {
    let folder = crate::harness::folder();
    let path = folder.path().join("encryption.key");
    let variable = path.to_str().expect("text").to_owned();
    let variables = [("SELFSAME_SIGN_IN__KEY_ENCRYPTION_KEY_FILE", variable.as_str())];
    let text = crate::harness::refused_start(folder.path(), &variables).await;
    assert!(text.contains("sign_in.key_encryption_key_file: ") && text.contains("encryption.key"), "{text}");
    crate::harness::write_secret(&path, "0f0f");
    let text = crate::harness::refused_start(folder.path(), &variables).await;
    assert!(text.contains("64 hex digits") && !text.contains("0f0f"), "{text}");
    // The daemon never makes this file.
    crate::harness::write_secret(&path, "\n");
    let text = crate::harness::refused_start(folder.path(), &variables).await;
    assert!(text.contains("encryption.key: the file is empty") && !text.contains("makes a new one"), "{text}");
}

#[tokio::test]
async fn both_well_known_addresses_name_the_logout_and_revocation_endpoints() {
    let client = start().await;
    let get = async |path: &str| {
        let answer = SignInAnswer::of(client.get(&client.daemon.sign_in(path), "*/*").await).await;
        assert_eq!((answer.status, answer.header(ACCESS_CONTROL_ALLOW_ORIGIN)), (200, "*"), "{path}");
        answer.body
    };
    let document: Value = get("/.well-known/openid-configuration").await;
    assert_eq!(get("/.well-known/oauth-authorization-server").await, document);
    assert_eq!(document["end_session_endpoint"], client.daemon.sign_in("/logout"));
    assert_eq!(document["revocation_endpoint"], client.daemon.sign_in("/revoke"));
    let methods = json!(["client_secret_basic", "client_secret_post", "none"]);
    assert_eq!(document["revocation_endpoint_auth_methods_supported"], methods);
    client.stop().await;
}

/// RFC 8414, section 3: the metadata of `https://example.org/id` is at the root of the host, with
/// the path at its end. The proxy leads that address to the daemon's own.
#[tokio::test]
async fn an_issuer_with_a_path_has_its_metadata_where_the_proxy_leads_to() {
    let client = SignInTestClient::start_with_keys(|config| {
        config.urls[Interface::SignIn] = Some("https://example.org/id".to_owned());
    })
    .await;
    let get = async |path: &str| SignInAnswer::of(client.get(&client.daemon.sign_in(path), "*/*").await).await;
    let metadata = get("/.well-known/oauth-authorization-server").await;
    assert_eq!((metadata.status, metadata.text("issuer")), (200, "https://example.org/id"));
    assert_eq!(metadata.text("token_endpoint"), "https://example.org/id/token");
    // The daemon does not know the path that the proxy removes.
    assert_eq!(get("/.well-known/oauth-authorization-server/id").await.status, 404);
    client.stop().await;
}
