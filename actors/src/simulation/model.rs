//! The simple model that a history is checked against: a list of accounts and a few rules. It
//! shares no code with the real registry.

use std::collections::{BTreeMap, HashMap, HashSet};

use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{Commitment, LeafIndex, Nonce, PubkeyId};
use selfsame_protocol::ledger::{Entry, RequestId};
use selfsame_protocol::registry::{Lock, Operation, RegistryView};
use selfsame_protocol::tree::{DEPTH, Root, empty_node, hash_pair};
use selfsame_protocol::{Address, B256};
use selfsame_storage::{LedgerReader, Place};

use super::clients::{Answer, ClientLog, Refusal};
use super::ledger::ForeignEntry;
use super::linearizability::{Call, SequentialObject, linearize};
use crate::RegistryHandle;

#[derive(Clone, Default)]
struct ModelAccount {
    slots: BTreeMap<PubkeyId, Address>,
    commitment: Commitment,
    nonce: u64,
}

/// All accounts; the first one has leaf index 1.
#[derive(Clone, Default)]
struct RegistryModel {
    accounts: Vec<ModelAccount>,
}

impl RegistryModel {
    fn is_taken(&self, address: Address) -> bool {
        self.accounts.iter().any(|account| account.slots.values().any(|taken| *taken == address))
    }

    /// Applies an operation. Returns whether the rules allow it.
    fn apply(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::CreateAccount(create) => {
                let addresses = &create.authenticator_addresses;
                if addresses.iter().any(|address| self.is_taken(*address)) {
                    return false;
                }
                let slots = (0..).map(PubkeyId).zip(addresses.iter().copied()).collect();
                self.accounts.push(ModelAccount { slots, commitment: create.offchain_signer_commitment, nonce: 0 });
            }
            Operation::InsertAuthenticator(insert) => {
                let is_taken = self.is_taken(insert.new_authenticator_address);
                let Some(account) =
                    self.account_to_change(insert.leaf_index, insert.nonce, insert.old_offchain_signer_commitment)
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
                let Some(account) =
                    self.account_to_change(remove.leaf_index, remove.nonce, remove.old_offchain_signer_commitment)
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
            other => panic!("no simulated client sends {:?}", other.kind()),
        }
        true
    }

    fn account_to_change(
        &mut self,
        leaf_index: LeafIndex,
        nonce: Nonce,
        commitment: Commitment,
    ) -> Option<&mut ModelAccount> {
        let account = self.accounts.get_mut(leaf_index.0.checked_sub(1)? as usize)?;
        (Nonce::from(account.nonce) == nonce && account.commitment == commitment).then_some(account)
    }

    /// The root by its definition, computed level by level.
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

/// Checks a registry without open requests: every accepted request was executed exactly once with
/// the result of the model, and nothing else was executed.
pub(super) fn check_history(
    registry: &RegistryHandle,
    ledger: &dyn LedgerReader,
    log: &ClientLog,
    foreign_entries: &[ForeignEntry],
) {
    let is_in_ledger = |foreign: &&ForeignEntry| {
        foreign.is_reported || ledger.place(&foreign.entry.request_id).expect("the read succeeds").is_some()
    };
    let foreign = foreign_entries.iter().filter(is_in_ledger).map(|foreign| &foreign.entry);
    let mut expected: HashMap<RequestId, Operation> =
        foreign.map(|entry| (entry.request_id, entry.operation.clone())).collect();
    let mut final_states = HashMap::new();
    for (number, request) in log.requests().iter().enumerate() {
        if let Some(Answer::Accepted(request_id)) = request.answer {
            let other = expected.insert(request_id, request.operation.clone());
            assert!(other.is_none(), "{number}: {request_id} was assigned twice");
            final_states.insert(request_id, request.final_state.clone().expect("every accepted request is final"));
        }
    }
    let mut model = RegistryModel::default();
    let mut walked = HashSet::new();
    let head = ledger.head();
    assert!(log.heads().keys().all(|height| *height <= head.height), "a head was signed that the ledger lacks");
    let mut previous = selfsame_protocol::ledger::Seal::default();
    for height in 1..=head.height {
        let block = ledger.block(height).expect("the read succeeds").expect("the block exists");
        assert!(block.follows(&previous), "block {height} does not follow the previous block");
        previous = selfsame_protocol::ledger::Seal::of(&block.header);
        if let Some(signed) = log.heads().get(&height) {
            assert_eq!(signed.head.block_hash, previous.hash, "the signed head of block {height} is of another block");
        }
        for (position, entry) in (0..).zip(&block.entries) {
            let Entry { request_id, operation } = entry;
            assert!(walked.insert(*request_id), "{request_id} is in two blocks");
            assert_eq!(
                expected.get(request_id),
                Some(operation),
                "{request_id} is in block {height}, but no client sent it"
            );
            let place = Place { height, position, block_hash: previous.hash };
            assert_eq!(ledger.place(request_id).expect("the read succeeds"), Some(place));
            let is_applied = model.apply(operation);
            let receipt = registry.receipt(request_id, None).expect("the read succeeds").expect("the receipt exists");
            receipt.verify().expect("the receipt verifies");
            if let Some(final_state) = final_states.get(request_id) {
                let is_finalized = matches!(final_state, GatewayRequestState::Finalized { .. });
                assert_eq!(
                    is_finalized, is_applied,
                    "{request_id} of block {height}: {final_state:?}, but the model has another result"
                );
            }
        }
        if height == head.height {
            assert_eq!(registry.snapshot().tip().root, Root(model.root()), "the root after block {height}");
        }
    }
    assert_eq!(walked.len(), expected.len(), "an accepted request is in no block");
    check_accounts(registry, &model);
}

/// The registry as one object: it accepts requests in the order of the ledger, and refuses what the
/// rules of the model do not allow after those that it has accepted, or what needs a lock of one of
/// these that no client has seen as final before.
struct Admission {
    order: Vec<Accepted>,
    /// The registry before the first of them, and after each.
    models: Vec<RegistryModel>,
}

/// An accepted request.
struct Accepted {
    number: usize,
    locks: Vec<Lock>,
    seen_final: Option<u64>,
}

/// A request with its answer.
#[derive(Clone, Debug)]
struct Submitted {
    number: usize,
    operation: Operation,
    answer: Answer,
    began: u64,
}

impl SequentialObject for Admission {
    /// How many requests have been accepted.
    type State = usize;
    type Call = Submitted;

