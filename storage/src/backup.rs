//! What a backup needs of a store: a copy while others use it, what the copy holds, and the changes
//! without which a restored copy would be dangerous.

use std::path::Path;

use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ledger::Seal;
use selfsame_protocol::time::UnixSeconds;

use crate::database::{Changes, Database, RecordSource};
use crate::error::StoreError;
use crate::facts::{delete_journal, put_restoration};
use crate::schema::family;
use crate::schema::records::{AppliedTip, Confirmation, RecordKind, Restoration};
use crate::store::Store;

/// Records that a restored copy must not keep. Each stands for something that is used once or can
/// be ended; the copy does not know whether that has happened since.
const SIGN_INS: [RecordKind; 5] = [
    RecordKind::Transaction,
    RecordKind::AuthorizationCode,
    RecordKind::AccessToken,
    RecordKind::BrowserSession,
    RecordKind::AccountLink,
];

/// Records that are deleted in one write.
const BATCH: usize = 10_000;

/// What a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSummary {
    /// The registry that the store belongs to.
    pub domain: RegistryDomain,
    /// The last block of the ledger; the default before the first one.
    pub head: Seal,
    /// Height of the last applied block.
    pub applied_height: u64,
}

impl Store {
    /// Makes a copy of the store as it is now in `folder`, which must not exist, while others read
    /// and write: everything that was acknowledged before the call is in it. The copy is a store
    /// of its own. Blocks the thread.
    ///
    /// Files that never change are hard links, or copies when `folder` is on another file system.
    /// A file that changes its content on the disk by itself is damaged in both.
    pub fn checkpoint(&self, folder: &Path) -> Result<(), StoreError> {
        fault_point!(self.fault_scope(), CheckpointBefore);
        self.database().checkpoint(folder)?;
        fault_point!(self.fault_scope(), CheckpointAfter);
        Ok(())
    }

    /// Marks the copy in `folder`, which [`Store::checkpoint`] has made, as that of a backup: a
    /// service does not start on it before it is restored. Returns what the copy holds. Durable
    /// when it returns; changes no file that the copy shares with the store.
    pub fn mark_as_copy(folder: &Path, block_cache: usize, made_at: UnixSeconds) -> Result<StoreSummary, StoreError> {
        let copy = Self::from_existing(Database::open_without_compaction(folder, block_cache)?)?;
        let summary = copy.summary()?;
        let mut changes = Changes::default();
        put_restoration(&mut changes, &Restoration::of_copy(made_at, &summary.head));
        copy.database().write(changes, true)?;
        Ok(summary)
    }

    /// What the store holds.
    pub fn summary(&self) -> Result<StoreSummary, StoreError> {
        let head = self.database().last(&family::BLOCKS)?;
        let applied: AppliedTip = self.database().get(&family::APPLIED, &())?.unwrap_or_default();
        Ok(StoreSummary {
            domain: self.domain(),
            head: head.map_or_else(Seal::default, |(_, block)| Seal::of(&block.header)),
            applied_height: applied.tip.seal.height,
        })
    }

    /// Turns a copy into a restored store: marks it, and deletes what may have been used since the
    /// backup was made (sign-in transactions, authorization codes, access tokens and browser
    /// sessions). Durable when it returns. No other part of the process may use the store.
    ///
    /// The signing keys stay; `revoke_stored_keys` of the actors removes them.
    pub fn mark_as_restored(&self, restoration: &Restoration) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        put_restoration(&mut changes, restoration);
        // A restored store has the past of a replica, and is none: the cluster went on.
        delete_journal(self.database(), &mut changes)?;
        self.database().write(changes, true)?;
        self.delete_sign_ins()
    }

    /// Deletes all sign-ins, open and completed: transactions, authorization codes, access tokens,
    /// browser sessions and one-time links. Durable when it returns. No other part of the process
    /// may use the store.
    pub fn delete_sign_ins(&self) -> Result<(), StoreError> {
        let mut changes = Changes::default();
        let mut waiting = 0;
        for record in self.database().records(&family::RECORDS)? {
            let (key, record) = record?;
            if !SIGN_INS.contains(&key.kind) {
                continue;
            }
            changes.delete(&family::RECORDS, &key);
            changes.delete(&family::RECORD_EXPIRIES, &(record.expires_at, key));
            waiting += 1;
            if waiting == BATCH {
                self.database().write(std::mem::take(&mut changes), false)?;
                waiting = 0;
            }
        }
        self.database().write(changes, true)
    }

    /// Adds the operator's confirmation to the mark of a restored store. Durable when it returns.
    ///
    /// # Errors
    /// [`StoreError::Missing`] when the store was not restored.
    pub fn confirm_restoration(&self, confirmation: Confirmation) -> Result<(), StoreError> {
        let restoration = self.restoration()?.ok_or_else(|| StoreError::Missing {
            family: family::META,
            what: "the mark of a restored store".to_owned(),
        })?;
        let mut changes = Changes::default();
        put_restoration(&mut changes, &Restoration { confirmation: Some(confirmation), ..restoration });
        self.database().write(changes, true)
    }
}
