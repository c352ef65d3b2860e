//! The way of each open request through the registry, for logs, traces and measurements.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::ledger::{Block, Outcome, RequestId};
use selfsame_storage::{GROUP_SIZES, Histogram, HistogramSnapshot, STEP_SECONDS};
use tokio::time::Instant;
use tracing::{Span, field};

use crate::support::slot::actor_span;

/// Upper bounds, in seconds, for the time until a request is final.
const FINAL_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// What the registry's steps took since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryMeasurements {
    /// Seconds from the admission of a request to the publication of its final state. Requests that
    /// an earlier process admitted count from this process's start.
    pub final_seconds: HistogramSnapshot,
    /// Operations in a block.
    pub block_operations: HistogramSnapshot,
    /// Seconds to read the queue, seal a block, and append it to the ledger.
    pub seal_seconds: HistogramSnapshot,
    /// Seconds to apply a block and to publish the new state.
    pub apply_seconds: HistogramSnapshot,
    /// Age of the oldest open request; `None` when none is open.
    pub oldest_open: Option<Duration>,
}

/// The open requests with their spans, and what the steps took.
pub(crate) struct OpenOperations {
    open: Mutex<HashMap<RequestId, OpenOperation>>,
    final_seconds: Histogram,
    block_operations: Histogram,
    pub seal_seconds: Histogram,
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

    /// What the steps took until now.
    pub fn measurements(&self) -> RegistryMeasurements {
        let oldest = self.lock().values().map(|open| open.since).min();
        RegistryMeasurements {
            final_seconds: self.final_seconds.snapshot(),
            block_operations: self.block_operations.snapshot(),
            seal_seconds: self.seal_seconds.snapshot(),
            apply_seconds: self.apply_seconds.snapshot(),
            oldest_open: oldest.map(|oldest| oldest.elapsed()),
        }
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
