//! The clients of a simulation: they send requests, and record the answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::Address;
use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ids::{LeafIndex, Nonce};
use selfsame_protocol::ledger::{RequestId, SignedHead, compare_heads};
use selfsame_protocol::registry::{Operation, RegistryView};
use selfsame_storage::EmbeddedRecords;
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, create_account};

use super::seeded_random::SeededRandom;
use crate::{RegistryHandle, Submission, SubmitError};

/// Few keys, so that requests conflict with each other.
static KEYS: LazyLock<Vec<AuthenticatorKey>> = LazyLock::new(|| {
    let key = |number: u8| AuthenticatorKey::generate(&mut |seed: &mut [u8; 32]| *seed = [number; 32]);
    (1..=10).map(|number| key(number).expect("the seed gives a key")).collect()
});

/// The longest pause of a client between two steps.
const MAX_CLIENT_PAUSE: Duration = Duration::from_millis(50);

/// One request of a client.
#[derive(Clone)]
pub(super) struct SentRequest {
    pub operation: Operation,
    pub idempotency_key: String,
    /// Whether the request was accepted; `None` before an answer says so.
    pub answer: Option<Answer>,
    /// When it was sent first, when its answer came, and when it was first seen as final.
    pub began: Option<u64>,
    pub ended: Option<u64>,
    pub seen_final: Option<u64>,
    /// The rank of the latest state that was observed; a final state has rank 3.
    pub rank_seen: u8,
    /// The final state, once it was observed.
    pub final_state: Option<GatewayRequestState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted(RequestId),
    Rejected(Refusal),
}

/// Why a request is refused for the registry's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A rule does not allow it.
    Rule,
    /// An open request holds an address or an account that it needs.
    Lock,
}

/// What clients use of a service.
#[derive(Clone)]
pub(super) struct LiveService {
    pub registry: RegistryHandle,
    pub records: EmbeddedRecords,
}

/// All requests that were sent, and the events of the history in their order.
#[derive(Clone, Default)]
pub(super) struct ClientLog {
    requests: Arc<Mutex<Vec<SentRequest>>>,
    events: Arc<Mutex<Vec<String>>>,
    heads: Arc<Mutex<BTreeMap<u64, SignedHead>>>,
    moments: Arc<AtomicU64>,
}

impl ClientLog {
    pub fn requests(&self) -> MutexGuard<'_, Vec<SentRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request that a client is about to send, and returns its number.
    pub fn add(&self, operation: Operation) -> usize {
        let mut requests = self.requests();
        let idempotency_key = format!("key {}", requests.len());
        requests.push(SentRequest {
            operation,
            idempotency_key,
            answer: None,
            began: None,
            ended: None,
            seen_final: None,
            rank_seen: 0,
            final_state: None,
        });
        requests.len() - 1
    }

    /// The signed heads that clients saw, by height.
    pub fn heads(&self) -> MutexGuard<'_, BTreeMap<u64, SignedHead>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number for the time of an event.
    pub fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a client has seen a request as final.
    pub fn note_final(&self, number: usize) {
        let moment = self.moment();
        self.requests()[number].seen_final.get_or_insert(moment);
    }

    pub fn note(&self, event: impl FnOnce() -> String) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event());
    }

    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The creation of an account with one or two of the keys.
pub(super) fn random_creation(random: &SeededRandom) -> Operation {
    let first = random.pick(&KEYS);
    let second = random.pick(&KEYS);
    let mut authenticators = vec![first.authenticator()];
    if second.address() != first.address() && random.once_in(3) {
        authenticators.push(second.authenticator());
    }
    create_account(&authenticators, Address::ZERO).operation
}

/// A signed change of a random account in its published state. It is valid unless another request
/// changes the account first.
pub(super) fn random_change(registry: &RegistryHandle, random: &SeededRandom) -> Option<Operation> {
    let snapshot = registry.snapshot();
    let leaf_index = LeafIndex(1 + random.below(snapshot.next_leaf_index().0));
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
        Some(other) if random.once_in(2) => state.remove(&registry.domain(), signer, other.address),
        _ => {
            let new = random.pick(&KEYS).authenticator();
            state.insert(&registry.domain(), signer, new, state.lowest_free_slot())
        }
    };
    step.ok().map(|step| step.operation)
}

