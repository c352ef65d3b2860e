//! `wallet answer` with a recorded request, and a bridge, an operator interface and an indexer with
//! canned answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use reqwest::Url;
use selfsame_protocol::bridge::Message;
use selfsame_protocol::bridge::connector::RequestKey;
use selfsame_protocol::time::UnixSeconds;
use selfsame_wallet::command::{Clocks, WalletCommand, run};
use serde_json::{Value, json};

use crate::registry::{InMemoryRegistry, simulation};
use crate::server::{CannedAnswer, serve};

const REQUEST_ID: &str = "0123456789abcdef";

#[derive(Parser)]
struct TestCommandLine {
    #[command(flatten)]
    wallet: WalletCommand,
}

/// A recorded request and its key in Base64.
struct RecordedRequest {
    key: String,
    message: Value,
    created_at: u64,
    text: Value,
}

fn recorded(name: &str) -> RecordedRequest {
    let file: Value = serde_json::from_str(include_str!("../../vectors/bridge_requests.json")).expect("JSON");
    let vector = file["vectors"].as_array().expect("a list").iter().find(|vector| vector["name"] == name);
    let vector = vector.expect(name);
    let uri = Url::parse(vector["uri"].as_str().expect("text")).expect("a URI");
    let key = uri.query_pairs().find(|(name, _)| name == "k").expect("a key").1.into_owned();
    let text: Value = serde_json::from_str(vector["text"].as_str().expect("text")).expect("JSON");
    let created_at = text["proof_request"]["created_at"].as_u64().expect("a time");
    RecordedRequest { key, message: vector["message"].clone(), created_at, text }
}

/// What one run of the command did.
struct Outcome {
    /// The output, and the error if there is one.
    printed: Result<String, (String, String)>,
    /// The decrypted answer that the bridge got.
    answer: Option<Value>,
}

/// Runs the command with the words. The bridge answers the fetch with `fetched`, and the answers
/// with the statuses `puts`, the last one again and again. `now` is in seconds after the request
/// was made.
async fn run_answer(
    request: &RecordedRequest,
    words: &str,
    fetched: (u16, Value),
    puts: &'static [u16],
    now: u64,
) -> Outcome {
    run_answer_of(true, request, words, fetched, puts, now).await
}

