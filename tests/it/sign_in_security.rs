//! What strangers, neighbours and the log must not get from sign-in, and keys that change while it is used.

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

use crate::calls::Connection;
use crate::certification::visitor::posted_form;
use crate::harness::{Process, folder};
use crate::sign_in_desk::{
    APP, Answer, CALLBACK, CHALLENGE, Form, NEIGHBOUR, Party, SECRET, SECRET_OF_NEIGHBOUR, VERIFIER, add_neighbour,
    browser, current_proof, fragment_or_query, parameters, take_current_proofs, verified,
};

/// Two applications at one provider.
async fn neighbours() -> Party {
    Party::start_with_keys(|config| {
        take_current_proofs(config);
        add_neighbour(config);
    })
    .await
}

/// The pair of a cookie that was given.
fn pair(cookie: Option<String>) -> String {
    cookie.expect("a cookie").split(';').next().expect("a pair").to_owned()
}

// Keys.

/// Keys as somebody fetched them.
struct Fetched {
    at: u64,
    keys: Value,
}

/// A browser that signs in silently, in one way and the other, until told to stop; the ID tokens that its application gets.
async fn sign_in_until(party: &Party, session: &str, is_over: &AtomicBool) -> Vec<String> {
    let mut id_tokens = Vec::new();
    // The bound is for a machine on which making a key takes very long.
    for round in 0..200 {
        let is_last = is_over.load(Ordering::Relaxed) && round > 0;
        let response = party.silently(&[("response_type", "code")], session).await;
        let tokens = party.exchange(&response["code"]).await;
        assert_eq!(tokens.status, 200, "{tokens:?}");
        id_tokens.push(tokens.text("id_token").to_owned());
        let response = party.silently(&[("response_type", "code id_token token")], session).await;
        id_tokens.push(response["id_token"].clone());
        let tokens = party.exchange(&response["code"]).await;
        id_tokens.push(tokens.text("id_token").to_owned());
        if is_last {
            break;
        }
    }
    id_tokens
}

/// Somebody who fetches the keys until told to stop.
async fn fetch_until(party: &Party, is_over: &AtomicBool) -> Vec<Fetched> {
    let mut fetched: Vec<Fetched> = Vec::new();
    for _ in 0..500 {
        let keys = party.published_keys().await;
        if fetched.last().is_none_or(|last| last.keys != keys) {
            fetched.push(Fetched { at: party.now(), keys });
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        tokio::task::yield_now().await;
    }
    fetched
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_change_under_load_are_known_to_who_fetched_them_within_the_hour() {
    const ROTATIONS: usize = 10;
    let party = Party::start_with_keys(|config| {
        take_current_proofs(config);
        config.sign_in.session_lifetime = Duration::from_secs(30 * 24 * 3600);
    })
    .await;
    let token = party.operator_token();
    let mut sessions = Vec::new();
    for person in ["alice", "bob", "carol", "dave"] {
        sessions.push(pair(party.by_the_page(person, &[], "").await.1));
    }
    let (mut issued, mut fetched) = (Vec::new(), Vec::new());
    // Each hour and a second: a rotation, three quarters without one; in the middle one that is refused.
    for quarter in 1..=4 * ROTATIONS {
        party.daemon.clock.advance(Duration::from_secs(if quarter % 4 == 0 { 901 } else { 900 }));
        let is_over = AtomicBool::new(false);
        let rotating = async {
            if quarter % 4 == 0 {
                let rotated = party.rotate_keys("{}", &token).await;
                assert_eq!(rotated.status, 200, "{rotated:?}");
            } else if quarter == 4 * (ROTATIONS / 2) + 2 {
                assert_eq!(party.rotate_keys("{}", &token).await.status, 400, "too early");
            }
            is_over.store(true, Ordering::Relaxed);
        };
        let signing_in = join_all(sessions.iter().map(|session| sign_in_until(&party, session, &is_over)));
        let (id_tokens, keys, ()) = tokio::join!(signing_in, fetch_until(&party, &is_over), rotating);
        issued.extend(id_tokens.into_iter().flatten());
        fetched.extend(keys);
    }
    assert!(issued.len() > 4 * 4 * ROTATIONS, "{} tokens", issued.len());
    // Old and new keys signed, and each was seen come and go.
    let mut signed: BTreeMap<String, usize> = BTreeMap::new();
    let mut checked = 0;
    for id_token in &issued {
        *signed.entry(jsonwebtoken::decode_header(id_token).expect("a header").kid.expect("a name")).or_default() += 1;
        let claims = unverified_claims(id_token);
        let issued_at = claims["iat"].as_u64().expect("a time");
        // Until it expires it is good for whoever fetches the keys later, too.
        for Fetched { keys, .. } in fetched.iter().filter(|fetched| fetched.at.abs_diff(issued_at) <= 3600) {
            assert_eq!(verified(id_token, keys, &party.issuer(), APP), claims);
            checked += 1;
        }
    }
    assert_eq!(signed.len(), ROTATIONS + 1, "{signed:?}");
    assert!(checked > issued.len(), "{checked}");
    assert!(fetched.iter().all(|fetched| (2..=4).contains(&fetched.keys["keys"].as_array().map_or(0, Vec::len))));
    party.stop().await;
}

/// The claims of an ID token, unverified.
fn unverified_claims(id_token: &str) -> Value {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1).expect("claims")).expect("base64url");
    serde_json::from_slice(&claims).expect("JSON")
}

