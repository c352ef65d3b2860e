//! What the wallet answers requests of the public client kits with.

use alloy_primitives::hex;
use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::bridge::wire::RejectionCode;
use selfsame_protocol::groth16::Claim;
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, PreparedKey};
use selfsame_protocol::groth16::proof::Proof;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groups::identity::{MemberSecret, enrolment_external_nullifier};
use selfsame_protocol::groups::names::{GroupKey, ReplacementSecret};
use selfsame_protocol::ids::{LeafIndex, Nullifier};
use selfsame_protocol::operator::{Coordinates, SimulatedIssuer, SimulatedRelyingParty, Simulation};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::identity::{hash_text, hash_to_field};
use selfsame_protocol::verification::items::{CurrentInputs, current_inputs};
use selfsame_protocol::verification::{Environment, LegacyIdentifier};
use selfsame_protocol::{Address, U256};
use serde_json::{Value, json};

use super::{Recorded, bound, read, recorded, text_of};
use crate::Random;
use crate::bridge::answer::{
    Choice, Chooser, Credentials, check_no_link_proof, choose_member, current_answer, legacy_answer,
};
use crate::groups::Memberships;
use crate::member::{LeafSecrets, Member};
use crate::person::Person;
use crate::prove::{self, ProofParameters, SimulatedParty};

const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
pub(super) const NOW: UnixSeconds = UnixSeconds(1_795_000_000);
pub(super) const SEED: &str = "a seed";

pub(super) fn person() -> Person {
    Person::assumed(SEED, LeafIndex(7))
}

fn random() -> impl FnMut(&mut [u8; 32]) {
    let mut count = 0;
    move |bytes| {
        count += 1;
        *bytes = [count; 32];
    }
}

/// A daemon whose issuers are those of the public system.
pub(super) fn simulation() -> Simulation {
    let point = Coordinates { x: U256::from(1), y: U256::from(2) };
    let issuer =
        |id, identifier: &str| SimulatedIssuer { id, identifiers: vec![identifier.to_owned()], public_key: point };
    Simulation {
        seed: SEED.to_owned(),
        issuers: vec![issuer(1, "proof_of_human"), issuer(11, "selfie"), issuer(9303, "passport"), issuer(9310, "mnc")],
        relying_parties: vec![SimulatedRelyingParty {
            app_id: APP.to_owned(),
            rp_id: "rp_6765160973bf7042".parse().expect("an id"),
            oprf_public_key: Some(point),
            signing_key: Address::ZERO,
        }],
        attestation_issuers: Vec::new(),
    }
}

/// The choice for a request, or the code of the refusal.
fn choose(
    request: &BridgeRequest,
    credentials: &[&str],
    simulation: Option<&Simulation>,
) -> Result<String, RejectionCode> {
    let credentials = Credentials::only(credentials.iter().map(|name| (*name).to_owned()).collect());
    let person = person();
    let chooser = Chooser { person: &person, credentials: &credentials, simulation, now: NOW, attests_facts: false };
    let choice = chooser.choose(request, &mut random()).map_err(|rejection| rejection.code)?;
    Ok(choice.describe())
}

