//! Proofs of sessions, proofs that are bound to one, and the answers to sign-ins.

use super::*;

#[test]
fn session_items_are_checked_against_request_issuer_and_time() {
    assert_eq!(outcome(RELYING_PARTY, &session()), Ok(true));
    let item = |field: &str, value: Value| with(session(), &format!("/responses/0/{field}"), value);
    for (field, value) in [
        ("session_nullifier/0", json!("0x1")),
        ("signal_hash", json!("0x1")),
        ("credential_genesis_issued_at_min", json!(1)),
        ("expires_at_min", json!(1_783_943_529)),
    ] {
        assert_eq!(outcome(RELYING_PARTY, &item(field, value)), Ok(false), "{field}");
    }
    let other_action = format!("0x02{}", "1".repeat(62));
    assert_eq!(outcome(RELYING_PARTY, &item("session_nullifier/1", json!(other_action))), Ok(false));
    assert_eq!(outcome(RELYING_PARTY, &with(session(), "/nonce", json!("1"))), Ok(false));
    assert_eq!(outcome(APP, &session()), Ok(false), "another relying party");
    let other_session = format!("session_{}01{}", "1".repeat(64), "0".repeat(62));
    assert_eq!(outcome(RELYING_PARTY, &with(session(), "/session_id", json!(other_session))), Ok(false));
    let no_session = format!("session_{}01{}", "0".repeat(64), "0".repeat(62));
    assert_eq!(outcome(RELYING_PARTY, &with(session(), "/session_id", json!(no_session))), Err("invalid_public_input"));

    for (field, value, code) in [
        ("session_nullifier/0", json!(TOO_LARGE), "invalid_public_input"),
        ("session_nullifier/1", json!(TOO_LARGE), "invalid_public_input"),
        ("session_nullifier/1", json!("0x1"), "invalid_action"),
        ("signal_hash", json!(TOO_LARGE), "invalid_public_input"),
        ("proof/4", json!(TOO_LARGE), "invalid_public_input"),
        ("proof/4", json!("0x1"), "invalid_root"),
        ("issuer_schema_id", json!(2), "invalid_credential_issuer"),
        ("identifier", json!("passport"), "invalid_credential_issuer"),
        ("proof/0", json!("0"), "invalid_proof"),
        ("proof/0", json!("1"), "invalid_proof"),
        ("proof/1", json!(TOO_LARGE), "invalid_proof"),
        ("proof/3", json!(U256::MAX.to_string()), "invalid_proof"),
    ] {
        assert_eq!(outcome(RELYING_PARTY, &item(field, value)), Err(code), "{field}");
    }
    assert_eq!(outcome(RELYING_PARTY, &with(session(), "/nonce", json!(TOO_LARGE))), Err("invalid_public_input"));
    let staging = with(session(), "/environment", json!("staging"));
    assert_eq!(outcome(RELYING_PARTY, &staging), Err("invalid_credential_issuer"), "the issuer is one of production");

    let expires = UnixSeconds(0x6a54_cd68);
    for (now, expected) in [(expires.plus(18_000), Ok(true)), (expires.plus(18_001), Err("outdated_nullifier"))] {
        assert_eq!(outcome_at(RELYING_PARTY, &session(), &RecordedRoots::new(), now), expected, "{now}");
    }
}

/// The text of the recorded proof's action is unknown, so the action's hash takes the place of the
/// text's in the request that was read.
#[test]
fn a_bound_proof_of_uniqueness_holds_with_the_commitment_of_its_session_only() {
    let action =
        number(&vector(include_str!("../../../vectors/v4_uniqueness_bound_to_session.json"))["named"]["action"]);
    let id = session()["session_id"].as_str().expect("text").to_owned();
    let commitment = &id["session_".len()..][..64];
    let of = |commitment: &str, seed: &str| json!(format!("session_{commitment}01{seed}"));
    let zeros = "0".repeat(62);
    for (name, value, expected) in [
        ("session_id", json!(id), Ok(true)),
        ("session_id", of(&commitment.to_uppercase(), &zeros), Ok(true)),
        // The seed is not in the proof.
        ("session_id", of(commitment, &"1".repeat(62)), Ok(true)),
        ("session_id", of(&"1".repeat(64), &zeros), Ok(false)),
        ("session_id", of(&"0".repeat(64), &zeros), Err("invalid_public_input")),
        // Unbound, with input 14 = 0.
        ("session_id", Value::Null, Ok(false)),
        ("nonce", json!("1"), Ok(false)),
    ] {
        let mut request = read(&with(bound(), &format!("/{name}"), value.clone()));
        let Proofs::Uniqueness { items, .. } = &mut request.proofs else { panic!("uniqueness: {request:?}") };
        items[0].action = action;
        let outcome = outcome_of(&directory(), RELYING_PARTY, &request, &RecordedRoots::new(), NOW);
        assert_eq!(outcome, expected, "{name} {value}");
    }
    assert_eq!(outcome(RELYING_PARTY, &bound()), Ok(false), "another action");
}

