//! The cipher of messages on the bridge: AES-256-GCM with the key from the connector URI.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::Message;

/// The key that an application's page and the wallet share. Wiped from memory when dropped; never
/// shown by `Debug`.
pub struct RequestKey(Zeroizing<[u8; 32]>);

/// Why a message was not opened or sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The message was made with another key, or has been changed.
    #[error("it was not encrypted with the key of the connector URI, or was changed on the way")]
    NotAuthentic,
    /// The cipher refuses its key or the length of the text.
    #[error("the cipher refuses the key or the text")]
    Refused,
}

impl RequestKey {
    /// A key of random bytes.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// Reads a key: 32 bytes in Base64, with padding. `None` when the text is another one.
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
        let mut key = Zeroizing::new([0; 32]);
        if bytes.len() != key.len() {
            return None;
        }
        key.copy_from_slice(&bytes);
        Some(Self(key))
    }

    /// The key as a connector URI has it: Base64, with padding.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.as_slice()))
    }

    /// Decrypts a message.
    ///
    /// # Errors
    /// [`CipherError::NotAuthentic`].
    pub fn open(&self, message: &Message) -> Result<Vec<u8>, CipherError> {
        let mut text = message.payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(message.iv);
        let opened = self.cipher()?.open_in_place(nonce, Aad::empty(), &mut text).map(|opened| opened.len());
        text.truncate(opened.map_err(|_| CipherError::NotAuthentic)?);
        Ok(text)
    }

    /// Encrypts a text. `iv`, the initialization vector, is random: one must not be used twice with
    /// a key, and the other side has used another one.
    ///
    /// # Errors
    /// [`CipherError::Refused`], for a text of more than 64 GiB.
    pub fn seal(&self, text: &[u8], iv: [u8; 12]) -> Result<Message, CipherError> {
        let mut payload = text.to_vec();
        let sealed =
            self.cipher()?.seal_in_place_append_tag(Nonce::assume_unique_for_key(iv), Aad::empty(), &mut payload);
        sealed.map_err(|_| CipherError::Refused)?;
        Ok(Message { iv, payload: payload.into() })
    }

    fn cipher(&self) -> Result<LessSafeKey, CipherError> {
        UnboundKey::new(&AES_256_GCM, self.0.as_slice()).map(LessSafeKey::new).map_err(|_| CipherError::Refused)
    }
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RequestKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> RequestKey {
        RequestKey::new(Zeroizing::new([byte; 32]))
    }

    #[test]
    fn a_sealed_text_opens_only_unchanged_and_with_its_key() {
        for text in ["", "{}", &"x".repeat(100_000)] {
            let sealed = key(1).seal(text.as_bytes(), [9; 12]).expect("sealed");
            assert_eq!((sealed.iv, sealed.payload.len()), ([9; 12], text.len() + 16));
            assert_eq!(key(1).open(&sealed).as_deref(), Ok(text.as_bytes()));
            assert_eq!(key(2).open(&sealed), Err(CipherError::NotAuthentic));
            let mut payload = sealed.payload.to_vec();
            payload[text.len()] ^= 1;
            let changed = Message { payload: payload.into(), ..sealed.clone() };
            assert_eq!(key(1).open(&changed), Err(CipherError::NotAuthentic));
            let changed = Message { iv: [8; 12], ..sealed };
            assert_eq!(key(1).open(&changed), Err(CipherError::NotAuthentic));
        }
        let empty = Message { iv: [0; 12], payload: Box::default() };
        assert_eq!(key(1).open(&empty), Err(CipherError::NotAuthentic));
    }

    #[test]
    fn a_key_is_32_bytes_in_base64_with_padding() {
        let text = STANDARD.encode([7; 32]);
        assert_eq!(RequestKey::from_base64(&text).map(|key| key.to_base64().to_string()), Some(text.clone()));
        for refused in ["", &text[..43], &format!("{text}="), &STANDARD.encode([7; 31]), &STANDARD.encode([7; 33])] {
            assert!(RequestKey::from_base64(refused).is_none(), "{refused:?}");
        }
        assert_eq!(format!("{:?}", key(7)), "RequestKey");
    }
}
