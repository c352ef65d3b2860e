//! Numeric strings: the form of numbers at the gateway and the indexer
//! (`docs/interfaces/README.md`, "Numbers and other texts").
//!
//! Readers accept decimal digits, or `0x` or `0X` and hex digits of either case. They ignore
//! leading zeros and surrounding white space. Writers produce `0x` and lower-case hex digits
//! without leading zeros.
//!
//! The numbers of the registry have types of their own, such as
//! [`LeafIndex`](crate::ids::LeafIndex), which are numeric strings without an attribute. For other
//! fields there is `#[serde(with = "number")]`, which uses [`serialize`] and [`deserialize`].

use std::fmt;

use alloy_primitives::{U256, hex};
use serde::de::Error as _;
use serde::de::{Unexpected, Visitor};
use serde::{Deserializer, Serializer};
use utoipa::ToSchema;

// Texts of the wire with their patterns, for the interface descriptions (`/openapi.json`). No
// value has these types: a field of another type names one as its form.

/// An address. The checksum of mixed case is not checked.
#[derive(ToSchema)]
#[schema(as = Address, value_type = String, pattern = "^(0x)?[0-9a-fA-F]{40}$", example = "0x71a4fb49dcddadfed612b153b000fbab994ed6af")]
pub struct AddressText(pub String);

/// 32 bytes.
#[derive(ToSchema)]
#[schema(as = Hash, value_type = String, pattern = "^0x[0-9a-f]{64}$", example = "0x228981b886e5effb2c05a6be7ab4a05fde6bf702a2d039e46c87057dd729ef97")]
pub struct HashText(pub String);

/// A number in decimal digits.
#[derive(ToSchema)]
#[schema(as = Decimal, value_type = String, pattern = "^[0-9]{1,77}$", example = "16403486683365168807410678668809953762244404106701258314670180797996653734428")]
pub struct DecimalText(pub String);

/// Why a text is not a number of the wanted width.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// Nothing but white space.
    #[error("the numeric string is empty; write decimal digits, or 0x and hex digits")]
    Empty,
    /// `0x` with nothing after it.
    #[error("`0x` has no digits after it; write 0x and at least one hex digit")]
    BarePrefix,
    /// A character that is not a digit of the notation, such as a sign, a separator or a letter.
    #[error("`{found}` is not a {notation} digit; write decimal digits, or 0x and hex digits")]
    NotADigit {
        /// The first character that is not a digit.
        found: char,
        /// The notation that the prefix selects: `decimal` or `hex`.
        notation: &'static str,
    },
    /// The value does not fit the field.
    #[error("the value does not fit {bits} bits")]
    TooLarge {
        /// Width of the field, in bits.
        bits: u32,
    },
}

/// An unsigned number that a field can have.
pub trait Number: Copy + Sized {
    /// Width of the number, in bits.
    const BITS: u32;
    /// The value as 256 bits.
    fn widen(self) -> U256;
    /// The value in this width; `None` when it does not fit.
    fn narrow(value: U256) -> Option<Self>;
}

impl Number for U256 {
    const BITS: u32 = 256;
    fn widen(self) -> U256 {
        self
    }
    fn narrow(value: U256) -> Option<Self> {
        Some(value)
    }
}

impl Number for u64 {
    const BITS: u32 = 64;
    fn widen(self) -> U256 {
        U256::from(self)
    }
    fn narrow(value: U256) -> Option<Self> {
        value.try_into().ok()
    }
}

impl Number for u32 {
    const BITS: u32 = 32;
    fn widen(self) -> U256 {
        U256::from(self)
    }
    fn narrow(value: U256) -> Option<Self> {
        value.try_into().ok()
    }
}

/// Reads a numeric string.
///
/// # Errors
/// The text is not a numeric string, or its value does not fit `N`.
pub fn parse<N: Number>(text: &str) -> Result<N, NumberError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    let (digits, radix, notation) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some("") => return Err(NumberError::BarePrefix),
        Some(hex) => (hex, 16, "hex"),
        None => (text, 10, "decimal"),
    };
    if let Some(found) = digits.chars().find(|c| !c.is_digit(radix)) {
        return Err(NumberError::NotADigit { found, notation });
    }
    U256::from_str_radix(digits, u64::from(radix))
        .ok()
        .and_then(N::narrow)
        .ok_or(NumberError::TooLarge { bits: N::BITS })
}

