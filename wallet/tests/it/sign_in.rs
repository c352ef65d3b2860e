//! `wallet sign-in` with every kind of link, and an issuer with canned answers.

use std::sync::{Arc, Mutex, OnceLock};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use selfsame_protocol::verification::LegacyIdentifier;
use selfsame_protocol::verification::identity::{external_nullifier, hash_text};
use serde_json::{Value, json};

use crate::commands::{APP, WalletCli};
use crate::group_service::{GroupService, holds};
use crate::server::CannedAnswer;

const SHORT_ID: &str = "abcdefghijkl2347";

/// An issuer with one sign-in, in front of a registry and a simulator.
struct Issuer {
    cli: WalletCli,
    /// The answers to the wallet that were posted.
    posted: Arc<Mutex<Vec<Value>>>,
    /// Members of the proof request, in place of the usual ones or beside them.
    members: Arc<Mutex<Value>>,
}

impl Issuer {
    /// An issuer that answers a proof with `accepted`. In the texts `SERVICE` stands for its
    /// address. Its short page answers a program with `short`.
    async fn start(short: CannedAnswer, accepted: Value) -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let document = document.expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).expect("a key");
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let jwks = json!({"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "k", "x": coordinate(x),
            "y": coordinate(y)}]});
        let key = EncodingKey::from_ec_der(document.as_ref());
        let own_address: Arc<OnceLock<String>> = Arc::default();
        let posted: Arc<Mutex<Vec<Value>>> = Arc::default();
        let members = Arc::new(Mutex::new(json!({})));
        let (address, received) = (Arc::clone(&own_address), Arc::clone(&posted));
        let asked = Arc::clone(&members);
        let cli = WalletCli::with_service(move |request, others| {
            let address = address.get().map_or("", String::as_str);
            let here = |text: &str| text.replace("SERVICE", address);
            let path = request.path.split('?').next().expect("a path");
            match path {
                "/jwks" => CannedAnswer::ok(&jwks),
                "/authorize" => CannedAnswer::ok(json!({"request_url": format!("{address}/authorize/t/request"),
                    "secret": "s"})),
                "/authorize/t/request" => {
                    let mut forms = proof_request(address);
                    let asked = asked.lock().expect("no panic").as_object().expect("an object").clone();
                    forms.as_object_mut().expect("an object").extend(asked);
                    let header = Header {
                        typ: Some("selfsame-request+jwt".to_owned()),
                        kid: Some("k".to_owned()),
                        ..Header::new(Algorithm::ES256)
                    };
                    let mut claims = forms.clone();
                    claims["iss"] = address.into();
                    forms["request"] = jsonwebtoken::encode(&header, &claims, &key).expect("signed").into();
                    forms["answered"] = false.into();
                    CannedAnswer::ok(forms)
                }
                "/authorize/t/proof" => {
                    received.lock().expect("no panic").push(request.body.clone());
                    CannedAnswer(200, None, here(&accepted.to_string()))
                }
                "/authorize/t/complete" => CannedAnswer::ok(json!({"action": request.path, "fields": {}})),
                path if path == format!("/s/{SHORT_ID}") => CannedAnswer(short.0, short.1, here(&short.2)),
                _ => others(),
            }
        });
        let mut cli = cli.await;
        own_address.set(cli.service.clone()).expect("set once");
        cli.run_ok("new --wallet {own} --operator SERVICE").await;
        cli.run_ok("create-account --wallet {own}").await;
        Self { cli, posted, members }
    }

    /// Has the wallet answer a proof request with these members, and returns the answer that was
    /// posted, without the members on the way of the answer.
    async fn answer_to(&mut self, members: Value, options: &str) -> Value {
        *self.members.lock().expect("no panic") = members;
        self.cli.run_ok(&format!("sign-in SERVICE/authorize/t/request --yes {options}")).await;
        let mut body = self.posted.lock().expect("no panic").pop().expect("an answer");
        assert_eq!(body.as_object_mut().expect("an object").remove("mode"), Some(json!("cross_device")));
        body
    }

    /// Checks that the wallet answers a proof request with these members with nothing.
    async fn check_unanswered(&mut self, members: Value, options: &str, reason: &str) {
        *self.members.lock().expect("no panic") = members;
        let line = format!("sign-in SERVICE/authorize/t/request --yes {options}");
        self.cli.check_refused(&line, reason).await;
        assert!(self.posted.lock().expect("no panic").is_empty(), "{reason}");
    }

    /// The usual issuer, whose short page names its sign-in.
    async fn answering(accepted: Value) -> Self {
        Self::start(CannedAnswer::ok(json!({"request_url": "SERVICE/authorize/t/request"})), accepted).await
    }

    /// Signs in by a link, in which `SERVICE` stands for the issuer's address and `ENCODED` for the
    /// request's in percent-encoding. Returns `mode` and `digits` of the answer that was posted,
    /// and the lines of the output behind the request's description.
    async fn sign_in(&mut self, link: &str, options: &str) -> ([Value; 2], Vec<String>) {
        let encoded = format!("{}/authorize/t/request", self.cli.service).replace(':', "%3A").replace('/', "%2F");
        let link = link.replace("ENCODED", &encoded);
        let output = self.cli.run_ok(&format!("sign-in {link} --yes --wallet {{own}} {options}")).await;
        let body = self.posted.lock().expect("no panic").pop().expect("an answer");
        let lines = output.replace(&self.cli.service, "SERVICE").lines().skip(3).map(str::to_owned).collect();
        (["mode", "digits"].map(|name| body[name].clone()), lines)
    }
}

