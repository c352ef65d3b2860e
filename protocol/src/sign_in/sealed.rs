//! What only the holder of a secret can read: a browser's session, the accounts that a browser
//! remembers, and the response of a transaction, as they are stored.
//!
//! The store has each under the SHA-256 of a secret that a browser or a program holds, or in a
//! record whose caller has to show that secret, encrypted with a key that HKDF derives from it. So
//! neither the store nor a copy of it tells which applications one person uses. A key encrypts one
//! text for each write, each with a random nonce.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::accounts::BrowserPointers;
use super::records::{AuthorizationCode, BrowserSession};
use crate::encoding::{DecodeError, Encoding, decode, encode};
use crate::time::UnixSeconds;
use crate::{B256, encode_fields};

/// What the key of a session is for ([`seal_for_holder`]).
const SESSION: &[u8] = b"selfsame browser session";

/// What the key of pointers is for.
const POINTERS: &[u8] = b"selfsame pointers of a browser";

/// What the key of a response is for.
const RESPONSE: &[u8] = b"selfsame response of a transaction";

/// The length of an encrypted session, or of pointers, is a multiple of this number of bytes: its
/// exact length would tell how many applications it has, and how long their names are.
const PADDING: usize = 512;

/// The cipher refuses a key or a text. It does not for a session of
/// [`super::records::MOST_SIGN_INS`] sign-ins, nor for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text for the holder of a secret cannot be encrypted")]
pub struct SealError;

/// Encrypts a value for the holder of `secret`, so that the length tells little of it
/// ([`seal_for_holder`]).
///
/// # Errors
/// [`SealError`].
pub(super) fn seal_padded(
    purpose: &[u8],
    value: &impl Encoding,
    secret: &str,
    nonce: [u8; 12],
) -> Result<Vec<u8>, SealError> {
    let mut text = Zeroizing::new(encode(value));
    let padded = text.len().next_multiple_of(PADDING);
    text.resize(padded, 0);
    seal_for_holder(purpose, secret, nonce, text.to_vec())
}

/// Decrypts what [`seal_padded`] encrypted.
///
/// # Errors
/// It is another secret's, or was changed, or is not the encoding of such a value.
pub(super) fn open_padded<T: Encoding>(
    purpose: &[u8],
    secret: &str,
    nonce: [u8; 12],
    ciphertext: &[u8],
) -> Result<T, DecodeError> {
    let text = open_for_holder(purpose, secret, nonce, ciphertext)?;
    let mut rest = text.as_slice();
    let value = T::decode(&mut rest)?;
    let is_padding = rest.len() < PADDING && rest.iter().all(|byte| *byte == 0);
    if is_padding { Ok(value) } else { Err(DecodeError::LeftOver(rest.len())) }
}

/// Encrypts a text for the holder of `secret`, who alone can read it. `purpose` is what the text
/// is: no other use of the secret gives the same key (RFC 5869, section 3.2). `nonce` is random.
///
/// # Errors
/// [`SealError`].
fn seal_for_holder(purpose: &[u8], secret: &str, nonce: [u8; 12], mut text: Vec<u8>) -> Result<Vec<u8>, SealError> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let cipher = cipher(purpose, secret).ok_or(SealError)?;
    cipher.seal_in_place_append_tag(nonce, Aad::empty(), &mut text).map_err(|_| SealError)?;
    Ok(text)
}

