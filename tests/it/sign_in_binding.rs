//! What ties a proof to the browser that began the sign-in: the attacker who sends their own
//! sign-in to a victim, the return URL, and the signed request that the wallet checks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use reqwest::header::{ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, LOCATION, RETRY_AFTER, SET_COOKIE, USER_AGENT};
use selfsame::config::{CrossDevice, RateLimit, TimeSpan};
use selfsame_actors::SignInClient;
use selfsame_wallet::sign_in::{Place, RequestError, SignInRequest, SignInSession};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{DaemonProcess, folder, run};
use crate::sign_in_client::{
    APP, CALLBACK, SignInAnswer, SignInTestClient, accept_current_proofs, current_proof, fragment_or_query,
    wait_for_signing_keys,
};

async fn start(cross_device: CrossDevice) -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].cross_device = cross_device;
    })
    .await
}

/// A sign-in in the browser of the person who began it.
struct BegunSignIn {
    base: String,
    cookie: String,
}

async fn begin(client: &SignInTestClient) -> BegunSignIn {
    let (cookie, base) = client.transaction_of_page(&client.browse(&[], "").await);
    BegunSignIn { base, cookie }
}

/// The victim's wallet answers a sign-in that it got as `mode` says.
async fn answer_as(client: &SignInTestClient, base: &str, mode: Option<&str>) -> SignInAnswer {
    let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
    let mut proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "victim").await;
    if let Some(mode) = mode {
        proof["mode"] = json!(mode);
    }
    client.send(client.http.post(format!("{base}/proof")).json(&proof)).await
}

async fn complete(client: &SignInTestClient, url: &str, cookie: &str) -> SignInAnswer {
    let request = client.http.get(url).header(ACCEPT, "application/json").header("Cookie", cookie);
    client.send(request).await
}

async fn progress(client: &SignInTestClient, begun: &BegunSignIn) -> Value {
    let request = client.http.get(format!("{}/progress?wait=0", begun.base)).header("Cookie", &begun.cookie);
    client.send(request).await.body
}

/// The attacker begins a sign-in and sends its link to the victim, whose wallet opens it. The
/// attacker has the cookie, and the victim's browser gets the return URL: neither can complete.
#[tokio::test]
async fn a_link_that_an_attacker_sends_completes_nowhere() {
    for cross_device in [CrossDevice::Allow, CrossDevice::Deny] {
        let client = start(cross_device).await;
        let attack = begin(&client).await;
        let answered = answer_as(&client, &attack.base, Some("same_device")).await;
        let return_url = answered.text("return_url").to_owned();
        assert!(return_url.starts_with(&format!("{}/complete?return=", attack.base)), "{answered:?}");
        assert_eq!(progress(&client, &attack).await, json!({"state": "answered", "same_device": true}));
        let complete_url = format!("{}/complete", attack.base);
        for guess in ["", "?return=", "?return=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            let refused = complete(&client, &format!("{complete_url}{guess}"), &attack.cookie).await;
            refused.expect_error(400, "invalid_request", "invalid_request");
            assert_eq!(refused.body["attribute"], "return");
            assert_eq!(refused.headers.get(SET_COOKIE), None, "no session");
        }
        let victims = complete(&client, &return_url, "").await;
        victims.expect_error(404, "not_found", "invalid_request");
        // The browser that began the sign-in completes at the return URL, the same each time.
        let done = complete(&client, &return_url, &attack.cookie).await;
        assert!(done.header(LOCATION).starts_with(&format!("{CALLBACK}?code=")), "{done:?}");
        let again = complete(&client, &return_url, &attack.cookie).await;
        assert_eq!(again.headers.get(LOCATION), done.headers.get(LOCATION));
        client.stop().await;
    }
}

