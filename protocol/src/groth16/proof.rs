//! The encodings of proofs.

use ark_bn254::{G1Affine, G2Affine};

use super::point::{self, PointError};
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

fn proof_error(point: char) -> impl FnOnce(PointError) -> ProofError {
    move |error| ProofError { point, error }
}
