//! A write-ahead log that is cut off or damaged.
//!
//! Every acknowledged request is in the log before the position where the log ended at that moment.
//! A cut removes what is behind it and nothing else: every request that was acknowledged when the
//! log was no longer than the cut log is still there. A process that dies in the middle of a write
//! leaves a cut log, so a cut is not damage. Any other change is damage: what is behind a damaged
//! position was acknowledged too, so the store has to be refused.
//!
//! The log is blocks of 32 KiB, filled with records (RocksDB's `db/log_format.h`): a checksum of 4
//! bytes over type and payload, the payload's length of 2 bytes, a type of 1 byte, the payload. A
//! record that does not fit into its block is split into several pieces.

use std::path::Path;

use super::{DamageChoices, DiskTestDaemon, assert_sound, copy, flip, fsck_in_time, newest_log};
use crate::harness::{Folder, folder, refused_start};

/// Bytes of a record before its payload.
const HEADER: usize = 7;
const BLOCK: usize = 32 << 10;

/// A record of the log, or a piece of one.
#[derive(Clone, Copy, Debug)]
struct LogRecord {
    at: usize,
    length: usize,
}

impl LogRecord {
    fn end(self) -> usize {
        self.at + HEADER + self.length
    }
}

/// The records of a complete log.
fn records(log: &[u8]) -> Vec<LogRecord> {
    let mut records: Vec<LogRecord> = Vec::new();
    let mut at = 0;
    while at + HEADER <= log.len() {
        let remaining = BLOCK - at % BLOCK;
        if remaining < HEADER {
            at += remaining;
            continue;
        }
        let record = LogRecord { at, length: usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]])) };
        at = record.end();
        records.push(record);
    }
    assert_eq!(records.last().map(|record| record.end()), Some(log.len()), "the log is complete");
    records
}

/// An accepted request, and the length of the log at that moment.
struct AcknowledgedRequest {
    request_id: String,
    log_end: usize,
}

/// The data of a daemon that was killed: everything it acknowledged is in the log.
struct KilledStore {
    data: Folder,
    acknowledged: Vec<AcknowledgedRequest>,
    log: Vec<u8>,
}

impl KilledStore {
    /// Runs a daemon that creates accounts, most of them in blocks of their own, and kills it.
    async fn make() -> Self {
        const ACCOUNTS: u64 = 12;
        let data = folder();
        let daemon = DiskTestDaemon::start(data.path());
        let mut acknowledged = Vec::new();
        for number in 0..ACCOUNTS {
            let request_id = daemon.submit(number).await.expect("accepted");
            let log_end = std::fs::metadata(newest_log(data.path())).expect("a log").len() as usize;
            if number % 4 != 3 {
                daemon.wait_until_final(&request_id).await;
            }
            acknowledged.push(AcknowledgedRequest { request_id, log_end });
        }
        daemon.kill();
        let log = std::fs::read(newest_log(data.path())).expect("read");
        Self { data, acknowledged, log }
    }

    /// A copy with another log.
    fn with_log(&self, log: &[u8]) -> Folder {
        let copied = copy(self.data.path());
        std::fs::write(newest_log(copied.path()), log).expect("written");
        copied
    }

    /// A copy with one bit of the log flipped.
    fn with_flipped(&self, at: usize, bit: usize) -> Folder {
        let copied = copy(self.data.path());
        flip(&newest_log(copied.path()), at, bit);
        copied
    }
}

