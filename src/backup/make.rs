//! Makes a backup of a running daemon.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selfsame_actors::KeyCipher;
use selfsame_protocol::B256;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{NoProgress, Progress, SCHEMA_VERSION, Store};

use super::folder::{UnfinishedFolder, check_target, copy, digest, list, make_private};
use super::manifest::{MANIFEST, Manifest};
use super::{BackupError, ByteCount, LOOK_CACHE, OTHER_FILES, STORE, at};
use crate::durable_fs::{make_file, parent_dir, sync_folder};

/// What is backed up.
#[derive(Clone)]
pub struct Original {
    /// The store, which others use meanwhile.
    pub store: Store,
    /// The data folder, which has the other files.
    pub data: PathBuf,
    /// The key that encrypts the signing keys, which authenticates backups; `None` without one.
    pub key: Option<Arc<KeyCipher>>,
}

/// Checks that a backup can be made in `target`, which is missing or empty.
pub fn check(original: &Original, target: &Path) -> Result<(), BackupError> {
    let refused = |problem: String| Err(BackupError::Target { path: target.to_owned(), problem });
    if !target.is_absolute() {
        return refused("it must be an absolute path on the daemon's machine".to_owned());
    }
    check_target(target)?;
    let (parent, store) = (parent_dir(target), original.data.join(STORE));
    let parent = parent.canonicalize().map_err(at(parent))?;
    if parent.starts_with(store.canonicalize().map_err(at(&store))?) {
        return refused("it is inside the store; name a folder elsewhere, best on another disk".to_owned());
    }
    Ok(())
}

/// What a copy is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A backup.
    Backup,
    /// The data folder of another replica of the cluster.
    Replica,
}

/// Makes a backup in `target`, which is missing or empty. Everything that was acknowledged before
/// the call is in it. When this fails or the process ends, `target` is as it was. Blocks the
/// thread; `progress` can end it early.
pub fn make(
    original: &Original,
    target: &Path,
    now: UnixSeconds,
    progress: &dyn Progress,
) -> Result<Manifest, BackupError> {
    copy_data(original, target, now, progress, Purpose::Backup)
}

/// Makes a copy that another replica of the cluster begins with. It is like a backup, but for the
/// mark that keeps a daemon from starting on it: what the copy lacks, the replica gets from the
/// journal.
pub fn make_for_replica(
    original: &Original,
    target: &Path,
    now: UnixSeconds,
    progress: &dyn Progress,
) -> Result<Manifest, BackupError> {
    copy_data(original, target, now, progress, Purpose::Replica)
}

fn copy_data(
    original: &Original,
    target: &Path,
    now: UnixSeconds,
    progress: &dyn Progress,
    purpose: Purpose,
) -> Result<Manifest, BackupError> {
    check(original, target)?;
    let unfinished = UnfinishedFolder::make(target)?;
    let folder = unfinished.path();
    let store = folder.join(STORE);
    original.store.checkpoint(&store)?;
    make_private(&store)?;
    for name in OTHER_FILES {
        let (from, to) = (original.data.join(name), folder.join(name));
        if from.is_file() {
            // A few bytes, which are counted with the others below.
            copy(&from, &to, &ByteCount::new(&NoProgress, "", 0))?;
        }
    }
    // What the copy holds is read from the copy: the daemon goes on meanwhile. The mark keeps a
    // daemon from a copy that is taken out of the backup without a restore.
    let summary = match purpose {
        Purpose::Backup => Store::mark_as_copy(&store, LOOK_CACHE, now)?,
        Purpose::Replica => Store::open_read_only(&store, LOOK_CACHE)?.summary()?,
    };
    let mut manifest = Manifest {
        format: 0,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        schema_version: SCHEMA_VERSION,
        chain_id: summary.domain.chain_id,
        verifying_contract: summary.domain.verifying_contract,
        ledger_height: summary.head.height,
        last_block_hash: summary.head.hash,
        applied_height: summary.applied_height,
        made_at: time_text(now),
        files: Default::default(),
        digest: B256::ZERO,
        mac: None,
    };
    let files = list(folder)?.files;
    let count = ByteCount::new(progress, "computing digests", files.values().sum());
    for name in files.into_keys() {
        let path = folder.join(&name);
        manifest.files.insert(name, digest(&path, &count)?);
        // RocksDB does not sync the applied blocks at the end of a log, and the copy may have them.
        File::open(&path).and_then(|file| file.sync_all()).map_err(at(&path))?;
    }
    sync_folder(&store).map_err(at(&store))?;
    let mut manifest = manifest.sealed();
    // A replica gets its copy over the cluster interface, from a replica that has shown who it is.
    if let (Some(key), Purpose::Backup) = (&original.key, purpose) {
        manifest = manifest.authenticated(key);
    }
    let path = folder.join(MANIFEST);
    let text = manifest.text().map_err(|error| at(&path)(error.into()))?;
    make_file(&path, &text).map_err(at(&path))?;
    fault_point!(BackupManifest);
    unfinished.finish()?;
    Ok(manifest)
}

/// A time as RFC 3339 text.
pub fn time_text(time: UnixSeconds) -> String {
    let time = std::time::UNIX_EPOCH.checked_add(time.since_epoch()).unwrap_or(std::time::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}
