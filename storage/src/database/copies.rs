//! Copies of the database while others use it: with hard links where the file system has them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rocksdb::backup::{BackupEngine, BackupEngineOptions};
use rocksdb::checkpoint::Checkpoint;

use super::Database;
use crate::error::StoreError;
use crate::scratch::ensure_room;

/// What RocksDB says when it cannot make a hard link, except across file systems: those it copies.
const LINK_FAILED: &str = "link file to";

/// What fails for a copy, too: it would take the room that the store itself needs.
const NO_COPY_EITHER: [&str; 4] =
    ["No space left on device", "Disk quota exceeded", "Input/output error", "Read-only file system"];

/// Whether a file system refuses hard links, and may take copies.
fn is_refused_link(error: &str) -> bool {
    error.contains(LINK_FAILED) && !NO_COPY_EITHER.iter().any(|reason| error.contains(reason))
}

/// Whether two folders are on different file systems. One that cannot be asked is on the same.
fn is_other_device(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    device(one).zip(device(other)).is_some_and(|(one, other)| one != other)
}

/// RocksDB's name for the bytes of a family that are in no file of records yet.
const BUFFERED: &str = "rocksdb.cur-size-all-mem-tables";

/// What the name of a copy ends with while RocksDB makes it file by file; as RocksDB's own.
const COPYING: &str = ".tmp";

/// Removes a folder when it is dropped, if it is there.
struct RemovedAtEnd<'a>(&'a Path);

impl Drop for RemovedAtEnd<'_> {
    fn drop(&mut self) {
        let path = self.0;
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "an unfinished copy cannot be removed");
            }
            _ => {}
        }
    }
}

impl Database {
    /// Makes a copy of the database as it is now in a new folder, while others read and write: what
    /// was written before the call is in it. RocksDB first writes the records of its log into
    /// files of records. These never change, so the copy has hard links to them (copies on another
    /// file system), and copies of what RocksDB still writes: the list of the files, and the rest
    /// of the log up to the end of a write.
    ///
    /// # Errors
    /// [`StoreError::NoRoomForCopy`] when the file system of the copy has too little room for what
    /// is copied: that would be missing there, perhaps for the store itself.
    pub(crate) fn checkpoint(&self, folder: &Path) -> Result<(), StoreError> {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if is_other_device(self.db.path(), parent) {
            self.ensure_room_for_copy(parent)?;
        }
        match Checkpoint::new(&self.db)?.create_checkpoint(folder) {
            Err(error) if is_refused_link(error.as_ref()) => {
                tracing::warn!(%error, "files of the store cannot have hard links, so they are copied");
                self.ensure_room_for_copy(parent)?;
                self.copy_files(folder)
            }
            made => self.note(made),
        }
    }

    /// Checks that a folder's file system has room for a copy of all records.
    fn ensure_room_for_copy(&self, parent: &Path) -> Result<(), StoreError> {
        let mut needed: u64 = self.files()?.map(|(_, length)| length).sum();
        for family in self.families() {
            needed = needed.saturating_add(self.property(family, BUFFERED)?);
        }
        match ensure_room(parent, needed) {
            Err(StoreError::NoRoom { folder, needed, free }) => Err(StoreError::NoRoomForCopy { folder, needed, free }),
            outcome => outcome,
        }
    }

    /// The same without hard links, for file systems that have none, or no more for a file.
    ///
    /// RocksDB's engine for backups copies every file. It keeps tables under longer names in a
    /// folder of their own; renamed, they and the other files are a database.
    fn copy_files(&self, folder: &Path) -> Result<(), StoreError> {
        let refused = |path: &Path, error: std::io::Error| StoreError::Folder {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mut made = folder.as_os_str().to_owned();
        made.push(COPYING);
        let made = PathBuf::from(made);
        let _removed = RemovedAtEnd(&made);
        let options = BackupEngineOptions::new(&made)?;
        let mut engine = BackupEngine::open(&options, &rocksdb::Env::new()?)?;
        self.note(engine.create_new_backup_flush(&self.db, true))?;
        drop(engine);
        std::fs::rename(made.join("private/1"), folder).map_err(|error| refused(folder, error))?;
        let tables = made.join("shared_checksum");
        let entries = match std::fs::read_dir(&tables) {
            // A store without tables: everything is in its log.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| refused(&tables, error))?,
        };
        for entry in entries {
            let from = entry.map_err(|error| refused(&tables, error))?.path();
            let name = from.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // `000012_sSESSION_4096.sst` is table 000012.
            let number = name.split('_').next().unwrap_or(name);
            let to = folder.join(format!("{number}.sst"));
            std::fs::rename(&from, &to).map_err(|error| refused(&to, error))?;
        }
        Ok(())
    }
}
