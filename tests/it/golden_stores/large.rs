//! Makes a store of some size, to measure long work with.

use std::path::PathBuf;

use alloy_primitives::{Address, B256};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::ids::LeafIndex;
use selfsame_protocol::ledger::{Block, Entry, RequestId, apply_block, recover_signers};
use selfsame_protocol::registry::{Operation, RuleParameters};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{BlockWriter, EmbeddedLedger, LedgerReader, OpenOptions, Store};
use selfsame_wallet::operations::{AccountState, create_account};

use crate::test_accounts::{creation, key};

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

/// Operations in a block.
const OPERATIONS: usize = 1024;

/// Seals operations into a block and applies it, as a block from elsewhere: its requests were not
/// admitted here.
struct Maker {
    store: Store,
    ledger: EmbeddedLedger,
    writer: BlockWriter,
    requests: u128,
}

impl Maker {
    fn block(&mut self, operations: impl IntoIterator<Item = Operation>) {
        let entries = operations.into_iter().map(|operation| {
            self.requests += 1;
            // Real ids are random, so their records are spread over the family.
            let hash = alloy_primitives::keccak256(self.requests.to_be_bytes());
            let mut id = [0; 16];
            id.copy_from_slice(&hash[..16]);
            Entry { request_id: RequestId::from_random(id), operation }
        });
        let entries: Vec<Entry> = entries.collect();
        let head = self.ledger.head();
        let time = UnixSeconds(1_800_000_000 + head.height);
        let block = Block::seal(&head, DOMAIN, time, RuleParameters::default(), entries);
        self.ledger.append_alone(&block).expect("appended");
        let snapshot = self.store.snapshot().expect("a snapshot");
        let signers = recover_signers(&block.entries, &DOMAIN);
        let effects = apply_block(&block, &signers, &snapshot, snapshot.tip()).expect("applied");
        assert!(effects.messages.is_empty(), "{:?}", effects.messages);
        self.writer.commit(&block, &effects).expect("committed");
    }
}

/// Run with `LARGE_STORE` naming a data folder that does not exist. Of the operations, a third
/// carry a signature.
#[test]
#[ignore = "makes files; see tests/golden_stores/README.md"]
fn a_large_store_is_made() {
    let data = PathBuf::from(std::env::var_os("LARGE_STORE").expect("LARGE_STORE names a folder"));
    let blocks: u64 = std::env::var("LARGE_STORE_BLOCKS").map_or(300, |text| text.parse().expect("a number"));
    std::fs::create_dir_all(data.join("store")).expect("a folder");
    let store = Store::open(&data.join("store"), &OpenOptions::new(DOMAIN)).expect("the store opens");
    let ledger = EmbeddedLedger::open(store.clone()).expect("the ledger opens");
    let mut maker = Maker { writer: BlockWriter::new(store.clone()), store, ledger, requests: 0 };
    let owners: Vec<_> = (0..OPERATIONS).map(|number| key(&format!("owner {number}"))).collect();
    let steps: Vec<_> = owners.iter().map(|owner| create_account(&[owner.authenticator()], Address::ZERO)).collect();
    let mut accounts: Vec<AccountState> = (1..)
        .zip(&steps)
        .map(|(leaf_index, step)| AccountState { leaf_index: LeafIndex(leaf_index), ..step.after.clone() })
        .collect();
    maker.block(steps.into_iter().map(|step| step.operation));
    let mut created = 0;
    for number in 1..blocks {
        if number % 3 != 0 {
            maker.block((created..created + OPERATIONS as u64).map(creation));
            created += OPERATIONS as u64;
            continue;
        }
        let agent = Address::from_word(B256::from(alloy_primitives::U256::from(number)));
        let steps = owners.iter().zip(&accounts).map(|(owner, account)| {
            let step = match number % 2 {
                0 => account.cancel_recovery_agent_update(&DOMAIN, owner),
                _ => account.update_recovery_agent(&DOMAIN, owner, agent),
            };
            step.expect("a step")
        });
        let steps: Vec<_> = steps.collect();
        accounts = steps.iter().map(|step| step.after.clone()).collect();
        maker.block(steps.into_iter().map(|step| step.operation));
    }
}
