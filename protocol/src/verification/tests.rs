mod groups;
mod reading;
mod sessions;

use serde_json::{Value, json};

use super::directory::{Action, AdmissionError, Admitted, Directory, Issuer, RelyingParty, ScoreBounds};
use super::groups::{KnownGroups, VerifiedGroup};
use super::items::{ItemError, TrustedData, check_items};
use super::request::{Bound, MOST_RESPONSES, Proofs, Statement, VerificationRequest};
use super::roots::{RootAge, UntrustedRoot};
use super::rp_signature::SigningRule;
use super::*;
use crate::commitment::PublicKey;
use crate::groth16::{EncodedClaim, PreparedKey, VerificationKey};
use crate::groups::names::{GroupId, RollName};
use crate::time::UnixSeconds;
use crate::tree::Root;
use crate::{B256, U256};

const APP: &str = "app_staging_169e21f6afc84b304749830067809632";
const RELYING_PARTY: &str = "rp_0387df34f862cd4e";
const NOW: UnixSeconds = UnixSeconds(1_783_000_000);

fn vector(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn number(value: &Value) -> U256 {
    crate::number::parse(value.as_str().expect("text")).expect("a number")
}

/// A request with the recorded legacy proof.
fn legacy() -> Value {
    let case = vector(include_str!("../../vectors/v3_depth30_verify_user.json"));
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": "verify-user", "environment": "staging",
        "responses": [{
            "identifier": "orb", "merkle_root": case["root"], "nullifier": case["nullifier_hash"],
            "proof": case["proof"], "signal_hash": case["signal_hash"],
        }],
    })
}

/// A request with the recorded session proof.
fn session() -> Value {
    let case = vector(include_str!("../../vectors/v4_session.json"));
    let named = &case["named"];
    let commitment = named["session_id_commitment"].as_str().expect("text").trim_start_matches("0x");
    json!({
        "protocol_version": "4.0", "nonce": named["nonce"], "session_id": format!("session_{commitment}01{}", "0".repeat(62)),
        "responses": [{
            "identifier": "proof_of_human", "issuer_schema_id": 1,
            "session_nullifier": [named["nullifier"], named["action"]],
            "expires_at_min": number(&named["expires_at_min"]).to::<u64>(), "signal_hash": named["signal_hash"],
            "proof": case["proof"],
        }],
    })
}

/// A request with the recorded uniqueness proof. The text of the proof's action is unknown, so the
/// request has another action.
fn uniqueness() -> Value {
    let case = vector(include_str!("../../vectors/v4_uniqueness_bound_to_session.json"));
    let named = &case["named"];
    json!({
        "protocol_version": "4.0", "nonce": named["nonce"], "action": "an action",
        "responses": [{
            "identifier": "proof_of_human", "issuer_schema_id": "0x1", "nullifier": named["nullifier"],
            "expires_at_min": number(&named["expires_at_min"]).to::<u64>(), "proof": case["proof"],
        }],
    })
}

/// The same with the session that the proof is bound to, which is that of the recorded session
/// proof.
fn bound() -> Value {
    let named = &vector(include_str!("../../vectors/v4_uniqueness_bound_to_session.json"))["named"];
    let mut request = with(uniqueness(), "/responses/0/signal_hash", named["signal_hash"].clone());
    request["proof_type"] = json!("uniqueness");
    request["session_id"] = session()["session_id"].clone();
    request
}

/// The request with one value changed; null removes the value.
fn with(mut request: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = request.pointer_mut(parent).expect("the request has this value");
    match parent {
        Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value,
        parent => parent[name] = value,
    }
    request
}

fn read(request: &Value) -> VerificationRequest {
    VerificationRequest::read(request).unwrap_or_else(|error| panic!("{error}: {request}"))
}

