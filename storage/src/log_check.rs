//! Checks a store's logs before RocksDB reads them.
//!
//! RocksDB's log reader reads the write-ahead logs and MANIFEST, the list of files. It takes some
//! damage for the end of the log, silently drops the records behind it, and deletes the files that
//! are then no longer listed; on a damaged record type it loops forever. This module therefore
//! looks first for the damage that RocksDB does not report.
//!
//! A log may end in the middle of a record, in zeros, or in a torn record: from a page boundary on,
//! the file holds only zeros. A power failure leaves such a record when the file's length reaches
//! the disk before its pages (ext4 can do so with preallocated space). No client was answered for
//! that write, because its sync had not completed. When RocksDB refuses the log, [`TornLog::cut`]
//! removes that end.
//!
//! What comes before the last write-ahead log may end so, too: applied blocks are not synced, and
//! RocksDB begins another log without a sync. The first sync of the new log syncs the one before it
//! and records its length in MANIFEST. A log that ends before the length recorded for it has lost
//! what was acknowledged. That, and everything else, is damage.

mod log_format;
mod synced_lengths;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use self::log_format::LogEnd;
use self::synced_lengths::synced_lengths;
use crate::error::StoreError;

/// MANIFEST of a store whose first start was interrupted.
const FIRST_MANIFEST: &str = "MANIFEST-000001";

/// An undamaged log whose end RocksDB may refuse: a last write that lacks pages, or zeros.
pub(crate) struct TornLog {
    log: PathBuf,
    at: u64,
}

impl TornLog {
    /// Truncates the log at the beginning of that end, and syncs it. No other process may have the
    /// store open: the caller tries to open RocksDB first, which reports that.
    pub fn cut(&self) -> io::Result<()> {
        tracing::warn!(
            log = %self.log.display(),
            at = self.at,
            "the log ends in an incomplete write that a power failure left; it is cut off. \
             No client was answered for that write"
        );
        let log = File::options().write(true).open(&self.log)?;
        log.set_len(self.at)?;
        log.sync_all()
    }
}

/// Checks the store in `path` for missing files and damaged logs that RocksDB does not report.
/// Returns the undamaged logs that RocksDB may refuse.
///
/// # Errors
/// [`StoreError::Open`], naming the file. The check changes nothing. RocksDB would continue without
/// the missing data and delete the files that it no longer lists.
pub(crate) fn check(path: &Path) -> Result<Vec<TornLog>, StoreError> {
    let refuse = |reason: String| StoreError::Open { path: path.to_owned(), reason };
    let found = list_files(path).map_err(|error| refuse(error.to_string()))?;
    let of_kind =
        |kind: &str| found.iter().filter(|file| file.extension() == Some(OsStr::new(kind))).collect::<Vec<_>>();
    let mut logs = of_kind("log");
    // In the order of their numbers: a longer name has a greater number.
    logs.sort_by_key(|log| (log.as_os_str().len(), *log));
    let unreadable = |file: &Path, error| refuse(format!("{}: {error}", file.display()));
    let current = path.join("CURRENT");
    if !current.is_file() {
        if logs.is_empty() && of_kind("sst").is_empty() {
            return Ok(Vec::new());
        }
        return Err(refuse(
            "the file CURRENT, which names the list of the store's files, is missing; restore the store from a \
             backup with `selfsame restore`"
                .to_owned(),
        ));
    }
    let manifest = std::fs::read(&current).map_err(|error| unreadable(&current, error))?;
    let manifest = String::from_utf8_lossy(&manifest).trim().to_owned();
    if logs.is_empty() && manifest != FIRST_MANIFEST {
        return Err(refuse(
            "its write-ahead log (*.log) is missing, with what was acknowledged last; restore the store from a \
             backup with `selfsame restore`"
                .to_owned(),
        ));
    }
    let manifest = Some(path.join(manifest)).filter(|manifest| manifest.is_file());
    let synced = match &manifest {
        Some(manifest) => File::open(manifest).and_then(synced_lengths).map_err(|error| unreadable(manifest, error))?,
        None => BTreeMap::new(),
    };
    let mut torn = Vec::new();
    for log in logs.iter().copied().chain(&manifest) {
        let found = File::open(log).and_then(LogEnd::in_log).map_err(|error| unreadable(log, error))?;
        let synced = number_of(log).and_then(|number| synced.get(&number)).copied().unwrap_or_default();
        match found {
            LogEnd::Whole => {}
            // RocksDB takes it for the end by itself.
            LogEnd::CutOff(at) if at >= synced => {}
            LogEnd::Torn(at) | LogEnd::Zeros(at) if at >= synced => torn.push(TornLog { log: log.clone(), at }),
            LogEnd::CutOff(at) | LogEnd::Torn(at) | LogEnd::Zeros(at) | LogEnd::Damaged(at) => {
                return Err(refuse(format!(
                    "Corruption: {} is damaged at byte {at}, and the records after it were acknowledged; restore the \
                     store from a backup with `selfsame restore`",
                    log.display()
                )));
            }
        }
    }
    Ok(torn)
}

/// The number of a write-ahead log, which is its name; `None` for MANIFEST.
fn number_of(log: &Path) -> Option<u64> {
    log.file_stem()?.to_str()?.parse().ok()
}

/// The files in a folder; empty when the folder does not exist.
fn list_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        // RocksDB reports a path that is not a folder.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
