//! Authenticator public keys and the commitment to an account's key set.
//!
//! A key is a BabyJubJub point. On the wire it is one number: the 32 bytes of its compressed form
//! (y little-endian, the sign of x in the top bit) read as a little-endian number. The commitment
//! is Poseidon2 (width 16) over a tag and the seven slots' coordinates; an empty or removed slot
//! counts as the curve's identity (0, 1).

use alloy_primitives::U256;
use ark_bn254::Fr;
use ark_ec::AffineRepr;
use ark_ff::PrimeField;
use serde::{Deserialize, Serialize};
use taceo_ark_babyjubjub::EdwardsAffine;

use crate::ids::{Commitment, CompressedKey, PubkeyId};
use crate::tree::{self, Node};

impl Commitment {
    /// The leaf that holds this commitment.
    pub fn leaf(self) -> Node {
        tree::node(self.0)
    }
}

/// Slots of a commitment: the most authenticators that an account can have.
pub const MAX_AUTHENTICATORS: usize = 7;

/// The sign of x in a compressed key: the top bit of the last byte.
const SIGN_BIT: usize = 255;

/// Why a number is not a valid public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
pub enum PublicKeyError {
    /// A coordinate is not below the modulus of the field of the coordinates, BN254's scalar field.
    #[error("a coordinate is not below the field's modulus")]
    NotCanonical,
    /// The coordinates are not those of a point of the curve; for a compressed key, no point has
    /// this y coordinate.
    #[error("no point of the curve has its y coordinate")]
    NotOnCurve,
    /// The point is on the curve and outside the prime-order subgroup.
    #[error("the point is not in the prime-order subgroup")]
    NotInSubgroup,
    /// The point is the identity (0, 1), which stands for an empty slot.
    #[error("it is the curve's identity, which is not a valid key")]
    Identity,
}

/// A decoded authenticator public key: on the curve, in the prime-order subgroup, not the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(EdwardsAffine);

impl PublicKey {
    /// Decodes a compressed key.
    ///
    /// # Errors
    /// The number is not the compressed form of a point of the prime-order subgroup, or the point
    /// is the identity.
    pub fn decompress(compressed: CompressedKey) -> Result<Self, PublicKeyError> {
        let CompressedKey(mut y) = compressed;
        let x_is_negative = y.bit(SIGN_BIT);
        y.set_bit(SIGN_BIT, false);
        let y = tree::field_element(&y).ok_or(PublicKeyError::NotCanonical)?;
        let point = EdwardsAffine::get_point_from_y_unchecked(y, x_is_negative).ok_or(PublicKeyError::NotOnCurve)?;
        Self::from_point(point)
    }

    /// The key with this point, after the same checks.
    pub fn from_point(point: EdwardsAffine) -> Result<Self, PublicKeyError> {
        if point.is_zero() {
            return Err(PublicKeyError::Identity);
        }
        if !point.is_on_curve() {
            return Err(PublicKeyError::NotOnCurve);
        }
        if !point.is_in_correct_subgroup_assuming_on_curve() {
            return Err(PublicKeyError::NotInSubgroup);
        }
        Ok(Self(point))
    }

    /// The key with these affine coordinates, after the same checks.
    pub fn from_coordinates(x: &U256, y: &U256) -> Result<Self, PublicKeyError> {
        let element = |value| tree::field_element(value).ok_or(PublicKeyError::NotCanonical);
        Self::from_point(EdwardsAffine::new_unchecked(element(x)?, element(y)?))
    }

    /// The compressed form of the key.
    pub fn compress(&self) -> CompressedKey {
        let mut number = number(self.0.y);
        number.set_bit(SIGN_BIT, self.0.x > -self.0.x);
        CompressedKey(number)
    }

    /// The affine coordinates (x, y).
    pub fn coordinates(&self) -> (U256, U256) {
        (number(self.0.x), number(self.0.y))
    }
}

fn number(element: Fr) -> U256 {
    U256::from_limbs(element.into_bigint().0)
}