#[test]
fn the_credentials_decide_what_is_answered() {
    use RejectionCode::{CredentialUnavailable, FeatureUnavailable, InvalidNetwork};
    let legacy = "a legacy proof of an orb, with a description and a return URL";
    let either = "a proof of human, or a legacy proof";
    #[rustfmt::skip]
    let table = [
        (legacy, "", Ok("a legacy proof of orb")),
        (legacy, "device", Err(CredentialUnavailable)),
        ("a legacy proof of a face, bound to bytes", "", Ok("a legacy proof of face")),
        ("a legacy proof of a face, bound to bytes", "selfie", Ok("a legacy proof of face")),
        ("a legacy proof of a face, bound to bytes", "orb", Err(CredentialUnavailable)),
        (either, "", Ok("a current proof of proof_of_human")),
        (either, "orb", Ok("a legacy proof of orb")),
        (either, "passport", Err(CredentialUnavailable)),
        ("any of two", "", Ok("a current proof of passport")),
        ("any of two", "proof_of_human", Ok("a current proof of proof_of_human")),
        ("any of two", "orb", Err(CredentialUnavailable)),
        ("all, one of them any", "", Ok("a current proof of proof_of_human, passport")),
        ("all, one of them any", "proof_of_human mnc", Ok("a current proof of proof_of_human, mnc")),
        ("all, one of them any", "passport mnc", Err(CredentialUnavailable)),
        ("enumerate", "", Ok("a current proof of passport, mnc, proof_of_human")),
        ("enumerate", "mnc", Ok("a current proof of mnc")),
        ("enumerate", "orb", Err(CredentialUnavailable)),
        ("a selfie", "", Ok("a current proof of selfie")),
        ("a new session", "", Ok("a current proof of proof_of_human")),
        ("a session", "", Err(CredentialUnavailable)),
        ("attributes", "", Err(FeatureUnavailable)),
        ("production, by default", "", Err(InvalidNetwork)),
        ("sandbox, through another page", "", Ok("a current proof of proof_of_human")),
    ];
    let simulation = simulation();
    for (name, credentials, expected) in table {
        let request = read(&text_of(name)).expect(name);
        let credentials: Vec<_> = credentials.split_whitespace().collect();
        let chosen = choose(&request, &credentials, Some(&simulation));
        assert_eq!(chosen, expected.map(str::to_owned), "{name} with {credentials:?}");
    }
}

#[test]
fn the_level_that_is_asked_for_is_preferred_to_a_stronger_one() {
    #[rustfmt::skip]
    let table = [
        ("device", "", Ok("device")),
        ("device", "orb", Ok("orb")),
        ("document", "secure_document orb", Ok("secure_document")),
        ("document", "orb", Ok("orb")),
        ("secure_document", "document orb", Ok("orb")),
        ("secure_document", "document", Err(RejectionCode::CredentialUnavailable)),
        ("orb", "secure_document", Err(RejectionCode::CredentialUnavailable)),
    ];
    for (level, credentials, expected) in table {
        let request = json!({"app_id": APP, "action": "vote", "verification_level": level});
        let credentials: Vec<_> = credentials.split_whitespace().collect();
        let chosen = choose(&read(&request).expect(level), &credentials, None);
        assert_eq!(chosen, expected.map(|level| format!("a legacy proof of {level}")), "{level} with {credentials:?}");
    }
}

#[test]
fn what_the_daemon_lacks_decides_the_code() {
    use RejectionCode::{CredentialUnavailable, NoCurrentProof, UnknownRp};
    let either = "a proof of human, or a legacy proof";
    let current = "a new session";
    let with = |change: fn(&mut Simulation)| {
        let mut simulation = simulation();
        change(&mut simulation);
        Some(simulation)
    };
    let legacy = Ok("a legacy proof of orb");
    #[rustfmt::skip]
    let table = [
        (current, None, Err(NoCurrentProof)),
        (either, None, legacy),
        (current, with(|simulation| simulation.relying_parties[0].oprf_public_key = None), Err(NoCurrentProof)),
        (either, with(|simulation| simulation.relying_parties[0].oprf_public_key = None), legacy),
        (current, with(|simulation| simulation.issuers.clear()), Err(CredentialUnavailable)),
        (either, with(|simulation| simulation.issuers.clear()), legacy),
        (current, with(|simulation| simulation.issuers[0].id = 2), Err(CredentialUnavailable)),
        // A relying party that is not the application's gets no proof of any kind.
        (either, with(|simulation| simulation.relying_parties.clear()), Err(UnknownRp)),
        (either, with(|simulation| simulation.relying_parties[0].rp_id.0 += 1), Err(UnknownRp)),
    ];
    for (index, (name, simulation, expected)) in table.into_iter().enumerate() {
        let request = read(&text_of(name)).expect(name);
        assert_eq!(choose(&request, &[], simulation.as_ref()), expected.map(str::to_owned), "row {index}");
    }
    let mut none = text_of("a legacy proof of a face, bound to bytes");
    none["allow_legacy_proofs"] = false.into();
    assert_eq!(choose(&read(&none).expect("a request"), &[], None), Err(NoCurrentProof));
}

