//! Products of points of G1 with coefficients, in eight lanes.
//!
//! The formulas are those of Renes, Costello and Batina (<https://eprint.iacr.org/2015/1060>,
//! algorithms 8 and 9) for curves with a = 0. They hold for all points, also for infinity and for
//! equal and opposite ones: a sender of proofs chooses the points that are added.

use ark_bn254::{Fq, FqConfig, G1Affine, G1Projective};
use ark_ec::AffineRepr;
use ark_ec::scalar_mul::glv::GLVConfig;
use ark_ff::{AdditiveGroup, Field};

use super::fields::{Fqs, nine_times, triple};
use crate::groth16::key::Coefficient;
use selfsame_lanes::{Constant, Instructions, LANES, Step, Words};

/// Eight points (x/z, y/z).
pub(super) struct G1s<W> {
    pub x: Fqs<W>,
    pub y: Fqs<W>,
    pub z: Fqs<W>,
}

/// Eight points to be multiplied: P, λP and (1 + λ)P of each, as (x, y).
struct Addends<W>([[Fqs<W>; 2]; 3]);

impl<W: Words> G1s<W> {
    #[inline(always)]
    fn infinity<I: Instructions<Words = W>>(instructions: I) -> Self {
        let (zero, one) = (Fqs::zero(instructions).widen(), Fqs::splat(instructions, &Constant::new(Fq::ONE)).widen());
        Self { x: zero, y: one, z: zero }
    }

    #[inline(always)]
    pub(super) fn store(self) -> [G1Projective; LANES] {
        let [x, y, z] = [self.x, self.y, self.z].map(Fqs::store);
        // `ark` keeps (x/z², y/z³).
        std::array::from_fn(|lane| match z[lane] == Fq::ZERO {
            true => G1Projective::ZERO,
            false => G1Projective::new_unchecked(x[lane] * z[lane], y[lane] * z[lane] * z[lane], z[lane]),
        })
    }
}

struct Double<'a, W>(&'a mut G1s<W>);

impl<I: Instructions> Step<I> for Double<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: I) {
        let G1s { x, y, z } = *self.0;
        let (squared, product) = (y.square(), x.mul(y));
        // Nine is three times the constant of the curve's equation.
        let nine: Fqs<_> = nine_times(z.square()).carry().reduce();
        let eight: Fqs<_, 16> = squared.sum().double::<4>().double::<8>().double::<16>().carry();
        let difference: Fqs<_, 8> = squared.sub(triple(nine));
        *self.0 = G1s {
            x: difference.mul(product.add::<2, 4>(product)),
            y: eight.mul_add_mul(nine, difference, squared.add::<2, 4>(nine)),
            z: eight.mul(y.mul(z)),
        };
    }
}

/// Adds a point to `sum` in the lanes whose bit in `mask` is set.
struct Add<'a, W> {
    sum: &'a mut G1s<W>,
    point: [Fqs<W>; 2],
    mask: u8,
}

impl<I: Instructions> Step<I> for Add<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: I) {
        let G1s { x, y, z } = *self.sum;
        let [other_x, other_y] = self.point;
        let (xs, ys) = (x.mul(other_x), y.mul(other_y));
        let cross = x.mul_add_mul(other_y, y, other_x);
        let d: Fqs<_, 4> = other_y.mul(z).add(y);
        let e = nine_times(other_x.mul(z).add_reduced(x)).reduce();
        let nine = nine_times(z).reduce();
        let (difference, total): (Fqs<_, 6>, Fqs<_, 6>) = (ys.sub(nine), ys.add(nine));
        let triple = triple(xs);
        let added = G1s {
            x: cross.mul_add_mul(difference, d, e.neg()),
            y: e.mul_add_mul(triple, difference, total),
            z: total.mul_add_mul(d, triple, cross),
        };
        *self.sum = G1s {
            x: x.replace(self.mask, added.x),
            y: y.replace(self.mask, added.y),
            z: z.replace(self.mask, added.z),
        };
    }
}

impl<W: Words> Addends<W> {
    #[inline(always)]
    fn load<I: Instructions<Words = W>>(instructions: I, points: &[G1Affine]) -> Self {
        let coordinates = |lane: usize| points.get(lane).and_then(AffineRepr::xy).unwrap_or_default();
        let x = Fqs::load(instructions, &std::array::from_fn(|lane| coordinates(lane).0));
        let y = Fqs::load(instructions, &std::array::from_fn(|lane| coordinates(lane).1));
        let constant = |element: Fq| Fqs::splat(instructions, &Constant::<FqConfig>::new(element));
        let beta = ark_bn254::g1::Config::ENDO_COEFFS[0];
        // The last one is -λ²P, because 1 + λ + λ² = 0.
        Self([[x, y], [x.mul(constant(beta)), y], [x.mul(constant(beta.square())), y.neg()]])
    }
}

/// Adds the multiples by one bit of the coefficients.
#[inline(always)]
fn add_bit<I: Instructions>(
    instructions: I,
    sum: &mut G1s<I::Words>,
    Addends(addends): &Addends<I::Words>,
    coefficients: &[Coefficient],
    bit: u32,
) {
    let mask = |word: fn(&Coefficient) -> u64| {
        coefficients.iter().rev().fold(0u8, |mask, coefficient| mask << 1 | (word(coefficient) >> bit & 1) as u8)
    };
    let (low, high) = (mask(|coefficient| coefficient.low), mask(|coefficient| coefficient.high));
    let mut point = addends[0];
    for (index, coordinate) in point.iter_mut().enumerate() {
        *coordinate = coordinate.replace(high & !low, addends[1][index]).replace(high & low, addends[2][index]);
    }
    instructions.call(Add { sum, point, mask: low | high });
}

/// Each point times its coefficient. At most eight points are given; the other lanes get infinity.
/// The points are not infinity.
#[inline(always)]
pub(super) fn multiples<I: Instructions>(
    instructions: I,
    points: &[G1Affine],
    coefficients: &[Coefficient],
) -> G1s<I::Words> {
    let addends = Addends::load(instructions, points);
    let mut sum = G1s::infinity(instructions);
    for bit in (0..u64::BITS).rev() {
        instructions.call(Double(&mut sum));
        add_bit(instructions, &mut sum, &addends, coefficients, bit);
    }
    sum
}

/// The sum of points times their coefficients, of which there are as many; all products of a lane
/// share their doublings. The points are not infinity.
#[inline(always)]
pub(super) fn sum_of_multiples<I: Instructions>(
    instructions: I,
    points: &[G1Affine],
    coefficients: &[Coefficient],
) -> G1Projective {
    let addends: Vec<_> = points.chunks(LANES).map(|points| Addends::load(instructions, points)).collect();
    let mut sum = G1s::infinity(instructions);
    for bit in (0..u64::BITS).rev() {
        instructions.call(Double(&mut sum));
        for (addends, coefficients) in std::iter::zip(&addends, coefficients.chunks(LANES)) {
            add_bit(instructions, &mut sum, addends, coefficients, bit);
        }
    }
    sum.store().into_iter().sum()
}

impl<W: Copy> Clone for G1s<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy> Copy for G1s<W> {}
