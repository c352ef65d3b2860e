//! The canonical binary encoding of blocks, results and stored records.
//!
//! Fields follow one another in the order of the type's definition:
//!
//! | type | bytes |
//! |---|---|
//! | `bool` | byte 0 or 1 |
//! | `u8`, `u32`, `u64` | big-endian, fixed width |
//! | [`Compact`] | groups of seven bits, the lowest first, as few as the number needs, each in a byte; the high bit of every byte but the last is set |
//! | `U256` | 32 bytes big-endian |
//! | `B256`, `Address`, byte arrays | as they are |
//! | text | `u32` length, UTF-8 |
//! | pair | one value, then the other |
//! | list | `u32` count, the items |
//! | option | byte 0, or byte 1 and the value |
//! | enum | byte tag, the variant's fields |
//!
//! A value has exactly one encoding, and [`decode`] accepts nothing else: other tags, left-over
//! bytes, counts that the input cannot hold and numbers that the type does not have are errors.
//! Equal values therefore have equal hashes, and a damaged record that is not an encoding is
//! detected.

use alloy_primitives::{Address, B256, U256};

/// Bytes that are not the encoding of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends before the value is complete.
    #[error("the record ends in the middle of a field")]
    Truncated,
    /// This many bytes, at least 1, follow the value, which must fill the input.
    #[error("{0} bytes follow the record")]
    LeftOver(usize),
    /// The byte that selects a variant has a value that no variant of the type has.
    #[error("{tag} is not a tag of {kind}")]
    UnknownTag {
        /// The type, in the words of the message, such as `a boolean`.
        kind: &'static str,
        /// The byte that was read.
        tag: u8,
    },
    /// An encrypted record was encrypted with another key, or was changed.
    #[error("the record was encrypted with another key, or was changed")]
    NotAuthentic,
    /// The bytes of a text are not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A number fits its width and is not a value of this field or type.
    #[error("a number is out of the range of {0}")]
    OutOfRange(&'static str),
    /// The version byte of a record is not the version that this program reads.
    #[error("{kind} has version {found}; this program knows version {known}")]
    UnknownVersion {
        /// The type of record, such as `block header`.
        kind: &'static str,
        /// The version byte of the record.
        found: u8,
        /// The latest version that this program reads.
        known: u8,
    },
}

/// A type with a canonical encoding.
pub trait Encoding: Sized {
    /// Appends the encoding of `self`.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads one value from the front of `input`, and moves `input` to the bytes after it.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError>;
}

/// Bytes that hold most encoded values. A buffer that begins empty would grow step by step.
const USUAL_LENGTH: usize = 128;

/// The encoding of a value.
pub fn encode(value: &impl Encoding) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_LENGTH);
    value.encode(&mut out);
    out
}

/// Reads a value that must fill `input` exactly.
pub fn decode<T: Encoding>(mut input: &[u8]) -> Result<T, DecodeError> {
    let value = T::decode(&mut input)?;
    if input.is_empty() { Ok(value) } else { Err(DecodeError::LeftOver(input.len())) }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (head, tail) = input.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
    *input = tail;
    Ok(*head)
}

impl<const N: usize> Encoding for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take(input)
    }
}

impl Encoding for () {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl<A: Encoding, B: Encoding> Encoding for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
}

impl Encoding for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::UnknownTag { kind: "a boolean", tag }),
        }
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Encoding for $integer {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                take(input).map(Self::from_be_bytes)
            }
        }
    )*};
}
integers!(u8, u32, u64);

/// A number that is nearly always small, in as few bytes as it needs: one up to 127, at most ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact(pub u64);

impl Compact {
    /// The bits of the number in a byte.
    const GROUP: u32 = 7;
    /// Set in a byte that another one follows.
    const MORE: u8 = 1 << Self::GROUP;
}

impl Encoding for Compact {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self(mut rest) = *self;
        while rest >= u64::from(Self::MORE) {
            out.push(rest as u8 | Self::MORE);
            rest >>= Self::GROUP;
        }
        out.push(rest as u8);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(Self::GROUP as usize) {
            let byte = u8::decode(input)?;
            let group = u64::from(byte & !Self::MORE);
            // The last group of ten has one bit. A last group of zero, but the only one, is not
            // needed.
            if group << shift >> shift != group || (byte == 0 && shift > 0) {
                break;
            }
            number |= group << shift;
            if byte & Self::MORE == 0 {
                return Ok(Self(number));
            }
        }
        Err(DecodeError::OutOfRange("a compact number"))
    }
}

impl Encoding for U256 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes::<32>());
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take(input).map(Self::from_be_bytes::<32>)
    }
}

impl Encoding for B256 {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take(input).map(Self)
    }
}

impl Encoding for Address {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take::<20>(input).map(Self::from)
    }
}

impl Encoding for String {
    fn encode(&self, out: &mut Vec<u8>) {
        length(self.len()).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let length = u32::decode(input)? as usize;
        let (text, rest) = input.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        *input = rest;
        String::from_utf8(text.to_vec()).map_err(|_| DecodeError::NotUtf8)
    }
}

