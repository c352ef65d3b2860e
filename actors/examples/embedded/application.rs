//! An application and its people: settings under which a service verifies proofs and signs people
//! in, and genuine proofs for a verification key whose trapdoor this program knows.

use std::sync::Arc;

use selfsame_actors::protocol::U256;
use selfsame_actors::protocol::client_secret::ClientSecret;
use selfsame_actors::protocol::groth16::PreparedKey;
use selfsame_actors::protocol::groth16::key::LEGACY_INPUTS;
use selfsame_actors::protocol::groth16::simulator::Simulator;
use selfsame_actors::protocol::sign_in::Client;
use selfsame_actors::protocol::sign_in::accounts::SubjectKind;
use selfsame_actors::protocol::sign_in::asks::LegacyRules;
use selfsame_actors::protocol::sign_in::proof_request::SignInProof;
use selfsame_actors::protocol::sign_in::response::ResponseType;
use selfsame_actors::protocol::time::UnixSeconds;
use selfsame_actors::protocol::tree::{Root, field_element};
use selfsame_actors::protocol::verification::directory::{Action, Directory, RelyingParty, ScoreBounds};
use selfsame_actors::protocol::verification::identity::{external_nullifier, hash_text};
use selfsame_actors::protocol::verification::roots::{RootKey, RootTrust, TrustedRoot};
use selfsame_actors::protocol::verification::{Environment, LegacyIdentifier, ProofKind, RelyingPartyId};
use selfsame_actors::{ConfiguredKey, Settings, SignInClient, SignInSettings, VerificationSettings};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub const APP: &str = "app_staging_embedded";
pub const SECRET: &str = "a secret of the application";
pub const CALLBACK: &str = "https://app.example/callback";

/// An action whose nullifiers may be verified once.
pub const ONCE: &str = "once";

const ENVIRONMENT: Environment = Environment::Staging;

fn simulator() -> Simulator {
    Simulator::from_seed(b"an embedder", LEGACY_INPUTS)
}

/// A root of legacy proofs.
pub fn root(number: u64) -> RootKey {
    RootKey { environment: ENVIRONMENT, kind: ProofKind::Legacy, root: Root::from_number(U256::from(number)) }
}

/// What makes a root trusted.
pub fn trusted(key: RootKey) -> TrustedRoot {
    TrustedRoot { key, trust: RootTrust { time: UnixSeconds(0), identifiers: vec![LegacyIdentifier::Orb] } }
}

/// Settings of a service that knows the application, and trusts root 5.
pub fn settings(instance: &str) -> Settings {
    let party = RelyingParty {
        rp_id: RelyingPartyId::derived_from(APP),
        app_id: APP.to_owned(),
        name: "Example".to_owned(),
        integration_url: None,
        is_active: true,
        has_active_application: true,
        environments: vec![ENVIRONMENT],
        accept_legacy: true,
        only_configured_actions: false,
        accepted_identifiers: None,
        require_integrity: false,
        oprf_public_key: None,
        follows_oprf_key_in: Vec::new(),
        signing: None,
        secrets: Vec::new(),
    };
    let once = Action {
        app_id: APP.to_owned(),
        environment: ENVIRONMENT,
        action: ONCE.to_owned(),
        description: String::new(),
        max_verifications: 1,
        accept_legacy: true,
        accepted_identifiers: None,
        genesis_issued_at_min: None,
        require_integrity: false,
        sybil_scores: ScoreBounds::default(),
        roll: None,
    };
    let key = Arc::new(PreparedKey::new(&simulator().verification_key()));
    let verification = VerificationSettings {
        keys: vec![ConfiguredKey { environment: ENVIRONMENT, kind: ProofKind::Legacy, key }],
        directory: Directory::new([party], [once], [], [(ENVIRONMENT, ProofKind::Legacy)]),
        trusted_roots: vec![trusted(root(5))],
        ..VerificationSettings::default()
    };
    let salt = [7; 16];
    let secret = ClientSecret { salt, digest: Sha256::new().chain_update(salt).chain_update(SECRET).finalize().into() };
    let client = SignInClient {
        client: Client {
            id: APP.to_owned(),
            redirect_uris: vec![CALLBACK.to_owned()],
            post_logout_redirect_uris: Vec::new(),
            response_types: vec![ResponseType { code: true, id_token: false, token: false }],
            is_public: false,
            require_pkce: false,
        },
        name: "Example".to_owned(),
        secrets: vec![secret],
        environment: ENVIRONMENT,
        proof: SignInProof::Legacy,
        subject: SubjectKind::Nullifier,
        has_legacy_history: false,
        legacy: LegacyRules::default(),
        first_credential: None,
        only_group: None,
        allows_cross_device: true,
    };
    let sign_in = SignInSettings { clients: vec![client], ..SignInSettings::default() };
    Settings { verification, sign_in, ..Settings::for_instance(instance) }
}

/// A verification request with a proof of a person, in the form in which applications send it.
pub fn verification_request(person: u64, action: &str, root: u64) -> Value {
    let response = proof(person, action, hash_text(""), root);
    json!({
        "protocol_version": "3.0", "nonce": "n", "action": action, "environment": "staging", "responses": [response],
    })
}

/// A person's answer to the proof request of a sign-in.
pub fn sign_in_answer(person: u64, signal: &str) -> Value {
    json!({ "protocol_version": "3.0", "responses": [proof(person, "", hash_text(signal), 5)] })
}

fn proof(person: u64, action: &str, signal_hash: U256, root: u64) -> Value {
    let nullifier = U256::from(person + 1);
    let numbers = [U256::from(root), nullifier, signal_hash, external_nullifier(APP, action)];
    let inputs = numbers.map(|number| field_element(&number).expect("a field element"));
    let scalar = |number: u64| field_element(&U256::from(number)).expect("a field element");
    let proof = simulator().prove(&inputs, [scalar(2 * person + 3), scalar(2 * person + 4)]).expect("four inputs");
    let words: String = proof.to_legacy().iter().map(|word| format!("{word:064x}")).collect();
    json!({
        "identifier": "orb", "merkle_root": format!("{root:#x}"), "nullifier": format!("{nullifier:#x}"),
        "proof": format!("0x{words}"),
    })
}

/// The parameters of an authorization request of the application.
pub fn authorization_request() -> Vec<(String, String)> {
    let parameters = [
        ("client_id", APP),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid profile"),
        ("state", "s"),
        ("nonce", "n"),
    ];
    parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}
