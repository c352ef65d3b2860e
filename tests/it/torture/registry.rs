//! Clients of gateway and indexer: they make and change accounts, and keep what they are told of it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use selfsame_protocol::commitment::{MAX_AUTHENTICATORS, commitment, decompress_slots};
use selfsame_protocol::gateway::{GatewayRequestState, transaction_hash};
use selfsame_protocol::ids::{Commitment, LeafIndex, PubkeyId};
use selfsame_protocol::indexer::RootResponse;
use selfsame_protocol::ledger::{Outcome, Receipt, RequestId};
use selfsame_protocol::registry::Operation;
use selfsame_protocol::tree::Root;
use selfsame_wallet::account::{AccountError, Registry};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, Step, create_account};

use super::chance::Chance;
use super::desk::{Desk, Gone, answered, lock};
use crate::people::{PATIENCE, key};

/// Everything that was ever sent, and what came back.
#[derive(Default)]
pub struct Notes {
    pub requests: Mutex<Vec<Request>>,
    /// The roots of inclusion proofs that held.
    pub roots: Mutex<BTreeSet<Root>>,
    /// Where the registry stood.
    pub tips: Mutex<Vec<RootResponse>>,
}

/// A request. It stays what it is; what is known about it grows.
#[derive(Clone)]
pub struct Request {
    pub operation: Operation,
    /// The account's commitment once it is applied.
    pub commitment: Commitment,
    pub idempotency_key: [u8; 32],
    /// Known once it was accepted.
    pub request_id: Option<RequestId>,
    /// The hash of its block, once it was said to be finalized.
    transaction: Option<String>,
    receipt: Option<Receipt>,
    /// Whether it was looked at after a restart.
    pub is_checked: bool,
}

impl Request {
    /// Whether it was said to be final.
    pub fn was_final(&self) -> bool {
        self.transaction.is_some()
    }

    /// The account that it is about, once its receipt is there.
    fn leaf_index(&self) -> Option<LeafIndex> {
        match self.receipt.as_ref()?.outcome.outcome {
            Outcome::Applied { leaf_index } => Some(leaf_index),
            Outcome::Failed { .. } => None,
        }
    }
}

impl Notes {
    /// A request as it is known now.
    pub fn request(&self, number: usize) -> Request {
        lock(&self.requests)[number].clone()
    }

    fn write(&self, number: usize, note: impl FnOnce(&mut Request)) {
        note(&mut lock(&self.requests)[number]);
    }

    fn begin(&self, step: Step, chance: &mut Chance) -> usize {
        let mut requests = lock(&self.requests);
        requests.push(Request {
            operation: step.operation,
            commitment: step.after.commitment,
            idempotency_key: chance.bytes(),
            request_id: None,
            transaction: None,
            receipt: None,
            is_checked: false,
        });
        requests.len() - 1
    }
}

/// Makes accounts until the daemon is gone.
pub async fn make_accounts(desk: Arc<Desk>, name: String) -> Result<(), Gone> {
    let mut chance = desk.chance(&name);
    for number in 0.. {
        let mut sent = Vec::new();
        for brother in 0..=chance.below(4) {
            let person = key(&format!("{name}, account {number}.{brother}"));
            let step = create_account(&[person.authenticator()], Address::ZERO);
            sent.push(submit(&desk, step, &mut chance).await?);
        }
        let looked_at = sent[chance.below(sent.len())];
        look_at(&desk, looked_at).await?;
    }
    Ok(())
}

/// Changes one account, a step after the other, until the daemon is gone.
pub async fn change_account(desk: Arc<Desk>, name: String, owner: String) -> Result<(), Gone> {
    let mut chance = desk.chance(&name);
    let registry = of_wallet(Registry::connect(desk.client.clone()).await)?;
    let owner = key(&owner);
    loop {
        let step = match registry.account_of(owner.address()).await {
            Err(AccountError::NoAccount(_)) => create_account(&[owner.authenticator()], Address::ZERO),
            account => next_change(&registry, &of_wallet(account)?, &owner, &mut chance),
        };
        let number = submit(&desk, step, &mut chance).await?;
        look_at(&desk, number).await?;
    }
}

/// A guest comes or goes.
fn next_change(registry: &Registry, account: &AccountState, owner: &AuthenticatorKey, chance: &mut Chance) -> Step {
    let addresses = account.slots.iter().flatten().map(|slot| slot.address);
    let guests: Vec<Address> = addresses.filter(|address| *address != owner.address()).collect();
    let is_free = |slot: &u32| account.slots.get(*slot as usize).is_none_or(Option::is_none);
    let free: Vec<u32> = (0..MAX_AUTHENTICATORS as u32).filter(is_free).collect();
    let step = match (chance.one_of(&guests).copied(), chance.one_of(&free).copied()) {
        (Some(guest), None) => account.remove(registry.domain(), owner, guest),
        (Some(guest), _) if chance.one_in(2) => account.remove(registry.domain(), owner, guest),
        (_, slot) => {
            let guest = AuthenticatorKey::generate(&mut |bytes: &mut [u8; 32]| *bytes = chance.bytes());
            let guest = guest.expect("a key").authenticator();
            account.insert(registry.domain(), owner, guest, PubkeyId(slot.expect("a slot is free")))
        }
    };
    step.expect("the account allows it")
}

