//! A sign-in stays what it is, whatever a browser does to it: reload, Back, another tab, an answer
//! that is lost, too late, another browser. And the short page, and the digits of a wallet that was
//! opened elsewhere.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER, SET_COOKIE};
use reqwest::{Method, Response};
use selfsame::config::{Config, CrossDevice, RateLimit, TimeSpan};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use crate::sign_in_client::{
    APP, Form, SignInAnswer, SignInTestClient, accept_current_proofs, current_proof, fragment_or_query,
};

/// What browsers send.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A sign-in of a browser.
struct Begun {
    base: String,
    cookie: String,
}

async fn start_with(change: impl FnOnce(&mut Config)) -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        change(config);
    })
    .await
}

async fn start() -> SignInTestClient {
    start_with(|_| {}).await
}

async fn begin(client: &SignInTestClient, changes: &[(&str, &str)]) -> Begun {
    let (cookie, base) = client.transaction_of_page(&client.browse(changes, "").await);
    Begun { base, cookie }
}

/// What a browser sends to a path of the sign-in.
async fn send(client: &SignInTestClient, method: Method, url: &str, cookie: &str, accept: &str) -> Response {
    let request = client.http.request(method.clone(), url).header(ACCEPT, accept).header("Cookie", cookie);
    let request = if method == Method::POST { request.form(&[]) } else { request };
    request.send().await.expect("an answer")
}

impl Begun {
    async fn get(&self, client: &SignInTestClient, path: &str) -> Response {
        send(client, Method::GET, &format!("{}{path}", self.base), &self.cookie, BROWSER).await
    }

    async fn post(&self, client: &SignInTestClient, path: &str) -> Response {
        send(client, Method::POST, &format!("{}{path}", self.base), &self.cookie, BROWSER).await
    }

    async fn progress(&self, client: &SignInTestClient) -> Value {
        let url = format!("{}/progress?wait=0", self.base);
        let answer = send(client, Method::GET, &url, &self.cookie, "application/json").await;
        answer.json().await.expect("JSON")
    }

    /// The wallet answers with a proof, or with what `change` makes of it.
    async fn answer(&self, client: &SignInTestClient, change: impl FnOnce(&mut Value)) -> SignInAnswer {
        let opened = SignInSession::open(&format!("{}/request", self.base)).await.expect("the sign-in is open");
        let mut proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "alice").await;
        change(&mut proof);
        client.send(client.http.post(format!("{}/proof", self.base)).json(&proof)).await
    }

    async fn answer_with_digits(&self, client: &SignInTestClient) -> String {
        self.answer(client, |proof| proof["digits"] = true.into()).await.text("digits").to_owned()
    }
}