fn relying_party(app_id: &str, rp_id: &str) -> RelyingParty {
    let named = &vector(include_str!("../../vectors/v4_session.json"))["named"];
    RelyingParty {
        rp_id: rp_id.parse().expect("an id"),
        app_id: app_id.to_owned(),
        name: "Example".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: Environment::ALL.to_vec(),
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity: false,
        oprf_public_key: Some(key(&named["oprf_pubkey_x"], &named["oprf_pubkey_y"])),
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    }
}

fn key(x: &Value, y: &Value) -> PublicKey {
    PublicKey::from_coordinates(&number(x), &number(y)).expect("a key")
}

fn issuer() -> Issuer {
    let named = &vector(include_str!("../../vectors/v4_session.json"))["named"];
    Issuer {
        id: 1,
        identifiers: vec!["proof_of_human".to_owned()],
        environments: vec![Environment::Production],
        public_key: Some(key(&named["issuer_pubkey_x"], &named["issuer_pubkey_y"])),
    }
}

fn keys() -> impl Iterator<Item = (Environment, ProofKind)> {
    Environment::ALL.into_iter().flat_map(|environment| ProofKind::ALL.map(|kind| (environment, kind)))
}

/// A directory of the relying parties of the recorded proofs.
fn directory() -> Directory {
    let legacy = relying_party(APP, &RelyingPartyId::derived_from(APP).to_string());
    Directory::new([legacy, relying_party("app_session", RELYING_PARTY)], [], [issuer()], keys())
}

#[test]
fn relying_parties_are_found_by_application_or_relying_party_id() {
    for (app_id, rp_id) in [
        ("app_969d38c8ba9adf22a4ac3b2d4400575a", "rp_6765160973bf7042"),
        ("app_staging_169e21f6afc84b304749830067809632", "rp_ef0e09d685261981"),
    ] {
        assert_eq!(RelyingPartyId::derived_from(app_id).to_string(), rp_id);
    }
    let directory = directory();
    for path in [APP, "rp_ef0e09d685261981", "rp_EF0E09D685261981"] {
        assert_eq!(directory.relying_party(path).map(|relying_party| relying_party.app_id.as_str()), Ok(APP), "{path}");
    }
    for path in
        ["", "rp_", "rp_ef0e09d68526198", "rp_ef0e09d685261981a", "ef0e09d685261981", "rp_ef0e09d68526198g", "App_x"]
    {
        assert!(matches!(directory.relying_party(path), Err(AdmissionError::InvalidRelyingPartyId { .. })), "{path}");
    }
    for path in ["app_", "app_unknown", "rp_0000000000000000"] {
        assert!(matches!(directory.relying_party(path), Err(AdmissionError::UnknownRelyingParty { .. })), "{path}");
    }
}