/// The attacker shows the victim the code of their own sign-in. Nothing but the person's attention
/// to what the wallet shows stops this, so an application can forbid it.
#[tokio::test]
async fn a_code_that_an_attacker_shows_works_unless_the_application_forbids_it() {
    for mode in [None, Some("cross_device")] {
        let client = start(CrossDevice::Allow).await;
        let attack = begin(&client).await;
        let answered = answer_as(&client, &attack.base, mode).await;
        assert_eq!((answered.status, &answered.body), (200, &json!({"success": true})));
        let done = complete(&client, &format!("{}/complete", attack.base), &attack.cookie).await;
        assert!(fragment_or_query(done.header(LOCATION)).contains_key("code"), "{done:?}");
        client.stop().await;

        let client = start(CrossDevice::Deny).await;
        let attack = begin(&client).await;
        let refused = answer_as(&client, &attack.base, mode).await;
        refused.expect_error(400, "cross_device_denied", "access_denied");
        assert_eq!(refused.body["attribute"], "mode");
        let nothing = complete(&client, &format!("{}/complete", attack.base), &attack.cookie).await;
        nothing.expect_error(400, "invalid_request", "invalid_request");
        // The page has no code to scan, and the sign-in is still open for the person's own device.
        let page = client.browse(&[], "").await.text().await.expect("text");
        assert!(!page.contains("<svg") && page.contains("on this device"), "{page}");
        assert!(answer_as(&client, &attack.base, Some("same_device")).await.body["return_url"].is_string());
        client.stop().await;
    }
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let wrong = answer_as(&client, &begun.base, Some("both")).await;
    wrong.expect_error(400, "invalid_request", "invalid_request");
    client.stop().await;
}

