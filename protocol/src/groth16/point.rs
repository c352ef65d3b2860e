//! Points of BN254's two groups, from numbers and back.
//!
//! A point is written as its affine coordinates, or in the compressed form of the Solidity
//! verifiers: for G1 one word, `x·2 + sign`; for G2 two words, `x0·4 + hint·2 + sign` and `x1` (x =
//! x0 + x1·i). The sign chooses one of the two square roots y. The hint chooses one of the two
//! candidates for the root in the extension field.
//!
//! The readers refuse what a verifier must not accept: coordinates that are not below the modulus,
//! points off the curve or outside the subgroup, and the point at infinity in every form.

use ark_bn254::{Fq, Fq2, G1Affine, G2Affine, G2Projective};
use ark_ec::AffineRepr;
use ark_ec::bn::BnConfig;
use ark_ec::short_weierstrass::SWCurveConfig;
use ark_ff::{AdditiveGroup, BigInt, Field, MontFp, PrimeField, Zero};

use crate::U256;

/// Why numbers are not a point that a proof or a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PointError {
    /// A coordinate is not below the modulus of the curve's base field.
    #[error("a coordinate is not below the modulus of the curve's base field")]
    NotCanonical,
    /// The coordinates are not those of a point of the curve; in the compressed form, no point has
    /// this x coordinate.
    #[error("the point is not on the curve")]
    NotOnCurve,
    /// A G2 point is on the curve and outside the subgroup. Every point of G1's curve is in its
    /// subgroup.
    #[error("the point is not in the subgroup")]
    NotInSubgroup,
    /// All words of the point are zero, which is the form of the point at infinity.
    #[error("it is the point at infinity")]
    Infinity,
}

/// Reads a coordinate.
pub fn coordinate(value: &U256) -> Result<Fq, PointError> {
    Fq::from_bigint(BigInt(*value.as_limbs())).ok_or(PointError::NotCanonical)
}

/// A coordinate as a number.
pub fn coordinate_number(value: &Fq) -> U256 {
    U256::from_limbs(value.into_bigint().0)
}

/// Reads a G1 point from its affine coordinates. Every point of this curve is in the subgroup.
pub fn g1(x: &U256, y: &U256) -> Result<G1Affine, PointError> {
    if x.is_zero() && y.is_zero() {
        return Err(PointError::Infinity);
    }
    let point = G1Affine::new_unchecked(coordinate(x)?, coordinate(y)?);
    if point.is_on_curve() { Ok(point) } else { Err(PointError::NotOnCurve) }
}

/// Reads a G2 point from its affine coordinates, each as (real, imaginary).
pub fn g2(x: [&U256; 2], y: [&U256; 2]) -> Result<G2Affine, PointError> {
    let point = g2_on_curve(x, y)?;
    if is_in_subgroup(&point) { Ok(point) } else { Err(PointError::NotInSubgroup) }
}

/// Like [`g2`], for a point that may be outside the subgroup.
pub(super) fn g2_on_curve(x: [&U256; 2], y: [&U256; 2]) -> Result<G2Affine, PointError> {
    if [x, y].as_flattened().iter().all(|value| value.is_zero()) {
        return Err(PointError::Infinity);
    }
    let element = |[real, imaginary]: [&U256; 2]| Ok(Fq2::new(coordinate(real)?, coordinate(imaginary)?));
    let point = G2Affine::new_unchecked(element(x)?, element(y)?);
    if point.is_on_curve() { Ok(point) } else { Err(PointError::NotOnCurve) }
}

/// The digits of the curve's parameter x from the one below the highest on: x is their sum times
/// powers of two, after a first digit 1. With digits -1, fewer of them need an addition.
pub(super) const DIGITS_OF_X: [i8; 62] = {
    let (mut digits, mut rest, mut index) = ([0; 62], ark_bn254::Config::X[0], 62);
    while index > 0 {
        index -= 1;
        if rest & 1 == 1 {
            digits[index] = if rest & 2 == 0 { 1 } else { -1 };
            rest = if rest & 2 == 0 { rest - 1 } else { rest + 1 };
        }
        rest >>= 1;
    }
    assert!(rest == 1, "there are more digits");
    digits
};