impl<T: Encoding> Encoding for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        length(self.len()).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        // With items of no size, four bytes of input could claim a list of 2³² - 1 items.
        const { assert!(size_of::<T>() != 0, "a list has items that are something") };
        let count = u32::decode(input)? as usize;
        // A false count cannot reserve more memory than the input has bytes. The list grows while
        // its items are read, when they need more.
        let mut items = Vec::with_capacity(count.min(input.len() / size_of::<T>()));
        for _ in 0..count {
            items.push(T::decode(input)?);
        }
        Ok(items)
    }
}

impl<T: Encoding> Encoding for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(None),
            1 => T::decode(input).map(Some),
            tag => Err(DecodeError::UnknownTag { kind: "an optional value", tag }),
        }
    }
}

/// The encoded length of a list or text.
///
/// # Panics
/// When the length is 2³² or more: its low 32 bits would be the encoding of another length. The
/// limits on bodies and blocks keep every length far below that.
#[expect(clippy::panic, reason = "a wrong encoding must never be hashed or stored")]
fn length(length: usize) -> u32 {
    match u32::try_from(length) {
        Ok(length) => length,
        Err(_) => panic!("a list or text of {length} items is longer than its encoding can say (2³² - 1)"),
    }
}

/// Implements [`Encoding`] for a struct: its fields in the given order, which is the order of its
/// definition. With `version N of "kind"` a version byte comes first.
#[macro_export]
macro_rules! encode_fields {
    ($name:ident { $($field:ident),* $(,)? } $(version $version:literal of $kind:literal)?) => {
        impl $crate::encoding::Encoding for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $(out.push($version);)?
                $($crate::encoding::Encoding::encode($field, out);)*
            }
            fn decode(input: &mut &[u8]) -> Result<Self, $crate::encoding::DecodeError> {
                $($crate::encoding::expect_version($kind, $version, input)?;)?
                Ok(Self { $($field: $crate::encoding::Encoding::decode(input)?),* })
            }
        }
    };
}

/// Implements [`Encoding`] for an enum without fields: a byte for each variant. `kind` completes
/// the error text "… is not a tag of".
#[macro_export]
macro_rules! encode_enum {
    ($name:ident { $($variant:ident = $tag:literal),* $(,)? } of $kind:literal) => {
        impl $crate::encoding::Encoding for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(match self {
                    $(Self::$variant => $tag,)*
                });
            }
            fn decode(input: &mut &[u8]) -> Result<Self, $crate::encoding::DecodeError> {
                match <u8 as $crate::encoding::Encoding>::decode(input)? {
                    $($tag => Ok(Self::$variant),)*
                    tag => Err($crate::encoding::DecodeError::UnknownTag { kind: $kind, tag }),
                }
            }
        }
    };
}

/// Reads a version byte.
///
/// # Errors
/// The version is not `known`.
pub fn expect_version(kind: &'static str, known: u8, input: &mut &[u8]) -> Result<(), DecodeError> {
    match u8::decode(input)? {
        version if version == known => Ok(()),
        found => Err(DecodeError::UnknownVersion { kind, found, known }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_number_has_as_few_bytes_as_it_needs() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let cases: [(u64, &[u8]); 7] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 0x01]),
            (1 << 63, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]),
            (u64::MAX, &most),
        ];
        for (number, bytes) in cases {
            assert_eq!(encode(&Compact(number)), bytes, "{number}");
            assert_eq!(decode::<Compact>(bytes), Ok(Compact(number)), "{number}");
            assert_eq!(decode::<Compact>(&bytes[..bytes.len() - 1]), Err(DecodeError::Truncated), "{number}");
        }
        let mut too_large = most;
        too_large[9] = 0x02;
        let mut too_long = [0x80; 11];
        too_long[10] = 0x01;
        for refused in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00], &too_large, &too_long] {
            let error = DecodeError::OutOfRange("a compact number");
            assert_eq!(Compact::decode(&mut &*refused), Err(error), "{refused:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_compact_number_has_one_encoding(number: u64, bits in 0_u32..64, bytes: [u8; 10]) {
            let number = Compact(number >> bits);
            proptest::prop_assert_eq!(decode(&encode(&number)), Ok(number));
            let mut rest = &bytes[..];
            if let Ok(number) = Compact::decode(&mut rest) {
                proptest::prop_assert_eq!(encode(&number), &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    #[test]
    fn damaged_input_is_rejected() {
        let bytes = encode(&vec!["one".to_owned(), "two".to_owned()]);
        assert_eq!(decode::<Vec<String>>(&bytes), Ok(vec!["one".to_owned(), "two".to_owned()]));
        for cut in 0..bytes.len() {
            assert_eq!(decode::<Vec<String>>(&bytes[..cut]), Err(DecodeError::Truncated), "cut at {cut}");
        }
        assert_eq!(decode::<u32>(&[0, 0, 0, 1, 9]), Err(DecodeError::LeftOver(1)));
        assert_eq!(decode::<Vec<u8>>(&[0xff; 8]), Err(DecodeError::Truncated));
        assert_eq!(decode::<String>(&[0, 0, 0, 1, 0xff]), Err(DecodeError::NotUtf8));
        assert!(matches!(decode::<Option<u8>>(&[2, 0]), Err(DecodeError::UnknownTag { tag: 2, .. })));
    }
}