/// The plain form of the proof request of the issuer at an address.
fn proof_request(issuer: &str) -> Value {
    json!({
        "app_id": APP, "app_name": "An application", "action": "sign-in", "signal": format!("0x{}", "5e".repeat(32)),
        "nonce": "0x2a", "protocol_versions": ["4.0"], "environment": "staging", "scopes": "openid",
        "expires_at": 1_800_000_300, "answer_url": format!("{issuer}/authorize/t/proof"),
        "redirect_host": "app.example", "initiator": {"network": "192.0.2.0/24", "user_agent": "B", "time": 1_800_000_000},
        "cross_device": "allow",
    })
}

const OVERRULED: &str = "the link says that the browser is on another device, and";

/// What the wallet posts and prints after each link. The issuer knows digits.
#[tokio::test]
async fn the_fragment_of_a_link_decides_how_the_wallet_answers() {
    let accepted = json!({"success": true, "digits": "042", "return_url": "SERVICE/authorize/t/complete?return=r"});
    let mut issuer = Issuer::answering(accepted).await;
    let short = format!("SERVICE/s/{SHORT_ID}");
    let (there, digits) = ([json!("cross_device"), json!(true)], "Type 042 on the screen where you began");
    let here = [json!("same_device"), Value::Null];
    let open = "open this in the browser of this device: SERVICE/authorize/t/complete?return=r";
    let unsaid = [json!("cross_device"), Value::Null];
    let by_flag = format!("{OVERRULED} --same-device was given, which wins: answered as on the browser's device");
    let by_browser =
        format!("{OVERRULED} the wallet acts as the browser, which wins: answered as on the browser's device");
    let completed = r#"{"action":"/authorize/t/complete?return=r","fields":{}}"#;
    #[rustfmt::skip]
    let table = [
        ("SERVICE/authorize/t/request", "", &unsaid, vec!["proved"]),
        ("SERVICE/authorize/t/request#elsewhere", "", &unsaid, vec!["proved"]),
        ("SERVICE/authorize/t/request", "--same-device", &here, vec!["proved", open]),
        ("SERVICE/authorize/t/request#here", "", &here, vec!["proved", open]),
        ("SERVICE/authorize/t/request#here", "--same-device", &here, vec!["proved", open]),
        ("SERVICE/authorize/t/request#there", "", &there, vec!["proved", digits]),
        ("SERVICE/authorize/t/request#there", "--same-device", &here, vec![&by_flag, "proved", open]),
        ("selfsame://open?request=ENCODED", "", &unsaid, vec!["proved"]),
        ("selfsame://open?request=ENCODED#here", "", &here, vec!["proved", open]),
        ("selfsame://open?request=ENCODED#there", "", &there, vec!["proved", digits]),
        (&short, "", &there, vec!["proved", digits]),
        (&format!("{short}#there"), "", &there, vec!["proved", digits]),
        (&format!("{short}#here"), "", &here, vec!["proved", open]),
        (&short, "--same-device", &here, vec![&by_flag, "proved", open]),
        ("SERVICE/authorize?x=1", "", &here, vec!["proved", completed]),
        ("SERVICE/authorize?x=1#there", "", &here, vec![&by_browser, "proved", completed]),
    ];
    for (link, options, posted, printed) in table {
        let (body, lines) = issuer.sign_in(link, options).await;
        assert_eq!((&body, lines.iter().map(String::as_str).collect()), (posted, printed), "{link} {options}");
    }
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The first sign-in has a proof of uniqueness that is bound to a new session; later ones prove
/// that session.
#[tokio::test]
async fn a_request_with_a_proof_type_is_answered_with_a_bound_proof_or_a_session() {
    let mut issuer = Issuer::answering(json!({"success": true})).await;
    issuer.cli.run_ok("new --wallet {other} --operator SERVICE").await;
    issuer.cli.run_ok("create-account --wallet {other}").await;
    let (own, other) = ("--wallet {own}", "--wallet {other}");
    let first = json!({"proof_type": "uniqueness", "session_id": "create"});
    let body = issuer.answer_to(first.clone(), own).await;
    let members = ["action", "environment", "nonce", "proof_type", "protocol_version", "responses", "session_id"];
    assert_eq!(keys(&body), members);
    let id = body["session_id"].as_str().expect("text").to_owned();
    assert!(id.starts_with("session_") && id.len() == 136, "{id}");
    assert_eq!(
        (&body["proof_type"], &body["action"], &body["nonce"]),
        (&json!("uniqueness"), &json!("sign-in"), &json!("0x2a"))
    );
    let of_entry = |name| ["expires_at_min", "identifier", "issuer_schema_id", name, "proof", "signal_hash"];
    assert_eq!(keys(&body["responses"][0]), of_entry("nullifier"));
    let unbound = issuer.answer_to(json!({}), own).await;
    assert_eq!((&unbound["proof_type"], &unbound["session_id"]), (&Value::Null, &Value::Null));
    assert_eq!(unbound["responses"][0]["nullifier"], body["responses"][0]["nullifier"]);

    let again = json!({"proof_type": "session", "session_id": id, "action": ""});
    let body = issuer.answer_to(again.clone(), own).await;
    assert_eq!(keys(&body), ["environment", "nonce", "protocol_version", "responses", "session_id"]);
    assert_eq!((&body["session_id"], &body["nonce"]), (&json!(id), &json!("0x2a")));
    let mut of_session = of_entry("session_nullifier");
    of_session.sort_unstable();
    assert_eq!(keys(&body["responses"][0]), of_session);
    assert_eq!(body["responses"][0]["session_nullifier"].as_array().map(Vec::len), Some(2));

    // Another account's session, and one that nobody has.
    let reason = "not one of this wallet's account with rp_6765160973bf7042; a wallet proves the sessions of its own";
    issuer.check_unanswered(again.clone(), other, reason).await;
    let unknown = json!({"proof_type": "session", "session_id": id.replace("session_", "session_x"), "action": ""});
    issuer.check_unanswered(unknown, own, reason).await;
    // The guard is for the nullifier, not for sessions.
    issuer.cli.advance(601);
    *issuer.members.lock().expect("no panic") = first;
    let line = format!("sign-in SERVICE/authorize/t/request --yes {own}");
    issuer.cli.check_refused(&line, "nullifier_replayed").await;
    let told = issuer.posted.lock().expect("no panic").pop();
    assert_eq!(told, Some(json!({"error_code": "nullifier_replayed"})), "the service can say what helps");
    issuer.answer_to(again, own).await;
}

/// A request for a newer credential names the only one that counts; a wallet without it says so.
#[tokio::test]
async fn a_request_for_a_newer_credential_is_answered_with_that_one_alone() {
    let mut issuer = Issuer::answering(json!({"success": true})).await;
    let asking = |identifier: &str| {
        json!({
            "proof_type": "uniqueness", "session_id": "create", "genesis_issued_at_min": 1_780_272_000,
            "identifier": identifier,
        })
    };
    let options = "--wallet {own} --no-guard";
    let with_bound = issuer.answer_to(asking("proof_of_human"), options).await;
    assert_eq!(with_bound["responses"][0]["identifier"], "proof_of_human");
    *issuer.members.lock().expect("no panic") = asking("passport");
    let said = issuer.cli.run_ok(&format!("sign-in SERVICE/authorize/t/request --yes {options}")).await;
    assert!(said.contains("refused: this wallet has no credential passport"), "{said}");
    let told = issuer.posted.lock().expect("no panic").pop();
    assert_eq!(told, Some(json!({"error_code": "credential_unavailable"})));
}

#[tokio::test]
async fn a_request_for_an_unknown_proof_is_not_answered() {
    let mut issuer = Issuer::answering(json!({"success": true})).await;
    let id = format!("session_{}01{}", "1".repeat(64), "0".repeat(62));
    for members in
        [json!({"proof_type": "uniqueness", "session_id": id}), json!({"proof_type": "session", "session_id": id})]
    {
        let reason = "asks for a proof that this wallet does not know";
        issuer.check_unanswered(members, "--wallet {own}", reason).await;
    }
    issuer.check_unanswered(json!({"proof_type": "age"}), "--wallet {own}", "unknown variant `age`").await;
}

/// A service of before the digits takes the answer and gives none; one that gives out something
/// else is not believed.
#[tokio::test]
async fn a_service_without_digits_needs_none() {
    let mut older = Issuer::answering(json!({"success": true})).await;
    let (body, lines) = older.sign_in("SERVICE/authorize/t/request#there", "").await;
    assert_eq!(body, [json!("cross_device"), json!(true)]);
    assert_eq!(lines, ["proved", "no digits are needed: the screen where you began goes on by itself"]);
    for digits in ["", "42", "0042", "04a", "٠٤٢", "\u{1b}[2J"] {
        let mut odd = Issuer::answering(json!({"success": true, "digits": digits})).await;
        let reason = "not three digits";
        odd.cli.check_refused("sign-in SERVICE/authorize/t/request#there --yes --wallet {own}", reason).await;
    }
}

/// The short page leads to a request at its own origin, without a detour.
#[tokio::test]
async fn a_short_page_leads_to_its_own_origin_only() {
    #[rustfmt::skip]
    let table = [
        (CannedAnswer::ok(json!({"request_url": "http://127.0.0.1:9/authorize/t/request"})), "at another origin"),
        (CannedAnswer::ok(json!({"request_url": "selfsame://open"})), "at another origin"),
        (CannedAnswer::ok(json!({"request_url": "/authorize/t/request"})), "at another origin"),
        (CannedAnswer::ok(json!({"other": 1})), "request_url"),
        (CannedAnswer(303, None, json!({"request_url": "SERVICE/authorize/t/request"}).to_string()), "answered 303"),
        (CannedAnswer::error(404, "not_found", "there is no such page"), "404 not_found: there is no such page"),
    ];
    for (answer, reason) in table {
        let mut issuer = Issuer::start(answer, json!({"success": true})).await;
        for decision in ["--yes", "--refuse"] {
            let line = format!("sign-in SERVICE/s/{SHORT_ID} {decision} --wallet {{own}}");
            issuer.cli.check_refused(&line, reason).await;
        }
        assert!(issuer.posted.lock().expect("no panic").is_empty(), "{reason}");
    }
    let mut issuer = Issuer::answering(json!({"success": true})).await;
    let refused = issuer.cli.run_ok(&format!("sign-in SERVICE/s/{SHORT_ID} --refuse --wallet {{own}}")).await;
    assert_eq!(refused, "refused\n");
    assert_eq!(*issuer.posted.lock().expect("no panic"), [json!({"error": "access_denied"})]);
}

/// A member signs in without an account: to an application that names the group, or when there is
/// nothing else that the wallet could prove.
#[tokio::test]
async fn a_member_signs_in_with_the_groups_credential() {
    let mut issuer = Issuer::answering(json!({"success": true})).await;
    let service = GroupService::start("members").await;
    service.group().legacy_identifier = Some(LegacyIdentifier::Device);
    issuer.cli.run_ok("new --wallet {member} --operator SERVICE").await;
    for (wallet, number) in [("{member}", "1"), ("{own}", "2")] {
        issuer.cli.run_ok(&format!("group join {} --wallet {wallet}", service.invite(number))).await;
    }
    let asked = |identifier: Value| json!({"protocol_versions": ["3.0"], "action": "", "identifier": identifier});
    let signal = format!("0x{}", "5e".repeat(32));
    #[rustfmt::skip]
    let table = [
        (json!("members"), "{member}", "", "members"),
        (json!("device"), "{member}", "", "device"),
        (Value::Null, "{member}", "", "members"),
        (json!("members"), "{own}", "", "members"),
        (Value::Null, "{own}", "--group members", "members"),
    ];
    for (identifier, wallet, options, expected) in table {
        let body = issuer.answer_to(asked(identifier.clone()), &format!("--wallet {wallet} {options}")).await;
        let item = &body["responses"][0];
        assert_eq!((&item["identifier"], &body["nonce"]), (&json!(expected), &json!("0x2a")), "{identifier} {wallet}");
        let (root, nullifier) = (&item["merkle_root"], &item["nullifier"]);
        let asked = external_nullifier(APP, "");
        assert!(holds(&item["proof"], root, nullifier, hash_text(&signal), asked), "{identifier} {wallet}");
        assert_eq!(*root, format!("{:#066x}", service.group().root(None).to_number()));
    }
    // What the issuer is told when there is no proof.
    service.group().remove("1");
    let told = json!({"error_code": "credential_unavailable"});
    #[rustfmt::skip]
    let table = [
        (asked(json!("members")), "", "is not in the group members any more"),
        (asked(json!("orb")), "--group members", "does not ask for a proof of a member of members in staging"),
        (json!({}), "--group members", "does not ask for a proof of a member of members in staging"),
        (asked(json!("school")), "--group members", "does not ask for a proof of a member of members in staging"),
    ];
    for (members, options, reason) in table {
        *issuer.members.lock().expect("no panic") = members;
        let line = format!("sign-in SERVICE/authorize/t/request --yes --wallet {{member}} {options}");
        issuer.cli.check_refused(&line, reason).await;
        assert_eq!(issuer.posted.lock().expect("no panic").pop().as_ref(), Some(&told), "{reason}");
    }
    issuer.check_unanswered(asked(json!("orb")), "--wallet {member}", "an authenticator of an account").await;
    issuer.check_unanswered(json!({}), "--wallet {member} --group school", "not a member of the group school").await;
}
