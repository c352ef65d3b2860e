//! Addresses: 40 hex digits of any case, `0x` optional, checksums ignored; written in lower case
//! with `0x`.
//!
//! Usable as `#[serde(with = "address")]`, and [`or_none`], [`list`], [`slots`] for the other
//! shapes.

use std::fmt;

use alloy_primitives::Address;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serializer};

/// A text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address; write 40 hex digits, with or without 0x")]
pub struct AddressError;

/// Reads an address.
pub fn parse(text: &str) -> Result<Address, AddressError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(AddressError);
    }
    digits.parse().map_err(|_| AddressError)
}

/// The text of an address in answers: `0x` and 40 lower-case hex digits.
pub fn text(address: &Address) -> String {
    format!("{address:#x}")
}

/// An address on the wire.
struct Wire(Address);

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressVisitor;
        impl Visitor<'_> for AddressVisitor {
            type Value = Wire;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an address (40 hex digits, in quotes)")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Wire, E> {
                parse(text).map(Wire).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(AddressVisitor)
    }
}

/// Writes `0x` and 40 lower-case hex digits.
pub fn serialize<S: Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(address))
}

/// Reads an address; a JSON value that is not a string is an error.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
    Wire::deserialize(deserializer).map(|wire| wire.0)
}

/// `#[serde(default, with = "address::or_none")]`: absent, null and the zero address all mean that
/// there is no address. The value is then the zero address, which is written as null.
pub mod or_none {
    use super::{Address, Deserialize, Deserializer, Serializer, Wire, text};

    /// Writes the address, or null for the zero address.
    pub fn serialize<S: Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
        if address.is_zero() { serializer.serialize_none() } else { serializer.serialize_str(&text(address)) }
    }

    /// Reads an address or null, which gives the zero address. Another JSON value is an error.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        Ok(Option::<Wire>::deserialize(deserializer)?.map_or(Address::ZERO, |wire| wire.0))
    }
}

/// `#[serde(with = "address::list")]`: an array of addresses.
pub mod list {
    use super::{Address, Deserialize, Deserializer, Serializer, Wire, text};

    /// Writes an array of addresses, each as `0x` and 40 lower-case hex digits.
    pub fn serialize<S: Serializer>(addresses: &[Address], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses.iter().map(text))
    }

    /// Reads an array of addresses; null in place of an address is an error.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Address>, D::Error> {
        Ok(Vec::<Wire>::deserialize(deserializer)?.into_iter().map(|wire| wire.0).collect())
    }
}

/// `#[serde(with = "address::slots")]`: an array of addresses and nulls.
pub mod slots {
    use super::{Address, Deserialize, Deserializer, Serializer, Wire, text};

    /// Writes an array of addresses; `None` is written as null.
    pub fn serialize<S: Serializer>(addresses: &[Option<Address>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses.iter().map(|slot| slot.as_ref().map(text)))
    }

    /// Reads an array of addresses and nulls; null gives `None`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Option<Address>>, D::Error> {
        let slots = Vec::<Option<Wire>>::deserialize(deserializer)?;
        Ok(slots.into_iter().map(|slot| slot.map(|wire| wire.0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "fa24c331aee0e12af13e749af1a06f835c5142b5";

    #[test]
    fn addresses_are_forty_hex_digits_of_any_case() {
        let accepted = [
            DIGITS.to_owned(),
            format!("0x{DIGITS}"),
            DIGITS.to_uppercase(),
            format!("0x{}", DIGITS.to_uppercase()),
            // The checksum of an address is not checked.
            "0xFa24c331aee0e12af13e749af1a06f835c5142B5".to_owned(),
        ];
        for address in accepted {
            assert_eq!(parse(&address).map(|a| text(&a)), Ok(format!("0x{DIGITS}")), "{address:?}");
        }
        let refused = [
            String::new(),
            "0x".to_owned(),
            DIGITS[1..].to_owned(),
            format!("{DIGITS}0"),
            format!("0X{DIGITS}"),
            format!(" {DIGITS}"),
            format!("0x{}g", &DIGITS[1..]),
            format!("0x{}é", &DIGITS[2..]),
            format!("0x0x{}", &DIGITS[2..]),
        ];
        for address in refused {
            assert_eq!(parse(&address), Err(AddressError), "{address:?}");
        }
    }
}
