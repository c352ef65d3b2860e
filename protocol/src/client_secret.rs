//! Secrets of applications, as they are stored.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A client secret as it is stored: never in plain text. It has 256 random bits, so a salted hash
/// that is quick to compute protects it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret {
    /// The salt.
    pub salt: [u8; 16],
    /// SHA-256 of the salt, followed by the secret.
    pub digest: [u8; 32],
}

impl ClientSecret {
    /// Whether `secret` is the client's secret. The comparison of the hashes takes constant time.
    pub fn is(&self, secret: &str) -> bool {
        let given: [u8; 32] = Sha256::new().chain_update(self.salt).chain_update(secret).finalize().into();
        given.ct_eq(&self.digest).into()
    }

    /// Whether one of `readings`, the ways to read the secret that a request carries, is one of the
    /// `stored` ones. All are compared, so that the time does not depend on which one fits.
    pub fn is_any<T: AsRef<str>>(stored: &[Self], readings: &[T]) -> bool {
        let pairs = stored.iter().flat_map(|stored| readings.iter().map(move |reading| (stored, reading)));
        pairs.fold(false, |is_found, (stored, reading)| stored.is(reading.as_ref()) | is_found)
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientSecret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_reading_may_be_any_of_the_secrets() {
        let stored = |secret: &str| {
            let salt = [7; 16];
            ClientSecret { salt, digest: Sha256::new().chain_update(salt).chain_update(secret).finalize().into() }
        };
        let both = [stored("old"), stored("n+w")];
        #[rustfmt::skip]
        let table: [(&[&str], bool); 6] = [
            (&["old"], true),
            (&["n w", "n+w"], true),
            (&["n+w", "n w"], true),
            (&["n w"], false),
            (&[""], false),
            (&[], false),
        ];
        for (readings, expected) in table {
            assert_eq!(ClientSecret::is_any(&both, readings), expected, "{readings:?}");
        }
        assert!(!ClientSecret::is_any(&[], &["old"]));
        assert_eq!(format!("{:?}", both[0]), "ClientSecret(hidden)");
    }
}
