//! `wallet group …`, and proofs as a member, against a wallet interface with the real rules.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use alloy_primitives::{U256, hex};
use selfsame_protocol::bridge::Message;
use selfsame_protocol::bridge::connector::RequestKey;
use selfsame_protocol::groups::names::{Day, FieldNumber};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_wallet::groups::GroupClient;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::commands::WalletCli;
use crate::group_service::{GroupService, holds};
use crate::server::CannedAnswer;

const WALLET: &str = "--wallet {own}";

/// A wallet without an account, and a group that has invited member 417.
async fn invited() -> (WalletCli, GroupService, String) {
    let service = GroupService::start("members").await;
    service.group().add_others(3);
    let link = service.invite("417");
    let mut cli = WalletCli::new().await;
    cli.run_ok(&format!("new {WALLET} --operator SERVICE")).await;
    (cli, service, link)
}

/// The same, joined.
async fn joined() -> (WalletCli, GroupService) {
    let (mut cli, service, link) = invited().await;
    cli.run_ok(&format!("group join {link} {WALLET}")).await;
    (cli, service)
}

/// The only item of a verification request that `wallet prove` prints, and the request.
async fn proved(cli: &mut WalletCli, words: &str) -> (Value, Value) {
    let body: Value = serde_json::from_str(&cli.run_ok(&format!("prove {words} {WALLET}")).await).expect("JSON");
    (body["responses"][0].clone(), body)
}

fn is_genuine(item: &Value, app: &str, action: &str, signal: &str) -> bool {
    let (of, signal) = (external_nullifier(app, action), hash_text(signal));
    holds(&item["proof"], &item["merkle_root"], &item["nullifier"], signal, of)
}

