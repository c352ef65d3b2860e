//! Errors of the store.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use selfsame_protocol::Address;
use selfsame_protocol::encoding::DecodeError;
use selfsame_protocol::time::UnixSeconds;

use crate::journal::ReplicaError;
use crate::schema::family::{Layout, REBUILT};
use crate::schema::records::Restoration;

/// An error of the store. Cloneable, because one failed group commit answers many requests.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// RocksDB refused: the disk is full, a file is damaged, a permission is missing.
    #[error("the database failed: {0}")]
    Database(#[from] rocksdb::Error),
    /// A read that may not wait for the disk found that it would have to; see
    /// [`crate::Snapshot::in_memory`].
    #[error("the record is not in memory")]
    NotInMemory,
    /// The store could not be opened.
    #[error("cannot open the store in {}: {reason}{}", path.display(), open_remedy(reason))]
    Open {
        /// The store's folder.
        path: PathBuf,
        /// RocksDB's error text, or what the check of the store's files found.
        reason: String,
    },
    /// Another process, or this one, has the store open.
    #[error("the store in {} is in use by another process; stop the daemon first", path.display())]
    InUse {
        /// The store's folder.
        path: PathBuf,
    },
    /// Another service of this process runs on the open store.
    #[error(
        "the service `{holder}` runs on this store, so `{service}` is not started on it: stop `{holder}` first and drop its \
         handles, or open another folder for `{service}`"
    )]
    Claimed {
        /// Name of the service that runs.
        holder: String,
        /// Name of the service that was to be started.
        service: String,
    },
    /// The store's folder was removed, renamed or replaced while the store was open.
    #[error(
        "the store's folder {} was removed, renamed or replaced while the service ran; what is written from now on would \
         not be found by the next start. Put the folder back, or restore a backup, and start the service again",
        path.display()
    )]
    Replaced {
        /// The path that the store was opened at.
        path: PathBuf,
    },
    /// The store exists, but nothing was ever written to it.
    #[error("the store in {} is empty: its first start was cut off; start the daemon again", path.display())]
    Empty {
        /// The store's folder.
        path: PathBuf,
    },
    /// A record does not decode.
    #[error("a record of {family} is damaged ({reason}); {}", remedy(family))]
    Damaged {
        /// Name of the record's column family.
        family: &'static str,
        /// Why the bytes of the key or the value do not decode.
        reason: DecodeError,
    },
    /// A record, or another part that the store must have, is missing.
    #[error("{family} lacks {what}; {}", remedy(family))]
    Missing {
        /// Name of the column family that is incomplete.
        family: &'static str,
        /// The missing part; completes "the column family lacks …".
        what: String,
    },
    /// The result of an applied block is missing.
    #[error(
        "the store lacks the result of block {height}, though later blocks were applied; it follows from the blocks: \
         run `selfsame registry rebuild`"
    )]
    Gap {
        /// Height of the block.
        height: u64,
    },
    /// The ledger does not have the last block that was applied. It has lost blocks, or is another
    /// ledger than the one whose blocks were applied.
    #[error(
        "the ledger does not have block {height} as it was applied here: it has lost blocks, or is another ledger; \
         give the service the ledger that its store was made from"
    )]
    LedgerDiverged {
        /// Height of the last applied block.
        height: u64,
    },
    /// A ledger of an embedder failed.
    #[error("the ledger failed: {reason}")]
    Ledger {
        /// Its own error text.
        reason: String,
    },
    /// Records of an embedder failed.
    #[error("the records failed: {reason}")]
    Records {
        /// Their own error text.
        reason: String,
    },
    /// A rebuild of the store was interrupted.
    #[error("the rebuild of the store in {} was interrupted; run `selfsame registry rebuild` again", path.display())]
    RebuildInterrupted {
        /// The store's folder, which has no store at present.
        path: PathBuf,
    },
    /// The store cannot be rebuilt from its blocks.
    #[error("the store cannot be rebuilt from its blocks: {reason}; restore it from a backup with `selfsame restore`")]
    NotRebuildable {
        /// What is missing or damaged that does not follow from the blocks.
        reason: String,
    },
    /// Another build of the program wrote the store, and it cannot be migrated.
    #[error(
        "the store has {found}, and this program reads {known} alone; start with an empty data folder, or use the build \
         that wrote the store: until 0.1.0 is released, the format changes without migrations"
    )]
    OtherLayout {
        /// The layout of the store; that to which another build migrates it, when that was
        /// interrupted.
        found: Layout,
        /// [`Layout::PRESENT`] of this program.
        known: Layout,
    },
    /// The store has an older schema, and this way of opening it does not migrate it.
    #[error(
        "the store has schema {found}, and this program reads schema {known}; start the daemon once, which migrates the \
         store"
    )]
    NeedsMigration {
        /// The schema of the store, or the one before a migration that was interrupted.
        found: u32,
        /// [`crate::SCHEMA_VERSION`] of this program.
        known: u32,
    },
    /// The store was restored from a backup, and the operator has not confirmed which blocks
    /// clients have seen.
    #[error(
        "the store in {} was restored on {} from the backup of {}, which ends at block {} ({:#x}), and it is not \
         confirmed which block clients have seen last; run `selfsame restore BACKUP --data DIR --clients-have-seen \
         HEIGHT`, with the same backup and this data folder",
        path.display(),
        time_text(restoration.restored_at),
        time_text(restoration.backup_made_at),
        restoration.height,
        restoration.block_hash
    )]
    Unconfirmed {
        /// The store's folder.
        path: PathBuf,
        /// The mark in the store.
        restoration: Box<Restoration>,
    },
    /// The store was taken out of a backup, and not restored.
    #[error(
        "the store in {} is that of the backup of {}, which ends at block {} ({:#x}), and was not restored; run `selfsame \
         restore BACKUP --data DIR --clients-have-seen HEIGHT`, with the same backup and this data folder, or restore \
         the backup into another one",
        path.display(),
        time_text(restoration.backup_made_at),
        restoration.height,
        restoration.block_hash
    )]
    NotRestored {
        /// The store's folder.
        path: PathBuf,
        /// The mark in the store.
        restoration: Box<Restoration>,
    },
    /// The store belongs to another registry.
    #[error(
        "the store belongs to the registry {stored_contract:#x} on chain {stored_chain_id}, the configuration names \
         {contract:#x} on chain {chain_id}; registry.chain_id and registry.verifying_contract are fixed at the first start"
    )]
    OtherRegistry {
        /// Chain id that the store was created for.
        stored_chain_id: u64,
        /// Contract address that the store was created for.
        stored_contract: Address,
        /// Chain id that the caller opened the store for.
        chain_id: u64,
        /// Contract address that the caller opened the store for.
        contract: Address,
    },
    /// The ledger's next block cannot be applied to this store's registry.
    #[error("block {height} of the ledger is not applied: {reason}")]
    UnfitBlock {
        /// Height of the block.
        height: u64,
        /// What is wrong with the block.
        reason: &'static str,
    },
    /// A block was to be committed to a state that it was not computed from.
    #[error("block {height} was computed on the state after block {computed_on}, the store is at block {applied}")]
    StaleCommit {
        /// Height of the block that was to be committed.
        height: u64,
        /// Height of the block whose state the effects were computed on: `height` - 1.
        computed_on: u64,
        /// Height of the last block that the store has applied.
        applied: u64,
    },
    /// The store is the replica of a journal, and what was wanted of that is not possible.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// A fault was injected; see the module `faults`.
    #[cfg(feature = "fault-injection")]
    #[error("a fault was injected at {point}")]
    Injected {
        /// Name of the fault point, as in `FAILPOINTS`; `the simulation` for a fault that a
        /// simulation injected.
        point: &'static str,
    },
    /// A folder beside the store cannot be made, read or removed.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error text, or what is in the way.
        reason: String,
    },
    /// A disk has too little room for a check; nothing was written.
    #[error(
        "the check makes what follows from the blocks a second time, which needs {needed} bytes in {}, where {free} bytes \
         are free; make room, or name a folder on another disk with --scratch DIR",
        folder.display()
    )]
    NoRoom {
        /// The folder on the disk.
        folder: PathBuf,
        /// Bytes that may be needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A disk has too little room for a copy of the store; nothing was written.
    #[error(
        "a copy of the store needs {needed} bytes in {}, where {free} bytes are free; make room, or name a folder on \
         another disk",
        folder.display()
    )]
    NoRoomForCopy {
        /// The folder on the disk.
        folder: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The threads of a check cannot be started.
    #[error("the threads of the check cannot be started: {0}")]
    Threads(String),
    /// The caller stopped the work.
    #[error("stopped before the end")]
    Stopped,
    /// Work on the store panicked, or ended without saying what came of it. If it was a write, it
    /// is unknown whether the write happened.
    #[error("work on the store panicked; see the log for the place")]
    Panicked,
    /// The thread that commits has ended, or is about to. It was not given the write.
    #[error("the store is closing")]
    Closing,
}

