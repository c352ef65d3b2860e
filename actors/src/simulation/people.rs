//! The clients of a simulation: they ask for things, and write down what they were told.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::ledger::RequestId;
use selfsame_protocol::registry::{Operation, RegistryView};
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, create_account};

use super::chance::Chance;
use crate::{RegistryHandle, Submission, SubmitError};

/// Few, so that requests get into each other's way.
static KEYS: LazyLock<Vec<AuthenticatorKey>> = LazyLock::new(|| {
    let key = |number: u8| AuthenticatorKey::generate(&mut |seed: &mut [u8; 32]| *seed = [number; 32]);
    (1..=10).map(|number| key(number).expect("a key")).collect()
});

/// How long a client waits between two steps, at most.
const LEISURE: Duration = Duration::from_millis(50);

/// One request of a client.
#[derive(Clone)]
pub(super) struct Sent {
    pub operation: Operation,
    pub idempotency_key: String,
    /// The answer, if there was one that told whether it is accepted.
    pub answer: Option<Answer>,
    /// How far it was seen.
    pub seen: u8,
    /// The final state that was seen.
    pub end: Option<GatewayRequestState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted(RequestId),
    Refused,
}

/// Everything that was ever sent, and the course of events.
#[derive(Clone, Default)]
pub(super) struct Desk {
    sent: Arc<Mutex<Vec<Sent>>>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    pub fn sent(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, event: impl FnOnce() -> String) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event());
    }

    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The creation of an account with one or two of the known keys.
pub(super) fn some_creation(chance: &Chance) -> Operation {
    let first = chance.pick(&KEYS);
    let second = chance.pick(&KEYS);
    let mut authenticators = vec![first.authenticator()];
    if second.address() != first.address() && chance.once_in(3) {
        authenticators.push(second.authenticator());
    }
    create_account(&authenticators, Address::ZERO).operation
}

/// A change of an account as readers see it now: signed, and good unless somebody is faster.
fn some_change(registry: &RegistryHandle, chance: &Chance) -> Option<Operation> {
    let snapshot = registry.snapshot();
    let leaf_index = LeafIndex(1 + chance.below(snapshot.next_leaf_index().0));
    let account = snapshot.account(leaf_index).ok()??;
    let key = |address: Address| KEYS.iter().find(|key| key.address() == address);
    let slots = account.slots.iter().map(|slot| {
        let address = slot.as_ref()?.address;
        key(address).map(AuthenticatorKey::authenticator)
    });
    let state = AccountState::new(leaf_index, slots.collect(), Nonce::from(account.nonce));
    let mut held = state.slots.iter().flatten();
    let signer = key(held.next()?.address)?;
    let step = match held.next() {
        Some(other) if chance.once_in(2) => state.remove(&registry.domain(), signer, other.address),
        _ => {
            let new = chance.pick(&KEYS).authenticator();
            state.insert(&registry.domain(), signer, new, state.lowest_free_slot())
        }
    };
    step.ok().map(|step| step.operation)
}

/// One client: sends some requests, each until it is answered or patience ends, and looks at what becomes of them.
pub(super) async fn live(registry: RegistryHandle, chance: Chance, desk: Desk) {
    for _ in 0..=chance.below(12) {
        chance.pause(LEISURE).await;
        let change = if chance.once_in(2) { some_change(&registry, &chance) } else { None };
        let operation = change.unwrap_or_else(|| some_creation(&chance));
        let number = {
            let mut sent = desk.sent();
            let idempotency_key = format!("key {}", sent.len());
            sent.push(Sent { operation, idempotency_key, answer: None, seen: 0, end: None });
            sent.len() - 1
        };
        for _ in 0..=chance.below(3) {
            if send(&registry, &desk, number).await {
                break;
            }
            chance.pause(LEISURE).await;
        }
        for _ in 0..chance.below(4) {
            chance.pause(LEISURE).await;
            let looked_at = chance.below(number as u64 + 1) as usize;
            look(&registry, &desk, looked_at);
        }
    }
}

/// Sends a request once; whether it was answered for good.
pub(super) async fn send(registry: &RegistryHandle, desk: &Desk, number: usize) -> bool {
    let Sent { operation, idempotency_key, .. } = desk.sent()[number].clone();
    desk.note(|| format!("send {number}"));
    let submission = Submission { operation, source: None, idempotency_key: Some(idempotency_key) };
    let answer = match registry.submit(submission).await {
        Ok(accepted) => Answer::Accepted(accepted.request_id),
        Err(SubmitError::Rule(_) | SubmitError::Duplicate { .. } | SubmitError::Request(_)) => Answer::Refused,
        Err(error) => {
            desk.note(|| format!("{number}: {error}"));
            return false;
        }
    };
    desk.note(|| format!("{number}: {answer:?}"));
    let sent = &mut desk.sent()[number];
    if let Some(before) = sent.answer {
        // Whoever repeats an accepted request gets the same one again.
        assert!(before == answer || before == Answer::Refused, "{number}: {before:?}, then {answer:?}");
    }
    sent.answer = Some(answer);
    true
}

/// Looks at a request's state: it only goes forward, and an end is for ever.
pub(super) fn look(registry: &RegistryHandle, desk: &Desk, number: usize) -> bool {
    let Some(Answer::Accepted(request_id)) = desk.sent()[number].answer else { return true };
    let state = match registry.status(&request_id) {
        Ok(found) => found.unwrap_or_else(|| panic!("{number}: {request_id} was accepted and is not known")).status,
        // The simulated disk cannot be read at the moment.
        Err(_) => return false,
    };
    desk.note(|| format!("{number} is {state:?}"));
    let sent = &mut desk.sent()[number];
    let rank = match state {
        GatewayRequestState::Queued => 0,
        GatewayRequestState::Batching => 1,
        GatewayRequestState::Submitted { .. } => 2,
        GatewayRequestState::Finalized { .. } | GatewayRequestState::Failed { .. } => 3,
    };
    // A service that was started again counts whatever is open as being batched: that is forward, too.
    assert!(rank >= sent.seen, "{number} was seen at {} and now is {state:?}", sent.seen);
    sent.seen = rank;
    if rank < 3 {
        return false;
    }
    if let Some(end) = &sent.end {
        assert_eq!(*end, state, "{number} ended twice");
    }
    sent.end = Some(state);
    true
}
