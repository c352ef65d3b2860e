use ark_bn254::{Bn254, Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::pairing::{MillerLoopOutput, Pairing};
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup};
use ark_ff::{AdditiveGroup, Field, PrimeField, Zero};

use super::*;
use crate::U256;
use crate::groth16::point::{is_in_subgroup, root_power};
use crate::keccak256;
use selfsame_lanes::Portable;

/// What a kernel computes with plain integers, and where the processor has the instructions, with
/// them.
fn both<K: Kernel + Copy>(kernel: K) -> Vec<K::Output> {
    [Some(Portable.run(kernel)), run(kernel)].into_iter().flatten().collect()
}

fn number(seed: u64) -> [u64; 4] {
    U256::from_be_bytes(keccak256(seed.to_be_bytes()).0).into_limbs()
}

fn scalar(seed: u64) -> Fr {
    Fr::from_be_bytes_mod_order(&keccak256(seed.to_be_bytes()).0)
}

#[test]
fn batches_of_any_size_are_multiplied_as_by_ark() {
    let generator = G1Affine::generator();
    for count in [1, 3, 8, 9, 21] {
        let g1 = |seed| (generator * scalar(seed)).into_affine();
        let a: Vec<G1Affine> = (0..count).map(g1).collect();
        let b: Vec<G2Affine> =
            (0..count).map(|seed| (G2Affine::generator() * scalar(seed + 500)).into_affine()).collect();
        // Equal and opposite points, which the formulas of addition must not be wrong for.
        let c: Vec<G1Affine> = (0..count)
            .map(|seed| match seed % 4 {
                0 => generator,
                1 => -generator,
                2 => a[seed as usize],
                _ => g1(seed + 900),
            })
            .collect();
        let coefficients: Vec<Coefficient> = (0..count)
            .map(|seed| match seed {
                // Sums that pass through infinity.
                0 | 1 | 8 => Coefficient { low: u64::MAX, high: u64::MAX },
                2 => Coefficient { low: 0, high: 0 },
                3 => Coefficient { low: 1, high: 0 },
                4 => Coefficient { low: 0, high: 1 },
                _ => Coefficient { low: number(seed)[0], high: number(seed)[1] },
            })
            .collect();
        let left = std::iter::zip(&a, &coefficients).map(|(a, coefficient)| (*a * coefficient.scalar()).into_affine());
        let paired = Bn254::multi_pairing(left, &b);
        let sum: G1Projective =
            std::iter::zip(&c, &coefficients).map(|(c, coefficient)| *c * coefficient.scalar()).sum();
        for (product, found) in both(Batch { a: &a, b: &b, c: &c, coefficients: &coefficients }) {
            assert_eq!(Bn254::final_exponentiation(MillerLoopOutput(product)), Some(paired), "{count} proofs");
            assert_eq!(found, sum, "{count} proofs");
        }
    }
}

#[test]
fn powers_for_roots_are_those_of_the_scalar_arithmetic() {
    let mut elements = vec![Fq::ZERO, Fq::ONE, -Fq::ONE, Fq::from(3u64)];
    elements.extend((0..40).map(|seed| Fq::from_be_bytes_mod_order(&keccak256([seed]).0)));
    for count in [0, 1, 4, 8, 9, 16, 17, 44] {
        let expected: Vec<Fq> = elements[..count].iter().map(|element| root_power(*element)).collect();
        for powers in both(RootPowers(&elements[..count])) {
            assert_eq!(powers, expected, "{count} elements");
        }
    }
}

/// Points of the curve of G2, the most of them outside the subgroup: random ones, such of the order
/// of the cofactor, of its prime factor 10069, and sums of these with points of the subgroup.
fn points_of_the_curve() -> Vec<G2Affine> {
    let modulus = U256::from_limbs(Fr::MODULUS.0);
    // The cofactor is 2p - r.
    let cofactor = U256::from_limbs(Fq::MODULUS.0) * U256::from(2) - modulus;
    let (small, rest) = (U256::from(10_069), U256::ZERO);
    assert_eq!(cofactor % small, rest);
    let mut points = vec![G2Affine::generator(), -G2Affine::generator()];
    let mut x = Fq2::new(Fq::from(1u64), Fq::from(2u64));
    while points.len() < 50 {
        x.c0 += Fq::from(1u64);
        let Some(point) = G2Affine::get_point_from_x_unchecked(x, true) else { continue };
        let outside = point.mul_bigint(modulus.into_limbs());
        let of_small_order = outside.mul_bigint((cofactor / small).into_limbs());
        let inside = point.mul_bigint(cofactor.into_limbs());
        assert_eq!(of_small_order.mul_bigint(small.into_limbs()), inside * Fr::ZERO);
        points.push(point);
        points.extend([outside, of_small_order, inside, inside + of_small_order].map(CurveGroup::into_affine));
    }
    points.retain(|point| !point.is_zero());
    points
}

#[test]
fn the_subgroup_is_told_apart_in_lanes_and_in_scalars() {
    let points = points_of_the_curve();
    for points in points.chunks(LANES).chain(points.chunks(3)) {
        let expected: Vec<bool> = points.iter().map(|point| point.mul_bigint(Fr::MODULUS).is_zero()).collect();
        let in_scalars: Vec<bool> = points.iter().map(is_in_subgroup).collect();
        assert_eq!(in_scalars, expected);
        for mask in both(AreInSubgroup(points)) {
            let in_lanes: Vec<bool> = (0..points.len()).map(|lane| mask >> lane & 1 == 1).collect();
            assert_eq!(in_lanes, expected);
        }
    }
}
