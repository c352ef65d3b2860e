//! `docs/interfaces/differences.md`: each row that names a difference from the public interfaces is
//! run against a daemon, whose answer has to be the one that the row says. The rows of verification
//! are made from the cases (`verification_tables.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use alloy_primitives::Address;
use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;
use selfsame::config::{App, SecretHash};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::ids::PubkeyId;
use selfsame_wallet::operations::create_account;
use serde_json::{Value, json};

use crate::registry_client::{RawHttpConnection, RegistryAnswer, RegistryClient};
use crate::sign_in_client::{
    CALLBACK, SECRET, SignInAnswer, SignInTestClient, accept_current_proofs, fragment_or_query,
};
use crate::test_accounts::{creation, key};
use crate::verification_tables::coded;

const PAGE: &str = "docs/interfaces/differences.md";

/// The parts of the page with a table.
const TABLES: [&str; 4] = [
    "## From the public description\n",
    "### Of verification\n",
    "## From the public verification endpoint\n",
    "## From the public gateway, indexer and bridge\n",
];

/// What the daemon answered, by the place that a row names.
type Answers = BTreeMap<&'static str, String>;

/// The answer that a row says, with the parts of pages that the row links.
#[derive(Debug)]
struct Row {
    answer: String,
    links: Vec<String>,
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).expect("the page")
}