/// The answer to a sign-in has the statement that was asked for.
#[test]
fn an_answer_to_a_sign_in_makes_the_statement_that_was_asked_for() {
    use Statement::{BoundUniqueness, Legacy, Session, Uniqueness};
    let nonce = U256::from(77);
    let read = |statement, body: &Value| {
        let bound = Bound {
            statement,
            environment: Environment::Production,
            action: "sign-in",
            nonce,
            signal_hash: U256::from(5),
            max_age: 3600,
            genesis_issued_at_min: None,
            identifier: None,
            groups: &KnownGroups::default(),
        };
        let read = VerificationRequest::read_bound(body, &bound).map_err(|error| error.attribute.unwrap_or_default());
        read.map(|read| {
            let proofs = read.request.proofs;
            let of_request = match &proofs {
                Proofs::Legacy { .. } => None,
                Proofs::Uniqueness { nonce, .. } | Proofs::Session { nonce, .. } => Some(*nonce),
            };
            let action = proofs.action().map(str::to_owned);
            (action, of_request, proofs.session_id().map(|id| id.text.clone()))
        })
    };
    let id = session()["session_id"].as_str().map(str::to_owned);
    let (action, nonce) = (Some("sign-in".to_owned()), Some(nonce));
    let wrong = |name: &str| Err(name.to_owned());
    for (statement, body, expected) in [
        (Legacy, legacy(), Ok((action.clone(), None, None))),
        (Legacy, uniqueness(), wrong("protocol_version")),
        (Uniqueness, uniqueness(), Ok((action.clone(), nonce, None))),
        (Uniqueness, bound(), wrong("session_id")),
        (Uniqueness, session(), wrong("session_id")),
        (BoundUniqueness, bound(), Ok((action, nonce, id.clone()))),
        // The proof of a wallet that carried out the request without its session.
        (BoundUniqueness, uniqueness(), wrong("session_id")),
        (BoundUniqueness, with(bound(), "/session_id", json!("create")), wrong("session_id")),
        (BoundUniqueness, session(), wrong("responses[0].nullifier")),
        (BoundUniqueness, legacy(), wrong("protocol_version")),
        (Session, session(), Ok((None, nonce, id))),
        (Session, bound(), wrong("responses[0].session_nullifier")),
        (Session, uniqueness(), wrong("session_id")),
        (Session, with(session(), "/session_id", json!("session_x")), wrong("session_id")),
    ] {
        assert_eq!(read(statement, &body), expected, "{statement:?} {body}");
    }
}

/// Where a sign-in asks for a newer credential, the proof has to show its bound.
#[test]
fn an_answer_to_a_sign_in_shows_the_credential_that_was_asked_for() {
    let read = |least: Option<u64>, identifier, body: &Value| {
        let bound = Bound {
            statement: Statement::Uniqueness,
            environment: Environment::Production,
            action: "sign-in",
            nonce: U256::from(77),
            signal_hash: U256::from(5),
            max_age: 3600,
            genesis_issued_at_min: least.map(UnixSeconds),
            identifier,
            groups: &KnownGroups::default(),
        };
        let read = VerificationRequest::read_bound(body, &bound).map_err(|error| error.attribute.unwrap_or_default());
        read.map(|read| match read.request.proofs {
            Proofs::Uniqueness { items, .. } => items[0].credential_genesis_issued_at_min.map(|time| time.0),
            other => panic!("{other:?}"),
        })
    };
    let item = |given: Value| with(uniqueness(), "/responses/0/credential_genesis_issued_at_min", given);
    let (genesis, identifier) = ("responses[0].credential_genesis_issued_at_min", "responses[0].identifier");
    let wrong = |path: &str| Err(path.to_owned());
    #[rustfmt::skip]
    let table = [
        ("no bound", None, None, uniqueness(), Ok(None)),
        ("a bound of the wallet's own", None, None, item(json!(7)), Ok(Some(7))),
        ("as asked, and not repeated", Some(9), None, uniqueness(), Ok(Some(9))),
        ("as asked", Some(9), None, item(json!(9)), Ok(Some(9))),
        ("later", Some(9), None, item(json!(10)), Ok(Some(10))),
        ("earlier", Some(9), None, item(json!(8)), wrong(genesis)),
        ("none at all", Some(9), None, item(json!(0)), wrong(genesis)),
        ("the credential", None, Some("proof_of_human"), uniqueness(), Ok(None)),
        ("another credential", None, Some("passport"), uniqueness(), wrong(identifier)),
    ];
    for (what, least, only, body, expected) in table {
        assert_eq!(read(least, only, &body), expected, "{what}");
    }
}
