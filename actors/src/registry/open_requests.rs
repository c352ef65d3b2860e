//! The open requests of this service: the way of each one, for logs, traces and measurements, and
//! its recovered signer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::encoding::encode;
use selfsame_protocol::ledger::{Block, Entry, Outcome, RequestId, recover_signer};
use selfsame_protocol::registry::{Operation, RecoveredSigner};
use selfsame_protocol::{Address, B256, keccak256};
use selfsame_storage::{GROUP_SIZES, Histogram, HistogramSnapshot, Metrics, STEP_SECONDS};
use tokio::time::Instant;
use tracing::{Span, field};

use crate::support::slot::actor_span;

/// Upper bounds, in seconds, for the time until a request is final.
const FINAL_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The open requests with their spans, and what the steps took.
pub(crate) struct OpenOperations {
    open: Mutex<HashMap<RequestId, OpenOperation>>,
    /// Seconds from the admission of a request to the publication of its final state. Requests that
    /// an earlier process admitted count from this process's start.
    final_seconds: Histogram,
    block_operations: Histogram,
    /// Seconds to read the queue, seal a block, and append it to the ledger.
    pub seal_seconds: Histogram,
    /// Seconds to apply a block and to publish the new state.
    pub apply_seconds: Histogram,
}

struct OpenOperation {
    /// A child of the span of the client's request, so that every line about the operation has the
    /// request id. It lasts until the operation is final, after the client's answer.
    span: Span,
    since: Instant,
}

impl Default for OpenOperations {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            final_seconds: Histogram::new(FINAL_SECONDS),
            block_operations: Histogram::new(GROUP_SIZES),
            seal_seconds: Histogram::new(STEP_SECONDS),
            apply_seconds: Histogram::new(STEP_SECONDS),
        }
    }
}

impl OpenOperations {
    /// Begins to follow a request. Its span is a child of its caller's. The span has the level of
    /// errors, as that of the client's request.
    pub fn begin(&self, request_id: RequestId, caller: &Span) {
        let span = tracing::error_span!(
            parent: caller,
            "operation",
            id = %request_id,
            height = field::Empty,
            outcome = field::Empty
        );
        self.lock().insert(request_id, OpenOperation { span, since: Instant::now() });
    }

    /// Follows the requests that are open at a start of the request tracker, and no others: of
    /// those that an earlier tracker admitted, some were not written.
    pub fn begin_again(&self, open: impl IntoIterator<Item = RequestId>) {
        let mut before = std::mem::take(&mut *self.lock());
        for request_id in open {
            match before.remove(&request_id) {
                Some(operation) => drop(self.lock().insert(request_id, operation)),
                None => self.begin(request_id, &Span::none()),
            }
        }
    }

    /// Ends following a request.
    pub fn end(&self, request_id: &RequestId) {
        self.lock().remove(request_id);
    }

    /// The span of a request; a span without effect when the request is not followed.
    pub fn span(&self, request_id: &RequestId) -> Span {
        self.lock().get(request_id).map_or_else(Span::none, |open| open.span.clone())
    }

    /// Records that `actor` sealed a block and appended it to the ledger.
    pub fn record_sealed(&self, actor: &str, block: &Block) {
        self.block_operations.observe(f64::from(block.header.count));
        let height = block.header.height;
        for (position, entry) in block.entries.iter().enumerate() {
            let span = self.span(&entry.request_id);
            span.record("height", height);
            log_step(&span, actor, || tracing::debug!(height, position, "sealed a request into a block"));
        }
    }

    /// Records the outcomes of a block whose state `actor` has published.
    pub fn record_published(&self, actor: &str, block: &Block, outcomes: &[Outcome]) {
        let height = block.header.height;
        for (entry, outcome) in std::iter::zip(&block.entries, outcomes) {
            let Some((span, since)) = self.lock().get(&entry.request_id).map(|open| (open.span.clone(), open.since))
            else {
                continue;
            };
            self.final_seconds.observe_duration(since.elapsed());
            log_step(&span, actor, || match outcome {
                Outcome::Applied { .. } => {
                    span.record("outcome", "finalized");
                    tracing::debug!(height, "finalized a request");
                }
                Outcome::Failed { rule, .. } => {
                    span.record("outcome", "failed");
                    tracing::debug!(height, rule, "a request failed by a rule of the registry");
                }
            });
        }
    }

    /// Adds what the steps take to `metrics`.
    pub fn register(&self, metrics: &mut Metrics) {
        let Self { open: _, final_seconds, block_operations, seal_seconds, apply_seconds } = self;
        let help = "Time from the admission of a request to its published final state";
        metrics.add("selfsame_registry_request_duration_seconds", help, final_seconds.clone());
        metrics.add("selfsame_registry_block_operations", "Operations in a block", block_operations.clone());
        let help = "Time to seal a block and to append it to the ledger, with the sync";
        metrics.add("selfsame_registry_block_seal_duration_seconds", help, seal_seconds.clone());
        let help = "Time to apply a block and to publish the new state";
        metrics.add("selfsame_registry_block_apply_duration_seconds", help, apply_seconds.clone());
    }

    /// The seconds from the admission of requests to their published final state, since the start.
    pub fn final_seconds(&self) -> HistogramSnapshot {
        self.final_seconds.snapshot()
    }