/// The same, of a wallet with or without an account.
async fn run_answer_of(
    has_account: bool,
    request: &RecordedRequest,
    words: &str,
    fetched: (u16, Value),
    puts: &'static [u16],
    now: u64,
) -> Outcome {
    let simulation = simulation(&request.text["app_id"], &request.text["proof_request"]["rp_id"]);
    let registry = Mutex::new(InMemoryRegistry::default());
    let sent = Arc::new(Mutex::new(None));
    let received = Arc::clone(&sent);
    let attempts = AtomicUsize::new(0);
    let service = serve(move |call| match call.path.as_str() {
        "/simulator" => CannedAnswer::ok(&simulation),
        path if path == format!("/request/{REQUEST_ID}") => CannedAnswer(fetched.0, None, fetched.1.to_string()),
        path if path == format!("/response/{REQUEST_ID}") => {
            *received.lock().expect("no panic") = Some(call.body);
            let put = puts[attempts.fetch_add(1, Ordering::Relaxed).min(puts.len() - 1)];
            CannedAnswer(put, Some(0), String::new())
        }
        _ => registry.lock().expect("no panic").answer(&call),
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let wallet = folder.path().join("wallet.json").display().to_string();
    let mut uri = Url::parse("https://world.org/verify?t=wld").expect("a URI");
    uri.query_pairs_mut().append_pair("i", REQUEST_ID).append_pair("k", &request.key).append_pair("b", &service);
    // The wallet file remembers the addresses.
    let services = ["--gateway", &service, "--indexer", &service, "--operator", &service];
    let of_wallet = ["--wallet", &wallet];
    let line = |words: &[&str]| words.iter().chain(&of_wallet).map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let made = line(&[&["new"], &services[..]].concat());
    let mut lines = vec![made];
    lines.extend(has_account.then(|| line(&["create-account"])));
    let words: Vec<&str> = ["answer", uri.as_str()].into_iter().chain(words.split_whitespace()).collect();
    lines.push(line(&words));
    let mut count = 0;
    let mut random = |bytes: &mut [u8; 32]| {
        count += 1;
        *bytes = [count; 32];
    };
    let started = Instant::now();
    let now = UnixSeconds(request.created_at + now);
    let mut printed = Ok(String::new());
    for words in lines {
        let line = TestCommandLine::try_parse_from(["wallet".to_owned()].into_iter().chain(words));
        let command = line.unwrap_or_else(|error| panic!("{error}")).wallet;
        let clocks = Clocks { monotonic: &move || started, unix: &move || now };
        let mut out = Vec::new();
        let result = run(command, &mut random, &clocks, &mut out).await;
        let out = String::from_utf8(out).expect("text").replace(&service, "BRIDGE");
        printed = result.map(|()| out.clone()).map_err(|error| (out, error.to_string().replace(&service, "BRIDGE")));
    }
    let sent = sent.lock().expect("no panic").take();
    let answer = sent.map(|message| {
        let message: Message = serde_json::from_value(message).expect("a message");
        let text = RequestKey::from_base64(&request.key).expect("a key").open(&message).expect("decrypted");
        serde_json::from_slice(&text).expect("JSON")
    });
    Outcome { printed, answer }
}

const NAME: &str = "a proof of human, or a legacy proof";
const SIGNER: &str = "0x1a642f0e3c3af545e7acbd38b07251b3990914f1";

#[tokio::test]
async fn a_request_is_shown_and_answered() {
    let request = recorded(NAME);
    let Outcome { printed, answer } = run_answer(&request, "--yes", (200, request.message.clone()), &[201], 0).await;
    let expected = format!(
        r#""app_staging_5e1f5a3e000000000000000000000001" asks for a proof
for the action "vote"
relying party rp_6765160973bf7042, signed with the key {SIGNER}, which was not checked (--rp-key)
bound to the signal "user-1"
open until {}
for staging, by "idkit_js_core 4.3.0" through BRIDGE
the answer would be a current proof of proof_of_human
answered with a current proof of proof_of_human
"#,
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + UnixSeconds(request.created_at + 300).since_epoch())
    );
    assert_eq!(printed, Ok(expected));
    let answer = answer.expect("an answer");
    assert_eq!(answer["id"], request.text["proof_request"]["id"]);
    assert_eq!(answer["responses"][0]["identifier"], "proof_of_human");
    let Outcome { printed, .. } =
        run_answer(&request, &format!("--yes --rp-key {SIGNER}"), (200, request.message.clone()), &[201], 300).await;
    assert!(printed.expect("answered").contains(&format!("signed with its key {SIGNER}\n")));
}

#[tokio::test]
async fn a_refusal_and_every_reason_reach_the_application() {
    let request = recorded(NAME);
    let mut other_key = recorded("any of two");
    other_key.message = request.message.clone();
    let fetched = || (200, request.message.clone());
    let Outcome { printed, answer } = run_answer(&request, "--refuse", fetched(), &[201], 9999).await;
    assert_eq!((printed, answer), (Ok("refused\n".to_owned()), Some(json!({"error_code": "user_rejected"}))));
    let stranger = format!("--yes --rp-key 0x{}", "12".repeat(20));
    #[rustfmt::skip]
    let table = [
        (&request, "--yes", 301, "rp_signature_expired", "the request expired 1 seconds ago"),
        (&request, "--yes --credential passport", 0, "credential_unavailable", "does not have the credentials"),
        (&request, &*stranger, 0, "invalid_rp_signature", SIGNER),
        (&other_key, "--yes", 0, "malformed_request", "not encrypted with the key of the connector URI"),
    ];
    for (request, words, now, code, sentence) in table {
        let Outcome { printed, answer } = run_answer(request, words, fetched(), &[201], now).await;
        let (out, error) = printed.expect_err(code);
        assert!(error.contains(sentence), "{error:?} should contain {sentence:?}");
        assert!(out.ends_with(&format!("the application was told: {code}\n")), "{out}");
        assert_eq!(answer, Some(json!({"error_code": code})), "{code}");
    }
}

#[tokio::test]
async fn facts_are_attested_only_by_the_word_of_the_command_line() {
    let request = changed(NAME, |text| text["identity_attributes"] = json!([{"type": "age_over", "value": 18}]));
    let fetched = || (200, request.message.clone());
    let Outcome { printed, answer } = run_answer(&request, "--yes", fetched(), &[201], 0).await;
    assert!(printed.is_err());
    assert_eq!(answer, Some(json!({"error_code": "feature_unavailable"})));
    for word in [true, false] {
        let words = format!("--yes --identity-attested {word}");
        let Outcome { printed, answer } = run_answer(&request, &words, fetched(), &[201], 0).await;
        assert!(printed.is_ok(), "{printed:?}");
        let answer = answer.expect("an answer");
        assert_eq!(answer["identity_attested"], word);
        assert_eq!(answer["proof_response"]["responses"][0]["identifier"], "proof_of_human");
    }
    // This daemon has no attestation issuer of the simulator.
    let Outcome { printed, .. } =
        run_answer(&request, "--yes --identity-attested true --bundle 1", fetched(), &[201], 0).await;
    let (_, error) = printed.expect_err("no bundle");
    assert!(error.contains("judges no bundles of the simulator for staging"), "{error}");
}

/// A recorded request with another action, encrypted with the same key.
fn with_action(name: &str, action: &str, hash: &str) -> RecordedRequest {
    changed(name, |text| {
        text["action"] = action.into();
        text["proof_request"]["action"] = hash.into();
    })
}

/// A recorded request with a changed text, encrypted with the same key.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> RecordedRequest {
    let mut request = recorded(name);
    change(&mut request.text);
    let key = RequestKey::from_base64(&request.key).expect("a key");
    let message = key.seal(request.text.to_string().as_bytes(), [9; 12]).expect("encrypted");
    request.message = serde_json::to_value(message).expect("JSON");
    request
}

