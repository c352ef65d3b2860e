//! The keys of sign-in's records: a transaction's id, or the hash of a secret.

use std::fmt;
use std::str::FromStr;

use selfsame_protocol::B256;
use selfsame_storage::{RecordKey, RecordKind};
use sha2::{Digest, Sha256};

/// A transaction's public id: 128 random bits, written as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(super) [u8; 16]);

/// A text that is not a transaction's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction's id is 32 lower-case hex digits")]
pub struct InvalidTransactionId;

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TransactionId {
    type Err = InvalidTransactionId;

    fn from_str(text: &str) -> Result<Self, InvalidTransactionId> {
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_canonical);
        number.map(|number| Self(number.to_be_bytes())).ok_or(InvalidTransactionId)
    }
}

impl TransactionId {
    /// The transaction whose record has this key.
    pub(crate) fn of_key(key: &RecordKey) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&key.id[16..]);
        Self(id)
    }

    /// The key of the transaction's record.
    pub(super) fn key(self) -> RecordKey {
        RecordKey { kind: RecordKind::Transaction, id: B256::left_padding_from(&self.0) }
    }
}

/// SHA-256 of a secret: secrets are stored only as hashes.
pub(super) fn hash_of(secret: &str) -> B256 {
    B256::from(<[u8; 32]>::from(Sha256::digest(secret)))
}

/// The key of an authorization code's record.
pub(super) fn code_key(code: &str) -> RecordKey {
    RecordKey { kind: RecordKind::AuthorizationCode, id: hash_of(code) }
}

/// The key of a browser session's record.
pub(super) fn session_key(secret: &str) -> RecordKey {
    RecordKey { kind: RecordKind::BrowserSession, id: hash_of(secret) }
}

/// The key of an access token's record.
pub(super) fn token_key(token_hash: B256) -> RecordKey {
    RecordKey { kind: RecordKind::AccessToken, id: token_hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_id_has_exactly_one_text() {
        let id = TransactionId([0xab; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(TransactionId::of_key(&id.key()), id);
        for text in ["", "ab", &"AB".repeat(16), &"ab".repeat(17), &format!("+{}", "a".repeat(31)), &"é".repeat(16)] {
            assert_eq!(text.parse::<TransactionId>(), Err(InvalidTransactionId), "{text:?}");
        }
    }
}