/// The commitment to a key set, slot by slot. Slots after the end of the list are empty; slots from
/// [`MAX_AUTHENTICATORS`] on are ignored.
pub fn commitment(slots: &[Option<PublicKey>]) -> Commitment {
    let mut state = [Fr::from(0u64); 16];
    state[0] = Fr::from_be_bytes_mod_order(b"World ID PK");
    for place in 0..MAX_AUTHENTICATORS {
        let point = slots.get(place).copied().flatten().map_or(EdwardsAffine::zero(), |key| key.0);
        state[1 + 2 * place] = point.x;
        state[2 + 2 * place] = point.y;
    }
    taceo_poseidon2::bn254::t16::permutation_in_place(&mut state);
    Commitment(number(state[1]))
}

/// A slot whose stored key does not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public key of slot {pubkey_id} does not decode: {error}")]
pub struct SlotError {
    /// The first slot whose key does not decode.
    pub pubkey_id: PubkeyId,
    /// Why this key does not decode.
    pub error: PublicKeyError,
}

/// Decodes the compressed keys of a slot list.
///
/// # Errors
/// The first slot whose key does not decode.
pub fn decompress_slots(
    slots: impl IntoIterator<Item = Option<CompressedKey>>,
) -> Result<Vec<Option<PublicKey>>, SlotError> {
    let decode = |(pubkey_id, slot): (u32, Option<CompressedKey>)| {
        let slot_error = |error| SlotError { pubkey_id: PubkeyId(pubkey_id), error };
        slot.map(PublicKey::decompress).transpose().map_err(slot_error)
    };
    (0..).zip(slots).map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commitments_match_the_recorded_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../vectors/commitment.json")).expect("JSON");
        let hex =
            |value: &serde_json::Value| crate::number::parse::<U256>(value.as_str().expect("text")).expect("number");
        let mut named = std::collections::HashMap::new();
        for case in vectors["cases"].as_array().expect("list") {
            let slots: Vec<Option<PublicKey>> = if let Some(keys) = case["pubkeys"].as_array() {
                let names = case["sk_seed_bytes"].as_array().expect("list");
                std::iter::zip(keys, names)
                    .map(|(key, name)| {
                        let point = PublicKey::decompress(CompressedKey(hex(&key["compressed_u256"])))
                            .expect("the number is a key");
                        assert_eq!(point.coordinates(), (hex(&key["x"]), hex(&key["y"])));
                        assert_eq!(point.compress().0, hex(&key["compressed_u256"]));
                        named.insert(name.as_str().expect("text"), point);
                        Some(point)
                    })
                    .collect()
            } else {
                let names = case["sparse"].as_array().expect("list");
                names.iter().map(|name| name.as_str().map(|name| named[name])).collect()
            };
            assert_eq!(commitment(&slots).0, hex(&case["commitment"]));
        }
    }

    #[test]
    fn decoded_keys_match_the_recorded_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../vectors/commitment.json")).expect("JSON");
        for case in vectors["pubkey_decoding"].as_array().expect("list") {
            let bytes: [u8; 32] =
                alloy_primitives::hex::decode_to_array(case["le_hex"].as_str().expect("text")).expect("32 bytes");
            let decoded = PublicKey::decompress(CompressedKey(U256::from_le_bytes(bytes)));
            assert_eq!(decoded.is_ok(), case["decode_authenticator_pubkey_ok"] == true, "{case}");
        }
    }

    #[test]
    fn numbers_that_are_not_keys_are_rejected() {
        let modulus = U256::from_limbs(Fr::MODULUS.0);
        let mut sign = U256::ZERO;
        sign.set_bit(SIGN_BIT, true);
        let minus_one = modulus - U256::from(1);
        let table = [
            (modulus, PublicKeyError::NotCanonical),
            (modulus + U256::from(1), PublicKeyError::NotCanonical),
            (U256::MAX, PublicKeyError::NotCanonical),
            (U256::from(1), PublicKeyError::Identity),
            (U256::from(1) | sign, PublicKeyError::Identity),
            // (0, -1) has order two.
            (minus_one, PublicKeyError::NotInSubgroup),
            // y = 0 has order four.
            (U256::ZERO, PublicKeyError::NotInSubgroup),
        ];
        for (number, error) in table {
            assert_eq!(PublicKey::decompress(CompressedKey(number)), Err(error), "{number:#x}");
        }
    }
}
