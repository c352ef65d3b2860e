//! Codes: invitations, enroller's links and recovery codes have one form, which a person can read
//! from paper and type.
//!
//! 26 random letters (130 bits) of an alphabet of 32 without I, L, O and U, and two check letters:
//! the 26 letters as a number in base 32 modulo 1021. Every wrong letter and every swap of two
//! letters is found.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;
use zeroize::Zeroize;

use super::names::{GroupId, SealedHandle, SecretHash};

/// The letters, by their value.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The random letters of a code.
const LETTERS: usize = 26;

/// All letters of a code on the wire.
pub const WIRE_LETTERS: usize = LETTERS + 2;

/// The modulus of the check letters, a prime.
const CHECK_MODULUS: u32 = 1021;

/// A code, by its 26 random letters.
#[derive(Clone, PartialEq, Eq, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9A-HJKMNP-TV-Z]{28}$", example = "81VHVEM8X48DAS08KQBQQZXDZRK2")]
pub struct Code([u8; LETTERS]);

/// Why a text is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// A letter that no code has.
    #[error("a code has digits and letters without I, L, O and U only")]
    Letter,
    /// Fewer or more than 28 letters.
    #[error("a code has {WIRE_LETTERS} letters")]
    Length,
    /// The last two letters do not belong to the others.
    #[error("a letter of the code is wrong: its last two letters do not belong to the others")]
    Check,
}

impl Code {
    /// The code of 17 random bytes, of which 130 bits count.
    pub fn from_random_bytes(bytes: [u8; 17]) -> Self {
        let bit = |index: usize| bytes[index / 8] >> (7 - index % 8) & 1;
        let value = |letter: usize| (0..5).fold(0, |value, bit_of| value << 1 | bit(5 * letter + bit_of));
        Self(std::array::from_fn(|letter| ALPHABET[usize::from(value(letter))]))
    }