fn location(response: &Response) -> &str {
    response.headers().get(LOCATION).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

fn cookie(response: &Response) -> Option<&str> {
    response.headers().get(SET_COOKIE).map(|value| value.to_str().expect("text"))
}

async fn page(response: Response, status: u16) -> String {
    let content_type = response.headers()[CONTENT_TYPE].to_str().expect("text").to_owned();
    assert_eq!((response.status().as_u16(), &*content_type), (status, "text/html; charset=utf-8"));
    response.text().await.expect("text")
}

/// The state that a page of a sign-in shows.
fn state(page: &str) -> &str {
    let state = page.split("data-state=\"").nth(1).and_then(|rest| rest.split('"').next());
    state.unwrap_or_else(|| panic!("no page of a sign-in: {page}"))
}

#[tokio::test]
async fn a_reload_stays_in_the_same_sign_in() {
    let client = start().await;
    let authorize = async |changes: &[(&str, &str)], cookie: &str| {
        send(&client, Method::GET, &client.authorization_url(changes), cookie, BROWSER).await
    };
    let first = authorize(&[], "").await;
    let (place, given) = (location(&first).to_owned(), cookie(&first).expect("a cookie").to_owned());
    let id = place.strip_prefix("/authorize/").expect("the page of a sign-in");
    assert_eq!(first.status(), 303);
    let kept = 3 * 300 + 3600;
    for part in [&format!("selfsame_transaction_{id}="), "; Path=/;", "; HttpOnly", "; SameSite=Lax"] {
        assert!(given.contains(part), "{part}: {given}");
    }
    assert!(given.contains(&format!("; Max-Age={kept};")), "{given}");
    let pair = given.split(';').next().expect("a pair");

    let again = authorize(&[], pair).await;
    assert_eq!((again.status().as_u16(), location(&again), cookie(&again)), (303, &*place, None));
    let posted = client.http.post(client.daemon.sign_in("/authorize")).header(ACCEPT, BROWSER).header("Cookie", pair);
    let posted = posted.form(&crate::sign_in_client::parameters(&[])).send().await.expect("an answer");
    assert_eq!(location(&posted), place, "by a form");
    for (changes, pair, why) in [
        (vec![("state", "another")], pair, "another request"),
        (vec![("nonce", "another")], pair, "another request"),
        (vec![("state", ""), ("nonce", "")], pair, "a request that another site can know"),
        (vec![], "", "another browser"),
        (vec![], &*format!("selfsame_transaction_{id}=wrong"), "a wrong secret"),
    ] {
        let other = authorize(&changes, pair).await;
        assert!(location(&other) != place && cookie(&other).is_some(), "{why}");
    }

    // Answered while the tab was away: the way on is there.
    let begun = Begun { base: client.daemon.sign_in(&place), cookie: pair.to_owned() };
    begun.answer(&client, |_| {}).await;
    assert_eq!(location(&authorize(&[], pair).await), place);
    let page = begun.get(&client, "").await;
    assert_eq!((page.status().as_u16(), location(&page)), (303, &*format!("{place}/complete")));
    let done = begun.get(&client, "/complete").await;
    assert!(fragment_or_query(location(&done)).contains_key("code"));
    // When it is done, the same request begins another one.
    assert_ne!(location(&authorize(&[], pair).await), place);
    client.stop().await;
}

#[tokio::test]
async fn the_same_secret_gets_the_same_response() {
    let client = start().await;
    for changes in [vec![], vec![("response_type", "code id_token")], vec![("response_mode", "form_post")]] {
        let begun = begin(&client, &changes).await;
        begun.answer(&client, |_| {}).await;
        let mut responses = Vec::new();
        for _ in 0..3 {
            let done = begun.get(&client, "/complete").await;
            // Over plain HTTP another site can plant the cookie, so the session is given once.
            assert_eq!(cookie(&done).is_some(), responses.is_empty(), "{changes:?}");
            responses.push((location(&done).to_owned(), done.text().await.expect("text")));
        }
        assert!(responses.iter().all(|other| *other == responses[0]), "{changes:?}");
        assert!(format!("{responses:?}").contains("code"), "{responses:?}");
        // A browser without the cookie does not get it.
        let stranger = send(&client, Method::GET, &format!("{}/complete", begun.base), "", BROWSER).await;
        assert_eq!((stranger.status().as_u16(), cookie(&stranger)), (404, None));
    }

    // Until the code is used …
    let begun = begin(&client, &[]).await;
    begun.answer(&client, |_| {}).await;
    let done = begun.get(&client, "/complete").await;
    let session = cookie(&done).expect("a session").split(';').next().expect("a pair").to_owned();
    let code = fragment_or_query(location(&done))["code"].clone();
    assert_eq!(client.exchange(&code).await.status, 200);
    let late = page(begun.get(&client, "/complete").await, 404).await;
    assert_eq!(state(&late), "done", "{late}");
    assert_eq!(state(&page(begun.get(&client, "").await, 200).await), "done");
    assert_eq!(begun.progress(&client).await, json!({"state": "over", "done": true}));
    assert!(client.browse_silently(&[("prompt", "none")], &session).await.contains_key("code"));

    // … or has expired; a response without a code is good for as long.
    for changes in [vec![], vec![("response_type", "id_token")]] {
        let begun = begin(&client, &changes).await;
        begun.answer(&client, |_| {}).await;
        let first = location(&begun.get(&client, "/complete").await).to_owned();
        client.daemon.clock.advance(Duration::from_secs(59));
        assert_eq!(location(&begun.get(&client, "/complete").await), first, "{changes:?}");
        client.daemon.clock.advance(Duration::from_secs(1));
        assert_eq!(begun.get(&client, "/complete").await.status(), 404, "{changes:?}");
    }

    // A program is answered the same.
    let request = client.http.get(client.authorization_url(&[])).header(ACCEPT, "application/json");
    let started = client.send(request).await;
    let begun = Begun {
        base: client.daemon.sign_in(&format!("/authorize/{}", started.text("transaction"))),
        cookie: String::new(),
    };
    begun.answer(&client, |_| {}).await;
    let complete = async || {
        let request = client.http.get(format!("{}/complete", begun.base)).bearer_auth(started.text("secret"));
        let done = request.header(ACCEPT, "application/json").send().await.expect("an answer");
        location(&done).to_owned()
    };
    let first = complete().await;
    assert!(first.contains("code=") && complete().await == first);
    client.stop().await;
}

/// Takes a signing key out; with `end_sessions` all sign-ins up to now end.
async fn revoke(client: &SignInTestClient, kid: &str, end_sessions: bool) {
    let revoke = client.http.post(client.daemon.operator("/keys/revoke")).bearer_auth(client.operator_token());
    let revoke = revoke.json(&json!({"kid": kid, "end_sessions": end_sessions}));
    assert_eq!(client.send(revoke).await.status, 200);
}

#[tokio::test]
async fn an_id_token_of_a_revoked_key_is_not_given_again() {
    let client = start().await;
    let begun = begin(&client, &[("response_type", "code id_token")]).await;
    begun.answer(&client, |_| {}).await;
    let response = fragment_or_query(location(&begun.get(&client, "/complete").await));
    let kid = jsonwebtoken::decode_header(&response["id_token"]).expect("a header").kid.expect("a key id");
    revoke(&client, &kid, false).await;
    assert_eq!(state(&page(begun.get(&client, "/complete").await, 404).await), "done");
    client.stop().await;
}

#[tokio::test]
async fn a_sign_in_that_the_operator_ended_is_cancelled_and_begun_anew() {
    let client = start().await;
    let begun = begin(&client, &[]).await;
    begun.answer(&client, |_| {}).await;
    let kid = client.published_keys().await["keys"][0]["kid"].as_str().expect("a key id").to_owned();
    revoke(&client, &kid, true).await;
    assert_eq!(begun.get(&client, "/complete").await.status(), 404);
    let url = client.authorization_url(&[]);
    let anew = send(&client, Method::GET, &url, &begun.cookie, BROWSER).await;
    assert!(cookie(&anew).is_some() && !begun.base.ends_with(location(&anew)), "{anew:?}");
    let cancelled = begun.post(&client, "/cancel").await;
    assert_eq!(fragment_or_query(location(&cancelled))["error"], "access_denied");
    client.stop().await;
}

#[tokio::test]
async fn what_ended_can_be_cancelled_or_begun_again() {
    let client = start().await;
    let begun = begin(&client, &[("state", "kept")]).await;
    client.daemon.clock.advance(Duration::from_secs(300));
    assert_eq!(begun.progress(&client).await, json!({"state": "over"}));
    let over = page(begun.get(&client, "").await, 200).await;
    assert!(state(&over) == "over" && over.contains("/new-code\"") && over.contains("/cancel\""), "{over}");
    assert_eq!(state(&page(begun.get(&client, "/complete").await, 404).await), "over");
    let late = begun.post(&client, "/more-time").await;
    assert_eq!(location(&late), begun.base.strip_prefix(&client.issuer()).expect("a path"), "the page says it");
    // A new code, for the same request of the application.
    let renewed = begun.post(&client, "/new-code").await;
    assert_eq!(renewed.status(), 303);
    let pair = cookie(&renewed).expect("a cookie").split(';').next().expect("a pair").to_owned();
    let new = Begun { base: client.daemon.sign_in(location(&renewed)), cookie: pair };
    assert_ne!(new.base, begun.base);
    new.answer(&client, |_| {}).await;
    let done = fragment_or_query(location(&new.get(&client, "/complete").await));
    assert!(done.contains_key("code") && done["state"] == "kept", "{done:?}");
    let done = page(new.post(&client, "/new-code").await, 404).await;
    assert_eq!(state(&done), "done", "{done}");
    let under_way = begin(&client, &[("state", "another")]).await;
    assert_eq!(under_way.post(&client, "/new-code").await.status(), 400, "it needs none");
    let url = format!("{}/new-code", begun.base);
    let by_script = send(&client, Method::POST, &url, &begun.cookie, "application/json").await;
    assert!(cookie(&by_script).is_some());
    let body: Value = by_script.json().await.expect("JSON");
    assert!(body["location"].as_str().is_some_and(|path| path.starts_with("/authorize/")), "{body}");

    // Cancelled after its time: the application hears of it, the same each time.
    let cancelled = begun.post(&client, "/cancel").await;
    let response = fragment_or_query(location(&cancelled));
    assert_eq!((&*response["error"], &*response["state"]), ("access_denied", "kept"));
    assert_eq!(location(&begun.post(&client, "/cancel").await), location(&cancelled));
    assert_eq!(location(&begun.get(&client, "/complete").await), location(&cancelled));
    // Kept for an hour.
    client.daemon.clock.advance(Duration::from_secs(3599));
    assert_eq!(begun.post(&client, "/cancel").await.status(), 303);
    client.daemon.clock.advance(Duration::from_secs(1));
    let gone = page(begun.post(&client, "/cancel").await, 404).await;
    assert!(!gone.contains("data-state"), "{gone}");
    client.stop().await;
}

#[tokio::test]
async fn more_time_is_given_twice() {
    let client = start().await;
    let begun = begin(&client, &[]).await;
    let waiting = async || {
        let progress = begun.progress(&client).await;
        (progress["expires_at"].as_u64().unwrap_or_default(), progress["extensions_left"].clone())
    };
    assert_eq!(waiting().await, (client.now() + 300, json!(2)));
    // A wallet that opens the request later reads the later end, also in the signed form.
    let ends = async || {
        let opened = SignInSession::open(&format!("{}/request", begun.base)).await.expect("the sign-in is open");
        opened.verify(&client.issuer()).await.expect("it is signed").expires_at.0
    };
    assert_eq!(ends().await, client.now() + 300);
    client.daemon.clock.advance(Duration::from_secs(250));
    let url = format!("{}/more-time", begun.base);
    let by_script = send(&client, Method::POST, &url, &begun.cookie, "application/json").await;
    let body: Value = by_script.json().await.expect("JSON");
    assert_eq!(body, json!({"expires_at": client.now() + 300, "extensions_left": 1}));
    assert_eq!(ends().await, client.now() + 300);
    client.daemon.clock.advance(Duration::from_secs(299));
    assert_eq!(begun.post(&client, "/more-time").await.status(), 303);
    assert_eq!(waiting().await, (client.now() + 300, json!(0)));
    let refused = SignInAnswer::of(send(&client, Method::POST, &url, &begun.cookie, "application/json").await).await;
    refused.expect_error(400, "invalid_request", "invalid_request");
    // Another site's form, and another browser.
    let foreign = client.http.post(&url).header("Cookie", &begun.cookie).header("Sec-Fetch-Site", "cross-site");
    client.send(foreign).await.expect_error(400, "invalid_request", "invalid_request");
    client.send(client.http.post(&url)).await.expect_error(404, "not_found", "invalid_request");
    client.daemon.clock.advance(Duration::from_secs(299));
    begun.answer(&client, |_| {}).await;
    assert!(fragment_or_query(location(&begun.get(&client, "/complete").await)).contains_key("code"));
    client.stop().await;
}

#[tokio::test]
async fn a_proof_that_is_not_accepted_is_said_on_the_page() {
    let client = start().await;
    let begun = begin(&client, &[]).await;
    let wrong = begun.answer(&client, |proof| proof["responses"][0]["issuer_schema_id"] = 9303.into()).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let progress = begun.progress(&client).await;
    assert_eq!(
        (&progress["state"], &progress["opened"], &progress["refused"]),
        (&json!("waiting"), &json!(true), &json!(1))
    );
    assert_eq!(state(&page(begun.get(&client, "").await, 200).await), "refused");
    begun.answer(&client, |_| {}).await;
    assert_eq!(begun.progress(&client).await, json!({"state": "answered"}));
    client.stop().await;
}

#[tokio::test]
async fn the_digits_of_a_wallet_complete_a_sign_in() {
    let client = start().await;
    let begun = begin(&client, &[]).await;
    let digits = begun.answer_with_digits(&client).await;
    assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
    assert_eq!(begun.progress(&client).await, json!({"state": "answered", "digits": true}));
    let asked = page(begun.get(&client, "").await, 200).await;
    assert!(state(&asked) == "digits" && asked.contains("name=\"digits\""), "{asked}");
    let wrong = |number: u32| format!("{:03}", (digits.parse::<u32>().expect("digits") + number) % 1000);
    // A slip is no try, and the same try counts once: browsers repeat requests.
    for typed in ["", "?digits=", "?digits=12", "?digits=abc"] {
        let answer = page(begun.get(&client, &format!("/complete{typed}")).await, 400).await;
        assert_eq!(state(&answer), "digits", "{typed}");
    }
    for typed in [wrong(1), wrong(1), wrong(1), wrong(2), wrong(1)] {
        let url = format!("{}/complete?digits={typed}", begun.base);
        let refused = SignInAnswer::of(send(&client, Method::GET, &url, &begun.cookie, "application/json").await).await;
        refused.expect_error(400, "invalid_request", "invalid_request");
        assert_eq!((&refused.body["attribute"], refused.headers.get(SET_COOKIE)), (&json!("digits"), None));
    }
    let right = format!("/complete?digits={digits}");
    let done = begun.get(&client, &right).await;
    assert!(fragment_or_query(location(&done)).contains_key("code"));
    assert_eq!(location(&begun.get(&client, &right).await), location(&done), "the same again");

    // Three different wrong ones end it, also for the right ones.
    let begun = begin(&client, &[]).await;
    let digits = begun.answer_with_digits(&client).await;
    let wrong = |number: u32| format!("{:03}", (digits.parse::<u32>().expect("digits") + number) % 1000);
    for number in 1..=3 {
        begun.get(&client, &format!("/complete?digits={}", wrong(number))).await;
    }
    assert_eq!(begun.progress(&client).await, json!({"state": "over"}));
    let over = page(begun.get(&client, &format!("/complete?digits={digits}")).await, 404).await;
    assert_eq!(state(&over), "over");
    let request = client.get(&format!("{}/request", begun.base), "application/json").await;
    assert_eq!(request.status(), 404, "no wallet answers it any more");
    assert_eq!(begun.post(&client, "/new-code").await.status(), 303);

    // Who lost them can cancel; no digits complete it then.
    let begun = begin(&client, &[]).await;
    let digits = begun.answer_with_digits(&client).await;
    let cancelled = begun.post(&client, "/cancel").await;
    assert_eq!(fragment_or_query(location(&cancelled))["error"], "access_denied");
    let done = begun.get(&client, &format!("/complete?digits={digits}")).await;
    assert_eq!(location(&done), location(&cancelled));

    // They are for another device alone.
    let begun = begin(&client, &[]).await;
    for (mode, digits) in [("same_device", json!(true)), ("cross_device", json!("yes"))] {
        let refused = begun
            .answer(&client, |proof| {
                proof["mode"] = mode.into();
                proof["digits"] = digits;
            })
            .await;
        refused.expect_error(400, "invalid_request", "invalid_request");
        assert_eq!(refused.body["attribute"], "digits");
    }
    client.stop().await;
}

/// The short address that the page of a sign-in carries.
async fn short_address(client: &SignInTestClient, begun: &Begun) -> String {
    let text = page(begun.get(client, "").await, 200).await;
    let prefix = format!("{}/s/", client.issuer());
    let rest = text.split(&format!("href=\"{prefix}")).nth(1).expect("the short address");
    format!("{prefix}{}", rest.split(['"', '?']).next().expect("its end"))
}

#[tokio::test]
async fn the_short_page_is_here_or_there() {
    let template = "https://wallet.example/open?request={request}";
    let client = start_with(|config| config.sign_in.wallet_link = Some(template.parse().expect("a link"))).await;
    let begun = begin(&client, &[]).await;
    let short = short_address(&client, &begun).await;
    let request = format!("{}/request", begun.base);
    let link = template.replace("{request}", &request.replace(':', "%3A").replace('/', "%2F"));
    let here = page(send(&client, Method::GET, &short, &begun.cookie, BROWSER).await, 200).await;
    assert!(here.contains(&format!("href=\"{link}#here\"")) && !here.contains("#there"), "{here}");
    let there = page(send(&client, Method::GET, &short, "", BROWSER).await, 200).await;
    assert!(there.contains(&format!("href=\"{link}#there\"")) && !there.contains("#here"), "{there}");
    assert!(there.contains("localhost:3000") && there.contains("127.0.0.0/24"), "{there}");
    // A wallet that scanned the address, and a browser at the address of the request.
    let scanned: Value = client.get(&short, "application/json").await.json().await.expect("JSON");
    assert_eq!(scanned, json!({"request_url": request}));
    let browser = client.get(&request, BROWSER).await;
    assert_eq!((browser.status().as_u16(), client.daemon.sign_in(location(&browser))), (303, short.clone()));
    let ahead = client.http.get(&short).header(ACCEPT, BROWSER).header("Sec-Purpose", "prefetch;prerender");
    assert_eq!(ahead.send().await.expect("an answer").status(), 503);

    begun.answer(&client, |_| {}).await;
    let answered = page(client.get(&short, BROWSER).await, 200).await;
    assert!(!answered.contains("wallet.example"), "{answered}");
    let scanned = SignInAnswer::of(client.get(&short, "application/json").await).await;
    scanned.expect_error(404, "not_found", "invalid_request");
    client.stop().await;
}

#[tokio::test]
async fn an_application_that_denies_another_device_offers_it_no_wallet() {
    let client = start_with(|config| config.apps[0].cross_device = CrossDevice::Deny).await;
    let begun = begin(&client, &[]).await;
    let short = short_address(&client, &begun).await;
    let request = format!("{}/request", begun.base);
    let here = page(send(&client, Method::GET, &short, &begun.cookie, BROWSER).await, 200).await;
    assert!(here.contains(&format!("{request}#here")), "{here}");
    let there = page(client.get(&short, BROWSER).await, 200).await;
    assert!(!there.contains("/request") && !there.contains("<svg"), "{there}");
    client.stop().await;
}

#[tokio::test]
async fn another_browser_learns_where_a_sign_in_began() {
    let client = start_with(|config| {
        config.apps[0].initiate_login_uri = Some("https://app.example/login".parse().expect("a URL"));
    })
    .await;
    let begun = begin(&client, &[]).await;
    for (method, path) in [(Method::GET, ""), (Method::GET, "/complete"), (Method::POST, "/cancel")] {
        let text = page(send(&client, method, &format!("{}{path}", begun.base), "", BROWSER).await, 404).await;
        let again =
            format!("https://app.example/login?iss={}", client.issuer().replace(':', "%3A").replace('/', "%2F"));
        assert!(text.contains(&again) && !text.contains("/s/"), "{path}: {text}");
    }
    let program = SignInAnswer::of(client.get(&begun.base, "application/json").await).await;
    program.expect_error(404, "not_found", "invalid_request");
    assert_eq!(begun.progress(&client).await["state"], "waiting", "nothing happened");
    client.stop().await;
}

#[tokio::test]
async fn the_button_keeps_the_wished_language() {
    let client = start().await;
    let text = client.browse(&[("ui_locales", "de")], "").await.text().await.expect("text");
    let button = text.split("class=\"button\"").nth(1).and_then(|rest| rest.split('"').nth(1)).expect("a link");
    assert!(button.contains("/s/") && button.ends_with("?ui_locales=de"), "{button}");
    let short = page(client.get(button, BROWSER).await, 200).await;
    assert!(short.contains("<html lang=\"de\""), "{short}");
    client.stop().await;
}

#[tokio::test]
async fn who_guesses_short_addresses_is_slowed_down() {
    let client = start_with(|config| {
        config.limits.sign_ins_per_source = Some(RateLimit { requests: 5, window: TimeSpan::from_secs(60) });
    })
    .await;
    let mut statuses = Vec::new();
    for number in 0..6 {
        let url = client.daemon.sign_in(&format!("/s/{}{}", "a".repeat(15), char::from(b'a' + number)));
        let answer = client.get(&url, "application/json").await;
        statuses.push(answer.status().as_u16());
        assert_eq!(answer.headers().contains_key(RETRY_AFTER), answer.status() == 429);
    }
    assert_eq!(statuses, [404, 404, 404, 404, 404, 429]);
    let malformed = client.get(&client.daemon.sign_in("/s/A"), "application/json").await;
    assert_eq!(malformed.status(), 429);
    assert!(client.daemon.sign_in.client(APP).is_some());
    client.stop().await;
}
