//! A sign-in that reaches a wallet by each kind of link: which browser completes it, and with what.

use reqwest::header::{ACCEPT, LOCATION, SET_COOKIE};
use selfsame::config::Config;
use selfsame_wallet::sign_in::{Onward, Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{folder, run};
use crate::sign_in_client::{SignInAnswer, SignInTestClient, accept_current_proofs, current_proof, fragment_or_query};

/// A service with a wallet of its own, which `wallet://` opens.
async fn start() -> SignInTestClient {
    SignInTestClient::start_with_keys(|config: &mut Config| {
        accept_current_proofs(config);
        config.limits.sign_ins_per_source = None;
        config.sign_in.wallet_link = Some("wallet://open?request={request}".parse().expect("a link"));
    })
    .await
}

/// A sign-in that a browser has begun.
struct BegunSignIn {
    /// The transaction's cookie, which only that browser has.
    cookie: String,
    /// The URL of the transaction.
    base: String,
    /// The address that the code and the button of the page have.
    short: String,
}

impl BegunSignIn {
    async fn begin(client: &SignInTestClient) -> Self {
        let (cookie, base) = client.transaction_of_page(&client.browse(&[], "").await);
        let page = client.http.get(&base).header(ACCEPT, "text/html").header("Cookie", &cookie);
        let page = page.send().await.expect("an answer").text().await.expect("text");
        let id = page.split("/s/").nth(1).and_then(|rest| rest.get(..16)).expect("the short page's address");
        let short = format!("{}/s/{id}", client.issuer());
        Self { cookie, base, short }
    }

    /// The wallet's link of the short page in a browser with this cookie.
    async fn wallet_link(&self, client: &SignInTestClient, cookie: &str) -> String {
        let page = client.http.get(&self.short).header(ACCEPT, "text/html").header("Cookie", cookie);
        let page = page.send().await.expect("an answer").text().await.expect("text");
        let link = page.split("href=\"").find(|rest| rest.starts_with("wallet://"));
        let link = link.and_then(|rest| rest.split('"').next()).expect("a link to the wallet");
        link.replace("&amp;", "&")
    }

    /// What a browser with this cookie gets when it completes the sign-in with a query.
    async fn complete(&self, client: &SignInTestClient, cookie: &str, query: &str) -> Completion {
        let url = format!("{}/complete{query}", self.base);
        let answer =
            client.send(client.http.get(url).header(ACCEPT, "application/json").header("Cookie", cookie)).await;
        Completion::of(&answer)
    }
}

/// What a browser gets from `…/complete`.
#[derive(Debug, PartialEq, Eq)]
enum Completion {
    /// The application's response with a code.
    SignedIn,
    /// 400: this is missing or wrong.
    Needs(&'static str),
    /// 404: it is not this browser's.
    NotHere,
    /// Anything else.
    Other(String),
}

impl Completion {
    fn of(answer: &SignInAnswer) -> Self {
        let attribute = answer.body["attribute"].as_str().unwrap_or_default();
        match answer.status {
            303 if fragment_or_query(answer.header(LOCATION)).contains_key("code") => Self::SignedIn,
            400 if attribute == "digits" => Self::Needs("digits"),
            400 if attribute == "return" => Self::Needs("return"),
            404 if answer.headers.get(SET_COOKIE).is_none() => Self::NotHere,
            _ => Self::Other(format!("{answer:?}")),
        }
    }
}

/// How the wallet came to the sign-in. The person who began it can write any of these.
#[derive(Clone, Copy, Debug)]
enum Given {
    /// The address of the short page, scanned or pasted.
    Short(&'static str),
    /// The address of the proof request.
    Request(&'static str),
    /// The wallet's own link with the address of the proof request.
    Link(&'static str),
    /// The link that the short page offers to the browser that began the sign-in.
    PageHere,
    /// The link that it offers to any other browser.
    PageElsewhere,
}

impl Given {
    async fn link(self, client: &SignInTestClient, begun: &BegunSignIn) -> String {
        let request = format!("{}/request", begun.base);
        match self {
            Self::Short(fragment) => format!("{}{fragment}", begun.short),
            Self::Request(fragment) => format!("{request}{fragment}"),
            Self::Link(fragment) => {
                format!("wallet://open?request={}{fragment}", request.replace(':', "%3A").replace('/', "%2F"))
            }
            Self::PageHere => begun.wallet_link(client, &begun.cookie).await,
            Self::PageElsewhere => begun.wallet_link(client, "").await,
        }
    }
}

/// What a sign-in needs beside the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    ReturnUrl,
    Digits,
}

/// Every way to a wallet, and what the browser that began the sign-in needs then.
#[rustfmt::skip]
const WAYS: [(Given, Need); 15] = [
    (Given::Short(""), Need::Digits),
    (Given::Short("#here"), Need::ReturnUrl),
    (Given::Short("#there"), Need::Digits),
    (Given::Short("#elsewhere"), Need::Digits),
    (Given::PageHere, Need::ReturnUrl),
    (Given::PageElsewhere, Need::Digits),
    (Given::Link("#here"), Need::ReturnUrl),
    (Given::Link("#there"), Need::Digits),
    // Who began a sign-in can pass the short page by.
    (Given::Link(""), Need::Nothing),
    (Given::Link("#elsewhere"), Need::Nothing),
    (Given::Link("%23here"), Need::Nothing),
    (Given::Request(""), Need::Nothing),
    (Given::Request("#here"), Need::ReturnUrl),
    (Given::Request("#there"), Need::Digits),
    (Given::Request("#elsewhere"), Need::Nothing),
];

/// Checks which browser completes a sign-in that a wallet has answered, and with what.
async fn check_completion(client: &SignInTestClient, begun: &BegunSignIn, onward: &Onward, need: Need, what: &str) {
    let query = match (onward, need) {
        (Onward::ByItself, Need::Nothing) => String::new(),
        (Onward::Open(url), Need::ReturnUrl) => {
            url.strip_prefix(&format!("{}/complete", begun.base)).expect("the sign-in's own address").to_owned()
        }
        (Onward::Type(digits), Need::Digits) => format!("?digits={digits}"),
        _ => panic!("{what}: {onward:?} and not {need:?}"),
    };
    // Nothing that the wallet gives helps another browser, nor one without what is needed.
    for query in ["", query.as_str()] {
        assert_eq!(begun.complete(client, "", query).await, Completion::NotHere, "{what}: another browser, {query:?}");
    }
    let missing = match need {
        Need::Nothing => None,
        Need::ReturnUrl => Some("return"),
        Need::Digits => Some("digits"),
    };
    if let Some(missing) = missing {
        let wrong = match onward {
            Onward::Type(digits) => format!("?digits={}", if digits == "000" { "111" } else { "000" }),
            _ => "?return=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        };
        for query in ["", wrong.as_str()] {
            let refused = begun.complete(client, &begun.cookie, query).await;
            assert_eq!(refused, Completion::Needs(missing), "{what}: {query:?}");
        }
    }
    assert_eq!(begun.complete(client, &begun.cookie, &query).await, Completion::SignedIn, "{what}");
}

#[tokio::test]
async fn who_ends_where_by_the_link_that_the_library_was_given() {
    let client = start().await;
    for (given, need) in WAYS {
        let begun = BegunSignIn::begin(&client).await;
        let link = given.link(&client, &begun).await;
        let session = SignInSession::open(&link).await.expect("the sign-in starts");
        let request = session.verify(&client.issuer()).await.expect("signed by the issuer");
        let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "victim").await;
        let onward = session.answer_from(&request, &proof, session.place()).await.expect("accepted");
        check_completion(&client, &begun, &onward, need, &format!("{given:?}")).await;
    }
    client.stop().await;
}

/// What goes on by the output of the command.
fn onward(output: &str) -> Onward {
    let line = output.lines().last().unwrap_or_default();
    if let Some(url) = line.strip_prefix("open this in the browser of this device: ") {
        return Onward::Open(url.to_owned());
    }
    match line.strip_prefix("Type ").and_then(|rest| rest.split_once(' ')) {
        Some((digits, "on the screen where you began")) => Onward::Type(digits.to_owned()),
        _ => Onward::ByItself,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ends_where_by_the_link_that_the_command_was_given() {
    let client = start().await;
    let folder = folder();
    let wallet = folder.path().join("wallet.json").to_str().expect("text").to_owned();
    let command = async |words: &[&str]| {
        let words: Vec<String> = words.iter().chain(&["--wallet", &wallet]).map(|word| (*word).to_owned()).collect();
        let ran = move || run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let (is_done, text) = tokio::task::spawn_blocking(ran).await.expect("no panic");
        assert!(is_done, "{text}");
        text
    };
    let (gateway, indexer) = (client.daemon.gateway(""), client.daemon.indexer(""));
    let operator = client.daemon.operator("");
    command(&["wallet", "new", "--gateway", &gateway, "--indexer", &indexer, "--operator", &operator]).await;
    command(&["wallet", "create-account"]).await;
    for (given, need) in WAYS {
        let begun = BegunSignIn::begin(&client).await;
        let link = given.link(&client, &begun).await;
        let text = command(&["wallet", "sign-in", &link, "--yes"]).await;
        check_completion(&client, &begun, &onward(&text), need, &format!("{given:?}: {text}")).await;
    }
    // The option wins over the link, and the wallet says so.
    let begun = BegunSignIn::begin(&client).await;
    let text = command(&["wallet", "sign-in", &begun.short, "--yes", "--same-device"]).await;
    assert!(text.contains("--same-device was given, which wins"), "{text}");
    check_completion(&client, &begun, &onward(&text), Need::ReturnUrl, "--same-device").await;
    client.stop().await;
}

/// Three different wrong digits end the sign-in; a digit typed twice is one try.
#[tokio::test]
async fn digits_cannot_be_tried_out() {
    let client = start().await;
    let begun = BegunSignIn::begin(&client).await;
    let session = SignInSession::open(&begun.short).await.expect("the sign-in starts");
    assert_eq!(session.place(), Place::There);
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "alice").await;
    let onward = session.answer_from(session.request(), &proof, Place::There).await.expect("accepted");
    let Onward::Type(digits) = onward else { panic!("{onward:?}") };
    let wrong: Vec<String> = (0..4).map(|number| format!("00{number}")).filter(|wrong| *wrong != digits).collect();
    for typed in [&wrong[0], &wrong[0], &wrong[1], &wrong[0]] {
        let refused = begun.complete(&client, &begun.cookie, &format!("?digits={typed}")).await;
        assert_eq!(refused, Completion::Needs("digits"), "{typed}");
    }
    let last = begun.complete(&client, &begun.cookie, &format!("?digits={}", wrong[2])).await;
    assert_ne!(last, Completion::SignedIn);
    let late = begun.complete(&client, &begun.cookie, &format!("?digits={digits}")).await;
    assert!(!matches!(late, Completion::SignedIn | Completion::Needs(_)), "{late:?}");
    let progress = client.http.get(format!("{}/progress?wait=0", begun.base)).header("Cookie", &begun.cookie);
    assert_eq!(client.send(progress).await.body, json!({"state": "over"}));
    client.stop().await;
}

/// The first answer counts, whatever the second one says of where it was opened.
#[tokio::test]
async fn a_second_answer_changes_nothing_of_the_first() {
    let client = start().await;
    let begun = BegunSignIn::begin(&client).await;
    let session = SignInSession::open(&format!("{}#there", begun.short)).await.expect("the sign-in starts");
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "alice").await;
    let onward = session.answer_from(session.request(), &proof, Place::There).await.expect("accepted");
    for again in [Place::Here, Place::Unsaid, Place::There] {
        let error = session.answer_from(session.request(), &proof, again).await.expect_err("answered already");
        assert!(error.to_string().contains("has been answered"), "{error}");
    }
    // The short page leads no other wallet to it.
    let error = SignInSession::open(&begun.short).await.err().expect("no request");
    assert_eq!(error.code(), Some("not_found"), "{error}");
    check_completion(&client, &begun, &onward, Need::Digits, "the first answer").await;
    client.stop().await;
}

/// An answer of the browser's own device has no digits, and `digits` is a truth value.
#[tokio::test]
async fn members_that_contradict_each_other_are_refused() {
    let client = start().await;
    let begun = BegunSignIn::begin(&client).await;
    let session = SignInSession::open(&begun.short).await.expect("the sign-in starts");
    let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &session, "alice").await;
    let answer = async |members: Value| {
        let mut body = proof.clone();
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        client.send(client.http.post(format!("{}/proof", begun.base)).json(&body)).await
    };
    #[rustfmt::skip]
    let table = [
        json!({"mode": "same_device", "digits": true}), json!({"digits": "042"}), json!({"digits": null}), json!({"digits": 1}),
    ];
    for members in table {
        let refused = answer(members.clone()).await;
        refused.expect_error(400, "invalid_request", "invalid_request");
        assert_eq!(refused.body["attribute"], "digits", "{members}");
    }
    let accepted = answer(json!({"digits": true})).await;
    let digits = accepted.text("digits");
    assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{accepted:?}");
    let done = begun.complete(&client, &begun.cookie, &format!("?digits={digits}")).await;
    assert_eq!(done, Completion::SignedIn);
    client.stop().await;
}
