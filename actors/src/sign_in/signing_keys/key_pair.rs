//! What the making of a key needs, whatever its algorithm is.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::rand_core::{CryptoRng, Error as RandomError, RngCore};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::clock::Random;

/// A key that was made, in the encodings of a
/// [`SigningKey`](selfsame_protocol::sign_in::records::SigningKey).
pub(super) struct KeyPair {
    /// The `kid`.
    pub id: String,
    pub public_key: Vec<u8>,
    pub private_key: Zeroizing<Vec<u8>>,
}

/// The id of a key. It is a hash of the numbers that the public key consists of, so that equal keys
/// have equal ids.
pub(super) fn key_id(public_numbers: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(public_numbers)[..16])
}

/// [`Random`] with the interface that the crates `rsa` and `p256` take.
pub(super) struct RandomSource<'a>(pub &'a dyn Random);

impl RngCore for RandomSource<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandomError> {
        self.0.fill(bytes);
        Ok(())
    }
}

/// In a service that makes real keys, [`Random`] is the operating system's cryptographic source.
impl CryptoRng for RandomSource<'_> {}
