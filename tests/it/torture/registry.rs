//! Clients of gateway and indexer: they create and change accounts, and record the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use selfsame_protocol::commitment::{MAX_AUTHENTICATORS, commitment, decompress_slots};
use selfsame_protocol::gateway::{GatewayRequestState, transaction_hash};
use selfsame_protocol::ids::{Commitment, LeafIndex, PubkeyId};
use selfsame_protocol::indexer::RootResponse;
use selfsame_protocol::ledger::{HeadComparison, Outcome, Receipt, RequestId, SignedHead, compare_heads};
use selfsame_protocol::registry::Operation;
use selfsame_protocol::tree::Root;
use selfsame_wallet::account::{AccountError, Registry};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, Step, create_account};

use super::choices::CrashChoices;
use super::context::{CrashTestContext, DaemonGone, answered, lock};
use crate::harness::PATIENCE;
use crate::test_accounts::key;

/// Every request that was sent, and its answers.
#[derive(Default)]
pub struct RegistryNotes {
    pub requests: Mutex<Vec<RecordedRequest>>,
    /// The roots of inclusion proofs that verified.
    pub roots: Mutex<BTreeSet<Root>>,
    /// The answers of `/root`.
    pub tips: Mutex<Vec<RootResponse>>,
    /// The signed heads, by height.
    pub heads: Mutex<BTreeMap<u64, SignedHead>>,
}

/// A request. What is known about it grows.
#[derive(Clone)]
pub struct RecordedRequest {
    pub operation: Operation,
    /// The account's commitment after the request is applied.
    pub commitment: Commitment,
    pub idempotency_key: [u8; 32],
    /// The id, once the request was accepted.
    pub request_id: Option<RequestId>,
    /// The hash of its block, once an answer said that it is finalized.
    transaction: Option<String>,
    receipt: Option<Receipt>,
    /// Whether it was checked after a restart.
    pub is_checked: bool,
}

impl RecordedRequest {
    /// Whether an answer said that it is final.
    pub fn was_final(&self) -> bool {
        self.transaction.is_some()
    }

    /// The account that it is about, once there is a receipt.
    fn leaf_index(&self) -> Option<LeafIndex> {
        match self.receipt.as_ref()?.outcome.outcome {
            Outcome::Applied { leaf_index } => Some(leaf_index),
            Outcome::Failed { .. } => None,
        }
    }
}

impl RegistryNotes {
    /// A copy of the request's record.
    pub fn request(&self, number: usize) -> RecordedRequest {
        lock(&self.requests)[number].clone()
    }

    fn write(&self, number: usize, note: impl FnOnce(&mut RecordedRequest)) {
        note(&mut lock(&self.requests)[number]);
    }

    fn begin(&self, step: Step, choices: &mut CrashChoices) -> usize {
        let mut requests = lock(&self.requests);
        requests.push(RecordedRequest {
            operation: step.operation,
            commitment: step.after.commitment,
            idempotency_key: choices.bytes(),
            request_id: None,
            transaction: None,
            receipt: None,
            is_checked: false,
        });
        requests.len() - 1
    }
}

/// Creates accounts until the daemon is gone.
pub async fn make_accounts(context: Arc<CrashTestContext>, name: String) -> Result<(), DaemonGone> {
    let mut choices = context.choices(&name);
    for number in 0.. {
        let mut sent = Vec::new();
        for brother in 0..=choices.below(4) {
            let person = key(&format!("{name}, account {number}.{brother}"));
            let step = create_account(&[person.authenticator()], Address::ZERO);
            sent.push(submit(&context, step, &mut choices).await?);
        }
        let looked_at = sent[choices.below(sent.len())];
        look_at(&context, looked_at).await?;
    }
    Ok(())
}

/// Changes one account step by step until the daemon is gone.
pub async fn change_account(context: Arc<CrashTestContext>, name: String, owner: String) -> Result<(), DaemonGone> {
    let mut choices = context.choices(&name);
    let registry = of_wallet(Registry::connect(context.client.clone()).await)?;
    let owner = key(&owner);
    loop {
        let step = match registry.account_of(owner.address()).await {
            Err(AccountError::NoAccount(_)) => create_account(&[owner.authenticator()], Address::ZERO),
            account => next_change(&registry, &of_wallet(account)?, &owner, &mut choices),
        };
        let number = submit(&context, step, &mut choices).await?;
        look_at(&context, number).await?;
    }
}

/// Inserts or removes a guest's authenticator.
fn next_change(
    registry: &Registry,
    account: &AccountState,
    owner: &AuthenticatorKey,
    choices: &mut CrashChoices,
) -> Step {
    let addresses = account.slots.iter().flatten().map(|slot| slot.address);
    let guests: Vec<Address> = addresses.filter(|address| *address != owner.address()).collect();
    let is_free = |slot: &u32| account.slots.get(*slot as usize).is_none_or(Option::is_none);
    let free: Vec<u32> = (0..MAX_AUTHENTICATORS as u32).filter(is_free).collect();
    let step = match (choices.one_of(&guests).copied(), choices.one_of(&free).copied()) {
        (Some(guest), None) => account.remove(registry.domain(), owner, guest),
        (Some(guest), _) if choices.one_in(2) => account.remove(registry.domain(), owner, guest),
        (_, slot) => {
            let guest = AuthenticatorKey::generate(&mut |bytes: &mut [u8; 32]| *bytes = choices.bytes());
            let guest = guest.expect("a key").authenticator();
            account.insert(registry.domain(), owner, guest, PubkeyId(slot.expect("a slot is free")))
        }
    };
    step.expect("the account allows it")
}

