//! Groth16 proofs on BN254: read strictly, checked one by one or many together.
//!
//! | module | what it does |
//! |---|---|
//! | [`point`] | curve points from numbers, plain and compressed, and back |
//! | [`proof`] | the encodings of proofs, legacy and current |
//! | [`key`] | verification keys from JSON, checked once, and prepared for checking |
//! | [`check`] | whether proofs hold: one, or a batch at the price of little more than its own pairings |
//! | [`simulator`] | a key whose setup secrets are public, and proofs for it |
//!
//! Proofs are malleable: whoever has one can make another for the same public inputs. Nothing may be keyed on a proof's bytes.

pub mod check;
pub mod key;
pub mod point;
pub mod proof;
pub mod simulator;
#[cfg(test)]
mod tests;

pub use check::{Claim, InputCountError};
pub use key::{KeyError, PreparedKey, VerificationKey};
pub use point::PointError;
pub use proof::Proof;

use ark_bn254::Fr;
use ark_ff::PrimeField;

use crate::U256;

/// An element of the scalar field as a number.
pub fn number(element: Fr) -> U256 {
    U256::from_limbs(element.into_bigint().0)
}