#[test]
fn credentials_that_cannot_satisfy_the_bounds_are_not_available() {
    let with = |bound: &str, time: u64| {
        let mut text = text_of("bounds and presence");
        text["proof_request"]["proof_requests"][0][bound] = time.into();
        choose(&read(&text).expect(bound), &[], Some(&simulation())).map(drop)
    };
    assert_eq!(with("genesis_issued_at_min", NOW.0), Ok(()));
    assert_eq!(with("genesis_issued_at_min", NOW.0 + 1), Err(RejectionCode::CredentialUnavailable));
    assert_eq!(with("expires_at_min", prove::CREDENTIAL_EXPIRY.0), Ok(()));
    assert_eq!(with("expires_at_min", prove::CREDENTIAL_EXPIRY.0 + 1), Err(RejectionCode::CredentialUnavailable));
}

/// The answer with current proofs to a request.
pub(super) fn answer_to(request: &BridgeRequest) -> Value {
    answer_with(request, &mut random())
}

fn answer_with(request: &BridgeRequest, random: &mut Random<'_>) -> Value {
    let (person, credentials, simulation) = (person(), Credentials::default(), simulation());
    let chooser = Chooser {
        person: &person,
        credentials: &credentials,
        simulation: Some(&simulation),
        now: NOW,
        attests_facts: false,
    };
    let Ok(Choice::Current(choice)) = chooser.choose(request, random) else { panic!("current proofs") };
    let root = Root::from_number(U256::from(5));
    current_answer(&person, request, &choice, &simulation, root, random).expect("an answer")
}

/// The number that 64 hex digits write.
fn word(text: &str) -> U256 {
    assert_eq!(text.len(), 64, "{text}");
    U256::from_str_radix(text, 16).expect("hex")
}

/// Checks the proofs of an answer as the verification interface does, with the values that the
/// request asks for.
fn check_proofs(request: &BridgeRequest, answer: &Value) {
    let asked = request.current.as_ref().expect("current proofs");
    let simulator = Simulator::from_seed(SEED.as_bytes(), CURRENT_INPUTS);
    let key = PreparedKey::new(&simulator.verification_key());
    let signed = asked.signed();
    for response in answer["responses"].as_array().expect("a list") {
        let item = asked.items.iter().find(|item| item.identifier == response["identifier"]).expect("an item");
        let nullifier = response["nullifier"].as_str().and_then(|text| text.strip_prefix("nil_"));
        let (nullifier, action) = match (nullifier, response["session_nullifier"].as_str()) {
            (Some(nullifier), None) => (word(nullifier), signed.action.expect("an action")),
            (None, Some(both)) => {
                let (nullifier, action) = both.strip_prefix("snil_").expect("a prefix").split_at(64);
                assert!(action.starts_with("02"), "{action}");
                (word(nullifier), word(action))
            }
            other => panic!("{other:?}"),
        };
        let words = response["proof"].as_str().expect("text");
        let [a, b1, b0, c, root] = [0, 1, 2, 3, 4].map(|index| word(&words[64 * index..][..64]));
        assert_eq!(words.len(), 320);
        let session = answer["session_id"].as_str().map(|id| word(&id["session_".len()..][..64]));
        let inputs = current_inputs(&CurrentInputs {
            nullifier: Nullifier(nullifier),
            issuer_schema_id: item.issuer_schema_id,
            issuer_public_key: [U256::from(1), U256::from(2)],
            expires_at_min: UnixSeconds(response["expires_at_min"].as_u64().expect("a number")),
            credential_genesis_issued_at_min: item.genesis_issued_at_min,
            root: Root::from_number(root),
            rp_id: asked.rp_id.0,
            action,
            oprf_public_key: [U256::from(1), U256::from(2)],
            signal_hash: item.signal_hash(),
            nonce: asked.nonce,
            session_commitment: session.unwrap_or_default(),
        });
        assert_eq!(response["expires_at_min"], item.expires_at_min.0);
        assert_eq!(root, U256::from(5));
        let proof = Proof::from_current(&[a, b1, b0, c]).expect("points");
        let claim = Claim::new(proof, inputs.expect("field elements"));
        assert_eq!(key.holds(&claim), Ok(true));
    }
}

