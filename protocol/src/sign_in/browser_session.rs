//! The session of a browser: its stored form, which the holder of its cookie alone can read, and
//! the requests that may end it (OpenID Connect RP-Initiated Logout 1.0).

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use zeroize::Zeroizing;

use super::authorize::{LONGEST_KEPT, Parameters};
use super::records::BrowserSession;
use super::response::{ErrorKind, SignInRejection, query_separator};
use crate::encode_fields;
use crate::encoding::{DecodeError, Encoding, encode};

// What only the holder of a secret can read: a browser's session, as it is stored.
//
// A session names all the applications of one browser, with the person at each. The store has the
// session under the SHA-256 of the cookie's secret, encrypted with a key that HKDF derives from
// the same secret: neither the store nor a copy of it tells which applications belong together.
// Each session has a secret of its own. Its key encrypts one text for each write of the session,
// each with a random nonce: the end of a sign-in to one application writes it again.

/// What the key is for ([`seal_for_holder`]).
const PURPOSE: &[u8] = b"selfsame browser session";

/// The length of an encrypted session, or of pointers, is a multiple of this number of bytes: its
/// exact length would tell how many applications it has, and how long their names are.
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
/// [`super::records::MOST_SIGN_INS`] sign-ins, nor for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text for the holder of a secret cannot be encrypted")]
pub struct SealError;

impl SealedSession {
    /// Encrypts a session for the holder of `secret`. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(session: &BrowserSession, secret: &str, nonce: [u8; 12]) -> Result<Self, SealError> {
        Ok(Self { nonce, ciphertext: seal_padded(PURPOSE, session, secret, nonce)? })
    }

    /// Decrypts the session with the secret that it was encrypted for.
    ///
    /// # Errors
    /// The session is another secret's, or was changed, or is not the encoding of a session.
    pub fn open(&self, secret: &str) -> Result<BrowserSession, DecodeError> {
        open_padded(PURPOSE, secret, self.nonce, &self.ciphertext)
    }
}

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
pub(super) fn seal_for_holder(
    purpose: &[u8],
    secret: &str,
    nonce: [u8; 12],
    mut text: Vec<u8>,
) -> Result<Vec<u8>, SealError> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let cipher = cipher(purpose, secret).ok_or(SealError)?;
    cipher.seal_in_place_append_tag(nonce, Aad::empty(), &mut text).map_err(|_| SealError)?;
    Ok(text)
}