/// Starts a daemon on a copy whose log ends at `log_end`. Requests that were acknowledged before
/// are done, the others are done or unknown. When a request is known, every earlier one is known.
async fn assert_prefix(data: &Path, acknowledged: &[AcknowledgedRequest], log_end: usize) {
    let daemon = DiskTestDaemon::start(data);
    let mut known = 0;
    for (position, request) in acknowledged.iter().enumerate() {
        let answer = daemon.gateway(&format!("/status/{}", request.request_id)).await;
        if answer.status == 404 {
            assert!(
                request.log_end > log_end,
                "a request is lost that was acknowledged before position {log_end} of the log"
            );
            continue;
        }
        assert_eq!(known, position, "an earlier request is unknown");
        daemon.wait_until_final(&request.request_id).await;
        known += 1;
    }
    assert_eq!(daemon.accounts().await, known as u64);
    daemon.kill();
    assert_sound(data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_ends_in_the_middle_of_a_write_loses_only_that_write() {
    let store = KilledStore::make().await;
    let records = records(&store.log);
    for mut choices in DamageChoices::of("log::a_log_that_ends_in_the_middle_of_a_write_loses_only_that_write") {
        let mut ends = vec![store.log.len(), choices.below(store.log.len()), records[0].end()];
        for record in records.iter().rev().take(3) {
            ends.extend([record.end() - 1, record.at + HEADER + choices.below(record.length), record.at + 3]);
        }
        for end in ends {
            let copied = store.with_log(&store.log[..end]);
            assert_prefix(copied.path(), &store.acknowledged, end).await;
        }
    }
}

/// A power failure can leave space behind the end of the log that was allocated and not written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_behind_the_log_are_accepted() {
    let store = KilledStore::make().await;
    for zeros in [1, HEADER, 5000, 3 * BLOCK] {
        let copied = store.with_log(&[store.log.as_slice(), &vec![0; zeros]].concat());
        assert_prefix(copied.path(), &store.acknowledged, store.log.len()).await;
    }
}

/// Asserts that a store is refused because of damage that the message names, and that this ends.
async fn assert_refused(data: &Path, what: &str) {
    let (is_sound, text) = fsck_in_time(data, what).await;
    assert!(!is_sound, "{what}: the records behind it were dropped without a message: {text}");
    assert!(text.contains("cannot open the store") && text.contains("Corruption"), "{what}: {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_the_log_is_refused() {
    let store = KilledStore::make().await;
    let records = records(&store.log);
    for mut choices in DamageChoices::of("log::a_flipped_bit_in_the_log_is_refused") {
        // The last record is refused too: it may have been acknowledged.
        let last = *records.last().expect("a record");
        let mut places = vec![last.at + choices.below(4), last.at + HEADER + choices.below(last.length)];
        for _ in 0..12 {
            let record = records[choices.below(records.len())];
            let in_payload = record.length > 0 && choices.below(4) > 0;
            places.push(if in_payload {
                record.at + HEADER + choices.below(record.length)
            } else {
                record.at + choices.below(4)
            });
        }
        for at in places {
            let bit = choices.below(8);
            let copied = store.with_flipped(at, bit);
            assert_refused(copied.path(), &format!("bit {bit} of byte {at}")).await;
            let message = refused_start(copied.path(), &[]).await;
            assert!(message.contains("cannot open the store") && message.contains("Corruption"), "{message}");
        }
    }
}

/// A record in the log's last block that claims to be longer than the log looks like a record that
/// was cut off. The check tells them apart: complete records are behind the damaged one, or its
/// checksum is right for the bytes that are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_length_in_the_log_is_refused() {
    let store = KilledStore::make().await;
    let records = records(&store.log);
    for record in records.iter().rev().take(4) {
        // The highest bit of the length; the bytes are little-endian.
        let copied = store.with_flipped(record.at + 5, 7);
        assert_refused(copied.path(), &format!("the length of the record at {}", record.at)).await;
    }
}

/// Types 5 to 8 belong to recycled logs, which this store does not use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_type_in_the_log_is_refused() {
    let store = KilledStore::make().await;
    let records = records(&store.log);
    for record in [records[0], records[1], records[records.len() / 2], records[records.len() - 1]] {
        let copied = store.with_flipped(record.at + 6, 2);
        assert_refused(copied.path(), &format!("the type of the record at {}", record.at)).await;
    }
}

/// A store always has a log, even if it is empty. Without this rule the loss of a log would lose
/// its records without a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_log_is_refused() {
    let store = KilledStore::make().await;
    std::fs::remove_file(newest_log(store.data.path())).expect("removed");
    match DiskTestDaemon::try_start(store.data.path(), &[]) {
        Ok(daemon) => panic!("{} accounts were made, it serves {}", store.acknowledged.len(), daemon.accounts().await),
        Err(message) => assert!(message.contains("cannot open the store"), "{message}"),
    }
}
