//! The room that a check asks for, beside what it takes.

use std::path::Path;

use alloy_primitives::{Address, U256, keccak256};
use selfsame_protocol::ids::{Commitment, CompressedKey};
use selfsame_protocol::ledger::{Block, Entry, RequestId};
use selfsame_protocol::registry::{CreateAccount, RuleParameters};
use selfsame_protocol::time::UnixSeconds;

use super::check;
use crate::applied_blocks::admission_changes;
use crate::fsck::checks::{RecordHasher, Subject};
use crate::fsck::{CACHE, rebuilding};
use crate::ledger::LedgerReader;
use crate::progress::Together;
use crate::tests::{commit, folder, open};
use crate::{EmbeddedLedger, NoProgress, Store};

/// The bytes of all files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").metadata());
    files.map(|metadata| metadata.expect("a file").len()).sum()
}

/// The second store is written in whole here, as it is at the end of a check.
#[test]
fn the_room_that_a_check_asks_for_is_enough_for_the_second_store() {
    const BLOCKS: u64 = 50;
    const OPERATIONS: u64 = 80;
    let (of_store, of_scratch) = (folder(), folder());
    let store = open(&of_store);
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    for height in 0..BLOCKS {
        // Keys and addresses are as hard to compress as real ones.
        let entries: Vec<Entry> = (0..OPERATIONS)
            .map(|index| {
                let number = height * OPERATIONS + index;
                let random = keccak256(number.to_be_bytes());
                let operation = CreateAccount {
                    recovery_address: Address::from_word(keccak256(random)),
                    authenticator_addresses: vec![Address::from_word(random)],
                    authenticator_pubkeys: vec![CompressedKey(U256::from_be_bytes(random.0) >> 8)],
                    offchain_signer_commitment: Commitment(U256::from_be_bytes(random.0) >> 8),
                };
                let id = <[u8; 16]>::try_from(&random[..16]).expect("16 bytes");
                Entry { request_id: RequestId::from_random(id), operation: operation.into() }
            })
            .collect();
        for (index, entry) in entries.iter().enumerate() {
            let changes = admission_changes(height * OPERATIONS + index as u64 + 1, entry.clone(), None);
            store.database().write(changes, false).expect("admitted");
        }
        let (time, parameters) = (UnixSeconds(1000 + height), RuleParameters::default());
        let block = Block::seal(&ledger.head(), store.domain(), time, parameters, entries);
        ledger.append_alone(&block).expect("the block is appended");
        commit(&store, &block).expect("the block is committed");
    }
    drop((ledger, store));
    // The next open writes the log into tables, whose sizes the room depends on.
    let store = open(&of_store);
    let needed = rebuilding::room_needed(&store).expect("estimated");
    let rebuilt = Store::create_scratch(of_scratch.path(), CACHE, store.domain()).expect("made");
    let hasher = RecordHasher::default();
    let subject = Subject::read(&store, &hasher).expect("the marks are read");
    let history = rebuilding::rebuild(&subject, &rebuilt, &Together::new(&NoProgress)).expect("the blocks are applied");
    assert!(history.is_whole && history.operations == BLOCKS * OPERATIONS);
    drop(rebuilt);
    let taken = bytes_in(of_scratch.path());
    assert!(taken > 1 << 20, "{taken} bytes are written");
    assert!((taken * 5 / 4..taken * 4 + (8 << 20)).contains(&needed), "{needed} bytes are asked for, {taken} taken");
    assert_eq!(check(&store).findings, Vec::<String>::new());
}
