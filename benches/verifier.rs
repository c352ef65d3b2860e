//! The cost of checking proofs, beside that of the pairings that every check needs.
//!
//! The yardstick is measured again for each line, so that a change of the machine's speed affects
//! both. docs/benchmarks-parts.md explains the lines.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark ends when a step fails"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ark_bn254::{Bn254, Fr, G1Affine, G2Affine};
use ark_ec::pairing::Pairing;
use ark_ec::{AffineRepr, CurveGroup};
use selfsame_protocol::U256;
use selfsame_protocol::groth16::check::{SMALLEST_BATCH, SMALLEST_BATCH_IN_LANES};
use selfsame_protocol::groth16::key::{CURRENT_INPUTS, LEGACY_INPUTS};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groth16::{Claim, PreparedKey, Proof, ProofWords};
use selfsame_protocol::verification::identity::hash_to_field;

/// Number of times that a line and its yardstick are measured in turns.
const SAMPLES: usize = 15;

/// Number of proofs in the largest batch of the verifier pool.
const BATCH: usize = 64;

fn main() {
    // `cargo test --benches` passes no `--bench`: there is nothing to test here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // The curve library divides its work among the pool's threads. One thread, because a verifier
    // worker has one core.
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    match one_core {
        Ok(pool) => pool.install(measure),
        Err(error) => eprintln!("{error}"),
    }
}

fn measure() {
    println!("{:<44}{:>12}   {:<24}{:>12}{:>8}", "on one core", "measured", "yardstick", "", "ratio");
    let pairings = Pairings::new();
    for (name, inputs) in [("legacy", LEGACY_INPUTS), ("current", CURRENT_INPUTS)] {
        let simulator = Simulator::from_seed(b"benchmark", inputs);
        let key = PreparedKey::new(&simulator.verification_key());
        key.warm_up();
        let claims: Vec<Claim> = (0..BATCH as u64).map(|number| claim(&simulator, inputs, number)).collect();
        for (form, words) in encoded(&claims) {
            measure_line(&format!("decode one {name} proof, {form}"), &pairings, 1, || {
                let _ = black_box(words[0].decode());
            });
            for count in [SMALLEST_BATCH_IN_LANES, BATCH] {
                measure_line(&format!("decode {count} {name} proofs, {form}, each"), &pairings, count, || {
                    black_box(ProofWords::decode_all(&words[..count]));
                });
            }
        }
        measure_line(&format!("check one {name} proof"), &pairings, 1, || {
            let _ = black_box(key.holds(&claims[0]));
        });
        let mut coefficient = coefficients();
        for count in [SMALLEST_BATCH_IN_LANES, SMALLEST_BATCH, BATCH] {
            measure_line(&format!("check {count} {name} proofs, each"), &pairings, count, || {
                let _ = black_box(key.which_hold(&claims[..count], &mut coefficient));
            });
        }
        measure_line(&format!("check {BATCH} {name} proofs in scalars, each"), &pairings, BATCH, || {
            let _ = black_box(key.which_hold_in_scalars(&claims, &mut coefficient));
        });
        let bad = bad_claims(&claims);
        for (kind, every) in [("good", 0), ("bad", 1), ("good and bad 1:1", 2), ("one of them bad", usize::MAX)] {
            for batch in [SMALLEST_BATCH_IN_LANES, SMALLEST_BATCH, BATCH] {
                let claims: Vec<Claim> = std::iter::zip(&claims, &bad)
                    .enumerate()
                    .take(batch)
                    .map(|(index, (good, bad))| {
                        let is_bad = every != 0 && index % every == 0;
                        if is_bad { bad.clone() } else { good.clone() }
                    })
                    .collect();
                measure_against_one(&key, &claims, &format!("{batch} {name} proofs, {kind}"));
            }
        }
    }
}

