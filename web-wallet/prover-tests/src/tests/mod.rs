//! Compares the prover with `semaphore-rs`, arkworks, and the daemon's verifier.

mod arithmetic;
mod circuit;
mod proofs;
mod vectors;

use std::sync::atomic::{AtomicUsize, Ordering};

use ark_bn254::Fr;
use ark_ff::{BigInteger, PrimeField, UniformRand};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use selfsame_prover::field::{Element, Modulus};
use selfsame_prover::witness::DEPTH;
use selfsame_prover::{ProvingKey, Request};
use semaphore_rs::identity::Identity;
use semaphore_rs::poseidon_tree::{Branch, Proof as Path};

/// The prover's key as it is checked in.
const KEY: &[u8] = include_bytes!("../../../prover/key.bin");

/// The key, read once.
fn key() -> &'static ProvingKey {
    static READ: std::sync::LazyLock<ProvingKey> =
        std::sync::LazyLock::new(|| ProvingKey::read(KEY).expect("the key is whole"));
    &READ
}

/// The random numbers of a test. `TEST_SEED` in the environment chooses others.
fn random() -> ChaCha20Rng {
    let seed = std::env::var("TEST_SEED").map_or(1, |seed| seed.parse().expect("TEST_SEED is a number"));
    println!("TEST_SEED={seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

/// How many random cases a test tries: as many as the variable says, or `usual`.
fn cases(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |cases| cases.parse().expect("a number of cases"))
}

/// Runs a check for so many random seeds, on all cores. A check that fails names its seed.
fn check_seeds(count: usize, check: impl Fn(u64) + Sync) {
    let mut random = random();
    let seeds: Vec<u64> = (0..count).map(|_| random.r#gen()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(*seed);
                }
            });
        }
    });
    assert!(next.into_inner() >= count);
}

/// An element of arkworks as 32 bytes, the highest first.
fn bytes<F: PrimeField>(element: F) -> [u8; 32] {
    element.into_bigint().to_bytes_be().try_into().expect("32 bytes")
}

/// The prover's element for one of arkworks.
fn ours<F: PrimeField, M: Modulus>(element: F) -> Element<M> {
    Element::from_bytes(&bytes(element)).expect("below the modulus")
}

/// Random bytes that the prover reads as this number.
fn wide(element: Fr) -> [u8; 48] {
    let mut wide = [0; 48];
    wide[16..].copy_from_slice(&bytes(element));
    wide
}

/// A statement at random: what `semaphore-rs` takes, and the prover's request for the same without
/// randomness.
struct Statement {
    identity: Identity,
    path: Path,
    external_nullifier: Fr,
    signal_hash: Fr,
    request: Request,
}

impl Statement {
    fn at_random(random: &mut impl Rng) -> Self {
        let position = random.r#gen::<u32>() >> 2;
        let siblings: [Fr; DEPTH] = std::array::from_fn(|_| Fr::rand(random));
        Self::new([(); 4].map(|()| Fr::rand(random)), position, siblings)
    }

    fn new(numbers: [Fr; 4], position: u32, siblings: [Fr; DEPTH]) -> Self {
        let [nullifier_seed, trapdoor, external_nullifier, signal_hash] = numbers;
        let branch = |(level, sibling): (usize, &Fr)| match position >> level & 1 {
            0 => Branch::Left((*sibling).into()),
            _ => Branch::Right((*sibling).into()),
        };
        Self {
            identity: Identity { nullifier: nullifier_seed.into(), trapdoor: trapdoor.into() },
            path: semaphore_rs_trees::InclusionProof(siblings.iter().enumerate().map(branch).collect()),
            external_nullifier,
            signal_hash,
            request: Request {
                nullifier_seed: bytes(nullifier_seed),
                trapdoor: bytes(trapdoor),
                position,
                siblings: siblings.map(bytes),
                root: None,
                external_nullifier: bytes(external_nullifier),
                signal_hash: bytes(signal_hash),
                randomness: [[0; 48]; 2],
            },
        }
    }
}
