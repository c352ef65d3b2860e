use serde_json::{Value, json};

use super::keys::{KeySetError, LONGEST_KEY_SET};
use super::*;
use crate::verification::Environment;
use crate::verification::directory::{Action, RelyingParty, ScoreBounds};
use crate::verification::fields::ValidationError;

/// Bundles that an independent maker made and judged, and the time of its judgement.
fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../vectors/integrity_bundles.json")).expect("JSON")
}

fn now(vectors: &Value) -> UnixSeconds {
    UnixSeconds(vectors["now"].as_u64().expect("a time"))
}

fn key_set(text: &Value) -> Result<KeySet, KeySetError> {
    KeySet::read(text.to_string().as_bytes())
}

fn admitted(require_integrity: bool, action: Option<Action>) -> Admitted {
    let vectors = vectors();
    let text = |name: &str| vectors[name].as_str().expect("text").to_owned();
    let relying_party = RelyingParty {
        rp_id: text("rp_id").parse().expect("an id"),
        app_id: text("app_id"),
        name: "Example".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: Environment::ALL.to_vec(),
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity,
        oprf_public_key: None,
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    };
    let action = action.map(Into::into);
    Admitted { relying_party: relying_party.into(), environment: Environment::Staging, oprf_public_key: None, action }
}

fn judge_at(request: &Value, now: UnixSeconds, tolerance: u64) -> Result<JudgedBundle, IntegrityError> {
    let vectors = vectors();
    let request = VerificationRequest::read(request).expect("a request");
    let bundle = request.integrity_bundle.as_ref().expect("a bundle");
    let issuer = vectors["issuer"].as_str().expect("text");
    let rules = IntegrityRules::new(issuer, &admitted(false, None), &request.proofs, now, tolerance);
    bundle.judge(&key_set(&vectors["jwks"]).expect("a key set"), &rules)
}

fn judge(request: &Value) -> Result<JudgedBundle, IntegrityError> {
    judge_at(request, now(&vectors()), 30)
}

fn good(name: &str) -> Value {
    let vectors = vectors();
    let rows = vectors["good"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}"))["request"].clone()
}

/// The request with one value changed.
fn with(mut request: Value, pointer: &str, value: Value) -> Value {
    let place = request.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    *place = value;
    request
}

#[test]
fn bundles_of_another_maker_are_judged_as_it_judges_them() {
    let vectors = vectors();
    let rows = |name: &str| vectors[name].as_array().expect("rows").clone();
    for row in rows("good") {
        let judged = judge(&row["request"]);
        assert!(judged.is_ok(), "{}: {judged:?}", row["name"]);
    }
    for row in rows("wrong") {
        let judged = judge(&row["request"]);
        assert!(judged.is_err(), "{}", row["name"]);
    }
}

/// The digest that the public app's library is tested with.
#[test]
fn version_2_of_a_session_has_the_published_digest() {
    let request = good("session, version 2, android");
    let digest = VerificationRequest::read(&request).expect("a request").integrity_bundle.expect("a bundle").payload;
    let expected = "7eb811a459b760caa1896abff47795f995ec0cfb6f8499d2bc91b3e09cbf8698";
    assert_eq!(digest.map(alloy_primitives::hex::encode).as_deref(), Some(expected));
}