/// Decrypts what was encrypted for the holder of `secret`, for the same purpose.
///
/// # Errors
/// It is another secret's, or was changed.
fn open_for_holder(
    purpose: &[u8],
    secret: &str,
    nonce: [u8; 12],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, DecodeError> {
    let mut text = Zeroizing::new(ciphertext.to_vec());
    let cipher = cipher(purpose, secret).ok_or(DecodeError::NotAuthentic)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = cipher.open_in_place(nonce, Aad::empty(), &mut text).map_err(|_| DecodeError::NotAuthentic)?.len();
    text.truncate(length);
    Ok(text)
}

/// The id of the record that the holder of a secret finds by it. It is derived as keys are, so that
/// it tells nothing of the key, and a key is no id.
///
/// # Errors
/// [`SealError`].
pub(super) fn record_id(purpose: &[u8], secret: &str) -> Result<B256, SealError> {
    let mut id = B256::ZERO;
    let (key, purposes) = (Salt::new(HKDF_SHA256, &[]).extract(secret.as_bytes()), [purpose]);
    key.expand(&purposes, HKDF_SHA256).and_then(|id_of| id_of.fill(&mut id.0)).map_err(|_| SealError)?;
    Ok(id)
}

/// The cipher whose key is derived from a secret for a purpose.
fn cipher(purpose: &[u8], secret: &str) -> Option<LessSafeKey> {
    let key = Salt::new(HKDF_SHA256, &[]).extract(secret.as_bytes());
    let purposes = [purpose];
    let key = key.expand(&purposes, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

// A browser's session: the applications of one browser, with the person at each. Each session has a
// secret of its own; the end of a sign-in to one application writes it again.

/// A browser's session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSession {
    /// The nonce of AES-256-GCM, random.
    pub nonce: [u8; 12],
    /// The encrypted session with its tag.
    pub ciphertext: Vec<u8>,
}

encode_fields!(SealedSession { nonce, ciphertext } version 2 of "browser session");

impl SealedSession {
    /// Encrypts a session for the holder of `secret`. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(session: &BrowserSession, secret: &str, nonce: [u8; 12]) -> Result<Self, SealError> {
        Ok(Self { nonce, ciphertext: seal_padded(SESSION, session, secret, nonce)? })
    }

    /// Decrypts the session with the secret that it was encrypted for.
    ///
    /// # Errors
    /// The session is another secret's, or was changed, or is not the encoding of a session.
    pub fn open(&self, secret: &str) -> Result<BrowserSession, DecodeError> {
        open_padded(SESSION, secret, self.nonce, &self.ciphertext)
    }
}

// The accounts that a browser remembers.

/// The pointers of a browser as they are stored: the store alone does not tell which accounts are
/// one person's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPointers {
    /// The nonce of AES-256-GCM, random.
    pub nonce: [u8; 12],
    /// The encrypted pointers with their tag.
    pub ciphertext: Vec<u8>,
}

encode_fields!(SealedPointers { nonce, ciphertext } version 1 of "sealed pointers");

impl SealedPointers {
    /// Encrypts pointers for the holder of `secret`. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(pointers: &BrowserPointers, secret: &str, nonce: [u8; 12]) -> Result<Self, SealError> {
        Ok(Self { nonce, ciphertext: seal_padded(POINTERS, pointers, secret, nonce)? })
    }

    /// Decrypts the pointers with the secret that they were encrypted for.
    ///
    /// # Errors
    /// They are another secret's, or were changed, or are not the encoding of pointers.
    pub fn open(&self, secret: &str) -> Result<BrowserPointers, DecodeError> {
        open_padded(POINTERS, secret, self.nonce, &self.ciphertext)
    }
}

// The response of a transaction, for the holder of its secret: browsers and proxies repeat a GET
// whose answer was lost, and the answer to the second one is the same. The store has it encrypted,
// because it carries codes and tokens of which nothing but a hash is stored.

/// The names of a response's fields. The stored form has their places in this list.
const NAMES: [&str; 8] =
    ["code", "access_token", "token_type", "expires_in", "scope", "id_token", "error", "error_description"];

/// The response of a transaction, as its caller got it.
#[derive(Clone, PartialEq, Eq)]
pub struct GivenResponse {
    /// The parameters for the application, without `state` and `iss`.
    pub fields: Vec<(&'static str, String)>,
    /// The secret of the browser's new session, if it got one.
    pub new_session: Option<String>,
    /// The secret of the browser's pointers, if it got one.
    pub pointers: Option<String>,
}

/// The response of a transaction, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedResponse {
    /// When it was given out.
    pub given_at: UnixSeconds,
    /// SHA-256 of the code in it, if there is one.
    pub code_hash: Option<B256>,
    /// Whether it is an error, which can be given out again at any time.
    pub is_error: bool,
    /// The nonce of AES-256-GCM, random.
    pub nonce: [u8; 12],
    /// The encrypted response with its tag.
    pub ciphertext: Vec<u8>,
}

