//! The simulator: a verification key whose setup secrets are public, and proofs for it.
//!
//! With the secrets of a setup, a program can make a proof for any statement. A proof for this key
//! therefore shows nothing about a person. Developers use the simulator to try out sign-in and
//! verification, and to test them under load, with proofs that pass the real pairing check. Its
//! keys are for the staging environment only.

use ark_bn254::{Fr, G1Affine, G2Affine};
use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::{Field, PrimeField, Zero};

use super::check::InputCountError;
use super::key::VerificationKey;
use super::proof::Proof;
use crate::keccak256;

/// The setup secrets, all derived from a seed: a program that has the seed can make proofs for the
/// key.
pub struct Simulator {
    alpha: Fr,
    beta: Fr,
    gamma: Fr,
    delta: Fr,
    /// One for the constant, one for each public input.
    inputs: Vec<Fr>,
}

impl Simulator {
    /// Derives the secrets from a seed, for proofs with `inputs` public inputs.
    pub fn from_seed(seed: &[u8], inputs: usize) -> Self {
        let secret = |name: &str, index: u64| {
            let mut counter = 0u64;
            loop {
                let text =
                    [b"selfsame simulator ", name.as_bytes(), &index.to_be_bytes(), &counter.to_be_bytes(), seed];
                let secret = Fr::from_be_bytes_mod_order(&keccak256(text.concat()).0);
                // A secret of zero would make the key degenerate. Its probability is about 2⁻²⁵⁴.
                if !secret.is_zero() {
                    return secret;
                }
                counter += 1;
            }
        };
        Self {
            alpha: secret("alpha", 0),
            beta: secret("beta", 0),
            gamma: secret("gamma", 0),
            delta: secret("delta", 0),
            inputs: (0..=inputs as u64).map(|index| secret("input", index)).collect(),
        }
    }

    /// The verification key.
    pub fn verification_key(&self) -> VerificationKey {
        VerificationKey {
            alpha: times_g1(self.alpha),
            beta: times_g2(self.beta),
            gamma: times_g2(self.gamma),
            delta: times_g2(self.delta),
            inputs: self.inputs.iter().map(|secret| times_g1(*secret)).collect(),
        }
    }

    /// A proof for any public inputs. `random` are two random numbers, and other numbers give
    /// another proof. A zero counts as 1.
    ///
    /// # Errors
    /// The number of inputs is not that of the key.
    pub fn prove(&self, inputs: &[Fr], random: [Fr; 2]) -> Result<Proof, InputCountError> {
        let (found, expected) = (inputs.len(), self.inputs.len() - 1);
        if found != expected {
            return Err(InputCountError { found, expected });
        }
        let [a, b] = random.map(|value| if value.is_zero() { Fr::from(1u64) } else { value });
        let constant = self.inputs[0];
        let sum =
            std::iter::zip(&self.inputs[1..], inputs).fold(constant, |sum, (secret, input)| sum + *secret * input);
        let rest = a * b - self.alpha * self.beta - self.gamma * sum;
        // `delta` is not zero, so the inverse exists. `rest` is zero once in about 2²⁵⁴ tries; C
        // would then be the point at infinity.
        let c = rest * self.delta.inverse().unwrap_or_default();
        Ok(Proof { a: times_g1(a), b: times_g2(b), c: times_g1(c) })
    }
}

fn times_g1(scalar: Fr) -> G1Affine {
    (G1Affine::generator() * scalar).into_affine()
}

fn times_g2(scalar: Fr) -> G2Affine {
    (G2Affine::generator() * scalar).into_affine()
}