/// In the JSON form the secret takes the cookie's place.
#[tokio::test]
async fn a_program_completes_an_answer_of_its_own_device_with_both_secrets() {
    let client = start(CrossDevice::Deny).await;
    let session = SignInSession::open(&client.authorization_url(&[])).await.expect("the sign-in starts");
    let request = session.verify(&client.issuer()).await.expect("signed by the issuer");
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "alice").await;
    let denied = session.answer_from(&request, &proof, Place::Unsaid).await.expect_err("another device");
    assert_eq!(denied.code(), Some("cross_device_denied"));
    let onward = session.answer_from(&request, &proof, Place::Here).await.expect("accepted");
    assert!(session.complete().await.is_err(), "without the return URL");
    let target = session.complete_at(onward.return_url()).await.expect("completed").expect("a target");
    assert_eq!(client.exchange(&fragment_or_query(&target)["code"]).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn a_proof_request_says_what_began_it_and_is_signed() {
    let client = start(CrossDevice::Allow).await;
    let agent = format!("Browser/1 (X; Y) {}", "w".repeat(500));
    let page = client.http.get(client.authorization_url(&[])).header(ACCEPT, "text/html").header(USER_AGENT, &agent);
    let page = client.show_page(page.send().await.expect("an answer")).await;
    let (cookie, base) = client.transaction_of_page(&page);
    let begun = BegunSignIn { base, cookie };
    // A browser that opens the address for authenticators does not count.
    client.get(&format!("{}/request", begun.base), "text/html").await;
    let mut events = client.http.get(format!("{}/events", begun.base)).header("Cookie", &begun.cookie);
    events = events.header(ACCEPT, "text/event-stream");
    let mut events = events.send().await.expect("an answer");
    let mut next = async || events.chunk().await.expect("read").expect("an event");
    let waiting = format!("\"expires_at\":{},\"extensions_left\":2", client.now() + 300);
    assert_eq!(next().await, format!("data: {{{waiting},\"state\":\"waiting\"}}\n\n"));
    let asked = SignInAnswer::of(client.get(&format!("{}/request", begun.base), "*/*").await).await.body;
    assert_eq!(next().await, format!("data: {{{waiting},\"opened\":true,\"state\":\"waiting\"}}\n\n"));
    assert_eq!(asked["redirect_host"], "localhost:3000");
    assert_eq!(asked["cross_device"], "allow");
    assert_eq!(
        asked["initiator"],
        json!({"network": "127.0.0.0/24", "user_agent": &agent[..200], "time": client.now()})
    );

    // The signed form has the same members and the issuer.
    let signed = asked["request"].as_str().expect("a JWS");
    let header = jsonwebtoken::decode_header(signed).expect("a header");
    assert_eq!(header.typ.as_deref(), Some("selfsame-request+jwt"));
    let claims = URL_SAFE_NO_PAD.decode(signed.split('.').nth(1).expect("claims")).expect("base64url");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    let mut expected = asked.clone();
    let members = expected.as_object_mut().expect("an object");
    members.retain(|name, _| !["answered", "request"].contains(&name.as_str()));
    members.insert("iss".to_owned(), client.issuer().into());
    assert_eq!(claims, expected);
    // Another call gets another nonce, and nothing else that differs.
    let mut again = SignInAnswer::of(client.get(&format!("{}/request", begun.base), "*/*").await).await.body;
    assert_ne!((&again["nonce"], &again["request"]), (&asked["nonce"], &asked["request"]));
    (again["nonce"], again["request"]) = (asked["nonce"].clone(), asked["request"].clone());
    assert_eq!(again, asked);
    // It is no ID token: those cannot be revoked, and every other text can.
    assert_eq!(client.post("/revoke", &[("token", signed)]).await.status, 200);
    let url = client.authorization_url(&[("id_token_hint", signed)]);
    let begun = SignInAnswer::of(client.get(&url, "application/json").await).await;
    assert_eq!(begun.status, 200, "as without a hint: {begun:?}");
    client.stop().await;
}

/// A server at another origin than the daemon. It answers each request with what `answer` returns
/// for the request's path: a status line, further header lines, and a body.
struct Impostor {
    origin: String,
    /// The first line of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Impostor {
    /// A server whose answers may depend on its own origin.
    async fn start<Answer>(answer: impl FnOnce(&str) -> Answer) -> Self
    where
        Answer: Fn(&str) -> (&'static str, String, String) + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (answer, requests) = (answer(&origin), Arc::new(Mutex::new(Vec::new())));
        let received = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let length = connection.read(&mut head).await.unwrap_or_default();
                let text = String::from_utf8_lossy(&head[..length]).into_owned();
                let line = text.lines().next().unwrap_or_default().to_owned();
                let (status, headers, body) = answer(line.split(' ').nth(1).unwrap_or_default());
                received.lock().expect("no panic").push(line);
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}connection: \
                     close\r\n\r\n",
                    body.len()
                );
                let _ = connection.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        Self { origin, requests }
    }

    /// The same with one answer to every request.
    async fn repeating(body: &Value) -> Self {
        let body = body.to_string();
        Self::start(move |_| move |_: &str| ("200 OK", String::new(), body.clone())).await
    }

    fn request_url(&self) -> String {
        format!("{}/authorize/x/request", self.origin)
    }

    /// How many requests had a path that ends so.
    fn count(&self, path: &str) -> usize {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().filter(|line| line.split(' ').nth(1).is_some_and(|target| target.ends_with(path))).count()
    }
}

