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

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use self::log_format::LogEnd;
use crate::error::StoreError;
use log_format::pieces;

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

// What MANIFEST says of the write-ahead logs: how much of each was synced.
//
// MANIFEST is a log of changes to the list of files (`VersionEdit` in `db/version_edit.cc` of
// RocksDB). A change is a sequence of fields, each with a tag. RocksDB writes the synced lengths
// of logs as changes of their own (`WalAddition` in `db/wal_edit.cc`), when a log that is no
// longer the last one has been synced, and all of them at the beginning of a new MANIFEST.

/// The tags of fields with one number: the log number (2), the next file number (3), the last
/// sequence (4), the previous log number (9), the least log number to keep (10), the family (200)
/// and the largest family (203).
const NUMBERS: [u64; 7] = [2, 3, 4, 9, 10, 200, 203];

/// Fields whose tags are above this one begin with their length.
const WITH_LENGTH: u64 = 1 << 13;

/// The tag of a log's synced length.
const WAL_ADDITION: u64 = WITH_LENGTH + 7;

/// In the field of a log: the tag before its synced length.
const SYNCED_SIZE: u64 = 2;

/// The length up to which each log was synced, in bytes, by the log's number. Logs that RocksDB has
/// recorded no length of are not in it; some that are no longer needed may be.
pub(super) fn synced_lengths(mut manifest: impl Read) -> io::Result<BTreeMap<u64, u64>> {
    let mut log = Vec::new();
    manifest.read_to_end(&mut log)?;
    let (mut lengths, mut change) = (BTreeMap::new(), Vec::new());
    for (piece, is_last) in pieces(&log) {
        change.extend_from_slice(piece);
        if is_last {
            add_lengths(Fields(&change), &mut lengths);
            change.clear();
        }
    }
    Ok(lengths)
}

/// Adds the lengths of one change. A change with any other field has none.
fn add_lengths(mut fields: Fields<'_>, lengths: &mut BTreeMap<u64, u64>) -> Option<()> {
    loop {
        match fields.number()? {
            tag if NUMBERS.contains(&tag) => drop(fields.number()?),
            WAL_ADDITION => {
                let mut field = Fields(fields.bytes()?);
                let log = field.number()?;
                if field.number()? == SYNCED_SIZE {
                    lengths.insert(log, field.number()?);
                }
            }
            tag if tag > WITH_LENGTH => drop(fields.bytes()?),
            _ => return None,
        }
    }
}

/// The rest of a change.
struct Fields<'change>(&'change [u8]);

impl<'change> Fields<'change> {
    /// A number in groups of seven bits, the lowest first; `None` at the end.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes behind their length.
    fn bytes(&mut self) -> Option<&'change [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}
