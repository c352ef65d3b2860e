//! The encryption of private keys in the store, with a key from outside of it: a stolen store or
//! backup then signs nothing. The same key authenticates backups.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::clock::Random;

/// The first byte of an encrypted key. The encoding of a key that is not encrypted begins with
/// 0x30.
const ENCRYPTED: u8 = 1;

/// Encrypts and decrypts the private keys of sign-in and of the registry with AES-256-GCM. The id
/// of the key is authenticated too, so a stored key cannot take the place of another.
pub struct KeyCipher {
    cipher: LessSafeKey,
    /// Derived from the key, for [`KeyCipher::authenticate`].
    mac: hmac::Key,
}

/// What the key of [`KeyCipher::authenticate`] is derived with: it is not the key of the cipher.
const MAC_PURPOSE: &[u8] = b"selfsame key encryption key: authentication";

impl KeyCipher {
    /// A cipher with a secret key of 256 random bits; `None` never happens with 32 bytes.
    pub fn new(key: &[u8; 32]) -> Option<Self> {
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), MAC_PURPOSE);
        Some(Self { cipher, mac: hmac::Key::new(hmac::HMAC_SHA256, mac.as_ref()) })
    }

    /// The HMAC-SHA256 over a message, with a key that is derived from the secret key. The message
    /// begins with what it is, so that no other use has the same.
    pub fn authenticate(&self, message: &[u8]) -> [u8; 32] {
        let mut mac = [0; 32];
        mac.copy_from_slice(hmac::sign(&self.mac, message).as_ref());
        mac
    }

    /// Whether [`KeyCipher::authenticate`] has made this HMAC over a message.
    pub fn is_authentic(&self, message: &[u8], mac: &[u8; 32]) -> bool {
        hmac::verify(&self.mac, message, mac).is_ok()
    }

    /// Encrypts the private key of the key `id`, under a random nonce. A service makes a
    /// few keys a month, so no nonce comes twice. `None` when the library fails.
    pub(crate) fn encrypt(&self, id: &str, private_key: &[u8], random: &dyn Random) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        random.fill(&mut nonce);
        let mut text = private_key.to_vec();
        let sealed =
            self.cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(id), &mut text);
        sealed.ok()?;
        Some([&[ENCRYPTED][..], &nonce, &text].concat())
    }

    /// Decrypts a private key; `None` when it was encrypted with another key or for another id, or
    /// was changed.
    pub(crate) fn decrypt(&self, id: &str, stored: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, text) = stored.strip_prefix(&[ENCRYPTED])?.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(text.to_vec());
        let length =
            self.cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(id), &mut text).ok()?.len();
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
    fn a_message_is_authentic_with_its_key_alone() {
        let cipher = |byte| KeyCipher::new(&[byte; 32]).expect("a cipher");
        let mac = cipher(7).authenticate(b"a message");
        assert!(cipher(7).is_authentic(b"a message", &mac));
        assert!(!cipher(8).is_authentic(b"a message", &mac) && !cipher(7).is_authentic(b"another", &mac));
        let plain = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), b"a message");
        assert_ne!(plain.as_ref(), mac, "the key of the cipher is not that of the HMAC");
    }

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