/// Submits an operation; returns the request's number in the record.
async fn submit(context: &CrashTestContext, step: Step, choices: &mut CrashChoices) -> Result<usize, DaemonGone> {
    let number = context.registry.begin(step, choices);
    send(context, number).await?;
    Ok(number)
}

/// Sends a request. When it was sent before, its idempotency key makes it the same request.
pub async fn send(context: &CrashTestContext, number: usize) -> Result<(), DaemonGone> {
    let request = context.registry.request(number);
    let answer = answered(context.client.submit(&request.operation, &request.idempotency_key).await)?;
    let request_id = answer.request_id;
    assert!(request.request_id.is_none_or(|before| before == request_id), "{request_id} is another request");
    context.registry.write(number, |request| request.request_id = Some(request_id));
    context.count_answer();
    Ok(())
}

/// Waits until an accepted request is final, then reads everything that shows it.
async fn look_at(context: &CrashTestContext, number: usize) -> Result<(), DaemonGone> {
    expect_finalized(context, number).await?;
    context.count_answer();
    expect_receipt(context, number).await?;
    context.count_answer();
    let leaf_index = context.registry.request(number).leaf_index().expect("a receipt");
    keep_inclusion_proof(context, leaf_index).await?;
    let tip = answered(context.client.root().await)?;
    lock(&context.registry.tips).push(tip);
    context.count_answer();
    keep_head(context).await
}

/// Reads the signed head: it is the only one of its height, and of the same key as all others.
pub async fn keep_head(context: &CrashTestContext) -> Result<(), DaemonGone> {
    let Some(signed) = context.unless_put_off(context.client.head().await)? else { return Ok(()) };
    let mut heads = lock(&context.registry.heads);
    let newest = heads.last_key_value().map(|(_, newest)| *newest);
    let before = [heads.get(&signed.head.height).copied(), newest];
    for before in before.into_iter().flatten() {
        let comparison = compare_heads(&before, &signed).expect("heads of one registry");
        assert_ne!(comparison, HeadComparison::Contradiction, "{before:?} and {signed:?}");
    }
    heads.insert(signed.head.height, signed);
    context.count_answer();
    Ok(())
}

/// Waits until an accepted request is final: it must be finalized, in the block that was named
/// before.
pub async fn expect_finalized(context: &CrashTestContext, number: usize) -> Result<(), DaemonGone> {
    let request = context.registry.request(number);
    let request_id = request.request_id.expect("it was accepted");
    match answered(context.client.wait_final(request_id, PATIENCE).await)?.status {
        GatewayRequestState::Finalized { tx_hash } => {
            assert!(request.transaction.is_none_or(|before| before == tx_hash), "{request_id} is in another block");
            context.registry.write(number, |request| request.transaction = Some(tx_hash));
        }
        state => panic!("{request_id} was good when it was sent: {state:?}"),
    }
    Ok(())
}

/// Reads the receipt of a finalized request: it verifies, belongs to the request, and has not
/// changed.
pub async fn expect_receipt(context: &CrashTestContext, number: usize) -> Result<(), DaemonGone> {
    let RecordedRequest { operation, request_id, transaction, receipt: before, .. } = context.registry.request(number);
    let request_id = request_id.expect("it was accepted");
    let receipt = answered(context.client.receipt(request_id).await)?;
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
    context.counts.receipts.fetch_add(1, Ordering::Relaxed);
    context.registry.write(number, |request| request.receipt = Some(receipt));
    Ok(())
}

/// Reads an account's inclusion proof, which must lead from the account's keys to its root, and
/// records the root.
async fn keep_inclusion_proof(context: &CrashTestContext, leaf_index: LeafIndex) -> Result<(), DaemonGone> {
    let proof = answered(context.client.inclusion_proof(leaf_index).await)?;
    let keys = decompress_slots(proof.authenticator_pubkeys.iter().copied()).expect("keys of the curve");
    let path = proof.path().expect("thirty siblings");
    assert_eq!(path.root_from(&commitment(&keys).leaf()), proof.root, "the proof of account {leaf_index}");
    lock(&context.registry.roots).insert(proof.root);
    context.count_answer();
    Ok(())
}

/// The answer to a wallet. A refusal is a failure of the daemon.
#[track_caller]
fn of_wallet<T>(answer: Result<T, AccountError>) -> Result<T, DaemonGone> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(AccountError::Client(error)) => answered(Err(error)),
        Err(error) => panic!("{error}"),
    }
}
