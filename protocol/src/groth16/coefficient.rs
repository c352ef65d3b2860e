//! The random coefficients of a batch.

use ark_bn254::Fr;
use ark_ec::scalar_mul::glv::GLVConfig;

/// A random coefficient `low + high · λ`. The endomorphism (x, y) ↦ (β·x, y) of G1 multiplies by λ,
/// a third root of 1, and costs one multiplication. So a product by the coefficient takes 64
/// doublings, where a number of 128 bits would take 128.
///
/// Different pairs are different coefficients modulo r, so 128 random bits give one of 2¹²⁸
/// coefficients: the shortest numbers `low` and `high` for which `low + high · λ` is a multiple of
/// r, other than zeros, have 126 bits or more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coefficient {
    pub low: u64,
    pub high: u64,
}

impl Coefficient {
    pub(super) fn new(random: u128) -> Self {
        Self { low: random as u64, high: (random >> 64) as u64 }
    }

    pub(super) fn scalar(self) -> Fr {
        Fr::from(self.low) + ark_bn254::g1::Config::LAMBDA * Fr::from(self.high)
    }
}
