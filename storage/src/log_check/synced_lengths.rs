//! What MANIFEST says of the write-ahead logs: how much of each was synced.
//!
//! MANIFEST is a log of changes to the list of files (`VersionEdit` in `db/version_edit.cc` of
//! RocksDB). A change is a sequence of fields, each with a tag. RocksDB writes the synced lengths
//! of logs as changes of their own (`WalAddition` in `db/wal_edit.cc`), when a log that is no
//! longer the last one has been synced, and all of them at the beginning of a new MANIFEST.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::log_format::pieces;

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
