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
use selfsame_storage::Records;
use selfsame_wallet::keys::AuthenticatorKey;
use selfsame_wallet::operations::{AccountState, create_account};

use crate::clock::Clock;
use crate::simulation::{EventLog, SeededRandom, SimulatedClock};
use crate::{RegistryHandle, Submission, SubmitError};

/// Few keys, so that requests conflict with each other.
static KEYS: LazyLock<Vec<AuthenticatorKey>> = LazyLock::new(|| {
    let key = |number: u8| AuthenticatorKey::generate(&mut |seed: &mut [u8; 32]| *seed = [number; 32]);
    (1..=10).map(|number| key(number).expect("the seed gives a key")).collect()
});

/// The longest pause of a fast client between two steps.
const MAX_CLIENT_PAUSE: Duration = Duration::from_millis(50);

/// How long the records of final requests, and idempotency keys, are kept by default.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// What expires is counted in whole seconds.
const SECOND: Duration = Duration::from_secs(1);

/// The addresses of all authenticators that there may be.
pub(super) fn addresses() -> impl Iterator<Item = Address> {
    KEYS.iter().map(AuthenticatorKey::address)
}

/// A request, and who signs it; `None` for kinds that are not signed.
#[derive(Clone)]
pub(super) struct SignedOperation {
    pub operation: Operation,
    pub signer: Option<Address>,
}

/// One request of a client.
#[derive(Clone)]
pub(super) struct SentRequest {
    pub signed: SignedOperation,
    pub idempotency_key: String,
    /// The accepted request whose key and operation this one has, too.
    pub repeats: Option<usize>,
    /// Whether the request was accepted; `None` before an answer says so.
    pub answer: Option<Answer>,
    /// When it was sent first, when its answer came, and when it was first seen as final.
    pub began: Option<u64>,
    pub ended: Option<u64>,
    pub seen_final: Option<u64>,
    /// The simulated time of the first and of the last attempt, and of the answer.
    pub began_at: Duration,
    pub last_at: Duration,
    pub ended_at: Duration,
    /// How often it was sent.
    pub attempts: u64,
    /// The rank of the latest state that was observed; a final state has rank 3.
    pub rank_seen: u8,
    /// The final state, once it was observed.
    pub final_state: Option<GatewayRequestState>,
    /// Whether its record was found to be deleted.
    pub is_gone: bool,
}

