//! Hashing texts to elements of the field.

use alloy_primitives::hex;

use crate::{U256, keccak256};

/// keccak256 as a big-endian number, shifted right by 8 bits. The result has at most 248 bits, so
/// it is below the modulus of the scalar field.
pub fn hash_to_field(bytes: &[u8]) -> U256 {
    U256::from_be_bytes(keccak256(bytes).0) >> 8
}

/// The bytes that a signal or an action stands for. `0x` and a non-empty, even number of hex digits
/// stand for the bytes that they write; any other text stands for its UTF-8.
pub fn text_bytes(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty());
    digits.and_then(|digits| hex::decode(only_digits(digits)?).ok()).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The digits if they have no prefix; `None` otherwise. `hex::decode` would strip a second `0x`.
fn only_digits(digits: &str) -> Option<&str> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digits)
}

/// The hash of a signal or of an action of the current protocol.
pub fn hash_text(text: &str) -> U256 {
    hash_to_field(&text_bytes(text))
}

/// The external nullifier of a legacy proof: the hash of the application id's hash (32 bytes,
/// big-endian) followed by the action's bytes.
pub fn external_nullifier(app_id: &str, action: &str) -> U256 {
    let mut bytes = hash_to_field(app_id.as_bytes()).to_be_bytes::<32>().to_vec();
    bytes.extend(text_bytes(action));
    hash_to_field(&bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn vectors(text: &str) -> Vec<Value> {
        let file: Value = serde_json::from_str(text).expect("JSON");
        file["vectors"].as_array().expect("a list").clone()
    }

    fn padded(value: U256) -> Value {
        format!("{value:#066x}").into()
    }

    #[test]
    fn signal_hashes_match_the_recorded_vectors() {
        for vector in vectors(include_str!("../../vectors/hash_signal.json")) {
            let hash = match vector["bytes_hex"].as_str() {
                Some(digits) => hash_to_field(&hex::decode(digits).expect("hex")),
                None => hash_text(vector["signal"].as_str().expect("text")),
            };
            assert_eq!(padded(hash), vector["out"], "{vector}");
        }
    }

    #[test]
    fn external_nullifiers_match_the_recorded_vectors() {
        for vector in vectors(include_str!("../../vectors/hash_external_nullifier.json")) {
            let action = vector["action"].as_str().unwrap_or_default();
            let hash = external_nullifier(vector["app_id"].as_str().expect("text"), action);
            assert_eq!(padded(hash), vector["out"], "{vector}");
        }
    }

    #[test]
    fn only_pairs_of_hex_digits_after_0x_are_hashed_as_bytes() {
        for text in ["0x", "0x1", "0xzz", "1234", "0X12", "0x0x12", "0x12 ", ""] {
            assert_eq!(text_bytes(text), text.as_bytes(), "{text:?}");
        }
        for text in ["0xAb", "0xaB"] {
            assert_eq!(text_bytes(text), [0xab], "{text:?}");
        }
    }
}