/// Whether a point of the curve of G2 is in the subgroup of order r.
///
/// Frobenius' endomorphism ψ multiplies the points of the subgroup by p, so that
/// `(x + 1)P + ψ(xP) + ψ²(xP) = ψ³(2xP)` (Dai, Lin, Zhao, Zhou:
/// <https://eprint.iacr.org/2022/348>). No other points have this property: each of those that do
/// has an order that divides the norm of the equation's difference in Z\[ψ\], and what the norm
/// has in common with the number of points of the curve is r. A test computes it. One product by x
/// of 63 bits is all that it takes.
pub(super) fn is_in_subgroup(point: &G2Affine) -> bool {
    let negated = -*point;
    let multiple = DIGITS_OF_X.iter().fold(point.into_group(), |mut multiple, digit| {
        multiple.double_in_place();
        match digit {
            1 => multiple += point,
            -1 => multiple += negated,
            _ => {}
        }
        multiple
    });
    let first = endomorphism(&multiple);
    let second = endomorphism(&first);
    multiple + point + first + second == endomorphism(&second).double()
}

/// The endomorphism ψ: to the other form of the curve, Frobenius' map there, and back.
fn endomorphism(point: &G2Projective) -> G2Projective {
    let [mut x, mut y, mut z] = [point.x, point.y, point.z];
    for coordinate in [&mut x, &mut y, &mut z] {
        coordinate.conjugate_in_place();
    }
    G2Projective::new_unchecked(x * ark_bn254::Config::TWIST_MUL_BY_Q_X, y * ark_bn254::Config::TWIST_MUL_BY_Q_Y, z)
}

/// Reads a compressed G1 point.
pub fn decompress_g1(word: &U256) -> Result<G1Affine, PointError> {
    let point = CompressedG1::read(word)?;
    point.finish(root_power(point.square))
}

/// Reads a compressed G2 point: the word with hint and sign, and the imaginary part of x.
pub fn decompress_g2(real: &U256, imaginary: &U256) -> Result<G2Affine, PointError> {
    let point = CompressedG2::read(real, imaginary)?;
    let real_square = point.real_square(root_power(point.norm_square()))?;
    let point = point.finish(real_square, root_power(real_square))?;
    if is_in_subgroup(&point) { Ok(point) } else { Err(PointError::NotInSubgroup) }
}

/// A compressed G1 point before its square root is known. The power of its square is all that is
/// expensive; many of them are computed together.
pub(super) struct CompressedG1 {
    x: Fq,
    /// The square of y.
    pub square: Fq,
    is_negative: bool,
}

impl CompressedG1 {
    pub(super) fn read(word: &U256) -> Result<Self, PointError> {
        if word.is_zero() {
            return Err(PointError::Infinity);
        }
        let x = coordinate(&(*word >> 1))?;
        Ok(Self { x, square: ark_bn254::g1::Config::COEFF_B + x.square() * x, is_negative: word.bit(0) })
    }

    /// The point. `power` is [`root_power`] of the square.
    pub(super) fn finish(&self, power: Fq) -> Result<G1Affine, PointError> {
        let y = root(self.square, power).ok_or(PointError::NotOnCurve)?;
        Ok(G1Affine::new_unchecked(self.x, if self.is_negative { -y } else { y }))
    }
}

/// A compressed G2 point before its square roots are known.
pub(super) struct CompressedG2 {
    x: Fq2,
    root: ExtensionRoot,
    is_negative: bool,
}

impl CompressedG2 {
    pub(super) fn read(real: &U256, imaginary: &U256) -> Result<Self, PointError> {
        if real.is_zero() && imaginary.is_zero() {
            return Err(PointError::Infinity);
        }
        let x = Fq2::new(coordinate(&(*real >> 2))?, coordinate(imaginary)?);
        let root = ExtensionRoot { square: y_squared(x), hint: real.bit(1) };
        Ok(Self { x, root, is_negative: real.bit(0) })
    }

    /// The element of which [`CompressedG2::real_square`] needs the power.
    pub(super) fn norm_square(&self) -> Fq {
        self.root.norm_square()
    }

    /// The square of the real part of y. `power` is [`root_power`] of the norm's square.
    pub(super) fn real_square(&self, power: Fq) -> Result<Fq, PointError> {
        self.root.real_square(power).ok_or(PointError::NotOnCurve)
    }

