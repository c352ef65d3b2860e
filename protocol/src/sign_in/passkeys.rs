//! Passkeys that lead to accounts.
//!
//! A passkey is a pointer ([`super::accounts`]): its *user handle*, which a browser gives out with
//! it (WebAuthn Level 3, section 5.2.2), says which account it leads to, and a sign-in needs a
//! proof as well. So the service keeps no record and no public key of a passkey, and does not use
//! its signature: whoever can copy a handle out of a keychain gets a pointer and no more.
//!
//! A handle has two halves: the random id of the account, and an HMAC of that id and of the
//! account's generation. A handle that was made before all others were made to forget the account
//! is worth nothing, and nobody makes a handle out of an id.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::accounts::{SignInAccount, SubjectKey};
use super::sealed::SealError;
use crate::net::{address_of_host, host_of, is_loopback_host};

/// What the key of handles is derived from the subject key for.
const KEY: &[u8] = b"selfsame user handles of passkeys";

/// The random id of an account, which no token has.
pub type AccountId = [u8; 16];

// The user handle.

/// The user handle of a passkey: 32 bytes, written in base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PasskeyHandle([u8; 32]);

/// A text that is not the user handle of a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a user handle of a passkey of this service is 32 bytes in base64url without padding: 43 characters")]
pub struct InvalidPasskeyHandle;

impl fmt::Debug for PasskeyHandle {
    /// Without the handle, because embedders write it to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasskeyHandle(hidden)")
    }
}

impl fmt::Display for PasskeyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl FromStr for PasskeyHandle {
    type Err = InvalidPasskeyHandle;

    fn from_str(text: &str) -> Result<Self, InvalidPasskeyHandle> {
        let mut bytes = [0; 32];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(InvalidPasskeyHandle),
        }
    }
}

impl PasskeyHandle {
    /// The id of the account that it names.
    pub fn account_id(&self) -> AccountId {
        let mut id = AccountId::default();
        id.copy_from_slice(&self.0[..16]);
        id
    }
}

/// The key of the handles. It is derived from the subject key, so that no further secret is kept.
pub struct PasskeyKey(Zeroizing<[u8; 32]>);

impl PasskeyKey {
    /// The key of a service with this subject key (RFC 5869): no other use of the subject key gives
    /// the same one.
    ///
    /// # Errors
    /// The key cannot be derived, which does not happen for a subject key.
    pub fn of(subject_key: &SubjectKey) -> Result<Self, SealError> {
        let mut key = Zeroizing::new([0; 32]);
        let (secret, purposes) = (Salt::new(HKDF_SHA256, &[]).extract(subject_key.bytes()), [KEY]);
        let expanded = secret.expand(&purposes, HKDF_SHA256);
        expanded.and_then(|expanded| expanded.fill(key.as_mut_slice())).map_err(|_| SealError)?;
        Ok(Self(key))
    }

    /// The handle of an account in its generation: its id, and the first 16 bytes of HMAC-SHA256 of
    /// the id and of the generation as four bytes, big-endian.
    pub fn handle(&self, account: &SignInAccount) -> PasskeyHandle {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.0.as_slice()));
        context.update(&account.id);
        context.update(&account.generation.to_be_bytes());
        let mut handle = [0; 32];
        handle[..16].copy_from_slice(&account.id);
        handle[16..].copy_from_slice(&context.sign().as_ref()[..16]);
        PasskeyHandle(handle)
    }

    /// Whether a handle leads to an account: it was made of it, after all others were last
    /// forgotten. Takes the same time for every handle.
    pub fn leads_to(&self, handle: &PasskeyHandle, account: &SignInAccount) -> bool {
        self.handle(account).0.ct_eq(&handle.0).into()
    }
}

// The domain that browsers keep passkeys for.

/// The domain that the passkeys of a service are made for, the relying party's id of WebAuthn: only
/// pages at it and below it can make and use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasskeyDomain(String);

