//! Whether a store that has met a write error can be opened again: RocksDB still refuses writes,
//! and the disk takes them.
//!
//! After most write errors RocksDB takes no writes until it is opened again, because it does not
//! know what the disk has. After a failed sync, going on would not be safe. It resumes by itself
//! only after an error of space that it met while it wrote to a file, not while it made one.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::error::{DISK_IS_FULL, StoreError};
use crate::store::Store;

/// The file with which the disk is tried, in the store's folder.
const TRIAL_FILE: &str = "trial";

/// Bounds of the room that a new start needs, in bytes, inclusive: it writes what is in the logs
/// into tables. The most is what RocksDB itself waits for with the default settings.
const LEAST_ROOM: u64 = 4 << 20;
const MOST_ROOM: u64 = 64 << 20;

impl Store {
    /// The folder of the store's files; `None` for a store in memory.
    pub fn folder(&self) -> Option<&Path> {
        self.database().folder()
    }

    /// The number of files that the store has open now, or may open: its tables, but for a limit of
    /// its own ([`crate::Resources::open_files`]).
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn open_files(&self) -> Result<u64, StoreError> {
        Ok(self.database().files()?.count() as u64)
    }

    /// Why RocksDB takes no writes; `None` when it does. It is tried only after a failure. Blocks
    /// the thread.
    pub fn refused_write(&self) -> Option<StoreError> {
        self.database().refused_write()
    }

    /// Tries the disk after an error: makes a file in the store's folder with the room that a new
    /// start needs, writes to it, syncs and removes it. When RocksDB could not read a file, that is
    /// read again, too. Blocks the thread.
    ///
    /// # Errors
    /// [`StoreError::Folder`]: the cause of the error is not gone.
    pub fn try_disk(&self, error: &StoreError) -> Result<(), StoreError> {
        let Some(folder) = self.folder() else { return Ok(()) };
        let path = folder.join(TRIAL_FILE);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| StoreError::Folder { path, reason: error.to_string() }
        };
        let room = length_of_logs(folder).map_err(failed(folder))?.clamp(LEAST_ROOM, MOST_ROOM);
        try_file(&path, room).map_err(failed(&path))?;
        if let Some(unreadable) = error.unreadable_file() {
            File::open(&unreadable)
                .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
                .map_err(failed(&unreadable))?;
        }
        Ok(())
    }
}

/// What makes a store take writes again after an error, once its disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healing {
    /// RocksDB may resume by itself, after an error of space.
    ByItself,
    /// The store has to be opened again.
    ByNewStart,
    /// Stored data are damaged: see `docs/operations/incidents.md`.
    Never,
}

impl StoreError {
    /// What makes a store take writes again that refuses them for this reason.
    pub fn healing(&self) -> Healing {
        if !self.is_transient() {
            Healing::Never
        } else if self.database_text().is_some_and(|text| text.contains(DISK_IS_FULL)) {
            Healing::ByItself
        } else {
            Healing::ByNewStart
        }
    }

    /// The file that RocksDB could not read.
    fn unreadable_file(&self) -> Option<PathBuf> {
        // "IO error: While pread offset 0 len 4096: /data/store/000036.sst: Input/output error"
        let (_, reading) = self.database_text()?.split_once("While pread offset ")?;
        reading.split(": ").nth(1).map(PathBuf::from)
    }
}

/// The length of the logs in a folder, in bytes.
fn length_of_logs(folder: &Path) -> io::Result<u64> {
    let mut length = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "log") {
            // RocksDB may have removed it meanwhile.
            length += path.metadata().map_or(0, |found| found.len());
        }
    }
    Ok(length)
}

fn try_file(path: &Path, room: u64) -> io::Result<()> {
    // A new file shows whether one can be made at all: a disk may have no inodes left.
    remove(path)?;
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let tried = reserve(&file, room).and_then(|()| file.write_all(b"trial")).and_then(|()| file.sync_all());
    remove(path)?;
    tried
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Takes room for a file, without writing to it.
fn reserve(file: &File, room: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, room) {
        // The file system cannot reserve room.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        reserved => Ok(reserved?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_tried_without_leaving_a_file_and_refused_with_the_path() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join(TRIAL_FILE);
        std::fs::write(&path, "left by a process that was killed").expect("written");
        try_file(&path, LEAST_ROOM).expect("the disk takes writes");
        assert!(!path.exists());
        let error = try_file(&folder.path().join("none").join(TRIAL_FILE), 1).expect_err("no such folder");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn logs_are_counted_and_other_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        for (name, length) in [("000001.log", 10), ("000002.log", 20), ("000003.sst", 40), ("LOG", 80)] {
            std::fs::write(folder.path().join(name), vec![0; length]).expect("written");
        }
        assert_eq!(length_of_logs(folder.path()).expect("read"), 30);
    }

    #[test]
    fn the_file_that_cannot_be_read_is_named_by_the_error() {
        let open = |reason: &str| StoreError::Open { path: PathBuf::from("store"), reason: reason.to_owned() };
        let error = open("IO error: While pread offset 0 len 4096: a/000036.sst: Input/output error");
        assert_eq!(error.unreadable_file(), Some(PathBuf::from("a/000036.sst")));
        assert_eq!(open("IO error: While appending to file: a/000036.sst: x").unreadable_file(), None);
    }
}
