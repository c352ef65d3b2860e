//! The hash function of the circuit: Poseidon with the parameters of circomlib, for one number and
//! for two. Its constants are computed as the designers of Poseidon compute them.

use crate::field::{Field, Limbs, Scalar};

/// Rounds at the beginning in which all elements of the state go through the S-box, and as many at
/// the end.
pub const FULL_ROUNDS: usize = 4;

/// Rounds between them for a state of two elements: only the first one goes through the S-box.
const PARTIAL_ROUNDS_OF_TWO: usize = 56;

/// The same for a state of three elements.
const PARTIAL_ROUNDS_OF_THREE: usize = 57;

/// The permutation of a state of `T` elements.
pub struct Permutation<const T: usize> {
    /// What is added to the state at the beginning of each round.
    constants: Vec<[Scalar; T]>,
    /// What the state is multiplied with at the end of each round.
    matrix: [[Scalar; T]; T],
}

impl<const T: usize> Permutation<T> {
    fn new(partial_rounds: usize) -> Self {
        let rounds = 2 * FULL_ROUNDS + partial_rounds;
        let mut stream = Grain::new(T, partial_rounds);
        let constants = (0..rounds).map(|_| [(); T].map(|()| stream.constant())).collect();
        // A Cauchy matrix.
        let rows = [(); T].map(|()| stream.number());
        let columns = [(); T].map(|()| stream.number());
        Self { constants, matrix: rows.map(|row| columns.map(|column| (row + column).inverse())) }
    }

    /// The states at all S-boxes, round by round, and at last the resulting state.
    pub fn states(&self, input: [Scalar; T]) -> Vec<[Scalar; T]> {
        let last_full = self.constants.len() - FULL_ROUNDS;
        let mut states = Vec::with_capacity(self.constants.len() + 1);
        let mut state = input;
        for (round, constants) in self.constants.iter().enumerate() {
            for (element, constant) in state.iter_mut().zip(constants) {
                *element = *element + *constant;
            }
            states.push(state);
            let boxes = if (FULL_ROUNDS..last_full).contains(&round) { 1 } else { T };
            for element in &mut state[..boxes] {
                *element = element.square().square() * *element;
            }
            state = self.matrix.map(|row| {
                row.iter().zip(&state).fold(Scalar::ZERO, |sum, (factor, element)| sum + *factor * *element)
            });
        }
        states.push(state);
        states
    }
}

/// The two hash functions.
pub struct Poseidon {
    /// The permutation for one number.
    pub of_two: Permutation<2>,
    /// The permutation for two numbers.
    pub of_three: Permutation<3>,
}

impl Poseidon {
    /// Computes the constants, in about a millisecond.
    pub fn new() -> Self {
        Self { of_two: Permutation::new(PARTIAL_ROUNDS_OF_TWO), of_three: Permutation::new(PARTIAL_ROUNDS_OF_THREE) }
    }

    /// The hash of a number.
    pub fn hash_one(&self, number: Scalar) -> Scalar {
        output(&self.of_two.states([Scalar::ZERO, number]))
    }

    /// The hash of two numbers, which is a node of a tree.
    pub fn hash_two(&self, left: Scalar, right: Scalar) -> Scalar {
        output(&self.of_three.states([Scalar::ZERO, left, right]))
    }
}

impl Default for Poseidon {
    fn default() -> Self {
        Self::new()
    }
}

/// The hash, from the states of a permutation.
pub fn output<const T: usize>(states: &[[Scalar; T]]) -> Scalar {
    states.last().map_or(Scalar::ZERO, |state| state[0])
}

/// Bits of a number of the stream: those of the modulus.
const NUMBER_BITS: usize = 254;

/// The stream of bits of which the designers take the constants: a linear feedback shift register
/// of 80 bits as in the cipher Grain, whose output shrinks itself.
struct Grain {
    register: [bool; 80],
}

impl Grain {
    /// The register begins with the parameters of the hash function.
    fn new(width: usize, partial_rounds: usize) -> Self {
        let parameters = [
            // A prime field; the S-box x⁵.
            (1, 2),
            (0, 4),
            (NUMBER_BITS, 12),
            (width, 12),
            (2 * FULL_ROUNDS, 10),
            (partial_rounds, 10),
            ((1 << 30) - 1, 30),
        ];
        let bits = parameters.iter().flat_map(|(value, bits)| (0..*bits).rev().map(move |bit| value >> bit & 1 == 1));
        let mut register = [false; 80];
        for (place, bit) in register.iter_mut().zip(bits) {
            *place = bit;
        }
        let mut stream = Self { register };
        for _ in 0..160 {
            stream.step();
        }
        stream
    }

    fn step(&mut self) -> bool {
        let register = &mut self.register;
        let next = [62, 51, 38, 23, 13, 0].iter().fold(false, |bit, tap| bit ^ register[*tap]);
        register.copy_within(1.., 0);
        register[79] = next;
        next
    }

    /// The second bit of a pair of which the first is one.
    fn bit(&mut self) -> bool {
        loop {
            let is_taken = self.step();
            let bit = self.step();
            if is_taken {
                return bit;
            }
        }
    }

    fn limbs(&mut self) -> Limbs {
        let mut limbs = [0; 8];
        for place in (0..NUMBER_BITS).rev() {
            limbs[place / 32] |= u32::from(self.bit()) << (place % 32);
        }
        limbs
    }

    /// The next number that is below the modulus.
    fn constant(&mut self) -> Scalar {
        loop {
            if let Some(constant) = Scalar::from_limbs(&self.limbs()) {
                return constant;
            }
        }
    }

    /// The next number modulo the modulus.
    fn number(&mut self) -> Scalar {
        let mut bytes = [0; 48];
        for (part, limb) in bytes[16..].chunks_exact_mut(4).zip(self.limbs().iter().rev()) {
            part.copy_from_slice(&limb.to_be_bytes());
        }
        Scalar::from_wide_bytes(&bytes)
    }
}