#[test]
fn current_answers_hold_for_what_the_request_asks_for() {
    #[rustfmt::skip]
    let table = [
        ("a proof of human, or a legacy proof", "proof_of_human"),
        ("bounds and presence", "proof_of_human"),
        ("all, one of them any", "proof_of_human passport"),
        ("enumerate", "passport mnc proof_of_human"),
        ("an action of hex digits", "proof_of_human"),
        ("a selfie", "selfie"),
        ("a new session", "proof_of_human"),
    ];
    for (name, identifiers) in table {
        let request = read(&text_of(name)).expect(name);
        let answer = answer_to(&request);
        check_proofs(&request, &answer);
        assert_eq!(answer["id"], text_of(name)["proof_request"]["id"], "{name}");
        assert_eq!(answer["version"], 1, "{name}");
        let responses = answer["responses"].as_array().expect("a list");
        let proved: Vec<_> = responses.iter().map(|response| response["identifier"].as_str().expect("text")).collect();
        assert_eq!(proved.join(" "), identifiers, "{name}");
        // The client kit takes the first claim of a selfie for its score.
        let claims = responses.iter().any(|response| !response["claims"].is_null());
        assert_eq!(claims, name == "a selfie", "{name}");
        let presence = (name == "bounds and presence").then_some(true);
        assert_eq!(answer["user_presence_completed"].as_bool(), presence, "{name}");
        assert_eq!(answer["session_id"].is_string(), name == "a new session", "{name}");
    }
}

#[test]
fn a_bound_proof_of_uniqueness_names_a_new_session_that_can_be_proved() {
    let request = read(&bound()).expect("a request");
    let mut random = random();
    let [first, second] = [(); 2].map(|()| answer_with(&request, &mut random));
    for answer in [&first, &second] {
        check_proofs(&request, answer);
        let keys: Vec<_> = answer.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["id", "responses", "session_id", "version"]);
        let keys: Vec<_> = answer["responses"][0].as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["expires_at_min", "identifier", "issuer_schema_id", "nullifier", "proof"]);
    }
    assert_ne!(first["session_id"], second["session_id"]);
    let unbound = answer_to(&read(&text_of("a proof of human, or a legacy proof")).expect("a request"));
    for answer in [&second, &unbound] {
        assert_eq!(answer["responses"][0]["nullifier"], first["responses"][0]["nullifier"]);
    }
    for answer in [first, second] {
        let mut text = text_of("a session");
        text["proof_request"]["session_id"] = answer["session_id"].clone();
        let request = read(&text).expect("a request");
        let again = answer_to(&request);
        assert_eq!(again["session_id"], answer["session_id"]);
        check_proofs(&request, &again);
    }
}

/// Several credentials in one answer are bound to one session.
#[test]
fn all_proofs_of_a_bound_answer_have_one_session() {
    let mut text = text_of("all, one of them any");
    text["proof_request"]["session_id"] = json!("create");
    let request = read(&text).expect("a request");
    let answer = answer_to(&request);
    assert_eq!(answer["responses"].as_array().map(Vec::len), Some(2));
    check_proofs(&request, &answer);
}

#[test]
fn a_new_session_can_be_proved_again_by_its_account_only() {
    let begun = answer_to(&read(&text_of("a new session")).expect("a request"));
    let mut text = text_of("a session");
    text["proof_request"]["session_id"] = begun["session_id"].clone();
    let request = read(&text).expect("a request");
    let again = answer_to(&request);
    assert_eq!(again["session_id"], begun["session_id"]);
    check_proofs(&request, &again);
    let other = Person::assumed(SEED, LeafIndex(8));
    let (credentials, simulation) = (Credentials::default(), simulation());
    let chooser = Chooser {
        person: &other,
        credentials: &credentials,
        simulation: Some(&simulation),
        now: NOW,
        attests_facts: false,
    };
    let refused = chooser.choose(&request, &mut random()).expect_err("another account's session");
    assert_eq!(refused.code, RejectionCode::CredentialUnavailable);
    assert!(refused.reason.contains("not one of this wallet's account with rp_6765160973bf7042"), "{refused}");
    // The first session is the one that `prove` makes.
    let asked = parameters("");
    let party = SimulatedParty::of(simulation, APP, Root::from_number(U256::from(5))).expect("a known application");
    let body = prove::session(&person(), &asked, &party, &mut random()).expect("a proof");
    text["proof_request"]["session_id"] = body["session_id"].clone();
    let request = read(&text).expect("a request");
    check_proofs(&request, &answer_to(&request));
    for id in ["session_", "session_é", "", "session_00"] {
        text["proof_request"]["session_id"] = id.into();
        let request = read(&text).expect("a request");
        assert_eq!(
            choose(&request, &[], Some(&super::answers::simulation())),
            Err(RejectionCode::CredentialUnavailable),
            "{id:?}"
        );
    }
}

