//! The wallet interface, as wallets of members call it: groups and their pages, enrolment with its
//! refusals in their order, sealed copies; and what the log says of all that.

use std::time::Duration;

use alloy_primitives::hex;
use reqwest::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, WWW_AUTHENTICATE};
use reqwest::{Method, RequestBuilder};
use selfsame::config::Config;
use selfsame_actors::{Random as _, SystemRandom};
use selfsame_interfaces::interface::Interface;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::names::{SealedHandle, SecretHash};
use selfsame_protocol::groups::wire::GroupResponse;
use selfsame_wallet::member::{Member, NextSecret};
use serde_json::{Value, json};

use crate::harness::{Folder, TestDaemon, folder, operator_token};
use crate::logs::LoggingDaemon;

/// The groups of the tests.
pub fn two_groups(config: &mut Config) {
    let groups = json!([
        {"id": "members", "name": "Members of the cooperative", "environment": "staging"},
        {"id": "school", "name": "The school", "environment": "production", "link_days": 2},
    ]);
    config.groups = serde_json::from_value(groups).expect("groups");
}

const DAY: Duration = Duration::from_secs(86_400);

/// A daemon with groups, a client of its wallet interface, and the operator who invites.
struct WalletClient {
    daemon: TestDaemon,
    http: reqwest::Client,
    folder: Folder,
}

/// Status, headers and body of an answer; a body that is not JSON is null.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    bytes: Vec<u8>,
    body: Value,
}

/// A part of the text of each refusal. Those of `bad_request` name the field.
const TEXTS: [(&str, &str); 20] = [
    ("unknown_group", "GET /groups lists them"),
    ("unknown_page", "neither a live root nor a roll has this page; read the group again"),
    ("unknown_code", "a newer link may have ended it: use the newest one"),
    ("code_expired", "the link was good until "),
    ("code_used", "the link was used; ask for a new one"),
    ("use_replace", "make the statement \"replace\" with the same code"),
    ("use_join", "make the statement \"join\" with the same code"),
    ("commitment_invalid", "commitment: is "),
    ("link_proof_invalid", "the link proof does not hold for this commitment, group, act and token"),
    ("enrolled_under_another_number", "enrolled in the group under another member number"),
    ("not_a_member", "no member has this enrolment nullifier and this leaf now; ask for a new link"),
    ("replacement_secret_wrong", "the replacement secret is not the present one"),
    ("replaced_today", "the leaf was replaced today already; try again tomorrow"),
    ("copy_missing", "there is no sealed copy with this handle; make it before"),
    ("write_key_wrong", "the write key is not the copy's"),
    ("permit_invalid", "a new copy needs permit: an open code of a group"),
    ("handle_taken", "another copy has one of these handles"),
    ("version_mismatch", "read it again and change that version"),
    ("precondition_required", "send If-None-Match: * for a new copy"),
    ("sealed_too_large", "a copy has at most 32768 digits in sealed, and 16 slots"),
];

impl Answer {
    /// Status and code of a refusal, whose text is that of the code.
    fn refusal(&self) -> (u16, &str) {
        let [code, message] = ["code", "message"].map(|name| self.body[name].as_str().unwrap_or_default());
        if let Some((_, text)) = TEXTS.iter().find(|(of, _)| *of == code) {
            assert!(message.contains(text), "{code}: {message}");
        }
        (self.status, code)
    }

