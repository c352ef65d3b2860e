//! Sums of many multiples of points, by Pippenger's method with signed digits.
//!
//! Scalars are cut into digits of [`WINDOW`] bits. For each of the [`WINDOWS`] places of a digit,
//! points with the same digit are added up in a bucket of that digit, and the buckets are added up
//! with their digits as factors. Additions inside buckets are most of the work. They are done in
//! affine coordinates, half of all that remain in one go, with one inversion for all of them.
//!
//! Which addresses are read and written, and how long it takes, depends on the scalars.

use crate::curve::{Affine, Point};
use crate::field::{Field, Limbs};
use crate::secret::Secret;

/// Bits of a digit.
const WINDOW: usize = 10;

/// Digits of a number below 2²⁵⁴ with a last carry.
const WINDOWS: usize = 26;

/// Digits are at least −2⁹ + 1 and at most 2⁹, so there is a bucket for each absolute value.
const BUCKETS: usize = 1 << (WINDOW - 1);

/// A scalar in signed digits.
type Digits = [i16; WINDOWS];

/// The digits of a number below 2²⁵⁴, the lowest first.
fn digits(number: &Limbs) -> Digits {
    let mut carry = 0;
    let mut digits = [0; WINDOWS];
    for (place, digit) in digits.iter_mut().enumerate() {
        let (limb, shift) = (place * WINDOW / 32, place * WINDOW % 32);
        let higher = if limb < 7 { number[limb + 1] } else { 0 };
        let bits = (u64::from(number[limb]) | u64::from(higher) << 32) >> shift;
        let value = (bits & ((1 << WINDOW) - 1)) as i16 + carry;
        carry = i16::from(value > BUCKETS as i16);
        *digit = value - (carry << WINDOW);
    }
    digits
}

/// The sum of the multiples of `points` with `scalars`, which are below 2²⁵⁴. What is left over of
/// the longer list is ignored.
pub fn sum_of_multiples<F: Field>(points: &[Affine<F>], scalars: &[Limbs]) -> Point<F> {
    let digits: Secret<Digits> = scalars.iter().map(digits).collect();
    let mut total = Point::INFINITY;
    for place in (0..WINDOWS).rev() {
        for _ in 0..WINDOW {
            total = total.double();
        }
        let buckets = Buckets::fill(points, &digits, place).add_up();
        let (mut running, mut weighted) = (Point::INFINITY, Point::INFINITY);
        for bucket in buckets.iter().rev() {
            if let Some(bucket) = bucket {
                running.add_affine(bucket);
            }
            weighted.add(&running);
        }
        total.add(&weighted);
    }
    total
}

/// The points of all buckets, one bucket after the other.
struct Buckets<F> {
    points: Vec<Affine<F>>,
    lengths: Vec<usize>,
}

impl<F: Field> Buckets<F> {
    /// Sorts the points by their digits of this window; points with a negative digit are negated.
    fn fill(points: &[Affine<F>], digits: &[Digits], window: usize) -> Self {
        let mut lengths = vec![0; BUCKETS];
        let with_digit = || points.iter().zip(digits).map(|(point, digits)| (point, digits[window]));
        for (_, digit) in with_digit().filter(|(_, digit)| *digit != 0) {
            lengths[usize::from(digit.unsigned_abs()) - 1] += 1;
        }
        // Where the next point of each bucket goes.
        let mut places = vec![0; BUCKETS];
        let mut total = 0;
        for (place, length) in places.iter_mut().zip(&lengths) {
            *place = total;
            total += length;
        }
        let mut sorted = vec![Affine { x: F::ZERO, y: F::ZERO }; total];
        for (point, digit) in with_digit().filter(|(_, digit)| *digit != 0) {
            let place = &mut places[usize::from(digit.unsigned_abs()) - 1];
            sorted[*place] = if digit < 0 { point.negative() } else { *point };
            *place += 1;
        }
        Self { points: sorted, lengths }
    }

    /// The sum of each bucket; `None` for the point at infinity.
    fn add_up(mut self) -> Vec<Option<Affine<F>>> {
        while self.lengths.iter().any(|length| *length > 1) {
            self.halve();
        }
        let mut sums = self.points.into_iter();
        self.lengths.iter().map(|length| if *length == 0 { None } else { sums.next() }).collect()
    }

    /// Puts the sum of two points of a bucket in the place of both, as often as there are two.
    fn halve(&mut self) {
        let mut pairs = Vec::with_capacity(self.points.len() / 2);
        let mut product = F::ONE;
        let mut start = 0;
        for length in &self.lengths {
            for pair in self.points[start..start + length].chunks_exact(2) {
                let slope = Slope::between(&pair[0], &pair[1]);
                pairs.push((product, slope));
                if let Some(slope) = slope {
                    product = product * slope.denominator;
                }
            }
            start += length;
        }
        // The inverse of a product of all denominators, and of all but the last one, and so on.
        let mut inverse = product.inverse();
        let mut sums: Vec<Option<F>> = vec![None; pairs.len()];
        for (sum, (product, slope)) in sums.iter_mut().zip(&pairs).rev() {
            if let Some(slope) = slope {
                *sum = Some(slope.numerator * inverse * *product);
                inverse = inverse * slope.denominator;
            }
        }
        let mut sums = sums.into_iter();
        let (mut start, mut kept) = (0, 0);
        for length in &mut self.lengths {
            let (end, before) = (start + *length, kept);
            for first in (start..end).step_by(2) {
                if first + 1 == end {
                    self.points[kept] = self.points[first];
                    kept += 1;
                } else if let Some(slope) = sums.next().flatten() {
                    self.points[kept] = third_point(&self.points[first], &self.points[first + 1], slope);
                    kept += 1;
                }
            }
            start = end;
            *length = kept - before;
        }
        self.points.truncate(kept);
    }
}

/// The slope of the line through two points, as a fraction.
#[derive(Clone, Copy)]
struct Slope<F> {
    numerator: F,
    denominator: F,
}

impl<F: Field> Slope<F> {
    /// The slope of the chord, or of the tangent at two equal points; `None` when the sum is the
    /// point at infinity. No point of the groups has a second coordinate of zero.
    fn between(first: &Affine<F>, second: &Affine<F>) -> Option<Self> {
        if first.x != second.x {
            return Some(Self { numerator: second.y - first.y, denominator: second.x - first.x });
        }
        let square = first.x.square();
        let tangent = Self { numerator: square.double() + square, denominator: first.y.double() };
        (first.y == second.y).then_some(tangent)
    }
}

/// The sum of two points on a line of this slope.
fn third_point<F: Field>(first: &Affine<F>, second: &Affine<F>, slope: F) -> Affine<F> {
    let x = slope.square() - first.x - second.x;
    Affine { x, y: slope * (first.x - x) - first.y }
}