// The log.

/// All that nobody may find in the log, by what it is.
#[derive(Default)]
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn keep(&mut self, what: &'static str, secret: &str) -> String {
        assert!(secret.len() >= 8, "{what} is too short to be looked for: {secret}");
        self.0.push((what, secret.to_owned()));
        secret.to_owned()
    }
}

/// A person's visit to a daemon of its own, with everything in it that can be right or wrong.
async fn visit(daemon: &Process, http: &reqwest::Client, secrets: &mut Secrets, client_secret: &str, operator: &str) {
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

    // By the page.
    let page = send(http.get(authorize(&[])).header(ACCEPT, "text/html")).await;
    let path = page.headers()[SET_COOKIE].to_str().expect("text").split("; Path=").nth(1).expect("a path").to_owned();
    let base = url(path.split(';').next().expect("a path"));
    let (name, secret) = cookie_of(&page);
    let secret = secrets.keep("a transaction's secret", &secret);
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("begun");
    let proof = current_proof(&daemon.operator, &daemon.client(), &opened, "alice").await;
    secrets.keep("a proof", proof["responses"][0]["proof"][0].as_str().expect("text"));
    opened.answer(&proof).await.expect("accepted");
    let done = send(http.get(format!("{base}/complete")).header("Cookie", format!("{name}={secret}"))).await;
    let (session_name, session) = cookie_of(&done);
    let session = format!("{session_name}={}", secrets.keep("a session's secret", &session));
    let code = &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"];
    let code = secrets.keep("a code", code);

    // Code for token: with wrong credentials, with the right ones, once more.
    let form = [("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", CALLBACK)];
    let form = [&form[..], &[("code_verifier", VERIFIER)]].concat();
    let token = || http.post(url("/token")).basic_auth(APP, Some(client_secret));
    let wrong = secrets.keep("a wrong secret", "sk_of_somebody_who_guesses");
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
    let tokens = Answer::of(send(token().form(&form)).await).await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let access = secrets.keep("an access token", tokens.text("access_token"));
    let id_token = secrets.keep("an ID token", tokens.text("id_token"));
    for part in id_token.split('.') {
        secrets.keep("a part of an ID token", part);
    }
    secrets.keep("a subject", unverified_claims(&id_token)["sub"].as_str().expect("text"));

    // The token used, rightly and wrongly.
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

    // Silently, every token by the front channel, as a redirect and as a form; with a hint; with a verifier that is wrong.
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

    // By the JSON form.
    let begun = Answer::of(send(http.get(authorize(&[])).header(ACCEPT, "application/json")).await).await;
    let secret = secrets.keep("a program's secret", begun.text("secret"));
    let opened = SignInSession::open(begun.text("request_url")).await.expect("begun");
    let proof = current_proof(&daemon.operator, &daemon.client(), &opened, "bob").await;
    opened.answer(&proof).await.expect("accepted");
    let base = begun.text("request_url").trim_end_matches("/request");
    let done = send(http.get(format!("{base}/complete")).bearer_auth(&secret)).await;
    secrets.keep("a code", &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"]);

    // The operator.
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
    let client_secret = secrets.keep("the client's secret", "sk_that_nobody_may_read_anywhere");
    let hash = SecretHash::of([9; 16], &client_secret).to_text();
    secrets.keep("the hash of the client's secret", hash.rsplit(':').next().expect("a digest"));
    let apps = format!(
        r#"[{{ id = "{APP}", proof = "current", client_secret_hash = "{hash}", redirect_uris = ["{CALLBACK}"] }}]"#
    );
    let variables = [("SELFSAME_APPS", &*apps), ("RUST_LOG", "trace")];
    let file = std::fs::File::create(&log).expect("a file for the log");
    let daemon = Process::start_with_log(&data, &[], &variables, Stdio::from(file));
    let operator = std::fs::read_to_string(data.join("operator.token")).expect("the token");
    let operator = secrets.keep("the operator's token", operator.trim());
    // HTTP/2 is another road, and its library writes a log of its own.
    let second = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let second = second.http2_prior_knowledge().build().expect("a client");
    for http in [browser(), second] {
        visit(&daemon, &http, &mut secrets, &client_secret, &operator).await;
    }
    assert!(daemon.terminate().success());

    let log = std::fs::read_to_string(&log).expect("the log");
    // It is a log of all that happened.
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

// Neighbours.

#[tokio::test]
async fn a_code_is_its_clients_alone() {
    let party = neighbours().await;
    let redirect = [("client_id", NEIGHBOUR), ("scope", "openid")];
    let (ours, theirs) = (party.code("alice", &[]).await, party.code("alice", &redirect).await);
    for (client, secret, code) in [(APP, SECRET, &theirs), (NEIGHBOUR, SECRET_OF_NEIGHBOUR, &ours)] {
        let form = [("grant_type", "authorization_code"), ("code", &**code), ("redirect_uri", CALLBACK)];
        let refused = party.post_as(client, secret, "/token", &form).await;
        refused.refused(400, "invalid_grant", "invalid_grant");
        assert_eq!(refused.body["attribute"], "code", "as one that never was: {refused:?}");
        // Nor under another's name.
        let other = if client == APP { NEIGHBOUR } else { APP };
        let form = [&form[..], &[("client_id", other)]].concat();
        party.post_as(client, secret, "/token", &form).await.refused(400, "invalid_request", "invalid_request");
    }
    // None of it used them up.
    for (client, secret, code) in [(APP, SECRET, &ours), (NEIGHBOUR, SECRET_OF_NEIGHBOUR, &theirs)] {
        let form = [("grant_type", "authorization_code"), ("code", &**code), ("redirect_uri", CALLBACK)];
        let granted = party.post_as(client, secret, "/token", &form).await;
        assert_eq!(granted.status, 200, "{granted:?}");
        party.claims_for(client, granted.text("id_token")).await;
        // Used, it is still nothing to the other, and the other's try takes nothing back.
        let (other, others) = if client == APP { (NEIGHBOUR, SECRET_OF_NEIGHBOUR) } else { (APP, SECRET) };
        party.post_as(other, others, "/token", &form).await.refused(400, "invalid_grant", "invalid_grant");
        let answer = party.post_as(client, secret, "/introspect", &[("token", granted.text("access_token"))]).await;
        assert_eq!(answer.body["active"], true, "{answer:?}");
    }
    party.stop().await;
}

#[tokio::test]
async fn a_token_is_described_to_its_client_alone() {
    let party = neighbours().await;
    let token = |location: String| fragment_or_query(&location)["access_token"].clone();
    let types = [("response_type", "id_token token")];
    let ours = token(party.sign_in("alice", &types).await);
    let theirs = token(party.sign_in("alice", &[&types[..], &[("client_id", NEIGHBOUR)]].concat()).await);
    let unknown = party.post("/introspect", &[("token", "unknown")]).await;
    for (client, secret, own, other) in
        [(APP, SECRET, &ours, &theirs), (NEIGHBOUR, SECRET_OF_NEIGHBOUR, &theirs, &ours)]
    {
        let answer = party.post_as(client, secret, "/introspect", &[("token", own)]).await;
        assert_eq!((&answer.body["active"], &answer.body["client_id"]), (&json!(true), &json!(client)));
        let answer = party.post_as(client, secret, "/introspect", &[("token", other)]).await;
        assert_eq!((answer.status, &answer.body), (unknown.status, &unknown.body));
        let names = |headers: &HeaderMap| {
            headers.keys().map(|name| name.as_str().to_owned()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names(&answer.headers), names(&unknown.headers));
    }
    // The same person is somebody else at the neighbour's.
    let subject = async |token: &str| {
        let request = party.http.get(party.daemon.sign_in("/userinfo")).bearer_auth(token);
        party.send(request).await.text("sub").to_owned()
    };
    assert_ne!(subject(&ours).await, subject(&theirs).await);
    party.stop().await;
}

#[tokio::test]
async fn a_transaction_is_its_own_alone() {
    let party = neighbours().await;
    let begin = async |client: &str| {
        let url = party.authorization_url(&[("client_id", client)]);
        let begun = Answer::of(party.get(&url, "application/json").await).await;
        let session = SignInSession::open(begun.text("request_url")).await.expect("begun");
        (begun, session)
    };
    let (ours, our_session) = begin(APP).await;
    let (again, again_session) = begin(APP).await;
    let (theirs, their_session) = begin(NEIGHBOUR).await;
    // A proof for one of them is no answer to another, of the same application or the neighbour's.
    let (operator, registry) = (party.daemon.operator(""), party.daemon.client());
    let proof = current_proof(&operator, &registry, &our_session, "alice").await;
    for session in [&again_session, &their_session] {
        let error = session.answer(&proof).await.expect_err("another transaction");
        assert_eq!(error.code(), Some("invalid_request"), "{error}");
    }
    our_session.answer(&proof).await.expect("accepted");
    // Nor is the secret of one of them good for another.
    let base = |begun: &Answer| begun.text("request_url").trim_end_matches("/request").to_owned();
    for other in [&again, &theirs] {
        for path in ["progress", "complete", "events"] {
            let url = format!("{}/{path}", base(&ours));
            let bearer = party.http.get(&url).bearer_auth(other.text("secret"));
            party.send(bearer).await.refused(404, "not_found", "invalid_request");
            let cookie = format!("selfsame_transaction={}", other.text("secret"));
            let cookie = party.http.get(&url).header("Cookie", cookie);
            party.send(cookie).await.refused(404, "not_found", "invalid_request");
        }
    }
    let done = party.http.get(format!("{}/complete", base(&ours))).bearer_auth(ours.text("secret"));
    let done = done.send().await.expect("an answer");
    let code = &fragment_or_query(done.headers()[LOCATION].to_str().expect("text"))["code"];
    assert_eq!(party.exchange(code).await.status, 200);
    party.stop().await;
}

#[tokio::test]
async fn a_session_tells_one_client_nothing_of_another() {
    let party = neighbours().await;
    let neighbour = [("client_id", NEIGHBOUR), ("response_type", "id_token")];
    let own = [("response_type", "id_token")];
    let (little, silent) = ([("scope", "openid")], [("prompt", "none")]);
    let (location, session) = party.by_the_page("alice", &own, "").await;
    let session = pair(session);
    let ours = fragment_or_query(&location)["id_token"].clone();
    // The neighbour is told nothing, not even with an ID token of hers that it got hold of.
    for more in [vec![], vec![("id_token_hint", &*ours)], vec![("max_age", "10000")], vec![("login_hint", "alice")]] {
        let changes = [&neighbour[..], &little, &more].concat();
        let response = party.silently(&[&changes[..], &silent].concat(), &session).await;
        assert_eq!(response["error"], "login_required", "{changes:?}");
        assert_eq!(party.browse(&changes, &session).await.status(), 200, "the person is asked");
    }
    // Signed in to both, she is somebody else at each, and each is told its own.
    let (location, session) = party.by_the_page("alice", &[&neighbour[..], &little].concat(), &session).await;
    let session = pair(session);
    let theirs = party.claims_for(NEIGHBOUR, &fragment_or_query(&location)["id_token"]).await;
    let ours = party.claims(&ours).await;
    assert_ne!(ours["sub"], theirs["sub"]);
    for (client, changes, expected) in [(APP, &own[..], &ours), (NEIGHBOUR, &neighbour[..], &theirs)] {
        let response = party.silently(&[changes, &little, &silent].concat(), &session).await;
        let claims = party.claims_for(client, &response["id_token"]).await;
        assert_eq!(claims["sub"], expected["sub"], "{client}");
    }
    // What she lets one of them know the other does not get for that.
    let response = party.silently(&[&neighbour[..], &silent].concat(), &session).await;
    assert_eq!(response["error"], "login_required", "it asks for more than she has approved there");
    assert!(party.silently(&[&own[..], &silent].concat(), &session).await.contains_key("id_token"));
    party.stop().await;
}

#[tokio::test]
async fn a_secret_of_one_kind_is_not_good_for_another() {
    let party = neighbours().await;
    let page = party.browse(&[], "").await;
    let (transaction, base) = party.shown_transaction(&page);
    let transaction = transaction.split_once('=').expect("a pair").1;
    let (location, session) = party.by_the_page("alice", &[], "").await;
    let session = pair(session);
    let session = session.split_once('=').expect("a pair").1;
    let code = fragment_or_query(&location)["code"].clone();
    let granted = party.exchange(&party.code("alice", &[]).await).await;
    let (access, id_token) = (granted.text("access_token"), granted.text("id_token"));
    let operator = party.operator_token();
    let secrets =
        [transaction, session, &code, access, id_token, SECRET, &operator, base.rsplit('/').next().expect("an id")];
    for secret in secrets {
        if secret != code {
            party.exchange(secret).await.refused(400, "invalid_grant", "invalid_grant");
        }
        if secret != access {
            party.post("/introspect", &[("token", secret)]).await.refused(401, "invalid_token", "invalid_token");
            let userinfo = party.http.get(party.daemon.sign_in("/userinfo")).bearer_auth(secret);
            party.send(userinfo).await.refused(401, "invalid_token", "invalid_token");
        }
        if secret != session {
            let cookie = format!("selfsame_session={secret}");
            assert_eq!(party.silently(&[("prompt", "none")], &cookie).await["error"], "login_required");
        }
        if secret != transaction {
            let complete = party.http.get(format!("{base}/complete")).bearer_auth(secret);
            party.send(complete).await.refused(404, "not_found", "invalid_request");
        }
        if secret != SECRET {
            party.post_as(APP, secret, "/introspect", &[("token", access)]).await.refused(
                401,
                "unauthenticated",
                "invalid_client",
            );
        }
        if secret != operator {
            assert_eq!(party.rotate_keys("{\"now\":true}", secret).await.status, 401);
        }
    }
    assert_eq!(party.exchange(&code).await.status, 200);
    party.stop().await;
}

#[tokio::test]
async fn scripts_of_other_origins_read_nothing_that_a_cookie_opens() {
    let party = neighbours().await;
    let (_, session) = party.by_the_page("alice", &[], "").await;
    let session = pair(session);
    let (transaction, base) = party.shown_transaction(&party.browse(&[("prompt", "login")], &session).await);
    let cookies = format!("{session}; {transaction}");
    let authorize = party.authorization_url(&[]);
    for (method, url) in [
        (Method::GET, authorize.clone()),
        (Method::POST, party.daemon.sign_in("/authorize")),
        (Method::OPTIONS, party.daemon.sign_in("/authorize")),
        (Method::GET, format!("{base}/request")),
        (Method::OPTIONS, format!("{base}/proof")),
        (Method::GET, format!("{base}/complete")),
        (Method::OPTIONS, format!("{base}/complete")),
        (Method::OPTIONS, format!("{base}/progress")),
        (Method::POST, party.daemon.sign_in("/introspect")),
        (Method::OPTIONS, party.daemon.sign_in("/introspect")),
    ] {
        for accept in ["text/html", "application/json"] {
            let request = party.http.request(method.clone(), &url).header("Origin", "https://evil.example");
            let request = request.header("Access-Control-Request-Method", "GET").header(ACCEPT, accept);
            let answer = request.header("Cookie", &cookies).send().await.expect("an answer");
            assert_eq!(answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN), None, "{method} {url}");
        }
    }
    // Where anybody's scripts may read, no cookie counts and none is asked for.
    let request = party.http.get(party.daemon.sign_in("/userinfo")).header("Origin", "https://evil.example");
    let answer = request.header("Cookie", &cookies).send().await.expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()[ACCESS_CONTROL_ALLOW_ORIGIN]),
        (401, &"*".parse().expect("a value"))
    );
    assert_eq!(answer.headers().get("access-control-allow-credentials"), None);
    party.stop().await;
}

