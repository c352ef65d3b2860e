//! Stores whose log or whose first start was cut off, and ledgers that lack blocks.

use super::*;

/// The power failed during the last write: the log has its full length, but lacks pages of that
/// write.
#[test]
fn a_last_write_that_lacks_pages_is_removed() {
    const PAGE: u64 = 4096;
    let begin = || {
        let folder = folder();
        let store = open(&folder);
        admit(&store, 1, 1);
        let log = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").path());
        let log = log.filter(|path| path.extension().is_some_and(|kind| kind == "log")).max().expect("a log");
        let length = log.metadata().expect("a file").len();
        let nullifiers = (0..1000).map(|number| (nullifier(number), record(1)));
        let mut changes = Changes::default();
        for (key, record) in nullifiers {
            changes.put(&crate::schema::family::NULLIFIERS, &key, &record);
        }
        store.database().write(changes, true).expect("the changes are written");
        (folder, log, length)
    };
    let (folder, log, before) = begin();
    let all = log.metadata().expect("a file").len();
    assert!(all > before + 40_000, "more than a block of the log");
    drop(folder);
    for page in before.div_ceil(PAGE)..all.div_ceil(PAGE) {
        let (folder, log, _) = begin();
        let file = std::fs::OpenOptions::new().write(true).open(&log).expect("a file");
        file.set_len(page * PAGE).and_then(|()| file.set_len(all)).expect("the pages are cut off");
        let store = open(&folder);
        assert!(store.request(&request_id(1)).expect("the read succeeds").is_some(), "page {page}");
        assert_eq!(records_of(&store).nullifier(&nullifier(0)).expect("the read succeeds"), None, "page {page}");
        admit(&store, 2, 2);
        drop(store);
        assert_eq!(open(&folder).open_requests().expect("the read succeeds").len(), 2, "page {page}");
    }
}

#[test]
fn an_interrupted_first_start_leaves_an_empty_store() {
    let folder = folder();
    drop(open(&folder));
    std::fs::remove_file(folder.path().join("CURRENT")).expect("the file is removed");
    let refused = Store::open_existing(folder.path(), 1 << 20).err().expect("the store is refused");
    assert!(matches!(refused, StoreError::Open { .. }), "there is a log: {refused}");
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|kind| kind == "log" || kind == "sst") {
            std::fs::remove_file(path).expect("the file is removed");
        }
    }
    let empty = Store::open_existing(folder.path(), 1 << 20).err().expect("the store is refused");
    assert!(matches!(empty, StoreError::Empty { .. }), "{empty}");
    let nothing = Store::open_existing(&folder.path().join("elsewhere"), 1 << 20).err().expect("the store is refused");
    assert!(matches!(nothing, StoreError::Open { .. }), "{nothing}");
}

#[test]
fn a_store_that_lacks_a_block_before_the_last_applied_one_is_refused() {
    let folder = folder();
    let store = open(&folder);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    for sequence in [1, 2, 3] {
        admit(&store, sequence, sequence as u8);
        let block = seal(&store, &ledger, 1000 * sequence);
        commit(&store, &block).expect("the block is committed");
    }
    drop((store, ledger));
    let store = open(&folder);
    let mut changes = Changes::default();
    changes.delete(&crate::schema::family::RESULTS, &2);
    store.database().write(changes, true).expect("the changes are written");
    drop(store);
    let refused =
        Store::open(folder.path(), &OpenOptions::new(DOMAIN)).err().expect("the store is refused").to_string();
    assert!(
        refused.contains("the store lacks the result of block 2") && refused.contains("registry rebuild"),
        "{refused}"
    );
    assert!(Store::open_existing(folder.path(), 1 << 20).is_ok(), "fsck can open the store");
}

/// The write-ahead logs of a closed store, in the order of their numbers.
fn logs(folder: &TempDir) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect();
    logs.sort();
    logs
}

/// A closed store with a request in a log, and another one in the log after it.
fn store_with_two_logs() -> (TempDir, Vec<PathBuf>) {
    let folder = folder();
    let store = open(&folder);
    admit(&store, 1, 1);
    store.database().flush(crate::schema::family::QUEUE.name);
    admit(&store, 2, 2);
    drop(store);
    let logs = logs(&folder);
    assert_eq!(logs.len(), 2, "{logs:?}");
    (folder, logs)
}

/// A log that has another one behind it is complete up to the length that RocksDB has recorded: its
/// records were acknowledged.
#[test]
fn a_store_with_a_missing_or_short_older_log_is_refused() {
    let (folder, _) = store_with_two_logs();
    assert_eq!(open(&folder).open_requests().expect("the read succeeds").len(), 2);

    let refused = |folder: &TempDir, expected: &str| {
        let error = Store::open(folder.path(), &OpenOptions::new(DOMAIN)).err().expect("the store is refused");
        assert!(matches!(error, StoreError::Open { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let (folder, logs) = store_with_two_logs();
    std::fs::remove_file(&logs[0]).expect("the file is removed");
    refused(&folder, "WAL");
    let (folder, logs) = store_with_two_logs();
    let whole = std::fs::read(&logs[0]).expect("a file");
    std::fs::write(&logs[0], &whole[..whole.len() - 100]).expect("the log is cut off");
    refused(&folder, "were acknowledged");

    // The file has its length, and the records are gone: RocksDB opens the store without them.
    let (folder, logs) = store_with_two_logs();
    std::fs::write(&logs[0], vec![0; whole.len()]).expect("the log is filled with zeros");
    refused(&folder, "000004.log is damaged at byte 0, and the records after it were acknowledged");
    assert_eq!(std::fs::read(&logs[0]).expect("a file"), vec![0; whole.len()], "the check changes nothing");
}

/// Applied blocks are written without a sync. When RocksDB begins another log behind them and the
/// power fails before the next sync, the older log may lack their pages.
#[test]
fn an_older_log_may_lack_what_was_not_synced() {
    let folder = folder();
    let store = open(&folder);
    let log = logs(&folder).pop().expect("a log");
    let length = || usize::try_from(std::fs::metadata(&log).expect("a file").len()).expect("a length");
    admit(&store, 1, 1);
    let synced = length();
    let mut changes = Changes::default();
    for byte in 2..=100 {
        changes.append(admission_changes(u64::from(byte), entry(byte), None));
    }
    store.database().write(changes, false).expect("the changes are written");
    drop(store);
    let (page, written) = (4096, length());
    assert!(synced < page && page < written, "{synced}, {written}");
    let mut torn = std::fs::read(&log).expect("a file");
    torn[page..].fill(0);
    std::fs::write(&log, torn).expect("pages are lost");
    std::fs::write(log.with_file_name("000099.log"), []).expect("another log was begun");

    let store = open(&folder);
    assert_eq!(store.open_requests().expect("the read succeeds").len(), 1);
}