    fn serve(&self, accepted: &usize, call: &Submitted) -> Option<usize> {
        match call.answer {
            Answer::Accepted(_) => {
                let is_next = self.order.get(*accepted).is_some_and(|next| next.number == call.number);
                is_next.then_some(accepted + 1)
            }
            Answer::Rejected(Refusal::Rule) => {
                let is_allowed = self.models[*accepted].clone().apply(&call.operation);
                (!is_allowed).then_some(*accepted)
            }
            Answer::Rejected(Refusal::Lock) => {
                let needed = call.operation.locks();
                let is_open = |before: &&Accepted| before.seen_final.is_none_or(|seen| seen > call.began);
                let mut held = self.order[..*accepted].iter().filter(is_open).flat_map(|open| &open.locks);
                held.any(|lock| needed.contains(lock)).then_some(*accepted)
            }
        }
    }

    fn is_read(&self, call: &Submitted) -> bool {
        matches!(call.answer, Answer::Rejected(_))
    }
}

/// Checks that the answers of all services together are those of one registry that looks at one
/// request after the other: each at one moment between its first attempt and its answer.
pub(super) fn check_admission(ledger: &dyn LedgerReader, log: &ClientLog) {
    let (mut numbers, mut calls) = (HashMap::new(), Vec::new());
    for (number, request) in log.requests().iter().enumerate() {
        let Some((answer, began)) = request.answer.zip(request.began) else { continue };
        if let Answer::Accepted(request_id) = answer {
            numbers.insert(request_id, (number, request.seen_final));
        }
        let content = Submitted { number, operation: request.operation.clone(), answer, began };
        calls.push(Call { content, began, ended: request.ended });
    }
    let (mut order, mut models) = (Vec::new(), vec![RegistryModel::default()]);
    for height in 1..=ledger.head().height {
        let block = ledger.block(height).expect("the read succeeds").expect("the block exists");
        for Entry { request_id, operation } in &block.entries {
            let mut model = models[order.len()].clone();
            model.apply(operation);
            let (number, seen_final) = numbers[request_id];
            order.push(Accepted { number, locks: operation.locks(), seen_final });
            models.push(model);
        }
    }
    if let Err(unexplained) = linearize(&Admission { order, models }, 0, &calls) {
        let unexplained: Vec<_> = unexplained.into_iter().map(|index| &calls[index]).collect();
        panic!("the answers are not those of one registry: {unexplained:#?}");
    }
}

/// Checks that the published accounts are those of the model.
fn check_accounts(registry: &RegistryHandle, model: &RegistryModel) {
    let snapshot = registry.snapshot();
    assert_eq!(snapshot.next_leaf_index(), LeafIndex(model.accounts.len() as u64 + 1));
    for (leaf_index, expected) in (1..).zip(&model.accounts) {
        let account = snapshot.account(LeafIndex(leaf_index)).expect("the read succeeds").expect("the account exists");
        assert_eq!((account.nonce, account.commitment), (expected.nonce, expected.commitment), "account {leaf_index}");
        let slots = (0..).map(PubkeyId).zip(&account.slots);
        let held = slots.filter_map(|(slot, held)| Some((slot, held.as_ref()?.address))).collect();
        assert_eq!(expected.slots, held, "account {leaf_index}");
        for address in expected.slots.values() {
            let packed = snapshot.packed_account(*address).expect("the read succeeds").expect("the address is in use");
            assert_eq!(packed.leaf_index, LeafIndex(leaf_index));
        }
        let path = snapshot.inclusion_path(LeafIndex(leaf_index)).expect("the path exists");
        assert_eq!(path.root_from(&expected.commitment.leaf()), snapshot.tip().root);
    }
    assert_eq!(registry.statistics().open_requests, 0, "no request is open");
}
