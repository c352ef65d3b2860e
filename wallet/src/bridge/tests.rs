//! Requests that the public client kits made, and what is wrong with changed ones.

use selfsame_protocol::bridge::Message;
use selfsame_protocol::bridge::request::{BridgeRequest, CurrentAsked, LONGEST_REQUEST, Purpose};
use selfsame_protocol::bridge::wire::{CodeSet, Rejection, RejectionCode};
use selfsame_protocol::time::UnixSeconds;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::keys::AuthenticatorKey;

mod answers;
mod evidence;

/// A recorded request.
struct Recorded {
    client: String,
    name: String,
    uri: String,
    message: Message,
    text: String,
}

fn recorded() -> Vec<Recorded> {
    let file: Value = serde_json::from_str(include_str!("../../vectors/bridge_requests.json")).expect("JSON");
    let text = |vector: &Value, key: &str| vector[key].as_str().expect("text").to_owned();
    let read = |vector: &Value| Recorded {
        client: text(vector, "client").rsplit(' ').next().unwrap_or_default().to_owned(),
        name: text(vector, "name"),
        uri: text(vector, "uri"),
        message: serde_json::from_value(vector["message"].clone()).expect("a message"),
        text: text(vector, "text"),
    };
    file["vectors"].as_array().expect("a list").iter().map(read).collect()
}

/// The text of a request of client kit 4.3.0.
fn text_of(name: &str) -> Value {
    let found = recorded().into_iter().find(|recorded| recorded.client == "4.3.0" && recorded.name == name);
    serde_json::from_str(&found.expect(name).text).expect("JSON")
}

fn read(value: &Value) -> Result<BridgeRequest, Rejection> {
    BridgeRequest::read(value.to_string().as_bytes())
}

#[test]
fn requests_of_the_client_kits_are_decrypted_with_the_key_of_their_connector_uri() {
    for Recorded { client, name, uri, message, text } in recorded() {
        let connector = super::parse(&uri).unwrap_or_else(|error| panic!("{client}, {name}: {error}"));
        assert_eq!(connector.bridge, "http://127.0.0.1:48085", "{client}, {name}");
        assert_eq!(connector.key.open(&message).as_deref(), Ok(text.as_bytes()), "{client}, {name}");
        let request = BridgeRequest::read(text.as_bytes()).unwrap_or_else(|error| panic!("{client}, {name}: {error}"));
        assert_eq!(connector.return_to, request.return_to, "{client}, {name}");
    }
}

/// A request in one line.
fn summary(request: &BridgeRequest) -> String {
    let mut words = vec![request.environment.name().to_owned(), format!("{:?}", request.action)];
    words.extend(request.legacy.as_ref().map(|legacy| format!("legacy:{}", legacy.level.name())));
    if let Some(asked) = &request.current {
        words.push(match &asked.purpose {
            Purpose::Uniqueness { binds_session: false, .. } => "unique".to_owned(),
            Purpose::Uniqueness { binds_session: true, .. } => "bound".to_owned(),
            Purpose::NewSession => "new session".to_owned(),
            Purpose::Session { id } => id[..12].to_owned(),
        });
        words.extend(asked.items.iter().map(|item| format!("{}/{}", item.identifier, item.issuer_schema_id)));
        words.extend(asked.constraints.is_some().then(|| "constraints".to_owned()));
    }
    words.extend(request.requires_presence.then(|| "presence".to_owned()));
    words.extend(request.asks_for_attributes.then(|| "attributes".to_owned()));
    words.join(" ")
}