#[tokio::test]
async fn a_wallet_joins_a_group_with_a_link_and_proves_without_an_account() {
    let (mut cli, service, link) = invited().await;
    let output = cli.run_ok(&format!("group list {WALLET}")).await;
    assert_eq!(output, "this wallet is a member of no group\n");
    let output = cli.run_ok(&format!("group join {link} {WALLET}")).await;
    assert_eq!(output, "member of \"Members of the cooperative\" (members), at position 3\n");
    let output = cli.run_ok(&format!("group list {WALLET}")).await;
    assert!(output.starts_with(&format!("members at {}, staging: position 3, leaf 0x", service.url)), "{output}");
    let (item, body) = proved(&mut cli, "--app app_forum --action post --signal hello --group members").await;
    assert_eq!((&item["identifier"], &body["environment"]), (&"members".into(), &"staging".into()));
    assert_eq!(item["merkle_root"], format!("{:#066x}", service.group().root(None).to_number()));
    assert!(is_genuine(&item, "app_forum", "post", "hello"));
    assert!(!is_genuine(&item, "app_forum", "post", "bye"));
    // The same link again, and another member number.
    let output = cli.run_ok(&format!("group join {link} {WALLET}")).await;
    assert!(output.contains("a member of members already, at position 3; the link was not needed"), "{output}");
    // The file has the membership, and nobody else can read it.
    let mode = fs::metadata(cli.path("own")).expect("the file has metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_replaced_leaf_proves_the_same_person_and_a_vote_counts_the_leaf_of_its_roll() {
    let (mut cli, service) = joined().await;
    let vote = "--app app_vote --action board --credential members";
    let forum = "--app app_forum --credential members";
    service.group().take_roll("assembly", external_nullifier("app_vote", "board"));
    let [first_vote, first_post] = [proved(&mut cli, vote).await.0, proved(&mut cli, forum).await.0];
    let output = cli.run_ok(&format!("group replace members {WALLET}")).await;
    assert_eq!(output, "leaf of members replaced, at position 3\n");
    let [vote_after, post_after] = [proved(&mut cli, vote).await.0, proved(&mut cli, forum).await.0];
    assert_eq!(vote_after["nullifier"], first_vote["nullifier"]);
    assert_eq!(post_after["nullifier"], first_post["nullifier"]);
    let roll = format!("{:#066x}", service.group().root(Some("assembly")).to_number());
    assert_eq!((&vote_after["merkle_root"], &first_vote["merkle_root"]), (&roll.clone().into(), &roll.into()));
    assert_ne!(post_after["merkle_root"], first_post["merkle_root"]);
    assert!(is_genuine(&vote_after, "app_vote", "board", "") && is_genuine(&post_after, "app_forum", "", ""));
    // Once a day by oneself; a link of the organization overrides, also with a new secret.
    cli.check_refused(&format!("group replace members {WALLET}"), "once a day").await;
    let link = service.invite("417");
    cli.check_refused(&format!("group replace members --new-secret {WALLET}"), "required").await;
    cli.run_ok(&format!("group replace members {link} --new-secret {WALLET}")).await;
    assert_ne!(proved(&mut cli, forum).await.0["nullifier"], first_post["nullifier"]);
    cli.check_refused(&format!("prove {vote} {WALLET}"), "the roll assembly, and this wallet's leaf is not on it")
        .await;
}

#[tokio::test]
async fn who_leaves_or_is_removed_proves_nothing_until_the_same_person_comes_back() {
    let (mut cli, service) = joined().await;
    let forum = "--app app_forum --group members";
    let vote = "--app app_vote --action board --group members";
    let before = proved(&mut cli, forum).await.0;
    service.group().take_roll("assembly", external_nullifier("app_vote", "board"));
    let output = cli.run_ok(&format!("group leave members {WALLET}")).await;
    assert_eq!(output, "left members; the list of members follows within the hour\n");
    cli.run_ok(&format!("group leave members {WALLET}")).await;
    let gone = "this wallet's leaf is not in the group members any more";
    cli.check_refused(&format!("prove {forum} {WALLET}"), gone).await;
    service.group().clear_left("417");
    cli.check_refused(&format!("prove {forum} {WALLET}"), gone).await;
    assert!(cli.run_ok(&format!("group list {WALLET}")).await.ends_with("staging: left\n"));
    // A roll counts who was on it.
    assert!(is_genuine(&proved(&mut cli, vote).await.0, "app_vote", "board", ""));
    for leave in [true, false] {
        let link = service.invite("417");
        let output = cli.run_ok(&format!("group join {link} {WALLET}")).await;
        assert!(output.ends_with("(members), at position 3\n"), "{output}");
        assert_eq!(proved(&mut cli, forum).await.0["nullifier"], before["nullifier"]);
        if leave {
            service.group().remove("417");
            cli.check_refused(&format!("prove {forum} {WALLET}"), gone).await;
        }
    }
}

/// The service carries a request out, and the wallet does not get the answer.
#[tokio::test]
async fn a_command_whose_answer_was_lost_goes_on_when_it_is_given_again() {
    let (mut cli, service, link) = invited().await;
    let forum = "--app app_forum --group members";
    let lost = "the answer was lost";
    service.group().loses_answer = true;
    cli.check_refused(&format!("group join {link} {WALLET}"), lost).await;
    assert!(cli.run_ok(&format!("group list {WALLET}")).await.contains("joining is under way"));
    // It can prove already: its leaf is found in the pages.
    let first = proved(&mut cli, forum).await.0;
    let output = cli.run_ok(&format!("group join {link} {WALLET}")).await;
    assert!(output.ends_with("(members), at position 3\n"), "{output}");
    for by_link in [false, true] {
        let line = match by_link {
            true => format!("group replace members {} {WALLET}", service.invite("417")),
            false => format!("group replace members {WALLET}"),
        };
        service.group().loses_answer = true;
        cli.check_refused(&line, lost).await;
        assert!(cli.run_ok(&format!("group list {WALLET}")).await.contains("`group replace members` goes on with it"));
        assert_eq!(proved(&mut cli, forum).await.0["nullifier"], first["nullifier"]);
        cli.check_refused(&format!("group leave members {WALLET}"), "finish it first").await;
        // With whichever secret the store has, and on the same day.
        cli.run_ok(&format!("group replace members {WALLET}")).await;
        assert!(!cli.run_ok(&format!("group list {WALLET}")).await.contains("goes on"));
    }
    service.group().loses_answer = true;
    cli.check_refused(&format!("group leave members {WALLET}"), lost).await;
    cli.run_ok(&format!("group leave members {WALLET}")).await;
}

#[tokio::test]
async fn every_refusal_of_a_link_is_said_in_plain_words_and_changes_nothing() {
    let (mut cli, service, link) = invited().await;
    let wrong_letter = format!("{}0", &link[..link.len() - 1]);
    let no_group = link.replace("#members.", "#nobody.");
    let newer = service.invite("417");
    #[rustfmt::skip]
    let table = [
        (wrong_letter.as_str(), "a letter of the code is wrong"),
        ("members", "this is not a group's link"),
        (&no_group, "no group has this id at this address"),
        (&link, "a newer link has ended it; use the newest one"),
    ];
    for (link, words) in table {
        cli.check_refused(&format!("group join {link} {WALLET}"), words).await;
        assert_eq!(cli.run_ok(&format!("group list {WALLET}")).await, "this wallet is a member of no group\n");
    }
    service.group().today = Day(20_031);
    cli.check_refused(&format!("group join {newer} {WALLET}"), "the link is too old").await;
    service.group().today = Day(20_030);
    cli.run_ok(&format!("group join {newer} {WALLET}")).await;
    // Another person with the used link, and the same person under another number.
    cli.run_ok("new --wallet {other}").await;
    cli.check_refused(&format!("group join {newer} --wallet {{other}}"), "the link was used").await;
    service.group().remove("417");
    let of_another = service.invite("418");
    let words = "this wallet's secret is in the group under another member number";
    cli.check_refused(&format!("group join {of_another} {WALLET}"), words).await;
    cli.check_refused(&format!("group replace members {WALLET}"), "the group has no member with this wallet's secret")
        .await;
    cli.check_refused(&format!("group leave members {WALLET}"), "the group has no member with this wallet's secret")
        .await;
    for line in ["group replace others", "group leave others", "prove --app app_a --group others"] {
        cli.check_refused(&format!("{line} {WALLET}"), "not a member of the group others; join it with").await;
    }
    let of_others = of_another.replace("#members.", "#others.");
    cli.check_refused(&format!("group replace members {of_others} {WALLET}"), "the link is for the group others").await;
}

/// Of two copies of a wallet the first to replace wins.
#[tokio::test]
async fn a_copy_of_the_wallet_that_was_replaced_elsewhere_is_told_so() {
    let (mut cli, service) = joined().await;
    fs::copy(cli.path("own"), cli.path("copy")).expect("copied");
    cli.run_ok("group replace members --wallet {copy}").await;
    service.group().today = Day(20_001);
    cli.check_refused(&format!("group replace members {WALLET}"), "replaced with another device; when it was not you")
        .await;
    cli.check_refused(&format!("prove --app app_a --group members {WALLET}"), "is not in the group members any more")
        .await;
    // The organization's link overrides, and the next leaf is one that the copy has not made.
    let link = service.invite("417");
    cli.run_ok(&format!("group replace members {link} {WALLET}")).await;
    proved(&mut cli, "--app app_a --group members").await;
    cli.check_refused("prove --app app_a --group members --wallet {copy}", "is not in the group members any more")
        .await;
}

/// Somebody is removed between the two calls of the wallet, which ends the page's root.
#[tokio::test]
async fn a_page_that_has_just_ended_is_fetched_again_once() {
    let (mut cli, service) = joined().await;
    service.group().before_page = Some(|group| group.remove("other 1"));
    let (item, _) = proved(&mut cli, "--app app_forum --group members").await;
    assert_eq!(item["merkle_root"], format!("{:#066x}", service.group().root(None).to_number()));
    assert!(is_genuine(&item, "app_forum", "", ""));
}

#[tokio::test]
async fn a_credentials_name_is_that_of_a_group_before_that_of_the_account() {
    let (mut cli, service) = joined().await;
    service.group().legacy_identifier = Some(LegacyIdentifier::Device);
    let device = format!("prove --app app_forum --credential device {WALLET}");
    // The wallet learns the public name with the next answer about the group.
    cli.check_refused(&device, "not, or no longer, an authenticator of an account").await;
    cli.run_ok(&format!("group replace members {WALLET}")).await;
    let (item, _) = proved(&mut cli, "--app app_forum --credential device").await;
    assert_eq!(item["identifier"], "device");
    assert!(is_genuine(&item, "app_forum", "", ""));
    cli.check_refused(&format!("{device} --production"), "authenticator of an account").await;
    cli.check_refused(&format!("prove --app app_a --credential school {WALLET}"), "no credential school in staging")
        .await;
    cli.check_refused(&format!("prove --app app_a --kind uniqueness --group members {WALLET}"), "legacy proofs").await;
    // Two groups with one public name.
    let school = GroupService::start("school").await;
    school.group().legacy_identifier = Some(LegacyIdentifier::Device);
    cli.run_ok(&format!("group join {} {WALLET}", school.invite("1"))).await;
    cli.check_refused(&device, "a member of members and of school, which are both called device").await;
    let both = ["members", "school"].map(|group| format!("--app app_forum --action a --group {group}"));
    let [first, second] = [proved(&mut cli, &both[0]).await.0, proved(&mut cli, &both[1]).await.0];
    assert_eq!(first["nullifier"], second["nullifier"], "one person in both groups");
    assert_ne!(first["merkle_root"], second["merkle_root"]);
    school.group().environment = Environment::Production;
    cli.run_ok(&format!("group replace school {WALLET}")).await;
    cli.run_ok(&device).await;
    let (_, body) = proved(&mut cli, "--app app_forum --group school").await;
    assert_eq!(body["environment"], "production");
}

// Over a bridge.

const REQUEST_ID: &str = "0123456789abcdef";
/// 32 bytes in Base64.
const KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";

/// A bridge with a request in front of a wallet's services.
struct Bridged {
    cli: WalletCli,
    request: Arc<Mutex<Value>>,
    answer: Arc<Mutex<Option<Value>>>,
}

impl Bridged {
    /// A wallet without an account.
    async fn start() -> Self {
        let request = Arc::new(Mutex::new(Value::Null));
        let answer = Arc::new(Mutex::new(None));
        let (asked, got) = (Arc::clone(&request), Arc::clone(&answer));
        let key = || RequestKey::from_base64(KEY).expect("a key");
        let cli = WalletCli::with_service(move |call, others| match call.path.as_str() {
            path if path == format!("/request/{REQUEST_ID}") => {
                let text = asked.lock().expect("no panic").to_string();
                CannedAnswer::ok(key().seal(text.as_bytes(), [9; 12]).expect("encrypted"))
            }
            path if path == format!("/response/{REQUEST_ID}") => {
                let message: Message = serde_json::from_value(call.body.clone()).expect("a message");
                let text = key().open(&message).expect("decrypted");
                *got.lock().expect("no panic") = Some(serde_json::from_slice(&text).expect("JSON"));
                CannedAnswer(201, None, String::new())
            }
            _ => others(),
        });
        let mut cli = cli.await;
        cli.run_ok(&format!("new {WALLET} --operator SERVICE")).await;
        Self { cli, request, answer }
    }

    /// Has the wallet answer a request. Returns its output or error, and what the application got.
    async fn answer_to(&mut self, request: &Value, words: &str) -> (Result<String, String>, Value) {
        *self.request.lock().expect("no panic") = request.clone();
        let key = KEY.replace('=', "%3D");
        let uri = format!("https://world.org/verify?t=wld&i={REQUEST_ID}&k={key}&b={}", self.cli.service);
        let printed = self.cli.run(&format!("answer {uri} --yes {words} {WALLET}")).await;
        (printed, self.answer.lock().expect("no panic").take().unwrap_or_default())
    }
}

/// A request of client kit 2 for a level.
fn legacy_request(action: &str, level: &str) -> Value {
    json!({"app_id": APP, "action": action, "verification_level": level, "signal": format!("{:#x}", hash_text("hello"))})
}

#[tokio::test]
async fn a_page_made_with_a_client_kit_gets_the_proof_of_a_member_without_an_account() {
    let service = GroupService::start("members").await;
    service.group().add_others(1);
    service.group().legacy_identifier = Some(LegacyIdentifier::Device);
    let mut bridged = Bridged::start().await;
    bridged.cli.run_ok(&format!("group join {} {WALLET}", service.invite("417"))).await;
    let (printed, answer) = bridged.answer_to(&legacy_request("post", "device"), "").await;
    let printed = printed.expect("answered");
    assert!(printed.contains("the answer would be a legacy proof of device, as a member of members\n"), "{printed}");
    assert!(printed.ends_with("answered with a legacy proof of device, as a member of members\n"), "{printed}");
    let (root, nullifier) = (&answer["merkle_root"], &answer["nullifier_hash"]);
    assert!(holds(&answer["proof"], root, nullifier, hash_text("hello"), external_nullifier(APP, "post")));
    assert_eq!(
        (&answer["verification_level"], answer.as_object().map(serde_json::Map::len)),
        (&"device".into(), Some(4))
    );
    assert_eq!(*root, format!("{:#066x}", service.group().root(None).to_number()));
    // A request that accepts a legacy proof and names the group among its credentials.
    let recorded = recorded_request();
    let mut by_id = recorded.clone();
    by_id["proof_request"]["proof_requests"][0]["identifier"] = "members".into();
    bridged.cli.set_now(by_id["proof_request"]["created_at"].as_u64().expect("a time"));
    let (printed, answer) = bridged.answer_to(&by_id, "").await;
    printed.expect("answered");
    assert_eq!(answer["verification_level"], "device");

    service.group().take_roll("assembly", external_nullifier(APP, "board"));
    let link = service.invite("417");
    bridged.cli.run_ok(&format!("group replace members {link} --new-secret {WALLET}")).await;
    let no_presence = {
        let mut request = legacy_request("post", "device");
        request["require_user_presence"] = true.into();
        request
    };
    #[rustfmt::skip]
    let table = [
        // Not on the roll.
        (legacy_request("board", "device"), "", "credential_unavailable", "the roll assembly"),
        // No group is asked for, and there is no account.
        (legacy_request("post", "orb"), "", "credential_unavailable", "authenticator of an account"),
        (legacy_request("post", "orb"), "--group members", "credential_unavailable", "does not ask for a proof of a member of members"),
        (legacy_request("post", "device"), "--credential orb", "credential_unavailable", "authenticator of an account"),
        (no_presence, "", "user_presence_failed", "a person be present"),
        // Another environment than that of the group.
        (json!({"app_id": "app_1", "action": "post", "verification_level": "device"}), "", "credential_unavailable", "authenticator of an account"),
        // Statements that no page gets.
        (legacy_request("", "device"), "", "feature_unavailable", "asks for the statement that signs in"),
        (link_proof_request(&recorded), "", "feature_unavailable", "joins the group members"),
    ];
    for (request, words, code, sentence) in table {
        let (printed, answer) = bridged.answer_to(&request, words).await;
        let error = printed.expect_err(sentence);
        assert!(error.contains(sentence), "{error:?} should contain {sentence:?}");
        let of_kit_2 = if request["proof_request"].is_null() { early_code(code) } else { code };
        assert_eq!(answer, json!({"error_code": of_kit_2}), "{request} {words}");
    }
    service.group().remove("417");
    let (printed, answer) = bridged.answer_to(&legacy_request("post", "device"), "").await;
    assert!(printed.expect_err("removed").contains("is not in the group members any more"));
    assert_eq!(answer, json!({"error_code": early_code("credential_unavailable")}));
    let (printed, _) = bridged.answer_to(&legacy_request("post", "device"), "--group others").await;
    assert!(printed.expect_err("no member").contains("not a member of the group others"));
}

/// The code that client kits 1 and 2 know in place of another.
fn early_code(code: &str) -> &str {
    match code {
        "user_presence_failed" | "feature_unavailable" => "generic_error",
        code => code,
    }
}

/// A request of client kit 4 for a current proof, or a legacy one.
fn recorded_request() -> Value {
    let file: Value = serde_json::from_str(include_str!("../../vectors/bridge_requests.json")).expect("JSON");
    let vectors = file["vectors"].as_array().expect("a list");
    let found =
        vectors.iter().find(|vector| vector["name"] == "a proof of human, or a legacy proof").expect("a vector");
    serde_json::from_str(found["text"].as_str().expect("text")).expect("JSON")
}

/// The same for an action whose hash is the external nullifier of the group's link proofs.
fn link_proof_request(recorded: &Value) -> Value {
    let bytes = [b"selfsame group enrolment\0".as_slice(), &[7; 32]].concat();
    let mut request = recorded.clone();
    let text = format!("0x{}", hex::encode(bytes));
    request["proof_request"]["action"] = format!("{:#066x}", hash_text(&text)).into();
    request["action"] = text.into();
    request
}

/// A service, or a proxy in front of it, closes idle connections while the wallet makes a proof.
#[tokio::test]
async fn no_request_is_sent_on_a_connection_that_the_service_may_have_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npage").await;
                // A second request on this connection has no answer.
                let _ = stream.read(&mut request).await;
            });
        }
    });
    let client = GroupClient::new(&url).expect("a client");
    let root = FieldNumber(U256::from(7));
    for _ in 0..3 {
        let page = client.page(&"members".parse().expect("an id"), root).await;
        assert_eq!(page.expect("a page"), b"page");
    }
}