#[tokio::test]
async fn the_wallet_believes_only_what_the_trusted_issuer_signed() {
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let url = format!("{}/request", begun.base);
    let genuine = SignInAnswer::of(client.get(&url, "*/*").await).await.body;
    let session = SignInSession::open(&url).await.expect("a request");
    assert_eq!(session.claimed_issuer().expect("signed"), client.issuer());
    assert_eq!(session.verify(&client.issuer()).await.expect("genuine").app_name, genuine["app_name"]);

    // Another site repeats the request with a name and an address of its own.
    let mut forged = genuine.clone();
    forged["app_name"] = json!("Free cinema");
    forged["answer_url"] = json!("http://evil.example/proof");
    let impostor = Impostor::repeating(&forged).await;
    let session = SignInSession::open(&impostor.request_url()).await.expect("a request");
    let error = session.verify(&client.issuer()).await.expect_err("another origin");
    assert!(matches!(error, RequestError::OtherOrigin { what: "the address", .. }), "{error}");
    assert!(!error.to_string().contains("Free cinema"), "{error}");
    // The signed form is changed too, or is an ID token.
    let location = client.sign_in("alice", &[("response_type", "id_token")]).await;
    let id_token = fragment_or_query(&location)["id_token"].clone();
    let signed = genuine["request"].as_str().expect("a JWS");
    let (head, rest) = signed.split_once('.').expect("a header");
    let (claims, signature) = rest.split_once('.').expect("claims");
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
    let claims = String::from_utf8(claims).expect("text").replace("Example application", "Free cinema");
    let changed = format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(claims));
    for request in [changed.as_str(), &id_token, "", "a.b.c"] {
        forged["request"] = json!(request);
        let impostor = Impostor::repeating(&forged).await;
        let session = SignInSession::open(&impostor.request_url()).await.expect("a request");
        let error = session.verify(&client.issuer()).await.expect_err("not signed");
        assert!(matches!(error, RequestError::WrongSignature { .. }), "{error}");
    }
    // Another issuer than the trusted one, with keys of its own.
    let session = SignInSession::open(&url).await.expect("a request");
    let other = Impostor::repeating(&json!({"keys": []})).await;
    let error = session.verify(&other.origin).await.expect_err("another issuer");
    assert!(matches!(error, RequestError::WrongSignature { .. }), "{error}");
    // It publishes the keys of the issuer that signed.
    let mut both = genuine.clone();
    both["keys"] = client.published_keys().await["keys"].clone();
    let other = Impostor::repeating(&both).await;
    let session = SignInSession::open(&other.request_url()).await.expect("a request");
    match session.verify(&other.origin).await.expect_err("signed by another issuer") {
        RequestError::WrongSignature { reason, .. } => assert!(reason.contains("InvalidIssuer"), "{reason}"),
        error => panic!("{error}"),
    }
    client.stop().await;
}

/// A signature says who made a request, not that its addresses are the issuer's.
#[tokio::test]
async fn the_wallet_answers_at_the_origin_of_the_issuer_only() {
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let id = begun.base.rsplit('/').next().expect("an id").parse().expect("an id");
    let other = SignInSession::open(&client.authorization_url(&[])).await.expect("a request");
    let signed = SignInRequest { answer_url: "http://127.0.0.1:9/proof".to_owned(), ..other.request().clone() };
    client.daemon.sign_in.open_request(id, None, signed).await.expect("signed");
    let session = SignInSession::open(&format!("{}/request", begun.base)).await.expect("a request");
    let error = session.verify(&client.issuer()).await.expect_err("another address");
    assert!(matches!(error, RequestError::OtherOrigin { what: "answer_url", .. }), "{error}");
    client.stop().await;
}

/// The plain form of a proof request whose answer goes to `answer_url`.
fn plain_request(answer_url: &str) -> Value {
    json!({
        "app_id": APP, "app_name": "Free cinema", "action": "", "signal": "0x00", "nonce": "0x1",
        "protocol_versions": ["3.0"], "environment": "staging", "scopes": "openid", "expires_at": 1,
        "answer_url": answer_url, "redirect_host": "app.example",
        "initiator": {"network": "", "user_agent": "", "time": 1}, "cross_device": "allow", "answered": false,
        "request": "a.b.c",
    })
}

