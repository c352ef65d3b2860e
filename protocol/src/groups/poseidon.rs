//! The Poseidon hash of the public legacy circuit, of one number and of two, over BN254's scalars.
//!
//! <https://eprint.iacr.org/2019/458>: a state of one word more than the input, whose first word is
//! 0; eight full rounds, and 56 or 57 partial ones between them; the hash is the first word. The
//! constants and the matrix follow from these parameters by the paper's generator of bits, as the
//! circuit's library takes them.

use std::sync::OnceLock;

use ark_bn254::Fr;
use ark_ff::{AdditiveGroup, BigInt, Field, PrimeField, Zero};
use rayon::prelude::*;

use super::names::FieldNumber;
use crate::U256;
use crate::tree::Grain;

/// Rounds in which each word goes through the power map; half of them come first, half last.
const FULL_ROUNDS: usize = 8;

/// From this number of pairs on they are hashed by all cores: below it, waking threads takes
/// longer.
const MANY: usize = 64;

/// The constants and the matrix of a width.
struct Parameters<const WIDTH: usize> {
    /// What is added before each round.
    rounds: Vec<[Fr; WIDTH]>,
    matrix: [[Fr; WIDTH]; WIDTH],
}

impl<const WIDTH: usize> Parameters<WIDTH> {
    fn new(partial_rounds: usize) -> Self {
        let mut generator = Grain::new(WIDTH, FULL_ROUNDS, partial_rounds);
        let mut constant = || Fr::new(BigInt(generator.next_element()));
        let rounds = (0..FULL_ROUNDS + partial_rounds).map(|_| [(); WIDTH].map(|()| constant())).collect();
        // Numbers of the matrix are reduced, not drawn again.
        let mut words = || [(); WIDTH].map(|()| reduced(generator.next_number()));
        let (rows, columns) = (words(), words());
        // Row and column numbers of these widths are all different, so no sum is 0.
        let entry = |row: Fr, column: Fr| (row + column).inverse().unwrap_or_default();
        Self { rounds, matrix: rows.map(|row| columns.map(|column| entry(row, column))) }
    }

    fn hash(&self, mut state: [Fr; WIDTH]) -> Fr {
        let last_full = self.rounds.len() - FULL_ROUNDS / 2;
        for (index, constants) in self.rounds.iter().enumerate() {
            for (word, constant) in state.iter_mut().zip(constants) {
                *word += constant;
            }
            let is_full = index < FULL_ROUNDS / 2 || index >= last_full;
            let powered = if is_full { WIDTH } else { 1 };
            state[..powered].iter_mut().for_each(power);
            state = self.matrix.map(|row| {
                let products = row.iter().zip(&state).map(|(entry, word)| *entry * word);
                products.fold(Fr::ZERO, |sum, product| sum + product)
            });
        }
        state[0]
    }
}

/// The power map, `x^5`.
fn power(word: &mut Fr) {
    let square = word.square();
    *word *= square.square();
}

fn reduced(number: [u64; 4]) -> Fr {
    let bytes: Vec<u8> = number.iter().flat_map(|word| word.to_le_bytes()).collect();
    Fr::from_le_bytes_mod_order(&bytes)
}

fn of_one() -> &'static Parameters<2> {
    static PARAMETERS: OnceLock<Parameters<2>> = OnceLock::new();
    PARAMETERS.get_or_init(|| Parameters::new(56))
}

fn of_two() -> &'static Parameters<3> {
    static PARAMETERS: OnceLock<Parameters<3>> = OnceLock::new();
    PARAMETERS.get_or_init(|| Parameters::new(57))
}

/// The hash of one number.
pub fn hash_one(number: FieldNumber) -> FieldNumber {
    from_element(of_one().hash([Fr::zero(), to_element(number)]))
}

/// The hash of two numbers; of two nodes of a tree it is their parent.
pub fn hash_two(left: FieldNumber, right: FieldNumber) -> FieldNumber {
    from_element(of_two().hash([Fr::zero(), to_element(left), to_element(right)]))
}

/// The hashes of many pairs, in their order.
pub fn hash_pairs(pairs: &[[FieldNumber; 2]]) -> Vec<FieldNumber> {
    let hash = |[left, right]: &[FieldNumber; 2]| hash_two(*left, *right);
    match pairs.len() {
        0..MANY => pairs.iter().map(hash).collect(),
        _ => pairs.par_iter().with_min_len(MANY / 4).map(hash).collect(),
    }
}

fn to_element(FieldNumber(number): FieldNumber) -> Fr {
    // A number of the field by construction; a damaged record of it is found by fsck.
    Fr::from_bigint(BigInt(*number.as_limbs())).unwrap_or_default()
}

fn from_element(element: Fr) -> FieldNumber {
    FieldNumber(U256::from_limbs(element.into_bigint().0))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{number, vectors};
    use super::*;

    #[test]
    fn hashes_match_the_recorded_vectors() {
        let constants = &vectors()["constants"];
        let (one, two) = (FieldNumber(U256::from(1)), FieldNumber(U256::from(2)));
        assert_eq!(hash_one(one), number(&constants["poseidon1_of_1"]));
        assert_eq!(hash_two(one, two), number(&constants["poseidon2_of_1_2"]));
        for case in vectors()["poseidon"].as_array().expect("a list") {
            let (left, right) = (number(&case["in"][0]), number(&case["in"][1]));
            assert_eq!(hash_two(left, right), number(&case["poseidon2"]), "{case}");
            assert_eq!(hash_one(left), number(&case["poseidon1_of_first"]), "{case}");
        }
    }

    #[test]
    fn many_pairs_have_the_hashes_of_single_pairs() {
        let pairs: Vec<_> = (0..MANY as u64 + 7).map(|n| [n, n * n].map(|n| FieldNumber(U256::from(n)))).collect();
        for count in [0, 1, MANY - 1, MANY, pairs.len()] {
            let one_by_one: Vec<_> = pairs[..count].iter().map(|[left, right]| hash_two(*left, *right)).collect();
            assert_eq!(hash_pairs(&pairs[..count]), one_by_one);
        }
    }
}
