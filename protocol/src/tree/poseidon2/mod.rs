//! The Poseidon2 permutation of width 2 over BN254's scalars, of many states at once.
//!
//! One state is permuted by the crate `taceo-poseidon2`; the tests compare the two.

mod batch;
mod constants;

use std::sync::OnceLock;

use batch::{Batch, Constants};

use super::hash::{Node, hash_pair};
use crate::lanes::Instructions;

/// The parents of pairs of nodes, in their order: [`hash_pair`] of each.
///
/// On a processor with AVX-512 IFMA eight pairs are hashed at once, so a caller should pass as many
/// pairs as it has. Elsewhere they are hashed one by one.
pub fn hash_pairs(pairs: &[[Node; 2]]) -> Vec<Node> {
    #[cfg(target_arch = "x86_64")]
    // A pair alone takes less time without lanes than in one of eight.
    if pairs.len() > 1
        && let Some(avx512) = crate::lanes::Avx512::detect()
    {
        return hash_in_lanes(avx512, pairs);
    }
    pairs.iter().map(|[left, right]| hash_pair(left, right)).collect()
}

#[cfg_attr(not(any(test, target_arch = "x86_64")), expect(dead_code, reason = "there are no lanes"))]
fn hash_in_lanes(instructions: impl Instructions, pairs: &[[Node; 2]]) -> Vec<Node> {
    static CONSTANTS: OnceLock<Constants> = OnceLock::new();
    instructions.run(Batch { constants: CONSTANTS.get_or_init(Constants::new), pairs })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, keccak256};
    use ark_bn254::Fr;
    use ark_ff::PrimeField;

    use super::constants::{FIRST, LAST, PARTIAL};
    use super::*;
    use crate::lanes::Portable;

    /// `count` pairs without a pattern, of numbers below and above the modulus.
    fn scattered(count: u64) -> Vec<[Node; 2]> {
        (0..count).map(|index| [2 * index, 2 * index + 1].map(|number| keccak256(number.to_be_bytes()))).collect()
    }

    fn one_by_one(pairs: &[[Node; 2]]) -> Vec<Node> {
        pairs.iter().map(|[left, right]| hash_pair(left, right)).collect()
    }

    /// Zero, one, the modulus and its multiples with their neighbours, powers of two, the greatest
    /// number.
    fn edges() -> Vec<Node> {
        let modulus = U256::from_limbs(Fr::MODULUS.0);
        let multiples = (1..=5).map(|factor| modulus * U256::from(factor));
        let around = multiples.flat_map(|multiple| [multiple - U256::ONE, multiple, multiple + U256::ONE]);
        let powers = (0..256).step_by(13).map(|exponent| U256::ONE << exponent);
        [U256::ZERO, U256::MAX].into_iter().chain(around).chain(powers).map(Node::from).collect()
    }

    #[test]
    fn the_constants_give_the_permutation_of_the_library() {
        let mix = |[x, y]: [Fr; 2]| [x + x + y, x + y + y];
        let power = |x: Fr| x * x * x * x * x;
        let full = |[x, y]: [Fr; 2], [first, second]: [Fr; 2]| mix([power(x + first), power(y + second)]);
        let state = [Fr::from(1u64), Fr::from(2u64)];
        let first = FIRST.into_iter().fold(mix(state), full);
        let partial = PARTIAL.into_iter().fold(first, |[x, y], constant| {
            let x = power(x + constant);
            [x + x + y, x + y + y + y]
        });
        let permuted = LAST.into_iter().fold(partial, full);
        assert_eq!(permuted, taceo_poseidon2::bn254::t2::permutation(&state));
    }

    #[test]
    fn pairs_of_edges_have_the_hash_of_single_pairs() {
        let edges = edges();
        let pairs: Vec<_> = edges.iter().flat_map(|left| edges.iter().map(|right| [*left, *right])).collect();
        assert_eq!(hash_pairs(&pairs), one_by_one(&pairs));
        assert_eq!(hash_in_lanes(Portable, &pairs[..256]), one_by_one(&pairs[..256]));
    }

    #[test]
    fn batches_of_each_size_have_the_hashes_of_single_pairs() {
        let pairs = scattered(40);
        let hashes = one_by_one(&pairs);
        for count in 0..=pairs.len() {
            assert_eq!(hash_pairs(&pairs[..count]), hashes[..count]);
            assert_eq!(hash_in_lanes(Portable, &pairs[..count]), hashes[..count]);
        }
    }

    #[test]
    fn scattered_pairs_have_the_hash_of_single_pairs() {
        let pairs = scattered(50_000);
        assert_eq!(hash_pairs(&pairs), one_by_one(&pairs));
    }

    /// A million pairs take about ten seconds.
    #[test]
    #[ignore = "a longer run of the test above"]
    fn a_million_pairs_have_the_hash_of_single_pairs() {
        let pairs = scattered(1_000_000);
        assert_eq!(hash_pairs(&pairs), one_by_one(&pairs));
    }
}