/// A page could make the wallet send a request to any program of the person's device.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_not_sent_to_another_origin_than_the_request_came_from() {
    let folder = folder();
    let wallet = folder.path().join("wallet.json").to_str().expect("text").to_owned();
    let refuse = async |url: String| {
        let wallet = wallet.clone();
        let command = move || run(&["wallet", "sign-in", &url, "--refuse", "--wallet", &wallet]);
        tokio::task::spawn_blocking(command).await.expect("no panic")
    };
    assert!(run(&["wallet", "new", "--wallet", &wallet]).0);
    let program = Impostor::repeating(&json!({"success": true})).await;
    let page = Impostor::repeating(&plain_request(&format!("{}/x", program.origin))).await;
    let (_, text) = refuse(page.request_url()).await;
    assert_eq!((page.count("/request"), program.count("/x")), (1, 0), "{text}");
    assert!(text.contains("refused") && text.contains("nothing was sent"), "{text}");
    // The server that the request came from gets the refusal.
    let page = Impostor::start(|origin| {
        let body = plain_request(&format!("{origin}/proof")).to_string();
        move |_: &str| ("200 OK", String::new(), body.clone())
    });
    let page = page.await;
    let (is_done, text) = refuse(page.request_url()).await;
    assert!(is_done, "{text}");
    assert_eq!(page.count("/proof"), 1, "{text}");
}

/// A completion gives the response out once, so the wallet sends it once, also when it fails.
#[tokio::test]
async fn the_wallet_sends_a_completion_once() {
    let service = Impostor::start(|origin| {
        let began = json!({"request_url": format!("{origin}/authorize/x/request"), "secret": "s"}).to_string();
        let request = plain_request(&format!("{origin}/proof")).to_string();
        let completions = AtomicUsize::new(0);
        move |path: &str| match path.rsplit('/').next() {
            Some("request") => ("200 OK", String::new(), request.clone()),
            Some("complete") if completions.fetch_add(1, Ordering::Relaxed) > 0 => {
                ("303 See Other", "location: http://localhost:3000/callback?code=c\r\n".to_owned(), String::new())
            }
            Some("complete") => {
                let body = r#"{"code":"temporarily_unavailable","detail":"try again"}"#.to_owned();
                ("503 Service Unavailable", String::new(), body)
            }
            _ => ("200 OK", String::new(), began.clone()),
        }
    });
    let service = service.await;
    let session = SignInSession::open(&format!("{}/authorize", service.origin)).await.expect("the sign-in starts");
    let error = session.complete().await.expect_err("the service is busy");
    assert_eq!((error.code(), service.count("/complete")), (Some("temporarily_unavailable"), 1), "{error}");
    let target = session.complete().await.expect("completed");
    assert_eq!(target.as_deref(), Some("http://localhost:3000/callback?code=c"));
}

/// A proof request without what differs from call to call.
fn without_challenge(mut request: Value) -> Value {
    let members = request.as_object_mut().expect("an object");
    members.retain(|name, _| !["nonce", "request"].contains(&name.as_str()));
    request
}

/// What an authenticator has opened stays as it is until the request ends, whatever the operator
/// changes.
#[tokio::test]
async fn an_opened_request_outlives_its_key_and_its_configuration() {
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let url = format!("{}/request", begun.base);
    let opened = SignInAnswer::of(client.get(&url, "*/*").await).await.body;
    let handle = &client.daemon.sign_in;
    let known = handle.client(APP).expect("a client");
    let renamed = SignInClient { name: "Another name".to_owned(), allows_cross_device: false, ..(*known).clone() };
    handle.set_clients(vec![renamed]);
    let again = SignInAnswer::of(client.get(&url, "*/*").await).await.body;
    assert_eq!(without_challenge(again), without_challenge(opened.clone()));

    let kid = jsonwebtoken::decode_header(opened["request"].as_str().expect("a JWS")).expect("a header").kid;
    let revoke = client.http.post(client.daemon.operator("/keys/revoke")).bearer_auth(client.operator_token());
    assert_eq!(client.send(revoke.json(&json!({"kid": kid}))).await.status, 200);
    let session = SignInSession::open(&url).await.expect("a request");
    let verified = session.verify(&client.issuer()).await.expect("signed with a key that is published");
    assert_eq!(verified.app_name, opened["app_name"]);
    assert_eq!(SignInAnswer::of(client.get(&url, "*/*").await).await.body["answer_url"], opened["answer_url"]);
    client.stop().await;
}