#[test]
fn admission_reports_the_first_check_that_fails() {
    let request = read(&legacy());
    let mut relying_party = relying_party(APP, RELYING_PARTY);
    (relying_party.is_active, relying_party.has_active_application, relying_party.accept_legacy) =
        (false, false, false);
    relying_party.environments = vec![Environment::Production];
    let mut available = Vec::new();
    let admit = |relying_party: &RelyingParty, available: &[_], request: &VerificationRequest| {
        let directory = Directory::new([relying_party.clone()], [], [], available.iter().copied());
        directory.admit(APP, request).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = |message: &str| Err(message.to_owned());
    assert_eq!(admit(&relying_party, &available, &request), refused("relying party rp_0387df34f862cd4e is not active"));
    relying_party.is_active = true;
    let application = format!("application {APP}");
    assert_eq!(admit(&relying_party, &available, &request), refused(&format!("{application} is not active")));
    relying_party.has_active_application = true;
    let message = format!("{application} accepts production, not staging");
    assert_eq!(admit(&relying_party, &available, &request), refused(&message));
    relying_party.environments = vec![Environment::Staging];
    let message = "there is no verification key for legacy proofs in staging";
    assert_eq!(admit(&relying_party, &available, &request), refused(message));
    available.push((Environment::Staging, ProofKind::Legacy));
    let message = format!("{application} accepts no proofs of protocol version 3.0; ask for one of 4.0");
    assert_eq!(admit(&relying_party, &available, &request), refused(&message));
    relying_party.accept_legacy = true;
    assert_eq!(admit(&relying_party, &available, &request), Ok(()));

    available.push((Environment::Production, ProofKind::Current));
    relying_party.environments = vec![Environment::Production];
    relying_party.oprf_public_key = None;
    let message = "relying party rp_0387df34f862cd4e has no OPRF public key, which proofs of protocol version 4.0 need";
    assert_eq!(admit(&relying_party, &available, &read(&session())), refused(message));
}

#[test]
fn an_action_is_identified_by_the_bytes_of_its_text() {
    let action = |action: &str, max_verifications| Action {
        app_id: APP.to_owned(),
        environment: Environment::Staging,
        action: action.to_owned(),
        description: String::new(),
        max_verifications,
        accept_legacy: max_verifications != 2,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let directory =
        Directory::new([relying_party(APP, RELYING_PARTY)], [action("0xab", 1), action("refuses", 2)], [], keys());
    let limit = |text: &str| {
        let request = read(&with(legacy(), "/action", json!(text)));
        directory.admit(APP, &request).map(|admitted| admitted.action.map(|action| action.max_verifications))
    };
    assert_eq!(limit("0xAB"), Ok(Some(1)));
    assert_eq!(limit("other"), Ok(None));
    let refusal = limit("refuses").expect_err("refused").to_string();
    assert_eq!(refusal, "action \"refuses\" accepts no proofs of protocol version 3.0; ask for one of 4.0");
}

#[test]
fn an_application_can_close_the_set_of_its_actions() {
    let closed = RelyingParty { only_configured_actions: true, ..relying_party(APP, RELYING_PARTY) };
    let action = Action {
        app_id: APP.to_owned(),
        environment: Environment::Staging,
        action: "0xab".to_owned(),
        description: String::new(),
        max_verifications: 0,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let directory = Directory::new([closed], [action], [issuer()], keys());
    let refusal =
        |request: Value| directory.admit(APP, &read(&request)).err().map(|error| (error.code(), error.attribute()));
    let unknown = Some(("invalid_action", Some("action")));
    for (request, expected) in [
        (with(legacy(), "/action", json!("0xAB")), None),
        (with(legacy(), "/action", json!("ab")), unknown),
        (with(uniqueness(), "/action", json!("another")), unknown),
        // An action belongs to an environment.
        (with(with(legacy(), "/action", json!("0xab")), "/environment", Value::Null), unknown),
        (session(), None),
    ] {
        assert_eq!(refusal(request.clone()), expected, "{request}");
    }
    // Sign-ins have an action of their own.
    assert!(directory.admit_sign_in(APP, &read(&legacy())).is_ok());
}

#[test]
fn the_signal_of_a_legacy_proof_is_the_signed_nonce_where_the_rule_says_so() {
    let item = &legacy()["responses"][0];
    let signature = format!("0x{}1b", "11".repeat(64));
    let request = |nonce: &str, is_signed: bool, signals: &[&str]| {
        let items: Vec<Value> = signals
            .iter()
            .map(|signal| {
                let mut item = item.clone();
                item["signal_hash"] = json!(format!("{:#066x}", identity::hash_text(signal)));
                item
            })
            .collect();
        let mut request = with(with(legacy(), "/responses", json!(items)), "/nonce", json!(nonce));
        if is_signed {
            request["rp_signature"] = json!({"signature": signature, "created_at": 1, "expires_at": 2});
        }
        read(&request)
    };
    let signer = crate::Address::repeat_byte(1);
    let rule = |binds_signal| Some(SigningRule { signer, is_required: true, binds_signal });
    let own = format!("{:#066x}", 0x07ab);
    for (rule, request, expected) in [
        (rule(true), request("0x7ab", true, &[&own]), None),
        // The number counts, not its spelling in the request.
        (rule(true), request("1963", true, &[&own]), None),
        (rule(true), request("0x7ab", true, &[&own, ""]), Some(1)),
        (rule(true), request("8", true, &[&own]), Some(0)),
        (rule(true), request("0x7ab", true, &["0x07ab"]), Some(0)),
        (rule(true), request("0x7ab", false, &[&own]), Some(0)),
        (rule(true), read(&session()), None),
        (rule(false), request("8", true, &[""]), None),
        (None, request("8", true, &[""]), None),
    ] {
        let relying_party = RelyingParty { signing: rule, ..relying_party(APP, RELYING_PARTY) };
        let admitted = Admitted {
            relying_party: relying_party.into(),
            environment: Environment::Staging,
            oprf_public_key: None,
            action: None,
        };
        let found = admitted.check_signal(&request);
        assert_eq!(found.err().map(|other| other.index), expected, "{request:?}");
    }
}

#[test]
fn the_bound_of_an_action_stands_in_for_one_that_an_item_leaves_out() {
    let genesis = |genesis: Option<u64>| {
        let action = Action {
            app_id: "app_session".to_owned(),
            environment: Environment::Production,
            action: "an action".to_owned(),
            description: String::new(),
            max_verifications: 0,
            accept_legacy: false,
            accepted_identifiers: None,
            genesis_issued_at_min: genesis.map(UnixSeconds),
            require_integrity: false,
            sybil_scores: ScoreBounds::default(),
            roll: None,
        };
        Directory::new([relying_party("app_session", RELYING_PARTY)], [action], [issuer()], keys())
    };
    let root = number(&uniqueness()["responses"][0]["proof"][4]);
    let roots = RecordedRoots { current: Root::from_number(root), ..RecordedRoots::new() };
    let claim = |of_action: Option<u64>, of_item: Value| {
        let directory = genesis(of_action);
        let request = read(&with(uniqueness(), "/responses/0/credential_genesis_issued_at_min", of_item));
        let admitted = directory.admit(RELYING_PARTY, &request).expect("the request is admitted");
        let Ok(mut items) = check_items(&request.proofs, &admitted, &directory, &roots, NOW);
        items.remove(0).map_err(|failure| failure.code().name())
    };
    assert_eq!(claim(Some(7), Value::Null), claim(None, json!(7)));
    assert_eq!(claim(Some(7), json!(7)), claim(None, json!(7)));
    assert_eq!(claim(Some(7), json!(8)), claim(None, json!(8)));
    assert_eq!(claim(None, Value::Null), claim(None, json!(0)));
    assert_ne!(claim(None, json!(7)), claim(None, json!(0)));
    // The sender does not choose a weaker bound.
    assert_eq!(claim(Some(7), json!(6)), Err("invalid_public_input"));
}

/// One legacy root of orb credentials with a chosen age, and one current root.
struct RecordedRoots {
    legacy: (Root, RootAge),
    current: Root,
    issuer_key: Option<PublicKey>,
    /// The group that has the legacy root as a live one, with its age.
    live: Option<(GroupId, RootAge)>,
    /// The root of the roll of each group.
    roll: Option<Root>,
}

impl RecordedRoots {
    fn new() -> Self {
        let legacy = vector(include_str!("../../vectors/v3_depth30_verify_user.json"));
        let current = vector(include_str!("../../vectors/v4_session.json"));
        let root = |value| Root::from_number(number(value));
        Self {
            legacy: (root(&legacy["root"]), RootAge::Newest),
            current: root(&current["named"]["merkle_root"]),
            issuer_key: None,
            live: None,
            roll: None,
        }
    }
}

impl TrustedData for RecordedRoots {
    type Error = std::convert::Infallible;
    fn legacy(
        &self,
        _: Environment,
        identifier: LegacyIdentifier,
        root: Root,
    ) -> Result<Result<RootAge, UntrustedRoot>, Self::Error> {
        Ok(match (root == self.legacy.0, identifier) {
            (true, LegacyIdentifier::Orb) => Ok(self.legacy.1),
            (true, _) => Err(UntrustedRoot::OtherIdentifiers(vec![LegacyIdentifier::Orb])),
            (false, _) => Err(UntrustedRoot::Unknown),
        })
    }
    fn group(&self, group: GroupId, _: Environment, root: Root) -> Result<Option<RootAge>, Self::Error> {
        Ok(self.live.filter(|(of, _)| *of == group && root == self.legacy.0).map(|(_, age)| age))
    }
    fn roll(&self, _: GroupId, _: &RollName) -> Result<Option<Root>, Self::Error> {
        Ok(self.roll)
    }
    fn is_current(&self, _: Environment, root: Root) -> Result<bool, Self::Error> {
        Ok(root == self.current)
    }
    fn issuer_key(&self, _: Environment, _: u64) -> Result<Option<PublicKey>, Self::Error> {
        Ok(self.issuer_key)
    }
}

/// The outcome of a request's only item: its error code, or whether its proof holds.
fn outcome_at(path: &str, request: &Value, roots: &RecordedRoots, now: UnixSeconds) -> Result<bool, &'static str> {
    outcome_in(&directory(), path, request, roots, now)
}

fn outcome_in(
    directory: &Directory,
    path: &str,
    request: &Value,
    roots: &RecordedRoots,
    now: UnixSeconds,
) -> Result<bool, &'static str> {
    outcome_of(directory, path, &read(request), roots, now)
}

fn outcome_of(
    directory: &Directory,
    path: &str,
    request: &VerificationRequest,
    roots: &RecordedRoots,
    now: UnixSeconds,
) -> Result<bool, &'static str> {
    let admitted = directory.admit(path, request).expect("the request is admitted");
    let Ok(mut items) = check_items(&request.proofs, &admitted, directory, roots, now);
    assert_eq!(items.len(), 1);
    let decode =
        |claim: EncodedClaim| claim.decode().map_err(|error| ItemError::of_proof(request.proofs.kind(), error));
    let claim = items.remove(0).and_then(decode).map_err(|failure: ItemError| failure.code().name())?;
    let key = match request.proofs.kind() {
        ProofKind::Legacy => VerificationKey::legacy(),
        ProofKind::Current => VerificationKey::current(),
    };
    Ok(PreparedKey::new(key).holds(&claim).expect("the inputs of its kind"))
}