    fn header(&self, name: reqwest::header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

fn random(bytes: &mut [u8; 32]) {
    SystemRandom.fill(bytes);
}

fn random_hex(count: usize) -> String {
    let mut bytes = vec![0; count];
    SystemRandom.fill(&mut bytes);
    hex::encode(bytes)
}

/// The code in the fragment of a link.
fn code_of(link: &str) -> Code {
    Code::read_wire(link.rsplit('.').next().unwrap_or_default()).expect("a code")
}

impl WalletClient {
    async fn start() -> Self {
        Self::start_with(two_groups).await
    }

    async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let daemon = TestDaemon::start_with(folder.path(), change).await;
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { daemon, http, folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.daemon.addresses[Interface::Wallet])
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = request.send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        assert!(headers.contains_key("x-request-id") && !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
        let bytes = answer.bytes().await.expect("a body").to_vec();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status >= 400 {
            assert_eq!(headers[CACHE_CONTROL], "no-store", "{body}");
            assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()), "{status} {body}");
        }
        Answer { status, headers, bytes, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: impl serde::Serialize) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// Calls the operator interface with the operator's token.
    async fn operator(&self, path: &str, body: Value) -> Answer {
        let token = operator_token(self.folder.path());
        self.send(self.http.post(self.daemon.operator(path)).bearer_auth(token).json(&body)).await
    }

    /// A new link for a member number.
    async fn invite(&self, group: &str, number: &str) -> String {
        let path = format!("/groups/{group}/invitations");
        let invited = self.operator(&path, json!({"members": [number], "for": "all"})).await;
        assert_eq!(invited.status, 200, "{invited:?}");
        invited.body["invitations"][0]["link"].as_str().expect("a link").to_owned()
    }

    async fn group(&self, id: &str) -> GroupResponse {
        serde_json::from_value(self.get(&format!("/groups/{id}")).await.body).expect("a group")
    }

    /// A person with a secret, who has not joined.
    async fn person(&self, group: &str) -> Member {
        Member::new(&self.group(group).await, &self.url(""), &mut random)
    }

    /// Joins as a member number.
    async fn join(&self, group: &str, number: &str) -> Member {
        let mut member = self.person(group).await;
        let code = code_of(&self.invite(group, number).await);
        let joined = self.post(&format!("/groups/{group}/join"), member.join(&code).expect("a proof")).await;
        assert_eq!(joined.status, 200, "{joined:?}");
        member.enrolled(joined.body["position"].as_u64().expect("a position") as u32);
        member
    }

    async fn stop(self) {
        self.daemon.stop().await;
    }
}

#[tokio::test]
async fn a_daemon_without_groups_lists_none_and_refuses_the_rest() {
    let client = WalletClient::start_with(|_| {}).await;
    assert_eq!((client.get("/health").await.status, client.get("/openapi.json").await.status), (200, 200));
    let groups = client.get("/groups").await;
    assert_eq!((groups.status, groups.body), (200, json!({"groups": []})));
    let root = format!("0x{:064x}", 1);
    for path in ["/groups/members", "/groups/NO", "/groups/%ff%fe", &format!("/groups/members/pages/{root}")] {
        let refusal = client.get(path).await;
        assert!(matches!(refusal.refusal(), (404, "unknown_group") | (400, "bad_request")), "{path}: {refusal:?}");
    }
    assert_eq!(client.get("/groups/members").await.refusal(), (404, "unknown_group"));
    assert_eq!(client.get(&format!("/sealed/{}", "0".repeat(64))).await.refusal(), (404, "not_found"));
    assert_eq!(client.get("/nothing").await.refusal(), (404, "not_found"));
    let deleted = client.send(client.request(Method::DELETE, "/groups")).await;
    assert_eq!((deleted.refusal(), &deleted.headers["allow"]), ((405, "bad_request"), &"GET, HEAD".parse().unwrap()));
    // No page of another origin calls the interface.
    let preflight = client.request(Method::OPTIONS, "/groups").header("origin", "https://elsewhere.example");
    assert_eq!(client.send(preflight).await.status, 405);
    client.stop().await;
}

#[tokio::test]
async fn a_group_is_read_as_one_moment_and_again_only_after_a_change() {
    let client = WalletClient::start().await;
    let groups = client.get("/groups").await.body;
    let expected = json!({"groups": [
        {"id": "members", "name": "Members of the cooperative"}, {"id": "school", "name": "The school"},
    ]});
    assert_eq!(groups, expected);

    let before = client.get("/groups/members").await;
    let tag = before.header(ETAG).to_owned();
    assert_eq!((before.status, before.header(CACHE_CONTROL)), (200, "no-cache"));
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let empty: GroupResponse = serde_json::from_value(before.body.clone()).expect("a group");
    assert_eq!((empty.size, empty.members, empty.version, empty.page_roots.len()), (0, 0, 0, 0));
    assert_eq!(before.body["legacy_identifier"], Value::Null);
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let again = client.send(client.request(Method::GET, "/groups/members").header("if-none-match", &known)).await;
        assert_eq!((again.status, again.bytes.len(), again.header(ETAG)), (304, 0, &*tag), "{known}");
    }

