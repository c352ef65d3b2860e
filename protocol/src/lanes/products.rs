//! Products in the quadratic extension of the field: numbers a + b·i with i² = -1.

use std::marker::PhantomData;

use ark_ff::MontConfig;

use super::elements::{Elements, add_product, plus, propagate, reduce_product};
use super::modulus::{LIMBS, Modulus};
use super::words::{Instructions, Step, Words};

/// Eight elements of the extension, prepared to be multiplied: real and imaginary part, each of at
/// most `BOUND` times the modulus, and their sum.
pub struct Factor<W, C, const BOUND: u64 = 2> {
    real: [W; LIMBS],
    imaginary: [W; LIMBS],
    sum: [W; LIMBS],
    field: PhantomData<C>,
}

impl<W: Words, C: MontConfig<4>, const BOUND: u64> Factor<W, C, BOUND> {
    /// The factor with these parts.
    #[inline(always)]
    pub fn new(real: Elements<W, C, BOUND>, imaginary: Elements<W, C, BOUND>) -> Self {
        const { assert!(Modulus::<C>::fits(2 * BOUND)) };
        let sum = propagate(plus(&real.limbs, &imaginary.limbs));
        Self { real: real.limbs, imaginary: imaginary.limbs, sum, field: PhantomData }
    }
}

impl<W: Copy, C, const BOUND: u64> Clone for Factor<W, C, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, C, const BOUND: u64> Copy for Factor<W, C, BOUND> {}

/// Factors to be multiplied.
type Pairs<'a, W, C, const LEFT: u64, const RIGHT: u64, const COUNT: usize> =
    [(&'a Factor<W, C, LEFT>, &'a Factor<W, C, RIGHT>); COUNT];

/// The sum of `COUNT` products of factors, as real and imaginary part. The bounds' product times
/// twice the count is at most 73.
///
/// All products share one reduction for each part. Karatsuba's trick takes three products of field
/// elements for each: `(a + b·i)(c + d·i) = ac - bd + ((a + b)(c + d) - ac - bd)·i`.
///
/// It is compiled as a function of its own, so that code with many products stays small.
#[inline(always)]
pub fn sum_of_products<I: Instructions, C: MontConfig<4>, const LEFT: u64, const RIGHT: u64, const COUNT: usize>(
    instructions: I,
    pairs: Pairs<'_, I::Words, C, LEFT, RIGHT, COUNT>,
) -> [Elements<I::Words, C>; 2] {
    instructions.call(SumOfProducts { pairs })
}

struct SumOfProducts<'a, W, C, const LEFT: u64, const RIGHT: u64, const COUNT: usize> {
    pairs: Pairs<'a, W, C, LEFT, RIGHT, COUNT>,
}

impl<I: Instructions, C: MontConfig<4>, const LEFT: u64, const RIGHT: u64, const COUNT: usize> Step<I>
    for SumOfProducts<'_, I::Words, C, LEFT, RIGHT, COUNT>
{
    type Output = [Elements<I::Words, C>; 2];

    #[inline(always)]
    fn run(self, _: I) -> Self::Output {
        const { assert!(Modulus::<C>::product_fits(2 * COUNT as u64 * LEFT * RIGHT, 2) && COUNT > 0 && COUNT <= 8) };
        let zero = self.pairs[0].0.real[0].splat(0);
        let (mut real, mut imaginary, mut cross) = ([zero; 2 * LIMBS], [zero; 2 * LIMBS], [zero; 2 * LIMBS]);
        for (left, right) in self.pairs {
            add_product(&mut real, &left.real, &right.real);
        }
        for (left, right) in self.pairs {
            add_product(&mut imaginary, &left.imaginary, &right.imaginary);
        }
        for (left, right) in self.pairs {
            add_product(&mut cross, &left.sum, &right.sum);
        }
        // The difference of the first two can be negative, so a multiple of the modulus is added.
        let multiple = const { Modulus::<C>::square_multiple(COUNT as u64 * LEFT * RIGHT) };
        for column in 0..2 * LIMBS {
            cross[column] = cross[column].minus(real[column]).minus(imaginary[column]);
            real[column] = real[column].minus(imaginary[column]).plus(zero.splat(multiple[column]));
        }
        [reduce_product(real).carry(), reduce_product(cross).carry()]
    }
}
