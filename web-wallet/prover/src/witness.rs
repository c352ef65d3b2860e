//! The witness: a value for each wire of the circuit, and both factors of each constraint.
//!
//! The circuit is Semaphore's of depth 30. It has one kind of part, Poseidon, 33 times: for the
//! identity's secret, its commitment and its nullifier, and for the 30 nodes above the leaf. The
//! compiler of the circuit removed the wires that are linear combinations of others, and put those
//! that remain in the order of this file. The constraints have the order of this file, too. The
//! tests compare both with the matrices and the witness of the circuit's own artefacts.
//!
//! A constraint is `a · b = c`, with a linear combination of wires for each. The combinations need
//! not be computed: each is a value that arises in the computation of a hash, or its negative.

use crate::field::{Field, Scalar};
use crate::poseidon::{output, Poseidon, FULL_ROUNDS};
use crate::secret::Secret;

/// Levels of the tree.
pub const DEPTH: usize = 30;

/// Wires of the circuit.
pub const WIRES: usize = 8_019;

/// The first wires are public: one, the root, the nullifier, the signal hash and the external
/// nullifier.
pub const PUBLIC_WIRES: usize = 5;

/// Constraints of the circuit.
pub const CONSTRAINTS: usize = 7_984;

/// What the circuit is given.
pub struct Inputs {
    /// The identity's nullifier seed.
    pub nullifier_seed: Scalar,
    /// The identity's trapdoor.
    pub trapdoor: Scalar,
    /// The position of the leaf; only the lowest 30 bits count.
    pub position: u32,
    /// The siblings on the way from the leaf to the root.
    pub siblings: [Scalar; DEPTH],
    /// The external nullifier.
    pub external_nullifier: Scalar,
    /// The signal hash.
    pub signal_hash: Scalar,
}

/// The values of the wires, and of the factors of the constraints.
pub struct Witness {
    /// The value of each wire.
    pub wires: Secret<Scalar>,
    /// The first factor of each constraint.
    pub a: Secret<Scalar>,
    /// The second factor of each constraint.
    pub b: Secret<Scalar>,
}

/// The states of a permutation that hashes.
struct Hash<const T: usize>(Vec<[Scalar; T]>);

impl<const T: usize> Drop for Hash<T> {
    fn drop(&mut self) {
        for state in &mut self.0 {
            crate::secret::overwrite(state);
        }
    }
}

impl<const T: usize> Hash<T> {
    fn output(&self) -> Scalar {
        output(&self.0)
    }

    /// Inputs of the S-boxes in the circuit's order: those of the first full rounds, of the last
    /// full rounds, and of the partial rounds. The first S-box of all is missing, because its input
    /// is a constant.
    fn boxes(&self) -> impl Iterator<Item = Scalar> + '_ {
        let rounds = &self.0[..self.0.len() - 1];
        let (first, rest) = rounds.split_at(FULL_ROUNDS);
        let (partial, last) = rest.split_at(rest.len() - FULL_ROUNDS);
        let full = first.iter().chain(last).flatten().copied().skip(1);
        full.chain(partial.iter().map(|state| state[0]))
    }

    /// The wires inside of the hash: the states that are not linear combinations of earlier ones,
    /// then the elements of the result that are not the hash, then square and fourth power at each
    /// S-box.
    fn push_wires(&self, wires: &mut Secret<Scalar>) {
        let last_full = self.0.len() - 1 - FULL_ROUNDS;
        for (round, state) in self.0.iter().enumerate().skip(1) {
            let is_result = round == self.0.len() - 1;
            let kept = match round {
                // The second round has one more element than the first round has S-boxes.
                1 => &state[..T - 1],
                _ if is_result => &state[1..],
                // Before the first partial round all elements are new; then one in each round.
                _ if round > FULL_ROUNDS && round <= last_full => &state[..1],
                _ => &state[..],
            };
            kept.iter().for_each(|element| wires.push(*element));
        }
        for element in self.boxes() {
            wires.push(element.square());
            wires.push(element.square().square());
        }
    }

    /// The constraints of the hash: `−x · x`, `−x² · x²` and `−x⁴ · x` for each S-box.
    fn push_constraints(&self, witness: &mut Witness) {
        for element in self.boxes() {
            let square = element.square();
            witness.push_constraint(-element, element);
            witness.push_constraint(-square, square);
            witness.push_constraint(-square.square(), element);
        }
    }
}