fn outcome(path: &str, request: &Value) -> Result<bool, &'static str> {
    outcome_at(path, request, &RecordedRoots::new(), NOW)
}

const TOO_LARGE: &str = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";

#[test]
fn legacy_items_are_checked_against_request_and_roots() {
    assert_eq!(outcome(APP, &legacy()), Ok(true));
    assert_eq!(outcome(APP, &with(legacy(), "/action", json!("other"))), Ok(false));
    assert_eq!(outcome("app_session", &legacy()), Ok(false));
    let item = |field: &str, value: Value| with(legacy(), &format!("/responses/0/{field}"), value);
    assert_eq!(outcome(APP, &item("nullifier", json!("0x1"))), Ok(false));
    assert_eq!(outcome(APP, &item("signal_hash", json!("0x1"))), Ok(false));
    assert_eq!(outcome(APP, &item("merkle_root", json!("0x1"))), Err("invalid_merkle_root"));
    // A proof that does not decode is reported before its root.
    let undecodable = with(item("merkle_root", json!("0x1")), "/responses/0/proof", json!(format!("0x{:0512x}", 1)));
    assert_eq!(outcome(APP, &undecodable), Err("invalid_proof"));
    // The sender does not choose the credential: the root is one of orb credentials.
    for identifier in LegacyIdentifier::ALL {
        let expected = if identifier == LegacyIdentifier::Orb { Ok(true) } else { Err("invalid_merkle_root") };
        assert_eq!(outcome(APP, &item("identifier", json!(identifier.name()))), expected, "{identifier:?}");
    }
    for field in ["merkle_root", "nullifier", "signal_hash"] {
        assert_eq!(outcome(APP, &item(field, json!(TOO_LARGE))), Err("invalid_format"), "{field}");
    }
    let zeros = format!("0x{}", "0".repeat(512));
    assert_eq!(outcome(APP, &item("proof", json!(zeros))), Err("invalid_proof"));
    let ones = format!("0x{}", "0".repeat(63) + "1").repeat(8).replace("0x", "");
    assert_eq!(outcome(APP, &item("proof", json!(format!("0x{ones}")))), Err("invalid_proof"));

    let age =
        |age| RecordedRoots { legacy: (RecordedRoots::new().legacy.0, RootAge::Seconds(age)), ..RecordedRoots::new() };
    let max_age = item("max_age", json!(3600));
    for (request, age_of_root, expected) in [
        (&max_age, 3600, Ok(true)),
        (&max_age, 3601, Err("root_too_old")),
        (&legacy(), 604_800, Ok(true)),
        (&legacy(), 604_801, Err("root_too_old")),
    ] {
        assert_eq!(outcome_at(APP, request, &age(age_of_root), NOW), expected, "{age_of_root}");
    }
}

