//! The records with an expiry: their kinds, keys and stored form.

use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::{B256, encode_enum, encode_fields};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// An authorization request that waits for the end user, or has been answered.
    Transaction,
    /// An authorization code, by its hash.
    AuthorizationCode,
    /// An access token, by its hash.
    AccessToken,
    /// A browser's session, by the hash of its cookie.
    BrowserSession,
    /// The keys that ID tokens are signed with.
    SigningKeys,
    /// The key that the heads of the registry are signed with.
    RegistryKey,
    /// A nonce that a relying party signed and that was used, by the hash of its application and
    /// itself. Its value is empty.
    SignedNonce,
    /// A proof of a session that receivers of events were told of. Its value is empty.
    ToldSessionProof,
}

encode_enum!(RecordKind {
    Transaction = 0,
    AuthorizationCode = 1,
    AccessToken = 2,
    BrowserSession = 3,
    SigningKeys = 4,
    RegistryKey = 5,
    SignedNonce = 6,
    ToldSessionProof = 7,
} of "a kind of record");

/// Key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Id of the record among those of its kind: for secrets, their hash.
    pub id: B256,
}

encode_fields!(RecordKey { kind, id });

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// From this time on (inclusive), readers treat the record as absent.
    pub expires_at: UnixSeconds,
    /// The record's encoding, which its writer defines.
    pub value: Vec<u8>,
}

encode_fields!(StoredRecord { expires_at, value });
