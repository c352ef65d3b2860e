//! The encryption of private keys in the store, with a key from outside of it: a stolen store or
//! backup then signs nothing.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::clock::Random;

/// The first byte of an encrypted key. The encoding of a key that is not encrypted begins with
/// 0x30.
const ENCRYPTED: u8 = 1;

/// Encrypts and decrypts the private keys of sign-in and of the registry with AES-256-GCM. The id
/// of the key is authenticated too, so a stored key cannot take the place of another.
pub struct KeyCipher(LessSafeKey);

impl KeyCipher {
    /// A cipher with a secret key of 256 random bits; `None` never happens with 32 bytes.
    pub fn new(key: &[u8; 32]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, key).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// Encrypts the private key of the key `id`, under a random nonce. A service makes a
    /// few keys a month, so no nonce comes twice. `None` when the library fails.
    pub(crate) fn encrypt(&self, id: &str, private_key: &[u8], random: &dyn Random) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce);
        let mut text = private_key.to_vec();
        let sealed = self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(id), &mut text);
        sealed.ok()?;
        Some([&[ENCRYPTED][..], &nonce, &text].concat())
    }

    /// Decrypts a private key; `None` when it was encrypted with another key or for another id, or
    /// was changed.
    pub(crate) fn decrypt(&self, id: &str, stored: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, text) = stored.strip_prefix(&[ENCRYPTED])?.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(text.to_vec());
        let length = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(id), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

impl std::fmt::Debug for KeyCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyCipher(hidden)")
    }
}

/// Whether a stored private key is encrypted.
pub(crate) fn is_encrypted(stored: &[u8]) -> bool {
    stored.first() == Some(&ENCRYPTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemRandom;

    #[test]
    fn a_key_is_decrypted_with_its_cipher_and_its_id_only() {
        let cipher = KeyCipher::new(&[7; 32]).expect("a cipher");
        let stored = cipher.encrypt("kid", b"a private key", &SystemRandom).expect("encrypted");
        assert!(is_encrypted(&stored) && !stored.windows(7).any(|window| window == b"private"));
        let read = |cipher: &KeyCipher, id, stored: &[u8]| cipher.decrypt(id, stored).map(|key| key.to_vec());
        assert_eq!(read(&cipher, "kid", &stored).as_deref(), Some(&b"a private key"[..]));
        assert_eq!(read(&cipher, "other", &stored), None);
        assert_eq!(read(&KeyCipher::new(&[8; 32]).expect("a cipher"), "kid", &stored), None);
        for position in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[position] ^= 1;
            assert_eq!(read(&cipher, "kid", &damaged), None, "{position}");
            assert_eq!(read(&cipher, "kid", &stored[..position]), None, "{position}");
        }
        assert_ne!(cipher.encrypt("kid", b"a private key", &SystemRandom), Some(stored), "every nonce is new");
    }
}