#[test]
fn a_bundle_speaks_of_what_was_signed_alone() {
    let hex = |number: u64| json!(format!("{number:#066x}"));
    let swapped = |name: &str| {
        let mut request = good(name);
        request["responses"].as_array_mut().expect("entries").reverse();
        request
    };
    let fewer = |name: &str| {
        let mut request = good(name);
        request["responses"].as_array_mut().expect("entries").pop();
        request
    };
    let legacy = "legacy, version 1, android";
    let nested = good(legacy)["responses"][1]["proof"].as_str().expect("text").replace(", ", ",");
    for platform in ["android", "ios"] {
        let two = format!("two credentials, version 2, {platform}");
        let session = format!("session, version 2, {platform}");
        let one = format!("uniqueness, version 1, {platform}");
        #[rustfmt::skip]
        let table = [
            ("another score", with(good(&two), "/responses/0/sybil_score", json!(0))),
            ("another nullifier", with(good(&two), "/responses/1/nullifier", hex(1))),
            ("another order", swapped(&two)),
            ("fewer entries", fewer(&two)),
            ("another nonce", with(good(&two), "/nonce", json!("0x7"))),
            ("another nonce, version 1", with(good(&one), "/nonce", json!("0x7"))),
            ("another time", with(good(&one), "/integrity_bundle/timestamp", json!(now(&vectors()).0 - 9))),
            ("another version", with(good(&one), "/integrity_bundle/version", json!(2))),
            ("an earlier version", with(good(&two), "/integrity_bundle/version", json!(1))),
            ("another nullifier of a session", with(good(&session), "/responses/0/session_nullifier/0", hex(1))),
            ("another action of a session", with(good(&session), "/responses/0/session_nullifier/1", hex(1))),
        ];
        for (what, request) in table {
            assert_eq!(judge(&request), Err(IntegrityError::DeviceSignature), "{what}, {platform}");
        }
    }
    // Another text of the same numbers.
    let respelled = with(good(legacy), "/responses/1/proof", json!(nested));
    assert_eq!(judge(&respelled), Err(IntegrityError::DeviceSignature));
    assert_eq!(judge(&swapped(legacy)), Err(IntegrityError::DeviceSignature));
    let version_2 = with(good(legacy), "/integrity_bundle/version", json!(2));
    assert_eq!(judge(&version_2), Err(IntegrityError::LegacyProofs));
    // Numbers are signed, not their texts, and version 1 says nothing about the proofs.
    let one = good("uniqueness, version 1, android");
    assert!(judge(&with(one.clone(), "/nonce", json!("1"))).is_ok());
    assert!(judge(&with(one, "/responses/0/nullifier", json!("0x1"))).is_ok());
}

#[test]
fn the_reason_of_a_refusal_names_what_is_wrong() {
    let vectors = vectors();
    let reason = |name: &str| {
        let row = vectors["wrong"].as_array().expect("rows").iter().find(|row| row["name"] == name);
        judge(&row.unwrap_or_else(|| panic!("{name}"))["request"]).expect_err(name).to_string()
    };
    for (name, part) in [
        ("expired", "the claim exp of jwt is 70 seconds ago"),
        ("not valid yet", "the claim nbf of jwt"),
        ("another audience", "the claim aud of jwt is not rp_0387df34f862cd4e, the relying party"),
        ("another issuer", "the claim iss of jwt is not attestation.example"),
        ("no pass", "the claim pass of jwt is missing"),
        ("pass is a text", "the issuer did not find the app genuine"),
        ("no device key", "no key on the curve P-256"),
        ("a device key that is not on the curve", "no key on the curve P-256"),
        ("another platform", "signature_format is not that of the platform"),
        ("another algorithm", "its algorithm is not ES256"),
        ("no key id", "its header has no kid"),
        ("an unknown key id", "a key that the issuer attestation.example does not have"),
        ("crit", "its header has crit"),
        ("a forged token", "the signature of jwt does not hold"),
        ("301 seconds old", "the bundle is 301 seconds old, at most 300"),
        ("a minute ahead", "signed 60 seconds ahead"),
        ("another time signed", "the device's signature does not hold"),
    ] {
        let text = reason(name);
        assert!(text.contains(part), "{name}: {text}");
    }
}

#[test]
fn times_have_their_bounds() {
    // Signed 10 seconds before `now`; its token is good for 300 seconds from then.
    let (request, now) = (good("uniqueness, version 1, ios"), now(&vectors()).0);
    #[rustfmt::skip]
    let table = [
        ("as old as it may be, and its token", 289, 0, Ok(())),
        ("the token has expired", 290, 0, Err("exp")),
        ("the token has expired within the tolerance", 290, 30, Ok(())),
        ("older than it may be", 291, 30, Err("301 seconds old")),
        ("of this second", -10, 0, Ok(())),
        ("a second ahead", -11, 0, Err("1 seconds ahead")),
        ("ahead within the tolerance", -40, 30, Ok(())),
        ("ahead beyond the tolerance", -41, 30, Err("31 seconds ahead")),
    ];
    for (what, moved, tolerance, expected) in table {
        let judged = judge_at(&request, UnixSeconds(now.saturating_add_signed(moved)), tolerance);
        match expected {
            Ok(()) => assert!(judged.is_ok(), "{what}: {judged:?}"),
            Err(part) => {
                let text = judged.expect_err(what).to_string();
                assert!(text.contains(part), "{what}: {text}");
            }
        }
    }
    for extreme in [0, u64::MAX] {
        assert!(judge_at(&request, UnixSeconds(extreme), GREATEST_TOLERANCE).is_err());
    }
}

