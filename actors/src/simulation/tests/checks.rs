//! What the requests of a history are checked for.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use selfsame_protocol::gateway::GatewayRequestState;
use selfsame_protocol::ledger::{Entry, RequestId, Seal};
use selfsame_protocol::registry::{Lock, OperationKind};
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{LedgerReader, NoProgress, Place, Store, fsck};

use super::clients::{Answer, ClientLog, Refusal, SentRequest, SignedOperation};
use super::intruder::ForeignEntry;
use super::linearizability::{Call, SequentialObject, linearize};
use super::model::{Planted, RegistryModel};
use crate::RegistryHandle;

/// The requests that a ledger may and must have.
struct Expected {
    /// Those that were accepted, and those of other appenders.
    requests: HashMap<RequestId, SignedOperation>,
    /// Requests of which attempts had no answer, with the number of attempts that may have been
    /// recorded beside the one that was answered.
    possible: Vec<(SignedOperation, u64)>,
}

impl Expected {
    fn of(logs: &[&ClientLog], ledger: &dyn LedgerReader, foreign_entries: &[ForeignEntry]) -> Self {
        let is_in_ledger = |foreign: &&ForeignEntry| {
            foreign.is_reported || ledger.place(&foreign.entry.request_id).expect("the read succeeds").is_some()
        };
        let foreign = foreign_entries.iter().filter(is_in_ledger).map(|foreign| foreign.entry.clone());
        let unsigned = |operation| SignedOperation { operation, signer: None };
        let foreign = foreign.map(|entry| (entry.request_id, unsigned(entry.operation)));
        let (mut requests, mut possible) = (foreign.collect::<HashMap<_, _>>(), Vec::new());
        for (number, request) in logs.iter().flat_map(|log| log.requests().clone()).enumerate() {
            possible.push((request.signed.clone(), request.more_executions()));
            if let Some(Answer::Accepted(request_id)) = request.answer {
                let other = requests.insert(request_id, request.signed);
                assert!(other.is_none(), "{number}: {request_id} was assigned twice");
            }
        }
        Self { requests, possible }
    }

    /// Takes the request of an entry of a block.
    fn take(&mut self, entry: &Entry) -> Option<SignedOperation> {
        if let Some(signed) = self.requests.remove(&entry.request_id) {
            return (signed.operation == entry.operation).then_some(signed);
        }
        let mut possible = self.possible.iter_mut();
        let (signed, left) = possible.find(|(signed, left)| *left > 0 && signed.operation == entry.operation)?;
        *left -= 1;
        Some(signed.clone())
    }
}

/// Checks a registry without open requests: every accepted request was executed exactly once with
/// the result of the model, and nothing else was executed. Its clients are those of `log`; those of
/// the other logs used services on the same ledger.
pub(super) fn check_history(
    registry: &RegistryHandle,
    ledger: &dyn LedgerReader,
    log: &ClientLog,
    others: &[&ClientLog],
    foreign_entries: &[ForeignEntry],
    planted: Planted,
) {
    let logs = [&[log][..], others].concat();
    let mut expected = Expected::of(&logs, ledger, foreign_entries);
    let mut final_states = HashMap::new();
    for request in log.requests().iter() {
        if let SentRequest { answer: Some(Answer::Accepted(request_id)), final_state, is_gone, .. } = request {
            assert!(*is_gone || final_state.is_some(), "{request_id} is neither final nor gone");
            final_states.extend(final_state.clone().map(|final_state| (*request_id, final_state)));
        }
    }
    let mut model = RegistryModel::new(planted);
    let (mut walked, mut places) = (HashSet::new(), Vec::new());
    let head = ledger.head();
    assert!(log.heads().keys().all(|height| *height <= head.height), "a head was signed that the ledger lacks");
    let mut previous = Seal::default();
    for height in 1..=head.height {
        let block = ledger.block(height).expect("the read succeeds").expect("the block exists");
        assert!(block.follows(&previous), "block {height} does not follow the previous block");
        previous = Seal::of(&block.header);
        if let Some(signed) = log.heads().get(&height) {
            assert_eq!(signed.head.block_hash, previous.hash, "the signed head of block {height} is of another block");
        }
        for (position, entry) in (0..).zip(&block.entries) {
            let request_id = &entry.request_id;
            assert!(walked.insert(*request_id), "{request_id} is in two blocks");
            let signed = expected.take(entry);
            let signed = signed.unwrap_or_else(|| panic!("{request_id} is in block {height}, but no client sent it"));
            places.push((*request_id, Place { height, position }));
            let is_applied = model.apply(&signed, block.header.time);
            if let Some(final_state) = final_states.get(request_id) {
                let is_finalized = matches!(final_state, GatewayRequestState::Finalized { .. });
                assert_eq!(
                    is_finalized, is_applied,
                    "{request_id} of block {height}: {final_state:?}, but the model has another result"
                );
            }
        }
    }
    for (request_id, place) in places {
        assert_eq!(ledger.place(&request_id).expect("the read succeeds"), Some(place), "{request_id}");
        let receipt = registry.receipt(&request_id, None).expect("the read succeeds").expect("the receipt exists");
        receipt.verify().expect("the receipt verifies");
    }
    let lost: Vec<_> = expected.requests.keys().collect();
    assert!(lost.is_empty(), "accepted requests are in no block: {lost:?}");
    assert_eq!(registry.statistics().open_requests, 0, "no request is open");
    model.check_accounts(registry);
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
    kind: OperationKind,
    locks: Vec<Lock>,
    seen_final: Option<u64>,
}