impl SentRequest {
    /// In how many more blocks it may be than in the one that its answer names: an attempt without
    /// an answer may have been recorded, and its key may have expired before a later attempt.
    pub fn more_executions(&self) -> u64 {
        let may_have_expired = self.last_at + SECOND >= self.began_at + RETENTION;
        if may_have_expired { self.attempts.saturating_sub(1) } else { 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted(RequestId),
    /// It is the request that it repeats.
    Same,
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
    pub records: Arc<dyn Records>,
}

/// All requests that were sent to a service, and the events of the history in their order.
#[derive(Clone)]
pub(super) struct ClientLog {
    clock: SimulatedClock,
    requests: Arc<Mutex<Vec<SentRequest>>>,
    events: EventLog,
    heads: Arc<Mutex<BTreeMap<u64, SignedHead>>>,
    moments: Arc<AtomicU64>,
    failed_reads: Arc<AtomicU64>,
}

impl ClientLog {
    /// No requests.
    pub fn new(clock: &SimulatedClock, events: &EventLog) -> Self {
        Self {
            clock: clock.clone(),
            events: events.clone(),
            requests: Arc::default(),
            heads: Arc::default(),
            moments: Arc::default(),
            failed_reads: Arc::default(),
        }
    }

    /// How many requests were accepted.
    pub fn accepted(&self) -> u64 {
        self.requests().iter().filter(|request| matches!(request.answer, Some(Answer::Accepted(_)))).count() as u64
    }

    /// Adds reads of the store that failed.
    pub fn add_failed_reads(&self, reads: u64) {
        self.failed_reads.fetch_add(reads, Ordering::Relaxed);
    }

    /// How many reads of the store failed.
    pub fn failed_reads(&self) -> u64 {
        self.failed_reads.load(Ordering::Relaxed)
    }

    pub fn requests(&self) -> MutexGuard<'_, Vec<SentRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request that a client is about to send, and returns its number.
    pub fn add(&self, signed: SignedOperation) -> usize {
        let key = format!("key {}", self.requests().len());
        self.add_with_key(signed, key, None)
    }

    /// Adds a request with the operation and the idempotency key of an accepted one, unless there
    /// is one already: the key stands for one of them at a time.
    pub fn add_repetition(&self, of: usize) -> Option<usize> {
        let SentRequest { signed, idempotency_key, repeats, answer, .. } = self.requests()[of].clone();
        let is_repeated = self.requests().iter().any(|request| request.repeats == Some(of));
        let may_repeat = matches!(answer, Some(Answer::Accepted(_))) && repeats.is_none() && !is_repeated;
        may_repeat.then(|| self.add_with_key(signed, idempotency_key, Some(of)))
    }

    fn add_with_key(&self, signed: SignedOperation, idempotency_key: String, repeats: Option<usize>) -> usize {
        let mut requests = self.requests();
        requests.push(SentRequest {
            signed,
            idempotency_key,
            repeats,
            answer: None,
            began: None,
            ended: None,
            seen_final: None,
            began_at: Duration::ZERO,
            last_at: Duration::ZERO,
            ended_at: Duration::ZERO,
            attempts: 0,
            rank_seen: 0,
            final_state: None,
            is_gone: false,
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
        self.events.note(event());
    }
}

/// The creation of an account with one or two of the keys; some have a recovery agent.
pub(super) fn random_creation(random: &SeededRandom) -> SignedOperation {
    let first = random.pick(&KEYS);
    let second = random.pick(&KEYS);
    let mut authenticators = vec![first.authenticator()];
    if second.address() != first.address() && random.once_in(3) {
        authenticators.push(second.authenticator());
    }
    let agent = if random.once_in(2) { random.pick(&KEYS).address() } else { Address::ZERO };
    SignedOperation { operation: create_account(&authenticators, agent).operation, signer: None }
}

/// A change of a random account in its published state. Most are valid unless another request
/// changes the account first.
pub(super) fn random_change(registry: &RegistryHandle, random: &SeededRandom) -> Option<SignedOperation> {
    let (snapshot, domain) = (registry.snapshot(), registry.domain());
    let leaf_index = LeafIndex(1 + random.below(snapshot.next_leaf_index().0));
    let account = snapshot.account(leaf_index).ok()??;
    let key = |address: Address| KEYS.iter().find(|key| key.address() == address);
    let slots = account.slots.iter().map(|slot| {
        let address = slot.as_ref()?.address;
        key(address).map(AuthenticatorKey::authenticator)
    });
    let state = AccountState::new(leaf_index, slots.collect(), Nonce::from(account.nonce));
    let held: Vec<Address> = state.slots.iter().flatten().map(|held| held.address).collect();
    let new = random.pick(&KEYS);
    let (has_pending, has_agent) = (account.pending_recovery_agent.is_some(), !account.recovery_agent.is_zero());
    if random.once_in(if has_pending { 2 } else { 20 }) {
        let operation = state.execute_recovery_agent_update().operation;
        return Some(SignedOperation { operation, signer: None });
    }
    let (step, signer) = if held.is_empty() || random.once_in(if has_agent { 4 } else { 20 }) {
        // The recovery agent recovers the account, or another key tries to.
        let agent = key(account.recovery_agent).unwrap_or(new);
        (state.recover(&domain, agent, random.pick(&KEYS).authenticator()), agent)
    } else {
        let signer = key(*random.pick(&held))?;
        let step = match random.below(8) {
            0 => state.remove(&domain, signer, *random.pick(&held)),
            1 => state.update(&domain, signer, new.authenticator()),
            2 => state.update_recovery_agent(&domain, signer, Address::ZERO),
            3 | 4 => state.update_recovery_agent(&domain, signer, new.address()),
            5 => state.cancel_recovery_agent_update(&domain, signer),
            _ => state.insert(&domain, signer, new.authenticator(), state.lowest_free_slot()),
        };
        (step, signer)
    };
    Some(SignedOperation { operation: step.ok()?.operation, signer: Some(signer.address()) })
}

/// A request of any kind.
pub(super) fn random_request(registry: &RegistryHandle, random: &SeededRandom) -> SignedOperation {
    let change = if random.below(4) > 0 { random_change(registry, random) } else { None };
    change.unwrap_or_else(|| random_creation(random))
}

/// One client. It sends each request until an answer arrives or its attempts are used up, sends
/// some accepted ones again, and observes the states of random requests. Its pauses are so many
/// times as long as those of a fast client.
pub(super) async fn run_client(registry: RegistryHandle, random: SeededRandom, log: ClientLog, pace: u32) {
    let pause = async || random.pause(MAX_CLIENT_PAUSE * pace).await;
    for _ in 0..=random.below(12) {
        pause().await;
        let sent = log.requests().len() as u64;
        let repeated = (random.once_in(4) && sent > 0).then(|| random.below(sent) as usize);
        let number = repeated.and_then(|repeated| log.add_repetition(repeated));
        let number = number.unwrap_or_else(|| log.add(random_request(&registry, &random)));
        for _ in 0..=random.below(3) {
            if send(&registry, &log, number).await {
                break;
            }
            pause().await;
        }
        for _ in 0..random.below(4) {
            pause().await;
            let observed = random.below(number as u64 + 1) as usize;
            observe(&registry, &log, observed);
        }
        observe_head(&registry, &log).await;
    }
}

/// Sends a request once. Returns whether the answer says if it is accepted.
pub(super) async fn send(registry: &RegistryHandle, log: &ClientLog, number: usize) -> bool {
    let (began, began_at) = (log.moment(), log.clock.now());
    let SentRequest { signed, idempotency_key, .. } = {
        let request = &mut log.requests()[number];
        if request.began.is_none() {
            (request.began, request.began_at) = (Some(began), began_at);
        }
        request.last_at = began_at;
        request.attempts += 1;
        request.clone()
    };
    log.note(|| format!("send {number}"));
    let submission = Submission { operation: signed.operation, source: None, idempotency_key: Some(idempotency_key) };
    let answer = match registry.submit(submission).await {
        Ok(accepted) => Answer::Accepted(accepted.request_id),
        Err(SubmitError::Rule(_) | SubmitError::Request(_)) => Answer::Rejected(Refusal::Rule),
        Err(SubmitError::Duplicate { .. }) => Answer::Rejected(Refusal::Lock),
        Err(error) => {
            log.note(|| format!("{number}: {error}"));
            return false;
        }
    };
    let ended_at = log.clock.now();
    let answer = check_repetition(log, number, answer, (began_at, ended_at));
    log.note(|| format!("{number}: {answer:?}"));
    let ended = log.moment();
    let request = &mut log.requests()[number];
    if request.ended.is_none() {
        (request.ended, request.ended_at) = (Some(ended), ended_at);
    }
    if let Some(before) = request.answer {
        // A client that repeats an accepted request gets the same request again.
        let may_change = matches!(before, Answer::Rejected(_));
        assert!(before == answer || may_change, "{number}: {before:?}, then {answer:?}");
    }
    request.answer = Some(answer);
    true
}

/// Checks the answer to a request that repeats another one: it is the same request as long as the
/// key is kept for certain, and none after that.
fn check_repetition(log: &ClientLog, number: usize, answer: Answer, (began, ended): (Duration, Duration)) -> Answer {
    let requests = log.requests();
    let Some(of) = requests[number].repeats else { return answer };
    let repeated = &requests[of];
    if repeated.answer == Some(answer) {
        assert!(began <= repeated.ended_at + RETENTION, "{number} repeats {of}, whose key had expired");
        return Answer::Same;
    }
    // The times of keys are whole seconds.
    let has_expired = ended + SECOND >= repeated.began_at + RETENTION;
    assert!(has_expired, "{number} repeats {of}, which was accepted: {:?}, then {answer:?}", repeated.answer);
    answer
}

/// Observes a request's state and returns whether it is final. A state must not move backwards, a
/// final state must not change, and the record must be kept as long as it has to be.
pub(super) fn observe(registry: &RegistryHandle, log: &ClientLog, number: usize) -> bool {
    let Some(Answer::Accepted(request_id)) = log.requests()[number].answer else { return true };
    let state = match registry.status(&request_id) {
        Ok(Some(found)) => found.status,
        Ok(None) => {
            log.note(|| format!("{number} is gone"));
            let request = &mut log.requests()[number];
            let may_be_gone = log.clock.now() + SECOND >= request.began_at + RETENTION;
            assert!(may_be_gone, "{number}: {request_id} was accepted but has no record");
            request.is_gone = true;
            return true;
        }
        // The simulated disk refuses this read.
        Err(_) => return false,
    };
    log.note(|| format!("{number} is {state:?}"));
    let request = &mut log.requests()[number];
    assert!(!request.is_gone, "request {number} was gone and is now {state:?}");
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