// Markup.

/// What a browser would run if it came back as it was sent.
const MARKUP: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

/// Asserts that nothing of [`MARKUP`] is in an answer where a browser would take it for markup or a header; returns its text.
async fn has_no_markup(answer: Response, what: &str) -> String {
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
async fn no_parameter_of_authorize_is_markup_in_a_page() {
    let party = neighbours().await;
    let (_, session) = party.by_the_page("alice", &[], "").await;
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
            let url = party.authorization_url(&changes);
            for cookie in ["", &session, &format!("selfsame_session={MARKUP}; selfsame_transaction={MARKUP}")] {
                for accept in ["text/html", "*/*", "application/json"] {
                    let get = party.http.get(&url);
                    let post = party.http.post(party.daemon.sign_in("/authorize")).form(&parameters(&changes));
                    for request in [get, post] {
                        let answer = request.header(ACCEPT, accept).header("Cookie", cookie).send().await;
                        has_no_markup(answer.expect("an answer"), &format!("{name} with {others:?}")).await;
                    }
                }
            }
        }
    }
    party.stop().await;
}

#[tokio::test]
async fn what_is_posted_back_is_what_was_sent() {
    let party = Party::start_with_keys(|config| {
        take_current_proofs(config);
        config.apps[0].rename(MARKUP);
        config.apps[0].redirect_uris = vec!["https://app.example/callback?a=1&b='2'&c=%22".to_owned()];
    })
    .await;
    let uri = "https://app.example/callback?a=1&b='2'&c=%22";
    let changes = [("redirect_uri", uri), ("state", MARKUP), ("response_mode", "form_post")];
    let shown = has_no_markup(party.browse(&changes, "").await, "the page of an application").await;
    assert!(shown.contains("&lt;script&gt;alert(1)"), "{shown}");
    for more in [("prompt", "none"), ("scope", "x")] {
        let changes = [&changes[..], &[more]].concat();
        let page = has_no_markup(party.browse(&changes, "").await, "a form").await;
        let (action, fields) = posted_form(&page);
        assert_eq!((&*action, &*fields["state"]), (uri, MARKUP));
    }
    let page = party.browse(&changes, "").await;
    let done = party.answer_page(page, "alice", "").await;
    let (action, fields) = posted_form(&has_no_markup(done, "a response").await);
    assert_eq!((&*action, &*fields["state"], fields.contains_key("code")), (uri, MARKUP, true));
    party.stop().await;
}