/// The short page that the address of the request leads to.
async fn short_page(client: &SignInTestClient, begun: &BegunSignIn, cookie: &str) -> String {
    let short = client.get(&format!("{}/request", begun.base), "text/html").await;
    let short = client.daemon.sign_in(short.headers()[LOCATION].to_str().expect("text"));
    let page = client.http.get(short).header(ACCEPT, "text/html").header("Cookie", cookie);
    page.send().await.expect("an answer").text().await.expect("text")
}

#[tokio::test]
async fn pages_lead_only_where_the_sign_in_goes_on() {
    let client = start(CrossDevice::Deny).await;
    let begun = begin(&client).await;
    // On another device there is nothing to open, and on this one no code.
    let page = short_page(&client, &begun, "").await;
    assert!(page.contains("only from the device on which you sign in") && !page.contains("/request"), "{page}");
    let page = short_page(&client, &begun, &begun.cookie).await;
    assert!(page.contains(&format!(">{}/request#here<", begun.base)) && !page.contains("<svg"), "{page}");
    let browse = async |path: &str| {
        let request = client.http.get(format!("{}{path}", begun.base)).header(ACCEPT, "text/html");
        let page = request.header("Cookie", &begun.cookie).send().await.expect("an answer");
        assert_eq!(page.status(), 400);
        page.text().await.expect("text")
    };
    assert!(browse("/complete").await.contains("Try again"), "the person may answer yet");
    answer_as(&client, &begun.base, Some("same_device")).await;
    for path in ["/complete", "/complete?return=x"] {
        let page = browse(path).await;
        assert!(page.contains("data-state=\"here\""), "{page}");
    }
    client.stop().await;
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let page = short_page(&client, &begun, "").await;
    assert!(page.contains(&format!("{}/request#there", begun.base)), "{page}");
    client.stop().await;
}

#[tokio::test]
async fn the_wallet_command_asks_and_remembers_the_issuer() {
    let folder = folder();
    let data = folder.path().join("data");
    let wallet = folder.path().join("wallet.json");
    let (data_text, wallet_text) = (data.to_str().expect("text"), wallet.to_str().expect("text"));
    let daemon = DaemonProcess::start(&data, &[], &[]);
    wait_for_signing_keys(&daemon.sign_in).await;
    let services = ["--wallet", wallet_text, "--gateway", &daemon.gateway, "--indexer", &daemon.indexer];
    for command in ["new", "create-account"] {
        let (made, text) = run(&[&["wallet", command], &services[..]].concat());
        assert!(made, "{command}: {text}");
    }
    let url = format!(
        "{}/authorize?client_id={APP}&redirect_uri={CALLBACK}&response_type=code&scope=openid&nonce=n",
        daemon.sign_in
    );
    let of_daemon = ["--wallet", wallet_text, "--operator", &daemon.operator, "--data", data_text];
    let sign_in = |more: &[&str]| run(&[&["wallet", "sign-in", &url][..], more, &of_daemon].concat());

    let (is_done, text) = sign_in(&[]);
    assert!(!is_done && text.contains("there is no terminal; give --yes"), "{text}");
    let (is_done, text) = sign_in(&["--yes", "--issuer", "http://127.0.0.1:9"]);
    assert!(!is_done && !text.contains("Example application"), "a name that is not verified is not shown: {text}");
    assert!(!std::fs::read_to_string(&wallet).expect("the file").contains("issuers"));

    let (is_done, text) = sign_in(&["--yes"]);
    assert!(is_done && text.starts_with("Example application asks for: openid\n"), "{text}");
    assert!(text.contains(&format!("application {APP}, answer to localhost:3000\n")), "{text}");
    assert!(text.contains(" from 127.0.0.0/24 with "), "{text}");
    assert!(text.trim().lines().last().is_some_and(|line| line.starts_with(CALLBACK)), "{text}");
    assert!(std::fs::read_to_string(&wallet).expect("the file").contains(&daemon.sign_in));
    let (is_done, text) = sign_in(&["--refuse"]);
    assert!(is_done && text.contains("error=access_denied"), "{text}");
    assert!(daemon.terminate().success());
}

