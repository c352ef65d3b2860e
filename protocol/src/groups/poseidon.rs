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

/// The constants and the matrices of a width.
///
/// A partial round is cheap in another form (appendix B of the paper). Only its first word goes
/// through the power map, so what the matrix does with the other words alone, and what is added to
/// them, can be done before the map as well, and so in the round before. What is left of the matrix
/// is its first row, its first column, and ones.
struct Parameters<const WIDTH: usize> {
    /// What is added before each of the full rounds: half of them are the first, half the last.
    full: [[Fr; WIDTH]; FULL_ROUNDS],
    matrix: [[Fr; WIDTH]; WIDTH],
    /// What is added before the first partial round, and the matrix that the state goes through
    /// then.
    before: [Fr; WIDTH],
    gathered: [[Fr; WIDTH]; WIDTH],
    partial: Vec<PartialRound<WIDTH>>,
}

/// A partial round: what is added to the first word behind the power map, and what is left of the
/// matrix. The place of the column's first entry is not used.
struct PartialRound<const WIDTH: usize> {
    constant: Fr,
    row: [Fr; WIDTH],
    column: [Fr; WIDTH],
}

impl<const WIDTH: usize> Parameters<WIDTH> {
    fn new(partial_rounds: usize) -> Self {
        let mut generator = Grain::new(WIDTH, FULL_ROUNDS, partial_rounds);
        let mut constant = || Fr::new(BigInt(generator.next_element()));
        let mut constants =
            |count: usize| -> Vec<[Fr; WIDTH]> { (0..count).map(|_| [(); WIDTH].map(|()| constant())).collect() };
        let (first, mut added) = (constants(FULL_ROUNDS / 2), constants(partial_rounds));
        let last = constants(FULL_ROUNDS / 2);
        let mut full = [[Fr::ZERO; WIDTH]; FULL_ROUNDS];
        full.iter_mut().zip(first.into_iter().chain(last)).for_each(|(place, round)| *place = round);
        // Numbers of the matrix are reduced, not drawn again.
        let mut words = || [(); WIDTH].map(|()| reduced(generator.next_number()));
        let (rows, columns) = (words(), words());
        // Row and column numbers of these widths are all different, so no sum is 0.
        let entry = |row: Fr, column: Fr| (row + column).inverse().unwrap_or_default();
        let matrix = rows.map(|row| columns.map(|column| entry(row, column)));

        // What is added before a round is added behind the power map of the one before: what the
        // matrix makes this of. There the other words' part is added before the map.
        let mut behind = vec![Fr::ZERO; partial_rounds];
        for round in (1..partial_rounds).rev() {
            let earlier = solve(&matrix, &added[round]);
            behind[round - 1] = earlier[0];
            added[round - 1].iter_mut().zip(&earlier).skip(1).for_each(|(word, more)| *word += more);
        }
        // From the last round on: a matrix is what is left of it, times what the other words go
        // through before.
        let mut gathered = matrix;
        let mut partial: Vec<_> = behind
            .into_iter()
            .rev()
            .map(|constant| {
                let of_others: Vec<Vec<Fr>> =
                    (1..WIDTH).map(|column| (1..WIDTH).map(|row| gathered[row][column]).collect()).collect();
                let mut row = gathered[0];
                row[1..].copy_from_slice(&solve(&of_others, &gathered[0][1..]));
                let column = gathered.map(|row| row[0]);
                let others = std::array::from_fn(|row| {
                    std::array::from_fn(|column| match (row, column) {
                        (0, 0) => Fr::ONE,
                        (0, _) | (_, 0) => Fr::ZERO,
                        _ => gathered[row][column],
                    })
                });
                gathered = product(&others, &matrix);
                (PartialRound { constant, row, column }, others)
            })
            .collect();
        partial.reverse();
        let gathered = partial.first().map_or(matrix, |(_, others)| *others);
        let before = added.first().copied().unwrap_or([Fr::ZERO; WIDTH]);
        let partial = partial.into_iter().map(|(round, _)| round).collect();
        Self { full, matrix, before, gathered, partial }
    }

    fn hash(&self, state: [Fr; WIDTH]) -> Fr {
        let (first, last) = self.full.split_at(FULL_ROUNDS / 2);
        let state = first.iter().fold(state, |state, round| self.full_round(state, round));
        let mut state = times(&self.gathered, &sum(state, &self.before));
        for PartialRound { constant, row, column } in &self.partial {
            power(&mut state[0]);
            state[0] += constant;
            let powered = state[0];
            state[0] = Fr::sum_of_products(row, &state);
            state.iter_mut().zip(column).skip(1).for_each(|(word, entry)| *word += *entry * powered);
        }
        last.iter().fold(state, |state, round| self.full_round(state, round))[0]
    }

    fn full_round(&self, state: [Fr; WIDTH], constants: &[Fr; WIDTH]) -> [Fr; WIDTH] {
        let mut state = sum(state, constants);
        state.iter_mut().for_each(power);
        times(&self.matrix, &state)
    }
}

fn sum<const WIDTH: usize>(mut state: [Fr; WIDTH], constants: &[Fr; WIDTH]) -> [Fr; WIDTH] {
    state.iter_mut().zip(constants).for_each(|(word, constant)| *word += constant);
    state
}

fn times<const WIDTH: usize>(matrix: &[[Fr; WIDTH]; WIDTH], state: &[Fr; WIDTH]) -> [Fr; WIDTH] {
    std::array::from_fn(|row| Fr::sum_of_products(&matrix[row], state))
}

fn product<const WIDTH: usize>(left: &[[Fr; WIDTH]; WIDTH], right: &[[Fr; WIDTH]; WIDTH]) -> [[Fr; WIDTH]; WIDTH] {
    let column = |column: usize| std::array::from_fn(|row| right[row][column]);
    left.map(|row| std::array::from_fn(|index| Fr::sum_of_products(&row, &column(index))))
}

/// The vector that a matrix makes `right` of. Every pivot of these matrices differs from 0, or the
/// recorded vectors would not match.
fn solve(matrix: &[impl AsRef<[Fr]>], right: &[Fr]) -> Vec<Fr> {
    let mut rows: Vec<Vec<Fr>> =
        matrix.iter().zip(right).map(|(row, right)| [row.as_ref(), &[*right]].concat()).collect();
    for pivot in 0..rows.len() {
        let inverse = rows[pivot][pivot].inverse().unwrap_or_default();
        rows[pivot].iter_mut().for_each(|entry| *entry *= inverse);
        let scaled = rows[pivot].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            let factor = row[pivot];
            row.iter_mut().zip(&scaled).for_each(|(entry, of_pivot)| *entry -= factor * of_pivot);
        }
    }
    rows.into_iter().filter_map(|mut row| row.pop()).collect()
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