/// Why a block was not appended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another block was appended first; the caller continues from the new head.
    #[error("block {found} does not follow block {head}, the ledger's last")]
    NotNext {
        /// Height of the block that was to be appended. It is `head` + 1 when only the block's
        /// previous hash differs from the head's hash.
        found: u64,
        /// Height of the ledger's last block; 0 while the ledger is empty.
        head: u64,
    },
    /// The header names another registry than that of the ledger.
    #[error("block {height} belongs to another registry: its header names another chain or contract")]
    OtherRegistry {
        /// Height of the block that was to be appended.
        height: u64,
    },
    /// The ledger's own store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The operating system's text for `ENOSPC`.
pub(crate) const DISK_IS_FULL: &str = "No space left on device";

/// The operating system's text for `EDQUOT`.
const QUOTA_IS_USED_UP: &str = "Disk quota exceeded";

/// What an operator can do about an error of the disk; empty for another error.
fn open_remedy(reason: &str) -> &'static str {
    if reason.contains(QUOTA_IS_USED_UP) {
        "; the quota of the daemon's user or folder is used up, though the disk may have room: raise the quota, or remove \
         files that count in it"
    } else if reason.contains(DISK_IS_FULL) {
        "; the disk is full, or has no inodes left (`df -h` and `df -i` show which): make room"
    } else if reason.contains("While fsync: a directory: Invalid argument") {
        "; the file system has no fsync of a folder, which the store needs: put it on another file system"
    } else {
        ""
    }
}

