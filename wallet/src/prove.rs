//! Proofs for the verification endpoint: genuine legacy proofs, and current proofs by the
//! simulator. All functions are pure except [`legacy_proof`] and [`legacy`], whose prover draws the
//! numbers that blind the proof.

use alloy_primitives::U256;
use selfsame_protocol::groth16::key::CURRENT_INPUTS;
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::number;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{Root, field_element};
use selfsame_protocol::verification::identity::{external_nullifier, hash_text, hash_to_field};
use selfsame_protocol::verification::items::{CurrentInputs, current_inputs};
use selfsame_protocol::verification::{Environment, LegacyIdentifier, RelyingPartyId};
use semaphore_rs::identity::Identity;
use semaphore_rs::poseidon_tree::LazyPoseidonTree;
use semaphore_rs::protocol::{generate_nullifier_hash, generate_proof};
use serde_json::{Value, json};

use crate::Random;
use crate::person::{Person, PersonError};

/// Depth of the identity tree of legacy proofs.
const IDENTITY_TREE_DEPTH: usize = 30;

/// The credential of legacy proofs.
pub const LEGACY_IDENTIFIER: LegacyIdentifier = LegacyIdentifier::Orb;

/// Expiry of simulated credentials: 2100-01-01, 00:00 UTC.
pub const CREDENTIAL_EXPIRY: UnixSeconds = UnixSeconds(4_102_444_800);

/// The first byte of a session's action.
const SESSION_PREFIX: u8 = 2;

/// The first byte of a session's seed.
const SEED_PREFIX: u8 = 1;

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
    /// The authenticator is none of the account that would be proved.
    #[error(transparent)]
    Person(#[from] PersonError),
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
    /// The session is not one of the wallet's account with the relying party.
    #[error(
        "the request is for a session that is not one of this wallet's account with {rp_id}; a wallet proves the sessions \
         of its own account only, so answer with a wallet of the account that began the session, or begin again as \
         another person"
    )]
    OtherSession {
        /// The relying party that asks.
        rp_id: RelyingPartyId,
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

impl ProofParameters<'_> {
    /// The external nullifier of a legacy proof.
    pub fn external_nullifier(&self) -> U256 {
        external_nullifier(self.app_id, self.action)
    }

    /// The signal hash of a legacy proof.
    pub fn signal_hash(&self) -> U256 {
        hash_text(self.signal)
    }
}

/// A legacy request, and the root of its proof's identity tree. The verification interface accepts
/// the proof only when it trusts this root.
#[derive(Clone, Debug)]
pub struct LegacyRequest {
    /// Root of the proof's identity tree, whose only leaf is the person's identity commitment.
    pub root: Root,
    /// The verification request as JSON.
    pub body: Value,
}

/// A legacy proof, apart from a request.
#[derive(Clone, Debug)]
pub struct LegacyProof {
    /// Root of the proof's identity tree. For an account the tree's only leaf is the person's
    /// identity commitment; for a member it is the tree of the group.
    pub root: Root,
    /// The nullifier: a public input of the proof.
    pub nullifier: U256,
    /// The eight words of the proof in hex, with one `0x` before them.
    pub words: String,
}

/// Makes a genuine legacy proof for values that are hashed already: the person's identity is the
/// only leaf of its tree. Each credential has a place of its own in the tree, and so a root of its
/// own. Uses all cores for about a second.
pub fn legacy_proof(
    person: &Person,
    credential: LegacyIdentifier,
    external_nullifier: U256,
    signal_hash: U256,
) -> Result<LegacyProof, ProveError> {
    let mut secret: [u8; 32] = person.number(&["identity"]).to_be_bytes();
    let identity = Identity::from_secret(&mut secret, None);
    let place = LegacyIdentifier::ALL.iter().position(|other| *other == credential).unwrap_or_default();
    let tree = LazyPoseidonTree::new(IDENTITY_TREE_DEPTH, U256::ZERO).derived().update(place, &identity.commitment());
    let nullifier = generate_nullifier_hash(&identity, external_nullifier);
    let proof = generate_proof(&identity, &tree.proof(place), external_nullifier, signal_hash)
        .map_err(|error| ProveError::Legacy(error.to_string()))?;
    let words: String = proof.flatten().iter().map(|word| format!("{word:064x}")).collect();
    Ok(LegacyProof { root: Root::from_number(tree.root()), nullifier, words: format!("0x{words}") })
}

