//! Miller's loops of many pairs of points, eight at a time.
//!
//! The loop is that of the optimal Ate pairing. Each lane has a pair of its own in each group of
//! eight; a lane's pairs share the squarings. The points of G2 are computed as (x/z, y/z), with the
//! formulas of Costello, Lange and Naehrig and of Aranha and others
//! (<https://eprint.iacr.org/2010/354>), times 4, which saves halvings. A line is kept times a
//! number of the extension, which the final exponentiation makes 1.

use ark_bn254::{Config, Fq, Fq2, Fq12, G2Affine};
use ark_ec::AffineRepr;
use ark_ec::bn::BnConfig;
use ark_ec::short_weierstrass::SWCurveConfig;
use ark_ff::{AdditiveGroup, Field};

use super::fields::{Fq2Constant, Fq2Factor, Fq2s, Fq12s, Fqs, Line, triple};
use super::g1::G1s;
use crate::groth16::point::ROOT_DIGITS;
use selfsame_lanes::{Instructions, Kernel, LANES, Step, Words};

/// Eight pairs of points.
pub(super) struct Pairs<W> {
    /// The points of G1, as the lines need them.
    left: Left<W>,
    /// The points of G2, and their negatives.
    right: [Affine<W>; 2],
    /// The multiples of the points of G2 that the loop has come to.
    multiple: Multiple<W>,
}

struct Left<W> {
    y: Fqs<W>,
    minus_x: Fqs<W>,
    minus_triple_x: Fqs<W>,
    z: Fqs<W>,
}

/// Eight points (x, y) of G2.
struct Affine<W> {
    x: Fq2Factor<W>,
    minus_y: Fq2Factor<W>,
    y: Fq2Factor<W>,
}

/// Eight points (x/z, y/z) of G2.
struct Multiple<W> {
    x: Fq2s<W>,
    y: Fq2s<W>,
    z: Fq2s<W>,
}

impl<W: Words> Affine<W> {
    #[inline(always)]
    fn new(x: Fq2s<W>, y: Fq2s<W>) -> Self {
        Self { x: x.factor(), minus_y: y.neg().factor(), y: y.factor() }
    }
}

impl<W: Words> Pairs<W> {
    /// At most eight points of G2 are given; where there are fewer, the points of G1 in the other
    /// lanes are infinity.
    #[inline(always)]
    pub(super) fn new<I: Instructions<Words = W>>(instructions: I, left: G1s<W>, right: &[G2Affine]) -> Self {
        let G1s { x, y, z } = left;
        let left = Left { y, minus_x: x.neg(), minus_triple_x: triple(x).reduce().neg(), z };
        let point = |lane: usize| right.get(lane).copied().unwrap_or(G2Affine::generator());
        let (x, y) = (Fq2s::load(instructions, |lane| point(lane).x), Fq2s::load(instructions, |lane| point(lane).y));
        let multiple = Multiple { x, y, z: Fq2s::splat(instructions, &Fq2Constant::new(Fq2::ONE)) };
        Self { left, right: [Affine::new(x, y), Affine::new(x, y.neg())], multiple }
    }

    /// The images of the points of G2 that the loop ends with.
    #[inline(always)]
    fn last<I: Instructions<Words = W>>(&self, instructions: I) -> [Affine<W>; 2] {
        let map = |x: Fq2s<W>, y: Fq2s<W>| {
            let factor = |constant: Fq2| Fq2s::splat(instructions, &Fq2Constant::new(constant)).factor();
            (
                Fq2s::mul(instructions, &x.conjugate().factor(), &factor(Config::TWIST_MUL_BY_Q_X)),
                Fq2s::mul(instructions, &y.conjugate().factor(), &factor(Config::TWIST_MUL_BY_Q_Y)),
            )
        };
        let Multiple { x, y, .. } = self.multiple;
        let first = map(x, y);
        let second = map(first.0, first.1);
        [Affine::new(first.0, first.1), Affine::new(second.0, second.1.neg())]
    }
}

struct Double<'a, W> {
    multiple: &'a mut Multiple<W>,
    left: &'a Left<W>,
    /// Three times the constant of the curve's equation.
    constant: &'a Fq2Factor<W>,
}