    /// A point of the curve, perhaps not of the subgroup. `power` is [`root_power`] of the real
    /// part's square.
    pub(super) fn finish(&self, real_square: Fq, power: Fq) -> Result<G2Affine, PointError> {
        let y = self.root.finish(real_square, power).ok_or(PointError::NotOnCurve)?;
        Ok(G2Affine::new_unchecked(self.x, if self.is_negative { -y } else { y }))
    }
}

/// The compressed form of a G1 point that is not at infinity.
pub fn compress_g1(point: &G1Affine) -> U256 {
    let (x, y) = (point.x, point.y);
    let is_root = root(y.square(), root_power(y.square())) == Some(y);
    coordinate_number(&x) << 1 | U256::from(u8::from(!is_root))
}

/// The compressed form of a G2 point that is not at infinity: the word with hint and sign, and the
/// imaginary part of x.
pub fn compress_g2(point: &G2Affine) -> (U256, U256) {
    let (x, y) = (point.x, point.y);
    let square = y_squared(x);
    let hint = root_in_extension(square, false).is_none();
    let is_root = root_in_extension(square, hint) == Some(y);
    let bits = U256::from(u8::from(hint) << 1 | u8::from(!is_root));
    (coordinate_number(&x.c0) << 2 | bits, coordinate_number(&x.c1))
}

fn y_squared(x: Fq2) -> Fq2 {
    x.square() * x + ark_bn254::g2::Config::COEFF_B
}

/// The square root that is itself a square: because p is 3 mod 4, it is the power (p + 1) / 4.
/// `power` is [`root_power`] of the square.
fn root(square: Fq, power: Fq) -> Option<Fq> {
    let found = square * power;
    (found.square() == square).then_some(found)
}

/// The search for a square root of a + b·i: it has the real part √((a ± d)/2), where d = √(a² +
/// b²); the hint chooses minus.
struct ExtensionRoot {
    square: Fq2,
    hint: bool,
}

impl ExtensionRoot {
    fn norm_square(&self) -> Fq {
        self.square.c0.square() + self.square.c1.square()
    }

    fn real_square(&self, power: Fq) -> Option<Fq> {
        let norm = root(self.norm_square(), power)?;
        Some((self.square.c0 + if self.hint { -norm } else { norm }) * HALF)
    }

    fn finish(&self, real_square: Fq, power: Fq) -> Option<Fq2> {
        // When the real part is a root, the power is its inverse.
        let found = Fq2::new(real_square * power, self.square.c1 * HALF * power);
        (!real_square.is_zero() && found.square() == self.square).then_some(found)
    }
}

fn root_in_extension(square: Fq2, hint: bool) -> Option<Fq2> {
    let search = ExtensionRoot { square, hint };
    let real_square = search.real_square(root_power(search.norm_square()))?;
    search.finish(real_square, root_power(real_square))
}

/// The power (p - 3) / 4 of an element. It is 1 / √a for a square a, and a times it is √a.
pub(super) fn root_power(base: Fq) -> Fq {
    let mut powers = [base; 15];
    for index in 1..powers.len() {
        powers[index] = powers[index - 1] * base;
    }
    ROOT_DIGITS.iter().fold(Fq::ONE, |mut power, digit| {
        for _ in 0..4 {
            power.square_in_place();
        }
        // Digit 0 stands for the power 1.
        usize::from(*digit).checked_sub(1).map_or(power, |index| power * powers[index])
    })
}

/// The number (p - 3) / 4 in base 16, the highest digit first.
pub(super) const ROOT_DIGITS: [u8; 63] = {
    let (modulus, mut digits, mut index) = (Fq::MODULUS.0, [0; 63], 0);
    while index < digits.len() {
        // The digit's lowest bit is this one of the modulus.
        let bit = 4 * (digits.len() - 1 - index) + 2;
        let (word, offset) = (bit / 64, bit % 64);
        let next = if offset > 60 && word < 3 { modulus[word + 1] << (64 - offset) } else { 0 };
        digits[index] = ((modulus[word] >> offset | next) & 15) as u8;
        index += 1;
    }
    digits
};

const HALF: Fq = MontFp!("10944121435919637611123202872628637544348155578648911831344518947322613104292");
