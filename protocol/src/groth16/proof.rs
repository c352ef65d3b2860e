//! The encodings of proofs.

use ark_bn254::{Fq, G1Affine, G2Affine};

use super::lanes;
use super::point::{self, CompressedG1, CompressedG2, PointError};
use crate::U256;

/// Words of a legacy proof.
pub const LEGACY_WORDS: usize = 8;

/// Words of a current proof without the root that follows them.
pub const CURRENT_WORDS: usize = 4;

/// A proof whose points are on their curves, in their subgroups and not at infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub(super) a: G1Affine,
    pub(super) b: G2Affine,
    pub(super) c: G1Affine,
}

/// Why words are not a valid proof: the point that is wrong, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("point {point}: {error}")]
pub struct ProofError {
    /// `A`, `B` or `C`.
    pub point: char,
    /// Why the point is not valid.
    pub error: PointError,
}

impl Proof {
    /// Reads the legacy encoding: A.x A.y B.x.c1 B.x.c0 B.y.c1 B.y.c0 C.x C.y, or the compressed
    /// words of [`Self::from_current`] and four zero words.
    pub fn from_legacy(words: &[U256; LEGACY_WORDS]) -> Result<Self, ProofError> {
        let [ax, ay, bx1, bx0, by1, by0, cx, cy] = words;
        // C cannot be (0, 0) in the plain form, so no words are valid in both forms.
        if [by1, by0, cx, cy].into_iter().all(U256::is_zero) {
            return Self::from_current(&[*ax, *ay, *bx1, *bx0]);
        }
        let a = point::g1(ax, ay).map_err(proof_error('A'))?;
        let b = point::g2([bx0, bx1], [by0, by1]).map_err(proof_error('B'))?;
        let c = point::g1(cx, cy).map_err(proof_error('C'))?;
        Ok(Self { a, b, c })
    }

    /// Reads the compressed encoding of the current protocol: A, B.x1, B.x0 with hint and sign, C.
    pub fn from_current([a, b1, b0, c]: &[U256; CURRENT_WORDS]) -> Result<Self, ProofError> {
        let a = point::decompress_g1(a).map_err(proof_error('A'))?;
        let b = point::decompress_g2(b0, b1).map_err(proof_error('B'))?;
        let c = point::decompress_g1(c).map_err(proof_error('C'))?;
        Ok(Self { a, b, c })
    }

    /// The legacy encoding.
    pub fn to_legacy(&self) -> [U256; LEGACY_WORDS] {
        let Self { a, b, c } = self;
        [a.x, a.y, b.x.c1, b.x.c0, b.y.c1, b.y.c0, c.x, c.y].map(|value| point::coordinate_number(&value))
    }

    /// The compressed encoding.
    pub fn to_current(&self) -> [U256; CURRENT_WORDS] {
        let (b0, b1) = point::compress_g2(&self.b);
        [point::compress_g1(&self.a), b1, b0, point::compress_g1(&self.c)]
    }
}

/// The words that a proof is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofWords {
    /// The words that [`Proof::from_legacy`] reads.
    Legacy([U256; LEGACY_WORDS]),
    /// The words that [`Proof::from_current`] reads.
    Current([U256; CURRENT_WORDS]),
}

impl ProofWords {
    /// Reads one proof.
    pub fn decode(&self) -> Result<Proof, ProofError> {
        match self {
            Self::Legacy(words) => Proof::from_legacy(words),
            Self::Current(words) => Proof::from_current(words),
        }
    }

    /// Reads many proofs together. On a processor with AVX-512 IFMA it takes less time than one
    /// after the other. The results are those of [`ProofWords::decode`], in the order of `proofs`.
    pub fn decode_all(proofs: &[Self]) -> Vec<Result<Proof, ProofError>> {
        // For a single proof the scalar arithmetic takes less time.
        if proofs.len() < 2 || !lanes::are_available() {
            return proofs.iter().map(Self::decode).collect();
        }
        // The functions return `None` without the instructions only.
        let powers = |elements: &[Fq]| lanes::root_powers(elements).unwrap_or_default();
        let are_in_subgroup = |points: &[G2Affine]| lanes::are_in_subgroup(points).unwrap_or_default();
        decode_together(proofs, powers, are_in_subgroup)
    }
}

/// A point that is read, or that needs a square root.
enum Reading<Point, Compressed> {
    Read(Point),
    Compressed(Compressed),
}

