//! secp256k1 signatures as authenticators and relying parties send them: 65 bytes of hex,
//! r ‖ s ‖ v; and the keys that make them.
//!
//! [`Signature::parse`] accepts any 65 bytes. Whether they are a valid signature is a rule of the
//! registry ([`Signature::recover`]), because the registry contract has names for the possible
//! errors.

use std::fmt;

use alloy_primitives::{Address, B256, U256, hex, uint};
use k256::ecdsa::SigningKey;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// Half of the group order of secp256k1. For a larger s there is a smaller one that gives the same
/// signer, so a larger s is refused (EIP-2).
const HALF_ORDER: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);

/// r ‖ s ‖ v, as received.
#[derive(Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(
    value_type = String,
    pattern = "^(0x)?[0-9a-fA-F]{128}(0[01]|1[bBcC])$",
    example = "0x836bf26b1d19c1b9eafc51fbaeb50abda5c2ea8593db286e246ceb1116cd214001885e3c5e6b1ba3890d39b3ee63df9470fcd8a645b3a937dffb83960ce8f46b1c"
)]
pub struct Signature(pub [u8; 65]);

/// Why no signer can be recovered. The names are those of the contract's ECDSA library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SignatureError {
    /// v is not 0, 1, 27 or 28, or no public key belongs to r and s.
    #[error("the signature does not recover to an address; v must be 0, 1, 27 or 28, r and s those of a signature")]
    Invalid,
    /// s lies in the upper half of the group order.
    #[error("the signature's s is in the upper half of the group order; send the low-s form")]
    HighS,
}

/// A text that is not 65 bytes of hex.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a signature; write 65 bytes (r, s, v) as 130 hex digits, with or without 0x")]
pub struct SignatureTextError;

impl Signature {
    /// Reads 130 hex digits, `0x` optional.
    pub fn parse(text: &str) -> Result<Self, SignatureTextError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let mut bytes = [0; 65];
        if digits.len() != 130 {
            return Err(SignatureTextError);
        }
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| SignatureTextError)?;
        Ok(Self(bytes))
    }

    /// The address whose key signed `digest`.
    ///
    /// # Errors
    /// s is in the upper half of the group order, or no address can be recovered.
    pub fn recover(&self, digest: &B256) -> Result<Address, SignatureError> {
        let r = U256::from_be_slice(&self.0[..32]);
        let s = U256::from_be_slice(&self.0[32..64]);
        if s > HALF_ORDER {
            return Err(SignatureError::HighS);
        }
        let odd = match self.0[64] {
            0 | 27 => false,
            1 | 28 => true,
            _ => return Err(SignatureError::Invalid),
        };
        alloy_primitives::Signature::new(r, s, odd)
            .recover_address_from_prehash(digest)
            .map_err(|_| SignatureError::Invalid)
    }
}

/// A secp256k1 secret key. Wiped from memory when dropped; never shown by `Debug`.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

/// Bytes that are not a secp256k1 secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a secp256k1 secret key: it must be neither zero nor the group order or above")]
pub struct SecretKeyError;

/// A digest that could not be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the digest cannot be signed with this key")]
pub struct SigningError;

impl SecretKey {
    /// The key of these bytes, a big-endian number.
    ///
    /// # Errors
    /// [`SecretKeyError`] for zero, and for numbers that are not below the group order.
    pub fn from_bytes(bytes: &Zeroizing<[u8; 32]>) -> Result<Self, SecretKeyError> {
        SigningKey::from_slice(bytes.as_slice()).map(Self).map_err(|_| SecretKeyError)
    }

    /// The address that its signatures recover to.
    pub fn address(&self) -> Address {
        Address::from_private_key(&self.0)
    }

