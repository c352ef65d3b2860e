//! Backups: folders that hold a copy of a data folder, made while the daemon runs.
//!
//! | file | what |
//! |---|---|
//! | `manifest.rs` | the list of a backup's files with their digests, and what its store holds |
//! | `folder.rs` | folders that get their name when they are complete, and the files in them |
//! | `make.rs` | makes a backup |
//! | `verify.rs` | compares a backup with its manifest |
//! | `restore.rs` | makes a data folder from a backup |
//! | `jobs.rs` | the backups of a running daemon, one at a time |
//! | `schedule.rs` | backups at regular times |
//!
//! A backup has `store/`, a copy of the store, and `audit.key` and `simulator.seed` if the data
//! folder has them: without them, the restored daemon could not continue the audit trail, and its
//! simulator would have other keys. `operator.token` is left out: a restored daemon makes another
//! one, and a stolen backup gives no right to call the daemon that runs. The configuration and the
//! file of `sign_in.key_encryption_key_file` belong to the operator, and are kept apart from a
//! backup on purpose.
//!
//! A backup is complete when it has its manifest, which is written last, and its name, which it
//! gets after that.

/// Passes a fault point of the process in code that may block. Expands to nothing without the
/// feature `fault-injection`.
macro_rules! fault_point {
    ($point:ident) => {
        #[cfg(feature = "fault-injection")]
        selfsame_storage::faults::pass_blocking(
            &selfsame_storage::FaultScope::PROCESS,
            selfsame_storage::faults::FaultPoint::$point,
        )?;
    };
}

mod folder;
pub mod jobs;
pub mod make;
mod manifest;
pub mod restore;
pub mod schedule;
pub mod verify;

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

pub use folder::{UNFINISHED, UnfinishedFolder};
pub use manifest::{FileDigest, LONGEST as LONGEST_MANIFEST, MANIFEST, Manifest, ManifestError};
use selfsame_storage::{Phase, Progress, StoreError};

use crate::secret_file::{AUDIT_KEY, SIMULATOR_SEED};

/// Folder of the store in a backup, and in a data folder.
pub const STORE: &str = "store";

/// The other files of the data folder that a backup has.
const OTHER_FILES: [&str; 2] = [AUDIT_KEY, SIMULATOR_SEED];

/// Size of the block cache of a store that is opened for a look at it, in bytes.
const LOOK_CACHE: usize = 8 << 20;

/// Why a backup cannot be made, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A folder cannot be the target.
    #[error("{} cannot be used: {problem}", path.display())]
    Target {
        /// The folder that was to be made.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The store, or its copy, cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The daemon is stopping, or the operator has stopped the command.
    #[error("stopped before the end")]
    Stopped,
}

/// Counts the bytes that a part of the work reads.
struct ByteCount<'a> {
    progress: &'a dyn Progress,
    phase: Phase,
    total: u64,
    done: Cell<u64>,
}

impl<'a> ByteCount<'a> {
    /// A count of `total` bytes; `name` says what is done with them.
    fn new(progress: &'a dyn Progress, name: &'static str, total: u64) -> Self {
        let phase = Phase { name, unit: "bytes" };
        progress.report(phase, 0, total);
        Self { progress, phase, total, done: Cell::new(0) }
    }

    /// # Errors
    /// [`BackupError::Stopped`] when the work has to stop.
    fn add(&self, bytes: u64) -> Result<(), BackupError> {
        self.done.set(self.done.get() + bytes);
        self.progress.report(self.phase, self.done.get(), self.total);
        if self.progress.is_stopped() { Err(BackupError::Stopped) } else { Ok(()) }
    }
}

/// Checks that a folder can be the data folder of a daemon: it is not a backup, and not what is
/// left of an unfinished one. Using a backup as it is would change it, and go around what
/// [`restore::restore`] makes sure of.
pub fn check_data_folder(data: &Path) -> Result<(), BackupError> {
    let refused = |problem: &str| Err(BackupError::Target { path: data.to_owned(), problem: problem.to_owned() });
    if data.join(MANIFEST).exists() {
        return refused("it is a backup; check it with `selfsame backup verify`, restore it with `selfsame restore`");
    }
    if data.as_os_str().to_string_lossy().trim_end_matches('/').ends_with(UNFINISHED) {
        return refused("it is what is left of a backup or a restore that was not completed");
    }
    Ok(())
}

/// Names the file that an operating system's error is about.
fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    |error| BackupError::File { path: path.to_owned(), error }
}
