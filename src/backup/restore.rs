//! Checks a backup, and makes a data folder from it.
//!
//! A restored registry has forgotten what was acknowledged after the backup was made. It would give
//! out leaf indexes again and accept nullifiers a second time, silently. So the restored store
//! carries a mark, and a daemon does not start on it before the operator has said which block
//! clients have seen last. When the backup lacks that block, the operator has to accept the loss in
//! words.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use selfsame_actors::{KeyCipher, revoke_stored_keys};
use selfsame_protocol::B256;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{
    Confirmation, EmbeddedLedger, LedgerReader, Progress, Restoration, SCHEMA_VERSION, Store, StoreError, StoreSummary,
    fsck,
};

use super::make::{UnfinishedFolder, check_target, copy, digest, list};
use super::{BackupError, ByteCount, LOOK_CACHE, MANIFEST, Manifest, STORE, at};
use crate::data_files::{make_folder, sync_folder};

// Compares a backup with its manifest, without changing it.

/// What a check of a backup found.
#[derive(Debug, Default)]
pub struct Verification {
    /// The manifest; `None` when it cannot be used.
    pub manifest: Option<Manifest>,
    /// What is wrong, one text each; empty for a good backup.
    pub problems: Vec<String>,
}

/// Checks that a daemon with `key` has made the backup, if a key is given. Compares every file of a
/// backup with its manifest, opens the store of the backup for reading,
/// and compares what it holds with the manifest. Changes nothing. Blocks the thread.
///
/// # Errors
/// [`BackupError::Stopped`]; everything else is a problem of the backup.
pub fn verify(folder: &Path, key: Option<&KeyCipher>, progress: &dyn Progress) -> Result<Verification, BackupError> {
    let mut found = Verification::default();
    let manifest = match Manifest::read(folder) {
        Ok(manifest) => manifest,
        Err(error) => {
            found.problems.push(error.to_string());
            return Ok(found);
        }
    };
    if let Some(Err(error)) = key.map(|key| manifest.check_genuine(key)) {
        found.problems.push(error.to_string());
    }
    match compare_files(folder, &manifest, progress, &mut found.problems) {
        Err(BackupError::Stopped) => return Err(BackupError::Stopped),
        Err(error) => found.problems.push(error.to_string()),
        Ok(()) => {}
    }
    if manifest.schema_version != SCHEMA_VERSION {
        found.problems.push(format!(
            "the store of the backup has schema {}, and this program reads schema {SCHEMA_VERSION}; use the build of \
             selfsame {} that made it",
            manifest.schema_version, manifest.program_version
        ));
    }
    // RocksDB is not given files that are not those of the backup.
    if found.problems.is_empty() {
        match Store::open_read_only(&folder.join(STORE), LOOK_CACHE).and_then(|store| store.summary()) {
            Ok(summary) => compare_summary(&manifest, &summary, &mut found.problems),
            Err(error) => found.problems.push(error.to_string()),
        }
    }
    found.manifest = Some(manifest);
    Ok(found)
}

/// Runs fsck on the store of a backup whose files are those of its manifest. What it rebuilds is in
/// a folder in `scratch` meanwhile.
///
/// # Errors
/// Those of [`fsck`].
pub fn verify_deeply(
    folder: &Path,
    cache: usize,
    scratch: &Path,
    progress: &dyn Progress,
) -> Result<Vec<String>, BackupError> {
    let store = Store::open_read_only(&folder.join(STORE), cache)?;
    Ok(fsck(&store, scratch, progress)?.texts())
}

fn compare_files(
    folder: &Path,
    manifest: &Manifest,
    progress: &dyn Progress,
    problems: &mut Vec<String>,
) -> Result<(), BackupError> {
    let found = list(folder)?;
    let count = ByteCount::new(progress, "comparing files", manifest.total_size());
    for (name, expected) in &manifest.files {
        match found.files.get(name) {
            None => problems.push(format!("{name} is missing")),
            Some(size) if *size != expected.size => {
                problems.push(format!("{name} has {size} bytes, the manifest has {}", expected.size));
            }
            Some(_) => match digest(&folder.join(name), &count) {
                Err(BackupError::Stopped) => return Err(BackupError::Stopped),
                Ok(found) if found == *expected => {}
                Ok(found) => problems.push(format!(
                    "{name} was changed: its SHA-256 is {:x}, the manifest has {:x}",
                    found.sha256, expected.sha256
                )),
                Err(error) => problems.push(error.to_string()),
            },
        }
    }
    let surplus = found.files.keys().filter(|name| *name != MANIFEST && !manifest.files.contains_key(*name));
    problems.extend(surplus.map(|name| format!("{name} is not in the manifest")));
    problems.extend(found.others.iter().map(|name| format!("{name} is neither a file nor a folder")));
    Ok(())
}