#[test]
fn integers_are_read_in_every_spelling_of_json() {
    let age = |value: &str| {
        let value: Value = serde_json::from_str(value).expect("JSON");
        let request = with(legacy(), "/responses/0/max_age", value);
        VerificationRequest::read(&request).map(|_| ()).map_err(|error| error.detail)
    };
    for value in ["7200", "7200.0", "7.2e3", "3600.0", "604800.0"] {
        assert_eq!(age(value), Ok(()), "{value}");
    }
    let range = "max_age must be an integer from 3600 to 604800 (seconds), not ";
    for (value, expected) in [
        ("7200.5", format!("{range}this number")),
        ("-7200", format!("{range}this number")),
        ("-7200.0", format!("{range}this number")),
        // Above 2^53 a fraction or an exponent does not say which integer is meant.
        ("1e16", format!("{range}this number")),
        ("18446744073709551616", format!("{range}this number")),
        ("\"7200\"", format!("{range}a string")),
        ("3599.0", "max_age must be 3600 to 604800 seconds, not 3599".to_owned()),
        ("9007199254740992.0", "max_age must be 3600 to 604800 seconds, not 9007199254740992".to_owned()),
    ] {
        assert_eq!(age(value), Err(expected), "{value}");
    }
    // So are the others.
    let expires_at = number(&session()["responses"][0]["expires_at_min"].to_string().into());
    let request = with(session(), "/responses/0/expires_at_min", json!(expires_at.to::<u64>() as f64));
    assert!(VerificationRequest::read(&request).is_ok(), "{request}");
}

