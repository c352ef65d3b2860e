//! Proofs for the verification endpoint: genuine legacy proofs, and current proofs by the
//! simulator. All functions are pure except [`legacy`], whose prover draws the numbers that blind
//! the proof.

use alloy_primitives::U256;
use selfsame_protocol::groth16::key::CURRENT_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::number;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::hash::{external_nullifier, hash_text, hash_to_field};
use selfsame_protocol::verification::items::{CurrentInputs, current_inputs};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use semaphore_rs::identity::Identity;
use semaphore_rs::poseidon_tree::LazyPoseidonTree;
use semaphore_rs::protocol::{generate_nullifier_hash, generate_proof};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::Random;
use crate::keys::AuthenticatorKey;

/// Depth of the identity tree of legacy proofs.
const IDENTITY_TREE_DEPTH: usize = 30;

/// The credential of legacy proofs.
pub const LEGACY_IDENTIFIER: LegacyIdentifier = LegacyIdentifier::Orb;

/// Expiry of simulated credentials: 2100-01-01, 00:00 UTC.
const EXPIRES_AT_MIN: UnixSeconds = UnixSeconds(4_102_444_800);

/// The first byte of a session's action.
const SESSION_PREFIX: u8 = 2;

/// Why a proof was not made.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The prover of legacy proofs failed. Holds its error text.
    #[error("the legacy prover failed: {0}")]
    Legacy(String),
    /// A number that the proof states, such as the request's nonce or a coordinate of a public key,
    /// is not below the modulus of the BN254 scalar field.
    #[error("a public input is not below the modulus of the scalar field")]
    Input,
    /// The daemon's simulation has no relying party of the application.
    #[error(
        "the simulator has no relying party for {app_id}; add the application to [[apps]] in the daemon's configuration"
    )]
    UnknownApplication {
        /// Id of the application that was asked for.
        app_id: String,
    },
    /// The daemon's configuration gives the application's relying party no OPRF public key, which
    /// is a public input of current proofs.
    #[error("the relying party of {app_id} has no OPRF public key; set it in [[relying_parties]]")]
    NoOprfKey {
        /// Id of the application that was asked for.
        app_id: String,
    },
    /// The daemon's simulation has no issuer, or the first issuer has no identifier.
    #[error("the daemon has no issuer for staging; add one to [[issuers]]")]
    NoIssuer,
}

/// What a proof is requested for.
#[derive(Clone, Debug)]
pub struct ProofParameters<'a> {
    /// Id of the application that requests the proof.
    pub app_id: &'a str,
    /// The action; sessions ignore it.
    pub action: &'a str,
    /// Text that the proof is bound to; may be empty.
    pub signal: &'a str,
    /// Environment of the verification request.
    pub environment: Environment,
    /// The request's nonce, to which a current proof is bound; random when `None`.
    pub nonce: Option<U256>,
}

/// A legacy request, and the root of its proof's identity tree. The verification interface accepts
/// the proof only when it trusts this root.
#[derive(Clone, Debug)]
pub struct LegacyRequest {
    /// Root of the proof's identity tree, whose only leaf is the wallet's identity commitment.
    pub root: Root,
    /// The verification request as JSON.
    pub body: Value,
}

