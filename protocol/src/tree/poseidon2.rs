//! The Poseidon2 permutation of width 2 over BN254's scalars, of many states at once.
//!
//! One state is permuted by the crate `taceo-poseidon2`; the tests compare the two.

use std::sync::OnceLock;

use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, MontConfig};

use super::pages::{Node, hash_pair};
use selfsame_lanes::{Constant, Elements, Instructions, Kernel, LANES, Sum, Words};

/// The parents of pairs of nodes, in their order: [`hash_pair`] of each.
///
/// On a processor with AVX-512 IFMA eight pairs are hashed at once, so a caller should pass as many
/// pairs as it has. Elsewhere they are hashed one by one.
pub fn hash_pairs(pairs: &[[Node; 2]]) -> Vec<Node> {
    #[cfg(target_arch = "x86_64")]
    // A pair alone takes less time without lanes than in one of eight.
    if pairs.len() > 1
        && let Some(avx512) = selfsame_lanes::Avx512::detect()
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

// The round constants, computed by the compiler.
//
// They follow from the parameters of the permutation: the Poseidon papers define a generator of
// bits (Grain in its self-shrinking mode) that starts from the field, the width and the numbers of
// rounds. <https://eprint.iacr.org/2019/458>, appendix F.

/// Words of the state.
pub(super) const WIDTH: usize = 2;

/// Rounds in which each word goes through the power map; half of them come first, half last.
pub(super) const FULL_ROUNDS: usize = 8;

/// Rounds between them, in which only the first word does.
pub(super) const PARTIAL_ROUNDS: usize = 56;

/// Bits of an element.
const FIELD_BITS: u32 = 254;

/// How many constants there are.
const COUNT: usize = FULL_ROUNDS * WIDTH + PARTIAL_ROUNDS;

/// All constants, in the order in which they are used.
const ALL: [Fr; COUNT] = {
    let (mut generator, mut index) = (Grain::new(WIDTH, FULL_ROUNDS, PARTIAL_ROUNDS), 0);
    let mut constants = [Fr::new_unchecked(BigInt([0; 4])); COUNT];
    while index < COUNT {
        constants[index] = Fr::new(BigInt(generator.next_element()));
        index += 1;
    }
    constants
};

/// What is added before each of the first full rounds.
pub(super) const FIRST: [[Fr; WIDTH]; FULL_ROUNDS / 2] = full_rounds(0);

/// What is added to the first word before each partial round.
pub(super) const PARTIAL: [Fr; PARTIAL_ROUNDS] = {
    let (mut constants, mut round) = ([ALL[0]; PARTIAL_ROUNDS], 0);
    while round < PARTIAL_ROUNDS {
        constants[round] = ALL[FULL_ROUNDS / 2 * WIDTH + round];
        round += 1;
    }
    constants
};

/// What is added before each of the last full rounds.
pub(super) const LAST: [[Fr; WIDTH]; FULL_ROUNDS / 2] = full_rounds(FULL_ROUNDS / 2 * WIDTH + PARTIAL_ROUNDS);

const fn full_rounds(first: usize) -> [[Fr; WIDTH]; FULL_ROUNDS / 2] {
    let (mut constants, mut round) = ([[ALL[0]; WIDTH]; FULL_ROUNDS / 2], 0);
    while round < FULL_ROUNDS / 2 {
        constants[round] = [ALL[first + WIDTH * round], ALL[first + WIDTH * round + 1]];
        round += 1;
    }
    constants
}

/// The generator: a shift register of 80 bits. The lowest bit is the oldest.
pub(crate) struct Grain(u128);

impl Grain {
    /// The register that the parameters of a permutation fill, after its first 160 steps.
    pub(crate) const fn new(width: usize, full_rounds: usize, partial_rounds: usize) -> Self {
        // The kind of the field (prime), of the power map (a positive exponent), and ones at the
        // end.
        let parameters = [
            (1, 2),
            (0, 4),
            (FIELD_BITS as u128, 12),
            (width as u128, 12),
            (full_rounds as u128, 10),
            (partial_rounds as u128, 10),
            ((1 << 30) - 1, 30),
        ];
        // Each number is written from its highest bit on.
        let (mut written, mut index) = (0, 0);
        while index < parameters.len() {
            let (number, bits) = parameters[index];
            written = written << bits | number;
            index += 1;
        }
        let (mut generator, mut step) = (Self(written.reverse_bits() >> 48), 0);
        while step < 160 {
            generator.step();
            step += 1;
        }
        generator
    }

    /// A step of the register: its new bit.
    const fn step(&mut self) -> u128 {
        let Self(bits) = *self;
        let new = (bits ^ bits >> 13 ^ bits >> 23 ^ bits >> 38 ^ bits >> 51 ^ bits >> 62) & 1;
        self.0 = bits >> 1 | new << 79;
        new
    }

    /// The next bit: the second of a pair whose first one is set.
    const fn next_bit(&mut self) -> u64 {
        loop {
            let (first, second) = (self.step(), self.step());
            if first == 1 {
                return second as u64;
            }
        }
    }

    /// The next number below the modulus.
    pub(crate) const fn next_element(&mut self) -> [u64; 4] {
        loop {
            let number = self.next_number();
            if is_below(number, FrConfig::MODULUS.0) {
                return number;
            }
        }
    }

    /// The next number of as many bits as an element has, which can be above the modulus.
    pub(crate) const fn next_number(&mut self) -> [u64; 4] {
        let (mut number, mut bit) = ([0; 4], FIELD_BITS as usize);
        while bit > 0 {
            bit -= 1;
            number[bit / 64] |= self.next_bit() << (bit % 64);
        }
        number
    }
}

/// Whether a number is smaller than another one.
const fn is_below(left: [u64; 4], right: [u64; 4]) -> bool {
    let mut word = 4;
    while word > 0 {
        word -= 1;
        if left[word] != right[word] {
            return left[word] < right[word];
        }
    }
    false
}

// The hash of eight pairs of nodes at once.

/// The parents of pairs of nodes, in their order.
pub(super) struct Batch<'a> {
    pub constants: &'a Constants,
    pub pairs: &'a [[Node; 2]],
}

