//! Points of BN254's two groups, from numbers and back.
//!
//! A point is written as its affine coordinates, or in the compressed form of the Solidity
//! verifiers: for G1 one word, `x·2 + sign`; for G2 two words, `x0·4 + hint·2 + sign` and `x1` (x =
//! x0 + x1·i). The sign chooses one of the two square roots y. The hint chooses one of the two
//! candidates for the root in the extension field.
//!
//! The readers refuse what a verifier must not accept: coordinates that are not below the modulus,
//! points off the curve or outside the subgroup, and the point at infinity in every form.

use ark_bn254::{Fq, Fq2, G1Affine, G2Affine};
use ark_ec::short_weierstrass::SWCurveConfig;
use ark_ff::{AdditiveGroup, BigInt, Field, MontFp, PrimeField};

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
    if [x, y].as_flattened().iter().all(|value| value.is_zero()) {
        return Err(PointError::Infinity);
    }
    let element = |[real, imaginary]: [&U256; 2]| Ok(Fq2::new(coordinate(real)?, coordinate(imaginary)?));
    in_subgroup(G2Affine::new_unchecked(element(x)?, element(y)?))
}

fn in_subgroup(point: G2Affine) -> Result<G2Affine, PointError> {
    if !point.is_on_curve() {
        return Err(PointError::NotOnCurve);
    }
    if !point.is_in_correct_subgroup_assuming_on_curve() {
        return Err(PointError::NotInSubgroup);
    }
    Ok(point)
}

/// Reads a compressed G1 point.
pub fn decompress_g1(word: &U256) -> Result<G1Affine, PointError> {
    if word.is_zero() {
        return Err(PointError::Infinity);
    }
    let x = coordinate(&(*word >> 1))?;
    let y = root(ark_bn254::g1::Config::COEFF_B + x.square() * x).ok_or(PointError::NotOnCurve)?;
    Ok(G1Affine::new_unchecked(x, if word.bit(0) { -y } else { y }))
}

/// Reads a compressed G2 point: the word with hint and sign, and the imaginary part of x.
pub fn decompress_g2(real: &U256, imaginary: &U256) -> Result<G2Affine, PointError> {
    if real.is_zero() && imaginary.is_zero() {
        return Err(PointError::Infinity);
    }
    let x = Fq2::new(coordinate(&(*real >> 2))?, coordinate(imaginary)?);
    let y = root_in_extension(y_squared(x), real.bit(1)).ok_or(PointError::NotOnCurve)?;
    in_subgroup(G2Affine::new_unchecked(x, if real.bit(0) { -y } else { y }))
}

/// The compressed form of a G1 point that is not at infinity.
pub fn compress_g1(point: &G1Affine) -> U256 {
    let (x, y) = (point.x, point.y);
    let is_root = root(y.square()) == Some(y);
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

/// The square root that is itself a square. Because p is 3 mod 4, it is the power (p + 1) / 4.
fn root(square: Fq) -> Option<Fq> {
    square.sqrt()
}

/// The square root of a + b·i with the real part √((a ± d)/2), where d = √(a² + b²); the hint
/// chooses minus.
fn root_in_extension(square: Fq2, hint: bool) -> Option<Fq2> {
    let norm = root(square.c0.square() + square.c1.square())?;
    let norm = if hint { -norm } else { norm };
    let real = root((square.c0 + norm) * HALF)?;
    let found = Fq2::new(real, square.c1 * real.double().inverse()?);
    (found.square() == square).then_some(found)
}

const HALF: Fq = MontFp!("10944121435919637611123202872628637544348155578648911831344518947322613104292");