/// Makes a genuine legacy proof: the wallet's identity is the only leaf of its tree. Uses all cores
/// for about a second.
pub fn legacy(
    key: &AuthenticatorKey,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<LegacyRequest, ProveError> {
    let mut secret = Zeroizing::new(*key.seed());
    let identity = Identity::from_secret(secret.as_mut_slice(), None);
    let tree = LazyPoseidonTree::new(IDENTITY_TREE_DEPTH, U256::ZERO).derived().update(0, &identity.commitment());
    let external_nullifier = external_nullifier(parameters.app_id, parameters.action);
    let signal_hash = hash_text(parameters.signal);
    let nullifier = generate_nullifier_hash(&identity, external_nullifier);
    let proof = generate_proof(&identity, &tree.proof(0), external_nullifier, signal_hash)
        .map_err(|error| ProveError::Legacy(error.to_string()))?;
    let words: String = proof.flatten().iter().map(|word| format!("{word:064x}")).collect();
    let root = Root::from_number(tree.root());
    let body = json!({
        "protocol_version": "3.0",
        "nonce": number::canonical(parameters.nonce.unwrap_or_else(|| random_element(random))),
        "action": parameters.action,
        "environment": parameters.environment.name(),
        "responses": [{
            "identifier": LEGACY_IDENTIFIER.name(),
            "merkle_root": padded(root.to_number()),
            "nullifier": padded(nullifier),
            "proof": format!("0x{words}"),
            "signal_hash": padded(signal_hash),
        }],
    });
    Ok(LegacyRequest { root, body })
}

/// The relying party, the issuer and the root of a simulated proof.
#[derive(Clone, Debug)]
pub struct SimulatedParty {
    /// The simulator's seed.
    pub seed: String,
    /// Id of the relying party.
    pub rp_id: RelyingPartyId,
    /// OPRF public key of the relying party: the coordinates x and y.
    pub oprf_public_key: [U256; 2],
    /// Id of the issuer's schema.
    pub issuer_schema_id: u64,
    /// Identifier of the credential.
    pub identifier: String,
    /// Public key of the issuer: the coordinates x and y.
    pub issuer_public_key: [U256; 2],
    /// A valid root of the registry.
    pub root: Root,
}

/// Makes a uniqueness request with the simulator. Its nullifier depends only on the wallet, the
/// relying party and the action.
pub fn uniqueness(
    key: &AuthenticatorKey,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let action = hash_text(parameters.action);
    let nullifier = Nullifier(own_number(key, &["nullifier", &party.rp_id.to_string(), &action.to_string()]));
    let simulated = Simulated { nullifier, action, session_commitment: U256::ZERO };
    let (nonce, mut item) = simulated.item(parameters, party, random)?;
    item["nullifier"] = padded(nullifier.0).into();
    Ok(json!({
        "protocol_version": "4.0",
        "nonce": number::canonical(nonce),
        "action": parameters.action,
        "environment": parameters.environment.name(),
        "responses": [item],
    }))
}

/// Makes a session request with the simulator. Its session depends only on the wallet and the
/// relying party.
pub fn session(
    key: &AuthenticatorKey,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let rp_id = party.rp_id.to_string();
    let commitment = own_number(key, &["session", &rp_id]);
    let mut action = [0; 32];
    random(&mut action);
    action[0] = SESSION_PREFIX;
    let action = U256::from_be_bytes(action);
    let nullifier = Nullifier(own_number(key, &["session nullifier", &rp_id, &action.to_string()]));
    let simulated = Simulated { nullifier, action, session_commitment: commitment };
    let (nonce, mut item) = simulated.item(parameters, party, random)?;
    item["session_nullifier"] = json!([padded(nullifier.0), padded(action)]);
    let seed = own_number(key, &["session seed", &rp_id]) >> 8 | U256::from(1) << 248;
    Ok(json!({
        "protocol_version": "4.0",
        "nonce": number::canonical(nonce),
        "session_id": format!("session_{commitment:064x}{seed:064x}"),
        "environment": parameters.environment.name(),
        "responses": [item],
    }))
}

struct Simulated {
    nullifier: Nullifier,
    action: U256,
    session_commitment: U256,
}

impl Simulated {
    /// The nonce, and the fields that uniqueness and session items have in common.
    fn item(
        &self,
        parameters: &ProofParameters<'_>,
        party: &SimulatedParty,
        random: &mut Random<'_>,
    ) -> Result<(U256, Value), ProveError> {
        let nonce = parameters.nonce.unwrap_or_else(|| random_element(random));
        let signal_hash = if parameters.signal.is_empty() { U256::ZERO } else { hash_text(parameters.signal) };
        let inputs = current_inputs(&CurrentInputs {
            nullifier: self.nullifier,
            issuer_schema_id: party.issuer_schema_id,
            issuer_public_key: party.issuer_public_key,
            expires_at_min: EXPIRES_AT_MIN,
            credential_genesis_issued_at_min: UnixSeconds(0),
            root: party.root,
            rp_id: party.rp_id.0,
            action: self.action,
            oprf_public_key: party.oprf_public_key,
            signal_hash,
            nonce,
            session_commitment: self.session_commitment,
        });
        let inputs = inputs.ok_or(ProveError::Input)?;
        let simulator = Simulator::from_seed(party.seed.as_bytes(), CURRENT_INPUTS);
        let scalars = [random_element(random), random_element(random)].map(|value| field_element(&value));
        let [Some(a), Some(b)] = scalars else { return Err(ProveError::Input) };
        let proof = simulator.prove(&inputs, [a, b]).map_err(|_| ProveError::Input)?;
        let mut words = proof.to_current().map(padded).to_vec();
        words.push(padded(party.root.to_number()));
        let item = json!({
            "identifier": party.identifier,
            "issuer_schema_id": party.issuer_schema_id,
            "expires_at_min": EXPIRES_AT_MIN,
            "signal_hash": padded(signal_hash),
            "proof": words,
        });
        Ok((nonce, item))
    }
}

/// A field element that is derived from the wallet's seed and `texts`.
fn own_number(key: &AuthenticatorKey, texts: &[&str]) -> U256 {
    let mut bytes = Zeroizing::new(b"selfsame wallet\0".to_vec());
    bytes.extend_from_slice(key.seed());
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    hash_to_field(&bytes)
}

fn random_element(random: &mut Random<'_>) -> U256 {
    let mut bytes = [0; 32];
    random(&mut bytes);
    hash_to_field(&bytes)
}

fn padded(value: U256) -> String {
    format!("{value:#066x}")
}
