//! Folders for a check's second store, which are removed when the check has ended in any way, and
//! the room that a disk needs before something is written.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// What the names of the folders begin with; the id of the process follows.
const PREFIX: &str = "fsck-";

/// A new folder, which is removed when this is dropped.
pub(crate) struct ScratchFolder {
    path: PathBuf,
    /// Held as long as the folder is in use, so that no other process removes it. The system
    /// releases it when the process is killed.
    _lock: File,
}

impl ScratchFolder {
    /// Makes a folder in `parent`, which has to exist.
    pub(crate) fn make_in(parent: &Path) -> Result<Self, StoreError> {
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map_err(failed(&path))?;
        let lock = File::open(&path).map_err(failed(&path))?;
        // A file system without locks gives an error here; then nobody else removes the folder.
        let _ = lock.try_lock();
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the folder of a check cannot be removed");
        }
    }
}

/// Removes from `parent` the folders of checks whose processes were killed. Leaves a folder alone
/// that a process uses, and one with anything in it that is not RocksDB's.
pub(crate) fn remove_abandoned(parent: &Path) -> Result<(), StoreError> {
    for entry in std::fs::read_dir(parent).map_err(failed(parent))? {
        let entry = entry.map_err(failed(parent))?;
        let path = entry.path();
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_named = id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
        if is_named && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&path) {
            std::fs::remove_dir_all(&path).map_err(failed(&path))?;
            tracing::info!(path = %path.display(), "what a check that was killed had left is removed");
        }
    }
    Ok(())
}

fn is_abandoned(path: &Path) -> bool {
    let Ok(folder) = File::open(path) else { return false };
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return false,
    }
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    entries.into_iter().all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name();
            entry.file_type().is_ok_and(|kind| kind.is_file()) && name.to_str().is_some_and(is_of_database)
        })
    })
}

/// Whether a name is one of a file that RocksDB makes.
fn is_of_database(name: &str) -> bool {
    let begins = ["MANIFEST-", "OPTIONS-", "LOG.old."].iter().any(|start| name.starts_with(start));
    let ends = [".sst", ".log", ".dbtmp"].iter().any(|end| name.ends_with(end));
    begins || ends || ["CURRENT", "IDENTITY", "LOCK", "LOG"].contains(&name)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    |error| {
        let reason = match error.kind() {
            ErrorKind::AlreadyExists => "it is in the way; remove it, or name another folder".to_owned(),
            _ => error.to_string(),
        };
        StoreError::Folder { path: path.to_owned(), reason }
    }
}

// Whether a disk has room for what is about to be written.

/// Checks that the file system of a folder has room for so many bytes, for a process without
/// special rights.
///
/// # Errors
/// [`StoreError::NoRoom`], with both numbers; [`StoreError::Folder`] when the file system cannot
/// be asked.
pub(crate) fn ensure_room(folder: &Path, needed: u64) -> Result<(), StoreError> {
    let found = rustix::fs::statvfs(folder)
        .map_err(|error| StoreError::Folder { path: folder.to_owned(), reason: error.to_string() })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < needed {
        return Err(StoreError::NoRoom { folder: folder.to_owned(), needed, free });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_a_killed_check_left_is_removed() {
        let parent = tempfile::tempdir().expect("a folder for temporary files");
        let left = ["fsck-1", "fsck-2", "fsck-3", "fsck-old", "store"];
        for name in left {
            std::fs::create_dir(parent.path().join(name)).expect("a folder");
            std::fs::write(parent.path().join(name).join("000012.sst"), "x").expect("written");
        }
        // The operator's own file, and a folder that a process uses.
        std::fs::write(parent.path().join("fsck-2/notes"), "x").expect("written");
        let used = File::open(parent.path().join("fsck-3")).expect("opened");
        used.try_lock().expect("locked");
        remove_abandoned(parent.path()).expect("removed");
        assert_eq!(names(parent.path()), ["fsck-2", "fsck-3", "fsck-old", "store"]);
        drop(used);
        remove_abandoned(parent.path()).expect("removed");
        assert_eq!(names(parent.path()), ["fsck-2", "fsck-old", "store"]);
    }

    #[test]
    fn a_folder_is_removed_when_it_is_dropped() {
        let parent = tempfile::tempdir().expect("a folder for temporary files");
        let scratch = ScratchFolder::make_in(parent.path()).expect("made");
        std::fs::write(scratch.path().join("000012.sst"), "x").expect("written");
        remove_abandoned(parent.path()).expect("looked at");
        assert_eq!(names(parent.path()).len(), 1, "a folder in use stays");
        drop(scratch);
        assert_eq!(names(parent.path()), Vec::<String>::new());
    }

    mod room {
        use super::super::*;

        #[test]
        fn too_little_room_is_refused_with_both_numbers() {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            ensure_room(folder.path(), 0).expect("nothing always has room");
            let error = ensure_room(folder.path(), u64::MAX).expect_err("too little room");
            let StoreError::NoRoom { needed, free, .. } = error else { panic!("{error}") };
            assert!(needed == u64::MAX && free > 0 && free < needed, "{free}");
            let text = error.to_string();
            let path = folder.path().display();
            let expected = format!("needs {needed} bytes in {path}, where {free} bytes are free; make room, or name");
            assert!(text.contains(&expected), "{text}");
            let missing = ensure_room(&folder.path().join("none"), 0).expect_err("no such folder");
            assert!(matches!(missing, StoreError::Folder { .. }), "{missing}");
        }
    }
}