/// The canonical text of a number: `0x` and lower-case hex without leading zeros.
///
/// An answer of the indexer consists of such numbers, and the formatter of [`U256`] takes several
/// times as long.
pub fn canonical(value: impl Number) -> String {
    let mut digits = hex::Buffer::<32>::new();
    let digits = digits.format(&value.widen().to_be_bytes());
    let significant = digits.trim_start_matches('0');
    ["0x", if significant.is_empty() { "0" } else { significant }].concat()
}

/// Writes the canonical text.
pub fn serialize<N: Number, S: Serializer>(value: &N, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&canonical(*value))
}

/// Reads a numeric string; a JSON number is an error.
pub fn deserialize<'de, N: Number, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    deserializer.deserialize_str(NumberVisitor::<N>(std::marker::PhantomData))
}

struct NumberVisitor<N>(std::marker::PhantomData<N>);

impl<N: Number> Visitor<'_> for NumberVisitor<N> {
    type Value = N;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a numeric string (decimal digits, or 0x and hex digits, in quotes)")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<N, E> {
        parse(text).map_err(E::custom)
    }
}

/// `#[serde(default, with = "number::or_zero")]`: an absent or null field is zero.
pub mod or_zero {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Number, NumberVisitor};

    /// Writes the canonical text, also for zero.
    pub fn serialize<N: Number, S: Serializer>(value: &N, serializer: S) -> Result<S::Ok, S::Error> {
        super::serialize(value, serializer)
    }

    /// Reads a numeric string or null, which gives zero. A JSON number is an error.
    pub fn deserialize<'de, N: Number + Default, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
        struct Field<N>(N);
        impl<'de, N: Number> Deserialize<'de> for Field<N> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(NumberVisitor(std::marker::PhantomData)).map(Field)
            }
        }
        Ok(Option::<Field<N>>::deserialize(deserializer)?.map_or_else(N::default, |field| field.0))
    }
}

/// `#[serde(with = "number::plain")]`: a JSON number of at most 64 bits, for a field whose type is
/// a numeric string by default.
pub mod plain {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Number, U256};

    /// Writes a JSON number; a value of more than 64 bits is an error.
    pub fn serialize<N: Number, S: Serializer>(value: &N, serializer: S) -> Result<S::Ok, S::Error> {
        let number =
            u64::try_from(value.widen()).map_err(|_| S::Error::custom("a JSON number has at most 64 bits here"))?;
        serializer.serialize_u64(number)
    }

    /// Reads a JSON number from 0 to the greatest value of the type; a string is an error.
    pub fn deserialize<'de, N: Number, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
        let too_large = || D::Error::custom(super::NumberError::TooLarge { bits: N::BITS });
        N::narrow(U256::from(u64::deserialize(deserializer)?)).ok_or_else(too_large)
    }
}

/// Defines a type around an integer, so that the compiler tells the kinds of numbers apart. The
/// type is a numeric string in JSON, has the encoding and the `Display` of the integer, and its own
/// name in `/openapi.json`, with a pattern of the texts that clients should write: numbers of the
/// right width, without the white space that readers ignore.
macro_rules! number_type {
    ($(#[$about:meta])* $name:ident($integer:ty), pattern = $pattern:literal, example = $example:literal) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        #[serde(transparent)]
        #[schema(value_type = String, pattern = $pattern, example = $example)]
        pub struct $name(#[serde(with = "crate::number")] pub $integer);

        impl $crate::number::Number for $name {
            const BITS: u32 = <$integer as $crate::number::Number>::BITS;
            fn widen(self) -> $crate::U256 {
                self.0.widen()
            }
            fn narrow(value: $crate::U256) -> Option<Self> {
                $crate::number::Number::narrow(value).map(Self)
            }
        }

        $crate::number::integer_type!($name);
    };
}

/// Implements `Encoding`, `Display` and `LowerHex` for a type around one value, with those of the
/// value.
macro_rules! integer_type {
    ($name:ident) => {
        impl $crate::encoding::Encoding for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
            fn decode(input: &mut &[u8]) -> Result<Self, $crate::encoding::DecodeError> {
                $crate::encoding::Encoding::decode(input).map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, formatter)
            }
        }

        impl std::fmt::LowerHex for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::LowerHex::fmt(&self.0, formatter)
            }
        }
    };
}