/// A wallet that is a page of another origin reads the request and answers it, and reads the errors
/// too. Both paths give the same answer with and without the browser's cookies.
#[tokio::test]
async fn a_wallet_that_is_a_web_page_reads_the_request_and_answers_it() {
    let client = start(CrossDevice::Allow).await;
    let begun = begin(&client).await;
    let from_page = |request: reqwest::RequestBuilder| client.send(request.header("Origin", "https://wallet.example"));
    for (path, method) in [("request", "GET"), ("proof", "POST")] {
        let preflight = client.http.request(Method::OPTIONS, format!("{}/{path}", begun.base));
        let preflight = preflight.header("Access-Control-Request-Method", method);
        let preflight = preflight.header("Access-Control-Request-Headers", "content-type");
        let answer = preflight.header("Origin", "https://wallet.example").send().await.expect("an answer");
        assert_eq!(answer.status(), 204, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_ascii_lowercase();
        assert_eq!(header("access-control-allow-origin"), "*", "{path}");
        assert!(header("access-control-allow-methods").contains(&method.to_ascii_lowercase()), "{path}");
        assert!(header("access-control-allow-headers").contains("content-type"), "{path}");
        assert_eq!(answer.headers().get("access-control-allow-credentials"), None, "{path}");
    }
    let readable = |answer: &SignInAnswer, status: u16| {
        assert_eq!((answer.status, answer.header(ACCESS_CONTROL_ALLOW_ORIGIN)), (status, "*"), "{answer:?}");
        assert_eq!(answer.headers.get("access-control-allow-credentials"), None);
        assert_eq!(answer.headers.get(SET_COOKIE), None);
    };
    let request = || client.http.get(format!("{}/request", begun.base));
    let plain = from_page(request()).await;
    readable(&plain, 200);
    let with_cookie = from_page(request().header("Cookie", &begun.cookie)).await;
    let bodies = [with_cookie.body, plain.body].map(without_challenge);
    assert_eq!(bodies[0], bodies[1], "the cookie changes nothing");

    let proof = |base: &str| client.http.post(format!("{base}/proof"));
    let unknown = format!("{}/{}", begun.base.rsplit_once('/').expect("a path").0, "0".repeat(32));
    readable(&from_page(client.http.get(format!("{unknown}/request"))).await, 404);
    readable(&from_page(proof(&begun.base).json(&json!({"error": "another"}))).await, 400);
    readable(&from_page(proof(&begun.base).body("{}")).await, 400);
    readable(&from_page(proof(&begun.base).json(&json!({"pad": "x".repeat(70_000)}))).await, 413);
    readable(&from_page(client.http.delete(format!("{}/proof", begun.base))).await, 405);
    readable(&from_page(proof(&begun.base).json(&json!({"error": "access_denied"}))).await, 200);
    client.stop().await;
}

/// The same at the limit of the source: the page learns when it may try again.
#[tokio::test]
async fn a_wallet_that_is_a_web_page_reads_how_long_to_wait() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 2, window: TimeSpan::from_secs(60) });
    })
    .await;
    let begun = begin(&client).await;
    let refuse = || {
        let request = client.http.post(format!("{}/proof", begun.base)).header("Origin", "https://wallet.example");
        client.send(request.json(&json!({"error": "another"})))
    };
    assert_eq!(refuse().await.status, 400);
    let limited = refuse().await;
    assert_eq!((limited.status, limited.header(ACCESS_CONTROL_ALLOW_ORIGIN)), (429, "*"), "{limited:?}");
    assert!(limited.headers.contains_key(RETRY_AFTER));
    let exposed = limited.headers["access-control-expose-headers"].to_str().expect("text").to_ascii_lowercase();
    assert!(exposed.contains("retry-after"), "{exposed}");
    client.stop().await;
}
