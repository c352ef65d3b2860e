//! Makes a backup of a running daemon, in a folder that gets its name when it is complete.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use selfsame_actors::KeyCipher;
use selfsame_interfaces::operator::time_text;
use selfsame_protocol::B256;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{NoProgress, Progress, SCHEMA_VERSION, Store};
use sha2::{Digest, Sha256};

use super::{BackupError, ByteCount, FileDigest, LOOK_CACHE, MANIFEST, Manifest, OTHER_FILES, STORE, at};
use crate::data_files::{self, make_file, parent_dir, sync_folder};

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

// Folders that get their name when they are complete, and the files in them.

/// What the name of an unfinished folder ends with.
pub const UNFINISHED: &str = ".unfinished";

/// Bytes that are read or copied at a time.
const CHUNK: usize = 1 << 20;

/// A folder under a temporary name beside its target. Dropped before [`UnfinishedFolder::finish`],
/// it is removed.
pub struct UnfinishedFolder {
    path: PathBuf,
    target: PathBuf,
    /// Held as long as this process fills the folder, so that no other process removes it.
    lock: Option<File>,
}

impl UnfinishedFolder {
    /// Makes the folder for a target. An earlier one that its process left is removed first.
    ///
    /// # Errors
    /// [`BackupError::Target`] when the target is not a missing or empty folder in a folder that
    /// exists, or when another process fills it.
    pub fn make(target: &Path) -> Result<Self, BackupError> {
        check_target(target)?;
        let path = unfinished(target);
        remove_unfinished(&path)?;
        DirBuilder::new().mode(0o700).create(&path).map_err(at(&path))?;
        let lock = lock(&path)?;
        Ok(Self { path, target: target.to_owned(), lock: Some(lock) })
    }

    /// The folder's present path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder's content durable and gives it its name. The files in it are durable
    /// already.
    pub fn finish(mut self) -> Result<(), BackupError> {
        sync_folder(&self.path).map_err(at(&self.path))?;
        // This replaces an empty folder, and fails when something was put there meanwhile.
        std::fs::rename(&self.path, &self.target).map_err(at(&self.target))?;
        self.lock = None;
        let parent = parent_dir(&self.target);
        sync_folder(parent).map_err(at(parent))
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if self.lock.is_some()
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "an unfinished folder cannot be removed");
        }
    }
}

/// The temporary name of a folder.
fn unfinished(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(UNFINISHED);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<File, BackupError> {
    let folder = File::open(path).map_err(at(path))?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::WouldBlock) => {
            Err(refused(path, "another process is filling it; wait until it has ended".to_owned()))
        }
        // Some network file systems cannot lock a folder. The lock only keeps two processes from
        // filling the same folder at once.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the folder cannot be locked");
            Ok(folder)
        }
    }
}

fn refused(path: &Path, problem: String) -> BackupError {
    BackupError::Target { path: path.to_owned(), problem }
}

/// Checks that a folder can be made at a path: it is missing or empty, and its parent exists.
pub fn check_target(target: &Path) -> Result<(), BackupError> {
    let refused = |problem: &str| Err(refused(target, problem.to_owned()));
    let Some(name) = target.file_name() else { return refused("it has no name; name a folder that does not exist") };
    if name.to_string_lossy().ends_with(UNFINISHED) {
        return refused("names that end with .unfinished are for folders that are not complete");
    }
    if !parent_dir(target).is_dir() {
        return refused("the folder that it is to be made in does not exist; make that one first");
    }
    match std::fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(at(target)(error)),
        Ok(found) if !found.is_dir() => refused("there is something that is not a folder; name another one"),
        Ok(_) => match std::fs::read_dir(target).map_err(at(target))?.next() {
            None => Ok(()),
            Some(_) => refused("it is not empty; name a folder that is missing or empty"),
        },
    }
}

/// Removes an unfinished folder that its process left. Leaves anything else alone.
///
/// # Errors
/// [`BackupError::Target`] when a process fills the folder, or when it has something that backups
/// and restores do not make.
pub fn remove_unfinished(path: &Path) -> Result<(), BackupError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(path)(error)),
        Ok(found) if !found.is_dir() => return Err(refused(path, "it is in the way; remove it".to_owned())),
        Ok(_) => {}
    }
    let _lock = lock(path)?;
    for entry in std::fs::read_dir(path).map_err(at(path))? {
        let name = entry.map_err(at(path))?.file_name();
        if !is_own_name(&name) {
            let problem = format!("it is in the way, and has {name:?}, which no backup has; remove it");
            return Err(refused(path, problem));
        }
    }
    std::fs::remove_dir_all(path).map_err(at(path))
}

/// Whether a name is one of a file or folder that a backup or a restore makes.
fn is_own_name(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    // `store.tmp` is RocksDB's, while it makes a copy.
    let name = name.strip_suffix(UNFINISHED).unwrap_or(&name);
    OTHER_FILES.contains(&name) || [STORE, "store.tmp", MANIFEST].contains(&name)
}

/// Reads a file in small pieces; each goes to `use_piece`. Returns its length and hash.
fn read_in_pieces(
    path: &Path,
    count: &ByteCount<'_>,
    mut use_piece: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<FileDigest, BackupError> {
    let mut file = File::open(path).map_err(at(path))?;
    let mut piece = vec![0; CHUNK];
    let (mut size, mut hash) = (0, Sha256::new());
    loop {
        let length = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(at(path))?,
        };
        if length == 0 {
            return Ok(FileDigest { size, sha256: B256::from_slice(&hash.finalize()) });
        }
        count.add(length as u64)?;
        size += length as u64;
        hash.update(&piece[..length]);
        use_piece(&piece[..length])?;
    }
}

/// Length and hash of a file.
pub(super) fn digest(path: &Path, count: &ByteCount<'_>) -> Result<FileDigest, BackupError> {
    read_in_pieces(path, count, |_| Ok(()))
}

/// Copies a file to a new one with mode 0600, and makes its content durable. Returns length and
/// hash of what was copied.
pub(super) fn copy(from: &Path, to: &Path, count: &ByteCount<'_>) -> Result<FileDigest, BackupError> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(at(to))?;
    let copied = read_in_pieces(from, count, |piece| copy.write_all(piece).map_err(at(to)))?;
    copy.sync_all().map_err(at(to))?;
    Ok(copied)
}

/// Makes a folder's mode 0700.
pub fn make_private(path: &Path) -> Result<(), BackupError> {
    data_files::make_private(path).map_err(at(path))
}

/// What is in a folder.
#[derive(Default)]
pub struct Listing {
    /// The files with their lengths in bytes, by their paths below the folder.
    pub files: BTreeMap<String, u64>,
    /// The paths of what is neither a file nor a folder, such as symbolic links.
    pub others: Vec<String>,
}

/// Lists the files below a folder. Does not follow symbolic links.
pub fn list(folder: &Path) -> Result<Listing, BackupError> {
    let mut listing = Listing::default();
    add_entries(folder, "", &mut listing)?;
    listing.others.sort();
    Ok(listing)
}

fn add_entries(folder: &Path, prefix: &str, listing: &mut Listing) -> Result<(), BackupError> {
    for entry in std::fs::read_dir(folder).map_err(at(folder))? {
        let entry = entry.map_err(at(folder))?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        let found = std::fs::symlink_metadata(&path).map_err(at(&path))?;
        if found.is_dir() {
            add_entries(&path, &format!("{name}/"), listing)?;
        } else if found.is_file() {
            listing.files.insert(name, found.len());
        } else {
            listing.others.push(name);
        }
    }
    Ok(())
}
