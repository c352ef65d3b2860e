//! Secrets that a person carries from one browser to another, each of which leads to one account.
//!
//! A *sign-in code* is printed and kept. It does not expire; a further code replaces nothing; and
//! it is worth nothing from the moment on in which all others are made to forget the account. A
//! *link* is good once, within five minutes: it makes the browser that it is opened in remember the
//! account. Both are pointers ([`super::accounts`]): a sign-in needs a proof as well.
//!
//! From such a secret HKDF derives two values (RFC 5869, section 3.2): the id of its record, and
//! the key that the pointer in the record is encrypted with. So the store alone does not tell
//! which account the secret leads to.

use std::fmt;
use std::str::FromStr;

use super::accounts::Pointer;
use super::openings::ShortId;
use super::sealed::{SealError, open_padded, record_id, seal_padded};
use crate::encoding::DecodeError;
use crate::time::UnixSeconds;
use crate::{B256, encode_fields};

/// What the record of a code is found by.
const CODE_ID: &[u8] = b"selfsame id of a sign-in code";

/// What the pointer of a code is encrypted for.
const CODE_KEY: &[u8] = b"selfsame pointer of a sign-in code";

/// What the record of a link is found by.
const LINK_ID: &[u8] = b"selfsame id of a link to an account";

/// What the pointer of a link is encrypted for.
const LINK_KEY: &[u8] = b"selfsame pointer of a link to an account";

/// How long a link is good, in seconds.
pub const LINK_LIFETIME: u64 = 300;

/// How long it is known after its making what has become of a link, in seconds.
pub const LINK_KEPT: u64 = 3600;

/// The most sign-in codes that are ever made of one account. Their records do not expire.
pub const MOST_CODES: u8 = 200;

/// A sign-in code: 80 random bits, written as 16 characters of base32 in groups of four.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignInCode(pub [u8; 10]);

/// A text that is not a sign-in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sign-in code is 16 characters of a to z and 2 to 7; spaces, dashes and upper case do not matter")]
pub struct InvalidSignInCode;

impl fmt::Debug for SignInCode {
    /// Without the code, because embedders write it to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInCode(hidden)")
    }
}

impl fmt::Display for SignInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        for start in [0, 4, 8, 12] {
            let group = text.get(start..start + 4).unwrap_or_default();
            write!(f, "{}{group}", if start == 0 { "" } else { "-" })?;
        }
        Ok(())
    }
}

impl FromStr for SignInCode {
    type Err = InvalidSignInCode;

    /// Reads what a person typed: in any case, with spaces and dashes of any kind, and in the wide
    /// letters of a Japanese keyboard.
    fn from_str(text: &str) -> Result<Self, InvalidSignInCode> {
        let is_dash = |letter: char| {
            matches!(letter, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{30fc}' | '\u{ff0d}' | '_' | '.')
        };
        let narrow = |letter: char| match letter {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
            letter => letter,
        };
        let letters = text.chars().filter(|letter| !letter.is_whitespace() && !is_dash(*letter));
        // One more than a code has shows that there are too many.
        let letters: String = letters.map(|letter| narrow(letter).to_ascii_lowercase()).take(17).collect();
        letters.parse().map(|ShortId(bytes)| Self(bytes)).map_err(|_| InvalidSignInCode)
    }
}

impl SignInCode {
    /// The code without its groups: the secret.
    fn text(&self) -> String {
        ShortId(self.0).to_string()
    }

    /// The id of its record.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn record_id(&self) -> Result<B256, SealError> {
        record_id(CODE_ID, &self.text())
    }

    /// Encrypts what it leads to. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(&self, pointer: &Pointer, nonce: [u8; 12]) -> Result<SealedPointer, SealError> {
        Ok(SealedPointer { nonce, ciphertext: seal_padded(CODE_KEY, pointer, &self.text(), nonce)? })
    }

    /// Decrypts what it leads to.
    ///
    /// # Errors
    /// The pointer is another code's, or was changed.
    pub fn open(&self, sealed: &SealedPointer) -> Result<Pointer, DecodeError> {
        open_padded(CODE_KEY, &self.text(), sealed.nonce, &sealed.ciphertext)
    }
}

/// A pointer as it is stored for the holder of its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPointer {
    /// The nonce of AES-256-GCM, random.
    pub nonce: [u8; 12],
    /// The encrypted pointer with its tag.
    pub ciphertext: Vec<u8>,
}

encode_fields!(SealedPointer { nonce, ciphertext } version 1 of "sealed pointer");

// Links.

/// The id of the record of the link with a secret.
///
/// # Errors
/// [`SealError`].
pub fn link_id(secret: &str) -> Result<B256, SealError> {
    record_id(LINK_ID, secret)
}

/// A link as it is stored, until [`LINK_KEPT`] after its making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLink {
    /// End of the time in which it is good, exclusive.
    pub valid_until: UnixSeconds,
    /// What it leads to; `None` once it was used.
    pub pointer: Option<SealedPointer>,
}

encode_fields!(StoredLink { valid_until, pointer } version 1 of "link to an account");

/// Why a link leads to no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// It was used.
    Used,
    /// Its time is over, or all others were made to forget the account.
    Over,
    /// There is no such link, or none any more.
    Unknown,
}

