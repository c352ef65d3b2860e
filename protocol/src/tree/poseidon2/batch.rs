//! The hash of eight pairs of nodes at once.

use ark_bn254::FrConfig;

use super::constants::{FIRST, FULL_ROUNDS, LAST, PARTIAL, PARTIAL_ROUNDS, WIDTH};
use crate::lanes::{Constant, Elements, Instructions, Kernel, LANES, Sum, Words};
use crate::tree::Node;

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