#[test]
fn a_malformed_bundle_is_named_by_its_field() {
    let bundle = |name: &str, value: Value| with(good("uniqueness, version 1, android"), &format!("/{name}"), value);
    let field = |name: &str, value: Value| bundle(&format!("integrity_bundle/{name}"), value);
    let mut without = good("uniqueness, version 1, android");
    without["integrity_bundle"].as_object_mut().expect("an object").remove("jwt");
    let mut extra = good("uniqueness, version 1, android");
    extra["integrity_bundle"]["extra"] = Value::Null;
    let hex = |length: usize| json!("a".repeat(length));
    #[rustfmt::skip]
    let table = [
        (bundle("integrity_bundle", json!("v=1")), "integrity_bundle"),
        (bundle("integrity_bundle", json!([])), "integrity_bundle"),
        (bundle("integrity_bundle", json!({})), "integrity_bundle.version"),
        (extra, "integrity_bundle"),
        (without, "integrity_bundle.jwt"),
        (field("version", json!(3)), "integrity_bundle.version"),
        (field("version", json!("1")), "integrity_bundle.version"),
        (field("signature_format", json!("x509")), "integrity_bundle.signature_format"),
        (field("timestamp", json!(-1)), "integrity_bundle.timestamp"),
        (field("timestamp", json!(1.5)), "integrity_bundle.timestamp"),
        (field("timestamp", json!("1")), "integrity_bundle.timestamp"),
        (field("timestamp", json!(1u64 << 53)), "integrity_bundle.timestamp"),
        (field("signature", json!("")), "integrity_bundle.signature"),
        (field("signature", json!("0xab")), "integrity_bundle.signature"),
        (field("signature", json!("abc")), "integrity_bundle.signature"),
        (field("signature", json!("zz")), "integrity_bundle.signature"),
        (field("signature", hex(8194)), "integrity_bundle"),
        (field("jwt", json!("")), "integrity_bundle.jwt"),
        (field("jwt", hex(8193)), "integrity_bundle"),
    ];
    for (request, attribute) in table {
        let error = VerificationRequest::read(&request).expect_err(attribute);
        let ValidationError { code, attribute: given, .. } = error;
        assert_eq!((code, given.as_deref()), ("validation_error", Some(attribute)));
    }
    // Null stands for no bundle, as everywhere.
    let none = VerificationRequest::read(&bundle("integrity_bundle", Value::Null)).expect("a request");
    assert_eq!(none.integrity_bundle, None);
    // A text that is no token is refused when it is judged.
    for text in ["a", "a.b", "a.b.c", "a.b.c.d", "..", "e30.e30."] {
        let judged = judge(&field("jwt", json!(text)));
        assert!(matches!(judged, Err(IntegrityError::Token { .. })), "{text}: {judged:?}");
    }
}

#[test]
fn a_score_belongs_to_selfie_check_alone() {
    let selfie = |score: Value| with(good("two credentials, version 2, ios"), "/responses/0/sybil_score", score);
    let read = |request: &Value| {
        VerificationRequest::read(request).map(|request| match request.proofs {
            Proofs::Uniqueness { items, .. } => items.into_iter().map(|item| item.sybil_score).collect::<Vec<_>>(),
            _ => Vec::new(),
        })
    };
    for score in [0, 12, GREATEST_SCORE] {
        assert_eq!(read(&selfie(json!(score))), Ok(vec![Some(score), None]));
    }
    let mut other = good("uniqueness, version 1, android");
    other["responses"][0]["sybil_score"] = json!(1);
    let wrong = [Value::Null, json!(-1), json!(0.5), json!("12"), json!(true), json!(GREATEST_SCORE + 1)];
    for request in wrong.into_iter().map(selfie).chain([other]) {
        let error = read(&request).expect_err("refused");
        assert_eq!(error.attribute.as_deref(), Some("responses[0].sybil_score"), "{request}");
    }
}