impl StoredLink {
    /// A new link. `nonce` is random.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(pointer: &Pointer, secret: &str, nonce: [u8; 12], now: UnixSeconds) -> Result<Self, SealError> {
        let ciphertext = seal_padded(LINK_KEY, pointer, secret, nonce)?;
        Ok(Self { valid_until: now.plus(LINK_LIFETIME), pointer: Some(SealedPointer { nonce, ciphertext }) })
    }

    /// What the link leads to at `now`, or why it leads nowhere.
    ///
    /// # Errors
    /// The pointer is another link's, or was changed.
    pub fn open(&self, secret: &str, now: UnixSeconds) -> Result<Result<Pointer, LinkEnd>, DecodeError> {
        let Some(SealedPointer { nonce, ciphertext }) = &self.pointer else { return Ok(Err(LinkEnd::Used)) };
        if now >= self.valid_until {
            return Ok(Err(LinkEnd::Over));
        }
        open_padded(LINK_KEY, secret, *nonce, ciphertext).map(Ok)
    }

    /// The link after its use.
    pub fn used(&self) -> Self {
        Self { pointer: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::encode;
    use crate::verification::Environment;

    const CODE: SignInCode = SignInCode([0, 1, 2, 3, 4, 5, 6, 7, 8, 255]);

    fn pointer() -> Pointer {
        Pointer {
            client_id: "app_a".to_owned(),
            environment: Environment::Staging,
            subject: B256::repeat_byte(0xfe),
            generation: 3,
            legacy_since: None,
        }
    }

    #[test]
    fn a_code_is_read_as_people_write_it() {
        let text = CODE.to_string();
        // Computed with Python: `base64.b32encode(bytes([0,1,2,3,4,5,6,7,8,255])).lower()`.
        assert_eq!(text, "aaaq-eaye-auda-och7");
        let wide: String = text
            .chars()
            .map(|letter| match letter {
                '-' => '\u{30fc}',
                letter => char::from_u32(u32::from(letter) + 0xfee0).expect("a letter"),
            })
            .collect();
        #[rustfmt::skip]
        let table = [
            ("as it is shown", text.clone(), Ok(CODE)),
            ("without groups", text.replace('-', ""), Ok(CODE)),
            ("in upper case, with spaces", text.replace('-', " ").to_uppercase(), Ok(CODE)),
            ("with other dashes and spaces around", format!("\u{a0} {}\n", text.replace('-', " \u{2013} ")), Ok(CODE)),
            ("in wide letters", wide, Ok(CODE)),
            ("nothing", String::new(), Err(InvalidSignInCode)),
            ("a letter less", text[1..].to_owned(), Err(InvalidSignInCode)),
            ("a letter more", format!("{text}a"), Err(InvalidSignInCode)),
            ("another sign", text.replacen('a', "1", 1), Err(InvalidSignInCode)),
            ("a letter of another alphabet", text.replacen('a', "\u{430}", 1), Err(InvalidSignInCode)),
            ("very long", text.repeat(1000), Err(InvalidSignInCode)),
        ];
        for (what, text, expected) in table {
            assert_eq!(text.parse::<SignInCode>(), expected, "{what}");
        }
    }

    #[test]
    fn a_link_is_good_once_within_its_time() {
        let made = UnixSeconds(1_800_000_000);
        let link = StoredLink::seal(&pointer(), "a secret", [7; 12], made).expect("sealed");
        let (last, end) = (made.plus(LINK_LIFETIME - 1), made.plus(LINK_LIFETIME));
        #[rustfmt::skip]
        let table = [
            ("new", &link, "a secret", made, Ok(Ok(pointer()))),
            ("in its last second", &link, "a secret", last, Ok(Ok(pointer()))),
            ("after its time", &link, "a secret", end, Ok(Err(LinkEnd::Over))),
            ("used", &link.used(), "a secret", made, Ok(Err(LinkEnd::Used))),
            ("used, after its time", &link.used(), "a secret", end, Ok(Err(LinkEnd::Used))),
            ("with another secret", &link, "another", made, Err(DecodeError::NotAuthentic)),
        ];
        for (what, link, secret, now, expected) in table {
            assert_eq!(link.open(secret, now), expected, "{what}");
        }
        let stored = encode(&link);
        for text in [&b"app_a"[..], &[0xfe; 4], b"a secret"] {
            assert!(!stored.windows(text.len()).any(|part| part == text), "{text:?} is in clear");
        }
        // A code with the same text would be another record.
        assert_ne!(link_id(&CODE.text()), CODE.record_id());
    }

    #[test]
    fn the_store_tells_neither_the_code_nor_what_it_leads_to() {
        let sealed = CODE.seal(&pointer(), [7; 12]).expect("sealed");
        let (id, stored) = (CODE.record_id().expect("an id"), encode(&sealed));
        for text in [&b"app_a"[..], &[0xfe; 4], CODE.text().as_bytes(), &CODE.0] {
            let is_in = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text);
            assert!(!is_in(&stored) && !is_in(id.as_slice()), "{text:?} is in clear");
        }
        assert_eq!(CODE.open(&sealed), Ok(pointer()));
        let other = SignInCode([9; 10]);
        assert_eq!(other.open(&sealed), Err(DecodeError::NotAuthentic));
        assert_ne!(other.record_id(), Ok(id));
        // The id is no key: no other use of the code gives the same value.
        assert_ne!(record_id(CODE_KEY, &CODE.text()), Ok(id));
        assert_eq!(format!("{CODE:?}"), "SignInCode(hidden)");
    }
}
