//! What stands beside the proofs of an answer, read as the client kit and the service read it.

use selfsame_protocol::bridge::request::BridgeRequest;
use selfsame_protocol::operator::SimulatedAttestationIssuer;
use selfsame_protocol::verification::identity::RequestedEnvironment;
use selfsame_protocol::verification::integrity::simulator::SimulatedKey;
use selfsame_protocol::verification::integrity::{BundleVersion, IntegrityRules, Platform};
use selfsame_protocol::verification::request::VerificationRequest;
use serde_json::{Value, json};

use super::answers::{NOW, SEED, answer_to, person, simulation};
use super::{bound, read, text_of};
use crate::bridge::answer::legacy_answer;
use crate::bridge::evidence::Evidence;
use crate::bundle::{BundleError, BundleMaker, Device};

const AUDIENCE: &str = "rp_6765160973bf7042";

fn maker(version: BundleVersion, platform: Platform) -> BundleMaker {
    let mut simulation = simulation();
    let environments = vec![RequestedEnvironment::Staging];
    simulation.attestation_issuers =
        vec![SimulatedAttestationIssuer { issuer: "attestation.simulator".to_owned(), environments }];
    let device = Device::of_person(&person(), platform).expect("a device");
    BundleMaker::new(version, device, &simulation, RequestedEnvironment::Staging).expect("a maker")
}

/// The result that client kit 4.3.0 makes of an answer: it copies what stands beside the response,
/// takes the words of the proofs apart, and the first claim of a selfie for its score.
fn result(request: &BridgeRequest, answer: &Value) -> Value {
    let inner = answer.get("proof_response").unwrap_or(answer);
    let word = |text: &str, index: usize| format!("0x{}", &text[64 * index..][..64]);
    let mut result = match inner["responses"].as_array() {
        None => json!({"protocol_version": "3.0", "nonce": "0x1", "action": request.action, "responses": [{
            "identifier": inner["verification_level"], "merkle_root": inner["merkle_root"],
            "nullifier": inner["nullifier_hash"], "proof": inner["proof"], "signal_hash": "0x00",
        }]}),
        Some(responses) => {
            let nonce = request.current.as_ref().expect("current proofs").nonce;
            let entry = |response: &Value| {
                let text = |name: &str| response[name].as_str().unwrap_or_default();
                let mut entry = json!({
                    "identifier": response["identifier"], "issuer_schema_id": response["issuer_schema_id"],
                    "expires_at_min": response["expires_at_min"],
                    "proof": (0..5).map(|index| word(text("proof"), index)).collect::<Vec<_>>(),
                });
                if let Some(both) = text("session_nullifier").strip_prefix("snil_") {
                    entry["session_nullifier"] = json!([word(both, 0), word(both, 1)]);
                } else {
                    entry["nullifier"] = text("nullifier").replace("nil_", "0x").into();
                }
                if let Some(score) = response["claims"][0].as_str() {
                    entry["sybil_score"] = u64::from_str_radix(&score[2..], 16).expect("a number").into();
                }
                entry
            };
            let responses: Vec<_> = responses.iter().map(entry).collect();
            json!({"protocol_version": "4.0", "nonce": format!("{nonce:#066x}"), "responses": responses})
        }
    };
    if inner.get("session_id").is_some() {
        result["session_id"] = inner["session_id"].clone();
    }
    if result["responses"][0].get("session_nullifier").is_none() {
        result["action"] = request.action.clone().into();
        if inner.get("session_id").is_some() {
            result["proof_type"] = "uniqueness".into();
        }
    }
    result["environment"] = "staging".into();
    for name in ["integrity_bundle", "identity_attested"] {
        if let Some(value) = answer.get(name) {
            result[name] = value.clone();
        }
    }
    result
}

/// Why the bundle of a result does not hold.
fn judged(result: &Value) -> Option<String> {
    let request = VerificationRequest::read(result).expect("a request");
    let keys = SimulatedKey::of_issuer(SEED).expect("a key").key_set();
    let rules = IntegrityRules {
        issuer: "attestation.simulator",
        audiences: vec![AUDIENCE.to_owned()],
        now: NOW,
        clock_tolerance: 0,
    };
    let bundle = request.integrity_bundle.expect("a bundle");
    bundle.judge(&keys, &rules).err().map(|error| error.to_string())
}

#[test]
fn bundles_hold_for_what_the_kit_makes_of_an_answer() {
    let bound = read(&bound()).expect("a request");
    let named = |name: &str| read(&text_of(name)).expect(name);
    let names =
        ["a proof of human, or a legacy proof", "bounds and presence", "enumerate", "a selfie", "a new session"];
    let requests: Vec<_> = names.into_iter().map(named).chain([bound]).collect();
    for platform in [Platform::Android, Platform::Ios] {
        for version in [BundleVersion::One, BundleVersion::Two] {
            for request in &requests {
                let bundle = Some(maker(version, platform));
                let evidence = Evidence { bundle, score: 12, identity_attested: Some(true) };
                let answer = evidence.add_to(answer_to(request), request, AUDIENCE, NOW).expect("an answer");
                let made = result(request, &answer);
                assert_eq!(judged(&made), None, "{made}");
                assert_eq!(made["identity_attested"], true);
                let presence = request.requires_presence.then_some(true);
                assert_eq!(answer["user_presence_completed"].as_bool(), presence);
                let is_selfie = made["responses"][0]["issuer_schema_id"] == 11;
                assert_eq!(made["responses"][0].get("sybil_score"), is_selfie.then_some(&json!(12)));
            }
        }
    }
}

#[test]
fn bundles_of_version_1_hold_for_legacy_answers() {
    let request = read(&text_of("a legacy proof of a face, bound to bytes")).expect("a request");
    let asked = request.legacy.as_ref().expect("a legacy proof");
    let (_, answer) = legacy_answer(&person(), &request, asked.level, asked.signal_hash).expect("an answer");
    for platform in [Platform::Android, Platform::Ios] {
        let evidence = |version| Evidence { bundle: Some(maker(version, platform)), ..Evidence::default() };
        let with = evidence(BundleVersion::One).add_to(answer.clone(), &request, AUDIENCE, NOW).expect("an answer");
        assert_eq!(judged(&result(&request, &with)), None);
        let none = evidence(BundleVersion::Two).add_to(answer.clone(), &request, AUDIENCE, NOW);
        assert!(matches!(none, Err(BundleError::Legacy)));
    }
}

#[test]
fn without_evidence_an_answer_stays_as_it_is() {
    let request = read(&text_of("a proof of human, or a legacy proof")).expect("a request");
    let answer = answer_to(&request);
    let same = Evidence::default().add_to(answer.clone(), &request, AUDIENCE, NOW).expect("an answer");
    assert_eq!(same, answer);
    let request = read(&text_of("a legacy proof of a face, bound to bytes")).expect("a request");
    let asked = request.legacy.as_ref().expect("a legacy proof");
    let (_, answer) = legacy_answer(&person(), &request, asked.level, asked.signal_hash).expect("an answer");
    let same = Evidence::default().add_to(answer.clone(), &request, AUDIENCE, NOW).expect("an answer");
    assert_eq!(same, answer);
    let device = Device::of_person(&person(), Platform::Ios).expect("a device");
    let none = BundleMaker::new(BundleVersion::One, device, &simulation(), RequestedEnvironment::Staging);
    assert!(matches!(none, Err(BundleError::NoIssuer(RequestedEnvironment::Staging))));
}