    /// Reads a code as a person may have typed it: white space, `-` and case do not count; O is
    /// read as 0, I and L as 1.
    ///
    /// # Errors
    /// A [`CodeError`].
    pub fn read(text: &str) -> Result<Self, CodeError> {
        let mut letters = Vec::with_capacity(WIRE_LETTERS);
        for byte in text.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'-')) {
            letters.push(match byte.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                letter if ALPHABET.contains(&letter) => letter,
                _ => return Err(CodeError::Letter),
            });
        }
        Self::of_letters(&letters)
    }

    /// Reads the form on the wire: 28 upper-case letters.
    ///
    /// # Errors
    /// A [`CodeError`].
    pub fn read_wire(text: &str) -> Result<Self, CodeError> {
        match text.bytes().all(|letter| ALPHABET.contains(&letter)) {
            true => Self::of_letters(text.as_bytes()),
            false => Err(CodeError::Letter),
        }
    }

    fn of_letters(letters: &[u8]) -> Result<Self, CodeError> {
        let (random, check) = letters.split_first_chunk::<LETTERS>().ok_or(CodeError::Length)?;
        let code = Self(*random);
        match check.len() {
            2 if check == code.check_letters() => Ok(code),
            2 => Err(CodeError::Check),
            _ => Err(CodeError::Length),
        }
    }

    fn check_letters(&self) -> [u8; 2] {
        let value = |letter: u8| ALPHABET.iter().position(|other| *other == letter).unwrap_or_default() as u32;
        let number = self.0.iter().fold(0, |number, letter| (number * 32 + value(*letter)) % CHECK_MODULUS);
        [ALPHABET[number as usize / 32], ALPHABET[number as usize % 32]]
    }

    /// The random letters, which hashes and keys are made from.
    pub fn letters(&self) -> &[u8; LETTERS] {
        &self.0
    }

    /// The 28 letters of the wire.
    pub fn to_wire(&self) -> String {
        self.0.iter().chain(&self.check_letters()).map(|letter| char::from(*letter)).collect()
    }

    /// Seven groups of four letters, for people.
    pub fn to_printed(&self) -> String {
        let wire = self.to_wire();
        let groups: Vec<&str> = (0..wire.len()).step_by(4).filter_map(|start| wire.get(start..start + 4)).collect();
        groups.join("-")
    }

    /// The hash under which a code is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }

    /// The handle of the sealed copy that a recovery code finds.
    pub fn sealed_handle(&self) -> SealedHandle {
        SealedHandle(self.derive(b"find"))
    }

    /// The key that opens the slot of a recovery code.
    pub fn sealing_key(&self) -> [u8; 32] {
        self.derive(b"seal")
    }

    fn derive(&self, label: &[u8]) -> [u8; 32] {
        let mut key = [0; 32];
        let (secret, info) = (Salt::new(HKDF_SHA256, &[]).extract(&self.0), [label, &[0]]);
        // A key of 32 bytes is never too long for HKDF.
        let _ = secret.expand(&info, HKDF_SHA256).and_then(|derived| derived.fill(&mut key));
        key
    }

    /// The link of an invitation: `{origin}/join#{group}.{code}`, or `/replace#…` for a member
    /// number that has a live leaf. The code is in the fragment, which no server gets.
    pub fn link(&self, wallet_url: &str, group: &GroupId, replaces: bool) -> String {
        let page = if replaces { "replace" } else { "join" };
        format!("{wallet_url}/{page}#{group}.{}", self.to_wire())
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Code(hidden)")
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_wire())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read_wire(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::super::tests::{text, vectors};
    use super::*;

    #[test]
    fn codes_match_the_recorded_vectors() {
        for case in vectors()["codes"].as_array().expect("a list") {
            let code = Code::read_wire(text(&case["code"])).expect("a code");
            assert_eq!(code.to_wire(), text(&case["code"]));
            assert_eq!(code.to_printed(), text(&case["printed"]));
            for read in case["also_read"].as_array().expect("a list") {
                assert_eq!(Code::read(text(read)).as_ref(), Ok(&code), "{read}");
            }
            for refused in case["refused"].as_array().expect("a list") {
                let expected = match text(&refused["why"]) {
                    "check" => CodeError::Check,
                    "length" => CodeError::Length,
                    _ => CodeError::Letter,
                };
                assert_eq!(Code::read(text(&refused["text"])), Err(expected), "{refused}");
            }
            assert_eq!(code.hash().to_string(), text(&case["hash"]));
            assert_eq!(code.sealed_handle().to_string(), text(&case["find"]));
            assert_eq!(SecretHash::of(&code.sealed_handle().0).to_string(), text(&case["find_hash"]));
            assert_eq!(hex::encode(code.sealing_key()), text(&case["seal"]));
        }
    }

    #[test]
    fn every_wrong_letter_and_every_swap_is_found() {
        let code = Code::from_random_bytes(*b"0123456789abcdefg");
        let wire = code.to_wire().into_bytes();
        let read = |letters: &[u8]| Code::read_wire(std::str::from_utf8(letters).expect("ASCII"));
        for place in 0..WIRE_LETTERS {
            for letter in ALPHABET.iter().filter(|letter| **letter != wire[place]) {
                let mut wrong = wire.clone();
                wrong[place] = *letter;
                assert_eq!(read(&wrong), Err(CodeError::Check));
            }
            for other in (0..place).filter(|other| wire[*other] != wire[place]) {
                let mut swapped = wire.clone();
                swapped.swap(place, other);
                assert_eq!(read(&swapped), Err(CodeError::Check), "{place} and {other}");
            }
        }
    }

    #[test]
    fn the_wire_has_one_form_and_a_link_has_the_code_in_its_fragment() {
        let code = Code::from_random_bytes([0x5a; 17]);
        for wrong in [code.to_wire().to_lowercase(), code.to_printed(), format!(" {}", code.to_wire()), String::new()] {
            assert!(Code::read_wire(&wrong).is_err(), "{wrong}");
        }
        let group = "members".parse().expect("an id");
        let link = code.link("https://wallet.example", &group, false);
        assert_eq!(link, format!("https://wallet.example/join#members.{}", code.to_wire()));
        assert!(code.link("https://wallet.example", &group, true).contains("/replace#members."));
        assert_eq!(format!("{code:?}"), "Code(hidden)");
    }
}