#[tokio::test]
async fn nothing_that_is_sent_elsewhere_comes_back_as_markup() {
    let party = neighbours().await;
    let code = party.code("alice", &[]).await;
    let post = |path: &str| party.http.post(party.daemon.sign_in(path)).header(ACCEPT, "text/html");
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
    let (_, base) = party.shown_transaction(&party.browse(&[], "").await);
    let encoded: String = MARKUP.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let issuer = party.issuer();
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
            let request = party.http.request(method.clone(), &url).header(ACCEPT, "text/html");
            requests
                .push((format!("{method} {url}"), request.header("Cookie", format!("selfsame_transaction={MARKUP}"))));
        }
    }
    for body in [json!({"error": MARKUP}), json!({MARKUP: MARKUP}), json!({"protocol_version": MARKUP}), json!(MARKUP)]
    {
        let request = party.http.post(format!("{base}/proof")).header(ACCEPT, "text/html");
        requests.push((format!("{body} as an answer"), request.json(&body)));
    }
    for (what, request) in requests {
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_client_error(), "{what}: {answer:?}");
        // A person may be on the way from a page to the application; programs are everywhere else.
        let is_json = answer.headers()[CONTENT_TYPE] == "application/json";
        assert!(is_json || what.contains("/authorize/"), "{what}: {answer:?}");
        has_no_markup(answer, &what).await;
    }
    let shown = party.get(&format!("{base}/request?{encoded}={encoded}"), "text/html").await;
    has_no_markup(shown, "the address of a proof request").await;
    party.stop().await;
}

/// A client that is no browser sends what it likes.
#[tokio::test]
async fn paths_that_no_browser_sends_are_no_markup() {
    let party = neighbours().await;
    for path in [
        "/\"onload=alert(1)//{}",
        "/<script>alert(1)</script>",
        "/authorize/<script>alert(1)</script>/complete",
        "/authorize?state=<script>alert(1)</script>&client_id=\"'><img src=x>",
        "//evil.example/%2e%2e",
        "http://evil.example/<script>",
    ] {
        let mut connection = Connection::open(party.daemon.addresses[Interface::SignIn]).await;
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
    party.stop().await;
}