encode_fields!(SealedResponse { given_at, code_hash, is_error, nonce, ciphertext });

impl SealedResponse {
    /// Encrypts a response that is given out at `given_at` for the holder of the transaction's
    /// secret. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(
        response: &GivenResponse,
        given_at: UnixSeconds,
        secret: &str,
        nonce: [u8; 12],
    ) -> Result<Self, SealError> {
        let place = |name: &str| NAMES.iter().position(|known| *known == name).and_then(|at| u8::try_from(at).ok());
        let fields: Option<Vec<(u8, String)>> =
            response.fields.iter().map(|(name, value)| Some((place(name)?, value.clone()))).collect();
        let text = encode(&(fields.ok_or(SealError)?, (response.new_session.clone(), response.pointers.clone())));
        let code = response.fields.iter().find(|(name, _)| *name == "code");
        Ok(Self {
            given_at,
            code_hash: code.map(|(_, code)| B256::from(<[u8; 32]>::from(Sha256::digest(code)))),
            is_error: response.fields.iter().any(|(name, _)| *name == "error"),
            nonce,
            ciphertext: seal_for_holder(RESPONSE, secret, nonce, text)?,
        })
    }

    /// Whether the response can still be given out again at `now`: an error always; one with a code
    /// while the code, whose record is `code`, is unused and has not expired; any other for the
    /// time of a code, `code_lifetime` seconds.
    pub fn is_of_use(&self, code: Option<&AuthorizationCode>, now: UnixSeconds, code_lifetime: u64) -> bool {
        match self.code_hash {
            _ if self.is_error => true,
            Some(_) => code.is_some_and(|code| code.used_for.is_none() && now < code.valid_until),
            None => now < self.given_at.plus(code_lifetime),
        }
    }

    /// Decrypts the response with the transaction's secret.
    ///
    /// # Errors
    /// It is another secret's, or was changed, or is not the encoding of a response.
    pub fn open(&self, secret: &str) -> Result<GivenResponse, DecodeError> {
        let text = open_for_holder(RESPONSE, secret, self.nonce, &self.ciphertext)?;
        type Secrets = (Option<String>, Option<String>);
        let (fields, (new_session, pointers)): (Vec<(u8, String)>, Secrets) = decode(&text)?;
        let name = |(place, value): (u8, String)| {
            let name = NAMES.get(usize::from(place)).ok_or(DecodeError::UnknownTag { kind: "a field", tag: place })?;
            Ok((*name, value))
        };
        Ok(GivenResponse { fields: fields.into_iter().map(name).collect::<Result<_, _>>()?, new_session, pointers })
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::Pointer;
    use super::super::claims::{Person, Scopes, VerificationLevel};
    use super::super::proof_request::SignInProof;
    use super::super::records::{ClientSession, CodeUse, MOST_SIGN_INS};
    use super::super::response::ResponseType;
    use super::*;
    use crate::U256;
    use crate::verification::Environment;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
    const NONCE: [u8; 12] = [7; 12];

    fn session(clients: usize) -> BrowserSession {
        let client = |number: usize| ClientSession {
            client_id: format!("app_staging_{number:032x}"),
            proof: SignInProof::Legacy,
            environment: Environment::Staging,
            person: Person {
                subject: B256::from(U256::from(0xfeed_0000 + number)),
                level: VerificationLevel::Orb,
                group: None,
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
    fn remembered_accounts_are_read_with_their_secret_alone() {
        let pointer = Pointer {
            legacy_since: None,
            client_id: "app_a".to_owned(),
            environment: Environment::Staging,
            subject: B256::repeat_byte(1),
            generation: 0,
        };
        let known = BrowserPointers::default().with(pointer);
        let sealed = SealedPointers::seal(&known, "a secret", NONCE).expect("sealed");
        assert_eq!(sealed.open("a secret"), Ok(known.clone()));
        assert_eq!(sealed.open("another"), Err(DecodeError::NotAuthentic));
        // Each use of a secret has a key of its own.
        let session = SealedSession { nonce: NONCE, ciphertext: sealed.ciphertext };
        assert_eq!(session.open("a secret"), Err(DecodeError::NotAuthentic));
    }

    #[test]
    fn the_length_of_a_stored_session_does_not_tell_one_application_from_two() {
        let length = |count| SealedSession::seal(&session(count), "secret", NONCE).expect("sealed").ciphertext.len();
        assert_eq!(length(1), length(2));
        assert_eq!(length(1), PADDING + AES_256_GCM.tag_len());
        assert_eq!((length(MOST_SIGN_INS) - AES_256_GCM.tag_len()) % PADDING, 0);
    }

    #[test]
    fn how_long_a_response_is_given_again() {
        let response = |name: &'static str| {
            let given = GivenResponse { fields: vec![(name, "value".to_owned())], new_session: None, pointers: None };
            SealedResponse::seal(&given, NOW, "secret", [0; 12]).expect("sealed")
        };
        let code = |used_for| AuthorizationCode {
            client_id: "app_a".to_owned(),
            redirect_uri: "https://app.example/".to_owned(),
            person: Person {
                subject: B256::repeat_byte(1),
                level: VerificationLevel::Orb,
                group: None,
                auth_time: NOW,
            },
            scopes: Scopes::default(),
            nonce: None,
            code_challenge: None,
            valid_until: NOW.plus(60),
            used_for,
        };
        let (unused, used) = (code(None), code(Some(CodeUse::Token(B256::repeat_byte(1)))));
        let (last, end) = (NOW.plus(59), NOW.plus(60));
        #[rustfmt::skip]
        let table = [
            ("code", Some(&unused), last, true),
            ("code", Some(&unused), end, false),
            ("code", Some(&used), NOW, false),
            ("code", None, NOW, false),
            ("id_token", None, last, true),
            ("id_token", None, end, false),
            ("error", None, UnixSeconds::NEVER, true),
        ];
        for (name, code, now, expected) in table {
            assert_eq!(response(name).is_of_use(code, now, 60), expected, "{name} {code:?} {now:?}");
        }
    }

    #[test]
    fn a_stored_response_is_read_with_its_secret_alone() {
        let given = GivenResponse {
            fields: vec![("code", "the code".to_owned()), ("id_token", "the token".to_owned())],
            new_session: Some("the session".to_owned()),
            pointers: Some("the pointers".to_owned()),
        };
        let sealed = SealedResponse::seal(&given, NOW, "the secret", [7; 12]).expect("sealed");
        assert!(sealed.open("the secret") == Ok(given.clone()) && !sealed.is_error);
        assert!(sealed.open("another one") == Err(DecodeError::NotAuthentic));
        assert_eq!(sealed.code_hash, Some(B256::from(<[u8; 32]>::from(Sha256::digest("the code")))));
        let stored = encode(&sealed);
        for text in ["the code", "the token", "the session"] {
            assert!(!stored.windows(text.len()).any(|part| part == text.as_bytes()), "{text} is in clear");
        }
        let error =
            GivenResponse { fields: vec![("error", "access_denied".to_owned())], new_session: None, pointers: None };
        let sealed = SealedResponse::seal(&error, NOW, "s", [7; 12]).expect("sealed");
        assert!(sealed.is_error && sealed.code_hash.is_none());
        let unknown = GivenResponse { fields: vec![("unknown", String::new())], new_session: None, pointers: None };
        assert!(SealedResponse::seal(&unknown, NOW, "s", [7; 12]).is_err());
    }
}