/// Why a service has no passkeys, or not those of a domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyDomainError {
    /// Browsers keep passkeys for domains alone.
    #[error("the host of the issuer {issuer}, {host}, is an address, and browsers keep passkeys for domains alone")]
    Address {
        /// The issuer.
        issuer: String,
        /// Its host.
        host: String,
    },
    /// Browsers have passkeys only in secure contexts.
    #[error("the issuer {issuer} is plain HTTP, where browsers have passkeys for localhost alone")]
    PlainHttp {
        /// The issuer.
        issuer: String,
    },
    /// Pages of the issuer can neither make nor use passkeys of that domain.
    #[error(
        "{domain:?} is neither the host of the issuer {issuer} nor a domain above it with a dot; give {host:?} or a domain \
         above that"
    )]
    Foreign {
        /// The domain.
        domain: String,
        /// The issuer.
        issuer: String,
        /// Its host.
        host: String,
    },
}

impl PasskeyDomain {
    /// The domain of the passkeys of an issuer: `wished`, or its host. Browsers refuse a public
    /// suffix such as `co.uk`, which is not known here.
    ///
    /// # Errors
    /// [`PasskeyDomainError`].
    pub fn new(issuer: &str, wished: Option<&str>) -> Result<Self, PasskeyDomainError> {
        let host = host_of(issuer).to_ascii_lowercase();
        let text = issuer.to_owned();
        if host.is_empty() || address_of_host(&host).is_some() {
            return Err(PasskeyDomainError::Address { issuer: text, host });
        }
        let is_here = is_loopback_host(&host) || host.ends_with(".localhost");
        if !issuer.starts_with("https://") && !is_here {
            return Err(PasskeyDomainError::PlainHttp { issuer: text });
        }
        let Some(wished) = wished else { return Ok(Self(host)) };
        let above = host.strip_suffix(wished).and_then(|labels| labels.strip_suffix('.'));
        let is_above = above.is_some_and(|labels| !labels.is_empty()) && wished.contains('.');
        match wished == host || is_above {
            true => Ok(Self(wished.to_owned())),
            false => Err(PasskeyDomainError::Foreign { domain: wished.to_owned(), issuer: text, host }),
        }
    }

    /// The domain as browsers take it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Nullifier;
    use crate::sign_in::accounts::FirstProof;
    use crate::time::UnixSeconds;
    use crate::verification::request::SessionId;
    use crate::{B256, U256};

    fn account(id: AccountId, generation: u32) -> SignInAccount {
        let session = SessionId { text: format!("session_{:064x}01{:062x}", 1, 0), commitment: U256::from(1) };
        let first =
            FirstProof { nullifier: Nullifier(U256::from(7)), session, identifier: "proof_of_human".to_owned() };
        SignInAccount { generation, ..SignInAccount::new(id, B256::repeat_byte(1), first, UnixSeconds(0)) }
    }

    fn key(first: u8) -> PasskeyKey {
        let bytes: Vec<u8> = (first..first + 32).collect();
        PasskeyKey::of(&SubjectKey::from_bytes(&bytes).expect("32 bytes")).expect("derived")
    }

    #[test]
    fn a_handle_leads_to_the_account_that_it_was_made_of() {
        let (made, good) = (account([3; 16], 2), key(0));
        let handle = good.handle(&made);
        let changed = |index: usize, bit: u8| {
            let mut bytes = handle.0;
            bytes[index] ^= 1 << bit;
            PasskeyHandle(bytes)
        };
        let renewed = SignInAccount { current: None, firsts: 9, codes: 9, ..made.clone() };
        #[rustfmt::skip]
        let table = [
            ("as it was made", handle, &made, &good, true),
            ("after other proofs of the account", handle, &renewed, &good, true),
            ("an earlier generation", handle, &account([3; 16], 1), &good, false),
            ("after all others were forgotten", handle, &made.without_pointers(), &good, false),
            ("another account", handle, &account([4; 16], 2), &good, false),
            ("another key", handle, &made, &key(1), false),
            ("a changed bit of the id", changed(0, 0), &made, &good, false),
            ("the last changed bit of the id", changed(15, 7), &made, &good, false),
            ("a changed bit of the code", changed(16, 0), &made, &good, false),
            ("the last changed bit of the code", changed(31, 7), &made, &good, false),
        ];
        for (what, handle, account, key, expected) in table {
            assert_eq!(key.leads_to(&handle, account), expected, "{what}");
        }
        assert_eq!(handle.account_id(), [3; 16]);
        assert_eq!(format!("{handle:?}"), "PasskeyHandle(hidden)");
    }