/// The words of proofs in both forms.
fn encoded(claims: &[Claim]) -> [(&'static str, Vec<ProofWords>); 2] {
    let proofs = || claims.iter().map(Claim::proof);
    [
        ("plain", proofs().map(|proof| ProofWords::Legacy(proof.to_legacy())).collect()),
        ("compressed", proofs().map(|proof| ProofWords::Current(proof.to_current())).collect()),
    ]
}

/// Other inputs than those that the proofs are made for.
fn bad_claims(claims: &[Claim]) -> Vec<Claim> {
    let inputs = |index: usize| inputs_of(claims[0].input_count(), index as u64 + 1);
    claims.iter().enumerate().map(|(index, claim)| Claim::new(claim.proof(), inputs(index))).collect()
}

/// Three pairings and one final exponentiation: the least that a verification needs.
struct Pairings {
    left: [G1Affine; 3],
    right: [G2Affine; 3],
}

impl Pairings {
    fn new() -> Self {
        let multiple = |number: u64| Fr::from(number);
        Self {
            left: [2, 3, 5].map(|number| (G1Affine::generator() * multiple(number)).into_affine()),
            right: [7, 11, 13].map(|number| (G2Affine::generator() * multiple(number)).into_affine()),
        }
    }

    fn run(&self) {
        let _ = black_box(Bn254::multi_pairing(black_box(self.left), black_box(self.right)));
    }
}

/// Measures a line and its yardstick in turns and prints the medians. The line's time is divided by
/// `parts`, the number of proofs that it checks.
fn measure_line(name: &str, pairings: &Pairings, parts: usize, mut routine: impl FnMut()) {
    let mut samples = Vec::new();
    let mut yardsticks = Vec::new();
    let mut ratios = Vec::new();
    for _ in 0..SAMPLES {
        let yardstick = time(|| pairings.run());
        let sample = time(&mut routine).div_f64(parts as f64);
        ratios.push(sample.div_duration_f64(yardstick));
        samples.push(sample);
        yardsticks.push(yardstick);
    }
    samples.sort_unstable();
    yardsticks.sort_unstable();
    ratios.sort_by(f64::total_cmp);
    let middle = SAMPLES / 2;
    let (sample, yardstick) = (format!("{:.2?}", samples[middle]), format!("{:.2?}", yardsticks[middle]));
    println!("{name:<44}{sample:>12}   {:<24}{yardstick:>12}{:>8.2}", "3 bare pairings", ratios[middle]);
}

/// Measures a batch, and one proof alone, in turns, and prints the cost of each proof of the batch.
fn measure_against_one(key: &PreparedKey, claims: &[Claim], name: &str) {
    let mut coefficient = coefficients();
    let mut ratios = Vec::new();
    for _ in 0..SAMPLES {
        let alone = time(|| {
            let _ = black_box(key.holds(&claims[0]));
        });
        let batch = time(|| {
            let _ = black_box(key.which_hold(claims, &mut coefficient));
        });
        ratios.push(batch.div_f64(claims.len() as f64).div_duration_f64(alone));
    }
    ratios.sort_by(f64::total_cmp);
    println!("{name:<44}{:>12}   {:<24}{:>12}{:>8.2}", "each", "one proof alone", "", ratios[SAMPLES / 2]);
}

fn time(mut routine: impl FnMut()) -> Duration {
    const REPEATED: u32 = 8;
    let started = Instant::now();
    for _ in 0..REPEATED {
        routine();
    }
    started.elapsed() / REPEATED
}

fn element(seed: u64) -> Fr {
    selfsame_protocol::tree::field_element(&hash_to_field(&seed.to_be_bytes())).unwrap_or_default()
}

fn inputs_of(inputs: usize, number: u64) -> Vec<Fr> {
    (0..inputs as u64).map(|index| element(number * 100 + index)).collect()
}

fn proof(simulator: &Simulator, inputs: usize, number: u64) -> Proof {
    let random = [element(number + 1_000_000), element(number + 2_000_000)];
    simulator.prove(&inputs_of(inputs, number), random).expect("as many inputs as the simulator has")
}

fn claim(simulator: &Simulator, inputs: usize, number: u64) -> Claim {
    Claim::new(proof(simulator, inputs, number), inputs_of(inputs, number))
}

fn coefficients() -> impl FnMut() -> u128 {
    let mut drawn = 0u64;
    move || {
        drawn += 1;
        let number: U256 = hash_to_field(&drawn.to_be_bytes());
        number.wrapping_to()
    }
}