/// Makes a verification request with a legacy proof.
pub fn legacy(
    person: &Person,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<LegacyRequest, ProveError> {
    legacy_of(person, LEGACY_IDENTIFIER, parameters, random)
}

/// The same for another credential.
pub fn legacy_of(
    person: &Person,
    identifier: LegacyIdentifier,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Result<LegacyRequest, ProveError> {
    let proof = legacy_proof(person, identifier, parameters.external_nullifier(), parameters.signal_hash())?;
    Ok(LegacyRequest { root: proof.root, body: legacy_request(identifier.name(), &proof, parameters, random) })
}

/// The verification request with a legacy proof that was made for the parameters, of the credential
/// with this name.
pub fn legacy_request(
    identifier: &str,
    proof: &LegacyProof,
    parameters: &ProofParameters<'_>,
    random: &mut Random<'_>,
) -> Value {
    json!({
        "protocol_version": "3.0",
        "nonce": number::canonical(parameters.nonce.unwrap_or_else(|| random_element(random))),
        "action": parameters.action,
        "environment": parameters.environment.name(),
        "responses": [{
            "identifier": identifier,
            "merkle_root": padded(proof.root.to_number()),
            "nullifier": padded(proof.nullifier),
            "proof": proof.words,
            "signal_hash": padded(parameters.signal_hash()),
        }],
    })
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
    /// The bound of the credential's first issue that its proofs show at least; 0 for none.
    pub genesis_issued_at_min: UnixSeconds,
}

/// What a current proof states besides its relying party, issuer and root. The signal, the action
/// and the nonce are field elements here.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// The hash of the signal; 0 without a signal.
    pub signal_hash: U256,
    /// The nonce of the request.
    pub nonce: U256,
    /// The credential does not expire before this time.
    pub expires_at_min: UnixSeconds,
    /// The credential was not issued for the first time before this time; 0 for no bound.
    pub credential_genesis_issued_at_min: UnixSeconds,
}

impl Statement {
    fn of(parameters: &ProofParameters<'_>, random: &mut Random<'_>) -> Self {
        Self {
            signal_hash: if parameters.signal.is_empty() { U256::ZERO } else { hash_text(parameters.signal) },
            nonce: parameters.nonce.unwrap_or_else(|| random_element(random)),
            expires_at_min: CREDENTIAL_EXPIRY,
            credential_genesis_issued_at_min: UnixSeconds(0),
        }
    }
}

/// A current proof by the simulator.
#[derive(Clone, Copy, Debug)]
pub struct CurrentProof {
    /// The nullifier: a public input of the proof.
    pub nullifier: U256,
    /// The action: a public input of the proof.
    pub action: U256,
    /// The words of the proof; the fifth is the root.
    pub words: [U256; 5],
}

/// The nullifier of a person's proofs of uniqueness for an action of a relying party.
pub fn nullifier(person: &Person, rp_id: RelyingPartyId, action: U256) -> Nullifier {
    Nullifier(person.number(&["nullifier", &rp_id.to_string(), &action.to_string()]))
}

/// Makes a proof of uniqueness with the simulator, which is bound to a session when one is given.
/// Its nullifier depends only on the person's account, the relying party and the action.
pub fn uniqueness_proof(
    person: &Person,
    action: U256,
    session: Option<&Session>,
    statement: &Statement,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<CurrentProof, ProveError> {
    let Nullifier(nullifier) = nullifier(person, party.rp_id, action);
    let commitment = session.map_or(U256::ZERO, |session| session.commitment);
    simulate(statement, party, nullifier, action, commitment, random)
}

/// Makes a proof in a session with the simulator. Its action is random, and its nullifier depends
/// only on the person's account, the relying party and that action.
pub fn session_proof(
    person: &Person,
    session: &Session,
    statement: &Statement,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<CurrentProof, ProveError> {
    let action = random_with_prefix(SESSION_PREFIX, random);
    let nullifier = person.number(&["session nullifier", &party.rp_id.to_string(), &action.to_string()]);
    simulate(statement, party, nullifier, action, session.commitment, random)
}

fn simulate(
    statement: &Statement,
    party: &SimulatedParty,
    nullifier: U256,
    action: U256,
    session_commitment: U256,
    random: &mut Random<'_>,
) -> Result<CurrentProof, ProveError> {
    let inputs = current_inputs(&CurrentInputs {
        nullifier: Nullifier(nullifier),
        issuer_schema_id: party.issuer_schema_id,
        issuer_public_key: party.issuer_public_key,
        expires_at_min: statement.expires_at_min,
        credential_genesis_issued_at_min: statement.credential_genesis_issued_at_min.max(party.genesis_issued_at_min),
        root: party.root,
        rp_id: party.rp_id.0,
        action,
        oprf_public_key: party.oprf_public_key,
        signal_hash: statement.signal_hash,
        nonce: statement.nonce,
        session_commitment,
    });
    let inputs = inputs.ok_or(ProveError::Input)?;
    let simulator = Simulator::from_seed(party.seed.as_bytes(), CURRENT_INPUTS);
    let scalars = [random_element(random), random_element(random)].map(|value| field_element(&value));
    let [Some(a), Some(b)] = scalars else { return Err(ProveError::Input) };
    let proof = simulator.prove(&inputs, [a, b]).map_err(|_| ProveError::Input)?;
    let [first, second, third, fourth] = proof.to_current();
    Ok(CurrentProof { nullifier, action, words: [first, second, third, fourth, party.root.to_number()] })
}

/// A session of a person with a relying party. Its commitment is derived from the person's account,
/// the relying party and the session's seed, so that every wallet of the account knows its sessions
/// without a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    commitment: U256,
    seed: U256,
}

impl Session {
    /// The person's first session with a relying party: always the same.
    pub fn first(person: &Person, rp_id: RelyingPartyId) -> Self {
        let rp_id = rp_id.to_string();
        let seed = person.number(&["session seed", &rp_id]) >> 8 | U256::from(SEED_PREFIX) << 248;
        Self { commitment: person.number(&["session", &rp_id]), seed }
    }

    /// A new session with a relying party.
    pub fn create(person: &Person, rp_id: RelyingPartyId, random: &mut Random<'_>) -> Self {
        Self::with_seed(person, rp_id, random_with_prefix(SEED_PREFIX, random))
    }

    /// The session of an id; `None` when the session is not one of this person with this relying
    /// party.
    pub fn open(person: &Person, rp_id: RelyingPartyId, id: &str) -> Option<Self> {
        let first = Self::first(person, rp_id);
        if first.id() == id {
            return Some(first);
        }
        let seed = id.get(id.len().checked_sub(64)?..)?;
        let session = Self::with_seed(person, rp_id, U256::from_str_radix(seed, 16).ok()?);
        (session.id() == id).then_some(session)
    }

    fn with_seed(person: &Person, rp_id: RelyingPartyId, seed: U256) -> Self {
        let commitment = person.number(&["session", &rp_id.to_string(), &seed.to_string()]);
        Self { commitment, seed }
    }

    /// The id: `session_`, the commitment and the seed, 64 hex digits each.
    pub fn id(&self) -> String {
        format!("session_{:064x}{:064x}", self.commitment, self.seed)
    }
}

/// Makes a uniqueness request with the simulator.
pub fn uniqueness(
    person: &Person,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    uniqueness_request(person, None, parameters, party, random)
}

/// Makes a uniqueness request with the simulator whose proof is bound to a new session, which the
/// request names.
pub fn bound_uniqueness(
    person: &Person,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let session = Session::create(person, party.rp_id, random);
    let mut request = uniqueness_request(person, Some(&session), parameters, party, random)?;
    request["proof_type"] = "uniqueness".into();
    request["session_id"] = session.id().into();
    Ok(request)
}

fn uniqueness_request(
    person: &Person,
    session: Option<&Session>,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let statement = Statement::of(parameters, random);
    let proof = uniqueness_proof(person, hash_text(parameters.action), session, &statement, party, random)?;
    let mut item = item(&proof, &statement, party);
    item["nullifier"] = padded(proof.nullifier).into();
    Ok(json!({
        "protocol_version": "4.0",
        "nonce": number::canonical(statement.nonce),
        "action": parameters.action,
        "environment": parameters.environment.name(),
        "responses": [item],
    }))
}

/// Makes a session request with the simulator. Its session depends only on the person's
/// account and the relying party.
pub fn session(
    person: &Person,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    session_request(person, &Session::first(person, party.rp_id), parameters, party, random)
}

/// The same for the session with this id.
///
/// # Errors
/// [`ProveError::OtherSession`] when the session is not one of the person's account with the
/// relying party.
pub fn session_of_id(
    person: &Person,
    id: &str,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let session = Session::open(person, party.rp_id, id);
    let session = session.ok_or(ProveError::OtherSession { rp_id: party.rp_id })?;
    session_request(person, &session, parameters, party, random)
}

fn session_request(
    person: &Person,
    session: &Session,
    parameters: &ProofParameters<'_>,
    party: &SimulatedParty,
    random: &mut Random<'_>,
) -> Result<Value, ProveError> {
    let statement = Statement::of(parameters, random);
    let proof = session_proof(person, session, &statement, party, random)?;
    let mut item = item(&proof, &statement, party);
    item["session_nullifier"] = json!([padded(proof.nullifier), padded(proof.action)]);
    Ok(json!({
        "protocol_version": "4.0",
        "nonce": number::canonical(statement.nonce),
        "session_id": session.id(),
        "environment": parameters.environment.name(),
        "responses": [item],
    }))
}

/// The fields that uniqueness and session items of a verification request have in common.
fn item(proof: &CurrentProof, statement: &Statement, party: &SimulatedParty) -> Value {
    json!({
        "identifier": party.identifier,
        "issuer_schema_id": party.issuer_schema_id,
        "expires_at_min": statement.expires_at_min,
        "signal_hash": padded(statement.signal_hash),
        "proof": proof.words.map(padded),
    })
}

/// A random number below the modulus of the scalar field, whose most significant byte is `prefix`.
fn random_with_prefix(prefix: u8, random: &mut Random<'_>) -> U256 {
    let mut bytes = [0; 32];
    random(&mut bytes);
    bytes[0] = prefix;
    U256::from_be_bytes(bytes)
}

fn random_element(random: &mut Random<'_>) -> U256 {
    let mut bytes = [0; 32];
    random(&mut bytes);
    hash_to_field(&bytes)
}

/// A number as `0x` and 64 hex digits.
pub(crate) fn padded(value: U256) -> String {
    format!("{value:#066x}")
}
