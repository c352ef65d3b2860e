//! The proving key: its file, and its points in memory.
//!
//! | part of the file | length in bytes |
//! |---|---|
//! | [`MARK`] | 32 |
//! | α, β, δ of the first group | 3 · 32 |
//! | β, δ of the second group | 2 · 64 |
//! | which wires have a point `A`: a bit for each wire, the lowest bit of a byte first | 1 003 |
//! | which wires have a point `B` | 1 003 |
//! | points `A` | 7 953 · 32 |
//! | points `B` of the first group | 5 260 · 32 |
//! | points `B` of the second group | 5 260 · 64 |
//! | points `H`, one for each point of the shifted domain | 8 192 · 32 |
//! | points `L`, one for each wire that is not public | 8 014 · 32 |
//!
//! Points are compressed as in arkworks: the first coordinate, the lowest byte first, real before
//! imaginary part; the highest bit says that the second coordinate is greater than its negative.
//! Points at infinity are left out. So all points are byte for byte those of the artefact that the
//! file is made from.

use crate::curve::{Affine, G1, G2};
use crate::field::{Base, Coordinate, Extension};
use crate::sha256::sha256;
use crate::witness::{PUBLIC_WIRES, WIRES};
use crate::Error;

/// The beginning of the file.
pub const MARK: &[u8; 32] = b"selfsame proving key, depth 30\n\0";

/// Size of the domain on which the constraints are interpolated: a power of two.
pub const DOMAIN: usize = 8_192;

/// Wires that have a point `A`.
pub const A_POINTS: usize = 7_953;

/// Wires that have a point `B`.
pub const B_POINTS: usize = 5_260;

/// Bytes of a list that has a bit for each wire.
pub const WIRE_BITS: usize = (WIRES + 7) / 8;

/// Bytes of the file.
pub const KEY_LENGTH: usize = MARK.len()
    + 3 * 32
    + 2 * 64
    + 2 * WIRE_BITS
    + A_POINTS * 32
    + B_POINTS * (32 + 64)
    + (DOMAIN + WIRES - PUBLIC_WIRES) * 32;

/// SHA-256 of the file. There is one key for the circuit.
pub const KEY_HASH: [u8; 32] = [
    0x06, 0x73, 0x52, 0x51, 0x95, 0x4d, 0x45, 0x7d, 0x9c, 0xe1, 0xeb, 0x76, 0xd9, 0x3d, 0x6d, 0x88, 0x59, 0xd2, 0x25,
    0xce, 0xf7, 0xe2, 0x8b, 0x59, 0x3f, 0x75, 0x93, 0x22, 0xbd, 0xed, 0x50, 0x2a,
];

/// Points of the wires that have one.
pub(crate) struct WirePoints<F> {
    wires: Vec<usize>,
    pub(crate) points: Vec<Affine<F>>,
}

impl<F> WirePoints<F> {
    /// The values of the wires that have a point, of the values of all wires.
    pub(crate) fn select<'a, T: Copy>(&'a self, values: &'a [T]) -> impl Iterator<Item = T> + 'a {
        self.wires.iter().map(move |wire| values[*wire])
    }
}

/// The proving key with points in plain form: 2.6 MB.
pub struct ProvingKey {
    pub(crate) alpha: G1,
    pub(crate) beta: G1,
    pub(crate) delta: G1,
    pub(crate) beta_second: G2,
    pub(crate) delta_second: G2,
    pub(crate) a: WirePoints<Base>,
    pub(crate) b: WirePoints<Base>,
    pub(crate) b_second: Vec<G2>,
    /// Points `H`, and after them points `L`.
    pub(crate) c: Vec<G1>,
}

impl ProvingKey {
    /// Reads the file, and computes the second coordinates of its points.
    pub fn read(file: &[u8]) -> Result<Self, Error> {
        if file.len() != KEY_LENGTH {
            return Err(Error::KeyLength);
        }
        if sha256(file) != KEY_HASH {
            return Err(Error::KeyDamaged);
        }
        Self::decode(file)
    }

    /// Reads the parts of a file. That points are in the subgroup of prime order is known from the
    /// hash.
    fn decode(file: &[u8]) -> Result<Self, Error> {
        let mut parts = Parts { rest: file, constants: (Base::curve_constant(), Extension::curve_constant()) };
        parts.take(MARK.len())?;
        let (alpha, beta, delta) = (parts.first()?, parts.first()?, parts.first()?);
        let (beta_second, delta_second) = (parts.second()?, parts.second()?);
        let (a_wires, b_wires) = (parts.wires()?, parts.wires()?);
        Ok(Self {
            alpha,
            beta,
            delta,
            beta_second,
            delta_second,
            a: WirePoints { points: parts.many(a_wires.len(), Parts::first)?, wires: a_wires },
            b: WirePoints { points: parts.many(b_wires.len(), Parts::first)?, wires: b_wires },
            b_second: parts.many(B_POINTS, Parts::second)?,
            c: parts.many(DOMAIN + WIRES - PUBLIC_WIRES, Parts::first)?,
        })
    }
}