    let member = client.join("members", "417").await;
    let after = client.send(client.request(Method::GET, "/groups/members").header("if-none-match", &tag)).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header(ETAG), tag);
    let group: GroupResponse = serde_json::from_value(after.body).expect("a group");
    assert_eq!((group.size, group.members, group.version, group.page_roots.len()), (1, 1, 1, 1));
    assert_ne!(group.root, empty.root);
    assert_eq!(client.group("school").await.size, 0, "another group");

    let path = format!("/groups/members/pages/{}", group.page_roots[0]);
    let page = client.get(&path).await;
    assert_eq!((page.status, page.bytes.len()), (200, 32_768));
    assert_eq!(page.header(CONTENT_TYPE), "application/octet-stream");
    assert_eq!(page.header(CACHE_CONTROL), "public, max-age=31536000, immutable");
    assert_eq!(page.bytes[..32], member.commitment().to_bytes());
    assert!(page.bytes[32..].iter().all(|byte| *byte == 0));

    // The page stays while a root that counts has it.
    client.join("members", "418").await;
    assert_eq!(client.get(&path).await.bytes, page.bytes);
    assert_eq!(client.get(&path.replace("members", "school")).await.refusal(), (404, "unknown_page"));
    assert_eq!(client.get(&path.replace("members", "nobody")).await.refusal(), (404, "unknown_group"));
    let other = format!("/groups/members/pages/0x{:064x}", 7);
    assert_eq!(client.get(&other).await.refusal(), (404, "unknown_page"));
    for malformed in ["7", "0x7", &"0".repeat(64), &format!("0x{}", "F".repeat(64)), &format!("0x{}", "f".repeat(64))] {
        let refused = client.get(&format!("/groups/members/pages/{malformed}")).await;
        assert_eq!(refused.refusal(), (400, "bad_request"), "{malformed}");
    }
    client.stop().await;
}