/// What an operator can do about a damaged family.
fn remedy(family: &str) -> &'static str {
    match REBUILT.contains(&family) {
        true => "it follows from the blocks: stop the daemon and run `selfsame registry rebuild`",
        false => "check the store with `selfsame registry fsck`",
    }
}

fn time_text(time: UnixSeconds) -> humantime::Rfc3339Timestamp {
    // A damaged record may have a time that no text can show.
    let time = UNIX_EPOCH.checked_add(time.since_epoch()).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time)
}

impl StoreError {
    /// RocksDB's text, which is all that it gives of the operating system's reason.
    pub(crate) fn database_text(&self) -> Option<&str> {
        match self {
            Self::Database(error) => Some(error.as_ref()),
            Self::Open { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Whether the disk is full, or a quota is used up.
    pub fn is_out_of_space(&self) -> bool {
        self.database_text().is_some_and(|text| text.contains(DISK_IS_FULL) || text.contains(QUOTA_IS_USED_UP))
    }

    /// Whether a retry may help: the cause is not known to lie in the stored data.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => error.kind() != rocksdb::ErrorKind::Corruption,
            Self::Panicked | Self::Closing | Self::Ledger { .. } | Self::Records { .. } => true,
            Self::Replica(error) => error.is_transient(),
            #[cfg(feature = "fault-injection")]
            Self::Injected { .. } => true,
            _ => false,
        }
    }
}
