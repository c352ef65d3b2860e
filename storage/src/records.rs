//! Records that live for a time: what sign-in remembers.
//!
//! A small interface on purpose (get, compare and write, expire), so that it can be kept elsewhere later. The embedded
//! implementation is two column families: the records, and when each expires.

use std::sync::mpsc::channel;

use selfsame_protocol::B256;
use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, Encoding};

use crate::database::{Changes, Read, Store};
use crate::error::StoreError;
use crate::family;
use crate::group_commit::{Conditions, Decided, GroupCommit};

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

/// A write: the record as it was read, and as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    pub key: RecordKey,
    /// `None`: there is none.
    pub before: Option<StoredRecord>,
    /// `None` deletes.
    pub after: Option<StoredRecord>,
}

/// Records that live for a time.
pub trait Records: Send + Sync + 'static {
    /// A record, also when it has expired and is not swept yet.
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError>;

    /// Writes all of these if every record is still as it was read, durably, or none of them.
    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: Decided);

    /// Deletes records that expired before `time` (Unix seconds), at most `limit`, and reads no others. Returns how many it
    /// found; they are deleted when this returns. Blocks the thread.
    fn expire(&self, time: u64, limit: usize) -> Result<usize, StoreError>;
}

/// Records in the local store.
#[derive(Clone)]
pub struct EmbeddedRecords {
    store: Store,
    group_commit: GroupCommit,
}

impl EmbeddedRecords {
    /// Records in `store`, written by its committing thread.
    pub fn new(store: Store, group_commit: GroupCommit) -> Self {
        Self { store, group_commit }
    }
}

impl Records for EmbeddedRecords {
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        self.store.database().get(&family::RECORDS, key)
    }

    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: Decided) {
        let (mut conditions, mut changes) = (Conditions::default(), Changes::default());
        for RecordWrite { key, before, after } in &writes {
            conditions.expect(&family::RECORDS, key, before.as_ref());
            if let Some(before) = before {
                changes.delete(&family::RECORD_EXPIRIES, &(before.expires_at, *key));
            }
            match after {
                Some(after) => {
                    changes.put(&family::RECORDS, key, after);
                    changes.put(&family::RECORD_EXPIRIES, &(after.expires_at, *key), &());
                }
                None => changes.delete(&family::RECORDS, key),
            }
        }
        self.group_commit.commit_if(conditions, changes, decided);
    }

    fn expire(&self, time: u64, limit: usize) -> Result<usize, StoreError> {
        let (mut found, mut handed_in) = (0, 0);
        let (told, decisions) = channel();
        for expiry in self.store.database().records(&family::RECORD_EXPIRIES)?.take(limit) {
            let ((expires_at, key), ()) = expiry?;
            if expires_at >= time {
                break;
            }
            found += 1;
            // Each alone: one that is written in this moment stays, and holds up nobody else's end.
            let before = self.get(&key)?;
            if before.as_ref().is_none_or(|before| before.expires_at != expires_at) {
                // It was written again since we began to look, and expires another time.
                continue;
            }
            handed_in += 1;
            let told = told.clone();
            let decided = Box::new(move |decision| drop(told.send(decision)));
            self.compare_and_write(vec![RecordWrite { key, before, after: None }], decided);
        }
        drop(told);
        // Who looks again before they are gone would find them again.
        let decisions = decisions.into_iter().collect::<Result<Vec<_>, _>>()?;
        if decisions.len() == handed_in { Ok(found) } else { Err(StoreError::Closing) }
    }
}
