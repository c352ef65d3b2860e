//! Groth16 proofs on BN254: strict readers, and checks of single proofs and of batches.
//!
//! | module | what it does |
//! |---|---|
//! | [`point`] | curve points from numbers, plain and compressed, and back |
//! | [`proof`] | the encodings of proofs, legacy and current |
//! | [`key`] | verification keys from JSON, checked once, and prepared for checking |
//! | [`check`] | whether proofs hold: one, or a batch with one pairing for each proof |
//! | `lanes` | the expensive parts, eight at a time |
//! | [`simulator`] | a key whose setup secrets are public, and proofs for it |
//!
//! Proofs are malleable: from one proof, a second proof for the same public inputs can be computed
//! without its secrets. The bytes of a proof must therefore not be a key of anything.

pub mod check;
pub mod key;
mod lanes;
pub mod point;
pub mod proof;
pub mod simulator;
#[cfg(test)]
mod tests;

pub use check::{Claim, EncodedClaim, InputCountError};
pub use key::{KeyError, PreparedKey, VerificationKey};
pub use point::PointError;
pub use proof::{Proof, ProofError, ProofWords};

use ark_bn254::Fr;
use ark_ff::PrimeField;

use crate::U256;

/// An element of the scalar field as a number.
pub fn number(element: Fr) -> U256 {
    U256::from_limbs(element.into_bigint().0)
}