impl Witness {
    fn push_constraint(&mut self, a: Scalar, b: Scalar) {
        self.a.push(a);
        self.b.push(b);
    }

    /// Computes all values.
    pub fn new(poseidon: &Poseidon, inputs: &Inputs) -> Self {
        let hash_two = |left, right| Hash(poseidon.of_three.states([Scalar::ZERO, left, right]));
        let secret = hash_two(inputs.nullifier_seed, inputs.trapdoor);
        let commitment = Hash(poseidon.of_two.states([Scalar::ZERO, secret.output()]));
        let nullifier = hash_two(inputs.external_nullifier, inputs.nullifier_seed);
        let bits: Secret<Scalar> = (0..DEPTH).map(|level| Scalar::small(inputs.position >> level & 1)).collect();
        let mut levels = Vec::with_capacity(DEPTH);
        let mut sides = Secret::with_capacity(2 * DEPTH);
        let mut steps = Secret::with_capacity(DEPTH);
        let mut node = commitment.output();
        for (bit, sibling) in bits.iter().zip(&inputs.siblings) {
            let step = node - *sibling;
            // The bit says that the node is on the right.
            let (left, right) = (node - *bit * step, *sibling + *bit * step);
            let level = hash_two(left, right);
            node = level.output();
            sides.push(left);
            sides.push(right);
            steps.push(step);
            levels.push(level);
        }

        let mut wires = Secret::with_capacity(WIRES);
        let public = [Scalar::ONE, node, nullifier.output(), inputs.signal_hash, inputs.external_nullifier];
        public.iter().for_each(|value| wires.push(*value));
        wires.push(inputs.nullifier_seed);
        wires.push(inputs.trapdoor);
        bits.iter().chain(&inputs.siblings).for_each(|value| wires.push(*value));
        wires.push(secret.output());
        wires.push(inputs.signal_hash.square());
        wires.push(commitment.output());
        commitment.push_wires(&mut wires);
        nullifier.push_wires(&mut wires);
        secret.push_wires(&mut wires);
        // The nodes below the root, and left and right side of each level.
        levels[..DEPTH - 1].iter().for_each(|level| wires.push(level.output()));
        sides.iter().for_each(|side| wires.push(*side));
        levels.iter().for_each(|level| level.push_wires(&mut wires));

        let mut witness = Self { wires, a: Secret::with_capacity(CONSTRAINTS), b: Secret::with_capacity(CONSTRAINTS) };
        // The signal hash is in a constraint, so that a proof holds for no other one.
        witness.push_constraint(-inputs.signal_hash, inputs.signal_hash);
        commitment.push_constraints(&mut witness);
        nullifier.push_constraints(&mut witness);
        secret.push_constraints(&mut witness);
        // Bits are zero or one.
        bits.iter().for_each(|bit| witness.push_constraint(Scalar::ONE - *bit, *bit));
        for (bit, step) in bits.iter().zip(steps.iter()) {
            witness.push_constraint(*step, *bit);
            witness.push_constraint(-*step, *bit);
        }
        levels.iter().for_each(|level| level.push_constraints(&mut witness));
        witness
    }

    /// The root that the path leads to.
    pub fn root(&self) -> Scalar {
        self.wires[1]
    }

    /// The nullifier.
    pub fn nullifier(&self) -> Scalar {
        self.wires[2]
    }
}
