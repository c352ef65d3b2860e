//! The round constants, computed by the compiler.
//!
//! They follow from the parameters of the permutation: the Poseidon papers define a generator of
//! bits (Grain in its self-shrinking mode) that starts from the field, the width and the numbers of
//! rounds. <https://eprint.iacr.org/2019/458>, appendix F.

use ark_bn254::{Fr, FrConfig};
use ark_ff::{BigInt, MontConfig};

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
    let (mut generator, mut constants, mut index) = (Grain::new(), [Fr::new_unchecked(BigInt([0; 4])); COUNT], 0);
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
struct Grain(u128);

impl Grain {
    /// The register that the parameters fill, after its first 160 steps.
    const fn new() -> Self {
        // The kind of the field (prime), of the power map (a positive exponent), and ones at the
        // end.
        let parameters = [
            (1, 2),
            (0, 4),
            (FIELD_BITS as u128, 12),
            (WIDTH as u128, 12),
            (FULL_ROUNDS as u128, 10),
            (PARTIAL_ROUNDS as u128, 10),
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
    const fn next_element(&mut self) -> [u64; 4] {
        loop {
            let (mut number, mut bit) = ([0; 4], FIELD_BITS as usize);
            while bit > 0 {
                bit -= 1;
                number[bit / 64] |= self.next_bit() << (bit % 64);
            }
            if is_below(number, FrConfig::MODULUS.0) {
                return number;
            }
        }
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
