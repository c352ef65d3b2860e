//! The records that live for a time: their kinds, keys and kept form.

use selfsame_protocol::encoding::{DecodeError, Encoding};
use selfsame_protocol::{B256, encode_fields};

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

impl Encoding for RecordKind {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Transaction => 0,
            Self::AuthorizationCode => 1,
            Self::AccessToken => 2,
            Self::BrowserSession => 3,
            Self::SigningKeys => 4,
        });
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match u8::decode(input)? {
            0 => Self::Transaction,
            1 => Self::AuthorizationCode,
            2 => Self::AccessToken,
            3 => Self::BrowserSession,
            4 => Self::SigningKeys,
            tag => return Err(DecodeError::UnknownTag { kind: "a kind of record", tag }),
        })
    }
}

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
