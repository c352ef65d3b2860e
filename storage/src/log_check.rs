//! Looking through a store's logs before the database does.
//!
//! RocksDB's reader of logs (write-ahead logs, and the list of files, MANIFEST) takes some damage for the log's end, drops what lies
//! behind it without a word, and deletes the files that are not listed any more; on a damaged type it never ends. So what it would
//! not notice is looked for here first: a log may end in the middle of a record, or in zeros, and nothing else.
//!
//! The format (`db/log_format.h`): blocks of 32 KiB; records of a masked CRC-32C over type and payload, the payload's length
//! (2 bytes), a type, the payload; a record that does not fit its block is several pieces.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// The list of files of a store whose first start did not come to its end.
const FIRST_MANIFEST: &str = "MANIFEST-000001";

/// Looks whether the files of the store in `path` are all there and their logs undamaged, as far as RocksDB would not notice.
///
/// # Errors
/// [`StoreError::Open`], naming the file. Nothing is changed: opening would go on without what is missing, and delete the rest.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let refuse = |reason: String| StoreError::Open { path: path.to_owned(), reason };
    let found = files(path).map_err(|error| refuse(error.to_string()))?;
    let of_kind =
        |kind: &str| found.iter().filter(|file| file.extension() == Some(OsStr::new(kind))).collect::<Vec<_>>();
    let logs = of_kind("log");
    let read = |file: &Path| std::fs::read(file).map_err(|error| refuse(format!("{}: {error}", file.display())));
    let current = path.join("CURRENT");
    if !current.is_file() {
        if logs.is_empty() && of_kind("sst").is_empty() {
            return Ok(());
        }
        return Err(refuse(
            "the file CURRENT is missing, which says what the store consists of; restore it from a backup".to_owned(),
        ));
    }
    let manifest = String::from_utf8_lossy(&read(&current)?).trim().to_owned();
    if logs.is_empty() && manifest != FIRST_MANIFEST {
        return Err(refuse(
            "its write-ahead log (*.log) is missing, with what was acknowledged last; restore it from a backup"
                .to_owned(),
        ));
    }
    let manifest = Some(path.join(manifest)).filter(|manifest| manifest.is_file());
    for log in logs.into_iter().chain(&manifest) {
        if let Some(at) = damage(&read(log)?) {
            return Err(refuse(format!(
                "Corruption: {} is damaged at byte {at}, and what lies behind was acknowledged; restore the store from a backup",
                log.display()
            )));
        }
    }
    Ok(())
}

/// The files of a folder; none if there is no such folder.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        // The database says what is wrong with something else than a folder.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;

/// Whole records and their pieces: what is written with this store's settings.
const TYPES: std::ops::RangeInclusive<u8> = 1..=4;

/// Where a log is damaged; `None` for one that is whole, or was cut off in the middle of a write.
///
/// A last record of which a part is zeros is damaged: nobody can tell whether it was acknowledged.
fn damage(log: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let left = BLOCK - at % BLOCK;
        if left < HEADER {
            at += left;
            continue;
        }
        let rest = log.get(at..).unwrap_or_default();
        // The end, a header that was cut off, or space that was made ready.
        if rest.len() < HEADER || rest.iter().all(|byte| *byte == 0) {
            return None;
        }
        match Record::first_of(rest, left) {
            Some(record) if record.is_whole() => at += HEADER + record.payload.len(),
            Some(_) => return Some(at),
            // It is longer than what is there: cut off, unless there is more behind, or what is there is all of it.
            None => {
                let within = rest.len() < left && TYPES.contains(&rest[6]) && length(rest) + HEADER <= left;
                let is_cut_off = within && !is_whole(rest, &rest[HEADER..]) && !has_records(rest);
                return (!is_cut_off).then_some(at);
            }
        }
    }
}

struct Record<'log> {
    bytes: &'log [u8],
    payload: &'log [u8],
}

impl<'log> Record<'log> {
    /// What begins here; `None` when its length leads out of the block or the log.
    fn first_of(bytes: &'log [u8], left: usize) -> Option<Self> {
        let end = HEADER + length(bytes);
        let payload = bytes.get(HEADER..end).filter(|_| end <= left)?;
        Some(Self { bytes, payload })
    }

    fn is_whole(&self) -> bool {
        TYPES.contains(&self.bytes[6]) && is_whole(self.bytes, self.payload)
    }
}

fn length(header: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([header[4], header[5]]))
}

/// Whether the header's checksum is that of its type and this payload.
fn is_whole(header: &[u8], payload: &[u8]) -> bool {
    let checksum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let crc = !payload.iter().fold(step(!0, header[6]), |crc, byte| step(crc, *byte));
    checksum == crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Whether a whole record begins anywhere behind the first byte.
fn has_records(rest: &[u8]) -> bool {
    (1..rest.len().saturating_sub(HEADER)).any(|at| {
        Record::first_of(&rest[at..], BLOCK).is_some_and(|record| !record.payload.is_empty() && record.is_whole())
    })
}

fn step(crc: u32, byte: u8) -> u32 {
    (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)]
}

/// CRC-32C, byte by byte.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
