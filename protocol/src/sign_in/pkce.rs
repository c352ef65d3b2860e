//! Proof keys for code exchange (RFC 7636), method S256 only.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Whether a text can be a challenge: the base64url text of a SHA-256 hash.
pub fn is_challenge(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|hash| hash.len() == 32)
}

/// Whether a text can be a verifier (section 4.1): 43 to 128 unreserved characters.
pub fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// The challenge of a verifier.
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// The `at_hash` of an access token or the `c_hash` of a code (OpenID Connect Core, sections
/// 3.1.3.6 and 3.3.2.11): the left half of its SHA-256 hash, in base64url. The hash is that of the
/// algorithm of the ID token; RS256 and ES256 have the same.
pub fn half_hash(value: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(value)[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_matches_the_example_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(is_verifier(verifier) && is_challenge(&challenge(verifier)));
    }

    #[test]
    fn malformed_verifiers_and_challenges_are_rejected() {
        for text in ["", &"a".repeat(42), &"a".repeat(129), &"é".repeat(30), &format!("{}+", "a".repeat(43))] {
            assert!(!is_verifier(text), "{text:?}");
        }
        for text in
            ["", &"a".repeat(42), &"a".repeat(44), &format!("{}=", "A".repeat(43)), &format!("{}+", "A".repeat(42))]
        {
            assert!(!is_challenge(text), "{text:?}");
        }
    }
}