/// One client. It sends each request until an answer arrives or its attempts are used up, and
/// observes the states of random requests.
pub(super) async fn run_client(registry: RegistryHandle, random: SeededRandom, log: ClientLog) {
    for _ in 0..=random.below(12) {
        random.pause(MAX_CLIENT_PAUSE).await;
        let change = if random.once_in(2) { random_change(&registry, &random) } else { None };
        let operation = change.unwrap_or_else(|| random_creation(&random));
        let number = log.add(operation);
        for _ in 0..=random.below(3) {
            if send(&registry, &log, number).await {
                break;
            }
            random.pause(MAX_CLIENT_PAUSE).await;
        }
        for _ in 0..random.below(4) {
            random.pause(MAX_CLIENT_PAUSE).await;
            let observed = random.below(number as u64 + 1) as usize;
            observe(&registry, &log, observed);
        }
        observe_head(&registry, &log).await;
    }
}

/// Sends a request once. Returns whether the answer says if it is accepted.
pub(super) async fn send(registry: &RegistryHandle, log: &ClientLog, number: usize) -> bool {
    let began = log.moment();
    log.requests()[number].began.get_or_insert(began);
    let SentRequest { operation, idempotency_key, .. } = log.requests()[number].clone();
    log.note(|| format!("send {number}"));
    let submission =
        Submission { operation, source: None, idempotency_key: Some(idempotency_key), proof_of_work: None };
    let answer = match registry.submit(submission).await {
        Ok(accepted) => Answer::Accepted(accepted.request_id),
        Err(SubmitError::Rule(_) | SubmitError::Request(_)) => Answer::Rejected(Refusal::Rule),
        Err(SubmitError::Duplicate { .. }) => Answer::Rejected(Refusal::Lock),
        Err(error) => {
            log.note(|| format!("{number}: {error}"));
            return false;
        }
    };
    log.note(|| format!("{number}: {answer:?}"));
    let ended = log.moment();
    let request = &mut log.requests()[number];
    request.ended.get_or_insert(ended);
    if let Some(before) = request.answer {
        // A client that repeats an accepted request gets the same request again.
        let may_change = matches!(before, Answer::Rejected(_));
        assert!(before == answer || may_change, "{number}: {before:?}, then {answer:?}");
    }
    request.answer = Some(answer);
    true
}

/// Observes a request's state and returns whether it is final. A state must not move backwards, and
/// a final state must not change.
pub(super) fn observe(registry: &RegistryHandle, log: &ClientLog, number: usize) -> bool {
    let Some(Answer::Accepted(request_id)) = log.requests()[number].answer else { return true };
    let state = match registry.status(&request_id) {
        Ok(found) => found.unwrap_or_else(|| panic!("{number}: {request_id} was accepted but has no record")).status,
        // The simulated disk refuses this read.
        Err(_) => return false,
    };
    log.note(|| format!("{number} is {state:?}"));
    let request = &mut log.requests()[number];
    let rank = match state {
        GatewayRequestState::Queued => 0,
        GatewayRequestState::Batching => 1,
        GatewayRequestState::Submitted { .. } => 2,
        GatewayRequestState::Finalized { .. } | GatewayRequestState::Failed { .. } => 3,
    };
    // A restarted service reports every open request as batching, which is not a step backwards.
    assert!(rank >= request.rank_seen, "request {number} had rank {} and is now {state:?}", request.rank_seen);
    request.rank_seen = rank;
    if rank < 3 {
        return false;
    }
    let moment = log.moment();
    request.seen_final.get_or_insert(moment);
    if let Some(final_state) = &request.final_state {
        assert_eq!(*final_state, state, "request {number} has a second final state");
    }
    request.final_state = Some(state);
    true
}

/// Asks for the signed head. In all runs of a history, a height has one head and there is one key.
pub(super) async fn observe_head(registry: &RegistryHandle, log: &ClientLog) {
    // The simulated disk may refuse to write the key.
    let Ok(signed) = registry.signed_head().await else { return };
    log.note(|| format!("head {}", signed.head.height));
    let mut heads = log.heads();
    for seen in heads.values() {
        assert_eq!(seen.public_key, signed.public_key, "the registry has another key");
    }
    let seen = *heads.entry(signed.head.height).or_insert(*signed);
    compare_heads(&seen, &signed).expect("heads of one registry");
    assert_eq!(seen, *signed, "another head was signed for this height");
}
