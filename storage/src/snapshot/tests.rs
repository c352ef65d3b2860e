//! Snapshots that are held while blocks are applied, and what is kept in memory for them.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256, keccak256};
use proptest::prelude::*;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ids::{Commitment, CompressedKey, LeafIndex};
use selfsame_protocol::ledger::{Block, Entry, RequestId};
use selfsame_protocol::registry::{CreateAccount, Operation, RegistryView, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::{PageId, PageSource, inclusion_path};
use tempfile::TempDir;

use crate::database::{Changes, RecordSource};
use crate::recent::Recent;
use crate::schema::family;
use crate::tests::{commit, effects, folder, open};
use crate::{BlockWriter, EmbeddedLedger, LedgerReader, Snapshot, Store, StoreError};

/// The creation of the account with this number.
fn creation(number: u64) -> Operation {
    let operation = CreateAccount {
        recovery_address: Address::ZERO,
        authenticator_addresses: vec![Address::from_word(keccak256(number.to_be_bytes()))],
        authenticator_pubkeys: vec![CompressedKey(U256::from(number))],
        offchain_signer_commitment: Commitment(U256::from(number)),
    };
    operation.into()
}

/// Seals a block that creates so many accounts.
fn sealed(store: &Store, accounts: u64) -> Block {
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let first = store.snapshot().expect("a snapshot").next_leaf_index().0;
    let entry = |number: u64| Entry {
        request_id: RequestId::from_random(u128::from(number).to_be_bytes()),
        operation: creation(number),
    };
    let entries = (first..first + accounts).map(entry).collect();
    let head = ledger.head();
    let time = UnixSeconds(1_800_000_000 + head.height);
    let block = Block::seal(&head, store.domain(), time, RuleParameters::default(), entries);
    ledger.append_alone(&block).expect("the block is appended");
    block
}

fn apply(store: &Store, accounts: u64) {
    commit(store, &sealed(store, accounts)).expect("the block is committed");
}

/// A store with a block of so many accounts.
fn store_with(accounts: u64) -> (TempDir, Store) {
    let folder = folder();
    let store = open(&folder);
    apply(&store, accounts);
    (folder, store)
}

/// Asserts that the paths of some accounts lead to the snapshot's root, and are those that the
/// store's pages give.
fn expect_right_paths(snapshot: &Snapshot, store: &Store) {
    let accounts = snapshot.next_leaf_index().0 - 1;
    for leaf_index in (1..=accounts).step_by(37).chain([accounts]).map(LeafIndex) {
        let account = snapshot.account(leaf_index).expect("a read").expect("an account");
        let path = snapshot.inclusion_path(leaf_index).expect("a path");
        assert_eq!(path.root, snapshot.tip().root);
        assert_eq!(path.root_from(&account.commitment.leaf()), path.root, "{leaf_index:?}");
        assert_eq!(path, inclusion_path(snapshot, leaf_index).expect("a path"));
    }
    let ids = (0..=5).flat_map(|row| (0..3).map(move |index| PageId { row, index: index.min((1 << (5 * row)) - 1) }));
    for id in ids.filter(|_| store.snapshot().expect("a snapshot").tip() == snapshot.tip()) {
        let stored = store.database().get(&family::TREE_PAGES, &id).expect("a read");
        assert_eq!(snapshot.page(id).expect("a read"), stored, "{id:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_held_snapshot_gives_the_paths_of_its_own_block(blocks in prop::collection::vec(1..600_u64, 2..6)) {
        let (_folder, store) = store_with(700);
        let mut held = Vec::new();
        for accounts in blocks {
            held.push(store.snapshot().expect("a snapshot"));
            apply(&store, accounts);
        }
        held.push(store.snapshot().expect("a snapshot"));
        for snapshot in &held {
            prop_assert!(snapshot.upper_pages.is_some());
            expect_right_paths(snapshot, &store);
        }
    }
}

#[test]
fn the_upper_pages_are_read_again_after_a_restart() {
    let (folder, store) = store_with(1500);
    drop(store);
    let store = open(&folder);
    let snapshot = store.snapshot().expect("a snapshot");
    assert!(snapshot.upper_pages.is_some());
    expect_right_paths(&snapshot, &store);
    apply(&store, 40);
    expect_right_paths(&store.snapshot().expect("a snapshot"), &store);
}

#[test]
fn upper_pages_of_another_block_are_not_used() {
    let (_folder, store) = store_with(100);
    let before = *store.snapshot().expect("a snapshot").tip();
    // A commit that was reported as failed, and was written.
    let block = sealed(&store, 50);
    let of_block = effects(&store, &block);
    store.upper_pages().extend(&before, &of_block.tip, &of_block.pages);
    let old = store.snapshot().expect("a snapshot");
    assert!(old.upper_pages.is_none());
    expect_right_paths(&old, &store);
    commit(&store, &block).expect("the block is committed");
    let snapshot = store.snapshot().expect("a snapshot");
    assert!(snapshot.upper_pages.is_some(), "they are read again");
    expect_right_paths(&snapshot, &store);
}

#[test]
fn a_damaged_page_is_reported_by_the_reads_that_need_it() {
    for row in [0, 3, 5] {
        let (folder, store) = store_with(100);
        let id = PageId { row, index: 0 };
        let mut changes = Changes::default();
        changes.put_raw(family::TREE_PAGES.name, encode(&id), [0; 100]);
        store.database().write(changes, true).expect("written");
        drop(store);
        let store = open(&folder);
        let snapshot = store.snapshot().expect("a snapshot");
        let error = snapshot.inclusion_path(LeafIndex(7)).expect_err("a damaged page");
        assert!(matches!(error, StoreError::Damaged { family: "tree_pages", .. }), "{error}");
        assert!(snapshot.account(LeafIndex(7)).expect("a read").is_some());
    }
}

#[test]
fn a_read_from_memory_does_not_read_the_disk() {
    let (folder, store) = store_with(100);
    assert!(store.snapshot().expect("a snapshot").in_memory().account(LeafIndex(7)).expect("a write buffer").is_some());
    store.flush().expect("flushed");
    drop(store);
    let store = open(&folder);
    let snapshot = store.snapshot().expect("a snapshot");
    let unread = snapshot.in_memory().account(LeafIndex(7));
    assert!(matches!(unread, Err(StoreError::NotInMemory)), "{unread:?}");
    let unread = snapshot.in_memory().inclusion_path(LeafIndex(7));
    assert!(matches!(unread, Err(StoreError::NotInMemory)), "{unread:?}");
    let read = snapshot.on_disk().account(LeafIndex(7)).expect("a read");
    assert_eq!(snapshot.in_memory().account(LeafIndex(7)).expect("the cache has it"), read);
    assert!(matches!(store.request_in_memory(&RequestId::from_random([9; 16])), Ok(None)), "the filter says so");
}

#[test]
fn a_flushed_store_has_nothing_left_in_its_log() {
    let (folder, store) = store_with(100);
    let log_bytes = || {
        let files = std::fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file"));
        let logs = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
        logs.map(|log| log.metadata().expect("its length").len()).sum::<u64>()
    };
    assert!(log_bytes() > 10_000);
    store.flush().expect("flushed");
    let tip = *store.snapshot().expect("a snapshot").tip();
    drop(store);
    assert_eq!(log_bytes(), 0);
    let store = open(&folder);
    assert_eq!(*store.snapshot().expect("a snapshot").tip(), tip);
    store.stop_flushing();
}

/// Commits a block that creates so many accounts, and sets the nonces of others to its height.
fn apply_with_nonces(store: &Store, accounts: u64, changed: &[u64]) {
    let block = sealed(store, accounts);
    let mut effects = effects(store, &block);
    let before = store.snapshot().expect("a snapshot");
    for leaf_index in changed.iter().copied().map(LeafIndex) {
        let mut account = before.account(leaf_index).expect("a read").expect("an account");
        account.nonce = block.header.height;
        effects.accounts.insert(leaf_index, account);
    }
    BlockWriter::new(store.clone()).commit(&block, &effects).expect("the block is committed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_was_read_lately_is_that_of_the_snapshot(
        rounds in prop::collection::vec(
            (1..40_u64, prop::collection::vec(1..80_u64, 0..4), prop::collection::vec((any::<usize>(), 1..80_u64), 0..40)),
            1..8,
        ),
    ) {
        let (_folder, store) = store_with(80);
        let mut nonces: BTreeMap<u64, u64> = BTreeMap::new();
        let mut held = vec![(store.snapshot().expect("a snapshot"), nonces.clone())];
        for (accounts, changed, reads) in rounds {
            apply_with_nonces(&store, accounts, &changed);
            let snapshot = store.snapshot().expect("a snapshot");
            nonces.extend(changed.iter().map(|leaf_index| (*leaf_index, snapshot.tip().seal.height)));
            held.push((snapshot, nonces.clone()));
            for (which, leaf) in reads {
                let (snapshot, nonces) = &held[which % held.len()];
                let (reads, leaf_index) = (snapshot.in_memory(), LeafIndex(leaf));
                for _ in 0..3 {
                    let account = reads.account(leaf_index).expect("a read").expect("an account");
                    prop_assert_eq!(account.nonce, nonces.get(&leaf).copied().unwrap_or_default());
                    let path = reads.inclusion_path(leaf_index).expect("a path");
                    prop_assert_eq!(path.root_from(&account.commitment.leaf()), snapshot.tip().root);
                }
            }
        }
    }
}

#[test]
fn what_was_read_twice_is_in_memory_until_it_changes() {
    let (_folder, store) = store_with(100);
    let (leaf_index, snapshot) = (LeafIndex(7), store.snapshot().expect("a snapshot"));
    let read = |snapshot: &Snapshot| {
        let reads = snapshot.in_memory();
        (reads.account(leaf_index).map_err(|error| error.to_string()), reads.inclusion_path(leaf_index).ok())
    };
    let expected = read(&snapshot);
    assert_eq!(read(&snapshot), expected);
    let mut changes = Changes::default();
    changes.put_raw(family::ACCOUNTS.name, encode(&leaf_index), [1]);
    changes.put_raw(family::TREE_PAGES.name, encode(&PageId { row: 5, index: 0 }), [1]);
    store.database().write(changes, true).expect("written");
    drop(snapshot);
    assert_eq!(read(&store.snapshot().expect("a snapshot")), expected, "it is not read again");
    // The next account is in the fourth page of leaves, so a block changes the upper pages alone.
    apply(&store, 1);
    let snapshot = store.snapshot().expect("a snapshot");
    let (account, path) = read(&snapshot);
    assert_eq!(account, expected.0);
    let path = path.expect("its page is not read again");
    assert_eq!(path.root_from(&Commitment(U256::from(leaf_index.0)).leaf()), snapshot.tip().root);
    apply_with_nonces(&store, 1, &[leaf_index.0]);
    let changed = read(&store.snapshot().expect("a snapshot")).0;
    assert_eq!(changed.map(|account| account.map(|account| account.nonce)), Ok(Some(3)), "the height of the block");
}

#[test]
fn a_number_is_kept_when_it_is_offered_twice_in_a_row() {
    // 1 and 3 share a slot.
    let recent = Recent::with_slots(2);
    recent.offer(1, 10, &"one");
    assert_eq!(recent.get(1, 10), None);
    recent.offer(3, 10, &"three");
    recent.offer(1, 10, &"one");
    assert_eq!([1, 3].map(|number| recent.get(number, 10)), [None, None]);
    recent.offer(1, 10, &"one");
    recent.offer(3, 10, &"three");
    assert_eq!([1, 3].map(|number| recent.get(number, 10)), [Some("one"), None]);
    assert_eq!(recent.get(1, 9), None, "it was read after a later block");
    recent.announce(11, [3, 5]);
    assert_eq!([10, 11].map(|height| recent.get(1, height)), [Some("one"); 2]);
    recent.offer(3, 10, &"three");
    assert_eq!(recent.get(3, 10), None, "a later block is announced");
    recent.announce(12, [1]);
    assert_eq!(recent.get(1, 11), None);
}