#[tokio::test]
async fn a_request_for_uniqueness_with_a_new_session_is_shown_and_answered() {
    let request = changed(NAME, |text| text["proof_request"]["session_id"] = "create".into());
    let Outcome { printed, answer } = run_answer(&request, "--yes", (200, request.message.clone()), &[201], 0).await;
    let printed = printed.expect("answered");
    assert!(printed.contains("for the action \"vote\"\nand to begin a session\n"), "{printed}");
    let answer = answer.expect("an answer");
    assert!(answer["session_id"].as_str().is_some_and(|id| id.starts_with("session_")), "{answer}");
    assert!(answer["responses"][0]["nullifier"].as_str().is_some_and(|nullifier| nullifier.starts_with("nil_")));
    assert_eq!(answer["responses"][0]["session_nullifier"], Value::Null);
}

/// Over a bridge nothing shows that an issuer asks: a page could hand on another one's sign-in.
#[tokio::test]
async fn a_statement_that_signs_in_is_not_given_over_a_bridge() {
    let hash = "0x004549a96bd33a08eaae741c1942024d5308f7c744a84d52f40449ad1eed37a5";
    let bound = changed(NAME, |text| {
        text["action"] = "sign-in".into();
        text["proof_request"]["action"] = hash.into();
        text["proof_request"]["session_id"] = "create".into();
    });
    let unbound = ["sign-in", "0x7369676e2d696e"].map(|action| with_action(NAME, action, hash));
    for request in unbound.into_iter().chain([bound]) {
        let action = &request.text["action"];
        let fetched = || (200, request.message.clone());
        let Outcome { printed, answer } = run_answer(&request, "--yes", fetched(), &[201], 0).await;
        let (out, error) = printed.expect_err("refused");
        assert!(error.contains("selfsame wallet sign-in") && error.contains("--as-public-wallet"), "{error}");
        assert!(out.ends_with("the application was told: feature_unavailable\n"), "{out}");
        assert_eq!(answer, Some(json!({"error_code": "feature_unavailable"})), "{action}");
        let Outcome { printed, answer } = run_answer(&request, "--yes --as-public-wallet", fetched(), &[201], 0).await;
        assert!(printed.expect("answered").contains("answered with a current proof"), "{action}");
        assert!(answer.expect("an answer")["responses"][0]["nullifier"].is_string(), "{action}");
    }
}

/// The request stays on the bridge for another wallet.
#[tokio::test]
async fn a_wallet_without_an_account_fetches_no_request() {
    let request = recorded(NAME);
    let fetched = || (200, request.message.clone());
    let Outcome { printed, answer } = run_answer_of(false, &request, "--yes", fetched(), &[201], 0).await;
    let (out, error) = printed.expect_err("no person to prove");
    assert!(error.contains("not, or no longer, an authenticator of an account"), "{error}");
    assert!(error.contains("selfsame wallet create-account --wallet"), "{error}");
    assert_eq!((out.as_str(), answer), ("", None));
    // To refuse needs no person.
    let Outcome { printed, .. } = run_answer_of(false, &request, "--refuse", fetched(), &[201], 0).await;
    assert_eq!(printed, Ok("refused\n".to_owned()));
}

#[tokio::test]
async fn errors_of_the_bridge_are_named() {
    let request = recorded(NAME);
    let not_found = json!({"code": "not_found", "message": "nothing"});
    let garbled = json!({"iv": "AAAA", "payload": request.message["payload"]});
    #[rustfmt::skip]
    let table = [
        ((404, not_found), &[201], "BRIDGE has no such request"),
        ((500, json!({})), &[201], "answered 500"),
        ((200, garbled), &[201], "cannot be read: iv"),
        ((200, request.message.clone()), &[409], "answered already"),
        ((200, request.message.clone()), &[404], "BRIDGE has no such request"),
        ((200, request.message.clone()), &[400], "BRIDGE has no such request"),
        ((200, request.message.clone()), &[503], "answered 503"),
    ];
    for (fetched, puts, sentence) in table {
        let Outcome { printed, .. } = run_answer(&request, "--yes", fetched, puts, 0).await;
        let (_, error) = printed.expect_err(sentence);
        assert!(error.contains(sentence), "{error:?} should contain {sentence:?}");
    }
    let fetched = (200, request.message.clone());
    let Outcome { printed, .. } = run_answer(&request, "--yes", fetched, &[503, 429, 201], 0).await;
    assert!(printed.is_ok(), "a busy bridge is asked again: {printed:?}");
}
