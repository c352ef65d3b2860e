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
use crate::sha256::Sha256;
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

/// Points `H` and `L` together.
const C_POINTS: usize = DOMAIN + WIRES - PUBLIC_WIRES;

/// Bytes of a list that has a bit for each wire.
pub const WIRE_BITS: usize = (WIRES + 7) / 8;

/// Bytes of the file.
pub const KEY_LENGTH: usize =
    MARK.len() + 3 * 32 + 2 * 64 + 2 * WIRE_BITS + A_POINTS * 32 + B_POINTS * (32 + 64) + C_POINTS * 32;

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

/// The proving key with points in plain form: 2.9 MB.
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
        KeyReader::new(file)?.read_all()
    }
}

/// Reads the file in parts: recognizing it and computing the second coordinates takes a second or
/// more, and a worker answers its page between two parts.
pub struct KeyReader<File> {
    file: File,
    /// Where the part of the file begins that is not hashed yet, and later that is not read yet.
    place: usize,
    /// The constants of both curves.
    constants: (Base, Extension),
    /// The hash of what was hashed; `None` when the file is known.
    hash: Option<Sha256>,
    /// The key without some of its points; `None` before the file is known.
    key: Option<ProvingKey>,
}

/// Bytes that are hashed in about the time in which a point is read.
const HASHED: usize = 16 * Sha256::BLOCK;

impl<File: AsRef<[u8]>> KeyReader<File> {
    /// Before the first part.
    pub fn new(file: File) -> Result<Self, Error> {
        if file.as_ref().len() == KEY_LENGTH {
            Ok(Self::of(file, Some(Sha256::new())))
        } else {
            Err(Error::KeyLength)
        }
    }

    fn of(file: File, hash: Option<Sha256>) -> Self {
        let constants = (Base::curve_constant(), Extension::curve_constant());
        Self { file, place: 0, constants, hash, key: None }
    }

    /// Does the next `count` steps, which are about as long as each other: hashes a kibibyte, or
    /// reads a point. Returns whether there are more. After an error there is no key.
    pub fn read_part(&mut self, count: usize) -> Result<bool, Error> {
        let file = self.file.as_ref();
        if let Some(mut hash) = self.hash.take() {
            let rest = &file[self.place..];
            let whole = rest.len() / Sha256::BLOCK * Sha256::BLOCK;
            let now = whole.min(count.saturating_mul(HASHED));
            hash.update(&rest[..now]);
            self.place += now;
            if now < whole {
                self.hash = Some(hash);
            } else if hash.finish(&rest[now..]) == KEY_HASH {
                self.place = 0;
            } else {
                return Err(Error::KeyDamaged);
            }
            return Ok(true);
        }
        let mut parts = Parts { rest: &file[self.place..], constants: self.constants };
        let key = match &mut self.key {
            Some(key) => key,
            // That points are in the subgroup of prime order is known from the hash.
            None => self.key.insert(parts.without_points()?),
        };
        let mut count = count;
        parts.push(&mut key.a.points, key.a.wires.len(), &mut count, Parts::first)?;
        parts.push(&mut key.b.points, key.b.wires.len(), &mut count, Parts::first)?;
        parts.push(&mut key.b_second, B_POINTS, &mut count, Parts::second)?;
        parts.push(&mut key.c, C_POINTS, &mut count, Parts::first)?;
        self.place = file.len() - parts.rest.len();
        Ok(key.c.len() < C_POINTS)
    }

    /// The key, when all of it is read.
    pub fn finish(self) -> Option<ProvingKey> {
        self.key.filter(|key| key.c.len() == C_POINTS)
    }

    fn read_all(mut self) -> Result<ProvingKey, Error> {
        while self.read_part(usize::MAX)? {}
        self.finish().ok_or(Error::KeyLength)
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

    /// Adds points until the list has `length` of them, and at most `count`, which it counts down.
    fn push<T>(
        &mut self,
        points: &mut Vec<T>,
        length: usize,
        count: &mut usize,
        read: fn(&mut Self) -> Result<T, Error>,
    ) -> Result<(), Error> {
        while points.len() < length && *count > 0 {
            points.push(read(self)?);
            *count -= 1;
        }
        Ok(())
    }

    /// The key before its long lists of points.
    fn without_points(&mut self) -> Result<ProvingKey, Error> {
        self.take(MARK.len())?;
        let (alpha, beta, delta) = (self.first()?, self.first()?, self.first()?);
        let (beta_second, delta_second) = (self.second()?, self.second()?);
        let (a_wires, b_wires) = (self.wires()?, self.wires()?);
        Ok(ProvingKey {
            alpha,
            beta,
            delta,
            beta_second,
            delta_second,
            a: WirePoints { points: Vec::with_capacity(a_wires.len()), wires: a_wires },
            b: WirePoints { points: Vec::with_capacity(b_wires.len()), wires: b_wires },
            b_second: Vec::with_capacity(B_POINTS),
            c: Vec::with_capacity(C_POINTS),
        })
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

    /// Reads a file without its length and hash.
    fn decode_file(file: &[u8]) -> Result<(), Error> {
        KeyReader::of(file, None).read_all().map(|_| ())
    }

    /// Reads the file without its hash, with other bytes at this place.
    fn decode(place: usize, bytes: &[u8]) -> Result<(), Error> {
        let mut file = FILE.to_vec();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        decode_file(&file)
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
            assert_eq!(decode_file(&FILE[..length]), Err(Error::KeyLength), "{length} bytes");
        }
    }

    #[test]
    fn wires_with_a_point_are_as_many_as_there_are_points() {
        let key = ProvingKey::read(FILE);
        let counts = key.map(|key| [key.a.wires.len(), key.b.wires.len(), key.c.len()]);
        assert_eq!(counts, Ok([A_POINTS, B_POINTS, C_POINTS]));
    }

    #[test]
    fn a_key_that_is_read_in_parts_is_the_one_that_is_read_at_once() {
        let whole = ProvingKey::read(FILE).unwrap();
        let mut reader = KeyReader::new(FILE.to_vec()).unwrap();
        // Parts that end inside of each list and at its end.
        let mut parts = [0, 1, A_POINTS - 1, B_POINTS, 7, 2 * B_POINTS].iter().cycle();
        let mut count = 0;
        while reader.read_part(*parts.next().unwrap()).unwrap() {
            count += 1;
        }
        assert!(count > 3, "{count}");
        let key = reader.finish().unwrap();
        assert!(key.a.points == whole.a.points && key.a.wires == whole.a.wires);
        assert!(key.b.points == whole.b.points && key.b.wires == whole.b.wires);
        assert!(key.b_second == whole.b_second && key.c == whole.c);
    }

    #[test]
    fn a_key_is_finished_when_all_points_are_read() {
        let points = A_POINTS + 2 * B_POINTS + C_POINTS;
        for (count, is_whole) in [(0, false), (A_POINTS, false), (points - 1, false), (points, true)] {
            let mut reader = KeyReader::of(FILE, None);
            assert_eq!(reader.read_part(count), Ok(!is_whole), "{count} points");
            assert_eq!(reader.finish().is_some(), is_whole, "{count} points");
        }
    }

    #[test]
    fn a_damaged_file_gives_no_key_however_it_is_read() {
        let mut file = FILE.to_vec();
        *file.last_mut().unwrap() ^= 1;
        let mut reader = KeyReader::new(file).unwrap();
        let error = loop {
            match reader.read_part(100) {
                Ok(true) => {}
                end => break end,
            }
        };
        assert_eq!(error, Err(Error::KeyDamaged));
        assert!(reader.finish().is_none());
    }
}
