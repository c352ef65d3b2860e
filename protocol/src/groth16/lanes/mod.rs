//! Proofs in eight lanes, on processors that have the instructions.
//!
//! Each function returns `None` on other processors. The caller then computes the same with the
//! scalar arithmetic of `ark`.

mod fields;
mod g1;
mod g2;
mod pairing;
#[cfg(test)]
mod tests;

use ark_bn254::{Fq, Fq12, G1Affine, G1Projective, G2Affine};

use super::key::Coefficient;
use g2::AreInSubgroup;
use pairing::{Pairs, RootPowers};
#[cfg(target_arch = "x86_64")]
use selfsame_lanes::Avx512;
use selfsame_lanes::{Instructions, Kernel, LANES};

/// The proofs of a batch, and the powers that their equations are raised to.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub a: &'a [G1Affine],
    pub b: &'a [G2Affine],
    pub c: &'a [G1Affine],
    /// One for each proof.
    pub coefficients: &'a [Coefficient],
}

impl Batch<'_> {
    /// The product of the values of Miller's loops of the points A times their coefficients, and B;
    /// the sum of the points C times their coefficients.
    pub(super) fn multiply(self) -> Option<(Fq12, G1Projective)> {
        run(self)
    }
}

/// The power (p - 3) / 4 of each element.
pub(super) fn root_powers(elements: &[Fq]) -> Option<Vec<Fq>> {
    run(RootPowers(elements))
}

/// For each point of the curve of G2, which is not infinity, whether it is in the subgroup.
pub(super) fn are_in_subgroup(points: &[G2Affine]) -> Option<Vec<bool>> {
    let mut are_inside = Vec::with_capacity(points.len());
    for points in points.chunks(LANES) {
        let mask = run(AreInSubgroup(points))?;
        are_inside.extend((0..points.len()).map(|lane| mask >> lane & 1 == 1));
    }
    Some(are_inside)
}

/// Whether this processor has the instructions.
pub(super) fn are_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    let are_available = Avx512::detect().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let are_available = false;
    are_available
}

#[cfg(target_arch = "x86_64")]
fn run<K: Kernel>(kernel: K) -> Option<K::Output> {
    Avx512::detect().map(|instructions| instructions.run(kernel))
}

#[cfg(not(target_arch = "x86_64"))]
fn run<K: Kernel>(_: K) -> Option<K::Output> {
    None
}

impl Kernel for Batch<'_> {
    type Output = (Fq12, G1Projective);

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) -> Self::Output {
        let Self { a, b, c, coefficients } = self;
        let mut groups: Vec<Pairs<I::Words>> = Vec::with_capacity(a.len().div_ceil(LANES));
        for ((a, b), coefficients) in a.chunks(LANES).zip(b.chunks(LANES)).zip(coefficients.chunks(LANES)) {
            groups.push(Pairs::new(instructions, g1::multiples(instructions, a, coefficients), b));
        }
        let product = pairing::miller_loops(instructions, &mut groups);
        (product, g1::sum_of_multiples(instructions, c, coefficients))
    }
}
