//! How requests are read: each kind of proof, every spelling of its values, and what is refused,
//! with the path of the field.

use super::*;

#[test]
fn each_of_the_three_proof_types_is_read() {
    assert!(matches!(read(&legacy()).proofs, Proofs::Legacy { .. }));
    assert!(matches!(read(&uniqueness()).proofs, Proofs::Uniqueness { .. }));
    assert!(matches!(read(&session()).proofs, Proofs::Session { .. }));
    let sessions = [legacy(), uniqueness(), bound(), session()].map(|request| {
        let proofs = read(&request).proofs;
        (proofs.session_id().map(|id| id.text.clone()), proofs.action().is_some())
    });
    let id = session()["session_id"].as_str().map(str::to_owned);
    assert_eq!(sessions, [(None, true), (None, true), (id.clone(), true), (id, false)]);
    // An empty action has the same meaning as no action.
    read(&with(session(), "/action", json!("")));
    let defaults = read(&with(legacy(), "/environment", Value::Null));
    assert_eq!(defaults.environment.name(), "production");
    assert!(!defaults.user_presence_completed && defaults.integrity_bundle.is_none());
    let sandbox = read(&with(legacy(), "/environment", json!("sandbox"))).environment;
    assert_eq!((sandbox.environment(), sandbox.name()), (Environment::Staging, "sandbox"));
    let Proofs::Legacy { items, .. } = defaults.proofs else { panic!("legacy") };
    assert_eq!(items[0].max_age, 604_800);
    let Proofs::Legacy { items, .. } = read(&with(legacy(), "/responses/0/signal_hash", Value::Null)).proofs else {
        panic!("legacy")
    };
    assert_eq!(items[0].signal_hash, identity::hash_text(""));
    let Proofs::Uniqueness { items, .. } = read(&uniqueness()).proofs else { panic!("uniqueness") };
    assert_eq!((items[0].signal_hash, items[0].credential_genesis_issued_at_min), (U256::ZERO, None));
}

#[test]
fn alternative_spellings_of_values_are_accepted() {
    for (request, pointer, value) in [
        (legacy(), "/unknown", json!({"a": [1]})),
        (legacy(), "/responses/0/unknown", json!(null)),
        (legacy(), "/nonce", json!("")),
        (legacy(), "/responses/0/max_age", json!(3600)),
        (legacy(), "/responses/0/max_age", json!(7200.0)),
        (legacy(), "/responses/0/nullifier", json!("1")),
        (legacy(), "/responses/0/merkle_root", json!("0xABCDEF")),
        (legacy(), "/user_presence_completed", json!(true)),
        (legacy(), "/user_presence_completed", json!("yes")),
        (uniqueness(), "/responses/0/issuer_schema_id", json!(u64::MAX)),
        (uniqueness(), "/responses/0/issuer_schema_id", json!("18446744073709551615")),
        (uniqueness(), "/responses/0/nullifier", json!("17")),
        (uniqueness(), "/responses/0/expires_at_min", json!("18446744073709551615")),
        (uniqueness(), "/responses/0/credential_genesis_issued_at_min", json!("0")),
        (uniqueness(), "/responses/0/proof", json!(["1", "2", "0x3", "4", "0"])),
        (uniqueness(), "/responses/0/proof/0", json!("9".repeat(200))),
        (uniqueness(), "/nonce", json!("123")),
        (session(), "/responses/0/identifier", json!("anything")),
        (session(), "/proof_type", json!("session")),
        (session(), "/proof_type", json!("create_session")),
        (bound(), "/session_id", Value::Null),
        // Without a session id the type shows from the version.
        (uniqueness(), "/proof_type", json!("age")),
        (uniqueness(), "/proof_type", json!(7)),
    ] {
        read(&with(request, pointer, value));
    }
    let words = read(&legacy());
    let Proofs::Legacy { items, .. } = &words.proofs else { panic!("legacy") };
    let [a0, a1, b0, b1, b2, b3, c0, c1] = items[0].proof.map(|word| word.to_string());
    let nested = json!([[a0, a1], [[b0, b1], [b2, b3]], [c0, c1]]).to_string();
    assert_eq!(read(&with(legacy(), "/responses/0/proof", json!(nested))), words);
}