/// Decrypts what was encrypted for the holder of `secret`, for the same purpose.
///
/// # Errors
/// It is another secret's, or was changed.
pub(super) fn open_for_holder(
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

/// The cipher whose key is derived from a secret for a purpose.
fn cipher(purpose: &[u8], secret: &str) -> Option<LessSafeKey> {
    let key = Salt::new(HKDF_SHA256, &[]).extract(secret.as_bytes());
    let purposes = [purpose];
    let key = key.expand(&purposes, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// The parameters of a logout request that this provider recognizes. Each can occur once.
const KNOWN: [&str; 7] =
    ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", "logout_hint", "ui_locales", "confirmation"];

/// An ID token that this provider signed, which a client sends back as a hint. It may have expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdTokenHint {
    /// The claim `sub`.
    pub subject: String,
    /// The claim `aud`: the client that the token was issued to.
    pub client_id: String,
}

/// A valid request to end a browser's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// The ID token of `id_token_hint`; `None` when it is absent or was not issued here.
    pub hint: Option<IdTokenHint>,
    /// Where the browser is sent afterwards: a registered URI with the request's `state`. `None`
    /// when the browser stays here.
    pub redirect: Option<String>,
}

impl LogoutRequest {
    /// Reads a request. `hint` is the ID token of its `id_token_hint`, if this provider signed it.
    /// `registered` returns the post-logout redirect URIs of the client with an id, or `None` when
    /// the provider serves no such client.
    ///
    /// # Errors
    /// A parameter is given twice or too long, `client_id` is unknown or is not the audience of the
    /// hint, or `post_logout_redirect_uri` is not one of the client's. The browser must not be
    /// redirected then, and the session must not be ended.
    pub fn read(
        parameters: &Parameters,
        hint: Option<IdTokenHint>,
        registered: impl FnOnce(&str) -> Option<Vec<String>>,
    ) -> Result<Self, SignInRejection> {
        if let Some(name) = parameters.find_repeated(&KNOWN) {
            let detail = format!("{name} occurs more than once; send it once");
            return Err(SignInRejection::of(name, ErrorKind::InvalidRequest, detail));
        }
        let state = parameters.get("state");
        if let Some(length) = state.map(str::len).filter(|length| *length > LONGEST_KEPT) {
            let detail = format!("state has {length} bytes, it must have at most {LONGEST_KEPT}");
            return Err(SignInRejection::of("state", ErrorKind::InvalidRequest, detail));
        }
        let given = parameters.get("client_id");
        if let (Some(given), Some(hint)) = (given, &hint)
            && given != hint.client_id
        {
            let detail = "client_id is not the client that the ID token of id_token_hint was issued to";
            return Err(SignInRejection::of("client_id", ErrorKind::InvalidRequest, detail));
        }
        let uri = parameters.get("post_logout_redirect_uri");
        let client_id = given.or(hint.as_ref().map(|hint| hint.client_id.as_str()));
        let redirect = match (uri, client_id) {
            (None, None) => None,
            (Some(_), None) => {
                let detail = "post_logout_redirect_uri needs client_id, or an id_token_hint that was issued here";
                return Err(SignInRejection::of("client_id", ErrorKind::Required, detail));
            }
            (uri, Some(client_id)) => {
                // An ID token of a client that is no longer configured is still a valid hint.
                let registered = match registered(client_id) {
                    None if given.is_some() || uri.is_some() => {
                        let detail = "no application has this client_id";
                        return Err(SignInRejection::of("client_id", ErrorKind::InvalidClientId, detail));
                    }
                    registered => registered.unwrap_or_default(),
                };
                if uri.is_some_and(|uri| registered.iter().all(|registered| registered != uri)) {
                    let detail = "post_logout_redirect_uri is not one of those registered for the application; they \
                                  are compared byte for byte";
                    let kind = ErrorKind::InvalidRedirectUri;
                    return Err(SignInRejection::of("post_logout_redirect_uri", kind, detail));
                }
                uri.map(|uri| with_state(uri, state))
            }
        };
        Ok(Self { hint, redirect })
    }
}

/// A registered URI, whose query is kept, with the request's `state`.
fn with_state(uri: &str, state: Option<&str>) -> String {
    let Some(state) = state else { return uri.to_owned() };
    let state: String = form_urlencoded::byte_serialize(state.as_bytes()).collect();
    format!("{uri}{}state={state}", query_separator(uri))
}

#[cfg(test)]
mod tests {
    use super::super::browser_session::*;

    fn read(query: &str, hint: Option<(&str, &str)>) -> Result<LogoutRequest, (&'static str, Option<&'static str>)> {
        let hint = hint
            .map(|(subject, client_id)| IdTokenHint { subject: subject.to_owned(), client_id: client_id.to_owned() });
        let registered = |id: &str| {
            let uris = ["https://app.example/bye".to_owned(), "https://app.example/?a=1".to_owned()];
            (id == "app_a").then(|| uris.to_vec())
        };
        let read = LogoutRequest::read(&Parameters::parse(query.as_bytes()), hint, registered);
        read.map_err(|rejection| (rejection.kind.code(), rejection.attribute))
    }

    #[test]
    fn the_browser_is_sent_only_to_a_registered_uri() {
        let redirect = |query: &str, hint: Option<(&str, &str)>| read(query, hint).map(|request| request.redirect);
        let at = |uri: &str| Ok(Some(uri.to_owned()));
        let (ours, other) = (Some(("0x1", "app_a")), Some(("0x1", "app_b")));
        assert_eq!(redirect("", None), Ok(None));
        assert_eq!(redirect("state=s", ours), Ok(None));
        let bye = "post_logout_redirect_uri=https://app.example/bye";
        assert_eq!(redirect(&format!("{bye}&client_id=app_a"), None), at("https://app.example/bye"));
        assert_eq!(redirect(&format!("{bye}&state=a%26b"), ours), at("https://app.example/bye?state=a%26b"));
        let with_query = "post_logout_redirect_uri=https://app.example/?a%3D1&state=s";
        assert_eq!(redirect(with_query, ours), at("https://app.example/?a=1&state=s"));
        for (query, hint, code, attribute) in [
            (bye.to_owned(), None, "required", "client_id"),
            (bye.to_owned(), other, "invalid_client_id", "client_id"),
            (format!("{bye}/&client_id=app_a"), None, "invalid_redirect_uri", "post_logout_redirect_uri"),
            (format!("{bye}&client_id=app_b"), None, "invalid_client_id", "client_id"),
            ("client_id=app_b".to_owned(), None, "invalid_client_id", "client_id"),
            (format!("{bye}&client_id=app_a"), other, "invalid_request", "client_id"),
            (format!("{bye}&{bye}"), ours, "invalid_request", "post_logout_redirect_uri"),
            (format!("state={}", "s".repeat(LONGEST_KEPT + 1)), None, "invalid_request", "state"),
        ] {
            assert_eq!(redirect(&query, hint), Err((code, Some(attribute))), "{query}");
        }
        assert_eq!(redirect("", other), Ok(None), "a hint of a client that is gone still ends its session");
    }

    mod holder {
        use super::super::super::claims::{Person, Scopes, VerificationLevel};
        use super::super::super::proof_request::SignInProof;
        use super::super::super::records::{ClientSession, MOST_SIGN_INS};
        use super::super::super::response::ResponseType;
        use super::super::*;
        use crate::encoding::decode;
        use crate::time::UnixSeconds;
        use crate::verification::Environment;
        use crate::{B256, U256};

        const NONCE: [u8; 12] = [7; 12];

        fn session(clients: usize) -> BrowserSession {
            let client = |number: usize| ClientSession {
                client_id: format!("app_staging_{number:032x}"),
                proof: SignInProof::Legacy,
                environment: Environment::Staging,
                person: Person {
                    subject: B256::from(U256::from(0xfeed_0000 + number)),
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
            let length =
                |count| SealedSession::seal(&session(count), "secret", NONCE).expect("sealed").ciphertext.len();
            assert_eq!(length(1), length(2));
            assert_eq!(length(1), PADDING + AES_256_GCM.tag_len());
            assert_eq!((length(MOST_SIGN_INS) - AES_256_GCM.tag_len()) % PADDING, 0);
        }
    }
}
