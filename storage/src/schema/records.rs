//! The records that live for a time: their kinds, keys and kept form.

use selfsame_protocol::{B256, encode_enum, encode_fields};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// An authorization request that waits for a person, or has been answered.
    Transaction,
    /// An authorization code, by its hash.
    AuthorizationCode,
    /// An access token, by its hash.
    AccessToken,
    /// A browser's session, by the hash of its cookie.
    BrowserSession,
    /// The keys that ID tokens are signed with.
    SigningKeys,
}

encode_enum!(RecordKind {
    Transaction = 0,
    AuthorizationCode = 1,
    AccessToken = 2,
    BrowserSession = 3,
    SigningKeys = 4,
} of "a kind of record");

/// Which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    pub kind: RecordKind,
    pub id: B256,
}

encode_fields!(RecordKey { kind, id });

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Unix seconds; the record is as good as absent from then on.
    pub expires_at: u64,
    pub value: Vec<u8>,
}

encode_fields!(StoredRecord { expires_at, value });