/// Submits an operation; the request's number in the notes.
async fn submit(desk: &Desk, step: Step, chance: &mut Chance) -> Result<usize, Gone> {
    let number = desk.registry.begin(step, chance);
    send(desk, number).await?;
    Ok(number)
}

/// Sends a request. If it was sent before, it is the same request again: its idempotency key says so.
pub async fn send(desk: &Desk, number: usize) -> Result<(), Gone> {
    let request = desk.registry.request(number);
    let answer = answered(desk.client.submit(&request.operation, &request.idempotency_key).await)?;
    let request_id = answer.request_id;
    assert!(request.request_id.is_none_or(|before| before == request_id), "{request_id} is another request");
    desk.registry.write(number, |request| request.request_id = Some(request_id));
    desk.told();
    Ok(())
}

/// Waits until an accepted request is final, then asks for everything that shows it.
async fn look_at(desk: &Desk, number: usize) -> Result<(), Gone> {
    expect_finalized(desk, number).await?;
    desk.told();
    expect_receipt(desk, number).await?;
    desk.told();
    let leaf_index = desk.registry.request(number).leaf_index().expect("the receipt is there");
    keep_inclusion_proof(desk, leaf_index).await?;
    let tip = answered(desk.client.root().await)?;
    lock(&desk.registry.tips).push(tip);
    desk.told();
    Ok(())
}

/// Waits until an accepted request is final: finalized, in the block that was named before.
pub async fn expect_finalized(desk: &Desk, number: usize) -> Result<(), Gone> {
    let request = desk.registry.request(number);
    let request_id = request.request_id.expect("it was accepted");
    match answered(desk.client.wait_final(request_id, PATIENCE).await)?.status {
        GatewayRequestState::Finalized { tx_hash } => {
            assert!(request.transaction.is_none_or(|before| before == tx_hash), "{request_id} is in another block");
            desk.registry.write(number, |request| request.transaction = Some(tx_hash));
        }
        state => panic!("{request_id} was good when it was sent: {state:?}"),
    }
    Ok(())
}

/// Asks for the receipt of a finalized request: it holds, is the request's own, and what it was before.
pub async fn expect_receipt(desk: &Desk, number: usize) -> Result<(), Gone> {
    let Request { operation, request_id, transaction, receipt: before, .. } = desk.registry.request(number);
    let request_id = request_id.expect("it was accepted");
    let receipt = answered(desk.client.receipt(request_id).await)?;
    receipt.verify().unwrap_or_else(|error| panic!("the receipt of {request_id}: {error}"));
    assert_eq!((receipt.request_id, receipt.kind), (request_id, operation.kind()));
    let body = serde_json::to_value(&operation).expect("JSON");
    assert_eq!(receipt.operation.body, body, "the receipt of {request_id} is of what was sent");
    assert_eq!(transaction, Some(transaction_hash(&receipt.block.hash)), "{request_id} is in the block that was named");
    match (&receipt.outcome.outcome, operation.leaf_index()) {
        (Outcome::Applied { leaf_index }, asked) => assert!(asked.is_none_or(|asked| asked == *leaf_index)),
        (failed, _) => panic!("{request_id}: {failed:?}"),
    }
    assert!(before.is_none_or(|before| before == receipt), "the receipt of {request_id} has changed");
    desk.tally.receipts.fetch_add(1, Ordering::Relaxed);
    desk.registry.write(number, |request| request.receipt = Some(receipt));
    Ok(())
}

/// Asks for an account's inclusion proof, which leads from the account's keys to its root, and keeps the root.
async fn keep_inclusion_proof(desk: &Desk, leaf_index: LeafIndex) -> Result<(), Gone> {
    let proof = answered(desk.client.inclusion_proof(leaf_index).await)?;
    let keys = decompress_slots(proof.authenticator_pubkeys.iter().copied()).expect("real keys");
    let path = proof.path().expect("thirty siblings");
    assert_eq!(path.root_from(&commitment(&keys).leaf()), proof.root, "the proof of account {leaf_index}");
    lock(&desk.registry.roots).insert(proof.root);
    desk.told();
    Ok(())
}

/// What a wallet was answered. A refusal is a failure of the daemon.
#[track_caller]
fn of_wallet<T>(answer: Result<T, AccountError>) -> Result<T, Gone> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(AccountError::Client(error)) => answered(Err(error)),
        Err(error) => panic!("{error}"),
    }
}
