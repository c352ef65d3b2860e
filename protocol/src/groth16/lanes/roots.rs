//! The power that gives square roots, of many elements.

use ark_bn254::Fq;

use super::fq2::Fqs;
use crate::groth16::point::ROOT_DIGITS;
use crate::lanes::{Instructions, Kernel, LANES, Step};

/// How many groups of eight elements are computed in turns. The steps of one power wait for each
/// other, so that a single group would leave the processor idle for half of the time.
const TOGETHER: usize = 2;

/// Elements to be raised to the power (p - 3) / 4.
#[derive(Clone, Copy)]
pub(super) struct RootPowers<'a>(pub &'a [Fq]);

impl Kernel for RootPowers<'_> {
    type Output = Vec<Fq>;

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) -> Vec<Fq> {
        let mut powers = Vec::with_capacity(self.0.len());
        for elements in self.0.chunks(TOGETHER * LANES) {
            // With a single group, the second is computed in vain, in hardly more time.
            let mut groups = [[Fq::default(); LANES]; TOGETHER];
            for (element, place) in std::iter::zip(elements, groups.as_flattened_mut()) {
                *place = *element;
            }
            instructions.call(Powers(&mut groups));
            powers.extend_from_slice(&groups.as_flattened()[..elements.len()]);
        }
        powers
    }
}

struct Powers<'a>(&'a mut [[Fq; LANES]; TOGETHER]);

impl<I: Instructions> Step<I> for Powers<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let bases = [Fqs::load(instructions, &self.0[0]), Fqs::load(instructions, &self.0[1])];
        let mut table = [bases; 15];
        for index in 1..table.len() {
            table[index] = multiply(table[index - 1], bases);
        }
        let [highest, digits @ ..] = ROOT_DIGITS;
        let mut powers = table[usize::from(highest) - 1];
        for digit in digits {
            for _ in 0..4 {
                powers = [powers[0].square(), powers[1].square()];
            }
            // Digit 0 stands for the power 1.
            if let Some(index) = usize::from(digit).checked_sub(1) {
                powers = multiply(powers, table[index]);
            }
        }
        *self.0 = [powers[0].store(), powers[1].store()];
    }
}

#[inline(always)]
fn multiply<W: crate::lanes::Words>(left: [Fqs<W>; TOGETHER], right: [Fqs<W>; TOGETHER]) -> [Fqs<W>; TOGETHER] {
    [left[0].mul(right[0]), left[1].mul(right[1])]
}
