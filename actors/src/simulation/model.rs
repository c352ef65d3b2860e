//! The simple model that a history is checked against: a list of accounts and a few lines of rules, nothing shared with the real
//! ones.

use std::collections::{BTreeMap, HashMap, HashSet};

use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::ledger::{Entry, RequestId};
use selfsame_protocol::registry::{Operation, RegistryView};
use selfsame_protocol::tree::{DEPTH, Root, empty_node, hash_pair};
use selfsame_protocol::{Address, B256};
use selfsame_storage::{LedgerReader, Place};

use super::people::{Answer, Desk};
use crate::RegistryHandle;

#[derive(Default)]
struct Account {
    slots: BTreeMap<PubkeyId, Address>,
    commitment: Commitment,
    nonce: u64,
}

/// All accounts; the first one has leaf index 1.
#[derive(Default)]
struct Model {
    accounts: Vec<Account>,
}

impl Model {
    fn is_taken(&self, address: Address) -> bool {
        self.accounts.iter().any(|account| account.slots.values().any(|taken| *taken == address))
    }

    /// Applies an operation; whether it may be.
    fn apply(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::CreateAccount(create) => {
                let addresses = &create.authenticator_addresses;
                if addresses.iter().any(|address| self.is_taken(*address)) {
                    return false;
                }
                let slots = (0..).map(PubkeyId).zip(addresses.iter().copied()).collect();
                self.accounts.push(Account { slots, commitment: create.offchain_signer_commitment, nonce: 0 });
            }
            Operation::InsertAuthenticator(insert) => {
                let is_taken = self.is_taken(insert.new_authenticator_address);
                let Some(account) = self.open(insert.leaf_index, insert.nonce, insert.old_offchain_signer_commitment)
                else {
                    return false;
                };
                if is_taken || account.slots.contains_key(&insert.pubkey_id) {
                    return false;
                }
                account.slots.insert(insert.pubkey_id, insert.new_authenticator_address);
                account.commitment = insert.new_offchain_signer_commitment;
                account.nonce += 1;
            }
            Operation::RemoveAuthenticator(remove) => {
                let Some(account) = self.open(remove.leaf_index, remove.nonce, remove.old_offchain_signer_commitment)
                else {
                    return false;
                };
                if account.slots.get(&remove.pubkey_id) != Some(&remove.authenticator_address) {
                    return false;
                }
                account.slots.remove(&remove.pubkey_id);
                account.commitment = remove.new_offchain_signer_commitment;
                account.nonce += 1;
            }
            other => panic!("nobody sends {:?}", other.kind()),
        }
        true
    }

    fn open(&mut self, leaf_index: LeafIndex, nonce: Nonce, commitment: Commitment) -> Option<&mut Account> {
        let account = self.accounts.get_mut(leaf_index.0.checked_sub(1)? as usize)?;
        (Nonce::from(account.nonce) == nonce && account.commitment == commitment).then_some(account)
    }

    /// The root, the long way: level by level.
    fn root(&self) -> B256 {
        let leaves = self.accounts.iter().map(|account| account.commitment.leaf());
        let mut level: Vec<_> = std::iter::once(empty_node(0)).chain(leaves).collect();
        for height in 0..DEPTH {
            if level.len() % 2 == 1 {
                level.push(empty_node(height));
            }
            level = level.chunks(2).map(|pair| hash_pair(&pair[0], &pair[1])).collect();
        }
        level[0]
    }
}

/// Checks a settled registry: all that was accepted is done, once, as the model does it, and nothing else is.
pub(super) fn check(registry: &RegistryHandle, ledger: &dyn LedgerReader, desk: &Desk, strangers: &[Entry]) {
    let mut expected: HashMap<RequestId, Operation> =
        strangers.iter().map(|entry| (entry.request_id, entry.operation.clone())).collect();
    let mut ends = HashMap::new();
    for (number, sent) in desk.sent().iter().enumerate() {
        if let Some(Answer::Accepted(request_id)) = sent.answer {
            let other = expected.insert(request_id, sent.operation.clone());
            assert!(other.is_none(), "{number}: {request_id} was given twice");
            ends.insert(request_id, sent.end.clone().expect("everything accepted has ended"));
        }
    }
    let mut model = Model::default();
    let mut walked = HashSet::new();
    let head = ledger.head();
    let mut previous = selfsame_protocol::ledger::Seal::default();
    for height in 1..=head.height {
        let block = ledger.block(height).expect("read").expect("a block");
        assert!(block.follows(&previous), "block {height} does not follow the one before");
        previous = selfsame_protocol::ledger::Seal::of(&block.header);
        for (position, entry) in (0..).zip(&block.entries) {
            let Entry { request_id, operation } = entry;
            assert!(walked.insert(*request_id), "{request_id} is in two blocks");
            assert_eq!(expected.get(request_id), Some(operation), "{request_id} is in block {height}; nobody sent it");
            let place = Place { height, position, block_hash: previous.hash };
            assert_eq!(ledger.place(request_id).expect("read"), Some(place));
            let is_applied = model.apply(operation);
            let receipt = registry.receipt(request_id).expect("read").expect("a receipt");
            receipt.verify().expect("it holds");
            if let Some(end) = ends.get(request_id) {
                let is_finalized = matches!(end, GatewayRequestState::Finalized { .. });
                assert_eq!(is_finalized, is_applied, "{request_id} of block {height}: {end:?}; the model disagrees");
            }
        }
        if height == head.height {
            assert_eq!(registry.snapshot().tip().root, Root(model.root()), "the root after block {height}");
        }
    }
    assert_eq!(walked.len(), expected.len(), "something accepted is in no block");
    compare(registry, &model);
}

/// The accounts that readers see are the model's.
fn compare(registry: &RegistryHandle, model: &Model) {
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.next_leaf_index(), LeafIndex(model.accounts.len() as u64 + 1));
    for (leaf_index, expected) in (1..).zip(&model.accounts) {
        let account = snapshot.account(LeafIndex(leaf_index)).expect("read").expect("an account");
        assert_eq!((account.nonce, account.commitment), (expected.nonce, expected.commitment), "account {leaf_index}");
        let slots = (0..).map(PubkeyId).zip(&account.slots);
        let held = slots.filter_map(|(slot, held)| Some((slot, held.as_ref()?.address))).collect();
        assert_eq!(expected.slots, held, "account {leaf_index}");
        for address in expected.slots.values() {
            let packed = snapshot.packed_account(*address).expect("read").expect("known");
            assert_eq!(packed.leaf_index, LeafIndex(leaf_index));
        }
        let path = snapshot.inclusion_path(LeafIndex(leaf_index)).expect("a path");
        assert_eq!(path.root_from(&expected.commitment.leaf()), snapshot.tip().root);
    }
    assert_eq!(registry.statistics().open_requests, 0, "nothing is open");
}