/// Sends a request with one field changed.
async fn changed(client: &WalletClient, path: &str, body: &Value, field: &str, value: Value) -> (u16, String) {
    let mut body = body.clone();
    body[field] = value;
    let refused = client.post(path, body).await;
    let (status, code) = refused.refusal();
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_a_joining_is_answered_before_those_behind_it() {
    let client = WalletClient::start().await;
    let (mut anna, ben) = (client.person("members").await, client.person("members").await);
    let code = code_of(&client.invite("members", "417").await);
    let good = serde_json::to_value(anna.join(&code).expect("a proof")).expect("JSON");
    let zero = json!(format!("0x{:064x}", 0));
    let join = "/groups/members/join";
    let refusal = |status: u16, code: &str| (status, code.to_owned());

    // The form comes before the group, the group before the code.
    for (field, value) in [
        ("code", json!("0123")),
        ("code", json!(code.to_printed())),
        ("code", json!(good["code"].as_str().expect("a code").to_lowercase())),
        ("commitment", json!("0x1")),
        ("commitment", json!(1)),
        ("nullifier", json!(format!("0x{}", "f".repeat(64)))),
        ("proof", json!("0x")),
        ("proof", json!(good["proof"].as_str().expect("a proof").to_uppercase())),
        ("replacement_hash", json!(format!("0x{}", "0".repeat(64)))),
        ("copy", json!("0")),
    ] {
        let found = changed(&client, "/groups/nobody/join", &good, field, value.clone()).await;
        assert_eq!(found, refusal(400, "bad_request"), "{field} {value}");
    }
    for field in ["code", "commitment", "nullifier", "proof", "replacement_hash"] {
        let mut body = good.clone();
        body.as_object_mut().expect("an object").remove(field);
        assert_eq!(client.post(join, body).await.refusal(), (400, "bad_request"), "{field}");
    }
    assert_eq!(client.post("/groups/nobody/join", &good).await.refusal(), (404, "unknown_group"));
    let no_json = client.request(Method::POST, join).header(CONTENT_TYPE, "text/plain").body(good.to_string());
    assert_eq!(client.send(no_json).await.refusal(), (415, "bad_request"));
    let long = client.request(Method::POST, join).header(CONTENT_TYPE, "application/json").body("x".repeat(9000));
    assert_eq!(client.send(long).await.refusal(), (413, "bad_request"));

    // The code comes before the commitment, the commitment before the proof.
    let unknown = json!(Code::from_random_bytes([7; 17]).to_wire());
    let mut body = good.clone();
    body["commitment"] = zero.clone();
    assert_eq!(changed(&client, join, &body, "code", unknown).await, refusal(403, "unknown_code"));
    let of_school = json!(code_of(&client.invite("school", "417").await).to_wire());
    assert_eq!(changed(&client, join, &good, "code", of_school).await, refusal(403, "unknown_code"));
    assert_eq!(client.post("/groups/members/replace", &body).await.refusal(), (409, "use_join"));
    for commitment in [zero, json!("0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001")] {
        body["commitment"] = commitment.clone();
        assert_eq!(client.post(join, &body).await.refusal(), (400, "commitment_invalid"), "{commitment}");
    }
    let of_ben = serde_json::to_value(ben.join(&code).expect("a proof")).expect("JSON");
    for field in ["commitment", "nullifier", "proof"] {
        let found = changed(&client, join, &good, field, of_ben[field].clone()).await;
        assert_eq!(found, refusal(403, "link_proof_invalid"), "{field}");
    }

    // Nothing of all that has used the code up; the same request again is answered as before.
    let missing = changed(&client, join, &good, "copy", json!(random_hex(32))).await;
    assert_eq!(missing, refusal(409, "copy_missing"));
    let joined = client.post(join, &good).await;
    assert_eq!((joined.status, &joined.body), (200, &json!({"position": 0, "version": 1})));
    anna.enrolled(0);
    assert_eq!(client.post(join, &good).await.body, joined.body);
    let used = client.post(join, &of_ben).await;
    assert_eq!(used.refusal(), (409, "code_used"));

    // A member needs the other statement; one person has one number.
    let again = code_of(&client.invite("members", "417").await);
    let joining = serde_json::to_value(anna.join(&again).expect("a proof")).expect("JSON");
    assert_eq!(client.post(join, &joining).await.refusal(), (409, "use_replace"));
    let other = code_of(&client.invite("members", "418").await);
    let twice = anna.join(&other).expect("a proof");
    assert_eq!(client.post(join, &twice).await.refusal(), (409, "enrolled_under_another_number"));

    // A newer link ends the older, and the last day is over at its end.
    let old = code_of(&client.invite("school", "9").await);
    let mut carl = client.person("school").await;
    let late = carl.join(&old).expect("a proof");
    client.invite("school", "9").await;
    assert_eq!(client.post("/groups/school/join", &late).await.refusal(), (403, "unknown_code"));
    let newest = code_of(&client.invite("school", "9").await);
    let late = carl.join(&newest).expect("a proof");
    client.daemon.clock.advance(3 * DAY);
    assert_eq!(client.post("/groups/school/join", &late).await.refusal(), (410, "code_expired"));
    let newest = code_of(&client.invite("school", "9").await);
    let joined = client.post("/groups/school/join", carl.join(&newest).expect("a proof")).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    carl.enrolled(0);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_and_leaving_need_the_secret_and_the_proof() {
    let client = WalletClient::start().await;
    let (replace, leave) = ("/groups/members/replace", "/groups/members/leave");
    let mut anna = client.join("members", "417").await;
    let stranger = {
        let mut stranger = client.person("members").await;
        stranger.begin_replacement(NextSecret::Same, &mut random).expect("a leaf");
        stranger
    };
    assert_eq!(client.post(replace, stranger.replace(None).expect("a proof")).await.refusal(), (404, "not_a_member"));
    assert_eq!(client.post(leave, stranger.leave().expect("a proof")).await.refusal(), (404, "not_a_member"));

    anna.begin_replacement(NextSecret::Same, &mut random).expect("a leaf");
    let good = serde_json::to_value(anna.replace(None).expect("a proof")).expect("JSON");
    let mut both = good.clone();
    both["code"] = json!(Code::from_random_bytes([7; 17]).to_wire());
    assert_eq!(client.post(replace, &both).await.refusal(), (400, "bad_request"));
    both.as_object_mut().expect("an object").remove("code");
    both.as_object_mut().expect("an object").remove("replacement_secret");
    assert_eq!(client.post(replace, &both).await.refusal(), (400, "bad_request"));
    // The proof is for the secret that was sent, so another one needs another proof.
    let mut thief = anna.clone();
    random(&mut thief.leaf.replacement_secret.0);
    let wrong = thief.replace(None).expect("a proof");
    assert_eq!(client.post(replace, &wrong).await.refusal(), (403, "replacement_secret_wrong"));
    assert_eq!(client.post(leave, thief.leave().expect("a proof")).await.refusal(), (403, "replacement_secret_wrong"));

    let replaced = client.post(replace, &good).await;
    assert_eq!((replaced.status, &replaced.body), (200, &json!({"position": 0, "version": 2})));
    assert_eq!(client.post(replace, &good).await.body, replaced.body, "the same request again");
    let old = anna.leave().expect("a proof");
    anna.enrolled(0);
    anna.begin_replacement(NextSecret::Same, &mut random).expect("a leaf");
    let second = anna.replace(None).expect("a proof");
    let refused = client.post(replace, &second).await;
    assert_eq!(refused.refusal(), (429, "replaced_today"));
    // The old leaf and the old secret leave no more.
    assert!(matches!(client.post(leave, &old).await.refusal(), (403 | 404, _)));
    client.daemon.clock.advance(DAY);
    assert_eq!(client.post(replace, &second).await.status, 200);
    anna.enrolled(0);

    let request = anna.leave().expect("a proof");
    for _ in 0..2 {
        let left = client.post(leave, &request).await;
        assert_eq!((left.status, &left.body), (202, &json!({})));
    }
    // Coming back is a link for the same number, with the next leaf of the same secret.
    anna.begin_replacement(NextSecret::Same, &mut random).expect("a leaf");
    let code = code_of(&client.invite("members", "417").await);
    let back = client.post("/groups/members/join", anna.join(&code).expect("a proof")).await;
    assert_eq!((back.status, &back.body["position"]), (200, &json!(0)), "{back:?}");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_joinings_use_an_invitation_once() {
    let client = WalletClient::start().await;
    let code = code_of(&client.invite("members", "417").await);
    let mut requests = Vec::new();
    for _ in 0..4 {
        requests.push(client.person("members").await.join(&code).expect("a proof"));
    }
    let answers = requests.iter().map(|request| client.post("/groups/members/join", request));
    let answers = futures_util::future::join_all(answers).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    let refused = answers.iter().filter(|answer| answer.refusal() == (409, "code_used")).count();
    assert_eq!((won, refused), (1, 3), "{answers:?}");
    let group = client.group("members").await;
    assert_eq!((group.size, group.members), (1, 1));
    client.stop().await;
}

/// A copy with this text.
fn copy(handles: &[&str], write_key: &str, sealed: &str) -> Value {
    let hash = SecretHash::of(&hex::decode(write_key).expect("hex")).to_string();
    let slot = json!({"kind": "passkey", "iv": "0".repeat(24), "key": "0".repeat(96)});
    json!({
        "iv": "1".repeat(24), "sealed": sealed, "slots": [slot], "handles": handles, "write_key_hash": hash,
        "unknown": "is ignored",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sealed_copy_lives_from_its_permit_to_its_end() {
    let client = WalletClient::start_with(|config| {
        two_groups(config);
        // With --dev no permit is needed; this daemon is for others.
        config.dev = false;
    })
    .await;
    let code = code_of(&client.invite("members", "417").await).to_wire();
    let (handle, second, key) = (random_hex(32), random_hex(32), random_hex(32));
    let path = format!("/sealed/{handle}");
    let put = |path: &str, body: &Value| client.request(Method::PUT, path).json(body);
    let sealed = "ab".repeat(40);
    let mut first = copy(&[&handle, &second], &key, &sealed);

    assert_eq!(client.get(&path).await.refusal(), (404, "not_found"));
    assert_eq!(client.get(&path.to_uppercase().replace("/SEALED", "/sealed")).await.refusal().0 / 100, 4);
    assert_eq!(client.get("/sealed/00").await.refusal(), (400, "bad_request"));
    assert_eq!(client.send(put(&path, &first)).await.refusal(), (428, "precondition_required"));
    let new = |body: &Value| put(&path, body).header("if-none-match", "*");
    assert_eq!(client.send(new(&first)).await.refusal(), (403, "permit_invalid"), "no permit");
    let both = new(&first).header("if-match", "\"1\"");
    assert_eq!(client.send(both).await.refusal(), (400, "bad_request"));
    first["permit"] = json!({"group": "school", "code": code});
    assert_eq!(client.send(new(&first)).await.refusal(), (403, "permit_invalid"), "a code of another group");
    first["permit"] = json!({"group": "members", "code": code});
    for (field, value) in [
        ("iv", json!("00")),
        ("sealed", json!("00")),
        ("sealed", json!("xyz")),
        ("slots", json!([])),
        ("handles", json!([random_hex(32)])),
        ("handles", json!([handle, handle])),
        ("handles", json!([])),
        ("write_key_hash", json!("")),
        ("permit", json!({"group": "members"})),
    ] {
        let mut body = first.clone();
        body[field] = value.clone();
        assert_eq!(client.send(new(&body)).await.refusal(), (400, "bad_request"), "{field} {value}");
    }
    for length in [32_770, 70_000] {
        let mut body = first.clone();
        body["sealed"] = json!("0".repeat(length));
        assert_eq!(client.send(new(&body)).await.refusal(), (413, "sealed_too_large"), "{length}");
    }
    let mut body = first.clone();
    body["slots"] = json!(vec![body["slots"][0].clone(); 17]);
    assert_eq!(client.send(new(&body)).await.refusal(), (413, "sealed_too_large"));

    let made = client.send(new(&first)).await;
    assert_eq!((made.status, &made.body, made.header(ETAG)), (201, &json!({"version": 1}), "\"1\""));
    assert_eq!(made.header(CACHE_CONTROL), "no-store");
    for handle in [&handle, &second] {
        let read = client.get(&format!("/sealed/{handle}")).await;
        assert_eq!((read.status, read.header(ETAG), read.header(CACHE_CONTROL)), (200, "\"1\"", "no-store"));
        let expected = json!({"version": 1, "iv": first["iv"], "sealed": sealed, "slots": first["slots"]});
        assert_eq!(read.body, expected, "nothing else is shown");
    }

    // A copy of somebody else does not take the handle.
    let other = code_of(&client.invite("members", "418").await).to_wire();
    let mut taken = copy(&[&second], &random_hex(32), &sealed);
    taken["permit"] = json!({"group": "members", "code": other});
    let taken = put(&format!("/sealed/{second}"), &taken).header("if-none-match", "*");
    assert_eq!(client.send(taken).await.refusal(), (409, "handle_taken"));

    let next_key = random_hex(32);
    let later = copy(&[&handle], &next_key, &"cd".repeat(40));
    let change = |version: &str, key: Option<&str>| {
        let request = put(&path, &later).header("if-match", version);
        if let Some(key) = key { request.bearer_auth(key) } else { request }
    };
    let missing = client.send(change("\"1\"", None)).await;
    assert_eq!((missing.refusal(), missing.header(WWW_AUTHENTICATE)), ((401, "unauthorized"), "Bearer"));
    assert_eq!(client.send(change("\"1\"", Some("short"))).await.refusal(), (401, "unauthorized"));
    assert_eq!(client.send(change("\"1\"", Some(&next_key))).await.refusal(), (403, "write_key_wrong"));
    assert_eq!(client.send(change("\"2\"", Some(&key))).await.refusal(), (412, "version_mismatch"));
    assert_eq!(client.send(change("1", Some(&key))).await.refusal(), (400, "bad_request"));
    assert_eq!(client.send(change("1", None)).await.refusal(), (401, "unauthorized"), "the key comes first");
    let written = client.send(change("\"1\"", Some(&key))).await;
    assert_eq!((written.status, &written.body, written.header(ETAG)), (200, &json!({"version": 2}), "\"2\""));
    assert_eq!(client.send(change("\"2\"", Some(&key))).await.refusal(), (403, "write_key_wrong"), "the old key");
    assert_eq!(client.get(&format!("/sealed/{second}")).await.refusal(), (404, "not_found"), "the handle was given up");

    let delete = |version: Option<&str>, key: &str| {
        let request = client.request(Method::DELETE, &path).bearer_auth(key);
        if let Some(version) = version { request.header("if-match", version) } else { request }
    };
    assert_eq!(client.send(delete(None, &next_key)).await.refusal(), (428, "precondition_required"));
    assert_eq!(client.send(delete(Some("\"1\""), &next_key)).await.refusal(), (412, "version_mismatch"));
    assert_eq!(client.send(delete(Some("\"2\""), &key)).await.refusal(), (403, "write_key_wrong"));
    let deleted = client.send(delete(Some("\"2\""), &next_key)).await;
    assert_eq!((deleted.status, deleted.bytes.len()), (204, 0));
    assert_eq!(client.send(delete(Some("\"2\""), &next_key)).await.refusal(), (404, "not_found"));
    assert_eq!(client.get(&path).await.refusal(), (404, "not_found"));
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joining_keeps_the_copy_that_it_names() {
    let client = WalletClient::start().await;
    let code = code_of(&client.invite("members", "417").await);
    let mut handle = SealedHandle([0; 32]);
    SystemRandom.fill(&mut handle.0);
    let path = format!("/sealed/{handle}");
    let body = copy(&[&handle.to_string()], &random_hex(32), &"ab".repeat(40));
    let made = client.send(client.request(Method::PUT, &path).header("if-none-match", "*").json(&body)).await;
    assert_eq!(made.status, 201, "no permit is needed with --dev: {made:?}");
    let mut request = client.person("members").await.join(&code).expect("a proof");
    request.copy = Some(SecretHash::of(&handle.0));
    assert_eq!(client.post("/groups/members/join", &request).await.status, 200);
    assert_eq!(client.get(&path).await.status, 200);
    client.stop().await;
}

#[tokio::test]
async fn a_source_joins_and_writes_copies_as_often_as_its_limit_allows() {
    let client = WalletClient::start_with(|config| {
        two_groups(config);
        let limit = json!({"requests": 3, "window": "1h"});
        config.limits.groups_per_source = serde_json::from_value(limit).expect("a limit");
    })
    .await;
    let code = Code::from_random_bytes([7; 17]);
    let request = client.person("members").await.join(&code).expect("a proof");
    let mut refusals = Vec::new();
    for _ in 0..4 {
        let refused = client.post("/groups/members/join", &request).await;
        refusals.push((refused.refusal().0, refused.headers.contains_key("retry-after")));
    }
    assert_eq!(refusals, [(403, false), (403, false), (403, false), (429, true)]);
    assert_eq!(client.get("/groups/members").await.status, 200, "reading has no such limit");
    client.stop().await;
}

/// Who reads the log learns neither where a member is nor what was fetched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_line_about_the_wallet_interface_names_a_source_a_handle_or_a_page() {
    let variables = [("SELFSAME_LOG__ACCESS", "address"), ("RUST_LOG", "debug")];
    let daemon = LoggingDaemon::start(&variables);
    let http = reqwest::Client::new();
    let url = daemon.process.wallet.clone();
    let (handle, root) = (random_hex(32), format!("0x0{}", &random_hex(32)[1..]));
    let paths = [format!("/sealed/{handle}"), format!("/groups/members/pages/{root}"), format!("/none/{handle}")];
    for path in &paths {
        let answer = http.get(format!("{url}{path}")).header("x-request-id", "about-wallet").send().await;
        assert_eq!(answer.expect("an answer").status(), 404, "{path}");
    }
    let body = copy(&[&handle], &random_hex(32), &"ab".repeat(40));
    let put = http.put(format!("{url}/sealed/{handle}")).header("if-none-match", "*").json(&body);
    let status = put.header("x-request-id", "about-wallet").send().await.expect("an answer").status();
    assert!(status.is_success() || status.is_client_error(), "{status}");
    let elsewhere = http.get(format!("{}/config", daemon.process.gateway)).header("x-request-id", "about-gateway");
    assert_eq!(elsewhere.send().await.expect("an answer").status(), 200);
    let lines = daemon.end();
    let of = |id: &str| {
        let lines = lines.iter().filter(|line| line.to_string().contains(id));
        lines.cloned().collect::<Vec<Value>>()
    };
    let (wallet, gateway) = (of("about-wallet"), of("about-gateway"));
    assert!(gateway.iter().any(|line| line["fields"]["source"] == "127.0.0.1"), "{gateway:#?}");
    assert!(wallet.iter().filter(|line| line["target"] == "access").count() >= 4, "{wallet:#?}");
    for line in &wallet {
        assert!(line["fields"].get("source").is_none(), "{line:#}");
        assert!(!line.to_string().contains("127.0.0.1"), "{line:#}");
    }
    for line in &lines {
        let text = line.to_string();
        assert!(!text.contains(&handle) && !text.contains(&root), "{line:#}");
    }
}

/// At the default address, which another program has, a daemon without groups does without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_groups_goes_on_when_the_default_address_is_taken() {
    let (folder, log) = (folder(), folder());
    let log = log.path().join("log");
    let _alone = crate::harness::exclusive("default-address-of-the-wallet-interface");
    let _taken = std::net::TcpListener::bind("127.0.0.1:8086");
    let variables = [("SELFSAME_LISTEN__WALLET", "127.0.0.1:8086")];
    let output = std::fs::File::create(&log).expect("a file");
    let daemon = crate::harness::DaemonProcess::start_with_log(folder.path(), &[], &variables, output.into());
    assert!(daemon.client().root().await.is_ok(), "the other interfaces are served");
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("the wallet interface is not served"), "{log}");
    drop(daemon);
    let error = TestDaemon::start_error(folder.path(), |config| {
        two_groups(config);
        config.listen[Interface::Wallet] = "127.0.0.1:8086".parse().expect("an address");
    })
    .await;
    assert!(error.contains("listen.wallet: cannot listen on"), "{error}");
}