    /// Signs a digest. The signature is deterministic (RFC 6979), with low s and with v 27 or 28.
    ///
    /// # Errors
    /// [`SigningError`] for a digest whose deterministic nonce gives no signature; no such digest
    /// is known.
    pub fn sign(&self, digest: &B256) -> Result<Signature, SigningError> {
        let signature = self.0.sign_prehash_recoverable(digest.as_slice()).map_err(|_| SigningError)?;
        Ok(alloy_primitives::Signature::from(signature).into())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("SecretKey").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "0x{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<alloy_primitives::Signature> for Signature {
    fn from(signature: alloy_primitives::Signature) -> Self {
        Self(signature.as_bytes())
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SignatureVisitor;
        impl Visitor<'_> for SignatureVisitor {
            type Value = Signature;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a signature (130 hex digits, in quotes)")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Signature, E> {
                Signature::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(SignatureVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A signature by the key 1 over a digest of bytes 7, made by an independent implementation
    /// with a deterministic nonce.
    fn signed() -> (Signature, B256, Address) {
        use alloy_primitives::{Signature as Parts, keccak256};
        let digest = keccak256(b"selfsame");
        // Any r that is the x coordinate of a curve point and any s in range recover to an address.
        // The test needs only that the address does not change.
        let r = uint!(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798_U256);
        let parts = Parts::new(r, U256::from(5), false);
        let address = parts.recover_address_from_prehash(&digest).expect("recovers");
        (parts.into(), digest, address)
    }

    #[test]
    fn signatures_recover_to_the_address_of_their_key() {
        for fill in 1..20 {
            let key = SecretKey::from_bytes(&Zeroizing::new([fill; 32])).expect("a key");
            let digest = B256::repeat_byte(fill);
            let signature = key.sign(&digest).expect("a signature");
            assert_eq!(signature.recover(&digest), Ok(key.address()));
            assert!(matches!(signature.0[64], 27 | 28));
            assert_ne!(signature.recover(&B256::ZERO), Ok(key.address()));
        }
    }

    #[test]
    fn other_numbers_are_no_keys_and_debug_output_hides_keys() {
        for bytes in [[0; 32], [0xff; 32]] {
            assert_eq!(SecretKey::from_bytes(&Zeroizing::new(bytes)).err(), Some(SecretKeyError));
        }
        let key = SecretKey::from_bytes(&Zeroizing::new([0xab; 32])).expect("a key");
        let debug_output = format!("{key:?}");
        assert!(!debug_output.contains("abab") && !debug_output.contains("171"), "{debug_output}");
    }

    #[test]
    fn v_is_accepted_in_four_spellings() {
        let (mut signature, digest, address) = signed();
        for v in [0, 27] {
            signature.0[64] = v;
            assert_eq!(signature.recover(&digest), Ok(address));
        }
        for v in [1, 28] {
            signature.0[64] = v;
            let other = signature.recover(&digest).expect("the other parity recovers too");
            assert_ne!(other, address);
        }
        for v in [2, 3, 26, 29, 255] {
            signature.0[64] = v;
            assert_eq!(signature.recover(&digest), Err(SignatureError::Invalid));
        }
    }

    #[test]
    fn signatures_with_high_s_zero_or_out_of_range_parts_are_rejected() {
        let (signature, digest, _) = signed();
        let with = |r: U256, s: U256| {
            let mut bytes = signature.0;
            bytes[..32].copy_from_slice(&r.to_be_bytes::<32>());
            bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
            Signature(bytes).recover(&digest)
        };
        let r = U256::from_be_slice(&signature.0[..32]);
        assert!(with(r, HALF_ORDER).is_ok());
        assert_eq!(with(r, HALF_ORDER + U256::from(1)), Err(SignatureError::HighS));
        assert_eq!(with(r, U256::MAX), Err(SignatureError::HighS));
        assert_eq!(with(r, U256::ZERO), Err(SignatureError::Invalid));
        assert_eq!(with(U256::ZERO, U256::from(5)), Err(SignatureError::Invalid));
        assert_eq!(with(U256::MAX, U256::from(5)), Err(SignatureError::Invalid));
    }

    /// What another implementation recovers, with the rules of [`Signature::recover`].
    fn recover_with_k256(signature: &Signature, digest: &B256) -> Result<Address, SignatureError> {
        use k256::ecdsa::{RecoveryId, VerifyingKey};
        if U256::from_be_slice(&signature.0[32..64]) > HALF_ORDER {
            return Err(SignatureError::HighS);
        }
        let id = match signature.0[64] {
            0 | 27 => RecoveryId::new(false, false),
            1 | 28 => RecoveryId::new(true, false),
            _ => return Err(SignatureError::Invalid),
        };
        let parts = k256::ecdsa::Signature::from_slice(&signature.0[..64]).map_err(|_| SignatureError::Invalid)?;
        let key = VerifyingKey::recover_from_prehash(digest.as_slice(), &parts, id);
        key.map(|key| Address::from_public_key(&key)).map_err(|_| SignatureError::Invalid)
    }

    /// Numbers at the edges of what r, s and a digest can be.
    fn edges() -> impl Strategy<Value = U256> {
        let order = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
        let field = uint!(0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f_U256);
        // The generator has this x coordinate; no point has 5.
        let generator = uint!(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798_U256);
        let of = vec![U256::ZERO, U256::ONE, U256::from(5), HALF_ORDER, order, field, generator, U256::MAX];
        let near = (proptest::sample::select(of), 0u64..3, any::<bool>()).prop_map(|(edge, by, is_above)| {
            let by = U256::from(by);
            if is_above { edge.wrapping_add(by) } else { edge.wrapping_sub(by) }
        });
        prop_oneof![near, any::<[u8; 32]>().prop_map(U256::from_be_bytes)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn hostile_parts_recover_as_in_another_implementation(r in edges(), s in edges(), digest in edges(), v in any::<u8>(), is_v in any::<bool>()) {
            let mut bytes = [0; 65];
            bytes[..32].copy_from_slice(&r.to_be_bytes::<32>());
            bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
            bytes[64] = if is_v { [0, 1, 27, 28][usize::from(v % 4)] } else { v };
            let (signature, digest) = (Signature(bytes), B256::from(digest));
            prop_assert_eq!(signature.recover(&digest), recover_with_k256(&signature, &digest));
        }

        #[test]
        fn signatures_recover_as_in_another_implementation(key in any::<[u8; 32]>(), digest in any::<[u8; 32]>(), flip in 0usize..65 * 8, is_changed in any::<bool>()) {
            let Ok(key) = SecretKey::from_bytes(&Zeroizing::new(key)) else { return Ok(()) };
            let digest = B256::from(digest);
            let mut signature = key.sign(&digest).expect("a signature");
            if is_changed {
                signature.0[flip / 8] ^= 1 << (flip % 8);
            }
            let recovered = signature.recover(&digest);
            prop_assert_eq!(recovered, recover_with_k256(&signature, &digest));
            prop_assert!(is_changed || recovered == Ok(key.address()));
        }
    }

    /// A signature whose key would be the point at infinity: r·Q = s·R − z·G with s·R = z·G.
    #[test]
    fn the_point_at_infinity_is_no_signer() {
        let r = uint!(0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798_U256);
        for s in [U256::ONE, U256::from(2), HALF_ORDER] {
            let mut bytes = [0; 65];
            bytes[..32].copy_from_slice(&r.to_be_bytes::<32>());
            bytes[32..64].copy_from_slice(&s.to_be_bytes::<32>());
            // R is the generator: its y is even.
            assert_eq!(Signature(bytes).recover(&B256::from(s)), Err(SignatureError::Invalid));
        }
    }

    #[test]
    fn a_signature_is_130_hex_digits_with_or_without_prefix() {
        let (signature, _, _) = signed();
        let text = signature.to_string();
        assert_eq!(Signature::parse(&text), Ok(signature));
        assert_eq!(Signature::parse(&text[2..].to_uppercase()), Ok(signature));
        for refused in ["", "0x", &text[..131], &format!("{text}0"), &text.replacen('7', "x", 1), &format!(" {text}")] {
            assert_eq!(Signature::parse(refused), Err(SignatureTextError), "{refused:?}");
        }
    }
}
