//! What only the holder of a secret can read: a browser's session, as it is stored.
//!
//! A session names all the applications of one browser, with the person at each. The store has the
//! session under the SHA-256 of the cookie's secret, encrypted with a key that HKDF derives from
//! the same secret: neither the store nor a copy of it tells which applications belong together.
//! Each session has a secret of its own and is written once, so its key encrypts one text.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use super::records::BrowserSession;
use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding, encode};

/// What the key is for: no other use of the secret gives the same key (RFC 5869, section 3.2).
const PURPOSE: &[u8] = b"selfsame browser session";

/// The length of an encrypted session is a multiple of this number of bytes: its exact length would
/// tell how many applications it has, and how long their names are.
const PADDING: usize = 512;

/// A browser's session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSession {
    /// The nonce of AES-256-GCM, random.
    pub nonce: [u8; 12],
    /// The encrypted session with its tag.
    pub ciphertext: Vec<u8>,
}

encode_fields!(SealedSession { nonce, ciphertext } version 2 of "browser session");

/// The cipher refuses a key or a text. It does not for a session of
/// [`super::records::MOST_SIGN_INS`] sign-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a browser's session cannot be encrypted")]
pub struct SealError;

impl SealedSession {
    /// Encrypts a session for the holder of `secret`. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(session: &BrowserSession, secret: &str, nonce: [u8; 12]) -> Result<Self, SealError> {
        let mut text = Zeroizing::new(encode(session));
        let padded = text.len().next_multiple_of(PADDING);
        text.resize(padded, 0);
        let mut ciphertext = text.to_vec();
        let sealed = cipher(secret).ok_or(SealError)?.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut ciphertext,
        );
        sealed.map_err(|_| SealError)?;
        Ok(Self { nonce, ciphertext })
    }

    /// Decrypts the session with the secret that it was encrypted for.
    ///
    /// # Errors
    /// The session is another secret's, or was changed, or is not the encoding of a session.
    pub fn open(&self, secret: &str) -> Result<BrowserSession, DecodeError> {
        let mut text = Zeroizing::new(self.ciphertext.clone());
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let cipher = cipher(secret).ok_or(DecodeError::NotAuthentic)?;
        let opened = cipher.open_in_place(nonce, Aad::empty(), &mut text).map_err(|_| DecodeError::NotAuthentic)?;
        let mut rest = &*opened;
        let session = BrowserSession::decode(&mut rest)?;
        let is_padding = rest.len() < PADDING && rest.iter().all(|byte| *byte == 0);
        if is_padding { Ok(session) } else { Err(DecodeError::LeftOver(rest.len())) }
    }
}

/// The cipher whose key is derived from a secret.
fn cipher(secret: &str) -> Option<LessSafeKey> {
    let key = Salt::new(HKDF_SHA256, &[]).extract(secret.as_bytes());
    let key = key.expand(&[PURPOSE], &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

#[cfg(test)]
mod tests {
    use super::super::claims::{Person, Scopes, VerificationLevel};
    use super::super::records::{ClientSession, MOST_SIGN_INS};
    use super::super::response::ResponseType;
    use super::*;
    use crate::U256;
    use crate::encoding::decode;
    use crate::ids::Nullifier;
    use crate::time::UnixSeconds;
    use crate::verification::{Environment, ProofKind};

    const NONCE: [u8; 12] = [7; 12];

    fn session(clients: usize) -> BrowserSession {
        let client = |number: usize| ClientSession {
            client_id: format!("app_staging_{number:032x}"),
            proof: ProofKind::Legacy,
            environment: Environment::Staging,
            person: Person {
                nullifier: Nullifier(U256::from(0xfeed_0000 + number)),
                level: VerificationLevel::Orb,
                auth_time: UnixSeconds(1_700_000_000),
            },
            scopes: Scopes::default(),
            redirect_uri: "https://shop.example/callback".to_owned(),
            response_type: ResponseType { code: true, id_token: false, token: false },
        };
        BrowserSession { clients: (0..clients).map(client).collect() }
    }

    #[test]
    fn a_stored_session_is_read_with_its_secret_alone() {
        for count in [0, 1, 2, MOST_SIGN_INS] {
            let session = session(count);
            let sealed = SealedSession::seal(&session, "the secret", NONCE).expect("sealed");
            let stored = encode(&sealed);
            for text in [&b"app_staging"[..], b"shop.example", &[0xfe, 0xed]] {
                assert!(!stored.windows(text.len()).any(|part| part == text), "{count}: {text:?} is in clear");
            }
            let sealed: SealedSession = decode(&stored).expect("decoded");
            assert_eq!(sealed.open("the secret"), Ok(session));
            assert_eq!(sealed.open("another one"), Err(DecodeError::NotAuthentic));
            assert_eq!(sealed.open(""), Err(DecodeError::NotAuthentic));
            let other = SealedSession { nonce: [8; 12], ..sealed.clone() };
            assert_eq!(other.open("the secret"), Err(DecodeError::NotAuthentic));
            for position in [0, sealed.ciphertext.len() / 2, sealed.ciphertext.len() - 1] {
                let mut changed = sealed.clone();
                changed.ciphertext[position] ^= 1;
                assert_eq!(changed.open("the secret"), Err(DecodeError::NotAuthentic), "{position}");
                changed.ciphertext.truncate(position);
                assert_eq!(changed.open("the secret"), Err(DecodeError::NotAuthentic), "{position}");
            }
        }
    }

    #[test]
    fn the_length_of_a_stored_session_does_not_tell_one_application_from_two() {
        let length = |count| SealedSession::seal(&session(count), "secret", NONCE).expect("sealed").ciphertext.len();
        assert_eq!(length(1), length(2));
        assert_eq!(length(1), PADDING + AES_256_GCM.tag_len());
        assert_eq!((length(MOST_SIGN_INS) - AES_256_GCM.tag_len()) % PADDING, 0);
    }
}