fn parameters(action: &'static str) -> ProofParameters<'static> {
    let environment = selfsame_protocol::verification::Environment::Staging;
    ProofParameters { app_id: APP, action, signal: "", environment, nonce: None }
}

#[test]
fn nullifiers_are_those_of_the_prove_command() {
    let answer = answer_to(&read(&text_of("a proof of human, or a legacy proof")).expect("a request"));
    let party = SimulatedParty::of(simulation(), APP, Root::from_number(U256::from(5))).expect("a known application");
    let body = prove::uniqueness(&person(), &parameters("vote"), &party, &mut random()).expect("a proof");
    let expected = body["responses"][0]["nullifier"].as_str().expect("text").replacen("0x", "nil_", 1);
    assert_eq!(answer["responses"][0]["nullifier"], expected);
}

#[test]
fn legacy_answers_have_the_keys_of_the_early_client_kits() {
    let request = read(&text_of("a legacy proof of a face, bound to bytes")).expect("a request");
    let Ok(Choice::Legacy { level, signal_hash }) = (Chooser {
        person: &person(),
        credentials: &Credentials::default(),
        simulation: None,
        now: NOW,
        attests_facts: false,
    })
    .choose(&request, &mut random()) else {
        panic!("a legacy proof")
    };
    let (root, answer) = legacy_answer(&person(), &request, level, signal_hash).expect("an answer");
    let keys: Vec<_> = answer.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["merkle_root", "nullifier_hash", "proof", "verification_level"]);
    assert_eq!(answer["verification_level"], "face");
    assert_eq!(answer["merkle_root"], format!("{:#066x}", root.to_number()));
    assert_eq!(answer["proof"].as_str().map(str::len), Some(2 + 8 * 64));
    // Each credential has a root of its own, and all have one nullifier.
    let orb = prove::legacy(&person(), &parameters("vote"), &mut random()).expect("a proof");
    assert_ne!(orb.root, root);
    assert_eq!(orb.body["responses"][0]["nullifier"], answer["nullifier_hash"]);
}

/// A membership of a group with a public name.
fn member(group: &str, environment: Environment, legacy_identifier: Option<LegacyIdentifier>) -> Member {
    Member {
        group: group.parse().expect("an id"),
        group_key: GroupKey([7; 32]),
        leaf: LeafSecrets { secret: MemberSecret([1; 16]), n: 0, replacement_secret: ReplacementSecret([2; 32]) },
        position: Some(0),
        next: None,
        has_left: false,
        wallet_url: "http://wallet".to_owned(),
        environment,
        legacy_identifier,
    }
}