#[test]
fn requests_of_the_client_kits_are_read() {
    let three = "passport/9303 mnc/9310 proof_of_human/1 constraints";
    #[rustfmt::skip]
    let table = [
        ("4.3.0", "a legacy proof of an orb, with a description and a return URL", r#"staging "vote" legacy:orb"#),
        ("4.3.0", "a legacy proof of a face, bound to bytes", r#"staging "vote" legacy:face"#),
        ("4.3.0", "a proof of human, or a legacy proof", r#"staging "vote" legacy:orb unique proof_of_human/1"#),
        ("4.3.0", "a selfie", r#"staging "vote" unique selfie/11"#),
        ("4.3.0", "bounds and presence", r#"staging "vote" unique proof_of_human/1 presence"#),
        ("4.3.0", "any of two", r#"staging "vote" unique passport/9303 proof_of_human/1 constraints"#),
        ("4.3.0", "all, one of them any", r#"staging "vote" unique proof_of_human/1 passport/9303 mnc/9310 constraints"#),
        ("4.3.0", "enumerate", &format!(r#"staging "vote" unique {three}"#)),
        ("4.3.0", "attributes", r#"staging "vote" legacy:document unique passport/9303 mnc/9310 constraints attributes"#),
        ("4.3.0", "an action of hex digits", r#"staging "0x1234" unique proof_of_human/1"#),
        ("4.3.0", "a new session", r#"staging "" new session proof_of_human/1"#),
        ("4.3.0", "a session", r#"staging "" session_0000 proof_of_human/1"#),
        ("4.3.0", "an invite code", r#"staging "vote" unique proof_of_human/1"#),
        ("4.3.0", "sandbox, through another page", r#"sandbox "vote" unique proof_of_human/1"#),
        ("4.3.0", "production, by default", r#"production "vote" unique proof_of_human/1"#),
        ("4.2.4", "a new session", r#"staging "" new session proof_of_human/1"#),
        ("2.1.0", "a legacy proof of an orb", r#"staging "vote" legacy:orb"#),
        ("2.1.0", "a legacy proof of a document", r#"staging "vote" legacy:document"#),
        ("2.1.0", "a sign-in, without an action", r#"staging "" legacy:orb"#),
        ("1.5.0", "a legacy proof of an orb", r#"staging "vote" legacy:orb"#),
        ("1.5.0", "a legacy proof of a document", r#"staging "vote" legacy:document"#),
        ("1.5.0", "a sign-in, without an action", r#"staging "" legacy:orb"#),
    ];
    let recorded = recorded();
    assert_eq!(recorded.len(), table.len());
    for (Recorded { client, name, text, .. }, (of_client, of_name, expected)) in recorded.iter().zip(table) {
        assert_eq!((client.as_str(), name.as_str()), (of_client, of_name));
        let request = BridgeRequest::read(text.as_bytes()).expect(name);
        assert_eq!(summary(&request), expected, "{client}, {name}");
        let codes = if client.starts_with('4') { CodeSet::Present } else { CodeSet::Early };
        assert_eq!(request.codes(), codes, "{client}, {name}");
    }
}

fn asked(name: &str) -> CurrentAsked {
    read(&text_of(name)).expect(name).current.expect("current proofs")
}

#[test]
fn signals_are_hashed_once() {
    let hashes = |name: &str| {
        let request = read(&text_of(name)).expect(name);
        let legacy = request.legacy.map(|legacy| legacy.signal_hash);
        let current = request.current.map(|asked| asked.items[0].signal_hash());
        [legacy, current].map(|hash| hash.map(|hash| format!("{hash:#066x}")))
    };
    let user = Some("0x00a74698f6102d8b4088433b45f375775607857188a8b4b407a2eed2fc21ccea".to_owned());
    let bytes = Some("0x0056570de287d73cd1cb6092bb8fdee6173974955fdef345ae579ee9f475ea74".to_owned());
    assert_eq!(hashes("a proof of human, or a legacy proof"), [user.clone(), user]);
    assert_eq!(hashes("a legacy proof of a face, bound to bytes"), [bytes.clone(), None]);
    assert_eq!(hashes("bounds and presence"), [None, bytes]);
    assert_eq!(hashes("a new session"), [None, Some(format!("0x{}", "0".repeat(64)))]);
}

#[test]
fn bounds_of_a_credential_are_those_of_the_request_or_its_time() {
    let bounds = |name: &str| {
        let asked = asked(name);
        (asked.items[0].expires_at_min, asked.items[0].genesis_issued_at_min, asked.created_at)
    };
    let (expiry, genesis, _) = bounds("bounds and presence");
    assert_eq!((expiry, genesis), (UnixSeconds(1_900_000_000), UnixSeconds(1_700_000_000)));
    let (expiry, genesis, created_at) = bounds("a session");
    assert_eq!((expiry, genesis), (created_at, UnixSeconds(0)));
}

#[test]
fn the_relying_partys_address_is_recovered() {
    let key = AuthenticatorKey::from_seed(Zeroizing::new([1; 32])).expect("a key");
    for Recorded { name, text, .. } in recorded() {
        let Some(asked) = BridgeRequest::read(text.as_bytes()).expect(&name).current else { continue };
        assert_eq!(asked.signed().signer(&asked.signature), Ok(key.address()), "{name}");
        for changed in [
            CurrentAsked { created_at: asked.created_at.plus(1), ..asked.clone() },
            CurrentAsked { expires_at: asked.expires_at.plus(1), ..asked.clone() },
            CurrentAsked { nonce: asked.nonce >> 1, ..asked.clone() },
            CurrentAsked {
                purpose: Purpose::Uniqueness { action: asked.nonce, binds_session: false },
                ..asked.clone()
            },
        ] {
            assert_ne!(changed.signed().signer(&changed.signature), Ok(key.address()), "{name}");
        }
    }
}

#[test]
fn requests_are_answered_between_their_times_only() {
    let at = |created_at, expires_at| CurrentAsked {
        created_at: UnixSeconds(created_at),
        expires_at: UnixSeconds(expires_at),
        ..asked("a session")
    };
    #[rustfmt::skip]
    let table = [
        (at(1000, 1300), 1000, None),
        (at(1000, 1300), 1300, None),
        (at(1000, 1300), 1301, Some(RejectionCode::RpSignatureExpired)),
        (at(1000, 1300), 700, None),
        (at(1000, 1300), 699, Some(RejectionCode::TimestampTooFarInFuture)),
        (at(1000, 1000), 1000, Some(RejectionCode::InvalidTimestamp)),
        (at(0, u64::MAX), 1000, None),
    ];
    for (asked, now, expected) in table {
        let checked = asked.check_time(UnixSeconds(now));
        assert_eq!(checked.err().map(|rejection| rejection.code), expected, "{now}");
    }
}

#[test]
fn malformed_requests_are_refused_with_the_field() {
    use RejectionCode::{FeatureUnavailable, MalformedRequest};
    let uniqueness = "a proof of human, or a legacy proof";
    let many = vec![text_of(uniqueness)["proof_request"]["proof_requests"][0].clone(); 17];
    #[rustfmt::skip]
    let table = [
        (uniqueness, "/app_id", json!("5e1f"), MalformedRequest, "app_id is \"5e1f\""),
        (uniqueness, "/app_id", json!(null), MalformedRequest, "app_id"),
        (uniqueness, "/app_id", json!(format!("app_{}", "a".repeat(2048))), MalformedRequest, "app_id has more than 2048 bytes"),
        (uniqueness, "/action", json!("Vote"), MalformedRequest, "not the hash of the action \"Vote\""),
        (uniqueness, "/action_description", json!("d".repeat(2049)), MalformedRequest, "action_description has more than 2048 bytes"),
        (uniqueness, "/signal", json!("user-1"), MalformedRequest, "signal is not 0x"),
        (uniqueness, "/signal", json!(format!("0x{}", "f".repeat(64))), MalformedRequest, "signal is not 0x"),
        (uniqueness, "/verification_level", json!("iris"), MalformedRequest, "verification_level"),
        (uniqueness, "/environment", json!("test"), MalformedRequest, "environment is \"test\""),
        (uniqueness, "/min_protocol_version", json!("5.0"), MalformedRequest, "min_protocol_version is \"5.0\""),
        (uniqueness, "/proof_request/version", json!(2), FeatureUnavailable, "proof_request.version is 2"),
        (uniqueness, "/proof_request/proof_type", json!("age"), FeatureUnavailable, "\"age\""),
        (uniqueness, "/proof_request/proof_type", json!("session"), MalformedRequest, "the type session"),
        (uniqueness, "/proof_request/session_id", json!("session_1"), MalformedRequest, "the type uniqueness"),
        (uniqueness, "/proof_request/session_id", json!("Create"), MalformedRequest, "the type uniqueness"),
        (uniqueness, "/proof_request/session_id", json!(""), MalformedRequest, "the type uniqueness"),
        (uniqueness, "/proof_request/proof_type", json!("create_session"), MalformedRequest, "the type create_session"),
        (uniqueness, "/proof_request/action", json!(null), MalformedRequest, "the type uniqueness"),
        (uniqueness, "/proof_request/nonce", json!("12"), MalformedRequest, "proof_request.nonce is not 0x"),
        (uniqueness, "/proof_request/nonce", json!("0x"), MalformedRequest, "proof_request.nonce is not 0x"),
        (uniqueness, "/proof_request/rp_id", json!("rp_1"), MalformedRequest, "proof_request.rp_id"),
        (uniqueness, "/proof_request/signature", json!("0x00"), MalformedRequest, "proof_request.signature"),
        (uniqueness, "/proof_request/created_at", json!(-1), MalformedRequest, "proof_request.created_at"),
        (uniqueness, "/proof_request/proof_requests", json!([]), MalformedRequest, "has 0 items"),
        (uniqueness, "/proof_request/proof_requests", json!(many), MalformedRequest, "has 17 items"),
        (uniqueness, "/proof_request/proof_requests", json!(many[..2]), MalformedRequest, "[1] asks for the credential of an item before it"),
        (uniqueness, "/proof_request/proof_requests/0/signal", json!("user-1"), MalformedRequest, "[0].signal is not 0x"),
        (uniqueness, "/proof_request/proof_requests/0/issuer_schema_id", json!("1"), MalformedRequest, "issuer_schema_id"),
        ("any of two", "/proof_request/constraints/any/0", json!("mnc"), MalformedRequest, "\"mnc\", which is not in proof_requests"),
        ("any of two", "/proof_request/constraints", json!({"not": []}), MalformedRequest, "proof_request.constraints"),
        ("a session", "/proof_request/action", json!("0x01"), MalformedRequest, "the type session"),
        ("a new session", "/proof_request/session_id", json!(null), MalformedRequest, "the type session"),
    ];
    for (name, pointer, value, code, expected) in table {
        let mut text = text_of(name);
        let (parent, key) = pointer.rsplit_once('/').expect("a path");
        let parent = text.pointer_mut(parent).expect(pointer);
        match key.parse::<usize>() {
            Ok(index) => parent[index] = value.clone(),
            Err(_) => parent[key] = value.clone(),
        }
        let rejection = read(&text).expect_err(pointer);
        assert_eq!(rejection.code, code, "{pointer} {value}: {rejection}");
        assert!(rejection.reason.contains(expected), "{pointer} {value}: {rejection}");
    }
    for text in ["", "[]", "{", r#"{"app_id":"app_1","app_id":"app_2"}"#, &" ".repeat(LONGEST_REQUEST + 1)] {
        let rejection = BridgeRequest::read(text.as_bytes()).expect_err("refused");
        assert_eq!(rejection.code, MalformedRequest, "{rejection}");
    }
}

/// The request for a proof of human with a new session.
fn bound() -> Value {
    let mut text = text_of("a proof of human, or a legacy proof");
    text["proof_request"]["session_id"] = json!("create");
    text
}

/// The relying party signs the action and not the session, so a request for a bound proof is the
/// signed request for an unbound one with another `session_id`.
#[test]
fn a_request_for_uniqueness_with_a_new_session_is_signed_with_its_action() {
    let request = read(&bound()).expect("a request");
    assert_eq!(summary(&request), r#"staging "vote" legacy:orb bound proof_of_human/1"#);
    let current = request.current.expect("current proofs");
    let unbound = asked("a proof of human, or a legacy proof");
    assert_eq!(current.signed().digest(), unbound.signed().digest());
    let key = AuthenticatorKey::from_seed(Zeroizing::new([1; 32])).expect("a key");
    assert_eq!(current.signed().signer(&current.signature), Ok(key.address()));
    let mut without_type = bound();
    without_type["proof_request"].as_object_mut().expect("an object").remove("proof_type");
    let purpose = read(&without_type).expect("a request").current.expect("current proofs").purpose;
    assert_eq!(purpose, current.purpose);
    let mut without_action = bound();
    without_action["proof_request"]["action"] = Value::Null;
    let rejection = read(&without_action).expect_err("no action");
    assert_eq!(rejection.code, RejectionCode::MalformedRequest, "{rejection}");
}

#[test]
fn sign_in_statements_are_recognized_in_every_spelling() {
    let uniqueness = "a proof of human, or a legacy proof";
    let hash = "0x004549a96bd33a08eaae741c1942024d5308f7c744a84d52f40449ad1eed37a5";
    let with_action = |name: &str, text: &str, hash: Option<&str>| {
        let mut request = text_of(name);
        request["action"] = json!(text);
        if let Some(hash) = hash {
            request["proof_request"]["action"] = json!(hash);
            let unbound = read(&request).expect(name).is_sign_in();
            request["proof_request"]["session_id"] = json!("create");
            assert_eq!(read(&request).expect(name).is_sign_in(), unbound, "a new session changes nothing");
        }
        read(&request).expect(name).is_sign_in()
    };
    let legacy = "a legacy proof of an orb, with a description and a return URL";
    #[rustfmt::skip]
    let table = [
        (uniqueness, "sign-in", Some(hash), true),
        (uniqueness, "0x7369676e2d696e", Some(hash), true),
        (uniqueness, "0x7369676E2D696E", Some(hash), true),
        (legacy, "", None, true),
        (legacy, "sign-in", None, false),
        (legacy, "vote", None, false),
    ];
    for (name, text, hash, expected) in table {
        assert_eq!(with_action(name, text, hash), expected, "{text:?}");
    }
    for name in [uniqueness, "a new session", "a session", "an action of hex digits"] {
        assert!(!read(&text_of(name)).expect(name).is_sign_in(), "{name}");
    }
}

#[test]
fn a_minimum_version_and_sessions_exclude_legacy_proofs() {
    let with = |name: &str, key: &str, value: Value| {
        let mut text = text_of(name);
        text[key] = value;
        read(&text).expect(name).legacy.is_some()
    };
    let uniqueness = "a proof of human, or a legacy proof";
    assert!(with(uniqueness, "min_protocol_version", json!("3.0")));
    assert!(!with(uniqueness, "min_protocol_version", json!("4.0")));
    assert!(!with(uniqueness, "allow_legacy_proofs", json!(false)));
    assert!(!with(uniqueness, "allow_legacy_proofs", json!(null)));
    assert!(with("any of two", "allow_legacy_proofs", json!(true)));
    assert!(!with("a session", "allow_legacy_proofs", json!(true)));
}
