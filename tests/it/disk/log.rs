//! A write-ahead log that is cut off or damaged.
//!
//! What was acknowledged lies in the log before the place where the log ended at that moment. A cut takes what lies behind it and
//! nothing else: whatever was acknowledged while the log was no longer than the cut one is there. A cut is what a death in the
//! middle of a write leaves, so it is no damage. Anything else is: what lies behind a damaged place was acknowledged, too, so a
//! store with such a log has to be refused.
//!
//! The log is blocks of 32 KiB, filled with records (RocksDB's `db/log_format.h`): a checksum of 4 bytes over type and payload,
//! the payload's length of 2 bytes, a type of 1 byte, the payload. A record that does not fit its block is several pieces.

use std::path::Path;

use tempfile::TempDir;

use super::{Chance, Daemon, assert_sound, copy, flip, fsck_in_time, newest_log};
use crate::harness::{folder, refused_start};

/// Bytes of a record before its payload.
const HEADER: usize = 7;
const BLOCK: usize = 32 << 10;

/// A record of the log, or a piece of one.
#[derive(Clone, Copy, Debug)]
struct Record {
    at: usize,
    length: usize,
}

impl Record {
    fn end(self) -> usize {
        self.at + HEADER + self.length
    }
}

/// The records of a log that is whole.
fn records(log: &[u8]) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut at = 0;
    while at + HEADER <= log.len() {
        let left = BLOCK - at % BLOCK;
        if left < HEADER {
            at += left;
            continue;
        }
        let record = Record { at, length: usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]])) };
        at = record.end();
        records.push(record);
    }
    assert_eq!(records.last().map(|record| record.end()), Some(log.len()), "a whole log");
    records
}

/// An accepted request, and where the log ended when it was.
struct Told {
    request_id: String,
    log_end: usize,
}

/// What a daemon left that was killed: everything it was told is in the log.
struct Left {
    data: TempDir,
    told: Vec<Told>,
    log: Vec<u8>,
}

impl Left {
    /// Of a daemon that has made some accounts, most of them in blocks of their own.
    async fn behind() -> Self {
        const ACCOUNTS: u64 = 12;
        let data = folder();
        let daemon = Daemon::start(data.path());
        let mut told = Vec::new();
        for number in 0..ACCOUNTS {
            let request_id = daemon.submit(number).await.expect("accepted");
            let log_end = std::fs::metadata(newest_log(data.path())).expect("a log").len() as usize;
            if number % 4 != 3 {
                daemon.is_final(&request_id).await;
            }
            told.push(Told { request_id, log_end });
        }
        daemon.kill();
        let log = std::fs::read(newest_log(data.path())).expect("read");
        Self { data, told, log }
    }

    /// A copy whose log is another.
    fn with_log(&self, log: &[u8]) -> TempDir {
        let copied = copy(self.data.path());
        std::fs::write(newest_log(copied.path()), log).expect("written");
        copied
    }

    /// A copy with one bit of the log flipped.
    fn with_flipped(&self, at: usize, bit: usize) -> TempDir {
        let copied = copy(self.data.path());
        flip(&newest_log(copied.path()), at, bit);
        copied
    }
}

/// Starts a daemon on a copy whose log ends there. What was acknowledged before is done, the rest is done or unknown; nobody is
/// told of a later request and not of an earlier one.
async fn assert_prefix(data: &Path, told: &[Told], log_end: usize) {
    let daemon = Daemon::start(data);
    let mut known = 0;
    for (position, request) in told.iter().enumerate() {
        let answer = daemon.gateway(&format!("/status/{}", request.request_id)).await;
        if answer.status == 404 {
            assert!(request.log_end > log_end, "lost: it was acknowledged before {log_end} of the log");
            continue;
        }
        assert_eq!(known, position, "an earlier request is unknown");
        daemon.is_final(&request.request_id).await;
        known += 1;
    }
    assert_eq!(daemon.accounts().await, known as u64);
    daemon.kill();
    assert_sound(data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_ends_in_the_middle_of_a_write_loses_that_write_alone() {
    let left = Left::behind().await;
    let records = records(&left.log);
    let mut chance = Chance::new();
    let mut ends = vec![left.log.len(), chance.below(left.log.len()), records[0].end()];
    for record in records.iter().rev().take(3) {
        ends.extend([record.end() - 1, record.at + HEADER + chance.below(record.length), record.at + 3]);
    }
    for end in ends {
        let copied = left.with_log(&left.log[..end]);
        assert_prefix(copied.path(), &left.told, end).await;
    }
}

/// Space that was made ready and not written, as a power cut can leave it behind the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_behind_the_log_are_no_damage() {
    let left = Left::behind().await;
    for zeros in [1, HEADER, 5000, 3 * BLOCK] {
        let copied = left.with_log(&[left.log.as_slice(), &vec![0; zeros]].concat());
        assert_prefix(copied.path(), &left.told, left.log.len()).await;
    }
}

/// Asserts that a store is refused, for damage that is named, and in time.
async fn assert_refused(data: &Path, what: &str) {
    match fsck_in_time(data).await {
        None => panic!("{what}: opening the store does not end"),
        Some((is_sound, text)) => {
            assert!(!is_sound, "{what}: what lies behind was dropped without a word: {text}");
            assert!(text.contains("cannot open the store") && text.contains("Corruption"), "{what}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_the_log_is_refused() {
    let left = Left::behind().await;
    let records = records(&left.log);
    let mut chance = Chance::new();
    // In the last one, too: nobody can know that it was not acknowledged.
    let last = *records.last().expect("a record");
    let mut places = vec![last.at + chance.below(4), last.at + HEADER + chance.below(last.length)];
    for _ in 0..12 {
        let record = records[chance.below(records.len())];
        let in_payload = record.length > 0 && chance.below(4) > 0;
        places.push(if in_payload {
            record.at + HEADER + chance.below(record.length)
        } else {
            record.at + chance.below(4)
        });
    }
    for at in places {
        let bit = chance.below(8);
        let copied = left.with_flipped(at, bit);
        assert_refused(copied.path(), &format!("bit {bit} of byte {at}")).await;
        let message = refused_start(copied.path(), &[]).await;
        assert!(message.contains("cannot open the store") && message.contains("Corruption"), "{message}");
    }
}

/// A record of the log's last block that claims to be longer than the log looks like one that was cut off; it is none, because
/// whole records lie behind it, or because its checksum is right for what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_length_in_the_log_is_refused() {
    let left = Left::behind().await;
    let records = records(&left.log);
    for record in records.iter().rev().take(4) {
        // The greatest bit of the length, its least byte first.
        let copied = left.with_flipped(record.at + 5, 7);
        assert_refused(copied.path(), &format!("the length of the record at {}", record.at)).await;
    }
}

/// Types 5 to 8 are those of logs that are used again, which this store's never are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_type_in_the_log_is_refused() {
    let left = Left::behind().await;
    let records = records(&left.log);
    for record in [records[0], records[1], records[records.len() / 2], records[records.len() - 1]] {
        let copied = left.with_flipped(record.at + 6, 2);
        assert_refused(copied.path(), &format!("the type of the record at {}", record.at)).await;
    }
}

/// A store always has a log, if an empty one: without any, what was only there would be lost without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_log_is_refused() {
    let left = Left::behind().await;
    std::fs::remove_file(newest_log(left.data.path())).expect("removed");
    match Daemon::try_start(left.data.path(), &[]) {
        Ok(daemon) => panic!("{} accounts were made, it serves {}", left.told.len(), daemon.accounts().await),
        Err(message) => assert!(message.contains("cannot open the store"), "{message}"),
    }
}