#[test]
fn only_accepted_credentials_count() {
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    for (of_application, of_action, expected) in [
        (None, None, Ok(true)),
        (list(&["orb", "device"]), None, Ok(true)),
        (list(&["device"]), None, Err("identifier_not_accepted")),
        (None, list(&["orb"]), Ok(true)),
        (None, list(&["passport"]), Err("identifier_not_accepted")),
        // An action narrows what its application accepts, and does not widen it.
        (list(&["device"]), list(&["orb"]), Err("identifier_not_accepted")),
    ] {
        let party = RelyingParty { accepted_identifiers: of_application.clone(), ..relying_party(APP, RELYING_PARTY) };
        let action = Action {
            app_id: APP.to_owned(),
            environment: Environment::Staging,
            action: legacy()["action"].as_str().expect("text").to_owned(),
            description: String::new(),
            max_verifications: 0,
            accept_legacy: true,
            accepted_identifiers: of_action.clone(),
            genesis_issued_at_min: None,
            require_integrity: false,
            sybil_scores: ScoreBounds::default(),
            roll: None,
        };
        let directory = Directory::new([party], [action], [issuer()], keys());
        let outcome = outcome_in(&directory, APP, &legacy(), &RecordedRoots::new(), NOW);
        assert_eq!(outcome, expected, "{of_application:?} {of_action:?}");
    }
    let passports =
        RelyingParty { accepted_identifiers: list(&["passport"]), ..relying_party("app_session", RELYING_PARTY) };
    let directory = Directory::new([passports], [], [issuer()], keys());
    let outcome = outcome_in(&directory, RELYING_PARTY, &session(), &RecordedRoots::new(), NOW);
    assert_eq!(outcome, Err("identifier_not_accepted"));
}