/// A request with its answer.
#[derive(Clone, Debug)]
struct Submitted {
    number: usize,
    request: SignedRequest,
    answer: Answer,
    began: u64,
    /// The earliest time at which it was looked at.
    began_at: UnixSeconds,
}

/// An operation whose debug form is short.
#[derive(Clone)]
struct SignedRequest(SignedOperation);

impl std::fmt::Debug for SignedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.operation)
    }
}

impl Admission {
    /// Whether the rules refuse a request after so many accepted ones. Later the rules may allow
    /// the execution of an update, so the earliest time counts.
    ///
    /// The rules look at the published state. What an accepted request changes that is not
    /// published yet, its locks protect, except for the authenticators that a recovery revokes:
    /// they are not named in it. While one waits, the states before it count, too.
    fn refuses(&self, accepted: usize, call: &Submitted) -> bool {
        let was_seen = |before: &Accepted| before.seen_final.is_some_and(|seen| seen < call.began);
        let published = self.order[..accepted].iter().rposition(was_seen).map_or(0, |last| last + 1);
        let waiting = &self.order[published..accepted];
        let recovers = waiting.iter().any(|waiting| waiting.kind == OperationKind::RecoverAccount);
        let first = if recovers { published } else { accepted };
        let mut states = self.models[first..=accepted].iter();
        states.any(|state| !state.clone().apply(&call.request.0, call.began_at))
    }
}

impl SequentialObject for Admission {
    /// How many requests have been accepted.
    type State = usize;
    type Call = Submitted;

    fn serve(&self, accepted: &usize, call: &Submitted) -> Option<usize> {
        match call.answer {
            Answer::Accepted(_) | Answer::Same => {
                let is_next = self.order.get(*accepted).is_some_and(|next| next.number == call.number);
                is_next.then_some(accepted + 1)
            }
            Answer::Rejected(Refusal::Rule) => self.refuses(*accepted, call).then_some(*accepted),
            Answer::Rejected(Refusal::Lock) => {
                let needed = call.request.0.operation.locks();
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
pub(super) fn check_admission(ledger: &dyn LedgerReader, log: &ClientLog, planted: Planted) {
    let (mut numbers, mut calls) = (HashMap::new(), Vec::new());
    let requests = log.requests().clone();
    for (number, request) in requests.iter().enumerate() {
        let Some((answer, began)) = request.answer.zip(request.began) else { continue };
        match answer {
            Answer::Accepted(request_id) => drop(numbers.insert(request_id, number)),
            Answer::Rejected(_) => {}
            // It has the moment of the request that it repeats.
            Answer::Same => continue,
        }
        calls.push(submitted(number, request, answer, began, request.ended));
    }
    let mut more = Vec::new();
    let (mut order, mut models) = (Vec::new(), vec![RegistryModel::new(planted)]);
    for height in 1..=ledger.head().height {
        let block = ledger.block(height).expect("the read succeeds").expect("the block exists");
        for Entry { request_id, operation } in &block.entries {
            // An attempt that had no answer and was recorded beside the one that had.
            let is_unnamed = |(number, request): &(usize, &SentRequest)| {
                request.signed.operation == *operation
                    && (more.iter().filter(|other| **other == *number).count() as u64) < request.more_executions()
            };
            let (number, request) = match numbers.get(request_id) {
                Some(number) => (*number, &requests[*number]),
                None => {
                    let found = requests.iter().enumerate().find(is_unnamed);
                    let (number, request) = found.expect("every entry is a client's");
                    more.push(number);
                    let other = requests.len() + more.len();
                    let began = request.began.expect("it was sent");
                    calls.push(submitted(other, request, Answer::Accepted(*request_id), began, None));
                    (other, request)
                }
            };
            let seen_final = numbers.get(request_id).and(request.seen_final);
            let mut model = models[order.len()].clone();
            model.apply(&request.signed, block.header.time);
            order.push(Accepted { number, kind: operation.kind(), locks: operation.locks(), seen_final });
            models.push(model);
        }
    }
    if let Err(unexplained) = linearize(&Admission { order, models }, 0, &calls) {
        let unexplained: Vec<_> = unexplained.into_iter().map(|index| &calls[index]).collect();
        panic!("the answers are not those of one registry: {unexplained:#?}");
    }
}

fn submitted(number: usize, request: &SentRequest, answer: Answer, began: u64, ended: Option<u64>) -> Call<Submitted> {
    let began_at = UnixSeconds(request.began_at.as_secs());
    let request = SignedRequest(request.signed.clone());
    Call { content: Submitted { number, request, answer, began, began_at }, began, ended }
}

/// Checks a store that no service uses.
pub(super) fn check_store(store: &Store) {
    // In memory where the system has a place for that: a check writes a second store.
    let shared_memory = Path::new("/dev/shm");
    let scratch = match shared_memory.is_dir() {
        true => tempfile::tempdir_in(shared_memory),
        false => tempfile::tempdir(),
    };
    let scratch = scratch.expect("a folder for temporary files");
    let report = fsck(store, scratch.path(), &NoProgress).expect("the store is checked");
    assert_eq!(report.findings, Vec::<String>::new());
}
