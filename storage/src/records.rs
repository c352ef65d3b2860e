//! Records with an expiry: sign-in's transactions, codes, tokens, sessions and signing keys, and
//! the registry's key.
//!
//! The interface is small on purpose (get, compare and write, expire), so that an embedder can keep
//! the records in another store. The embedded implementation has two column families: the records,
//! and their expiries.

use std::sync::mpsc::channel;

use crate::database::{Changes, RecordSource};
use crate::error::StoreError;
use crate::group_commit::{Conditions, GroupCommit, OnDecided};
use crate::schema::family;
use crate::schema::records::{RecordKey, StoredRecord};
use crate::store::Store;
use selfsame_protocol::time::UnixSeconds;

/// A write of one record: the record as the caller read it, and its new form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    /// The record that is written.
    pub key: RecordKey,
    /// The record as it was read; `None` when there was no such record.
    pub before: Option<StoredRecord>,
    /// The new record; `None` deletes.
    pub after: Option<StoredRecord>,
}

/// A store of records with an expiry.
///
/// What sign-in promises rests on this contract: a code is redeemed once, of two racing steps one
/// succeeds, and nothing that was answered is lost. An implementation reports its own failures as
/// [`StoreError::Records`].
pub trait Records: Send + Sync + 'static {
    /// A record, even when it has expired and is not deleted yet. May block the thread for as long
    /// as a read of a local disk takes: it is also called on threads that run async code.
    ///
    /// Every write is seen whose `decided` has got [`Decision::Written`](crate::Decision::Written),
    /// by whichever caller it was.
    fn get(&self, key: &RecordKey) -> Result<Option<StoredRecord>, StoreError>;

    /// Writes all of `writes` if every record is still as it was read; otherwise writes none of
    /// them. Both the comparison and the write are one step, which no other write comes between.
    /// Returns without waiting for the outcome.
    ///
    /// `decided` is called once, on any thread, also before this returns:
    /// - with `Written` when the writes are durable, so that a crash or a loss of power after it
    ///   loses none of them;
    /// - with `Changed` when a record differs from `before`. Nothing was written;
    /// - with an error when it is unknown whether they were written. Later reads show it.
    ///
    /// Writes that one thread hands in are decided in the order in which it handed them in. A
    /// `decided` that is dropped without a call counts as [`StoreError::Closing`].
    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided);

    /// Whether this store decides what is written. While another replica leads it does not: every
    /// write is refused, and that replica deletes what has expired.
    fn leads(&self) -> bool {
        true
    }

    /// Deletes at most `limit` records that expired before `time` (exclusive), and reads no others.
    /// Returns how many it found; they are deleted when this returns, except those that were
    /// written again. Blocks the thread.
    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError>;
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

    fn compare_and_write(&self, writes: Vec<RecordWrite>, decided: OnDecided) {
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

    fn leads(&self) -> bool {
        self.group_commit.leads()
    }

    fn expire(&self, time: UnixSeconds, limit: usize) -> Result<usize, StoreError> {
        let (mut found, mut handed_in) = (0, 0);
        let (sender, decisions) = channel();
        for expiry in self.store.database().records(&family::RECORD_EXPIRIES)?.take(limit) {
            let ((expires_at, key), ()) = expiry?;
            if expires_at >= time {
                break;
            }
            found += 1;
            // One compare-and-write per record: a concurrent write of a record spares only that
            // record.
            let before = self.get(&key)?;
            if before.as_ref().is_none_or(|before| before.expires_at != expires_at) {
                // The record was written again after the iterator was made, and has another expiry.
                continue;
            }
            handed_in += 1;
            let sender = sender.clone();
            let decided = Box::new(move |decision| drop(sender.send(decision)));
            self.compare_and_write(vec![RecordWrite { key, before, after: None }], decided);
        }
        drop(sender);
        // Wait for the deletions: the caller's next call would find the same records otherwise.
        let decisions = decisions.into_iter().collect::<Result<Vec<_>, _>>()?;
        if decisions.len() == handed_in { Ok(found) } else { Err(StoreError::Closing) }
    }
}
