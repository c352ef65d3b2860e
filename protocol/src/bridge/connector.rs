//! The connector URI, which names a request and its key, and the encryption of the messages.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::Serializer;
use zeroize::Zeroizing;

use super::{EntryId, Message};

/// The value of `t`: the kind of link.
pub const KIND: &str = "wld";

/// The longest connector URI that is read, in bytes.
pub const LONGEST: usize = 8192;

/// A request on a bridge.
#[derive(Debug)]
pub struct Connector {
    /// The id of the request.
    pub id: EntryId,
    /// The key that the request and its answer are encrypted with.
    pub key: RequestKey,
    /// The origin of the bridge, without a slash at its end.
    pub bridge: String,
    /// The URL of the page that the person comes from; it is not checked.
    pub return_to: Option<String>,
}

impl Connector {
    /// The connector URI. `base` is the page that people see who open the URI in a browser.
    pub fn to_uri(&self, base: &str) -> String {
        let Self { id, key, bridge, return_to } = self;
        let mut parameters = Serializer::new(String::new());
        parameters.append_pair("t", KIND).append_pair("i", id.as_str()).append_pair("k", &key.to_base64());
        if let Some(return_to) = return_to {
            parameters.append_pair("return_to", return_to);
        }
        format!("{base}?{}", parameters.append_pair("b", bridge).finish())
    }
}

// The cipher of messages on the bridge: AES-256-GCM with the key from the connector URI.

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
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_connector_uri_has_its_parameters_in_percent_encoding() {
        let key = RequestKey::new(Zeroizing::new([0xfb; 32]));
        let id = EntryId::from_random_bytes([7; 16]);
        let mut connector = Connector { id, key, bridge: "http://127.0.0.1:8085".to_owned(), return_to: None };
        let base = "https://id.example/connect";
        let uri = connector.to_uri(base);
        let expected = "https://id.example/connect?t=wld&i=07070707-0707-4707-8707-070707070707\
                        &k=%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fv7%2B%2Fs%3D\
                        &b=http%3A%2F%2F127.0.0.1%3A8085";
        assert_eq!(uri, expected);
        connector.return_to = Some("https://app.example/?x=1".to_owned());
        let with_return = expected.replace("&b=", "&return_to=https%3A%2F%2Fapp.example%2F%3Fx%3D1&b=");
        assert_eq!(connector.to_uri(base), with_return);
    }

    mod cipher {
        use super::super::*;

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
            for refused in ["", &text[..43], &format!("{text}="), &STANDARD.encode([7; 31]), &STANDARD.encode([7; 33])]
            {
                assert!(RequestKey::from_base64(refused).is_none(), "{refused:?}");
            }
            assert_eq!(format!("{:?}", key(7)), "RequestKey");
        }
    }
}
