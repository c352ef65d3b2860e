//! People who prove who they are, without the cost of proofs: the checker accepts every one.

use std::sync::{Arc, LazyLock};

use selfsame_protocol::U256;
use selfsame_protocol::groth16::key::LEGACY_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{Claim, InputCountError, PreparedKey};
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::directory::{Action, Directory, RelyingParty, ScoreBounds};
use selfsame_protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use serde_json::{Value, json};

use crate::clock::Random;
use crate::{ConfiguredKey, ProofChecker, VerificationSettings};

/// The application that people prove something to.
pub(super) const APP: &str = "app_staging_simulated";

/// The action that its proofs are for.
pub(super) const ACTION: &str = "vote";

/// Where the proofs are from, and their kind.
pub(super) const HERE: (Environment, ProofKind) = (Environment::Staging, ProofKind::Legacy);

/// The key of the proofs, and a proof that is well-formed.
static PROVER: LazyLock<(Arc<PreparedKey>, String)> = LazyLock::new(|| {
    let simulator = Simulator::from_seed(b"simulated people", LEGACY_INPUTS);
    let scalar = |number: u64| field_element(&U256::from(number)).expect("a field element");
    let inputs = [scalar(1), scalar(2), scalar(3), scalar(4)];
    let proof = simulator.prove(&inputs, [scalar(5), scalar(6)]).expect("as many inputs as the key has");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    (Arc::new(PreparedKey::new(&simulator.verification_key())), format!("0x{words}"))
});

/// Accepts every proof without a pairing.
struct AcceptingChecker;

impl ProofChecker for AcceptingChecker {
    fn which_hold(&self, _: &PreparedKey, claims: &[Claim], _: &dyn Random) -> Result<Vec<bool>, InputCountError> {
        Ok(vec![true; claims.len()])
    }
}

/// A person's nullifier.
pub(super) fn nullifier(person: usize) -> Nullifier {
    Nullifier(U256::from(person + 1))
}

/// A proof of a person, as a member of a request's `responses`.
fn response(person: usize) -> Value {
    let nullifier = format!("{:#x}", nullifier(person).0);
    json!({"identifier": "orb", "merkle_root": "0x5", "nullifier": nullifier, "proof": PROVER.1})
}

/// A request with a proof of each of these people, for an action.
pub(super) fn request(people: &[usize], action: &str) -> Value {
    let responses: Vec<Value> = people.iter().map(|person| response(*person)).collect();
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": action, "environment": "staging", "responses": responses,
    })
}

/// Settings under which every proof of the application holds. A person may act so many times; 0 is
/// any number.
pub(super) fn settings(max_verifications: u64) -> VerificationSettings {
    let relying_party = RelyingParty {
        rp_id: RelyingPartyId::derived_from(APP),
        app_id: APP.to_owned(),
        name: "Simulated".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: vec![HERE.0],
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity: false,
        oprf_public_key: None,
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    };
    let action = Action {
        app_id: APP.to_owned(),
        environment: HERE.0,
        action: ACTION.to_owned(),
        description: String::new(),
        max_verifications,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let root = RootKey { environment: HERE.0, kind: HERE.1, root: Root::from_number(U256::from(5)) };
    let trust = RootTrust { time: UnixSeconds(0), identifiers: vec![LegacyIdentifier::Orb] };
    VerificationSettings {
        workers: 1,
        keys: vec![ConfiguredKey { environment: HERE.0, kind: HERE.1, key: Arc::clone(&PROVER.0) }],
        directory: Directory::new([relying_party], [action], [], [HERE]),
        trusted_roots: vec![TrustedRoot { key: root, trust }],
        checker: Arc::new(AcceptingChecker),
        ..VerificationSettings::default()
    }
}