    /// Age of the oldest open request; `None` when none is open.
    pub fn oldest(&self) -> Option<Duration> {
        let oldest = self.lock().values().map(|open| open.since).min();
        oldest.map(|oldest| oldest.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, OpenOperation>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `write`, which logs a line at debug level, as `actor` in the span of an operation.
pub(super) fn log_step(operation: &Span, actor: &str, write: impl FnOnce()) {
    // A block has thousands of operations, so no span is made that no line needs.
    match tracing::enabled!(tracing::Level::DEBUG) {
        true => operation.in_scope(|| actor_span(operation, actor).in_scope(write)),
        false => write(),
    }
}

// The signers of this service's own open requests, so that their signatures are recovered once.

/// Fewer signatures than this are recovered on the thread that needs them.
const LEAST_IN_PARALLEL: usize = 8;

/// What the signatures of open requests recovered to when this process admitted them.
///
/// The key is the hash of the whole operation, with its signature: a block that comes from
/// elsewhere finds a signer here only for an operation that this process has recovered itself. What
/// is not found, as after a restart, is recovered. Nothing is ever written of it.
#[derive(Default)]
pub(crate) struct RecoveredSigners {
    by_operation: Mutex<HashMap<B256, Address>>,
}

impl RecoveredSigners {
    /// Keeps the signer of an operation until [`RecoveredSigners::forget`]. Does nothing for an
    /// operation that is not signed.
    pub fn keep(&self, operation_hash: B256, signer: RecoveredSigner) {
        if let Some(Ok(signer)) = signer {
            self.lock().insert(operation_hash, signer);
        }
    }

    /// Forgets the signer of an operation.
    pub fn forget(&self, operation_hash: &B256) {
        self.lock().remove(operation_hash);
    }

    /// Forgets all signers.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The signer of each entry, as [`selfsame_protocol::ledger::recover_signers`] gives them: the
    /// kept ones, and the others recovered on all cores.
    pub fn signers_of(&self, entries: &[Entry], domain: &RegistryDomain) -> Vec<RecoveredSigner> {
        let mut signers: Vec<RecoveredSigner> = vec![None; entries.len()];
        let signed = entries.iter().enumerate().filter(|(_, entry)| entry.operation.signature().is_some());
        let mut unknown = Vec::new();
        let hashes: Vec<_> = signed.map(|(position, entry)| (position, hash_operation(&entry.operation))).collect();
        if hashes.is_empty() {
            return signers;
        }
        {
            let known = self.lock();
            for (position, hash) in hashes {
                match known.get(&hash) {
                    Some(signer) => signers[position] = Some(Ok(*signer)),
                    None => unknown.push(position),
                }
            }
        }
        let recover = |position: usize| (position, recover_signer(&entries[position].operation, domain));
        let recovered: Vec<_> = match unknown.len() < LEAST_IN_PARALLEL {
            true => unknown.into_iter().map(recover).collect(),
            false => unknown.into_par_iter().map(recover).collect(),
        };
        for (position, signer) in recovered {
            signers[position] = signer;
        }
        signers
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, Address>> {
        self.by_operation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hash of an operation's kind and all its fields, the signature among them.
pub(crate) fn hash_operation(operation: &Operation) -> B256 {
    keccak256(encode(operation))
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::U256;
    use selfsame_protocol::ids::{LeafIndex, Nonce};
    use selfsame_protocol::ledger::{RequestId, recover_signers};
    use selfsame_protocol::registry::{CancelRecoveryAgentUpdate, ExecuteRecoveryAgentUpdate};
    use selfsame_protocol::signature::{SecretKey, Signature};
    use zeroize::Zeroizing;

    use super::*;

    const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(7) };

    fn signed(key: u8, leaf_index: u64) -> Operation {
        let (leaf_index, nonce) = (LeafIndex(leaf_index), Nonce(U256::ZERO));
        let unsigned = CancelRecoveryAgentUpdate { leaf_index, signature: Signature([0; 65]), nonce };
        let digest = DOMAIN.signing_digest(&Operation::CancelRecoveryAgentUpdate(unsigned.clone())).expect("a digest");
        let signature =
            SecretKey::from_bytes(&Zeroizing::new([key; 32])).expect("a key").sign(&digest).expect("signed");
        Operation::CancelRecoveryAgentUpdate(CancelRecoveryAgentUpdate { signature, ..unsigned })
    }

    fn entries(operations: Vec<Operation>) -> Vec<Entry> {
        let entry = |(number, operation)| Entry { request_id: RequestId::from_random([number; 16]), operation };
        (0..).zip(operations).map(entry).collect()
    }

    #[test]
    fn kept_signers_are_those_of_their_operations_and_of_no_others() {
        let signers = RecoveredSigners::default();
        let kept = signed(1, 1);
        let stranger = Address::repeat_byte(9);
        signers.keep(hash_operation(&kept), Some(Ok(stranger)));
        // The same request with another signature, and another operation with the same signature.
        let other_signature = signed(2, 1);
        let mut other_operation = kept.clone();
        if let Operation::CancelRecoveryAgentUpdate(operation) = &mut other_operation {
            operation.leaf_index = LeafIndex(2);
        }
        let unsigned = Operation::ExecuteRecoveryAgentUpdate(ExecuteRecoveryAgentUpdate { leaf_index: LeafIndex(1) });
        let entries = entries(vec![kept.clone(), other_signature, other_operation, unsigned]);
        let recovered = recover_signers(&entries, &DOMAIN);
        let found = signers.signers_of(&entries, &DOMAIN);
        assert_eq!(found[0], Some(Ok(stranger)), "what was kept is not recovered again");
        assert_eq!(found[1..], recovered[1..]);
        signers.forget(&hash_operation(&kept));
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recovered);
    }

    #[test]
    fn many_signatures_are_recovered_in_their_order() {
        let signers = RecoveredSigners::default();
        let entries = entries((1..=40).map(|key| signed(key, u64::from(key))).collect());
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
        signers.keep(hash_operation(&entries[3].operation), recover_signer(&entries[3].operation, &DOMAIN));
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
        signers.clear();
        assert_eq!(signers.signers_of(&entries, &DOMAIN), recover_signers(&entries, &DOMAIN));
    }
}
