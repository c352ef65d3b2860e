//! An authenticator's two keys. Both come from one seed of 32 bytes, as in the published client
//! library: the seed is the secp256k1 secret key and also the EdDSA private key.

use std::fmt;

use alloy_primitives::{Address, B256};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::ids::CompressedKey;
pub use selfsame_protocol::signature::SigningError;
use selfsame_protocol::signature::{SecretKey, Signature};
use taceo_eddsa_babyjubjub::EdDSAPrivateKey;
use zeroize::Zeroizing;

use crate::Random;

/// A seed that is not a secp256k1 secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the seed is not a secp256k1 secret key: it must be neither zero nor the group order or above")]
pub struct SeedError;

/// The public side of an authenticator, which the registry holds in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authenticator {
    /// Address that its signatures recover to.
    pub address: Address,
    /// BabyJubJub key that its proofs are made with.
    pub public_key: PublicKey,
}

impl Authenticator {
    /// The public key as the gateway expects it.
    pub fn compressed_key(&self) -> CompressedKey {
        self.public_key.compress()
    }
}

/// The secret side of an authenticator. Wiped from memory when dropped; never shown by `Debug`.
pub struct AuthenticatorKey {
    seed: Zeroizing<[u8; 32]>,
    signing_key: SecretKey,
    authenticator: Authenticator,
}

impl AuthenticatorKey {
    /// Derives both keys from a seed.
    ///
    /// # Errors
    /// [`SeedError`] for the few seeds that are not a secp256k1 secret key.
    pub fn from_seed(seed: Zeroizing<[u8; 32]>) -> Result<Self, SeedError> {
        let signing_key = SecretKey::from_bytes(&seed).map_err(|_| SeedError)?;
        let point = EdDSAPrivateKey::from_bytes(*seed).public().pk;
        let public_key = PublicKey::from_point(point).map_err(|_| SeedError)?;
        let address = signing_key.address();
        Ok(Self { seed, signing_key, authenticator: Authenticator { address, public_key } })
    }

    /// A new key from a random seed.
    ///
    /// # Errors
    /// As [`AuthenticatorKey::from_seed`]; with a sound random source, the error does not occur in
    /// practice.
    pub fn generate(random: &mut Random<'_>) -> Result<Self, SeedError> {
        let mut seed = Zeroizing::new([0; 32]);
        random(&mut seed);
        Self::from_seed(seed)
    }

    /// The public side.
    pub fn authenticator(&self) -> Authenticator {
        self.authenticator
    }

    /// Address that this key's signatures recover to.
    pub fn address(&self) -> Address {
        self.authenticator.address
    }

    /// Signs a digest, as [`SecretKey::sign`].
    ///
    /// # Errors
    /// [`SigningError`].
    pub fn sign(&self, digest: &B256) -> Result<Signature, SigningError> {
        self.signing_key.sign(digest)
    }

    /// The seed, for the wallet file.
    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }
}

impl fmt::Debug for AuthenticatorKey {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("AuthenticatorKey").field("address", &self.address()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::number;

    use super::*;

    fn key(fill: u8) -> AuthenticatorKey {
        AuthenticatorKey::from_seed(Zeroizing::new([fill; 32])).expect("a key")
    }

    #[test]
    fn public_keys_match_the_recorded_vectors() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../protocol/vectors/commitment.json")).expect("JSON");
        let mut compared = 0;
        for case in vectors["cases"].as_array().expect("list") {
            let seeds = case["sk_seed_bytes"].as_array().into_iter().flatten();
            for (seed, recorded) in seeds.zip(case["pubkeys"].as_array().into_iter().flatten()) {
                // The vectors write `01*32` for thirty-two bytes of 0x01.
                let (fill, _) = seed.as_str().and_then(|seed| seed.split_once("*32")).expect("byte*32");
                let fill = u8::from_str_radix(fill, 16).expect("a byte");
                let compressed: CompressedKey =
                    number::parse(recorded["compressed_u256"].as_str().expect("text")).expect("a number");
                assert_eq!(key(fill).authenticator().compressed_key(), compressed, "{seed}");
                compared += 1;
            }
        }
        assert!(compared > 0);
    }

    #[test]
    fn invalid_seeds_are_rejected_and_debug_output_hides_seeds() {
        for seed in [[0; 32], [0xff; 32]] {
            assert_eq!(AuthenticatorKey::from_seed(Zeroizing::new(seed)).err(), Some(SeedError));
        }
        let debug_output = format!("{:?}", key(0xab));
        assert!(!debug_output.contains("abab") && !debug_output.contains("171"), "{debug_output}");
    }
}