pub(crate) use integer_type;
pub(crate) use number_type;

/// A hash or tree node as `0x` and exactly 64 hex digits: the form of both in answers.
pub fn padded(value: &alloy_primitives::B256) -> String {
    format!("{value:#x}")
}

/// Reads 32 bytes written as `0x` and exactly 64 hex digits.
pub fn deserialize_padded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<alloy_primitives::B256, D::Error> {
    let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
    text.strip_prefix("0x")
        .filter(|digits| digits.len() == 64)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &"0x and 64 hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hex_with_surrounding_white_space() {
        let accepted: [(&str, u64); 13] = [
            ("0", 0),
            ("7", 7),
            ("007", 7),
            ("0x0", 0),
            ("0x7", 7),
            ("0X7", 7),
            ("0x00ff", 255),
            ("0xFf", 255),
            ("  12\t", 12),
            ("\n0x1f ", 31),
            ("18446744073709551615", u64::MAX),
            ("0xffffffffffffffff", u64::MAX),
            ("0x0000000000000000000000000000000000000000000000000000000000000000000000000000001", 1),
        ];
        for (text, value) in accepted {
            assert_eq!(parse::<u64>(text), Ok(value), "{text:?}");
        }
        assert_eq!(parse::<U256>(&format!("0x{}", "f".repeat(64))), Ok(U256::MAX));
        assert_eq!(parse::<U256>(&U256::MAX.to_string()), Ok(U256::MAX));
    }

    #[test]
    fn malformed_and_too_large_numbers_are_rejected() {
        use NumberError::*;
        let digit = |found, notation| NotADigit { found, notation };
        let refused: [(&str, NumberError); 17] = [
            ("", Empty),
            ("  ", Empty),
            ("0x", BarePrefix),
            ("0X", BarePrefix),
            ("-1", digit('-', "decimal")),
            ("+1", digit('+', "decimal")),
            ("1_000", digit('_', "decimal")),
            ("1,000", digit(',', "decimal")),
            ("1 000", digit(' ', "decimal")),
            ("1.0", digit('.', "decimal")),
            ("ff", digit('f', "decimal")),
            ("0xg", digit('g', "hex")),
            ("0x 1", digit(' ', "hex")),
            ("0x-1", digit('-', "hex")),
            ("٣", digit('٣', "decimal")),
            ("18446744073709551616", TooLarge { bits: 64 }),
            ("0x10000000000000000", TooLarge { bits: 64 }),
        ];
        for (text, error) in refused {
            assert_eq!(parse::<u64>(text), Err(error), "{text:?}");
        }
        assert_eq!(parse::<u32>("4294967296"), Err(TooLarge { bits: 32 }));
        assert_eq!(parse::<U256>(&format!("0x1{}", "0".repeat(64))), Err(TooLarge { bits: 256 }));
        assert_eq!(parse::<U256>(&"9".repeat(60_000)), Err(TooLarge { bits: 256 }));
    }

    #[test]
    fn the_canonical_text_has_no_leading_zeros() {
        for value in [U256::ZERO, U256::ONE, U256::from(15), U256::from(16), U256::from(u64::MAX), U256::MAX] {
            assert_eq!(canonical(value), format!("{value:#x}"));
        }
        assert_eq!(canonical(0_u32), "0x0");
        assert_eq!(canonical(0xab_u64), "0xab");
    }

    proptest::proptest! {
        #[test]
        fn every_number_round_trips_through_its_canonical_text(limbs: [u64; 4]) {
            let value = U256::from_limbs(limbs);
            proptest::prop_assert_eq!(canonical(value), format!("{value:#x}"));
            proptest::prop_assert_eq!(parse::<U256>(&canonical(value)), Ok(value));
            proptest::prop_assert_eq!(parse::<U256>(&value.to_string()), Ok(value));
        }
    }
}
