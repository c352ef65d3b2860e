//! What is of no use to another application, another transaction or a script of another origin.

use reqwest::Method;
use reqwest::header::{ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, LOCATION};
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::json;

use crate::sign_in_client::{
    APP, CALLBACK, OTHER_APP, OTHER_APP_SECRET, SECRET, SignInAnswer, current_proof, fragment_or_query, pair,
    two_applications,
};

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
        let error =
            session.answer_from(session.request(), &proof, Place::Unsaid).await.expect_err("another transaction");
        assert_eq!(error.code(), Some("invalid_request"), "{error}");
    }
    our_session.answer_from(our_session.request(), &proof, Place::Unsaid).await.expect("accepted");
    // The secret of one transaction does not work for another.
    let base = |started: &SignInAnswer| started.text("request_url").trim_end_matches("/request").to_owned();
    for other in [&again, &theirs] {
        for path in ["progress", "complete", "events"] {
            let url = format!("{}/{path}", base(&ours));
            let bearer = client.http.get(&url).bearer_auth(other.text("secret"));
            client.send(bearer).await.expect_error(404, "not_found", "invalid_request");
            let cookie = format!("selfsame_transaction_{}={}", ours.text("transaction"), other.text("secret"));
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
        (Method::GET, format!("{base}/progress?wait=0")),
        (Method::GET, format!("{base}/events")),
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