#[test]
fn a_request_below_its_minimum_protocol_version_has_a_code_of_its_own() {
    let refusal = |request: &Value| {
        let error = VerificationRequest::read(request).err()?;
        Some((error.code, error.attribute.unwrap_or_default()))
    };
    let not_allowed = Some(("protocol_version_not_allowed", "protocol_version".to_owned()));
    let malformed = |name: &str| Some(("validation_error", name.to_owned()));
    for (request, minimum, expected) in [
        (legacy(), json!("4.0"), not_allowed),
        // What is malformed is said first.
        (with(legacy(), "/responses/0/max_age", json!(1)), json!("4.0"), malformed("responses[0].max_age")),
        (with(legacy(), "/environment", json!("prod")), json!("4.0"), malformed("environment")),
        (legacy(), json!("3.0"), None),
        (legacy(), Value::Null, None),
        (session(), json!("4.0"), None),
        (session(), json!("3.0"), None),
        (session(), json!("5.0"), malformed("min_protocol_version")),
        (session(), json!(4), malformed("min_protocol_version")),
    ] {
        let request = with(request, "/min_protocol_version", minimum);
        assert_eq!(refusal(&request), expected, "{request}");
    }
}

#[test]
fn the_action_of_sign_ins_is_reserved() {
    for action in ["sign-in", "0x7369676e2d696e"] {
        let error = VerificationRequest::read(&with(legacy(), "/action", json!(action))).expect_err("refused");
        assert_eq!(error.attribute.as_deref(), Some("action"), "{error}");
    }
    assert!(VerificationRequest::read(&with(legacy(), "/action", json!("Sign-in"))).is_ok());
}

#[test]
fn an_item_fails_with_the_first_check_that_fails() {
    let mut roots = RecordedRoots::new();
    roots.current = Root(B256::ZERO);
    let mut request = session();
    for (pointer, value) in [
        ("/responses/0/session_nullifier/1", json!("0x1")),
        ("/responses/0/issuer_schema_id", json!(7)),
        ("/responses/0/proof/0", json!("0")),
    ] {
        request = with(request, pointer, value);
    }
    let late = UnixSeconds(0x6a54_cd68 + 18_001);
    let named = vector(include_str!("../../vectors/v4_session.json"))["named"].clone();
    let mut steps = Vec::new();
    steps.push(outcome_at(RELYING_PARTY, &request, &roots, late));
    request = with(request, "/responses/0/session_nullifier/1", named["action"].clone());
    steps.push(outcome_at(RELYING_PARTY, &request, &roots, late));
    roots = RecordedRoots::new();
    steps.push(outcome_at(RELYING_PARTY, &request, &roots, late));
    request = with(request, "/responses/0/issuer_schema_id", json!(1));
    steps.push(outcome_at(RELYING_PARTY, &request, &roots, late));
    steps.push(outcome_at(RELYING_PARTY, &request, &roots, NOW));
    let codes = ["invalid_action", "invalid_root", "invalid_credential_issuer", "outdated_nullifier", "invalid_proof"];
    assert_eq!(steps, codes.map(Err));
}
