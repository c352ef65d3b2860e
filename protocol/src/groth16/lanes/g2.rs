//! Whether points of the curve of G2 are in its subgroup, in eight lanes.
//!
//! The points are (x/z², y/z³). The formulas of addition do not hold for equal and opposite points;
//! then z becomes 0 and stays 0. It does not happen to points of the subgroup, whose multiples here
//! are all different from their opposites and from each other, so a z of 0 means that the point is
//! outside.

use ark_bn254::{Config, Fq2, G2Affine};
use ark_ec::AffineRepr;
use ark_ec::bn::BnConfig;
use ark_ff::Field;

use super::fields::{Fq2Constant, Fq2s};
use crate::groth16::point::DIGITS_OF_X;
use selfsame_lanes::{Instructions, Kernel, Step};

/// Eight points (x/z², y/z³).
struct G2s<W> {
    x: Fq2s<W>,
    y: Fq2s<W>,
    z: Fq2s<W>,
}

impl<W: Copy> Clone for G2s<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy> Copy for G2s<W> {}

struct Double<'a, W>(&'a mut G2s<W>);

impl<I: Instructions> Step<I> for Double<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let G2s { x, y, z } = *self.0;
        let slope = x.square().triple();
        let b = y.square();
        let twice: Fq2s<_, 4> = b.add(b);
        let four_times: Fq2s<_, 8> = twice.add(twice);
        let d = Fq2s::sum(instructions, [(&x.factor(), &four_times.factor())]);
        let new_x = slope.square().sub::<4, 6>(d.add(d)).reduce();
        let product = Fq2s::sum(instructions, [(&slope.factor(), &d.sub::<2, 4>(new_x).factor())]);
        let squared = b.square();
        let (twice, new_z): (Fq2s<_, 4>, Fq2s<_, 4>) = (squared.add(squared), z.add(z));
        let four_times: Fq2s<_, 8> = twice.add(twice);
        *self.0 = G2s {
            x: new_x,
            y: product.sub::<16, 18>(four_times.add(four_times)).reduce(),
            z: Fq2s::sum(instructions, [(&y.factor(), &new_z.factor())]),
        };
    }
}

struct Add<'a, W> {
    sum: &'a mut G2s<W>,
    other: &'a G2s<W>,
}

/// What two points differ in, and what the first is kept as for that.
struct Difference<W> {
    x: Fq2s<W>,
    y: Fq2s<W>,
    by_x: Fq2s<W>,
    by_y: Fq2s<W>,
    z: Fq2s<W>,
}

/// Both points with the same z, the product of theirs: the first, and the second less the first.
#[inline(always)]
fn difference<I: Instructions>(instructions: I, left: &G2s<I::Words>, right: &G2s<I::Words>) -> Difference<I::Words> {
    let (left_z, right_z) = (left.z.factor(), right.z.factor());
    let (left_zz, right_zz) = (left.z.square().factor(), right.z.square().factor());
    let left_zzz = Fq2s::mul(instructions, &left_z, &left_zz).factor();
    let right_zzz = Fq2s::mul(instructions, &right_z, &right_zz).factor();
    let x = Fq2s::mul(instructions, &left.x.factor(), &right_zz);
    let y = Fq2s::mul(instructions, &left.y.factor(), &right_zzz);
    let by_x = Fq2s::mul(instructions, &right.x.factor(), &left_zz).sub_reduced(x);
    let by_y = Fq2s::mul(instructions, &right.y.factor(), &left_zzz).sub_reduced(y);
    Difference { x, y, by_x, by_y, z: Fq2s::mul(instructions, &left_z, &right_z) }
}

impl<I: Instructions> Step<I> for Add<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let Difference { x, y, by_x, by_y, z } = difference(instructions, self.sum, self.other);
        let by_x_factor = by_x.factor();
        let squared = by_x.square().factor();
        let cubed = Fq2s::mul(instructions, &by_x_factor, &squared);
        let v = Fq2s::mul(instructions, &x.factor(), &squared);
        let new_x = by_y.square().sub::<2, 4>(cubed).sub::<4, 8>(v.add(v)).reduce();
        *self.sum = G2s {
            x: new_x,
            y: Fq2s::sum(
                instructions,
                [(&by_y.factor(), &v.sub::<2, 4>(new_x).factor()), (&cubed.factor(), &y.neg().widen::<4>().factor())],
            ),
            z: Fq2s::mul(instructions, &z.factor(), &by_x_factor),
        };
    }
}

/// The endomorphism of [`crate::groth16::point`].
#[inline(always)]
fn endomorphism<I: Instructions>(instructions: I, point: &G2s<I::Words>) -> G2s<I::Words> {
    let x = Fq2s::splat(instructions, &Fq2Constant::new(Config::TWIST_MUL_BY_Q_X)).factor();
    let y = Fq2s::splat(instructions, &Fq2Constant::new(Config::TWIST_MUL_BY_Q_Y)).factor();
    G2s {
        x: Fq2s::mul(instructions, &point.x.conjugate().factor(), &x),
        y: Fq2s::mul(instructions, &point.y.conjugate().factor(), &y),
        z: point.z.conjugate(),
    }
}

/// At most eight points of the curve that are not infinity.
#[derive(Clone, Copy)]
pub(super) struct AreInSubgroup<'a>(pub &'a [G2Affine]);

impl Kernel for AreInSubgroup<'_> {
    /// A bit for each point, that of the first the lowest.
    type Output = u8;

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) -> u8 {
        let x = Fq2s::load(instructions, |lane| self.0.get(lane).unwrap_or(&G2Affine::generator()).x);
        let y = Fq2s::load(instructions, |lane| self.0.get(lane).unwrap_or(&G2Affine::generator()).y);
        let point = G2s { x, y, z: Fq2s::splat(instructions, &Fq2Constant::new(Fq2::ONE)) };
        let negated = G2s { y: y.neg(), ..point };
        let mut multiple = point;
        for digit in DIGITS_OF_X {
            instructions.call(Double(&mut multiple));
            match digit {
                1 => instructions.call(Add { sum: &mut multiple, other: &point }),
                -1 => instructions.call(Add { sum: &mut multiple, other: &negated }),
                _ => {}
            }
        }
        let first = endomorphism(instructions, &multiple);
        let second = endomorphism(instructions, &first);
        let mut third = endomorphism(instructions, &second);
        instructions.call(Double(&mut third));
        for other in [&point, &first, &second] {
            instructions.call(Add { sum: &mut multiple, other });
        }
        let Difference { by_x, by_y, z, .. } = difference(instructions, &multiple, &third);
        by_x.are_zero() & by_y.are_zero() & !z.are_zero()
    }
}