/// The part of a file that is not read yet, and the constants of both curves.
struct Parts<'a> {
    rest: &'a [u8],
    constants: (Base, Extension),
}

impl<'a> Parts<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        if self.rest.len() < length {
            return Err(Error::KeyLength);
        }
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(part)
    }

    fn many<T>(&mut self, count: usize, read: fn(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        (0..count).map(|_| read(self)).collect()
    }

    fn wires(&mut self) -> Result<Vec<usize>, Error> {
        let bits = self.take(WIRE_BITS)?;
        Ok((0..WIRES).filter(|wire| bits[wire / 8] >> (wire % 8) & 1 == 1).collect())
    }

    /// A coordinate, and the two bits above it.
    fn coordinate(&mut self) -> Result<(Base, u8), Error> {
        let mut bytes = [0; 32];
        for (byte, stored) in bytes.iter_mut().rev().zip(self.take(32)?) {
            *byte = *stored;
        }
        let flags = bytes[0] >> 6;
        bytes[0] &= 0x3f;
        Ok((Base::from_bytes(&bytes).ok_or(Error::KeyPoint)?, flags))
    }

    fn first(&mut self) -> Result<G1, Error> {
        let (x, flags) = self.coordinate()?;
        point(x, flags, self.constants.0)
    }

    fn second(&mut self) -> Result<G2, Error> {
        let (real, real_flags) = self.coordinate()?;
        let (imaginary, flags) = self.coordinate()?;
        if real_flags != 0 {
            return Err(Error::KeyPoint);
        }
        point(Extension::new(real, imaginary), flags, self.constants.1)
    }
}

/// Of the two flags, the lower one would be that of the point at infinity.
fn point<F: Coordinate>(x: F, flags: u8, constant: F) -> Result<Affine<F>, Error> {
    let is_greater = flags & 2 != 0;
    let point = if flags & 1 == 0 { Affine::from_x(x, is_greater, constant) } else { None };
    point.ok_or(Error::KeyPoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = include_bytes!("../key.bin");

    /// Where the first point is, and the first of the second group.
    const FIRST: usize = MARK.len();
    const SECOND: usize = FIRST + 3 * 32;

    /// Reads the file without its hash, with other bytes at this place.
    fn decode(place: usize, bytes: &[u8]) -> Result<(), Error> {
        let mut file = FILE.to_vec();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        ProvingKey::decode(&file).map(|_| ())
    }

    #[test]
    fn points_that_are_not_on_their_curve_are_refused() {
        assert_eq!(decode(0, MARK), Ok(()));
        // Zero is the first coordinate of no point of the first group.
        assert_eq!(decode(FIRST, &[0; 32]), Err(Error::KeyPoint));
        // A coordinate that is not below the modulus, and the flag of the point at infinity.
        assert_eq!(decode(FIRST, &[[0xff; 31].as_slice(), &[0x3f]].concat()), Err(Error::KeyPoint));
        assert_eq!(decode(FIRST + 31, &[FILE[FIRST + 31] | 0x40]), Err(Error::KeyPoint));
        // Flags have their place in the imaginary part.
        assert_eq!(decode(SECOND + 31, &[FILE[SECOND + 31] | 0x80]), Err(Error::KeyPoint));
        assert_eq!(decode(SECOND + 63, &[FILE[SECOND + 63] | 0x40]), Err(Error::KeyPoint));
        // The other sign gives the other point, which is on the curve.
        assert_eq!(decode(FIRST + 31, &[FILE[FIRST + 31] ^ 0x80]), Ok(()));
    }

    #[test]
    fn a_file_that_ends_early_is_refused_wherever_it_ends() {
        for length in [0, FIRST, FIRST + 31, SECOND + 32, FILE.len() / 2, FILE.len() - 1] {
            assert_eq!(ProvingKey::decode(&FILE[..length]).map(|_| ()), Err(Error::KeyLength), "{length} bytes");
        }
    }

    #[test]
    fn wires_with_a_point_are_as_many_as_there_are_points() {
        let key = ProvingKey::read(FILE);
        let counts = key.map(|key| [key.a.wires.len(), key.b.wires.len(), key.c.len()]);
        assert_eq!(counts, Ok([A_POINTS, B_POINTS, DOMAIN + WIRES - PUBLIC_WIRES]));
    }
}