    /// Computed with Python: `prk = hmac.new(b"\0" * 32, bytes(range(32)), "sha256").digest()`,
    /// `key = hmac.new(prk, b"selfsame user handles of passkeys\x01", "sha256").digest()`,
    /// `base64.urlsafe_b64encode(b"\3" * 16 + hmac.new(key, b"\3" * 16 + (2).to_bytes(4, "big"),
    /// "sha256").digest()[:16])`.
    #[test]
    fn a_handle_is_the_id_and_a_part_of_the_hmac() {
        let handle = key(0).handle(&account([3; 16], 2));
        assert_eq!(handle.to_string(), "AwMDAwMDAwMDAwMDAwMDA-zF4HIx6DT4aj8H57-3dKg");
    }

    #[test]
    fn a_handle_has_exactly_one_text() {
        let text = key(0).handle(&account([3; 16], 2)).to_string();
        let with_last = |last: char| format!("{}{last}", &text[..42]);
        #[rustfmt::skip]
        let table = [
            ("as it is written", text.clone(), true),
            ("nothing", String::new(), false),
            ("a byte less", URL_SAFE_NO_PAD.encode([3; 31]), false),
            ("a byte more", URL_SAFE_NO_PAD.encode([3; 33]), false),
            ("very long", "A".repeat(100_000), false),
            ("with padding", format!("{text}="), false),
            ("of the other alphabet", text.replacen('A', "+", 1), false),
            ("with a space", format!(" {text}"), false),
            ("with bits left over", with_last('B'), false),
        ];
        for (what, text, expected) in table {
            assert_eq!(text.parse::<PasskeyHandle>().is_ok(), expected, "{what}: {text:?}");
        }
        assert_eq!(text.parse(), Ok(key(0).handle(&account([3; 16], 2))));
    }

    #[test]
    fn a_domain_is_the_host_of_the_issuer_or_above_it() {
        let good = |domain: &str| Ok(domain.to_owned());
        let wrong = |text: &'static str| Err(text);
        #[rustfmt::skip]
        let table = [
            ("https://id.example.org", None, good("id.example.org")),
            ("https://ID.Example.org:8443/selfsame", None, good("id.example.org")),
            ("https://id.example.org", Some("id.example.org"), good("id.example.org")),
            ("https://id.example.org/path", Some("example.org"), good("example.org")),
            ("http://localhost:8085", None, good("localhost")),
            ("http://id.localhost:8085", None, good("id.localhost")),
            ("https://localhost", None, good("localhost")),
            ("https://id.example.org", Some("org"), wrong("\"org\" is neither the host")),
            ("https://id.example.org", Some(".example.org"), wrong("give \"id.example.org\" or a domain above")),
            ("https://id.example.org", Some("ample.org"), wrong("is neither the host")),
            ("https://id.example.org", Some("www.id.example.org"), wrong("is neither the host")),
            ("https://id.example.org", Some("elsewhere.example"), wrong("is neither the host")),
            ("https://id.example.org", Some(""), wrong("is neither the host")),
            ("http://127.0.0.1:8085", None, wrong("127.0.0.1, is an address")),
            ("https://127.0.0.1", Some("localhost"), wrong("is an address")),
            ("https://[::1]:8085", None, wrong("[::1], is an address")),
            ("http://id.example.org", None, wrong("is plain HTTP")),
        ];
        for (issuer, wished, expected) in table {
            let found = PasskeyDomain::new(issuer, wished).map(|domain| domain.as_str().to_owned());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{issuer}, {wished:?}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{issuer}, {wished:?}: {error}"),
                (found, _) => panic!("{issuer}, {wished:?}: {found:?}"),
            }
        }
    }
}