/// The rows of the tables, by their place: place, public interface, example, answer, links.
fn rows(page: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for heading in TABLES {
        let (_, part) = page.split_once(heading).unwrap_or_else(|| panic!("{PAGE} has no {heading:?}"));
        let part = part.split("\n#").next().unwrap_or_default();
        let before = rows.len();
        for line in part.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [place, public, example, answer, links] = cells[..] else { panic!("five cells: {line}") };
            assert!(!public.is_empty() && !example.is_empty(), "{line}");
            let targets = links.split("](").skip(1).filter_map(|link| link.split(')').next());
            let row = Row { answer: answer.to_owned(), links: targets.map(str::to_owned).collect() };
            assert!(rows.insert(place.to_owned(), row).is_none(), "two rows have the place {place:?}");
        }
        assert!(rows.len() > before, "{heading:?} has no rows");
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_that_the_page_names_is_one() {
    let mut answers = Answers::new();
    for (place, answer) in [sign_in_answers().await, registry_answers().await].into_iter().flatten() {
        assert!(answers.insert(place, answer).is_none(), "{place} is run twice");
    }
    let mut rows = rows(&page());
    let page = page();
    let of_cases: Vec<_> =
        page.split("<!-- made from the cases: ").skip(1).filter_map(|part| part.split("<!-- end -->").next()).collect();
    rows.retain(|place, _| !of_cases.iter().any(|part| part.contains(&format!("\n| {place} |"))));
    let mut wrong = Vec::new();
    for (place, row) in &rows {
        match answers.get(place.as_str()) {
            None => wrong.push(format!("{place}: no request of this test shows it")),
            Some(answer) if *answer != row.answer => {
                wrong.push(format!("{place}: the page says {:?}, the daemon answers {answer:?}", row.answer));
            }
            Some(_) => {}
        }
    }
    let unnamed = answers.iter().filter(|(place, _)| !rows.contains_key(**place));
    wrong.extend(unnamed.map(|(place, answer)| format!("{place}: {answer}: the page has no row")));
    assert!(wrong.is_empty(), "{PAGE}: {wrong:#?}");
}

/// What a row links exists, and one of the parts names what the row is about.
#[test]
fn the_links_of_a_difference_are_about_it() {
    for (place, Row { links, .. }) in rows(&page()) {
        let texts: Vec<_> = links.iter().map(|link| linked(link)).collect();
        // The place is named by its words in backticks, or else by its first word.
        let words: Vec<_> = place.split('`').skip(1).step_by(2).collect();
        let first = place.split(' ').next().unwrap_or_default();
        let words = if words.is_empty() { vec![first] } else { words };
        for word in words {
            let is_named = texts.iter().any(|text| text.to_lowercase().contains(&word.to_lowercase()));
            assert!(is_named, "{place}: {links:?} does not name {word:?}");
        }
    }
}

/// The part of a page that a link leads to, without the parts below it.
fn linked(link: &str) -> String {
    let (page, anchor) = link.split_once('#').unwrap_or_else(|| panic!("{link} names no part of a page"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/interfaces").join(page);
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{link}: {error}"));
    let anchor_of = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars().filter(|c| c.is_alphanumeric() || " -".contains(*c)).collect::<String>().replace(' ', "-")
    };
    let parts = page.split("\n#").find(|part| anchor_of(part.lines().next().unwrap_or_default()) == anchor);
    parts.unwrap_or_else(|| panic!("{link} leads to no heading")).to_owned()
}

fn refused(answer: &RegistryAnswer) -> String {
    coded(answer.status, &answer.body)
}

/// Words in backticks, with commas between.
fn words(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// An application of the tests with the secret of the others, in the form of a configuration file.
fn application(text: &str) -> App {
    let mut app: App = toml::from_str(text).expect("an application");
    app.client_secret_hash = Some(SecretHash::of([9; 16], SECRET));
    app
}

async fn sign_in_answers() -> Answers {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps.push(application(&format!("id = 'app_default'\nredirect_uris = ['{CALLBACK}']")));
        config.apps.push(application(&format!("id = 'app_pkce'\nredirect_uris = ['{CALLBACK}']\nrequire_pkce = true")));
    })
    .await;
    let mut answers = Answers::new();
    let discovery = client.get(&client.daemon.sign_in("/.well-known/openid-configuration"), "*/*").await;
    let discovery = SignInAnswer::of(discovery).await.body;
    answers.insert("response types in discovery", words(&discovery["response_types_supported"]));
    answers
        .insert("`id_token_signing_alg_values_supported`", words(&discovery["id_token_signing_alg_values_supported"]));
    let head = client.http.head(client.daemon.sign_in("/.well-known/openid-configuration"));
    answers.insert("HEAD", head.send().await.expect("an answer").status().as_u16().to_string());

    let long = "x".repeat(2049);
    let refusals: [(&str, &[(&str, &str)]); 8] = [
        ("response types of an application", &[("client_id", "app_default"), ("response_type", "id_token")]),
        ("`nonce` of hybrid flows", &[("response_type", "code id_token"), ("nonce", "")]),
        ("length of `state`", &[("state", &long)]),
        ("length of `nonce`", &[("nonce", &long)]),
        ("`require_pkce`", &[("client_id", "app_pkce")]),
        ("parameters given twice at `/authorize`", &[("scope", "openid"), ("scope", "openid")]),
        ("codes of sign-in", &[("client_id", "app_unknown")]),
        ("`request` and `request_uri`", &[("request", "x")]),
    ];
    for (place, changes) in refusals {
        let answer = client.get(&client.authorization_url(changes), "application/json").await;
        let answer = SignInAnswer::of(answer).await;
        answers.insert(place, coded(answer.status, &answer.body));
    }
    let redirect = client.get(&client.authorization_url(&[("scope", "")]), "text/html").await;
    let location = redirect.headers()["location"].to_str().expect("text").to_owned();
    let sent = fragment_or_query(&location);
    let begins = sent["error_description"].split_inclusive(' ').take(2).collect::<String>();
    answers.insert("missing parameters in a redirect", format!("`{}`, `{}`", sent["error"], begins.trim_end()));

    let code = client.code("alice", &[]).await;
    let form = [("grant_type", "authorization_code"), ("code", &*code)];
    let answer = client.post("/token", &form).await;
    answers.insert("`/token` without `redirect_uri`", coded(answer.status, &answer.body));
    let code = client.code("alice", &[]).await;
    let tokens = client.exchange(&code).await;
    let userinfo = client.http.get(client.daemon.sign_in("/userinfo")).bearer_auth(tokens.text("access_token"));
    let claims = client.send(userinfo).await.body;
    let is_subject = claims["email"].as_str().is_some_and(|email| email.starts_with(claims["sub"].as_str().unwrap()));
    assert!(is_subject && claims["email_verified"] == json!(false), "{claims}");
    answers.insert("`name`", format!("`{}`", claims["name"].as_str().expect("text")));
    answers.insert("`email`", format!("`email_verified` `{}`", claims["email_verified"]));
    client.stop().await;
    answers
}

/// Status and code of a request's answer.
async fn answered(request: RequestBuilder) -> String {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    coded(status, &body)
}

async fn registry_answers() -> Answers {
    let client = RegistryClient::start().await;
    let mut answers = Answers::new();
    let (alice, tablet) = (key("alice"), key("tablet"));

    let operation = create_account(&[alice.authenticator()], Address::ZERO).operation;
    let mut body: Value = serde_json::to_value(&operation).expect("JSON");
    body.as_object_mut().expect("an object").remove("recovery_address");
    let accepted = client.post(client.daemon.gateway("/create-account"), body.to_string()).await;
    answers.insert("`recovery_address`", refused(&accepted));
    let state = client.final_state(accepted.request_id()).await;
    let block = client.get(client.daemon.gateway("/block/1")).await.body;
    let is_of_block = state["tx_hash"] == block["block"]["hash"] && state["tx_hash"].is_string();
    answers.insert("`tx_hash`", if is_of_block { "the hash of block 1".to_owned() } else { state.to_string() });

    let url = client.daemon.gateway("/cancel-recovery-agent-update");
    let request = || client.http.post(&url);
    let method = client.send(client.http.put(&url)).await;
    answers.insert("another method at the gateway", refused(&method));
    let json = "application/json";
    let long = client.send(request().header(CONTENT_TYPE, json).body(" ".repeat(65_537))).await;
    answers.insert("a body over 64 KiB at the gateway", refused(&long));
    let content_type = client.send(request().header(CONTENT_TYPE, "text/plain").body("{}")).await;
    answers.insert("another content type at the gateway", refused(&content_type));

    let head = format!("GET /config HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(40_000));
    let mut raw = RawHttpConnection::open(client.daemon.addresses[Interface::Gateway]).await;
    raw.send(head.as_bytes()).await;
    let (status, _, body) = raw.reply().await.expect("an answer");
    answers.insert("refusals of the HTTP layer", format!("{status}, {} bytes", body.len()));

    let sources = ["protocol/src", "actors/src", "interfaces/src", "src"]
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let makers = sources.iter().flat_map(|folder| made_in(folder, &["::TransactionReverted", "::ConfirmationError"]));
    answers.insert(
        "`transaction_reverted`, `confirmation_error`",
        match makers.collect::<Vec<_>>()[..] {
            [] => "never".to_owned(),
            ref files => files.join(", "),
        },
    );

    // What a block of its own must not have.
    let domain = client.domain();
    let account = client.create(&[&tablet], Address::ZERO).await;
    let leaf = account.leaf_index;
    let insert = account.insert(&domain, &tablet, key("phone").authenticator(), PubkeyId(1)).expect("valid").operation;
    let mut zero: Value = serde_json::to_value(&insert).expect("JSON");
    zero["new_authenticator_address"] = json!(Address::ZERO);
    let answer = client.post(client.daemon.gateway("/insert-authenticator"), zero.to_string()).await;
    answers.insert("an authenticator with the zero address", rule(&answer));
    let execute = json!({"leaf_index": leaf}).to_string();
    let answer = client.post(client.daemon.gateway("/execute-recovery-agent-update"), execute).await;
    answers.insert("`/execute-recovery-agent-update`", rule(&answer));
    let answer = client.post(client.daemon.gateway("/update-recovery-agent"), "{}").await;
    answers.insert("`/update-recovery-agent`", refused(&answer));
    let answer = client.post(client.daemon.gateway("/revert-recovery-agent-update"), "{}").await;
    answers.insert("`/revert-recovery-agent-update`", refused(&answer));
    let accepted = client.submit(&creation(1)).await;
    answers.insert("status of an accepted request", refused(&accepted));

    let plain = client.query("/inclusion-proof", json!({"leaf_index": leaf})).await;
    let compat = client.query("/compat/inclusion-proof", json!({"leaf_index": leaf})).await;
    assert!(compat.body["authenticator_pubkeys"][0]["pk"].is_array(), "{compat:?}");
    let is_text = plain.body["authenticator_pubkeys"][0].is_string();
    answers.insert("`authenticator_pubkeys`", if is_text { "a string".to_owned() } else { plain.body.to_string() });
    answers.insert("codes of the indexer", refused(&client.query("/inclusion-proof", json!({})).await));

    let bridge = |path: &str| format!("http://{}{path}", client.daemon.addresses[Interface::Bridge]);
    let unknown = "/request/00000000-0000-4000-8000-000000000000";
    answers.insert("`code` of an error of the bridge", answered(client.http.get(bridge(unknown))).await);
    let short = json!({"iv": "AAAA", "payload": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"});
    answers
        .insert("`iv` and `payload` of the bridge", answered(client.http.post(bridge("/request")).json(&short)).await);
    answers.insert("PUT of `/request`", answered(client.http.put(bridge("/request")).json(&short)).await);
    answers
}

/// Status and code of a refusal, with the rule that its message names.
fn rule(answer: &RegistryAnswer) -> String {
    let rule = answer.text("message").split(':').next().unwrap_or_default();
    format!("{}, `{rule}`", refused(answer))
}

/// The product sources below a folder that make one of these codes, which only the list of codes
/// names.
fn made_in(folder: &Path, codes: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(made_in(&path, codes));
            continue;
        }
        let is_list = path.ends_with("published_types.rs");
        if !is_list && path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            found.extend(codes.iter().filter(|code| text.contains(**code)).map(|_| path.display().to_string()));
        }
    }
    found
}