/// The points of a proof, of which each may be wrong.
struct Readings {
    a: Result<Reading<G1Affine, CompressedG1>, PointError>,
    b: Result<Reading<G2Affine, CompressedG2>, PointError>,
    c: Result<Reading<G1Affine, CompressedG1>, PointError>,
}

impl Readings {
    fn new(words: &ProofWords) -> Self {
        let [a, b1, b0, c] = match words {
            ProofWords::Legacy([ax, ay, bx1, bx0, by1, by0, cx, cy]) => {
                if ![by1, by0, cx, cy].into_iter().all(U256::is_zero) {
                    return Self {
                        a: point::g1(ax, ay).map(Reading::Read),
                        b: point::g2_on_curve([bx0, bx1], [by0, by1]).map(Reading::Read),
                        c: point::g1(cx, cy).map(Reading::Read),
                    };
                }
                [ax, ay, bx1, bx0]
            }
            ProofWords::Current([a, b1, b0, c]) => [a, b1, b0, c],
        };
        Self {
            a: CompressedG1::read(a).map(Reading::Compressed),
            b: CompressedG2::read(b0, b1).map(Reading::Compressed),
            c: CompressedG1::read(c).map(Reading::Compressed),
        }
    }

    /// The squares of which the points of G1 and the norm of B need the powers.
    fn squares(&self) -> impl Iterator<Item = Fq> {
        let of_g1 = |point: &Result<_, _>| match point {
            Ok(Reading::Compressed(CompressedG1 { square, .. })) => Some(*square),
            _ => None,
        };
        let of_b = match &self.b {
            Ok(Reading::Compressed(b)) => Some(b.norm_square()),
            _ => None,
        };
        [of_g1(&self.a), of_b, of_g1(&self.c)].into_iter().flatten()
    }
}

/// Reads many proofs with functions that compute, for all of them together, [`point::root_power`]
/// and whether points of the curve of G2 are in the subgroup.
pub(super) fn decode_together(
    proofs: &[ProofWords],
    root_powers: impl Fn(&[Fq]) -> Vec<Fq>,
    are_in_subgroup: impl Fn(&[G2Affine]) -> Vec<bool>,
) -> Vec<Result<Proof, ProofError>> {
    let readings: Vec<Readings> = proofs.iter().map(Readings::new).collect();
    let squares: Vec<Fq> = readings.iter().flat_map(Readings::squares).collect();
    let mut powers = root_powers(&squares).into_iter();
    // There is a power for each square, and they are taken in the same order.
    let mut next = || powers.next().unwrap_or_default();

    let finish_g1 = |point, power: &mut dyn FnMut() -> Fq| match point {
        Reading::Read(point) => Ok(point),
        Reading::Compressed(point) => CompressedG1::finish(&point, power()),
    };
    let mut halfway = Vec::with_capacity(proofs.len());
    for Readings { a, b, c } in readings {
        let a = a.and_then(|a| finish_g1(a, &mut next));
        let b = b.and_then(|b| match b {
            Reading::Read(b) => Ok(Reading::Read(b)),
            Reading::Compressed(b) => Ok(Reading::Compressed((b.real_square(next())?, b))),
        });
        let c = c.and_then(|c| finish_g1(c, &mut next));
        halfway.push((a, b, c));
    }
    let squares = halfway.iter().filter_map(|(_, b, _)| match b {
        Ok(Reading::Compressed((real_square, _))) => Some(*real_square),
        _ => None,
    });
    let mut powers = root_powers(&squares.collect::<Vec<_>>()).into_iter();
    let finished: Vec<_> = halfway
        .into_iter()
        .map(|(a, b, c)| {
            let b = b.and_then(|b| match b {
                Reading::Read(b) => Ok(b),
                Reading::Compressed((real_square, b)) => b.finish(real_square, powers.next().unwrap_or_default()),
            });
            (a, b, c)
        })
        .collect();
    let on_curve: Vec<G2Affine> = finished.iter().filter_map(|(_, b, _)| b.as_ref().ok().copied()).collect();
    let mut are_inside = are_in_subgroup(&on_curve).into_iter();
    finished
        .into_iter()
        .map(|(a, b, c)| {
            let check = |b| if are_inside.next() == Some(true) { Ok(b) } else { Err(PointError::NotInSubgroup) };
            let b = b.and_then(check);
            Ok(Proof {
                a: a.map_err(proof_error('A'))?,
                b: b.map_err(proof_error('B'))?,
                c: c.map_err(proof_error('C'))?,
            })
        })
        .collect()
}

fn proof_error(point: char) -> impl FnOnce(PointError) -> ProofError {
    move |error| ProofError { point, error }
}