impl<I: Instructions> Step<I> for Double<'_, I::Words> {
    type Output = Line<I::Words>;

    #[inline(always)]
    fn run(self, instructions: I) -> Self::Output {
        let Multiple { x, y, z } = *self.multiple;
        let y_factor = y.factor();
        let product = Fq2s::mul(instructions, &x.factor(), &y_factor);
        let double_yz = Fq2s::sum(instructions, [(&y_factor, &z.add::<2, 4>(z).factor())]);
        let (xx, yy, zz) = (x.square(), y.square(), z.square());
        let e = Fq2s::mul(instructions, self.constant, &zz.factor());
        let triple = e.triple();
        let difference: Fq2s<_, 4> = yy.sub(triple);
        let twice: Fq2s<_, 4> = yy.add(yy);
        let four_times: Fq2s<_, 8> = twice.add(twice);
        *self.multiple = Multiple {
            x: Fq2s::sum(instructions, [(&product.add::<2, 4>(product).factor(), &difference.factor())]),
            y: Fq2s::sum(
                instructions,
                [(&yy.factor(), &yy.widen::<6>().factor()), (&triple.factor(), &twice.sub::<2, 6>(e).factor())],
            ),
            z: Fq2s::sum(instructions, [(&double_yz.factor(), &four_times.factor())]),
        };
        Line {
            one: double_yz.scale(self.left.y),
            first: xx.scale(self.left.minus_triple_x),
            third: yy.sub::<2, 4>(e).scale(self.left.z),
        }
    }
}

struct Add<'a, W> {
    multiple: &'a mut Multiple<W>,
    left: &'a Left<W>,
    point: &'a Affine<W>,
}

impl<I: Instructions> Step<I> for Add<'_, I::Words> {
    type Output = Line<I::Words>;

    #[inline(always)]
    fn run(self, instructions: I) -> Self::Output {
        let Multiple { x, y, z } = *self.multiple;
        let z_factor = z.factor();
        let theta = y.sub_reduced(Fq2s::mul(instructions, &self.point.y, &z_factor));
        let lambda = x.sub_reduced(Fq2s::mul(instructions, &self.point.x, &z_factor));
        let (theta_factor, lambda_factor) = (theta.factor(), lambda.factor());
        let squared = lambda.square().factor();
        let e = Fq2s::mul(instructions, &lambda_factor, &squared);
        let f = Fq2s::mul(instructions, &z_factor, &theta.square().factor());
        let g = Fq2s::mul(instructions, &x.factor(), &squared);
        let h = e.add::<2, 4>(f).sub::<4, 8>(g.add::<2, 4>(g)).reduce();
        let e_factor = e.factor();
        *self.multiple = Multiple {
            x: Fq2s::mul(instructions, &lambda_factor, &h.factor()),
            y: Fq2s::sum(
                instructions,
                [(&theta_factor, &g.sub::<2, 4>(h).factor()), (&e_factor, &y.neg().widen::<4>().factor())],
            ),
            z: Fq2s::mul(instructions, &z_factor, &e_factor),
        };
        let third = Fq2s::sum(instructions, [(&theta_factor, &self.point.x), (&lambda_factor, &self.point.minus_y)]);
        Line { one: lambda.scale(self.left.y), first: theta.scale(self.left.minus_x), third: third.scale(self.left.z) }
    }
}

/// The product of the values of Miller's loops; the pairing of all pairs is its final
/// exponentiation.
#[inline(always)]
pub(super) fn miller_loops<I: Instructions>(instructions: I, groups: &mut [Pairs<I::Words>]) -> Fq12 {
    let constant = ark_bn254::g2::Config::COEFF_B;
    let constant = Fq2s::splat(instructions, &Fq2Constant::new(constant.double() + constant)).factor();
    let lasts: Vec<_> = groups.iter().map(|pairs| pairs.last(instructions)).collect();
    let mut product = Fq12s::one(instructions);
    // The highest digit is the points themselves.
    for digit in Config::ATE_LOOP_COUNT.iter().rev().skip(1) {
        product.square(instructions);
        for Pairs { left, right, multiple } in groups.iter_mut() {
            let line = instructions.call(Double { multiple, left, constant: &constant });
            product.mul_by_line(instructions, &line);
            if *digit != 0 {
                let point = &right[usize::from(*digit < 0)];
                let line = instructions.call(Add { multiple, left, point });
                product.mul_by_line(instructions, &line);
            }
        }
    }
    for (Pairs { left, multiple, .. }, points) in std::iter::zip(groups, &lasts) {
        for point in points {
            let line = instructions.call(Add { multiple, left, point });
            product.mul_by_line(instructions, &line);
        }
    }
    product.store().into_iter().product()
}

// The power that gives square roots, of many elements.

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
fn multiply<W: selfsame_lanes::Words>(left: [Fqs<W>; TOGETHER], right: [Fqs<W>; TOGETHER]) -> [Fqs<W>; TOGETHER] {
    [left[0].mul(right[0]), left[1].mul(right[1])]
}
