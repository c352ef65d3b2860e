//! The verification requests of the load, and the single check of a proof that is their yardstick.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use ark_bn254::{Bn254, Fr, G1Affine, G2Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_groth16::{Groth16, PreparedVerifyingKey, Proof, VerifyingKey, prepare_verifying_key};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize, SerializationError};
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::number;
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_wallet::client::Client;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::person::Person;
use selfsame_wallet::prove::{self, LEGACY_IDENTIFIER, ProofParameters, SimulatedParty};

use crate::accounts::random;
use crate::client::Call;
use crate::daemon::Daemon;
use crate::{Failure, url};

/// The example application of `--dev`.
const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";

/// Different legacy requests, each with a nullifier of its own. The daemon records one use of a
/// nullifier after the other, so few of them would measure the wait for the disk.
const LEGACY_REQUESTS: usize = 64;

/// Different current requests, each of a person of its own.
const CURRENT_REQUESTS: u64 = 512;

/// The requests of one kind.
pub async fn requests(kind: ProofKind, daemon: &Daemon, data: &Path) -> Result<Vec<Call>, Failure> {
    match kind {
        ProofKind::Legacy => legacy_requests(daemon, data),
        ProofKind::Current => current_requests(daemon).await,
    }
}

/// Proofs of one person for several actions, against a root that the daemon is told to trust.
fn legacy_requests(daemon: &Daemon, data: &Path) -> Result<Vec<Call>, Failure> {
    let mut random = random();
    let person = Person::assumed("load", LeafIndex(1));
    let mut calls = Vec::new();
    for number in 0..LEGACY_REQUESTS {
        let request = prove::legacy(&person, &asked(&format!("action {number}")), &mut random)?;
        if number == 0 {
            trust(&number::canonical(request.root.to_number()), daemon, data)?;
        }
        calls.push(Call::post(format!("/api/v4/verify/{APP}"), request.body.to_string()));
    }
    Ok(calls)
}

/// Proofs of the daemon's simulator.
async fn current_requests(daemon: &Daemon) -> Result<Vec<Call>, Failure> {
    let mut random = random();
    let root = Client::new(&url(daemon.gateway), &url(daemon.indexer))?.root().await?.root;
    let simulation = Operator::new(&url(daemon.operator))?.simulation().await?;
    let party = SimulatedParty::of(simulation, APP, root)?;
    let mut calls = Vec::new();
    for leaf_index in 1..=CURRENT_REQUESTS {
        let person = Person::assumed(&party.seed, LeafIndex(leaf_index));
        let request = prove::uniqueness(&person, &asked("vote"), &party, &mut random)?;
        calls.push(Call::post(format!("/api/v4/verify/{APP}"), request.to_string()));
    }
    Ok(calls)
}

fn asked(action: &str) -> ProofParameters<'_> {
    ProofParameters { app_id: APP, action, signal: "", environment: Environment::Staging, nonce: None }
}

/// Adds a root as an operator does.
fn trust(root: &str, daemon: &Daemon, data: &Path) -> Result<(), Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selfsame"));
    command
        .args(["roots", "add", root, "--kind", "legacy", "--environment", "staging"])
        .args(["--identifier", LEGACY_IDENTIFIER.name(), "--operator", &url(daemon.operator)])
        .arg("--data")
        .arg(data)
        .stdout(Stdio::null());
    match command.status()?.success() {
        true => Ok(()),
        false => Err("the daemon did not take the root of the legacy proofs".into()),
    }
}

/// One proof, and what `ark-groth16` needs to check it again and again.
pub struct SingleCheck {
    encoded: Vec<u8>,
    decode: fn(&[u8]) -> Result<Proof<Bn254>, SerializationError>,
    inputs: Vec<Fr>,
    key: PreparedVerifyingKey<Bn254>,
}

static LEGACY: LazyLock<SingleCheck> = LazyLock::new(|| SingleCheck::new(ProofKind::Legacy));
static CURRENT: LazyLock<SingleCheck> = LazyLock::new(|| SingleCheck::new(ProofKind::Current));

impl SingleCheck {
    /// The check of one kind, prepared when it is first asked for.
    pub fn of(kind: ProofKind) -> &'static Self {
        match kind {
            ProofKind::Legacy => &LEGACY,
            ProofKind::Current => &CURRENT,
        }
    }

    /// Makes a key whose secrets are known, and with them a proof.
    fn new(kind: ProofKind) -> Self {
        let [alpha, beta, gamma, delta, a, b] = [2, 3, 5, 7, 11, 13].map(|number: u64| Fr::from(number));
        let count = match kind {
            ProofKind::Legacy => LEGACY_INPUTS,
            ProofKind::Current => CURRENT_INPUTS,
        };
        // The negative numbers have the full length.
        let inputs: Vec<Fr> = (1..=count as u64).map(|input| -Fr::from(input)).collect();
        let secrets: Vec<Fr> = (0..=count as u64).map(|secret| Fr::from(secret + 17)).collect();
        let sum = std::iter::zip(&secrets[1..], &inputs).fold(secrets[0], |sum, (secret, input)| sum + *secret * input);
        let g1 = |secret: Fr| (G1Affine::generator() * secret).into_affine();
        let g2 = |secret: Fr| (G2Affine::generator() * secret).into_affine();
        let proof = Proof::<Bn254> { a: g1(a), b: g2(b), c: g1((a * b - alpha * beta - gamma * sum) / delta) };
        let mut encoded = Vec::new();
        let (written, decode): (_, fn(&[u8]) -> _) = match kind {
            ProofKind::Legacy => {
                (proof.serialize_uncompressed(&mut encoded), |bytes| Proof::deserialize_uncompressed(bytes))
            }
            ProofKind::Current => {
                (proof.serialize_compressed(&mut encoded), |bytes| Proof::deserialize_compressed(bytes))
            }
        };
        written.expect("a vector takes all bytes");
        let key = prepare_verifying_key(&VerifyingKey {
            alpha_g1: g1(alpha),
            beta_g2: g2(beta),
            gamma_g2: g2(gamma),
            delta_g2: g2(delta),
            gamma_abc_g1: secrets.into_iter().map(g1).collect(),
        });
        Self { encoded, decode, inputs, key }
    }

    /// Decodes the proof, with the checks of its points, and checks it.
    pub fn holds(&self) -> bool {
        (self.decode)(&self.encoded)
            .is_ok_and(|proof| Groth16::<Bn254>::verify_proof(&self.key, &proof, &self.inputs).unwrap_or(false))
    }
}
