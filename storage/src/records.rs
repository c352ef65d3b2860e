//! Records that live for a time: what sign-in remembers.
//!
//! A small interface on purpose (get, compare and write, expire), so that it can be kept elsewhere later. The embedded
//! implementation is two column families: the records, and when each expires.

use std::sync::mpsc::channel;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::group_commit::{Conditions, Decided, GroupCommit};
use crate::schema::family;
use crate::schema::records::{RecordKey, StoredRecord};
use crate::store::Store;

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