#[test]
fn who_requires_a_bundle_gets_one() {
    let action = |require_integrity| Action {
        app_id: vectors()["app_id"].as_str().expect("text").to_owned(),
        environment: Environment::Staging,
        action: "an action".to_owned(),
        description: String::new(),
        max_verifications: 0,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let without = |name: &str| with(good(name), "/integrity_bundle", Value::Null);
    let (plain, selfie) = ("uniqueness, version 1, ios", "two credentials, version 2, ios");
    let session = "session, version 1, ios";
    let none = "accepts";
    let (version, party) = ("need an integrity bundle of version 2", "application app_staging_169e");
    #[rustfmt::skip]
    let table = [
        (good(plain), admitted(false, None), none, false),
        (without(plain), admitted(false, None), none, false),
        (good(plain), admitted(true, None), none, true),
        (without(plain), admitted(true, None), party, true),
        (without(plain), admitted(false, Some(action(true))), "action \"an action\" takes only", true),
        (without(plain), admitted(false, Some(action(false))), none, false),
        (good(selfie), admitted(false, None), none, true),
        (without(selfie), admitted(false, None), version, true),
        (good(session), admitted(false, None), version, true),
        (without("legacy, version 1, ios"), admitted(true, None), party, true),
    ];
    for (request, admitted, expected, must_be_judged) in table {
        let read = VerificationRequest::read(&request).expect("a request");
        let found = check_presence(&read, &admitted).map_err(|error| error.to_string());
        let text = found.err().unwrap_or_else(|| none.to_owned());
        assert!(text.contains(expected), "{expected}: {text}");
        assert_eq!(is_required(&read, &admitted), must_be_judged, "{expected}");
    }
}

#[test]
fn the_use_of_a_bundle_is_that_for_its_nullifiers_in_any_order() {
    let used = |request: &Value| {
        let read = VerificationRequest::read(request).expect("a request");
        judge(request).expect("good").used_for(&read.proofs)
    };
    let one = good("uniqueness, version 1, android");
    let mut more = one.clone();
    let entry = with(more.clone(), "/responses/0/nullifier", json!("0x5"))["responses"][0].clone();
    more["responses"].as_array_mut().expect("entries").push(entry);
    let mut reversed = more.clone();
    reversed["responses"].as_array_mut().expect("entries").reverse();
    let respelled = with(one.clone(), "/responses/0/nullifier", json!("42"));
    assert_eq!(used(&one), used(&respelled), "42 is 0x2a");
    assert_eq!(used(&more), used(&reversed));
    let (one, more) = (used(&one), used(&more));
    assert_eq!(one.pair, more.pair, "the device has signed the nonce alone");
    assert_ne!(one.nullifiers, more.nullifiers);
    let other = used(&good("uniqueness, version 1, ios"));
    assert!(other.pair != one.pair && other.nullifiers == one.nullifiers, "another device");
    assert_eq!(one.forgotten_at, UnixSeconds(now(&vectors()).0 - 10 + 900));
}

#[test]
fn a_key_set_is_read_or_refused_as_a_whole() {
    let key = vectors()["jwks"]["keys"][0].clone();
    let changed = |name: &str, value: Value| {
        let mut key = key.clone();
        key[name] = value;
        key
    };
    let set = |keys: Vec<Value>| key_set(&json!({ "keys": keys })).map(|set| set.ids().count());
    let many =
        |count: usize| (0..count).map(|number| changed("kid", json!(format!("key_{number}")))).collect::<Vec<_>>();
    assert_eq!(set(vec![key.clone()]), Ok(1));
    assert_eq!(set(many(16)), Ok(16));
    assert_eq!(set(many(17)), Err(KeySetError::TooMany(17)));
    assert_eq!(set(vec![key.clone(), key.clone()]), Err(KeySetError::SameId("key_one".to_owned())));
    for unusable in [
        changed("kid", json!("")),
        changed("kid", json!(7)),
        changed("kid", json!("k".repeat(257))),
        changed("kty", json!("RSA")),
        changed("crv", json!("P-384")),
        changed("alg", json!("ES384")),
        changed("use", json!("enc")),
        changed("x", json!("AQ")),
        changed("x", json!("")),
        changed("y", json!(format!("{}AA", key["y"].as_str().expect("text")))),
        json!("key"),
        Value::Null,
    ] {
        assert_eq!(set(vec![unusable.clone()]), Err(KeySetError::NoUsableKey), "{unusable}");
        assert_eq!(set(vec![unusable, key.clone()]), Ok(1));
    }
    assert_eq!(key_set(&json!({"keys": {}})), Err(KeySetError::NoKeys));
    assert_eq!(KeySet::read(&vec![b' '; LONGEST_KEY_SET + 1]), Err(KeySetError::TooLong));
    for text in ["", "[]", "{", "{\"keys\": [], \"keys\": []}", "\u{feff}"] {
        assert!(matches!(KeySet::read(text.as_bytes()), Err(KeySetError::Json(_))), "{text:?}");
    }
}
