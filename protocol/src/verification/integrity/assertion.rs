//! The assertion of a device with iOS (App Attest): a map in CBOR (RFC 8949) with two byte strings,
//! `signature` and `authenticatorData`.
//!
//! The reader takes that map alone: definite lengths in their shortest form, each key once, nothing
//! behind it. So an assertion has two encodings, one for each order of its keys.

use super::IntegrityError;

/// Major types (RFC 8949, section 3.1).
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const MAP: u8 = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assertion<'a> {
    pub signature: &'a [u8],
    pub authenticator_data: &'a [u8],
}

impl<'a> Assertion<'a> {
    pub fn read(mut input: &'a [u8]) -> Result<Self, IntegrityError> {
        let wrong = |problem| IntegrityError::Assertion { problem };
        if head(&mut input, MAP) != Some(2) {
            return Err(wrong("it is not a map of two entries in CBOR"));
        }
        let (mut signature, mut authenticator_data) = (None, None);
        for _ in 0..2 {
            let key = string(&mut input, TEXT).ok_or(wrong("a key is not a text"))?;
            let value = string(&mut input, BYTES).filter(|value| !value.is_empty());
            let value = value.ok_or(wrong("a value is not a byte string, or is empty"))?;
            let place = match key {
                b"signature" => &mut signature,
                b"authenticatorData" => &mut authenticator_data,
                _ => return Err(wrong("a key is neither signature nor authenticatorData")),
            };
            *place = Some(value);
        }
        match (signature, authenticator_data) {
            (Some(signature), Some(authenticator_data)) if input.is_empty() => {
                Ok(Self { signature, authenticator_data })
            }
            (Some(_), Some(_)) => Err(wrong("bytes follow the map")),
            _ => Err(wrong("a key occurs twice")),
        }
    }
}

/// Reads the head of an item of a type: its length, or its number of entries. No item of a bundle
/// is longer than two bytes can say.
fn head(input: &mut &[u8], major: u8) -> Option<usize> {
    let first = take(input, 1)?[0];
    if first >> 5 != major {
        return None;
    }
    match first & 0x1f {
        short @ 0..24 => Some(usize::from(short)),
        24 => Some(usize::from(take(input, 1)?[0])).filter(|length| *length >= 24),
        25 => match take(input, 2)? {
            [high, low] => Some(usize::from(u16::from_be_bytes([*high, *low]))).filter(|length| *length > 0xff),
            _ => None,
        },
        _ => None,
    }
}

fn string<'a>(input: &mut &'a [u8], major: u8) -> Option<&'a [u8]> {
    let length = head(input, major)?;
    take(input, length)
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two encodings of `{"signature": h'0102', "authenticatorData": h'03'}`.
    const ONE_ORDER: &[u8] = b"\xa2\x69signature\x42\x01\x02\x71authenticatorData\x41\x03";
    const OTHER_ORDER: &[u8] = b"\xa2\x71authenticatorData\x41\x03\x69signature\x42\x01\x02";

    #[test]
    fn an_assertion_is_a_map_of_two_byte_strings() {
        let expected = Assertion { signature: &[1, 2], authenticator_data: &[3] };
        for text in [ONE_ORDER, OTHER_ORDER] {
            assert_eq!(Assertion::read(text).as_ref(), Ok(&expected));
        }
        let long = [b"\xa2\x69signature\x58\x18".as_slice(), &[1; 24], b"\x71authenticatorData\x59\x01\x00", &[2; 256]];
        let long = long.concat();
        let read = Assertion::read(&long).expect("an assertion");
        assert_eq!((read.signature.len(), read.authenticator_data.len()), (24, 256));
    }

    #[test]
    fn other_cbor_is_refused() {
        let table: [(&str, &[u8]); 12] = [
            ("nothing", b""),
            ("an array", b"\x82\x41\x01\x41\x03"),
            ("one entry", b"\xa1\x69signature\x42\x01\x02"),
            ("three entries", b"\xa3\x69signature\x42\x01\x02\x71authenticatorData\x41\x03\x61a\x41\x01"),
            ("an indefinite length", b"\xbf\x69signature\x42\x01\x02\x71authenticatorData\x41\x03\xff"),
            ("a longer form of a length", b"\xa2\x69signature\x58\x02\x01\x02\x71authenticatorData\x41\x03"),
            ("a text for bytes", b"\xa2\x69signature\x62ab\x71authenticatorData\x41\x03"),
            ("bytes for a key", b"\xa2\x49signature\x42\x01\x02\x71authenticatorData\x41\x03"),
            ("another key", b"\xa2\x69signatures\x42\x01\x02\x71authenticatorData\x41\x03"),
            ("a key twice", b"\xa2\x69signature\x42\x01\x02\x69signature\x42\x01\x02"),
            ("an empty value", b"\xa2\x69signature\x40\x71authenticatorData\x41\x03"),
            (
                "a length beyond the end",
                b"\xa2\x69signature\x42\x01\x02\x71authenticatorData\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
            ),
        ];
        for (what, text) in table {
            assert!(matches!(Assertion::read(text), Err(IntegrityError::Assertion { .. })), "{what}");
        }
        for length in 0..ONE_ORDER.len() {
            assert!(Assertion::read(&ONE_ORDER[..length]).is_err(), "cut to {length} bytes");
        }
        let longer = [ONE_ORDER, &[0]].concat();
        assert_eq!(Assertion::read(&longer), Err(IntegrityError::Assertion { problem: "bytes follow the map" }));
    }
}
