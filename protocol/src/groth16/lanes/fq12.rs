//! Eight elements of the field that pairings have their values in.
//!
//! An element is a polynomial of degree 5 in w over the extension, modulo w⁶ = 9 + i. Each
//! coefficient of a product is a sum of products of the factors' coefficients, with one reduction.

use ark_bn254::{Fq6, Fq12};
use ark_ff::{AdditiveGroup, Field};

use super::fq2::{Fq2Constant, Fq2s};
use crate::lanes::{Instructions, LANES, Step, Words};

/// The coefficients, that of 1 first.
pub(super) struct Fq12s<W>([Fq2s<W>; 6]);

/// A line `one + first · w + third · w³` at a point.
pub(super) struct Line<W> {
    pub one: Fq2s<W>,
    pub first: Fq2s<W>,
    pub third: Fq2s<W>,
}

impl<W: Words> Fq12s<W> {
    pub(super) fn one<I: Instructions<Words = W>>(instructions: I) -> Self {
        let one = Fq2s::splat(instructions, &Fq2Constant::new(ark_bn254::Fq2::ONE));
        let zero = Fq2s::splat(instructions, &Fq2Constant::new(ark_bn254::Fq2::ZERO));
        Self([one, zero, zero, zero, zero, zero])
    }

    /// Squares the elements.
    #[inline(always)]
    pub(super) fn square<I: Instructions<Words = W>>(&mut self, instructions: I) {
        instructions.call(Square(self));
    }

    /// Multiplies the elements by lines.
    #[inline(always)]
    pub(super) fn mul_by_line<I: Instructions<Words = W>>(&mut self, instructions: I, line: &Line<W>) {
        instructions.call(MulByLine(self, line));
    }

    /// The elements as `ark` has them, whose polynomials are in w² first.
    #[inline(always)]
    pub(super) fn store(&self) -> [Fq12; LANES] {
        let coefficients = self.0.map(Fq2s::store);
        let part = |first: usize, lane: usize| {
            Fq6::new(coefficients[first][lane], coefficients[first + 2][lane], coefficients[first + 4][lane])
        };
        std::array::from_fn(|lane| Fq12::new(part(0, lane), part(1, lane)))
    }
}

struct Square<'a, W>(&'a mut Fq12s<W>);

impl<I: Instructions> Step<I> for Square<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let Fq12s(coefficients) = self.0;
        let mut factors = [coefficients[0].factor(); 6];
        let mut wide = [coefficients[0].widen::<4>().factor(); 6];
        let mut doubled = wide;
        // Multiplied by w⁶.
        let mut wrapped = factors;
        for (index, coefficient) in coefficients.iter().enumerate() {
            factors[index] = coefficient.factor();
            wide[index] = coefficient.widen::<4>().factor();
            doubled[index] = coefficient.add::<2, 4>(*coefficient).factor();
            if index >= 3 {
                wrapped[index] = coefficient.times_tower_constant().reduce().factor();
            }
        }
        let [f0, f1, f2, f3, f4, f5] = &wide;
        let [g0, g1, g2, g3, g4, g5] = &factors;
        let [d0, d1, d2, d3, d4, _] = &doubled;
        let [_, _, _, x3, x4, x5] = &wrapped;
        *coefficients = [
            Fq2s::sum(instructions, [(f0, g0), (d1, x5), (d2, x4), (f3, x3)]),
            Fq2s::sum(instructions, [(d0, g1), (d2, x5), (d3, x4)]),
            Fq2s::sum(instructions, [(d0, g2), (f1, g1), (d3, x5), (f4, x4)]),
            Fq2s::sum(instructions, [(d0, g3), (d1, g2), (d4, x5)]),
            Fq2s::sum(instructions, [(d0, g4), (d1, g3), (f2, g2), (f5, x5)]),
            Fq2s::sum(instructions, [(d0, g5), (d1, g4), (d2, g3)]),
        ];
    }
}

struct MulByLine<'a, W>(&'a mut Fq12s<W>, &'a Line<W>);

impl<I: Instructions> Step<I> for MulByLine<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let Self(Fq12s(coefficients), Line { one, first, third }) = self;
        let mut factors = [coefficients[0].factor(); 6];
        for (factor, coefficient) in factors.iter_mut().zip(&*coefficients) {
            *factor = coefficient.factor();
        }
        let plain = [one.widen::<4>().factor(), first.widen::<4>().factor(), third.widen::<4>().factor()];
        // Multiplied by w⁶.
        let wrapped = [first.times_tower_constant().factor(), third.times_tower_constant().factor()];
        for (degree, coefficient) in coefficients.iter_mut().enumerate() {
            let first = if degree < 1 { &wrapped[0] } else { &plain[1] };
            let third = if degree < 3 { &wrapped[1] } else { &plain[2] };
            *coefficient = Fq2s::sum(
                instructions,
                [
                    (&factors[degree], &plain[0]),
                    (&factors[(degree + 5) % 6], first),
                    (&factors[(degree + 3) % 6], third),
                ],
            );
        }
    }
}

impl<W: Copy> Clone for Fq12s<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy> Copy for Fq12s<W> {}