#[test]
fn malformed_requests_are_rejected_with_the_path_of_the_field() {
    let many: Vec<Value> = (0..=MOST_RESPONSES).map(|_| json!({})).collect();
    let table = [
        (legacy(), "/protocol_version", json!(null), "protocol_version"),
        (legacy(), "/protocol_version", json!("3"), "protocol_version"),
        (legacy(), "/protocol_version", json!(3.0), "protocol_version"),
        (session(), "/protocol_version", json!("3.0"), "protocol_version"),
        (legacy(), "/nonce", json!(null), "nonce"),
        (legacy(), "/nonce", json!(7), "nonce"),
        (uniqueness(), "/nonce", json!("n"), "nonce"),
        (uniqueness(), "/nonce", json!(" 1"), "nonce"),
        (legacy(), "/action", json!(null), "action"),
        (legacy(), "/action", json!(""), "action"),
        (uniqueness(), "/action", json!(["a"]), "action"),
        (session(), "/action", json!("a"), "action"),
        (session(), "/session_id", json!(17), "session_id"),
        (session(), "/session_id", json!("session_"), "session_id"),
        (session(), "/session_id", json!(format!("session_{}", "0".repeat(128))), "session_id"),
        (session(), "/session_id", json!(format!("session_{}01{}", "f".repeat(64), "0".repeat(62))), "session_id"),
        (session(), "/session_id", json!(format!("Session_{}01{}", "0".repeat(64), "0".repeat(62))), "session_id"),
        (session(), "/session_id", json!(format!("session_{}01{}", "0".repeat(64), "g".repeat(62))), "session_id"),
        (session(), "/proof_type", json!("uniqueness"), "action"),
        (bound(), "/proof_type", Value::Null, "action"),
        (bound(), "/proof_type", json!("session"), "action"),
        (bound(), "/proof_type", json!("create_session"), "action"),
        (bound(), "/proof_type", json!("Uniqueness"), "proof_type"),
        (bound(), "/proof_type", json!("age"), "proof_type"),
        (bound(), "/proof_type", json!("\u{7f}".repeat(200_000)), "proof_type"),
        (bound(), "/proof_type", json!(7), "proof_type"),
        (bound(), "/protocol_version", json!("3.0"), "protocol_version"),
        (bound(), "/action", Value::Null, "action"),
        (bound(), "/action", json!(""), "action"),
        (bound(), "/action", json!("sign-in"), "action"),
        (bound(), "/session_id", json!("create"), "session_id"),
        (bound(), "/session_id", json!(format!("session_{}", "0".repeat(128))), "session_id"),
        (bound(), "/session_id", json!(format!("session_{}01{}", "f".repeat(64), "0".repeat(62))), "session_id"),
        (bound(), "/responses/0/nullifier", Value::Null, "responses[0].nullifier"),
        (legacy(), "/environment", json!("prod"), "environment"),
        (legacy(), "/action_description", json!(1), "action_description"),
        (legacy(), "/action", json!("a".repeat(2049)), "action"),
        (legacy(), "/action_description", json!("a".repeat(2049)), "action_description"),
        (uniqueness(), "/responses/0/identifier", json!("a".repeat(2049)), "responses[0].identifier"),
        (legacy(), "/protocol_version", json!("\u{7f}".repeat(200_000)), "protocol_version"),
        (legacy(), "/responses/0/identifier", json!("\u{7f}".repeat(200_000)), "responses[0].identifier"),
        (legacy(), "/responses", json!(null), "responses"),
        (legacy(), "/responses", json!({}), "responses"),
        (legacy(), "/responses", json!([]), "responses"),
        (legacy(), "/responses", json!(many), "responses"),
        (legacy(), "/responses/0", json!("x"), "responses[0]"),
        (legacy(), "/responses/0/identifier", json!(null), "responses[0].identifier"),
        (legacy(), "/responses/0/identifier", json!("proof_of_human"), "responses[0].identifier"),
        (legacy(), "/responses/0/merkle_root", json!(null), "responses[0].merkle_root"),
        (legacy(), "/responses/0/merkle_root", json!("0x"), "responses[0].merkle_root"),
        (legacy(), "/responses/0/nullifier", json!("0xg"), "responses[0].nullifier"),
        (legacy(), "/responses/0/nullifier", json!(format!("0x{}", "0".repeat(65))), "responses[0].nullifier"),
        (legacy(), "/responses/0/nullifier", json!(5), "responses[0].nullifier"),
        (legacy(), "/responses/0/signal_hash", json!("0xAB"), "responses[0].signal_hash"),
        (legacy(), "/responses/0/signal_hash", json!("ab"), "responses[0].signal_hash"),
        (legacy(), "/responses/0/max_age", json!(3599), "responses[0].max_age"),
        (legacy(), "/responses/0/max_age", json!(604_801), "responses[0].max_age"),
        (legacy(), "/responses/0/max_age", json!(3600.5), "responses[0].max_age"),
        (legacy(), "/responses/0/max_age", json!("3600"), "responses[0].max_age"),
        (legacy(), "/responses/0/proof", json!(null), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!("0x00"), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!(format!("0x{}g", "0".repeat(511))), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!("é".repeat(257)), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!("[[1,2],[[3,4],[5,6]],[7,8]]"), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!("[[\"1\",\"2\"],[[\"3\",\"4\"]],[\"7\",\"8\"]]"), "responses[0].proof"),
        (legacy(), "/responses/0/proof", json!(["1"]), "responses[0].proof"),
        (uniqueness(), "/responses/0/proof", json!("0x"), "responses[0].proof"),
        (uniqueness(), "/responses/0/proof", json!(["1", "2", "3", "4"]), "responses[0].proof"),
        (uniqueness(), "/responses/0/proof", json!(["1", "2", "3", "4", "5", "6"]), "responses[0].proof"),
        (uniqueness(), "/responses/0/proof/2", json!(3), "responses[0].proof[2]"),
        (uniqueness(), "/responses/0/proof/4", json!("-1"), "responses[0].proof[4]"),
        (uniqueness(), "/responses/0/issuer_schema_id", json!(-1), "responses[0].issuer_schema_id"),
        (uniqueness(), "/responses/0/issuer_schema_id", json!("0x10000000000000000"), "responses[0].issuer_schema_id"),
        (uniqueness(), "/responses/0/expires_at_min", json!(null), "responses[0].expires_at_min"),
        (uniqueness(), "/responses/0/expires_at_min", json!("0x1"), "responses[0].expires_at_min"),
        (uniqueness(), "/responses/0/expires_at_min", json!("+1"), "responses[0].expires_at_min"),
        (uniqueness(), "/responses/0/expires_at_min", json!(""), "responses[0].expires_at_min"),
        (uniqueness(), "/responses/0/expires_at_min", json!("18446744073709551616"), "responses[0].expires_at_min"),
        (uniqueness(), "/responses/0/nullifier", json!(format!("0x{}", "0".repeat(65))), "responses[0].nullifier"),
        (uniqueness(), "/responses/0/nullifier", json!("9".repeat(79)), "responses[0].nullifier"),
        (
            session(),
            "/responses/0/session_nullifier/0",
            json!(format!("0x{}", "0".repeat(65))),
            "responses[0].session_nullifier[0]",
        ),
        (
            uniqueness(),
            "/responses/0/expires_at_min",
            json!(18_446_744_073_709_551_616f64),
            "responses[0].expires_at_min",
        ),
        (uniqueness(), "/responses/0/nullifier", json!(null), "responses[0].nullifier"),
        (session(), "/responses/0/session_nullifier", json!(null), "responses[0].session_nullifier"),
        (session(), "/responses/0/session_nullifier", json!(["1"]), "responses[0].session_nullifier"),
        (session(), "/responses/0/session_nullifier/1", json!("x"), "responses[0].session_nullifier[1]"),
    ];
    for (request, pointer, value, attribute) in table {
        let request = with(request, pointer, value);
        let error = VerificationRequest::read(&request).expect_err(&format!("refused: {request}"));
        assert_eq!(error.attribute.as_deref(), Some(attribute), "{error}: {request}");
        assert!(error.detail.chars().count() < 800, "{error}");
    }
    for body in [json!([]), json!("x"), json!(null)] {
        assert_eq!(VerificationRequest::read(&body).expect_err("refused").attribute, None);
    }
}