fn compare_summary(manifest: &Manifest, summary: &StoreSummary, problems: &mut Vec<String>) {
    let StoreSummary { domain, head, applied_height } = summary;
    let mut compare = |what: &str, found: String, expected: String| {
        if found != expected {
            problems.push(format!("the store of the backup has {what} {found}, the manifest has {expected}"));
        }
    };
    compare("chain id", domain.chain_id.to_string(), manifest.chain_id.to_string());
    let contract = |address| format!("{address:#x}");
    compare("contract", contract(domain.verifying_contract), contract(manifest.verifying_contract));
    compare("ledger height", head.height.to_string(), manifest.ledger_height.to_string());
    compare("last block hash", format!("{:#x}", head.hash), format!("{:#x}", manifest.last_block_hash));
    compare("applied height", applied_height.to_string(), manifest.applied_height.to_string());
}

/// The last block that clients have seen, as an operator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenBlock {
    /// By its height; 0 when clients have seen none.
    Height(u64),
    /// By its hash.
    Hash(B256),
}

impl FromStr for SeenBlock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_prefix("0x") {
            Some(_) => text.parse().ok().map(Self::Hash),
            None => text.parse().ok().filter(|_| !text.starts_with('+')).map(Self::Height),
        };
        parsed.ok_or_else(|| "neither a height, such as 12, nor a block hash: 0x and 64 hex digits".to_owned())
    }
}

/// What the operator says about a restore.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statement {
    /// The last block that clients have seen; `None` to say it later.
    pub clients_have_seen: Option<SeenBlock>,
    /// Whether blocks that clients have seen may be lost.
    pub accepts_loss: bool,
}

/// Why a data folder is not made from a backup.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A folder or a file cannot be used, or the backup cannot be read.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The backup is damaged or incomplete.
    #[error("the backup in {} is not restored, because it is not as it was made:\n{}", backup.display(), problems.join("\n"))]
    Damaged {
        /// The backup's folder.
        backup: PathBuf,
        /// What is wrong.
        problems: Vec<String>,
    },
    /// Clients have seen blocks that the backup lacks.
    #[error(
        "clients have seen {seen}, and the backup ends at block {height} ({block_hash:#x}). Of the blocks that are missing: \
         accounts made in them lose their leaf indexes, which the registry gives to other accounts; an authenticator \
         that was removed in them is valid again; operations in them can be sent again. Nullifiers used since the backup \
         are accepted a second time. Look for a later backup. To lose all this: --accept-loss"
    )]
    WouldLose {
        /// The block that clients have seen, as the operator named it.
        seen: String,
        /// Height of the backup's last block.
        height: u64,
        /// Its hash.
        block_hash: B256,
    },
    /// The target has a data folder that was not restored from this backup, or is confirmed.
    #[error("{} is not confirmed: {problem}", data.display())]
    NotConfirmable {
        /// The data folder.
        data: PathBuf,
        /// Why, and what would be right.
        problem: String,
    },
}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        Self::Backup(error.into())
    }
}

/// What a restore did.
#[derive(Debug)]
pub struct Restored {
    /// The manifest of the backup.
    pub manifest: Manifest,
    /// The mark in the restored store.
    pub mark: Restoration,
    /// Whether the data folder was made now; `false` when it was there, and only confirmed.
    pub is_new: bool,
}

/// Makes the data folder `data`, which is missing or empty, from a backup. When `data` was made
/// from the same backup and is not confirmed, only confirms it. With `key`, only a backup that a
/// daemon with this key has made. When this fails or the process
/// ends, `data` is as it was. Blocks the thread.
pub fn restore(
    backup: &Path,
    data: &Path,
    statement: Statement,
    key: Option<&KeyCipher>,
    now: UnixSeconds,
    progress: &dyn Progress,
) -> Result<Restored, RestoreError> {
    if statement.clients_have_seen.is_some() && data.join(STORE).is_dir() {
        return confirm(backup, data, statement, key, now);
    }
    check_target(data)?;
    let verification = verify(backup, key, progress)?;
    let manifest = match verification.manifest {
        Some(manifest) if verification.problems.is_empty() => manifest,
        _ => return Err(RestoreError::Damaged { backup: backup.to_owned(), problems: verification.problems }),
    };
    let confirmation = {
        let store = Store::open_read_only(&backup.join(STORE), LOOK_CACHE)?;
        confirmation(&store, &manifest, statement, now)?
    };
    let mark = Restoration {
        backup: manifest.digest,
        backup_made_at: parse_time(&manifest.made_at),
        height: manifest.ledger_height,
        block_hash: manifest.last_block_hash,
        restored_at: now,
        confirmation,
    };
    let unfinished = UnfinishedFolder::make(data)?;
    copy_files(backup, &manifest, unfinished.path(), progress)?;
    fault_point!(RestoreCopied);
    make_restored(&unfinished.path().join(STORE), &mark, now)?;
    fault_point!(RestoreMarked);
    unfinished.finish()?;
    Ok(Restored { manifest, mark, is_new: true })
}