impl Kernel for Batch<'_> {
    type Output = Vec<Node>;

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) -> Vec<Node> {
        let mut hashed = Vec::with_capacity(self.pairs.len().next_multiple_of(LANES));
        let mut chunk = [[Node::ZERO; 2]; LANES];
        for pairs in self.pairs.chunks(LANES) {
            // In the last chunk the other lanes hash what the chunk before had.
            chunk[..pairs.len()].copy_from_slice(pairs);
            hashed.extend(parents(instructions, self.constants, &chunk));
        }
        hashed.truncate(self.pairs.len());
        hashed
    }
}

/// A state between the rounds. The first word has the bound of the sum `2x + y` that a partial
/// round makes, the second one that of a reduced sum.
struct State<W: Copy>(Elements<W, FrConfig, 8>, Elements<W, FrConfig, 4>);

/// The round constants, as they are put into lanes.
pub(super) struct Constants {
    first: [[Constant<FrConfig>; WIDTH]; FULL_ROUNDS / 2],
    partial: [Constant<FrConfig>; PARTIAL_ROUNDS],
    last: [[Constant<FrConfig>; WIDTH]; FULL_ROUNDS / 2],
}

impl Constants {
    pub(super) fn new() -> Self {
        let full = |round: [_; WIDTH]| round.map(Constant::new);
        Self { first: FIRST.map(full), partial: PARTIAL.map(Constant::new), last: LAST.map(full) }
    }
}

/// The parents of eight pairs of nodes.
///
/// Two groups of eight side by side take no less time a pair than one: the processor looks far
/// enough ahead to compute one product's columns while the reduction of another one waits.
#[inline(always)]
fn parents<I: Instructions>(instructions: I, constants: &Constants, pairs: &[[Node; 2]; LANES]) -> [Node; LANES] {
    let left = Elements::from_be_bytes(instructions, &pairs.map(|[left, _]| left.0));
    let right = Elements::from_be_bytes(instructions, &pairs.map(|[_, right]| right.0));
    let mut state = mix(left.sum(), right.sum());
    for round in &constants.first {
        state = full_round(instructions, round, state);
    }
    for constant in &constants.partial {
        let State(x, y) = state;
        let x = power(x.add(Elements::splat(instructions, constant)));
        // The matrix is (2 1; 1 3).
        let sum: Sum<_, _, 6> = x.add(y.sum());
        state = State(sum.add(x).carry(), sum.add::<8, 14>(y.sum().double()).reduce());
    }
    for round in &constants.last {
        state = full_round(instructions, round, state);
    }
    state.0.add::<2, 10>(left).to_be_bytes().map(Node::from)
}

#[inline(always)]
fn full_round<I: Instructions>(
    instructions: I,
    [first, second]: &[Constant<FrConfig>; WIDTH],
    State(x, y): State<I::Words>,
) -> State<I::Words> {
    let x = power(x.add(Elements::splat(instructions, first)));
    let y = power(y.add(Elements::splat(instructions, second)));
    mix(x, y)
}

/// The matrix of the full rounds: (2 1; 1 2).
#[inline(always)]
fn mix<W: Words>(x: Sum<W, FrConfig, 2>, y: Sum<W, FrConfig, 2>) -> State<W> {
    let sum: Sum<_, _, 4> = x.add(y);
    State(sum.add::<2, 6>(x).carry().widen(), sum.add::<2, 6>(y).reduce())
}

/// The power map, `x^5`.
#[inline(always)]
fn power<W: Words>(x: Elements<W, FrConfig, 9>) -> Sum<W, FrConfig, 2> {
    let square = x.square_sum::<3>().carry();
    square.square().mul_sum(x)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, keccak256};
    use ark_bn254::Fr;
    use ark_ff::PrimeField;

    use super::*;
    use super::{FIRST, LAST, PARTIAL};
    use selfsame_lanes::Portable;

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