#[test]
fn the_group_that_a_request_names_answers_before_the_account() {
    use LegacyIdentifier::{Device, Orb, Selfie};
    let members = [
        member("board", Environment::Staging, Some(Orb)),
        member("members", Environment::Staging, Some(Device)),
        member("faces", Environment::Production, Some(Selfie)),
        member("nameless", Environment::Staging, None),
    ];
    let of_kit_2 = |level: &str, app: &str| json!({"app_id": app, "action": "vote", "verification_level": level});
    let (legacy, either) =
        ("a legacy proof of an orb, with a description and a return URL", "a proof of human, or a legacy proof");
    let by_id = |id: &str, accepts_legacy: bool| {
        let mut text = text_of(either);
        text["proof_request"]["proof_requests"][0]["identifier"] = id.into();
        text["allow_legacy_proofs"] = accepts_legacy.into();
        text
    };
    let production = "app_0123";
    #[rustfmt::skip]
    let table = [
        (of_kit_2("device", APP), "", Ok(Some("device members"))),
        (of_kit_2("orb", APP), "", Ok(Some("orb board"))),
        (of_kit_2("document", APP), "", Ok(Some("orb board"))),
        (of_kit_2("device", APP), "board", Ok(Some("orb board"))),
        (of_kit_2("face", APP), "", Ok(None)),
        (of_kit_2("face", production), "", Ok(Some("face faces"))),
        (of_kit_2("device", production), "", Ok(None)),
        (text_of(legacy), "", Ok(Some("orb board"))),
        (text_of(either), "", Ok(Some("orb board"))),
        (text_of("a new session"), "", Ok(None)),
        (text_of("a selfie"), "", Ok(None)),
        (text_of("attributes"), "", Err(RejectionCode::FeatureUnavailable)),
        (by_id("members", true), "", Ok(Some("device members"))),
        (by_id("nameless", true), "", Ok(Some("orb nameless"))),
        (by_id("members", false), "", Ok(None)),
        (of_kit_2("device", APP), "nameless", Err(RejectionCode::CredentialUnavailable)),
        (by_id("members", false), "members", Err(RejectionCode::CredentialUnavailable)),
    ];
    for (text, only, expected) in table {
        let only = (!only.is_empty()).then(|| only.parse().expect("an id"));
        let request = read(&text).expect("a request");
        let chosen = choose_member(&request, &Memberships::new(&members, only, &[]));
        let chosen =
            chosen.map(|choice| choice.map(|choice| format!("{} {}", choice.level.name(), choice.member.group)));
        assert_eq!(
            chosen.map_err(|rejection| rejection.code),
            expected.map(|choice| choice.map(str::to_owned)),
            "{text}"
        );
    }
    let twice = [&members[..], &[member("again", Environment::Staging, Some(Device))]].concat();
    let request = read(&of_kit_2("device", APP)).expect("a request");
    let refused = choose_member(&request, &Memberships::new(&twice, None, &[])).expect_err("two groups");
    assert!(refused.reason.contains("choose one with --group"), "{refused}");
    let names = ["again".to_owned()];
    let chosen = choose_member(&request, &Memberships::new(&twice, None, &names)).expect("one group");
    assert_eq!(chosen.map(|choice| choice.member.group.to_string()).as_deref(), Some("again"));
}

/// The external nullifier of link proofs is compared by value: whatever texts a page uses, a legacy
/// request never has it, and a current one that has it is refused.
#[test]
fn no_request_gets_the_statement_of_a_link_proof() {
    let members = [member("members", Environment::Staging, None)];
    let statement = [b"selfsame group enrolment\0".as_slice(), &[7; 32]].concat();
    let as_bytes = format!("0x{}", hex::encode(&statement));
    let asked = enrolment_external_nullifier(&members[0].group_key);
    assert_eq!(hash_text(&as_bytes), asked.0);
    let as_text = String::from_utf8_lossy(&statement).into_owned();
    let upper = format!("0x{}", hex::encode_upper(&statement));
    let number = asked.to_string();
    let actions: [&str; 8] =
        [&as_bytes, &as_text, &upper, &number, "selfsame group enrolment", "join", "leave", "vote"];
    for Recorded { client, name, text, .. } in recorded() {
        let text: Value = serde_json::from_str(&text).expect("JSON");
        check_no_link_proof(&read(&text).expect("a request"), &members)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for action in actions {
            let mut changed = text.clone();
            changed["action"] = action.into();
            let has_action = !changed["proof_request"]["action"].is_null();
            let hashes = [hash_text(action), hash_to_field(action.as_bytes())];
            for hash in hashes {
                if has_action {
                    changed["proof_request"]["action"] = prove::padded(hash).into();
                }
                let request = read(&changed).unwrap_or_else(|error| panic!("{name}, {action}: {error}"));
                let checked = check_no_link_proof(&request, &members).map_err(|rejection| rejection.code);
                let is_link_proof = has_action && hash == asked.0;
                let expected = if is_link_proof { Err(RejectionCode::FeatureUnavailable) } else { Ok(()) };
                assert_eq!(checked, expected, "{client}, {name}, {action:?}");
                assert_eq!(check_no_link_proof(&request, &[]), Ok(()));
            }
        }
        // The application's id is hashed before the action.
        for app_id in [format!("app_{as_text}"), format!("app_{as_bytes}")] {
            let mut changed = text.clone();
            changed["app_id"] = app_id.into();
            assert_eq!(check_no_link_proof(&read(&changed).expect("a request"), &members), Ok(()), "{name}");
        }
    }
}