/// Copies every file of a backup, and compares what was copied with the manifest.
fn copy_files(backup: &Path, manifest: &Manifest, folder: &Path, progress: &dyn Progress) -> Result<(), RestoreError> {
    let count = ByteCount::new(progress, "copying files", manifest.total_size());
    let store = folder.join(STORE);
    make_folder(&store).map_err(at(&store))?;
    for (name, expected) in &manifest.files {
        let to = folder.join(name);
        if let Some(parent) = to.parent() {
            make_folder(parent).map_err(at(parent))?;
        }
        if copy(&backup.join(name), &to, &count)? != *expected {
            let problems = vec![format!("{name} was changed while it was copied")];
            return Err(RestoreError::Damaged { backup: backup.to_owned(), problems });
        }
    }
    Ok(sync_folder(&store).map_err(at(&store))?)
}

/// Marks the copy of a store, and takes away what must not be used again: the copy does not know
/// which codes were redeemed and which keys were revoked since the backup was made.
fn make_restored(path: &Path, mark: &Restoration, now: UnixSeconds) -> Result<(), RestoreError> {
    let store = Store::open_existing(path, LOOK_CACHE)?;
    store.mark_as_restored(mark)?;
    revoke_stored_keys(&store, now, false, false)?;
    drop(store);
    Ok(sync_folder(path).map_err(at(path))?)
}

/// Confirms a data folder that was restored from this backup before. The store of one whose `store`
/// was taken out of the backup is turned into a restored one first.
fn confirm(
    backup: &Path,
    data: &Path,
    statement: Statement,
    key: Option<&KeyCipher>,
    now: UnixSeconds,
) -> Result<Restored, RestoreError> {
    let refused =
        |problem: &str| Err(RestoreError::NotConfirmable { data: data.to_owned(), problem: problem.to_owned() });
    let manifest = Manifest::read(backup).map_err(BackupError::from)?;
    if let Some(Err(error)) = key.map(|key| manifest.check_genuine(key)) {
        return Err(RestoreError::Damaged { backup: backup.to_owned(), problems: vec![error.to_string()] });
    }
    let path = data.join(STORE);
    let mut store = Store::open_existing(&path, LOOK_CACHE)?;
    let mark = match store.restoration()? {
        None => {
            return refused("its store was not restored from a backup; restore into a folder that is missing or empty");
        }
        Some(mark) if mark.is_only_copied() => {
            let expected = (parse_time(&manifest.made_at), manifest.ledger_height, manifest.last_block_hash);
            if (mark.backup_made_at, mark.height, mark.block_hash) != expected {
                return refused("its store was taken out of another backup");
            }
            // A statement that is refused changes nothing.
            confirmation(&store, &manifest, statement, now)?;
            let mark = Restoration { backup: manifest.digest, restored_at: now, ..mark };
            drop(store);
            make_restored(&path, &mark, now)?;
            store = Store::open_existing(&path, LOOK_CACHE)?;
            mark
        }
        Some(mark) if mark.backup != manifest.digest => return refused("its store was restored from another backup"),
        Some(mark) if mark.confirmation.is_some() => return refused("it is confirmed already; start the daemon"),
        Some(mark) => mark,
    };
    let confirmation = confirmation(&store, &manifest, statement, now)?;
    if let Some(confirmation) = confirmation {
        store.confirm_restoration(confirmation)?;
    }
    Ok(Restored { manifest, mark: Restoration { confirmation, ..mark }, is_new: false })
}

/// What the operator's statement means for a store with the blocks of the backup; `None` when the
/// operator says nothing.
fn confirmation(
    store: &Store,
    manifest: &Manifest,
    statement: Statement,
    now: UnixSeconds,
) -> Result<Option<Confirmation>, RestoreError> {
    let Some(seen) = statement.clients_have_seen else { return Ok(None) };
    let (height, text) = match seen {
        SeenBlock::Height(height) => (Some(height), format!("block {height}")),
        SeenBlock::Hash(hash) if hash == manifest.last_block_hash => (Some(manifest.ledger_height), String::new()),
        SeenBlock::Hash(hash) => {
            let ledger = EmbeddedLedger::open(store.clone())?;
            (ledger.height_of(&hash)?, format!("the block {hash:#x}, which it does not have"))
        }
    };
    let is_in_backup = height.is_some_and(|height| height <= manifest.ledger_height);
    if !is_in_backup && !statement.accepts_loss {
        return Err(RestoreError::WouldLose {
            seen: text,
            height: manifest.ledger_height,
            block_hash: manifest.last_block_hash,
        });
    }
    Ok(Some(Confirmation { clients_have_seen: height, is_loss_accepted: !is_in_backup, confirmed_at: now }))
}

/// The time of a manifest; the epoch when its text is not a time, which a manifest with its digest
/// does not have.
fn parse_time(text: &str) -> UnixSeconds {
    let time = humantime::parse_rfc3339(text).ok();
    let since_epoch = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    UnixSeconds(since_epoch.unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seen_block_is_a_height_or_a_hash() {
        let hash = format!("0x{}", "ab".repeat(32));
        assert_eq!(hash.parse(), Ok(SeenBlock::Hash(B256::repeat_byte(0xab))));
        assert_eq!("12".parse(), Ok(SeenBlock::Height(12)));
        for text in ["", "+1", "-1", "0x", "0x12", "1.5", "ab"] {
            assert!(text.parse::<SeenBlock>().is_err(), "{text}");
        }
    }
}
